"""What many names and groups cost: memory of a cluster beside `global` and `pg`, and what others notice when a node dies that has many names.

Compiled from names_many.erl, which describes the cells. Three members and otherwise guests are measured beside as many plain nodes.
`global` takes a lock on all nodes for each name, so it gets fewer: its bytes are those of fewer names, and no figure is
extrapolated. With `apart`, each of its nodes registers its names while it is connected to no other one, and the nodes exchange them afterwards.
"""

from __future__ import annotations

import json
import tempfile

import cluster
import machine
import nodes

# Of all nodes together, with what the log takes until it is compacted.
NAME_BYTES = 6_000
# What each stage adds.
ADDED = {"named": "name", "grouped": "group", "large": "member"}

FULL = {
    "nodes": 16, "names": 1_000_000, "groups": 100_000, "large": 5, "large_members": 2_000, "owners": 2_000, "width": 16,
    "global_names": 20_000, "global_names_apart": 20_000, "dying": 100_000, "load_ms": 60_000, "register_ms": 100, "whereis_ms": 20,
}  # fmt: skip
QUICK = {
    "nodes": 6, "names": 6_000, "groups": 600, "large": 2, "large_members": 100, "owners": 100, "width": 16,
    "global_names": 600, "global_names_apart": 2_400, "dying": 2_000, "load_ms": 4_000, "register_ms": 100, "whereis_ms": 20,
}  # fmt: skip


def run(plan, say) -> list[dict]:
    """All cells, as names_many.erl prints them, and bytes of a name, a group of three and a member. An arm that fails has its reason."""
    if reason := refusal(plan):
        raise RuntimeError(reason)
    parent = machine.ROOT / "_build"
    parent.mkdir(exist_ok=True)
    found = []
    for arm in arms(plan):
        with (
            tempfile.TemporaryDirectory(prefix="names-many-", dir=parent) as disk,
            cluster.loopback("namesmany") as (flags, environment),
        ):
            runs = [([json.dumps(arm), disk], expected(arm["arm"]))]
            try:
                cells = nodes.results(
                    "names_many", runs, say, also=["names_many_nodes", "cluster", "todana_nodes"], flags=["-hidden", *flags],
                    environment=environment,
                )  # fmt: skip
            except RuntimeError as error:
                # The other arms are measured.
                cells = [{**each, "failed": str(error)} for each in expected(arm["arm"])]
        marks = {"part": "names-many", "nodes_count": arm["nodes"], "names": arm["names"], "groups": arm["groups"]}
        if "apart" in arm:
            marks["apart"] = arm["apart"]
        found += [{**marks, **each} for each in cells + differences(arm, cells)]
    if all("failed" in each for each in found):
        raise RuntimeError(found[0]["failed"])
    return found


def refusal(plan) -> str | None:
    """Why this machine cannot do it, or None."""
    megabytes = plan["nodes"] * cluster.NODE_MEGABYTES + plan["names"] * NAME_BYTES // 2**20
    available = cluster.available_megabytes()
    if megabytes <= available:
        return None
    return f"{plan['names']} names on {plan['nodes']} nodes need about {megabytes} MB of memory, and {available} MB are available"


def arms(plan) -> list[dict]:
    """The plan of each cluster."""
    shared = {name: value for name, value in plan.items() if not name.startswith("global_")}
    return [
        {**shared, "arm": "todana"},
        {**shared, "arm": "pg", "names": 0},
        by_global(shared, plan["global_names"], apart=False),
        by_global(shared, plan["global_names_apart"], apart=True),
    ]


def by_global(shared, names, apart) -> dict:
    """The plan of `global`, which gives a process one name."""
    return {**shared, "arm": "global", "apart": apart, "names": names, "owners": names // shared["nodes"], "groups": 0}


def expected(arm) -> list[dict]:
    """The last cell of an arm: one that does not reach it has failed."""
    last = {"todana": "freed", "pg": "large", "global": "named"}[arm]
    return [{"operation": "memory", "arm": arm, "stage": last}]


def differences(arm, cells) -> list[dict]:
    """The bytes that each stage has added, of all nodes together, for one name, group or member."""
    stages = {each["stage"]: each for each in cells if each["operation"] == "memory" and "nodes" in each}
    counts = {
        "name": arm["names"] // arm["nodes"] * arm["nodes"], "group": arm["groups"],
        "member": arm["large"] * arm["large_members"] * arm["nodes"],
    }  # fmt: skip
    found = []
    for before, after in zip(list(stages), list(stages)[1:]):
        what = ADDED.get(after)
        if what:
            found.append({"operation": "bytes", "arm": arm["arm"], "of": what, "count": counts[what]})
            for field in ("pss_bytes", "erlang_bytes", "disk_bytes", "written_bytes"):
                found[-1][field] = round((total(stages[after], field) - total(stages[before], field)) / counts[what], 1)
    return found


def total(cell, field) -> int:
    """Bytes of all nodes."""
    if field == "pss_bytes":
        return 1024 * sum(each["pss_kib"] for each in cell["nodes"])
    if field == "erlang_bytes":
        return sum(each["erlang_bytes"] for each in cell["nodes"])
    return cell[field]
