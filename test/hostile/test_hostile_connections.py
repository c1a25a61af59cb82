"""Attacks by connections: floods, resets, urgent data, slow senders, and clients without the password."""

import random
import socket

import pytest

import wire
from fixtures import PASSWORD
from streams import play
from wire import Status, encode


def doors(server):
    """The addresses of all protocols."""
    return [address for address in (server.resp, server.memcached, server.kyoto) if address]


def test_connections_that_say_nothing(server):
    """A thousand connections per port are opened and closed at once."""
    for _ in range(1000):
        for address in doors(server):
            socket.create_connection(address, 5).close()


def test_connections_that_are_reset(server):
    """RST at any time."""
    chance = random.Random(1)
    for i in range(500):
        connection = wire.Connection(doors(server)[i % len(doors(server))])
        connection.send(chance.choice([b"P", b"PING\r\n" * 50, encode("GET", "k") * 20, b"get k\r\n" * 20, b"set k 0 0 100\r\nabc", b"*2\r\n$3\r\n"]))
        connection.reset()


def test_half_closed_at_once(server):
    """The server releases a client that closes its sending side without a request."""
    for address in doors(server):
        with wire.Connection(address) as connection:
            connection.half_close()
            assert connection.rest() == b""


def test_urgent_data(server):
    """Out-of-band bytes have no effect."""
    with wire.Resp(server.resp) as connection:
        connection.send(b"PI")
        connection.socket.send(b"!", socket.MSG_OOB)
        connection.half_close()
        assert connection.is_closed()


def test_a_drip_on_hundreds_of_connections(server):
    """One byte at a time on 300 connections: others are served (the witness), and every request is answered."""
    request = encode("ECHO", "drip")
    connections = [wire.Resp(server.resp) for _ in range(300)]
    try:
        for byte in request:
            for connection in connections:
                connection.send(bytes([byte]))
        for connection in connections:
            connection.hear(b"$4\r\ndrip\r\n")
    finally:
        for connection in connections:
            connection.close()


def test_a_flood_of_pipelines(server):
    """Thirty clients with endless cheap requests."""
    play(server.resp, [[encode("PING") * 20_000]] * 30)


def test_a_flood_of_errors(server):
    """An error costs no more than another reply."""
    play(server.resp, [[b"NONESUCH\r\n" * 10_000]] * 10)
    play(server.memcached, [[b"nonesuch\r\n" * 10_000]] * 10)


def test_large_values_with_small_requests(server):
    """Several clients send values of many megabytes in small pieces."""
    value = b"x" * 3_000_000
    request = encode("SET", "large", value)
    pieces = [request[at : at + 65_536] for at in range(0, len(request), 65_536)]
    answers = play(server.resp, [list(pieces) for _ in range(10)], pause_s=0.0001)
    assert answers == [b"+OK\r\n"] * 10


@pytest.fixture
def stranger(guarded):
    """The two addresses of a server with a password."""
    return guarded


def test_strangers_are_limited_in_resp(stranger):
    """Before authentication, arguments are few and short, whatever lengths a client announces."""
    for request in (b"*1000\r\n", b"*11\r\n" + b"$1\r\na\r\n" * 11, b"*2\r\n$4\r\nAUTH\r\n$1000000\r\n" + b"x" * 100_000):
        (answer,) = play(stranger.resp, [[request]])
        assert answer.startswith(b"-ERR Protocol error: unauthenticated"), request[:20]


def test_strangers_cannot_store(stranger):
    """Nothing that unauthenticated clients send is stored."""
    play(stranger.resp, [[encode("SET", "hacked", 1)], [b"SET hacked 1\r\n"], [encode("MULTI") + encode("SET", "hacked", 1) + encode("EXEC")]])
    play(stranger.memcached, [[b"set hacked 0 0 3\r\nyes\r\n"], [b"add hacked 0 0 3\r\nyes\r\n"], [b"ms hacked 3\r\nyes\r\n"]])
    with wire.Resp(stranger.resp) as owner:
        assert owner.call("AUTH", PASSWORD) == wire.OK
        assert owner.call("EXISTS", "hacked") == 0


def test_strangers_noise(stranger):
    """Random bytes before authentication."""
    chance = random.Random(3)
    noise = [[chance.randbytes(chance.randrange(1, 300))] for _ in range(200)]
    play(stranger.resp, noise)
    play(stranger.memcached, [list(pieces) for pieces in noise])
    with wire.Resp(stranger.resp) as owner:
        assert owner.call("AUTH", PASSWORD) == wire.OK
        assert owner.call("PING") == Status("PONG")


def test_guessing_passwords_does_not_disturb(stranger):
    """Many wrong passwords are answered one by one; the correct one is still accepted."""
    play(stranger.resp, [[b"".join(encode("AUTH", "guess%d" % i) for i in range(500))]] * 4)
    with wire.Resp(stranger.resp) as owner:
        assert owner.call("AUTH", PASSWORD) == wire.OK
