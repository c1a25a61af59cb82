%% Whether an orderly stop writes a snapshot.
-module(todana_stop_tests).

-include_lib("eunit/include/eunit.hrl").

-define(MIB, (1 bsl 20)).

a_long_log_is_worth_a_snapshot_test() ->
    ?assert(is_worthwhile(#{})),
    ?assert(is_worthwhile(#{log_bytes => 8 * ?MIB, data_bytes => 0})).

a_short_log_is_not_test() ->
    ?assertNot(is_worthwhile(#{log_bytes => 8 * ?MIB - 1, data_bytes => 0})),
    ?assertNot(is_worthwhile(#{log_bytes => 18 * ?MIB,
                               data_bytes => 150 * ?MIB})).

what_takes_long_is_not_begun_test() ->
    Much = #{log_bytes => 200 * ?MIB, data_bytes => 600 * ?MIB},
    ?assertNot(is_worthwhile(Much)),
    %% The disk is known to be fast, or slow.
    Last = fun(Ms) ->
        #{last_snapshot => #{bytes => 500 * ?MIB, duration_ms => Ms}}
    end,
    ?assert(is_worthwhile(maps:merge(Much, Last(1_000)))),
    ?assertNot(is_worthwhile(Last(100_000))).

it_needs_room_test() ->
    ?assertNot(is_worthwhile(#{disk_free_bytes => 100 * ?MIB})).

is_worthwhile(Changes) ->
    todana_stop:is_worthwhile(maps:merge(
        #{
            log_bytes => 100 * ?MIB,
            data_bytes => 150 * ?MIB,
            disk_free_bytes => 1_000 * ?MIB
        },
        Changes
    )).
