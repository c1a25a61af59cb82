%% `bin/todana config': shows the options, and checks them.
-module(todana_cli_config).
-moduledoc false.

-export([show/1, check/1]).

-doc "`bin/todana config show`.".
-spec show(map()) -> no_return().
show(Flags) ->
    {Loaded, File} = todana_cli_flags:load(Flags),
    Width = lists:max([length(atom_to_list(N)) || N <- todana_options:names()]),
    Lines = [
        begin
            #{Name := {Value, Origin}} = Loaded,
            %% string:pad/2, because a field width would truncate longer text.
            Text = string:pad(todana_option_type:format(Type, Value), 24),
            io_lib:format("~-*ts = ~ts # ~ts~n",
                          [Width, Name, Text, where(Origin, Name, File)])
        end
     || #{name := Name, type := Type} <- todana_options:all()
    ],
    ok = remarks(Loaded),
    todana_cli_process:finish(Lines).

-doc "`bin/todana config check`.".
-spec check(map()) -> no_return().
check(Flags) ->
    {Loaded, _File} = todana_cli_flags:load(Flags),
    Options = #{Name => Value || Name := {Value, _Origin} <- Loaded},
    Checked =
        maybe
            ok ?= todana_cluster_start:check(Options),
            check_cookie(Options)
        end,
    case Checked of
        ok -> ok;
        {error, Sentence} -> throw(Sentence)
    end,
    ok = remarks(Loaded),
    todana_cli_process:finish("the configuration is good\n").

-spec where(todana_config:origin(), atom(), string()) -> string().
where(default, _Name, _File) -> "default";
where(file, _Name, File) -> "file " ++ File;
where(env, Name, _File) -> "env " ++ todana_options:variable(Name);
where(flag, Name, _File) -> "flag " ++ todana_options:flag(Name).

%% A node with a name reads the file. The directory of a member knows it.
-spec check_cookie(todana_config:options()) -> ok | {error, iodata()}.
check_cookie(#{data_dir := off}) ->
    ok;
check_cookie(#{data_dir := DataDir, node := Name, cookie_file := File}) ->
    Known = case todana_data_dir:identity(DataDir) of
        {ok, #{} = Terms} -> Terms;
        none -> #{}
    end,
    case {Name =:= off andalso not is_map_key(cluster, Known), File, Known} of
        {true, _, _} -> ok;
        {false, auto, #{cookie_file := Noted}} ->
            todana_distribution:check_cookie(Noted);
        {false, _, _} ->
            todana_distribution:check_cookie(File)
    end.

%% Prints the remarks that `start' would log, to standard error as well.
-spec remarks(todana_config:loaded()) -> ok.
remarks(#{databases := {Databases, _Origin}}) ->
    Remarks = todana_kyoto_database:remarks(Databases),
    io:put_chars(standard_error, [["todana: ", R, $\n] || R <- Remarks]).
