%% Subscriptions of a guest: a process at the seat, the *source*, subscribes in
%% place of the one in the guest, which takes the events from it
%% (`todana_event_source').
%%
%%     subscriber <- {todana, Ref, ready} <- the source at the seat <- the table
%%     subscriber -- events/1 ----------->
%%
%% Events are as exact as on a member: a call of events/1 returns those of all
%% changes that the seat had applied before. If the seat is lost, this process
%% subscribes at the next one, and the subscriber gets {lost, 1} in place of the
%% events that nobody knows. So it is if this process ends: the next one finds
%% the subscriptions in an ETS table, and their sources have forgotten them.
-module(todana_away_events).
-moduledoc false.
-behaviour(gen_server).

-export([new/0, start_link/0, subscribe/4, events/1, unsubscribe/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
%% A process
-export([begin_and_exit/4]).

-record(state, {
    subscriptions = #{} :: #{reference() => subscription()},
    %% The processes that subscribe again, and for which subscription.
    asking = #{} :: #{reference() => reference()}
}).

-type how() :: todana_event_source:how().

-type subscription() :: #{
    subscriber := pid(),
    %% Of the subscriber.
    monitor := reference(),
    how := how(),
    %% The process at the seat.
    source := {pid(), reference()} | none,
    %% Whether events were lost that the subscriber does not know of.
    is_lost := boolean()
}.

-define(RETRY_MS, 200).
-define(EVENTS_MS, 5_000).
%% Subscriptions of this guest to a table, as on a member.
-define(SUBSCRIPTIONS_MAX, 32).

-doc """
Where this process finds the subscriptions of the one before it. The table
belongs to the caller.
""".
-spec new() -> ok.
new() ->
    _ = ets:new(?MODULE, [named_table, public]),
    ok.

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-doc "Subscribes a process by a function of the module at the seat.".
-spec subscribe(module(), atom(), map(), Subscriber :: pid()) -> dynamic().
subscribe(Module, Name, Options, Subscriber) ->
    Ref = make_ref(),
    How = {Module, Name, Options},
    case call({count, Name}) of
        {_Keeper, Count} when Count >= ?SUBSCRIPTIONS_MAX ->
            {error, too_many_subscriptions};
        {Keeper, _Count} ->
            case begin_one(How, Ref, Subscriber, Keeper) of
                {ok, Source} ->
                    Made = {Ref, Subscriber, How, Source},
                    case call({subscribed, Keeper, Made}) of
                        ok -> {ok, Ref};
                        down -> {badarg, 1, not_running}
                    end;
                Failure ->
                    Failure
            end;
        down ->
            {badarg, 1, not_running}
    end.

-doc "The events that wait; `none` if this is no subscription of a guest.".
-spec events(term()) -> [tuple()] | none.
events(Ref) ->
    Seat = todana_guest:seat(),
    case call({source, Ref}) of
        {ok, Pid} when node(Pid) =/= Seat ->
            _ = call({lost, Ref, Pid}),
            [{lost, 1}];
        {ok, Pid} ->
            try gen:call(Pid, events, Ref, ?EVENTS_MS) of
                {ok, Events} -> Events
            catch
                exit:_ ->
                    _ = call({lost, Ref, Pid}),
                    [{lost, 1}]
            end;
        lost -> [{lost, 1}];
        %% Nobody knows what changes now.
        waits -> [{lost, 1}];
        down ->
            case is_kept(Ref) of
                true -> [{lost, 1}];
                false -> none
            end;
        none -> none
    end.

%% The table ends with the application.
-spec is_kept(term()) -> boolean().
is_kept(Ref) ->
    try
        ets:member(?MODULE, Ref)
    catch
        error:badarg -> false
    end.

-doc "`none` if this is no subscription of a guest.".
-spec unsubscribe(term()) -> ok | none.
unsubscribe(Ref) ->
    case call({unsubscribe, Ref}) of
        down ->
            case forget(Ref) of
                %% The next process may have found it before.
                [_] ->
                    _ = call({unsubscribe, Ref}),
                    ok;
                [] ->
                    none
            end;
        Result ->
            Result
    end.

-spec forget(term()) -> [tuple()].
forget(Ref) ->
    try
        ets:take(?MODULE, Ref)
    catch
        error:badarg -> []
    end.

%% `down' if the process is being restarted, or the application stops.
-spec call(term()) -> dynamic().
call(Request) ->
    try
        gen_server:call(?MODULE, Request, infinity)
    catch
        exit:_ -> down
    end.

-spec begin_one(how(), reference(), pid(), Keeper :: pid()) -> dynamic().
begin_one({Module, Name, Options}, Ref, Subscriber, Keeper) ->
    Arguments = [Name, Module, Options, {Ref, Subscriber, Keeper}],
    todana_away:ask(todana_event_source, subscribe, Name, Arguments).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    %% A full connection must not suspend this process.
    process_flag(async_dist, true),
    {ok, lists:foldl(fun kept/2, #state{}, ets:tab2list(?MODULE))}.

%% The seat has forgotten it with the process before this one.
-spec kept({reference(), pid(), how()}, #state{}) -> #state{}.
kept({Ref, Subscriber, How}, State) ->
    self() ! {again, Ref},
    put_one(Ref, #{
        subscriber => Subscriber, monitor => monitor(process, Subscriber),
        how => How, source => none, is_lost => false
    }, State).

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, term(), #state{}}.
handle_call({subscribed, Keeper, Made}, _From, State) when
    Keeper =:= self()
->
    {Ref, Subscriber, How, Source} = Made,
    Subscription = #{
        subscriber => Subscriber, monitor => monitor(process, Subscriber),
        how => How, source => {Source, monitor(process, Source)},
        is_lost => false
    },
    true = ets:insert(?MODULE, {Ref, Subscriber, How}),
    {reply, ok, put_one(Ref, Subscription, State)};
%% The source has forgotten it with the process before this one.
handle_call({subscribed, _Keeper, _Made}, _From, State) ->
    {reply, down, State};
handle_call({count, Name}, _From, #state{subscriptions = All} = State) ->
    Same = [Ref || Ref := #{how := {_, N, _}} <- All, N =:= Name],
    {reply, {self(), length(Same)}, State};
handle_call({source, Ref}, _From, #state{subscriptions = All} = State) ->
    case All of
        #{Ref := #{is_lost := true} = Subscription} ->
            New = Subscription#{is_lost := false},
            {reply, lost, put_one(Ref, New, State)};
        #{Ref := #{source := {Pid, _}}} -> {reply, {ok, Pid}, State};
        #{Ref := _} -> {reply, waits, State};
        #{} -> {reply, none, State}
    end;
handle_call({lost, Ref, Pid}, _From, #state{subscriptions = All} = State) ->
    case All of
        #{Ref := #{source := {Pid, _}} = Subscription} ->
            {reply, ok, lost(Ref, Subscription, State)};
        #{} ->
            {reply, ok, State}
    end;
handle_call({unsubscribe, Ref}, _From, #state{subscriptions = All} = State) ->
    case All of
        #{Ref := Subscription} ->
            {reply, ok, end_one(Ref, Subscription, State)};
        #{} ->
            {reply, none, State}
    end.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({again, Ref}, #state{subscriptions = All} = State) ->
    case All of
        #{Ref := #{source := none} = Subscription} ->
            {noreply, again(Ref, Subscription, State)};
        #{} ->
            {noreply, State}
    end;
%% Subscriptions are where the records are read.
handle_info({seat, Seat}, #state{subscriptions = All} = State) ->
    Elsewhere = [
        {Ref, Subscription}
     || Ref := #{source := {Pid, _}} = Subscription <- All, node(Pid) =/= Seat
    ],
    {noreply, all_lost(Elsewhere, State)};
handle_info({'DOWN', Monitor, process, _, Result}, #state{asking = Of} = State)
    when is_map_key(Monitor, Of)
->
    {Ref, Left} = maps:take(Monitor, Of),
    {noreply, asked(Ref, Result, State#state{asking = Left})};
handle_info({'DOWN', Monitor, process, Pid, _}, State) ->
    #state{subscriptions = All} = State,
    Lost = [
        {Ref, Subscription}
     || Ref := #{source := {P, M}} = Subscription <- All,
        P =:= Pid, M =:= Monitor
    ],
    Ended = [
        {Ref, Subscription}
     || Ref := #{monitor := M} = Subscription <- All, M =:= Monitor
    ],
    Left = lists:foldl(
        fun({Ref, Subscription}, S) -> end_one(Ref, Subscription, S) end,
        State, Ended
    ),
    {noreply, all_lost(Lost, Left)};
handle_info(_Message, State) ->
    {noreply, State}.

-spec all_lost([{reference(), subscription()}], #state{}) -> #state{}.
all_lost(Lost, State) ->
    lists:foldl(
        fun({Ref, Subscription}, S) -> lost(Ref, Subscription, S) end,
        State, Lost
    ).

%% The table was closed at the seat, or the seat is lost.
-spec lost(reference(), subscription(), #state{}) -> #state{}.
lost(Ref, #{source := {Pid, Monitor}} = Subscription, State) ->
    true = demonitor(Monitor, [flush]),
    Pid ! {remove, Ref},
    self() ! {again, Ref},
    put_one(Ref, Subscription#{source := none}, State).

%% The seat may take a moment, and others must not wait for it.
-spec again(reference(), subscription(), #state{}) -> #state{}.
again(Ref, #{how := How, subscriber := Subscriber}, State) ->
    case todana_guest:seat() of
        none ->
            later(Ref, State);
        _ ->
            {_, Monitor} = spawn_monitor(
                ?MODULE, begin_and_exit, [How, Ref, Subscriber, self()]
            ),
            State#state{asking = (State#state.asking)#{Monitor => Ref}}
    end.

-doc false.
-spec begin_and_exit(how(), reference(), pid(), pid()) -> no_return().
begin_and_exit(How, Ref, Subscriber, Keeper) ->
    exit({begun, begin_one(How, Ref, Subscriber, Keeper)}).

-spec later(reference(), #state{}) -> #state{}.
later(Ref, State) ->
    _ = erlang:send_after(?RETRY_MS, self(), {again, Ref}),
    State.

-spec asked(reference(), term(), #state{}) -> #state{}.
asked(Ref, Result, #state{subscriptions = All} = State) ->
    case {All, Result} of
        {#{Ref := #{source := none} = Subscription}, {begun, {ok, Source}}} ->
            #{subscriber := Subscriber} = Subscription,
            Subscriber ! {todana, Ref, ready},
            New = Subscription#{
                source := {Source, monitor(process, Source)}, is_lost := true
            },
            put_one(Ref, New, State);
        {#{Ref := #{source := none} = Subscription},
         {begun, {badarg, _, no_such_table}}} ->
            #{subscriber := Subscriber} = Subscription,
            Subscriber ! {todana, Ref, closed},
            end_one(Ref, Subscription, State);
        {#{Ref := #{source := none}}, _} ->
            later(Ref, State);
        {_, {begun, {ok, Source}}} ->
            Source ! {remove, Ref},
            State;
        _ ->
            State
    end.

-spec put_one(reference(), subscription(), #state{}) -> #state{}.
put_one(Ref, Subscription, #state{subscriptions = All} = State) ->
    State#state{subscriptions = All#{Ref => Subscription}}.

-spec end_one(reference(), subscription(), #state{}) -> #state{}.
end_one(Ref, #{monitor := Monitor} = Subscription, State) ->
    true = demonitor(Monitor, [flush]),
    true = ets:delete(?MODULE, Ref),
    _ = case Subscription of
        #{source := {Pid, OfSource}} ->
            true = demonitor(OfSource, [flush]),
            Pid ! {remove, Ref};
        #{source := none} ->
            none
    end,
    State#state{subscriptions = maps:remove(Ref, State#state.subscriptions)}.
