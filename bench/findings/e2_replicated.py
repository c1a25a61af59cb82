"""E2 on three nodes: the replicated status, and what became of it when the network was cut in two parts."""

from __future__ import annotations

from .section import (
    THREE_NODES, Cell, Contest, Panel, Series, Table, counted, kind_of, missing, plural,
)  # fmt: skip

ARMS = {
    "todana_update_leader": "Todana update, leader's node", "todana_update_follower": "Todana update, a follower's node",
    "todana_counter_leader": "Todana update_counter, leader's node", "todana_counter_follower": "Todana update_counter, a follower's node",
    "mnesia_transaction": "Mnesia transaction", "mnesia_sync_dirty": "Mnesia sync_dirty", "mnesia_async_dirty": "Mnesia async_dirty",
}  # fmt: skip
# Which operation of Todana does what a peer's does: a function of the old value, or a sum.
PEERS = {"mnesia_transaction": "update", "mnesia_sync_dirty": "update", "mnesia_async_dirty": "counter"}
# Beyond this, the report says that the host was not quiet.
QUIET_LOAD = 0.5
SYSTEMS = {"mnesia": "Mnesia", "mnesia_majority": "Mnesia, `{majority, true}`", "todana": "Todana"}


class Replicated:
    """The cells of e2_replicated.py, and what follows from them; nothing without cells."""

    def __init__(self, results):
        self.cells = {(cell["processes"], cell["arm"]): cell for cell in results if cell["part"] == "status"}
        self.load_average = max((cell["load_average_before"] for cell in results if cell["part"] == "host"), default=0.0)
        self.partitions = {cell["system"]: cell for cell in results if cell["part"] == "partition"}
        self.arms = [arm for arm in ARMS if any(arm == found for _, found in self.cells)]
        self.counts = sorted({count for count, _ in self.cells})

    def tables(self) -> list[Table]:
        """Operations, CPU, time of an operation, lost updates; then the partitions."""
        if not self.cells:
            return self._partition_tables()
        return [
            self._table("Three nodes: thousands of operations per second", "operations_per_second", "{:,.1f}", 1e3),
            self._table("Three nodes: CPU microseconds of all nodes per operation", "cpu_us_per_operation", "{:,.1f}", 1.0),
            self._table("Three nodes: updates that succeeded and are not in the sum, all rounds", "lost_updates", "{:,.0f}", 1.0, sum_up=True),
            self._profile(),
            *self._partition_tables(),
        ]

    def _table(self, caption, name, pattern, scale, sum_up=False):
        heads = [("processes", ""), *[(ARMS[arm], kind_of(arm)) for arm in self.arms]]
        rows = []
        for count in self.counts:
            row = [f"{count:,}"]
            for arm in self.arms:
                cell = self.cells.get((count, arm), {})
                values = tuple(each / scale for each in counted(cell.get(name, ())))
                values = (sum(values),) if sum_up and values else values
                row.append(missing(cell) or Cell(values, pattern, kind=kind_of(arm)))
            rows.append(row)
        return Table(caption, heads, rows)

    def _profile(self):
        count = self.counts[-1]
        rows = [
            [f"{ARMS[arm]}, {row['label']}", *[Cell(text=f"{row[name]:,.1f}", kind=kind_of(arm)) for name in ("mean_us", "p50_us", "p99_us")]]
            for arm in self.arms
            for row in self.cells.get((count, arm), {}).get("profile", ())
        ]
        heads = [("", ""), *[(word, "baseline") for word in ("mean us", "p50 us", "p99 us")]]
        return Table(f"Three nodes: time of an operation, {plural(count, 'process')}", heads, rows)

    def _partition_tables(self):
        if not self.partitions:
            return []
        return [self._side_table(), self._end_table()]

    def _side_table(self):
        rows = []
        for system, cell in self.partitions.items():
            if found := missing(cell):
                rows.append([SYSTEMS[system], *[found] * 6])
                continue
            for name, side in cell["sides"].items():
                label = f"{SYSTEMS[system]}, {'the node that is cut off' if name == cell['minority'] else 'one of the other two'}"
                words = sorted(cell["words"].get(name, {}).items(), key=lambda item: -item[1])
                rows.append([
                    label, *[Cell(text=f"{side[outcome]:,}", kind=kind_of(system)) for outcome in ("done", "refused", "unknown")],
                    *[Cell(text=f"{side[field]:.1f} s", kind=kind_of(system)) for field in ("longest_without_success_s", "last_success_s")],
                    Cell(text=f"`{_short(words[0][0])}`" if words else "-"),
                ])  # fmt: skip
        heads = [
            ("client of", ""), ("acknowledged", ""), ("refused", ""), ("outcome unknown", ""), ("longest time without success", ""),
            ("last success after the cut", ""), ("most frequent word of an error", ""),
        ]  # fmt: skip
        return Table("A network in two parts: writes that were sent while it was cut", heads, rows)

    def _end_table(self):
        rows = []
        for system, cell in self.partitions.items():
            for field, when in (("after_healing", "after the network was whole again"), ("after_repair", "after the repair")):
                if field in cell:
                    end = cell[field]
                    for name, node in end["nodes"].items():
                        which = "the node that was cut off" if name == cell["minority"] else "one of the other two"
                        added = f"{end['adds_acknowledged']:,}" + (f" (+ {end['adds_unknown']} unknown)" if end["adds_unknown"] else "")
                        rows.append([
                            f"{SYSTEMS[system]}, {which}, {when}", Cell(text=f"{node['inserts_missing']:,} of {end['inserts_acknowledged']:,}"),
                            Cell(text=f"{node['sum']:,}"), Cell(text=added),
                        ])  # fmt: skip
        heads = [("node", ""), ("acknowledged records that it lacks", ""), ("the sum that it has", ""), ("increments acknowledged by all", "")]
        return Table("A network in two parts: what was left", heads, rows)

    def panels(self) -> list[Panel]:
        """Operations by processes."""
        if not self.cells:
            return []
        series = [
            Series(ARMS[arm], {count: self.cells.get((count, arm), {}).get("operations_per_second") for count in self.counts}, kind_of(arm))
            for arm in self.arms
        ]  # fmt: skip
        return [Panel("three-nodes", "One status on three nodes", "processes", "operations per second", series)]

    def contests(self) -> list[Contest]:
        """Todana beside each way of Mnesia, from both kinds of node."""
        found = []
        for count in self.counts:
            for peer, operation in PEERS.items():
                for place, words in (("leader", "leader's node"), ("follower", "a follower's node")):
                    own, other = (
                        self.cells.get((count, arm), {}).get("operations_per_second") for arm in (f"todana_{operation}_{place}", peer)
                    )
                    if own and other:
                        where = f"{plural(count, 'process')}, {words}"
                        found.append(Contest(ARMS[peer], where, tuple(own), tuple(other), True, back_end=THREE_NODES))
        return found

    def remarks(self) -> list[str]:
        """What the figures mean, and the partition in words."""
        if not self.cells and not self.partitions:
            return []
        found = [
            "On three nodes, the two do not promise the same: an update of Todana is on the disks of a majority when it returns, and no "
            "update is lost. Mnesia's `ram_copies` are in memory only; with `sync_dirty` and `async_dirty` nothing is locked, so "
            "concurrent updates of `sync_dirty` (a read, then a write) overwrite each other, as the table shows. `async_dirty` "
            "(`mnesia:dirty_update_counter/3`) returns before the other nodes have the update. All three nodes share one host and one disk.",
        ]
        if self.load_average > QUIET_LOAD:
            found.append(
                f"The load average of the host was {self.load_average:.1f} when the run on three nodes began, by other programs: rates and times are "
                "worse than on a quiet host, and CPU times are the better figure."
            )
        return found + [line for system in SYSTEMS if (line := self._story(system))]

    def _story(self, system) -> str:
        cell = self.partitions.get(system)
        if cell is None or "sides" not in cell:
            return ""
        cut_off, others = cell["minority"], [name for name in cell["sides"] if name != cell["minority"]]
        alone, majority = cell["sides"][cut_off], sum(cell["sides"][name]["done"] for name in others)
        seconds = cell["healed_at_s"] - cell["cut_at_s"]
        text = (
            f"**{SYSTEMS[system]}, a network in two parts** ({cell['setting']}, cut for {seconds:.0f} s): the two nodes acknowledged "
            f"{majority:,} writes meanwhile, the node that was cut off {alone['done']:,}; it refused {alone['refused']:,}, and "
            f"{alone['unknown']:,} had an unknown outcome."
        )
        ends = [("afterwards", cell["after_healing"])] + ([("after the repair", cell["after_repair"])] if "after_repair" in cell else [])
        for when, end in ends:
            lacking = [node["inserts_missing"] for node in end["nodes"].values()]
            sums = sorted({node["sum"] for node in end["nodes"].values()})
            text += (
                f" {when[0].upper() + when[1:]} the nodes lacked {_range(lacking)} of {end['inserts_acknowledged']:,} acknowledged records, and the sum of "
                f"{end['adds_acknowledged']:,} acknowledged increments was {' and '.join(f'{each:,}' for each in sums)}."
            )
        return text


def _range(values) -> str:
    return f"{values[0]:,}" if len(set(values)) == 1 else f"{min(values):,} to {max(values):,}"


def _short(text) -> str:
    """The beginning of an error, as a table can show it."""
    text = " ".join(text.replace("|", "/").replace("`", "'").split())
    return text if len(text) <= 90 else text[:87] + "..."
