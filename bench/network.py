"""GET and SET over TCP: server CPU per request, throughput and latency at several depths and connection counts."""

from __future__ import annotations

import servers

KEYS = 100_000
VALUE_BYTES = 100

FULL = {"seconds": 0.7, "rounds": 5, "pipelines": [1, 16, 50], "connections": [10, 50, 500]}
QUICK = {"seconds": 0.3, "rounds": 1, "pipelines": [1, 16], "connections": [10]}


def arms(names):
    """Every server with every protocol that it speaks."""
    return [(name, protocol) for name in names for protocol in servers.protocols(name) if protocol != "kyoto"]


def run(plan, say) -> list[dict]:
    """All cells; within a cell the arms are interleaved, round by round."""
    names = servers.peers()
    running = {name: servers.start(name) for name in names}
    try:
        for name, protocol in arms(names):
            _fill(running[name], protocol)
        cells = [
            (operation, pipeline, connections)
            for operation in ("get", "set")
            for pipeline in plan["pipelines"]
            for connections in plan["connections"]
        ]
        results = []
        for number, cell in enumerate(cells, start=1):
            say("network %d/%d: %s, pipeline %d, %d connections" % (number, len(cells), *cell))
            results += _cell(running, arms(names), cell, plan)
        return results
    finally:
        for server in running.values():
            server.stop()


def _fill(server, protocol):
    servers.load(
        server, protocol, "set", requests=KEYS, sequential=True, keys=KEYS, value_bytes=VALUE_BYTES, pipeline=50, connections=4
    )


def _cell(running, chosen, cell, plan):
    operation, pipeline, connections = cell
    samples = {arm: [] for arm in chosen}
    for round_number in range(plan["rounds"] + 1):
        for name, protocol in chosen:
            report = servers.load(
                running[name], protocol, operation, seconds=plan["seconds"], pipeline=pipeline, connections=connections,
                keys=KEYS, value_bytes=VALUE_BYTES, seed=round_number + 1,
            )
            if operation == "get" and report["misses"]:
                raise RuntimeError(f"{name} has lost records: {report}")
            # The first round warms up.
            if round_number > 0:
                samples[name, protocol].append(report)
    return [
        {
            "server": name, "protocol": protocol, "operation": operation, "pipeline": pipeline,
            "connections": connections, "rounds": samples[name, protocol],
        }
        for name, protocol in chosen
    ]
