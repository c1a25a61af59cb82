%% The system of Ra that has the log: its names, its options, its start and end.
%%
%% There is one system for each durability, because a log is synchronized in
%% another way with each.
-module(todana_ra_system).
-moduledoc false.

-export([name/1, names/1, is_name/1, is_server/1, log_file_bytes_max/0]).
-export([is_running/1, start/1, stop/1, await_end/2, roll_over/1]).

%% Its entries stay in memory until it is full, besides the segment files that
%% are being written from it.
-define(WAL_BYTES_MAX, (128 bsl 20)).
%% Small batches of writes make a torn tail short.
-define(WAL_BATCH_MAX, 1_024).
-define(SEGMENT_ENTRIES_MAX, 4_096).
-define(SEGMENT_BYTES_MAX, 64_000_000).
%% How long Ra's processes may take to end with their supervisor.
-define(END_TIMEOUT_MS, 30_000).

-doc "The name of the system for a durability.".
-spec name(todana_data_dir:durability()) -> atom().
name(always) -> todana_always;
name(everysec) -> todana_everysec.

-doc "The names of its processes.".
-spec names(todana_data_dir:durability()) -> ra_system:names().
names(Durability) -> ra_system:derive_names(name(Durability)).

-doc "Whether a process of this name is one of Ra's for Todana.".
-spec is_name(atom()) -> boolean().
is_name(Name) ->
    is_server(Name) orelse lists:any(
        fun(Durability) ->
            Part = atom_to_list(name(Durability)),
            string:find(atom_to_list(Name), Part) =/= nomatch
        end,
        [always, everysec]
    ).

-doc "Whether a group of Todana may have this name.".
-spec is_server(atom()) -> boolean().
is_server(Name) -> lists:prefix("todana_0", atom_to_list(Name)).

-doc """
How long a file of the log gets. Tests make it shorter, by an environment of
Ra's, since Todana refuses what is not an option.
""".
-spec log_file_bytes_max() -> pos_integer().
log_file_bytes_max() ->
    application:get_env(ra, todana_wal_max_size_bytes, ?WAL_BYTES_MAX).

-spec is_running(todana_data_dir:durability()) -> boolean().
is_running(Durability) ->
    #{log_sup := Name} = names(Durability),
    whereis(Name) =/= undefined.

-doc "Starts the system unless it runs.".
-spec start(todana_data_dir:opened()) -> ok | {error, term()}.
start(#{durability := Durability, class_dir := Directory}) ->
    case is_running(Durability) of
        true ->
            ok;
        false ->
            case ra_system:start(config(Durability, Directory)) of
                {ok, _} -> ok;
                {ok, _, _} -> ok;
                {error, Reason} -> {error, {system, Reason}}
            end
    end.

-doc "Stops it. The log is on disk when this returns.".
-spec stop(todana_data_dir:durability()) -> ok.
stop(Durability) ->
    _ = ra_system:stop(name(Durability)),
    ok.

-doc """
Waits for the end of the processes, this server among them, of a supervisor that
was killed: they end after it. Until then the file of the log may get longer.
""".
-spec await_end(todana_data_dir:durability(), Server :: atom()) -> ok.
await_end(Durability, Server) ->
    #{wal := Wal, log_meta := Meta, log_ets := Tables} = names(Durability),
    Ending = [
        {Pid, monitor(process, Pid)}
     || Name <- [Server, Wal, Meta, Tables],
        Pid <- [whereis(Name)], is_pid(Pid)
    ],
    Timer = erlang:send_after(?END_TIMEOUT_MS, self(), end_timeout),
    lists:foreach(fun await_down/1, Ending),
    _ = erlang:cancel_timer(Timer),
    receive end_timeout -> ok after 0 -> ok end.

-spec await_down({pid(), reference()}) -> ok.
await_down({Pid, Monitor}) ->
    receive
        {'DOWN', Monitor, process, Pid, _} ->
            ok;
        end_timeout ->
            true = exit(Pid, kill),
            self() ! end_timeout,
            receive {'DOWN', Monitor, process, Pid, _} -> ok end
    end.

-doc "Begins a new file of the log, after an fdatasync of this one failed.".
-spec roll_over(todana_data_dir:durability()) -> ok.
roll_over(Durability) ->
    #{wal := Wal} = names(Durability),
    try ra_log_wal:force_roll_over(Wal) catch _:_ -> ok end.

-spec config(todana_data_dir:durability(), file:filename()) ->
    ra_system:config().
config(Durability, Directory) ->
    SyncMethod =
        case Durability of
            always -> datasync;
            %% `todana_disk' synchronizes the file, once a second.
            everysec -> none
        end,
    (ra_system:default_config())#{
        name => name(Durability),
        names => names(Durability),
        data_dir => Directory,
        wal_data_dir => Directory,
        wal_sync_method => SyncMethod,
        wal_compute_checksums => true,
        wal_max_size_bytes => log_file_bytes_max(),
        wal_max_batch_size => ?WAL_BATCH_MAX,
        segment_max_entries => application:get_env(
            ra, todana_segment_max_entries, ?SEGMENT_ENTRIES_MAX
        ),
        segment_max_size_bytes => ?SEGMENT_BYTES_MAX,
        segment_compute_checksums => true,
        default_max_append_entries_rpc_batch_size => 16,
        default_max_pipeline_count => 128
    }.
