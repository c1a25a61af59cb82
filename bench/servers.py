"""The servers that are compared, and the generator that loads them all alike."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from machine import ROOT

sys.path.insert(0, str(ROOT / "test" / "clients"))
import served  # noqa: E402

LOAD = ROOT / "bench" / "load"
GENERATOR = LOAD / "target" / "release" / "todana_load"
MEMCACHED_MEGABYTES = 8192
# Todana's own arms: the kind of database 0.
KINDS = {"todana": ":", "todana-ordered": "+"}


def cores() -> tuple[list[int], list[int]]:
    """Cores for servers and cores for the generator: half and half, or all for both where there is but one."""
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


def build_generator():
    """Builds bench/load if it is not there or stale; cargo decides."""
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked"], cwd=LOAD, check=True)


def peers() -> list[str]:
    """Todana and what is installed of the others."""
    installed = {"redis": "redis-server", "valkey": "valkey-server", "memcached": "memcached"}
    return ["todana", *[name for name, program in installed.items() if shutil.which(program)]]


def protocols(name) -> list[str]:
    """What a server speaks, as the generator calls it."""
    return {"todana": ["resp", "memcached", "kyoto"], "memcached": ["memcached"]}.get(name, ["resp"])


def start(name, *flags):
    """Starts a server on its cores, with as many threads as it has cores (redis and valkey have one by design)."""
    server_cores, _ = cores()
    threads = str(len(server_cores))
    with Pinned(server_cores):
        if name in KINDS:
            return served.start_todana("--event-loops", threads, *flags, databases=[KINDS[name]])
        if name == "memcached":
            return served.start_memcached("-t", threads, "-m", str(MEMCACHED_MEGABYTES), "-c", "4096", *flags)
        return served.start_redis(*flags, program={"redis": "redis-server", "valkey": "valkey-server"}[name])


def address(server, protocol) -> str:
    """Where a server speaks a protocol."""
    host, port = getattr(server, protocol.partition("-")[0])
    return f"{host}:{port}"


def load(server, protocol, operation, *, meanwhile=None, **options) -> dict:
    """Runs the generator once; its report, with the CPU time that the server spent meanwhile.

    `meanwhile` is a context that is entered when the generator has connected, and left when it has ended.
    """
    command = [str(GENERATOR), "--address", address(server, protocol), "--protocol", protocol, "--operation", operation]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
    _, generator_cores = cores()
    with Pinned(generator_cores):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=served.die_with_parent
        )
    try:
        if process.stdout.readline() != "ready\n":
            raise RuntimeError("the generator did not connect")
        with meanwhile or contextlib.nullcontext():
            before = server_cpu_s(server)
            generator_before = served.cpu_seconds(process.pid)
            process.stdin.write("go\n")
            process.stdin.flush()
            report = json.loads(process.stdout.readline())
    except BaseException:
        process.kill()
        process.communicate()
        raise
    report["server_cpu_us_per_request"] = round((server_cpu_s(server) - before) / max(1, report["requests"]) * 1e6, 4)
    spent = _cpu_or_zero(process.pid) - generator_before
    report["generator_cpu_share"] = round(spent / report["seconds"], 3) if spent > 0 else None
    process.communicate()
    if report["errors"] or report["connection_lost"]:
        raise RuntimeError(f"{' '.join(command)}: {report}")
    return report


def _cpu_or_zero(pid):
    try:
        return served.cpu_seconds(pid)
    except (FileNotFoundError, ProcessLookupError):
        return 0.0


def server_cpu_s(server) -> float:
    """CPU time of all threads of a server: in nanoseconds where the kernel counts so, else in steps of 10 ms."""
    try:
        threads = Path(f"/proc/{server.pid}/task").glob("*/schedstat")
        return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9 or served.cpu_seconds(server.pid)
    except OSError:
        return served.cpu_seconds(server.pid)
