"""Writes docs/measured/latency.md: how long others wait, row by row, from the raw results of the part `stalls`."""

from __future__ import annotations

import statistics

from stalls import exceptions

WAIT_MS, OCCUPIED_MS = 20, 2
TITLES = {"resp": "RESP", "memcached": "memcached", "kyoto": "Kyoto Tycoon", "erlang": "Erlang API"}
MIB = 1 << 20


class Figures:
    """The figures of a row over its rounds."""

    def __init__(self, row, noise=None):
        self.row = row
        self.rounds = row["rounds"]
        self.network = [max(one["network_us"]) / 1000 for one in self.rounds]
        self.local = [one["local_us"] / 1000 for one in self.rounds]
        self.occupied = [one["occupied_ms"] for one in self.rounds]
        self.is_at_least = any(one["is_at_least"] for one in self.rounds)
        self.noise = noise or self

    @property
    def name(self) -> str:
        """The name of the row, as Row.name."""
        return f"{self.row['protocol']}: {self.row['row']}"

    def wait_ms(self) -> float:
        """How much longer others wait than on the same machine without the request."""
        waits = [(self.network, self.noise.network), (self.local, self.noise.local)]
        return max(max(0.0, statistics.median(found) - statistics.median(noise)) for found, noise in waits)

    def occupied_ms(self) -> float:
        """How much longer a scheduler is occupied."""
        return statistics.median(self.occupied) - statistics.median(self.noise.occupied)

    def is_held(self) -> bool:
        """Whether the row is within the rule."""
        return bool(self.rounds) and self.wait_ms() <= WAIT_MS and self.occupied_ms() <= OCCUPIED_MS

    def cells(self) -> list[str]:
        """The columns of the table without the label."""
        if not self.rounds:
            return [self.row.get("failed", "not measured"), "", "", "", ""]
        memory = [one["memory_bytes"] for one in self.rounds if one["memory_bytes"] is not None]
        least = "more than " if self.is_at_least else ""
        return [
            least + _spread(self.network), least + _spread(self.local), _spread(self.occupied, "{:.0f}"),
            f"{max(memory) / MIB:,.0f}" if memory else "-", self._took(),
        ]  # fmt: skip

    def _took(self):
        one = self.rounds[-1]
        if one["outcome"] == "timed out":
            return "more than %.0f" % (one["seconds"] * 1000)
        took = [each["seconds"] / each.get("calls", 1) * 1000 for each in self.rounds]
        text = "{:,.1f}".format(statistics.median(took))
        return text if one["outcome"] in ("done", "failed") else f"{text}, {_cut(one['outcome'])}"


def _cut(text, length=60):
    return text if len(text) <= length else text[:length] + " ..."


def _spread(values, pattern="{:,.1f}"):
    """The median of the rounds, and the worst if it differs."""
    middle, worst = pattern.format(statistics.median(values)), pattern.format(max(values))
    return middle if middle == worst else f"{middle} ({worst})"


def figures(results) -> dict[str, Figures]:
    """The rows by name, each with the row that measures the machine without a request."""
    noise = next(Figures(row) for row in results if row["protocol"] == "none")
    return {each.name: each for each in (Figures(row, noise) for row in results)}


def page(part, before, paths) -> str:
    """The page. `before` has the results of an earlier commit, if there are any."""
    rows = figures(part["results"])
    earlier = figures(before["results"]) if before else {}
    measured = [row for row in rows.values() if row.row["protocol"] != "none"]
    exceeding = [row for row in measured if not row.is_held()]
    lines = [
        "# How long others wait",
        "",
        *_answer(measured, exceeding, part),
        "",
        "## The rule",
        "",
        "For every request of a client or call of a process, within the default limits:",
        "",
        f"1. requests of other clients, on any event loop, and processes of the node wait at most {WAIT_MS} ms longer;",
        f"2. no native call occupies a normal scheduler for more than {OCCUPIED_MS} ms;",
        "3. memory grows by no more than the limits allow;",
        "4. the work is in proportion to the request.",
        "",
        "Long requests run in slices between the requests of others or on a separate thread, or are refused at a documented limit.",
        "",
        *_exceptions(exceeding),
        "## How to read the table",
        "",
        *_reading(rows),
        "",
    ]
    for is_constant, title in ((False, "Requests whose cost depends on their arguments or on what is stored"), (True, "Requests of constant cost")):
        lines += [f"## {title}", ""]
        for protocol, words in TITLES.items():
            chosen = [row for row in measured if row.row["protocol"] == protocol and row.row["is_constant"] == is_constant]
            if chosen:
                lines += [f"### {words}", "", *_table(chosen, earlier), ""]
    return "\n".join([*lines, *_provenance(part, before, paths)]) + "\n"


def _answer(measured, exceeding, part):
    records = "{:,}".format(part["machine"]["records"])
    held = len(measured) - len(exceeding)
    return [f"With {records} records, {held} of {len(measured)} requests are within the rule below" + (
        "." if not exceeding else f"; {len(exceeding)} are not, and are listed with what bounds them."
    )]  # fmt: skip


def _exceptions(exceeding):
    if not exceeding:
        return []
    lines = ["## Requests that are not within the rule", "", "| request | longest wait (ms) | scheduler (ms) | what bounds it |", "|---|---|---|---|"]
    for row in exceeding:
        words = exceptions.reason(row.name) or "no documented limit yet"
        wait = f"{row.wait_ms():,.0f}" if row.rounds else "-"
        occupied = f"{row.occupied_ms():,.0f}" if row.rounds else "-"
        lines.append(f"| {TITLES[row.row['protocol']]}: {_cell(row.row['row'])} | {wait} | {occupied} | {words} |")
    return [*lines, ""]


def _reading(rows):
    quiet, busy = (rows[f"none: {label}"] for label in ("nothing", "a busy process"))
    return [
        "One Erlang node embeds Todana, with two event loops. A client on each loop reads a record that the request uses about every",
        "0.5 ms, and a process of the node reads it about every 1 ms. A cell is the longest wait in a round: the median of the rounds, and",
        "in brackets the worst. Every figure includes the delays of the machine itself; the rule applies to the median minus that of",
        "rounds without a request.",
        "",
        "| | network (ms) | process (ms) | scheduler (ms) |",
        "|---|---|---|---|",
        "| no request | " + " | ".join(quiet.cells()[:3]) + " |",
        "| no request, another program is busy | " + " | ".join(busy.cells()[:3]) + " |",
        "",
        "*scheduler*: the longest time for which the calling process, or one of Todana's, was not scheduled out, as",
        "`erlang:system_monitor/2` reports it, in whole milliseconds. *memory*: the peak growth of the node's resident memory in the worst",
        "round; the allocator reuses freed memory without growth. *takes*: the duration of one request, and its error if it was refused.",
    ]  # fmt: skip


def _table(chosen, earlier):
    heads = ["request", "network (ms)", "process (ms)", "scheduler (ms)", "memory (MiB)", "takes (ms)"]
    if earlier:
        heads += ["before: network (ms)", "process (ms)", "scheduler (ms)", "memory (MiB)"]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in chosen:
        label = _cell(row.row["row"])
        cells = [label if row.is_held() else f"**{label}**", *row.cells()]
        if earlier:
            cells += earlier[row.name].cells()[:4] if row.name in earlier else ["-"] * 4
        lines.append("| " + " | ".join(map(_cell, cells)) + " |")
    return lines


def _cell(text):
    return text.replace("|", "\\|").replace("\n", " ")


def _provenance(part, before, paths):
    facts = part["machine"]
    lines = [
        "## Provenance", "",
        "Generated by `bench/report` from raw results in `bench/results`; do not edit. `make bench EXPERIMENT=stalls` measures again.", "",
        f"{facts['date']}, {facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB, {facts['system']}, Linux {facts['kernel']},",
        f"{facts['versions']['erlang']}, Todana {facts['versions']['todana']}: `{' '.join(facts['command'])}`,",
        f"[raw results](../../bench/results/{paths['stalls'].parent.name}/{paths['stalls'].name}).",
    ]  # fmt: skip
    if before:
        path = paths["stalls-before"]
        lines.append(f"Before: Todana {before['machine']['versions']['todana']}, [raw results](../../bench/results/{path.parent.name}/{path.name}).")
    return lines
