"""A cluster of Todana on this host. Each node is the program as a user starts it, with a data directory of its own."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import socket
import time
from pathlib import Path

import cluster
import servers
import wire
from servers import served

SERVING_TIMEOUT_S = 120
ASK_TIMEOUT_S = 10
POLL_S = 0.05
# Entries of the log that a node may lack and still count as one that has caught up: others go on writing.
BEHIND_ENTRIES_MAX = 200


class Node:
    """A member, or a process that will be one."""

    def __init__(self, name, directory, environment, flags, program):
        self.name = f"{name}@127.0.0.1"
        self.directory = Path(directory)
        self.environment = environment
        self.flags = flags
        self.program = program
        self.port = served.listening_port()
        self.server = None

    def start(self, *part):
        """Starts the process and waits for its ready line: a restarted member prints it when it belongs to the cluster again."""
        self.server = served.start_todana(
            "--data-dir", self.directory, "--node", self.name, "--cookie-file", self.directory.parent / "cookie", *part,
            "--durability", "always", "--listen-resp", f"127.0.0.1:{self.port}", "--listen-memcached", "off",
            "--listen-kyoto", "off", *self.flags, environment=self.environment, program=self.program,
        )  # fmt: skip

    @property
    def pid(self) -> int:
        """The process of the node."""
        return self.server.pid

    @property
    def address(self) -> tuple:
        """Where the node serves RESP, also while it is down."""
        return "127.0.0.1", self.port

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.server is not None and self.server.is_alive()

    def kill(self):
        """Ends the process as a power cut does."""
        self.server.stop(signal.SIGKILL)

    def call(self, *words):
        """One RESP request on a connection of its own."""
        with wire.Resp(self.address, SERVING_TIMEOUT_S) as connection:
            return connection.call(*words)

    def ask(self, command, argument=None):
        """What `bin/todana cluster` asks. Raises OSError if there is no answer."""
        request = {"command": command} | ({} if argument is None else {"argument": argument})
        directory = os.open(self.directory, os.O_PATH)
        try:
            with socket.socket(socket.AF_UNIX) as control:
                control.settimeout(ASK_TIMEOUT_S)
                # The path of a socket must be short.
                control.connect(f"/proc/self/fd/{directory}/control")
                control.sendall(json.dumps(request).encode() + b"\n")
                line = control.makefile("rb").readline()
        finally:
            os.close(directory)
        answer = json.loads(line) if line.endswith(b"\n") else {"error": "the node closed the socket"}
        if "ok" not in answer:
            raise OSError(answer["error"])
        return answer["ok"]


class Cluster:
    """Nodes that have joined each other, and their directories below `place`."""

    def __init__(self, place, environment, flags=(), program=served.PROGRAM):
        self.place = place
        self.environment = environment
        self.flags = flags
        self.program = program
        self.nodes = []
        self._numbers = itertools.count(1)

    def add(self) -> Node:
        """Starts one more node, and does not wait until it has its vote."""
        name = f"node{next(self._numbers)}-{os.getpid()}"
        node = Node(name, self.place / name, self.environment, self.flags, self.program)
        first = self.nodes[0].name if self.nodes else None
        self.nodes.append(node)
        node.start(*(("--cluster-join", first) if first else ("--cluster-create",)))
        return node

    def wait(self):
        """Waits until all members serve, and all that may vote do."""
        deadline = time.monotonic() + SERVING_TIMEOUT_S
        while (problem := self._problem()) is not None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"the cluster of Todana: {problem}\n{self.nodes[0].server.output()}")
            time.sleep(POLL_S)

    def _problem(self):
        try:
            members = {each["node"]: each for each in self.members()}
        except OSError as error:
            return str(error)
        if set(members) != {node.name for node in self.nodes}:
            return f"the members are {sorted(members)}"
        # The number of voters is odd.
        roles = ("leader", "voter") if len(self.nodes) % 2 else ("leader", "voter", "replica")
        entries = [each.get("applied_index", 0) for each in members.values()]
        for each in members.values():
            if each["role"] not in roles or each.get("state") != "serving":
                return str(each)
        return "a node is behind" if max(entries) - min(entries) > BEHIND_ENTRIES_MAX else None

    def members(self) -> list:
        """What a living node knows of all members."""
        return next(node for node in self.nodes if node.is_alive()).ask("status")["members"]

    def leader(self) -> Node:
        """The node that leads."""
        deadline = time.monotonic() + SERVING_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError):
                leader = next((each["node"] for each in self.members() if each["role"] == "leader"), None)
                if found := [node for node in self.nodes if node.name == leader and node.is_alive()]:
                    return found[0]
            time.sleep(POLL_S)
        raise RuntimeError("the cluster of Todana has no leader")

    def followers(self) -> list[Node]:
        """The others."""
        leader = self.leader()
        return [node for node in self.nodes if node is not leader]

    def remove(self, node):
        """Removes a member and its directory."""
        self.leader().ask("leave", node.name)
        node.server.stop()
        self.nodes.remove(node)
        shutil.rmtree(node.directory, ignore_errors=True)

    def stop(self):
        """Ends all nodes and removes their directories."""
        for node in self.nodes:
            if node.is_alive():
                node.kill()
            shutil.rmtree(node.directory, ignore_errors=True)


@contextlib.contextmanager
def running(place, size=3, flags=(), program=served.PROGRAM):
    """A cluster of this size that serves. `program` is that of all nodes."""
    place.mkdir(parents=True, exist_ok=True)
    with cluster.loopback("unused") as (_, environment):
        started = Cluster(place, environment, flags, program)
        try:
            for _ in range(size):
                started.add()
            started.wait()
            yield started
        finally:
            started.stop()


def load(node, operation, *, meanwhile=None, **options) -> dict:
    """One run of the generator on a node. Nodes and generator share all cores."""
    return servers.load(node.server, "resp", operation, meanwhile=meanwhile, is_pinned=False, **options)
