%% Logs that a power failure has torn, or something else has damaged. The files
%% are written here, byte by byte as Ra writes them: each log once as it is, and
%% once with room for records to come in its files.
-module(todana_log_tail_tests).

-include_lib("eunit/include/eunit.hrl").

-define(UID, (todana_log_writer:uid())).
-define(SECTOR_BYTES, 512).
-define(ROOM_BYTES, 8_000).
%% Of a record, before its data.
-define(HEAD_BYTES, 27).

%% ------------------------------------------------------------- always ---

a_whole_log_stays_test() ->
    with_log([{1, batches(1, 20)}], fun(Directory) ->
        Before = contents(Directory),
        ?assertEqual(ok, mend(Directory, always)),
        ?assertEqual(undamaged,
                     todana_log_tail:repair(Directory, ?UID, always)),
        ?assertEqual(Before, contents(Directory))
    end).

a_log_without_files_stays_test() ->
    with_log([], fun(Directory) ->
        ?assertEqual(ok, mend(Directory, always))
    end).

a_hole_in_the_last_write_is_cut_test_() ->
    {timeout, 600, fun a_hole_in_the_last_write_is_cut/0}.

a_hole_in_the_last_write_is_cut() ->
    %% Each of the last four records may have a hole.
    [
        with_log([{1, batches(1, 20)}], fun(Directory) ->
            hole(Directory, 1, Index),
            ?assertEqual(ok, mend(Directory, always)),
            ?assertEqual(Index - 1, last(Directory)),
            [Kept] = kept(Directory),
            ?assert(filelib:file_size(Kept) > 0),
            ?assertEqual(ok, mend(Directory, always))
        end)
     || Index <- [16, 17, 18, 19, 20]
    ].

a_hole_of_a_confirmed_record_is_refused_test_() ->
    {timeout, 600, fun a_hole_of_a_confirmed_record_is_refused/0}.

a_hole_of_a_confirmed_record_is_refused() ->
    with_log([{1, batches(1, 20)}], fun(Directory) ->
        At = offset(Directory, 1, 15),
        hole(Directory, 1, 15),
        Before = contents(Directory),
        {error, {damaged, File, Offset, _} = Problem} =
            mend(Directory, always),
        ?assertEqual({wal(Directory, 1), At}, {File, Offset}),
        Sentence = todana_log_problem:describe(Problem),
        [
            ?assertNotEqual(nomatch, string:find(Sentence, Part))
         || Part <- [File, integer_to_list(Offset), "todana repair"]
        ],
        ?assertEqual(Before, contents(Directory)),
        repaired(Directory, 14)
    end).

%% Batches that were sent again, because the disk was slow.
a_batch_that_was_sent_again_counts_once_test() ->
    Again = [batch(Index, 17 + (Index rem 4)) || Index <- lists:seq(21, 60)],
    with_log([{1, batches(1, 20) ++ Again}], fun(Directory) ->
        hole(Directory, 1, 19),
        ?assertEqual(ok, mend(Directory, always)),
        ?assertEqual(18, last(Directory))
    end).

a_flipped_bit_is_refused_test_() ->
    {timeout, 600, fun a_flipped_bit_is_refused/0}.

a_flipped_bit_is_refused() ->
    [
        with_log([{1, batches(1, 20)}], fun(Directory) ->
            flip(Directory, 1, offset(Directory, 1, Index) + In),
            ?assertMatch({{error, {damaged, _, _, _}}, _, _},
                         {mend(Directory, always), Index, In}),
            ?assertMatch({error, {damaged, _, _, _}},
                         mend(Directory, everysec)),
            repaired(Directory, Index - 1)
        end)
        %% In the header, checksum, length, index and data, of a record in the
        %% middle and of the last one.
     || Index <- [10, 20], In <- [1, 5, 7, 9, 10, 18, 400]
    ].

a_torn_last_record_is_cut_test_() ->
    {timeout, 600, fun a_torn_last_record_is_cut/0}.

a_torn_last_record_is_cut() ->
    [
        with_log([{1, batches(1, 20)}], fun(Directory) ->
            Offset = offset(Directory, 1, 20),
            truncate(Directory, 1, Offset + Bytes),
            ?assertEqual(ok, mend(Directory, always)),
            ?assertEqual(19, last(Directory)),
            ?assertEqual(Offset, filelib:file_size(wal(Directory, 1)))
        end)
     || Bytes <- [1, 2, 3, 7, 26, 27, 400]
    ].

%% No bit of a confirmed record may be taken for what the power has torn,
%% wherever the record ends, and also if its last bytes are zeros, but not all
%% that it has of a sector.
a_flipped_bit_of_the_last_record_is_refused_test_() ->
    {timeout, 600, fun a_flipped_bit_of_the_last_record_is_refused/0}.

a_flipped_bit_of_the_last_record_is_refused() ->
    [
        with_log([{1, batches(1, 3) ++ [Last]}], fun(Directory) ->
            Offset = offset(Directory, 1, 4),
            flip(Directory, 1, Offset + In, Bit),
            ?assertMatch({{error, {damaged, _, Offset, _}}, _},
                         {mend(Directory, always), {Beyond, Zeros, In, Bit}})
        end)
     || Beyond <- [-1, 0, 1, 4], Zeros <- [0, 3],
        Beyond =< 0 orelse Zeros < Beyond,
        Last <- [last_record(Beyond, Zeros)],
        In <- lists:seq(0, ?HEAD_BYTES - 1) ++ [300], Bit <- [0, 3, 7],
        %% Ra's sign that the log was cut before, which has no checksum.
        {In, Bit} =/= {0, 7}
    ].

the_last_sector_of_such_a_record_may_be_torn_test_() ->
    {timeout, 600, fun the_last_sector_of_such_a_record_may_be_torn/0}.

the_last_sector_of_such_a_record_may_be_torn() ->
    [
        with_log([{1, batches(1, 3) ++ [Last]}], fun(Directory) ->
            Offset = offset(Directory, 1, 4),
            End = Offset + ?HEAD_BYTES + byte_size(element(2, Last)),
            Sector = (End - 1) div ?SECTOR_BYTES * ?SECTOR_BYTES,
            zero(Directory, 1, Sector, End),
            ?assertEqual({ok, Beyond, Zeros},
                         {mend(Directory, always), Beyond, Zeros}),
            ?assertEqual(3, last(Directory))
        end)
     || Beyond <- [0, 1, 3, 4, 5, 100], Zeros <- [0, 1, 3],
        Beyond =:= 0 orelse Zeros < Beyond,
        Last <- [last_record(Beyond, Zeros)]
    ].

%% A record behind three others, which ends `Beyond' bytes behind a sector, with
%% this number of zeros.
last_record(Beyond, Zeros) ->
    Before = 5 + 5 + byte_size(?UID) + 24 - ?HEAD_BYTES + lists:sum([
        ?HEAD_BYTES + byte_size(Data) || {_, Data} <- batches(1, 3)
    ]),
    End = (Before + 1_000) div ?SECTOR_BYTES * ?SECTOR_BYTES + Beyond,
    Bytes = End - Before - ?HEAD_BYTES - Zeros,
    {4, <<(binary:copy(~"x", Bytes))/binary, 0:Zeros/unit:8>>}.

room_alone_is_no_damage_test() ->
    with_log([{1, batches(1, 5)}, {2, []}], fun(Directory) ->
        Before = contents(Directory),
        ?assertEqual(ok, mend(Directory, always)),
        ?assertEqual({Before, []}, {contents(Directory), kept(Directory)})
    end).

%% Any sectors of the last write are missing, as its first ones or in between.
any_sectors_of_the_last_write_test_() ->
    {timeout, 120, fun any_sectors_of_the_last_write/0}.

any_sectors_of_the_last_write() ->
    Seed = erlang:system_time(),
    _ = rand:seed(exsss, Seed),
    Times = 100,
    _ = [
        with_log([{1, batches(1, 20)}], fun(Directory) ->
            %% The confirmed records end at any of these.
            Confirmed = 16 + rand:uniform(4) - 1,
            From = offset(Directory, 1, Confirmed + 1),
            lose_sectors(Directory, 1, From),
            ?assertMatch({ok, _, _}, {mend(Directory, always), Seed, Time}),
            ?assertMatch({true, _, _},
                         {last(Directory) >= Confirmed, Seed, Time}),
            ?assertEqual(ok, mend(Directory, always))
        end)
     || Time <- lists:seq(1, Times)
    ].

the_first_write_of_a_file_test() ->
    with_log([{1, batches(1, 9)}, {2, batches(10, 12)}], fun(Directory) ->
        zero(Directory, 2, 5, ?SECTOR_BYTES),
        ?assertEqual(ok, mend(Directory, always)),
        ?assertEqual(5, filelib:file_size(wal(Directory, 2))),
        ?assertEqual(9, last(Directory))
    end).

%% ------------------------------------------------------- several files ---

damage_in_an_earlier_file_is_refused_test() ->
    with_log([{1, batches(1, 9)}, {2, batches(10, 13)}], fun(Directory) ->
        hole(Directory, 1, 8),
        ?assertMatch({error, {damaged, _, _, _}}, mend(Directory, always)),
        repaired(Directory, 7),
        ?assertEqual([wal(Directory, 1)], wals(Directory))
    end).

%% The log failed, and what was not on disk was written again to a new file.
what_was_written_again_is_cut_test() ->
    with_log([{1, batches(1, 9)}, {2, batches(8, 20)}], fun(Directory) ->
        At = offset(Directory, 1, 8),
        flip(Directory, 1, At + 50),
        ?assertEqual(ok, mend(Directory, always)),
        ?assertEqual(20, last(Directory)),
        ?assertEqual(At, filelib:file_size(wal(Directory, 1)))
    end).

%% Files in between have gone: segments have their entries.
an_earlier_file_may_end_within_a_record_test() ->
    with_log([{1, batches(1, 9)}, {3, batches(12, 14)}], fun(Directory) ->
        segment(Directory, batches(1, 11)),
        truncate(Directory, 1, offset(Directory, 1, 9) + 100),
        ?assertEqual(ok, mend(Directory, always)),
        ?assertEqual([wal(Directory, 3)], wals(Directory)),
        ?assertEqual(14, last(Directory))
    end).

a_later_file_without_records_is_the_same_write_test() ->
    with_log([{1, batches(1, 9)}, {2, []}], fun(Directory) ->
        hole(Directory, 1, 8),
        ?assertEqual(ok, mend(Directory, always)),
        ?assertEqual(7, last(Directory))
    end).

a_strange_file_is_refused_test() ->
    with_log([{1, batches(1, 9)}], fun(Directory) ->
        File = wal(Directory, 2),
        ok = file:write_file(File, <<"RABC", 1>>),
        ?assertMatch({error, {missing, File, _}}, mend(Directory, always))
    end).

%% ------------------------------------------------------------ everysec ---

a_second_may_be_torn_anywhere_test() ->
    Files = [{1, batches(1, 20)}, {2, batches(21, 30)}, {3, batches(31, 40)}],
    with_log(Files, fun(Directory) ->
        hole(Directory, 1, 12),
        ?assertEqual(ok, mend(Directory, everysec)),
        ?assertEqual(11, last(Directory)),
        ?assertEqual([wal(Directory, 1)], wals(Directory)),
        ?assertEqual(3, length(kept(Directory)))
    end).

more_than_a_moment_is_refused_test() ->
    Late = [batch(Index, Index, Index * 1_000) || Index <- lists:seq(1, 40)],
    with_log([{1, Late}], fun(Directory) ->
        hole(Directory, 1, 35),
        ?assertEqual(ok, mend(Directory, everysec)),
        ?assertEqual(34, last(Directory)),
        hole(Directory, 1, 10),
        ?assertMatch({error, {damaged, _, _, _}}, mend(Directory, everysec))
    end).

%% ------------------------------------------------------------------ gaps ---

%% After an fdatasync that failed, a file may end early though it has a
%% successor.
a_gap_that_segments_fill_costs_nothing_test() ->
    Files = [{1, batches(1, 10)}, {2, batches(14, 60)}],
    with_log(Files, fun(Directory) ->
        segment(Directory, batches(1, 13)),
        ?assertEqual(ok, mend(Directory, always)),
        ?assertEqual([wal(Directory, 2)], wals(Directory)),
        ?assertEqual(60, last(Directory)),
        [Kept] = kept(Directory),
        ?assertNotEqual(nomatch, string:find(Kept, "0001.wal")),
        ?assertEqual(ok, mend(Directory, always))
    end).

a_torn_end_before_such_a_gap_costs_nothing_test() ->
    Files = [{1, batches(1, 10)}, {2, batches(14, 60)}],
    with_log(Files, fun(Directory) ->
        segment(Directory, batches(1, 13)),
        hole(Directory, 1, 9),
        ?assertEqual(ok, mend(Directory, always)),
        ?assertEqual([wal(Directory, 2)], wals(Directory))
    end).

%% Entries 12 and 13 are nowhere.
a_gap_that_segments_do_not_fill_is_refused_test() ->
    Files = [{1, batches(1, 10)}, {2, batches(14, 60)}],
    with_log(Files, fun(Directory) ->
        segment(Directory, batches(1, 11)),
        Before = contents(Directory),
        {error, {ended, File, _} = Problem} = mend(Directory, always),
        ?assertEqual(wal(Directory, 1), File),
        Sentence = todana_log_problem:describe(Problem),
        ?assertNotEqual(nomatch, string:find(Sentence, File)),
        ?assertEqual(Before, contents(Directory)),
        {ok, _} = todana_log_tail:repair(Directory, ?UID, always),
        ?assertEqual([wal(Directory, 1)], wals(Directory)),
        ?assertEqual(10, last(Directory)),
        ?assertEqual(ok, mend(Directory, always))
    end).

a_check_reports_a_gap_test() ->
    with_log([], fun(Directory) ->
        Class = filename:join(Directory, "always"),
        ok = filelib:ensure_path(Class),
        ok = file:write_file(filename:join(Directory, "node"),
                             io_lib:format("{uid,~p}.~n", [?UID])),
        ok = write_wal(Class, 1, batches(1, 10)),
        ok = write_wal(Class, 2, batches(14, 60)),
        Found = fun() ->
            {ok, Findings} = todana_offline_check:check(Directory),
            [{Word, lists:flatten(Text)}
             || {Word, File, Text} <- Findings, Word =/= ok,
                filename:basename(File) =:= "0000000000000001.wal"]
        end,
        [{damaged, "entries 11 to 13 are missing" ++ Words}] = Found(),
        {error, Problem} = mend(Class, always),
        Sentence = todana_log_problem:describe(Problem),
        ?assertNotEqual(nomatch, string:find(Sentence, Words)),
        segment(Class, batches(1, 13)),
        [{note, "entries 11 to 13 are missing" ++ _}] = Found()
    end).

%% No batch after the gap can be confirmed while one before it is not.
a_gap_before_unconfirmed_batches_is_cut_test() ->
    with_log([{1, batches(1, 10)}, {2, batches(13, 15)}], fun(Directory) ->
        ?assertEqual(ok, mend(Directory, always)),
        ?assertEqual([wal(Directory, 1)], wals(Directory)),
        ?assertEqual(10, last(Directory))
    end).

entries_that_were_written_again_leave_no_gap_test() ->
    Again = batches(13, 13) ++ batches(11, 60),
    with_log([{1, batches(1, 10)}, {2, Again}], fun(Directory) ->
        Before = contents(Directory),
        ?assertEqual(ok, mend(Directory, always)),
        ?assertEqual(Before, contents(Directory))
    end).

%% Ra would expect the entries that this note promises.
the_note_of_the_last_index_is_forgotten_test() ->
    with_server(fun(Directory, Prepare) ->
        Note = filename:join(Directory, "writers.snapshot"),
        Writers = #{?UID => {in_seq, 12}},
        ok = file:write_file(Note, term_to_binary(Writers)),
        ?assertEqual(ok, Prepare()),
        ?assertNot(filelib:is_file(Note))
    end).

%% The header of a new segment file may be torn. Ra would stop there.
a_segment_without_a_header_is_forgotten_test() ->
    with_server(fun(Directory, Prepare) ->
        segment(Directory, batches(1, 3)),
        Old = filename:join([Directory, ?UID, "0000000000000001.segment"]),
        New = filename:join([Directory, ?UID, "0000000000000002.segment"]),
        [
            begin
                ok = file:write_file(New, Header),
                ?assertEqual(ok, Prepare()),
                ?assertNot(filelib:is_file(New)),
                ?assert(filelib:is_file(Old))
            end
         || Header <- [<<"RAS">>, <<0:64>>, <<"RASG", 0:32>>]
        ]
    end).

%% Ra would wait for ever for a member of another name.
a_damaged_configuration_is_refused_test() ->
    with_server(fun(Directory, Prepare) ->
        Server = todana_log_writer:server(Directory),
        File = filename:join(Server, "config"),
        {ok, Text} = file:read_file(File),
        [
            begin
                Damaged = string:replace(Text, Part, Other),
                ok = file:write_file(File, Damaged),
                ?assertMatch({{error, {missing, File, _}}, _},
                             {Prepare(), Part})
            end
         || {Part, Other} <- [
                {"nonode", "nolode"}, {"todana_0", "todanb_0"},
                {"todana_machine", "todana_mbchine"}, {"uid", "u'd"},
                {"todana_snapshot", "todana_snapshou"},
                {"group => 0", "group => 8"}
            ]
        ]
    end).

%% Earlier versions wrote no number of a group.
a_configuration_without_a_group_is_accepted_test() ->
    with_server(fun(Directory, Prepare) ->
        File = filename:join(todana_log_writer:server(Directory), "config"),
        {ok, Text} = file:read_file(File),
        ok = file:write_file(File, string:replace(Text, "group => 0", "")),
        {ok, [#{machine := Machine}]} = file:consult(File),
        ?assertEqual({module, todana_machine, #{}}, Machine),
        ?assertEqual(ok, Prepare())
    end).

%% Both tables of Ra are made again from what is known.
a_flipped_bit_in_a_table_of_names_is_mended_test_() ->
    {timeout, 120, fun a_flipped_bit_in_a_table_of_names_is_mended/0}.

a_flipped_bit_in_a_table_of_names_is_mended() ->
    with_server(fun(Directory, Prepare) ->
        ?assertEqual(ok, Prepare()),
        [
            begin
                File = filename:join(Directory, Name),
                {ok, Bytes} = file:read_file(File),
                [
                    begin
                        <<Before:At/binary, Byte, After/binary>> = Bytes,
                        Flipped = Byte bxor (1 bsl (At rem 8)),
                        ok = file:write_file(File, [Before, Flipped, After]),
                        ?assertEqual({ok, Name, At}, {
                            silently(Prepare), Name, At
                        })
                    end
                 || At <- lists:seq(0, byte_size(Bytes) - 1, 29)
                ]
            end
         || Name <- ["names.dets", "meta.dets"]
        ]
    end).

with_server(Do) ->
    with_log([{1, batches(1, 10)}], fun(Directory) ->
        ok = todana_log_writer:write_config(Directory),
        Opened = todana_log_writer:opened(Directory, everysec),
        Id = {todana_0, node()},
        Do(Directory, fun() -> todana_ra_files:prepare(Id, Opened) end)
    end).

segment(Directory, Records) ->
    _ = todana_log_writer:write_segment(Directory, 1, with_term(Records)),
    ok.

%% --------------------------------------------------------------- others ---

%% Ra would confirm new entries at once up to there.
what_was_applied_is_forgotten_test() ->
    with_log([{1, batches(1, 9)}], fun(Directory) ->
        File = filename:join(Directory, "meta.dets"),
        {ok, meta} = dets:open_file(meta, [{file, File}]),
        ok = dets:insert(meta, {?UID, 7, vote, 9}),
        ok = dets:close(meta),
        hole(Directory, 1, 8),
        ?assertEqual(ok, mend(Directory, always)),
        {ok, meta} = dets:open_file(meta, [{file, File}]),
        ?assertEqual([{?UID, 7, vote, 0}], dets:lookup(meta, ?UID)),
        ok = dets:close(meta)
    end).

repair_says_what_is_lost_test() ->
    with_log([{1, batches(1, 20)}], fun(Directory) ->
        {ok, Whole} = file:read_file(wal(Directory, 1)),
        hole(Directory, 1, 5),
        {ok, Damaged} = file:read_file(wal(Directory, 1)),
        ?assertNotEqual(Whole, Damaged),
        {ok, Text} = todana_log_tail:repair(Directory, ?UID, always),
        Said = lists:flatten(Text),
        [Kept] = kept(Directory),
        ?assertEqual({ok, Damaged}, file:read_file(Kept)),
        [
            ?assertNotEqual({nomatch, Said}, {string:find(Said, Part), Said})
         || Part <- [wal(Directory, 1), "ends with entry 4 of 1970",
                     "up to entry 20 of 1970", "confirmed", Kept]
        ]
    end).

%% ---------------------------------------------------------------- files ---

mend(Directory, Durability) ->
    silently(fun() -> todana_log_tail:mend(Directory, ?UID, Durability) end).

repaired(Directory, Last) ->
    {ok, _} = todana_log_tail:repair(Directory, ?UID, always),
    ?assertEqual(Last, last(Directory)),
    ?assertEqual(undamaged, todana_log_tail:repair(Directory, ?UID, always)),
    ?assertEqual(ok, mend(Directory, always)).

silently(Do) ->
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, none),
    try Do() after logger:set_primary_config(level, Level) end.

with_log(Files, Do) ->
    _ = [
        begin
            _ = put(room_bytes, RoomBytes),
            with_files(Files, Do)
        end
     || RoomBytes <- [0, ?ROOM_BYTES]
    ],
    ok.

with_files(Files, Do) ->
    Name = io_lib:format("todana_log_tail-~s-~b",
                         [os:getpid(), erlang:unique_integer([positive])]),
    Directory = filename:join("_build/test/log_tail",
                              lists:flatten(Name)),
    ok = filelib:ensure_path(Directory),
    try
        _ = [
            ok = write_wal(Directory, Number, Records)
         || {Number, Records} <- Files
        ],
        Do(Directory)
    after
        file:del_dir_r(Directory)
    end.

wal(Directory, Number) -> todana_log_writer:wal(Directory, Number).

write_wal(Directory, Number, Records) ->
    ok = todana_log_writer:write_wal(Directory, Number, with_term(Records)),
    file:write_file(wal(Directory, Number), room(), [append]).

room() -> <<0:(get(room_bytes))/unit:8>>.

with_term(Records) -> [{Index, 1, Data} || {Index, Data} <- Records].

wals(Directory) ->
    lists:sort(filelib:wildcard(filename:join(Directory, "*.wal"))).

kept(Directory) ->
    filelib:wildcard(
        filename:join([Directory, binary_to_list(?UID), "damaged", "*"])
    ).

contents(Directory) ->
    [file:read_file(File) || File <- wals(Directory)].

%% Records of 28 to 1,300 bytes, without zeros in them.
batches(First, Last) ->
    [batch(Index, Index) || Index <- lists:seq(First, Last)].

batch(Index, Sequence) ->
    batch(Index, Sequence, Index).

batch(Index, Sequence, TimeMs) ->
    Bytes = << <<"x">> || _ <- lists:seq(1, 400 + Sequence * 37 rem 900) >>,
    Command = {'$usr', #{ts => TimeMs}, {b, Bytes}, {notify, Sequence, self()}},
    {Index, term_to_binary(Command)}.

%% Where the record with this index begins, in a file without damage.
offset(Directory, Number, Index) ->
    {ok, Bytes} = file:read_file(wal(Directory, Number)),
    offset(Bytes, 5, 5 + byte_size(?UID), Index).

offset(Bytes, At, Head, Index) ->
    case Bytes of
        <<_:At/binary, _:Head/binary, _:64, Index:64, _/binary>> ->
            At;
        <<_:At/binary, _:Head/binary, _:32, Length:32, _/binary>> ->
            offset(Bytes, At + Head + 24 + Length, 3, Index)
    end.

%% The end of the last record, by its index.
last(Directory) ->
    lists:last([
        Index
     || File <- wals(Directory),
        {ok, #{last := #{index := Index}}} <-
            [todana_log_file:scan(File, ?UID)]
    ]).

%% The first sector that is in the record.
hole(Directory, Number, Index) ->
    Offset = offset(Directory, Number, Index),
    Sector = (Offset + 20) div ?SECTOR_BYTES * ?SECTOR_BYTES,
    zero(Directory, Number, max(Offset, Sector), Sector + ?SECTOR_BYTES).

zero(Directory, Number, From, To) ->
    {ok, Bytes} = file:read_file(wal(Directory, Number)),
    Until = min(To, byte_size(Bytes)),
    <<Before:From/binary, _:(Until - From)/binary, After/binary>> = Bytes,
    ok = file:write_file(
        wal(Directory, Number), [Before, <<0:(Until - From)/unit:8>>, After]
    ).

%% Each sector of what was written from here on is lost, or not.
lose_sectors(Directory, Number, From) ->
    Bytes = filelib:file_size(wal(Directory, Number)),
    lose_sectors(Directory, Number, From, Bytes).

lose_sectors(_Directory, _Number, From, Bytes) when From >= Bytes ->
    ok;
lose_sectors(Directory, Number, From, Bytes) ->
    Next = (From div ?SECTOR_BYTES + 1) * ?SECTOR_BYTES,
    rand:uniform(2) =:= 1 andalso zero(Directory, Number, From, Next),
    lose_sectors(Directory, Number, Next, Bytes).

flip(Directory, Number, At) -> flip(Directory, Number, At, 4).

flip(Directory, Number, At, Bit) ->
    {ok, Bytes} = file:read_file(wal(Directory, Number)),
    <<Before:At/binary, Byte, After/binary>> = Bytes,
    ok = file:write_file(
        wal(Directory, Number), [Before, Byte bxor (1 bsl Bit), After]
    ).

truncate(Directory, Number, To) ->
    {ok, Bytes} = file:read_file(wal(Directory, Number)),
    ok = file:write_file(
        wal(Directory, Number), [binary:part(Bytes, 0, To), room()]
    ).
