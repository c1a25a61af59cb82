%% Whether an orderly stop writes a snapshot, and what others see of a stop and
%% of a start.
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

%% The listener ends before those that ask it where it listens.
a_listener_that_stops_has_no_addresses_test() ->
    _ = application:stop(todana),
    Test = self(),
    Listener = spawn(fun() ->
        true = register(todana_listener, self()),
        Test ! registered,
        receive {'$gen_call', _, addresses} -> exit(shutdown) end
    end),
    receive registered -> ok end,
    ?assertEqual([], todana_listener:addresses()),
    ?assertNot(is_process_alive(Listener)).

%% A node that has no sockets yet has locked its directory already.
a_node_that_starts_has_locked_its_directory_test_() ->
    Locks = ~"""
        1: FLOCK  ADVISORY  WRITE 812 fe:00:1234567 0 EOF
        2: POSIX  ADVISORY  READ  77 00:1b:42 0 EOF
        2: -> POSIX ADVISORY  WRITE 78 00:1b:42 0 EOF

        """,
    [
        ?_assertEqual(Is, todana_control_path:is_locked(Inode, Locks))
     || {Inode, Is} <- [{1234567, true}, {42, true}, {812, false}, {7, false},
                        {234567, false}]
    ].

is_worthwhile(Changes) ->
    todana_stop:is_worthwhile(maps:merge(
        #{
            log_bytes => 100 * ?MIB,
            data_bytes => 150 * ?MIB,
            disk_free_bytes => 1_000 * ?MIB
        },
        Changes
    )).
