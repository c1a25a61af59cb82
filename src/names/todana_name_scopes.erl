%% The scopes of names that this node has started: local ones, with an ETS table
%% for each, and cluster scopes, whose names are in `todana_scope_records'.
%%
%% The ETS tables belong to the supervisor of the application, which creates and
%% deletes them itself: no process that may die on its own owns a name, and a
%% start and a stop never run at once.
%%
%% {Name, Process, Metadata} is the record of a name. A name is registered by an
%% insertion that fails if there is a record, so no process has to decide. A
%% record of a process that has ended is removed as it was found, so that a
%% later registration of the same name stays.
-module(todana_name_scopes).
-moduledoc false.

-export([start/1, stop/1, stop/0, all/0, all_local/0, table/1]).
-export([share/1, unshare/1, all_shared/0]).
-export([insert/4, take/2, owner/2, record/2, annotate/3, free/2]).
-export([names/1, names/2, fold/3]).
%% Run by the supervisor.
-export([create/1, delete/1]).

-export_type([shared/0]).

-type scope() :: atom().
%% A cluster scope, and its session of this node.
-type shared() :: #{
    scope := scope(),
    table := todana_scope_records:table(),
    session := todana_scope_records:session()
}.
-type named() :: {Name :: term(), pid(), Metadata :: term()}.

-define(KEY(Scope), {?MODULE, Scope}).
%% Names that are copied at once.
-define(PAGE, 1_000).

-doc "Starts a local scope, unless it is there.".
-spec start(scope()) -> ok | {error, not_running | {other_class, cluster}}.
start(Scope) ->
    case {table(Scope), is_there(Scope)} of
        {#{}, _} -> {error, {other_class, cluster}};
        {_, true} -> ok;
        {_, false} -> created(in_supervisor(create, Scope), Scope)
    end.

%% A cluster scope may have been faster.
-spec created(ok | {error, not_running}, scope()) ->
    ok | {error, not_running | {other_class, cluster}}.
created(ok, Scope) ->
    case table(Scope) of
        #{} -> {error, {other_class, cluster}};
        _ -> ok
    end;
created(Failure, _Scope) ->
    Failure.

-doc "Stops a local scope.".
-spec stop(term()) -> ok | error.
stop(Scope) ->
    case is_there(Scope) andalso in_supervisor(delete, Scope) of
        ok -> ok;
        _ -> error
    end.

%% A child whose start returns `ignore', and that is temporary, leaves nothing
%% in the supervisor.
-spec in_supervisor(create | delete, scope()) -> ok | {error, not_running}.
in_supervisor(Function, Scope) ->
    Child = #{
        id => {?MODULE, make_ref()},
        start => {?MODULE, Function, [Scope]},
        restart => temporary
    },
    try supervisor:start_child(todana_sup, Child) of
        {ok, undefined} -> ok
    catch
        exit:{_, {gen_server, call, _}} -> {error, not_running}
    end.

-spec create(scope()) -> ignore.
create(Scope) ->
    case is_map(table(Scope)) orelse is_there(Scope) of
        true ->
            ignore;
        false ->
            %% With `auto', OTP 29.1 crashed when the table was deleted while
            %% others wrote.
            Table = ets:new(todana_names, [
                public, {read_concurrency, true}, {write_concurrency, true}
            ]),
            persistent_term:put(?KEY(Scope), Table),
            ignore
    end.

-spec delete(scope()) -> ignore.
delete(Scope) ->
    case is_there(Scope) of
        true ->
            Table = table(Scope),
            true = persistent_term:erase(?KEY(Scope)),
            true = ets:delete(Table),
            ignore;
        false ->
            ignore
    end.

%% A table has ended with its supervisor, and what names it may be left.
-spec is_there(term()) -> boolean().
is_there(Scope) ->
    Table = table(Scope),
    is_reference(Table) andalso ets:info(Table, size) =/= undefined.

-doc "Forgets all scopes. Their tables have ended with the application.".
-spec stop() -> ok.
stop() ->
    lists:foreach(fun(Scope) -> persistent_term:erase(?KEY(Scope)) end, all()).

-doc "The scopes that were started.".
-spec all() -> [scope()].
all() -> [Scope || {?KEY(Scope), _Table} <- persistent_term:get()].

-doc "Those of them that are local.".
-spec all_local() -> [scope()].
all_local() ->
    [
        Scope
     || {?KEY(Scope), Table} <- persistent_term:get(), not is_map(Table)
    ].

-doc "The table of a local scope, or what a cluster scope is.".
-spec table(term()) -> ets:table() | shared() | none.
table(Scope) -> persistent_term:get(?KEY(Scope), none).

-doc "A cluster scope has this session now.".
-spec share(shared()) -> ok.
share(#{scope := Scope} = Shared) -> persistent_term:put(?KEY(Scope), Shared).

-doc "It was stopped.".
-spec unshare(scope()) -> ok.
unshare(Scope) ->
    true = persistent_term:erase(?KEY(Scope)),
    ok.

-doc "The cluster scopes that were started.".
-spec all_shared() -> [shared()].
all_shared() ->
    [
        Shared
     || {?KEY(_Scope), Shared} <- persistent_term:get(), is_map(Shared)
    ].

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
                    %% It stays if its metadata was changed meanwhile.
                    free(Table, Name)
            end;
        [] ->
            freed
    end.

-doc "All names of a table.".
-spec names(ets:table()) -> [Name :: term()].
names(Table) -> ets:select(Table, [{{'$1', '_', '_'}, [], ['$1']}]).

-doc "The names of a process, by a look at all.".
-spec names(ets:table(), pid()) -> [Name :: term()].
names(Table, Pid) -> ets:select(Table, [{{'$1', Pid, '_'}, [], ['$1']}]).

-doc "A function of each name and its process, with some in memory at a time.".
-spec fold(fun((Name :: term(), pid(), Acc) -> Acc), Acc, ets:table()) -> Acc.
fold(Function, Acc, Table) ->
    true = ets:safe_fixtable(Table, true),
    try
        All = [{{'$1', '$2', '_'}, [], [{{'$1', '$2'}}]}],
        fold_pages(Function, Acc, ets:select(Table, All, ?PAGE))
    after
        ets:safe_fixtable(Table, false)
    end.

-spec fold_pages(fun((term(), pid(), Acc) -> Acc), Acc, term()) -> Acc.
fold_pages(_Function, Acc, '$end_of_table') ->
    Acc;
fold_pages(Function, Acc, {Owned, Continuation}) ->
    Next = lists:foldl(
        fun({Name, Pid}, Sum) -> Function(Name, Pid, Sum) end, Acc, Owned
    ),
    fold_pages(Function, Next, ets:select(Continuation)).
