%% What the benchmarks within one VM share: interleaved rounds, and processes
%% that work at the same time.
%%
%% Used by local.erl, calls.erl and ranges.erl.
-module(rounds).

-export([play/3, print/1, rate/3, shuffled/1]).

%% The samples of each arm. The arms are interleaved, so that changes of the
%% machine affect each of them; one round warms up and is not counted.
-spec play(non_neg_integer(), [{Arm, Table}], fun((Table) -> float())) ->
    [{Arm, [float()]}].
play(Rounds, Tables, Measure) ->
    _ = [Measure(Table) || {_, Table} <- Tables],
    Samples = [
        {Arm, Measure(Table)}
     || _ <- lists:seq(1, Rounds), {Arm, Table} <- Tables
    ],
    [
        {Arm, [Sample || {A, Sample} <- Samples, A =:= Arm]}
     || {Arm, _} <- Tables
    ].

%% A cell as a line of JSON.
-spec print(map()) -> ok.
print(Cell) ->
    io:put_chars([json:encode(Cell), $\n]).

%% Operations per second of some processes together. Each prepares its keys, and
%% then passes through all of them again and again for this time.
-spec rate(pos_integer(), pos_integer(), fun(() -> {[term()], Pass})) ->
    float()
when
    Pass :: fun((tuple()) -> ok).
rate(Processes, Ms, Prepare) ->
    Self = self(),
    Workers = [
        spawn_link(fun() ->
            {Keys, Pass} = Prepare(),
            Tuple = list_to_tuple(Keys),
            Self ! {ready, self()},
            receive
                {go, End} ->
                    Started = erlang:monotonic_time(),
                    Count = work(Pass, Tuple, End, 0),
                    Self ! {self(), Count, since(Started)}
            end
        end)
     || _ <- lists:seq(1, Processes)
    ],
    [receive {ready, Worker} -> ok end || Worker <- Workers],
    Unit = erlang:convert_time_unit(Ms, millisecond, native),
    End = erlang:monotonic_time() + Unit,
    [Worker ! {go, End} || Worker <- Workers],
    lists:sum([
        receive
            {Worker, Count, Seconds} -> Count / Seconds
        end
     || Worker <- Workers
    ]).

%% All keys once between two readings of the clock.
-spec work(fun((tuple()) -> ok), tuple(), integer(), integer()) -> integer().
work(Pass, Keys, End, Count) ->
    case erlang:monotonic_time() >= End of
        true ->
            Count;
        false ->
            ok = Pass(Keys),
            work(Pass, Keys, End, Count + tuple_size(Keys))
    end.

-spec since(integer()) -> float().
since(Started) ->
    Elapsed = erlang:monotonic_time() - Started,
    erlang:convert_time_unit(Elapsed, native, nanosecond) / 1.0e9.

-spec shuffled([Key]) -> [Key].
shuffled(Keys) ->
    [Key || {_, Key} <- lists:sort([{rand:uniform(), Key} || Key <- Keys])].
