"""Hostile bytes on the RESP port."""

import random

import pytest

import wire
from streams import NUMBERS, call, mutate, play, play_empty_safe, splits, truncations
from wire import Error, encode

REQUESTS = [
    encode("PING"),
    encode("PING", "hello"),
    encode("SET", "k", "value\r\nwith lines") + encode("GET", "k"),
    encode("SET", "k", "v", "EX", 100, "NX", "GET"),
    encode("MSET", "a", 1, "b", 2) + encode("MGET", "a", "b", "missing"),
    encode("SETRANGE", "r", 10, "xyz") + encode("GETRANGE", "r", -5, -1),
    encode("SETBIT", "bits", 7, 1) + encode("BITCOUNT", "bits", 0, -1, "BIT"),
    encode("INCRBYFLOAT", "f", "0") + encode("INCRBY", "n", 0),
    encode("SCAN", 0, "MATCH", "none*", "COUNT", 100000),
    encode("EXPIRE", "missing", 100, "NX") + encode("TTL", "missing"),
    encode("MULTI") + encode("SET", "t", 1) + encode("GET", "t") + encode("EXEC"),
    encode("WATCH", "w") + encode("MULTI") + encode("DISCARD"),
    encode("HELLO", 3, "SETNAME", "x") + encode("GET", "missing"),
    encode("LCS", "a", "b", "IDX", "MINMATCHLEN", 4, "WITHMATCHLEN"),
    encode("COMMAND", "GETKEYS", "SET", "k", "v") + encode("COMMAND", "INFO", "get"),
    encode("CLIENT", "SETNAME", "hostile") + encode("CLIENT", "GETNAME"),
    encode("SUBSCRIBE", "a", "b") + encode("PSUBSCRIBE", "*a*[") + encode("GET", "k") + encode("UNSUBSCRIBE") + encode("RESET"),
    encode("HELLO", 3) + encode("CLIENT", "TRACKING", "ON", "OPTIN") + encode("CLIENT", "CACHING", "YES") + encode("GET", "missing"),
    encode("NONESUCH", "a", "b") + encode("ECHO", "after"),
    encode("EVAL", "return {KEYS[1], redis.call('GET', KEYS[1])}", 1, "k", "a") + encode("EVALSHA", "0" * 40, 0),
    encode("EVAL", "return cjson.decode(ARGV[1])", 0, "[1,{}]") + encode("SCRIPT", "LOAD", "return 1"),
    b"SET inline 'a value' EX 100\r\nGET inline\r\n",
    b'ECHO "\\x41\\n quoted"\n\r\nPING\r\n',
    b"*0\r\n*-1\r\nPING\r\n",
    encode("RESET") + encode("SELECT", 5) + encode("DBSIZE") + encode("QUIT"),
]
DICTIONARY = [b"*1\r\n", b"$1\r\n", b"*-1\r\n", b"$-1\r\n", b"\r\n", b"*", b"$", b":1\r\n", b"+OK\r\n", b"%1\r\n", b"~1\r\n", b"|1\r\n"] + [
    b"SET", b"GET", b"MULTI", b"EXEC", b"WATCH", b"HELLO", b"3", b"EX", b"PX", b"NX", b"KEEPTTL", b"EVAL", b"return 1", b"COUNT", b"MATCH", b"IDX", b"BIT",
]
GARBAGE = {
    "tls": bytes.fromhex("16030100a5010000a10303") + bytes(range(160)),
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "http get": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "http post": b"POST /set HTTP/1.1\r\nHost: localhost\r\nContent-Length: 20\r\n\r\nSET hacked yes\r\n",
    "http put": b"PUT /k HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n\r\nv",
    "http options": b"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "memcached text": b"set k 0 0 5\r\nhello\r\nget k\r\nmg k v\r\nquit\r\n",
    "memcached binary": b"\x80\x00\x00\x01" + bytes(20) + b"k",
    "zeros": bytes(5000),
    "ones": b"\xff" * 5000,
    "line ends": b"\r\n" * 5000,
    "carriage returns": b"\r" * 5000,
    "spaces": b" " * 5000 + b"\r\n",
    "stars": b"*" * 5000,
    "dollars": b"$" * 5000 + b"\r\n",
    "quotes": b'"' * 5001 + b"\r\n",
    "backslashes": b'ECHO "' + b"\\" * 5001 + b"\r\n",
    "replies": b"+OK\r\n:1\r\n-ERR x\r\n$-1\r\n_\r\n#t\r\n,1.5\r\n(99999999999999999999\r\n",
    "utf-16": "PING\r\n".encode("utf-16"),
}


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes(server, seed):
    """The server answers noise with an error, ignores it or waits; when it ends, the connection is closed."""
    chance = random.Random(seed)
    play(server.resp, [[chance.randbytes(chance.randrange(1, 400))] for _ in range(250)])


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_behind_a_plausible_start(server, seed):
    """Noise after the beginning of a valid request."""
    chance = random.Random(seed)
    starts = [b"*3\r\n$3\r\nSET\r\n$", b"*2\r\n", b"*1\r\n$4\r\n", b"*65536\r\n$1\r\n", b"SET a ", b'ECHO "', b"*2\r\n$3\r\nGET\r\n$10\r\n"]
    play(server.resp, [[chance.choice(starts) + chance.randbytes(chance.randrange(1, 200))] for _ in range(250)])


@pytest.mark.parametrize("seed", range(40))
def test_mutated_requests(server, seed):
    """Requests with a few bytes changed, complete and truncated at a random place."""
    chance = random.Random(seed)
    streams = []
    for _ in range(250):
        data = mutate(chance, b"".join(chance.choices(REQUESTS, k=chance.randrange(1, 4))), DICTIONARY)
        cut = chance.randrange(len(data) + 1)
        streams.append(play_empty_safe(data[:cut]) + [data[cut:]] if chance.random() < 0.5 else play_empty_safe(data))
    play(server.resp, streams)


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_split_at_every_offset(server, number):
    """A stream split in two at any place has the same answers as the whole."""
    stream = REQUESTS[number]
    # Played once before, so that its records exist for each of the others.
    play(server.resp, [[stream]])
    (whole,) = play(server.resp, [[stream]])
    for at, answer in enumerate(play(server.resp, splits(stream)), start=1):
        assert _stable(answer) == _stable(whole), "cut at %d" % at


def _stable(answer):
    """Answers without the connection's number in HELLO."""
    return b"HELLO" if b"server" in answer[:20] and b"proto" in answer else answer


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_truncated_at_every_offset(server, number):
    """If a stream ends anywhere, its complete requests are answered, and the connection is closed."""
    stream = REQUESTS[number]
    play(server.resp, truncations(stream))


@pytest.mark.parametrize("seed", range(12))
def test_mutated_streams_split_at_every_offset(server, seed):
    """Malformed streams, too, have the same answers in any split."""
    chance = random.Random(seed)
    for _ in range(4):
        stream = mutate(chance, chance.choice(REQUESTS[:6]), DICTIONARY)[:120]
        if len(stream) > 1:
            play(server.resp, splits(stream))


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:24].decode())
def test_every_number_in_every_place(server, number):
    """Counts and lengths of any size and notation."""
    places = [
        b"*%s\r\n$4\r\nPING\r\n", b"*1\r\n$%s\r\nPING\r\n", b"*2\r\n$3\r\nGET\r\n$%s\r\nk\r\n", b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%s\r\nvalue\r\n",
        b"SETRANGE k %s x\r\n", b"GETRANGE k %s %s\r\n", b"SETBIT k %s 1\r\n", b"GETBIT k %s\r\n", b"INCRBY k %s\r\n", b"DECRBY k %s\r\n",
        b"INCRBYFLOAT k %s\r\n", b"EXPIRE k %s\r\n", b"PEXPIREAT k %s\r\n", b"SET k v EX %s\r\n", b"SET k v PXAT %s\r\n", b"GETEX k PX %s\r\n",
        b"SCAN %s\r\n", b"SCAN 0 COUNT %s\r\n", b"SELECT %s\r\n", b"SWAPDB %s %s\r\n", b"MOVE k %s\r\n", b"COPY k j DB %s\r\n",
        b"BITCOUNT k %s %s BIT\r\n", b"BITPOS k 1 %s %s BIT\r\n", b"BITPOS k 0 %s\r\n", b"LCS k j IDX MINMATCHLEN %s\r\n", b"HELLO %s\r\n",
        b"CLIENT LIST ID %s\r\n", b"SLOWLOG GET %s\r\n", b"MEMORY USAGE k SAMPLES %s\r\n", b"LOLWUT VERSION %s %s\r\n",
        b"LOLWUT VERSION 5 %s %s %s\r\n", b"CONFIG GET %s\r\n", b"OBJECT FREQ %s\r\n", b"COMMAND GETKEYS SET %s %s\r\n",
    ]
    play(server.resp, [[place.replace(b"%s", number)] for place in places])


@pytest.mark.parametrize("name", GARBAGE)
def test_other_protocols(server, name):
    """Requests of other protocols have no effect and store nothing."""
    play(server.resp, [[GARBAGE[name]]] * 10)
    play(server.resp, splits(GARBAGE[name][:200]))
    assert call(server.resp, "EXISTS", "hacked") == 0


def test_lengths_announced_and_never_sent(server):
    """Hundreds of clients that announce the largest value cost only the memory of the bytes sent."""
    resident = server.resident_bytes() if server.processes else 0
    promises = [b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$67108864\r\nabc", b"*65536\r\n$3\r\nDEL\r\n", b"*1024\r\n", b"*2\r\n$67108864\r\nx"]
    connections = [wire.Resp(server.resp) for _ in range(400)]
    try:
        for i, connection in enumerate(connections):
            connection.send(promises[i % len(promises)])
        assert call(server.resp, "PING") == wire.Status("PONG")
        if server.processes:
            assert server.resident_bytes() - resident < 64 << 20
    finally:
        for connection in connections:
            connection.close()


def test_deep_nesting(server):
    """Nested arrays are refused at the first one."""
    for depth in (2, 8, 9, 1000, 100_000):
        (answer,) = play(server.resp, [[b"*1\r\n" * depth]])
        assert answer.startswith(b"-ERR Protocol error")


def test_very_many_arguments(server):
    """Tens of thousands of empty arguments are a valid request."""
    (answer,) = play(server.resp, [[b"*60000\r\n$3\r\nDEL\r\n" + b"$0\r\n\r\n" * 59_999]])
    assert answer == b":0\r\n"


@pytest.mark.todana_only
def test_more_arguments_than_allowed(server):
    """A count beyond the limit is an error before any argument is read."""
    (answer,) = play(server.resp, [[b"*2147483647\r\n$3\r\nDEL\r\n"]])
    assert answer == b"-ERR Protocol error: invalid multibulk length\r\n"


def test_an_endless_inline_line(server):
    """A line without an end is refused with an error."""
    (answer,) = play(server.resp, [[b"A" * 1_000_000]])
    assert answer in (b"-ERR Protocol error: too big inline request\r\n", b"")


def test_an_endless_count(server):
    """A count without an end is refused with an error."""
    for start in (b"*", b"*1\r\n$"):
        (answer,) = play(server.resp, [[start + b"1" * 1_000_000]])
        assert answer.startswith(b"-ERR Protocol error") or answer == b""


def test_a_huge_offset_is_refused(server):
    """One small request cannot cause a reply of gigabytes."""
    for words in (["SETRANGE", "k", 2**40, "x"], ["SETRANGE", "k", 2**31, "x"], ["SETBIT", "k", 2**33, 1]):
        assert isinstance(call(server.resp, *words), Error)


def test_a_costly_pattern(server):
    """A pattern of many stars is matched in bounded time."""
    call(server.resp, "SET", "a" * 200, 1)
    assert call(server.resp, "KEYS", "*a" * 40 + "b") == []
    assert call(server.resp, "SCAN", 0, "COUNT", 10**6, "MATCH", "*a" * 40 + "b")[1] == []


def test_lcs_of_large_values(server):
    """A quadratic command is refused or ends in bounded time."""
    call(server.resp, "MSET", "x", b"a" * 1_000_000, "y", b"ab" * 500_000)
    with wire.Resp(server.resp) as connection:
        assert isinstance(connection.call("LCS", "x", "y", "LEN"), (Error, int))


class TestLargeAnswers:
    """Small requests with replies that exceed any buffer."""

    @pytest.fixture
    def growth_bytes_max(self):
        """The hard limit of one client's output, and memory that the allocator keeps."""
        return 700 << 20

    @pytest.mark.todana_only
    def test_one_request_cannot_ask_for_gigabytes(self, server):
        """A thousand unread MGETs of the same large value stay within the output limit, or the connection is closed."""
        call(server.resp, "SET", "large", b"x" * 10_000_000)
        resident = server.resident_bytes() if server.processes else 0
        with wire.Resp(server.resp, receive_buffer_bytes=4096) as greedy:
            greedy.send(encode("MGET", *["large"] * 200))
            greedy.is_silent(0.5)
            if server.processes:
                assert server.resident_bytes() - resident < (2100 << 20 if server.kind == "oracle" else 600 << 20)

    def test_a_transaction_cannot_queue_gigabytes(self, server):
        """The memory of MULTI is limited."""
        resident = server.resident_bytes() if server.processes else 0
        with wire.Resp(server.resp) as greedy:
            greedy.call("MULTI")
            try:
                for _ in range(400):
                    greedy.send(encode("SET", "k", b"x" * 1_000_000))
            except OSError:
                pass
            if server.processes:
                assert server.resident_bytes() - resident < 600 << 20


@pytest.mark.parametrize("seed", range(20))
def test_random_words(server, seed):
    """Well-formed requests of random words: every command with wrong arguments."""
    chance = random.Random(seed)
    names = [row[0] for row in call(server.resp, "COMMAND")]
    names = [name for name in names if name.split(b"|")[0] in SAFE]
    words = [b"", b"k", b"-1", b"9223372036854775807", b"EX", b"NX", b"COUNT", b"*", b"\xff\x00", b"GET", b"1", b"x" * 300, b"LEN", b"BIT"]
    streams = []
    for _ in range(250):
        requests = [
            encode(chance.choice(names), *chance.choices(words, k=chance.randrange(7))) for _ in range(chance.randrange(1, 8))
        ]
        streams.append([b"".join(requests)])
    play(server.resp, streams)


SAFE = {
    name.encode()
    for name in """
        get set setnx setex psetex getset getdel getex append strlen getrange substr setrange mget mset msetnx incr decr incrby
        decrby incrbyfloat lcs setbit getbit bitcount bitpos del unlink exists expire pexpire expireat pexpireat ttl pttl
        expiretime pexpiretime persist type scan randomkey rename renamenx copy touch dbsize object multi exec discard
        watch unwatch hello ping echo select command memory time lolwut latency
    """.split()
}
