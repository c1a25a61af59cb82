%% Whether a directory is a data directory, or may become one, and whether the
%% file `node' fits what is in it. Changes nothing.
-module(todana_data_dir_check).
-moduledoc false.

-export([check/1, is_usable/1, is_free/1, verify/2, verify_terms/2, belongs/1,
         unnamed/1]).

%% Of `todana_status', which a node leaves behind that was killed.
-define(SOCKET, "status").

-doc "Whether this is a data directory, or may become one. Changes nothing.".
-spec check(file:filename()) -> ok | {error, iodata()}.
check(DataDir) ->
    Directory = filename:absname(DataDir),
    Checked =
        case file:read_file_info(Directory) of
            {error, enoent} -> ok;
            _ -> is_usable(Directory)
        end,
    case Checked of
        ok -> ok;
        {error, Sentence} -> {error, ["data_dir: ", Sentence]}
    end.

-doc """
The same, before a start. In a directory of something else, not even the lock is
created.
""".
-spec is_usable(file:filename()) -> ok | {error, iolist()}.
is_usable(Directory) ->
    case file:read_file_info(node_file(Directory), [raw]) of
        {error, enoent} -> is_free(Directory);
        _ -> ok
    end.

-doc "Whether a new data directory may be made here.".
-spec is_free(file:filename()) -> ok | {error, iolist()}.
is_free(Directory) ->
    case file:list_dir(Directory) of
        {ok, Names} ->
            Others = Names -- ["lock", "node.tmp", "lost+found", ?SOCKET],
            case {unnamed(Directory), Others} of
                {[_ | _] = Sentence, _} ->
                    {error, Sentence};
                {none, []} ->
                    ok;
                {none, [Name | _]} ->
                    {error, [Directory, " is not empty and not a data "
                             "directory of Todana: it contains ", Name]}
            end;
        {error, Reason} ->
            {error, [Directory, ": ", file:format_error(Reason)]}
    end.

-doc "Why a directory with a log, and without the file `node`, is refused.".
-spec unnamed(file:filename()) -> none | iolist().
unnamed(Directory) ->
    Logs = [
        Log
     || Name <- ["always", "everysec"],
        Log <- [filename:join(Directory, Name)], filelib:is_dir(Log)
    ],
    case Logs of
        [Log | _] ->
            [node_file(Directory), " is missing, and without it the log in ",
             Log, " cannot be read: restore it from a backup, or, if this was "
             "a member of a cluster, join with an empty directory"];
        [] ->
            none
    end.

-doc "Why a start refuses these terms of the file `node`, behind its name.".
-spec verify(file:filename(), [term()]) -> ok | {error, iolist()}.
verify(Directory, Terms) ->
    Known = todana_data_dir:known(Terms),
    verify_terms(Directory, maps:remove(restored, Known)).

-doc "The same of the facts of that file.".
-spec verify_terms(file:filename(), map()) -> ok | {error, iolist()}.
verify_terms(Directory, Terms) ->
    Known = todana_data_dir:format(),
    case Terms of
        #{format := Format} when Format > Known ->
            {error, [
                "has format ", io_lib:format("~0tp", [Format]), ", and this "
                "version of Todana reads format ", integer_to_list(Known),
                ": start a newer version"
            ]};
        #{format := Known} ->
            case is_whole(Terms) of
                true ->
                    ok;
                false ->
                    {error, [
                        "is damaged: ", todana_log_remedy:words(Directory)
                    ]}
            end;
        #{} when map_size(Terms) =:= 0 ->
            {error, ["is empty: ", todana_log_remedy:words(Directory)]};
        #{} ->
            {error, "is not a file of Todana"}
    end.

%% With a damaged `group' the log would be taken for that of a first start that
%% did not finish, and be deleted.
-spec is_whole(map()) -> boolean().
is_whole(#{group := Name} = Terms) ->
    Name =:= todana_data_dir:server(none) andalso
        is_whole(maps:remove(group, Terms));
is_whole(#{cluster := Cluster} = Terms) when is_binary(Cluster) ->
    is_whole(maps:remove(cluster, Terms));
is_whole(#{left_ms := Ms} = Terms) when is_integer(Ms) ->
    is_whole(maps:remove(left_ms, Terms));
is_whole(#{removed_from := Cluster} = Terms) when is_binary(Cluster) ->
    is_whole(maps:remove(removed_from, Terms));
is_whole(#{forced := true} = Terms) ->
    is_whole(maps:remove(forced, Terms));
is_whole(#{joining := [_ | _]} = Terms) ->
    is_whole(maps:remove(joining, Terms));
is_whole(#{server := Name} = Terms) when is_atom(Name) ->
    is_whole(maps:remove(server, Terms));
is_whole(#{durable := [_ | _]} = Terms) ->
    is_whole(maps:remove(durable, Terms));
is_whole(#{members := [_ | _]} = Terms) ->
    is_whole(maps:remove(members, Terms));
is_whole(#{cookie_file := [_ | _]} = Terms) ->
    is_whole(maps:remove(cookie_file, Terms));
is_whole(Terms) ->
    lists:sort(maps:keys(Terms)) =:= [created_ms, format, node, seed, uid].

-doc """
The file `node` names the directory of the log. If that of another server is
there instead, the file is from another data directory; and a first start that
did not finish may be repeated only where there is no log.
""".
-spec belongs(#{
    data_dir := file:filename(),
    uid := binary(),
    has_group := boolean(),
    _ => _
}) -> ok | {error, iolist()}.
belongs(#{data_dir := Directory, uid := UId, has_group := HasGroup}) ->
    Present = [
        filename:join(Class, Server)
     || Durability <- [always, everysec],
        Class <- [filename:join(Directory, atom_to_list(Durability))],
        {ok, Names} <- [file:list_dir(Class)],
        "TODANA0_" ++ _ = Server <- Names
    ],
    Own = binary_to_list(UId),
    Mine = [Path || Path <- Present, filename:basename(Path) =:= Own],
    case {Mine, Present -- Mine} of
        {[], [Other | _]} ->
            {error, [
                node_file(Directory), " is the file of another data directory: "
                "it belongs to the log ", Own, ", and the log here is ", Other
            ]};
        {[], []} when HasGroup ->
            {error, [
                Directory, " has no log, and ", node_file(Directory), " says "
                "that there was one: ", todana_log_remedy:words(Directory)
            ]};
        {_, _} ->
            ok
    end.

-spec node_file(file:filename()) -> file:filename().
node_file(Directory) -> todana_data_dir:node_file(Directory).
