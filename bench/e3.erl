%% E3: what distributed Erlang costs as the cluster grows, and how one process
%% in the path limits a server with more schedulers.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -pa EBIN -run e3 main ROUNDS NODES ECHOES CALLS PROCESSES NAMES
%%         SCHEDULERS CLIENTS OPERATIONS PLACE
%% Prints one line of JSON for each cell, with the microseconds per operation of
%% each round and the CPU time of its nodes for each (null if a round is too
%% short for the system's clock of CPU time). An operation that fails prints
%% {"failed": Reason} for its cell, and the run continues.
%%
%% Part `nodes`: operations of one process beside 0, 1, 4.. other nodes.
%%     add_node            start a node; it and this one are connected
%%     add_node_meshed     until it is connected to all others
%%     echo_pid, echo_name round trips, all sent before a reply is awaited
%%     erpc, rpc           asynchronous remote calls of a trivial function
%%     monitor             monitor a process, kill it, receive DOWN
%%     global_*            register, look up and unregister names
%%     pg_join             join a group with one process (_everywhere: until
%%                         every node knows)
%%     pg_members, pg_leave
%%
%% Part `scale_up`: many operations of client nodes on one server node.
%%     echo_many           over four echo servers for each scheduler
%%     echo_one            over one echo server
%%     erpc                remote calls, each in a new process
%%     rpc_one_process     remote calls through the process `rex`, as published
%%     todana_get          reads of a durable table by clients that are guests
%%                         of the server, whose directory is below PLACE: by 100
%%                         processes of each client, one read at a time
-module(e3).

-export([main/1]).
%% For peers.
-export([serve/0, echo/0, idle/1, watch/2, work/4, fill/0]).

-type step() ::
    echo_pid | echo_name | erpc | rpc | monitor | global | pg | add_node.
%% Microseconds per operation: elapsed time, and CPU time of all cores.
-type cost() :: {float(), float() | null}.
-type sample() :: #{atom() => cost()}.

-define(STEP_MS, 180_000).
%% CPU time is counted in steps of 10 ms: less than this is no measurement.
-define(CPU_US_MIN, 100_000).
%% There are few names and groups, so they are looked up several times.
-define(PASSES, 100).
-define(TABLE, e3_reads).
-define(KEYS, 1_000).
-define(READERS, 100).
-define(OPEN_MS, 30_000).

-spec main([string()]) -> no_return().
main([Rounds, Nodes, Echoes, Calls, Processes, Names | ScaleUp]) ->
    [Schedulers, Clients, Operations, Place] = ScaleUp,
    Plan = #{
        rounds => list_to_integer(Rounds),
        echoes => list_to_integer(Echoes),
        calls => list_to_integer(Calls),
        processes => list_to_integer(Processes),
        names => list_to_integer(Names),
        operations => list_to_integer(Operations),
        place => Place
    },
    ok = serve(),
    Members = lists:foldl(
        fun(Count, Members) -> nodes(Count, Members, Plan) end,
        [],
        integers(Nodes)
    ),
    ok = cluster:stop(Members),
    lists:foreach(
        fun(Count) -> scale_up(Count, integers(Schedulers), Plan) end,
        integers(Clients)
    ),
    halt(0).

-spec integers(string()) -> [integer()].
integers(Text) ->
    [list_to_integer(Part) || Part <- string:lexemes(Text, ",")].

-spec print(map()) -> ok.
print(Cell) ->
    io:put_chars([json:encode(Cell), $\n]).

-spec text(term()) -> binary().
text(Reason) ->
    iolist_to_binary(io_lib:format("~0tP", [Reason, 20])).

%% Times some work, in microseconds for each of Count operations.
-spec timed([cluster:member()], pos_integer(), fun(() -> term())) ->
    cost().
timed(Members, Count, Work) ->
    Cpu = cluster:cpu_us(Members),
    Started = erlang:monotonic_time(),
    _ = Work(),
    Us = since_us(Started),
    {Us / Count, cpu_us(cluster:cpu_us(Members) - Cpu, Count)}.

-spec cpu_us(non_neg_integer(), pos_integer()) -> float() | null.
cpu_us(Spent, _Count) when Spent < ?CPU_US_MIN -> null;
cpu_us(Spent, Count) -> Spent / Count.

-spec since_us(integer()) -> float().
since_us(Started) ->
    Elapsed = erlang:monotonic_time() - Started,
    erlang:convert_time_unit(Elapsed, native, nanosecond) / 1.0e3.

%% A failure of one step does not affect the next.
-spec guarded(fun(() -> Result)) -> {ok, Result} | {failed, binary()}.
guarded(Work) ->
    cluster:guarded(?STEP_MS, Work).

%% ------------------------------------------------------ part: nodes -------

-spec steps() -> [step()].
steps() ->
    [echo_pid, echo_name, erpc, rpc, monitor, global, pg, add_node].

-spec operations(step()) -> [atom()].
operations(global) ->
    [global_register, global_whereis, global_unregister];
operations(pg) ->
    [pg_join, pg_join_everywhere, pg_members, pg_leave];
operations(add_node) ->
    [add_node, add_node_meshed];
operations(Step) ->
    [Step].

%% Grows the cluster to Count peers and measures with them.
-spec nodes(non_neg_integer(), [cluster:member()], map()) ->
    [cluster:member()].
nodes(Count, Members, Plan) ->
    Names = [
        "n" ++ integer_to_list(N)
     || N <- lists:seq(length(Members) + 1, Count)
    ],
    case cluster:start(Names, cluster:one_thread(), "e3") of
        {ok, Added} ->
            Grown = Members ++ Added,
            case guarded(fun() -> ready(Grown, Added) end) of
                {ok, ok} -> rounds(Count, Grown, Plan);
                {failed, Reason} -> failed(Count, Reason)
            end,
            Grown;
        {error, Reason} ->
            failed(Count, text(Reason)),
            Members
    end.

-spec ready([cluster:member()], [cluster:member()]) -> ok.
ready(Members, Added) ->
    Answers = erpc:multicall(cluster:nodes_of(Added), ?MODULE, serve, []),
    true = lists:all(fun(Answer) -> Answer =:= {ok, ok} end, Answers),
    cluster:await_mesh(Members).

-spec failed(non_neg_integer(), binary()) -> ok.
failed(Count, Reason) ->
    Operations = lists:flatmap(fun operations/1, steps()),
    lists:foreach(
        fun(Operation) -> cell(Count, Operation, {failed, Reason}) end,
        Operations
    ).

%% The steps are interleaved, round by round.
-spec rounds(non_neg_integer(), [cluster:member()], map()) -> ok.
rounds(Count, Members, #{rounds := Rounds} = Plan) ->
    %% The first round warms up and is not counted.
    Samples = [
        {Step, Round, guarded(fun() -> step(Step, Members, Plan) end)}
     || Round <- lists:seq(0, Rounds),
        ok =:= io:format("e3: ~b nodes, round ~b~n", [Count, Round]),
        Step <- steps()
    ],
    lists:foreach(
        fun(Step) ->
            Found = [Sample || {S, R, Sample} <- Samples, S =:= Step, R > 0],
            lists:foreach(
                fun(Operation) -> cell(Count, Operation, Found) end,
                operations(Step)
            )
        end,
        steps()
    ).

-spec cell(
    non_neg_integer(), atom(),
    {failed, binary()} | [{ok, sample()} | {failed, binary()}]
) -> ok.
cell(Count, Operation, Found) ->
    Named = #{part => nodes, nodes => Count, operation => Operation},
    print(maps:merge(Named, figures(Operation, Found))).

-spec figures(
    atom(), {failed, binary()} | [{ok, sample()} | {failed, binary()}]
) -> map().
figures(_Operation, {failed, Reason}) ->
    #{failed => Reason};
figures(Operation, Found) ->
    case lists:keyfind(failed, 1, Found) of
        {failed, Reason} ->
            #{failed => Reason};
        false ->
            Pairs = [maps:get(Operation, Sample) || {ok, Sample} <- Found],
            {Us, CpuUs} = lists:unzip(Pairs),
            #{us_per_operation => Us, cpu_us_per_operation => CpuUs}
    end.

-spec step(step(), [cluster:member()], map()) -> sample().
step(echo_pid, Members, #{echoes := Echoes}) ->
    Servers = [echo_server(Node) || Node <- targets(Members)],
    #{echo_pid => timed(Members, Echoes, fun() ->
        echoes(list_to_tuple(Servers), Echoes)
    end)};
step(echo_name, Members, #{echoes := Echoes}) ->
    Servers = [{e3_echo, Node} || Node <- targets(Members)],
    #{echo_name => timed(Members, Echoes, fun() ->
        echoes(list_to_tuple(Servers), Echoes)
    end)};
step(erpc, Members, #{calls := Calls}) ->
    Nodes = list_to_tuple(targets(Members)),
    #{erpc => timed(Members, Calls, fun() -> erpcs(Nodes, Calls) end)};
step(rpc, Members, #{calls := Calls}) ->
    Nodes = list_to_tuple(targets(Members)),
    #{rpc => timed(Members, Calls, fun() ->
        Keys = [
            rpc:async_call(pick(N, Nodes), erlang, node, [])
         || N <- lists:seq(1, Calls)
        ],
        lists:foreach(fun(Key) -> true = is_atom(rpc:yield(Key)) end, Keys)
    end)};
step(monitor, Members, #{processes := Processes}) ->
    Victims = victims(targets(Members), Processes),
    #{monitor => timed(Members, length(Victims), fun() ->
        lists:foreach(fun(Pid) -> monitor(process, Pid) end, Victims),
        lists:foreach(fun(Pid) -> exit(Pid, kill) end, Victims),
        lists:foreach(
            fun(_) -> receive {'DOWN', _, process, _, killed} -> ok end end,
            Victims
        )
    end)};
step(global, Members, #{names := Count}) ->
    Names = [{{?MODULE, N}, Pid} || {N, Pid} <- lists:enumerate(idle(Count))],
    Registered = timed(Members, Count, fun() ->
        [yes = global:register_name(Name, Pid) || {Name, Pid} <- Names]
    end),
    Found = timed(Members, Count * ?PASSES, fun() ->
        [Pid = global:whereis_name(N) || _ <- passes(), {N, Pid} <- Names]
    end),
    Unregistered = timed(Members, Count, fun() ->
        [global:unregister_name(Name) || {Name, _} <- Names]
    end),
    lists:foreach(fun({_, Pid}) -> exit(Pid, kill) end, Names),
    #{
        global_register => Registered,
        global_whereis => Found,
        global_unregister => Unregistered
    };
step(pg, Members, #{names := Count}) ->
    Self = self(),
    Groups = [{?MODULE, N} || N <- lists:seq(1, Count)],
    Last = lists:last(Groups),
    Watchers = [
        spawn(Node, ?MODULE, watch, [Self, Last])
     || Node <- cluster:nodes_of(Members)
    ],
    [receive {watching, Watcher} -> ok end || Watcher <- Watchers],
    Started = erlang:monotonic_time(),
    [ok = pg:join(Group, Self) || Group <- Groups],
    Joined = since_us(Started) / Count,
    [receive {seen, Watcher} -> ok end || Watcher <- Watchers],
    Everywhere = since_us(Started) / Count,
    Found = timed(Members, Count * ?PASSES, fun() ->
        [[Self] = pg:get_members(Group) || _ <- passes(), Group <- Groups]
    end),
    Left = timed(Members, Count, fun() ->
        [ok = pg:leave(Group, Self) || Group <- Groups]
    end),
    #{
        pg_join => {Joined, null},
        pg_join_everywhere => {Everywhere, null},
        pg_members => Found,
        pg_leave => Left
    };
step(add_node, Members, _Plan) ->
    Name = "added" ++ integer_to_list(erlang:unique_integer([positive])),
    Cpu = cluster:cpu_us(Members),
    Started = erlang:monotonic_time(),
    {ok, Added} = cluster:start([Name], cluster:one_thread(), "e3"),
    Connected = since_us(Started),
    CpuThen = cluster:cpu_us(Members ++ Added) - Cpu,
    try
        ok = cluster:await_mesh(Members ++ Added),
        Meshed = since_us(Started),
        CpuMeshed = cluster:cpu_us(Members ++ Added) - Cpu,
        #{
            add_node => {Connected, cpu_us(CpuThen, 1)},
            add_node_meshed => {Meshed, cpu_us(CpuMeshed, 1)}
        }
    after
        ok = cluster:stop(Added),
        ok = cluster:await_mesh(Members)
    end.

-spec passes() -> [pos_integer()].
passes() ->
    lists:seq(1, ?PASSES).

%% The other nodes; this node if there are none, as in the published run.
-spec targets([cluster:member()]) -> [node()].
targets([]) -> [node()];
targets(Members) -> cluster:nodes_of(Members).

-spec pick(pos_integer(), tuple()) -> term().
pick(N, Targets) ->
    element(N rem tuple_size(Targets) + 1, Targets).

%% Processes on all nodes, in random order.
-spec victims([node()], pos_integer()) -> [pid()].
victims(Nodes, Count) ->
    Share = max(1, Count div length(Nodes)),
    Answers = erpc:multicall(Nodes, ?MODULE, idle, [Share]),
    Pids = lists:append([Pids || {ok, Pids} <- Answers]),
    [Pid || {_, Pid} <- lists:sort([{rand:uniform(), Pid} || Pid <- Pids])].

-spec echo_server(node()) -> pid().
echo_server(Node) ->
    erpc:call(Node, erlang, whereis, [e3_echo]).

-spec echoes(tuple(), pos_integer()) -> ok.
echoes(Servers, Count) ->
    Self = self(),
    lists:foreach(
        fun(N) -> pick(N, Servers) ! {Self, N} end, lists:seq(1, Count)
    ),
    lists:foreach(
        fun(_) -> receive N when is_integer(N) -> ok end end,
        lists:seq(1, Count)
    ).

-spec erpcs(tuple(), pos_integer()) -> ok.
erpcs(Nodes, Count) ->
    Requests = lists:foldl(
        fun(N, Requests) ->
            Node = pick(N, Nodes),
            erpc:send_request(Node, erlang, node, [], N, Requests)
        end,
        erpc:reqids_new(),
        lists:seq(1, Count)
    ),
    erpcs(Requests).

-spec erpcs(erpc:request_id_collection()) -> ok.
erpcs(Requests) ->
    case erpc:receive_response(Requests, infinity, true) of
        {Node, _Label, Left} when is_atom(Node) -> erpcs(Left);
        no_request -> ok
    end.

%% --------------------------------------------------- part: scale-up -------

-spec scale_up(pos_integer(), [pos_integer()], map()) -> ok.
scale_up(Clients, Schedulers, Plan) ->
    Most = integer_to_list(lists:max(Schedulers)),
    Names = ["c" ++ integer_to_list(N) || N <- lists:seq(1, Clients)],
    Todana = ["-pa", filename:dirname(code:which(todana))],
    Flags = ["+S", Most ++ ":" ++ Most | Todana],
    ClientFlags = cluster:one_thread() ++ Todana,
    case cluster:start(["server"], Flags, "e3, server") of
        {ok, Server} ->
            case cluster:start(Names, ClientFlags, "e3, clients") of
                {ok, Members} ->
                    ok = open(Clients, Server, Members, Plan),
                    scale_up(Clients, Server, Members, Schedulers, Plan),
                    ok = cluster:stop(Members);
                {error, Reason} ->
                    no_scale_up(Clients, Schedulers, text(Reason))
            end,
            ok = cluster:stop(Server);
        {error, Reason} ->
            no_scale_up(Clients, Schedulers, text(Reason))
    end.

-spec no_scale_up(pos_integer(), [pos_integer()], binary()) -> ok.
no_scale_up(Clients, Schedulers, Reason) ->
    _ = [
        scale_up_cell(Online, Clients, Operation, {failed, Reason})
     || Online <- Schedulers, Operation <- scale_up_operations()
    ],
    ok.

-spec scale_up_operations() -> [atom()].
scale_up_operations() ->
    [echo_many, echo_one, erpc, rpc_one_process, todana_get].

%% The server becomes a member, and the clients its guests. If that fails, so do
%% their reads.
-spec open(
    pos_integer(), [cluster:member()], [cluster:member()], map()
) -> ok.
open(Clients, Server, Members, #{place := Place}) ->
    [Node] = cluster:nodes_of(Server),
    Directory = filename:join(Place, integer_to_list(Clients)),
    Guest = [{cluster_join, atom_to_list(Node)}, {no_replica, "yes"}],
    Opened = guarded(fun() ->
        Create = [{cluster_create, "yes"}],
        ok = todana_nodes:begin_on(Node, Directory, Create),
        ok = erpc:call(Node, ?MODULE, fill, [], ?OPEN_MS),
        [
            ok = todana_nodes:begin_on(M, "off", Guest)
         || M <- cluster:nodes_of(Members)
        ]
    end),
    case Opened of
        {ok, _} -> ok;
        {failed, Reason} -> io:format("e3: no todana_get: ~ts~n", [Reason])
    end.

-spec scale_up(
    pos_integer(), [cluster:member()], [cluster:member()], [pos_integer()],
    map()
) -> ok.
scale_up(Clients, Server, Members, Schedulers, #{rounds := Rounds} = Plan) ->
    %% The first round warms up and is not counted.
    Samples = [
        {{Online, Operation}, Round, guarded(fun() ->
            load(Operation, Online, Server, Members, Plan)
        end)}
     || Round <- lists:seq(0, Rounds),
        ok =:= io:format("e3: ~b clients, round ~b~n", [Clients, Round]),
        Online <- Schedulers,
        Operation <- scale_up_operations()
    ],
    lists:foreach(
        fun({Online, Operation}) ->
            Found = [
                Sample
             || {Cell, Round, Sample} <- Samples,
                Cell =:= {Online, Operation}, Round > 0
            ],
            scale_up_cell(Online, Clients, Operation, Found)
        end,
        [{S, O} || S <- Schedulers, O <- scale_up_operations()]
    ).

-spec scale_up_cell(
    pos_integer(), pos_integer(), atom(),
    {failed, binary()} | [{ok, sample()} | {failed, binary()}]
) -> ok.
scale_up_cell(Online, Clients, Operation, Found) ->
    Named = #{
        part => scale_up,
        schedulers => Online,
        clients => Clients,
        operation => Operation
    },
    print(maps:merge(Named, figures(Operation, Found))).

-spec load(
    atom(), pos_integer(), [cluster:member()], [cluster:member()], map()
) -> sample().
load(Operation, Online, Server, Members, #{operations := Operations}) ->
    [Node] = cluster:nodes_of(Server),
    _ = erpc:call(Node, erlang, system_flag, [schedulers_online, Online]),
    Echoes = case Operation of
        echo_many -> 4 * Online;
        echo_one -> 1;
        _ -> 0
    end,
    Servers = [
        spawn_link(Node, ?MODULE, echo, [])
     || _ <- lists:seq(1, Echoes)
    ],
    Share = Operations div length(Members),
    Arguments = [Operation, Node, list_to_tuple(Servers), Share],
    Nodes = cluster:nodes_of(Members),
    Sample = timed(Server ++ Members, Share * length(Members), fun() ->
        Answers = erpc:multicall(Nodes, ?MODULE, work, Arguments),
        true = lists:all(fun(Answer) -> Answer =:= {ok, ok} end, Answers)
    end),
    lists:foreach(
        fun(Pid) -> unlink(Pid), exit(Pid, kill) end, Servers
    ),
    #{Operation => Sample}.

%% The work of a client node.
-spec work(atom(), node(), tuple(), pos_integer()) -> ok.
work(erpc, Node, _Servers, Count) ->
    erpcs({Node}, Count);
work(rpc_one_process, Node, _Servers, Count) ->
    Request = {call, erlang, node, [], group_leader()},
    Requests = lists:foldl(
        fun(N, Requests) ->
            gen_server:send_request({rex, Node}, Request, N, Requests)
        end,
        gen_server:reqids_new(),
        lists:seq(1, Count)
    ),
    responses(Node, Requests);
work(todana_get, _Node, _Servers, Count) ->
    {ok, Table} = todana:open(?TABLE, #{durable => true, codec => term}),
    Readers = min(Count, ?READERS),
    Started = [
        spawn_monitor(fun() -> read(Table, First, Readers, Count) end)
     || First <- lists:seq(1, Readers)
    ],
    lists:foreach(
        fun({Pid, Monitor}) ->
            receive {'DOWN', Monitor, process, Pid, normal} -> ok end
        end,
        Started
    );
work(_Echo, _Node, Servers, Count) ->
    echoes(Servers, Count).

-spec read(todana:table(), pos_integer(), pos_integer(), integer()) -> ok.
read(_Table, N, _Step, Last) when N > Last ->
    ok;
read(Table, N, Step, Last) ->
    Key = N rem ?KEYS,
    {ok, Key} = todana:get(Table, Key),
    read(Table, N + Step, Step, Last).

-spec responses(node(), gen_server:request_id_collection()) -> ok.
responses(Node, Requests) ->
    case gen_server:receive_response(Requests, infinity, true) of
        {{reply, Node}, _Label, Left} -> responses(Node, Left);
        no_request -> ok
    end.

%% ------------------------------------------------------ on the peers ------

%% Starts the processes that each node has, the measuring one included: an echo
%% server and pg's default scope. They belong to the node, not to the caller.
-spec serve() -> ok.
serve() ->
    true = register(e3_echo, spawn(fun echo/0)),
    case pg:start(pg) of
        {ok, _} -> ok;
        {error, {already_started, _}} -> ok
    end.

%% The records that clients read.
-spec fill() -> ok.
fill() ->
    ok = todana_nodes:await_ready(fun todana_nodes:is_serving/0, ?OPEN_MS),
    {ok, Table} = todana:open(?TABLE, #{durable => true, codec => term}),
    todana:put_many(Table, [{Key, Key} || Key <- lists:seq(0, ?KEYS - 1)]).

-spec echo() -> no_return().
echo() ->
    receive
        {From, Message} -> From ! Message
    end,
    echo().

-spec idle(pos_integer()) -> [pid()].
idle(Count) ->
    [spawn(fun() -> receive stop -> ok end end) || _ <- lists:seq(1, Count)].

%% Reports when a group has its first member.
-spec watch(pid(), term()) -> ok.
watch(Parent, Group) ->
    Monitor = monitor(process, Parent),
    {Ref, []} = pg:monitor(Group),
    Parent ! {watching, self()},
    receive
        {Ref, join, Group, _} -> Parent ! {seen, self()}, ok;
        {'DOWN', Monitor, process, Parent, _} -> ok
    end.
