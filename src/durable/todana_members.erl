%% The members of a group, as Ra knows them: which one leads, and how one joins
%% or leaves.
%%
%% Each function says what is true now, or does one step; `todana_cluster' makes
%% whole changes of them.
-module(todana_members).
-moduledoc false.

-export([leader/1, facts/1, is_elector/1, voters/2, known/1,
         listed/1, led/1, connected/1, list/2, list/3, read_index/3,
         is_confirmed/1, await/3, confirmed/1, written/1, log_end/1, votes/1]).
%% Other nodes call it.
-export([log_end/0]).
-export([command/2, ask/2, add/3, promote/3, remove/2]).
-export([elect/1, begin_election/1, transfer/2, force_alone/1, is_alone/1]).

-export_type([leadership/0, member/0, failure/0]).

%% A node that leads, and the term: it may lose the lead and win it back.
-type leadership() :: {node(), Term :: non_neg_integer()}.

-type group() :: todana_raft_groups:id().

-type member() :: #{
    node := node(),
    %% A replica has all records and no vote; a candidate gets one as soon as
    %% it has caught up.
    role := leader | voter | candidate | replica | unknown,
    uid => binary(),
    %% The highest entry that the leader knows the member to have.
    match_index => non_neg_integer(),
    target_index => non_neg_integer()
}.
-type failure() :: {error, no_leader | timeout | term()}.

-define(TIMEOUT_MS, 5_000).
-define(PING_TIMEOUT_MS, 1_000).
-define(POLL_MS, 2).
-define(CHANGE_ATTEMPTS, 50).
-define(CHANGE_PAUSE_MS, 100).

-doc "The node that leads, as far as this node knows.".
-spec leader(group()) -> node() | none.
leader(Group) ->
    {Name, _} = todana_ra_server:address(Group),
    case ra_leaderboard:lookup_leader(Name) of
        {_, Node} -> Node;
        undefined -> none
    end.

-doc """
What this node knows now, without asking a process: the leader, the term, the
last entry that is committed, and the last one of this node's log.
""".
-spec facts(group()) -> #{
    leader := leadership() | none,
    term := non_neg_integer(),
    committed := non_neg_integer(),
    last_index := non_neg_integer()
}.
facts(Group) ->
    Metrics = ra:key_metrics(todana_ra_server:address(Group)),
    #{
        leader =>
            case {leader(Group), Metrics} of
                {none, _} -> none;
                {Node, #{term := Term}} -> {Node, Term};
                {_, #{}} -> none
            end,
        term => maps:get(term, Metrics, 0),
        committed => maps:get(commit_index, Metrics, 0),
        last_index => maps:get(last_index, Metrics, 0)
    }.

-doc "Whether this node follows a leader, and may vote for another one.".
-spec is_elector(group()) -> boolean().
is_elector(Group) ->
    case ra:key_metrics(todana_ra_server:address(Group)) of
        #{state := State, membership := voter} ->
            State =:= follower orelse State =:= await_condition;
        #{} ->
            false
    end.

-doc "Whether this node has a vote.".
-spec votes(group()) -> boolean().
votes(Group) ->
    Server = todana_ra_server:address(Group),
    #{membership := Membership} = ra:key_metrics(Server),
    Membership =:= voter.

-doc "The nodes that vote, as this node's server knows them.".
-spec voters(group(), timeout()) -> {ok, [node()]} | failure().
voters(Group, TimeoutMs) ->
    Server = todana_ra_server:address(Group),
    try ra_server_proc:local_state_query(Server, voters, TimeoutMs) of
        {ok, Voters, _} -> {ok, [Node || {_, Node} <- Voters]};
        Failure -> failure(Failure)
    catch
        exit:Reason -> {error, Reason}
    end.

-doc "The nodes of the members, as far as this node knows.".
-spec known(group()) -> [node()].
known(Group) ->
    case listed(Group) of
        {ok, Nodes} -> Nodes;
        unknown -> [node()]
    end.

-doc "Those of the other members that this node is connected to.".
-spec connected(group()) -> [node()].
connected(Group) -> [N || N <- known(Group), lists:member(N, nodes())].

-doc "The same as `known/1` while a leader is known. It asks no process.".
-spec led(group()) -> {ok, [node()]} | unknown.
led(Group) ->
    {Name, _} = todana_ra_server:address(Group),
    case ra_leaderboard:lookup_members(Name) of
        [_ | _] = Led -> {ok, lists:sort([Node || {_, Node} <- Led])};
        _ -> unknown
    end.

-doc "The same as `known/1`, unless this node does not know it now.".
-spec listed(group()) -> {ok, [node()]} | unknown.
listed(Group) ->
    case led(Group) of
        {ok, Nodes} ->
            {ok, Nodes};
        unknown ->
            case lists:sort([Node || {_, Node} <- own_members(Group)]) of
                [] -> unknown;
                Nodes -> {ok, Nodes}
            end
    end.

%% The servers of nodes, in the order in which Ra is to ask them. It waits for
%% the answer of each for the whole time, and a node that hangs gives none.
-spec in_order(group(), [node()]) -> [ra:server_id()].
in_order(Group, Nodes) ->
    Leader = leader(Group),
    Order = fun(Node) ->
        if
            Node =:= Leader -> 0;
            Node =:= node() -> 1;
            true -> 2
        end
    end,
    Sorted = lists:sort([{Order(Node), Node} || Node <- Nodes]),
    [todana_ra_server:address(Group, Node) || {_, Node} <- Sorted].

%% Those in the log, while no leader is known.
-spec own_members(group()) -> [ra:server_id()].
own_members(Group) ->
    try ra:members({local, todana_ra_server:address(Group)}, ?TIMEOUT_MS) of
        {ok, Members, _} -> Members;
        _ -> []
    catch
        exit:_ -> []
    end.

-doc "What the leader knows of the members. `Nodes' are asked who that is.".
-spec list(group(), [node()]) ->
    {ok, Leader :: node(), [member()]} | failure().
list(Group, Nodes) -> list(Group, Nodes, ?TIMEOUT_MS).

-doc "The same. Each node may take this time to answer.".
-spec list(group(), [node()], timeout()) ->
    {ok, Leader :: node(), [member()]} | failure().
list(Group, Nodes, TimeoutMs) ->
    Servers = in_order(Group, Nodes),
    try ra:members_info(Servers, TimeoutMs) of
        {ok, Members, {_, Leader}} ->
            {ok, Leader, [
                member(Node, Node =:= Leader, Facts)
             || {{_, Node}, Facts} <- lists:sort(maps:to_list(Members))
            ]};
        Failure ->
            failure(Failure)
    catch
        exit:Reason -> {error, Reason}
    end.

-spec member(node(), boolean(), map()) -> member().
member(Node, IsLeader, Facts) ->
    Status = maps:get(voter_status, Facts, #{}),
    Role =
        case {IsLeader, maps:get(membership, Status, voter)} of
            {true, _} -> leader;
            {false, voter} -> voter;
            {false, promotable} -> candidate;
            {false, non_voter} -> replica;
            {false, _} -> unknown
        end,
    Known =
        [{match_index, Index} || #{match_index := Index} <- [Facts]] ++
        [{target_index, Index} || #{target := Index} <- [Status]] ++
        [{uid, UId} || #{uid := UId} <- [Status]],
    maps:from_list([{node, Node}, {role, Role} | Known]).

-doc """
The index that a read has to see to know everything that was acknowledged
before the call. The leader asks a majority whether it still leads; no entry is
written.
""".
-spec read_index(group(), [node()], timeout()) ->
    {ok, non_neg_integer()} | failure().
read_index(Group, Nodes, TimeoutMs) ->
    case leader(Group) =:= node() andalso votes_alone(Group) of
        true -> own_index(Group, TimeoutMs);
        false -> confirmed_index(in_order(Group, Nodes), TimeoutMs)
    end.

%% Nobody else can lead, so what is applied here, or being applied, is all there
%% is; but for a server that has begun to read its log.
-spec own_index(group(), timeout()) -> {ok, non_neg_integer()} | failure().
own_index(Group, TimeoutMs) ->
    case todana_nif:durable_state() of
        open -> {ok, todana_nif:group_answered(Group)};
        _ -> todana_ra_server:ask(Group, TimeoutMs)
    end.

-spec confirmed_index([ra:server_id()], timeout()) ->
    {ok, non_neg_integer()} | failure().
confirmed_index(Servers, TimeoutMs) ->
    Query = {todana_machine, read_index, []},
    try ra:consistent_query(Servers, Query, TimeoutMs) of
        {ok, Index, _} when is_integer(Index) -> {ok, Index};
        Failure -> failure(Failure)
    catch
        exit:Reason -> {error, Reason}
    end.

%% Ra would ask the members without a vote too, and wait for them.
-spec votes_alone(group()) -> boolean().
votes_alone(Group) ->
    case list(Group, [node()]) of
        {ok, Leader, Members} when Leader =:= node(), length(Members) > 1 ->
            [Leader] =:= [
                Node
             || #{node := Node, role := Role} <- Members,
                Role =/= replica, Role =/= candidate
            ];
        _ ->
            false
    end.

-doc """
Whether a majority confirms what the leader knows, its last change of the
members included.
""".
-spec is_confirmed(group()) -> boolean().
is_confirmed(Group) ->
    case read_index(Group, known(Group), ?TIMEOUT_MS) of
        {ok, _} -> true;
        {error, _} -> false
    end.

-doc """
Returns when this node has applied this entry, or after this time.
""".
-spec await(group(), non_neg_integer(), non_neg_integer()) ->
    ok | {error, timeout}.
await(Group, Index, TimeoutMs) ->
    case todana_nif:group_applied(Group) of
        Applied when Applied >= Index ->
            ok;
        _ when TimeoutMs =< 0 ->
            {error, timeout};
        _ ->
            timer:sleep(?POLL_MS),
            await(Group, Index, TimeoutMs - ?POLL_MS)
    end.

-doc """
An entry that is confirmed and on disk here. A member applies entries before its
own disk has them.
""".
-spec confirmed(group()) -> non_neg_integer().
confirmed(Group) ->
    %% In this order: Ra lowers the other one before it applies an entry that
    %% replaces one on disk.
    Applied = todana_nif:group_applied(Group),
    case ra:key_metrics(todana_ra_server:address(Group)) of
        #{last_written_index := Written} -> max(0, min(Applied, Written));
        #{} -> 0
    end.

-doc "The last entry of this node's log that is on its disk.".
-spec written(group()) -> non_neg_integer().
written(Group) ->
    case ra:key_metrics(todana_ra_server:address(Group)) of
        #{last_written_index := Written, snapshot_index := Snapshot} ->
            lists:max([0, Written, Snapshot]);
        #{} ->
            0
    end.

-doc """
The term and the number of the last entry of this node's log, confirmed or not.
Without a leader, a member has applied less than it has.
""".
-spec log_end(group()) ->
    {Term :: non_neg_integer(), Index :: non_neg_integer()} | unknown.
log_end(Group) ->
    try ra:member_overview(todana_ra_server:address(Group), ?TIMEOUT_MS) of
        {ok, #{log := #{last_term := Term, last_index := Index}}, _} ->
            {Term, Index};
        _ ->
            unknown
    catch
        _:_ -> unknown
    end.

-doc "That of the first group. Other nodes call it.".
-spec log_end() ->
    {Term :: non_neg_integer(), Index :: non_neg_integer()} | unknown.
log_end() -> log_end(todana_raft_groups:first()).

-doc """
Adds a server that has been started and is empty, without a vote. Adding it
again is no error.
""".
-spec add(group(), node(), UId :: binary()) -> ok | failure().
add(Group, Node, UId) -> change_vote(Group, Node, UId, non_voter).

-doc "Gives a member a vote, once it has what the log has now.".
-spec promote(group(), node(), UId :: binary()) -> ok | failure().
promote(Group, Node, UId) -> change_vote(Group, Node, UId, promotable).

-spec change_vote(group(), node(), binary(), non_voter | promotable) ->
    ok | failure().
change_vote(Group, Node, UId, Membership) ->
    Id = todana_ra_server:address(Group, Node),
    New = #{id => Id, membership => Membership, uid => UId},
    Add = fun(Servers) -> ra:add_member(Servers, New, ?TIMEOUT_MS) end,
    case change(Group, Add) of
        {error, already_member} -> ok;
        Result -> Result
    end.

-doc "Removes a member, which may be down. Removing it again is no error.".
-spec remove(group(), node()) -> ok | failure().
remove(Group, Node) ->
    Id = todana_ra_server:address(Group, Node),
    Remove = fun(Servers) -> ra:remove_member(Servers, Id, ?TIMEOUT_MS) end,
    case change(Group, Remove) of
        {error, not_member} -> ok;
        Result -> Result
    end.

-spec change(group(), fun(([ra:server_id()]) -> term())) -> ok | failure().
change(Group, Call) -> change(Group, Call, ?CHANGE_ATTEMPTS).

%% A new leader, and one that makes another change, permit none for a moment.
-spec change(group(), fun(([ra:server_id()]) -> term()), non_neg_integer()) ->
    ok | failure().
change(Group, Call, Left) ->
    case todana_raft_groups:opened(Group) of
        #{forced := true} -> {error, forced};
        #{} -> change(Group, Call, in_order(Group, known(Group)), Left)
    end.

-spec change(
    group(), fun(([ra:server_id()]) -> term()), [ra:server_id()],
    non_neg_integer()
) -> ok | failure().
change(Group, Call, Servers, Left) ->
    try Call(Servers) of
        {ok, _, _} ->
            %% The leader has only appended it.
            case is_confirmed(Group) of
                true -> ok;
                false -> {error, unconfirmed}
            end;
        {error, cluster_change_not_permitted} when Left > 0 ->
            timer:sleep(?CHANGE_PAUSE_MS),
            change(Group, Call, Left - 1);
        Failure ->
            failure(Failure)
    catch
        exit:Reason -> {error, Reason}
    end.

-doc "Has the machines of all members apply a command.".
-spec command(group(), term()) -> ok | failure().
command(Group, Command) ->
    case ask(Group, Command) of
        {ok, _} -> ok;
        Failure -> Failure
    end.

-doc "The same, with the answer of the leader's.".
-spec ask(group(), term()) -> {ok, term()} | failure().
ask(Group, Command) ->
    Servers = in_order(Group, known(Group)),
    try ra:process_command(Servers, Command, ?TIMEOUT_MS) of
        {ok, Answer, _} -> {ok, Answer};
        Failure -> failure(Failure)
    catch
        exit:Reason -> {error, Reason}
    end.

-doc "Has this node ask the others for their votes.".
-spec elect(group()) -> ok | failure().
elect(Group) ->
    try ra:trigger_election(todana_ra_server:address(Group), ?TIMEOUT_MS) of
        ok -> ok
    catch
        exit:Reason -> {error, Reason}
    end.

-doc """
Makes the only member of a group its leader at once. Several decide by
themselves: an election would end the work of the one that leads.
""".
-spec begin_election(group()) -> ok.
begin_election(Group) ->
    case known(Group) of
        [Node] when Node =:= node() ->
            Server = todana_ra_server:address(Group),
            try ra:trigger_election(Server, 1_000) catch _:_ -> ok end;
        _ ->
            ok
    end.

-doc """
Has another member lead, which must have the whole log. The leader confirms
nothing until the other one leads, so that one must answer first.
""".
-spec transfer(group(), node()) -> ok | failure().
transfer(Group, Node) ->
    case lists:member(Node, [node() | nodes()]) andalso
        ra:ping(todana_ra_server:address(Group, Node), ?PING_TIMEOUT_MS)
    of
        {pong, _} -> begin_transfer(Group, Node);
        _ -> {error, {silent, Node}}
    end.

-spec begin_transfer(group(), node()) -> ok | failure().
begin_transfer(Group, Node) ->
    Own = todana_ra_server:address(Group),
    Other = todana_ra_server:address(Group, Node),
    try ra:transfer_leadership(Own, Other, ?TIMEOUT_MS) of
        ok -> ok;
        already_leader -> ok;
        Failure -> failure(Failure)
    catch
        exit:Reason -> {error, Reason}
    end.

-doc "Whether this node is the only member, by its last snapshot, too.".
-spec is_alone(group()) -> boolean().
is_alone(Group) ->
    Own = todana_ra_server:address(Group),
    try ra:member_overview(Own, ?TIMEOUT_MS) of
        {ok, #{
            cluster := #{Own := _} = Cluster,
            cluster_index_term := {Index, _Term},
            log := #{snapshot_index := Snapshot}
        }, _} when map_size(Cluster) =:= 1, is_integer(Snapshot) ->
            Index =< Snapshot;
        _ ->
            false
    catch
        exit:_ -> false
    end.

-doc "Makes this node the only member. What it does not have is lost.".
-spec force_alone(group()) -> ok | failure().
force_alone(Group) ->
    Server = todana_ra_server:address(Group),
    try ra_server_proc:force_shrink_members_to_current_member(Server) of
        ok -> ra:trigger_election(Server);
        Failure -> failure(Failure)
    catch
        exit:Reason -> {error, Reason}
    end.

-spec failure(term()) -> failure().
failure({error, _} = Error) -> Error;
failure({timeout, _}) -> {error, timeout};
failure(timeout) -> {error, timeout};
failure(Other) -> {error, Other}.
