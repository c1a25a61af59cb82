%% Large binaries that a table keeps by reference instead of copying them.
%%
%% How many references there are to a binary is what process_info/2 says of
%% it. Each test has binaries of sizes that no other has.
-module(todana_kept_tests).
-include_lib("eunit/include/eunit.hrl").

-define(LARGE, 50_000).

kept_test_() ->
    {setup,
     fun start/0,
     fun stop/1,
     [
        fun a_large_binary_is_kept_until_its_record_ends/0,
        fun a_kept_binary_is_a_value_like_any_other/0,
        fun other_values_are_copied/0,
        fun a_binary_is_appended_to_elsewhere/0,
        fun a_kept_binary_outlives_its_process/0,
        fun a_record_with_an_expiry_keeps_a_binary/0,
        fun a_full_table_keeps_no_binary/0,
        fun each_put_has_a_version_and_an_event/0,
        fun clients_read_and_change_a_kept_binary/0,
        fun a_transaction_in_a_full_database_copies_kept_values_or_nothing/0,
        fun memory_returns/0,
        fun wrong_arguments_are_named/0
     ]}.

start() ->
    ok = application:set_env(todana, listen_resp, "127.0.0.1:0"),
    {ok, _} = application:ensure_all_started(todana).

stop(_) ->
    ok = application:stop(todana),
    ok = application:unset_env(todana, listen_resp).

a_large_binary_is_kept_until_its_record_ends() ->
    lists:foreach(
        fun({Name, Size}) ->
            {ok, _} = todana:open(Name, #{}),
            V = binary:copy(~"x", Size),
            Other = binary:copy(~"y", Size + 1),
            ?assertEqual(1, references(V)),
            Has = fun(Count) ->
                %% The reaper frees the largest.
                await(fun() -> references(V) =:= Count end)
            end,
            ok = todana:put(Name, ~"a", V),
            ?assertEqual(2, references(V)),
            ok = todana:put(Name, ~"a", V),
            Has(2),
            ok = todana:put(Name, ~"b", V),
            ?assertEqual(3, references(V)),
            ok = todana:put(Name, ~"a", Other),
            ?assertEqual(2, references(Other)),
            Has(2),
            ok = todana:put(Name, ~"a", ~"small"),
            await(fun() -> references(Other) =:= 1 end),
            ok = todana:delete(Name, ~"b"),
            Has(1),
            ok = todana:put(Name, ~"c", V),
            _ = todana:clear(Name),
            Has(1),
            ok = todana:put(Name, ~"d", V),
            _ = todana:take(Name, ~"d"),
            Has(1)
        end,
        [{T, Size} || T <- [db0, kept], Size <- [10_007, 100_019, 3_000_017]]
    ),
    V = binary:copy(~"x", 20_011),
    ok = todana:put(kept, ~"k", V),
    ?assertEqual(2, references(V)),
    ok = todana:close(kept),
    await(fun() -> references(V) =:= 1 end).

a_kept_binary_is_a_value_like_any_other() ->
    {ok, T} = todana:open(kept_values, #{}),
    [
        begin
            V = crypto:strong_rand_bytes(Size),
            ok = todana:put(T, ~"k", V),
            ?assertEqual({ok, V}, todana:get(T, ~"k")),
            ?assertMatch({ok, #{value := V}}, todana:get_entry(T, ~"k")),
            ?assertEqual(#{~"k" => V}, todana:get_many(T, [~"k"])),
            %% A pin refers to the entry now.
            {ok, Read} = todana:get(T, ~"k"),
            W = crypto:strong_rand_bytes(Size),
            ok = todana:put(T, ~"k", W),
            ?assertEqual({V, {ok, W}}, {Read, todana:get(T, ~"k")}),
            ?assert(todana:bytes(T) > Size),
            ?assert(todana:bytes(T) < Size + 300),
            ok = todana:delete(T, ~"k"),
            ?assertEqual(V, Read),
            ?assertEqual(0, todana:bytes(T))
        end
     || Size <- [1_000, 4_000, 10_000, 100_000, 1_000_000, 5_000_000]
    ],
    ok = todana:close(T).

other_values_are_copied() ->
    {ok, T} = todana:open(kept_raw, #{}),
    {ok, Terms} = todana:open(kept_terms, #{codec => term}),
    V = binary:copy(~"x", ?LARGE),
    Put = fun(Table, Value) ->
        ok = todana:put(Table, ~"k", Value),
        ?assertEqual({ok, Value}, todana:get(Table, ~"k"))
    end,
    Kept = fun(Table, Value) ->
        Put(Table, Value),
        ?assertEqual(2, references(V))
    end,
    Copied = fun(Table, Value) ->
        Put(Table, Value),
        await(fun() -> references(V) =:= 1 end)
    end,
    Kept(T, V),
    Copied(T, ~"small"),
    Kept(T, binary:part(V, 100, ?LARGE - 200)),
    Copied(T, binary:part(V, 0, ?LARGE div 2)),
    Kept(T, V),
    Copied(T, binary:part(V, ?LARGE div 2, ?LARGE div 2)),
    Copied(Terms, V),
    Huge = binary:copy(~"h", 4_000_000),
    ok = todana:put(T, ~"h", binary:part(Huge, 0, 2_000_000)),
    ?assertEqual(1, references(Huge)),
    ok = todana:put(T, ~"k", [V]),
    ?assertEqual(1, references(V)),
    ok = todana:put(T, ~"k", V),
    %% A value that was read belongs to its entry.
    {ok, Read} = todana:get(T, ~"k"),
    ok = todana:put(T, ~"copy", Read),
    ok = todana:delete(T, ~"k"),
    ?assertEqual({ok, V}, todana:get(T, ~"copy")),
    ok = todana:close(T),
    ok = todana:close(Terms),
    ?assertEqual(V, Read).

a_binary_is_appended_to_elsewhere() ->
    {ok, T} = todana:open(kept_appended, #{}),
    Tail = binary:copy(~"t", 100),
    Start = lists:foldl(
        fun(_, B) -> <<B/binary, Tail/binary>> end,
        <<>>, lists:seq(1, 500)
    ),
    Copy = binary:copy(Start),
    %% It has spare room, for which it would not be kept.
    ok = todana_nif:put_large(T, ~"k", [Start], byte_size(Start)),
    Longer = lists:foldl(
        fun(_, B) -> <<B/binary, Tail/binary>> end,
        Start, lists:seq(1, 1_000)
    ),
    Again = <<Start/binary, "other">>,
    ?assertEqual({ok, Copy}, todana:get(T, ~"k")),
    ?assertEqual({Copy, ~"other"}, split_binary(Again, byte_size(Copy))),
    ?assertMatch({Copy, _}, split_binary(Longer, byte_size(Copy))),
    ok = todana:close(T).

a_kept_binary_outlives_its_process() ->
    {ok, T} = todana:open(kept_orphans, #{}),
    {Pid, Ref} = spawn_monitor(fun() ->
        ok = todana:put(T, ~"k", binary:copy(~"z", ?LARGE))
    end),
    receive {'DOWN', Ref, process, Pid, normal} -> ok end,
    _ = [binary:copy(~"!", ?LARGE) || _ <- lists:seq(1, 20)],
    ?assertEqual({ok, binary:copy(~"z", ?LARGE)}, todana:get(T, ~"k")),
    ok = todana:close(T).

a_record_with_an_expiry_keeps_a_binary() ->
    {ok, T} = todana:open(kept_expiring, #{ttl_ms => 60_000}),
    V = binary:copy(~"x", 30_011),
    ok = todana:put(T, ~"k", V),
    ?assertEqual(2, references(V)),
    ?assertMatch({ok, #{expires_at_ms := At}} when is_integer(At),
                 todana:get_entry(T, ~"k")),
    ok = todana:expire(T, ~"k", 1),
    await(fun() ->
        todana:get(T, ~"k") =:= error andalso references(V) =:= 1
    end),
    ok = todana:close(T).

a_full_table_keeps_no_binary() ->
    {ok, T} = todana:open(kept_full, #{
        bytes_max => 100_000, when_full => refuse
    }),
    V = binary:copy(~"x", 40_009),
    ok = todana:put(T, ~"a", V),
    ok = todana:put(T, ~"b", V),
    ?assertEqual({error, full}, todana:put(T, ~"c", V)),
    ?assertEqual(3, references(V)),
    ok = todana:close(T),
    await(fun() -> references(V) =:= 1 end).

each_put_has_a_version_and_an_event() ->
    [
        begin
            {ok, T} = todana:open(Name, #{}),
            {ok, S} = todana:subscribe(T, #{}),
            V = binary:copy(~"x", ?LARGE),
            Versions = [
                begin
                    ok = todana:put(T, ~"k", V),
                    {ok, #{version := Version}} = todana:get_entry(T, ~"k"),
                    erlang:garbage_collect(),
                    Version
                end
             || _ <- lists:seq(1, 5)
            ],
            ?assertEqual(Versions, lists:usort(Versions)),
            [ok = todana:put(T, ~"k", V) || _ <- lists:seq(1, 5)],
            Events = todana:events(S),
            ?assertEqual(10, length(Events)),
            ?assertEqual([{put, ~"k", Version} || Version <- Versions],
                         lists:sublist(Events, 5)),
            ok = todana:unsubscribe(S),
            _ = todana:clear(T)
        end
     || Name <- [db1, kept_events]
    ],
    ok = todana:close(kept_events).

clients_read_and_change_a_kept_binary() ->
    {ok, _} = todana:open(db0, #{}),
    V = binary:copy(~"0123456789", 4_000),
    Size = byte_size(V),
    Socket = connect(),
    Put = fun(Key) -> ok = todana:put(db0, Key, V) end,
    Ask = fun(Words) -> ask(Socket, Words) end,
    Bulk = fun(B) ->
        <<"$", (integer_to_binary(byte_size(B)))/binary, "\r\n", B/binary,
          "\r\n">>
    end,
    Get = fun(Key, Expected) ->
        Reply = Bulk(Expected),
        ok = gen_tcp:send(Socket, request([~"GET", Key])),
        {ok, Reply} = gen_tcp:recv(Socket, byte_size(Reply), 20_000)
    end,
    Put(~"k"),
    Get(~"k", V),
    ?assertEqual(~"+OK\r\n", Ask([~"RENAME", ~"k", ~"r"])),
    ?assertEqual(~":1\r\n", Ask([~"COPY", ~"r", ~"k"])),
    ?assertEqual(2, references(V)),
    Append = iolist_to_binary([$:, integer_to_binary(Size + 4), "\r\n"]),
    ?assertEqual(Append, Ask([~"APPEND", ~"k", ~"tail"])),
    Get(~"k", <<V/binary, "tail">>),
    Get(~"r", V),
    Put(~"k"),
    Length = iolist_to_binary([$:, integer_to_binary(Size), "\r\n"]),
    ?assertEqual(Length, Ask([~"SETRANGE", ~"k", ~"1", ~"xyz"])),
    <<"0123", Rest/binary>> = V,
    Get(~"k", <<"0xyz", Rest/binary>>),
    Put(~"k"),
    ?assertEqual(~":0\r\n", Ask([~"SETBIT", ~"k", ~"0", ~"1"])),
    Put(~"k"),
    ?assertEqual(Length, Ask([~"BITOP", ~"NOT", ~"n", ~"k"])),
    Get(~"n", << <<(bnot B)>> || <<B>> <= V >>),
    ?assertEqual(Bulk(~"123"), Ask([~"GETRANGE", ~"k", ~"1", ~"3"])),
    Get(~"k", V),
    ?assertEqual(V, binary:copy(~"0123456789", 4_000)),
    ok = gen_tcp:close(Socket),
    _ = todana:clear(db0),
    await(fun() -> references(V) =:= 1 end).

a_transaction_in_a_full_database_copies_kept_values_or_nothing() ->
    {ok, _} = todana:open(db0, #{}),
    Whole = binary:copy(~"y", 1_200),
    V = binary:part(Whole, 0, 1_100),
    References = references(Whole),
    Socket = connect(),
    Ask = fun(Words) -> ask(Socket, Words) end,
    Config = fun(Name, Value) ->
        ~"+OK\r\n" = Ask([~"CONFIG", ~"SET", Name, Value])
    end,
    Config(~"maxmemory-policy", ~"noeviction"),
    Outcomes = lists:usort([
        begin
            Config(~"maxmemory", ~"0"),
            _ = todana:clear(db0),
            ok = todana:put(db0, ~"a", V),
            ok = todana:put(db0, ~"b", [V]),
            ?assertEqual(References + 1, references(Whole)),
            Limit = integer_to_binary(todana:bytes(db0) + Room),
            Config(~"maxmemory", Limit),
            ~"+OK\r\n" = Ask([~"MULTI"]),
            lists:foreach(Ask, Transaction),
            case Ask([~"EXEC"]) of
                <<"-EXECABORT", _/binary>> -> nothing;
                <<"*2\r\n", Replies/binary>> -> replies(Replies)
            end
        end
     || Transaction <- [
            [[~"RENAME", ~"a", ~"c"], [~"COPY", ~"c", ~"d"]],
            [[~"COPY", ~"a", ~"b", ~"REPLACE"], [~"COPY", ~"b", ~"c"]],
            [[~"SET", ~"a", ~"1", ~"NX"], [~"COPY", ~"a", ~"c"]]
        ],
        Room <- lists:seq(0, 3_000, 20)
    ]),
    ?assertEqual([all, nothing], Outcomes),
    Config(~"maxmemory", ~"0"),
    ok = gen_tcp:close(Socket),
    _ = todana:clear(db0).

replies(Replies) ->
    case binary:match(Replies, ~"OOM") of
        nomatch -> all;
        _ -> {a_part, Replies}
    end.

memory_returns() ->
    {ok, T} = todana:open(kept_memory, #{}),
    Count = 40,
    Size = 1_000_000,
    erlang:garbage_collect(),
    Before = erlang:memory(binary),
    Put = fun() ->
        [
            ok = todana:put(T, <<N:32>>, binary:copy(<<N>>, Size))
         || N <- lists:seq(1, Count)
        ]
    end,
    {Pid, Ref} = spawn_monitor(fun() -> Put(), Put() end),
    receive {'DOWN', Ref, process, Pid, normal} -> ok end,
    ?assert(todana:bytes(T) >= Count * Size),
    ?assert(erlang:memory(binary) - Before >= Count * Size div 2),
    [ok = todana:delete(T, <<N:32>>) || N <- lists:seq(1, Count)],
    ?assertEqual(0, todana:bytes(T)),
    await(fun() ->
        erlang:garbage_collect(),
        erlang:memory(binary) - Before < 2 * Size
    end),
    ok = todana:close(T).

wrong_arguments_are_named() ->
    V = binary:copy(~"x", ?LARGE),
    ?assertError(badarg, todana:put(no_table, ~"k", V)),
    {ok, T} = todana:open(kept_wrong, #{}),
    ?assertError(badarg, todana:put(T, an_atom, V)),
    ?assertError(badarg, todana:put(T, binary:copy(V, 2), V)),
    ?assertEqual(1, references(V)),
    ok = todana:close(T).

%% The number of references to a binary, this process' one included.
references(Binary) ->
    erlang:garbage_collect(),
    {binary, Binaries} = process_info(self(), binary),
    Size = byte_size(Binary),
    lists:max([Count || {_, S, Count} <- Binaries, S =:= Size]).

await(Holds) ->
    await(Holds, 1_000).

await(Holds, 0) ->
    ?assert(Holds());
await(Holds, Times) ->
    case Holds() of
        true ->
            ok;
        false ->
            timer:sleep(20),
            await(Holds, Times - 1)
    end.

connect() ->
    [{resp, Address} | _] = todana_listener:addresses(),
    [Host, Port] = string:split(Address, ":", trailing),
    {ok, Socket} = gen_tcp:connect(
        Host, list_to_integer(Port), [binary, {active, false}, {nodelay, true}]
    ),
    Socket.

ask(Socket, Words) ->
    ok = gen_tcp:send(Socket, request(Words)),
    {ok, Reply} = gen_tcp:recv(Socket, 0, 20_000),
    Reply.

request(Words) ->
    [
        $*, integer_to_binary(length(Words)), "\r\n",
        [
            [$$, integer_to_binary(byte_size(Word)), "\r\n", Word, "\r\n"]
         || Word <- Words
        ]
    ].
