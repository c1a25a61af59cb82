%% Equal terms have equal bytes, also at nodes that created their atoms in
%% another order.
-module(todana_external_tests).

-include_lib("eunit/include/eunit.hrl").

-export([bytes/1, term/1]).

%% Keys with maps, of which one has two atoms.
-define(PAIRS(A, B, C), [
    {#{A => 1, [] => 1}, one}, {#{B => 1, C => 1}, two}, {x, three}
]).

as_the_runtime_test_() ->
    [
        ?_assertEqual(term_to_binary(Term, [deterministic]),
                      todana_external:bytes(Term))
     || Term <- [
            a, 7, 1.5, ~"a", [], {}, #{}, "abc", [1 | 2], [256, #{}],
            #{b => #{z => 1, a => 2}, a => 1, 1 => x, 1.0 => y},
            #{{a, 1} => 1, [b] => 2}, {self(), make_ref()}, [#{} | #{}],
            maps:from_list([{N, -N} || N <- lists:seq(1, 100)])
        ]
    ].

%% The same terms, inside a map that makes the encoder write them itself.
written_test_() ->
    [
        {lists:flatten(io_lib:format("~0p", [Term])), fun() ->
            Map = #{#{Term => 1} => Term},
            Bytes = todana_external:bytes(Map),
            ?assertEqual(term_to_binary(Map, [deterministic]), Bytes),
            ?assertEqual(Map, binary_to_term(Bytes))
        end}
     || Term <- [
            a, 7, 1.5, ~"a", [], {}, #{}, "abc", [1 | 2], [1, 2 | ~"a"],
            [256, #{}], [#{} | #{}], {a, "b", {c}}, {self(), make_ref()},
            lists:duplicate(16#ffff, 1), lists:duplicate(16#10000, 1),
            list_to_tuple(lists:seq(1, 255)), list_to_tuple(lists:seq(1, 256)),
            #{1 => x, 1.0 => y, a => #{}, 0.0 => p, -0.0 => n},
            maps:from_list([{N, -N} || N <- lists:seq(1, 100)])
        ]
    ].

nested_keys_are_read_again_test() ->
    Map = maps:from_list(?PAIRS(a, b, c)),
    Terms = [Map, {[Map], Map}, #{Map => Map}, #{{Map} => [Map | Map]}],
    [?assertEqual(T, binary_to_term(todana_external:bytes(T))) || T <- Terms].

%% Each node begins without the atoms, and creates them in this order.
the_same_at_each_node_test_() ->
    {timeout, 60, fun() ->
        Names = ["ext1a", "ext1ab", "ext10"],
        Orders = [
            [lists:nth(N, Names) || N <- Order]
         || Order <- [[1, 2, 3], [3, 2, 1], [2, 3, 1]]
        ],
        [One, Two, Three] = [at_new_node(Order, Names) || Order <- Orders],
        ?assertEqual(One, Two),
        ?assertEqual(One, Three)
    end}.

at_new_node(Order, Names) ->
    {ok, Peer, _Node} = peer:start_link(#{
        connection => standard_io,
        args => ["-pa", filename:dirname(code:which(todana_external)),
                 "-pa", filename:dirname(code:which(?MODULE))]
    }),
    try
        [peer:call(Peer, erlang, list_to_atom, [Name]) || Name <- Order],
        peer:call(Peer, ?MODULE, bytes, [Names])
    after
        peer:stop(Peer)
    end.

bytes(Names) ->
    Term = term(Names),
    [todana_external:bytes(Term), todana_scope_records:name_key(Term)].

term(Names) ->
    [A, B, C] = [list_to_atom(Name) || Name <- Names],
    {user, maps:from_list(?PAIRS(A, B, C))}.
