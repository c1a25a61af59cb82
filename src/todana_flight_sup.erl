%% The coordinators of `todana:fetch'.
-module(todana_flight_sup).
-moduledoc false.
-behaviour(supervisor).

-export([start_link/0]).
-export([init/1]).

-doc "Starts them.".
-spec start_link() -> supervisor:startlink_ret().
start_link() ->
    supervisor:start_link({local, ?MODULE}, ?MODULE, []).

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    Flags = #{strategy => one_for_one, intensity => 20, period => 10},
    Children = [
        #{id => Name, start => {todana_flight, start_link, [Name]}}
     || Name <- todana_flight:names()
    ],
    {ok, {Flags, Children}}.
