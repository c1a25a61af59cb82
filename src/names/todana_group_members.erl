%% Members of groups in cluster scopes: a record for each time that a process
%% has joined.
-module(todana_group_members).
-moduledoc false.

-export([join/3, join_again/2, leave/3]).
-export([members/2, local_members/2, groups/1]).
%% Where the records are
-export([joined/2]).

-type shared() :: todana_name_scopes:shared().
-type failure() :: todana_scope_records:failure().
-type joined() :: {todana_scope_records:key(), todana_scope_records:ref()}.

%% How long a look-up waits for a leader.
-define(LOOK_UP_MS, 1_000).
%% Of a group with more members no copy is made.
-define(COPIED_MAX, 10_000).

-doc """
Adds processes of this node to a group, all in one step. It is refused if they
could not leave in one.
""".
-spec join(shared(), Group :: term(), [pid(), ...]) -> ok | failure().
join(#{session := Session} = Shared, Group, Pids) ->
    Claims = [
        todana_claims:new(
            Shared,
            todana_scope_records:member_key(
                Group, Session, Pid, erlang:unique_integer([positive])
            ),
            Pid, join_again
        )
     || Pid <- Pids
    ],
    case todana_scope_records:fits_step([Key || #{key := Key} <- Claims]) of
        true -> submit(Shared, Group, Claims);
        false -> {error, too_large}
    end.

-spec submit(
    shared(), Group :: term(), [todana_claim_watcher:claim(), ...]
) -> ok | failure().
submit(#{table := Table} = Shared, Group, Claims) ->
    Written = todana_claims:submit(Shared, Claims, join),
    ok = todana_name_cache:forget({groups, Table}, Group),
    case Written of
        {written, _} -> ok;
        {error, _} = Failure -> Failure
    end.

-doc "Adds the process of a claim whose session has ended, in another one.".
-spec join_again(shared(), todana_claim_watcher:claim()) -> ok | failure().
join_again(Shared, #{key := Key, pid := Pid}) ->
    {Group, Pid} = todana_scope_records:member_of(Key),
    join(Shared, Group, [Pid]).

-doc """
Takes processes of this node out of a group in one step: each as often as it is
in the list, or has joined.
""".
-spec leave(shared(), Group :: term(), [pid(), ...]) ->
    ok | not_joined | failure().
leave(#{table := Table, session := Session} = Shared, Group, Pids) ->
    Times = maps:groups_from_list(fun(Pid) -> Pid end, Pids),
    Wanted = [
        {todana_scope_records:member_prefix(Group, Session, Pid), length(Same)}
     || Pid := Same <- Times
    ],
    case todana_scope_records:at(Table, ?MODULE, joined, [Wanted]) of
        [] ->
            not_joined;
        {error, _} = Failure ->
            Failure;
        Joined ->
            Removed = todana_scope_records:remove(Table, Joined),
            ok = todana_name_cache:forget({groups, Table}, Group),
            case Removed of
                ok -> lists:foreach(fun release/1, Joined);
                %% A process has ended at this moment.
                conflict -> leave(Shared, Group, Pids);
                Failure -> Failure
            end
    end.

-spec release(joined()) -> ok.
release({Key, Ref}) ->
    {_Group, Pid} = todana_scope_records:member_of(Key),
    todana_claim_watcher:release(Pid, Ref).

-doc """
Registrations of members whose keys begin with these bytes, up to a number of
each.
""".
-spec joined(atom(), [{binary(), pos_integer()}]) -> [joined()] | failure().
joined(Table, Wanted) ->
    Found = [some_joined(Table, Prefix, Most) || {Prefix, Most} <- Wanted],
    case lists:keyfind(error, 1, Found) of
        false -> lists:append(Found);
        Failure -> Failure
    end.

%% This node's records have what was written here.
-spec some_joined(atom(), binary(), pos_integer()) -> [joined()] | failure().
some_joined(Table, Prefix, Most) ->
    Add = fun(Key, Keys) ->
        case todana_scope_records:read(Table, Key) of
            {ok, {_Pid, Ref}, _} -> [{Key, Ref} | Keys];
            _ -> Keys
        end
    end,
    case todana_scope_records:fold_keys(Add, [], Table, Prefix) of
        {error, _} = Failure -> Failure;
        Joined -> lists:sublist(Joined, Most)
    end.

-doc "The members of a group, each as often as it has joined.".
-spec members(shared(), Group :: term()) -> [pid()] | failure().
members(#{table := Table}, Group) ->
    case todana_name_cache:find({groups, Table}, Group) of
        {ok, Pids} -> Pids;
        {none, Place} -> read_members(Table, Group, Place)
    end.

-spec read_members(atom(), term(), todana_name_cache:place()) ->
    [pid()] | failure().
read_members(Table, Group, Place) ->
    Prefix = todana_scope_records:members_prefix({group, Group}),
    maybe
        Pids = [_ | _] ?= todana_scope_records:find_keys(
            fun add_pid/2, [], Table, Prefix, ?LOOK_UP_MS
        ),
        _ = length(Pids) =< ?COPIED_MAX andalso
            todana_name_cache:keep(Place, Group, Pids),
        Pids
    end.

-doc "Those of this node.".
-spec local_members(shared(), Group :: term()) -> [pid()] | failure().
local_members(#{table := Table, session := Session}, Group) ->
    Prefix = todana_scope_records:members_prefix({group, Group, Session}),
    todana_scope_records:fold_keys(fun add_pid/2, [], Table, Prefix).

-spec add_pid(todana_scope_records:key(), [pid()]) -> [pid()].
add_pid(Key, Pids) ->
    {_Group, Pid} = todana_scope_records:member_of(Key),
    [Pid | Pids].

-doc "The groups that have members.".
-spec groups(shared()) -> [Group :: term()] | failure().
groups(#{table := Table}) ->
    todana_scope_records:groups(Table, ?LOOK_UP_MS).
