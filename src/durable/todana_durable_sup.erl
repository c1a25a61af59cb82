%% Supervises what durable databases need, if there is a data directory.
%%
%%     todana_durable_sup
%%     |- todana_flush_guard   ends what a killed segment writer leaves behind
%%     |- todana_disk          room on the disk, fdatasync each second
%%     |- todana_group_sup     the processes of a group; one for each group
%%     `- todana_status        figures, and requests for snapshots
%%
%% In a member of a cluster, the processes of the member follow that concern all
%% groups.
%%
%% The guard is the first, so that it watches Ra also while the others end and
%% are started again, and while the group stops Ra.
%%
%% A group itself is native and survives all of them. The tables made here
%% survive the other processes: what is on its way to Ra, notes of Ra's
%% processes, and the cluster's.
-module(todana_durable_sup).
-moduledoc false.
-behaviour(supervisor).

-export([start_link/2]).
-export([init/1]).

-export_type([cluster/0]).

%% What a cluster adds. Its processes run only in a member of one.
-type cluster() :: #{
    %% Makes the tables of its processes, which belong to the caller.
    new := fun((todana_config:options(), todana_data_dir:opened()) -> ok),
    %% Those of the member; the others are `todana_group_sup:parts/0'.
    children_of_node := [supervisor:child_spec()],
    _ => _
}.

-doc """
Opens the data directory, makes the groups of the databases, and starts the
processes. The logs are read afterwards.
""".
-spec start_link(todana_config:options(), cluster()) ->
    supervisor:startlink_ret().
start_link(
    #{data_dir := DataDir, durability := Durability} = Options, Cluster
) ->
    ok = lists:foreach(fun todana_group_sup:await_end/1, names(Cluster)),
    case todana_data_dir_open:open(DataDir, Durability) of
        {ok, Opened} ->
            Limits = maps:with(
                [
                    durable_value_bytes_max, group_queue_bytes_max,
                    snapshot_log_bytes, read_bound_ms
                ],
                Options
            ),
            ok = open(maps:merge(Limits, read_index(Opened))),
            %% If that fails, `todana_group' reports it and tries again.
            ok = todana_ra_reports:limit(),
            _ = todana_ra:start_application(),
            supervisor:start_link(
                {local, ?MODULE}, ?MODULE, {Options, Opened, Cluster}
            );
        {error, Sentence} ->
            {error, {todana, Sentence}}
    end.

%% The supervisor before this one may have been killed.
-spec names(cluster()) -> [atom()].
names(#{children_of_node := Children}) ->
    [todana_raft_groups:name(todana_group_sup, Group)
     || Group <- todana_raft_groups:ids()]
    ++ [todana_flush_guard, todana_disk, todana_status]
    ++ [Name || #{id := Name} <- Children].

-spec open(#{atom() => pos_integer() | auto}) -> ok.
open(Options) ->
    lists:foreach(
        fun(Group) -> ok = todana_nif:group_open(Group, Options) end,
        todana_raft_groups:ids()
    ).

-spec init({todana_config:options(), todana_data_dir:opened(), cluster()}) ->
    {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init({#{durability := Durability} = Options, Opened, Cluster}) ->
    #{new := New} = Cluster,
    ok = todana_group_notes:new(),
    ok = New(Options, Opened),
    ok = lists:foreach(fun todana_batcher:new/1, todana_raft_groups:ids()),
    Reserve = maps:get(disk_reserve, Options, auto),
    Flags = #{
        strategy => rest_for_one, intensity => 20, period => 10,
        %% See `todana_group_sup:child/2'.
        auto_shutdown => any_significant
    },
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
        }
    ] ++ [
        todana_group_sup:child(Group, Cluster)
     || Group <- todana_raft_groups:ids()
    ] ++ [
        #{id => todana_status, start => {todana_status, start_link, []}}
    ],
    {ok, {Flags, Children ++ others(Opened, Cluster)}}.

%% A member that is alone now may not be so tomorrow: its reads ask the leader,
%% too.
-spec read_index(todana_data_dir:opened()) -> #{others => 0}.
read_index(#{cluster := none}) -> #{};
read_index(#{}) -> #{others => 0}.

%% What only a cluster needs.
-spec others(todana_data_dir:opened(), cluster()) -> [supervisor:child_spec()].
others(#{cluster := none}, _Cluster) -> [];
others(#{}, #{children_of_node := Children}) -> Children.
