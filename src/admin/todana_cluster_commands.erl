%% The commands of `bin/todana cluster', at the node that carries them out.
-module(todana_cluster_commands).
-moduledoc false.

-export([run/2]).

-doc "Carries out a command of `todana_control'.".
-spec run(binary(), map()) -> todana_node_commands:result().
run(Command, Request) ->
    case {whereis(todana_membership), todana_guest:is_guest()} of
        {undefined, true} ->
            run_on_guest(Command, Request);
        {undefined, false} ->
            {error, "this node is not a member of a cluster"};
        _ ->
            run_in_cluster(Command, Request)
    end.

%% A member says how the cluster is.
-spec run_on_guest(binary(), map()) -> todana_node_commands:result().
run_on_guest(~"status", Request) ->
    case todana_away:ask(?MODULE, run, none, [~"status", Request]) of
        {badarg, _, _} -> {error, "no member of the cluster answers"};
        Result -> Result
    end;
run_on_guest(Command, _Request) ->
    {error, ["this node is a guest of the cluster: run `bin/todana cluster ",
             Command, "` on a member"]}.

-spec run_in_cluster(binary(), map()) -> todana_node_commands:result().
run_in_cluster(~"status", _Request) ->
    {ok, plain(todana_cluster:status())};
run_in_cluster(~"verify", _Request) ->
    todana_verify:run(todana_raft_groups:first());
run_in_cluster(~"leave", Request) ->
    with_node(Request, fun leave/1);
run_in_cluster(~"transfer", Request) ->
    done(with_node(Request, fun todana_cluster:transfer/1));
run_in_cluster(~"replace", #{~"new" := New} = Request) ->
    done(with_node(Request, fun(Dead) ->
        with_node(#{~"argument" => New}, fun(Node) ->
            todana_cluster:replace(Dead, Node)
        end)
    end));
run_in_cluster(~"force", _Request) ->
    done(todana_cluster:force());
run_in_cluster(Command, _Request) ->
    {error, ["there is no command `", Command, "`"]}.

-spec leave(node()) -> todana_node_commands:result().
leave(Node) ->
    case {todana_cluster:leave(Node), Node =:= node()} of
        {ok, true} -> {ends, todana_node_commands:own_process()};
        {Result, _} -> done(Result)
    end.

-spec with_node(map(), fun((node()) -> Result)) -> Result | {error, iodata()}.
with_node(#{~"argument" := Name}, Do) ->
    Text = unicode:characters_to_list(Name),
    Group = todana_raft_groups:first(),
    maybe
        [] ?= named(Text, todana_members:known(Group)),
        %% As long as a node starts, it knows only itself.
        {ok, _Leader, Members} ?= todana_members:list(
            Group, todana_members:known(Group)
        ),
        Nodes = [Node || #{node := Node} <- Members],
        [] ?= named(Text, Nodes),
        {error, [Text, " is not a member of the cluster", hint(Text, Nodes)]}
    else
        [Found] -> Do(Found);
        {error, _} -> {error, "the cluster has no leader"}
    end.

%% Those with this name on another host, or without one.
-spec hint(string(), [node()]) -> iodata().
hint(Text, Nodes) ->
    Name = fun(Node) -> hd(string:split(Node, "@")) end,
    Meant = [
        Node
     || Node <- [atom_to_list(N) || N <- Nodes], Name(Node) =:= Name(Text)
    ],
    [["; did you mean ", lists:join(" or ", Meant), "?"] || Meant =/= []].

-spec named(string(), [node()]) -> [node()].
named(Text, Nodes) -> [Node || Node <- Nodes, atom_to_list(Node) =:= Text].

-spec done(ok | {error, iodata()}) -> {ok, true} | {error, iodata()}.
done(ok) -> {ok, true};
done({error, Sentence}) -> {error, Sentence}.

%% With texts as JSON has them.
-spec plain(term()) -> json:encode_value().
plain(Map) when is_map(Map) -> #{Key => plain(Value) || Key := Value <- Map};
plain([First | _] = Text) when is_integer(First) ->
    unicode:characters_to_binary(Text);
plain(List) when is_list(List) -> [plain(Value) || Value <- List];
plain(Value) -> Value.
