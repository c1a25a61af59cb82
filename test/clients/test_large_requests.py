"""Requests of 16 KiB to 64 MiB that arrive in pieces, in every protocol, cut at each kind of place."""

import random

import pytest

import wire
from kyoto_wire import SET_BULK, chunked, frame_of_keys, frame_of_set, http, to_tsv
from wire import OK, encode, wait_until

pytestmark = pytest.mark.one_backend

KIB, MIB = 1 << 10, 1 << 20
# Around the sizes from which the server treats its buffers differently.
SIZES = [size + off for size in (16 * KIB, 64 * KIB, MIB) for off in (-1, 0, 1)] + [3 * MIB]
NONE_OR_NX = [(), ("EX", 100), ("KEEPTTL",), ("NX",), ("GET",)]


@pytest.fixture
def feed(resp):
    """Sends a request in pieces, each when the server has received the one before."""
    sent_here = 0

    def received():
        nonlocal sent_here
        sent_here += len(encode("INFO", "stats"))
        text = resp.call("INFO", "stats")
        return int(text.split(b"total_net_input_bytes:")[1].split()[0]) - sent_here

    def send(connection, request, cuts):
        total, at = received(), 0
        for cut in sorted({cut % len(request) for cut in cuts} - {0}):
            connection.send(request[at:cut])
            total, at = total + cut - at, cut
            assert wait_until(lambda: received() >= total, step_s=0), "the server has not read %d bytes" % cut
        connection.send(request[at:])

    return send


def keys(count, length):
    """Different keys."""
    return [b"%0*d" % (length, number) for number in range(count)]


def places(request, payload):
    """The kinds of places around the last large payload of a request: in the number of its length, in the line end after
    it, before, in and after the payload, in the line end after that, in the lines that follow, before the last bytes."""
    start = request.rindex(payload)
    end = start + len(payload)
    return [start - 4, start - 1, start, end - 1, end, end + 1, end + 2, end + 3, end + 5, -2, -1]


# --- RESP


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("options", NONE_OR_NX, ids=lambda options: " ".join(map(str, options)) or "none")
def test_set_with_options_after_a_value(connect, feed, size, options):
    """The options of SET may arrive after a value that fills the buffer."""
    value = b"x" * (2 * size - len(encode("SET", "k", b"x" * size)))
    assert len(encode("SET", "k", value)) == size
    request = encode("SET", "k", value, *options)
    connection = connect.resp()
    for cut in places(request, value):
        feed(connection, request, [cut])
        assert connection.reply() == (None if options == ("GET",) else OK), cut
        assert connection.call("STRLEN", "k") == len(value)
        assert connection.call("DEL", "k") == 1


@pytest.mark.parametrize("length", [64 * MIB - 1, 64 * MIB])
def test_the_longest_values_with_options(connect, feed, length):
    """So may they after the longest value."""
    value = b"x" * length
    request = encode("SET", "k", value, "EX", 100)
    connection = connect.resp()
    for cut in places(request, value)[3::2]:
        feed(connection, request, [20 * MIB, cut])
        assert connection.reply() == OK
    assert connection.call("STRLEN", "k") == length


def requests(resp):
    """Requests of more than a MiB, and their replies."""
    many, large = keys(8_000, 140), b"x" * 2 * MIB
    pairs = [word for key in keys(300, 16) for word in (key, b"v" * 4_000)]
    resp.call("SET", "dumped", random.Random(1).randbytes(2 * MIB))
    dump = resp.call("DUMP", "dumped")
    resp.call("DEL", "dumped")
    source = b"--" + b"x" * MIB + b"\nreturn #ARGV[1] + #KEYS[1]"
    return {
        "MSET": (encode("MSET", *pairs), OK),
        "MSETNX": (encode("MSETNX", *pairs), 1),
        "MGET": (encode("MGET", *many), [None] * len(many)),
        "EXISTS": (encode("EXISTS", *many), 0),
        "DEL": (encode("DEL", *keys(60_000, 20)), 0),
        "UNLINK": (encode("UNLINK", *keys(60_000, 20)), 0),
        "TOUCH": (encode("TOUCH", *many), 0),
        "WATCH": (encode("WATCH", *keys(8_000, 200)), OK),
        "PFADD": (encode("PFADD", "k", *many), 1),
        "PFCOUNT": (encode("PFCOUNT", *many), 0),
        "BITOP": (encode("BITOP", "OR", "k", *many), 0),
        "APPEND": (encode("APPEND", "k", large), len(large)),
        "SETRANGE": (encode("SETRANGE", "k", 10, large), len(large) + 10),
        "SETEX": (encode("SETEX", "k", 100, large), OK),
        "GETSET": (encode("GETSET", "k", large), None),
        "RESTORE": (encode("RESTORE", "k", 0, dump, "REPLACE", "ABSTTL"), OK),
        "EVAL": (encode("EVAL", source, 1, "key", large), len(large) + 3),
        "PUBLISH": (encode("PUBLISH", "channel", large), 0),
        "ECHO": (encode("ECHO", large), large),
        "PING": (encode("PING", large), large),
    }


@pytest.mark.parametrize("name", [
    "MSET", "MSETNX", "MGET", "EXISTS", "DEL", "UNLINK", "TOUCH", "WATCH", "PFADD", "PFCOUNT", "BITOP", "APPEND",
    "SETRANGE", "SETEX", "GETSET", "RESTORE", "EVAL", "PUBLISH", "ECHO", "PING",
])  # fmt: skip
def test_a_command_of_more_than_a_mib(connect, resp, feed, name):
    """A command with several or long arguments is answered, wherever its request is cut."""
    request, answer = requests(resp)[name]
    assert len(request) > MIB
    # Of any 140 consecutive bytes, some are a length and a line end.
    around = [[MIB + at] for at in (0, 1, 2, 3, 5, 8, 140)]
    for cuts in [*around, [MIB - 1, MIB, MIB + 1], [100, 20 * KIB, -1], [-2], [-3], [-6], [-9]]:
        connection = connect.resp()
        feed(connection, request, cuts)
        assert connection.reply() == answer, cuts
        connection.close()
        assert resp.call("FLUSHALL") == OK


def test_a_request_in_many_small_pieces(connect, resp):
    """A request in pieces of some hundred bytes is received whole."""
    request = encode("MSET", *[word for key in keys(1_000, 16) for word in (key, b"v" * 2_000)])
    connection = connect.resp()
    for at in range(0, len(request), 701):
        connection.send(request[at : at + 701])
    assert connection.reply() == OK
    assert resp.call("DBSIZE") == 1_000


@pytest.mark.todana_only
@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_the_limit_of_an_incomplete_request(start_server, beyond):
    """A request of exactly the limit is answered. Of a longer one, the bytes up to the limit are enough for the error."""
    limit = 2 * MIB
    server = start_server("--input-bytes-max", limit, "--value-bytes-max", MIB)
    filler = 1_000 + limit + beyond - len(encode("MGET", b"k" * 1_000, *keys(53_600, 32)))
    assert 1_000 <= filler < 10_000
    request = encode("MGET", b"k" * filler, *keys(53_600, 32))
    assert len(request) == limit + beyond
    with wire.Resp(server.resp) as connection:
        connection.send(request[:limit])
        if beyond <= 0:
            assert connection.reply() == [None] * 53_601
        else:
            assert connection.rest() == b"-ERR Protocol error: too big input buffer\r\n"


# --- memcached


@pytest.mark.todana_only
@pytest.mark.parametrize("command", ["set k 0 100 %d", "ms k %d T100"])
@pytest.mark.parametrize("length", [16 * KIB, 64 * KIB - 20, 64 * KIB, MIB - 1, MIB])
def test_memcached_text(connect, feed, command, length):
    """Values of the text protocol."""
    connection = connect.memcached()
    value = b"x" * length
    line = (command % length).encode() + b"\r\n"
    for cut in [3, len(line) - 1, len(line), len(line) + 1, len(line) + length // 2, -3, -2, -1]:
        feed(connection, line + value + b"\r\n", [cut])
        assert connection.line() in (b"STORED", b"HD"), cut
        connection.talk(b"mg k s\r\n", b"HD s%d\r\n" % length)


@pytest.mark.todana_only
def test_memcached_keys(connect, feed):
    """A line of keys longer than any buffer."""
    connection = connect.memcached()
    request = b"get " + b" ".join(keys(8_000, 140)) + b"\r\n"
    for cuts in [[100], [64 * KIB], [64 * KIB, MIB], [MIB + 1], [MIB - 1, MIB], [-2], [-1]]:
        feed(connection, request, cuts)
        assert connection.line() == b"END", cuts


@pytest.mark.todana_only
@pytest.mark.parametrize("length", [16 * KIB, 64 * KIB - 40, 64 * KIB, MIB - 1, MIB])
def test_memcached_binary(empty, feed, length):
    """Values of the binary protocol."""
    request = wire.request(0x01, b"k", b"x" * length, extras=bytes(8))
    with wire.BinaryMemcached(empty.memcached) as connection:
        for cut in [1, 23, 24, 31, 32, 33, 34, length // 2, -2, -1]:
            feed(connection, request, [cut])
            assert connection.response().status == 0, cut


# --- Kyoto Tycoon


@pytest.mark.todana_only
@pytest.mark.parametrize("length", [16 * KIB, 64 * KIB, MIB - 1, MIB, MIB + 1, 3 * MIB])
def test_kyoto_http(connect, feed, length):
    """Bodies of HTTP, with a length and in chunks."""
    connection = connect.kyoto()
    value = b"x" * length
    kind = [("Content-Type", "text/tab-separated-values")]
    bulk = to_tsv({b"_k": value, b"_l": b"1"})
    parts = chunked(b"_k\t", value, b"\n_l\t1\n")
    in_chunks = http("POST", "/rpc/set_bulk", [*kind, ("Transfer-Encoding", "chunked")]) + parts
    for request, status in [
        (http("PUT", "/k", body=value), 201),
        (http("POST", "/rpc/set_bulk", kind, bulk), 200),
        (in_chunks, 200),
    ]:
        for cut in [10, *places(request, value)]:
            feed(connection, request, [cut])
            assert connection.response().status == status, cut
            assert connection.ask("GET", "/k").body == value
        assert connection.ask("DELETE", "/k").status == 204


@pytest.mark.todana_only
@pytest.mark.parametrize("length", [16 * KIB, 64 * KIB, MIB - 1, MIB, MIB + 1, 3 * MIB])
def test_kyoto_binary(connect, feed, length):
    """Records of the binary protocol."""
    connection = connect.kyoto()
    request = frame_of_set([(0, b"k", b"x" * length, 1 << 40), (0, b"second", b"y" * 100, 1 << 40)])
    for cut in [1, 8, 9, 20, 27, 28, 9 + 18 + 1 + length, 9 + 18 + length + 10, length // 2, -2, -1]:
        feed(connection, request, [cut])
        assert connection.count_of(SET_BULK) == 2, cut
    names = [(0, key) for key in keys(20_000, 60)]
    request = frame_of_keys(b"\xba", names)
    for cuts in [[MIB], [MIB + 1, MIB + 2], [100, -1]]:
        feed(connection, request, cuts)
        assert connection.records() == []
