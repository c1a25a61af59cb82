%% `bin/todana restore': makes a data directory of a backup.
%%
%% The directory is a new one: with an identity of its own, no cluster, and a
%% log that begins behind the snapshot of the backup. So a node that starts with
%% it can never be taken for the one that was backed up. Its first start gives
%% it the name of its node.
%%
%% Everything is made in `<directory>/restore.tmp' and moved up when it is
%% complete, the file `node' last: a start refuses what an interrupted
%% restoration leaves.
-module(todana_restore).
-moduledoc false.

-export([restore/2]).

-define(TEMPORARY, "restore.tmp").
%% Made by the file system.
-define(IGNORED, ["lost+found"]).

-doc "Returns the facts of the backup. An error is a sentence.".
-spec restore(file:filename(), file:filename()) ->
    {ok, todana_backup_file:facts()} | {error, iodata()}.
restore(File, DataDir) ->
    Directory = filename:absname(DataDir),
    case todana_backup_file:open(File) of
        {ok, Fd, Facts} ->
            try
                restore({File, Fd, Facts}, Facts, Directory)
            after
                file:close(Fd)
            end;
        {error, Sentence} ->
            {error, Sentence}
    end.

-spec restore(
    {file:filename(), file:io_device(), todana_backup_file:facts()},
    todana_backup_file:facts(), file:filename()
) -> {ok, todana_backup_file:facts()} | {error, iodata()}.
restore(Backup, Facts, Directory) ->
    New = missing(Directory),
    Restored =
        maybe
            ok ?= todana_data_rights:owner_of_new(Directory),
            ok ?= is_known(Backup),
            ok ?= make_directory(Directory),
            restore_into(Backup, Directory)
        end,
    case Restored of
        ok ->
            {ok, Facts};
        {error, Sentence} ->
            %% Not those in which somebody has put something.
            lists:foreach(fun file:del_dir/1, New),
            {error, Sentence}
    end.

%% The directories that do not exist yet, from the innermost.
-spec missing(file:filename()) -> [file:filename()].
missing(Directory) ->
    case file:read_link_info(Directory) of
        {error, enoent} -> [Directory | missing(filename:dirname(Directory))];
        _ -> []
    end.

-spec restore_into(
    {file:filename(), file:io_device(), todana_backup_file:facts()},
    file:filename()
) -> ok | {error, iodata()}.
restore_into(Backup, Directory) ->
    Temporary = filename:join(Directory, ?TEMPORARY),
    maybe
        ok ?= in_words(Temporary, file:make_dir(Temporary)),
        Made =
            maybe
                ok ?= make(Backup, Temporary),
                publish(Temporary, Directory)
            end,
        made(Temporary, Made)
    end.

-spec made(file:filename(), ok | {error, iodata()}) -> ok | {error, iodata()}.
made(_Temporary, ok) ->
    ok;
made(Temporary, {error, Sentence}) ->
    _ = file:del_dir_r(Temporary),
    {error, [Sentence, "; nothing was restored"]}.

-spec is_known(
    {file:filename(), file:io_device(), todana_backup_file:facts()}
) -> ok | {error, iodata()}.
is_known({File, _, #{machine_version := Version}}) ->
    case Version =< todana_machine:version() of
        true -> ok;
        false -> {error, [File, " was written by a newer version of Todana"]}
    end.

-spec make_directory(file:filename()) -> ok | {error, iodata()}.
make_directory(Directory) ->
    case file:list_dir(Directory) of
        {error, enoent} ->
            maybe
                ok ?= in_words(Directory, filelib:ensure_path(Directory)),
                in_words(Directory, file:change_mode(Directory, 8#700))
            end;
        {ok, Names} ->
            is_empty(Directory, lists:sort(Names -- ?IGNORED));
        {error, Reason} ->
            in_words(Directory, {error, Reason})
    end.

-spec is_empty(file:filename(), [file:filename()]) -> ok | {error, iodata()}.
is_empty(Directory, []) ->
    %% Of an empty directory that somebody else has made.
    _ = file:change_mode(Directory, 8#700),
    ok;
is_empty(Directory, Names) ->
    {error, case lists:member(?TEMPORARY, Names) of
        true ->
            [filename:join(Directory, ?TEMPORARY), " was left by a restoration "
             "that was interrupted: remove what is in ", Directory];
        false ->
            [Directory, " is not empty, it contains ", hd(Names), ": restore "
             "into a new directory"]
    end}.

-spec make(
    {file:filename(), file:io_device(), todana_backup_file:facts()},
    file:filename()
) -> ok | {error, iodata()}.
make({File, _, Facts} = Backup, Temporary) ->
    #{index := Index, term := Term, databases := Databases} = Facts,
    #{seed := Seed, machine_version := Version} = Facts,
    {UId, Terms} = todana_data_dir:restored(Seed),
    Server = filename:join([Temporary, "always", UId]),
    Name = [ra_lib:zpad_hex(Term), $_, ra_lib:zpad_hex(Index)],
    Snapshot = unicode:characters_to_list(
        filename:join([Server, "snapshots", iolist_to_binary(Name)])
    ),
    Copy = todana_snapshot_files:temporary(Snapshot),
    %% A backup has the records of one group.
    Group = todana_raft_groups:first(),
    Id = todana_ra_server:address(Group),
    Meta = #{
        index => Index, term => Term, machine_version => Version,
        cluster => #{Id => #{}}
    },
    maybe
        ok ?= in_words(Snapshot, filelib:ensure_path(Snapshot)),
        ok ?= copied(Copy, todana_backup_file:copy(Backup, Copy)),
        ok ?= verified(File, todana_nif:snapshot_verify(
            todana_snapshot_files:native(Copy)
        )),
        ok ?= in_words(Snapshot,
                       todana_snapshot_files:write_meta(Snapshot, Meta)),
        ok ?= in_words(Snapshot, completed(Snapshot)),
        ok ?= in_words(Server, todana_ra:write_config(
            Group, Server, UId, Id
        )),
        ok ?= databases(Temporary, Databases),
        ok ?= in_words(Server, todana_small_file:sync_directory(
            filename:dirname(Server)
        )),
        in_words(Temporary, todana_data_dir:write_terms(Temporary, Terms))
    end.

-spec completed(file:filename()) -> ok | {error, term()}.
completed(Snapshot) ->
    try
        todana_snapshot_files:complete(Snapshot)
    catch
        error:{badmatch, {error, Reason}} -> {error, Reason}
    end.

-spec copied(file:filename(), ok | {error, term()}) -> ok | {error, iodata()}.
copied(_Copy, {error, {source, Sentence}}) -> {error, Sentence};
copied(Copy, Result) -> in_words(Copy, Result).

-spec verified(file:filename(), ok | {atom(), binary()}) ->
    ok | {error, iodata()}.
verified(_File, ok) -> ok;
verified(File, {_, Sentence}) -> {error, [File, ": ", Sentence]}.

-spec databases(file:filename(), binary()) -> ok | {error, iodata()}.
databases(_Temporary, <<>>) ->
    ok;
databases(Temporary, Bytes) ->
    File = filename:join(Temporary, "databases"),
    in_words(File, todana_small_file:replace(File, Bytes)).

%% Without `node' a start refuses the rest.
-spec publish(file:filename(), file:filename()) -> ok | {error, iodata()}.
publish(Temporary, Directory) ->
    {ok, Names} = file:list_dir(Temporary),
    Published = [filename:join(Directory, Name) || Name <- Names],
    Moved = lists:foldl(
        fun(Name, ok) ->
                file:rename(
                    filename:join(Temporary, Name),
                    filename:join(Directory, Name)
                );
           (_, Error) ->
                Error
        end, ok, (Names -- ["node"]) ++ ["node"]
    ),
    Done =
        maybe
            ok ?= in_words(Directory, Moved),
            ok ?= in_words(Temporary, file:del_dir(Temporary)),
            in_words(Directory, todana_small_file:sync_directory(Directory))
        end,
    _ = Done =/= ok andalso lists:foreach(fun file:del_dir_r/1, Published),
    Done.

-spec in_words(file:filename(), ok | {error, term()}) ->
    ok | {error, iodata()}.
in_words(_File, ok) -> ok;
in_words(File, {error, Reason}) ->
    {error, [File, ": ", file:format_error(Reason)]}.
