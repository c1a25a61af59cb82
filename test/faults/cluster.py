"""Real nodes of a cluster, each with a loopback address, a data directory and a disk of its own, and guests, which have no records.

A node is the program as a user starts it. It can be killed, stopped and started again, its disk can fill up or become slow,
its clock can be set, and its links to the others can be cut (network.py; without root, proxies.py).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cut_points
import disk_faults
import network
import proxies
import served
import stores
import wire
from writers import ErlangConnection

EPMD_PORT = 4369
SERVING_TIMEOUT_S = 120
COMMAND_TIMEOUT_S = 60
# The leader of the first group. Versions with one group only have no number for it.
LEADER = "try todana_members:leader(0) catch error:undef -> todana_members:leader() end"
# The room that one node has on its disk, and what a full one without a limit still takes.
DISK_MB, LAST_BYTES = 400, 30_000
# Small, so that a node that was away for seconds needs a snapshot.
FLAGS = ("--snapshot-log-bytes", "1mb", "--write-timeout-ms", 2000, "--durability", "always")
GUEST_FLAGS = ("--write-timeout-ms", 2000)
WAL_BYTES_MAX = 1 << 20
ERLANG_WAIT_S = 3.0
ERLANG_ATTEMPTS = 20
# Nodes by which a cluster may grow, and guests.
MORE_MAX, GUESTS_MAX = 2, 2
# A server uses a time that it has read for no longer.
CLOCK_READ_NS = 1_000_000_000
# Where Debian has libfaketime.
CLOCKS = tuple(f"/usr/lib/{arch}-linux-gnu/faketime/libfaketimeMT.so.1" for arch in ("x86_64", "aarch64"))


class NotServing(AssertionError):
    """The cluster did not do in time what it must do."""


def clock_library():
    """libfaketime, if it is installed."""
    return next((path for path in CLOCKS if Path(path).exists()), None)


def host_of(number) -> str:
    """The address of a node."""
    return f"127.0.0.{10 + number}"


def epmd_program() -> Path:
    """The daemon that comes with Erlang."""
    ours = served.ROOT / ".toolchain" / "bin" / "epmd"
    return ours if ours.exists() else Path(shutil.which("epmd"))


class Node(stores.Todana):
    """A member, or a process that will be one."""

    is_guest = False
    # Which start it is, if the node forgets at each what its clients have seen.
    memory = 0

    def __init__(self, number, directory, cookie, has_clock, environment):
        super().__init__(directory / "data", FLAGS)
        self.number = number
        self.host = host_of(number)
        self.name = f"f{number}@{self.host}"
        self.cookie = cookie
        self.peer = None
        self.is_stopped = False
        # How often it was started, and when each of its processes ended: before and after. None for one that ended by itself.
        self.starts, self.ends = 0, {}
        # When it was frozen.
        self.frozen_ns = []
        # The checkout whose program it is.
        self.version = served.ROOT
        self.disk = disk_faults.Control(directory / "faults")
        self.environment |= {name: self.environment.get(name, "") + value for name, value in environment.items()}
        ip = self.host.replace(".", ",")
        self.environment["ERL_FLAGS"] += f" -kernel inet_dist_connect_options [{{ip,{{{ip}}}}}]"
        self.environment |= self.disk.environment(self.directory)
        # Not on the disk of the node, which another fault may fill.
        self.clock = directory.with_name(f"{directory.name}.clock")
        self.has_clock = has_clock
        self._wrong_clock_until_ns = 0
        if has_clock:
            self.clock.write_text("+0s\n")
            self.environment["LD_PRELOAD"] += f" {clock_library()}"
            self.environment |= {"FAKETIME_TIMESTAMP_FILE": str(self.clock), "FAKETIME_NO_CACHE": "1", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        self._callers = []
        self._callers_lock = threading.Lock()

    def address(self, protocol):
        return self.host, self.ports[protocol]

    def command(self):
        listeners = [word for name in self.protocols for word in (f"--listen-{name}", "%s:%d" % self.address(name))]
        # Earlier versions have no such listener.
        http = ["--listen-http", "off"] if (self.version / "src" / "admin").exists() else []
        program = self.version / "bin" / "todana"
        return [program, "start", *self.part(), "--node", self.name, "--cookie-file", self.cookie, *listeners, *http, *self.flags]

    def part(self):
        """The flags of its part in the cluster."""
        return ["--data-dir", self.directory, *(["--cluster-join", self.peer] if self.peer else ["--cluster-create"])]

    def start(self, environment=None):
        self.is_stopped = False
        self.starts += 1
        super().start(environment)

    def join(self, peer):
        """Starts with an empty directory: as a new member of the peer's cluster, or of one of its own."""
        self.peer = peer and peer.name
        # The clock of an emulator stays what it was when return_late set it.
        offset_s = round(peer.erlang_offset()) if peer and self.has_clock else 0
        if abs(offset_s) > 1:
            self.set_clock(offset_s)
        self.start()
        self.wait_until_serving()
        self.set_clock(0)

    def erlang_offset(self) -> float:
        """How far the clock of the emulator is from the real time, in seconds."""
        for _ in range(ERLANG_ATTEMPTS):
            with contextlib.suppress(OSError, wire.Closed), self.erlang(COMMAND_TIMEOUT_S) as door:
                return int(door.evaluate("erlang:system_time(second)")) - time.time()
        raise NotServing(f"{self.name} evaluates nothing")

    def erlang(self, timeout_s):
        """A process of the node, which evaluates expressions."""
        with self._callers_lock:
            self.listener.settimeout(ERLANG_WAIT_S)
            accepted, _ = self.listener.accept()
        accepted.settimeout(timeout_s)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return ErlangConnection(accepted)

    def forget_callers(self):
        with self._callers_lock:
            super().forget_callers()

    def signal(self, number):
        """Sends a signal, if the process runs."""
        if self.is_alive():
            os.kill(self.process.popen.pid, number)

    def freeze(self):
        """The process gets no time any more, and does not know it."""
        self.is_stopped = True
        self.frozen_ns.append(time.monotonic_ns())
        self.signal(signal.SIGSTOP)

    def thaw(self):
        """The process goes on."""
        self.is_stopped = False
        self.signal(signal.SIGCONT)

    def kill(self):
        self.is_stopped = False
        with self._noting_the_end():
            super().kill()

    def stop(self):
        with self._noting_the_end():
            return super().stop()

    @contextlib.contextmanager
    def _noting_the_end(self):
        """Remembers when a process that runs now ended."""
        is_alive, before_ns = self.is_alive(), time.monotonic_ns()
        yield
        if is_alive:
            self.ends[self.starts] = (before_ns, time.monotonic_ns())

    def set_clock(self, offset_s):
        """Sets the clock relative to the real time."""
        if offset_s != 0:
            self._wrong_clock_until_ns = float("inf")
        replaced = self.clock.with_suffix(".new")
        replaced.write_text(f"{offset_s:+d}s\n")
        os.replace(replaced, self.clock)
        if offset_s == 0 and self._wrong_clock_until_ns == float("inf"):
            self._wrong_clock_until_ns = time.monotonic_ns() + CLOCK_READ_NS

    def had_wrong_clock(self, since_ns) -> bool:
        """Whether the clock may have been wrong at any moment since then."""
        return since_ns < self._wrong_clock_until_ns

    def clock_offset(self) -> float:
        """How far the clock of the process is from the real time, in seconds."""
        with wire.Resp(self.address("resp"), COMMAND_TIMEOUT_S) as connection:
            return int(connection.call("TIME")[0]) - time.time()

    @property
    def filler(self) -> Path:
        """The file that fills the disk."""
        return self.directory.parent / "filler"

    def fill_disk(self):
        """Takes all room, or makes writes fail as if it were taken."""
        if not self.directory.parent.is_mount():
            self.disk.fail(disk_faults.WRITE | disk_faults.CREATE, errno.ENOSPC, bytes_left=LAST_BYTES)
            return
        with contextlib.suppress(OSError), self.filler.open("ab") as file:
            while True:
                file.write(bytes(1 << 20))
                file.flush()
        room = os.statvfs(self.filler)
        assert room.f_bavail * room.f_frsize < 4 << 20, f"{room.f_bavail} blocks are free on a full disk"

    def free_disk(self):
        """Gives the room back."""
        self.filler.unlink(missing_ok=True)
        self.disk.mend()

    def ask(self, command, argument=None, timeout_s=COMMAND_TIMEOUT_S):
        """What `bin/todana cluster` asks: ("ok", answer) or ("error", sentence)."""
        request = {"command": command} | ({} if argument is None else {"argument": argument})
        # Longer paths than those of sockets are reached from their directory.
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(timeout_s)
            control.connect(str(self.directory / "control"))
            control.sendall(json.dumps(request).encode() + b"\n")
            line = control.makefile("rb").readline()
        if not line.endswith(b"\n"):
            return "error", "the node closed the socket"
        answer = json.loads(line)
        return ("ok", answer["ok"]) if "ok" in answer else ("error", answer["error"])

    def clean_up(self):
        if self.is_stopped:
            self.thaw()
        super().clean_up()
        self.disk.close()


class Guest(Node):
    """A node without records. Its directory has its control socket only."""

    is_guest = True

    def __init__(self, number, directory, cookie, has_clock, environment, members):
        super().__init__(number, directory, cookie, has_clock, environment)
        self.flags = [str(flag) for flag in GUEST_FLAGS]
        # The list of the cluster, which changes.
        self.members = members

    @property
    def memory(self):
        """It remembers only while it runs how far the log was that its clients have seen."""
        return self.starts

    def part(self):
        living = [member for member in self.members if member.is_alive() and not member.is_stopped] or self.members
        peer = living[self.starts % len(living)]
        return ["--no-replica", "--cluster-join", peer.name, "--control-socket", self.directory / "control"]

    def had_wrong_clock(self, since_ns) -> bool:
        """A member hides what has expired, and which one it was nobody knows."""
        return any(member.had_wrong_clock(since_ns) for member in self.members)

    def seat(self):
        """The member that executes what this guest is asked for; None if there is none, or if the guest does not answer."""
        with contextlib.suppress(OSError, wire.Closed), self.erlang(ERLANG_WAIT_S) as door:
            name = door.evaluate("todana_guest:seat()").strip("'")
            return next((member for member in self.members if member.name == name), None)
        return None


class Cluster:
    """Some members, their guests, and the network between them."""

    def __init__(self, directory, size=3, seed=0, has_clock=False, environment=None, guests=0):
        self.directory = Path(directory)
        self.size, self.has_clock = size, has_clock
        self.environment = dict(environment or {})
        self.cookie = self.directory / "cookie"
        self.mounted, self.epmd = [], None
        # How far return_late has set clocks, in hours.
        self.hours_ahead = 0
        # What faults found out, for their lines of the results.
        self.remarks = []
        # The node of a process that has a name, if there are any (names.py).
        self.owner_node = lambda: None
        if network.ENTERED.is_set():
            self.network = network.Network(seed)
            command = [epmd_program(), "-port", str(EPMD_PORT)]
            self.epmd = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=served.die_with_parent)
        else:
            hosts = [host_of(number) for number in range(1, size + 1 + MORE_MAX + guests)]
            self.network = proxies.Proxies(hosts, stores.listening_port, seed)
        self.nodes = [self.node(number) for number in range(1, size + 1)]
        self.guests = [self.guest(size + MORE_MAX + number) for number in range(1, guests + 1)]

    def node(self, number) -> Node:
        """A node with an empty directory, on a file system of limited size."""
        place = self._place(number)
        if self.epmd:
            network.mount_memory(place, DISK_MB)
            self.mounted.append(place)
        return Node(number, place, self.cookie, self.has_clock, self._environment(number))

    def guest(self, number) -> Guest:
        """A guest of the members."""
        return Guest(number, self._place(number), self.cookie, self.has_clock, self._environment(number), self.nodes)

    def _place(self, number) -> Path:
        return Path(tempfile.mkdtemp(prefix=f"f{number}-", dir=self.directory))

    def _environment(self, number) -> dict:
        mapper = {} if self.epmd else {"ERL_EPMD_PORT": str(self.network.mapper_ports[host_of(number)])}
        return self.environment | mapper

    @property
    def servers(self) -> list[Node]:
        """All nodes that have clients: members and guests."""
        return [*self.nodes, *self.guests]

    def start(self):
        """The first node creates the cluster and the others join it, one after the other. Then the guests come."""
        for node in self.nodes:
            node.join(None if node is self.nodes[0] else self.nodes[0])
        self.wait_for_members()
        for guest in self.guests:
            guest.start()
        self.wait_for_voters()

    def grow(self, peer) -> Node:
        """One more node, which joins."""
        new = self.node(len(self.nodes) + 1)
        self.nodes.append(new)
        new.join(peer)
        self.wait_for_voters()
        return new

    def shrink(self, node):
        """A node that has left is nobody's any more."""
        self.nodes.remove(node)
        node.clean_up()

    def others(self, node) -> list[Node]:
        """All other members."""
        return [other for other in self.nodes if other is not node]

    def living(self) -> list[Node]:
        """Nodes whose process runs."""
        return [node for node in self.nodes if node.is_alive() and not node.is_stopped]

    def leader(self):
        """The node that leads in the eyes of most others; None if nobody answers."""
        with ThreadPoolExecutor() as pool:
            votes = [vote for vote in pool.map(self._vote, self.living()) if vote]
        name = max(set(votes), key=votes.count) if votes else None
        return next((node for node in self.nodes if node.name == name), None)

    @staticmethod
    def _vote(node):
        with contextlib.suppress(OSError, wire.Closed, TimeoutError), node.erlang(1.0) as door:
            return door.evaluate(LEADER).strip("'")
        return None

    def isolate(self, node, out=True, into=True, guests=True):
        """Cuts a node off: what it sends, what is sent to it, or both. Its guests may reach it."""
        for other in self.others(node):
            self.cut(node, other, out, into)
        for other in self.guests if guests else ():
            if other is not node:
                self.cut(node, other, out, into)

    def cut(self, node, other, out=True, into=True):
        """Cuts one link, in one or both directions."""
        if out:
            self.network.set(node.host, other.host, network.CUT)
        if into:
            self.network.set(other.host, node.host, network.CUT)

    def links(self) -> list[tuple]:
        """The addresses of every link."""
        return [(one.host, other.host) for one in self.servers for other in self.servers if other is not one]

    def all_links(self, link):
        """Gives every link the same fault."""
        for one, other in self.links():
            self.network.set(one, other, link)

    def wait_for_voters(self, timeout_s=SERVING_TIMEOUT_S):
        """Waits until all nodes are members that vote, as far as they may, and serve, and until the guests serve."""
        self._wait(lambda: self._problem() or self._problem_of_guests(), self.servers, timeout_s)

    def wait_for_members(self, timeout_s=SERVING_TIMEOUT_S):
        """The same, whatever the guests do."""
        self._wait(self._problem, self.nodes, timeout_s)

    @staticmethod
    def _wait(problem_of, nodes, timeout_s):
        deadline = time.monotonic() + timeout_s
        while (problem := problem_of()) is not None:
            for node in nodes:
                if not node.is_alive():
                    raise NotServing(f"{node.name} has ended by itself with {node.process.popen.poll()}:\n{node.log()}")
            if time.monotonic() > deadline:
                raise NotServing(f"after {timeout_s} s: {problem}\n" + "\n".join(f"{node.name}:\n{node.log()}" for node in nodes))
            time.sleep(0.1)

    def wait_until_listed(self, timeout_s=SERVING_TIMEOUT_S):
        """Waits until a member lists each guest once: a seat that was lost may not know it for some seconds."""
        self._wait(self._problem_of_list, self.servers, timeout_s)

    def _problem_of_list(self):
        kind, answer = self.nodes[0].ask("status")
        if kind != "ok":
            return answer
        found = sorted(guest["node"] for guest in answer.get("guests", ()))
        return None if found == sorted(guest.name for guest in self.guests) else f"the guests are {found}"

    def _problem_of_guests(self):
        for guest in self.guests:
            if not isinstance(found := guest.look(), int):
                return f"{guest.name}, a guest, answers {found}"
        return None

    def _problem(self):
        try:
            kind, answer = self.nodes[0].ask("status")
        except OSError as error:
            return f"status: {error}"
        if kind != "ok":
            return answer
        members = {member["node"]: member for member in answer["members"]}
        if set(members) != {node.name for node in self.nodes}:
            return f"the members are {sorted(members)}"
        for node in self.nodes:
            member = members[node.name]
            # The number of voters is odd.
            roles = ("leader", "voter") if len(self.nodes) % 2 else ("leader", "voter", "replica")
            if member["role"] not in roles or member.get("state") != "serving":
                return f"{node.name}: {member}"
            if not isinstance(found := node.look(), int):
                return f"{node.name} answers {found}"
        return None

    def verify(self, timeout_s=SERVING_TIMEOUT_S):
        """Waits until all members say that they have the same records at the same entry; returns (entry, digest)."""
        deadline = time.monotonic() + timeout_s
        while True:
            kind, answer = self.nodes[0].ask("verify")
            if kind == "ok":
                assert answer["members"] == len(self.nodes), answer
                return answer["index"], answer["digest"]
            assert "differ" not in answer, answer
            if time.monotonic() > deadline:
                raise NotServing(f"verify: {answer}")
            time.sleep(0.2)

    def keep(self, target: Path):
        """Copies the directories and the output of each process, of nodes that have ended."""
        for node in self.servers:
            place = target / f"f{node.number}"
            place.mkdir(parents=True, exist_ok=True)
            output = "\n---- start ----\n".join("\n".join(lines) for lines in node.output)
            (place / "output.txt").write_text(output + "\n")
            if node.directory.exists():
                stores.copy_directory(node.directory, place / "data")

    def stop(self):
        """Ends all processes."""
        for node in self.servers:
            node.clean_up()

    def close(self):
        """Ends everything and gives the memory back."""
        self.stop()
        if self.epmd:
            self.epmd.kill()
            self.epmd.wait()
        self.network.close()
        for place in self.mounted:
            network.unmount(place)
