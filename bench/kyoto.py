"""Kyoto Tycoon's protocols: ten clients, one request per record, and bulk requests of the binary protocol."""

from __future__ import annotations

import servers

CLIENTS = 10
VALUE_BYTES = 8
OPERATIONS = ("set", "get", "delete")

FULL = {"rounds": 5, "records": 10_000, "bulk_records": 50_000, "bulks": [1, 10, 100, 1000]}
QUICK = {"rounds": 1, "records": 500, "bulk_records": 5_000, "bulks": [10]}


def run(plan, say) -> list[dict]:
    """All cells; within a cell the arms are interleaved, round by round."""
    running = {name: servers.start(name) for name in servers.peers()}
    try:
        say("kyoto: one request for each record")
        single = [(name, protocol, 1) for name in running for protocol in servers.protocols(name)]
        results = _cells(running, single, plan["rounds"], CLIENTS * plan["records"])
        say("kyoto: bulk requests")
        bulks = [("todana", "kyoto-binary", bulk) for bulk in plan["bulks"]]
        return results + _cells(running, bulks, plan["rounds"], CLIENTS * plan["bulk_records"])
    finally:
        for server in running.values():
            server.stop()


def _cells(running, arms, rounds, records):
    samples = {(arm, operation): [] for operation in OPERATIONS for arm in arms}
    for round_number in range(rounds + 1):
        for arm in arms:
            # The three phases follow each other on the same records, as in the experiment.
            for operation in OPERATIONS:
                report = _phase(running, arm, operation, records)
                # The first round warms up.
                if round_number > 0:
                    samples[arm, operation].append(report)
    return [
        {
            "server": name, "protocol": protocol, "bulk": bulk, "operation": operation,
            "connections": CLIENTS, "records": records, "rounds": found,
        }
        for ((name, protocol, bulk), operation), found in samples.items()
    ]


def _phase(running, arm, operation, records):
    name, protocol, bulk = arm
    report = servers.load(
        running[name], protocol, operation, requests=records, sequential=True, keys=records,
        value_bytes=VALUE_BYTES, pipeline=bulk, connections=CLIENTS,
    )
    if report["misses"]:
        raise RuntimeError(f"{name} has lost records: {report}")
    return report
