-module(todana_dist_tests).

-include_lib("eunit/include/eunit.hrl").

%% A name in both forms of the first message; and what is none.
name_test_() ->
    [
        ?_assertEqual(Name, todana_dist:name(Message))
     || {Message, Name} <- [
            {new_form(0, "x@y"), "x@y"},
            {new_form(0, "x@y") ++ "more", "x@y"},
            {new_form(1 bsl 33, "y"), new},
            {[$n, 0, 5, 0, 0, 0, 1 | "x@y"], "x@y"},
            {"sok", none}, {"r1234" ++ lists:duplicate(16, 0), none},
            {"", none}, {"N", none}, {lists:sublist(new_form(0, "x@y"), 17),
                none}
        ]
    ].

%% Names that are no atoms pass 100 at once, then one each second.
passes_test() ->
    Bucket = todana_dist:new(0),
    Passed = fun(FromMs, ToMs) ->
        length([
            Ms
         || Ms <- lists:seq(FromMs, ToMs),
            todana_dist:passes(unknown(Ms), Ms, Bucket)
        ])
    end,
    ?assertEqual(99, length([
        N || N <- lists:seq(1, 99), todana_dist:passes(unknown(N), 0, Bucket)
    ])),
    ?assert(todana_dist:passes(new, 0, Bucket)),
    ?assertNot(todana_dist:passes(unknown(0), 0, Bucket)),
    ?assertNot(todana_dist:passes(new, 999, Bucket)),
    ?assertEqual(10, Passed(1, 10_000)),
    %% Time without new names counts up to the bound.
    ?assertEqual(100, Passed(1_000_000, 1_000_999)).

%% Names that are atoms cost nothing, nor do messages without a name.
known_names_pass_test() ->
    Bucket = todana_dist:new(0),
    _ = [todana_dist:passes(unknown(N), 0, Bucket) || N <- lists:seq(1, 200)],
    ?assertNot(todana_dist:passes(unknown(0), 0, Bucket)),
    ?assert(todana_dist:passes(atom_to_list(?MODULE), 0, Bucket)),
    ?assert(todana_dist:passes(none, 0, Bucket)).

%% The look at a name makes no atom.
no_atoms_test() ->
    Name = unknown(erlang:unique_integer()),
    true = todana_dist:passes(Name, 0, todana_dist:new(0)),
    ?assertError(badarg, list_to_existing_atom(Name)).

unknown(N) -> lists:concat(["stranger_", N, "@nowhere"]).

new_form(Flags, Name) ->
    binary_to_list(<<
        $N, Flags:64, 1:32, (length(Name)):16, (list_to_binary(Name))/binary
    >>).
