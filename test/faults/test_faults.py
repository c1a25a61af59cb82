"""Three nodes and guests of them under load, while they are killed, frozen, cut off, slowed, filled up, restarted and replaced.

No write that was acknowledged is lost or done twice, no read that promises the present shows the past, all members have the
same records at the end, and the guests serve them.
"""

from __future__ import annotations

import itertools
import time

import pytest

import names_audit
import plan as plans
import run as runs
import sabotage

# A node without a protection must be caught within this number of runs.
RUNS_MAX = 40
STEPS = 6
# The short plan of names and groups begins no fault after this time.
NAMES_KINDS = ("kill_for_long", "freeze_for_long", "isolate_for_long", "transfer", "kill", "step_clocks", "freeze_seat", "isolate_guest")
NAMES_S = 25


def until(steps, seconds):
    """The steps that begin before this time is over."""
    deadline = time.monotonic() + seconds
    return itertools.takewhile(lambda _: time.monotonic() < deadline, steps)


def test_a_short_plan(request, seed, directory):
    option = request.config.getoption
    steps = plans.plan(seed, option("--steps"))
    ended = runs.carry_out(directory, seed, until(steps, option("--seconds")), on_step=lambda fault: print(fault, flush=True), guests=1)
    print(ended.verdict)
    assert ended.faults and ended.verdict["operations"] > 0


def test_names_and_groups_in_short(seed, directory):
    steps = plans.plan(seed, len(NAMES_KINDS), NAMES_KINDS)
    ended = runs.carry_out(
        directory, seed, until(steps, NAMES_S), on_step=lambda fault: print(fault, flush=True), crews=("names",), guests=1
    )  # fmt: skip
    print(ended.verdict)
    assert ended.faults and ended.verdict["names"]["registrations"] > 0


@pytest.mark.parametrize("protection", sabotage.CHANGES)
def test_a_protection_can_be_taken_out(protection):
    """The sources are as the next test knows them."""
    sabotage.without(protection)


@pytest.mark.faults
@pytest.mark.parametrize("protection", sabotage.CHANGES)
def test_a_node_without_a_protection_is_caught(protection, seed, directory):
    environment, change = sabotage.without(protection), sabotage.CHANGES[protection]
    for number in range(RUNS_MAX):
        place = directory / str(number)
        place.mkdir()
        own = f"{seed} {number}"
        run = runs.Run(place, own, environment=environment, crews=change.crews)
        try:
            run.start()
            if change.needs_levels and not run.has_levels():
                pytest.skip("this Todana has no reads that need it")
            for step, faults in enumerate(plans.plan(own, STEPS, change.kinds)):
                run.fault(faults, step)
            try:
                complaints = run.finish()["complaints"]
            except names_audit.Wrong as wrong:
                complaints = {"the audit": [str(wrong)]}
            if complaints:
                print(f"{protection}: caught in run {number}, {len(complaints)} parts, for example {next(iter(complaints.items()))}")
                return
        finally:
            run.close()
    raise AssertionError(f"without {protection}, nothing was noticed in {RUNS_MAX} runs")
