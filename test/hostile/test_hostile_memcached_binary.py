"""Hostile bytes in memcached's binary protocol."""

import random
import struct

import pytest

import wire
from streams import mutate, play, splits, truncations

OPCODES = [*range(0x1F), *range(0x20, 0x25)]
COUNTER = struct.pack(">QQI", 1, 10, 0)


def frame(opcode, key=b"", value=b"", extras=b"", cas=0) -> bytes:
    """A request."""
    body = extras + key + value
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key), len(extras), 0, 0, len(body), 7, cas) + body


REQUESTS = [
    frame(0x01, b"k", b"hello", bytes(8)) + frame(0x00, b"k"),
    frame(0x11, b"k", b"hello", bytes(8)) + frame(0x0D, b"k") + frame(0x0D, b"none") + frame(0x0A),
    frame(0x01, b"k", b"x", bytes(8), cas=999_999_999) + frame(0x04, b"none"),
    frame(0x0E, b"none", b"x") + frame(0x0F, b"none", b"x"),
    frame(0x05, b"none", b"", struct.pack(">QQI", 1, 10, 0xFFFFFFFF)),
    frame(0x1C, b"none", b"", bytes(4)) + frame(0x1D, b"k", b"", bytes([0, 0, 0, 100])) + frame(0x24, b"none", b"", bytes(4)),
    frame(0x0B) + frame(0x1B, b"", b"", bytes(4)) + frame(0x10, b"settings") + frame(0x10, b"none"),
    frame(0x20) + frame(0x21, b"PLAIN", b"\0me\0secret") + frame(0x22, b"PLAIN", b"x") + frame(0x77, b"k", b"v", b"e") + frame(0x0A),
]
# A flush would remove the records of other tests.
FLUSHES = {b"\x80\x08": b"\x80\x09", b"\x80\x18": b"\x80\x19"}
DICTIONARY = [
    b"\x80", b"\x81", bytes(4), b"\xff\xff\xff\xff", b"\x80\x01\x00\x01\x08", frame(0x0A), frame(0x07), frame(0x10), b"get k\r\n", b"PLAIN",
]


def without_flushes(data) -> bytes:
    """The bytes, with another opcode in the place of each flush."""
    for flush, other in FLUSHES.items():
        data = data.replace(flush, other)
    return data


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_behind_the_first_byte(server, seed):
    """Noise in and behind a head."""
    chance = random.Random(seed)
    heads = [b"\x80", b"\x80\x00\x00\x01", b"\x80\x01\x00\x01\x08\x00\x00\x00\x00\x00\x00", b"\x80\x0a\x00\x00\x00\x00\x00\x00"]
    play(server.memcached, [[without_flushes(chance.choice(heads) + chance.randbytes(chance.randrange(1, 200)))] for _ in range(250)])


@pytest.mark.parametrize("seed", range(40))
def test_mutated_requests(server, seed):
    """Requests with a few bytes changed, complete and truncated at a random place."""
    chance = random.Random(seed)
    streams = []
    for _ in range(250):
        data = without_flushes(mutate(chance, b"".join(chance.choices(REQUESTS, k=chance.randrange(1, 4))), DICTIONARY)) or b"\x80"
        cut = chance.randrange(len(data) + 1)
        streams.append([part for part in (data[:cut], data[cut:]) if part])
    play(server.memcached, streams)


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_split_at_every_offset(server, number):
    """A stream split in two at any place has the same answers as the whole, except for the tokens."""
    stream = REQUESTS[number]
    play(server.memcached, [[stream]])
    (whole,) = play(server.memcached, [[stream]])
    for at, answer in enumerate(play(server.memcached, splits(stream)), start=1):
        assert without_tokens(answer) == without_tokens(whole), "cut at %d" % at


def without_tokens(answer) -> bytes:
    """The responses with the CAS tokens blanked."""
    data, at = bytearray(answer), 0
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at + 8)
        data[at + 16 : at + 24] = bytes(8)
        at += 24 + length
    return bytes(data)


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_truncated_at_every_offset(server, number):
    """If a stream ends anywhere, its complete requests are answered, and the connection is closed."""
    play(server.memcached, truncations(REQUESTS[number]))


@pytest.mark.parametrize("opcode", [code for code in range(256) if code not in (0x08, 0x18)])
def test_every_opcode_with_every_shape(server, opcode):
    """Keys, extras and values where they do not belong, and lengths that contradict each other."""
    streams = [[frame(opcode, key, value, extras) + frame(0x0A)]
               for key in (b"", b"k", b"k" * 250, b"k" * 251, b"k" * 65_535)
               for value in (b"", b"v")
               for extras in (b"", bytes(4), bytes(8), bytes(20), b"\xff" * 255)]
    for place, field in ((2, b"\xff\xff"), (4, b"\xff"), (8, b"\xff\xff\xff\xff"), (8, bytes(4))):
        broken = bytearray(frame(opcode, b"k", b"v", bytes(8)))
        broken[place : place + len(field)] = field
        streams.append([bytes(broken)])
    play(server.memcached, streams)


def test_lengths_announced_and_never_sent(server):
    """Hundreds of clients that announce a large value cost only the memory of the bytes sent."""
    resident = server.resident_bytes() if server.processes else 0
    connections = [wire.Connection(server.memcached) for _ in range(400)]
    head = bytearray(frame(0x01, b"k", b"", bytes(8)))
    try:
        for number, connection in enumerate(connections):
            head[8:12] = struct.pack(">I", (1_000_000, 0x7FFFFFFF, 0xFFFFFFFF)[number % 3])
            connection.send(bytes(head) + b"abc")
        with wire.Memcached(server.memcached) as other:
            assert other.command("mn") == b"MN"
        if server.processes and server.kind != "oracle":
            assert server.resident_bytes() - resident < 64 << 20
    finally:
        for connection in connections:
            connection.close()
