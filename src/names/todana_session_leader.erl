%% Ends the sessions of nodes that are silent.
%%
%% The leader of the cluster counts by its own clock, from the last heartbeat of
%% a session, or from its first look at it as the leader: no heartbeat is
%% written. It answers one only while it has proved a moment ago that it leads.
%% So no session is ended sooner than ?SILENT_MS - ?PROOF_MS after the last
%% answer, also by the next leader.
-module(todana_session_leader).
-moduledoc false.
-behaviour(gen_server).

-export([heartbeat/1]).
-export([start_link/0]).
%% A process
-export([look_and_exit/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(SILENT_MS, 10_000).
%% Less than what `todana_scope_session' gives up of it.
-define(PROOF_MS, 1_900).
%% Longer than a session that is silent can live.
-define(KEPT_MS, 60_000).

-type session() :: todana_scope_records:session().

-record(state, {
    leads = false :: boolean(),
    %% When each session was heard, or seen for the first time.
    received_ms = #{} :: #{session() => integer()},
    %% The process that looks, and the one that removes names.
    looker = none :: none | pid(),
    cleaner = none :: none | pid()
}).

-doc "Sends the members that sessions of this node, and the caller, go on.".
-spec heartbeat([session()]) -> ok.
heartbeat(Sessions) ->
    Message = {todana_heartbeat, self(), now_ms(), Sessions},
    Members = case todana_guest:is_guest() of
        true -> todana_guest:members();
        false -> todana_members:known(todana_raft_groups:first())
    end,
    lists:foreach(
        fun(Node) ->
            erlang:send({?MODULE, Node}, Message, [noconnect, nosuspend])
        end,
        Members
    ).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, #state{}}.

%% Asked when the session has been read: a heartbeat may have come since the
%% look began, or have waited in the queue of this process. If it is answered,
%% the node fences its session before it relies on it. Or this node may lead no
%% more, and another one hears the heartbeats.
-spec handle_call({is_silent, session()}, gen_server:from(), #state{}) ->
    {reply, boolean(), #state{}}.
handle_call({is_silent, Session}, _From, Before) ->
    #state{leads = Leads, received_ms = ReceivedMs} = State = led(Before),
    {reply, Leads andalso is_silent(Session, ReceivedMs), State}.

-spec is_silent(session(), #{session() => integer()}) -> boolean().
is_silent(Session, ReceivedMs) ->
    NowMs = now_ms(),
    NowMs - maps:get(Session, ReceivedMs, NowMs) > ?SILENT_MS.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({todana_heartbeat, From, SentMs, Sessions}, State) ->
    case led(State) of
        #state{leads = true, received_ms = ReceivedMs} = Leading ->
            NowMs = now_ms(),
            Received = #{Session => NowMs || Session <- Sessions},
            _ = erlang:send(
                From, {todana_heartbeat_answer, SentMs}, [noconnect, nosuspend]
            ),
            All = maps:merge(ReceivedMs, Received),
            {noreply, Leading#state{received_ms = All}};
        Following ->
            {noreply, Following}
    end;
handle_info(beat, State) ->
    ok = todana_beat:flush(),
    {noreply, look(led(State))};
handle_info({'DOWN', _, process, Pid, Result}, #state{looker = Pid} = State) ->
    Others = State#state{looker = none},
    case Result of
        {looked, Live, Ended} -> {noreply, clean(Ended, seen(Live, Others))};
        _ -> {noreply, Others}
    end;
handle_info({'DOWN', _, process, Pid, _}, #state{cleaner = Pid} = State) ->
    {noreply, State#state{cleaner = none}};
handle_info(_Other, State) ->
    {noreply, State}.

-spec led(#state{}) -> #state{}.
led(#state{leads = Led} = State) ->
    case leads() of
        Led -> State;
        Leads -> State#state{leads = Leads, received_ms = #{}}
    end.

-spec leads() -> boolean().
leads() ->
    Group = todana_raft_groups:first(),
    todana_members:leader(Group) =:= node() andalso
        not todana_leader_proof:is_silent(Group, ?PROOF_MS).

%% A session that has just begun, or a leader, counts from its first look.
-spec seen([session()], #state{}) -> #state{}.
seen(Live, #state{received_ms = ReceivedMs} = State) ->
    NowMs = now_ms(),
    Known = #{
        Session => Ms
     || Session := Ms <- ReceivedMs, NowMs - Ms < ?KEPT_MS
    },
    First = #{Session => NowMs || Session <- Live},
    State#state{received_ms = maps:merge(First, Known)}.

-spec look(#state{}) -> #state{}.
look(#state{leads = true, looker = none, received_ms = ReceivedMs} = State) ->
    IsSilent = fun(Session) -> is_silent(Session, ReceivedMs) end,
    {Pid, _} = spawn_monitor(?MODULE, look_and_exit, [IsSilent]),
    State#state{looker = Pid};
look(State) ->
    State.

-spec look_and_exit(fun((session()) -> boolean())) -> no_return().
look_and_exit(IsSilent) ->
    Looks = [look_at(T, IsSilent) || T <- todana_scope_records:tables()],
    {Live, Ended} = lists:unzip(Looks),
    exit({looked, lists:append(Live), lists:append(Ended)}).

%% A table that is none of a scope, or is just removed, keeps no other one from
%% being looked at.
-spec look_at(atom(), fun((session()) -> boolean())) ->
    {[session()], [{atom(), session()}]}.
look_at(Table, IsSilent) ->
    try look(Table, IsSilent) catch error:_ -> {[], []} end.

%% The sessions of a scope that go on, and those that have ended. A name is free
%% as soon as its session has ended; its records are removed afterwards.
-spec look(atom(), fun((session()) -> boolean())) ->
    {[session()], [{atom(), session()}]}.
look(Table, IsSilent) ->
    ok = todana_scope_records:open_known(Table),
    Sessions = todana_scope_records:sessions(Table),
    true = is_list(Sessions),
    Silent = [
        S
     || {S, Node, live} <- Sessions, IsSilent(S), end_one(Table, S, Node)
    ],
    {
        [S || {S, _Node, live} <- Sessions],
        [{Table, S} || S <- Silent ++ [S || {S, _Node, gone} <- Sessions]]
    }.

-spec end_one(atom(), session(), node()) -> boolean().
end_one(Table, Session, Node) ->
    IsSilent = fun() ->
        gen_server:call(?MODULE, {is_silent, Session}, infinity)
    end,
    case todana_scope_records:end_session(Table, Session, IsSilent) of
        ok ->
            logger:notice(
                "todana: what processes of ~s have in ~s is freed: no "
                "heartbeat of it came for ~b s",
                [Node, Table, ?SILENT_MS div 1000]
            ),
            true;
        _NotEnded ->
            false
    end.

-spec clean([{atom(), session()}], #state{}) -> #state{}.
clean([_ | _] = Ended, #state{cleaner = none} = State) ->
    {Pid, _} = spawn_monitor(fun() ->
        lists:foreach(
            fun({Table, Session}) ->
                todana_ended_sessions:clean(Table, Session)
            end,
            Ended
        )
    end),
    State#state{cleaner = Pid};
clean(_Ended, State) ->
    State.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
