%% What a cluster adds to the log of a node: the processes of a member, and what
%% those of the log ask them.
-module(todana_cluster_parts).
-moduledoc false.

-export([all/1]).

-define(READ_BOUND_MS, 1_000).

-spec all(todana_config:options()) -> todana_durable_sup:cluster().
all(Options) ->
    #{
        new => fun todana_confirmed:new/1,
        check => fun todana_confirmed:check/1,
        stays => fun todana_confirmed:stays/1,
        voters => fun todana_cluster_map:voters/1,
        busy => fun todana_copies:busy/1,
        children => children(Options)
    }.

-spec children(todana_config:options()) -> [supervisor:child_spec()].
children(Options) ->
    BoundMs = maps:get(read_bound_ms, Options, ?READ_BOUND_MS),
    [
        #{
            id => todana_read_index,
            start => {todana_read_index, start_link, [BoundMs]}
        },
        #{id => todana_watchdog, start => {todana_watchdog, start_link, []}},
        #{id => todana_copies, start => {todana_copies, start_link, []}},
        #{id => todana_verify, start => {todana_verify, start_link, []}},
        #{id => todana_agreement, start => {todana_agreement, start_link, []}},
        #{id => todana_spread, start => {todana_spread, start_link, []}}
     | [
            #{id => Name, start => {Name, start_link, [Options]}}
         || Name <- [todana_membership, todana_topology]
        ]
    ].
