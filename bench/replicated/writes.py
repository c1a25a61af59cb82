"""Acknowledged writes per second, their latency, and what each costs: Todana, etcd and Mnesia on three nodes, interleaved."""

from __future__ import annotations

import contextlib

from replicated import etcd, floor, mnesia, todana
from replicated.host import busy_cores
from replicated.usage import Usage

KEYS = 100_000
LOG_RECORDS = 20_000
KEY_BYTES, VALUE_BYTES = 16, 100
# Arms that read a request while the one before it has no reply yet.
PIPELINED = ("todana_leader", "todana_follower")


def run(plan, say, place) -> list[dict]:
    """All configurations; the arms take turns in each round, after one round that is not counted."""
    results = []
    with contextlib.ExitStack() as stack:
        own = stack.enter_context(todana.running(place / "todana"))
        arms = {"todana_leader": _of_todana(own, own.leader()), "todana_follower": _of_todana(own, own.followers()[0])}
        peers = {"etcd": etcd, "mnesia": mnesia}
        for name, peer in peers.items():
            if reason := peer.missing():
                say(f"replicated: {name}: {reason}")
                results.append({"measure": "write", "arm": name, "not_possible": reason})
                continue
            arms |= stack.enter_context(peer.running(place / name)).write_arms()
        for clients in plan["clients"]:
            for pipeline in plan["pipelines"]:
                chosen = {name: arm for name, arm in arms.items() if pipeline == 1 or name in PIPELINED}
                say(f"replicated: SET, {clients} clients, pipeline {pipeline}, {', '.join(chosen)}")
                results += _cells(plan, place, chosen, clients, pipeline)
        results.append(log_bytes(own))
    return results


def _cells(plan, place, arms, clients, pipeline):
    busy = busy_cores()
    rounds, floors = {name: [] for name in arms}, []
    for number in range(plan["rounds"] + 1):
        beside = floor.floor(place, plan["floor_writes"]) if clients == pipeline == 1 else None
        reports = {name: arm(clients, pipeline, plan["seconds"], number + 1) for name, arm in arms.items()}
        # The first round warms up.
        if number > 0:
            for name, report in reports.items():
                rounds[name].append(report)
            floors += [beside] if beside else []
    found = [{"measure": "floor", "write_bytes": floor.WRITE_BYTES, "rounds": floors}] if floors else []
    cell = {
        "measure": "write", "clients": clients, "pipeline": pipeline, "key_bytes": KEY_BYTES, "value_bytes": VALUE_BYTES,
        "busy_cores_before": busy,
    }  # fmt: skip
    return found + [{**cell, "arm": name, "rounds": reports} for name, reports in rounds.items()]


def _of_todana(cluster, node):
    """SETs of clients that are connected to this node."""
    pids = [node.pid, *(other.pid for other in cluster.nodes if other is not node)]

    def measure(clients, pipeline, seconds, seed):
        usage = Usage(pids)
        report = todana.load(
            node, "set", meanwhile=usage, connections=clients, pipeline=pipeline, seconds=seconds, seed=seed, keys=KEYS,
            value_bytes=VALUE_BYTES,
        )  # fmt: skip
        return {**report, **usage.report(report["requests"])}

    return measure


def log_bytes(cluster) -> dict:
    """By how much the files of a node grow for a SET, and how much all processes send and write."""
    leader = cluster.leader()
    usage = Usage([leader.pid, *(node.pid for node in cluster.followers())])
    before = [_directory_bytes(node.directory) for node in cluster.nodes]
    todana.load(
        leader, "set", meanwhile=usage, requests=LOG_RECORDS, sequential=True, keys=LOG_RECORDS, value_bytes=VALUE_BYTES,
        connections=50, pipeline=16,
    )  # fmt: skip
    grown = [_directory_bytes(node.directory) - each for node, each in zip(cluster.nodes, before)]
    cell = {"measure": "log_bytes", "arm": "todana", "payload_bytes": KEY_BYTES + VALUE_BYTES}
    report = {"log_bytes_by_node": [round(each / LOG_RECORDS, 1) for each in grown], **usage.report(LOG_RECORDS)}
    return {**cell, "rounds": [report]}


def _directory_bytes(path):
    found = 0
    for each in path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            found += each.stat().st_size if each.is_file() else 0
    return found
