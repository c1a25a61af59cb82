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
    Members = todana_members:known(todana_raft_groups:first()),
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

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({todana_heartbeat, From, SentMs, Sessions}, State) ->
    case led(State) of
        #state{leads = true, received_ms = ReceivedMs} = Leading ->
            NowMs = now_ms(),
            Received = #{Session => NowMs || Session <- Sessions},
            From ! {todana_heartbeat_answer, SentMs},
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
    NowMs = now_ms(),
    IsSilent = fun(Session) ->
        NowMs - maps:get(Session, ReceivedMs, NowMs) > ?SILENT_MS
    end,
    {Pid, _} = spawn_monitor(?MODULE, look_and_exit, [IsSilent]),
    State#state{looker = Pid};
look(State) ->
    State.

-spec look_and_exit(fun((session()) -> boolean())) -> no_return().
look_and_exit(IsSilent) ->
    Looks = [look(T, IsSilent) || T <- todana_scope_records:tables()],
    {Live, Ended} = lists:unzip(Looks),
    exit({looked, lists:append(Live), lists:append(Ended)}).

%% The sessions of a scope that go on, and those that have ended. A name is free
%% as soon as its session has ended; its records are removed afterwards.
-spec look(atom(), fun((session()) -> boolean())) ->
    {[session()], [{atom(), session()}]}.
look(Table, IsSilent) ->
    ok = todana_scope_records:open_known(Table),
    Sessions = todana_scope_records:sessions(Table),
    true = is_list(Sessions),
    Silent = [S || {S, _Node, live} <- Sessions, IsSilent(S)],
    lists:foreach(
        fun(Session) -> end_one(Table, Session, Sessions) end, Silent
    ),
    {
        [S || {S, _Node, live} <- Sessions],
        [{Table, S} || {S, _Node, gone} <- Sessions]
    }.

-spec end_one(atom(), session(), [{session(), node(), live | gone}]) -> ok.
end_one(Table, Session, Sessions) ->
    logger:notice(
        "todana: names of ~s are freed: it was not received for ~b s",
        [node_of(Session, Sessions), ?SILENT_MS div 1000]
    ),
    ok = todana_scope_records:end_session(Table, Session, gone).

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

-spec node_of(session(), [{session(), node(), live | gone}]) -> node().
node_of(Session, Sessions) ->
    {Session, Node, _} = lists:keyfind(Session, 1, Sessions),
    Node.

-spec now_ms() -> integer().
now_ms() -> erlang:monotonic_time(millisecond).
