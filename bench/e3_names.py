"""E3, names and groups: `global`, `pg` and cluster scopes of Todana as the cluster grows, compiled from e3_names.erl.

A count of nodes is that of the whole cluster: one member alone, or three members and otherwise guests.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import cluster
import local
import machine
import nodes

# As e3_names.erl names them: shape of the connections, and place of the log.
CLUSTERS = ("mesh-disk", "mesh-memory", "star-disk")
MEMBERS = 3
# Up to this count, names are registered as often as the plan says. One registration by `global` takes more CPU time with
# each node.
SMALL_NODES_MAX = 64
# Up to this count, all clusters run at the same time and their rounds are interleaved. Of more nodes, the idle ones of other
# clusters would take too much of the cores.
TOGETHER_NODES_MAX = 16
MEMORY_PLACE = Path("/dev/shm")

FULL = {
    "rounds": 5, "nodes": [1, 4, 16, 64], "names": 100, "names_above_64": 20, "deaths": 20, "idle_ms": 1_000, "clusters": CLUSTERS,
}  # fmt: skip
QUICK = {
    "rounds": 3, "nodes": [1, 4], "names": 20, "names_above_64": 5, "deaths": 5, "idle_ms": 300, "clusters": CLUSTERS,
}  # fmt: skip


def run(plan, say) -> list[dict]:
    """All cells, as e3_names.erl prints them; a count that cannot be measured becomes a failed cell with the reason."""
    parent = machine.ROOT / "_build"
    parent.mkdir(exist_ok=True)
    found = [host(parent)]
    for count in plan["nodes"]:
        together, refused = chosen(count, plan["clusters"])
        for name, reason in refused.items():
            say(f"e3: {name}: {reason}")
            found.append({**cell(count, name), "failed": reason})
        for names in together:
            found += measured(plan, count, names, parent, say)
    if all("failed" in each for each in found if each["part"] == "names"):
        raise RuntimeError(found[-1].get("failed", "nothing was measured"))
    return found


def host(parent) -> dict:
    """What the figures depend on beside the plan."""
    return {
        "part": "host", "load_average_before": round(os.getloadavg()[0], 2), "disk": file_system(parent),
        "memory": file_system(MEMORY_PLACE),
    }  # fmt: skip


def chosen(count, clusters) -> tuple[list[tuple], dict]:
    """The clusters of a count that run at the same time, and why others do not."""
    # One node is connected to none.
    names = tuple(name for name in clusters if count > 1 or name.startswith("mesh"))
    if reason := impossible(count):
        return [], dict.fromkeys(names, reason)
    refused = {}
    if file_system(MEMORY_PLACE) != "tmpfs":
        refused = {name: f"{MEMORY_PLACE} is no tmpfs" for name in names if name.endswith("-memory")}
    names = tuple(name for name in names if name not in refused)
    if count <= TOGETHER_NODES_MAX and cluster.refusal(count * len(names)) is None:
        return [names] if names else [], refused
    return [(name,) for name in names], refused


def impossible(count) -> str | None:
    """Why a count of nodes cannot be measured, or None."""
    if 1 < count <= MEMBERS:
        return f"names and groups are measured on one node or on more than {MEMBERS}, because {MEMBERS} are members and the others guests"
    return cluster.refusal(count)


def measured(plan, count, names, parent, say) -> list[dict]:
    """The cells of clusters that run at the same time."""
    amount = plan["names" if count <= SMALL_NODES_MAX else "names_above_64"]
    in_memory = MEMORY_PLACE if any(name.endswith("-memory") for name in names) else parent
    with (
        tempfile.TemporaryDirectory(prefix="e3-names-", dir=parent) as disk,
        tempfile.TemporaryDirectory(prefix="e3-names-", dir=in_memory) as memory,
        cluster.loopback("e3names") as (flags, environment),
    ):
        arguments = [count, amount, min(plan["deaths"], amount), plan["rounds"], plan["idle_ms"], ",".join(names), disk, memory]
        expected = [cell(count, name) for name in names]
        try:
            found = nodes.results(
                "e3_names", [(arguments, expected)], say, also=["e3_scopes", "cluster", "todana_nodes"], flags=["-hidden", *flags],
                environment=environment,
            )  # fmt: skip
        except RuntimeError as error:
            # Smaller clusters have been measured.
            found = [{**each, "failed": str(error)} for each in expected]
    return [{**each, "names": amount, "together": len(names)} for each in found]


def cell(count, name) -> dict:
    """The cell that each cluster has."""
    shape, log = name.split("-")
    return {"part": "names", "nodes": count, "mesh": shape == "mesh", "log": log, "arm": "all", "operation": "idle"}


def file_system(path) -> str:
    """The type of the file system of a path: `ext4`, `tmpfs`."""
    path, best = str(Path(path).resolve()), ("", "unknown")
    for line in Path("/proc/mounts").read_text().splitlines():
        _, place, kind, *_ = line.split()
        if Path(path).is_relative_to(place) and len(place) >= len(best[0]):
            best = (place, kind)
    return best[1]
