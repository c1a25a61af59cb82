%% The numbers of the Raft groups, and the names of their processes.
-module(todana_raft_groups_tests).

-include_lib("eunit/include/eunit.hrl").

%% Members of earlier versions send messages to these names.
the_first_group_has_the_plain_names_test() ->
    First = todana_raft_groups:first(),
    ?assertEqual(0, First),
    [
        ?assertEqual(Name, todana_raft_groups:name(Name, First))
     || Name <- [todana_batcher, todana_clock, todana_copies, todana_watchdog]
    ].

another_group_has_its_number_behind_the_name_test() ->
    ?assertEqual(todana_batcher_3, todana_raft_groups:name(todana_batcher, 3)),
    ?assertEqual(todana_clock_63, todana_raft_groups:name(todana_clock, 63)).

%% They call functions without a number, too.
the_first_group_is_asked_without_its_number_test() ->
    ?assertEqual([a, 1], todana_raft_groups:question(0, [a, 1])),
    ?assertEqual([3, a, 1], todana_raft_groups:question(3, [a, 1])).

there_is_one_group_test() ->
    ?assertEqual([todana_raft_groups:first()], todana_raft_groups:ids()).

no_group_without_a_directory_test() ->
    ?assertError(badarg, todana_raft_groups:opened(0)).

%% Directories of earlier versions have no number in the server's configuration.
the_number_is_in_the_configuration_test() ->
    ?assertEqual(0, todana_machine:group(#{})),
    ?assertEqual(3, todana_machine:group(#{group => 3})).
