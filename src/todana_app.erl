%% The application: reads its environment, starts what it asks for.
%%
%% Without options it opens no port and touches nothing outside itself.
-module(todana_app).
-moduledoc false.
-behaviour(application).

-export([start/2, stop/1]).

-spec start(application:start_type(), term()) ->
    {ok, pid()} | {error, term()}.
start(_Type, _Arguments) ->
    case todana_config:embedded() of
        {ok, Options} ->
            ok = limit_memory(Options),
            todana_sup:start_link(Options);
        {error, Reason} ->
            {error, Reason}
    end.

%% Set in any case: the databases outlive the application, and so would the
%% limit of an earlier start.
-spec limit_memory(todana_config:options()) -> ok.
limit_memory(#{memory_limit := off, memory_policy := Policy}) ->
    todana_nif:set_memory_limit(nil, Policy);
limit_memory(#{memory_limit := Bytes, memory_policy := Policy}) ->
    todana_nif:set_memory_limit(Bytes, Policy).

-spec stop(term()) -> ok.
stop(_State) ->
    ok.
