"""What a node costs that nobody uses: CPU time, and how often one of its threads wakes up.

A member of a cluster has its share of three that run on this host. With the build of another checkout, the two are interleaved.
"""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from pathlib import Path

import servers
import three_nodes
from servers import served

# What a node does after its start is no cost of an idle one.
SETTLE_S = 10
MEMBERS = "abc"

FULL = {"rounds": 5, "seconds": 20}
QUICK = {"rounds": 1, "seconds": 2}


def run(plan, say, *, before=None) -> list[dict]:
    """All arms, round by round."""
    builds = {"present": served.PROGRAM} | ({"before": Path(before) / "bin" / "todana"} if before else {})
    arms = [(name, build) for name in ("memory", "durable", "member") for build in builds] + [("redis", None)]
    found = {arm: [] for arm in arms}
    for number in range(plan["rounds"]):
        for name, build in arms:
            say(f"idle: round {number + 1}: {name}" + (f", {build}" if build else ""))
            found[name, build].append(measure(name, builds.get(build), plan["seconds"]))
    return [{"server": name, "build": build, "rounds": rounds} for (name, build), rounds in found.items()]


def measure(name, program, seconds) -> dict:
    """CPU time in percent of a core, and wake-ups a second, of one process."""
    with contextlib.ExitStack() as stack:
        nodes = {"memory": memory, "durable": durable, "member": members, "redis": redis}[name](program, stack)
        time.sleep(SETTLE_S)
        before = [usage(server.pid) for server in nodes]
        time.sleep(seconds)
        after = [usage(server.pid) for server in nodes]
        spent = [[end - begin for begin, end in zip(*pair)] for pair in zip(before, after)]
    count = len(nodes) * seconds
    return {
        "cpu_percent": round(100 * sum(cpu for cpu, _ in spent) / count, 3),
        "wakeups_per_s": round(sum(wakeups for _, wakeups in spent) / count, 1),
    }


def usage(pid) -> tuple[float, int]:
    """CPU time in seconds, and how often a thread of the process has waited for something."""
    waits = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        waits += sum(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("voluntary"))
    return servers.cpu_s(pid), waits


def started(stack, server):
    """The server, which is stopped at the end."""
    stack.callback(server.stop)
    return server


def memory(program, stack) -> list:
    """A node without a data directory."""
    return [started(stack, served.start_todana(program=program))]


def durable(program, stack) -> list:
    """A node with a data directory."""
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="todana-idle-"))
    return [started(stack, served.start_todana("--data-dir", Path(directory) / "data", program=program))]


def redis(_program, stack) -> list:
    """Redis with an append-only file."""
    return [started(stack, served.start_redis("--appendonly", "yes"))]


def members(program, stack) -> list:
    """Three nodes that are one cluster."""
    directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="todana-idle-")))
    port = str(served.listening_port())
    epmd = subprocess.Popen(
        [three_nodes.epmd_program(), "-port", port], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        preexec_fn=served.die_with_parent,
    )  # fmt: skip
    stack.callback(epmd.wait)
    stack.callback(epmd.kill)
    found = []
    for name in MEMBERS:
        part = ["--cluster-join", f"{MEMBERS[0]}@127.0.0.1"] if found else ["--cluster-create"]
        found.append(started(stack, served.start_todana(
            "--data-dir", directory / name, "--node", f"{name}@127.0.0.1", "--cookie-file", directory / "cookie", *part,
            program=program, environment={"ERL_EPMD_PORT": port, "ERL_CRASH_DUMP_BYTES": "0"},
        )))  # fmt: skip
    return found
