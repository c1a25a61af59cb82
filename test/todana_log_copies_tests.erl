%% Copies in segment files that a power failure has torn.
-module(todana_log_copies_tests).

-include_lib("eunit/include/eunit.hrl").

-define(SECTOR_BYTES, 512).
%% Entries whose rows are in the first sector of a segment file; the row of the
%% next one crosses into the second.
-define(FIRST_SECTOR, 15).

%% Ra would read it as one of entry 0, and know none of those before it.
a_row_whose_first_sector_is_missing_hides_no_other_test() ->
    [
        with_log(Durability, fun(Directory, Mend) ->
            Server = todana_log_writer:server(Directory),
            File = segment(Directory, 1, ?FIRST_SECTOR + 5),
            ok = wal(Directory, ?FIRST_SECTOR + 1, ?FIRST_SECTOR + 5),
            ok = overwrite(File, ?SECTOR_BYTES - 24, <<0:24/unit:8>>),
            ?assertMatch({ok, _, {0, _}}, ra_range(File)),
            ?assertEqual(ok, Mend()),
            ?assertEqual({ok, ?FIRST_SECTOR, {1, ?FIRST_SECTOR}},
                         ra_range(File)),
            ?assertMatch([_], kept(Server)),
            ?assertEqual(ok, Mend()),
            ?assertMatch([_], kept(Server))
        end)
     || Durability <- [always, everysec]
    ].

%% Ra would write new rows before them, and take them for newer ones.
rows_behind_a_missing_sector_go_test() ->
    Rows = 3 * ?FIRST_SECTOR,
    [
        with_log(Durability, fun(Directory, Mend) ->
            Server = todana_log_writer:server(Directory),
            File = segment(Directory, 1, Rows),
            ok = wal(Directory, First, Rows),
            Missing = 8 + 32 * (First - 1),
            Bytes = ?SECTOR_BYTES - Missing rem ?SECTOR_BYTES,
            ok = overwrite(File, Missing, <<0:Bytes/unit:8>>),
            ?assertEqual({First, ok}, {First, Mend()}),
            ?assertEqual({First, Expected}, {First, ra_range(File)}),
            ?assertMatch([_], kept(Server))
        end)
     || Durability <- [always, everysec],
        {First, Expected} <- [
            {1, none}, {2, {ok, 1, {1, 1}}},
            {?FIRST_SECTOR, {ok, 14, {1, 14}}},
            {?FIRST_SECTOR + 2, {ok, 16, {1, 16}}}
        ]
    ].

%% Ra would read an entry without data.
a_row_whose_second_sector_is_missing_is_torn_test() ->
    with_log(always, fun(Directory, Mend) ->
        Server = todana_log_writer:server(Directory),
        File = segment(Directory, 1, ?FIRST_SECTOR + 1),
        ok = overwrite(File, ?SECTOR_BYTES, <<0:8/unit:8>>),
        ?assertMatch({error, {broken, File, _, _}},
                     todana_log_missing:are_whole(Server)),
        ok = wal(Directory, ?FIRST_SECTOR + 1, ?FIRST_SECTOR + 1),
        ?assertEqual(ok, todana_log_missing:are_whole(Server)),
        ?assertEqual(ok, Mend())
    end).

%% The file of the log has lost its end as well, and the snapshot has the rest.
with_everysec_the_log_ends_before_the_first_torn_copy_test() ->
    [
        with_log(everysec, fun(Directory, Mend) ->
            Server = todana_log_writer:server(Directory),
            ok = snapshot(Server, 10),
            File = segment(Directory, 1, 20),
            Later = segment(Directory, 2, 21, 25),
            ok = tear(File, Torn),
            ok = wal(Directory, 8, 10),
            ok = note(Server, 9),
            ?assertEqual({Torn, ok}, {Torn, Mend()}),
            ?assertEqual({Torn, {ok, lists:seq(1, Torn - 1)}},
                         {Torn, todana_log_segment:indexes(File)}),
            ?assertNot(filelib:is_file(Later)),
            ?assertMatch([_, _], kept(Server)),
            ?assertEqual(Torn - 1, todana_log_end:last(Server))
        end)
     || Torn <- [11, 12, 20]
    ].

nothing_is_kept_of_a_file_without_a_whole_copy_test() ->
    with_log(everysec, fun(Directory, Mend) ->
        Server = todana_log_writer:server(Directory),
        ok = snapshot(Server, 10),
        File = segment(Directory, 1, 11, 20),
        ok = tear(File, 11),
        ok = wal(Directory, 8, 10),
        ?assertEqual(ok, Mend()),
        ?assertNot(filelib:is_file(File)),
        ?assertEqual(10, todana_log_end:last(Server))
    end).

%% It was synchronized, so no power failure has torn it.
a_copy_that_was_noted_is_damaged_test() ->
    [
        with_log(everysec, fun(Directory, Mend) ->
            Server = todana_log_writer:server(Directory),
            ok = snapshot(Server, 10),
            File = segment(Directory, 1, 20),
            {ok, Before} = file:read_file(File),
            ok = tear(File, 15),
            ok = wal(Directory, 8, 10),
            ok = note(Server, Noted),
            case Mend() of
                ok ->
                    ?assert(Noted < 15);
                {error, {broken, File, _, _}} ->
                    ?assert(Noted >= 15),
                    ?assertEqual([], kept(Server)),
                    {ok, After} = file:read_file(File),
                    ?assertEqual(byte_size(Before), byte_size(After))
            end
        end)
     || Noted <- [14, 15, 16]
    ].

%% Ra copies the entries from there again.
copies_that_the_log_has_stay_test() ->
    with_log(everysec, fun(Directory, Mend) ->
        Server = todana_log_writer:server(Directory),
        ok = snapshot(Server, 10),
        File = segment(Directory, 1, 20),
        ok = tear(File, 15),
        ok = wal(Directory, 8, 11),
        ?assertEqual(ok, Mend()),
        ?assertEqual({ok, lists:seq(1, 20)}, todana_log_segment:indexes(File)),
        ?assertEqual([], kept(Server))
    end).

%% The log goes on behind it, which Ra does not allow.
a_torn_copy_before_the_log_is_refused_test() ->
    with_log(everysec, fun(Directory, Mend) ->
        ok = snapshot(todana_log_writer:server(Directory), 10),
        File = segment(Directory, 1, 20),
        ok = tear(File, 12),
        ok = wal(Directory, 15, 20),
        ?assertMatch({error, {broken, File, _, _}}, Mend())
    end).

%% The log has lost its end, and Ra copies what it has again.
torn_copies_behind_the_first_that_is_copied_again_go_test() ->
    [
        with_log(everysec, fun(Directory, Mend) ->
            Server = todana_log_writer:server(Directory),
            File = segment(Directory, 1, ?FIRST_SECTOR + 5),
            ok = overwrite(File, ?SECTOR_BYTES - 24, <<0:24/unit:8>>),
            ok = tear(File, Torn),
            ok = wal(Directory, 12, 13),
            case Mend() of
                ok ->
                    ?assert(Torn >= 12),
                    ?assertEqual({ok, lists:seq(1, 11)},
                                 todana_log_segment:indexes(File)),
                    ?assertEqual(13, todana_log_end:last(Server));
                {error, {broken, File, _, _}} ->
                    ?assertEqual(11, Torn)
            end
        end)
     || Torn <- [11, 12, 13, 14, ?FIRST_SECTOR]
    ].

%% A disk that did not get to a sector leaves zeros there.
a_copy_with_a_flipped_bit_is_damaged_test() ->
    with_log(everysec, fun(Directory, Mend) ->
        ok = snapshot(todana_log_writer:server(Directory), 10),
        File = segment(Directory, 1, 20),
        {15, _, Offset} = lists:keyfind(
            15, 1, ra_log_segment:dump_index(File)
        ),
        ok = overwrite(File, Offset, <<"dota">>),
        ok = wal(Directory, 8, 10),
        ?assertMatch({error, {broken, File, _, _}}, Mend()),
        ?assertEqual({ok, lists:seq(1, 20)}, todana_log_segment:indexes(File))
    end).

%% A torn index is no reason to drop another entry that nothing else has.
what_is_damaged_before_a_torn_row_is_refused_test() ->
    [
        with_log(Durability, fun(Directory, Mend) ->
            Server = todana_log_writer:server(Directory),
            File = segment(Directory, 1, ?FIRST_SECTOR + 5),
            ok = wal(Directory, ?FIRST_SECTOR + 1, ?FIRST_SECTOR + 5),
            ok = overwrite(File, ?SECTOR_BYTES - 24, <<0:24/unit:8>>),
            ok = tear(File, 7),
            {ok, Before} = file:read_file(File),
            ?assertMatch({error, {broken, File, _, _}}, Mend()),
            ?assertEqual({{ok, Before}, []},
                         {file:read_file(File), kept(Server)})
        end)
     || Durability <- [always, everysec]
    ].

%% The snapshot has its entries.
a_damaged_file_that_nobody_needs_is_set_aside_test() ->
    [
        with_log(Durability, fun(Directory, Mend) ->
            Server = todana_log_writer:server(Directory),
            Old = segment(Directory, 1, 10),
            _ = segment(Directory, 2, 11, 20),
            ok = file:write_file(Old, "not a segment"),
            ok = snapshot(Server, 10),
            ok = wal(Directory, 21, 25),
            ?assertEqual({Durability, ok}, {Durability, Mend()}),
            ?assertNot(filelib:is_file(Old))
        end)
     || Durability <- [always, everysec]
    ].

%% Ra would count new entries as applied.
what_was_applied_is_forgotten_test() ->
    with_log(everysec, fun(Directory, Mend) ->
        UId = todana_log_writer:uid(),
        ok = snapshot(todana_log_writer:server(Directory), 10),
        File = segment(Directory, 1, 20),
        ok = tear(File, 15),
        ok = wal(Directory, 8, 10),
        {ok, meta} = dets:open_file(
            meta, [{file, filename:join(Directory, "meta.dets")}]
        ),
        ok = dets:insert(meta, {UId, 1, vote, 20}),
        ok = dets:close(meta),
        ?assertEqual(ok, Mend()),
        {ok, meta} = dets:open_file(
            meta, [{file, filename:join(Directory, "meta.dets")}]
        ),
        ?assertEqual([{UId, 1, vote, 0}], dets:lookup(meta, UId)),
        ok = dets:close(meta)
    end).

%% A second power failure could leave its bytes in sectors of newer copies.
what_no_row_names_is_cut_off_test() ->
    [
        with_log(everysec, fun(Directory, Mend) ->
            File = segment(Directory, 1, 20),
            {ok, Before} = file:read_file(File),
            ok = wal(Directory, 21, 25),
            ok = file:write_file(File, [Before, More]),
            ?assertEqual(ok, Mend()),
            ?assertEqual({ok, Before}, file:read_file(File))
        end)
     || More <- ["", "x", <<0:9000/unit:8>>]
    ].

%% ----------------------------------------------------------------- files ---

segment(Directory, First, Last) -> segment(Directory, 1, First, Last).

segment(Directory, Number, First, Last) ->
    todana_log_writer:write_segment(
        Directory, Number, records(First, Last)
    ).

wal(Directory, First, Last) ->
    todana_log_writer:write_wal(Directory, 7, records(First, Last)).

records(First, Last) ->
    [{Index, 1, <<"data">>} || Index <- lists:seq(First, Last)].

%% The data of this entry, as a sector that was not written leaves it.
tear(File, Index) ->
    {Index, _, Offset} = lists:keyfind(
        Index, 1, ra_log_segment:dump_index(File)
    ),
    overwrite(File, Offset, <<0:4/unit:8>>).

overwrite(File, Offset, Bytes) ->
    {ok, Fd} = file:open(File, [read, write, raw, binary]),
    ok = file:pwrite(Fd, Offset, Bytes),
    file:close(Fd).

ra_range(File) ->
    case ra_log_segment:open(File, #{mode => read}) of
        {ok, Segment} ->
            Range = ra_log_segment:range(Segment),
            ok = ra_log_segment:close(Segment),
            #{num_entries := Count} = ra_log_segment:info(File),
            {ok, Count, Range};
        {error, enoent} ->
            none
    end.

snapshot(Server, Index) ->
    Name = lists:flatten(io_lib:format("0000000000000001_~16.16.0B", [Index])),
    Data = filename:join([Server, "snapshots", Name, "data.tds"]),
    ok = filelib:ensure_dir(Data),
    ok = file:write_file(Data, ""),
    todana_snapshot_files:bear(Server).

note(Server, Index) ->
    todana_log_mark:write(Server, #{
        index => Index, term => 0, is_final => false
    }).

kept(Server) -> filelib:wildcard(filename:join([Server, "damaged", "*"])).

with_log(Durability, Test) ->
    Directory = string:trim(os:cmd("mktemp -d")),
    UId = todana_log_writer:uid(),
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, none),
    try
        Test(Directory, fun() ->
            todana_log_tail:mend(Directory, UId, Durability)
        end)
    after
        ok = logger:set_primary_config(level, Level),
        file:del_dir_r(Directory)
    end.
