"""redis-benchmark runs to its end and reports. No test asserts a speed."""

import csv
import io
import shutil
import subprocess

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("redis-benchmark"), reason="redis-benchmark is not installed")

TIMEOUT_S = 300


def run(server, *arguments):
    """Runs redis-benchmark with --csv; returns its rows by the name of the test, and its messages."""
    command = ["redis-benchmark", "-h", server.resp[0], "-p", str(server.resp[1]), "--csv", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, done
    assert "error" not in done.stderr.lower() and "WARNING" not in done.stderr, done.stderr
    return {row["test"]: row for row in csv.DictReader(io.StringIO(done.stdout))}


def test_the_usual_tests(empty):
    """set, get, incr and mset."""
    rows = run(empty, "-t", "set,get,incr,mset", "-n", "5000", "-c", "20", "-r", "1000")
    assert [name.split(" ")[0] for name in rows] == ["SET", "GET", "INCR", "MSET"]
    assert all(float(row["rps"]) > 0 and float(row["p99_latency_ms"]) >= 0 for row in rows.values())


def test_pings(empty):
    """Inline and multi-bulk PING."""
    assert list(run(empty, "-t", "ping", "-n", "5000", "-c", "20")) == ["PING_INLINE", "PING_MBULK"]


@pytest.mark.parametrize("depth", [1, 16, 100])
def test_pipelines(empty, depth):
    """Pipelined requests."""
    assert len(run(empty, "-t", "set,get", "-n", "20000", "-c", "10", "-P", str(depth), "-r", "1000", "-d", "100")) == 2


def test_threads(empty):
    """Several client threads."""
    assert len(run(empty, "-t", "set,get", "-n", "20000", "-c", "20", "--threads", "2", "-r", "1000")) == 2


def test_large_values(empty):
    """Values of 100 kB."""
    assert len(run(empty, "-t", "set,get", "-n", "500", "-c", "10", "-d", "100000")) == 2


def test_a_command_of_ones_own(empty):
    """Any command line can be measured."""
    assert len(run(empty, "-n", "2000", "-c", "10", "-r", "100", "getrange", "key:__rand_int__", "0", "10")) == 1
