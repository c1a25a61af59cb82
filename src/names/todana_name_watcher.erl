%% Frees the names of processes that end.
%%
%% Each process that has a name is monitored by one of the processes in ?NAMES.
%% A name is registered as soon as its record is written, and the watcher gets a
%% message afterwards: a registration does not wait for it. Nothing is linked,
%% so a watcher that ends takes no process along.
%%
%% A watcher that starts reads all records and monitors its processes, because
%% the state of the one before it is lost. It registers its own name first, and
%% a caller writes a record before it sends the message: a watcher sees the
%% record, or gets the message, or both.
%%
%% Messages about one name from several processes may arrive in another order
%% than the writes. So what a message says is compared with the record.
-module(todana_name_watcher).
-moduledoc false.
-behaviour(gen_server).

-export([watch/3, unwatch/3, forget/1, names/2, page/3, is_position/1]).
-export([watchers/0, start_link/1]).
-export([init/1, handle_continue/2]).
-export([handle_call/3, handle_cast/2, handle_info/2]).

-export_type([position/0]).

%% Behind a name of a watcher in a walk over all names: the place of the
%% watcher, and the process and the number of the name; 0 and 0 for the first.
-type position() :: {pos_integer(), pid() | 0, integer()}.

-record(state, {
    %% My place in ?NAMES.
    number :: pos_integer(),
    %% {{Pid, Number}, Scope, Name}, ordered.
    names :: ets:table(),
    %% {{Pid, Scope, Name}, Number}. Not ordered: 1 and 1.0 are two names.
    numbers :: ets:table(),
    %% {Pid, Monitor}
    monitors :: ets:table()
}).

-define(NAMES,
    {todana_name_watcher_1, todana_name_watcher_2, todana_name_watcher_3,
     todana_name_watcher_4, todana_name_watcher_5, todana_name_watcher_6,
     todana_name_watcher_7, todana_name_watcher_8}
).
%% Names that are copied at once, and freed before other messages are handled.
-define(PAGE, 1_000).
%% Names of a page that a watcher copies at once: they may be long.
-define(COPIED, 100).
%% A watcher that does not answer a page within this time has much to do.
-define(PAGE_MS, 5_000).

-doc "A process has a name, whose record was written.".
-spec watch(pid(), atom(), term()) -> ok.
watch(Pid, Scope, Name) -> inform(Pid, {watch, Pid, Scope, Name}).

-doc "A process has a name no more.".
-spec unwatch(pid(), atom(), term()) -> ok.
unwatch(Pid, Scope, Name) -> inform(Pid, {unwatch, Pid, Scope, Name}).

-doc "The names of a scope, which was stopped, are gone.".
-spec forget(atom()) -> ok.
forget(Scope) ->
    lists:foreach(
        fun(Watcher) -> gen_server:cast(Watcher, {forget, Scope}) end,
        watchers()
    ).

-doc """
The names of a process, those that the caller has registered included; `error`
if the watcher is being restarted.
""".
-spec names(pid(), atom()) -> {ok, [term()]} | error.
names(Pid, Scope) ->
    try
        {ok, gen_server:call(watcher(Pid), {names, Pid, Scope}, infinity)}
    catch
        exit:{_, {gen_server, call, _}} -> error
    end.

-doc """
Some names of a scope with their processes, how many names of all scopes were
looked at for them, and where the next ones are. A name that is there all the
time is returned once in a walk; if the watcher ends meanwhile, perhaps twice.
""".
-spec page(atom(), position() | start, pos_integer()) ->
    {[{Name :: term(), pid()}], non_neg_integer(), position() | done} | error.
page(Scope, start, Most) ->
    page(Scope, {1, 0, 0}, Most);
page(Scope, {Place, Pid, Number}, Most) ->
    Request = {page, Scope, {Pid, Number}, min(Most, ?COPIED)},
    try gen_server:call(element(Place, ?NAMES), Request, ?PAGE_MS) of
        {Owned, Looked, {NextPid, NextNumber}} ->
            {Owned, Looked, {Place, NextPid, NextNumber}};
        {Owned, Looked, done} when Place =:= tuple_size(?NAMES) ->
            {Owned, Looked, done};
        {Owned, Looked, done} ->
            {Owned, Looked, {Place + 1, 0, 0}}
    catch
        exit:{_, {gen_server, call, _}} -> error
    end.

-doc "Whether a client may have this position from a page.".
-spec is_position(term()) -> boolean().
is_position({Place, Pid, Number}) ->
    is_integer(Place) andalso Place >= 1 andalso Place =< tuple_size(?NAMES)
        andalso (is_pid(Pid) orelse Pid =:= 0) andalso is_integer(Number);
is_position(_Term) ->
    false.

-spec watchers() -> [atom()].
watchers() -> tuple_to_list(?NAMES).

-spec start_link(pos_integer()) -> gen_server:start_ret().
start_link(Number) ->
    Name = element(Number, ?NAMES),
    gen_server:start_link({local, Name}, ?MODULE, Number, []).

-spec inform(pid(), term()) -> ok.
inform(Pid, Message) -> todana_watchers:inform(watcher(Pid), Message).

-spec watcher(pid()) -> atom().
watcher(Pid) -> todana_watchers:of_process(Pid, ?NAMES).

-spec init(pos_integer()) -> {ok, #state{}, {continue, read}}.
init(Number) ->
    State = #state{
        number = Number,
        names = ets:new(todana_names, [ordered_set, private]),
        numbers = ets:new(todana_name_numbers, [set, private]),
        monitors = ets:new(todana_named, [set, private])
    },
    {ok, State, {continue, read}}.

-spec handle_continue(read, #state{}) -> {noreply, #state{}}.
handle_continue(read, State) ->
    lists:foreach(
        fun(Scope) -> read(Scope, State) end, todana_name_scopes:all()
    ),
    {noreply, State}.

-spec read(atom(), #state{}) -> ok.
read(Scope, #state{number = Number} = State) ->
    Add = fun(Name, Pid, ok) ->
        case todana_watchers:number(Pid, ?NAMES) of
            Number -> add(Pid, Scope, Name, State);
            _ -> ok
        end
    end,
    Read = fun(Table) -> todana_name_scopes:fold(Add, ok, Table) end,
    in_table(Scope, Read, ok).

-spec handle_call(
    {names, pid(), atom()}
    | {page, atom(), {pid() | 0, integer()}, pos_integer()},
    gen_server:from(), #state{}
) -> {reply, term(), #state{}}.
handle_call({names, Pid, Scope}, _From, #state{names = Names} = State) ->
    Of = [{{{Pid, '_'}, '$1', '$2'}, [{'=:=', '$1', {const, Scope}}], ['$2']}],
    {reply, ets:select(Names, Of), State};
handle_call({page, Scope, Key, Most}, _From, #state{names = Names} = State) ->
    {reply, page(Names, Scope, Key, Most, 0, []), State}.

-spec page(
    ets:table(), atom(), {pid() | 0, integer()}, non_neg_integer(),
    non_neg_integer(), [{term(), pid()}]
) ->
    {[{Name :: term(), pid()}], Looked :: non_neg_integer(),
        {pid() | 0, integer()} | done}.
page(_Names, _Scope, Key, Most, Looked, Owned) when
    Most =:= 0; Looked =:= ?PAGE
->
    {lists:reverse(Owned), Looked, Key};
page(Names, Scope, Key, Most, Looked, Owned) ->
    case ets:next_lookup(Names, Key) of
        {{Pid, _} = Next, [{_, Scope, Name}]} ->
            All = [{Name, Pid} | Owned],
            page(Names, Scope, Next, Most - 1, Looked + 1, All);
        {Next, [_OfAnotherScope]} ->
            page(Names, Scope, Next, Most, Looked + 1, Owned);
        '$end_of_table' ->
            {lists:reverse(Owned), Looked, done}
    end.

-spec handle_cast({forget, atom()}, #state{}) -> {noreply, #state{}}.
handle_cast({forget, Scope}, #state{names = Names} = State) ->
    Of = [{
        {{'$1', '_'}, '$2', '$3'},
        [{'=:=', '$2', {const, Scope}}],
        [{{'$1', '$3'}}]
    }],
    ok = forget(Scope, ets:select(Names, Of, ?PAGE), State),
    {noreply, State}.

%% The scope may have been started again.
-spec forget(atom(), term(), #state{}) -> ok.
forget(_Scope, '$end_of_table', _State) ->
    ok;
forget(Scope, {Owned, Continuation}, State) ->
    _ = [
        remove(Pid, Scope, Name, State)
     || {Pid, Name} <- Owned, not has(Pid, Scope, Name)
    ],
    forget(Scope, ets:select(Continuation), State).

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({watch, Pid, Scope, Name}, State) ->
    _ = has(Pid, Scope, Name) andalso add(Pid, Scope, Name, State),
    {noreply, State};
handle_info({unwatch, Pid, Scope, Name}, State) ->
    _ = has(Pid, Scope, Name) orelse remove(Pid, Scope, Name, State),
    {noreply, State};
handle_info({'DOWN', _Monitor, process, Pid, _Reason}, State) ->
    free(Pid, State),
    {noreply, State};
handle_info({free, Pid}, State) ->
    free(Pid, State),
    {noreply, State};
handle_info(_Other, State) ->
    {noreply, State}.

-spec add(pid(), atom(), term(), #state{}) -> ok.
add(Pid, Scope, Name, #state{names = Names, monitors = Monitors} = State) ->
    Number = erlang:unique_integer([monotonic]),
    case ets:insert_new(State#state.numbers, {{Pid, Scope, Name}, Number}) of
        true ->
            true = ets:insert(Names, {{Pid, Number}, Scope, Name}),
            _ = ets:member(Monitors, Pid) orelse
                ets:insert(Monitors, {Pid, monitor(process, Pid)}),
            ok;
        false ->
            ok
    end.

-spec remove(pid(), atom(), term(), #state{}) -> ok.
remove(Pid, Scope, Name, #state{names = Names, monitors = Monitors} = State) ->
    case ets:take(State#state.numbers, {Pid, Scope, Name}) of
        [{_, Number}] -> true = ets:delete(Names, {Pid, Number});
        [] -> true
    end,
    %% An atom is more than any number.
    case ets:prev(Names, {Pid, last}) of
        {Pid, _} ->
            ok;
        _ ->
            _ = [
                demonitor(Monitor, [flush])
             || {_, Monitor} <- ets:take(Monitors, Pid)
            ],
            ok
    end.

%% The names of a process that has ended, some in each turn.
-spec free(pid(), #state{}) -> ok.
free(Pid, #state{names = Names, numbers = Numbers} = State) ->
    true = ets:delete(State#state.monitors, Pid),
    Some = [{{{Pid, '$1'}, '$2', '$3'}, [], ['$_']}],
    case ets:select(Names, Some, ?PAGE) of
        '$end_of_table' ->
            ok;
        {Owned, _} ->
            lists:foreach(
                fun({Key, Scope, Name}) ->
                    ok = free(Pid, Scope, Name),
                    true = ets:delete(Names, Key),
                    true = ets:delete(Numbers, {Pid, Scope, Name})
                end,
                Owned
            ),
            self() ! {free, Pid},
            ok
    end.

-spec free(pid(), atom(), term()) -> ok.
free(Pid, Scope, Name) ->
    Free = fun(Table) -> todana_name_scopes:free(Table, Name) end,
    _ = has(Pid, Scope, Name) andalso in_table(Scope, Free, freed),
    ok.

%% Whether the record of the name is of this process.
-spec has(pid(), atom(), term()) -> boolean().
has(Pid, Scope, Name) ->
    Owner = fun(Table) -> todana_name_scopes:owner(Table, Name) end,
    in_table(Scope, Owner, undefined) =:= Pid.

%% The result of a function of the scope's table. Another process may stop the
%% scope meanwhile.
-spec in_table(atom(), fun((ets:table()) -> Result), Result) -> Result.
in_table(Scope, Function, Otherwise) ->
    case todana_name_scopes:table(Scope) of
        none ->
            Otherwise;
        Table ->
            try Function(Table) catch error:badarg -> Otherwise end
    end.
