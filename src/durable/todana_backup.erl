%% The node's side of `bin/todana backup': the durable databases and tables at
%% one entry of the log, while clients work.
%%
%% That entry is a command which has this node alone write a snapshot. The
%% snapshot contains everything that was acknowledged before, and takes the
%% place of the log like any other; its file is open while it is sent, so Ra may
%% remove it meanwhile.
-module(todana_backup).
-moduledoc false.

-export([prepare/0, send/2]).

-export_type([backup/0]).

-define(CHUNK_BYTES, (1 bsl 20)).
%% A snapshot that is being written when the command comes is older than it.
-define(ATTEMPTS, 10).
-define(PAUSE_MS, 500).
%% How long a leader may be missing: longer than an election takes.
-define(LEADERLESS_MS, 5_000).

-type backup() :: {file:io_device(), todana_backup_file:facts()}.

-doc "Takes the snapshot. An error is a sentence.".
-spec prepare() -> {ok, backup()} | {error, iodata()}.
prepare() ->
    Group = todana_raft_groups:first(),
    case whereis(todana_raft_groups:name(todana_group, Group)) of
        undefined ->
            {error, "this node has no data directory: its records are in "
                    "memory only"};
        _ ->
            maybe
                {ok, Index} ?= snapshot(Group, ?ATTEMPTS, now_ms()),
                open(Group, Index, ?ATTEMPTS)
            end
    end.

%% The last time with a leader counts. To ask takes seconds itself.
-spec snapshot(
    todana_raft_groups:id(), non_neg_integer(), LedMs :: integer()
) -> {ok, pos_integer()} | {error, iodata()}.
snapshot(Group, Left, LedMs) ->
    Before = todana_group_notes:attempts(),
    case todana_members:ask(Group, {snapshot, node()}) of
        {ok, {index, Index}} ->
            Ended = todana_group_notes:await_attempt(Before, infinity),
            case {todana_group_notes:last_index() >= Index, Ended} of
                {true, _} ->
                    {ok, Index};
                {false, Later} when
                    Left > 0, Later =:= ok orelse Later =:= {error, ignored}
                ->
                    snapshot(Group, Left - 1, now_ms());
                {false, {error, Reason}} ->
                    {error, ["the snapshot was not written: ",
                             io_lib:format("~0tp", [Reason])]};
                {false, ok} ->
                    {error, "other snapshots are being written: try again "
                            "later"}
            end;
        {ok, _} ->
            {error, "the leader of the cluster runs an older version of "
                    "Todana, which makes no backups: upgrade it first"};
        {error, _} ->
            case now_ms() - LedMs < ?LEADERLESS_MS of
                true ->
                    timer:sleep(?PAUSE_MS),
                    snapshot(Group, Left, LedMs);
                false ->
                    {error, "the log does not answer, or the cluster has no "
                            "leader: see `status`"}
            end
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).

%% A newer one may have taken its place.
-spec open(todana_raft_groups:id(), pos_integer(), non_neg_integer()) ->
    {ok, backup()} | {error, iodata()}.
open(Group, Index, Left) ->
    #{server_dir := Server} = Opened = todana_raft_groups:opened(Group),
    {_, File} = lists:max([{0, none} | todana_snapshot_files:all(Server)]),
    maybe
        true ?= File =/= none orelse {error, enoent},
        {ok, Meta} ?= todana_snapshot_files:read_meta(filename:dirname(File)),
        {ok, Fd} ?= file:open(File, [read, raw, binary]),
        {ok, Bytes} ?= file:position(Fd, eof),
        {ok, 0} ?= file:position(Fd, bof),
        #{index := Taken} = Meta,
        true = Taken >= Index,
        {ok, {Fd, facts(Opened, Meta, Bytes)}}
    else
        {error, Reason} when
            Left > 0, Reason =:= enoent orelse Reason =:= format
        ->
            open(Group, Index, Left - 1);
        {error, Reason} ->
            {error, io_lib:format("the snapshot cannot be read: ~0tp",
                                  [Reason])}
    end.

-spec facts(todana_data_dir:opened(), map(), non_neg_integer()) ->
    todana_backup_file:facts().
facts(#{data_dir := DataDir, seed := Seed, cluster := Cluster}, Meta, Bytes) ->
    #{index := Index, term := Term, machine_version := Version} = Meta,
    #{
        version => version(),
        created_ms => erlang:system_time(millisecond),
        node => atom_to_binary(node()),
        cluster => case Cluster of none -> null; _ -> Cluster end,
        seed => Seed,
        index => Index,
        term => Term,
        machine_version => Version,
        snapshot_bytes => Bytes,
        databases => todana_named_databases:bytes(DataDir)
    }.

-spec version() -> binary().
version() ->
    {ok, Version} = application:get_key(todana, vsn),
    unicode:characters_to_binary(Version).

-doc "Sends the file with this function, and ends the backup.".
-spec send(backup(), fun((binary()) -> ok | {error, term()})) ->
    ok | {error, term()}.
send({Fd, #{snapshot_bytes := Bytes} = Facts}, Send) ->
    Header = todana_backup_file:header(Facts),
    try
        maybe
            ok ?= Send(Header),
            {ok, Crc} ?= send(Fd, Bytes, erlang:crc32(Header), Send),
            Send(todana_backup_file:trailer(Crc))
        end
    after
        file:close(Fd)
    end.

-spec send(
    file:io_device(), non_neg_integer(), non_neg_integer(),
    fun((binary()) -> ok | {error, term()})
) -> {ok, Crc :: non_neg_integer()} | {error, term()}.
send(_Fd, 0, Crc, _Send) ->
    {ok, Crc};
send(Fd, Left, Crc, Send) ->
    maybe
        {ok, Bytes} ?= file:read(Fd, min(Left, ?CHUNK_BYTES)),
        ok ?= Send(Bytes),
        send(Fd, Left - byte_size(Bytes), erlang:crc32(Crc, Bytes), Send)
    else
        eof -> {error, unexpected_eof};
        {error, _} = Error -> Error
    end.
