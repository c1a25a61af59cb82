"""E4: what a flooded mailbox costs, and what batches in front of it are worth."""

from __future__ import annotations

import cluster
import local

FULL = {
    "rounds": 5,
    "deadline_ms": 30_000,
    "messages": [1_000, 10_000, 50_000, 100_000, 200_000, 300_000, 500_000],
}
QUICK = {"rounds": 1, "deadline_ms": 10_000, "messages": [1_000, 5_000, 20_000]}


def steps(plan) -> int:
    """Cells that `run` tells of: two mailboxes by three paths."""
    return 6 * len(plan["messages"])


def run(plan, say) -> list[dict]:
    """All cells, as e4.erl prints them."""
    arguments = [plan["rounds"], plan["deadline_ms"], local.numbers(plan["messages"])]
    with cluster.loopback("e4") as (flags, environment):
        return local.results("e4", arguments, say, also=["cluster"], flags=flags, environment=environment)
