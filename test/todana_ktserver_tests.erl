%% The command line of Kyoto Tycoon's server: options that have an effect,
%% options that are remarked upon, options that are refused.
-module(todana_ktserver_tests).

-include_lib("eunit/include/eunit.hrl").

parsed(Arguments) ->
    {ok, Command} = todana_ktserver:parse(Arguments),
    Command.

flags(Arguments) ->
    #{flags := Flags} = parsed(Arguments),
    Flags.

databases(Arguments) ->
    #{databases := Databases} = parsed(Arguments),
    Databases.

nothing_is_given_test() ->
    ?assertEqual(
        #{
            flags => #{},
            defaults => #{
                listen_resp => "off", listen_memcached => "off",
                listen_http => "off"
            },
            databases => [],
            log => {none, info},
            pid_file => none,
            own_host => true,
            remarks => []
        },
        parsed([])
    ).

address_test_() ->
    Address = fun(Arguments) -> maps:get(listen_kyoto, flags(Arguments)) end,
    [
        ?_assertEqual("127.0.0.1:2000", Address(["-port", "2000"])),
        ?_assertEqual("10.0.0.1:1978", Address(["-host", "10.0.0.1"])),
        ?_assertEqual("[::1]:1", Address(["-host", "::1", "-port", "1"])),
        ?_assertEqual("localhost:1978", Address(["-host", "localhost"])),
        %% The last one counts, as in ktserver.
        ?_assertEqual("127.0.0.1:2", Address(["-port", "1", "-port", "2"]))
    ].

timeout_is_seconds_test_() ->
    [
        ?_assertEqual({Text, #{kyoto_timeout_ms => Ms}},
                      {Text, flags(["-tout", Text])})
     || {Text, Ms} <- [
            {"5", "5000"}, {"0.25", "250"}, {"1.5", "1500"}, {"2.0009", "2000"},
            {"0", "off"}
        ]
    ].

threads_test_() ->
    [
        ?_assertEqual(#{event_loops => Threads}, flags(["-th", Given]))
     || {Given, Threads} <- [{"1", "1"}, {"64", "64"}, {"65", "64"}]
    ].

units_may_be_large_letters_test() ->
    ?assertEqual(flags(["-port", "1k"]), flags(["-port", "1K"])).

log_test_() ->
    Log = fun(Arguments) -> maps:get(log, parsed(Arguments)) end,
    [
        ?_assertEqual({"a.log", info}, Log(["-log", "a.log"])),
        ?_assertEqual({none, info}, Log(["-li"])),
        ?_assertEqual({none, notice}, Log(["-ls"])),
        ?_assertEqual({none, error}, Log(["-le", "-li"])),
        ?_assertEqual({none, none}, Log(["-lz"]))
    ].

pid_test() ->
    ?assertMatch(#{pid_file := "kt.pid"}, parsed(["-pid", "kt.pid"])).

databases_test_() ->
    [
        ?_assertEqual([":"], databases([":"])),
        %% Every argument after the first database is also a database.
        ?_assertEqual([":", "-th", "--"], databases([":", "-th", "--"])),
        ?_assertEqual(["-", "*"], databases(["-th", "1", "--", "-", "*"])),
        ?_assertEqual(["--help"], databases(["--", "--help"])),
        ?_assertEqual([], databases(["--"]))
    ].

the_path_of_the_only_database_on_disk_is_the_data_directory_test_() ->
    Directory = fun(Names) ->
        #{defaults := Defaults} = parsed(Names),
        maps:get(data_dir, Defaults, none)
    end,
    [
        ?_assertEqual({Names, Path}, {Names, Directory(Names)})
     || {Names, Path} <- [
            {["casket.kct"], "casket.kct"},
            {[":", "/var/db/a.kch#bnum=1m", "%"], "/var/db/a.kch"},
            {["a.kch", "b.kct"], none},
            {[":"], none},
            {[], none},
            {["a.kch#type=%"], none}
        ]
    ].

options_without_effect_are_remarked_upon_once_test() ->
    #{remarks := Remarks, databases := [":"]} = parsed([
        "-ulim", "256m", "-uasi", "1", "-sid", "1", "-oat", "-oas", "-onl",
        "-otl", "-onr", "-asi", "5", "-ash", "-bgsi", "180", "-bgsc", "lzo",
        "-cmd", ".", "-mport", "1", "-rts", "f", "-riv", "2", "-plex", "x",
        "-oat", ":"
    ]),
    ?assertEqual(
        [O ++ " has no meaning here" || O <- [
            "-ulim", "-uasi", "-sid", "-oat", "-oas", "-onl", "-otl", "-onr",
            "-asi", "-ash", "-bgsi", "-bgsc", "-cmd", "-mport", "-rts", "-riv",
            "-plex"
        ]],
        Remarks
    ).

a_port_without_a_host_is_remarked_upon_test() ->
    Loaded = fun(Origin) ->
        #{listen_kyoto => {[{{127, 0, 0, 1}, 1978}], Origin}}
    end,
    Remarks = fun(Arguments, Origin) ->
        todana_ktserver:remarks(parsed(Arguments), Loaded(Origin))
    end,
    ?assertMatch([_], Remarks([], default)),
    ?assertMatch([_], Remarks(["-port", "1"], flag)),
    ?assertEqual([], Remarks(["-host", "127.0.0.1"], flag)),
    ?assertEqual([], Remarks([], env)).

refused_test_() ->
    [
        ?_assertMatch({_, {error, [_ | _]}, [_ | _]},
                      {Arguments, Parsed, string:find(Sentence, Named)})
     || {Arguments, Named} <- [
            {["-zz"], "-zz"},
            {["-port"], "-port: a value is missing"},
            {["-port", "x"], "-port is `x`"},
            {["-port", "65536"], "-port"},
            {["-th", "0"], "-th"},
            {["-th", "x"], "-th"},
            {["-tout", "2147483"], "-tout"},
            {["-tout", "-1"], "-tout"},
            {["-tout", "1.x"], "-tout"},
            {["-host", "example.org"], "-host"},
            {["-host", ""], "-host"},
            {["-"], "write --"},
            {["-ulog", "d"], "update log"},
            {["-bgs", "d"], "snapshots"},
            {["-mhost", "h"], "replication"},
            {["-ord"], "read-only"},
            {["-scr", "f"], "scripts"},
            {["-plsv", "f"], "plug-ins"},
            {["-pldb", "f"], "plug-ins"},
            {["-dmn"], "service manager"}
        ],
        Parsed <- [todana_ktserver:parse(Arguments)],
        {error, Sentence} <- [Parsed]
    ].

every_refused_option_is_named_test() ->
    {error, Sentence} = todana_ktserver:parse([
        "-th", "2", "-ulog", "-ord", "-port", "1", "-scr", "-dmn", "-ulog",
        "e", "-mhost", "h", ":", "-bgs", "d"
    ]),
    ?assertEqual(
        "-ulog: there is no update log; -scr: there are no scripts; "
        "-mhost: there is no replication",
        Sentence
    ).

help_test_() ->
    Help = unicode:characters_to_list(todana_ktserver:help()),
    [
        ?_assertEqual(help, todana_ktserver:parse(["--help"])),
        ?_assertEqual(help, todana_ktserver:parse(["-th", "2", "-h"]))
        | [
            ?_assertMatch({_, [_ | _]}, {Option, string:find(Help, Option)})
         || Option <- [
                "-host", "-port", "-tout", "-th", "-log", "-li", "-ls", "-le",
                "-lz", "-ulog", "-ulim", "-uasi", "-sid", "-ord", "-oat",
                "-oas", "-onl", "-otl", "-onr", "-asi", "-ash", "-bgs",
                "-bgsi", "-bgsc", "-dmn", "-pid", "-cmd", "-scr", "-mhost",
                "-mport", "-rts", "-riv", "-plsv", "-plex", "-pldb"
            ]
        ]
    ].
