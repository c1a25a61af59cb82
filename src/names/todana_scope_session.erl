%% The sessions of this node: those of the cluster scopes that it has started.
%%
%% Once a second this process sends a heartbeat to the members of the cluster.
%% The leader answers it, and ends the sessions of a node that it has not heard
%% for ?SILENT_MS (todana_session_leader). A node whose heartbeats have not been
%% answered for ?DOUBT_MS, counted from the moment at which the last answered
%% one was sent, cannot know whether its names are others' by now: processes
%% that have asked for it are informed that they may have lost their names.
%%
%% When a heartbeat is answered again, the records say what has become of the
%% sessions. Those that go on have all their names. The others are replaced, and
%% names whose processes have asked for it are registered again, if they are
%% free.
-module(todana_scope_session).
-moduledoc false.
-behaviour(gen_server).

-export([start_scope/1, stop_scope/1, stop_scopes/0]).
-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

%% How long the start of a scope waits for the log.
-define(START_MS, 30_000).
-define(PAUSE_MS, 50).
%% Less than ?SILENT_MS - ?PROOF_MS of the leader: a leader that answers may
%% have been replaced for as long as its proof is old. The difference is for
%% clocks that differ in rate, by a tenth at most.
-define(DOUBT_MS, 7_000).
%% How long an orderly stop waits until the names are freed.
-define(STOP_MS, 2_000).

-type work() :: verify | {clean, atom()} | {claim_again, atom()}.

-record(state, {
    %% When the last heartbeat that was answered was sent.
    received_ms :: integer(),
    timer = none :: none | reference(),
    %% Whether the names may be lost.
    is_doubtful = false :: boolean(),
    %% The work that goes on, by its process. Each may wait for the log.
    going = #{} :: #{pid() => work()}
}).

-doc "Starts a scope on this node. `ok` if it was started before.".
-spec start_scope(atom()) ->
    ok | {error, unavailable | not_running | scope_needs_data_dir
                 | {other_class, local} | {no_scope_table, atom()}}.
start_scope(Scope) ->
    case {whereis(?MODULE), todana_name_scopes:table(Scope)} of
        {undefined, _} ->
            case whereis(todana_sup) of
                undefined -> {error, not_running};
                _ -> {error, scope_needs_data_dir}
            end;
        {_, #{}} ->
            ok;
        {_, none} ->
            start_scope(Scope, now_ms() + ?START_MS);
        {_, _Local} ->
            {error, {other_class, local}}
    end.

-spec start_scope(atom(), integer()) ->
    ok | {error, unavailable | {no_scope_table, atom()}}.
start_scope(Scope, DeadlineMs) ->
    case begin_session(Scope) of
        {ok, Shared} ->
            gen_server:call(?MODULE, {started, Shared}, infinity);
        {error, differs} ->
            {error, {no_scope_table, todana_scope_records:table(Scope)}};
        {error, _} ->
            case now_ms() < DeadlineMs of
                true ->
                    timer:sleep(?PAUSE_MS),
                    start_scope(Scope, DeadlineMs);
                false ->
                    {error, unavailable}
            end
    end.

-spec begin_session(atom()) ->
    {ok, todana_name_scopes:shared()} | {error, term()}.
begin_session(Scope) ->
    Table = todana_scope_records:table(Scope),
    Session = crypto:strong_rand_bytes(8),
    maybe
        ok ?= todana_scope_records:open(Table),
        ok ?= todana_scope_records:begin_session(Table, Session),
        {ok, #{scope => Scope, table => Table, session => Session}}
    end.

-doc """
Stops a scope on this node. Its names are freed now, or by the leader when it
can.
""".
-spec stop_scope(todana_name_scopes:shared()) -> ok.
stop_scope(#{scope := Scope}) ->
    case gen_server:call(?MODULE, {stop, Scope}, infinity) of
        {ok, #{table := Table, session := Session}} ->
            _ = todana_ended_sessions:clean(Table, Session),
            todana_claim_watcher:forget(Session);
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

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% Its scopes may have been started before a crash.
-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, until_doubt(#state{received_ms = now_ms()})}.

%% Exactly: a beat may be late.
-spec until_doubt(#state{}) -> #state{}.
until_doubt(#state{received_ms = ReceivedMs, timer = Timer} = State) ->
    _ = Timer =/= none andalso erlang:cancel_timer(Timer),
    Next = erlang:start_timer(
        ReceivedMs + ?DOUBT_MS, self(), doubt, [{abs, true}]
    ),
    State#state{timer = Next}.

-spec handle_call(
    {started, todana_name_scopes:shared()} | {stop, atom()},
    gen_server:from(), #state{}
) -> {reply, term(), #state{}}.
handle_call({started, #{scope := Scope} = Shared}, _From, State) ->
    case todana_name_scopes:table(Scope) of
        none ->
            {reply, ok, started(Shared, State)};
        %% Another process has been faster.
        _ ->
            #{table := Table, session := Session} = Shared,
            Clean = fun() -> todana_ended_sessions:clean(Table, Session) end,
            {reply, ok, run({clean, Scope}, Clean, State)}
    end;
handle_call({stop, Scope}, _From, State) ->
    case todana_name_scopes:table(Scope) of
        #{} = Shared ->
            ok = todana_name_scopes:unshare(Scope),
            {reply, {ok, Shared}, State};
        _ ->
            {reply, none, State}
    end.

%% With the first one, heartbeats begin.
-spec started(todana_name_scopes:shared(), #state{}) -> #state{}.
started(#{scope := Scope} = Shared, State) ->
    ReceivedMs =
        case todana_name_scopes:all_shared() of
            [] -> now_ms();
            _ -> State#state.received_ms
        end,
    ok = todana_name_scopes:share(Shared),
    self() ! beat,
    clean_older(Scope, until_doubt(State#state{received_ms = ReceivedMs})).

%% Processes of the sessions that this node had before have ended with it, or
%% have been informed.
-spec clean_older(atom(), #state{}) -> #state{}.
clean_older(Scope, State) ->
    run({clean, Scope}, fun() -> clean_older(Scope) end, State).

-spec clean_older(atom()) -> ok.
clean_older(Scope) ->
    maybe
        #{table := Table, session := Own} ?= todana_name_scopes:table(Scope),
        Sessions = [_ | _] ?= todana_scope_records:sessions(Table),
        lists:foreach(
            fun(Session) -> todana_ended_sessions:clean(Table, Session) end,
            [S || {S, Node, _} <- Sessions, Node =:= node(), S =/= Own]
        )
    else
        _ -> ok
    end.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(beat, State) ->
    ok = todana_beat:flush(),
    case todana_name_scopes:all_shared() of
        [] -> {noreply, State};
        Scopes -> {noreply, beat(Scopes, State)}
    end;
handle_info({todana_heartbeat_answer, SentMs}, State) ->
    LastMs = max(SentMs, State#state.received_ms),
    {noreply, verify(until_doubt(State#state{received_ms = LastMs}))};
handle_info({timeout, Timer, doubt}, #state{timer = Timer} = State) ->
    Scopes = todana_name_scopes:all_shared(),
    {noreply, doubt(Scopes, State#state{timer = none})};
handle_info({'DOWN', _, process, Pid, Result}, #state{going = Going} = State) ->
    Others = State#state{going = maps:remove(Pid, Going)},
    case {Going, Result} of
        {#{Pid := verify}, {verified, Found}} ->
            {noreply, verified(Found, Others)};
        _ ->
            {noreply, Others}
    end;
handle_info(_Other, State) ->
    {noreply, State}.

%% A session may also be ended by a leader whose clock is wrong.
-spec beat([todana_name_scopes:shared()], #state{}) -> #state{}.
beat(Scopes, State) ->
    Sessions = [Session || #{session := Session} <- Scopes],
    ok = todana_session_leader:heartbeat(Sessions),
    case lists:any(fun has_ended/1, Scopes) of
        true -> doubt(Scopes, State);
        false -> State
    end.

-spec doubt([todana_name_scopes:shared()], #state{}) -> #state{}.
doubt([_ | _] = Scopes, #state{is_doubtful = false} = State) ->
    logger:warning(
        "todana: the leader of the cluster does not answer this node, and may "
        "free the names of its processes"
    ),
    lists:foreach(fun(Claim) -> inform(lost, Claim) end, on_loss(Scopes)),
    State#state{is_doubtful = true};
doubt(_Scopes, State) ->
    State.

-spec has_ended(todana_name_scopes:shared()) -> boolean().
has_ended(#{table := Table, session := Session}) ->
    case todana_scope_records:session(Table, Session) of
        {ok, {_Node, live}, _} -> false;
        {error, _} -> false;
        _Ended -> true
    end.

%% The leader counts from a moment ago again.
-spec verify(#state{}) -> #state{}.
verify(#state{is_doubtful = true, received_ms = ReceivedMs} = State) ->
    case now_ms() - ReceivedMs < ?DOUBT_MS of
        true -> run(verify, fun verify_all/0, State);
        false -> State
    end;
verify(State) ->
    State.

-spec verify_all() -> no_return().
verify_all() ->
    exit({verified, [
        {S, verify_one(S)} || S <- todana_name_scopes:all_shared()
    ]}).

%% Another session, if this one has ended.
-spec verify_one(todana_name_scopes:shared()) ->
    goes_on | todana_name_scopes:shared().
verify_one(#{scope := Scope, table := Table, session := Session}) ->
    ok = todana_scope_records:refresh(Table, linear),
    case todana_scope_records:session(Table, Session) of
        {ok, {_Node, live}, _} ->
            goes_on;
        Ended when element(1, Ended) =/= error ->
            {ok, Shared} = begin_session(Scope),
            Shared
    end.

-spec verified(
    [{todana_name_scopes:shared(), goes_on | todana_name_scopes:shared()}],
    #state{}
) -> #state{}.
verified(Found, State) ->
    lists:foldl(fun verified_one/2, State#state{is_doubtful = false}, Found).

-spec verified_one(
    {todana_name_scopes:shared(), goes_on | todana_name_scopes:shared()},
    #state{}
) -> #state{}.
verified_one({#{scope := Scope, session := Session} = Before, Now}, State) ->
    case todana_name_scopes:table(Scope) of
        #{session := Session} ->
            Claims = on_loss([Before]),
            Shared =
                case Now of goes_on -> Before; _ -> Now end,
            ok = todana_name_scopes:share(Shared),
            _ = Now =/= goes_on andalso todana_claim_watcher:forget(Session),
            Tell = fun() -> regain(Claims, Now) end,
            clean_older(Scope, run({claim_again, Scope}, Tell, State));
        %% It was stopped meanwhile: what was begun for it ends as an older one.
        _ ->
            State
    end.

-spec regain(
    [todana_claim_watcher:claim()], goes_on | todana_name_scopes:shared()
) -> ok.
regain(Claims, Now) ->
    lists:foreach(
        fun(Claim) ->
            _ = has_again(Claim, Now) andalso inform(regained, Claim)
        end,
        Claims
    ).

%% Whether the process has the name: its session goes on, or it gets it anew.
-spec has_again(
    todana_claim_watcher:claim(), goes_on | todana_name_scopes:shared()
) -> boolean().
has_again(_Claim, goes_on) ->
    true;
has_again(#{on_loss := join_again} = Claim, Shared) ->
    todana_group_members:join_again(Shared, Claim) =:= ok;
has_again(#{on_loss := {again, Metadata}, key := Key, pid := Pid}, Shared) ->
    Options = #{metadata => Metadata, on_loss => {again, Metadata}},
    {name, Name} = todana_scope_records:name_of(Key),
    case todana_cluster_names:register(Shared, Name, Pid, Options) of
        {yes, _Token} -> true;
        _ -> false
    end;
has_again(_Claim, _Shared) ->
    false.

-spec on_loss([todana_name_scopes:shared()]) ->
    [todana_claim_watcher:claim()].
on_loss(Scopes) ->
    [
        Claim
     || #{session := Session} <- Scopes,
        Claim <- todana_claim_watcher:on_loss(Session)
    ].

-spec inform(lost | regained, todana_claim_watcher:claim()) -> ok.
inform(What, #{pid := Pid, scope := Scope, key := Key}) ->
    case todana_scope_records:name_of(Key) of
        {name, Name} ->
            Pid ! {todana_names, What, {Scope, Name}},
            ok;
        %% A member of a group joins again.
        none ->
            ok
    end.

-spec run(work(), fun(() -> term()), #state{}) -> #state{}.
run(Name, Do, #state{going = Going} = State) ->
    case lists:member(Name, maps:values(Going)) of
        true ->
            State;
        false ->
            {Pid, _} = spawn_monitor(Do),
            State#state{going = Going#{Pid => Name}}
    end.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
