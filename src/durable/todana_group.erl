%% Keeps a group running, and decides when its records may be read and written.
%%
%% The gate is closed until the snapshot is loaded, the server leads, and it
%% has answered one command: then every acknowledged write has been applied
%% again. It closes when the server ends. It admits reads only while the disk
%% has no room or the log does not answer, and removals beside them while the
%% disk is nearly full.
%%
%% The server is started by a process of its own, since that takes as long as
%% the snapshot takes to load. If it does not start, or ends, it is started
%% again, with growing pauses.
-module(todana_group).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/3, info/1, room/1, busy/2]).
%% Processes
-export([start_and_exit/3, ask_and_exit/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% The name of the process that starts the server.
-define(STARTING, todana_group_start).
%% Between two renewals of the note of what is confirmed, while the log grows.
-define(MARK_MS, 200).
-define(PAUSE_MS_MIN, 500).
-define(PAUSE_MS_MAX, 30_000).
-define(ATTEMPTS_REPORTED, 5).
-define(REPORT_EVERY_MS, 600_000).
%% How long the log may leave a batch unanswered before writes are refused.
-define(STUCK_AFTER_MS, 10_000).
-define(ASK_TIMEOUT_MS, 5_000).
%% How soon an entry that others have usually arrives after a restart.
-define(CATCH_UP_MS, 1_000).
%% How long no leader may answer before writes are refused.
-define(SILENT_AFTER_MS, 5_000).

-define(NO_LEADER,
    "no leader: this node does not reach a majority of its cluster").

-record(state, {
    group :: todana_raft_groups:id(),
    durability :: todana_data_dir:durability(),
    guard :: todana_ra:guard(),
    %% The process that starts the server.
    starter = none :: none | pid(),
    %% The process that waits for the server's answer.
    asker = none :: none | pid(),
    server = none :: none | reference(),
    pause_ms = ?PAUSE_MS_MIN :: pos_integer(),
    %% Attempts to start it since it worked.
    attempts = 0 :: non_neg_integer(),
    %% The load of the databases that the server's answer was about.
    answered = none :: none | non_neg_integer(),
    room = ok :: todana_group_notes:room(),
    oldest_ms = 0 :: non_neg_integer(),
    reason = "" :: string(),
    %% The load that is read while the log does not run.
    served = none :: none | non_neg_integer(),
    %% The entries that were applied, and on disk, at the last renewal of the
    %% note, and whether the next renewal is to come.
    marked = {0, 0} :: {non_neg_integer(), non_neg_integer()},
    is_marking = false :: boolean()
}).

-doc "Starts the process; it starts the log, if the guard permits that.".
-spec start_link(
    todana_raft_groups:id(), todana_data_dir:durability(), todana_ra:guard()
) -> gen_server:start_ret().
start_link(Group, Durability, Guard) ->
    gen_server:start_link(
        {local, name(Group)}, ?MODULE, {Group, Durability, Guard}, []
    ).

-spec name(todana_raft_groups:id()) -> atom().
name(Group) -> todana_raft_groups:name(?MODULE, Group).

-doc "State and figures.".
-spec info(todana_raft_groups:id()) -> map().
info(Group) ->
    try
        gen_server:call(name(Group), info)
    catch
        exit:_ -> #{state => failed, reason => "todana_group does not answer"}
    end.

-doc "The disk has room for the logs of all groups, or not.".
-spec room(todana_group_notes:room()) -> ok.
room(Room) ->
    lists:foreach(
        fun(Group) -> gen_server:cast(name(Group), {room, Room}) end,
        todana_raft_groups:ids()
    ).

-doc "The log grows, after a pause.".
-spec busy(todana_raft_groups:id(), Leader :: node()) -> ok.
busy(Group, _Leader) ->
    _ = [Pid ! busy || Pid <- [whereis(name(Group))], is_pid(Pid)],
    ok.

%% --------------------------------------------------------------- process ---

-spec init({todana_raft_groups:id(), todana_data_dir:durability(),
            todana_ra:guard()}) -> {ok, #state{}}.
init({Group, Durability, Guard}) ->
    _ = process_flag(trap_exit, true),
    ok = todana_nif:group_gate(Group, closed, <<>>, 0),
    %% What the process before this one noted is over.
    ok = todana_group_notes:forget_failure(),
    ok = todana_group_notes:snapshot_abandoned(),
    self() ! start,
    self() ! beat,
    {ok, #state{group = Group, durability = Durability, guard = Guard}}.

-spec handle_call(info, gen_server:from(), #state{}) ->
    {reply, map(), #state{}}.
handle_call(info, _From, State) ->
    New = forget_load(State),
    {reply, describe(New), New}.

-spec handle_cast({room, todana_group_notes:room()}, #state{}) ->
    {noreply, #state{}}.
handle_cast({room, Room}, State) ->
    ok = todana_group_notes:log_room(State#state.room, Room),
    {noreply, set_gate(State#state{room = Room})}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(start, #state{starter = none} = State) ->
    #state{group = Group, guard = Guard} = State,
    Opened = todana_raft_groups:opened(Group),
    ok = todana_group_notes:forget_failure(),
    {Pid, _} = spawn_monitor(?MODULE, start_and_exit, [Group, Opened, Guard]),
    {noreply, State#state{starter = Pid}};
handle_info({'DOWN', _, process, Pid, Result}, #state{starter = Pid} = State) ->
    New = State#state{starter = none},
    case Result of
        {started, ok} -> {noreply, watch(New)};
        {started, {error, Reason}} -> {noreply, again(Reason, New)};
        Reason -> {noreply, again(Reason, New)}
    end;
handle_info({'DOWN', Server, process, _, Reason}, #state{
    server = Server
} = State) ->
    Text = todana_ra_words:describe(Reason),
    ok = allow_reads(State#state.group, State#state.answered, Text),
    ok = todana_group_notes:snapshot_abandoned(),
    %% Ra starts the server again by itself, twice.
    _ = erlang:send_after(?PAUSE_MS_MIN, self(), look),
    {noreply, State#state{
        server = none,
        answered = none,
        reason = Text,
        served = served(State)
    }};
handle_info(look, #state{starter = none, server = none} = State) ->
    case todana_ra_server:is_running(State#state.group) of
        true -> {noreply, watch(State)};
        false -> {noreply, again(State#state.reason, State)}
    end;
%% The server leads, in the term that it has just begun.
handle_info(todana_leader, State) ->
    {noreply, ask(State)};
handle_info({'DOWN', _, process, Pid, Result}, #state{asker = Pid} = State) ->
    New = State#state{asker = none},
    case Result of
        {answered, Load} ->
            ok = todana_group_notes:forget_failure(),
            {noreply, opened(Load, New)};
        {unanswered, {mark, Why}} -> {noreply, stays_closed(Why, New)};
        {unanswered, {alone, Why}} -> {noreply, stays_closed(Why, New)};
        _ -> {noreply, New}
    end;
handle_info(beat, #state{group = Group} = State) ->
    ok = todana_beat:flush(),
    ok = todana_nif:group_tick(Group),
    Oldest = todana_batcher:oldest_ms(Group),
    New = forget_load(State#state{oldest_ms = Oldest}),
    {noreply, mark(set_gate(remind(New)))};
%% The batcher has something to do after a pause.
handle_info(busy, State) ->
    {noreply, mark_later(State)};
handle_info(mark, State) ->
    {noreply, mark(State#state{is_marking = false})};
handle_info(_Message, State) ->
    {noreply, State}.

-spec terminate(term(), #state{}) -> ok.
terminate(Reason, #state{group = Group, durability = Durability} = State) ->
    #state{starter = Starter, answered = Answered} = State,
    ok = todana_nif:group_gate(Group, closed, <<"the node stops">>, 0),
    %% An earlier process may have been killed, and the one that it had started
    %% goes on.
    lists:foreach(fun end_starter/1, [Starter, whereis(starting(Group))]),
    %% Without the notes nobody knows how far the log is confirmed: then the
    %% supervisor that had them was killed.
    IsOrderly = Reason =:= shutdown andalso is_integer(Answered) andalso
        not todana_group_notes:is_lost(),
    _ = IsOrderly andalso
        todana_stop:prepare(Group, todana_raft_groups:opened(Group)),
    ok = todana_ra:stop(Group, Durability),
    _ = IsOrderly andalso
        todana_log_mark:stopped(Group, todana_raft_groups:opened(Group)),
    ok.

-spec end_starter(none | undefined | pid()) -> ok.
end_starter(Starter) when is_pid(Starter) ->
    Monitor = monitor(process, Starter),
    true = exit(Starter, kill),
    receive {'DOWN', Monitor, process, Starter, _} -> ok end;
end_starter(_) ->
    ok.

%% An idle log has nothing to note.
-spec mark(#state{}) -> #state{}.
mark(#state{is_marking = false, answered = Load} = State) when Load =/= none ->
    Group = State#state.group,
    Opened = todana_raft_groups:opened(Group),
    ok = todana_log_mark:renew(Group, Opened),
    ok = todana_log_extent:renew(Opened),
    Applied = todana_nif:group_applied(Group),
    case {Applied, todana_disk:on_disk(Opened, Applied)} of
        {Applied, Applied} = Same when Same =:= State#state.marked -> State;
        Other -> mark_later(State#state{marked = Other})
    end;
mark(State) ->
    State.

-spec mark_later(#state{}) -> #state{}.
mark_later(#state{is_marking = true} = State) ->
    State;
mark_later(State) ->
    _ = erlang:send_after(?MARK_MS, self(), mark),
    State#state{is_marking = true}.

-spec watch(#state{}) -> #state{}.
watch(#state{server = none, group = Group} = State) ->
    {Name, _} = todana_ra_server:address(Group),
    State#state{server = monitor(process, Name)};
watch(State) ->
    State.

%% A snapshot that the leader has sent is loaded in place of the records, and
%% nobody has asked since then.
-spec forget_load(#state{}) -> #state{}.
forget_load(#state{answered = none} = State) ->
    State;
forget_load(#state{group = Group, answered = Load} = State) ->
    case todana_nif:group_load(Group) of
        Load -> State;
        _ -> State#state{answered = none}
    end.

%% The server leads at once if it is asked, and else within a second.
-spec remind(#state{}) -> #state{}.
remind(#state{answered = none, asker = none, server = Server} = State) when
    Server =/= none
->
    _ = spawn(todana_members, begin_election, [State#state.group]),
    ask(State);
remind(State) ->
    State.

-spec ask(#state{}) -> #state{}.
ask(#state{asker = none} = State) ->
    case todana_raft_groups:opened(State#state.group) of
        #{has_group := true} -> ask_server(State);
        %% A next start would take the files for those of a first start that
        %% did not finish, and delete them.
        #{has_group := false} -> State
    end;
ask(State) ->
    State.

-spec ask_server(#state{}) -> #state{}.
ask_server(#state{group = Group} = State) ->
    Load = todana_nif:group_load(Group),
    {Pid, _} = spawn_monitor(?MODULE, ask_and_exit, [Group, Load]),
    State#state{asker = Pid}.

-spec start_and_exit(
    todana_raft_groups:id(), todana_data_dir:opened(), todana_ra:guard()
) -> no_return().
start_and_exit(Group, Opened, Guard) ->
    ok = await_others(starting(Group)),
    exit({started, todana_ra:start(Group, Opened, Guard)}).

-spec starting(todana_raft_groups:id()) -> atom().
starting(Group) -> todana_raft_groups:name(?STARTING, Group).

%% `todana_group' may have been killed, and what it had started goes on.
%% It would remove files that it takes for what a crash has left, such as a file
%% of the log that the second one has just begun.
-spec await_others(atom()) -> ok.
await_others(Name) ->
    try register(Name, self()) of
        true -> ok
    catch
        error:badarg ->
            Monitor = monitor(process, Name),
            receive {'DOWN', Monitor, process, _, _} -> ok end,
            await_others(Name)
    end.

%% An entry that is on disk here, when this node has everything that was
%% acknowledged before.
-spec reached(todana_raft_groups:id(), todana_data_dir:opened()) ->
    {ok, non_neg_integer()} | {error, term()}.
reached(Group, #{cluster := none, forced := true}) ->
    case todana_detach:detach(Group) of
        ok -> todana_ra_server:ask(Group, ?ASK_TIMEOUT_MS);
        {error, Sentence} -> {error, {alone, lists:flatten(Sentence)}}
    end;
reached(Group, #{cluster := none}) ->
    todana_ra_server:ask(Group, ?ASK_TIMEOUT_MS);
reached(Group, #{}) ->
    maybe
        {ok, Index} ?= todana_members:read_index(
            Group, todana_members:known(Group), ?ASK_TIMEOUT_MS
        ),
        ok ?= caught_up(Group, Index),
        {ok, todana_members:confirmed(Group)}
    end.

%% Ra's leader sends each member once how far the log is confirmed. A member
%% that is killed forgets it, and does not always get it again before the next
%% entry, because the questions of readers keep it from an election. So it asks
%% for an entry that changes nothing.
-spec caught_up(todana_raft_groups:id(), non_neg_integer()) ->
    ok | {error, term()}.
caught_up(Group, Index) ->
    maybe
        {error, timeout} ?= todana_members:await(Group, Index, ?CATCH_UP_MS),
        {ok, _} ?= todana_ra_server:ask(Group, ?ASK_TIMEOUT_MS),
        todana_members:await(Group, Index, ?ASK_TIMEOUT_MS)
    end.

%% The gate opens when a next start would notice the loss of this entry.
-spec ask_and_exit(todana_raft_groups:id(), non_neg_integer()) -> no_return().
ask_and_exit(Group, Load) ->
    Opened = todana_raft_groups:opened(Group),
    maybe
        {ok, Index} ?= reached(Group, Opened),
        ok ?= todana_clock:begin_time(Group, Opened),
        ok ?= todana_log_mark:keep(Group, Opened, Index),
        %% Before the first write. The map is complete now.
        ok = todana_formats:renew(Group),
        exit({answered, Load})
    else
        {error, Reason} -> exit({unanswered, Reason})
    end.

-spec last_detachment(todana_raft_groups:id(), todana_data_dir:opened()) -> ok.
last_detachment(Group, #{cluster := none, forced := true}) ->
    _ = spawn(todana_detach, detach_for_good, [Group]),
    ok;
last_detachment(_Group, #{}) ->
    ok.

%% It is tried again with the next tick.
-spec stays_closed(string(), #state{}) -> #state{}.
stays_closed(Why, #state{reason = Why} = State) ->
    State;
stays_closed(Why, State) ->
    logger:error("todana: the durable databases stay closed: ~ts", [Why]),
    State#state{reason = Why}.

%% The server may have ended since it was asked, and begun to load anew.
-spec opened(non_neg_integer(), #state{}) -> #state{}.
opened(Load, #state{group = Group} = State) ->
    case todana_nif:group_load(Group) of
        Load ->
            Open = set_gate(State#state{
                answered = Load, pause_ms = ?PAUSE_MS_MIN, attempts = 0,
                reason = ""
            }),
            _ = State#state.answered =:= none andalso
                logger:notice("todana: the durable databases are open"),
            ok = last_detachment(Group, todana_raft_groups:opened(Group)),
            Open;
        _ ->
            ask(State#state{answered = none})
    end.

%% The first attempt after a failure without a known cause verifies all files
%% before it starts anything, and so it comes at once.
-spec again(term(), #state{}) -> #state{}.
again(Reason, #state{attempts = 0} = State) ->
    case todana_log_problem:is_problem(Reason) orelse
        todana_group_notes:failure() =/= none
    of
        true ->
            later(Reason, State);
        false ->
            self() ! start,
            State#state{attempts = 1}
    end;
again(Reason, State) ->
    later(Reason, State).

-spec later(term(), #state{}) -> #state{}.
later(Reason, #state{pause_ms = PauseMs, attempts = Before} = State) ->
    Group = State#state.group,
    Attempts = Before + 1,
    #{data_dir := DataDir} = todana_raft_groups:opened(Group),
    IsFull = todana_ra_words:is_full(Reason),
    Words = case IsFull of
        true -> todana_ra_words:full(DataDir, Reason);
        false -> todana_ra_words:describe(Reason)
    end,
    {Sentence, IsFinal} = todana_group_notes:failure(
        Words, todana_log_problem:is_final(Reason)
    ),
    Failure = case IsFinal of
        true -> final;
        false when IsFull -> full;
        false -> passing
    end,
    _ = todana_foreground:failed(Sentence, Failure, Attempts) =:= false andalso
        is_reported(Attempts) andalso
        logger:error("todana: the log does not run: ~ts; next attempt in ~b ms",
                     [Sentence, PauseMs]),
    %% More than is known when the log ends.
    ok = allow_reads(Group, State#state.served, Sentence),
    _ = erlang:send_after(PauseMs, self(), start),
    Longer = min(PauseMs * 2, ?PAUSE_MS_MAX),
    State#state{reason = Sentence, pause_ms = Longer, attempts = Attempts}.

%% The first attempts, and later one in ten minutes.
-spec is_reported(pos_integer()) -> boolean().
is_reported(Attempts) ->
    Attempts =< ?ATTEMPTS_REPORTED orelse
        Attempts rem (?REPORT_EVERY_MS div ?PAUSE_MS_MAX) =:= 0.

%% ------------------------------------------------------------------ gate ---

-spec set_gate(#state{}) -> #state{}.
set_gate(#state{answered = none} = State) ->
    State;
set_gate(#state{group = Group, answered = Load} = State) ->
    {Gate, Reason} = gate(State),
    ok = todana_nif:group_gate(
        Group, Gate, unicode:characters_to_binary(Reason), Load
    ),
    State.

%% The tables have all that was acknowledged, until the server that is started
%% next begins to load them anew.
-spec allow_reads(
    todana_raft_groups:id(), none | non_neg_integer(), string()
) -> ok.
allow_reads(_Group, none, _Reason) ->
    ok;
allow_reads(Group, Load, Reason) ->
    Sentence = unicode:characters_to_binary(["the log ended: ", Reason]),
    todana_nif:group_gate(Group, read_only, Sentence, Load).

-spec served(#state{}) -> none | non_neg_integer().
served(#state{answered = none, served = Before}) -> Before;
served(#state{answered = Load}) -> Load.

-spec gate(#state{}) -> {open | read_only | removals | no_leader, string()}.
gate(#state{room = {low, Sentence}}) ->
    {read_only, Sentence};
gate(#state{group = Group, room = Room, oldest_ms = Ms}) ->
    %% Without a leader no write is answered, so this is the reason to state.
    case todana_leader_proof:is_silent(Group, ?SILENT_AFTER_MS) of
        true ->
            {no_leader, ?NO_LEADER};
        false when Ms > ?STUCK_AFTER_MS ->
            {read_only, lists:concat([
                "the log has not answered for ", Ms div 1_000, " s"
            ])};
        false ->
            case Room of
                ok -> {open, ""};
                {removals, Sentence} -> {removals, Sentence}
            end
    end.

-spec describe(#state{}) -> map().
describe(#state{group = Group, durability = Durability} = State) ->
    #{data_dir := DataDir} = todana_raft_groups:opened(Group),
    {Word, Reason} = describe_state(State),
    %% Without a write there is no time of one.
    Figures = maps:filter(
        fun(Name, Value) ->
            {Name, Value} =/= {commit_us, #{p50 => 0, p99 => 0}}
        end,
        todana_nif:group_info(Group)
    ),
    Facts = #{
        state => Word,
        durability => Durability,
        data_dir => DataDir,
        snapshot_in_progress => todana_snapshots:is_in_progress()
    },
    Clock = differs(todana_clock:info(Group)),
    maps:merge(Figures, maps:merge(todana_disk:info(), maps:merge(
        maps:merge(Facts, Clock),
        maps:merge(todana_group_notes:last_snapshot(), reason(Reason))
    ))).

-spec differs(todana_clock:info() | #{}) -> map().
differs(Info) -> maps:with([clock_differs_ms, clock_early_ms], Info).

-spec describe_state(#state{}) -> {atom(), string()}.
describe_state(#state{answered = none, reason = Reason} = State) ->
    case {todana_group_notes:failure(), is_leaderless(State)} of
        {none, true} -> {recovering, without_leader(?NO_LEADER)};
        {none, false} -> {recovering, Reason};
        {{Failure, _IsFinal}, _} -> {failed, Failure}
    end;
describe_state(State) ->
    case gate(State) of
        {open, _} -> {serving, ""};
        {no_leader, Reason} -> {read_only, without_leader(Reason)};
        {_, Reason} -> {read_only, Reason}
    end.

%% Its log runs, and it waits for the other members of its cluster.
-spec is_leaderless(#state{}) -> boolean().
is_leaderless(#state{server = none}) ->
    false;
is_leaderless(#state{group = Group, reason = ""}) ->
    case todana_raft_groups:opened(Group) of
        #{cluster := Cluster, joining := [], has_group := true} when
            Cluster =/= none
        ->
            todana_members:leader(Group) =:= none andalso
                todana_leader_proof:is_silent(Group, ?SILENT_AFTER_MS);
        #{} ->
            false
    end;
is_leaderless(#state{}) ->
    false.

%% For operators; clients get the reason alone.
-spec without_leader(string()) -> string().
without_leader(Reason) ->
    lists:concat([Reason, ": ", todana_log_remedy:without_majority()]).

-spec reason(string()) -> map().
reason("") -> #{};
reason(Reason) -> #{reason => Reason}.
