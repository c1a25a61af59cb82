%% What a cluster adds to the log of a node: the processes of a member, and what
%% those of the log ask them.
-module(todana_cluster_parts).
-moduledoc false.

-export([all/1]).

-define(READ_BOUND_MS, 1_000).

-spec all(todana_config:options()) -> todana_durable_sup:cluster().
all(Options) ->
    BoundMs = maps:get(read_bound_ms, Options, ?READ_BOUND_MS),
    #{
        new => fun todana_confirmed:new/2,
        check => fun todana_confirmed:check/1,
        stays => fun todana_confirmed:stays/1,
        voters => fun todana_cluster_map:voters/2,
        busy => fun todana_copies:busy/2,
        children_of_group => fun(Group) -> of_group(Group, BoundMs) end,
        children_of_node => of_node(Options)
    }.

-spec of_group(todana_raft_groups:id(), pos_integer()) ->
    [supervisor:child_spec()].
of_group(Group, BoundMs) ->
    [
        #{
            id => todana_read_index,
            start => {todana_read_index, start_link, [Group, BoundMs]}
        }
     | [
            #{id => Name, start => {Name, start_link, [Group]}}
         || Name <- [
                todana_watchdog, todana_copies, todana_verify, todana_agreement
            ]
        ]
    ].

-spec of_node(todana_config:options()) -> [supervisor:child_spec()].
of_node(Options) ->
    [
        #{
            id => todana_seats,
            start => {todana_seats, start_link, [
                {todana_seat, start_link, []}
            ]},
            type => supervisor
        },
        child(todana_spread, []),
        child(todana_membership, [Options]),
        child(todana_topology, [Options]),
        child(todana_interest, []),
        child(todana_heartbeats, [])
    ].

-spec child(module(), [term()]) -> supervisor:child_spec().
child(Name, Arguments) ->
    #{id => Name, start => {Name, start_link, Arguments}}.
