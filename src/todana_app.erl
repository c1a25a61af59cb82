%% The application: reads its environment and starts the processes.
%%
%% Without options it opens no port and touches nothing outside itself.
-module(todana_app).
-moduledoc false.
-behaviour(application).

-export([start/2, prep_stop/1, stop/1]).

-spec start(application:start_type(), term()) ->
    {ok, pid()} | {error, term()}.
start(_Type, _Arguments) ->
    maybe
        ok ?= todana_release:engine(),
        ok = todana_away:stopping(false),
        ok = todana_guest:leave(),
        %% If the application was killed, nobody would answer clients that wait
        %% for other nodes.
        ok = todana_nif:interest_detach(),
        {ok, Given} ?= todana_config:embedded(),
        ok ?= todana_release:check(Given),
        {ok, Options, Seed} ?= seed(Given),
        ok ?= todana_databases:set(Options, Seed),
        ok = limit_memory(Options),
        ok = todana_durable:configure(Options),
        start(Options)
    else
        {error, Sentence} when is_list(Sentence) ->
            ok = todana_guest:leave(),
            ok = todana_data_dir_open:close(),
            {error, {todana, Sentence}};
        {error, Reason} ->
            {error, Reason}
    end.

-spec start(todana_config:options()) -> {ok, pid()} | {error, term()}.
start(#{databases := Databases} = Options) ->
    ok = todana_name_scopes:stop(),
    ok = todana_name_cache:close(),
    case todana_sup:start_link(Options) of
        {ok, Supervisor} ->
            ok = todana_kyoto_database:log_remarks(Databases),
            ok = todana_topology:note(),
            ok = await_seat(Options),
            {ok, Supervisor};
        {error, Reason} ->
            ok = todana_tables:close_left(),
            ok = todana_guest:leave(),
            ok = todana_data_dir_open:close(),
            case todana_start_reason:sentence(Reason) of
                {ok, Sentence} -> {error, {todana, Sentence}};
                error -> {error, Reason}
            end
    end.

%% The clients of a guest find the records when it has started.
-spec await_seat(todana_config:options()) -> ok.
await_seat(#{no_replica := yes}) -> todana_guest:await_seat();
await_seat(_Options) -> ok.

%% The seed of the durable tables, which is in the data directory. A directory
%% that the databases do not fit is not made: a node that was to join would be
%% taken for a member that was removed.
-spec seed(todana_config:options()) ->
    {ok, todana_config:options(), nil | non_neg_integer()} | {error, string()}.
seed(#{no_replica := yes} = Options) ->
    maybe
        {ok, Visiting, Invitation} ?= todana_cluster_start:visit(Options),
        #{seed := Seed, members := Members} = Invitation,
        ok = todana_guest:open(Members),
        {ok, Visiting, Seed}
    end;
seed(#{data_dir := off} = Options) ->
    {ok, Options, nil};
seed(#{
    data_dir := DataDir, durability := Durability, databases := Databases
} = Options) ->
    maybe
        {ok, Origin} ?= todana_cluster_start:prepare(Options),
        ok ?= todana_databases:set(
            Options, todana_data_dir:seed(DataDir, Origin)
        ),
        {ok, #{seed := Seed} = Opened} ?= todana_data_dir_open:open(
            DataDir, Durability, Origin,
            todana_cluster_start:notes(Origin, Options)
        ),
        ok ?= todana_named_databases:check(Opened, Databases),
        {ok, Options, Seed}
    end.

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
    ok = todana_away:stopping(true),
    ok = todana_seats:stop(),
    ok = todana_scope_session:stop_scopes(),
    ok = todana_tables:close_durable(),
    State.

-spec stop(term()) -> ok.
stop(_State) ->
    ok = todana_tables:close_left(),
    ok = todana_name_scopes:stop(),
    ok = todana_name_cache:close(),
    ok = todana_guest:leave(),
    ok = todana_data_dir_open:close(),
    todana_pid_file:remove().
