%% Calls with integer keys and values: Todana beside ETS, in one VM, in
%% interleaved rounds.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -pa EBIN -run calls main CELL_MS ROUNDS PROCESSES KEYS HOT_KEYS
%% Prints one line of JSON for each cell: operation, processes and arm, with the
%% operations per second of each round. The mixed operations read and write
%% HOT_KEYS keys, the others KEYS.
-module(calls).

-export([main/1]).

-define(OPERATIONS,
    [get, is_key, miss, put, update_counter, mixed_90, mixed_50]
).
-define(ARMS, [ets_public, ets_public_write_concurrency, todana]).

-spec main([string()]) -> no_return().
main([CellMs, Rounds, Processes, Keys, HotKeys]) ->
    {ok, _} = application:ensure_all_started(todana),
    Plan = #{
        cell_ms => list_to_integer(CellMs),
        rounds => list_to_integer(Rounds),
        keys => list_to_integer(Keys),
        hot_keys => list_to_integer(HotKeys)
    },
    [
        cell(Operation, list_to_integer(Count), Plan)
     || Operation <- ?OPERATIONS, Count <- string:split(Processes, ",", all)
    ],
    halt(0).

-spec cell(atom(), pos_integer(), map()) -> ok.
cell(Operation, Processes, #{rounds := Rounds, keys := Keys} = Plan) ->
    Tables = [{Arm, fill(new(Arm), Keys)} || Arm <- ?ARMS],
    Measure = fun(Table) -> measure(Operation, Table, Processes, Plan) end,
    [
        rounds:print(#{
            operation => Operation,
            processes => Processes,
            arm => Arm,
            operations_per_second => Samples
        })
     || {Arm, Samples} <- rounds:play(Rounds, Tables, Measure)
    ],
    lists:foreach(fun({_, Table}) -> drop(Table) end, Tables).

-spec new(atom()) -> {ets | todana, atom()}.
new(ets_public) ->
    {ets, ets:new(calls_public, [
        named_table, public, {read_concurrency, true}
    ])};
new(ets_public_write_concurrency) ->
    {ets, ets:new(calls_concurrent, [
        named_table, public,
        {read_concurrency, true}, {write_concurrency, auto},
        {decentralized_counters, true}
    ])};
new(todana) ->
    {ok, _} = todana:open(calls_todana, #{codec => term}),
    {todana, calls_todana}.

-spec fill({ets | todana, atom()}, pos_integer()) -> {ets | todana, atom()}.
fill({ets, Table} = Which, Keys) ->
    [true = ets:insert(Table, {Key, Key}) || Key <- lists:seq(1, Keys)],
    Which;
fill({todana, Table} = Which, Keys) ->
    [ok = todana:put(Table, Key, Key) || Key <- lists:seq(1, Keys)],
    Which.

-spec drop({ets | todana, atom()}) -> ok.
drop({ets, Table}) ->
    true = ets:delete(Table),
    ok;
drop({todana, Table}) ->
    _ = todana:close(Table),
    ok.

-spec measure(atom(), {ets | todana, atom()}, pos_integer(), map()) -> float().
measure(Operation, {Kind, Name}, Processes, #{cell_ms := CellMs} = Plan) ->
    rounds:rate(Processes, CellMs, fun() ->
        {keys(Operation, Plan), fun(Keys) ->
            pass(Operation, Kind, Name, Keys, tuple_size(Keys))
        end}
    end).

%% The keys of one pass, in random order; of the mixed operations each hot key
%% several times.
-spec keys(atom(), map()) -> [integer()].
keys(miss, #{keys := Keys}) ->
    rounds:shuffled([-Key || Key <- lists:seq(1, Keys)]);
keys(Mixed, #{keys := Keys, hot_keys := Hot}) when
    Mixed =:= mixed_90; Mixed =:= mixed_50
->
    rounds:shuffled([1 + Key rem Hot || Key <- lists:seq(1, Keys)]);
keys(_, #{keys := Keys}) ->
    rounds:shuffled(lists:seq(1, Keys)).

-spec pass(atom(), ets | todana, atom(), tuple(), non_neg_integer()) -> ok.
pass(_, _, _, _, 0) ->
    ok;
pass(get, ets, T, Keys, N) ->
    [{_, _}] = ets:lookup(T, element(N, Keys)),
    pass(get, ets, T, Keys, N - 1);
pass(get, todana, T, Keys, N) ->
    {ok, _} = todana:get(T, element(N, Keys)),
    pass(get, todana, T, Keys, N - 1);
pass(is_key, ets, T, Keys, N) ->
    true = ets:member(T, element(N, Keys)),
    pass(is_key, ets, T, Keys, N - 1);
pass(is_key, todana, T, Keys, N) ->
    true = todana:is_key(T, element(N, Keys)),
    pass(is_key, todana, T, Keys, N - 1);
pass(miss, ets, T, Keys, N) ->
    [] = ets:lookup(T, element(N, Keys)),
    pass(miss, ets, T, Keys, N - 1);
pass(miss, todana, T, Keys, N) ->
    error = todana:get(T, element(N, Keys)),
    pass(miss, todana, T, Keys, N - 1);
pass(put, ets, T, Keys, N) ->
    true = ets:insert(T, {element(N, Keys), N}),
    pass(put, ets, T, Keys, N - 1);
pass(put, todana, T, Keys, N) ->
    ok = todana:put(T, element(N, Keys), N),
    pass(put, todana, T, Keys, N - 1);
pass(update_counter, ets, T, Keys, N) ->
    _ = ets:update_counter(T, element(N, Keys), 1),
    pass(update_counter, ets, T, Keys, N - 1);
pass(update_counter, todana, T, Keys, N) ->
    {ok, _} = todana:update_counter(T, element(N, Keys), 1),
    pass(update_counter, todana, T, Keys, N - 1);
pass(mixed_90, Kind, T, Keys, N) when N rem 10 =:= 0 ->
    ok = write(Kind, T, element(N, Keys), N),
    pass(mixed_90, Kind, T, Keys, N - 1);
pass(mixed_50, Kind, T, Keys, N) when N rem 2 =:= 0 ->
    ok = write(Kind, T, element(N, Keys), N),
    pass(mixed_50, Kind, T, Keys, N - 1);
pass(Mixed, Kind, T, Keys, N) ->
    ok = read(Kind, T, element(N, Keys)),
    pass(Mixed, Kind, T, Keys, N - 1).

-spec read(ets | todana, atom(), integer()) -> ok.
read(ets, Table, Key) ->
    [{_, _}] = ets:lookup(Table, Key),
    ok;
read(todana, Table, Key) ->
    {ok, _} = todana:get(Table, Key),
    ok.

-spec write(ets | todana, atom(), integer(), integer()) -> ok.
write(ets, Table, Key, Value) ->
    true = ets:insert(Table, {Key, Value}),
    ok;
write(todana, Table, Key, Value) ->
    todana:put(Table, Key, Value).
