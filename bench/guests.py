"""What guests cost: idle ones, writers on guests beside as many on one member, and bare messages; compiled from guests.erl."""

from __future__ import annotations

import tempfile

import cluster
import local
import machine

MEMBERS = 3

FULL = {"idle": 4, "guests": 64, "rounds": 5, "idle_ms": 20_000, "write_ms": 10_000}
QUICK = {"idle": 4, "guests": 8, "rounds": 1, "idle_ms": 5_000, "write_ms": 1_000}


def run(plan, say) -> list[dict]:
    """All cells, as guests.erl prints them."""
    if reason := cluster.refusal(plan["guests"] + plan["idle"] + MEMBERS):
        raise RuntimeError(reason)
    parent = machine.ROOT / "_build"
    with (
        tempfile.TemporaryDirectory(prefix="guests-", dir=parent) as place,
        cluster.loopback("guestcosts") as (flags, environment),
        local.compiled("guests", "cluster", "todana_nodes") as directory,
    ):
        arguments = [*(plan[name] for name in ("idle", "guests", "rounds", "idle_ms", "write_ms")), place]
        return local.run_node(directory, "guests", arguments, say, flags=["-hidden", *flags], environment=environment)
