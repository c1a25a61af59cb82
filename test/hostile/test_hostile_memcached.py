"""Hostile bytes on the memcached port."""

import random

import pytest

import wire
from streams import NUMBERS, mutate, play, play_empty_safe, splits, truncations

REQUESTS = [
    b"set k 5 0 5\r\nhello\r\nget k\r\n",
    b"set k 0 0 12\r\nline\r\nEND\r\n1\r\nget k\r\n",
    b"add missing 0 -1 1\r\nx\r\n",
    b"set n 0 0 2\r\n10\r\nincr n 0\r\ndecr n 0\r\n",
    b"set k 0 0 1 noreply\r\nx\r\nget k a b c\r\n",
    b"cas k 0 0 1 999999999999\r\nx\r\n",
    b"append none 0 0 1\r\nx\r\nprepend none 0 0 1\r\nx\r\nreplace none 0 0 1\r\nx\r\n",
    b"touch none 100\r\ngat 100 none\r\ngats 100 none\r\n",
    b"delete none\r\ndelete none 0 noreply\r\n",
    b"mn\r\nmg none s v t f O123 k\r\n",
    b"ms m 2 F5 T100 k O9\r\nhi\r\nmg m v f k\r\n",
    b"ms m 2 q\r\nhi\r\nmd none q\r\nma none q\r\nmn\r\n",
    b"mg c29tZSBrZXk= b k v\r\n",
    b"ma none N0 J13 v q\r\nmd none I T30\r\n",
    b"me none\r\nverbosity 1\r\nnonesuch\r\n",
    b"\r\n\n \r\nmn\r\n",
]
DICTIONARY = [
    b"\r\n", b" ", b"  ", b"\0", b"noreply", b"get ", b"set ", b"mg ", b"ms ", b"md ", b"ma ", b"me ", b"mn", b" v", b" b", b" q", b" I", b" C1",
    b" N30", b" T-1", b" F4294967296", b" MZ", b" O" + b"o" * 40, b" k k", b"quit", b"cas ", b"incr ", b"-1", b"END",
]
GARBAGE = {
    "tls": bytes.fromhex("16030100a5010000a10303") + bytes(range(160)),
    "ssh": b"SSH-2.0-OpenSSH_9.2\r\n",
    "http get": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "http post": b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 25\r\n\r\nset hacked 0 0 3\r\nyes\r\n",
    "http put": b"PUT /k HTTP/1.1\r\nHost: x\r\n\r\nset hacked 0 0 3\r\nyes\r\n",
    "resp": b"*3\r\n$3\r\nSET\r\n$6\r\nhacked\r\n$3\r\nyes\r\n",
    "redis inline": b"SET hacked yes\r\nPING\r\n",
    "zeros": bytes(5000),
    "ones": b"\xff" * 5000,
    "line ends": b"\r\n" * 2000,
    "carriage returns": b"\r" * 3000,
    "spaces": b" " * 2000 + b"\r\n",
    "tabs": b"\t" * 1500 + b"\r\n",
}


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes(server, seed):
    """The server answers noise with errors or waits; when it ends, the connection is closed."""
    chance = random.Random(seed)
    play(server.memcached, [[chance.randbytes(chance.randrange(1, 400))] for _ in range(250)])


@pytest.mark.parametrize("seed", range(20))
def test_random_bytes_behind_a_plausible_start(server, seed):
    """Noise after the beginning of a valid request."""
    chance = random.Random(seed)
    starts = [b"set k 0 0 ", b"set k 0 0 10\r\n", b"get ", b"mg k ", b"ms k 10 ", b"ms k 10\r\n", b"incr k ", b"cas k 0 0 1 ", b"ma k "]
    play(server.memcached, [[chance.choice(starts) + chance.randbytes(chance.randrange(1, 200))] for _ in range(250)])


@pytest.mark.parametrize("seed", range(40))
def test_mutated_requests(server, seed):
    """Requests with a few bytes changed, complete and truncated at a random place."""
    chance = random.Random(seed)
    streams = []
    for _ in range(250):
        data = mutate(chance, b"".join(chance.choices(REQUESTS, k=chance.randrange(1, 4))), DICTIONARY)
        cut = chance.randrange(len(data) + 1)
        streams.append(play_empty_safe(data[:cut]) + [data[cut:]] if chance.random() < 0.5 else play_empty_safe(data))
    play(server.memcached, streams)


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_split_at_every_offset(server, number):
    """A stream split in two at any place has the same answers as the whole."""
    stream = REQUESTS[number]
    # Played once before, so that its records exist for each of the others.
    play(server.memcached, [[stream]])
    (whole,) = play(server.memcached, [[stream]])
    for at, answer in enumerate(play(server.memcached, splits(stream)), start=1):
        assert answer == whole, "cut at %d" % at


@pytest.mark.parametrize("number", range(len(REQUESTS)))
def test_truncated_at_every_offset(server, number):
    """If a stream ends anywhere, its complete requests are answered, and the connection is closed."""
    play(server.memcached, truncations(REQUESTS[number]))


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:24].decode())
def test_every_number_in_every_place(server, number):
    """Lengths, times, flags, tokens and amounts of any size and notation."""
    places = [
        b"set k %s 0 1\r\nx\r\n", b"set k 0 %s 1\r\nx\r\n", b"set k 0 0 %s\r\nx\r\n", b"cas k 0 0 1 %s\r\nx\r\n", b"incr k %s\r\n", b"decr k %s\r\n",
        b"touch k %s\r\n", b"gat %s k\r\n", b"verbosity %s\r\n", b"delete k %s\r\n", b"ms k %s\r\nx\r\n", b"ms k 1 F%s\r\nx\r\n",
        b"ms k 1 T%s\r\nx\r\n", b"ms k 1 C%s\r\nx\r\n", b"mg k T%s\r\n", b"mg k N%s v\r\n", b"mg k R%s\r\n", b"mg k O%s\r\n", b"md k C%s\r\n",
        b"md k I T%s\r\n", b"ma k N0 J%s\r\n", b"ma k D%s\r\n", b"ma k N%s\r\n", b"ma k MD D%s v\r\n", b"get %s\r\n", b"stats %s\r\n",
    ]
    play(server.memcached, [[place.replace(b"%s", number)] for place in places])


@pytest.mark.parametrize("name", GARBAGE)
def test_other_protocols(server, name):
    """Requests of other protocols have no effect."""
    play(server.memcached, [[GARBAGE[name]]] * 10)
    play(server.memcached, splits(GARBAGE[name][:200]))


@pytest.mark.todana_only
@pytest.mark.parametrize("name", ["resp", "redis inline"])
def test_other_protocols_store_nothing(server, name):
    """Requests of other protocols are not parsed by accident."""
    play(server.memcached, [[GARBAGE[name]]])
    with wire.Memcached(server.memcached) as connection:
        connection.talk(b"get hacked\r\n", b"END\r\n")


def test_lengths_announced_and_never_sent(server):
    """Hundreds of clients that announce a large value cost only the memory of the bytes sent."""
    resident = server.resident_bytes() if server.processes else 0
    connections = [wire.Memcached(server.memcached) for _ in range(400)]
    try:
        for i, connection in enumerate(connections):
            connection.send((b"set k 0 0 1000000\r\nabc", b"ms k 1000000\r\nabc", b"set k 0 0 2147483645\r\nabc")[i % 3])
        with wire.Memcached(server.memcached) as other:
            assert other.command("mn") == b"MN"
        if server.processes:
            assert server.resident_bytes() - resident < (500 << 20 if server.kind == "oracle" else 64 << 20)
    finally:
        for connection in connections:
            connection.close()


def test_an_endless_line(server):
    """A line without an end is refused."""
    play(server.memcached, [[b"A" * 1_000_000], [b"get " + b"k " * 500_000]])


def test_control_characters_in_keys(server):
    """Keys with NUL or other control characters have no effect on others."""
    play(server.memcached, [[b"set a%cb 0 0 1\r\nx\r\nget a%cb\r\n" % (i, i)] for i in range(256)])


class TestLargeAnswers:
    """Small requests with replies that exceed any buffer."""

    @pytest.fixture
    def growth_bytes_max(self):
        """The hard limit of one client's output, and memory that the allocator keeps."""
        return 700 << 20

    def test_one_line_cannot_ask_for_gigabytes(self, server):
        """Thousands of unread gets of the same large record stay within the output limit, or the connection is closed."""
        value = b"x" * 1_000_000
        with wire.Memcached(server.memcached) as connection:
            connection.command("set large 0 0 %d" % len(value), value)
        resident = server.resident_bytes() if server.processes else 0
        with wire.Memcached(server.memcached, receive_buffer_bytes=4096) as greedy:
            greedy.send(b"get" + b" large" * 2000 + b"\r\n")
            greedy.is_silent(0.5)
            if server.processes:
                assert server.resident_bytes() - resident < 600 << 20
