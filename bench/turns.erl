%% Arms of one cell that take turns, round by round, so that what changes on the
%% machine meanwhile meets each of them.
%%
%% Used by e1.erl and e2.erl. Each arm has a process, which opens its store and
%% starts its clients: what goes wrong with one stays with it. An arm that has
%% failed has no more turns.
-module(turns).

-export([open/1, warm_up/1, play/2, figures/2]).

-export_type([measure/0]).

%% One round.
-type measure() :: fun(() -> term()).
-type arm() :: {atom(), {pid(), reference(), [term()]} | {failed, binary()}}.

-define(ROUND_MS, 60_000).

%% Each arm by its name, and what opens its store.
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

%% So many rounds.
-spec play(non_neg_integer(), [arm()]) -> [arm()].
play(0, Arms) ->
    Arms;
play(Rounds, Arms) ->
    play(Rounds - 1, [{Name, turn(State)} || {Name, State} <- Arms]).

-spec turn(State) -> State when
    State :: {pid(), reference(), [term()]} | {failed, binary()}.
turn({failed, _} = Failed) ->
    Failed;
turn({Pid, Monitor, Samples}) ->
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

%% What is told of an arm: its samples as figures, or why there are none.
-spec figures(arm(), fun(([term()]) -> map())) -> map().
figures({_Name, {failed, Reason}}, _Told) ->
    #{failed => Reason};
figures({_Name, {_Pid, _Monitor, Samples}}, Told) ->
    Told(lists:reverse(Samples)).
