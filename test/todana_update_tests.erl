%% `todana:update': in every kind of table, with others that write meanwhile.
-module(todana_update_tests).

-include_lib("eunit/include/eunit.hrl").

-define(TABLES, [update_raw, update_term, update_ordered, update_terms, db3]).

update_test_() ->
    {setup, fun start/0, fun stop/1, [
        {foreach, fun open/0, fun close/1, [
            fun(_) -> {Title, fun() -> each(Test) end} end
         || {Title, Test} <- [
                {"what the function returns", fun decisions/1},
                {"expiry and flags stay", fun metadata/1},
                {"exceptions and misuse", fun misuse/1},
                {"another write calls the function again", fun again/1},
                {"attempts are bounded", fun attempts/1},
                {"large values", fun large/1},
                {"no increment is lost", fun increments/1}
            ]
        ]},
        {"a new record gets the table's ttl_ms", fun table_ttl/0},
        {"no room", fun full/0},
        {"keys are compared as bytes", fun keys/0},
        {"iodata is returned as it is stored", fun iodata/0},
        {"another table of the same name", fun reopened/0}
    ]}.

start() ->
    {ok, Started} = application:ensure_all_started(todana),
    Started.

stop(Started) ->
    [ok = application:stop(Application) || Application <- Started].

open() ->
    Ordered = #{type => ordered_set},
    Options = [#{}, #{codec => term}, Ordered, Ordered#{codec => term}, #{}],
    [{ok, _} = todana:open(T, O) || {T, O} <- lists:zip(?TABLES, Options)].

close(_) ->
    [_ = todana:clear(T) || T <- ?TABLES],
    [ok = todana:close(T) || T <- ?TABLES].

each(Test) ->
    lists:foreach(Test, [todana:handle(update_raw) | ?TABLES]).

decisions(T) ->
    _ = todana:clear(T),
    Seen = fun(Action) ->
        fun(Present) -> self() ! {seen, Present}, Action end
    end,
    Update = fun(Action) ->
        Result = todana:update(T, ~"k", Seen(Action)),
        receive {seen, Present} -> {Present, Result} end
    end,
    ?assertEqual({error, ok}, Update(keep)),
    ?assertEqual({error, ok}, Update(delete)),
    ?assertEqual({error, {error, why}}, Update({error, why})),
    ?assertEqual({error, {ok, ~"1"}}, Update({put, ~"1"})),
    ?assertEqual({{ok, ~"1"}, ok}, Update(keep)),
    ?assertEqual({{ok, ~"1"}, {error, why}}, Update({error, why})),
    ?assertEqual({{ok, ~"1"}, {ok, ~"2"}}, Update({put, ~"2", #{}})),
    ?assertEqual({{ok, ~"2"}, ok}, Update(delete)),
    ?assertEqual({error, ok}, Update(keep)),
    ?assertEqual(0, todana:count(T)).

metadata(T) ->
    AtMs = os:system_time(millisecond) + 1_000_000,
    Put = fun(V, Options) ->
        {ok, V} = todana:update(T, ~"k", fun(_) -> {put, V} end, Options),
        {ok, #{flags := Flags, expires_at_ms := At}} =
            todana:get_entry(T, ~"k"),
        {Flags, At}
    end,
    _ = todana:clear(T),
    ?assertEqual({0, infinity}, Put(~"1", #{})),
    ?assertEqual({7, AtMs}, Put(~"2", #{flags => 7, expires_at_ms => AtMs})),
    ?assertEqual({7, AtMs}, Put(~"3", #{})),
    ?assertEqual({0, AtMs}, Put(~"4", #{flags => 0, ttl_ms => keep})),
    ?assertEqual({0, infinity}, Put(~"5", #{ttl_ms => infinity})),
    %% What the function asks for goes before the options.
    Own = fun(_) -> {put, ~"6", #{expires_at_ms => AtMs}} end,
    {ok, ~"6"} = todana:update(T, ~"k", Own, #{ttl_ms => 5, flags => 3}),
    ?assertMatch({ok, #{flags := 3, expires_at_ms := AtMs}},
                 todana:get_entry(T, ~"k")),
    Past = fun({ok, _}) -> {put, ~"7", #{expires_at_ms => 1}} end,
    {ok, ~"7"} = todana:update(T, ~"k", Past),
    ?assertEqual(error, todana:get(T, ~"k")).

misuse(T) ->
    ok = todana:put(T, ~"k", ~"v"),
    Update = fun(F) -> todana:update(T, ~"k", F) end,
    ?assertError(oops, Update(fun(_) -> error(oops) end)),
    ?assertThrow(ball, Update(fun(_) -> throw(ball) end)),
    ?assertError({bad_return_value, ok}, Update(fun(_) -> ok end)),
    ?assertError({bad_return_value, {put}}, Update(fun(_) -> {put} end)),
    ?assertEqual(#{3 => {not_a_function, 1}},
                 cause(fun() -> Update(fun() -> keep end) end)),
    Ttl = fun(_) -> {put, ~"w", #{ttl => 5}} end,
    ?assertEqual(#{3 => {returned, {unknown_option, ttl}}},
                 cause(fun() -> Update(Ttl) end)),
    Only = fun(_) -> {put, ~"w", #{only => absent}} end,
    ?assertEqual(#{3 => {returned, {unknown_option, only}}},
                 cause(fun() -> Update(Only) end)),
    Options = fun(O) ->
        cause(fun() -> todana:update(T, ~"k", fun(_) -> keep end, O) end)
    end,
    ?assertEqual(#{4 => {unknown_option, tries}}, Options(#{tries => 1})),
    ?assertEqual(#{4 => {bad_option, attempts}}, Options(#{attempts => 0})),
    ?assertEqual(#{1 => no_such_table}, cause(fun() ->
        todana:update(no_such, ~"k", fun(_) -> keep end)
    end)),
    case todana:info(T) of
        #{codec := raw} ->
            ?assertEqual(#{3 => {returned, not_iodata}},
                         cause(fun() -> Update(fun(_) -> {put, v} end) end)),
            ?assertEqual(#{2 => not_iodata}, cause(fun() ->
                todana:update(T, k, fun(_) -> keep end)
            end));
        #{codec := term, type := Type} ->
            Causes = #{set => local_fun, ordered_set => no_order},
            ?assertEqual(#{2 => maps:get(Type, Causes)}, cause(fun() ->
                todana:update(T, fun() -> k end, fun(_) -> keep end)
            end))
    end,
    ?assertEqual({ok, ~"v"}, todana:get(T, ~"k")).

cause(Call) ->
    try Call() of
        Result -> {returned, Result}
    catch
        error:badarg:Stack ->
            [{todana, update, _, Location} | _] = Stack,
            #{cause := Cause} = proplists:get_value(error_info, Location),
            Cause
    end.

%% A write of another process between the look and the write.
again(T) ->
    ok = todana:put(T, ~"k", ~"a"),
    Result = todana:update(T, ~"k", fun
        ({ok, ~"a"}) -> ok = todana:put(T, ~"k", ~"b"), {put, ~"lost"};
        ({ok, ~"b"}) -> ok = todana:delete(T, ~"k"), {put, ~"lost"};
        (error) -> {put, ~"c"}
    end),
    ?assertEqual({ok, ~"c"}, Result),
    %% The same value of another write is another record.
    Count = counters:new(1, []),
    Rewrite = fun({ok, ~"c"}) ->
        counters:add(Count, 1, 1),
        case counters:get(Count, 1) of
            1 -> ok = todana:put(T, ~"k", ~"c");
            2 -> ok
        end,
        delete
    end,
    ?assertEqual(ok, todana:update(T, ~"k", Rewrite)),
    ?assertEqual(2, counters:get(Count, 1)),
    %% Created meanwhile.
    Create = fun
        (error) -> ok = todana:put(T, ~"k", ~"d"), {put, ~"lost"};
        ({ok, ~"d"}) -> {put, ~"e"}
    end,
    ?assertEqual({ok, ~"e"}, todana:update(T, ~"k", Create)).

attempts(T) ->
    ok = todana:put(T, ~"k", ~"v"),
    Count = counters:new(1, []),
    Unlucky = fun(_) ->
        counters:add(Count, 1, 1),
        ok = todana:put(T, ~"k", ~"theirs"),
        {put, ~"mine"}
    end,
    lists:foreach(
        fun(Attempts) ->
            counters:put(Count, 1, 0),
            Options = #{attempts => Attempts},
            ?assertEqual({error, conflict},
                         todana:update(T, ~"k", Unlucky, Options)),
            ?assertEqual(Attempts, counters:get(Count, 1)),
            ?assertEqual({ok, ~"theirs"}, todana:get(T, ~"k"))
        end,
        [1, 2, 7]
    ),
    ok = todana:put(T, ~"k", ~"v"),
    Stubborn = fun({ok, V}) ->
        case byte_size(V) < 9 of
            true -> ok = todana:put(T, ~"k", <<V/binary, "x">>);
            false -> ok
        end,
        {put, <<V/binary, "y">>}
    end,
    ?assertEqual(
        {ok, ~"vxxxxxxxxy"},
        todana:update(T, ~"k", Stubborn, #{attempts => infinity})
    ).

large(T) ->
    _ = todana:clear(T),
    Large = rand:bytes(3 bsl 20),
    {ok, Large} = todana:update(T, ~"k", fun(error) -> {put, Large} end),
    ?assertEqual({ok, Large}, todana:get(T, ~"k")),
    Shorten = fun({ok, V}) -> {put, binary:part(V, 0, 1000)} end,
    {ok, Small} = todana:update(T, ~"k", Shorten),
    ?assertEqual({ok, Small}, todana:get(T, ~"k")),
    case todana:info(T) of
        #{codec := raw} ->
            {ok, _} = todana:update(T, ~"k", fun(_) -> {put, [Small, $x]} end),
            ?assertEqual({ok, <<Small/binary, $x>>}, todana:get(T, ~"k"));
        #{codec := term} ->
            Term = #{list => lists:seq(1, 10_000)},
            {ok, Term} = todana:update(T, ~"k", fun(_) -> {put, Term} end),
            ?assertEqual({ok, Term}, todana:get(T, ~"k")),
            {ok, _} = todana:update(T, {a, ~"b"}, fun(error) ->
                {put, fun() -> ok end}
            end)
    end.

%% Where a read and a write were not one step, increments would be lost. A
%% conflict that is reported is no increment.
increments(T) ->
    {Encode, Decode} =
        case todana:info(T) of
            #{codec := raw} ->
                {fun integer_to_binary/1, fun binary_to_integer/1};
            #{codec := term} ->
                {fun(N) -> {n, N} end, fun({n, N}) -> N end}
        end,
    _ = todana:clear(T),
    Increment = fun
        ({ok, V}) -> {put, Encode(Decode(V) + 1)};
        (error) -> {put, Encode(1)}
    end,
    Me = self(),
    Pids = [
        spawn_link(fun() ->
            Results = [
                todana:update(T, ~"n", Increment)
             || _ <- lists:seq(1, 1000)
            ],
            Me ! {self(), length([ok || {ok, _} <- Results])}
        end)
     || _ <- lists:seq(1, 8)
    ],
    Done = lists:sum([receive {Pid, N} -> N end || Pid <- Pids]),
    {ok, Last} = todana:get(T, ~"n"),
    ?assertEqual(Done, Decode(Last)),
    ?assert(Done > 0).

table_ttl() ->
    {ok, _} = todana:open(update_ttl, #{ttl_ms => 1_000_000}),
    {ok, ~"v"} = todana:update(update_ttl, ~"k", fun(error) -> {put, ~"v"} end),
    {ok, #{expires_at_ms := At}} = todana:get_entry(update_ttl, ~"k"),
    ?assert(is_integer(At)),
    {ok, ~"w"} = todana:update(update_ttl, ~"k", fun(_) -> {put, ~"w"} end),
    ?assertMatch({ok, #{expires_at_ms := At}},
                 todana:get_entry(update_ttl, ~"k")),
    ok = todana:close(update_ttl).

full() ->
    Options = #{entries_max => 1, when_full => refuse, codec => term},
    {ok, _} = todana:open(update_full, Options),
    One = fun(_) -> {put, 1} end,
    {ok, 1} = todana:update(update_full, a, One),
    ?assertEqual({error, full}, todana:update(update_full, b, One)),
    ?assertEqual({ok, 1}, todana:update(update_full, a, One)),
    ok = todana:close(update_full).

keys() ->
    {ok, _} = todana:open(update_keys, #{}),
    Add = fun
        (error) -> {put, ~"1"};
        ({ok, V}) -> {put, <<V/binary, "1">>}
    end,
    {ok, ~"1"} = todana:update(update_keys, ["a", ~"b"], Add),
    {ok, ~"11"} = todana:update(update_keys, ~"ab", Add),
    ok = todana:close(update_keys).

iodata() ->
    {ok, _} = todana:open(update_keys, #{}),
    Put = fun(error) -> {put, [~"a", $b]} end,
    ?assertEqual({ok, ~"ab"}, todana:update(update_keys, ~"k", Put)),
    ok = todana:close(update_keys).

%% Versions begin again in the new table, so its record could be mistaken for
%% the one that was read.
reopened() ->
    {ok, _} = todana:open(update_keys, #{}),
    ok = todana:put(update_keys, ~"k", ~"1"),
    Replace = fun({ok, ~"1"}) ->
        ok = todana:close(update_keys),
        {ok, _} = todana:open(update_keys, #{}),
        ok = todana:put(update_keys, ~"k", ~"other"),
        {put, ~"2"}
    end,
    ?assertError(badarg, todana:update(update_keys, ~"k", Replace)),
    ?assertEqual({ok, ~"other"}, todana:get(update_keys, ~"k")),
    ok = todana:close(update_keys).
