%% Read levels without a cluster, where there is nobody to ask.
-module(todana_read_tests).
-include_lib("eunit/include/eunit.hrl").

read_test_() ->
    {setup,
     fun() -> application:ensure_all_started(todana) end,
     fun(_) -> application:stop(todana) end,
     [
        fun nothing_waits/0,
        fun wrong_arguments_are_named/0
     ]}.

nothing_waits() ->
    {ok, T} = todana:open(reads, #{}),
    ok = todana:put(T, ~"k", ~"v"),
    [
        begin
            ?assertEqual(ok, todana:refresh(T, Level)),
            Options = #{read => Level},
            ?assertEqual(~"v", todana:get(T, ~"k", none, Options)),
            ?assertEqual(none, todana:get(T, ~"x", none, Options)),
            ?assertMatch({ok, #{value := ~"v"}},
                         todana:get_entry(T, ~"k", Options)),
            ?assertEqual(#{~"k" => ~"v"},
                         todana:get_many(T, [~"k", ~"x"], Options))
        end
     || Level <- [local, bounded, linear]
    ],
    ?assertEqual(~"v", todana:get(T, ~"k", none, #{})),
    ?assertEqual(0, todana:index(T)),
    ?assertEqual(ok, todana:read_after(T, 17)),
    ok = todana:close(T).

wrong_arguments_are_named() ->
    {ok, T} = todana:open(reads, #{}),
    [
        ?assertEqual({badarg, #{Number => Text}}, raised(Call))
     || {Number, Text, Call} <- [
            {4, "option read must be local, bounded or linear",
             fun() -> todana:get(T, ~"k", none, #{read => strong}) end},
            {3, "get_many takes no option ttl_ms; its options are read",
             fun() -> todana:get_many(T, [], #{ttl_ms => 1}) end},
            {3, "options must be a map, for example #{read => linear}",
             fun() -> todana:get_entry(T, ~"k", linear) end},
            {2, "not local, bounded or linear",
             fun() -> todana:refresh(T, strong) end},
            {2, "not a number that index/1 returned",
             fun() -> todana:read_after(T, -1) end},
            {1, "no open table of this name, or a closed handle",
             fun() -> todana:refresh(no_table, linear) end},
            {1, "no open table of this name, or a closed handle",
             fun() -> todana:index(no_table) end}
        ]
    ],
    ok = todana:close(T).

raised(Call) ->
    try Call() of
        Result -> {returned, Result}
    catch
        error:Reason:Stack ->
            Texts = todana_error:format_error(Reason, Stack),
            {Reason, maps:map(fun(_, Text) -> lists:flatten(Text) end, Texts)}
    end.
