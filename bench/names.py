"""Names and groups of processes on one node: local scopes beside ETS and `global`, cluster scopes beside `global` and `pg`."""

from __future__ import annotations

import tempfile

import local
import machine

FULL = {"names": 10_000, "rounds": 7}
QUICK = {"names": 200, "rounds": 1}


def run(plan, say) -> list[dict]:
    """All cells, as names.erl prints them."""
    # The log is on the disk of the checkout, not in memory.
    parent = machine.ROOT / "_build"
    parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-names-", dir=parent) as place:
        arguments = [plan["names"], plan["rounds"], place]
        return local.results("names", arguments, say, "names: {operation}, {arm}", also=["rounds"])
