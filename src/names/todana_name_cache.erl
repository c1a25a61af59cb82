%% Copies of what was looked up on this node in cluster scopes, in ETS tables:
%% the process of a name, and the members of a group. A look-up of the records
%% takes several times as long, because it encodes and decodes terms.
%%
%% Each subject has a *stamp*, which it shares with others of the same
%% hash. When its records change, the stamp does: by the events of a
%% subscription, which began before the first copy was made, and by a process of
%% this node that has changed them, before it returns. A copy has the stamp
%% that was read before the records, and is used only while that is unchanged.
%% So a copy of records that changed on the way is never used.
%%
%% Copies may be used until a time that is renewed while somebody looks up,
%% after the records were found to be fresh and all their events handled. So a
%% copy is a second older than fresh records at most: if this process is late,
%% or the node cut off, readers read the records.
%%
%% Nodes where nobody looks up have no subscription, so that a change costs the
%% same however many they are: to a guest, each event is a message. When the
%% next one begins, all stamps change: those of before say nothing.
-module(todana_name_cache).
-moduledoc false.
-behaviour(gen_server).

-export([find/2, keep/3, forget/2, open/1, close/1, close/0]).
-export([start_link/0]).
%% A process
-export([ask_and_exit/2]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([place/0]).

-type table() :: todana_scope_records:table().
%% The names of a scope's table, or the groups.
-type part() :: {names | groups, table()}.
%% Where a copy of a name may be stored, the place of its stamp, and its
%% stamp now.
-type place() :: {ets:table(), pos_integer(), Stamp :: integer()} | none.
%% ?UNTIL, ?USED, and the stamps.
-type numbers() :: atomics:atomics_ref().

-define(KEY(Part), {?MODULE, Part}).
%% Until when copies may be used, and whether somebody wanted to.
-define(UNTIL, 1).
-define(USED, 2).
-define(FIRST, 3).
-define(STAMPS, 16_384).
%% With more copies, or more words of memory (64 MiB), all go.
-define(COPIES_MAX, 100_000).
-define(WORDS_MAX, 8_388_608).
%% The records are as old as `read_bound_ms' when they are found to be fresh.
-define(VALID_MS, 1_000).
-define(RENEW_MS, 400).
-define(RETRY_MS, 1_000).
%% After this time without a look-up, the subscription ends.
-define(UNUSED_MS, 10_000).

-record(state, {
    %% The copies of each part, and its numbers.
    open = #{} :: #{part() => {ets:table(), numbers()}},
    %% The subscription to each part that is in use.
    subscriptions = #{} :: #{part() => reference()},
    parts = #{} :: #{reference() => part()},
    %% The processes that ask whether the records are fresh, and the parts that
    %% are being renewed: they are asked about, or were a moment ago.
    asking = #{} :: #{pid() => part()},
    renewing = #{} :: #{part() => []}
}).

-doc "A copy, or the place for one.".
-spec find(part(), Subject :: term()) ->
    {ok, pid() | [pid()]} | {none, place()}.
find(Part, Subject) ->
    case persistent_term:get(?KEY(Part), none) of
        none ->
            {none, none};
        {Copies, Numbers} ->
            _ = atomics:get(Numbers, ?USED) =:= 1 orelse
                used(Part, Numbers),
            try ets:lookup_element(Copies, Subject, 2, none) of
                {Found, Index, Stamp} ->
                    case is_valid(Numbers, Index, Stamp) of
                        true -> {ok, Found};
                        false -> {none, place(Copies, Numbers, Subject)}
                    end;
                none ->
                    {none, place(Copies, Numbers, Subject)}
            catch
                error:badarg -> {none, none}
            end
    end.

-spec is_valid(numbers(), pos_integer(), integer()) -> boolean().
is_valid(Numbers, Index, Stamp) ->
    atomics:get(Numbers, Index) =:= Stamp andalso
        erlang:monotonic_time(millisecond) < atomics:get(Numbers, ?UNTIL).

-spec place(ets:table(), numbers(), term()) -> place().
place(Copies, Numbers, Subject) ->
    Index = index(Subject),
    {Copies, Index, atomics:get(Numbers, Index)}.

-spec index(term()) -> pos_integer().
index(Subject) -> ?FIRST + erlang:phash2(Subject, ?STAMPS).

%% The first one of some time.
-spec used(part(), numbers()) -> ok.
used(Part, Numbers) ->
    ok = atomics:put(Numbers, ?USED, 1),
    gen_server:cast(?MODULE, {renew, Part}).

-doc "Makes a copy of a record that was read after the place was found.".
-spec keep(place(), Subject :: term(), pid() | [pid()]) -> ok.
keep(none, _Subject, _Found) ->
    ok;
keep({Copies, Index, Stamp}, Subject, Found) ->
    try ets:insert(Copies, {Subject, {Found, Index, Stamp}}) of
        true -> ok
    catch
        error:badarg -> ok
    end.

-doc "The records of a subject have changed, as this node knows.".
-spec forget(part(), Subject :: term()) -> ok.
forget(Part, Subject) ->
    case persistent_term:get(?KEY(Part), none) of
        none -> ok;
        {_Copies, Numbers} -> atomics:add(Numbers, index(Subject), 1)
    end.

-doc "Copies of what is in a scope's table may be made from now on.".
-spec open(table()) -> ok.
open(Table) ->
    lists:foreach(
        fun(Part) -> gen_server:cast(?MODULE, {open, Part}) end, parts(Table)
    ).

-spec parts(table()) -> [part()].
parts(Table) -> [{names, Table}, {groups, Table}].

-doc "There are none any more.".
-spec close(table()) -> ok.
close(Table) ->
    lists:foreach(
        fun(Part) -> gen_server:cast(?MODULE, {close, Part}) end, parts(Table)
    ).

-doc "Forgets all, when the application starts or stops.".
-spec close() -> ok.
close() ->
    lists:foreach(
        fun(Part) -> persistent_term:erase(?KEY(Part)) end,
        [Part || {?KEY(Part), _} <- persistent_term:get()]
    ).

-spec start_link() -> gen_server:start_ret().
start_link() ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, [], []).

%% Scopes may have been started before a crash. The copies ended with it.
-spec init([]) -> {ok, #state{}}.
init([]) ->
    {ok, lists:foldl(fun open_one/2, #state{}, shared())}.

-spec shared() -> [part()].
shared() ->
    [
        Part
     || #{table := Table} <- todana_name_scopes:all_shared(),
        Part <- parts(Table)
    ].

-spec handle_call(term(), gen_server:from(), #state{}) ->
    {reply, ok, #state{}}.
handle_call(_Request, _From, State) ->
    {reply, ok, State}.

-spec handle_cast(
    {open, part()} | {close, part()} | {renew, part()}, #state{}
) -> {noreply, #state{}}.
handle_cast({open, Part}, State) ->
    {noreply, open_one(Part, State)};
handle_cast({close, Part}, State) ->
    {noreply, close_one(Part, State)};
handle_cast({renew, Part}, State) ->
    {noreply, renew(Part, State)}.

-spec handle_info(term(), #state{}) -> {noreply, #state{}}.
handle_info({todana, Subscription, What}, #state{parts = Parts} = State) ->
    case Parts of
        #{Subscription := Part} when What =:= ready ->
            %% If there are more events, another message says so. On a guest,
            %% each question goes to its seat.
            {_, New} = some_changed(Part, State),
            {noreply, New};
        #{Subscription := Part} ->
            {noreply, pause(Part, State)};
        #{} ->
            {noreply, State}
    end;
handle_info({renew, Part}, #state{renewing = Renewing} = State) ->
    Others = maps:remove(Part, Renewing),
    {noreply, renew_if_used(Part, State#state{renewing = Others})};
handle_info({unused, Part}, #state{open = Open, renewing = Renewing} = State) ->
    case Open of
        #{Part := _} when not is_map_key(Part, Renewing) ->
            {noreply, pause(Part, State)};
        #{} ->
            {noreply, State}
    end;
handle_info({'DOWN', _, process, Pid, Result}, State) ->
    #state{asking = Asking} = State,
    case maps:take(Pid, Asking) of
        {Part, Others} ->
            _ = erlang:send_after(?RENEW_MS, self(), {renew, Part}),
            {noreply, fresh(Part, Result, State#state{asking = Others})};
        error ->
            {noreply, State}
    end;
handle_info(_Other, State) ->
    {noreply, State}.

-spec open_one(part(), #state{}) -> #state{}.
open_one(Part, #state{open = Open} = State) when is_map_key(Part, Open) ->
    State;
open_one(Part, #state{open = Open} = State) ->
    %% With write_concurrency, look-ups would be slower, and writes are few.
    Copies = ets:new(todana_name_copies, [public, {read_concurrency, true}]),
    Numbers = atomics:new(?FIRST + ?STAMPS, []),
    ok = atomics:put(Numbers, ?UNTIL, none_ms()),
    persistent_term:put(?KEY(Part), {Copies, Numbers}),
    State#state{open = Open#{Part => {Copies, Numbers}}}.

%% From now on, copies may be made.
-spec subscribed(part(), #state{}) -> {ok | error, #state{}}.
subscribed(Part, #state{subscriptions = Of} = State) when
    is_map_key(Part, Of)
->
    {ok, State};
subscribed({Kind, Table} = Part, #state{open = Open} = State) ->
    #state{subscriptions = Of, parts = Parts} = State,
    Options = #{prefix => todana_scope_records:prefix(Kind)},
    case todana_subscription:subscribe(Table, Options) of
        {ok, Subscription} ->
            #{Part := {Copies, Numbers}} = Open,
            ok = lists:foreach(
                fun(Index) -> ok = atomics:add(Numbers, Index, 1) end,
                lists:seq(?FIRST, ?FIRST + ?STAMPS)
            ),
            true = ets:delete_all_objects(Copies),
            {ok, State#state{
                subscriptions = Of#{Part => Subscription},
                parts = Parts#{Subscription => Part}
            }};
        %% Its records are perhaps being replaced.
        _Failure ->
            {error, State}
    end.

%% Before any time: no copy is valid yet.
-spec none_ms() -> integer().
none_ms() -> -(1 bsl 62).

%% No copy is used until the next subscription.
-spec pause(part(), #state{}) -> #state{}.
pause(Part, #state{subscriptions = Of, parts = Parts, open = Open} = State) ->
    case maps:take(Part, Of) of
        {Subscription, Others} ->
            #{Part := {_Copies, Numbers}} = Open,
            ok = atomics:put(Numbers, ?UNTIL, none_ms()),
            _ = todana_subscription:unsubscribe(Subscription),
            State#state{
                subscriptions = Others,
                parts = maps:remove(Subscription, Parts)
            };
        error ->
            State
    end.

-spec close_one(part(), #state{}) -> #state{}.
close_one(Part, State) ->
    #state{open = Open} = Paused = pause(Part, State),
    case maps:take(Part, Open) of
        {{Copies, _Numbers}, Others} ->
            true = persistent_term:erase(?KEY(Part)),
            true = ets:delete(Copies),
            Paused#state{open = Others};
        error ->
            Paused
    end.

-spec renew_if_used(part(), #state{}) -> #state{}.
renew_if_used(Part, #state{open = Open} = State) ->
    case Open of
        #{Part := {_Copies, Numbers}} ->
            case atomics:exchange(Numbers, ?USED, 0) of
                1 ->
                    renew(Part, State);
                0 ->
                    _ = erlang:send_after(?UNUSED_MS, self(), {unused, Part}),
                    State
            end;
        #{} ->
            State
    end.

-spec renew(part(), #state{}) -> #state{}.
renew(Part, #state{renewing = Renewing} = State) when
    is_map_key(Part, Renewing)
->
    State;
renew(Part, #state{open = Open} = State) when is_map_key(Part, Open) ->
    case subscribed(Part, State) of
        {ok, #state{asking = Asking, renewing = Renewing} = New} ->
            SinceMs = erlang:monotonic_time(millisecond),
            {Pid, _} = spawn_monitor(?MODULE, ask_and_exit, [Part, SinceMs]),
            New#state{
                asking = Asking#{Pid => Part}, renewing = Renewing#{Part => []}
            };
        {error, #state{renewing = Renewing} = New} ->
            _ = erlang:send_after(?RETRY_MS, self(), {renew, Part}),
            New#state{renewing = Renewing#{Part => []}}
    end;
renew(_Part, State) ->
    State.

-spec ask_and_exit(part(), integer()) -> no_return().
ask_and_exit({_Kind, Table}, SinceMs) ->
    case todana_scope_records:find(Table, ~"e", ?VALID_MS) of
        {ok, _, _} -> exit({fresh, SinceMs});
        %% While records are replaced, nothing is fresh.
        _ -> exit(unknown)
    end.

-spec fresh(part(), term(), #state{}) -> #state{}.
fresh(Part, {fresh, SinceMs}, #state{subscriptions = Of} = State) when
    is_map_key(Part, Of)
->
    case changed(Part, State) of
        #state{subscriptions = #{Part := _}, open = Open} = Handled ->
            #{Part := {Copies, Numbers}} = Open,
            _ = is_full(Copies) andalso ets:delete_all_objects(Copies),
            ok = atomics:put(Numbers, ?UNTIL, SinceMs + ?VALID_MS),
            Handled;
        Paused ->
            Paused
    end;
fresh(_Part, _Failure, State) ->
    State.

-spec is_full(ets:table()) -> boolean().
is_full(Copies) ->
    ets:info(Copies, size) > ?COPIES_MAX orelse
        ets:info(Copies, memory) > ?WORDS_MAX.

%% All events that are there.
-spec changed(part(), #state{}) -> #state{}.
changed(Part, State) ->
    case some_changed(Part, State) of
        {some, New} -> changed(Part, New);
        {none, New} -> New
    end.

%% `none` if no event is left.
-spec some_changed(part(), #state{}) -> {some | none, #state{}}.
some_changed(Part, #state{subscriptions = Of} = State) ->
    #{Part := Subscription} = Of,
    case todana_subscription:events(Subscription) of
        [] ->
            {none, State};
        Events when is_list(Events) ->
            IsHandled = fun(Event) -> is_handled(Part, Event) end,
            case lists:all(IsHandled, Events) of
                true -> {some, State};
                false -> {none, pause(Part, State)}
            end;
        _Closed ->
            {none, pause(Part, State)}
    end.

-spec is_handled(part(), todana:event()) -> boolean().
is_handled(Part, {Kind, Key, _Version}) when Kind =:= put; Kind =:= delete ->
    ok = forget(Part, subject(Part, Key)),
    true;
is_handled(_Part, _Event) ->
    false.

-spec subject(part(), todana_scope_records:key()) -> term().
subject({names, _Table}, Key) ->
    {name, Name} = todana_scope_records:name_of(Key),
    Name;
subject({groups, _Table}, Key) ->
    {Group, _Pid} = todana_scope_records:member_of(Key),
    Group.
