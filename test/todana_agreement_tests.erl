%% When the logs of two members contradict each other, and who stops then.
-module(todana_agreement_tests).

-include_lib("eunit/include/eunit.hrl").

%% Two prefixes of one log never do. Two that differ always do, once each has
%% applied an entry of the later term. Logs of up to five entries and three
%% terms; a leader begins its term with an entry that no machine sees.
logs_differ_or_not_test() ->
    Logs = [
        Terms
     || Length <- lists:seq(0, 5), Terms <- terms(Length, 1)
    ],
    [
        ?assertEqual(
            {A, B, contradict(A, B)},
            {A, B, todana_log_terms:first_conflict(ranges(A), ranges(B))
                =/= none}
        )
     || A <- Logs, B <- Logs
    ].

%% Growing terms from this one on.
terms(0, _From) -> [[]];
terms(Length, From) ->
    [[Term | Rest] || Term <- lists:seq(From, 3),
                      Rest <- terms(Length - 1, Term)].

%% The entry behind the end of the shorter one may be of any term.
contradict(A, B) ->
    Common = min(length(A), length(B)),
    lists:sublist(A, Common) =/= lists:sublist(B, Common) orelse
        is_beyond(A, B) orelse is_beyond(B, A).

%% Its last entry is of an earlier term than an older entry of the other.
is_beyond(Longer, Shorter) ->
    Shorter =/= [] andalso length(Longer) > length(Shorter) andalso
        lists:last(Longer) < lists:last(Shorter).

ranges(Terms) ->
    Indexed = lists:enumerate(Terms),
    [
        {Term, hd(Of), lists:last(Of)}
     || Term <- lists:usort(Terms),
        Of <- [[Index || {Index, T} <- Indexed, T =:= Term]]
    ].

%% As the process notes them that applies the log.
terms_are_noted_test() ->
    ok = todana_group_notes:new(),
    ?assertEqual([], todana_log_terms:ranges(0)),
    ok = todana_log_terms:begin_anew(0, 0, 0),
    ?assertEqual([], todana_log_terms:ranges(0)),
    [ok = todana_log_terms:applied(0, I, 4) || I <- [2, 3, 5]],
    ?assertEqual([{4, 2, 5}], todana_log_terms:ranges(0)),
    %% Its leader's own entry was the eighth, or an earlier one.
    ok = todana_log_terms:applied(0, 9, 6),
    ok = todana_log_terms:applied(0, 10, 6),
    ?assertEqual([{4, 2, 5}, {6, 8, 10}], todana_log_terms:ranges(0)),
    ?assertEqual([4, 0, 6, 0],
                 [todana_log_terms:term_at(0, I) || I <- [5, 6, 8, 11]]),
    ok = todana_log_terms:begin_anew(0, 20, 7),
    ?assertEqual([{7, 20, 20}], todana_log_terms:ranges(0)),
    [
        ok = todana_log_terms:applied(0, 20 + 2 * T, 7 + T)
     || T <- lists:seq(1, 99)
    ],
    ?assertEqual(65, length(todana_log_terms:ranges(0))),
    true = ets:delete(todana_group_notes).

%% With a majority it goes on, and a node that has applied nothing counts for
%% neither.
the_minority_stops_test() ->
    Own = [{1, 2, 400}],
    Same = [{1, 2, 300}],
    Other = [{1, 2, 92}, {2, 93, 120}],
    Judge = fun(Answers, Members) ->
        todana_agreement:judge(Own, lists:enumerate(Answers), Members)
    end,
    ?assertEqual(agreed, Judge([], 3)),
    ?assertEqual(agreed, Judge([Same, Same], 3)),
    ?assertEqual({go_on, [2]}, Judge([Same, Other], 3)),
    ?assertEqual({stop, [1, 2]}, Judge([Other, Other], 3)),
    ?assertEqual({stop, [1]}, Judge([Other, []], 3)),
    ?assertEqual({stop, [1]}, Judge([Other], 3)),
    ?assertEqual({stop, [1]}, Judge([Other], 2)),
    ?assertEqual({stop, [2, 3]}, Judge([Same, Other, Other], 5)),
    ?assertEqual({go_on, [3, 4]}, Judge([Same, Same, Other, Other], 5)).
