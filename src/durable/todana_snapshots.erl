%% Has snapshots of a group written, and says whether one is being written.
-module(todana_snapshots).
-moduledoc false.

-export([request/1, request_and_wait/2, is_in_progress/0]).

-doc "Asks for a snapshot.".
-spec request(todana_raft_groups:id()) -> ok | {error, busy | recovering}.
request(Group) ->
    case {is_in_progress(), todana_ra_server:is_running(Group)} of
        {true, _} -> {error, busy};
        {false, true} -> todana_ra_server:pipeline(Group, snapshot);
        {false, false} -> {error, recovering}
    end.

-doc "Asks for one, and returns when it is on disk.".
-spec request_and_wait(todana_raft_groups:id(), timeout()) ->
    ok | {error, term()}.
request_and_wait(Group, TimeoutMs) ->
    Before = todana_group_notes:attempts(),
    case request(Group) of
        ok -> todana_group_notes:await_attempt(Before, TimeoutMs);
        {error, Reason} -> {error, Reason}
    end.

-doc "Whether one is being written; a node writes one at a time.".
-spec is_in_progress() -> boolean().
is_in_progress() ->
    todana_group_notes:kept(snapshot_in_progress, false) =/= false.
