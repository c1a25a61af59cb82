%% Has snapshots of the group written, and says whether one is being written.
-module(todana_snapshots).
-moduledoc false.

-export([request/0, request_and_wait/1, is_in_progress/0]).

-doc "Asks for a snapshot.".
-spec request() -> ok | {error, busy | recovering}.
request() ->
    case {is_in_progress(), todana_ra_server:is_running()} of
        {true, _} -> {error, busy};
        {false, true} -> todana_ra_server:pipeline(snapshot);
        {false, false} -> {error, recovering}
    end.

-doc "Asks for one, and returns when it is on disk.".
-spec request_and_wait(timeout()) -> ok | {error, term()}.
request_and_wait(TimeoutMs) ->
    Before = todana_group_notes:attempts(),
    case request() of
        ok -> todana_group_notes:await_attempt(Before, TimeoutMs);
        {error, Reason} -> {error, Reason}
    end.

-doc "Whether one is being written.".
-spec is_in_progress() -> boolean().
is_in_progress() ->
    todana_group_notes:kept(snapshot_in_progress, false) =/= false.
