%% Frees the names that processes of this node have in cluster scopes when they
%% end, and takes them out of groups.
%%
%% A *claim* is the registration of a name or a member, from before it is
%% submitted. A watcher monitors its process and, until its outcome is known,
%% its caller. It removes the records of a process that has ended by a worker,
%% since a write waits for the log, and goes on trying. A record is removed only
%% if it is still that of the claim. If nobody knows whether a claim was
%% executed, its session is fenced first.
%%
%% A watcher that starts finds the claims of the one before it in the records,
%% after it has fenced the sessions: what was submitted with the knowledge of
%% that one alone is either in the records then, or is submitted again.
%%
%% If a session ends and its processes go on, their claims stay here until the
%% node has registered them again: the process that does that may end.
-module(todana_claim_watcher).
-moduledoc false.
-behaviour(gen_server).

-export([begin_claim/1, end_claim/2, release/2]).
-export([held/2, is_held/2, forget/1, watchers/0, start_link/1]).
%% Processes
-export([read_and_exit/2, free_and_exit/2]).
-export([init/1, handle_continue/2]).
-export([handle_call/3, handle_cast/2, handle_info/2]).

-export_type([claim/0]).

-type claim() :: #{
    pid := pid(),
    scope := atom(),
    key := todana_scope_records:key(),
    ref := todana_scope_records:ref(),
    on_loss := todana_scope_records:on_loss()
}.
%% Whether the outcome is known: if not, the monitor of the caller, and whether
%% the name was unregistered already.
-type stage() :: held | {begun | released, reference()}.
%% Names that are to be freed, and whether their session has to be fenced.
-type freed() :: {claim(), Fenced :: boolean()}.
-type to_free() :: [{Scope :: atom(), [freed(), ...]}].

-record(state, {
    %% My place in ?NAMES.
    number :: pos_integer(),
    %% The claims of each process, and the monitor of it while it lives.
    owners = #{} :: #{
        pid() => {
            reference() | ended,
            #{todana_scope_records:ref() => {stage(), claim()}}
        }
    },
    %% Monitors of callers.
    callers = #{} :: #{reference() => claim()},
    %% In turn, so that no scope waits for another one.
    to_free = [] :: to_free(),
    %% The worker, and what it frees.
    worker = none :: none | {pid(), atom(), [freed()]},
    reader = none :: none | pid(),
    %% Registrations that were undone while it reads.
    released = #{} :: #{todana_scope_records:ref() => []},
    %% What could not be freed a moment ago.
    resting = [] :: to_free(),
    %% Whether it knows what the watcher before it knew.
    has_read = false :: boolean()
}).

-define(NAMES,
    {todana_claim_watcher_1, todana_claim_watcher_2, todana_claim_watcher_3,
     todana_claim_watcher_4, todana_claim_watcher_5, todana_claim_watcher_6,
     todana_claim_watcher_7, todana_claim_watcher_8}
).
%% Names that are removed in one step, and their bytes there: other writes wait
%% for it.
-define(BATCH, 200).
-define(BATCH_BYTES, (4 bsl 20)).
%% After a failure.
-define(PAUSE_MS, 200).

-doc "A registration is about to be submitted by the caller.".
-spec begin_claim(claim()) -> ok.
begin_claim(#{pid := Pid} = Claim) ->
    inform(Pid, {begin_claim, self(), Claim}).

-doc "What became of it.".
-spec end_claim(claim(), held | not_held | unknown) -> ok.
end_claim(#{pid := Pid} = Claim, Outcome) ->
    inform(Pid, {end_claim, Outcome, Claim}).

-doc """
The name of a claim was unregistered. The node that has removed its records says
so: it is connected to the process's node, also if that is a guest, and the one
that has asked for it may have ended.
""".
-spec release(pid(), todana_scope_records:ref()) -> ok.
release(Pid, Ref) when node(Pid) =:= node() ->
    inform(Pid, {release, Pid, Ref});
release(Pid, Ref) ->
    lists:foreach(
        fun(Watcher) ->
            erlang:send(
                {Watcher, node(Pid)}, {release, Pid, Ref},
                [noconnect, nosuspend]
            )
        end,
        watchers()
    ).

-doc """
The claims in a scope, of its session and of those before it: all, or those
whose processes want to be informed of a loss. `some` if a watcher does not know
its own now, because it is being restarted.
""".
-spec held(atom(), all | notify) -> {all | some, [claim()]}.
held(Scope, Which) ->
    Answers = [held(Watcher, Scope, Which) || Watcher <- watchers()],
    Claims = lists:append([Of || {_, Of} <- Answers]),
    case lists:keymember(false, 1, Answers) of
        false -> {all, Claims};
        true -> {some, Claims}
    end.

-spec held(atom(), atom(), all | notify) -> {boolean(), [claim()]}.
held(Watcher, Scope, Which) ->
    try
        gen_server:call(Watcher, {held, Scope, Which}, infinity)
    catch
        exit:_ -> {false, []}
    end.

-doc "Whether a process has this registration, as its watcher knows.".
-spec is_held(pid(), todana_scope_records:ref()) -> boolean().
is_held(Pid, Ref) ->
    try
        gen_server:call(watcher(Pid), {is_held, Pid, Ref}, infinity)
    catch
        exit:_ -> false
    end.

-doc """
A scope was stopped: its names, of all sessions but one that it may have by now,
are removed by others.
""".
-spec forget(atom()) -> ok.
forget(Scope) ->
    lists:foreach(
        fun(Watcher) -> gen_server:cast(Watcher, {forget, Scope}) end,
        watchers()
    ).

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
    {ok, #state{number = Number}, {continue, read}}.

-spec handle_continue(read, #state{}) -> {noreply, #state{}}.
handle_continue(read, State) -> {noreply, read(State)}.

%% Reads the claims in a process of its own: the fence is a write.
-spec read(#state{}) -> #state{}.
read(#state{number = Number} = State) ->
    case todana_name_scopes:all_shared() of
        [] ->
            State#state{has_read = true};
        Scopes ->
            {Pid, _} = spawn_monitor(?MODULE, read_and_exit, [Scopes, Number]),
            State#state{reader = Pid}
    end.

-spec read_and_exit([todana_name_scopes:shared()], pos_integer()) ->
    no_return().
read_and_exit(Scopes, Number) ->
    exit({read, lists:append([
        claims(Scope, Number)
     || #{table := Table} = Scope <- Scopes, is_there(Table)
    ])}).

-spec claims(todana_name_scopes:shared(), pos_integer()) -> [claim()].
claims(#{scope := Scope, table := Table, session := Session}, Number) ->
    Add = fun(Key, {Pid, Ref, OnLoss}, Claims) ->
        case todana_watchers:number(Pid, ?NAMES) of
            Number ->
                [#{
                    pid => Pid, scope => Scope, key => Key, ref => Ref,
                    on_loss => OnLoss
                } | Claims];
            _ ->
                Claims
        end
    end,
    ok = todana_scope_records:fence(Table, Session),
    Claims = todana_scope_records:fold_owned(Add, [], Table, Session),
    true = is_list(Claims),
    Claims.

-spec handle_call(
    {held, atom(), all | notify} | {is_held, pid(), todana_scope_records:ref()},
    gen_server:from(), #state{}
) -> {reply, {boolean(), [claim()]} | boolean(), #state{}}.
handle_call({is_held, Pid, Ref}, _From, #state{owners = Owners} = State) ->
    case Owners of
        #{Pid := {_, #{Ref := {held, _}}}} -> {reply, true, State};
        #{} -> {reply, false, State}
    end;
handle_call({held, Scope, Which}, _From, #state{has_read = Has} = State) ->
    {reply, {Has, held_in(Scope, Which, State)}, State}.

-spec held_in(atom(), all | notify, #state{}) -> [claim()].
held_in(Scope, Which, #state{owners = Owners}) ->
    [
        Claim
     || _ := {_, Claims} <- Owners,
        _ := {held, #{scope := S, on_loss := OnLoss} = Claim} <- Claims,
        S =:= Scope, Which =:= all orelse element(1, OnLoss) =:= notify
    ].

-spec handle_cast({forget, atom()}, #state{}) -> {noreply, #state{}}.
handle_cast({forget, Scope}, State) ->
    Now = todana_name_scopes:table(Scope),
    Ended = [
        Claim
     || #{ref := {Session, _}} = Claim <- held_in(Scope, all, State),
        not is_map(Now) orelse map_get(session, Now) =/= Session
    ],
    {noreply, lists:foldl(fun remove/2, State, Ended)}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({begin_claim, Caller, Claim}, State) ->
    {noreply, begun(Caller, Claim, State)};
handle_info({end_claim, Outcome, Claim}, State) ->
    {noreply, ended(Outcome, Claim, State)};
handle_info({release, Pid, Ref}, #state{owners = Owners} = State) ->
    Noted = released(Ref, State),
    case Owners of
        #{Pid := {_, #{Ref := {{begun, Monitor}, Claim}}}} ->
            %% The caller says later that the process has the name.
            {noreply, store({released, Monitor}, Claim, Noted)};
        #{Pid := {_, #{Ref := {held, Claim}}}} ->
            {noreply, remove(Claim, Noted)};
        #{} ->
            {noreply, Noted}
    end;
handle_info({'DOWN', _, process, Pid, Reason}, #state{
    worker = {Pid, Scope, Batch}
} = State) ->
    Left =
        case Reason of
            {freed, NotFreed} -> NotFreed;
            _ -> Batch
        end,
    {noreply, worked(Scope, Left, State#state{worker = none})};
handle_info({'DOWN', _, process, Pid, Reason}, #state{
    reader = Pid
} = State) ->
    case Reason of
        {read, Claims} ->
            Read = lists:foldl(fun hold_read/2, State, Claims),
            {noreply, Read#state{
                reader = none, released = #{}, has_read = true
            }};
        _ ->
            _ = erlang:send_after(?PAUSE_MS, self(), read),
            {noreply, State#state{reader = none}}
    end;
handle_info(read, State) ->
    {noreply, read(State)};
handle_info(work, #state{to_free = ToFree, resting = Resting} = State) ->
    All = lists:foldl(fun behind/2, ToFree, Resting),
    {noreply, work(State#state{to_free = All, resting = []})};
handle_info({'DOWN', Monitor, process, Pid, _}, #state{
    callers = Callers
} = State) ->
    case Callers of
        #{Monitor := Claim} -> {noreply, caller_ended(Monitor, Claim, State)};
        #{} -> {noreply, owner_ended(Pid, State)}
    end;
handle_info(_Other, State) ->
    {noreply, State}.

-spec begun(pid(), claim(), #state{}) -> #state{}.
begun(Caller, Claim, #state{callers = Callers} = State) ->
    case find(Claim, State) of
        {ok, _Stage} ->
            State;
        error ->
            Monitor = monitor(process, Caller),
            store({begun, Monitor}, Claim, State#state{
                callers = Callers#{Monitor => Claim}
            })
    end.

-spec ended(held | not_held | unknown, claim(), #state{}) -> #state{}.
ended(held, Claim, State) ->
    case find(Claim, State) of
        {ok, {released, _}} -> remove(Claim, State);
        _ -> hold(Claim, no_caller(Claim, State))
    end;
ended(not_held, Claim, State) ->
    remove(Claim, State);
ended(unknown, #{ref := Ref} = Claim, State) ->
    work(free({Claim, true}, remove(Claim, released(Ref, State)))).

-spec caller_ended(reference(), claim(), #state{}) -> #state{}.
caller_ended(Monitor, Claim, #state{callers = Callers} = State) ->
    case find(Claim, State) of
        {ok, {_, Monitor}} -> ended(unknown, Claim, State);
        _ -> State#state{callers = maps:remove(Monitor, Callers)}
    end.

%% A claim that it knows is newer than one that was read.
-spec hold_read(claim(), #state{}) -> #state{}.
hold_read(#{ref := Ref} = Claim, #state{released = Released} = State) ->
    #{scope := Scope} = Claim,
    {Session, _} = Ref,
    case {todana_name_scopes:table(Scope), find(Claim, State)} of
        {#{session := Session}, error} when not is_map_key(Ref, Released) ->
            hold(Claim, State);
        _ ->
            State
    end.

-spec released(todana_scope_records:ref(), #state{}) -> #state{}.
released(_Ref, #state{reader = none} = State) ->
    State;
released(Ref, #state{released = Released} = State) ->
    State#state{released = Released#{Ref => []}}.

%% The process has the name, if it still lives.
-spec hold(claim(), #state{}) -> #state{}.
hold(#{pid := Pid} = Claim, #state{owners = Owners} = State) ->
    case Owners of
        #{Pid := {ended, _}} ->
            work(free({Claim, false}, remove(Claim, State)));
        #{} ->
            store(held, Claim, State)
    end.

-spec find(claim(), #state{}) -> {ok, stage()} | error.
find(#{pid := Pid, ref := Ref}, #state{owners = Owners}) ->
    case Owners of
        #{Pid := {_, #{Ref := {Stage, _}}}} -> {ok, Stage};
        #{} -> error
    end.

-spec store(stage(), claim(), #state{}) -> #state{}.
store(Stage, #{pid := Pid, ref := Ref} = Claim, State) ->
    #state{owners = Owners} = State,
    {Monitor, Claims} =
        case Owners of
            #{Pid := Owner} -> Owner;
            #{} -> {monitor(process, Pid), #{}}
        end,
    Owner1 = {Monitor, Claims#{Ref => {Stage, Claim}}},
    State#state{owners = Owners#{Pid => Owner1}}.

-spec remove(claim(), #state{}) -> #state{}.
remove(#{pid := Pid, ref := Ref} = Claim, State) ->
    #state{owners = Owners} = Without = no_caller(Claim, State),
    case Owners of
        #{Pid := {Monitor, #{Ref := _} = Claims}} when
            map_size(Claims) =:= 1
        ->
            _ = Monitor =/= ended andalso demonitor(Monitor, [flush]),
            Without#state{owners = maps:remove(Pid, Owners)};
        #{Pid := {Monitor, Claims}} ->
            Owner = {Monitor, maps:remove(Ref, Claims)},
            Without#state{owners = Owners#{Pid => Owner}};
        #{} ->
            Without
    end.

%% Nobody waits for the outcome any more.
-spec no_caller(claim(), #state{}) -> #state{}.
no_caller(Claim, #state{callers = Callers} = State) ->
    case find(Claim, State) of
        {ok, {_, Monitor}} ->
            true = demonitor(Monitor, [flush]),
            State#state{callers = maps:remove(Monitor, Callers)};
        _ ->
            State
    end.

%% Claims whose outcome is not known yet stay until it is.
-spec owner_ended(pid(), #state{}) -> #state{}.
owner_ended(Pid, #state{owners = Owners} = State) ->
    case Owners of
        #{Pid := {_, Claims}} ->
            Held = [Claim || _ := {held, Claim} <- Claims],
            Ended = State#state{owners = Owners#{Pid => {ended, Claims}}},
            work(lists:foldl(fun(Claim, S) ->
                free({Claim, false}, remove(Claim, S))
            end, Ended, Held));
        #{} ->
            State
    end.

-spec free(freed(), #state{}) -> #state{}.
free({#{scope := Scope}, _} = Freed, #state{to_free = ToFree} = State) ->
    All =
        case lists:keyfind(Scope, 1, ToFree) of
            {Scope, Of} ->
                lists:keyreplace(Scope, 1, ToFree, {Scope, [Freed | Of]});
            false ->
                ToFree ++ [{Scope, [Freed]}]
        end,
    State#state{to_free = All}.

-spec behind({atom(), [freed()]}, to_free()) -> to_free().
behind({_Scope, []}, ToFree) ->
    ToFree;
behind({Scope, Freed}, ToFree) ->
    case lists:keytake(Scope, 1, ToFree) of
        {value, {Scope, Of}, Others} -> Others ++ [{Scope, Of ++ Freed}];
        false -> ToFree ++ [{Scope, Freed}]
    end.

-spec work(#state{}) -> #state{}.
work(#state{worker = none, to_free = [{Scope, Of} | Others]} = State) ->
    {Batch, Later} = some(?BATCH, ?BATCH_BYTES, Of, []),
    {Pid, _} = spawn_monitor(?MODULE, free_and_exit, [Scope, Batch]),
    State#state{
        worker = {Pid, Scope, Batch},
        to_free = behind({Scope, Later}, Others)
    };
work(State) ->
    State.

%% One at least.
-spec some(non_neg_integer(), integer(), [freed()], [freed()]) ->
    {[freed()], [freed()]}.
some(Most, Bytes, [{#{key := Key}, _} = Freed | ToFree], Some) when
    Most > 0, Bytes > 0
->
    Left = Bytes - todana_scope_records:removal_bytes(Key),
    some(Most - 1, Left, ToFree, [Freed | Some]);
some(_Most, _Bytes, ToFree, Some) ->
    {Some, ToFree}.

%% After a failure, all of the scope waits, and what failed is the last of it.
-spec worked(atom(), Left :: [freed()], #state{}) -> #state{}.
worked(_Scope, [], State) ->
    work(State);
worked(Scope, Left, #state{to_free = ToFree, resting = Resting} = State) ->
    _ = erlang:send_after(?PAUSE_MS, self(), work),
    Of = [F || {S, All} <- ToFree, S =:= Scope, F <- All],
    work(State#state{
        to_free = lists:keydelete(Scope, 1, ToFree),
        resting = behind({Scope, Of ++ Left}, Resting)
    }).

-spec free_and_exit(atom(), [freed()]) -> no_return().
free_and_exit(Scope, Batch) -> exit({freed, free_now(Scope, Batch)}).

%% What could not be freed.
-spec free_now(atom(), [freed()]) -> [freed()].
free_now(Scope, Freed) ->
    {Unknown, Known} = lists:partition(fun({_, Fenced}) -> Fenced end, Freed),
    %% While a disk is nearly full, removals are executed and fences are not.
    free_now(Scope, [], Known) ++
        free_now(Scope, [S || {#{ref := {S, _}}, _} <- Unknown], Unknown).

-spec free_now(atom(), [todana_scope_records:session()], [freed()]) ->
    [freed()].
free_now(_Scope, _Sessions, []) ->
    [];
free_now(Scope, Sessions, Freed) ->
    Table = todana_scope_records:table(Scope),
    IsFenced = fun(S) -> todana_scope_records:fence(Table, S) =:= ok end,
    Registered = [{Key, Ref} || {#{key := Key, ref := Ref}, _} <- Freed],
    maybe
        true ?= lists:all(IsFenced, lists:usort(Sessions)),
        ok ?= todana_scope_records:remove(Table, Registered),
        []
    else
        %% The table may have been removed, with all names.
        {error, unavailable} ->
            [F || F <- Freed, is_there(Table), is_present(Scope, F)];
        _ ->
            Freed
    end.

%% A session that this node has no more has ended, or the leader ends it and
%% removes its names.
-spec is_present(atom(), freed()) -> boolean().
is_present(Scope, {#{ref := {Session, _}}, _}) ->
    case todana_name_scopes:table(Scope) of
        #{session := Session} -> true;
        _ -> false
    end.

-spec is_there(atom()) -> boolean().
is_there(Table) ->
    todana_nif:durable_state() =/= open orelse
        lists:member(Table, todana_scope_records:tables()).
