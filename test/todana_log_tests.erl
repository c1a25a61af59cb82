%% No event of the log is lost while the node starts or its log moves.
-module(todana_log_tests).

-include_lib("eunit/include/eunit.hrl").

%% The handler of the tests
-export([log/2]).

%% Of each process: few enough that the handler's protection from bursts, which
%% drops events, does not begin.
-define(EVENTS, 100).

held_test_() ->
    [
        {Title, fun() -> with_handler(Test) end}
     || {Title, Test} <- [
            {"Todana's own events are logged at once", fun own_events/0},
            {"reports of OTP are logged after the start, once and in order",
             fun reports_after_the_start/0},
            {"reports that a sentence replaces are forgotten",
             fun dropped_reports/0}
        ]
    ].

own_events() ->
    ok = todana_log_held:hold(),
    logger:warning("own"),
    Seen = seen(),
    ok = todana_log_held:drop(),
    ?assertEqual(["own"], Seen).

reports_after_the_start() ->
    ok = todana_log_held:hold(),
    Held = fun(Text) -> logger:error(Text, #{domain => [otp, sasl]}) end,
    Held("first"),
    logger:error("a ~s", [report], #{domain => [ra]}),
    error_logger:error_msg("of a library"),
    Before = seen(),
    ok = todana_log_held:log(),
    Held("afterwards"),
    ?assertEqual([], Before),
    ?assertEqual(["first", "a report", report, "afterwards"], seen()).

dropped_reports() ->
    ok = todana_log_held:hold(),
    logger:error(#{label => {supervisor, start_error}}, #{domain => [otp]}),
    ok = todana_log_held:drop(),
    logger:error("afterwards"),
    ?assertEqual(["afterwards"], seen()).

%% Each event of several processes is in one of the files, whenever the log
%% moves, and whatever else changes.
moving_test_() ->
    {setup, fun() -> kept_handler() end, fun restore_handler/1,
     fun(_) -> [fun every_event_is_in_a_file/0] end}.

every_event_is_in_a_file() ->
    Directory = string:trim(os:cmd("mktemp -d")),
    Files = [filename:join(Directory, Name) || Name <- ["a", "b"]],
    Settings = fun(File, Bytes) ->
        #{
            log_level => notice, log_file => File, log_file_bytes => Bytes,
            log_file_count => 9, log_format => text
        }
    end,
    ok = todana_log:configure(Settings(hd(Files), off)),
    Writers = [
        spawn_monitor(fun() ->
            [
                begin
                    logger:error("writer ~b event ~b.", [W, E]),
                    timer:sleep(10)
                end
             || E <- lists:seq(1, ?EVENTS)
            ]
        end)
     || W <- lists:seq(1, 3)
    ],
    ok = move(Writers, Files, Settings),
    ok = todana_log:flush(),
    Text = [element(2, {ok, _} = file:read_file(File)) || File <- Files],
    Events = lists:usort(matches(Text)),
    ok = todana_log:to_standard_error(),
    ok = file:del_dir_r(Directory),
    ?assertEqual(3 * ?EVENTS, length(Events)).

%% Moves the log until all writers have ended.
move([], _Files, _Settings) ->
    ok;
move([{Pid, Monitor} | Rest] = Writers, [Next, Other], Settings) ->
    ok = todana_log:configure(Settings(Next, off)),
    ok = todana_log:configure(Settings(Next, 1 bsl 30)),
    receive
        {'DOWN', Monitor, process, Pid, _} ->
            move(Rest, [Other, Next], Settings)
    after 0 -> move(Writers, [Other, Next], Settings)
    end.

matches(Text) ->
    case re:run(Text, "writer \\d event \\d+\\.", [global]) of
        {match, Found} ->
            Bytes = iolist_to_binary(Text),
            [binary:part(Bytes, Place) || [Place] <- Found];
        nomatch ->
            []
    end.

%% --------------------------------------------------------------- handlers ---

with_handler(Test) ->
    ok = logger:add_handler(?MODULE, ?MODULE, #{config => self()}),
    try Test() after logger:remove_handler(?MODULE) end.

%% Events of this test only: those of other applications are theirs.
log(#{msg := Message}, #{config := Pid}) ->
    Pid ! {logged, Message},
    ok.

seen() ->
    receive
        {logged, {string, Text}} -> [Text | seen()];
        {logged, {report, _}} -> [report | seen()];
        {logged, {Format, Arguments}} ->
            [lists:flatten(io_lib:format(Format, Arguments)) | seen()]
    after 0 -> []
    end.

%% The handler `default' of the test run is put aside.
kept_handler() ->
    {ok, Handler} = logger:get_handler_config(default),
    Handler.

restore_handler(Handler) ->
    _ = logger:remove_handler(todana_log),
    _ = logger:remove_handler(default),
    ok = logger:add_handler(default, maps:get(module, Handler), Handler).
