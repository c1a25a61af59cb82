"""The tables of docs/measured/benchmarks.md: one figure in all configurations, and Todana beside the best peer in each."""

from __future__ import annotations

import dataclasses
import statistics

from findings.section import Cell, Contest, Table, kind_of

VERDICTS = {"better": "better", "noise": "within the noise", "worse": "worse"}


@dataclasses.dataclass
class Part:
    """A section of the page: its tables, and the contests of each figure that has some, by the name of the figure."""

    title: str
    intro: str
    tables: list
    contests: dict


def best(arms, higher_is_better):
    """The rounds with the best median."""
    return (max if higher_is_better else min)(arms, key=statistics.median)


class Figure:
    """One figure in all configurations: a row for each, a column for each arm, and Todana's best arm beside the best peer."""

    def __init__(self, name, title, arms, pattern, higher_is_better, scale=1.0):
        self.name, self.title, self.arms = name, title, arms
        self.pattern, self.scale = pattern, scale
        self.higher_is_better = higher_is_better
        self.rows, self.contests = [], []

    def add(self, where, found, own=None, peers=None):
        """A configuration: rounds by arm. By default, the arms whose name begins with todana are Todana's."""
        own = own if own is not None else [rounds for arm, rounds in found.items() if kind_of(arm) == "todana"]
        peers = peers if peers is not None else [rounds for arm, rounds in found.items() if kind_of(arm) != "todana"]
        cells = [
            Cell(tuple(value / self.scale for value in found[arm]), self.pattern, kind=kind_of(arm)) if arm in found else Cell(text="-")
            for arm in self.arms
        ]
        text = "-"
        if own and peers:
            pair = (tuple(best(arms, self.higher_is_better)) for arms in (own, peers))
            contest = Contest("the best peer", where, *pair, self.higher_is_better)
            self.contests.append(contest)
            text = f"{contest.ratio:.2f} {VERDICTS[contest.verdict]}"
        self.rows.append([where, *cells, Cell(text=text)])

    @property
    def table(self) -> Table:
        """The rows with their heads."""
        return Table(self.title, [("", ""), *[(arm, kind_of(arm)) for arm in self.arms], ("Todana / best peer", "ratio")], self.rows)


def part_of(title, intro, figures) -> Part:
    """A part whose tables and contests are those of figures."""
    return Part(title, intro, [each.table for each in figures], {each.name: each.contests for each in figures if each.contests})


def grouped(cells, *names) -> dict:
    """The cells by the values of these fields, in the order of the results."""
    found = {}
    for cell in cells:
        found.setdefault(tuple(cell[name] for name in names), []).append(cell)
    return found
