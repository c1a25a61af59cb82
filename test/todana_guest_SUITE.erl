%% Nodes without a replica, beside a cluster of three: the Erlang API, the
%% doors, and members that end.
-module(todana_guest_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    a_guest_has_the_functions_of_a_table/1,
    an_ordered_table_is_walked/1,
    funs_run_in_the_guest/1,
    misuse_is_that_of_a_member/1,
    tables_in_memory_are_the_guests_own/1,
    clients_of_a_guest_reach_the_records/1,
    the_records_of_the_seat_are_counted/1,
    another_member_becomes_the_seat/1,
    without_a_member_nothing_is_done/1,
    a_guest_is_refused/1,
    a_guest_leaves_nothing_behind/1,
    messages_reach_all_nodes/1,
    a_running_node_becomes_a_guest/1,
    the_status_has_the_guests/1,
    a_seat_has_what_clients_have_seen/1,
    a_seat_that_hangs_stops_no_other_client/1,
    a_call_goes_on_at_another_seat/1,
    members_stop_one_after_the_other/1,
    a_call_on_its_way_is_no_misuse_when_its_guest_stops/1,
    a_failed_start_leaves_no_guest/1,
    subscriptions_follow_the_seat/1,
    many_long_replies_are_limited/1,
    a_seat_reaches_a_leader/1,
    changes_are_reported_to_a_guest/1,
    names_are_registered_on_a_guest/1,
    groups_have_members_on_a_guest/1,
    steps_ask_the_seat_seldom/1,
    a_frozen_seat_removes_nothing_late/1,
    one_of_several_members_is_enough/1,
    names_without_a_seat_are_not_waited_for/1,
    a_process_that_ends_on_a_guest_frees_its_name_at_once/1,
    names_of_a_guest_that_ends_are_freed/1,
    a_guest_whose_seat_ends_keeps_its_names/1,
    a_guest_that_reaches_nobody_informs_its_processes/1,
    a_registration_is_executed_once/1,
    a_name_that_was_unregistered_is_not_registered_again/1,
    a_guest_receives_no_heartbeats/1,
    heartbeats_of_somebody_elses_aten_are_its_own/1
]).
%% Called in the guest
-export([subscriber/2, owner/2, member/2, asked/1, successors/2]).
-export([look_up/0]).
-export([received/0, sink/0]).
-export([log_server/0, kill_seats/0, sources/0, load/1, held/0]).

-import(todana_sockets, [connect/1, connect/2, lines/2, line/1]).
-import(todana_peers, [
    guest/3, refused_guest/3, node/3, kill/1, signal/2, rpc/4, await/1,
    cluster/2
]).

all() ->
    [
        a_guest_has_the_functions_of_a_table,
        an_ordered_table_is_walked,
        funs_run_in_the_guest,
        misuse_is_that_of_a_member,
        tables_in_memory_are_the_guests_own,
        clients_of_a_guest_reach_the_records,
        the_records_of_the_seat_are_counted,
        another_member_becomes_the_seat,
        without_a_member_nothing_is_done,
        a_guest_is_refused,
        a_guest_leaves_nothing_behind,
        messages_reach_all_nodes,
        a_running_node_becomes_a_guest,
        the_status_has_the_guests,
        a_seat_has_what_clients_have_seen,
        a_seat_that_hangs_stops_no_other_client,
        a_call_goes_on_at_another_seat,
        members_stop_one_after_the_other,
        a_call_on_its_way_is_no_misuse_when_its_guest_stops,
        a_failed_start_leaves_no_guest,
        subscriptions_follow_the_seat,
        many_long_replies_are_limited,
        a_seat_reaches_a_leader,
        changes_are_reported_to_a_guest,
        names_are_registered_on_a_guest,
        groups_have_members_on_a_guest,
        steps_ask_the_seat_seldom,
        a_frozen_seat_removes_nothing_late,
        one_of_several_members_is_enough,
        names_without_a_seat_are_not_waited_for,
        a_process_that_ends_on_a_guest_frees_its_name_at_once,
        names_of_a_guest_that_ends_are_freed,
        a_guest_whose_seat_ends_keeps_its_names,
        a_guest_that_reaches_nobody_informs_its_processes,
        a_registration_is_executed_once,
        a_name_that_was_unregistered_is_not_registered_again,
        a_guest_receives_no_heartbeats,
        heartbeats_of_somebody_elses_aten_are_its_own
    ].

init_per_testcase(Case, Config) -> todana_peers:open(Case, Config).

end_per_testcase(_Case, _Config) -> todana_peers:close().

%% ------------------------------------------------------------------ cases ---

a_guest_has_the_functions_of_a_table(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    Options = #{durable => true, codec => term},
    {ok, _} = T = todana(Z, open, [orders, Options]),
    ?assertEqual(T, todana(Z, open, [orders, Options])),
    ?assertMatch(
        {error, {exists, #{codec := {term, raw}}}},
        todana(Z, open, [orders, #{durable => true}])
    ),
    K = {user, 7},
    ?assertEqual(error, todana(Z, get, [orders, K])),
    ?assertEqual(none, todana(Z, get, [orders, K, none])),
    ok = todana(Z, put, [orders, K, #{name => ada}]),
    ?assertEqual({ok, #{name => ada}}, todana(Z, get, [orders, K])),
    ?assertEqual(#{name => ada}, todana(Z, get, [orders, K, none])),
    ?assertEqual(
        #{name => ada},
        todana(Z, get, [orders, K, none, #{read => linear}])
    ),
    ?assert(todana(Z, is_key, [orders, K])),
    {ok, #{version := V, value := #{name := ada}}} =
        todana(Z, get_entry, [orders, K]),
    ?assertEqual(
        {error, version_differs},
        todana(Z, compare_and_swap, [orders, K, V + 1, x])
    ),
    {ok, _} = todana(Z, compare_and_swap, [orders, K, V, 5]),
    ?assertEqual({ok, 6}, todana(Z, update_counter, [orders, K, 1])),
    ?assertEqual(
        {ok, 3}, todana(Z, update_counter, [orders, n, 1, #{initial => 2}])
    ),
    ?assertEqual({error, present}, todana(Z, put, [
        orders, K, 1, #{only => absent}
    ])),
    ok = todana(Z, expire, [orders, K, 100_000]),
    {ok, Left} = todana(Z, ttl, [orders, K]),
    ?assert(Left > 50_000 andalso Left =< 100_000),
    ok = todana(Z, persist, [orders, K]),
    ?assertEqual({ok, infinity}, todana(Z, ttl, [orders, K])),
    Many = #{N => <<N:80_000>> || N <- lists:seq(1, 50)},
    ok = todana(Z, put_many, [orders, Many]),
    ?assertEqual(Many, todana(Z, get_many, [orders, [0 | maps:keys(Many)]])),
    ?assertEqual(52, todana(Z, count, [orders])),
    ?assertEqual(52, length(todana(Z, to_list, [orders]))),
    #{entries := 52, durable := true} = todana(Z, info, [orders]),
    #{entries := 52} = todana(Z, stats, [orders]),
    ?assertEqual(50, todana(Z, delete_many, [orders, maps:keys(Many)])),
    ?assertEqual({ok, 6}, todana(Z, take, [orders, K])),
    ok = todana(Z, delete, [orders, n]),
    ?assertEqual(error, todana(Z, delete, [orders, n])),
    ok = todana(Z, put, [orders, 1, binary:copy(~"x", 3_000_000)]),
    ?assertEqual(1, todana(Z, clear, [orders])),
    ok = todana(Z, put, [orders, 1, one]),
    [
        begin
            {ok, _} = todana(M, open, [orders, Options]),
            ?assertEqual(one, todana(M, get, [
                orders, 1, none, #{read => linear}
            ]))
        end
     || M <- Members
    ],
    ok = todana(Z, drop, [orders]),
    ?assertError(badarg, todana(Z, get, [orders, 1])),
    ?assertError(badarg, todana(Z, drop, [orders])).

an_ordered_table_is_walked(Config) ->
    [A | _] = cluster([a], Config),
    Z = guest(z, A, []),
    Options = #{durable => true, codec => term, type => ordered_set},
    {ok, H} = todana(Z, open, [o, Options]),
    Pairs = [{{N rem 7, N}, N} || N <- lists:seq(1, 300)],
    ok = todana(Z, put_many, [o, Pairs]),
    Sorted = lists:sort(Pairs),
    ?assertEqual(Sorted, todana(Z, to_list, [H])),
    {ok, First} = todana(Z, first, [o]),
    {ok, Last} = todana(Z, last, [o]),
    ?assertEqual({element(1, hd(Sorted)), element(1, lists:last(Sorted))},
                 {First, Last}),
    {Page, {cursor, _} = C} = todana(Z, range, [
        o, first, last, #{limit => 200}
    ]),
    {Rest, done} = todana(Z, range, [
        o, first, last, #{limit => 200, cursor => C}
    ]),
    ?assertEqual(Sorted, Page ++ Rest),
    Sum = fun(_, V, Acc) -> V + Acc end,
    ?assertEqual(45_150, rpc(Z, todana, fold_range, [Sum, 0, o, first, last])),
    ?assertEqual(45_150, rpc(Z, todana, fold, [Sum, 0, o])).

%% A member may not have their code.
funs_run_in_the_guest(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    {ok, _} = todana(Z, open, [t, #{durable => true, codec => term}]),
    In = fun({ok, N}) -> {put, N + 1}; (error) -> {put, {1, node()}} end,
    ?assertEqual({ok, {1, Z}}, todana(Z, update, [t, k, In])),
    ok = todana(Z, put, [t, a, 10]),
    ok = todana(Z, put, [t, b, 0]),
    Move = fun(Tx) ->
        {ok, N} = todana_transaction:get(Tx, a),
        {ok, M} = todana_transaction:get(Tx, b),
        ok = todana_transaction:put(Tx, a, N - 1),
        ok = todana_transaction:put(Tx, b, M + 1),
        {ok, {N, M}}
    end,
    Moves = [
        spawn_monitor(fun() ->
            {ok, _} = todana(Z, transaction, [t, Move, #{attempts => infinity}])
        end)
     || _ <- lists:seq(1, 10)
    ],
    [receive {'DOWN', R, _, _, Why} -> ?assertEqual(normal, Why) end
     || {_, R} <- Moves],
    ?assertEqual(#{a => 0, b => 10}, todana(Z, get_many, [t, [a, b]])),
    ?assertEqual(
        {error, no},
        todana(Z, transaction, [
            t, fun(Tx) -> todana_transaction:abort(Tx, no) end
        ])
    ),
    ?assertEqual(
        {ok, Z}, todana(Z, fetch, [t, f, fun() -> {ok, node()} end])
    ),
    ?assertEqual({ok, Z}, todana(Z, fetch, [t, f, fun() -> exit(no) end])).

misuse_is_that_of_a_member(Config) ->
    [A | _] = cluster([a], Config),
    Z = guest(z, A, []),
    {ok, _} = todana(Z, open, [raw, #{durable => true}]),
    [
        ?assertError(badarg, todana(Z, Function, Arguments))
     || {Function, Arguments} <- [
            {get, [none, k]},
            {put, [raw, not_iodata, v]},
            {put, [raw, ~"k", not_iodata]},
            {range, [raw, first, last]},
            {put, [raw, ~"k", ~"v", #{ttl => 1}]},
            {open, [raw, #{durable => yes}]}
        ]
    ],
    ok = todana(Z, put, [raw, ~"k", ~"v"]),
    ?assertEqual(
        {error, not_an_integer}, todana(Z, update_counter, [raw, ~"k", 1])
    ).

tables_in_memory_are_the_guests_own(Config) ->
    [A | _] = cluster([a], Config),
    Z = guest(z, A, []),
    {ok, _} = todana(Z, open, [m, #{codec => term}]),
    ok = todana(Z, put, [m, 1, 2]),
    ?assertEqual({ok, 2}, todana(Z, get, [m, 1])),
    ?assertError(badarg, todana(A, get, [m, 1])),
    {ok, _} = todana(Z, open, [d, #{durable => true}]),
    ?assertMatch({error, {exists, _}}, todana(Z, open, [d, #{}])),
    ?assertMatch(
        {error, {exists, _}}, todana(Z, open, [m, #{durable => true}])
    ).

clients_of_a_guest_reach_the_records(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, [{listen_resp, '127.0.0.1:0'}]),
    Socket = connect(Z),
    ?assertEqual(~"+OK\r\n", ask(Socket, ~"SET k v\r\n")),
    ?assertEqual(~"$1\r\nv\r\n", ask(Socket, ~"GET k\r\n")),
    {ok, _} = todana(Z, open, [db0, #{}]),
    ?assertEqual({ok, ~"v"}, todana(Z, get, [db0, ~"k"])),
    ok = todana(Z, put, [db0, ~"k", ~"w"]),
    ?assertEqual(~"$1\r\nw\r\n", ask(Socket, ~"GET k\r\n")).

%% By INFO and `stats'. Metrics do not: a sum over all nodes has them once.
the_records_of_the_seat_are_counted(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, [
        {listen_resp, '127.0.0.1:0'}, {listen_memcached, '127.0.0.1:0'}
    ]),
    Socket = connect(Z),
    ~"+OK\r\n" = ask(Socket, ~"SET k v\r\n"),
    ~"+OK\r\n" = ask(Socket, ~"SET other v EX 1000\r\n"),
    await(fun() ->
        ok = gen_tcp:send(Socket, ~"INFO keyspace\r\nPING\r\n"),
        Found = line_with(~"db0:", ~"+PONG\r\n", Socket),
        Found =:= ~"db0:keys=2,expires=1,avg_ttl=0\r\n"
    end),
    Other = connect(Z, memcached),
    ok = gen_tcp:send(Other, ~"stats\r\n"),
    ?assertEqual(
        ~"STAT curr_items 2\r\n",
        line_with(~"STAT curr_items", ~"END\r\n", Other)
    ),
    #{databases := [First | _]} = rpc(Z, todana_figures, collect, []),
    ?assertMatch(#{~"records" := 0}, First).

%% Reads go on, and so do writes, of which some have an unknown outcome.
another_member_becomes_the_seat(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, [{listen_resp, '127.0.0.1:0'}]),
    {ok, _} = todana(Z, open, [t, #{durable => true, codec => term}]),
    await(fun() -> rpc(Z, todana_guest, seat, []) =/= none end),
    Socket = connect(Z),
    ~"+OK\r\n" = ask(Socket, ~"SET k v\r\n"),
    ok = todana(Z, put, [t, k, v]),
    Seat = rpc(Z, todana_guest, seat, []),
    ok = kill(Seat),
    ?assertEqual(~"$1\r\nv\r\n", ask(Socket, ~"GET k\r\n")),
    ?assertEqual({ok, v}, todana(Z, get, [t, k])),
    await(fun() -> todana(Z, put, [t, k, w]) =:= ok end),
    await(fun() -> ask(Socket, ~"SET k w\r\n") =:= ~"+OK\r\n" end),
    Next = rpc(Z, todana_guest, seat, []),
    ?assert(lists:member(Next, Members -- [Seat])),
    %% One that hangs is no seat either.
    ok = signal(Next, "STOP"),
    try
        [Last] = Members -- [Seat, Next],
        ?assertEqual(
            ~"$1\r\nw\r\n", ask(Socket, ~"TODANA.READ local\r\nGET k\r\n", 2)
        ),
        ?assertEqual(Last, rpc(Z, todana_guest, seat, []))
    after
        ok = signal(Next, "CONT")
    end.

without_a_member_nothing_is_done(Config) ->
    [A] = cluster([a], Config),
    Z = guest(z, A, [{listen_resp, '127.0.0.1:0'}]),
    {ok, _} = todana(Z, open, [t, #{durable => true, codec => term}]),
    Socket = connect(Z),
    ~"+OK\r\n" = ask(Socket, ~"SET k v\r\n"),
    ok = todana(Z, put, [t, k, v]),
    ok = kill(A),
    await(fun() ->
        ask(Socket, ~"GET k\r\n") =:=
            ~"-CLUSTERDOWN no member of the cluster answers this node\r\n"
    end),
    ?assertEqual(
        ~"-CLUSTERDOWN no member of the cluster answers this node\r\n",
        ask(Socket, ~"SET k v\r\n")
    ),
    ?assertError(unavailable, todana(Z, get, [t, k])),
    A = node(a, [], Config),
    await(fun() -> ask(Socket, ~"GET k\r\n") =:= ~"$1\r\nv\r\n" end),
    ?assertEqual({ok, v}, todana(Z, get, [t, k])).

a_guest_is_refused(Config) ->
    [A | _] = cluster([a], Config),
    %% A node of the version that knew no tracking, and one of the next version.
    [
        begin
            {error, Sentence} = rpc(A, todana_seat, Function, Arguments),
            has(Sentence, "use the same version of Todana")
        end
     || Wire <- [1, rpc(A, todana_nif, guest_wire, []) + 1],
        {Function, Arguments} <- [
            {invite, [z, Wire]}, {visit, [z, self(), Wire, {none, 0}]}
        ]
    ],
    has(refused_guest(z, A, [{data_dir, '/tmp/todana-none'}]), "no data_dir"),
    has(refused_guest(z, A, [{cluster_create, yes}]), "create"),
    has(refused_guest(z, off, []), "name a member"),
    has(refused_guest(z, A, [{databases, 'a.kct'}]), "other ones: db0.kch"),
    has(refused_guest(a, A, []), "itself"),
    has(refused_guest(z, 'a@nowhere', []), "start this emulator with -sname"),
    Alone = node(d, [], Config),
    has(refused_guest(z, Alone, []), "not a member of a cluster").

%% No entry of the log, and nothing on the members when it has ended.
a_guest_leaves_nothing_behind(Config) ->
    [A | _] = cluster([a], Config),
    Index = fun() -> rpc(A, todana_nif, group_applied, [0]) end,
    await(fun() -> I = Index(), timer:sleep(1_500), I =:= Index() end),
    Before = Index(),
    Z = guest(z, A, []),
    await(fun() -> rpc(A, todana_seats, guests, []) =:= [Z] end),
    ok = rpc(Z, application, stop, [todana]),
    await(fun() -> rpc(A, todana_seats, guests, []) =:= [] end),
    Y = guest(y, A, []),
    await(fun() -> rpc(A, todana_seats, guests, []) =:= [Y] end),
    ok = kill(Y),
    await(fun() -> rpc(A, todana_seats, guests, []) =:= [] end),
    ?assertEqual(Before, Index()).

%% What clients publish at a member, at a guest of it, and at another guest.
messages_reach_all_nodes(Config) ->
    [A | _] = cluster([a], Config),
    Listen = [{listen_resp, '127.0.0.1:0'}],
    B = node(b, [{cluster_join, A} | Listen], Config),
    await(fun() -> todana_peers:is_open(B) end),
    Guests = [guest(Letter, A, Listen) || Letter <- [x, y, z]],
    Sockets = [connect(N) || N <- [B | Guests]],
    Subscribers = [connect(N) || N <- [B | Guests]],
    [
        ok = gen_tcp:send(Socket, ~"SUBSCRIBE news\r\n")
     || Socket <- Subscribers
    ],
    [lines(Socket, 6) || Socket <- Subscribers],
    [
        begin
            ok = gen_tcp:send(Publisher, [~"PUBLISH news ", Text, ~"\r\n"]),
            [
                ?assertEqual(
                    <<Text/binary, "\r\n">>, lists:last(lines(Socket, 7))
                )
             || Socket <- Subscribers
            ]
        end
     || {N, Publisher} <- lists:enumerate(Sockets),
        Text <- [<<"text", ($0 + N)>>]
    ].

a_running_node_becomes_a_guest(Config) ->
    [A | _] = cluster([a], Config),
    {_, Z} = todana_peers:peer(z),
    ok = rpc(Z, todana_peers, start, ["off", []]),
    {ok, _} = todana(Z, open, [m, #{}]),
    {error, Sentence} = rpc(Z, todana_cluster, visit, ['none@127.0.0.1']),
    has(Sentence, "none@127.0.0.1"),
    %% Nothing has been stopped.
    ?assertEqual([m], todana(Z, list, [])),
    ?assertError(badarg, rpc(Z, todana_cluster, visit, [Z])),
    ok = rpc(Z, todana_cluster, visit, [A]),
    {ok, _} = todana(Z, open, [t, #{durable => true, codec => term}]),
    ok = todana(Z, put, [t, k, v]),
    ?assertEqual({ok, v}, todana(Z, get, [t, k])).

the_status_has_the_guests(Config) ->
    [A | _] = cluster([a], Config),
    Z = guest(z, A, [{listen_resp, '127.0.0.1:0'}]),
    await(fun() ->
        #{guests := Guests} = rpc(A, todana_cluster, status, []),
        Guests =:= [#{node => Z, seat => A}]
    end),
    {ok, Plain} = rpc(Z, todana_cluster_commands, run, [~"status", #{}]),
    Status = json:decode(iolist_to_binary(json:encode(Plain))),
    Screen = iolist_to_binary(rpc(Z, todana_cluster_text, screen, [Status])),
    has(Screen, lists:concat(["guests: ", Z, " at ", A])),
    {error, Refusal} =
        rpc(Z, todana_cluster_commands, run, [~"force", #{}]),
    has(Refusal, "on a member"),
    Families = rpc(Z, todana_metrics, families, [
        rpc(Z, todana_figures, collect, [])
    ]),
    Metrics = iolist_to_binary(rpc(Z, todana_metrics_text, text, [Families])),
    has(Metrics, "todana_guest_has_seat 1"),
    ?assertEqual(ok, rpc(Z, todana_health, ready, [])),
    ok = kill(A),
    await(fun() -> rpc(Z, todana_health, ready, []) =/= ok end).

%% Otherwise clients would read older records than before.
a_seat_has_what_clients_have_seen(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    {ok, _} = todana(Z, open, [t, #{durable => true, codec => term}]),
    ok = todana(Z, put, [t, k, 0]),
    #{leader := Leader} = rpc(A, todana_cluster, status, []),
    Follower = hd(Members -- [Leader]),
    seat_is(Z, hd(Members -- [Follower])),
    timer:sleep(1_000),
    Server = rpc(Follower, ?MODULE, log_server, []),
    ok = rpc(Follower, sys, suspend, [Server]),
    ok = todana(Z, put, [t, k, 1]),
    [
        begin
            ok = rpc(S, ?MODULE, kill_seats, []),
            ?assertEqual({ok, 1}, todana(Z, get, [t, k])),
            await(fun() -> rpc(Z, todana_guest, seat, []) =/= none end),
            ?assertNotEqual(Follower, rpc(Z, todana_guest, seat, []))
        end
     || _ <- lists:seq(1, 4), S <- [rpc(Z, todana_guest, seat, [])]
    ],
    ok = rpc(Follower, sys, resume, [Server]).

%% The connection to it is full.
a_seat_that_hangs_stops_no_other_client(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, [{listen_resp, '127.0.0.1:0'}]),
    Socket = connect(Z),
    ~"+OK\r\n" = ask(Socket, ~"SET k v\r\n"),
    Seat = rpc(Z, todana_guest, seat, []),
    ok = signal(Seat, "STOP"),
    try
        Long = binary:copy(~"x", 15_000_000),
        Others = [connect(Z) || _ <- lists:seq(1, 4)],
        [
            ok = gen_tcp:send(Other, [
                ~"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$15000000\r\n", Long, ~"\r\n"
            ])
         || Other <- Others
        ],
        await(fun() ->
            not lists:member(rpc(Z, todana_guest, seat, []), [Seat, none])
        end),
        await(fun() -> ask(Socket, ~"EXISTS k\r\n") =:= ~":1\r\n" end)
    after
        ok = signal(Seat, "CONT")
    end.

a_call_goes_on_at_another_seat(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    {ok, _} = todana(Z, open, [t, #{durable => true, codec => term}]),
    ok = todana(Z, put, [t, k, v]),
    Seat = rpc(Z, todana_guest, seat, []),
    ok = signal(Seat, "STOP"),
    try
        ?assertEqual({ok, v}, todana(Z, get, [t, k]))
    after
        ok = signal(Seat, "CONT")
    end.

%% The application, in a node that goes on.
members_stop_one_after_the_other(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    Options = #{durable => true, codec => term},
    {ok, _} = todana(Z, open, [t, Options]),
    ok = todana(Z, put, [t, k, 0]),
    Load = rpc(Z, ?MODULE, load, [t]),
    [
        begin
            Seat = rpc(Z, todana_guest, seat, []),
            ok = rpc(Seat, application, stop, [todana]),
            ?assertEqual(false, lists:member(t, rpc(Seat, todana, list, []))),
            await(fun() -> rpc(Z, todana_guest, seat, []) =/= Seat end),
            {ok, _} = rpc(Seat, application, ensure_all_started, [todana]),
            await(fun() -> todana_peers:is_open(Seat) end)
        end
     || _ <- lists:seq(1, 4)
    ],
    ?assertEqual([], changes(Z, Load)),
    rpc(Z, erlang, exit, [Load, kill]),
    timer:sleep(500),
    ok = todana(Z, put, [t, k, last]),
    [
        begin
            {ok, _} = todana(M, open, [t, Options]),
            ?assertEqual(last, todana(M, get, [t, k, none, #{read => linear}]))
        end
     || M <- Members
    ].

a_call_on_its_way_is_no_misuse_when_its_guest_stops(Config) ->
    [A] = cluster([a], Config),
    Z = guest(z, A, []),
    {Pid, Monitor} = spawn_monitor(fun() ->
        exit({result, rpc(Z, todana_away, ask, [?MODULE, held, none, []])})
    end),
    await(fun() -> rpc(A, erlang, whereis, [held]) =/= undefined end),
    ok = rpc(Z, todana_guest, leave, []),
    go = rpc(A, erlang, send, [held, go]),
    receive
        %% The guest may have given up the answer before it came.
        {'DOWN', Monitor, process, Pid, Ended} ->
            ?assert(lists:member(Ended, [
                {result, executed}, {result, {badarg, 0, unavailable}}
            ]), Ended)
    end.

a_failed_start_leaves_no_guest(Config) ->
    [A | _] = cluster([a], Config),
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    Address = list_to_atom(lists:concat(["127.0.0.1:", Port])),
    _ = refused_guest(z, A, [{listen_resp, Address}]),
    {_, Z} = todana_peers:peer(z),
    {error, _} = rpc(Z, todana_peers, start, ["off", [
        {cluster_join, A}, {no_replica, yes}, {listen_resp, Address}
    ]]),
    ?assertEqual(false, rpc(Z, todana_guest, is_guest, [])).

subscriptions_follow_the_seat(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    {ok, _} = todana(Z, open, [t, #{durable => true, codec => term}]),
    Pid = rpc(Z, ?MODULE, subscriber, [t, #{}]),
    Seat = rpc(Z, todana_guest, seat, []),
    ?assertEqual([Seat], rpc(Z, ?MODULE, sources, [])),
    ok = rpc(Seat, ?MODULE, kill_seats, []),
    await(fun() ->
        Next = rpc(Z, todana_guest, seat, []),
        Next =/= Seat andalso rpc(Z, ?MODULE, sources, []) =:= [Next]
    end),
    await(fun() -> lists:member({lost, 1}, changes(Z, Pid)) end).

%% They neither end the seat nor take all memory.
many_long_replies_are_limited(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, [{listen_resp, '127.0.0.1:0'}]),
    Socket = connect(Z),
    Long = binary:copy(~"x", 15_000_000),
    ok = gen_tcp:send(Socket, [
        ~"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$15000000\r\n", Long, ~"\r\n"
    ]),
    ~"+OK\r\n" = line(Socket),
    Seat = rpc(Z, todana_guest, seat, []),
    ok = gen_tcp:send(Socket, [~"GET k\r\n" || _ <- lists:seq(1, 12)]),
    Kinds = [
        case line(Socket) of
            ~"$15000000\r\n" ->
                {ok, _} = gen_tcp:recv(Socket, 15_000_002, 30_000),
                value;
            <<"-CLUSTERDOWN", _/binary>> ->
                refused
        end
     || _ <- lists:seq(1, 12)
    ],
    ?assertEqual([value, value, value, value], lists:sublist(Kinds, 4)),
    ?assertEqual(Seat, rpc(Z, todana_guest, seat, [])).

a_seat_reaches_a_leader(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    {ok, _} = todana(Z, open, [t, #{durable => true, codec => term}]),
    #{leader := Leader} = rpc(A, todana_cluster, status, []),
    Cut = hd(Members -- [Leader]),
    seat_is(Z, Cut),
    [
        begin
            rpc(Cut, erlang, set_cookie, [Other, one]),
            rpc(Other, erlang, set_cookie, [Cut, another]),
            rpc(Cut, erlang, disconnect_node, [Other])
        end
     || Other <- Members -- [Cut]
    ],
    await(fun() ->
        not lists:member(rpc(Z, todana_guest, seat, []), [Cut, none])
    end),
    await(fun() ->
        try todana(Z, put, [t, k, v]) =:= ok catch _:_ -> false end
    end).

changes_are_reported_to_a_guest(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    Options = #{durable => true, codec => term},
    {ok, _} = todana(Z, open, [t, Options]),
    Pid = rpc(Z, ?MODULE, subscriber, [t, #{}]),
    {ok, _} = todana(A, open, [t, Options]),
    ok = todana(A, put, [t, {a, 1}, 1]),
    ok = todana(Z, delete, [t, {a, 1}]),
    await(fun() ->
        case changes(Z, Pid) of
            [{put, {a, 1}, _}, {delete, {a, 1}, _}] -> true;
            _ -> false
        end
    end),
    Seat = rpc(Z, todana_guest, seat, []),
    ok = kill(Seat),
    await(fun() -> lists:member({lost, 1}, changes(Z, Pid)) end),
    [Other | _] = Members -- [Seat],
    await(fun() ->
        try
            {ok, _} = todana(Other, open, [t, Options]),
            todana(Other, put, [t, {a, 2}, 1]) =:= ok
        catch
            _:_ -> false
        end
    end),
    await(fun() ->
        [K || {put, K, _} <- changes(Z, Pid), K =:= {a, 2}] =/= []
    end),
    rpc(Z, erlang, exit, [Pid, kill]).

names_are_registered_on_a_guest(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    [ok = names(N, start_scope, [s, cluster]) || N <- [Z | Members]],
    {Pid, {yes, Token}} = rpc(Z, ?MODULE, owner, [{user, 7}, #{}]),
    Name = {s, {user, 7}},
    [
        begin
            await(fun() -> names(N, whereis_name, [Name]) =:= Pid end),
            ?assertEqual({ok, Pid, Token}, names(N, lookup_token, [Name])),
            ?assertEqual([{user, 7}], names(N, which_names, [s, Z]))
        end
     || N <- [Z | Members]
    ],
    {_, no} = rpc(A, ?MODULE, owner, [{user, 7}, #{}]),
    {Other, {yes, _}} = rpc(A, ?MODULE, owner, [x, #{metadata => m}]),
    ?assertEqual({ok, Other, m}, names(Z, lookup, [{s, x}])),
    {_, no} = rpc(Z, ?MODULE, owner, [x, #{}]),
    %% A copy.
    [Other = names(Z, whereis_name, [{s, x}]) || _ <- lists:seq(1, 100)],
    rpc(A, erlang, exit, [Other, kill]),
    await(fun() -> names(Z, whereis_name, [{s, x}]) =:= undefined end),
    rpc(Z, erlang, exit, [Pid, kill]),
    await(fun() -> names(A, whereis_name, [Name]) =:= undefined end),
    {_, {yes, Later}} = rpc(A, ?MODULE, owner, [{user, 7}, #{}]),
    ?assert(Later > Token),
    ok = names(Z, unregister_name, [Name]),
    ?assertEqual(undefined, names(Z, whereis_name, [Name])).

groups_have_members_on_a_guest(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    [ok = names(N, start_scope, [s, cluster]) || N <- [Z, A]],
    {Seen, []} = rpc(Z, todana_keepers, collected, [s, {room, 9}]),
    Of = [rpc(N, ?MODULE, member, [s, {room, 9}]) || N <- [Z, A, Z]],
    await(fun() -> changes(Z, Seen) =:= [{join, [P]} || P <- Of] end),
    Members = fun(N) ->
        lists:sort(rpc(N, todana_groups, get_members, [s, {room, 9}]))
    end,
    [await(fun() -> Members(N) =:= lists:sort(Of) end) || N <- [Z, A]],
    ?assertEqual([{room, 9}], rpc(Z, todana_groups, which_groups, [s])),
    [_, Second, _] = Of,
    rpc(A, erlang, exit, [Second, kill]),
    await(fun() ->
        changes(Z, Seen) =:= [{join, [P]} || P <- Of] ++ [{leave, [Second]}]
    end).

steps_ask_the_seat_seldom(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    [ok = names(N, start_scope, [s, cluster]) || N <- [Z, A]],
    {_, {yes, _}} = rpc(A, ?MODULE, owner, [taken, #{}]),
    Self = self,
    Steps = [
        %% This one also learns of the session.
        {2, todana_names, register_name, [{s, first}, Self]},
        {1, todana_names, register_name, [{s, n}, Self]},
        {1, todana_names, register_name, [{s, taken}, Self]},
        {1, todana_names, register_name, [{s, n}, Self]},
        {1, todana_names, lookup, [{s, n}]},
        {1, todana_names, whereis_name, [{s, nobody}]},
        {2, todana_names, set_metadata, [{s, n}, m]},
        {2, todana_names, unregister_name, [{s, n}]},
        {1, todana_groups, join, [s, g, [Self, Self]]},
        {1, todana_groups, get_members, [s, g]},
        {1, todana_groups, which_groups, [s]},
        {2, todana_groups, leave, [s, g, [Self, Self]]}
    ],
    {Asked, Results} = rpc(Z, ?MODULE, asked, [
        [{M, F, Arguments} || {_, M, F, Arguments} <- Steps]
    ]),
    ?assertMatch(
        [yes, yes, no, no, {ok, _, undefined}, undefined, ok, ok, ok, [P, P],
         [g], ok],
        Results
    ),
    ?assertEqual([Calls || {Calls, _, _, _} <- Steps], Asked).

%% When it goes on, it executes what the guest had asked for.
a_frozen_seat_removes_nothing_late(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    ok = names(Z, start_scope, [s, cluster]),
    {First, {yes, _}} = rpc(Z, ?MODULE, owner, [n, #{}]),
    Member = rpc(Z, ?MODULE, member, [s, g]),
    Seat = rpc(Z, todana_guest, seat, []),
    ok = signal(Seat, "STOP"),
    _ = names(Z, unregister_name, [{s, n}]),
    _ = rpc(Z, todana_groups, leave, [s, g, Member]),
    rpc(Z, erlang, exit, [First, kill]),
    await(fun() -> names(Z, whereis_name, [{s, n}]) =:= undefined end),
    await(fun() ->
        element(2, rpc(Z, ?MODULE, owner, [n, #{}])) =/= {error, unavailable}
    end),
    {ok, Second, Token} = names(Z, lookup_token, [{s, n}]),
    await(fun() -> rpc(Z, todana_groups, join, [s, g, Member]) =:= ok end),
    Members = rpc(Z, todana_groups, get_members, [s, g]),
    ok = signal(Seat, "CONT"),
    await(fun() -> rpc(Seat, todana_guest, is_guest, []) =:= false end),
    timer:sleep(2_000),
    ?assertEqual({ok, Second, Token}, names(Z, lookup_token, [{s, n}])),
    ?assertEqual(Members, rpc(Z, todana_groups, get_members, [s, g])).

%% All nodes may have the same option. Its own name is no member for a guest.
one_of_several_members_is_enough(Config) ->
    [A, B, C] = cluster([a, b, c], Config),
    Z = node_name(z),
    ok = kill(A),
    Z = guest(z, [A, Z, B, C], []),
    {ok, _} = todana(Z, open, [t, #{durable => true}]),
    ok = todana(Z, put, [t, ~"k", ~"v"]),
    D = node(d, [{cluster_join, [A, node_name(d), B]}], Config),
    await(fun() -> todana_peers:is_open(D) end),
    {ok, _} = todana(D, open, [t, #{durable => true}]),
    await(fun() -> todana(D, get, [t, ~"k"]) =:= {ok, ~"v"} end),
    has(refused_guest(y, [node_name(y)], []), "is this node itself"),
    has(refused_guest(y, ['y@', B], []), "separated by commas").

%% The state says so, and a look-up takes a second.
names_without_a_seat_are_not_waited_for(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    ok = names(Z, start_scope, [s, cluster]),
    ?assertMatch(
        #{state := serving, durability := none, seat := _}, todana(Z, info, [])
    ),
    ?assertMatch(#{members := [_, _, _]}, rpc(Z, todana_cluster, status, [])),
    %% No address is configured.
    ?assertEqual(ok, rpc(Z, todana_health, ready, [])),
    [ok = kill(Member) || Member <- Members],
    await(fun() ->
        maps:get(state, todana(Z, info, [])) =:= recovering
    end),
    {error, Sentence} = rpc(Z, todana_health, ready, []),
    has(Sentence, "no member"),
    %% A write would wait for so long, and the test does not.
    ok = rpc(Z, todana_durable, configure, [#{write_timeout_ms => 600_000}]),
    ?assertEqual(
        [
            undefined, {error, unavailable}, {error, unavailable}, unavailable,
            {error, unavailable}, {error, unavailable}
        ],
        rpc(Z, ?MODULE, look_up, [])
    ).

%% Also if the seat does not know it: a supervisor that restarts it registers it
%% at once.
a_process_that_ends_on_a_guest_frees_its_name_at_once(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    ok = names(Z, start_scope, [s, cluster]),
    ?assertEqual(
        lists:duplicate(50, yes), rpc(Z, ?MODULE, successors, [{s, n}, 50])
    ).

names_of_a_guest_that_ends_are_freed(Config) ->
    [A | _] = cluster([a, b, c], Config),
    [Y, Z] = [guest(L, A, []) || L <- [y, z]],
    [ok = names(N, start_scope, [s, cluster]) || N <- [Y, Z, A]],
    {Pid, {yes, _}} = rpc(Y, ?MODULE, owner, [stopped, #{}]),
    {_, {yes, _}} = rpc(Z, ?MODULE, owner, [killed, #{}]),
    ?assertEqual(Pid, names(A, whereis_name, [{s, stopped}])),
    ok = rpc(Y, application, stop, [todana]),
    await(fun() -> names(A, whereis_name, [{s, stopped}]) =:= undefined end),
    ok = kill(Z),
    await(fun() ->
        {_, Result} = rpc(A, ?MODULE, owner, [killed, #{}]),
        Result =/= no
    end).

a_guest_whose_seat_ends_keeps_its_names(Config) ->
    [A | _] = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    ok = names(Z, start_scope, [s, cluster]),
    {Pid, {yes, Token}} = rpc(Z, ?MODULE, owner, [n, #{notify => true}]),
    ok = kill(rpc(Z, todana_guest, seat, [])),
    timer:sleep(12_000),
    ?assertEqual({ok, Pid, Token}, names(Z, lookup_token, [{s, n}])),
    ?assertEqual([], changes(Z, Pid)).

%% After seven seconds, although a question to the seat about the session waits
%% for another seat, as long as a write.
a_guest_that_reaches_nobody_informs_its_processes(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    ok = names(Z, start_scope, [s, cluster]),
    {Pid, {yes, _}} = rpc(Z, ?MODULE, owner, [n, #{notify => true}]),
    ok = rpc(Z, todana_durable, configure, [#{write_timeout_ms => 600_000}]),
    [ok = signal(Member, "STOP") || Member <- Members],
    await(fun() -> changes(Z, Pid) =:= [{todana_names, lost, {s, n}}] end),
    [ok = signal(Member, "CONT") || Member <- Members].

%% It is executed, and its name unregistered, before the seat that has the
%% answer is lost.
a_registration_is_executed_once(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    [ok = names(N, start_scope, [s, cluster]) || N <- [A, Z]],
    #{leader := Leader} = rpc(A, todana_cluster, status, []),
    [Follower, _] = Members -- [Leader],
    ok = names(Leader, start_scope, [s, cluster]),
    seat_is(Z, Follower),
    Server = rpc(Follower, ?MODULE, log_server, []),
    ok = rpc(Follower, sys, suspend, [Server]),
    {Client, Monitor} = spawn_monitor(fun() ->
        exit(rpc(Z, ?MODULE, owner, [n, #{}]))
    end),
    await(fun() -> names(Leader, lookup, [{s, n}]) =/= error end),
    ok = names(Leader, unregister_name, [{s, n}]),
    ok = rpc(Follower, ?MODULE, kill_seats, []),
    receive
        {'DOWN', Monitor, process, Client, Ended} ->
            ?assertMatch({_Pid, {error, unknown}}, Ended)
    end,
    ?assertEqual(error, names(Leader, lookup, [{s, n}])),
    ok = rpc(Follower, sys, resume, [Server]).

%% Also if the node that has unregistered it does nothing more after that.
a_name_that_was_unregistered_is_not_registered_again(Config) ->
    [A | _] = cluster([a, b, c], Config),
    [Y, Z] = [guest(L, A, []) || L <- [y, z]],
    [ok = names(N, start_scope, [s, cluster]) || N <- [A, Y, Z]],
    {_, {yes, _}} = rpc(Z, ?MODULE, owner, [freed, #{}]),
    {Pid, {yes, _}} = rpc(Z, ?MODULE, owner, [kept, #{}]),
    Table = 'todana_names.s',
    Key = todana_scope_records:name_key(freed),
    Seat = rpc(Y, todana_guest, seat, []),
    await(fun() -> lists:member(Z, rpc(Seat, erlang, nodes, [])) end),
    _ = rpc(Y, todana_claim_writes, remove, [Table, Key, any]),
    ?assertEqual(error, names(A, lookup, [{s, freed}])),
    #{session := Session} = rpc(Z, todana_name_scopes, table, [s]),
    [Claim] = await_claims(Z, Session, 1),
    ?assertMatch(#{pid := Pid}, Claim),
    ok = rpc(A, todana_scope_records, end_session, [Table, Session]),
    await(fun() -> names(A, which_names, [s]) =:= [kept] end),
    await(fun() ->
        #{session := Now} = rpc(Z, todana_name_scopes, table, [s]),
        length(claims_of(Z, Now)) =:= 1
    end),
    ?assertEqual([kept], names(A, which_names, [s])).

await_claims(Node, Session, Count) ->
    await(fun() -> length(claims_of(Node, Session)) =:= Count end),
    claims_of(Node, Session).

claims_of(Node, Session) ->
    {_, Claims} = rpc(Node, todana_claim_watcher, held, [s, all]),
    [Claim || #{ref := {Of, _}} = Claim <- Claims, Of =:= Session].

%% Those of aten, by which members notice that another one is gone.
a_guest_receives_no_heartbeats(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, []),
    Resting = fun(Nodes) ->
        [
            await(fun() -> rpc(M, todana_heartbeats, resting, []) =:= Nodes end)
         || M <- Members
        ]
    end,
    Resting([Z]),
    Before = rpc(Z, ?MODULE, received, []),
    timer:sleep(3_000),
    Messages = rpc(Z, ?MODULE, received, []) - Before,
    ?assert(Messages < 45),
    %% Members receive each other's, each once.
    [
        begin
            ?assertEqual(undefined, rpc(M, erlang, whereis, [aten_emitter])),
            await(fun() ->
                Seen = rpc(M, aten_sink, get_failure_probabilities, []),
                lists:sort(maps:keys(Seen)) =:= lists:sort(Members -- [M])
            end)
        end
     || M <- Members
    ],
    %% Somebody starts aten in the guest.
    Sink = rpc(Z, ?MODULE, sink, []),
    Resting([]),
    await(fun() ->
        lists:sort(rpc(Z, gen_server, call, [Sink, all])) =:=
            lists:sort(Members)
    end),
    true = rpc(Z, erlang, exit, [Sink, kill]),
    Resting([Z]),
    %% The process of a member is another one.
    true = rpc(A, erlang, exit, [rpc(A, erlang, whereis, [todana_heartbeats]),
                                 kill]),
    await(fun() -> is_pid(rpc(A, erlang, whereis, [todana_heartbeats])) end),
    Resting([Z]),
    ok = rpc(Z, application, stop, [todana]),
    Resting([]).

heartbeats_of_somebody_elses_aten_are_its_own(Config) ->
    [A] = cluster([a], Config),
    Running = fun(Node, Name) ->
        is_pid(rpc(Node, erlang, whereis, [Name]))
    end,
    Beats = fun(Node, Name) ->
        Names = [todana_heartbeats, aten_emitter],
        [Name] =:= [N || N <- Names, Running(Node, N)]
    end,
    await(fun() -> Beats(A, todana_heartbeats) end),
    %% It is killed, and has no successor for a time.
    ok = rpc(A, sys, suspend, [todana_durable_sup]),
    true = rpc(A, erlang, exit, [rpc(A, erlang, whereis, [todana_heartbeats]),
                                 kill]),
    await(fun() -> Beats(A, aten_emitter) end),
    ok = rpc(A, sys, resume, [todana_durable_sup]),
    await(fun() -> Beats(A, todana_heartbeats) end),
    %% Somebody starts aten anew.
    ok = rpc(A, application, stop, [aten]),
    ok = rpc(A, application, start, [aten]),
    await(fun() -> Beats(A, aten_emitter) end),
    true = Running(A, todana_interest),
    {ok, undefined} = rpc(A, supervisor, restart_child, [
        todana_durable_sup, todana_heartbeats
    ]),
    %% Somebody has started it before.
    {Peer, B} = todana_peers:peer(b),
    {ok, _} = rpc(B, application, ensure_all_started, [aten]),
    ok = peer:call(Peer, todana_peers, start, [
        todana_peers:data_dir(b, Config), [{cluster_join, A}]
    ], 60_000),
    await(fun() -> todana_peers:is_open(B) end),
    true = Beats(B, aten_emitter).

%% ---------------------------------------------------------------- helpers ---

%% Has the guest change its seat until it is this member.
seat_is(Guest, Member) ->
    await(fun() ->
        case rpc(Guest, todana_guest, seat, []) of
            Member -> true;
            none -> false;
            Other -> rpc(Other, ?MODULE, kill_seats, []) =:= none
        end
    end).

%% Executed at the seat, which answers when the test wants it.
held() ->
    true = register(held, self()),
    receive
        go -> executed
    end.

%% Ra's server in this node.
log_server() ->
    [Server] = [
        Pid
     || Name <- registered(), Pid <- [whereis(Name)], is_pid(Pid),
        {dictionary, Kept} <- [process_info(Pid, dictionary)],
        lists:member({'$initial_call', {ra_server_proc, init, 1}}, Kept)
    ],
    Server.

kill_seats() ->
    [
        exit(Pid, kill)
     || {_, Pid, _, _} <- supervisor:which_children(todana_seats)
    ],
    ok.

%% Messages from all nodes.
received() ->
    lists:sum([
        Count
     || {_, Port} <- erlang:system_info(dist_ctrl),
        {ok, [{recv_cnt, Count}]} <- [inet:getstat(Port, [recv_cnt])]
    ]).

%% In place of aten: keeps from which nodes heartbeats come.
sink() ->
    Pid = spawn(fun() -> sink(#{}) end),
    true = register(aten_sink, Pid),
    Pid.

sink(Seen) ->
    receive
        {'$gen_cast', {hb, Node}} ->
            sink(Seen#{Node => true});
        {'$gen_call', From, all} ->
            gen_server:reply(From, maps:keys(Seen)),
            sink(Seen)
    end.

sources() ->
    {state, Subscriptions, _} = sys:get_state(todana_away_events),
    [
        case Source of {Pid, _} -> node(Pid); none -> none end
     || #{source := Source} <- maps:values(Subscriptions)
    ].

%% Reads and writes, and keeps what is neither a result nor an unknown outcome.
load(Table) ->
    spawn(fun() -> load(Table, []) end).

load(Table, Kept) ->
    receive
        {'$gen_call', From, all} -> gen_server:reply(From, Kept)
    after 0 -> ok
    end,
    Wrong = [
        Result
     || Call <- [
            fun() -> todana:get(Table, k) end,
            fun() -> todana:put(Table, k, 1) end
        ],
        Result <- [
            try Call() catch Class:Reason:Stack -> {Class, Reason, Stack} end
        ],
        Result =/= ok, Result =/= {error, unknown},
        not is_tuple(Result) orelse element(1, Result) =/= ok
    ],
    load(Table, Wrong ++ Kept).

%% The name of a node that does not run yet.
node_name(Letter) ->
    list_to_atom(todana_peers:name(Letter) ++ "@127.0.0.1").

names(Node, Function, Arguments) ->
    rpc(Node, todana_names, Function, Arguments).

changes(Node, Pid) -> rpc(Node, gen_server, call, [Pid, all]).

subscriber(Table, Options) ->
    {Pid, {ok, _}} = todana_keepers:subscribed(Table, Options),
    Pid.

owner(Name, Options) ->
    todana_keepers:begun(fun() ->
        todana_names:register_name_token({s, Name}, self(), Options)
    end).

%% Functions that do not wait until there is a member.
look_up() ->
    [
        todana_names:whereis_name({s, n}),
        todana_names:lookup({s, n}),
        todana_groups:get_members(s, g),
        case todana_names:register_name_token({s, n}, self()) of
            {error, Reason} -> Reason
        end,
        todana_names:await_name({s, n}, 100),
        todana_names:await_name({s, n}, 0)
    ].

%% How often a process that does this asks the seat, for each step. In the
%% arguments, `self` stands for it.
asked(Steps) ->
    Session = trace:session_create(?MODULE, self(), []),
    Matched = trace:function(Session, {erpc, send_request, 4}, true, []),
    ?assertEqual(1, Matched),
    {Pid, Monitor} = spawn_monitor(fun() ->
        receive begin_steps -> ok end,
        exit({done, [
            begin
                Result = apply(M, F, as_self(Arguments)),
                self() ! {step, Result},
                receive {step, Result} -> Result end
            end
         || {M, F, Arguments} <- Steps
        ]})
    end),
    1 = trace:process(Session, Pid, true, [call, 'receive']),
    Pid ! begin_steps,
    Results =
        receive {'DOWN', Monitor, process, Pid, {done, All}} -> All end,
    Delivered = trace:delivered(Session, Pid),
    receive {trace_delivered, Pid, Delivered} -> ok end,
    true = trace:session_destroy(Session),
    {asked_in_steps(Pid, 0), Results}.

asked_in_steps(Pid, Calls) ->
    receive
        {trace, Pid, call, _} ->
            asked_in_steps(Pid, Calls + 1);
        {trace, Pid, 'receive', {step, _}} ->
            [Calls | asked_in_steps(Pid, 0)];
        {trace, Pid, 'receive', _} ->
            asked_in_steps(Pid, Calls)
    after 0 -> []
    end.

as_self(Arguments) ->
    [
        case Argument of
            self -> self();
            [self | _] -> [self() || _ <- Argument];
            _ -> Argument
        end
     || Argument <- Arguments
    ].

%% Registers the name for one process after the other, each when the one before
%% has just ended.
successors(Name, Count) ->
    [
        begin
            {Pid, Result} = todana_keepers:begun(fun() ->
                todana_names:register_name(Name, self())
            end),
            Monitor = monitor(process, Pid),
            exit(Pid, kill),
            receive {'DOWN', Monitor, process, Pid, _} -> Result end
        end
     || _ <- lists:seq(1, Count)
    ].

member(Scope, Group) ->
    {Pid, ok} = todana_keepers:begun(fun() ->
        todana_groups:join(Scope, Group, self())
    end),
    Pid.

todana(Node, Function, Arguments) -> rpc(Node, todana, Function, Arguments).

has(Sentence, Part) ->
    Text = unicode:characters_to_list(Sentence),
    ?assertNotEqual({Text, nomatch}, {Text, string:find(Text, Part)}).

ask(Socket, Request) -> ask(Socket, Request, 1).

%% The line that begins so, up to this last one.
line_with(Begin, Last, Socket) ->
    case line(Socket) of
        Last -> none;
        Line ->
            Next = line_with(Begin, Last, Socket),
            case string:prefix(Line, Begin) of
                nomatch -> Next;
                _ -> Line
            end
    end.

%% The last one of the replies, each of one line or a bulk.
ask(Socket, Request, Count) ->
    ok = gen_tcp:send(Socket, Request),
    lists:last([reply(Socket) || _ <- lists:seq(1, Count)]).

reply(Socket) ->
    case line(Socket) of
        <<"$-1\r\n">> = None -> None;
        <<"$", _/binary>> = Length ->
            <<Length/binary, (line(Socket))/binary>>;
        Line -> Line
    end.
