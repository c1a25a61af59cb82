%% The data directory of a node that does not run: `bin/todana repair', and what
%% it has in common with `check' and `dump'.
-module(todana_offline).
-moduledoc false.

-export([locked/2, uid/1, config/2, repair/1]).

-doc "Does something with a data directory that no node may use meanwhile.".
-spec locked(file:filename(), fun(() -> {ok, T})) ->
    {ok, T} | {error, string()}.
locked(Directory, Work) ->
    Lock = unicode:characters_to_binary(filename:join(Directory, "lock")),
    File = filename:join(Directory, "node"),
    case file:read_file_info(File, [raw]) of
        {error, Reason} when Reason =/= enoent, Reason =/= enotdir ->
            {error, File ++ ": " ++ file:format_error(Reason)};
        {error, _} ->
            {error, lists:flatten(
                case todana_data_dir_check:unnamed(Directory) of
                    none -> [Directory, " is not a data directory of Todana"];
                    Sentence -> Sentence
                end
            )};
        {ok, _} ->
            case todana_nif:lock_file(Lock, list_to_binary(os:getpid())) of
                ok ->
                    try
                        Work()
                    after
                        todana_nif:unlock_file(Lock)
                    end;
                {locked, Pid} ->
                    {error, lists:flatten([
                        Directory, " is in use by a running node (process ",
                        binary_to_list(Pid), "): stop it first"
                    ])};
                {error, Sentence} ->
                    {error, unicode:characters_to_list(
                        [Lock, ": ", todana_log_problem:plain(Sentence)]
                    )}
            end
    end.

-doc "The identity of the log's only writer.".
-spec uid(file:filename()) -> binary().
uid(Directory) ->
    case todana_small_file:read_terms(filename:join(Directory, "node")) of
        {ok, Terms} -> proplists:get_value(uid, Terms, <<>>);
        {error, _} -> <<>>
    end.

-doc "Cuts the log at its first bad record; says what was done and lost.".
-spec repair(file:filename()) -> {ok, iodata()} | {error, string()}.
repair(DataDir) ->
    Directory = filename:absname(DataDir),
    Repaired =
        maybe
            ok ?= todana_data_rights:owner(Directory),
            locked(Directory, fun() -> {ok, repair_logs(Directory)} end)
        end,
    case Repaired of
        {ok, Results} ->
            case [Problem || {error, Problem} <- Results] of
                [Problem | _] when is_tuple(Problem) ->
                    {error, todana_log_problem:describe(Problem)};
                [Sentence | _] -> {error, Sentence};
                [] -> {ok, said([Text || {ok, Text} <- Results])}
            end;
        {error, Sentence} ->
            {error, Sentence}
    end.

-spec repair_logs(file:filename()) ->
    [{ok, iolist()} | {error, todana_log_problem:problem() | string()}].
repair_logs(Directory) ->
    %% With another identity, each record of the log would seem to be bad.
    case {todana_log_remedy:refusal(Directory), uid(Directory)} of
        {none, <<_, _/binary>> = UId} ->
            repair_each(Directory, UId);
        {none, _} ->
            [{error, todana_log_remedy:unknown(Directory)}];
        {Sentence, _} ->
            [{error, Sentence}]
    end.

-spec repair_each(file:filename(), binary()) ->
    [{ok, iolist()} | {error, todana_log_problem:problem()}].
repair_each(Directory, UId) ->
    [
        maybe
            ok ?= config(Directory, filename:join(Class, binary_to_list(UId))),
            todana_log_tail:repair(Class, UId, Durability)
        end
     || Durability <- [always, everysec],
        Class <- [filename:join(Directory, atom_to_list(Durability))],
        filelib:is_dir(Class)
    ].

-doc """
Whether the log has its configuration, without which no start reads it. A first
start that has not finished is repeated, and makes it.
""".
-spec config(file:filename(), file:filename()) ->
    ok | {error, todana_log_problem:problem()}.
config(DataDir, Server) ->
    IsFirst = case todana_data_dir:identity(DataDir) of
        {ok, #{uid := _} = Terms} -> not is_map_key(group, Terms);
        _ -> false
    end,
    case IsFirst orelse not filelib:is_dir(Server) of
        true -> ok;
        false -> todana_ra_files:check_config(Server)
    end.

-spec said([iolist()]) -> iodata().
said([]) -> "No entry of the log is damaged.\n";
said(Texts) -> Texts.
