%% Random commands, with both codecs: the API must return the same results as a
%% model that uses a map.
-module(todana_model_SUITE).

-include_lib("proper/include/proper.hrl").
-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([raw_is_like_a_map/1, term_is_like_a_map/1, keys_are_canonical/1,
         atomic_writes_are_whole/1]).
%% PropEr
-export([initial_state/0, command/1, precondition/2, postcondition/3,
         next_state/3]).
%% Called by the commands
-export([put/3, put/4, get/2, entry/2, take/2, delete/2, is_key/2, count/3,
         put_many/3, get_many/2, delete_many/2, all_of/1, snapshot/1, clear/1,
         size_of/1, persist/2, swap/3, update/3]).

-define(TABLE, model).

all() ->
    [
        raw_is_like_a_map,
        term_is_like_a_map,
        keys_are_canonical,
        atomic_writes_are_whole
    ].

init_per_suite(Config) ->
    {ok, Started} = application:ensure_all_started(todana),
    [{started, Started} | Config].

end_per_suite(Config) ->
    [application:stop(A) || A <- proplists:get_value(started, Config)].

raw_is_like_a_map(_Config) ->
    check(like_a_map(raw), 500).

term_is_like_a_map(_Config) ->
    check(like_a_map(term), 500).

keys_are_canonical(_Config) ->
    {ok, _} = todana:open(?TABLE, #{codec => term}),
    check(?FORALL({A, B}, {any(), any()}, canonical(A, B)), 2000),
    %% Equal maps, built in a different order, and similar terms.
    Many = maps:from_list([{{k, N}, N} || N <- lists:seq(1, 100)]),
    Again = maps:from_list([{{k, N}, N} || N <- lists:seq(100, 1, -1)]),
    Grown = maps:remove(x, maps:merge(#{x => 1}, Again)),
    [?assert(canonical(A, B)) || A <- [Many], B <- [Again, Grown]],
    Near = [0, 0.0, -0.0, 1, 1.0, '1', ~"1", "1", [1], {1}, <<1>>, <<1:1>>,
            [], {}, '', ~"", #{}, #{1 => 1}, #{1.0 => 1}, {[]}, 1 bsl 63,
            -(1 bsl 63), (1 bsl 63) - 1, <<131, 97, 1>>, [#{}], {#{a => 1}}],
    [?assert(canonical(A, B)) || A <- Near, B <- Near],
    ok = todana:close(?TABLE).

canonical(A, B) ->
    _ = todana:clear(?TABLE),
    ok = todana:put(?TABLE, A, a),
    ok = todana:put(?TABLE, B, b),
    Count =
        case A =:= B of
            true -> 1;
            false -> 2
        end,
    Keys = todana:fold(fun(K, _, Acc) -> [K | Acc] end, [], ?TABLE),
    Count =:= todana:count(?TABLE) andalso
        {ok, b} =:= todana:get(?TABLE, B) andalso
        lists:sort(fun before/2, Keys) =:=
            lists:sort(fun before/2, exactly_unique([A, B])).

%% A total order in which 1 differs from 1.0, and 0.0 from -0.0.
before(A, B) ->
    term_to_binary(A, [deterministic]) =< term_to_binary(B, [deterministic]).

exactly_unique([A, B]) when A =:= B -> [A];
exactly_unique(AB) -> AB.

atomic_writes_are_whole(_Config) ->
    {ok, _} = todana:open(?TABLE, #{codec => term}),
    Keys = lists:seq(1, 20),
    Me = self(),
    Writers = [
        spawn_link(fun() ->
            [
                ok = todana:put_many(?TABLE, [{K, {W, N}} || K <- Keys],
                                     #{atomic => true})
             || N <- lists:seq(1, 1000)
            ],
            Me ! {done, self()}
        end)
     || W <- lists:seq(1, 4)
    ],
    watch(Keys, Writers),
    %% The writer of the last batch wrote all keys.
    ?assertMatch([_], lists:usort(maps:values(todana:get_many(?TABLE, Keys)))),
    ok = todana:close(?TABLE).

%% A snapshot is from one point in time: it must not show part of a write.
watch(_Keys, []) ->
    ok;
watch(Keys, Writers) ->
    Collect = fun(_, V, Acc) -> [V | Acc] end,
    {ok, Values} = todana:fold_snapshot(Collect, [], ?TABLE),
    ?assert(length(lists:usort(Values)) =< 1),
    receive
        {done, Pid} -> watch(Keys, Writers -- [Pid])
    after 0 -> watch(Keys, Writers)
    end.

check(Property, Times) ->
    Options = [{numtests, Times}, quiet, {max_size, 30}],
    case proper:counterexample(Property, Options) of
        true -> ok;
        Found -> ct:fail("It does not hold for~n~p", [Found])
    end.

%% ----------------------------------------------------------------- model ---

like_a_map(Codec) ->
    ?FORALL(
        Commands,
        commands(?MODULE, {Codec, #{}}),
        begin
            {ok, _} = todana:open(?TABLE, #{codec => Codec, shards => 8}),
            {History, State, Result} = run_commands(?MODULE, Commands),
            ok = todana:close(?TABLE),
            ?WHENFAIL(
                io:format(user, "~p~n~p~n~p~n", [Commands, History, State]),
                Result =:= ok
            )
        end
    ).

initial_state() ->
    {term, #{}}.

key(raw) -> elements([~"", ~"a", ~"b", ~"c", ~"10", <<0>>, <<1>>, <<131>>]);
key(term) ->
    elements([~"", a, 1, 1.0, "b", {c}, #{d => 1}, ~"1", '1', <<1:1>>]).

value(raw) ->
    ?LET(Size, elements([0, 1, 64, 65, 255, 256, 1000]),
         ?LET(N, integer(0, 255), binary:copy(<<N>>, Size)));
value(term) ->
    oneof([any(), value(raw), integer(-5, 5)]).

command({Codec, _}) ->
    T = ?TABLE,
    K = key(Codec),
    V = value(Codec),
    oneof([
        {call, ?MODULE, put, [T, K, V]},
        {call, ?MODULE, put, [T, K, V]},
        {call, ?MODULE, put, [T, K, V, elements([absent, present])]},
        {call, ?MODULE, get, [T, K]},
        {call, ?MODULE, entry, [T, K]},
        {call, ?MODULE, take, [T, K]},
        {call, ?MODULE, delete, [T, K]},
        {call, ?MODULE, is_key, [T, K]},
        {call, ?MODULE, count, [T, K, integer(-3, 3)]},
        {call, ?MODULE, swap, [T, K, V]},
        {call, ?MODULE, persist, [T, K]},
        {call, ?MODULE, update, [T, K, decision(V)]},
        {call, ?MODULE, put_many, [T, list({K, V}), boolean()]},
        {call, ?MODULE, get_many, [T, list(K)]},
        {call, ?MODULE, delete_many, [T, list(K)]},
        {call, ?MODULE, all_of, [T]},
        {call, ?MODULE, snapshot, [T]},
        {call, ?MODULE, size_of, [T]},
        {call, ?MODULE, clear, [T]}
    ]).

decision(V) ->
    oneof([{put, V}, delete, keep, {error, why}, twice]).

put(T, K, V) -> todana:put(T, K, V).
put(T, K, V, Only) -> todana:put(T, K, V, #{only => Only}).
get(T, K) -> todana:get(T, K).
take(T, K) -> todana:take(T, K).
delete(T, K) -> todana:delete(T, K).
is_key(T, K) -> todana:is_key(T, K).
count(T, K, N) -> todana:update_counter(T, K, N, #{initial => 10}).
persist(T, K) -> todana:persist(T, K).
put_many(T, Pairs, Atomic) -> todana:put_many(T, Pairs, #{atomic => Atomic}).
get_many(T, Keys) -> todana:get_many(T, Keys).
delete_many(T, Keys) -> todana:delete_many(T, Keys).
size_of(T) -> todana:count(T).
clear(T) -> todana:clear(T).

entry(T, K) ->
    case todana:get_entry(T, K) of
        {ok, #{value := V, flags := 0, expires_at_ms := infinity}} -> {ok, V};
        error -> error
    end.

swap(T, K, V) ->
    case todana:get_entry(T, K) of
        {ok, #{version := Version}} ->
            {error, version_differs} =
                todana:compare_and_swap(T, K, Version + 1, V),
            {ok, New} = todana:compare_and_swap(T, K, Version, V),
            New > Version;
        error ->
            todana:compare_and_swap(T, K, 1, V)
    end.

%% `twice' doubles what is there.
update(T, K, twice) ->
    Twice = fun(V) -> <<(bytes(V))/binary, (bytes(V))/binary>> end,
    todana:update(T, K, fun
        ({ok, V}) -> {put, Twice(V)};
        (error) -> {put, ~"none"}
    end);
update(T, K, Decision) ->
    todana:update(T, K, fun(_) -> Decision end).

bytes(V) when is_binary(V), byte_size(V) < 100 -> V;
bytes(_) -> ~"other".

all_of(T) ->
    todana:fold(fun(K, V, Acc) -> [{K, V} | Acc] end, [], T).

snapshot(T) ->
    {ok, All} =
        todana:fold_snapshot(fun(K, V, Acc) -> [{K, V} | Acc] end, [], T),
    All.

precondition(_State, _Call) ->
    true.

postcondition({Codec, Map}, {call, _, Name, [_ | Arguments]}, Result) ->
    {Expected, _} = model(Name, Arguments, Codec, Map),
    case Name of
        _ when Name =:= all_of; Name =:= snapshot ->
            maps:from_list(Result) =:= Map andalso
                length(Result) =:= map_size(Map);
        _ ->
            Result =:= Expected
    end.

next_state({Codec, Map}, _Result, {call, _, Name, [_ | Arguments]}) ->
    {_, Next} = model(Name, Arguments, Codec, Map),
    {Codec, Next}.

%% The model: the result of a command, and the next map.
model(put, [K, V], _, M) ->
    {ok, M#{K => V}};
model(put, [K, V, absent], _, M) ->
    case M of
        #{K := _} -> {{error, present}, M};
        #{} -> {ok, M#{K => V}}
    end;
model(put, [K, V, present], _, M) ->
    case M of
        #{K := _} -> {ok, M#{K := V}};
        #{} -> {{error, absent}, M}
    end;
model(Name, [K], _, M) when Name =:= get; Name =:= entry ->
    {maps:find(K, M), M};
model(take, [K], _, M) ->
    {maps:find(K, M), maps:remove(K, M)};
model(delete, [K], _, M) ->
    {found(K, M), maps:remove(K, M)};
model(persist, [K], _, M) ->
    {found(K, M), M};
model(is_key, [K], _, M) ->
    {is_map_key(K, M), M};
model(count, [K, N], Codec, M) ->
    case number(Codec, maps:get(K, M, none)) of
        none -> {{ok, 10 + N}, M#{K => number_value(Codec, 10 + N)}};
        error -> {{error, not_an_integer}, M};
        Old -> {{ok, Old + N}, M#{K := number_value(Codec, Old + N)}}
    end;
model(swap, [K, V], _, M) ->
    case M of
        #{K := _} -> {true, M#{K := V}};
        #{} -> {{error, absent}, M}
    end;
model(update, [K, twice], _, M) ->
    New =
        case M of
            #{K := V} -> <<(bytes(V))/binary, (bytes(V))/binary>>;
            #{} -> ~"none"
        end,
    {{ok, New}, M#{K => New}};
model(update, [K, {put, V}], _, M) ->
    {{ok, V}, M#{K => V}};
model(update, [K, delete], _, M) ->
    {ok, maps:remove(K, M)};
model(update, [_, keep], _, M) ->
    {ok, M};
model(update, [_, {error, _} = Error], _, M) ->
    {Error, M};
model(put_many, [Pairs, _], _, M) ->
    {ok, maps:merge(M, maps:from_list(Pairs))};
model(get_many, [Keys], _, M) ->
    {maps:with(Keys, M), M};
model(delete_many, [Keys], _, M) ->
    Rest = maps:without(Keys, M),
    {map_size(M) - map_size(Rest), Rest};
model(Name, [], _, M) when Name =:= all_of; Name =:= snapshot ->
    {M, M};
model(size_of, [], _, M) ->
    {map_size(M), M};
model(clear, [], _, M) ->
    {map_size(M), #{}}.

found(K, M) ->
    case is_map_key(K, M) of
        true -> ok;
        false -> error
    end.

number(_, none) -> none;
number(term, N) when is_integer(N), abs(N) < 1 bsl 62 -> N;
number(raw, Text) ->
    try binary_to_integer(Text) of
        N when abs(N) < 1 bsl 62 ->
            case integer_to_binary(N) of
                Text -> N;
                _ -> error
            end;
        _TooLong ->
            error
    catch
        error:badarg -> error
    end;
number(_, _) -> error.

number_value(term, N) -> N;
number_value(raw, N) -> integer_to_binary(N).
