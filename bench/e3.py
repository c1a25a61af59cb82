"""E3: what distributed Erlang costs as the cluster grows, and how one process in the path limits a server."""

from __future__ import annotations

import os
import tempfile

import cluster
import local
import machine

FULL = {
    "rounds": 5,
    "nodes": [0, 1, 4, 16, 64],
    "echoes": 100_000,
    "calls": 20_000,
    "processes": 20_000,
    "names": 100,
    "schedulers": [1, 2, 4, 8, 16, 32],
    "clients": [1, 9],
    "operations": 100_000,
}
QUICK = {
    "rounds": 1,
    "nodes": [0, 1, 4],
    "echoes": 5_000,
    "calls": 1_000,
    "processes": 1_000,
    "names": 20,
    "schedulers": [1, 2],
    "clients": [1, 2],
    "operations": 5_000,
}


def run(plan, say) -> list[dict]:
    """All cells, as e3.erl prints them; a node count that needs more memory than there is becomes a failed cell."""
    refused = {count: cluster.refusal(count) for count in plan["nodes"]}
    for reason in filter(None, refused.values()):
        say(f"e3: {reason}")
    counts = [count for count, reason in refused.items() if reason is None]
    cores = len(os.sched_getaffinity(0))
    schedulers = [count for count in plan["schedulers"] if count <= cores]
    left_out = [count for count in plan["schedulers"] if count > cores]
    amounts = [plan[name] for name in ("echoes", "calls", "processes", "names")]
    arguments = [
        plan["rounds"], local.numbers(counts), *amounts,
        local.numbers(schedulers), local.numbers(plan["clients"]), plan["operations"],
    ]  # fmt: skip
    parent = machine.ROOT / "_build"
    parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="e3-", dir=parent) as place, cluster.loopback("e3") as (flags, environment):
        found = local.results("e3", [*arguments, place], say, also=["cluster", "todana_nodes"], flags=flags, environment=environment)
    # More schedulers than cores would measure how they share cores.
    for cell in found:
        if cell["part"] == "scale_up":
            cell["scheduler_counts_left_out"] = left_out
    missing = {count: why for count, why in refused.items() if why}
    return found + [{"part": "nodes", "nodes": n, "operation": "all", "failed": why} for n, why in missing.items()]
