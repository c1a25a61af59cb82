"""Starts and stops the server under test, and reads the resources of its process.

The same interface starts Todana (`bin/todana start`), another program that accepts the same flags and prints the same
ready line, or Debian's redis-server and memcached, which are the oracle of the suites.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "bin" / "todana"
READY_TIMEOUT_S = 180
STOP_TIMEOUT_S = 120
READY = re.compile(r"^todana ready\b(.*)$")
PORTS = (15_000, 32_000)
_PORT_NUMBERS = itertools.count(os.getpid() * 499)
LISTENER = re.compile(r"\b(resp|memcached|kyoto|http)=(\S+):(\d+)")


class NotStarted(Exception):
    """The server ended, or printed nothing, before it was ready."""


def die_with_parent():
    """Makes the kernel end a child process if the test runner is killed."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)


def resident_bytes(pid: int) -> int:
    """The resident memory of a process."""
    return _status_kilobytes(pid, "VmRSS") * 1024


def _status_kilobytes(pid, field):
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise KeyError(field)


def descriptors(pid: int) -> int:
    """The number of open file descriptors of a process."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def sockets(pid: int) -> int:
    """The number of open sockets of a process. Files that a store opens and closes do not count."""
    found = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            found += os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:")
        except FileNotFoundError:
            continue
    return found


def cpu_seconds(pid: int) -> float:
    """The CPU time of all threads of a process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    """The direct child processes."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += [int(child) for child in task.read_text().split()]
    return found


def free_port() -> int:
    """A port on which no process listens at the moment."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def listening_port() -> int:
    """A port for a store that is started again and again. The system gives ports of a higher range to connections, and they
    may be in use when the store comes back. Each process takes its own ports in turn, so that stores that start at the same
    time have different ones."""
    while True:
        port = PORTS[0] + next(_PORT_NUMBERS) % (PORTS[1] - PORTS[0])
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("127.0.0.1", port))
            return port


class Process:
    """A child process whose output is collected while it runs."""

    def __init__(self, command, environment=None, directory=None):
        self.command = [str(word) for word in command]
        self.popen = subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            cwd=directory,
            text=True,
            errors="replace",
            preexec_fn=die_with_parent,
        )
        self.lines = []
        self._changed = threading.Condition()
        self._ended = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.popen.stdout:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def wait_for_line(self, pattern, timeout_s):
        """The first line that matches; raises NotStarted if the process ends or prints nothing for too long."""
        deadline = time.monotonic() + timeout_s
        seen = 0
        with self._changed:
            while True:
                for line in self.lines[seen:]:
                    match = pattern.search(line)
                    if match:
                        return match
                seen = len(self.lines)
                left = deadline - time.monotonic()
                if self._ended or left <= 0:
                    raise NotStarted(f"{self.command}: no line {pattern.pattern!r} in:\n" + "\n".join(self.lines))
                self._changed.wait(left)

    def is_alive(self) -> bool:
        """Whether the process still runs."""
        return self.popen.poll() is None

    def stop(self, number=signal.SIGTERM) -> int:
        """Sends a signal and waits for the exit status; kills the process if it does not react."""
        if self.is_alive():
            self.popen.send_signal(number)
        try:
            status = self.popen.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            for pid in [*children(self.popen.pid), self.popen.pid]:
                os.kill(pid, signal.SIGKILL)
            self.popen.wait()
            raise
        self._reader.join(STOP_TIMEOUT_S)
        return status


class Server:
    """A running server with its addresses."""

    def __init__(self, processes, resp, memcached, kind, kyoto=None, http=None):
        self.processes = processes
        self.resp = resp
        self.memcached = memcached
        self.kyoto = kyoto
        self.http = http
        self.kind = kind
        # The server that has the records, if this one has none.
        self.member = None

    @property
    def pid(self) -> int:
        """The process of the server: a launcher's child if there is one. For the oracle, redis-server."""
        pid = self.processes[0].popen.pid
        for child in children(pid):
            if Path(f"/proc/{child}/comm").read_text().startswith("beam"):
                return child
        return pid

    @property
    def pids(self) -> list[int]:
        """All processes of the server: one for Todana, two for the oracle."""
        return [self.pid] + [process.popen.pid for process in self.processes[1:]]

    def resident_bytes(self) -> int:
        """The resident memory of all processes."""
        return sum(resident_bytes(pid) for pid in self.pids)

    def descriptors(self) -> int:
        """The number of open descriptors of all processes."""
        return sum(descriptors(pid) for pid in self.pids)

    def is_alive(self) -> bool:
        """Whether all processes run."""
        return all(process.is_alive() for process in self.processes)

    def output(self) -> str:
        """The output of the processes."""
        return "\n".join(line for process in self.processes for line in process.lines)

    def stop(self, number=signal.SIGTERM) -> list[int]:
        """Stops all processes and returns their exit statuses."""
        statuses = [process.stop(number) for process in self.processes]
        if self.member:
            self.member.stop()
        return statuses


def start_todana(*flags, program=PROGRAM, environment=None, databases=()) -> Server:
    """Starts Todana on free ports with these flags and waits for its ready line. Databases are named as in Kyoto Tycoon."""
    chosen = [str(flag) for flag in flags]
    for listener in ("--listen-resp", "--listen-memcached", "--listen-kyoto"):
        if listener not in chosen:
            chosen += [listener, "127.0.0.1:0"]
    if "--listen-http" not in chosen:
        chosen += ["--listen-http", "off"]
    verb = ["start"] if Path(program).name == "todana" else []
    process = Process([program, *verb, *chosen, *databases], environment)
    try:
        ready = process.wait_for_line(READY, READY_TIMEOUT_S)
    except NotStarted:
        process.stop(signal.SIGKILL)
        raise
    addresses = {name: (host, int(port)) for name, host, port in LISTENER.findall(ready.group(1))}
    found = (addresses.get(name) for name in ("resp", "memcached"))
    return Server([process], *found, "todana", addresses.get("kyoto"), addresses.get("http"))


def start_redis(*flags, program="redis-server") -> Server:
    """Starts redis-server on a free port, without persistence."""
    port = free_port()
    directory = tempfile.mkdtemp(prefix="oracle-")
    command = [program, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    command += ["--enable-debug-command", "yes", *flags]
    process = Process(command, directory=directory)
    process.wait_for_line(re.compile("Ready to accept connections"), READY_TIMEOUT_S)
    shutil.rmtree(directory, ignore_errors=True)
    return Server([process], ("127.0.0.1", port), None, "redis")


def start_memcached(*flags, program="memcached") -> Server:
    """Starts memcached on a free port."""
    port = free_port()
    user = ["-u", "nobody"] if os.geteuid() == 0 else []
    process = Process([program, "-l", "127.0.0.1", "-p", port, "-U", "0", *user, *flags])
    deadline = time.monotonic() + READY_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if not process.is_alive() or time.monotonic() > deadline:
                raise NotStarted("\n".join(process.lines)) from None
            time.sleep(0.02)
    return Server([process], None, ("127.0.0.1", port), "memcached")


def start_oracle(redis_flags=(), memcached_flags=()) -> Server:
    """Starts redis-server and memcached as if they were one server."""
    redis = start_redis(*redis_flags)
    memcached = start_memcached(*memcached_flags)
    return Server(redis.processes + memcached.processes, redis.resp, memcached.memcached, "oracle")


def oracle_is_installed() -> bool:
    """Whether Debian's servers are installed."""
    return bool(shutil.which("redis-server") and shutil.which("memcached"))
