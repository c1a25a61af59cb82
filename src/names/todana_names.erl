-module(todana_names).
-moduledoc """
Unique names for processes: any term is a name, and a process may have many.

    ok = todana_names:start_scope(services, cluster).
    {ok, _} = gen_server:start_link(
        {via, todana_names, {services, {user, 7}}}, user_server, [], []).
    gen_server:call({via, todana_names, {services, {user, 7}}}, hello).

Names are in a scope, which each node starts that uses it. A `local` scope has
names of processes of this node: a look-up and a registration are work on a
table in memory. A `cluster` scope has names of processes of all nodes of the
cluster. Its names are records that the members keep by Raft: a registration is
a write, and a look-up reads the records of this node.

When a process ends, its names become free; a look-up never returns a process of
this node that has ended, and such a name can be registered at once, also by a
supervisor that restarts the process.

The functions that a `via` tuple needs are those of `global`. A scope that was
not started is misuse: `badarg`. What cannot be written or read now is no
misuse: `{error, unavailable}`, or `{error, unknown}` if nobody knows yet
whether it was written.
""".

-export([start_scope/2, stop_scope/1, which_scopes/0]).
-export([register_name/2, register_name/3, unregister_name/1]).
-export([register_name_token/2, register_name_token/3]).
-export([reregister_name_token/3, unregister_name_token/2]).
-export([whereis_name/1, send/2, await_name/2]).
-export([lookup/1, lookup_token/1, set_metadata/2]).
-export([which_names/1, which_names/2, count/1]).

-export_type([scope/0, class/0, name/0, token/0, options/0, failure/0]).

-type scope() :: atom().
-doc "`local`: the names of processes of this node. `cluster`: of all nodes.".
-type class() :: local | cluster.
-doc "A scope, and the name in it.".
-type name() :: {scope(), term()}.
-doc """
The number of a registration in a cluster scope: each later one of the same name
has a greater number. What an owner acts upon can refuse a lower one.
""".
-type token() :: pos_integer().
-doc """
What happens if the node of the process does not reach the cluster for so long
that the name may be another process's, and what `lookup/1` returns:

- `again`: with `true`, the default, the name is registered again, if it was
  freed and nobody has it then, with the metadata that it was registered with
- `notify`: with `true`, the process gets `{todana_names, lost, Name}`, where
  `Name` is the scope and the name, and `{todana_names, regained, Name}` if it
  has the name again, or has kept it. Default `false`
- `metadata`: a term about the name; default `undefined`
""".
-type options() :: #{
    metadata => term(), again => boolean(), notify => boolean()
}.
-doc """
`unavailable`: not executed, because the log of the cluster cannot be read or
written now, or because this node may have lost its names. `unknown`: perhaps
executed. A registration whose outcome is unknown is taken back as soon as that
is possible. `too_large`: name and
metadata are longer than a record may be. `full`: the log has no room.
""".
-type failure() :: {error, unavailable | unknown | too_large | full}.

-doc """
Starts a scope on this node. It belongs to no process: it stays until
`stop_scope/1`, or until the application stops. `ok` if it is there already.

A cluster scope is a table of the log, so the node needs the application's
option `data_dir`. The start waits until the log can be written, for half a
minute at most.
""".
-spec start_scope(scope(), class()) -> ok | {error, unavailable}.
start_scope(Scope, Class) when
    is_atom(Scope), Class =:= local orelse Class =:= cluster
->
    Started =
        case Class of
            local -> todana_name_scopes:start(Scope);
            cluster -> todana_scope_session:start_scope(Scope)
        end,
    case Started of
        ok -> ok;
        {error, unavailable} = Failure -> Failure;
        {error, Cause} -> misuse(start_scope, [Scope, Class], 1, Cause)
    end;
start_scope(Scope, Class) when is_atom(Scope) ->
    misuse(start_scope, [Scope, Class], 2, {not_one_of, [local, cluster]});
start_scope(Scope, Class) ->
    misuse(start_scope, [Scope, Class], 1, not_an_atom).

-doc """
Stops a scope on this node. The names of its processes are gone; the processes
go on. The names that a cluster scope has of processes of other nodes stay.
""".
-spec stop_scope(scope()) -> ok.
stop_scope(Scope) ->
    case todana_name_scopes:table(Scope) of
        #{} = Shared ->
            todana_scope_session:stop_scope(Shared);
        _ ->
            case todana_name_scopes:stop(Scope) of
                ok -> todana_name_watcher:forget(Scope);
                error -> misuse(stop_scope, [Scope], 1, no_scope())
            end
    end.

-doc "The scopes that were started on this node.".
-spec which_scopes() -> [scope()].
which_scopes() -> todana_name_scopes:all().

-doc "`register_name/3` without metadata.".
-spec register_name(name(), pid()) -> yes | no.
register_name(FullName, Pid) ->
    register_name([FullName, Pid], FullName, Pid, #{}).

-doc """
Gives a process of this node a name, with a term about it that `lookup/1`
returns. `no` if another process has the name, or this one.

In a cluster scope whose records cannot be written now, the call waits as long
as a write, and then raises `unavailable`, or `unknown`: so the start of a
process with this name fails with the reason. `register_name_token/3` returns
it, at once.
""".
-spec register_name(name(), pid(), Metadata :: term()) -> yes | no.
register_name(FullName, Pid, Metadata) ->
    Arguments = [FullName, Pid, Metadata],
    register_name(Arguments, FullName, Pid, #{metadata => Metadata}).

-spec register_name([term()], name(), pid(), options()) -> yes | no.
register_name(Arguments, FullName, Pid, Options) ->
    {Scope, Name} = registrable(register_name, Arguments, FullName, Pid),
    in(register_name, Arguments, Scope,
        fun(Table) ->
            Metadata = maps:get(metadata, Options, undefined),
            todana_local_names:register(Table, Scope, Name, Pid, Metadata)
        end,
        fun(Shared) ->
            case register_when_available(Shared, Name, Pid, Options) of
                {yes, _Token} ->
                    yes;
                no ->
                    no;
                {error, too_large} ->
                    misuse(register_name, Arguments, 1, name_too_long);
                {error, Reason} ->
                    todana_error:raise(
                        ?MODULE, register_name, Arguments, {badarg, 0, Reason}
                    )
            end
        end
    ).

-spec register_when_available(
    todana_name_scopes:shared(), term(), pid(), options()
) -> {yes, token()} | no | failure().
register_when_available(#{scope := Scope}, Name, Pid, Options) ->
    todana_scope_session:while_available(fun() ->
        case todana_name_scopes:table(Scope) of
            #{} = Now -> register_shared(Now, Name, Pid, Options);
            _ -> {error, unavailable}
        end
    end).

-spec register_shared(todana_name_scopes:shared(), term(), pid(), options()) ->
    {yes, token()} | no | failure().
register_shared(Shared, Name, Pid, Options) ->
    Metadata = maps:get(metadata, Options, undefined),
    OnLoss = {
        case maps:get(notify, Options, false) of
            true -> notify;
            false -> silent
        end,
        case maps:get(again, Options, true) of
            true -> {again, Metadata};
            false -> nothing
        end
    },
    todana_cluster_names:register(Shared, Name, Pid, #{
        metadata => Metadata, on_loss => OnLoss
    }).

-spec registrable(atom(), [term()], term(), term()) -> name().
registrable(_Function, _Arguments, {_, _} = FullName, Pid) when
    is_pid(Pid), node(Pid) =:= node()
->
    FullName;
registrable(Function, Arguments, {_, _}, Pid) when is_pid(Pid) ->
    misuse(Function, Arguments, pid_argument(Function), not_a_local_process);
registrable(Function, Arguments, {_, _}, _Pid) ->
    misuse(Function, Arguments, pid_argument(Function), not_a_pid);
registrable(Function, Arguments, _FullName, _Pid) ->
    misuse(Function, Arguments, 1, not_a_name).

-spec pid_argument(atom()) -> pos_integer().
pid_argument(reregister_name_token) -> 3;
pid_argument(_Function) -> 2.

-doc "`register_name_token/3` without options.".
-spec register_name_token(name(), pid()) -> {yes, token()} | no | failure().
register_name_token(FullName, Pid) ->
    register_token([FullName, Pid], FullName, Pid, #{}).

-doc """
Gives a process of this node a name in a cluster scope, and returns the token of
the registration, or why there is none. `no` if a process has the name.
""".
-spec register_name_token(name(), pid(), options()) ->
    {yes, token()} | no | failure().
register_name_token(FullName, Pid, Options) ->
    register_token([FullName, Pid, Options], FullName, Pid, Options).

-spec register_token([term()], name(), pid(), options()) ->
    {yes, token()} | no | failure().
register_token(Arguments, FullName, Pid, Options) ->
    {Scope, Name} = registrable(register_name_token, Arguments, FullName, Pid),
    case bad_option(Options) of
        none -> ok;
        Cause -> misuse(register_name_token, Arguments, 3, Cause)
    end,
    in_shared(register_name_token, Arguments, Scope, fun(Shared) ->
        register_shared(Shared, Name, Pid, Options)
    end).

-spec bad_option(term()) -> none | term().
bad_option(#{} = Options) ->
    case maps:keys(Options) -- [metadata, again, notify] of
        [Name | _] ->
            {no_name_option, Name};
        [] ->
            case [N || N := V <- maps:without([metadata], Options),
                       not is_boolean(V)] of
                [Name | _] -> {not_a_boolean, Name};
                [] -> none
            end
    end;
bad_option(_Options) ->
    not_name_options.

-doc """
Gives a name in a cluster scope to a process of this node, if the name has this
token: it was not given to anybody else since. The metadata stays.
""".
-spec reregister_name_token(name(), token(), pid()) ->
    {yes, token()} | no | failure().
reregister_name_token(FullName, Token, Pid) ->
    Arguments = [FullName, Token, Pid],
    {Scope, Name} =
        registrable(reregister_name_token, Arguments, FullName, Pid),
    ok = is_token(reregister_name_token, Arguments, Token),
    in_shared(reregister_name_token, Arguments, Scope, fun(Shared) ->
        todana_cluster_names:move(Shared, Name, Pid, Token)
    end).

-spec is_token(atom(), [term()], term()) -> ok.
is_token(_Function, _Arguments, Token) when is_integer(Token), Token > 0 ->
    ok;
is_token(Function, Arguments, _Token) ->
    misuse(Function, Arguments, 2, not_a_token).

-doc "Frees a name, whichever process has it, if any.".
-spec unregister_name(name()) -> ok | failure().
unregister_name({Scope, Name} = FullName) ->
    in(unregister_name, [FullName], Scope,
        fun(Table) -> todana_local_names:unregister(Table, Scope, Name) end,
        fun(Shared) ->
            case unregister(Shared, Name) of
                no -> ok;
                Result -> Result
            end
        end
    );
unregister_name(FullName) ->
    misuse(unregister_name, [FullName], 1, not_a_name).

%% The name may be about to be registered again.
-spec unregister(todana_name_scopes:shared(), term()) -> ok | no | failure().
unregister(#{scope := Scope}, Name) ->
    todana_scope_session:when_settled(Scope, no, fun(Now) ->
        todana_cluster_names:unregister(Now, Name)
    end).

-doc "Frees a name in a cluster scope if it has this token; `no` if not.".
-spec unregister_name_token(name(), token()) -> ok | no | failure().
unregister_name_token({Scope, Name} = FullName, Token) ->
    Arguments = [FullName, Token],
    ok = is_token(unregister_name_token, Arguments, Token),
    in_shared(unregister_name_token, Arguments, Scope, fun(Shared) ->
        todana_cluster_names:unregister(Shared, Name, Token)
    end);
unregister_name_token(FullName, Token) ->
    misuse(unregister_name_token, [FullName, Token], 1, not_a_name).

-doc """
The process that has the name; `undefined` if there is none. If it is a process
of this node and just ending, the caller waits until it has ended, as with
`global`.

In a cluster scope the answer contains all that any node had acknowledged a
second before (the application's option `read_bound_ms`), or two if the name was
looked up on this node before. It is `undefined` if this node cannot find that
out within a second: it may be cut off.
""".
-spec whereis_name(name()) -> pid() | undefined.
%% Without `in/5': it is called most often, and funs cost.
whereis_name({Scope, Name} = FullName) ->
    case todana_name_scopes:table(Scope) of
        none ->
            misuse(whereis_name, [FullName], 1, no_scope());
        #{} = Shared ->
            todana_cluster_names:whereis(Shared, Name);
        Table ->
            try
                todana_local_names:owner(Table, Name)
            catch
                error:badarg ->
                    misuse(whereis_name, [FullName], 1, no_scope())
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
Waits until a process has the name in a cluster scope, for this time at most.
""".
-spec await_name(name(), timeout()) ->
    {ok, pid()} | {error, timeout | unavailable}.
await_name({Scope, Name} = FullName, TimeoutMs) when
    TimeoutMs =:= infinity; is_integer(TimeoutMs), TimeoutMs >= 0
->
    in_shared(await_name, [FullName, TimeoutMs], Scope, fun(Shared) ->
        todana_cluster_names:await(Shared, Name, TimeoutMs)
    end);
await_name({_, _} = FullName, TimeoutMs) ->
    misuse(await_name, [FullName, TimeoutMs], 2, not_a_timeout);
await_name(FullName, TimeoutMs) ->
    misuse(await_name, [FullName, TimeoutMs], 1, not_a_name).

-doc """
The process that has the name, and the metadata, which is `undefined` if it was
registered without any.
""".
-spec lookup(name()) -> {ok, pid(), Metadata :: term()} | error | failure().
lookup({Scope, Name} = FullName) ->
    in(lookup, [FullName], Scope,
        fun(Table) -> todana_local_names:lookup(Table, Name) end,
        fun(Shared) ->
            case todana_cluster_names:lookup(Shared, Name) of
                {ok, Pid, Metadata, _Token} -> {ok, Pid, Metadata};
                Result -> Result
            end
        end
    );
lookup(FullName) ->
    misuse(lookup, [FullName], 1, not_a_name).

-doc "The process that has the name in a cluster scope, and the token.".
-spec lookup_token(name()) -> {ok, pid(), token()} | error | failure().
lookup_token({Scope, Name} = FullName) ->
    in_shared(lookup_token, [FullName], Scope, fun(Shared) ->
        case todana_cluster_names:lookup(Shared, Name) of
            {ok, Pid, _Metadata, Token} -> {ok, Pid, Token};
            Result -> Result
        end
    end);
lookup_token(FullName) ->
    misuse(lookup_token, [FullName], 1, not_a_name).

-doc """
Changes the metadata of a name; `error` if no process has it. In a local scope,
if another process gets the name at this moment, the metadata may be changed for
that one.
""".
-spec set_metadata(name(), Metadata :: term()) -> ok | error | failure().
set_metadata({Scope, Name} = FullName, Metadata) ->
    in(set_metadata, [FullName, Metadata], Scope,
        fun(Table) ->
            todana_local_names:set_metadata(Table, Name, Metadata)
        end,
        fun(Shared) ->
            todana_cluster_names:set_metadata(Shared, Name, Metadata)
        end
    );
set_metadata(FullName, Metadata) ->
    misuse(set_metadata, [FullName, Metadata], 1, not_a_name).

-doc """
All names of a scope, in no order. Names that are registered or become free
meanwhile, or whose process ended a moment ago, may be among them or not.
""".
-spec which_names(scope()) -> [Name :: term()] | failure().
which_names(Scope) ->
    in(which_names, [Scope], Scope,
        fun todana_name_scopes:names/1, fun todana_cluster_names:names/1
    ).

-doc """
The names of a process, in no order: all that the caller has registered, and
those that other processes had registered and freed a moment before. None, if it
has ended. In a cluster scope, the process may be one of any node, and a node is
asked for the names of all its processes; names are read at the node of the
caller.
""".
-spec which_names(scope(), pid() | node()) -> [Name :: term()] | failure().
which_names(Scope, Owner) when is_pid(Owner), node(Owner) =:= node() ->
    in(which_names, [Scope, Owner], Scope,
        fun(Table) -> todana_local_names:names_of(Table, Scope, Owner) end,
        fun(Shared) -> todana_cluster_names:names_of(Shared, Owner) end
    );
which_names(Scope, Owner) ->
    case todana_name_scopes:table(Scope) of
        #{} = Shared when is_pid(Owner); is_atom(Owner) ->
            todana_cluster_names:names_of(Shared, Owner);
        #{} ->
            misuse(which_names, [Scope, Owner], 2, not_an_owner);
        none ->
            misuse(which_names, [Scope, Owner], 1, no_scope());
        _Local ->
            misuse(which_names, [Scope, Owner], 2, not_a_local_process)
    end.

-doc """
How many names there are. Those of processes that ended a moment ago may be
counted.
""".
-spec count(scope()) -> non_neg_integer() | failure().
count(Scope) ->
    in(count, [Scope], Scope,
        fun todana_local_names:count/1, fun todana_cluster_names:count/1
    ).

%% The result of a function of the scope's ETS table, which another process may
%% delete meanwhile, or of the cluster scope.
-spec in(
    atom(), [term()], term(), fun((ets:table()) -> Local),
    fun((todana_name_scopes:shared()) -> Shared)
) -> Local | Shared.
in(Function, Arguments, Scope, Local, OfCluster) ->
    case todana_name_scopes:table(Scope) of
        none ->
            misuse(Function, Arguments, 1, no_scope());
        #{} = Shared ->
            OfCluster(Shared);
        Table ->
            try
                Local(Table)
            catch
                error:badarg -> misuse(Function, Arguments, 1, no_scope())
            end
    end.

-spec in_shared(
    atom(), [term()], term(), fun((todana_name_scopes:shared()) -> Result)
) -> Result.
in_shared(Function, Arguments, Scope, Work) ->
    case todana_name_scopes:table(Scope) of
        #{} = Shared -> Work(Shared);
        none -> misuse(Function, Arguments, 1, no_scope());
        _Local -> misuse(Function, Arguments, 1, not_a_cluster_scope)
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
