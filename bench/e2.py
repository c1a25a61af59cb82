"""E2: where a hot server keeps its state; one status that processes update and read, in several places."""

from __future__ import annotations

import local

FULL = {"cell_ms": 300, "rounds": 5, "processes": [1, 2, 8, 32]}
QUICK = {"cell_ms": 50, "rounds": 1, "processes": [1, 2, 8]}


def steps(plan) -> int:
    """Cells that `run` tells of: five arms, and two profilers."""
    return 5 * len(plan["processes"]) + 2


def run(plan, say) -> list[dict]:
    """All cells, as e2.erl prints them."""
    return local.results("e2", [plan["cell_ms"], plan["rounds"], local.numbers(plan["processes"])], say)
