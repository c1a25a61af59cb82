#!/usr/bin/env python3
"""Locks, rate limiters, caches and messages of clients' libraries, unchanged, at three set-ups.

    tools/python test/clusters/recipes.py [--only NAME] [--results FILE]

The set-ups are a node in memory, one with a data directory, and three nodes, of which the clients know one that does not lead.
It needs Go, Node.js, a JDK and Maven, and the registries of their packages. Each program is started as

    program RESP MEMCACHED CLUSTER GUARDED

with lists of addresses, HOST:PORT,...: of the nodes, by both protocols, of the listeners for clients of Redis Cluster, and of
the memcached listener of a node whose password is in TODANA_PASSWORD. A list may be empty. The first node is the one that is
tried; other connections of a program use the last one. For each recipe the program prints a line of JSON: the names of the
client and of the recipe, and the outcome, `ok` or what was wrong. A recipe has an end of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import drive

import served
import three_nodes

PASSWORD = "sesame-0pen"
PROGRAM_TIMEOUT_S = 1200


def build() -> dict:
    """Builds all programs; returns their commands."""
    drive.BUILT.mkdir(parents=True, exist_ok=True)
    go = drive.BUILT / "go-recipes"
    subprocess.run(["go", "build", "-o", go, "."], cwd=drive.HERE / "go-recipes", check=True)
    node = drive.node_directory()
    scripts = {name: ["node", node / f"{name}-recipes.js"] for name in ("ioredis", "node-redis", "memjs")}
    return {"go": [go], **scripts, "java": drive.java_program("Recipes")}


def written(addresses) -> str:
    """A list of addresses as an argument."""
    return ",".join("%s:%d" % address for address in addresses)


@contextlib.contextmanager
def single(*flags):
    """A node alone."""
    server = served.start_todana(*flags)
    try:
        yield [[server.resp], [server.memcached], []]
    finally:
        server.stop()


@contextlib.contextmanager
def durable():
    """A node with a data directory."""
    with tempfile.TemporaryDirectory() as directory, single("--data-dir", directory) as addresses:
        yield addresses


@contextlib.contextmanager
def cluster():
    """Three nodes. The first one in each list does not lead, and the last one does."""
    with three_nodes.Cluster() as running:
        leader = running.leader()
        nodes = [node for node in running.nodes if node is not leader] + [leader]
        kinds = ("resp", three_nodes.MEMCACHED, "resp_cluster")
        yield [[node.address(kind) for node in nodes] for kind in kinds]


SETUPS = {"memory": single, "durable": durable, "three nodes": cluster}


@contextlib.contextmanager
def guarded():
    """A node that asks for a password."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "password"
        path.write_text(PASSWORD + "\n")
        path.chmod(0o600)
        with single("--password-file", path) as (_, memcached, _):
            yield memcached


def run(command, addresses) -> list[dict]:
    """What a program has printed, and a failure if it has not come to its end."""
    words = [str(word) for word in command] + [written(some) for some in addresses]
    try:
        ended = subprocess.run(
            words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False,
            timeout=PROGRAM_TIMEOUT_S, env={**os.environ, "TODANA_PASSWORD": PASSWORD}, preexec_fn=served.die_with_parent,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return [{"recipe": "all", "outcome": "the program did not end"}]
    rows = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
    if ended.returncode or not rows:
        rows.append({"recipe": "all", "outcome": f"status {ended.returncode}: {ended.stderr[-1000:]}"})
    return rows


def main():
    """Plays all recipes and writes a line of JSON for each."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", action="append", help="the name of a program")
    options.add_argument("--results", type=Path)
    chosen = options.parse_args()
    commands, rows = build(), []
    for name, start in SETUPS.items():
        with start() as addresses, guarded() as memcached:
            for program, command in commands.items():
                if program in (chosen.only or commands):
                    for row in run(command, [*addresses, memcached]):
                        rows.append({"setup": name, "program": program} | row)
                        print(json.dumps(rows[-1]), flush=True)
    if chosen.results:
        chosen.results.parent.mkdir(parents=True, exist_ok=True)
        chosen.results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    failed = [row for row in rows if row["outcome"] != "ok"]
    print(f"{len(rows)} recipes, {len(failed)} failed")
    sys.exit(bool(failed or not rows))


if __name__ == "__main__":
    main()
