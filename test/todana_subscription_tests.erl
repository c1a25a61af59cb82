%% Subscriptions to the changes of a table.
-module(todana_subscription_tests).

-include_lib("eunit/include/eunit.hrl").

-define(TIMEOUT_MS, 60_000).

subscription_test_() ->
    {setup, fun start/0, fun stop/1, [
        {foreach, fun() -> ok end, fun close_tables/1, [
            {Title, Test}
         || {Title, Test} <- [
                {"kinds of events", fun kinds/0},
                {"keys of terms", fun keys_of_terms/0},
                {"ordered tables", fun ordered/0},
                {"keys, prefixes and kinds", fun filters/0},
                {"one message at a time", fun one_message/0},
                {"a full queue counts what it drops", fun full_queue/0},
                {"seen and lost are all", fun seen_and_lost/0},
                {"writers on every kind of thread", fun threads/0},
                {"the table is closed", fun closed/0},
                {"the subscriber dies", fun dead_subscriber/0},
                {"the subscriber is killed while others write", fun killed/0},
                {"unsubscribed", fun unsubscribed/0},
                {"unsubscribed while the table is closed",
                 {timeout, 120, fun unsubscribed_while_closed/0}},
                {"not too many", fun too_many/0},
                {"misuse", fun misuse/0},
                {"network clients", fun network/0},
                {"SWAPDB", fun swapped/0},
                {"a gen_server's init reads, then follows", fun replica/0}
            ]
        ]}
    ]}.

start() ->
    _ = application:stop(todana),
    ok = application:set_env(todana, listen_resp, "127.0.0.1:0"),
    {ok, Started} = application:ensure_all_started(todana),
    Started.

stop(Started) ->
    ok = application:unset_env(todana, listen_resp),
    [ok = application:stop(Application) || Application <- Started].

close_tables(_) ->
    [ok = todana:close(Name) || Name <- todana:list(), not is_database(Name)].

is_database(Name) ->
    lists:prefix("db", atom_to_list(Name)).

open(Options) ->
    {ok, Table} = todana:open(changes, Options),
    Table.

subscribe(Table) ->
    {ok, Subscription} = todana:subscribe(Table, #{}),
    ?assert(is_reference(Subscription)),
    Subscription.

%% The next batch, when there is one.
next(Subscription) ->
    receive
        {todana, Subscription, ready} -> todana:events(Subscription)
    after ?TIMEOUT_MS -> error(no_event)
    end.

%% This many events, gaps not counted, from as many batches as it takes.
next(Subscription, Count) ->
    case next(Subscription) of
        Events when length(Events) >= Count -> Events;
        Events -> Events ++ next(Subscription, Count - length(Events))
    end.

nothing_follows(Subscription) ->
    ?assertEqual([], todana:events(Subscription)),
    receive
        {todana, Subscription, _} = Message -> error(Message)
    after 0 -> ok
    end.

%% Messages of a subscription in the mailbox.
waiting(Subscription) ->
    {messages, Messages} = process_info(self(), messages),
    length([M || {todana, S, _} = M <- Messages, S =:= Subscription]).

version(Table, Key) ->
    {ok, #{version := Version}} = todana:get_entry(Table, Key),
    Version.

%% Until a condition holds that other processes bring about.
wait(Condition) ->
    wait(Condition, erlang:monotonic_time(millisecond) + ?TIMEOUT_MS).

wait(Condition, EndMs) ->
    case Condition() of
        true ->
            ok;
        false ->
            ?assert(erlang:monotonic_time(millisecond) < EndMs),
            timer:sleep(5),
            wait(Condition, EndMs)
    end.

subscriptions(Table) ->
    maps:get(subscriptions, todana:stats(Table)).

%% ----------------------------------------------------------------- cases ---

kinds() ->
    T = open(#{entries_max => 3, shards => 1}),
    S = subscribe(T),
    ok = todana:put(T, ~"a", ~"1"),
    A1 = version(T, ~"a"),
    ok = todana:expire(T, ~"a", 1_000_000),
    A2 = version(T, ~"a"),
    ?assertEqual([{put, ~"a", A1}, {put, ~"a", A2}], next(S)),
    {ok, 1} = todana:update_counter(T, ~"n", 1, #{}),
    N = version(T, ~"n"),
    {ok, ~"1"} = todana:take(T, ~"a"),
    ?assertEqual([{put, ~"n", N}, {delete, ~"a", A2}], next(S)),
    ok = todana:put_many(T, [{~"b", ~"2"}, {~"c", ~"3"}], #{atomic => true}),
    B = version(T, ~"b"),
    C = version(T, ~"c"),
    ?assertEqual([{put, ~"b", B}, {put, ~"c", C}], lists:sort(next(S))),
    ok = todana:put(T, ~"d", ~"4"),
    D = version(T, ~"d"),
    [{put, ~"d", D}, {evict, Evicted, Version}] = next(S, 2),
    Others = [{~"n", N}, {~"b", B}, {~"c", C}],
    ?assert(lists:member({Evicted, Version}, Others)),
    ok = todana:put(T, ~"d", ~"5", #{ttl_ms => 1}),
    wait(fun() -> todana_sweeper:sweep() > 0 orelse todana:count(T) < 3 end),
    [{put, ~"d", D2}, {expire, ~"d", D2}] = next(S, 2),
    2 = todana:clear(T),
    ?assertEqual([{clear, D2}], next(S)),
    0 = todana:clear(T),
    nothing_follows(S).

keys_of_terms() ->
    T = open(#{codec => term}),
    S = subscribe(T),
    Keys = [
        a, 7, -(1 bsl 80), 1.5, ~"bytes", "text", {user, 7}, #{a => [b]},
        self(), make_ref(), {x, [self()]}, binary:copy(~"x", 20_000),
        {binary:copy(~"x", 20_000)}
    ],
    [ok = todana:put(T, Key, value) || Key <- Keys],
    ?assertEqual(Keys, [Key || {put, Key, _} <- next(S, length(Keys))]),
    length(Keys) =:= todana:delete_many(T, Keys) orelse error(keys),
    ?assertEqual(
        lists:sort(Keys),
        lists:sort([Key || {delete, Key, _} <- next(S, length(Keys))])
    ).

ordered() ->
    T = open(#{type => ordered_set}),
    S = subscribe(T),
    ok = todana:put(T, ~"b", ~""),
    true = ok =:= todana:delete(T, ~"b"),
    ?assertMatch([{put, ~"b", V}, {delete, ~"b", V}], next(S)),
    lists:foreach(
        fun(Order) ->
            {ok, Terms} = todana:open(Order, #{
                type => ordered_set, codec => term, order => Order
            }),
            Keys = [7, {user, 7, name}, {user, 70, name}, {user, 7, self}],
            All = subscribe(Terms),
            {ok, One} = todana:subscribe(Terms, #{prefix => {user, 7, '_'}}),
            {ok, Key} = todana:subscribe(Terms, #{key => {user, 70, name}}),
            [ok = todana:put(Terms, K, v) || K <- Keys],
            ?assertEqual(Keys, [K || {put, K, _} <- next(All, 4)]),
            ?assertEqual([{user, 7, name}, {user, 7, self}],
                         [K || {put, K, _} <- next(One, 2)]),
            ?assertMatch([{put, {user, 70, name}, _}], next(Key))
        end,
        [term, term_descending]
    ).

filters() ->
    T = open(#{}),
    Subscribe = fun(Options) ->
        {ok, Subscription} = todana:subscribe(T, Options),
        Subscription
    end,
    Prefix = Subscribe(#{prefix => ["us", ~"er:"]}),
    Key = Subscribe(#{key => ~"user:1", events => [delete]}),
    Clears = Subscribe(#{events => [clear]}),
    [ok = todana:put(T, K, ~"") || K <- [~"user:1", ~"user", ~"user:2"]],
    3 = todana:delete_many(T, [~"user:1", ~"user", ~"user:2"]),
    ok = todana:put(T, ~"other", ~""),
    1 = todana:clear(T),
    Kinds = [{K, N} || {K, N, _} <- next(Prefix)],
    ?assertEqual(
        [{delete, ~"user:1"}, {delete, ~"user:2"}, {put, ~"user:1"},
         {put, ~"user:2"}],
        lists:sort(Kinds)
    ),
    ?assertMatch([{delete, ~"user:1", _}], next(Key)),
    ?assertMatch([{clear, _}], next(Clears)),
    Terms = element(2, todana:open(terms, #{codec => term})),
    {ok, OfKey} = todana:subscribe(Terms, #{key => {self(), #{1 => 2}}}),
    ok = todana:put(Terms, {self(), #{}}, 1),
    ok = todana:put(Terms, {self(), #{1 => 2}}, 2),
    ?assertMatch([{put, {_, #{1 := 2}}, _}], next(OfKey)).

one_message() ->
    T = open(#{}),
    S = subscribe(T),
    Keys = [integer_to_binary(N) || N <- lists:seq(1, 2_000)],
    [ok = todana:put(T, Key, ~"") || Key <- Keys],
    one_waits(S),
    First = next(S),
    ?assert(length(First) =< 512),
    one_waits(S),
    Rest = next(S, 2_000 - length(First)),
    ?assertEqual(Keys, [Key || {put, Key, _} <- First ++ Rest]),
    nothing_follows(S),
    ok = todana:put(T, ~"k", ~""),
    ?assertMatch([{put, ~"k", _}], next(S)).

%% The message has been sent, but this process may not have fetched it yet.
one_waits(S) ->
    wait(fun() -> waiting(S) > 0 end),
    ?assertEqual(1, waiting(S)).

full_queue() ->
    T = open(#{}),
    {ok, S} = todana:subscribe(T, #{queue_entries_max => 3}),
    [ok = todana:put(T, integer_to_binary(N), ~"") || N <- lists:seq(1, 10)],
    ?assertMatch([{put, ~"1", _}, {put, ~"2", _}, {put, ~"3", _}, {lost, 7}],
                 next(S)),
    ok = todana:put(T, ~"11", ~""),
    ?assertMatch([{put, ~"11", _}], next(S)).

seen_and_lost() ->
    T = open(#{codec => term}),
    {ok, S} = todana:subscribe(T, #{queue_entries_max => 40}),
    Writers = [
        spawn_monitor(fun() ->
            [ok = todana:put(T, {Writer, N rem 10}, N)
             || N <- lists:seq(1, 2_000)]
        end)
     || Writer <- lists:seq(1, 4)
    ],
    Count = count(S, Writers, 0),
    ?assertEqual(8_000, Count).

count(S, Writers, Count) ->
    receive
        {todana, S, ready} ->
            count(S, Writers, Count + sum(todana:events(S)));
        {'DOWN', Monitor, process, Pid, normal} ->
            count(S, Writers -- [{Pid, Monitor}], Count)
    after
        case Writers of
            [] -> 0;
            _ -> ?TIMEOUT_MS
        end
    ->
        Count
    end.

sum(Events) ->
    lists:sum([weight(Event) || Event <- Events]).

weight({lost, Count}) -> Count;
weight({put, {_, _}, _}) -> 1.

threads() ->
    T = open(#{}),
    S = subscribe(T),
    Large = binary:copy(~"x", 3 bsl 20),
    %% On this process' scheduler, a dirty one, and that of another process.
    ok = todana:put(T, ~"1", ~""),
    ?assertMatch([{put, ~"1", _}], next(S)),
    ok = todana:put(T, ~"2", Large),
    ?assertMatch([{put, ~"2", _}], next(S)),
    _ = spawn_link(fun() -> ok = todana:put(T, ~"3", Large) end),
    ?assertMatch([{put, ~"3", _}], next(S)).

closed() ->
    T = open(#{}),
    S = subscribe(T),
    ok = todana:put(T, ~"a", ~""),
    ok = todana:close(T),
    receive
        {todana, S, ready} -> ok
    after ?TIMEOUT_MS -> error(no_message)
    end,
    receive
        {todana, S, closed} -> ok
    after ?TIMEOUT_MS -> error(no_message)
    end,
    nothing_follows(S),
    ok = todana:unsubscribe(S),
    ?assertError(badarg, todana:subscribe(T, #{})),
    %% Closing the name of a database ends its subscriptions, not the database.
    {ok, _} = todana:open(db9, #{}),
    OfDatabase = subscribe(db9),
    ok = todana:close(db9),
    receive
        {todana, OfDatabase, closed} -> ok
    after ?TIMEOUT_MS -> error(no_message)
    end,
    {ok, _} = todana:open(db9, #{}),
    Again = subscribe(db9),
    ok = todana:put(db9, ~"k", ~""),
    ?assertMatch([{put, ~"k", _}], next(Again)),
    nothing_follows(OfDatabase),
    1 = todana:clear(db9).

dead_subscriber() ->
    T = open(#{}),
    Self = self(),
    Pid = spawn(fun() ->
        [_, _] = [subscribe(T) || _ <- [1, 2]],
        Self ! subscribed,
        receive
            stop -> ok
        end
    end),
    receive
        subscribed -> ok
    end,
    ?assertEqual(2, subscriptions(T)),
    Pid ! stop,
    wait(fun() -> subscriptions(T) =:= 0 end),
    ok = todana:put(T, ~"k", ~"").

killed() ->
    T = open(#{}),
    Writer = spawn_link(fun() -> write_until_stopped(T, 0) end),
    lists:foreach(
        fun(_) ->
            Self = self(),
            {Pid, Monitor} = spawn_monitor(fun() ->
                S = subscribe(T),
                Self ! {self(), subscribed},
                consume(S)
            end),
            receive
                {Pid, subscribed} -> exit(Pid, kill)
            after ?TIMEOUT_MS -> error(not_subscribed)
            end,
            %% Its subscription may end later.
            receive {'DOWN', Monitor, process, _, killed} -> ok end,
            wait(fun() -> subscriptions(T) < 32 end)
        end,
        lists:seq(1, 200)
    ),
    wait(fun() -> subscriptions(T) =:= 0 end),
    Writer ! stop.

write_until_stopped(T, N) ->
    receive
        stop -> ok
    after 0 ->
        ok = todana:put(T, integer_to_binary(N rem 100), ~""),
        write_until_stopped(T, N + 1)
    end.

consume(S) ->
    _ = next(S),
    consume(S).

unsubscribed() ->
    T = open(#{}),
    S = subscribe(T),
    Other = subscribe(T),
    ok = todana:put(T, ~"a", ~""),
    ok = todana:unsubscribe(S),
    ?assertEqual(1, subscriptions(T)),
    ok = todana:put(T, ~"b", ~""),
    nothing_follows(S),
    ok = todana:unsubscribe(S),
    ?assertMatch([{put, ~"a", _}, {put, ~"b", _}], next(Other)).

%% The table's closing ends one subscription after another, and takes most of
%% the time for freeing their queues. When the message of one arrives, the next
%% one is about to end.
unsubscribed_while_closed() ->
    [unsubscribed_while_closed(open(#{})) || _ <- lists:seq(1, 12)].

unsubscribed_while_closed(T) ->
    Subscriptions = [subscribe(T) || _ <- lists:seq(1, 12)],
    %% The queue frees each key of this size by itself.
    [ok = todana:put(T, <<N:70_000>>, ~"") || N <- lists:seq(1, 900)],
    Self = self(),
    Closer = spawn_link(fun() ->
        ok = todana:close(T),
        Self ! {self(), closed}
    end),
    unsubscribe_next(Subscriptions),
    receive {Closer, closed} -> ok end,
    [?assertEqual(0, waiting(S)) || S <- Subscriptions].

unsubscribe_next([Ended, Next | Others]) ->
    receive
        {todana, Ended, closed} -> ok
    after ?TIMEOUT_MS -> error(no_message)
    end,
    ok = todana:unsubscribe(Next),
    ok = todana:unsubscribe(Ended),
    unsubscribe_next(Others);
unsubscribe_next([]) ->
    ok.

too_many() ->
    T = open(#{}),
    [First | _] = [subscribe(T) || _ <- lists:seq(1, 32)],
    ?assertEqual({error, too_many_subscriptions}, todana:subscribe(T, #{})),
    ok = todana:unsubscribe(First),
    _ = subscribe(T),
    ?assertEqual(32, subscriptions(T)).

misuse() ->
    T = open(#{}),
    Terms = element(2, todana:open(terms, #{codec => term})),
    Misuse = fun(Function, Arguments) ->
        try
            apply(todana, Function, Arguments)
        catch
            error:badarg:Stack ->
                maps:map(
                    fun(_, Text) -> unicode:characters_to_list(Text) end,
                    todana_error:format_error(badarg, Stack)
                )
        end
    end,
    ?assertMatch(#{1 := "no open table" ++ _}, Misuse(subscribe, [none, #{}])),
    ?assertMatch(#{2 := "subscribe takes no option x;" ++ _},
                 Misuse(subscribe, [T, #{x => 1}])),
    ?assertMatch(#{2 := _}, Misuse(subscribe, [T, [{events, [put]}]])),
    ?assertMatch(#{2 := "option events must be" ++ _},
                 Misuse(subscribe, [T, #{events => [write]}])),
    ?assertMatch(#{2 := "option events must be" ++ _},
                 Misuse(subscribe, [T, #{events => []}])),
    ?assertMatch(#{2 := "option events must be" ++ _},
                 Misuse(subscribe, [T, #{events => [put | put]}])),
    ?assertMatch(#{2 := "option queue_entries_max should be a number" ++ _},
                 Misuse(subscribe, [T, #{queue_entries_max => 0}])),
    ?assertMatch(#{2 := "options key and prefix exclude" ++ _},
                 Misuse(subscribe, [T, #{key => ~"k", prefix => ~"k"}])),
    ?assertMatch(#{2 := "option key must be" ++ _},
                 Misuse(subscribe, [T, #{key => k}])),
    ?assertMatch(#{2 := "option prefix must be" ++ _},
                 Misuse(subscribe, [T, #{prefix => k}])),
    ?assertMatch(#{2 := "option prefix needs" ++ _},
                 Misuse(subscribe, [Terms, #{prefix => ~"k"}])),
    ?assertMatch(#{2 := "contains a fun" ++ _},
                 Misuse(subscribe, [Terms, #{key => fun() -> ok end}])),
    ?assertMatch(#{1 := "not a subscription" ++ _},
                 Misuse(events, [make_ref()])),
    ?assertMatch(#{1 := "not a subscription" ++ _}, Misuse(events, [x])),
    ?assertMatch(#{1 := "not a subscription" ++ _}, Misuse(unsubscribe, [T])),
    ?assertEqual(0, subscriptions(T)).

network() ->
    {ok, _} = todana:open(db0, #{}),
    _ = todana:clear(db0),
    S = subscribe(db0),
    Socket = connect(),
    ~"+OK\r\n" = say(Socket, "SET k v\r\n"),
    K = version(db0, ~"k"),
    ?assertEqual([{put, ~"k", K}], next(S)),
    ~"+OK\r\n" = say(Socket, "RENAME k l\r\n"),
    L = version(db0, ~"l"),
    ?assertEqual([{delete, ~"k", K}, {put, ~"l", L}],
                 lists:sort(next(S, 2))),
    ~":1\r\n" = say(Socket, "COPY l m\r\n"),
    M = version(db0, ~"m"),
    ~"$1\r\nv\r\n" = say(Socket, "GETDEL m\r\n"),
    ~":3\r\n" = say(Socket, "APPEND l 12\r\n"),
    L2 = version(db0, ~"l"),
    ?assertEqual([{put, ~"m", M}, {delete, ~"m", M}, {put, ~"l", L2}],
                 next(S, 3)),
    ~":1\r\n" = say(Socket, "MOVE l 1\r\n"),
    ~"+OK\r\n" = say(Socket, "MULTI\r\n"),
    ~"+QUEUED\r\n" = say(Socket, "SET a 1\r\n"),
    ~"+QUEUED\r\n" = say(Socket, "INCR a\r\n"),
    ~"*2\r\n+OK\r\n:2\r\n" = say(Socket, "EXEC\r\n"),
    A = version(db0, ~"a"),
    ~"+OK\r\n" = say(Socket, "FLUSHALL\r\n"),
    ?assertEqual(
        [{delete, ~"l", L2}, {put, ~"a", A - 1}, {put, ~"a", A}, {clear, A}],
        next(S, 4)
    ),
    ok = todana:unsubscribe(S),
    ok = gen_tcp:close(Socket).

swapped() ->
    [{ok, _} = todana:open(D, #{}) || D <- [db2, db3]],
    [_ = todana:clear(D) || D <- [db2, db3]],
    [S2, S3] = [subscribe(D) || D <- [db2, db3]],
    Socket = connect(),
    ok = todana:put(db2, ~"two", ~""),
    ~"+OK\r\n" = say(Socket, "SWAPDB 2 3\r\n"),
    ok = todana:put(db2, ~"of db2", ~""),
    ok = todana:put(db3, ~"of db3", ~""),
    ?assertMatch([{put, ~"two", _}, {swap, _}, {put, ~"of db2", _}],
                 next(S2, 3)),
    ?assertMatch([{swap, _}, {put, ~"of db3", _}], next(S3, 2)),
    ok = todana:unsubscribe(S2),
    ?assertEqual({0, 1}, {subscriptions(db2), subscriptions(db3)}),
    ~"+OK\r\n" = say(Socket, "SWAPDB 2 3\r\n"),
    ?assertMatch([{swap, _}], next(S3)),
    nothing_follows(S2),
    ok = todana:unsubscribe(S3),
    [_ = todana:clear(D) || D <- [db2, db3]],
    ok = gen_tcp:close(Socket).

%% A process that subscribes and then reads misses nothing: the events lead to
%% the keys of the table.
replica() ->
    T = open(#{codec => term}),
    Writers = [
        spawn_monitor(fun() -> churn(T, Writer, 3_000) end)
     || Writer <- [1, 2]
    ],
    {ok, S} = todana:subscribe(T, #{queue_entries_max => 100_000}),
    Start = todana:fold(
        fun(Key, _, Acc) -> Acc#{Key => present} end, #{}, T
    ),
    [receive {'DOWN', Monitor, process, _, normal} -> ok end
     || {_, Monitor} <- Writers],
    Replica = follow(S, Start),
    Keys = todana:fold(fun(Key, _, Acc) -> [Key | Acc] end, [], T),
    ?assertEqual(lists:sort(Keys), lists:sort(maps:keys(Replica))).

churn(_T, _Writer, 0) ->
    ok;
churn(T, Writer, N) ->
    Key = {Writer, N * 7 rem 50},
    case N rem 3 of
        0 -> _ = todana:delete(T, Key);
        _ -> ok = todana:put(T, Key, N)
    end,
    churn(T, Writer, N - 1).

follow(S, Replica) ->
    case todana:events(S) of
        [] ->
            Replica;
        Events ->
            follow(S, lists:foldl(
                fun
                    ({put, Key, _}, Acc) -> Acc#{Key => present};
                    ({delete, Key, _}, Acc) -> maps:remove(Key, Acc)
                end,
                Replica,
                Events
            ))
    end.

%% --------------------------------------------------------------- clients ---

connect() ->
    [{resp, Address} | _] = todana_listener:addresses(),
    [_, Port] = string:split(Address, ":"),
    {ok, Socket} = gen_tcp:connect("127.0.0.1", list_to_integer(Port),
                                   [binary, {active, false}]),
    Socket.

say(Socket, Request) ->
    ok = gen_tcp:send(Socket, Request),
    {ok, Reply} = gen_tcp:recv(Socket, 0, ?TIMEOUT_MS),
    Reply.
