"""E1: reads of one table by many clients."""

from __future__ import annotations

import statistics

import published

from .section import (
    CPU_CLOCK, Cell, Claim, Contest, Panel, Section, Series, Table, counted, distinct, kind_of, known, missing, plural,
    ratio,
)  # fmt: skip

# A set of readers scales if together they read at least this many times as fast as one of them.
SCALES_FROM = 1.5
ARMS = {
    "dict_local": "a dict private to the reader", "dict": "dict process", "gen_server": "gen_server with a map", "ets": "named ETS",
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
        words = _words(*keys)
        plain = keys[0] == "integer" and keys[2] == "spread"
        tables.append(_reads(cells, clients, arms, words, plain))
        if plain:
            tables.append(_scale(cells, clients, arms))
            tables.append(_cpu(cells, clients, arms))
        for count in clients:
            for arm in arms:
                own, other = cells.get((count, "todana"), {}), cells.get((count, arm), {})
                if arm != "todana" and own.get("reads_per_second") and other.get("reads_per_second"):
                    contests.append(Contest(
                        ARMS.get(arm, arm), f"{words}, {plural(count, 'client')}", tuple(own["reads_per_second"]),
                        tuple(other["reads_per_second"]), True,
                    ))  # fmt: skip
    remarks.append(
        "`persistent_term` is a pool of constants: each change makes every process scan its heap, so it cannot store data that "
        "changes. It shows the lowest possible cost of a read."
    )
    remarks.append(
        "The published serial run, ten million reads by one process, reached {dict:.2f} M/s with a dict (probably the "
        "reader's own) and {ets:.2f} M/s with ETS. The rows of one client correspond to it.".format(**published.E1_SERIAL_MILLIONS)
    )
    remarks.append(
        "Integer keys are the best case of ETS, which compares small terms. Todana converts them to decimal text, which every "
        "protocol can read, and back."
    )
    return Section(
        "e1", "Reads that scale", "Do concurrent readers slow each other down?",
        "A process that owns the data is a bottleneck for its readers; a named ETS table with `read_concurrency` scales with the "
        "cores.",
        "reads per second", "faster than", "slower than", _claims(results), tables,
        [_panel(results, arms, "spread"), _panel(results, arms, "hot")], contests,
        remedy="named ETS", gist="A named ETS table scales with the cores; a process that owns the data does not",
        headline=("named ETS", "persistent_term"), remarks=remarks,
    )  # fmt: skip


def _claims(results):
    """The best rate of several clients over that of one, of the owning process and of ETS."""
    peaks = {}
    for arm in ("dict", "ets"):
        rates = {
            each["clients"]: statistics.median(each["reads_per_second"])
            for each in results
            if (each["arm"], each["keys"], each["spread"]) == (arm, "integer", "spread") and each.get("reads_per_second")
        }
        several = [rate for count, rate in rates.items() if count > 1]
        if not several or not rates.get(1):
            return []
        peaks[arm] = max(several) / rates[1]
    then = {arm: max(found.values()) / found[1] for arm, found in published.E1_READS.items()}
    return [
        Claim(
            "the owning process is a bottleneck",
            f"several clients of the dict process together read at most {peaks['dict']:.2f} times as fast as one "
            f"({then['dict']:.2f} times in 2014)",
            peaks["dict"] < SCALES_FROM,
        ),
        Claim(
            "a named ETS table scales",
            f"several readers of ETS together read at most {peaks['ets']:.2f} times as fast as one "
            f"({then['ets']:.2f} times in 2014, with 16 cores)",
            peaks["ets"] >= SCALES_FROM,
        ),
    ]


def _words(keys, value_bytes, spread_word):
    if keys == "integer":
        return "integer keys" if spread_word == "spread" else "integer keys, all clients read one key"
    return f"binary keys, values of {value_bytes:,} B" + ("" if spread_word == "spread" else ", all clients read one key")


def _reads(cells, clients, arms, words, with_published):
    heads = [("clients", "")]
    heads += [(f"{ARMS[arm]}, 2014", "published") for arm in published.E1_READS if with_published]
    heads += [(ARMS.get(arm, arm), kind_of(arm)) for arm in arms] + [("Todana / ETS", "ratio")]
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


def _scale(cells, clients, arms):
    heads = [("clients", ""), *[(f"{ARMS[arm]}, 2014", "published") for arm in published.E1_READS]]
    heads += [(ARMS.get(arm, arm), kind_of(arm)) for arm in arms]
    rows = []
    for count in clients:
        row = [f"{count:,}", *[known(f.get(count) and f[count] / f[1]) for f in published.E1_READS.values()]]
        for arm in arms:
            found = [cells.get((each, arm), {}).get("reads_per_second") for each in (count, clients[0])]
            scale = statistics.median(found[0]) / statistics.median(found[1]) if all(found) else None
            row.append(Cell(text="-" if scale is None else f"{scale:.2f}", kind=kind_of(arm)))
        rows.append(row)
    return Table(f"Scale: the rate of each number of clients divided by that of {clients[0]}, integer keys", heads, rows)


def _cpu(cells, clients, arms):
    heads = [("clients", ""), *[(ARMS.get(arm, arm), kind_of(arm)) for arm in arms], ("Todana / ETS", "ratio")]
    rows = []
    for count in clients:
        found = {arm: counted(cells.get((count, arm), {}).get("cpu_us_per_read", ())) for arm in arms}
        cell = [Cell(v, "{:.3f}", kind=kind_of(arm)) if v else Cell(text="-") for arm, v in found.items()]
        rows.append([f"{count:,}", *cell, ratio(found.get("todana"), found.get("ets"))])
    return Table(f"CPU microseconds of the node per read, integer keys ({CPU_CLOCK})", heads, rows)


def _panel(results, arms, spread_word):
    chosen = [each for each in results if each["keys"] == "integer" and each["spread"] == spread_word]
    series = []
    if spread_word == "spread":
        series = [
            Series(f"{ARMS[arm]}, published 2014", {count: [value] for count, value in found.items()}, "published")
            for arm, found in published.E1_READS.items()
        ]
    series += [
        Series(
            ARMS.get(arm, arm),
            {each["clients"]: each.get("reads_per_second") for each in chosen if each["arm"] == arm}, kind_of(arm),
        )
        for arm in arms
    ]  # fmt: skip
    title = "1,000 integer keys" if spread_word == "spread" else "All clients read one key"
    return Panel("reads" if spread_word == "spread" else "one-key", title, "clients", "reads per second", series)
