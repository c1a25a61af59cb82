"""Clusters in the benchmarks: what the pages say about them, and tiny runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))

import benchmarks  # noqa: E402
import benchmarks_page  # noqa: E402
import e2_replicated  # noqa: E402
import replicated  # noqa: E402
import servers  # noqa: E402
from findings.e2_replicated import Replicated  # noqa: E402
from replicated import etcd, failover, floor  # noqa: E402

TINY = {
    "rounds": 1, "seconds": 0.1, "floor_writes": 5, "clients": [1, 4], "pipelines": [1, 4], "records": 2_000, "join_rounds": 1,
    "calm_s": 0.2,
}  # fmt: skip
TINY_FAILOVER = {"rounds": 1, "kills": 1, "kills_s": 60, "clients": 3}
TINY_E2 = {
    "rounds": 1, "cell_ms": 20, "processes": [2], "calm_s": 0.5, "cut_s": 3.0, "healed_s": 0.5, "systems": ["mnesia", "todana"],
}  # fmt: skip


def write(arm, p50_us, clients=1, pipeline=1):
    """A cell of writes with these rounds."""
    rounds = [
        {"requests_per_second": 1e6 / each, "p50_us": each, "p99_us": 2 * each, "cpu_us_of_all_nodes": 100.0, "cpu_us_by_node": [50.0, 25.0, 25.0]}
        for each in p50_us
    ]
    return {"measure": "write", "arm": arm, "clients": clients, "pipeline": pipeline, "rounds": rounds, "busy_cores_before": 0.2}


def read(arm, cpu_us, per_second, clients=50, pipeline=16):
    """A cell of reads with one round."""
    one = {"requests_per_second": per_second, "p50_us": 10.0, "p99_us": 20.0, "cpu_us_of_all_nodes": cpu_us, "cpu_us_by_node": [cpu_us]}
    return {"measure": "read", "arm": arm, "clients": clients, "pipeline": pipeline, "rounds": [one]}


RESULTS = [
    {"measure": "floor", "rounds": [{"p50_us": 1_000.0, "p99_us": 3_000.0, "writes": 5}]},
    write("todana_leader", [1_400.0]), write("todana_follower", [1_800.0]), write("etcd_leader", [1_500.0]), write("mnesia_ram", [90.0]),
    read("memory", 2.0, 1e5), read("bounded_leader", 2.05, 1e5), read("bounded_follower", 2.2, 1e5), read("linear_leader", 3.0, 6e4),
    read("linear_follower", 3.0, 4e4),
]  # fmt: skip


def targets(results):
    """What the page says about each target, by the first words of it."""
    table = benchmarks.PARTS["replicated"](results).tables[0]
    assert table.caption == "Targets"
    return [(label, found.text, verdict.text) for label, _, found, verdict in table.rows]


def test_a_write_is_compared_with_the_disk_itself():
    (found,) = [row for row in targets(RESULTS) if row[0].startswith("SET of 1 client")]
    assert found[1:] == ("0.40 ms (1.40 - 1.00)", "met")
    (found,) = [row for row in targets([RESULTS[0], write("todana_leader", [1_501.0])]) if row[0].startswith("SET of 1 client")]
    assert found[2] == "**missed**"


def test_reads_are_compared_with_a_node_in_memory_and_with_each_other():
    found = {label.partition(", 50 clients")[0]: verdict for label, _, verdict in targets(RESULTS)}
    assert found["`bounded` GET, CPU of the leader as a share of a node in memory"] == "met"
    assert found["`bounded` GET, CPU of the follower as a share of a node in memory"] == "**missed**"
    assert found["`linear` GETs per second as a share of `bounded` ones, leader"] == "met"
    assert found["`linear` GETs per second as a share of `bounded` ones, follower"] == "**missed**"


def test_missed_targets_are_losses():
    (line,) = benchmarks_page.missed([benchmarks.PARTS["replicated"](RESULTS)])
    assert line.startswith("**Three nodes, targets missed**: `bounded` GET, CPU of the follower")
    assert "<= 1.05 is the target, 1.10 was found" in line
    assert benchmarks_page.missed([benchmarks.PARTS["failover"](kills(1.0))]) == []


def test_each_peer_has_contests_of_its_own():
    contests = benchmarks.PARTS["replicated"](RESULTS).contests
    assert [each.ratio for each in contests["Three nodes, beside etcd, latency p50"]] == [1_400 / 1_500]
    assert [each.verdict for each in contests["Three nodes, beside Mnesia, latency p50"]] == ["worse"]


def test_the_page_reports_a_busy_host():
    busy = [{**cell, "busy_cores_before": 1.5} for cell in RESULTS]
    assert "worse than on a quiet host" in benchmarks.PARTS["replicated"](busy).intro
    assert "worse than on a quiet host" not in benchmarks.PARTS["replicated"](RESULTS).intro


def one_kill(gap_ms):
    """The figures of one kill."""
    return {
        "gap_ms": gap_ms, "gap_of_a_client_ms": gap_ms + 10, "gap_while_the_node_returns_ms": 5.0, "return_s": 2.0, "is_other_leader": True,
    }  # fmt: skip


def kills(*gaps, lost=0):
    """Results of failovers."""
    return [{
        "measure": "failover", "arm": "todana", "clients": 3, "kills_wanted": 100, "acknowledged": 1_000, "lost": lost, "errors": {"Closed": 1},
        "busy_cores_before": 0.1, "rounds": [one_kill(each) for each in gaps],
    }]  # fmt: skip


def test_failovers_are_compared_with_their_targets():
    part = benchmarks.PARTS["failover"](kills(200.0, 300.0, 2_500.0))
    assert [row[-1].text for row in part.tables[0].rows] == ["met", "**missed**", "met"]
    assert "sufficed for 3 of 100 kills" in part.intro and "1 Closed" in part.intro
    assert [row[-1].text for row in benchmarks.PARTS["failover"](kills(1.0, lost=1)).tables[0].rows][-1] == "**missed**"


def test_the_longest_gap_is_found_across_clients():
    class Client:
        """Only when its writes were acknowledged."""

        def __init__(self, *at):
            self.acknowledged_at = list(at)

    assert failover._longest([Client(1.0, 2.0, 5.0), Client(3.5)], 1.5, 6.0) == 1500.0
    assert failover._longest([Client(1.0, 2.0)], 2.5, 4.0) == 1500.0


def test_the_floor_is_two_concurrent_writes(tmp_path):
    found = floor.floor(tmp_path, 3)
    assert 0 < found["p50_us"] <= found["p99_us"] and not list(tmp_path.iterdir())


def partition(system, missing):
    """A partition of three nodes."""
    side = {"done": 10, "refused": 0, "unknown": 0, "longest_without_success_s": 1.0, "last_success_s": 9.0}
    node = {"inserts_missing": missing, "sum": 7, "status": "a-1"}
    end = {"inserts_acknowledged": 30, "adds_acknowledged": 9, "adds_unknown": 0, "nodes": dict.fromkeys("abc", node)}
    return {
        "part": "partition", "system": system, "minority": "a", "setting": "s", "cut_at_s": 1.0, "healed_at_s": 11.0,
        "sides": dict.fromkeys("abc", side), "words": {}, "after_healing": end, "history": [],
    }  # fmt: skip


def test_e2_states_what_a_partition_left():
    found = Replicated([partition("mnesia", 12), partition("todana", 0)])
    assert [table.caption for table in found.tables()] == [
        "A network in two parts: writes that were sent while it was cut", "A network in two parts: what was left",
    ]  # fmt: skip
    text = "\n".join(found.remarks())
    assert "quiet host" not in text
    assert "The load average of the host was 5.3" in "\n".join(Replicated([partition("todana", 0), {"part": "host", "load_average_before": 5.26}]).remarks())
    assert "lacked 12 of 30 acknowledged records" in text and "lacked 0 of 30" in text


@pytest.fixture(scope="module", autouse=True)
def generator():
    """The program that loads servers."""
    servers.build_generator()


def test_a_tiny_run_measures_everything():
    results = replicated.run(TINY, lambda text: None)
    assert {cell["measure"] for cell in results} == {"floor", "write", "read", "log_bytes", "join"}
    assert all(cell["rounds"] for cell in results if "not_possible" not in cell)
    assert {cell["arm"] for cell in results if "not_possible" in cell} == ({"etcd"} if etcd.missing() else set())
    part = benchmarks.PARTS["replicated"](results)
    assert [table for table in part.tables if table.caption.startswith("A fourth node joins 2,000 records")]


def test_a_tiny_run_kills_the_leader():
    (cell,) = failover.run(TINY_FAILOVER, lambda text: None)
    assert cell["lost"] == 0 and len(cell["rounds"]) == 1 and cell["acknowledged"] > 0
    assert benchmarks.PARTS["failover"]([cell]).tables


def test_a_tiny_run_of_e2_on_three_nodes():
    results = e2_replicated.run(TINY_E2, lambda text: None)
    assert not [cell for cell in results if "failed" in cell]
    lost = {cell["arm"]: sum(cell["lost_updates"]) for cell in results if cell["part"] == "status"}
    assert set(lost) == set(e2_replicated.ARMS)
    assert not [arm for arm, count in lost.items() if arm.startswith("todana") and count]
    (todana,) = [cell for cell in results if cell.get("system") == "todana"]
    nodes = todana["after_healing"]["nodes"].values()
    assert [node["inserts_missing"] for node in nodes] == [0, 0, 0]
    (total,) = {node["sum"] for node in nodes}
    done, unknown = (todana["after_healing"][name] for name in ("adds_acknowledged", "adds_unknown"))
    assert done <= total <= done + unknown
    assert Replicated(results).tables()
