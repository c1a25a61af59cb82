%% The state machine of the group, as Ra calls it.
%%
%% Its state is the durable databases, which native code changes; the term that
%% Ra keeps says only which group they belong to, and is not written to disk.
%% `apply' never fails: an exception would end the
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
%% For `todana_ra_files', which reads the configuration of the server
-export([group/1]).

-export_type([state/0]).

-type group() :: todana_raft_groups:id().
-type state() :: {group, group()} | {snapshot, group(), pos_integer()}.

-spec version() -> 1.
version() -> 1.

-spec snapshot_module() -> todana_snapshot.
snapshot_module() -> todana_snapshot.

%% Called only if there is no snapshot to begin with. If there ever was one,
%% the log begins after it, and an empty table must not take its place.
-spec init(map()) -> state().
init(Arguments) ->
    Group = group(Arguments),
    #{server_dir := Directory} = todana_raft_groups:opened(Group),
    ok = todana_snapshot_files:insist_on_none(Directory),
    ok = todana_nif:group_reset(Group),
    ok = todana_log_terms:begin_anew(Group, 0, 0),
    {group, Group}.

-doc "The group, by the arguments; earlier versions have written none.".
-spec group(map()) -> term().
group(Arguments) -> maps:get(group, Arguments, todana_raft_groups:first()).

-spec group_of(state()) -> group().
group_of({group, Group}) -> Group;
group_of({snapshot, Group, _Index}) -> Group.

-spec apply(ra_machine:command_meta_data(), term(), state()) ->
    {state(), term()} | {state(), term(), [term()]}.
apply(#{index := Index, term := Term} = Meta, Command, State) ->
    Group = group_of(State),
    Result = apply_one(Group, Meta, Command, State),
    ok = todana_log_terms:applied(Group, Index, Term),
    Result.

-spec apply_one(group(), ra_machine:command_meta_data(), term(), state()) ->
    {state(), term()} | {state(), term(), [term()]}.
apply_one(Group, #{index := Index, system_time := TimeMs}, {b, Batch}, State) ->
    case run(Group, Batch, 0, Index, TimeMs) of
        false -> {State, ok};
        true -> begin_snapshot(Group, Index, State)
    end;
apply_one(Group, #{index := Index}, snapshot, State) ->
    ok = todana_nif:group_skip(Group, Index),
    begin_snapshot(Group, Index, State);
%% Of one member alone, for a backup.
apply_one(Group, #{index := Index}, {snapshot, Node}, State) ->
    ok = todana_nif:group_skip(Group, Index),
    case Node =:= node() andalso begin_snapshot(Group, Index, State) of
        {_, _, Effects} -> {State, {index, Index}, Effects};
        _ -> {State, {index, Index}}
    end;
%% All members make the digest of the same state.
apply_one(Group, #{index := Index}, {digest, Ref}, State) ->
    ok = todana_nif:group_skip(Group, Index),
    _ = get(todana_runs) =:= true andalso
        gen_server:cast(
            todana_raft_groups:name(todana_verify, Group),
            {digest, Ref, Index, todana_nif:group_digest(Group)}
        ),
    {State, ok};
%% A question whether the group works.
apply_one(Group, #{index := Index}, ping, State) ->
    ok = todana_nif:group_skip(Group, Index),
    {State, {index, Index}};
%% Changes of the version; nodes and processes that come and go.
apply_one(Group, #{index := Index}, _Command, State) ->
    ok = todana_nif:group_skip(Group, Index),
    {State, ok}.

%% In slices of half a millisecond, on a normal scheduler as long as no record
%% needs much more.
-spec run(
    group(), binary(), non_neg_integer(), pos_integer(), non_neg_integer()
) -> boolean().
run(Group, Batch, Offset, Index, TimeMs) ->
    case todana_nif:group_apply(Group, Batch, Offset, Index, TimeMs) of
        {more, Next} -> run(Group, Batch, Next, Index, TimeMs);
        {long, Next} -> run_dirty(Group, Batch, Next, Index, TimeMs);
        Ended -> ended(Ended)
    end.

-spec run_dirty(
    group(), binary(), non_neg_integer(), pos_integer(), non_neg_integer()
) -> boolean().
run_dirty(Group, Batch, Offset, Index, TimeMs) ->
    case todana_nif:group_apply_dirty(Group, Batch, Offset, Index, TimeMs) of
        {more, Next} -> run_dirty(Group, Batch, Next, Index, TimeMs);
        Ended -> ended(Ended)
    end.

-spec ended({done, boolean()} | {newer, binary()}) -> boolean().
ended({done, SnapshotDue}) -> SnapshotDue;
ended({newer, Sentence}) -> todana_group_notes:refuse("~ts", [Sentence]).

%% While the log is read after a start, Ra ignores effects, and a handle would
%% keep old records in memory for nothing.
-spec begin_snapshot(group(), pos_integer(), state()) ->
    {state(), term()} | {state(), term(), [term()]}.
begin_snapshot(Group, Index, State) ->
    case get(todana_runs) =:= true andalso
         todana_nif:group_snapshot(Group, Index) of
        ok ->
            Snapshot = {snapshot, Group, Index},
            {State, ok, [{release_cursor, Index, Snapshot}]};
        busy -> {State, busy};
        false -> {State, busy}
    end.

%% Ra calls this in the server's process.
-spec state_enter(atom(), state()) -> [].
state_enter(Role, State) when Role =:= leader; Role =:= follower ->
    Group = group_of(State),
    _ = put(todana_runs, true),
    notify(todana_raft_groups:name(todana_group, Group)),
    notify(todana_raft_groups:name(todana_batcher, Group)),
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
index would never be reached by another member. Other nodes call it.
""".
-spec read_index(state()) -> non_neg_integer().
read_index(State) -> todana_nif:group_applied(group_of(State)).

-spec notify(atom()) -> ok.
notify(Name) ->
    case whereis(Name) of
        undefined ->
            ok;
        Pid ->
            Pid ! todana_leader,
            ok
    end.
