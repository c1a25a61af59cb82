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

a_segment_without_an_index_is_broken_test() ->
    with_log(fun(Directory) ->
        File = (segment(2))(Directory),
        ok = file:write_file(File, "not a segment"),
        ?assertMatch([{broken, File, 0, _}], problems(Directory))
    end).

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

repair_accepts_only_the_loss_of_the_end_test() ->
    with_log(fun(Directory) ->
        UId = todana_log_writer:uid(),
        Repair = fun() -> todana_log_tail:repair(Directory, UId, always) end,
        ?assertEqual(undamaged, Repair()),
        ok = file:delete((wal(8))(Directory)),
        {ok, Text} = Repair(),
        ?assertNotEqual(nomatch, string:find(lists:flatten(Text), "are lost")),
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
        ok = todana_log_mark:write(todana_log_writer:server(Directory), 45),
        Test(Directory)
    after
        file:del_dir_r(Directory)
    end.
