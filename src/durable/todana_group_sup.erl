%% Supervises the processes of one Raft group.
%%
%%     todana_group_sup
%%     |- todana_group     Ra, the gate, the figures
%%     |- todana_batcher   from the clients to Ra
%%     `- todana_clock     the time of the log
%%
%% In a member of a cluster, those that it adds follow: `todana_cluster_parts'.
%%
%% If one of them ends again and again, this supervisor ends, and with it
%% `todana_durable_sup', whose supervisor starts all of it again.
-module(todana_group_sup).
-moduledoc false.
-behaviour(supervisor).

-export([start_link/2, child/2, await_end/1]).
-export([init/1]).

-export_type([parts/0]).

%% How long the processes of a group may take to stop.
-define(STOP_TIMEOUT_MS, 60_000).

%% What a cluster adds to a group.
-type parts() :: #{
    %% Whether the server may start, and go on: `todana_ra:guard/0'.
    check := fun((todana_data_dir:opened()) -> ok | {error, term()}),
    stays := fun((todana_data_dir:opened()) -> ok | {error, term()}),
    %% Those of these members that vote.
    voters := todana_clock:voters(),
    %% The log of this leader grows, after a pause.
    busy := fun((todana_raft_groups:id(), Leader :: node()) -> ok),
    %% The processes that only a member has.
    children_of_group := fun(
        (todana_raft_groups:id()) -> [supervisor:child_spec()]
    ),
    _ => _
}.

-doc "The child of `todana_durable_sup` for a group.".
-spec child(todana_raft_groups:id(), parts()) -> supervisor:child_spec().
child(Group, Parts) ->
    #{
        id => {?MODULE, Group},
        start => {?MODULE, start_link, [Group, Parts]},
        %% If it ends because a process has ended too often, the supervisor
        %% above ends, too, as if it had that process itself.
        restart => transient,
        significant => true,
        type => supervisor
    }.

-doc """
Returns when there is no process of this name, or after a while. If a supervisor
was killed, its processes still stop, and others cannot have their names
meanwhile.
""".
-spec await_end(Name :: atom()) -> ok.
await_end(Name) ->
    case whereis(Name) of
        undefined ->
            ok;
        Pid ->
            Monitor = monitor(process, Pid),
            receive
                {'DOWN', Monitor, process, Pid, _} -> ok
            after ?STOP_TIMEOUT_MS ->
                true = demonitor(Monitor, [flush]),
                ok
            end
    end.

-doc "Starts the processes of a group, which is open.".
-spec start_link(todana_raft_groups:id(), parts()) ->
    supervisor:startlink_ret().
start_link(Group, Parts) ->
    Name = todana_raft_groups:name(?MODULE, Group),
    supervisor:start_link({local, Name}, ?MODULE, {Group, Parts}).

-spec init({todana_raft_groups:id(), parts()}) ->
    {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init({Group, Parts}) ->
    #{durability := Durability} = Opened = todana_raft_groups:opened(Group),
    #{voters := Voters, busy := Busy} = Parts,
    Flags = #{strategy => rest_for_one, intensity => 20, period => 10},
    Children = [
        #{
            id => todana_group,
            start => {todana_group, start_link, [
                Group, Durability, maps:with([check, stays], Parts)
            ]},
            %% It stops Ra, which completes the log's last files.
            shutdown => ?STOP_TIMEOUT_MS
        },
        #{
            id => todana_batcher,
            start => {todana_batcher, start_link, [
                Group, [fun todana_group:busy/2, Busy]
            ]}
        },
        #{
            id => todana_clock,
            start => {todana_clock, start_link, [Group, Voters]}
        }
     | of_cluster(Group, Opened, Parts)
    ],
    %% The supervisor before this one may have been killed.
    _ = [
        await_end(todana_raft_groups:name(Process, Group))
     || #{id := Process} <- Children
    ],
    {ok, {Flags, Children}}.

-spec of_cluster(todana_raft_groups:id(), todana_data_dir:opened(), parts()) ->
    [supervisor:child_spec()].
of_cluster(_Group, #{cluster := none}, _Parts) -> [];
of_cluster(Group, #{}, #{children_of_group := Children}) -> Children(Group).
