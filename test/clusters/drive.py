#!/usr/bin/env python3
"""Clients of Redis Cluster in several languages at three nodes, while the leader is killed and changed.

    tools/python test/clusters/drive.py [--seed N] [--rounds N] [--only NAME] [--results FILE]

It needs Go, Node.js, a JDK and Maven, and the registries of their packages. Each program is started as
`program NAME HOST:PORT,... PREFIX`, with the addresses of all nodes. A client whose name has no `+` has the options that it
has by default; with `+refresh` it asks for the nodes again while one is down, and `lettuce+filter` also forgets nodes that
have failed. Two workers share it. Each sets PREFIX:WORKER:NUMBER to NUMBER, for 0, 1, 2 and so on, and tries again if that fails,
and in between increments PREFIX:WORKER:count once. For each line of its input and at the end of the input the program
prints what was acknowledged, what failed, and the longest time since the last such line in which a worker had no reply.

At random moments the leader is killed, started again, and another node takes over. After that all records are read: what
was acknowledged and is not there is lost. A counter that is higher than the acknowledged increments was incremented by
requests whose reply was an error, or that the client repeated.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "clients"))

import redis  # noqa: E402

import served  # noqa: E402
import three_nodes  # noqa: E402

BUILT = served.ROOT / "_build" / "clusters"
CLASSPATH = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:build-classpath"
# A program that does not reply within this time hangs.
REPLY_TIMEOUT_S = 60
# How long a program runs before each event, and after the last one.
BEFORE_S = (0.5, 1.5)
AFTER_KILL_S = 8
KEYS_MAX = 1000


def node_directory() -> Path:
    """A copy of the programs for Node.js with their packages."""
    node = BUILT / "node"
    shutil.rmtree(node, ignore_errors=True)
    shutil.copytree(HERE / "node", node, ignore=shutil.ignore_patterns("node_modules"))
    subprocess.run(["npm", "ci", "--no-audit", "--no-fund", "--loglevel", "error"], cwd=node, check=True)
    return node


def java_program(name) -> list:
    """Compiles a class; returns its command."""
    java, paths = BUILT / "java", BUILT / "classpath"
    subprocess.run(["mvn", "-q", "-B", f"-Dmaven.repo.local={BUILT}/m2", CLASSPATH, f"-Dmdep.outputFile={paths}"], cwd=HERE / "java", check=True)
    classpath = f"{java}:{paths.read_text().strip()}"
    subprocess.run(["javac", "-d", java, "-cp", classpath, HERE / "java" / "src" / "main" / "java" / f"{name}.java"], check=True)
    return ["java", "-cp", classpath, name]


def build():
    """Builds all programs; returns the command of each client."""
    BUILT.mkdir(parents=True, exist_ok=True)
    subprocess.run(["go", "build", "-o", BUILT / "go-redis", "."], cwd=HERE / "go", check=True)
    node, of_java = node_directory(), java_program("Writers")
    return {
        "redis-py": [sys.executable, HERE / "redis_py.py"],
        "go-redis": [BUILT / "go-redis"],
        "go-redis+refresh": [BUILT / "go-redis"],
        "ioredis": ["node", node / "ioredis.js"],
        "node-redis": ["node", node / "node-redis.js"],
        "node-redis+refresh": ["node", node / "node-redis.js"],
        "jedis": of_java,
        "lettuce": of_java,
        "lettuce+refresh": of_java,
        "lettuce+filter": of_java,
    }


def versions() -> dict:
    """The versions of the libraries."""
    module = (HERE / "go" / "go.mod").read_text()
    packages = json.loads((HERE / "node" / "package.json").read_text())["dependencies"]
    project = (HERE / "java" / "pom.xml").read_text()
    found = {name: re.search(rf"{name}</artifactId>\s*<version>([^<]+)", project)[1] for name in ("jedis", "lettuce-core")}
    return {
        "redis-py": importlib.metadata.version("redis"),
        "go-redis": re.search(r"go-redis/v9 v(\S+)", module)[1],
        "ioredis": packages["ioredis"],
        "node-redis": packages["redis"],
        "jedis": found["jedis"],
        "lettuce": found["lettuce-core"],
    }


class Program:
    """A running client."""

    def __init__(self, command, name, addresses, prefix):
        words = [*command, name, ",".join("%s:%d" % address for address in addresses), prefix]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.popen = subprocess.Popen([str(word) for word in words], **pipes, text=True, preexec_fn=served.die_with_parent)
        self.messages = []
        self.reader = threading.Thread(target=lambda: self.messages.extend(self.popen.stderr), daemon=True)
        self.reader.start()

    def report(self, is_last=False) -> dict:
        """What the program has done, and the longest gap since the last call."""
        timer = threading.Timer(REPLY_TIMEOUT_S, self.popen.kill)
        timer.start()
        try:
            if is_last:
                self.popen.stdin.close()
            else:
                self.popen.stdin.write("\n")
                self.popen.stdin.flush()
            line = self.popen.stdout.readline()
        finally:
            timer.cancel()
        assert line, "the program has ended:\n" + "".join(self.messages[-20:])
        return json.loads(line)

    def wait_until_it_writes(self):
        """Waits for the first acknowledgements of each worker."""
        deadline = time.monotonic() + REPLY_TIMEOUT_S
        while not all(self.report()["counted"]):
            assert time.monotonic() < deadline, "no worker writes:\n" + "".join(self.messages[-20:])
            time.sleep(0.1)

    def end(self):
        """Ends the process."""
        self.popen.kill()
        self.popen.wait()


def run(cluster, command, name, kind, dice) -> dict:
    """One client through all events."""
    prefix = f"{name}:{dice.randrange(1 << 32)}"
    program = Program(command, name, cluster.addresses(kind), prefix)
    try:
        program.wait_until_it_writes()
        time.sleep(dice.uniform(*BEFORE_S))
        longest = {"steady": program.report()["longest_ms"]}
        leader = cluster.leader()
        leader.kill()
        time.sleep(AFTER_KILL_S)
        longest["kill"] = program.report()["longest_ms"]
        cluster.restart(leader)
        time.sleep(dice.uniform(*BEFORE_S))
        longest["restart"] = program.report()["longest_ms"]
        cluster.transfer(dice.choice([node for node in cluster.nodes if node is not cluster.leader()]))
        time.sleep(dice.uniform(*BEFORE_S))
        longest["transfer"] = program.report()["longest_ms"]
        last = program.report(is_last=True)
    finally:
        program.end()
    lost, more = check(cluster, prefix, last)
    return {
        "acknowledged": sum(last["acknowledged"]), "counted": sum(last["counted"]), "lost": lost,
        "counted_without_reply": more, "longest_ms": longest, "errors": simplified(last["errors"]),
    }  # fmt: skip


def check(cluster, prefix, last) -> tuple:
    """How many acknowledged writes are lost, and how many increments more there are."""
    lost = more = 0
    with redis.Redis(*cluster.leader().address(), decode_responses=True) as plain:
        plain.execute_command("TODANA.READ", "linear")
        for at, (acknowledged, counted) in enumerate(zip(last["acknowledged"], last["counted"])):
            for first in range(0, acknowledged, KEYS_MAX):
                numbers = range(first, min(first + KEYS_MAX, acknowledged))
                values = plain.mget([f"{prefix}:{at}:{number}" for number in numbers])
                lost += sum(value != str(number) for number, value in zip(numbers, values))
            stored = int(plain.get(f"{prefix}:{at}:count"))
            lost += max(0, counted - stored)
            more += max(0, stored - counted)
    return lost, more


def simplified(errors) -> dict:
    """Counts of errors, without ports and numbers."""
    found = {}
    for text, count in errors.items():
        text = re.sub(r"\d{2,}", "N", re.sub(r"127\.0\.0\.1:\d+", "HOST", text))
        found[text] = found.get(text, 0) + count
    return found


def main():
    """Runs all clients with both kinds of listeners and writes a line of JSON for each."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    options.add_argument("--rounds", type=int, default=1)
    options.add_argument("--only", action="append", help="the name of a client")
    options.add_argument("--results", type=Path)
    chosen = options.parse_args()
    print(f"seed {chosen.seed}", flush=True)
    dice, commands, pinned, rows = random.Random(chosen.seed), build(), versions(), []
    for kind in three_nodes.LISTENERS:
        with three_nodes.Cluster() as cluster:
            for name, command in commands.items():
                for number in range(chosen.rounds if name in (chosen.only or commands) else 0):
                    about = {"client": name, "version": pinned[name.partition("+")[0]], "listeners": kind, "seed": chosen.seed, "round": number}
                    try:
                        row = about | run(cluster, command, name, kind, dice)
                    except AssertionError as failure:
                        row = about | {"failure": str(failure)}
                        cluster.revive()
                    rows.append(row)
                    print(json.dumps(row), flush=True)
    if chosen.results:
        chosen.results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    failed = [row for row in rows if row.get("lost", 1)]
    print(f"{len(rows)} runs, {len(failed)} failed")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
