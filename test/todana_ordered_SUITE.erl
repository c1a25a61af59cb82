%% Ordered tables against a model: random writes, and all functions that walk
%% over the records, in every order.
-module(todana_ordered_SUITE).

-include_lib("proper/include/proper.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([
    lexical/1,
    decimal/1,
    lexical_descending/1,
    decimal_descending/1,
    many_pages/1,
    stable_keys_are_seen_once/1,
    expired_records_are_passed_over/1,
    large_records/1,
    pages_return_soon/1,
    info_and_open/1,
    misuse/1
]).
%% PropEr
-export([initial_state/0, command/1, precondition/2, postcondition/3,
         next_state/3]).
%% Called by the commands
-export([put/3, put_many/2, delete/2, take/2, clear/1, get/2, count/1,
         range/4, prefix/3, first/1, last/1, next/2, prev/2, fold/1,
         fold_range/3]).

-define(TABLE, ordered).

all() ->
    [
        lexical,
        decimal,
        lexical_descending,
        decimal_descending,
        many_pages,
        stable_keys_are_seen_once,
        expired_records_are_passed_over,
        large_records,
        pages_return_soon,
        info_and_open,
        misuse
    ].

init_per_suite(Config) ->
    {ok, Started} = application:ensure_all_started(todana),
    [{started, Started} | Config].

end_per_suite(Config) ->
    [application:stop(A) || A <- proplists:get_value(started, Config)].

lexical(_Config) -> check(lexical).
decimal(_Config) -> check(decimal).
lexical_descending(_Config) -> check(lexical_descending).
decimal_descending(_Config) -> check(decimal_descending).

check(Order) ->
    Options = [{numtests, 300}, quiet, {max_size, 40}],
    case proper:counterexample(like_a_sorted_list(Order), Options) of
        true -> ok;
        Found -> ct:fail("It does not hold for~n~p", [Found])
    end.

%% ----------------------------------------------------------------- model ---

like_a_sorted_list(Order) ->
    ?FORALL(
        Commands,
        commands(?MODULE, {Order, #{}}),
        begin
            {ok, _} = open(Order),
            {History, State, Result} = run_commands(?MODULE, Commands),
            ok = todana:close(?TABLE),
            ?WHENFAIL(
                io:format(user, "~p~n~p~n~p~n", [Commands, History, State]),
                Result =:= ok
            )
        end
    ).

open(Order) ->
    todana:open(?TABLE, #{type => ordered_set, order => Order, shards => 8}).

initial_state() ->
    {lexical, #{}}.

%% Keys that are likely to collide: numbers in several notations, and prefixes.
key() ->
    frequency([
        {5, ?LET(N, integer(-20, 120), integer_to_binary(N))},
        {2, elements([~"", ~"-", ~".", ~"0", ~"00", ~"-0", ~"007", ~" 7",
                      ~"7.0", ~"7.5", ~"-.5", ~"-0.25", ~".75", ~"+3", ~"1e3",
                      ~"12ab",
                      ~"100000000000000000000000000000001", ~"-99999999999999",
                      <<255>>, <<255, 255>>, <<0>>, <<0, 49>>, ~"7x", ~"x7"])},
        {3, ?LET(Letters, list(elements("ab1")), list_to_binary(Letters))},
        {1, ?LET(Byte, integer(0, 255), binary:copy(<<Byte>>, 300))}
    ]).

value() ->
    ?LET(Size, elements([0, 3, 70, 300]), binary:copy(~"v", Size)).

bound(End) ->
    frequency([{2, End}, {4, key()}, {2, {excluded, key()}}]).

options() ->
    ?LET(
        {Limit, Reverse, KeysOnly},
        {integer(1, 12), boolean(), boolean()},
        #{limit => Limit, reverse => Reverse, keys_only => KeysOnly}
    ).

command(_State) ->
    T = ?TABLE,
    frequency([
        {6, {call, ?MODULE, put, [T, key(), value()]}},
        {4, {call, ?MODULE, put_many, [T, list({key(), value()})]}},
        {3, {call, ?MODULE, delete, [T, key()]}},
        {1, {call, ?MODULE, take, [T, key()]}},
        {1, {call, ?MODULE, clear, [T]}},
        {1, {call, ?MODULE, get, [T, key()]}},
        {1, {call, ?MODULE, count, [T]}},
        {6, {call, ?MODULE, range, [T, bound(first), bound(last), options()]}},
        {4, {call, ?MODULE, prefix,
             [T, ?LET(K, key(), binary:part(K, 0, min(2, byte_size(K)))),
              options()]}},
        {1, {call, ?MODULE, first, [T]}},
        {1, {call, ?MODULE, last, [T]}},
        {2, {call, ?MODULE, next, [T, key()]}},
        {2, {call, ?MODULE, prev, [T, key()]}},
        {1, {call, ?MODULE, fold, [T]}},
        {1, {call, ?MODULE, fold_range, [T, bound(first), bound(last)]}}
    ]).

put(T, K, V) -> todana:put(T, K, V).
put_many(T, Pairs) -> todana:put_many(T, Pairs, #{atomic => true}).
delete(T, K) -> todana:delete(T, K).
take(T, K) -> todana:take(T, K).
clear(T) -> todana:clear(T).
get(T, K) -> todana:get(T, K).
count(T) -> todana:count(T).
first(T) -> todana:first(T).
last(T) -> todana:last(T).
next(T, K) -> todana:next(T, K).
prev(T, K) -> todana:prev(T, K).

range(T, From, To, Options) ->
    pages(fun(O) -> todana:range(T, From, To, O) end, Options).

prefix(T, Prefix, Options) ->
    pages(fun(O) -> todana:prefix(T, Prefix, O) end, Options).

%% Collects all pages, and checks that none exceeds the limit.
pages(Page, #{limit := Limit} = Options) ->
    {Records, Next} = Page(Options),
    true = length(Records) =< Limit,
    case Next of
        done -> Records;
        _ -> Records ++ pages(Page, Options#{cursor => Next})
    end.

fold(T) ->
    Folded = lists:reverse(todana:fold(fun pair/3, [], T)),
    ?assertEqual(Folded, todana:to_list(T)),
    Folded.

fold_range(T, From, To) ->
    lists:reverse(todana:fold_range(fun pair/3, [], T, From, To)).

pair(K, V, Acc) -> [{K, V} | Acc].

precondition(_State, _Call) ->
    true.

postcondition({Order, Map}, {call, _, Name, [_ | Arguments]}, Result) ->
    {Expected, _} = model(Name, Arguments, Order, Map),
    Result =:= Expected.

next_state({Order, Map}, _Result, {call, _, Name, [_ | Arguments]}) ->
    {_, Next} = model(Name, Arguments, Order, Map),
    {Order, Next}.

%% The model: the result of a command, and the next records.
model(put, [K, V], _, M) ->
    {ok, M#{K => V}};
model(put_many, [Pairs], _, M) ->
    {ok, maps:merge(M, maps:from_list(Pairs))};
model(delete, [K], _, M) ->
    Was =
        case M of
            #{K := _} -> ok;
            #{} -> error
        end,
    {Was, maps:remove(K, M)};
model(take, [K], _, M) ->
    {maps:find(K, M), maps:remove(K, M)};
model(clear, [], _, M) ->
    {map_size(M), #{}};
model(get, [K], _, M) ->
    {maps:find(K, M), M};
model(count, [], _, M) ->
    {map_size(M), M};
model(range, [From, To, Options], Order, M) ->
    {shown(between(From, To, Order, M), Options), M};
model(prefix, [Prefix, Options], Order, M) ->
    Begins = [P || {K, _} = P <- sorted(Order, M), begins(K, Prefix)],
    {shown(Begins, Options), M};
model(first, [], Order, M) ->
    {one(sorted(Order, M)), M};
model(last, [], Order, M) ->
    {one(lists:reverse(sorted(Order, M))), M};
model(next, [K], Order, M) ->
    {one(between({excluded, K}, last, Order, M)), M};
model(prev, [K], Order, M) ->
    {one(lists:reverse(between(first, {excluded, K}, Order, M))), M};
model(fold, [], Order, M) ->
    {sorted(Order, M), M};
model(fold_range, [From, To], Order, M) ->
    {between(From, To, Order, M), M}.

one([]) -> error;
one([{K, _} | _]) -> {ok, K}.

begins(Key, Prefix) ->
    binary:longest_common_prefix([Key, Prefix]) =:= byte_size(Prefix).

shown(Pairs, #{reverse := true} = Options) ->
    shown(lists:reverse(Pairs), Options#{reverse := false});
shown(Pairs, #{keys_only := true}) ->
    [K || {K, _} <- Pairs];
shown(Pairs, _Options) ->
    Pairs.

sorted(Order, M) ->
    lists:sort(
        fun({A, _}, {B, _}) -> is_before(Order, A, B) end, maps:to_list(M)
    ).

between(From, To, Order, M) ->
    [
        P
     || {K, _} = P <- sorted(Order, M),
        is_beyond(Order, From, K),
        is_short_of(Order, To, K)
    ].

is_beyond(_Order, first, _Key) -> true;
is_beyond(Order, {excluded, From}, K) -> K =/= From andalso
    is_before(Order, From, K);
is_beyond(Order, From, K) -> is_before(Order, From, K).

is_short_of(_Order, last, _Key) -> true;
is_short_of(Order, {excluded, To}, K) -> K =/= To andalso
    is_before(Order, K, To);
is_short_of(Order, To, K) -> is_before(Order, K, To).

%% Before, or the same.
is_before(lexical, A, B) -> A =< B;
is_before(lexical_descending, A, B) -> B =< A;
is_before(decimal, A, B) -> {number(A), A} =< {number(B), B};
is_before(decimal_descending, A, B) -> is_before(decimal, B, A).

%% The number at the beginning of a key, scaled to an integer.
number(Key) ->
    {match, [Sign, Whole, Fraction]} = re:run(
        Key,
        "^[\\x00-\\x20\\x7f]*(-?)([0-9]*)(?:\\.([0-9]*))?",
        [{capture, [1, 2, 3], list}]
    ),
    Places = lists:sublist(Fraction ++ lists:duplicate(20, $0), 20),
    Number = list_to_integer("0" ++ Whole ++ Places),
    case Sign of
        "-" -> -Number;
        "" -> Number
    end.

%% -------------------------------------------------------------- examples ---

many_pages(_Config) ->
    {ok, _} = open(lexical),
    Keys = [<<N:32>> || N <- lists:seq(1, 5000)],
    ok = todana:put_many(?TABLE, [{K, K} || K <- Keys]),
    Walk = fun(Options) -> range(?TABLE, first, last, Options) end,
    ?assertEqual(Keys, Walk(#{limit => 1000, keys_only => true})),
    ?assertEqual(lists:reverse([{K, K} || K <- Keys]),
                 Walk(#{limit => 7, reverse => true})),
    {Page, Cursor} = todana:range(?TABLE, first, last, #{limit => 1000}),
    ?assert(length(Page) =< 1000),
    ?assertNotEqual(done, Cursor),
    ok = todana:close(?TABLE).

%% A walk returns each stable key once, in order, while other keys change.
stable_keys_are_seen_once(_Config) ->
    {ok, _} = open(lexical),
    Stable = [<<N:32>> || N <- lists:seq(0, 20_000, 10)],
    ok = todana:put_many(?TABLE, [{K, ~"stays"} || K <- Stable]),
    Churns = [
        spawn_link(fun() -> churn(Seed) end)
     || Seed <- [1, 2]
    ],
    [
        begin
            Seen = range(?TABLE, first, last, Options),
            Expected =
                case Options of
                    #{reverse := true} -> lists:reverse(Stable);
                    #{} -> Stable
                end,
            ?assertEqual(Expected, [K || {K, ~"stays"} <- Seen])
        end
     || _ <- lists:seq(1, 10),
        Options <- [#{limit => 50}, #{limit => 50, reverse => true}]
    ],
    Folded = lists:reverse(todana:fold(fun pair/3, [], ?TABLE)),
    ?assertEqual(Stable, [K || {K, ~"stays"} <- Folded]),
    Listed = todana:to_list(?TABLE),
    ?assertEqual(Stable, [K || {K, ~"stays"} <- Listed]),
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Churns],
    ok = todana:close(?TABLE).

churn(Seed) ->
    _ = rand:seed(exsss, Seed),
    churn_on().

churn_on() ->
    case rand:uniform(20_000) of
        N when N rem 10 =:= 0 ->
            %% Overwriting a record keeps its key in place.
            ok = todana:put(?TABLE, <<N:32>>, ~"stays");
        N when N rem 3 =:= 0 ->
            _ = todana:delete(?TABLE, <<N:32>>);
        N when N rem 3 =:= 1 ->
            ok = todana:put(?TABLE, <<N:32>>, ~"goes");
        N ->
            ok = todana:put(?TABLE, <<N:32>>, ~"goes", #{ttl_ms => 1})
    end,
    churn_on().

expired_records_are_passed_over(_Config) ->
    {ok, _} = open(lexical),
    Keys = [<<N:32>> || N <- lists:seq(1, 3000)],
    ok = todana:put_many(?TABLE, [{K, ~""} || K <- Keys], #{ttl_ms => 1}),
    ok = todana:put(?TABLE, <<3001:32>>, ~"last"),
    first_becomes(<<3001:32>>),
    ?assertEqual({ok, <<3001:32>>}, todana:next(?TABLE, <<5:32>>)),
    ?assertEqual(error, todana:prev(?TABLE, <<3001:32>>)),
    ?assertEqual([{<<3001:32>>, ~"last"}],
                 range(?TABLE, first, last, #{limit => 10})),
    ok = todana:close(?TABLE).

%% A record may be visible for one clock tick after its expiry.
first_becomes(Key) ->
    case todana:first(?TABLE) of
        {ok, Key} -> ok;
        _ -> timer:sleep(5), first_becomes(Key)
    end.

large_records(_Config) ->
    {ok, _} = open(lexical),
    Tail = binary:copy(~"k", 60_000),
    Key = fun(N) -> [integer_to_binary(1000 + N), Tail] end,
    Value = fun(N) -> binary:copy(<<N>>, 300_000) end,
    [ok = todana:put(?TABLE, Key(N), Value(N)) || N <- lists:seq(1, 50)],
    Expected = [{iolist_to_binary(Key(N)), Value(N)} || N <- lists:seq(1, 50)],
    ?assertEqual(Expected, range(?TABLE, Key(1), Key(50), #{limit => 20})),
    ?assertEqual([hd(Expected)], prefix(?TABLE, ~"1001k", #{limit => 20})),
    ok = todana:close(?TABLE).

%% A rare prefix in an order that does not group the keys with a prefix: a page
%% may be empty, but returns soon.
pages_return_soon(_Config) ->
    {ok, _} = open(decimal),
    ok = todana:put_many(?TABLE, [
        {integer_to_binary(N), ~""}
     || N <- lists:seq(1, 50_000)
    ]),
    {First, Cursor} = todana:prefix(?TABLE, ~"49999"),
    ?assertEqual([], First),
    ?assertNotEqual(done, Cursor),
    ?assertEqual([{~"49999", ~""}], prefix(?TABLE, ~"49999", #{limit => 10})),
    ok = todana:close(?TABLE).

info_and_open(_Config) ->
    {ok, Handle} = todana:open(?TABLE, #{type => ordered_set}),
    ?assertMatch(#{type := ordered_set, order := lexical},
                 todana:info(?TABLE)),
    ?assertEqual({ok, Handle},
                 todana:open(?TABLE, #{type => ordered_set, order => lexical})),
    ?assertEqual({error, {exists, #{type => {ordered_set, set}}}},
                 todana:open(?TABLE, #{})),
    ?assertEqual({error, {exists, #{order => {lexical, decimal}}}},
                 todana:open(?TABLE, #{type => ordered_set, order => decimal})),
    ok = todana:close(?TABLE),
    {ok, _} = todana:open(?TABLE, #{}),
    Info = todana:info(?TABLE),
    ?assertMatch(#{type := set}, Info),
    ?assertNot(is_map_key(order, Info)),
    ?assertEqual({error, {exists, #{type => {set, ordered_set}}}},
                 todana:open(?TABLE, #{type => ordered_set})),
    ok = todana:close(?TABLE).

misuse(_Config) ->
    {ok, _} = open(lexical),
    {ok, _} = todana:open(plain, #{}),
    Long = binary:copy(~"k", 65_537),
    Fun = fun pair/3,
    T = ?TABLE,
    [
        ?assertEqual({F, Arguments, #{Number => Cause}},
                     {F, Arguments, cause(F, Arguments)})
     || {F, Arguments, Number, Cause} <- [
            {range, [plain, first, last, #{}], 1, not_ordered},
            {prefix, [plain, ~"", #{}], 1, not_ordered},
            {first, [plain], 1, not_ordered},
            {last, [plain], 1, not_ordered},
            {next, [plain, ~""], 1, not_ordered},
            {prev, [plain, ~""], 1, not_ordered},
            {fold_range, [Fun, [], plain, first, last], 3, not_ordered},
            {range, [no_table, first, last, #{}], 1, no_such_table},
            {fold_range, [Fun, [], no_table, first, last], 3, no_such_table},
            {fold_range, [x, [], T, first, last], 1,
             {not_a_function, 3}},
            {fold_range, [Fun, [], T, x, last], 4, {not_a_bound, first}},
            {fold_range, [Fun, [], T, first, x], 5, {not_a_bound, last}},
            {range, [T, last, last, #{}], 2, {not_a_bound, first}},
            {range, [T, first, first, #{}], 3, {not_a_bound, last}},
            {range, [T, {excluded, 1}, last, #{}], 2, {not_a_bound, first}},
            {range, [T, Long, last, #{}], 2, key_too_long},
            {range, [T, first, {excluded, Long}, #{}], 3, key_too_long},
            {prefix, [T, x, #{}], 2, not_iodata},
            {prefix, [T, Long, #{}], 2, key_too_long},
            {next, [T, x], 2, not_iodata},
            {prev, [T, x], 2, not_iodata},
            {prev, [T, Long], 2, key_too_long},
            {range, [T, first, last, #{limit => 0}], 4,
             {not_between, limit, 1, 1000}},
            {range, [T, first, last, #{limit => 1001}], 4,
             {not_between, limit, 1, 1000}},
            {prefix, [T, ~"", #{limit => x}], 3,
             {not_between, limit, 1, 1000}},
            {range, [T, first, last, #{reverse => x}], 4,
             {bad_option, reverse}},
            {range, [T, first, last, #{cursor => 1}], 4, {bad_option, cursor}},
            {range, [T, first, last, #{count => 1}], 4,
             {unknown_option, count}},
            {prefix, [T, ~"", #{keys_only => 1}], 3, {bad_option, keys_only}},
            {open, [x, #{type => bag}], 2, {bad_option, type}},
            {open, [x, #{type => ordered_set, order => up}], 2,
             {bad_option, order}},
            {open, [db1, #{type => ordered_set}], 2, {database_option, type}},
            {open, [db1, #{order => decimal}], 2, {database_option, order}},
            {open, [x, #{order => lexical}], 2,
             {needs, order, type, ordered_set}}
        ]
    ],
    ok = todana:close(plain),
    ok = todana:close(T).

%% The cause of a `badarg', after checking that its explanation names it.
cause(Function, Arguments) ->
    try
        apply(todana, Function, Arguments)
    catch
        error:badarg:Stack ->
            [{todana, Function, _, Location} | _] = Stack,
            #{cause := Cause} = proplists:get_value(error_info, Location),
            Texts = todana_error:format_error(badarg, Stack),
            ?assertEqual(maps:keys(Cause), maps:keys(Texts)),
            Cause
    end.
