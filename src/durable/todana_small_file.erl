%% Small files that must be right after a power failure.
-module(todana_small_file).
-moduledoc false.

-export([read_terms/1, replace/2, sync_directory/1]).

-doc "The terms in a file. `file:consult/1' raises if the disk fails.".
-spec read_terms(file:filename()) -> {ok, [term()]} | {error, term()}.
read_terms(File) ->
    case file:read_file(File) of
        {ok, _} ->
            try
                file:consult(File)
            catch
                error:_ -> {error, eio}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

-doc "Replaces a file. It is on disk, under its name, when this returns.".
-spec replace(file:filename_all(), iodata()) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
replace(File, Bytes) ->
    Temporary = unicode:characters_to_list([File, ".tmp"]),
    maybe
        ok ?= file:write_file(Temporary, Bytes, [raw, sync]),
        ok ?= file:rename(Temporary, File),
        sync_directory(filename:dirname(File))
    end.

-spec sync_directory(file:filename_all()) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
sync_directory(Directory) ->
    maybe
        {ok, Fd} ?= file:open(Directory, [read, raw, directory]),
        Result = file:sync(Fd),
        ok ?= file:close(Fd),
        Result
    end.
