%% Families of metrics in the text format of Prometheus, version 0.0.4.
-module(todana_metrics_text).
-moduledoc false.

-export([text/1, content_type/0]).

-export_type([family/0, sample/0, histogram/0]).

-type labels() :: [{Name :: atom(), Value :: binary() | atom() | integer()}].
-type sample() :: {labels(), number() | histogram()}.
%% Counts by power of two of microseconds: the first one is of durations up to
%% one microsecond.
-type histogram() :: #{counts := [non_neg_integer()], seconds := number()}.
-type family() :: {
    Name :: binary(), counter | gauge | histogram | summary,
    Help :: unicode:chardata(), [sample()]
}.

%% The bounds of buckets are 1, 2, 4 .. microseconds, up to 8.4 seconds.
-define(BUCKETS, 24).

-doc "The value of the header Content-Type.".
-spec content_type() -> binary().
content_type() -> ~"text/plain; version=0.0.4; charset=utf-8".

-doc "The lines of these families. Families without samples have none.".
-spec text([family()]) -> iodata().
text(Families) ->
    [
        [
            ["# HELP ", Name, $\s, escape(Help, help), $\n],
            ["# TYPE ", Name, $\s, atom_to_binary(Type), $\n],
            [sample(Name, Sample) || Sample <- Samples]
        ]
     || {Name, Type, Help, [_ | _] = Samples} <- Families
    ].

-spec sample(binary(), sample()) -> iodata().
sample(Name, {Labels, #{counts := Counts, seconds := Seconds}}) ->
    {Low, High} = lists:split(min(?BUCKETS, length(Counts)), Counts),
    {Buckets, Below} = lists:mapfoldl(
        fun(Power, {Sum, Rest}) ->
            {Count, Left} = pop(Rest),
            Bound = (1 bsl Power) / 1_000_000,
            Text = float_to_binary(Bound, [{decimals, 6}, compact]),
            {{Text, Sum + Count}, {Sum + Count, Left}}
        end,
        {0, Low},
        lists:seq(0, ?BUCKETS - 1)
    ),
    {Sum, []} = Below,
    Calls = Sum + lists:sum(High),
    [
        [
            line([Name, "_bucket"], Labels ++ [{le, Bound}], Count)
         || {Bound, Count} <- Buckets ++ [{~"+Inf", Calls}]
        ],
        line([Name, "_sum"], Labels, Seconds),
        line([Name, "_count"], Labels, Calls)
    ];
sample(Name, {Labels, Value}) ->
    line(Name, Labels, Value).

-spec pop([non_neg_integer()]) -> {non_neg_integer(), [non_neg_integer()]}.
pop([Count | Rest]) -> {Count, Rest};
pop([]) -> {0, []}.

-spec line(iodata(), labels(), number()) -> iodata().
line(Name, Labels, Value) ->
    [Name, labels(Labels), $\s, number(Value), $\n].

-spec labels(labels()) -> iodata().
labels([]) ->
    [];
labels(Labels) ->
    Pairs = [
        [atom_to_binary(Name), "=\"", escape(value(Value), label), $"]
     || {Name, Value} <- Labels
    ],
    [${, lists:join($,, Pairs), $}].

-spec value(binary() | atom() | integer()) -> binary().
value(Value) when is_binary(Value) -> Value;
value(Value) when is_atom(Value) -> atom_to_binary(Value);
value(Value) when is_integer(Value) -> integer_to_binary(Value).

-spec number(number()) -> binary().
number(Value) when is_integer(Value) -> integer_to_binary(Value);
number(Value) when is_float(Value) -> float_to_binary(Value, [short]).

-spec escape(unicode:chardata(), help | label) -> binary().
escape(Text, Where) ->
    Marks = [{~"\\", ~"\\\\"}, {~"\n", ~"\\n"} | quotes(Where)],
    lists:foldl(
        fun({Mark, Escaped}, Acc) ->
            binary:replace(Acc, Mark, Escaped, [global])
        end,
        unicode:characters_to_binary(Text),
        Marks
    ).

-spec quotes(help | label) -> [{binary(), binary()}].
quotes(help) -> [];
quotes(label) -> [{~"\"", ~"\\\""}].
