"""The fixtures around every hostile test.

While a test sends hostile bytes, a witness uses the server with all protocols and checks each answer. After the test,
the server must be alive, the witness must have had no error, the number of file descriptors must be as before, and
memory may have grown only within a bound. The fixtures of the client suites start the server.
"""

from __future__ import annotations

import contextlib
import threading
import time

import pytest

import wire
from fixtures import *  # noqa: F401,F403
from kyoto_wire import Kyoto, ok

GROWTH_BYTES_MAX = 64 << 20
WAIT_S_MAX = 60.0


class Witness:
    """A well-behaved client on all ports, in its own thread."""

    def __init__(self, server):
        self.server = server
        self.rounds = 0
        self.failure = None
        self.pause = threading.Lock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            kyoto = Kyoto(self.server.kyoto) if self.server.kyoto else contextlib.nullcontext()
            with wire.Resp(self.server.resp) as resp, wire.Memcached(self.server.memcached) as memcached, kyoto:
                while not self._stop.is_set():
                    with self.pause:
                        self._talk(resp, memcached, self.rounds)
                        if self.server.kyoto:
                            self._talk_kyoto(kyoto, self.rounds)
                    self.rounds += 1
                    time.sleep(0.002)
        except BaseException as failure:  # kept for the test to report
            self.failure = failure

    @staticmethod
    def _talk(resp, memcached, number):
        value = b"value of round %d" % number
        assert resp.call("SET", "witness:resp", value) == wire.OK
        assert memcached.command("set witness:memcached 7 0 %d" % len(value), value) == b"STORED"
        assert resp.call("GET", "witness:resp") == value
        memcached.talk(b"get witness:memcached\r\n", b"VALUE witness:memcached 7 %d\r\n%s\r\nEND\r\n" % (len(value), value))

    @staticmethod
    def _talk_kyoto(kyoto, number):
        value = b"value of round %d" % number
        assert kyoto.call("set", key="witness:kyoto", value=value) == ok()
        assert kyoto.ask("GET", "/witness:kyoto").body == value
        assert kyoto.get_bulk((0, b"witness:kyoto"))[0][2] == value

    def check(self):
        """Fails if the witness has received a wrong reply, or none, since the last check."""
        before = self.rounds
        served = wire.wait_until(lambda: self.failure or self.rounds >= before + 2, timeout_s=WAIT_S_MAX)
        if self.failure:
            raise AssertionError("the witness was disturbed: %r" % self.failure)
        assert served, "the witness is not answered"

    def stop(self):
        """Stops the thread."""
        self._stop.set()
        self._thread.join(wire.TIMEOUT_S)


@pytest.fixture(scope="session")
def witness(server):
    """The well-behaved client that runs during each test."""
    running = Witness(server)
    assert wire.wait_until(lambda: running.rounds > 0 or running.failure)
    yield running
    running.stop()


@pytest.fixture
def growth_bytes_max():
    """The permitted growth of resident memory during a test; tests that store much override it."""
    return GROWTH_BYTES_MAX


def _empty(server, witness):
    """Removes the records of the test, between two rounds of the witness."""
    with witness.pause, wire.Resp(server.resp) as resp, wire.Memcached(server.memcached) as memcached:
        assert resp.call("FLUSHALL") == wire.OK
        assert memcached.command("flush_all") == b"OK"


@pytest.fixture(autouse=True)
def undisturbed(request, server, witness, growth_bytes_max):
    """The four guarantees, checked after every test."""
    if server.kind == "external":
        yield
        witness.check()
        return
    descriptors, resident = server.descriptors(), server.resident_bytes()
    yield
    assert server.is_alive(), server.output()
    witness.check()
    assert wire.wait_until(lambda: server.descriptors() <= descriptors), "descriptors: %d, before: %d" % (
        server.descriptors(), descriptors,
    )
    _empty(server, witness)
    grown = server.resident_bytes() - resident
    assert grown <= growth_bytes_max, "resident memory has grown by %d bytes" % grown
