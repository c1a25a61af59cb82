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
%% The processes of the cluster follow, in a member of one.
%%
%% The guard is the first, so that it watches Ra also while the others end and
%% are started again, and while the group stops Ra.
%%
%% The group itself is native and survives all of them; so do the tables made
%% here: what is on its way to Ra, notes of Ra's processes, and the cluster's.
-module(todana_durable_sup).
-moduledoc false.
-behaviour(supervisor).

-export([start_link/2]).
-export([init/1]).

-export_type([cluster/0]).

%% What a cluster adds. Its processes run only in a member of one.
-type cluster() :: #{
    %% Makes the tables of its processes, which belong to the caller.
    new := fun((todana_config:options()) -> ok),
    %% Whether the server may start, and go on: `todana_ra:guard/0'.
    check := fun((todana_data_dir:opened()) -> ok | {error, term()}),
    stays := fun((todana_data_dir:opened()) -> ok | {error, term()}),
    %% Those of these members that vote.
    voters := todana_clock:voters(),
    %% The log of this leader grows, after a pause.
    busy := fun((Leader :: node()) -> ok),
    children := [supervisor:child_spec()]
}.

-doc """
Opens the data directory, makes the group of the databases, and starts the
processes. The log is read afterwards.
""".
-spec start_link(todana_config:options(), cluster()) ->
    supervisor:startlink_ret().
start_link(
    #{data_dir := DataDir, durability := Durability} = Options, Cluster
) ->
    case todana_data_dir_open:open(DataDir, Durability) of
        {ok, Opened} ->
            Group = maps:with(
                [
                    durable_value_bytes_max, group_queue_bytes_max,
                    snapshot_log_bytes, read_bound_ms
                ],
                Options
            ),
            ok = todana_nif:group_open(maps:merge(Group, read_index(Opened))),
            %% If that fails, `todana_group' reports it and tries again.
            ok = todana_ra_reports:limit(),
            _ = todana_ra:start_application(),
            supervisor:start_link(
                {local, ?MODULE}, ?MODULE, {Options, Cluster}
            );
        {error, Sentence} ->
            {error, {todana, Sentence}}
    end.

-spec init({todana_config:options(), cluster()}) ->
    {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init({#{durability := Durability} = Options, Cluster}) ->
    #{new := New, voters := Voters, busy := Busy} = Cluster,
    ok = todana_group_notes:new(),
    ok = New(Options),
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
        #{
            id => todana_disk,
            start => {todana_disk, start_link, [
                Reserve, fun todana_group:room/1
            ]}
        },
        #{
            id => todana_group,
            start => {todana_group, start_link, [
                Durability, maps:with([check, stays], Cluster)
            ]},
            %% It stops Ra, which completes the log's last files.
            shutdown => 60_000
        },
        #{
            id => todana_batcher,
            start => {todana_batcher, start_link, [[
                fun todana_group:busy/1, Busy
            ]]}
        },
        #{id => todana_clock, start => {todana_clock, start_link, [Voters]}},
        #{id => todana_status, start => {todana_status, start_link, []}}
    ],
    {ok, {Flags, Children ++ others(todana_data_dir:opened(), Cluster)}}.

%% A member that is alone now may not be so tomorrow: its reads ask the leader,
%% too.
-spec read_index(todana_data_dir:opened()) -> #{others => 0}.
read_index(#{cluster := none}) -> #{};
read_index(#{}) -> #{others => 0}.

%% What only a cluster needs.
-spec others(todana_data_dir:opened(), cluster()) -> [supervisor:child_spec()].
others(#{cluster := none}, _Cluster) -> [];
others(#{}, #{children := Children}) -> Children.
