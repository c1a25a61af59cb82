%% Ordered tables with codec `term`: keys in Erlang's term order.
-module(todana_term_order_SUITE).

-include_lib("proper/include/proper.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1, init_per_testcase/2,
         end_per_testcase/2]).
-export([
    bytes_compare_like_terms/1,
    near_terms_compare_like_terms/1,
    terms_round_trip/1,
    keys_and_ranges_are_like_a_sorted_list/1,
    descending/1,
    integers_come_before_equal_floats/1,
    maps_in_keys_of_maps_are_like_other_maps/1,
    prefixes_of_tuples/1,
    prefixes_of_lists_and_binaries/1,
    prefixes_of_bitstrings_within_a_byte/1,
    words_for_ends_may_be_keys/1,
    every_function_takes_terms/1,
    large_keys/1,
    nested_maps_are_left_to_dirty_schedulers/1,
    keys_without_an_order_are_refused/1,
    pages_end_where_the_limit_says/1,
    options/1
]).

-define(TABLE, ordered_terms).

all() ->
    [
        bytes_compare_like_terms,
        near_terms_compare_like_terms,
        terms_round_trip,
        keys_and_ranges_are_like_a_sorted_list,
        descending,
        integers_come_before_equal_floats,
        maps_in_keys_of_maps_are_like_other_maps,
        prefixes_of_tuples,
        prefixes_of_lists_and_binaries,
        prefixes_of_bitstrings_within_a_byte,
        words_for_ends_may_be_keys,
        every_function_takes_terms,
        large_keys,
        nested_maps_are_left_to_dirty_schedulers,
        keys_without_an_order_are_refused,
        pages_end_where_the_limit_says,
        options
    ].

init_per_suite(Config) ->
    {ok, Started} = application:ensure_all_started(todana),
    [{started, Started} | Config].

end_per_suite(Config) ->
    [application:stop(A) || A <- proplists:get_value(started, Config)].

init_per_testcase(options, Config) ->
    Config;
init_per_testcase(descending, Config) ->
    {ok, _} = open(#{order => term_descending}),
    Config;
init_per_testcase(_, Config) ->
    {ok, _} = open(#{}),
    Config.

end_per_testcase(options, _Config) -> ok;
end_per_testcase(_, _Config) -> ok = todana:close(?TABLE).

open(Options) ->
    Ordered = #{type => ordered_set, codec => term, shards => 8},
    todana:open(?TABLE, maps:merge(Ordered, Options)).

%% ------------------------------------------------------------- the order ---

bytes_compare_like_terms(_Config) ->
    check(?FORALL({A, B}, {a_term(), a_term()}, is_kept(A, B)), 10_000).

%% Terms that differ in one place, or in none: equal numbers of both types meet.
near_terms_compare_like_terms(_Config) ->
    check(
        ?FORALL({A, B}, near(a_term()), is_kept(A, B) andalso is_kept(B, A)),
        10_000
    ),
    Near = near(),
    [?assertEqual({true, A, B}, {is_kept(A, B), A, B}) || A <- Near, B <- Near].

terms_round_trip(_Config) ->
    check(?FORALL(A, a_term(), round_trips(A)), 10_000),
    [?assertEqual({true, A}, {round_trips(A), A}) || A <- near()].

round_trips(Term) ->
    Bytes = todana_codec:key(?TABLE, Term),
    todana_codec:decode(Bytes) =:= Term andalso stored(Term) =:= Term.

%% The key that native code decodes.
stored(Term) ->
    ok = todana:put(?TABLE, Term, v),
    {ok, Key} = todana:first(?TABLE),
    {[{Key, v}], done} = todana:range(?TABLE, first, last),
    ok = todana:delete(?TABLE, Term),
    0 = todana:count(?TABLE),
    Key.

is_kept(A, B) ->
    KeyA = todana_codec:key(?TABLE, A),
    KeyB = todana_codec:key(?TABLE, B),
    compare(A, B) =:= if KeyA < KeyB -> less; KeyA > KeyB -> greater;
                         true -> equal end.

%% Erlang's order; where it takes two terms for equal, an integer comes before
%% -0.0, and that before other floats.
compare(A, B) when A < B -> less;
compare(A, B) when A > B -> greater;
compare(A, B) ->
    case {ties(A), ties(B)} of
        {Same, Same} when A =:= B -> equal;
        {TiesA, TiesB} when TiesA < TiesB -> less;
        {TiesA, TiesB} when TiesA > TiesB -> greater
    end.

ties(Term) -> lists:flatten([ties_of(Term)]).

ties_of(N) when is_integer(N) -> 0;
ties_of(N) when N =:= -0.0 -> 1;
ties_of(N) when is_float(N) -> 2;
ties_of(T) when is_tuple(T) -> ties_of(tuple_to_list(T));
ties_of([H | T]) -> [ties_of(H), ties_of(T)];
ties_of(M) when is_map(M) ->
    [ties_of(V) || {_, V} <- maps:to_list(maps:iterator(M, ordered))];
ties_of(_) -> [].

is_before_or_same(A, B) -> compare(A, B) =/= greater.

sorted(Terms) -> lists:usort(fun is_before_or_same/2, Terms).

%% ------------------------------------------------------------ generators ---

a_term() ->
    ?SIZED(Size, a_term(min(Size, 12))).

a_term(0) ->
    frequency([
        {8, a_number()},
        {4, an_atom()},
        {4, a_bitstring()},
        {1, elements([[], {}, #{}])}
    ]);
a_term(Size) ->
    Small = ?LAZY(a_term(Size div 3)),
    frequency([
        {4, a_term(0)},
        {3, ?LET(N, integer(0, 3), ?LET(L, vector(N, Small),
                                        list_to_tuple(L)))},
        {3, ?LET(N, integer(0, 3), vector(N, Small))},
        {1, ?LET({N, T}, {integer(1, 2), Small},
                 ?LET(L, vector(N, Small), L ++ T))},
        {3, ?LET(N, integer(0, 3), ?LET(L, vector(N, {Small, Small}),
                                        maps:from_list(L)))},
        {1, list(integer(0, 255))}
    ]).

a_number() ->
    frequency([
        {4, integer(-3, 3)},
        {4, ?LET(N, integer(-3, 3), float(N))},
        {1, elements([0.0, -0.0])},
        {2, ?LET({N, D}, {integer(-1 bsl 12, 1 bsl 12), integer(-60, 60)},
                 N * math:pow(2, D))},
        {2, float()},
        {2, ?LET({E, D}, {integer(0, 90), integer(-2, 2)}, (1 bsl E) + D)},
        {2, ?LET({E, D}, {integer(0, 90), integer(-2, 2)}, -(1 bsl E) + D)},
        {2, ?LET(E, integer(0, 90), math:pow(2, E))},
        {1, ?LET(E, integer(0, 90), -math:pow(2, E))},
        {1, ?LET({E, D}, {integer(50, 54), integer(-2, 2)},
                 math:pow(2, E) + D)},
        {1, ?LET({E, D, S}, {integer(900, 1200), integer(-2, 2),
                             integer(0, 999)},
                 (1 bsl E) + (D bsl S))},
        {1, ?LET(Bits, integer(0, (1 bsl 64) - 1), a_float(Bits))},
        {1, ?LET(Bits, integer(0, 1 bsl 52), a_float(Bits))}
    ]).

%% A float of these bits, denormals among them; 1.0 for those that are none.
a_float(Bits) ->
    case <<Bits:64>> of
        <<F/float>> -> F;
        _ -> 1.0
    end.

an_atom() ->
    ?LET(Name, list(elements([0, 1, 2, 3, $a, $b, 255, 16#20ac, 16#1f600])),
         list_to_atom(Name)).

a_bitstring() ->
    ?LET({Bytes, N, Bits},
         {list(elements([0, 1, 2, 3, $a, 128, 255])), integer(0, 7),
          integer(0, 255)},
         <<(list_to_binary(Bytes))/binary, Bits:N>>).

near(Generator) ->
    ?LET({Term, Seed}, {Generator, integer(0, 1 bsl 30)}, begin
        _ = rand:seed(exsss, Seed),
        {Term, changed(Term)}
    end).

%% The same with some numbers of the other type, now and then another one.
changed(N) when is_integer(N), abs(N) < 1 bsl 1000 ->
    case rand:uniform(12) of
        1 -> N + 1;
        2 -> N - 0.5;
        K when K < 6 -> float(N);
        _ -> N
    end;
changed(N) when is_float(N) ->
    case rand:uniform(12) of
        1 -> 0;
        2 -> -N;
        K when K < 6, trunc(N) == N -> trunc(N);
        _ -> N
    end;
changed(T) when is_tuple(T) -> list_to_tuple(changed(tuple_to_list(T)));
changed([H | T]) -> [changed(H) | changed(T)];
changed(M) when is_map(M) ->
    maps:from_list([{changed(K), changed(V)} || {K, V} <- maps:to_list(M)]);
changed(Term) ->
    Term.

near() ->
    Powers = [1 bsl E || E <- [0, 1, 7, 8, 52, 53, 62, 63, 64, 65, 1023]],
    Whole = lists:usort([S * (P + D) || P <- Powers, D <- [-1, 0, 1],
                                        S <- [1, -1]]),
    Floats = [1.0, -1.0, 2.0, 0.0, -0.0, 0.5, -0.5, 5.0e-324, -5.0e-324,
              2.2250738585072014e-308, 2.225073858507201e-308,
              1.7976931348623157e308, -1.7976931348623157e308] ++
        [math:pow(2, E) || E <- [52, 53, 63, 64, 1023]],
    Huge = [1 bsl 1024, (1 bsl 1024) - 1, (1 bsl 1024) + 1, 1 bsl 5000,
            -(1 bsl 5000), (1 bsl 5000) + 1, trunc(1.0e308)],
    Whole ++ Floats ++ Huge ++
        ['', '\0', a, ab, 'a\0', 'b', "", {}, #{}, "a", "ab", [a | b], [a],
         [a, b], [[]], [[] | []], [1 | 2], [1 | 2.0], [a | <<>>], [a | #{}],
         <<>>, <<0>>, <<0:1>>, <<0:7>>, <<1>>, <<1:1>>, <<128>>, <<128, 0>>,
         <<2>>, <<2, 1>>, <<3:2>>, <<255>>, ~"a", ~"ab", {1}, {1.0}, {2},
         {1, 1}, {1.0, 1}, {1, 1.0}, {1, 2}, {{1}, a}, {a, {1}},
         #{1 => a}, #{1.0 => a}, #{2 => a}, #{2.0 => a}, #{a => 1},
         #{a => 1.0}, #{a => 2}, #{b => 1}, #{a => 1, b => 1}, #{0 => 1},
         #{0.0 => 1}, #{-0.0 => 1}, #{#{1 => 2} => 3}, #{#{1.0 => 2} => 3},
         #{#{1 => 2.0} => 3}, #{{2} => 1}, #{{1.0} => 1}, #{[2.0] => 1},
         #{(1 bsl 80) => 1}, #{1.0 => #{1 => 2.0}}, #{1.0 => #{1 => 2}},
         list_to_tuple(lists:seq(1, 254)), list_to_tuple(lists:seq(1, 255)),
         list_to_tuple(lists:seq(1, 300)),
         maps:from_list([{N, N} || N <- lists:seq(1, 300)]),
         maps:from_list([{N, float(N)} || N <- lists:seq(1, 300)])].

%% ---------------------------------------------------------------- ranges ---

keys_and_ranges_are_like_a_sorted_list(_Config) ->
    check(
        ?FORALL(
            {Keys, From, To, Limit},
            {list(a_term()), a_bound(first), a_bound(last), integer(1, 5)},
            is_like_a_list(Keys, From, To, Limit, fun(L) -> L end)
        ),
        2_000
    ).

descending(_Config) ->
    check(
        ?FORALL(
            {Keys, From, To, Limit},
            {list(a_term()), a_bound(first), a_bound(last), integer(1, 5)},
            is_like_a_list(Keys, From, To, Limit, fun lists:reverse/1)
        ),
        500
    ).

a_bound(End) ->
    frequency([{1, End}, {3, {included, a_term()}}, {3, {excluded, a_term()}}]).

is_like_a_list(Keys, From, To, Limit, Turn) ->
    _ = todana:clear(?TABLE),
    ok = todana:put_many(?TABLE, [{K, {v, K}} || K <- Keys]),
    Sorted = Turn(sorted(Keys)),
    Pairs = [{K, {v, K}} || K <- Sorted],
    IsIn = fun({K, _}) ->
        lies(K, From, [greater, less], Turn) andalso
            lies(K, To, [less, greater], Turn)
    end,
    Inside = lists:filter(IsIn, Pairs),
    Page = fun(Options) -> fun(O) ->
        todana:range(?TABLE, From, To, maps:merge(Options, O))
    end end,
    Limited = #{limit => Limit},
    Backward = Limited#{reverse => true},
    all_equal([
        {count, length(Sorted), todana:count(?TABLE)},
        {range, Inside, pages(Page(Limited))},
        {reverse, lists:reverse(Inside), pages(Page(Backward))},
        {keys, [K || {K, _} <- lists:reverse(Inside)],
         pages(Page(Backward#{keys_only => true}))},
        {fold, Inside, lists:reverse(todana:fold_range(
            fun(K, V, Acc) -> [{K, V} | Acc] end, [], ?TABLE, From, To))},
        {ends, ends(Sorted),
         {todana:first(?TABLE), todana:last(?TABLE)}},
        {scan, sorted(Pairs), sorted(scanned(start))},
        {snapshot, sorted(Pairs), snapshot()}
        | [{step, neighbours(K, Sorted), {todana:prev(?TABLE, K),
                                          todana:next(?TABLE, K)}}
           || K <- Sorted]
    ]).

lies(_Key, End, _Sides, _Turn) when is_atom(End) -> true;
lies(Key, {How, Bound}, [Ascending, Descending], Turn) ->
    Side = case Turn([1, 2]) of [1, 2] -> Ascending; _ -> Descending end,
    case compare(Key, Bound) of
        equal -> How =:= included;
        Compared -> Compared =:= Side
    end.

ends([]) -> {error, error};
ends(Sorted) -> {{ok, hd(Sorted)}, {ok, lists:last(Sorted)}}.

neighbours(Key, Sorted) ->
    {Before, [Key | After]} = lists:splitwith(fun(K) -> K =/= Key end, Sorted),
    {case Before of [] -> error; _ -> {ok, lists:last(Before)} end,
     case After of [] -> error; [Next | _] -> {ok, Next} end}.

all_equal(Checks) ->
    case [Check || {_, Expected, Seen} = Check <- Checks, Expected =/= Seen] of
        [] -> true;
        Differ -> io:format(user, "~tp~n", [Differ]), false
    end.

pages(Page) -> pages(Page, start).

pages(Page, Cursor) ->
    case Page(#{cursor => Cursor}) of
        {Records, done} -> Records;
        {Records, Next} -> Records ++ pages(Page, Next)
    end.

scanned(Cursor) ->
    case todana:scan(?TABLE, Cursor) of
        {Pairs, done} -> Pairs;
        {Pairs, Next} -> Pairs ++ scanned(Next)
    end.

snapshot() ->
    Pair = fun(K, V, Acc) -> [{K, V} | Acc] end,
    {ok, Pairs} = todana:fold_snapshot(Pair, [], ?TABLE),
    sorted(Pairs).

integers_come_before_equal_floats(_Config) ->
    Keys = [0, -0.0, 0.0, 1, 1.0, {1, 1}, {1, 1.0}, {1.0, 1}, {1.0, 1.0}],
    ok = todana:put_many(?TABLE, [{K, K} || K <- lists:reverse(Keys)]),
    ?assertEqual({Keys, done},
                 todana:range(?TABLE, first, last, #{keys_only => true})),
    [?assertEqual({ok, K}, todana:get(?TABLE, K)) || K <- Keys],
    ?assertEqual({[{1.0, 1.0}], done},
                 todana:range(?TABLE, {excluded, 1}, 1.0)),
    ok = todana:delete(?TABLE, 1),
    ?assertEqual(error, todana:get(?TABLE, 1)),
    ?assertEqual({ok, 1.0}, todana:get(?TABLE, 1.0)).

%% -------------------------------------------------------------- prefixes ---

%% Erlang compares these by the internal numbers of the atoms.
maps_in_keys_of_maps_are_like_other_maps(_Config) ->
    [
        begin
            A = #{Greater => 1, Less => 1},
            B = #{Less => 1, <<0>> => 1},
            ?assert(A < B),
            Keys = [#{{x, B} => 1}, #{{y, A} => 1}, #{A => 1}, #{B => 1}],
            ok = todana:put_many(?TABLE, [{K, v} || K <- lists:reverse(Keys)]),
            ?assertEqual(Keys, [K || {K, v} <- todana:to_list(?TABLE)]),
            4 = todana:clear(?TABLE)
        end
     || {Greater, Less} <- [atoms("b", "a"), swapped(atoms("c", "d"))]
    ].

%% The node meets the first of these atoms first.
atoms(First, Second) ->
    Name = atom_to_list(?FUNCTION_NAME) ++ os:getpid(),
    {list_to_atom(Name ++ First), list_to_atom(Name ++ Second)}.

swapped({A, B}) -> {B, A}.

prefixes_of_tuples(_Config) ->
    Users = [{user, User, Item} || User <- [6, 7, 8],
                                   Item <- [-1, a, {x}, [], "l", ~"b"]],
    Others = [user, {user}, {user, 7}, {user, 7, a, b}, {users, 7, a},
              {usee, 7, a}, {{user, 7}, 1}, {{user, 8}, 1}, {{user, 7}, 2},
              {{user, 7, 1}, 1}, {user, 7.0, z}],
    ok = todana:put_many(?TABLE, [{K, v} || K <- Users ++ Others]),
    Of7 = sorted([K || {user, User, _} = K <- Users ++ Others, User == 7]),
    ?assertEqual(7, length(Of7)),
    ?assertEqual(Of7, prefix({user, 7, '_'}, #{})),
    ?assertEqual(lists:reverse(Of7), prefix({user, 7, '_'}, #{reverse => true,
                                                              limit => 2})),
    ?assertEqual(sorted([K || {user, _, _} = K <- Users ++ Others]),
                 prefix({user, '_', '_'}, #{limit => 3})),
    ?assertEqual([{{user, 7}, 1}, {{user, 7}, 2}, {{user, 8}, 1}],
                 prefix({{user, '_'}, '_'}, #{})),
    ?assertEqual([{{user, 7}, 1}, {{user, 7}, 2}],
                 prefix({{user, 7}, '_'}, #{})),
    ?assertEqual([], prefix({user, 9, '_'}, #{})),
    ?assertEqual(sorted(Users ++ Others), prefix('_', #{})),
    ?assertEqual({[{{user}, v}], done}, todana:prefix(?TABLE, {'_'})).

prefixes_of_lists_and_binaries(_Config) ->
    Keys = ["", "a", "ab", "abc", "b", [97 | b], ~"", ~"a", ~"ab",
            <<"ab", 0>>, <<"ab", 1:1>>, ~"ac", <<$a, 0, 1>>, #{'_' => 1}],
    ok = todana:put_many(?TABLE, [{K, v} || K <- Keys]),
    ?assertEqual([[97 | b], "a", "ab", "abc"], prefix([97 | '_'], #{})),
    ?assertEqual(["ab", "abc"], prefix("ab" ++ '_', #{})),
    ?assertEqual(["ab", "abc"], prefix([97, '_' | '_'], #{})),
    ?assertEqual([~"ab", <<"ab", 0>>, <<"ab", 1:1>>], prefix(~"ab", #{})),
    ?assertEqual([<<$a, 0, 1>>], prefix(<<$a, 0>>, #{})),
    ?assertEqual(7, length(prefix(~"", #{}))),
    [
        ?assertEqual({P, #{2 => not_a_prefix}}, {P, cause(prefix, [?TABLE, P])})
     || P <- [{user, 7}, [a], [a, '_'], {'_', 7}, {'_', '_' , a}, 7, a,
              <<1:1>>, #{'_' => 1}, #{a => '_'}, {#{a => '_'}}, {}, []]
    ],
    ?assertEqual([], prefix({#{a => '_'}, '_'}, #{})).

%% Zero bits fill the last byte.
prefixes_of_bitstrings_within_a_byte(_Config) ->
    {ok, S} = todana:subscribe(?TABLE, #{prefix => <<128>>}),
    Keys = [<<1:1>>, <<128>>, <<128, 1:1>>, <<3:2>>, <<0:1>>],
    [ok = todana:put(?TABLE, K, v) || K <- Keys],
    Matching = [<<1:1>>, <<128>>, <<128, 1:1>>],
    ?assertEqual(Matching, prefix(<<128>>, #{})),
    ?assertEqual(Matching, [K || {put, K, _} <- todana:events(S)]),
    ok = todana:unsubscribe(S).

prefix(Prefix, Options) ->
    pages(fun(O) ->
        todana:prefix(?TABLE, Prefix,
                      maps:merge(Options#{keys_only => true}, O))
    end).

words_for_ends_may_be_keys(_Config) ->
    Keys = [first, last, {excluded, 1}, {included, 1}],
    ok = todana:put_many(?TABLE, [{K, v} || K <- Keys]),
    [
        ?assertEqual({[{K, v}], done},
                     todana:range(?TABLE, {included, K}, {included, K}))
     || K <- Keys
    ],
    ?assertEqual({ok, last}, todana:next(?TABLE, first)),
    ?assertEqual({ok, last}, todana:prev(?TABLE, {excluded, 1})).

%% ---------------------------------------------------------- point access ---

every_function_takes_terms(_Config) ->
    T = ?TABLE,
    %% The second value and the last two keys are encoded by a second call.
    Big = maps:from_list([{N, N} || N <- lists:seq(1, 40)]),
    Keys = [{user, 7}, Big, {1 bsl 70, <<1:1>>}, lists:seq(1, 3000)],
    [
        begin
            ok = todana:put(T, K, V),
            ?assertEqual({ok, V}, todana:get(T, K)),
            ?assertEqual(V, todana:get(T, K, none)),
            ?assert(todana:is_key(T, K)),
            {ok, #{value := V, version := Version}} = todana:get_entry(T, K),
            {ok, _} = todana:compare_and_swap(T, K, Version, V),
            ?assertEqual({error, present},
                         todana:put(T, K, V, #{only => absent})),
            ok = todana:expire(T, K, 60_000),
            ok = todana:persist(T, K),
            ?assertEqual({ok, infinity}, todana:ttl(T, K)),
            ?assertEqual(#{K => V}, todana:get_many(T, [K, none])),
            ?assertEqual({ok, V}, todana:fetch(T, K, fun() -> error(x) end)),
            ?assertEqual({ok, K}, todana:first(T)),
            ?assertEqual({[{K, V}], done},
                         todana:range(T, {included, K}, {included, K})),
            ?assertEqual(error, todana:next(T, K)),
            ?assertEqual({ok, [V]},
                         todana:update(T, K, fun({ok, X}) -> {put, [X]} end)),
            ?assertEqual({ok, [V]}, todana:take(T, K)),
            {ok, 3} = todana:update_counter(T, K, 1, #{initial => 2}),
            {ok, 4} = todana:update_counter(T, K, 1),
            ok = todana:put_many(T, [{K, V}, {other, V}], #{atomic => true}),
            ?assertEqual(2, todana:delete_many(T, [K, other, none])),
            ?assertEqual(0, todana:count(T))
        end
     || K <- Keys, V <- [1, Big, binary:copy(~"v", 100_000)]
    ].

large_keys(_Config) ->
    T = ?TABLE,
    Fits = [{lists:duplicate(21_000, 1), $a}, {binary:copy(~"k", 60_000), $b},
            {1 bsl 400_000, 1}, {-(1 bsl 400_000), 1},
            maps:from_list([{N, N} || N <- lists:seq(1, 5_000)]),
            nested(200)],
    ok = todana:put_many(T, [{K, K} || K <- Fits]),
    Sorted = sorted(Fits),
    ?assertEqual(Sorted, pages(fun(O) ->
        todana:range(T, first, last, O#{keys_only => true})
    end)),
    [?assertEqual({ok, K}, todana:get(T, K)) || K <- Fits],
    [?assertEqual({[{K, K}], done}, todana:prefix(T, {element(1, K), '_'}))
     || K <- Fits, tuple_size(K) =:= 2],
    [
        ?assertEqual(#{2 => Cause}, cause(F, [T, K | Rest]))
     || {K, Cause} <- [
            {lists:duplicate(70_000, 1), key_too_long},
            {{binary:copy(~"k", 65_536)}, key_too_long},
            {1 bsl 600_000, key_too_long},
            {erlang:make_tuple(100_000, 1), key_too_long},
            {maps:from_keys(lists:seq(1, 50_000), 1), key_too_long},
            {list_to_atom(lists:duplicate(255, 1)), none},
            {nested(300), key_too_deep}
        ],
        Cause =/= none,
        {F, Rest} <- [{put, [v]}, {get, []}, {next, []},
                      {range, [last]}, {update_counter, [1]}]
    ].

%% Each map copies the bytes of its keys.
nested_maps_are_left_to_dirty_schedulers(_Config) ->
    Bytes = binary:copy(~"k", 60_000),
    Maps = fun(Depth, Inner) ->
        lists:foldl(fun(N, Key) -> #{Key => N} end, Inner, lists:seq(1, Depth))
    end,
    Native = fun(Key) -> todana_nif:ordered_key(?TABLE, Key, false) end,
    ?assertEqual(dirty, Native(Maps(250, Bytes))),
    ?assertEqual(dirty, Native({Maps(100, Bytes), Maps(100, ~"")})),
    ?assert(is_binary(Native(Maps(10, Bytes)))),
    ?assert(is_binary(Native(Maps(250, ~"k")))),
    Deep = Maps(250, Bytes),
    ok = todana:put(?TABLE, Deep, v),
    ?assertEqual({ok, v}, todana:get(?TABLE, Deep)),
    ?assertEqual([{Deep, v}], todana:to_list(?TABLE)),
    ?assertEqual({[{Deep, v}], done},
                 todana:range(?TABLE, {included, Deep}, {included, Deep})).

nested(Depth) ->
    lists:foldl(fun(_, Term) -> {Term} end, x, lists:seq(1, Depth)).

keys_without_an_order_are_refused(_Config) ->
    T = ?TABLE,
    Bare = [self(), make_ref(), fun() -> ok end, fun lists:sort/1,
            hd(erlang:ports())],
    [
        begin
            ?assertEqual(#{2 => no_order}, cause(F, [T, K | Rest])),
            ?assertEqual(error, todana:first(T))
        end
     || Term <- Bare,
        K <- [Term, {a, Term}, [Term], [a | Term], #{Term => 1}, #{a => Term},
              {Term, lists:seq(1, 3000)}, {lists:seq(1, 3000), Term}],
        {F, Rest} <- [{put, [v]}, {get, []}, {put_with, []}]
    ],
    %% In values they may be.
    ok = todana:put(T, a, Bare),
    ?assertEqual({ok, Bare}, todana:get(T, a)).

pages_end_where_the_limit_says(_Config) ->
    %% More bytes of keys than one native call decodes.
    Keys = [{N, binary:copy(~"x", 500)} || N <- lists:seq(1, 300)],
    ok = todana:put_many(?TABLE, [{K, K} || K <- Keys]),
    [
        ?assertEqual(Keys, pages(fun(O) ->
            {Records, _} = Page =
                todana:range(?TABLE, first, last,
                             O#{limit => Limit, keys_only => true}),
            ?assert(length(Records) =< Limit),
            Page
        end))
     || Limit <- [1, 99, 1000]
    ],
    ?assertEqual([{K, K} || K <- Keys], pages(fun(O) ->
        todana:range(?TABLE, first, last, O#{limit => 1000})
    end)).

%% --------------------------------------------------------------- options ---

options(_Config) ->
    {ok, Handle} = todana:open(?TABLE, #{type => ordered_set, codec => term}),
    ?assertMatch(#{type := ordered_set, order := term, codec := term},
                 todana:info(?TABLE)),
    ?assertEqual({ok, Handle}, todana:open(?TABLE, #{
        type => ordered_set, codec => term, order => term
    })),
    ok = todana:close(?TABLE),
    {ok, _} = open(#{order => term_descending}),
    ?assertMatch(#{order := term_descending}, todana:info(?TABLE)),
    ok = todana:close(?TABLE),
    [
        ?assertEqual(#{2 => {needs, {order, Order}, codec, Codec}},
                     cause(open, [?TABLE, #{type => ordered_set,
                                            order => Order, codec => Given}]))
     || {Order, Given, Codec} <- [
            {lexical, term, raw}, {decimal_descending, term, raw},
            {term, raw, term}, {term_descending, raw, term}
        ]
    ],
    ?assertEqual(#{2 => {needs, {order, term}, codec, term}},
                 cause(open, [?TABLE, #{type => ordered_set, order => term}])).

%% The causes that the call reports, by the number of the argument.
cause(put_with, [T, K]) ->
    cause(put, [T, K, v, #{ttl_ms => 1}]);
cause(Function, Arguments) ->
    try
        apply(todana, Function, Arguments)
    catch
        error:badarg:Stack ->
            [{todana, _, _, Location} | _] = Stack,
            #{cause := Cause} = proplists:get_value(error_info, Location),
            #{} = todana_error:format_error(badarg, Stack),
            Cause
    end.

check(Property, Tests) ->
    Options = [{numtests, Tests}, quiet],
    case proper:counterexample(Property, Options) of
        true -> ok;
        Found -> ct:fail("It does not hold for~n~tp", [Found])
    end.
