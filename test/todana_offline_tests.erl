%% What `check' and `repair' say about the files of a stopped node.
-module(todana_offline_tests).

-include_lib("eunit/include/eunit.hrl").

a_good_directory_is_good_test() ->
    with_data(fun(Data) ->
        ?assertEqual([], damaged(Data)),
        ?assertMatch({ok, "No entry" ++ _}, repair(Data))
    end).

%% ----------------------------------------------------------------- check ---

%% The log is verified all the same: its directory has its name.
a_damaged_node_file_is_the_only_damage_test() ->
    [
        with_data(fun(Data) ->
            File = filename:join(Data, "node"),
            ok = file:write_file(File, Text),
            [{File, Words}] = damaged(Data),
            ?assertEqual(Words, expect(Words, Parts))
        end)
     || {Text, Parts} <- [
            {"", ["is empty", "restore a backup"]},
            {"{for", ["is damaged (line 1", "restore a backup"]},
            {"{format, 1}.\n", ["is damaged", "restore a backup"]},
            {"{format, 99}.\n", ["start a newer version"]},
            {terms(<<"TODANA0_00">>), ["of another data directory"]}
        ]
    ].

a_log_without_a_node_file_says_so_test() ->
    with_data(fun(Data) ->
        ok = file:delete(filename:join(Data, "node")),
        [
            begin
                {error, Sentence} = Do(Data),
                expect(Sentence, ["node is missing", "cannot be read",
                                  "restore it from a backup"])
            end
         || Do <- [fun todana_offline_check:check/1,
                   fun todana_offline:repair/1]
        ]
    end).

%% It had just been created only if the log is whole without it.
an_empty_file_of_the_log_is_no_new_one_if_entries_are_missing_test() ->
    with_data(fun(Data) ->
        Class = filename:join(Data, "always"),
        New = todana_log_writer:wal(Class, 9),
        ok = file:write_file(New, ""),
        {ok, Whole} = todana_offline_check:check(Data),
        {note, New, Words} = lists:keyfind(New, 2, Whole),
        expect(Words, ["just been created"]),
        Cut = todana_log_writer:wal(Class, 8),
        ok = file:write_file(Cut, ""),
        {ok, Short} = todana_offline_check:check(Data),
        [{Class, _}] = damaged(Data),
        ?assertEqual({note, Cut, "is empty"}, lists:keyfind(Cut, 2, Short))
    end).

the_small_files_are_verified_test() ->
    with_data(fun(Data) ->
        Class = filename:join(Data, "always"),
        Server = todana_log_writer:server(Class),
        Mark = filename:join(Server, "todana.mark"),
        Confirmed = filename:join(Data, "confirmed"),
        Table = filename:join(Class, "meta.dets"),
        Rows = [{<<"TODANA0_02">>, b@host, 7}],
        Sum = erlang:crc32(term_to_binary(Rows, [deterministic])),
        ok = write_terms(Confirmed, [{members, Rows}, {checksum, Sum}]),
        {ok, t} = dets:open_file(t, [{file, Table}]),
        Row = {todana_log_writer:uid(), 5, undefined, 0},
        ok = dets:insert(t, Row),
        ok = dets:close(t),
        {ok, Table0} = file:read_file(Table),
        {ok, Found} = todana_offline_check:check(Data),
        [
            begin
                {ok, File, Words} = lists:keyfind(File, 2, Found),
                expect(Words, [Part])
            end
         || {File, Part} <- [
                {Mark, "entry 50 was confirmed"}, {Confirmed, "1 members"},
                {Table, "term 5"}
            ]
        ],
        ?assertEqual({ok, Table0}, file:read_file(Table)),
        %% A start makes it again, and so may a power failure damage it.
        ok = file:write_file(Table, "no table"),
        ?assertEqual([], damaged(Data)),
        ok = flip(Mark, 12),
        ok = write_terms(Confirmed, [{members, Rows}, {checksum, Sum + 1}]),
        [{Mark, _}, {Confirmed, _}] = damaged(Data)
    end).

%% ---------------------------------------------------------------- repair ---

a_log_without_its_configuration_is_not_repaired_test() ->
    [
        with_data(fun(Data) ->
            Class = filename:join(Data, "always"),
            Config = filename:join(
                todana_log_writer:server(Class), "config"
            ),
            ok = Change(Config),
            {error, Sentence} = todana_offline:repair(Data),
            expect(Sentence, [Config, "restore a backup"])
        end)
     || Change <- [
            fun file:delete/1, fun(File) -> file:write_file(File, "") end
        ]
    ].

a_repair_says_what_it_loses_test() ->
    with_data(fun(Data) ->
        File = todana_log_writer:wal(filename:join(Data, "always"), 8),
        ok = flip(File, 40),
        {ok, Text} = repair(Data),
        expect(Text, ["Lost are at least 10 confirmed entries, 41 to 50"])
    end),
    with_data(fun(Data) ->
        File = todana_log_writer:wal(filename:join(Data, "always"), 8),
        ok = file:delete(File),
        {ok, Text} = repair(Data),
        expect(Text, ["Lost are at least 10 confirmed entries, 41 to 50"])
    end).

%% ----------------------------------------------------------------- tools ---

damaged(Data) ->
    {ok, Findings} = todana_offline_check:check(Data),
    [
        {File, unicode:characters_to_list(Words)}
     || {damaged, File, Words} <- Findings
    ].

repair(Data) ->
    case todana_offline:repair(Data) of
        {ok, Text} -> {ok, unicode:characters_to_list(Text)};
        Error -> Error
    end.

expect(Words, Parts) ->
    Text = unicode:characters_to_list(Words),
    Missing = [P || P <- Parts, string:find(Text, P) =:= nomatch],
    ?assertEqual({[], Text}, {Missing, Text}),
    Text.

flip(File, Offset) ->
    {ok, <<Head:Offset/binary, Byte, Rest/binary>>} = file:read_file(File),
    file:write_file(File, [Head, Byte bxor 1, Rest]).

write_terms(File, Terms) ->
    file:write_file(File, [io_lib:format("~tp.~n", [Term]) || Term <- Terms]).

terms(UId) ->
    [
        io_lib:format("~tp.~n", [Term])
     || Term <- [
            {format, 1}, {node, node()}, {uid, UId}, {seed, 1},
            {created_ms, 1}, {group, todana_0}
        ]
    ].

%% Entries 1 to 50 in files of the log, all confirmed.
with_data(Test) ->
    Data = string:trim(os:cmd("mktemp -d")),
    Class = filename:join(Data, "always"),
    Records = fun(First, Last) ->
        [{Index, 1, <<"data">>} || Index <- lists:seq(First, Last)]
    end,
    try
        ok = todana_log_writer:write_config(Class),
        ok = file:write_file(
            filename:join(Data, "node"), terms(todana_log_writer:uid())
        ),
        ok = todana_log_writer:write_wal(Class, 7, Records(1, 40)),
        ok = todana_log_writer:write_wal(Class, 8, Records(41, 50)),
        ok = todana_log_mark:write(todana_log_writer:server(Class), #{
            index => 50, term => 0, is_final => false
        }),
        Test(Data)
    after
        file:del_dir_r(Data)
    end.
