%% The file with the number of the operating system's process, for who stops a
%% server by it. It is there from when the server is ready until it ends in an
%% orderly way.
-module(todana_pid_file).
-moduledoc false.

-export([write/1, remove/0]).

-doc "Writes the file, whatever was there.".
-spec write(file:filename()) -> ok | {error, file:posix() | badarg}.
write(File) ->
    case file:write_file(File, [os:getpid(), $\n]) of
        ok -> application:set_env(todana, pid_file, filename:absname(File));
        {error, Reason} -> {error, Reason}
    end.

-doc "Removes the file, if one was written.".
-spec remove() -> ok.
remove() ->
    case application:get_env(todana, pid_file) of
        %% The environment stays as it is: at the node's end nobody is left who
        %% could change it.
        {ok, File} ->
            _ = file:delete(File),
            ok;
        undefined ->
            ok
    end.
