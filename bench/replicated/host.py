"""The host of a measurement: where its files are, and how busy it is."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from pathlib import Path

from machine import ROOT


@contextlib.contextmanager
def on_disk():
    """A temporary directory on the disk of the checkout: others may be in memory."""
    parent = ROOT / "_build"
    parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-replicated-", dir=parent) as place:
        yield Path(place)


def busy_cores(seconds=0.5) -> float:
    """How many cores of this host work, on average, while the measurement itself rests."""
    before, started = _busy_s(), time.monotonic()
    time.sleep(seconds)
    return round((_busy_s() - before) / (time.monotonic() - started), 2)


def _busy_s() -> float:
    """Seconds that all cores have worked so far, also for other guests of the machine."""
    user, nice, system, _idle, _waiting, *more = map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9])
    return (user + nice + system + sum(more)) / os.sysconf("SC_CLK_TCK")
