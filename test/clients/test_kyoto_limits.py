"""Limits on the Kyoto Tycoon port: one below, at the limit, one above, and zero."""

import time

import pytest

import wire
from fixtures import start
from kyoto_wire import (
    FAILED, FORM, GET_BULK, INT64_MAX, REMOVE_BULK, SET_BULK, TSV, Kyoto, chunked, frame_of_keys, frame_of_set, http, ok,
)
from test_configuration import run

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

KEY_MAX, VALUE_MAX, BODY_MAX = 100, 1000, 2000
TOO_LONG = "DB: 9: system error"


@pytest.fixture(scope="module")
def small(request):
    """A server with low limits."""
    server = start(
        request.config, "--key-bytes-max", KEY_MAX, "--value-bytes-max", VALUE_MAX, "--kyoto-body-bytes-max", BODY_MAX,
        "--kyoto-timeout-ms", "1500", databases=(":", "%"),
    )
    yield server
    server.stop()


@pytest.fixture
def low(small):
    """A connection to the server with low limits, with empty databases."""
    with Kyoto(small.kyoto) as connection:
        for database in (0, 1):
            connection.call("clear", DB=database)
        yield connection


def assert_too_long(answer):
    """An error of the database."""
    assert answer.status == 500 and answer.rows[b"ERROR"].startswith(TOO_LONG.encode()), answer


# --- keys


@pytest.mark.parametrize("length", [0, 1, KEY_MAX - 1, KEY_MAX])
def test_keys(low, database, length):
    """All interfaces accept a key at the limit."""
    key = b"k" * length
    assert low.call("set", DB=database, key=key, value="v") == ok()
    assert low.call("set_bulk", {b"_" + key: b"w"}, DB=database) == ok(num=1)
    assert low.call("increment", DB=database, key=key[:-1] + b"n" if key else b"n", num=1) == ok(num=1)
    assert low.set_bulk((database, key, b"x", INT64_MAX)) == 1
    assert low.ask("PUT", f"/{database}/" + key.decode(), body=b"y").status == 201
    assert low.value(key, DB=database) == b"y"


@pytest.mark.parametrize("length", [KEY_MAX + 1, KEY_MAX * 5])
@pytest.mark.parametrize("procedure", ["set", "add", "append", "increment", "increment_double", "cas"])
def test_keys_that_are_too_long(low, database, procedure, length):
    """The server returns an error of the database and stores nothing."""
    assert_too_long(low.call(procedure, DB=database, key=b"k" * length, value="v", num="1", nval="v"))
    assert low.count(database) == 0


def test_keys_that_are_too_long_by_rest(low):
    """REST returns the same error, and nothing is stored or found."""
    response = low.ask("PUT", "/" + "k" * (KEY_MAX + 1), body=b"v")
    assert (response.status, response.headers["X-Kt-Error"]) == (500, "DB: 9: system error: the key is too long")
    assert low.count() == 0
    assert low.ask("GET", "/" + "k" * (KEY_MAX + 1)).status == 404


def test_keys_that_are_too_long_by_binary(low):
    """The server returns an error and closes the connection; earlier records are stored."""
    low.send(frame_of_set([(0, b"a", b"1", INT64_MAX), (0, b"k" * (KEY_MAX + 1), b"v", INT64_MAX)]))
    assert low.rest() == FAILED
    with Kyoto(low.address) as other:
        assert other.value("a") == b"1"


def test_keys_that_are_too_long_in_bulk(low):
    """One long key causes the error; an atomic bulk then stores nothing."""
    rows = {b"_a": b"1", b"_" + b"k" * (KEY_MAX + 1): b"v"}
    assert_too_long(low.call("set_bulk", rows, atomic=""))
    assert low.count() == 0
    assert_too_long(low.call("set_bulk", rows))


# --- values


@pytest.mark.parametrize("length", [0, VALUE_MAX - 1, VALUE_MAX])
def test_values(low, length):
    """All interfaces accept a value at the limit."""
    value = b"x" * length
    assert low.call("set", key="a", value=value) == ok()
    assert low.call("append", key="b", value=value) == ok()
    assert low.call("cas", key="c", nval=value) == ok()
    assert low.set_bulk((0, b"d", value, INT64_MAX)) == 1
    assert low.ask("PUT", "/e", body=value).status == 201
    assert [low.value(key) for key in "abcde"] == [value] * 5


@pytest.mark.parametrize("procedure", ["set", "add", "append", "cas"])
def test_values_that_are_too_long(low, procedure):
    """The server returns an error of the database and stores nothing."""
    value = b"x" * (VALUE_MAX + 1)
    assert_too_long(
        low.call(procedure, key="k", value=value if procedure != "cas" else b"", **({"nval": value} if procedure == "cas" else {}))
    )
    assert low.count() == 0


@pytest.mark.memory_only
def test_values_that_grow_too_long(low):
    """An append beyond the limit fails."""
    low.call("set", key="k", value=b"x" * (VALUE_MAX - 1))
    assert low.call("append", key="k", value="y") == ok()
    assert_too_long(low.call("append", key="k", value="z"))
    assert low.value("k") == b"x" * (VALUE_MAX - 1) + b"y"


def test_values_that_are_too_long_by_rest(low):
    """REST returns the same error."""
    response = low.ask("PUT", "/k", body=b"x" * (VALUE_MAX + 1))
    assert (response.status, response.headers["X-Kt-Error"]) == (500, "DB: 9: system error: the value is too long")
    with Kyoto(low.address) as other:
        assert other.value("k") is None


def test_values_that_are_too_long_by_binary(low):
    """The server returns an error and closes the connection."""
    low.send(frame_of_set([(0, b"k", b"x" * (VALUE_MAX + 1), INT64_MAX)]))
    assert low.rest() == FAILED


# --- bodies


@pytest.mark.parametrize("length", [0, 1, BODY_MAX - 1, BODY_MAX])
def test_bodies(low, length):
    """A body at the limit is accepted, whole or in chunks."""
    body = (b"a=" + b"x" * length)[:length]
    assert low.ask("POST", "/rpc/void", [("Content-Type", FORM)], body).status == 200
    low.send(http("POST", "/rpc/void", [("Transfer-Encoding", "chunked")]) + (chunked(body) if body else chunked()))
    assert low.answer() == ok()


@pytest.mark.parametrize("length", [BODY_MAX + 1, 1 << 28, 1 << 40, (1 << 64) - 1])
def test_bodies_that_are_too_long(low, length):
    """The server refuses them at the announced length and closes the connection."""
    low.send(http("POST", "/rpc/echo", [("Content-Type", TSV), ("Content-Length", str(length))]))
    response = low.response()
    assert (response.status, response.headers["Connection"]) == (413, "close")
    assert response.body == b"413 Request Entity Too Large (request entity too large)\n"
    assert response.headers["Content-Type"].startswith("text/plain")
    assert low.rest() == b""


@pytest.mark.parametrize("chunks", [[b"x" * (BODY_MAX + 1)], [b"x" * BODY_MAX, b"x"], [b"xy" * 100] * 11])
def test_chunks_that_are_too_long(low, chunks):
    """The sum of the chunks counts, however they are split."""
    low.send(http("POST", "/rpc/echo", [("Content-Type", TSV), ("Transfer-Encoding", "chunked")]) + chunked(*chunks))
    assert low.response().status == 413
    assert low.is_closed()


def test_the_default_takes_64_mib(kyoto):
    """One byte more is refused."""
    value = b"x" * (64 << 20)
    assert kyoto.ask("PUT", "/k", body=value).status == 201
    assert kyoto.call("check", key="k") == ok(vsiz=len(value))
    kyoto.send(http("PUT", "/k", [("Content-Length", str((64 << 20) + 1))]))
    assert kyoto.response().status == 413


# --- request lines and headers


@pytest.mark.parametrize("length", [8190, 8191])
def test_request_lines(kyoto, length):
    """The limit includes everything but the line end."""
    frame = len("GET /rpc/echo?a= HTTP/1.1")
    value = "x" * (length - frame)
    response = kyoto.ask("GET", "/rpc/echo?a=" + value)
    assert response.status == 200 and value.encode() in response.body


@pytest.mark.parametrize("length", [8192, 8193, 100_000])
def test_request_lines_that_are_too_long(kyoto, length):
    """The server closes the connection without a reply."""
    frame = len("GET /rpc/echo?a= HTTP/1.1")
    assert kyoto.ends_silently(http("GET", "/rpc/echo?a=" + "x" * (length - frame)))


def test_a_request_line_without_an_end(kyoto):
    """The same without a line end."""
    assert kyoto.ends_silently(b"GET /" + b"x" * 9000)


@pytest.mark.parametrize("count", [1, 50, 100])
def test_many_headers(kyoto, count):
    """Dozens of headers are accepted."""
    assert kyoto.ask("GET", "/rpc/void", [(f"X-{i}", "v") for i in range(count)]).status == 200


def test_far_too_many_headers(kyoto):
    """The server refuses the request and closes the connection."""
    kyoto.send(http("GET", "/rpc/void", [(f"X-{i}", "v") for i in range(3000)]))
    answer = kyoto.rest()
    assert answer == b"" or answer.startswith(b"HTTP/1.1 400 ")


def test_headers_without_an_end(kyoto):
    """The server refuses them before they fill the memory."""
    kyoto.send(b"GET /rpc/void HTTP/1.1\r\n")
    try:
        for _ in range(400):
            kyoto.send(b"X: " + b"y" * 1000 + b"\r\n")
    except OSError:
        pass
    assert kyoto.is_closed()


# --- binary counts


def test_a_count_allocates_nothing(server, kyoto):
    """A request announces four billion records and sends three."""
    before = server.resident_bytes()
    for magic in (SET_BULK, GET_BULK, REMOVE_BULK):
        with Kyoto(server.kyoto) as other:
            other.send(magic + bytes(4) + b"\xff" * 4 + b"\0" * 18)
            time.sleep(0.05)
    assert server.resident_bytes() - before < 20 << 20
    assert kyoto.call("void") == ok()


def test_a_value_that_is_announced_allocates_little(server, kyoto):
    """For announced lengths up to the largest allowed."""
    before = server.resident_bytes()
    others = [Kyoto(server.kyoto) for _ in range(20)]
    for number, other in enumerate(others):
        if number % 2:
            other.send(frame_of_set([(0, b"k", b"", 5)])[:9] + b"\0\0" + b"\0\0\0\1" + (60 << 20).to_bytes(4, "big") + bytes(8))
        else:
            other.send(http("PUT", "/k", [("Content-Length", str(60 << 20))]))
    time.sleep(0.1)
    assert server.resident_bytes() - before < 100 << 20
    for other in others:
        other.close()
    assert kyoto.call("void") == ok()


# --- cursors and origins


@pytest.mark.parametrize("count", [1023, 1024])
def test_cursors(kyoto, count):
    """A connection may have 1,024 cursors."""
    kyoto.call("set", DB=1, key="k", value="v")
    assert {kyoto.call("cur_jump", DB=1, CUR=number).status for number in range(count)} == {200}
    assert kyoto.call("cur_get_key", CUR=count - 1) == ok(key="k")


def test_too_many_cursors(kyoto):
    """The next one is an error until another is deleted; the existing cursors still work."""
    kyoto.call("set", DB=1, key="k", value="v")
    for number in range(1024):
        kyoto.call("cur_jump", DB=1, CUR=number)
    assert_too_long(kyoto.call("cur_jump", DB=1, CUR=1024))
    assert kyoto.call("cur_get_key", CUR=0) == ok(key="k")
    kyoto.call("cur_delete", CUR=0)
    assert kyoto.call("cur_jump", DB=1, CUR=1024) == ok()


@pytest.mark.parametrize("length, status", [(0, 200), (1023, 200), (1024, 200), (1025, 400), (100_000, 400)])
@pytest.mark.parametrize("rows", [{}, {"utf": ""}], ids=["bytes", "characters"])
def test_origins(kyoto, length, status, rows):
    """The origin of a similarity search may have 1,024 characters."""
    origin = ("ä" if rows else "a") * length
    kyoto.call("set", key=origin[:1000], value="v")
    assert kyoto.call("match_similar", rows, origin=origin, range=100_000).status == status


# --- options


@pytest.mark.parametrize(
    "flag, value, good",
    [
        ("--kyoto-body-bytes-max", "-1", False),
        ("--kyoto-body-bytes-max", "0", False),
        ("--kyoto-body-bytes-max", "1", True),
        ("--kyoto-body-bytes-max", "128mb", True),
        ("--kyoto-body-bytes-max", "257mb", False),
        ("--kyoto-timeout-ms", "-1", False),
        ("--kyoto-timeout-ms", "0", False),
        ("--kyoto-timeout-ms", "1", True),
        ("--kyoto-timeout-ms", str(2**31 - 1), True),
        ("--kyoto-timeout-ms", str(2**31), False),
        ("--kyoto-hosts", "*", True),
        ("--kyoto-hosts", "a b", False),
        ("--kyoto-hosts", "", False),
        ("--kyoto-origins", "https://example.org", True),
        ("--kyoto-origins", "example.org", False),
        ("--kyoto-origins", "https://example.org/x", False),
        ("--databases", ": %", True),
        ("--databases", "", False),
    ],
)
def test_options(flag, value, good):
    """Accepted options, and options whose refusal names them."""
    done = run("config", "check", flag, value)
    assert done.returncode == (0 if good else 1), done


def test_a_body_fits_into_the_input_limit():
    """kyoto_body_bytes_max is at most input_bytes_max."""
    assert run("config", "check", "--kyoto-body-bytes-max", "2mb", "--input-bytes-max", "1mb").returncode == 1
    assert run("config", "check", "--input-bytes-max", "1mb").returncode == 0


# --- time and numbers


@pytest.mark.parametrize(
    "start_of",
    [
        b"GET /rpc/void HTTP/1.1\r\nHost",
        http("PUT", "/k", [("Content-Length", "10")]) + b"abc",
        frame_of_keys(GET_BULK, [(0, b"k")])[:-1],
        b"G",
    ],
)
def test_half_requests_are_given_up(low, start_of):
    """The server closes the connection after `kyoto_timeout_ms`."""
    started = time.monotonic()
    low.send(start_of)
    assert low.is_closed()
    assert time.monotonic() - started > 1.4


def test_idle_connections_are_not(low):
    """Between requests, the timeout does not apply."""
    low.call("void")
    assert low.is_silent(2.5)
    assert low.call("void") == ok()


def test_connections(start_server):
    """At the limit, the server refuses a new connection."""
    server = start_server("--connections-max", "3")
    connections = [Kyoto(server.kyoto) for _ in range(3)]
    assert all(connection.call("void") == ok() for connection in connections)
    with wire.Connection(server.kyoto) as fourth:
        assert fourth.is_closed()
    for connection in connections:
        connection.close()
