%% Databases by Kyoto Cabinet's names: `path[#parameter=value]...'.
%%
%% The last part of the path, or `#type=', selects the kind. A name is parsed
%% into a database, or into a sentence that describes the error. Parameters that
%% have no effect here are ignored; `remarks/1' names them.
%%
%% The kinds that Kyoto Cabinet stores in a file, `casket.kch' and `casket.kct',
%% are durable databases: a hash and an ordered one. They need `data_dir'.
-module(todana_kyoto_database).
-moduledoc false.

-export([parse/1, parse_all/1, quantity/1, native/1, setting/1]).
-export([is_durable/1, durable_numbers/1, remarks/1, log_remarks/1]).

-export_type([database/0, kind/0, order/0]).

-type kind() ::
    proto_hash | proto_tree | stash | cache_hash | cache_tree
    | file_hash | file_tree.
-type order() ::
    lexical | decimal | lexical_descending | decimal_descending.
-type limit() :: pos_integer() | nil.
-type database() :: #{
    %% The name as the user gave it.
    text := string(),
    %% The last part of the path, which requests use as the name.
    name := string(),
    kind := kind(),
    %% `nil' for a database without an order.
    order := order() | nil,
    %% Whether the Kyoto Tycoon port ignores expiry times.
    persistent := boolean(),
    entries_max := limit(),
    bytes_max := limit(),
    cache_entries_max := limit(),
    cache_bytes_max := limit(),
    %% Parameters without an effect. Their values are omitted, because one of
    %% them is a password.
    ignored := [string()]
}.

%% The number of databases: `todana_command::DATABASES'.
-define(DATABASES_MAX, 16).

-doc "The databases of a server, in their order.".
-spec parse_all([string()]) -> {ok, [database()]} | {error, string()}.
parse_all([]) ->
    {error, "no database is named; name at least one, for example `:`"};
parse_all(Texts) when length(Texts) > ?DATABASES_MAX ->
    {error, sentence("~b databases are named, but at most ~b are supported",
                     [length(Texts), ?DATABASES_MAX])};
parse_all(Texts) ->
    try
        {ok, [database(Text) || Text <- Texts]}
    catch
        throw:Sentence -> {error, Sentence}
    end.

-doc "Parses the name of a database.".
-spec parse(string()) -> {ok, database()} | {error, string()}.
parse(Text) ->
    try
        {ok, database(Text)}
    catch
        throw:Sentence -> {error, Sentence}
    end.

-spec database(string()) -> database().
database(Text) ->
    [Path | Parameters] = string:split(Text, "#", all),
    Name = lists:last(string:split(Path, "/", all)),
    Types = [word(T) || "type=" ++ T <- Parameters],
    Database = #{
        text => Text,
        name => Name,
        kind => kind(Text, lists:last([sign(Name) | Types])),
        order => nil,
        persistent => false,
        entries_max => nil,
        bytes_max => nil,
        cache_entries_max => nil,
        cache_bytes_max => nil,
        ignored => []
    },
    Rest = [P || P <- Parameters, string:prefix(P, "type=") =:= nomatch],
    parameters(Rest, order(Database)).

-spec kind(string(), kind() | file | none) -> kind().
kind(Text, file) ->
    fail("database `~ts` would be a directory of files or a file of text, "
         "which Todana does not write: name it .kch for a hash database on "
         "disk, or .kct for an ordered one", [Text]);
kind(Text, none) ->
    fail("database `~ts` has no known kind: name it -, +, :, * or %, or add "
         "#type= and one of these", [Text]);
kind(_Text, Kind) ->
    Kind.

%% The kind from the name: a sign, or the suffix after the last dot.
-spec sign(string()) -> kind() | file | none.
sign(Name) ->
    case string:split(Name, ".", trailing) of
        [_, Suffix] -> suffix(Suffix);
        [[_] = Sign] -> word(Sign);
        [_] -> none
    end.

-spec suffix(string()) -> kind() | file | none.
suffix(Suffix) ->
    Suffixes = [
        {proto_hash, ["kcph", "phdb"]},
        {proto_tree, ["kcpt", "ptdb"]},
        {stash, ["kcs", "sdb"]},
        {cache_hash, ["kcc", "cdb"]},
        {cache_tree, ["kcg", "gdb"]},
        {file_hash, ["kch", "hdb"]},
        {file_tree, ["kct", "tdb"]},
        {file, ["kcd", "ddb", "kcf", "fdb", "kcx", "xdb", "txt", "text", "tsv",
                "csv"]}
    ],
    found(Suffix, Suffixes).

%% The kind from `#type=': a sign, a suffix, or a word.
-spec word(string()) -> kind() | file | none.
word(Word) ->
    Words = [
        {proto_hash, ["-", "phash"]},
        {proto_tree, ["+", "ptree"]},
        {stash, [":", "stash"]},
        {cache_hash, ["*", "cache"]},
        {cache_tree, ["%", "grass"]},
        {file_hash, ["hash"]},
        {file_tree, ["tree"]},
        {file, ["dir", "directory", "for", "forest"]}
    ],
    case found(Word, Words) of
        none -> suffix(Word);
        Kind -> Kind
    end.

-spec found(string(), [{kind() | file, [string()]}]) -> kind() | file | none.
found(Word, Rows) ->
    case [Kind || {Kind, Words} <- Rows, lists:member(Word, Words)] of
        [Kind] -> Kind;
        [] -> none
    end.

-spec order(database()) -> database().
order(#{kind := Kind} = Database) when
    Kind =:= proto_tree; Kind =:= cache_tree; Kind =:= file_tree
->
    Database#{order := lexical};
order(Database) ->
    Database.

-spec parameters([string()], database()) -> database().
parameters([], #{ignored := Ignored} = Database) ->
    Database#{ignored := lists:uniq(lists:reverse(Ignored))};
parameters([Parameter | Rest], Database) ->
    parameters(Rest, parameter(string:split(Parameter, "="), Database)).

-spec parameter([string()], database()) -> database().
parameter([Key, Value], #{kind := Kind} = Database) ->
    case meaning(Key) of
        {limit, Limit} when
            Kind =/= cache_hash,
            (Limit =:= cache_entries_max orelse Limit =:= cache_bytes_max)
        ->
            ignore(Key, Database);
        {limit, _} when Kind =:= file_hash; Kind =:= file_tree ->
            %% Nothing removes a durable record but a request and its expiry.
            _ = limit(Key, Value, Database),
            ignore(Key, Database);
        {limit, Limit} ->
            Database#{Limit := limit(Key, Value, Database)};
        options ->
            options(Key, Value, Database);
        comparison when map_get(order, Database) =/= nil ->
            Database#{order := comparison(Key, Value, Database)};
        _ ->
            ignore(Key, Database)
    end;
parameter([Key], Database) ->
    ignore(Key, Database).

-spec ignore(string(), database()) -> database().
ignore(Key, #{ignored := Ignored} = Database) ->
    Database#{ignored := [Key | Ignored]}.

-spec meaning(string()) -> {limit, atom()} | options | comparison | none.
meaning(Key) ->
    Meanings = #{
        {limit, entries_max} => ["ktcapcnt", "ktcapcount", "ktcap_count"],
        {limit, bytes_max} => ["ktcapsiz", "ktcapsize", "ktcap_size"],
        {limit, cache_entries_max} => ["capcnt", "capcount", "cap_count"],
        {limit, cache_bytes_max} => ["capsiz", "capsize", "cap_size"],
        options => ["ktopts", "ktoptions"],
        comparison => ["rcomp", "comparator"]
    },
    Found = [M || M := Words <- Meanings, lists:member(Key, Words)],
    case Found of
        [Meaning] -> Meaning;
        [] -> none
    end.

-spec options(string(), string(), database()) -> database().
options(Key, Value, Database) ->
    case lists:partition(fun(Letter) -> Letter =:= $p end, Value) of
        {[], _} -> ignore(Key, Database);
        {_, []} -> Database#{persistent := true};
        {_, _} -> ignore(Key, Database#{persistent := true})
    end.

-spec comparison(string(), string(), database()) -> order().
comparison(Key, Value, Database) ->
    Orders = #{
        "lex" => lexical,
        "lexical" => lexical,
        "dec" => decimal,
        "decimal" => decimal,
        "lexdesc" => lexical_descending,
        "lexicaldesc" => lexical_descending,
        "decdesc" => decimal_descending,
        "decimaldesc" => decimal_descending
    },
    case Orders of
        #{Value := Order} -> Order;
        #{} -> bad(Key, Value, "lex, dec, lexdesc or decdesc", Database)
    end.

%% A number below 1 is no limit, as in Kyoto Cabinet.
-spec limit(string(), string(), database()) -> limit().
limit(Key, [$- | Value], Database) ->
    _ = limit(Key, Value, Database),
    nil;
limit(Key, Value, Database) ->
    case quantity(Value) of
        {ok, 0} ->
            nil;
        {ok, Limit} when Limit < 1 bsl 63 ->
            Limit;
        {ok, _} ->
            bad(Key, Value, "below 2^63", Database);
        error ->
            Expected = "a number, such as 100000, 64k, 512m, 2g or 1t",
            bad(Key, Value, Expected, Database)
    end.

-doc """
A number in the notation of Kyoto Cabinet: digits, and an optional letter in
either case that stands for a power of 1,024. A `b` may follow the letter, as in
the sizes of options.
""".
-spec quantity(string()) -> {ok, non_neg_integer()} | error.
quantity(Text) ->
    {Digits, Unit} = string:take(Text, "0123456789"),
    Powers = #{"" => 0, "k" => 10, "m" => 20, "g" => 30, "t" => 40,
               "p" => 50, "e" => 60, "kb" => 10, "mb" => 20, "gb" => 30,
               "tb" => 40, "pb" => 50, "eb" => 60},
    Lower = string:lowercase(Unit),
    case {Digits, Powers} of
        {[_ | _], #{Lower := Power}} when length(Digits) =< 18 ->
            {ok, list_to_integer(Digits) bsl Power};
        _ ->
            error
    end.

-spec bad(string(), string(), string(), database()) -> no_return().
bad(Key, Value, Expected, #{text := Text}) ->
    fail("database `~ts`: ~ts is `~ts`, but should be ~ts",
         [Text, Key, Value, Expected]).

-doc """
Order and limits of the native table. Of two limits, the lower one counts.
""".
-spec native(database()) -> {order() | nil, limit(), limit()}.
native(Database) ->
    #{
        order := Order,
        entries_max := EntriesMax,
        bytes_max := BytesMax,
        cache_entries_max := CacheEntriesMax,
        cache_bytes_max := CacheBytesMax
    } = Database,
    %% In Erlang's term order, atoms are greater than numbers.
    {Order, min(EntriesMax, CacheEntriesMax), min(BytesMax, CacheBytesMax)}.

-doc "The settings of a database for the native server.".
-spec setting(database()) ->
    {binary(), 16..49, boolean(), limit(), limit(), limit(), limit()}.
setting(Database) ->
    #{
        name := Name,
        kind := Kind,
        persistent := Persistent,
        entries_max := EntriesMax,
        bytes_max := BytesMax,
        cache_entries_max := CacheEntriesMax,
        cache_bytes_max := CacheBytesMax
    } = Database,
    {unicode:characters_to_binary(Name), number(Kind), Persistent,
     EntriesMax, BytesMax, CacheEntriesMax, CacheBytesMax}.

%% Kyoto Cabinet's type numbers.
-spec number(kind()) -> 16..49.
number(proto_hash) -> 16;
number(proto_tree) -> 17;
number(stash) -> 24;
number(cache_hash) -> 32;
number(cache_tree) -> 33;
number(file_hash) -> 48;
number(file_tree) -> 49.

-doc "Whether databases of this kind outlive the process.".
-spec is_durable(kind()) -> boolean().
is_durable(Kind) -> Kind =:= file_hash orelse Kind =:= file_tree.

-doc """
For each of the numbers 0 to 15, whether the database is durable in a node with
a data directory: those that are not named are.
""".
-spec durable_numbers([database()]) -> [boolean(), ...].
durable_numbers(Databases) ->
    Named = [is_durable(Kind) || #{kind := Kind} <- Databases],
    Named ++ lists:duplicate(?DATABASES_MAX - length(Named), true).

-doc "A sentence for each database that has parameters without an effect.".
-spec remarks([database()]) -> [string()].
remarks(Databases) ->
    [
        sentence("database ~b (`~ts`): parameters without an effect: ~ts~ts",
                 [Number, Name, lists:join(", ", Ignored),
                  unencrypted(Kind, Ignored)])
     || {Number, #{name := Name, kind := Kind, ignored := [_ | _] = Ignored}}
            <- lists:enumerate(0, Databases)
    ].

%% The one parameter that somebody may rely on without noticing that it does
%% nothing.
-spec unencrypted(kind(), [string()]) -> string().
unencrypted(Kind, Ignored) ->
    case is_durable(Kind) andalso lists:member("zkey", Ignored) of
        true -> "; the records on disk are not encrypted";
        false -> ""
    end.

-doc "Logs the remarks.".
-spec log_remarks([database()]) -> ok.
log_remarks(Databases) ->
    lists:foreach(
        fun(Remark) -> logger:warning("~ts", [Remark]) end,
        remarks(Databases)
    ).

-spec fail(string(), [term()]) -> no_return().
fail(Format, Arguments) ->
    throw(sentence(Format, Arguments)).

-spec sentence(string(), [term()]) -> string().
sentence(Format, Arguments) ->
    lists:flatten(io_lib:format(Format, Arguments)).
