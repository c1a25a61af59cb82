%% CLIENT TRACKING on nodes without a replica: changes of keys that clients have
%% read reach them, whichever member made them, and whichever is the seat.
-module(todana_guest_tracking_SUITE).

-include_lib("stdlib/include/assert.hrl").

-export([all/0, init_per_testcase/2, end_per_testcase/2]).
-export([
    changes_at_another_member_are_reported/1,
    a_client_forgets_everything_when_the_seat_ends/1,
    a_silent_seat_keeps_no_promise/1,
    no_stale_copy_remains/1
]).
%% Called in the members
-export([kill_seats/0, writer/0]).

-import(todana_peers, [guest/3, kill/1, signal/2, rpc/4, await/1, cluster/2]).

-define(LISTEN, [{listen_resp, '127.0.0.1:0'}]).
-define(LETTERS, "abcd").
-define(SLICE_MS, 50).

all() ->
    [
        changes_at_another_member_are_reported,
        a_client_forgets_everything_when_the_seat_ends,
        a_silent_seat_keeps_no_promise,
        no_stale_copy_remains
    ].

init_per_testcase(Case, Config) -> todana_peers:open(Case, Config).

end_per_testcase(_Case, _Config) -> todana_peers:close().

%% ------------------------------------------------------------------ cases ---

changes_at_another_member_are_reported(Config) ->
    {Members, Z} = opened(Config),
    Seat = seat(Z),
    [Other | _] = Members -- [Seat],
    [Reader, Second, Broad] = [
        tracking(Z, Mode) || Mode <- [~"", ~"", ~" BCAST PREFIX x:"]
    ],
    ~"v0" = get(Reader, ~"k"),
    ~"v0" = get(Second, ~"k"),
    ok = put(Other, ~"k", ~"v1"),
    [?assertEqual([~"k"], invalidated(S)) || S <- [Reader, Second]],
    %% Once: the next message is about another key.
    ok = put(Seat, ~"k", ~"v2"),
    null = get(Reader, ~"j"),
    ok = put(Other, ~"j", ~"v"),
    ?assertEqual([~"j"], invalidated(Reader)),
    await(fun() -> get(Reader, ~"k") =:= ~"v2" end),
    ok = put(Other, ~"x:1", ~"v"),
    ?assertEqual([~"x:1"], invalidated(Broad)),
    %% A clear concerns all.
    _ = rpc(Other, todana, clear, [db0]),
    [?assertEqual(all, last_of_all(S)) || S <- [Reader, Second, Broad]].

%% The node ends, and then only what works for the guest.
a_client_forgets_everything_when_the_seat_ends(Config) ->
    {Members, Z} = opened(Config),
    [Reader, Broad] = [tracking(Z, M) || M <- [~"", ~" BCAST PREFIX x:"]],
    ~"v0" = get(Reader, ~"k"),
    Seat = seat(Z),
    ok = kill(Seat),
    [?assertEqual(all, invalidated(S)) || S <- [Reader, Broad]],
    Next = next_seat(Z, Seat),
    %% It has learned the prefix at once, and keys as they are read.
    await(fun() -> put(Next, ~"x:1", ~"v") =:= ok end),
    ?assertEqual([~"x:1"], invalidated(Broad)),
    ~"v0" = get(Reader, ~"k"),
    [Other] = Members -- [Seat, Next],
    ok = put(Other, ~"k", ~"v1"),
    ok = put(Other, ~"x:2", ~"v"),
    ?assertEqual([~"k"], invalidated(Reader)),
    ?assertEqual([~"x:2"], invalidated(Broad)),
    ~"v1" = get(Reader, ~"k"),
    ok = rpc(Next, ?MODULE, kill_seats, []),
    [?assertEqual(all, invalidated(S)) || S <- [Reader, Broad]].

%% It hangs, and the others go on without it.
a_silent_seat_keeps_no_promise(Config) ->
    {Members, Z} = opened(Config),
    Reader = tracking(Z, ~""),
    ~"v0" = get(Reader, ~"k"),
    Seat = seat(Z),
    ok = signal(Seat, "STOP"),
    try
        ?assertEqual(all, invalidated(Reader)),
        [Other | _] = Members -- [Seat],
        await(fun() -> put(Other, ~"k", ~"v1") =:= ok end),
        ?assertEqual(~"v1", get(Reader, ~"k")),
        ok = put(Other, ~"k", ~"v2"),
        ?assertEqual([~"k"], invalidated(Reader))
    after
        ok = signal(Seat, "CONT")
    end.

%% Clients that drop what is invalidated have the last values in the end,
%% whatever the order of reads, writes and changes of the seat. All read and
%% write the keys of the present moment, so that a key has its last change while
%% it is read, and nothing later makes up for a lost message.
no_stale_copy_remains(Config) ->
    {[A, B, C], Z} = opened(Config),
    %% Several on each of two members, as one waits for the disk.
    Writers = [
        rpc(Member, ?MODULE, writer, []) || Member <- [B, C, B, C, B, C, B, C]
    ],
    Test = self(),
    Readers = [
        spawn_link(fun() ->
            reader(Test, tracking(Z, Mode), Letters, #{}, 0)
        end)
     || {Mode, Letters} <- [
            {~"", ?LETTERS}, {~"", ?LETTERS}, {~" NOLOOP", ?LETTERS},
            %% The seat reports each change of these keys for this client.
            {~" BCAST PREFIX d", "d"}
        ]
    ],
    [
        begin
            timer:sleep(700),
            rpc(seat(Z), ?MODULE, kill_seats, [])
        end
     || _ <- lists:seq(1, 5)
    ],
    timer:sleep(4_000),
    Written = [
        rpc(node(Pid), gen_server, call, [Pid, stop]) || Pid <- Writers
    ],
    %% These write, too.
    [Pid ! stop || Pid <- Readers],
    Keys = lists:append([receive {read, Pid, K} -> K end || Pid <- Readers]),
    _ = rpc(A, todana, get, [db0, ~"k", none, #{read => linear}]),
    Last = rpc(A, todana, get_many, [db0, lists:usort(Keys)]),
    [Pid ! {settle, Last} || Pid <- Readers],
    Read = [receive {settled, Pid, Count} -> Count end || Pid <- Readers],
    ct:pal("~b keys, written: ~0p, read: ~0p", [
        map_size(Last), Written, Read
    ]),
    ?assert(map_size(Last) > 5).

%% ---------------------------------------------------------------- helpers ---

opened(Config) ->
    [A | _] = Members = cluster([a, b, c], Config),
    Z = guest(z, A, ?LISTEN),
    [{ok, _} = rpc(Member, todana, open, [db0, #{}]) || Member <- Members],
    ok = put(A, ~"k", ~"v0"),
    {Members, Z}.

put(Node, Key, Value) -> rpc(Node, todana, put, [db0, Key, Value]).

seat(Z) ->
    await(fun() -> rpc(Z, todana_guest, seat, []) =/= none end),
    rpc(Z, todana_guest, seat, []).

next_seat(Z, Seat) ->
    await(fun() -> not lists:member(seat(Z), [none, Seat]) end),
    seat(Z).

%% The guests of this member need another seat.
kill_seats() -> todana_seats:stop().

%% Writes until it is asked how often it has done so.
writer() -> spawn(fun() -> write(0) end).

write(Count) ->
    receive
        {'$gen_call', From, stop} -> gen_server:reply(From, Count)
    after 0 ->
        ok = todana:put(db0, present_key(?LETTERS), unique()),
        write(Count + 1)
    end.

present_key(Letters) ->
    Slice = erlang:system_time(millisecond) div ?SLICE_MS,
    Letter = lists:nth(rand:uniform(length(Letters)), Letters),
    <<Letter, (integer_to_binary(Slice))/binary>>.

unique() -> integer_to_binary(rand:uniform(1 bsl 60)).

%% Has copies of what it has read, until they are invalidated.
reader(Test, Socket, Letters, Copies, Count) ->
    receive
        stop ->
            Test ! {read, self(), maps:keys(Copies)},
            receive
                {settle, Last} -> settle(Test, Socket, Copies, Count, Last, 0)
            end
    after 0 ->
        Key = present_key(Letters),
        case maps:is_key(Key, Copies) of
            true ->
                New = pushed(Socket, Copies, 1),
                reader(Test, Socket, Letters, New, Count);
            false ->
                New = read(Socket, Key, Copies),
                reader(Test, Socket, Letters, New, Count + 1)
        end
    end.

%% Messages may still be on their way.
settle(Test, Socket, Copies, Count, Last, Rounds) ->
    IsWrong = fun(K, V) -> V =/= maps:get(K, Last, null) end,
    Wrong = maps:filter(IsWrong, Copies),
    case map_size(Wrong) of
        0 when Rounds > 20 ->
            Test ! {settled, self(), Count};
        _ when Rounds > 200 ->
            error({stale, Wrong, Last});
        _ ->
            New = pushed(Socket, Copies, 50),
            settle(Test, Socket, New, Count, Last, Rounds + 1)
    end.

%% Every third time by a script that writes before it reads.
read(Socket, Key, Copies) ->
    ok = gen_tcp:send(Socket, case rand:uniform(3) of
        1 -> [
            ~"EVAL \"redis.call('SET', KEYS[1], ARGV[1]) ",
            ~"return redis.call('GET', KEYS[1])\" 1 ", Key, ~" ",
            unique(), ~"\r\n"
        ];
        _ -> [~"GET ", Key, ~"\r\n"]
    end),
    replied(Socket, Key, Copies).

replied(Socket, Key, Copies) ->
    case frame(Socket, 20_000) of
        {push, Push} -> replied(Socket, Key, dropped(Push, Copies));
        {error, _} -> maps:remove(Key, Copies);
        Value -> Copies#{Key => Value}
    end.

%% Takes the messages that come within some milliseconds.
pushed(Socket, Copies, Ms) ->
    case frame(Socket, Ms) of
        none -> Copies;
        {push, Push} -> pushed(Socket, dropped(Push, Copies), Ms)
    end.

dropped(all, _Copies) -> #{};
dropped(Keys, Copies) -> maps:without(Keys, Copies).

%% A RESP3 client that tracks keys.
tracking(Z, Mode) ->
    Addresses = rpc(Z, todana_listener, addresses, []),
    {resp, Address} = lists:keyfind(resp, 1, Addresses),
    [_, Port] = string:split(Address, ":", trailing),
    {ok, Socket} = gen_tcp:connect(
        {127, 0, 0, 1}, list_to_integer(Port),
        [binary, {active, false}, {packet, line}, {nodelay, true}]
    ),
    ok = gen_tcp:send(Socket, ~"HELLO 3\r\nPING begun\r\n"),
    ok = skip(Socket),
    ok = gen_tcp:send(Socket, [~"CLIENT TRACKING ON", Mode, ~"\r\n"]),
    ~"OK" = frame(Socket, 20_000),
    Socket.

skip(Socket) ->
    case gen_tcp:recv(Socket, 0, 20_000) of
        {ok, ~"begun\r\n"} -> ok;
        {ok, _} -> skip(Socket)
    end.

get(Socket, Key) ->
    ok = gen_tcp:send(Socket, [~"GET ", Key, ~"\r\n"]),
    case frame(Socket, 20_000) of
        {push, _} = Push -> error(Push);
        Value -> Value
    end.

%% The keys that the next message names, or `all'.
invalidated(Socket) ->
    {push, Push} = frame(Socket, 20_000),
    Push.

last_of_all(Socket) ->
    case invalidated(Socket) of
        all -> all;
        _Keys -> last_of_all(Socket)
    end.

frame(Socket, Ms) ->
    case gen_tcp:recv(Socket, 0, Ms) of
        {error, timeout} -> none;
        {ok, Line} -> frame_of(Line, Socket)
    end.

frame_of(~">2\r\n", Socket) ->
    ~"invalidate" = frame(Socket, 20_000),
    {push, case frame(Socket, 20_000) of
        null -> all;
        Keys -> Keys
    end};
frame_of(~"_\r\n", _Socket) -> null;
frame_of(<<"+", Text/binary>>, _Socket) -> string:trim(Text);
frame_of(<<"-", Text/binary>>, _Socket) -> {error, string:trim(Text)};
frame_of(<<"*", Count/binary>>, Socket) ->
    Items = binary_to_integer(string:trim(Count)),
    [frame(Socket, 20_000) || _ <- lists:seq(1, Items)];
%% Values and keys of these tests have no line ends.
frame_of(<<"$", _/binary>>, Socket) ->
    {ok, Text} = gen_tcp:recv(Socket, 0, 20_000),
    string:trim(Text).
