%% Keeps native code informed about the cluster, for the commands of RESP that
%% describe it, and for listeners that redirect to the leader.
%%
%% Two nodes that each take the other one for the leader would send a client to
%% and fro until it gives up. So a node redirects to another one only after that
%% one has answered that it leads, and redirects no more itself.
-module(todana_topology).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, id/1, note/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% Between two looks for a leader while none is known: a client that is
%% redirected to one that is dead comes back.
-define(TICK_MS, 100).
%% A leader answers once a second, or more often.
-define(SILENT_MS, 2_500).
%% It is late, and looked for more often.
-define(LATE_MS, 1_500).
-define(RETRIES, 10).

%% Of a node that is not in the map yet.
-define(UNKNOWN, #{host => ~"", resp => 0, resp_cluster => 0}).

-record(state, {
    cluster :: binary(),
    %% Whether the next tick is to come.
    is_ticking = false :: boolean(),
    %% Looks that are left for a leader that this node may not know yet.
    retries = 0 :: non_neg_integer(),
    options :: todana_config:options(),
    %% The last leader known, and whether it has said so itself.
    leader = none :: node() | none,
    is_confirmed = false :: boolean(),
    offsets = #{} :: #{node() => non_neg_integer()},
    noted = none :: none | todana_nif:topology()
}).

-spec start_link(todana_config:options()) -> gen_server:start_ret().
start_link(Options) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, Options, []).

-doc "The identity of a node as Redis' clients know it: 40 hex digits.".
-spec id(iodata()) -> binary().
id(Name) ->
    binary:encode_hex(crypto:hash(sha, Name), lowercase).

-doc """
Passes to native code what is known now. After the listeners are open, a client
may ask at once where they are.
""".
-spec note() -> ok.
note() ->
    try
        gen_server:call(?MODULE, note)
    catch
        %% It does so itself when it starts.
        exit:_ -> ok
    end.

-spec init(todana_config:options()) -> {ok, #state{}}.
init(Options) ->
    process_flag(trap_exit, true),
    ok = net_kernel:monitor_nodes(true),
    self() ! beat,
    {ok, #state{cluster = todana_admission:cluster(), options = Options}}.

-spec handle_call(note, gen_server:from(), #state{}) -> {reply, ok, #state{}}.
handle_call(note, _From, State) ->
    {reply, ok, note(State)}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({do_you_lead, Node}, State) ->
    New = seen(State),
    _ = New#state.leader =:= node() andalso send(Node, {leads, node()}),
    {noreply, New};
%% The answer, or a leader that was just elected, which this node may not know.
handle_cast({leads, Leader}, State) ->
    case look(State) of
        #state{leader = Leader} = New ->
            {noreply, tick(note(New#state{is_confirmed = true}))};
        New ->
            {noreply, again(note(New#state{retries = ?RETRIES}))}
    end;
handle_cast(_Message, State) ->
    {noreply, State}.

-spec send(node(), term()) -> ok.
send(Node, Message) ->
    %% This process waits for no node that hangs.
    _ = erlang:send(
        {?MODULE, Node}, {'$gen_cast', Message}, [noconnect, nosuspend]
    ),
    ok.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(beat, State) ->
    ok = todana_beat:flush(),
    {noreply, seen(State#state{offsets = offsets()})};
handle_info(tick, State) ->
    {noreply, seen(State#state{is_ticking = false})};
%% Without delay, since clients come back at once if the leader is dead.
handle_info({nodedown, _Node}, State) ->
    {noreply, seen(State)};
%% This node leads, or follows, from now on: `leader/0' has it in a moment.
handle_info(todana_leader, State) ->
    {noreply, again(State#state{retries = ?RETRIES})};
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, _State) ->
    todana_nif:cluster_topology(none).

-spec seen(#state{}) -> #state{}.
seen(State) -> tick(note(look(State))).

-spec tick(#state{}) -> #state{}.
tick(#state{retries = Left} = State) when Left > 0 ->
    again(State#state{retries = Left - 1});
tick(#state{noted = #{is_led := true}} = State) ->
    case todana_leader_proof:is_silent(group(), ?LATE_MS) of
        true -> again(State);
        false -> State
    end;
tick(State) ->
    again(State).

-spec again(#state{}) -> #state{}.
again(#state{is_ticking = true} = State) ->
    State;
again(State) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
    State#state{is_ticking = true}.

-spec look(#state{}) -> #state{}.
look(State) ->
    confirm(led(todana_members:leader(group()), State)).

-spec led(node() | none, #state{}) -> #state{}.
led(none, State) ->
    State;
led(Leader, #state{leader = Leader} = State) ->
    State;
led(Leader, State) ->
    %% The others may follow it without noticing.
    _ = [send(Node, {leads, Leader}) || Leader =:= node(), Node <- nodes()],
    State#state{leader = Leader, is_confirmed = false}.

-spec confirm(#state{}) -> #state{}.
confirm(#state{leader = none} = State) ->
    State;
confirm(#state{leader = Leader} = State) when Leader =:= node() ->
    State#state{is_confirmed = true};
confirm(#state{is_confirmed = false, leader = Leader} = State) ->
    ok = send(Leader, {do_you_lead, node()}),
    State;
confirm(State) ->
    State.

%% The leader knows how far the others are.
-spec offsets() -> #{node() => non_neg_integer()}.
offsets() ->
    case todana_members:leader(group()) =:= node() of
        true -> todana_copies:last(group());
        false -> #{}
    end.

-spec note(#state{}) -> #state{}.
note(#state{cluster = Cluster, leader = Leader} = State) ->
    Nodes = lists:usort([node() | todana_members:known(group())]),
    #{term := Term} = todana_members:facts(group()),
    Topology = #{
        id => id(Cluster),
        epoch => Term,
        nodes => described(Nodes, State),
        own => position(node(), Nodes),
        leader => position(Leader, Nodes),
        is_led => State#state.is_confirmed andalso is_reachable(Leader)
    },
    case State of
        #state{noted = Topology} ->
            State;
        #state{} ->
            ok = todana_nif:cluster_topology(Topology),
            State#state{noted = Topology}
    end.

-spec described([node()], #state{}) -> [todana_nif:topology_node()].
described(Nodes, #state{cluster = Cluster, offsets = Offsets} = State) ->
    Map = with_own(todana_cluster_map:nodes(Nodes), State),
    Own = Offsets#{node() => todana_nif:group_applied(group())},
    [
        begin
            Name = atom_to_binary(Node),
            #{host := Host, resp := Resp, resp_cluster := Redirect} =
                maps:get(Node, Map, ?UNKNOWN),
            {id([Cluster, Name]), Name, Host, Resp, Redirect,
             lists:member(Node, [node() | nodes()]), maps:get(Node, Own, 0)}
        end
     || Node <- Nodes
    ].

%% A node serves its clients before it has written its place into the map.
-spec with_own(Map, #state{}) -> Map when
    Map :: #{node() => todana_cluster_map:entry()}.
with_own(Map, #state{options = Options}) ->
    Map#{node() => todana_cluster_map:own(Options)}.

%% The position in a list as native code counts.
-spec position(node() | none, [node()]) -> non_neg_integer() | none.
position(Node, Nodes) ->
    case lists:takewhile(fun(Other) -> Other =/= Node end, Nodes) of
        Nodes -> none;
        Before -> length(Before)
    end.

%% A leader that is cut off from the others does not know it.
-spec is_reachable(node()) -> boolean().
is_reachable(Leader) ->
    lists:member(Leader, [node() | nodes()]) andalso
        not todana_leader_proof:is_silent(group(), ?SILENT_MS).

%% There is one leader for all slots.
-spec group() -> todana_raft_groups:id().
group() -> todana_raft_groups:first().
