%% What clients publish reaches those who listen, on any node of a cluster, and
%% no other node (docs/channels.md).
-module(todana_spread_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    messages_go_where_somebody_listens/1,
    a_subscription_is_answered_when_all_nodes_know_of_it/1,
    a_node_that_hangs_delays_no_subscription_for_long/1,
    subscriptions_that_come_and_go_are_gathered/1,
    a_node_that_was_cut_off_gets_what_it_wants/1,
    a_node_that_starts_again_gets_what_it_wants/1,
    a_guest_with_another_seat_gets_what_it_wants/1,
    a_node_that_announces_nothing_gets_everything/1
]).

-import(todana_sockets, [connect/1, lines/2, line/1]).
-import(todana_peers, [guest/3, node/3, kill/1, rpc/4, await/1]).

-define(LISTEN, [{listen_resp, '127.0.0.1:0'}]).

all() ->
    [
        messages_go_where_somebody_listens,
        a_subscription_is_answered_when_all_nodes_know_of_it,
        a_node_that_hangs_delays_no_subscription_for_long,
        subscriptions_that_come_and_go_are_gathered,
        a_node_that_was_cut_off_gets_what_it_wants,
        a_node_that_starts_again_gets_what_it_wants,
        a_guest_with_another_seat_gets_what_it_wants,
        a_node_that_announces_nothing_gets_everything
    ].

init_per_testcase(Case, Config) -> todana_peers:open(Case, Config).

end_per_testcase(_Case, _Config) -> todana_peers:close().

%% ------------------------------------------------------------------ cases ---

messages_go_where_somebody_listens(Config) ->
    [A, B, C] = members(Config),
    Guests = [guest(Letter, A, ?LISTEN) || Letter <- [w, x, y, z]],
    [W, X, Y, Z] = Guests,
    [await_peers(N, 2) || N <- [A, B, C]],
    [await_peers(Guest, 1) || Guest <- Guests],
    [At, Px] = [connect(N) || N <- [A, X]],
    Wanted = [
        {B, subscribed(B, ~"SUBSCRIBE news\r\n"), [~"news"]},
        {C, subscribed(C, ~"SSUBSCRIBE news\r\n"), [~"shard"]},
        {X, subscribed(X, ~"PSUBSCRIBE n*\r\n"), [~"news", ~"night"]},
        {Y, subscribed(Y, ~"SUBSCRIBE cars\r\n"), [~"cars"]}
    ],
    Before = received(Guests ++ [A, B, C]),
    Publish = [
        {~"news", ~"PUBLISH news news\r\n"},
        {~"shard", ~"SPUBLISH news shard\r\n"},
        {~"night", ~"PUBLISH night night\r\n"},
        {~"cars", ~"PUBLISH cars cars\r\n"},
        {~"other", ~"PUBLISH other other\r\n"}
    ],
    [
        [
            begin
                ?assertMatch(<<":", _/binary>>, ask(Publisher, Request)),
                [
                    ?assertEqual(<<Text/binary, "\r\n">>, message(Socket))
                 || {_, Socket, Texts} <- Wanted, lists:member(Text, Texts)
                ]
            end
         || {Text, Request} <- Publish
        ]
     || Publisher <- [At, Px]
    ],
    %% Seats also get what their guests want; the rest gets nothing.
    After = received([W, Z]),
    ?assertEqual(maps:with([W, Z], Before), After),
    #{B := Of_b} = received([B]),
    ?assert(Of_b > maps:get(B, Before)),
    %% What nobody wants is sent to nobody.
    Sent = sent(A),
    [~":0\r\n" = ask(At, ~"PUBLISH other other\r\n") || _ <- lists:seq(1, 100)],
    ~":0\r\n" = ask(At, ~"PUBLISH news last\r\n"),
    [{_, Sb, _}, _, {_, Sx, _} | _] = Wanted,
    [?assertEqual(~"last\r\n", message(S)) || S <- [Sb, Sx]],
    ?assert(sent(A) - Sent =< 2).

a_subscription_is_answered_when_all_nodes_know_of_it(Config) ->
    [A, B, C] = members(Config),
    X = guest(x, A, ?LISTEN),
    [await_peers(N, 2) || N <- [A, B, C]],
    await_peers(X, 1),
    Publishers = [connect(N) || N <- [A, B, C, X]],
    [
        begin
            Name = integer_to_binary(N),
            Subscriber = subscribed(At, [~"SUBSCRIBE ", Name, ~"\r\n"]),
            [
                begin
                    ok = gen_tcp:send(P, [~"PUBLISH ", Name, ~" text\r\n"]),
                    ?assertEqual(~"text\r\n", message(Subscriber))
                end
             || P <- Publishers
            ],
            gen_tcp:close(Subscriber)
        end
     || N <- lists:seq(1, 40), At <- [lists:nth(N rem 4 + 1, [A, B, C, X])]
    ],
    %% A node that does not know of it yet.
    Seat = rpc(X, todana_guest, seat, []),
    [Other | _] = [A, B, C] -- [Seat],
    [
        begin
            ok = rpc(Other, sys, suspend, [todana_interest]),
            Late = connect(At),
            ok = gen_tcp:send(Late, [~"SUBSCRIBE late", atom_to_list(At),
                                     ~"\r\n"]),
            ?assertEqual({error, timeout}, gen_tcp:recv(Late, 1, 300)),
            ok = rpc(Other, sys, resume, [todana_interest]),
            lines(Late, 6)
        end
     || At <- [Seat, X]
    ],
    %% A name that is known already does not wait.
    ok = rpc(Other, sys, suspend, [todana_interest]),
    Early = subscribed(Seat, [~"SUBSCRIBE late", atom_to_list(Seat), ~"\r\n"]),
    ok = rpc(Other, sys, resume, [todana_interest]),
    gen_tcp:close(Early).

a_node_that_hangs_delays_no_subscription_for_long(Config) ->
    [A, B, C] = members(Config),
    [await_peers(N, 2) || N <- [A, B, C]],
    ok = rpc(C, sys, suspend, [todana_interest]),
    First = subscribed(A, ~"SUBSCRIBE first\r\n"),
    await(fun() -> subscribes_at_once(A, ~"second") end),
    ok = rpc(C, sys, resume, [todana_interest]),
    %% It gets to know what it has missed.
    [At] = [connect(N) || N <- [C]],
    await(fun() ->
        _ = ask(At, ~"PUBLISH first text\r\n"),
        gen_tcp:recv(First, 1, 100) =/= {error, timeout}
    end).

subscriptions_that_come_and_go_are_gathered(Config) ->
    [A, B, C] = members(Config),
    [await_peers(N, 2) || N <- [A, B, C]],
    Numbers = fun() ->
        {Number, true, _} = rpc(A, todana_nif, interest_full, []),
        Number
    end,
    Before = Numbers(),
    Names = [[integer_to_binary(N), $\s] || N <- lists:seq(1, 5_000)],
    Socket = connect(A),
    ok = gen_tcp:send(Socket, [~"SUBSCRIBE ", Names, ~"\r\n"]),
    lines(Socket, 5_000 * 6),
    ok = gen_tcp:send(Socket, ~"UNSUBSCRIBE\r\n"),
    lines(Socket, 5_000 * 6),
    ?assert(Numbers() - Before =< 12),
    After = Numbers(),
    %% They are known for some time, although nobody listens.
    Again = subscribed(A, ~"SUBSCRIBE 77\r\n"),
    ?assertEqual(After, Numbers()),
    Publisher = connect(B),
    ~":0\r\n" = ask(Publisher, ~"PUBLISH 77 text\r\n"),
    ?assertEqual(~"text\r\n", message(Again)),
    await(fun() -> items(A) =:= 9 end).

a_node_that_was_cut_off_gets_what_it_wants(Config) ->
    [A, B, C] = members(Config),
    [await_peers(N, 2) || N <- [A, B, C]],
    Old = subscribed(C, ~"SUBSCRIBE old\r\n"),
    Cut = fun(Cookie) ->
        [
            true = rpc(C, erlang, set_cookie, [N, Cookie])
         || N <- [A, B]
        ]
    end,
    Cookie = rpc(C, erlang, get_cookie, []),
    Cut(other),
    [rpc(C, erlang, disconnect_node, [N]) || N <- [A, B]],
    await_peers(C, 0),
    New = subscribed(C, ~"SUBSCRIBE new\r\n"),
    Cut(Cookie),
    [await_peers(N, 2) || N <- [A, B, C]],
    await_quiet(A, C),
    Publisher = connect(A),
    [
        begin
            ok = gen_tcp:send(Publisher, [~"PUBLISH ", Name, ~" text\r\n"]),
            ?assertEqual(~"text\r\n", message(Socket))
        end
     || {Name, Socket} <- [{~"old", Old}, {~"new", New}]
    ].

a_node_that_starts_again_gets_what_it_wants(Config) ->
    [A, B, C] = members(Config),
    [await_peers(N, 2) || N <- [A, B, C]],
    Old = subscribed(C, ~"SUBSCRIBE old\r\n"),
    kill(C),
    gen_tcp:close(Old),
    C = node(c, ?LISTEN, Config),
    await(fun() -> todana_peers:is_open(C) end),
    [await_peers(N, 2) || N <- [A, B, C]],
    New = subscribed(C, ~"SUBSCRIBE new\r\n"),
    await_quiet(A, C),
    Publisher = connect(A),
    Before = received([C]),
    ~":0\r\n" = ask(Publisher, ~"PUBLISH old text\r\n"),
    ~":0\r\n" = ask(Publisher, ~"PUBLISH new text\r\n"),
    ?assertEqual(~"text\r\n", message(New)),
    #{C := Received} = Before,
    ?assertEqual(#{C => Received + 1}, received([C])).

a_guest_with_another_seat_gets_what_it_wants(Config) ->
    [A | _] = Members = members(Config),
    X = guest(x, A, ?LISTEN),
    await_peers(X, 1),
    Subscriber = subscribed(X, ~"SUBSCRIBE news\r\n"),
    Seat = rpc(X, todana_guest, seat, []),
    kill(Seat),
    await(fun() ->
        not lists:member(rpc(X, todana_guest, seat, []), [Seat, none])
    end),
    [B | _] = Members -- [Seat],
    await_peers(X, 1),
    Next = subscribed(X, ~"SUBSCRIBE next\r\n"),
    Publisher = connect(B),
    ok = gen_tcp:send(Publisher, ~"PUBLISH news text\r\nPUBLISH next text\r\n"),
    [?assertEqual(~"text\r\n", message(S)) || S <- [Subscriber, Next]],
    await_quiet(B, X).

%% As one of an earlier version.
a_node_that_announces_nothing_gets_everything(Config) ->
    [A, B, C] = members(Config),
    [await_peers(N, 2) || N <- [A, B, C]],
    ok = rpc(C, supervisor, terminate_child, [
        todana_durable_sup, todana_interest
    ]),
    [await_peers(N, 1) || N <- [A, B]],
    Old = subscribed(C, ~"SUBSCRIBE old\r\n"),
    Known = subscribed(B, ~"SUBSCRIBE known\r\n"),
    Publisher = connect(A),
    #{C := Before} = received([C]),
    ~":0\r\n" = ask(Publisher, ~"PUBLISH old text\r\n"),
    ?assertEqual(~"text\r\n", message(Old)),
    ~":0\r\n" = ask(Publisher, ~"PUBLISH known text\r\n"),
    ?assertEqual(~"text\r\n", message(Known)),
    await(fun() -> received([C]) =:= #{C => Before + 2} end),
    %% It sends everything, too.
    Sender = connect(C),
    ~":0\r\n" = ask(Sender, ~"PUBLISH known back\r\n"),
    ?assertEqual(~"back\r\n", message(Known)).

%% -------------------------------------------------------------------- help ---

members(Config) ->
    A = node(a, [{cluster_create, yes} | ?LISTEN], Config),
    Join = [{cluster_join, A} | ?LISTEN],
    Members = [A | [node(Letter, Join, Config) || Letter <- [b, c]]],
    await(fun() -> length(todana_peers:voters(A)) =:= 3 end),
    [await(fun() -> todana_peers:is_open(N) end) || N <- Members],
    Members.

%% It knows what at least this number of nodes want; 0 is exact. A guest has
%% one, its seat.
await_peers(Node, Count) ->
    await(fun() ->
        #{peers := Peers} = state(Node),
        case Count of
            0 -> Peers =:= 0;
            _ -> Peers >= Count
        end
    end).

state(Node) ->
    State = rpc(Node, sys, get_state, [todana_interest]),
    #{peers => map_size(element(2, State))}.

%% What nobody wants does not reach a node any more.
await_quiet(From, To) ->
    Publisher = connect(From),
    await(fun() ->
        Before = received([To]),
        ~":0\r\n" = ask(Publisher, ~"PUBLISH nobody text\r\n"),
        timer:sleep(100),
        received([To]) =:= Before
    end),
    gen_tcp:close(Publisher).

subscribes_at_once(Node, Prefix) ->
    Name = [Prefix, integer_to_binary(erlang:unique_integer([positive]))],
    Socket = connect(Node),
    ok = gen_tcp:send(Socket, [~"SUBSCRIBE ", Name, ~"\r\n"]),
    Received = gen_tcp:recv(Socket, 1, 500),
    gen_tcp:close(Socket),
    Received =/= {error, timeout}.

items(Node) ->
    {_, true, Items} = rpc(Node, todana_nif, interest_full, []),
    byte_size(Items).

received(Nodes) ->
    #{
        Node => maps:get(bundles_received, figures(Node))
     || Node <- Nodes
    }.

sent(Node) -> maps:get(bundles_sent, figures(Node)).

figures(Node) -> rpc(Node, todana_spread, figures, []).

%% A client with one subscription, which is confirmed.
subscribed(Node, Request) ->
    Socket = connect(Node),
    ok = gen_tcp:send(Socket, Request),
    lines(Socket, 6),
    Socket.

%% The text of the next message.
message(Socket) ->
    case line(Socket) of
        ~"*3\r\n" -> lists:last(lines(Socket, 6));
        ~"*4\r\n" -> lists:last(lines(Socket, 8))
    end.

ask(Socket, Request) ->
    ok = gen_tcp:send(Socket, Request),
    line(Socket).
