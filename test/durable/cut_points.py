"""Records a store under load, cuts the power at many recorded steps, and starts the store on what the disk may hold then."""

from __future__ import annotations

import concurrent.futures
import os
import random
import re
import shutil
import subprocess
import threading
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import ledger
import power_cut
import served
import stores
import wire
from crash_loop import FAULTS

SHIM_SOURCE = Path(__file__).resolve().parent / "disk_shim.c"
SHIM = stores.BUILT / "disk_shim.so"
# Longer than a client takes to read an acknowledgement and to record it.
SYNC_DELAY_US = 4_000
WORKERS = 2
# Every tenth cut, the store is killed once more after its recovery and checked again.
SECOND_RECOVERY = 10
# A load lasts until each client has this many acknowledged writes, but not longer than this.
ACKNOWLEDGED_MIN = 5
LOAD_S_MAX = 60


def shim() -> Path:
    """The compiled shim."""
    if not SHIM.exists() or SHIM.stat().st_mtime < SHIM_SOURCE.stat().st_mtime:
        with stores.building() as directory:
            built = directory / SHIM.name
            command = ["cc", "-O2", "-Wall", "-Wextra", "-shared", "-fPIC", "-o", str(built), str(SHIM_SOURCE), "-ldl", "-lpthread"]
            subprocess.run(command, check=True)
            os.replace(built, SHIM)
    return SHIM


class Recording(NamedTuple):
    """What happened: the trace, the disk before it, and what each client wrote."""

    disk: power_cut.Disk
    events: list
    ledgers: list
    places: dict


class Recorder:
    """Runs a store under the shim, with writers whose acknowledgements go to the same trace."""

    def __init__(self, store, seed, directory, strict=False):
        self.store, self.seed = store, seed
        self.trace = directory / "trace"
        self.descriptor = os.open(self.trace, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.writers = [kind(random.Random(f"{seed} {kind.__name__}"), 0, self._acknowledged) for kind in store.writers]
        self.disk = power_cut.Disk(store.directory, own_name=not strict)
        self.environment = {
            "LD_PRELOAD": str(shim()), "DISK_ROOT": str(store.directory), "DISK_TRACE": str(self.trace),
            "DISK_SYNC_DELAY_US": str(SYNC_DELAY_US),
        }  # fmt: skip

    def _acknowledged(self, name, total):
        os.write(self.descriptor, power_cut.acknowledgement(name, total))

    def start(self):
        """Starts the store."""
        self.store.start(self.environment)
        self.store.wait_until_serving()

    def load(self, seconds):
        """Lets all clients write, and each of them succeed."""
        before = {writer.name: writer.ledger.total for writer in self.writers}
        for writer in self.writers:
            writer.start(self.store)
        time.sleep(seconds)
        deadline = time.monotonic() + LOAD_S_MAX
        while any(writer.is_writing() and writer.ledger.total < before[writer.name] + ACKNOWLEDGED_MIN for writer in self.writers):
            assert time.monotonic() < deadline, f"in {LOAD_S_MAX} s not every client has written"
            time.sleep(0.05)

    def end_load(self):
        """Ends the clients while the store runs."""
        for writer in self.writers:
            writer.stop()
        self.join()

    def join(self):
        """Waits for the clients."""
        for writer in self.writers:
            writer.join()

    def finish(self) -> Recording:
        """The recording."""
        self.store.clean_up()
        os.close(self.descriptor)
        ledgers = [writer.ledger for writer in self.writers]
        places = {writer.name: set(writer.places()) for writer in self.writers}
        return Recording(self.disk, power_cut.read_trace(self.trace), ledgers, places)


def record_first_life(store, seed, directory, seconds, strict) -> Recording:
    """From the first start on an empty directory to a kill under load."""
    recorder = Recorder(store, seed, directory, strict)
    recorder.start()
    recorder.load(seconds)
    store.kill()
    recorder.join()
    return recorder.finish()


def record_later_life(store, seed, directory, seconds, strict) -> Recording:
    """A recovery after a kill, load, a stop in order, a start, load, and a kill. The life before it is not recorded."""
    recorder = Recorder(store, seed, directory, strict)
    store.start()
    store.wait_until_serving()
    recorder.load(seconds)
    store.kill()
    recorder.join()
    # The directory is on the disk; what the clients know begins here.
    store.start()
    store.wait_until_serving()
    found = store.read([place for writer in recorder.writers for place in writer.places()])
    for writer in recorder.writers:
        places = set(writer.places())
        writer.ledger.settle({place: value for place, value in found.items() if place in places})
        writer.ledger.total = 0
    store.kill()
    os.truncate(recorder.trace, 0)
    recorder.disk = power_cut.Disk(store.directory, own_name=not strict)
    recorder.start()
    recorder.load(seconds / 2)
    recorder.end_load()
    assert store.stop() == 0, store.log()
    recorder.start()
    recorder.load(seconds / 2)
    store.kill()
    recorder.join()
    return recorder.finish()


def synced_second(directory_suffix=".wal"):
    """What durability `everysec` promises: the writes that were acknowledged before the newest file of the log was last
    synchronized, which the store does once a second."""
    begun, promised = {}, {}

    def look(disk, event):
        nonlocal promised
        if event.kind in (power_cut.SYNC_BEGINS, power_cut.SYNC_ENDS) and disk.newest(directory_suffix) == event.inode:
            if event.kind == power_cut.SYNC_BEGINS:
                begun[event.offset] = dict(disk.acknowledged)
            elif event.offset in begun:
                promised = begun.pop(event.offset)
        return promised

    return look


class Cutter:
    """Plays a recording, and checks the store on a copy at each chosen step.

    `promised` says which acknowledged writes the store must still have: all of them, or those of synced_second().
    """

    def __init__(self, recording, make_store, seed, directory, name, promised=None):
        self.recording, self.make_store, self.seed = recording, make_store, seed
        self.directory, self.name = directory, name
        self.promised = promised or (lambda disk, _event: disk.acknowledged)
        self.random = random.Random(seed)
        self.failures = []
        self._lock = threading.Lock()

    def run(self, count, figures, chosen=None):
        """Cuts `count` times, or at the chosen steps; counts in `figures`; raises the first failure."""
        disk, events = self.recording.disk, self.recording.events
        chosen = set(chosen or power_cut.choose(events, count, self.random))
        slots = threading.Semaphore(WORKERS)
        pool = concurrent.futures.ThreadPoolExecutor(WORKERS)
        number = uncertain = beside = 0
        kinds = Counter()
        for step, event in enumerate(events):
            disk.play(event)
            acknowledged = dict(self.promised(disk, event))
            if step not in chosen:
                continue
            slots.acquire()
            if self.failures:
                break
            number += 1
            variant = power_cut.VARIANTS[number % len(power_cut.VARIANTS)]
            target = self.directory / f"cut-{number}"
            disk.write_to(target, variant, self.random)
            uncertain += disk.is_uncertain()
            beside += sum(acknowledged.values()) > 0
            what = f"{self.name}: seed {self.seed}, cut {number} after step {step} ({power_cut.NAMES.get(event.kind)} {event.path}), {variant}"
            pool.submit(self._check, target, acknowledged, what, number % SECOND_RECOVERY == 0, slots)
            kinds[power_cut.NAMES.get(event.kind, "other")] += 1
        pool.shutdown()
        figures |= {"steps recorded": len(events), "cuts": number, "cuts with unsynced changes": uncertain, "cuts with acknowledged writes": beside}
        figures["cuts after"] = dict(kinds.most_common())
        figures["acknowledged before the last cut"] = sum(disk.acknowledged.values())
        if self.failures:
            raise AssertionError(self.failures[0])
        assert number == min(len(chosen), count), f"only {number} cuts: {len(events)} steps were recorded"
        assert uncertain and beside, "no cut could have lost an acknowledged write"

    def _check(self, target, acknowledged, what, again, slots):
        kept = self.directory / f"{target.name}-as-cut"
        store = self.make_store(target)
        try:
            stores.copy_directory(target, kept)
            store.start()
            store.wait_until_serving()
            self._compare(store, acknowledged)
            with wire.Resp(store.address("resp")) as connection:
                for value in (b"1", b"2"):
                    answer = connection.call("SET", "written after the cut", value)
                    assert answer == wire.OK, answer
            if again:
                store.kill()
                store.start()
                store.wait_until_serving()
                self._compare(store, acknowledged)
        except BaseException as failure:
            self._keep(kept, what, failure, store)
        finally:
            store.clean_up()
            shutil.rmtree(target, ignore_errors=True)
            shutil.rmtree(kept, ignore_errors=True)
            slots.release()

    def _compare(self, store, acknowledged):
        places = set().union(*self.recording.places.values())
        found = store.read(sorted(places, key=repr))
        for each in self.recording.ledgers:
            own = {place: value for place, value in found.items() if place in self.recording.places[each.name]}
            try:
                ledger.settle(dict(each.state), each.units, acknowledged.get(each.name, 0), own)
            except ledger.Wrong as wrong:
                raise ledger.Wrong(f"client {each.name}: {wrong}") from None

    def _keep(self, image, what, failure, store):
        with self._lock:
            is_first = not self.failures
            self.failures.append(f"{what}: {failure}")
        if is_first:
            kept = FAULTS / re.sub(r"\W+", "-", f"{self.name}-{self.seed}")
            shutil.rmtree(kept, ignore_errors=True)
            kept.mkdir(parents=True)
            stores.copy_directory(image, kept / "data")
            (kept / "failure.txt").write_text(f"{what}\n{failure}\n{store.log()}\n")
            print(f"{self.name}: the directory of the failure is {(kept / 'data').relative_to(served.ROOT)}")
