%% What the log says about TLS connections between nodes that fail.
%%
%% The library ssl logs each alert. A node with wrong certificates tries again
%% twice a second, and strangers repeat theirs, so a line says what to look at,
%% and the next one, a minute later at the earliest, how many there were. The
%% supervisor of a connection reports its end as the failure of a child, also at
%% an orderly stop; the lines of todana_cluster_events say what has ended.
-module(todana_tls_alerts).
-moduledoc false.

-export([install/0]).
%% The filter, and its state
-export([filter/2, new/0, passes/2]).

-export_type([counter/0]).

-define(LOG_EVERY_MS, 60_000).
%% The fields of the counter: until when nothing is logged, and how many alerts
%% were left out since the last line.
-define(QUIET_MS, 1).
-define(LEFT_OUT, 2).

-opaque counter() :: atomics:atomics_ref().

-doc "From now on alerts are logged in this way.".
-spec install() -> ok.
install() ->
    _ = logger:add_primary_filter(?MODULE, {fun ?MODULE:filter/2, new()}),
    ok.

-doc "Nothing was logged yet.".
-spec new() -> counter().
new() ->
    Counter = atomics:new(2, [{signed, true}]),
    ok = atomics:put(Counter, ?QUIET_MS, erlang:monotonic_time(millisecond)),
    Counter.

-doc "Called in the process that logs.".
-spec filter(logger:log_event(), counter()) -> logger:filter_return().
filter(#{
    msg := {report, #{alert := _, alerter := _} = Report},
    meta := #{report_cb := Format} = Meta
} = Event, Counter) when is_function(Format, 1) ->
    case passes(erlang:monotonic_time(millisecond), Counter) of
        {true, LeftOut} ->
            {Text, Arguments} = Format(Report),
            Event#{
                level := warning,
                msg := {string, sentence(
                    io_lib:format(Text, Arguments), LeftOut
                )},
                meta := maps:remove(report_cb, Meta)
            };
        false ->
            stop
    end;
filter(#{msg := {report, #{
    label := {supervisor, _},
    report := [{supervisor, {_, tls_dyn_connection_sup}} | _]
}}}, _Counter) ->
    stop;
filter(_Event, _Counter) ->
    ignore.

-spec sentence(iolist(), non_neg_integer()) -> unicode:chardata().
sentence(Alert, LeftOut) ->
    [
        "todana: a connection between nodes was refused: ",
        string:trim(Alert), "; if it is that of a member, check that ",
        "both have the certificates of one `cluster certificates`",
        [
            io_lib:format(" (~b more since the last such line)", [LeftOut])
         || LeftOut > 0
        ]
    ].

-doc "Whether an alert is logged now, with the number of those left out.".
-spec passes(integer(), counter()) -> {true, non_neg_integer()} | false.
passes(NowMs, Counter) ->
    QuietMs = atomics:get(Counter, ?QUIET_MS),
    IsLogged = NowMs >= QuietMs andalso
        atomics:compare_exchange(
            Counter, ?QUIET_MS, QuietMs, NowMs + ?LOG_EVERY_MS
        ) =:= ok,
    case IsLogged of
        true ->
            {true, atomics:exchange(Counter, ?LEFT_OUT, 0)};
        false ->
            ok = atomics:add(Counter, ?LEFT_OUT, 1),
            false
    end.
