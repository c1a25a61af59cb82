-module(todana_names).
-moduledoc """
Unique names for processes: any term is a name, and a process may have many.

    ok = todana_names:start_scope(services, local).
    {ok, _} = gen_server:start_link(
        {via, todana_names, {services, {user, 7}}}, user_server, [], []).
    gen_server:call({via, todana_names, {services, {user, 7}}}, hello).

Names are in a scope. A `local` scope has names of processes of this node. A
look-up and a registration are work on a table, and call no process. When a
process ends, its names become free: a look-up never returns a process that has
ended, and such a name can be registered at once, also by a supervisor that
restarts the process.

The functions that a `via` tuple needs are those of `global`. A scope that was
not started is misuse: `badarg`.
""".

-export([start_scope/2, stop_scope/1, which_scopes/0]).
-export([register_name/2, register_name/3, unregister_name/1]).
-export([whereis_name/1, send/2]).
-export([lookup/1, set_metadata/2]).
-export([which_names/1, which_names/2, count/1]).

-export_type([scope/0, class/0, name/0]).

-type scope() :: atom().
-doc "`local`: the names of processes of this node.".
-type class() :: local.
-doc "A scope, and the name in it.".
-type name() :: {scope(), term()}.

-doc """
Starts a scope, which belongs to no process: it stays until `stop_scope/1`, or
until the application stops. `ok` if it is there already.
""".
-spec start_scope(scope(), class()) -> ok.
start_scope(Scope, local = Class) when is_atom(Scope) ->
    case todana_name_scopes:start(Scope) of
        ok -> ok;
        {error, Cause} -> misuse(start_scope, [Scope, Class], 1, Cause)
    end;
start_scope(Scope, local = Class) ->
    misuse(start_scope, [Scope, Class], 1, not_an_atom);
start_scope(Scope, Class) ->
    misuse(start_scope, [Scope, Class], 2, {not_one_of, [local]}).

-doc "Stops a scope. Its names are gone; their processes go on.".
-spec stop_scope(scope()) -> ok.
stop_scope(Scope) ->
    case todana_name_scopes:stop(Scope) of
        ok -> todana_name_watcher:forget(Scope);
        error -> misuse(stop_scope, [Scope], 1, no_scope())
    end.

-doc "The scopes that were started.".
-spec which_scopes() -> [scope()].
which_scopes() -> todana_name_scopes:all().

-doc "`register_name/3` without metadata.".
-spec register_name(name(), pid()) -> yes | no.
register_name(FullName, Pid) ->
    register_name([FullName, Pid], FullName, Pid, undefined).

-doc """
Gives a process a name, with a term about it that `lookup/1` returns. `no` if
another process has the name, or this one. A name of a process of another node
is misuse: `badarg`.
""".
-spec register_name(name(), pid(), Metadata :: term()) -> yes | no.
register_name(FullName, Pid, Metadata) ->
    register_name([FullName, Pid, Metadata], FullName, Pid, Metadata).

-spec register_name([term()], name(), pid(), Metadata :: term()) -> yes | no.
register_name(Arguments, {Scope, Name} = FullName, Pid, Metadata) when
    is_pid(Pid), node(Pid) =:= node()
->
    Register = fun(Table) ->
        case todana_name_scopes:insert(Table, Name, Pid, Metadata) of
            true -> yes;
            false -> todana_name_scopes:free(Table, Name)
        end
    end,
    case in(register_name, Arguments, Scope, Register) of
        yes ->
            ok = todana_name_watcher:watch(Pid, Scope, Name),
            yes;
        freed ->
            register_name(Arguments, FullName, Pid, Metadata);
        owned ->
            no
    end;
register_name(Arguments, {_, _}, Pid, _Metadata) when is_pid(Pid) ->
    misuse(register_name, Arguments, 2, not_a_local_process);
register_name(Arguments, {_, _}, _Pid, _Metadata) ->
    misuse(register_name, Arguments, 2, not_a_pid);
register_name(Arguments, _FullName, _Pid, _Metadata) ->
    misuse(register_name, Arguments, 1, not_a_name).

-doc "Frees a name, whichever process has it, if any.".
-spec unregister_name(name()) -> ok.
unregister_name({Scope, Name} = FullName) ->
    Take = fun(Table) -> todana_name_scopes:take(Table, Name) end,
    case in(unregister_name, [FullName], Scope, Take) of
        {ok, Pid} -> todana_name_watcher:unwatch(Pid, Scope, Name);
        error -> ok
    end;
unregister_name(FullName) ->
    misuse(unregister_name, [FullName], 1, not_a_name).

-doc """
The process that has the name. If it is ending, the caller waits until it has
ended, as with `global`.
""".
-spec whereis_name(name()) -> pid() | undefined.
whereis_name({Scope, Name} = FullName) ->
    Owner = fun(Table) -> todana_name_scopes:owner(Table, Name) end,
    case in(whereis_name, [FullName], Scope, Owner) of
        undefined ->
            undefined;
        Pid ->
            case is_process_alive(Pid) of
                true -> Pid;
                false -> undefined
            end
    end;
whereis_name(FullName) ->
    misuse(whereis_name, [FullName], 1, not_a_name).

-doc """
Sends a message to the process that has the name, and returns the process. As
with `global`, the caller exits with `{badarg, {Name, Message}}` if there is
none.
""".
-spec send(name(), term()) -> pid().
send(FullName, Message) ->
    case whereis_name(FullName) of
        undefined ->
            exit({badarg, {FullName, Message}});
        Pid ->
            Pid ! Message,
            Pid
    end.

-doc """
The process that has the name, and the metadata, which is `undefined` if it was
registered without any.
""".
-spec lookup(name()) -> {ok, pid(), Metadata :: term()} | error.
lookup({Scope, Name} = FullName) ->
    Record = fun(Table) -> todana_name_scopes:record(Table, Name) end,
    maybe
        {ok, {_, Pid, Metadata}} ?= in(lookup, [FullName], Scope, Record),
        true ?= is_process_alive(Pid),
        {ok, Pid, Metadata}
    else
        _ -> error
    end;
lookup(FullName) ->
    misuse(lookup, [FullName], 1, not_a_name).

-doc """
Changes the metadata of a name; `error` if no process has it. If another process
gets the name at this moment, the metadata may be changed for that one.
""".
-spec set_metadata(name(), Metadata :: term()) -> ok | error.
set_metadata({Scope, Name} = FullName, Metadata) ->
    Annotate = fun(Table) ->
        Pid = todana_name_scopes:owner(Table, Name),
        Pid =/= undefined andalso is_process_alive(Pid) andalso
            todana_name_scopes:annotate(Table, Name, Metadata)
    end,
    case in(set_metadata, [FullName, Metadata], Scope, Annotate) of
        true -> ok;
        false -> error
    end;
set_metadata(FullName, Metadata) ->
    misuse(set_metadata, [FullName, Metadata], 1, not_a_name).

-doc """
All names of a scope, in no order. Names that are registered or become free
meanwhile, or whose process ended a moment ago, may be among them or not.
""".
-spec which_names(scope()) -> [Name :: term()].
which_names(Scope) ->
    in(which_names, [Scope], Scope, fun todana_name_scopes:names/1).

-doc """
The names of a process, in no order: all that the caller has registered, and
those that other processes had registered and freed a moment before. None, if it
has ended.
""".
-spec which_names(scope(), pid()) -> [Name :: term()].
which_names(Scope, Pid) when is_pid(Pid), node(Pid) =:= node() ->
    Names = fun(Table) ->
        case todana_name_watcher:names(Pid, Scope) of
            {ok, Known} -> Known;
            %% Nobody knows them by process at this moment.
            error -> todana_name_scopes:names(Table, Pid)
        end
    end,
    case is_process_alive(Pid) of
        true -> in(which_names, [Scope, Pid], Scope, Names);
        false -> in(which_names, [Scope, Pid], Scope, fun(_Table) -> [] end)
    end;
which_names(Scope, Pid) ->
    misuse(which_names, [Scope, Pid], 2, not_a_local_process).

-doc """
How many names there are. Those of processes that ended a moment ago may be
counted.
""".
-spec count(scope()) -> non_neg_integer().
count(Scope) ->
    %% `ets:info/2' raises no error if the table is gone.
    Count = fun(Table) ->
        case ets:info(Table, size) of
            undefined -> error(badarg);
            Size -> Size
        end
    end,
    in(count, [Scope], Scope, Count).

%% The result of a function of the scope's table, which another process may
%% delete meanwhile.
-spec in(atom(), [term()], term(), fun((ets:table()) -> Result)) -> Result.
in(Function, Arguments, Scope, Work) ->
    case todana_name_scopes:table(Scope) of
        none ->
            misuse(Function, Arguments, 1, no_scope());
        Table ->
            try
                Work(Table)
            catch
                error:badarg -> misuse(Function, Arguments, 1, no_scope())
            end
    end.

-spec no_scope() -> no_such_scope | not_running.
no_scope() ->
    case whereis(todana_sup) of
        undefined -> not_running;
        _ -> no_such_scope
    end.

-spec misuse(atom(), [term()], pos_integer(), term()) -> no_return().
misuse(Function, Arguments, Number, Cause) ->
    todana_error:raise(?MODULE, Function, Arguments, {badarg, Number, Cause}).
