%% Asks the leader up to which entry of the log a read must see.
%%
%% A member may be cut off from the others without noticing it, even the leader.
%% So it asks the leader how far the log goes, a few times a second and when
%% readers wait; a leader answers only after a majority has confirmed that it
%% still leads. The answer is a fact about the moment at which the question was
%% sent: once its entries are applied here, the databases have everything that
%% was acknowledged until then.
%%
%% Readers wait in native code (native/group/src/reads.rs). Each question has a
%% number and serves all who have waited until it was sent; only one is on its
%% way at a time, however many readers there are.
-module(todana_read_index).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1, is_silent/1, answered_ms/0]).
%% Processes
-export([ask_and_exit/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% How often the leader is asked if no reader waits: so often that the answers
%% overlap, and not more often than needed.
-define(TICK_MS_MAX, 250).
-define(TICK_MS_MIN, 10).
-define(ASK_TIMEOUT_MS, 1_000).
%% How long a question waits before it is looked at whether another node leads.
-define(LOOK_MS, 50).
%% The pause after a question without an answer.
-define(RETRY_MS, 20).
%% Two times of the last answer: that of its question, which is the moment that
%% it proves something about, and its own.
-define(PROVED, 1).
-define(ANSWERED, 2).

-record(state, {
    tick_ms :: pos_integer(),
    question = none :: none | question(),
    %% Whether someone has come since it was sent.
    is_wanted = false :: boolean(),
    is_looking = false :: boolean()
}).

-type question() :: #{
    number := pos_integer(),
    asker := pid(),
    leader := node() | none,
    sent_ms := integer()
}.

-doc "Starts the process. For so long the databases are fresh after an answer.".
-spec start_link(BoundMs :: pos_integer()) -> gen_server:start_ret().
start_link(BoundMs) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, BoundMs, []).

-doc "Whether no leader has answered for this time.".
-spec is_silent(non_neg_integer()) -> boolean().
is_silent(ForMs) ->
    case persistent_term:get(?MODULE, none) of
        none -> false;
        Counter -> now_ms() - atomics:get(Counter, ?PROVED) > ForMs
    end.

-doc "When the leader has answered for the last time.".
-spec answered_ms() -> integer().
answered_ms() -> atomics:get(persistent_term:get(?MODULE), ?ANSWERED).

-spec init(pos_integer()) -> {ok, #state{}}.
init(BoundMs) ->
    _ = process_flag(trap_exit, true),
    Counter = atomics:new(2, []),
    ok = atomics:put(Counter, ?PROVED, now_ms()),
    ok = atomics:put(Counter, ?ANSWERED, now_ms()),
    ok = persistent_term:put(?MODULE, Counter),
    ok = todana_nif:group_read_attach(self()),
    self() ! tick,
    TickMs = max(?TICK_MS_MIN, min(?TICK_MS_MAX, BoundMs div 4)),
    {ok, #state{tick_ms = TickMs}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(tick, #state{tick_ms = TickMs} = State) ->
    _ = erlang:send_after(TickMs, self(), tick),
    Others = lists:delete(node(), todana_members:known()),
    ok = todana_nif:group_read_several(length(Others)),
    {noreply, ask(State)};
%% From native code: a reader waits for the next question.
handle_info(todana_read, State) ->
    {noreply, ask(State#state{is_wanted = true})};
handle_info({'DOWN', _, process, Pid, Result}, #state{
    question = #{asker := Pid} = Question
} = State) ->
    {noreply, ended(Result, Question, State#state{question = none})};
handle_info(look, #state{question = Question} = State) ->
    New = State#state{is_looking = false},
    case Question of
        none ->
            {noreply, New};
        #{asker := Asker, leader := Leader} ->
            _ = has_other_leader(Leader) andalso exit(Asker, kill),
            {noreply, look(New)}
    end;
handle_info(_Message, State) ->
    {noreply, State}.

%% A node that belongs to no cluster next has nobody to wait for.
-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, _State) ->
    _ = persistent_term:erase(?MODULE),
    ok.

-spec ended(term(), question(), #state{}) -> #state{}.
ended({answered, Index}, #{number := Number, sent_ms := SentMs}, State) ->
    ok = todana_nif:group_read_answered(Number, Index),
    Counter = persistent_term:get(?MODULE),
    ok = atomics:put(Counter, ?PROVED, SentMs),
    ok = atomics:put(Counter, ?ANSWERED, now_ms()),
    case State#state.is_wanted of
        true -> ask(State);
        false -> State
    end;
ended(_Failure, #{number := Number}, State) ->
    _ = todana_nif:group_read_failed(Number) andalso
        erlang:send_after(?RETRY_MS, self(), todana_read),
    State.

-spec ask(#state{}) -> #state{}.
ask(#state{question = none} = State) ->
    Leader = todana_members:leader(),
    SentMs = now_ms(),
    Number = todana_nif:group_read_begin(),
    {Asker, _} = spawn_monitor(?MODULE, ask_and_exit, [
        leader_first(Leader, todana_members:known()), ?ASK_TIMEOUT_MS
    ]),
    Question = #{
        number => Number, asker => Asker, leader => Leader, sent_ms => SentMs
    },
    look(State#state{question = Question, is_wanted = false});
ask(State) ->
    State.

%% A node that does not answer would cost its time, if it was asked first.
-spec leader_first(node() | none, [node()]) -> [node()].
leader_first(none, Nodes) -> [node() | lists:delete(node(), Nodes)];
leader_first(Leader, Nodes) -> [Leader | lists:delete(Leader, Nodes)].

-spec look(#state{}) -> #state{}.
look(#state{is_looking = false} = State) ->
    _ = erlang:send_after(?LOOK_MS, self(), look),
    State#state{is_looking = true};
look(State) ->
    State.

-spec has_other_leader(node() | none) -> boolean().
has_other_leader(Leader) ->
    not lists:member(todana_members:leader(), [none, Leader]).

-spec ask_and_exit([node()], timeout()) -> no_return().
ask_and_exit(Nodes, TimeoutMs) ->
    case todana_members:read_index(Nodes, TimeoutMs) of
        {ok, Index} -> exit({answered, Index});
        {error, Reason} -> exit({unanswered, Reason})
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
