%% fetch/3,4: one process computes, the others wait, even if it fails or dies.
-module(todana_fetch_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([
    init_per_testcase/2,
    end_per_testcase/2,
    a_hit_computes_nothing/1,
    a_miss_is_stored/1,
    options_of_the_value/1,
    an_error_is_not_stored/1,
    one_computes_for_all/1,
    an_exception_hands_over/1,
    a_killed_leader_hands_over/1,
    everybody_may_crash/1,
    waiting_ends_at_the_timeout/1,
    the_timeout_is_not_for_computing/1,
    one_key_is_one_flight/1,
    a_waiter_that_left_does_not_lead/1,
    a_coordinator_may_die/1,
    recursion_is_misuse/1,
    other_keys_do_not_wait/1,
    a_full_table_withholds_nothing/1,
    many_keys_many_processes/1,
    leaving_costs_the_same_for_any_number_of_waiters/1,
    a_result_is_delivered_in_slices/1,
    results_of_any_kind_arrive_whole/1,
    a_large_result_does_not_pass_through_the_coordinator/1
]).

all() ->
    [
        a_hit_computes_nothing,
        a_miss_is_stored,
        options_of_the_value,
        an_error_is_not_stored,
        one_computes_for_all,
        an_exception_hands_over,
        a_killed_leader_hands_over,
        everybody_may_crash,
        waiting_ends_at_the_timeout,
        the_timeout_is_not_for_computing,
        one_key_is_one_flight,
        a_waiter_that_left_does_not_lead,
        a_coordinator_may_die,
        recursion_is_misuse,
        other_keys_do_not_wait,
        a_full_table_withholds_nothing,
        many_keys_many_processes,
        leaving_costs_the_same_for_any_number_of_waiters,
        a_result_is_delivered_in_slices,
        results_of_any_kind_arrive_whole,
        a_large_result_does_not_pass_through_the_coordinator
    ].

init_per_suite(Config) ->
    {ok, Started} = application:ensure_all_started(todana),
    [{started, Started} | Config].

end_per_suite(Config) ->
    [application:stop(A) || A <- proplists:get_value(started, Config)].

init_per_testcase(_Case, Config) ->
    {ok, _} = todana:open(pages, #{codec => term}),
    Config.

end_per_testcase(_Case, _Config) ->
    ok = todana:close(pages).

a_hit_computes_nothing(_Config) ->
    ok = todana:put(pages, k, v),
    ?assertEqual({ok, v}, todana:fetch(pages, k, fun() -> error(no) end)).

a_miss_is_stored(_Config) ->
    ?assertEqual({ok, v}, todana:fetch(pages, k, fun() -> {ok, v} end)),
    ?assertEqual({ok, v}, todana:get(pages, k)).

options_of_the_value(_Config) ->
    Compute = fun() -> {ok, v} end,
    {ok, v} = todana:fetch(pages, a, Compute, #{ttl_ms => 60_000, flags => 3}),
    ?assertMatch({ok, #{flags := 3, expires_at_ms := N}} when is_integer(N),
                 todana:get_entry(pages, a)),
    {ok, v} = todana:fetch(pages, b, fun() -> {ok, v, #{flags => 4}} end),
    ?assertMatch({ok, #{flags := 4, expires_at_ms := infinity}},
                 todana:get_entry(pages, b)).

an_error_is_not_stored(_Config) ->
    Fail = fun() -> {error, down} end,
    ?assertEqual({error, down}, todana:fetch(pages, k, Fail)),
    ?assertEqual(error, todana:get(pages, k)),
    ?assertError({bad_return_value, v},
                 todana:fetch(pages, k, fun() -> v end)),
    ?assertEqual({ok, v}, todana:fetch(pages, k, fun() -> {ok, v} end)).

one_computes_for_all(_Config) ->
    Me = self(),
    Pids = [fetch(k, computes(Me, {ok, N})) || N <- lists:seq(1, 50)],
    Leader = receive {computing, P} -> P end,
    nobody_computes(50),
    Leader ! go,
    [Result | _] = Results = [result(Pid) || Pid <- Pids],
    ?assertMatch({ok, _}, Result),
    ?assertEqual([Result], lists:usort(Results)).

an_exception_hands_over(_Config) ->
    Me = self(),
    First = fetch(k, fun() -> wait(Me), error(broken) end),
    receive {computing, First} -> ok end,
    Second = fetch(k, computes(Me, {ok, second})),
    nobody_computes(20),
    First ! go,
    receive {computing, Second} -> Second ! go end,
    ?assertEqual({ok, second}, result(Second)),
    ?assertMatch({exception, error, broken}, result(First)).

a_killed_leader_hands_over(_Config) ->
    Me = self(),
    First = fetch(k, computes(Me, {ok, first})),
    receive {computing, First} -> ok end,
    Others = [fetch(k, computes(Me, {ok, N})) || N <- [2, 3, 4]],
    nobody_computes(20),
    exit(First, kill),
    Second = receive {computing, P} -> P end,
    ?assert(lists:member(Second, Others)),
    nobody_computes(20),
    Second ! go,
    Results = [result(Pid) || Pid <- Others],
    ?assertMatch([{ok, _}], lists:usort(Results)).

everybody_may_crash(_Config) ->
    Crash = fun() -> error(broken) end,
    Pids = [fetch(k, Crash) || _ <- lists:seq(1, 20)],
    [?assertEqual({exception, error, broken}, result(Pid)) || Pid <- Pids],
    ?assertEqual({ok, v}, todana:fetch(pages, k, fun() -> {ok, v} end)).

waiting_ends_at_the_timeout(_Config) ->
    Me = self(),
    Leader = fetch(k, computes(Me, {ok, v})),
    receive {computing, Leader} -> ok end,
    Never = fun() -> error(computed_twice) end,
    ?assertEqual({error, timeout},
                 todana:fetch(pages, k, Never, #{timeout_ms => 20})),
    ?assertEqual({error, timeout},
                 todana:fetch(pages, k, Never, #{timeout_ms => 0})),
    Leader ! go,
    ?assertEqual({ok, v}, result(Leader)),
    ?assertEqual({ok, v}, todana:fetch(pages, k, Never)).

the_timeout_is_not_for_computing(_Config) ->
    Slow = fun() -> timer:sleep(20), {ok, v} end,
    [
        ?assertEqual({ok, v},
                     todana:fetch(pages, {k, N}, Slow, #{timeout_ms => 0}))
     || N <- lists:seq(1, 10)
    ],
    ?assertEqual([], element(2, process_info(self(), messages))).

%% Different iodata with the same bytes, and a handle or a name.
one_key_is_one_flight(_Config) ->
    {ok, Handle} = todana:open(raw_pages, #{}),
    Me = self(),
    Leader = run(fun() ->
        todana:fetch(raw_pages, ~"key", computes(Me, {ok, ~"v"}))
    end),
    receive {computing, Leader} -> ok end,
    Waiters = [
        run(fun() -> todana:fetch(Table, Key, computes(Me, {ok, ~"w"})) end)
     || Table <- [raw_pages, Handle], Key <- ["key", [~"k", "ey"], ~"key"]
    ],
    nobody_computes(50),
    Leader ! go,
    [?assertEqual({ok, ~"v"}, result(Pid)) || Pid <- [Leader | Waiters]],
    ok = todana:close(raw_pages).

a_waiter_that_left_does_not_lead(_Config) ->
    Me = self(),
    Leader = fetch(k, computes(Me, {ok, v})),
    receive {computing, Leader} -> ok end,
    Never = fun() -> error(computed_by_one_who_left) end,
    {error, timeout} = todana:fetch(pages, k, Never, #{timeout_ms => 10}),
    Last = fetch(k, computes(Me, {ok, last})),
    nobody_computes(20),
    exit(Leader, kill),
    receive {computing, Last} -> Last ! go end,
    ?assertEqual({ok, last}, result(Last)).

a_coordinator_may_die(_Config) ->
    Me = self(),
    Leader = fetch(k, computes(Me, {ok, v})),
    receive {computing, Leader} -> ok end,
    Waiter = fetch(k, computes(Me, {ok, w})),
    nobody_computes(20),
    [exit(whereis(Name), kill) || Name <- todana_flight:names()],
    %% The waiter asks the new coordinator, which does not know the leader.
    receive {computing, Waiter} -> Waiter ! go end,
    Leader ! go,
    ?assertEqual({ok, v}, result(Leader)),
    ?assertEqual({ok, w}, result(Waiter)),
    ?assertMatch({ok, _}, todana:fetch(pages, k, fun() -> error(no) end)).

recursion_is_misuse(_Config) ->
    Again = fun() -> todana:fetch(pages, k, fun() -> {ok, v} end) end,
    ?assertError(badarg, todana:fetch(pages, k, Again)),
    ?assertEqual({ok, v}, todana:fetch(pages, k, fun() -> {ok, v} end)).

other_keys_do_not_wait(_Config) ->
    Inner = fun() -> {ok, inner} end,
    Outer = fun() ->
        [{ok, inner} = todana:fetch(pages, {i, N}, Inner)
         || N <- lists:seq(1, 50)],
        {ok, outer}
    end,
    ?assertEqual({ok, outer}, todana:fetch(pages, k, Outer)).

a_full_table_withholds_nothing(_Config) ->
    {ok, _} = todana:open(full, #{
        entries_max => 1, when_full => refuse, shards => 1
    }),
    ok = todana:put(full, ~"a", ~""),
    Compute = fun() -> {ok, ~"v"} end,
    ?assertEqual({ok, ~"v"}, todana:fetch(full, ~"k", Compute)),
    ?assertEqual(error, todana:get(full, ~"k")),
    ok = todana:close(full).

many_keys_many_processes(_Config) ->
    Computed = counters:new(1, []),
    Compute = fun() ->
        counters:add(Computed, 1, 1),
        erlang:yield(),
        {ok, v}
    end,
    Pids = [
        fetch_all(lists:seq(1, 200), Compute)
     || _ <- lists:seq(1, 20)
    ],
    [?assertEqual(done, result(Pid)) || Pid <- Pids],
    ?assertEqual(200, counters:get(Computed, 1)).

%% Reductions measure the work of a process independently of its speed.
leaving_costs_the_same_for_any_number_of_waiters(_Config) ->
    Few = reductions_per_leave(500),
    Many = reductions_per_leave(8000),
    ?assert(Many < 3 * Few, {Few, Many}).

%% The coordinator's work per waiter when all waiters of a key leave.
reductions_per_leave(Waiters) ->
    Me = self(),
    Leader = fetch(k, computes(Me, {ok, v})),
    receive {computing, Leader} -> ok end,
    Coordinator = coordinator_of(Leader),
    Never = fun() -> error(computed_twice) end,
    Pids = [
        run(fun() ->
            todana:fetch(pages, k, Never, #{timeout_ms => infinity})
        end)
     || _ <- lists:seq(1, Waiters)
    ],
    wait_until(fun() -> waiting(Coordinator) =:= Waiters end),
    Rows = rows(Coordinator),
    Id = id_of(Coordinator),
    Before = reductions(Coordinator),
    [
        gen_server:cast(Coordinator, {leave, Id, Number})
     || {{_, Number}, _, _} <- Rows
    ],
    ?assertEqual(0, waiting(Coordinator)),
    After = reductions(Coordinator),
    [exit(Pid, kill) || Pid <- Pids],
    Leader ! go,
    {ok, v} = result(Leader),
    ok = todana:delete(pages, k),
    (After - Before) / Waiters.

%% Calls the callbacks as gen_server would; this process is every waiter.
a_result_is_delivered_in_slices(_Config) ->
    {ok, State0} = todana_flight:init([]),
    Join = fun(Id, Pid, Alias, State) ->
        {reply, Answer, Next} =
            todana_flight:handle_call({join, Id, Alias}, {Pid, tag}, State),
        {Answer, Next}
    end,
    Leader = spawn_link(fun() -> receive stop -> ok end end),
    {{lead, Monitor}, State1} = Join(id, Leader, Leader, State0),
    State2 = lists:foldl(
        fun(_, State) ->
            {{wait, _}, Next} = Join(id, self(), self(), State),
            Next
        end,
        State1,
        lists:seq(1, 1000)
    ),
    {noreply, State3} =
        todana_flight:handle_cast({land, id, Monitor, {plain, v}}, State2),
    Slice = delivered(),
    ?assert(Slice > 0 andalso Slice =< 100, Slice),
    %% Between two slices, the coordinator handles another key.
    {{lead, _}, State4} = Join(another, Leader, Leader, State3),
    Slices = slices(State4),
    ?assertEqual(1000 - Slice, lists:sum(Slices)),
    ?assert(lists:max(Slices) =< 100),
    Leader ! stop.

slices(State) ->
    receive
        deliver ->
            {noreply, Next} = todana_flight:handle_info(deliver, State),
            [delivered() | slices(Next)]
    after 0 -> []
    end.

delivered() ->
    receive
        {_, {landed, {plain, v}}} -> 1 + delivered()
    after 0 -> 0
    end.

results_of_any_kind_arrive_whole(_Config) ->
    Me = self(),
    Results = [
        {ok, ~"bytes"}, {ok, <<1:3>>}, {ok, atom}, {ok, 1.5}, {ok, 1},
        {ok, #{a => [{1 bsl 99, "text"}]}}, {ok, self()}, {error, why},
        {error, {make_ref(), fun erlang:abs/1}},
        {ok, binary:copy(~"large", 100_000)}
    ],
    [
        begin
            Leader = fetch(N, computes(Me, Result)),
            receive {computing, Leader} -> ok end,
            Coordinator = coordinator_of(Leader),
            Waiter = fetch(N, computes(Me, {ok, another})),
            wait_until(fun() -> waiting(Coordinator) =:= 1 end),
            Leader ! go,
            ?assertEqual(Result, result(Leader)),
            ?assertEqual(Result, result(Waiter))
        end
     || {N, Result} <- lists:enumerate(Results)
    ].

a_large_result_does_not_pass_through_the_coordinator(_Config) ->
    Large = lists:seq(1, 1_000_000),
    Me = self(),
    Leader = fetch(k, computes(Me, {ok, Large})),
    receive {computing, Leader} -> ok end,
    Coordinator = coordinator_of(Leader),
    Waiter = fetch(k, computes(Me, {ok, another})),
    wait_until(fun() -> waiting(Coordinator) =:= 1 end),
    {max_heap_size, Unlimited} = process_info(Coordinator, max_heap_size),
    %% Its heap may still have room for the crowds of earlier cases.
    true = erlang:garbage_collect(Coordinator),
    %% In machine words; the list would take two million.
    Limit = #{size => 1_000_000, kill => true, error_logger => false},
    sys:replace_state(Coordinator, fun(State) ->
        _ = process_flag(max_heap_size, Limit),
        State
    end),
    Leader ! go,
    ?assertEqual({ok, Large}, result(Waiter)),
    ?assert(is_process_alive(Coordinator)),
    sys:replace_state(Coordinator, fun(State) ->
        _ = process_flag(max_heap_size, Unlimited),
        State
    end),
    ?assertEqual({ok, Large}, result(Leader)).

%% The coordinator that monitors the leader.
coordinator_of(Leader) ->
    {monitored_by, Pids} = process_info(Leader, monitored_by),
    [Coordinator] = [
        Pid
     || Pid <- Pids, Name <- todana_flight:names(), whereis(Name) =:= Pid
    ],
    Coordinator.

reductions(Pid) ->
    {reductions, Reductions} = process_info(Pid, reductions),
    Reductions.

waiting(Coordinator) ->
    length(rows(Coordinator)).

%% The state after the coordinator has handled all earlier messages.
rows(Coordinator) ->
    Me = self(),
    sys:replace_state(Coordinator, fun(State) ->
        Table = element(4, State),
        Me ! {rows, ets:tab2list(Table)},
        State
    end),
    receive {rows, Rows} -> Rows end.

id_of(Coordinator) ->
    [Id] = maps:keys(element(2, sys:get_state(Coordinator))),
    Id.

wait_until(Condition) ->
    case Condition() of
        true ->
            ok;
        false ->
            timer:sleep(10),
            wait_until(Condition)
    end.

%% ------------------------------------------------------------- processes ---

fetch(Key, Compute) ->
    run(fun() -> todana:fetch(pages, Key, Compute) end).

fetch_all(Keys, Compute) ->
    run(fun() ->
        [{ok, v} = todana:fetch(pages, {k, Key}, Compute) || Key <- Keys],
        done
    end).

run(Do) ->
    Me = self(),
    spawn(fun() ->
        Result =
            try
                Do()
            catch
                Class:Reason -> {exception, Class, Reason}
            end,
        Me ! {result, self(), Result}
    end).

result(Pid) ->
    receive
        {result, Pid, Result} -> Result
    after 120_000 -> error({no_result, Pid})
    end.

computes(Me, Result) ->
    fun() -> wait(Me), Result end.

wait(Me) ->
    Me ! {computing, self()},
    receive go -> ok end.

nobody_computes(Ms) ->
    receive
        {computing, Pid} -> error({computing, Pid})
    after Ms -> ok
    end.
