%% Which node or data directory a command is about.
-module(todana_cli_node).
-moduledoc false.

-export([directory/2, control/2, member/1, status_of/1]).

-doc """
The data directory of a command. It is named alone, or found as `start` finds
it.
""".
-spec directory(string(), [string()]) -> string() | no_return().
directory(_Command, [[First | _] = DataDir]) when First =/= $- ->
    DataDir;
directory(Command, Arguments) ->
    Flags = todana_cli_flags:with_flags(Arguments, fun(Flags) -> Flags end),
    is_map_key(databases, Flags) andalso one_directory(Command),
    case todana_cli_flags:load(Flags) of
        {#{data_dir := {off, _}}, _File} -> one_directory(Command);
        {#{data_dir := {DataDir, _}}, _File} -> DataDir
    end.

-doc """
The control socket of the running node, which is found by its directory, or by
the options that it was started with. Without any option it is the only node of
this host.
""".
-spec control(string(), [string()]) -> file:filename() | no_return().
control(_Command, [[First | _] = DataDir]) when First =/= $- ->
    todana_control_path:of_directory(DataDir);
control(Command, Arguments) ->
    {Loaded, _File} = todana_cli_flags:options(Arguments),
    Options = #{Name => Value || Name := {Value, _Origin} <- Loaded},
    Path = todana_control_path:of_options(Options),
    Origins = [Origin || _ := {_, Origin} <- Loaded],
    case lists:all(fun(Origin) -> Origin =:= default end, Origins) of
        true -> only_node(Command, Path);
        false when Path =:= none -> names_no_node(Command);
        false -> Path
    end.

-doc "The same of a member of a cluster, which has a data directory.".
-spec member([string()]) -> file:filename() | none | no_return().
member(Arguments) ->
    case todana_cli_flags:options(Arguments) of
        {#{data_dir := {off, _}, control_socket := {auto, _}}, _File} when
            Arguments =/= []
        ->
            none;
        _ ->
            control("cluster", Arguments)
    end.

-doc "How the state of a node is found.".
-spec status_of([string()]) ->
    {directory | control, file:filename()} | no_return().
status_of([[First | _] = DataDir]) when First =/= $- ->
    {directory, DataDir};
status_of(Arguments) ->
    case todana_cli_flags:options(Arguments) of
        {#{data_dir := {[_ | _] = DataDir, _}}, _} ->
            {directory, DataDir};
        _ ->
            Path = control("status", Arguments),
            case todana_control_path:directory_of(Path) of
                {ok, DataDir} -> {directory, DataDir};
                none -> {control, Path}
            end
    end.

-spec one_directory(string()) -> no_return().
one_directory(Command) ->
    throw([Command, ": name one data directory and nothing else, or use "
           "`--data-dir DIRECTORY`; a node without one keeps everything in "
           "memory"]).

-spec names_no_node(string()) -> no_return().
names_no_node(Command) ->
    throw([Command, ": these options identify no node: give its --data-dir, "
           "its first listener or its --control-socket"]).

%% The node with these default options, or else the only one.
-spec only_node(string(), file:filename() | none) -> file:filename().
only_node(Command, Default) ->
    Found = todana_control_path:found(),
    case {lists:member(Default, Found), Found} of
        {false, [Path]} ->
            Path;
        {false, [_, _ | _]} ->
            throw([Command, ": several nodes are running here: give the "
                   "--data-dir or the --control-socket of one: ",
                   lists:join(", ", Found)]);
        {_, _} when Default =:= none ->
            names_no_node(Command);
        {_, _} ->
            Default
    end.
