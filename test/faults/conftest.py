"""Options of the suite that breaks clusters.

The suite needs root on Linux, since it puts its nodes into a network of their own; elsewhere its tests are skipped.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest

import network
import served
from crash_loop import seed_of


def pytest_addoption(parser):
    """The sizes of the suite."""
    parser.addoption("--seed", type=int, help="the seed of all random choices; new by default, and always printed")
    parser.addoption("--steps", type=int, default=14, help="faults of the short plan")
    parser.addoption("--seconds", type=int, default=150, help="the short plan begins no fault after this time")


@pytest.fixture
def seed(request):
    """The seed of this test."""
    found = seed_of(request.config.getoption("--seed"))
    print(f"\n{request.node.name}: seed {found}", flush=True)
    return found


@pytest.fixture(scope="session")
def own_network():
    """This process is in a network of its own."""
    if not any((served.ROOT / "_build").glob("*/lib/todana/ebin/todana.app")):
        pytest.fail("the server is not built: run `make build` first")
    try:
        network.enter()
        network.Network().close()
    except network.NotPossible as why:
        pytest.skip(f"this host allows no network of our own: {why}")


@pytest.fixture
def directory(own_network):
    """A directory in memory, if the system has one; removed at the end."""
    path = Path(tempfile.mkdtemp(prefix="todana-faults-", dir=network.SHARED if network.SHARED.is_dir() else None))
    yield path
    shutil.rmtree(path, ignore_errors=True)
