%% Files that the disk does not give: an error of reading is no damage.
-module(todana_log_unreadable).
-moduledoc false.

-export([first/1, first_of/1]).

%% Of a file, at a time.
-define(READ_BYTES, 1 bsl 20).

-doc "The first file of the log or of a snapshot that cannot be read.".
-spec first(file:filename()) -> todana_log_problem:problem() | none.
first(Directory) ->
    Patterns = ["*.wal", "*/*.segment", "*/snapshots/*/*"],
    Files = [
        filename:join(Directory, Name)
     || Pattern <- Patterns, Name <- filelib:wildcard(Pattern, Directory)
    ],
    first_of(Files).

-doc "The first of these files that cannot be read.".
-spec first_of([file:filename()]) -> todana_log_problem:problem() | none.
first_of([]) ->
    none;
first_of([File | Files]) ->
    case file:open(File, [read, raw, binary]) of
        {ok, Fd} ->
            Result = read_all(Fd),
            _ = file:close(Fd),
            case Result of
                eof -> first_of(Files);
                {error, Reason} ->
                    {unusable, File, file:format_error(Reason)}
            end;
        {error, enoent} ->
            first_of(Files);
        {error, Reason} ->
            {unusable, File, file:format_error(Reason)}
    end.

-spec read_all(file:fd()) -> eof | {error, term()}.
read_all(Fd) ->
    case file:read(Fd, ?READ_BYTES) of
        {ok, _} -> read_all(Fd);
        Ended -> Ended
    end.
