%% E2 on three nodes: the status of e2.erl in a replicated table. Processes of
%% one node update and read it; every node has it.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -pa EBIN -run e2_replicated main CELL_MS ROUNDS PROCESSES PLACE
%% PROCESSES are numbers with commas, and the directories of the nodes are below
%% PLACE. Prints one line of JSON for each arm and number of processes:
%% operations per second of each round, the CPU time of an operation on all
%% three nodes, the profile of all rounds, and how many updates were lost: those
%% that succeeded and are not in the sum. Updates and reads alternate. The arms
%% are interleaved; one that fails prints {"failed": Reason}.
%%
%%     todana_update_*     a durable table, todana:update/4 with a function
%%     todana_counter_*    the same, todana:update_counter/3
%%     mnesia_transaction  ram_copies, each operation a transaction
%%     mnesia_sync_dirty   the same, read and write by mnesia:sync_dirty/1
%%     mnesia_async_dirty  the same, mnesia:dirty_update_counter/3
%%
%% *_leader are processes of the node that leads the log, *_follower those of
%% another one. To Mnesia all nodes are the same.
-module(e2_replicated).

-export([main/1]).
%% For the other nodes.
-export([
    start_mnesia/1, open/0, read/1, sum/1, work/3, profile/0
]).

-type arm() ::
    todana_update_leader
    | todana_update_follower
    | todana_counter_leader
    | todana_counter_follower
    | mnesia_transaction
    | mnesia_sync_dirty
    | mnesia_async_dirty.

-define(TABLE, e2_status).
-define(WAIT_MS, 60_000).
%% As often as it takes.
-define(ATTEMPTS, 1_000_000).

-spec main([string()]) -> no_return().
main([CellMs, Rounds, Processes, Place]) ->
    Code = filename:dirname(code:which(todana)),
    Names = ["r1", "r2", "r3"],
    Flags = ["-pa", Code | cluster:no_spinning()],
    {ok, Members} = cluster:start(Names, Flags, "e2_replicated"),
    ok = cluster:await_mesh(Members),
    [First | _] = Nodes = cluster:nodes_of(Members),
    ok = todana_nodes:form(Nodes, Place),
    [ok = erpc:call(Node, ?MODULE, open, []) || Node <- Nodes],
    ok = erpc:call(First, todana, put, [?TABLE, status, 0]),
    Has = fun(Node) ->
        fun() -> erpc:call(Node, ?MODULE, read, [todana]) =:= 0 end
    end,
    [ok = todana_nodes:await_ready(Has(Node), ?WAIT_MS) || Node <- Nodes],
    ok = erpc:call(First, ?MODULE, start_mnesia, [Nodes]),
    Leader = erpc:call(First, todana_members, leader, [0]),
    Plan = #{
        cell_ms => list_to_integer(CellMs),
        rounds => list_to_integer(Rounds),
        members => Members,
        leader => Leader,
        follower => hd(Nodes -- [Leader])
    },
    [
        cell(list_to_integer(Count), Plan)
     || Count <- string:lexemes(Processes, ",")
    ],
    ok = cluster:stop(Members),
    halt(0).

%% ------------------------------------------------------------- the nodes ---

-spec open() -> ok.
open() ->
    {ok, _} = todana:open(?TABLE, #{durable => true, codec => term}),
    ok.

-spec start_mnesia([node()]) -> ok.
start_mnesia(Nodes) ->
    [{ok, ok} = Started || Started <- erpc:multicall(Nodes, mnesia, start, [])],
    {ok, _} = mnesia:change_config(extra_db_nodes, Nodes),
    {atomic, ok} = mnesia:create_table(?TABLE, [{ram_copies, Nodes}]),
    ok = mnesia:sync_dirty(fun() -> mnesia:write({?TABLE, status, 0}) end).

%% --------------------------------------------------------------- measures ---

-spec arms() -> [arm()].
arms() ->
    [
        todana_update_leader, todana_update_follower,
        todana_counter_leader, todana_counter_follower,
        mnesia_transaction, mnesia_sync_dirty, mnesia_async_dirty
    ].

-spec node_of(arm(), map()) -> node().
node_of(todana_update_follower, #{follower := Node}) -> Node;
node_of(todana_counter_follower, #{follower := Node}) -> Node;
node_of(_Arm, #{leader := Node}) -> Node.

-spec store_of(arm()) -> todana | mnesia.
store_of(todana_update_leader) -> todana;
store_of(todana_update_follower) -> todana;
store_of(todana_counter_leader) -> todana;
store_of(todana_counter_follower) -> todana;
store_of(_Arm) -> mnesia.

-spec cell(pos_integer(), map()) -> ok.
cell(Processes, #{rounds := Rounds} = Plan) ->
    #{leader := Leader, follower := Follower} = Plan,
    Opened = interleave:open([
        {Arm, fun() -> fun() -> measure(Arm, Processes, Plan) end end}
     || Arm <- arms()
    ]),
    Warm = interleave:warm_up(Opened),
    ok = erpc:call(Leader, todana_profile, reset, []),
    ok = erpc:call(Follower, todana_profile, reset, []),
    Played = interleave:play(Rounds, Warm),
    lists:foreach(
        fun({Arm, _} = Found) ->
            Named = #{part => status, arm => Arm, processes => Processes},
            Figures = fun(Samples) -> figures(Arm, Samples, Plan) end,
            print(maps:merge(Named, interleave:figures(Found, Figures)))
        end,
        Played
    ).

-spec figures(arm(), [{float(), float(), integer()}], map()) -> map().
figures(Arm, Samples, Plan) ->
    {Operations, Cpu, Lost} = lists:unzip3(Samples),
    Profile = erpc:call(node_of(Arm, Plan), ?MODULE, profile, []),
    #{
        operations_per_second => Operations,
        cpu_us_per_operation => Cpu,
        lost_updates => Lost,
        profile =>
            [
                Row#{label := Operation}
             || #{label := {A, Operation}} = Row <- Profile, A =:= Arm
            ]
    }.

-spec profile() -> [todana_profile:row()].
profile() ->
    todana_profile:report().

-spec print(map()) -> ok.
print(Cell) ->
    io:put_chars([json:encode(Cell), $\n]).

%% Operations per second of all processes together, CPU microseconds of all
%% nodes for each, and the lost updates.
-spec measure(arm(), pos_integer(), map()) ->
    {float(), float(), integer()}.
measure(Arm, Processes, #{cell_ms := CellMs, members := Members} = Plan) ->
    Node = node_of(Arm, Plan),
    Store = store_of(Arm),
    Before = erpc:call(Node, ?MODULE, sum, [Store]),
    Cpu = cluster:cpu_us(Members),
    {Rate, Updates} =
        erpc:call(Node, ?MODULE, work, [Arm, Processes, CellMs]),
    Spent = cluster:cpu_us(Members) - Cpu,
    Sum = erpc:call(Node, ?MODULE, sum, [Store]) - Before,
    {Rate, Spent / (2 * Updates), Updates - Sum}.

%% The sum with all updates that any node has acknowledged: a node applies those
%% of another one a moment later.
-spec sum(todana | mnesia) -> integer().
sum(todana) ->
    todana:get(?TABLE, status, none, #{read => linear});
sum(mnesia) ->
    read(mnesia).

%% Called in the node of the processes: their rate, and the number of updates.
-spec work(arm(), pos_integer(), pos_integer()) -> {float(), pos_integer()}.
work(Arm, Processes, CellMs) ->
    Updates = counters:new(1, []),
    Labels = {{Arm, update}, {Arm, read}},
    Work = fun(End) -> turns(Arm, Labels, Updates, End, 0) end,
    {Rate, _} = interleave:together(CellMs, lists:duplicate(Processes, Work)),
    {Rate, counters:get(Updates, 1)}.

-spec turns(
    arm(), {term(), term()}, counters:counters_ref(), integer(),
    non_neg_integer()
) -> non_neg_integer().
turns(Arm, {Update, Read} = Labels, Updates, End, Count) ->
    todana_profile:start(Update),
    ok = update(Arm),
    todana_profile:stop(Update),
    counters:add(Updates, 1, 1),
    todana_profile:start(Read),
    _ = read_by(Arm),
    todana_profile:stop(Read),
    case erlang:monotonic_time() >= End of
        true -> Count + 2;
        false -> turns(Arm, Labels, Updates, End, Count + 2)
    end.

-spec update(arm()) -> ok.
update(Arm) when Arm =:= todana_update_leader; Arm =:= todana_update_follower ->
    Add = fun({ok, N}) -> {put, N + 1} end,
    {ok, _} = todana:update(?TABLE, status, Add, #{attempts => ?ATTEMPTS}),
    ok;
update(Arm) when
    Arm =:= todana_counter_leader; Arm =:= todana_counter_follower
->
    {ok, _} = todana:update_counter(?TABLE, status, 1),
    ok;
update(mnesia_transaction) ->
    {atomic, ok} = mnesia:transaction(fun() ->
        [{_, _, N}] = mnesia:read(?TABLE, status, write),
        mnesia:write({?TABLE, status, N + 1})
    end),
    ok;
update(mnesia_sync_dirty) ->
    mnesia:sync_dirty(fun() ->
        [{_, _, N}] = mnesia:read(?TABLE, status),
        mnesia:write({?TABLE, status, N + 1})
    end);
update(mnesia_async_dirty) ->
    _ = mnesia:dirty_update_counter(?TABLE, status, 1),
    ok.

-spec read_by(arm()) -> integer().
read_by(mnesia_transaction) ->
    {atomic, [{_, _, N}]} =
        mnesia:transaction(fun() -> mnesia:read(?TABLE, status) end),
    N;
read_by(Arm) ->
    read(store_of(Arm)).

-spec read(todana | mnesia) -> integer().
read(todana) ->
    {ok, N} = todana:get(?TABLE, status),
    N;
read(mnesia) ->
    [{_, _, N}] = mnesia:dirty_read(?TABLE, status),
    N.
