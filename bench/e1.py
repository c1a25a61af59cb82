"""E1: reads that scale with cores; one store in several forms, read by 1 to 128 processes."""

from __future__ import annotations

import local

FULL = {
    "cell_ms": 200,
    "rounds": 5,
    "clients": [1, 2, 4, 8, 16, 32, 64, 128],
    "sizes": [16, 100, 1000],
    "entries": 1000,
}
QUICK = {"cell_ms": 50, "rounds": 1, "clients": [1, 2, 8], "sizes": [16, 1000], "entries": 1000}


def steps(plan) -> int:
    """Cells that `run` tells of: five arms, and one more where there is one client."""
    clients = plan["clients"]
    return (2 + len(plan["sizes"])) * (5 * len(clients) + clients.count(1))


def run(plan, say) -> list[dict]:
    """All cells, as e1.erl prints them."""
    numbers = [local.numbers(plan["clients"]), local.numbers(plan["sizes"])]
    return local.results("e1", [plan["cell_ms"], plan["rounds"], *numbers, plan["entries"]], say)
