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
