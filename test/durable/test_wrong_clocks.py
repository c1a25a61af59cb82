"""A clock that is wrong, or steps, changes no time to live: records expire by the time of the log, not by a clock.

libfaketime makes the clocks wrong, for the processes under test only. No verdict depends on how fast these are.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time

import pytest

import stores
import three_nodes
import wire
from test_clock_steps import Clock

HOUR_S, YEAR_S = 3_600, 365 * 86_400
# Longer than a test, shorter than a wrong clock is wrong.
TTL_MS = 600_000
SKEW_S = 20
SKEWED_TTL_MS = 15_000


def ask(directory, command):
    """The answer of a running node to its operator."""
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(wire.TIMEOUT_S)
        control.connect(str(directory / "control"))
        control.sendall(json.dumps({"command": command}).encode() + b"\n")
        return json.loads(control.makefile("rb").readline())["ok"]


@pytest.fixture
def clock(fast_directory):
    """The clock of the node."""
    return Clock(fast_directory)


@pytest.fixture
def node(fast_directory, clock, store_class):
    """A durable node that does not run yet."""
    if store_class.kind != "todana":
        pytest.skip("the other stores have no time of a log")
    store = store_class(fast_directory / "data")
    yield store
    store.clean_up()


def started(store, clock, offset_s):
    """Starts the node with a clock that is wrong by this time, and returns a connection."""
    clock.set(offset_s)
    store.start(clock.environment)
    store.wait_until_serving()
    return contextlib.closing(wire.Resp(store.address("resp")))


def expires(connection, key) -> bool:
    """Whether a record with half a second to live expires soon."""
    assert connection.call("SET", key, 1, "PX", 500, "NX") == wire.OK
    assert wire.wait_until(lambda: connection.call("GET", key) is None)
    return connection.call("SET", key, 2, "NX") == wire.OK


@pytest.mark.parametrize("ahead_s", [HOUR_S, 10 * YEAR_S], ids=["hour", "ten-years"])
def test_a_node_ran_once_with_a_clock_ahead(node, clock, ahead_s):
    with started(node, clock, ahead_s) as connection:
        assert connection.call("SET", "long", 1, "PX", TTL_MS) == wire.OK
    node.kill()
    with started(node, clock, 0) as connection:
        assert 0 < connection.call("PTTL", "long") <= TTL_MS
        assert expires(connection, "lock")
        differs_s = ask(node.directory, "clock")["clock_differs_ms"] / 1_000
        assert ahead_s / 2 < differs_s < ahead_s + HOUR_S / 2
        assert wire.wait_until(lambda: "behind the time of the log" in node.log())

        assert -ask(node.directory, "clock_set")["by_ms"] > ahead_s * 500
        assert abs(ask(node.directory, "clock")["clock_differs_ms"]) < 60_000
        assert connection.call("SET", "at", 1, "EXAT", int(time.time()) + 600) == wire.OK
        assert 0 < connection.call("TTL", "at") <= 601
        assert connection.call("PTTL", "long") > TTL_MS
        assert expires(connection, "lock again")
        assert wire.wait_until(lambda: "agrees with the time of the log again" in node.log())
    node.kill()
    with started(node, clock, 0) as connection:
        assert abs(ask(node.directory, "clock")["clock_differs_ms"]) < 60_000
        assert connection.call("GET", "at") == b"1"


@pytest.mark.parametrize("step_s", [HOUR_S, -HOUR_S, 10 * YEAR_S], ids=["hour", "hour-back", "ten-years"])
def test_a_running_node_has_its_clock_set(node, clock, step_s):
    with started(node, clock, 0) as connection:
        assert connection.call("SET", "before", 1, "PX", TTL_MS) == wire.OK
        clock.set(step_s)
        assert connection.call("SET", "after", 1, "PX", TTL_MS) == wire.OK
        for _ in range(2):
            for key in ("before", "after"):
                assert connection.call("GET", key) == b"1"
                assert 0 < connection.call("PTTL", key) <= TTL_MS
            assert expires(connection, "lock")
            assert connection.call("DEL", "lock") == 1
            clock.set(0)


def test_a_small_error_is_corrected_slowly(node, clock):
    with started(node, clock, 3) as connection:
        assert connection.call("SET", "k", 1) == wire.OK
    node.kill()
    with started(node, clock, 0) as connection:
        assert connection.call("SET", "k", 1, "PX", TTL_MS) == wire.OK
        left_ms = TTL_MS
        # Nearly right, so that the step of the clock below is more than half of a second whenever it is noticed.
        while ask(node.directory, "clock")["clock_differs_ms"] > 100:
            assert (now_ms := connection.call("PTTL", "k")) <= left_ms, "the time went back"
            left_ms = now_ms
        clock.set(1)
        assert wire.wait_until(lambda: ask(node.directory, "clock")["clock_differs_ms"] < -700)
        assert wire.wait_until(lambda: ask(node.directory, "clock")["clock_differs_ms"] > -600)


@pytest.fixture
def skewed(tmp_path, store_class):
    """Three nodes, the clock of the last of which is ahead."""
    if store_class.kind != "todana":
        pytest.skip("the other stores have no cluster")
    clock = Clock(tmp_path)
    clock.set(SKEW_S)
    cluster = three_nodes.Cluster("--write-timeout-ms", 60_000)
    node = cluster.nodes[-1]
    node.environment = node.environment | clock.environment
    with cluster:
        yield cluster
        pid = node.process.popen.pid
    for name in stores.FAKETIME_FILES:
        (stores.SHARED / name.format(pid)).unlink(missing_ok=True)


def test_the_clock_of_one_of_three_nodes_is_ahead(skewed):
    """Under each leader, each node reads what it has written, and no time to live is longer."""
    wrong = skewed.nodes[-1]
    assert "ahead of" in "".join(line for line in advice(skewed) if wrong.name in line)
    for leader in (skewed.nodes[0], wrong):
        skewed.transfer(leader)
        for node in skewed.nodes:
            with contextlib.closing(wire.Resp(node.address())) as connection:
                assert connection.call("TODANA.READ", "linear") == wire.OK
                assert connection.call("SET", "k", 1, "PX", SKEWED_TTL_MS) == wire.OK
                assert connection.call("GET", "k") == b"1"
                assert 0 < connection.call("PTTL", "k") <= SKEWED_TTL_MS
        for node in skewed.nodes:
            with contextlib.closing(wire.Resp(node.address())) as connection:
                assert expires(connection, f"lock at {node.name} led by {leader.name}")
        differences = [ask(node.directory, "clock")["clock_differs_ms"] / 1_000 for node in skewed.nodes]
        assert [round(it / SKEW_S) for it in differences] == [0, 0, -1]


def advice(cluster) -> list:
    """What each member says of its clock."""
    members = cluster.status()["members"]
    return [f"{it['node']} is {'ahead of' if it['clock_differs_ms'] < -5_000 else 'with'} the log" for it in members]
