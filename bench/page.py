"""The report as a page that needs nothing but itself, and as Markdown."""

from __future__ import annotations

import dataclasses
import html as escape_html
import statistics
from pathlib import Path

import published
from sections import Cell, Section

ABSENT = "not measured in this run"
CELLS_NAMED_MAX = 6
ROOT = Path(__file__).resolve().parents[1]
# Where a directory of results has those of a second run.
SECOND = "second"

STYLE = """
:root { color-scheme: light dark;
  --paper: #fbfbf9; --card: #ffffff; --ink: #1b1f24; --muted: #5c6570; --line: #dfe3e8; --own: #e8f2fa; --own-ink: #00517f;
  --bad: #a33b00; --bad-paper: #fdeee5; --good: #00694d; --good-paper: #e5f5ef; --link: #0066a1; }
@media (prefers-color-scheme: dark) { :root {
  --paper: #14171b; --card: #1b1f25; --ink: #e8eaed; --muted: #9aa3ad; --line: #343a42; --own: #16303f; --own-ink: #8fd0f8;
  --bad: #ff9d66; --bad-paper: #3a2418; --good: #4fd8b0; --good-paper: #14322a; --link: #7cc4f5; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); line-height: 1.55;
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; }
main { max-width: 76rem; margin: 0 auto; padding: 3rem 1.5rem 5rem; }
h1 { font-size: 2.1rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em; }
h2 { font-size: 1.45rem; margin: 0 0 .3rem; letter-spacing: -.005em; }
p { max-width: 48rem; }
a { color: var(--link); }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .88em; overflow-wrap: anywhere; }
.lead, .question { color: var(--muted); font-size: 1.06rem; margin-top: 0; }
.verdict { border-left: 4px solid; border-radius: 4px; padding: .7rem 1.1rem; margin: 1.2rem 0; max-width: 60rem; }
.verdict.bad { border-color: var(--bad); background: var(--bad-paper); }
.verdict.good { border-color: var(--good); background: var(--good-paper); }
.verdict.plain { border-color: var(--muted); background: var(--card); }
.verdict p { margin: .2rem 0; max-width: none; } .verdict ul { margin: .3rem 0; padding-left: 1.2rem; }
nav { display: flex; flex-wrap: wrap; gap: .5rem 1.4rem; margin: 1.6rem 0; padding: .8rem 0; border: solid var(--line);
  border-width: 1px 0; }
section { margin-top: 3.2rem; padding-top: 1.6rem; border-top: 1px solid var(--line); }
figure { margin: 1.6rem 0; } .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 1.2rem; } .card svg { display: block; width: 100%; height: auto; max-width: 68rem; margin: 0 auto; }
figcaption { color: var(--muted); font-size: .88rem; margin: .5rem 0 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; min-width: 30rem; }
caption, .caption { text-align: left; font-weight: 650; margin: 0 0 .4rem; }
th, td { padding: .36rem .8rem; text-align: right; vertical-align: top; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
thead th { vertical-align: bottom; white-space: normal; font-weight: 600; border-bottom: 2px solid var(--muted); }
th[scope=row], thead th:first-child { text-align: left; font-weight: 500; position: sticky; left: 0; background: var(--paper); }
.published { color: var(--muted); font-style: italic; } .todana { background: var(--own); font-weight: 600; }
thead .todana, .todana .spread { color: var(--own-ink); } .ratio { font-weight: 650; }
.spread { display: block; color: var(--muted); font-size: .82em; font-weight: 400; font-style: normal; }
.missing { color: var(--bad); font-weight: 600; } dl { display: grid; grid-template-columns: max-content 1fr;
  gap: .2rem 1.2rem; font-size: .92rem; } dt { color: var(--muted); } dd { margin: 0; }
details { margin: 1.2rem 0; } summary { cursor: pointer; color: var(--link); }
@media (max-width: 40rem) { main { padding: 1.5rem 1rem 3rem; } h1 { font-size: 1.6rem; } dl { grid-template-columns: 1fr; } }
@media print { section { break-before: page; } details > * { display: block; } }
"""


@dataclasses.dataclass
class Report:
    """What a page is made of."""

    directory: Path
    machines: dict
    sections: list
    absent: list
    # Sections of a second run: orderings must hold there too.
    second: list = dataclasses.field(default_factory=list)
    second_machines: dict = dataclasses.field(default_factory=dict)

    def verdicts(self, section: Section) -> dict:
        """For each peer of a section, its contests with their verdicts: those of Contest, where both runs have the same,
        and `ahead?` or `behind?` for an ordering of the first run that the second cannot confirm."""
        again = {
            (contest.peer, contest.where): contest.verdict
            for other in self.second if other.name == section.name
            for contest in other.contests if contest.is_settled
        }  # fmt: skip
        found = {}
        for contest in section.contests:
            verdict = contest.verdict
            if self.second and verdict != "open":
                confirmed = again.get((contest.peer, contest.where), verdict + "?")
                verdict = confirmed if confirmed.rstrip("?") == verdict else "open"
            found.setdefault(contest.peer, []).append((contest, verdict))
        return found

    @property
    def place(self) -> Path:
        """The directory of raw results as the page names it: below the repository's root, or by its name."""
        return self.directory.relative_to(ROOT) if self.directory.is_relative_to(ROOT) else Path(self.directory.name)

    @property
    def unconfirmed(self) -> list[str]:
        """Experiments of which a second run has nothing."""
        again = {each.name for each in self.second if not each.failed}
        return [each.name for each in self.sections if self.second and not each.failed and each.name not in again]


# ----------------------------------------------------------------- verdicts ---


VERDICTS = {
    "ahead": "ahead of", "behind": "behind", "open": "not told apart from", "ahead?": "ahead (not confirmed) of",
    "behind?": "behind (not confirmed)",
}  # fmt: skip


def named(section, peer) -> str:
    """A peer, and whether it is what the experiment's authors came to."""
    return f"{peer} ({section.remedy_words})" if peer == section.remedy else peer


def told(section, peer, judged) -> str:
    """How Todana stands against one peer."""
    counts = {word: [each for each, verdict in judged if verdict == word] for word in VERDICTS}
    name = named(section, peer)
    settled = all(contest.is_settled for contest, _ in judged)
    parts = []
    for word, text in VERDICTS.items():
        chosen = counts[word]
        if not chosen:
            continue
        ratios = [each.ratio for each in chosen]
        low, high = f"{min(ratios):.2f}x", f"{max(ratios):.2f}x"
        part = f"{text} {name if not parts else 'it'} in {len(chosen)} of {len(judged)} cells"
        part += f" ({low})" if low == high else f" ({low} to {high})"
        if word != "ahead" and len(chosen) <= CELLS_NAMED_MAX and len(chosen) < len(judged):
            part += ": " + "; ".join(each.where for each in chosen)
        parts.append(part)
    text = ", ".join(parts)
    return text if settled else "by the median, " + text


def losses(report) -> list[str]:
    """Everything in which a peer is better."""
    lines = []
    for section in report.sections:
        for peer, judged in report.verdicts(section).items():
            for found, note in (("behind", ""), ("behind?", " (not confirmed by a second run)")):
                ratios = [each.ratio for each, verdict in judged if verdict == found]
                if ratios:
                    low, high = f"{min(ratios):.2f}x", f"{max(ratios):.2f}x"
                    who = "" if section.own == "Todana" else section.own[0].lower() + section.own[1:] + " is "
                    lines.append(
                        f"{section.name.upper()}, {section.figure}: {who}behind {named(section, peer)} in {len(ratios)} of "
                        f"{len(judged)} cells, at {low if low == high else low + ' to ' + high} its figure{note}"
                    )
    return lines


def leanings(report) -> list[str]:
    """Where the median of a peer is better, though rounds overlap or the runs differ."""
    lines = []
    for section in report.sections:
        for peer, judged in report.verdicts(section).items():
            ratios = [each.ratio for each, verdict in judged if verdict == "open" and each.is_worse]
            if ratios:
                low, high = f"{min(ratios):.2f}x", f"{max(ratios):.2f}x"
                lines.append(
                    f"{section.name.upper()}, {section.figure}: {named(section, peer)} is better by the median, but not beyond "
                    f"the spread of rounds, in {len(ratios)} of {len(judged)} cells "
                    f"({low if low == high else low + ' to ' + high})"
                )
    return lines


def gaps(report) -> list[str]:
    """What failed or was not possible: one line for each reason."""
    lines = without_figures(report.sections) + [f"{name.upper()}: {ABSENT}" for name in report.absent]
    # What was not possible in the first run is no news.
    lines += [f"second run: {each}" for each in without_figures(report.second) if each not in lines]
    return lines + [f"{name.upper()}: nothing of it in the second run" for name in report.unconfirmed]


def without_figures(found_sections) -> list[str]:
    """The same, of one run."""
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


def summary(report) -> tuple[str, str, list[str]]:
    """The first lines: a tone, a sentence, and its list."""
    lost = losses(report)
    settled = all(contest.is_settled for section in report.sections for contest in section.contests)
    close = leanings(report)
    if lost:
        return "bad", "Todana loses here:" if settled else "Todana loses here, by the median of few rounds:", lost + close
    if close:
        return "plain", "Todana is behind in no cell beyond the spread of rounds, but:", close
    if not any(section.contests for section in report.sections):
        return "plain", "Nothing in this run has Todana beside a peer.", []
    if report.unconfirmed:
        return "plain", "No loss in what both runs measured.", []
    how = "in which every round agrees" if settled else "by the median of few rounds"
    return "good", f"Todana is behind in no cell {how}.", []


def rounds_note(report) -> str:
    """How orderings were come by."""
    if all(contest.is_settled for section in report.sections for contest in section.contests):
        both = " of both runs" if report.second else ""
        return (
            f"Ahead and behind mean: in all rounds{both}, the worst of the one being better than the best of the other. "
            "Where rounds overlap, the two are not told apart."
        )
    return "Too few rounds to state an ordering: what is said here follows medians, and another run may differ."


# --------------------------------------------------------------------- cells ---


def figures(cell: Cell) -> tuple[str, str]:
    """A cell's figure, and its spread."""
    if cell.missing:
        return cell.missing, ""
    if cell.text or not cell.values:
        return cell.text or "-", ""
    middle = cell.pattern.format(statistics.median(cell.values))
    if len(cell.values) == 1:
        return middle, ""
    return middle, f"{cell.pattern.format(min(cell.values))} - {cell.pattern.format(max(cell.values))}"


def facts(report) -> list[tuple[str, str]]:
    """Machine, versions, commands."""
    found = next(iter(report.machines.values()))
    lines = [
        ("date", found["date"]),
        ("machine", f"{found['cpu']}, {found['cores']} cores, {found['memory_gib']} GiB"),
        ("system", f"{found['system']}, Linux {found['kernel']}"),
        *found["versions"].items(),
    ]
    for name, each in report.machines.items():
        plan = each["plan"]
        rounds = sorted({plan["rounds"], *(cell["rounds"] for cell in plan.get("cells", ()) if "rounds" in cell)})
        line = f"{' '.join(each['command'])} ({' or '.join(map(str, rounds))} round{'s' * (rounds != [1])})"
        # Results of one directory may be of several runs.
        if (each["date"], each["versions"], each["cpu"]) != (found["date"], found["versions"], found["cpu"]):
            versions = ", ".join(f"{program} {version}" for program, version in each["versions"].items())
            line += f"; of {each['date']}, {each['cpu']}, {versions}"
        lines.append((name.upper(), line))
    for name, each in report.second_machines.items():
        command, version = " ".join(each["command"]), each["versions"]["todana"]
        lines.append((f"{name.upper()}, second run", f"{command}; of {each['date']}, todana {version}, {each['cpu']}"))
    return lines


# ---------------------------------------------------------------------- HTML ---


def html(report: Report, drawn) -> str:
    """The whole page; plots are SVG elements by experiment."""
    tone, sentence, lines = summary(report)
    body = [
        "<header><h1>Five published experiments, measured again</h1>",
        '<p class="lead">From scratch, on one machine and today\'s runtime, beside Todana where it has a part.</p>',
        _verdict(tone, sentence, lines),
        f"<p>{text(rounds_note(report))} Figures are medians over the rounds, with the smallest and largest below; the first "
        "round of each arm warms up and is not counted; the arms of a cell take turns. <span class=\"published\">Published "
        "figures</span> are their authors' own, from their machines: compare shapes with them, not speeds.</p>",
    ]
    if missing := gaps(report):
        body.append(_verdict("plain", "Without figures:", missing))
    links = [f'<a href="#{each.name}">{each.name.upper()} {text(each.title)}</a>' for each in report.sections]
    body.append(f"<nav>{''.join(links)}</nav>")
    rows = "".join(f"<dt>{text(name)}</dt><dd>{_code(name, value)}</dd>" for name, value in facts(report))
    body.append(f"<dl>{rows}</dl></header>")
    body += [_section(report, each, drawn.get(each.name)) for each in report.sections]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>Todana: five experiments</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def text(words) -> str:
    """Escaped, with `code` set as such."""
    parts = escape_html.escape(str(words)).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def _code(name, value):
    return f"<code>{text(value)}</code>" if name[:1] == "E" else text(value)


def _verdict(tone, sentence, lines):
    items = "".join(f"<li>{text(line)}</li>" for line in lines)
    return f'<div class="verdict {tone}"><p><strong>{text(sentence)}</strong></p>{f"<ul>{items}</ul>" if items else ""}</div>'


def _section(report, section, svg):
    raw = f"<code>{report.place / section.name}.json</code>"
    if any(section.name == each.name for each in report.second):
        raw += f", second run <code>{report.place / SECOND / section.name}.json</code>"
    head = [f'<section id="{section.name}">', f"<h2>{section.name.upper()} &#160;{text(section.title)}</h2>"]
    if section.failed:
        return "\n".join([*head, f'<p class="missing">{text(section.failed)}</p><p>Raw data: {raw}</p></section>'])
    lines = [
        *head,
        f'<p class="question">{text(section.question)}</p>',
        f"<p><strong>Published.</strong> {text(section.finding)} <span class=\"published\">"
        f"({text(published.SOURCES[section.name])})</span></p>",
    ]
    judged = report.verdicts(section)
    if judged:
        told_lines = [told(section, peer, found) for peer, found in judged.items()]
        verdicts = {verdict for found in judged.values() for _, verdict in found}
        tone = "bad" if "behind" in verdicts else "good" if "ahead" in verdicts else "plain"
        lines.append(_verdict(tone, f"{section.own} in {section.figure} is", told_lines))
    lines += [f"<p>{text(remark)}</p>" for remark in section.remarks]
    band = "Bands span the rounds; bars have a line from the smallest to the largest; grey dashes and bars are published."
    lines.append(f'<figure><div class="card">{svg}</div><figcaption>{band} Raw data: {raw}</figcaption></figure>')
    first, *others = section.tables
    lines.append(_table(first, raw))
    if others:
        inside = "\n".join(_table(table, raw) for table in others)
        count = f"{len(others)} more table{'s' * (len(others) > 1)}"
        lines.append(f"<details open=\"open\"><summary>{count}</summary>\n{inside}\n</details>")
    return "\n".join([*lines, "</section>"])


def _table(table, raw):
    heads = "".join(f'<th scope="col" class="{kind or "label"}">{text(words)}</th>' for words, kind in table.heads)
    rows = []
    for label, *cells in table.rows:
        found = []
        for cell in cells:
            middle, spread = figures(cell)
            css = "missing" if cell.missing else cell.kind
            title = f' title="{escape_html.escape(cell.reason)}"' if cell.reason else ""
            below = f'<span class="spread">{text(spread)}</span>' if spread else ""
            found.append(f'<td class="{css}"{title}>{text(middle)}{below}</td>')
        rows.append(f'<tr><th scope="row">{text(label)}</th>{"".join(found)}</tr>')
    return (
        f'<figure><p class="caption">{text(table.caption)}</p><div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div><figcaption>Raw data: {raw}</figcaption></figure>"
    )


# ------------------------------------------------------------------ Markdown ---


def markdown(report: Report, results: str) -> str:
    """The page for the repository; plots are files in experiments/, raw data is in `results`."""
    _, sentence, lines = summary(report)
    parts = [
        "# Five published experiments, measured again",
        f"**{sentence}**" + "".join(f"\n- {line}" for line in lines),
        f"Generated by `bench/experiments` from [raw results]({results}); do not edit. `make bench` measures again on your "
        "machine; `make report` writes the same as one HTML page, `_build/report/report.html`.",
        rounds_note(report) + " Figures are medians over the rounds (smallest - largest); the first round warms up and is not "
        "counted; the arms of a cell take turns. Columns and rows with a year are published, from their authors' machines: "
        "compare shapes with them, not speeds.",
        "\n".join(["| | |", "|---|---|", *[f"| {name} | {value} |" for name, value in facts(report)]]),
    ]
    if missing := gaps(report):
        parts.append("Without figures:\n" + "".join(f"\n- {line}" for line in missing))
    for section in report.sections:
        raw = f"[{section.name}.json]({results}/{section.name}.json)"
        if any(section.name == each.name for each in report.second):
            raw += f", [second run]({results}/{SECOND}/{section.name}.json)"
        if section.failed:
            parts += [f"## {section.name.upper()}  {section.title}", f"{section.failed} ({raw})"]
            continue
        parts += [
            f"## {section.name.upper()}  {section.title}",
            f"{section.question} *Published*: {section.finding} ({published.SOURCES[section.name]})",
        ]
        if judged := report.verdicts(section):
            found = "".join(f"\n- {told(section, peer, each)}" for peer, each in judged.items())
            parts.append(f"{section.own} in {section.figure} is\n{found}")
        parts += section.remarks
        parts.append(f"![{section.title}](experiments/{section.name}.svg)\n\nRaw data: {raw}")
        parts += [_markdown_table(table) for table in section.tables]
    return "\n\n".join(parts) + "\n"


def _markdown_table(table):
    heads = [f"*{words}*" if kind == "published" else words for words, kind in table.heads]
    rows = []
    for label, *cells in table.rows:
        found = [figures(cell) for cell in cells]
        rows.append([label, *[f"{middle} ({spread})" if spread else middle for middle, spread in found]])
    lines = ["| " + " | ".join(row) + " |" for row in [heads, *rows]]
    rule = "|---|" + "---:|" * (len(heads) - 1)
    return f"### {table.caption}\n\n" + "\n".join([lines[0], rule, *lines[1:]])
