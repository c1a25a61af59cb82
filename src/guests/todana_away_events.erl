%% Subscriptions of a guest: a process at the seat, the *source*, subscribes in
%% place of the one in the guest, which takes the events from it.
%%
%%     subscriber <- {todana, Ref, ready} <- the source at the seat <- the table
%%     subscriber -- events/1 ----------->
%%
%% A table has few subscriptions (32), and each costs every write. So all guests
%% that want the same events of a table have one source, with a queue for each.
%%
%% So events are as exact as on a member: a call of events/1 returns those of
%% all changes that the seat had applied before. If the seat is lost, this
%% process subscribes at the next one, and the subscriber gets {lost, 1} in
%% place of the events that nobody knows.
-module(todana_away_events).
-moduledoc false.
-behaviour(gen_server).

-export([start_link/0, subscribe/3, events/1, unsubscribe/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
%% A process
-export([begin_and_exit/3]).
%% At the seat
-export([new/0, begin_at_seat/4, run/1]).

-record(state, {
    subscriptions = #{} :: #{reference() => subscription()},
    %% The processes that subscribe again, and for which subscription.
    asking = #{} :: #{reference() => reference()}
}).

%% What a source subscribes to: module, table, options.
-type how() :: {module(), atom(), map()}.

%% Of a subscriber at a source: events in bundles, the newest bundle first.
-record(queue, {
    subscriber :: pid(),
    %% Of the subscriber and of the process of its guest that keeps it.
    monitors :: [reference()],
    bundles = [] :: [[tuple()]],
    count = 0 :: non_neg_integer()
}).

-record(source, {
    how :: how(),
    subscription :: reference(),
    entries_max :: pos_integer(),
    queues = #{} :: #{reference() => #queue{}}
}).

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
%% Events in a queue, if the subscriber has not said how many.
-define(ENTRIES_MAX, 16_384).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-doc "Subscribes the calling process by a function of the module at the seat.".
-spec subscribe(module(), atom(), map()) -> dynamic().
subscribe(Module, Name, Options) ->
    Ref = make_ref(),
    How = {Module, Name, Options},
    case call({count, Name}) of
        Count when is_integer(Count), Count >= ?SUBSCRIPTIONS_MAX ->
            {error, too_many_subscriptions};
        _ ->
            case begin_one(How, Ref, self()) of
                {ok, Source} ->
                    case call({subscribed, Ref, self(), How, Source}) of
                        ok -> {ok, Ref};
                        none -> {badarg, 1, not_running}
                    end;
                Failure ->
                    Failure
            end
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
        none -> none
    end.

-doc "`none` if this is no subscription of a guest.".
-spec unsubscribe(term()) -> ok | none.
unsubscribe(Ref) -> call({unsubscribe, Ref}).

-spec call(term()) -> dynamic().
call(Request) ->
    try
        gen_server:call(?MODULE, Request, infinity)
    catch
        exit:_ -> none
    end.

-spec begin_one(how(), reference(), pid()) -> dynamic().
begin_one({Module, Name, Options}, Ref, Subscriber) ->
    Arguments = [Module, Options, {Ref, Subscriber, whereis(?MODULE)}],
    todana_away:ask(?MODULE, begin_at_seat, Name, [Name | Arguments]).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    %% A full connection must not suspend this process.
    process_flag(async_dist, true),
    {ok, #state{}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, term(), #state{}}.
handle_call({subscribed, Ref, Subscriber, How, Source}, _From, State) ->
    Subscription = #{
        subscriber => Subscriber, monitor => monitor(process, Subscriber),
        how => How, source => {Source, monitor(process, Source)},
        is_lost => false
    },
    {reply, ok, put_one(Ref, Subscription, State)};
handle_call({count, Name}, _From, #state{subscriptions = All} = State) ->
    Same = [Ref || Ref := #{how := {_, N, _}} <- All, N =:= Name],
    {reply, length(Same), State};
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
                ?MODULE, begin_and_exit, [How, Ref, Subscriber]
            ),
            State#state{asking = (State#state.asking)#{Monitor => Ref}}
    end.

-doc false.
-spec begin_and_exit(how(), reference(), pid()) -> no_return().
begin_and_exit(How, Ref, Subscriber) ->
    exit({begun, begin_one(How, Ref, Subscriber)}).

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
    _ = case Subscription of
        #{source := {Pid, OfSource}} ->
            true = demonitor(OfSource, [flush]),
            Pid ! {remove, Ref};
        #{source := none} ->
            none
    end,
    State#state{subscriptions = maps:remove(Ref, State#state.subscriptions)}.

%% ------------------------------------------------------------ at the seat ---

-doc "Where a member finds its sources.".
-spec new() -> ok.
new() ->
    _ = ets:new(?MODULE, [named_table, public]),
    ok.

-doc """
Subscribes a process of a guest: the source of these events has a queue for it.
""".
-spec begin_at_seat(
    atom(), module(), map(), {reference(), Subscriber :: pid(), Keeper :: pid()}
) -> dynamic().
begin_at_seat(Name, Module, Options, Guest) ->
    Source = source({Module, Name, Options}),
    try gen:call(Source, add, Guest, ?EVENTS_MS) of
        {ok, added} -> {ok, Source};
        {ok, Failure} -> Failure
    catch
        %% Its last guest has just left it.
        exit:Reason when Reason =:= normal; Reason =:= noproc ->
            begin_at_seat(Name, Module, Options, Guest);
        exit:_ ->
            {badarg, 0, unavailable}
    end.

%% The source of these events, which is started if there is none.
-spec source(how()) -> pid().
source(How) ->
    case ets:lookup(?MODULE, How) of
        [{_, Source}] ->
            case is_process_alive(Source) of
                true ->
                    Source;
                false ->
                    true = ets:delete_object(?MODULE, {How, Source}),
                    source(How)
            end;
        [] ->
            Source = spawn(?MODULE, run, [How]),
            case ets:insert_new(?MODULE, {How, Source}) of
                true ->
                    Source;
                false ->
                    true = exit(Source, kill),
                    source(How)
            end
    end.

-doc false.
-spec run(how()) -> ok.
run({Module, Name, Options} = How) ->
    %% A guest that hangs must not keep the others from their events.
    process_flag(async_dist, true),
    case Module:subscribe(Name, Options) of
        {ok, Subscription} ->
            serve(#source{
                how = How, subscription = Subscription,
                entries_max = maps:get(queue_entries_max, Options, ?ENTRIES_MAX)
            });
        Failure ->
            true = ets:delete_object(?MODULE, {How, self()}),
            receive {add, From, _} -> gen:reply(From, Failure) end,
            ok
    end.

-spec serve(#source{}) -> ok.
serve(#source{subscription = Subscription, queues = Queues} = Source) ->
    receive
        {todana, Subscription, ready} ->
            serve(taken(Source));
        {add, From, {Ref, Subscriber, Keeper}} ->
            %% It gets no event of before.
            #source{queues = Others} = New = taken(Source),
            Queue = #queue{
                subscriber = Subscriber,
                monitors = [monitor(process, P) || P <- [Subscriber, Keeper]]
            },
            ok = gen:reply(From, added),
            serve(New#source{queues = Others#{Ref => Queue}});
        {events, From, Ref} ->
            {Events, New} = given(Ref, taken(Source)),
            ok = gen:reply(From, Events),
            serve(New);
        {remove, Ref} ->
            goes_on(without([Ref], Source));
        {'DOWN', Monitor, process, _, _} ->
            goes_on(without([
                Ref
             || Ref := #queue{monitors = Monitors} <- Queues,
                lists:member(Monitor, Monitors)
            ], Source));
        %% The table is closed, or was dropped.
        {todana, Subscription, closed} ->
            ended(Source)
    after unwanted_ms(Queues) ->
        ended(Source)
    end.

%% The guest that it was started for may not have come.
-spec unwanted_ms(#{reference() => #queue{}}) -> timeout().
unwanted_ms(Queues) when map_size(Queues) =:= 0 -> ?EVENTS_MS;
unwanted_ms(_Queues) -> infinity.

%% A source without guests ends.
-spec goes_on(#source{}) -> ok.
goes_on(#source{queues = Queues} = Source) when map_size(Queues) =:= 0 ->
    ended(Source);
goes_on(Source) ->
    serve(Source).

-spec ended(#source{}) -> ok.
ended(#source{how = How}) ->
    true = ets:delete_object(?MODULE, {How, self()}),
    ok.

-spec without([reference()], #source{}) -> #source{}.
without(Refs, #source{queues = Queues} = Source) ->
    _ = [
        demonitor(Monitor, [flush])
     || #queue{monitors = Monitors} <- maps:values(maps:with(Refs, Queues)),
        Monitor <- Monitors
    ],
    Source#source{queues = maps:without(Refs, Queues)}.

-spec given(reference(), #source{}) -> {[tuple()], #source{}}.
given(Ref, #source{queues = Queues} = Source) ->
    case Queues of
        #{Ref := #queue{bundles = Bundles} = Queue} ->
            Emptied = Queue#queue{bundles = [], count = 0},
            {
                lists:append(lists:reverse(Bundles)),
                Source#source{queues = Queues#{Ref := Emptied}}
            };
        #{} ->
            {[], Source}
    end.

%% All that the table has reported, in the queue of each guest.
-spec taken(#source{}) -> #source{}.
taken(#source{how = {Module, _, _}, subscription = Subscription} = Source) ->
    case Module:events(Subscription) of
        [_ | _] = Events ->
            #source{queues = Queues, entries_max = Max} = Source,
            taken(Source#source{queues = #{
                Ref => queued(Ref, Events, Max, Queue)
             || Ref := Queue <- Queues
            }});
        _NoneOrClosed ->
            Source
    end.

%% A subscriber that was informed takes all that come until then.
-spec queued(reference(), [tuple()], pos_integer(), #queue{}) -> #queue{}.
queued(Ref, Events, Max, #queue{bundles = Bundles, count = Count} = Queue) ->
    _ = Count =:= 0 andalso (Queue#queue.subscriber ! {todana, Ref, ready}),
    case Count + length(Events) of
        All when All =< Max ->
            Queue#queue{bundles = [Events | Bundles], count = All};
        _TooMany ->
            Lost = lists:sum([lost(E) || B <- [Events | Bundles], E <- B]),
            Queue#queue{bundles = [[{lost, Lost}]], count = 1}
    end.

-spec lost(tuple()) -> pos_integer().
lost({lost, Count}) -> Count;
lost(_Event) -> 1.
