%% The work of a member of a cluster, once a second. There is one group, whose
%% members are those of the cluster.
%%
%% - It connects to the other members: Ra only sends to connected nodes.
%% - It asks to become a member, while it has only been invited.
%% - It asks the others whether it still is one, since a member that was
%%   removed receives no message about it: at once when it meets one.
%% - It finds out which nodes have the name of a member, and belong to another
%%   cluster, and sends them a claim.
%% - As the leader, it gives votes.
%% - It announces to the others what it has confirmed (todana_confirmed).
%% - It logs what has changed (todana_cluster_events).
%% - It writes where its clients reach it into the map of the cluster.
%% - It finds out which formats of the log all members read.
-module(todana_membership).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, await_end/2, ask_now/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% Beats between two questions whether this node still is a member.
-define(REMOVED_BEATS, 5).
%% Beats that were late may come one after the other.
-define(CONFIRM_MS_MIN, 900).
-define(TIMEOUT_MS, 15_000).
%% A leader that has given no answer for this time counts as lost.
-define(SILENT_MS, 3_000).
-define(ADMIT_TIMEOUT_MS, 30_000).
%% The name of the process that ends the application.
-define(LEAVING, todana_leaving).
%% The note of what the file of the directory was last seen to have.
-define(NOTED, noted_members).

-type work() ::
    join | {ask, node()} | strangers | vote | announce | formats | remember.

-record(state, {
    options :: todana_config:options(),
    events = todana_cluster_events:new() :: todana_cluster_events:events(),
    beats = 0 :: non_neg_integer(),
    %% When this node announced last what it has confirmed.
    confirmed_ms :: integer(),
    %% The members that were connected at the last beat, and those of them that
    %% belong to another cluster.
    met = [] :: [node()],
    strangers = [] :: [node()],
    %% The work that goes on, by its process. Each may wait for other nodes.
    going = #{} :: #{pid() => work()}
}).

-spec start_link(todana_config:options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Options, []).

-doc """
Returns when a member that was removed has ended, cannot be asked, or does not
end within this time.
""".
-spec await_end(node(), timeout()) -> ok.
await_end(Node, TimeoutMs) ->
    Monitor = monitor(process, {todana_sup, Node}),
    _ = erlang:send(
        {?MODULE, Node}, {removed, node()}, [noconnect, nosuspend]
    ),
    receive
        {'DOWN', Monitor, process, _, _} -> ok
    after TimeoutMs ->
        true = demonitor(Monitor, [flush]),
        ok
    end.

-doc "Asks this member whether this node is one still, and ends it if not.".
-spec ask_now(node() | none) -> ok.
ask_now(Member) ->
    ?MODULE ! {removed, Member},
    ok.

-spec init(todana_config:options()) -> {ok, #state{}}.
init(Options) ->
    _ = process_flag(trap_exit, true),
    self() ! beat,
    BeganMs = erlang:monotonic_time(millisecond) - ?CONFIRM_MS_MIN,
    {ok, #state{options = Options, confirmed_ms = BeganMs}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(beat, #state{beats = Beats, options = Options} = State) ->
    ok = todana_beat:flush(),
    Group = todana_raft_groups:first(),
    Opened = todana_raft_groups:opened(Group),
    ok = connect(Group, Opened),
    Connected = todana_members:connected(Group),
    NowMs = erlang:monotonic_time(millisecond),
    %% What it announces was there in two looks, a second apart.
    IsDue = NowMs - State#state.confirmed_ms >= ?CONFIRM_MS_MIN,
    _ = IsDue andalso confirm(Opened, Connected),
    IsMeeting = Connected -- State#state.met =/= [],
    AsksNow = IsMeeting orelse Beats rem ?REMOVED_BEATS =:= 0,
    {noreply, lists:foldl(fun({Name, Do}, S) -> run(Name, Do, S) end,
        log(Group, IsMeeting, Opened, State#state{
            beats = Beats + 1, met = Connected,
            confirmed_ms = case IsDue of
                true -> NowMs;
                false -> State#state.confirmed_ms
            end
        }),
        work(Group, AsksNow, Opened, Options)
    )};
%% A member says so. An older copy knows no members that it could ask.
handle_info({removed, Node}, State) ->
    Opened = todana_raft_groups:opened(todana_raft_groups:first()),
    Ask = fun() -> leave_if_removed(Node, Opened) end,
    {noreply, run({ask, Node}, Ask, State)};
handle_info({'DOWN', _, process, Pid, _}, #state{going = Going} = State) ->
    {noreply, State#state{going = maps:remove(Pid, Going)}};
handle_info({confirmed, UId, Node, Index, Has}, State) ->
    ok = todana_confirmed:note(UId, Node, Index, Has),
    {noreply, State};
handle_info({strangers, Found}, #state{strangers = Before} = State) ->
    _ = [
        logger:error("todana: ~ts", [todana_stranger:sentence(Node, Other)])
     || {Node, Other} <- Found, not lists:member(Node, Before)
    ],
    {noreply, State#state{strangers = [Node || {Node, _} <- Found]}};
handle_info({claimed, Node, Cluster}, State) ->
    #{cluster := Own} = todana_raft_groups:opened(todana_raft_groups:first()),
    ok = todana_stranger:note(Node, Cluster, Own),
    {noreply, State};
handle_info(_Message, State) ->
    {noreply, State}.

%% While it joins, it is no part of the cluster. A node that it meets may be a
%% stranger, which the next look knows.
-spec log(
    todana_raft_groups:id(), IsMeeting :: boolean(), todana_data_dir:opened(),
    #state{}
) -> #state{}.
log(_Group, _IsMeeting, #{joining := [_ | _]}, State) ->
    State;
log(_Group, true, _Opened, State) ->
    State;
log(Group, false, _Opened, #state{events = Before} = State) ->
    Members = todana_cluster_events:members(
        todana_members:listed(Group), Before
    ),
    Votes = todana_members:votes(Group),
    {Lines, Events} = todana_cluster_events:look(#{
        now_ms => erlang:monotonic_time(millisecond),
        leader => proved_leader(Group),
        members => Members,
        voters => todana_cluster_events:voters(
            todana_cluster_map:voters(Group, Members), node(), Votes
        ),
        up => [node() | nodes()] -- State#state.strangers,
        votes => Votes
    }, Before),
    lists:foreach(fun({Level, Text}) ->
        logger:log(Level, "todana: ~ts", [Text])
    end, Lines),
    State#state{events = Events}.

%% One that has not answered for a while may lead nobody.
-spec proved_leader(todana_raft_groups:id()) -> node() | none.
proved_leader(Group) ->
    case todana_leader_proof:is_silent(Group, ?SILENT_MS) of
        true -> none;
        false -> todana_members:leader(Group)
    end.

%% At an orderly stop the others remember the last second, too.
-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, _State) ->
    Group = todana_raft_groups:first(),
    Opened = todana_raft_groups:opened(Group),
    ok = confirm(Opened, todana_members:connected(Group)),
    todana_confirmed:keep(Opened).

-spec confirm(todana_data_dir:opened(), [node()]) -> ok.
confirm(#{joining := [_ | _]}, _Connected) ->
    ok;
confirm(Opened, Connected) ->
    todana_confirmed:announce(Opened, Connected).

%% A connection attempt may take seconds.
-spec connect(todana_raft_groups:id(), todana_data_dir:opened()) -> ok.
connect(Group, #{joining := Joining}) ->
    Wanted = lists:usort(Joining ++ todana_members:known(Group)) -- [node()],
    _ = [
        spawn(net_kernel, connect_node, [Node])
     || Node <- Wanted -- nodes()
    ],
    ok.

-spec work(
    todana_raft_groups:id(), AsksNow :: boolean(), todana_data_dir:opened(),
    todana_config:options()
) -> [{work(), fun(() -> term())}].
work(_Group, _AsksNow, #{joining := [_ | _], has_group := false}, _Options) ->
    [];
work(Group, _AsksNow, #{joining := [_ | _]} = Opened, _Options) ->
    [{join, fun() -> join(Group, Opened) end}];
work(Group, AsksNow, Opened, Options) ->
    [
        Work
     || todana_nif:durable_state() =:= open,
        Work <- [
            {announce, fun() -> todana_cluster_map:announce(Options) end},
            {formats, fun() -> todana_formats:renew(Group) end}
        ]
    ] ++
    [
        {vote, fun() -> todana_votes:balance(Group) end}
     || todana_members:leader(Group) =:= node(),
        not todana_copies:do_all_vote(Group)
    ] ++
    [{remember, fun() -> remember(Group, Opened, Options) end}] ++
    [
        Work
     || AsksNow,
        %% One that knows no leader takes long to answer.
        Work <- [
            {{ask, N}, fun() -> leave_if_removed(N, Opened) end}
         || N <- todana_members:connected(Group)
        ] ++ [{strangers, fun() -> find_strangers(Group, Opened) end}]
    ].

-spec run(work(), fun(() -> term()), #state{}) -> #state{}.
run(Name, Do, #state{going = Going} = State) ->
    case lists:member(Name, maps:values(Going)) of
        true ->
            State;
        false ->
            {Pid, _} = spawn_monitor(Do),
            State#state{going = Going#{Pid => Name}}
    end.

%% It has the files of a server and is no member yet. If this is repeated after
%% a crash, the answer is the same.
-spec join(todana_raft_groups:id(), todana_data_dir:opened()) ->
    ok | {error, term()}.
join(Group, #{joining := Nodes} = Opened) ->
    case todana_ra_server:is_running(Group) andalso admitted(Nodes, Opened) of
        ok ->
            todana_data_dir:joined(Opened);
        other_server ->
            logger:error(
                "todana: the cluster goes on without its other members since "
                "this node was invited: delete its data directory, which has "
                "no records, and let it join again; the node stops"
            ),
            _ = application:stop(todana),
            ok;
        _ ->
            ok
    end.

-spec admitted([node()], todana_data_dir:opened()) -> ok | other_server | later.
admitted([], _Opened) ->
    later;
admitted([Node | Nodes], #{cluster := Cluster, uid := UId} = Opened) ->
    Arguments = [Cluster, node(), UId],
    try erpc:call(
        Node, todana_admission, admit, Arguments, ?ADMIT_TIMEOUT_MS
    ) of
        ok -> ok;
        {error, other_server} -> other_server;
        {error, _} -> admitted(Nodes, Opened)
    catch
        _:_ -> admitted(Nodes, Opened)
    end.

%% A node that was removed does not become a member with this directory again:
%% it may have forgotten what it had confirmed.
-spec leave_if_removed(node(), todana_data_dir:opened()) -> ok.
leave_if_removed(Asked, #{cluster := Cluster, uid := UId} = Opened) ->
    try erpc:call(
        Asked, todana_admission, is_removed, [Cluster, node(), UId],
        ?TIMEOUT_MS
    ) of
        true -> leave(Opened);
        false -> ok
    catch
        _:_ -> ok
    end.

%% Several members may have said so at once.
-spec leave(todana_data_dir:opened()) -> ok.
leave(Opened) ->
    try register(?LEAVING, self()) of
        true -> stop(Opened)
    catch
        error:badarg -> ok
    end.

-spec stop(todana_data_dir:opened()) -> ok.
stop(#{data_dir := DataDir} = Opened) ->
    logger:error(
        "todana: this node was removed from its cluster, and stops; it "
        "can join again with an empty data directory, and `bin/todana "
        "dump ~ts` reads what this one has", [DataDir]
    ),
    %% The directory may be gone already. The others remember it, too.
    _ = todana_data_dir:left(Opened),
    _ = application:stop(todana),
    ok.

%% A directory that was lost, and a first start in its place: the node has the
%% name of a member, and none of its records.
-spec find_strangers(todana_raft_groups:id(), todana_data_dir:opened()) -> ok.
find_strangers(Group, #{cluster := Cluster}) ->
    Others = todana_members:connected(Group),
    Answers = erpc:multicall(
        Others, todana_admission, cluster, [], ?TIMEOUT_MS
    ),
    Strangers = [
        {Node, Other}
     || {Node, {ok, Other}} <- lists:zip(Others, Answers), Other =/= Cluster
    ],
    ?MODULE ! {strangers, Strangers},
    lists:foreach(
        fun({Node, _Other}) -> todana_stranger:claim(Node, Cluster) end,
        Strangers
    ).

-spec remember(
    todana_raft_groups:id(), todana_data_dir:opened(), todana_config:options()
) -> ok.
remember(Group, Opened, Options) ->
    ok = todana_confirmed:keep(Opened),
    {Leader, Members} =
        {todana_members:leader(Group), todana_members:listed(Group)},
    note(Opened, Options, Leader, Members).

%% For `todana_cluster_start', when this node starts again. With a leader, the
%% cookie is the right one.
-spec note(
    todana_data_dir:opened(), todana_config:options(), node() | none,
    {ok, [node()]} | unknown
) -> ok.
note(#{has_group := true} = Opened, Options, Leader, {ok, Members}) when
    Leader =/= none
->
    Facts = [{members, Members} | todana_cluster_start:cookie_note(Options)],
    %% The file is not read each second.
    _ = todana_group_notes:kept(?NOTED, none) =/= Facts andalso
        todana_data_dir:note(Opened, Facts) =:= ok andalso
        todana_group_notes:keep(?NOTED, Facts),
    ok;
note(_Opened, _Options, _Leader, _Members) ->
    ok.
