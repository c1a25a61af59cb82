%% The data directory: who may use it, and what it belongs to.
%%
%%     <data_dir>/lock      locked by the operating system while a node runs
%%     <data_dir>/node      Erlang terms: format, identity, seed of the tables
%%     <data_dir>/always    Ra's files; `everysec' with that durability
%%
%% `open' is called before the databases are made, since the seed is in `node'.
-module(todana_data_dir).
-moduledoc false.

-export([open/2, open/3, open/4, close/0, is_open/0, opened/0, server/0,
         group_exists/1, go_alone/1, rename_server/1, went_alone/1,
         joined/1, left/1, identity/1, seed/2, belongs/1, note/2]).
-export([check/1, verify/2, unnamed/1, restored/1, write_terms/2, detach/2]).

-export_type([durability/0, opened/0, origin/0, noted/0]).

-define(FORMAT, 1).
%% The server of a node without a cluster.
-define(SERVER, todana_0).
%% Of `todana_status', which a node leaves behind that was killed.
-define(SOCKET, "status").

-type durability() :: always | everysec.
%% Whether a new directory is one of its own, the first one of a cluster, or
%% that of a node that joins one. `create' applies to an old directory, too.
-type origin() ::
    alone
    | {create, Cluster :: binary()}
    | {join, #{
        cluster := binary(),
        seed := non_neg_integer(),
        members := [node()],
        server => atom()
    }}.
-type noted() ::
    {members, [node()]} | {cookie_file, file:filename()}
    | {durable, Databases :: [0..15]}.
-type opened() :: #{
    data_dir := file:filename(),
    durability := durability(),
    class_dir := file:filename(),
    server_dir := file:filename(),
    uid := binary(),
    seed := non_neg_integer(),
    has_group := boolean(),
    %% The cluster that the group belongs to.
    cluster := none | binary(),
    %% The name of Ra's server, the same on all members.
    server := atom(),
    %% Members to ask for the membership, until this node has it.
    joining := [node()],
    %% It goes on without the other members, and this is not finished. Without
    %% a cluster: it was the directory of one that was removed.
    forced := boolean()
}.

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
    case persistent_term:get(?MODULE, none) of
        #{data_dir := Directory, durability := Durability} = Opened ->
            {ok, Opened};
        none ->
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
        ok ?= is_usable(Directory),
        ok ?= todana_data_rights:owner(Directory),
        ok ?= lock(Directory),
        {ok, Opened} ?= identify(Directory, Durability, Origin, Notes),
        persistent_term:put(?MODULE, Opened),
        {ok, Opened}
    else
        {error, Sentence} ->
            todana_nif:unlock_file(lock_file(Directory)),
            {error, todana_log_problem:flat(["data_dir: ", Sentence])}
    end.

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

-doc "Ends the group, whose processes have ended, and gives up the lock.".
-spec close() -> ok.
close() ->
    case persistent_term:get(?MODULE, none) of
        none ->
            ok;
        #{data_dir := Directory} ->
            _ = persistent_term:erase(?MODULE),
            ok = todana_ra_reports:unlimit(),
            ok = todana_nif:group_close(),
            todana_nif:unlock_file(lock_file(Directory))
    end.

-doc "Whether this node uses a data directory.".
-spec is_open() -> boolean().
is_open() -> persistent_term:get(?MODULE, none) =/= none.

-spec opened() -> opened().
opened() -> persistent_term:get(?MODULE).

-doc "The name of Ra's server.".
-spec server() -> atom().
server() ->
    case persistent_term:get(?MODULE, none) of
        #{server := Name} -> Name;
        none -> ?SERVER
    end.

%% A node that begins anew under its old name receives nothing that the cluster
%% sends to the server that was there before.
-spec server_name(binary()) -> atom().
server_name(Cluster) ->
    binary_to_atom(<<(atom_to_binary(?SERVER))/binary, "_", Cluster/binary>>).

-doc "Notes that this node goes on without the other members: no node joins.".
-spec go_alone(opened()) -> ok | {error, term()}.
go_alone(Opened) ->
    maybe
        ok ?= put_terms(Opened, [{forced, optional, true}]),
        persistent_term:put(?MODULE, Opened#{forced := true})
    end.

-doc """
Gives Ra's server another name, by which those that were members do not know it.
It has to be started again; until then no node joins.
""".
-spec rename_server(opened()) -> ok | {error, term()}.
rename_server(#{cluster := Cluster, server := Old} = Opened) ->
    Drawn = string:lowercase(binary:encode_hex(crypto:strong_rand_bytes(4))),
    Name = server_name(<<Cluster/binary, "_", Drawn/binary>>),
    New = [{server, Name}, {members, [node()]}],
    case put_terms(Opened, New, [forced]) of
        ok ->
            persistent_term:put(?MODULE, Opened#{server := Name});
        {error, _} = Error ->
            %% It may have been written.
            _ = put_terms(Opened, [{server, Old}, {forced, optional, true}]),
            Error
    end.

-doc "The other members are gone, or were not: nodes may join again.".
-spec went_alone(opened()) -> ok | {error, term()}.
went_alone(Opened) ->
    maybe
        ok ?= put_terms(Opened, [], [forced]),
        persistent_term:put(?MODULE, Opened#{forced := false})
    end.

-doc "Notes that Ra has files of a server here, which must not get lost.".
-spec group_exists(opened()) -> ok | {error, term()}.
group_exists(Opened) ->
    maybe
        ok ?= put_terms(Opened, [{group, ?SERVER}]),
        persistent_term:put(?MODULE, Opened#{has_group := true})
    end.

-doc "Notes that the group counts this node as a member.".
-spec joined(opened()) -> ok | {error, term()}.
joined(Opened) ->
    maybe
        ok ?= put_terms(Opened, [], [joining]),
        persistent_term:put(?MODULE, Opened#{joining := []})
    end.

-doc "Notes that the group does not count this node as a member any more.".
-spec left(#{data_dir := file:filename(), _ => _}) -> ok | {error, term()}.
left(Opened) ->
    put_terms(Opened, [{left_ms, erlang:system_time(millisecond)}]).

-doc """
Notes facts for a later start, unless they are noted already: the members, whom
it asks whether it still is one, and how it has reached them.
""".
-spec note(opened(), [noted()]) -> ok | {error, term()}.
note(#{data_dir := Directory} = Opened, Facts) ->
    maybe
        {ok, Terms} ?= todana_small_file:read_terms(node_file(Directory)),
        Noted = [noted(Fact) || Fact <- Facts],
        case Noted -- Terms of
            [] -> ok;
            _ -> put_terms(Opened, Noted)
        end
    end.

%% Earlier versions refuse a file with a pair that they do not know, and skip
%% what is no pair. A member may go back to one, so a fact that was added
%% later is a triple; `optional' is the first part of one that the version
%% before does not know either.
-spec noted(noted()) -> tuple().
noted({cookie_file, File}) -> {cookie_file, optional, File};
noted({durable, Numbers}) -> {optional, durable, Numbers};
noted({members, _} = Pair) -> Pair.

-spec known([term()]) -> map().
known(Terms) ->
    Pairs = [Pair || {_, _} = Pair <- Terms],
    Optional = [{Key, Value} || {Key, optional, Value} <- Terms],
    Durable = [{durable, Numbers} || {optional, durable, Numbers} <- Terms],
    maps:from_list(Pairs ++ Optional ++ Durable).

-doc """
Makes the directory of a member that was removed from this cluster, which no
node uses, that of this node without a cluster. The log gives up the other
members at its start.
""".
-spec detach(file:filename(), Cluster :: binary()) -> ok | {error, iodata()}.
detach(Directory, Cluster) ->
    Old = [cluster, server, left_ms, joining, members, cookie_file],
    Opened = #{data_dir => Directory},
    New = [
        {node, node()}, {forced, optional, true},
        {removed_from, optional, Cluster}
    ],
    case put_terms(Opened, New, Old) of
        ok -> ok;
        {error, Reason} -> {error, unwritable(Opened, Reason)}
    end.

-doc "What the file `node' says, for who decides how to open a directory.".
-spec identity(file:filename()) -> {ok, map()} | none.
identity(DataDir) ->
    case todana_small_file:read_terms(node_file(filename:absname(DataDir))) of
        {ok, Terms} -> {ok, known(Terms)};
        {error, _} -> none
    end.

-doc """
The seed that a directory has, or that of the cluster which it joins. One that
is to be made with a log of its own has none yet: 0.
""".
-spec seed(file:filename(), origin()) -> non_neg_integer().
seed(DataDir, Origin) ->
    case {identity(DataDir), Origin} of
        {{ok, #{seed := Seed}}, _} -> Seed;
        {_, {join, #{seed := Seed}}} -> Seed;
        _ -> 0
    end.

-spec put_terms(#{data_dir := file:filename(), _ => _}, [tuple()]) ->
    ok | {error, term()}.
put_terms(Opened, New) -> put_terms(Opened, New, []).

-spec put_terms(
    #{data_dir := file:filename(), _ => _}, [tuple()], [atom()]
) -> ok | {error, term()}.
put_terms(#{data_dir := Directory}, New, Old) ->
    %% Several processes note facts, and there is one temporary file.
    global:trans({?MODULE, self()}, fun() ->
        maybe
            {ok, Terms} ?= todana_small_file:read_terms(node_file(Directory)),
            Keys = Old ++ [element(1, Term) || Term <- New],
            Kept = [T || T <- Terms, not lists:member(element(1, T), Keys)],
            write_terms(Directory, Kept ++ New)
        end
    end, [node()]).

-spec unwritable(#{data_dir := file:filename(), _ => _}, term()) -> iolist().
unwritable(#{data_dir := Directory}, Reason) ->
    [node_file(Directory), " cannot be written: ",
     io_lib:format("~0tp", [Reason])].

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
            Known = known(Terms),
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
    case verify_terms(Directory, Terms) of
        ok -> accept_whole(Directory, Durability, Terms);
        {error, Words} -> {error, [node_file(Directory), " ", Words]}
    end.

-doc "Why a start refuses these terms of the file `node`, behind its name.".
-spec verify(file:filename(), [term()]) -> ok | {error, iolist()}.
verify(Directory, Terms) ->
    verify_terms(Directory, maps:remove(restored, known(Terms))).

-spec verify_terms(file:filename(), map()) -> ok | {error, iolist()}.
verify_terms(_Directory, #{format := Format}) when Format > ?FORMAT ->
    {error, ["has format ", io_lib:format("~0tp", [Format]), ", and this "
             "version of Todana reads format ", integer_to_list(?FORMAT),
             ": start a newer version"]};
verify_terms(Directory, #{format := ?FORMAT} = Terms) ->
    case is_whole(Terms) of
        true ->
            ok;
        false ->
            {error, ["is damaged: ", todana_log_remedy:words(Directory)]}
    end;
verify_terms(Directory, Terms) when map_size(Terms) =:= 0 ->
    {error, ["is empty: ", todana_log_remedy:words(Directory)]};
verify_terms(_Directory, _Terms) ->
    {error, "is not a file of Todana"}.

%% With a damaged `group' the log would be taken for that of a first start that
%% did not finish, and be deleted.
-spec is_whole(map()) -> boolean().
is_whole(#{group := ?SERVER} = Terms) -> is_whole(maps:remove(group, Terms));
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
    case put_terms(#{data_dir => Directory}, New, [restored]) of
        ok -> {ok, maps:remove(restored, Known#{node := node()})};
        {error, Reason} ->
            {error, unwritable(#{data_dir => Directory}, Reason)}
    end;
rename(Directory, #{node := Old} = Known, {create, _}) when
    Old =/= node(), not is_map_key(cluster, Known)
->
    case put_terms(#{data_dir => Directory}, [{node, node()}]) of
        ok -> {ok, Known#{node := node()}};
        {error, Reason} ->
            {error, unwritable(#{data_dir => Directory}, Reason)}
    end;
rename(_Directory, Known, _Origin) ->
    {ok, Known}.

%% A directory of its own becomes the first one of a cluster.
-spec found(opened(), origin(), [noted()]) ->
    {ok, opened()} | {error, iolist()}.
found(#{cluster := none} = Opened, {create, Cluster}, Notes) ->
    Name = server_name(Cluster),
    Noted = [noted(Fact) || Fact <- Notes],
    case put_terms(Opened, [{cluster, Cluster}, {server, Name} | Noted]) of
        ok -> {ok, Opened#{cluster := Cluster, server := Name}};
        {error, Reason} -> {error, unwritable(Opened, Reason)}
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
        server => maps:get(server, Terms, ?SERVER),
        joining => maps:get(joining, Terms, []),
        forced => maps:get(forced, Terms, false)
    },
    maybe
        ok ?= belongs(Opened),
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
        ok ?= is_free(Directory),
        %% Of an empty directory that somebody else has made.
        _ = file:change_mode(Directory, 8#700),
        create_node_file(Directory, Durability, Origin, Notes)
    end.

%% In a directory of something else, not even the lock is created.
-spec is_usable(file:filename()) -> ok | {error, iolist()}.
is_usable(Directory) ->
    case file:read_file_info(node_file(Directory), [raw]) of
        {error, enoent} -> is_free(Directory);
        _ -> ok
    end.

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

-spec create_node_file(file:filename(), durability(), origin(), [noted()]) ->
    {ok, opened()} | {error, iolist()}.
create_node_file(Directory, Durability, Origin, Notes) ->
    <<Drawn:64>> = crypto:strong_rand_bytes(8),
    {Seed, Terms0} =
        case Origin of
            alone ->
                {Drawn, []};
            {create, Cluster} ->
                {Drawn, [
                    {cluster, Cluster}, {server, server_name(Cluster)}
                ]};
            {join, #{
                seed := Known, cluster := Cluster, members := Members
            } = Facts} ->
                {Known, [
                    {cluster, Cluster},
                    {server, maps:get(server, Facts, ?SERVER)},
                    {joining, Members}
                ]}
        end,
    Terms = new_terms(Seed) ++ Terms0 ++ [noted(N) || N <- Notes],
    case write_terms(Directory, Terms) of
        ok ->
            accept(Directory, Durability, known(Terms));
        {error, Reason} ->
            {error, [node_file(Directory), " cannot be written: ",
                     file:format_error(Reason)]}
    end.

%% Without an identity of an earlier directory.
-spec new_terms(non_neg_integer()) -> [{atom(), term()}].
new_terms(Seed) ->
    Id = binary:encode_hex(crypto:strong_rand_bytes(10)),
    [
        {format, ?FORMAT},
        {node, node()},
        {uid, <<"TODANA0_", Id/binary>>},
        {seed, Seed},
        {created_ms, erlang:system_time(millisecond)}
    ].

-doc """
The terms of a directory that gets a snapshot of another one with this seed, and
the name of the new log.
""".
-spec restored(non_neg_integer()) -> {UId :: string(), [{atom(), term()}]}.
restored(Seed) ->
    [_, _, {uid, UId} | _] = Terms = new_terms(Seed),
    {binary_to_list(UId), Terms ++ [{group, ?SERVER}, {restored, true}]}.

-doc "Writes the file `node`.".
-spec write_terms(file:filename(), [tuple()]) ->
    ok | {error, file:posix() | badarg | terminated | system_limit}.
write_terms(Directory, Terms) ->
    Text = [io_lib:format("~tp.~n", [Term]) || Term <- Terms],
    Bytes = unicode:characters_to_binary(Text),
    todana_small_file:replace(node_file(Directory), Bytes).

-spec lock_file(file:filename()) -> binary().
lock_file(Directory) ->
    unicode:characters_to_binary(filename:join(Directory, "lock")).

-spec node_file(file:filename()) -> file:filename().
node_file(Directory) -> filename:join(Directory, "node").
