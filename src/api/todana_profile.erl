-module(todana_profile).
-moduledoc """
A start/stop profiler: counts the calls of a label and measures their time. A
measurement costs a fraction of a microsecond and sends no message.

    todana_profile:start(insert),
    ...
    todana_profile:stop(insert),

    todana_profile:run({lookup, Table}, fun() -> lookup(Table, Key) end),
    io:put_chars(todana_profile:format(todana_profile:report())).

A label is any term. `start/1` and `stop/1` form a pair within one process.
Pairs may be nested, even with the same label. If an exception skips an inner
`stop/1`, stopping the outer pair drops the inner call. If a process dies before
it calls `stop/1`, the call is not counted.

`run/2` stops the measurement even if the function raises. Use it if an
exception is possible and no outer pair would drop the call, because a start
that is never stopped stays in the process.

Each label has an array of counters, found through a persistent term: calls,
nanoseconds, and a histogram with sixteen buckets per doubling, so percentiles
are accurate within 3.2 %. The first use of a label creates the array. Labels
exist for the life of the node and take about 5 KB per scheduler: use few of
them.
""".

-export([start/1, stop/1, run/2, report/0, reset/0, format/1]).
-ifdef(TEST).
-export([count/2, bucket/1, middle/1]).
-endif.
%% The shell calls it to explain an exception.
-export([format_error/2]).

-export_type([label/0, row/0]).

-doc "The name of a measurement.".
-type label() :: term().
-doc "The figures of a label. The time of a call includes nested calls.".
-type row() :: #{
    label := label(),
    calls := pos_integer(),
    seconds := float(),
    mean_us := float(),
    p50_us := float(),
    p99_us := float()
}.

-define(OPEN, '$todana_profile').
-define(KEY(Label), {?MODULE, Label}).

%% Counters of a label: calls, nanoseconds, buckets of the histogram.
-define(CALLS, 1).
-define(NANOSECONDS, 2).
-define(FIRST_BUCKET, 3).
%% Below 2^STEP_BITS nanoseconds, each nanosecond has its own bucket; above,
%% each doubling has 2^STEP_BITS buckets.
-define(STEP_BITS, 4).
-define(STEPS, (1 bsl ?STEP_BITS)).
%% Up to 2^44 nanoseconds, five hours; longer calls count as five hours.
-define(BITS, 44).
-define(BUCKETS, ((?BITS - ?STEP_BITS + 1) * ?STEPS)).

-doc "Begins a call.".
-spec start(label()) -> ok.
start(Label) ->
    Open =
        case get(?OPEN) of
            undefined -> [];
            Before -> Before
        end,
    put(?OPEN, [Label, erlang:monotonic_time() | Open]),
    ok.

-doc "Ends the most recent call of this process with this label.".
-spec stop(label()) -> ok.
stop(Label) ->
    Now = erlang:monotonic_time(),
    case begun(Label, get(?OPEN)) of
        {Started, Around} ->
            put(?OPEN, Around),
            count(Label, Now - Started);
        not_begun ->
            error(badarg, [Label], [{error_info, #{}}])
    end.

%% The start time of the innermost call of this label, and the calls around it.
%% Calls inside it were not stopped and are dropped.
-spec begun(label(), list() | undefined) -> {integer(), list()} | not_begun.
begun(Label, [Label, Started | Around]) -> {Started, Around};
begun(Label, [_Inside, _Started | Around]) -> begun(Label, Around);
begun(_Label, _NothingOpen) -> not_begun.

-doc false.
-spec format_error(badarg, erlang:stacktrace()) ->
    #{pos_integer() => unicode:chardata()}.
format_error(badarg, _Stacktrace) ->
    #{1 => <<"this process has not started it, or not inside this run/2">>}.

-doc """
Measures a function, even if it raises. Calls that the function starts and does
not stop are dropped, and it cannot stop a call that was started outside it.
""".
-spec run(label(), fun(() -> Result)) -> Result.
run(Label, Function) when is_function(Function, 0) ->
    Around = put(?OPEN, []),
    Started = erlang:monotonic_time(),
    try
        Function()
    after
        Elapsed = erlang:monotonic_time() - Started,
        _ = case Around of
            undefined -> erase(?OPEN);
            _ -> put(?OPEN, Around)
        end,
        count(Label, Elapsed)
    end.

-spec count(label(), integer()) -> ok.
count(Label, Elapsed) ->
    Counters =
        case persistent_term:get(?KEY(Label), none) of
            none -> new(Label);
            Known -> Known
        end,
    Nanoseconds = erlang:convert_time_unit(Elapsed, native, nanosecond),
    counters:add(Counters, ?CALLS, 1),
    counters:add(Counters, ?NANOSECONDS, Nanoseconds),
    counters:add(Counters, ?FIRST_BUCKET + bucket(Nanoseconds), 1).

%% If two processes use a new label at the same time, both get the first array.
-spec new(label()) -> counters:counters_ref().
new(Label) ->
    New = counters:new(?FIRST_BUCKET + ?BUCKETS, [write_concurrency]),
    try
        persistent_term:put_new(?KEY(Label), New),
        New
    catch
        error:badarg -> persistent_term:get(?KEY(Label))
    end.

%% The index of a time's bucket, from 0.
-spec bucket(non_neg_integer()) -> non_neg_integer().
bucket(Nanoseconds) when Nanoseconds < ?STEPS ->
    max(Nanoseconds, 0);
bucket(Nanoseconds) when Nanoseconds < 1 bsl ?BITS ->
    Shift = bits(Nanoseconds) - ?STEP_BITS - 1,
    Shift * ?STEPS + (Nanoseconds bsr Shift);
bucket(_Nanoseconds) ->
    ?BUCKETS - 1.

%% Number of bits of a positive number, by halving.
-spec bits(pos_integer()) -> pos_integer().
bits(N) when N >= 1 bsl 32 -> 32 + bits(N bsr 32);
bits(N) when N >= 1 bsl 16 -> 16 + bits(N bsr 16);
bits(N) when N >= 1 bsl 8 -> 8 + bits(N bsr 8);
bits(N) when N >= 1 bsl 4 -> 4 + bits(N bsr 4);
bits(N) when N >= 1 bsl 2 -> 2 + bits(N bsr 2);
bits(1) -> 1;
bits(_) -> 2.

%% The middle of a bucket, in nanoseconds.
-spec middle(non_neg_integer()) -> float().
middle(Bucket) when Bucket < ?STEPS ->
    float(Bucket);
middle(Bucket) ->
    Shift = Bucket div ?STEPS - 1,
    Width = 1 bsl Shift,
    (Bucket rem ?STEPS + ?STEPS) * Width + (Width - 1) / 2.

-doc """
The labels that were called, in descending order of total time. A call that ends
while the counters are read may be counted in one figure and not in another.
""".
-spec report() -> [row()].
report() ->
    %% Read only once: a concurrent reset must not leave a row without calls.
    Rows = [
        row(Label, Calls, Counters)
     || {Label, Counters} <- labels(),
        Calls <- [counters:get(Counters, ?CALLS)],
        Calls > 0
    ],
    Order = fun(#{seconds := Seconds, label := Label}) -> {-Seconds, Label} end,
    lists:sort(fun(A, B) -> Order(A) =< Order(B) end, Rows).

-spec labels() -> [{label(), counters:counters_ref()}].
labels() ->
    [{Label, Counters} || {?KEY(Label), Counters} <- persistent_term:get()].

-spec row(label(), pos_integer(), counters:counters_ref()) -> row().
row(Label, Calls, Counters) ->
    Nanoseconds = counters:get(Counters, ?NANOSECONDS),
    Histogram = [
        {Bucket, Count}
     || Bucket <- lists:seq(0, ?BUCKETS - 1),
        Count <- [counters:get(Counters, ?FIRST_BUCKET + Bucket)],
        Count > 0
    ],
    #{
        label => Label,
        calls => Calls,
        seconds => Nanoseconds / 1.0e9,
        mean_us => Nanoseconds / Calls / 1.0e3,
        p50_us => percentile(50, Histogram),
        p99_us => percentile(99, Histogram)
    }.

%% A percentile of the times of calls, in microseconds.
-spec percentile(pos_integer(), [{non_neg_integer(), pos_integer()}]) ->
    float().
percentile(Percent, Histogram) ->
    Calls = lists:sum([Count || {_, Count} <- Histogram]),
    percentile_from((Percent * Calls + 99) div 100, Histogram).

-spec percentile_from(
    non_neg_integer(), [{non_neg_integer(), pos_integer()}]
) -> float().
percentile_from(Left, [{Bucket, Count} | Rest]) when
    Count >= Left; Rest =:= []
->
    middle(Bucket) / 1.0e3;
percentile_from(Left, [{_Bucket, Count} | Rest]) ->
    percentile_from(Left - Count, Rest);
percentile_from(_Left, []) ->
    0.0.

-doc "Sets all counters to zero. Calls in progress are counted when they end.".
-spec reset() -> ok.
reset() ->
    lists:foreach(
        fun({_Label, Counters}) ->
            #{size := Size} = counters:info(Counters),
            lists:foreach(
                fun(At) -> counters:put(Counters, At, 0) end,
                lists:seq(1, Size)
            )
        end,
        labels()
    ).

-doc "A report as a table of text, for `io:put_chars/1`.".
-spec format([row()]) -> unicode:chardata().
format(Rows) ->
    Heads = ["label", "seconds", "calls", "mean us", "p50 us", "p99 us"],
    Lines = [Heads | [cells(Row) || Row <- Rows]],
    Widths = lists:foldl(
        fun(Line, Widest) -> lists:zipwith(fun max/2, widths(Line), Widest) end,
        widths(Heads),
        Lines
    ),
    [line(lists:zip(Line, Widths)) || Line <- Lines].

-spec cells(row()) -> [string()].
cells(#{label := Label, seconds := Seconds, calls := Calls} = Row) ->
    Us = [maps:get(Name, Row) || Name <- [mean_us, p50_us, p99_us]],
    [
        lists:flatten(io_lib:format("~0tp", [Label])),
        float_to_list(Seconds, [{decimals, 6}]),
        integer_to_list(Calls)
        | [float_to_list(Figure, [{decimals, 3}]) || Figure <- Us]
    ].

-spec widths([string()]) -> [non_neg_integer()].
widths(Line) ->
    [string:length(Cell) || Cell <- Line].

%% The label is aligned to the left, figures to the right.
-spec line([{string(), non_neg_integer()}]) -> unicode:chardata().
line([{Label, Width} | Figures]) ->
    [
        string:pad(Label, Width),
        [["  ", string:pad(Cell, W, leading)] || {Cell, W} <- Figures],
        $\n
    ].
