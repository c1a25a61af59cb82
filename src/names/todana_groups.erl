-module(todana_groups).
-moduledoc """
Groups of processes, whose members any node of the cluster knows.

    ok = todana_names:start_scope(services, cluster).
    ok = todana_groups:join(services, {room, 9}, self()).
    [Pid ! hello || Pid <- todana_groups:get_members(services, {room, 9})].

Any term is a group. Groups are in cluster scopes, as names are
(`m:todana_names`). The functions are those of `pg`. Other than there, a process
that has joined is a member at every node at once, or not at all: each join is a
write of the cluster, and can be refused.

A process that ends leaves its groups, and so do those of a node that the
cluster does not hear for ten seconds. If it comes back, they join again.
""".

-export([join/3, leave/3]).
-export([get_members/2, get_local_members/2, which_groups/1]).
-export([monitor/2, monitor_scope/1, demonitor/2]).

-export_type([group/0]).

-doc "Any term.".
-type group() :: term().

%% Each has two records, which a leave checks and removes.
-define(JOIN_MAX, 2_000).

-doc """
Adds one process of this node to a group, or several, up to 2,000, all in one
step. If the group's term has more than 2,000 bytes, these are fewer: 4 MiB
divided by its length, about. A process can join several times, and is then a
member as often.
""".
-spec join(todana_names:scope(), group(), pid() | [pid()]) ->
    ok | todana_names:failure().
join(Scope, Group, Pids) ->
    Arguments = [Scope, Group, Pids],
    Shared = shared(join, Arguments, Scope),
    case processes(join, Arguments, Pids) of
        [] -> ok;
        Local when length(Local) > ?JOIN_MAX -> {error, too_large};
        Local -> todana_group_members:join(Shared, Group, Local)
    end.

-doc """
Takes one process of this node out of a group, or several, up to 2,000, all in
one step: each once, or as often as it is in the list. `not_joined` if none of
them is a member.
""".
-spec leave(todana_names:scope(), group(), pid() | [pid()]) ->
    ok | not_joined | todana_names:failure().
leave(Scope, Group, Pids) ->
    Arguments = [Scope, Group, Pids],
    _ = shared(leave, Arguments, Scope),
    Local = processes(leave, Arguments, Pids),
    if
        Local =:= [] ->
            not_joined;
        length(Local) > ?JOIN_MAX ->
            {error, too_large};
        true ->
            %% Members may be about to join again.
            todana_scope_session:when_settled(Scope, not_joined, fun(Now) ->
                todana_group_members:leave(Now, Group, Local)
            end)
    end.

-doc """
The members of a group, in no order, each as often as it has joined. The answer
contains all that any node had acknowledged a second before, or two if the group
was read here before; if this node cannot find that out, `{error, unavailable}`.
""".
-spec get_members(todana_names:scope(), group()) ->
    [pid()] | todana_names:failure().
get_members(Scope, Group) ->
    Shared = shared(get_members, [Scope, Group], Scope),
    todana_group_members:members(Shared, Group).

-doc "The members of a group that are processes of this node.".
-spec get_local_members(todana_names:scope(), group()) ->
    [pid()] | todana_names:failure().
get_local_members(Scope, Group) ->
    Shared = shared(get_local_members, [Scope, Group], Scope),
    todana_group_members:local_members(Shared, Group).

-doc "The groups that have members, in no order.".
-spec which_groups(todana_names:scope()) ->
    [group()] | todana_names:failure().
which_groups(Scope) ->
    Shared = shared(which_groups, [Scope], Scope),
    todana_group_members:groups(Shared).

-doc """
The members of a group, and a reference. The caller gets `{Ref, join, Group,
Pids}` and `{Ref, leave, Group, Pids}` for each change that these members do not
contain, in the order of the changes. If the application ends, it gets `{'DOWN',
Ref, process, _, _}`, and nothing more.
""".
-spec monitor(todana_names:scope(), group()) ->
    {reference(), [pid()]} | todana_names:failure().
monitor(Scope, Group) ->
    Shared = shared(monitor, [Scope, Group], Scope),
    case todana_scope_monitor:watch(Shared, {group, Group}) of
        {ok, Ref, Members} -> {Ref, [Pid || {_, Pid} <- Members]};
        Failure -> Failure
    end.

-doc "The same for all groups of the scope, also those that come later.".
-spec monitor_scope(todana_names:scope()) ->
    {reference(), #{group() => [pid()]}} | todana_names:failure().
monitor_scope(Scope) ->
    Shared = shared(monitor_scope, [Scope], Scope),
    case todana_scope_monitor:watch(Shared, all) of
        {ok, Ref, Members} ->
            {Ref, maps:groups_from_list(
                fun({Group, _}) -> Group end, fun({_, Pid}) -> Pid end, Members
            )};
        Failure ->
            Failure
    end.

-doc """
Ends a monitor: no message of it comes any more, or is left. `false` if there is
none with this reference in the scope.
""".
-spec demonitor(todana_names:scope(), reference()) -> ok | false.
demonitor(Scope, Ref) when is_reference(Ref) ->
    Shared = shared(demonitor, [Scope, Ref], Scope),
    todana_scope_monitor:unwatch(Shared, Ref);
demonitor(Scope, Ref) ->
    misuse(demonitor, [Scope, Ref], 2, not_a_reference).

-spec shared(atom(), [term()], term()) -> todana_name_scopes:shared().
shared(Function, Arguments, Scope) ->
    case todana_name_scopes:table(Scope) of
        #{} = Shared ->
            Shared;
        none ->
            Cause =
                case whereis(todana_sup) of
                    undefined -> not_running;
                    _ -> no_such_scope
                end,
            misuse(Function, Arguments, 1, Cause);
        _Local ->
            misuse(Function, Arguments, 1, local_scope_without_groups)
    end.

-spec processes(atom(), [term()], term()) -> [pid()].
processes(Function, Arguments, Pid) when is_pid(Pid) ->
    processes(Function, Arguments, [Pid]);
processes(Function, Arguments, Pids) ->
    case are_local(Pids) of
        true -> Pids;
        false -> misuse(Function, Arguments, 3, not_local_processes)
    end.

-spec are_local(term()) -> boolean().
are_local([]) -> true;
are_local([Pid | Pids]) when is_pid(Pid), node(Pid) =:= node() ->
    are_local(Pids);
are_local(_Other) -> false.

-spec misuse(atom(), [term()], pos_integer(), term()) -> no_return().
misuse(Function, Arguments, Number, Cause) ->
    todana_error:raise(?MODULE, Function, Arguments, {badarg, Number, Cause}).
