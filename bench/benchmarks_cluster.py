"""What docs/measured/benchmarks.md states about clusters: three nodes beside etcd and Mnesia, their reads, joins and failovers.

Each target is stated with what was found, whether it was met or not.
"""

from __future__ import annotations

import statistics

from benchmark_tables import Figure, Part, grouped
from findings.section import Cell, Contest, Table, kind_of, plural

# Targets. The latency of a write of one client, beyond two concurrent fdatasyncs.
P50_ABOVE_FLOOR_MS_MAX = 0.5
# CPU time of the node for a bounded read, as a share of that of a node in memory.
BOUNDED_CPU_MAX = 1.05
# Linear reads per second, as a share of bounded ones.
LINEAR_MIN = 0.5
# Time without an acknowledged write when the leader is killed.
GAP_S_MAX, GAP_P99_S_MAX = 1.0, 2.0
# Beyond this, the page says that the host was not quiet.
QUIET_CORES = 0.3
# On hosts of their own; with one host there is nothing to compare.
WRITES_PER_SECOND_MIN = 200_000

FIGURES = [
    ("requests_per_second", "writes per second", "{:.2f}", 1e3, True, "thousands"),
    ("p50_us", "latency p50", "{:.2f}", 1e3, False, "ms"),
    ("p99_us", "latency p99", "{:.2f}", 1e3, False, "ms"),
    ("cpu_us_of_all_nodes", "CPU of all nodes per write", "{:.0f}", 1.0, False, "µs"),
    ("sent_bytes_per_request", "bytes sent between nodes per write", "{:.0f}", 1.0, False, "bytes"),
    ("written_bytes_per_request", "bytes written to disk per write", "{:.0f}", 1.0, False, "bytes, all nodes, whole pages"),
]
PEERS = {"etcd": "beside etcd", "mnesia": "beside Mnesia"}
READ_FIGURES = [
    ("requests_per_second", "Reads per second (thousands)", "{:.1f}", 1e3),
    ("p50_us", "Latency p50 of a read (ms)", "{:.3f}", 1e3),
    ("p99_us", "Latency p99 of a read (ms)", "{:.3f}", 1e3),
    ("cpu_us_of_first", "CPU of the node that answers, per read (µs)", "{:.2f}", 1.0),
    ("cpu_us_of_all_nodes", "CPU of all nodes per read (µs)", "{:.2f}", 1.0),
]


def replicated(results) -> Part:
    """Writes, reads and joins."""
    floors = [each for cell in results if cell["measure"] == "floor" for each in cell["rounds"]]
    writes = [cell for cell in results if cell["measure"] == "write" and "rounds" in cell]
    reads = [cell for cell in results if cell["measure"] == "read"]
    figures = _write_figures(writes, floors)
    joins = [cell for cell in results if cell["measure"] == "join"]
    logs = [cell for cell in results if cell["measure"] == "log_bytes"]
    tables = [_targets([*_write_targets(writes, floors), *_read_targets(reads)])]
    tables += [figure.table for figure in figures] + _read_tables(reads) + [_log_table(logs), _join_table(joins)]
    contests = {figure.name: figure.contests for figure in figures if figure.contests} | _read_contests(reads)
    left_out = [f" Not measured: {cell['arm']} ({cell['not_possible']})." for cell in results if "not_possible" in cell]
    intro = (
        "Three nodes, the generator and, interleaved, three members of each peer share one host and **one disk**: each write is three "
        "appends and three fdatasyncs on it. Keys of 16 B, values of 100 B. "
        f"{_busy_words(results)} A reply of Todana, and one of etcd, means that a majority of the nodes has called fdatasync. **A reply "
        "of Mnesia does not**: `mnesia_disc` (`disc_copies`, transaction) and `mnesia_disc_sync` (sync_transaction) write a log that is "
        "not synced, `mnesia_ram` has `ram_copies`; and its clients are processes of the node itself, whose CPU time is in the figures "
        "of Mnesia, while that of the clients of the others is not. etcd is loaded through its own Go client, ten clients per "
        "connection; its reads and writes have no pipeline. `_leader` and `_follower` name the node that the clients use." + "".join(left_out)
    )
    return Part("Three nodes", intro, [table for table in tables if table.rows], contests)


def failover(results) -> Part:
    """The leader is killed again and again."""
    [cell] = results
    gaps = sorted(each["gap_ms"] / 1e3 for each in cell["rounds"])
    of_clients = sorted(each["gap_of_a_client_ms"] / 1e3 for each in cell["rounds"])
    returns = [each["return_s"] for each in cell["rounds"]]
    meanwhile = sorted(each["gap_while_the_node_returns_ms"] / 1e3 for each in cell["rounds"])
    count = len(gaps)
    rows = [
        [
            "without an acknowledged write, p50", f"<= {GAP_S_MAX} s", f"{_percentile(gaps, 0.5):.2f} s",
            _verdict(_percentile(gaps, 0.5) <= GAP_S_MAX),
        ],
        [
            "without an acknowledged write, p99", f"<= {GAP_P99_S_MAX} s", f"{_percentile(gaps, 0.99):.2f} s",
            _verdict(_percentile(gaps, 0.99) <= GAP_P99_S_MAX),
        ],
        ["acknowledged writes lost (the last one of each client is looked for)", "0", f"{cell['lost']} of {cell['acknowledged']:,}", _verdict(cell["lost"] == 0)],
    ]  # fmt: skip
    names = {
        "without an acknowledged write of any client": gaps, "of the client that waited longest": of_clients,
        "longest time without one while the killed node returns": meanwhile, "until the killed node has caught up": sorted(returns),
    }  # fmt: skip
    table = Table(
        f"Seconds, {plural(count, 'kill')}",
        [("", ""), *[(head, "todana") for head in ("p50", "p90", "p99", "longest")]],
        [
            [name, *[Cell(text=f"{value:.2f}", kind="todana") for value in (*(_percentile(found, share) for share in (0.5, 0.9, 0.99)), found[-1])]]
            for name, found in names.items()
        ],
    )
    few = "" if count >= cell["kills_wanted"] else f" The time of the run sufficed for {count} of {cell['kills_wanted']} kills."
    with_100 = "" if count >= 100 else f" With {plural(count, 'kill')}, p99 is the longest one."
    log = (
        " A node reads its log since the last snapshot when it starts, and small logs have none (`snapshot_log_bytes`): "
        f"the log grew to {cell['acknowledged']:,} writes, and the first {edge} returns took {statistics.median(returns[:edge]):.1f} s, the last "
        f"{edge} {statistics.median(returns[-edge:]):.1f} s (medians)."
        if (edge := count // 4) else ""
    )  # fmt: skip
    intro = (
        f"{plural(cell['clients'], 'client')} write without a pause, each to one of three nodes, and go to the next node when a request fails. "
        f"`kill -9` ends the leader's process, which is started again and has caught up before the next kill. The process ends on a "
        "running host, so the others see the end of its connections at once; a host that is switched off is noticed by a time-out "
        f"instead.{few}{with_100}{log} {_busy_words(results)}"
    )
    words = ", ".join(f"{count:,} {name}" for name, count in sorted(cell["errors"].items(), key=lambda item: -item[1]))
    return Part("Failover", f"{intro} Errors that clients saw and retried: {words or 'none'}.", [_targets(rows), table], {})


def _targets(rows):
    rows = [[where, Cell(text=target), Cell(text=found), Cell(text=verdict)] for where, target, found, verdict in rows]
    return Table("Targets", [("", ""), ("target", ""), ("found", "todana"), ("", "")], rows)


def _verdict(is_met) -> str:
    return "met" if is_met else "**missed**"


def _busy_words(results):
    found = [each["busy_cores_before"] for cell in results for each in (cell, *cell.get("rounds", ())) if "busy_cores_before" in each]
    if not found:
        return ""
    low, high = f"{min(found):.1f}", f"{max(found):.1f}"
    cores = low if low == high else f"{low} to {high}"
    words = f"Other programs of the host, and the idle nodes, used {cores} of its cores when a configuration began"
    return words + (": latencies and rates are worse than on a quiet host, and CPU times are the better figure." if max(found) > QUIET_CORES else ".")


def _write_figures(writes, floors):
    found = []
    for peer, words in PEERS.items():
        arms = [arm for arm in dict.fromkeys(cell["arm"] for cell in writes) if kind_of(arm) == "todana" or arm.startswith(peer)]
        for name, title, pattern, scale, higher, unit in FIGURES:
            figure = Figure(f"Three nodes, {words}, {title}", f"{title[0].upper()}{title[1:]} ({unit}), {words}", arms, pattern, higher, scale)
            for (clients, pipeline), cells in grouped(writes, "clients", "pipeline").items():
                rounds = {
                    cell["arm"]: [each[name] for each in cell["rounds"]]
                    for cell in cells
                    if cell["arm"] in arms and all(name in each for each in cell["rounds"])
                }
                if rounds:
                    # Bytes on the disk are not compared: only Todana and etcd have called fdatasync.
                    compared = {"own": [], "peers": []} if name == "written_bytes_per_request" else {}
                    figure.add(f"{plural(clients, 'client')}, pipeline {pipeline}", rounds, **compared)
            if name.endswith("_us") and floors:
                row = [Cell(tuple(each[name] / scale for each in floors), pattern) if arm == arms[0] else Cell(text="-") for arm in arms]
                figure.rows.insert(0, ["two concurrent fdatasyncs, without a server", *row, Cell(text="-")])
            if figure.rows:
                found.append(figure)
    return found


def _write_targets(writes, floors):
    rows = []
    single = _rounds(writes, "p50_us", arm="todana_leader", clients=1, pipeline=1)
    if single and floors:
        p50, disk = statistics.median(single) / 1e3, statistics.median([each["p50_us"] for each in floors]) / 1e3
        rows.append([
            "SET of 1 client, p50 above that of two concurrent fdatasyncs", f"<= {P50_ABOVE_FLOOR_MS_MAX} ms",
            f"{p50 - disk:.2f} ms ({p50:.2f} - {disk:.2f})", _verdict(p50 - disk <= P50_ABOVE_FLOOR_MS_MAX),
        ])  # fmt: skip
    rates = [each["requests_per_second"] for cell in writes if kind_of(cell["arm"]) == "todana" for each in cell["rounds"]]
    if rates:
        rows.append([
            "SETs per second of many clients, three hosts", f">= {WRITES_PER_SECOND_MIN:,}", f"up to {max(rates):,.0f} on one host",
            "not testable on one host",
        ])  # fmt: skip
    return rows


def _read_targets(reads):
    rows = []
    for (clients, pipeline), cells in grouped(reads, "clients", "pipeline").items():
        where = f"{plural(clients, 'client')}, pipeline {pipeline}"
        memory = _rounds(cells, "cpu_us_of_first", arm="memory")
        for node in ("leader", "follower"):
            bounded = _rounds(cells, "cpu_us_of_first", arm=f"bounded_{node}")
            if memory and bounded and clients > 1:
                ratio = statistics.median(bounded) / statistics.median(memory)
                rows.append([
                    f"`bounded` GET, CPU of the {node} as a share of a node in memory, {where}", f"<= {BOUNDED_CPU_MAX:.2f}", f"{ratio:.2f}",
                    _verdict(ratio <= BOUNDED_CPU_MAX),
                ])  # fmt: skip
            linear, fast = (_rounds(cells, "requests_per_second", arm=f"{level}_{node}") for level in ("linear", "bounded"))
            if linear and fast and clients > 1:
                ratio = statistics.median(linear) / statistics.median(fast)
                rows.append([
                    f"`linear` GETs per second as a share of `bounded` ones, {node}, {where}", f">= {LINEAR_MIN}", f"{ratio:.2f}",
                    _verdict(ratio >= LINEAR_MIN),
                ])  # fmt: skip
    return rows


def _read_tables(reads):
    arms = list(dict.fromkeys(cell["arm"] for cell in reads))
    heads = [("", ""), *[(arm, "baseline" if arm == "memory" or arm.startswith("etcd") else "todana") for arm in arms]]
    tables = []
    for name, title, pattern, scale in READ_FIGURES:
        rows = []
        for (clients, pipeline), cells in grouped(reads, "clients", "pipeline").items():
            row = [f"{plural(clients, 'client')}, pipeline {pipeline}"]
            for arm in arms:
                rounds = _rounds(cells, name, arm=arm)
                row.append(Cell(tuple(each / scale for each in rounds), pattern) if rounds else Cell(text="-"))
            rows.append(row)
        tables.append(Table(title, heads, rows))
    return tables


def _read_contests(reads):
    """Reads of the same promise: confirmed by the leader, or answered by the node alone."""
    found = {}
    for level, peer in (("linear", "etcd_linearizable"), ("local", "etcd_serializable")):
        contests = []
        for (clients, pipeline), cells in grouped(reads, "clients", "pipeline").items():
            own, other = (_rounds(cells, "requests_per_second", arm=f"{name}_leader") for name in (level, peer))
            if own and other:
                contests.append(Contest("the best peer", f"{plural(clients, 'client')}, pipeline {pipeline}", tuple(own), tuple(other), True))
        if contests:
            found[f"Three nodes, `{level}` reads per second beside etcd"] = contests
    return found


def _rounds(cells, name, **wanted):
    """A figure of the rounds of the one cell with these fields."""
    for cell in cells:
        if "rounds" in cell and all(cell[field] == value for field, value in wanted.items()):
            if name == "cpu_us_of_first":
                return [each["cpu_us_by_node"][0] for each in cell["rounds"]]
            return [each[name] for each in cell["rounds"]]
    return []


def _log_table(logs):
    rows = []
    for cell in logs:
        for each in cell["rounds"]:
            nodes = ", ".join(f"{node:.0f}" for node in each["log_bytes_by_node"])
            rows.append([f"SET of {cell['payload_bytes']} B, 50 clients, pipeline 16", Cell(text=nodes, kind="todana"),
                         *[Cell(text=f"{each[name]:.0f}" if name in each else "-", kind="todana")
                           for name in ("sent_bytes_per_request", "written_bytes_per_request", "cpu_us_of_all_nodes")]])  # fmt: skip
    heads = [
        ("", ""), ("log bytes, each node", "todana"), ("bytes sent between nodes", "todana"), ("bytes written, all nodes", "todana"),
        ("CPU of all nodes (µs)", "todana"),
    ]  # fmt: skip
    return Table("What a replicated write takes", heads, rows)


def _join_table(joins):
    heads = [("", ""), ("", "todana")]
    rows = []
    for cell in joins:
        rounds = cell["rounds"]
        figures = [
            ("seconds until the new node serves and has all records", "seconds", "{:.1f}", 1.0),
            ("p99 of clients before (ms, median of slices of 1 s)", "p99_us_before", "{:.2f}", 1e3),
            ("p99 of clients meanwhile (ms)", "p99_us_during", "{:.2f}", 1e3),
            ("p99 of the worst second before (ms)", "worst_p99_us_before", "{:.2f}", 1e3),
            ("p99 of the worst second meanwhile (ms)", "worst_p99_us_during", "{:.2f}", 1e3),
            ("longest request before (ms)", "longest_us_before", "{:.1f}", 1e3),
            ("longest request meanwhile (ms)", "longest_us_during", "{:.1f}", 1e3),
            ("SETs per second before", "requests_per_second_before", "{:,.0f}", 1.0),
            ("SETs per second meanwhile", "requests_per_second_during", "{:,.0f}", 1.0),
        ]
        for words, name, pattern, scale in figures:
            rows.append([words, Cell(tuple(each[name] / scale for each in rounds), pattern, kind="todana")])
    records = max((cell["records"] for cell in joins), default=0)
    return Table(f"A fourth node joins {records:,} records, {plural(joins[0]['clients'] if joins else 0, 'client')} of the leader write", heads, rows)


def _percentile(ordered, share):
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
