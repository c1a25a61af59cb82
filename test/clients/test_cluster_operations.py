"""What an operator of a cluster sees: the ready line, the status, the log, strangers, and nodes that wait to join.

No verdict depends on how fast the nodes are.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

import node_wire
import served
import three_nodes
import wire
from wire import OK

JOIN_TIMEOUT_S = 120
# An answer that needs a leader; ten times an election.
WITHOUT_LEADER_S = 30
STRANGERS = 2_000
# Names of strangers that a node accepts at once, and how many more in a second (todana_dist.erl).
NAMES_AT_ONCE, NAMES_PER_S = 100, 1


@pytest.fixture(scope="module", autouse=True)
def own_nodes(request):
    """The nodes have data directories anyway."""
    if request.config.getoption("--server") != "todana" or request.config.getoption("--durable"):
        pytest.skip("the nodes have data directories anyway")


@pytest.fixture(scope="module")
def cluster(own_nodes):
    """Three nodes."""
    with three_nodes.Cluster("--write-timeout-ms", 60_000) as running:
        yield running


@pytest.fixture
def mapper():
    """The environment of nodes with an epmd of their own."""
    port = str(served.listening_port())
    epmd = subprocess.Popen([three_nodes.epmd_program(), "-port", port], stdin=subprocess.DEVNULL, preexec_fn=served.die_with_parent)
    try:
        assert wire.wait_until(lambda: subprocess.run([three_nodes.epmd_program(), "-port", port, "-names"], capture_output=True).returncode == 0)
        yield {"ERL_EPMD_PORT": port, "ERL_CRASH_DUMP_BYTES": "0"}
    finally:
        epmd.kill()
        epmd.wait()


def todana(*words, environment=None):
    """Runs a command of `bin/todana` until it ends: its exit status and its output."""
    command = [str(word) for word in (served.PROGRAM, *words)]
    done = subprocess.run(
        command, env={**os.environ, **(environment or {})}, capture_output=True, text=True, timeout=JOIN_TIMEOUT_S, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout + done.stderr


def says(node, pattern):
    """Waits for a line of a member's log."""
    node.process.wait_for_line(re.compile(pattern), three_nodes.SERVING_TIMEOUT_S)


# -------------------------------------------------------- ready and status ---


def test_the_ready_line_says_whether_the_node_votes(cluster):
    """The first node votes, and each of the others after a restart."""
    first, second, _ = cluster.nodes
    assert " votes=yes " in first.process.wait_for_line(served.READY, 1).group(0) + " "
    second.kill()
    cluster.restart(second)
    assert " votes=yes " in second.process.wait_for_line(served.READY, 1).group(0) + " "


def test_status_waits_until_a_node_may_fail(cluster):
    """With all nodes it ends at once; without one only when that is back."""
    first, second, third = cluster.nodes
    _, usage = todana("cluster", "status", "--timeout", "3", "--data-dir", first.directory)
    assert "`cluster status [--json | --watch]` or `cluster status --wait [--timeout S]`" in usage
    _, hint = todana("cluster", "transfer", "b", "--data-dir", first.directory)
    assert f"b is not a member of the cluster; did you mean {second.name}?" in hint
    wait = ("cluster", "status", "--wait", "--data-dir", first.directory)
    status, output = todana(*wait)
    assert status == 0 and "1 of 3 voters may fail" in output, output
    third.kill()
    says(first, r"c@127\.0\.0\.1 is down, or cannot be reached")
    status, output = todana(*wait, "--timeout", "0")
    assert status == 1 and "after 0 s no member may fail yet" in output and "c@127.0.0.1 (voter) is down" in output, output
    waiting = served.Process([served.PROGRAM, *wait, "--timeout", three_nodes.SERVING_TIMEOUT_S])
    cluster.restart(third)
    assert waiting.popen.wait(three_nodes.SERVING_TIMEOUT_S) == 0
    says(first, r"c@127\.0\.0\.1 is connected again")


def test_a_node_alone_says_so(cluster, tmp_path):
    """Its log says what it has lost and what came back; its status advises only what is possible."""
    first, second, third = cluster.nodes
    for node in (second, third):
        node.kill()
    says(first, r"no majority: this node reaches 1 of [23] voters, so no write is confirmed")
    says(first, r"the cluster has no leader, after .*; this node reaches 1 of [23] voters")
    status = ""

    def is_known():
        nonlocal status
        code, status = todana("cluster", "status", "--data-dir", first.directory)
        return code == 0 and "without a leader" in status

    assert wire.wait_until(is_known, timeout_s=60)
    assert "(1 of 3 voters)" in status and "cluster force --i-accept-data-loss" in status, status
    # It knows that it has no leader, and waits for one no longer than an election takes.
    began = time.monotonic()
    code, refused = todana("backup", tmp_path / "backup", "--data-dir", first.directory)
    assert code == 1 and "the cluster has no leader" in refused and time.monotonic() - began < WITHOUT_LEADER_S, refused
    assert "led by" not in status and "replace" not in status and "join" not in status, status
    # The same table, however little time there is.
    code, waited = todana("cluster", "status", "--wait", "--timeout", "1", "--data-dir", first.directory)
    assert code == 1 and "after 1 s no member may fail yet" in waited and "cluster force" in waited, waited
    seen = len(first.process.lines)
    for node in (second, third):
        node.start(first)
    cluster.wait_for_voters()
    says(first, r"a majority again: this node reaches [23] of [23] voters")
    assert wire.wait_until(lambda: any("leads the cluster; this node reaches" in line for line in first.process.lines[seen:]), timeout_s=60)


# ------------------------------------------------------- removed by mistake ---


def test_what_a_removed_majority_has_confirmed_can_be_read(own_nodes, tmp_path):
    """`cluster force` on a node that a working majority cannot reach removes that majority; its directories can be dumped."""
    with three_nodes.Cluster("--write-timeout-ms", 60_000) as cluster:
        first, *others = cluster.nodes
        for node in others:
            os.kill(node.process.popen.pid, signal.SIGSTOP)
        force = ("cluster", "force", "--i-accept-data-loss", "--data-dir", first.directory)
        assert wire.wait_until(lambda: todana(*force)[0] == 0, timeout_s=three_nodes.SERVING_TIMEOUT_S)
        with wire.Resp(first.address()) as resp:
            assert resp.call("SET", "of-the-survivor", "1") == OK
        os.kill(first.process.popen.pid, signal.SIGSTOP)
        for node in others:
            os.kill(node.process.popen.pid, signal.SIGCONT)
        written = range(100)
        with wire.Resp(others[0].address()) as resp:
            for number in written:
                # Those that hung elect a leader, perhaps twice.
                write = ("SET", f"of-the-majority-{number}", number)
                assert wire.wait_until(lambda write=write: resp.call(*write) == OK, timeout_s=three_nodes.SERVING_TIMEOUT_S)
        os.kill(first.process.popen.pid, signal.SIGCONT)
        for node in others:
            node.process.popen.wait(three_nodes.SERVING_TIMEOUT_S)
            assert f"`bin/todana dump {node.directory}` reads what this one has" in "\n".join(node.process.lines), node.process.lines
            node.start()
            assert node.process.popen.wait(three_nodes.SERVING_TIMEOUT_S) == 1
            assert "was removed from the cluster" in "\n".join(node.process.lines), node.process.lines
        # Of two members, both have what was confirmed. The second time the directory is that of a node without a cluster.
        for directory in (others[0].directory, others[1].directory, others[0].directory):
            status, output = todana("dump", directory)
            records = [line for line in output.splitlines() if line.startswith("{")]
            keys = {json.loads(line)["key"] for line in records}
            assert "of a member when it was removed from the cluster" in output
            assert status == 0 and keys == {f"of-the-majority-{number}" for number in written}, output
        others[0].start()
        assert others[0].process.popen.wait(three_nodes.SERVING_TIMEOUT_S) == 1
        assert "when it was removed from the cluster" in "\n".join(others[0].process.lines), others[0].process.lines
        lines = tmp_path / "records"
        lines.write_text("\n".join(records) + "\n")
        status, output = todana("load", lines, "--data-dir", first.directory)
        assert status == 0 and "100 records loaded" in output, output
        with wire.Resp(first.address()) as resp:
            assert resp.call("GET", "of-the-majority-99") == b"99" and resp.call("GET", "of-the-survivor") == b"1"


def test_a_node_that_leaves_by_its_own_command_has_ended(own_nodes):
    """Its directory can be deleted next. The log says once why it stops, though both others say so."""
    with three_nodes.Cluster() as cluster:
        third = cluster.nodes[2]
        status, output = todana("cluster", "leave", third.name, "--data-dir", third.directory)
        assert (status, output) == (0, "done\n")
        # The process is a child of this one, which has not waited for it yet.
        assert third.process.popen.wait(1) is not None
        removed = [line for line in third.process.lines if "this node was removed from its cluster" in line]
        assert len(removed) == 1, third.process.lines


# -------------------------------------------------------------- strangers ---


def test_names_of_strangers_do_not_fill_the_node(cluster):
    """Atoms are never freed: a node takes only some new names in a time. Members, and a node that joins then, are let in."""
    first, second, _ = cluster.nodes
    port = node_wire.distribution_port(first.environment, "a")
    started = time.monotonic()
    known = 0
    for number in range(STRANGERS):
        with node_wire.Stranger(port, f"made_up_{os.getpid()}_{number}@127.0.0.1") as stranger:
            known += stranger.is_known()
    assert 0 < known <= NAMES_AT_ONCE + 1 + NAMES_PER_S * (time.monotonic() - started)
    says(first, "connections of nodes with new names were refused")
    with node_wire.Stranger(port, second.name) as stranger:
        assert stranger.is_known()
    fourth = three_nodes.Node("d", cluster.directory / "d", first.cookie, first.environment, [], first.host, {})
    try:
        fourth.start(first)
        fourth.wait_until_ready()
        # A fourth member has no vote.
        assert " votes=no " in next(line for line in fourth.process.lines if served.READY.search(line)) + " "
        assert first.ask("leave", fourth.name)[0] == "ok"
    finally:
        if fourth.is_alive():
            fourth.kill()


def is_daemon_of(path, port) -> bool:
    """Whether a process is the epmd of this port."""
    try:
        return f"ERL_EPMD_PORT={port}".encode() in path.read_bytes().split(b"\0") and (path.parent / "comm").read_text() == "epmd\n"
    except OSError:
        return False


def test_epmd_listens_where_the_nodes_are(tmp_path):
    """The first node starts the daemon that knows the ports of nodes, for its own address. It does not serve other addresses."""
    port = served.listening_port()
    environment = {"ERL_EPMD_PORT": str(port), "ERL_CRASH_DUMP_BYTES": "0"}
    listeners = ["--listen-resp", "127.0.0.1:0", "--listen-memcached", "off", "--listen-kyoto", "off", "--listen-http", "off"]
    command = [served.PROGRAM, "start", "--cluster-create", *listeners, "--cookie-file", tmp_path / "cookie"]
    first = served.Process([*command, "--node", "a@127.0.0.1", "--data-dir", tmp_path / "a"], environment)
    try:
        first.wait_for_line(served.READY, served.READY_TIMEOUT_S)
        with socket.create_connection(("127.0.0.1", port)):
            pass
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))
        # bin/todana blocks signals while the node starts; a daemon would do so for good.
        daemons = [path.parent for path in Path("/proc").glob("[0-9]*/environ") if is_daemon_of(path, port)]
        assert daemons and all("SigBlk:\t0000000000000000" in (daemon / "status").read_text() for daemon in daemons)
        status, output = todana(*command[1:], "--node", "b@127.0.0.2", "--data-dir", tmp_path / "b", environment=environment)
        assert status == 1 and "the epmd of this host does not listen on 127.0.0.2" in output, output
        assert subprocess.run([re.search(r"`(\S+/epmd) -kill`", output).group(1), "-port", str(port), "-names"]).returncode == 0
    finally:
        first.stop()
        subprocess.run([three_nodes.epmd_program(), "-port", str(port), "-kill"], capture_output=True)


# ---------------------------------------------------------------- joining ---


def joining(tmp_path, name, environment):
    """A node that is to join a cluster which is not there."""
    process = served.Process(
        [served.PROGRAM, "cluster", "join", "nobody@127.0.0.1", "--node", f"{name}@127.0.0.1", "--data-dir", tmp_path / name,
         "--cookie-file", tmp_path / "cookie", "--listen-resp", "127.0.0.1:0", "--listen-memcached", "off", "--listen-kyoto", "off",
         "--listen-http", "off"],
        environment,
    )
    process.wait_for_line(re.compile(r"waiting to join, for \d+ s more: nobody@127\.0\.0\.1 is not running"), JOIN_TIMEOUT_S)
    return process


def test_a_node_that_waits_to_join(tmp_path, mapper):
    """SIGTERM ends it with a sentence, and what was logged meanwhile is not lost. Without the signal it says that it waits, and ends."""
    patient = joining(tmp_path, "patient", mapper)
    stopped = joining(tmp_path, "stopped", mapper)
    try:
        port = node_wire.distribution_port(mapper, "stopped")
        with node_wire.Stranger(port, "unwelcome@127.0.0.1") as stranger:
            assert stranger.is_known()
            assert stranger.receive().startswith(b"N")
            stranger.send(b"r" + bytes(4) + bytes(16))
            assert stranger.receive() == b""
        assert stopped.stop(signal.SIGTERM) == 0
        assert stopped.lines[-1] == "todana: stopped while it was waiting to join", stopped.lines
        rejected = [line for line in stopped.lines if "unwelcome@127.0.0.1 was refused, because its cookie differs" in line]
        assert len(rejected) == 1 and "did not start" not in "\n".join(stopped.lines), stopped.lines
        assert patient.popen.wait(JOIN_TIMEOUT_S) == 1
        assert wire.wait_until(lambda: patient.lines[-1].startswith("todana: cluster_join: "))
        wanted = "todana: cluster_join: nobody@127.0.0.1 is not running, or cannot be reached, for 30 s: any member may be named, or several"
        assert patient.lines[-1].startswith(wanted), patient.lines[-1]
        assert len([line for line in patient.lines if "waiting to join, for" in line]) > 1, patient.lines
    finally:
        patient.stop(signal.SIGKILL)
        stopped.stop(signal.SIGKILL)
