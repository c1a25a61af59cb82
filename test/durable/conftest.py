"""Options of the suites that kill nodes, cut the power and break disks.

`--store redis` and `--store toy` run the same suites against Redis and against the toy.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest

import served
import stores
from crash_loop import seed_of
from figures import Collector, Figures, table

OUTCOME = pytest.StashKey[str]()


def pytest_addoption(parser):
    """The sizes of the suites; each has a default that fits `make test`."""
    parser.addoption("--store", default="todana", choices=stores.STORES, help="the store under test")
    parser.addoption("--writers", help="only these clients, by the names of their classes in writers.py, comma-separated")
    parser.addoption("--seed", type=int, help="the seed of all random choices; new by default, and always printed")
    parser.addoption("--rounds", type=int, default=20, help="rounds of the crash loop")
    parser.addoption("--cuts", type=int, default=20, help="cut points of each scenario")
    parser.addoption("--posix", action="store_true", help="cut points: an fsync of a file does not make its name certain")
    parser.addoption("--flips", type=int, default=12, help="flipped bits of each kind of file")
    parser.addoption("--results", help="append the figures of each test to this file, as lines of JSON")
    parser.addoption("--minutes", type=float, default=60, help="duration of the soak")


@pytest.fixture(scope="session")
def store_class(request):
    """The class of the store under test; skips if it cannot keep data."""
    chosen = request.config.getoption("--store")
    if chosen == "todana":
        if not stores.has_data_directory():
            pytest.skip("this Todana keeps no records on disk yet")
        if not any((served.ROOT / "_build").glob("*/lib/todana/ebin/todana.app")):
            pytest.fail("the server is not built: run `make build` first")
    if chosen == "redis" and not shutil.which("redis-server"):
        pytest.skip("redis-server is not installed")
    names = request.config.getoption("--writers")
    return stores.STORES[chosen] if names is None else stores.with_writers(stores.STORES[chosen], names.split(","))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Remembers how a test has ended, for its figures."""
    report = yield
    if call.when == "call":
        item.stash[OUTCOME] = report.outcome
    return report


@pytest.fixture
def seed(request):
    """The seed of this test."""
    found = seed_of(request.config.getoption("--seed"))
    print(f"\n{request.node.name}: seed {found}", flush=True)
    return found


COLLECTOR = pytest.StashKey[Collector]()


@pytest.fixture(scope="session")
def collector(request):
    """Prints and keeps the figures of all tests."""
    return request.config.stash.setdefault(COLLECTOR, Collector(request.config.getoption("--results")))


def pytest_terminal_summary(terminalreporter, config):
    """A table of the figures, in front of the summary line."""
    if COLLECTOR in config.stash:
        terminalreporter.section("figures")
        terminalreporter.write_line(table(config.stash[COLLECTOR].lines))


@pytest.fixture
def figures(request, collector, seed):
    """What a test counts; reported when it has ended, in whatever way."""
    found = Figures(seed=seed)
    yield found
    suite = request.path.stem.removeprefix("test_").replace("_", " ")
    case = request.node.name.removeprefix("test_").replace("_", " ")
    collector.report(suite, case, request.node.stash.get(OUTCOME, "no outcome"), found)


@pytest.fixture
def directory(request):
    """A directory on the disk, removed at the end."""
    (served.ROOT / "_build").mkdir(exist_ok=True)
    path = Path(tempfile.mkdtemp(prefix="durable-", dir=served.ROOT / "_build"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def fast_directory():
    """A directory in memory, if the system has one: for tests that sync often and do not need a disk."""
    shared = Path("/dev/shm")
    path = Path(tempfile.mkdtemp(prefix="todana-durable-", dir=shared if os.access(shared, os.W_OK) else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)
