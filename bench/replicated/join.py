"""How long a new node takes to join a cluster with many records, and what clients notice of it."""

from __future__ import annotations

import shutil
import threading
import time

from replicated import todana
from replicated.host import busy_cores

VALUE_BYTES = 100
CLIENTS = 10
SLICE_S = 1.0


def run(plan, say, place) -> list[dict]:
    """A fourth node joins three nodes, and leaves again before the next round."""
    rounds = []
    records = plan["records"]
    with todana.running(place / "join") as cluster:
        leader = cluster.leader()
        todana.load(
            leader, "set", requests=records, sequential=True, keys=records, value_bytes=VALUE_BYTES, connections=50, pipeline=50
        )
        cluster.wait()
        for _ in range(plan["join_rounds"]):
            rounds.append(_one(cluster, plan))
            say(f"replicated: a node joined {records:,} records in {rounds[-1]['seconds']} s")
    shutil.rmtree(place / "join", ignore_errors=True)
    cell = {"measure": "join", "arm": "todana", "records": records, "record_bytes": 16 + VALUE_BYTES, "clients": CLIENTS}
    return [{**cell, "rounds": rounds}]


def _one(cluster, plan) -> dict:
    busy_before = busy_cores()
    calm = _Traffic(cluster.leader(), plan)
    time.sleep(plan["calm_s"])
    before = calm.end()
    busy = _Traffic(cluster.leader(), plan)
    began = time.monotonic()
    new = cluster.add()
    cluster.wait()
    seconds = round(time.monotonic() - began, 2)
    meanwhile = busy.end()
    count = new.call("DBSIZE")
    if count < plan["records"]:
        raise RuntimeError(f"the new node has {count} of {plan['records']} records")
    cluster.remove(new)
    cluster.wait()
    found = {f"{name}_{when}": each for when, report in (("before", before), ("during", meanwhile)) for name, each in report.items()}
    return {"seconds": seconds, "busy_cores_before": busy_before, **found}


class _Traffic:
    """Clients that overwrite records of the leader, in slices of a second, until they are ended."""

    def __init__(self, node, plan):
        self._node, self._keys = node, plan["records"]
        self._reports = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._ended.is_set():
            self._reports.append(todana.load(
                self._node, "set", connections=CLIENTS, pipeline=1, seconds=SLICE_S, keys=self._keys, value_bytes=VALUE_BYTES,
                seed=len(self._reports) + 1,
            ))  # fmt: skip

    def end(self) -> dict:
        """Ends the clients. The p99 of the median and of the worst slice, and the longest request."""
        self._ended.set()
        self._thread.join()
        p99 = sorted(each["p99_us"] for each in self._reports)
        rate = sorted(each["requests_per_second"] for each in self._reports)
        return {
            "p99_us": p99[len(p99) // 2], "worst_p99_us": p99[-1], "longest_us": max(each["max_us"] for each in self._reports),
            "requests_per_second": rate[len(rate) // 2], "slices": len(p99),
        }  # fmt: skip
