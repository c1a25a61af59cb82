%% The files of Ra that are made again, and the words for its failures.
-module(todana_ra_tests).

-include_lib("eunit/include/eunit.hrl").

%% ----------------------------------------------------------------- words ---

a_cause_is_found_by_its_atom_test() ->
    [
        ?assertNotEqual(nomatch,
                        string:find(todana_ra_words:describe(Reason), Words))
     || {Reason, Words} <- [
            {{{badmatch, {error, enospc}}, [{ra_log_wal, f, 1, []}]},
                "the disk is full"},
            {{shutdown, {failed_to_start_child, wal, {error, eio}}},
                "input/output error"},
            {#{reason => [{error, erofs}]}, "read-only"},
            {wal_checksum_validation_failure, "is damaged"},
            {{server, shutdown}, "messages of Ra"},
            {{noproc, {gen, call, [x]}}, "messages of Ra"},
            {{ra_log_segment_crc_check_failure, 43, {1, 2, 3, 4},
                <<"/d/0000000000000002.segment">>},
                "/d/0000000000000002.segment cannot be used: entry 43 is da"}
        ]
    ].

%% Names of files and modules contain such letters by chance.
letters_within_a_text_are_no_cause_test() ->
    [
        ?assertEqual(lists:flatten(io_lib:format("~0tp", [Reason])),
                     todana_ra_words:describe(Reason))
     || Reason <- [
            {bad_file, "/srv/enospc/video/eio.wal"},
            {bad_file, <<"eio">>},
            {heion, erofs_looking_atom}
        ]
    ].

long_reasons_are_cut_test() ->
    Long = {state, lists:seq(1000, 9000), {nested, lists:duplicate(5000, a)}},
    ?assert(length(todana_ra_words:describe(Long)) < 500).

%% ----------------------------------------------------------------- terms ---

%% The clock was ahead when the table was made for the first time, and the log
%% went on from there.
a_new_table_of_terms_is_ahead_of_the_log_test() ->
    Ahead = os:system_time(second) + 1_000_000,
    with_server(fun(Directory, Server) ->
        Before = os:system_time(second),
        ?assert(term_of_new_table(Directory) > Before),
        ok = write_wal(Directory, [Ahead, Ahead + 3]),
        ?assertEqual(Ahead + 4, term_of_new_table(Directory)),
        Snapshot = io_lib:format("~16.16.0B_~16.16.0B", [Ahead + 7, 2]),
        ok = filelib:ensure_path(
            filename:join([Server, "snapshots", lists:flatten(Snapshot)])
        ),
        ?assertEqual(Ahead + 8, term_of_new_table(Directory)),
        Record = {3, Ahead + 20, <<"data">>},
        _ = todana_log_writer:write_segment(Directory, 1, [Record]),
        ?assertEqual(Ahead + 21, term_of_new_table(Directory))
    end).

term_of_new_table(Directory) ->
    Meta = filename:join(Directory, "meta.dets"),
    _ = file:delete(Meta),
    ok = todana_ra_files:prepare(
        {todana_0, node()}, todana_log_writer:opened(Directory, always)
    ),
    {ok, Table} = dets:open_file(make_ref(), [{file, Meta}]),
    UId = todana_log_writer:uid(),
    [{UId, Term, undefined, 0}] = dets:lookup(Table, UId),
    ok = dets:close(Table),
    Term.

with_server(Test) ->
    Directory = string:trim(os:cmd("mktemp -d")),
    ok = todana_log_writer:write_config(Directory),
    try
        Test(Directory, todana_log_writer:server(Directory))
    after
        file:del_dir_r(Directory)
    end.

write_wal(Directory, Terms) ->
    todana_log_writer:write_wal(Directory, 1, [
        {Index, Term, term_to_binary(noop)}
     || {Index, Term} <- lists:enumerate(Terms)
    ]).

a_full_disk_is_named_by_its_directory_test() ->
    File = {unusable, "/srv/a/meta.dets", file:format_error(enospc)},
    Crash = {server, {shutdown, {badmatch, {error, edquot}}}},
    [
        ?assertEqual({true, Sentence}, {
            todana_ra_words:is_full(Reason),
            todana_ra_words:full("/srv", Reason)
        })
     || {Reason, Sentence} <- [
            {File, "the disk of /srv is full: /srv/a/meta.dets cannot be used: "
                   "no space left on device"},
            {Crash, "the disk of /srv is full"}
        ]
    ],
    [
        ?assertNot(todana_ra_words:is_full(Reason))
     || Reason <- [
            {unusable, "/srv/a/meta.dets", file:format_error(eio)},
            {missing, "/srv/a/enospc", "no space left on device"},
            {server, {badmatch, {error, eio}}},
            shutdown
        ]
    ].
