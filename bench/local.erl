%% Local reads and writes: Todana beside ETS, in one VM, in interleaved rounds.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -pa EBIN -run local main CELL_MS ROUNDS SIZES PROCESSES KEYS
%% Prints one line of JSON for each cell: operation, value size, processes and
%% arm, with the operations per second of each round.
-module(local).

-export([main/1]).

-spec main([string()]) -> no_return().
main([CellMs, Rounds, Sizes, Processes, Keys]) ->
    {ok, _} = application:ensure_all_started(todana),
    Plan = #{
        cell_ms => list_to_integer(CellMs),
        rounds => list_to_integer(Rounds),
        keys => list_to_integer(Keys)
    },
    [
        cell(Operation, Size, Count, Plan)
     || Operation <- [read, write],
        Size <- integers(Sizes),
        Count <- integers(Processes)
    ],
    halt(0).

-spec integers(string()) -> [integer()].
integers(Text) ->
    [list_to_integer(Part) || Part <- string:split(Text, ",", all)].

-spec cell(read | write, pos_integer(), pos_integer(), map()) -> ok.
cell(Operation, Size, Processes, #{rounds := Rounds} = Plan) ->
    Tables = [{Arm, fill(Arm, Size, Plan)} || Arm <- arms(Operation)],
    Measure = fun(Table) ->
        measure(Operation, Table, Size, Processes, Plan)
    end,
    [
        rounds:print(#{
            operation => Operation,
            value_bytes => Size,
            processes => Processes,
            arm => Arm,
            operations_per_second => Samples
        })
     || {Arm, Samples} <- rounds:play(Rounds, Tables, Measure)
    ],
    lists:foreach(fun({_, Table}) -> drop(Table) end, Tables).

-spec arms(read | write) -> [atom()].
arms(read) -> [ets_protected, todana_name, todana_handle];
arms(write) -> [ets_public, ets_public_write_concurrency, todana_name].

-spec fill(atom(), pos_integer(), map()) -> term().
fill(Arm, Size, #{keys := Keys}) ->
    Table = new(Arm),
    [ok = put(Table, key(N), value(Size)) || N <- lists:seq(1, Keys)],
    Table.

-spec new(atom()) -> term().
new(ets_protected) ->
    {ets, ets:new(bench_protected, [
        named_table, protected, {read_concurrency, true}
    ])};
new(ets_public) ->
    {ets, ets:new(bench_public, [
        named_table, public, {read_concurrency, true}
    ])};
new(ets_public_write_concurrency) ->
    {ets, ets:new(bench_concurrent, [
        named_table, public,
        {read_concurrency, true}, {write_concurrency, auto}
    ])};
new(todana_name) ->
    {ok, _} = todana:open(bench_name, #{codec => raw}),
    {todana, bench_name};
new(todana_handle) ->
    {ok, Handle} = todana:open(bench_handle, #{codec => raw}),
    {todana, Handle}.

-spec drop(term()) -> ok.
drop({ets, Table}) ->
    true = ets:delete(Table),
    ok;
drop({todana, Table}) ->
    _ = todana:close(Table),
    ok.

-spec put(term(), binary(), binary()) -> ok.
put({ets, Table}, Key, Value) ->
    true = ets:insert(Table, {Key, Value}),
    ok;
put({todana, Table}, Key, Value) ->
    todana:put(Table, Key, Value).

-spec key(pos_integer()) -> binary().
key(N) ->
    iolist_to_binary(io_lib:format("key:~12..0b", [N])).

-spec value(pos_integer()) -> binary().
value(Size) ->
    binary:copy(<<"x">>, Size).

-spec measure(read | write, term(), pos_integer(), pos_integer(), map()) ->
    float().
measure(Operation, Table, Size, Processes, Plan) ->
    #{cell_ms := CellMs, keys := Keys} = Plan,
    rounds:rate(Processes, CellMs, fun() ->
        Value = value(Size),
        Names = rounds:shuffled([key(N) || N <- lists:seq(1, Keys)]),
        {Names, fun(Tuple) ->
            pass(Operation, Table, Tuple, Value, tuple_size(Tuple))
        end}
    end).

-spec pass(atom(), term(), tuple(), binary(), non_neg_integer()) -> ok.
pass(read, {ets, Table}, Names, _, N) -> read_ets(Table, Names, N);
pass(read, {todana, Table}, Names, _, N) -> read_todana(Table, Names, N);
pass(write, {ets, T}, Names, Value, N) -> write_ets(T, Names, Value, N);
pass(write, {todana, T}, Names, Value, N) -> write_todana(T, Names, Value, N).

-spec read_ets(ets:table(), tuple(), non_neg_integer()) -> ok.
read_ets(_, _, 0) ->
    ok;
read_ets(Table, Names, N) ->
    [{_, Value}] = ets:lookup(Table, element(N, Names)),
    true = is_binary(Value),
    read_ets(Table, Names, N - 1).

-spec read_todana(term(), tuple(), non_neg_integer()) -> ok.
read_todana(_, _, 0) ->
    ok;
read_todana(Table, Names, N) ->
    {ok, Value} = todana:get(Table, element(N, Names)),
    true = is_binary(Value),
    read_todana(Table, Names, N - 1).

-spec write_ets(ets:table(), tuple(), binary(), non_neg_integer()) -> ok.
write_ets(_, _, _, 0) ->
    ok;
write_ets(Table, Names, Value, N) ->
    true = ets:insert(Table, {element(N, Names), Value}),
    write_ets(Table, Names, Value, N - 1).

-spec write_todana(term(), tuple(), binary(), non_neg_integer()) -> ok.
write_todana(_, _, _, 0) ->
    ok;
write_todana(Table, Names, Value, N) ->
    ok = todana:put(Table, element(N, Names), Value),
    write_todana(Table, Names, Value, N - 1).
