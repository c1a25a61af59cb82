"""The parts of a section of the report: contests, claims, tables, panels, and the functions that build them.

A section is data. `report.py` states what follows from it, `html_page.py` and `markdown_page.py` lay it out, `plots.py`
draws its panels.
"""

from __future__ import annotations

import dataclasses
import statistics

# How the CPU time of a node is counted.
CPU_CLOCK = "the system counts in steps of 10 ms per round; busy waiting of schedulers is included"
# With fewer rounds than this, the report follows the medians and states no ordering.
ROUNDS_MIN = 3
# The back end of Todana in contests of replicated tables.
THREE_NODES = "three nodes"
# Those in contests of names and groups.
LOG_ON_DISK = "a cluster with its log on disk"
LOG_IN_MEMORY = "a cluster with its log in memory"
CLUSTERS = (THREE_NODES, LOG_ON_DISK, LOG_IN_MEMORY)


@dataclasses.dataclass(frozen=True)
class Cell:
    """One cell of a table: the rounds of a figure, a text, or the reason why there is none."""

    values: tuple = ()
    pattern: str = "{:,.2f}"
    text: str = ""
    missing: str = ""  # "failed", "not possible"
    reason: str = ""
    kind: str = "baseline"  # or "published", "todana", "ratio"

    @property
    def shown(self) -> tuple[str, str]:
        """The median or the text, and the smallest and largest round."""
        if self.missing:
            return self.missing, ""
        if self.text or not self.values:
            return self.text or "-", ""
        middle = self.pattern.format(statistics.median(self.values))
        if len(self.values) == 1:
            return middle, ""
        return middle, f"{self.pattern.format(min(self.values))} - {self.pattern.format(max(self.values))}"


@dataclasses.dataclass(frozen=True)
class Table:
    """Heads are pairs of text and kind; each row begins with its label."""

    caption: str
    heads: list
    rows: list


@dataclasses.dataclass(frozen=True)
class Series:
    """A line, or a bar if there is one point: the rounds at each place; published figures have one round."""

    label: str
    points: dict
    kind: str = "baseline"  # or "todana", "published"


@dataclasses.dataclass(frozen=True)
class Panel:
    """One plot. `bars` draws one bar per series instead of lines, or a dot if the scale is logarithmic."""

    name: str
    title: str
    x: str
    y: str
    series: list
    bars: bool = False
    log_y: bool = True


@dataclasses.dataclass(frozen=True)
class Contest:
    """Todana and a peer in one configuration. `back_end` is Todana's, for the experiments that compare back ends."""

    peer: str
    where: str
    own: tuple
    other: tuple
    higher_is_better: bool
    back_end: str = ""

    @property
    def ratio(self) -> float:
        """Todana's median divided by the peer's."""
        return statistics.median(self.own) / (statistics.median(self.other) or 1.0)

    @property
    def is_worse(self) -> bool:
        """Whether Todana's median is the worse one."""
        return self.ratio < 0.995 if self.higher_is_better else self.ratio > 1.005

    @property
    def verdict(self) -> str:
        """`better` or `worse` if every round agrees, otherwise `noise`; with few rounds, by the medians."""
        own, other = self.own, self.other
        if not self.higher_is_better:
            own, other = [-value for value in own], [-value for value in other]
        if not self.is_settled:
            difference = statistics.median(own) - statistics.median(other)
            return "better" if difference > 0 else "worse" if difference < 0 else "noise"
        if min(own) > max(other):
            return "better"
        return "worse" if max(own) < min(other) else "noise"

    @property
    def is_settled(self) -> bool:
        """Whether there are enough rounds to state an ordering."""
        return min(len(self.own), len(self.other)) >= ROUNDS_MIN


@dataclasses.dataclass(frozen=True)
class Claim:
    """A part of the published finding, and whether today's baselines show it: None if this run cannot decide.

    `subject` names it in a few words, `figures` states what was measured.
    """

    subject: str
    figures: str
    holds: bool | None


@dataclasses.dataclass
class Section:
    """One experiment."""

    name: str
    title: str
    question: str
    finding: str
    # What the contests compare, and how the one with the better figure is called.
    figure: str
    better: str
    worse: str
    claims: list
    tables: list
    panels: list
    contests: list
    # The published remedy, as the contests call it, and the peers that the summary names.
    remedy: str = ""
    # The finding and how Todana compares, in the words of the first lines of a page: `is` faster, `uses` less CPU.
    gist: str = ""
    verb: str = "is"
    headline: tuple = ()
    remarks: list = dataclasses.field(default_factory=list)
    failed: str = ""
    # Whose variant the contests are about, and why there is none.
    own: str = "Todana"
    no_arm: str = ""


def spread(found, name) -> tuple:
    """A figure of each round."""
    return tuple(each[name] for each in found)


def missing(result) -> Cell | None:
    """The reason why a result has no figures, if it has none."""
    for key, word in (("failed", "failed"), ("not_possible", "not possible")):
        if key in result:
            return Cell(missing=word, reason=str(result[key]))
    return None


def ratio(own, other) -> Cell:
    """Median divided by median."""
    if not own or not other or not statistics.median(other):
        return Cell(text="-", kind="ratio")
    return Cell(text=f"{statistics.median(own) / statistics.median(other):.2f}x", kind="ratio")


def known(value, pattern="{:,.2f}") -> Cell:
    """A published figure, or none."""
    return Cell(text="-" if value is None else pattern.format(value), kind="published")


def counted(values) -> tuple:
    """The rounds that were long enough for the system's clock of CPU time."""
    return tuple(each for each in values if each is not None)


def times(values, pattern="{:.2f}") -> str:
    """The range of some ratios: `0.35 to 0.61 times`."""
    low, high = pattern.format(min(values)), pattern.format(max(values))
    return f"{low} times" if low == high else f"{low} to {high} times"


def distinct(results, *names) -> list:
    """Values of these fields, in the order of the results."""
    keys = [tuple(result[name] for name in names) if len(names) > 1 else result[names[0]] for result in results]
    return list(dict.fromkeys(keys))


def plural(count, noun) -> str:
    """A count with its noun: `2 rounds`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "es" if noun.endswith("s") else "s")


def kind_of(arm) -> str:
    """The kind of an arm's column."""
    return "todana" if str(arm).startswith("todana") else "baseline"
