"""The report as one HTML page that needs no other file."""

from __future__ import annotations

import html as escape_html
from pathlib import Path

import published
from findings import report as findings
from findings.section import plural

STYLE = (Path(__file__).resolve().parent / "report.css").read_text()
BAND = "Bands and dark lines span the rounds; grey dashes and grey bars are published figures from another machine."


def html(report, drawn) -> str:
    """The whole page; `drawn` has the plots of each experiment as SVG elements."""
    body = [
        "<header><h1>Five published experiments, measured again</h1>",
        '<p class="lead">Each experiment was rebuilt and runs on one machine and a current runtime, with Todana added to '
        "the authors' variants. For each: the published finding, what of it today's run shows, and where Todana stands.</p>",
        f'<div class="answers">{"".join(_answer(report, each) for each in report.sections)}</div></header>',
        _summary(report),
        *[_section(report, each, drawn.get(each.name, {})) for each in report.sections],
        _provenance(report),
    ]
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8"/>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>\n'
        f"<title>Todana: five experiments</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        + "\n".join(body)
        + "\n</main>\n</body>\n</html>\n"
    )


def text(words) -> str:
    """Escaped, with `code` set as such."""
    parts = escape_html.escape(str(words)).split("`")
    return "".join(f"<code>{part}</code>" if index % 2 else part for index, part in enumerate(parts))


def _answer(report, section):
    head = f'<h2><a href="#{section.name}">{section.name.upper()}</a> {text(section.title)}</h2>'
    if section.failed:
        return f'<article>{head}<p class="missing">{text(section.failed)}</p></article>'
    parts = (
        (f"Published {published.YEARS[section.name]}", section.finding),
        ("Today", _capital(findings.today(report, section)) + "."),
        ("Todana", findings.stands(report, section)),
    )
    return f"<article>{head}{''.join(f'<p><span class=part>{word}</span> {text(words)}</p>' for word, words in parts)}</article>".replace(
        "class=part", 'class="part"'
    )


def _summary(report):
    rows = []
    for section in report.sections:
        if section.failed:
            continue
        title = f'<a href="#{section.name}">{section.name.upper()}</a> {text(section.title)}: {text(findings.direction(section))}'
        rows.append(f'<tr class="group"><th scope="rowgroup" colspan="6"><span>{title}</span></th></tr>')
        for standing in report.standings(section):
            on = f", Todana on {standing.back_end}" if standing.back_end else ""
            rows.append(_summary_row(standing.name + on + (", not confirmed" if standing.is_unconfirmed else ""), standing.counts, standing.ratios))
        if not section.contests:
            rows.append(_summary_row("no variant of Todana in this run", None, "-"))
    rows.append('<tr class="group"><th scope="rowgroup" colspan="6"><span>Todana, sum over all peers</span></th></tr>')
    rows += [_summary_row(f"on {back_end}" if back_end else f"local ({findings.local(report)})", counts, "") for back_end, counts in findings.totals(report).items()]
    heads = "".join(f'<th scope="col">{words}</th>' for words in ("Compared with", "", "Better", "Within the noise", "Worse", "Todana / peer"))
    key = "".join(f'<span class="key {css}"></span> {words} ' for css, words in (("better", "better"), ("", "within the noise"), ("worse", "worse")))
    lost = findings.all_losses(report)
    failed = sum(", failed:" in line for line in findings.gaps(report))
    note = f'<p class="missing">{plural(failed, "gap")} of this run: see <a href="#gaps">below</a>.</p>' if failed else ""
    return (
        f'<section id="summary"><h2>Summary</h2>{note}<div class="sides"><div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div><div><p>{key}</p>"
        f"<p>Counts are configurations; ratios are those of the medians. {text(findings.rule(report))}</p>"
        f'<div id="losses"><p><strong>{findings.lost_words(report)}</strong></p>{_list(lost)}</div></div></div></section>'
    )


def _summary_row(name, counts, ratios):
    bar = "".join(
        f'<i class="{kind}" style="flex: {count}"></i>' for kind, count in zip(("better", "noise", "worse"), counts or ()) if count
    )
    cells = "".join(f"<td>{count:,}</td>" for count in counts) if counts else "<td>-</td>" * 3
    return f'<tr><th scope="row">{text(name)}</th><td><div class="share">{bar}</div></td>{cells}<td>{text(ratios)}</td></tr>'


def _list(lines):
    return f"<ul>{''.join(f'<li>{text(line)}</li>' for line in lines)}</ul>" if lines else ""


def _section(report, section, plots):
    raw = ", ".join(f"{label} <code>{report.place / path}</code>" for label, path in report.files(section))
    head = [f'<section id="{section.name}">', f"<h2>{section.name.upper()} &#160;{text(section.title)}</h2>"]
    if section.failed:
        return "\n".join([*head, f'<p class="missing">{text(section.failed)}</p><p>Data: {raw}</p></section>'])
    lines = [*head, f'<p class="question">{text(section.question)}</p>']
    cards = "".join(f'<div class="card">{svg}</div>' for svg in plots.values())
    lines.append(f'<figure><div class="plots">{cards}</div><figcaption>{BAND} Data: {raw}</figcaption></figure>')
    lines.append(
        f"<p><strong>Published.</strong> {text(section.finding)} <span class=\"published\">"
        f"({text(published.SETTINGS[section.name])})</span></p>"
        f"<p><em>Publication:</em> {text(published.PUBLICATIONS[section.name])}.</p>"
    )
    if claims := report.claims(section):
        lines.append("<h3>Today</h3>" + _list([f"{_capital(claim.subject)}: {label}. {_capital(claim.figures)}." for claim, label in claims]))
    lines.append(f"<h3>{text(section.own)}</h3>")
    if section.contests:
        lines.append(_list([
            findings.on_back_end(section, each.back_end, findings.compared(each)) for each in report.standings(section)
        ]))  # fmt: skip
        lost, close = findings.losses(report, section), findings.leanings(report, section)
        lines.append(f"<h3>Losses</h3>{_list(lost) or '<p>None beyond the noise.</p>'}")
        if close:
            lines.append(f"<h3>Within the noise, with a worse median</h3>{_list(close)}")
    else:
        lines.append(f"<p>{text(findings.stands(report, section))}</p>")
    lines.append(f"<h3>Notes</h3>{_list(section.remarks)}")
    inside = "\n".join(_table(table) for table in section.tables)
    lines.append(f"<details><summary>{plural(len(section.tables), 'table')}</summary>\n{inside}\n</details>")
    return "\n".join([*lines, "</section>"])


def _capital(words):
    return words[0].upper() + words[1:]


def _table(table):
    heads = "".join(f'<th scope="col" class="{kind or "label"}">{text(words)}</th>' for words, kind in table.heads)
    rows = []
    for label, *cells in table.rows:
        found = []
        for cell in cells:
            middle, spread = cell.shown
            css = "missing" if cell.missing else cell.kind
            title = f' title="{escape_html.escape(cell.reason)}"' if cell.reason else ""
            below = f'<span class="spread">{text(spread)}</span>' if spread else ""
            found.append(f'<td class="{css}"{title}>{text(middle)}{below}</td>')
        rows.append(f'<tr><th scope="row">{text(label)}</th>{"".join(found)}</tr>')
    return (
        f'<figure><p class="caption">{text(table.caption)}</p><div class="scroll"><table><thead><tr>{heads}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></figure>"
    )


def _provenance(report):
    rows = "".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in findings.provenance(report))
    missing = findings.gaps(report)
    gaps = f'<h3 id="gaps">Without figures</h3>{_list(missing)}' if missing else ""
    return (
        f'<section id="provenance"><h2>Provenance</h2>'
        "<p>Figures are medians over the rounds, with the smallest and the largest below. The first round of each variant warms up and is "
        'not counted; the variants of a configuration are interleaved. <span class="published">Published figures</span> come from the '
        "machines of their authors: compare shapes with them, not speeds.</p>"
        f"<dl>{rows}</dl>{gaps}</section>"
    )
