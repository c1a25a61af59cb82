%% A subscription of a member in place of those of guests: `todana_away_events'.
%%
%% A table has few subscriptions (32), and each costs every write. So all guests
%% that want the same events of a table have one source, with a queue for each.
-module(todana_event_source).
-moduledoc false.

-export([new/0]).
%% Guests call it
-export([subscribe/4]).
%% A process
-export([run/1]).

-export_type([how/0]).

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

-define(WAIT_MS, 5_000).
%% Events in a queue, if the subscriber has not said how many.
-define(ENTRIES_MAX, 16_384).

-doc "Where a member finds its sources.".
-spec new() -> ok.
new() ->
    _ = ets:new(?MODULE, [named_table, public]),
    ok.

-doc """
Subscribes a process of a guest: the source of these events has a queue for it.
""".
-spec subscribe(
    atom(), module(), map(), {reference(), Subscriber :: pid(), Keeper :: pid()}
) -> dynamic().
subscribe(Name, Module, Options, Guest) ->
    Source = source({Module, Name, Options}),
    try gen:call(Source, add, Guest, ?WAIT_MS) of
        {ok, added} -> {ok, Source};
        {ok, Failure} -> Failure
    catch
        %% Its last guest has just left it.
        exit:Reason when Reason =:= normal; Reason =:= noproc ->
            subscribe(Name, Module, Options, Guest);
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
unwanted_ms(Queues) when map_size(Queues) =:= 0 -> ?WAIT_MS;
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
