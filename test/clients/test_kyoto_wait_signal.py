"""Section 2.4: waiting for named conditions, and signalling them."""

import time

import pytest

from kyoto_wire import NO_RECORD, TIMED_OUT, failed, http, ok, rpc
from wire import wait_until

pytestmark = pytest.mark.todana_only

# Longer than any of these tests takes.
WAIT_S = "600"


def begin_waiting(connection, request):
    """Sends a request that waits, and reads the answer to the request before it, which shows that the wait has begun."""
    connection.send(rpc("void") + request)
    assert connection.answer() == ok()


def waiting(connect, name="x", procedure="void", count=1, **rows):
    """Connections that wait for a signal."""
    connections = [connect.kyoto() for _ in range(count)]
    for connection in connections:
        begin_waiting(connection, rpc(procedure, {"WAIT": name, "WAITTIME": WAIT_S, **rows}))
    return connections


def signal_all(kyoto, name, count):
    """Sends signals until this number of clients waits, and wakes them all."""
    assert wait_until(lambda: kyoto.done("void", SIGNAL=name, SIGNALBROAD="")["SIGNALED"] == b"%d" % count)


def test_a_signal_without_a_waiting_client(kyoto):
    """The signal counts 0 clients and is not stored."""
    assert kyoto.call("void", SIGNAL="x") == ok(SIGNALED=0)
    assert kyoto.call("void", WAIT="x", WAITTIME="0.05") == TIMED_OUT


def test_a_signal_wakes_a_waiting_procedure(connect, kyoto):
    """The procedure runs only after the signal."""
    (waiter,) = waiting(connect, procedure="get", key="k")
    assert waiter.is_silent()
    kyoto.call("set", key="k", value="v", SIGNAL="x")
    assert waiter.answer() == ok(value="v")


def test_a_signal_after_a_procedure(connect, kyoto):
    """The answer has the number of clients that waited."""
    (waiter,) = waiting(connect)
    assert waiter.is_silent()
    assert kyoto.call("set", key="k", value="v", SIGNAL="x") == ok(SIGNALED=1)
    assert waiter.answer() == ok()


def test_a_signal_after_a_procedure_that_failed(connect, kyoto):
    """The server sends the signal all the same."""
    (waiter,) = waiting(connect)
    assert waiter.is_silent()
    answer = kyoto.call("get", key="none", SIGNAL="x")
    assert answer.status == 450 and answer.rows == {**NO_RECORD.rows, b"SIGNALED": b"1"}
    assert waiter.answer() == ok()


def test_a_signal_wakes_one(connect, kyoto):
    """The answer has the number of clients that were waiting."""
    waiters = waiting(connect, count=3)
    assert all(waiter.is_silent() for waiter in waiters)
    assert kyoto.call("void", SIGNAL="x") == ok(SIGNALED=3)
    assert wait_until(lambda: sum(not waiter.is_silent(0.01) for waiter in waiters) == 1)
    assert kyoto.call("void", SIGNAL="x") == ok(SIGNALED=2)
    assert kyoto.call("void", SIGNAL="x") == ok(SIGNALED=1)
    assert kyoto.call("void", SIGNAL="x") == ok(SIGNALED=0)
    assert [waiter.answer() for waiter in waiters] == [ok()] * 3


def test_a_broad_signal_wakes_all(connect, kyoto):
    """SIGNALBROAD may have any value."""
    waiters = waiting(connect, count=5)
    assert all(waiter.is_silent() for waiter in waiters)
    assert kyoto.call("void", SIGNAL="x", SIGNALBROAD="0") == ok(SIGNALED=5)
    assert [waiter.answer() for waiter in waiters] == [ok()] * 5


def test_a_deleted_cursor_signals_no_client(connect, kyoto):
    """As in ktserver, cur_delete runs before the server reads the other inputs."""
    (waiter,) = waiting(connect)
    assert waiter.is_silent()
    kyoto.call("void", CUR=1)
    assert kyoto.call("cur_delete", CUR=1, SIGNAL="x") == ok()
    assert waiter.is_silent()
    signal_all(kyoto, "x", 1)


def test_names_are_apart(connect, kyoto):
    """Names may be any bytes."""
    name = bytes(range(256))
    waiter = connect.kyoto()
    begin_waiting(waiter, rpc("void", {"WAIT": name, "WAITTIME": WAIT_S}))
    assert waiter.is_silent()
    assert kyoto.call("void", SIGNAL="x") == ok(SIGNALED=0)
    assert waiter.is_silent()
    assert kyoto.call("void", SIGNAL=name) == ok(SIGNALED=1)
    assert waiter.answer() == ok()


@pytest.mark.parametrize("seconds", ["0.05", " 0.05", "5e-2", "0.05s"])
def test_time_runs_out(kyoto, seconds):
    """After the timeout, the procedure does not run."""
    started = time.monotonic()
    assert kyoto.call("set", key="k", value="v", WAIT="x", WAITTIME=seconds) == TIMED_OUT
    # Not after the half minute of those that name no time.
    assert 0.04 < time.monotonic() - started < 29
    assert kyoto.value("k") is None


def test_a_signal_behind_a_wait_that_ran_out(connect, kyoto):
    """The signal is not sent, or reaches no client."""
    answer = kyoto.call("void", WAIT="x", WAITTIME="0.02", SIGNAL="y")
    assert answer.status == 503 and answer.rows[b"ERROR"] == b"the condition timed out"


@pytest.mark.parametrize("seconds", ["0", "-1", "x", "", "inf", "1e300", "nan", "99999999999999999999"])
def test_no_time_is_half_a_minute(connect, kyoto, seconds):
    """0 means the default, not no wait; very large times are limited."""
    waiter = connect.kyoto()
    begin_waiting(waiter, rpc("void", {"WAIT": "x", "WAITTIME": seconds}))
    assert waiter.is_silent(0.1)
    signal_all(kyoto, "x", 1)
    assert waiter.answer() == ok()


def test_pipelined_requests_wait_as_well(connect, kyoto):
    """Answers arrive in order."""
    (waiter,) = waiting(connect)
    waiter.send(rpc("echo", {"a": "1"}) + http("GET", "/none"))
    assert waiter.is_silent()
    signal_all(kyoto, "x", 1)
    assert waiter.answer() == ok()
    assert waiter.answer() == ok(a=1)
    assert waiter.response().status == 404


def test_others_go_on_meanwhile(connect, kyoto):
    """More clients wait than ktserver has threads."""
    waiters = waiting(connect, count=100)
    for i in range(200):
        assert kyoto.call("set", key="k", value=i) == ok()
    signal_all(kyoto, "x", 100)
    assert [waiter.answer() for waiter in waiters] == [ok()] * 100


def test_a_waiting_client_that_disconnects(server, connect, kyoto):
    """The server no longer counts the client."""
    for leave in ("close", "reset"):
        (waiter,) = waiting(connect)
        assert waiter.is_silent()
        getattr(waiter, leave)()
        assert wait_until(lambda: kyoto.call("void", SIGNAL="x") == ok(SIGNALED=0))


def test_wait_in_a_query(connect, kyoto):
    """The common inputs may be anywhere."""
    waiter = connect.kyoto()
    begin_waiting(waiter, http("GET", f"/rpc/echo?WAIT=x&WAITTIME={WAIT_S}&a=1"))
    assert waiter.is_silent()
    assert kyoto.call("void", SIGNAL="x") == ok(SIGNALED=1)
    assert waiter.answer() == ok(WAIT="x", WAITTIME=WAIT_S, a=1)


def test_wait_precedes_all_checks(kyoto):
    """The server reports an unknown database after the wait."""
    assert kyoto.call("get", WAIT="x", WAITTIME="0.02", DB="none", key="k") == TIMED_OUT
    assert kyoto.call("nonesuch", WAIT="x", WAITTIME="0.02") in (TIMED_OUT, failed(501, "not implemented: nonesuch"))


def test_two_clients_play_ping_pong(connect):
    """Two clients exchange a hundred signals."""
    ping, pong = connect.kyoto(), connect.kyoto()
    for i in range(100):
        pong.send(rpc("get", {"WAIT": "ping", "WAITTIME": WAIT_S, "key": "ball"}))
        assert wait_until(lambda: ping.done("set", key="ball", value=i, SIGNAL="ping")["SIGNALED"] == b"1", step_s=0.0005)
        assert pong.answer() == ok(value=i)
