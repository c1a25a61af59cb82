"""Hostile bytes on the Kyoto Tycoon port: HTTP, REST and binary."""

import random
import struct
import threading

import pytest

import wire
from kyoto_wire import (
    FORM,
    GET_BULK,
    INT64_MAX,
    PLAY_SCRIPT,
    REMOVE_BULK,
    SET_BULK,
    TSV,
    Kyoto,
    chunked,
    frame_of_keys,
    frame_of_script,
    frame_of_set,
    http,
    ok,
    rpc,
)
from streams import NUMBERS, mutate, play, play_empty_safe, splits, truncations

# Statuses that ktserver returns, and those that only invalid requests get.
STATUSES = {200, 201, 204, 400, 401, 403, 404, 413, 450, 500, 501, 503}

REQUESTS = [
    rpc("void"),
    rpc("echo", {"a": bytes(range(256))}),
    rpc("set", {"key": "k", "value": "v", "xt": "100"}, encoding=None) + http("GET", "/k"),
    rpc("set", {"key": "k", "value": "v"}, encoding="U") + rpc("get", {"key": "k"}, encoding="Q"),
    rpc("set_bulk", {"_a": "1", "_b": "2", "atomic": ""}) + rpc("get_bulk", {"_a": "", "_b": ""}),
    rpc("cas", {"key": "c", "nval": "1"}) + rpc("remove_bulk", {"_a": "", "_none": ""}),
    rpc("increment", {"key": "n", "num": "0"}) + rpc("increment_double", {"key": "f", "num": "0"}),
    rpc("match_prefix", {"prefix": "none"})
    + rpc("match_regex", {"regex": "^(none|x+)$"})
    + rpc("match_similar", {"origin": "none?", "utf": ""}),
    rpc("cur_jump", {"CUR": "1", "DB": "1"}) + rpc("cur_get", {"CUR": "1", "step": ""}) + rpc("cur_delete", {"CUR": "1"}),
    rpc("void", {"SIGNAL": "hostile", "SIGNALBROAD": ""}),
    http("POST", "/rpc/set?key=q&value=v", [("Content-Type", FORM)], b"xt=5&x=%41+%zz"),
    http("PUT", "/1/key", [("X-Kt-Mode", "set"), ("X-Kt-Xt", "2000000000")], b"value") + http("HEAD", "/1/key") + http("DELETE", "/1/none"),
    http("POST", "/rpc/echo", [("Content-Type", TSV), ("Transfer-Encoding", "chunked")]) + chunked(b"a\t1\n", b"b\t2\n"),
    http("GET", "/none", version="HTTP/1.0"),
    frame_of_set([(0, b"k", b"v", INT64_MAX), (1, b"kk", b"vv", 5)]) + frame_of_keys(GET_BULK, [(0, b"none"), (2, b"none")]),
    frame_of_keys(REMOVE_BULK, [(0, b"none"), (6, b"")]) + frame_of_script(b"f", [(b"k", b"v")]),
    frame_of_set([(0, b"k", b"v", -1)], flags=1) + rpc("check", {"key": "none"}),
    rpc("vacuum", {"step": "3"}) + rpc("synchronize") + rpc("nonesuch"),
]
DICTIONARY = [
    b"GET",
    b"POST",
    b"PUT",
    b" HTTP/1.1\r\n",
    b" HTTP/1.0\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"Content-Length: 5\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Connection: close\r\n",
    b"/rpc/",
    b"%00",
    b"%",
    b"?",
    b"&",
    b"colenc=B",
    b"\t",
    SET_BULK,
    GET_BULK,
    REMOVE_BULK,
    PLAY_SCRIPT,
    b"\0\0\0\1",
    b"\xff\xff\xff\xff",
    b"X-Kt-Xt: 1\r\n",
    b"Expect: 100-continue\r\n",
]
GARBAGE = {
    "tls": bytes.fromhex("16030100a5010000a10303") + bytes(range(160)),
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "http2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "resp": b"*3\r\n$3\r\nSET\r\n$6\r\nhacked\r\n$3\r\nyes\r\n*1\r\n$4\r\nPING\r\n",
    "resp inline": b"SET hacked yes\r\nPING\r\n",
    "memcached text": b"set hacked 0 0 3\r\nyes\r\nget k\r\nmg k v\r\nquit\r\n",
    "memcached binary": b"\x80\x00\x00\x01" + bytes(20) + b"k",
    "websocket": b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n",
    "absolute": b"GET http://localhost/k HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "connect": b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n",
    "options": b"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "zeros": bytes(5000),
    "ones": b"\xff" * 5000,
    "line ends": b"\r\n" * 5000,
    "spaces": b" " * 5000 + b"\r\n",
    "percents": b"GET /" + b"%" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "slashes": b"GET " + b"/" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "colons": b"GET / HTTP/1.1\r\n" + b":" * 5000 + b"\r\n\r\n",
    "folded": b"GET / HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n",
    "nul in header": b"GET / HTTP/1.1\r\nHost: loc\0alhost\r\n\r\n",
    "utf-16": "GET / HTTP/1.1\r\n\r\n".encode("utf-16"),
    "magics": bytes(range(0x80, 0x100)),
}


@pytest.fixture(autouse=True)
def nothing_of_strangers(undisturbed, server):
    """Requests of other protocols store nothing."""
    yield
    with Kyoto(server.kyoto) as kyoto:
        assert kyoto.call("check", key="hacked").status == 450


# --- bytes


@pytest.mark.parametrize("seed", range(6))
def test_random_bytes(server, seed):
    """The server answers noise with an error, ignores it or waits; when it ends, the connection is closed."""
    chance = random.Random(seed)
    play(server.kyoto, [[chance.randbytes(chance.randrange(1, 400))] for _ in range(200)])


@pytest.mark.parametrize("seed", range(6))
def test_random_bytes_behind_a_plausible_start(server, seed):
    """Noise after the beginning of a valid request."""
    chance = random.Random(seed)
    starts = [
        b"GET /",
        b"GET / HTTP/1.1\r\n",
        b"POST /rpc/set HTTP/1.1\r\nContent-Length: 50\r\n\r\n",
        SET_BULK,
        SET_BULK + bytes(8),
        GET_BULK + bytes(7) + b"\3",
        PLAY_SCRIPT + bytes(4),
        b"\xb1",
        b"POST /rpc/echo HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"PUT /k HTTP/1.1\r\nX-Kt-Xt: ",
        http("POST", "/rpc/echo", [("Content-Type", TSV + "; colenc=B"), ("Content-Length", "100")]),
    ]
    play(server.kyoto, [[chance.choice(starts) + chance.randbytes(chance.randrange(1, 200))] for _ in range(200)])


@pytest.mark.parametrize("seed", range(12))
def test_mutated_requests(server, seed):
    """Requests with a few bytes changed, complete and truncated at a random place."""
    chance = random.Random(seed)
    streams = []
    for _ in range(200):
        data = mutate(chance, b"".join(chance.choices(REQUESTS, k=chance.randrange(1, 4))), DICTIONARY)
        data = data.replace(b"WAIT", b"WAYT").replace(b"V0FJ", b"V0FK")  # half a minute's wait would not be over in time
        cut = chance.randrange(len(data) + 1)
        streams.append(play_empty_safe(data[:cut]) + [data[cut:]] if chance.random() < 0.5 else play_empty_safe(data))
    play(server.kyoto, streams)


@pytest.mark.one_backend
@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_split_at_every_offset(server, number):
    """A stream split in two at any place has the same answers as the whole."""
    stream = REQUESTS[number]
    play(server.kyoto, [[stream]])
    (whole,) = play(server.kyoto, [[stream]])
    for at, answer in enumerate(play(server.kyoto, splits(stream)), start=1):
        assert _stable(answer) == _stable(whole), "cut at %d" % at


def _stable(answer):
    """Answers without their dates."""
    return [line for line in answer.split(b"\r\n") if not line.startswith(b"Date: ")]


@pytest.mark.one_backend
@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_truncated_at_every_offset(server, number):
    """If a stream ends anywhere, its complete requests are answered, and the connection is closed."""
    play(server.kyoto, truncations(REQUESTS[number]))


@pytest.mark.one_backend
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:24].decode())
def test_every_number_in_every_place(server, number):
    """Lengths, times, counts and cursors of any size and notation."""
    streams = [
        b"PUT /k HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + number + b"\r\n\r\nvalue",
        b"POST /rpc/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n" + number + b"\r\nvalue\r\n0\r\n\r\n",
        http("PUT", "/k", [("X-Kt-Xt", number)], b"v"), http("GET", b"/" + number + b"/k"), http("GET", b"/rpc/get?key=k&DB=" + number),
    ]
    for procedure, rows in {
        "set": {"key": "k", "value": "v", "xt": number},
        "increment": {"key": number + b"n", "num": number},
        "cur_jump": {"CUR": number},
        "increment_double": {"key": number + b"d", "num": number},
        "match_prefix": {"prefix": "none", "max": number},
        "match_similar": {"origin": "none", "range": number},
        "vacuum": {"step": number},
        "void": {"WAIT": "none", "WAITTIME": b"0.001" + number},
    }.items():
        streams.append(rpc(procedure, rows))
    streams += [
        rpc("increment", {"key": number + b"o", "num": "1", "orig": number}),
        rpc("increment_double", {"key": number + b"p", "num": "1", "orig": number}),
    ]
    for answer in play(server.kyoto, [[stream] for stream in streams]):
        assert answer == b"" or int(answer.split(b" ")[1]) in STATUSES | {100}


@pytest.mark.parametrize("name", GARBAGE)
def test_other_protocols(server, name):
    """Requests of other protocols have no effect and store nothing."""
    play(server.kyoto, [[GARBAGE[name]]] * 10)
    if len(GARBAGE[name]) < 1000:
        play(server.kyoto, splits(GARBAGE[name][:200]))


# --- HTTP


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "length", [1 << 28, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, 10**30]
)
def test_huge_lengths(server, length):
    """A length that is announced and not sent is refused, and no memory is reserved."""
    before = server.resident_bytes()
    for answer in play(server.kyoto, [[http("PUT", "/k", [("Content-Length", str(length))])]] * 20):
        assert answer.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 ")), answer
    assert server.resident_bytes() - before < 20 << 20


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "size",
    [b"fffffff", b"7fffffff", b"ffffffff", b"7fffffffffffffff", b"ffffffffffffffff", b"10000000000000000", b"f" * 100, b"0" * 2000 + b"5"],
)
def test_huge_chunks(server, size):
    """The same with the sizes of chunks."""
    before = server.resident_bytes()
    stream = http("POST", "/rpc/echo", [("Content-Type", TSV), ("Transfer-Encoding", "chunked")]) + size + b"\r\nabc"
    for answer in play(server.kyoto, [[stream]] * 20):
        assert answer.startswith((b"HTTP/1.1 413 ", b"HTTP/1.1 400 ")), answer
    assert server.resident_bytes() - before < 20 << 20


@pytest.mark.one_backend
def test_floods_of_headers(server):
    """Headers that are endless, numerous or long are refused before they fill the memory."""
    before = server.resident_bytes()
    flood = b"GET /k HTTP/1.1\r\n" + b"A: b\r\n" * 300_000
    long = b"GET /k HTTP/1.1\r\nA: " + b"x" * 2_000_000
    play(server.kyoto, [[flood[at : at + 65536] for at in range(0, len(flood), 65536)] for _ in range(10)])
    play(server.kyoto, [[long[at : at + 65536] for at in range(0, len(long), 65536)] for _ in range(10)])
    assert server.resident_bytes() - before < 40 << 20


SMUGGLED = b"PUT /hacked HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nyes"
SHAPES = {
    "length and chunks": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": b"Content-Length: 0\r\nContent-Length: %d\r\n\r\n" % len(SMUGGLED),
    "two lengths turned round": b"Content-Length: %d\r\nContent-Length: 0\r\n\r\n" % len(SMUGGLED),
    "a list of lengths": b"Content-Length: 0, %d\r\n\r\n" % len(SMUGGLED),
    "a length with a sign": b"Content-Length: +0\r\n\r\n",
    "a negative length": b"Content-Length: -1\r\n\r\n",
    "a length with a space": b"Content-Length : 0\r\n\r\n",
    "a length in hexadecimal": b"Content-Length: 0x0\r\n\r\n",
    "another coding": b"Transfer-Encoding: gzip\r\n\r\n",
    "two codings": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "coding twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "coding with a tab": b"Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n",
    "a folded coding": b"Transfer-Encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a hidden chunk line": b"Transfer-Encoding: chunked\r\n\r\n0;x\nx\r\n\r\n",
}


@pytest.mark.one_backend
@pytest.mark.parametrize("shape", SHAPES)
def test_request_smuggling(server, shape):
    """If two parsers could disagree on the end of a request, it is refused and the connection is closed."""
    stream = b"POST /rpc/void HTTP/1.1\r\nHost: localhost\r\n" + SHAPES[shape] + SMUGGLED
    (answer,) = play(server.kyoto, [[stream]])
    assert b" 201 Created" not in answer
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 Bad Request\r\n"), answer


@pytest.mark.one_backend
@pytest.mark.parametrize("length", [8191, 8192, 8193])
def test_request_lines_at_the_limit(server, length):
    """8,191 bytes are accepted; 8,192 close the connection."""
    line = b"GET /" + b"k" * (length - len("GET / HTTP/1.1")) + b" HTTP/1.1"
    for pieces in ([line + b"\r\n\r\n"], [line[:4000], line[4000:], b"\r\n\r\n"], [line, b"\r\n\r\n"], [line + b"\n\n"]):
        (answer,) = play(server.kyoto, [pieces])
        assert answer.startswith(b"HTTP/1.1 404 ") if length < 8192 else answer == b""


@pytest.mark.one_backend
def test_maps_of_many_rows(server):
    """Two million empty rows in a body, a million fields in a form."""
    bodies = [
        (TSV, b"\t\n" * 2_000_000),
        (TSV, b"a\t\n" * 1_000_000),
        (FORM, b"&" * 4_000_000),
        (FORM, b"a&" * 2_000_000),
        (TSV + "; colenc=Q", b"=" * 4_000_000),
    ]
    for kind, body in bodies:
        (answer,) = play(server.kyoto, [[http("POST", "/rpc/void", [("Content-Type", kind)], body)]])
        assert answer.startswith(b"HTTP/1.1 "), kind


# --- binary


@pytest.mark.one_backend
@pytest.mark.parametrize("magic", [SET_BULK, REMOVE_BULK, GET_BULK, PLAY_SCRIPT])
@pytest.mark.parametrize("count", [0, 1, 65536, 0x7FFFFFFF, 0xFFFFFFFF])
@pytest.mark.parametrize("size", [0, 1, (256 << 20) - 1, 256 << 20, (256 << 20) + 1, 0x7FFFFFFF, 0xFFFFFFFF])
def test_counts_and_sizes(server, magic, count, size):
    """For a count that is announced and not sent, no memory is reserved and nothing is stored."""
    before = server.resident_bytes()
    head = {
        SET_BULK: struct.pack(">IIHIIq", 0, count, 0, size, size, 0), PLAY_SCRIPT: struct.pack(">IIIII", 0, size, count, size, size),
        REMOVE_BULK: struct.pack(">IIHI", 0, count, 0, size), GET_BULK: struct.pack(">IIHI", 0, count, 0, size),
    }[magic]
    play(server.kyoto, [[magic + head + b"x" * 100]] * 4)
    assert server.resident_bytes() - before < 20 << 20


@pytest.mark.one_backend
def test_counts_of_empty_records(server):
    """A million empty keys in one frame."""
    frame = struct.pack(">II", 0, 1_000_000) + bytes(6) * 1_000_000
    (answer,) = play(server.kyoto, [[GET_BULK + frame]])
    assert answer[:1] in (GET_BULK, b"\xbf")
    (answer,) = play(server.kyoto, [[REMOVE_BULK + frame]])
    assert answer == REMOVE_BULK + bytes(4)


# --- slow and silent clients


@pytest.mark.one_backend
def test_half_sent_requests_block_no_client(server):
    """2,000 slow clients, too many for ktserver's 16 threads: others are served at once, in bounded memory."""
    halves = [
        b"G",
        b"GET /k HTTP/1.1\r\nHost: local",
        b"POST /rpc/set HTTP/1.1\r\n",
        http("PUT", "/half", [("Content-Length", "10000000")]) + b"x" * 1000,
        http("POST", "/rpc/echo", [("Transfer-Encoding", "chunked")]) + b"fff\r\nabc",
        frame_of_set([(0, b"half", b"v" * 1000, 5)])[:-1],
        SET_BULK + struct.pack(">II", 0, 100000),
        GET_BULK + struct.pack(">IIHI", 0, 1, 0, 60000) + b"k",
    ]
    before = server.resident_bytes()
    held = []
    try:
        for number in range(2000):
            held.append(wire.Connection(server.kyoto))
            held[-1].send(halves[number % len(halves)])
        with Kyoto(server.kyoto) as kyoto:
            kyoto.call("set", key="k", value="v")
            for _ in range(1000):
                assert kyoto.ask("GET", "/k").body == b"v"
        assert server.resident_bytes() - before < 100 << 20
    finally:
        for connection in held:
            connection.close()


def test_clients_that_do_not_read(server):
    """Pending answers take bounded memory."""
    with Kyoto(server.kyoto) as kyoto:
        kyoto.call("set", key="large", value=b"x" * 100_000)
    before = server.resident_bytes()
    lazy = [wire.Connection(server.kyoto, receive_buffer_bytes=4096) for _ in range(6)]
    for number, connection in enumerate(lazy):
        connection.socket.settimeout(0.3)
        request = [http("GET", "/large"), rpc("get", {"key": "large"}), frame_of_keys(GET_BULK, [(0, b"large")] * 100)][number % 3]
        try:
            for _ in range(100):
                connection.send(request * 20)
        except OSError:
            pass
    assert server.resident_bytes() - before < 200 << 20
    with Kyoto(server.kyoto) as kyoto:
        assert kyoto.call("void") == ok()
    for connection in lazy:
        connection.reset()


def clients(resp):
    """The number of connected clients."""
    (line,) = [line for line in resp.call("INFO", "clients").splitlines() if line.startswith(b"connected_clients:")]
    return int(line.partition(b":")[2])


@pytest.mark.one_backend
def test_a_flood_of_waiting_clients(server):
    """1,000 clients wait and are all woken at once; clients that have disconnected are not counted."""
    waiters = [Kyoto(server.kyoto) for _ in range(1000)]
    try:
        for waiter in waiters:
            # The first request is answered when the second, in the same packet, has begun to wait.
            waiter.send(rpc("void") + rpc("void", {"WAIT": "flood", "WAITTIME": "600"}))
        for waiter in waiters:
            assert waiter.answer() == ok()
        with Kyoto(server.kyoto) as kyoto, wire.Resp(server.resp) as resp:
            before = clients(resp)
            for waiter in waiters[:100]:
                waiter.reset()
            for _ in range(200):
                assert kyoto.call("set", key="k", value="v") == ok()
            assert wire.wait_until(lambda: clients(resp) <= before - 100)
            assert kyoto.call("void", SIGNAL="flood", SIGNALBROAD="") == ok(SIGNALED=900)
        for waiter in waiters[100:]:
            assert waiter.answer() == ok()
    finally:
        for waiter in waiters:
            waiter.close()


def test_many_signal_names(server):
    """Each client waits for its own long name, and for many names one after another."""
    waiters = [Kyoto(server.kyoto) for _ in range(100)]
    for number, waiter in enumerate(waiters):
        waiter.send(b"".join(rpc("void", {"WAIT": b"%d-%d" % (number, i) + b"x" * 10_000, "WAITTIME": "0.001"}) for i in range(20)))
    for waiter in waiters:
        for _ in range(20):
            assert waiter.answer().status == 503
        waiter.close()


# --- expressions


NASTY = [
    b"(a*)*b",
    b"(a|aa)+$",
    b"(a|a?)+$",
    b"(.*)*\\1",
    b"((a+)+)+$",
    b"(x+x+)+y",
    b"a{1,255}{1,255}",
    b"a{0,65535}",
    b"((((((((((a{1,10}){1,10}){1,10}){1,10})))))))",
    b"(" * 500 + b")" * 500,
    b"[" + bytes(range(1, 91)) + b"]",
    b"^" * 1000,
    b".*" * 200,
    b"(|)" * 200,
    b"a{99999999999}",
    b"\\",
    b"[[.a.]-",
    b"\xff\xfe(",
    b"a**",
    b"*",
    b"{",
    b"[[:alpha:]" * 100,
    b"\0a",
    b"(?i)a",
    b"\\d\\w\\s",
]


@pytest.mark.one_backend
@pytest.mark.parametrize("number", range(len(NASTY)))
def test_nasty_expressions(server, number):
    """Any expression is answered, and others are served meanwhile (the witness)."""
    with Kyoto(server.kyoto) as kyoto:
        kyoto.set_bulk(*[(0, b"a" * 60 + b"%d" % i, b"", INT64_MAX) for i in range(300)])
        assert kyoto.call("match_regex", regex=NASTY[number]).status in (200, 450, 500)


@pytest.mark.one_backend
def test_expensive_similarity_searches(server):
    """Similarity searches with long origins in many long keys."""
    with Kyoto(server.kyoto) as kyoto:
        kyoto.set_bulk(*[(1, b"a" * 1000 + b"%d" % i, b"", INT64_MAX) for i in range(500)])
        for rows in (
            {"origin": "b" * 1000, "range": "2000"},
            {"origin": "ä" * 1024, "range": "100000", "utf": ""},
            {"origin": "", "range": "9999"},
        ):
            assert kyoto.call("match_similar", rows, DB=1).status == 200


@pytest.mark.one_backend
def test_a_flood_of_cursors(server):
    """One connection creates 20,000 cursors: memory stays bounded."""
    before = server.resident_bytes()
    with Kyoto(server.kyoto) as kyoto:
        for start in range(0, 20_000, 1000):
            kyoto.send(b"".join(http("GET", f"/rpc/cur_jump?DB=1&key={'k' * 100}&CUR={number}") for number in range(start, start + 1000)))
            for _ in range(1000):
                assert kyoto.response().status in (200, 400, 450, 500)
        assert server.resident_bytes() - before < 40 << 20


# --- everything at once


# The number of operations of each client; all of them together end within the time.
WICKED_OPERATIONS, WICKED_S_MAX = 2_000, 800


class Wicked(threading.Thread):
    """A client that mixes all procedures at random, as Kyoto Tycoon's own tester does."""

    def __init__(self, address, seed, operations):
        super().__init__(daemon=True)
        self.address, self.operations, self.chance = address, operations, random.Random(seed)
        self.count, self.failure, self.statuses = 0, None, {}

    def run(self):
        try:
            with Kyoto(self.address) as kyoto:
                while self.count < self.operations:
                    self.count += 1
                    self.play(kyoto)
        except BaseException as failure:  # kept for the test to report
            self.failure = failure

    def key(self):
        """Usually one of a thousand keys, occasionally any bytes."""
        chance = self.chance
        return chance.randbytes(chance.randrange(64)) if chance.random() < 0.1 else b"%08d" % chance.randrange(1000)

    def play(self, kyoto):
        """Executes one operation."""
        chance = self.chance
        rows = {"DB": chance.randrange(7)}
        if chance.random() < 0.5:
            rows["xt"] = chance.randrange(600)
        if chance.random() < 0.01:
            rows["SIGNAL"] = "wicked"
        procedure = chance.choice(PROCEDURES)
        value = chance.randbytes(chance.randrange(1024)) if chance.random() < 0.1 else b"v" * chance.randrange(64)
        if procedure in ("set_bulk", "get_bulk", "remove_bulk"):
            rows |= {b"_" + self.key(): value for _ in range(chance.randrange(10))}
            if chance.random() < 0.5:
                rows["atomic"] = ""
        elif procedure.startswith("match_"):
            rows |= {
                "prefix": self.key()[:7],
                "regex": b"%d$" % chance.randrange(100),
                "origin": b"%08d" % chance.randrange(1000),
                "max": 10,
            }
        elif procedure.startswith("cur_"):
            # A cursor could remove the witness's records, which are in database 0.
            rows["DB"] = chance.randrange(1, 7)
            rows |= {"CUR": chance.randrange(3), "value": value}
            rows |= {"key": self.key()} if chance.random() < 0.5 else {}
            rows |= {"step": ""} if chance.random() < 0.5 else {}
        elif procedure == "rest":
            return self.rest(kyoto, value)
        elif procedure == "binary":
            return self.binary(kyoto, value)
        elif procedure == "wait":
            procedure, rows = "get", {**rows, "WAIT": "wicked", "WAITTIME": "0.005", "key": self.key()}
        else:
            rows |= {"key": self.key(), "value": value, "nval": value, "num": chance.randrange(-100, 100)}
            rows |= {"oval": value} if chance.random() < 0.5 else {}
        if chance.random() < 0.0005:
            procedure = chance.choice(["clear", "synchronize", "vacuum"])
            rows["DB"] = chance.randrange(1, 7)
        answer = kyoto.call(procedure, rows)
        self.note(answer.status, {200, 450} | EXTRA.get("wait" if "WAIT" in rows else procedure, set()))

    def rest(self, kyoto, value):
        """Executes one of REST's methods."""
        method = self.chance.choice(["GET", "HEAD", "PUT", "DELETE"])
        key = "".join("%%%02x" % byte for byte in self.key())
        mode = self.chance.choice(["set", "add", "replace"])
        response = kyoto.ask(method, f"/{self.chance.randrange(7)}/{key}", [("X-Kt-Mode", mode)], value if method == "PUT" else None)
        self.note(response.status, {"GET": {200, 404}, "HEAD": {200, 404}, "PUT": {201, 450}, "DELETE": {204, 404}}[method])

    def binary(self, kyoto, value):
        """Executes one request of the binary protocol."""
        keys = [(self.chance.randrange(8), self.key()) for _ in range(self.chance.randrange(10))]
        which = self.chance.randrange(3)
        if which == 0:
            assert kyoto.set_bulk(*[(*key, value, self.chance.randrange(600)) for key in keys]) == sum(database < 7 for database, _ in keys)
        elif which == 1:
            assert kyoto.remove_bulk(*keys) <= len(keys)
        else:
            assert len(kyoto.get_bulk(*keys)) <= len(keys)

    def note(self, status, expected):
        """Counts a status; fails on one that ktserver would not return."""
        assert status in expected, status
        self.statuses[status] = self.statuses.get(status, 0) + 1


# Statuses other than success and a logical error.
EXTRA = {"wait": {503}, "cur_jump_back": {501}, "cur_step_back": {501}, "cur_delete": {501}}
PROCEDURES = (
    "set add replace append increment increment_double cas remove check seize get get get get set_bulk remove_bulk get_bulk "
    "rest rest binary binary cur_jump cur_jump_back cur_step cur_step_back cur_set_value cur_remove cur_get_key cur_get_value cur_get cur_seize cur_delete wait"
).split() * 3 + ["match_prefix", "match_regex", "match_similar"]


@pytest.mark.one_backend
def test_a_wicked_mix(server):
    """Ten clients get only statuses that ktserver returns, and every kind of answer occurs."""
    clients = [Wicked(server.kyoto, seed, WICKED_OPERATIONS) for seed in range(10)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(WICKED_S_MAX)
    assert [client.failure for client in clients] == [None] * 10
    assert [client.count for client in clients] == [WICKED_OPERATIONS] * 10
    assert {status for client in clients for status in client.statuses} >= {200, 201, 204, 404, 450, 501}
