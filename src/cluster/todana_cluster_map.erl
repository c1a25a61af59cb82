%% The map of the cluster: records in a durable table, which all nodes have.
%%
%% - `{node, Node}': where its clients reach a node, its zone, and the newest
%%   format of the log that it reads. Each node writes its own, when it differs
%%   from what it would write; a node of an older version leaves out what it
%%   does not know. `todana_formats' reads the format.
%% - `{group, Number}': the slots of a group of replicas, and its members. The
%%   leader writes it. There is one group, number 0, and it has all slots.
%% - `epoch': a number that grows with each change of a group.
%%
%% The map says where things are; the log of Ra decides about the members.
-module(todana_cluster_map).
-moduledoc false.

-export([announce/1, nodes/1, own/1, voters/2, is_table/1, expect/2]).

-export_type([entry/0]).

-type listener() ::
    {todana_nif:listener(), {inet:ip_address(), inet:port_number()}}.

-define(TABLE, todana_cluster_map).
-define(LAST_SLOT, 16383).

%% A port is 0 if the node has no such listener.
-type entry() :: #{
    host := binary(),
    resp := inet:port_number(),
    resp_cluster := inet:port_number(),
    memcached := inet:port_number(),
    kyoto := inet:port_number(),
    zone := binary(),
    format => pos_integer()
}.

-doc "Whether this is the name of the table.".
-spec is_table(binary()) -> boolean().
is_table(Name) -> Name =:= atom_to_binary(?TABLE).

-doc "Writes what this node has to say, if it is not in the map.".
-spec announce(todana_config:options()) -> ok.
announce(Options) ->
    ok = open(),
    Entry =
        case todana_listener:addresses() of
            %% Clients would be sent to port 0 before the listeners are open.
            [] -> expected(todana_formats:newest());
            _ -> own(Options)
        end,
    ok = write({node, node()}, Entry),
    Group = todana_raft_groups:first(),
    case todana_members:leader(Group) =:= node() of
        true -> lead(Group);
        false -> ok
    end.

-spec open() -> ok.
open() ->
    {ok, _} = todana:open(?TABLE, #{durable => true, codec => term}),
    ok.

%% There is one group: it has all slots, and its members are the cluster's.
-spec lead(todana_raft_groups:id()) -> ok.
lead(Group) ->
    case todana_members:list(Group, [node()]) of
        {ok, Leader, Members} when Leader =:= node() ->
            Entry = #{
                slots => {0, ?LAST_SLOT},
                members => #{
                    Node => role(Role)
                 || #{node := Node, role := Role} <- Members
                }
            },
            ok = forget_all_but([Node || #{node := Node} <- Members]),
            case todana:get(?TABLE, {group, Group}) of
                {ok, Entry} ->
                    ok;
                _ ->
                    _ = todana:transaction(?TABLE, fun(Tx) ->
                        Epoch = todana_transaction:get(Tx, epoch, 0),
                        ok = todana_transaction:put(Tx, epoch, Epoch + 1),
                        todana_transaction:put(Tx, {group, Group}, Entry)
                    end),
                    ok
            end;
        _ ->
            ok
    end.

%% A leader is a voter; another one may lead at any time.
-spec role(atom()) -> voter | candidate | replica | unknown.
role(leader) -> voter;
role(Role) -> Role.

-spec forget_all_but([node()]) -> ok.
forget_all_but(Members) ->
    _ = [
        todana:delete(?TABLE, Key)
     || {{node, Node} = Key, _} <- todana:to_list(?TABLE),
        not lists:member(Node, Members)
    ],
    ok.

-spec write(term(), term()) -> ok.
write(Key, Value) ->
    case todana:get(?TABLE, Key) of
        {ok, Value} ->
            ok;
        _ ->
            _ = todana:put(?TABLE, Key, Value),
            ok
    end.

-doc "What the map has of these nodes; nothing of those that are not in it.".
-spec nodes([node()]) -> #{node() => entry()}.
nodes(Nodes) ->
    try todana:get_many(?TABLE, [{node, Node} || Node <- Nodes]) of
        Found ->
            #{
                Node => Entry
             || {node, Node} := #{host := Host} = Entry <- Found, Host =/= ~""
            }
    catch
        %% It is not open yet, or its records are being loaded.
        error:_ -> #{}
    end.

-doc """
Those of these members of a group that vote; all, while the map does not say it.
""".
-spec voters(todana_raft_groups:id(), [node()]) -> [node()].
voters(Group, Members) ->
    try todana:get(?TABLE, {group, Group}) of
        {ok, #{members := Roles}} ->
            case [N || N <- Members, maps:get(N, Roles, unknown) =:= voter] of
                [] -> Members;
                Voters -> Voters
            end;
        _ ->
            Members
    catch
        error:_ -> Members
    end.

-doc "Writes what a node reads that becomes a member, if it has no entry.".
-spec expect(node(), pos_integer()) -> ok | {error, term()}.
expect(Node, Format) ->
    try
        ok = open(),
        case todana:get(?TABLE, {node, Node}) of
            {ok, _} -> ok;
            error -> todana:put(?TABLE, {node, Node}, expected(Format))
        end
    catch
        error:Reason -> {error, Reason}
    end.

%% Older versions need all of it.
-spec expected(pos_integer()) -> entry().
expected(Format) ->
    #{
        host => ~"", resp => 0, resp_cluster => 0, memcached => 0, kyoto => 0,
        zone => ~"", format => Format
    }.

-doc "The entry of this node.".
-spec own(todana_config:options()) -> entry().
own(Options) ->
    Listeners = [
        {Protocol, address(Text)}
     || {Protocol, Text} <- todana_listener:addresses()
    ],
    Ports = #{
        Protocol => port(Protocol, Listeners)
     || Protocol <- [resp, resp_cluster, memcached, kyoto]
    },
    Ports#{
        host => host(maps:get(announce_host, Options, off), Listeners),
        zone => text(maps:get(zone, Options, off)),
        format => todana_formats:newest()
    }.

-spec port(atom(), [listener()]) -> inet:port_number().
port(Protocol, Listeners) ->
    case [Port || {P, {_, Port}} <- Listeners, P =:= Protocol] of
        [Port | _] -> Port;
        [] -> 0
    end.

%% The host of a listener; if that is each address of the host, the host in the
%% name of the node.
-spec host(off | string(), [listener()]) -> binary().
host(off, Listeners) ->
    case [Ip || {_, {Ip, _}} <- Listeners, not is_any(Ip)] of
        [Ip | _] ->
            list_to_binary(inet:ntoa(Ip));
        [] ->
            [_, Host] = binary:split(atom_to_binary(node()), ~"@"),
            Host
    end;
host(Host, _Listeners) ->
    unicode:characters_to_binary(Host).

-spec is_any(inet:ip_address()) -> boolean().
is_any(Ip) -> lists:all(fun(Part) -> Part =:= 0 end, tuple_to_list(Ip)).

-spec address(string()) -> {inet:ip_address(), inet:port_number()}.
address(Text) ->
    {ok, [Address]} = todana_option_type:parse(addresses, Text),
    Address.

-spec text(off | string()) -> binary().
text(off) -> <<>>;
text(Text) -> unicode:characters_to_binary(Text).
