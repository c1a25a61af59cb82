%% The option table, the forms of values, and the generated page.
-module(todana_options_tests).

-include_lib("eunit/include/eunit.hrl").

the_page_is_fresh_test() ->
    %% To update it: bin/todana config reference > docs/configuration.md
    Page = todana_tree:read("docs/configuration.md"),
    %% Not `assertEqual': it would print both.
    IsFresh = unicode:characters_to_binary(todana_options_page:page()) =:= Page,
    ?assert(IsFresh, "docs/configuration.md is stale: run make docs").

every_limit_is_on_its_page_test() ->
    Page = todana_tree:read("docs/limits.md"),
    Limits = [
        Name
     || Name <- lists:map(fun atom_to_binary/1, todana_options:names()),
        match =:= re:run(
            Name, "(max|limit|hard|soft|soft_ms|timeout_ms)$",
            [{capture, none}]
        )
    ],
    ?assert(length(Limits) > 15),
    [
        ?assertNotEqual({nomatch, Name}, {string:find(Page, Name), Name})
     || Name <- Limits
    ].

%% Options that no native code reads under their names: the listeners go to it
%% as one list, of the password file only the password, and the sweeper is an
%% Erlang process. Those of durability go to the log, which exists before the
%% server.
erlang_only() ->
    [
        announce_host, cluster_accept_older, cluster_create, cluster_join,
        cluster_port, cluster_tls, control_socket, cookie_file, data_dir,
        disk_reserve, durability, durable_value_bytes_max,
        group_queue_bytes_max, listen_http, listen_kyoto, listen_memcached,
        listen_resp, listen_resp_cluster, log_file, log_file_bytes,
        log_file_count, log_format, log_level, no_replica, node, password_file,
        read_bound_ms, snapshot_log_bytes, sweep_interval_ms, zone
    ].

both_sides_have_the_same_options_test() ->
    Erlang = [
        {Name, Type, list_to_binary(Default)}
     || #{name := Name, type := Type, default := Default} <-
            todana_options:all()
    ],
    Native = todana_nif:server_options(),
    Names = fun(Options) -> lists:sort([Name || {Name, _, _} <- Options]) end,
    Where =
        "Erlang: src/options/todana_options.erl; "
        "native: native/server/src/config.rs, native/protocol/src/limits.rs, "
        "native/kyoto/src/settings.rs; "
        "read by Erlang only: erlang_only/0 below",
    ?assertEqual(erlang_only(), Names(Erlang) -- Names(Native), Where),
    ?assertEqual([], Names(Native) -- Names(Erlang), Where),
    Compared = [
        Option
     || {Name, _, _} = Option <- Erlang,
        not lists:member(Name, erlang_only())
    ],
    ?assert(length(Compared) > 25),
    %% What differs is printed as both sides have it.
    ?assertEqual(Native -- Compared, Compared -- Native, Where).

the_form_of_a_size_has_examples_in_its_range_test() ->
    Sizes = [
        {Name, Type}
     || #{name := Name, type := Type} <- todana_options:all(),
        is_tuple(Type), element(1, Type) =:= bytes
    ],
    ?assert(length(Sizes) > 5),
    [
        ?assertMatch({{ok, _}, _}, {todana_option_type:parse(Type, Text), Name})
     || {Name, Type} <- Sizes,
        {match, [Texts]} <- [
            re:run(
                todana_option_type:describe(Type),
                "such as ([a-z0-9 ]+)",
                [{capture, all_but_first, list}]
            )
        ],
        Text <- string:split(Texts, " or ")
    ].

a_wrong_setting_is_badarg_and_named_test() ->
    {ok, Options} = todana_config:embedded(),
    Settings = (todana_settings:of_options(Options))#{password => nil},
    Start = fun todana_nif:server_start/1,
    [
        ?assertEqual(
            {badarg, Name}, Start(Settings#{binary_to_atom(Name) => V})
        )
     || {Name, V} <- [
            {~"event_backend", ~"epoll"},
            {~"event_backend", ~"Native"},
            {~"event_backend", nil},
            {~"event_loops", 0},
            {~"event_loops", ~"auto"},
            {~"connections_max", nil},
            {~"connections_max", 1_000_001},
            {~"tcp_keepalive_s", 1 bsl 32},
            {~"key_bytes_max", -1},
            {~"databases", [~":"]},
            {~"kyoto_hosts", ~"a"},
            {~"kyoto_body_bytes_max", 257 bsl 20},
            {~"listeners", [{~"gopher", ~"127.0.0.1:0"}]},
            {~"password", secret},
            {~"config_file", nil}
        ]
    ],
    Native = [Name || {Name, _, _} <- todana_nif:server_options()],
    [
        ?assertEqual(
            {badarg, atom_to_binary(Name)}, Start(maps:remove(Name, Settings))
        )
     || Name <- Native -- [memory_limit, memory_policy]
    ],
    ?assertEqual({badarg, ~"memory_policy"},
                 todana_nif:set_memory_limit(nil, evicted)).

the_limit_of_clients_memory_test_() ->
    {ok, #{type := Type}} = todana_options:find("clients_memory_limit"),
    Parse = fun(Text) -> todana_option_type:parse(Type, Text) end,
    [
        ?_assertEqual({ok, auto}, Parse("auto")),
        ?_assertEqual({ok, 0}, Parse("0")),
        ?_assertEqual({ok, 1024 bsl 40}, Parse("1024tb")),
        [?_assertMatch({error, _}, Parse(Text))
         || Text <- ["-1", "1025tb", "off", ""]]
    ].

a_password_file_is_its_owners_and_short_test() ->
    Name = "todana_password_" ++ os:getpid(),
    File = filename:join(filename:basedir(user_cache, "todana"), Name),
    ok = filelib:ensure_dir(File),
    Password = fun(Bytes, Mode) ->
        ok = file:write_file(File, Bytes),
        ok = file:change_mode(File, Mode),
        todana_password:read(File)
    end,
    try
        [
            ?assertEqual({ok, ~"secret"}, Password(~"secret\nnotes\n", Mode))
         || Mode <- [8#400, 8#600, 8#644]
        ],
        [
            ?assertMatch({error, "password_file: " ++ _},
                         Password(~"secret\n", Mode))
         || Mode <- [8#666, 8#620, 8#602]
        ],
        Long = binary:copy(~"x", 4096),
        ?assertEqual({ok, Long}, Password(Long, 8#600)),
        {error, Sentence} = Password(<<Long/binary, "\n">>, 8#600),
        ?assertNotEqual(nomatch, string:find(Sentence, "4096 bytes")),
        ?assertMatch({error, _}, Password(~"", 8#600))
    after
        file:delete(File)
    end.

%% Each row: flags, and words of the sentence, or options of the result.
durability_needs_a_directory_test_() ->
    Load = fun(Flags) ->
        case todana_config:load(Flags) of
            {ok, Loaded, _} -> #{N => V || N := {V, _} <- Loaded};
            {error, Sentence} -> Sentence
        end
    end,
    Refused = fun(Flags, Words) ->
        [?_assertMatch({_, [_ | _]}, {Word, string:find(Load(Flags), Word)})
         || Word <- Words]
    end,
    Here = filename:absname("."),
    File = filename:absname(code:which(?MODULE)),
    [
        ?_assertMatch(#{data_dir := off, durability := always,
                        databases := [#{text := ":"}]},
                      Load(#{})),
        ?_assertMatch(#{data_dir := Here, durability := everysec,
                        databases := [#{kind := file_hash}]},
                      Load(#{data_dir => Here, durability => "everysec"})),
        ?_assertMatch(#{databases := [#{text := ":"}]},
                      Load(#{data_dir => Here, databases => ":"})),
        Refused(#{durability => "everysec"}, ["`everysec`", "data_dir"]),
        Refused(#{durability => "always"}, ["`always`", "data_dir"]),
        Refused(#{durability => "never"}, ["`never`", "everysec"]),
        Refused(#{databases => ": a.kct"}, ["`a.kct`", "--data-dir"]),
        Refused(#{data_dir => File}, [File, "is a file"]),
        Refused(#{durable_value_bytes_max => "2mb",
                  group_queue_bytes_max => "1mb"},
                ["durable_value_bytes_max"])
    ].

names_are_unique_test() ->
    Names = todana_options:names(),
    ?assertEqual(lists:usort(Names), lists:sort(Names)).

defaults_are_good_test() ->
    [
        ?assertMatch({_, {ok, _}}, {Name, todana_option_type:parse(Type, D)})
     || #{name := Name, type := Type} = Option <- todana_options:all(),
        {Key, D} <- maps:to_list(Option),
        Key =:= default orelse Key =:= embedded
    ].

defaults_are_written_as_they_are_shown_test() ->
    [
        begin
            {ok, Value} = todana_option_type:parse(Type, Default),
            ?assertEqual(Default, todana_option_type:format(Type, Value))
        end
     || #{type := Type, default := Default} <- todana_options:all()
    ].

parse_test_() ->
    Parse = fun todana_option_type:parse/2,
    Is = fun(Type, Text, Value) ->
        ?_assertEqual({ok, Value}, Parse(Type, Text))
    end,
    Not = fun(Type, Text) ->
        ?_assertMatch({error, [_ | _]}, Parse(Type, Text))
    end,
    Bytes = {bytes, 10, 1 bsl 40},
    Integer = {integer, 1, 100},
    [
        Is(addresses, "off", []),
        Is(addresses, "127.0.0.1:0", [{{127, 0, 0, 1}, 0}]),
        Is(addresses, "localhost:65535", [{{127, 0, 0, 1}, 65535}]),
        Is(addresses, "[::1]:6379", [{{0, 0, 0, 0, 0, 0, 0, 1}, 6379}]),
        Is(addresses, "127.0.0.1:1?read=linear", [{{127, 0, 0, 1}, 1, linear}]),
        Is(addresses, "[::1]:0?read=local,127.0.0.1:1", [
            {{0, 0, 0, 0, 0, 0, 0, 1}, 0, local}, {{127, 0, 0, 1}, 1}
        ]),
        Is(name, "rack-7.eu_1", "rack-7.eu_1"),
        Is(addresses, "127.0.0.1:1, 127.0.0.2:2",
           [{{127, 0, 0, 1}, 1}, {{127, 0, 0, 2}, 2}]),
        [Not(addresses, Text) || Text <- [
            "", "on", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536",
            "127.0.0.1:-1", "127.0.0.1:x", "127.1:1", "::1:6379", "[::1]",
            "example:1", "127.0.0.1:1,", ":6379", "127.0.0.1:1?read=fast",
            "127.0.0.1:1?", "127.0.0.1?read=local"
        ]],
        Is(Bytes, "10", 10),
        Is(Bytes, " 64kb ", 65536),
        Is(Bytes, "1k", 1024),
        Is(Bytes, "512mb", 512 bsl 20),
        Is(Bytes, "1g", 1 bsl 30),
        Is(Bytes, "1024gb", 1 bsl 40),
        Is(Bytes, "1t", 1 bsl 40),
        Is(Bytes, "1tb", 1 bsl 40),
        [Not(Bytes, Text) || Text <- [
            "", "9", "1025gb", "-1", "1.5mb", "mb", "1 mb", "2tb", "1MB",
            "99999999999999999999", "off"
        ]],
        Is({bytes, 1, 2, off}, "off", off),
        Is(Integer, "1", 1),
        Is(Integer, "100", 100),
        [Not(Integer, Text) || Text <- ["0", "101", "-1", "1.0", "x", ""]],
        Is({integer, 1, 2, auto}, "auto", auto),
        Not({integer, 1, 2, auto}, "off"),
        Is({choice, [poll, select]}, "poll", poll),
        Not({choice, [poll, select]}, "epoll"),
        Is(hosts, "off", []),
        Is(hosts, "*", ["*"]),
        Is(hosts, "Cache.example.org, kt:1978",
           ["cache.example.org", "kt:1978"]),
        [Not(hosts, Text) || Text <- ["", "a b", "http://a", "a,", "a/b"]],
        Is(origins, "off", []),
        Is(origins, "https://example.org,http://a:8080",
           ["https://example.org", "http://a:8080"]),
        [Not(origins, Text) || Text <- [
            "", "example.org", "https://", "https://a/", "https://a b", "null"
        ]],
        ?_assertMatch({ok, [#{name := ":"}, #{name := "%"}]},
                      Parse(databases, " :#bnum=1\t %")),
        ?_assertMatch({refused, "database `foo`" ++ _},
                      Parse(databases, ": foo")),
        ?_assertMatch({refused, _}, Parse(databases, " ")),
        Is(file, "/some/where", "/some/where"),
        Is(file, "off", off)
    ].

a_near_name_is_found_test() ->
    ?assertEqual({ok, "memory_limit"}, todana_options:nearest("memory_limt")),
    ?assertEqual(error, todana_options:nearest("zzz")).

the_api_page_names_every_function_test() ->
    Page = todana_tree:read("docs/erlang-api.md"),
    [
        ?assertMatch({_, [_ | _]}, {F, binary:matches(Page, atom_to_binary(F))})
     || {F, _} <- todana:module_info(exports), F =/= module_info
    ].

%% It would never be called.
a_wrong_event_handler_of_the_environment_is_refused_test() ->
    _ = application:load(todana),
    [
        begin
            ok = application:set_env(todana, event_handler, Handler),
            Result = todana_config:embedded(),
            ok = application:unset_env(todana, event_handler),
            case Result of
                {ok, _} ->
                    ?assert(IsRight);
                {error, {todana, Sentence}} ->
                    ?assertMatch("event_handler is `" ++ _, Sentence),
                    ?assertNot(IsRight)
            end
        end
     || {Handler, IsRight} <- [
            {none, true}, {fun(_, _, _) -> ok end, true},
            {fun(_, _) -> ok end, false}, {telemetry, false},
            {{telemetry, execute}, false}
        ]
    ].

%% Each of these has a text, which would become the name of a directory.
a_path_of_the_environment_is_a_string_test() ->
    _ = application:load(todana),
    Embedded = fun(Name, Value) ->
        ok = application:set_env(todana, Name, Value),
        Result = todana_config:embedded(),
        ok = application:unset_env(todana, Name),
        Result
    end,
    [
        ?assertEqual(
            {error, {todana, lists:concat([
                Name, " is `", Text, "`, but should be ", Form
            ])}},
            Embedded(Name, Value)
        )
     || {Name, Form} <- [
            {data_dir, "the path of a directory, or `off`"},
            {log_file, "the path of a file, or `off`"},
            {cookie_file, "the path of a file, or `auto`"}
        ],
        {Value, Text} <- [
            {undefined, "undefined"}, {true, "true"}, {none, "none"},
            {5, "5"}, {{a, "b"}, "{a,\"b\"}"}, {"a\0b", "a\\0b"},
            {<<"a\0b">>, "a\\0b"}, {[$a | $b], "[97|98]"}, {"", ""}
        ]
    ],
    [
        ?assertMatch({ok, #{data_dir := Read}}, Embedded(data_dir, Value))
     || {Value, Read} <- [
            {off, off}, {"off", off}, {"/a/b", "/a/b"}, {<<"/a">>, "/a"},
            {<<"/", 255>>, [$/, 255]}
        ]
    ].
