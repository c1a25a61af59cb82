"""The part durable of the benchmarks: what the page says, and a tiny run."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench"))
sys.path.insert(0, str(ROOT / "test" / "durable"))
sys.path.insert(0, str(ROOT / "test" / "clients"))

import benchmarks  # noqa: E402
import durable  # noqa: E402
import readme_figures  # noqa: E402
import servers  # noqa: E402
import stores  # noqa: E402

TINY = {
    "rounds": 1, "seconds": 0.1, "floor_writes": 5, "connections": 4, "pipelines": [4], "records": 2_000, "large_rounds": 1,
    "log_records": 500, "snapshot_seconds": 0.2,
}  # fmt: skip


def load(server, p50_us, durability="always", connections=1):
    """A cell of loads with these rounds."""
    rounds = [
        {"server_cpu_us_per_request": each, "requests_per_second": 1e6 / each, "p50_us": each, "p99_us": each, "p999_us": each}
        for each in p50_us
    ]
    cell = {"measure": "load", "durability": durability, "operation": "set", "connections": connections, "pipeline": 1}
    return {**cell, "server": server, "rounds": rounds}


def single(measure, server, **figures):
    """A cell with one round."""
    return {"measure": measure, "server": server, "records": 1_000, "rounds": [figures]}


RESULTS = [
    {"measure": "floor", "rounds": [{"p50_us": 100.0, "p99_us": 300.0, "writes": 5}]},
    load("todana-always", [210.0, 220.0]), load("redis-always", [310.0, 320.0]),
    load("todana-everysec", [20.0, 21.0], "everysec", 50), load("redis-everysec", [10.0, 11.0], "everysec", 50),
    load("todana-memory", [5.0, 6.0], "everysec", 50),
    single("log_bytes", "todana-always", bytes_per_set=130.0), single("log_bytes", "redis-always", bytes_per_set=144.0),
    single("memory", "todana-memory", bytes_per_record=150.0), single("memory", "todana-always", bytes_per_record=155.0, peak_bytes=2e6),
]  # fmt: skip


def test_the_page_compares_each_mode_with_redis_in_the_same_mode():
    part = benchmarks.durable(RESULTS)
    ratios = {name: [contest.ratio for contest in contests] for name, contests in part.contests.items()}
    assert ratios["Durable (always), latency p50"] == [215 / 315]
    assert ratios["Durable (everysec), latency p50"] == [20.5 / 10.5]
    assert ratios["Durable, disk, restart and memory"] == [130 / 144]


def test_the_disk_itself_stands_above_the_latencies():
    table = next(table for table in benchmarks.durable(RESULTS).tables if table.caption == "`always`: Latency p50 (µs)")
    assert table.rows[0][0].startswith("fdatasync of the disk")


def test_readme_has_a_row_for_one_client():
    row = next(row for row in readme_figures.ROWS if row[1] == "durable")
    arms = row[2](RESULTS)
    assert arms == [("todana", "", [210.0, 220.0]), ("redis", "", [310.0, 320.0])]


@pytest.mark.skipif(not stores.has_data_directory(), reason="this Todana keeps no records on disk yet")
@pytest.mark.skipif(not shutil.which("redis-server"), reason="redis-server is not installed")
def test_a_tiny_run_measures_everything():
    servers.build_generator()
    results = durable.run(TINY, lambda text: None)
    measures = {cell["measure"] for cell in results}
    assert measures == {"floor", "load", "log_bytes", "memory", "snapshot", "restart after SIGKILL", "restart after a stop"}
    assert all(cell["rounds"] for cell in results)
    assert benchmarks.durable(results).contests
