"""E4: a process whose mailbox is flooded with replies."""

from __future__ import annotations

import statistics

import published

from .section import (
    Cell, Claim, Contest, Panel, Section, Series, Table, distinct, known, missing, plural, ratio, spread, times,
)  # fmt: skip

# A mailbox collapses if the largest flood leaves less than this share of its best rate, and is stable above the other.
COLLAPSED_BELOW, STABLE_FROM = 0.1, 0.5
PATHS = {"direct": "direct", "timer": "timer buffer", "load": "batch by load"}


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
            row.append(missing(result) or (Cell(speeds[arm], "{:,.0f}", kind=_kind(arm)) if speeds[arm] else Cell(text="-")))
        for mailbox in distinct(results, "mailbox"):
            for path in ("timer", "direct"):
                own, other = speeds.get((mailbox, "load")), speeds.get((mailbox, path))
                if own and other:
                    where = f"{count:,} messages, {mailbox}"
                    contests.append(Contest(PATHS[path], where, own, other, True))
        rows.append([*row, ratio(speeds.get(("off_heap", "load")), speeds.get(("off_heap", "timer")))])
    heads = [("messages", ""), *[(f"{_words(arm)}, 2017", "published") for arm in published.E4_PER_SECOND]]
    heads += [(_words(arm), _kind(arm)) for arm in arms] + [("load / timer, off_heap", "ratio")]
    series = [
        Series(f"{_words(arm)}, published 2017", {count: [value] for count, value in figures.items()}, "published")
        for arm, figures in published.E4_PER_SECOND.items()
        if arm in (("on_heap", "direct"), ("off_heap", "timer"))
    ]
    for arm in arms:
        points = {count: spread(cells.get((count, *arm), {}).get("rounds", ()), "per_second") for count in counts}
        series.append(Series(_words(arm), points, _kind(arm)))
    largest = [
        Series(_words(arm), {0: [each / 1e3 for each in spread(cells.get((counts[-1], *arm), {}).get("rounds", ()), "p99_us")
                                    if each is not None]}, _kind(arm))
        for arm in arms
    ]  # fmt: skip
    return Section(
        "e4", "What a flooded mailbox costs", "How does a process perform while replies pile up in its mailbox?",
        "A flooded on_heap mailbox collapses, because its messages are garbage-collected again and again; off_heap is stable; "
        "batching wins.",
        "replies per second", "faster than", "slower than", _claims(cells, counts),
        [Table("Replies per second", heads, rows), _detail(cells, counts[-1], arms)],
        [Panel("throughput", "Throughput", "messages", "replies per second", series),
         Panel("round-trip", f"p99 of a round trip, {counts[-1]:,} messages", "", "milliseconds", largest, bars=True)],
        contests,
        remedy=PATHS["timer"], headline=(PATHS["timer"], PATHS["direct"]), own=f"The {PATHS['load']}",
        gist="A flooded on_heap mailbox collapses, off_heap is stable, and batching wins", remarks=[
            f"No code of Todana is in the path: the {PATHS['load']} is a pattern, written in `bench/e4.erl`. Its sender waits "
            "only for the answer to the previous list, and needs no timer.",
            "The timer buffer waits for 100 ms without a message before it sends the rest. This is a large part of a run of "
            "10,000 messages and a small one of 500,000.", _complete(cells),
        ],
    )  # fmt: skip


def _claims(cells, counts):
    """How the largest flood compares with smaller ones, and batching with single messages."""
    largest = counts[-1]
    claims = []
    for mailbox, subject, holds in (
        ("on_heap", "an on_heap mailbox collapses", lambda share: share < COLLAPSED_BELOW),
        ("off_heap", "an off_heap mailbox is stable", lambda share: share >= STABLE_FROM),
    ):
        rates = {count: spread(cells.get((count, mailbox, "direct"), {}).get("rounds", ()), "per_second") for count in counts}
        smaller = [statistics.median(found) for count, found in rates.items() if found and count < largest]
        if not smaller or not rates[largest]:
            continue
        share = statistics.median(rates[largest]) / max(smaller)
        then = published.E4_PER_SECOND[mailbox, "direct"]
        claims.append(Claim(
            subject,
            f"{largest:,} messages leave {mailbox} {share:.2f} of its best rate with fewer "
            f"({then[max(then)] / max(then.values()):.2f} in 2017)",
            holds(share),
        ))  # fmt: skip
    pairs = [
        Contest("", "", *[spread(cells.get((largest, mailbox, path), {}).get("rounds", ()), "per_second") for path in ("timer", "direct")], True)
        for mailbox in ("on_heap", "off_heap")
    ]
    pairs = [each for each in pairs if each.own and each.other]
    if pairs:
        ratios = [published.E4_PER_SECOND[box, "timer"][500_000] / published.E4_PER_SECOND[box, "direct"][500_000] for box in ("on_heap", "off_heap")]
        claims.append(Claim(
            "batching wins",
            f"with {largest:,} messages, the {PATHS['timer']} has {times([each.ratio for each in pairs], '{:.1f}')} the rate of single "
            f"messages ({times(ratios, '{:.1f}')} in 2017)",
            all(each.verdict == "better" for each in pairs),
        ))  # fmt: skip
    return claims


def _complete(cells):
    """Which rounds did not end with each message received exactly once."""
    gaps = []
    for (count, *arm), result in cells.items():
        rounds = result.get("rounds", ())
        bad = sum(each["received"] < count or each["duplicated"] > 0 for each in rounds)
        if bad:
            gaps.append(f"{bad} of {plural(len(rounds), 'round')} of {_words(tuple(arm))} with {count:,} messages")
    if gaps:
        return "Not all messages came back exactly once by the deadline; rates and percentiles count those that did: " + (
            "; ".join(gaps) + "."
        )
    return "In every round that has figures, each message came back exactly once."


def _words(arm):
    return f"{PATHS.get(arm[1], arm[1])}, {arm[0]}"


def _kind(arm):
    return "todana" if arm[1] == "load" else "baseline"


def _detail(cells, count, arms):
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
        row = [_words(arm)]
        for name, (_, pattern, scale) in columns.items():
            values = tuple(each[name] / scale for each in result.get("rounds", ()) if each.get(name) is not None)
            row.append(missing(result) or (Cell(values, pattern, kind=_kind(arm)) if values else Cell(text="-")))
        rows.append(row)
    heads = [("variant", ""), *[(words, "baseline") for words, _, _ in columns.values()]]
    return Table(f"Outcome of {count:,} messages", heads, rows)
