%% Starts and stops what holds the log: the application Ra, one of its systems
%% (`todana_ra_system'), and one server (`todana_ra_server').
%%
%% Each function may be called again at any time: `start' begins with what is
%% missing. Ra is a temporary application, because its supervisors give up when
%% a disk is full: they allow one restart in five seconds. The node survives
%% that, and `todana_group' starts Ra again.
-module(todana_ra).
-moduledoc false.

-export([start_application/0, start/3, stop/2]).
-export([write_config/4]).

-export_type([guard/0]).

%% How long a leader that hands over confirms nothing, if the other member does
%% not take over. A follower that lacks entries asks for them again then.
-define(AWAIT_MS_MAX, 3_000).

%% Whether the server may run with this directory: `check' says it before the
%% start, from the files and from what others know of them, and `stays' says
%% whether that is still so.
-type guard() :: #{
    check := fun((todana_data_dir:opened()) -> ok | {error, term()}),
    stays := fun((todana_data_dir:opened()) -> ok | {error, term()}),
    _ => _
}.

-doc """
Starts what is missing. Returns when the snapshot has been loaded. All files are
verified before, unless Ra's system runs and may be changing them.
""".
-spec start(todana_raft_groups:id(), todana_data_dir:opened(), guard()) ->
    ok | {error, term()}.
start(Group, #{class_dir := Class} = Opened, Guard) ->
    #{check := Check, stays := Stays} = Guard,
    Steps = [
        fun() -> start_application() end,
        fun() -> check(Group, Opened, Check) end,
        fun() -> todana_ra_system:start(Opened) end,
        %% A server that was stopped as an older copy does not vote again.
        fun() -> Stays(Opened) end,
        fun() -> start_server(Group, Opened) end,
        fun() -> Stays(Opened) end
    ],
    case run(Steps) of
        ok -> todana_members:begin_election(Group);
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
-spec stop(todana_raft_groups:id(), todana_data_dir:durability()) -> ok.
stop(Group, Durability) ->
    ok = todana_ra_server:stop(Group, Durability),
    try todana_ra_system:stop(Durability) catch _:_ -> ok end.

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
            Ours = todana_heartbeats:prepare(),
            case application:ensure_all_started(ra, temporary) of
                {ok, _} -> todana_heartbeats:note(Ours);
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

%% Once the system runs, its files belong to it.
-spec check(
    todana_raft_groups:id(), todana_data_dir:opened(),
    fun((todana_data_dir:opened()) -> ok | {error, term()})
) -> ok | {error, term()}.
check(Group, #{durability := Durability} = Opened, Check) ->
    case todana_ra_system:is_running(Durability) of
        true ->
            ok;
        false ->
            %% It may have failed, and be about to start again.
            ok = todana_ra_system:stop(Durability),
            ok = todana_flush_guard:end_writer(),
            {Name, _} = Server = todana_ra_server:address(Group),
            ok = todana_ra_system:await_end(Durability, Name),
            ok = todana_heartbeats:adapt(Opened),
            maybe
                ok ?= todana_ra_files:prepare(Server, Opened),
                Check(Opened)
            end
    end.

%% ---------------------------------------------------------------- server ---

-spec start_server(todana_raft_groups:id(), todana_data_dir:opened()) ->
    ok | {error, term()}.
start_server(Group, #{durability := Durability, has_group := true}) ->
    System = todana_ra_system:name(Durability),
    already(ra:restart_server(System, todana_ra_server:address(Group)));
start_server(Group, #{
    durability := Durability, uid := UId, class_dir := Class,
    server_dir := Directory
} = Opened) ->
    System = todana_ra_system:name(Durability),
    Config = config(
        Group, todana_ra_server:address(Group), UId,
        membership(Group, Opened)
    ),
    case already(ra:start_server(System, Config)) of
        ok ->
            %% From here on `check' insists on what must not be lost.
            #{directory_rev := Names} = todana_ra_system:names(Durability),
            ok = dets:sync(Names),
            ok = todana_small_file:sync_directory(Directory),
            ok = todana_small_file:sync_directory(Class),
            todana_data_dir:group_exists(Opened);
        Error ->
            Error
    end.

-spec config(
    todana_raft_groups:id(), ra:server_id(), binary(),
    {[ra:server_id()], voter | non_voter}
) -> map().
config(Group, {Name, _} = Id, UId, {Members, Membership}) ->
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
        %% Ra writes it to a file and reads it again, so its values are atoms,
        %% integers and binaries.
        machine => {module, todana_machine, #{group => Group}}
    }.

-doc """
Writes Ra's file about a server that is the only member of its group, as Ra does
when it starts one for the first time.
""".
-spec write_config(
    todana_raft_groups:id(), file:filename(), string(), ra:server_id()
) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
write_config(Group, Server, UId, Id) ->
    Config = config(Group, Id, list_to_binary(UId), {[Id], voter}),
    todana_small_file:replace(
        filename:join(Server, "config"), io_lib:format("~0p.~n", [Config])
    ).

%% A node that joins has no vote until the others give it one.
-spec membership(todana_raft_groups:id(), todana_data_dir:opened()) ->
    {[ra:server_id()], voter | non_voter}.
membership(Group, #{joining := []}) ->
    {[todana_ra_server:address(Group)], voter};
membership(Group, #{joining := Nodes}) ->
    {[todana_ra_server:address(Group, Node) || Node <- Nodes], non_voter}.

-spec already(ok | {error, term()}) -> ok | {error, term()}.
already({error, {already_started, _}}) -> ok;
already({error, Reason}) -> {error, {server, Reason}};
already(ok) -> ok.
