%% The log of durable databases: restarts, processes that are killed, and the
%% files without which Ra would forget a log. Each case has its own node and its
%% own data directory.
-module(todana_log_SUITE).

-include_lib("stdlib/include/assert.hrl").

%% Short files of the log, so that some megabytes are several of them.
-define(WAL_BYTES_MAX, (16 bsl 20)).
-define(SEGMENT_ENTRIES_MAX, 4).

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    records_outlive_the_node/1,
    records_outlive_kill_9/1,
    everysec_keeps_records/1,
    killed_processes_lose_and_double_nothing/1,
    a_start_waits_for_the_one_before_it/1,
    the_guard_of_segment_files_outlives_the_others/1,
    a_log_that_is_copied_survives_its_supervisor/1,
    a_log_that_fails_often_is_started_again/1,
    reads_go_on_without_the_log/1,
    readers_miss_nothing_while_the_log_is_begun_anew/1,
    a_damaged_log_is_reported/1,
    a_lost_table_of_names_is_made_again/1,
    a_lost_configuration_is_reported/1,
    an_entry_of_a_newer_version_is_not_skipped/1,
    writes_wait_for_room/1,
    a_snapshot_makes_room/1,
    a_clean_stop_leaves_a_snapshot/1,
    tables_in_memory_wait_for_the_names_of_the_log/1,
    one_node_at_a_time/1,
    records_come_from_snapshot_and_log/1,
    a_snapshot_that_cannot_be_read_is_kept/1,
    a_damaged_record_stops_the_start/1,
    a_torn_write_is_cut_off/1,
    files_have_room_ahead_of_the_log/1,
    a_log_that_was_cut_is_refused/1,
    the_note_has_one_writer_at_a_time/1,
    the_note_of_a_stop_is_replaced_before_writes/1,
    a_file_of_the_log_that_had_just_been_created/1,
    a_damaged_log_is_repaired_on_request/1,
    a_damaged_snapshot_stays_and_so_does_the_log/1,
    a_lost_snapshot_is_not_an_empty_start/1,
    a_missing_file_stops_the_start/1,
    a_damaged_segment_that_a_snapshot_replaces_is_set_aside/1,
    an_unfinished_snapshot_is_ignored/1,
    of_snapshots_asked_for_at_once_one_is_written/1,
    a_slow_log_is_not_flooded_with_copies/1,
    a_value_is_no_longer_than_the_log_allows/1,
    long_writes_do_not_hold_a_normal_scheduler/1,
    foreign_directories_are_refused/1,
    a_node_file_of_another_directory_is_refused/1
]).
%% Called in the peer node
-export([copy_and_kill/0]).
-export([begin_start/0]).
-export([start/2, await/1, add/2, set/2, value/1, is_value/2, load/2, kill/2,
         refuse/2, kill_names/1, digest/0,
         snapshots_at_once/1, pause/1, put_zeros/1, size_of_zeros/0,
         dirty_calls/1,
         open_and_say/1, start_and_open/2, read_and_kill/2,
         await_mark/0, await_noted/0, note_at_once/2]).

all() ->
    [
        records_outlive_the_node,
        records_outlive_kill_9,
        everysec_keeps_records,
        killed_processes_lose_and_double_nothing,
        a_start_waits_for_the_one_before_it,
        the_guard_of_segment_files_outlives_the_others,
        a_log_that_is_copied_survives_its_supervisor,
        a_log_that_fails_often_is_started_again,
        reads_go_on_without_the_log,
        readers_miss_nothing_while_the_log_is_begun_anew,
        a_damaged_log_is_reported,
        a_lost_table_of_names_is_made_again,
        a_lost_configuration_is_reported,
        an_entry_of_a_newer_version_is_not_skipped,
        writes_wait_for_room,
        a_snapshot_makes_room,
        a_clean_stop_leaves_a_snapshot,
        tables_in_memory_wait_for_the_names_of_the_log,
        one_node_at_a_time,
        records_come_from_snapshot_and_log,
        a_snapshot_that_cannot_be_read_is_kept,
        a_damaged_record_stops_the_start,
        a_torn_write_is_cut_off,
        files_have_room_ahead_of_the_log,
        a_log_that_was_cut_is_refused,
        the_note_has_one_writer_at_a_time,
        the_note_of_a_stop_is_replaced_before_writes,
        a_file_of_the_log_that_had_just_been_created,
        a_damaged_log_is_repaired_on_request,
        a_damaged_snapshot_stays_and_so_does_the_log,
        a_lost_snapshot_is_not_an_empty_start,
        a_missing_file_stops_the_start,
        a_damaged_segment_that_a_snapshot_replaces_is_set_aside,
        an_unfinished_snapshot_is_ignored,
        of_snapshots_asked_for_at_once_one_is_written,
        a_slow_log_is_not_flooded_with_copies,
        a_value_is_no_longer_than_the_log_allows,
        long_writes_do_not_hold_a_normal_scheduler,
        foreign_directories_are_refused,
        a_node_file_of_another_directory_is_refused
    ].

init_per_testcase(Case, Config) ->
    Directory = filename:join(
        proplists:get_value(priv_dir, Config), atom_to_list(Case)
    ),
    [{directory, Directory} | Config].

end_per_testcase(_Case, _Config) ->
    ok.

%% ----------------------------------------------------------------- cases ---

records_outlive_the_node(Config) ->
    Peer = start_peer(Config, #{}),
    5 = call(Peer, add, [<<"n">>, 5]),
    7 = call(Peer, add, [<<"n">>, 2]),
    ok = peer:stop(Peer),
    Again = start_peer(Config, #{}),
    ?assertEqual(7, call(Again, value, [<<"n">>])),
    8 = call(Again, add, [<<"n">>, 1]),
    peer:stop(Again).

records_outlive_kill_9(Config) ->
    Peer = start_peer(Config, #{}),
    Sum = call(Peer, load, [8, 50]),
    kill_9(Peer),
    Again = start_peer(Config, #{}),
    ?assertEqual(Sum, call(Again, value, [<<"n">>])),
    peer:stop(Again).

%% A killed process leaves what it has written to the operating system.
everysec_keeps_records(Config) ->
    Options = #{durability => everysec},
    Peer = start_peer(Config, Options),
    Sum = call(Peer, load, [8, 50]),
    ?assertEqual(ok, peer:call(Peer, todana_disk, sync, [])),
    ?assertMatch(#{fsync_us := #{p50 := _, p99 := _}, commit_us := #{}},
                 peer:call(Peer, todana, info, [])),
    kill_9(Peer),
    Again = start_peer(Config, Options),
    ?assertEqual(Sum, call(Again, value, [<<"n">>])),
    ok = peer:stop(Again),
    %% Another durability is no other database.
    Always = start_peer(Config, #{}),
    ?assertEqual(Sum, call(Always, value, [<<"n">>])),
    peer:stop(Always).

%% Eight writers, whose writes are counted as they are acknowledged.
killed_processes_lose_and_double_nothing(Config) ->
    Seed = erlang:unique_integer([positive]) * 7919 +
        erlang:system_time(second),
    ct:pal("seed ~b", [Seed]),
    Peer = start_peer(Config, #{snapshot_log_bytes => "1mb"}),
    {Added, Unknown} = call(Peer, kill, [Seed, 25]),
    Value = call(Peer, value, [<<"n">>]),
    ct:pal("~b added, ~b unknown, value ~b", [Added, Unknown, Value]),
    ?assert(Added =< Value andalso Value =< Added + Unknown),
    kill_9(Peer),
    Again = start_peer(Config, #{}),
    ?assertEqual(Value, call(Again, value, [<<"n">>])),
    peer:stop(Again).

%% A group that is killed leaves the process that starts the log. Two of them
%% would remove each other's new files.
a_start_waits_for_the_one_before_it(Config) ->
    Peer = start_peer(Config, #{}),
    Earlier = call(Peer, begin_start, []),
    _ = peer:call(Peer, ?MODULE, kill_names, [[todana_group]]),
    ok = call(Peer, await, [recovering]),
    timer:sleep(4_000),
    ?assertMatch(#{state := recovering},
                 peer:call(Peer, todana_group, info, [0])),
    true = peer:call(Peer, erlang, exit, [Earlier, kill]),
    ok = call(Peer, await, [serving]),
    peer:stop(Peer).

%% While it does not run, it misses the end of a segment writer.
the_guard_of_segment_files_outlives_the_others(Config) ->
    Peer = start_peer(Config, #{}),
    Guard = peer:call(Peer, erlang, whereis, [todana_flush_guard]),
    ?assert(is_pid(Guard)),
    [
        begin
            Old = peer:call(Peer, erlang, whereis, [Name]),
            _ = peer:call(Peer, ?MODULE, kill_names, [[Name]]),
            ok = wait(fun() ->
                New = peer:call(Peer, erlang, whereis, [Name]),
                is_pid(New) andalso New =/= Old
            end),
            ok = call(Peer, await, [serving]),
            ?assertEqual(
                Guard, peer:call(Peer, erlang, whereis, [todana_flush_guard])
            )
        end
     || Name <- [todana_batcher, todana_group, todana_disk]
    ],
    peer:stop(Peer).

%% The tables in memory go with it, while the segment writer copies them.
a_log_that_is_copied_survives_its_supervisor(Config) ->
    Peer = start_peer(Config, #{}),
    Sums = [call(Peer, copy_and_kill, []) || _ <- lists:seq(1, 8)],
    ?assertEqual(lists:sum(Sums), call(Peer, value, [<<"n">>])),
    kill_9(Peer),
    Again = start_peer(Config, #{}),
    ?assertEqual(lists:sum(Sums), call(Again, value, [<<"n">>])),
    peer:stop(Again).

%% Ra's supervisors give up after a few crashes in five seconds, as on a full
%% disk: first the server's, then the system's, then the application.
a_log_that_fails_often_is_started_again(Config) ->
    Peer = start_peer(Config, #{}),
    3 = call(Peer, add, [<<"n">>, 3]),
    _ = [
        begin
            _ = peer:call(Peer, erlang, apply, [?MODULE, kill_names, [Names]]),
            timer:sleep(10)
        end
     || _ <- lists:seq(1, 30),
        Names <- [[todana_0, ra_todana_always_log_wal], [ra_systems_sup]]
    ],
    ?assertEqual(5, add_when_serving(Peer, [<<"n">>, 2])),
    peer:stop(Peer).

%% Processes of Ra may still end when it serves for the first time.
add_when_serving(Peer, Arguments) ->
    ok = call(Peer, await, [serving]),
    case call(Peer, add, Arguments) of
        recovering -> add_when_serving(Peer, Arguments);
        Sum -> Sum
    end.

%% Ra empties the tables in place and applies the log again, while a reader
%% that has passed the gate is in the middle of a list of keys.
readers_miss_nothing_while_the_log_is_begun_anew(Config) ->
    Peer = start_peer(Config, #{}),
    {Reads, Missed} = call(Peer, read_and_kill, [1_500, 5]),
    ct:pal("~b complete reads", [Reads]),
    ?assertEqual(0, Missed),
    ?assert(Reads > 0),
    peer:stop(Peer).

%% A defect of the disk is not taken for one.
a_damaged_log_is_reported(Config) ->
    {File, At} = stop_with_long_values(Config),
    write_at(File, At + 500, <<"w">>),
    Broken = start_peer(Config, #{}, failed),
    #{reason := Reason} = peer:call(Broken, todana_group, info, [0]),
    ?assertMatch([_ | _], string:find(Reason, "not by a power failure")),
    %% A node of somebody else goes on, and calls raise a name of their own.
    ?assertEqual(log_failed, call(Broken, add, [<<"n">>, 1])),
    kill_9(Broken),
    write_at(File, At + 500, <<"v">>),
    Again = start_peer(Config, #{}),
    ?assertEqual(5, call(Again, value, [<<"n">>])),
    peer:stop(Again).

%% Without a log the tables still have all that was acknowledged.
reads_go_on_without_the_log(Config) ->
    Peer = start_peer(Config, #{}),
    5 = call(Peer, add, [<<"n">>, 5]),
    [File] = filelib:wildcard(in_directory(Config, "always/*/config")),
    ok = file:rename(File, File ++ ".away"),
    _ = peer:call(Peer, ?MODULE, kill_names, [[ra_systems_sup]]),
    ok = call(Peer, await, [failed]),
    ?assertEqual(5, call(Peer, value, [<<"n">>])),
    ?assertNot(is_integer(call(Peer, add, [<<"n">>, 1]))),
    ok = file:rename(File ++ ".away", File),
    ?assertEqual(6, add_when_serving(Peer, [<<"n">>, 1])),
    peer:stop(Peer).

a_lost_table_of_names_is_made_again(Config) ->
    Peer = start_peer(Config, #{}),
    Sum = call(Peer, load, [4, 20]),
    kill_9(Peer),
    ok = file:delete(in_directory(Config, "always/names.dets")),
    Again = start_peer(Config, #{}),
    ?assertEqual(Sum, call(Again, value, [<<"n">>])),
    peer:stop(Again).

a_lost_configuration_is_reported(Config) ->
    Peer = start_peer(Config, #{}),
    Sum = call(Peer, load, [4, 20]),
    kill_9(Peer),
    [File] = filelib:wildcard(in_directory(Config, "always/*/config")),
    ok = file:rename(File, File ++ ".away"),
    Broken = start_peer(Config, #{}, failed),
    #{reason := Reason} = peer:call(Broken, todana_group, info, [0]),
    ?assertMatch([_ | _], string:find(Reason, "config: this file is missing")),
    kill_9(Broken),
    ok = file:rename(File ++ ".away", File),
    Again = start_peer(Config, #{}),
    ?assertEqual(Sum, call(Again, value, [<<"n">>])),
    peer:stop(Again).

an_entry_of_a_newer_version_is_not_skipped(Config) ->
    Peer = start_peer(Config, #{}),
    1 = call(Peer, add, [<<"n">>, 1]),
    ok = peer:call(Peer, todana_ra_server, pipeline, [
        0, {b, <<16#B1, 99, 0>>}
    ]),
    ok = call(Peer, await, [failed]),
    #{reason := Reason} = peer:call(Peer, todana_group, info, [0]),
    ?assertMatch([_ | _], string:find(Reason, "newer version of Todana")),
    peer:stop(Peer).

writes_wait_for_room(Config) ->
    Peer = start_peer(Config, #{disk_reserve => "1tb"}, read_only),
    #{reason := Reason} = peer:call(Peer, todana_group, info, [0]),
    ?assertMatch([_ | _], string:find(Reason, "MiB are free on the disk")),
    ?assertNot(is_integer(call(Peer, add, [<<"n">>, 1]))),
    %% The next look finds room.
    ok = peer:call(Peer, todana_group, room, [ok]),
    peer:stop(Peer).

%% No write would make it due, since none is accepted.
a_snapshot_makes_room(Config) ->
    Peer = start_peer(Config, #{}),
    [ok = call(Peer, put_zeros, [1 bsl 20]) || _ <- lists:seq(1, 20)],
    kill_9(Peer),
    Before = bytes(Config, "*.wal") + bytes(Config, "*/*.segment"),
    ?assert(Before > 10 bsl 20),
    Full = start_peer(Config, #{disk_reserve => "1tb"}, read_only),
    ok = wait(fun() -> bytes(Config, "*/snapshots/*/data.tds") > 0 end),
    ok = wait(fun() -> is_log_short(Config) end),
    #{state := read_only} = peer:call(Full, todana_group, info, [0]),
    %% Once, not all the time.
    timer:sleep(2_500),
    ?assertEqual(1, peer:call(Full, todana_group_notes, attempts, [])),
    kill_9(Full),
    Again = start_peer(Config, #{}),
    ?assertEqual(1 bsl 20, call(Again, size_of_zeros, [])),
    peer:stop(Again).

a_clean_stop_leaves_a_snapshot(Config) ->
    Peer = start_peer(Config, #{}),
    5 = call(Peer, add, [<<"n">>, 5]),
    ok = peer:call(Peer, application, stop, [todana]),
    %% Of a few entries none is needed.
    ?assertEqual([], snapshots(Config)),
    ok = peer:stop(Peer),
    Long = start_peer(Config, #{}),
    [ok = call(Long, put_zeros, [1 bsl 20]) || _ <- lists:seq(1, 20)],
    %% The stop of a slow machine would go on without what it leaves here.
    ok = peer:call(Long, application, set_env, [
        todana, stop_limit_ms, 600_000
    ]),
    %% As SIGTERM does. Ra is needed for it, and must not be stopped before.
    _ = unlink(Long),
    Monitor = monitor(process, Long),
    ok = peer:call(Long, init, stop, []),
    receive {'DOWN', Monitor, process, Long, _} -> ok end,
    ?assertMatch([_], snapshots(Config)),
    ?assert(is_log_short(Config)),
    [File] = snapshots(Config),
    Again = start_peer(Config, #{}),
    ?assertEqual(5, call(Again, value, [<<"n">>])),
    ?assertEqual(1 bsl 20, call(Again, size_of_zeros, [])),
    %% The node knows the snapshot by its file.
    Hour = 3_600,
    ok = peer:stop(Again),
    Seconds = erlang:system_time(second) - Hour,
    ok = file:change_time(File, calendar:system_time_to_local_time(
        Seconds, second
    )),
    Bytes = filelib:file_size(File),
    Later = start_peer(Config, #{}),
    #{last_snapshot := #{age_ms := AgeMs, bytes := Bytes, index := _} = Last} =
        peer:call(Later, todana, info, []),
    ?assert(AgeMs >= Hour * 1_000 andalso AgeMs < 2 * Hour * 1_000),
    ?assertNot(is_map_key(duration_ms, Last)),
    peer:stop(Later).

%% Otherwise a table in memory could take the name of a durable one.
tables_in_memory_wait_for_the_names_of_the_log(Config) ->
    Peer = start_peer(Config, #{}),
    {ok, _} = peer:call(Peer, todana, open, [orders, #{durable => true}]),
    {ok, _} = peer:call(Peer, todana, open, [cache, #{}]),
    ?assertMatch({error, {exists, #{durable := {false, true}}}},
                 peer:call(Peer, todana, open, [cache, #{durable => true}])),
    kill_9(Peer),
    [File] = filelib:wildcard(in_directory(Config, "always/*/config")),
    ok = file:rename(File, File ++ ".away"),
    Broken = start_peer(Config, #{}, failed),
    ?assertEqual(log_failed, call(Broken, open_and_say, [cache])),
    ok = file:rename(File ++ ".away", File),
    ok = call(Broken, await, [serving]),
    kill_9(Broken),
    {ok, Third, _} = peer(),
    %% As an application that is started after this one.
    ?assertMatch({error, {exists, #{durable := {true, false}}}},
                 call(Third, start_and_open, [directory(Config), orders])),
    ?assertEqual(ok, call(Third, open_and_say, [cache])),
    peer:stop(Third).

one_node_at_a_time(Config) ->
    Peer = start_peer(Config, #{}),
    {ok, Other, _} = peer(),
    {error, Sentence} = call(Other, refuse, [Config, always]),
    ?assertMatch([_ | _], string:find(Sentence, "in use by another running")),
    kill_9(Peer),
    ok = call(Other, start, [directory(Config), #{}]),
    ok = call(Other, await, [serving]),
    peer:stop(Other).

records_come_from_snapshot_and_log(Config) ->
    Peer = start_peer(Config, #{}),
    Some = call(Peer, load, [4, 50]),
    ok = peer:call(Peer, todana_snapshots, request_and_wait, [0, 60_000]),
    #{last_snapshot := #{index := Index, bytes := Bytes}} =
        peer:call(Peer, todana_group, info, [0]),
    ?assert(Index > 1 andalso Bytes > 100),
    More = call(Peer, load, [4, 50]),
    Digest = call(Peer, digest, []),
    kill_9(Peer),
    %% Twice: a start must leave everything as it was.
    _ = [
        begin
            Again = start_peer(Config, #{}),
            ?assertEqual(Digest, call(Again, digest, [])),
            kill_9(Again)
        end
     || _ <- [1, 2]
    ],
    Last = start_peer(Config, #{}),
    ?assertEqual(Some + More, call(Last, value, [<<"n">>])),
    %% From the snapshot alone, too.
    ok = peer:call(Last, todana_snapshots, request_and_wait, [0, 60_000]),
    ok = peer:stop(Last),
    Only = start_peer(Config, #{}),
    ?assertEqual(Some + More, call(Only, value, [<<"n">>])),
    peer:stop(Only).

%% An error of the disk is no reason to delete the snapshot: Ra deletes all if
%% none is valid.
a_snapshot_that_cannot_be_read_is_kept(Config) ->
    Sum = stop_with_snapshot(Config),
    [File] = snapshots(Config),
    ok = file:rename(File, File ++ ".away"),
    %% Opening it works, and reading it does not.
    ok = file:make_dir(File),
    Broken = start_peer(Config, #{}, failed),
    #{reason := Reason} = peer:call(Broken, todana_group, info, [0]),
    ?assertMatch([_ | _], string:find(Reason, "cannot be used")),
    ?assertEqual([File], snapshots(Config)),
    ok = file:del_dir(File),
    ok = file:rename(File ++ ".away", File),
    %% It starts by itself.
    ok = call(Broken, await, [serving]),
    ?assertEqual(Sum, call(Broken, value, [<<"n">>])),
    peer:stop(Broken).

a_damaged_record_stops_the_start(Config) ->
    Sum = stop_with_snapshot(Config),
    [File] = snapshots(Config),
    {ok, Whole} = file:read_file(File),
    {At, _} = binary:match(Whole, <<"the value">>),
    <<Before:At/binary, _, After/binary>> = Whole,
    ok = file:write_file(File, [Before, "T", After]),
    Broken = start_peer(Config, #{}, failed),
    #{reason := Reason} = peer:call(Broken, todana_group, info, [0]),
    ?assertMatch([_ | _], string:find(Reason, "damaged at offset")),
    ?assertEqual([File], snapshots(Config)),
    %% In one step: the node tries again at any moment.
    ok = file:write_file(File ++ ".whole", Whole),
    ok = file:rename(File ++ ".whole", File),
    ok = call(Broken, await, [serving]),
    ?assertEqual(Sum, call(Broken, value, [<<"n">>])),
    peer:stop(Broken).

%% The power failed: of the last write to the log, one record has a hole.
a_torn_write_is_cut_off(Config) ->
    File = stop_with_log(Config, always),
    lose_a_sector_of(File, <<"8">>),
    {ok, Torn} = file:read_file(File),
    Again = start_peer(Config, #{}),
    ?assertEqual([true || _ <- lists:seq(1, 7)] ++ [false, false, false],
                 [is_there(Again, N) || N <- lists:seq(1, 10)]),
    [Kept] = filelib:wildcard(in_directory(Config, "always/*/damaged/*")),
    {ok, Rest} = file:read_file(Kept),
    ?assertMatch({_, _}, binary:match(Torn, Rest)),
    1 = call(Again, add, [<<"n">>, 1]),
    kill_9(Again),
    Third = start_peer(Config, #{}),
    ?assertEqual(1, call(Third, value, [<<"n">>])),
    peer:stop(Third),
    torn_with_everysec(Config).

%% More may be torn, and the next start may be with another durability.
torn_with_everysec(Config) ->
    ok = file:del_dir_r(directory(Config)),
    lose_a_sector_of(stop_with_log(Config, everysec), <<"3">>),
    Again = start_peer(Config, #{}),
    ?assertEqual([true, true] ++ [false || _ <- lists:seq(3, 10)],
                 [is_there(Again, N) || N <- lists:seq(1, 10)]),
    peer:stop(Again).

%% The room is made while clients write, and it is not longer than the file may
%% get. Nothing waits for the fdatasync of a log with `everysec'.
files_have_room_ahead_of_the_log(Config) ->
    Probe = filename:join(proplists:get_value(priv_dir, Config), "probe"),
    ok = file:write_file(Probe, ~""),
    case todana_nif:extend_file(list_to_binary(Probe), 1 bsl 20) of
        ok -> files_have_room(Config);
        {error, Why} -> {skip, Why}
    end.

files_have_room(Config) ->
    Peer = start_peer(Config, #{snapshot_log_bytes => "1gb"}),
    ok = wait(fun() ->
        _ = call(Peer, add, [<<"n">>, 1]),
        case files(Config, "*.wal") of
            [File] -> filelib:file_size(File) >= 2 bsl 20;
            _ -> false
        end
    end),
    [First] = files(Config, "*.wal"),
    ?assert(byte_size(todana_log_writer:read_used(First)) < 1 bsl 20),
    %% Several files.
    _ = [
        begin
            ok = call(Peer, put_zeros, [1 bsl 20]),
            _ = call(Peer, add, [<<"n">>, 1]),
            [
                ?assert(filelib:file_size(File) < ?WAL_BYTES_MAX + (2 bsl 20))
             || File <- files(Config, "*.wal")
            ]
        end
     || _ <- lists:seq(1, 40)
    ],
    Count = call(Peer, value, [<<"n">>]),
    kill_9(Peer),
    Again = start_peer(Config, #{}),
    ?assertEqual(Count, call(Again, value, [<<"n">>])),
    peer:stop(Again),
    _ = file:del_dir_r(directory(Config)),
    Other = start_peer(Config, #{durability => everysec}),
    _ = call(Other, load, [4, 100]),
    timer:sleep(1_000),
    [Newest] = files_of(Config, "everysec/*.wal"),
    ?assert(filelib:file_size(Newest) < 1 bsl 20),
    peer:stop(Other).

%% It looks like a torn write, and all that is gone was confirmed.
a_log_that_was_cut_is_refused(Config) ->
    [
        begin
            _ = file:del_dir_r(directory(Config)),
            Options = #{durability => Durability},
            Peer = start_peer(Config, Options),
            Sum = call(Peer, load, [8, 50]),
            ok = call(Peer, await_noted, []),
            kill_9(Peer),
            Pattern = lists:concat([Durability, "/*.wal"]),
            File = lists:last(lists:sort(filelib:wildcard(
                in_directory(Config, Pattern)
            ))),
            {ok, Whole} = file:read_file(File),
            Used = byte_size(todana_log_writer:read_used(File)),
            [
                begin
                    ok = file:write_file(File, binary:part(Whole, 0, Bytes)),
                    Broken = start_peer(Config, Options, failed),
                    #{reason := Reason} =
                        peer:call(Broken, todana_group, info, [0]),
                    ?assertMatch([_ | _], string:find(Reason, "was confirmed")),
                    kill_9(Broken),
                    ?assertEqual(Bytes, filelib:file_size(File)),
                    {ok, Findings} = check(Config),
                    ?assert(lists:keymember(damaged, 1, Findings))
                end
             || Bytes <- [Used div 10, Used - 1]
            ],
            ok = file:write_file(File, Whole),
            Again = start_peer(Config, Options),
            ?assertEqual(Sum, call(Again, value, [<<"n">>])),
            peer:stop(Again)
        end
     || Durability <- [always, everysec]
    ].

%% One would rename the temporary file of another one, or a part of it.
the_note_has_one_writer_at_a_time(Config) ->
    Peer = start_peer(Config, #{}),
    Sum = call(Peer, load, [4, 20]),
    ok = call(Peer, note_at_once, [4, 50]),
    kill_9(Peer),
    Again = start_peer(Config, #{}),
    ?assertEqual(Sum, call(Again, value, [<<"n">>])),
    peer:stop(Again).

check(Config) ->
    {ok, Other, _} = peer(),
    Findings = peer:call(
        Other, todana_offline_check, check, [directory(Config)]
    ),
    ok = peer:stop(Other),
    Findings.

%% The power failed before it had its first bytes, or all of them. Ra would not
%% start.
a_file_of_the_log_that_had_just_been_created(Config) ->
    Sum = stop_with_snapshot(Config),
    [
        begin
            Names = filelib:wildcard(in_directory(Config, "always/*.wal")),
            Last = filename:basename(lists:last(lists:sort(Names)), ".wal"),
            Next = lists:flatten(io_lib:format(
                "always/~16..0b.wal", [list_to_integer(Last) + 1]
            )),
            ok = file:write_file(in_directory(Config, Next), Bytes),
            Again = start_peer(Config, #{}),
            ?assertEqual(Sum, call(Again, value, [<<"n">>])),
            kill_9(Again)
        end
     || Bytes <- ["", "R", "RAWA", [0, 0, 0], "RAWA\001", [0, 0, 0, 0, 0]]
    ].

a_damaged_log_is_repaired_on_request(Config) ->
    File = stop_with_log(Config, always),
    lose_a_sector_of(File, <<"5">>),
    {ok, Damaged} = file:read_file(File),
    Broken = start_peer(Config, #{}, failed),
    #{reason := Reason} = peer:call(Broken, todana_group, info, [0]),
    [
        ?assertMatch([_ | _], string:find(Reason, Part))
     || Part <- [File, "byte", "todana repair"]
    ],
    ?assertEqual({ok, Damaged}, file:read_file(File)),
    Directory = directory(Config),
    {ok, Other, _} = peer(),
    Repair = fun() ->
        peer:call(Other, todana_offline, repair, [Directory])
    end,
    {error, InUse} = Repair(),
    ?assertMatch([_ | _], string:find(InUse, "in use")),
    kill_9(Broken),
    {ok, Text} = Repair(),
    Said = lists:flatten(Text),
    ?assertMatch([_ | _], string:find(Said, "confirmed writes")),
    ?assertEqual({ok, "No entry of the log is damaged.\n"}, Repair()),
    peer:stop(Other),
    [Kept] = filelib:wildcard(in_directory(Config, "always/*/damaged/*")),
    ?assertEqual({ok, Damaged}, file:read_file(Kept)),
    Again = start_peer(Config, #{}),
    ?assertEqual([true || _ <- lists:seq(1, 4)] ++
                     [false || _ <- lists:seq(5, 10)],
                 [is_there(Again, N) || N <- lists:seq(1, 10)]),
    peer:stop(Again).

%% Nothing is changed: neither the snapshot nor what Ra would delete, since the
%% snapshot has replaced it.
a_damaged_snapshot_stays_and_so_does_the_log(Config) ->
    Sum = stop_with_snapshot(Config),
    [File] = snapshots(Config),
    Meta = filename:join(filename:dirname(File), "meta"),
    {ok, Whole} = file:read_file(File),
    {ok, Words} = file:read_file(Meta),
    {At, _} = binary:match(Whole, <<"the value">>),
    <<Before:At/binary, _, After/binary>> = Whole,
    Size = byte_size(Whole),
    [
        begin
            ok = Damage(),
            Contents = contents(Config),
            Broken = start_peer(Config, #{}, failed),
            #{reason := Reason} = peer:call(Broken, todana_group, info, [0]),
            ?assertMatch({_, [_ | _]}, {Reason, string:find(Reason, Named)}),
            kill_9(Broken),
            ?assertEqual(Contents, contents(Config)),
            ok = file:write_file(File, Whole),
            ok = file:write_file(Meta, Words)
        end
     || {Damage, Named} <- [
            {fun() ->
                file:write_file(File, binary:part(Whole, 0, Size - 3))
            end, "offset"},
            {fun() -> file:write_file(File, [Before, "T", After]) end,
                "is damaged at offset"},
            {fun() -> file:write_file(Meta, [Words, 0]) end,
                "meta is damaged: wrong checksum"},
            {fun() -> file:delete(Meta) end, "is missing"}
        ]
    ],
    Again = start_peer(Config, #{}),
    ?assertEqual(Sum, call(Again, value, [<<"n">>])),
    peer:stop(Again).

%% Of all files of the log and of snapshots.
contents(Config) ->
    [
        {File, file:read_file(File)}
     || Pattern <- ["*.wal", "*/*.segment", "*/snapshots/*/*", "*/damaged/*"],
        File <- files(Config, Pattern)
    ].

a_lost_snapshot_is_not_an_empty_start(Config) ->
    Sum = stop_with_snapshot(Config),
    [File] = snapshots(Config),
    Directory = filename:dirname(File),
    Away = in_directory(Config, "away"),
    ok = file:rename(Directory, Away),
    Broken = start_peer(Config, #{}, failed),
    #{reason := Reason} = peer:call(Broken, todana_group, info, [0]),
    ?assertMatch([_ | _], string:find(Reason, "snapshot is missing")),
    kill_9(Broken),
    ok = file:rename(Away, Directory),
    Again = start_peer(Config, #{}),
    ?assertEqual(Sum, call(Again, value, [<<"n">>])),
    peer:stop(Again).

%% The check of the files and the start say the same. Nothing is served then,
%% and nothing is changed: with the file the node starts.
a_missing_file_stops_the_start(Config) ->
    Peer = start_peer(Config, #{snapshot_log_bytes => "1gb"}),
    ok = wait(fun() ->
        ok = call(Peer, put_zeros, [1 bsl 20]),
        length(files(Config, "*/*.segment")) >= 3
    end),
    %% Until then their entries are in another file as well.
    ok = wait(fun() -> length(files(Config, "*.wal")) =:= 1 end),
    %% In the newest file of the log, whatever it is.
    7 = call(Peer, add, [<<"n">>, 7]),
    ok = call(Peer, await_mark, []),
    kill_9(Peer),
    {ok, Other, _} = peer(),
    Check = fun() ->
        {ok, Findings} = peer:call(Other, todana_offline_check, check,
                                   [directory(Config)], 60_000),
        [lists:flatten(Words) || {damaged, _, Words} <- Findings]
    end,
    ?assertEqual([], Check()),
    [_, Segment | _] = files(Config, "*/*.segment"),
    Newest = lists:last(files(Config, "*.wal")),
    [
        begin
            ok = file:rename(File, File ++ ".away"),
            [Words] = Check(),
            ?assertMatch({_, [_ | _]}, {Words, string:find(Words, Expected)}),
            Broken = start_peer(Config, #{}, failed),
            #{reason := Reason} = peer:call(Broken, todana_group, info, [0]),
            ?assertEqual(Words, lists:nthtail(
                length(Reason) - length(Words), Reason
            )),
            kill_9(Broken),
            ok = file:rename(File ++ ".away", File)
        end
     || {File, Expected} <- [
            {Segment, "are missing before this file (no file"},
            {Newest, "was confirmed"}
        ]
    ],
    ?assertEqual([], Check()),
    peer:stop(Other),
    Again = start_peer(Config, #{}),
    ?assertEqual(7, call(Again, value, [<<"n">>])),
    peer:stop(Again).

%% Otherwise a later start would believe that nothing was confirmed after it.
the_note_of_a_stop_is_replaced_before_writes(Config) ->
    Peer = start_peer(Config, #{}),
    5 = call(Peer, add, [<<"n">>, 5]),
    ok = peer:call(Peer, application, stop, [todana], 60_000),
    ok = peer:stop(Peer),
    [Note] = files(Config, "*/todana.mark"),
    Server = filename:dirname(Note),
    {ok, #{is_final := true}} = todana_log_mark:facts(Server),
    %% The new note has no place.
    ok = file:make_dir(Note ++ ".tmp"),
    Again = start_peer(Config, #{}, recovering),
    ok = wait(fun() ->
        Info = peer:call(Again, todana_group, info, [0]),
        string:find(maps:get(reason, Info, ""), "todana.mark") =/= nomatch
    end),
    ?assertEqual(recovering, call(Again, add, [<<"n">>, 1])),
    {ok, #{is_final := true}} = todana_log_mark:facts(Server),
    ok = file:del_dir(Note ++ ".tmp"),
    ok = call(Again, await, [serving]),
    ?assertMatch({ok, #{is_final := false}}, todana_log_mark:facts(Server)),
    ?assertEqual(6, call(Again, add, [<<"n">>, 1])),
    ?assertNot(is_map_key(reason, peer:call(Again, todana_group, info, [0]))),
    peer:stop(Again).

%% What a crash leaves of a snapshot that was being written.
%% Ra keeps the last segment, and would not start with it.
a_damaged_segment_that_a_snapshot_replaces_is_set_aside(Config) ->
    Peer = start_peer(Config, #{}),
    Some = call(Peer, load, [4, 20]),
    kill_9(Peer),
    %% This start copies the log to segments.
    Again = start_peer(Config, #{}),
    ok = peer:call(Again, todana_snapshots, request_and_wait, [0, 60_000]),
    More = call(Again, load, [4, 5]),
    kill_9(Again),
    [_ | _] = Segments = files(Config, "*/*.segment"),
    Segment = lists:last(Segments),
    ok = file:write_file(Segment, "not a segment"),
    Third = start_peer(Config, #{}),
    ?assertEqual(Some + More, call(Third, value, [<<"n">>])),
    ?assertMatch([_], files(Config, "*/damaged/*.segment*")),
    peer:stop(Third).

an_unfinished_snapshot_is_ignored(Config) ->
    Sum = stop_with_snapshot(Config),
    [File] = snapshots(Config),
    Unfinished = filename:join(
        filename:dirname(filename:dirname(File)),
        "00000000000000FF_00000000000000FF/data.tmp"
    ),
    ok = filelib:ensure_dir(Unfinished),
    {ok, Whole} = file:read_file(File),
    ok = file:write_file(Unfinished, binary:part(Whole, 0, 50)),
    Again = start_peer(Config, #{}),
    ?assertEqual(Sum, call(Again, value, [<<"n">>])),
    ?assertNot(filelib:is_file(Unfinished)),
    peer:stop(Again).

%% The file of a log with ten entries of a value each.
stop_with_log(Config, Durability) ->
    Peer = start_peer(Config, #{durability => Durability}),
    [
        ok = call(Peer, set, [integer_to_binary(N), long_value(N)])
     || N <- lists:seq(1, 10)
    ],
    kill_9(Peer),
    Pattern = in_directory(Config, atom_to_list(Durability) ++ "/*.wal"),
    lists:last(lists:sort(filelib:wildcard(Pattern))).

long_value(N) -> binary:copy(<<"<", (integer_to_binary(N))/binary, ">">>, 500).

is_there(Peer, N) ->
    call(Peer, is_value, [integer_to_binary(N), long_value(N)]).

%% As long as they were not confirmed, the note did not name them.
lose_a_sector_of(File, Digits) ->
    Notes = filename:join([filename:dirname(File), "*", "todana.mark"]),
    _ = [ok = file:delete(Note) || Note <- filelib:wildcard(Notes)],
    {ok, Bytes} = file:read_file(File),
    {At, _} = binary:match(Bytes, <<"<", Digits/binary, "><">>),
    Sector = (At div 512 + 1) * 512,
    <<Before:Sector/binary, _:512/binary, After/binary>> = Bytes,
    ok = file:write_file(File, [Before, <<0:512/unit:8>>, After]).

foreign_directories_are_refused(Config) ->
    Directory = directory(Config),
    ok = filelib:ensure_path(Directory),
    {ok, Peer, _} = peer(),
    Refused = fun(File, Text) ->
        ok = file:write_file(in_directory(Config, File), Text),
        {error, Sentence} = call(Peer, refuse, [Config, always]),
        Path = in_directory(Config, File),
        ?assertEqual({ok, iolist_to_binary(Text)}, file:read_file(Path)),
        ok = file:delete(Path),
        Sentence
    end,
    Cases = [
        {"letter.txt", "", "is not empty"},
        {"lock", "a letter", "is not a lock of Todana"},
        {"node", "{format, 99}.\n", "start a newer version"},
        {"node", "{number, 1}.\n", "is not a file of Todana"},
        {"node", "{format, 1}.\n", "is damaged"},
        {"node", "{for", "node is damaged (line 1: "},
        {"node",
            "{format, 1}. {node, other@host}. {uid, <<\"A\">>}. {seed, 1}. "
            "{created_ms, 1}.\n",
            "belongs to the node other@host"}
    ],
    [
        ?assertMatch([_ | _], string:find(Refused(File, Text), Words))
     || {File, Text, Words} <- Cases
    ],
    %% Nothing of somebody else's directory is changed, and nothing added.
    Lock = in_directory(Config, "lock"),
    ok = file:delete(Lock),
    _ = Refused("letter.txt", "x"),
    ?assertEqual({ok, []}, file:list_dir(Directory)),
    Letter = in_directory(Config, "always.txt"),
    ok = file:make_symlink(Letter, Lock),
    {error, _} = call(Peer, refuse, [Config, always]),
    ?assertEqual({error, enoent}, file:read_file(Letter)),
    peer:stop(Peer).

%% What it says would be missed only when the log is to be read, and a start
%% without a log deletes what an unfinished first start has left.
a_node_file_of_another_directory_is_refused(Config) ->
    Peer = start_peer(Config, #{}),
    5 = call(Peer, add, [<<"n">>, 5]),
    kill_9(Peer),
    Node = in_directory(Config, "node"),
    {ok, Own} = file:read_file(Node),
    {ok, Other, _} = peer(),
    Refused = fun(Text) ->
        ok = file:write_file(Node, Text),
        {error, Sentence} = call(Other, refuse, [Config, always]),
        Sentence
    end,
    Foreign = binary:replace(Own, <<"TODANA0_">>, <<"TODANA0_F">>),
    [New | _] = binary:split(Foreign, <<"{group,">>),
    [
        ?assertMatch([_ | _], string:find(Refused(Text), Words))
     || {Text, Words} <- [
            {Foreign, "is the file of another data directory"},
            {New, "is the file of another data directory"}
        ]
    ],
    Class = in_directory(Config, "always"),
    ok = file:rename(Class, in_directory(Config, "away")),
    ?assertMatch([_ | _], string:find(Refused(Own), "has no log")),
    ok = file:rename(in_directory(Config, "away"), Class),
    %% A node that was killed leaves its socket.
    ok = file:delete(Node),
    ok = file:write_file(in_directory(Config, "status"), ""),
    {error, Missing} = call(Other, refuse, [Config, always]),
    ?assertMatch([_ | _], string:find(Missing, "node is missing")),
    ok = file:write_file(Node, Own),
    ok = peer:stop(Other),
    Again = start_peer(Config, #{}),
    ?assertEqual(5, call(Again, value, [<<"n">>])),
    peer:stop(Again).

%% Ra writes the first one and ignores the others, so the first one's handle
%% must not make room for theirs.
of_snapshots_asked_for_at_once_one_is_written(Config) ->
    Peer = start_peer(Config, #{}),
    Sum = call(Peer, load, [4, 20]),
    ?assertEqual(ok, call(Peer, snapshots_at_once, [3])),
    ?assertMatch([_], snapshots(Config)),
    kill_9(Peer),
    Again = start_peer(Config, #{}),
    ?assertEqual(Sum, call(Again, value, [<<"n">>])),
    peer:stop(Again).

%% Each copy of a batch is written to the log, which makes a slow one slower:
%% copies are sent after 1 s, 3 s, 7 s and so on.
a_slow_log_is_not_flooded_with_copies(Config) ->
    Peer = start_peer(Config, #{}),
    1 = call(Peer, add, [<<"n">>, 1]),
    {Value, Copies, PausedMs} = call(Peer, pause, [5_000]),
    ct:pal("~b copies in ~b ms", [Copies, PausedMs]),
    ?assertEqual(2, Value),
    ?assert(1 bsl Copies =< PausedMs div 1_000 + 1),
    peer:stop(Peer).

a_value_is_no_longer_than_the_log_allows(Config) ->
    Peer = start_peer(Config, #{durable_value_bytes_max => "1mb"}),
    ?assertEqual(ok, call(Peer, put_zeros, [1 bsl 20])),
    ?assertEqual(badarg, call(Peer, put_zeros, [(1 bsl 20) + 1])),
    peer:stop(Peer).

long_writes_do_not_hold_a_normal_scheduler(Config) ->
    Peer = start_peer(Config, #{}),
    ?assertEqual([false, false], call(Peer, dirty_calls, [1_000])),
    ?assertEqual([true, true], call(Peer, dirty_calls, [1 bsl 20])),
    peer:stop(Peer).

%% ---------------------------------------------------------- in this node ---

%% Of all files with names like this in the directory of the log.
bytes(Config, Pattern) ->
    Files = files(Config, Pattern),
    lists:sum([filelib:file_size(File) || File <- Files]).

files(Config, Pattern) ->
    files_of(Config, "always/" ++ Pattern).

files_of(Config, Pattern) ->
    lists:sort(filelib:wildcard(in_directory(Config, Pattern))).

%% Ra keeps the last segment. A file may have some MiB of room.
is_log_short(Config) ->
    bytes(Config, "*.wal") + bytes(Config, "*/*.segment") < 10 bsl 20.

wait(Condition) ->
    wait(Condition, 6_000).

wait(Condition, Looks) when Looks > 0 ->
    case Condition() of
        true ->
            ok;
        false ->
            timer:sleep(10),
            wait(Condition, Looks - 1)
    end.

%% A log that ends with three long values; its file, and where the second is.
stop_with_long_values(Config) ->
    Peer = start_peer(Config, #{}),
    5 = call(Peer, add, [<<"n">>, 5]),
    Value = binary:copy(<<"v">>, 2_000),
    _ = [ok = call(Peer, set, [Key, Value]) || Key <- [<<"a">>, <<"b">>,
                                                       <<"c">>]],
    kill_9(Peer),
    [File] = filelib:wildcard(in_directory(Config, "always/*.wal")),
    {ok, Bytes} = file:read_file(File),
    [_, {At, _}, _] = binary:matches(Bytes, Value),
    {File, At}.

write_at(File, At, Bytes) ->
    {ok, Fd} = file:open(File, [read, write, raw]),
    ok = file:pwrite(Fd, At, Bytes),
    ok = file:close(Fd).

%% A directory whose snapshot has most records, and whose log has a few more.
stop_with_snapshot(Config) ->
    Peer = start_peer(Config, #{}),
    ok = call(Peer, set, [<<"key">>, <<"the value">>]),
    Some = call(Peer, load, [4, 20]),
    ok = peer:call(Peer, todana_snapshots, request_and_wait, [0, 60_000]),
    More = call(Peer, load, [2, 5]),
    kill_9(Peer),
    Some + More.

snapshots(Config) ->
    filelib:wildcard(in_directory(Config, "always/*/snapshots/*/data.tds")).

start_peer(Config, Options) ->
    start_peer(Config, Options, serving).

start_peer(Config, Options, State) ->
    {ok, Peer, _} = peer(),
    ok = call(Peer, start, [directory(Config), Options]),
    ok = call(Peer, await, [State]),
    Peer.

peer() ->
    peer:start(#{
        connection => standard_io,
        wait_boot => 60_000,
        args => ["-kernel", "logger_level", "critical", "-pa"
                 | code:get_path()]
    }).

call(Peer, Function, Arguments) ->
    peer:call(Peer, ?MODULE, Function, Arguments, 300_000).

kill_9(Peer) ->
    Pid = peer:call(Peer, os, getpid, []),
    _ = os:cmd("kill -9 " ++ Pid),
    unlink(Peer),
    Monitor = monitor(process, Peer),
    receive
        {'DOWN', Monitor, _, _, _} -> ok
    end.

directory(Config) ->
    proplists:get_value(directory, Config).

in_directory(Config, Name) ->
    filename:join(directory(Config), Name).

%% ------------------------------------------------------ in the peer node ---

start(Directory, Options) ->
    All = maps:merge(
        #{
            data_dir => Directory,
            %% The disk of a test machine may be nearly full.
            disk_reserve => "1mb",
            write_timeout_ms => 300_000
        },
        Options
    ),
    ok = application:load(todana),
    maps:foreach(
        fun(Name, Value) -> application:set_env(todana, Name, Value) end, All
    ),
    ok = application:set_env(ra, todana_wal_max_size_bytes, ?WAL_BYTES_MAX),
    ok = application:set_env(
        ra, todana_segment_max_entries, ?SEGMENT_ENTRIES_MAX
    ),
    {ok, _} = application:ensure_all_started(todana),
    {ok, _} = todana:open(db0, #{}),
    ok.

refuse(Config, Durability) ->
    todana_data_dir_open:open(directory(Config), Durability).

await(State) ->
    await(State, 12_000).

await(State, 0) ->
    error({never, State, todana_group:info(0)});
await(State, Looks) ->
    case todana_group:info(0) of
        #{state := State} ->
            ok;
        _ ->
            timer:sleep(10),
            await(State, Looks - 1)
    end.

%% Adds to a counter; returns the new value, or why it has none.
add(Key, Delta) ->
    try todana:update_counter(db0, Key, Delta, #{initial => 0}) of
        {ok, Number} -> Number;
        {error, unknown} -> unknown
    catch
        error:Reason -> Reason
    end.

%% A process that was killed may not have been missed yet when the state was
%% `serving'.
value(Key) ->
    value(Key, 12_000).

value(Key, Looks) ->
    try todana:get(db0, Key) of
        {ok, Digits} -> binary_to_integer(Digits)
    catch
        error:recovering when Looks > 0 ->
            timer:sleep(10),
            value(Key, Looks - 1)
    end.

%% Of everything that the log has made.
digest() ->
    case todana_nif:group_digest(0) of
        {ok, Digest} -> digest(Digest);
        {error, busy} -> timer:sleep(10), digest()
    end.

digest(Digest) ->
    case todana_nif:group_digest_next(Digest) of
        more -> digest(Digest);
        {done, Number} -> Number
    end.

%% Until the note names an entry of the newest file, which is within a second or
%% two.
note_at_once(Processes, Times) ->
    #{server_dir := Server} = Opened = todana_raft_groups:opened(0),
    Write = fun() ->
        [
            begin
                ok = todana_log_mark:stopped(0, Opened),
                {ok, #{index := Index}} = todana_log_mark:facts(Server),
                true = Index > 0
            end
         || _ <- lists:seq(1, Times)
        ]
    end,
    Writers = [spawn_monitor(Write) || _ <- lists:seq(1, Processes)],
    [
        receive {'DOWN', Monitor, process, Pid, Why} -> normal = Why end
     || {Pid, Monitor} <- Writers
    ],
    none = todana_group_notes:kept(log_mark_failed, none),
    ok.

await_mark() ->
    #{class_dir := Class, server_dir := Server} = todana_raft_groups:opened(0),
    Files = lists:sort(filelib:wildcard(filename:join(Class, "*.wal"))),
    {ok, Bytes} = file:read_file(lists:last(Files)),
    First = todana_log_file:first_index({ok, Bytes}),
    case todana_log_mark:read(Server) of
        {ok, Index} when First > 0, Index >= First ->
            ok;
        _ ->
            timer:sleep(20),
            await_mark()
    end.

%% Until it names the last entry that was confirmed.
await_noted() ->
    #{server_dir := Server} = todana_raft_groups:opened(0),
    Applied = todana_nif:group_applied(0),
    case todana_log_mark:read(Server) of
        {ok, Index} when Index >= Applied ->
            ok;
        _ ->
            timer:sleep(20),
            await_noted()
    end.

is_value(Key, Value) ->
    case todana:get(db0, Key) of
        {ok, Value} -> true;
        error -> false
    end.

set(Key, Value) ->
    todana:put(db0, Key, Value).

put_zeros(Bytes) ->
    try
        todana:put(db0, <<"zeros">>, <<0:Bytes/unit:8>>)
    catch
        error:Reason -> Reason
    end.

size_of_zeros() ->
    {ok, Zeros} = todana:get(db0, <<"zeros">>),
    byte_size(Zeros).

open_and_say(Table) ->
    try
        {ok, _} = todana:open(Table, #{}),
        ok
    catch
        error:Reason -> Reason
    end.

start_and_open(Directory, Table) ->
    ok = start(Directory, #{}),
    todana:open(Table, #{}).

%% All of them wait in the server's mailbox while it is suspended.
snapshots_at_once(Number) ->
    Before = todana_group_notes:attempts(),
    Server = whereis(todana_0),
    true = erlang:suspend_process(Server),
    _ = [ok = todana_snapshots:request(0) || _ <- lists:seq(1, Number)],
    true = erlang:resume_process(Server),
    todana_group_notes:await_attempt(Before, 60_000).

%% Adds to the counter while the server is suspended for some time.
pause(Ms) ->
    #{duplicates := Before} = todana_nif:group_info(0),
    Begin = erlang:monotonic_time(millisecond),
    Server = whereis(todana_0),
    true = erlang:suspend_process(Server),
    {Writer, Monitor} = spawn_monitor(fun() -> exit(add(<<"n">>, 1)) end),
    timer:sleep(Ms),
    true = erlang:resume_process(Server),
    Value = receive
        {'DOWN', Monitor, process, Writer, Number} -> Number
    end,
    PausedMs = erlang:monotonic_time(millisecond) - Begin,
    %% After all copies.
    {ok, _} = todana_ra_server:ask(0, 60_000),
    #{duplicates := After} = todana_nif:group_info(0),
    {Value, After - Before, PausedMs}.

%% Whether a batch with a value of this size is taken, and applied, on a dirty
%% scheduler.
dirty_calls(Bytes) ->
    Calls = [{todana_nif, group_take_dirty, 2},
             {todana_nif, group_apply_dirty, 5}],
    _ = [1 = erlang:trace_pattern(Call, true, [call_count]) || Call <- Calls],
    ok = put_zeros(Bytes),
    [
        begin
            {call_count, Count} = erlang:trace_info(Call, call_count),
            Count > 0
        end
     || Call <- Calls
    ].

%% The sum of what was acknowledged.
load(Writers, Writes) ->
    collect([
        spawn_monitor(fun() ->
            Added = [
                Number
             || _ <- lists:seq(1, Writes),
                Number <- [add(<<"n">>, 1)], is_integer(Number)
            ],
            exit({added, length(Added)})
        end)
     || _ <- lists:seq(1, Writers)
    ]).

%% Some hundred entries, of which the segment writer has copied a few.
copy_and_kill() ->
    Sum = load(8, 100),
    #{server_dir := Directory} = todana_raft_groups:opened(0),
    Segments = fun() ->
        length(filelib:wildcard("*.segment", Directory))
    end,
    Before = Segments(),
    ok = todana_ra_system:roll_over(always),
    ok = wait(fun() -> Segments() > Before + 1 end),
    Killed = whereis(ra_todana_always_log_sup),
    exit(Killed, kill),
    ok = wait(fun() ->
        New = whereis(ra_todana_always_log_sup),
        is_pid(New) andalso New =/= Killed
    end),
    ok = await(serving),
    Sum.

kill(Seed, Kills) ->
    _ = rand:seed(exsss, Seed),
    Stop = atomics:new(1, []),
    Writers = [
        spawn_monitor(fun() -> exit({added, write_until(Stop, {0, 0})}) end)
     || _ <- lists:seq(1, 8)
    ],
    Names = [
        todana_0, ra_todana_always_log_wal, ra_todana_always_segment_writer,
        ra_todana_always_log_meta, ra_todana_always_log_sup, ra_systems_sup,
        todana_batcher, todana_group, todana_disk
    ],
    _ = [
        begin
            timer:sleep(rand:uniform(300)),
            kill_names([lists:nth(rand:uniform(length(Names)), Names)])
        end
     || _ <- lists:seq(1, Kills)
    ],
    ok = await(serving),
    ok = atomics:put(Stop, 1, 1),
    lists:foldl(
        fun({_, Monitor}, {Added, Unknown}) ->
            receive
                {'DOWN', Monitor, _, _, {added, {More, Lost}}} ->
                    {Added + More, Unknown + Lost}
            end
        end,
        {0, 0},
        Writers
    ).

%% The number of reads of all keys, and of keys that were missing in them.
read_and_kill(Records, Kills) ->
    Keys = [integer_to_binary(Number) || Number <- lists:seq(1, Records)],
    ok = todana:put_many(db0, [{Key, Key} || Key <- Keys]),
    Stop = atomics:new(1, []),
    Readers = [
        spawn_monitor(fun() -> exit(read_until(Stop, Keys, {0, 0})) end)
     || _ <- lists:seq(1, 2)
    ],
    _ = [
        begin
            timer:sleep(50),
            kill_names([todana_0]),
            timer:sleep(50),
            ok = await(serving)
        end
     || _ <- lists:seq(1, Kills)
    ],
    ok = atomics:put(Stop, 1, 1),
    lists:foldl(
        fun({_, Monitor}, {Reads, Missed}) ->
            receive
                {'DOWN', Monitor, _, _, {More, Others}} ->
                    {Reads + More, Missed + Others}
            end
        end,
        {0, 0},
        Readers
    ).

read_until(Stop, Keys, {Reads, Missed}) ->
    case atomics:get(Stop, 1) of
        1 ->
            {Reads, Missed};
        0 ->
            try todana:get_many(db0, Keys) of
                Found ->
                    Missing = length(Keys) - map_size(Found),
                    read_until(Stop, Keys, {Reads + 1, Missed + Missing})
            catch
                error:recovering ->
                    timer:sleep(1),
                    read_until(Stop, Keys, {Reads, Missed})
            end
    end.

write_until(Stop, {Added, Unknown}) ->
    case atomics:get(Stop, 1) of
        1 ->
            {Added, Unknown};
        0 ->
            case add(<<"n">>, 1) of
                Number when is_integer(Number) ->
                    write_until(Stop, {Added + 1, Unknown});
                unknown ->
                    write_until(Stop, {Added, Unknown + 1});
                %% The gate was closed, and the write was not executed.
                _ ->
                    timer:sleep(5),
                    write_until(Stop, {Added, Unknown})
            end
    end.

%% In place of a process of todana_group that has not finished.
begin_start() ->
    spawn(fun() ->
        true = register(todana_group_start, self()),
        receive never -> ok end
    end).

kill_names(Names) ->
    [exit(Pid, kill) || Name <- Names, Pid <- [whereis(Name)], is_pid(Pid)].

collect(Writers) ->
    lists:sum([
        receive
            {'DOWN', Monitor, _, _, {added, Added}} -> Added
        end
     || {_, Monitor} <- Writers
    ]).
