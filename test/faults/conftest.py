"""Options of the suite that breaks clusters.

As root on Linux, the suite puts its nodes into a network of their own, in which packets are dropped and delayed. Elsewhere, and
with `--proxies`, the nodes reach each other through proxies.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

import network
import run as runs
import served
import upgrade
from crash_loop import seed_of


def pytest_addoption(parser):
    """The sizes of the suite."""
    parser.addoption("--seed", type=int, help="the seed of all random choices; new by default, and always printed")
    parser.addoption("--proxies", action="store_true", help="proxies between the nodes, though this host may allow more")
    parser.addoption("--steps", type=int, default=14, help="faults of the short plan")
    parser.addoption("--seconds", type=int, default=150, help="the short plan begins no fault after this time")


def pytest_collection_finish(session):
    """Builds what the selected tests need while this process has the network of the host."""
    if any(item.path.name == "test_upgrade.py" for item in session.items) and not session.config.option.collectonly:
        runs.build_checker()
        upgrade.build(upgrade.FIRST_FORMAT)


@pytest.fixture
def seed(request):
    """The seed of this test."""
    found = seed_of(request.config.getoption("--seed"))
    print(f"\n{request.node.name}: seed {found}", flush=True)
    return found


@pytest.fixture(scope="session")
def own_network(request):
    """This process is in a network of its own, if the host allows it."""
    if not any((served.ROOT / "_build").glob("*/lib/todana/ebin/todana.app")):
        pytest.fail("the server is not built: run `make build` first")
    if request.config.getoption("--proxies"):
        return
    try:
        network.enter()
        network.Network().close()
    except network.NotPossible as why:
        print(f"the nodes reach each other through proxies: {why}")


@pytest.fixture
def directory(own_network):
    """A directory in memory, if the system has one; removed at the end."""
    path = Path(tempfile.mkdtemp(prefix="todana-faults-", dir=network.SHARED if network.SHARED.is_dir() else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)
