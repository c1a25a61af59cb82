"""Every limit, one below, at the limit, and beyond it. If the real maximum would be too large, an option lowers it."""

import pytest

import wire
from fixtures import PASSWORD, start
from wire import OK, Error, Status, encode, wait_until

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

KEY_BYTES_MAX = 100
VALUE_BYTES_MAX = 10_000
MEMCACHED_VALUE_BYTES_MAX = 5_000
ARGUMENTS_MAX = 20
LINE_BYTES_MAX = 1_000
QUEUED_BYTES_MAX = 2_000
OUTPUT_BYTES_HARD = 1 << 20
OUTPUT_BYTES_SOFT = 128 << 10
OUTPUT_SOFT_MS = 500
CONNECTIONS_MAX = 20


@pytest.fixture(scope="module")
def small(request):
    """A server with low limits."""
    running = start(
        request.config,
        "--key-bytes-max", KEY_BYTES_MAX, "--value-bytes-max", VALUE_BYTES_MAX,
        "--memcached-value-bytes-max", MEMCACHED_VALUE_BYTES_MAX, "--arguments-max", ARGUMENTS_MAX,
        "--line-bytes-max", LINE_BYTES_MAX, "--queued-bytes-max", QUEUED_BYTES_MAX,
        "--output-bytes-hard", OUTPUT_BYTES_HARD, "--output-bytes-soft", OUTPUT_BYTES_SOFT,
        "--output-soft-ms", OUTPUT_SOFT_MS, "--connections-max", CONNECTIONS_MAX,
    )
    yield running
    assert running.stop() == [0], running.output()


@pytest.fixture
def low(small):
    """A RESP connection to the server with low limits, with an empty table."""
    with wire.Resp(small.resp) as connection:
        connection.call("FLUSHALL")
        yield connection


@pytest.fixture
def low_memcached(small, low):
    """A memcached connection to the server with low limits."""
    with wire.Memcached(small.memcached) as connection:
        yield connection


# --- the defaults, at full size


@pytest.mark.parametrize("length", [0, 1, 65_535, 65_536])
def test_keys_up_to_64_kib(resp, length):
    """The longest key of RESP is 64 KiB."""
    assert resp.call("SET", b"k" * length, "v") == OK
    assert resp.call("GET", b"k" * length) == b"v"


def test_a_key_beyond_64_kib(resp):
    """One byte more is an error, and the connection stays open."""
    assert isinstance(resp.call("SET", b"k" * 65_537, "v"), Error)
    assert resp.call("DBSIZE") == 0


@pytest.mark.parametrize("length", [(64 << 20) - 1, 64 << 20])
def test_values_up_to_64_mib(resp, length):
    """The longest value of RESP is 64 MiB."""
    assert resp.call("SET", "k", b"x" * length) == OK
    assert resp.call("STRLEN", "k") == length


def test_a_value_beyond_64_mib(resp):
    """One byte more is a protocol error as soon as the length is announced."""
    resp.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % ((64 << 20) + 1))
    assert resp.rest() == b"-ERR Protocol error: invalid bulk length\r\n"


@pytest.mark.parametrize("count", [65_535, 65_536])
def test_arguments_up_to_65536(resp, count):
    """A command may have 65,536 arguments."""
    assert resp.call("DEL", *[b"k"] * (count - 1)) == 0


def test_more_than_65536_arguments(resp):
    """One more is a protocol error as soon as the count is announced."""
    resp.send(b"*65537\r\n")
    assert resp.rest() == b"-ERR Protocol error: invalid multibulk length\r\n"


@pytest.mark.parametrize("length", [65_535, 65_536])
def test_inline_lines_up_to_64_kib(resp, length):
    """An inline line may have 64 KiB before its LF."""
    resp.send(b"ECHO " + b"x" * (length - 5) + b"\n")
    assert resp.reply() == b"x" * (length - 5)


def test_an_inline_line_beyond_64_kib(resp):
    """A longer line is a protocol error, with or without its end."""
    resp.send(b"ECHO " + b"x" * 70_000)
    assert resp.rest().startswith(b"-ERR Protocol error: too big inline request\r\n")


@pytest.mark.parametrize("length", [(1 << 20) - 1, 1 << 20])
def test_memcached_values_up_to_1_mib(memcached, length):
    """The longest value of memcached is 1 MiB."""
    assert memcached.command("set k 0 0 %d" % length, b"x" * length) == b"STORED"


def test_a_memcached_value_beyond_1_mib(memcached):
    """One byte more is refused with memcached's error."""
    length = (1 << 20) + 1
    assert memcached.command("set k 0 0 %d" % length, b"x" * length) == b"SERVER_ERROR object too large for cache"
    assert memcached.command("mn") == b"MN"


# --- lowered limits


@pytest.mark.parametrize("command", ["SET {} v", "GET {}", "INCR {}", "DEL {}", "EXISTS a {}", "MSET a 1 {} 2", "RENAME a {}", "COPY a {}"])
def test_key_length(low, command):
    """A key at the limit is accepted; a longer one is refused by every command."""
    low.call("SET", "a", 1)
    at = low.call(*command.format("k" * KEY_BYTES_MAX).split())
    assert not isinstance(at, Error)
    low.call("FLUSHALL")
    low.call("SET", "a", 1)
    assert isinstance(low.call(*command.format("k" * (KEY_BYTES_MAX + 1)).split()), Error)
    assert low.call("DBSIZE") == 1


@pytest.mark.parametrize("length", [0, VALUE_BYTES_MAX - 1, VALUE_BYTES_MAX])
def test_value_length_within(low, length):
    """A value up to the limit is stored."""
    assert low.call("SET", "k", b"x" * length) == OK


def test_value_length_beyond(low):
    """A longer value is refused as soon as its length is announced."""
    low.send(encode("SET", "k", b"x" * (VALUE_BYTES_MAX + 1)))
    assert low.rest() == b"-ERR Protocol error: invalid bulk length\r\n"


@pytest.mark.parametrize(
    "command, within, beyond",
    [
        (["APPEND", "k"], "x" * 10, "x" * 11),
        (["SETRANGE", "k", VALUE_BYTES_MAX - 10], "x" * 10, "x" * 11),
    ],
    ids=["APPEND", "SETRANGE"],
)
@pytest.mark.memory_only
def test_values_that_grow(low, command, within, beyond):
    """No command lengthens a value beyond the limit."""
    low.call("SET", "k", "x" * (VALUE_BYTES_MAX - 10))
    too_long = Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)")
    assert low.call(*command, beyond) == too_long
    assert low.call("STRLEN", "k") == VALUE_BYTES_MAX - 10
    assert low.call(*command, within) == VALUE_BYTES_MAX


def test_setbit_beyond_the_value_limit(low):
    """The last bit of the largest value can be set, the next one not."""
    assert low.call("SETBIT", "k", VALUE_BYTES_MAX * 8 - 1, 1) == 0
    assert low.call("SETBIT", "k", VALUE_BYTES_MAX * 8, 1) == Error("ERR bit offset is not an integer or out of range")


@pytest.mark.memory_only
def test_memcached_append_beyond_the_value_limit(low_memcached):
    """append and prepend respect the limit of memcached's values."""
    low_memcached.command("set k 0 0 %d" % (MEMCACHED_VALUE_BYTES_MAX - 1), "x" * (MEMCACHED_VALUE_BYTES_MAX - 1))
    assert low_memcached.command("append k 0 0 1", "y") == b"STORED"
    assert low_memcached.command("append k 0 0 1", "y") in (b"NOT_STORED", b"SERVER_ERROR object too large for cache")
    assert low_memcached.command("prepend k 0 0 1", "y") in (b"NOT_STORED", b"SERVER_ERROR object too large for cache")
    low_memcached.send(b"get k\r\n")
    assert low_memcached.line() == b"VALUE k 0 %d" % MEMCACHED_VALUE_BYTES_MAX


@pytest.mark.parametrize("count", [1, ARGUMENTS_MAX - 1, ARGUMENTS_MAX])
def test_argument_count_within(low, count):
    """A request up to the limit is executed."""
    assert not isinstance(low.call(*(["PING"] if count == 1 else ["DEL"] + ["k"] * (count - 1))), Error)


@pytest.mark.parametrize("count", [ARGUMENTS_MAX + 1, 1024, 1025, 2**31])
def test_argument_count_beyond(low, count):
    """A larger request is refused as soon as its count is announced."""
    low.send(b"*%d\r\n" % count)
    assert low.rest() == b"-ERR Protocol error: invalid multibulk length\r\n"


def test_inline_length(low, small):
    """A line at the limit, including its end except LF, is a request; a longer one is an error."""
    line = b"ECHO " + b"x" * (LINE_BYTES_MAX - 5)
    low.talk(line + b"\n", b"$%d\r\n%s\r\n" % (len(line) - 5, line[5:]))
    low.send(line + b"x\n")
    assert low.rest() == b"-ERR Protocol error: too big inline request\r\n"


def test_memcached_line_length(low_memcached):
    """A line at the limit is a request; a longer one is an error that closes the connection, except for get and gets."""
    line = b"get" + b" k" * ((LINE_BYTES_MAX - 3) // 2)
    assert low_memcached.command(line) == b"END"
    assert low_memcached.command(line + b" k" * 10) == b"END"
    low_memcached.send(b"gat 0" + b" k" * (LINE_BYTES_MAX // 2) + b"\r\n")
    assert low_memcached.is_closed() or low_memcached.line().startswith((b"ERROR", b"CLIENT_ERROR"))


def test_queued_bytes(low):
    """MULTI queues a limited number of bytes; beyond it the transaction is aborted, and the connection stays open."""
    low.call("MULTI")
    answers = [low.call("SET", "k", "x" * 100) for _ in range(30)]
    assert answers[0] == Status("QUEUED")
    assert any(isinstance(answer, Error) for answer in answers)
    assert low.call("EXEC").text.startswith("EXECABORT")
    assert low.call("PING") == Status("PONG")


def test_connection_count(small, low):
    """Clients up to the limit are served; the next gets an error and is closed; a free place is used again."""
    connections = [wire.Resp(small.resp) for _ in range(CONNECTIONS_MAX - 1)]
    try:
        assert all(connection.call("PING") == Status("PONG") for connection in connections)
        with wire.Resp(small.resp) as refused:
            assert refused.rest() == b"-ERR max number of clients reached\r\n"
        with wire.Memcached(small.memcached) as refused:
            assert refused.rest() == b"ERROR Too many open connections\r\n"
        connections.pop().close()

        def admitted():
            with wire.Resp(small.resp) as next_one:
                try:
                    return next_one.call("PING") == Status("PONG")
                except (wire.Closed, OSError):
                    return False

        assert wait_until(admitted)
    finally:
        for connection in connections:
            connection.close()


def test_output_hard_limit(start_server):
    """Output beyond the hard limit closes the client; others are served."""
    server = start_server("--output-bytes-hard", "1mb", "--output-bytes-soft", "1mb")
    with wire.Resp(server.resp) as greedy, wire.Resp(server.resp) as other:
        other.call("SET", "k", "x" * 1_000_000)
        greedy.send(encode("MGET", *["k"] * 50))
        assert len(greedy.rest()) < 50_000_000
        assert other.call("STRLEN", "k") == 1_000_000


def test_output_soft_limit(small, low):
    """A client that stays above the soft limit for the permitted time is closed."""
    low.call("SET", "k", "x" * VALUE_BYTES_MAX)
    with wire.Resp(small.resp, receive_buffer_bytes=4096) as lazy:
        number = lazy.call("CLIENT", "ID")
        lazy.socket.settimeout(1)
        try:
            for _ in range(300):
                lazy.send(encode("GET", "k") * 200)
        except (TimeoutError, OSError):
            pass
        gone = lambda: low.call("CLIENT", "LIST", "ID", number) == b""  # noqa: E731
        assert wait_until(gone, timeout_s=OUTPUT_SOFT_MS / 1000 + wire.TIMEOUT_S)


# --- before authentication


@pytest.fixture
def stranger(guarded):
    """A RESP connection without the password."""
    with wire.Resp(guarded.resp) as connection:
        yield connection


@pytest.mark.parametrize("count", [1, 9, 10])
def test_strangers_arguments_within(stranger, count):
    """An unauthenticated client may send ten arguments."""
    assert stranger.call(*["SET"] * count).text.startswith(("NOAUTH", "ERR wrong number"))


@pytest.mark.parametrize("count", [11, 100, 65_537])
def test_strangers_arguments_beyond(stranger, count):
    """Eleven arguments are refused."""
    stranger.send(b"*%d\r\n" % count)
    assert stranger.rest() == b"-ERR Protocol error: unauthenticated multibulk length\r\n"


@pytest.mark.parametrize("length", [0, 16_383, 16_384])
def test_strangers_argument_length_within(stranger, length):
    """An unauthenticated client may send 16 KiB."""
    assert stranger.call("AUTH", "x" * length).text.startswith("WRONGPASS")


def test_strangers_argument_length_beyond(stranger):
    """One byte more is refused."""
    stranger.send(b"*2\r\n$4\r\nAUTH\r\n$16385\r\n")
    assert stranger.rest() == b"-ERR Protocol error: unauthenticated bulk length\r\n"


def test_limits_are_lifted_by_the_password(stranger):
    """After AUTH, the usual limits apply."""
    assert stranger.call("AUTH", PASSWORD) == OK
    assert stranger.call("SET", "k", "x" * 100_000) == OK
    assert stranger.call("DEL", *["k"] * 100) == 1


# --- time


def test_idle_timeout(start_server):
    """The server closes idle clients, and no others."""
    server = start_server("--idle-timeout-ms", 3000)
    with wire.Resp(server.resp) as silent, wire.Memcached(server.memcached) as silent_too, wire.Resp(server.resp) as speaking:
        silent.call("PING")
        silent_too.command("mn")

        def are_closed():
            assert speaking.call("PING") == Status("PONG")
            return silent.is_closed(0.05) and silent_too.is_closed(0.05)

        assert wait_until(are_closed)
        assert speaking.call("PING") == Status("PONG")


def test_authentication_timeout(start_server, tmp_path):
    """The server closes clients that do not authenticate in time."""
    path = tmp_path / "password"
    path.write_text(PASSWORD)
    path.chmod(0o600)
    server = start_server("--password-file", path, "--authentication-timeout-ms", 3000)
    with wire.Resp(server.resp) as stranger, wire.Resp(server.resp) as owner, wire.Memcached(server.memcached) as stranger_too:
        assert owner.call("AUTH", PASSWORD) == OK
        assert stranger.is_closed()
        assert stranger_too.is_closed()
        assert owner.call("PING") == Status("PONG")


# --- memory


@pytest.mark.memory_only
def test_memory_limit_with_eviction(start_server):
    """At the limit, the least used records are evicted; the server's memory stays bounded."""
    server = start_server("--memory-limit", "20mb")
    with wire.Resp(server.resp) as connection:
        for start in range(0, 100_000, 1000):
            connection.send(b"".join(encode("SET", f"k{i}", "x" * 1000) for i in range(start, start + 1000)))
            connection.hear(b"+OK\r\n" * 1000)
        assert _info(connection, "used_memory_dataset") <= 20 << 20
        assert 10_000 < connection.call("DBSIZE") < 21_000
        assert _info(connection, "evicted_keys") > 50_000
        assert connection.call("SET", "last", "x") == OK
        assert connection.call("GET", "last") == b"x"
    assert server.resident_bytes() < 400 << 20


@pytest.mark.memory_only
def test_memory_limit_with_refusal(start_server):
    """With `refuse`, writes beyond the limit are errors; reads and deletions still work."""
    server = start_server("--memory-limit", "2mb", "--memory-policy", "refuse")
    with wire.Resp(server.resp) as connection, wire.Memcached(server.memcached) as memcached:
        answers = {connection.call("SET", f"k{i}", "x" * 1000) for i in range(3000)}
        assert answers == {OK, Error("OOM command not allowed when used memory > 'maxmemory'.")}
        assert memcached.command("set m 0 0 1000", "x" * 1000) == b"SERVER_ERROR out of memory storing object"
        assert connection.call("GET", "k0") == b"x" * 1000
        assert connection.call("DEL", *[f"k{i}" for i in range(500)]) == 500
        assert connection.call("SET", "k0", "x" * 1000) == OK


def _info(connection, name):
    for line in connection.call("INFO").decode().splitlines():
        if line.startswith(name + ":"):
            return int(line.partition(":")[2])
    raise KeyError(name)
