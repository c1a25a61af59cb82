%% All figures of the node at one moment, for monitors: the counters of the
%% native server since its start, the tables that Erlang code has opened, the
%% log of the durable databases, and the Erlang VM.
%%
%% `todana_metrics' and `todana_status_json' present them.
-module(todana_figures).
-moduledoc false.

-export([collect/0]).

-export_type([figures/0, command/0, event_loop/0, scheduler/0]).

-type text() :: binary().
-type command() :: todana_nif:command_figures().
-type event_loop() :: todana_nif:loop_figures().
-type of_server() :: todana_nif:figures().
-type scheduler() :: {
    Kind :: normal | dirty_cpu | dirty_io, Number :: pos_integer(),
    BusySeconds :: float(), Seconds :: float()
}.
-type figures() :: #{
    %% Without a server there are no figures of one.
    server := #{text() => number() | text()},
    databases := [#{text() => number()}],
    commands := [command()],
    loops := [event_loop()],
    tables := [{atom(), #{text() => number()}}],
    %% As `todana:info/0'.
    log := map(),
    cluster := #{members := pos_integer(), leads := boolean(),
                 has_leader := boolean(), guests := non_neg_integer()} | none,
    guest := #{atom() => term()} | none,
    %% What clients publish, to other nodes and from them.
    channels := #{atom() => non_neg_integer()} | none,
    erlang := #{atom() => non_neg_integer() | text()},
    memory := [{atom(), non_neg_integer()}],
    schedulers := [scheduler()],
    ready := ok | {error, Sentence :: text()}
}.

-doc "Collects them. Takes some milliseconds; no process waits for another.".
-spec collect() -> figures().
collect() ->
    Log = todana_guest:state(),
    maps:merge(of_server(todana_listener:figures()), #{
        tables => tables(),
        log => Log,
        cluster => cluster(),
        guest => guest(),
        channels => channels(),
        erlang => erlang_vm(),
        memory => erlang:memory(),
        schedulers => schedulers(),
        ready => todana_health:ready(Log)
    }).

-spec of_server(of_server() | none) -> map().
of_server(none) ->
    #{server => #{}, databases => [], commands => [], loops => []};
of_server(#{server := Server, databases := Databases} = Figures) ->
    Figures#{
        server := maps:from_list(Server),
        databases := [maps:from_list(Database) || Database <- Databases]
    }.

%% The numbered databases have figures of their own.
-spec tables() -> [{atom(), #{text() => number()}}].
tables() ->
    [
        {Name, maps:from_list(Counts)}
     || {Name, Handle} <- lists:sort(todana_nif:tables()),
        {_, _, _, _, _, nil, _} <- [todana_nif:options(Handle)],
        Counts <- [todana_nif:counts(Handle)],
        is_list(Counts)
    ].

%% What this node knows, without asking another one.
-spec cluster() ->
    #{members := pos_integer(), leads := boolean(), has_leader := boolean(),
      guests := non_neg_integer()}
    | none.
cluster() ->
    case whereis(todana_membership) of
        undefined ->
            none;
        _ ->
            Group = todana_raft_groups:first(),
            Leader = todana_members:leader(Group),
            #{
                members => length(todana_members:known(Group)),
                leads => Leader =:= node(),
                has_leader => Leader =/= none,
                guests => length(todana_seats:guests())
            }
    end.

%% Of a node without a replica.
-spec guest() -> #{atom() => term()} | none.
guest() ->
    case todana_guest:is_guest() of
        true -> todana_guest:info();
        false -> none
    end.

-spec channels() -> #{atom() => non_neg_integer()} | none.
channels() ->
    case whereis(todana_spread) of
        undefined -> none;
        _ -> todana_spread:figures()
    end.

-spec erlang_vm() -> #{atom() => non_neg_integer() | text()}.
erlang_vm() ->
    {Collections, _, _} = erlang:statistics(garbage_collection),
    {Reductions, _} = erlang:statistics(reductions),
    #{
        otp_release => list_to_binary(erlang:system_info(otp_release)),
        processes => erlang:system_info(process_count),
        processes_max => erlang:system_info(process_limit),
        ports => erlang:system_info(port_count),
        atoms => erlang:system_info(atom_count),
        atoms_max => erlang:system_info(atom_limit),
        run_queue => erlang:statistics(total_run_queue_lengths_all),
        garbage_collections => Collections,
        reductions => Reductions
    }.

%% Empty unless a process has switched the measurement on.
-spec schedulers() -> [scheduler()].
schedulers() ->
    case erlang:statistics(scheduler_wall_time_all) of
        undefined ->
            [];
        Times ->
            [
                {Kind, Number - First, seconds(Busy), seconds(Total)}
             || {Number, Busy, Total} <- lists:sort(Times),
                {Kind, First} <- [kind(Number)]
            ]
    end.

%% They are numbered through: normal ones, those for long computations, and
%% those for input and output.
-spec kind(pos_integer()) ->
    {normal | dirty_cpu | dirty_io, non_neg_integer()}.
kind(Number) ->
    Normal = erlang:system_info(schedulers),
    Cpu = Normal + erlang:system_info(dirty_cpu_schedulers),
    if
        Number =< Normal -> {normal, 0};
        Number =< Cpu -> {dirty_cpu, Normal};
        true -> {dirty_io, Cpu}
    end.

%% The unit is not documented; it is that of the performance counter.
-spec seconds(non_neg_integer()) -> float().
seconds(Counted) ->
    erlang:convert_time_unit(Counted, perf_counter, nanosecond) / 1.0e9.
