%% E3, names and groups: what registrations, joins and look-ups cost as the
%% cluster grows, by `global', by `pg' and in a cluster scope of Todana.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -hidden -pa EBIN -run e3_names main NODES NAMES DEATHS ROUNDS
%%         IDLE_MS CLUSTERS DISK MEMORY
%% This node is hidden, so that it belongs to no cluster: a count of nodes is
%% that of the whole cluster. The first three nodes are members, all others
%% guests; one node is a member alone. CLUSTERS, with commas, are measured in
%% the same rounds:
%%     mesh-disk    all nodes are connected, the logs are below DISK
%%     mesh-memory  the same, the logs are below MEMORY
%%     star-disk    guests are connected to members only
%% `global' and `pg' need a mesh and are measured in both, at their best
%% settings: no node acts against partitions, and all groups are in one scope.
%%
%% Prints a line of JSON for each cell: cluster, arm, the node `at' which it
%% operates, and operation, with a figure for each round: us_per_operation and,
%% if nodes had to do something, cpu_us_per_operation, messages_per_operation
%% and bytes_per_operation of all nodes together, until they are idle again,
%% without what the idle cluster uses in the same time. That is in the
%% cells `idle', for each second. A failure prints {"failed": Reason}.
%%
%%     register, unregister  names of as many processes, one after another
%%     whereis_first         the first look-up of each name at another node
%%     whereis               each look-up after that
%%     death                 from the end of a process until another node finds
%%                           its name free; looks once a millisecond
%%     deaths                the same of many processes that end at once
%%     join, leave           groups of one process, one after another
%%     join_everywhere       until a process on every node, which monitors the
%%                           last group, has got the message
%%     members_first, members
%%     call                  erpc:call/4 from a guest to the member that serves
%%                           it, one after another
-module(e3_names).

-export([main/1]).

-type at() :: node | guest | member.
-type group() :: #{
    name := string(), mesh := boolean(), log := disk | memory,
    nodes := [cluster:member()], members := [node()], guests := [node()]
}.
%% Names or groups of a node of this kind, which another one looks up.
-type step() ::
    idle | call | {names | groups | everywhere, e3_scopes:arm(), at()}.
-type arm() :: e3_scopes:arm() | erpc | all.
-type operation() :: {arm(), at(), atom()}.
-type figures() :: #{atom() => number()}.
-type sample() :: #{operation() => figures()}.
-type result() :: {ok, sample()} | {failed, binary()}.

%% All others are guests.
-define(MEMBERS, 3).
-define(STEP_MS, 300_000).
-define(POLL_MS, 20).
%% Nodes are idle again when they use this much of the CPU time of an idle
%% cluster, and some for the measurement itself.
-define(IDLE_TIMES, 1.5).
-define(IDLE_NS, 2_000_000).
-define(SETTLE_MS, 5_000).
%% Looks up known names so often.
-define(PASSES, 100).

-spec main([string()]) -> no_return().
main([Nodes, Names, Deaths, Rounds, IdleMs, Clusters, Disk, Memory]) ->
    Plan = #{
        nodes => list_to_integer(Nodes),
        names => list_to_integer(Names),
        deaths => list_to_integer(Deaths),
        rounds => list_to_integer(Rounds),
        idle_ms => list_to_integer(IdleMs),
        disk => Disk,
        memory => Memory
    },
    Chosen = string:lexemes(Clusters, ","),
    case guarded(fun() -> [boot(Name, Plan) || Name <- Chosen] end) of
        {ok, Booted} -> rounds(Booted, Plan);
        {failed, Reason} -> [no_cluster(Name, Plan, Reason) || Name <- Chosen]
    end,
    %% The nodes end with this one.
    halt(0).

-spec print(map()) -> ok.
print(Cell) ->
    io:put_chars([json:encode(Cell), $\n]).

%% A failure of one step does not affect the next.
-spec guarded(fun(() -> Result)) -> {ok, Result} | {failed, binary()}.
guarded(Work) ->
    cluster:guarded(?STEP_MS, Work).

%% Calls a function of e3_scopes on a node.
-spec on(node(), atom(), [term()]) -> term().
on(Node, Function, Arguments) ->
    erpc:call(Node, e3_scopes, Function, Arguments, ?STEP_MS).

%% ---------------------------------------------------------- the clusters ---

-spec boot(string(), map()) -> group().
boot(Name, #{nodes := Count} = Plan) ->
    [Shape, Log] = string:lexemes(Name, "-"),
    Code = filename:dirname(code:which(todana)),
    Mesh = case Shape of
        "mesh" -> [];
        "star" -> ["-connect_all", "false"]
    end,
    Names = [
        lists:concat([Shape, "_", Log, "_", N]) || N <- lists:seq(1, Count)
    ],
    Flags = cluster:one_thread() ++ ["-pa", Code | Mesh],
    {ok, Started} = cluster:start(Names, Flags, "e3, " ++ Name),
    %% The order of their starts is another one.
    Nodes = lists:sort(fun(A, B) -> number(A) =< number(B) end, Started),
    {Members, Guests} = lists:split(
        min(?MEMBERS, Count), cluster:nodes_of(Nodes)
    ),
    Cluster = #{
        name => Name, mesh => Shape =:= "mesh",
        log => list_to_existing_atom(Log), nodes => Nodes,
        members => Members, guests => Guests
    },
    ok = begin_cluster(Cluster, maps:get(list_to_existing_atom(Log), Plan)),
    ok = io:format("e3, ~ts: names and groups are open~n", [Name]),
    Cluster.

-spec number(cluster:member()) -> integer().
number(#{node := Node}) ->
    [Name, _Host] = string:lexemes(atom_to_list(Node), "@"),
    list_to_integer(lists:last(string:lexemes(Name, "_"))).

-spec begin_cluster(group(), string()) -> ok.
begin_cluster(Cluster, Place) ->
    #{members := [First | Others] = Members, guests := Guests} = Cluster,
    ok = todana_nodes:form(Members, Place),
    AsGuest = [{cluster_join, atom_to_list(First)}, {no_replica, "yes"}],
    cluster:some_at_once(Guests, fun(Guest) ->
        ok = todana_nodes:begin_on(Guest, "off", AsGuest)
    end),
    case Cluster of
        #{mesh := true} ->
            [
                true = erpc:call(Node, net_kernel, connect_node, [First])
             || Node <- Others ++ Guests
            ],
            ok = cluster:await_mesh_of(Members ++ Guests);
        #{mesh := false} ->
            ok
    end,
    cluster:some_at_once(Members ++ Guests, fun(Node) ->
        ok = on(Node, open, [])
    end).

%% ---------------------------------------------------------------- rounds ---

%% Clusters and steps are interleaved, round by round. The first round warms up
%% and is not counted.
-spec rounds([group()], map()) -> ok.
rounds(Clusters, #{rounds := Rounds, nodes := Nodes} = Plan) ->
    Samples = [
        {Name, Step, Sample}
     || Round <- lists:seq(0, Rounds),
        ok =:= io:format("e3: ~b nodes, names, round ~b~n", [Nodes, Round]),
        #{name := Name} = Cluster <- Clusters,
        {Step, Sample} <- played(Cluster, Round, Plan),
        Round > 0
    ],
    [
        print(maps:merge(
            described(Name, Plan, Operation),
            figures(Operation, [
                Sample
             || {At, Done, Sample} <- Samples, At =:= Name, Done =:= Step
            ])
        ))
     || #{name := Name} = Cluster <- Clusters,
        Step <- [idle | steps(Cluster)],
        Operation <- operations(Step, Cluster)
    ],
    ok.

-spec played(group(), non_neg_integer(), map()) -> [{step(), result()}].
played(Cluster, Round, Plan) ->
    case guarded(fun() -> idle(Cluster, Plan) end) of
        {ok, #{{all, node, idle} := Rates}} = Idle ->
            Known = Cluster#{idle => Rates},
            [{idle, Idle}] ++
                [
                    {Step, guarded(fun() -> step(Step, Known, Round, Plan) end)}
                 || Step <- steps(Cluster)
                ];
        Failed ->
            [{Step, Failed} || Step <- [idle | steps(Cluster)]]
    end.

%% Only a mesh has the baselines.
-spec steps(group()) -> [step()].
steps(#{mesh := true} = Cluster) ->
    [
        {names, global, node}, {groups, pg, node}, {everywhere, pg, node}
        | own_steps(Cluster)
    ];
steps(Cluster) ->
    own_steps(Cluster).

-spec own_steps(group()) -> [step()].
own_steps(#{guests := []}) ->
    own_steps_at(member);
own_steps(_Cluster) ->
    [call | own_steps_at(guest) ++ own_steps_at(member)].

-spec own_steps_at(at()) -> [step()].
own_steps_at(At) ->
    [{names, todana, At}, {groups, todana, At}, {everywhere, todana, At}].

-spec operations(step(), group()) -> [operation()].
operations(idle, _Cluster) ->
    [{all, node, idle}];
operations(call, _Cluster) ->
    [{erpc, guest, call}];
operations({names, Arm, At}, Cluster) ->
    {_, Looker, _} = way(At, Cluster),
    [
        {Arm, At, register}, {Arm, At, unregister}, {Arm, At, death},
        {Arm, At, deaths}, {Arm, Looker, whereis_first}, {Arm, Looker, whereis}
    ];
operations({groups, Arm, At}, Cluster) ->
    {_, Looker, _} = way(At, Cluster),
    [
        {Arm, At, join}, {Arm, At, leave}, {Arm, Looker, members_first},
        {Arm, Looker, members}
    ];
operations({everywhere, Arm, At}, _Cluster) ->
    [{Arm, At, join_everywhere}].

%% The owner of names or groups, and where they are looked up. `global' and `pg'
%% have one kind of node; the owner is a guest of Todana there.
-spec way(at(), group()) -> {node(), at(), node()}.
way(At, #{members := [Only], guests := []}) ->
    {Only, At, Only};
way(member, Cluster) ->
    {member_of(Cluster), guest, guest_of(Cluster)};
way(guest, Cluster) ->
    {guest_of(Cluster), member, member_of(Cluster)};
way(node, Cluster) ->
    {guest_of(Cluster), node, member_of(Cluster)}.

-spec guest_of(group()) -> node().
guest_of(#{guests := Guests}) -> lists:last(Guests).

%% A member that does not lead: a write takes one message more there.
-spec member_of(group()) -> node().
member_of(#{members := [First | _] = Members}) ->
    Leader = erpc:call(First, todana_members, leader, [0]),
    hd(Members -- [Leader]).

-spec described(string(), map(), operation()) -> map().
described(Name, #{nodes := Nodes}, {Arm, At, Operation}) ->
    [Shape, Log] = string:lexemes(Name, "-"),
    Members = min(?MEMBERS, Nodes),
    #{
        part => names, nodes => Nodes, members => Members,
        guests => Nodes - Members, mesh => Shape =:= "mesh",
        log => list_to_binary(Log), arm => Arm, at => At,
        operation => Operation
    }.

-spec no_cluster(string(), map(), binary()) -> ok.
no_cluster(Name, Plan, Reason) ->
    Cell = described(Name, Plan, {all, node, idle}),
    print(Cell#{failed => Reason}).

-spec figures(operation(), [result()]) -> map().
figures(Operation, Found) ->
    case lists:keyfind(failed, 1, Found) of
        {failed, Reason} ->
            #{failed => Reason};
        false ->
            Samples = [maps:get(Operation, Sample) || {ok, Sample} <- Found],
            #{
                Figure => [rounded(maps:get(Figure, Each)) || Each <- Samples]
             || Figure <- maps:keys(hd(Samples))
            }
    end.

-spec rounded(number()) -> number().
rounded(Figure) when is_integer(Figure) -> Figure;
rounded(Figure) -> round(Figure * 1.0e4) / 1.0e4.

%% ----------------------------------------------------------------- steps ---

%% What the cluster uses when nobody uses it.
-spec idle(group(), map()) -> sample().
idle(#{nodes := Nodes}, #{idle_ms := IdleMs}) ->
    Before = used(Nodes),
    timer:sleep(IdleMs),
    {Seconds, Cpu, Messages, Bytes} = since(Before, Nodes),
    {_, _, Ends} = cluster:traffic(Nodes),
    #{{all, node, idle} => #{
        cpu_us_per_second => Cpu / Seconds,
        messages_per_second => Messages / Seconds,
        bytes_per_second => Bytes / Seconds,
        connections => Ends div 2,
        pss_mib => cluster:pss_kib(Nodes) / 1024
    }}.

-spec step(step(), group(), non_neg_integer(), map()) -> sample().
step(call, Cluster, _Round, #{names := Count}) ->
    Guest = guest_of(Cluster),
    Seat = erpc:call(Guest, todana_guest, seat, []),
    {Called, ok} = window(Cluster, Count, fun() ->
        on(Guest, call, [Seat, Count])
    end),
    #{{erpc, guest, call} => Called};
step({names, Arm, At}, Cluster, Round, #{names := Count} = Plan) ->
    {Owner, LookerAt, Looker} = way(At, Cluster),
    Of = fun(What, Many) ->
        on(Owner, register, [Arm, {What, At, Round}, Many])
    end,
    {Registered, Names} = window(Cluster, Count, fun() -> Of(name, Count) end),
    %% Names that are registered later are known later.
    {_, [{Last, LastPid}] = Marker} = Of(marker, 1),
    ok = on(Looker, await_name, [Arm, Last, LastPid]),
    {First, ok} = window(Cluster, Count, fun() ->
        on(Looker, whereis, [Arm, Names, 1])
    end),
    {NextUs, ok} = on(Looker, whereis, [Arm, Names, ?PASSES]),
    {Unregistered, ok} = window(Cluster, Count, fun() ->
        on(Owner, unregister, [Arm, Names])
    end),
    ok = on(Owner, kill, [Marker ++ Names]),
    #{
        {Arm, At, register} => Registered,
        {Arm, LookerAt, whereis_first} => First,
        {Arm, LookerAt, whereis} => #{
            us_per_operation => NextUs / Count / ?PASSES
        },
        {Arm, At, unregister} => Unregistered,
        {Arm, At, death} => death(Arm, Of, Looker, Plan),
        {Arm, At, deaths} => deaths(Arm, Of, Owner, Looker, Cluster, Count)
    };
step({groups, Arm, At}, Cluster, Round, #{names := Count}) ->
    {Owner, LookerAt, Looker} = way(At, Cluster),
    Of = fun(What, Many) ->
        on(Owner, join, [Arm, {What, At, Round}, Many])
    end,
    {Joined, Groups} = window(Cluster, Count, fun() -> Of(group, Count) end),
    {_, [Last] = Marker} = Of(marker, 1),
    ok = on(Looker, await_member, [Arm, Last]),
    {First, ok} = window(Cluster, Count, fun() ->
        on(Looker, members, [Arm, Groups, 1])
    end),
    {NextUs, ok} = on(Looker, members, [Arm, Groups, ?PASSES]),
    {Left, ok} = window(Cluster, Count, fun() ->
        on(Owner, leave, [Arm, Groups])
    end),
    ok = on(Owner, kill, [Marker ++ Groups]),
    #{
        {Arm, At, join} => Joined,
        {Arm, LookerAt, members_first} => First,
        {Arm, LookerAt, members} => #{
            us_per_operation => NextUs / Count / ?PASSES
        },
        {Arm, At, leave} => Left
    };
step({everywhere, Arm, At}, Cluster, Round, #{names := Count}) ->
    {Owner, _, _} = way(At, Cluster),
    {Us, Seen} = everywhere(Arm, {seen, At, Round}, Count, Owner, Cluster),
    {_, ok} = on(Owner, leave, [Arm, Seen]),
    ok = on(Owner, kill, [Seen]),
    #{{Arm, At, join_everywhere} => #{us_per_operation => Us / Count}}.

%% Processes that end one after another. Nothing else is measured, because it
%% costs CPU time to look.
-spec death(
    e3_scopes:arm(), fun((atom(), pos_integer()) -> term()), node(), map()
) -> figures().
death(Arm, Of, Looker, #{deaths := Count}) ->
    {_, Names} = Of(mortal, Count),
    {Last, LastPid} = lists:last(Names),
    ok = on(Looker, await_name, [Arm, Last, LastPid]),
    Us = [
        begin
            Arguments = [Arm, Name],
            Asked = erpc:send_request(
                Looker, e3_scopes, await_free, Arguments
            ),
            timer:sleep(?POLL_MS),
            Killed = os:perf_counter(),
            exit(Pid, kill),
            Freed = erpc:receive_response(Asked, ?STEP_MS),
            perf_us(Killed, Freed)
        end
     || {Name, Pid} <- Names
    ],
    #{us_per_operation => lists:sum(Us) / Count}.

-spec deaths(
    e3_scopes:arm(), fun((atom(), pos_integer()) -> term()), node(), node(),
    group(), pos_integer()
) -> figures().
deaths(Arm, Of, Owner, Looker, Cluster, Count) ->
    {_, Names} = Of(mortals, Count),
    {Last, LastPid} = lists:last(Names),
    ok = on(Looker, await_name, [Arm, Last, LastPid]),
    {Died, ok} = window(Cluster, Count, fun() ->
        Killed = os:perf_counter(),
        ok = on(Owner, kill, [Names]),
        Freed = on(Looker, await_all_free, [Arm, Names]),
        {perf_us(Killed, Freed), ok}
    end),
    Died.

-spec perf_us(integer(), integer()) -> float().
perf_us(Started, Ended) ->
    erlang:convert_time_unit(Ended - Started, perf_counter, nanosecond)
        / 1.0e3.

%% Until all nodes know, by the clock of this node, to which they report.
-spec everywhere(
    e3_scopes:arm(), Prefix :: term(), pos_integer(), node(), group()
) -> {float(), e3_scopes:owned()}.
everywhere(Arm, Prefix, Count, Owner, Cluster) ->
    #{members := Members, guests := Guests} = Cluster,
    Self = self(),
    Watchers = [
        spawn(Node, e3_scopes, watch, [Arm, Self, {Prefix, Count}])
     || Node <- Members ++ Guests
    ],
    Monitors = [{Pid, monitor(process, Pid)} || Pid <- Watchers],
    ok = all_say(watching, Monitors),
    Started = os:perf_counter(),
    {_, Joined} = on(Owner, join, [Arm, Prefix, Count]),
    ok = all_say(seen, Monitors),
    {perf_us(Started, os:perf_counter()), Joined}.

-spec all_say(watching | seen, [{pid(), reference()}]) -> ok.
all_say(Word, Monitors) ->
    lists:foreach(
        fun({Pid, Monitor}) ->
            receive
                {Word, Pid} -> ok;
                {'DOWN', Monitor, _, _, Reason} -> error({Word, Reason})
            end
        end,
        Monitors
    ).

%% --------------------------------------------------------------- figures ---

%% Does some work, which returns the time that it took and a result, and waits
%% until the nodes are idle again.
-spec window(group(), pos_integer(), fun(() -> {float(), Result})) ->
    {figures(), Result}.
window(#{nodes := Nodes, idle := Idle}, Count, Work) ->
    #{
        cpu_us_per_second := IdleUs, messages_per_second := IdleMessages,
        bytes_per_second := IdleBytes
    } = Idle,
    Before = used(Nodes),
    {Us, Result} = Work(),
    ok = settled(Nodes, IdleUs),
    {Seconds, CpuUs, Messages, Bytes} = since(Before, Nodes),
    Beyond = fun(Used, PerSecond) ->
        max(0.0, Used - Seconds * PerSecond) / Count
    end,
    {#{
        us_per_operation => Us / Count,
        cpu_us_per_operation => Beyond(CpuUs, IdleUs),
        messages_per_operation => Beyond(Messages, IdleMessages),
        bytes_per_operation => Beyond(Bytes, IdleBytes)
    }, Result}.

%% CPU time is read last, and first afterwards: what the nodes do to report
%% their messages is no part of it.
-spec used([cluster:member()]) -> tuple().
used(Nodes) ->
    {Messages, Bytes, _} = cluster:traffic(Nodes),
    CpuNs = cluster:threads_ns(Nodes),
    {erlang:monotonic_time(), CpuNs, Messages, Bytes}.

-spec since(tuple(), [cluster:member()]) ->
    {float(), float(), integer(), integer()}.
since({Started, CpuNs, Messages, Bytes}, Nodes) ->
    UsedNs = cluster:threads_ns(Nodes) - CpuNs,
    Elapsed = erlang:monotonic_time() - Started,
    {AllMessages, AllBytes, _} = cluster:traffic(Nodes),
    {
        erlang:convert_time_unit(Elapsed, native, microsecond) / 1.0e6,
        UsedNs / 1.0e3, AllMessages - Messages, AllBytes - Bytes
    }.

-spec settled([cluster:member()], float()) -> ok.
settled(Nodes, IdleUs) ->
    DeadlineMs = erlang:monotonic_time(millisecond) + ?SETTLE_MS,
    settled(Nodes, IdleUs, cluster:threads_ns(Nodes), DeadlineMs).

-spec settled([cluster:member()], float(), integer(), integer()) -> ok.
settled(Nodes, IdleUs, CpuNs, DeadlineMs) ->
    Started = erlang:monotonic_time(),
    timer:sleep(?POLL_MS),
    Now = cluster:threads_ns(Nodes),
    Elapsed = erlang:monotonic_time() - Started,
    Ms = erlang:convert_time_unit(Elapsed, native, microsecond) / 1.0e3,
    IsIdle = Now - CpuNs < IdleUs * Ms * ?IDLE_TIMES + ?IDLE_NS,
    case IsIdle orelse erlang:monotonic_time(millisecond) > DeadlineMs of
        true -> ok;
        false -> settled(Nodes, IdleUs, Now, DeadlineMs)
    end.
