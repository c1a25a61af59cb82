%% The figures of `todana_figures' as JSON, for scripts and `bin/todana top'.
-module(todana_status_json).
-moduledoc false.

-export([text/1, value/1]).

-doc "A JSON object and a line end.".
-spec text(todana_figures:figures()) -> iodata().
text(Figures) ->
    [json:encode(value(Figures)), $\n].

-doc "The figures as `json:encode/1` takes them.".
-spec value(todana_figures:figures()) -> json:encode_value().
value(Figures) ->
    #{
        server := Server, databases := Databases, commands := Commands,
        loops := Loops, tables := Tables, log := Log, cluster := Cluster,
        guest := Guest, channels := Channels, erlang := Erlang,
        memory := Memory, schedulers := Schedulers, ready := Ready
    } = Figures,
    #{
        ready => Ready =:= ok,
        reason => reason(Ready),
        time_ms => erlang:system_time(millisecond),
        listeners => listeners(),
        server => Server,
        databases => #{
            integer_to_binary(Number) => Database
         || {Number, #{~"records" := Records} = Database} <-
                lists:enumerate(0, Databases),
            Number =:= 0 orelse Records > 0
        },
        tables => maps:from_list(Tables),
        commands => [command(Command) || Command <- Commands],
        event_loops => [
            #{
                connections => Connections, busy_s => Busy / 1.0e9,
                stalled_s => Now / 1.0e9, rounds_by_power_of_2_us => Rounds
            }
         || {Connections, Busy, Now, Rounds} <- Loops
        ],
        log => todana_status:plain(Log),
        cluster => or_null(Cluster),
        guest => or_null(Guest),
        channels => or_null(Channels),
        erlang => Erlang#{
            memory_bytes => maps:from_list(Memory),
            schedulers => [
                #{kind => Kind, number => Number, busy_s => Busy, s => Total}
             || {Kind, Number, Busy, Total} <- Schedulers
            ]
        }
    }.

-spec or_null(none | map()) -> null | map().
or_null(none) -> null;
or_null(#{} = Figures) -> Figures.

-spec reason(todana_health:verdict()) -> null | binary().
reason(ok) -> null;
reason({error, Sentence}) -> Sentence.

-spec listeners() -> #{atom() => [binary()]}.
listeners() ->
    maps:groups_from_list(
        fun({Protocol, _}) -> Protocol end,
        fun({_, Address}) -> list_to_binary(Address) end,
        todana_listener:addresses() ++ todana_http:addresses()
    ).

-spec command(todana_figures:command()) -> json:encode_value().
command({Protocol, Name, Calls, Errors, Micros, Histogram}) ->
    #{
        protocol => Protocol, name => Name, calls => Calls,
        errors => Errors, total_us => Micros,
        calls_by_power_of_2_us => Histogram
    }.
