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

%% A client that is redirected to a leader that is dead comes back.
-define(TICK_MS, 100).
%% A leader answers four times a second.
-define(SILENT_MS, 2_000).
%% Ticks between two looks at how far the others are.
-define(OFFSET_TICKS, 10).

%% Of a node that is not in the map yet.
-define(UNKNOWN, #{host => ~"", resp => 0, resp_cluster => 0}).

-record(state, {
    cluster :: binary(),
    ticks = 0 :: non_neg_integer(),
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
        %% It does so itself when it starts, and ten times a second.
        exit:_ -> ok
    end.

-spec init(todana_config:options()) -> {ok, #state{}}.
init(Options) ->
    process_flag(trap_exit, true),
    ok = net_kernel:monitor_nodes(true),
    self() ! tick,
    {ok, #state{cluster = todana_admission:cluster(), options = Options}}.

-spec handle_call(note, gen_server:from(), #state{}) -> {reply, ok, #state{}}.
handle_call(note, _From, State) ->
    {reply, ok, note(State)}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({do_you_lead, Node}, State) ->
    New = note(look(State)),
    _ = New#state.leader =:= node() andalso send(Node, {leads, node()}),
    {noreply, New};
handle_cast({leads, Leader}, #state{leader = Leader} = State) ->
    {noreply, note(State#state{is_confirmed = true})};
handle_cast(_Message, State) ->
    {noreply, State}.

-spec send(node(), term()) -> ok.
send(Node, Message) ->
    gen_server:cast({?MODULE, Node}, Message).

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(tick, State) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
    {noreply, note(look(State#state{ticks = State#state.ticks + 1}))};
%% Without delay, since clients come back at once if the leader is dead.
handle_info({nodedown, _Node}, State) ->
    {noreply, note(look(State))};
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, _State) ->
    todana_nif:cluster_topology(none).

-spec look(#state{}) -> #state{}.
look(#state{ticks = Ticks} = State) ->
    Offsets =
        case Ticks rem ?OFFSET_TICKS of
            0 -> offsets();
            _ -> State#state.offsets
        end,
    confirm(led(todana_members:leader(), State#state{offsets = Offsets})).

-spec led(node() | none, #state{}) -> #state{}.
led(none, State) -> State;
led(Leader, #state{leader = Leader} = State) -> State;
led(Leader, State) -> State#state{leader = Leader, is_confirmed = false}.

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
    case todana_members:leader() =:= node() andalso
        todana_members:list([node()]) of
        {ok, _, Members} ->
            #{N => Index || #{node := N, match_index := Index} <- Members};
        _ ->
            #{}
    end.

-spec note(#state{}) -> #state{}.
note(#state{cluster = Cluster, leader = Leader} = State) ->
    Nodes = lists:usort([node() | todana_members:known()]),
    #{term := Term} = todana_members:facts(),
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
    Own = Offsets#{node() => todana_nif:group_applied()},
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
        not todana_read_index:is_silent(?SILENT_MS).
