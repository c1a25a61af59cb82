"""What follows from the sections of a run, and of a second one if there is one: verdicts, sentences, losses, provenance.

Every sentence follows from the results by rules. With a second run, an ordering or a claim is stated only if both runs show
it.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import raw_results

from .e5 import DEFAULT_BACK_END
from .section import CLUSTERS, LOG_ON_DISK, Claim, Contest, Section, plural, times

ABSENT = "not measured in this run"
CONFIGURATIONS_NAMED_MAX = 6
# The folder of a second run in a directory of results.
SECOND = "second"
ROOT = Path(__file__).resolve().parents[2]
UNCONFIRMED = "not confirmed by the second run"


@dataclasses.dataclass(frozen=True)
class Standing:
    """Todana, on one back end, and one peer: each contest with its verdict.

    A verdict is `better`, `worse` or `noise`; `better?` and `worse?` are orderings of the first run that the second run did
    not measure well enough to confirm.
    """

    section: Section
    peer: str
    back_end: str
    judged: list

    def of(self, *verdicts) -> list[Contest]:
        """The contests with one of these verdicts."""
        return [contest for contest, verdict in self.judged if verdict in verdicts]

    @property
    def counts(self) -> tuple[int, int, int]:
        """How many configurations are better, within the noise, and worse."""
        return tuple(len(self.of(*verdicts)) for verdicts in (("better", "better?"), ("noise",), ("worse", "worse?")))

    @property
    def is_unconfirmed(self) -> bool:
        """Whether the second run could not confirm some ordering."""
        return bool(self.of("better?", "worse?"))

    @property
    def ratios(self) -> str:
        """The range of the ratios of medians."""
        found = [contest.ratio for contest, _ in self.judged]
        low, high = f"{min(found):.2f}", f"{max(found):.2f}"
        return low if low == high else f"{low} to {high}"

    @property
    def name(self) -> str:
        """The peer, marked if it is what the authors of the experiment recommend."""
        return f"{self.peer} (the published remedy)" if self.peer == self.section.remedy else self.peer


@dataclasses.dataclass
class Report:
    """What a page consists of."""

    directory: Path
    machines: dict
    sections: list
    absent: list
    # Sections of a second run: orderings must hold there too.
    second: list = dataclasses.field(default_factory=list)
    second_machines: dict = dataclasses.field(default_factory=dict)
    # Further results of a section, below the directory or beside it, with a label.
    more: dict = dataclasses.field(default_factory=dict)

    def standings(self, section: Section) -> list[Standing]:
        """One standing for each peer and back end of a section."""
        again = {
            (contest.peer, contest.back_end, contest.where): contest.verdict
            for other in self.second if other.name == section.name
            for contest in other.contests if contest.is_settled
        }  # fmt: skip
        found = {}
        for contest in section.contests:
            verdict = contest.verdict
            if self.second and verdict != "noise":
                confirmed = again.get((contest.peer, contest.back_end, contest.where), verdict + "?")
                verdict = confirmed if confirmed.rstrip("?") == verdict else "noise"
            found.setdefault((contest.peer, contest.back_end), []).append((contest, verdict))
        return [Standing(section, *key, judged) for key, judged in found.items()]

    def claims(self, section: Section) -> list[tuple[Claim, str]]:
        """The claims of a section, each with a label that says whether today's results show it."""
        again = {claim.subject: claim.holds for other in self.second if other.name == section.name for claim in other.claims}
        labels = {True: "reproduced", False: "not reproduced", None: "not testable on this machine"}
        found = []
        for claim in section.claims:
            label = labels[claim.holds]
            if self.second and claim.subject not in again:
                label += f" ({UNCONFIRMED})"
            elif self.second and again[claim.subject] != claim.holds:
                label = "the two runs disagree"
            found.append((claim, label))
        return found

    @property
    def place(self) -> Path:
        """The directory of raw results as the page names it: below the repository's root, or by its name."""
        return self.directory.relative_to(ROOT) if self.directory.is_relative_to(ROOT) else Path(self.directory.name)

    @property
    def unconfirmed(self) -> list[str]:
        """The experiments that the second run did not measure."""
        again = {each.name for each in self.second if not each.failed}
        return [each.name for each in self.sections if self.second and not each.failed and each.name not in again]

    @property
    def is_settled(self) -> bool:
        """Whether every contest has enough rounds to state an ordering."""
        return all(contest.is_settled for section in self.sections for contest in section.contests)

    def files(self, section: Section) -> list[tuple[str, Path]]:
        """The raw results of a section: a label, and the path below the directory of results."""
        found = [("raw results", self._file(section.name))]
        if section.name in self.more:
            found.append(self.more[section.name])
        if any(section.name == each.name for each in self.second):
            found.append(("second run", SECOND / self._file(section.name, SECOND)))
        return found

    def _file(self, part, below="") -> Path:
        """The name of the file with the results of a part, in the directory of results or below it."""
        path = raw_results.path(self.directory / below, part)
        return Path(path.name if path else f"{part}.json")


# ----------------------------------------------------------------- sentences ---


def today(report, section) -> str:
    """What of the published finding today's results show, in a few words."""
    by_label = {}
    for claim, label in report.claims(section):
        by_label.setdefault(label, []).append(claim.subject)
    return "; ".join(f"{label}: {', '.join(subjects)}" for label, subjects in by_label.items()) or "not measured well enough"


def outcome(report, section) -> str:
    """The same in fewer words: what of the finding is not reproduced, if most of it is."""
    rest = [(claim, label) for claim, label in report.claims(section) if label != "reproduced"]
    if not rest:
        return today(report, section) if not section.claims else "reproduced"
    if len(rest) == len(section.claims):
        return today(report, section)
    return "reproduced, except that " + ", and that ".join(f"{claim.subject} ({label})" for claim, label in rest)


def stands(report, section, is_brief=False) -> str:
    """How Todana compares with the peers that matter most, in one or two sentences; `is_brief` leaves out the noise and the ratios."""
    if section.no_arm or not section.contests:
        return section.no_arm or "No variant of Todana is in this run."
    chosen = [each for each in report.standings(section) if each.peer in section.headline]
    parts = []
    for number, back_end in enumerate(dict.fromkeys(each.back_end for each in chosen)):
        # Of the back ends that are not the default, the losses only.
        found = [each for each in chosen if each.back_end == back_end and (number == 0 or each.of("worse", "worse?"))]
        words = "; ".join(compared(each, only_losses=number > 0, is_brief=is_brief) for each in found)
        if words:
            parts.append(on_back_end(section, back_end, words, "it" if number else "Todana"))
    text = ". ".join(each[0].upper() + each[1:] for each in parts) + "."
    if section.own == "Todana":
        return text
    own = section.own[0].lower() + section.own[1:]
    return f"Takes no part; a pattern, {own}, {section.verb} {text[0].lower()}{text[1:]}"


def on(back_end) -> str:
    """A back end in words: ``on `native` (default)``."""
    if back_end in CLUSTERS:
        return f"on {back_end}"
    name, *rest = back_end.split(" ", 1)
    return " ".join([f"on `{name}`", *rest])


def on_back_end(section, back_end, words, who="Todana") -> str:
    """What a sentence says of a back end; without a back end, the words alone."""
    verb = "is" if words.startswith("within") else section.verb
    return f"{on(back_end)}, {who} {verb} {words}" if back_end else words


def compared(standing, only_losses=False, is_brief=False) -> str:
    """One standing in words, without the names of the configurations."""
    section, total = standing.section, len(standing.judged)
    parts = []
    for verdict, words in (
        ("better", section.better), ("worse", section.worse), ("better?", section.better), ("worse?", section.worse),
    ):  # fmt: skip
        found = standing.of(verdict)
        if found and not (only_losses and verdict.startswith("better")):
            part = f"{words} {standing.peer if not parts else 'it'} in {len(found)} of {total} configurations"
            if verdict.startswith("worse") and not is_brief:
                part += f" ({_of_peer(standing, found)})"
            parts.append(part + (f" ({UNCONFIRMED})" if verdict.endswith("?") else ""))
    noise = standing.of("noise")
    if noise and not only_losses and not (is_brief and parts):
        rest = f"within the noise in {len(noise)}" if parts else f"within the noise of {standing.peer} in all {total}"
        parts.append(rest)
    if not standing.of("worse", "worse?") and len(noise) < total:
        parts.append(f"never {section.worse.split()[0]}")
    return ", ".join(parts)


def _of_peer(standing, found, whose="the") -> str:
    """The ratios of medians in words: `0.66 of the rate of ETS`, or `of its rate`."""
    ratios = times([contest.ratio for contest in found])
    figure = "rate" if found[0].higher_is_better else standing.section.figure
    if found[0].higher_is_better:
        ratios = f"{ratios.removesuffix(' times')} of"
    return f"{ratios} {whose} {figure}" + (f" of {standing.peer}" if whose == "the" else "")


def losses(report, section, are_named=True) -> list[str]:
    """The configurations in which a peer is better beyond the noise, by name if they are few."""
    lines = []
    for standing in report.standings(section):
        for verdict, note in (("worse", ""), ("worse?", f" ({UNCONFIRMED})")):
            if found := standing.of(verdict):
                who = f"{section.own} {on(standing.back_end)}" if standing.back_end else section.own
                lines.append(f"{who}: {_of_peer(standing, found)} in {_where(found, standing, are_named)}{note}")
    return lines


def all_losses(report) -> list[str]:
    """The losses of all experiments."""
    return [f"{section.name.upper()}, {line}" for section in report.sections for line in losses(report, section, are_named=False)]


def lost_words(report) -> str:
    """What the list of losses is, or that there is none."""
    how = "beyond the noise" if report.is_settled else "by the median of few rounds"
    if not any(section.contests for section in report.sections):
        return "Nothing in this run compares Todana with a peer."
    return f"Todana loses in these comparisons, {how}:" if all_losses(report) else f"Todana loses in no configuration {how}."


def brief(report) -> str:
    """Todana's results in some sentences, for README."""
    facts = next(iter(report.machines.values()))
    sums = totals(report)
    parts = []
    for back_end, words in (
        ("", f"in local configurations ({local(report)})"),
        (LOG_ON_DISK, f"on {LOG_ON_DISK} (E3)"),
        (f"{DEFAULT_BACK_END} (default)", "on the default event back end (E5)"),
    ):
        if back_end in sums:
            better, noise, worse = sums[back_end]
            parts.append(f"{words}, better than the peer in {better}, worse in {worse} and within the noise in {noise}")
    lost = {}
    for section in report.sections:
        for standing in report.standings(section):
            if section.own == "Todana" and (count := standing.counts[-1]):
                peer = standing.peer + (f" ({on(standing.back_end)})" if standing.back_end else "")
                lost[peer] = lost.get(peer, 0) + count
    named = ", ".join(f"{count} against {peer}" for peer, count in sorted(lost.items(), key=lambda item: -item[1]))
    return (
        f"In the run of {facts['date']} ({facts['cpu']}, {facts['cores']} cores, commit {facts['versions']['todana']}) Todana was, "
        f"{'; '.join(parts)}. " + (f"Configurations lost: {named}." if named else "It lost in no configuration.")
    )


def leanings(report, section) -> list[str]:
    """The peers whose median is better in some configurations, though the difference is within the noise."""
    lines = []
    for standing in report.standings(section):
        if found := [contest for contest in standing.of("noise") if contest.is_worse]:
            where = f" (Todana {on(standing.back_end)})" if standing.back_end else ""
            ratios = _of_peer(standing, found, whose="its")
            lines.append(f"{standing.name}{where}: {len(found)} of {len(standing.judged)}, at {ratios}")
    return lines


def _where(found, standing, are_named) -> str:
    text = f"{len(found)} of {plural(len(standing.judged), 'configuration')}"
    if are_named and len(found) <= CONFIGURATIONS_NAMED_MAX and len(found) < len(standing.judged):
        text += f" ({'; '.join(contest.where for contest in found)})"
    return text


def direction(section) -> str:
    """What the contests of a section compare, and which side is better."""
    if not section.contests:
        return section.figure
    return f"{section.figure} ({'more' if section.contests[0].higher_is_better else 'less'} is better)"


def rule(report) -> str:
    """How orderings are found."""
    if report.is_settled:
        both = " of both runs" if report.second else ""
        return (
            f"Better and worse mean: in every round{both}, the worst of the one is better than the best of the other. If the "
            "rounds overlap, the difference is within the noise."
        )
    return "There are too few rounds to state an ordering: the page follows the medians, and another run may differ."


def local(report) -> str:
    """The experiments whose variants of Todana have no back end: `E1, E2`."""
    names = [each.name.upper() for each in report.sections if each.own == "Todana" and any(not found.back_end for found in each.contests)]
    return ", ".join(names)


def totals(report) -> dict[str, tuple[int, int, int]]:
    """Configurations in which Todana is better, within the noise and worse: by back end, and `""` without one."""
    found = {}
    for section in report.sections:
        for standing in report.standings(section):
            if section.own == "Todana":
                before = found.get(standing.back_end, (0, 0, 0))
                found[standing.back_end] = tuple(map(sum, zip(before, standing.counts)))
    return found


# ---------------------------------------------------------------------- gaps ---


def gaps(report) -> list[str]:
    """What failed or was not possible: one line for each reason."""
    lines = _without_figures(report.sections) + [f"{name.upper()}: {ABSENT}" for name in report.absent]
    # A gap of both runs is listed once.
    lines += [f"second run: {each}" for each in _without_figures(report.second) if each not in lines]
    return lines + [f"{name.upper()}: not measured in the second run" for name in report.unconfirmed]


def _without_figures(found_sections) -> list[str]:
    found = {}
    for section in found_sections:
        if section.failed:
            found[section.name, "failed", section.failed] = {"all of it"}
        for table in section.tables:
            for label, *cells in table.rows:
                for (head, _), cell in zip(table.heads[1:], cells):
                    if cell.missing:
                        # A label that is a number says little without its column.
                        where = f"{head} at {label} ({table.caption})" if label[:1].isdigit() else label
                        found.setdefault((section.name, cell.missing, cell.reason), set()).add(where)
    return [
        f"{name.upper()}, {word}: {'; '.join(sorted(rows))}: {reason}" for (name, word, reason), rows in found.items()
    ]


# ---------------------------------------------------------------- provenance ---


def provenance(report) -> list[tuple[str, str]]:
    """Machine, versions and commands. Experiments of the same run share a line."""
    first = next(iter(report.machines.values()))
    lines = [
        ("date", first["date"]),
        ("machine", f"{first['cpu']}, {first['cores']} cores, {first['memory_gib']} GiB"),
        ("system", f"{first['system']}, Linux {first['kernel']}"),
        *[("Todana, commit" if name == "todana" else name, version) for name, version in first["versions"].items()],
    ]
    lines += [(names, line) for line, names in _grouped(report.machines, first)]
    return lines + [(f"{names}, second run", line) for line, names in _grouped(report.second_machines, first)]


def _grouped(machines, first):
    found = {}
    for name, facts in machines.items():
        plan = facts["plan"]
        rounds = sorted({plan["rounds"], *(cell["rounds"] for cell in plan.get("cells", ()) if "rounds" in cell)})
        line = f"`{' '.join(facts['command'])}` ({' or '.join(map(str, rounds))} round{'s' * (rounds != [1])})"
        # One directory may have results of several runs.
        if (facts["date"], facts["versions"], facts["cpu"]) != (first["date"], first["versions"], first["cpu"]):
            versions = ", ".join(f"{program} {version}" for program, version in facts["versions"].items())
            line += f", {facts['date']}, {facts['cpu']}, {versions}"
        found.setdefault(line, []).append(name.upper())
    return [(line, ", ".join(names)) for line, names in found.items()]
