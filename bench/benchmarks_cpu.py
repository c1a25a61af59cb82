"""What docs/measured/benchmarks.md states about CPU time beyond that of plain requests: event loops, scripts, and nodes without clients."""

from __future__ import annotations

import loops as measured_loops
from benchmark_tables import VERDICTS, Figure, Part, best, grouped, part_of
from findings.section import Cell, Contest, Table, kind_of

# Figure, its name on the page, and whether more is better.
LOOP_FIGURES = [
    ("server_cpu_us_per_request", "server CPU per request", False),
    ("requests_per_second", "requests per second", True),
    ("p50_us", "latency p50", False),
    ("p99_us", "latency p99", False),
]
BY_LOAD = "todana-load"


def loops(results) -> Part:
    """Two event loops whose connections are distributed by load, beside the alternatives."""
    arms = list(dict.fromkeys(cell["arm"] for cell in results))
    configurations = _configurations(results)
    cpu = Figure("", "Server CPU per request (µs)", arms, "{:.2f}", False)
    for where, _, found in configurations:
        rounds = {arm: [each["server_cpu_us_per_request"] for each in reports] for arm, reports in found.items()}
        cpu.add(where, rounds, own=[rounds[BY_LOAD]])
    peers = _contests(configurations, [arm for arm in arms if kind_of(arm) != "todana"])
    ratios = {
        "`load` / `even`": _contests(configurations, ["todana-even"]),
        "`load` / one event loop": _contests(configurations, ["todana-one"]),
        "`load` / best peer": peers,
    }
    count = measured_loops.LOOPS
    intro = (
        f"What the option `event_loop_balance` changes. `todana-load` and `todana-even` have {count} event loops, `todana-one` has one, "
        f"memcached has {count} threads. {measured_loops.KEYS:,} keys of 16 B, values of {measured_loops.VALUE_BYTES} B, pipeline 1, loopback. All "
        "servers run at once, and no process is bound to cores, so these figures are not comparable with those over the network above. "
        "Closed loop: each connection sends its next request when the last one is answered. With a rate, that number of requests is due "
        "each second, at random moments, over all connections, and the latency counts from the moment at which a request was due.\n\n"
        "How to read the ratios: below 1, `load` uses less CPU time or answers sooner; for requests per second, above 1 is better."
    )
    tables = [_ratios(caption, contests) for caption, contests in ratios.items() if contests]
    return Part("Event loops", intro, [*tables, cpu.table], {f"Event loops by load, {words}": contests for words, contests in peers.items()})


def _configurations(results) -> list[tuple]:
    """Each configuration in words, whether it is paced, and its rounds by arm."""
    return [
        (measured_loops.described(cells[0]), rate is not None, {cell["arm"]: cell["rounds"] for cell in cells})
        for (_, _, rate), cells in grouped(results, "operation", "connections", "rate").items()
    ]


def _contests(configurations, arms) -> dict:
    """`load` beside the best of some arms: the contests of each figure that has some, by its name."""
    contests = {}
    for name, words, higher_is_better in LOOP_FIGURES if arms else []:
        for where, is_paced, found in configurations:
            # The generator decides how many requests a paced loop makes.
            if is_paced and name == "requests_per_second":
                continue
            own, *others = (tuple(each[name] for each in found[arm]) for arm in (BY_LOAD, *arms))
            contest = Contest("the best peer", where, own, best(others, higher_is_better), higher_is_better)
            contests.setdefault(words, []).append(contest)
    return contests


def _ratios(caption, contests) -> Table:
    """A row for each configuration, a column for each figure."""
    rows = {}
    for words, found in contests.items():
        for contest in found:
            rows.setdefault(contest.where, {})[words] = Cell(text=f"{contest.ratio:.2f} {VERDICTS[contest.verdict]}", kind="ratio")
    heads = [("", ""), *[(words, "ratio") for words in contests]]
    return Table(caption, heads, [[where, *[cells.get(words, Cell(text="-")) for words in contests]] for where, cells in rows.items()])


def scripts(results) -> Part:
    """Scripts that the server knows."""
    figure = Figure("Scripts, server CPU per request", "", list(dict.fromkeys(cell["server"] for cell in results)), "{:.2f}", False)
    for (row,), cells in grouped(results, "row").items():
        figure.add(row, {cell["server"]: cell["server_cpu_us_per_request"] for cell in cells})
    intro = (
        "Server CPU per request (µs), by RESP: one connection sends groups of 16 requests. The short script calls INCR, so its row minus "
        "that of INCR is the cost of a script. The long script has about 40,000 B of functions and returns at once: EVAL sends its text with "
        "each request, EVALSHA its name. SCRIPT LOAD has compiled all scripts before."
    )
    return part_of("Scripts", intro, [figure])


def idle(results) -> Part:
    """Nodes that nobody uses."""
    found = {_idle_arm(cell): cell["rounds"] for cell in results}
    figure = Figure("Without clients, CPU time and wake-ups", "", list(found), "", False)
    for where, name, pattern in (("CPU time (percent of a core)", "cpu_percent", "{:.3f}"), ("Wake-ups per second", "wakeups_per_s", "{:.1f}")):
        figure.pattern = pattern
        rounds = {arm: [each[name] for each in reports] for arm, reports in found.items()}
        figure.add(where, rounds, own=[rounds[arm] for arm in ("todana-durable",) if arm in rounds])
    intro = (
        "A node that has started and has no clients; a wake-up is a thread that has waited for something. `todana-memory` has no data directory, "
        "`todana-durable` has one, `todana-member` is one of three nodes of a cluster on this host (mean of the three). Redis has an "
        "append-only file, so it is compared with `todana-durable`."
    )
    return part_of("Without clients", intro, [figure])


def _idle_arm(cell) -> str:
    if cell["server"] == "redis":
        return "redis"
    return f"todana-{cell['server']}" + (f", {cell['build']}" if cell["build"] != "present" else "")
