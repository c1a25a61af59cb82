%% How often a node shows others that it lives: the application aten, by which
%% Ra notices that a node is gone.
%%
%% It sends ten heartbeats a second to each connected node, also to those that
%% have no use for them. A node without a cluster needs none, and would wake up
%% for them. Guests need none: they have no Ra. So this process sends the
%% heartbeats of a member, at the same times, in place of aten's own: to all
%% connected nodes but those that have said that they want none (todana_guest).
%% Heartbeats that arrive are aten's affair.
%%
%% If somebody has set the interval, or has started aten before Todana, nothing
%% changes; nor does the interval in somebody else's node, whose application may
%% use Ra, too.
-module(todana_heartbeats).
-moduledoc false.
-behaviour(gen_server).

-export([prepare/0, adapt/1, start_link/0, resting/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2, terminate/2]).

%% The default of aten, and what a node without a cluster has, in milliseconds.
-define(BEATING_MS, 100).
-define(RESTING_MS, 60_000).
%% In the environment of aten: what may be changed, the interval (`all') or only
%% to whom heartbeats are sent (`recipients').
-define(OURS, todana).
-define(EMITTER, aten_emitter).

-record(state, {
    %% Processes of nodes that want no heartbeats.
    resting = #{} :: #{pid() => reference()}
}).

-doc "Called before aten is started.".
-spec prepare() -> ok.
prepare() ->
    _ = application:load(aten),
    application:set_env(aten, ?OURS, case interval_ms() of
        ?BEATING_MS ->
            case todana_foreground:is_starting() of
                true -> all;
                false -> recipients
            end;
        _ ->
            none
    end).

-doc "Adapts the interval to a member of a cluster, or to a node without one.".
-spec adapt(todana_data_dir:opened()) -> ok.
adapt(#{cluster := Cluster}) ->
    Wanted = case Cluster of none -> ?RESTING_MS; _ -> ?BEATING_MS end,
    case ours() =:= all andalso interval_ms() =/= Wanted of
        true ->
            ok = application:set_env(aten, heartbeat_interval, Wanted),
            %% It reads it when it starts.
            _ = supervisor:terminate_child(aten_sup, ?EMITTER),
            _ = supervisor:restart_child(aten_sup, ?EMITTER),
            ok;
        false ->
            ok
    end.

-spec ours() -> all | recipients | none.
ours() -> application:get_env(aten, ?OURS, none).

-spec interval_ms() -> term().
interval_ms() -> application:get_env(aten, heartbeat_interval, unset).

-doc "Starts the process of a member, unless aten is somebody else's.".
-spec start_link() -> gen_server:start_ret().
start_link() ->
    case ours() of
        none -> ignore;
        _ -> gen_server:start_link({local, ?MODULE}, ?MODULE, [], [])
    end.

-doc "The nodes that want no heartbeats.".
-spec resting() -> [node()].
resting() -> gen_server:call(?MODULE, resting).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    _ = process_flag(trap_exit, true),
    ok = net_kernel:monitor_nodes(true),
    lists:foreach(fun ask/1, nodes()),
    _ = supervisor:terminate_child(aten_sup, ?EMITTER),
    ok = again(),
    {ok, #state{}}.

-spec handle_call(resting, gen_server:from(), #state{}) ->
    {reply, [node()], #state{}}.
handle_call(resting, _From, State) ->
    {reply, resting(State), State}.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info(emit, State) ->
    ok = again(),
    %% One that does not take it now gets the next one.
    _ = [aten_sink:beat(Node) || Node <- nodes() -- resting(State)],
    {noreply, State};
handle_info({nodeup, Node}, State) ->
    ok = ask(Node),
    {noreply, State};
%% From guests.
handle_info({rests, Pid}, #state{resting = Resting} = State) ->
    {noreply, case Resting of
        #{Pid := _} -> State;
        #{} -> State#state{resting = Resting#{Pid => monitor(process, Pid)}}
    end};
handle_info({beats, Pid}, State) ->
    {noreply, beats(Pid, State)};
handle_info({'DOWN', _, process, Pid, _}, State) ->
    {noreply, beats(Pid, State)};
handle_info(_Message, State) ->
    {noreply, State}.

%% Others may use Ra in this node.
-spec terminate(term(), #state{}) -> ok.
terminate(_Reason, _State) ->
    _ = try supervisor:restart_child(aten_sup, ?EMITTER) catch exit:_ -> ok end,
    ok.

-spec beats(pid(), #state{}) -> #state{}.
beats(Pid, #state{resting = Resting} = State) ->
    case maps:take(Pid, Resting) of
        {Monitor, Others} ->
            true = demonitor(Monitor, [flush]),
            State#state{resting = Others};
        error ->
            State
    end.

-spec resting(#state{}) -> [node()].
resting(#state{resting = Resting}) -> [node(Pid) || Pid := _ <- Resting].

%% A node that is no guest does not answer, and gets heartbeats.
-spec ask(node()) -> ok.
ask(Node) ->
    Question = {heartbeats, self()},
    _ = erlang:send({todana_guest, Node}, Question, [noconnect, nosuspend]),
    ok.

-spec again() -> ok.
again() ->
    _ = erlang:send_after(?BEATING_MS, self(), emit),
    ok.
