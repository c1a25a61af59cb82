%% `todana:transaction': what it reads, when it writes, and what it refuses.
-module(todana_transaction_tests).

-include_lib("eunit/include/eunit.hrl").

-define(TABLES, [tx_raw, tx_term, tx_ordered, tx_terms, db4]).
-define(TX, todana_transaction).

transaction_test_() ->
    {setup, fun start/0, fun stop/1, [
        {foreach, fun open/0, fun close/1, [
            fun(_) -> {Title, fun() -> each(Test) end} end
         || {Title, Test} <- [
                {"own writes are read", fun own_writes/1},
                {"results, and writes that do not happen", fun results/1},
                {"abort", fun aborted/1},
                {"options of writes", fun options/1},
                {"what was read must last", fun read_set/1},
                {"errors of what never was are not seen", fun zombies/1},
                {"nested and stray use", fun stray/1},
                {"misuse", fun misuse/1},
                {"many keys and large values", fun large/1},
                {"long keys are left to dirty schedulers", fun long_keys/1},
                {"transfers keep the sum", fun transfers/1}
            ]
        ]},
        {"an invalid result of what never was", fun invalid/0},
        {"no room", fun full/0},
        {"a table that is closed", fun closed/0}
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
    lists:foreach(
        fun(T) -> _ = todana:clear(T), Test(T) end,
        [todana:handle(tx_raw) | ?TABLES]
    ).

is_raw(T) ->
    maps:get(codec, todana:info(T)) =:= raw.

own_writes(T) ->
    ok = todana:put(T, ~"there", ~"1"),
    {ok, done} = todana:transaction(T, fun(Tx) ->
        ?assertEqual({ok, ~"1"}, ?TX:get(Tx, ~"there")),
        ?assertEqual(error, ?TX:get(Tx, ~"new")),
        ?assertEqual(none, ?TX:get(Tx, ~"new", none)),
        ?assertNot(?TX:is_key(Tx, ~"new")),
        ok = ?TX:put(Tx, ~"new", ~"2"),
        ?assertEqual({ok, ~"2"}, ?TX:get(Tx, ~"new")),
        ?assert(?TX:is_key(Tx, ~"new")),
        ?assertEqual(error, todana:get(T, ~"new")),
        ok = ?TX:delete(Tx, ~"there"),
        ?assertEqual(error, ?TX:get(Tx, ~"there")),
        ok = ?TX:put(Tx, ~"there", ~"3"),
        ok = ?TX:put(Tx, ~"brief", ~"4"),
        ok = ?TX:delete(Tx, ~"brief"),
        ok = ?TX:delete(Tx, ~"never"),
        {ok, done}
    end),
    ?assertEqual(#{~"there" => ~"3", ~"new" => ~"2"}, maps:from_list(all(T))),
    case is_raw(T) of
        true ->
            %% Iodata of the same bytes is the same key, and read as a binary.
            ok = todana:transaction(T, fun(Tx) ->
                ok = ?TX:put(Tx, ["ne", ~"w"], [~"a", $b]),
                ?assertEqual({ok, ~"ab"}, ?TX:get(Tx, ~"new"))
            end),
            ?assertEqual({ok, ~"ab"}, todana:get(T, ~"new"));
        false ->
            Keys =
                case todana:info(T) of
                    #{type := set} ->
                        [1, 1.0, {a, #{b => self()}}, fun lists:sort/1];
                    #{type := ordered_set} ->
                        [1, {a, [~"b", 2]}, "c", binary:copy(~"d", 10_000)]
                end,
            ok = todana:transaction(T, fun(Tx) ->
                [ok = ?TX:put(Tx, K, {value, K, fun() -> K end}) || K <- Keys],
                [{ok, {value, K, _}} = ?TX:get(Tx, K) || K <- Keys],
                ok
            end),
            [{ok, {value, K, _}} = todana:get(T, K) || K <- Keys]
    end.

all(T) ->
    todana:fold(fun(K, V, Acc) -> [{K, V} | Acc] end, [], T).

results(T) ->
    Run = fun(End) ->
        todana:transaction(T, fun(Tx) ->
            error = ?TX:get(Tx, ~"k"),
            ok = ?TX:put(Tx, ~"k", ~"v"),
            End()
        end)
    end,
    ?assertEqual({error, why}, Run(fun() -> {error, why} end)),
    ?assertError(oops, Run(fun() -> error(oops) end)),
    ?assertExit(oops, Run(fun() -> exit(oops) end)),
    ?assertThrow(oops, Run(fun() -> throw(oops) end)),
    ?assertError({bad_return_value, done}, Run(fun() -> done end)),
    ?assertError({bad_return_value, {ok, 1, 2}}, Run(fun() -> {ok, 1, 2} end)),
    ?assertEqual(0, todana:count(T)),
    ?assertEqual([], [K || {K, _} <- get(), K =:= '$todana_transaction']),
    ?assertEqual({ok, 7}, Run(fun() -> {ok, 7} end)),
    ok = todana:delete(T, ~"k"),
    ?assertEqual(ok, Run(fun() -> ok end)),
    ?assertEqual({ok, ~"v"}, todana:get(T, ~"k")),
    ?assertEqual(ok, todana:transaction(T, fun(_) -> ok end)).

aborted(T) ->
    Run = fun(Abort) ->
        todana:transaction(T, fun(Tx) ->
            ok = ?TX:put(Tx, ~"k", ~"v"),
            Abort(Tx)
        end)
    end,
    ?assertEqual({error, why}, Run(fun(Tx) -> ?TX:abort(Tx, why) end)),
    %% A function that catches everything does not undo it.
    Deaf = fun(Tx) -> try ?TX:abort(Tx, why) catch _:_ -> ok end end,
    ?assertEqual({error, why}, Run(Deaf)),
    ?assertEqual(error, todana:get(T, ~"k")).

options(T) ->
    AtMs = os:system_time(millisecond) + 1_000_000,
    ok = todana:put(T, ~"old", ~"v", #{expires_at_ms => AtMs, flags => 1}),
    ok = todana:put(T, ~"read", ~"v", #{expires_at_ms => AtMs, flags => 1}),
    ok = todana:transaction(T, fun(Tx) ->
        {ok, ~"v"} = ?TX:get(Tx, ~"read"),
        ok = ?TX:put(Tx, ~"read", ~"w", #{ttl_ms => keep}),
        ok = ?TX:put(Tx, ~"old", ~"w", #{ttl_ms => keep, flags => 9}),
        ok = ?TX:put(Tx, ~"new", ~"w", #{expires_at_ms => AtMs}),
        ok = ?TX:put(Tx, ~"gone", ~"w", #{expires_at_ms => 1}),
        ok = ?TX:put(Tx, ~"ever", ~"w")
    end),
    Entry = fun(K) ->
        {ok, #{expires_at_ms := At, flags := Flags, value := ~"w"}} =
            todana:get_entry(T, K),
        {At, Flags}
    end,
    ?assertEqual(
        [{AtMs, 0}, {AtMs, 9}, {AtMs, 0}, {infinity, 0}],
        [Entry(K) || K <- [~"read", ~"old", ~"new", ~"ever"]]
    ),
    ?assertEqual(error, todana:get(T, ~"gone")).

%% Changes of others, in the first attempt only, to keys that were read.
read_set(T) ->
    Changes = [
        fun() -> ok = todana:put(T, ~"a", ~"theirs") end,
        fun() -> ok = todana:put(T, ~"a", ~"1") end,
        fun() -> ok = todana:delete(T, ~"a") end,
        fun() -> ok = todana:expire(T, ~"a", 1_000_000) end,
        fun() -> ok = todana:put(T, ~"absent", ~"created") end,
        fun() -> _ = todana:clear(T), ok end
    ],
    [
        begin
            _ = todana:clear(T),
            ok = todana:put(T, ~"a", ~"1"),
            Count = counters:new(1, []),
            Result = todana:transaction(T, fun(Tx) ->
                A = ?TX:get(Tx, ~"a"),
                Absent = ?TX:get(Tx, ~"absent"),
                ok = counters:add(Count, 1, 1),
                case counters:get(Count, 1) of
                    1 -> Change();
                    2 -> ok
                end,
                ok = ?TX:put(Tx, ~"b", ~"x"),
                {ok, {A, Absent}}
            end),
            ?assertEqual(2, counters:get(Count, 1)),
            ?assertEqual({ok, {todana:get(T, ~"a"), todana:get(T, ~"absent")}},
                         Result)
        end
     || Change <- Changes
    ],
    %% Others may write what was not read, even if it is written here.
    {ok, 1} = todana:transaction(T, fun(Tx) ->
        _ = ?TX:get(Tx, ~"a"),
        ok = todana:put(T, ~"b", ~"theirs"),
        ok = ?TX:put(Tx, ~"b", ~"mine"),
        {ok, 1}
    end, #{attempts => 1}),
    ?assertEqual({ok, ~"mine"}, todana:get(T, ~"b")),
    Unlucky = fun(Tx) ->
        _ = ?TX:get(Tx, ~"a"),
        ok = todana:put(T, ~"a", ~"theirs"),
        ?TX:put(Tx, ~"b", ~"lost")
    end,
    ?assertEqual({error, conflict},
                 todana:transaction(T, Unlucky, #{attempts => 3})),
    ?assertEqual({ok, ~"mine"}, todana:get(T, ~"b")).

%% The function sees two keys of different moments in its first attempt: what
%% it concludes from that is forgotten.
zombies(T) ->
    Both = fun(V) ->
        ok = todana:put_many(T, #{~"a" => V, ~"b" => V}, #{atomic => true})
    end,
    [
        begin
            Both(~"1"),
            Change = counters:new(1, []),
            Result = todana:transaction(T, fun(Tx) ->
                {ok, A} = ?TX:get(Tx, ~"a"),
                case counters:get(Change, 1) of
                    0 -> ok = counters:add(Change, 1, 1), Both(~"2");
                    1 -> ok
                end,
                case ?TX:get(Tx, ~"b") of
                    {ok, A} -> {ok, A};
                    {ok, _Other} -> Conclude(Tx)
                end
            end),
            ?assertEqual({ok, ~"2"}, Result)
        end
     || Conclude <- [
            fun(_) -> error(torn) end,
            fun(_) -> throw(torn) end,
            fun(_) -> {error, torn} end,
            fun(Tx) -> ?TX:abort(Tx, torn) end
        ]
    ].

stray(T) ->
    Me = self(),
    {ok, Tx0} = todana:transaction(T, fun(Tx) ->
        spawn_link(fun() -> Me ! cause(fun() -> ?TX:get(Tx, ~"k") end) end),
        receive
            Cause -> ?assertEqual(#{1 => no_transaction}, Cause)
        end,
        ?assertEqual(#{2 => nested_transaction}, cause(fun() ->
            todana:transaction(T, fun(_) -> ok end)
        end)),
        ok = ?TX:put(Tx, ~"k", ~"v"),
        {ok, Tx}
    end),
    Calls = [
        fun(Tx) -> ?TX:get(Tx, ~"k") end,
        fun(Tx) -> ?TX:get(Tx, ~"k", none) end,
        fun(Tx) -> ?TX:is_key(Tx, ~"k") end,
        fun(Tx) -> ?TX:put(Tx, ~"k", ~"v") end,
        fun(Tx) -> ?TX:put(Tx, ~"k", ~"v", #{}) end,
        fun(Tx) -> ?TX:delete(Tx, ~"k") end,
        fun(Tx) -> ?TX:abort(Tx, why) end
    ],
    [
        ?assertEqual(#{1 => no_transaction}, cause(fun() -> Call(Tx) end))
     || Call <- Calls, Tx <- [Tx0, make_ref(), T]
    ],
    %% That of another attempt, or of an earlier transaction.
    ok = todana:transaction(T, fun(_) ->
        [
            ?assertEqual(#{1 => no_transaction}, cause(fun() -> Call(Tx0) end))
         || Call <- Calls
        ],
        ok
    end).

misuse(T) ->
    ?assertEqual(#{2 => {not_a_function, 1}}, cause(fun() ->
        todana:transaction(T, fun() -> ok end)
    end)),
    ?assertEqual(#{3 => {unknown_option, tries}}, cause(fun() ->
        todana:transaction(T, fun(_) -> ok end, #{tries => 1})
    end)),
    ?assertEqual(#{3 => {bad_option, attempts}}, cause(fun() ->
        todana:transaction(T, fun(_) -> ok end, #{attempts => 0})
    end)),
    ?assertEqual(#{1 => no_such_table}, cause(fun() ->
        todana:transaction(no_such, fun(_) -> ok end)
    end)),
    Within = fun(Call) ->
        cause(fun() -> todana:transaction(T, fun(Tx) -> Call(Tx) end) end)
    end,
    ?assertEqual(#{4 => {not_in_a_transaction, only}}, Within(fun(Tx) ->
        ?TX:put(Tx, ~"k", ~"v", #{only => absent})
    end)),
    {Key, Wrong} =
        case todana:info(T) of
            #{codec := raw} -> {k, not_iodata};
            #{type := ordered_set} -> {fun() -> k end, no_order};
            #{type := set} -> {fun() -> k end, local_fun}
        end,
    Cause = #{2 => Wrong},
    ?assertEqual(Cause, Within(fun(Tx) -> ?TX:get(Tx, Key) end)),
    ?assertEqual(Cause, Within(fun(Tx) -> ?TX:put(Tx, Key, ~"v") end)),
    ?assertEqual(Cause, Within(fun(Tx) -> ?TX:delete(Tx, Key) end)),
    [
        ?assertEqual(#{3 => not_iodata}, Within(fun(Tx) ->
            ?TX:put(Tx, ~"k", v)
        end))
     || is_raw(T)
    ],
    ?assertEqual(0, todana:count(T)).

cause(Call) ->
    try Call() of
        Result -> {returned, Result}
    catch
        error:badarg:Stack ->
            [{_, _, _, Location} | _] = Stack,
            #{cause := Cause} = proplists:get_value(error_info, Location),
            Cause
    end.

large(T) ->
    Keys = [integer_to_binary(N) || N <- lists:seq(1, 2_000)],
    Large = rand:bytes(600_000),
    ok = todana:transaction(T, fun(Tx) ->
        [error = ?TX:get(Tx, K) || K <- Keys],
        [ok = ?TX:put(Tx, K, K) || K <- Keys],
        [ok = ?TX:put(Tx, <<"large", N>>, Large) || N <- [1, 2, 3]],
        ok
    end),
    ?assertEqual(2_003, todana:count(T)),
    ?assertEqual({ok, Large}, todana:get(T, ~"large\x{3}")),
    ok = todana:transaction(T, fun(Tx) ->
        [{ok, K} = ?TX:get(Tx, K) || K <- Keys],
        [ok = ?TX:delete(Tx, K) || K <- Keys],
        {ok, Large} = ?TX:get(Tx, ~"large\x{1}"),
        ?TX:put(Tx, ~"large\x{2}", [~"x"])
    end),
    ?assertEqual(3, todana:count(T)),
    Many = [integer_to_binary(N) || N <- lists:seq(1, 13_108)],
    ?assertEqual({error, too_large}, todana:transaction(T, fun(Tx) ->
        lists:foreach(fun(K) -> ok = ?TX:put(Tx, K, K) end, Many)
    end)),
    ?assertEqual({error, too_large}, todana:transaction(T, fun(Tx) ->
        lists:foreach(fun(K) -> ?TX:get(Tx, K) end, Many ++ [
            <<"x", K/binary>> || K <- Many] ++ [<<"y", K/binary>> || K <- Many])
    end)),
    ?assertEqual(3, todana:count(T)).

%% A mebibyte of keys and values is the most that a normal scheduler commits.
long_keys(T) ->
    Keys = [
        todana_commit:key(T, <<N, (binary:copy(~"k", 63_999))/binary>>)
     || N <- lists:seq(1, 17)
    ],
    Fit = lists:sublist(Keys, 15),
    Writes = fun(Ks) -> [{K, ~"1", 0, never} || K <- Ks] end,
    Form = 3,
    Commit = fun(Checked, Written) ->
        todana_nif:commit(T, [{K, 0} || K <- Checked], Written, Form)
    end,
    Removals = [{K} || K <- Keys],
    ?assertEqual(dirty, Commit(Keys, [])),
    ?assertEqual(dirty, Commit([], Writes(Keys))),
    ?assertEqual(dirty, Commit([], Removals)),
    ?assertEqual(dirty, Commit(tl(Fit), Removals)),
    ?assertEqual(0, todana:count(T)),
    ?assertEqual(ok, Commit(Fit, [])),
    ?assertEqual(ok, Commit([], Writes(Fit))),
    ?assertEqual(15, todana:count(T)),
    ?assertEqual(ok, todana_commit:commit(T, [], Removals)),
    ?assertEqual(0, todana:count(T)).

%% Money that moves between accounts: others always see the same sum, and it
%% is the same in the end.
transfers(T) ->
    Accounts = [<<"account", N>> || N <- lists:seq(1, 8)],
    {Encode, Decode} =
        case is_raw(T) of
            true -> {fun integer_to_binary/1, fun binary_to_integer/1};
            false -> {fun(N) -> {money, N} end, fun({money, N}) -> N end}
        end,
    ok = todana:put_many(T, [{A, Encode(100)} || A <- Accounts]),
    Balance = fun(Tx, Account) ->
        {ok, V} = ?TX:get(Tx, Account),
        Decode(V)
    end,
    Pick = fun() -> lists:nth(rand:uniform(8), Accounts) end,
    Transfer = fun() ->
        {From, To, Amount} = {Pick(), Pick(), rand:uniform(150)},
        todana:transaction(T, fun(Tx) ->
            case Balance(Tx, From) of
                Have when Have >= Amount ->
                    ok = ?TX:put(Tx, From, Encode(Have - Amount)),
                    ?TX:put(Tx, To, Encode(Balance(Tx, To) + Amount));
                Have ->
                    {error, {balance, Have}}
            end
        end)
    end,
    Sum = fun() ->
        {ok, Sum} = todana:transaction(T, fun(Tx) ->
            {ok, lists:sum([Balance(Tx, A) || A <- Accounts])}
        end, #{attempts => infinity}),
        Sum
    end,
    Me = self(),
    Pids = [
        spawn_link(fun() ->
            [
                case Transfer() of
                    ok -> ok;
                    {error, conflict} -> ok;
                    {error, {balance, Have}} when Have < 150 -> ok
                end
             || _ <- lists:seq(1, 500)
            ],
            Me ! {done, self()}
        end)
     || _ <- lists:seq(1, 6)
    ],
    sums(Sum, Pids),
    ?assertEqual(800, Sum()).

sums(_Sum, []) ->
    ok;
sums(Sum, Pids) ->
    ?assertEqual(800, Sum()),
    receive
        {done, Pid} -> sums(Sum, Pids -- [Pid])
    after 1 -> sums(Sum, Pids)
    end.

full() ->
    Options = #{entries_max => 2, when_full => refuse, codec => term},
    {ok, _} = todana:open(tx_full, Options),
    ok = todana:put(tx_full, a, 1),
    Put = fun(Keys) ->
        todana:transaction(tx_full, fun(Tx) ->
            lists:foreach(fun(K) -> ok = ?TX:put(Tx, K, 2) end, Keys)
        end)
    end,
    ?assertEqual({error, full}, Put([a, b, c])),
    ?assertEqual([{a, 1}], all(tx_full)),
    ?assertEqual(ok, Put([a, b])),
    ?assertEqual([{a, 2}, {b, 2}], lists:sort(all(tx_full))),
    ok = todana:close(tx_full).

closed() ->
    {ok, _} = todana:open(tx_closed, #{}),
    ?assertEqual(#{1 => no_such_table}, cause(fun() ->
        todana:transaction(tx_closed, fun(Tx) ->
            ok = ?TX:put(Tx, ~"k", ~"v"),
            ok = todana:close(tx_closed),
            {ok, _} = todana:open(tx_closed, #{}),
            ok
        end)
    end)),
    ?assertEqual(error, todana:get(tx_closed, ~"k")),
    ok = todana:close(tx_closed).

%% The two reads are of different moments, so their result does not count.
invalid() ->
    {ok, _} = todana:open(tx_invalid, #{}),
    [ok = todana:put(tx_invalid, Key, ~"0") || Key <- [~"a", ~"b"]],
    Both = fun(Tx) ->
        A = ?TX:get(Tx, ~"a"),
        case A of
            {ok, ~"0"} ->
                [ok = todana:put(tx_invalid, K, ~"1") || K <- [~"a", ~"b"]];
            _ ->
                ok
        end,
        case ?TX:get(Tx, ~"b") of
            A -> ok;
            _ -> inconsistent
        end
    end,
    ?assertEqual(ok, todana:transaction(tx_invalid, Both)),
    Erase = fun(_Tx) -> _ = erase(), ok end,
    ?assertError(
        transaction_erased, todana:transaction(tx_invalid, Erase)
    ),
    ok = todana:close(tx_invalid).
