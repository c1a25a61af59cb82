"""Mnesia on three Erlang nodes. Its clients are processes of the first one: there is no network between them and the table."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess

import cluster
import local
from machine import erlang_environment
from servers import parsed, served

from replicated.usage import Usage

# The kind of the table, and how a client writes.
ARMS = {
    "mnesia_disc_sync": ("disc", "sync_transaction"), "mnesia_disc": ("disc", "transaction"), "mnesia_ram": ("ram", "transaction"),
}  # fmt: skip


def missing() -> str | None:
    """Mnesia comes with Erlang."""
    return None


class Nodes:
    """A node that measures, and three with the tables."""

    def __init__(self, directory, place, flags, environment):
        place.mkdir(parents=True, exist_ok=True)
        command = ["erl", "-noshell", *flags, "-pa", directory, "-run", "mnesia_load", "main", place]
        self._process = subprocess.Popen(
            list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=served.die_with_parent,
            env={"ERL_CRASH_DUMP": os.devnull, **erlang_environment(), **environment},
        )  # fmt: skip
        self.pids = self._answer()["pids"]

    def _answer(self) -> dict:
        """The next line of JSON; other lines are about its progress."""
        while not (line := self._process.stdout.readline()).startswith('{"'):
            if not line:
                raise RuntimeError("the nodes of Mnesia have ended")
        return parsed(line)

    def load(self, table, activity, clients, seconds, seed) -> dict:
        """One run of clients."""
        usage = Usage(self.pids)
        with usage:
            self._process.stdin.write(f"{table} {activity} {clients} {round(seconds * 1000)} {seed}\n")
            self._process.stdin.flush()
            report = self._answer()
        return {**report, **usage.report(report["requests"])}

    def write_arms(self) -> dict:
        """Transactions on each kind of table."""
        def arm(table, activity):
            return lambda clients, _pipeline, seconds, seed: self.load(table, activity, clients, seconds, seed)

        return {name: arm(*how) for name, how in ARMS.items()}

    def stop(self):
        """Ends all nodes."""
        self._process.stdin.close()
        try:
            self._process.wait(30)
        finally:
            self._process.kill()


@contextlib.contextmanager
def running(place):
    """Three nodes with empty tables."""
    with cluster.loopback("mnesia") as (flags, environment), local.compiled("replicated/mnesia_load", "cluster") as directory:
        nodes = Nodes(directory, place, flags, environment)
        try:
            yield nodes
        finally:
            nodes.stop()
            shutil.rmtree(place, ignore_errors=True)
