%% Opens the data directory: creates it if it is missing, locks it, and reads
%% what it belongs to.
%%
%% `open' is called before the databases are made, since the seed is in the file
%% `node'.
-module(todana_data_dir_open).
-moduledoc false.

-export([open/2, open/3, open/4, close/0]).

-type opened() :: todana_data_dir:opened().
-type durability() :: todana_data_dir:durability().
-type origin() :: todana_data_dir:origin().
-type noted() :: todana_data_dir:noted().

-doc """
Creates the directory if it is missing, locks and checks it. Does nothing if
this node has opened it already.
""".
-spec open(file:filename(), durability()) ->
    {ok, opened()} | {error, Sentence :: string()}.
open(DataDir, Durability) -> open(DataDir, Durability, alone).

-doc "The same, with what a new directory begins with.".
-spec open(file:filename(), durability(), origin()) ->
    {ok, opened()} | {error, Sentence :: string()}.
open(DataDir, Durability, Origin) -> open(DataDir, Durability, Origin, []).

-doc "The same, with what is noted with it in one step.".
-spec open(file:filename(), durability(), origin(), [noted()]) ->
    {ok, opened()} | {error, Sentence :: string()}.
open(DataDir, Durability, Origin, Notes) ->
    Directory = filename:absname(DataDir),
    case todana_data_dir:is_open() andalso todana_data_dir:opened() of
        #{data_dir := Directory, durability := Durability} = Opened ->
            {ok, Opened};
        false ->
            open_new(Directory, Durability, Origin, Notes);
        #{} ->
            close(),
            open_new(Directory, Durability, Origin, Notes)
    end.

-spec open_new(file:filename(), durability(), origin(), [noted()]) ->
    {ok, opened()} | {error, string()}.
open_new(Directory, Durability, Origin, Notes) ->
    maybe
        ok ?= ensure_directory(Directory),
        ok ?= todana_data_dir_check:is_usable(Directory),
        ok ?= todana_data_rights:owner(Directory),
        ok ?= lock(Directory),
        {ok, Opened} ?= identify(Directory, Durability, Origin, Notes),
        ok = todana_data_dir:keep(Opened),
        {ok, Opened}
    else
        {error, Sentence} ->
            todana_nif:unlock_file(lock_file(Directory)),
            {error, todana_log_problem:flat(["data_dir: ", Sentence])}
    end.

-doc "Ends the groups, whose processes have ended, and gives up the lock.".
-spec close() -> ok.
close() ->
    case todana_data_dir:is_open() andalso todana_data_dir:opened() of
        false ->
            ok;
        #{data_dir := Directory} ->
            ok = todana_data_dir:forget(),
            ok = todana_ra_reports:unlimit(),
            Groups = todana_raft_groups:ids(),
            lists:foreach(fun todana_nif:group_close/1, Groups),
            todana_nif:unlock_file(lock_file(Directory))
    end.

-spec ensure_directory(file:filename()) -> ok | {error, iolist()}.
ensure_directory(Directory) ->
    case filelib:is_dir(Directory) of
        true ->
            ok;
        false ->
            maybe
                ok ?= filelib:ensure_path(Directory),
                ok ?= file:change_mode(Directory, 8#700)
            else
                {error, Reason} ->
                    {error, [Directory, " cannot be created: ",
                             file:format_error(Reason)]}
            end
    end.

%% The lock ends with the operating system's process, however that ends.
-spec lock(file:filename()) -> ok | {error, iolist()}.
lock(Directory) ->
    File = lock_file(Directory),
    case todana_nif:lock_file(File, list_to_binary(os:getpid())) of
        ok ->
            ok;
        {locked, Pid} ->
            {error, [Directory, " is in use by another running node (process ",
                     binary_to_list(Pid), ")"]};
        {error, Reason} ->
            Cause = todana_log_problem:plain(Reason),
            {error, [File, " cannot be used: ", Cause, denied(Cause, File)]}
    end.

-spec denied(binary(), binary()) -> string().
denied(~"Permission denied", File) ->
    todana_data_rights:owner_of_file(unicode:characters_to_list(File));
denied(_Cause, _File) ->
    "".

-spec identify(file:filename(), durability(), origin(), [noted()]) ->
    {ok, opened()} | {error, iolist()}.
identify(Directory, Durability, Origin, Notes) ->
    case todana_small_file:read_terms(node_file(Directory)) of
        {ok, Terms} ->
            Known = todana_data_dir:known(Terms),
            maybe
                {ok, Named} ?= rename(Directory, Known, Origin),
                {ok, Opened} ?= accept(Directory, Durability, Named),
                found(Opened, Origin, Notes)
            end;
        {error, enoent} ->
            create(Directory, Durability, Origin, Notes);
        {error, Reason} when is_tuple(Reason) ->
            {error, [node_file(Directory), " is damaged (line ",
                     file:format_error(Reason), "): restore a backup, or, if "
                     "it was a member of a cluster, join with an empty "
                     "directory"]};
        {error, Reason} ->
            {error, [node_file(Directory), ": ", file:format_error(Reason)]}
    end.

-spec accept(file:filename(), durability(), map()) ->
    {ok, opened()} | {error, iolist()}.
accept(Directory, Durability, Terms) ->
    case todana_data_dir_check:verify_terms(Directory, Terms) of
        ok -> accept_whole(Directory, Durability, Terms);
        {error, Words} -> {error, [node_file(Directory), " ", Words]}
    end.

%% The node of a directory that becomes the first one of a cluster may get a
%% name by which others reach it, and that of a restored one is whichever starts
%% with it first. Ra's files follow when the log is started. What a member had
%% that was removed must not begin to serve in its place, because its command
%% line says so.
-spec rename(file:filename(), map(), origin()) ->
    {ok, map()} | {error, iolist()}.
rename(Directory, #{removed_from := Cluster}, {create, _}) ->
    {error, [
        Directory, " has what a member had when it was removed from the "
        "cluster ", Cluster, ": `bin/todana dump` reads it, and a start "
        "without `cluster_create` serves it. To join, use an empty directory"
    ]};
rename(Directory, #{restored := true} = Known, _Origin) ->
    New = [{node, node()}],
    Opened = #{data_dir => Directory},
    case todana_data_dir:put_terms(Opened, New, [restored]) of
        ok -> {ok, maps:remove(restored, Known#{node := node()})};
        {error, Reason} -> {error, todana_data_dir:unwritable(Opened, Reason)}
    end;
rename(Directory, #{node := Old} = Known, {create, _}) when
    Old =/= node(), not is_map_key(cluster, Known)
->
    Opened = #{data_dir => Directory},
    case todana_data_dir:put_terms(Opened, [{node, node()}]) of
        ok -> {ok, Known#{node := node()}};
        {error, Reason} -> {error, todana_data_dir:unwritable(Opened, Reason)}
    end;
rename(_Directory, Known, _Origin) ->
    {ok, Known}.

%% A directory of its own becomes the first one of a cluster.
-spec found(opened(), origin(), [noted()]) ->
    {ok, opened()} | {error, iolist()}.
found(#{cluster := none} = Opened, {create, Cluster}, Notes) ->
    Name = todana_data_dir:server(Cluster),
    Noted = [todana_data_dir:noted(Fact) || Fact <- Notes],
    New = [{cluster, Cluster}, {server, Name} | Noted],
    case todana_data_dir:put_terms(Opened, New) of
        ok -> {ok, Opened#{cluster := Cluster, server := Name}};
        {error, Reason} -> {error, todana_data_dir:unwritable(Opened, Reason)}
    end;
found(Opened, _Origin, _Notes) ->
    {ok, Opened}.

-spec accept_whole(file:filename(), durability(), map()) ->
    {ok, opened()} | {error, iolist()}.
accept_whole(Directory, Durability, #{
    node := Node, uid := UId, seed := Seed
} = Terms) when Node =:= node() ->
    Class = filename:join(Directory, atom_to_list(Durability)),
    Opened = #{
        data_dir => Directory,
        durability => Durability,
        class_dir => Class,
        server_dir => filename:join(Class, binary_to_list(UId)),
        uid => UId,
        seed => Seed,
        has_group => is_map_key(group, Terms),
        cluster => maps:get(cluster, Terms, none),
        server => maps:get(server, Terms, todana_data_dir:server(none)),
        joining => maps:get(joining, Terms, []),
        forced => maps:get(forced, Terms, false)
    },
    maybe
        ok ?= todana_data_dir_check:belongs(Opened),
        ok ?= todana_data_rights:check(Opened),
        ok ?= adopt(Opened),
        {ok, Opened}
    else
        {error, Problem} when is_tuple(Problem) ->
            {error, todana_log_problem:describe(Problem)};
        {error, Sentence} ->
            {error, Sentence}
    end;
accept_whole(Directory, _Durability, #{node := Node}) ->
    {error, [Directory, " belongs to the node ", atom_to_list(Node),
             ", and this node is ", atom_to_list(node()), ": ",
             under(atom_to_list(Node))]}.

%% The emulator of another release has its name from a flag of its own.
-spec under(string()) -> iolist().
under("nonode@nohost") ->
    "start it without a name";
under(Name) ->
    [_, Host] = string:split(Name, "@"),
    Flag = case lists:member($., Host) orelse lists:member($:, Host) of
        true -> "-name ";
        false -> "-sname "
    end,
    ["start it under that name, with `bin/todana start --node ", Name, "` or, "
     "in another release, the flag `", Flag, Name, "` of the emulator"].

%% Another durability differs only in when files are synchronized. So what the
%% end of the log may look like after a power failure depends on the old one.
-spec adopt(opened()) -> ok | {error, todana_log_problem:problem()}.
adopt(#{
    data_dir := Directory, class_dir := Class, durability := Durability,
    uid := UId
}) ->
    [Other] = [always, everysec] -- [Durability],
    Old = filename:join(Directory, atom_to_list(Other)),
    case filelib:is_dir(Old) andalso not filelib:is_dir(Class) of
        true ->
            maybe
                ok ?= todana_log_tail:mend(Old, UId, Other),
                ok ?= todana_disk_sync:sync_files(Old, 0),
                ok ?= file:rename(Old, Class),
                todana_small_file:sync_directory(Directory)
            else
                {error, Problem} when is_tuple(Problem), size(Problem) > 2 ->
                    {error, Problem};
                {error, {File, Reason}} ->
                    {error, {unusable, File, file:format_error(Reason)}};
                {error, Reason} ->
                    {error, {unusable, Class, file:format_error(Reason)}}
            end;
        false ->
            ok
    end.

-spec create(file:filename(), durability(), origin(), [noted()]) ->
    {ok, opened()} | {error, iolist()}.
create(Directory, Durability, Origin, Notes) ->
    maybe
        ok ?= todana_data_dir_check:is_free(Directory),
        %% Of an empty directory that somebody else has made.
        _ = file:change_mode(Directory, 8#700),
        create_node_file(Directory, Durability, Origin, Notes)
    end.

-spec create_node_file(file:filename(), durability(), origin(), [noted()]) ->
    {ok, opened()} | {error, iolist()}.
create_node_file(Directory, Durability, Origin, Notes) ->
    <<Drawn:64>> = crypto:strong_rand_bytes(8),
    Alone = todana_data_dir:server(none),
    {Seed, Terms0} =
        case Origin of
            alone ->
                {Drawn, []};
            {create, Cluster} ->
                {Drawn, [
                    {cluster, Cluster},
                    {server, todana_data_dir:server(Cluster)}
                ]};
            {join, #{
                seed := Known, cluster := Cluster, members := Members
            } = Facts} ->
                {Known, [
                    {cluster, Cluster},
                    {server, maps:get(server, Facts, Alone)},
                    {joining, Members}
                ]}
        end,
    Noted = [todana_data_dir:noted(Fact) || Fact <- Notes],
    Terms = todana_data_dir:new_terms(Seed) ++ Terms0 ++ Noted,
    case todana_data_dir:write_terms(Directory, Terms) of
        ok ->
            accept(Directory, Durability, todana_data_dir:known(Terms));
        {error, Reason} ->
            {error, [node_file(Directory), " cannot be written: ",
                     file:format_error(Reason)]}
    end.

-spec lock_file(file:filename()) -> binary().
lock_file(Directory) ->
    unicode:characters_to_binary(filename:join(Directory, "lock")).

-spec node_file(file:filename()) -> file:filename().
node_file(Directory) -> todana_data_dir:node_file(Directory).
