"""The system's clock may step back or forward by days: no write is lost, repeated, or expires early.

libfaketime makes the steps, for the process under test only.
"""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

import kyoto_wire
import wire

LIBRARIES = ("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1", "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1")
HOUR_S, DAY_S = 3_600, 86_400
# Offsets from the real time, one after the other; a restart with SIGKILL comes between the lines.
LIVES = ((0, -HOUR_S, HOUR_S), (-2 * DAY_S, 0), (5 * DAY_S, 5 * DAY_S - HOUR_S), (0,))
LONG_TTL_S = 30 * DAY_S
LOAD_S = 0.5
pytestmark = pytest.mark.faults


class Clock:
    """The clock of the store."""

    def __init__(self, directory):
        self.library = next((path for path in LIBRARIES if Path(path).exists()), None)
        if self.library is None:
            pytest.skip("libfaketime is not installed")
        self.file = directory / "clock"

    def set(self, offset_s):
        """Sets the clock relative to the real time."""
        self.file.write_text(f"{offset_s:+d}s\n")

    @property
    def environment(self):
        """The environment of the store."""
        return {
            "LD_PRELOAD": self.library, "FAKETIME_TIMESTAMP_FILE": str(self.file), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }  # fmt: skip


def test_steps_of_the_clock_lose_nothing(store_class, seed, figures, fast_directory, monkeypatch):
    # The dates of HTTP are the store's.
    monkeypatch.setattr(kyoto_wire, "SLACK_S", float("inf"))
    if store_class.kind != "todana":
        pytest.skip("neither jemalloc nor Python's sleep works with libfaketime")
    clock = Clock(fast_directory)
    store = store_class(fast_directory / "data")
    writers = [kind(random.Random(f"{seed} {kind.__name__}"), 0) for kind in store.writers]
    is_first = True
    try:
        for offsets in LIVES:
            clock.set(offsets[0])
            store.start(clock.environment)
            store.wait_until_serving()
            for offset in offsets:
                clock.set(offset)
                figures.add("steps of the clock")
                assert abs(now_of(store) - time.time() - offset) < HOUR_S / 2, "the store does not see the step"
                with wire.Resp(store.address("resp")) as connection:
                    if is_first:
                        assert connection.call("SET", "long", "alive", "EX", LONG_TTL_S) == wire.OK
                        is_first = False
                    assert connection.call("GET", "long") == b"alive", f"expired early at an offset of {offset} s"
                figures.settle(store, writers)
                load(store, writers)
            for writer in writers:
                writer.start(store)
            store.kill()
            for writer in writers:
                writer.join()
        clock.set(0)
        store.start(clock.environment)
        store.wait_until_serving()
        figures.settle(store, writers)
        figures.assert_all_wrote(writers)
    finally:
        store.clean_up()


def load(store, writers):
    """Lets all clients write for a while."""
    for writer in writers:
        writer.start(store)
    time.sleep(LOAD_S)
    for writer in writers:
        writer.stop()
    for writer in writers:
        writer.join()


def now_of(store) -> int:
    """The clock of the store, in seconds."""
    with wire.Resp(store.address("resp")) as connection:
        return int(connection.call("TIME")[0])
