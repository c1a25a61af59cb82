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
    Refuses = Down#{~"refuses" => true},
    Full = #{~"state" => ~"read_only", ~"reason" => ~"the disk is full"},
    Slow = Up#{~"commit_us" => #{~"p50" => 500, ~"p99" => 123_456_789}},
    Failed = #{~"state" => ~"failed", ~"reason" => ~"an older copy"},
    Copying = #{~"state" => ~"recovering", ~"progress" => 61},
    Behind = Up#{~"applied_index" => 100_000},
    Old = Up#{~"host" => ~"127.0.0.1", ~"resp" => 6379},
    New = Old#{~"format" => 3},
    IsOld = ~"has an older version",
    [
        %% A node that joins is not in the map yet.
        ?_assertEqual(nomatch, binary:match(screen(Members), IsOld))
     || Members <- [
            [{~"leader", Old}, {~"voter", Old}],
            [{~"leader", New}, {~"voter", New}, {~"candidate", Copying}]
        ]
    ] ++ [
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
            {[{~"leader", Up}, {~"voter", Full}, {~"voter", Up}],
                ~"no further voter may fail\n"},
            {[{~"leader", Up}, {~"voter", Full}, {~"voter", Full}],
                ~"only 1 of 3 accept writes, which is no majority"},
            {[{~"leader", Up}, {~"voter", Copying}, {~"voter", Up}],
                ~"no further voter may fail\n"},
            {[{~"leader", Slow}, {~"voter", Up}], ~" 123.5 s p99     1.0gb\n"},
            {[{~"leader", Up}, {~"voter", Up}],
                ~"let one more node join: of 3 voters, 1 may fail"},
            {[{~"leader", Up}, {~"candidate", Copying}], ~"copies 61%"},
            {[{~"leader", Up}, {~"candidate", Copying}], ~"b gets its vote"},
            {[{~"leader", Behind}, {~"voter", Up}], ~"b catches up"},
            {[{~"unknown", Up}, {~"unknown", Down}],
                ~"reaches no majority of the cluster"},
            {[{~"unknown", Up}, {~"unknown", Up}, {~"unknown", Down}],
                ~"the members are electing one"},
            {[{~"voter", Up}, {~"voter", Down}, {~"voter", Down}],
                ~"(1 of 3 voters)"},
            {[{~"unknown", Up}, {~"unknown", Failed}, {~"unknown", Down}],
                ~"(1 of 3 voters)"},
            {[{~"voter", Up}, {~"voter", Down}, {~"voter", Down}],
                ~"gives up the writes that only the lost members have"},
            {[{~"voter", Up}, {~"voter", Down}, {~"voter", Down}],
                ~"`bin/todana cluster force --i-accept-data-loss`"},
            {[{~"voter", Up}, {~"voter", Down}, {~"voter", Down}],
                ~"c is down, or cannot be reached: start it again"},
            {[{~"leader", Up}, {~"voter", Up}, {~"voter", Refuses}],
                ~"c runs, and refuses this node"},
            {[{~"unknown", Up}, {~"unknown", Down}, {~"unknown", Refuses}],
                ~"c runs, and refuses this node"},
            {[{~"unknown", Up}, {~"unknown", Down}, {~"unknown", Refuses}],
                ~"Those that refuse it may work without it"},
            {[{~"leader", New}, {~"voter", Old}, {~"voter", New}],
                <<"b ", IsOld/binary>>}
        ]
    ].

%% No column runs into the next one.
columns_test() ->
    Row = #{
        ~"role" => ~"voter", ~"state" => ~"serving", ~"zone" => ~"eu-central-1",
        ~"host" => ~"fd00:1234:5678:9abc::1", ~"resp" => 6379,
        ~"applied_index" => 12_345_678_901, ~"log_time_ms" => 1,
        ~"commit_us" => #{~"p99" => 999_999_999_999},
        ~"disk_free_bytes" => 1 bsl 60
    },
    Text = unicode:characters_to_binary(todana_cluster_text:screen(#{
        ~"cluster" => ~"c0ffee", ~"leader" => ~"none",
        ~"members" => [
            Row#{~"node" => ~"server-1@fd00:1234:5678:9abc::1"},
            Row#{~"node" => ~"b@127.0.0.1", ~"applied_index" => 7}
        ]
    })),
    [_, Head, First, Second | _] = binary:split(Text, ~"\n", [global]),
    ?assertEqual(byte_size(Head), byte_size(First)),
    ?assertEqual(byte_size(Head), byte_size(Second)),
    [
        ?assertMatch({_, _}, binary:match(First, Whole))
     || Whole <- [~"server-1@fd00:1234:5678:9abc::1 (eu-central-1) ",
                  ~" fd00:1234:5678:9abc::1:6379 ", ~" 12345678901 ",
                  ~" 1000000.0 s p99 "]
    ].

%% What needs a leader is not advised without one.
no_leader_no_change_test() ->
    Text = screen([
        {~"voter", #{~"state" => ~"failed", ~"reason" => ~"no leader"}},
        {~"voter", #{~"state" => ~"down"}}, {~"voter", #{~"state" => ~"down"}}
    ]),
    [
        ?assertEqual(nomatch, binary:match(Text, Words))
     || Words <- [~"led by", ~"cluster replace", ~"join", ~"leave"]
    ].

%% What `cluster status --wait' waits for.
may_fail_test_() ->
    [
        ?_assertEqual(MayFail, todana_cluster_text:may_fail(#{
            ~"leader" => Leader,
            ~"members" => [
                #{~"role" => Role, ~"state" => State}
             || {Role, State} <- Members
            ]
        }))
     || {Leader, Members, MayFail} <- [
            {~"a", [{~"leader", ~"serving"}], 0},
            {~"a", [{~"leader", ~"serving"}, {~"replica", ~"serving"}], 0},
            {~"a", [{~"leader", ~"serving"}, {~"voter", ~"serving"},
                    {~"candidate", ~"serving"}], 0},
            {~"a", [{~"leader", ~"serving"}, {~"voter", ~"serving"},
                    {~"voter", ~"serving"}], 1},
            {~"a", [{~"leader", ~"serving"}, {~"voter", ~"serving"},
                    {~"voter", ~"down"}], 0},
            {~"a", [{~"leader", ~"serving"}, {~"voter", ~"serving"},
                    {~"voter", ~"recovering"}], 0},
            {~"none", [{~"voter", ~"serving"}, {~"voter", ~"serving"},
                       {~"voter", ~"serving"}], -1}
        ]
    ].

%% What WAIT counts: of the members that are up, those that have an entry.
copies_test_() ->
    Copies = {#{a => 9, b => 7, c => 9}, 3},
    [
        ?_assertEqual(Counted, begin
            {AtLeast, Known} = todana_copies:of_others(a, Up, Copies),
            {AtLeast, lists:sort(Known)}
        end)
     || {Up, Counted} <- [
            {[b, c], {1, [7, 9]}}, {[b], {1, [7]}}, {[c], {1, [9]}},
            {[], {0, []}}, {[d], {0, []}}
        ]
    ].

%% The lines of the log, look by look.
events_test() ->
    Facts = #{
        now_ms => 0, leader => a, members => [a, b, c], voters => [a, b, c],
        up => [a, b, c], votes => true
    },
    Looks = [
        {Facts#{leader := none, members := [a], voters := [a], up := [a],
                votes := false}, []},
        {Facts, ["a leads the cluster; this node reaches 3 of 3 voters"]},
        {Facts, []},
        {Facts#{up := [a, b]}, ["c is down, or cannot be reached"]},
        {Facts#{up := [a], leader := none}, [
            "b is down, or cannot be reached",
            "no majority: this node reaches 1 of 3 voters, so no write is "
            "confirmed: " ++ todana_log_remedy:without_majority(),
            "the cluster has no leader, after a; this node reaches 1 of 3 "
            "voters"
        ]},
        {Facts#{up := [a, b], leader := b}, [
            "b is connected again",
            "a majority again: this node reaches 2 of 3 voters",
            "b leads the cluster; this node reaches 2 of 3 voters"
        ]},
        {Facts#{up := [a, b], leader := b, members := [a, b, d],
                voters := [a, b], votes := false},
            ["d is a member now", "c is no longer a member"]},
        {Facts#{up := [a, b], leader := b, members := [a, b, d],
                voters := [a, b]},
            ["this node votes now"]}
    ],
    _ = lists:foldl(fun({Found, Said}, Events) ->
        {Lines, New} = todana_cluster_events:look(Found, Events),
        ?assertEqual(Said, [Text || {_Level, Text} <- Lines]),
        New
    end, todana_cluster_events:new(), Looks).

%% The others do not come: the log says what to do, once.
a_start_without_the_others_test() ->
    Facts = #{
        leader => none, members => [a, b, c], voters => [a, b, c], up => [a],
        votes => true
    },
    Look = fun(NowMs, Events) ->
        todana_cluster_events:look(Facts#{now_ms => NowMs}, Events)
    end,
    {Said, _} = lists:mapfoldl(
        Look, todana_cluster_events:new(), lists:seq(0, 60_000, 1_000)
    ),
    [{warning, Text}] = lists:append(Said),
    ?assertNotEqual(nomatch, string:find(Text, "reaches 1 of 3 voters")),
    ?assertNotEqual(nomatch, string:find(Text, "cluster force")),
    ?assertNotEqual(nomatch, string:find(Text, "gives up the writes")),
    %% A majority elects a leader in a moment.
    {[], First} = Look(0, todana_cluster_events:new()),
    ?assertMatch({[], _}, todana_cluster_events:look(
        Facts#{now_ms => 20_000, up => [a, b]}, First
    )).

a_node_without_a_vote_is_no_voter_test() ->
    ?assertEqual([a], todana_cluster_events:voters([a, b], b, false)),
    ?assertEqual([a, b], todana_cluster_events:voters([a, b], b, true)),
    ?assertEqual([b], todana_cluster_events:voters([b], b, false)),
    {[{notice, Text}], _} = todana_cluster_events:look(#{
        now_ms => 0, leader => a, members => [a, b], voters => [a],
        up => [a, b], votes => false
    }, todana_cluster_events:new()),
    ?assertEqual("a leads the cluster; this node reaches 1 of 1 voters, and "
                 "has no vote itself", Text).

%% A log that ends on a full disk and begins again does not know them.
members_that_are_not_known_now_stay_test() ->
    New = todana_cluster_events:new(),
    Known = {ok, [a, b, c]},
    ?assertEqual([a, b, c], todana_cluster_events:members(Known, New)),
    ?assertEqual([node()], todana_cluster_events:members(unknown, New)),
    {_, Events} = todana_cluster_events:look(#{
        now_ms => 0, leader => a, members => [a, b, c], voters => [a, b, c],
        up => [a, b, c], votes => true
    }, New),
    ?assertEqual([a, b, c], todana_cluster_events:members(unknown, Events)),
    ?assertEqual([a, b], todana_cluster_events:members({ok, [a, b]}, Events)).

%% A cluster that changes all the time does not fill the log.
events_are_bounded_test() ->
    Look = fun(NowMs, Leader, Events) ->
        todana_cluster_events:look(#{
            now_ms => NowMs, leader => Leader, members => [a, b],
            voters => [a, b], up => [a, b], votes => true
        }, Events)
    end,
    {Said, Last} = lists:mapfoldl(fun(N, Events) ->
        Look(N, lists:nth(N rem 2 + 1, [a, b]), Events)
    end, todana_cluster_events:new(), lists:seq(1, 100)),
    ?assertEqual(20, length(lists:append(Said))),
    {[{notice, Text}], _} = Look(20_000, b, Last),
    ?assertMatch({_, _}, binary:match(
        unicode:characters_to_binary(Text), ~"80 changes before"
    )).

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
        ?_assertEqual(Is, todana_option_type:is_node_name(Text))
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

%% One of a range that no host has, and those that every host has.
own_address_test_() ->
    Other = 'a@192.0.2.55',
    [
        ?_assertEqual(
            "node: 192.0.2.55 is not an address of this host", check(Other)
        )
    ] ++ [
        ?_assertEqual(ok, check(Own))
     || Own <- ['a@127.0.0.1', 'a@127.9.9.9', 'a@localhost']
    ].

check(Name) ->
    case todana_distribution:check(Name) of
        ok -> ok;
        {error, Sentence} -> unicode:characters_to_list(Sentence)
    end.

%% Look by look. After another leader was elected, a member announces only the
%% entries that it had a second ago; later, and at an orderly stop, all.
announced_test() ->
    A = {a, 1},
    B = {b, 2},
    Looks = [
        {10, A, 0}, {20, A, 10}, {30, A, 30}, {35, A, 35},
        %% The figures of a log that is being replaced.
        {33, B, 33}, {60, B, 33}, {70, B, 70},
        {80, none, 70}, {80, none, 80}, {90, none, 80},
        {90, {b, 3}, 90}, {99, {b, 3}, 90}, {100, {b, 3}, 100}
    ],
    _ = lists:foldl(fun({Now, Leader, Announced}, Sample) ->
        {Sure, Next} = todana_confirmed:sure(Now, Leader, Sample),
        ?assertEqual({Now, Announced}, {Now, Sure}),
        Next
    end, {0, none, 0}, Looks).

%% A node that cannot become a member says why at once.
can_join_test_() ->
    Own = [{127, 0, 0, 1}, {10, 0, 0, 2}],
    Join = fun(Name, Peer) ->
        case todana_distribution:can_join(Name, Peer, Own) of
            ok -> ok;
            {error, Sentence} -> unicode:characters_to_list(Sentence)
        end
    end,
    [
        ?_assertMatch("cluster_join: a@host has a short name" ++ _,
                      Join('a@host', 'b@10.0.0.3')),
        ?_assertMatch("cluster_join: a@10.0.0.2 is this node itself" ++ _,
                      Join('a@10.0.0.2', 'a@10.0.0.2')),
        ?_assertMatch("node: b@127.0.0.1 is on a loopback address" ++ _,
                      Join('b@127.0.0.1', 'a@10.0.0.1')),
        ?_assertEqual(ok, Join('b@127.0.0.1', 'a@10.0.0.2')),
        ?_assertEqual(ok, Join('b@127.0.0.1', 'a@127.0.0.1')),
        ?_assertEqual(ok, Join('b@10.0.0.2', 'a@10.0.0.1'))
    ].

%% Nothing is stopped for it.
join_says_which_argument_is_wrong_test() ->
    [
        try todana_cluster:join(Peer, Options) of
            Result -> error({unexpected, Result})
        catch
            error:badarg:Stack ->
                Texts = todana_error:format_error(badarg, Stack),
                ?assertEqual([Number], maps:keys(Texts)),
                ?assertMatch([{todana_cluster, join, [Peer, Options], _} | _],
                             Stack)
        end
     || {Peer, Options, Number} <- [
            {"a@10.0.0.2", #{data_dir => "d"}, 1},
            {node(), #{data_dir => "d"}, 1},
            {'a@10.0.0.2', [], 2},
            {'a@10.0.0.2', #{}, 2},
            {'a@10.0.0.2', #{data_dir => "d", tls => true}, 2}
        ]
    ].

%% What the other node may lack.
refusal_test() ->
    Refusal = fun(UsesTls) ->
        lists:flatten(todana_distribution:refusal('a@10.0.0.1', UsesTls))
    end,
    ?assertNotEqual(nomatch, string:find(Refusal(true), "certificates")),
    ?assertEqual(nomatch, string:find(Refusal(false), "certificates")),
    [
        ?assertNotEqual(nomatch, string:find(Refusal(Uses), Word))
     || Uses <- [true, false], Word <- ["cookie file", "-setcookie"]
    ].

%% An option has no flag in another release, and the emulator a flag instead.
sentences_are_for_all_releases_test() ->
    {error, Sentence} = todana_cluster_start:check(#{
        data_dir => "missing", durability => always, node => off,
        cookie_file => auto, cluster_create => yes, cluster_join => off
    }),
    [
        ?assertNotEqual(nomatch, string:find(Text, Word))
     || {Text, Words} <- [
            {Sentence, ["--node a@127.0.0.1", "-name a@127.0.0.1"]},
            {todana_log_remedy:older_copy(),
             ["cluster_accept_older = yes", "--cluster-accept-older"]}
        ],
        Word <- Words
    ].

%% A node with wrong certificates tries again twice a second.
tls_alerts_test() ->
    Counter = todana_refusals:new(),
    NowMs = erlang:monotonic_time(millisecond),
    Pass = fun(AfterMs) ->
        todana_refusals:passes(tls, NowMs + AfterMs, Counter)
    end,
    ?assertEqual({true, 0}, Pass(0)),
    ?assertEqual([false || _ <- lists:seq(1, 119)],
                 [Pass(500 * N) || N <- lists:seq(1, 119)]),
    ?assertEqual({true, 119}, Pass(60_000)),
    ?assertEqual(false, Pass(60_001)).

tls_alert_names_the_certificates_test() ->
    Event = #{
        level => notice,
        msg => {report, #{alert => unknown_ca, alerter => own}},
        meta => #{time => 0, report_cb => fun(#{alert := Alert}) ->
            {"TLS client: ~tp~n", [Alert]}
        end}
    },
    Counter = todana_refusals:new(),
    #{level := warning, msg := {string, Text}} =
        todana_refusals:filter(Event, Counter),
    Flat = unicode:characters_to_list(Text),
    ?assertNotEqual(nomatch, string:find(Flat, "TLS client: unknown_ca;")),
    ?assertNotEqual(nomatch, string:find(Flat, "cluster certificates")),
    ?assertEqual(stop, todana_refusals:filter(Event, Counter)),
    %% The end of a connection, also at an orderly stop.
    End = fun(Supervisor) ->
        todana_refusals:filter(Event#{msg := {report, #{
            label => {supervisor, child_terminated},
            report => [
                {supervisor, {self(), Supervisor}},
                {errorContext, child_terminated}, {reason, killed},
                {offender, [{id, sender}]}
            ]
        }}}, Counter)
    end,
    ?assertEqual(stop, End(tls_dyn_connection_sup)),
    ?assertEqual(ignore, End(todana_sup)),
    Other = Event#{msg := {string, "another line"}},
    ?assertEqual(ignore, todana_refusals:filter(Other, Counter)).

a_wrong_cookie_is_a_line_a_minute_test() ->
    Event = #{
        level => error,
        msg => {report, #{
            label => {error_logger, error_msg},
            format => "** Connection attempt from node ~w rejected. "
                      "Invalid challenge reply. **~n",
            args => ['c@10.0.0.3']
        }},
        meta => #{time => 0, error_logger => #{tag => error}}
    },
    Counters = todana_refusals:new(),
    #{level := warning, msg := {string, Text}} =
        todana_refusals:filter(Event, Counters),
    ?assertMatch("todana: c@10.0.0.3 was refused" ++ _, lists:flatten(Text)),
    ?assertEqual(stop, todana_refusals:filter(Event, Counters)),
    %% An alert of TLS is something else.
    ?assertMatch({true, 0}, todana_refusals:passes(
        tls, erlang:monotonic_time(millisecond), Counters
    )).
