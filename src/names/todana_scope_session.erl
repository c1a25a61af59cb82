%% The sessions of this node: those of the cluster scopes that it has started.
%%
%% Once a second this process sends a heartbeat to the members of the cluster.
%% The leader answers it, and ends the sessions of a node that it has not heard
%% for ?SILENT_MS (todana_session_leader). A node whose heartbeats have not been
%% answered for ?DOUBT_MS, counted from the moment at which the last answered
%% one was sent, cannot know whether its names are others' by now
%% (todana_scope_doubt): processes that have asked for it are informed that they
%% may have lost their names, and none is registered.
%%
%% When a heartbeat is answered again, the records say what has become of the
%% sessions, after a fence: an end of the session that the leader has decided
%% about before is not written any more. A session that goes on has the names
%% that nobody has unregistered. The others are replaced; names whose processes
%% have asked for it, and members of groups, are registered again, as long as
%% that takes.
%%
%% Reads and writes of records are work of other processes: on a guest, each may
%% take as long as a write, and heartbeats and the time of the doubt must not
%% wait for that.
-module(todana_scope_session).
-moduledoc false.
-behaviour(gen_server).

-export([start_scope/1, stop_scope/1, stop_scopes/0, when_settled/3]).
-export([while_available/1]).
-export([start_link/0]).
%% Processes
-export([look_and_exit/1, verify_and_exit/1, claim_and_exit/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% How long the start of a scope waits for the log.
-define(START_MS, 30_000).
-define(PAUSE_MS, 50).
%% How long a guest waits until its seat says whether a session goes on.
-define(LOOK_MS, 2_000).
%% How long an orderly stop waits until the names are freed.
-define(STOP_MS, 2_000).
%% Claims that are registered again before the process hears of their outcome.
-define(AGAIN, 100).
%% Names that a line of the log has.
-define(SAID, 10).
%% The number of this run of the node, in the front of its sessions.
-define(RUN, {?MODULE, run}).

-type shared() :: todana_name_scopes:shared().
-type claim() :: todana_claim_watcher:claim().
-type work() :: look | verify | {claim, atom()}.
%% The fate of a session, and its claims that were lost although it goes on.
-type verdict() ::
    {goes_on, Lost :: [claim()]} | {replaced, shared()} | unknown.

-record(state, {
    timer = none :: none | reference(),
    %% Registrations whose processes know that they may have lost them.
    informed = #{} :: #{todana_scope_records:ref() => []},
    %% Claims of each scope that are to be registered again. The watchers have
    %% them, too, until that is decided.
    again = #{} :: #{atom() => [claim()]},
    %% Scopes of which the process before this one may have left some.
    unread = #{} :: #{atom() => []},
    %% The work that goes on, by its process. Each may wait for the log.
    going = #{} :: #{pid() => work()}
}).

-doc "Starts a scope on this node. `ok` if it was started before.".
-spec start_scope(atom()) ->
    ok | {error, unavailable | not_running | scope_needs_data_dir
                 | {other_class, local} | {no_scope_table, atom()}}.
start_scope(Scope) ->
    HasLog = todana_data_dir:is_open() orelse todana_guest:is_guest(),
    case {whereis(todana_sup), HasLog} of
        {undefined, _} ->
            {error, not_running};
        {_, false} ->
            {error, scope_needs_data_dir};
        _ ->
            case todana_name_scopes:table(Scope) of
                #{} -> ok;
                none -> start_new(Scope);
                _Local -> {error, {other_class, local}}
            end
    end.

-spec start_new(atom()) ->
    ok | {error, unavailable | {other_class, local} | {no_scope_table, atom()}}.
start_new(Scope) ->
    Begun = while_available(now_ms() + ?START_MS, fun() ->
        case begin_session(Scope) of
            {error, Reason} when Reason =/= differs -> {error, unavailable};
            Result -> Result
        end
    end),
    case Begun of
        {ok, Shared} ->
            %% In a node without a name, pids of its last run look like its own.
            ok = clean_older(Shared),
            started(Shared);
        {error, differs} ->
            {error, {no_scope_table, todana_scope_records:table(Scope)}};
        {error, unavailable} = Failure ->
            Failure
    end.

-spec started(shared()) -> ok | {error, unavailable | {other_class, local}}.
started(#{table := Table, session := Session} = Shared) ->
    try gen_server:call(?MODULE, {started, Shared}, infinity) of
        ok ->
            ok;
        %% Another process has been faster.
        NotStarted ->
            _ = todana_ended_sessions:clean(Table, Session),
            case NotStarted of
                already -> ok;
                Failure -> Failure
            end
    catch
        exit:_ -> {error, unavailable}
    end.

-spec begin_session(atom()) -> {ok, shared()} | {error, term()}.
begin_session(Scope) ->
    Table = todana_scope_records:table(Scope),
    Session = new_session(),
    maybe
        ok ?= todana_scope_records:open(Table),
        %% Not only with the first token: a node that goes on alone may lack it.
        Generation = todana_scope_records:generation(),
        {ok, _, _} ?= todana_scope_records:era(Table, Generation),
        ok ?= todana_scope_records:begin_session(Table, Session),
        {ok, #{scope => Scope, table => Table, session => Session}}
    end.

-spec new_session() -> todana_scope_records:session().
new_session() ->
    Number = erlang:unique_integer([positive]),
    <<(run_number())/binary, Number:32>>.

-spec run_number() -> <<_:32>>.
run_number() ->
    case persistent_term:get(?RUN, none) of
        none ->
            ok = persistent_term:put(?RUN, crypto:strong_rand_bytes(4)),
            run_number();
        Number ->
            Number
    end.

%% Ends the sessions of the runs of this node before this one. The leader ends
%% them later, if that fails.
-spec clean_older(shared()) -> ok.
clean_older(#{table := Table}) ->
    Run = run_number(),
    case todana_scope_records:sessions(Table) of
        {error, _} ->
            ok;
        Sessions ->
            lists:foreach(
                fun(Session) -> todana_ended_sessions:clean(Table, Session) end,
                [
                    Session
                 || {<<Of:4/binary, _/binary>> = Session, Node, _} <- Sessions,
                    Node =:= node(), Of =/= Run
                ]
            )
    end.

-doc """
Stops a scope on this node. Its names are freed now, or by the leader when it
can.
""".
-spec stop_scope(shared()) -> ok.
stop_scope(#{scope := Scope}) ->
    case gen_server:call(?MODULE, {stop, Scope}, infinity) of
        {ok, #{table := Table, session := Session} = Shared} ->
            lists:foreach(
                fun(Claim) -> inform(lost, Claim) end, notified([Shared])
            ),
            _ = todana_ended_sessions:clean(Table, Session),
            todana_claim_watcher:forget(Scope);
        none ->
            ok
    end.

-doc "Stops all, before the application does: within two seconds.".
-spec stop_scopes() -> ok.
stop_scopes() ->
    case todana_name_scopes:all_shared() of
        [] ->
            ok;
        Scopes ->
            {Pid, Monitor} = spawn_monitor(fun() ->
                lists:foreach(fun stop_scope/1, Scopes)
            end),
            receive
                {'DOWN', Monitor, process, Pid, _} -> ok
            after ?STOP_MS ->
                exit(Pid, kill),
                ok
            end
    end.

-doc """
Calls a function of the scope when its session goes on, and all is registered
again that is to be; once more, if it finds nothing, and that was not so any
more. `unavailable` if that takes longer than a write.
""".
-spec when_settled(atom(), NotFound, fun((shared()) -> NotFound | Result)) ->
    NotFound | Result | {error, unavailable}.
when_settled(Scope, NotFound, Function) ->
    while_available(fun() ->
        case {is_settled(Scope), todana_name_scopes:table(Scope)} of
            {true, #{} = Shared} ->
                case Function(Shared) of
                    NotFound ->
                        case is_settled(Scope) andalso not has_ended(Shared) of
                            true -> NotFound;
                            false -> {error, unavailable}
                        end;
                    Result ->
                        Result
                end;
            _ ->
                {error, unavailable}
        end
    end).

-doc "Calls a function until it can be executed, as long as a write may take.".
-spec while_available(fun(() -> Result)) -> Result.
while_available(Function) ->
    while_available(now_ms() + todana_durable:timeout_ms(), Function).

-spec while_available(integer(), fun(() -> Result)) -> Result.
while_available(DeadlineMs, Function) ->
    case {Function(), now_ms() < DeadlineMs} of
        {{error, unavailable}, true} ->
            timer:sleep(?PAUSE_MS),
            while_available(DeadlineMs, Function);
        {Result, _} ->
            Result
    end.

%% As far as this node knows.
-spec is_settled(atom()) -> boolean().
is_settled(Scope) ->
    try
        gen_server:call(?MODULE, {is_settled, Scope}, infinity)
    catch
        exit:_ -> false
    end.

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% What the process before this one knew is lost: its names may be, too.
-spec init([]) -> {ok, #state{}}.
init([]) ->
    %% Its work ends with it, before the next one begins it anew.
    _ = process_flag(trap_exit, true),
    Shared = todana_name_scopes:all_shared(),
    Scopes = [Scope || #{scope := Scope} <- Shared],
    ok = todana_scope_doubt:create(Scopes),
    ok = todana_claim_basis:create(),
    %% Nothing is registered until a heartbeat is answered.
    self() ! beat,
    State = #state{unread = #{Scope => [] || Scope <- Scopes}},
    {ok, lost(notified(Shared), until_doubt(State))}.

%% Exactly: a beat may be late.
-spec until_doubt(#state{}) -> #state{}.
until_doubt(#state{timer = Timer} = State) ->
    _ = Timer =/= none andalso erlang:cancel_timer(Timer),
    Next = erlang:start_timer(
        todana_scope_doubt:from_ms(), self(), doubt, [{abs, true}]
    ),
    State#state{timer = Next}.

-spec handle_call(
    {started, shared()} | {stop, atom()} | {is_settled, atom()},
    gen_server:from(), #state{}
) -> {reply, term(), #state{}}.
handle_call({started, #{scope := Scope} = Shared}, _From, State) ->
    case todana_name_scopes:table(Scope) of
        none -> {reply, ok, started(Shared, State)};
        #{} -> {reply, already, State};
        _Local -> {reply, {error, {other_class, local}}, State}
    end;
handle_call({stop, Scope}, _From, State) ->
    #state{again = Again, unread = Unread} = State,
    case todana_name_scopes:table(Scope) of
        #{} = Shared ->
            ok = todana_name_scopes:unshare(Scope),
            ok = todana_scope_doubt:trust(Scope),
            ok = todana_name_cache:close(maps:get(table, Shared)),
            ok = todana_claim_basis:forget(maps:get(session, Shared)),
            Others = State#state{
                again = maps:remove(Scope, Again),
                unread = maps:remove(Scope, Unread)
            },
            {reply, {ok, Shared}, Others};
        _ ->
            {reply, none, State}
    end;
handle_call({is_settled, Scope}, _From, State) ->
    #state{again = Again, going = Going} = State,
    IsSettled =
        not todana_scope_doubt:is_doubtful(Scope) andalso
        not is_map_key(Scope, Again) andalso
        not lists:member({claim, Scope}, maps:values(Going)),
    {reply, IsSettled, State}.

%% With the first one, heartbeats begin.
-spec started(shared(), #state{}) -> #state{}.
started(Shared, State) ->
    ok = case todana_name_scopes:all_shared() of
        [] -> todana_scope_doubt:answered(now_ms());
        _ -> ok
    end,
    ok = todana_name_scopes:share(Shared),
    ok = todana_name_cache:open(maps:get(table, Shared)),
    self() ! beat,
    until_doubt(State).

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(beat, State) ->
    ok = todana_beat:flush(),
    case todana_name_scopes:all_shared() of
        [] -> {noreply, State#state{informed = #{}}};
        Scopes -> {noreply, claim_again(beat(Scopes, State))}
    end;
handle_info({todana_heartbeat_answer, SentMs}, State) ->
    ok = todana_scope_doubt:answered(SentMs),
    {noreply, verify(until_doubt(State))};
handle_info({timeout, Timer, doubt}, #state{timer = Timer} = State) ->
    Scopes = todana_name_scopes:all_shared(),
    {noreply, doubt(Scopes, State#state{timer = none})};
handle_info({'DOWN', _, process, Pid, Result}, #state{going = Going} = State) ->
    Others = State#state{going = maps:remove(Pid, Going)},
    case {Going, Result} of
        {#{Pid := look}, {looked, Ended}} ->
            StillNow = [Shared || Shared <- Ended, is_now(Shared)],
            {noreply, doubt(StillNow, Others)};
        {#{Pid := verify}, {verified, Found}} ->
            {noreply, claim_again(verified(Found, Others))};
        {#{Pid := {claim, Scope}}, {claimed, Regained, Decided}} ->
            ok = say_lost(Scope, Decided -- Regained),
            Informed = regained(Regained, Others),
            Next = decided(Scope, Decided, Informed),
            %% After a failure, with the next beat.
            case Decided of
                [] -> {noreply, Next};
                _ -> {noreply, claim_again(Next)}
            end;
        _ ->
            {noreply, Others}
    end;
handle_info(_Other, State) ->
    {noreply, State}.

%% A session may also be ended by a leader whose clock is wrong.
-spec beat([shared()], #state{}) -> #state{}.
beat(Scopes, State) ->
    Sessions = [Session || #{session := Session} <- Scopes],
    ok = todana_session_leader:heartbeat(Sessions),
    run(look, look_and_exit, [Scopes], inform_late(State)).

-spec look_and_exit([shared()]) -> no_return().
look_and_exit(Scopes) ->
    exit({looked, [Shared || Shared <- Scopes, has_ended(Shared)]}).

-spec is_now(shared()) -> boolean().
is_now(#{scope := Scope} = Shared) ->
    todana_name_scopes:table(Scope) =:= Shared.

%% A registration may have been acknowledged when the doubt began, or its
%% watcher may have been starting.
-spec inform_late(#state{}) -> #state{}.
inform_late(State) -> lost(notified(doubtful()), State).

-spec doubtful() -> [shared()].
doubtful() ->
    [
        Shared
     || #{scope := Scope} = Shared <- todana_name_scopes:all_shared(),
        todana_scope_doubt:is_doubtful(Scope)
    ].

%% First the mark: a registration that does not see it has informed its watcher
%% before.
-spec doubt([shared()], #state{}) -> #state{}.
doubt(Scopes, State) ->
    New = [
        Shared
     || #{scope := Scope} = Shared <- Scopes,
        not todana_scope_doubt:is_doubtful(Scope)
    ],
    lists:foreach(
        fun(#{scope := Scope}) -> todana_scope_doubt:doubt(Scope) end, New
    ),
    _ = New =/= [] andalso logger:warning(
        "todana: the leader of the cluster does not answer this node, and may "
        "free what its processes have in ~0tp",
        [[Scope || #{scope := Scope} <- New]]
    ),
    lost(notified(New), State).

%% Each process gets the message once for a doubt.
-spec lost([claim()], #state{}) -> #state{}.
lost(Claims, #state{informed = Informed} = State) ->
    New = [Claim || #{ref := Ref} = Claim <- Claims,
                    not is_map_key(Ref, Informed)],
    lists:foreach(fun(Claim) -> inform(lost, Claim) end, New),
    Refs = #{Ref => [] || #{ref := Ref} <- New},
    State#state{informed = maps:merge(Informed, Refs)}.

%% A guest without a seat does not know.
-spec has_ended(shared()) -> boolean().
has_ended(#{table := Table, session := Session}) ->
    case todana_scope_records:session(Table, Session, ?LOOK_MS) of
        {ok, {_Node, live}, _} -> false;
        {error, _} -> false;
        _Ended -> true
    end.

%% The leader counts from a moment ago again.
-spec verify(#state{}) -> #state{}.
verify(State) ->
    Scopes = doubtful(),
    case Scopes =/= [] andalso todana_scope_doubt:is_answered() of
        true -> run(verify, verify_and_exit, [Scopes], State);
        false -> State
    end.

-spec verify_and_exit([shared()]) -> no_return().
verify_and_exit(Scopes) ->
    exit({verified, [{Shared, verdict(Shared)} || Shared <- Scopes]}).

%% None, while a watcher does not know its claims: they would neither be
%% registered again, nor their processes be informed.
-spec verdict(shared()) -> verdict().
verdict(#{scope := Scope} = Shared) ->
    case todana_claim_watcher:held(Scope, all) of
        {all, Claims} -> verdict(Shared, of_session(Shared, Claims));
        {some, _} -> unknown
    end.

-spec verdict(shared(), [claim()]) -> verdict().
verdict(#{scope := Scope, table := Table, session := Session}, Claims) ->
    maybe
        %% In this order: a fence of a record that is not the newest is none.
        ok ?= todana_scope_records:refresh(Table, linear),
        ok ?= todana_scope_records:fence(Table, Session),
        {ok, {_Node, live}, _} ?= todana_scope_records:session(Table, Session),
        {goes_on, [Claim || Claim <- Claims, not is_held(Table, Claim)]}
    else
        {error, _} ->
            unknown;
        _Ended ->
            case begin_session(Scope) of
                {ok, Next} -> {replaced, Next};
                {error, _} -> unknown
            end
    end.

%% Somebody may have got the name, with its token or after he has freed it.
-spec is_held(atom(), claim()) -> boolean().
is_held(Table, #{key := Key, ref := Ref}) ->
    case todana_scope_records:read(Table, Key) of
        {ok, Value, _} -> element(2, Value) =:= Ref;
        {none, _} -> false;
        {error, _} -> true
    end.

-spec verified([{shared(), verdict()}], #state{}) -> #state{}.
verified(Found, State) -> lists:foldl(fun verified_one/2, State, Found).

-spec verified_one({shared(), verdict()}, #state{}) -> #state{}.
verified_one({_Before, unknown}, State) ->
    State;
verified_one({#{scope := Scope} = Before, Verdict}, State) ->
    IsAnswered = todana_scope_doubt:is_answered(),
    case {is_now(Before), Verdict, todana_claim_watcher:held(Scope, all)} of
        {true, {goes_on, Lost}, {all, Claims}} when IsAnswered ->
            goes_on(Before, Lost, Claims, State);
        {true, {replaced, Next}, {all, Claims}} ->
            %% If that took too long, the next answer is about the new one.
            ok = case IsAnswered of
                true -> todana_scope_doubt:trust(Scope);
                false -> ok
            end,
            replaced(Before, Next, Claims, State);
        %% The scope was stopped meanwhile, or the fence took so long that the
        %% leader may have counted on, or a watcher has ended. The leader ends a
        %% session that was begun for nothing.
        _ ->
            State
    end.

-spec goes_on(shared(), Lost :: [claim()], [claim()], #state{}) -> #state{}.
goes_on(#{scope := Scope} = Shared, Lost, Claims, State) ->
    logger:notice(
        "todana: the leader answers this node again; its processes have kept "
        "what they had in ~0tp", [Scope]
    ),
    ok = say_lost(Scope, Lost),
    ok = release(Lost),
    ok = todana_scope_doubt:trust(Scope),
    Kept = of_session(Shared, Claims),
    regained(Kept -- Lost, wanted(Scope, [], Claims -- Kept, State)).

-spec replaced(shared(), shared(), [claim()], #state{}) -> #state{}.
replaced(#{scope := Scope, session := Session} = Before, Next, All, State) ->
    Claims = of_session(Before, All),
    logger:warning(
        "todana: the leader answers this node again, and has freed what its "
        "processes had in ~0tp; ~b registrations are made again",
        [Scope, length([Claim || Claim <- Claims, is_again(Claim)])]
    ),
    ok = todana_name_scopes:share(Next),
    ok = todana_claim_basis:forget(Session),
    wanted(Scope, Claims, All -- Claims, State).

%% These claims are to be registered again, and older ones that the process
%% before this one has left.
-spec wanted(atom(), [claim()], Older :: [claim()], #state{}) -> #state{}.
wanted(Scope, Claims, Older, #state{again = Again, unread = Unread} = State) ->
    Left = case is_map_key(Scope, Unread) of
        true -> Older;
        false -> []
    end,
    Wanted = maps:get(Scope, Again, []) ++ Left ++ Claims,
    lost(Left ++ Claims, State#state{
        again = Again#{Scope => Wanted}, unread = maps:remove(Scope, Unread)
    }).

-spec release([claim()]) -> ok.
release(Claims) ->
    lists:foreach(
        fun(#{pid := Pid, ref := Ref}) ->
            todana_claim_watcher:release(Pid, Ref)
        end,
        Claims
    ).

-spec is_again(claim()) -> boolean().
is_again(#{on_loss := {_, nothing}}) -> false;
is_again(_Claim) -> true.

%% The processes go on, and most of them are not informed.
-spec say_lost(atom(), [claim()]) -> ok.
say_lost(_Scope, []) ->
    ok;
say_lost(Scope, Claims) ->
    Names = [
        Name
     || #{key := Key} <- Claims,
        {name, Name} <- [todana_scope_records:name_of(Key)]
    ],
    logger:warning(
        "todana: ~b processes of this node have lost names in ~0tp, and go on: "
        "~0tP", [length(Names), Scope, lists:sublist(Names, ?SAID), 40]
    ).

%% Those who know that they may have lost it.
-spec regained([claim()], #state{}) -> #state{}.
regained(Claims, #state{informed = Informed} = State) ->
    lists:foreach(
        fun(#{ref := Ref} = Claim) ->
            _ = is_map_key(Ref, Informed) andalso inform(regained, Claim)
        end,
        Claims
    ),
    Refs = [Ref || #{ref := Ref} <- Claims],
    State#state{informed = maps:without(Refs, Informed)}.

%% Registers what was lost, some at a time.
-spec claim_again(#state{}) -> #state{}.
claim_again(#state{again = Again} = State) ->
    maps:fold(
        fun
            (Scope, [], S) ->
                S#state{again = maps:remove(Scope, S#state.again)};
            (Scope, Claims, S) ->
                Some = lists:sublist(Claims, ?AGAIN),
                run({claim, Scope}, claim_and_exit, [Scope, Some], S)
        end,
        State,
        Again
    ).

%% Those that have their names again, and all of which nothing is left to do.
-spec claim_and_exit(atom(), [claim()]) -> no_return().
claim_and_exit(Scope, Claims) ->
    Outcomes = [{Claim, again(Scope, Claim)} || Claim <- Claims],
    exit({
        claimed,
        [Claim || {Claim, regained} <- Outcomes],
        [Claim || {Claim, Outcome} <- Outcomes, Outcome =/= failed]
    }).

-spec again(atom(), claim()) -> regained | not_regained | failed.
again(Scope, #{pid := Pid} = Claim) ->
    case {todana_name_scopes:table(Scope), is_process_alive(Pid)} of
        {#{} = Shared, true} -> again_in(Shared, Claim);
        _ -> not_regained
    end.

-spec again_in(shared(), claim()) -> regained | not_regained | failed.
again_in(Shared, #{on_loss := join_again} = Claim) ->
    case todana_group_members:join_again(Shared, Claim) of
        %% At once: a second time, it would be a member twice.
        ok -> release([Claim]), regained;
        {error, _} -> failed
    end;
again_in(Shared, #{on_loss := {_, {again, Metadata}} = OnLoss} = Claim) ->
    #{key := Key, pid := Pid} = Claim,
    Options = #{metadata => Metadata, on_loss => OnLoss},
    {name, Name} = todana_scope_records:name_of(Key),
    case todana_cluster_names:register(Shared, Name, Pid, Options) of
        {yes, _Token} -> regained;
        no -> again_owned(Shared, Claim);
        {error, _} -> failed
    end;
again_in(_Shared, _Claim) ->
    not_regained.

%% Its process may have the name by a registration of its own, or by an attempt
%% whose outcome is not known yet: that one is taken back.
-spec again_owned(shared(), claim()) -> regained | not_regained | failed.
again_owned(#{table := Table}, #{key := Key, pid := Pid}) ->
    case todana_scope_records:read(Table, Key) of
        {ok, {Pid, Ref, _, _}, _} ->
            case todana_claim_watcher:is_held(Pid, Ref) of
                true -> regained;
                false -> failed
            end;
        {error, _} ->
            failed;
        {none, _} ->
            failed;
        _Other ->
            not_regained
    end.

-spec decided(atom(), [claim()], #state{}) -> #state{}.
decided(Scope, Decided, #state{again = Again} = State) ->
    ok = release(Decided),
    case Again of
        #{Scope := Claims} ->
            Refs = #{Ref => [] || #{ref := Ref} <- Decided},
            Left = [C || #{ref := R} = C <- Claims, not is_map_key(R, Refs)],
            State#state{
                again = Again#{Scope := Left},
                informed = maps:without(maps:keys(Refs), State#state.informed)
            };
        #{} ->
            State
    end.

%% Those whose processes want to be informed. A watcher that is being restarted
%% does not know them, and is asked again with the next beat.
-spec notified([shared()]) -> [claim()].
notified(Scopes) ->
    lists:append([
        of_session(
            Shared, element(2, todana_claim_watcher:held(Scope, notify))
        )
     || #{scope := Scope} = Shared <- Scopes
    ]).

-spec of_session(shared(), [claim()]) -> [claim()].
of_session(#{session := Session}, Claims) ->
    [Claim || #{ref := {Of, _}} = Claim <- Claims, Of =:= Session].

%% A member of a group is not informed: it joins again.
-spec inform(lost | regained, claim()) -> ok.
inform(What, #{on_loss := {notify, _}} = Claim) ->
    #{pid := Pid, scope := Scope, key := Key} = Claim,
    {name, Name} = todana_scope_records:name_of(Key),
    Pid ! {todana_names, What, {Scope, Name}},
    ok;
inform(_What, _Claim) ->
    ok.

-spec run(work(), atom(), [term()], #state{}) -> #state{}.
run(Name, Function, Arguments, #state{going = Going} = State) ->
    case lists:member(Name, maps:values(Going)) of
        true ->
            State;
        false ->
            {Pid, _} = spawn_opt(
                ?MODULE, Function, Arguments, [link, monitor]
            ),
            State#state{going = Going#{Pid => Name}}
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
