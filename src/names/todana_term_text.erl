%% Terms as text that clients in other languages write and read: Erlang's syntax
%% on one line, for numbers, atoms, binaries, lists, tuples and maps.
%%
%% A text becomes the bytes of the term in the external format, never the term:
%% so no client creates atoms, and a name is found also at a node that does not
%% know its atoms. The bytes are those of `todana_external'.
%%
%% Terms without text, such as pids, are given in the external format itself,
%% whose first byte begins no text.
-module(todana_term_text).
-moduledoc false.

-export([key/1, text/1, shown/1, process/1]).

-export_type([encoded/0]).

%% In the external format.
-type encoded() :: binary().
%% A term that was read: an atom is its name.
-type tree() ::
    integer() | float() | bitstring() | {atom, binary()} | {tuple, [tree()]}
    | {list, [tree()], Tail :: tree() | nil} | {map, [{tree(), tree()}]}.

-define(VERSION, 131).
-define(COMPRESSED, 80).
%% Of a term with a text, in the external format.
-define(BYTES_MAX, 16#10000).
%% Of a text: five times as many. One byte of a binary takes four at most, and
%% the empty list three for one.
-define(TEXT_MAX, 5 * ?BYTES_MAX).
%% Terms in terms.
-define(DEPTH_MAX, 256).
%% Larger numbers take long to convert.
-define(BITS_MAX, 4_096).
-define(DIGITS_MAX, 1_240).
-define(ATOM_MAX, 255).

-define(IS_SPACE(C), C =:= $\s; C =:= $\t; C =:= $\n; C =:= $\r).
-define(IS_DIGIT(C), C >= $0, C =< $9).
-define(IS_LOWER(C),
    C >= $a, C =< $z; C >= $\x{df}, C =< $\x{ff}, C =/= $\x{f7}
).
-define(IS_IN_ATOM(C),
    C >= $a, C =< $z; C >= $A, C =< $Z; C >= $0, C =< $9; C =:= $_; C =:= $@;
    C >= $\x{c0}, C =< $\x{ff}, C =/= $\x{d7}, C =/= $\x{f7}
).

-doc """
The term of a text, or of bytes in the external format, as the bytes that the
records have.
""".
-spec key(binary()) -> {ok, encoded()} | {error, Sentence :: binary()}.
key(<<?VERSION, ?COMPRESSED, _/binary>>) ->
    {error, ~"the external format must not be compressed"};
key(<<?VERSION, _/binary>> = Bytes) when byte_size(Bytes) > ?TEXT_MAX ->
    too_long();
key(<<?VERSION, _/binary>> = Bytes) ->
    try binary_to_term(Bytes, [safe, used]) of
        {Term, Used} when Used =:= byte_size(Bytes) ->
            {ok, todana_external:bytes(Term)};
        {_Term, _Used} -> too_much()
    catch
        %% Of a term whose atoms this node does not know, the bytes may be
        %% right as they are.
        error:badarg -> unknown(Bytes)
    end;
key(Text) when byte_size(Text) > ?TEXT_MAX ->
    too_long();
key(Text) ->
    case is_list(unicode:characters_to_list(Text)) of
        true ->
            try
                {Tree, Rest} = term(skip(Text), 0),
                case skip(Rest) of
                    ~"" -> {ok, iolist_to_binary([?VERSION, bytes(Tree)])};
                    _ -> too_much()
                end
            catch
                throw:{bad, Sentence} -> {error, Sentence}
            end;
        false ->
            {error, ~"the term is not UTF-8"}
    end.

-spec too_long() -> {error, binary()}.
too_long() -> {error, ~"the term is too long"}.

-spec too_much() -> {error, binary()}.
too_much() -> {error, ~"more follows than one term"}.

-spec bad(binary()) -> no_return().
bad(Sentence) -> throw({bad, Sentence}).

-doc "The text of a term; `none` if it has none.".
-spec text(term()) -> {ok, binary()} | none.
text(Term) ->
    case erlang:external_size(Term) =< ?BYTES_MAX andalso has_text(Term, 0) of
        true -> {ok, shown(Term)};
        false -> none
    end.

-doc "A term for people, as this node prints it; `...` if it is long.".
-spec shown(term()) -> binary().
shown(Term) ->
    case erlang:external_size(Term) =< ?BYTES_MAX of
        true -> unicode:characters_to_binary(io_lib:format("~0tp", [Term]));
        false -> ~"..."
    end.

-doc "The node of a process, and its pid as that node prints it.".
-spec process(pid()) -> {Node :: binary(), binary()}.
process(Pid) ->
    [_Here, Rest] = string:split(pid_to_list(Pid), "."),
    {atom_to_binary(node(Pid)), list_to_binary(["<0.", Rest])}.

-spec has_text(term(), non_neg_integer()) -> boolean().
has_text(_Term, Depth) when Depth > ?DEPTH_MAX ->
    false;
has_text(Term, _Depth) when is_integer(Term) ->
    abs(Term) < 1 bsl ?BITS_MAX;
has_text([Head | Tail], Depth) when is_list(Tail) ->
    has_text(Head, Depth + 1) andalso has_text(Tail, Depth);
has_text([Head | Tail], Depth) ->
    has_text(Head, Depth + 1) andalso has_text(Tail, Depth + 1);
has_text(Term, Depth) when is_tuple(Term) ->
    has_texts(tuple_to_list(Term), Depth + 1);
has_text(Term, Depth) when is_map(Term) ->
    has_texts(maps:keys(Term), Depth + 1) andalso
        has_texts(maps:values(Term), Depth + 1);
has_text(Term, _Depth) ->
    is_atom(Term) orelse is_bitstring(Term) orelse is_float(Term) orelse
        Term =:= [].

-spec has_texts([term()], pos_integer()) -> boolean().
has_texts(Terms, Depth) ->
    lists:all(fun(Term) -> has_text(Term, Depth) end, Terms).

%% ------------------------------------------------------------------ text ----

-spec term(binary(), non_neg_integer()) -> {tree(), Rest :: binary()}.
term(_Text, Depth) when Depth > ?DEPTH_MAX ->
    bad(~"the term is too deep");
term(<<"{", Text/binary>>, Depth) ->
    {Elements, Rest} = terms(skip(Text), $}, Depth + 1),
    {{tuple, Elements}, Rest};
term(<<"[", Text/binary>>, Depth) ->
    list(skip(Text), Depth);
term(<<"#{", Text/binary>>, Depth) ->
    {Pairs, Rest} = pairs(skip(Text), Depth + 1),
    {{map, Pairs}, Rest};
term(<<"<<", Text/binary>>, _Depth) ->
    segments(skip(Text), []);
term(<<"\"", Text/binary>>, _Depth) ->
    {Characters, Rest} = characters(Text, $", []),
    {{list, Characters, nil}, Rest};
term(<<"'", Text/binary>>, _Depth) ->
    {Characters, Rest} = characters(Text, $', []),
    {atom(Characters), Rest};
term(<<"-", C, _/binary>> = Text, _Depth) when ?IS_DIGIT(C) ->
    number(Text, 1);
term(<<C, _/binary>> = Text, _Depth) when ?IS_DIGIT(C) ->
    number(Text, 0);
term(<<C/utf8, _/binary>> = Text, _Depth) when ?IS_LOWER(C) ->
    {Characters, Rest} = word(Text, []),
    {atom(Characters), Rest};
term(<<>>, _Depth) ->
    bad(~"the term is not complete");
term(<<"<", _/binary>>, _Depth) ->
    no_text();
term(<<"#", _/binary>>, _Depth) ->
    no_text();
term(<<C/utf8, _/binary>>, _Depth) ->
    bad(<<"the term has an unexpected character: ", C/utf8>>).

-spec no_text() -> no_return().
no_text() ->
    bad(<<
        "a term with a pid, a port, a reference or a function has no text: "
        "use its external format"
    >>).

-spec skip(binary()) -> binary().
skip(<<C, Rest/binary>>) when ?IS_SPACE(C) -> skip(Rest);
skip(Text) -> Text.

%% Terms with commas between them, up to a character.
-spec terms(binary(), char(), pos_integer()) -> {[tree()], binary()}.
terms(<<End, Rest/binary>>, End, _Depth) -> {[], Rest};
terms(Text, End, Depth) -> terms(Text, End, Depth, []).

-spec terms(binary(), char(), pos_integer(), [tree()]) -> {[tree()], binary()}.
terms(Text, End, Depth, Before) ->
    {Term, Rest} = term(Text, Depth),
    case skip(Rest) of
        <<",", More/binary>> -> terms(skip(More), End, Depth, [Term | Before]);
        <<End, More/binary>> -> {lists:reverse(Before, [Term]), More};
        Other -> unexpected(Other)
    end.

-spec unexpected(binary()) -> no_return().
unexpected(<<>>) -> bad(~"the term is not complete");
unexpected(_Text) -> bad(~"a comma or an end is missing in the term").

-spec list(binary(), non_neg_integer()) -> {tree(), binary()}.
list(<<"]", Rest/binary>>, _Depth) -> {{list, [], nil}, Rest};
list(Text, Depth) -> list(Text, Depth, []).

-spec list(binary(), non_neg_integer(), [tree()]) -> {tree(), binary()}.
list(Text, Depth, Before) ->
    {Term, Rest} = term(Text, Depth + 1),
    Elements = [Term | Before],
    case skip(Rest) of
        <<",", More/binary>> ->
            list(skip(More), Depth, Elements);
        <<"]", More/binary>> ->
            {{list, lists:reverse(Elements), nil}, More};
        <<"|", More/binary>> ->
            {Tail, After} = term(skip(More), Depth + 1),
            case skip(After) of
                <<"]", Last/binary>> -> {with_tail(Elements, Tail), Last};
                Other -> unexpected(Other)
            end;
        Other ->
            unexpected(Other)
    end.

-spec with_tail([tree(), ...], tree()) -> tree().
with_tail(Reversed, {list, More, Tail}) ->
    {list, lists:reverse(Reversed, More), Tail};
with_tail(Reversed, Tail) ->
    {list, lists:reverse(Reversed), Tail}.

-spec pairs(binary(), pos_integer()) -> {[{tree(), tree()}], binary()}.
pairs(<<"}", Rest/binary>>, _Depth) -> {[], Rest};
pairs(Text, Depth) -> pairs(Text, Depth, []).

-spec pairs(binary(), pos_integer(), [{tree(), tree()}]) ->
    {[{tree(), tree()}], binary()}.
pairs(Text, Depth, Before) ->
    {Key, Rest} = term(Text, Depth),
    case skip(Rest) of
        <<"=>", More/binary>> ->
            {Value, After} = term(skip(More), Depth),
            Pairs = [{Key, Value} | Before],
            case skip(After) of
                <<",", Next/binary>> -> pairs(skip(Next), Depth, Pairs);
                <<"}", Last/binary>> -> {Pairs, Last};
                Other -> unexpected(Other)
            end;
        _ ->
            bad(~"a map has keys and values with => between them")
    end.

-spec segments(binary(), [bitstring()]) -> {bitstring(), binary()}.
segments(<<">>", Rest/binary>>, []) ->
    {~"", Rest};
segments(Text, Before) ->
    {Bits, Rest} = segment(Text),
    All = [Bits | Before],
    case skip(Rest) of
        <<",", More/binary>> -> segments(skip(More), All);
        <<">>", More/binary>> -> {joined(lists:reverse(All)), More};
        Other -> unexpected(Other)
    end.

-spec joined([bitstring()]) -> bitstring().
joined(Parts) -> << <<Part/bitstring>> || Part <- Parts >>.

-spec segment(binary()) -> {bitstring(), binary()}.
segment(<<"\"", Text/binary>>) ->
    case characters(Text, $", []) of
        {Characters, <<"/utf8", Rest/binary>>} ->
            {utf8(Characters), Rest};
        {Characters, Rest} ->
            lists:all(fun(C) -> C =< 255 end, Characters) orelse
                bad(~"a character of a binary is no byte: use /utf8"),
            {list_to_binary(Characters), Rest}
    end;
segment(<<C, _/binary>> = Text) when ?IS_DIGIT(C) ->
    {Number, Rest} = number(Text, 0),
    {Size, More} = bits(Rest),
    is_integer(Number) andalso Number < 1 bsl Size orelse
        bad(~"a number of a binary is too large"),
    {<<Number:Size>>, More};
segment(Text) ->
    unexpected(Text).

%% In bits.
-spec bits(binary()) -> {1..8, binary()}.
bits(<<":", C, Rest/binary>>) when C >= $1, C =< $8 -> {C - $0, Rest};
bits(<<":", _/binary>>) -> bad(~"a part of a binary has one to eight bits");
bits(Rest) -> {8, Rest}.

-spec utf8([char()]) -> binary().
utf8(Characters) ->
    case unicode:characters_to_binary(Characters) of
        Bytes when is_binary(Bytes) -> Bytes;
        _ -> bad(~"a character does not exist in UTF-8")
    end.

-spec atom([char()]) -> tree().
atom(Characters) when length(Characters) > ?ATOM_MAX ->
    bad(~"an atom has 255 characters at most");
atom(Characters) ->
    {atom, utf8(Characters)}.

-spec word(binary(), [char()]) -> {[char()], binary()}.
word(<<C/utf8, Rest/binary>>, Before) when ?IS_IN_ATOM(C) ->
    word(Rest, [C | Before]);
word(Rest, Before) ->
    {lists:reverse(Before), Rest}.

%% Up to a quotation mark.
-spec characters(binary(), char(), [char()]) -> {[char()], binary()}.
characters(<<End, Rest/binary>>, End, Before) ->
    {lists:reverse(Before), Rest};
characters(<<"\\", Text/binary>>, End, Before) ->
    {C, Rest} = escaped(Text),
    characters(Rest, End, [C | Before]);
characters(<<C/utf8, Rest/binary>>, End, Before) ->
    characters(Rest, End, [C | Before]);
characters(<<>>, _End, _Before) ->
    bad(~"a quotation mark is missing").

-spec escaped(binary()) -> {char(), binary()}.
escaped(<<"x{", Text/binary>>) ->
    case binary:split(binary:part(Text, 0, min(8, byte_size(Text))), ~"}") of
        [Digits, _] ->
            Length = byte_size(Digits) + 1,
            <<_:Length/binary, Rest/binary>> = Text,
            {code(Digits, 16), Rest};
        _ ->
            bad_escape()
    end;
escaped(<<"x", Digits:2/binary, Rest/binary>>) ->
    {code(Digits, 16), Rest};
escaped(<<A, B, C, Rest/binary>>) when
    A >= $0, A =< $3, B >= $0, B =< $7, C >= $0, C =< $7
->
    {code(<<A, B, C>>, 8), Rest};
escaped(<<C/utf8, Rest/binary>>) ->
    case C of
        $n -> {$\n, Rest};
        $t -> {$\t, Rest};
        $r -> {$\r, Rest};
        $v -> {$\v, Rest};
        $b -> {$\b, Rest};
        $f -> {$\f, Rest};
        $e -> {$\e, Rest};
        $s -> {$\s, Rest};
        $d -> {$\d, Rest};
        _ when C =:= $\\; C =:= $"; C =:= $' -> {C, Rest};
        _ -> bad_escape()
    end;
escaped(<<>>) ->
    bad_escape().

-spec code(binary(), 8 | 16) -> char().
code(Digits, Base) ->
    try binary_to_integer(Digits, Base) of
        Code when Code =< 16#10ffff, binary_part(Digits, 0, 1) =/= ~"-",
            binary_part(Digits, 0, 1) =/= ~"+"
        ->
            Code;
        _ ->
            bad_escape()
    catch
        error:badarg -> bad_escape()
    end.

-spec bad_escape() -> no_return().
bad_escape() -> bad(~"a text has an unknown escape behind \\").

%% With this number of characters before the digits.
-spec number(binary(), 0 | 1) -> {number(), binary()}.
number(Text, Sign) ->
    Whole = Sign + digits(Text, Sign),
    case Text of
        <<_:Whole/binary, ".", C, _/binary>> when ?IS_DIGIT(C) ->
            Fraction = Whole + 1 + digits(Text, Whole + 1),
            Length = Fraction + exponent(Text, Fraction),
            convert(Text, Length, fun binary_to_float/1);
        _ ->
            convert(Text, Whole, fun binary_to_integer/1)
    end.

-spec convert(binary(), pos_integer(), fun((binary()) -> Number)) ->
    {Number, binary()} when Number :: number().
convert(_Text, Length, _Convert) when Length > ?DIGITS_MAX ->
    bad(~"a number is too long");
convert(Text, Length, Convert) ->
    <<Number:Length/binary, Rest/binary>> = Text,
    try
        {Convert(Number), Rest}
    catch
        error:badarg -> bad(~"a number is too large")
    end.

-spec digits(binary(), non_neg_integer()) -> non_neg_integer().
digits(Text, From) ->
    <<_:From/binary, Rest/binary>> = Text,
    leading_digits(Rest, 0).

-spec leading_digits(binary(), non_neg_integer()) -> non_neg_integer().
leading_digits(<<C, Rest/binary>>, Count) when ?IS_DIGIT(C) ->
    leading_digits(Rest, Count + 1);
leading_digits(_Rest, Count) ->
    Count.

-spec exponent(binary(), pos_integer()) -> non_neg_integer().
exponent(Text, From) ->
    case Text of
        <<_:From/binary, E, Sign, C, _/binary>> when
            (E =:= $e orelse E =:= $E),
            (Sign =:= $- orelse Sign =:= $+), ?IS_DIGIT(C)
        ->
            2 + digits(Text, From + 2);
        <<_:From/binary, E, C, _/binary>> when
            (E =:= $e orelse E =:= $E), ?IS_DIGIT(C)
        ->
            1 + digits(Text, From + 1);
        _ ->
            0
    end.

%% ------------------------------------------------------- external format ----

-spec unknown(encoded()) -> {ok, encoded()} | {error, Sentence :: binary()}.
unknown(<<?VERSION, Terms/binary>> = Bytes) ->
    case behind(Terms, 1) of
        ~"" -> {ok, Bytes};
        malformed -> {error, ~"the external format is malformed"};
        _ -> too_much()
    end.

%% The bytes behind this number of terms, which are not made.
-spec behind(binary(), non_neg_integer()) -> binary() | malformed.
behind(Rest, 0) -> Rest;
behind(<<97, _, Rest/binary>>, Left) -> behind(Rest, Left - 1);
behind(<<98, _:32, Rest/binary>>, Left) -> behind(Rest, Left - 1);
behind(<<70, _:64, Rest/binary>>, Left) -> behind(Rest, Left - 1);
behind(<<99, _:31/binary, Rest/binary>>, Left) -> behind(Rest, Left - 1);
behind(<<110, N, _, _:N/binary, Rest/binary>>, Left) -> behind(Rest, Left - 1);
behind(<<111, N:32, _, _:N/binary, Rest/binary>>, Left) ->
    behind(Rest, Left - 1);
behind(<<106, Rest/binary>>, Left) -> behind(Rest, Left - 1);
behind(<<107, N:16, _:N/binary, Rest/binary>>, Left) -> behind(Rest, Left - 1);
behind(<<109, N:32, _:N/binary, Rest/binary>>, Left) -> behind(Rest, Left - 1);
behind(<<77, N:32, _, _:N/binary, Rest/binary>>, Left) ->
    behind(Rest, Left - 1);
behind(<<104, N, Rest/binary>>, Left) -> behind(Rest, Left - 1 + N);
behind(<<105, N:32, Rest/binary>>, Left) -> behind(Rest, Left - 1 + N);
%% With the tail.
behind(<<108, N:32, Rest/binary>>, Left) -> behind(Rest, Left + N);
behind(<<116, N:32, Rest/binary>>, Left) -> behind(Rest, Left - 1 + 2 * N);
%% A fun: of a module, or with the number of its bytes.
behind(<<113, Rest/binary>>, Left) -> behind(Rest, Left + 2);
behind(<<112, N:32, More/binary>>, Left) when N >= 4 ->
    behind_bytes(More, N - 4, Left);
%% Pids, ports and references: a node, and bytes.
behind(<<88, Rest/binary>>, Left) -> behind_node(Rest, 12, Left);
behind(<<103, Rest/binary>>, Left) -> behind_node(Rest, 9, Left);
behind(<<120, Rest/binary>>, Left) -> behind_node(Rest, 12, Left);
behind(<<89, Rest/binary>>, Left) -> behind_node(Rest, 8, Left);
behind(<<102, Rest/binary>>, Left) -> behind_node(Rest, 5, Left);
behind(<<90, N:16, Rest/binary>>, Left) -> behind_node(Rest, 4 + 4 * N, Left);
behind(<<114, N:16, Rest/binary>>, Left) -> behind_node(Rest, 1 + 4 * N, Left);
behind(Terms, Left) ->
    case behind_atom(Terms) of
        malformed -> malformed;
        Rest -> behind(Rest, Left - 1)
    end.

-spec behind_atom(binary()) -> binary() | malformed.
behind_atom(<<119, N, _:N/binary, Rest/binary>>) -> Rest;
behind_atom(<<118, N:16, _:N/binary, Rest/binary>>) -> Rest;
behind_atom(<<115, N, _:N/binary, Rest/binary>>) -> Rest;
behind_atom(<<100, N:16, _:N/binary, Rest/binary>>) -> Rest;
behind_atom(_Bytes) -> malformed.

-spec behind_node(binary(), pos_integer(), pos_integer()) ->
    binary() | malformed.
behind_node(Terms, Bytes, Left) ->
    case behind_atom(Terms) of
        malformed -> malformed;
        Rest -> behind_bytes(Rest, Bytes, Left)
    end.

-spec behind_bytes(binary(), non_neg_integer(), pos_integer()) ->
    binary() | malformed.
behind_bytes(Bytes, Count, Left) ->
    case Bytes of
        <<_:Count/binary, Rest/binary>> -> behind(Rest, Left - 1);
        _ -> malformed
    end.

%% As `todana_external' has them, without the version.
-spec bytes(tree()) -> iodata().
bytes({atom, Name}) when byte_size(Name) < 256 ->
    [119, byte_size(Name), Name];
bytes({atom, Name}) ->
    [118, <<(byte_size(Name)):16>>, Name];
bytes({tuple, Elements}) ->
    todana_external:tuple([bytes(Element) || Element <- Elements]);
bytes({list, [], nil}) ->
    todana_external:nil();
bytes({list, Elements, Tail}) ->
    End = if Tail =:= nil -> todana_external:nil(); true -> bytes(Tail) end,
    todana_external:list(Elements, fun bytes/1, End);
bytes({map, Pairs}) ->
    Ordered = lists:sort(keys_in_order(Pairs)),
    is_unique(Ordered) orelse bad(~"a map has a key twice"),
    todana_external:map([{Key, bytes(Value)} || {_, Key, Value} <- Ordered]);
bytes(Leaf) ->
    <<?VERSION, Bytes/binary>> = todana_external:bytes(Leaf),
    Bytes.

%% Each key's place in the order and its bytes, with its value.
-spec keys_in_order([{tree(), tree()}]) -> [{term(), binary(), tree()}].
keys_in_order(Pairs) ->
    Encoded = [
        {Key, iolist_to_binary(bytes(Key)), Value}
     || {Key, Value} <- Pairs
    ],
    case lists:any(fun({Key, _Value}) -> has_map(Key) end, Pairs) of
        false -> [{order(Key), Bytes, Value} || {Key, Bytes, Value} <- Encoded];
        true -> [{Bytes, Bytes, Value} || {_Key, Bytes, Value} <- Encoded]
    end.

-spec has_map(tree() | nil) -> boolean().
has_map({map, _Pairs}) -> true;
has_map({tuple, Elements}) -> lists:any(fun has_map/1, Elements);
has_map({list, Elements, Tail}) -> lists:any(fun has_map/1, [Tail | Elements]);
has_map(_Leaf) -> false.

-spec is_unique([{term(), binary(), tree()}]) -> boolean().
is_unique([{_, Key, _}, {_, Key, _} | _]) -> false;
is_unique([_ | Rest]) -> is_unique(Rest);
is_unique([]) -> true.

%% Keys without maps are encoded in the order of these terms, which is that of
%% the keys: all integers before all floats, and atoms by their names.
-spec order(tree()) -> {0..6, term()}.
order(Number) when is_integer(Number) ->
    {0, Number};
order(Number) when is_float(Number) ->
    %% The negative zero first.
    <<Sign:1, _:63>> = <<Number/float>>,
    {1, {Number, -Sign}};
order({atom, Name}) ->
    {2, Name};
order({tuple, Elements}) ->
    {3, {length(Elements), [order(Element) || Element <- Elements]}};
order({list, [], nil}) ->
    {4, nil};
order({list, Elements, Tail}) ->
    End = if Tail =:= nil -> {4, nil}; true -> order(Tail) end,
    %% An element comes behind each other end.
    {5, [{5, order(Element)} || Element <- Elements] ++ [End]};
order(Bits) when is_bitstring(Bits) ->
    {6, Bits}.
