%% The option `databases' over several starts of the application in one node.
%% Each case has its own node, because the first start of a node determines the
%% databases.
-module(todana_databases_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    orders/1,
    limits_hold_and_may_change/1,
    an_unused_database_may_change_order/1,
    a_database_with_records_keeps_its_order/1,
    an_open_database_keeps_its_order/1,
    exchanged_databases_are_no_change/1,
    bad_names_keep_the_application_from_starting/1,
    ignored_parameters_are_logged_once/1,
    every_read_is_a_use/1,
    take_removes_the_value_it_returns/1,
    an_update_is_of_the_database_that_was_read/1
]).
%% Called in the peer node
-export([take_all/1, others/1, update_and_exchange/1]).
%% For the logger of the peer node
-export([log/2]).

all() ->
    [
        orders,
        limits_hold_and_may_change,
        an_unused_database_may_change_order,
        a_database_with_records_keeps_its_order,
        an_open_database_keeps_its_order,
        exchanged_databases_are_no_change,
        bad_names_keep_the_application_from_starting,
        ignored_parameters_are_logged_once,
        every_read_is_a_use,
        take_removes_the_value_it_returns,
        an_update_is_of_the_database_that_was_read
    ].

init_per_testcase(_Case, Config) ->
    {ok, Peer, _Node} = peer:start_link(#{
        connection => standard_io, wait_boot => 60_000,
        args => ["-pa" | code:get_path()]
    }),
    [{peer, Peer} | Config].

end_per_testcase(_Case, Config) ->
    peer:stop(proplists:get_value(peer, Config)).

%% ----------------------------------------------------------------- cases ---

orders(Config) ->
    ok = start(Config, ": + %#rcomp=dec %#rcomp=lexdesc *"),
    [{ok, _} = todana(Config, open, [D, #{}]) || D <- [db0, db1, db2, db3, db4,
                                                      db5]],
    ?assertEqual(
        [set, lexical, decimal, lexical_descending, set, set],
        [order(Config, D) || D <- [db0, db1, db2, db3, db4, db5]]
    ),
    Keys = [~"10", ~"9", ~"a"],
    [
        ok = todana(Config, put_many, [D, [{K, ~""} || K <- Keys]])
     || D <- [db1, db2, db3]
    ],
    Walk = fun(D) ->
        todana(Config, range, [D, first, last, #{keys_only => true}])
    end,
    ?assertEqual({[~"10", ~"9", ~"a"], done}, Walk(db1)),
    ?assertEqual({[~"a", ~"9", ~"10"], done}, Walk(db2)),
    ?assertEqual({[~"a", ~"9", ~"10"], done}, Walk(db3)).

limits_hold_and_may_change(Config) ->
    ok = start(Config, "*#capcnt=1000 %#ktcapcnt=2000#ktcapsiz=1m :"),
    [{ok, _} = todana(Config, open, [D, #{}]) || D <- [db0, db1, db2]],
    ?assertMatch(#{entries_max := 1000, bytes_max := infinity},
                 todana(Config, info, [db0])),
    ?assertMatch(#{entries_max := 2000, bytes_max := 1048576},
                 todana(Config, info, [db1])),
    ?assertMatch(#{entries_max := infinity}, todana(Config, info, [db2])),
    Fill = fun(D) ->
        Pairs = [{integer_to_binary(N), ~""} || N <- lists:seq(1, 5000)],
        ok = todana(Config, put_many, [D, Pairs]),
        todana(Config, count, [D])
    end,
    ?assert(Fill(db0) =< 1000),
    ?assert(Fill(db1) =< 2000),
    ?assertEqual(5000, Fill(db2)),
    ok = stop(Config),
    ok = start(Config, "*#capcnt=4000 % :"),
    ?assertMatch(#{entries_max := 4000}, todana(Config, info, [db0])),
    ?assertMatch(#{entries_max := infinity}, todana(Config, info, [db1])),
    ?assertEqual(5000, Fill(db1)).

an_unused_database_may_change_order(Config) ->
    ok = start(Config, ":"),
    ok = stop(Config),
    ok = start(Config, ": %"),
    {ok, _} = todana(Config, open, [db1, #{}]),
    ?assertEqual(lexical, order(Config, db1)).

a_database_with_records_keeps_its_order(Config) ->
    ok = start(Config, "%"),
    {ok, _} = todana(Config, open, [db0, #{}]),
    ok = todana(Config, put, [db0, ~"k", ~"v"]),
    ok = stop(Config),
    Sentence = refused(Config, ":"),
    ?assertMatch({_, [_ | _]}, {Sentence, string:find(Sentence, "db0")}),
    ?assertMatch({_, [_ | _]}, {Sentence, string:find(Sentence, "records")}),
    %% The same order is no change, and the record is there.
    ok = start(Config, "+"),
    ?assertEqual({ok, ~"v"}, todana(Config, get, [db0, ~"k"])).

an_open_database_keeps_its_order(Config) ->
    ok = start(Config, ":"),
    {ok, _} = todana(Config, open, [db3, #{}]),
    ok = stop(Config),
    Sentence = refused(Config, ": : %"),
    ?assertMatch({_, [_ | _]}, {Sentence, string:find(Sentence, "db2")}),
    ?assertMatch({_, [_ | _]}, {Sentence, string:find(Sentence, "restart")}).

exchanged_databases_are_no_change(Config) ->
    Peer = proplists:get_value(peer, Config),
    ok = peer:call(Peer, application, set_env,
                   [todana, listen_resp, "127.0.0.1:0"]),
    Databases = "+#ktcapcnt=1000 :",
    ok = start(Config, Databases),
    [{ok, _} = todana(Config, open, [D, #{}]) || D <- [db0, db1]],
    ok = todana(Config, put, [db0, ~"k", ~"v"]),
    ok = exchange(Config, 0, 1),
    ok = stop(Config),
    ok = start(Config, Databases),
    ?assertEqual({ok, ~"v"}, todana(Config, get, [db1, ~"k"])),
    ?assertEqual([set, lexical], [order(Config, D) || D <- [db0, db1]]),
    ?assertEqual(
        [infinity, 1000],
        [maps:get(entries_max, todana(Config, info, [D])) || D <- [db0, db1]]
    ).

bad_names_keep_the_application_from_starting(Config) ->
    Sentence = refused(Config, ": foo"),
    ?assertMatch({_, [_ | _]}, {Sentence, string:find(Sentence, "`foo`")}).

ignored_parameters_are_logged_once(Config) ->
    Peer = proplists:get_value(peer, Config),
    ok = peer:call(Peer, logger, add_handler,
                   [?MODULE, ?MODULE, #{level => warning}]),
    ok = start(Config, ":#bnum=1m#opts=c % *#zkey=secret"),
    Lines = peer:call(Peer, application, get_env, [kernel, ?MODULE, []]),
    ?assertEqual(
        [
            "database 0 (`:`): parameters without an effect: bnum, opts",
            "database 2 (`*`): parameters without an effect: zkey"
        ],
        Lines
    ).

%% memcached's meta commands return whether a record was fetched since it was
%% stored (`h'), and the time since its last use (`l').
every_read_is_a_use(Config) ->
    Addresses = serve(Config, [resp, memcached, kyoto]),
    #{resp := Resp, memcached := Memcached, kyoto := Kyoto} = Addresses,
    {ok, _} = todana(Config, open, [db0, #{}]),
    Looks = [
        {get, fun() -> {ok, ~"v"} = todana(Config, get, [db0, ~"k"]) end},
        {get_entry, fun() ->
            {ok, #{value := ~"v"}} = todana(Config, get_entry, [db0, ~"k"])
        end},
        {get_many, fun() ->
            #{~"k" := ~"v"} = todana(Config, get_many, [db0, [~"k"]])
        end},
        {resp, fun() ->
            ~"$1\r\nv\r\n" = say(Resp, ~"GET k\r\n")
        end},
        {resp_touch, fun() -> ~":1\r\n" = say(Resp, ~"TOUCH k\r\n") end},
        {memcached, fun() ->
            ~"VALUE k 0 1\r\nv\r\nEND\r\n" = say(Memcached, ~"get k\r\n")
        end},
        {kyoto, fun() ->
            <<"HTTP/1.1 200 OK\r\n", _/binary>> =
                say(Kyoto, ~"GET /k HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        end}
    ],
    [
        begin
            ~"HD\r\n" = say(Memcached, ~"ms k 1\r\nv\r\n"),
            Before = say(Memcached, ~"mg k h t\r\n"),
            ?assertEqual({Who, ~"HD h0 t-1\r\n"}, {Who, Before}),
            ~"HD\r\n" = say(Memcached, ~"ms k 1\r\nv\r\n"),
            Look(),
            After = say(Memcached, ~"mg k h t\r\n"),
            ?assertEqual({Who, ~"HD h1 t-1\r\n"}, {Who, After})
        end
     || {Who, Look} <- Looks
    ].

%% Both databases have the same keys, with the same versions. If take/2 returned
%% the value of one database and removed the record of the other, the remaining
%% value would equal the returned one.
take_removes_the_value_it_returns(Config) ->
    #{resp := Resp} = serve(Config, [resp]),
    Keys = [integer_to_binary(N) || N <- lists:seq(1, 50_000)],
    [
        begin
            {ok, _} = todana(Config, open, [Database, #{}]),
            Value = atom_to_binary(Database),
            Pairs = [{Key, Value} || Key <- Keys],
            ok = todana(Config, put_many, [Database, Pairs])
        end
     || Database <- [db0, db1]
    ],
    Me = self(),
    Exchanger = spawn_link(fun() ->
        Socket = connect(Resp),
        Me ! exchanging,
        exchange_until_stopped(Socket, Me)
    end),
    receive exchanging -> ok end,
    Peer = proplists:get_value(peer, Config),
    Taken = peer:call(Peer, ?MODULE, take_all, [Keys], infinity),
    Exchanger ! {stop, self()},
    receive stopped -> ok end,
    Left = peer:call(Peer, ?MODULE, others, [Keys], infinity),
    ?assertEqual([], [
        {Key, Got, Rest}
     || {Key, Got, Rest} <- lists:zip3(Keys, Taken, Left), [Got] =:= Rest
    ]),
    ?assertEqual(50_000, length(lists:append(Left))).

take_all(Keys) ->
    [element(2, {ok, _} = todana:take(db0, Key)) || Key <- Keys].

%% The remaining values of each key in the two databases.
others(Keys) ->
    [
        [Value || Database <- [db0, db1],
                  {ok, Value} <- [todana:get(Database, Key)]]
     || Key <- Keys
    ].

%% Databases that were filled alike have the same versions for the same keys.
an_update_is_of_the_database_that_was_read(Config) ->
    #{resp := Address} = serve(Config, [resp]),
    [{ok, _} = todana(Config, open, [D, #{}]) || D <- [db0, db1]],
    ok = todana(Config, put, [db0, ~"k", ~"0"]),
    ok = todana(Config, put, [db1, ~"k", ~"1"]),
    Peer = proplists:get_value(peer, Config),
    {ok, ~"1 new"} =
        peer:call(Peer, ?MODULE, update_and_exchange, [Address], 60_000),
    ?assertEqual({ok, ~"1 new"}, todana(Config, get, [db0, ~"k"])),
    ?assertEqual({ok, ~"0"}, todana(Config, get, [db1, ~"k"])).

update_and_exchange(Address) ->
    todana:update(db0, ~"k", fun
        ({ok, ~"0"}) ->
            ~"+OK\r\n" = say(Address, ~"SWAPDB 0 1\r\n"),
            {put, ~"0 new"};
        ({ok, ~"1"}) ->
            {put, ~"1 new"}
    end).

exchange_until_stopped(Socket, Me) ->
    Exchanges = binary:copy(~"SWAPDB 0 1\r\n", 1000),
    ok = gen_tcp:send(Socket, Exchanges),
    {ok, _} = gen_tcp:recv(Socket, 5 * 1000, 60_000),
    receive
        {stop, Me} -> Me ! stopped
    after 0 -> exchange_until_stopped(Socket, Me)
    end.

%% A logger handler that keeps the messages.
log(#{msg := {Format, Arguments}}, _Config) ->
    Line = lists:flatten(io_lib:format(Format, Arguments)),
    Lines = application:get_env(kernel, ?MODULE, []),
    application:set_env(kernel, ?MODULE, Lines ++ [Line]);
log(_Event, _Config) ->
    ok.

%% ---------------------------------------------------------------- shared ---

start(Config, Databases) ->
    Peer = proplists:get_value(peer, Config),
    ok = peer:call(Peer, application, set_env, [todana, databases, Databases]),
    case peer:call(Peer, application, ensure_all_started, [todana]) of
        {ok, _} -> ok;
        Error -> Error
    end.

refused(Config, Databases) ->
    {error, {todana, Reason}} = start(Config, Databases),
    {{todana, Sentence}, _} = Reason,
    Sentence.

stop(Config) ->
    peer:call(proplists:get_value(peer, Config), application, stop, [todana]).

%% Starts the application with listeners and returns their addresses.
serve(Config, Protocols) ->
    Peer = proplists:get_value(peer, Config),
    [
        ok = peer:call(Peer, application, set_env, [
            todana,
            list_to_atom("listen_" ++ atom_to_list(Protocol)),
            "127.0.0.1:0"
        ])
     || Protocol <- Protocols
    ],
    {ok, _} = peer:call(Peer, application, ensure_all_started, [todana]),
    maps:from_list(peer:call(Peer, todana_listener, addresses, [])).

connect(Address) ->
    [_, Port] = string:split(Address, ":"),
    {ok, Socket} = gen_tcp:connect("127.0.0.1", list_to_integer(Port),
                                   [binary, {active, false}]),
    Socket.

%% Sends a request whose reply arrives in one piece.
say(Address, Request) ->
    Socket = connect(Address),
    ok = gen_tcp:send(Socket, Request),
    {ok, Reply} = gen_tcp:recv(Socket, 0, 60_000),
    ok = gen_tcp:close(Socket),
    Reply.

%% SWAPDB, as a Redis client sends it.
exchange(Config, One, Other) ->
    Peer = proplists:get_value(peer, Config),
    [{resp, Address}] = peer:call(Peer, todana_listener, addresses, []),
    [_, Port] = string:split(Address, ":"),
    {ok, Socket} = gen_tcp:connect("127.0.0.1", list_to_integer(Port),
                                   [binary, {active, false}]),
    ok = gen_tcp:send(Socket, io_lib:format("SWAPDB ~b ~b\r\n", [One, Other])),
    {ok, ~"+OK\r\n"} = gen_tcp:recv(Socket, 0, 60_000),
    gen_tcp:close(Socket).

todana(Config, Function, Arguments) ->
    peer:call(proplists:get_value(peer, Config), todana, Function, Arguments).

order(Config, Database) ->
    Info = todana(Config, info, [Database]),
    maps:get(order, Info, maps:get(type, Info)).
