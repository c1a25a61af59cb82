"""E3, names and groups: cluster scopes of Todana beside `global` and `pg` as the cluster grows."""

from __future__ import annotations

import dataclasses
import statistics

import published

from .section import (
    LOG_IN_MEMORY, LOG_ON_DISK, Cell, Contest, Panel, Series, Table, known, missing, plural, times,
)  # fmt: skip

NAMES = {
    # operation: words, published operation
    "register": ("register", "global_register"),
    "unregister": ("unregister", "global_unregister"),
    "whereis_first": ("whereis, the first time", None),
    "whereis": ("whereis", "global_whereis"),
    "death": ("death, until the name is free", None),
    "deaths": ("many deaths at once, until all are free", None),
}
GROUPS = {
    "join": ("join", "pg2_join"),
    "join_everywhere": ("join, until all know", None),
    "leave": ("leave", None),
    "members_first": ("members, the first time", None),
    "members": ("members", "pg2_pick"),
}
# What others do for each operation, and at which kind of node the report says that it is.
PEERS = {**dict.fromkeys(NAMES, "global"), **dict.fromkeys(GROUPS, "pg")}
FIGURES = {
    "us_per_operation": ("microseconds per operation", "{:,.2f}"),
    "cpu_us_per_operation": ("CPU microseconds of all nodes together per operation", "{:,.0f}"),
    "messages_per_operation": ("messages between nodes per operation", "{:,.1f}"),
    "bytes_per_operation": ("bytes between nodes per operation", "{:,.0f}"),
}
IDLE = {
    "connections": ("connections", "{:,.0f}"), "pss_mib": ("memory (Pss), MiB", "{:,.0f}"),
    "cpu_us_per_second": ("CPU us per second", "{:,.0f}"), "messages_per_second": ("messages per second", "{:,.0f}"),
    "bytes_per_second": ("bytes per second", "{:,.0f}"),
}  # fmt: skip
PLACES = {"guest": "at a guest", "member": "at a member"}
# Whether all nodes are connected, and the place of the log.
MESH, IN_MEMORY, NO_MESH = (True, "disk"), (True, "memory"), (False, "disk")
CLUSTERS = {MESH: "mesh", NO_MESH: "no mesh", IN_MEMORY: "mesh, log in memory"}
# Beyond this, the report says that the host was not quiet.
QUIET_LOAD = 0.5
# What registrations and joins were meant to cost: at the greater of two counts against the smaller one, and against `global`.
FLAT_COUNTS, FLAT_MAX = (4, 64), 1.2
OF_GLOBAL_MAX = {4: 1.0, 16: 0.25}
LOOK_UP_MAX = 1.3
FIRST_LOOK_UP_MAX = 1.5


@dataclasses.dataclass(frozen=True)
class Target:
    """A ratio that was aimed at, and what it is: None if this run does not show it."""

    words: str
    limit: float
    measured: float | None

    @property
    def row(self) -> list:
        """The target as a row of its table."""
        if self.measured is None:
            return [self.words, Cell(text=f"{self.limit:.2f}"), Cell(text="-"), Cell(text="not measured")]
        outcome = "met" if self.measured <= self.limit else "missed"
        return [self.words, Cell(text=f"{self.limit:.2f}"), Cell(text=f"{self.measured:.2f}", kind="todana"), Cell(text=outcome)]


class NamesAndGroups:
    """The cells of e3_names.py, and what follows from them; nothing without cells."""

    def __init__(self, results):
        self.hosts = [each for each in results if each["part"] == "host"]
        self.results = [each for each in results if each["part"] == "names"]
        self.counts = sorted({each["nodes"] for each in self.results})
        self.cells = {
            (each["nodes"], each["mesh"], each["log"], each["arm"], each.get("at", "node"), each["operation"]): each for each in self.results
        }

    def cell(self, count, cluster, arm, at, operation) -> dict:
        """A result; if its cluster did not run, the result that says why."""
        found = self.cells.get((count, *cluster, arm, at, operation))
        return found or {name: text for name, text in self.idle(count, cluster).items() if name == "failed"}

    def idle(self, count, cluster) -> dict:
        """The result that each cluster has."""
        return self.cells.get((count, *cluster, "all", "node", "idle"), {})

    def values(self, count, cluster, arm, at, operation, figure) -> tuple:
        """The rounds of a figure."""
        return tuple(self.cell(count, cluster, arm, at, operation).get(figure, ()))

    def median(self, *cell) -> float | None:
        """The median of a figure, if it has one above zero."""
        found = self.values(*cell)
        return (statistics.median(found) or None) if found else None

    # ------------------------------------------------------------- tables ---

    def tables(self) -> list[Table]:
        """The targets, then each figure of names and of groups, then what idle clusters use."""
        if not self.results:
            return []
        found = [Table(
            "Names and groups: what was aimed at, as ratios of medians", [("", ""), ("at most", ""), ("measured", "todana"), ("", "")],
            [each.row for each in self.targets()],
        )]  # fmt: skip
        for subject, operations, peer in (("Names", NAMES, "global"), ("Groups", GROUPS, "pg")):
            for figure, (words, pattern) in FIGURES.items():
                found.append(self._figure(f"{subject}: {words}", operations, peer, figure, pattern))
        return [*found, self._idle()]

    def _figure(self, caption, operations, peer, figure, pattern):
        is_time = figure == "us_per_operation"
        heads = [("all nodes", "")]
        for count in self.counts:
            heads += [(f"{count}, 2014", "published")] if is_time and count in published.E3_NODES else []
            heads.append((f"{count}, today", "baseline"))
        rows = []
        for operation, (words, then) in operations.items():
            arms = [(f"{peer}: {words}{shape}", cluster, peer, "node", "baseline")
                    for cluster, shape in ((MESH, ""), (IN_MEMORY, ", beside a log in memory"))]  # fmt: skip
            arms += [
                (f"Todana: {words}, {PLACES[at]}, {shape}", cluster, "todana", at, "todana")
                for at in PLACES
                for cluster, shape in CLUSTERS.items()
            ]
            if operation == "whereis_first":
                arms += [(f"erpc call of a member, {PLACES['guest']}, {shape}", cluster, "erpc", "guest", "baseline")
                         for cluster, shape in CLUSTERS.items()]  # fmt: skip
            for label, cluster, arm, at, kind in arms:
                name = operation if arm != "erpc" else "call"
                # A failure has a cell here too.
                if not any(figure in each or "failed" in each for each in (self.cell(n, cluster, arm, at, name) for n in self.counts)):
                    continue
                row = [label]
                for count in self.counts:
                    if is_time and count in published.E3_NODES:
                        figures = dict(zip(published.E3_NODES, published.E3_OPERATIONS.get(then if arm == peer else None, ())))
                        row.append(known(figures.get(count)))
                    row.append(self._shown(self.cell(count, cluster, arm, at, name), figure, pattern, kind))
                rows.append(row)
        return Table(caption, heads, rows)

    @staticmethod
    def _shown(result, figure, pattern, kind):
        values = tuple(result.get(figure, ()))
        return missing(result) or (Cell(values, pattern, kind=kind) if values else Cell(text="-"))

    def _idle(self):
        heads = [("all nodes", ""), *[(f"{count}", "todana") for count in self.counts]]
        rows = [
            [f"{words}, {shape}", *[self._shown(self.idle(count, cluster), figure, pattern, "todana") for count in self.counts]]
            for figure, (words, pattern) in IDLE.items()
            for cluster, shape in CLUSTERS.items()
        ]
        return Table("Idle clusters with an open scope, all nodes together", heads, rows)

    # ------------------------------------------------------------ contests ---

    def contests(self) -> list[Contest]:
        """Todana beside `global` and `pg`: time, and CPU time of all nodes, of each operation."""
        found = []
        for back_end, cluster in ((LOG_ON_DISK, MESH), (LOG_IN_MEMORY, IN_MEMORY)):
            for count in self.counts:
                for operation, peer in PEERS.items():
                    for at, words in PLACES.items():
                        for figure, of in (("us_per_operation", ""), ("cpu_us_per_operation", " by CPU")):
                            own = self.values(count, cluster, "todana", at, operation, figure)
                            other = self.values(count, cluster, peer, "node", operation, figure)
                            # Look-ups use too little CPU time to compare it.
                            if operation.startswith(("whereis", "members")) and of:
                                continue
                            if own and other and statistics.median(own) and statistics.median(other):
                                where = f"{(NAMES | GROUPS)[operation][0]}, {words}, {plural(count, 'node')}"
                                found.append(Contest(peer + of, where, own, other, False, back_end=back_end))
        return found

    # -------------------------------------------------------------- targets ---

    def targets(self) -> list[Target]:
        """What the names and groups were meant to cost."""
        return [*self._flat(), *self._of_global(), *self._look_ups(), *self._first_look_ups()]

    def _own(self, count, at, operation, figure, cluster=MESH):
        return self.median(count, cluster, "todana", at, operation, figure)

    def _flat(self):
        few, many = FLAT_COUNTS
        return [
            Target(
                f"{operation}, {PLACES[at]}, {CLUSTERS[NO_MESH]}: {words}, {many} nodes / {few} nodes", FLAT_MAX,
                divided(self._own(many, at, operation, figure, NO_MESH), self._own(few, at, operation, figure, NO_MESH)),
            )
            for operation in ("register", "join") for at in PLACES for figure, words in TIME_AND_CPU
        ]  # fmt: skip

    def _of_global(self):
        return [
            Target(
                f"{operation}, {PLACES[at]}: {words} / a registration by global, {count} nodes", limit,
                divided(self._own(count, at, operation, figure), self.median(count, MESH, "global", "node", "register", figure)),
            )
            for count, limit in OF_GLOBAL_MAX.items() for operation in ("register", "join") for at in PLACES
            for figure, words in TIME_AND_CPU
        ]  # fmt: skip

    def _look_ups(self):
        return [
            Target(
                f"{operation}, {'a copy of a guest' if at == 'guest' else 'a member'}: time / {PEERS[operation]}, {plural(count, 'node')}",
                LOOK_UP_MAX, divided(
                    self._own(count, at, operation, "us_per_operation"),
                    self.median(count, MESH, PEERS[operation], "node", operation, "us_per_operation"),
                ),
            )
            for operation in ("whereis", "members") for at in PLACES for count in self.counts if at == "member" or count > 1
        ]  # fmt: skip

    def _first_look_ups(self):
        return [
            Target(
                f"whereis for the first time, at a guest, {CLUSTERS[NO_MESH]}: time / an erpc call, {plural(count, 'node')}", FIRST_LOOK_UP_MAX,
                divided(
                    self._own(count, "guest", "whereis_first", "us_per_operation", NO_MESH),
                    self.median(count, NO_MESH, "erpc", "guest", "call", "us_per_operation"),
                ),
            )
            for count in self.counts if count > 1
        ]  # fmt: skip

    # --------------------------------------------------------------- pictures ---

    def panels(self) -> list[Panel]:
        """Registrations and joins by the number of nodes: time, and CPU time of all nodes."""
        if not any("us_per_operation" in each for each in self.results):
            return []
        found = []
        for name, title, operation, then in (
            ("names", "Registration of a name", "register", "global_register"), ("groups", "Join of a group", "join", "pg2_join"),
        ):  # fmt: skip
            for figure, suffix, axis in (("us_per_operation", "", "microseconds per operation"), ("cpu_us_per_operation", "-cpu", "CPU us, all nodes")):
                series = []
                if not suffix:
                    points = {n: [value] for n, value in zip(published.E3_NODES, published.E3_OPERATIONS[then]) if value is not None}
                    series.append(Series(f"{'global' if name == 'names' else 'pg2'}, published 2014", points, "published"))
                series.append(self._series(PEERS[operation], PEERS[operation], MESH, "node", operation, figure))
                if name == "groups" and not suffix:
                    series.append(self._series("pg, until all know", "pg", MESH, "node", "join_everywhere", figure))
                series += [
                    self._series(f"Todana {PLACES[at]}{words}", "todana", cluster, at, operation, figure)
                    for cluster, words in ((MESH, ""), (IN_MEMORY, ", log in memory")) for at in PLACES
                ]  # fmt: skip
                found.append(Panel(name + suffix, title + (": CPU time" if suffix else ""), "nodes", axis, series))
        return found

    def _series(self, label, arm, cluster, at, operation, figure):
        points = {}
        for count in self.counts:
            values = self.values(count, cluster, arm, at, operation, figure)
            points[count] = values if values and min(values) > 0 else None
        return Series(label, points, "todana" if arm == "todana" else "baseline")

    # --------------------------------------------------------------- remarks ---

    def remarks(self) -> list[str]:
        """What the counts, arms and figures are."""
        if not self.results:
            return []
        found = [
            "Names and groups: a count of nodes is that of all nodes of the cluster, while 2014 counts those beside the one that measures. "
            "One node is a member of Todana alone; otherwise three nodes are members, with a replica each, and all others guests: 4 nodes "
            "are 3 members and 1 guest, 64 are 3 and 61. The program that measures belongs to no cluster.",
            "A guest registers what a member looks up, and the reverse. The member is one that does not lead. `global` and `pg`, to which "
            "all nodes are the same, register at a guest. All guests have the scope open.",
            "Orderings compare arms of one cluster, whose rounds are interleaved: all its nodes are connected, because `global` and `pg` need "
            "that. Todana does not: without a mesh, guests are connected to members only, as `bin/todana` connects them. The tables have both.",
            "CPU time, messages and bytes are those of all nodes until they are idle again, without what the idle cluster uses in the same "
            "time (last table of names and groups). A registration by Todana is on the disks of a majority when it returns; a join "
            "by `pg` returns before any other node has it.",
        ]  # fmt: skip
        if apart := [n for n in self.counts if n > 1 and {each.get("together") for each in self.results if each["nodes"] == n} == {1}]:
            found.append(
                f"The clusters of {', '.join(map(str, apart))} nodes (mesh, mesh with the log in memory, no mesh) ran one after another: "
                "the rounds of different clusters are not interleaved."
            )
        if large := [n for n in self.counts if self._load(n) is not None and n != self.counts[0] and self._load(n) < self._load(self.counts[0])]:
            found.append(f"With {', '.join(map(str, large))} nodes, a round has {times([self._load(n) for n in large], '{:.0f}').split()[0]} names.")
        if load := max((each["load_average_before"] for each in self.hosts if each["load_average_before"] > QUIET_LOAD), default=None):
            found.append(f"Names and groups: the host had other work (load average {load} before the run), so these figures are worse than on a quiet host.")
        return found

    def _load(self, count):
        return max((each["names"] for each in self.results if each["nodes"] == count and "names" in each), default=None)


TIME_AND_CPU = (("us_per_operation", "time"), ("cpu_us_per_operation", "CPU time"))


def divided(own, other) -> float | None:
    """A ratio, if both figures are there."""
    return own / other if own and other else None
