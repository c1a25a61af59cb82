%% Replaces a leader of a group that is stuck but alive.
%%
%% Ra replaces a leader whose process or node is gone. It keeps one that hears
%% nobody, or whose process hangs: nothing makes a leader step down because
%% answers are missing, and its followers hear as little of an idle leader as
%% of one that hangs. So each follower looks for signs of its leader's work
%% (todana_silence). One that has seen none for too long complains to the other
%% voters, again and again. When a majority of the voters complains of the same
%% leader, the one of them with the longest log asks Ra for an election.
%%
%% One follower alone never causes an election, because it may be the one that
%% is cut off. Neither does a follower whose own server does not answer.
-module(todana_watchdog).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/1]).
%% The decision, for tests
-export([chosen/3]).
%% Processes
-export([ask_and_exit/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% Between two looks while signs are missing; otherwise it looks at each beat.
-define(TICK_MS, 250).
%% How long this node's own server may take to answer.
-define(ASK_TIMEOUT_MS, 250).
%% A message of the old leader ends Ra's election, so it is repeated, after a
%% pause that grows.
-define(PAUSE_MS_MIN, 500).
-define(PAUSE_MS_MAX, 16_000).
%% How long a complaint counts.
-define(COMPLAINT_MS, 1_000).

%% A complaint of a node: the leader, the last entry of its log, the time.
-type complaints() :: #{
    node() => {todana_members:leadership(), non_neg_integer(), integer()}
}.

-record(state, {
    group :: todana_raft_groups:id(),
    %% Whether the next tick is to come.
    is_ticking = false :: boolean(),
    silence :: todana_silence:silence(),
    complaints = #{} :: complaints(),
    %% The process that asks this node's server for the voters.
    asker = none :: none | pid(),
    %% When this node may ask for an election, and the pause after the next one.
    elects_ms :: integer(),
    pause_ms = ?PAUSE_MS_MIN :: pos_integer()
}).

-spec start_link(todana_raft_groups:id()) -> gen_server:start_ret().
start_link(Group) ->
    gen_server:start_link({local, name(Group)}, ?MODULE, Group, []).

-spec name(todana_raft_groups:id()) -> atom().
name(Group) -> todana_raft_groups:name(?MODULE, Group).

-spec init(todana_raft_groups:id()) -> {ok, #state{}}.
init(Group) ->
    self() ! beat,
    NowMs = now_ms(),
    {ok, #state{
        group = Group, silence = todana_silence:new(NowMs), elects_ms = NowMs
    }}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(beat, State) ->
    {noreply, look(State)};
handle_info(tick, State) ->
    {noreply, look(State#state{is_ticking = false})};
handle_info({complaint, Node, Leader, LastIndex}, State) ->
    #state{complaints = Complaints} = State,
    {noreply, State#state{
        complaints = Complaints#{Node => {Leader, LastIndex, now_ms()}}
    }};
handle_info({'DOWN', _, process, Pid, Result}, #state{asker = Pid} = State) ->
    #state{silence = Silence} = New = State#state{asker = none},
    NowMs = now_ms(),
    case {Result, todana_silence:is_long(NowMs, Silence)} of
        {{ok, Voters}, true} -> {noreply, complain(NowMs, Voters, New)};
        _ -> {noreply, New}
    end;
handle_info(_Message, State) ->
    {noreply, State}.

-spec look(#state{}) -> #state{}.
look(#state{group = Group, silence = Before} = State) ->
    NowMs = now_ms(),
    Facts = (todana_members:facts(Group))#{
        now_ms => NowMs, answered_ms => todana_leader_proof:answered_ms(Group)
    },
    Silence = todana_silence:look(Facts, Before),
    New = tick(todana_silence:is_missed(NowMs, Silence), State#state{
        silence = Silence
    }),
    ask(todana_silence:is_long(NowMs, Silence), New).

-spec tick(boolean(), #state{}) -> #state{}.
tick(true, #state{is_ticking = false} = State) ->
    _ = erlang:send_after(?TICK_MS, self(), tick),
    State#state{is_ticking = true};
tick(_IsMissed, State) ->
    State.

-spec ask(boolean(), #state{}) -> #state{}.
ask(true, #state{group = Group, asker = none} = State) ->
    {Pid, _} = spawn_monitor(?MODULE, ask_and_exit, [Group]),
    State#state{asker = Pid};
ask(true, State) ->
    State;
ask(false, State) ->
    State#state{pause_ms = ?PAUSE_MS_MIN}.

-spec ask_and_exit(todana_raft_groups:id()) -> no_return().
ask_and_exit(Group) ->
    case todana_members:is_elector(Group) of
        true -> exit(todana_members:voters(Group, ?ASK_TIMEOUT_MS));
        false -> exit({error, no_elector})
    end.

-spec complain(integer(), [node()], #state{}) -> #state{}.
complain(NowMs, Voters, #state{group = Group, silence = Silence} = State) ->
    {Node, _} = Leader = todana_silence:leader(Silence),
    #{last_index := LastIndex} = todana_members:facts(Group),
    Complaint = {complaint, node(), Leader, LastIndex},
    %% This process waits for no connection, and for no node that hangs.
    _ = [
        erlang:send({name(Group), Voter}, Complaint, [noconnect, nosuspend])
     || Voter <- Voters -- [node(), Node]
    ],
    Complaints = maps:filter(
        fun(_, {_, _, AtMs}) -> AtMs + ?COMPLAINT_MS > NowMs end,
        (State#state.complaints)#{node() => {Leader, LastIndex, NowMs}}
    ),
    New = State#state{complaints = Complaints},
    #state{elects_ms = ElectsMs, pause_ms = PauseMs} = State,
    case chosen(Leader, Voters, Complaints) of
        Chosen when Chosen =:= node(), NowMs >= ElectsMs ->
            logger:warning(
                "todana: ~ts leads and has not answered for ~b ms, and a "
                "majority of the members has noticed: an election begins",
                [Node, NowMs - todana_silence:since_ms(Silence)]
            ),
            _ = spawn(todana_members, elect, [Group]),
            New#state{
                elects_ms = NowMs + PauseMs,
                pause_ms = min(2 * PauseMs, ?PAUSE_MS_MAX)
            };
        _ ->
            New
    end.

-doc """
The node that asks for an election: of those that complain of this leader, the
one with the longest log; none if they are no majority of the voters.
""".
-spec chosen(todana_members:leadership(), [node()], complaints()) ->
    node() | none.
chosen(Leader, Voters, Complaints) ->
    Complaining = [
        {LastIndex, Node}
     || Node := {Of, LastIndex, _} <- Complaints,
        Of =:= Leader, lists:member(Node, Voters)
    ],
    case 2 * length(Complaining) > length(Voters) of
        true ->
            {_, Node} = lists:max(Complaining),
            Node;
        false ->
            none
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
