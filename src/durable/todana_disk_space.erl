%% Whether the disk has room for the log, and whether a snapshot would make it.
%%
%% Below the reserve only removals are accepted, and below a small part of it,
%% the floor, none: the log needs some room to remove records and to begin a
%% new file. No write makes a snapshot due then, although a snapshot of fewer
%% records replaces the one before and the log. `judge' finds that out; its
%% caller has the snapshot written.
-module(todana_disk_space).
-moduledoc false.

-export([facts/2, reserve/1, floor_bytes/1, judge/1, has_shrunk/2]).

-export_type([facts/0, relief/0]).

%% A full file of the log and its successor.
-define(RESERVED_FILES, 2).
%% The floor is this part of the reserve, and a file at most.
-define(FLOOR_PART, 8).
%% A snapshot is worth its bytes if it lets this part of a file's bytes of log
%% be deleted (64 MiB), or frees what is lacking, or its own bytes; if these are
%% few, this number.
-define(WORTHWHILE_FILE_PART, 2).
-define(WORTHWHILE_BYTES, (1 bsl 20)).

-type facts() :: #{
    data_dir := file:filename(),
    free := non_neg_integer(),
    reserve := non_neg_integer(),
    data_bytes := non_neg_integer(),
    log_bytes := non_neg_integer(),
    %% Of the last snapshot.
    snapshot_bytes := non_neg_integer(),
    %% Of a full file of the log.
    file_bytes := pos_integer(),
    snapshot_in_progress := boolean()
}.
-type relief() :: snapshot | none.

-doc "The facts, with a reserve of 0.".
-spec facts(file:filename(), non_neg_integer()) -> facts().
facts(DataDir, Free) ->
    Group = todana_raft_groups:first(),
    #{data_bytes := DataBytes, log_bytes := LogBytes} =
        todana_nif:group_info(Group),
    #{
        data_dir => DataDir,
        free => Free,
        reserve => 0,
        data_bytes => DataBytes,
        log_bytes => LogBytes,
        snapshot_bytes => todana_group_notes:last_bytes(),
        file_bytes => todana_ra_system:log_file_bytes_max(),
        snapshot_in_progress => todana_snapshots:is_in_progress()
    }.

-doc "The bytes that must be free by default.".
-spec reserve(facts()) -> non_neg_integer().
reserve(#{data_bytes := DataBytes, file_bytes := FileBytes}) ->
    ?RESERVED_FILES * FileBytes + DataBytes.

-doc "Whether there is room, and if not, what would make some.".
-spec judge(facts()) -> {todana_group_notes:room(), relief()}.
judge(#{free := Free, reserve := Reserve}) when Free >= Reserve ->
    {ok, none};
judge(#{data_dir := DataDir, free := Free, reserve := Reserve} = Facts) ->
    {Hope, Relief} = hope(Facts),
    {Room, Accepted} = case Free >= floor_bytes(Facts) of
        true -> {removals, "only removals are accepted"};
        false -> {low, "not even removals are accepted"}
    end,
    Text = io_lib:format(
        "~b MiB are free on the disk of ~ts and ~b MiB are needed; ~ts~ts",
        [Free bsr 20, DataDir, mib(Reserve), Accepted, Hope]
    ),
    {{Room, lists:flatten(Text)}, Relief}.

-doc "What must be free for a removal, and beside the bytes of a snapshot.".
-spec floor_bytes(facts()) -> non_neg_integer().
floor_bytes(#{reserve := Reserve, file_bytes := FileBytes}) ->
    min(Reserve div ?FLOOR_PART, FileBytes).

-spec hope(facts()) -> {iodata(), relief()}.
hope(#{snapshot_in_progress := true} = Facts) ->
    {io_lib:format("; a snapshot is being written, after which up to ~b MiB "
                   "of log and an older one are deleted",
                   [replaced(Facts) bsr 20]), none};
hope(#{free := Free, data_bytes := DataBytes} = Facts) ->
    Needed = DataBytes + floor_bytes(Facts),
    case {is_worthwhile(Facts), Free >= Needed} of
        {false, _} ->
            {"; no snapshot would make room", none};
        {true, true} ->
            {"", snapshot};
        {true, false} ->
            {io_lib:format("; with ~b MiB a snapshot could be written, after "
                           "which up to ~b MiB of log and an older one are "
                           "deleted",
                           [mib(Needed), replaced(Facts) bsr 20]), none}
    end.

-spec is_worthwhile(facts()) -> boolean().
is_worthwhile(#{
    data_bytes := DataBytes, log_bytes := LogBytes, file_bytes := FileBytes
} = Facts) ->
    LogBytes >= FileBytes div ?WORTHWHILE_FILE_PART orelse
        replaced(Facts) - DataBytes >= worth(Facts).

%% The bytes that a snapshot must free: what is lacking, or its own bytes.
-spec worth(facts()) -> pos_integer().
worth(#{free := Free, reserve := Reserve, data_bytes := DataBytes}) ->
    min(Reserve - Free, max(DataBytes, ?WORTHWHILE_BYTES)).

-doc """
Whether records were removed since they had this number of bytes, so that a
snapshot is worth its bytes again.
""".
-spec has_shrunk(non_neg_integer(), facts()) -> boolean().
has_shrunk(BytesBefore, #{data_bytes := DataBytes} = Facts) ->
    BytesBefore - DataBytes >= worth(Facts).

%% What a snapshot replaces.
-spec replaced(facts()) -> non_neg_integer().
replaced(#{log_bytes := LogBytes, snapshot_bytes := SnapshotBytes}) ->
    LogBytes + SnapshotBytes.

-spec mib(non_neg_integer()) -> non_neg_integer().
mib(Bytes) -> (Bytes + (1 bsl 20) - 1) bsr 20.
