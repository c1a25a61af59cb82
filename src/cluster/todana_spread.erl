%% Passes what clients publish to the other nodes of the cluster.
%%
%% Messages do not go through the log: like the bus of Redis Cluster, this
%% neither waits nor repeats. Native code queues the messages and wakes this
%% process once for all of them (native/server/src/spread.rs); each bundle is
%% one message to each other member. If the connection to a member is full, or
%% there is none, the bundle is dropped for it, and counted.
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
            {noreply, send(Bundle, others(), State)}
    end;
%% From another member.
handle_info({todana_spread, Bundle}, State) when is_binary(Bundle) ->
    case process_info(self(), message_queue_len) of
        {message_queue_len, Length} when
            Length > ?QUEUE_MAX;
            Length * byte_size(Bundle) > ?QUEUE_BYTES_MAX
        ->
            {noreply, dropped(Bundle, node(), State)};
        _ ->
            ok = todana_nif:spread_deliver(Bundle),
            {noreply, State}
    end;
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, _State) ->
    todana_nif:spread_detach().

-spec others() -> [node()].
others() ->
    lists:delete(node(), todana_members:known(todana_raft_groups:first())).

-spec send(binary(), [node()], #state{}) -> #state{}.
send(Bundle, Nodes, State) ->
    Options = [noconnect, nosuspend],
    lists:foldl(
        fun(Node, Now) ->
            case erlang:send({?MODULE, Node}, {?MODULE, Bundle}, Options) of
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
