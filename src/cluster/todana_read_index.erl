%% Knows up to which entry of the log a read must see, and for how long the
%% databases of this node are fresh.
%%
%% A member may be cut off from the others without noticing it, even the leader.
%% So it asks the leader four times a second how far the log goes; a leader
%% answers only after a majority has confirmed that it still leads. The answer
%% is a fact about the moment at which the question was sent: once its entries
%% are applied here, the databases have everything that was acknowledged until
%% then. Only one question is on its way at a time, and later ones
%% wait for the next.
%%
%% The only member of a group has nobody to ask: its databases are always fresh.
-module(todana_read_index).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0, is_silent/1]).
%% Processes
-export([ask_and_exit/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(TICK_MS, 250).
-define(ASK_TIMEOUT_MS, 1_000).

-record(state, {
    %% The process that asks, when it began, and whether someone came since.
    asker = none :: none | {pid(), integer()},
    is_wanted = false :: boolean(),
    answered_ms :: integer()
}).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-doc "Whether the leader has not answered for this time.".
-spec answered(integer(), non_neg_integer()) -> ok.
answered(SentMs, Index) ->
    case todana_members:await(Index, ?ASK_TIMEOUT_MS) of
        ok -> atomics:put(persistent_term:get(?MODULE), 1, SentMs);
        {error, timeout} -> ok
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).

-spec is_silent(non_neg_integer()) -> boolean().
is_silent(ForMs) ->
    case persistent_term:get(?MODULE, none) of
        none -> false;
        Counter -> now_ms() - atomics:get(Counter, 1) > ForMs
    end.

-spec init([]) -> {ok, #state{}}.
init([]) ->
    NowMs = now_ms(),
    Counter = atomics:new(1, []),
    ok = atomics:put(Counter, 1, NowMs),
    ok = persistent_term:put(?MODULE, Counter),
    self() ! tick,
    {ok, #state{answered_ms = NowMs}}.

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
    {noreply, ask(State)};
%% From native code: readers wait.
handle_info(todana_read, State) ->
    {noreply, ask(State#state{is_wanted = true})};
handle_info({'DOWN', _, process, Pid, Result}, #state{
    asker = {Pid, SentMs}
} = State) ->
    New = State#state{asker = none},
    case Result of
        {answered, Index} ->
            ok = answered(SentMs, Index),
            {noreply, again(New#state{answered_ms = SentMs})};
        _ ->
            {noreply, New}
    end;
handle_info(_Message, State) ->
    {noreply, State}.

-spec again(#state{}) -> #state{}.
again(#state{is_wanted = true} = State) -> ask(State);
again(State) -> State.

-spec ask(#state{}) -> #state{}.
ask(#state{asker = none} = State) ->
    Nodes = todana_members:known(),
    {Pid, _} = spawn_monitor(?MODULE, ask_and_exit, [Nodes, ?ASK_TIMEOUT_MS]),
    State#state{asker = {Pid, now_ms()}, is_wanted = false};
ask(State) ->
    State.

-spec ask_and_exit([node()], timeout()) -> no_return().
ask_and_exit(Nodes, TimeoutMs) ->
    case todana_members:read_index(Nodes, TimeoutMs) of
        {ok, Index} -> exit({answered, Index});
        {error, Reason} -> exit({unanswered, Reason})
    end.
