%% A backup: facts about it, a snapshot, and a checksum, in one file.
%%
%% docs/internals/backup-format.md describes the file. The node sends these
%% bytes to `bin/todana backup', which writes them; `bin/todana restore' reads
%% them. Both check every byte.
-module(todana_backup_file).
-moduledoc false.

-export([header/1, trailer/1]).
-export([check/0, check/2, checked/1]).
-export([open/1, copy/2]).

-export_type([facts/0, checking/0]).

-define(MAGIC, <<16#89, "TDBACK\n">>).
-define(END_MAGIC, <<"\nKCABDT", 16#89>>).
-define(FORMAT, 1).
-define(HEAD_BYTES, 14).
-define(FACTS_BYTES_MAX, (1 bsl 20)).
%% A checksum and the last magic.
-define(TRAILER_BYTES, 12).
-define(CHUNK_BYTES, (1 bsl 20)).

-doc "What a restoration needs beside the snapshot, and what a person asks.".
-type facts() :: #{
    version := binary(),
    created_ms := non_neg_integer(),
    node := binary(),
    cluster := binary() | null,
    seed := non_neg_integer(),
    index := pos_integer(),
    term := pos_integer(),
    machine_version := non_neg_integer(),
    snapshot_bytes := non_neg_integer(),
    %% The file `databases' of the directory, empty if there is none.
    databases := binary()
}.
%% The bytes so far but for the last ones, which may be the trailer.
-record(checking, {crc = 0 :: non_neg_integer(), tail = <<>> :: binary()}).
-opaque checking() :: #checking{}.

%% --------------------------------------------------------------- writing ---

-doc "The first bytes. The snapshot and the trailer follow.".
-spec header(facts()) -> binary().
header(Facts) ->
    Json = iolist_to_binary(json:encode(Facts)),
    Head = <<?MAGIC/binary, ?FORMAT:16, (byte_size(Json)):32, Json/binary>>,
    <<Head/binary, (erlang:crc32(Head)):32>>.

-doc "The last bytes, behind others that have this checksum.".
-spec trailer(Crc :: non_neg_integer()) -> binary().
trailer(Crc) -> <<Crc:32, ?END_MAGIC/binary>>.

%% -------------------------------------------------------------- checking ---

-doc "Begins to check the bytes of a backup as they come.".
-spec check() -> checking().
check() -> #checking{}.

-spec check(binary(), checking()) -> checking().
check(Bytes, #checking{crc = Crc, tail = Tail}) ->
    All = <<Tail/binary, Bytes/binary>>,
    Size = max(0, byte_size(All) - ?TRAILER_BYTES),
    <<Body:Size/binary, Rest/binary>> = All,
    #checking{crc = erlang:crc32(Crc, Body), tail = binary:copy(Rest)}.

-doc "Whether these were the bytes of a whole backup.".
-spec checked(checking()) -> ok | {error, incomplete | damaged}.
checked(#checking{crc = Crc, tail = <<Crc:32, Magic/binary>>}) when
    Magic =:= ?END_MAGIC
->
    ok;
checked(#checking{tail = <<_:32, Magic/binary>>}) when Magic =:= ?END_MAGIC ->
    {error, damaged};
checked(#checking{}) ->
    {error, incomplete}.

%% --------------------------------------------------------------- reading ---

-doc "Opens a backup and reads its facts. An error is a sentence.".
-spec open(file:filename()) ->
    {ok, file:io_device(), facts()} | {error, iodata()}.
open(File) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Fd} ->
            case read_header(Fd) of
                {ok, Facts} ->
                    {ok, Fd, Facts};
                {error, Reason} ->
                    _ = file:close(Fd),
                    {error, sentence(File, Reason)}
            end;
        {error, Reason} ->
            {error, sentence(File, Reason)}
    end.

-spec read_header(file:io_device()) -> {ok, facts()} | {error, term()}.
read_header(Fd) ->
    maybe
        {ok, <<Magic:8/binary, Format:16, Size:32>> = Head} ?=
            file:read(Fd, ?HEAD_BYTES),
        true ?= Magic =:= ?MAGIC orelse {error, not_a_backup},
        true ?= Format =:= ?FORMAT orelse {error, newer},
        true ?= Size =< ?FACTS_BYTES_MAX orelse {error, damaged},
        {ok, <<Json:Size/binary, Crc:32>>} ?= file:read(Fd, Size + 4),
        true ?= Crc =:= erlang:crc32([Head, Json]) orelse {error, damaged},
        facts(Json)
    else
        eof -> {error, not_a_backup};
        {ok, <<16#89, _/binary>>} -> {error, incomplete};
        {ok, Bytes} when byte_size(Bytes) < ?HEAD_BYTES ->
            {error, not_a_backup};
        {ok, _} -> {error, incomplete};
        {error, Reason} -> {error, Reason}
    end.

%% The checksum was right, so a program has written them.
-spec facts(binary()) -> {ok, facts()} | {error, damaged}.
facts(Json) ->
    Keys = [
        version, created_ms, node, cluster, seed, index, term, machine_version,
        snapshot_bytes, databases
    ],
    try
        Decoded = json:decode(Json),
        {ok, #{Key => maps:get(atom_to_binary(Key), Decoded) || Key <- Keys}}
    catch
        error:_ -> {error, damaged}
    end.

-doc """
Writes the snapshot of an open backup to a new file and checks every byte of
the backup. `{source, Sentence}` is about the backup.
""".
-spec copy({file:filename(), file:io_device(), facts()}, file:filename()) ->
    ok | {error, {source, iodata()} | file:posix() | badarg}.
copy({Source, Fd, #{snapshot_bytes := Bytes}}, File) ->
    case file:open(File, [write, exclusive, raw, binary]) of
        {ok, To} ->
            %% The header was checked.
            Crc = erlang:crc32(header_of(Fd)),
            Copied = copy(Fd, To, Bytes, Crc),
            Synced = file:sync(To),
            _ = file:close(To),
            case {Copied, Synced} of
                {ok, ok} -> ok;
                {ok, {error, Reason}} -> {error, Reason};
                {{error, {source, Reason}}, _} ->
                    {error, {source, sentence(Source, Reason)}};
                {{error, Reason}, _} -> {error, Reason}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

-spec header_of(file:io_device()) -> binary().
header_of(Fd) ->
    {ok, Size} = file:position(Fd, cur),
    {ok, Header} = file:pread(Fd, 0, Size),
    Header.

-spec copy(
    file:io_device(), file:io_device(), non_neg_integer(), non_neg_integer()
) -> ok | {error, term()}.
copy(From, _To, 0, Crc) ->
    case file:read(From, ?TRAILER_BYTES + 1) of
        {ok, <<Crc:32, Magic:8/binary>>} when Magic =:= ?END_MAGIC -> ok;
        {ok, <<_:12/binary, _/binary>>} -> {error, {source, damaged}};
        {ok, _} -> {error, {source, incomplete}};
        eof -> {error, {source, incomplete}};
        {error, Reason} -> {error, {source, Reason}}
    end;
copy(From, To, Left, Crc) ->
    case file:read(From, min(Left, ?CHUNK_BYTES)) of
        {ok, Bytes} ->
            case file:write(To, Bytes) of
                ok ->
                    Next = erlang:crc32(Crc, Bytes),
                    copy(From, To, Left - byte_size(Bytes), Next);
                {error, Reason} ->
                    {error, Reason}
            end;
        eof ->
            {error, {source, incomplete}};
        {error, Reason} ->
            {error, {source, Reason}}
    end.

-spec sentence(file:filename(), term()) -> iodata().
sentence(File, not_a_backup) ->
    [File, " is not a backup of Todana"];
sentence(File, newer) ->
    [File, " was written by a newer version of Todana"];
sentence(File, damaged) ->
    [File, " is damaged: its checksum is wrong"];
sentence(File, incomplete) ->
    [File, " is incomplete: its end is missing"];
sentence(File, Reason) ->
    [File, ": ", file:format_error(Reason)].
