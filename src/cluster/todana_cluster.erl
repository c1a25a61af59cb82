%% Changes of a cluster: who may join, and how members come and go.
%%
%% The number of voters is odd: a second one, or a fourth, would make every
%% write wait for one more node, and not one more node could fail. So a member
%% that joins is a replica at first, which has all records and no vote, and the
%% leader gives votes when the number stays odd:
%%
%%     voters  replicas   ->   voters  replicas
%%        1       1               1       1       b waits for a third node
%%        1       2               3       0       it came: both vote
%%        2       1               3       0       one of three had been removed
%%
%% The process keeps this node connected to the other members, because Ra only
%% sends to nodes that are connected; lets this node become a member; and, on
%% the leader, gives the votes.
-module(todana_cluster).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0, invite/1, version/0]).
-export([status/0, leave/1, transfer/1, force/0]).
%% Called by other nodes
-export([admit/2, has_left/2, id/0, facts/0]).
%% Processes
-export([join_and_exit/1, balance_and_exit/0, leave_if_removed/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([facts/0]).

%% Of what nodes say to each other: 1.
-define(VERSION, 1).
-define(TICK_MS, 1_000).
%% A member asks once in so many ticks whether it still is one.
-define(REMOVED_TICKS, 5).
-define(CLOCK_MS_MAX, 60_000).
-define(ERPC_TIMEOUT_MS, 5_000).
%% More voters make each write slower, and do not make it safer.
-define(MEMBERS_MAX, 7).

-type facts() :: #{
    node := node(),
    durability := todana_data_dir:durability(),
    version := pos_integer(),
    time_ms := integer()
}.

-record(state, {
    joiner = none :: none | pid(),
    balancer = none :: none | pid(),
    ticks = 0 :: non_neg_integer()
}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec version() -> pos_integer().
version() -> ?VERSION.

%% ---------------------------------------------------------------- joining ---

-doc "What a node needs to join this one's cluster, or why it may not.".
-spec invite(facts()) ->
    {ok, map()} | {later, Sentence :: iodata()} | {error, iodata()}.
invite(#{version := Version}) when Version =/= ?VERSION ->
    {error, io_lib:format(
        "~s speaks version ~b of the cluster's language, and this node ~b: "
        "use the same version of Todana",
        [node(), ?VERSION, Version]
    )};
invite(#{node := Node, durability := Durability, time_ms := TimeMs}) ->
    AwayMs = abs(erlang:system_time(millisecond) - TimeMs),
    try todana_data_dir:opened() of
        #{cluster := none} ->
            {error, [atom_to_list(node()), " is no member of a cluster: start "
                     "it with --cluster-create"]};
        #{durability := Other} when Other =/= Durability ->
            {error, io_lib:format("the cluster has durability ~s, not ~s",
                                  [Other, Durability])};
        #{} when AwayMs > ?CLOCK_MS_MAX ->
            {error, io_lib:format(
                "the clocks of ~s and of this node differ by ~b s: set them "
                "right first", [node(), AwayMs div 1_000]
            )};
        #{cluster := Cluster, seed := Seed} ->
            invite_member(Node, Cluster, Seed)
    catch
        error:badarg -> {later, [atom_to_list(node()), " is starting"]}
    end.

-spec invite_member(node(), binary(), non_neg_integer()) ->
    {ok, map()} | {later, iodata()} | {error, iodata()}.
invite_member(Node, Cluster, Seed) ->
    case todana_members:list(todana_members:known()) of
        {ok, _Leader, Members} ->
            Nodes = [Known || #{node := Known} <- Members],
            case lists:member(Node, Nodes) of
                true ->
                    {error, [atom_to_list(Node), " is a member already, with "
                             "another data directory: if that is lost, run "
                             "`bin/todana cluster leave ", atom_to_list(Node),
                             "` on another member first"]};
                false when length(Nodes) >= ?MEMBERS_MAX ->
                    {error, io_lib:format("the cluster has ~b members already",
                                          [length(Nodes)])};
                false ->
                    {ok, #{cluster => Cluster, seed => Seed, members => Nodes}}
            end;
        {error, _} ->
            {later, "the cluster has no leader"}
    end.

-doc "Makes a node a member whose server runs.".
-spec admit(node(), binary()) -> ok | {error, term()}.
admit(Node, UId) ->
    case members() of
        {ok, _, Members} ->
            case [M || #{node := N} = M <- Members, N =:= Node] of
                [] -> todana_members:add(Node, UId);
                [#{uid := UId}] -> ok;
                [_] -> {error, already_member}
            end;
        Error ->
            Error
    end.

-doc "The cluster of this node.".
-spec id() -> none | binary().
id() ->
    #{cluster := Cluster} = todana_data_dir:opened(),
    Cluster.

%% In the node that joins: it has the files of a member and is none yet.
-spec join_and_exit(todana_data_dir:opened()) -> no_return().
join_and_exit(#{joining := Nodes, uid := UId} = Opened) ->
    case todana_ra:is_running() andalso is_admitted(Nodes, UId) of
        true -> exit({joined, todana_data_dir:joined(Opened)});
        false -> exit(later)
    end.

-spec is_admitted([node()], binary()) -> boolean().
is_admitted(Nodes, UId) ->
    lists:any(
        fun(Node) ->
            try
                ok =:= erpc:call(
                    Node, ?MODULE, admit, [node(), UId], ?ERPC_TIMEOUT_MS
                )
            catch
                _:_ -> false
            end
        end,
        Nodes
    ).

%% --------------------------------------------------------------- changes ---

-doc "Removes a member, which may be down or be this node.".
-spec leave(node()) -> ok | {error, iodata()}.
leave(Node) ->
    maybe
        {ok, Leader, Members} ?= members(),
        true ?= lists:any(fun(#{node := N}) -> N =:= Node end, Members) orelse
            {error, [atom_to_list(Node), " is no member of the cluster"]},
        ok ?= is_not_last(Members),
        ok ?= step_down(Node, Leader, Members),
        step(todana_members:remove(Node))
    end.

-spec is_not_last([todana_members:member()]) -> ok | {error, iodata()}.
is_not_last([_]) -> {error, "the last member cannot leave"};
is_not_last(_) -> ok.

-spec step_down(node(), node(), [todana_members:member()]) ->
    ok | {error, iodata()}.
step_down(Node, Node, Members) ->
    case try_each([N || #{node := N, role := voter} <- Members]) of
        true -> ok;
        false -> {error, "no other member is ready to lead"}
    end;
step_down(_Node, _Leader, _Members) ->
    ok.

-spec try_each([node()]) -> boolean().
try_each(Nodes) -> lists:any(fun(Node) -> transfer(Node) =:= ok end, Nodes).

-doc "Has another member lead.".
-spec transfer(node()) -> ok | {error, iodata()}.
transfer(Node) -> step(todana_members:transfer(Node)).

-doc "Makes this node the only member. What it does not have is lost.".
-spec force() -> ok | {error, iodata()}.
force() -> step(todana_members:force_alone()).

-spec step(ok | todana_members:failure()) -> ok | {error, iodata()}.
step(ok) -> ok;
step({error, no_leader}) -> {error, "the cluster has no leader"};
step({error, timeout}) -> {error, "the leader does not answer"};
step({error, cluster_change_not_permitted}) ->
    {error, "another change of the members is going on: try again"};
step({error, Reason}) -> {error, io_lib:format("~0tp", [Reason])}.

-spec members() ->
    {ok, node(), [todana_members:member()]} | {error, iodata()}.
members() ->
    case todana_members:list(todana_members:known()) of
        {ok, Leader, Members} -> {ok, Leader, Members};
        {error, _} -> {error, "the cluster has no leader"}
    end.

%% ----------------------------------------------------------------- votes ---

%% One change of the members at a time; the next tick does the next one.
-spec balance_and_exit() -> no_return().
balance_and_exit() ->
    case members() of
        {ok, Leader, Members} when Leader =:= node() ->
            _ = [
                todana_members:promote(Node, UId)
             || #{node := Node, uid := UId} <- to_promote(Members)
            ],
            exit(normal);
        _ ->
            exit(normal)
    end.

-doc "The replica that gets a vote next, if one does.".
-spec to_promote([todana_members:member()]) -> [todana_members:member()].
to_promote(Members) ->
    Up = [node() | nodes()],
    Voters = [M || #{role := R} = M <- Members, R =:= leader orelse R =:= voter],
    Candidates = [M || #{role := candidate} = M <- Members],
    Replicas = [
        M
     || #{role := replica, node := Node, uid := _} = M <- Members,
        lists:member(Node, Up)
    ],
    case {length(Voters) rem 2, Candidates, Replicas} of
        {1, [], [First, _ | _]} -> [First];
        {0, [], [First | _]} -> [First];
        _ -> []
    end.

%% --------------------------------------------------------------- removed ---

-doc "Whether the cluster has a leader and this server is no member any more.".
-spec has_left(node(), binary()) -> boolean().
has_left(Node, UId) ->
    case members() of
        {ok, _, Members} ->
            case [M || #{node := N} = M <- Members, N =:= Node] of
                [] -> true;
                [#{uid := Other}] when Other =/= UId -> true;
                _ -> false
            end;
        {error, _} ->
            false
    end.

%% Nobody tells a member that it was removed, so it asks the others. A node that
%% has joined cannot be a member with the same directory again.
-spec leave_if_removed(todana_data_dir:opened()) -> ok.
leave_if_removed(#{uid := UId, joining := []} = Opened) ->
    Others = [N || N <- todana_members:known(), lists:member(N, nodes())],
    Answers = erpc:multicall(
        Others, ?MODULE, has_left, [node(), UId], ?ERPC_TIMEOUT_MS
    ),
    case lists:member({ok, true}, Answers) of
        true ->
            ok = todana_data_dir:left(Opened),
            logger:error(
                "todana: this node was removed from its cluster; it stops, and "
                "joins again only with an empty data directory"
            ),
            _ = application:stop(todana),
            ok;
        false ->
            ok
    end;
leave_if_removed(#{}) ->
    ok.

%% ---------------------------------------------------------------- status ---

-doc "The members, with what each says of itself.".
-spec status() -> map().
status() ->
    #{cluster := Cluster} = todana_data_dir:opened(),
    {Leader, Members} =
        case members() of
            {ok, Node, List} -> {Node, List};
            {error, _} ->
                {none, [
                    #{node => N, role => unknown}
                 || N <- todana_members:known()
                ]}
        end,
    Nodes = [N || #{node := N} <- Members],
    Answers = erpc:multicall(Nodes, ?MODULE, facts, [], ?ERPC_TIMEOUT_MS),
    #{
        cluster => Cluster,
        node => node(),
        leader => Leader,
        members => [
            maps:merge(Member, answer(Answer))
         || {Member, Answer} <- lists:zip(Members, Answers)
        ]
    }.

-spec answer({ok, map()} | {atom(), term()}) -> map().
answer({ok, Facts}) -> Facts;
answer(_) -> #{state => down}.

-doc "What this node says of itself to the others.".
-spec facts() -> map().
facts() ->
    maps:with(
        [
            state, reason, applied_index, commit_us, disk_free_bytes,
            in_flight, oldest_ms, progress
        ],
        todana_group:info()
    ).

%% --------------------------------------------------------------- process ---

-spec init([]) -> {ok, #state{}}.
init([]) ->
    self() ! tick,
    {ok, #state{}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(tick, #state{ticks = Ticks} = State) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
    ok = connect(),
    _ = Ticks rem ?REMOVED_TICKS =:= 0 andalso
        spawn(?MODULE, leave_if_removed, [todana_data_dir:opened()]),
    {noreply, balance(join(State#state{ticks = Ticks + 1}))};
handle_info({'DOWN', _, process, Pid, _}, #state{balancer = Pid} = State) ->
    {noreply, State#state{balancer = none}};
handle_info({'DOWN', _, process, Pid, _}, #state{joiner = Pid} = State) ->
    {noreply, State#state{joiner = none}};
handle_info(_Message, State) ->
    {noreply, State}.

%% A connection attempt may take seconds.
-spec connect() -> ok.
connect() ->
    #{joining := Joining} = todana_data_dir:opened(),
    Wanted = lists:usort(Joining ++ todana_members:known()) -- [node()],
    _ = [
        spawn(net_kernel, connect_node, [Node])
     || Node <- Wanted -- nodes()
    ],
    ok.

-spec join(#state{}) -> #state{}.
join(#state{joiner = none} = State) ->
    case todana_data_dir:opened() of
        #{joining := [_ | _], has_group := true} = Opened ->
            {Pid, _} = spawn_monitor(?MODULE, join_and_exit, [Opened]),
            State#state{joiner = Pid};
        #{} ->
            State
    end;
join(State) ->
    State.

-spec balance(#state{}) -> #state{}.
balance(#state{balancer = none} = State) ->
    case todana_members:leader() of
        Node when Node =:= node() ->
            {Pid, _} = spawn_monitor(?MODULE, balance_and_exit, []),
            State#state{balancer = Pid};
        _ ->
            State
    end;
balance(State) ->
    State.
