"""What the report says of each experiment: its tables, its plot, and who was ahead.

A section is data; page.py makes Markdown and HTML of it. An ordering is stated only where every round of the one is beyond
every round of the other.
"""

from __future__ import annotations

import dataclasses
import statistics

import published
from plots import Panel, Series

# What "CPU of the node" counts, and how finely.
CPU_CLOCK = "in steps of 10 ms a round; schedulers that wait busily included"
# With fewer rounds than this, medians are told, but no ordering.
ROUNDS_MIN = 3


@dataclasses.dataclass(frozen=True)
class Cell:
    """Of a table: rounds of a figure, or a text, or why there is none."""

    values: tuple = ()
    pattern: str = "{:,.2f}"
    text: str = ""
    missing: str = ""  # "failed", "not possible"
    reason: str = ""
    kind: str = "baseline"  # or "published", "todana", "ratio"


@dataclasses.dataclass(frozen=True)
class Table:
    """Heads are pairs of text and kind; rows begin with their label."""

    caption: str
    heads: list
    rows: list


@dataclasses.dataclass(frozen=True)
class Contest:
    """Todana and another in one cell."""

    peer: str
    where: str
    own: tuple
    other: tuple
    higher_is_better: bool

    @property
    def ratio(self) -> float:
        """Todana's median over the other's."""
        return statistics.median(self.own) / (statistics.median(self.other) or 1.0)

    @property
    def is_worse(self) -> bool:
        """Whether Todana's median is the worse one."""
        return self.ratio < 0.995 if self.higher_is_better else self.ratio > 1.005

    @property
    def verdict(self) -> str:
        """`ahead` or `behind` in all rounds, otherwise `open`; with few rounds, by the medians."""
        own, other = self.own, self.other
        if not self.higher_is_better:
            own, other = [-value for value in own], [-value for value in other]
        if not self.is_settled:
            difference = statistics.median(own) - statistics.median(other)
            return "ahead" if difference > 0 else "behind" if difference < 0 else "open"
        if min(own) > max(other):
            return "ahead"
        return "behind" if max(own) < min(other) else "open"

    @property
    def is_settled(self) -> bool:
        """Whether there are rounds enough to state an ordering."""
        return min(len(self.own), len(self.other)) >= ROUNDS_MIN


@dataclasses.dataclass
class Section:
    """One experiment."""

    name: str
    title: str
    question: str
    finding: str
    # The published remedy, as a contest's peer calls it, and what the contests compare.
    remedy: str
    figure: str
    tables: list
    panels: list
    contests: list
    remarks: list = dataclasses.field(default_factory=list)
    failed: str = ""
    # Whose arm the contests are about.
    own: str = "Todana"
    remedy_words: str = "the published remedy"


def spread(found, name) -> tuple:
    """A figure of each round."""
    return tuple(each[name] for each in found)


def missing(result) -> Cell | None:
    """Why a result has no figures."""
    for key, word in (("failed", "failed"), ("not_possible", "not possible")):
        if key in result:
            return Cell(missing=word, reason=str(result[key]))
    return None


def ratio(own, other) -> Cell:
    """Median over median."""
    if not own or not other or not statistics.median(other):
        return Cell(text="-", kind="ratio")
    return Cell(text=f"{statistics.median(own) / statistics.median(other):.2f}x", kind="ratio")


def known(value, pattern="{:,.2f}") -> Cell:
    """A published figure, or none."""
    return Cell(text="-" if value is None else pattern.format(value), kind="published")


def distinct(results, *names) -> list:
    """Values of these fields, in the order of the results."""
    keys = [tuple(result[name] for name in names) if len(names) > 1 else result[names[0]] for result in results]
    return list(dict.fromkeys(keys))


def plural(count, noun) -> str:
    """So many of something."""
    return f"{count:,} {noun}" + ("" if count == 1 else "es" if noun.endswith("s") else "s")


def kind_of(arm) -> str:
    """Whose column an arm is."""
    return "todana" if str(arm).startswith("todana") else "baseline"


# ----------------------------------------------------------------------- E1 ---

E1_ARMS = {
    "dict_local": "dict, the reader's own", "dict": "dict process", "gen_server": "gen_server, map", "ets": "named ETS",
    "persistent": "persistent_term", "todana": "Todana",
}


def e1(results) -> Section:
    """Reads per second by clients."""
    tables, contests, remarks = [], [], []
    arms = distinct(results, "arm")
    for keys in distinct(results, "keys", "value_bytes", "spread"):
        cells = {
            (result["clients"], result["arm"]): result
            for result in results
            if (result["keys"], result["value_bytes"], result["spread"]) == keys
        }
        clients = sorted({count for count, _ in cells})
        words = _e1_words(*keys)
        plain = keys[0] == "integer" and keys[2] == "spread"
        tables.append(_e1_reads(cells, clients, arms, words, plain))
        if plain:
            tables.append(_e1_scale(cells, clients, arms))
            tables.append(_e1_cpu(cells, clients, arms))
        for count in clients:
            for arm in arms:
                own, other = cells.get((count, "todana"), {}), cells.get((count, arm), {})
                if arm != "todana" and own.get("reads_per_second") and other.get("reads_per_second"):
                    contests.append(Contest(
                        E1_ARMS.get(arm, arm), f"{words}, {plural(count, 'client')}", tuple(own["reads_per_second"]),
                        tuple(other["reads_per_second"]), True,
                    ))  # fmt: skip
    remarks.append(
        "persistent_term is a constant pool: each change of one makes every process scan its heap, so it is no store "
        "for what changes; it stands here as what a read can cost at least."
    )
    remarks.append(
        "The published serial run, ten million reads by one process, was {dict:.2f} M/s of a dict (its own, as we read it) "
        "and {ets:.2f} M/s of ETS; here it is one client's row.".format(**published.E1_SERIAL_MILLIONS)
    )
    remarks.append(
        "With integer keys ETS is at its best, for it compares small terms. Todana makes decimal text of them and back, which "
        "every protocol can read."
    )
    return Section(
        "e1", "Reads that scale", "Do readers that run side by side get in each other's way?",
        "Readers must not pass through the owner: a process that owns a dict stays at 1.5 times one client's reads, "
        "a named table with read_concurrency scales with the cores.",
        "named ETS", "reads per second", tables, [_e1_panel(results, arms, "spread"), _e1_panel(results, arms, "hot")],
        contests, remarks,
    )  # fmt: skip


def _e1_words(keys, value_bytes, spread_word):
    if keys == "integer":
        return "integer keys" if spread_word == "spread" else "integer keys, all clients read one"
    return f"binary keys, values of {value_bytes:,} B" + ("" if spread_word == "spread" else ", all clients read one")


def _e1_reads(cells, clients, arms, words, with_published):
    heads = [("clients", "")]
    heads += [(f"{E1_ARMS[arm]}, 2014", "published") for arm in published.E1_READS if with_published]
    heads += [(E1_ARMS.get(arm, arm), kind_of(arm)) for arm in arms] + [("Todana / ETS", "ratio")]
    rows = []
    for count in clients:
        row = [f"{count:,}"]
        if with_published:
            row += [known(found.get(count) and found[count] / 1e6) for found in published.E1_READS.values()]
        row += [_millions(cells.get((count, arm)), arm) for arm in arms]
        rows.append([*row, ratio(*[cells.get((count, arm), {}).get("reads_per_second") for arm in ("todana", "ets")])])
    return Table(f"Millions of reads per second, {words}", heads, rows)


def _millions(result, arm):
    if result is None:
        return Cell(text="-")
    values = tuple(value / 1e6 for value in result.get("reads_per_second", ()))
    return missing(result) or Cell(values, kind=kind_of(arm))


def _e1_scale(cells, clients, arms):
    heads = [("clients", ""), *[(f"{E1_ARMS[arm]}, 2014", "published") for arm in published.E1_READS]]
    heads += [(E1_ARMS.get(arm, arm), kind_of(arm)) for arm in arms]
    rows = []
    for count in clients:
        row = [f"{count:,}", *[known(f.get(count) and f[count] / f[1]) for f in published.E1_READS.values()]]
        for arm in arms:
            found = [cells.get((each, arm), {}).get("reads_per_second") for each in (count, clients[0])]
            scale = statistics.median(found[0]) / statistics.median(found[1]) if all(found) else None
            row.append(Cell(text="-" if scale is None else f"{scale:.2f}", kind=kind_of(arm)))
        rows.append(row)
    return Table(f"Scale: reads of so many clients over those of {clients[0]}, integer keys", heads, rows)


def _e1_cpu(cells, clients, arms):
    heads = [("clients", ""), *[(E1_ARMS.get(arm, arm), kind_of(arm)) for arm in arms], ("Todana / ETS", "ratio")]
    rows = []
    for count in clients:
        found = {arm: _counted(cells.get((count, arm), {}).get("cpu_us_per_read", ())) for arm in arms}
        cell = [Cell(v, "{:.3f}", kind=kind_of(arm)) if v else Cell(text="-") for arm, v in found.items()]
        rows.append([f"{count:,}", *cell, ratio(found.get("todana"), found.get("ets"))])
    return Table(f"CPU microseconds of the node per read, integer keys ({CPU_CLOCK})", heads, rows)


def _e1_panel(results, arms, spread_word):
    chosen = [each for each in results if each["keys"] == "integer" and each["spread"] == spread_word]
    series = []
    if spread_word == "spread":
        series = [
            Series(f"{E1_ARMS[arm]}, published 2014", {count: [value] for count, value in found.items()}, "published")
            for arm, found in published.E1_READS.items()
        ]
    series += [
        Series(
            E1_ARMS.get(arm, arm),
            {each["clients"]: each.get("reads_per_second") for each in chosen if each["arm"] == arm}, kind_of(arm),
        )
        for arm in arms
    ]  # fmt: skip
    title = "1,000 integer keys" if spread_word == "spread" else "All clients read one key"
    return Panel(title, "clients", "reads per second", series)


# ----------------------------------------------------------------------- E2 ---

E2_ARMS = {
    "gen_server": "gen_server call", "ets": "ETS", "mnesia_transaction": "Mnesia transaction",
    "mnesia_dirty": "Mnesia dirty", "todana": "Todana",
}


def e2(results) -> Section:
    """Operations per second on one status."""
    cells = {(result["processes"], result["arm"]): result for result in results if "arm" in result}
    arms = list(dict.fromkeys(arm for _, arm in cells))
    counts = sorted({count for count, _ in cells})
    rows, contests = [], []
    for count in counts:
        row = [f"{count:,}"]
        for arm in arms:
            result = cells[count, arm]
            values = tuple(value / 1e3 for value in result.get("operations_per_second", ()))
            row.append(missing(result) or Cell(values, "{:,.0f}", kind=kind_of(arm)))
            own = cells.get((count, "todana"), {}).get("operations_per_second")
            if arm != "todana" and values and own:
                contests.append(Contest(
                    E2_ARMS.get(arm, arm), plural(count, "process"), tuple(own), tuple(result["operations_per_second"]), True
                ))  # fmt: skip
        found = [cells.get((count, arm), {}).get("operations_per_second") for arm in ("todana", "mnesia_dirty", "ets")]
        rows.append([*row, ratio(found[0], found[1]), ratio(found[0], found[2])])
    heads = [("processes", ""), *[(E2_ARMS.get(arm, arm), kind_of(arm)) for arm in arms]]
    heads += [("Todana / Mnesia dirty", "ratio"), ("Todana / ETS", "ratio")]
    tables = [
        Table("Thousands of operations per second on one status, an update and a read by turns", heads, rows),
        _e2_cpu(cells, counts, arms),
        _e2_shape(cells, counts[-1]),
        _e2_profile(cells, counts[-1], arms),
    ]
    profilers = {result["profiler"]: result for result in results if "profiler" in result}
    if profilers:
        tables.append(_e2_profilers(profilers))
    series = [
        Series(
            E2_ARMS.get(arm, arm), {count: cells[count, arm].get("operations_per_second") for count in counts},
            kind_of(arm),
        )
        for arm in arms
    ]  # fmt: skip
    bars = [
        Series(E2_ARMS.get(arm, arm), {0: [row["mean_us"]]}, kind_of(arm))
        for arm in arms
        for row in cells[counts[-1], arm].get("profile", ())
        if row["label"] == "update"
    ]
    return Section(
        "e2", "Where a hot server keeps its state", "What does it cost many processes to update and read one status?",
        "State that many processes touch belongs in a shared table: 10,000 inserts spent 7.66 s calling for a status "
        "that took 0.79 s to keep. ETS was more than ten times faster; Mnesia's dirty reads cost twice those of ETS.",
        "Mnesia dirty", "operations per second", tables,
        [Panel("Operations on one status", "processes", "operations per second", series),
         Panel(f"Mean time of an update, {counts[-1]} processes", "", "microseconds", bars, bars=True)],
        contests,
        ["Every update and read is profiled while it is counted. What a pair of start and stop costs (last table) is in all "
         "figures, so ratios between the fastest arms are nearer to 1 than without it.",
         "The original's profiler, one process, took 1.05 us a pair when it was run on OTP 25 for this project's design; the "
         "last table has the same design rebuilt, and measured in this run.",
         "Todana keeps the number as text under a lock of its shard, so that every protocol can add to it; ETS adds to a term."],
        remedy_words="the published remedy that replicates",
    )  # fmt: skip


def _e2_cpu(cells, counts, arms):
    heads = [("processes", ""), *[(E2_ARMS.get(arm, arm), kind_of(arm)) for arm in arms]]
    rows = []
    for count in counts:
        found = [_counted(cells.get((count, arm), {}).get("cpu_us_per_operation", ())) for arm in arms]
        cell = [Cell(v, "{:.3f}", kind=kind_of(arm)) if v else Cell(text="-") for arm, v in zip(arms, found)]
        rows.append([f"{count:,}", *cell])
    return Table(f"CPU microseconds of the node per operation ({CPU_CLOCK})", heads, rows)


def _counted(values) -> tuple:
    """Without the rounds that were too short for the system's clock of CPU time."""
    return tuple(each for each in values if each is not None)


def _profile(cells, count, arm, label):
    return next((row for row in cells.get((count, arm), {}).get("profile", ()) if row["label"] == label), None)


def _e2_shape(cells, count):
    middle = {
        arm: statistics.median(cells[count, arm]["operations_per_second"])
        for arm in E2_ARMS
        if cells.get((count, arm), {}).get("operations_per_second")
    }
    speedup = [
        middle[arm] / middle["gen_server"] if {arm, "gen_server"} <= set(middle) else None for arm in ("ets", "todana")
    ]
    reads = {arm: _profile(cells, count, arm, "read") for arm in ("ets", "mnesia_dirty", "todana")}
    cost = [
        reads[arm]["p50_us"] / reads["ets"]["p50_us"] if reads[arm] and reads["ets"] and reads["ets"]["p50_us"] else None
        for arm in ("mnesia_dirty", "todana")
    ]
    words = [[Cell(text="-" if each is None else f"{each:.1f}x", kind=kind) for each, kind in
              zip(found, ("baseline", "todana"))] for found in (speedup, cost)]  # fmt: skip
    called = _profile(cells, count, "gen_server", "update")
    then = 1e6 * published.E2_CALLER_SECONDS / published.E2_CALLS
    own = _profile(cells, count, "todana", "update")
    return Table(
        f"The published shape, measured again with {count} processes",
        [("", ""), ("2010", "published"), ("today", "baseline"), ("Todana", "todana")],
        [
            ["a shared table over a call: operations per second", known(published.E2_ETS_SPEEDUP, "> {:.0f}x"), *words[0]],
            ["a read by Mnesia dirty, by Todana, in reads of ETS (p50)",
             known(published.E2_DIRTY_READ_IN_ETS_READS, "{:.0f}x"), *words[1]],
            ["mean time of an update, behind a call and by Todana", known(then, "{:.0f} us"),
             Cell(text=f"{called['mean_us']:.1f} us" if called else "-"),
             Cell(text=f"{own['mean_us']:.2f} us" if own else "-", kind="todana")],
        ],
    )  # fmt: skip


def _e2_profile(cells, count, arms):
    rows = [
        [
            f"{E2_ARMS.get(arm, arm)}, {row['label']}",
            *[
                Cell(text=pattern.format(row[name]), kind=kind_of(arm))
                for name, pattern in (
                    ("seconds", "{:.3f}"), ("calls", "{:,}"), ("mean_us", "{:.2f}"), ("p50_us", "{:.2f}"), ("p99_us", "{:.2f}"),
                )  # fmt: skip
            ],
        ]
        for arm in arms
        for row in cells[count, arm].get("profile", ())
    ]
    heads = [("label", ""), *[(word, "baseline") for word in ("total seconds", "calls", "mean us", "p50 us", "p99 us")]]
    return Table(f"Profile of all rounds with {count} processes, by `todana_profile`", heads, rows)


def _e2_profilers(profilers):
    arms = {
        "counters": ("todana_profile: counters, no process", "todana"),
        "ets": ("start times and sums in ETS", "baseline"),
        "process": ("casts to one process, the original's design", "baseline"),
    }
    rows = [
        [words, missing(profilers[name]) or Cell(tuple(profilers[name]["us_per_pair"]), "{:.3f}", kind=kind)]
        for name, (words, kind) in arms.items()
        if name in profilers
    ]
    return Table("What the profiler itself costs", [("profiler", ""), ("us per pair of start and stop", "baseline")], rows)


# ----------------------------------------------------------------------- E3 ---

E3_OPERATIONS = {
    # operation: words, published operation
    "add_node": ("add a node (s)", "add_node"),
    "add_node_meshed": ("add a node, until it knows all (s)", None),
    "echo_pid": ("echo by pid", "echo_pid"),
    "echo_name": ("echo by name", "echo_name"),
    "erpc": ("erpc, asynchronous", None),
    "rpc": ("rpc, asynchronous", "rpc"),
    "monitor": ("monitor, kill, DOWN", "monitor"),
    "global_register": ("global: register", "global_register"),
    "global_unregister": ("global: unregister", "global_unregister"),
    "global_whereis": ("global: whereis", "global_whereis"),
    "pg2_create": ("pg2: create (pg has none)", "pg2_create"),
    "pg_join": ("pg: join (published: pg2)", "pg2_join"),
    "pg_join_everywhere": ("pg: join, until all know", None),
    "pg_members": ("pg: members (published: pg2 pick)", "pg2_pick"),
    "pg_leave": ("pg: leave", None),
}
# What OTP has no more: as published only.
E3_GONE = {"pg2_create"}
E3_SCALE_UP = {
    "echo_many": "echo, four servers per scheduler", "echo_one": "echo, one server", "erpc": "erpc",
    "rpc_one_process": "rpc through one process",
}  # fmt: skip


def e3(results) -> Section:
    """Microseconds per operation by nodes and by schedulers."""
    parts = {part: [each for each in results if each.get("part") == part] for part in ("nodes", "scale_up")}
    counts = sorted({each["nodes"] for each in parts["nodes"]})
    found = {(each["nodes"], each.get("operation")): each for each in parts["nodes"]}
    tables = [_e3_nodes(found, counts)]
    panels = [_e3_panel(found, counts)]
    if parts["scale_up"]:
        tables += [_e3_scale_up(parts["scale_up"], clients) for clients in distinct(parts["scale_up"], "clients")]
        panels.append(_e3_scale_up_panel(parts["scale_up"]))
    return Section(
        "e3", "What distributed Erlang costs as the cluster grows",
        "Which operations stay flat with more nodes, and what does one process in the path do to scale-up?",
        "Point-to-point operations stay flat to 256 nodes; what takes a lock of the whole cluster grows linearly; one "
        "process in the path stops scale-up.",
        "", "microseconds per operation", tables, panels, [],
        ["Todana has no arm here: names across nodes are not built yet. These are the baselines that they will be held to.",
         "All nodes share this machine's cores, where the published ones had ten hosts: with many nodes, the cores are "
         "what is measured too.", *_e3_left_out(parts["scale_up"])],
    )  # fmt: skip


def _e3_left_out(results):
    """The half of the experiment for which this machine has too few cores."""
    counts = sorted({count for each in results for count in each.get("scheduler_counts_left_out", ())})
    if not counts:
        return []
    return [
        f"Scheduler counts above this machine's cores ({', '.join(map(str, counts))}) were left out: more schedulers than "
        "cores would show how they share them, not what they add."
    ]


def _e3_cell(result, operation):
    if result is None:
        return Cell(text="-")
    scale = 1e6 if operation.startswith("add_node") else 1.0
    values = tuple(value / scale for value in result.get("us_per_operation", ()) if value is not None)
    return missing(result) or (Cell(values, "{:,.3f}" if scale > 1 else "{:,.2f}") if values else Cell(text="-"))


def _e3_nodes(found, counts):
    heads = [("us per operation", "")]
    for count in counts:
        heads += [(f"{plural(count, 'node')}, 2014", "published")] if count in published.E3_NODES else []
        heads += [(f"{plural(count, 'node')}, today", "baseline")]
    rows = []
    for operation, (words, then) in E3_OPERATIONS.items():
        if operation not in E3_GONE and not any((count, operation) in found for count in counts):
            continue
        row = [words]
        for count in counts:
            if count in published.E3_NODES:
                figures = dict(zip(published.E3_NODES, published.E3_OPERATIONS.get(then, ())))
                row.append(known(figures.get(count), "{:,.3f}" if then == "add_node" else "{:,.2f}"))
            # A count for which memory is missing has one result for all operations.
            result = found.get((count, operation)) or found.get((count, "all"))
            row.append(_e3_cell(None if operation in E3_GONE else result, operation))
        rows.append(row)
    return Table("By number of other nodes", heads, rows)


def _e3_panel(found, counts):
    series = [
        Series(f"{words}, published 2014", {
            count: [value] for count, value in zip(published.E3_NODES, published.E3_OPERATIONS[name]) if value is not None
        }, "published")
        for name, words in (("echo_pid", "echo by pid"), ("global_register", "global: register"))
    ]  # fmt: skip
    for operation in ("echo_pid", "erpc", "monitor", "global_register", "pg_join_everywhere"):
        points = {count: found.get((count, operation), {}).get("us_per_operation") for count in counts}
        series.append(Series(E3_OPERATIONS[operation][0], points))
    return Panel("As the cluster grows", "other nodes", "microseconds per operation", series)


def _e3_scale_up(results, clients):
    chosen = {(each["schedulers"], each["operation"]): each for each in results if each["clients"] == clients}
    operations = [name for name in E3_SCALE_UP if any(name == operation for _, operation in chosen)]
    heads = [("schedulers", ""), *[(f"{E3_SCALE_UP[name]}, 2014", "published") for name in published.E3_SCALE_UP]]
    heads += [(E3_SCALE_UP[name], "baseline") for name in operations]
    rows = [
        [f"{count}", *[known(figures.get(count)) for figures in published.E3_SCALE_UP.values()],
         *[_e3_cell(chosen.get((count, name)), name) for name in operations]]
        for count in sorted({count for count, _ in chosen})
    ]  # fmt: skip
    return Table(f"One server node, {plural(clients, 'client node')} (published: 9): us per operation", heads, rows)


def _e3_scale_up_panel(results):
    clients = max(each["clients"] for each in results)
    series = [
        Series(f"{E3_SCALE_UP[name]}, published 2014", {count: [value] for count, value in figures.items()}, "published")
        for name, figures in published.E3_SCALE_UP.items()
    ]
    for name, words in E3_SCALE_UP.items():
        chosen = [each for each in results if each["operation"] == name and each["clients"] == clients]
        if chosen:
            label = words if name != "erpc" else E3_OPERATIONS["erpc"][0]
            series.append(Series(label, {each["schedulers"]: each.get("us_per_operation") for each in chosen}))
    return Panel(f"One server, {plural(clients, 'client node')}", "schedulers online", "microseconds per operation", series)


# ----------------------------------------------------------------------- E4 ---

E4_PATHS = {"direct": "direct", "timer": "timer buffer", "load": "batch by load"}


def e4(results) -> Section:
    """Replies per second through a flooded mailbox."""
    cells = {(each["messages"], each["mailbox"], each["path"]): each for each in results}
    counts = sorted({count for count, _, _ in cells})
    arms = list(dict.fromkeys((mailbox, path) for _, mailbox, path in cells))
    rows, contests = [], []
    for count in counts:
        row = [f"{count:,}"]
        row += [known(figures.get(count), "{:,.0f}") for figures in published.E4_PER_SECOND.values()]
        speeds = {}
        for arm in arms:
            result = cells.get((count, *arm), {})
            speeds[arm] = spread(result.get("rounds", ()), "per_second")
            row.append(missing(result) or (Cell(speeds[arm], "{:,.0f}", kind=_e4_kind(arm)) if speeds[arm] else Cell(text="-")))
        for mailbox in distinct(results, "mailbox"):
            for path in ("timer", "direct"):
                own, other = speeds.get((mailbox, "load")), speeds.get((mailbox, path))
                if own and other:
                    where = f"{count:,} messages, {mailbox}"
                    contests.append(Contest(E4_PATHS[path], where, own, other, True))
        rows.append([*row, ratio(speeds.get(("off_heap", "load")), speeds.get(("off_heap", "timer")))])
    heads = [("messages", ""), *[(f"{_e4_words(arm)}, 2017", "published") for arm in published.E4_PER_SECOND]]
    heads += [(_e4_words(arm), _e4_kind(arm)) for arm in arms] + [("load / timer, off_heap", "ratio")]
    series = [
        Series(f"{_e4_words(arm)}, published 2017", {count: [value] for count, value in figures.items()}, "published")
        for arm, figures in published.E4_PER_SECOND.items()
        if arm in (("on_heap", "direct"), ("off_heap", "timer"))
    ]
    for arm in arms:
        points = {count: spread(cells.get((count, *arm), {}).get("rounds", ()), "per_second") for count in counts}
        series.append(Series(_e4_words(arm), points, _e4_kind(arm)))
    largest = [
        Series(_e4_words(arm), {0: [each / 1e3 for each in spread(cells.get((counts[-1], *arm), {}).get("rounds", ()), "p99_us")
                                    if each is not None]}, _e4_kind(arm))
        for arm in arms
    ]  # fmt: skip
    return Section(
        "e4", "What a flooded mailbox costs", "What becomes of a process into whose mailbox replies pile up?",
        "A flooded on_heap mailbox collapses, for its messages are garbage-collected again and again; off_heap holds; "
        "batching wins.",
        E4_PATHS["timer"], "replies per second",
        [Table("Replies per second", heads, rows), _e4_detail(cells, counts[-1], arms)],
        [Panel("Throughput", "messages", "replies per second", series),
         Panel(f"p99 of a round trip, {counts[-1]:,} messages", "", "milliseconds", largest, bars=True)],
        contests,
        ["No code of Todana is in the path: the batch by load is a pattern, written in `bench/e4.erl`. It is a sender that waits "
         "for nothing but the list before, and needs no timer.",
         "The timer buffer waits for 100 ms of quiet on either side before it sends what is left: much of a run of 10,000 "
         "messages, little of one of 500,000.", _e4_complete(cells)],
        own=f"The {E4_PATHS['load']}",
    )  # fmt: skip


def _e4_complete(cells):
    """Which rounds did not end with each message received once."""
    gaps = []
    for (count, *arm), result in cells.items():
        rounds = result.get("rounds", ())
        bad = sum(each["received"] < count or each["duplicated"] > 0 for each in rounds)
        if bad:
            gaps.append(f"{bad} of {plural(len(rounds), 'round')} of {_e4_words(tuple(arm))} with {count:,} messages")
    if gaps:
        return "Not all messages came back once by the deadline, so that speed and percentiles are of those that did: " + (
            "; ".join(gaps) + "."
        )
    return "In every round that has figures, each message came back, and once."


def _e4_words(arm):
    return f"{E4_PATHS.get(arm[1], arm[1])}, {arm[0]}"


def _e4_kind(arm):
    return "todana" if arm[1] == "load" else "baseline"


def _e4_detail(cells, count, arms):
    columns = {
        "sent": ("sent", "{:,.0f}", 1), "received": ("received", "{:,.0f}", 1),
        "waiting": ("waiting at the deadline", "{:,.0f}", 1), "lost": ("lost", "{:,.0f}", 1),
        "out_of_order": ("out of order", "{:,.0f}", 1), "p50_us": ("p50 ms", "{:,.1f}", 1e3),
        "p99_us": ("p99 ms", "{:,.1f}", 1e3), "queue_peak": ("queue peak", "{:,.0f}", 1),
        "gc_count": ("GCs", "{:,.0f}", 1), "gc_ms": ("GC ms", "{:,.1f}", 1), "cpu_ms": ("CPU ms", "{:,.0f}", 1),
    }  # fmt: skip
    rows = []
    for arm in arms:
        result = cells.get((count, *arm), {})
        row = [_e4_words(arm)]
        for name, (_, pattern, scale) in columns.items():
            values = tuple(each[name] / scale for each in result.get("rounds", ()) if each.get(name) is not None)
            row.append(missing(result) or (Cell(values, pattern, kind=_e4_kind(arm)) if values else Cell(text="-")))
        rows.append(row)
    heads = [("arm", ""), *[(words, "baseline") for words, _, _ in columns.values()]]
    return Table(f"What became of {count:,} messages", heads, rows)


# ----------------------------------------------------------------------- E5 ---

E5_PROTOCOLS = {"resp": "RESP", "memcached": "memcached protocol", "kyoto": "HTTP (Kyoto Tycoon)"}
E5_REQUESTS = 100_000


def e5(results) -> Section:
    """Seconds, CPU and system calls of one request per record."""
    cells = {
        (each["server"], each["backend"], each["protocol"], each["connections"], each["active"], each["operation"]): each
        for each in results
    }
    arms, loads = list(dict.fromkeys(key[:3] for key in cells)), list(dict.fromkeys(key[3:5] for key in cells))
    operations = distinct(results, "operation")
    backends = [backend for server, backend, _ in arms if server == "todana"]
    contests = [
        Contest(
            f"{server} by {E5_PROTOCOLS[protocol]}" + _e5_other(backend), f"{operation}, {_e5_load(load)}",
            _e5_figures(cells[own], figure), _e5_figures(cells[key], figure), False,
        )
        for figure in ("server_cpu_us_per_request",)
        for backend in dict.fromkeys(backends)
        for key in cells
        for server, _, protocol, *load, operation in [key]
        for own in [("todana", backend, *key[2:])]
        if server != "todana" and own in cells and _e5_figures(cells[own], figure) and _e5_figures(cells[key], figure)
    ]  # fmt: skip
    tables = [_e5_seconds(cells, arms, loads[0], operations)]
    tables += [_e5_cpu(cells, arms, loads, operation) for operation in operations]
    tables += [_e5_system_calls(cells, arms, loads, operation) for operation in operations]
    bars = [Series(name, {0: [figures["get"]]}, "published") for name, figures in published.E5_SECONDS.items()]
    for arm in arms:
        result = cells.get((*arm, *loads[0], "get"))
        if result:
            bars.append(Series(_e5_arm(arm), {0: _e5_rounds_in_seconds(result)}, kind_of(arm[0])))
    return Section(
        "e5", "A networked store and its event loop",
        "What does the way of waiting for sockets cost, and the rest of a request?",
        "At tens of connections the notification mechanism matters little, and thousands are needed to see it; what "
        "remained was a lock per request.",
        "", "server CPU per request", [table for table in tables if table],
        [Panel(f"{E5_REQUESTS:,} gets by ten clients", "", "seconds", bars, bars=True, log_y=False),
         Panel("Server CPU of a get, native and poll", "connections (active)", "microseconds",
               _e5_lines(cells, arms, loads))],
        contests,
        ["Connections that are not active are open and silent: that is where a back end that looks at each of them shows.",
         "No peer speaks HTTP here: Todana's arms by it stand beside the published builds, and its other arms beside the "
         "peers that speak the same protocol.",
         f"Seconds are per {E5_REQUESTS:,} requests, whatever number a run made. {_e5_runs(cells, loads)}",
         *_e5_generator(results),
         "System calls were counted in one run of each cell, which has no part in the other figures."],
    )  # fmt: skip


def _e5_other(backend):
    """Which back end of Todana's a contest is about, where it is not the one that runs by default."""
    return "" if backend == "native" else f" (Todana on {backend})"


def _e5_arm(arm):
    server, backend, protocol = arm
    name = f"Todana, {backend}" if server == "todana" else server
    return f"{name}, {E5_PROTOCOLS[protocol]}"


def _e5_load(load):
    return f"{load[0]:,} connections" + ("" if load[0] == load[1] else f", {load[1]:,} active")


def _e5_runs(cells, loads):
    """How many rounds of how many requests each load had."""
    found = []
    for load in loads:
        runs = [(len(each["rounds"]), each["requests"]) for key, each in cells.items() if key[3:5] == load and each["rounds"]]
        if not runs:
            continue
        rounds, most, fewest = (function(each[place] for each in runs) for function, place in ((max, 0), (max, 1), (min, 1)))
        fewer = f" ({fewest:,} where a back end looks at every connection)" if fewest < most else ""
        found.append(f"{_e5_load(load)}: {plural(rounds, 'round')} of {most:,}{fewer}")
    return "Runs: " + "; ".join(found) + "."


def _e5_figures(result, figure):
    """Of each round; nothing of an arm that failed on the way."""
    return () if missing(result) else spread(result["rounds"], figure)


def _e5_generator(results):
    """How near the generator was to the end of its own cores: there, seconds measure it and not the server."""
    shares = [each.get("generator_cpu_share") for result in results for each in result["rounds"]]
    shares = [share for share in shares if share is not None]
    if not shares:
        return []
    middle, most = statistics.median(shares), max(shares)
    return [
        f"The generator used {middle:.2f} cores in the median of all runs, {most:.2f} at most: where it is short of cores, "
        "seconds measure the generator, and CPU tells the servers apart."
    ]


def _e5_rounds_in_seconds(result):
    if missing(result):
        return ()
    return tuple(each["seconds"] / each["requests"] * E5_REQUESTS for each in result["rounds"])


def _e5_seconds(cells, arms, load, operations):
    rows = [
        [f"{name}, 2014", *[known(figures.get(operation)) for operation in operations], Cell(text="-", kind="ratio")]
        for name, figures in published.E5_SECONDS.items()
    ]
    for arm in arms:
        found = [cells.get((*arm, *load, operation)) for operation in operations]
        row = [_e5_arm(arm)]
        for result in found:
            values = _e5_rounds_in_seconds(result) if result else ()
            gone = missing(result) if result else None
            row.append(gone or (Cell(values, kind=kind_of(arm[0])) if values else Cell(text="-")))
        best = published.E5_SECONDS["Linux, epoll"]
        values = _e5_rounds_in_seconds(found[0]) if found[0] else ()
        rows.append([*row, ratio(values, [best[operations[0]]] if values else [])])
    heads = [("server", ""), *[(operation, "baseline") for operation in operations]]
    heads.append((f"{operations[0]} / epoll, 2014, another machine", "ratio"))
    return Table(f"Seconds for {E5_REQUESTS:,} requests, {_e5_load(load)}", heads, rows)


def _e5_cpu(cells, arms, loads, operation):
    heads = [("server", "")]
    for load in loads:
        heads += [(_e5_load(load), "baseline"), ("Todana / peer", "ratio")]
    rows = []
    for arm in arms:
        row = [_e5_arm(arm)]
        for load in loads:
            result = cells.get((*arm, *load, operation))
            if result is None:
                row += [Cell(text="-"), Cell(text="-", kind="ratio")]
                continue
            values = _e5_figures(result, "server_cpu_us_per_request")
            row.append(missing(result) or Cell(values, kind=kind_of(arm[0])))
            peers = [
                _e5_figures(cells[key], "server_cpu_us_per_request")
                for key in cells
                if key[0] != "todana" and key[2:] == (arm[2], *load, operation)
            ]
            best = min(filter(None, peers), key=statistics.median, default=())
            row.append(ratio(values, best) if arm[0] == "todana" else Cell(text="-", kind="ratio"))
        rows.append(row)
    return Table(f"Server CPU per request, microseconds: {operation}", heads, rows)


def _e5_system_calls(cells, arms, loads, operation):
    rows = []
    for arm in arms:
        row = [_e5_arm(arm)]
        for load in loads:
            result = cells.get((*arm, *load, operation))
            calls = (result or {}).get("system_calls", {})
            gone = missing(result) or missing(calls) if result else None
            text = "{total_per_request:.2f} ({futex_per_request:.3f})".format(**calls) if "calls" in calls else "-"
            row.append(gone or Cell(text=text, kind=kind_of(arm[0])))
        rows.append(row)
    if all(cell.text == "-" or cell.missing == "not possible" for row in rows for cell in row[1:]):
        return None
    then = ["Kyoto Tycoon, 2014, all phases", known(published.E5_FUTEX_PER_REQUEST, "futex alone: {:.0f}")]
    rows.insert(0, then + [Cell(text="-", kind="published")] * (len(loads) - 1))
    heads = [("server", ""), *[(_e5_load(load), "baseline") for load in loads]]
    return Table(f"System calls per request, those to futex in brackets: {operation}", heads, rows)


def _e5_lines(cells, arms, loads):
    series = []
    for arm in arms:
        if arm[2] == "kyoto":
            continue
        points = {}
        for load in sorted(loads, key=lambda load: (load[1] != load[0], load)):
            result = cells.get((*arm, *load, "get"))
            values = _e5_figures(result, "server_cpu_us_per_request") if result else ()
            if values:
                points[f"{load[0]:,}\n({load[1]:,})"] = values
        if arm[0] != "todana" or arm[1] in ("native", "poll"):
            series.append(Series(_e5_arm(arm), points, kind_of(arm[0])))
    return series


def failed(name, reason) -> Section:
    """An experiment of which there is nothing but why."""
    return Section(name, "This experiment failed", "", "", "", "", [], [], [], failed=reason)


SECTIONS = {"e1": e1, "e2": e2, "e3": e3, "e4": e4, "e5": e5}
