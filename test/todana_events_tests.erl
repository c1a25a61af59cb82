%% Events of the application, and the handler that they are given to.
-module(todana_events_tests).

-include_lib("eunit/include/eunit.hrl").

-define(TIMEOUT_MS, 60_000).

events_test_() ->
    {setup, fun start/0, fun stop/1, [
        {"tables", fun tables/0},
        {"counts of tables", fun counts/0},
        {"the numbered databases count together", fun databases/0},
        {"a database that is closed and opened again", fun reopened/0},
        {"clients", fun clients/0},
        {timeout, 60, {"a handler that fails is removed", fun failing/0}},
        {"misuse", fun misuse/0}
    ]}.

start() ->
    _ = application:stop(todana),
    ok = application:set_env(todana, listen_resp, "127.0.0.1:0"),
    ok = application:set_env(todana, connections_max, 1),
    Self = self(),
    ok = application:set_env(todana, event_handler, fun(Name, M, D) ->
        Self ! {event, Name, M, D}
    end),
    {ok, Started} = application:ensure_all_started(todana),
    %% The server's start is an event of the handler that the environment sets.
    receive
        {event, [todana, server, started], #{system_time := _}, Metadata} ->
            ?assertEqual(
                #{addresses => todana_listener:addresses()}, Metadata
            )
    after ?TIMEOUT_MS -> error(not_started)
    end,
    Started.

stop(Started) ->
    Self = self(),
    ok = handle_for(Self),
    [ok = application:stop(Application) || Application <- Started],
    ok = todana:set_event_handler(none),
    [
        ok = application:unset_env(todana, Name)
     || Name <- [listen_resp, connections_max, event_handler]
    ].

%% Events come to this process.
handle_for(Pid) ->
    todana:set_event_handler(fun(Name, Measurements, Metadata) ->
        Pid ! {event, Name, Measurements, Metadata}
    end).

next(Name) ->
    receive
        {event, Name, Measurements, Metadata} -> {Measurements, Metadata}
    after ?TIMEOUT_MS -> error({no_event, Name})
    end.

%% Counts of an event that are reported until they are this many.
counted(Name, Metadata, Count) ->
    case next(Name) of
        {#{count := More}, Metadata} when More >= Count -> More - Count;
        {#{count := More}, Metadata} -> counted(Name, Metadata, Count - More);
        {_, _Others} -> counted(Name, Metadata, Count)
    end.

tables() ->
    ok = handle_for(self()),
    {ok, _} = todana:open(seen, #{}),
    {ok, _} = todana:open(seen, #{}),
    {#{system_time := Time}, #{table := seen}} = next([todana, table, opened]),
    ?assert(is_integer(Time)),
    ok = todana:close(seen),
    {_, #{table := seen}} = next([todana, table, closed]),
    receive
        {event, [todana, table, _], _, _} = Event -> error(Event)
    after 0 -> ok
    end.

counts() ->
    ok = handle_for(self()),
    {ok, _} = todana:open(counts, #{entries_max => 100}),
    [ok = todana:put(counts, integer_to_binary(N), ~"")
     || N <- lists:seq(1, 150)],
    #{evicted := Evicted} = todana:stats(counts),
    Metadata = #{table => counts},
    0 = counted([todana, table, evicted], Metadata, Evicted),
    Keys = [integer_to_binary(N) || N <- lists:seq(1, 10)],
    [ok = todana:put(counts, K, ~"", #{ttl_ms => 1}) || K <- Keys],
    0 = counted([todana, table, expired], Metadata, 10),
    {ok, _} = todana:open(small, #{entries_max => 1, when_full => refuse}),
    ok = todana:put(small, ~"a", ~""),
    {error, full} = todana:put(small, ~"b", ~""),
    0 = counted([todana, table, refused], #{table => small}, 1),
    [ok = todana:close(T) || T <- [counts, small]].

databases() ->
    ok = handle_for(self()),
    [{ok, _} = todana:open(D, #{}) || D <- [db4, db5]],
    [ok = todana:put(D, ~"k", ~"", #{ttl_ms => 1}) || D <- [db4, db5]],
    0 = counted([todana, table, expired], #{table => databases}, 2).

%% Counts of a database last longer than its name in Erlang.
reopened() ->
    ok = handle_for(self()),
    {ok, _} = todana:open(db6, #{}),
    [ok = todana:put(db6, <<N>>, ~"", #{ttl_ms => 1}) || N <- lists:seq(1, 9)],
    0 = counted([todana, table, expired], #{table => databases}, 9),
    look(),
    ok = todana:close(db6),
    look(),
    {ok, _} = todana:open(db6, #{}),
    look(),
    receive
        {event, [todana, table, expired], _, _} = Event -> error(Event)
    after 0 -> ok
    end,
    ok = todana:close(db6).

%% Returns when the counters were looked at once more.
look() ->
    todana_events ! look,
    ok = gen_server:call(todana_events, sync).

clients() ->
    ok = handle_for(self()),
    [{resp, Address} | _] = todana_listener:addresses(),
    [_, Port] = string:split(Address, ":"),
    Connect = fun() ->
        {ok, Socket} = gen_tcp:connect(
            "127.0.0.1", list_to_integer(Port), [binary, {active, false}]
        ),
        Socket
    end,
    First = Connect(),
    ok = gen_tcp:send(First, "PING\r\n"),
    {ok, ~"+PONG\r\n"} = gen_tcp:recv(First, 0, ?TIMEOUT_MS),
    Second = Connect(),
    {ok, _} = gen_tcp:recv(Second, 0, ?TIMEOUT_MS),
    0 = counted([todana, client, rejected], #{}, 1),
    [ok = gen_tcp:close(Socket) || Socket <- [First, Second]].

failing() ->
    Events = whereis(todana_events),
    #{level := Level} = logger:get_primary_config(),
    ok = logger:set_primary_config(level, none),
    lists:foreach(
        fun(Handler) ->
            ok = todana:set_event_handler(Handler),
            {ok, _} = todana:open(failing, #{}),
            ok = todana:close(failing),
            removed()
        end,
        [
            fun(_, _, _) -> error(reason) end,
            fun(_, _, _) -> exit(reason) end,
            fun(_, _, _) -> throw(reason) end,
            fun(_, _, _) -> exit(self(), kill) end,
            fun(_, _, _) -> timer:sleep(infinity) end
        ]
    ),
    ok = logger:set_primary_config(level, Level),
    ?assertEqual(Events, whereis(todana_events)),
    %% The next one is called.
    ok = handle_for(self()),
    {ok, _} = todana:open(failing, #{}),
    receive
        {event, [todana, table, opened], _, #{table := failing}} -> ok
    after ?TIMEOUT_MS -> error(no_event)
    end,
    ok = todana:close(failing).

removed() ->
    case application:get_env(todana, event_handler) of
        {ok, none} ->
            ok;
        {ok, _} ->
            timer:sleep(5),
            removed()
    end.

misuse() ->
    ?assertError(badarg, todana:set_event_handler(fun() -> ok end)),
    ?assertError(badarg, todana:set_event_handler(telemetry)).
