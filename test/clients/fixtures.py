"""Options and fixtures that the suites share; each suite's conftest.py imports them.

`pytest test/clients` tests `bin/todana`. `--server oracle` runs the same tests against redis-server and memcached. A
test that fails there is wrong, unless it is marked as specific to Todana or as newer than the oracle. `--server PATH`
starts another program with the same flags, `--server HOST:PORT,...` uses a running one (RESP, memcached, Kyoto). Kyoto
Tycoon has no oracle: its suites test only Todana, started with `KYOTO_DATABASES`. `--durable` gives every Todana a data
directory, so that the same tests show that durable databases behave like those in memory. With `--guest`, every Todana is
a node without a replica, and a member of its own has the records.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from pathlib import Path

import pymemcache
import pytest
import redis

import served
import wire
from kyoto_wire import Kyoto

BACKENDS = ("native", "poll", "select")
PASSWORD = "sesame-0pen"
# select(2) supports 1,024 descriptors.
FLAGS_OF_BACKEND = {"select": ("--connections-max", "900")}
# Databases 0 to 6 of the shared server: every kind, then one without expiry and one in numeric order.
KYOTO_DATABASES = (":", "%", "*", "-", "+", "%#ktopts=p", "%#rcomp=dec")
HASH, TREE, CACHE, PROTO_HASH, PROTO_TREE, PERSISTENT, DECIMAL = range(len(KYOTO_DATABASES))


def pytest_addoption(parser):
    """Options that select the server under test and the event back ends."""
    parser.addoption("--server", default="todana", help="todana | oracle | PATH | HOST:PORT,HOST:PORT")
    parser.addoption("--durable", action="store_true", help="every Todana has a data directory; one event back end")
    parser.addoption("--guest", action="store_true", help="every Todana is a guest of a member; one event back end")
    parser.addoption("--backends", default=",".join(BACKENDS), help="event back ends, comma-separated")


def is_todana(config) -> bool:
    """Whether the server under test is any form of Todana."""
    return config.getoption("--server") != "oracle"


def can_start(config) -> bool:
    """Whether the tests may start servers with other flags."""
    return ":" not in config.getoption("--server")


def pytest_configure(config):
    """Reports clearly that there is no server to test."""
    if config.getoption("--server") == "todana" and not (served.PROGRAM.exists() and _is_built()):
        raise pytest.UsageError("the server is not built: run `make build` first (or use --server oracle)")


def pytest_unconfigure(config):
    """Removes the data directories."""
    if directory := getattr(config, "durable_directory", None):
        shutil.rmtree(directory, ignore_errors=True)


def is_durable(config) -> bool:
    """Whether the servers under test keep their records on disk."""
    return config.getoption("--durable") or config.getoption("--guest")


def durable_flags(config) -> list:
    """The flags that give a server a directory of its own: in memory if the system has such, since no power is cut here."""
    if not hasattr(config, "durable_directory"):
        place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        config.durable_directory = tempfile.mkdtemp(prefix="todana-suites-", dir=place)
        config.durable_numbers = itertools.count()
    directory = Path(config.durable_directory) / str(next(config.durable_numbers))
    # Values as long as in memory.
    return ["--data-dir", directory, "--durable-value-bytes-max", "64mb", "--group-queue-bytes-max", "256mb"]


def on_disk(databases) -> tuple:
    """The names of databases in memory, each replaced by that of a durable one of the same kind, if there is one."""
    names = []
    for number, name in enumerate(databases):
        kind, mark, parameters = name.partition("#")
        suffix = {":": "kch", "-": "kch", "%": "kct", "+": "kct"}.get(kind)
        names.append(f"casket{number}.{suffix}{mark}{parameters}" if suffix else name)
    return tuple(names)


def _is_built() -> bool:
    return any((served.ROOT / "_build").glob("*/lib/todana/ebin/todana.app"))


def pytest_generate_tests(metafunc):
    """Runs each test once per event back end, unless the test is marked to run with one."""
    if "backend" not in metafunc.fixturenames:
        return
    backends = metafunc.config.getoption("--backends").split(",")
    if is_durable(metafunc.config):
        backends = backends[:1]
    if not is_todana(metafunc.config) or not can_start(metafunc.config):
        backends = [metafunc.config.getoption("--server").replace(":", "-")]
    elif metafunc.definition.get_closest_marker("one_backend"):
        backends = backends[:1]
    metafunc.parametrize("backend", backends, scope="session")


def pytest_collection_modifyitems(config, items):
    """Skips tests that do not apply to the chosen server."""
    if is_durable(config):
        for item in items:
            if item.get_closest_marker("memory_only"):
                item.add_marker(pytest.mark.skip(reason="cannot hold for a durable database"))
    if config.getoption("--guest"):
        for item in items:
            if item.get_closest_marker("records_here"):
                item.add_marker(pytest.mark.skip(reason="cannot hold for a guest"))
    if is_todana(config):
        return
    for item in items:
        if item.get_closest_marker("todana_only"):
            item.add_marker(pytest.mark.skip(reason="Todana's own"))
        if item.get_closest_marker("since_redis_7_2"):
            item.add_marker(pytest.mark.skip(reason="newer than the oracle"))


def start(config, *flags, **keywords):
    """Starts the server under test with the given flags."""
    chosen = config.getoption("--server")
    if not can_start(config):
        pytest.skip("a running server is tested; none can be started")
    if chosen == "oracle":
        return served.start_oracle()
    program = served.PROGRAM if chosen == "todana" else os.path.abspath(chosen)
    if config.getoption("--guest"):
        return start_guest(config, program, flags, keywords)
    if is_durable(config):
        flags = (*durable_flags(config), *flags)
        keywords["databases"] = on_disk(keywords.get("databases", ()))
    return served.start_todana(*flags, program=program, **keywords)


def start_guest(config, program, flags, keywords):
    """Starts a member, which has the records, and its guest, which has the flags."""
    own = durable_flags(config)
    directory = Path(own[1])
    directory.parent.joinpath("cookie").write_text("todana-suites")
    directory.parent.joinpath("cookie").chmod(0o600)
    named = {name: f"{name}{os.getpid()}x{directory.name}@127.0.0.1" for name in ("member", "guest")}
    cookie = ("--cookie-file", directory.parent / "cookie")
    databases = on_disk(keywords.get("databases", ()))
    member = served.start_todana(
        *own, "--cluster-create", "--node", named["member"], *cookie, program=program, databases=databases
    )
    joining = ("--cluster-join", named["member"], "--no-replica")
    guest = served.start_todana(
        "--node", named["guest"], *cookie, *joining, *flags, program=program, **{**keywords, "databases": databases}
    )
    guest.member = member
    return guest


def served_by_kyoto_too(config):
    """The flags with which the shared server listens for Kyoto Tycoon clients, if it is Todana."""
    return {"databases": KYOTO_DATABASES} if is_todana(config) else {}


@pytest.fixture(scope="session")
def server(request, backend):
    """The server that most tests share, one per event back end."""
    chosen = request.config.getoption("--server")
    if ":" in chosen:
        resp, memcached, *kyoto = [(host, int(port)) for host, _, port in (a.rpartition(":") for a in chosen.split(","))]
        yield served.Server([], resp, memcached, "external", *kyoto)
        return
    flags = FLAGS_OF_BACKEND.get(backend, ())
    running = start(request.config, "--event-backend", backend, *flags, **served_by_kyoto_too(request.config))
    yield running
    statuses = running.stop()
    assert statuses[0] == 0, "the server ended with %s:\n%s" % (statuses, running.output())


@pytest.fixture(scope="module")
def ordered(request):
    """A server whose database 0, which memcached uses, is ordered."""
    running = start(request.config, databases=("%", ":"))
    yield running
    running.stop()


@pytest.fixture
def start_server(request):
    """Starts servers with flags that the test chooses, and stops them afterwards."""
    running = []

    def starter(*flags, **keywords):
        running.append(start(request.config, *flags, **keywords))
        return running[-1]

    yield starter
    for server in running:
        if server.is_alive():
            server.stop()


@pytest.fixture(scope="session")
def guarded(request, tmp_path_factory):
    """A server that requires a password."""
    directory = tmp_path_factory.mktemp("guarded")
    path = directory / "password"
    if is_todana(request.config):
        path.write_text(PASSWORD + "\n")
        path.chmod(0o600)
        server = start(request.config, "--password-file", path)
    else:
        path.write_text(f"default:{PASSWORD}\n")
        for readable in (path, directory, directory.parent, directory.parent.parent):
            readable.chmod(0o755)
        server = served.start_oracle(["--requirepass", PASSWORD], ["-Y", str(path)])
    yield server
    server.stop()


@pytest.fixture
def empty(server):
    """The shared server, without any record."""
    with wire.Resp(server.resp) as connection:
        assert connection.call("FLUSHALL") == wire.OK
    if server.kind == "oracle":
        with wire.Memcached(server.memcached) as connection:
            assert connection.command("flush_all") == b"OK"
    return server


@pytest.fixture
def connect(empty):
    """Opens further raw connections: `connect.resp()`, `connect.memcached()`."""
    opened = []

    class Connect:
        """Opens connections that the fixture closes."""

        @staticmethod
        def resp(**keywords):
            """Another RESP connection."""
            opened.append(wire.Resp(empty.resp, **keywords))
            return opened[-1]

        @staticmethod
        def memcached(**keywords):
            """Another memcached connection."""
            opened.append(wire.Memcached(empty.memcached, **keywords))
            return opened[-1]

        @staticmethod
        def kyoto(**keywords):
            """Another Kyoto Tycoon connection."""
            if empty.kyoto is None:
                pytest.skip("the server does not listen for Kyoto Tycoon's clients")
            opened.append(Kyoto(empty.kyoto, **keywords))
            return opened[-1]

    yield Connect
    for connection in opened:
        connection.close()


@pytest.fixture
def resp(connect):
    """A raw RESP2 connection."""
    return connect.resp()


@pytest.fixture
def resp3(connect):
    """A raw RESP3 connection."""
    connection = connect.resp()
    assert isinstance(connection.call("HELLO", 3), dict)
    return connection


@pytest.fixture
def memcached(connect):
    """A raw memcached connection."""
    return connect.memcached()


@pytest.fixture
def kyoto(connect):
    """A raw Kyoto Tycoon connection."""
    return connect.kyoto()


@pytest.fixture(params=[HASH, TREE], ids=["hash", "tree"])
def database(request):
    """The number of an unordered, then of an ordered database."""
    return request.param


@pytest.fixture(params=[HASH, TREE, CACHE, PROTO_HASH, PROTO_TREE, PERSISTENT, DECIMAL], ids=KYOTO_DATABASES)
def any_database(request):
    """The numbers of all databases."""
    return request.param


@pytest.fixture
def client(empty):
    """A redis-py client."""
    with redis.Redis(*empty.resp, socket_timeout=wire.TIMEOUT_S) as connected:
        yield connected


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client_of_either_version(request, empty):
    """A redis-py client that uses RESP2, then one that uses RESP3."""
    with redis.Redis(*empty.resp, socket_timeout=wire.TIMEOUT_S, protocol=request.param) as connected:
        yield connected


@pytest.fixture
def pymemcache_client(empty):
    """A pymemcache client that waits for replies."""
    connected = pymemcache.Client(empty.memcached, timeout=wire.TIMEOUT_S, default_noreply=False)
    yield connected
    connected.close()
