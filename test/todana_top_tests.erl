%% Rates between two sets of figures, and their screen.
-module(todana_top_tests).

-include_lib("eunit/include/eunit.hrl").

figures(TimeMs, Hits, Gets) ->
    #{
        ~"time_ms" => TimeMs, ~"ready" => true, ~"reason" => null,
        ~"server" => #{
            ~"version" => ~"1.2.3", ~"process_id" => 7, ~"hits" => Hits,
            ~"misses" => 10, ~"started_at_ms" => 1_000, ~"connections" => 3,
            ~"connections_resp" => 2, ~"connections_max" => 10,
            ~"resident_bytes" => 3 bsl 20, ~"memory_limit_bytes" => 1 bsl 30
        },
        ~"databases" => #{~"0" => #{
            ~"records" => 4, ~"bytes" => 2048, ~"index_bytes" => 1,
            ~"evicted" => Hits
        }},
        ~"event_loops" => [#{~"busy_s" => TimeMs / 2_000}],
        ~"erlang" => #{~"memory_bytes" => #{~"total" => 5 bsl 20}},
        ~"log" => #{~"state" => ~"serving", ~"durability" => ~"none"},
        ~"slow_log" => [
            #{~"command" => ~"KEYS", ~"us" => 12_000, ~"client" => ~"a:1"}
        ],
        ~"commands" => [
            command(~"get", Gets), command(~"ping", [1])
            | [command(~"set", [0, 0, 5]) || TimeMs > 10_000]
        ]
    }.

command(Name, Counts) ->
    #{
        ~"protocol" => ~"resp", ~"name" => Name, ~"calls" => 0,
        ~"errors" => 0, ~"total_us" => lists:sum(Counts),
        ~"calls_by_power_of_2_us" => Counts
    }.

rates() ->
    todana_top:rates(
        figures(10_000, 50, [100]), figures(12_000, 90, [150, 0, 0, 0, 1])
    ).

rates_are_for_a_second_test() ->
    ?assertMatch(
        #{
            hits_per_s := 20.0, misses_per_s := +0.0, hit_ratio := 1.0,
            evicted_per_s := 20.0, event_loops_busy := [0.5], up_s := 11,
            protocols := #{
                ~"resp" := #{per_s := 28.0, connections := 2},
                ~"kyoto" := #{per_s := 0}
            }
        },
        rates()
    ).

%% Commands that were not called since then are left out, those with the longest
%% p99 come first, and a new one counts from 0.
commands_test() ->
    #{commands := Commands, latency_us := Latency} = rates(),
    ?assertMatch(
        [
            #{name := ~"get", per_s := 25.5, p50_us := 1, p99_us := 16},
            #{name := ~"set", per_s := 2.5, p50_us := 4, p99_us := 4}
        ],
        Commands
    ),
    ?assertEqual(#{p50_us => 1, p99_us => 16, p999_us => 16}, Latency).

a_server_that_began_again_test() ->
    ?assertMatch(
        #{hits_per_s := 10.0},
        todana_top:rates(figures(10_000, 50, []), figures(11_000, 10, []))
    ).

screen_test_() ->
    Screen = unicode:characters_to_list(todana_top:screen(rates())),
    [
        ?_assertMatch({_, [_ | _]}, {Text, string:find(Screen, Text)})
     || Text <- [
            "todana 1.2.3  process 7  up 0:00:11  serving\n",
            "100.0 % hits", "4 records 2.0kb of 1.0gb", "resident 3.0mb",
            "event loops 50 %", "resp get", "KEYS"
        ]
    ] ++ [
        ?_assertEqual(nomatch, string:find(Screen, "\nlog "))
    ].

%% As they go over the socket.
an_idle_node_test() ->
    Text = iolist_to_binary(json:encode(figures(10_000, 0, []))),
    Figures = json:decode(Text),
    #{commands := [], hit_ratio := null} = Rates =
        todana_top:rates(Figures, Figures),
    ?assert(is_binary(unicode:characters_to_binary(todana_top:screen(Rates)))),
    ?assert(is_binary(iolist_to_binary(json:encode(Rates)))).
