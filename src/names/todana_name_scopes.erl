%% The scopes of names: an ETS table for each.
%%
%% The tables belong to the supervisor of the application, which creates them
%% itself: no process that may die on its own owns a name.
%%
%% {Name, Process, Metadata} is the record of a name. A name is registered by an
%% insertion that fails if there is a record, so no process has to decide. A
%% record of a process that has ended is removed as it was found, so that a
%% later registration of the same name stays.
-module(todana_name_scopes).
-moduledoc false.

-export([start/1, stop/1, stop/0, all/0, table/1]).
-export([insert/4, take/2, owner/2, record/2, annotate/3, free/2, owned/1]).
%% Run by the supervisor.
-export([create/1]).

-type scope() :: atom().
-type named() :: {Name :: term(), pid(), Metadata :: term()}.

-define(KEY(Scope), {?MODULE, Scope}).

-doc "Starts a scope, unless it is there.".
-spec start(scope()) -> ok.
start(Scope) ->
    %% `ignore' leaves no child behind.
    {ok, undefined} = supervisor:start_child(todana_sup, #{
        id => {?MODULE, Scope, make_ref()},
        start => {?MODULE, create, [Scope]},
        restart => temporary
    }),
    ok.

-doc "Creates the table of a scope, which the caller owns, unless it is there.".
-spec create(scope()) -> ignore.
create(Scope) ->
    case table(Scope) of
        none ->
            Table = ets:new(todana_names, [
                public, {read_concurrency, true}, {write_concurrency, auto}
            ]),
            persistent_term:put(?KEY(Scope), Table),
            ignore;
        _Table ->
            ignore
    end.

-doc "Stops a scope.".
-spec stop(term()) -> ok | error.
stop(Scope) ->
    Table = table(Scope),
    case Table =/= none andalso persistent_term:erase(?KEY(Scope)) of
        true ->
            true = ets:delete(Table),
            ok;
        false ->
            error
    end.

-doc "Stops all scopes, because the application stops, which has their tables.".
-spec stop() -> ok.
stop() ->
    lists:foreach(fun(Scope) -> persistent_term:erase(?KEY(Scope)) end, all()).

-doc "The scopes that were started.".
-spec all() -> [scope()].
all() -> [Scope || {?KEY(Scope), _Table} <- persistent_term:get()].

-doc "The table of a scope.".
-spec table(term()) -> ets:table() | none.
table(Scope) -> persistent_term:get(?KEY(Scope), none).

-doc "Gives a process a name, unless there is a record of it.".
-spec insert(ets:table(), Name :: term(), pid(), Metadata :: term()) ->
    boolean().
insert(Table, Name, Pid, Metadata) ->
    ets:insert_new(Table, {Name, Pid, Metadata}).

-doc "Removes a name, and returns its process.".
-spec take(ets:table(), Name :: term()) -> {ok, pid()} | error.
take(Table, Name) ->
    case ets:take(Table, Name) of
        [{_Name, Pid, _Metadata}] -> {ok, Pid};
        [] -> error
    end.

-doc "The process of a name, which may have ended.".
-spec owner(ets:table(), Name :: term()) -> pid() | undefined.
owner(Table, Name) -> ets:lookup_element(Table, Name, 2, undefined).

-doc "The process of a name, which may have ended, and the metadata.".
-spec record(ets:table(), Name :: term()) -> {ok, named()} | error.
record(Table, Name) ->
    case ets:lookup(Table, Name) of
        [Record] -> {ok, Record};
        [] -> error
    end.

-doc "Changes the metadata of a name, if there is a record.".
-spec annotate(ets:table(), Name :: term(), Metadata :: term()) -> boolean().
annotate(Table, Name, Metadata) ->
    ets:update_element(Table, Name, {3, Metadata}).

-doc "Removes the record of a name if its process has ended.".
-spec free(ets:table(), Name :: term()) -> freed | owned.
free(Table, Name) ->
    case ets:lookup(Table, Name) of
        [{_Name, Pid, _Metadata} = Record] ->
            case is_process_alive(Pid) of
                true ->
                    owned;
                false ->
                    true = ets:delete_object(Table, Record),
                    freed
            end;
        [] ->
            freed
    end.

-doc "The names of a table with their processes.".
-spec owned(ets:table()) -> [{Name :: term(), pid()}].
owned(Table) -> ets:select(Table, [{{'$1', '$2', '_'}, [], [{{'$1', '$2'}}]}]).
