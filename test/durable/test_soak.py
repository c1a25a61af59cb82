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
def test_memory_and_disk_stay_flat(request, store_class, seed, figures, directory):
    figures["minutes"] = minutes = request.config.getoption("--minutes")
    store = store_class(directory / "data")
    writers = [kind(random.Random(f"{seed} {kind.__name__}"), 0) for kind in store.writers]
    samples = []
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
            figures.settle(store, writers)
            samples.append((served.resident_bytes(store.process.popen.pid), directory_bytes(store.directory)))
            print(f"soak: {figures['acknowledged']} writes, resident {samples[-1][0] >> 20} MiB, on disk {samples[-1][1] >> 20} MiB", flush=True)
        store.kill()
        store.start()
        store.wait_until_serving()
        figures.settle(store, writers)
        figures.assert_all_wrote(writers)
    finally:
        store.clean_up()
    for number, name in enumerate(("resident memory", "data directory")):
        values = [sample[number] for sample in samples]
        figures[f"{name} in MiB, at each tenth of the run"] = [values[len(values) * tenth // 10] >> 20 for tenth in range(10)]
        assert (growth := growth_of(values)) is None, f"{name} grows: {growth}"


def growth_of(values):
    """How a series of sizes grows after the warm-up, in words; None if it is flat."""
    settled = values[int(len(values) * WARM_UP) :]
    half = len(settled) // 2
    if not half:
        return None
    early, late = max(settled[:half]), max(settled[half:])
    return f"at most {early} bytes, later {late}" if late > early * GROWTH_MAX + GROWTH_BYTES_MAX else None


def test_growth_is_found():
    def sizes(grows):
        return [(300 << 20) + (step % 7 << 20) + int(step * grows) for step in range(360)]

    assert growth_of(sizes(0)) is None
    # A leak of 1.5 MiB in each period of 10 seconds, as of 200 bytes for each of 8,000 requests.
    assert growth_of(sizes(1.5 * 2**20))
