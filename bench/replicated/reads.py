"""GETs of a cluster by read level, beside GETs of one node that keeps its records in memory only."""

from __future__ import annotations

import contextlib

from servers import served

from replicated import etcd, todana
from replicated.host import busy_cores
from replicated.usage import Usage

KEYS = 100_000
VALUE_BYTES = 100
CLIENTS = 50
LEVELS = ("local", "bounded", "linear")


class Memory:
    """A node without a data directory and without others."""

    def __init__(self):
        self.server = served.start_todana(databases=[":"])

    @property
    def pid(self) -> int:
        """The process of the node."""
        return self.server.pid


def run(plan, say, place) -> list[dict]:
    """All levels, on the leader and on a follower, a node in memory, and etcd; the arms take turns in each round."""
    results = []
    memory = Memory()
    with contextlib.ExitStack() as stack:
        stack.callback(memory.server.stop)
        own = stack.enter_context(todana.running(place / "reads"))
        leader, follower = own.leader(), own.followers()[0]
        for node in (leader, memory):
            todana.load(node, "set", requests=KEYS, sequential=True, keys=KEYS, value_bytes=VALUE_BYTES, connections=50, pipeline=16)
        own.wait()
        arms = {"memory": _of_todana(memory, [], None)}
        for level in LEVELS:
            for name, node in (("leader", leader), ("follower", follower)):
                arms[f"{level}_{name}"] = _of_todana(node, [other for other in own.nodes if other is not node], level)
        peers = {}
        if reason := etcd.missing():
            say(f"replicated: etcd: {reason}")
        else:
            members = stack.enter_context(etcd.running(place / "etcd"))
            members.fill(KEYS, VALUE_BYTES)
            peers = members.read_arms()
        for clients, pipeline in ((1, 1), *[(CLIENTS, pipeline) for pipeline in plan["pipelines"]]):
            say(f"replicated: GET, {clients} clients, pipeline {pipeline}")
            chosen = arms | (peers if pipeline == 1 else {})
            busy = busy_cores()
            rounds = {name: [] for name in chosen}
            for number in range(plan["rounds"] + 1):
                for name, measure in chosen.items():
                    report = measure(clients, pipeline, plan["seconds"], number + 1)
                    if number > 0:
                        rounds[name].append(report)
            cell = {"measure": "read", "clients": clients, "pipeline": pipeline, "value_bytes": VALUE_BYTES, "busy_cores_before": busy}
            results += [{**cell, "arm": name, "rounds": reports} for name, reports in rounds.items()]
    return results


def _of_todana(node, others, level):
    """GETs of clients of this node."""
    options = {"read_level": level} if level else {}

    def measure(clients, pipeline, seconds, seed):
        usage = Usage([node.pid, *(other.pid for other in others)])
        report = todana.load(
            node, "get", meanwhile=usage, connections=clients, pipeline=pipeline, seconds=seconds, seed=seed, keys=KEYS, **options
        )
        return {**report, **usage.report(report["requests"])}

    return measure
