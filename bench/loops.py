"""Event loops: two whose connections are distributed evenly or by load (`event_loop_balance`), one alone, and the alternatives.

All servers run at once, and neither they nor the generator are bound to cores: a request's cost depends on how often a sleeping
thread is woken up for it, and bound threads would hide that. In the closed loop, each connection sends its next request when the last
one is answered; in the paced loop, requests are due at random moments, as those of many independent clients.
"""

from __future__ import annotations

import contextlib

import servers

LOOPS = 2
KEYS = 100_000
VALUE_BYTES = 100

# Todana's arms: the number of event loops, and the flags.
OWN = {
    "todana-load": (LOOPS, ["--event-loop-balance", "load"]),
    "todana-even": (LOOPS, ["--event-loop-balance", "even"]),
    "todana-one": (1, []),
}

# Each round is longer than a second, within which two loops that have little to do become one.
FULL = {"rounds": 7, "seconds": 1.5, "closed": [1, 10, 50, 1_000], "paced": [10, 50], "rates": [2_000, 10_000, 20_000]}
QUICK = {"rounds": 1, "seconds": 0.3, "closed": [1, 10], "paced": [10], "rates": [2_000]}


def cells(plan) -> list[dict]:
    """What each arm is measured with; without a rate, the loop is closed."""
    closed = [{"operation": operation, "connections": count, "rate": None} for operation in ("get", "set") for count in plan["closed"]]
    return closed + [{"operation": "get", "connections": count, "rate": rate} for count in plan["paced"] for rate in plan["rates"]]


def steps(plan) -> int:
    """The number of reports of `run`."""
    return len(cells(plan))


def run(plan, say) -> list[dict]:
    """All cells; within a cell the arms are interleaved, round by round."""
    servers.raise_descriptor_limit()
    results = []
    with contextlib.ExitStack() as stack:
        running = {}
        for name in [*OWN, *servers.peers()[1:]]:
            running[name] = started(name)
            stack.callback(running[name].stop)
        for name, server in running.items():
            servers.load(
                server, protocol(name), "set", requests=KEYS, sequential=True, keys=KEYS, value_bytes=VALUE_BYTES, pipeline=50, connections=4
            )
        for cell in cells(plan):
            say(f"loops: {described(cell)}")
            results += measured(running, cell, plan)
    return results


def started(name):
    """A server that the system runs on any core."""
    threads, flags = OWN.get(name, (LOOPS, []))
    return servers.start("todana" if name in OWN else name, *flags, threads=threads, is_pinned=False)


def protocol(name) -> str:
    """The protocol of an arm: RESP, except that of memcached."""
    return "memcached" if name == "memcached" else "resp"


def described(cell) -> str:
    """A cell in words."""
    pace = f"{cell['rate']:,} requests/s" if cell["rate"] else "closed loop"
    return f"{cell['operation'].upper()}, {cell['connections']:,} connection{'s' if cell['connections'] > 1 else ''}, {pace}"


def measured(running, cell, plan) -> list[dict]:
    """The rounds of a cell by arm."""
    found = {name: [] for name in running}
    paced = {"rate": cell["rate"]} if cell["rate"] else {}
    for number in range(plan["rounds"] + 1):
        for name, server in running.items():
            report = servers.load(
                server, protocol(name), cell["operation"], connections=cell["connections"], seconds=plan["seconds"], keys=KEYS,
                value_bytes=VALUE_BYTES, seed=number + 1, is_pinned=False, **paced,
            )
            if report["misses"]:
                raise RuntimeError(f"{name} has lost records: {report}")
            # The first round warms up.
            if number > 0:
                found[name].append(report)
    return [{"arm": name, **cell, "rounds": rounds} for name, rounds in found.items()]
