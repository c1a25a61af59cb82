%% Room on the disk, and files whose fdatasync failed.
-module(todana_disk_tests).

-include_lib("eunit/include/eunit.hrl").

-define(MIB, (1 bsl 20)).

%% ----------------------------------------------------------------- space ---

room_is_what_the_reserve_says_test() ->
    ?assertEqual({ok, none}, judge(#{free => 300 * ?MIB})),
    {{removals, Sentence}, none} = judge(#{free => 299 * ?MIB}),
    ?assertEqual("299 MiB are free on the disk of /data and 300 MiB are needed"
                 "; only removals are accepted; no snapshot would make room",
                 Sentence).

removals_need_an_eighth_of_the_reserve_and_a_file_at_most_test() ->
    Room = fun(Changes) -> element(1, element(1, judge(Changes))) end,
    ?assertEqual(removals, Room(#{reserve => 80 * ?MIB, free => 10 * ?MIB})),
    ?assertEqual(low, Room(#{reserve => 80 * ?MIB, free => 10 * ?MIB - 1})),
    ?assertEqual(removals, Room(#{reserve => 1 bsl 40, free => 128 * ?MIB})),
    ?assertEqual(low, Room(#{reserve => 1 bsl 40, free => 128 * ?MIB - 1})),
    ?assertMatch({ok, none}, judge(#{reserve => 0})).

a_long_log_asks_for_a_snapshot_test() ->
    {{removals, _}, snapshot} =
        judge(#{free => 228 * ?MIB, log_bytes => 64 * ?MIB}),
    {{removals, Writing}, none} = judge(#{
        free => 228 * ?MIB,
        log_bytes => 64 * ?MIB,
        snapshot_in_progress => true
    }),
    ?assertNotEqual(nomatch, string:find(Writing, "is being written")).

a_short_log_does_not_test() ->
    ?assertMatch({{removals, _}, none},
                 judge(#{free => 228 * ?MIB, log_bytes => 64 * ?MIB - 1})).

%% A snapshot of what is left replaces the one before and the log.
removed_records_ask_for_a_snapshot_test() ->
    Facts = #{free => 50 * ?MIB, log_bytes => ?MIB, data_bytes => 10 * ?MIB},
    Judge = fun(SnapshotBytes) ->
        element(2, judge(Facts#{snapshot_bytes => SnapshotBytes}))
    end,
    %% As much as its own bytes.
    ?assertEqual(snapshot, Judge(19 * ?MIB)),
    ?assertEqual(none, Judge(19 * ?MIB - 1)),
    %% Or what is lacking.
    Lacking = Facts#{reserve => 52 * ?MIB},
    ?assertMatch({_, snapshot}, judge(Lacking#{snapshot_bytes => 11 * ?MIB})),
    ?assertMatch({_, none}, judge(Lacking#{snapshot_bytes => 10 * ?MIB})),
    %% Not once more, unless so much was removed meanwhile.
    Whole = maps:merge(facts(), Facts),
    ?assert(todana_disk_space:has_shrunk(20 * ?MIB, Whole)),
    ?assertNot(todana_disk_space:has_shrunk(20 * ?MIB - 1, Whole)).

a_snapshot_needs_room_itself_test() ->
    Facts = #{reserve => 320 * ?MIB, log_bytes => 70 * ?MIB},
    {{removals, Sentence}, none} = judge(Facts#{free => 140 * ?MIB - 1}),
    ?assertNotEqual(nomatch, string:find(Sentence, "with 140 MiB a snapshot")),
    ?assertMatch({_, snapshot}, judge(Facts#{free => 140 * ?MIB})).

the_default_reserve_is_two_files_and_a_snapshot_test() ->
    ?assertEqual(356 * ?MIB, todana_disk_space:reserve(facts())),
    %% As the pages have it.
    ?assertEqual(256 * ?MIB, todana_disk_space:reserve(#{
        data_bytes => 0, file_bytes => todana_ra_system:log_file_bytes_max()
    })),
    {ok, #{doc := Help}} = todana_options:find("disk_reserve"),
    ?assertMatch({_, _}, binary:match(
        unicode:characters_to_binary(Help), ~"256mb (two files of the log)"
    )).

judge(Changes) ->
    todana_disk_space:judge(maps:merge(facts(), Changes)).

facts() ->
    #{
        data_dir => "/data",
        free => 0,
        reserve => 300 * ?MIB,
        data_bytes => 100 * ?MIB,
        log_bytes => 0,
        snapshot_bytes => 0,
        file_bytes => 128 * ?MIB,
        snapshot_in_progress => false
    }.

%% ------------------------------------------------------------------ sync ---

files_are_synchronized_from_the_newest_on_test() ->
    in_directory(fun(Directory) ->
        ok = write(Directory, 1),
        ok = write(Directory, 2),
        {ok, Progress} =
            todana_disk_sync:synchronize(Directory, todana_disk_sync:new([])),
        %% Not looked at any more.
        ok = break(Directory, 1),
        ?assertMatch({ok, _},
                     todana_disk_sync:synchronize(Directory, Progress))
    end).

%% The system reports an error once, and drops what it could not write.
a_file_that_failed_is_never_reported_as_synchronized_test() ->
    in_directory(fun(Directory) ->
        Synchronize = fun(Progress) ->
            todana_disk_sync:synchronize(Directory, Progress)
        end,
        ok = break(Directory, 3),
        {{failed, {File, einval}}, First} =
            Synchronize(todana_disk_sync:new([])),
        ?assertEqual([3], todana_disk_sync:lost(First)),
        %% It works again, and the log goes on in the next file.
        ok = file:delete(File),
        ok = write(Directory, 3),
        ok = write(Directory, 4),
        {{error, {File, _}}, Second} = Synchronize(First),
        {{error, {File, _}}, Third} = Synchronize(Second),
        %% A process that takes over.
        {{error, {File, _}}, _} = Synchronize(
            todana_disk_sync:new(todana_disk_sync:lost(Third))
        ),
        %% Its entries are in segments.
        ok = file:delete(File),
        {ok, Fourth} = Synchronize(Third),
        ?assertEqual([], todana_disk_sync:lost(Fourth))
    end).

a_file_that_cannot_be_opened_has_lost_nothing_test() ->
    in_directory(fun(Directory) ->
        File = wal(Directory, 5),
        ok = file:make_dir(File),
        {{error, {File, eisdir}}, Progress} =
            todana_disk_sync:synchronize(Directory, todana_disk_sync:new([])),
        ok = file:del_dir(File),
        ok = write(Directory, 5),
        ?assertMatch({ok, _},
                     todana_disk_sync:synchronize(Directory, Progress))
    end).

%% Its fdatasync fails with EINVAL.
break(Directory, Number) ->
    _ = file:delete(wal(Directory, Number)),
    file:make_symlink("/dev/null", wal(Directory, Number)).

write(Directory, Number) ->
    file:write_file(wal(Directory, Number), "RAWA").

wal(Directory, Number) ->
    Name = lists:flatten(io_lib:format("~16..0b.wal", [Number])),
    filename:join(Directory, Name).

in_directory(Test) ->
    Directory = string:trim(os:cmd("mktemp -d")),
    try
        Test(Directory)
    after
        file:del_dir_r(Directory)
    end.
