%% Snapshots of the group, as Ra calls for them.
%%
%% Ra deletes everything that `validate' refuses if it accepts none. So an error
%% of the disk and a damaged snapshot end the process. `recover' ends it too: an
%% error that is returned means to Ra that the group begins with nothing, and it
%% would apply the rest of the log to that.
-module(todana_snapshot).
-moduledoc false.
-behaviour(ra_snapshot).

-include_lib("kernel/include/file.hrl").

-export([
    prepare/2, write/4, sync/1, begin_read/2, read_chunk/3, begin_accept/2,
    accept_chunk/2, complete_accept/2, recover/1, validate/1, read_meta/1,
    context/0, get_size/1
]).

-import(todana_snapshot_files, [
    meta/1, data/1, temporary/1, native/1, write_meta/2, complete/1,
    bear/1, damaged/2, unreadable/2, newer/1
]).

%% What one call of the native library writes, in a few milliseconds.
-define(SLICE_BYTES, (1 bsl 20)).
%% While writes are accepted, the writer takes a quarter of the time and leaves
%% the rest to them: a pause is three times as long as the slice before it, but
%% not longer than this.
-define(PAUSE_PER_SLICE, 3).
-define(PAUSE_MS_MAX, 10).

-type handle() :: {handle, todana_raft_groups:id(), pos_integer()}.
-type directory() :: todana_snapshot_files:directory().
-type accepting() :: {file:fd(), directory(), non_neg_integer()}.
-type reading() :: {file:fd(), non_neg_integer(), non_neg_integer()}.

%% --------------------------------------------------------------- writing ---

%% The handle was taken inside `apply', and is found by the index.
-spec prepare(ra_snapshot:meta() | non_neg_integer(),
              todana_machine:state()) -> handle().
prepare(_Meta, {snapshot, Group, Index}) -> {handle, Group, Index}.

%% In a worker process of Ra. A failure there is reported to the server, which
%% deletes the directory and goes on without this snapshot.
-spec write(directory(), ra_snapshot:meta(), handle(), boolean()) ->
    {ok, non_neg_integer()} | {error, term()}.
write(Directory, Meta, {handle, Group, Index}, _Sync) ->
    ok = todana_group_notes:snapshot_began(Index),
    try
        ok = write_meta(Directory, Meta),
        File = native(temporary(Directory)),
        write_slices(Group, Index, File)
    of
        {ok, Bytes} -> {ok, Bytes};
        {error, Reason} -> failed(Index, Reason)
    catch
        Class:Reason:Stack -> failed(Index, {Class, Reason, Stack})
    after
        todana_nif:group_snapshot_end(Group, Index)
    end.

-spec pause(non_neg_integer()) -> ok.
pause(SliceUs) ->
    case todana_nif:durable_state() of
        open ->
            PauseMs = (SliceUs * ?PAUSE_PER_SLICE + 999) div 1_000,
            timer:sleep(min(PauseMs, ?PAUSE_MS_MAX));
        _ ->
            ok
    end.

-spec failed(pos_integer(), term()) -> {error, term()}.
failed(Index, Reason) ->
    ok = todana_group_notes:snapshot_ended(Index, {error, Reason}),
    {error, Reason}.

-spec write_slices(todana_raft_groups:id(), pos_integer(), binary()) ->
    {ok, non_neg_integer()} | {error, term()}.
write_slices(Group, Index, File) ->
    Before = erlang:monotonic_time(microsecond),
    case todana_nif:group_snapshot_write(Group, Index, File, ?SLICE_BYTES) of
        more ->
            ok = pause(erlang:monotonic_time(microsecond) - Before),
            write_slices(Group, Index, File);
        {done, Bytes} -> {ok, Bytes};
        {error, Sentence} -> {error, Sentence}
    end.

-spec sync(directory()) -> ok | {error, term()}.
sync(Directory) ->
    {ok, #{index := Index}} = todana_snapshot_files:read_meta(Directory),
    try
        ok = complete(Directory),
        {ok, Bytes} = get_size(Directory),
        ok = todana_group_notes:snapshot_ended(Index, {ok, Bytes})
    catch
        Class:Reason:Stack -> failed(Index, {Class, Reason, Stack})
    end.

%% --------------------------------------------------------------- reading ---

-spec read_meta(directory()) -> {ok, ra_snapshot:meta()} | {error, term()}.
read_meta(Directory) -> todana_snapshot_files:read_meta(Directory).

%% At each start, for the newest one first. Checks the frame of the file;
%% `recover' checks each record.
-spec validate(directory()) -> ok | {error, term()}.
validate(Directory) ->
    case file:read_file_info(data(Directory), [raw]) of
        {ok, _} ->
            case todana_snapshot_files:read_meta(Directory) of
                {ok, _} -> validate_data(Directory);
                {error, Reason} -> damaged(Directory, Reason)
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
        {damaged, Sentence} -> damaged(Directory, Sentence);
        {newer, _} -> newer(Directory);
        {error, Reason} -> unreadable(data(Directory), Reason)
    end.

-spec recover(directory()) ->
    {ok, ra_snapshot:meta(), todana_machine:state()}.
recover(Directory) ->
    case todana_snapshot_files:read_meta(Directory) of
        {ok, Meta} ->
            load(Directory, Meta);
        {error, Reason} ->
            todana_group_notes:refuse("~ts: ~tp", [meta(Directory), Reason])
    end.

-spec load(directory(), ra_snapshot:meta()) ->
    {ok, ra_snapshot:meta(), todana_machine:state()}.
load(Directory, Meta) ->
    File = data(Directory),
    %% A power failure may have come between the snapshot and its mark.
    ok = bear(server(Directory)),
    Group = group(Directory),
    case todana_nif:group_restore(Group, native(File)) of
        ok ->
            #{index := Index, term := Term} = Meta,
            ok = todana_log_terms:begin_anew(Group, Index, Term),
            ok = found(Meta, File),
            {ok, Meta, {group, Group}};
        {_, Sentence} ->
            todana_group_notes:refuse(
                "~ts: ~ts", [Sentence, todana_log_remedy:words(Directory)]
            )
    end.

%% The directory of the server, by that of one of its snapshots.
-spec server(directory()) -> file:filename_all().
server(Directory) -> filename:dirname(filename:dirname(Directory)).

%% Ra gives this module directories only; the server's has the UId as its name.
-spec group(directory()) -> todana_raft_groups:id().
group(Directory) ->
    UId = unicode:characters_to_binary(filename:basename(server(Directory))),
    todana_raft_groups:of_uid(UId).

-spec found(ra_snapshot:meta(), file:filename_all()) -> ok.
found(#{index := Index}, File) ->
    case file:read_file_info(File, [raw, {time, posix}]) of
        {ok, #file_info{mtime = Seconds, size = Bytes}} when
            is_integer(Seconds)
        ->
            todana_group_notes:snapshot_found(Index, Seconds * 1_000, Bytes);
        _ ->
            ok
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
        {ok, Meta} ?= todana_snapshot_files:read_meta(Directory),
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
    File = temporary(Directory),
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
    File = temporary(Directory),
    ok = todana_nif:snapshot_verify(native(File)),
    ok = complete(Directory),
    {ok, Bytes}.
