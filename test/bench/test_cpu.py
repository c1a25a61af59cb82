"""The parts loops, scripts and idle of the benchmarks: what the page says, and a tiny run of loops."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import benchmarks  # noqa: E402
import loops  # noqa: E402
import servers  # noqa: E402

TINY = {"rounds": 1, "seconds": 0.1, "closed": [1], "paced": [2], "rates": [500]}


def cell(arm, cpu_us, p99_us=100.0, connections=10, rate=None):
    """A cell of loops with these rounds."""
    rounds = [{"server_cpu_us_per_request": each, "requests_per_second": 1e6 / each, "p50_us": 50.0, "p99_us": p99_us} for each in cpu_us]
    return {"arm": arm, "operation": "get", "connections": connections, "rate": rate, "rounds": rounds}


FEW, MORE, MANY = [5.0, 5.1, 5.2], [10.0, 10.1, 10.2], [20.0, 20.1, 20.2]
LOOPS = [
    cell("todana-load", FEW), cell("todana-even", MORE), cell("todana-one", FEW), cell("redis", MANY), cell("memcached", MORE),
    cell("todana-load", MORE, rate=2_000), cell("todana-even", MANY, rate=2_000), cell("todana-one", FEW, rate=2_000),
    cell("redis", FEW, rate=2_000), cell("memcached", MANY, rate=2_000),
]  # fmt: skip


def texts(part, caption):
    """The cells of a table by the labels of its rows, without those of figures."""
    table = next(table for table in part.tables if table.caption == caption)
    return {label: [found.text for found in cells] for label, *cells in table.rows}


def test_ratios_of_event_loops_compare_load_with_each_alternative():
    part = benchmarks.PARTS["loops"](LOOPS)
    closed, paced = "GET, 10 connections, closed loop", "GET, 10 connections, 2,000 requests/s"
    assert texts(part, "`load` / `even`")[closed][:2] == ["0.50 better", "1.98 better"]
    assert texts(part, "`load` / one event loop")[closed][0] == "1.00 within the noise"
    assert texts(part, "`load` / best peer")[closed][0] == "0.50 better"
    assert texts(part, "`load` / best peer")[paced][0] == "1.98 worse"


def test_a_paced_loop_has_no_requests_per_second():
    rows = texts(benchmarks.PARTS["loops"](LOOPS), "`load` / `even`")
    assert rows["GET, 10 connections, 2,000 requests/s"][1] == "-"


def test_losses_of_load_to_peers_are_contests_of_the_page():
    contests = benchmarks.PARTS["loops"](LOOPS).contests["Event loops by load, server CPU per request"]
    assert [contest.verdict for contest in contests] == ["better", "worse"]


def test_loops_without_peers_have_no_ratio_to_them():
    part = benchmarks.PARTS["loops"]([each for each in LOOPS if each["arm"].startswith("todana")])
    assert part.contests == {}
    assert "`load` / best peer" not in [table.caption for table in part.tables]


def test_scripts_are_compared_row_by_row():
    results = [
        {"server": server, "row": row, "server_cpu_us_per_request": rounds}
        for row, rounds_of in (("INCR", (FEW, MORE)), ("EVAL of INCR", (MANY, MORE)))
        for server, rounds in zip(("todana", "redis"), rounds_of)
    ]
    contests = benchmarks.PARTS["scripts"](results).contests["Scripts, server CPU per request"]
    assert [(contest.where, contest.verdict) for contest in contests] == [("INCR", "better"), ("EVAL of INCR", "worse")]


def test_an_idle_node_with_a_log_is_compared_with_redis():
    def node(server, build, cpu_percent):
        return {"server": server, "build": build, "rounds": [{"cpu_percent": each, "wakeups_per_s": 10 * each} for each in cpu_percent]}

    results = [
        node("memory", "present", FEW), node("durable", "present", MORE), node("durable", "before", MANY), node("member", "present", MANY),
        node("redis", None, MANY),
    ]  # fmt: skip
    part = benchmarks.PARTS["idle"](results)
    [table] = part.tables
    assert [head for head, _ in table.heads[1:-1]] == ["todana-memory", "todana-durable", "todana-durable, before", "todana-member", "redis"]
    [contests] = part.contests.values()
    assert [round(contest.ratio, 1) for contest in contests] == [0.5, 0.5]


@pytest.fixture(scope="module")
def tiny_loops():
    """Results of the smallest run of loops."""
    servers.build_generator()
    return loops.run(TINY, lambda text: None)


def test_a_tiny_run_measures_each_arm_in_each_loop(tiny_loops):
    arms = [*loops.OWN, *servers.peers()[1:]]
    assert [(each["arm"], each["operation"], each["rate"]) for each in tiny_loops] == [
        (arm, operation, rate) for operation, rate in (("get", None), ("set", None), ("get", 500)) for arm in arms
    ]
    assert all(len(each["rounds"]) == 1 for each in tiny_loops)
    assert benchmarks.PARTS["loops"](tiny_loops).tables


def test_all_arms_of_a_paced_loop_get_the_same_requests(tiny_loops):
    # The moments follow from the seed.
    assert len({each["rounds"][0]["requests"] for each in tiny_loops if each["rate"]}) == 1
