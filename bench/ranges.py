"""Ordered tables beside hash tables, from Erlang: the cost of a page of a range, and of order for operations on one key."""

from __future__ import annotations

import local

FULL = {"cell_ms": 300, "rounds": 7, "entries": [1_000, 10_000, 100_000, 1_000_000], "page": 100}
QUICK = {"cell_ms": 50, "rounds": 1, "entries": [1_000, 10_000], "page": 100}


def run(plan, say) -> list[dict]:
    """All cells, as ranges.erl prints them."""
    arguments = [plan["cell_ms"], plan["rounds"], local.numbers(plan["entries"]), plan["page"]]
    return local.results("ranges", arguments, say, "ranges: {operation}, {entries} entries, {arm}", also=["rounds"])
