%% The files of a snapshot, and the mark that there was one.
%%
%%     <server>/todana.born                   a snapshot was completed once
%%     <server>/snapshots/TERM_INDEX/meta     Ra's words about it, with a CRC
%%     <server>/snapshots/TERM_INDEX/data.tds the records (native/group)
%%     <server>/snapshots/TERM_INDEX/data.tmp the same, while it is written
%%
%% `data.tds' gets its name when it is complete and on disk: a directory without
%% it is what a crash left of an attempt. Functions end the calling process
%% where Ra would take an error for the absence of a snapshot.
-module(todana_snapshot_files).
-moduledoc false.

-export([insist_on_none/1, is_born/1, all/1, indexes/1, newest_problem/1,
         verify/1]).
-export([meta/1, data/1, temporary/1, native/1]).
-export([write_meta/2, meta_bytes/1, read_meta/1, complete/1, bear/1,
         damaged/2]).
-export([unreadable/2, newer/1]).

-export_type([directory/0]).

-define(META_MAGIC, "TDSM").
-define(META_FORMAT, 1).

-type directory() :: file:filename_all().

-doc """
Ends the calling process if there was a snapshot, where it is known that there
is none: the log does not begin at its first entry then, and must not be applied
to empty tables.
""".
-spec insist_on_none(directory()) -> ok.
insist_on_none(ServerDirectory) ->
    case is_born(ServerDirectory) of
        true -> missing(ServerDirectory);
        false -> ok
    end.

-spec missing(directory()) -> no_return().
missing(ServerDirectory) ->
    todana_group_notes:refuse(
        "~ts: the snapshot is missing, and the log does not begin at its first "
        "entry: ~ts", [
            ServerDirectory, todana_log_remedy:words(ServerDirectory)
        ]
    ).

-doc "Whether this server ever completed a snapshot.".
-spec is_born(directory()) -> boolean().
is_born(ServerDirectory) ->
    case file:read_file_info(born(ServerDirectory)) of
        {ok, _} -> true;
        {error, enoent} -> false;
        {error, Reason} -> unreadable(born(ServerDirectory), Reason)
    end.

-doc "The last entries of the complete snapshots, damaged or not.".
-spec indexes(directory()) -> [non_neg_integer()].
indexes(ServerDirectory) -> [Index || {Index, _File} <- all(ServerDirectory)].

-doc "The complete snapshots, damaged or not: the last entry, and the file.".
-spec all(directory()) -> [{non_neg_integer(), file:filename()}].
all(ServerDirectory) ->
    Pattern = filename:join([ServerDirectory, "snapshots", "*", "data.tds"]),
    [
        {Index, File}
     || File <- filelib:wildcard(Pattern),
        [_Term, Hexadecimal] <- [
            string:split(filename:basename(filename:dirname(File)), "_")
        ],
        {ok, [Index], []} <- [io_lib:fread("~16u", Hexadecimal)]
    ].

-doc "Reads the newest complete snapshot. Changes nothing.".
-spec newest_problem(directory()) -> none | todana_log_problem:problem().
newest_problem(ServerDirectory) ->
    case lists:sort(all(ServerDirectory)) of
        [] ->
            none;
        [_ | _] = Snapshots ->
            {_, File} = lists:last(Snapshots),
            case verify(File) of
                [] -> none;
                [Problem] -> Problem
            end
    end.

-doc "Reads one of them, and what Ra says about it.".
-spec verify(file:filename()) -> [todana_log_problem:problem()].
verify(File) ->
    Meta = meta(filename:dirname(File)),
    maybe
        ok ?= todana_nif:snapshot_verify(native(File)),
        {ok, Bytes} ?= file:read_file(Meta),
        {ok, _} ?= decode_meta(Bytes),
        []
    else
        {damaged, Sentence} ->
            [{snapshot, File, Sentence}];
        {newer, _Sentence} ->
            [{unusable, File, "it is of a newer version of Todana"}];
        {error, Sentence} when is_binary(Sentence) ->
            [{unusable, File, todana_log_problem:cause(Sentence)}];
        {error, Reason} when Reason =:= checksum; Reason =:= format ->
            Why = [Meta, " is damaged: wrong ", atom_to_list(Reason)],
            [{snapshot, Meta, Why}];
        {error, newer} ->
            [{unusable, Meta, "it is of a newer version of Todana"}];
        {error, enoent} ->
            [{missing, Meta, "this file of the snapshot is missing"}];
        {error, Reason} ->
            [{unusable, Meta, file:format_error(Reason)}]
    end.

%% ----------------------------------------------------------------- files ---

-spec meta(directory()) -> file:filename_all().
meta(Directory) -> filename:join(Directory, "meta").

-spec data(directory()) -> file:filename_all().
data(Directory) -> filename:join(Directory, "data.tds").

-spec born(directory()) -> file:filename_all().
born(ServerDirectory) -> filename:join(ServerDirectory, "todana.born").

-doc "A path for the native library.".
-spec native(directory()) -> binary().
native(Path) when is_binary(Path) -> Path;
native(Path) -> unicode:characters_to_binary(Path).

-spec temporary(directory()) -> file:filename_all().
temporary(Directory) -> filename:join(Directory, "data.tmp").

-spec write_meta(directory(), ra_snapshot:meta()) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
write_meta(Directory, Meta) ->
    file:write_file(meta(Directory), meta_bytes(Meta), [raw]).

-spec meta_bytes(ra_snapshot:meta()) -> iodata().
meta_bytes(Meta) ->
    Bytes = term_to_binary(Meta),
    Crc = erlang:crc32(Bytes),
    [<<?META_MAGIC, ?META_FORMAT, Crc:32>>, Bytes].

-spec read_meta(directory()) -> {ok, ra_snapshot:meta()} | {error, term()}.
read_meta(Directory) ->
    case file:read_file(meta(Directory)) of
        {ok, Bytes} ->
            case decode_meta(Bytes) of
                {error, newer} -> newer(Directory);
                Result -> Result
            end;
        {error, enoent} ->
            {error, format};
        {error, Reason} ->
            unreadable(meta(Directory), Reason)
    end.

-spec decode_meta(binary()) ->
    {ok, ra_snapshot:meta()} | {error, checksum | format | newer}.
decode_meta(<<?META_MAGIC, ?META_FORMAT, Crc:32, Bytes/binary>>) ->
    case erlang:crc32(Bytes) of
        Crc -> {ok, binary_to_term(Bytes)};
        _ -> {error, checksum}
    end;
decode_meta(<<?META_MAGIC, Format, _/binary>>) when Format > ?META_FORMAT ->
    {error, newer};
decode_meta(_Bytes) ->
    {error, format}.

-doc """
Gives a complete snapshot its name. When this returns, it is on disk under that
name, and so is the mark. Only then does Ra delete the log before it.
""".
-spec complete(directory()) -> ok | {error, term()}.
complete(Directory) ->
    Snapshots = filename:dirname(Directory),
    ok = sync_file(temporary(Directory)),
    ok = sync_file(meta(Directory)),
    ok = file:rename(temporary(Directory), data(Directory)),
    ok = todana_small_file:sync_directory(Directory),
    ok = todana_small_file:sync_directory(Snapshots),
    bear(filename:dirname(Snapshots)).

%% The mark comes last: without it and with a complete log a start is right to
%% begin with empty tables.
-doc "Marks that the server has a snapshot.".
-spec bear(directory()) -> ok.
bear(Server) ->
    case is_born(Server) of
        true -> ok;
        false -> ok = todana_small_file:replace(born(Server), <<>>)
    end.

-spec sync_file(directory()) -> ok | {error, file:posix() | badarg}.
sync_file(File) ->
    {ok, Fd} = file:open(File, [read, write, raw]),
    Result = file:sync(Fd),
    ok = file:close(Fd),
    Result.

-doc """
Keeps a damaged snapshot from Ra, which would delete it: ends the process. A
start has verified it before, so it was damaged since.
""".
-spec damaged(directory(), iodata() | atom()) -> no_return().
damaged(Directory, Reason) when is_atom(Reason) ->
    Words = [meta(Directory), " is damaged: wrong ", atom_to_list(Reason)],
    damaged(Directory, Words);
damaged(Directory, Sentence) ->
    todana_group_notes:refuse(
        "~ts: ~ts", [Sentence, todana_log_remedy:words(Directory)]
    ).

-spec unreadable(directory(), file:posix() | badarg | binary()) -> no_return().
unreadable(File, Sentence) when is_binary(Sentence) ->
    Cause = todana_log_problem:cause(Sentence),
    todana_group_notes:refuse_for_now("~ts cannot be read: ~ts", [File, Cause]);
unreadable(File, Reason) ->
    unreadable(File, unicode:characters_to_binary(file:format_error(Reason))).

-spec newer(directory()) -> no_return().
newer(Directory) ->
    todana_group_notes:refuse(
        "~ts was written by a newer version of Todana", [Directory]
    ).
