%% The types of options: converts text to values and values to text.
-module(todana_option_type).
-moduledoc false.

-export([parse/2, format/2, describe/1, is_text/2]).
-export([is_node_name/1]).

-doc """
Parses the value of an option. An `error` describes the expected form; `refused`
has a complete sentence, which quotes the text.
""".
-spec parse(todana_options:type(), string()) ->
    {ok, term()} | {error, string()} | {refused, string()}.
parse(databases, Text) ->
    case todana_kyoto_database:parse_all(string:lexemes(Text, " \t")) of
        {ok, _} = Ok -> Ok;
        {error, Sentence} -> {refused, Sentence}
    end;
parse(Type, Text) ->
    case value(Type, string:trim(Text)) of
        {ok, _} = Ok -> Ok;
        error -> {error, describe(Type)}
    end.

-doc """
Whether the text of this term of the application's environment may stand for it.
A path is a string: every other term has a text, which would become the name of
a file.
""".
-spec is_text(todana_options:type(), term()) -> boolean().
is_text(Type, Value) when Type =:= file; Type =:= directory ->
    Value =:= off orelse is_binary(Value) orelse
        io_lib:char_list(Value);
is_text({file, Word}, Value) ->
    Value =:= Word orelse is_text(file, Value);
is_text(_Type, _Value) ->
    true.

-spec value(todana_options:type(), string()) -> {ok, term()} | error.
value(addresses, "off") ->
    {ok, []};
value(addresses, Text) ->
    Addresses = [address(string:trim(A)) || A <- string:split(Text, ",", all)],
    case lists:member(error, Addresses) of
        true -> error;
        false -> {ok, [Address || {ok, Address} <- Addresses]}
    end;
value({addresses, Word}, Text) ->
    maybe
        {ok, Addresses} ?= or_word(Word, Text, addresses),
        true ?= is_atom(Addresses) orelse lists:all(fun is_plain/1, Addresses),
        {ok, Addresses}
    else
        _ -> error
    end;
value(Names, "off") when Names =:= hosts; Names =:= origins ->
    {ok, []};
value(hosts, Text) ->
    all_match("^(\\*|[a-z0-9_.-]+(:[0-9]+)?)$", names(Text));
value(origins, Text) ->
    all_match("^(\\*|[a-z][a-z0-9+.-]*://[^/]+)$", names(Text));
value(name, "off") ->
    {ok, off};
value(name, Text) ->
    case re:run(Text, "^[A-Za-z0-9._:-]+$", [dollar_endonly]) of
        {match, _} -> {ok, Text};
        nomatch -> error
    end;
value(node, "off") ->
    {ok, off};
value(node, Text) ->
    case is_node_name(Text) of
        true -> {ok, list_to_atom(Text)};
        false -> error
    end;
value(nodes, "off") ->
    {ok, off};
value(nodes, Text) ->
    Nodes = [string:trim(Name) || Name <- string:split(Text, ",", all)],
    case lists:all(fun is_node_name/1, Nodes) of
        true -> {ok, [list_to_atom(Name) || Name <- Nodes]};
        false -> error
    end;
value({file, Word}, Text) ->
    or_word(Word, Text, file);
value(Path, "off") when Path =:= file; Path =:= directory ->
    {ok, off};
value(Path, "") when Path =:= file; Path =:= directory ->
    error;
%% The system takes the zero as the end of the path.
value(Path, Text) when Path =:= file; Path =:= directory ->
    case lists:member(0, Text) of
        true -> error;
        false -> {ok, Text}
    end;
value({integer, Min, Max, Without}, Text) ->
    or_word(Without, Text, {integer, Min, Max});
value({bytes, Min, Max, Without}, Text) ->
    or_word(Without, Text, {bytes, Min, Max});
value({integer, Min, Max}, Text) ->
    within(Min, Max, digits(Text));
value({bytes, Min, Max}, Text) ->
    {Number, Unit} = string:take(Text, "0123456789"),
    Factors = #{
        "" => 1,
        "b" => 1,
        "k" => 1 bsl 10,
        "kb" => 1 bsl 10,
        "m" => 1 bsl 20,
        "mb" => 1 bsl 20,
        "g" => 1 bsl 30,
        "gb" => 1 bsl 30,
        "t" => 1 bsl 40,
        "tb" => 1 bsl 40
    },
    case {digits(Number), Factors} of
        {{ok, N}, #{Unit := Factor}} -> within(Min, Max, {ok, N * Factor});
        _ -> error
    end;
value({choice, Words}, Text) ->
    case [Word || Word <- Words, atom_to_list(Word) =:= Text] of
        [Word] -> {ok, Word};
        [] -> error
    end.

%% In lower case, because names are compared without regard to case.
-spec names(string()) -> [string()].
names(Text) ->
    [
        string:lowercase(string:trim(Name))
     || Name <- string:split(Text, ",", all)
    ].

-spec all_match(string(), [string()]) -> {ok, [string()]} | error.
all_match(Pattern, Names) ->
    IsGood = fun(Name) ->
        re:run(Name, Pattern, [unicode, dollar_endonly]) =/= nomatch andalso
            string:find(Name, " ") =:= nomatch
    end,
    case lists:all(IsGood, Names) of
        true -> {ok, Names};
        false -> error
    end.

-spec or_word(off | auto, string(), todana_options:type()) ->
    {ok, term()} | error.
or_word(Word, Text, Type) ->
    case atom_to_list(Word) of
        Text -> {ok, Word};
        _ -> value(Type, Text)
    end.

%% At most 18 digits, which is more than any option accepts.
-spec digits(string()) -> {ok, non_neg_integer()} | error.
digits(Text) ->
    case string:take(Text, "0123456789") of
        {[_ | _] = Digits, ""} when length(Digits) =< 18 ->
            {ok, list_to_integer(Digits)};
        _ ->
            error
    end.

-spec within(integer(), integer(), {ok, integer()} | error) ->
    {ok, integer()} | error.
within(Min, Max, {ok, N}) when N >= Min, N =< Max -> {ok, N};
within(_Min, _Max, _) -> error.

%% Without a level of reads.
-spec is_plain(todana_options:address()) -> boolean().
is_plain(Address) -> tuple_size(Address) =:= 2.

-spec address(string()) -> {ok, todana_options:address()} | error.
address(Text) ->
    case string:split(Text, "?read=") of
        [Plain] ->
            plain_address(Plain);
        [Plain, Word] ->
            maybe
                {ok, {Ip, Port}} ?= plain_address(Plain),
                {ok, Level} ?= value({choice, [local, bounded, linear]}, Word),
                {ok, {Ip, Port, Level}}
            end
    end.

-spec plain_address(string()) -> {ok, {inet:ip_address(), 0..65535}} | error.
plain_address("[" ++ Rest) ->
    case string:split(Rest, "]:") of
        [Ip, Port] -> address(Ip, Port);
        _ -> error
    end;
plain_address(Text) ->
    case string:split(Text, ":", all) of
        ["localhost", Port] -> address("127.0.0.1", Port);
        [Ip, Port] -> address(Ip, Port);
        _ -> error
    end.

-spec address(string(), string()) ->
    {ok, {inet:ip_address(), 0..65535}} | error.
address(Ip, Port) ->
    case {inet:parse_strict_address(Ip), within(0, 65535, digits(Port))} of
        {{ok, Address}, {ok, Number}} -> {ok, {Address, Number}};
        _ -> error
    end.

-doc "A value in the notation of the configuration file.".
-spec format(todana_options:type(), term()) -> string().
format({addresses, _}, [_ | _] = Addresses) ->
    format(addresses, Addresses);
format({addresses, _}, []) ->
    "off";
format(addresses, []) ->
    "off";
format(addresses, Addresses) ->
    lists:flatten(lists:join(",", [written(A) || A <- Addresses]));
format(databases, Databases) ->
    lists:flatten(lists:join(" ", [Text || #{text := Text} <- Databases]));
format(Names, []) when Names =:= hosts; Names =:= origins ->
    "off";
format(Names, Texts) when Names =:= hosts; Names =:= origins ->
    lists:flatten(lists:join(",", Texts));
format(nodes, [_ | _] = Nodes) ->
    lists:flatten(lists:join(",", [atom_to_list(Node) || Node <- Nodes]));
format(Path, off) when Path =:= file; Path =:= directory ->
    "off";
format(Path, Text) when Path =:= file; Path =:= directory ->
    Text;
format({file, _}, [_ | _] = Text) ->
    Text;
format(name, [_ | _] = Text) ->
    Text;
format(_Type, Word) when is_atom(Word) ->
    atom_to_list(Word);
format(Type, Bytes) when element(1, Type) =:= bytes ->
    bytes(Bytes);
format(_Type, Number) when is_integer(Number) ->
    integer_to_list(Number).

-spec bytes(non_neg_integer()) -> string().
bytes(N) when N > 0, N rem (1 bsl 40) =:= 0 ->
    integer_to_list(N bsr 40) ++ "tb";
bytes(N) when N > 0, N rem (1 bsl 30) =:= 0 ->
    integer_to_list(N bsr 30) ++ "gb";
bytes(N) when N > 0, N rem (1 bsl 20) =:= 0 ->
    integer_to_list(N bsr 20) ++ "mb";
bytes(N) when N > 0, N rem (1 bsl 10) =:= 0 ->
    integer_to_list(N bsr 10) ++ "kb";
bytes(N) ->
    integer_to_list(N).

-spec written(todana_options:address()) -> string().
written({Ip, Port, Level}) ->
    lists:concat([written({Ip, Port}), "?read=", Level]);
written({Ip, Port}) when tuple_size(Ip) =:= 8 ->
    lists:concat(["[", inet:ntoa(Ip), "]:", Port]);
written({Ip, Port}) ->
    lists:concat([inet:ntoa(Ip), ":", Port]).

-doc "Describes the values of a type to a user.".
-spec describe(todana_options:type()) -> string().
describe(addresses) ->
    "HOST:PORT with an IP address or `localhost`, which is 127.0.0.1, several "
    "separated by commas, or `off`; "
    "`?read=` and a level of `read_level` may follow each";
describe({addresses, Word}) ->
    lists:concat([
        "HOST:PORT with an IP address or `localhost`, several separated by "
        "commas, `", Word, "` or `off`"
    ]);
describe(databases) ->
    "up to 16 names as in ktserver, separated by blanks";
describe(hosts) ->
    "names of hosts separated by commas, `*` for any, or `off`";
describe(origins) ->
    "origins such as `https://example.org` separated by commas, `*` for any, "
    "or `off`";
describe(node) ->
    "the name of a node, NAME@HOST, or `off`";
describe(nodes) ->
    "names of nodes, NAME@HOST, separated by commas, or `off`";
describe(name) ->
    "letters, digits and `.`, `_`, `:`, `-`, or `off`";
describe({file, Word}) ->
    lists:concat(["the path of a file, or `", Word, "`"]);
describe(file) ->
    "the path of a file, or `off`";
describe(directory) ->
    "the path of a directory, or `off`";
describe({integer, Min, Max}) ->
    lists:concat(["a number from ", Min, " to ", Max]);
describe({integer, Min, Max, Without}) ->
    lists:concat([describe({integer, Min, Max}), ", or `", Without, "`"]);
describe({bytes, Min, Max}) ->
    lists:concat([
        "a size from ", bytes(Min), " to ", bytes(Max), " in lower case",
        examples(Min, Max)
    ]);
describe({bytes, Min, Max, Without}) ->
    lists:concat([describe({bytes, Min, Max}), ", or `", Without, "`"]);
describe({choice, Words}) ->
    Quoted = ["`" ++ atom_to_list(Word) ++ "`" || Word <- Words],
    "one of " ++ lists:flatten(lists:join(", ", Quoted)).

%% The largest two that the option accepts.
-spec examples(non_neg_integer(), non_neg_integer()) -> string().
examples(Min, Max) ->
    Sizes = [
        1 bsl 10, 16 bsl 10, 512 bsl 10, 8 bsl 20, 64 bsl 20, 512 bsl 20,
        2 bsl 30
    ],
    case lists:reverse([bytes(N) || N <- Sizes, N >= Min, N =< Max]) of
        [Large, Small | _] -> ", such as " ++ Small ++ " or " ++ Large;
        [One] -> ", such as " ++ One;
        [] -> ""
    end.

-doc "Whether a text is a name with a host, for example `a@127.0.0.1'.".
-spec is_node_name(string()) -> boolean().
is_node_name(Text) ->
    re:run(Text, "^[A-Za-z0-9_-]{1,64}@[A-Za-z0-9_.:-]{1,180}$",
           [{capture, none}]) =:= match.
