"""Hours of mixed load with snapshots: every write is there, and neither memory nor the data directory grows."""

from __future__ import annotations

import random
import time

import pytest

import served

PERIOD_S = 10
# Part of the run in which caches, buffers and files reach their size.
WARM_UP = 0.25
GROWTH_MAX = 1.2
GROWTH_BYTES_MAX = 48 << 20


def directory_bytes(path) -> int:
    """The size of all files below a directory; a file may disappear meanwhile."""
    total = 0
    for each in path.rglob("*"):
        try:
            total += each.stat().st_blocks * 512
        except FileNotFoundError:
            continue
    return total


@pytest.mark.soak
@pytest.mark.timeout(0)
def test_memory_and_disk_stay_flat(request, store_class, seed, directory):
    minutes = request.config.getoption("--minutes")
    print(f"soak: seed {seed}, {minutes} minutes")
    store = store_class(directory / "data")
    writers = [kind(random.Random(f"{seed} {kind.__name__}"), 0) for kind in store.writers]
    samples, acknowledged = [], 0
    try:
        store.start()
        store.wait_until_serving()
        end = time.monotonic() + minutes * 60
        while time.monotonic() < end:
            for writer in writers:
                writer.start(store)
            time.sleep(min(PERIOD_S, max(1.0, end - time.monotonic())))
            for writer in writers:
                writer.stop()
            for writer in writers:
                writer.join()
                assert not writer.last_word, f"{writer.name}: {writer.last_word}"
            found = store.read([place for writer in writers for place in writer.places()])
            for writer in writers:
                places = set(writer.places())
                acknowledged += writer.ledger.acknowledged
                writer.ledger.settle({place: value for place, value in found.items() if place in places})
            samples.append((served.resident_bytes(store.process.popen.pid), directory_bytes(store.directory)))
            print(f"soak: {acknowledged} writes, resident {samples[-1][0] >> 20} MiB, on disk {samples[-1][1] >> 20} MiB", flush=True)
        store.kill()
        store.start()
        store.wait_until_serving()
        found = store.read([place for writer in writers for place in writer.places()])
        for writer in writers:
            places = set(writer.places())
            writer.ledger.settle({place: value for place, value in found.items() if place in places})
    finally:
        store.clean_up()
    for name, values in zip(("resident memory", "the data directory"), zip(*samples)):
        settled = values[int(len(values) * WARM_UP) :]
        half = len(settled) // 2
        if half:
            early, late = max(settled[:half]), max(settled[half:])
            assert late <= early * GROWTH_MAX + GROWTH_BYTES_MAX, f"{name} grows: at most {early} bytes, later {late}"
