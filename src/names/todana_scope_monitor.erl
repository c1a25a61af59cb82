%% Informs processes of this node how names and groups of cluster scopes change.
%%
%% A table permits few subscriptions, so there are two of each scope, of which
%% somebody wants to know something: to its names, and to its members. That of
%% members begins before any of them are read: a change that they contain
%% already is recognised by its key, since no key comes twice. So each process
%% gets the members, and then every change that they do not contain.
%%
%% On a guest, the seat subscribes and reads, which may take long. So for each
%% of the two, another process waits for that, one at a time, and all that want
%% to know something of it wait for the same one. Events stay where they are
%% meanwhile.
%%
%% If events were lost, or the records replaced, the members are read again and
%% compared. The reference of a process that is informed is its monitor of this
%% process, so that it learns if this one ends. It is an alias, too: when the
%% monitor is gone, no message comes any more.
-module(todana_scope_monitor).
-moduledoc false.
-behaviour(gen_server).

-export([watch/2, watch/3, unwatch/2, leave/3]).
-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).
%% A process
-export([work_and_exit/1]).

-type key() :: todana_scope_records:key().
-type table() :: todana_scope_records:table().
%% All groups of a scope, one of them, or a name by its key.
-type what() :: all | {group, term()} | {name, key()}.
-type part() :: {table(), names | groups}.
-type members() :: #{key() => []}.
%% Of a process that waits for the members.
-type question() :: {gen_server:from(), reference(), what()}.
%% What a process does that does not keep the others waiting.
-type work() :: {subscribe, part(), Subscriber :: pid()}
    | {read, table(), [what()]}.

-record(watched, {
    %% Empty, if it is a name.
    members = #{} :: members(),
    %% The references of those that are informed.
    informed = #{} :: #{reference() => []}
}).

-record(part, {
    subscription = none :: none | reference(),
    %% The process that subscribes or reads.
    worker = none :: none | pid(),
    %% The timer of the next attempt, after a failure.
    later = none :: none | reference(),
    watched = #{} :: #{what() => #watched{}},
    %% Whether there were changes that nobody was informed of.
    is_outdated = false :: boolean(),
    questions = [] :: [question()]
}).

-record(state, {
    parts = #{} :: #{part() => #part{}},
    subscriptions = #{} :: #{reference() => part()},
    workers = #{} :: #{pid() => part()},
    %% What each reference is about, and the monitor of its process.
    references = #{} :: #{reference() => {part(), what(), reference()}},
    %% The reference of each monitor.
    monitors = #{} :: #{reference() => reference()}
}).

-define(PAUSE_MS, 200).
%% No call waits longer, except for ever.
-define(CALL_MS_MAX, 16#FFFFFFFF).

-doc """
The members, and the reference with which the caller is informed of changes: by
`{Ref, join | leave, Group, Pids}`, or `{Ref, changed}` if it is a name.
""".
-spec watch(todana_name_scopes:shared(), what()) ->
    {ok, reference(), [{Group :: term(), pid()}]} | {error, unavailable}.
watch(Shared, What) ->
    case watch(Shared, What, infinity) of
        {ok, _, _} = Watched -> Watched;
        {error, _} -> {error, unavailable}
    end.

-doc "The same, if it is known within this time.".
-spec watch(todana_name_scopes:shared(), what(), timeout()) ->
    {ok, reference(), [{Group :: term(), pid()}]}
    | {error, unavailable | timeout}.
watch(#{table := Table} = Shared, What, TimeoutMs) ->
    case whereis(?MODULE) of
        undefined ->
            {error, unavailable};
        Server ->
            Ref = monitor(process, Server, [{alias, demonitor}]),
            Question = {watch, Ref, {Table, part(What)}, What},
            try gen_server:call(Server, Question, call_ms(TimeoutMs)) of
                {ok, Members} ->
                    {ok, Ref, Members};
                {error, _} = Failure ->
                    ok = forget(Ref),
                    Failure
            catch
                exit:{timeout, _} ->
                    ok = leave(Shared, What, Ref),
                    {error, timeout};
                exit:_ ->
                    ok = forget(Ref),
                    {error, unavailable}
            end
    end.

-spec call_ms(timeout()) -> timeout().
call_ms(infinity) -> infinity;
call_ms(TimeoutMs) -> min(TimeoutMs, ?CALL_MS_MAX).

-doc "Ends it. `false` if the scope has no such reference.".
-spec unwatch(todana_name_scopes:shared(), reference()) -> ok | false.
unwatch(#{table := Table}, Ref) ->
    try gen_server:call(?MODULE, {unwatch, Table, Ref}, infinity) of
        ok -> forget(Ref);
        false -> false
    catch
        exit:_ -> false
    end.

-doc "Ends it, and waits for nobody. It may not have begun.".
-spec leave(todana_name_scopes:shared(), what(), reference()) -> ok.
leave(#{table := Table}, What, Ref) ->
    ok = forget(Ref),
    gen_server:cast(?MODULE, {leave, {Table, part(What)}, Ref}).

%% No message with this reference is left, and none comes.
-spec forget(reference()) -> ok.
forget(Ref) ->
    true = demonitor(Ref, [flush]),
    flush(Ref).

-spec flush(reference()) -> ok.
flush(Ref) ->
    receive
        {Ref, changed} -> flush(Ref);
        {Ref, What, _Group, _Pids} when What =:= join; What =:= leave ->
            flush(Ref)
    after 0 -> ok
    end.

-spec part(what()) -> names | groups.
part({name, _Key}) -> names;
part(_Groups) -> groups.

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, #state{}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok | false, #state{}} | {noreply, #state{}}.
handle_call({watch, Ref, Part, What}, From, #state{parts = Parts} = State) ->
    #part{questions = Questions} = It = maps:get(Part, Parts, #part{}),
    Asked = It#part{questions = [{From, Ref, What} | Questions]},
    {noreply, go_on(Part, known(Part, put_part(Part, Asked, State)))};
handle_call({unwatch, Table, Ref}, _From, #state{references = Refs} = State) ->
    case Refs of
        #{Ref := {{Table, _}, _, _}} -> {reply, ok, remove(Ref, State)};
        #{} -> {reply, false, State}
    end.

%% Events in the queue of groups come first: they are older than the caller's
%% question.
-spec known(part(), #state{}) -> #state{}.
known({_, groups} = Part, State) -> changed(Part, State);
known(_Names, State) -> State.

-spec handle_cast({leave, part(), reference()}, #state{}) ->
    {noreply, #state{}}.
handle_cast({leave, Part, Ref}, #state{references = Refs} = State) ->
    #state{parts = Parts} = State,
    case Parts of
        _ when is_map_key(Ref, Refs) ->
            {noreply, remove(Ref, State)};
        #{Part := #part{questions = Questions} = It} ->
            Left = lists:keydelete(Ref, 2, Questions),
            Without = It#part{questions = Left},
            {noreply, go_on(Part, put_part(Part, Without, State))};
        #{} ->
            {noreply, State}
    end.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({todana, Subscription, What}, State) ->
    #state{subscriptions = Subscriptions} = State,
    case Subscriptions of
        #{Subscription := Part} when What =:= ready ->
            {noreply, changed(Part, State)};
        %% The table was closed.
        #{Subscription := Part} ->
            {noreply, outdated(Part, State)};
        #{} ->
            {noreply, State}
    end;
handle_info({timeout, Timer, Part}, #state{parts = Parts} = State) ->
    case Parts of
        #{Part := #part{later = Timer} = It} ->
            Now = It#part{later = none},
            {noreply, go_on(Part, put_part(Part, Now, State))};
        #{} ->
            {noreply, State}
    end;
handle_info({'DOWN', _, process, Pid, Result}, #state{workers = Workers} = S)
    when is_map_key(Pid, Workers)
->
    {Part, Others} = maps:take(Pid, Workers),
    #state{parts = #{Part := It}} = S,
    State = S#state{workers = Others},
    Free = put_part(Part, It#part{worker = none}, State),
    {noreply, worked(Part, Result, Free)};
handle_info({'DOWN', Monitor, process, _, _}, State) ->
    case State#state.monitors of
        #{Monitor := Ref} -> {noreply, remove(Ref, State)};
        #{} -> {noreply, State}
    end;
handle_info(_Other, State) ->
    {noreply, State}.

-spec put_part(part(), #part{}, #state{}) -> #state{}.
put_part(Part, It, #state{parts = Parts} = State) ->
    State#state{parts = Parts#{Part => It}}.

%% ------------------------------------------------------- work for a part ----

%% Begins what a part needs next, unless it waits for something.
-spec go_on(part(), #state{}) -> #state{}.
go_on(Part, #state{parts = Parts} = State) ->
    case Parts of
        #{Part := #part{worker = none, questions = [], watched = Watched}} when
            map_size(Watched) =:= 0
        ->
            without(Part, State);
        #{Part := #part{worker = none, later = none} = It} ->
            next(Part, It, State);
        #{} ->
            State
    end.

%% A subscription ends when nobody wants to know anything of it.
-spec without(part(), #state{}) -> #state{}.
without(Part, State) ->
    #state{parts = Parts} = Unsubscribed = unsubscribe(Part, State),
    Unsubscribed#state{parts = maps:remove(Part, Parts)}.

-spec next(part(), #part{}, #state{}) -> #state{}.
next({Table, Kind} = Part, #part{subscription = none}, State) ->
    case todana_guest:is_guest() of
        true ->
            work(Part, {subscribe, Part, self()}, State);
        false ->
            Result = todana_subscription:subscribe(Table, options(Kind)),
            subscribed(Part, Result, State)
    end;
next(_Part, #part{is_outdated = false, questions = []}, State) ->
    State;
next({Table, _} = Part, It, State) ->
    case to_read(It) of
        [] -> were_read(Part, #{}, State);
        Groups -> work(Part, {read, Table, Groups}, State)
    end.

%% Of names, no record is read.
-spec to_read(#part{}) -> [what()].
to_read(#part{is_outdated = IsOutdated, watched = Watched} = It) ->
    Unknown = [
        What
     || {_, _, What} <- It#part.questions, not is_map_key(What, Watched)
    ],
    Outdated = [What || IsOutdated, What := _ <- Watched],
    [What || What <- lists:usort(Unknown ++ Outdated), part(What) =:= groups].

-spec options(names | groups) -> map().
options(Kind) -> #{prefix => todana_scope_records:prefix(Kind)}.

-spec work(part(), work(), #state{}) -> #state{}.
work(Part, Work, #state{workers = Workers, parts = Parts} = State) ->
    #{Part := It} = Parts,
    {Pid, _} = spawn_monitor(?MODULE, work_and_exit, [Work]),
    put_part(Part, It#part{worker = Pid}, State#state{
        workers = Workers#{Pid => Part}
    }).

-doc false.
-spec work_and_exit(work()) -> no_return().
work_and_exit({subscribe, {Table, Kind}, Subscriber}) ->
    exit({subscribed, todana_subscription:subscribe_at_seat(
        Table, options(Kind), Subscriber
    )});
work_and_exit({read, Table, Groups}) ->
    Read = [{Group, read(Table, Group)} || Group <- Groups],
    exit(
        case [Failure || {_, {error, _} = Failure} <- Read] of
            [] -> {read, #{Group => Members || {Group, Members} <- Read}};
            [Failure | _] -> Failure
        end
    ).

-spec read(table(), what()) -> members() | {error, term()}.
read(Table, What) ->
    Prefix = todana_scope_records:members_prefix(What),
    Add = fun(Key, Members) -> Members#{Key => []} end,
    todana_scope_records:fold_keys(Add, #{}, Table, Prefix).

-spec worked(part(), term(), #state{}) -> #state{}.
worked(Part, {subscribed, Result}, State) -> subscribed(Part, Result, State);
worked(Part, {read, Read}, State) -> were_read(Part, Read, State);
worked(Part, _Failure, State) -> failed(Part, State).

-spec subscribed(part(), dynamic(), #state{}) -> #state{}.
subscribed(Part, {ok, Subscription}, State) ->
    #state{parts = #{Part := It}, subscriptions = Subscriptions} = State,
    New = put_part(Part, It#part{subscription = Subscription}, State),
    go_on(Part, New#state{
        subscriptions = Subscriptions#{Subscription => Part}
    });
subscribed(Part, _Failure, State) ->
    failed(Part, State).

%% Nobody waits for the next attempt.
-spec failed(part(), #state{}) -> #state{}.
failed(Part, State) ->
    #state{parts = #{Part := #part{questions = Questions} = It}} = State,
    _ = [
        gen_server:reply(From, {error, unavailable})
     || {From, _, _} <- Questions
    ],
    Later =
        case It of
            #part{is_outdated = true, later = none} ->
                erlang:start_timer(?PAUSE_MS, self(), Part);
            #part{later = Pending} ->
                Pending
        end,
    Now = put_part(Part, It#part{questions = [], later = Later}, State),
    go_on(Part, changed(Part, Now)).

%% A subscription may have ended meanwhile: then they are read once more.
-spec were_read(part(), #{what() => members()}, #state{}) -> #state{}.
were_read(Part, Read, #state{parts = Parts} = State) ->
    case Parts of
        #{Part := #part{subscription = none}} ->
            go_on(Part, State);
        #{Part := #part{watched = Watched, is_outdated = IsOutdated} = It} ->
            Now = #{
                What => compare(What, Old, maps:get(What, Read, #{}))
             || What := Old <- Watched, IsOutdated
            },
            New = It#part{
                watched = maps:merge(Watched, Now), is_outdated = false
            },
            Answered = answer(Part, Read, put_part(Part, New, State)),
            go_on(Part, changed(Part, Answered))
    end.

%% Questions about names and about groups whose members are known.
-spec answer(part(), #{what() => members()}, #state{}) -> #state{}.
answer(Part, Read, State) ->
    #state{parts = #{Part := #part{questions = Questions} = It}} = State,
    {Answered, Left} = lists:partition(
        fun({_, _, What}) ->
            part(What) =:= names orelse is_map_key(What, Read) orelse
                is_map_key(What, It#part.watched)
        end,
        Questions
    ),
    lists:foldl(
        fun({From, Ref, What}, #state{parts = #{Part := Now}} = S) ->
            New = #watched{members = maps:get(What, Read, #{})},
            Watched = maps:get(What, Now#part.watched, New),
            Pids = pids(Watched#watched.members),
            ok = gen_server:reply(From, {ok, Pids}),
            add(Ref, From, Part, What, Watched, S)
        end,
        put_part(Part, It#part{questions = Left}, State), Answered
    ).

-spec pids(members()) -> [{term(), pid()}].
pids(Members) ->
    [todana_scope_records:member_of(Key) || Key := [] <- Members].

-spec add(
    reference(), gen_server:from(), part(), what(), #watched{}, #state{}
) -> #state{}.
add(Ref, {Pid, _}, Part, What, #watched{informed = Informed} = It, State) ->
    #state{parts = Parts, references = Refs, monitors = Monitors} = State,
    Monitor = monitor(process, Pid),
    #{Part := #part{watched = Watched} = Of} = Parts,
    New = It#watched{informed = Informed#{Ref => []}},
    put_part(Part, Of#part{watched = Watched#{What => New}}, State#state{
        references = Refs#{Ref => {Part, What, Monitor}},
        monitors = Monitors#{Monitor => Ref}
    }).

-spec remove(reference(), #state{}) -> #state{}.
remove(Ref, State) ->
    #state{parts = Parts, references = Refs, monitors = Monitors} = State,
    {{Part, What, Monitor}, Others} = maps:take(Ref, Refs),
    true = demonitor(Monitor, [flush]),
    #{Part := #part{watched = #{What := It} = Watched} = Of} = Parts,
    Informed = maps:remove(Ref, It#watched.informed),
    Left =
        case map_size(Informed) of
            0 -> maps:remove(What, Watched);
            _ -> Watched#{What := It#watched{informed = Informed}}
        end,
    go_on(Part, put_part(Part, Of#part{watched = Left}, State#state{
        references = Others, monitors = maps:remove(Monitor, Monitors)
    })).

-spec unsubscribe(part(), #state{}) -> #state{}.
unsubscribe(Part, #state{subscriptions = Subscriptions} = State) ->
    case State of
        #state{parts = #{Part := #part{subscription = none}}} ->
            State;
        #state{parts = #{Part := #part{subscription = Subscription} = It}} ->
            _ = todana_subscription:unsubscribe(Subscription),
            New = It#part{subscription = none},
            put_part(Part, New, State#state{
                subscriptions = maps:remove(Subscription, Subscriptions)
            })
    end.

%% --------------------------------------------------------------- changes ----

%% Takes all events, unless members are being read or have to be.
-spec changed(part(), #state{}) -> #state{}.
changed(Part, #state{parts = Parts} = State) ->
    case Parts of
        #{Part := #part{
            worker = none, is_outdated = false, subscription = Subscription
        }} when Subscription =/= none ->
            case todana_subscription:events(Subscription) of
                [] ->
                    State;
                Events when is_list(Events) ->
                    case lists:all(fun is_of_a_key/1, Events) of
                        true -> changed(Part, informed(Part, Events, State));
                        false -> outdated(Part, State)
                    end;
                _Closed ->
                    outdated(Part, State)
            end;
        #{} ->
            State
    end.

%% Begins again with another subscription, and what has changed in between.
-spec outdated(part(), #state{}) -> #state{}.
outdated(Part, State) ->
    #state{parts = #{Part := It}} = Without = unsubscribe(Part, State),
    go_on(Part, put_part(Part, It#part{is_outdated = true}, Without)).

-spec is_of_a_key(todana:event()) -> boolean().
is_of_a_key({put, _Key, _Version}) -> true;
is_of_a_key({delete, _Key, _Version}) -> true;
is_of_a_key(_Other) -> false.

-spec informed(part(), [todana:event()], #state{}) -> #state{}.
informed({_, names} = Part, Events, #state{parts = Parts} = State) ->
    #{Part := #part{watched = Names}} = Parts,
    Changed = lists:usort([Key || {_, Key, _} <- Events]),
    _ = [
        Ref ! {Ref, changed}
     || Key <- Changed,
        #{{name, Key} := #watched{informed = Informed}} <- [Names],
        Ref := [] <- Informed
    ],
    State;
informed({_, groups} = Part, Events, #state{parts = Parts} = State) ->
    #{Part := #part{watched = Groups} = Of} = Parts,
    Decoded = [
        {Kind, Key, todana_scope_records:member_of(Key)}
     || {Kind, Key, _} <- Events
    ],
    Now = maps:map(
        fun(What, It) ->
            changes([E || E <- Decoded, concerns(What, E)], It)
        end,
        Groups
    ),
    put_part(Part, Of#part{watched = Now}, State).

-spec concerns(what(), {put | delete, key(), {term(), pid()}}) -> boolean().
concerns(all, _Event) -> true;
concerns({group, Group}, {_, _, {Of, _}}) -> Group =:= Of.

%% Those that the members do not contain yet.
-spec changes([{put | delete, key(), {term(), pid()}}], #watched{}) ->
    #watched{}.
changes([], It) ->
    It;
changes(Events, #watched{members = Before} = It) ->
    {Changes, Members} = lists:foldl(
        fun
            ({put, Key, Of}, {Changes, Keys}) when not is_map_key(Key, Keys) ->
                {[{join, Of} | Changes], Keys#{Key => []}};
            ({delete, Key, Of}, {Changes, Keys}) when is_map_key(Key, Keys) ->
                {[{leave, Of} | Changes], maps:remove(Key, Keys)};
            (_Known, Acc) ->
                Acc
        end,
        {[], Before},
        Events
    ),
    ok = inform(lists:reverse(Changes), It),
    It#watched{members = Members}.

%% Changes of one kind and group that follow each other are one message.
-spec inform([{join | leave, {term(), pid()}}], #watched{}) -> ok.
inform(Changes, #watched{informed = Informed}) ->
    Messages = lists:foldr(
        fun
            ({What, {Group, Pid}}, [{What, Same, Pids} | Others]) when
                Same =:= Group
            ->
                [{What, Same, [Pid | Pids]} | Others];
            ({What, {Group, Pid}}, Acc) ->
                [{What, Group, [Pid]} | Acc]
        end,
        [],
        Changes
    ),
    _ = [
        Ref ! {Ref, What, Group, Pids}
     || {What, Group, Pids} <- Messages, Ref := [] <- Informed
    ],
    ok.

-spec compare(what(), #watched{}, members()) -> #watched{}.
compare({name, _Key}, #watched{informed = Informed} = It, _Members) ->
    _ = [Ref ! {Ref, changed} || Ref := [] <- Informed],
    It;
compare(_Groups, #watched{members = Before} = It, Members) ->
    Of = fun todana_scope_records:member_of/1,
    Gone = [{leave, Of(Key)} || Key := [] <- Before,
                                not is_map_key(Key, Members)],
    Come = [{join, Of(Key)} || Key := [] <- Members,
                               not is_map_key(Key, Before)],
    ok = inform(Gone ++ Come, It),
    It#watched{members = Members}.
