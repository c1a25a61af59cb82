%% Lines of the log: their form, and when the counters of the server make one.
-module(todana_log_events_tests).

-include_lib("eunit/include/eunit.hrl").

a_line_for_what_was_counted_since_test() ->
    Before = #{~"evicted" => 5, ~"refused" => 2, ~"last_failure" => ~""},
    Now = #{
        ~"evicted" => 12, ~"refused" => 2, ~"authentication_failures" => 3,
        ~"last_failure" => ~"10.0.0.7"
    },
    Lines = [
        {Key, Level, lists:flatten(io_lib:format("~ts", [Text]))}
     || {Key, Level, Text} <- todana_log_events:lines(Before, Now)
    ],
    ?assertMatch(
        [
            {~"authentication_failures", warning, "3 wrong passwords" ++ _},
            {~"evicted", notice, "7 records were evicted" ++ _}
        ],
        Lines
    ),
    [{_, _, Failures} | _] = Lines,
    ?assertNotEqual(nomatch, string:find(Failures, "from 10.0.0.7")).

one_is_not_many_test() ->
    [{_, _, One}] = todana_log_events:lines(#{}, #{~"refused" => 1}),
    ?assertMatch("1 write was refused" ++ _, lists:flatten(One)).

nothing_new_is_no_line_test() ->
    Counts = #{~"evicted" => 5, ~"connections_rejected" => 1},
    ?assertEqual([], todana_log_events:lines(Counts, Counts)),
    ?assertEqual([], todana_log_events:lines(#{}, #{})).

%% A server that was started again.
counts_that_begin_again_test() ->
    ?assertMatch(
        [{~"evicted", notice, _}],
        todana_log_events:lines(#{~"evicted" => 5}, #{~"evicted" => 1})
    ).

json(Message) ->
    Line = iolist_to_binary(todana_log_json:format(
        #{
            level => warning, msg => Message,
            meta => #{time => 1_795_422_760_922_655, pid => self()}
        },
        #{}
    )),
    %% One line, whatever the message contains.
    ?assertEqual(1, length(binary:matches(Line, ~"\n"))),
    ?assertMatch(<<"{\"time\":\"2026-11-23T08:32:40.922655Z\",\"level\":"
                   "\"warning\",\"message\":\"", _/binary>>, Line),
    json:decode(Line).

json_test_() ->
    [
        ?_assertEqual(
            #{
                ~"time" => ~"2026-11-23T08:32:40.922655Z",
                ~"level" => ~"warning", ~"message" => ~"a 7"
            },
            json({"a ~b", [7]})
        ),
        ?_assertMatch(#{~"message" := ~"quote \" and ü"},
                      json({string, "quote \" and ü"})),
        ?_assertMatch(#{~"message" := _}, json({string, <<255, 254, "\n">>})),
        ?_assertMatch(#{~"message" := _}, json({report, #{a => [b]}})),
        ?_assertMatch(#{~"message" := _}, json({"two\nlines ~p", [x]}))
    ].

names_of_systemd_test_() ->
    [
        ?_assertEqual({local, ~"/run/x"}, todana_systemd:address("/run/x")),
        ?_assertEqual({local, <<0, "x">>}, todana_systemd:address("@x"))
    ].

sockets_test_() ->
    Path = fun todana_control_path:of_options/1,
    Off = #{
        Name => []
     || Name <- [
            listen_resp, listen_resp_cluster, listen_memcached, listen_kyoto
        ]
    },
    Memory = Off#{
        control_socket => auto, data_dir => off, listen_http => auto
    },
    [
        ?_assertEqual(none, Path(#{control_socket => off})),
        ?_assertEqual("/x/y", Path(#{control_socket => "/x/y"})),
        ?_assertEqual("/d/control",
                      Path(#{control_socket => auto, data_dir => "/d"})),
        ?_assertEqual(none, Path(Memory)),
        ?_assertEqual(none, Path(Memory#{
            listen_resp := [{{127, 0, 0, 1}, 0}]
        })),
        ?_assertEqual("[::1]:7.control", filename:basename(Path(Memory#{
            listen_resp := [{{0, 0, 0, 0, 0, 0, 0, 1}, 7, linear}],
            listen_kyoto := [{{127, 0, 0, 1}, 8}]
        })))
    ].
