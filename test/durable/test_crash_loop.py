"""kill -9 at random moments under the load of all protocols loses nothing and repeats nothing."""

from __future__ import annotations

import time

import pytest

import crash_loop
import stores

# The loop ends after this time, with the rounds that it has done.
SECONDS_MAX = 1_500


def test_kill_9_under_load_loses_no_acknowledged_write_and_repeats_none(request, store_class, seed, directory):
    loop = crash_loop.CrashLoop(store_class(directory / "data"), seed)
    loop.run(request.config.getoption("--rounds"), time.monotonic() + SECONDS_MAX)
    assert loop.rounds > 0


FOUND = {"buffered": "no prefix of", "twice": "no prefix of", "torn": "no prefix of", "empty": "while the store started|was answered"}


@pytest.mark.parametrize("fault", FOUND)
def test_the_loop_finds_a_planted_fault(fault, seed, directory):
    loop = crash_loop.CrashLoop(stores.Toy(directory / "data", [f"--{fault}"]), seed, f"planted-{fault}", is_planted=True)
    with pytest.raises(AssertionError, match=FOUND[fault]):
        loop.run(40)


def test_the_loop_accepts_a_store_without_faults(seed, directory):
    crash_loop.CrashLoop(stores.Toy(directory / "data"), seed, "toy").run(3)
