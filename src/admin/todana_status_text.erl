%% The output of `bin/todana status'.
-module(todana_status_text).
-moduledoc false.

-export([text/1, of_memory/1, clock_differs/1]).

%% A smaller difference of clocks is none.
-define(CLOCK_MS_MIN, 1_000).

-doc "The figures of `todana_status_client:ask/1` for a person.".
-spec text(map()) -> iodata().
text(#{~"state" := State} = Info) ->
    [
        headline(State, Info), $\n,
        [
            ["  ", string:pad(Name, 12), Text, $\n]
         || {Name, Key, Format} <- rows(),
            Value <- [maps:get(Key, Info, none)],
            Value =/= none,
            Text <- [Format(Value, Info)]
        ]
    ].

-doc "The figures of a node without a data directory.".
-spec of_memory(map()) -> iodata().
of_memory(#{~"server" := Server, ~"databases" := Databases} = Figures) ->
    Sum = fun(Key) ->
        lists:sum([maps:get(Key, It) || It <- maps:values(Databases)])
    end,
    Number = fun(Key) -> maps:get(Key, Server, 0) end,
    Limit =
        case Number(~"memory_limit_bytes") of
            0 -> "no limit";
            Bytes -> ["limit ", in_bytes(Bytes)]
        end,
    [
        case Figures of
            #{~"ready" := true} -> "serving";
            #{~"reason" := Reason} -> ["not serving: ", Reason]
        end,
        $\n,
        [
            ["  ", string:pad(Name, 12), Text, $\n]
         || {Name, Text} <- [
                guest(Figures),
                {"records", io_lib:format("~b, ~ts, ~ts", [
                    Sum(~"records"), in_bytes(Sum(~"bytes")), Limit
                ])},
                {"clients", io_lib:format("~b of ~b", [
                    Number(~"connections"), Number(~"connections_max")
                ])},
                {"resident", in_bytes(Number(~"resident_bytes"))}
            ]
        ]
    ].

-spec guest(map()) -> {string(), iodata()}.
guest(#{~"guest" := #{~"seat" := ~"none"}}) ->
    {"guest", "no member of the cluster serves this node"};
guest(#{~"guest" := #{~"seat" := Seat}}) ->
    {"guest", ["of a cluster, at ", Seat, ", which has the records"]};
guest(#{}) ->
    {"durability", "none: all records are in memory only"}.

-spec headline(binary(), map()) -> iodata().
headline(~"recovering", #{~"progress" := Percent} = Info) ->
    [
        io_lib:format("recovering ~b %", [Percent]),
        [[": ", Reason] || #{~"reason" := Reason} <- [Info]]
    ];
headline(~"read_only", #{~"reason" := Reason}) ->
    ["serving reads only: ", Reason];
headline(State, #{~"reason" := Reason}) ->
    [State, ": ", Reason];
headline(State, _Info) ->
    State.

-spec rows() -> [{string(), binary(), fun((term(), map()) -> iodata())}].
rows() ->
    [
        {"durability", ~"durability", fun(Word, _) -> Word end},
        {"data", ~"data_dir", fun(Path, _) -> Path end},
        {"log", ~"log_bytes", fun(Bytes, _) ->
            [in_bytes(Bytes), " since the snapshot"]
        end},
        {"snapshot", ~"last_snapshot", fun(Last, _) ->
            #{~"age_ms" := Age, ~"bytes" := Bytes} = Last,
            [
                io_lib:format("~ts, ~b s ago", [in_bytes(Bytes), Age div 1000]),
                %% Of a snapshot from before the start it is not known.
                [
                    io_lib:format(", in ~.1f s", [Took / 1000])
                 || Took <- [maps:get(~"duration_ms", Last, none)],
                    is_number(Took)
                ]
            ]
        end},
        {"snapshot", ~"snapshot_in_progress", fun
            (true, _) -> "one is being written";
            (_, _) -> "none is being written"
        end},
        {"commit", ~"commit_us", fun(Times, Info) ->
            [percentiles(Times), case Info of
                #{~"durability" := ~"always"} -> ", with its fdatasync";
                #{} -> ", without fdatasync"
            end]
        end},
        {"fdatasync", ~"fsync_us", fun(Times, _) ->
            [percentiles(Times), ", once a second"]
        end},
        {"batches", ~"batches", fun(Batches, Info) ->
            Records = maps:get(~"records", Info, 0),
            io_lib:format("~b, ~.1f records each",
                          [Batches, Records / max(1, Batches)])
        end},
        {"in flight", ~"in_flight", fun(Batches, Info) ->
            io_lib:format("~b batches; queue ~ts", [
                Batches, in_bytes(maps:get(~"queue_bytes", Info, 0))
            ])
        end},
        {"clock", ~"clock_differs_ms", fun(Ms, _) -> clock(Ms) end},
        {"disk", ~"disk_free_bytes", fun(Free, Info) ->
            Reserve = maps:get(~"disk_reserve_bytes", Info, 0),
            [in_bytes(Free), " free; writes are refused below ",
             in_bytes(Reserve)]
        end}
    ].

-spec clock(integer()) -> iodata().
clock(Ms) ->
    case clock_differs(Ms) of
        none -> "agrees with the time of the log";
        Text -> [Text, "; see `todana clock`"]
    end.

-doc "By how much a clock differs from the time of the log, if it does.".
-spec clock_differs(integer()) -> iodata() | none.
clock_differs(Ms) when abs(Ms) < ?CLOCK_MS_MIN ->
    none;
clock_differs(Ms) ->
    [
        io_lib:format("~.1f s ", [abs(Ms) / 1000]),
        if Ms > 0 -> "behind"; true -> "ahead of" end,
        " the time of the log"
    ].

-spec percentiles(map()) -> iodata().
percentiles(#{~"p50" := Half, ~"p99" := Most}) ->
    io_lib:format("p50 ~.2f ms, p99 ~.2f ms", [Half / 1000, Most / 1000]).

-spec in_bytes(number()) -> iodata().
in_bytes(Bytes) when is_number(Bytes) ->
    Units = [{1 bsl 40, "tb"}, {1 bsl 30, "gb"}, {1 bsl 20, "mb"},
             {1 bsl 10, "kb"}],
    case [Unit || {Size, _} = Unit <- Units, Bytes >= Size] of
        [{Size, Name} | _] -> io_lib:format("~.1f~s", [Bytes / Size, Name]);
        [] -> io_lib:format("~b bytes", [Bytes])
    end;
in_bytes(Other) ->
    io_lib:format("~tp", [Other]).
