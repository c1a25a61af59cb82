"""What durability costs: Todana with a data directory beside Redis with an append-only file, on the same disk in the same run.

Each cell names what it measures: `floor` (fdatasync of the disk), `load`, `log_bytes`, `restart`, `memory`, `snapshot`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

import machine
import servers
from servers import served

VALUE_BYTES = 100
KEY_BYTES = 16
KEYS = 100_000
FLOOR_WRITE_BYTES = 200
SERVING_TIMEOUT_S = 120
SAVE_TIMEOUT_S = 120
SETTLE_S = 3.0
# The time after which a resident size is read again while a snapshot is written.
LOOK_S = 0.02
# A table of this many records is loaded without a snapshot, so that a restart reads the log only.
NO_SNAPSHOT = ("--snapshot-log-bytes", "64gb")

ALWAYS = ("todana-always", "redis-always")
EVERYSEC = ("todana-everysec", "redis-everysec", "todana-memory")

FULL = {
    "rounds": 5, "seconds": 1.0, "floor_writes": 2_000, "connections": 50, "pipelines": [1, 16], "records": 1_000_000,
    "large_rounds": 2, "log_records": 100_000, "snapshot_seconds": 3.0,
}  # fmt: skip
QUICK = {
    "rounds": 1, "seconds": 0.3, "floor_writes": 50, "connections": 10, "pipelines": [16], "records": 20_000,
    "large_rounds": 1, "log_records": 5_000, "snapshot_seconds": 0.5,
}  # fmt: skip


def run(plan, say) -> list[dict]:
    """All cells; the arms are interleaved, round by round."""
    # The data are on the disk of the checkout, not in memory.
    parent = machine.ROOT / "_build"
    parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-durable-", dir=parent) as place:
        place = Path(place)
        results = always(plan, say, place)
        results += everysec(plan, say, place)
        results += log_bytes(plan, say, place)
        results += large(plan, say, place)
    return results


def flags(arm, directory) -> list:
    """The flags of a server for an arm such as `redis-everysec`."""
    name, _, mode = arm.partition("-")
    if mode == "memory":
        return []
    if name == "todana":
        return ["--data-dir", directory, "--durability", mode]
    return ["--dir", directory, "--appendonly", "yes", "--appendfsync", mode]


def start(arm, directory, *more, program=served.PROGRAM):
    """Starts the server of an arm on its directory, and waits until it serves. `program` is Todana's."""
    directory.mkdir(parents=True, exist_ok=True)
    server = servers.start(arm.partition("-")[0], *flags(arm, directory), *more, program=program)
    deadline = time.monotonic() + SERVING_TIMEOUT_S
    while not isinstance(call(server, "EXISTS", "no such key"), int):
        if time.monotonic() > deadline or not server.is_alive():
            raise RuntimeError(f"{arm} does not serve:\n{server.output()}")
        time.sleep(0.002)
    return server


def call(server, *words):
    """One RESP request on a connection of its own."""
    import wire

    with wire.Resp(server.resp) as connection:
        return connection.call(*words)


@contextlib.contextmanager
def running(arms, place):
    """Servers of several arms, each with a directory of its own."""
    started = {}
    try:
        for arm in arms:
            started[arm] = start(arm, place / arm)
        yield started
    finally:
        for server in started.values():
            server.stop()
        for arm in arms:
            shutil.rmtree(place / arm, ignore_errors=True)


def always(plan, say, place):
    """A reply means fdatasync. One client without a pipeline stands beside the disk's own fdatasync."""
    cells = [(1, 1), *[(plan["connections"], pipeline) for pipeline in plan["pipelines"]]]
    results = []
    with running(ALWAYS, place) as started:
        for connections, pipeline in cells:
            say(f"durable: always, SET, {connections} connections, pipeline {pipeline}")
            rounds = {arm: [] for arm in ALWAYS}
            floor_rounds = []
            for number in range(plan["rounds"] + 1):
                floor_report = floor(place, plan["floor_writes"]) if connections == 1 else None
                reports = {arm: one_load(started[arm], "set", connections, pipeline, plan, number) for arm in ALWAYS}
                # The first round warms up.
                if number > 0:
                    for arm in ALWAYS:
                        rounds[arm].append(reports[arm])
                    if floor_report:
                        floor_rounds.append(floor_report)
            if floor_rounds:
                results.append({"measure": "floor", "write_bytes": FLOOR_WRITE_BYTES, "rounds": floor_rounds})
            results += load_cells("always", "set", connections, pipeline, rounds)
    return results


def everysec(plan, say, place):
    """The log is synced once a second. Reads and writes beside a server in memory."""
    results = []
    with running(EVERYSEC, place) as started:
        for server in started.values():
            fill(server, KEYS, pipeline=50, connections=4)
        for operation in ("set", "get"):
            for pipeline in plan["pipelines"]:
                say(f"durable: everysec, {operation.upper()}, pipeline {pipeline}")
                rounds = {arm: [] for arm in EVERYSEC}
                for number in range(plan["rounds"] + 1):
                    for arm in EVERYSEC:
                        report = one_load(started[arm], operation, plan["connections"], pipeline, plan, number)
                        if number > 0:
                            rounds[arm].append(report)
                results += load_cells("everysec", operation, plan["connections"], pipeline, rounds)
    return results


def one_load(server, operation, connections, pipeline, plan, number):
    """One run of the generator."""
    return servers.load(
        server, "resp", operation, seconds=plan["seconds"], connections=connections, pipeline=pipeline, keys=KEYS,
        value_bytes=VALUE_BYTES, seed=number + 1,
    )  # fmt: skip


def load_cells(durability, operation, connections, pipeline, rounds):
    """The cells of one configuration."""
    cell = {"measure": "load", "durability": durability, "operation": operation, "connections": connections, "pipeline": pipeline}
    return [{**cell, "server": arm, "rounds": found} for arm, found in rounds.items()]


def floor(place, writes) -> dict:
    """The time of a small append and its fdatasync, without any server."""
    path = place / "floor"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    taken, data = [], bytes(FLOOR_WRITE_BYTES)
    try:
        for _ in range(writes):
            before = time.perf_counter_ns()
            os.write(descriptor, data)
            os.fdatasync(descriptor)
            taken.append((time.perf_counter_ns() - before) / 1e3)
    finally:
        os.close(descriptor)
        path.unlink()
    ordered = sorted(taken)
    return {"p50_us": round(statistics.median(ordered), 1), "p99_us": round(ordered[int(len(ordered) * 0.99)], 1), "writes": writes}


def log_bytes(plan, say, place):
    """Bytes of the log per SET, by the growth of the files of the directory."""
    results = []
    for arm in ALWAYS:
        say(f"durable: log bytes, {arm}")
        with running([arm], place) as started:
            before = directory_bytes(place / arm)
            fill(started[arm], plan["log_records"], pipeline=16, connections=plan["connections"])
            grown = directory_bytes(place / arm) - before
        per_set = round(grown / plan["log_records"], 2)
        payload = KEY_BYTES + VALUE_BYTES
        results.append({"measure": "log_bytes", "server": arm, "payload_bytes": payload, "rounds": [{"bytes_per_set": per_set}]})
    return results


def large(plan, say, place):
    """A table of many records: memory, snapshots, and restarts after a stop and after SIGKILL."""
    found = {}
    for _ in range(plan["large_rounds"]):
        for arm in ("todana-memory", *ALWAYS):
            say(f"durable: {plan['records']:,} records, {arm}")
            for measure, report in one_large(arm, plan, place / arm):
                found.setdefault((measure, arm), []).append(report)
            shutil.rmtree(place / arm, ignore_errors=True)
    return [
        {"measure": measure, "server": arm, "records": plan["records"], "record_bytes": KEY_BYTES + VALUE_BYTES, "rounds": rounds}
        for (measure, arm), rounds in found.items()
    ]


def one_large(arm, plan, directory):
    """The measurements of one server with many records."""
    more = log_only(arm)
    server = start(arm, directory, *more)
    try:
        servers.load(server, "resp", "get", requests=1_000, pipeline=50, connections=4)
        time.sleep(SETTLE_S)
        empty = server.resident_bytes()
        fill(server, plan["records"], pipeline=50, connections=4)
        if arm == "todana-memory":
            time.sleep(SETTLE_S)
            yield "memory", memory_report(server, empty, plan, None)
            return
        # A full tail of the log, and no snapshot.
        server.stop(9)
        server, seconds = restarted(arm, directory, plan, more)
        yield "restart after SIGKILL", {"seconds": seconds}
        save(server, arm)
        server.stop()
        server, seconds = restarted(arm, directory, plan, more)
        yield "restart after a stop", {"seconds": seconds}
        yield from snapshots(server, arm, plan)
    finally:
        if server.is_alive():
            server.stop()
    # Memory in a life without a restart, once a snapshot has replaced the log.
    shutil.rmtree(directory)
    server = start(arm, directory, *more)
    try:
        fill(server, plan["records"], pipeline=50, connections=4)
        with Peak(server) as peak:
            save(server, arm)
        time.sleep(SETTLE_S)
        yield "memory", memory_report(server, empty, plan, peak.bytes)
    finally:
        server.stop()


def log_only(arm) -> tuple:
    """The flags without which a server would write a snapshot while it is loaded."""
    return {"todana": NO_SNAPSHOT, "redis": ("--auto-aof-rewrite-percentage", "0")}[arm.partition("-")[0]] if "-memory" not in arm else ()


def fill(server, records, pipeline, connections):
    """Stores records in order, once."""
    servers.load(
        server, "resp", "set", requests=records, sequential=True, keys=records, value_bytes=VALUE_BYTES, pipeline=pipeline,
        connections=connections,
    )  # fmt: skip


def restarted(arm, directory, plan, more):
    """Starts a server again; the seconds until it answers a read. All records must be there."""
    before = time.monotonic()
    server = start(arm, directory, *more)
    seconds = round(time.monotonic() - before, 3)
    count = call(server, "DBSIZE")
    if count != plan["records"]:
        server.stop()
        raise RuntimeError(f"{arm} holds {count} of {plan['records']} records after a restart")
    return server, seconds


def save(server, arm):
    """Has a snapshot written (Redis: a new append-only file) and waits for its end."""
    word, field = ("BGREWRITEAOF", "aof_rewrite_in_progress") if arm.startswith("redis") else ("BGSAVE", "rdb_bgsave_in_progress")
    call(server, word)
    deadline = time.monotonic() + SAVE_TIMEOUT_S
    # The server may begin with a delay.
    time.sleep(LOOK_S)
    while f"{field}:0" not in call(server, "INFO", "persistence").decode():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{arm}: the snapshot does not end")
        time.sleep(LOOK_S)


def snapshots(server, arm, plan):
    """Latency of other clients' writes without snapshots, and while one follows the other."""
    options = {
        "connections": 10, "pipeline": 1, "seconds": plan["snapshot_seconds"], "keys": plan["records"], "value_bytes": VALUE_BYTES,
    }  # fmt: skip
    calm = servers.load(server, "resp", "set", **options)
    ended, written = threading.Event(), []

    def write():
        while not ended.is_set():
            before = time.monotonic()
            save(server, arm)
            written.append(round(time.monotonic() - before, 3))

    # A connection of the writer must not look like one of the generator: it opens and closes.
    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        busy = servers.load(server, "resp", "set", **options)
    finally:
        ended.set()
        thread.join(SAVE_TIMEOUT_S)
    names = ("p50_us", "p99_us", "requests_per_second")
    report = {f"{name}_calm": calm[name] for name in names} | {f"{name}_during": busy[name] for name in names}
    yield "snapshot", {**report, "snapshots": len(written), "seconds": statistics.median(written) if written else None}


class Peak:
    """The largest resident size of a server, with what its children do not share with it."""

    def __init__(self, server):
        self.server = server
        self.bytes = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self):
        while not self._ended.is_set():
            self.bytes = max(self.bytes, self.server.resident_bytes() + sum(map(private_bytes, served.children(self.server.pid))))
            self._ended.wait(LOOK_S)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()


def private_bytes(pid) -> int:
    """Memory that a process has written and shares with no other."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_Dirty:"))


def memory_report(server, empty, plan, peak):
    """Bytes per record, and the peak of a snapshot if one was written."""
    loaded = server.resident_bytes()
    report = {"empty_bytes": empty, "loaded_bytes": loaded, "bytes_per_record": round((loaded - empty) / plan["records"], 2)}
    return report if peak is None else {**report, "peak_bytes": peak}


def directory_bytes(path) -> int:
    """The length of all files below a directory."""
    return sum(each.stat().st_size for each in path.rglob("*") if each.is_file())
