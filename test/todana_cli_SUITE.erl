%% bin/todana as a user or a supervisor runs it.
-module(todana_cli_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_suite/1, end_per_suite/1]).
-export([
    help/1,
    version/1,
    mistakes_are_one_line/1,
    precedence/1,
    config_file/1,
    config_check/1,
    ready_line/1,
    databases_after_the_flags/1,
    nothing_to_listen_on/1,
    ktserver/1,
    ktserver_log_and_pid/1,
    sigterm_stops/1,
    sigint_stops/1,
    a_taken_port/1,
    passwords/1,
    not_loopback/1,
    repair/1,
    damage_ends_the_start/1,
    without_the_library/1,
    a_member_writes_no_crash_dump/1,
    a_member_restarts_with_its_directory/1,
    a_member_makes_no_second_cookie/1
]).

all() ->
    [
        help,
        version,
        mistakes_are_one_line,
        precedence,
        config_file,
        config_check,
        ready_line,
        databases_after_the_flags,
        nothing_to_listen_on,
        ktserver,
        ktserver_log_and_pid,
        sigterm_stops,
        sigint_stops,
        a_taken_port,
        passwords,
        not_loopback,
        repair,
        damage_ends_the_start,
        without_the_library,
        a_member_writes_no_crash_dump,
        a_member_restarts_with_its_directory,
        a_member_makes_no_second_cookie
    ].

init_per_suite(Config) ->
    Root = todana_tree:root(),
    Program = filename:join([Root, "bin", "todana"]),
    case run(Program, ["version"], []) of
        {0, "todana " ++ _, _} -> [{program, Program} | Config];
        {_, _, Error} -> {skip, "bin/todana does not run: " ++ Error}
    end.

end_per_suite(_Config) ->
    ok.

help(Config) ->
    {0, Help, ""} = todana(Config, ["help"]),
    ?assertEqual({0, Help, ""}, todana(Config, [])),
    {0, Start, ""} = todana(Config, ["help", "start"]),
    ?assertEqual({0, Start, ""}, todana(Config, ["start", "--help"])),
    {0, Shown, ""} = todana(Config, ["help", "config"]),
    ?assertEqual({0, Shown, ""}, todana(Config, ["config", "show", "-h"])),
    {0, KtHelp, ""} = todana(Config, ["ktserver", "--help"]),
    ?assertEqual({0, KtHelp, ""}, todana(Config, ["help", "ktserver"])),
    [
        ?assertNotEqual(nomatch, string:find(Help, todana_options:flag(Name)))
     || Name <- todana_options:names()
    ].

version(Config) ->
    {0, Text, ""} = todana(Config, ["version"]),
    ?assertMatch({match, _}, re:run(Text, "^todana [0-9]+\\.[0-9]+\\.[0-9]+")).

mistakes_are_one_line(Config) ->
    [
        begin
            {Status, Out, Error} = todana(Config, Arguments, Env),
            ?assertEqual({Arguments, 1, ""}, {Arguments, Status, Out}),
            ?assertMatch("todana: " ++ _, Error),
            ?assertEqual(1, length(string:lexemes(Error, "\n"))),
            ?assertMatch({_, [_ | _]}, {Error, string:find(Error, Named)})
        end
     || {Arguments, Env, Named} <- [
            {["strat"], [], "strat"},
            {["start", "here"], [], "`here`"},
            {["start", "--listen-rsp", "off"], [], "--listen-resp"},
            {["start", "--event-loops"], [], "event-loops"},
            {["start", "--event-loops", "0"], [], "event_loops"},
            {["start", "--event-loops=x"], [], "--event-loops"},
            {["start", "--event-loops=1", "--event_loops=2"], [], "twice"},
            {["start", "--memory-limit", "12"], [], "memory_limit"},
            {["start", "--memory-limit", "1GB"], [], "in lower case"},
            {["start", "--output-bytes-soft", "1gb"], [], "output_bytes_hard"},
            {["start", "--config", "/no/where"], [], "/no/where"},
            {["start"], [{"TODANA_EVENT_LOOPS", "many"}], "TODANA_EVENT_LOOPS"},
            {["start"], [{"TODANA_EVENT_LOPS", "1"}], "TODANA_EVENT_LOOPS"},
            {["config"], [], "config show"},
            {["status", "--listen-resp", "127.0.0.1:1"], [],
                "status: no node is running here"},
            {["check"], [], "check: name one data directory"},
            {["check", "a", "b"], [], "check: name one data directory"},
            {["dump", "--node", "a@127.0.0.1", "d"], [],
                "and nothing else, or use `--data-dir DIRECTORY`"},
            {["backup", "--data-dir", "d", "file"], [],
                "`backup FILE`, then an option that identifies the node"},
            {["dump", "--data-dir"], [], "--data-dir: a value is missing"},
            {["repair", "--data-dri", "a"], [], "--data-dir?"},
            {["status", "/no/where"], [], "no node is running"},
            {["check", "--data-dir", "/no/where"], [], "is not a data dir"},
            {["check"], [{"TODANA_DATA_DIR", "/no/where"}], "is not a data dir"}
        ]
    ].

precedence(Config) ->
    File = file(Config, "precedence.conf", "slow_log_us = 1\n"),
    Show = fun(Flags, Env) ->
        {0, Out, ""} = todana(Config, ["config", "show" | Flags], Env),
        [Line] = [L || "slow_log_us " ++ _ = L <- string:lexemes(Out, "\n")],
        [_, "=", Value, "#", Origin | _] = string:lexemes(Line, " "),
        {Value, Origin}
    end,
    Env = [{"TODANA_SLOW_LOG_US", "2"}],
    ?assertEqual({"10000", "default"}, Show([], [])),
    ?assertEqual({"1", "file"}, Show(["--config", File], [])),
    ?assertEqual({"1", "file"}, Show([], [{"TODANA_CONFIG", File}])),
    ?assertEqual({"2", "env"}, Show(["--config", File], Env)),
    %% Kubernetes sets these for a service called todana.
    Service = [
        {"TODANA_SERVICE_HOST", "10.0.0.1"},
        {"TODANA_SERVICE_PORT_RESP", "6379"},
        {"TODANA_PORT", "tcp://10.0.0.1:6379"},
        {"TODANA_PORT_6379_TCP_ADDR", "10.0.0.1"}
    ],
    ?assertEqual({"10000", "default"}, Show([], Service)),
    ?assertEqual({"3", "flag"},
                 Show(["--config", File, "--slow-log-us", "3"], Env)).

config_file(Config) ->
    Bad = fun(Text, Named) ->
        File = file(Config, "bad.conf", Text),
        {1, "", Error} = todana(Config, ["config", "check", "--config", File]),
        ?assertMatch({_, [_ | _]}, {Error, string:find(Error, Named)})
    end,
    Good = file(Config, "good.conf",
        "# a comment\r\n\r\n  memory_limit=1gb # another\n"
        "event_backend =  poll\nlisten_resp = off"),
    {0, Out, ""} = todana(Config, ["config", "show", "--config", Good]),
    ?assertNotEqual(nomatch, string:find(Out, "= 1gb")),
    ?assertNotEqual(nomatch, string:find(Out, "= poll")),
    Bad("memory_limt = 1gb\n", "bad.conf:1: there is no option"),
    Bad("\nmemory_limit\n", "bad.conf:2: "),
    Bad("memory_limit = 1gb\nmemory_limit = 2gb\n", "twice"),
    Bad("memory_limit = lots\n", "memory_limit is `lots`"),
    Bad("memory_limit = \n", "memory_limit").

config_check(Config) ->
    ?assertMatch({0, "the configuration is good\n", ""},
                 todana(Config, ["config", "check"])),
    ?assertMatch({1, "", _},
                 todana(Config, ["config", "check", "--slow-log-us", "-1"])),
    %% The warnings that a start would log.
    Odd = [":#capcnt=1", ":", ":#zkey=secret"],
    Warnings =
        "todana: database 0 (`:`): parameters without an effect: capcnt\n"
        "todana: database 2 (`:`): parameters without an effect: zkey\n",
    ?assertEqual({0, "the configuration is good\n", Warnings},
                 todana(Config, ["config", "check" | Odd])),
    ?assertMatch({0, _, Warnings}, todana(Config, ["config", "show" | Odd])),
    %% A default is adjusted to the other option; a given value is refused.
    Small = ["--input-bytes-max", "1mb"],
    {0, Out, ""} = todana(Config, ["config", "show" | Small]),
    ?assertMatch({match, _},
                 re:run(Out, "^kyoto_body_bytes_max += 1mb ", [multiline])),
    ?assertMatch({1, "", _},
                 todana(Config, ["config", "check", "--kyoto-body-bytes-max",
                                 "2mb" | Small])).

ready_line(Config) ->
    {Port, Line} = start(Config, ["--listen-resp", "127.0.0.1:0,[::1]:0",
                                  "--listen-memcached", "127.0.0.1:0",
                                  "--listen-kyoto", "127.0.0.1:0"]),
    {match, [Resp, Resp6, Memcached, Kyoto]} = re:run(
        Line,
        "^todana ready resp=127\\.0\\.0\\.1:(\\d+),\\[::1\\]:(\\d+) "
        "memcached=127\\.0\\.0\\.1:(\\d+) kyoto=127\\.0\\.0\\.1:(\\d+) "
        "in memory$",
        [{capture, all_but_first, list}]
    ),
    V4 = {127, 0, 0, 1},
    V6 = {0, 0, 0, 0, 0, 0, 0, 1},
    ?assertEqual(~"+OK\r\n", ask(V4, Resp, ~"SET k v\r\n")),
    ?assertEqual(~"$1\r\nv\r\n", ask(V6, Resp6, ~"GET k\r\n")),
    ?assertEqual(~"VALUE k 0 1\r\nv\r\nEND\r\n",
                 ask(V4, Memcached, ~"get k\r\n")),
    %% Only connects: an unknown first byte would close the connection.
    ?assertMatch({ok, _}, gen_tcp:connect(V4, list_to_integer(Kyoto), [])),
    ?assertEqual(0, stop(Port, "TERM")),
    {Port2, Line2} = start(Config, ["--listen-resp", "off",
                                    "--listen-memcached", "127.0.0.1:0"]),
    ?assertMatch({match, _},
                 re:run(Line2,
                        "^todana ready memcached=127\\.0\\.0\\.1:\\d+ "
                        "in memory$")),
    ?assertEqual(0, stop(Port2, "TERM")).

databases_after_the_flags(Config) ->
    Check = fun(Arguments) ->
        todana(Config, ["config", "show" | Arguments])
    end,
    [
        begin
            {0, Out, ""} = Check(Arguments),
            [Line] = [L || "databases " ++ _ = L <- string:lexemes(Out, "\n")],
            ?assertMatch({_, [_ | _]}, {Line, string:find(Line, Databases)})
        end
     || {Arguments, Databases} <- [
            {["--event-loops", "1", ":", "*#capcnt=100000", "%"],
             "= : *#capcnt=100000 %"},
            {["-"], "= - "},
            {["--", "-", ":"], "= - :"},
            {["--databases", ": %#rcomp=dec"], "= : %#rcomp=dec"}
        ]
    ],
    File = file(Config, "databases.conf",
                "databases = : *#capcnt=7 % # a comment\n#: another\n"),
    {0, InFile, ""} = Check(["--config", File]),
    ?assertNotEqual(nomatch, string:find(InFile, "= : *#capcnt=7 %  ")),
    [
        begin
            {1, "", Error} = todana(Config, ["start" | Arguments]),
            ?assertEqual(1, length(string:lexemes(Error, "\n"))),
            ?assertMatch({_, [_ | _]}, {Error, string:find(Error, Named)})
        end
     || {Arguments, Named} <- [
            {["foo.xyz"], "`foo.xyz`"},
            {["a.kch"], "data_dir"},
            {["*#capcnt=x"], "capcnt"},
            {lists:duplicate(17, ":"), "16"},
            {[":", "--listen-resp", "off"], "--listen-resp: flags come before"},
            {["--databases", ":", "%"], "twice"},
            {["a b"], "`a b`"},
            {["-x"], "`-x`"},
            {["--kyoto-body-bytes-max", "200mb"], "input_bytes_max"},
            {["--kyoto-hosts", "a/b"], "kyoto_hosts"}
        ]
    ].

nothing_to_listen_on(Config) ->
    {Log, Status, Line} = logged(Config, [
        "start", "--listen-resp", "off", "--listen-memcached", "off",
        "--listen-kyoto", "off", "--listen-http", "off", ":#bnum=1k"
    ]),
    ?assertEqual({0, "todana ready in memory"}, {Status, Line}),
    ?assertMatch({_, [_ | _]}, {Log, string:find(Log, "no address to listen")}),
    ?assertMatch({_, [_ | _]}, {Log, string:find(Log, "an effect: bnum")}).

ktserver(Config) ->
    {0, Help, ""} = todana(Config, ["ktserver", "--help"]),
    ?assertNotEqual(nomatch, string:find(Help, "-port N")),
    {0, Usage, ""} = todana(Config, ["help"]),
    ?assertNotEqual(nomatch, string:find(Usage, "ktserver")),
    [
        begin
            {1, "", Error} = todana(Config, ["ktserver" | Arguments]),
            ?assertMatch("todana: " ++ _, Error),
            ?assertEqual(1, length(string:lexemes(Error, "\n"))),
            ?assertMatch({_, [_ | _]}, {Error, string:find(Error, Named)})
        end
     || {Arguments, Named} <- [
            {["-zz"], "-zz"},
            {["-host", "0.0.0.0", "-port", "0"], "password_file"},
            {["-ulog", "x"], "-ulog"},
            {["-port", "0", "a.kct", "b.kct"], "data_dir"},
            {["-port", "0", "x.kcd"], "x.kcd"},
            {["-port", "0", "-log", "/dev/null/x"], "-log"}
        ]
    ],
    %% Only the Kyoto port, unless the environment enables the others.
    {_, 0, Alone} = logged(Config, ["ktserver", "-port", "0", "--", "-", "%"]),
    ?assertMatch({match, _},
                 re:run(Alone, "^todana ready kyoto=[0-9.:]+ in memory$")),
    {_, 0, Also} = logged(
        Config, ["ktserver", "-host", "127.0.0.1", "-port", "0"],
        [{"TODANA_LISTEN_RESP", "127.0.0.1:0"}]
    ),
    ?assertMatch({match, _},
                 re:run(Also, "^todana ready resp=[0-9.:]+ kyoto=[0-9.:]+ "
                              "in memory$")).

ktserver_log_and_pid(Config) ->
    Directory = proplists:get_value(priv_dir, Config),
    Log = filename:join(Directory, "kt.log"),
    Pid = filename:join(Directory, "kt.pid"),
    ok = file:write_file(Log, "before\n"),
    {Port, "todana ready kyoto=" ++ _} = start(Config, "ktserver", [
        "-port", "0", "-log", Log, "-pid", Pid, "-th", "1", "-tout", "5",
        "-oat", "-asi", "5", "*#capcnt=10#opts=c"
    ]),
    {os_pid, OsPid} = erlang:port_info(Port, os_pid),
    ?assertEqual({ok, integer_to_binary(OsPid)}, first_line(Pid)),
    ?assertEqual(0, stop(Port, "TERM")),
    ?assertEqual({error, enoent}, file:read_file(Pid)),
    {ok, Lines} = file:read_file(Log),
    ?assertMatch(<<"before\n", _/binary>>, Lines),
    [
        ?assertEqual({Line, 1}, {Line, length(binary:matches(Lines, Line))})
     || Line <- [
            ~"ktserver: -oat has no meaning here",
            ~"ktserver: -asi has no meaning here",
            ~"parameters without an effect: opts",
            ~"127.0.0.1 only"
        ]
    ],
    {Port2, _} = start(Config, "ktserver", ["-port", "0", "-le", "-log", Log,
                                            "-oat"]),
    ?assertEqual(0, stop(Port2, "TERM")),
    ?assertEqual({ok, Lines}, file:read_file(Log)),
    Nowhere = filename:join(Directory, "nowhere"),
    {1, "", Error} = todana(Config, [
        "ktserver", "-port", "0", "-log", filename:join(Nowhere, "kt.log")
    ]),
    ?assertMatch("todana: -log: " ++ _, Error),
    ?assertNot(filelib:is_dir(Nowhere)).

first_line(File) ->
    {ok, Bytes} = file:read_file(File),
    {ok, hd(binary:split(Bytes, ~"\n"))}.

sigterm_stops(Config) ->
    stops(Config, "TERM").

sigint_stops(Config) ->
    stops(Config, "INT").

stops(Config, Signal) ->
    {Port, "todana ready resp=127.0.0.1:" ++ Rest} =
        start(Config, ["--listen-resp", "127.0.0.1:0",
                       "--listen-memcached", "off"]),
    [Number, "in memory"] = string:split(Rest, " "),
    Address = {127, 0, 0, 1},
    {ok, Idle} = gen_tcp:connect(Address, list_to_integer(Number), []),
    ?assertEqual(~"+PONG\r\n", ask(Address, Number, ~"PING\r\n")),
    ?assertEqual(0, stop(Port, Signal)),
    receive {tcp_closed, Idle} -> ok after 60_000 -> error(open) end,
    ?assertEqual({error, econnrefused},
                 gen_tcp:connect(Address, list_to_integer(Number), [])).

a_taken_port(Config) ->
    {ok, Socket} = gen_tcp:listen(0, [{ip, {127, 0, 0, 1}}]),
    {ok, Number} = inet:port(Socket),
    Address = "127.0.0.1:" ++ integer_to_list(Number),
    {1, "", Error} = todana(Config, ["start", "--listen-resp", Address]),
    ?assertEqual(1, length(string:lexemes(Error, "\n"))),
    ?assertNotEqual(nomatch, string:find(Error, Address)),
    ok = gen_tcp:close(Socket).

passwords(Config) ->
    File = file(Config, "password", "secret\nnot this\n"),
    {Port, "todana ready resp=0.0.0.0:" ++ Rest} =
        start(Config, ["--listen-resp", "0.0.0.0:0", "--password-file", File,
                       "--listen-memcached", "off"]),
    [Number, "in memory"] = string:split(Rest, " "),
    V4 = {127, 0, 0, 1},
    ?assertMatch(<<"-NOAUTH", _/binary>>, ask(V4, Number, ~"GET k\r\n")),
    ?assertEqual(~"+OK\r\n", ask(V4, Number, ~"AUTH secret\r\n")),
    ?assertEqual(0, stop(Port, "TERM")),
    Empty = file(Config, "empty", "\n"),
    {1, "", Error} = todana(Config, ["start", "--password-file", Empty]),
    ?assertNotEqual(nomatch, string:find(Error, "password_file")),
    ?assertMatch({1, "", _},
                 todana(Config, ["config", "check", "--password-file", "/no"])).

not_loopback(Config) ->
    [
        begin
            {1, "", Error} = todana(Config, ["start", Flag, Address]),
            ?assertNotEqual(nomatch, string:find(Error, "password_file"))
        end
     || Flag <- ["--listen-resp", "--listen-memcached", "--listen-kyoto",
                "--listen-http"],
        Address <- ["0.0.0.0:0", "[::]:0", "127.0.0.1:0,192.0.2.1:0"]
    ].

%% ---------------------------------------------------------------- shared ---

todana(Config, Arguments) ->
    todana(Config, Arguments, []).

todana(Config, Arguments, Env) ->
    run(proplists:get_value(program, Config), Arguments, Env).

%% Exit status, standard output, standard error.
run(Program, Arguments, Env) ->
    Errors = filename:join(
        %% Another checkout may run its tests at the same time.
        filename:basedir(user_cache, "todana_cli_suite"),
        "stderr." ++ os:getpid()
    ),
    ok = filelib:ensure_dir(Errors),
    Script = "exec \"$0\" \"$@\" 2> \"$STDERR_FILE\"",
    Port = open_port({spawn_executable, "/bin/sh"}, [
        {args, ["-c", Script, Program | Arguments]},
        {env, [{"STDERR_FILE", Errors} | Env]},
        exit_status, {line, 10_000}, use_stdio
    ]),
    {Status, Lines} = collect(Port, []),
    {ok, Error} = file:read_file(Errors),
    ok = file:delete(Errors),
    {Status, Lines, unicode:characters_to_list(Error)}.

collect(Port, Out) ->
    receive
        {Port, {data, {eol, Line}}} -> collect(Port, Out ++ Line ++ "\n");
        {Port, {data, {noeol, Line}}} -> collect(Port, Out ++ Line);
        {Port, {exit_status, Status}} -> {Status, Out}
    after 120_000 ->
        error({still_running, Out})
    end.

%% A node that was killed, and a defect in the second of its three records.
repair(Config) ->
    DataDir = filename:join(proplists:get_value(priv_dir, Config), "repair"),
    Repair = fun() -> todana(Config, ["repair", DataDir]) end,
    Mistake = fun({Status, Out, Error}, Named) ->
        ?assertEqual({1, ""}, {Status, Out}),
        ?assertEqual(1, length(string:lexemes(Error, "\n"))),
        ?assertMatch({_, [_ | _]}, {Error, string:find(Error, Named)})
    end,
    Mistake(todana(Config, ["repair"]), "name one data directory"),
    Mistake(Repair(), "is not a data directory"),
    Keys = [~"a", ~"b", ~"c"],
    First = durable(Config, DataDir),
    [~"+OK\r\n" = resp(First, [~"SET ", K, " ", value(K)]) || K <- Keys],
    Mistake(Repair(), "in use"),
    _ = kill_9(First),
    [File] = filelib:wildcard(filename:join(DataDir, "always/*.wal")),
    {ok, Bytes} = file:read_file(File),
    {At, Length} = binary:match(Bytes, value(~"b")),
    Middle = At + Length div 2,
    <<Before:Middle/binary, _, After/binary>> = Bytes,
    ok = file:write_file(File, [Before, "x", After]),
    {1, Findings, _} = todana(Config, ["check", DataDir]),
    ?assertMatch({match, _}, re:run(Findings, "^damaged .*\\.wal: offset",
                                    [multiline])),
    {0, Text, ""} = Repair(),
    [
        ?assertMatch({_, [_ | _]}, {Text, string:find(Text, Part)})
     || Part <- [File ++ " is cut from", "confirmed writes", "damaged/"]
    ],
    ?assertEqual({0, "No entry of the log is damaged.\n", ""}, Repair()),
    {0, _, ""} = todana(Config, ["check", DataDir]),
    Again = durable(Config, DataDir),
    ?assertEqual([1, 0, 0], [
        binary_to_integer(string:trim(Number))
     || K <- Keys, <<":", Number/binary>> <- [resp(Again, [~"EXISTS ", K])]
    ]),
    _ = kill_9(Again).

%% `check', `repair', `dump' and `start' say the same in one line: of a segment,
%% and of the end of the log.
damage_ends_the_start(Config) ->
    DataDir = filename:join(proplists:get_value(priv_dir, Config), "damage"),
    First = durable(Config, DataDir),
    ~"+OK\r\n" = resp(First, [~"SET a ", value(~"a")]),
    _ = kill_9(First),
    %% A start moves the log to segments.
    Second = durable(Config, DataDir),
    ~"+OK\r\n" = resp(Second, [~"SET b ", value(~"b")]),
    _ = kill_9(Second),
    Find = fun(Pattern) ->
        lists:last(filelib:wildcard(filename:join(DataDir, Pattern)))
    end,
    Segment = Find("always/*/*.segment"),
    {ok, Whole} = file:read_file(Segment),
    {At, _} = binary:match(Whole, value(~"a")),
    ok = write_at(Segment, At, "x"),
    Contents = fun() ->
        Files = filelib:wildcard(filename:join(DataDir, "always/**")),
        [{File, file:read_file(File)} || File <- Files]
    end,
    Before = Contents(),
    Refused = fun(Commands, Named) ->
        [
            begin
                {1, Out, Error} = todana(Config, [Command | Arguments]),
                %% Besides, `start' may warn of a long path.
                Sentences = [
                    Line
                 || Line <- string:lexemes(Error, "\n"),
                    string:find(Line, " warning: ") =:= nomatch
                ],
                ?assertMatch({_, ["todana: " ++ _]}, {Error, Sentences}),
                [
                    ?assertNotEqual({Command, Error, nomatch}, {
                        Command, Error, string:find([Out, Error], Part)
                    })
                 || Part <- Named
                ]
            end
         || [Command | Arguments] <- Commands
        ]
    end,
    Start = ["start", "--data-dir", DataDir, "--listen-resp", "127.0.0.1:0",
             "--listen-memcached", "off"],
    Parts = [Segment, "damaged at offset", "fails its checksum", "backup"],
    _ = Refused([[Command, DataDir] || Command <- ["check", "repair", "dump"]],
                Parts),
    ?assertEqual(Before, Contents()),
    _ = Refused([Start], Parts),
    ok = write_at(Segment, At, "a"),
    Third = durable(Config, DataDir),
    ~"+OK\r\n" = resp(Third, [~"SET c ", value(~"c")]),
    _ = kill_9(Third),
    Newest = Find("always/*.wal"),
    ok = file:rename(Newest, Newest ++ ".away"),
    _ = Refused(
        [["check", DataDir], Start], ["was confirmed", "is missing"]
    ),
    ok = file:rename(Newest ++ ".away", Newest),
    Fourth = durable(Config, DataDir),
    ?assertEqual(~":3\r\n", resp(Fourth, ~"EXISTS a b c")),
    _ = kill_9(Fourth).

write_at(File, At, Bytes) ->
    {ok, Fd} = file:open(File, [read, write, raw]),
    ok = file:pwrite(Fd, At, Bytes),
    ok = file:close(Fd).

value(Key) ->
    binary:copy(Key, 2_000).

%% A durable node that serves, and its address.
durable(Config, DataDir) ->
    {Port, Line} = start(Config, [
        "--data-dir", DataDir, "--disk-reserve", "1mb",
        "--listen-resp", "127.0.0.1:0", "--listen-memcached", "off"
    ]),
    {match, [Number]} = re:run(Line, "resp=127\\.0\\.0\\.1:(\\d+) durability",
                               [{capture, all_but_first, list}]),
    %% The line comes when the log has been read.
    ?assertEqual(~"+OK\r\n", resp({Port, Number}, ~"SET ready now")),
    {Port, Number}.

resp({_Port, Number}, Command) ->
    ask({127, 0, 0, 1}, Number, [Command, "\r\n"]).

kill_9({Port, _Number}) ->
    stop(Port, "KILL").

%% A copy of the built tree without priv/.
without_the_library(Config) ->
    Program = proplists:get_value(program, Config),
    Root = filename:dirname(filename:dirname(Program)),
    Copy = filename:join(proplists:get_value(priv_dir, Config), "tree"),
    Lib = filename:join(Copy, "_build/default/lib/todana"),
    ok = filelib:ensure_path(Lib),
    ok = filelib:ensure_path(filename:join(Copy, "bin")),
    Ebin = filename:join(Root, "_build/default/lib/todana/ebin"),
    [
        [] = os:cmd(lists:concat(["cp -R ", From, " ", To]))
     || {From, To} <- [
            {Program, filename:join(Copy, "bin")},
            {filename:join(Root, "config"), Copy},
            {Ebin, Lib}
        ]
    ],
    Toolchain = filename:join(Root, ".toolchain"),
    _ = file:make_symlink(Toolchain, filename:join(Copy, ".toolchain")),
    Dump = filename:join(Copy, "erl_crash.dump"),
    {1, "", Error} = run(
        filename:join([Copy, "bin", "todana"]), ["start"],
        [{"ERL_CRASH_DUMP", Dump}]
    ),
    ?assertEqual(1, length(string:lexemes(Error, "\n"))),
    ?assertMatch("todana: " ++ _, Error),
    ?assertMatch({_, [_ | _]}, {Error, string:find(Error, "make build")}),
    ?assertNot(filelib:is_file(Dump)).

%% It would have the cookie, which is an atom.
a_member_writes_no_crash_dump(Config) ->
    Directory = filename:join(proplists:get_value(priv_dir, Config), "member"),
    Dump = filename:join(Directory, "erl_crash.dump"),
    ok = filelib:ensure_path(Directory),
    Flags = [
        "--data-dir", filename:join(Directory, "data"),
        "--cookie-file", filename:join(Directory, "cookie"),
        "--node", "dump" ++ os:getpid() ++ "@127.0.0.1", "--cluster-create",
        "--listen-resp", "127.0.0.1:0", "--listen-memcached", "off"
    ],
    true = os:putenv("ERL_CRASH_DUMP", Dump),
    {Port, "todana ready" ++ _} = start(Config, Flags),
    true = os:unsetenv("ERL_CRASH_DUMP"),
    ?assertNotEqual(0, stop(Port, "USR1")),
    ?assertNot(filelib:is_file(Dump)).

%% The directory knows the name and the cookie file, also of a node that was
%% killed as soon as it served, and no other is made.
a_member_restarts_with_its_directory(Config) ->
    Directory = filename:join(proplists:get_value(priv_dir, Config), "again"),
    ok = filelib:ensure_path(Directory),
    DataDir = filename:join(Directory, "data"),
    Cookie = filename:join(Directory, "cookie"),
    Always = [
        "--data-dir", DataDir, "--listen-resp", "127.0.0.1:0",
        "--listen-memcached", "off"
    ],
    {First, "todana ready" ++ _} = start(Config, Always ++ [
        "--cookie-file", Cookie, "--node",
        "again" ++ os:getpid() ++ "@127.0.0.1", "--cluster-create"
    ]),
    _ = stop(First, "KILL"),
    {ok, Known} = todana_data_dir:identity(DataDir),
    ?assertMatch(#{cookie_file := Cookie, members := [_]}, Known),
    Home = os:getenv("HOME"),
    true = os:putenv("HOME", Directory),
    {Again, "todana ready" ++ _} = start(Config, Always),
    true = os:putenv("HOME", Home),
    0 = stop(Again, "TERM"),
    ?assertNot(filelib:is_file(filename:join(Directory, ".todana.cookie"))).

%% It would wait for the others for ever with a new one.
a_member_makes_no_second_cookie(Config) ->
    Directory = filename:join(proplists:get_value(priv_dir, Config), "second"),
    DataDir = filename:join(Directory, "data"),
    Cookie = filename:join(Directory, "cookie"),
    ok = filelib:ensure_path(Directory),
    Node = list_to_atom("second" ++ os:getpid() ++ "@127.0.0.1"),
    Listeners = [
        "--listen-resp", "127.0.0.1:0", "--listen-memcached", "off"
    ],
    {First, "todana ready" ++ _} = start(Config, [
        "--data-dir", DataDir, "--cookie-file", Cookie, "--node",
        atom_to_list(Node), "--cluster-create" | Listeners
    ]),
    0 = stop(First, "TERM"),
    {ok, Opened} = todana_data_dir:identity(DataDir),
    ok = todana_data_dir:write_terms(DataDir, maps:to_list(Opened#{
        members := [Node, 'other@127.0.0.1']
    })),
    ok = file:delete(Cookie),
    [
        begin
            {1, "", Error} = todana(Config, Words ++ [
                "--data-dir", DataDir | Listeners
            ], environment()),
            ?assertEqual(
                "todana: cookie_file: " ++ Cookie ++ " is missing, and this "
                "node is a member of a cluster, which has a cookie: copy the "
                "file from another member, or name it with --cookie-file\n",
                Error
            ),
            ?assertNot(filelib:is_file(Cookie))
        end
     || Words <- [["start"], ["config", "check"]]
    ].

%% Starts a server and returns its first line.
start(Config, Flags) ->
    start(Config, "start", Flags).

start(Config, Command, Flags) ->
    Port = open_port({spawn_executable, proplists:get_value(program, Config)}, [
        {args, [Command | Flags]}, {env, environment()}, exit_status,
        {line, 10_000}
    ]),
    {Port, ready(Port)}.

%% The ports of Kyoto Tycoon and for monitors are off, unless a case enables
%% them.
environment() ->
    [{"TODANA_LISTEN_KYOTO", "off"}, {"TODANA_LISTEN_HTTP", "off"}].

%% The log of a server, its exit status, and its first line.
logged(Config, Arguments) ->
    logged(Config, Arguments, []).

logged(Config, Arguments, Env) ->
    Program = proplists:get_value(program, Config),
    Errors = filename:join(proplists:get_value(priv_dir, Config), "log"),
    Script = "exec \"$0\" \"$@\" 2> \"$STDERR_FILE\"",
    Port = open_port({spawn_executable, "/bin/sh"}, [
        {args, ["-c", Script, Program | Arguments]},
        {env, [{"STDERR_FILE", Errors} | Env]}, exit_status, {line, 10_000}
    ]),
    Line = ready(Port),
    Status = stop(Port, "TERM"),
    {ok, Log} = file:read_file(Errors),
    {unicode:characters_to_list(Log), Status, Line}.

ready(Port) ->
    receive
        {Port, {data, {eol, Line}}} -> Line;
        {Port, {exit_status, Status}} -> error({exit_status, Status})
    after 120_000 -> error(not_ready)
    end.

stop(Port, Signal) ->
    {os_pid, Pid} = erlang:port_info(Port, os_pid),
    [] = os:cmd(lists:concat(["kill -", Signal, " ", Pid])),
    receive
        {Port, {exit_status, Status}} -> Status
    after 120_000 -> error(does_not_stop)
    end.

ask(Ip, Number, Request) ->
    {ok, Socket} =
        gen_tcp:connect(Ip, list_to_integer(Number), [binary, {active, false}]),
    ok = gen_tcp:send(Socket, Request),
    {ok, Reply} = gen_tcp:recv(Socket, 0, 60_000),
    ok = gen_tcp:close(Socket),
    Reply.

file(Config, Name, Text) ->
    File = filename:join(proplists:get_value(priv_dir, Config), Name),
    ok = file:write_file(File, Text),
    File.
