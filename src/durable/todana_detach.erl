%% Gives up the other members of a group: this node's server is the only one.
%%
%% That is how a node starts whose directory was that of a member which was
%% removed. `todana_alone' takes the same steps for a cluster that has lost its
%% other members.
-module(todana_detach).
-moduledoc false.

-export([detach/1, detach_for_good/1]).
-export([give_up_others/1, snapshot/1, await/3]).

-define(LEAD_TIMEOUT_MS, 10_000).
-define(SNAPSHOT_TIMEOUT_MS, 3_600_000).
-define(TAKEN_IN_TIMEOUT_MS, 5_000).
-define(POLL_MS, 50).

-doc """
Gives up the members of a group whose node has no cluster any more. Each start
does so before the records can be read, until a snapshot has one member.
""".
-spec detach(todana_raft_groups:id()) -> ok | {error, iodata()}.
detach(Group) ->
    maybe
        ok ?= give_up_others(Group),
        await(fun() -> is_applied(Group) end, ?LEAD_TIMEOUT_MS,
              "the log cannot remove its former members")
    end.

-doc "Has a snapshot written that makes this lasting, if there is room for it.".
-spec detach_for_good(todana_raft_groups:id()) -> ok.
detach_for_good(Group) ->
    case snapshot(Group) =:= ok andalso todana_members:is_alone(Group) of
        true ->
            _ = todana_data_dir:went_alone(todana_raft_groups:opened(Group)),
            ok;
        false ->
            ok
    end.

-spec is_applied(todana_raft_groups:id()) -> boolean().
is_applied(Group) ->
    element(1, todana_ra_server:ask(Group, ?LEAD_TIMEOUT_MS)) =:= ok.

-doc "Makes this node the only member; an error is a sentence.".
-spec give_up_others(todana_raft_groups:id()) -> ok | {error, iodata()}.
give_up_others(Group) ->
    case todana_members:force_alone(Group) of
        ok ->
            ok;
        {error, Reason} ->
            {error, io_lib:format(
                "the log of this node does not answer (~0tp): run the command "
                "again", [Reason]
            )}
    end.

-doc """
Has a snapshot written. One that is being written may have the old members. Ra
passes over the next one until it has taken that in, as that of a backup that
waited for a leader.
""".
-spec snapshot(todana_raft_groups:id()) -> ok | {error, term()}.
snapshot(Group) ->
    IsLastTakenIn = fun() -> is_last_taken_in(Group) end,
    _ = await(IsLastTakenIn, ?TAKEN_IN_TIMEOUT_MS, ""),
    case todana_snapshots:request_and_wait(Group, ?SNAPSHOT_TIMEOUT_MS) of
        {error, busy} ->
            timer:sleep(?POLL_MS),
            snapshot(Group);
        %% Ra may pass over one: the caller sees that, and tries again.
        {error, ignored} ->
            ok;
        Result ->
            Result
    end.

-spec is_last_taken_in(todana_raft_groups:id()) -> boolean().
is_last_taken_in(Group) ->
    case ra:key_metrics(todana_ra_server:address(Group)) of
        %% Ra's index is -1 without a snapshot.
        #{snapshot_index := Index} ->
            max(0, Index) >= todana_group_notes:last_index();
        #{} ->
            false
    end.

-doc "Waits until this is true; the sentence is the error after this time.".
-spec await(fun(() -> boolean()), integer(), iodata()) ->
    ok | {error, iodata()}.
await(Is, LeftMs, Sentence) ->
    case Is() of
        true ->
            ok;
        false when LeftMs =< 0 ->
            {error, Sentence};
        false ->
            timer:sleep(?POLL_MS),
            await(Is, LeftMs - ?POLL_MS, Sentence)
    end.
