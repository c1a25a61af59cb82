"""The table of README: some figures of one run, on one machine, of one commit."""

from __future__ import annotations

import statistics
import textwrap

import benchmark_tables
import benchmarks
import benchmarks_page
from findings.section import Contest
from markdown import grid

COLUMNS = 125
NAMES = {"todana": "Todana", "redis": "Redis", "resp": "RESP", "kyoto": "HTTP"}


class Mixed(ValueError):
    """The results are of several commits or machines."""


def _local(operation, size, processes):
    def choose(found):
        cells = [cell for cell in found if (cell["operation"], cell["value_bytes"], cell["processes"]) == (operation, size, processes)]
        return [("ETS" if "ets" in cell["arm"] else "Todana", "", [each / 1e6 for each in cell["operations_per_second"]]) for cell in cells]

    return choose


def _network(operation, pipeline, connections):
    def choose(found):
        cells = [cell for cell in found if (cell["operation"], cell["pipeline"], cell["connections"]) == (operation, pipeline, connections)]
        return [(cell["server"], cell["protocol"], [each["server_cpu_us_per_request"] for each in cell["rounds"]]) for cell in cells]

    return choose


def _kyoto(operation):
    def choose(found):
        cells = [cell for cell in found if (cell["operation"], cell["bulk"]) == (operation, 1) and cell["protocol"] != "kyoto-binary"]
        chosen = [cell for cell in cells if cell["server"] != "todana" or cell["protocol"] == "kyoto"]
        return [(cell["server"], cell["protocol"], [each["server_cpu_us_per_request"] for each in cell["rounds"]]) for cell in chosen]

    return choose


def _ranges(operation, entries):
    names = {"todana_ordered": "Todana", "ets_ordered_set": "ETS ordered_set"}

    def choose(found):
        cells = [cell for cell in found if (cell["operation"], cell["entries"]) == (operation, entries) and cell["arm"] in names]
        return [(names[cell["arm"]], "", cell["us_per_operation"]) for cell in cells]

    return choose


def _memory(size):
    def choose(found):
        cells = [cell for cell in found if (cell["value_bytes"], cell["expiry"]) == (size, False) and cell["server"] != "todana-ordered"]
        return [(cell["server"], "", [each["bytes_per_entry"] for each in cell["rounds"]]) for cell in cells]

    return choose


def _durable(name, pipeline, connections):
    def choose(found):
        cells = [cell for cell in found if cell["measure"] == "load" and cell["durability"] == "always"]
        chosen = [cell for cell in cells if (cell["pipeline"], cell["connections"]) == (pipeline, connections)]
        scale = 1e3 if name == "requests_per_second" else 1.0
        return [(cell["server"].partition("-")[0], "", [each[name] / scale for each in cell["rounds"]]) for cell in chosen]

    return choose


# Label, part, arms as (name, protocol, rounds), pattern, and whether more is better.
ROWS = [
    ("Local reads of 64 bytes, 1 process (million/s)", "local", _local("read", 64, 1), "{:.2f}", True),
    ("Local reads of 64 bytes, 8 processes (million/s)", "local", _local("read", 64, 8), "{:.2f}", True),
    ("Local reads of 10,000 bytes, 8 processes (million/s)", "local", _local("read", 10_000, 8), "{:.2f}", True),
    ("Local writes of 16 bytes, 2 processes (million/s)", "local", _local("write", 16, 2), "{:.2f}", True),
    ("Local writes of 10,000 bytes, 1 process (million/s)", "local", _local("write", 10_000, 1), "{:.2f}", True),
    ("Server CPU per GET, 50 connections (µs)", "network", _network("get", 1, 50), "{:.2f}", False),
    ("Server CPU per GET, 50 connections, pipeline of 16 (µs)", "network", _network("get", 16, 50), "{:.2f}", False),
    ("Server CPU per SET, 50 connections, pipeline of 16 (µs)", "network", _network("set", 16, 50), "{:.2f}", False),
    ("Server CPU per HTTP `get`, 10 connections (µs)", "kyoto", _kyoto("get"), "{:.2f}", False),
    ("Page of 100 records, ordered table of 100,000 (µs)", "ranges", _ranges("range", 100_000), "{:.2f}", False),
    ("Resident bytes per entry, key and value of 16 bytes", "memory", _memory(16), "{:,.0f}", False),
    ("Resident bytes per entry, value of 1,000 bytes", "memory", _memory(1_000), "{:,.0f}", False),
    ("SET on disk before the reply, 1 connection (p50, µs)", "durable", _durable("p50_us", 1, 1), "{:.0f}", False),
    ("SET on disk before the reply, 50 connections (thousand/s)", "durable", _durable("requests_per_second", 1, 50), "{:.1f}", True),
    ("SET on disk before the reply, 50 connections, pipeline of 16 (thousand/s)", "durable", _durable("requests_per_second", 16, 50), "{:.1f}", True),
]
PARTS = tuple(dict.fromkeys(part for _, part, *_ in ROWS))


def row_count(parts) -> int:
    """How many rows results of these parts have."""
    return sum(part in parts for _, part, *_ in ROWS)


def text(found) -> str:
    """The part of README, from the raw results of one directory by part."""
    lines = [_row(*row, found[row[1]]["results"]) for row in ROWS if row[1] in found]
    heads = ["", "Todana", "Alternative", "Ratio", "Todana is"]
    table = grid(heads, [line for line in lines if line], "|---|---|---|---:|---|")
    parts = [benchmarks.PARTS[name](found[name]["results"]) for name in found]
    all_contests = [contest for part in parts for contests in part.contests.values() for contest in contests]
    better, noise, worse = benchmarks_page.counts(all_contests)
    lost = {
        figure: benchmarks_page.counts(contests) for part in parts for figure, contests in part.contests.items() if benchmarks_page.counts(contests)[2]
    }
    named = "; ".join(f"{figure[0].lower()}{figure[1:]} ({counts[2]} of {sum(counts)})" for figure, counts in lost.items())
    summary = (
        f"In all configurations of this run, Todana is better than the best peer in {better}, within the noise in {noise} and worse "
        f"in {worse}" + (f": {named}." if named else ".")
    )
    return "\n\n".join([textwrap.fill(_head(found), COLUMNS), table, textwrap.fill(summary, COLUMNS)])


def _head(found):
    machines = [each["machine"] for each in found.values()]
    for name, values in (
        ("commits", {each["versions"]["todana"] for each in machines}),
        ("machines", {(each["cpu"], each["cores"], each["memory_gib"]) for each in machines}),
    ):
        if len(values) > 1:
            raise Mixed(f"the results are of several {name}: {', '.join(map(str, sorted(values)))}")
    facts = machines[0]
    found_dates = [each["date"] for each in machines]
    dates = " to ".join(dict.fromkeys((min(found_dates), max(found_dates))))
    # `Redis server v=7.0.15 sha=...` and `memcached 1.6.18`.
    peers = [
        f"{words} {facts['versions'][name].partition('v=')[2].split(' ')[0] or facts['versions'][name].split(' ')[-1]}"
        for name, words in (("redis-server", "Redis"), ("memcached", "memcached"))
        if name in facts["versions"]
    ]
    return (
        f"Medians of interleaved rounds, {dates}, commit {facts['versions']['todana']}, on {facts['cores']} cores ({facts['cpu']}, "
        f"{facts['memory_gib']} GiB, {facts['system']}, {facts['versions']['erlang']}), beside {' and '.join(peers)} in the same run. "
        "The last column states an ordering only if no rounds overlap."
    )


def _row(label, _part, choose, pattern, higher_is_better, results):
    """A line: each protocol of Todana, each peer, and the ratio of the best of both."""
    arms = {}
    for server, protocol, rounds in choose(results):
        # Of several arms of one name, the best.
        key = (NAMES.get(server, server), NAMES.get(protocol, protocol))
        arms[key] = benchmark_tables.best([arms.get(key, rounds), rounds], higher_is_better)
    own, peers = ({key: rounds for key, rounds in arms.items() if (key[0] == "Todana") is is_own} for is_own in (True, False))
    if not own or not peers:
        return None
    contest = Contest("", label, *[tuple(benchmark_tables.best(each.values(), higher_is_better)) for each in (own, peers)], higher_is_better)
    shown = [
        ", ".join(
            " ".join(filter(None, [server if server != "Todana" else "", pattern.format(_median(rounds)), protocol if server == "Todana" else ""]))
            for (server, protocol), rounds in each.items()
        )
        for each in (own, peers)
    ]
    verdict = {"better": "better", "noise": "within the noise", "worse": "**worse**"}[contest.verdict]
    direction = f"{'more' if higher_is_better else 'less'} is better"
    named = f"{label[:-1]}, {direction})" if label.endswith(")") else f"{label} ({direction})"
    return [named, *shown, f"{contest.ratio:.2f}", verdict]


def _median(rounds):
    return statistics.median(rounds)
