"""DUMP and RESTORE, HyperLogLogs: values move between this server and redis-server."""

import random

import pytest

import served
import wire
from wire import OK, Error

pytestmark = pytest.mark.one_backend


@pytest.fixture(scope="module")
def redis_server():
    """Debian's redis-server."""
    if not served.oracle_is_installed():
        pytest.skip("redis-server is not installed")
    running = served.start_redis()
    yield running
    running.stop()


def values(chance):
    """Values of every encoding: integers, short and long strings, some of which Redis compresses."""
    yield from (b"", b"0", b"-1", b"128", b"-32769", b"2147483647", b"2147483648", b"007", b"+1", b" 1")
    for length in (1, 20, 21, 63, 64, 300, 16_383, 16_384, 300_000):
        yield chance.randbytes(length)
        yield b"ab" * (length // 2 + 1)
        yield b"".join(chance.choice((b"word ", b"another ", b"x")) for _ in range(length // 5))


@pytest.mark.parametrize("seed", range(3))
def test_values_move_in_both_directions(resp, redis_server, seed):
    """What one server dumps, the other restores."""
    with wire.Resp(redis_server.resp) as original:
        original.call("FLUSHALL")
        for number, value in enumerate(values(random.Random(seed))):
            for source, target in ((resp, original), (original, resp)):
                assert source.call("SET", "k", value) == OK
                payload = source.call("DUMP", "k")
                target.call("DEL", "moved")
                assert target.call("RESTORE", "moved", 0, payload) == OK, number
                assert target.call("GET", "moved") == value, number
                damaged = bytearray(payload)
                damaged[random.Random(number).randrange(len(damaged))] ^= 4
                assert target.call("RESTORE", "damaged", 0, bytes(damaged)) == Error("ERR DUMP payload version or checksum are wrong")


def test_other_types_are_refused(resp, redis_server):
    """The error says what is missing."""
    with wire.Resp(redis_server.resp) as original:
        original.call("RPUSH", "list", "a", "b")
        original.call("HSET", "hash", "f", "v")
        for key in ("list", "hash"):
            answer = resp.call("RESTORE", "k", 0, original.call("DUMP", key))
            assert isinstance(answer, Error) and "not a string" in answer.text
    assert resp.call("EXISTS", "k") == 0


@pytest.mark.parametrize("count", [0, 3, 300, 5_000])
def test_sketches_are_the_bytes_of_redis(resp, redis_server, count):
    """The same elements in the same order are the same string, sparse and dense, and so is a merge."""
    chance = random.Random(count)
    with wire.Resp(redis_server.resp) as original:
        original.call("DEL", "a", "b", "m")
        for key in ("a", "b"):
            for _ in range(count // 50 + 1):
                elements = [str(chance.randrange(10 * count + 1)) for _ in range(min(count, 50))]
                assert resp.call("PFADD", key, *elements) == original.call("PFADD", key, *elements)
            assert resp.call("GET", key) == original.call("GET", key)
        for keys in (("a",), ("b",), ("a", "b", "none")):
            assert resp.call("PFCOUNT", *keys) == original.call("PFCOUNT", *keys)
        assert resp.call("PFMERGE", "m", "a", "b") == original.call("PFMERGE", "m", "a", "b")
        assert resp.call("PFCOUNT", "m") == original.call("PFCOUNT", "m")
        # Redis stores estimates; the registers are the same.
        assert resp.call("GET", "m")[16:] == original.call("GET", "m")[16:]


def test_long_values_are_combined_and_dumped(resp):
    """In slices, with the same result as short ones."""
    long = random.Random(1).randbytes(3_000_000)
    resp.call("SET", "a", long)
    resp.call("SET", "b", long[:1_500_000])
    assert resp.call("BITOP", "XOR", "d", "a", "b") == 3_000_000
    assert resp.call("GET", "d") == bytes(1_500_000) + long[1_500_000:]
    assert resp.call("BITOP", "AND", "d", "d", "a", "b") == 3_000_000
    assert resp.call("GET", "d") == bytes(3_000_000)
    payload = resp.call("DUMP", "a")
    assert resp.call("RESTORE", "c", 1_000_000, payload) == OK
    assert resp.call("GET", "c") == long and resp.call("PTTL", "c") > 0
    assert resp.call("RESTORE", "c", 0, payload) == Error("BUSYKEY Target key name already exists.")
