%% Supervises what durable databases need, if there is a data directory.
%%
%%     todana_durable_sup
%%     |- todana_flush_guard   ends what a killed segment writer leaves behind
%%     |- todana_disk      room on the disk, fdatasync each second
%%     |- todana_group     Ra, the gate, the figures
%%     |- todana_batcher   from the clients to Ra
%%     |- todana_clock     the time of the log
%%     `- todana_status    figures, and requests for snapshots
%%
%% The guard is the first, so that it watches Ra also while the others end and
%% are started again, and while the group stops Ra.
%%
%% The group itself is native and survives all of them; so do the two tables
%% made here: what is on its way to Ra, and notes of Ra's processes.
-module(todana_durable_sup).
-moduledoc false.
-behaviour(supervisor).

-export([start_link/1]).
-export([init/1]).

-define(READ_BOUND_MS, 1_000).

-doc """
Opens the data directory, makes the group of the databases, and starts the
processes. The log is read afterwards.
""".
-spec start_link(todana_config:options()) -> supervisor:startlink_ret().
start_link(#{data_dir := DataDir, durability := Durability} = Options) ->
    case todana_data_dir:open(DataDir, Durability) of
        {ok, Opened} ->
            Group = maps:with(
                [
                    durable_value_bytes_max, group_queue_bytes_max,
                    snapshot_log_bytes, read_bound_ms
                ],
                Options
            ),
            ok = todana_nif:group_open(maps:merge(Group, others(Opened))),
            %% If that fails, `todana_group' reports it and tries again.
            ok = todana_ra_reports:limit(),
            _ = todana_ra:start_application(),
            supervisor:start_link({local, ?MODULE}, ?MODULE, Options);
        {error, Sentence} ->
            {error, {todana, Sentence}}
    end.

-spec init(todana_config:options()) ->
    {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(#{durability := Durability} = Options) ->
    ok = todana_group_notes:new(),
    ok = todana_confirmed:new(Options),
    _ = ets:new(todana_batcher, [
        named_table, public, ordered_set, {keypos, todana_batcher:key()}
    ]),
    Reserve = maps:get(disk_reserve, Options, auto),
    Flags = #{strategy => rest_for_one, intensity => 20, period => 10},
    Children = [
        #{
            id => todana_flush_guard,
            start => {todana_flush_guard, start_link, [Durability]}
        },
        #{id => todana_disk, start => {todana_disk, start_link, [Reserve]}},
        #{
            id => todana_group,
            start => {todana_group, start_link, [Durability]},
            %% It stops Ra, which completes the log's last files.
            shutdown => 60_000
        },
        #{id => todana_batcher, start => {todana_batcher, start_link, []}},
        #{id => todana_clock, start => {todana_clock, start_link, []}},
        #{id => todana_status, start => {todana_status, start_link, []}}
    ],
    {ok, {Flags, Children ++ cluster(todana_data_dir:opened(), Options)}}.

%% A member that is alone now may not be so tomorrow: its reads ask the leader,
%% too.
-spec others(todana_data_dir:opened()) -> #{others => 0}.
others(#{cluster := none}) -> #{};
others(#{}) -> #{others => 0}.

%% What only a cluster needs.
-spec cluster(todana_data_dir:opened(), todana_config:options()) ->
    [supervisor:child_spec()].
cluster(#{cluster := none}, _Options) ->
    [];
cluster(#{}, Options) ->
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
