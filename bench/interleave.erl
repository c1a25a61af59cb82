%% Interleaves the arms of one cell, round by round, so that changes of the
%% machine affect each of them.
%%
%% Used by e1.erl and e2.erl. Each arm has a process, which opens its store and
%% starts its clients, so that a failure affects only its own arm. An arm that
%% has failed runs no more rounds.
-module(interleave).

-export([open/1, warm_up/1, play/2, figures/2, together/2]).

-export_type([measure/0]).

%% Runs one round.
-type measure() :: fun(() -> term()).
-type arm() :: {atom(), {pid(), reference(), [term()]} | {failed, binary()}}.

-define(ROUND_MS, 60_000).
%% The system counts CPU time in steps of 10 ms: less than this is no
%% measurement.
-define(CPU_US_MIN, 100_000).

%% Each arm by its name, and the function that opens its store.
-spec open([{atom(), fun(() -> measure())}]) -> [arm()].
open(Openers) ->
    [{Name, begin_arm(Open)} || {Name, Open} <- Openers].

-spec begin_arm(fun(() -> measure())) ->
    {pid(), reference(), []} | {failed, binary()}.
begin_arm(Open) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(fun() ->
        Measure = Open(),
        Self ! {self(), opened},
        serve(Self, Measure)
    end),
    case answer(Pid, Monitor) of
        {ok, opened} -> {Pid, Monitor, []};
        Failed -> Failed
    end.

-spec serve(pid(), measure()) -> no_return().
serve(Parent, Measure) ->
    receive play -> Parent ! {self(), Measure()} end,
    serve(Parent, Measure).

%% One round that is not counted.
-spec warm_up([arm()]) -> [arm()].
warm_up(Arms) ->
    [
        case Arm of
            {Name, {Pid, Monitor, _}} -> {Name, {Pid, Monitor, []}};
            Failed -> Failed
        end
     || Arm <- play(1, Arms)
    ].

%% Runs the given number of rounds.
-spec play(non_neg_integer(), [arm()]) -> [arm()].
play(0, Arms) ->
    Arms;
play(Rounds, Arms) ->
    play(Rounds - 1, [{Name, round_of(State)} || {Name, State} <- Arms]).

-spec round_of(State) -> State when
    State :: {pid(), reference(), [term()]} | {failed, binary()}.
round_of({failed, _} = Failed) ->
    Failed;
round_of({Pid, Monitor, Samples}) ->
    Pid ! play,
    case answer(Pid, Monitor) of
        {ok, Sample} -> {Pid, Monitor, [Sample | Samples]};
        Failed -> Failed
    end.

-spec answer(pid(), reference()) -> {ok, term()} | {failed, binary()}.
answer(Pid, Monitor) ->
    receive
        {Pid, Answer} ->
            {ok, Answer};
        {'DOWN', Monitor, process, Pid, Reason} ->
            {failed, iolist_to_binary(io_lib:format("~0tP", [Reason, 20]))}
    after ?ROUND_MS ->
        exit(Pid, kill),
        {failed, <<"not done in time">>}
    end.

%% The result of an arm: its samples as figures, or the reason of its failure.
-spec figures(arm(), fun(([term()]) -> map())) -> map().
figures({_Name, {failed, Reason}}, _Figures) ->
    #{failed => Reason};
figures({_Name, {_Pid, _Monitor, Samples}}, Figures) ->
    Figures(lists:reverse(Samples)).

%% Runs processes concurrently for some time. Each gets the time at which it has
%% to end and returns how often it did its work. Returns the rate of all of them
%% together per second, and the CPU microseconds of the node for each time.
-spec together(pos_integer(), [fun((integer()) -> non_neg_integer())]) ->
    {float(), float() | null}.
together(Ms, Works) ->
    Self = self(),
    Unit = erlang:convert_time_unit(Ms, millisecond, native),
    Workers = [
        spawn_link(fun() ->
            Self ! {ready, self()},
            receive
                {go, End} ->
                    Count = Work(End),
                    Self ! {self(), Count, erlang:monotonic_time()}
            end
        end)
     || Work <- Works
    ],
    [receive {ready, Worker} -> ok end || Worker <- Workers],
    Cpu = cpu_us(),
    Started = erlang:monotonic_time(),
    [Worker ! {go, Started + Unit} || Worker <- Workers],
    Done = [receive {Worker, N, At} -> {N, At} end || Worker <- Workers],
    Spent = cpu_us() - Cpu,
    Times = lists:sum([N || {N, _} <- Done]),
    Ended = lists:max([At || {_, At} <- Done]),
    Ns = erlang:convert_time_unit(Ended - Started, native, nanosecond),
    {Times * 1.0e9 / Ns, cpu_us(Spent, Times)}.

-spec cpu_us(non_neg_integer(), pos_integer()) -> float() | null.
cpu_us(Spent, _Times) when Spent < ?CPU_US_MIN -> null;
cpu_us(Spent, Times) -> Spent / Times.

%% CPU time of this node so far, all threads included.
-spec cpu_us() -> non_neg_integer().
cpu_us() ->
    {ok, Bytes} = file:read_file("/proc/self/stat"),
    [_, Rest] = binary:split(Bytes, <<") ">>),
    Fields = binary:split(Rest, <<" ">>, [global]),
    Ticks = [binary_to_integer(lists:nth(At, Fields)) || At <- [12, 13]],
    lists:sum(Ticks) * 10_000.
