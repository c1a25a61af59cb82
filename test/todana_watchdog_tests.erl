-module(todana_watchdog_tests).

-include_lib("eunit/include/eunit.hrl").

-define(TICK_MS, 250).
-define(L, {other@host, 7}).
-define(M, {third@host, 8}).

%% --------------------------------------------------------------- silence ---

an_answer_is_a_sign_test() ->
    S = looks(20, #{leader => ?L, answers => true}, new()),
    ?assertNot(is_long(S)).

a_committed_entry_is_a_sign_test() ->
    S = looks(40, #{leader => ?L, commits => true}, new()),
    ?assertNot(is_long(S)).

a_leader_without_a_sign_is_noticed_after_three_seconds_test() ->
    S = looks(20, #{leader => ?L, answers => true}, new()),
    Early = looks(12, #{leader => ?L}, S),
    ?assertNot(is_long(Early)),
    ?assert(is_long(looks(1, #{leader => ?L}, Early))).

this_node_is_not_silent_test() ->
    ?assertNot(is_long(looks(99, #{leader => {node(), 1}}, new()))).

without_a_leader_nobody_is_silent_test() ->
    S = looks(99, #{leader => none}, new()),
    ?assertNot(is_long(S)),
    ?assertNot(is_long(looks(12, #{leader => ?L}, S))).

%% It was stopped, or not scheduled, and heard nobody.
a_node_that_was_away_accuses_nobody_test() ->
    S = looks(20, #{leader => ?L, answers => true}, new()),
    Back = looks(1, #{leader => ?L}, pass(30_000, S)),
    ?assertNot(is_long(Back)),
    ?assertNot(is_long(looks(12, #{leader => ?L}, Back))),
    ?assert(is_long(looks(13, #{leader => ?L}, Back))).

%% An election that does not help is not repeated at once.
each_leader_in_a_row_gets_more_time_test() ->
    S = looks(20, #{leader => ?L, answers => true}, new()),
    %% The first leader of a row has answered once.
    ?assertEqual(13, ticks_until_long(?M, S)),
    Next = looks(13, #{leader => ?M}, S),
    ?assertEqual(25, ticks_until_long({fourth@host, 9}, Next)),
    Last = lists:foldl(
        fun(Term, Before) -> looks(9, #{leader => {x@host, Term}}, Before) end,
        Next, lists:seq(9, 20)
    ),
    ?assertEqual(193, ticks_until_long({y@host, 21}, Last)),
    Good = looks(3, #{leader => {y@host, 21}, answers => true}, Last),
    ?assertEqual(13, ticks_until_long({z@host, 22}, Good)).

%% A message of the leader has ended Ra's election.
a_leader_that_is_back_gets_a_moment_test() ->
    S = looks(30, #{leader => ?L}, new()),
    Lost = looks(3, #{leader => none}, S),
    ?assertNot(is_long(Lost)),
    ?assertNot(is_long(looks(2, #{leader => ?L}, Lost))),
    ?assert(is_long(looks(3, #{leader => ?L}, Lost))).

new() -> {1_000, todana_silence:new(1_000), {0, 0}}.

pass(Ms, {NowMs, Silence, Facts}) -> {NowMs + Ms, Silence, Facts}.

is_long({NowMs, Silence, _}) -> todana_silence:is_long(NowMs, Silence).

%% The first look sees that another one leads, and begins to wait.
ticks_until_long(Leader, S) ->
    First = looks(1, #{leader => Leader}, S),
    hd([
        N
     || N <- lists:seq(1, 1_000),
        is_long(looks(N, #{leader => Leader}, First))
    ]).

looks(0, _How, S) ->
    S;
looks(N, How, {NowMs, Silence, {AnsweredMs, Committed}}) ->
    Now = NowMs + ?TICK_MS,
    Ms =
        case How of
            #{answers := true} -> Now;
            _ -> AnsweredMs
        end,
    Last =
        case How of
            #{commits := true} -> Committed + 1;
            _ -> Committed
        end,
    New = todana_silence:look(
        #{
            now_ms => Now, leader => maps:get(leader, How),
            committed => Last, last_index => Last, answered_ms => Ms
        },
        Silence
    ),
    looks(N - 1, How, {Now, New, {Ms, Last}}).

%% -------------------------------------------------------------- elections ---

an_election_needs_a_majority_that_complains_of_one_leader_test_() ->
    Three = [a, b, c],
    Five = [a, b, c, d, e],
    [
        ?_assertEqual(Chosen, todana_watchdog:chosen(?L, Voters, maps:from_list(
            [{Node, {Leader, Index, 0}} || {Node, Leader, Index} <- Complaints]
        )))
     || {Voters, Complaints, Chosen} <- [
            {Three, [{b, ?L, 5}], none},
            {Three, [{b, ?L, 5}, {c, ?L, 5}], c},
            {Three, [{b, ?L, 6}, {c, ?L, 5}], b},
            {Three, [{b, ?L, 6}, {c, ?M, 5}], none},
            %% A replica has no vote.
            {Three, [{b, ?L, 5}, {d, ?L, 9}], none},
            {Three, [{b, ?L, 5}, {c, ?L, 4}, {d, ?L, 9}], b},
            {Five, [{b, ?L, 5}, {c, ?L, 5}], none},
            {Five, [{b, ?L, 5}, {c, ?L, 7}, {e, ?L, 6}], c},
            {[a, b], [{b, ?L, 5}], none}
        ]
    ].
