%% Decides which nodes may join the cluster. Other nodes call these functions.
-module(todana_admission).
-moduledoc false.

-export([version/0, cluster/0, claim/1, invite/1, admit/3, is_removed/3]).

-export_type([facts/0, invitation/0]).

%% Of what the nodes of a cluster say to each other.
-define(VERSION, 1).
%% The format of the log of a version that announces none.
-define(FIRST_FORMAT, 1).
-define(CLOCK_MS_MAX, 60_000).
-define(ANSWER_TIMEOUT_MS, 5_000).
%% More voters make each write slower, and do not make it safer.
-define(MEMBERS_MAX, 7).

-type facts() :: #{
    node := node(),
    durability := todana_data_dir:durability(),
    version := pos_integer(),
    time_ms := integer(),
    %% The newest format of the log that it reads.
    format => pos_integer()
}.
-type invitation() :: #{
    cluster := binary(),
    seed := non_neg_integer(),
    members := [node()],
    server := atom()
}.

-spec version() -> pos_integer().
version() -> ?VERSION.

-doc "The cluster of this node.".
-spec cluster() -> none | binary().
cluster() ->
    First = todana_raft_groups:first(),
    #{cluster := Cluster} = todana_raft_groups:opened(First),
    Cluster.

-doc "The cluster of this node, if it has a member of this name.".
-spec claim(node()) -> {member_of, binary()} | none.
claim(Node) ->
    try {cluster(), todana_members:listed(todana_raft_groups:first())} of
        {none, _} ->
            none;
        {Cluster, {ok, Members}} ->
            case lists:member(Node, Members) of
                true -> {member_of, Cluster};
                false -> none
            end;
        {_, unknown} ->
            none
    catch
        %% It is starting.
        error:badarg -> none
    end.

-doc """
What a node with an empty data directory needs to join; why it may not; or why
nobody can say that now.
""".
-spec invite(facts()) ->
    {ok, invitation()} | {later | error, Sentence :: iodata()}.
invite(#{version := Version}) when Version =/= ?VERSION ->
    {error, io_lib:format(
        "~s uses version ~b of the cluster protocol, and this node version ~b: "
        "use the same version of Todana",
        [node(), ?VERSION, Version]
    )};
invite(#{node := Node, durability := Durability, time_ms := TimeMs} = Facts) ->
    Format = maps:get(format, Facts, 1),
    AwayMs = abs(erlang:system_time(millisecond) - TimeMs),
    Group = todana_raft_groups:first(),
    try todana_raft_groups:opened(Group) of
        #{forced := true} ->
            {later, [atom_to_list(node()), " is about to go on alone: run "
                     "`bin/todana cluster force` there again, if it has "
                     "ended with an error"]};
        #{cluster := none} ->
            {error, [atom_to_list(node()), " is not a member of a cluster: "
                     "start it with the option cluster_create = yes "
                     "(--cluster-create)"]};
        #{durability := Other} when Other =/= Durability ->
            {error, io_lib:format("the cluster has durability ~s, not ~s",
                                  [Other, Durability])};
        #{} when AwayMs > ?CLOCK_MS_MAX ->
            {error, io_lib:format(
                "the clocks of ~s and of this node differ by ~b s: "
                "correct them first", [node(), AwayMs div 1_000]
            )};
        #{cluster := Cluster, seed := Seed} ->
            maybe
                ok ?= may_read(Node, Format, todana_formats:common(Group)),
                {ok, Members} ?= may_join(Group, Node),
                {ok, #{
                    cluster => Cluster, seed => Seed, members => Members,
                    server => todana_data_dir:server()
                }}
            end
    catch
        error:badarg -> {later, [atom_to_list(node()), " is starting"]}
    end.

%% It would stop at the first entry of a newer format, and the others could use
%% no command that needs one.
-spec may_read(node(), pos_integer(), pos_integer()) -> ok | {error, iodata()}.
may_read(_Node, Format, Common) when Format >= Common ->
    ok;
may_read(Node, Format, Common) ->
    {error, io_lib:format(
        "the members of the cluster may write format ~b of the log, and ~s "
        "reads none newer than ~b: use the members' version of Todana",
        [Common, Node, Format]
    )}.

-spec may_join(todana_raft_groups:id(), node()) ->
    {ok, [node()]} | {later | error, iodata()}.
may_join(Group, Node) ->
    case todana_members:list(Group, todana_members:known(Group)) of
        {ok, _Leader, Members} ->
            Nodes = [Known || #{node := Known} <- Members],
            case lists:member(Node, Nodes) of
                true ->
                    {error, [atom_to_list(Node), " is a member already, with "
                             "another data directory: if that is lost, run "
                             "`bin/todana cluster leave ", atom_to_list(Node),
                             "` on another member first"]};
                false when length(Nodes) >= ?MEMBERS_MAX ->
                    {error, io_lib:format("the cluster has ~b members already",
                                          [length(Nodes)])};
                false ->
                    {ok, Nodes}
            end;
        {error, _} ->
            {later, "the cluster has no leader"}
    end.

-doc "Makes a node of this cluster a member, whose server runs.".
-spec admit(Cluster :: binary(), node(), UId :: binary()) ->
    ok | {error, term()}.
admit(Cluster, Node, UId) ->
    Own = todana_data_dir:server(),
    case Cluster =:= cluster() andalso server_of(Node) of
        false -> {error, other_cluster};
        {ok, Own} -> admit_to(todana_raft_groups:first(), Node, UId);
        %% It was invited before `cluster force'.
        {ok, _} -> {error, other_server};
        unknown -> {error, no_answer}
    end.

-spec server_of(node()) -> {ok, atom()} | unknown.
server_of(Node) ->
    try erpc:call(Node, todana_data_dir, server, [], ?ANSWER_TIMEOUT_MS) of
        Name -> {ok, Name}
    catch
        _:_ -> unknown
    end.

-spec admit_to(todana_raft_groups:id(), node(), binary()) ->
    ok | {error, term()}.
admit_to(Group, Node, UId) ->
    case member(Group, Node) of
        none ->
            maybe
                ok ?= expect(Group, Node),
                ok ?= todana_members:add(Group, Node, UId),
                %% The leader forgets nodes that are no members.
                expect(Group, Node)
            end;
        #{uid := UId} -> ok;
        #{} -> {error, already_member};
        unknown -> {error, no_leader}
    end.

%% The node is in the map from now on, so that a new member of the present
%% version keeps no command from the others.
-spec expect(todana_raft_groups:id(), node()) -> ok | {error, term()}.
expect(Group, Node) ->
    Common = todana_formats:common(Group),
    try erpc:call(Node, todana_formats, newest, [], ?ANSWER_TIMEOUT_MS) of
        Format when Format >= Common -> todana_cluster_map:expect(Node, Format);
        Format -> {error, {reads, Format}}
    catch
        error:{exception, undef, _} when Common =:= ?FIRST_FORMAT -> ok;
        error:{exception, undef, _} -> {error, {reads, ?FIRST_FORMAT}};
        error:{erpc, Reason} -> {error, Reason}
    end.

-doc """
Whether a majority of this cluster has confirmed that this server is not a
member. The leader's list alone is no proof: a leader that is cut off may have
an old one, and a change in it that is not committed yet may be lost. The
question to the majority waits until the change is committed.
""".
-spec is_removed(Cluster :: binary(), node(), UId :: binary()) -> boolean().
is_removed(Cluster, Node, UId) ->
    Group = todana_raft_groups:first(),
    Cluster =:= cluster() andalso is_absent(Group, Node, UId) andalso
        todana_members:is_confirmed(Group) andalso is_absent(Group, Node, UId).

-spec is_absent(todana_raft_groups:id(), node(), binary()) -> boolean().
is_absent(Group, Node, UId) ->
    case member(Group, Node) of
        none -> true;
        #{uid := Other} -> Other =/= UId;
        _ -> false
    end.

-spec member(todana_raft_groups:id(), node()) ->
    todana_members:member() | none | unknown.
member(Group, Node) ->
    case todana_members:list(Group, todana_members:known(Group)) of
        {ok, _Leader, Members} ->
            case [M || #{node := N} = M <- Members, N =:= Node] of
                [Member] -> Member;
                [] -> none
            end;
        {error, _} ->
            unknown
    end.
