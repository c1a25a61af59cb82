"""The stores under test: a durable Todana, Redis with an append-only file, and a toy that can be made to lie.

A store has one data directory and fixed ports, so that clients can connect while it starts. Todana is the subject;
Redis shows that the harness accepts a correct server, and the toy (toy_log.py) that it finds a wrong one.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

import served
import wire
from served import listening_port
from writers import ANSWER_TIMEOUT_S, EVERY_PROTOCOL, REDIS_ONLY, ErlangConnection

HERE = Path(__file__).resolve().parent
BUILT = served.ROOT / "_build" / "durable"
SERVING_TIMEOUT_S = 120
# A start that ends with an error takes no longer than this.
REFUSAL_TIMEOUT_S = 60
# Small files, so that every round sees new log files and snapshots.
SMALL_FILES = ("--snapshot-log-bytes", "1mb")
WAL_BYTES_MAX = 1 << 20
# What libfaketime makes in a process that begins to use it, and leaves there if that is killed.
SHARED = Path("/dev/shm")
FAKETIME_FILES = ("faketime_shm_{}", "sem.faketime_sem_{}")
# When a write is on the disk: before its acknowledgement, or within about a second.
MODES = ("always", "everysec")


class NotServing(AssertionError):
    """The store did not serve in time, or ended."""


def has_data_directory() -> bool:
    """Whether this Todana can be durable."""
    return (served.ROOT / "native" / "protocol" / "src" / "commit").exists()


@contextlib.contextmanager
def building():
    """A directory in which to build something that is then renamed, since another run of the suites may use the old one."""
    BUILT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILT) as directory:
        yield Path(directory)


def erlang_door() -> Path:
    """The directory with the compiled erlang_door."""
    return erlang_module(HERE / "erlang_door.erl.in")


def erlang_module(source) -> Path:
    """The directory with a compiled module, which nodes search. The source has another ending, because rebar3 takes every .erl
    below test for a suite."""
    name = source.name.removesuffix(".in")
    beam = BUILT / f"{source.name.removesuffix('.erl.in')}.beam"
    if not beam.exists() or beam.stat().st_mtime < source.stat().st_mtime:
        erlc = served.ROOT / ".toolchain" / "bin" / "erlc"
        program = str(erlc) if erlc.exists() else shutil.which("erlc")
        with building() as directory:
            shutil.copy(source, directory / name)
            subprocess.run([program, "-o", directory, directory / name], check=True)
            os.replace(directory / beam.name, beam)
    return BUILT


def copy_directory(source, target):
    """Copies a data directory, without the sockets in it."""
    def sockets(directory, names):
        return [name for name in names if stat.S_ISSOCK(os.lstat(os.path.join(directory, name)).st_mode)]

    if os.path.isdir(source):
        shutil.copytree(source, target, ignore=sockets)
    else:
        shutil.copy(source, target)


class Store:
    """A store with a data directory, which may be started, killed and started again."""

    kind = ""
    writers = REDIS_ONLY
    protocols = ("resp",)
    # The protocols by which clients ask for a record while the store starts.
    probed = ("resp",)
    # The flag of the command line that says when a write is on the disk.
    mode_flag = ""
    mode = "always"

    def __init__(self, directory, flags=(), environment=None):
        self.directory = Path(directory)
        self.flags = [str(flag) for flag in flags]
        self.environment = dict(environment or {})
        self.process = None
        self.ports = {name: listening_port() for name in self.protocols}
        self.output = []

    def command(self) -> list:
        """The command line."""
        raise NotImplementedError

    def address(self, protocol) -> tuple:
        """Where the store listens."""
        return "127.0.0.1", self.ports[protocol]

    def start(self, environment=None):
        """Starts the process and does not wait."""
        if not self.directory.exists():
            self.directory.mkdir(parents=True)
        self.process = served.Process(self.command(), {**self.environment, **(environment or {})}, directory=self.directory.parent)
        self.output.append(self.process.lines)

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.is_alive()

    def wait_until_serving(self, timeout_s=SERVING_TIMEOUT_S):
        """Waits until the records can be read by RESP."""
        deadline = time.monotonic() + timeout_s
        while True:
            if not self.is_alive():
                raise NotServing(f"{self.kind} has ended with {self.process.popen.poll()}:\n{self.log()}")
            answer = self.look()
            if answer == 0 or isinstance(answer, int):
                return
            if time.monotonic() > deadline:
                raise NotServing(f"{self.kind} does not serve after {timeout_s} s, {answer!r}:\n{self.log()}")
            time.sleep(0.02)

    def look(self):
        """The answer of RESP to a read, or why there is none."""
        try:
            with wire.Resp(self.address("resp"), timeout_s=ANSWER_TIMEOUT_S) as connection:
                return connection.call("EXISTS", "canary")
        except (OSError, wire.Closed) as error:
            return error

    def sentence(self, timeout_s=REFUSAL_TIMEOUT_S) -> str:
        """Waits until a start that must fail has ended, and returns its output."""
        try:
            self.process.popen.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.kind} runs, though it must refuse to start:\n{self.log()}") from None
        self.process.stop()
        return "\n".join(self.process.lines)

    def kill(self):
        """Ends the process as a power cut does, as far as the process is concerned."""
        if self.is_alive():
            os.kill(self.process.popen.pid, signal.SIGKILL)
        self.process.popen.wait()
        self.forget_clock()

    def stop(self) -> int:
        """Stops the process in order."""
        status = self.process.stop()
        self.forget_clock()
        return status

    def forget_clock(self):
        """Removes what libfaketime has left, of a process that has ended."""
        for name in FAKETIME_FILES:
            (SHARED / name.format(self.process.popen.pid)).unlink(missing_ok=True)

    def log(self) -> str:
        """The last lines of the process."""
        return "\n".join(self.process.lines[-60:]) if self.process else ""

    def read(self, places) -> dict:
        """The records at these places that exist, read by RESP."""
        found = {}
        numbers = sorted({number for number, _ in places if isinstance(number, int)})
        with wire.Resp(self.address("resp"), timeout_s=ANSWER_TIMEOUT_S) as connection:
            for number in numbers:
                keys = [key for database, key in places if database == number]
                for words, kind in ((["SELECT", number], wire.Status), (["MGET", *keys], list)):
                    values = connection.call(*words)
                    assert isinstance(values, kind), f"{words[0]} was answered {values!r}"
                found |= {(number, key): value for key, value in zip(keys, values) if value is not None}
        return found

    def clean_up(self):
        """Ends the process and forgets what belongs to it."""
        if self.is_alive():
            self.kill()
        elif self.process:
            self.forget_clock()


class Todana(Store):
    """A durable Todana, started by its command line, with a door for Erlang callers."""

    kind = "todana"
    writers = EVERY_PROTOCOL
    protocols = probed = ("resp", "memcached", "kyoto")
    mode_flag = "--durability"

    def __init__(self, directory, flags=SMALL_FILES, environment=None):
        super().__init__(directory, flags, environment)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(SERVING_TIMEOUT_S)
        flags = f"-pa {erlang_door()} -ra todana_wal_max_size_bytes {WAL_BYTES_MAX} -s erlang_door"
        self.environment |= {"ERLANG_DOOR_PORT": str(self.listener.getsockname()[1]), "ERL_FLAGS": flags, "ERL_CRASH_DUMP_BYTES": "0"}
        self.accepted = []

    def command(self):
        listeners = [word for name in self.protocols for word in (f"--listen-{name}", "%s:%d" % self.address(name))]
        return [served.PROGRAM, "start", "--data-dir", self.directory, *listeners, "--listen-http", "off", *self.flags, self.mode_flag, self.mode]

    def erlang(self, timeout_s) -> ErlangConnection:
        """A process of the node, which evaluates expressions."""
        accepted, _ = self.listener.accept()
        accepted.settimeout(timeout_s)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = ErlangConnection(accepted)
        deadline = time.monotonic() + timeout_s
        # The names of tables are known a moment after the numbered databases serve.
        while (opened := connection.evaluate("todana:open(crash,#{durable=>true})")) == "{error,recovering}":
            if time.monotonic() > deadline:
                break
            time.sleep(0.02)
        if not opened.startswith("{ok,"):
            raise wire.Closed(f"the table was not opened: {opened}")
        return connection

    def forget_callers(self):
        """Closes connections of a node that has ended."""
        self.listener.setblocking(False)
        try:
            while True:
                self.listener.accept()[0].close()
        except BlockingIOError:
            self.listener.settimeout(SERVING_TIMEOUT_S)

    def kill(self):
        super().kill()
        self.forget_callers()

    def stop(self):
        status = super().stop()
        self.forget_callers()
        return status

    def read(self, places):
        found = super().read(places)
        tables = sorted({table for table, _ in places if not isinstance(table, int)})
        if not tables:
            return found
        with self.erlang(ANSWER_TIMEOUT_S) as connection:
            for table in tables:
                for key in [key for each, key in places if each == table]:
                    answer = connection.evaluate(f'case todana:get({table},<<"{key.decode()}">>) of {{ok,V}}->{{ok,binary:encode_hex(V)}};O->O end')
                    match = re.fullmatch(r'\{ok,<<(?:"([0-9A-F]*)")?>>\}', answer)
                    assert match or answer == "error", answer
                    if match:
                        found[table, key] = bytes.fromhex(match[1] or "")
        return found

    def clean_up(self):
        super().clean_up()
        self.listener.close()


class Redis(Store):
    """redis-server with an append-only file that is synced before each reply."""

    kind = "redis"
    mode_flag = "--appendfsync"

    def __init__(self, directory, flags=("--auto-aof-rewrite-min-size", "1mb"), environment=None):
        super().__init__(directory, flags, environment)

    def command(self):
        return [
            "redis-server", "--port", self.ports["resp"], "--bind", "127.0.0.1", "--dir", self.directory, "--save", "",
            "--appendonly", "yes", *self.flags, self.mode_flag, self.mode,
        ]  # fmt: skip


class Toy(Store):
    """A store of one file in Python, whose flags plant faults; see toy_log.py."""

    kind = "toy"

    def command(self):
        return [sys.executable, HERE / "toy_log.py", self.ports["resp"], self.directory, *self.flags]


STORES = {"todana": Todana, "redis": Redis, "toy": Toy}


def with_mode(store, mode) -> type:
    """The class of a store with this mode."""
    if mode != store.mode and not store.mode_flag:
        pytest.skip(f"{store.kind} has one mode")
    return type(store.__name__, (store,), {"mode": mode})


def with_writers(store, names) -> type:
    """The class of a store to which only some clients write, and which nobody else uses while it starts."""
    writers = tuple(kind for kind in store.writers if kind.__name__ in names)
    used = {writer.protocol for writer in writers}
    return type(store.__name__, (store,), {"writers": writers, "probed": tuple(name for name in store.protocols if name in used | {"resp"})})
