"""Thousands of idle connections together with an active one."""

import resource

import pytest

import wire
from wire import OK, Status, wait_until

IDLE = 10_000
BYTES_PER_CONNECTION_MAX = 40 * 1024


def allow_descriptors(count):
    """Raises the limit of this process; skips the test if the host does not allow it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, max(hard, count)))
    except (ValueError, OSError):
        pytest.skip(f"at most {hard} file descriptors are allowed here, {count} are needed")


def open_many(address, kind, count):
    """Opens connections and sends a word on each, so that the server has accepted all of them."""
    connections = [kind(address) for _ in range(count)]
    for connection in connections:
        connection.send(b"PING\r\n" if kind is wire.Resp else b"mn\r\n")
    for connection in connections:
        connection.hear(b"+PONG\r\n" if kind is wire.Resp else b"MN\r\n")
    return connections


def close_all(connections):
    """Closes the connections."""
    for connection in connections:
        connection.close()


@pytest.mark.parametrize("count", [500])
def test_idle_connections_on_every_back_end(server, resp, count):
    """With some hundred idle clients, others are served, memory is bounded, and descriptors are freed."""
    # After its reply, this connection is one of the descriptors.
    assert resp.call("PING") == Status("PONG")
    descriptors, resident = server.descriptors(), server.resident_bytes()
    idle = open_many(server.resp, wire.Resp, count)
    try:
        for i in range(1000):
            assert resp.call("SET", f"k{i}", "v") == OK
        assert server.resident_bytes() - resident < count * BYTES_PER_CONNECTION_MAX + (20 << 20)
        for connection in idle[:: count // 10]:
            assert connection.call("GET", "k1") == b"v"
    finally:
        close_all(idle)
    assert wait_until(lambda: server.descriptors() <= descriptors)


@pytest.mark.one_backend
@pytest.mark.todana_only
def test_ten_thousand_idle_connections_and_load(start_server):
    """10,000 idle clients of both protocols under load: memory is bounded, and each gets a reply at the end."""
    allow_descriptors(IDLE + 1000)
    server = start_server()
    resident = server.resident_bytes()
    with wire.Resp(server.resp) as busy:
        idle = open_many(server.resp, wire.Resp, IDLE // 2) + open_many(server.memcached, wire.Memcached, IDLE // 2 - 10)
        try:
            busy.send(b"".join(wire.encode("SET", f"k{i}", "v" * 100) for i in range(50_000)))
            busy.hear(b"+OK\r\n" * 50_000)
            assert server.resident_bytes() - resident < IDLE * BYTES_PER_CONNECTION_MAX + (50 << 20)
            for connection in idle[: IDLE // 2 : 97]:
                assert connection.call("STRLEN", "k1") == 100
            assert int(_field(busy, "clients", "connected_clients")) >= IDLE - 10
        finally:
            close_all(idle)
        assert wait_until(lambda: int(_field(busy, "clients", "connected_clients")) <= 2)
        assert busy.call("PING") == Status("PONG")


def _field(connection, section, name):
    for line in connection.call("INFO", section).decode().splitlines():
        if line.startswith(name + ":"):
            return line.partition(":")[2]
    raise KeyError(name)


def test_connections_come_and_go(server, resp):
    """A thousand short connections leak nothing."""
    assert resp.call("PING") == Status("PONG")
    descriptors = server.descriptors()
    for i in range(1000):
        with wire.Resp(server.resp) as short:
            assert short.call("INCR", "visits") == i + 1
    assert wait_until(lambda: server.descriptors() <= descriptors)
    assert resp.call("GET", "visits") == b"1000"
