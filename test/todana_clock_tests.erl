%% The time of the log: which clock is believed, and from when on it is written.
-module(todana_clock_tests).

-include_lib("eunit/include/eunit.hrl").

one_wrong_clock_of_three_counts_for_nothing_test() ->
    [
        ?assertEqual(0, todana_clock:median(Clocks))
     || Wrong <- [-3_600_000, 20_000, 315_360_000_000],
        Clocks <- [[Wrong, 0, 0], [0, Wrong, 0], [0, 0, Wrong]]
    ].

of_two_clocks_the_nearer_one_counts_test() ->
    ?assertEqual(5, todana_clock:median([5])),
    ?assertEqual(-20, todana_clock:median([3_600_000, -20])),
    ?assertEqual(20, todana_clock:median([-3_600_000, 20])),
    ?assertEqual(7, todana_clock:median([7, 20])),
    ?assertEqual(2, todana_clock:median([-9, 2, 3, 9])).

%% The warning in the log, `status' and `clock' say the same of a clock.
a_wrong_clock_is_shown_where_the_warning_leads_test() ->
    Clock = fun(DiffersMs, EarlyMs) ->
        unicode:characters_to_list(todana_admin_cli:clocks(#{
            ~"now_ms" => 1_800_000_000_000 + DiffersMs,
            ~"wall_ms" => 1_800_000_000_000, ~"clock_early_ms" => EarlyMs
        }))
    end,
    Has = fun(Text, Part) -> string:find(Text, Part) =/= nomatch end,
    %% The clocks of the others are right.
    Wrong = Clock(7_300, 0),
    ?assert(Has(Wrong, "7.3 s behind the time of the log")),
    ?assert(Has(Wrong, "this node's clock is wrong: set it")),
    ?assert(Has(Wrong, "the log's time is    right")),
    %% All clocks were set back.
    Early = Clock(3_600_000, 3_600_000),
    ?assert(Has(Early, "3600.0 s behind the time of the log")),
    ?assert(Has(Early, "3600.0 s ahead of the clocks")),
    ?assertNot(Has(Early, "this node's clock is wrong")),
    Right = Clock(3, 0),
    ?assertNot(Has(Right, "behind")),
    ?assertNot(Has(Right, "wrong")).

a_format_of_all_batches_waits_until_nobody_goes_back_test() ->
    HourMs = 3_600_000,
    [
        ?assertEqual(
            Allowed, todana_formats:allowed(Common, Members, ForMs)
        )
     || {Common, Members, ForMs, Allowed} <- [
            {1, 3, HourMs, 1}, {3, 3, 0, 3}, {4, 1, 0, 4}, {4, 3, 0, 3},
            {4, 3, HourMs - 1, 3}, {4, 3, HourMs, 4}, {4, 2, HourMs, 4}
        ]
    ].
