%% The figures of `todana_figures' as families of metrics, for Prometheus.
%%
%% A metric that is a figure of a group, with or without a factor, is one row
%% of a table below. Names are in base units and end with them; counters end
%% with `_total'.
-module(todana_metrics).
-moduledoc false.

-export([families/1]).

-type family() :: todana_metrics_text:family().
-type row() :: {
    Key :: binary() | atom(), Name :: binary(), counter | gauge,
    Factor :: number(), Help :: unicode:chardata()
}.

-define(PROTOCOLS, [resp, memcached, kyoto]).
-define(NANOS, 1_000_000_000).

-doc "All metrics. A figure that the node does not have has no sample.".
-spec families(todana_figures:figures()) -> [family()].
families(Figures) ->
    #{server := Server, databases := Databases, log := Log} = Figures,
    #{erlang := Erlang, commands := Commands, loops := Loops} = Figures,
    node_itself(Figures) ++
        by_rows(server_rows(), Server) ++
        connections(Server) ++
        commands(Commands) ++
        memory(Figures) ++
        databases(Databases) ++
        tables(maps:get(tables, Figures)) ++
        by_rows(log_rows(), log(Log)) ++
        log_times(Log) ++
        cluster(maps:get(cluster, Figures)) ++
        guest(maps:get(guest, Figures)) ++
        channels(maps:get(channels, Figures)) ++
        event_loops(Loops) ++
        by_rows(erlang_rows(), Erlang) ++
        schedulers(maps:get(schedulers, Figures)).

-spec node_itself(todana_figures:figures()) -> [family()].
node_itself(#{server := Server, ready := Ready, erlang := Erlang}) ->
    #{otp_release := Otp} = Erlang,
    [
        {~"todana_build_info", gauge, ~"Always 1; the labels say what runs.", [
            {[{version, Version}, {otp_release, Otp}], 1}
         || Version <- found(~"version", Server)
        ]},
        {~"todana_ready", gauge, ~"1 if clients can read and write.",
            [{[], flag(Ready =:= ok)}]},
        {~"process_start_time_seconds", gauge,
            ~"When the server started, in seconds since 1970.",
            [{[], Ms / 1_000} || Ms <- found(~"started_at_ms", Server)]},
        {~"process_cpu_seconds_total", counter,
            ~"CPU time of the process.", [
            {[], System + User}
         || System <- found(~"cpu_system_s", Server),
            User <- found(~"cpu_user_s", Server)
        ]},
        {~"todana_cpu_seconds_total", counter,
            ~"CPU time of the process, in the kernel and outside of it.", [
            {[{mode, Mode}], Seconds}
         || {Key, Mode} <- [{~"cpu_system_s", system}, {~"cpu_user_s", user}],
            Seconds <- found(Key, Server)
        ]}
    ].

-spec server_rows() -> [row()].
server_rows() ->
    [
        {~"connections_peak", ~"todana_connections_peak", gauge, 1,
            ~"Most clients at the same time since the start."},
        {~"connections_max", ~"todana_connections_limit", gauge, 1,
            ~"Clients that may be connected at the same time."},
        {~"connections_total", ~"todana_connections_accepted_total", counter,
            1, ~"Clients that have connected."},
        {~"connections_rejected", ~"todana_connections_rejected_total",
            counter, 1, ~"Clients that were rejected at the limit."},
        {~"authentication_failures", ~"todana_authentication_failures_total",
            counter, 1, ~"Wrong passwords."},
        {~"errors", ~"todana_error_replies_total", counter, 1,
            ~"Commands whose reply was an error."},
        {~"hits", ~"todana_lookup_hits_total", counter, 1,
            ~"Look-ups of clients that found a record."},
        {~"misses", ~"todana_lookup_misses_total", counter, 1,
            ~"Look-ups of clients that found none."},
        {~"input_bytes", ~"todana_received_bytes_total", counter, 1,
            ~"Bytes received from clients."},
        {~"output_bytes", ~"todana_sent_bytes_total", counter, 1,
            ~"Bytes sent to clients."},
        {~"memory_limit_bytes", ~"todana_memory_limit_bytes", gauge, 1,
            ~"Limit of the records of all databases; 0 is no limit."},
        {~"clients_memory_limit_bytes", ~"todana_clients_memory_limit_bytes",
            gauge, 1, "Limit of what the server holds for clients; 0 is no "
            "limit."},
        {~"resident_bytes", ~"process_resident_memory_bytes", gauge, 1,
            ~"Resident memory of the process."},
        {~"resident_bytes_peak", ~"todana_resident_memory_peak_bytes", gauge,
            1, ~"Most resident memory that was seen."},
        {~"system_memory_bytes", ~"todana_system_memory_bytes", gauge, 1,
            ~"Memory of the machine."}
    ].

-spec connections(map()) -> [family()].
connections(Server) ->
    [
        {~"todana_connections", gauge, ~"Clients that are connected.", [
            {[{protocol, Protocol}], Count}
         || Protocol <- ?PROTOCOLS,
            Count <- found(
                <<"connections_", (atom_to_binary(Protocol))/binary>>, Server
            )
        ]},
        {~"todana_clients_closed_total", counter,
            ~"Clients that the server closed because of their memory.", [
            {[{reason, Reason}], Count}
         || {Key, Reason} <- [
                {~"evicted_clients", clients_memory_limit},
                {~"output_limit_disconnections", output_limit}
            ],
            Count <- found(Key, Server)
        ]}
    ].

-spec commands([todana_figures:command()]) -> [family()].
commands(Commands) ->
    ByProtocol = maps:groups_from_list(
        fun(Command) -> element(1, Command) end,
        fun(Command) -> element(3, Command) end,
        Commands
    ),
    [
        {~"todana_commands_total", counter, ~"Commands executed.", [
            {[{protocol, Protocol}], lists:sum(Calls)}
         || Protocol <- ?PROTOCOLS,
            Calls <- [maps:get(atom_to_binary(Protocol), ByProtocol, [])]
        ]},
        {~"todana_command_errors_total", counter,
            ~"Calls of a command whose reply was an error.", [
            {command_labels(Command), element(4, Command)}
         || Command <- Commands
        ]},
        {~"todana_command_duration_seconds", histogram,
            ~"How long a command took, with its wait for the log.", [
            {command_labels(Command), histogram(Counts, Micros / 1_000_000)}
         || {_, _, _, _, Micros, Counts} = Command <- Commands
        ]}
    ].

-spec command_labels(todana_figures:command()) ->
    [{protocol | command, binary()}].
command_labels({Protocol, Name, _, _, _, _}) ->
    [{protocol, Protocol}, {command, Name}].

-spec memory(todana_figures:figures()) -> [family()].
memory(#{server := Server, databases := Databases} = Figures) ->
    #{memory := Memory, tables := Tables} = Figures,
    Sum = fun(Key, Counts) -> lists:sum([N || #{Key := N} <- Counts]) end,
    OfTables = [Counts || {_, Counts} <- Tables],
    Uses = [
        {records, Sum(~"bytes", Databases) + Sum(~"bytes", OfTables)},
        {indexes, Sum(~"index_bytes", Databases ++ OfTables)},
        {snapshots, Sum(~"kept_bytes", Databases ++ OfTables)},
        {erlang, proplists:get_value(total, Memory)}
        | [{clients, N} || N <- found(~"client_buffer_bytes", Server)]
    ],
    [
        {~"todana_memory_bytes", gauge,
            "Memory by use: records, their indexes, what only a snapshot "
            "keeps, what is held for clients, the Erlang VM.",
            [{[{use, Use}], Bytes} || {Use, Bytes} <- Uses]},
        {~"todana_erlang_memory_bytes", gauge,
            "Memory of the Erlang VM by kind; `processes` and `system` are "
            "all of it, the others are parts of these.",
            [{[{kind, K}], Bytes} || {K, Bytes} <- Memory, K =/= total]}
    ].

%% SWAPDB exchanges two databases with what they have counted, so counters are
%% sums over all of them.
-spec databases([map()]) -> [family()].
databases(Databases) ->
    Gauges = [
        {~"records", ~"todana_database_records",
            "Records of a database, expired ones that are not removed yet "
            "included."},
        {~"records_with_expiry", ~"todana_database_records_with_expiry",
            ~"Records of a database that have an expiry."},
        {~"bytes", ~"todana_database_records_bytes",
            ~"Bytes of the records of a database."},
        {~"index_bytes", ~"todana_database_index_bytes",
            ~"Bytes of the index of a database."}
    ],
    Counters = [
        {~"expired", ~"todana_expired_records_total",
            "Records of the databases that were removed because they had "
            "expired."},
        {~"evicted", ~"todana_evicted_records_total",
            ~"Records of the databases that were removed to make room."},
        {~"refused", ~"todana_refused_writes_total",
            "Writes to the databases that were refused because there was no "
            "room."}
    ],
    Numbered = lists:enumerate(0, Databases),
    [
        {Name, gauge, Help, [
            {[{database, Number}], Value}
         || {Number, #{Key := Value} = Database} <- Numbered,
            Number =:= 0 orelse maps:get(~"records", Database) > 0
        ]}
     || {Key, Name, Help} <- Gauges
    ] ++ [
        {Name, counter, Help, [
            {[], lists:sum([maps:get(Key, It) || It <- Databases])}
         || Databases =/= []
        ]}
     || {Key, Name, Help} <- Counters
    ].

-spec tables([{atom(), map()}]) -> [family()].
tables(Tables) ->
    Rows = [
        {~"entries", ~"todana_table_records", gauge,
            ~"Records of a table that Erlang code has opened."},
        {~"bytes", ~"todana_table_records_bytes", gauge,
            ~"Bytes of the records of such a table."},
        {~"index_bytes", ~"todana_table_index_bytes", gauge,
            ~"Bytes of its index."},
        {~"hits", ~"todana_table_lookup_hits_total", counter,
            ~"Look-ups that found a record in it."},
        {~"misses", ~"todana_table_lookup_misses_total", counter,
            ~"Look-ups that found none."},
        {~"expired", ~"todana_table_expired_records_total", counter,
            ~"Records that were removed because they had expired."},
        {~"evicted", ~"todana_table_evicted_records_total", counter,
            ~"Records that were removed to make room."},
        {~"refused", ~"todana_table_refused_writes_total", counter,
            ~"Writes that were refused because there was no room."}
    ],
    [
        {Name, Type, Help, [
            {[{table, Table}], Value} || {Table, #{Key := Value}} <- Tables
        ]}
     || {Key, Name, Type, Help} <- Rows
    ].

-spec log_rows() -> [row()].
log_rows() ->
    [
        {log_bytes, ~"todana_log_bytes", gauge, 1,
            ~"Bytes of the log since its snapshot, with 256 for each entry."},
        {logged_bytes, ~"todana_log_written_bytes_total", counter, 1,
            ~"Bytes of the batches that were applied, and 256 for each."},
        {data_bytes, ~"todana_log_data_bytes", gauge, 1,
            ~"Bytes of the durable records, which a snapshot has."},
        {batches, ~"todana_log_batches_total", counter, 1,
            ~"Batches of the log that were applied."},
        {records, ~"todana_log_commands_total", counter, 1,
            ~"Commands in these batches."},
        {queue_bytes, ~"todana_log_queue_bytes", gauge, 1,
            ~"Bytes of writes that wait for the log."},
        {in_flight, ~"todana_log_batches_in_flight", gauge, 1,
            ~"Batches that are on their way."},
        {oldest_ms, ~"todana_log_oldest_batch_seconds", gauge, 0.001,
            ~"Age of the oldest batch on its way; 0 without one."},
        {applied_index, ~"todana_log_applied_index", gauge, 1,
            ~"The last entry of the log that this node has applied."},
        {clock_differs_ms, ~"todana_log_clock_difference_seconds", gauge, 0.001,
            "The time of the log minus that of this node's clock; far from 0 "
            "if a clock is wrong."},
        {snapshot_age_ms, ~"todana_snapshot_age_seconds", gauge, 0.001,
            ~"Age of the last snapshot."},
        {snapshot_bytes, ~"todana_snapshot_bytes", gauge, 1,
            ~"Bytes of the last snapshot."},
        {snapshot_ms, ~"todana_snapshot_duration_seconds", gauge, 0.001,
            "How long the last snapshot took, if it was written since the "
            "start."},
        {snapshot_in_progress, ~"todana_snapshot_in_progress", gauge, 1,
            ~"1 while a snapshot is being written."},
        {progress, ~"todana_log_recovery_ratio", gauge, 0.01,
            ~"The part of the log that is read, while a node starts."},
        {disk_free_bytes, ~"todana_disk_free_bytes", gauge, 1,
            ~"Free bytes on the disk of the data directory."},
        {disk_reserve_bytes, ~"todana_disk_reserve_bytes", gauge, 1,
            ~"Below this number of free bytes, writes are refused."}
    ].

%% Flat, and with numbers only.
-spec log(map()) -> #{atom() => number()}.
log(Log) ->
    Last = maps:get(last_snapshot, Log, #{}),
    Flat = maps:merge(Log, #{
        Name => Value
     || {Key, Name} <- [
            {age_ms, snapshot_age_ms}, {bytes, snapshot_bytes},
            {duration_ms, snapshot_ms}
        ],
        #{Key := Value} <- [Last]
    }),
    Numbers = maps:map(
        fun
            (_, true) -> 1;
            (_, false) -> 0;
            (_, Value) -> Value
        end,
        Flat
    ),
    maps:filter(fun(_, Value) -> is_number(Value) end, Numbers).

-spec log_times(map()) -> [family()].
log_times(Log) ->
    [
        {Name, summary, Help, [
            {[{quantile, Quantile}], Us / 1_000_000}
         || #{Key := #{p50 := Half, p99 := Most}} <- [Log],
            {Quantile, Us} <- [{~"0.5", Half}, {~"0.99", Most}]
        ]}
     || {Key, Name, Help} <- [
            {commit_us, ~"todana_log_commit_seconds",
                ~"How long the last batches took until they were applied."},
            {fsync_us, ~"todana_log_sync_seconds",
                ~"How long the last fdatasync calls of `everysec` took."}
        ]
    ].

-spec cluster(map() | none) -> [family()].
cluster(none) ->
    [];
cluster(Cluster) ->
    #{
        members := Members, leads := Leads, has_leader := HasLeader,
        guests := Guests
    } = Cluster,
    [
        {~"todana_cluster_guests", gauge,
            ~"Guests of the cluster that have their seat at this node.",
            [{[], Guests}]},
        {~"todana_cluster_members", gauge,
            ~"Members of the cluster that this node knows.",
            [{[], Members}]},
        {~"todana_cluster_leads", gauge, ~"1 if this node leads.",
            [{[], flag(Leads)}]},
        {~"todana_cluster_has_leader", gauge,
            ~"1 if this node knows a leader.", [{[], flag(HasLeader)}]}
    ].

-spec guest(map() | none) -> [family()].
guest(none) ->
    [];
guest(#{seat := Seat, queue_bytes := Bytes, in_flight := InFlight}) ->
    [
        {~"todana_guest_has_seat", gauge,
            ~"1 if a member of the cluster serves this guest.",
            [{[], flag(Seat =/= none)}]},
        {~"todana_guest_queue_bytes", gauge,
            ~"Bytes of requests that wait to be sent to the member.",
            [{[], Bytes}]},
        {~"todana_guest_in_flight", gauge,
            ~"Requests that the member has not answered yet.",
            [{[], InFlight}]}
    ].

-spec channels(map() | none) -> [family()].
channels(none) -> [];
channels(Channels) -> by_rows(channel_rows(), Channels).

-spec channel_rows() -> [row()].
channel_rows() ->
    [
        {bundles_sent, ~"todana_channel_bundles_sent_total", counter, 1,
            ~"Bundles of published messages that were sent to other nodes."},
        {bytes_sent, ~"todana_channel_sent_bytes_total", counter, 1,
            ~"Their bytes."},
        {bundles_received, ~"todana_channel_bundles_received_total", counter, 1,
            ~"Bundles of published messages that other nodes have sent."},
        {bytes_received, ~"todana_channel_received_bytes_total", counter, 1,
            ~"Their bytes."}
    ].

-spec event_loops([todana_figures:event_loop()]) -> [family()].
event_loops(Loops) ->
    Numbered = [
        {[{loop, Number}], Loop} || {Number, Loop} <- lists:enumerate(0, Loops)
    ],
    InUse = length([Count || {Count, _, _, _} <- Loops, Count > 0]),
    [
        {~"todana_event_loops_in_use", gauge,
            ~"Event loops that serve a client now.",
            [{[], InUse} || Loops =/= []]},
        {~"todana_event_loop_connections", gauge,
            ~"Clients that an event loop serves.",
            [{Labels, Count} || {Labels, {Count, _, _, _}} <- Numbered]},
        {~"todana_event_loop_busy_seconds_total", counter,
            ~"Time in which an event loop did not wait for sockets.",
            [{Labels, Busy / ?NANOS} || {Labels, {_, Busy, _, _}} <- Numbered]},
        {~"todana_event_loop_stalled_seconds", gauge,
            ~"How long the present round of an event loop takes already.",
            [{Labels, Now / ?NANOS} || {Labels, {_, _, Now, _}} <- Numbered]},
        {~"todana_event_loop_round_duration_seconds", histogram,
            "How long the rounds of an event loop took, in each of which it "
            "serves all clients that are ready.", [
            {Labels, histogram(Counts, Busy / ?NANOS)}
         || {Labels, {_, Busy, _, Counts}} <- Numbered
        ]}
    ].

-spec erlang_rows() -> [row()].
erlang_rows() ->
    [
        {processes, ~"todana_erlang_processes", gauge, 1,
            ~"Erlang processes."},
        {processes_max, ~"todana_erlang_processes_limit", gauge, 1,
            ~"Erlang processes that may exist."},
        {ports, ~"todana_erlang_ports", gauge, 1, ~"Erlang ports."},
        {atoms, ~"todana_erlang_atoms", gauge, 1, ~"Atoms."},
        {atoms_max, ~"todana_erlang_atoms_limit", gauge, 1,
            ~"Atoms that may exist."},
        {run_queue, ~"todana_scheduler_run_queue", gauge, 1,
            ~"Erlang processes and ports that are ready to run."},
        {garbage_collections, ~"todana_erlang_garbage_collections_total",
            counter, 1, ~"Garbage collections of Erlang processes."},
        {reductions, ~"todana_erlang_reductions_total", counter, 1,
            ~"Reductions, the unit of work of the Erlang VM."}
    ].

-spec schedulers([todana_figures:scheduler()]) -> [family()].
schedulers(Schedulers) ->
    [
        {Name, counter, Help, [
            {
                [{kind, Kind}, {scheduler, Number}],
                element(Position, Scheduler)
            }
         || {Kind, Number, _, _} = Scheduler <- Schedulers
        ]}
     || {Position, Name, Help} <- [
            {3, ~"todana_scheduler_busy_seconds_total",
                ~"Time in which a scheduler of the Erlang VM was busy."},
            {4, ~"todana_scheduler_seconds_total",
                ~"Time in which it was measured."}
        ]
    ].

%% ------------------------------------------------------------------- rows ---

-spec by_rows([row()], map()) -> [family()].
by_rows(Rows, Figures) ->
    [
        {Name, Type, Help, [
            {[], times(Value, Factor)} || Value <- found(Key, Figures)
        ]}
     || {Key, Name, Type, Factor, Help} <- Rows
    ].

-spec times(number(), number()) -> number().
times(Value, 1) -> Value;
times(Value, Factor) -> Value * Factor.

-spec found(term(), map()) -> [dynamic()].
found(Key, Figures) ->
    case Figures of
        #{Key := Value} -> [Value];
        #{} -> []
    end.

-spec histogram([non_neg_integer()], number()) ->
    todana_metrics_text:histogram().
histogram(Counts, Seconds) -> #{counts => Counts, seconds => Seconds}.

-spec flag(boolean()) -> 0 | 1.
flag(true) -> 1;
flag(false) -> 0.
