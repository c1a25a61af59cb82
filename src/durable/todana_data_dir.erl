%% The data directory that this node uses, and the file that says what a
%% directory belongs to.
%%
%%     <data_dir>/lock      locked by the operating system while a node runs
%%     <data_dir>/node      Erlang terms: format, identity, seed of the tables
%%     <data_dir>/always    Ra's files; `everysec' with that durability
%%
%% `todana_data_dir_open' opens it, and `todana_data_dir_check' says why it does
%% not. What they find is kept in a persistent term.
-module(todana_data_dir).
-moduledoc false.

-export([is_open/0, opened/0, server/0]).
-export([group_exists/1, go_alone/1, rename_server/1, went_alone/1, joined/1,
         left/1, note/2]).
-export([identity/1, seed/2, restored/1, detach/2]).
%% For those that open and check directories
-export([keep/1, forget/0, server/1, format/0, node_file/1, known/1, noted/1,
         new_terms/1, put_terms/2, put_terms/3, unwritable/2, write_terms/2]).

-export_type([durability/0, opened/0, origin/0, noted/0]).

-define(FORMAT, 1).
%% The server of a node without a cluster.
-define(SERVER, todana_0).

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

-doc "Whether this node uses a data directory.".
-spec is_open() -> boolean().
is_open() -> persistent_term:get(?MODULE, none) =/= none.

-doc """
What it uses. Raises `badarg` if there is none. Only `todana_data_dir_open` and
`todana_raft_groups` call it; all others ask `todana_raft_groups:opened/1`.
""".
-spec opened() -> opened().
opened() -> persistent_term:get(?MODULE).

-doc "This node uses this directory from now on.".
-spec keep(opened()) -> ok.
keep(Opened) -> persistent_term:put(?MODULE, Opened).

-doc "It uses none any more.".
-spec forget() -> ok.
forget() ->
    _ = persistent_term:erase(?MODULE),
    ok.

-doc "The format of the file `node`.".
-spec format() -> pos_integer().
format() -> ?FORMAT.

-doc "The name of Ra's server. Other nodes call it.".
-spec server() -> atom().
server() ->
    case persistent_term:get(?MODULE, none) of
        #{server := Name} -> Name;
        none -> ?SERVER
    end.

-doc """
The name of Ra's server in a cluster, or without one. A node that begins anew
under its old name receives nothing that the cluster sends to the server that
was there before.
""".
-spec server(none | binary()) -> atom().
server(none) ->
    ?SERVER;
server(Cluster) ->
    binary_to_atom(<<(atom_to_binary(?SERVER))/binary, "_", Cluster/binary>>).

-doc "Notes that this node goes on without the other members: no node joins.".
-spec go_alone(opened()) -> ok | {error, term()}.
go_alone(Opened) ->
    maybe
        ok ?= put_terms(Opened, [{forced, optional, true}]),
        keep(Opened#{forced := true})
    end.

-doc """
Gives Ra's server another name, by which those that were members do not know it.
It has to be started again; until then no node joins.
""".
-spec rename_server(opened()) -> ok | {error, term()}.
rename_server(#{cluster := Cluster, server := Old} = Opened) ->
    Drawn = string:lowercase(binary:encode_hex(crypto:strong_rand_bytes(4))),
    Name = server(<<Cluster/binary, "_", Drawn/binary>>),
    New = [{server, Name}, {members, [node()]}],
    case put_terms(Opened, New, [forced]) of
        ok ->
            keep(Opened#{server := Name});
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
        keep(Opened#{forced := false})
    end.

-doc "Notes that Ra has files of a server here, which must not get lost.".
-spec group_exists(opened()) -> ok | {error, term()}.
group_exists(Opened) ->
    maybe
        ok ?= put_terms(Opened, [{group, ?SERVER}]),
        keep(Opened#{has_group := true})
    end.

-doc "Notes that the group counts this node as a member.".
-spec joined(opened()) -> ok | {error, term()}.
joined(Opened) ->
    maybe
        ok ?= put_terms(Opened, [], [joining]),
        keep(Opened#{joining := []})
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
-doc "A fact as the file has it.".
-spec noted(noted()) -> tuple().
noted({cookie_file, File}) -> {cookie_file, optional, File};
noted({durable, Numbers}) -> {optional, durable, Numbers};
noted({members, _} = Pair) -> Pair.

-doc "The facts of the file, by their names.".
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

-doc "Replaces terms of the file, or adds them.".
-spec put_terms(#{data_dir := file:filename(), _ => _}, [tuple()]) ->
    ok | {error, term()}.
put_terms(Opened, New) -> put_terms(Opened, New, []).

-doc "The same, and removes those with these names.".
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

-doc "That `put_terms/2,3` has failed, as a sentence.".
-spec unwritable(#{data_dir := file:filename(), _ => _}, term()) -> iolist().
unwritable(#{data_dir := Directory}, Reason) ->
    [node_file(Directory), " cannot be written: ",
     io_lib:format("~0tp", [Reason])].

-doc "The terms of a new directory, with an identity of its own.".
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

-doc "The path of the file `node`.".
-spec node_file(file:filename()) -> file:filename().
node_file(Directory) -> filename:join(Directory, "node").
