"""E5, the event loop: one request for each record, by ten clients as published and by thousands.

Todana with each of its event back ends is measured beside redis-server and memcached, by every protocol they speak. In a cell,
some or all of the connected clients are active: each takes the next record that no other has taken and waits for the reply.
The phases set, get and delete follow each other on the same records.

System calls are counted in separate runs by strace, which slows a server down too much for other measurements.
"""

from __future__ import annotations

import contextlib
import re
import resource
import shutil
import signal
import subprocess

import servers
from servers import served

OPERATIONS = ("set", "get", "delete")
BACKENDS = ("native", "poll", "select")
VALUE_BYTES = 8
# Descriptors that a server needs besides its connections (memcached and redis reserve 32 and more).
SPARE_DESCRIPTORS = 128
TRACE_TIMEOUT_S = 20

# The warm-up round has the number of requests divided by this.
WARM_UP_SHARE = 10
# With at least this many connections, the requests of a back end that examines every connection are divided by SCAN_SHARE.
SCAN_CONNECTIONS = 5_000
SCAN_SHARE = 10

# A cell: clients connected, clients active, requests per phase; rounds and protocols if they differ from the others. Thousands
# of connections take longer to open and close than to measure, so fewer rounds and requests keep the experiment short.
FULL = {
    "rounds": 5,
    "cells": [
        {"connections": 10, "active": 10, "requests": 100_000},
        {"connections": 1_000, "active": 1_000, "requests": 20_000, "rounds": 3},
        {"connections": 10_000, "active": 10_000, "requests": 20_000, "rounds": 3},
        {"connections": 1_000, "active": 10, "requests": 20_000, "rounds": 3},
        {"connections": 10_000, "active": 10, "requests": 20_000, "rounds": 3},
    ],
    "traced_requests": 5_000,
    "traced": ["set", "get", "delete"],
}
QUICK = {
    "rounds": 1,
    "cells": [
        {"connections": 10, "active": 10, "requests": 10_000},
        {"connections": 1_000, "active": 1_000, "requests": 10_000},
        {"connections": 10_000, "active": 10, "requests": 5_000, "protocols": ["resp"]},
    ],
    "traced_requests": 2_000,
    "traced": ["get"],
}


def steps(plan) -> int:
    """The number of reports of `run`."""
    return sum((_rounds(cell, plan) + 2) * len(arms(cell)) for cell in plan["cells"])


def _rounds(cell, plan):
    return cell.get("rounds", plan["rounds"])


def arms(cell) -> list[dict]:
    """Todana with each back end and protocol, and those of the others that are installed."""
    own = [
        {"server": "todana", "backend": backend, "protocol": protocol}
        for protocol in servers.protocols("todana")
        for backend in BACKENDS
    ]
    peers = [
        {"server": name, "backend": None, "protocol": protocol}
        for name in servers.peers()
        if name != "todana"
        for protocol in servers.protocols(name)
    ]
    return [arm for arm in own + peers if arm["protocol"] in cell.get("protocols", (arm["protocol"],))]


def name(arm) -> str:
    """An arm in words."""
    return " ".join(filter(None, (arm["server"], arm["backend"], "by", arm["protocol"])))


def run(plan, say) -> list[dict]:
    """All cells; within a cell the arms are interleaved, round by round."""
    servers.raise_descriptor_limit()
    return [result for cell in plan["cells"] for result in _cell(cell, plan, say)]


def _cell(cell, plan, say):
    with Running() as running:
        found = [Arm(arm, cell, running) for arm in arms(cell)]
        words = "{connections:,} connections, {active:,} active".format(**cell)
        rounds = _rounds(cell, plan)
        for round_number in range(rounds + 1):
            for arm in found:
                say(f"e5: {words}, round {round_number}/{rounds}, {name(arm.what)}")
                if round_number == 0:
                    arm.warm_up()
                else:
                    arm.measure()
        for arm in found:
            say(f"e5: {words}, system calls, {name(arm.what)}")
            arm.trace(plan["traced"], plan["traced_requests"])
        return [result for arm in found for result in arm.results()]


class Arm:
    """A server, by one protocol, in one cell. Its failure affects no other arm."""

    def __init__(self, what, cell, running):
        self.what = what
        self.cell = {part: cell[part] for part in ("connections", "active", "requests")}
        if what["backend"] == "poll" and cell["connections"] >= SCAN_CONNECTIONS:
            self.cell["requests"] = max(cell["requests"] // SCAN_SHARE, cell["active"])
        self.samples = {operation: [] for operation in OPERATIONS}
        self.system_calls = {}
        # The reason why there are no figures, under "not_possible" or "failed".
        self.missing = {}
        self.server = None
        try:
            self.server = running.server(what, cell["connections"])
        except NotPossible as error:
            self.missing = {"not_possible": str(error)}
        except (served.NotStarted, OSError) as error:
            self.missing = {"failed": str(error)}

    def warm_up(self):
        """The three phases, shorter and not counted."""
        self._round(max(self.cell["requests"] // WARM_UP_SHARE, self.cell["active"]))

    def measure(self):
        """One round: the three phases."""
        for operation, report in self._round(self.cell["requests"]).items():
            self.samples[operation].append(report)

    def _round(self, requests):
        if self.missing:
            return {}
        try:
            return {operation: self._phase(operation, requests) for operation in OPERATIONS}
        except (RuntimeError, OSError) as error:
            self.missing = {"failed": str(error)}
            return {}

    def trace(self, operations, requests):
        """The three phases again, counting the system calls of the given operations."""
        if self.missing:
            return
        # Enough requests, so that system calls between them, such as timers, do not matter.
        requests = max(min(requests, self.cell["requests"]), self.cell["active"])
        try:
            for operation in OPERATIONS:
                tracer = Tracer(self.server.pid) if operation in operations else contextlib.nullcontext()
                self._phase(operation, requests, meanwhile=tracer)
                if operation in operations:
                    self.system_calls[operation] = per_request(tracer.calls(), requests)
        except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
            for operation in operations:
                self.system_calls.setdefault(operation, {"failed": str(error)})

    def results(self):
        """One for each phase."""
        for operation in OPERATIONS:
            yield {
                **self.what, **self.cell, "operation": operation, "rounds": self.samples[operation],
                "system_calls": self.system_calls.get(operation, {}), **self.missing,
            }

    def _phase(self, operation, requests, meanwhile=None):
        report = servers.load(
            self.server, self.what["protocol"], operation, meanwhile=meanwhile, requests=requests, sequential=True,
            keys=requests, value_bytes=VALUE_BYTES, connections=self.cell["connections"], active=self.cell["active"],
            threads=len(servers.cores()[1]),
        )
        if report["misses"]:
            raise RuntimeError(f"records were lost: {report}")
        return report


class NotPossible(Exception):
    """The server reports that it cannot serve this many connections, or the host does not allow them."""


class Running(contextlib.ExitStack):
    """The servers of a cell: one for each program and back end, shared by the protocols. All of them end with it."""

    def __init__(self):
        super().__init__()
        self.found = {}

    def server(self, what, connections):
        """Starts the server, or returns what an arm of another protocol has started or failed to start."""
        key = (what["server"], what["backend"])
        if key not in self.found:
            try:
                self.found[key] = _start(what, connections)
                self.callback(self.found[key].stop)
            except (NotPossible, served.NotStarted, OSError) as error:
                self.found[key] = error
        if isinstance(self.found[key], Exception):
            raise self.found[key]
        return self.found[key]


def _start(what, connections):
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if connections + SPARE_DESCRIPTORS > limit:
        raise NotPossible(f"this host allows a process {limit:,} open files")
    try:
        return servers.start(what["server"], *_flags(what, connections))
    except served.NotStarted as error:
        report = str(error).splitlines()[-1]
        if "serves at most" in report:
            raise NotPossible(report.removeprefix("todana: ")) from error
        raise


def _flags(what, connections):
    most = str(connections + 32)
    return {
        "todana": ["--event-backend", what["backend"], "--connections-max", most],
        "memcached": ["-c", most],
    }.get(what["server"], ["--maxclients", most])


# ---------------------------------------------------------------- system calls ---


class Tracer:
    """Counts the system calls of a process and its threads inside a `with` block."""

    def __init__(self, pid):
        self.pid = pid
        self.table = ""

    def __enter__(self):
        if not shutil.which("strace"):
            raise RuntimeError("strace is not installed")
        self.process = subprocess.Popen(
            ["strace", "-c", "-f", "-p", str(self.pid)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, text=True, preexec_fn=served.die_with_parent,
        )
        line = self.process.stderr.readline()
        if "attached" not in line:
            self.process.wait(TRACE_TIMEOUT_S)
            raise RuntimeError(line.strip() or "strace printed nothing")

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.table = self.process.communicate(timeout=TRACE_TIMEOUT_S)[1]

    def calls(self) -> dict:
        """How often each system call was made."""
        return parse(self.table)


def parse(table) -> dict:
    """The table that `strace -c` prints: calls by name."""
    #  % time  seconds  usecs/call  calls  [errors]  syscall
    row = re.compile(r"^\s*[\d.]+\s+[\d.]+\s+\d+\s+(\d+)\s+(?:\d+\s+)?([a-z_]\w*)\s*$")
    found = {}
    for line in table.splitlines():
        match = row.match(line)
        if match and match[2] != "total":
            found[match[2]] = int(match[1])
    if not found:
        raise RuntimeError("strace printed no table: " + " ".join(table.split())[:200])
    return found


def per_request(calls, requests) -> dict:
    """All system calls and those to futex, for each request; and the raw counts."""
    return {
        "requests": requests,
        "total_per_request": round(sum(calls.values()) / requests, 4),
        "futex_per_request": round(calls.get("futex", 0) / requests, 4),
        "calls": calls,
    }
