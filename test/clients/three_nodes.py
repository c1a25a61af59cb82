"""Three nodes of a cluster on this host, as `tools/cluster` starts them, for tests of clients.

The nodes have an epmd of their own, so that nothing remains of a run, and ports of their own, so that they come back where
they were.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

import served
import wire

SERVING_TIMEOUT_S = 120
COMMAND_TIMEOUT_S = 60
# Both kinds of listeners for RESP.
LISTENERS = ("resp", "resp_cluster")
# The port for memcached's clients.
MEMCACHED = "memcached"


def epmd_program() -> str:
    """The daemon that comes with Erlang."""
    ours = served.ROOT / ".toolchain" / "bin" / "epmd"
    return str(ours) if ours.exists() else shutil.which("epmd")


class Node:
    """A member."""

    def __init__(self, name, directory, cookie, environment, flags, host, suffixes):
        self.name = f"{name}@127.0.0.1"
        self.directory = directory
        self.cookie = cookie
        self.environment = environment
        self.flags = [str(flag) for flag in flags]
        self.host, self.suffixes = host, suffixes
        self.ports = {kind: served.listening_port() for kind in (*LISTENERS, MEMCACHED)}
        self.process = None

    def address(self, kind="resp") -> tuple:
        """Where a listener is."""
        return "127.0.0.1", self.ports[kind]

    def start(self, peer=None):
        """Starts the process and does not wait."""
        part = ["--cluster-join", peer.name] if peer else ["--cluster-create"]
        listeners = ["--listen-kyoto", "off", "--listen-http", "off"]
        for kind, port in self.ports.items():
            listeners += [f"--listen-{kind.replace('_', '-')}", f"{self.host}:{port}{self.suffixes.get(kind, '')}"]
        command = [served.PROGRAM, "start", "--data-dir", self.directory, "--node", self.name, "--cookie-file", self.cookie]
        self.process = served.Process([*command, *part, *listeners, *self.flags], self.environment)

    def wait_until_ready(self):
        """Waits for the ready line. After the first start that takes a majority."""
        self.process.wait_for_line(served.READY, SERVING_TIMEOUT_S)

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.is_alive()

    def kill(self):
        """Ends the process at once."""
        os.kill(self.process.popen.pid, signal.SIGKILL)
        self.process.popen.wait()

    def ask(self, command, argument=None):
        """What `bin/todana cluster` asks: ("ok", answer) or ("error", sentence)."""
        request = {"command": command} | ({} if argument is None else {"argument": argument})
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(COMMAND_TIMEOUT_S)
            control.connect(str(self.directory / "control"))
            control.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(control.makefile("rb").readline())
        return ("ok", answer["ok"]) if "ok" in answer else ("error", answer["error"])


class Cluster:
    """Three nodes, of which each may be killed and started again. Their listeners may have suffixes, such as `?read=linear`."""

    def __init__(self, *flags, names="abc", host="127.0.0.1", suffixes=None):
        self.directory = Path(tempfile.mkdtemp(prefix="todana-nodes-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None))
        port = str(served.listening_port())
        command = [epmd_program(), "-port", port]
        self.epmd = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=served.die_with_parent)
        environment = {"ERL_EPMD_PORT": port, "ERL_CRASH_DUMP_BYTES": "0"}
        cookie = self.directory / "cookie"
        self.nodes = [Node(name, self.directory / name, cookie, environment, flags, host, suffixes or {}) for name in names]

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def start(self):
        """The first node creates the cluster and the others join it."""
        first, *others = self.nodes
        first.start()
        first.wait_until_ready()
        for node in others:
            node.start(first)
        for node in others:
            node.wait_until_ready()
        self.wait_for_voters()

    def addresses(self, kind) -> list[tuple]:
        """Where the listeners of one kind are."""
        return [node.address(kind) for node in self.nodes]

    def status(self) -> dict:
        """The members, with what each says of itself; empty if no node answers."""
        for node in self.nodes:
            if node.is_alive():
                try:
                    kind, answer = node.ask("status")
                except OSError:
                    continue
                if kind == "ok":
                    return answer
        return {}

    def leader(self) -> Node:
        """The node that leads."""
        found = []

        def is_led():
            name = self.status().get("leader")
            found[:] = [node for node in self.nodes if node.name == name and node.is_alive()]
            return bool(found)

        wire.wait_until(is_led)
        return found[0]

    def follower(self) -> Node:
        """A node that runs and does not lead."""
        leader = self.leader()
        return next(node for node in self.nodes if node is not leader and node.is_alive())

    def transfer(self, node):
        """Has this node lead."""
        assert node.ask("transfer", node.name)[0] == "ok"
        wire.wait_until(lambda: self.leader() is node)

    def restart(self, node):
        """Starts a node that has ended, and waits until it is a member like the others."""
        node.start(next(other for other in self.nodes if other is not node))
        node.wait_until_ready()
        self.wait_for_voters()

    def revive(self):
        """Starts the nodes that have ended."""
        for node in self.nodes:
            if not node.is_alive():
                self.restart(node)

    def wait_for_voters(self):
        """Waits until all nodes are members that vote, serve, and know where clients reach the others."""
        deadline = time.monotonic() + SERVING_TIMEOUT_S
        while (problem := self._problem()) is not None:
            logs = ["%s:\n%s" % (node.name, "\n".join(node.process.lines[-20:])) for node in self.nodes]
            assert time.monotonic() < deadline, "\n".join([str(problem), *logs])
            time.sleep(0.1)

    def _problem(self):
        members = {member["node"]: member for member in self.status().get("members", ())}
        for node in self.nodes:
            member = members.get(node.name, {})
            if member.get("role") not in ("leader", "voter") or member.get("state") != "serving":
                return f"{node.name} is {member}"
            known = self._ports_known_to(node)
            if not {other.ports["resp"] for other in self.nodes} <= known:
                return f"{node.name} knows the ports {known}"
        return None

    @staticmethod
    def _ports_known_to(node):
        try:
            with wire.Resp(node.address()) as connection:
                slots = connection.call("CLUSTER", "SLOTS")
        except (OSError, wire.Closed):
            return set()
        if not isinstance(slots, list):
            # A password is needed.
            return {port for port in range(1 << 16)}
        return {part[1] for group in slots for part in group[2:]}

    def close(self):
        """Ends all processes that this object has started, and removes their directories."""
        for node in self.nodes:
            if node.is_alive():
                node.kill()
        self.epmd.kill()
        self.epmd.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
