%% Gives votes to the members of a group.
%%
%% The number of voters is odd: a second one, or a fourth, would make every
%% write wait for one more node, and not one more node could fail. So a member
%% that joins is a replica at first, which has all records and no vote, and the
%% leader gives votes when the number gets odd, or stays so:
%%
%%     voters  replicas   ->   voters  replicas
%%        1       1               1       1       b waits for a third node
%%        1       2               3       0       it came: both vote
%%        2       1               3       0       one of three had been removed
-module(todana_votes).
-moduledoc false.

-export([balance/1, next/2]).

-doc "Gives one vote, if this node leads and there is one to give.".
-spec balance(todana_raft_groups:id()) -> ok.
balance(Group) ->
    case todana_members:list(Group, todana_members:known(Group)) of
        {ok, Leader, Members} when Leader =:= node() ->
            case next(Members, [node() | nodes()]) of
                #{node := Node, uid := UId} ->
                    _ = todana_members:promote(Group, Node, UId),
                    ok;
                none ->
                    ok
            end;
        _ ->
            ok
    end.

-doc """
The replica that gets a vote next; one of those that are up. While a candidate
copies the records, no other one gets a vote.
""".
-spec next([todana_members:member()], [node()]) ->
    todana_members:member() | none.
next(Members, Up) ->
    Voters = length([
        R || #{role := R} <- Members, R =:= leader orelse R =:= voter
    ]),
    Candidates = [M || #{role := candidate} = M <- Members],
    Replicas = [
        M
     || #{role := replica, node := Node, uid := _} = M <- Members,
        lists:member(Node, Up)
    ],
    case {Voters rem 2, Candidates, Replicas} of
        {1, [], [First, _ | _]} -> First;
        {0, [], [First | _]} -> First;
        _ -> none
    end.
