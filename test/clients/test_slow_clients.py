"""Clients that read slowly, send slowly, stop in the middle or vanish: none of them slows down another client."""

import subprocess
import sys
import time

import pytest

import wire
from wire import OK, Status, encode, wait_until

VALUE = b"x" * 100_000


def stream(connection, request, times):
    """Sends a request many times without reading, until the server stops reading or closes. Returns the bytes sent."""
    connection.socket.settimeout(0.5)
    sent = 0
    try:
        for _ in range(times):
            connection.send(request)
            sent += len(request)
    except (TimeoutError, OSError):
        pass
    finally:
        connection.socket.settimeout(wire.TIMEOUT_S)
    return sent


def _descriptors(server, resp):
    """The server's open descriptors after it has accepted this connection."""
    assert resp.call("PING") == Status("PONG")
    return server.descriptors()


def test_a_client_that_reads_nothing_does_not_grow_the_server(server, connect, resp):
    """The server does not keep gigabytes of unread replies: it stops reading requests, or closes the connection."""
    resp.call("SET", "k", VALUE)
    before = server.resident_bytes()
    lazy = [connect.resp(receive_buffer_bytes=4096) for _ in range(3)]
    for connection in lazy:
        stream(connection, encode("GET", "k") * 100, 200)
    grown = server.resident_bytes() - before
    limit = 1200 << 20 if server.kind == "oracle" else 3 * (256 << 20) + (100 << 20)
    assert grown < limit
    assert resp.call("PING") == Status("PONG")


@pytest.mark.todana_only
def test_a_client_that_reads_nothing_costs_little(server, connect, resp):
    """A turn is bounded: for small replies, the server holds far less than the hard limit."""
    resp.call("SET", "k", VALUE)
    before = server.resident_bytes()
    lazy = connect.resp(receive_buffer_bytes=4096)
    stream(lazy, encode("GET", "k") * 10, 1000)
    assert server.resident_bytes() - before < 100 << 20
    assert resp.call("GET", "k") == VALUE


def test_a_memcached_client_that_reads_nothing(server, connect, memcached):
    """The same with memcached's protocol."""
    memcached.command("set k 0 0 %d" % len(VALUE), VALUE)
    before = server.resident_bytes()
    lazy = [connect.memcached(receive_buffer_bytes=4096) for _ in range(3)]
    for connection in lazy:
        stream(connection, b"get k\r\n" * 100, 200)
    assert server.resident_bytes() - before < 3 * (256 << 20) + (100 << 20)
    assert memcached.command("mn") == b"MN"


def test_a_lazy_client_that_wakes_up_gets_everything(connect, resp):
    """Replies wait in order for a client that reads late."""
    resp.call("SET", "k", VALUE)
    lazy = connect.resp(receive_buffer_bytes=65536)
    lazy.send(encode("GET", "k") * 100)
    time.sleep(0.2)
    for _ in range(100):
        assert lazy.reply() == VALUE


def test_slow_senders_do_not_block_others(connect, resp):
    """Many connections have sent half a request; all other clients are served."""
    request = encode("SET", "slow", "value")
    half = [connect.resp() for _ in range(50)]
    for i, connection in enumerate(half):
        connection.send(request[: 1 + i % (len(request) - 1)])
    for _ in range(100):
        assert resp.call("PING") == Status("PONG")
    for i, connection in enumerate(half):
        connection.send(request[1 + i % (len(request) - 1) :])
        assert connection.reply() == OK


def test_slow_memcached_senders_do_not_block_others(connect, memcached):
    """The same with memcached's protocol."""
    request = b"set slow 0 0 5\r\nvalue\r\n"
    half = [connect.memcached() for _ in range(50)]
    for i, connection in enumerate(half):
        connection.send(request[: 1 + i % (len(request) - 1)])
    assert memcached.command("mn") == b"MN"
    for i, connection in enumerate(half):
        connection.send(request[1 + i % (len(request) - 1) :])
        assert connection.line() == b"STORED"


def test_a_half_closed_half_request_ends(server, connect, resp):
    """The server closes a connection whose request can never be completed, and frees its descriptor."""
    before = _descriptors(server, resp)
    for _ in range(20):
        connection = connect.resp()
        connection.send(encode("SET", "k", "v")[:-4])
        connection.half_close()
        assert connection.is_closed()
    assert wait_until(lambda: server.descriptors() <= before)
    assert resp.call("EXISTS", "k") == 0


def test_abrupt_ends_leave_nothing(server, connect, resp):
    """Connections are reset in the middle of requests and replies."""
    resp.call("SET", "k", VALUE)
    before = _descriptors(server, resp)
    for i in range(100):
        connection = connect.resp()
        connection.send(encode("GET", "k") * (i % 7) + encode("SET", "other", VALUE)[: 1 + i * 997 % 90_000])
        connection.reset()
    assert wait_until(lambda: server.descriptors() <= before)
    assert resp.call("GET", "k") == VALUE


def test_a_pipeline_of_many_requests_shares_the_loop(connect, resp):
    """The work per connection and turn is bounded: deep pipelines and another client are all served."""
    greedy = [connect.resp() for _ in range(4)]
    for connection in greedy:
        connection.send(encode("SET", "g", "v") * 20_000)
    assert resp.call("PING") == Status("PONG")
    for connection in greedy:
        connection.hear(b"+OK\r\n" * 20_000)


CLIENT = """
import socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
connection.sendall(b"*3\\r\\n$3\\r\\nSET\\r\\n$6\\r\\nvictim\\r\\n$1000000\\r\\n" + b"x" * 500000)
print("sent", flush=True)
sys.stdin.read()
"""


def test_clients_killed_in_mid_request(server, resp):
    """Clients are killed while they send: their requests are not executed, and their descriptors are freed."""
    before = _descriptors(server, resp)
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", CLIENT, server.resp[0], str(server.resp[1])], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(8)
    ]
    for client in clients:
        assert client.stdout.readline() == b"sent\n"
    for client in clients:
        client.kill()
        client.communicate()
    assert wait_until(lambda: server.descriptors() <= before)
    assert resp.call("EXISTS", "victim") == 0
