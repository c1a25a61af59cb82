%% Kyoto Cabinet's names of databases: their meaning, and names that are
%% refused.
-module(todana_kyoto_database_tests).

-include_lib("eunit/include/eunit.hrl").

parsed(Text) ->
    {ok, Database} = todana_kyoto_database:parse(Text),
    Database.

refused(Text) ->
    {error, Sentence} = todana_kyoto_database:parse(Text),
    Sentence.

kind_test_() ->
    [
        ?_assertMatch({_, #{kind := Kind}}, {Text, parsed(Text)})
     || {Kind, Texts} <- [
            {proto_hash, ["-", "some/where/-", "a.kcph", ":#type=-",
                          "x#type=phash"]},
            {proto_tree, ["+", "a.kcpt", "x#type=+", "x#type=ptree"]},
            {stash, [":", "a.kcs", "a.kch.kcs", "x#type=stash"]},
            {cache_hash, ["*", "./*", "a.kcc", ":#type=*", "x#type=kcc"]},
            {cache_tree, ["%", "a.kcg", "x#type=grass", "a.kch#type=%"]},
            {file_hash, ["a.kch", "some/where/a.hdb", "x#type=hash"]},
            {file_tree, ["a.kct", "a.tdb", "x#type=tree", ":#type=kct"]}
        ],
        Text <- Texts
    ].

trees_are_ordered_test_() ->
    [
        ?_assertMatch({_, #{order := Order}}, {Text, parsed(Text)})
     || {Text, Order} <- [
            {"-", nil}, {":", nil}, {"*", nil},
            {"+", lexical}, {"%", lexical},
            {"%#rcomp=lex", lexical},
            {"%#rcomp=dec", decimal},
            {"+#rcomp=lexdesc", lexical_descending},
            {"%#rcomp=decdesc", decimal_descending},
            {"a.kch", nil}, {"a.kct", lexical},
            {"a.kct#rcomp=dec", decimal}
        ]
    ].

the_name_is_the_last_part_of_the_path_test() ->
    ?assertMatch(#{name := "b.kcs", text := "a/b.kcs#bnum=1#x"},
                 parsed("a/b.kcs#bnum=1#x")),
    ?assertMatch(#{name := "%"}, parsed("some/where/%#bnum=1")).

limits_test_() ->
    Native = fun(Text) -> todana_kyoto_database:native(parsed(Text)) end,
    [
        ?_assertEqual({Text, Expected}, {Text, Native(Text)})
     || {Text, Expected} <- [
            {":", {nil, nil, nil}},
            {"*#capcnt=100000", {nil, 100000, nil}},
            {"*#capsiz=64m", {nil, nil, 64 bsl 20}},
            {"*#capsiz=64mb", {nil, nil, 64 bsl 20}},
            {"*#capsiz=1KB#ktcapsiz=1Gb", {nil, nil, 1024}},
            {"*#capsiz=2tb", {nil, nil, 2 bsl 40}},
            {"*#capcnt=2K#capsiz=2G", {nil, 2048, 2 bsl 30}},
            {":#ktcapsiz=1p", {nil, nil, 1 bsl 50}},
            {":#ktcapsiz=7e", {nil, nil, 7 bsl 60}},
            {"*#capcnt=10#ktcapcnt=20#ktcapsiz=1k#capsiz=2k",
             {nil, 10, 1024}},
            {":#ktcapcount=3#ktcap_size=1g", {nil, 3, 1 bsl 30}},
            {"%#ktcapsize=2t", {lexical, nil, 2 bsl 40}},
            {"*#capcnt=0#capsiz=-1", {nil, nil, nil}},
            %% These limit only `*'.
            {":#capcnt=5#capsiz=5", {nil, nil, nil}}
        ]
    ].

persistent_test() ->
    ?assertMatch(#{persistent := true, ignored := []}, parsed(":#ktopts=p")),
    ?assertMatch(#{persistent := false}, parsed(":")),
    ?assertMatch(#{persistent := false, ignored := ["ktopts"]},
                 parsed(":#ktopts=x")).

setting_test() ->
    ?assertEqual(
        {~"*", 32, true, 7, nil, 5, 1024},
        todana_kyoto_database:setting(
            parsed("*#capcnt=5#capsiz=1k#ktcapcnt=7#ktopts=p")
        )
    ).

parameters_without_effect_are_named_without_values_test() ->
    Databases = [parsed(Text) || Text <- [
        ":#bnum=1m#zkey=secret#bnum=2#odd", "%", ":#capcnt=1#rcomp=dec"
    ]],
    [First, Second] = todana_kyoto_database:remarks(Databases),
    ?assertEqual(
        "database 0 (`:`): parameters without an effect: bnum, zkey, odd", First
    ),
    ?assertEqual(
        "database 2 (`:`): parameters without an effect: capcnt, rcomp", Second
    ).

%% Only requests and their expiry remove durable records.
limits_of_durable_databases_have_no_effect_test() ->
    Database = parsed("a.kch#ktcapcnt=5#ktcapsiz=1k#bnum=1m#zkey=secret"),
    ?assertEqual({nil, nil, nil}, todana_kyoto_database:native(Database)),
    ?assertMatch({~"a.kch", 48, false, nil, nil, nil, nil},
                 todana_kyoto_database:setting(Database)),
    ?assertEqual(
        ["database 0 (`a.kch`): parameters without an effect: ktcapcnt, "
         "ktcapsiz, bnum, zkey; the records on disk are not encrypted"],
        todana_kyoto_database:remarks([Database])
    ).

databases_that_are_not_named_are_durable_test() ->
    {ok, Databases} = todana_kyoto_database:parse_all([":", "a.kct", "%"]),
    ?assertEqual(
        [false, true, false | lists:duplicate(13, true)],
        todana_kyoto_database:durable_numbers(Databases)
    ).

refused_test_() ->
    [
        ?_assertMatch(
            {_, _, [_ | _]}, {Text, Named, string:find(Sentence, Named)}
        )
     || {Text, Words} <- [
            {"foo", ["`foo`", "kind"]},
            {"foo.xyz", ["`foo.xyz`", "kind"]},
            {"", ["kind"]},
            {"stash", ["kind"]}, {"a.grass", ["kind"]},
            {"x#type=what", ["x#type=what", "kind"]},
            {"a.kcd", ["`a.kcd`", "files", ".kch", ".kct"]},
            {"a.kcf", ["files"]}, {"a.kcx", ["files"]}, {"a.txt", ["files"]},
            {"a.tsv", ["files"]}, {"a.csv", ["files"]},
            {":#type=forest", ["files"]},
            {"a.kch#ktcapcnt=x", ["ktcapcnt is `x`"]},
            {"*#capcnt=x", ["`*#capcnt=x`", "capcnt is `x`"]},
            {"*#capcnt=", ["capcnt"]},
            {"*#capsiz=1z", ["capsiz"]}, {"*#capsiz=1b", ["capsiz"]},
            {"*#capsiz=1mbb", ["capsiz"]},
            {":#ktcapcnt=1.5", ["ktcapcnt"]},
            {":#ktcapsiz=9999999999999t", ["ktcapsiz", "2^63"]},
            {":#ktcapsiz=8e", ["ktcapsiz", "2^63"]},
            {":#ktcapsiz=9999999999999999999", ["ktcapsiz"]},
            {"%#rcomp=up", ["rcomp is `up`"]}
        ],
        Sentence <- [refused(Text)],
        Named <- Words
    ].

there_are_at_most_sixteen_databases_test() ->
    Names = fun(N) -> lists:duplicate(N, ":") end,
    {ok, Databases} = todana_kyoto_database:parse_all(Names(16)),
    ?assertEqual(16, length(Databases)),
    {error, Sentence} = todana_kyoto_database:parse_all(Names(17)),
    ?assertMatch([_ | _], string:find(Sentence, "at most 16")),
    ?assertMatch({error, _}, todana_kyoto_database:parse_all([])).

databases_keep_their_order_test() ->
    {ok, Databases} = todana_kyoto_database:parse_all([":", "%", ":"]),
    ?assertEqual([":", "%", ":"], [Name || #{name := Name} <- Databases]).
