%% Names in local scopes: records of an ETS table.
%%
%% Each function may raise `badarg' if the scope is being stopped.
-module(todana_local_names).
-moduledoc false.

-export([register/5, unregister/3, owner/2, lookup/2, set_metadata/3]).
-export([names_of/3, count/1]).

-doc "Gives a process a name, unless another one has it.".
-spec register(ets:table(), atom(), Name :: term(), pid(), term()) -> yes | no.
register(Table, Scope, Name, Pid, Metadata) ->
    case todana_name_scopes:insert(Table, Name, Pid, Metadata) of
        true ->
            ok = todana_name_watcher:watch(Pid, Scope, Name),
            yes;
        false ->
            case todana_name_scopes:free(Table, Name) of
                freed -> register(Table, Scope, Name, Pid, Metadata);
                owned -> no
            end
    end.

-doc "Frees a name.".
-spec unregister(ets:table(), atom(), Name :: term()) -> ok.
unregister(Table, Scope, Name) ->
    case todana_name_scopes:take(Table, Name) of
        {ok, Pid} -> todana_name_watcher:unwatch(Pid, Scope, Name);
        error -> ok
    end.

-doc "The process that has the name.".
-spec owner(ets:table(), Name :: term()) -> pid() | undefined.
owner(Table, Name) ->
    case todana_name_scopes:owner(Table, Name) of
        undefined ->
            undefined;
        Pid ->
            case is_process_alive(Pid) of
                true -> Pid;
                false -> undefined
            end
    end.

-doc "The process that has the name, and the metadata.".
-spec lookup(ets:table(), Name :: term()) ->
    {ok, pid(), Metadata :: term()} | error.
lookup(Table, Name) ->
    maybe
        {ok, {_, Pid, Metadata}} ?= todana_name_scopes:record(Table, Name),
        true ?= is_process_alive(Pid),
        {ok, Pid, Metadata}
    else
        _ -> error
    end.

-doc "Changes the metadata of a name.".
-spec set_metadata(ets:table(), Name :: term(), term()) -> ok | error.
set_metadata(Table, Name, Metadata) ->
    case
        owner(Table, Name) =/= undefined andalso
            todana_name_scopes:annotate(Table, Name, Metadata)
    of
        true -> ok;
        false -> error
    end.

-doc "The names of a process.".
-spec names_of(ets:table(), atom(), pid()) -> [Name :: term()].
names_of(Table, Scope, Pid) ->
    case is_process_alive(Pid) andalso todana_name_watcher:names(Pid, Scope) of
        false -> [];
        {ok, Known} -> Known;
        %% Nobody knows them by process at this moment.
        error -> todana_name_scopes:names(Table, Pid)
    end.

-doc "How many names there are.".
-spec count(ets:table()) -> non_neg_integer().
count(Table) ->
    %% `ets:info/2' raises no error if the table is gone.
    case ets:info(Table, size) of
        undefined -> error(badarg);
        Size -> Size
    end.
