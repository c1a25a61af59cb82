%% The processes of the application. None of them holds a record: whichever
%% dies, only its own service pauses.
%%
%%     todana_sup
%%     |- todana_tables         opens and closes tables
%%     |- todana_sweeper        frees expired records
%%     |- todana_flight_sup     who computes a missing key (eight processes)
%%     `- todana_listener       the server, if something is to be listened on
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
    Flags = #{strategy => one_for_one, intensity => 10, period => 10},
    #{sweep_interval_ms := IntervalMs} = Options,
    Children = [
        #{id => todana_tables, start => {todana_tables, start_link, []}},
        #{
            id => todana_sweeper,
            start => {todana_sweeper, start_link, [IntervalMs]}
        },
        #{
            id => todana_flight_sup,
            start => {todana_flight_sup, start_link, []},
            type => supervisor
        }
        | listener(Options)
    ],
    {ok, {Flags, Children}}.

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
                    %% Joining the threads takes a moment at most.
                    shutdown => 10_000
                }
            ]
    end.
