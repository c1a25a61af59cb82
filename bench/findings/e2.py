"""E2: a status that many processes update and read."""

from __future__ import annotations

import statistics

import published

from . import e2_replicated
from .section import (
    CPU_CLOCK, Cell, Claim, Contest, Panel, Section, Series, Table, counted, kind_of, known, missing, plural, ratio,
    times,
)  # fmt: skip

ARMS = {
    "gen_server": "gen_server call", "ets": "ETS", "mnesia_transaction": "Mnesia transaction",
    "mnesia_dirty": "Mnesia dirty", "todana": "Todana",
}


def e2(results) -> Section:
    """Operations per second on one status, on one node and on three."""
    replicated = e2_replicated.Replicated([result for result in results if "part" in result])
    results = [result for result in results if "part" not in result]
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
                    ARMS.get(arm, arm), plural(count, "process"), tuple(own), tuple(result["operations_per_second"]), True
                ))  # fmt: skip
        found = [cells.get((count, arm), {}).get("operations_per_second") for arm in ("todana", "mnesia_dirty", "ets")]
        rows.append([*row, ratio(found[0], found[1]), ratio(found[0], found[2])])
    heads = [("processes", ""), *[(ARMS.get(arm, arm), kind_of(arm)) for arm in arms]]
    heads += [("Todana / Mnesia dirty", "ratio"), ("Todana / ETS", "ratio")]
    tables = [
        Table("Thousands of operations per second on one status, updates and reads alternating", heads, rows),
        _cpu(cells, counts, arms),
        _comparisons(cells, counts[-1]),
        _profile_table(cells, counts[-1], arms),
    ]
    profilers = {result["profiler"]: result for result in results if "profiler" in result}
    if profilers:
        tables.append(_profiler_table(profilers))
    tables += replicated.tables()
    contests += replicated.contests()
    series = [
        Series(
            ARMS.get(arm, arm), {count: cells[count, arm].get("operations_per_second") for count in counts},
            kind_of(arm),
        )
        for arm in arms
    ]  # fmt: skip
    bars = [
        Series(ARMS.get(arm, arm), {0: [row["mean_us"]]}, kind_of(arm))
        for arm in arms
        for row in cells[counts[-1], arm].get("profile", ())
        if row["label"] == "update"
    ]
    return Section(
        "e2", "Where a hot server keeps its state", "What does it cost many processes to update and read one status?",
        "State that many processes use belongs in a shared table, not behind calls to one process.",
        "operations per second", "faster than", "slower than", _claims(cells, counts), tables,
        [Panel("operations", "Operations on one status", "processes", "operations per second", series),
         Panel("update-time", f"Mean time of an update, {counts[-1]} processes", "", "microseconds", bars, bars=True),
         *replicated.panels()],
        contests,
        remedy="Mnesia dirty", gist="A shared table is faster than calls to one process",
        headline=("ETS", "Mnesia dirty"), remarks=[
            "In 2010, 10,000 inserts spent 7.66 s in calls for a status whose handler took 0.79 s.",
            "Every update and read is profiled while it is counted. The cost of the profiler (last table) is part of all figures, "
            "so ratios between the fastest variants are nearer to 1 than without it.",
            "The original profiler was one process and took 1.05 us per pair of start and stop on OTP 25. The last table has a "
            "rebuilt profiler of the same design, measured in this run.",
            "Todana stores the number as text under the lock of its shard, so that every protocol can add to it; ETS adds to a "
            "term.",
            *replicated.remarks(),
        ],
    )  # fmt: skip


def _claims(cells, counts):
    """Whether ETS serves more operations than calls to one process, with each number of processes."""
    pairs = [
        Contest("gen_server call", "", *[tuple(cells[count, arm]["operations_per_second"]) for arm in ("ets", "gen_server")], True)
        for count in counts
        if all(cells.get((count, arm), {}).get("operations_per_second") for arm in ("ets", "gen_server"))
    ]
    if not pairs:
        return []
    figures = (
        f"ETS serves {times([each.ratio for each in pairs], '{:.1f}')} the operations of calls to one process "
        f"(more than {published.E2_ETS_SPEEDUP} times in 2010)"
    )
    ets, dirty = (_profile(cells, counts[-1], arm, "read") for arm in ("ets", "mnesia_dirty"))
    if ets and dirty and ets["p50_us"]:
        then = published.E2_DIRTY_READ_IN_ETS_READS
        figures += f", and a dirty read of Mnesia takes {dirty['p50_us'] / ets['p50_us']:.1f} times a read of ETS ({then} times in 2010)"
    return [Claim("a shared table is faster than calls to one process", figures, all(each.verdict == "better" for each in pairs))]


def _cpu(cells, counts, arms):
    heads = [("processes", ""), *[(ARMS.get(arm, arm), kind_of(arm)) for arm in arms]]
    rows = []
    for count in counts:
        found = [counted(cells.get((count, arm), {}).get("cpu_us_per_operation", ())) for arm in arms]
        cell = [Cell(v, "{:.3f}", kind=kind_of(arm)) if v else Cell(text="-") for arm, v in zip(arms, found)]
        rows.append([f"{count:,}", *cell])
    return Table(f"CPU microseconds of the node per operation ({CPU_CLOCK})", heads, rows)


def _profile(cells, count, arm, label):
    return next((row for row in cells.get((count, arm), {}).get("profile", ()) if row["label"] == label), None)


def _comparisons(cells, count):
    middle = {
        arm: statistics.median(cells[count, arm]["operations_per_second"])
        for arm in ARMS
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
        f"The published comparisons, measured again with {count} processes",
        [("", ""), ("2010", "published"), ("today", "baseline"), ("Todana", "todana")],
        [
            ["operations per second of a shared table, divided by those of calls", known(published.E2_ETS_SPEEDUP, "> {:.0f}x"), *words[0]],
            ["a read by Mnesia dirty and by Todana, divided by a read of ETS (p50)",
             known(published.E2_DIRTY_READ_IN_ETS_READS, "{:.0f}x"), *words[1]],
            ["mean time of an update, by a call and by Todana", known(then, "{:.0f} us"),
             Cell(text=f"{called['mean_us']:.1f} us" if called else "-"),
             Cell(text=f"{own['mean_us']:.2f} us" if own else "-", kind="todana")],
        ],
    )  # fmt: skip


def _profile_table(cells, count, arms):
    rows = [
        [
            f"{ARMS.get(arm, arm)}, {row['label']}",
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


def _profiler_table(profilers):
    arms = {
        "counters": ("todana_profile: counters, no process", "todana"),
        "ets": ("start times and sums in ETS", "baseline"),
        "process": ("casts to one process, the design of the original", "baseline"),
    }
    rows = [
        [words, missing(profilers[name]) or Cell(tuple(profilers[name]["us_per_pair"]), "{:.3f}", kind=kind)]
        for name, (words, kind) in arms.items()
        if name in profilers
    ]
    return Table("Cost of the profiler itself", [("profiler", ""), ("us per pair of start and stop", "baseline")], rows)
