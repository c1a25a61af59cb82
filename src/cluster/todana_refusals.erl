%% What the log says about connections between nodes that are refused.
%%
%% Erlang logs each wrong cookie, and the library ssl each alert. Such a node
%% tries again twice a second, and strangers repeat theirs, so a line says what
%% to look at, and the next one of its kind, a minute later at the earliest, how
%% many there were. The supervisor of a connection by TLS reports its end as the
%% failure of a child, also at an orderly stop; the lines of
%% todana_cluster_events say what has ended.
-module(todana_refusals).
-moduledoc false.

-export([install/0]).
%% The filter, and its state
-export([filter/2, new/0, passes/3]).

-export_type([kind/0, counters/0]).

-define(LOG_EVERY_MS, 60_000).

-type kind() :: cookie | tls.
-opaque counters() :: atomics:atomics_ref().

-doc "From now on refusals are logged in this way.".
-spec install() -> ok.
install() ->
    _ = logger:add_primary_filter(?MODULE, {fun ?MODULE:filter/2, new()}),
    ok.

%% Of each kind, until when nothing is logged, and how many refusals were left
%% out since the last line.
-spec quiet_ms(kind()) -> pos_integer().
quiet_ms(cookie) -> 1;
quiet_ms(tls) -> 2.

-spec left_out(kind()) -> pos_integer().
left_out(cookie) -> 3;
left_out(tls) -> 4.

-doc "Nothing was logged yet.".
-spec new() -> counters().
new() ->
    Counters = atomics:new(4, [{signed, true}]),
    NowMs = erlang:monotonic_time(millisecond),
    ok = atomics:put(Counters, quiet_ms(cookie), NowMs),
    ok = atomics:put(Counters, quiet_ms(tls), NowMs),
    Counters.

-doc "Called in the process that logs.".
-spec filter(logger:log_event(), counters()) -> logger:filter_return().
filter(#{
    msg := {report, #{alert := _, alerter := _} = Report},
    meta := #{report_cb := Format}
} = Event, Counters) when is_function(Format, 1) ->
    {Text, Arguments} = Format(Report),
    Alert = string:trim(io_lib:format(Text, Arguments)),
    bounded(tls, Event, Counters, [
        "a connection between nodes was refused: ", Alert, "; if it is that of "
        "a member, check that both have the certificates of one `cluster "
        "certificates`"
    ]);
filter(#{
    msg := {report, #{
        format := "** Connection attempt from node ~w rejected. Invalid "
                  "challenge" ++ _,
        args := [Node]
    }}
} = Event, Counters) ->
    bounded(cookie, Event, Counters, io_lib:format(
        "~ts was refused, because its cookie differs; if it is a member, copy "
        "the cookie file of this node to its host, and start it again", [Node]
    ));
filter(#{msg := {report, #{
    label := {supervisor, _},
    report := [{supervisor, {_, tls_dyn_connection_sup}} | _]
}}}, _Counters) ->
    stop;
filter(_Event, _Counters) ->
    ignore.

%% Without the metadata that say how to print the event.
-spec bounded(kind(), logger:log_event(), counters(), iodata()) ->
    logger:filter_return().
bounded(Kind, #{meta := Meta} = Event, Counters, Sentence) ->
    case passes(Kind, erlang:monotonic_time(millisecond), Counters) of
        {true, LeftOut} ->
            More = [
                io_lib:format(" (~b more since the last such line)", [LeftOut])
             || LeftOut > 0
            ],
            Event#{
                level := warning,
                msg := {string, ["todana: ", Sentence, More]},
                meta := maps:without([report_cb, error_logger], Meta)
            };
        false ->
            stop
    end.

-doc "Whether a refusal is logged now, with the number of those left out.".
-spec passes(kind(), integer(), counters()) ->
    {true, non_neg_integer()} | false.
passes(Kind, NowMs, Counters) ->
    QuietMs = atomics:get(Counters, quiet_ms(Kind)),
    IsLogged = NowMs >= QuietMs andalso
        atomics:compare_exchange(
            Counters, quiet_ms(Kind), QuietMs, NowMs + ?LOG_EVERY_MS
        ) =:= ok,
    case IsLogged of
        true ->
            {true, atomics:exchange(Counters, left_out(Kind), 0)};
        false ->
            ok = atomics:add(Counters, left_out(Kind), 1),
            false
    end.
