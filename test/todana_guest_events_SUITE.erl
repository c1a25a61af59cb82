%% Subscriptions of many guests: they share those of a member.
-module(todana_guest_events_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    guests_share_a_subscription/1,
    a_guest_has_as_many_subscriptions_as_a_member/1,
    a_slow_subscriber_loses_events_and_others_do_not/1,
    a_subscriber_gets_no_event_of_before/1,
    many_guests_monitor_a_group/1,
    subscriptions_outlive_their_keeper/1,
    changes_are_reported_while_a_guest_subscribes/1,
    a_guest_without_a_seat_subscribes_once_at_a_time/1,
    a_guest_that_looks_nothing_up_gets_no_events/1
]).
%% Called in the guests
-export([named/1, without_keeper/1, waiting/2, stall/1, waits/1]).
-export([monitors_of_nobody/0, waits_while_suspended/0]).
-export([attempts/1]).

-import(todana_peers, [guest/3, kill/1, rpc/4, await/1, cluster/2]).

all() ->
    [
        guests_share_a_subscription,
        a_guest_has_as_many_subscriptions_as_a_member,
        a_slow_subscriber_loses_events_and_others_do_not,
        a_subscriber_gets_no_event_of_before,
        many_guests_monitor_a_group,
        subscriptions_outlive_their_keeper,
        changes_are_reported_while_a_guest_subscribes,
        a_guest_without_a_seat_subscribes_once_at_a_time,
        a_guest_that_looks_nothing_up_gets_no_events
    ].

init_per_testcase(Case, Config) -> todana_peers:open(Case, Config).

end_per_testcase(_Case, _Config) -> todana_peers:close().

%% ------------------------------------------------------------------ cases ---

guests_share_a_subscription(Config) ->
    {A, [Y, Z]} = opened([y, z], Config),
    Here = [{Node, subscriber(Node, #{})} || Node <- [Y, Z, Y, Z]],
    ?assertEqual(1, subscriptions(A)),
    Other = subscriber(Z, #{events => [put]}),
    ?assertEqual(2, subscriptions(A)),
    ok = todana(A, put, [t, a, 1]),
    [
        await(fun() -> [put] =:= kinds(Node, Pid) end)
     || {Node, Pid} <- [{Z, Other} | Here]
    ],
    [{Y, First} | _] = Here,
    true = rpc(Y, erlang, exit, [First, kill]),
    ok = kill(Z),
    await(fun() -> subscriptions(A) =:= 1 end),
    ok = todana(A, put, [t, b, 1]),
    {Y, Third} = lists:nth(3, Here),
    await(fun() -> [put, put] =:= kinds(Y, Third) end),
    true = rpc(Y, erlang, exit, [Third, kill]),
    await(fun() -> subscriptions(A) =:= 0 end).

a_guest_has_as_many_subscriptions_as_a_member(Config) ->
    {A, [Y, Z]} = opened([y, z], Config),
    [?assert(is_pid(subscriber(N, #{}))) || N <- [Y, Z], _ <- lists:seq(1, 32)],
    {_, Refused} = rpc(Y, todana_keepers, subscribed, [t, #{}]),
    ?assertEqual({error, too_many_subscriptions}, Refused),
    ?assertEqual(1, subscriptions(A)).

a_slow_subscriber_loses_events_and_others_do_not(Config) ->
    {A, [Y]} = opened([y], Config),
    Options = #{queue_entries_max => 10},
    Slow = subscriber(Y, Options),
    Fast = subscriber(Y, Options),
    ok = ask(Y, Slow, wait),
    [
        begin
            ok = todana(A, put, [t, N, N]),
            await(fun() -> length(kinds(Y, Fast)) =:= N end)
        end
     || N <- lists:seq(1, 25)
    ],
    ok = ask(Y, Slow, go_on),
    await(fun() -> lost(ask(Y, Slow, all)) =:= 25 end),
    ?assertEqual([put], lists:usort(kinds(Y, Fast))).

a_subscriber_gets_no_event_of_before(Config) ->
    {A, [Y]} = opened([y], Config),
    Early = subscriber(Y, #{}),
    ok = ask(Y, Early, wait),
    [ok = todana(A, put, [t, N, N]) || N <- lists:seq(1, 5)],
    Late = subscriber(Y, #{}),
    ok = todana(A, put, [t, 6, 6]),
    await(fun() -> length(kinds(Y, Late)) =:= 1 end),
    ok = ask(Y, Early, go_on),
    await(fun() -> length(kinds(Y, Early)) =:= 6 end).

%% More than a table has subscriptions, if each guest had its own: two for the
%% copies of names and groups, and one for the monitor.
many_guests_monitor_a_group(Config) ->
    [A | _] = cluster([a], Config),
    Guests = [guest(list_to_atom("g" ++ integer_to_list(N)), A, [])
              || N <- lists:seq(1, 12)],
    [ok = rpc(N, todana_names, start_scope, [s, cluster]) || N <- [A | Guests]],
    Seen = [{N, rpc(N, todana_keepers, collected, [s, room])} || N <- Guests],
    {Member, _} = rpc(A, todana_keepers, collected, [s, other]),
    true = is_pid(Member),
    ok = rpc(A, todana_groups, join, [s, room, Member]),
    [
        await(fun() -> [join] =:= kinds(Node, Pid) end)
     || {Node, {Pid, []}} <- Seen
    ],
    ?assertEqual(12, length([Pid || {_, {Pid, []}} <- Seen])).

%% Events of a guest need a process there, which is killed. One subscriber takes
%% its events before the next such process has begun, and one unsubscribes.
subscriptions_outlive_their_keeper(Config) ->
    {A, [Y]} = opened([y], Config),
    [ok = rpc(N, todana_names, start_scope, [s, cluster]) || N <- [A, Y]],
    Subscriber = subscriber(Y, #{}),
    {Monitor, []} = rpc(Y, todana_keepers, collected, [s, room]),
    {Member, _} = rpc(A, todana_keepers, collected, [s, other]),
    {Other, {ok, Ref}} = rpc(Y, todana_keepers, subscribed, [t, #{}]),
    ?assertEqual(
        {[{lost, 1}], ok}, rpc(Y, ?MODULE, without_keeper, [Ref])
    ),
    await(fun() -> [{lost, 1}] =:= ask(Y, Subscriber, all) end),
    ok = todana(A, put, [t, a, 1]),
    await(fun() -> [lost, put] =:= kinds(Y, Subscriber) end),
    ok = rpc(A, todana_groups, join, [s, room, Member]),
    await(fun() -> [join] =:= kinds(Y, Monitor) end),
    ?assertEqual([], ask(Y, Other, all)),
    ?assertError(badarg, todana(Y, events, [Ref])).

%% A seat does not answer questions about the names of a scope. All else goes
%% on, and so do those that wait, when it answers.
changes_are_reported_while_a_guest_subscribes(Config) ->
    [A | _] = cluster([a], Config),
    Y = guest(y, A, [{write_timeout_ms, '600000'}]),
    [
        ok = rpc(N, todana_names, start_scope, [Scope, cluster])
     || N <- [A, Y], Scope <- [s, r]
    ],
    {Monitor, []} = rpc(Y, todana_keepers, collected, [r, room]),
    {Member, _} = rpc(A, todana_keepers, collected, [s, other]),
    ok = rpc(A, ?MODULE, stall, ['todana_names.s']),
    Waiting = [
        rpc(Y, ?MODULE, waiting, [{s, n}, TimeoutMs])
     || TimeoutMs <- [infinity, 600_000, infinity]
    ],
    await(fun() -> rpc(A, ?MODULE, waits, ['todana_names.s']) end),
    ok = rpc(A, todana_groups, join, [r, room, Member]),
    await(fun() -> [join] =:= kinds(Y, Monitor) end),
    {error, _} = rpc(Y, todana_names, await_name, [{s, n}, 100]),
    {Other, []} = rpc(Y, todana_keepers, collected, [s, room]),
    ok = rpc(A, todana_groups, join, [s, room, Member]),
    await(fun() -> [join] =:= kinds(Y, Other) end),
    ?assertEqual([[], [], []], [results(Y, Pid) || Pid <- Waiting]),
    %% One that waits ends, and nothing is left of it.
    [First | Others] = Waiting,
    true = rpc(Y, erlang, exit, [First, kill]),
    ok = rpc(A, persistent_term, put, [stalled, false]),
    {Named, yes} = rpc(A, ?MODULE, named, [n]),
    [
        await(fun() -> results(Y, Pid) =:= [{result, {ok, Named}}] end)
     || Pid <- Others
    ],
    await(fun() -> rpc(Y, ?MODULE, monitors_of_nobody, []) =:= [] end).

%% However many ask meanwhile. When there is a seat, the monitor goes on.
a_guest_without_a_seat_subscribes_once_at_a_time(Config) ->
    [A | _] = cluster([a], Config),
    Y = guest(y, A, [{write_timeout_ms, '100'}]),
    [ok = rpc(N, todana_names, start_scope, [s, cluster]) || N <- [A, Y]],
    {Monitor, []} = rpc(Y, todana_keepers, collected, [s, room]),
    ok = kill(A),
    await(fun() -> rpc(Y, todana_guest, seat, []) =:= none end),
    ?assertEqual(
        [{error, unavailable}], lists:usort(rpc(Y, ?MODULE, attempts, [8]))
    ),
    %% A time, or the result of an attempt.
    ?assert(rpc(Y, ?MODULE, waits_while_suspended, []) =< 1),
    A = todana_peers:node(a, [], Config),
    await(fun() -> todana_peers:is_open(A) end),
    ok = rpc(A, todana_names, start_scope, [s, cluster]),
    {Member, _} = rpc(A, todana_keepers, collected, [s, other]),
    await(fun() -> rpc(A, todana_groups, join, [s, room, Member]) =:= ok end),
    await(fun() -> [join] =:= kinds(Y, Monitor) end).

%% Its copies end with the subscription, and are not used in the next one.
a_guest_that_looks_nothing_up_gets_no_events(Config) ->
    [A | _] = cluster([a], Config),
    Z = guest(z, A, []),
    [ok = rpc(N, todana_names, start_scope, [s, cluster]) || N <- [A, Z]],
    Subscriptions = fun() ->
        maps:get(subscriptions, todana(A, stats, ['todana_names.s']))
    end,
    ?assertEqual(0, Subscriptions()),
    WhereIs = fun() -> rpc(Z, todana_names, whereis_name, [{s, n}]) end,
    {Old, yes} = rpc(A, ?MODULE, named, [n]),
    await(fun() -> WhereIs() =:= Old andalso Subscriptions() =:= 1 end),
    [?assertEqual(Old, WhereIs()) || _ <- lists:seq(1, 100)],
    await(fun() -> Subscriptions() =:= 0 end),
    ok = rpc(A, todana_names, unregister_name, [{s, n}]),
    {New, yes} = rpc(A, ?MODULE, named, [n]),
    [?assertEqual(New, WhereIs()) || _ <- lists:seq(1, 100)],
    await(fun() -> Subscriptions() =:= 1 end),
    ok = rpc(A, todana_names, unregister_name, [{s, n}]),
    await(fun() -> WhereIs() =:= undefined end).

%% ---------------------------------------------------------------- helpers ---

opened(Letters, Config) ->
    [A | _] = cluster([a], Config),
    Guests = [guest(Letter, A, []) || Letter <- Letters],
    Options = #{durable => true, codec => term},
    [{ok, _} = todana(Node, open, [t, Options]) || Node <- [A | Guests]],
    {A, Guests}.

subscriptions(A) -> maps:get(subscriptions, todana(A, stats, [t])).

subscriber(Node, Options) ->
    {Pid, {ok, _}} = rpc(Node, todana_keepers, subscribed, [t, Options]),
    Pid.

ask(Node, Pid, Request) -> rpc(Node, gen_server, call, [Pid, Request]).

kinds(Node, Pid) -> [element(1, E) || E <- ask(Node, Pid, all)].

lost(Events) ->
    lists:sum([case E of {lost, N} -> N; _ -> 1 end || E <- Events]).

todana(Node, Function, Arguments) -> rpc(Node, todana, Function, Arguments).

named(Name) ->
    todana_keepers:begun(fun() ->
        todana_names:register_name({s, Name}, self())
    end).

%% What a subscription is while the supervisor has not noticed yet that its
%% keeper was killed.
without_keeper(Ref) ->
    ok = sys:suspend(todana_sup),
    Keeper = whereis(todana_away_events),
    Monitor = monitor(process, Keeper),
    true = exit(Keeper, kill),
    receive {'DOWN', Monitor, process, _, killed} -> ok end,
    Result = {todana:events(Ref), todana:unsubscribe(Ref)},
    ok = sys:resume(todana_sup),
    Result.

%% A process that waits for a name, and keeps the result.
waiting(Name, TimeoutMs) ->
    spawn(fun() ->
        _ = put(result, todana_names:await_name(Name, TimeoutMs)),
        receive stop -> ok end
    end).

results(Node, Pid) ->
    {dictionary, Kept} = rpc(Node, erlang, process_info, [Pid, dictionary]),
    [Result || {result, _} = Result <- Kept].

attempts(Count) ->
    [todana_groups:monitor(s, other) || _ <- lists:seq(1, Count)].

%% Messages that come to the process that monitors in the time of some pauses.
waits_while_suspended() ->
    ok = sys:suspend(todana_scope_monitor),
    timer:sleep(1_000),
    {message_queue_len, Count} = process_info(
        whereis(todana_scope_monitor), message_queue_len
    ),
    ok = sys:resume(todana_scope_monitor),
    Count.

%% The references of the process that monitors, of processes that have ended.
monitors_of_nobody() ->
    {monitors, Monitors} = process_info(
        whereis(todana_scope_monitor), monitors
    ),
    [Pid || {process, Pid} <- Monitors, not is_process_alive(Pid)].

%% In place of the source of the names of a table: guests that ask it wait as
%% long as `stalled' says. Before they give up, they ask the next one.
stall(Table) ->
    ok = persistent_term:put(stalled, true),
    stall_next(source(Table)).

stall_next(How) ->
    Pid = spawn(fun() -> stalled(How) end),
    true = ets:insert(todana_event_source, {How, Pid}),
    ok.

stalled(How) ->
    receive {add, _From, _Guest} -> ok end,
    ok = persistent_term:put(asked, true),
    timer:sleep(500),
    case persistent_term:get(stalled) of
        true -> stall_next(How);
        false -> ets:delete_object(todana_event_source, {How, self()})
    end.

%% Whether somebody has asked it.
waits(Table) ->
    [{_, _}] = ets:lookup(todana_event_source, source(Table)),
    persistent_term:get(asked, false).

source(Table) ->
    Options = #{prefix => todana_scope_records:prefix(names)},
    {todana_subscription, Table, Options}.
