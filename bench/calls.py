"""Calls of Erlang processes with integer keys and values, beside ETS: compiles and runs calls.erl."""

from __future__ import annotations

from local import numbers, results

KEYS = 1000
HOT_KEYS = 16

FULL = {"cell_ms": 150, "rounds": 7, "processes": [1, 2, 8]}
QUICK = {"cell_ms": 30, "rounds": 1, "processes": [1, 2]}


def run(plan, say) -> list[dict]:
    """All cells, as calls.erl prints them."""
    arguments = [plan["cell_ms"], plan["rounds"], numbers(plan["processes"]), KEYS, HOT_KEYS]
    return results("calls", arguments, say, "calls: {operation}, {processes} processes, {arm}", also=["rounds"])
