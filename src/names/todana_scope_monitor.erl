%% Informs processes of this node how names and groups of cluster scopes change.
%%
%% A table permits few subscriptions, so there are two of each scope, of which
%% somebody wants to know something: to its names, and to its members. That of
%% members begins before any of them are read: a change that they contain
%% already is recognised by its key, since no key comes twice. So each process
%% gets the members, and then every change that they do not contain.
%%
%% If events were lost, or the records replaced, the members are read again and
%% compared. The reference of a process that is informed is its monitor of this
%% process, so that it learns if this one ends.
-module(todana_scope_monitor).
-moduledoc false.
-behaviour(gen_server).

-export([watch/2, unwatch/2]).
-export([start_link/0]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-type key() :: todana_scope_records:key().
-type table() :: todana_scope_records:table().
%% All groups of a scope, one of them, or a name by its key.
-type what() :: all | {group, term()} | {name, key()}.
-type part() :: {table(), names | groups}.

-record(watched, {
    %% Empty, if it is a name.
    members = #{} :: #{key() => []},
    %% Those that are informed, by their references.
    informed = #{} :: #{reference() => pid()}
}).

-record(state, {
    %% The subscription to each part, and the other way round.
    parts = #{} :: #{part() => reference()},
    subscriptions = #{} :: #{reference() => part()},
    watched = #{} :: #{part() => #{what() => #watched{}}},
    %% What each reference is about, and the monitor of its process.
    references = #{} :: #{reference() => {part(), what(), reference()}},
    %% The reference of each monitor.
    monitors = #{} :: #{reference() => reference()}
}).

-define(PAUSE_MS, 200).

-doc """
The members, and the reference with which the caller is informed of changes: by
`{Ref, join | leave, Group, Pids}`, or `{Ref, changed}` if it is a name.
""".
-spec watch(todana_name_scopes:shared(), what()) ->
    {ok, reference(), [{Group :: term(), pid()}]} | {error, unavailable}.
watch(#{table := Table}, What) ->
    case whereis(?MODULE) of
        undefined ->
            {error, unavailable};
        Server ->
            Ref = monitor(process, Server),
            try gen_server:call(Server, {watch, Ref, Table, What}, infinity) of
                {ok, Members} ->
                    {ok, Ref, Members};
                {error, _} = Failure ->
                    true = demonitor(Ref, [flush]),
                    Failure
            catch
                exit:_ ->
                    true = demonitor(Ref, [flush]),
                    {error, unavailable}
            end
    end.

-doc "Ends it. `false` if the scope has no such reference.".
-spec unwatch(todana_name_scopes:shared(), reference()) -> ok | false.
unwatch(#{table := Table}, Ref) ->
    try gen_server:call(?MODULE, {unwatch, Table, Ref}, infinity) of
        ok ->
            true = demonitor(Ref, [flush]),
            flush(Ref);
        false ->
            false
    catch
        exit:_ -> false
    end.

-spec flush(reference()) -> ok.
flush(Ref) ->
    receive
        {Ref, changed} -> flush(Ref);
        {Ref, What, _Group, _Pids} when What =:= join; What =:= leave ->
            flush(Ref)
    after 0 -> ok
    end.

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, #state{}}.

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, term(), #state{}}.
handle_call({watch, Ref, Table, What}, {Pid, _}, State) ->
    Part = {Table, part(What)},
    case begun(Part, What, State) of
        {ok, Members, Begun} ->
            {reply, {ok, pids(Members)}, add(Ref, Pid, Part, What, Begun)};
        {error, Left} ->
            {reply, {error, unavailable}, Left}
    end;
handle_call({unwatch, Table, Ref}, _From, #state{references = Refs} = State) ->
    case Refs of
        #{Ref := {{Table, _}, _, _}} -> {reply, ok, remove(Ref, State)};
        #{} -> {reply, false, State}
    end.

-spec part(what()) -> names | groups.
part({name, _Key}) -> names;
part(_Groups) -> groups.

-spec pids(#{key() => []}) -> [{term(), pid()}].
pids(Members) ->
    [todana_scope_records:member_of(Key) || Key := [] <- Members].

%% Events in the queue come first: they are older than the caller's question.
-spec begun(part(), what(), #state{}) ->
    {ok, #{key() => []}, #state{}} | {error, #state{}}.
begun(Part, What, State) ->
    case subscribed(Part, State) of
        {ok, #state{parts = #{Part := Subscription}} = Subscribed} ->
            begun_in(Part, What, changed(Subscription, Subscribed));
        {error, _} ->
            {error, State}
    end.

-spec begun_in(part(), what(), #state{}) ->
    {ok, #{key() => []}, #state{}} | {error, #state{}}.
begun_in({Table, _} = Part, What, #state{watched = Watched} = State) ->
    #{Part := Others} = Watched,
    case Others of
        #{What := #watched{members = Members}} ->
            {ok, Members, State};
        #{} ->
            case read(Table, What) of
                {ok, Members} ->
                    All = Others#{What => #watched{members = Members}},
                    {ok, Members, State#state{watched = Watched#{Part := All}}};
                {error, _} ->
                    {error, forget_unused(Part, State)}
            end
    end.

-spec subscribed(part(), #state{}) -> {ok, #state{}} | {error, term()}.
subscribed(Part, #state{parts = Parts} = State) when is_map_key(Part, Parts) ->
    {ok, State};
subscribed({Table, Kind} = Part, State) ->
    #state{parts = Parts, subscriptions = Subscriptions} = State,
    Options = #{prefix => todana_scope_records:prefix(Kind)},
    case todana_subscription:subscribe(Table, Options) of
        {ok, Subscription} ->
            {ok, State#state{
                parts = Parts#{Part => Subscription},
                subscriptions = Subscriptions#{Subscription => Part},
                watched = maps:merge(#{Part => #{}}, State#state.watched)
            }};
        _Failure ->
            {error, unavailable}
    end.

-spec read(table(), what()) -> {ok, #{key() => []}} | {error, term()}.
read(_Table, {name, _Key}) ->
    {ok, #{}};
read(Table, What) ->
    Prefix = todana_scope_records:members_prefix(What),
    Add = fun(Key, Members) -> Members#{Key => []} end,
    case todana_scope_records:fold_keys(Add, #{}, Table, Prefix) of
        {error, _} = Failure -> Failure;
        Members -> {ok, Members}
    end.

-spec add(reference(), pid(), part(), what(), #state{}) -> #state{}.
add(Ref, Pid, Part, What, State) ->
    #state{watched = Watched, references = Refs, monitors = Monitors} = State,
    Monitor = monitor(process, Pid),
    #{Part := #{What := It} = Others} = Watched,
    Informed = (It#watched.informed)#{Ref => Pid},
    State#state{
        watched = Watched#{
            Part := Others#{What := It#watched{informed = Informed}}
        },
        references = Refs#{Ref => {Part, What, Monitor}},
        monitors = Monitors#{Monitor => Ref}
    }.

-spec handle_cast(term(), #state{}) -> {noreply, #state{}}.
handle_cast(_Message, State) ->
    {noreply, State}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({todana, Subscription, ready}, State) ->
    {noreply, changed(Subscription, State)};
%% The table was closed.
handle_info({todana, Subscription, closed}, State) ->
    {noreply, begin_again(Subscription, State)};
handle_info({begin_again, Subscription}, State) ->
    {noreply, begin_again(Subscription, State)};
handle_info({'DOWN', Monitor, process, _, _}, State) ->
    case State#state.monitors of
        #{Monitor := Ref} -> {noreply, remove(Ref, State)};
        #{} -> {noreply, State}
    end;
handle_info(_Other, State) ->
    {noreply, State}.

%% A subscription ends when nobody wants to know anything of it.
-spec remove(reference(), #state{}) -> #state{}.
remove(Ref, State) ->
    #state{watched = Watched, references = Refs, monitors = Monitors} = State,
    {{Part, What, Monitor}, Others} = maps:take(Ref, Refs),
    true = demonitor(Monitor, [flush]),
    #{Part := #{What := It} = OfPart} = Watched,
    Informed = maps:remove(Ref, It#watched.informed),
    Left =
        case map_size(Informed) of
            0 -> maps:remove(What, OfPart);
            _ -> OfPart#{What := It#watched{informed = Informed}}
        end,
    forget_unused(Part, State#state{
        watched = Watched#{Part := Left},
        references = Others,
        monitors = maps:remove(Monitor, Monitors)
    }).

-spec forget_unused(part(), #state{}) -> #state{}.
forget_unused(Part, #state{watched = Watched} = State) ->
    case Watched of
        #{Part := Left} when map_size(Left) =:= 0 ->
            Without = unsubscribe(Part, State),
            Without#state{watched = maps:remove(Part, Watched)};
        #{} ->
            State
    end.

-spec unsubscribe(part(), #state{}) -> #state{}.
unsubscribe(Part, State) ->
    #state{parts = Parts, subscriptions = Subscriptions} = State,
    {Subscription, Others} = maps:take(Part, Parts),
    _ = todana_subscription:unsubscribe(Subscription),
    State#state{
        parts = Others, subscriptions = maps:remove(Subscription, Subscriptions)
    }.

-spec changed(reference(), #state{}) -> #state{}.
changed(Subscription, #state{subscriptions = Subscriptions} = State) ->
    case Subscriptions of
        #{Subscription := Part} ->
            case todana_subscription:events(Subscription) of
                [] ->
                    State;
                Events when is_list(Events) ->
                    case lists:all(fun is_of_a_key/1, Events) of
                        true ->
                            Now = informed(Part, Events, State),
                            changed(Subscription, Now);
                        false ->
                            begin_again(Subscription, State)
                    end;
                _Closed ->
                    begin_again(Subscription, State)
            end;
        #{} ->
            State
    end.

-spec is_of_a_key(todana:event()) -> boolean().
is_of_a_key({put, _Key, _Version}) -> true;
is_of_a_key({delete, _Key, _Version}) -> true;
is_of_a_key(_Other) -> false.

-spec informed(part(), [todana:event()], #state{}) -> #state{}.
informed({_, names} = Part, Events, #state{watched = Watched} = State) ->
    #{Part := Names} = Watched,
    Changed = lists:usort([Key || {_, Key, _} <- Events]),
    _ = [
        Pid ! {Ref, changed}
     || Key <- Changed,
        #{{name, Key} := #watched{informed = Informed}} <- [Names],
        Ref := Pid <- Informed
    ],
    State;
informed({_, groups} = Part, Events, #state{watched = Watched} = State) ->
    #{Part := Groups} = Watched,
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
    State#state{watched = Watched#{Part := Now}}.

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
        Pid ! {Ref, What, Group, Pids}
     || {What, Group, Pids} <- Messages, Ref := Pid <- Informed
    ],
    ok.

%% With another subscription, and what has changed in between.
-spec begin_again(reference(), #state{}) -> #state{}.
begin_again(Subscription, #state{subscriptions = Subscriptions} = State) ->
    case Subscriptions of
        #{Subscription := Part} ->
            case subscribed(Part, unsubscribe(Part, State)) of
                {ok, Next} -> compared_or_later(Part, Next);
                {error, _} -> later(Subscription, State)
            end;
        #{} ->
            State
    end.

-spec compared_or_later(part(), #state{}) -> #state{}.
compared_or_later(Part, #state{parts = Parts} = State) ->
    case compared(Part, State) of
        {ok, Watched} -> State#state{watched = Watched};
        {error, _} -> later(map_get(Part, Parts), State)
    end.

-spec later(reference(), #state{}) -> #state{}.
later(Subscription, State) ->
    _ = erlang:send_after(?PAUSE_MS, self(), {begin_again, Subscription}),
    State.

-spec compared(part(), #state{}) ->
    {ok, #{part() => #{what() => #watched{}}}} | {error, term()}.
compared({Table, _} = Part, #state{watched = Watched}) ->
    #{Part := All} = Watched,
    Read = [{What, It, read(Table, What)} || What := It <- All],
    case [Failure || {_, _, {error, _} = Failure} <- Read] of
        [] ->
            {ok, Watched#{Part := #{
                What => compare(What, It, Members)
             || {What, It, {ok, Members}} <- Read
            }}};
        [Failure | _] ->
            Failure
    end.

-spec compare(what(), #watched{}, #{key() => []}) -> #watched{}.
compare({name, _Key}, #watched{informed = Informed} = It, _Members) ->
    _ = [Pid ! {Ref, changed} || Ref := Pid <- Informed],
    It;
compare(_Groups, #watched{members = Before} = It, Members) ->
    Of = fun todana_scope_records:member_of/1,
    Gone = [{leave, Of(Key)} || Key := [] <- Before,
                                not is_map_key(Key, Members)],
    Come = [{join, Of(Key)} || Key := [] <- Members,
                               not is_map_key(Key, Before)],
    ok = inform(Gone ++ Come, It),
    It#watched{members = Members}.
