"""E4: what a flooded mailbox costs, and what batches in front of it gain."""

from __future__ import annotations

import cluster
import nodes

FULL = {
    "rounds": 5,
    "deadline_ms": 30_000,
    "messages": [1_000, 10_000, 50_000, 100_000, 200_000, 300_000, 500_000],
}
QUICK = {"rounds": 1, "deadline_ms": 10_000, "messages": [1_000, 5_000, 20_000]}

ARMS = [(mailbox, path) for path in ("direct", "timer", "load") for mailbox in ("on_heap", "off_heap")]


def steps(plan) -> int:
    """The number of reports of `run`: one for each cell and each round."""
    return (len(ARMS) + plan["rounds"]) * len(plan["messages"])


def run(plan, say) -> list[dict]:
    """All cells, as e4.erl prints them."""
    runs = [
        ([plan["rounds"], plan["deadline_ms"], count],
         [{"messages": count, "mailbox": mailbox, "path": path} for mailbox, path in ARMS])
        for count in plan["messages"]
    ]  # fmt: skip
    with cluster.loopback("e4") as (flags, environment):
        return nodes.results("e4", runs, say, also=["cluster"], flags=flags, environment=environment)
