%% The profiler: counting, and reports.
-module(todana_profile_tests).

-include_lib("eunit/include/eunit.hrl").

%% Labels are never removed, so each test uses its own.
-define(LABEL, {?MODULE, ?FUNCTION_NAME}).

%% ------------------------------------------------------------ counting ---

a_pair_is_one_call_test() ->
    Started = erlang:monotonic_time(),
    ok = todana_profile:start(?LABEL),
    timer:sleep(20),
    ok = todana_profile:stop(?LABEL),
    Row = row(?LABEL),
    #{seconds := Seconds, mean_us := Mean} = Row,
    ?assertMatch(#{calls := 1}, Row),
    ?assert(Seconds >= 0.020),
    ?assert(Seconds =< since(Started)),
    ?assert(abs(Mean - Seconds * 1.0e6) < 0.001).

pairs_add_up_test() ->
    [pair(?LABEL) || _ <- lists:seq(1, 1000)],
    ?assertMatch(#{calls := 1000}, row(?LABEL)).

a_call_includes_what_is_inside_test() ->
    Inside = {inside, ?LABEL},
    ok = todana_profile:start(?LABEL),
    ok = todana_profile:start(Inside),
    timer:sleep(5),
    ok = todana_profile:stop(Inside),
    ok = todana_profile:stop(?LABEL),
    #{calls := 1, seconds := InsideSeconds} = row(Inside),
    #{calls := 1, seconds := Seconds} = row(?LABEL),
    ?assert(Seconds >= InsideSeconds).

a_label_may_be_inside_itself_test() ->
    ok = todana_profile:start(?LABEL),
    ok = todana_profile:start(?LABEL),
    timer:sleep(5),
    ok = todana_profile:stop(?LABEL),
    ok = todana_profile:stop(?LABEL),
    #{calls := Calls, seconds := Seconds} = row(?LABEL),
    ?assertEqual(2, Calls),
    %% Both calls include the pause.
    ?assert(Seconds >= 0.010).

inner_calls_not_stopped_are_dropped_test() ->
    Inside = {inside, ?LABEL},
    ok = todana_profile:start(?LABEL),
    ok = todana_profile:start(Inside),
    ok = todana_profile:start({deeper, ?LABEL}),
    ok = todana_profile:stop(?LABEL),
    ?assertMatch(#{calls := 1}, row(?LABEL)),
    ?assertEqual(none, row(Inside)),
    ?assertError(badarg, todana_profile:stop(Inside)).

labels_are_compared_exactly_test() ->
    Labels = [{?LABEL, 1}, {?LABEL, 1.0}, {?LABEL, ~"1"}],
    [pair(Label) || Label <- Labels],
    [?assertMatch(#{calls := 1}, row(Label)) || Label <- Labels].

%% ------------------------------------------------------ stop, not begun ---

stop_without_start_raises_test() ->
    ?assertError(badarg, todana_profile:stop(?LABEL)),
    ?assertEqual(none, row(?LABEL)).

stop_twice_raises_test() ->
    pair(?LABEL),
    ?assertError(badarg, todana_profile:stop(?LABEL)),
    ?assertMatch(#{calls := 1}, row(?LABEL)).

stop_in_another_process_raises_test() ->
    ok = todana_profile:start(?LABEL),
    Result = in_process(fun() -> catch_error(?LABEL) end),
    ok = todana_profile:stop(?LABEL),
    ?assertMatch({badarg, _}, Result).

a_stop_that_raises_leaves_the_others_open_test() ->
    ok = todana_profile:start(?LABEL),
    ?assertError(badarg, todana_profile:stop({other, ?LABEL})),
    ?assertEqual(ok, todana_profile:stop(?LABEL)).

the_shell_names_the_argument_test() ->
    {badarg, Stack} = catch_error(?LABEL),
    ?assertMatch([{todana_profile, stop, [?LABEL], _} | _], Stack),
    Text = lists:flatten(erl_error:format_exception(error, badarg, Stack)),
    ?assertNotEqual(nomatch, string:find(Text, "argument 1: this process")).

%% ------------------------------------------------------------------ run ---

run_gives_the_result_test() ->
    ?assertEqual(result, todana_profile:run(?LABEL, fun() -> result end)),
    ?assertMatch(#{calls := 1}, row(?LABEL)).

run_counts_and_passes_on_test_() ->
    [
        ?_test(begin
            Label = {?MODULE, ?LINE, Class},
            Raise = fun() -> erlang:raise(Class, reason, []) end,
            ?assertException(
                Class, reason, todana_profile:run(Label, Raise)
            ),
            ?assertMatch(#{calls := 1}, row(Label))
        end)
     || Class <- [error, exit, throw]
    ].

run_drops_what_is_left_open_inside_test_() ->
    %% Even if the inner call has the label of run/2.
    [
        ?_test(begin
            Around = {?MODULE, ?LINE, Inside, around},
            Label = {?MODULE, ?LINE, label},
            Open = case Inside of
                same -> Label;
                other -> {?MODULE, ?LINE, other}
            end,
            ok = todana_profile:start(Around),
            ok = todana_profile:run(Label, fun() ->
                todana_profile:start(Open)
            end),
            ?assertError(badarg, todana_profile:stop(Open)),
            ?assertEqual(ok, todana_profile:stop(Around))
        end)
     || Inside <- [same, other]
    ].

run_cannot_stop_what_is_around_it_test() ->
    Around = {around, ?LABEL},
    ok = todana_profile:start(Around),
    ?assertError(
        badarg,
        todana_profile:run(?LABEL, fun() -> todana_profile:stop(Around) end)
    ),
    ?assertEqual(ok, todana_profile:stop(Around)),
    ?assertMatch(#{calls := 1}, row(?LABEL)).

run_leaves_the_process_as_it_was_test() ->
    Before = in_process(fun() -> get() end),
    After = in_process(fun() ->
        ok = todana_profile:run(?LABEL, fun() -> ok end),
        get()
    end),
    ?assertEqual(Before, After).

run_requires_a_function_without_arguments_test() ->
    ?assertError(
        function_clause, todana_profile:run(?LABEL, fun(_) -> ok end)
    ).

%% ------------------------------------------------------ many processes ---

a_process_that_dies_leaves_nothing_test() ->
    {Pid, Monitor} = spawn_monitor(fun() ->
        ok = todana_profile:start(?LABEL),
        exit(killed_inside)
    end),
    receive {'DOWN', Monitor, process, Pid, killed_inside} -> ok end,
    ?assertEqual(none, row(?LABEL)).

processes_share_a_new_label_test() ->
    %% All begin at the same time and must share one array of counters.
    Processes = 50,
    [
        begin
            Label = {?LABEL, Round},
            Ready = [
                spawn_monitor(fun() ->
                    receive go -> [pair(Label) || _ <- [1, 2, 3]] end
                end)
             || _ <- lists:seq(1, Processes)
            ],
            [Pid ! go || {Pid, _} <- Ready],
            [
                receive {'DOWN', M, process, P, Why} -> normal = Why end
             || {P, M} <- Ready
            ],
            #{calls := Calls} = row(Label),
            ?assertEqual(3 * Processes, Calls)
        end
     || Round <- lists:seq(1, 20)
    ].

%% ---------------------------------------------------------- percentiles ---

a_short_time_has_a_bucket_of_its_own_test() ->
    ?assertEqual(
        lists:seq(0, 31),
        [todana_profile:bucket(Ns) || Ns <- lists:seq(0, 31)]
    ).

each_doubling_has_sixteen_steps_test_() ->
    %% The last time before a doubling, and the first time of each bucket.
    [
        ?_test(begin
            Step = 1 bsl (Bits - 4),
            Buckets = [
                todana_profile:bucket((1 bsl Bits) + Add)
             || Add <- [-1 | [N * Step || N <- lists:seq(0, 15)]]
            ],
            First = hd(Buckets),
            ?assertEqual(lists:seq(First, First + 16), Buckets),
            ?assertEqual(
                First + 1, todana_profile:bucket((1 bsl Bits) + Step - 1)
            )
        end)
     || Bits <- lists:seq(4, 43)
    ].

the_middle_of_a_bucket_is_near_all_of_it_test() ->
    Times = lists:usort([
        (1 bsl Bits) + Part * (1 bsl Bits) div 97
     || Bits <- lists:seq(0, 43), Part <- lists:seq(0, 96)
    ]),
    [
        ?assert(
            abs(todana_profile:middle(todana_profile:bucket(Ns)) - Ns)
                =< Ns / 32
        )
     || Ns <- Times
    ].

longer_calls_count_as_the_longest_test_() ->
    Longest = todana_profile:bucket((1 bsl 44) - 1),
    [
        ?_assertEqual(Longest, todana_profile:bucket(Ns))
     || Ns <- [1 bsl 44, 1 bsl 50, 1 bsl 63]
    ].

a_long_call_has_its_true_mean_test() ->
    count(?LABEL, 1 bsl 45),
    #{mean_us := Mean, p99_us := P99} = row(?LABEL),
    ?assertEqual((1 bsl 45) / 1.0e3, Mean),
    ?assert(P99 < (1 bsl 44) / 1.0e3).

short_times_are_exact_test() ->
    [count({?LABEL, Ns}, Ns) || Ns <- lists:seq(0, 31)],
    [
        ?assertMatch(#{p50_us := P50}
                       when P50 =:= Ns / 1.0e3, row({?LABEL, Ns}))
     || Ns <- lists:seq(0, 31)
    ].

percentiles_of_known_times_test_() ->
    [
        ?_test(begin
            Label = {?MODULE, ?LINE, Name},
            [count(Label, Ns) || Ns <- shuffled(Times)],
            #{p50_us := P50, p99_us := P99} = row(Label),
            near(exact(50, Times), P50),
            near(exact(99, Times), P99)
        end)
     || {Name, Times} <- [
            {one, [12_345]},
            {two, [1_000, 9_000]},
            {even, lists:seq(1_000, 1_000_000, 1_000)},
            {steep, [1 bsl (N div 50) || N <- lists:seq(50, 1_500)]},
            {late, lists:duplicate(99, 250) ++ [40_000_000]},
            {later, lists:duplicate(98, 250) ++ [40_000_000, 40_000_000]}
        ]
    ].

%% --------------------------------------------------------------- report ---

the_most_seconds_come_first_test() ->
    Labels = [{?LABEL, Name} || Name <- [b, a, c, d]],
    [
        count(Label, Ns)
     || {Label, Ns} <- lists:zip(Labels, [2_000, 3_000, 1_000, 2_000])
    ],
    ?assertEqual(
        [{?LABEL, Name} || Name <- [a, b, d, c]],
        [Label || #{label := {?LABEL, _} = Label} <- todana_profile:report()]
    ).

reset_forgets_what_was_counted_test() ->
    [pair({?LABEL, N}) || N <- [1, 2, 3]],
    ok = todana_profile:reset(),
    ?assertEqual([], todana_profile:report()).

a_call_under_way_is_counted_after_a_reset_test() ->
    ok = todana_profile:start(?LABEL),
    ok = todana_profile:reset(),
    ok = todana_profile:stop(?LABEL),
    ?assertMatch(#{calls := 1}, row(?LABEL)).

after_a_reset_only_what_is_new_counts_test() ->
    count(?LABEL, 1_000_000),
    ok = todana_profile:reset(),
    count(?LABEL, 16),
    ?assertEqual(
        #{
            label => ?LABEL, calls => 1, seconds => 16 / 1.0e9,
            mean_us => 0.016, p50_us => 0.016, p99_us => 0.016
        },
        row(?LABEL)
    ).

%% --------------------------------------------------------------- format ---

an_empty_report_is_the_heading_test() ->
    ?assertEqual(
        ["label  seconds  calls  mean us  p50 us  p99 us"], lines([])
    ).

the_columns_line_up_test() ->
    Rows = [
        made(short, 1, 0.000_000_001),
        made({a, "long", <<"label">>}, 1_234_567_890_123, 1.0e8)
    ],
    ?assertEqual(
        [
            "label                            seconds          calls"
            "              mean us               p50 us               p99 us",
            "short                           0.000000              1"
            "                0.001                0.001                0.001",
            "{a,\"long\",<<\"label\">>}  100000000.000000  1234567890123"
            "  100000000000000.000  100000000000000.000  100000000000000.000"
        ],
        lines(Rows)
    ).

labels_of_all_letters_line_up_test() ->
    Rows = [
        made(Label, 1, 0.5)
     || Label <- [ascii, 'зима', "戸棚", <<"über"/utf8>>]
    ],
    Lines = lines(Rows),
    ?assertMatch([_], lists:usort([string:length(Line) || Line <- Lines])).

a_table_can_be_written_test() ->
    Text = todana_profile:format([made('戸棚', 1, 0.5)]),
    ?assert(is_binary(unicode:characters_to_binary(Text))).

%% ---------------------------------------------------------------- shared ---

row(Label) ->
    Rows = todana_profile:report(),
    case [Row || #{label := L} = Row <- Rows, L =:= Label] of
        [Row] -> Row;
        [] -> none
    end.

pair(Label) ->
    ok = todana_profile:start(Label),
    ok = todana_profile:stop(Label).

%% Counts a call with this duration.
count(Label, Nanoseconds) ->
    Unit = erlang:convert_time_unit(1, second, native),
    ?assertEqual(1_000_000_000, Unit),
    ok = todana_profile:count(Label, Nanoseconds).

catch_error(Label) ->
    try
        todana_profile:stop(Label)
    catch
        error:Reason:Stack -> {Reason, Stack}
    end.

in_process(Function) ->
    {Pid, Monitor} = spawn_monitor(fun() -> exit({done, Function()}) end),
    receive {'DOWN', Monitor, process, Pid, {done, Result}} -> Result end.

since(Started) ->
    Elapsed = erlang:monotonic_time() - Started,
    erlang:convert_time_unit(Elapsed, native, nanosecond) / 1.0e9.

shuffled(List) ->
    [Each || {_, Each} <- lists:sort([{rand:uniform(), E} || E <- List])].

%% The percentile, computed from the sorted times.
exact(Percent, Times) ->
    Sorted = lists:sort(Times),
    Rank = (Percent * length(Times) + 99) div 100,
    lists:nth(Rank, Sorted).

%% Within one bucket of the histogram, which is a sixteenth of a doubling.
near(Nanoseconds, Us) ->
    ?assert(abs(Us * 1.0e3 - Nanoseconds) =< Nanoseconds / 32).

made(Label, Calls, Seconds) ->
    Us = Seconds * 1.0e6,
    #{
        label => Label, calls => Calls, seconds => Seconds,
        mean_us => Us, p50_us => Us, p99_us => Us
    }.

lines(Rows) ->
    Text = unicode:characters_to_list(todana_profile:format(Rows)),
    string:lexemes(Text, "\n").
