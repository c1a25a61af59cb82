"""What docs/measured/benchmarks.md states about each part: its tables, and Todana beside the best peer in each configuration.

A function per part turns raw results into a `Part`. Those of replicated and failover are in benchmarks_cluster.py, those of loops,
scripts and idle in benchmarks_cpu.py. A part without raw results has no section.
"""

from __future__ import annotations

import benchmarks_cluster
import benchmarks_cpu
from benchmark_tables import Figure, Part, grouped, part_of
from findings.section import Cell, plural

NETWORK_FIGURES = [
    ("server_cpu_us_per_request", "Network, server CPU per request", "Server CPU per request (µs)", "{:.2f}", 1.0, False),
    ("requests_per_second", "Network, requests per second", "Requests per second (thousands)", "{:.0f}", 1e3, True),
    ("p50_us", "Network, latency p50", "Latency p50 (µs)", "{:.0f}", 1.0, False),
    ("p99_us", "Network, latency p99", "Latency p99 (µs)", "{:.0f}", 1.0, False),
    ("p999_us", "Network, latency p99.9", "Latency p99.9 (µs)", "{:.0f}", 1.0, False),
]


def local(results) -> Part:
    """Operations per second of Erlang processes."""
    figures = []
    for operation in ("read", "write"):
        cells = [cell for cell in results if cell["operation"] == operation]
        arms = list(dict.fromkeys(cell["arm"] for cell in cells))
        figure = Figure(f"Local {operation}s per second", f"{operation.capitalize()}s, millions per second", arms, "{:.2f}", True, 1e6)
        for (size, processes), found in grouped(cells, "value_bytes", "processes").items():
            figure.add(f"{size:,} B, {plural(processes, 'process')}", {cell["arm"]: cell["operations_per_second"] for cell in found})
        figures.append(figure)
    intro = (
        "Operations of all processes together, 1,000 keys, binary keys and values, codec `raw`. `ets_protected` is a named, protected "
        "table with `read_concurrency`, read by processes that do not own it."
    )
    return part_of("From Erlang processes, beside ETS", intro, figures)


def calls(results) -> Part:
    """Operations per second of Erlang processes, with integers."""
    words = {
        "get": "read", "is_key": "is_key", "miss": "read an absent key", "put": "write", "update_counter": "update_counter",
        "mixed_90": "9 reads to a write, 16 keys", "mixed_50": "a read to a write, 16 keys",
    }  # fmt: skip
    arms = list(dict.fromkeys(cell["arm"] for cell in results))
    figure = Figure("Calls with integers per second", "Millions per second", arms, "{:.2f}", True, 1e6)
    for (operation, processes), found in grouped(results, "operation", "processes").items():
        where = f"{words[operation]}, {plural(processes, 'process')}"
        figure.add(where, {cell["arm"]: cell["operations_per_second"] for cell in found})
    intro = (
        "Operations of all processes together, keys and values are integers, 1,000 keys, codec `term`. The tables of ETS are named and "
        "public, with `read_concurrency`; `ets_public_write_concurrency` with `write_concurrency => auto` and `decentralized_counters` too."
    )
    return part_of("From Erlang processes, with integers", intro, [figure])


def ranges(results) -> Part:
    """What order costs and gives."""
    words = {
        "get": "read a key", "put": "overwrite a key", "delete_and_put": "remove and insert a key",
        "range": "page of 100 records", "keys": "page of 100 keys", "memory": "bytes per entry",
    }
    arms = list(dict.fromkeys(cell["arm"] for cell in results))
    time = Figure("Ordered tables, time per operation", "Microseconds per operation", arms, "{:.2f}", False)
    memory = Figure("Ordered tables, bytes per entry", "Bytes per entry, index included", arms, "{:.0f}", False)
    for operation, word in words.items():
        for entries in dict.fromkeys(cell["entries"] for cell in results):
            cells = [cell for cell in results if (cell["operation"], cell["entries"]) == (operation, entries)]
            figure, name = (memory, "bytes_per_entry") if operation == "memory" else (time, "us_per_operation")
            found = {cell["arm"]: cell[name] for cell in cells}
            if found:
                own = [found[arm] for arm in ("todana_ordered",) if arm in found]
                figure.add(f"{word}, {entries:,} entries", found, own)
    intro = (
        "From one Erlang process, keys and values of 16 B inserted in random order. `ets_ordered_set` is public, with "
        "`read_concurrency` and `write_concurrency`; it is compared with `todana_ordered`."
    )
    return part_of("Ordered tables", intro, [time, memory])


def names(results) -> Part:
    """Names and groups of processes, on one node."""
    words = {
        "register": "register", "first_whereis": "look up, the first time", "whereis": "look up again", "unregister": "unregister",
        "members": "read a group of 10 processes",
    }  # fmt: skip
    arms = list(dict.fromkeys(cell["arm"] for cell in results))
    figure = Figure("Names and groups, time per operation", "Microseconds per operation", arms, "{:.2f}", False)
    for operation, word in words.items():
        found = {cell["arm"]: cell["us_per_operation"] for cell in results if cell["operation"] == operation}
        if found:
            figure.add(word, found, [found[arm] for arm in ("todana_local", "todana_groups") if arm in found])
    intro = (
        "One process and one node; names are tuples, each of a process. `ets` is `insert_new`, `lookup` and `delete` of a public table with "
        "`read_concurrency` and `write_concurrency`, without what a registry does when a process ends. `todana_cluster` and "
        "`todana_groups` are a cluster scope on a node with a data directory: a registration is on its disk. `global` and `pg` ask no "
        "other node here."
    )
    return part_of("Names and groups", intro, [figure])


def network(results) -> Part:
    """Requests over sockets, by the RESP and memcached protocols."""
    figures = []
    arms = list(dict.fromkeys(f"{cell['server']} ({cell['protocol']})" for cell in results))
    for name, summary, title, pattern, scale, higher_is_better in NETWORK_FIGURES:
        figure = Figure(summary, title, arms, pattern, higher_is_better, scale)
        for (operation, pipeline, connections), cells in grouped(results, "operation", "pipeline", "connections").items():
            where = f"{operation.upper()}, pipeline {pipeline}, {connections} connections"
            figure.add(where, {f"{cell['server']} ({cell['protocol']})": [each[name] for each in cell["rounds"]] for cell in cells})
        figures.append(figure)
    intro = (
        "100,000 keys of 16 B, values of 100 B, loopback, one generator for all (`bench/load`), closed loop: with a pipeline, the "
        "latency is that of the batch. Servers and generator have half of the cores each. CPU per request is the primary figure, "
        "because the generator influences it least. memcached 1.6.18 answers each of several pipelined `get`s by a system call of "
        "its own."
    )
    return part_of("Over the network", intro, figures)


def kyoto(results) -> Part:
    """One request for each record, and bulk requests."""
    single = [cell for cell in results if cell["bulk"] == 1 and cell["protocol"] != "kyoto-binary"]
    arms = list(dict.fromkeys(f"{cell['server']} ({cell['protocol']})" for cell in single))
    figures = []
    for name, summary, title in (
        ("server_cpu_us_per_request", "server CPU per record", "Server CPU per record (µs)"),
        ("seconds", "seconds", "Seconds for all records"),
    ):
        figure = Figure(f"Kyoto Tycoon over HTTP, {summary}", title, arms, "{:.2f}", False)
        for (operation, records), cells in grouped(single, "operation", "records").items():
            found = {f"{cell['server']} ({cell['protocol']})": [each[name] for each in cell["rounds"]] for cell in cells}
            figure.add(f"{operation}, {records:,} records", found, own=[found["todana (kyoto)"]] if "todana (kyoto)" in found else [])
        figures.append(figure)
    bulks = [cell for cell in results if cell["protocol"] == "kyoto-binary"]
    sizes = [f"todana, bulks of {size:,}" for size in dict.fromkeys(cell["bulk"] for cell in bulks)]
    binary = Figure("", "Binary protocol: server CPU per record (µs)", sizes, "{:.2f}", False)
    for (operation,), cells in grouped(bulks, "operation").items():
        binary.add(operation, {f"todana, bulks of {cell['bulk']:,}": [each["server_cpu_us_per_request"] for each in cell["rounds"]] for cell in cells})
    intro = (
        "Ten clients, each record set, got and deleted once, values of 8 B. `kyoto` is TSV-RPC over HTTP, as Kyoto Tycoon's own "
        "client speaks it. The ratio compares Todana by HTTP with the best peer, which speaks a leaner protocol."
    )
    return part_of("By Kyoto Tycoon's protocols", intro, [*figures, binary])


def memory(results) -> Part:
    """Resident bytes per entry."""
    names = list(dict.fromkeys(cell["server"] for cell in results))
    figure = Figure("Resident bytes per entry", "", names, "{:.0f}", False)
    for (size, expiry, entries), cells in grouped(results, "value_bytes", "expiry", "entries").items():
        found = {cell["server"]: [each["bytes_per_entry"] for each in cell["rounds"]] for cell in cells}
        where = f"{size:,} B, {'with' if expiry else 'without'} expiry, {entries:,} entries"
        figure.add(where, found, own=[found["todana"]])
    intro = (
        "(resident when loaded - resident when empty) / entries, keys of 16 B, each in a server started for it. The ratio is that of "
        "`todana`, the hash table."
    )
    return part_of("Resident bytes per entry", intro, [figure])


def durable(results) -> Part:
    """Servers that keep their records on disk."""
    loads = [cell for cell in results if cell["measure"] == "load"]
    floors = [each for cell in results if cell["measure"] == "floor" for each in cell["rounds"]]
    figures = []
    for durability in dict.fromkeys(cell["durability"] for cell in loads):
        cells = [cell for cell in loads if cell["durability"] == durability]
        arms = list(dict.fromkeys(cell["server"] for cell in cells))
        for name, summary, title, pattern, scale, higher_is_better in NETWORK_FIGURES[:4]:
            # One client waits for the disk at each request: some hundreds of requests per second.
            pattern = "{:.1f}" if higher_is_better else pattern
            figure = Figure(f"Durable ({durability}), {summary.partition(', ')[2]}", f"`{durability}`: {title}", arms, pattern, higher_is_better, scale)
            for (operation, pipeline, connections), found in grouped(cells, "operation", "pipeline", "connections").items():
                rounds = {cell["server"]: [each[name] for each in cell["rounds"]] for cell in found}
                where = f"{operation.upper()}, pipeline {pipeline}, {plural(connections, 'connection')}"
                figure.add(where, rounds, own=_of_mode(rounds, "todana", durability), peers=_of_mode(rounds, "redis", durability))
            if durability == "always" and name in ("p50_us", "p99_us") and floors:
                rounds = tuple(each[name] for each in floors)
                row = [Cell(rounds, pattern) if arm == arms[0] else Cell(text="-") for arm in arms]
                figure.rows.insert(0, ["fdatasync of the disk, without a server", *row, Cell(text="-")])
            figures.append(figure)
    singles = [
        ("log_bytes", "bytes_per_set", "Log bytes per SET of 100 B (key 16 B)", "{:.0f}", 1.0),
        ("restart after SIGKILL", "seconds", "Seconds from the start to the first read, all records in the log", "{:.2f}", 1.0),
        ("restart after a stop", "seconds", "Seconds from the start to the first read, after a snapshot and a stop", "{:.2f}", 1.0),
        ("memory", "bytes_per_record", "Resident bytes per record, after a snapshot", "{:.0f}", 1.0),
        ("memory", "peak_bytes", "Resident size at the peak of a snapshot (MB)", "{:.0f}", 1e6),
        ("snapshot", "p99_us_calm", "p99 of 10 other clients' SETs, no snapshot (µs)", "{:.0f}", 1.0),
        ("snapshot", "p99_us_during", "p99 of 10 other clients' SETs, one snapshot after the other (µs)", "{:.0f}", 1.0),
        ("snapshot", "seconds", "Seconds for a snapshot under these writes", "{:.2f}", 1.0),
    ]
    arms = list(dict.fromkeys(cell["server"] for cell in results if cell["measure"] != "floor" and cell["measure"] != "load"))
    records = max((cell["records"] for cell in results if "records" in cell), default=0)
    figure = Figure("Durable, disk, restart and memory", f"{records:,} records of 116 B", arms, "", False)
    for measure, name, where, pattern, scale in singles:
        rounds = {
            cell["server"]: [each[name] for each in cell["rounds"]]
            for cell in results
            if cell["measure"] == measure and all(each.get(name) is not None for each in cell["rounds"])
        }
        if rounds:
            figure.pattern, figure.scale = pattern, scale
            figure.add(where, rounds, own=_of_mode(rounds, "todana", "always"), peers=_of_mode(rounds, "redis", "always"))
    intro = (
        "Todana with a data directory beside Redis with `appendonly yes`, on the same disk, interleaved; keys of 16 B, values of 100 B. "
        "`always`: a reply means fdatasync. `everysec`: the log is synced once a second; `todana-memory` has no data directory. Redis "
        "restarts from its append-only file, and its snapshot is a rewrite of that file. Todana allocates the file of its log in "
        "advance, and all of it counts as log bytes."
    )
    return part_of("With a data directory", intro, [*figures, figure])


def _of_mode(rounds, name, mode):
    return [rounds[f"{name}-{mode}"]] if f"{name}-{mode}" in rounds else []


PARTS = {
    "local": local, "calls": calls, "ranges": ranges, "names": names, "network": network, "loops": benchmarks_cpu.loops, "kyoto": kyoto,
    "scripts": benchmarks_cpu.scripts, "memory": memory, "idle": benchmarks_cpu.idle, "durable": durable,
    "replicated": benchmarks_cluster.replicated, "failover": benchmarks_cluster.failover,
}  # fmt: skip
