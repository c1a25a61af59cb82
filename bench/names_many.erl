%% What a cluster with many names and groups costs, and what others notice when
%% a node with many names dies.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -hidden -pa EBIN -run names_many main PLAN PLACE
%% PLAN is an object in JSON: the arm, and the numbers of names_many.py. This
%% node is hidden, so that it belongs to no cluster. For Todana, the first three
%% nodes are members, with their logs below PLACE, and all others are guests,
%% connected to members only. `global' and `pg' need a mesh.
%%
%% The processes that have the names and are members are there before memory is
%% measured for the first time: as many on each node. Each has several names,
%% but `global' permits one. Several processes of each node register at the same
%% time, but `global' would wait for its locks. Prints a line of JSON for each
%% cell:
%%
%%     memory  at a `stage', after all garbage was collected. For each node its
%%             kind, pss_kib (resident memory; shared pages count once) and
%%             erlang_bytes (erlang:memory(total), without native code);
%%             disk_bytes of all logs, written_bytes by all nodes since their
%%             start, and seconds of the stage, and how many calls of it
%%             were refused, by reason, and repeated:
%%       started  with processes, but without names
%%       named    with names
%%       grouped  and with groups of three members on different nodes
%%       large    and with a few groups that have many members on each node
%%       dead     after the two deaths, without those nodes
%%       freed    when all processes with names and in groups have ended
%%     latency microseconds of calls on all nodes but those that die, in the
%%             open loop: one in an interval on each node, and one that had to
%%             wait for the one before counts from its moment. A `window' is
%%             `before' or `death', and that has the phases `silent', until the
%%             first name is free, and `freeing', until the last one is
%%     freed   milliseconds from a death until the first and the last name of
%%             the node are free at another node
-module(names_many).

-export([main/1]).

-type arm() :: names_many_nodes:arm().
-type kind() :: member | guest | node.
%% A node and its number.
-type place() :: {pos_integer(), kind(), cluster:member()}.
-type group() :: #{arm := arm(), plan := map(), places := [place()],
                   disk := string()}.
-type sample() :: {integer(), non_neg_integer(), boolean()}.

-define(MEMBERS, 3).
-define(RUN_MS, 7_200_000).
-define(STEP_MS, 3_600_000).
%% Nodes are idle when all together use less of a core than this.
-define(IDLE_PERCENT, 10).
-define(IDLE_LOOK_MS, 1_000).
-define(IDLE_WAIT_MS, 120_000).
-define(POLL_MS, 200).
-define(KNOWN_MS, 600_000).
%% Calls that have begun end meanwhile, at the latest.
-define(SETTLE_MS, 2_000).
-define(STOP_MS, 60_000).
%% Names and groups of which all is verified.
-define(VERIFIED, 100).

-spec main([string()]) -> no_return().
main([Text, Disk]) ->
    #{<<"arm">> := Arm} = Plan = json:decode(list_to_binary(Text)),
    case cluster:guarded(?RUN_MS, fun() ->
        run(binary_to_existing_atom(Arm), Plan, Disk)
    end) of
        {ok, ok} -> ok;
        {failed, Reason} -> print(#{operation => failure, failed => Reason})
    end,
    %% The nodes end with this one.
    halt(0).

-spec run(arm(), map(), string()) -> ok.
run(Arm, Plan, Disk) ->
    Cluster = boot(Arm, Plan, Disk),
    ok = memory(started, fun() -> #{} end, Cluster),
    lists:foreach(
        fun(Stage) ->
            memory(Stage, fun() -> stage(Stage, Cluster) end, Cluster)
        end,
        stages(Arm)
    ),
    ok = verified(Cluster),
    deaths(Cluster).

-spec stages(arm()) -> [atom()].
stages(todana) -> [named, grouped, large];
stages(global) -> [named];
stages(pg) -> [grouped, large].

%% Returns which calls were refused and repeated, when all is known.
-spec stage(atom(), group()) -> names_many_nodes:refused().
stage(named, Cluster) ->
    Refused = named(Cluster, each(Cluster)),
    ok = await_known(Cluster, names, each(Cluster) * count(Cluster)),
    Refused;
stage(grouped, #{plan := #{<<"groups">> := Groups}} = Cluster) ->
    Refused = grouped(Cluster, Groups),
    ok = await_known(Cluster, groups, Groups),
    Refused;
stage(large, #{plan := Plan} = Cluster) ->
    #{<<"groups">> := Groups, <<"large">> := Large} = Plan,
    Refused = large(Cluster),
    ok = await_known(Cluster, groups, Groups + Large),
    Refused.

-spec print(map()) -> ok.
print(Cell) ->
    io:put_chars([json:encode(Cell), $\n]).

%% ----------------------------------------------------------- the cluster ---

-spec boot(arm(), map(), string()) -> group().
boot(Arm, #{<<"nodes">> := Count, <<"owners">> := Owners} = Plan, Disk) ->
    Code = filename:dirname(code:which(todana)),
    Connections = case Arm of
        todana -> ["-connect_all", "false"];
        _ -> []
    end,
    Names = [
        lists:flatten(io_lib:format("~s_~3..0b", [Arm, N]))
     || N <- lists:seq(1, Count)
    ],
    Flags = cluster:one_thread() ++ ["-pa", Code | Connections],
    Title = lists:concat(["names-many, ", Arm]),
    {ok, Started} = cluster:start(Names, Flags, Title),
    %% In the order of their numbers, not of their starts.
    Nodes = lists:sort(fun(#{node := A}, #{node := B}) -> A =< B end, Started),
    ok = connect(Arm, cluster:nodes_of(Nodes), Disk),
    Cluster = #{
        arm => Arm, plan => Plan, disk => Disk,
        places => [{I, kind(Arm, I), N} || {I, N} <- lists:enumerate(Nodes)]
    },
    _ = on_all(Cluster, open, fun(_I) -> [Arm, Owners] end),
    Cluster.

-spec kind(arm(), pos_integer()) -> kind().
kind(todana, I) when I =< ?MEMBERS -> member;
kind(todana, _I) -> guest;
kind(_Arm, _I) -> node.

-spec connect(arm(), [node()], string()) -> ok.
connect(todana, Nodes, Disk) ->
    {[First | _] = Members, Guests} = lists:split(?MEMBERS, Nodes),
    ok = todana_nodes:form(Members, Disk),
    AsGuest = [{cluster_join, atom_to_list(First)}, {no_replica, "yes"}],
    cluster:some_at_once(Guests, fun(Guest) ->
        ok = todana_nodes:begin_on(Guest, "off", AsGuest)
    end);
connect(_Arm, Nodes, _Disk) ->
    mesh(Nodes).

-spec mesh([node()]) -> ok.
mesh([First | Others] = Nodes) ->
    [true = erpc:call(N, net_kernel, connect_node, [First]) || N <- Others],
    cluster:await_mesh_of(Nodes).

-spec count(group()) -> pos_integer().
count(#{plan := #{<<"nodes">> := Count}}) -> Count.

-spec width(group()) -> pos_integer().
width(#{plan := #{<<"width">> := Width}}) -> Width.

%% Calls a function on a node.
-spec on(place(), atom(), [term()]) -> term().
on({_I, _Kind, #{node := Node}}, Function, Arguments) ->
    erpc:call(Node, names_many_nodes, Function, Arguments, ?STEP_MS).

%% Calls a function on all nodes at the same time.
-spec on_all(group(), atom(), fun((pos_integer()) -> [term()])) -> [term()].
on_all(#{places := Places}, Function, ArgumentsOf) ->
    Asked = [
        erpc:send_request(Node, names_many_nodes, Function, ArgumentsOf(I))
     || {I, _Kind, #{node := Node}} <- Places
    ],
    [erpc:receive_response(Request, ?STEP_MS) || Request <- Asked].

%% ---------------------------------------------------------------- stages ---

%% Each returns which calls were refused and repeated.
-spec named(group(), pos_integer()) -> names_many_nodes:refused().
named(#{arm := todana} = Cluster, Each) ->
    names_many_nodes:added(on_all(Cluster, register, fun(I) ->
        [todana, I, 1, Each, width(Cluster)]
    end));
named(#{arm := global, plan := #{<<"apart">> := false}} = Cluster, Each) ->
    %% All at the same time would wait for each other's locks.
    names_many_nodes:added([
        on(Place, register, [global, I, 1, Each, 1])
     || {I, _Kind, _} = Place <- maps:get(places, Cluster)
    ]);
named(#{arm := global, places := Places} = Cluster, Each) ->
    Nodes = [Node || {_I, _Kind, #{node := Node}} <- Places],
    [
        erpc:call(Node, erlang, disconnect_node, [Other])
     || Node <- Nodes, Other <- Nodes, Node < Other
    ],
    ok = todana_nodes:await(
        fun() -> [0] =:= lists:usort([
            erpc:call(Node, cluster, seen, []) || Node <- Nodes
        ]) end,
        ?POLL_MS, ?KNOWN_MS
    ),
    Refused = on_all(Cluster, register, fun(I) -> [global, I, 1, Each, 1] end),
    ok = mesh(Nodes),
    names_many_nodes:added(Refused).

-spec grouped(group(), non_neg_integer()) ->
    names_many_nodes:refused().
grouped(#{arm := Arm} = Cluster, Groups) ->
    names_many_nodes:added(on_all(Cluster, join, fun(I) ->
        [Arm, I, count(Cluster), Groups, width(Cluster)]
    end)).

-spec large(group()) -> names_many_nodes:refused().
large(#{arm := Arm, plan := Plan} = Cluster) ->
    #{<<"large">> := Groups, <<"large_members">> := Members} = Plan,
    names_many_nodes:added(on_all(Cluster, join_large, fun(_I) ->
        [Arm, Groups, Members, width(Cluster)]
    end)).

%% Until each node of `global' and `pg', and a member of Todana, knows them all.
-spec await_known(group(), names | groups, non_neg_integer()) -> ok.
await_known(#{arm := todana, places := [First | _]}, What, Count) ->
    await_known([First], todana, What, Count);
await_known(#{arm := Arm, places := Places}, What, Count) ->
    await_known(Places, Arm, What, Count).

-spec await_known([place()], arm(), names | groups, non_neg_integer()) -> ok.
await_known(Places, Arm, What, Count) ->
    lists:foreach(
        fun(Place) ->
            todana_nodes:await(
                fun() -> on(Place, known, [Arm, What]) =:= Count end,
                ?POLL_MS, ?KNOWN_MS
            )
        end,
        Places
    ).

%% Some names and groups on a node that has not looked any up.
-spec verified(group()) -> ok.
verified(#{arm := Arm, plan := Plan, places := Places} = Cluster) ->
    #{<<"names">> := Names, <<"groups">> := Groups} = Plan,
    Looker = lists:last(Places),
    Each = Names div count(Cluster),
    [
        begin
            {I, _Kind, #{node := Node}} = lists:nth(
                rand:uniform(count(Cluster)), Places
            ),
            N = rand:uniform(Each),
            Node = node(on(Looker, owner_of, [Arm, {I, N}]))
        end
     || Arm =/= pg, _ <- lists:seq(1, ?VERIFIED)
    ],
    [
        3 = on(Looker, members, [Arm, {room, rand:uniform(Groups)}])
     || Arm =/= global, _ <- lists:seq(1, ?VERIFIED)
    ],
    #{<<"large">> := Large, <<"large_members">> := Members} = Plan,
    [
        Known = on(Looker, members, [Arm, {hall, G}])
     || Arm =/= global, Known <- [Members * count(Cluster)],
        G <- lists:seq(1, Large)
    ],
    ok.

%% ---------------------------------------------------------------- memory ---

%% Does the work of a stage, and measures what the nodes have then.
-spec memory(atom(), fun(() -> names_many_nodes:refused()), group()) -> ok.
memory(Stage, Work, #{arm := Arm} = Cluster) ->
    Begun = erlang:monotonic_time(),
    Refused = Work(),
    Elapsed = erlang:monotonic_time() - Begun,
    ok = io:format("names-many, ~ts: ~ts~n", [Arm, Stage]),
    IsIdle = await_idle(Cluster),
    ErlangBytes = on_all(Cluster, collect, fun(_I) -> [] end),
    #{places := Places, disk := Disk} = Cluster,
    print(#{
        operation => memory, arm => Arm, stage => Stage,
        is_idle => IsIdle, refused => Refused,
        seconds => erlang:convert_time_unit(Elapsed, native, millisecond)
            / 1.0e3,
        disk_bytes => disk_bytes(Disk),
        written_bytes => lists:sum([written_bytes(Node) || Node <- Places]),
        nodes => [
            #{
                node => I, kind => Kind, erlang_bytes => Bytes,
                pss_kib => cluster:pss_kib([Node])
            }
         || {{I, Kind, Node}, Bytes} <- lists:zip(Places, ErlangBytes)
        ]
    }).

%% Whether they have become idle in time. Logs are compacted in the background.
-spec await_idle(group()) -> boolean().
await_idle(#{places := Places}) ->
    await_idle(
        [Node || {_I, _Kind, Node} <- Places],
        erlang:monotonic_time(millisecond) + ?IDLE_WAIT_MS
    ).

-spec await_idle([cluster:member()], integer()) -> boolean().
await_idle(Nodes, DeadlineMs) ->
    Before = cluster:threads_ns(Nodes),
    timer:sleep(?IDLE_LOOK_MS),
    UsedNs = cluster:threads_ns(Nodes) - Before,
    IsIdle = UsedNs * 100 < ?IDLE_PERCENT * ?IDLE_LOOK_MS * 1_000_000,
    case IsIdle orelse erlang:monotonic_time(millisecond) > DeadlineMs of
        true -> IsIdle;
        false -> await_idle(Nodes, DeadlineMs)
    end.

%% Blocks, so that a file with holes counts as what it takes.
-spec disk_bytes(string()) -> non_neg_integer().
disk_bytes(Disk) ->
    [Blocks | _] = string:lexemes(os:cmd("du -s -B 512 " ++ Disk), "\t"),
    512 * list_to_integer(Blocks).

-spec written_bytes(place()) -> non_neg_integer().
written_bytes({_I, _Kind, #{os_pid := Pid}}) ->
    {ok, Bytes} = file:read_file(["/proc/", Pid, "/io"]),
    {match, [Written]} = re:run(Bytes, "^write_bytes: ([0-9]+)", [
        multiline, {capture, all_but_first, list}
    ]),
    list_to_integer(Written).

%% ---------------------------------------------------------------- deaths ---

%% Of a guest, and of a member that does not lead. Both have as many names.
-spec deaths(group()) -> ok.
deaths(#{arm := todana, plan := Plan, places := Places} = Cluster) ->
    #{<<"dying">> := Dying} = Plan,
    Each = each(Cluster),
    [First | _] = Places,
    Leader = leader(First),
    [Member | _] = [
        Place
     || {_I, member, #{node := Node}} = Place <- Places, Node =/= Leader
    ],
    Guest = lists:last(Places),
    Names = max(Dying, Each),
    [
        on(Victim, register, [todana, I, Each + 1, Names, width(Cluster)])
     || {I, _Kind, _Node} = Victim <- [Guest, Member]
    ],
    Others = Cluster#{places := Places -- [Guest, Member]},
    ok = death(Guest, Names, Others),
    ok = death(Member, Names, Others),
    ok = memory(dead, fun() -> #{} end, Others),
    memory(freed, fun() -> emptied(Others) end, Others);
deaths(_Cluster) ->
    ok.

-spec leader(place()) -> node().
leader({_I, member, #{node := Node}}) ->
    erpc:call(Node, todana_members, leader, [0]).

-spec each(group()) -> non_neg_integer().
each(#{plan := #{<<"names">> := Names}} = Cluster) ->
    Names div count(Cluster).

-spec emptied(group()) -> #{}.
emptied(#{places := Places} = Cluster) ->
    _ = on_all(Cluster, end_owners, fun(_I) -> [] end),
    {value, Member} = lists:keysearch(member, 2, Places),
    ok = on(Member, await_empty, []),
    #{}.

%% The calls of the others, in a window without a death and in one with it.
-spec death(place(), pos_integer(), group()) -> ok.
death({I, Kind, #{os_pid := OsPid}}, Names, Cluster) ->
    #{places := Places, plan := #{<<"load_ms">> := LoadMs}} = Cluster,
    _ = await_idle(Cluster),
    Start = load(Cluster),
    timer:sleep(LoadMs),
    ok = latency(#{window => before, dies => Kind, phase => all}, stop(Start)),
    {value, Member} = lists:keysearch(member, 2, Places),
    Loads = load(Cluster),
    timer:sleep(LoadMs div 4),
    %% Looks before the death, so that the first moment is not missed.
    #{node := Node} = element(3, Member),
    Asked = erpc:send_request(Node, names_many_nodes, freed, [I, Names]),
    Killed = os:perf_counter(),
    [] = os:cmd("kill -KILL " ++ OsPid),
    {First, Last} = erpc:receive_response(Asked, ?STEP_MS),
    %% Calls that began before the last name was free end.
    timer:sleep(?SETTLE_MS),
    Samples = stop(Loads),
    lists:foreach(
        fun({Phase, From, To}) ->
            latency(
                #{window => death, dies => Kind, phase => Phase},
                [
                    {Operation, [
                        Sample
                     || {Begun, _, _} = Sample <- Some,
                        Begun >= From, Begun < To
                    ]}
                 || {Operation, Some} <- Samples
                ]
            )
        end,
        [{all, Killed, Last}, {silent, Killed, First}, {freeing, First, Last}]
    ),
    print(#{
        operation => freed, dies => Kind, freed_names => Names,
        first_free_ms => ms(First - Killed), last_free_ms => ms(Last - Killed)
    }).

-spec ms(integer()) -> float().
ms(Elapsed) ->
    erlang:convert_time_unit(Elapsed, perf_counter, microsecond) / 1.0e3.

%% Starts the calls on all nodes.
-spec load(group()) -> [{atom(), pid()}].
load(#{places := Places, plan := Plan} = Cluster) ->
    Known = [{I, each(Cluster)} || {I, _Kind, _Node} <- Places],
    [
        {Operation, spawn(Node, names_many_nodes, load, [
            self(), Operation, IntervalMs, Known
        ])}
     || {_I, _Kind, #{node := Node}} <- Places,
        {Operation, IntervalMs} <- [
            {register, maps:get(<<"register_ms">>, Plan)},
            {whereis, maps:get(<<"whereis_ms">>, Plan)},
            {whereis_first, maps:get(<<"whereis_ms">>, Plan)}
        ]
    ].

-spec stop([{atom(), pid()}]) -> [{atom(), [sample()]}].
stop(Loads) ->
    [Pid ! {stop, self()} || {_Operation, Pid} <- Loads],
    [
        {Operation, receive {Pid, Samples} -> Samples
         after ?STOP_MS -> error({no_samples, Operation}) end}
     || {Operation, Pid} <- Loads
    ].

-spec latency(map(), [{atom(), [sample()]}]) -> ok.
latency(Cell, Samples) ->
    maps:foreach(
        fun(Operation, Some) ->
            All = lists:append(Some),
            print(maps:merge(Cell, (percentiles([Us || {_, Us, _} <- All]))#{
                operation => latency, call => Operation,
                calls => length(All),
                failures => length([failure || {_, _, false} <- All])
            }))
        end,
        maps:groups_from_list(
            fun({Operation, _}) -> Operation end,
            fun({_, Some}) -> Some end, Samples
        )
    ).

-spec percentiles([non_neg_integer()]) -> map().
percentiles([]) ->
    #{};
percentiles(Us) ->
    Sorted = list_to_tuple(lists:sort(Us)),
    At = fun(Part) ->
        element(max(1, ceil(tuple_size(Sorted) * Part)), Sorted)
    end,
    #{p50_us => At(0.5), p99_us => At(0.99), p999_us => At(0.999),
      max_us => At(1.0)}.
