-module(todana_cluster_tests).

-include_lib("eunit/include/eunit.hrl").

%% The member that votes next, by the roles of the members in their order.
votes_test_() ->
    [
        ?_assertEqual(Next, next(Roles, Up))
     || {Roles, Up, Next} <- [
            {[leader], all, none},
            {[leader, replica], all, none},
            {[leader, replica, replica], all, 2},
            {[leader, replica, replica], [1, 2], none},
            {[leader, candidate, replica], all, none},
            {[leader, voter, replica], all, 3},
            {[leader, voter, replica], [1, 2], none},
            {[leader, voter, replica, replica], [1, 2, 4], 4},
            {[leader, voter, voter], all, none},
            {[voter, leader, voter, replica], all, none},
            {[voter, leader, voter, replica, replica], all, 4},
            {[voter, leader, voter, voter, replica], all, 5},
            {[voter, leader, unknown, replica], all, 4}
        ]
    ].

next(Roles, Up) ->
    Members = [
        #{node => node_of(N), role => Role, uid => <<N>>}
     || {N, Role} <- lists:enumerate(Roles)
    ],
    Nodes =
        case Up of
            all -> [Node || #{node := Node} <- Members];
            _ -> [node_of(N) || N <- Up]
        end,
    case todana_votes:next(Members, Nodes) of
        none -> none;
        #{uid := <<N>>} -> N
    end.

node_of(N) -> list_to_atom(lists:concat(["n", N, "@127.0.0.1"])).

%% A sentence for each state that needs a person.
screen_test_() ->
    Up = #{
        ~"state" => ~"serving", ~"applied_index" => 7,
        ~"commit_us" => #{~"p50" => 500, ~"p99" => 1500},
        ~"disk_free_bytes" => 1 bsl 30
    },
    Down = #{~"state" => ~"down"},
    Full = #{~"state" => ~"read_only", ~"reason" => ~"the disk is full"},
    Copying = #{~"state" => ~"recovering", ~"progress" => 61},
    Behind = Up#{~"applied_index" => 100_000},
    [
        {Sentence, ?_assertMatch(
            {_, _}, binary:match(screen(Members), Sentence)
        )}
     || {Members, Sentence} <- [
            {[{~"leader", Up}], ~"only one node votes"},
            {[{~"leader", Up}, {~"replica", Up}], ~"b has all records and no"},
            {[{~"leader", Up}, {~"voter", Up}, {~"voter", Up}],
                ~"1 of 3 voters may fail"},
            {[{~"leader", Up}, {~"voter", Up}, {~"voter", Down}],
                ~"no further voter may fail"},
            {[{~"leader", Up}, {~"voter", Up}, {~"voter", Down}],
                ~"cluster replace c NEW"},
            {[{~"leader", Up}, {~"voter", Full}, {~"voter", Up}],
                ~"b accepts no writes: the disk is full"},
            {[{~"leader", Up}, {~"voter", Up}],
                ~"2 voters survive no more failures than 1"},
            {[{~"leader", Up}, {~"candidate", Copying}], ~"copies 61%"},
            {[{~"leader", Up}, {~"candidate", Copying}], ~"b gets its vote"},
            {[{~"leader", Behind}, {~"voter", Up}], ~"b catches up"},
            {[{~"unknown", Up}, {~"unknown", Down}],
                ~"reaches no majority of the cluster"},
            {[{~"unknown", Up}, {~"unknown", Up}, {~"unknown", Down}],
                ~"the members elect a leader"}
        ]
    ].

screen(Members) ->
    Names = lists:sublist([~"a", ~"b", ~"c"], length(Members)),
    Rows = [
        Facts#{~"node" => Name, ~"role" => Role}
     || {Name, {Role, Facts}} <- lists:zip(Names, Members)
    ],
    Leaders = [Name || #{~"node" := Name, ~"role" := ~"leader"} <- Rows],
    unicode:characters_to_binary(todana_cluster_text:screen(#{
        ~"cluster" => ~"c0ffee",
        ~"leader" => hd(Leaders ++ [~"none"]),
        ~"members" => Rows
    })).

node_names_test_() ->
    [
        ?_assertEqual(Is, todana_distribution:is_node_name(Text))
     || {Text, Is} <- [
            {"a@127.0.0.1", true},
            {"a-1_b@host.example", true},
            {"a@host", true},
            {"a@::1", true},
            {"a", false},
            {"@host", false},
            {"a@", false},
            {"a b@host", false},
            {"a@ho st", false},
            {lists:duplicate(100, $a) ++ "@host", false}
        ]
    ].
