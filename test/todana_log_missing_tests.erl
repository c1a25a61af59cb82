%% Files of the log that are not there.
-module(todana_log_missing_tests).

-include_lib("eunit/include/eunit.hrl").

a_whole_log_has_all_files_test() ->
    with_log(fun(Directory) ->
        ?assertEqual([], problems(Directory))
    end).

each_missing_file_is_named_test() ->
    [
        with_log(fun(Directory) ->
            ok = file:delete(File(Directory)),
            [Problem] = problems(Directory),
            Sentence = todana_log_problem:describe(Problem),
            [
                ?assertNotEqual({nomatch, Sentence},
                                {string:find(Sentence, Part), Sentence})
             || Part <- [filename:absname(Directory), "restore a backup"
                         | Parts]
            ]
        end)
     || {File, Parts} <- [
            {segment(1), ["0002.segment", "entries 1 to 10 are missing",
                          "or the snapshot"]},
            {segment(2), ["0003.segment", "entries 11 to 20 are missing",
                          "no file 0000000000000002.segment"]},
            {segment(3), ["0007.wal", "entries 21 to 30 are missing"]},
            {wal(7), ["0008.wal", "entries 31 to 40 are missing"]},
            {wal(8), ["ends with entry 40", "entry 45 was confirmed"]}
        ]
    ].

%% The snapshot has the entries before it.
a_snapshot_replaces_the_files_before_it_test() ->
    with_log(fun(Directory) ->
        Server = todana_log_writer:server(Directory),
        Name = "0000000000000001_000000000000000F",
        Data = filename:join([Server, "snapshots", Name, "data.tds"]),
        ok = filelib:ensure_dir(Data),
        ok = file:write_file(Data, ""),
        ok = file:delete((segment(1))(Directory)),
        ?assertEqual([], problems(Directory)),
        ok = file:delete((segment(2))(Directory)),
        ?assertMatch([{missing, _, ["entries 16 to 20 are missing" | _]}],
                     problems(Directory)),
        ok = file:delete(Data),
        ok = todana_snapshot_files:bear(Server),
        ?assertMatch([{missing, _, ["the snapshot is missing" | _]}],
                     problems(Directory))
    end).

%% Ra copies entries from a file of the log once more if it was killed before it
%% had deleted that file. From the first one on, the older copies count no more.
entries_that_are_copied_again_replace_later_ones_test() ->
    with_log(fun(Directory) ->
        Server = todana_log_writer:server(Directory),
        File = todana_log_writer:write_segment(Directory, 3, [
            {Index, 1, <<"again">>} || Index <- lists:seq(21, 25)
        ]),
        ?assertEqual({ok, lists:seq(21, 25)}, todana_log_segment:indexes(File)),
        ?assertEqual(ok, todana_log_missing:are_whole(Server)),
        %% So the loss of the file behind it is noticed.
        ?assertMatch([{missing, _, ["entries 26 to 30 are missing" | _]}],
                     problems(Directory))
    end).

%% The power failed while they were being copied: the log still has them.
torn_entries_are_no_damage_while_the_log_has_them_test() ->
    with_log(fun(Directory) ->
        Server = todana_log_writer:server(Directory),
        File = (segment(3))(Directory),
        {ok, Fd} = file:open(File, [read, write, raw, binary]),
        {ok, End} = file:position(Fd, eof),
        ok = file:pwrite(Fd, End - 1, <<0>>),
        ok = file:close(Fd),
        ?assertMatch({error, {broken, File, _, _}},
                     todana_log_missing:are_whole(Server)),
        ok = todana_log_writer:write_wal(Directory, 6, [
            {Index, 1, <<"entry">>} || Index <- lists:seq(25, 30)
        ]),
        ?assertEqual(ok, todana_log_missing:are_whole(Server)),
        ?assertEqual([], problems(Directory))
    end).

%% With `everysec', the log may have had an entry that it has lost.
files_that_have_an_entry_or_may_have_had_it_test() ->
    Empty = #{
        bytes => 5, first => none, last => none, lowest => none, damage => none
    },
    Torn = Empty#{damage := #{
        offset => 5, is_torn => true, is_short => false, behind => []
    }},
    Full = Empty#{last := #{index => 30, term => 1}, lowest := 21},
    [
        begin
            Named = lists:enumerate(Files),
            ?assertEqual({Index, Files, Has, MayHaveHad}, {
                Index, Files, todana_log_missing:is_in_log(Index, Named),
                todana_log_missing:may_have_had(Index, Named)
            })
        end
     || {Index, Files, Has, MayHaveHad} <- [
            {7, [], false, false},
            {7, [Empty], false, false},
            {7, [Torn], false, true},
            {7, [Empty, Empty], false, true},
            {7, [Empty, Full], false, true},
            {7, [Full, Empty], false, false},
            {20, [Full], false, false},
            {21, [Full], true, true},
            {30, [Full, Empty], true, true},
            {31, [Full], false, true}
        ]
    ].

%% A file that was full keeps the torn copies of entries that the next one has.
copies_that_a_later_segment_replaces_are_no_damage_test() ->
    with_log(fun(Directory) ->
        Server = todana_log_writer:server(Directory),
        File = (segment(3))(Directory),
        {ok, Fd} = file:open(File, [read, write, raw, binary]),
        {ok, End} = file:position(Fd, eof),
        ok = file:pwrite(Fd, End - 4, <<0:32>>),
        ok = file:close(Fd),
        ?assertMatch({error, {broken, File, _, _}},
                     todana_log_missing:are_whole(Server)),
        Write = fun(First, Last) ->
            todana_log_writer:write_segment(
                Directory, 4, records(First, Last)
            )
        end,
        Later = Write(30, 40),
        ?assertEqual(ok, todana_log_missing:are_whole(Server)),
        ?assertEqual([], problems(Directory)),
        ok = file:delete(Later),
        %% Nor do they fill a hole.
        _ = Write(26, 28),
        ?assertMatch([{missing, _, ["entries 29 to 30 are missing" | _]}],
                     problems(Directory)),
        ?assertEqual(ok, todana_log_missing:are_whole(Server))
    end).

a_segment_without_an_index_is_broken_test() ->
    with_log(fun(Directory) ->
        File = (segment(2))(Directory),
        ok = file:write_file(File, "not a segment"),
        ?assertMatch([{broken, File, 0, _}], problems(Directory))
    end).

%% A file behind it shows that it has no entry that the snapshot lacks.
a_broken_segment_is_unneeded_behind_a_snapshot_test() ->
    Cases = [
        {2, 19, broken}, {2, 20, unneeded}, {2, 21, unneeded},
        {3, 29, broken}, {3, 30, unneeded}, {3, 31, unneeded}
    ],
    [
        with_log(fun(Directory) ->
            File = (segment(Number))(Directory),
            ok = file:write_file(File, "not a segment"),
            ok = snapshot(Directory, Snapshot),
            ?assertEqual({Number, Snapshot, Expected},
                         {Number, Snapshot, judged(Directory, File)})
        end)
     || {Number, Snapshot, Expected} <- Cases
    ].

%% Behind the last file there may have been more, unless the node has stopped.
the_last_segment_is_unneeded_after_an_orderly_stop_test() ->
    [
        with_log(fun(Directory) ->
            _ = [ok = file:delete((wal(N))(Directory)) || N <- [7, 8]],
            File = (segment(3))(Directory),
            ok = file:write_file(File, "not a segment"),
            ok = snapshot(Directory, 30),
            ok = todana_log_mark:write(todana_log_writer:server(Directory), #{
                index => Index, term => 0, is_final => IsFinal
            }),
            ?assertEqual({Index, IsFinal, Expected},
                         {Index, IsFinal, judged(Directory, File)})
        end)
     || {Index, IsFinal, Expected} <- [
            {29, true, unneeded}, {30, true, unneeded}, {31, true, broken},
            {30, false, broken}
        ]
    ].

%% The start sets it aside, or refuses and leaves it.
judged(Directory, File) ->
    Server = todana_log_writer:server(Directory),
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, none),
    Mended = todana_log_tail:mend(Directory, todana_log_writer:uid(), always),
    ok = logger:set_primary_config(level, Level),
    Kept = filelib:wildcard(filename:join([Server, "damaged", "*.segment*"])),
    case {Mended, filelib:is_file(File), Kept} of
        {ok, false, [_]} -> unneeded;
        {{error, {broken, File, 0, _}}, true, []} -> broken
    end.

snapshot(Directory, Index) ->
    Server = todana_log_writer:server(Directory),
    Name = lists:flatten(io_lib:format("~16.16.0B_~16.16.0B", [1, Index])),
    Data = filename:join([Server, "snapshots", Name, "data.tds"]),
    ok = filelib:ensure_dir(Data),
    ok = file:write_file(Data, ""),
    todana_snapshot_files:bear(Server).

the_note_of_a_confirmed_entry_is_kept_test() ->
    with_log(fun(Directory) ->
        Server = todana_log_writer:server(Directory),
        ?assertEqual({ok, 45}, todana_log_mark:read(Server)),
        File = filename:join(Server, "todana.mark"),
        {ok, Bytes} = file:read_file(File),
        [
            begin
                <<Before:At/binary, Byte, After/binary>> = Bytes,
                ok = file:write_file(File, [Before, Byte bxor 4, After]),
                ?assertEqual(damaged, todana_log_mark:read(Server))
            end
         || At <- lists:seq(0, byte_size(Bytes) - 1)
        ],
        %% It has no record; the next start writes it again.
        ?assertEqual([], problems(Directory)),
        ok = todana_log_mark:forget(Server),
        ok = todana_log_mark:forget(Server),
        ?assertEqual({ok, 0}, todana_log_mark:read(Server))
    end).

a_note_of_the_first_format_is_read_test() ->
    with_log(fun(Directory) ->
        Server = todana_log_writer:server(Directory),
        Crc = erlang:crc32(<<45:64>>),
        ok = file:write_file(
            filename:join(Server, "todana.mark"), <<"TDLM", 1, Crc:32, 45:64>>
        ),
        ?assertEqual({ok, 45}, todana_log_mark:read(Server)),
        ok = file:delete((wal(8))(Directory)),
        ?assertMatch([{short, _, _}], problems(Directory))
    end).

%% However much a torn write and a file that was cut look alike: at each length,
%% the note decides, and nothing is changed before the start is refused.
a_log_that_ends_before_the_note_is_not_torn_test() ->
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, none),
    with_log(fun(Directory) ->
        UId = todana_log_writer:uid(),
        File = (wal(8))(Directory),
        {ok, Whole} = file:read_file(File),
        Ends = [
            {Bytes, Last}
         || Bytes <- lists:seq(0, byte_size(Whole)),
            Last <- [last(File, binary:part(Whole, 0, Bytes))]
        ],
        %% Also its header alone, and less.
        ?assertEqual(lists:seq(40, 50), lists:usort([L || {_, L} <- Ends])),
        [
            begin
                ok = file:write_file(File, binary:part(Whole, 0, Bytes)),
                Examined = todana_log_tail:mend(Directory, UId, Durability),
                case Last >= 45 of
                    true ->
                        ?assertEqual({Bytes, ok}, {Bytes, Examined});
                    false ->
                        {Bytes, {error, Problem}} = {Bytes, Examined},
                        ?assertEqual(Bytes, filelib:file_size(File)),
                        Words = todana_log_problem:words(Problem),
                        ?assertNotEqual(nomatch,
                            string:find(Words, "entry 45 was confirmed"))
                end
            end
         || {Bytes, Last} <- Ends, Durability <- [always, everysec]
        ]
    end),
    logger:set_primary_config(level, Level).

%% The last whole entry of a file with these bytes, or of the one before it.
last(File, Bytes) ->
    ok = file:write_file(File, Bytes),
    case scan(File) of
        {ok, #{last := #{index := Index}}} -> Index;
        {ok, #{last := none}} -> 40;
        {error, format} -> 40
    end.

repair_accepts_only_the_loss_of_the_end_test() ->
    with_log(fun(Directory) ->
        UId = todana_log_writer:uid(),
        Repair = fun() -> todana_log_tail:repair(Directory, UId, always) end,
        ?assertEqual(undamaged, Repair()),
        ok = file:delete((wal(8))(Directory)),
        {ok, Text} = Repair(),
        ?assertNotEqual(nomatch, string:find(lists:flatten(Text), "Lost are")),
        ?assertEqual(undamaged, Repair()),
        ok = file:delete((segment(2))(Directory)),
        ?assertMatch({error, {missing, _, _}}, Repair()),
        File = (segment(3))(Directory),
        {ok, Whole} = file:read_file(File),
        flip(File, byte_size(Whole) - 1),
        Before = file:list_dir(Directory),
        {error, {broken, File, Offset, _}} = Repair(),
        ?assert(Offset > 0 andalso Offset < byte_size(Whole)),
        ?assertEqual(Before, file:list_dir(Directory))
    end).

flip(File, At) ->
    {ok, Bytes} = file:read_file(File),
    <<Before:At/binary, Byte, After/binary>> = Bytes,
    ok = file:write_file(File, [Before, Byte bxor 16, After]).

%% ---------------------------------------------------------------- files ---

problems(Directory) ->
    Files = [
        {File, element(2, {ok, _} = scan(File))}
     || File <- lists:sort(filelib:wildcard(Directory ++ "/*.wal"))
    ],
    todana_log_missing:problems(Files, todana_log_writer:server(Directory)).

scan(File) -> todana_log_file:scan(File, todana_log_writer:uid()).

segment(Number) ->
    fun(Directory) ->
        Name = lists:flatten(io_lib:format("~16..0b.segment", [Number])),
        filename:join(todana_log_writer:server(Directory), Name)
    end.

wal(Number) -> fun(Directory) -> todana_log_writer:wal(Directory, Number) end.

records(First, Last) ->
    [{Index, 1, <<"data">>} || Index <- lists:seq(First, Last)].

%% Entries 1 to 30 in segments, 31 to 50 in files of the log.
with_log(Test) ->
    Directory = string:trim(os:cmd("mktemp -d")),
    Write = fun(Number, First, Last) ->
        todana_log_writer:write_segment(
            Directory, Number, records(First, Last)
        )
    end,
    try
        _ = [Write(N, N * 10 - 9, N * 10) || N <- [1, 2, 3]],
        ok = todana_log_writer:write_wal(Directory, 7, records(31, 40)),
        ok = todana_log_writer:write_wal(Directory, 8, records(41, 50)),
        ok = todana_log_mark:write(todana_log_writer:server(Directory), #{
            index => 45, term => 0, is_final => false
        }),
        Test(Directory)
    after
        file:del_dir_r(Directory)
    end.
