%% The Erlang API, function by function, with both codecs.
-module(todana_tests).

-include_lib("eunit/include/eunit.hrl").

%% ------------------------------------------------------------- fixtures ---

api_test_() ->
    {setup, fun start/0, fun stop/1, [
        {foreach, fun open/0, fun close/1, [
            with_tables(Title, Test)
         || {Title, Test} <- both() ++ [
                {"raw", fun raw/1},
                {"term", fun terms/1},
                {"misuse", fun misuse/1},
                {"tables", fun tables/1},
                {"limits", fun limits/1}
            ]
        ]},
        {"large shards", fun large_shards/0},
        {"names are given back", fun many_names/0}
    ]}.

both() ->
    [
        {"get and put", fun get_and_put/1},
        {"conditional put", fun conditional_put/1},
        {"entry and compare_and_swap", fun compare_and_swap/1},
        {"delete and take", fun delete_and_take/1},
        {"counters", fun counters/1},
        {"expiry", fun expiry/1},
        {"many", fun many/1},
        {"many, atomic", fun many_atomic/1},
        {"scan and fold", fun scan_and_fold/1},
        {"snapshot", fun snapshot/1},
        {"snapshot without expired records", fun snapshot_without_expired/1},
        {"snapshot abandoned", fun snapshot_abandoned/1},
        {"snapshot whose reader dies", fun snapshot_of_the_dead/1},
        {"large values", fun large_values/1},
        {"large values together", fun large_together/1},
        {"long lists", fun long_lists/1},
        {"the work of one call is bounded", fun bounded_calls/1},
        {"large values cost reductions", fun large_values_cost_reductions/1},
        {"large terms of a page", fun large_terms_of_a_page/1},
        {"values outlive their records", fun values_outlive/1},
        {"statistics", fun counted_looks/1}
    ].

start() ->
    {ok, Started} = application:ensure_all_started(todana),
    Started.

stop(Started) ->
    [ok = application:stop(Application) || Application <- Started].

open() ->
    {ok, _} = todana:open(raw_table, #{}),
    {ok, Handle} = todana:open(term_table, #{codec => term}),
    [raw_table, term_table, Handle].

close(_Tables) ->
    [ok = todana:close(Name) || Name <- todana:list()].

%% Runs the test with each table, after clearing it.
with_tables(Title, Test) ->
    fun(Tables) ->
        {Title, fun() ->
            lists:foreach(
                fun(Table) ->
                    _ = todana:clear(Table),
                    Test(Table)
                end,
                Tables
            )
        end}
    end.

is_term(Table) ->
    #{codec := Codec} = todana:info(Table),
    Codec =:= term.

%% ---------------------------------------------------------------- tests ---

get_and_put(T) ->
    ?assertEqual(error, todana:get(T, ~"k")),
    ?assertEqual(none, todana:get(T, ~"k", none)),
    ?assertNot(todana:is_key(T, ~"k")),
    ?assertEqual(ok, todana:put(T, ~"k", ~"v")),
    ?assertEqual({ok, ~"v"}, todana:get(T, ~"k")),
    ?assertEqual(~"v", todana:get(T, ~"k", none)),
    ?assert(todana:is_key(T, ~"k")),
    ?assertEqual(ok, todana:put(T, ~"k", ~"")),
    ?assertEqual({ok, ~""}, todana:get(T, ~"k")),
    ?assertEqual(ok, todana:put(T, ~"", ~"empty key")),
    ?assertEqual({ok, ~"empty key"}, todana:get(T, ~"")),
    ?assertEqual(2, todana:count(T)),
    ?assertEqual(2, todana:clear(T)),
    ?assertEqual(0, todana:bytes(T)).

conditional_put(T) ->
    Put = fun(V, Options) -> todana:put(T, ~"k", V, Options) end,
    ?assertEqual({error, absent}, Put(~"1", #{only => present})),
    ?assertEqual({error, absent}, Put(~"1", #{only => {version, 1}})),
    ?assertEqual(ok, Put(~"1", #{only => absent})),
    ?assertEqual({error, present}, Put(~"2", #{only => absent})),
    ?assertEqual(ok, Put(~"3", #{only => present})),
    {ok, #{version := V}} = todana:get_entry(T, ~"k"),
    ?assertEqual({error, version_differs}, Put(~"4", #{only => {version, 0}})),
    ?assertEqual(ok, Put(~"5", #{only => {version, V}})),
    ?assertEqual({error, version_differs}, Put(~"6", #{only => {version, V}})),
    ?assertEqual({ok, ~"5"}, todana:get(T, ~"k")).

compare_and_swap(T) ->
    ?assertEqual(error, todana:get_entry(T, ~"k")),
    ?assertEqual({error, absent}, todana:compare_and_swap(T, ~"k", 0, ~"v")),
    ok = todana:put(T, ~"k", ~"v", #{flags => 7}),
    {ok, Entry} = todana:get_entry(T, ~"k"),
    ?assertMatch(
        #{value := ~"v", flags := 7, expires_at_ms := infinity}, Entry
    ),
    #{version := V1} = Entry,
    {ok, V2} = todana:compare_and_swap(T, ~"k", V1, ~"w"),
    ?assert(V2 > V1),
    ?assertMatch({ok, #{version := V2, value := ~"w", flags := 0}},
                 todana:get_entry(T, ~"k")),
    ?assertEqual(
        {error, version_differs}, todana:compare_and_swap(T, ~"k", V1, ~"x")
    ),
    {ok, V3} = todana:compare_and_swap(
        T, ~"k", V2, ~"x", #{flags => 9, ttl_ms => 60_000}
    ),
    {ok, #{version := V3, flags := 9, expires_at_ms := AtMs}} =
        todana:get_entry(T, ~"k"),
    ?assert(AtMs > os:system_time(millisecond)).

delete_and_take(T) ->
    ?assertEqual(error, todana:delete(T, ~"k")),
    ?assertEqual(error, todana:take(T, ~"k")),
    ok = todana:put(T, ~"k", ~"v"),
    ?assertEqual({ok, ~"v"}, todana:take(T, ~"k")),
    ?assertEqual(error, todana:get(T, ~"k")),
    ok = todana:put(T, ~"k", ~"v"),
    ?assertEqual(ok, todana:delete(T, ~"k")),
    ok = todana:put(T, ~"k", ~"v"),
    {ok, #{version := V}} = todana:get_entry(T, ~"k"),
    ?assertEqual(
        {error, version_differs}, todana:delete(T, ~"k", #{version => V + 1})
    ),
    ?assertEqual(ok, todana:delete(T, ~"k", #{version => V})),
    ?assertEqual(error, todana:delete(T, ~"k", #{version => V})).

counters(T) ->
    Max = (1 bsl 63) - 1,
    ?assertEqual(error, todana:update_counter(T, ~"c", 1)),
    ?assertEqual({ok, 1}, todana:update_counter(T, ~"c", 1, #{})),
    ?assertEqual({ok, -4}, todana:update_counter(T, ~"c", -5)),
    ?assertEqual({ok, -4}, todana:update_counter(T, ~"c", 0, #{initial => 9})),
    ?assertEqual({ok, 10}, todana:update_counter(T, ~"d", 1, #{initial => 9})),
    ?assertEqual(
        {ok, Max}, todana:update_counter(T, ~"e", 0, #{initial => Max})
    ),
    ?assertEqual({error, overflow}, todana:update_counter(T, ~"e", 1)),
    ok = todana:put(T, ~"s", ~"text"),
    ?assertEqual({error, not_an_integer}, todana:update_counter(T, ~"s", 1)),
    [
        ?assertEqual({error, Reason}, todana:update_counter(T, Key, 1, #{
            initial => 0
        }))
     || {Key, Reason} <- [{~"e", overflow}, {~"s", not_an_integer}]
    ],
    {ok, 1} = todana:update_counter(T, ~"x", 1, #{ttl_ms => 60_000}),
    {ok, 2} = todana:update_counter(T, ~"x", 1),
    {ok, Ttl} = todana:ttl(T, ~"x"),
    ?assert(Ttl > 50_000 andalso Ttl =< 60_000),
    case is_term(T) of
        true ->
            ?assertEqual({ok, -4}, todana:get(T, ~"c")),
            ok = todana:put(T, ~"n", 41),
            ?assertEqual({ok, 42}, todana:update_counter(T, ~"n", 1)),
            integers(T);
        false ->
            ?assertEqual({ok, ~"-4"}, todana:get(T, ~"c")),
            ok = todana:put(T, ~"n", ~"41"),
            ?assertEqual({ok, 42}, todana:update_counter(T, ~"n", 1))
    end.

%% Around each limit: of digits, of what the BEAM represents as a word, and of
%% counters.
integers(T) ->
    Powers = [1, 10, 1000, 10_000, 100_000_000, 10_000_000_000_000_000,
              1 bsl 31, 1 bsl 59, (1 bsl 63) - 3],
    [
        begin
            ok = todana:put(T, Key, N),
            ?assertEqual({ok, N}, todana:get(T, Key)),
            ?assertEqual(
                {ok, N + Delta}, todana:update_counter(T, Key, Delta)
            ),
            ?assertEqual({ok, N + Delta}, todana:get(T, Key)),
            ?assertEqual(ok, todana:delete(T, Key))
        end
     || Power <- Powers,
        Sign <- [1, -1],
        N <- [Sign * Power + Near || Near <- [-2, -1, 0, 1]],
        Delta <- [-1, 0, 1],
        Key <- [N, -N]
    ],
    ok = todana:put(T, big, (1 bsl 63) - 1),
    ?assertEqual({error, overflow}, todana:update_counter(T, big, 1)),
    ok = todana:put(T, big, 1 bsl 63),
    ?assertEqual({error, not_an_integer}, todana:update_counter(T, big, 1)),
    ok = todana:put(T, big, 1 bsl 59),
    ?assertEqual(
        {ok, -(1 bsl 59)}, todana:update_counter(T, big, -(1 bsl 60))
    ),
    ok = todana:delete(T, big).

expiry(T) ->
    Now = os:system_time(millisecond),
    ok = todana:put(T, ~"k", ~"v"),
    ?assertEqual({ok, infinity}, todana:ttl(T, ~"k")),
    ?assertEqual(error, todana:ttl(T, ~"absent")),
    ?assertEqual(error, todana:expire(T, ~"absent", 1000)),
    ?assertEqual(error, todana:persist(T, ~"absent")),
    ?assertEqual(ok, todana:expire(T, ~"k", 100_000)),
    {ok, Ttl} = todana:ttl(T, ~"k"),
    ?assert(Ttl > 90_000 andalso Ttl =< 100_000),
    ?assertEqual(ok, todana:expire(T, ~"k", 100_000)),
    ?assertEqual(ok, todana:put(T, ~"k", ~"w", #{ttl_ms => keep})),
    ?assertMatch({ok, N} when is_integer(N), todana:ttl(T, ~"k")),
    ?assertEqual(ok, todana:persist(T, ~"k")),
    ?assertEqual(ok, todana:persist(T, ~"k")),
    ?assertEqual({ok, infinity}, todana:ttl(T, ~"k")),
    ?assertEqual(ok, todana:expire(T, ~"k", #{expires_at_ms => Now - 1})),
    ?assertEqual(error, todana:get(T, ~"k")),
    ok = todana:put(T, ~"k", ~"v", #{expires_at_ms => Now + 1_000_000}),
    ?assertMatch(
        {ok, #{expires_at_ms := At}} when At =:= Now + 1_000_000,
        todana:get_entry(T, ~"k")
    ),
    ok = todana:put(T, ~"k", ~"v", #{ttl_ms => 600_000}),
    ?assertEqual({ok, ~"v"}, todana:get(T, ~"k")),
    ok = todana:put(T, ~"k", ~"v", #{ttl_ms => 1}),
    %% A record may be visible for one clock tick after its expiry.
    until(fun() -> todana:get(T, ~"k") =:= error end),
    ?assertEqual(ok, todana:put(T, ~"k", ~"v", #{only => absent})),
    ok = todana:put(T, ~"swept", ~"v", #{ttl_ms => 1}),
    until(fun() ->
        _ = todana_sweeper:sweep(),
        todana:count(T) =:= 1
    end).

%% Waits for a condition. EUnit's timeout ends a wait that does not succeed.
until(IsSo) ->
    case IsSo() of
        true -> ok;
        false -> timer:sleep(5), until(IsSo)
    end.

many(T) ->
    Keys = [integer_to_binary(N) || N <- lists:seq(1, 5000)],
    ?assertEqual(#{}, todana:get_many(T, Keys)),
    ?assertEqual(ok, todana:put_many(T, [{K, K} || K <- Keys])),
    ?assertEqual(5000, todana:count(T)),
    ?assertEqual(#{K => K || K <- Keys}, todana:get_many(T, Keys)),
    ?assertEqual(#{~"1" => ~"1"}, todana:get_many(T, [~"1", ~"0", ~"1"])),
    ?assertEqual(4999, todana:delete_many(T, [~"0" | tl(Keys)])),
    ?assertEqual(1, todana:count(T)),
    ?assertEqual(ok, todana:put_many(T, #{~"a" => ~"b"}, #{ttl_ms => 9999})),
    ?assertMatch({ok, N} when is_integer(N), todana:ttl(T, ~"a")),
    ?assertEqual(ok, todana:put_many(T, [])),
    ?assertEqual(0, todana:delete_many(T, [])).

many_atomic(T) ->
    Atomic = #{atomic => true},
    Pairs = [{integer_to_binary(N), ~"v"} || N <- lists:seq(1, 1000)],
    ?assertEqual(ok, todana:put_many(T, [{~"a", ~"1"}, {~"b", ~"2"}], Atomic)),
    ?assertEqual(
        {error, present},
        todana:put_many(T, #{~"b" => ~"x", ~"c" => ~"x"},
                        Atomic#{only => absent})
    ),
    ?assertEqual(#{~"a" => ~"1", ~"b" => ~"2"},
                 todana:get_many(T, [~"a", ~"b", ~"c"])),
    ?assertEqual(ok, todana:put_many(T, Pairs, Atomic)),
    ?assertEqual(1002, todana:count(T)).

scan_and_fold(T) ->
    Pairs = [{integer_to_binary(N), integer_to_binary(-N)}
             || N <- lists:seq(1, 3000)],
    ?assertEqual([], todana:to_list(T)),
    ?assertEqual([], todana:fold(fun(K, V, Acc) -> [{K, V} | Acc] end, [], T)),
    ok = todana:put_many(T, Pairs),
    Folded = todana:fold(fun(K, V, Acc) -> [{K, V} | Acc] end, [], T),
    ?assertEqual(lists:sort(Pairs), lists:sort(Folded)),
    ?assertEqual(lists:reverse(Folded), todana:to_list(T)),
    ?assertEqual(lists:sort(Pairs), lists:usort(scan_all(T, start, 10))),
    {Page, Cursor} = todana:scan(T),
    %% On a slow machine, a page ends earlier, after half a millisecond.
    ?assert(length(Page) < 200),
    ?assertNotEqual(done, Cursor).

scan_all(_T, done, _Count) ->
    [];
scan_all(T, Cursor, Count) ->
    {Page, Next} = todana:scan(T, Cursor, #{count => Count}),
    Page ++ scan_all(T, Next, Count).

snapshot(T) ->
    Pairs = [{integer_to_binary(N), ~"old"} || N <- lists:seq(1, 2000)],
    ok = todana:put_many(T, Pairs),
    Collect = fun(K, V, Acc) ->
        %% A write during the fold, which the snapshot must not show.
        ok = todana:put(T, K, ~"new"),
        ok = todana:put(T, <<"more", K/binary>>, ~"new"),
        [{K, V} | Acc]
    end,
    {ok, Seen} = todana:fold_snapshot(Collect, [], T),
    ?assertEqual(lists:sort(Pairs), lists:sort(Seen)),
    ?assertEqual(4000, todana:count(T)),
    Inner = fun
        (_, _, first) -> todana:fold_snapshot(fun(_, _, A) -> A end, ok, T);
        (_, _, Result) -> Result
    end,
    ?assertEqual({ok, {error, busy}}, todana:fold_snapshot(Inner, first, T)),
    ?assertError(oops, todana:fold_snapshot(
        fun(_, _, _) -> error(oops) end, ok, T
    )),
    ?assertMatch({ok, 4000},
                 todana:fold_snapshot(fun(_, _, N) -> N + 1 end, 0, T)).

snapshot_abandoned(_T) ->
    T = another,
    {ok, _} = todana:open(T, #{bytes_max => 1_000_000}),
    Pairs = [{integer_to_binary(N), <<0:8000>>} || N <- lists:seq(1, 800)],
    ok = todana:put_many(T, Pairs),
    Rewrite = fun
        (_, _, first) -> todana:put_many(T, Pairs);
        (_, _, ok) -> ok
    end,
    ?assertEqual({error, abandoned}, todana:fold_snapshot(Rewrite, first, T)),
    Count = fun(_, _, N) -> N + 1 end,
    ?assertEqual({ok, 800}, todana:fold_snapshot(Count, 0, T)),
    ?assertMatch(#{kept_bytes := 0}, todana:stats(T)),
    ok = todana:close(T).

snapshot_without_expired(T) ->
    Now = os:system_time(millisecond),
    ok = todana:put(T, ~"old", ~"v", #{expires_at_ms => Now - 1000}),
    ok = todana:put(T, ~"new", ~"v", #{expires_at_ms => Now + 60_000}),
    ok = todana:put(T, ~"ever", ~"v"),
    {ok, Keys} = todana:fold_snapshot(fun(K, _, A) -> [K | A] end, [], T),
    ?assertEqual([~"ever", ~"new"], lists:sort(Keys)).

%% The records kept for a snapshot are freed when its reader dies.
snapshot_of_the_dead(T) ->
    ok = todana:put_many(T, [{<<N:32>>, ~"v"} || N <- lists:seq(1, 2000)]),
    Me = self(),
    Wait = fun(_, _, _) -> Me ! reading, receive never -> ok end end,
    {Pid, Monitor} = spawn_monitor(fun() ->
        todana:fold_snapshot(Wait, ok, T)
    end),
    receive reading -> ok end,
    ?assertEqual({error, busy}, todana:fold_snapshot(Wait, ok, T)),
    _ = todana:clear(T),
    exit(Pid, kill),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    Again = fun() -> todana:fold_snapshot(fun(_, _, N) -> N + 1 end, 0, T) end,
    until(fun() -> Again() =/= {error, busy} end),
    ?assertEqual({ok, 0}, Again()).

large_values(T) ->
    Sizes = [1, 63, 64, 65, 66, 200, 254, 255, 256, 257, 1000, 8191, 8192,
             100_000, (1 bsl 20) - 1, 1 bsl 20, (1 bsl 20) + 1, 3 bsl 20],
    lists:foreach(
        fun(Size) ->
            Value = rand:bytes(Size),
            Key = <<"k", (integer_to_binary(Size))/binary>>,
            ?assertEqual(ok, todana:put(T, Key, Value)),
            ?assertEqual({ok, Value}, todana:get(T, Key)),
            ?assertEqual({ok, Value}, todana:get(T, Key)),
            ?assertEqual(#{Key => Value}, todana:get_many(T, [Key])),
            ?assertMatch({ok, #{value := Value}}, todana:get_entry(T, Key)),
            ?assertEqual(ok, todana:put(T, Key, Value, #{ttl_ms => 9999})),
            ?assertEqual(ok, todana:put_many(T, [{Key, Value}])),
            ?assertEqual({ok, Value}, todana:take(T, Key))
        end,
        Sizes
    ).

%% Values too large to copy on a normal scheduler, and lists of long iolists.
large_together(T) ->
    Large = rand:bytes(600_000),
    Pairs = [{integer_to_binary(N), Large} || N <- lists:seq(1, 8)],
    ?assertEqual(ok, todana:put_many(T, Pairs)),
    ?assertEqual(ok, todana:put_many(T, Pairs, #{atomic => true})),
    ?assertEqual(maps:from_list(Pairs), maps:from_list(scan_all(T, start, 3))),
    {ok, Seen} = todana:fold_snapshot(
        fun(K, V, A) -> [{K, V} | A] end, [], T
    ),
    ?assertEqual(Pairs, lists:sort(Seen)),
    {ok, Taken} = todana:take(T, ~"1"),
    {ok, #{value := Got}} = todana:get_entry(T, ~"2"),
    7 = todana:clear(T),
    ?assertEqual([Large, Large], [Taken, Got]),
    case is_term(T) of
        true ->
            ok;
        false ->
            Deep = lists:foldl(fun(N, L) -> [L, <<N>>] end, [],
                               lists:duplicate(1000, $x)),
            [
                begin
                    Bytes = iolist_to_binary(List),
                    ?assertEqual(ok, todana:put(T, ~"k", List)),
                    ?assertEqual({ok, Bytes}, todana:get(T, ~"k")),
                    ?assertEqual(ok, todana:put(T, ~"k", List, #{flags => 1})),
                    ?assertEqual(ok, todana:put_many(T, [{~"l", List}])),
                    ?assertEqual({ok, Bytes}, todana:get(T, ~"l"))
                end
             || List <- [
                    Deep, lists:duplicate(20_000, $x),
                    [Large, Large, Large], [~"x" | binary:copy(Large, 3)]
                ]
            ]
    end.

%% Native code delegates long work to a dirty scheduler or to the next call.
bounded_calls(T) ->
    Large = binary:copy(~"x", (1 bsl 20) + 1),
    Half = {~"k", binary:copy(~"x", 600_000)},
    [
        ?assertEqual(dirty, Result)
     || Result <- [
            todana_nif:put(T, ~"k", Large),
            todana_nif:put_with(T, ~"k", Large, always, table, 0, 0),
            todana_nif:put_all(T, [Half, Half], table, false, 0),
            todana_nif:put(T, ~"k", lists:duplicate(20_000, $x))
        ],
        not is_term(T)
    ],
    %% A million look-ups take more than half a millisecond on any machine.
    Keys = lists:duplicate(1_000_000, ~"k"),
    ?assertMatch({more, [_ | _], _}, todana_nif:get_many(T, Keys, [])),
    ?assertMatch({more, [_ | _], _}, todana_nif:delete_many(T, Keys, 0)).

%% Lists that are too long for keys and values are refused before the end of the
%% list, which would show that they are not iodata at all.
long_lists(T) ->
    case is_term(T) of
        true ->
            ok;
        false ->
            Long = lists:duplicate(65_537, $x) ++ [not_a_byte],
            Empty = lists:duplicate(81_921, []) ++ [not_a_byte],
            Deep = lists:foldl(fun(_, L) -> [L] end, [not_a_byte],
                               lists:seq(1, 81_921)),
            [
                ?assertEqual(#{2 => key_too_long}, cause(Call))
             || Key <- [Long, [Long], Empty, Deep],
                Call <- [
                    fun() -> todana:get(T, Key) end,
                    fun() -> todana:get_entry(T, Key) end,
                    fun() -> todana:put(T, Key, ~"v") end,
                    fun() -> todana:delete(T, Key) end,
                    fun() -> todana:get_many(T, [~"k", Key]) end,
                    fun() -> todana:put_many(T, [{Key, ~"v"}]) end
                ]
            ],
            ?assertEqual(#{2 => not_iodata},
                         cause(fun() -> todana:get(T, [$x, not_a_byte]) end)),
            ?assertEqual(#{2 => not_iodata},
                         cause(fun() -> todana:get(T, [~"x" | y]) end)),
            ?assertEqual(#{2 => not_iodata},
                         cause(fun() -> todana:get(T, [256]) end)),
            Longest = binary:copy(~"x", 65_536),
            Spaced = [[[], [X]] || <<X>> <= binary:part(Longest, 0, 20_000)],
            [
                begin
                    ?assertEqual(ok, todana:put(T, Key, ~"v")),
                    ?assertEqual({ok, ~"v"},
                                 todana:take(T, iolist_to_binary(Key)))
                end
             || Key <- [
                    binary_to_list(Longest), [Longest], [[] | Longest],
                    [Spaced | ~"end"], lists:duplicate(81_920, []), [[], "a"]
                ]
            ],
            %% Two to the 50th bytes, as a list of a hundred cells.
            Endless = lists:foldl(fun(_, L) -> [L, L] end, [~"x", $y],
                                  lists:seq(1, 50)),
            ?assertEqual(#{3 => value_too_long},
                         cause(fun() -> todana:put(T, ~"k", Endless) end)),
            ?assertEqual(error, todana:get(T, ~"k"))
    end.

cause(Call) ->
    try Call() of
        Result -> {no_misuse, Result}
    catch
        error:badarg:Stack ->
            [{todana, _, _, Info} | _] = Stack,
            maps:get(cause, proplists:get_value(error_info, Info))
    end.

%% A process that copies large values is charged reductions for the time, as one
%% that computes.
large_values_cost_reductions(T) ->
    Value = rand:bytes(1 bsl 20),
    Put = fun() -> ok = todana:put(T, ~"k", Value) end,
    PutWith = fun() -> ok = todana:put(T, ~"k", Value, #{flags => 1}) end,
    ?assert(reductions(PutWith, 20) > 20 * 1000),
    case is_term(T) of
        true -> ?assert(reductions(Put, 20) > 20 * 1000);
        false -> ?assert(reductions(Put, 20) < 20 * 100)
    end,
    ?assert(reductions(fun() -> todana:get(T, ~"k") end, 20) < 20 * 100).

reductions(Do, Times) ->
    {reductions, Before} = process_info(self(), reductions),
    _ = [Do() || _ <- lists:seq(1, Times)],
    {reductions, After} = process_info(self(), reductions),
    After - Before.

%% Native code decodes a part of a page, and Erlang the rest.
large_terms_of_a_page(T) ->
    case is_term(T) of
        false ->
            ok;
        true ->
            %% Small enough to be copied; native code does not decode lent
            %% values.
            Term = {lists:seq(1, 200)},
            Bytes = byte_size(term_to_binary(Term)),
            Pairs = [{N, Term} || N <- lists:seq(1, 1000)],
            %% One shard is one page, even on a slow machine.
            {ok, One} = todana:open(one_shard, #{codec => term, shards => 1}),
            ok = todana:put_many(One, Pairs),
            {0, Page} = todana_nif:scan(One, 0, 1000),
            Decoded = [ok || {_, _} <- Page],
            ?assert(length(Decoded) * Bytes =< 16_384),
            ?assertEqual(Pairs, lists:sort(scan_all(One, start, 100))),
            ok = todana:close(One)
    end.

values_outlive(T) ->
    Sizes = [10, 100, 200, 300, 5000],
    Old = [{N, rand:bytes(N)} || N <- Sizes],
    Key = fun(N) -> integer_to_binary(N) end,
    [ok = todana:put(T, Key(N), V) || {N, V} <- Old],
    Read = [element(2, todana:get(T, Key(N))) || N <- Sizes],
    [ok = todana:put(T, Key(N), rand:bytes(N)) || N <- Sizes],
    _ = todana:clear(T),
    [ok = todana:put(T, Key(N), rand:bytes(300)) || N <- lists:seq(1, 2000)],
    ?assertEqual([V || {_, V} <- Old], Read).

counted_looks(T) ->
    ok = todana:put(T, ~"k", ~"v"),
    #{hits := Hits, misses := Misses} = todana:stats(T),
    {ok, _} = todana:get(T, ~"k"),
    error = todana:get(T, ~"absent"),
    Stats = todana:stats(T),
    ?assertEqual({Hits + 1, Misses + 1, 1},
                 {maps:get(hits, Stats), maps:get(misses, Stats),
                  maps:get(entries, Stats)}),
    #{bytes := Bytes} = todana:stats(T),
    ?assertEqual(Bytes, todana:bytes(T)).

raw(T) ->
    case is_term(T) of
        true ->
            ok;
        false ->
            ok = todana:put(T, "key", ["va", [$l | ~"ue"]]),
            ?assertEqual({ok, ~"value"}, todana:get(T, [~"k", "ey"]))
    end.

terms(T) ->
    case is_term(T) of
        true -> [round_trip(T, Term) || Term <- some_terms()];
        false -> ok
    end.

round_trip(T, Term) ->
    ?assertEqual(ok, todana:put(T, Term, {value, Term})),
    ?assertEqual({ok, {value, Term}}, todana:get(T, Term)),
    ?assertEqual(ok, todana:put(T, key, Term)),
    ?assertEqual({ok, Term}, todana:get(T, key)),
    ?assertEqual(#{key => Term, Term => {value, Term}},
                 todana:get_many(T, [key, Term])),
    ?assertMatch({ok, #{value := Term}}, todana:get_entry(T, key)),
    ?assertEqual({ok, Term}, todana:take(T, key)),
    ?assertEqual(ok, todana:put_many(T, #{Term => Term}, #{atomic => true})),
    ?assertEqual([{Term, Term}],
                 todana:fold(fun(K, V, A) -> [{K, V} | A] end, [], T)),
    ?assertEqual({ok, Term}, todana:take(T, Term)),
    ?assertEqual(ok, todana:put_many(T, [{Term, Term}])),
    ?assertEqual(1, todana:delete_many(T, [Term])),
    ?assertEqual(0, todana:count(T)).

some_terms() ->
    Large = #{N => integer_to_binary(N) || N <- lists:seq(1, 100)},
    [
        0, -1, 9, 10, -10, 9_999, 10_000, 99_999_999, 100_000_000,
        (1 bsl 59) - 1, 1 bsl 59, -(1 bsl 59), -(1 bsl 59) - 1,
        (1 bsl 63) - 1, -(1 bsl 63), -(1 bsl 63) - 1,
        1 bsl 63, 1 bsl 200, -(1 bsl 200), 1.0, -0.0, 1.5e300,
        '', atom, 'ätöm', list_to_atom(lists:duplicate(255, 16#1F600)),
        ~"", ~"binary", <<0>>, <<1>>, <<131>>, <<1:3>>, rand:bytes(300),
        [], "string", [1, 2 | 3], lists:seq(1, 1000), {}, {a, {b, ~"c"}},
        list_to_tuple(lists:seq(1, 200)), #{}, #{a => 1, 1 => #{}}, Large,
        {nested, [Large]}, self(), make_ref(), fun erlang:abs/1,
        {rand:bytes(20_000)}, rand:bytes(20_000)
    ].

misuse(T) ->
    Bad = fun(N, F) ->
        try F() of
            Result -> error({no_misuse, Result})
        catch
            error:badarg:Stack ->
                [{todana, _, _, Info} | _] = Stack,
                #{cause := Causes} = proplists:get_value(error_info, Info),
                ?assertEqual([N], maps:keys(Causes)),
                Texts = todana_error:format_error(badarg, Stack),
                ?assert(is_list(unicode:characters_to_list(maps:get(N, Texts))))
        end
    end,
    Bad(1, fun() -> todana:get(no_such_table, ~"k") end),
    Bad(1, fun() -> todana:get(make_ref(), ~"k") end),
    Bad(1, fun() -> todana:put(~"table", ~"k", ~"v") end),
    Bad(1, fun() -> todana:count(1) end),
    Bad(4, fun() -> todana:put(T, ~"k", ~"v", #{ttl => 1}) end),
    Bad(4, fun() -> todana:put(T, ~"k", ~"v", #{ttl_ms => 0}) end),
    Bad(4, fun() -> todana:put(T, ~"k", ~"v", #{ttl_ms => -1}) end),
    Bad(4, fun() -> todana:put(T, ~"k", ~"v", #{flags => 1 bsl 32}) end),
    Bad(4, fun() ->
        todana:put(T, ~"k", ~"v", #{ttl_ms => 1, expires_at_ms => 1})
    end),
    Bad(4, fun() -> todana:put(T, ~"k", ~"v", []) end),
    Bad(3, fun() -> todana:update_counter(T, ~"k", 1.0) end),
    Bad(3, fun() -> todana:update_counter(T, ~"k", 1 bsl 63, #{}) end),
    Bad(3, fun() -> todana:delete(T, ~"k", #{}) end),
    Bad(3, fun() -> todana:expire(T, ~"k", soon) end),
    Bad(2, fun() -> todana:get_many(T, ~"k") end),
    Bad(2, fun() -> todana:put_many(T, [~"k"]) end),
    [
        begin
            Bad(2, fun() -> todana:put_many(T, Pairs, #{atomic => true}) end),
            Bad(2, fun() -> todana:put_many(T, Pairs) end)
        end
     || Pairs <- [
            [{~"k", ~"v"} | ~"tail"],
            [{~"k", ~"v"}, ~"no pair", {~"k", #{}}],
            [{~"k", #{}}, ~"no pair"],
            [{#{}, ~"v"}, {a, b, c}],
            [{#{}, ~"v"} | ~"tail"]
        ],
        is_term(T) orelse not has_map(Pairs)
    ],
    Bad(2, fun() -> todana:get_many(T, [~"k" | ~"k"]) end),
    Bad(2, fun() -> todana:delete_many(T, [~"k" | ~"k"]) end),
    Bad(3, fun() -> todana:put_many(T, [], #{only => absent}) end),
    Bad(2, fun() -> todana:scan(T, 1) end),
    Bad(2, fun() -> todana:scan(T, {cursor, 1 bsl 64}) end),
    Bad(3, fun() -> todana:scan(T, start, #{count => 0}) end),
    Bad(3, fun() -> todana:compare_and_swap(T, ~"k", foo, ~"v") end),
    Bad(3, fun() -> todana:compare_and_swap(T, ~"k", -1, ~"v", #{}) end),
    Bad(5, fun() -> todana:compare_and_swap(T, ~"k", 1, ~"v", #{a => 1}) end),
    ok = todana:put(T, ~"hit", ~"v"),
    Bad(4, fun() ->
        todana:fetch(T, ~"hit", fun() -> {ok, ~"v"} end, #{timeout => 1})
    end),
    Bad(1, fun() -> todana:fold(not_a_fun, 0, T) end),
    Bad(3, fun() -> todana:fold(fun(_, _, A) -> A end, 0, none) end),
    Bad(3, fun() -> todana:fetch(T, ~"k", not_a_fun) end),
    Bad(2, fun() -> todana:put(T, binary:copy(~"k", 65_537), ~"v") end),
    Bad(2, fun() -> todana:open(too_many_shards, #{shards => 65_537}) end),
    ok = todana:put(T, binary:copy(~"k", 65_535), ~"v"),
    case is_term(T) of
        true ->
            ok;
        false ->
            ok = todana:put(T, binary:copy(~"k", 65_536), ~"v"),
            Bad(2, fun() -> todana:get(T, key) end),
            Bad(2, fun() -> todana:get(T, 1) end),
            Bad(2, fun() -> todana:put(T, [a], ~"v") end),
            Bad(3, fun() -> todana:put(T, ~"k", v) end),
            Bad(4, fun() -> todana:compare_and_swap(T, ~"k", 1, v) end)
    end.

has_map([{Key, Value} | Rest]) ->
    is_map(Key) orelse is_map(Value) orelse has_map(Rest);
has_map([_ | Rest]) ->
    has_map(Rest);
has_map(_) ->
    false.

tables(_T) ->
    Options = #{codec => term, ttl_ms => 50_000, entries_max => 10},
    {ok, Handle} = todana:open(another, Options),
    ?assertEqual({ok, Handle}, todana:open(another, Options)),
    ?assertEqual({error, {exists, #{codec => {term, raw},
                                    ttl_ms => {50_000, infinity},
                                    entries_max => {10, infinity}}}},
                 todana:open(another, #{})),
    ?assertMatch(
        #{name := another, codec := term, ttl_ms := 50_000,
          entries_max := 10, bytes_max := infinity, when_full := evict},
        todana:info(Handle)
    ),
    ?assertEqual(Handle, todana:handle(another)),
    ?assert(lists:member(another, todana:list())),
    ok = todana:put(another, k, v),
    {ok, Ttl} = todana:ttl(another, k),
    ?assert(Ttl > 40_000 andalso Ttl =< 50_000),
    ok = todana:put(another, k, v, #{ttl_ms => infinity}),
    ?assertEqual({ok, infinity}, todana:ttl(another, k)),
    ?assertEqual(ok, todana:close(another)),
    ?assertError(badarg, todana:get(another, k)),
    ?assertError(badarg, todana:get(Handle, k)),
    ?assertError(badarg, todana:close(another)),
    ?assertNot(lists:member(another, todana:list())),
    {ok, _} = todana:open(another, #{}),
    ?assertEqual(error, todana:get(another, ~"k")),
    ?assertError(badarg, todana:get(Handle, ~"k")),
    ok = todana:close(another),
    ?assertError(badarg, todana:open(~"name", #{})),
    ?assertError(badarg, todana:open(name, #{codec => json})),
    ?assertError(badarg, todana:open(name, #{color => blue})),
    ?assertError(badarg, todana:open(db0, #{codec => term})),
    {ok, _} = todana:open(db0, #{}),
    ?assertMatch(#{database := 0}, todana:info(db0)),
    ok = todana:put(db0, ~"k", ~"v"),
    ok = todana:close(db0),
    {ok, _} = todana:open(db0, #{}),
    ?assertEqual({ok, ~"v"}, todana:get(db0, ~"k")),
    _ = todana:clear(db0),
    ok = todana:close(db0).

%% More names than the registry has slots, of which only some are open at once.
many_names() ->
    Name = fun(N) -> list_to_atom("name_" ++ integer_to_list(N)) end,
    Open = fun(N) ->
        {ok, Handle} = todana:open(Name(N), #{shards => 1}),
        ok = todana:put(Name(N), ~"n", integer_to_binary(N)),
        Handle
    end,
    Window = 100,
    Names = 10_000,
    Handles = maps:from_list([{N, Open(N)} || N <- lists:seq(1, Window)]),
    Left = lists:foldl(
        fun(N, Opened) ->
            Old = N - Window,
            {Handle, Rest} = maps:take(Old, Opened),
            ok = todana:close(Name(Old)),
            Opened1 = Rest#{N => Open(N)},
            ?assertError(badarg, todana:get(Name(Old), ~"n")),
            ?assertError(badarg, todana:get(Handle, ~"n")),
            Some = N - rand:uniform(Window) + 1,
            ?assertEqual({ok, integer_to_binary(Some)},
                         todana:get(Name(Some), ~"n")),
            Opened1
        end,
        Handles,
        lists:seq(Window + 1, Names)
    ),
    maps:foreach(
        fun(N, Handle) ->
            ?assertEqual({ok, integer_to_binary(N)}, todana:get(Handle, ~"n")),
            ?assertEqual({ok, integer_to_binary(N)}, todana:get(Name(N), ~"n")),
            ok = todana:close(Handle)
        end,
        Left
    ).

%% If shards are large, functions that visit whole shards run on dirty
%% schedulers and return the same results.
large_shards() ->
    Pairs = [{<<N:32>>, integer_to_binary(N)} || N <- lists:seq(1, 65_537)],
    {ok, T} = todana:open(large, #{shards => 1}),
    ok = todana:put_many(T, lists:sublist(Pairs, 1024)),
    ?assertMatch({0, [_ | _]}, todana_nif:scan(large, 0, 1)),
    ?assertMatch({0, false}, todana_nif:sweep(large, 1)),
    ok = todana:put_many(T, Pairs),
    ?assertEqual(dirty, todana_nif:scan(large, 0, 1)),
    ?assertEqual(dirty, todana_nif:sweep(large, 1)),
    ?assertMatch({badarg, 1, _}, todana_nif:scan_dirty(large, 0, 1)),
    Collect = fun(K, V, Acc) -> [{K, V} | Acc] end,
    [
        begin
            ?assertEqual(Pairs, lists:sort(scan_all(Table, start, 1))),
            Folded = todana:fold(Collect, [], Table),
            ?assertEqual(Pairs, lists:sort(Folded))
        end
     || Table <- [large, T]
    ],
    {ok, Snapshot} = todana_nif:snapshot(T),
    ?assertEqual(dirty, todana_nif:snapshot_next(Snapshot, 10)),
    ?assertMatch({more, [_, _]}, todana_nif:snapshot_next_dirty(Snapshot, 2)),
    ?assertMatch({more, [_, _]}, todana_nif:snapshot_next(Snapshot, 2)),
    ok = todana_nif:snapshot_end(Snapshot),
    {ok, Kept} = todana:fold_snapshot(Collect, [], T),
    ?assertEqual(Pairs, lists:sort(Kept)),
    Past = #{expires_at_ms => 1},
    ok = todana:put_many(T, lists:sublist(Pairs, 1000), Past),
    _ = todana_sweeper:sweep(),
    ?assertEqual(64_537, todana:count(T)),
    ok = todana:close(T).

limits(_T) ->
    {ok, _} = todana:open(full, #{
        entries_max => 10, when_full => refuse, shards => 1
    }),
    [ok = todana:put(full, <<N>>, ~"v") || N <- lists:seq(1, 10)],
    ?assertEqual({error, full}, todana:put(full, ~"more", ~"v")),
    ?assertEqual({error, full}, todana:put(full, ~"more", ~"v", #{flags => 1})),
    ?assertEqual({error, full}, todana:update_counter(full, ~"c", 1, #{})),
    ?assertEqual({error, full},
                 todana:put_many(full, #{~"x" => ~"", ~"y" => ~""})),
    ?assertEqual({error, full},
                 todana:put_many(full, #{~"x" => ~"", ~"y" => ~""},
                                 #{atomic => true})),
    ?assertEqual(10, todana:count(full)),
    ?assertEqual(ok, todana:put(full, <<1>>, ~"w")),
    ok = todana:close(full),
    {ok, _} = todana:open(cache, #{entries_max => 100}),
    [ok = todana:put(cache, <<N:32>>, ~"v") || N <- lists:seq(1, 1000)],
    ?assert(todana:count(cache) =< 100),
    ok = todana:close(cache).
