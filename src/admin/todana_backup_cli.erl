%% `bin/todana backup', `restore' and `load'.
%%
%% A backup is written to a file beside the one that was named, and gets its
%% name when every byte has been checked and is on disk. So a file with this
%% name is a whole backup, and one that exists is never replaced.
-module(todana_backup_cli).
-moduledoc false.

-export([backup/2, restore/2, load/2]).

-define(CHUNK_BYTES, (1 bsl 20)).

-doc "Asks the node with this control socket for a backup.".
-spec backup(file:filename(), file:filename()) -> no_return().
backup(Path, File) ->
    filelib:is_file(File) andalso throw(exists(File)),
    Partial = File ++ "." ++ os:getpid() ++ ".tmp",
    Remove = fun() -> _ = file:delete(Partial), ok end,
    %% Before there is a file: without this, a request to end would leave it,
    %% and end the command with status 0.
    ok = todana_signals:at_end(Remove),
    Fd =
        case file:open(Partial, [write, exclusive, raw, binary]) of
            {ok, Opened} -> Opened;
            {error, Reason} -> throw(failed("backup", Partial, Reason))
        end,
    try
        ok = of_file(Partial, file:change_mode(Partial, 8#600)),
        Bytes = receive_backup(Path, Partial, Fd),
        ok = of_file(Partial, file:sync(Fd)),
        _ = file:close(Fd),
        ok = publish(Partial, File),
        finish(io_lib:format(
            "~ts: ~b bytes. Tables in memory are not part of a backup.~n",
            [File, Bytes]
        ))
    catch
        throw:Sentence ->
            Remove(),
            throw(Sentence)
    end.

-spec receive_backup(file:filename(), file:filename(), file:io_device()) ->
    non_neg_integer().
receive_backup(Path, Partial, Fd) ->
    Take = fun(Bytes, {Size, Checking}) ->
        ok = of_file(Partial, file:write(Fd, Bytes)),
        {Size + byte_size(Bytes), todana_backup_file:check(Bytes, Checking)}
    end,
    Answer = todana_control:ask_bytes(
        Path, #{command => backup}, Take, {0, todana_backup_file:check()}
    ),
    {Size, Checking} = answer("backup", Path, Answer),
    case todana_backup_file:checked(Checking) of
        ok ->
            Size;
        {error, incomplete} ->
            throw("backup: the node closed the connection before the end; its "
                  "log says why");
        {error, damaged} ->
            throw("backup: the bytes that the node sent are damaged")
    end.

%% A link does not replace a file. Some file systems have none.
-spec publish(file:filename(), file:filename()) -> ok.
publish(Partial, File) ->
    Published =
        case file:make_link(Partial, File) of
            ok ->
                file:delete(Partial);
            {error, eexist} ->
                throw(exists(File));
            {error, _} ->
                filelib:is_file(File) andalso throw(exists(File)),
                file:rename(Partial, File)
        end,
    ok = of_file(File, Published),
    of_file(File, todana_small_file:sync_directory(
        filename:dirname(filename:absname(File))
    )).

-spec exists(file:filename()) -> iodata().
exists(File) ->
    ["backup: ", File, " exists; a backup replaces no file"].

%% The partial file is removed by the caller.
-spec of_file(file:filename(), ok | {error, term()}) -> ok.
of_file(_File, ok) -> ok;
of_file(File, {error, Reason}) -> throw(failed("backup", File, Reason)).

-spec failed(string(), file:filename(), term()) -> iodata().
failed(Command, File, Reason) ->
    [Command, ": ", File, ": ", file:format_error(Reason)].

-doc "Makes a data directory of a backup.".
-spec restore(file:filename(), file:filename()) -> no_return().
restore(File, DataDir) ->
    case todana_restore:restore(File, DataDir) of
        {ok, #{created_ms := Ms, node := Node, databases := Databases}} ->
            At = calendar:system_time_to_rfc3339(
                Ms, [{unit, millisecond}, {offset, "Z"}]
            ),
            finish([
                io_lib:format("restored the backup of ~ts, made by ~ts, into "
                              "~ts~n", [At, Node, DataDir]),
                named(Databases)
            ]);
        {error, Sentence} ->
            throw(["restore: ", Sentence])
    end.

%% The next start must name them in the same places.
-spec named(binary()) -> iodata().
named(<<>>) -> [];
named(_) ->
    "start it with the same `databases` as the node that was backed up\n".

-doc "Sends a file of JSON lines to the node with this control socket.".
-spec load(file:filename(), file:filename()) -> no_return().
load(Path, File) ->
    Fd =
        case file:open(File, [read, raw, binary]) of
            {ok, Opened} -> Opened;
            {error, Reason} -> throw(failed("load", File, Reason))
        end,
    Answer = todana_control:ask_with(
        Path, #{command => load}, fun(Socket) -> send(File, Fd, Socket) end,
        infinity
    ),
    #{~"loaded" := Loaded, ~"expired" := Expired} =
        answer("load", Path, Answer),
    finish(io_lib:format("~b records loaded~ts~n", [
        Loaded,
        case Expired of
            0 -> "";
            _ -> io_lib:format(", ~b had expired", [Expired])
        end
    ])).

-spec send(file:filename(), file:io_device(), gen_tcp:socket()) ->
    ok | {error, iodata()}.
send(File, Fd, Socket) ->
    case file:read(Fd, ?CHUNK_BYTES) of
        {ok, Bytes} ->
            case gen_tcp:send(Socket, Bytes) of
                ok -> send(File, Fd, Socket);
                %% The node has an answer already.
                {error, _} -> ok
            end;
        eof ->
            _ = gen_tcp:shutdown(Socket, write),
            ok;
        {error, Reason} ->
            throw(failed("load", File, Reason))
    end.

-spec answer(string(), file:filename(), {ok, T} | {error, term()}) -> T.
answer(_Command, _Path, {ok, Answer}) ->
    Answer;
answer(Command, Path, {error, no_node}) ->
    throw([Command, ": ", todana_control_path:no_node(Path)]);
answer(Command, _Path, {error, Sentence}) ->
    throw([Command, ": ", Sentence]).

-spec finish(unicode:chardata()) -> no_return().
finish(Text) ->
    io:put_chars(Text),
    halt(0).
