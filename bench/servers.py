"""The servers that are compared, and the generator that loads them all alike."""

from __future__ import annotations

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


def start(name):
    """Starts a server on its cores, with as many threads as it has cores (redis and valkey have one by design)."""
    server_cores, _ = cores()
    threads = str(len(server_cores))
    with Pinned(server_cores):
        if name == "todana":
            return served.start_todana("--event-loops", threads)
        if name == "memcached":
            return served.start_memcached("-t", threads, "-m", str(MEMCACHED_MEGABYTES), "-c", "4096")
        return served.start_redis(program={"redis": "redis-server", "valkey": "valkey-server"}[name])


def address(server, protocol) -> str:
    """Where a server speaks a protocol."""
    host, port = getattr(server, protocol)
    return f"{host}:{port}"


def load(server, protocol, operation, **options) -> dict:
    """Runs the generator once; its report, with the CPU time that the server spent meanwhile."""
    command = [str(GENERATOR), "--address", address(server, protocol), "--protocol", protocol, "--operation", operation]
    for name, value in options.items():
        command += ["--" + name.replace("_", "-")] + ([] if value is True else [str(value)])
    _, generator_cores = cores()
    with Pinned(generator_cores):
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=served.die_with_parent
        )
    assert process.stdout.readline() == "ready\n", "the generator did not connect"
    before = server_cpu_s(server)
    generator_before = served.cpu_seconds(process.pid)
    process.stdin.write("go\n")
    process.stdin.flush()
    report = json.loads(process.stdout.readline())
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
    """CPU time of all threads of a server."""
    return served.cpu_seconds(server.pid)
