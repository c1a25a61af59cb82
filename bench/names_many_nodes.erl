%% What runs on the nodes that names_many.erl measures: many names and groups of
%% `global', `pg' and a cluster scope of Todana, and calls whose latency counts.
%%
%% Each function is called by erpc on the node that it is about. `I' is the
%% number of that node, from 1. Moments are those of os:perf_counter/0, whose
%% clock all nodes of a host share.
-module(names_many_nodes).

-export([open/2, collect/0]).
-export([register/5, join/5, join_large/4, added/1]).
-export([known/2, owner_of/2, members/2]).
-export([load/4, freed/2, await_empty/0, end_owners/0]).

-export_type([arm/0, operation/0, refused/0]).

-type arm() :: todana | global | pg.
%% Look-ups of few names, which a node has copies of, and of all names.
-type operation() :: register | whereis | whereis_first.
%% How often calls were refused, and why. Each was repeated.
-type refused() :: #{atom() => pos_integer()}.
%% When a call began, its microseconds, and whether it did what it should.
-type sample() :: {integer(), non_neg_integer(), boolean()}.

-define(SCOPE, names_many).
-define(OWNERS, {?MODULE, owners}).
%% A refused registration is repeated so often.
-define(ATTEMPTS, 100).
-define(PAUSE_MS, 100).
%% Names that `whereis' looks up.
-define(FEW, 100).
%% Names that are looked at until the first of them is free.
-define(SOME, 50).
-define(POLL_MS, 10).
-define(EMPTY_POLL_MS, 2_000).

%% Starts the scope, and the processes that are to have names. They are there
%% before memory is measured.
-spec open(arm(), pos_integer()) -> ok.
open(Arm, Owners) ->
    ok = start_scope(Arm),
    persistent_term:put(?OWNERS, list_to_tuple([
        spawn(fun() -> receive stop -> ok end end)
     || _ <- lists:seq(1, Owners)
    ])).

-spec start_scope(arm()) -> ok.
start_scope(todana) ->
    todana_names:start_scope(?SCOPE, cluster);
start_scope(global) ->
    ok;
start_scope(pg) ->
    {ok, _} = pg:start(?SCOPE),
    ok.

-spec owner(non_neg_integer()) -> pid().
owner(N) ->
    Owners = persistent_term:get(?OWNERS),
    element(1 + N rem tuple_size(Owners), Owners).

-spec end_owners() -> ok.
end_owners() ->
    Owners = persistent_term:get(?OWNERS),
    lists:foreach(fun(Pid) -> exit(Pid, kill) end, tuple_to_list(Owners)).

%% Collects the garbage of all processes, and returns what is left.
-spec collect() -> non_neg_integer().
collect() ->
    _ = [erlang:garbage_collect(Pid) || Pid <- processes()],
    erlang:memory(total).

%% ----------------------------------------------------------------- names ---

-spec name(pos_integer(), pos_integer()) -> {atom(), term()}.
name(I, N) -> {?SCOPE, {user, I, N}}.

%% Registers names of processes of this node, by a number of processes at the
%% same time.
-spec register(
    arm(), pos_integer(), pos_integer(), non_neg_integer(), pos_integer()
) -> refused().
register(Arm, I, From, To, Width) ->
    at_once(Width, fun(Nth) ->
        repeated(
            fun(N) -> registered(Arm, name(I, N), owner(N)) end,
            lists:seq(From + Nth, To, Width)
        )
    end).

-spec registered(arm(), {atom(), term()}, pid()) -> ok | atom().
registered(global, Name, Pid) ->
    case global:register_name(Name, Pid) of
        yes -> ok;
        no -> no
    end;
registered(todana, Name, Pid) ->
    case todana_names:register_name_token(Name, Pid) of
        {yes, _Token} -> ok;
        %% After an unknown outcome, its own name until it is taken back.
        no -> no;
        {error, Reason} -> Reason
    end.

%% ---------------------------------------------------------------- groups ---

%% Processes of this node join those of the groups that have a member here: each
%% has one on three nodes.
-spec join(
    arm(), pos_integer(), Nodes :: pos_integer(), Groups :: non_neg_integer(),
    Width :: pos_integer()
) -> refused().
join(Arm, I, Nodes, Groups, Width) ->
    at_once(Width, fun(Nth) ->
        repeated(
            fun(G) -> joined(Arm, {room, G}, [owner(G)]) end,
            [
                G
             || G <- lists:seq(1 + Nth, Groups, Width),
                lists:member(I - 1, places(G, Nodes))
            ]
        )
    end).

-spec places(pos_integer(), pos_integer()) -> [non_neg_integer()].
places(G, Nodes) ->
    [(G + Nodes * Third div 3) rem Nodes || Third <- [0, 1, 2]].

%% Many processes join each of a few groups in one step.
-spec join_large(
    arm(), Groups :: non_neg_integer(), Members :: pos_integer(), pos_integer()
) -> refused().
join_large(Arm, Groups, Members, Width) ->
    Pids = [owner(N) || N <- lists:seq(1, Members)],
    at_once(Width, fun(Nth) ->
        repeated(
            fun(G) -> joined(Arm, {hall, G}, Pids) end,
            lists:seq(1 + Nth, Groups, Width)
        )
    end).

-spec joined(arm(), term(), [pid()]) -> ok | atom().
joined(pg, Group, Pids) ->
    pg:join(?SCOPE, Group, Pids);
joined(todana, Group, Pids) ->
    case todana_groups:join(?SCOPE, Group, Pids) of
        ok -> ok;
        {error, Reason} -> Reason
    end.

%% ------------------------------------------------------- several at once ---

-spec at_once(pos_integer(), fun((non_neg_integer()) -> refused())) ->
    refused().
at_once(Width, Work) ->
    Workers = [
        spawn_monitor(fun() -> exit({done, Work(Nth)}) end)
     || Nth <- lists:seq(0, Width - 1)
    ],
    added([
        receive
            {'DOWN', Monitor, process, Pid, {done, Refused}} -> Refused;
            {'DOWN', Monitor, process, Pid, Reason} -> exit(Reason)
        end
     || {Pid, Monitor} <- Workers
    ]).

%% The sums of several.
-spec added([refused()]) -> refused().
added(All) ->
    lists:foldl(
        fun(One, Sum) ->
            maps:merge_with(fun(_Reason, A, B) -> A + B end, One, Sum)
        end,
        #{}, All
    ).

%% Calls until the call is not refused, with each of these.
-spec repeated(fun((Each) -> ok | atom()), [Each]) -> refused().
repeated(Do, All) ->
    lists:foldl(
        fun(Each, Refused) -> repeated(Do, Each, ?ATTEMPTS, Refused) end,
        #{}, All
    ).

-spec repeated(
    fun((Each) -> ok | atom()), Each, non_neg_integer(), refused()
) -> refused().
repeated(Do, Each, Attempts, Refused) when Attempts > 0 ->
    case Do(Each) of
        ok ->
            Refused;
        Reason ->
            timer:sleep(?PAUSE_MS),
            repeated(Do, Each, Attempts - 1, added([Refused, #{Reason => 1}]))
    end;
repeated(_Do, Each, 0, Refused) ->
    exit({refused, Each, Refused}).

%% ---------------------------------------------------------- what is known ---

%% How many names, or groups, this node knows.
-spec known(arm(), names | groups) -> non_neg_integer().
known(todana, names) -> todana_names:count(?SCOPE);
known(todana, groups) -> length(todana_groups:which_groups(?SCOPE));
known(global, names) -> length(global:registered_names());
known(pg, groups) -> length(pg:which_groups(?SCOPE)).

-spec owner_of(arm(), {pos_integer(), pos_integer()}) -> pid() | undefined.
owner_of(todana, {I, N}) -> todana_names:whereis_name(name(I, N));
owner_of(global, {I, N}) -> global:whereis_name(name(I, N)).

%% The number of members of a group.
-spec members(arm(), {room | hall, pos_integer()}) -> non_neg_integer().
members(todana, Group) -> length(todana_groups:get_members(?SCOPE, Group));
members(pg, Group) -> length(pg:get_members(?SCOPE, Group)).

%% Until no name and no group is left.
-spec await_empty() -> ok.
await_empty() ->
    IsEmpty = todana_names:count(?SCOPE) =:= 0 andalso
        todana_groups:which_groups(?SCOPE) =:= [],
    case IsEmpty of
        true ->
            ok;
        false ->
            timer:sleep(?EMPTY_POLL_MS),
            await_empty()
    end.

%% ------------------------------------------------------------------ calls ---

%% A process that calls once in an interval until it receives `stop', and then
%% sends its samples. `Known' are nodes, and how many names of each there are.
-spec load(
    pid(), operation(), pos_integer(), [{pos_integer(), pos_integer()}]
) -> ok.
load(Parent, Operation, IntervalMs, Known) ->
    Monitor = monitor(process, Parent),
    Interval = erlang:convert_time_unit(
        IntervalMs, millisecond, perf_counter
    ),
    %% Not all nodes at the same moment.
    Due = os:perf_counter() + rand:uniform(Interval),
    call(Monitor, Operation, list_to_tuple(Known), Due, Interval, []).

-spec call(
    reference(), operation(), tuple(), integer(), pos_integer(), [sample()]
) -> ok.
call(Monitor, Operation, Known, Due, Interval, Samples) ->
    Wait = max(0, Due - os:perf_counter()),
    receive
        {stop, From} ->
            From ! {self(), Samples},
            ok;
        {'DOWN', Monitor, process, _, _} ->
            ok
    after erlang:convert_time_unit(Wait, perf_counter, millisecond) ->
        %% A call that waited for the one before counts from its own moment. A
        %% timer that comes late does not count.
        Begun = case Wait of
            0 -> Due;
            _ -> os:perf_counter()
        end,
        IsRight = call(Operation, Known),
        Us = erlang:convert_time_unit(
            os:perf_counter() - Begun, perf_counter, microsecond
        ),
        call(Monitor, Operation, Known, Due + Interval, Interval, [
            {Begun, max(0, Us), IsRight} | Samples
        ])
    end.

-spec call(operation(), tuple()) -> boolean().
call(register, _Known) ->
    Name = {load, node(), erlang:unique_integer([positive])},
    ok =:= registered(todana, {?SCOPE, Name}, owner(1));
call(whereis, Known) ->
    is_found(Known, ?FEW);
call(whereis_first, Known) ->
    is_found(Known, infinity).

-spec is_found(tuple(), pos_integer() | infinity) -> boolean().
is_found(Known, Most) ->
    {I, Names} = element(rand:uniform(tuple_size(Known)), Known),
    %% A number is less than an atom.
    Few = min(Names, Most),
    is_pid(todana_names:whereis_name(name(I, rand:uniform(Few)))).

%% When the first and the last name of a node were free, by the records of this
%% node.
-spec freed(pos_integer(), pos_integer()) -> {integer(), integer()}.
freed(I, Names) ->
    ok = await_any_free(I, lists:seq(1, Names, max(1, Names div ?SOME))),
    First = os:perf_counter(),
    ok = await_all_free(I, lists:seq(1, Names)),
    {First, os:perf_counter()}.

-spec await_any_free(pos_integer(), [pos_integer()]) -> ok.
await_any_free(I, Some) ->
    case lists:any(fun(N) -> is_free(I, N) end, Some) of
        true ->
            ok;
        false ->
            timer:sleep(?POLL_MS),
            await_any_free(I, Some)
    end.

-spec await_all_free(pos_integer(), [pos_integer()]) -> ok.
await_all_free(I, Names) ->
    case lists:dropwhile(fun(N) -> is_free(I, N) end, Names) of
        [] ->
            ok;
        Left ->
            timer:sleep(?POLL_MS),
            await_all_free(I, Left)
    end.

%% Without a copy.
-spec is_free(pos_integer(), pos_integer()) -> boolean().
is_free(I, N) ->
    todana_names:lookup(name(I, N)) =:= error.
