%% A node that has the name of a member and belongs to another cluster: its
%% directory was lost or replaced, and it has begun anew.
%%
%% The members find out when they ask it for its cluster (`todana_membership'),
%% and send it a claim, which it reports, too. A claim that is not repeated is
%% forgotten: the members have removed that node, or have ended.
-module(todana_stranger).
-moduledoc false.

-export([sentence/2, claim/2, note/3, claims/0, claimed/2, verdict/0]).

-export_type([claim/0]).

%% Members repeat it every five seconds.
-define(CLAIM_MS, 15_000).

%% A member of another cluster that has this node's name among its members.
-type claim() :: #{node := node(), cluster := binary()}.

-doc "What a member says of it.".
-spec sentence(node() | binary(), none | binary()) -> iodata().
sentence(Node, Other) ->
    io_lib:format(
        "the node that answers as ~ts belongs to ~ts: start it with the data "
        "directory of this cluster's member. If that is lost, run `bin/todana "
        "cluster leave ~ts`, and let it join with an empty directory",
        [Node, cluster(Other), Node]
    ).

%% As JSON has it, no cluster is a word.
-spec cluster(none | binary()) -> iodata().
cluster(none) -> "no cluster";
cluster(~"none") -> "no cluster";
cluster(Cluster) -> ["the cluster ", Cluster].

-doc "Claims the name of this node for a member of this cluster.".
-spec claim(node(), Cluster :: binary()) -> ok.
claim(Node, Cluster) ->
    _ = erlang:send(
        {todana_membership, Node}, {claimed, node(), Cluster},
        [noconnect, nosuspend]
    ),
    ok.

-doc "Notes a claim to this node's name, and logs the first one of a cluster.".
-spec note(node(), Cluster :: binary(), Own :: none | binary()) -> ok.
note(_Node, Cluster, Cluster) ->
    ok;
note(Node, Cluster, _Own) ->
    Claim = #{node => Node, cluster => Cluster},
    Known = claims(),
    _ = [] =:= [C || #{cluster := C} <- Known, C =:= Cluster] andalso
        logger:error("todana: ~ts", [claimed(node(), Claim)]),
    Noted = maps:from_list([{C, AtMs} || {C, AtMs} <- fresh(), C =/= Claim]),
    todana_group_notes:keep(?MODULE, Noted#{Claim => now_ms()}).

-doc "The claims about this node that still stand.".
-spec claims() -> [claim()].
claims() -> lists:sort([Claim || {Claim, _AtMs} <- fresh()]).

-spec fresh() -> [{claim(), AtMs :: integer()}].
fresh() ->
    SinceMs = now_ms() - ?CLAIM_MS,
    [
        {Claim, AtMs}
     || Claim := AtMs <- todana_group_notes:kept(?MODULE, #{}), AtMs >= SinceMs
    ].

-doc "What a node says of such a claim about itself.".
-spec claimed(Own :: node() | binary(), map()) -> iodata().
claimed(Own, #{node := Node, cluster := Cluster}) ->
    io_lib:format(
        "~ts is a member of the cluster ~ts, as ~ts says, and this node has "
        "begun another cluster with another data directory: start it with "
        "that one. If it is lost, run `bin/todana cluster leave ~ts` on ~ts, "
        "and start this node with an empty directory and --cluster-join ~ts",
        [Own, Cluster, Node, Own, Node, Node]
    ).

-doc """
Whether clients should use this node. If it is alone in its cluster, they miss
the records of the other one.
""".
-spec verdict() -> ok | {error, Sentence :: iodata()}.
verdict() ->
    case claims() of
        [Claim | _] ->
            case todana_members:listed(todana_raft_groups:first()) of
                {ok, [Own]} -> {error, claimed(Own, Claim)};
                _ -> ok
            end;
        [] ->
            ok
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
