%% Ordered tables beside hash tables, in one VM, in interleaved rounds.
%%
%% Called by bench/run, which compiles it into a temporary directory:
%%     erl -pa EBIN -run ranges main CELL_MS ROUNDS ENTRIES PAGE
%% Prints one line of JSON for each cell: operation, entries and arm, with the
%% microseconds of each round for one operation. A page has PAGE records of 16
%% byte keys and values.
-module(ranges).

-export([main/1]).

-type table() :: {ets, ets:table()} | {todana, atom()}.

-spec main([string()]) -> no_return().
main([CellMs, Rounds, Entries, Page]) ->
    {ok, _} = application:ensure_all_started(todana),
    Plan = #{
        cell_ms => list_to_integer(CellMs),
        rounds => list_to_integer(Rounds),
        page => list_to_integer(Page)
    },
    [entries(list_to_integer(N), Plan)
     || N <- string:split(Entries, ",", all)],
    halt(0).

-spec entries(pos_integer(), map()) -> ok.
entries(Entries, Plan) ->
    Tables = [{Arm, fill(new(Arm), Entries)} || Arm <- arms()],
    Drawn = [key(rand:uniform(Entries)) || _ <- lists:seq(1, 4096)],
    Keys = list_to_tuple(Drawn),
    lists:foreach(
        fun(Operation) ->
            Chosen = [T || {Arm, _} = T <- Tables, does(Arm, Operation)],
            cell(Operation, Entries, Chosen, Keys, Plan)
        end,
        [get, put, delete_and_put, range, keys, memory]
    ),
    lists:foreach(fun({_, Table}) -> drop(Table) end, Tables).

-spec arms() -> [atom()].
arms() ->
    [todana_hash, todana_ordered, ets_ordered_set].

-spec does(atom(), atom()) -> boolean().
does(todana_hash, Operation) -> Operation =/= range andalso Operation =/= keys;
does(ets_ordered_set, Operation) -> Operation =/= keys;
does(todana_ordered, _Operation) -> true.

-spec new(atom()) -> table().
new(todana_hash) ->
    {ok, _} = todana:open(bench_hash, #{}),
    {todana, bench_hash};
new(todana_ordered) ->
    {ok, _} = todana:open(bench_ordered, #{type => ordered_set}),
    {todana, bench_ordered};
new(ets_ordered_set) ->
    {ets, ets:new(bench_ets, [
        ordered_set, public, {read_concurrency, true}, {write_concurrency, auto}
    ])}.

-spec drop(table()) -> ok.
drop({ets, Table}) ->
    true = ets:delete(Table),
    ok;
drop({todana, Table}) ->
    todana:close(Table).

%% Inserts the keys in random order, as applications do.
-spec fill(table(), pos_integer()) -> table().
fill(Table, Entries) ->
    Shuffled = lists:sort([{rand:uniform(), N} || N <- lists:seq(1, Entries)]),
    lists:foreach(fun({_, N}) -> store(Table, key(N)) end, Shuffled),
    Table.

-spec key(pos_integer()) -> binary().
key(N) ->
    iolist_to_binary(io_lib:format("key:~12..0b", [N])).

-spec cell(atom(), pos_integer(), [{atom(), table()}], tuple(), map()) -> ok.
cell(memory, Entries, Tables, _Keys, _Plan) ->
    lists:foreach(
        fun({Arm, Table}) ->
            Found = [bytes(Table) / Entries],
            print(memory, Entries, Arm, bytes_per_entry, Found)
        end,
        Tables
    );
cell(Operation, Entries, Tables, Keys, #{rounds := Rounds} = Plan) ->
    Measure = fun(Table) -> measure(Operation, Table, Keys, Plan) end,
    lists:foreach(
        fun({Arm, Samples}) ->
            print(Operation, Entries, Arm, us_per_operation, Samples)
        end,
        rounds:play(Rounds, Tables, Measure)
    ).

-spec print(atom(), pos_integer(), atom(), atom(), [float()]) -> ok.
print(Operation, Entries, Arm, Figure, Found) ->
    rounds:print(#{
        operation => Operation,
        entries => Entries,
        arm => Arm,
        Figure => Found
    }).

-spec measure(atom(), table(), tuple(), map()) -> float().
measure(Operation, Table, Keys, #{cell_ms := CellMs, page := Page}) ->
    Unit = erlang:convert_time_unit(CellMs, millisecond, native),
    Started = erlang:monotonic_time(),
    Count = repeat(Operation, Table, Keys, Page, Started + Unit, 1, 0),
    Elapsed = erlang:monotonic_time() - Started,
    erlang:convert_time_unit(Elapsed, native, nanosecond) / 1.0e3 / Count.

%% Sixteen operations between two readings of the clock.
-spec repeat(
    atom(), table(), tuple(), pos_integer(), integer(), pos_integer(),
    non_neg_integer()
) -> pos_integer().
repeat(Operation, Table, Keys, Page, End, At, Count) ->
    Next = sixteen(16, Operation, Table, Keys, Page, At),
    case erlang:monotonic_time() >= End of
        true -> Count + 16;
        false -> repeat(Operation, Table, Keys, Page, End, Next, Count + 16)
    end.

-spec sixteen(
    non_neg_integer(), atom(), table(), tuple(), pos_integer(), pos_integer()
) -> pos_integer().
sixteen(0, _Operation, _Table, _Keys, _Page, At) ->
    At;
sixteen(Left, Operation, Table, Keys, Page, At) ->
    operate(Operation, Table, element(At, Keys), Page),
    Next = At rem tuple_size(Keys) + 1,
    sixteen(Left - 1, Operation, Table, Keys, Page, Next).

-spec operate(atom(), table(), binary(), pos_integer()) -> ok.
operate(get, {todana, Table}, Key, _Page) ->
    {ok, _} = todana:get(Table, Key),
    ok;
operate(get, {ets, Table}, Key, _Page) ->
    [_] = ets:lookup(Table, Key),
    ok;
operate(put, Table, Key, _Page) ->
    store(Table, Key);
operate(delete_and_put, {todana, Name} = Table, Key, _Page) ->
    ok = todana:delete(Name, Key),
    store(Table, Key);
operate(delete_and_put, {ets, Id} = Table, Key, _Page) ->
    true = ets:delete(Id, Key),
    store(Table, Key);
operate(range, {todana, Table}, Key, Page) ->
    {_, _} = todana:range(Table, Key, last, #{limit => Page}),
    ok;
operate(range, {ets, Table}, Key, Page) ->
    %% A match specification would examine all entries before the key.
    next(Table, Key, Page - 1, ets:lookup(Table, Key));
operate(keys, {todana, Table}, Key, Page) ->
    Options = #{limit => Page, keys_only => true},
    {_, _} = todana:range(Table, Key, last, Options),
    ok.

%% Reads a page of an ETS table, entry by entry.
-spec next(ets:table(), binary(), non_neg_integer(), [tuple()]) -> ok.
next(_Table, _Key, 0, _Page) ->
    ok;
next(Table, Key, Left, Page) ->
    case ets:next_lookup(Table, Key) of
        '$end_of_table' -> ok;
        {Next, Found} -> next(Table, Next, Left - 1, Found ++ Page)
    end.

-spec store(table(), binary()) -> ok.
store({todana, Table}, Key) ->
    ok = todana:put(Table, Key, Key);
store({ets, Table}, Key) ->
    true = ets:insert(Table, {Key, Key}),
    ok.

-spec bytes(table()) -> non_neg_integer().
bytes({todana, Table}) ->
    #{bytes := Bytes, index_bytes := IndexBytes} = todana:stats(Table),
    Bytes + IndexBytes;
bytes({ets, Table}) ->
    ets:info(Table, memory) * erlang:system_info(wordsize).
