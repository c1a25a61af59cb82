%% Supervises the processes of the application. None of them holds a record: if
%% one dies, only its own service pauses.
%%
%%     todana_sup
%%     |- todana_beat           wakes those that look once a second
%%     |- todana_events         reports events to the user's handler
%%     |- todana_tables         opens and closes tables
%%     |- todana_sweeper        frees expired records
%%     |- todana_flight_1..8    choose the process that computes a missing key
%%     |- todana_name_watcher_1..8  free the names of processes that end
%%     |- todana_durable_sup    the log of durable databases, with `data_dir'
%%     |- todana_guest, todana_away_events, todana_spread, todana_interest
%%     |                        the link to a member, with `no_replica'
%%     |- todana_session_leader, todana_name_cache, todana_scope_session,
%%     |  todana_scope_monitor, todana_claim_watcher_1..8
%%     |                        names and groups of cluster scopes, with
%%     |                        `data_dir'
%%     |- todana_questions      answers RESP clients about names, with a server
%%     |- todana_listener       the server, if an address is configured
%%     |- todana_http           the port for monitors, with `listen_http'
%%     |- todana_log_events     logs what the server counts
%%     `- todana_control        the socket for `bin/todana'
%%
%% Flat on purpose: if a supervisor below this one were killed and restarted,
%% its named children might still be terminating.
-module(todana_sup).
-moduledoc false.
-behaviour(supervisor).

-export([start_link/1]).
-export([init/1]).

%% The processes that look at something once a second: of the node, and of each
%% group.
-define(WOKEN, [
    todana_sweeper, todana_log_events, todana_disk, todana_status,
    todana_membership, todana_topology, todana_session_leader,
    todana_scope_session, todana_interest
]).
-define(WOKEN_OF_GROUP, [
    todana_group, todana_batcher, todana_clock, todana_read_index,
    todana_watchdog, todana_copies, todana_agreement
]).

-doc "Starts the processes that these options ask for.".
-spec start_link(todana_config:options()) -> supervisor:startlink_ret().
start_link(Options) ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, Options).

-spec init(todana_config:options()) ->
    {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init(Options) ->
    Flags = #{strategy => one_for_one, intensity => 20, period => 10},
    #{sweep_interval_ms := IntervalMs} = Options,
    Children = [
        #{id => todana_beat, start => {todana_beat, start_link, [woken()]}},
        #{
            id => todana_events,
            start => {todana_events, start_link, [fun todana_listener:info/0]}
        },
        #{id => todana_tables, start => {todana_tables, start_link, []}},
        #{
            id => todana_sweeper,
            start => {todana_sweeper, start_link, [IntervalMs]}
        }
        | lists:append([
            flights(), name_watchers(), durable(Options), guest(Options),
            cluster_names(Options), listener(Options), http(Options),
            log_events(), control(Options)
        ])
    ],
    {ok, {Flags, Children}}.

-spec woken() -> [atom()].
woken() ->
    ?WOKEN ++ [
        todana_raft_groups:name(Name, Group)
     || Group <- todana_raft_groups:ids(), Name <- ?WOKEN_OF_GROUP
    ].

-spec flights() -> [supervisor:child_spec()].
flights() ->
    [
        #{id => Name, start => {todana_flight, start_link, [Name]}}
     || Name <- todana_flight:names()
    ].

-spec name_watchers() -> [supervisor:child_spec()].
name_watchers() ->
    [
        #{id => Name, start => {todana_name_watcher, start_link, [Number]}}
     || {Number, Name} <- lists:enumerate(todana_name_watcher:watchers())
    ].

%% Before the listener, whose server looks for the log when it starts.
-spec durable(todana_config:options()) -> [supervisor:child_spec()].
durable(#{data_dir := off}) ->
    [];
durable(Options) ->
    [
        #{
            id => todana_durable_sup,
            start => {todana_durable_sup, start_link, [
                Options, todana_cluster_parts:all(Options)
            ]},
            type => supervisor
        }
    ].

%% A node without a log of its own has its link to those that have it.
-spec guest(todana_config:options()) -> [supervisor:child_spec()].
guest(#{no_replica := yes}) ->
    ok = todana_away_events:new(),
    [
        #{id => Name, start => {Name, start_link, []}}
     || Name <- [
            todana_guest, todana_away_events, todana_spread, todana_interest
        ]
    ];
guest(_Options) ->
    [].

%% Behind the log, which they write.
-spec cluster_names(todana_config:options()) -> [supervisor:child_spec()].
cluster_names(#{data_dir := off, no_replica := no}) ->
    [];
cluster_names(#{no_replica := NoReplica}) ->
    [
        #{id => Name, start => {Name, start_link, []}}
     || Name <- [
            todana_session_leader, todana_name_cache, todana_scope_session,
            todana_scope_monitor
        ],
        %% Only a member leads.
        Name =/= todana_session_leader orelse NoReplica =:= no
    ] ++
    [
        #{id => Name, start => {todana_claim_watcher, start_link, [Number]}}
     || {Number, Name} <- lists:enumerate(todana_claim_watcher:watchers())
    ].

%% The port for monitors reads the figures of the server, and its password.
-spec listener(todana_config:options()) -> [supervisor:child_spec()].
listener(#{listen_http := Http} = Options) ->
    case todana_settings:of_options(Options) of
        #{listeners := []} when Http =:= [] ->
            [];
        Settings ->
            ok = todana_listener:configure(Settings),
            [
                #{
                    id => todana_questions,
                    start => {todana_questions, start_link, []}
                },
                #{
                    id => todana_listener,
                    start => {todana_listener, start_link, []},
                    %% Joining the threads takes only a moment.
                    shutdown => 10_000
                }
            ]
    end.

-spec http(todana_config:options()) -> [supervisor:child_spec()].
http(#{listen_http := []}) ->
    [];
http(#{listen_http := Addresses}) ->
    [
        #{
            id => todana_http,
            start => {todana_http, start_link, [Addresses]}
        }
    ].

-spec log_events() -> [supervisor:child_spec()].
log_events() ->
    [
        #{
            id => todana_log_events,
            start => {todana_log_events, start_link, []}
        }
    ].

%% In somebody else's release only a node with a data directory has it, or one
%% with a path for it.
-spec control(todana_config:options()) -> [supervisor:child_spec()].
control(#{data_dir := DataDir, control_socket := Socket} = Options) ->
    IsWanted = todana_foreground:is_starting() orelse DataDir =/= off orelse
        Socket =/= auto,
    case IsWanted andalso todana_control_path:of_options(Options) of
        None when None =:= false; None =:= none ->
            [];
        Path ->
            [
                #{
                    id => todana_control,
                    start => {todana_control, start_link, [Path]}
                }
            ]
    end.
