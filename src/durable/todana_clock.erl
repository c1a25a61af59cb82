%% Keeps the time of a group's log near the true time.
%%
%% Durable records expire by the time of the log, which goes on with the
%% monotonic clocks of the nodes (native/group/src/clock.rs), so that a wall
%% clock that jumps changes nothing at once. The leader compares it with the
%% median of the members' wall clocks, and corrects it slowly, by at most 5 % if
%% it is late and 50 % if it is early. The others follow the leader:
%%
%%     leader    {time, Leader, Era, NowMs, EarlyMs}   to each, once a second
%%     another   {wall, Node, WallMs}                  the answer
%%
%% A difference that this cannot mend soon is for an operator: `bin/todana
%% clock set' has the log set its time.
-module(todana_clock).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/2, begin_time/2, info/1, set/1, median/1]).
%% Other nodes call them.
-export([clocks/0, clocks/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([info/0, voters/0]).

%% While the clock is being corrected, it moves in steps of this time.
-define(STEP_MS, 100).
%% A wall clock that a member has not sent for this time does not count.
-define(RECENT_MS, 5_000).
-define(ASK_TIMEOUT_MS, 2_000).
%% What a message may take is no error of a clock.
-define(EQUAL_MS, 20).
%% A larger difference is reported.
-define(NOTICED_MS, 5_000).
%% A later start of the log's time is reported.
-define(JUMP_MS, 3_600_000).
%% The first format of the log in which its time can be set.
-define(FORMAT, 4).

-type voters() :: fun((todana_raft_groups:id(), [node()]) -> [node()]).

-record(state, {
    group :: todana_raft_groups:id(),
    voters :: voters(),
    %% The members' wall clocks minus this node's monotonic clock, and when
    %% they came.
    walls = #{} :: #{node() => {integer(), HeardMs :: integer()}},
    is_noticed = false :: boolean(),
    %% Whether the next step of a correction is to come.
    is_correcting = false :: boolean()
}).

-type time() ::
    {Era :: non_neg_integer(), NowMs :: non_neg_integer(),
     EarlyMs :: integer()}.
-type info() :: #{
    wall_ms := integer(),
    %% The time of the log.
    now_ms := integer(),
    %% The time of the log minus that of this node's wall clock.
    clock_differs_ms := integer(),
    %% By how much the time of the log is early, as the leader knows it.
    clock_early_ms := integer()
}.

-doc "Starts the process. `Voters` says which ones of these members vote.".
-spec start_link(todana_raft_groups:id(), voters()) -> gen_server:start_ret().
start_link(Group, Voters) ->
    gen_server:start_link({local, name(Group)}, ?MODULE, {Group, Voters}, []).

-spec name(todana_raft_groups:id()) -> atom().
name(Group) -> todana_raft_groups:name(?MODULE, Group).

-doc "The time of the log; empty while this node does not know it.".
-spec info(todana_raft_groups:id()) -> info() | #{}.
info(Group) ->
    case todana_nif:group_clock(Group) of
        {_Era, NowMs, EarlyMs} ->
            WallMs = wall_ms(),
            #{
                wall_ms => WallMs,
                now_ms => NowMs,
                clock_differs_ms => NowMs - WallMs,
                clock_early_ms => EarlyMs
            };
        unknown ->
            #{}
    end.

-doc """
Sets the time of the log to the median of the members' wall clocks. Returns by
how much it has changed.
""".
-spec set(todana_raft_groups:id()) ->
    {ok, ByMs :: integer()} | {error, unicode:chardata()}.
set(Group) ->
    case {todana_nif:group_clock(Group), todana_formats:unasked(Group)} of
        {_, Common} when Common < ?FORMAT ->
            {error, "a member has an older version, which cannot do this, or "
                    "had one in the last hour"};
        {{_Era, NowMs, EarlyMs}, _} ->
            Set = fun(Ref) ->
                todana_nif:group_set_time(
                    Group, max(0, NowMs - EarlyMs), {0, Ref}
                )
            end,
            case todana_durable:write(Set) of
                ok -> {ok, -EarlyMs};
                {error, unknown} -> {error, "it may or may not be set: look"};
                _ -> {error, "this node accepts no writes now"}
            end;
        {unknown, _} ->
            {error, "this node does not know the time of the log yet"}
    end.

%% ----------------------------------------------------------------- begin ---

-doc """
Has this node know the time of the log, before it serves. If no member knows it,
it is that of the clocks, or of the last entry if that is later.
""".
-spec begin_time(todana_raft_groups:id(), todana_data_dir:opened()) ->
    ok | {error, term()}.
begin_time(Group, Opened) ->
    case {todana_nif:group_clock(Group), Opened} of
        {{_, _, _}, _} -> ok;
        {unknown, #{cluster := none}} -> begin_with(Group, wall_ms());
        {unknown, #{}} -> begin_in_cluster(Group)
    end.

-spec begin_in_cluster(todana_raft_groups:id()) -> ok | {error, term()}.
begin_in_cluster(Group) ->
    %% The leader is one of them, since it has just answered.
    Others = todana_members:connected(Group),
    Question = todana_raft_groups:question(Group, []),
    Answers = lists:zip(Others, erpc:multicall(
        Others, ?MODULE, clocks, Question, ?ASK_TIMEOUT_MS
    )),
    Leader = todana_members:leader(Group),
    Known = [{Node =:= Leader, Time}
             || {Node, {ok, {Time, _}}} <- Answers, Time =/= unknown],
    case {Known, lists:keyfind(Leader, 1, Answers)} of
        %% A leader of a version that writes the time of its wall clock. Another
        %% member that knows a time has it from nobody who decides.
        {_, {Leader, {error, {exception, undef, _}}}} ->
            begin_with_wall_of(Group, Leader);
        {[_ | _], _} ->
            {_, {Era, NowMs, EarlyMs}} = lists:max(Known),
            todana_nif:group_clock_follow(Group, Era, NowMs, EarlyMs);
        {[], false} when Leader =:= node() ->
            Walls = [WallMs || {_, {ok, {unknown, WallMs}}} <- Answers],
            #{log_time_ms := LogMs} = todana_nif:group_info(Group),
            Later = [Ms - LogMs || Ms <- [wall_ms() | Walls]],
            begin_with(Group, LogMs + median(Later));
        {[], _} ->
            {error, no_time}
    end.

-spec begin_with_wall_of(todana_raft_groups:id(), node()) ->
    ok | {error, no_time}.
begin_with_wall_of(Group, Leader) ->
    try erpc:call(Leader, os, system_time, [millisecond], ?ASK_TIMEOUT_MS) of
        WallMs -> begin_with(Group, WallMs)
    catch
        error:{erpc, _} -> {error, no_time}
    end.

-spec begin_with(todana_raft_groups:id(), integer()) -> ok.
begin_with(Group, NowMs) ->
    #{log_time_ms := LogMs} = todana_nif:group_info(Group),
    _ = LogMs > 0 andalso NowMs - LogMs > ?JUMP_MS andalso
        logger:notice(
            "todana: the last entry of the log is ~ts older than the clock; "
            "durable records have expired meanwhile",
            [seconds(NowMs - LogMs)]
        ),
    todana_nif:group_clock_begin(Group, max(0, NowMs)).

-doc false.
%% The time of the log as this node knows it, and its wall clock.
-spec clocks(todana_raft_groups:id()) -> {time() | unknown, integer()}.
clocks(Group) -> {todana_nif:group_clock(Group), wall_ms()}.

-doc false.
%% Those of the first group: `todana_raft_groups:question/2'.
-spec clocks() -> {time() | unknown, integer()}.
clocks() -> clocks(todana_raft_groups:first()).

%% --------------------------------------------------------------- process ---

-spec init({todana_raft_groups:id(), voters()}) -> {ok, #state{}}.
init({Group, Voters}) ->
    self() ! beat,
    {ok, #state{group = Group, voters = Voters}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast({time, Leader, Era, NowMs, EarlyMs}, State) ->
    #state{group = Group} = State,
    _ = Leader =:= todana_members:leader(Group) andalso
        todana_nif:group_clock_follow(Group, Era, NowMs, EarlyMs),
    ok = gen_server:cast({name(Group), Leader}, {wall, node(), wall_ms()}),
    {noreply, State};
handle_cast({wall, Node, WallMs}, #state{walls = Walls} = State) ->
    AtMs = monotonic_ms(),
    {noreply, State#state{walls = Walls#{Node => {WallMs - AtMs, AtMs}}}};
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(beat, #state{group = Group} = State) ->
    {noreply, correct(notice(lead(todana_nif:group_clock(Group), State)))};
handle_info(correct, State) ->
    {noreply, correct(State#state{is_correcting = false})};
handle_info(_Message, State) ->
    {noreply, State}.

-spec correct(#state{}) -> #state{}.
correct(#state{is_correcting = true} = State) ->
    State;
correct(#state{group = Group} = State) ->
    IsWrong = todana_nif:group_clock_correct(Group),
    _ = IsWrong andalso erlang:send_after(?STEP_MS, self(), correct),
    State#state{is_correcting = IsWrong}.

-spec lead(time() | unknown, #state{}) -> #state{}.
lead({Era, NowMs, _}, #state{group = Group} = State) ->
    case todana_raft_groups:opened(Group) of
        #{cluster := none} ->
            ok = todana_nif:group_clock_early(
                Group, early(NowMs - wall_ms())
            );
        #{} ->
            _ = todana_members:leader(Group) =:= node() andalso
                lead_others(Era, NowMs, State)
    end,
    State;
lead(unknown, State) ->
    State.

-spec lead_others(non_neg_integer(), integer(), #state{}) -> ok.
lead_others(Era, NowMs, #state{group = Group} = State) ->
    #state{walls = Walls, voters = OfMembers} = State,
    AtMs = monotonic_ms(),
    Others = lists:delete(node(), todana_members:known(Group)),
    Voters = OfMembers(Group, [node() | Others]),
    Later = [wall_ms() - NowMs | [
        FromMs + AtMs - NowMs
     || Node := {FromMs, HeardMs} <- Walls,
        lists:member(Node, Voters), Node =/= node(),
        AtMs - HeardMs =< ?RECENT_MS
    ]],
    %% A leader that is cut off, or new, has nobody's clock but its own.
    EarlyMs = case 2 * length(Later) > length(Voters) of
        true -> early(-median(Later));
        false -> 0
    end,
    ok = todana_nif:group_clock_early(Group, EarlyMs),
    lists:foreach(fun(Node) ->
        gen_server:cast(
            {name(Group), Node}, {time, node(), Era, NowMs, EarlyMs}
        )
    end, Others).

-spec early(integer()) -> integer().
early(Ms) when abs(Ms) < ?EQUAL_MS -> 0;
early(Ms) -> Ms.

-doc """
The median of differences; of an even number, the one of the two in the middle
that is nearer to 0.
""".
-spec median([integer(), ...]) -> integer().
median(Differences) ->
    Sorted = lists:sort(Differences),
    Half = length(Sorted) div 2,
    case lists:nthtail(max(0, Half - 1), Sorted) of
        [_, Middle | _] when length(Sorted) rem 2 =:= 1 -> Middle;
        [Lower, Upper | _] when abs(Upper) < abs(Lower) -> Upper;
        [Lower | _] -> Lower
    end.

%% ---------------------------------------------------------------- notice ---

%% One line when a difference appears, and one when it is gone.
-spec notice(#state{}) -> #state{}.
notice(#state{group = Group, is_noticed = Before} = State) ->
    case info(Group) of
        #{clock_differs_ms := Ms} when abs(Ms) > ?NOTICED_MS, not Before ->
            logger:warning(
                "todana: the clock of this node is ~ts ~s the time of the log, "
                "by which durable records expire; see `bin/todana clock`",
                [seconds(Ms), if Ms > 0 -> "behind"; true -> "ahead of" end]
            ),
            State#state{is_noticed = true};
        #{clock_differs_ms := Ms} when abs(Ms) < ?NOTICED_MS div 2, Before ->
            logger:notice("todana: the clock of this node agrees with the time "
                          "of the log again"),
            State#state{is_noticed = false};
        #{} ->
            State
    end.

-spec seconds(integer()) -> string().
seconds(Ms) -> lists:flatten(io_lib:format("~.1f s", [abs(Ms) / 1_000])).

-spec wall_ms() -> integer().
wall_ms() -> os:system_time(millisecond).

-spec monotonic_ms() -> integer().
monotonic_ms() -> erlang:monotonic_time(millisecond).
