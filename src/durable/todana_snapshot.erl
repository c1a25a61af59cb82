%% Snapshots of the group, as Ra calls for them.
%%
%%     <server>/todana.born                 a snapshot was completed once
%%     <server>/snapshots/TERM_INDEX/meta     Ra's words about it, with a CRC
%%     <server>/snapshots/TERM_INDEX/data.tds the records (native/group)
%%     <server>/damaged/..                    one that failed its checks
%%
%% `data.tds' gets its name when it is complete and on disk: a directory
%% without it is what a crash left of an attempt, and Ra may delete it. All
%% else that looks invalid must not be deleted, and Ra deletes everything that
%% `validate' refuses if it accepts none. So an error of the disk ends the
%% process, which Ra starts again, and a damaged snapshot is moved aside before
%% it is refused.
%%
%% `recover' ends the process too: an error that is returned means to Ra that
%% the group begins with nothing, and the rest of the log would be applied to
%% that.
-module(todana_snapshot).
-moduledoc false.
-behaviour(ra_snapshot).

-include_lib("kernel/include/file.hrl").

-export([
    prepare/2, write/4, sync/1, begin_read/2, read_chunk/3, begin_accept/2,
    accept_chunk/2, complete_accept/2, recover/1, validate/1, read_meta/1,
    context/0, get_size/1
]).
-export([insist/1, insist_on_none/1]).

-define(META_MAGIC, "TDSM").
-define(META_FORMAT, 1).
%% What one call of the native library writes, in a few milliseconds.
-define(SLICE_BYTES, (4 bsl 20)).

-type directory() :: file:filename_all().
-type accepting() :: {file:fd(), directory(), non_neg_integer()}.
-type reading() :: {file:fd(), non_neg_integer(), non_neg_integer()}.

%% Whether this server ever completed a snapshot.
-spec is_born(directory()) -> boolean().
is_born(ServerDirectory) ->
    case file:read_file_info(born(ServerDirectory)) of
        {ok, _} -> true;
        {error, enoent} -> false;
        {error, Reason} -> unreadable(born(ServerDirectory), Reason)
    end.

-doc """
Ends the calling process if there was a snapshot and is none: the log does not
begin at its first entry then, and must not be applied to empty tables.
""".
-spec insist(directory()) -> ok.
insist(ServerDirectory) ->
    Files = filename:join([ServerDirectory, "snapshots", "*", "data.tds"]),
    case is_born(ServerDirectory) andalso filelib:wildcard(Files) =:= [] of
        true -> missing(ServerDirectory);
        false -> ok
    end.

-doc "As `insist`, where it is known that there is none.".
-spec insist_on_none(directory()) -> ok.
insist_on_none(ServerDirectory) ->
    case is_born(ServerDirectory) of
        true -> missing(ServerDirectory);
        false -> ok
    end.

-spec missing(directory()) -> no_return().
missing(ServerDirectory) ->
    Damaged = filename:join(ServerDirectory, "damaged"),
    Hint = case filelib:is_dir(Damaged) of
        true -> [" (", Damaged, " has what was damaged)"];
        false -> ""
    end,
    todana_group_notes:refuse(
        "~ts: the snapshot is missing~ts, and the log does not begin at its "
        "first entry: restore a backup", [ServerDirectory, Hint]
    ).

%% --------------------------------------------------------------- writing ---

%% The handle was taken inside `apply', and is found by the index.
-spec prepare(ra_snapshot:meta(), todana_machine:state()) ->
    {handle, non_neg_integer()}.
prepare(_Meta, {snapshot, Index}) -> {handle, Index};
prepare(#{index := Index}, todana) -> {handle, Index}.

%% In a worker process of Ra. A failure there is reported to the server, which
%% deletes the directory and goes on without this snapshot.
-spec write(directory(), ra_snapshot:meta(), {handle, pos_integer()},
            boolean()) -> {ok, non_neg_integer()} | {error, term()}.
write(Directory, Meta, {handle, Index}, _Sync) ->
    ok = todana_group_notes:snapshot_began(Index),
    try
        ok = write_meta(Directory, Meta),
        File = native(filename:join(Directory, "data.tmp")),
        write_slices(Index, File)
    of
        {ok, Bytes} -> {ok, Bytes};
        {error, Reason} -> failed(Index, Reason)
    catch
        Class:Reason:Stack -> failed(Index, {Class, Reason, Stack})
    after
        todana_nif:group_snapshot_end(Index)
    end.

-spec failed(pos_integer(), term()) -> {error, term()}.
failed(Index, Reason) ->
    ok = todana_group_notes:snapshot_ended(Index, {error, Reason}),
    {error, Reason}.

-spec write_slices(pos_integer(), binary()) ->
    {ok, non_neg_integer()} | {error, term()}.
write_slices(Index, File) ->
    case todana_nif:group_snapshot_write(Index, File, ?SLICE_BYTES) of
        more -> write_slices(Index, File);
        {done, Bytes} -> {ok, Bytes};
        {error, Sentence} -> {error, Sentence}
    end.

-spec sync(directory()) -> ok | {error, term()}.
sync(Directory) ->
    {ok, #{index := Index}} = read_meta(Directory),
    try
        ok = complete(Directory),
        {ok, Bytes} = get_size(Directory),
        ok = todana_group_notes:snapshot_ended(Index, {ok, Bytes})
    catch
        Class:Reason:Stack -> failed(Index, {Class, Reason, Stack})
    end.

%% The mark comes before the name: were the snapshot complete and the mark
%% missing, a later loss of the snapshot would go unnoticed.
-spec complete(directory()) -> ok | {error, term()}.
complete(Directory) ->
    Temporary = filename:join(Directory, "data.tmp"),
    Server = filename:dirname(filename:dirname(Directory)),
    ok = sync_file(Temporary),
    ok = sync_file(meta(Directory)),
    ok = bear(Server),
    ok = file:rename(Temporary, data(Directory)),
    todana_data_dir:sync_directory(Directory).

-spec bear(directory()) -> ok.
bear(Server) ->
    case is_born(Server) of
        true -> ok;
        false -> ok = todana_data_dir:write_synced(born(Server), <<>>)
    end.

-spec sync_file(directory()) -> ok | {error, file:posix() | badarg}.
sync_file(File) ->
    {ok, Fd} = file:open(File, [read, write, raw]),
    Result = file:sync(Fd),
    ok = file:close(Fd),
    Result.

-spec write_meta(directory(), ra_snapshot:meta()) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
write_meta(Directory, Meta) ->
    Bytes = term_to_binary(Meta),
    Crc = erlang:crc32(Bytes),
    Head = <<?META_MAGIC, ?META_FORMAT, Crc:32>>,
    file:write_file(meta(Directory), [Head, Bytes], [raw]).

%% --------------------------------------------------------------- reading ---

-spec read_meta(directory()) -> {ok, ra_snapshot:meta()} | {error, term()}.
read_meta(Directory) ->
    case file:read_file(meta(Directory)) of
        {ok, <<?META_MAGIC, ?META_FORMAT, Crc:32, Bytes/binary>>} ->
            case erlang:crc32(Bytes) of
                Crc -> {ok, binary_to_term(Bytes)};
                _ -> {error, checksum_error}
            end;
        {ok, <<?META_MAGIC, Format, _/binary>>} when Format > ?META_FORMAT ->
            newer(Directory);
        {ok, _} ->
            {error, invalid_format};
        {error, enoent} ->
            {error, invalid_format};
        {error, Reason} ->
            unreadable(meta(Directory), Reason)
    end.

%% At each start, for the newest one first. Checks the frame of the file;
%% `recover' checks each record.
-spec validate(directory()) -> ok | {error, term()}.
validate(Directory) ->
    case file:read_file_info(data(Directory), [raw]) of
        {ok, _} ->
            case read_meta(Directory) of
                {ok, _} -> validate_data(Directory);
                {error, Reason} -> set_aside(Directory, Reason)
            end;
        {error, enoent} ->
            {error, incomplete};
        {error, Reason} ->
            unreadable(data(Directory), Reason)
    end.

-spec validate_data(directory()) -> ok | {error, term()}.
validate_data(Directory) ->
    case todana_nif:snapshot_verify_header(native(data(Directory))) of
        ok -> ok;
        {damaged, Sentence} -> set_aside(Directory, Sentence);
        {newer, _} -> newer(Directory);
        {error, Reason} -> unreadable(data(Directory), Reason)
    end.

-spec set_aside(directory(), term()) -> {error, term()}.
set_aside(Directory, Reason) ->
    Server = filename:dirname(filename:dirname(Directory)),
    Damaged = filename:join(Server, "damaged"),
    Stamp = integer_to_list(erlang:system_time(millisecond)),
    Name = [filename:basename(Directory), "-", Stamp],
    To = filename:join(Damaged, unicode:characters_to_list(Name)),
    _ = todana_group_notes:failure(lists:flatten(io_lib:format(
        "the snapshot ~ts is damaged (~tp); it is now ~ts",
        [Directory, Reason, To]
    ))),
    %% The mark says that there was one, even if it was received and not
    %% written here.
    ok = bear(Server),
    ok = filelib:ensure_path(Damaged),
    case file:rename(Directory, To) of
        ok -> {error, Reason};
        {error, Why} -> todana_group_notes:refuse(
            "~ts is damaged (~tp) and cannot be moved aside: ~ts",
            [Directory, Reason, file:format_error(Why)]
        )
    end.

-spec recover(directory()) ->
    {ok, ra_snapshot:meta(), todana_machine:state()}.
recover(Directory) ->
    case read_meta(Directory) of
        {ok, Meta} ->
            load(Directory, Meta);
        {error, Reason} ->
            todana_group_notes:refuse("~ts: ~tp", [meta(Directory), Reason])
    end.

-spec load(directory(), ra_snapshot:meta()) ->
    {ok, ra_snapshot:meta(), todana_machine:state()}.
load(Directory, Meta) ->
    File = data(Directory),
    case todana_nif:group_restore(native(File)) of
        ok ->
            {ok, Meta, todana};
        {_, Sentence} ->
            todana_group_notes:refuse("~ts: ~ts", [File, Sentence])
    end.

-spec get_size(directory()) -> {ok, non_neg_integer()} | {error, term()}.
get_size(Directory) ->
    case file:read_file_info(data(Directory), [raw]) of
        {ok, #file_info{size = Size}} -> {ok, Size};
        {error, Reason} -> {error, Reason}
    end.

%% ----------------------------------------------- to and from another node ---

-spec context() -> map().
context() -> #{todana => 1}.

-spec begin_read(directory(), map()) ->
    {ok, ra_snapshot:meta(), reading()} | {error, term()}.
begin_read(Directory, _Context) ->
    maybe
        {ok, Meta} ?= read_meta(Directory),
        {ok, Size} ?= get_size(Directory),
        {ok, Fd} ?= file:open(data(Directory), [read, raw, binary]),
        {ok, Meta, {Fd, 0, Size}}
    end.

-spec read_chunk(reading(), pos_integer(), directory()) ->
    {ok, binary(), {next, reading()} | last} | {error, term()}.
read_chunk({Fd, At, Size}, Bytes, _Directory) ->
    case file:pread(Fd, At, Bytes) of
        {ok, Chunk} when At + byte_size(Chunk) >= Size ->
            ok = file:close(Fd),
            {ok, Chunk, last};
        {ok, Chunk} ->
            {ok, Chunk, {next, {Fd, At + byte_size(Chunk), Size}}};
        eof ->
            _ = file:close(Fd),
            {error, unexpected_eof};
        {error, Reason} ->
            _ = file:close(Fd),
            {error, Reason}
    end.

-spec begin_accept(directory(), ra_snapshot:meta()) -> {ok, accepting()}.
begin_accept(Directory, Meta) ->
    ok = write_meta(Directory, Meta),
    File = filename:join(Directory, "data.tmp"),
    {ok, Fd} = file:open(File, [write, raw, binary]),
    {ok, {Fd, Directory, 0}}.

-spec accept_chunk(binary(), accepting()) -> {ok, accepting()}.
accept_chunk(Chunk, {Fd, Directory, Bytes}) ->
    ok = file:write(Fd, Chunk),
    {ok, {Fd, Directory, Bytes + byte_size(Chunk)}}.

%% The databases are untouched until here: everything is verified before the
%% file gets its name, and Ra calls `recover' afterwards.
-spec complete_accept(binary(), accepting()) -> {ok, non_neg_integer()}.
complete_accept(Chunk, Accepting) ->
    {ok, {Fd, Directory, Bytes}} = accept_chunk(Chunk, Accepting),
    ok = file:close(Fd),
    File = filename:join(Directory, "data.tmp"),
    ok = todana_nif:snapshot_verify(native(File)),
    ok = complete(Directory),
    {ok, Bytes}.

%% ----------------------------------------------------------------- names ---

-spec meta(directory()) -> file:filename_all().
meta(Directory) -> filename:join(Directory, "meta").

-spec data(directory()) -> file:filename_all().
data(Directory) -> filename:join(Directory, "data.tds").

-spec born(directory()) -> file:filename_all().
born(ServerDirectory) -> filename:join(ServerDirectory, "todana.born").

%% A path for the native library.
-spec native(directory()) -> binary().
native(Path) when is_binary(Path) -> Path;
native(Path) -> unicode:characters_to_binary(Path).

-spec unreadable(directory(), file:posix() | badarg | binary()) -> no_return().
unreadable(File, Sentence) when is_binary(Sentence) ->
    todana_group_notes:refuse("~ts cannot be read: ~ts", [File, Sentence]);
unreadable(File, Reason) ->
    unreadable(File, unicode:characters_to_binary(file:format_error(Reason))).

-spec newer(directory()) -> no_return().
newer(Directory) ->
    todana_group_notes:refuse(
        "~ts was written by a newer version of Todana", [Directory]
    ).
