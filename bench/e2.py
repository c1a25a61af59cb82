"""E2: where a hot server keeps its state; one status, stored in several ways, that processes update and read."""

from __future__ import annotations

import nodes

FULL = {"cell_ms": 300, "rounds": 5, "processes": [1, 2, 8, 32]}
QUICK = {"cell_ms": 50, "rounds": 1, "processes": [1, 2, 8]}

ARMS = ("gen_server", "ets", "mnesia_transaction", "mnesia_dirty", "todana")
PROFILERS = ("counters", "ets", "process")


def steps(plan) -> int:
    """The number of cells that `run` reports."""
    return len(ARMS) * len(plan["processes"]) + len(PROFILERS)


def run(plan, say) -> list[dict]:
    """All cells, as e2.erl prints them."""
    times = [plan["cell_ms"], plan["rounds"]]
    runs = [
        ([*times, processes], [{"arm": arm, "processes": processes} for arm in ARMS]) for processes in plan["processes"]
    ]
    runs.append(([*times, "profilers"], [{"profiler": name} for name in PROFILERS]))
    return nodes.results("e2", runs, say, also=["interleave"])
