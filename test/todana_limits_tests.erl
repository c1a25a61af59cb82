%% Limits that change while a table is open.
-module(todana_limits_tests).

-include_lib("eunit/include/eunit.hrl").

-define(T, limits_table).
%% Records that one step of the sweeper, or one write, evicts at most; and the
%% last sample of a step may add a few.
-define(EVICTIONS_MAX, (256 + 4)).

limits_test_() ->
    {foreach, fun open/0, fun close/1, [
        fun a_lower_limit_evicts_in_bounded_steps/0,
        fun a_write_evicts_some_of_the_excess/0,
        fun fewer_bytes_evict/0,
        fun a_table_that_refuses_removes_nothing/0,
        fun a_limit_may_be_raised_or_lifted/0,
        fun a_ttl_applies_to_later_writes/0,
        fun open_compares_with_the_new_limits/0,
        fun misuse/0
    ]}.

open() ->
    {ok, Started} = application:ensure_all_started(todana),
    ok = sys:suspend(todana_sweeper),
    {ok, _} = todana:open(?T, #{codec => term}),
    ok = todana:put_many(?T, [{N, N} || N <- lists:seq(1, 5_000)]),
    Started.

close(Started) ->
    ok = sys:resume(todana_sweeper),
    ok = todana:close(?T),
    [ok = application:stop(Application) || Application <- Started].

a_lower_limit_evicts_in_bounded_steps() ->
    ok = todana:set_limits(?T, #{entries_max => 1_000}),
    ?assertEqual(5_000, todana:count(?T)),
    Steps = sweep(5_000, []),
    ?assertEqual(1_000, todana:count(?T)),
    ?assert(length(Steps) >= 4_000 div ?EVICTIONS_MAX),
    ?assertEqual([], [Step || Step <- Steps, Step > ?EVICTIONS_MAX]),
    ?assertMatch(#{evicted := 4_000, entries := 1_000}, todana:info(?T)).

%% How many records each step of the sweeper removed.
sweep(Before, Steps) ->
    {_Expired, More} = todana_nif:sweep(?T, 256),
    After = todana:count(?T),
    case More of
        true -> sweep(After, [Before - After | Steps]);
        false -> [Before - After | Steps]
    end.

a_write_evicts_some_of_the_excess() ->
    ok = todana:set_limits(?T, #{entries_max => 1_000}),
    ok = todana:put(?T, new, v),
    Count = todana:count(?T),
    ?assert(Count < 5_000 andalso Count >= 5_000 - ?EVICTIONS_MAX),
    ?assertEqual({ok, v}, todana:get(?T, new)).

fewer_bytes_evict() ->
    Half = todana:bytes(?T) div 2,
    ok = todana:set_limits(?T, #{bytes_max => Half}),
    _ = sweep(5_000, []),
    ?assert(todana:bytes(?T) =< Half),
    ?assert(todana:count(?T) > 2_000).

a_table_that_refuses_removes_nothing() ->
    ok = todana:set_limits(?T, #{entries_max => 10, when_full => refuse}),
    _ = sweep(5_000, []),
    ?assertEqual(5_000, todana:count(?T)),
    ?assertEqual({error, full}, todana:put(?T, new, v)),
    ok = todana:set_limits(?T, #{entries_max => 5_001}),
    ok = todana:put(?T, new, v),
    ?assertEqual({error, full}, todana:put(?T, newer, v)).

a_limit_may_be_raised_or_lifted() ->
    ok = todana:set_limits(?T, #{entries_max => 5_000, bytes_max => 1 bsl 40}),
    ok = todana:put(?T, a, v),
    ?assertEqual(5_000, todana:count(?T)),
    ok = todana:set_limits(?T, #{entries_max => infinity}),
    ok = todana:put(?T, b, v),
    ?assertEqual(5_001, todana:count(?T)),
    ?assertMatch(#{entries_max := infinity, bytes_max := 1_099_511_627_776,
                   when_full := evict, ttl_ms := infinity},
                 todana:info(?T)).

a_ttl_applies_to_later_writes() ->
    ok = todana:set_limits(?T, #{ttl_ms => 60_000}),
    ok = todana:put(?T, new, v),
    {ok, Ttl} = todana:ttl(?T, new),
    ?assert(Ttl > 30_000 andalso Ttl =< 60_000),
    ?assertEqual({ok, infinity}, todana:ttl(?T, 1)),
    ok = todana:set_limits(?T, #{ttl_ms => infinity}),
    ok = todana:put(?T, new, v),
    ?assertEqual({ok, infinity}, todana:ttl(?T, new)).

open_compares_with_the_new_limits() ->
    ok = todana:set_limits(?T, #{entries_max => 9_000, ttl_ms => 1_000,
                                 when_full => refuse}),
    ?assertEqual(
        {error, {exists, #{entries_max => {9_000, infinity},
                           ttl_ms => {1_000, infinity},
                           when_full => {refuse, evict}}}},
        todana:open(?T, #{codec => term})
    ),
    Handle = todana:handle(?T),
    ?assertEqual({ok, Handle},
                 todana:open(?T, #{codec => term, entries_max => 9_000,
                                   ttl_ms => 1_000, when_full => refuse})).

misuse() ->
    {ok, _} = todana:open(db4, #{}),
    [
        ?assertEqual({Table, Limits, #{N => Cause}},
                     {Table, Limits, cause(Table, Limits)})
     || {Table, Limits, N, Cause} <- [
            {none, #{entries_max => 1}, 1, no_such_table},
            {db4, #{entries_max => 1}, 1, is_a_database},
            {?T, [{entries_max, 1}], 2, not_a_map},
            {?T, #{shards => 1}, 2, {unknown_option, shards}},
            {?T, #{codec => raw}, 2, {unknown_option, codec}},
            {?T, #{entries_max => 0}, 2, {bad_option, entries_max}},
            {?T, #{bytes_max => -1}, 2, {bad_option, bytes_max}},
            {?T, #{ttl_ms => keep}, 2, {bad_option, ttl_ms}},
            {?T, #{when_full => drop}, 2, {bad_option, when_full}}
        ]
    ],
    ok = todana:close(db4),
    ok = todana:set_limits(?T, #{}),
    ?assertMatch(#{entries_max := infinity}, todana:info(?T)).

cause(Table, Limits) ->
    try
        todana:set_limits(Table, Limits)
    catch
        error:badarg:Stack ->
            [{todana, set_limits, [_, _], Location} | _] = Stack,
            #{cause := Cause} = proplists:get_value(error_info, Location),
            #{} = todana_error:format_error(badarg, Stack),
            Cause
    end.
