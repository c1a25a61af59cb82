%% Durable tables and databases from Erlang: each case runs in a node of its
%% own with a data directory, which is killed and started again.
-module(todana_durable_SUITE).

-include_lib("common_test/include/ct.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    records_survive_kill/1,
    every_write_of_the_api/1,
    terms_and_orders/1,
    keys_are_found_by_a_node_with_other_atoms/1,
    options_are_kept/1,
    misuse_and_refusals/1,
    drop_deletes/1,
    many_keys/1,
    entries_of_the_log_have_a_limit/1,
    transactions/1,
    subscriptions_see_the_log/1,
    dump_and_load/1,
    a_dump_of_identifiers_fits_the_table/1,
    databases_are_durable/1,
    named_databases_keep_their_place/1,
    a_restart_of_the_application/1,
    status_of_a_running_node/1,
    files_are_checked/1,
    records_are_dumped/1,
    an_idle_node_wakes_up_for_the_beat_alone/1,
    a_group_has_a_supervisor/1,
    a_group_that_ends_again_and_again_begins_anew/1,
    the_supervisors_of_the_log_may_be_killed/1,
    a_killed_supervisor_does_not_end_the_log_as_a_stop_does/1
]).
%% Called in the node.
-export([transfer/1, subscribed/0, why/1, dumped/1, put_long/3,
         transact_long/2, kill_acceptor/0, carried/1,
         messages_between_beats/0, kill_again_and_again/2]).

all() ->
    [
        records_survive_kill,
        every_write_of_the_api,
        terms_and_orders,
        keys_are_found_by_a_node_with_other_atoms,
        options_are_kept,
        misuse_and_refusals,
        drop_deletes,
        many_keys,
        entries_of_the_log_have_a_limit,
        transactions,
        subscriptions_see_the_log,
        dump_and_load,
        a_dump_of_identifiers_fits_the_table,
        databases_are_durable,
        named_databases_keep_their_place,
        a_restart_of_the_application,
        status_of_a_running_node,
        files_are_checked,
        records_are_dumped,
        an_idle_node_wakes_up_for_the_beat_alone,
        a_group_has_a_supervisor,
        a_group_that_ends_again_and_again_begins_anew,
        the_supervisors_of_the_log_may_be_killed,
        a_killed_supervisor_does_not_end_the_log_as_a_stop_does
    ].

init_per_testcase(Case, Config) ->
    Directory = filename:join(?config(priv_dir, Config), Case),
    [{data_dir_of_node, Directory} | Config].

end_per_testcase(_Case, _Config) ->
    case erase(node_of_case) of
        undefined -> ok;
        Peer -> kill(Peer)
    end.

%% ----------------------------------------------------------------- cases ---

records_survive_kill(Config) ->
    First = start(Config),
    {ok, _} = call(First, open, [orders, #{durable => true}]),
    ok = call(First, put, [orders, ~"k", ~"v"]),
    {ok, 7} = call(First, update_counter, [orders, ~"n", 7, #{}]),
    ok = kill(First),
    Second = start(Config),
    ?assertEqual([], [T || T <- call(Second, list, []), T =:= orders]),
    {ok, _} = call(Second, open, [orders, #{durable => true}]),
    ?assertEqual({ok, ~"v"}, call(Second, get, [orders, ~"k"])),
    ?assertEqual({ok, 8}, call(Second, update_counter, [orders, ~"n", 1])),
    ?assertMatch(#{durable := true, entries := 2},
                 call(Second, info, [orders])),
    %% Closing keeps the records.
    ok = call(Second, close, [orders]),
    {ok, _} = call(Second, open, [orders, #{durable => true}]),
    ?assertEqual({ok, ~"v"}, call(Second, get, [orders, ~"k"])).

every_write_of_the_api(Config) ->
    Node = start(Config),
    {ok, _} = call(Node, open, [t, #{durable => true}]),
    Is = fun(Expected, Function, Arguments) ->
        ?assertEqual({Function, Expected},
                     {Function, call(Node, Function, [t | Arguments])})
    end,
    Is(ok, put, [~"a", ~"1"]),
    Is({ok, ~"1"}, get, [~"a"]),
    Is(ok, put, [~"b", ~"2", #{only => absent, flags => 3}]),
    Is({error, present}, put, [~"b", ~"3", #{only => absent}]),
    Is({error, absent}, put, [~"c", ~"3", #{only => present}]),
    {ok, #{version := Version, flags := 3, expires_at_ms := infinity}} =
        call(Node, get_entry, [t, ~"b"]),
    Is({error, version_differs}, compare_and_swap, [~"b", Version + 9, ~"4"]),
    {ok, New} = call(Node, compare_and_swap, [t, ~"b", Version, ~"4"]),
    Is({error, version_differs}, delete, [~"b", #{version => Version}]),
    Is(ok, delete, [~"b", #{version => New}]),
    Is(error, delete, [~"b"]),
    Is({ok, ~"1"}, take, [~"a"]),
    Is(error, take, [~"a"]),
    Is(error, update_counter, [~"n", 1]),
    Is({ok, 5}, update_counter, [~"n", 2, #{initial => 3}]),
    Is(ok, put, [~"n", ~"x"]),
    Is({error, not_an_integer}, update_counter, [~"n", 1]),
    Is(ok, expire, [~"n", 60_000]),
    {ok, TtlMs} = call(Node, ttl, [t, ~"n"]),
    ?assert(TtlMs > 30_000 andalso TtlMs =< 60_000),
    Is(ok, persist, [~"n"]),
    Is(ok, persist, [~"n"]),
    Is({ok, infinity}, ttl, [~"n"]),
    Is(error, persist, [~"none"]),
    Is(error, expire, [~"none", 5]),
    Is({ok, ~"y"}, fetch, [~"f", fun() -> {ok, ~"y"} end]),
    Is({ok, ~"y"}, get, [~"f"]),
    Large = binary:copy(~"x", 3 bsl 20),
    Is(ok, put, [~"large", Large]),
    Is(ok, put, [~"larger", Large, #{only => absent}]),
    Is({ok, Large}, get, [~"large"]),
    Is({ok, Large}, take, [~"larger"]),
    Is(3, count, []),
    Is(3, clear, []),
    Is(0, count, []).

terms_and_orders(Config) ->
    First = start(Config),
    Options = #{durable => true, codec => term, type => ordered_set},
    {ok, _} = call(First, open, [sorted, Options]),
    {ok, _} = call(First, open, [terms, #{durable => true, codec => term}]),
    Deep = #{deep => lists:seq(1, 5_000)},
    Long = {key, lists:seq(1, 200)},
    ok = call(First, put, [terms, Long, Deep]),
    ok = call(First, put, [terms, {7, a}, Deep, #{ttl_ms => 3_600_000}]),
    ok = call(First, put_many, [sorted, [{{user, N}, N} || N <- [3, 1, 2]]]),
    ok = kill(First),
    Second = start(Config),
    {ok, _} = call(Second, open, [sorted, Options]),
    {ok, _} = call(Second, open, [terms, #{durable => true, codec => term}]),
    ?assertEqual({ok, Deep}, call(Second, get, [terms, Long])),
    ?assertMatch({ok, Ms} when Ms > 1_000_000,
                 call(Second, ttl, [terms, {7, a}])),
    ?assertEqual({ok, Deep}, call(Second, take, [terms, {7, a}])),
    ?assertEqual(
        {[{{user, 1}, 1}, {{user, 2}, 2}, {{user, 3}, 3}], done},
        call(Second, prefix, [sorted, {user, '_'}])
    ),
    ?assertEqual({ok, {user, 3}}, call(Second, last, [sorted])),
    ?assertEqual([{{user, N}, N} || N <- [1, 2, 3]],
                 call(Second, to_list, [sorted])).

%% `todana_external_tests' has why these keys are difficult.
keys_are_found_by_a_node_with_other_atoms(Config) ->
    Options = #{durable => true, codec => term},
    First = start(Config),
    {ok, _} = call(First, open, [t, Options]),
    Names = ["ext2a", "ext2ab", "ext20"],
    create_atoms(First, Names),
    Key = todana_external_tests:term(Names),
    ok = call(First, put, [t, Key, v]),
    ok = kill(First),
    Second = start(Config),
    create_atoms(Second, lists:reverse(Names)),
    {ok, _} = call(Second, open, [t, Options]),
    ?assertEqual({ok, v}, call(Second, get, [t, Key])),
    ?assertEqual(ok, call(Second, delete, [t, Key])),
    ?assertEqual(0, call(Second, count, [t])).

%% The order in which a node creates atoms is that of their numbers.
create_atoms(Node, Names) ->
    [peer:call(Node, erlang, list_to_atom, [Name]) || Name <- Names].

options_are_kept(Config) ->
    First = start(Config),
    Options = #{durable => true, codec => term, ttl_ms => 60_000, shards => 64},
    {ok, Handle} = call(First, open, [t, Options]),
    ?assertEqual({ok, Handle}, call(First, open, [t, Options])),
    ?assertEqual(
        {error, {exists, #{codec => {term, raw}, ttl_ms => {60_000, infinity},
                           shards => {64, default}}}},
        call(First, open, [t, #{durable => true}])
    ),
    ok = call(First, put, [t, k, v]),
    ok = kill(First),
    Second = start(Config),
    ?assertMatch({error, {exists, #{codec := {term, raw}}}},
                 call(Second, open, [t, #{durable => true}])),
    {ok, _} = call(Second, open, [t, Options]),
    ?assertMatch({ok, Ms} when is_integer(Ms), call(Second, ttl, [t, k])),
    ?assertMatch(#{shards := 64, codec := term, ttl_ms := 60_000},
                 call(Second, info, [t])).

misuse_and_refusals(Config) ->
    Memory = start(Config, []),
    ?assertMatch({badarg, [_ | _]},
                 raised(Memory, open, [t, #{durable => true}], "data_dir")),
    ok = kill(Memory),
    Node = start(Config),
    {ok, _} = call(Node, open, [t, #{durable => true}]),
    {ok, _} = call(Node, open, [terms, #{durable => true, codec => term}]),
    {ok, _} = call(Node, open, [m, #{}]),
    {ok, _} = call(Node, open, [db0, #{}]),
    [
        ?assertMatch({{badarg, [_ | _]}, _},
                     {raised(Node, Function, Args, Word), Args})
     || {Function, Args, Word} <- [
            {open, [u, #{durable => yes}], "true or false"},
            {open, [u, #{durable => true, entries_max => 5}], "entries_max"},
            {open, [u, #{durable => true, bytes_max => 5}], "bytes_max"},
            {open, [u, #{durable => true, when_full => refuse}], "when_full"},
            {set_limits, [t, #{ttl_ms => 5}], "durable"},
            {put, [t, {a, b}, ~"v"], "iodata"},
            {put, [t, ~"k", {a}], "iodata"},
            {delete_many, [t, [~"a", {b}]], "iodata"},
            {put_many, [t, [{~"a", ~"b"} | c]], "list"},
            {put, [terms, {memo, [fun() -> Node end]}, v], "fun"},
            {drop, [db0], "database"},
            {drop, [nothing], "no open table"}
        ]
    ],
    ?assertEqual({error, {exists, #{durable => {true, false}}}},
                 call(Node, open, [t, #{}])),
    ?assertEqual({error, {exists, #{durable => {false, true}}}},
                 call(Node, open, [m, #{durable => true}])),
    ok = call(Node, close, [t]),
    ?assertEqual({error, {exists, #{durable => {true, false}}}},
                 call(Node, open, [t, #{}])).

drop_deletes(Config) ->
    First = start(Config),
    {ok, _} = call(First, open, [t, #{durable => true}]),
    {ok, _} = call(First, open, [u, #{durable => true}]),
    ok = call(First, put, [t, ~"k", ~"v"]),
    ok = call(First, put, [u, ~"k", ~"v"]),
    ok = call(First, drop, [t]),
    ok = call(First, close, [u]),
    %% By its name, while it is not open.
    ok = call(First, drop, [u]),
    {ok, _} = call(First, open, [t, #{durable => true, codec => term}]),
    ?assertEqual(0, call(First, count, [t])),
    ok = kill(First),
    Second = start(Config),
    {ok, _} = call(Second, open, [t, #{durable => true, codec => term}]),
    ?assertEqual(0, call(Second, count, [t])),
    {ok, _} = call(Second, open, [u, #{}]),
    ok = call(Second, drop, [u]).

many_keys(Config) ->
    First = start(Config),
    {ok, _} = call(First, open, [t, #{durable => true}]),
    Pairs = [{integer_to_binary(N), ~"v"} || N <- lists:seq(1, 3_000)],
    ok = call(First, put_many, [t, Pairs]),
    ok = call(First, put_many, [t, #{~"x" => ~"1"}, #{atomic => true}]),
    ?assertEqual(
        {error, present},
        call(First, put_many, [t, [{~"x", ~"2"}, {~"y", ~"2"}],
                               #{atomic => true, only => absent}])
    ),
    ?assertEqual(1_001, call(First, delete_many, [
        t, [~"none" | [integer_to_binary(N) || N <- lists:seq(1, 1_001)]]
    ])),
    ok = kill(First),
    Second = start(Config),
    {ok, _} = call(Second, open, [t, #{durable => true}]),
    ?assertEqual(2_000, call(Second, count, [t])),
    ?assertEqual(#{~"x" => ~"1", ~"3000" => ~"v"},
                 call(Second, get_many, [t, [~"x", ~"y", ~"3000", ~"1"]])).

%% With values of at most 1 MiB, one step may write 17 MiB.
entries_of_the_log_have_a_limit(Config) ->
    Node = start(Config, [{durable_value_bytes_max, "1mb"} | durable(Config)]),
    Run = fun(Function, Arguments) ->
        peer:call(Node, ?MODULE, Function, Arguments, 60_000)
    end,
    {ok, _} = call(Node, open, [t, #{durable => true, codec => term}]),
    %% One after another, in entries of about a MiB.
    ?assertEqual({ok, 3}, Run(put_long, [t, 3, #{}])),
    ?assertEqual({ok, 40}, Run(put_long, [t, 40, #{}])),
    40 = call(Node, delete_many, [t, lists:seq(1, 40)]),
    %% Atomically, in one entry, or not.
    ?assertEqual({ok, 1}, Run(put_long, [t, 25, #{atomic => true}])),
    ?assertEqual(25, call(Node, count, [t])),
    25 = call(Node, clear, [t]),
    TooLarge = {error, too_large},
    ?assertEqual({TooLarge, 0}, Run(put_long, [t, 27, #{atomic => true}])),
    ?assertEqual({TooLarge, 0}, Run(transact_long, [t, 27])),
    ?assertEqual(0, call(Node, count, [t])),
    ?assertEqual({ok, 1}, Run(transact_long, [t, 25])),
    %% A table in memory has no such limit.
    {ok, _} = call(Node, open, [m, #{codec => term}]),
    ?assertMatch({ok, _}, Run(put_long, [m, 27, #{atomic => true}])).

%% Pairs of 2/3 MiB; the result, and how many batches the log has got.
put_long(Table, Number, Options) ->
    Value = <<0:((2 bsl 20) div 3)/unit:8>>,
    Pairs = [{N, {N, Value}} || N <- lists:seq(1, Number)],
    batches(fun() -> todana:put_many(Table, Pairs, Options) end).

transact_long(Table, Number) ->
    Value = <<0:((2 bsl 20) div 3)/unit:8>>,
    batches(fun() ->
        todana:transaction(Table, fun(Tx) ->
            [
                ok = todana_transaction:put(Tx, N, Value)
             || N <- lists:seq(1, Number)
            ],
            ok
        end)
    end).

batches(Write) ->
    #{batches := Before} = todana:info(),
    Result = Write(),
    #{batches := After} = todana:info(),
    {Result, After - Before}.

transactions(Config) ->
    First = start(Config),
    Options = #{durable => true, codec => term},
    {ok, _} = call(First, open, [t, Options]),
    ok = call(First, put_many, [t, [{a, 100}, {b, 0}]]),
    Callers = [
        begin
            {Pid, Monitor} = spawn_monitor(fun() ->
                ok = peer:call(First, ?MODULE, transfer, [t], 60_000),
                exit(transferred)
            end),
            {Pid, Monitor}
        end
     || _ <- lists:seq(1, 4)
    ],
    [
        receive {'DOWN', M, _, P, Why} -> ?assertEqual(transferred, Why) end
     || {P, M} <- Callers
    ],
    ?assertEqual({ok, 60}, call(First, get, [t, a])),
    ?assertEqual({error, no}, call(First, update, [
        t, a, fun(_) -> {error, no} end
    ])),
    ?assertEqual({ok, 61}, call(First, update, [
        t, a, fun({ok, N}) -> {put, N + 1} end
    ])),
    ?assertEqual(ok, call(First, update, [t, c, fun(error) -> delete end])),
    ?assertEqual({ok, 1}, call(First, update, [
        t, c, fun(error) -> {put, 1} end
    ])),
    ok = kill(First),
    Second = start(Config),
    {ok, _} = call(Second, open, [t, Options]),
    ?assertEqual(#{a => 61, b => 40, c => 1},
                 call(Second, get_many, [t, [a, b, c]])).

%% Ten transfers of one.
transfer(Table) ->
    lists:foreach(
        fun(_) ->
            ok = todana:transaction(Table, fun(Tx) ->
                {ok, A} = todana_transaction:get(Tx, a),
                {ok, B} = todana_transaction:get(Tx, b),
                ok = todana_transaction:put(Tx, a, A - 1),
                ok = todana_transaction:put(Tx, b, B + 1)
            end)
        end,
        lists:seq(1, 10)
    ).

subscriptions_see_the_log(Config) ->
    Node = start(Config),
    ?assertEqual([put, put, delete, clear],
                 peer:call(Node, ?MODULE, subscribed, [])).

subscribed() ->
    {ok, _} = todana:open(t, #{durable => true}),
    {ok, Subscription} = todana:subscribe(t, #{}),
    ok = todana:put(t, ~"a", ~"1"),
    {ok, 1} = todana:update_counter(t, ~"n", 1, #{}),
    ok = todana:delete(t, ~"a"),
    1 = todana:clear(t),
    receive {todana, Subscription, ready} -> ok end,
    [element(1, Event) || Event <- events(Subscription, 4)].

events(_Subscription, 0) ->
    [];
events(Subscription, Left) ->
    case todana:events(Subscription) of
        [] ->
            receive {todana, Subscription, ready} -> ok end,
            events(Subscription, Left);
        Events ->
            Events ++ events(Subscription, Left - length(Events))
    end.

dump_and_load(Config) ->
    First = start(Config),
    File = filename:join(?config(priv_dir, Config), "durable.dump"),
    {ok, _} = call(First, open, [t, #{durable => true}]),
    ok = call(First, put_many, [
        t, [{integer_to_binary(N), ~"v"} || N <- lists:seq(1, 1_000)]
    ]),
    ok = call(First, put, [t, ~"e", ~"v", #{ttl_ms => 1_000_000, flags => 9}]),
    ?assertMatch({ok, #{records := 1_001}}, call(First, dump, [t, File])),
    {ok, _} = call(First, open, [u, #{durable => true}]),
    ?assertEqual({ok, #{loaded => 1_001, expired => 0}},
                 call(First, load, [u, File])),
    ok = kill(First),
    Second = start(Config),
    {ok, _} = call(Second, open, [u, #{durable => true}]),
    ?assertEqual(1_001, call(Second, count, [u])),
    ?assertMatch({ok, #{flags := 9, expires_at_ms := Ms}} when is_integer(Ms),
                 call(Second, get_entry, [u, ~"e"])),
    Count = fun(_Key, _Value, N) -> N + 1 end,
    ?assertEqual(1_001, call(Second, fold, [Count, 0, u])),
    ?assertEqual({ok, 1_001}, call(Second, fold_snapshot, [Count, 0, u])).

%% Keys with identifiers have other bytes in a table in memory than in a durable
%% one. A dump of either goes to both.
a_dump_of_identifiers_fits_the_table(Config) ->
    Node = start(Config),
    File = filename:join(?config(priv_dir, Config), "identifiers.dump"),
    ?assertEqual([], peer:call(Node, ?MODULE, carried, [File], 60_000)).

%% The pairs of tables between which a key was not carried.
carried(File) ->
    Tables = [
        {durable, #{codec => term, durable => true}},
        {in_memory, #{codec => term}}
    ],
    Keys = [
        {session, Identifier}
     || Identifier <- [whereis(init), hd(erlang:ports()), make_ref(), none]
    ],
    Records = lists:sort([{Key, old} || Key <- Keys]),
    [
        {From, To, Key, Loaded}
     || {From, FromOptions} <- Tables,
        {To, ToOptions} <- Tables,
        Key <- Keys,
        Loaded <- [begin
            {ok, _} = todana:open(from, FromOptions),
            {ok, _} = todana:open(to, ToOptions),
            ok = todana:put_many(from, Records),
            {ok, _} = todana:dump(from, File),
            {ok, _} = todana:load(to, File),
            Records = lists:sort(todana:to_list(to)),
            Found = {todana:take(to, Key), todana:count(to)},
            [_ = todana:drop(T) || T <- [from, to]],
            Found
        end],
        Loaded =/= {{ok, old}, length(Keys) - 1}
    ].

databases_are_durable(Config) ->
    First = start(Config),
    {ok, _} = call(First, open, [db0, #{}]),
    {ok, _} = call(First, open, [db15, #{}]),
    ?assertMatch(#{durable := true}, call(First, info, [db15])),
    ok = call(First, put, [db0, ~"k", ~"zero"]),
    ok = call(First, put, [db15, ~"k", ~"last"]),
    ok = kill(First),
    Second = start(Config),
    [{ok, _} = call(Second, open, [Name, #{}]) || Name <- [db0, db15]],
    ?assertEqual({ok, ~"zero"}, call(Second, get, [db0, ~"k"])),
    ?assertEqual({ok, ~"last"}, call(Second, get, [db15, ~"k"])).

named_databases_keep_their_place(Config) ->
    Start = fun(Databases) ->
        start(Config, [{databases, Databases} | durable(Config)])
    end,
    First = Start(": a.kct b.kch"),
    [{ok, _} = call(First, open, [Name, #{}]) || Name <- [db0, db1, db2]],
    ?assertMatch(#{durable := false}, call(First, info, [db0])),
    ?assertMatch(#{durable := true, order := lexical},
                 call(First, info, [db1])),
    ok = call(First, put, [db0, ~"k", ~"lost"]),
    ok = call(First, put, [db1, ~"k", ~"kept"]),
    ok = kill(First),
    [
        ?assertMatch({_, [_ | _]},
                     {Sentence, string:find(Sentence, Word)})
     || {Databases, Word} <- [
            {": b.kch a.kct", "is `a.kct`"},
            {":", "is `a.kct`"},
            {": a.kct#rcomp=dec b.kch", "lexical"},
            {": a.kct b.kch *", "database 3 was kept on disk"},
            {": a.kct b.kch c.kch : %", "database 4 was kept on disk"}
        ],
        Sentence <- [refused(Config, Databases)]
    ],
    Second = Start(": a.kct b.kch c.kct"),
    [{ok, _} = call(Second, open, [Name, #{}]) || Name <- [db0, db1]],
    ?assertEqual(error, call(Second, get, [db0, ~"k"])),
    ?assertEqual({ok, ~"kept"}, call(Second, get, [db1, ~"k"])),
    ok = kill(Second),
    %% A database in memory may become a durable one.
    Third = Start("a.kch a.kct b.kch c.kct"),
    ok = kill(Third),
    ?assertMatch([_ | _], string:find(
        refused(Config, ": a.kct b.kch c.kct"), "database 0 was kept"
    )).

%% The same node may stop and start the application.
a_restart_of_the_application(Config) ->
    Node = start(Config),
    {ok, _} = call(Node, open, [t, #{durable => true}]),
    ok = call(Node, put, [t, ~"k", ~"v"]),
    {ok, _} = call(Node, open, [db0, #{}]),
    ok = peer:call(Node, application, stop, [todana], 60_000),
    ?assertError(badarg, call(Node, get, [t, ~"k"])),
    [
        ?assertEqual({Function, recovering}, {Function, element(1, peer:call(
            Node, ?MODULE, why, [{Function, [db0 | Arguments]}]
        ))})
     || {Function, Arguments} <- [
            {get, [~"k"]}, {put, [~"k", ~"v"]}, {delete, [~"k"]},
            {put_many, [[{~"k", ~"v"}]]}, {update_counter, [~"n", 1]}
        ]
    ],
    {ok, _} = peer:call(Node, application, ensure_all_started, [todana]),
    ok = serving(Node),
    {ok, _} = call(Node, open, [t, #{durable => true}]),
    ?assertEqual({ok, ~"v"}, call(Node, get, [t, ~"k"])),
    ok = call(Node, put, [t, ~"k", ~"w"]),
    ?assertEqual({ok, ~"w"}, call(Node, get, [t, ~"k"])).

%% The path of a socket is short.
status_of_a_running_node(Config0) ->
    Directory = filename:join(filename:basedir(user_cache, "todana"),
                              "status" ++ os:getpid()),
    ok = filelib:ensure_path(filename:dirname(Directory)),
    Config = [{data_dir_of_node, Directory} | Config0],
    try
        status_of_a_running_node(Config, Directory)
    after
        file:del_dir_r(Directory)
    end.

status_of_a_running_node(Config, Directory) ->
    Memory = start(Config, []),
    ?assertEqual(#{state => serving, durability => none},
                 call(Memory, info, [])),
    ok = kill(Memory),
    ?assertMatch({error, "no node is running" ++ _},
                 todana_status_client:ask(Directory)),
    Node = start(Config),
    {ok, _} = call(Node, open, [t, #{durable => true}]),
    ok = call(Node, put, [t, ~"k", ~"v"]),
    ok = peer:call(
        Node, todana_snapshots, request_and_wait, [0, 60_000], 70_000
    ),
    #{state := serving, durability := always, records := Records} =
        call(Node, info, []),
    ?assert(Records >= 2),
    {ok, Status} = todana_status_client:ask(Directory),
    Binary = unicode:characters_to_binary(Directory),
    ?assertMatch(
        #{
            ~"state" := ~"serving",
            ~"durability" := ~"always",
            ~"data_dir" := Binary,
            ~"last_snapshot" := #{~"bytes" := _, ~"age_ms" := _}
        },
        Status
    ),
    Text = unicode:characters_to_binary(todana_status_text:text(Status)),
    ?assertMatch(<<"serving\n", _/binary>>, Text),
    [
        ?assertNotEqual({Word, nomatch}, {Word, binary:match(Text, Word)})
     || Word <- [~"always", Binary, ~"s ago", ~"records each", ~"free",
                 ~"with its fdatasync"]
    ],
    %% Ra calls it for each batch, and does not say how long it took.
    ?assertEqual(nomatch, binary:match(Text, ~"  fdatasync")),
    ?assertNot(is_map_key(~"fsync_us", Status)),
    %% A failed answer is not the last one.
    ok = peer:call(Node, ?MODULE, kill_acceptor, []),
    ?assertMatch({ok, #{~"state" := ~"serving"}},
                 todana_status_client:ask(Directory)),
    {ok, Info} = file:read_file_info(filename:join(Directory, "status")),
    ?assertEqual(8#600, element(8, Info) band 8#777),
    ok = kill(Node),
    ?assertMatch({error, "no node is running" ++ _},
                 todana_status_client:ask(Directory)).

kill_acceptor() ->
    Keeper = whereis(todana_status),
    {links, Links} = process_info(Keeper, links),
    [Acceptor] = [
        Pid
     || Pid <- Links, is_pid(Pid), Pid =/= whereis(todana_durable_sup)
    ],
    true = exit(Acceptor, kill),
    ok.

files_are_checked(Config) ->
    Directory = ?config(data_dir_of_node, Config),
    First = start(Config),
    {ok, _} = call(First, open, [t, #{durable => true}]),
    ok = call(First, put_many, [
        t, [{integer_to_binary(N), ~"v"} || N <- lists:seq(1, 2_000)]
    ]),
    ok = peer:call(
        First, todana_snapshots, request_and_wait, [0, 60_000], 70_000
    ),
    ok = call(First, put, [t, ~"k", ~"behind the snapshot"]),
    Other = boot([]),
    Check = fun() ->
        peer:call(Other, todana_offline_check, check, [Directory])
    end,
    {error, InUse} = Check(),
    ?assertNotEqual(nomatch, string:find(InUse, "in use by a running node")),
    ok = kill(First),
    %% A start moves the log to its final files.
    Second = start(Config),
    {ok, _} = call(Second, open, [t, #{durable => true}]),
    ok = call(Second, put, [t, ~"l", ~"in the second log file"]),
    ok = kill(Second),
    put(node_of_case, Other),
    {ok, Findings} = Check(),
    ?assertEqual([], [F || {damaged, _, _} = F <- Findings]),
    [
        ?assertMatch({_, [_ | _]},
                     {Kind, [F || {ok, F, _} <- Findings,
                                  string:find(F, Kind) =/= nomatch]})
     || Kind <- ["/node", ".wal", ".segment", "data.tds"]
    ],
    %% A flipped bit in each file is found, and only there.
    [
        begin
            {ok, Bytes} = file:read_file(File),
            Used = byte_size(todana_log_writer:read_used(File)),
            Place = trunc(Used * Part / 10),
            <<Before:Place/binary, Byte, After/binary>> = Bytes,
            Flipped = [Before, Byte bxor 4, After],
            ok = file:write_file(File, Flipped),
            {ok, Now} = Check(),
            ?assertMatch({_, [{_, File, _}]},
                         {Part, Now -- Findings}),
            [{_, _, Text}] = Now -- Findings,
            ?assertMatch({_, [_ | _]}, {Text, string:find(
                unicode:characters_to_list(Text), "offset")}),
            ok = file:write_file(File, Bytes)
        end
     || {ok, File, _} <- Findings,
        {Extension, Parts} <- [
            {".wal", [2, 5, 8]}, {".tds", [2, 5, 8]},
            %% In front is room for an index that is not full.
            {".segment", [9.9999]}
        ],
        filename:extension(File) =:= Extension,
        Part <- Parts
    ],
    ?assertEqual({ok, Findings}, Check()),
    ?assertMatch({error, [_ | _]},
                 peer:call(Other, todana_offline_check, check, ["/nowhere"])).

records_are_dumped(Config) ->
    Directory = ?config(data_dir_of_node, Config),
    First = start(Config, [{databases, ": a.kct#rcomp=dec"} | durable(Config)]),
    {ok, _} = call(First, open, [db1, #{}]),
    {ok, _} = call(First, open, [t, #{durable => true}]),
    ok = call(First, put, [db1, ~"10", <<255, 0>>]),
    ok = call(First, put, [t, ~"k", ~"v", #{
        flags => 7, expires_at_ms => 99_999_999_999_999
    }]),
    ok = kill(First),
    Second = boot([]),
    Lines = [json:decode(L) || L <- peer:call(
        Second, ?MODULE, dumped, [Directory], 60_000
    )],
    ?assertMatch(
        [
            #{
                ~"table" := ~"db1", ~"key" := ~"10",
                ~"value" := #{~"base64" := ~"/wA="}, ~"flags" := 0,
                ~"expires_at_ms" := null
            },
            #{
                ~"table" := ~"t", ~"codec" := ~"raw", ~"key" := ~"k",
                ~"value" := ~"v", ~"flags" := 7,
                ~"expires_at_ms" := 99_999_999_999_999
            }
        ],
        Lines
    ),
    [?assert(is_integer(maps:get(~"version", Line))) || Line <- Lines].

dumped(Directory) ->
    Caller = self(),
    ok = todana_offline_dump:dump(Directory, fun(Lines) ->
        Caller ! {lines, iolist_to_binary(Lines)},
        ok
    end),
    string:lexemes(iolist_to_binary(received()), "\n").

received() ->
    receive
        {lines, Lines} -> [Lines | received()]
    after 0 -> []
    end.

%% Timers go on while there is work, and only then.
an_idle_node_wakes_up_for_the_beat_alone(Config) ->
    Node = start(Config),
    {ok, _} = call(Node, open, [t, #{durable => true}]),
    {ok, _} = call(Node, open, [m, #{}]),
    Rounds = fun() ->
        peer:call(Node, ?MODULE, messages_between_beats, [], 60_000)
    end,
    IsIdle = fun() -> Rounds() =:= [beat] end,
    ok = repeat(IsIdle),
    %% A record that expires is swept more often than that.
    ok = call(Node, put, [m, ~"k", ~"v", #{ttl_ms => 60_000}]),
    ok = repeat(fun() -> lists:member(sweep, Rounds()) end),
    ok = call(Node, delete, [m, ~"k"]),
    %% A write to the log is noted soon.
    ok = call(Node, put, [t, ~"k", ~"v"]),
    repeat(IsIdle).

repeat(Is) ->
    case Is() of
        true -> ok;
        false -> repeat(Is)
    end.

%% A node without a cluster; `todana_cluster_SUITE' has the tree of a member.
a_group_has_a_supervisor(Config) ->
    Node = start(Config),
    {ok, _} = call(Node, open, [t, #{durable => true}]),
    ?assertEqual(
        [
            todana_flush_guard, todana_disk, {todana_group_sup, 0},
            todana_status
        ],
        children(Node, todana_durable_sup)
    ),
    ?assertEqual(
        [todana_group, todana_batcher, todana_clock],
        children(Node, todana_group_sup)
    ),
    %% The batches on their way survive these processes.
    Owner = peer:call(Node, ets, info, [todana_batcher, owner]),
    ?assertEqual(Owner, peer:call(Node, erlang, whereis, [todana_durable_sup])).

%% In the order in which they were started.
children(Node, Supervisor) ->
    Children = peer:call(Node, supervisor, which_children, [Supervisor]),
    lists:reverse([Id || {Id, Pid, _, _} <- Children, is_pid(Pid)]).

a_group_that_ends_again_and_again_begins_anew(Config) ->
    Node = start(Config),
    {ok, _} = call(Node, open, [t, #{durable => true}]),
    ok = call(Node, put, [t, ~"kept", ~"v"]),
    Before = peer:call(Node, erlang, whereis, [todana_durable_sup]),
    ok = peer:call(Node, ?MODULE, kill_again_and_again, [todana_clock, 21]),
    ok = repeat(fun() ->
        Now = peer:call(Node, erlang, whereis, [todana_durable_sup]),
        is_pid(Now) andalso Now =/= Before
    end),
    ok = accepts_writes_again(Node),
    ?assertEqual({ok, ~"v"}, call(Node, get, [t, ~"kept"])).

accepts_writes_again(Node) ->
    ok = repeat(fun() ->
        try call(Node, put, [t, ~"k", ~"w"]) of
            ok -> true;
            {error, unknown} -> false
        catch
            error:_ -> false
        end
    end),
    ?assertEqual({ok, ~"w"}, call(Node, get, [t, ~"k"])),
    ok.

%% Their processes end later, and have names.
the_supervisors_of_the_log_may_be_killed(Config) ->
    Node = start(Config),
    {ok, _} = call(Node, open, [t, #{durable => true}]),
    [
        begin
            ok = call(Node, put, [t, ~"k", ~"v"]),
            ok = peer:call(Node, ?MODULE, kill_again_and_again, [Name, 1]),
            ok = accepts_writes_again(Node)
        end
     || Name <- [todana_group_sup, todana_durable_sup, todana_group_sup]
    ].

%% The notes of what is confirmed end with that supervisor.
a_killed_supervisor_does_not_end_the_log_as_a_stop_does(Config) ->
    Node = start(Config),
    {ok, _} = call(Node, open, [t, #{durable => true}]),
    ok = call(Node, put, [t, ~"k", ~"v"]),
    #{server_dir := Server} = peer:call(Node, todana_raft_groups, opened, [0]),
    IsFinal = fun() ->
        {ok, #{is_final := Is}} =
            peer:call(Node, todana_log_mark, facts, [Server]),
        Is
    end,
    ?assertNot(IsFinal()),
    %% It does not start the next one before it goes on.
    ok = peer:call(Node, sys, suspend, [todana_sup]),
    ok = peer:call(Node, ?MODULE, kill_again_and_again, [
        todana_durable_sup, 1
    ]),
    ok = peer:call(Node, todana_group_sup, await_end, [todana_group_sup]),
    ?assertNot(IsFinal()),
    ok = peer:call(Node, sys, resume, [todana_sup]),
    accepts_writes_again(Node).

kill_again_and_again(_Name, 0) ->
    ok;
kill_again_and_again(Name, Left) ->
    case whereis(Name) of
        undefined ->
            timer:sleep(1),
            kill_again_and_again(Name, Left);
        Pid ->
            Monitor = monitor(process, Pid),
            true = exit(Pid, kill),
            receive {'DOWN', Monitor, process, Pid, _} -> ok end,
            kill_again_and_again(Name, Left - 1)
    end.

%% What the processes that look at something get from one beat to the next, each
%% kind once.
messages_between_beats() ->
    Names = [
        todana_sweeper, todana_log_events, todana_disk, todana_group,
        todana_batcher, todana_clock, todana_status
    ],
    Pids = [whereis(Name) || Name <- Names],
    ok = await_beat(Pids),
    Kinds = kinds_until_beat([]),
    _ = [erlang:trace(Pid, false, ['receive']) || Pid <- Pids],
    flush_traces(),
    lists:usort([beat | Kinds]).

await_beat(Pids) ->
    _ = [erlang:trace(Pid, true, ['receive']) || Pid <- Pids],
    receive {trace, _, 'receive', beat} -> ok end.

%% The others get this beat, too; the next one is that of the same process.
kinds_until_beat(Kinds) ->
    receive
        {trace, Pid, 'receive', beat} ->
            case lists:member({beat, Pid}, Kinds) of
                true -> [Kind || Kind <- Kinds, is_atom(Kind)];
                false -> kinds_until_beat([{beat, Pid} | Kinds])
            end;
        %% A trace of `receive .. after'.
        {trace, _, 'receive', timeout} ->
            kinds_until_beat(Kinds);
        {trace, _, 'receive', Kind} when is_atom(Kind) ->
            kinds_until_beat([Kind | Kinds]);
        {trace, _, 'receive', _} ->
            kinds_until_beat(Kinds)
    end.

flush_traces() ->
    receive {trace, _, _, _} -> flush_traces() after 0 -> ok end.

%% ------------------------------------------------------------------ node ---

durable(Config) ->
    [{data_dir, ?config(data_dir_of_node, Config)}].

start(Config) ->
    start(Config, durable(Config)).

start(_Config, Environment) ->
    Node = boot(Environment),
    {ok, _} = peer:call(Node, application, ensure_all_started, [todana],
                        60_000),
    ok = case proplists:is_defined(data_dir, Environment) of
        true -> serving(Node);
        false -> ok
    end,
    Node.

boot(Environment) ->
    {ok, Peer, _Node} = peer:start_link(#{
        connection => standard_io, wait_boot => 60_000,
        args => ["-pa" | code:get_path()]
    }),
    _ = unlink(Peer),
    put(node_of_case, Peer),
    ok = peer:call(Peer, logger, set_primary_config, [level, none]),
    [
        ok = peer:call(Peer, application, set_env, [todana, Name, Value])
     || {Name, Value} <- Environment
    ],
    Peer.

%% Waits until the log has been read.
serving(Node) ->
    case peer:call(Node, todana_nif, durable_state, []) of
        open -> ok;
        _ -> timer:sleep(10), serving(Node)
    end.

%% As a power failure of the process: nothing is closed or flushed.
kill(Peer) ->
    OsPid = peer:call(Peer, os, getpid, []),
    Monitor = monitor(process, Peer),
    _ = os:cmd("kill -9 " ++ OsPid),
    receive {'DOWN', Monitor, process, Peer, _} -> ok end,
    _ = erase(node_of_case),
    ok.

refused(Config, Databases) ->
    Node = boot([{databases, Databases} | durable(Config)]),
    {error, {todana, {{todana, Sentence}, _}}} =
        peer:call(Node, application, ensure_all_started, [todana], 60_000),
    ok = kill(Node),
    Sentence.

call(Node, Function, Arguments) ->
    peer:call(Node, todana, Function, Arguments, 60_000).

%% The class of the error, and the place of the word in its explanation.
raised(Node, Function, Arguments, Word) ->
    {Reason, Text} = peer:call(Node, ?MODULE, why, [{Function, Arguments}]),
    {Reason, string:find(Text, Word)}.

why({Function, Arguments}) ->
    try apply(todana, Function, Arguments) of
        Result -> {Result, ""}
    catch
        error:Reason:Stack ->
            Texts = todana_error:format_error(Reason, Stack),
            {Reason, lists:flatten([
                unicode:characters_to_list(T) || _ := T <- Texts
            ])}
    end.
