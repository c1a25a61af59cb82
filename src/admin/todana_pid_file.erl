%% The PID file. It exists from the moment the server is ready until the server
%% shuts down in an orderly way.
-module(todana_pid_file).
-moduledoc false.

-export([write/1, remove/0]).

-doc "Writes the file, and overwrites an existing one.".
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
        %% The environment need not be reset: the node is shutting down.
        {ok, File} ->
            _ = file:delete(File),
            ok;
        undefined ->
            ok
    end.
