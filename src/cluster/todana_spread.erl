%% Passes what clients publish to the other nodes of the cluster.
%%
%% Messages do not go through the log: like the bus of Redis Cluster, this
%% neither waits nor repeats. Native code queues the messages and wakes this
%% process once for all of them (native/server/src/spread.rs); each bundle is
%% one message to each other member, and from there to the guests that have
%% their seat there. A guest sends its bundles to its seat, which passes them on
%% as its own. If the connection to a node is full, or there is none, the bundle
%% is dropped for it, and counted.
-module(todana_spread).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% A member that delivers more slowly than it receives drops the rest: bundles,
%% and their bytes if all that wait are as long as the next one.
-define(QUEUE_MAX, 10_000).
-define(QUEUE_BYTES_MAX, 16#4000000).
-define(COMPLAINT_MS, 10_000).

-record(state, {complained_ms = none :: none | integer()}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    _ = process_flag(trap_exit, true),
    _ = process_flag(message_queue_data, off_heap),
    ok = todana_nif:spread_attach(self()),
    self() ! todana_spread,
    {ok, #state{}}.

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
    case todana_nif:spread_take() of
        empty ->
            {noreply, State};
        Bundle ->
            %% Messages that have arrived meanwhile come first.
            self() ! todana_spread,
            {noreply, publish(Bundle, State)}
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
-spec publish(binary(), #state{}) -> #state{}.
publish(Bundle, State) ->
    case {todana_guest:is_guest(), todana_guest:seat()} of
        {false, _} -> send(Bundle, others() ++ todana_seats:guests(), State);
        {true, none} -> dropped(Bundle, node(), State);
        {true, Seat} -> send({?MODULE, node(), Bundle}, Bundle, [Seat], State)
    end.

%% To the clients of this node, and to others.
-spec deliver(binary(), [node()], #state{}) -> #state{}.
deliver(Bundle, Others, State) ->
    case process_info(self(), message_queue_len) of
        {message_queue_len, Length} when
            Length > ?QUEUE_MAX;
            Length * byte_size(Bundle) > ?QUEUE_BYTES_MAX
        ->
            dropped(Bundle, node(), State);
        _ ->
            ok = todana_nif:spread_deliver(Bundle),
            send(Bundle, Others, State)
    end.

-spec others() -> [node()].
others() ->
    lists:delete(node(), todana_members:known(todana_raft_groups:first())).

-spec send(binary(), [node()], #state{}) -> #state{}.
send(Bundle, Nodes, State) ->
    send({?MODULE, Bundle}, Bundle, Nodes, State).

-spec send(tuple(), binary(), [node()], #state{}) -> #state{}.
send(Message, Bundle, Nodes, State) ->
    Options = [noconnect, nosuspend],
    lists:foldl(
        fun(Node, Now) ->
            case erlang:send({?MODULE, Node}, Message, Options) of
                ok -> Now;
                _ -> dropped(Bundle, Node, Now)
            end
        end,
        State,
        Nodes
    ).

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
