%% Metrics from figures, and their text.
-module(todana_metrics_tests).

-include_lib("eunit/include/eunit.hrl").

-define(FIGURES, #{
    server => #{
        ~"version" => ~"1.2.3", ~"hits" => 7, ~"cpu_system_s" => 0.5,
        ~"cpu_user_s" => 1.25, ~"connections_resp" => 3,
        ~"evicted_clients" => 2, ~"output_limit_disconnections" => 1,
        ~"client_buffer_bytes" => 11, ~"event_backend" => ~"epoll"
    },
    databases => [database(0, 1), database(0, 2), database(5, 3)],
    commands => [{~"resp", ~"get", 3, 1, 6.5, [1, 0, 2]}],
    loops => [{4, 1_500_000_000, 0, [9]}],
    tables => [{'odd "name"\n', #{
        ~"entries" => 1, ~"bytes" => 2, ~"index_bytes" => 3,
        ~"kept_bytes" => 0, ~"hits" => 4
    }}],
    log => #{
        state => serving, log_bytes => 5, snapshot_in_progress => true,
        commit_us => #{p50 => 1_500, p99 => 2_000_000},
        last_snapshot => #{age_ms => 2_500, bytes => 9}
    },
    cluster => none,
    guest => none,
    channels => none,
    erlang => #{otp_release => ~"29", processes => 50},
    memory => [{total, 100}, {processes, 60}, {system, 40}],
    schedulers => [{dirty_cpu, 1, 0.25, 1.5}],
    ready => {error, ~"not yet"}
}).

database(Records, Counted) ->
    #{
        ~"records" => Records, ~"records_with_expiry" => 0,
        ~"bytes" => 10 * Counted, ~"kept_bytes" => 0, ~"index_bytes" => 1,
        ~"expired" => Counted, ~"evicted" => 0, ~"refused" => 0
    }.

lines() ->
    Text = todana_metrics_text:text(todana_metrics:families(?FIGURES)),
    binary:split(iolist_to_binary(Text), ~"\n", [global, trim]).

samples_test_() ->
    Lines = lines(),
    [
        ?_assertEqual({Line, true}, {Line, lists:member(Line, Lines)})
     || Line <- [
            ~"todana_build_info{version=\"1.2.3\",otp_release=\"29\"} 1",
            ~"todana_ready 0",
            ~"process_cpu_seconds_total 1.75",
            ~"todana_cpu_seconds_total{mode=\"user\"} 1.25",
            ~"# TYPE todana_lookup_hits_total counter",
            ~"todana_lookup_hits_total 7",
            ~"todana_connections{protocol=\"resp\"} 3",
            ~"todana_clients_closed_total{reason=\"output_limit\"} 1",
            ~"todana_commands_total{protocol=\"resp\"} 3",
            ~"todana_commands_total{protocol=\"kyoto\"} 0",
            ~"todana_command_errors_total{protocol=\"resp\",command=\"get\"} 1",
            %% Counters of databases are sums.
            ~"todana_expired_records_total 6",
            ~"todana_database_records{database=\"0\"} 0",
            ~"todana_database_records{database=\"2\"} 5",
            ~"todana_memory_bytes{use=\"records\"} 62",
            ~"todana_memory_bytes{use=\"clients\"} 11",
            ~"todana_memory_bytes{use=\"erlang\"} 100",
            ~"todana_table_records{table=\"odd \\\"name\\\"\\n\"} 1",
            ~"todana_log_bytes 5",
            ~"todana_snapshot_in_progress 1",
            ~"todana_snapshot_age_seconds 2.5",
            ~"# TYPE todana_log_commit_seconds summary",
            ~"todana_log_commit_seconds{quantile=\"0.99\"} 2.0",
            ~"todana_event_loop_busy_seconds_total{loop=\"0\"} 1.5",
            ~"todana_event_loops_in_use 1",
            <<"todana_scheduler_busy_seconds_total{kind=\"dirty_cpu\","
              "scheduler=\"1\"} 0.25">>
        ]
    ].

an_empty_database_but_the_first_has_no_sample_test() ->
    ?assertEqual([], [Line || Line <- lines(),
        string:find(Line, ~"database=\"1\"") =/= nomatch]).

what_is_unknown_has_no_lines_test() ->
    [
        ?assertEqual([], [L || L <- lines(), string:find(L, Name) =/= nomatch])
     || Name <- [~"todana_disk_free_bytes", ~"todana_cluster_members"]
    ].

a_histogram_is_cumulative_and_in_seconds_test() ->
    Lines = [
        Line
     || <<"todana_command_duration_seconds_", Line/binary>> <- lines()
    ],
    Labels = ~"{protocol=\"resp\",command=\"get\"",
    Bucket = fun(Bound, Count) ->
        <<"bucket", Labels/binary, ",le=\"", Bound/binary, "\"} ",
          Count/binary>>
    end,
    ?assertEqual(27, length(Lines)),
    [
        ?assert(lists:member(Line, Lines))
     || Line <- [
            Bucket(~"0.000001", ~"1"), Bucket(~"0.000002", ~"1"),
            Bucket(~"0.000004", ~"3"), Bucket(~"8.388608", ~"3"),
            Bucket(~"+Inf", ~"3"),
            <<"count", Labels/binary, "} 3">>,
            <<"sum", Labels/binary, "} 6.5e-6">>
        ]
    ].

counts_beyond_the_last_bound_are_in_the_last_bucket_test() ->
    Counts = lists:duplicate(24, 0) ++ [1, 2],
    Text = iolist_to_binary(todana_metrics_text:text([
        {~"x", histogram, ~"", [{[], #{counts => Counts, seconds => 9}}]}
    ])),
    ?assertNotEqual(nomatch, string:find(Text, ~"le=\"8.388608\"} 0\n")),
    ?assertNotEqual(nomatch, string:find(Text, ~"le=\"+Inf\"} 3\n")).

%% Of the node itself, with everything that it can have.
names_follow_the_conventions_test() ->
    {ok, _} = application:ensure_all_started(todana),
    Figures = ?FIGURES,
    Families = todana_metrics:families(?FIGURES) ++
        todana_metrics:families(todana_figures:collect()) ++
        todana_metrics:families(Figures#{
            cluster => #{
                members => 3, leads => true, has_leader => true, guests => 2
            },
            guest => #{seat => 'n@h', queue_bytes => 0, in_flight => 1},
            channels => todana_spread:figures()
        }),
    [
        begin
            ?assertMatch(
                {match, _}, re:run(Name, "^(todana|process)_[a-z_]+$")
            ),
            ?assertEqual(
                {Name, Type =:= counter},
                {Name, string:find(Name, ~"_total") =/= nomatch}
            ),
            ?assertMatch({Name, nomatch}, {Name, re:run(
                Name, "_(ms|us|kb|mb|micros|bytes_max)(_|$)"
            )}),
            ?assertEqual($., lists:last(unicode:characters_to_list(Help)))
        end
     || {Name, Type, Help, _} <- Families
    ].

the_figures_as_json_test() ->
    Text = iolist_to_binary(todana_status_json:text(?FIGURES)),
    ?assertMatch(
        #{
            ~"ready" := false, ~"reason" := ~"not yet",
            ~"databases" := #{~"0" := _, ~"2" := #{~"records" := 5}},
            ~"commands" := [#{~"name" := ~"get", ~"calls" := 3}],
            ~"cluster" := null,
            ~"log" := #{~"state" := ~"serving"}
        },
        json:decode(Text)
    ).
