%% No process holds a record: after any of them is killed, or the application is
%% stopped, all records still exist, and listeners restart.
-module(todana_supervision_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([log/2]).
%% Called in a peer node
-export([reload_under_a_server/0, collect_the_old/1]).
-export([
    embedded_opens_no_port/1,
    embedded_has_a_control_socket_where_configured/1,
    embedded_refuses_unknown_options/1,
    each_process_may_be_killed/1,
    the_supervisor_may_be_killed/1,
    a_restarted_application_finds_its_tables/1,
    tables_serve_without_the_application/1,
    the_listener_comes_back/1,
    the_settings_are_not_logged/1,
    a_vanished_password_file/1,
    a_limit_is_lifted/1,
    stopping_closes_the_ports/1,
    local_processes_and_clients_share_records/1,
    a_taken_port_is_refused/1,
    the_sweeper_frees_memory/1,
    closing_while_reading/1,
    reloading_the_library/1,
    reloading_ends_subscriptions/1,
    a_late_unload_leaves_the_new_server/1,
    a_server_that_was_stopped_comes_back/1,
    values_are_whole_while_rewritten/1
]).

all() ->
    [
        embedded_opens_no_port,
        embedded_has_a_control_socket_where_configured,
        embedded_refuses_unknown_options,
        each_process_may_be_killed,
        the_supervisor_may_be_killed,
        a_restarted_application_finds_its_tables,
        tables_serve_without_the_application,
        the_listener_comes_back,
        the_settings_are_not_logged,
        a_vanished_password_file,
        a_limit_is_lifted,
        stopping_closes_the_ports,
        local_processes_and_clients_share_records,
        a_taken_port_is_refused,
        the_sweeper_frees_memory,
        closing_while_reading,
        reloading_the_library,
        reloading_ends_subscriptions,
        a_late_unload_leaves_the_new_server,
        a_server_that_was_stopped_comes_back,
        values_are_whole_while_rewritten
    ].

init_per_testcase(_Case, Config) ->
    _ = application:load(todana),
    Config.

end_per_testcase(_Case, _Config) ->
    {ok, _} = application:ensure_all_started(todana),
    [ok = todana:close(Name) || Name <- todana:list()],
    ok = application:stop(todana),
    ok = application:unload(todana).

embedded_opens_no_port(_Config) ->
    Before = sockets(),
    {ok, [todana]} = application:ensure_all_started(todana),
    ?assertEqual(undefined, whereis(todana_listener)),
    ?assertEqual([], todana_listener:addresses()),
    ?assertEqual(Before, sockets()),
    ?assertEqual([], todana:list()).

%% Without a data directory only at a path that is given.
embedded_has_a_control_socket_where_configured(Config) ->
    Path = filename:join(proplists:get_value(priv_dir, Config), "c"),
    Control = fun(Given) ->
        application:set_env(todana, control_socket, Given),
        {ok, [todana]} = application:ensure_all_started(todana),
        Found = whereis(todana_control),
        ok = application:stop(todana),
        application:unset_env(todana, control_socket),
        Found
    end,
    ?assertEqual(undefined, Control("auto")),
    ?assertEqual(undefined, Control("off")),
    ?assert(is_pid(Control(Path))).

%% Erlang cannot list native sockets, so this counts the descriptors.
sockets() ->
    {ok, Descriptors} = file:list_dir("/proc/self/fd"),
    length([
        D
     || D <- Descriptors,
        {ok, "socket:" ++ _} <- [file:read_link("/proc/self/fd/" ++ D)]
    ]).

embedded_refuses_unknown_options(_Config) ->
    application:set_env(todana, memory_limt, "1gb"),
    ?assertMatch({error, {todana, _}}, start_error()),
    application:unset_env(todana, memory_limt),
    application:set_env(todana, memory_limit, many),
    ?assertMatch({error, {todana, _}}, start_error()),
    application:unset_env(todana, memory_limit),
    application:set_env(todana, listen_resp, "0.0.0.0:0"),
    ?assertMatch({error, {todana, _}}, start_error()),
    application:unset_env(todana, listen_resp).

start_error() ->
    case application:ensure_all_started(todana) of
        {error, {todana, {Why, {todana_app, start, _}}}} -> {error, Why};
        {error, {todana, {{Why, _}, {todana_app, _, _}}}} -> {error, Why};
        Other -> Other
    end.

each_process_may_be_killed(_Config) ->
    listen(),
    fill(kept),
    Names = [
        todana_beat, todana_tables, todana_sweeper, todana_listener
        | todana_flight:names()
    ],
    [
        begin
            Pid = whereis(Name),
            exit(Pid, kill),
            is_kept(kept),
            _ = restarted(Name, Pid),
            is_kept(kept)
        end
     || Name <- Names
    ],
    ?assert(is_pid(whereis(todana_sup))).

the_supervisor_may_be_killed(_Config) ->
    listen(),
    fill(kept),
    Sup = whereis(todana_sup),
    Monitor = monitor(process, todana_tables),
    exit(Sup, kill),
    is_kept(kept),
    receive {'DOWN', Monitor, _, _, _} -> ok end,
    is_kept(kept),
    wait_until(fun() ->
        not lists:keymember(todana, 1, application:which_applications())
    end),
    is_kept(kept),
    {ok, _} = application:ensure_all_started(todana),
    is_kept(kept).

a_restarted_application_finds_its_tables(_Config) ->
    {ok, _} = application:ensure_all_started(todana),
    fill(kept),
    ok = application:stop(todana),
    {ok, _} = application:ensure_all_started(todana),
    ?assertEqual([kept], todana:list()),
    is_kept(kept),
    ?assertMatch({ok, _}, todana:open(kept, #{codec => term})),
    ?assertMatch({error, {exists, #{}}}, todana:open(kept, #{})),
    is_kept(kept).

tables_serve_without_the_application(_Config) ->
    {ok, _} = application:ensure_all_started(todana),
    fill(kept),
    ok = application:stop(todana),
    is_kept(kept),
    ?assertEqual({ok, v}, todana:fetch(kept, k, fun() -> {ok, v} end)),
    ?assertError(badarg, todana:open(other, #{})),
    ?assertError(badarg, todana:close(kept)).

the_listener_comes_back(_Config) ->
    listen(),
    Address = address(),
    ?assertEqual(~"+PONG\r\n", ask(Address, ~"PING\r\n")),
    ok = todana:put(db0, ~"k", ~"v"),
    Pid = whereis(todana_listener),
    exit(Pid, kill),
    _ = restarted(todana_listener, Pid),
    ?assertEqual(~"$1\r\nv\r\n", ask(address(), ~"GET k\r\n")).

%% Covers the logs of a start, a kill, and a start that fails.
the_settings_are_not_logged(Config) ->
    Secret = "hush_hush_hush",
    File = password_file(Config, Secret),
    Level = maps:get(level, logger:get_primary_config()),
    ok = logger:set_primary_config(level, all),
    ok = logger:add_handler(?MODULE, ?MODULE, #{
        level => all, config => #{to => self()}
    }),
    listen(),
    ?assertMatch(<<"-NOAUTH", _/binary>>, ask(address(), ~"PING\r\n")),
    Pid = whereis(todana_listener),
    ?assertEqual(nomatch, string:find(shown(sys:get_status(Pid)), Secret)),
    exit(Pid, kill),
    _ = restarted(todana_listener, Pid),
    ?assertMatch(<<"-NOAUTH", _/binary>>, ask(address(), ~"PING\r\n")),
    ok = file:delete(File),
    exit(whereis(todana_listener), kill),
    wait_until(fun() -> whereis(todana_sup) =:= undefined end),
    Last = receive_logged("no such file"),
    ok = logger:remove_handler(?MODULE),
    ok = logger:set_primary_config(level, Level),
    Logged = Last ++ logged(),
    ?assert(length(Logged) >= 2),
    [?assertEqual(nomatch, string:find(Text, Secret)) || Text <- Logged],
    %% Nor are the other settings, which are a page.
    [
        ?assertEqual(nomatch, string:find(Text, "script_steps_max"))
     || Text <- Logged
    ],
    ?assert(lists:any(
        fun(Text) -> string:find(Text, "no such file") =/= nomatch end, Logged
    )),
    application:unset_env(todana, password_file).

log(Event, #{config := #{to := Pid}}) ->
    Pid ! {logged, shown(Event)}.

%% Prints a whole term, with binaries as text.
shown(Term) ->
    lists:flatten(io_lib:format("~0p", [Term])).

logged() ->
    receive
        {logged, Text} -> [Text | logged()]
    after 0 -> []
    end.

%% Receives log events up to the first that contains this text.
receive_logged(Part) ->
    receive
        {logged, Text} ->
            case string:find(Text, Part) of
                nomatch -> [Text | receive_logged(Part)];
                _ -> [Text]
            end
    after 60_000 -> error({not_logged, Part})
    end.

a_vanished_password_file(Config) ->
    File = password_file(Config, "secret"),
    ok = file:delete(File),
    application:set_env(todana, listen_resp, "127.0.0.1:0"),
    {error, {todana, Sentence}} = start_error(),
    ?assertNotEqual(nomatch, string:find(Sentence, File)),
    application:unset_env(todana, password_file),
    application:unset_env(todana, listen_resp).

password_file(Config, Secret) ->
    Directory = proplists:get_value(priv_dir, Config),
    File = filename:join(Directory, "password"),
    ok = file:write_file(File, [Secret, $\n]),
    application:set_env(todana, password_file, File),
    File.

a_limit_is_lifted(_Config) ->
    application:set_env(todana, memory_limit, "1mb"),
    application:set_env(todana, memory_policy, "refuse"),
    {ok, _} = application:ensure_all_started(todana),
    {ok, _} = todana:open(db0, #{}),
    Large = binary:copy(~"x", 2 bsl 20),
    ?assertEqual({error, full}, todana:put(db0, ~"k", Large)),
    ok = application:stop(todana),
    application:unset_env(todana, memory_limit),
    application:unset_env(todana, memory_policy),
    {ok, _} = application:ensure_all_started(todana),
    ?assertEqual(ok, todana:put(db0, ~"k", Large)),
    1 = todana:clear(db0).

stopping_closes_the_ports(_Config) ->
    Before = sockets(),
    listen(),
    {_, Port} = address(),
    ok = application:stop(todana),
    ?assertEqual({error, econnrefused},
                 gen_tcp:connect({127, 0, 0, 1}, Port, [])),
    %% The sockets that wake the loops go with the last reference to them.
    wait_until(fun() -> sockets() =:= Before end).

local_processes_and_clients_share_records(_Config) ->
    listen(),
    ok = todana:put(db0, ~"k", ~"local"),
    ?assertEqual(~"$5\r\nlocal\r\n", ask(address(), ~"GET k\r\n")),
    ?assertEqual(~"+OK\r\n", ask(address(), ~"SET k remote\r\n")),
    ?assertEqual({ok, ~"remote"}, todana:get(db0, ~"k")),
    ?assertEqual(~":42\r\n", ask(address(), ~"INCRBY c 42\r\n")),
    ?assertEqual({ok, 43}, todana:update_counter(db0, ~"c", 1)),
    Large = binary:copy(~"x", 100_000),
    ok = todana:put(db0, ~"large", Large),
    {ok, Kept} = todana:get(db0, ~"large"),
    ?assertEqual(~":1\r\n", ask(address(), ~"DEL large\r\n")),
    ?assertEqual(Large, Kept),
    ?assertMatch(#{connections_total := N} when N > 3, todana_listener:info()),
    _ = todana:clear(db0).

a_taken_port_is_refused(_Config) ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Port} = inet:port(Socket),
    Address = "127.0.0.1:" ++ integer_to_list(Port),
    application:set_env(todana, listen_resp, Address),
    {error, {todana, {{todana, Sentence}, {todana_app, start, _}}}} =
        application:ensure_all_started(todana),
    ?assertNotEqual(nomatch, string:find(Sentence, Address)),
    ?assert(io_lib:printable_unicode_list(Sentence)),
    application:unset_env(todana, listen_resp),
    ok = gen_tcp:close(Socket).

the_sweeper_frees_memory(_Config) ->
    {ok, _} = application:ensure_all_started(todana),
    {ok, _} = todana:open(short, #{ttl_ms => 300}),
    Pairs = [{<<N:32>>, ~"v"} || N <- lists:seq(1, 10_000)],
    ok = todana:put_many(short, Pairs),
    wait_until(fun() -> todana:count(short) =:= 0 end),
    ?assertEqual(0, todana:bytes(short)),
    ?assertMatch(#{expired := 10_000}, todana:stats(short)).

closing_while_reading(_Config) ->
    {ok, _} = application:ensure_all_started(todana),
    Readers = [spawn_link(fun() -> read_for_ever() end) || _ <- [1, 2, 3, 4]],
    [
        begin
            {ok, _} = todana:open(passing, #{shards => 1}),
            ok = todana:put(passing, ~"k", binary:copy(~"v", 1000)),
            erlang:yield(),
            ok = todana:close(passing)
        end
     || _ <- lists:seq(1, 300)
    ],
    [begin unlink(Pid), exit(Pid, kill) end || Pid <- Readers].

read_for_ever() ->
    try todana:get(passing, ~"k") of
        error -> ok;
        {ok, Value} -> 1000 = byte_size(Value)
    catch
        error:badarg -> ok
    end,
    read_for_ever().

%% Purging the module unloads one instance of the library; the tables, and the
%% values that processes hold, remain.
reloading_the_library(_Config) ->
    listen(),
    fill(kept),
    Large = binary:copy(~"x", 5000),
    Middle = binary:copy(~"y", 100),
    ok = todana:put(kept, large, Large),
    ok = todana:put(kept, middle, Middle),
    Values = [todana:get(kept, large), todana:get(kept, middle)],
    ok = todana:put(kept, large, other),
    [
        begin
            _ = code:purge(todana_nif),
            {module, todana_nif} = code:load_file(todana_nif),
            ?assertEqual(~"+PONG\r\n", ask(address(), ~"PING\r\n")),
            ?assertEqual({ok, other}, todana:get(kept, large))
        end
     || _ <- lists:seq(1, 5)
    ],
    ok = application:stop(todana),
    _ = code:purge(todana_nif),
    true = code:delete(todana_nif),
    _ = code:purge(todana_nif),
    ?assertEqual({ok, other}, todana:get(kept, large)),
    ?assertEqual([{ok, Large}, {ok, Middle}], Values),
    1 = todana:delete_many(kept, [middle]),
    1 = todana:delete_many(kept, [large]),
    is_kept(kept),
    {ok, _} = application:ensure_all_started(todana),
    is_kept(kept).

%% After a purge, no function knows the terms of the earlier instance.
reloading_ends_subscriptions(_Config) ->
    {ok, _} = application:ensure_all_started(todana),
    Tables = [reloaded, db0],
    [{ok, _} = todana:open(Table, #{}) || Table <- Tables],
    [reloading_keeps(Table) || Table <- Tables],
    Ended = [subscribed(Table) || Table <- Tables, _ <- [1, 2]],
    %% Its processes would load the module between these steps.
    ok = application:stop(todana),
    _ = code:purge(todana_nif),
    true = code:delete(todana_nif),
    _ = code:purge(todana_nif),
    {module, todana_nif} = code:load_file(todana_nif),
    {ok, _} = application:ensure_all_started(todana),
    ?assertEqual([closed || _ <- Ended], [message(S) || S <- Ended]),
    [
        begin
            ?assertMatch(#{subscriptions := 0}, todana:stats(Table)),
            ok = todana:put(Table, ~"k", ~"v")
        end
     || Table <- Tables
    ],
    [receive {todana, S, _} = M -> error(M) after 0 -> ok end || S <- Ended],
    [?assertError(badarg, todana:events(S)) || S <- Ended],
    [reloading_keeps(Table) || Table <- Tables],
    1 = todana:clear(db0).

%% A load that replaces the present code keeps subscriptions.
reloading_keeps(Table) ->
    S = subscribed(Table),
    _ = code:purge(todana_nif),
    {module, todana_nif} = code:load_file(todana_nif),
    ok = todana:put(Table, ~"k", ~"v"),
    ?assertEqual(ready, message(S)),
    ?assertMatch([{put, ~"k", _}], todana:events(S)),
    ok = todana:unsubscribe(S).

subscribed(Table) ->
    {ok, S} = todana:subscribe(Table, #{}),
    S.

message(Subscription) ->
    receive
        {todana, Subscription, Word} -> Word
    after 10_000 -> error({no_message, Subscription})
    end.

%% A purged instance of the library is unloaded when its last resource is
%% collected. By then the next instance has its own server. Runs in a separate
%% node, in which nothing else refers to the old instance.
a_late_unload_leaves_the_new_server(_Config) ->
    {ok, Peer, _} = peer:start_link(#{
        connection => standard_io, wait_boot => 60_000,
        args => ["-pa" | code:get_path()]
    }),
    Call = fun(Function, Arguments) ->
        peer:call(Peer, ?MODULE, Function, Arguments, infinity)
    end,
    {Holder, Listener, Address} = Call(reload_under_a_server, []),
    ?assertEqual(~"+PONG\r\n", ask(Address, ~"PING\r\n")),
    ok = Call(collect_the_old, [Holder]),
    ?assertEqual(~"+PONG\r\n", ask(Address, ~"PING\r\n")),
    ?assertEqual(Listener, peer:call(Peer, erlang, whereis, [todana_listener])),
    peer:stop(Peer).

reload_under_a_server() ->
    _ = application:load(todana),
    listen(),
    fill(kept),
    ok = todana:put(kept, large, binary:copy(~"x", 5000)),
    Me = self(),
    Holder = spawn(fun() ->
        {ok, Value} = todana:get(kept, large),
        Me ! {held, byte_size(Value)},
        receive drop -> 5000 = byte_size(Value) end
    end),
    receive {held, 5000} -> ok end,
    ok = todana:delete(kept, large),
    _ = code:purge(todana_nif),
    true = code:delete(todana_nif),
    _ = code:purge(todana_nif),
    %% Not load_file/1: a process of the application may have been faster.
    {module, todana_nif} = code:ensure_loaded(todana_nif),
    is_kept(kept),
    ok = application:stop(todana),
    listen(),
    is_kept(kept),
    2 = todana_nif:instances(),
    {Holder, whereis(todana_listener), address()}.

collect_the_old(Holder) ->
    Holder ! drop,
    wait_until(fun() ->
        _ = [erlang:garbage_collect(Pid) || Pid <- processes()],
        todana_nif:instances() =:= 1
    end).

a_server_that_was_stopped_comes_back(_Config) ->
    listen(),
    Pid = whereis(todana_listener),
    ok = todana_nif:server_stop_all(),
    _ = restarted(todana_listener, Pid),
    ?assertEqual(~"+PONG\r\n", ask(address(), ~"PING\r\n")),
    %% The listener's server is gone, and no message has reported this.
    Again = whereis(todana_listener),
    sys:replace_state(Again, fun(_Server) -> make_ref() end),
    ?assertEqual([], todana_listener:addresses()),
    _ = restarted(todana_listener, Again),
    ?assertEqual(~"+PONG\r\n", ask(address(), ~"PING\r\n")).

%% Values stay intact for readers while writers replace and delete the records.
values_are_whole_while_rewritten(_Config) ->
    {ok, _} = application:ensure_all_started(todana),
    {ok, _} = todana:open(values, #{shards => 4}),
    Sizes = [8, 64, 65, 200, 255, 256, 1000, 10_000],
    Value = fun(Size) -> binary:copy(<<(rand:uniform(256) - 1)>>, Size) end,
    Key = fun() -> <<(rand:uniform(20))>> end,
    Size = fun() -> lists:nth(rand:uniform(length(Sizes)), Sizes) end,
    Steps = lists:seq(1, 20_000),
    Writer = fun() ->
        [
            case rand:uniform(10) of
                1 -> todana:delete(values, Key());
                _ -> ok = todana:put(values, Key(), Value(Size()))
            end
         || _ <- Steps
        ]
    end,
    Reader = fun() ->
        lists:foldl(
            fun(_, Kept) ->
                [is_uniform(V) || V <- Kept],
                case todana:get(values, Key()) of
                    {ok, V} -> lists:sublist([V | Kept], 10);
                    error -> Kept
                end
            end,
            [],
            Steps
        )
    end,
    Pids = [spawn_monitor(F) || F <- [Writer, Writer, Reader, Reader, Reader]],
    [
        receive {'DOWN', M, _, P, Why} -> ?assertEqual(normal, Why) end
     || {P, M} <- Pids
    ].

is_uniform(<<>>) -> ok;
is_uniform(<<B, _/binary>> = V) -> V = binary:copy(<<B>>, byte_size(V)).

%% ---------------------------------------------------------------- shared ---

listen() ->
    application:set_env(todana, listen_resp, "127.0.0.1:0"),
    {ok, _} = application:ensure_all_started(todana).

address() ->
    [{resp, Text}] = todana_listener:addresses(),
    [Ip, Port] = string:split(Text, ":"),
    {Ip, list_to_integer(Port)}.

ask({Ip, Port}, Request) ->
    {ok, Socket} = gen_tcp:connect(Ip, Port, [binary, {active, false}]),
    ok = gen_tcp:send(Socket, Request),
    {ok, Reply} = gen_tcp:recv(Socket, 0, 60_000),
    ok = gen_tcp:close(Socket),
    Reply.

fill(Name) ->
    {ok, _} = todana:open(Name, #{codec => term}),
    ok = todana:put_many(Name, [{N, {value, N}} || N <- lists:seq(1, 1000)]).

is_kept(Name) ->
    ?assertEqual(1000, todana:count(Name)),
    [?assertEqual({ok, {value, N}}, todana:get(Name, N))
     || N <- lists:seq(1, 1000, 37)].

restarted(Name, Old) ->
    wait_until(fun() ->
        Pid = whereis(Name),
        is_pid(Pid) andalso Pid =/= Old andalso is_idle(Pid)
    end).

%% A process that answers system messages is initialised.
is_idle(Pid) ->
    try
        _ = sys:get_state(Pid, 60_000),
        true
    catch
        exit:_ -> false
    end.

wait_until(Condition) ->
    wait_until(Condition, 6000).

wait_until(Condition, 0) ->
    error({never, Condition});
wait_until(Condition, Tries) ->
    case Condition() of
        true ->
            ok;
        false ->
            timer:sleep(10),
            wait_until(Condition, Tries - 1)
    end.
