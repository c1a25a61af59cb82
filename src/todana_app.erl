%% The application: reads its environment and starts the processes.
%%
%% Without options it opens no port and touches nothing outside itself.
-module(todana_app).
-moduledoc false.
-behaviour(application).

-export([start/2, prep_stop/1, stop/1, sentence/1]).

-spec start(application:start_type(), term()) ->
    {ok, pid()} | {error, term()}.
start(_Type, _Arguments) ->
    maybe
        ok ?= todana_release:engine(),
        {ok, Options} ?= todana_config:embedded(),
        ok ?= todana_release:check(Options),
        {ok, Durable} ?= durable(Options),
        ok ?= set_databases(Options, Durable),
        ok = limit_memory(Options),
        ok = todana_durable:configure(Options),
        start(Options)
    else
        {error, Sentence} when is_list(Sentence) ->
            ok = todana_data_dir:close(),
            {error, {todana, Sentence}};
        {error, Reason} ->
            {error, Reason}
    end.

-spec start(todana_config:options()) -> {ok, pid()} | {error, term()}.
start(#{databases := Databases} = Options) ->
    case todana_sup:start_link(Options) of
        {ok, Supervisor} ->
            ok = todana_kyoto_database:log_remarks(Databases),
            ok = todana_topology:note(),
            {ok, Supervisor};
        {error, Reason} ->
            ok = todana_data_dir:close(),
            case sentence(Reason) of
                {ok, Sentence} -> {error, {todana, Sentence}};
                error -> {error, Reason}
            end
    end.

-doc """
Finds the sentence in the nested reasons of supervisors and applications.
""".
-spec sentence(term()) -> {ok, string()} | error.
sentence({listener, Sentence}) when is_binary(Sentence) ->
    {ok, unicode:characters_to_list(Sentence)};
sentence({todana, [First | _] = Sentence}) when is_integer(First) ->
    {ok, Sentence};
sentence(Tuple) when is_tuple(Tuple) ->
    sentence(tuple_to_list(Tuple));
sentence([Head | Tail]) ->
    case sentence(Head) of
        error -> sentence(Tail);
        Found -> Found
    end;
sentence(_) ->
    error.

%% The seed of the durable tables, which is in the data directory, and the
%% numbers of the durable databases.
-spec durable(todana_config:options()) ->
    {ok, nil | {non_neg_integer(), [0..15]}} | {error, string()}.
durable(#{data_dir := off}) ->
    {ok, nil};
durable(#{
    data_dir := DataDir, durability := Durability, databases := Databases
} = Options) ->
    maybe
        {ok, Origin} ?= todana_cluster_start:prepare(Options),
        {ok, Opened} ?= todana_data_dir:open(
            DataDir, Durability, Origin,
            todana_cluster_start:notes(Origin, Options)
        ),
        #{seed := Seed} = Opened,
        ok ?= todana_named_databases:check(Opened, Databases),
        {ok, {Seed, todana_named_databases:durable(Databases)}}
    end.

%% The databases outlive the application. Their type and order cannot change
%% while they contain records.
-spec set_databases(
    todana_config:options(), nil | {non_neg_integer(), [0..15]}
) -> ok | {error, string()}.
set_databases(#{databases := Databases}, Durable) ->
    Natives = [todana_kyoto_database:native(D) || D <- Databases],
    case todana_nif:set_databases(Natives, Durable) of
        ok -> ok;
        {error, {Why, Number}} -> {error, kept(Why, Number)}
    end.

-spec kept(has_records | in_use, 0..15) -> string().
kept(has_records, Number) ->
    lists:concat([
        "databases: db", Number, " has records, and its order and durability "
        "cannot change under them: restart the node"
    ]);
kept(in_use, Number) ->
    lists:concat([
        "databases: db", Number, " was opened with another order or durability "
        "in this node: restart the node"
    ]).

%% Always sets the limit: the databases outlive the application, and so would
%% the limit of an earlier start.
-spec limit_memory(todana_config:options()) -> ok.
limit_memory(#{memory_limit := off, memory_policy := Policy}) ->
    todana_nif:set_memory_limit(nil, Policy);
limit_memory(#{memory_limit := Bytes, memory_policy := Policy}) ->
    todana_nif:set_memory_limit(Bytes, Policy).

%% The tables of the log end with the log; their records are on disk.
-spec prep_stop(State) -> State.
prep_stop(State) ->
    ok = todana_systemd:stopping(),
    ok = todana_tables:close_durable(),
    State.

-spec stop(term()) -> ok.
stop(_State) ->
    ok = todana_data_dir:close(),
    todana_pid_file:remove().
