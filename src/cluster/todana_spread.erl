%% Passes what clients publish to the other nodes of the cluster.
%%
%% Messages do not go through the log: like the bus of Redis Cluster, this
%% neither waits nor repeats. Native code queues the messages and wakes this
%% process once for all of them (native/server/src/spread.rs), in bundles. Each
%% other member gets one message with those of a bundle that it wants
%% (todana_interest), and so do from there the guests that have their seat
%% there. A guest sends its bundles to its seat, which passes them on as its
%% own. If the connection to a node is full, or there is none, the messages are
%% dropped for it, and counted.
-module(todana_spread).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0, figures/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% A member that delivers more slowly than it receives drops the rest: bundles,
%% and their bytes if all that wait are as long as the next one.
-define(QUEUE_MAX, 10_000).
-define(QUEUE_BYTES_MAX, 16#4000000).
-define(COMPLAINT_MS, 10_000).
%% In the order of figures/0.
-define(FIGURES, 4).
-define(SENT, 1).
-define(RECEIVED, 3).

-record(state, {
    complained_ms = none :: none | integer(),
    figures :: counters:counters_ref()
}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-doc "Bundles and bytes since the node has started.".
-spec figures() ->
    #{bundles_sent := non_neg_integer(), bytes_sent := non_neg_integer(),
      bundles_received := non_neg_integer(),
      bytes_received := non_neg_integer()}.
figures() ->
    Counted = counted(),
    [Sent, SentBytes, Received, ReceivedBytes] =
        [counters:get(Counted, N) || N <- lists:seq(1, ?FIGURES)],
    #{
        bundles_sent => Sent, bytes_sent => SentBytes,
        bundles_received => Received, bytes_received => ReceivedBytes
    }.

%% They outlive the process.
-spec counted() -> counters:counters_ref().
counted() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            New = counters:new(?FIGURES, []),
            ok = persistent_term:put(?MODULE, New),
            New;
        Counted ->
            Counted
    end.

-spec init([]) -> {ok, #state{}}.
init([]) ->
    _ = process_flag(trap_exit, true),
    _ = process_flag(message_queue_data, off_heap),
    ok = todana_nif:spread_attach(self()),
    self() ! todana_spread,
    {ok, #state{figures = counted()}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
%% From native code: there is a bundle.
handle_info(todana_spread, State) ->
    Nodes = case todana_guest:is_guest() of
        true -> [];
        false -> others() ++ todana_seats:guests()
    end,
    case todana_nif:spread_take(Nodes) of
        empty ->
            {noreply, State};
        {Bundle, Selected} ->
            %% Messages that have arrived meanwhile come first.
            self() ! todana_spread,
            {noreply, publish(Bundle, Nodes, Selected, State)}
    end;
%% From another member, or to a guest from its seat.
handle_info({todana_spread, Bundle}, State) when is_binary(Bundle) ->
    {noreply, deliver(Bundle, todana_seats:guests(), State)};
%% From a guest.
handle_info({todana_spread, Guest, Bundle}, State) when is_binary(Bundle) ->
    Guests = lists:delete(Guest, todana_seats:guests()),
    {noreply, deliver(Bundle, others() ++ Guests, State)};
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, _State) ->
    todana_nif:spread_detach().

%% Of clients of this node.
-spec publish(binary(), [node()], [binary() | nothing], #state{}) -> #state{}.
publish(Bundle, Nodes, Selected, State) ->
    case {todana_guest:is_guest(), todana_guest:seat()} of
        {false, _} -> send(Nodes, Selected, State);
        {true, none} -> dropped(Bundle, node(), State);
        {true, Seat} -> send(Seat, {?MODULE, node(), Bundle}, Bundle, State)
    end.

%% To the clients of this node, and to others.
-spec deliver(binary(), [node()], #state{}) -> #state{}.
deliver(Bundle, Others, #state{figures = Figures} = State) ->
    ok = count(Figures, ?RECEIVED, Bundle),
    case process_info(self(), message_queue_len) of
        {message_queue_len, Length} when
            Length > ?QUEUE_MAX;
            Length * byte_size(Bundle) > ?QUEUE_BYTES_MAX
        ->
            dropped(Bundle, node(), State);
        _ ->
            ok = todana_nif:spread_deliver(Bundle),
            send(Others, selected(Bundle, Others), State)
    end.

-spec selected(binary(), [node()]) -> [binary() | nothing].
selected(_Bundle, []) -> [];
selected(Bundle, Nodes) -> todana_nif:spread_select(Bundle, Nodes).

-spec others() -> [node()].
others() ->
    lists:delete(node(), todana_members:known(todana_raft_groups:first())).

%% To each node what was selected for it.
-spec send([node()], [binary() | nothing], #state{}) -> #state{}.
send(Nodes, Selected, State) ->
    lists:foldl(
        fun
            ({_Node, nothing}, Now) -> Now;
            ({Node, Some}, Now) -> send(Node, {?MODULE, Some}, Some, Now)
        end,
        State,
        lists:zip(Nodes, Selected)
    ).

-spec send(node(), tuple(), binary(), #state{}) -> #state{}.
send(Node, Message, Bundle, #state{figures = Figures} = State) ->
    case erlang:send({?MODULE, Node}, Message, [noconnect, nosuspend]) of
        ok ->
            ok = count(Figures, ?SENT, Bundle),
            State;
        _ ->
            dropped(Bundle, Node, State)
    end.

-spec count(counters:counters_ref(), pos_integer(), binary()) -> ok.
count(Figures, At, Bundle) ->
    ok = counters:add(Figures, At, 1),
    counters:add(Figures, At + 1, byte_size(Bundle)).

-spec dropped(binary(), node(), #state{}) -> #state{}.
dropped(Bundle, Node, #state{complained_ms = ComplainedMs} = State) ->
    ok = todana_nif:spread_dropped(Bundle),
    NowMs = erlang:monotonic_time(millisecond),
    case ComplainedMs =:= none orelse NowMs - ComplainedMs > ?COMPLAINT_MS of
        true ->
            logger:warning(
                "todana: messages to channels did not reach ~s, which is not "
                "connected or does not keep up",
                [Node]
            ),
            State#state{complained_ms = NowMs};
        false ->
            State
    end.
