"""Section 4: the binary protocol."""

import struct
import time

import pytest

from fixtures import HASH, PERSISTENT, TREE
from kyoto_wire import (
    FAILED, GET_BULK, INT64_MAX, INT64_MIN, NEVER, REMOVE_BULK, SET_BULK, frame_of_keys, frame_of_script, frame_of_set, http, ok,
)

pytestmark = pytest.mark.todana_only

BINARY = bytes(range(256))


def test_the_example_of_the_specification(kyoto):
    """The example matches byte for byte."""
    kyoto.talk(
        bytes.fromhex("B8 00000000 00000001  0000 00000002 00000003 7fffffffffffffff") + b"k1abc", bytes.fromhex("B8 00000001")
    )
    kyoto.talk(
        bytes.fromhex("BA 00000000 00000001  0000 00000002") + b"k1",
        bytes.fromhex("BA 00000001  0000 00000002 00000003 000000ffffffffff") + b"k1abc",
    )
    kyoto.talk(bytes.fromhex("B9 00000000 00000001  0000 00000002") + b"k1", bytes.fromhex("B9 00000001"))
    kyoto.talk(bytes.fromhex("B9 00000000 00000001  0000 00000002") + b"k1", bytes.fromhex("B9 00000000"))


def test_records_of_several_databases(kyoto):
    """Each record names its database."""
    assert (
        kyoto.set_bulk((0, b"a", b"0", INT64_MAX), (1, b"a", b"1", INT64_MAX), (1, BINARY, BINARY, INT64_MAX), (0, b"", b"", INT64_MAX))
        == 4
    )
    assert kyoto.get_bulk((1, b"a"), (0, b"a"), (0, BINARY), (1, BINARY), (0, b"")) == [
        (1, b"a", b"1", NEVER), (0, b"a", b"0", NEVER), (1, BINARY, BINARY, NEVER), (0, b"", b"", NEVER),
    ]
    assert kyoto.remove_bulk((1, b"a"), (1, b"none"), (0, b"a")) == 2


def test_answers_come_in_the_order_of_the_request(kyoto):
    """Misses are omitted, and repeated keys are returned repeatedly."""
    kyoto.set_bulk((0, b"a", b"1", INT64_MAX), (0, b"b", b"2", INT64_MAX))
    assert [key for _, key, _, _ in kyoto.get_bulk((0, b"b"), (0, b"none"), (0, b"a"), (0, b"b"))] == [b"b", b"a", b"b"]


def test_repeated_keys(kyoto):
    """The last value counts; a second removal finds nothing."""
    assert kyoto.set_bulk((0, b"a", b"1", INT64_MAX), (0, b"a", b"2", INT64_MAX)) == 2
    assert kyoto.value("a") == b"2"
    assert kyoto.remove_bulk((0, b"a"), (0, b"a")) == 1


def test_nothing_at_all(kyoto):
    """A count of 0 is valid."""
    assert (kyoto.set_bulk(), kyoto.get_bulk(), kyoto.remove_bulk()) == (0, [], 0)


def test_an_unknown_database_is_passed_over(kyoto):
    """The server reads the record and ignores it, without an error."""
    assert kyoto.set_bulk((7, b"a", b"1", INT64_MAX), (65535, b"a", b"1", INT64_MAX), (0, b"a", b"2", INT64_MAX)) == 1
    assert kyoto.get_bulk((7, b"a"), (0, b"a"), (65535, b"a")) == [(0, b"a", b"2", NEVER)]
    assert kyoto.remove_bulk((7, b"a"), (0, b"a"), (65535, b"a")) == 1


def test_expiry_times(kyoto):
    """Times are in seconds from now, in seconds since 1970 if negative, or never."""
    now = int(time.time())
    kyoto.set_bulk(
        (0, b"relative", b"v", 100), (0, b"absolute", b"v", -(now + 100)), (0, b"past", b"v", -1), (0, b"lowest", b"v", INT64_MIN),
        (0, b"never", b"v", NEVER), (0, b"before", b"v", -(NEVER - 1)),
    )
    keys = (b"relative", b"absolute", b"past", b"lowest", b"never", b"before")
    found = {key: xt for _, key, _, xt in kyoto.get_bulk(*[(0, key) for key in keys])}
    assert now + 99 <= found.pop(b"relative") <= now + 101
    assert found == {b"absolute": now + 100, b"lowest": NEVER, b"never": NEVER, b"before": NEVER - 1}


def test_a_database_without_expiry(kyoto):
    """The server returns the greatest number as the expiry."""
    kyoto.set_bulk((PERSISTENT, b"a", b"1", -1))
    assert kyoto.get_bulk((PERSISTENT, b"a")) == [(PERSISTENT, b"a", b"1", INT64_MAX)]


def test_no_reply(kyoto):
    """With flag 1, the server executes the request and sends no reply."""
    kyoto.send(frame_of_set([(0, b"a", b"1", INT64_MAX), (0, b"b", b"2", INT64_MAX)], flags=1))
    kyoto.send(frame_of_keys(REMOVE_BULK, [(0, b"b")], flags=1))
    kyoto.send(frame_of_script(b"echo", [(b"a", b"b")], flags=1))
    assert kyoto.get_bulk((0, b"a"), (0, b"b")) == [(0, b"a", b"1", NEVER)]


def test_get_always_replies(kyoto):
    """The server ignores the flags of `get_bulk`."""
    kyoto.send(frame_of_keys(GET_BULK, [(0, b"a")], flags=1))
    assert kyoto.records() == []


def test_play_script(kyoto):
    """There are no scripts: the server returns an error and keeps the connection open."""
    kyoto.talk(frame_of_script(b"echo", [(b"a", b"b"), (b"", b"")]), FAILED)
    assert kyoto.call("void") == ok()


def test_replication(kyoto):
    """There is no update log: the server returns an error and closes the connection."""
    kyoto.send(b"\xb1" + struct.pack(">IQH", 0, 0, 1))
    assert kyoto.rest() == FAILED


@pytest.mark.parametrize("magic", [0x00, 0x80, 0x81, 0xB0, 0xB2, 0xB3, 0xB5, 0xB7, 0xBB, 0xBF, 0xFE, 0xFF])
def test_other_first_bytes(kyoto, magic):
    """Any other first byte closes the connection without a reply."""
    assert kyoto.ends_silently(bytes([magic]) + bytes(20))


@pytest.mark.parametrize("field", ["key", "value"])
def test_sizes_beyond_256_mib(kyoto, field):
    """The server returns an error and closes the connection; earlier records are stored."""
    size = (256 << 20) + 1
    sizes = (size, 1) if field == "key" else (1, size)
    kyoto.send(
        SET_BULK
        + struct.pack(">II", 0, 2)
        + struct.pack(">HIIq", 0, 1, 1, INT64_MAX)
        + b"ab"
        + struct.pack(">HIIq", 0, *sizes, INT64_MAX)
        + b"xxxx"
    )
    assert kyoto.rest() == FAILED
    with type(kyoto)(kyoto.address) as other:
        assert other.value("a") == b"b"


def test_a_key_beyond_256_mib_to_read(kyoto):
    """The same for the keys of reads."""
    kyoto.send(GET_BULK + struct.pack(">II", 0, 1) + struct.pack(">HI", 0, 0xFFFFFFFF))
    assert kyoto.rest() == FAILED


def test_a_request_that_ends_early(kyoto):
    """The server stores complete records; for the rest it returns an error or nothing."""
    kyoto.send(frame_of_set([(0, b"a", b"1", INT64_MAX), (0, b"b", b"2", INT64_MAX)])[:-1])
    kyoto.half_close()
    assert kyoto.rest() in (FAILED, b"")
    with type(kyoto)(kyoto.address) as other:
        assert other.value("b") is None


@pytest.mark.one_backend
def test_cut_at_every_byte(connect):
    """The reply does not depend on how the request is split into packets."""
    frames = frame_of_set([(0, b"a", b"1", 100), (1, b"bc", b"23", -5)]) + frame_of_keys(GET_BULK, [(0, b"a"), (1, b"bc")])
    frames += frame_of_keys(REMOVE_BULK, [(0, b"a")]) + frame_of_script(b"f", [(b"k", b"v")]) + http("GET", "/a")
    for at in range(1, len(frames)):
        with connect.kyoto() as kyoto:
            kyoto.send(frames[:at])
            kyoto.send(frames[at:])
            assert kyoto.count_of(SET_BULK) == 2
            assert len(kyoto.records()) == 1
            assert kyoto.count_of(REMOVE_BULK) == 1
            assert kyoto.take(1) == FAILED
            assert kyoto.response().status == 404


def test_many_records_in_one_frame(kyoto):
    """The work takes several turns of the event loop."""
    records = [(i % 2, b"key%d" % i, b"v%d" % i, INT64_MAX) for i in range(20_000)]
    assert kyoto.set_bulk(*records) == 20_000
    found = kyoto.get_bulk(*[(database, key) for database, key, _, _ in records])
    assert [(database, key, value) for database, key, value, _ in found] == [record[:3] for record in records]
    assert kyoto.remove_bulk(*[(database, key) for database, key, _, _ in records]) == 20_000


def test_large_values(kyoto):
    """A frame may contain many megabytes."""
    values = [bytes([i]) * 5_000_000 for i in range(3)]
    assert kyoto.set_bulk(*[(HASH, b"%d" % i, value, INT64_MAX) for i, value in enumerate(values)]) == 3
    assert [value for _, _, value, _ in kyoto.get_bulk(*[(HASH, b"%d" % i) for i in range(3)])] == values


def test_binary_and_http_see_the_same_records(kyoto):
    """Both protocols see the same records, with the same expiry."""
    kyoto.set_bulk((TREE, b"k", b"v", 100))
    xt = kyoto.xt("k", DB=TREE)
    assert kyoto.get_bulk((TREE, b"k")) == [(TREE, b"k", b"v", xt)]


def test_pipelined_frames(kyoto):
    """Thousands of frames in one stream are answered in order."""
    kyoto.send(b"".join(frame_of_set([(0, b"k", b"%d" % i, INT64_MAX)]) + frame_of_keys(GET_BULK, [(0, b"k")]) for i in range(2000)))
    for i in range(2000):
        assert kyoto.count_of(SET_BULK) == 1
        assert kyoto.records()[0][2] == b"%d" % i
