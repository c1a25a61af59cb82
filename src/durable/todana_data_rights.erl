%% The rights of the files of a data directory, and whose they are.
%%
%% A person has to correct them, so the start ends. Other causes may go away;
%% then Ra is started again.
-module(todana_data_rights).
-moduledoc false.

-export([check/1, owner/1, owner_of_new/1, owner_of_file/1]).

-include_lib("kernel/include/file.hrl").

-doc "The first file that this user may not use as the log does.".
-spec check(todana_data_dir:opened()) -> ok | {error, iolist()}.
check(#{data_dir := Directory, uid := UId}) ->
    Classes = [filename:join(Directory, Class) || Class <- classes()],
    Servers = [filename:join(C, binary_to_list(UId)) || C <- Classes],
    %% What Ra and the log go on writing to.
    Written = [Directory, filename:join(Directory, "node") | Classes] ++
        Servers ++
        found(Classes, ["names.dets", "meta.dets"]) ++
        found(Servers, ["config", "snapshots", "*.segment", "todana.mark"]),
    %% Those of which Ra makes new ones.
    Read = found(Classes, ["*.wal"]) ++ found(Servers, ["snapshots/*/*"]),
    maybe
        ok ?= each(Written),
        are_readable(Read)
    end.

-spec classes() -> [string()].
classes() -> ["always", "everysec"].

-spec found([file:filename()], [string()]) -> [file:filename()].
found(Directories, Patterns) ->
    [
        filename:join(In, Name)
     || In <- Directories, Pattern <- Patterns,
        Name <- filelib:wildcard(Pattern, In)
    ].

-doc """
Refuses root if the directory belongs to another user: a file that root creates
in it would keep the node of that user from starting. On Linux only.
""".
-spec owner(file:filename()) -> ok | {error, string()}.
owner(Directory) ->
    File = filename:join(Directory, "node"),
    case file:read_file_info(File, [raw]) of
        {ok, #file_info{uid = User}} when User =/= 0 ->
            case is_root() of
                true ->
                    {error, File ++ " belongs to user " ++
                        integer_to_list(User) ++ ", who may not read what "
                        "root creates beside it: run the command as that "
                        "user"};
                false -> ok
            end;
        _ ->
            ok
    end.

-doc "The same for a directory that is to be made, by the one that it is in.".
-spec owner_of_new(file:filename()) -> ok | {error, string()}.
owner_of_new(Name) ->
    Directory = filename:absname(Name),
    case {file:read_file_info(Directory, [raw]), is_root()} of
        {{ok, #file_info{uid = User}}, true} when User =/= 0 ->
            {error, Directory ++ " belongs to user " ++
                integer_to_list(User) ++ ", who may not read what root "
                "creates in it: run the command as that user"};
        {{error, enoent}, true} ->
            owner_of_new(filename:dirname(Directory));
        _ ->
            ok
    end.

-doc "Whose file this user may not use, as the end of a sentence.".
-spec owner_of_file(file:filename()) -> string().
owner_of_file(File) ->
    Self = case file:read_file_info("/proc/self", [raw]) of
        {ok, #file_info{uid = Id}} -> Id;
        {error, _} -> unknown
    end,
    case file:read_file_info(File, [raw]) of
        {ok, #file_info{uid = User}} when User =/= Self ->
            "; it belongs to user " ++ integer_to_list(User) ++ ": run the "
            "command as that user, or change the owner of the directory";
        {error, enoent} ->
            case filename:dirname(File) of
                File -> "";
                Directory -> owner_of_file(Directory)
            end;
        _ ->
            ""
    end.

-spec is_root() -> boolean().
is_root() ->
    case file:read_file("/proc/self/status") of
        {ok, Status} ->
            match =:= re:run(Status, ~"^Uid:\t\\d+\t0\t",
                             [multiline, {capture, none}]);
        {error, _} ->
            false
    end.

-spec each([file:filename()]) -> ok | {error, iolist()}.
each([]) ->
    ok;
each([Path | Paths]) ->
    case file:read_file_info(Path, [raw]) of
        {ok, #file_info{access = read_write}} ->
            each(Paths);
        {ok, #file_info{}} ->
            {error, [Path, " may not be read and written by this user, or is "
                     "on a read-only file system"]};
        {error, eacces} ->
            {error, [Path, ": ", file:format_error(eacces)]};
        {error, _} ->
            each(Paths)
    end.

-spec are_readable([file:filename()]) -> ok | {error, iolist()}.
are_readable([]) ->
    ok;
are_readable([Path | Paths]) ->
    case file:read_file_info(Path, [raw]) of
        {ok, #file_info{access = Access}} when
            Access =:= none; Access =:= write
        ->
            {error, [Path, " may not be read by this user"]};
        {error, eacces} ->
            {error, [Path, ": ", file:format_error(eacces)]};
        _ ->
            are_readable(Paths)
    end.
