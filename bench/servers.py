"""The servers that are compared, and the generator that loads all of them in the same way."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import resource
import shutil
import subprocess
import sys
import time

from machine import ROOT

sys.path.insert(0, str(ROOT / "test" / "clients"))
import served  # noqa: E402

LOAD = ROOT / "bench" / "load"
GENERATOR = LOAD / "target" / "release" / "todana_load"
MEMCACHED_MEGABYTES = 8192
SETTLE_TIMEOUT_S = 30
# Samples of an idle server: enough time for the connection that checked its start to be closed.
IDLE_LOOKS, IDLE_LOOK_S = 10, 0.02
# Sockets that a server may open for its first clients and keep open.
KEPT_SOCKETS = 2
# Todana's own arms: the kind of database 0.
KINDS = {"todana": ":", "todana-ordered": "+"}


def cores() -> tuple[list[int], list[int]]:
    """Cores for servers and cores for the generator: half for each, or the same one if there is only one."""
    available = sorted(os.sched_getaffinity(0))
    half = max(1, len(available) // 2)
    return available[:half], available[half:] or available


class Pinned:
    """Lets child processes started inside inherit a set of cores."""

    def __init__(self, chosen):
        self.chosen = chosen

    def __enter__(self):
        self.before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, self.chosen)

    def __exit__(self, *_):
        os.sched_setaffinity(0, self.before)


def raise_descriptor_limit():
    """Raises the limit of open descriptors, of this process and those that it starts, to the hard limit."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def build_generator():
    """Builds bench/load if cargo finds it missing or stale."""
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked"], cwd=LOAD, check=True)


def peers() -> list[str]:
    """Todana and those of the others that are installed."""
    installed = {"redis": "redis-server", "valkey": "valkey-server", "memcached": "memcached"}
    return ["todana", *[name for name, program in installed.items() if shutil.which(program)]]


def protocols(name) -> list[str]:
    """The protocols that a server speaks, as the generator names them."""
    return {"todana": ["resp", "memcached", "kyoto"], "memcached": ["memcached"]}.get(name, ["resp"])


def start(name, *flags, program=served.PROGRAM, threads=None, is_pinned=True):
    """Starts a server on its cores, with as many threads as it has cores by default (redis and valkey have one by design). One that
    is not pinned uses all cores. `program` is Todana's."""
    server_cores, _ = cores()
    threads = str(threads or len(server_cores))
    with Pinned(server_cores) if is_pinned else contextlib.nullcontext():
        if name in KINDS:
            # A name such as `:` selects a database in memory; without one, a data directory makes them durable.
            databases = [] if "--data-dir" in flags else [KINDS[name]]
            return served.start_todana("--event-loops", threads, *flags, program=program, databases=databases)
        if name == "memcached":
            return served.start_memcached("-t", threads, "-m", str(MEMCACHED_MEGABYTES), "-c", "4096", *flags)
        return served.start_redis(*flags, program={"redis": "redis-server", "valkey": "valkey-server"}[name])


def address(server, protocol) -> str:
    """The address at which a server speaks a protocol."""
    host, port = getattr(server, protocol.partition("-")[0])
    return f"{host}:{port}"


def load(server, protocol, operation, *, connections, meanwhile=None, is_pinned=True, **options) -> dict:
    """Runs the generator once and returns its report, with the CPU time that the server used for it.

    The time covers requests and replies: it begins when the server has accepted all connections, and ends before they are
    closed. `meanwhile` is a context that is entered and left at these moments. When the function returns, the server has closed
    all connections. A generator that is not pinned uses the cores of the servers as well.
    """
    command = [str(GENERATOR), "--address", address(server, protocol), "--protocol", protocol, "--operation", operation]
    for name, value in {"connections": connections, **options}.items():
        command += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
    pid, (_, generator_cores) = server.pid, cores()
    idle = idle_sockets(server)
    with Pinned(generator_cores) if is_pinned else contextlib.nullcontext():
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=served.die_with_parent
        )
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the generator did not connect")
        if idle is not None:
            _await(lambda: served.sockets(pid) >= idle + connections, "the server did not accept all connections")
        with meanwhile or contextlib.nullcontext():
            before, generator_before = cpu_s(pid), cpu_s(process.pid)
            process.stdin.write("go\n")
            process.stdin.flush()
            line = process.stdout.readline()
            spent, generator_spent = cpu_s(pid) - before, cpu_s(process.pid) - generator_before
        report = parsed(line)
    except BaseException:
        process.kill()
        process.communicate()
        raise
    process.communicate()
    if idle is not None:
        _await(lambda: served.sockets(pid) <= idle + KEPT_SOCKETS, "the server did not close all connections")
    report["server_cpu_us_per_request"] = round(spent / max(1, report["requests"]) * 1e6, 4)
    report["generator_cpu_share"] = round(generator_spent / report["seconds"], 3)
    if report["errors"] or report["connection_lost"]:
        raise RuntimeError(f"{' '.join(command)}: {report}")
    return report


@functools.cache
def idle_sockets(server) -> int | None:
    """Open sockets of a server without connections; None if the system does not show those of another user's process."""
    found = []
    for _ in range(IDLE_LOOKS):
        time.sleep(IDLE_LOOK_S)
        try:
            found.append(served.sockets(server.pid))
        except PermissionError:
            return None
    # Servers open a file from time to time and close it again.
    return min(found)


def parsed(line) -> dict:
    """Parses a line of JSON from a program. A program that was ended leaves part of a line, or nothing."""
    try:
        return json.loads(line)
    except ValueError:
        raise RuntimeError(f"a program ended within a line: {line[:80]!r}") from None


def _await(condition, otherwise):
    """Waits until the server has finished, so that its work does not count in the next measurement."""
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{otherwise} within {SETTLE_TIMEOUT_S} s")
        time.sleep(0.02)


def cpu_s(pid) -> float:
    """CPU time of a process, ended threads included: in nanoseconds if the system has a clock for it, else in steps of 10 ms."""
    try:
        # The number that clock_getcpuclockid(3) returns on Linux.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return served.cpu_seconds(pid)
