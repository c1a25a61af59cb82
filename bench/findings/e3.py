"""E3: operations of distributed Erlang by the number of nodes and of schedulers."""

from __future__ import annotations

import statistics

import published

from .e3_names import NamesAndGroups
from .section import (
    LOG_ON_DISK, Cell, Claim, Contest, Panel, Section, Series, Table, distinct, kind_of, known, missing, plural, times,
)  # fmt: skip

# An operation stays flat if it never takes more than this many times its time with one node.
FLAT_MAX = 2.0
# A second scheduler helps if it makes an operation at least this many times as fast.
SCALES_FROM = 1.5
OPERATIONS = {
    # operation: words, published operation
    "add_node": ("add a node (s)", "add_node"),
    "add_node_meshed": ("add a node, until it knows all (s)", None),
    "echo_pid": ("echo by pid", "echo_pid"),
    "echo_name": ("echo by name", "echo_name"),
    "erpc": ("erpc, asynchronous", None),
    "rpc": ("rpc, asynchronous", "rpc"),
    "monitor": ("monitor, kill, DOWN", "monitor"),
    "global_register": ("global: register", "global_register"),
    "global_unregister": ("global: unregister", "global_unregister"),
    "global_whereis": ("global: whereis", "global_whereis"),
    "pg2_create": ("pg2: create (pg has none)", "pg2_create"),
    "pg_join": ("pg: join (published: pg2)", "pg2_join"),
    "pg_join_everywhere": ("pg: join, until all know", None),
    "pg_members": ("pg: members (published: pg2 pick)", "pg2_pick"),
    "pg_leave": ("pg: leave", None),
}
# Operations that OTP no longer has: published figures only.
GONE = {"pg2_create"}
SCALE_UP = {
    "echo_many": "echo, four servers per scheduler", "echo_one": "echo, one server", "erpc": "erpc",
    "rpc_one_process": "rpc through one process", "todana_get": "Todana: get of a guest",
}  # fmt: skip

NO_ARM = (
    "Takes part with its names and groups across nodes, which this run does not contain: `bench/run --only e3-names` measures them beside "
    "`global` and `pg`."
)


def e3(results) -> Section:
    """Microseconds per operation by nodes and by schedulers."""
    parts = {part: [each for each in results if each.get("part") == part] for part in ("nodes", "scale_up")}
    own = NamesAndGroups([each for each in results if each.get("part") in ("names", "host")])
    counts = sorted({each["nodes"] for each in parts["nodes"]})
    found = {(each["nodes"], each.get("operation")): each for each in parts["nodes"]}
    tables = [_nodes(found, counts)]
    panels = [_panel(found, counts)]
    if parts["scale_up"]:
        tables += [_scale_up(parts["scale_up"], clients) for clients in distinct(parts["scale_up"], "clients")]
        panels.append(_scale_up_panel(parts["scale_up"]))
    contests = own.contests() + _scale_up_contests(parts["scale_up"])
    return Section(
        "e3", "What distributed Erlang costs as the cluster grows",
        "Which operations keep their cost as nodes are added, and how does one process in the path limit scale-up?",
        "Point-to-point operations stay flat up to 256 nodes; operations that lock the whole cluster grow linearly; one "
        "process in the path stops scale-up.",
        "microseconds per operation", "cheaper than", "costlier than", _claims(found, parts["scale_up"]), tables + own.tables(),
        panels + own.panels(), contests, headline=("global", "global by CPU", "pg", "pg by CPU"), no_arm=NO_ARM if not contests else "",
        gist="Point-to-point operations stay flat as nodes are added, those that lock the cluster do not, and one process in the "
        "path stops scale-up", remarks=[
            "All nodes share the cores of this machine; the published run had ten hosts. With many nodes, the figures also measure "
            "the shortage of cores.", *_left_out(parts["scale_up"]), *own.remarks(),
        ],
    )  # fmt: skip


def _claims(found, scale_up):
    claims = []
    for operation, subject, words, holds in (
        ("echo_pid", "point-to-point operations stay flat", "an echo takes", lambda growth: max(growth) <= FLAT_MAX),
        ("global_register", "operations that lock the cluster grow with it", "registering a global name takes", lambda growth: growth[-1] > FLAT_MAX),
    ):  # fmt: skip
        medians = {
            count: statistics.median(each["us_per_operation"])
            for (count, name), each in sorted(found.items(), key=lambda item: item[0][0])
            if name == operation and count >= 1 and each.get("us_per_operation")
        }
        if 1 not in medians or len(medians) < 2:
            continue
        growth = [value / medians[1] for count, value in medians.items() if count > 1]
        published_figures = dict(zip(published.E3_NODES, published.E3_OPERATIONS[operation]))
        then = [published_figures[count] / published_figures[1] for count in medians if count > 1 and count in published_figures]
        figures = f"with up to {plural(max(medians), 'node')}, {words} {times(growth, '{:.1f}')} its time with one node"
        claims.append(Claim(subject, figures + (f" ({times(then, '{:.1f}')} in 2014)" if then else ""), holds(growth)))
    return claims + _scale_up_claims(scale_up)


def _scale_up_claims(results):
    """The gain by schedulers, with and without a process through which everything passes."""
    gains = {}
    for operation in ("echo_many", "rpc_one_process"):
        clients = max((each["clients"] for each in results), default=0)
        medians = {
            each["schedulers"]: statistics.median(each["us_per_operation"])
            for each in results
            if each["operation"] == operation and each["clients"] == clients and each.get("us_per_operation")
        }
        if len(medians) < 2:
            return []
        gains[operation] = medians[min(medians)] / medians[max(medians)]
    count = max(medians)
    then = {name: figures[1] / figures[count] for name, figures in published.E3_SCALE_UP.items() if count in figures}
    words = f"{plural(count, 'scheduler')} make an echo {gains['echo_many']:.2f} times as fast as one, and rpc through one process {gains['rpc_one_process']:.2f} times"
    if len(then) == len(gains):
        words += f" ({then['echo_many']:.2f} and {then['rpc_one_process']:.2f} times in 2014)"
    # Without a gain of the echo there is no scale-up that one process could stop.
    holds = None if gains["echo_many"] < SCALES_FROM else gains["rpc_one_process"] < gains["echo_many"]
    return [Claim("one process in the path stops scale-up", words, holds)]


def _scale_up_contests(results):
    """Reads of guests, which pass through no process that they share, beside calls through one."""
    found = {(each["schedulers"], each["clients"], each["operation"]): tuple(each.get("us_per_operation", ())) for each in results}
    return [
        Contest(
            SCALE_UP["rpc_one_process"], f"{plural(schedulers, 'scheduler')}, {plural(clients, 'client')}", own,
            found[schedulers, clients, "rpc_one_process"], False, back_end=LOG_ON_DISK,
        )
        for (schedulers, clients, operation), own in found.items()
        if operation == "todana_get" and own and found.get((schedulers, clients, "rpc_one_process"))
    ]  # fmt: skip


def _left_out(results):
    """A remark on the scheduler counts for which this machine has too few cores."""
    counts = sorted({count for each in results for count in each.get("scheduler_counts_left_out", ())})
    if not counts:
        return []
    return [
        f"Scheduler counts above this machine's cores ({', '.join(map(str, counts))}) were left out: they would measure how "
        "schedulers share cores."
    ]


def _cell(result, operation):
    if result is None:
        return Cell(text="-")
    scale = 1e6 if operation.startswith("add_node") else 1.0
    values = tuple(value / scale for value in result.get("us_per_operation", ()) if value is not None)
    return missing(result) or (Cell(values, "{:,.3f}" if scale > 1 else "{:,.2f}") if values else Cell(text="-"))


def _nodes(found, counts):
    heads = [("us per operation", "")]
    for count in counts:
        heads += [(f"{plural(count, 'node')}, 2014", "published")] if count in published.E3_NODES else []
        heads += [(f"{plural(count, 'node')}, today", "baseline")]
    rows = []
    for operation, (words, then) in OPERATIONS.items():
        if operation not in GONE and not any((count, operation) in found for count in counts):
            continue
        row = [words]
        for count in counts:
            if count in published.E3_NODES:
                figures = dict(zip(published.E3_NODES, published.E3_OPERATIONS.get(then, ())))
                row.append(known(figures.get(count), "{:,.3f}" if then == "add_node" else "{:,.2f}"))
            # A count for which memory is missing has one result for all operations.
            result = found.get((count, operation)) or found.get((count, "all"))
            row.append(_cell(None if operation in GONE else result, operation))
        rows.append(row)
    return Table("By number of other nodes", heads, rows)


def _panel(found, counts):
    series = [
        Series(f"{words}, published 2014", {
            count: [value] for count, value in zip(published.E3_NODES, published.E3_OPERATIONS[name]) if value is not None
        }, "published")
        for name, words in (("echo_pid", "echo by pid"), ("global_register", "global: register"))
    ]  # fmt: skip
    for operation in ("echo_pid", "erpc", "monitor", "global_register", "pg_join_everywhere"):
        points = {count: found.get((count, operation), {}).get("us_per_operation") for count in counts}
        series.append(Series(OPERATIONS[operation][0], points))
    return Panel("nodes", "Time by number of nodes", "other nodes", "microseconds per operation", series)


def _scale_up(results, clients):
    chosen = {(each["schedulers"], each["operation"]): each for each in results if each["clients"] == clients}
    operations = [name for name in SCALE_UP if any(name == operation for _, operation in chosen)]
    heads = [("schedulers", ""), *[(f"{SCALE_UP[name]}, 2014", "published") for name in published.E3_SCALE_UP]]
    heads += [(SCALE_UP[name], kind_of(name)) for name in operations]
    rows = [
        [f"{count}", *[known(figures.get(count)) for figures in published.E3_SCALE_UP.values()],
         *[_cell(chosen.get((count, name)), name) for name in operations]]
        for count in sorted({count for count, _ in chosen})
    ]  # fmt: skip
    return Table(f"One server node, {plural(clients, 'client node')} (published: 9): us per operation", heads, rows)


def _scale_up_panel(results):
    clients = max(each["clients"] for each in results)
    series = [
        Series(f"{SCALE_UP[name]}, published 2014", {count: [value] for count, value in figures.items()}, "published")
        for name, figures in published.E3_SCALE_UP.items()
    ]
    for name, words in SCALE_UP.items():
        chosen = [each for each in results if each["operation"] == name and each["clients"] == clients]
        if chosen:
            label = words if name != "erpc" else OPERATIONS["erpc"][0]
            points = {each["schedulers"]: each.get("us_per_operation") for each in chosen}
            series.append(Series(label, points, kind_of(name)))
    return Panel("schedulers", f"One server, {plural(clients, 'client node')}", "schedulers online", "microseconds per operation", series)
