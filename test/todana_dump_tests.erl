%% `todana:dump' and `todana:load': what is written is read back, and nothing
%% else is.
-module(todana_dump_tests).

-include_lib("eunit/include/eunit.hrl").

dump_test_() ->
    {setup, fun start/0, fun stop/1, fun({_, Directory}) ->
        File = filename:join(Directory, "dump"),
        [
            {Title, fun() ->
                Options = [{dump_from, From}, {dump_to, To}],
                [{ok, _} = todana:open(T, O) || {T, O} <- Options],
                try
                    Test(File)
                after
                    [ok = todana:close(T) || {T, _} <- Options]
                end
            end}
         || {Title, From, To, Test} <- cases()
        ]
    end}.

cases() ->
    Raw = #{},
    Term = #{codec => term},
    Ordered = #{type => ordered_set},
    OrderedTerm = #{type => ordered_set, codec => term},
    Full = #{entries_max => 100, when_full => refuse},
    [
        {"100,000 raw records", Raw, Ordered, fun many/1},
        {"100,000 terms", Term, Term, fun many/1},
        {"100,000 terms in order", OrderedTerm, OrderedTerm, fun many/1},
        {"an empty table", Raw, Raw, fun empty/1},
        {"flags, expiry, large values", Raw, Raw, fun metadata/1},
        {"every flipped byte is found", Raw, Raw, fun flipped/1},
        {"every shortened file is found", Raw, Raw, fun shortened/1},
        {"blocks in another order", Raw, Raw, fun exchanged/1},
        {"another codec", Raw, Term, fun codec/1},
        {"another codec of keys", Term, OrderedTerm, fun codec/1},
        {"keys of no term", OrderedTerm, OrderedTerm, fun no_keys/1},
        {"a full table", Raw, Full, fun full/1},
        {"while others write", Raw, Raw, fun concurrent/1},
        {"files", Raw, Raw, fun files/1},
        {"misuse", Raw, Raw, fun misuse/1}
    ].

start() ->
    {ok, Started} = application:ensure_all_started(todana),
    Name = "todana_dump_tests." ++ os:getpid(),
    Directory = filename:join(filename:basedir(user_cache, "todana"), Name),
    ok = filelib:ensure_path(Directory),
    {Started, Directory}.

stop({Started, Directory}) ->
    ok = file:del_dir_r(Directory),
    [ok = application:stop(Application) || Application <- Started].

records(T) ->
    Entry = fun(K, _, Acc) ->
        {ok, Entry} = todana:get_entry(T, K),
        Acc#{K => maps:remove(version, Entry)}
    end,
    todana:fold(Entry, #{}, T).

pairs(Count) ->
    case todana:info(dump_from) of
        #{codec := raw} ->
            [{<<"key", N:32>>, binary:copy(<<N>>, N rem 300)}
             || N <- lists:seq(1, Count)];
        #{codec := term} ->
            Terms = [
                fun(N) -> {N, #{value => N}} end,
                fun(N) -> {{key, integer_to_binary(N)}, [N, a, self()]} end,
                fun(N) -> {integer_to_list(N), binary:copy(~"v", N rem 300)} end
            ],
            [(lists:nth(1 + N rem 3, Terms))(N) || N <- lists:seq(1, Count)]
    end.

many(File) ->
    Count = 100_000,
    ok = todana:put_many(dump_from, pairs(Count)),
    {ok, #{records := Count, bytes := Bytes}} = todana:dump(dump_from, File),
    ?assertEqual(Bytes, filelib:file_size(File)),
    ?assertEqual({ok, #{loaded => Count, expired => 0}},
                 todana:load(dump_to, File)),
    ?assert(records(dump_from) =:= records(dump_to)).

empty(File) ->
    ?assertMatch({ok, #{records := 0}}, todana:dump(dump_from, File)),
    ok = todana:put(dump_to, ~"there", ~"before"),
    ?assertEqual({ok, #{loaded => 0, expired => 0}},
                 todana:load(dump_to, File)),
    ?assertEqual([{~"there", ~"before"}], todana:to_list(dump_to)).

metadata(File) ->
    Now = os:system_time(millisecond),
    Large = rand:bytes(3 bsl 20),
    ok = todana:put(dump_from, ~"flags", ~"v", #{flags => 16#ffffffff}),
    ok = todana:put(dump_from, ~"later", ~"v", #{ttl_ms => 1_000_000}),
    ok = todana:put(dump_from, ~"", Large),
    ok = todana:put(dump_from, binary:copy(~"k", 65_536), ~""),
    ok = todana:put(dump_from, ~"soon", ~"v", #{expires_at_ms => Now + 3_000}),
    {ok, #{records := Count}} = todana:dump(dump_from, File),
    Soon = fun Soon() ->
        case erlang:system_time(millisecond) > Now + 3_000 of
            true -> ok;
            false -> timer:sleep(20), Soon()
        end
    end,
    Soon(),
    ok = todana:put(dump_to, ~"flags", ~"replaced"),
    %% A slow machine may have lost it before the dump.
    ?assertEqual({ok, #{loaded => 4, expired => Count - 4}},
                 todana:load(dump_to, File)),
    ?assertEqual(maps:remove(~"soon", records(dump_from)), records(dump_to)).

small(File) ->
    ok = todana:put_many(dump_from, pairs(10)),
    {ok, #{bytes := Size}} = todana:dump(dump_from, File),
    {ok, Bytes} = file:read_file(File),
    ?assertEqual(Size, byte_size(Bytes)),
    Bytes.

%% Loads other bytes: no record that was not dumped may appear.
load(File, Parts) ->
    Bytes = iolist_to_binary(Parts),
    ok = file:write_file(File, Bytes),
    _ = todana:clear(dump_to),
    Result = todana:load(dump_to, File),
    Loaded = todana:count(dump_to),
    ?assertEqual(Loaded, maps:size(maps:intersect(records(dump_from),
                                                  records(dump_to)))),
    case Result of
        {error, #{reason := Reason, offset := Offset, loaded := Loaded}} ->
            ?assert(Offset =< byte_size(Bytes)),
            Reason
    end.

flipped(File) ->
    Bytes = small(File),
    Reasons = [
        load(File, flip(Bytes, At, Bit))
     || At <- lists:seq(0, byte_size(Bytes) - 1), Bit <- [0, 3, 7]
    ],
    Known = fun(Reason) ->
        case Reason of
            {version, _} -> true;
            _ -> lists:member(Reason, [corrupted, truncated, not_a_dump])
        end
    end,
    ?assertEqual([], [Reason || Reason <- Reasons, not Known(Reason)]).

flip(Bytes, At, Bit) ->
    <<Before:At/binary, Byte, Behind/binary>> = Bytes,
    <<Before/binary, (Byte bxor (1 bsl Bit)), Behind/binary>>.

shortened(File) ->
    Bytes = small(File),
    [
        ?assertEqual(truncated, load(File, binary:part(Bytes, 0, Size)))
     || Size <- lists:seq(0, byte_size(Bytes) - 1)
    ],
    ?assertEqual(corrupted, load(File, <<Bytes/binary, 0>>)).

%% A block that is left out, doubled, or at another place.
exchanged(File) ->
    ok = todana:put_many(dump_from, pairs(10_000)),
    {ok, _} = todana:dump(dump_from, File),
    {ok, <<Head:15/binary, _/binary>> = Bytes} = file:read_file(File),
    <<_:11/binary, Options:32>> = Head,
    {Header, Rest} = split_binary(Bytes, 15 + Options + 4),
    Blocks = blocks(Rest),
    ?assert(length(Blocks) > 3),
    [A, B | More] = Blocks,
    [
        ?assertEqual(corrupted, load(File, [Header | Other]))
     || Other <- [[B, A | More], [A | More], [A, A, B | More],
                  [A, lists:last(More)]]
    ],
    ?assertEqual(truncated, load(File, [Header, A, B])).

blocks(<<$B, _:8/binary, Size:32, _/binary>> = Bytes) ->
    {Block, Rest} = split_binary(Bytes, 17 + Size + 4),
    [Block | blocks(Rest)];
blocks(Trailer) ->
    [Trailer].

codec(File) ->
    ok = todana:put_many(dump_from, pairs(10)),
    {ok, _} = todana:dump(dump_from, File),
    #{codec := Codec} = todana:info(dump_from),
    ?assertMatch(
        {error, #{reason := {codec, Codec}, loaded := 0}},
        todana:load(dump_to, File)
    ),
    ?assertEqual(0, todana:count(dump_to)).

%% A whole file with bytes that are not the key of a term, or of another term's
%% place in the order: an integer with a tie too many.
no_keys(File) ->
    Good = [{K, todana_codec:key(dump_to, K)} || {K, _} <- pairs(9)],
    {ok, _} = todana:dump(dump_to, File),
    {ok, <<_:11/binary, Options:32, _/binary>> = Empty} = file:read_file(File),
    Header = binary:part(Empty, 0, 15 + Options + 4),
    Write = fun(Keys) ->
        Records = [<<(byte_size(K)):32, 1:32, 0:32, 0:64, K/binary, $7>>
                   || K <- Keys],
        Payload = iolist_to_binary(Records),
        Head = summed(<<$B, 0:32, (length(Keys)):32,
                        (byte_size(Payload)):32>>),
        Trailer = summed(<<$E, 1:32, (length(Keys)):64>>),
        ok = file:write_file(
            File, [Header, summed(<<Head/binary, Payload/binary>>), Trailer]
        )
    end,
    Write([Bytes || {_, Bytes} <- Good]),
    ?assertEqual({ok, #{loaded => 9, expired => 0}},
                 todana:load(dump_to, File)),
    ?assertEqual(lists:sort([{K, 7} || {K, _} <- Good]),
                 todana:to_list(dump_to)),
    9 = todana:clear(dump_to),
    Undecodable = [
        ~"x", <<3>>, <<3, 255>>, <<3, 16#c9, $x>>,
        <<3, 16#c9, (binary:copy(~"x", 9_000))/binary>>
    ],
    [
        begin
            Write([Bytes || {_, Bytes} <- Good] ++ [Key]),
            ?assertMatch({error, #{reason := corrupted, loaded := 0}},
                         todana:load(dump_to, File))
        end
     || Key <- [<<>>, <<3, 16#80, 0>> | Undecodable]
    ],
    [?assertError(badarg, todana_codec:decode(Key)) || Key <- Undecodable],
    ?assertEqual([], todana:to_list(dump_to)).

summed(Bytes) ->
    <<Bytes/binary, (erlang:crc32(Bytes)):32>>.

full(File) ->
    ok = todana:put_many(dump_from, pairs(1_000)),
    {ok, _} = todana:dump(dump_from, File),
    ?assertMatch({error, #{reason := full, loaded := 100}},
                 todana:load(dump_to, File)),
    ?assertEqual(100, todana:count(dump_to)).

%% A dump is one moment: a writer changes two keys as one step. A load goes
%% between the writes of others.
concurrent(File) ->
    ok = todana:put_many(dump_from, pairs(20_000)),
    Both = fun(N) ->
        ok = todana:put_many(dump_from, #{~"a" => <<N:64>>, ~"b" => <<N:64>>},
                             #{atomic => true})
    end,
    Both(0),
    Me = self(),
    Writer = spawn_link(fun() -> write_until_stopped(Me, Both, 1) end),
    [
        begin
            {ok, #{records := Count}} = todana:dump(dump_from, File),
            ?assertEqual(20_002, Count),
            {ok, #{loaded := Count}} = todana:load(dump_to, File),
            ?assertEqual(todana:get(dump_to, ~"a"), todana:get(dump_to, ~"b"))
        end
     || _ <- lists:seq(1, 5)
    ],
    Writer ! stop,
    Last = receive {Writer, stopped, N} -> N end,
    ?assertEqual({ok, <<Last:64>>},
                 todana:get(dump_to, <<"other", Last:64>>)).

write_until_stopped(Me, Both, N) ->
    Both(N),
    ok = todana:put(dump_to, <<"other", N:64>>, <<N:64>>),
    receive
        stop -> Me ! {self(), stopped, N}
    after 0 -> write_until_stopped(Me, Both, N + 1)
    end.

files(File) ->
    ok = todana:put(dump_from, ~"k", ~"v"),
    Directory = filename:dirname(File),
    None = filename:join(Directory, "none/dump"),
    ?assertEqual({error, enoent}, todana:dump(dump_from, None)),
    ?assertEqual({error, #{reason => enoent, offset => 0, loaded => 0}},
                 todana:load(dump_to, None)),
    ok = file:write_file(File, ~"what was there before"),
    ?assertMatch({error, #{reason := not_a_dump, offset := 0, loaded := 0}},
                 todana:load(dump_to, File)),
    %% A dump that fails leaves the file as it was, and none beside it.
    {ok, Snapshot} = todana_nif:snapshot(dump_from),
    ?assertEqual({error, busy}, todana:dump(dump_from, File)),
    _ = todana_nif:snapshot_end(Snapshot),
    ?assertEqual({ok, ~"what was there before"}, file:read_file(File)),
    {ok, _} = todana:dump(dump_from, list_to_binary(File)),
    ?assertMatch({ok, #{loaded := 1}}, todana:load(dump_to, File)),
    ?assertEqual({ok, ["dump"]}, file:list_dir(Directory)).

misuse(File) ->
    [
        ?assertEqual(#{Number => Cause}, cause(Call))
     || {Number, Cause, Call} <- [
            {1, no_such_table, fun() -> todana:dump(none, File) end},
            {1, no_such_table, fun() -> todana:load(none, File) end},
            {2, not_a_file_name, fun() -> todana:dump(dump_from, {a}) end},
            {2, not_a_file_name, fun() -> todana:load(dump_to, "") end},
            {2, not_a_file_name,
                fun() -> todana:dump(dump_from, ~"x\0y") end},
            {2, not_a_file_name, fun() -> todana:dump(dump_from, "x\0") end},
            {2, not_a_file_name, fun() -> todana:load(dump_to, ~"x\0y") end}
        ]
    ].

cause(Call) ->
    try Call() of
        Result -> {returned, Result}
    catch
        error:badarg:Stack ->
            [{todana, _, _, Location} | _] = Stack,
            #{cause := Cause} = proplists:get_value(error_info, Location),
            Cause
    end.
