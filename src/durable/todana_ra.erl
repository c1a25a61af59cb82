%% Starts and stops the parts of Ra that hold the log: the application, one
%% system, and one server, the only member of its group.
%%
%% Every function may be called again at any time: `start' begins with whatever
%% is missing. Ra is started as a temporary application, because its
%% supervisors give up when a disk is full (they allow one restart in five
%% seconds); `todana_group' calls again then, so the node survives, and so does
%% the group.
-module(todana_ra).
-moduledoc false.

-export([start_application/0, start/1, stop/1, stop_server/0, is_running/0,
         server/0, is_name/1, is_server/1, system/1, wal_bytes_max/0]).
-export([write_config/3]).
-export([ask/1, pipeline/1, pipeline/2, pipeline/3, begin_election/0,
         roll_over/1, names/1]).

%% Its entries stay in memory until it is full, besides the segment files that
%% are being written from it.
-define(WAL_BYTES_MAX, (128 bsl 20)).
%% Small batches of writes make a torn tail short.
-define(WAL_BATCH_MAX, 1_024).
-define(SEGMENT_ENTRIES_MAX, 4_096).
-define(SEGMENT_BYTES_MAX, 64_000_000).
%% How long Ra's processes may take to end with their supervisor.
-define(END_TIMEOUT_MS, 30_000).
%% How long a leader that hands over confirms nothing, if the other member does
%% not take over. A follower that lacks entries asks for them again then.
-define(AWAIT_MS_MAX, 3_000).

-doc "The address of the group's only member.".
-spec server() -> {atom(), node()}.
server() -> {name(), node()}.

-spec name() -> atom().
name() -> todana_data_dir:server().

-doc "The name of the Ra system for a durability.".
-spec system(todana_data_dir:durability()) -> atom().
system(always) -> todana_always;
system(everysec) -> todana_everysec.

-doc "Whether a process of this name is one of Ra's for Todana.".
-spec is_name(atom()) -> boolean().
is_name(Name) ->
    is_server(Name) orelse lists:any(
        fun(Durability) ->
            Part = atom_to_list(system(Durability)),
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
-spec wal_bytes_max() -> pos_integer().
wal_bytes_max() ->
    application:get_env(ra, todana_wal_max_size_bytes, ?WAL_BYTES_MAX).

-spec is_running() -> boolean().
is_running() -> whereis(name()) =/= undefined.

-doc "Waits until the group has applied a question; returns its entry.".
-spec ask(timeout()) -> {ok, pos_integer()} | {error, term()}.
ask(TimeoutMs) ->
    try ra:process_command(server(), ping, TimeoutMs) of
        {ok, {index, Index}, _} -> {ok, Index};
        {timeout, _} -> {error, timeout};
        {error, Reason} -> {error, Reason}
    catch
        Class:Reason -> {error, {Class, Reason}}
    end.

-doc "Sends a batch. The caller gets a `ra_event` that names the sequence.".
-spec pipeline(term(), pos_integer()) -> ok.
pipeline(Command, Sequence) -> pipeline(node(), Command, Sequence).

-doc "The same, to the server of another member.".
-spec pipeline(node(), term(), integer()) -> ok.
pipeline(Node, Command, Sequence) ->
    ra:pipeline_command(
        todana_members:server(Node), Command, Sequence, normal
    ).

-doc "Sends a command whose result nobody waits for.".
-spec pipeline(term()) -> ok.
pipeline(Command) ->
    ra:pipeline_command(server(), Command).

-doc """
Makes the only member of a group its leader at once. Several decide by
themselves: an election would end the work of the one that leads.
""".
-spec begin_election() -> ok.
begin_election() ->
    case todana_members:known() of
        [Node] when Node =:= node() ->
            try ra:trigger_election(server(), 1_000) catch _:_ -> ok end;
        _ ->
            ok
    end.

-doc "The names of Ra's processes.".
-spec names(todana_data_dir:durability()) -> ra_system:names().
names(Durability) -> ra_system:derive_names(system(Durability)).

-doc "Begins a new file of the log, after an fdatasync of this one failed.".
-spec roll_over(todana_data_dir:durability()) -> ok.
roll_over(Durability) ->
    #{wal := Wal} = names(Durability),
    try ra_log_wal:force_roll_over(Wal) catch _:_ -> ok end.

-doc """
Starts what is missing. Returns when the snapshot has been loaded. All files are
verified before, unless Ra's system runs and may be changing them.
""".
-spec start(todana_data_dir:opened()) -> ok | {error, term()}.
start(#{durability := Durability, class_dir := Class} = Opened) ->
    Steps = [
        fun() -> start_application() end,
        fun() -> check(Opened) end,
        fun() -> start_system(Durability, Opened) end,
        %% A server that was stopped as an older copy does not vote again.
        fun() -> todana_confirmed:stays(Opened) end,
        fun() -> start_server(system(Durability), Opened) end,
        fun() -> todana_confirmed:stays(Opened) end
    ],
    case run(Steps) of
        ok -> begin_election();
        %% Ra keeps its reason to itself, but for the crash reports.
        {error, {server, _} = Reason} -> {error, file_or(Reason, Class)};
        {error, {system, _} = Reason} -> {error, file_or(Reason, Class)};
        Error -> Error
    end.

%% The first file that cannot be read, if there is one.
-spec file_or(term(), file:filename()) -> term().
file_or(Reason, Class) ->
    case todana_log_unreadable:first(Class) of
        none -> Reason;
        Problem -> Problem
    end.

-spec run([fun(() -> ok | {error, term()})]) -> ok | {error, term()}.
run([]) -> ok;
run([Step | Steps]) ->
    case Step() of
        ok -> run(Steps);
        {error, Reason} -> {error, Reason}
    end.

-doc "Stops the server and its system. The log is on disk when this returns.".
-spec stop(todana_data_dir:durability()) -> ok.
stop(Durability) ->
    System = system(Durability),
    ok = stop_server(System),
    _ = try ra_system:stop(System) catch _:_ -> ok end,
    ok.

-doc "Stops the server alone. It takes part in nothing when this returns.".
-spec stop_server() -> ok.
stop_server() ->
    #{durability := Durability} = todana_data_dir:opened(),
    stop_server(system(Durability)).

-spec stop_server(atom()) -> ok.
stop_server(System) ->
    _ = try ra:stop_server(System, server()) catch _:_ -> ok end,
    ok.

-doc """
Starts the application Ra. The system stops applications in the reverse order of
their starts, so this is called within the start of Todana: its last snapshot
needs Ra.
""".
-spec start_application() -> ok | {error, term()}.
start_application() ->
    case lists:keymember(ra, 1, application:which_applications()) of
        true ->
            ok;
        false ->
            _ = application:load(ra),
            ok = quiet(),
            ok = todana_heartbeats:prepare(),
            case application:ensure_all_started(ra, temporary) of
                {ok, _} -> ok;
                {error, {_, Reason}} -> {error, {ra, Reason}}
            end
    end.

%% Ra reports each start of a file as a notice, and each orderly stop of a
%% server as a warning. An application that uses Ra in this node, too, has
%% started it before; then the levels stay as they are.
-spec quiet() -> ok.
quiet() ->
    _ = [
        logger:set_application_level(Application, error)
     || Application <- [ra, aten, seshat]
    ],
    ok.

%% ---------------------------------------------------------------- system ---

%% Once the system runs, its files belong to it.
-spec check(todana_data_dir:opened()) -> ok | {error, term()}.
check(#{durability := Durability} = Opened) ->
    case is_system_running(Opened) of
        true ->
            ok;
        false ->
            %% It may have failed, and be about to start again.
            _ = ra_system:stop(system(Durability)),
            ok = todana_flush_guard:end_writer(),
            ok = await_end(Durability),
            ok = todana_heartbeats:adapt(Opened),
            maybe
                ok ?= todana_ra_files:prepare(server(), Opened),
                todana_confirmed:check(Opened)
            end
    end.

%% The processes of a supervisor that was killed end after it. Until then the
%% file of the log may get longer.
-spec await_end(todana_data_dir:durability()) -> ok.
await_end(Durability) ->
    #{wal := Wal, log_meta := Meta, log_ets := Tables} = names(Durability),
    Ending = [
        {Pid, monitor(process, Pid)}
     || Name <- [name(), Wal, Meta, Tables],
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

-spec is_system_running(todana_data_dir:opened()) -> boolean().
is_system_running(#{durability := Durability}) ->
    #{log_sup := Name} = names(Durability),
    whereis(Name) =/= undefined.

-spec start_system(todana_data_dir:durability(), todana_data_dir:opened()) ->
    ok | {error, term()}.
start_system(Durability, #{class_dir := Directory} = Opened) ->
    case is_system_running(Opened) of
        true ->
            ok;
        false ->
            case ra_system:start(system_config(Durability, Directory)) of
                {ok, _} -> ok;
                {ok, _, _} -> ok;
                {error, Reason} -> {error, {system, Reason}}
            end
    end.

-spec system_config(todana_data_dir:durability(), file:filename()) ->
    ra_system:config().
system_config(Durability, Directory) ->
    Name = system(Durability),
    SyncMethod =
        case Durability of
            always -> datasync;
            %% `todana_disk' synchronizes the file, once a second.
            everysec -> none
        end,
    (ra_system:default_config())#{
        name => Name,
        names => names(Durability),
        data_dir => Directory,
        wal_data_dir => Directory,
        wal_sync_method => SyncMethod,
        wal_compute_checksums => true,
        wal_max_size_bytes => wal_bytes_max(),
        wal_max_batch_size => ?WAL_BATCH_MAX,
        segment_max_entries => application:get_env(
            ra, todana_segment_max_entries, ?SEGMENT_ENTRIES_MAX
        ),
        segment_max_size_bytes => ?SEGMENT_BYTES_MAX,
        segment_compute_checksums => true,
        default_max_append_entries_rpc_batch_size => 16,
        default_max_pipeline_count => 128
    }.

%% ---------------------------------------------------------------- server ---

-spec start_server(atom(), todana_data_dir:opened()) -> ok | {error, term()}.
start_server(System, #{has_group := true}) ->
    already(ra:restart_server(System, server()));
start_server(System, #{
    uid := UId, class_dir := Class, server_dir := Directory
} = Opened) ->
    Config = config(server(), UId, membership(Opened)),
    case already(ra:start_server(System, Config)) of
        ok ->
            %% From here on `check' insists on what must not be lost.
            #{directory_rev := Names} = ra_system:derive_names(System),
            ok = dets:sync(Names),
            ok = todana_small_file:sync_directory(Directory),
            ok = todana_small_file:sync_directory(Class),
            todana_data_dir:group_exists(Opened);
        Error ->
            Error
    end.

-spec config(
    ra:server_id(), binary(), {[ra:server_id()], voter | non_voter}
) -> map().
config({Name, _} = Id, UId, {Members, Membership}) ->
    #{
        id => Id,
        uid => UId,
        cluster_name => Name,
        initial_members => Members,
        membership => Membership,
        %% The module of snapshots is named here too: when a system starts, Ra
        %% reads this file and looks for snapshots, before it asks the machine.
        %% To its own module none of ours is valid, and it deletes what is not.
        log_init_args => #{
            uid => UId,
            min_snapshot_interval => 1,
            snapshot_module => todana_snapshot
        },
        install_snap_rpc_timeout => 1_800_000,
        await_condition_timeout => ?AWAIT_MS_MAX,
        machine => {module, todana_machine, #{}}
    }.

-doc """
Writes Ra's file about a server that is the only member of its group, as Ra does
when it starts one for the first time.
""".
-spec write_config(file:filename(), string(), ra:server_id()) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
write_config(Server, UId, Id) ->
    Config = config(Id, list_to_binary(UId), {[Id], voter}),
    todana_small_file:replace(
        filename:join(Server, "config"), io_lib:format("~0p.~n", [Config])
    ).

%% A node that joins has no vote until the others give it one.
-spec membership(todana_data_dir:opened()) ->
    {[ra:server_id()], voter | non_voter}.
membership(#{joining := []}) ->
    {[server()], voter};
membership(#{joining := Nodes}) ->
    {[todana_members:server(Node) || Node <- Nodes], non_voter}.

-spec already(ok | {error, term()}) -> ok | {error, term()}.
already({error, {already_started, _}}) -> ok;
already({error, Reason}) -> {error, {server, Reason}};
already(ok) -> ok.
