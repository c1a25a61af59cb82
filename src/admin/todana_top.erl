%% What `bin/todana top' shows: rates between two sets of figures, as
%% `todana_status_json' has them, and their screen.
-module(todana_top).
-moduledoc false.

-export([rates/2, screen/1]).

-export_type([rates/0]).

-define(PROTOCOLS, [~"resp", ~"memcached", ~"kyoto"]).
-define(COMMANDS_SHOWN, 10).
-define(QUANTILES, [{p50_us, 0.5}, {p99_us, 0.99}, {p999_us, 0.999}]).

-type rates() :: #{atom() => term()}.
-type counts() :: [non_neg_integer()].

-doc "The rates of `Now`, for each second since `Before`.".
-spec rates(map(), map()) -> rates().
rates(Before, #{~"server" := Server} = Now) ->
    S = max(1, number([~"time_ms"], Now) - number([~"time_ms"], Before))
        / 1_000,
    Rate = fun(Path) -> grown(number(Path, Before), number(Path, Now)) / S end,
    Commands = commands(S, Before, Now),
    Hits = Rate([~"server", ~"hits"]),
    Misses = Rate([~"server", ~"misses"]),
    #{
        time_ms => number([~"time_ms"], Now),
        version => maps:get(~"version", Server, ~""),
        pid => maps:get(~"process_id", Server, 0),
        up_s => max(0, number([~"time_ms"], Now) -
                    number([~"server", ~"started_at_ms"], Now)) div 1_000,
        ready => maps:get(~"ready", Now),
        reason => maps:get(~"reason", Now),
        protocols => #{
            Protocol => #{
                per_s => lists:sum([
                    N || #{protocol := P, per_s := N} <- Commands,
                    P =:= Protocol
                ]),
                connections => number(
                    [~"server", <<"connections_", Protocol/binary>>], Now
                )
            }
         || Protocol <- ?PROTOCOLS
        },
        latency_us => quantiles(sum([C || #{counts := C} <- Commands])),
        commands => [
            maps:remove(counts, Command)
         || Command <- lists:sublist(slowest(Commands), ?COMMANDS_SHOWN)
        ],
        hits_per_s => Hits,
        misses_per_s => Misses,
        hit_ratio => ratio(Hits, Hits + Misses),
        expired_per_s => of_databases(S, ~"expired", Before, Now),
        evicted_per_s => of_databases(S, ~"evicted", Before, Now),
        refused_per_s => of_databases(S, ~"refused", Before, Now),
        errors_per_s => Rate([~"server", ~"errors"]),
        rejected_per_s => Rate([~"server", ~"connections_rejected"]),
        received_bytes_per_s => Rate([~"server", ~"input_bytes"]),
        sent_bytes_per_s => Rate([~"server", ~"output_bytes"]),
        records => databases(~"records", Now),
        records_bytes => databases(~"bytes", Now),
        index_bytes => databases(~"index_bytes", Now),
        clients_bytes => number([~"server", ~"client_buffer_bytes"], Now),
        erlang_bytes => number([~"erlang", ~"memory_bytes", ~"total"], Now),
        resident_bytes => number([~"server", ~"resident_bytes"], Now),
        memory_limit_bytes => number([~"server", ~"memory_limit_bytes"], Now),
        connections => number([~"server", ~"connections"], Now),
        connections_max => number([~"server", ~"connections_max"], Now),
        cpus => Rate([~"server", ~"cpu_user_s"]) +
            Rate([~"server", ~"cpu_system_s"]),
        event_loops_busy => event_loops(S, Before, Now),
        log => log(maps:get(~"log", Now)),
        slow_log => maps:get(~"slow_log", Now, [])
    }.

-spec number([binary()], map()) -> number().
number([], Number) when is_number(Number) -> Number;
number([Key | Path], Map) when is_map(Map) ->
    number(Path, maps:get(Key, Map, 0));
number(_Path, _Other) -> 0.

%% A server that was started again begins at 0.
-spec grown(number(), number()) -> number().
grown(Before, Now) when Now >= Before -> Now - Before;
grown(_Before, Now) -> Now.

-spec ratio(number(), number()) -> float() | null.
ratio(_Part, Whole) when Whole == 0 -> null;
ratio(Part, Whole) -> Part / Whole.

-spec databases(binary(), map()) -> number().
databases(Key, #{~"databases" := Databases}) ->
    lists:sum([maps:get(Key, It, 0) || It <- maps:values(Databases)]).

-spec of_databases(float(), binary(), map(), map()) -> float().
of_databases(S, Key, Before, Now) ->
    grown(databases(Key, Before), databases(Key, Now)) / S.

-spec event_loops(float(), map(), map()) -> [float()].
event_loops(S, #{~"event_loops" := Before}, #{~"event_loops" := Now}) ->
    lists:zipwith(
        fun(#{~"busy_s" := Old}, #{~"busy_s" := New}) ->
            min(1.0, grown(Old, New) / S)
        end,
        Before, Now, trim
    ).

-spec log(map()) -> map().
log(Log) ->
    maps:with([~"state", ~"durability", ~"log_bytes", ~"queue_bytes",
               ~"commit_us"], Log).

%% --------------------------------------------------------------- commands ---

-spec commands(float(), map(), map()) -> [map()].
commands(S, #{~"commands" := Before}, #{~"commands" := Now}) ->
    Old = #{key(Command) => Command || Command <- Before},
    [
        maps:merge(quantiles(Counts), #{
            protocol => Protocol, name => Name, counts => Counts,
            per_s => Calls / S,
            errors_per_s => grown(field(~"errors", Then), Errors) / S,
            mean_us => grown(field(~"total_us", Then), Us) / Calls
        })
     || #{
            ~"protocol" := Protocol, ~"name" := Name, ~"errors" := Errors,
            ~"total_us" := Us, ~"calls_by_power_of_2_us" := Counted
        } = Command <- Now,
        Then <- [maps:get(key(Command), Old, #{})],
        Counts <- [
            difference(maps:get(~"calls_by_power_of_2_us", Then, []), Counted)
        ],
        Calls <- [lists:sum(Counts)],
        Calls > 0
    ].

-spec key(map()) -> {binary(), binary()}.
key(#{~"protocol" := Protocol, ~"name" := Name}) -> {Protocol, Name}.

-spec field(binary(), map()) -> number().
field(Key, Command) -> maps:get(Key, Command, 0).

-spec slowest([map()]) -> [map()].
slowest(Commands) ->
    lists:reverse(lists:sort(
        fun(#{p99_us := A, mean_us := M}, #{p99_us := B, mean_us := N}) ->
            {A, M} =< {B, N}
        end,
        Commands
    )).

-spec difference(counts(), counts()) -> counts().
difference(Before, Now) ->
    Differences = lists:zipwith(
        fun(Old, New) -> New - Old end, Before, Now, {pad, {0, 0}}
    ),
    case lists:any(fun(N) -> N < 0 end, Differences) of
        true -> Now;
        false -> Differences
    end.

-spec sum([counts()]) -> counts().
sum(Lists) ->
    lists:foldl(
        fun(Counts, Acc) ->
            lists:zipwith(fun erlang:'+'/2, Counts, Acc, {pad, {0, 0}})
        end,
        [],
        Lists
    ).

%% Upper bounds: powers of two.
-spec quantiles(counts()) -> #{atom() => pos_integer() | null}.
quantiles(Counts) ->
    #{
        Name => quantile(Quantile * lists:sum(Counts), 1, Counts)
     || {Name, Quantile} <- ?QUANTILES
    }.

-spec quantile(float(), pos_integer(), counts()) -> pos_integer() | null.
quantile(_Rank, _Bound, []) -> null;
quantile(Rank, Bound, [Count | _]) when Count >= Rank, Count > 0 -> Bound;
quantile(Rank, Bound, [Count | Rest]) ->
    quantile(Rank - Count, 2 * Bound, Rest).

%% ----------------------------------------------------------------- screen ---

-doc "The rates for a person.".
-spec screen(rates()) -> iodata().
screen(Rates) ->
    #{
        version := Version, pid := Pid, up_s := UpS, protocols := Protocols,
        latency_us := Latency, commands := Commands, log := Log,
        slow_log := SlowLog
    } = Rates,
    [
        io_lib:format("todana ~ts  process ~b  up ~ts  ~ts~n~n", [
            Version, Pid, duration(UpS), state(Rates)
        ]),
        table(
            ["", "commands/s", "clients"],
            [
                [Protocol, count(PerS), count(Clients)]
             || Protocol <- ?PROTOCOLS,
                #{Protocol := #{per_s := PerS, connections := Clients}} <-
                    [Protocols]
            ]
        ),
        $\n,
        table([], [
            ["latency", quantile_texts(Latency)],
            ["look-ups", look_ups(Rates)],
            ["per second", per_second(Rates)],
            ["memory", memory(Rates)],
            ["busy", busy(Rates)]
            | [["log", log_text(Log)] || is_map_key(~"durability", Log),
               map_get(~"durability", Log) =/= ~"none"]
        ]),
        $\n,
        table(
            ["slowest now", "calls/s", "mean", "p50", "p99", "errors/s"],
            [
                [
                    [Protocol, $\s, Name], count(PerS), time(Mean), time(Half),
                    time(Most), count(Errors)
                ]
             || #{
                    protocol := Protocol, name := Name, per_s := PerS,
                    mean_us := Mean, p50_us := Half, p99_us := Most,
                    errors_per_s := Errors
                } <- Commands
            ]
        ),
        [
            [$\n, table(["slow log", "took", "client"], [
                [Command, time(Us), Client]
             || #{
                    ~"command" := Command, ~"us" := Us, ~"client" := Client
                } <- SlowLog
            ])]
         || SlowLog =/= []
        ]
    ].

-spec state(rates()) -> iodata().
state(#{ready := true}) -> "serving";
state(#{reason := Reason}) -> ["not serving: ", Reason].

-spec quantile_texts(map()) -> iodata().
quantile_texts(#{p50_us := Half, p99_us := Most, p999_us := Nearly}) ->
    ["p50 ", time(Half), ", p99 ", time(Most), ", p99.9 ", time(Nearly)].

-spec look_ups(rates()) -> iodata().
look_ups(#{hit_ratio := null}) ->
    "none";
look_ups(#{hit_ratio := Ratio, hits_per_s := Hits, misses_per_s := Misses}) ->
    io_lib:format("~.1f % hits: ~ts hits/s, ~ts misses/s",
                  [100 * Ratio, count(Hits), count(Misses)]).

-spec per_second(rates()) -> iodata().
per_second(Rates) ->
    lists:join(", ", [
        [Text(maps:get(Key, Rates)), $\s, Word]
     || {Key, Word, Text} <- [
            {expired_per_s, "expired", fun count/1},
            {evicted_per_s, "evicted", fun count/1},
            {refused_per_s, "writes refused", fun count/1},
            {errors_per_s, "errors", fun count/1},
            {rejected_per_s, "clients rejected", fun count/1},
            {received_bytes_per_s, "in", fun bytes/1},
            {sent_bytes_per_s, "out", fun bytes/1}
        ]
    ]).

-spec memory(rates()) -> iodata().
memory(#{records := Records, memory_limit_bytes := Limit} = Rates) ->
    [
        count(Records), " records ", bytes(maps:get(records_bytes, Rates)),
        [[" of ", bytes(Limit)] || Limit > 0],
        ", indexes ", bytes(maps:get(index_bytes, Rates)),
        ", clients ", bytes(maps:get(clients_bytes, Rates)),
        ", Erlang ", bytes(maps:get(erlang_bytes, Rates)),
        ", resident ", bytes(maps:get(resident_bytes, Rates))
    ].

-spec busy(rates()) -> iodata().
busy(#{cpus := Cpus, event_loops_busy := Loops}) ->
    [
        io_lib:format("~.2f processors; event loops ", [float(Cpus)]),
        lists:join(" ", [
            io_lib:format("~b %", [round(100 * Loop)]) || Loop <- Loops
        ])
    ].

-spec log_text(map()) -> iodata().
log_text(#{~"state" := State} = Log) ->
    [
        State,
        [[", ", bytes(Bytes), " since the snapshot"]
         || #{~"log_bytes" := Bytes} <- [Log]],
        [[", ", bytes(Bytes), " in the queue"]
         || #{~"queue_bytes" := Bytes} <- [Log]],
        [[", commit p50 ", time(Half), ", p99 ", time(Most)]
         || #{~"commit_us" := #{~"p50" := Half, ~"p99" := Most}} <- [Log]]
    ].

%% The first column is for names, the others for figures.
-spec table([iodata()], [[iodata()]]) -> iodata().
table(Head, Rows) ->
    Lines = [Head || Head =/= []] ++ Rows,
    Columns = [[string:length(Cell) || Cell <- Line] || Line <- Lines],
    Widths = lists:foldl(
        fun(Line, Acc) ->
            lists:zipwith(fun erlang:max/2, Line, Acc, {pad, {0, 0}})
        end,
        [],
        Columns
    ),
    [
        [
            lists:join("  ", [
                string:pad(Cell, Width, side(Head, Place))
             || {Place, Cell, Width} <- lists:zip3(
                    lists:seq(1, length(Line)), Line, Widths, trim
                )
            ]),
            $\n
        ]
     || Line <- Lines
    ].

-spec side([iodata()], pos_integer()) -> leading | trailing.
side([_ | _], Place) when Place > 1 -> leading;
side(_Head, _Place) -> trailing.

-spec count(number()) -> iodata().
count(N) when N >= 10_000_000 -> io_lib:format("~.1fM", [N / 1_000_000]);
count(N) when N >= 10_000 -> io_lib:format("~.1fk", [N / 1_000]);
count(N) -> integer_to_list(round(N)).

-spec bytes(number()) -> iodata().
bytes(N) ->
    Units = [{1 bsl 40, "tb"}, {1 bsl 30, "gb"}, {1 bsl 20, "mb"},
             {1 bsl 10, "kb"}],
    case [Unit || {Size, _} = Unit <- Units, N >= Size] of
        [{Size, Name} | _] -> io_lib:format("~.1f~s", [N / Size, Name]);
        [] -> io_lib:format("~bb", [round(N)])
    end.

-spec time(number() | null) -> iodata().
time(null) -> "-";
time(Us) when Us >= 1_000_000 -> io_lib:format("~.1f s", [Us / 1_000_000]);
time(Us) when Us >= 1_000 -> io_lib:format("~.1f ms", [Us / 1_000]);
time(Us) -> io_lib:format("~b us", [round(Us)]).

-spec duration(non_neg_integer()) -> iodata().
duration(S) ->
    {Days, {Hours, Minutes, Seconds}} = calendar:seconds_to_daystime(S),
    [
        [io_lib:format("~b d ", [Days]) || Days > 0],
        io_lib:format("~b:~2..0b:~2..0b", [Hours, Minutes, Seconds])
    ].
