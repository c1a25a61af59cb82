%% The state machine of the group, as Ra calls it.
%%
%% Its state is the durable databases, which native code changes; the term that
%% Ra keeps is only a mark. `apply' never fails: an exception would end the
%% server, and again at each restart, since the entry stays in the log. The one
%% exception is an entry that a newer version wrote, which must not be skipped.
%%
%% A snapshot is the state at one entry, so its handle is taken inside `apply'.
%% Ra carries out the effect only after it has applied all entries at hand,
%% when the databases are already ahead; `todana_snapshot' finds the handle by
%% the index of the entry.
-module(todana_machine).
-moduledoc false.
-behaviour(ra_machine).

-export([init/1, apply/3, state_enter/2, version/0, snapshot_module/0]).
-export([read_index/1]).

-export_type([state/0]).

-type state() :: todana | {snapshot, pos_integer()}.

-spec version() -> 1.
version() -> 1.

-spec snapshot_module() -> todana_snapshot.
snapshot_module() -> todana_snapshot.

%% Called only if there is no snapshot to begin with. If there ever was one,
%% the log begins after it, and an empty table must not take its place.
-spec init(map()) -> state().
init(_Arguments) ->
    #{server_dir := Directory} = todana_data_dir:opened(),
    ok = todana_snapshot_files:insist_on_none(Directory),
    ok = todana_nif:group_reset(),
    ok = todana_log_terms:begin_anew(0, 0),
    todana.

-spec apply(ra_machine:command_meta_data(), term(), state()) ->
    {state(), term()} | {state(), term(), [term()]}.
apply(#{index := Index, term := Term} = Meta, Command, State) ->
    Result = apply_one(Meta, Command, State),
    ok = todana_log_terms:applied(Index, Term),
    Result.

-spec apply_one(ra_machine:command_meta_data(), term(), state()) ->
    {state(), term()} | {state(), term(), [term()]}.
apply_one(#{index := Index, system_time := TimeMs}, {b, Batch}, State) ->
    case run(Batch, 0, Index, TimeMs) of
        false -> {State, ok};
        true -> begin_snapshot(Index, State)
    end;
apply_one(#{index := Index}, snapshot, State) ->
    ok = todana_nif:group_skip(Index),
    begin_snapshot(Index, State);
%% Of one member alone, for a backup.
apply_one(#{index := Index}, {snapshot, Node}, State) ->
    ok = todana_nif:group_skip(Index),
    case Node =:= node() andalso begin_snapshot(Index, State) of
        {_, _, Effects} -> {State, {index, Index}, Effects};
        _ -> {State, {index, Index}}
    end;
%% All members make the digest of the same state.
apply_one(#{index := Index}, {digest, Ref}, State) ->
    ok = todana_nif:group_skip(Index),
    _ = get(todana_runs) =:= true andalso
        gen_server:cast(
            todana_verify, {digest, Ref, Index, todana_nif:group_digest()}
        ),
    {State, ok};
%% A question whether the group works.
apply_one(#{index := Index}, ping, State) ->
    ok = todana_nif:group_skip(Index),
    {State, {index, Index}};
%% Changes of the version; nodes and processes that come and go.
apply_one(#{index := Index}, _Command, State) ->
    ok = todana_nif:group_skip(Index),
    {State, ok}.

%% In slices of half a millisecond, on a normal scheduler as long as no record
%% needs much more.
-spec run(binary(), non_neg_integer(), pos_integer(), non_neg_integer()) ->
    boolean().
run(Batch, Offset, Index, TimeMs) ->
    case todana_nif:group_apply(Batch, Offset, Index, TimeMs) of
        {more, Next} -> run(Batch, Next, Index, TimeMs);
        {long, Next} -> run_dirty(Batch, Next, Index, TimeMs);
        Ended -> ended(Ended)
    end.

-spec run_dirty(
    binary(), non_neg_integer(), pos_integer(), non_neg_integer()
) -> boolean().
run_dirty(Batch, Offset, Index, TimeMs) ->
    case todana_nif:group_apply_dirty(Batch, Offset, Index, TimeMs) of
        {more, Next} -> run_dirty(Batch, Next, Index, TimeMs);
        Ended -> ended(Ended)
    end.

-spec ended({done, boolean()} | {newer, binary()}) -> boolean().
ended({done, SnapshotDue}) -> SnapshotDue;
ended({newer, Sentence}) -> todana_group_notes:refuse("~ts", [Sentence]).

%% While the log is read after a start, Ra ignores effects, and a handle would
%% keep old records in memory for nothing.
-spec begin_snapshot(pos_integer(), state()) ->
    {state(), term()} | {state(), term(), [term()]}.
begin_snapshot(Index, State) ->
    case get(todana_runs) =:= true andalso
         todana_nif:group_snapshot(Index) of
        ok -> {State, ok, [{release_cursor, Index, {snapshot, Index}}]};
        busy -> {State, busy};
        false -> {State, busy}
    end.

%% Ra calls this in the server's process.
-spec state_enter(atom(), state()) -> [].
state_enter(Role, _State) when Role =:= leader; Role =:= follower ->
    _ = put(todana_runs, true),
    notify(todana_group),
    notify(todana_batcher),
    notify(todana_topology),
    [];
state_enter(Role, _State) when Role =:= recover; Role =:= recovered ->
    _ = erase(todana_runs),
    [];
state_enter(_Role, _State) ->
    [].

-doc """
The last entry that changed the databases of the leader, which has applied all
that is confirmed. Ra has entries of its own, which no machine sees, so its own
index would never be reached by another member.
""".
-spec read_index(state()) -> non_neg_integer().
read_index(_State) -> todana_nif:group_applied().

-spec notify(atom()) -> ok.
notify(Name) ->
    case whereis(Name) of
        undefined ->
            ok;
        Pid ->
            Pid ! todana_leader,
            ok
    end.
