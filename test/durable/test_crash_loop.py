"""kill -9 at random moments under the load of all protocols loses nothing and repeats nothing."""

from __future__ import annotations

import time

import pytest

import crash_loop
import stores

# The loop ends after this time, with the rounds that it has done. A round takes 1 to 3 seconds.
SECONDS_MAX = 300
SECONDS_OF_A_ROUND_MAX = 10


@pytest.mark.parametrize("mode", stores.MODES)
def test_kill_9_under_load_loses_no_acknowledged_write_and_repeats_none(request, mode, store_class, seed, figures, directory):
    """Without fdatasync before the reply, too: what the operating system has been given survives the process."""
    rounds = request.config.getoption("--rounds")
    loop = crash_loop.CrashLoop(stores.with_mode(store_class, mode)(directory / "data"), seed, f"crash-loop-{mode}", counted=figures)
    loop.run(rounds, time.monotonic() + max(SECONDS_MAX, rounds * SECONDS_OF_A_ROUND_MAX))
    assert loop.rounds > 0


FOUND = {"buffered": "no prefix of", "twice": "no prefix of", "torn": "no prefix of", "empty": "while the store started|was answered"}


@pytest.mark.parametrize("fault", FOUND)
def test_the_loop_finds_a_planted_fault(fault, seed, directory):
    loop = crash_loop.CrashLoop(stores.Toy(directory / "data", [f"--{fault}"]), seed, f"planted-{fault}", is_planted=True)
    with pytest.raises(AssertionError, match=FOUND[fault]):
        loop.run(40)


def test_the_loop_accepts_a_store_without_faults(seed, figures, directory):
    crash_loop.CrashLoop(stores.Toy(directory / "data"), seed, "toy", counted=figures).run(3)
