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
    a_guest_that_looks_nothing_up_gets_no_events/1
]).
%% Called in the guests
-export([named/1, without_keeper/1]).

-import(todana_peers, [guest/3, kill/1, rpc/4, await/1, cluster/2]).

all() ->
    [
        guests_share_a_subscription,
        a_guest_has_as_many_subscriptions_as_a_member,
        a_slow_subscriber_loses_events_and_others_do_not,
        a_subscriber_gets_no_event_of_before,
        many_guests_monitor_a_group,
        subscriptions_outlive_their_keeper,
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
