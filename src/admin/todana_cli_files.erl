%% `bin/todana check', `dump' and `repair': they work on a data directory that
%% no node uses.
-module(todana_cli_files).
-moduledoc false.

-export([check/1, dump/1, repair/1]).
%% A filter of the logger
-export([is_no_writer/2]).

-doc "Exit status 1 if a file is damaged.".
-spec check(string()) -> no_return().
check(DataDir) ->
    ok = todana_cli_process:native(),
    case todana_offline_check:check(DataDir) of
        {ok, Findings} ->
            io:put_chars([
                [string:pad(atom_to_list(Word), 8), File, ": ", Text, $\n]
             || {Word, File, Text} <- Findings
            ]),
            case [File || {damaged, File, _} <- Findings] of
                [] -> halt(0);
                Damaged -> throw(io_lib:format(
                    "check: ~b of ~b files are damaged",
                    [length(Damaged), length(Findings)]
                ))
            end;
        {error, Sentence} ->
            throw(["check: ", Sentence])
    end.

-doc "Prints the records of a data directory.".
-spec dump(string()) -> no_return().
dump(DataDir) ->
    ok = todana_cli_process:native(),
    _ = application:load(todana),
    ok = logger:set_primary_config(level, warning),
    ok = logger:add_primary_filter(?MODULE, {fun ?MODULE:is_no_writer/2, []}),
    ok = todana_log_held:hold(),
    case todana_offline_dump:dump(DataDir, fun io:put_chars/1) of
        ok ->
            ok = todana_log_held:log(),
            ok = application:stop(todana),
            ok = todana_log:flush(),
            halt(0);
        {error, Sentence} when is_binary(Sentence) -> throw(Sentence);
        {error, [First | _] = Sentence} when is_integer(First) ->
            throw(["dump: ", Sentence]);
        {error, Reason} ->
            todana_cli_start:not_started(Reason)
    end.

-doc "Stops OTP's message that nobody reads the output any more.".
-spec is_no_writer(logger:log_event(), []) -> logger:filter_return().
is_no_writer(#{msg := {"Writer crashed" ++ _, [epipe]}}, []) -> stop;
is_no_writer(_Event, []) -> ignore.

-doc "Cuts the log at its first damaged record.".
-spec repair(string()) -> no_return().
repair(DataDir) ->
    ok = todana_cli_process:native(),
    case todana_offline:repair(DataDir) of
        {ok, Text} -> todana_cli_process:finish(Text);
        {error, Sentence} -> throw(["repair: ", Sentence])
    end.
