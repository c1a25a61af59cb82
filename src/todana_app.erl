%% The application: reads its environment and starts the processes.
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
            case set_databases(Options) of
                ok ->
                    ok = limit_memory(Options),
                    start(Options);
                {error, Sentence} ->
                    {error, {todana, Sentence}}
            end;
        {error, Reason} ->
            {error, Reason}
    end.

-spec start(todana_config:options()) -> {ok, pid()} | {error, term()}.
start(#{databases := Databases} = Options) ->
    case todana_sup:start_link(Options) of
        {ok, Supervisor} ->
            ok = todana_kyoto_database:log_remarks(Databases),
            {ok, Supervisor};
        Other ->
            Other
    end.

%% The databases outlive the application. Their type and order cannot change
%% while they contain records.
-spec set_databases(todana_config:options()) -> ok | {error, string()}.
set_databases(#{databases := Databases}) ->
    Natives = [todana_kyoto_database:native(D) || D <- Databases],
    case todana_nif:set_databases(Natives, nil) of
        ok -> ok;
        {error, {Why, Number}} -> {error, kept(Why, Number)}
    end.

-spec kept(has_records | in_use, 0..15) -> string().
kept(has_records, Number) ->
    lists:concat([
        "databases: db", Number, " has records, and its order cannot change "
        "under them: restart the node"
    ]);
kept(in_use, Number) ->
    lists:concat([
        "databases: db", Number, " was opened with another order in this "
        "node: restart the node"
    ]).

%% Always sets the limit: the databases outlive the application, and so would
%% the limit of an earlier start.
-spec limit_memory(todana_config:options()) -> ok.
limit_memory(#{memory_limit := off, memory_policy := Policy}) ->
    todana_nif:set_memory_limit(nil, Policy);
limit_memory(#{memory_limit := Bytes, memory_policy := Policy}) ->
    todana_nif:set_memory_limit(Bytes, Policy).

-spec stop(term()) -> ok.
stop(_State) ->
    todana_pid_file:remove().
