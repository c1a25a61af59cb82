"""E5: a networked store and its event loop."""

from __future__ import annotations

import re
import statistics

import published

from .section import (
    Cell, Claim, Contest, Panel, Section, Series, Table, distinct, kind_of, known, missing, plural, ratio, spread,
    times,
)  # fmt: skip

# A mechanism matters little if it changes the CPU time of a request by less than this factor.
MATTERS_FROM = 1.5
# Fewer calls of futex per request than this are no lock per request.
LOCK_FROM = 0.5
# The number of connections of "tens of connections", and from how many on there are thousands.
TENS, THOUSANDS_FROM = 10, 1_000
DEFAULT_BACK_END = "native"
PROTOCOLS = {"resp": "RESP", "memcached": "memcached protocol", "kyoto": "HTTP (Kyoto Tycoon)"}
# How sentences name a peer that speaks its own protocol.
PEERS = {("redis", "resp"): "Redis", ("memcached", "memcached"): "memcached"}
REQUESTS = 100_000


def e5(results) -> Section:
    """Seconds, CPU and system calls of one request per record."""
    results = [_explained(each) for each in results]
    cells = {
        (each["server"], each["backend"], each["protocol"], each["connections"], each["active"], each["operation"]): each
        for each in results
    }
    arms, loads = list(dict.fromkeys(key[:3] for key in cells)), list(dict.fromkeys(key[3:5] for key in cells))
    operations = distinct(results, "operation")
    backends = [backend for server, backend, _ in arms if server == "todana"]
    contests = [
        Contest(
            PEERS.get((server, protocol), f"{server} ({PROTOCOLS[protocol]})"), f"{operation}, {_load(load)}",
            _figures(cells[own], figure), _figures(cells[key], figure), False,
            backend + (" (default)" if backend == DEFAULT_BACK_END else ""),
        )
        for figure in ("server_cpu_us_per_request",)
        for backend in dict.fromkeys(backends)
        for key in cells
        for server, _, protocol, *load, operation in [key]
        for own in [("todana", backend, *key[2:])]
        if server != "todana" and own in cells and _figures(cells[own], figure) and _figures(cells[key], figure)
    ]  # fmt: skip
    tables = [_seconds(cells, arms, loads[0], operations)]
    tables += [_cpu(cells, arms, loads, operation) for operation in operations]
    tables += [_system_calls(cells, arms, loads, operation) for operation in operations]
    bars = [Series(name, {0: [figures["get"]]}, "published") for name, figures in published.E5_SECONDS.items()]
    for arm in arms:
        result = cells.get((*arm, *loads[0], "get"))
        if result:
            bars.append(Series(_arm(arm), {0: _rounds_in_seconds(result)}, kind_of(arm[0])))
    return Section(
        "e5", "A networked store and its event loop",
        "What does waiting for sockets cost, by mechanism, and what does the rest of a request cost?",
        "With tens of connections the notification mechanism matters little, the difference shows only with thousands; the "
        "remaining cost was a lock per request.",
        "server CPU per request", "less CPU than", "more CPU than", _claims(cells, arms, operations),
        [table for table in tables if table],
        [Panel("seconds", f"{REQUESTS:,} gets by ten clients", "", "seconds", bars, bars=True, log_y=False),
         Panel("cpu", "Server CPU of a get, native and poll", "connections (active)", "microseconds",
               _lines(cells, arms, loads))],
        contests,
        gist="The notification mechanism matters only with thousands of connections, and a lock per request is what remains",
        verb="uses", headline=tuple(dict.fromkeys(contest.peer for contest in contests)), remarks=[
            "Connections that are not active are open and silent. They show the cost of a back end that examines every connection "
            "(`poll`, `select`).",
            "No peer speaks HTTP here: Todana's HTTP variants are compared with the published builds, its other variants with the peer "
            "of the same protocol.",
            f"Seconds are per {REQUESTS:,} requests, whatever number a run made. {_runs(cells, loads)}",
            *_generator(results),
            "System calls were counted in one separate run of each configuration.",
        ],
    )  # fmt: skip


def _explained(result):
    """The result; the reason of a server that refused the number of connections is in terms of the experiment."""
    refused = re.fullmatch(r"(.* serves at most )(\d+)( connections, but) .*?(\d+).*", result.get("not_possible", ""))
    if not refused:
        return result
    what, most, words, needed = refused.groups()
    return {**result, "not_possible": f"{what}{int(most):,}{words} the test needs {int(needed):,}"}


def _claims(cells, arms, operations):
    """The CPU time of Todana's other back ends divided by that of the default one, and the calls of futex."""
    few, many = [], []
    for (server, backend, protocol, connections, active, operation), result in cells.items():
        base = cells.get((server, DEFAULT_BACK_END, protocol, connections, active, operation))
        if server != "todana" or backend == DEFAULT_BACK_END or base is None:
            continue
        own, other = (_figures(each, "server_cpu_us_per_request") for each in (result, base))
        if own and other and connections == active == TENS:
            few.append(statistics.median(own) / statistics.median(other))
        if own and other and connections >= THOUSANDS_FROM and active < connections:
            many.append((connections, statistics.median(own) / statistics.median(other)))
    claims = []
    if few:
        claims.append(Claim(
            f"with {TENS} connections the mechanism matters little",
            f"with {TENS} connections, `poll` and `select` take {times(few)} the CPU of `{DEFAULT_BACK_END}`",
            max(few) < MATTERS_FROM and min(few) > 1 / MATTERS_FROM,
        ))  # fmt: skip
    if many:
        most = max(connections for connections, _ in many)
        ratios = [ratio for connections, ratio in many if connections == most]
        claims.append(Claim(
            "with thousands of connections it matters",
            f"with {most:,} connections of which few are active, `poll` takes {times(ratios, '{:.0f}')} the CPU of "
            f"`{DEFAULT_BACK_END}`",
            min(ratios) >= MATTERS_FROM,
        ))  # fmt: skip
    calls = [each.get("system_calls", {}).get("futex_per_request") for key, each in cells.items() if key[0] == "todana"]
    calls = [each for each in calls if each is not None]
    if calls:
        claims.append(Claim(
            "each request takes a contended lock",
            f"Todana makes at most {max(calls):.3f} calls of futex per request (Kyoto Tycoon made "
            f"{published.E5_FUTEX_PER_REQUEST:.0f} in 2014)",
            max(calls) >= LOCK_FROM,
        ))  # fmt: skip
    return claims


def _arm(arm):
    server, backend, protocol = arm
    name = f"Todana, {backend}" if server == "todana" else server
    return f"{name}, {PROTOCOLS[protocol]}"


def _load(load):
    return f"{load[0]:,} connections" + ("" if load[0] == load[1] else f", {load[1]:,} active")


def _runs(cells, loads):
    """The rounds and requests of each load."""
    found = []
    for load in loads:
        runs = [(len(each["rounds"]), each["requests"]) for key, each in cells.items() if key[3:5] == load and each["rounds"]]
        if not runs:
            continue
        rounds, most, fewest = (function(each[place] for each in runs) for function, place in ((max, 0), (max, 1), (min, 1)))
        fewer = f" ({fewest:,} if the back end examines every connection)" if fewest < most else ""
        found.append(f"{_load(load)}: {plural(rounds, 'round')} of {most:,}{fewer}")
    return "Runs: " + "; ".join(found) + "."


def _figures(result, figure):
    """Of each round; nothing of an arm that failed on the way."""
    return () if missing(result) else spread(result["rounds"], figure)


def _generator(results):
    """How near the generator was to the capacity of its cores: beyond it, seconds measure the generator."""
    shares = [each.get("generator_cpu_share") for result in results for each in result["rounds"]]
    shares = [share for share in shares if share is not None]
    if not shares:
        return []
    middle, most = statistics.median(shares), max(shares)
    return [
        f"The generator used {middle:.2f} cores in the median of all runs, {most:.2f} at most. When it is short of "
        "cores, seconds measure the generator; CPU per request still measures the server."
    ]


def _rounds_in_seconds(result):
    if missing(result):
        return ()
    return tuple(each["seconds"] / each["requests"] * REQUESTS for each in result["rounds"])


def _seconds(cells, arms, load, operations):
    rows = [
        [f"{name}, 2014", *[known(figures.get(operation)) for operation in operations], Cell(text="-", kind="ratio")]
        for name, figures in published.E5_SECONDS.items()
    ]
    for arm in arms:
        found = [cells.get((*arm, *load, operation)) for operation in operations]
        row = [_arm(arm)]
        for result in found:
            values = _rounds_in_seconds(result) if result else ()
            gone = missing(result) if result else None
            row.append(gone or (Cell(values, kind=kind_of(arm[0])) if values else Cell(text="-")))
        best = published.E5_SECONDS["Linux, epoll"]
        values = _rounds_in_seconds(found[0]) if found[0] else ()
        rows.append([*row, ratio(values, [best[operations[0]]] if values else [])])
    heads = [("server", ""), *[(operation, "baseline") for operation in operations]]
    heads.append((f"{operations[0]} / epoll, 2014, another machine", "ratio"))
    return Table(f"Seconds for {REQUESTS:,} requests, {_load(load)}", heads, rows)


def _cpu(cells, arms, loads, operation):
    heads = [("server", "")]
    for load in loads:
        heads += [(_load(load), "baseline"), ("Todana / peer", "ratio")]
    rows = []
    for arm in arms:
        row = [_arm(arm)]
        for load in loads:
            result = cells.get((*arm, *load, operation))
            if result is None:
                row += [Cell(text="-"), Cell(text="-", kind="ratio")]
                continue
            values = _figures(result, "server_cpu_us_per_request")
            row.append(missing(result) or Cell(values, kind=kind_of(arm[0])))
            peers = [
                _figures(cells[key], "server_cpu_us_per_request")
                for key in cells
                if key[0] != "todana" and key[2:] == (arm[2], *load, operation)
            ]
            best = min(filter(None, peers), key=statistics.median, default=())
            row.append(ratio(values, best) if arm[0] == "todana" else Cell(text="-", kind="ratio"))
        rows.append(row)
    return Table(f"Server CPU per request, microseconds: {operation}", heads, rows)


def _system_calls(cells, arms, loads, operation):
    rows = []
    for arm in arms:
        row = [_arm(arm)]
        for load in loads:
            result = cells.get((*arm, *load, operation))
            calls = (result or {}).get("system_calls", {})
            gone = missing(result) or missing(calls) if result else None
            text = "{total_per_request:.2f} ({futex_per_request:.3f})".format(**calls) if "calls" in calls else "-"
            row.append(gone or Cell(text=text, kind=kind_of(arm[0])))
        rows.append(row)
    if all(cell.text == "-" or cell.missing == "not possible" for row in rows for cell in row[1:]):
        return None
    then = ["Kyoto Tycoon, 2014, all phases", known(published.E5_FUTEX_PER_REQUEST, "futex alone: {:.0f}")]
    rows.insert(0, then + [Cell(text="-", kind="published")] * (len(loads) - 1))
    heads = [("server", ""), *[(_load(load), "baseline") for load in loads]]
    return Table(f"System calls per request, those to futex in brackets: {operation}", heads, rows)


def _lines(cells, arms, loads):
    series = []
    for arm in arms:
        if arm[2] == "kyoto":
            continue
        points = {}
        for load in sorted(loads, key=lambda load: (load[1] != load[0], load)):
            result = cells.get((*arm, *load, "get"))
            values = _figures(result, "server_cpu_us_per_request") if result else ()
            if values:
                points[f"{load[0]:,}\n({load[1]:,})"] = values
        if arm[0] != "todana" or arm[1] in ("native", "poll"):
            series.append(Series(_arm(arm), points, kind_of(arm[0])))
    return series
