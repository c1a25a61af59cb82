%% Supervises the processes of the application. None of them holds a record: if
%% one dies, only its own service pauses.
%%
%%     todana_sup
%%     |- todana_events         reports events to the user's handler
%%     |- todana_tables         opens and closes tables
%%     |- todana_sweeper        frees expired records
%%     |- todana_flight_1..8    choose the process that computes a missing key
%%     |- todana_durable_sup    the log of durable databases, with `data_dir'
%%     `- todana_listener       the server, if an address is configured
%%
%% Flat on purpose: if a supervisor below this one were killed and restarted,
%% its named children might still be terminating.
-module(todana_sup).
-moduledoc false.
-behaviour(supervisor).

-export([start_link/1]).
-export([init/1]).

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
        #{id => todana_events, start => {todana_events, start_link, []}},
        #{id => todana_tables, start => {todana_tables, start_link, []}},
        #{
            id => todana_sweeper,
            start => {todana_sweeper, start_link, [IntervalMs]}
        }
        | flights() ++ durable(Options) ++ listener(Options)
    ],
    {ok, {Flags, Children}}.

-spec flights() -> [supervisor:child_spec()].
flights() ->
    [
        #{id => Name, start => {todana_flight, start_link, [Name]}}
     || Name <- todana_flight:names()
    ].

%% Before the listener, whose server looks for the log when it starts.
-spec durable(todana_config:options()) -> [supervisor:child_spec()].
durable(#{data_dir := off}) ->
    [];
durable(Options) ->
    [
        #{
            id => todana_durable_sup,
            start => {todana_durable_sup, start_link, [Options]},
            type => supervisor
        }
    ].

-spec listener(todana_config:options()) -> [supervisor:child_spec()].
listener(Options) ->
    case todana_config:settings(Options) of
        #{listeners := []} ->
            [];
        Settings ->
            [
                #{
                    id => todana_listener,
                    start => {todana_listener, start_link, [Settings]},
                    %% Joining the threads takes only a moment.
                    shutdown => 10_000
                }
            ]
    end.
