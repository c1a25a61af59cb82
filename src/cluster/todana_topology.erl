%% Keeps native code informed about the cluster, for the commands of RESP that
%% describe it, and for listeners that redirect to the leader.
-module(todana_topology).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0, id/1]).
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
    %% The last leader known.
    leader = none :: node() | none,
    offsets = #{} :: #{node() => non_neg_integer()},
    noted = none :: none | todana_nif:topology()
}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-doc "The identity of a node as Redis' clients know it: 40 hex digits.".
-spec id(iodata()) -> binary().
id(Name) ->
    binary:encode_hex(crypto:hash(sha, Name), lowercase).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    process_flag(trap_exit, true),
    self() ! tick,
    {ok, #state{cluster = todana_admission:cluster()}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(tick, State) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
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
    Leader =
        case todana_members:leader() of
            none -> State#state.leader;
            Known -> Known
        end,
    State#state{ticks = Ticks + 1, leader = Leader, offsets = Offsets}.

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
    Topology = #{
        id => id(Cluster),
        epoch => term(),
        nodes => described(Nodes, State),
        own => position(node(), Nodes),
        leader => position(Leader, Nodes),
        is_led => is_led(Leader)
    },
    case State of
        #state{noted = Topology} ->
            State;
        #state{} ->
            ok = todana_nif:cluster_topology(Topology),
            State#state{noted = Topology}
    end.

-spec described([node()], #state{}) -> [todana_nif:topology_node()].
described(Nodes, #state{cluster = Cluster, offsets = Offsets}) ->
    Map = todana_cluster_map:nodes(Nodes),
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

%% The position in a list as native code counts.
-spec position(node() | none, [node()]) -> non_neg_integer() | none.
position(Node, Nodes) ->
    case lists:takewhile(fun(Other) -> Other =/= Node end, Nodes) of
        Nodes -> none;
        Before -> length(Before)
    end.

-spec term() -> non_neg_integer().
term() ->
    case ra:key_metrics(todana_ra:server()) of
        #{term := Term} -> Term;
        #{} -> 0
    end.

%% A leader that is cut off from the others does not know it.
-spec is_led(node() | none) -> boolean().
is_led(Leader) ->
    Leader =/= none andalso
        (Leader =:= node() orelse lists:member(Leader, nodes())) andalso
        not todana_read_index:is_silent(?SILENT_MS).
