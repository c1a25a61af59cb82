%% Asks the leader of a group up to which entry of the log a read must see.
%%
%% A member may be cut off from the others without noticing it, even the leader.
%% So it asks the leader how far the log goes: once a second, more often while
%% there are readers, and when they wait. A leader answers only after a majority
%% has confirmed that it still leads. The answer is a fact about the moment at
%% which the question was sent: once its entries are applied here, the databases
%% have everything that was acknowledged until then.
%%
%% Readers wait in native code (native/group/src/waiting_reads.rs). Each
%% question has a number and serves all who have waited until it was sent; only
%% one is on its way at a time, however many readers there are.
-module(todana_read_index).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/2]).
%% Processes
-export([ask_and_exit/3]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% How often the leader is asked while somebody reads and no reader waits: so
%% often that the answers overlap, and not more often than needed.
-define(TICK_MS_MAX, 250).
-define(TICK_MS_MIN, 10).
-define(ASK_TIMEOUT_MS, 1_000).
%% How long a question waits before it is looked at whether another node leads.
-define(LOOK_MS, 50).
%% The pause after a question without an answer.
-define(RETRY_MS, 20).
%% The same if no reader waits.
-define(FAILED_MS, 100).
%% A reader that pauses for less finds the records fresh.
-define(PAUSE_MS, 2_000).

-record(state, {
    group :: todana_raft_groups:id(),
    tick_ms :: pos_integer(),
    %% Whether the next tick is to come.
    is_ticking = false :: boolean(),
    %% When somebody was last seen to read.
    read_ms :: integer(),
    question = none :: none | question(),
    %% Whether someone has come since it was sent.
    is_wanted = false :: boolean(),
    %% The next look.
    looks = none :: none | reference()
}).

-type question() :: #{
    number := pos_integer(),
    asker := pid(),
    leader := node() | none,
    sent_ms := integer()
}.

-doc "Starts the process. For so long the databases are fresh after an answer.".
-spec start_link(todana_raft_groups:id(), BoundMs :: pos_integer()) ->
    gen_server:start_ret().
start_link(Group, BoundMs) ->
    Name = todana_raft_groups:name(?MODULE, Group),
    gen_server:start_link({local, Name}, ?MODULE, {Group, BoundMs}, []).

-spec init({todana_raft_groups:id(), pos_integer()}) -> {ok, #state{}}.
init({Group, BoundMs}) ->
    _ = process_flag(trap_exit, true),
    ok = todana_leader_proof:begin_notes(Group),
    ok = todana_nif:group_read_attach(Group, self()),
    self() ! beat,
    TickMs = max(?TICK_MS_MIN, min(?TICK_MS_MAX, BoundMs div 4)),
    {ok, #state{group = Group, tick_ms = TickMs, read_ms = now_ms()}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(beat, #state{group = Group} = State) ->
    Others = lists:delete(node(), todana_members:known(Group)),
    ok = todana_nif:group_read_several(Group, length(Others)),
    {noreply, read(ask(State))};
handle_info(tick, State) ->
    {noreply, read(ask(State#state{is_ticking = false}))};
%% From native code: a reader waits for the next question.
handle_info(todana_read, State) ->
    {noreply, read(ask(State#state{is_wanted = true}))};
handle_info({'DOWN', _, process, Pid, Result}, #state{
    question = #{asker := Pid} = Question
} = State) ->
    {noreply, ended(Result, Question, looks_no_more(
        State#state{question = none}
    ))};
handle_info({timeout, Timer, look}, #state{looks = Timer} = State) ->
    #state{question = Question} = New = State#state{looks = none},
    case Question of
        none ->
            {noreply, New};
        #{asker := Asker, leader := Leader} ->
            _ = has_other_leader(Leader, New) andalso exit(Asker, kill),
            {noreply, look(New)}
    end;
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, #state{group = Group}) ->
    todana_leader_proof:end_notes(Group).

%% While there are readers, also with pauses, they find the records fresh.
-spec read(#state{}) -> #state{}.
read(#state{group = Group, tick_ms = TickMs} = State) ->
    NowMs = now_ms(),
    case todana_nif:group_was_read(Group) of
        true -> tick(TickMs, State#state{read_ms = NowMs});
        false when NowMs - State#state.read_ms < ?PAUSE_MS ->
            tick(TickMs, State);
        false ->
            State
    end.

-spec tick(pos_integer(), #state{}) -> #state{}.
tick(_AfterMs, #state{is_ticking = true} = State) ->
    State;
tick(AfterMs, State) ->
    _ = erlang:send_after(AfterMs, self(), tick),
    State#state{is_ticking = true}.

-spec ended(term(), question(), #state{}) -> #state{}.
ended({answered, Index}, #{number := Number, sent_ms := SentMs}, State) ->
    #state{group = Group} = State,
    ok = todana_nif:group_read_answered(Group, Number, Index),
    ok = todana_leader_proof:note(Group, SentMs),
    case State#state.is_wanted of
        true -> ask(State);
        false -> State
    end;
ended(_Failure, #{number := Number}, #state{group = Group} = State) ->
    _ = todana_nif:group_read_failed(Group, Number) andalso
        erlang:send_after(?RETRY_MS, self(), todana_read),
    tick(?FAILED_MS, State).

-spec ask(#state{}) -> #state{}.
ask(#state{group = Group, question = none} = State) ->
    Leader = todana_members:leader(Group),
    SentMs = now_ms(),
    Number = todana_nif:group_read_begin(Group),
    {Asker, _} = spawn_monitor(?MODULE, ask_and_exit, [
        Group, leader_first(Leader, todana_members:known(Group)),
        ?ASK_TIMEOUT_MS
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
look(#state{looks = none} = State) ->
    State#state{looks = erlang:start_timer(?LOOK_MS, self(), look)};
look(State) ->
    State.

-spec looks_no_more(#state{}) -> #state{}.
looks_no_more(#state{looks = none} = State) ->
    State;
looks_no_more(#state{looks = Timer} = State) ->
    _ = erlang:cancel_timer(Timer),
    State#state{looks = none}.

-spec has_other_leader(node() | none, #state{}) -> boolean().
has_other_leader(Leader, #state{group = Group}) ->
    not lists:member(todana_members:leader(Group), [none, Leader]).

-spec ask_and_exit(todana_raft_groups:id(), [node()], timeout()) -> no_return().
ask_and_exit(Group, Nodes, TimeoutMs) ->
    case todana_members:read_index(Group, Nodes, TimeoutMs) of
        {ok, Index} -> exit({answered, Index});
        {error, Reason} -> exit({unanswered, Reason})
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
