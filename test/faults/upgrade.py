"""Other versions of Todana, built from their commits, and nodes that change from one to the other."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

import clients
import served
import wire

VERSIONS = served.ROOT / "_build" / "faults" / "versions"
# Of the format of the log that had no other before it.
FIRST_FORMAT = "f89e57d"
STOP_TIMEOUT_S = 120
# A command of format 3, and what a cluster answers that has a member which does not know it.
NEW_COMMAND = ("BITOP", "NOT", "upgrade.to", "upgrade.from")
REFUSED = "a member of the cluster has an older version"
NEWER = "a newer version of Todana has written it"


def build(commit) -> Path:
    """A checkout of a commit, compiled. The first build takes minutes."""
    place = VERSIONS / commit
    if not place.exists():
        unfinished = place.with_suffix(".new")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        archive = subprocess.Popen(["git", "archive", commit], cwd=served.ROOT, stdout=subprocess.PIPE)
        with tarfile.open(fileobj=archive.stdout, mode="r|") as files:
            files.extractall(unfinished, filter="fully_trusted")
        assert archive.wait() == 0, f"git has no commit {commit}"
        erlang = served.ROOT / ".toolchain" / "bin"
        environment = {**os.environ, "PATH": f"{erlang}:{os.environ['PATH']}"} if erlang.exists() else None
        # All versions need about the same crates.
        target = VERSIONS / "target"
        subprocess.run(["rebar3", "compile"], cwd=unfinished, check=True, env={**(environment or os.environ), "CARGO_TARGET_DIR": str(target)})
        if erlang.exists():
            (unfinished / ".toolchain").symlink_to(erlang.parent)
        os.replace(unfinished, place)
    return place


def change(cluster, node, version):
    """Stops a member in order and starts it with another version, as docs/production.md says."""
    if cluster.leader() is node:
        other = cluster.others(node)[0]
        node.ask("transfer", other.name)
    node.stop()
    node.version = version
    node.start()
    cluster.wait_for_voters()


def new_command(node):
    """The answer to a command that only the newer version has."""
    with wire.Resp(node.address("resp"), clients.ANSWER_TIMEOUT_S) as connection:
        return connection.call(*NEW_COMMAND)


def await_new_commands(node, timeout_s):
    """Waits until a node accepts commands that only the newer version has."""
    deadline = time.monotonic() + timeout_s
    while not isinstance(answer := new_command(node), int):
        assert REFUSED in str(answer), answer
        assert time.monotonic() < deadline, f"after {timeout_s} s {node.name} answers {answer}"
        time.sleep(0.1)


def write(node, key):
    """Has a node write something, and raises if it does not."""
    with wire.Resp(node.address("resp"), clients.ANSWER_TIMEOUT_S) as connection:
        answer = connection.call("SET", f"upgrade.{key}", node.name)
        assert answer == wire.OK, f"{node.name}: {answer}"


def await_output(node, words, timeout_s):
    """Waits until a node has said something; returns it."""
    deadline = time.monotonic() + timeout_s
    while True:
        with contextlib.suppress(StopIteration):
            return next(line for line in list(node.process.lines) if words in line)
        assert time.monotonic() < deadline, f"{node.name} does not say {words!r}:\n{node.log()}"
        time.sleep(0.1)


def await_note(node, word, timeout_s):
    """Waits until a node has noted something in its data directory."""
    deadline = time.monotonic() + timeout_s
    while word not in (node.directory / "node").read_text():
        assert time.monotonic() < deadline, f"{node.name} does not note {word}"
        time.sleep(0.1)
