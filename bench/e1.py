"""E1: reads that scale with cores; one store in several forms, and 1 to 128 processes that read it."""

from __future__ import annotations

import nodes

FULL = {
    "cell_ms": 200,
    "rounds": 5,
    "clients": [1, 2, 4, 8, 16, 32, 64, 128],
    "sizes": [16, 100, 1000],
    "entries": 1000,
}
QUICK = {"cell_ms": 50, "rounds": 1, "clients": [1, 2, 8], "sizes": [16, 1000], "entries": 1000}

ARMS = ("dict", "gen_server", "ets", "persistent", "todana")


def steps(plan) -> int:
    """The number of cells that `run` reports: five arms, and one more for one client."""
    clients = plan["clients"]
    return (2 + len(plan["sizes"])) * (len(ARMS) * len(clients) + clients.count(1))


def run(plan, say) -> list[dict]:
    """All cells, as e1.erl prints them."""
    keys = [("integer", 8, "spread"), ("integer", 8, "hot"), *[("binary", size, "spread") for size in plan["sizes"]]]
    runs = [
        ([plan["cell_ms"], plan["rounds"], plan["entries"], *each, clients], expected(*each, clients))
        for each in keys
        for clients in plan["clients"]
    ]
    return nodes.results("e1", runs, say, also=["interleave"])


def expected(keys, value_bytes, spread, clients) -> list[dict]:
    """The fields that identify the cells of a run."""
    arms = ["dict_local", *ARMS] if clients == 1 else ARMS
    cell = {"keys": keys, "value_bytes": value_bytes, "spread": spread, "clients": clients}
    return [{**cell, "arm": arm} for arm in arms]
