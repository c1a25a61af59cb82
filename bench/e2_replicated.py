"""E2 on three nodes: the status in a replicated table, and what becomes of it when the network is cut in two parts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import cluster
import local
import nodes
from machine import ROOT

SYSTEMS = ("mnesia", "mnesia_majority", "todana")

FULL = {
    "rounds": 5, "cell_ms": 500, "processes": [1, 8, 32], "calm_s": 3.0, "cut_s": 25.0, "healed_s": 5.0, "systems": SYSTEMS,
}  # fmt: skip
QUICK = {
    "rounds": 1, "cell_ms": 50, "processes": [1, 8], "calm_s": 1.0, "cut_s": 14.0, "healed_s": 2.0, "systems": SYSTEMS,
}  # fmt: skip

ARMS = (
    "todana_update_leader", "todana_update_follower", "todana_counter_leader", "todana_counter_follower", "mnesia_transaction",
    "mnesia_sync_dirty", "mnesia_async_dirty",
)  # fmt: skip
PARTITION_TIMEOUT_S = 300


def steps(plan) -> int:
    """The number of cells that `run` reports."""
    return len(ARMS) * len(plan["processes"]) + len(plan["systems"])


def run(plan, say) -> list[dict]:
    """All cells: those that e2_replicated.erl prints, then a partition of each system."""
    parent = ROOT / "_build"
    parent.mkdir(exist_ok=True)
    host = {"part": "host", "load_average_before": round(os.getloadavg()[0], 2)}
    expected = [{"part": "status", "arm": arm, "processes": count} for count in plan["processes"] for arm in ARMS]
    with tempfile.TemporaryDirectory(prefix="e2-replicated-", dir=parent) as place, cluster.loopback("e2") as (flags, environment):
        arguments = [plan["cell_ms"], plan["rounds"], local.numbers(plan["processes"]), place]
        found = [host] + nodes.results(
            "e2_replicated", [(arguments, expected)], say, also=["interleave", "cluster", "todana_nodes"], flags=flags, environment=environment
        )
    for system in plan["systems"]:
        say(f"e2: {system}: a network in two parts")
        found.append(partition(system, plan))
    return found


def partition(system, plan) -> dict:
    """A cell with the history of one system. A process of its own, because it leaves this host's network."""
    program = Path(__file__).with_name("partition.py")
    times = [str(plan[name]) for name in ("calm_s", "cut_s", "healed_s")]
    done = subprocess.run([sys.executable, program, system, *times], stdout=subprocess.PIPE, text=True, timeout=PARTITION_TIMEOUT_S)
    if done.returncode != 0:
        return {"part": "partition", "system": system, "failed": f"the program ended with {done.returncode}"}
    return json.loads(done.stdout)
