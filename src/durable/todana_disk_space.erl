%% Whether the disk has room for the log, and whether a snapshot would make it.
%%
%% Below the reserve no writes are accepted, so no write makes a snapshot due,
%% although the log before one is deleted. `judge' finds that out; its caller
%% has the snapshot written.
-module(todana_disk_space).
-moduledoc false.

-export([facts/2, reserve/1, judge/1]).

-export_type([facts/0, relief/0]).

%% A full file of the log and its successor.
-define(RESERVED_FILES, 2).
%% A snapshot is worth its bytes if it lets this part of a file's bytes be
%% deleted: 64 MiB.
-define(WORTHWHILE_FILE_PART, 2).

-type facts() :: #{
    data_dir := file:filename(),
    free := non_neg_integer(),
    reserve := non_neg_integer(),
    data_bytes := non_neg_integer(),
    log_bytes := non_neg_integer(),
    %% Of a full file of the log.
    file_bytes := pos_integer(),
    snapshot_in_progress := boolean()
}.
-type relief() :: snapshot | none.

-doc "The facts, with a reserve of 0.".
-spec facts(file:filename(), non_neg_integer()) -> facts().
facts(DataDir, Free) ->
    #{data_bytes := DataBytes, log_bytes := LogBytes} = todana_nif:group_info(),
    #{
        data_dir => DataDir,
        free => Free,
        reserve => 0,
        data_bytes => DataBytes,
        log_bytes => LogBytes,
        file_bytes => todana_ra:wal_bytes_max(),
        snapshot_in_progress => todana_group:is_snapshot_in_progress()
    }.

-doc "The bytes that must be free by default.".
-spec reserve(facts()) -> non_neg_integer().
reserve(#{data_bytes := DataBytes, file_bytes := FileBytes}) ->
    ?RESERVED_FILES * FileBytes + DataBytes.

-doc "Whether there is room, and if not, what would make some.".
-spec judge(facts()) -> {todana_group:room(), relief()}.
judge(#{free := Free, reserve := Reserve}) when Free >= Reserve ->
    {ok, none};
judge(#{data_dir := DataDir, free := Free, reserve := Reserve} = Facts) ->
    {Hope, Relief} = hope(Facts),
    Text = io_lib:format(
        "~b MiB are free on the disk of ~ts and ~b MiB are needed~ts",
        [Free bsr 20, DataDir, mib(Reserve), Hope]
    ),
    {{low, lists:flatten(Text)}, Relief}.

-spec hope(facts()) -> {iodata(), relief()}.
hope(#{snapshot_in_progress := true, log_bytes := LogBytes}) ->
    {io_lib:format("; a snapshot is being written, after which ~b MiB of log "
                   "are deleted", [LogBytes bsr 20]), none};
hope(#{log_bytes := LogBytes, file_bytes := FileBytes}) when
    LogBytes < FileBytes div ?WORTHWHILE_FILE_PART
->
    {"", none};
hope(#{
    free := Free, data_bytes := DataBytes, file_bytes := FileBytes,
    log_bytes := LogBytes
}) ->
    Needed = DataBytes + FileBytes,
    case Free >= Needed of
        true ->
            {"", snapshot};
        false ->
            {io_lib:format("; with ~b MiB a snapshot could be written, after "
                           "which ~b MiB of log are deleted",
                           [mib(Needed), LogBytes bsr 20]), none}
    end.

-spec mib(non_neg_integer()) -> non_neg_integer().
mib(Bytes) -> (Bytes + (1 bsl 20) - 1) bsr 20.
