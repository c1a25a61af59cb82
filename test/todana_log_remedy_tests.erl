%% What the sentences about damaged files advise, and whom `repair' serves.
-module(todana_log_remedy_tests).

-include_lib("eunit/include/eunit.hrl").

-define(CLUSTER, <<"0123456789abcdef">>).

%% All that such a sentence can be about.
problems(Class) ->
    File = filename:join(Class, "0000000000000001.wal"),
    Server = filename:join(Class, "TODANA0_01"),
    Data = filename:join([Server, "snapshots", "01_02", "data.tds"]),
    [
        {damaged, File, 5, "and not by a power failure"},
        {ended, File, "entry 2 is missing behind its end"},
        {missing, Class, "entry 2 is missing"},
        {short, Class, "the log ends with entry 2"},
        {broken, filename:join(Server, "01.segment"), 0, "its header"},
        {snapshot, Data, [Data, " is damaged"]}
    ].

a_node_that_is_alone_has_only_its_own_files_test() ->
    [
        with_data(Terms, fun(DataDir, Class) ->
            [
                begin
                    Sentence = todana_log_problem:describe(Problem),
                    ?assertNotEqual(nomatch,
                                    string:find(Sentence, "restore a backup")),
                    ?assertEqual(nomatch, string:find(Sentence, "leave"))
                end
             || Problem <- problems(Class)
            ],
            ?assertMatch({ok, _}, todana_offline:repair(DataDir))
        end)
     || Terms <- [[], [{cluster, ?CLUSTER}, {members, [node()]}]]
    ].

%% While the members are not noted, there may be others.
a_member_leaves_and_joins_again_test() ->
    [
        with_data([{cluster, ?CLUSTER} | Terms], fun(DataDir, Class) ->
            [
                begin
                    Sentence = todana_log_problem:describe(Problem),
                    [
                        ?assertNotEqual({nomatch, Sentence},
                                        {string:find(Sentence, Part), Sentence})
                     || Part <- [
                            "cluster leave nonode@nohost", "empty directory",
                            binary_to_list(?CLUSTER)
                        ]
                    ],
                    [
                        ?assertEqual({nomatch, Sentence},
                                     {string:find(Sentence, Part), Sentence})
                     || Part <- ["todana repair", "restore"]
                    ]
                end
             || Problem <- problems(Class)
            ],
            %% Also while no file is damaged: nothing is changed.
            Before = files(DataDir),
            {error, Sentence} = todana_offline:repair(DataDir),
            ?assertNotEqual(nomatch, string:find(Sentence, "cluster leave")),
            ?assertEqual(Before, files(DataDir))
        end)
     || Terms <- [
            [],
            [{members, [node(), b@host]}],
            [{members, [node()]}, {joining, [b@host]}]
        ]
    ].

%% Two ways, and when each one is right.
an_older_copy_joins_again_or_is_accepted_test() ->
    Sentence = todana_log_problem:describe({older, "/data", "it is older"}),
    [
        ?assertNotEqual({nomatch, Sentence},
                        {string:find(Sentence, Part), Sentence})
     || Part <- [
            "if the others have a majority", "cluster leave nonode@nohost",
            "only if all members were restored from copies",
            "the others are lost for good", "--cluster-accept-older",
            "gives up the writes"
        ]
    ].

a_removed_node_joins_again_test() ->
    Terms = [{cluster, ?CLUSTER}, {members, [b@host]}, {left_ms, 1}],
    with_data(Terms, fun(DataDir, _Class) ->
        {error, Sentence} = todana_offline:repair(DataDir),
        ?assertEqual(nomatch, string:find(Sentence, "cluster leave")),
        ?assertNotEqual(nomatch, string:find(Sentence, "empty directory"))
    end).

%% Without the identity of the log, each of its records would seem to be bad.
nothing_is_cut_without_the_file_node_test() ->
    with_data([], fun(DataDir, Class) ->
        File = filename:join(DataDir, "node"),
        {ok, Good} = file:read_file(File),
        [
            begin
                ok = file:write_file(File, Bad),
                Before = files(DataDir),
                {error, Sentence} = todana_offline:repair(DataDir),
                [
                    ?assertNotEqual(nomatch, string:find(Said, Part))
                 || Said <- [
                        Sentence,
                        todana_log_problem:describe({missing, Class, "entry 2"})
                    ],
                    Part <- ["cluster leave", "restore a backup"]
                ],
                ?assertEqual(Before, files(DataDir))
            end
         || Bad <- ["{node, x", "", "{format, 1}.\n"]
        ],
        ok = file:write_file(File, Good),
        ?assertMatch({ok, _}, todana_offline:repair(DataDir))
    end).

%% It would take part in the cluster.
the_directory_of_a_member_is_not_dumped_test() ->
    [
        with_data([{cluster, ?CLUSTER} | Terms], fun(DataDir, _Class) ->
            Before = files(DataDir),
            {error, Sentence} =
                todana_offline_dump:dump(DataDir, fun(_) -> ok end),
            ?assertNotEqual(nomatch, string:find(Sentence, "todana backup")),
            ?assertEqual(Before, files(DataDir))
        end)
     || Terms <- [[], [{members, [node()]}]]
    ].

files(DataDir) ->
    [
        {Name, file:read_file(filename:join(DataDir, Name))}
     || Name <- filelib:wildcard("**", DataDir), Name =/= "lock"
    ].

%% A data directory with a log whose file ends within a record.
with_data(Terms, Check) ->
    DataDir = filename:absname(lists:concat([
        "todana_log_remedy_", os:getpid(), "_",
        erlang:unique_integer([positive])
    ])),
    Class = filename:join(DataDir, "always"),
    UId = todana_log_writer:uid(),
    try
        ok = todana_log_writer:write_config(Class),
        ok = todana_log_writer:write_wal(Class, 1, [
            {Index, 1, <<"data">>} || Index <- [1, 2]
        ]),
        Log = todana_log_writer:wal(Class, 1),
        {ok, Bytes} = file:read_file(Log),
        ok = file:write_file(Log, binary:part(Bytes, 0, byte_size(Bytes) - 1)),
        ok = file:write_file(filename:join(DataDir, "node"), [
            io_lib:format("~0p.~n", [Term])
         || Term <- [
                {format, 1}, {node, node()}, {uid, UId}, {seed, 1},
                {created_ms, 1}, {group, todana_0} | Terms
            ]
        ]),
        Check(DataDir, Class)
    after
        file:del_dir_r(DataDir)
    end.
