%% Terms as text: what is printed is read again, as the bytes of the same term,
%% and nothing that a client sends creates an atom or takes long.
-module(todana_term_text_tests).

-include_lib("eunit/include/eunit.hrl").

-define(BYTES(Term), todana_external:bytes(Term)).
-define(TERMS, 3_000).

examples_test_() ->
    [
        {Text, ?_assertEqual(
            {ok, ?BYTES(Term)},
            todana_term_text:key(unicode:characters_to_binary(Text))
        )}
     || {Text, Term} <- [
            {"{user,7}", {user, 7}},
            {" { user , 7 } ", {user, 7}},
            {"1", 1}, {"1.0", 1.0}, {"-0.0", -0.0}, {"-12", -12},
            {"1.5e3", 1500.0}, {"1.0e-3", 0.001}, {"1.0E+3", 1000.0},
            {"a", a}, {"'A b'", 'A b'}, {"'end'", 'end'}, {"''", ''},
            {"été@1_X", 'été@1_X'}, {"'Ā'", 'Ā'}, {"'a\\'b'", 'a\'b'},
            {"\"abc\"", "abc"}, {"[97,98|c]", [97, 98 | c]},
            {"[1,[2]|[3,4]]", [1, [2], 3, 4]}, {"[a|[b|c]]", [a, b | c]},
            {"\"Ā\\x{101}\\x01\\001\\n\\e\\\"\"",
                [256, 257, 1, 1, $\n, $\e, $"]},
            {"<<>>", ~""}, {"<<\"abc\">>", ~"abc"},
            {"<<1,2,3:4>>", <<1, 2, 3:4>>},
            {"<<\"ä\"/utf8>>", ~"ä"}, {"<<\"ä\">>", <<"ä">>},
            {"<<\"a\",0,\"b\">>", <<"a", 0, "b">>},
            {"[]", []}, {"{}", {}}, {"#{}", #{}},
            {"#{b=>1, a => #{1.0=>x,1=>y}}",
                #{a => #{1 => y, 1.0 => x}, b => 1}}
        ]
    ].

refused_test_() ->
    [
        {Text, ?_assertMatch(
            {error, Sentence} when is_binary(Sentence),
            todana_term_text:key(unicode:characters_to_binary(Text))
        )}
     || Text <- [
            "", " ", "{", "{user", "{user,", "{user,7", "{user 7}", "{user,7}}",
            "[", "[1|", "[1|]", "[|1]", "[1|2,3]", "#", "#{", "#{a}", "#{a=>}",
            "#{a=>1,a=>2}", "<<", "<<1", "<<256>>", "<<1:9>>", "<<1:0>>",
            "<<16:4>>", "<<\"Ā\">>", "<<a>>", "<0.1.0>", "#Ref<0.1.2.3>",
            "#Fun<a.1>", "A", "_", "1.", "1.e3", "1.0e999", "--1", "\"", "'",
            "\"\\q\"", "\"\\x{+1}\"", "\"\\x{-0}\"", "\"\\x+1\"",
            "'\\x-0'", "+1", "<<+1>>", "<<-0>>", "<<1:+8>>", "1.0e+-1",
            "\"\\x{110000}\"", "\"\\x{}\"", "'\\x{d800}'", "\"\\",
            "a b", "a.", "€", lists:duplicate(256, $a),
            lists:duplicate(2_000, $1)
        ]
    ].

hostile_test_() ->
    Long = fun(Text) -> binary:copy(Text, 1_000_000 div byte_size(Text)) end,
    [
        {timeout, 60, fun() ->
            ?assertMatch({error, _}, todana_term_text:key(Bytes))
        end}
     || Bytes <- [
            Long(~"{"), Long(~"["), Long(~"#{"), Long(~"[a|"), Long(~"\""),
            Long(~"<<"), Long(~"1"), <<255>>, <<"{user,", 200, "}">>,
            %% Within the length.
            binary:copy(~"{", 300_000), binary:copy(~"[a|", 100_000),
            binary:copy(~"#{", 150_000), binary:copy(~"1", 300_000),
            binary:copy(~"<<", 150_000),
            %% A bomb of zeroes.
            term_to_binary(binary:copy(<<0>>, 10_000_000), [compressed])
        ]
    ].

%% The external format of one term, and nothing else, also if this node does not
%% know its atoms.
bytes_of_one_term_test_() ->
    Unknown = <<119, 22, "no_such_atom_is_known_">>,
    Node = <<119, 24, "no_such_node_is@known_99">>,
    Terms = [
        <<104, 2, Unknown/binary, (part(7))/binary>>,
        <<105, 2:32, Unknown/binary, (part(-1 bsl 30))/binary>>,
        <<108, 2:32, Unknown/binary, (part(1.5))/binary, 106>>,
        <<108, 1:32, Unknown/binary, (part("abc"))/binary>>,
        <<116, 1:32, Unknown/binary, (part(~"abc"))/binary>>,
        <<104, 2, Unknown/binary, (part(<<1:3>>))/binary>>,
        <<104, 2, Unknown/binary, (part(1 bsl 90))/binary>>,
        <<104, 2, Unknown/binary, (part(1 bsl 9_000))/binary>>,
        <<104, 2, Unknown/binary, (part(fun lists:map/2))/binary>>,
        <<104, 2, Unknown/binary, (part(fun() -> Node end))/binary>>,
        <<104, 3, Unknown/binary, (part(self()))/binary,
          (part(make_ref()))/binary>>,
        <<118, 3:16, "\x{c4}\x{80}z">>, <<88, Node/binary, 0:96>>,
        <<120, Node/binary, 0:96>>, <<89, Node/binary, 0:64>>,
        <<90, 3:16, Node/binary, 0:128>>, <<114, 2:16, Node/binary, 0:72>>,
        <<103, Node/binary, 0:72>>, <<102, Node/binary, 0:40>>
    ],
    Known = [<<97, 1>>, part({a, [b]}), part(self())],
    [
        [
            ?_assertMatch({ok, _}, todana_term_text:key(<<131, Term/binary>>)),
            ?_assertEqual(
                {error, ~"more follows than one term"},
                todana_term_text:key(<<131, Term/binary, 106>>)
            ),
            ?_assertMatch(
                {error, _},
                todana_term_text:key(<<131, Term/binary, 131>>)
            ),
            ?_assertMatch({error, _}, todana_term_text:key(
                <<131, (binary:part(Term, 0, byte_size(Term) - 1))/binary>>
            ))
        ]
     || Term <- Terms ++ Known
    ] ++ [
        ?_assertEqual({error, ~"the external format is malformed"},
                      todana_term_text:key(Bytes))
     || Bytes <- [
            <<131>>, <<131, 255>>, <<131, 104, 255>>, <<131, 112, 3:32, 1>>,
            <<131, 108, 1:32, 106>>, <<131, 88, 106, 0:96>>,
            <<131, 109, 16#ffffffff:32>>, <<131, 105, 16#ffffffff:32>>
        ]
    ].

part(Term) ->
    <<131, Bytes/binary>> = ?BYTES(Term),
    Bytes.

no_atom_is_created_test() ->
    Key = fun(N) ->
        Number = integer_to_binary(N),
        <<"{no_such_atom_", Number/binary, ",'No such atom ",
          Number/binary, "'}">>
    end,
    {ok, _} = todana_term_text:key(Key(0)),
    Before = erlang:system_info(atom_count),
    Keys = [todana_term_text:key(Key(N)) || N <- lists:seq(1, 1_000)],
    %% The external format with such atoms is taken as it is.
    [{ok, Bytes} = todana_term_text:key(Bytes) || {ok, Bytes} <- Keys],
    ?assertEqual(Before, erlang:system_info(atom_count)),
    %% The bytes are those of the term.
    [{ok, Bytes} | _] = Keys,
    Term = binary_to_term(Bytes),
    ?assertEqual(Bytes, ?BYTES(Term)),
    ?assertEqual({no_such_atom_1, 'No such atom 1'}, Term).

%% Also if the order of its atoms is not that of their creation.
every_text_is_read_again_test_() ->
    {timeout, 120, fun() ->
        Seed = erlang:system_time(),
        _ = rand:seed(exsss, Seed),
        [again(Seed, random_term(6)) || _ <- lists:seq(1, ?TERMS)],
        [again(Seed, maps:from_list(random_pairs(3, 60)))
         || _ <- lists:seq(1, 100)]
    end}.

again(Seed, Term) ->
    case todana_term_text:text(Term) of
        {ok, Text} ->
            ?assertEqual(nomatch, binary:match(Text, ~"\n"), {Seed, Term}),
            ?assertEqual({ok, ?BYTES(Term)}, todana_term_text:key(Text),
                         {Seed, Text});
        none ->
            ?assert(erlang:external_size(Term) > 16#10000, {Seed, Term})
    end,
    ?assertEqual({ok, ?BYTES(Term)}, todana_term_text:key(
        term_to_binary(Term)
    )).

without_text_test() ->
    Deep = fun(Depth) ->
        lists:foldl(fun(_, T) -> {T} end, a, lists:seq(1, Depth))
    end,
    [
        ?assertEqual(none, todana_term_text:text(Term))
     || Term <- [
            self(), {user, self()}, [make_ref()], #{a => fun() -> ok end},
            #{self() => a}, [a | self()], Deep(257), 1 bsl 4_096,
            binary:copy(~"a", 16#10000), lists:duplicate(300_000, [])
        ]
    ],
    [
        begin
            {ok, Text} = todana_term_text:text(Term),
            ?assertEqual({ok, ?BYTES(Term)}, todana_term_text:key(Text))
        end
     || Term <- [
            Deep(256), 1 bsl 4_095, -(1 bsl 4_095), binary:copy(<<0>>, 65_000),
            lists:duplicate(65_000, 255), lists:duplicate(60_000, []),
            lists:duplicate(10_000, ~""), lists:duplicate(5_000, #{}),
            list_to_atom(lists:duplicate(255, 1)),
            list_to_atom(lists:duplicate(255, 16#10ffff))
        ]
    ],
    %% The external format is a name for those.
    ?assertEqual({ok, ?BYTES({user, self()})},
                 todana_term_text:key(term_to_binary({user, self()}))).

process_test() ->
    {Node, Text} = todana_term_text:process(self()),
    ?assertEqual(atom_to_binary(node()), Node),
    ?assertEqual(self(), list_to_pid(binary_to_list(Text))).

%% ---------------------------------------------------------------- random ----

random_term(0) ->
    random_leaf();
random_term(Depth) ->
    case rand:uniform(9) of
        1 -> list_to_tuple(random_terms(Depth));
        2 -> random_terms(Depth);
        3 -> random_terms(Depth) ++ random_leaf();
        4 -> maps:from_list(random_pairs(Depth, 4));
        5 -> [rand:uniform(256) - 1 || _ <- random_list()];
        _ -> random_leaf()
    end.

random_terms(Depth) -> [random_term(Depth - 1) || _ <- random_list()].

random_pairs(Depth, Most) ->
    [
        {random_term(Depth - 1), random_term(Depth - 1)}
     || _ <- lists:seq(1, rand:uniform(Most) - 1)
    ].

random_list() -> lists:seq(1, rand:uniform(5) - 1).

random_leaf() ->
    case rand:uniform(12) of
        1 -> rand:uniform(20) - 10;
        2 -> rand:uniform(1 bsl 34) - (1 bsl 33);
        3 -> (rand:uniform(1 bsl 80) - (1 bsl 79)) bsl rand:uniform(900);
        4 -> float(rand:uniform(20) - 10);
        5 -> random_float();
        6 -> list_to_atom([random_character() || _ <- random_list()]);
        7 -> random_name();
        8 -> rand:bytes(rand:uniform(5) - 1);
        9 -> <<(rand:uniform(1 bsl 12) - 1):(rand:uniform(12))>>;
        10 -> unicode:characters_to_binary([random_character()
                                            || _ <- random_list()]);
        11 -> [random_character() || _ <- random_list()];
        12 -> lists:nth(rand:uniform(6), [[], {}, #{}, -0.0, 0.0, ~""])
    end.

random_name() ->
    list_to_atom([$a + rand:uniform(3) - 1 || _ <- random_list()]).

random_float() ->
    case <<(rand:uniform(1 bsl 64) - 1):64>> of
        <<Float/float>> -> Float;
        _ -> random_float()
    end.

random_character() ->
    case lists:nth(rand:uniform(5), [32, 128, 256, 16#d800, 16#110000]) of
        16#110000 -> 16#e000 + rand:uniform(16#110000 - 16#e000) - 1;
        Below -> rand:uniform(Below) - 1
    end.

long_terms_are_not_printed_test() ->
    ?assertEqual(~"...", todana_term_text:shown(binary:copy(<<0>>, 1_000_000))),
    ?assertEqual(~"...", todana_term_text:shown(1 bsl 1_000_000)),
    ?assertEqual(none, todana_term_text:text(1 bsl 1_000_000)).
