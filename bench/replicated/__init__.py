"""Three nodes: what replication costs, beside etcd and Mnesia, and what a new node takes to join. `failover` is a part of its own.

All nodes, the peers' and the generator share this host's cores and its disk. Each cell names what it measures: `floor` (two
concurrent fdatasyncs), `write`, `read`, `log_bytes`, `join`.
"""

from __future__ import annotations

from replicated import join, reads, writes
from replicated.host import on_disk

FULL = {
    "rounds": 5, "seconds": 1.0, "floor_writes": 1_000, "clients": [1, 10, 50], "pipelines": [1, 16],
    "records": 1_000_000, "join_rounds": 2, "calm_s": 10,
}  # fmt: skip
QUICK = {
    "rounds": 1, "seconds": 0.3, "floor_writes": 50, "clients": [1, 10], "pipelines": [1, 16],
    "records": 20_000, "join_rounds": 1, "calm_s": 1,
}  # fmt: skip


def run(plan, say) -> list[dict]:
    """All cells."""
    with on_disk() as place:
        return [cell for measure in (writes.run, reads.run, join.run) for cell in measure(plan, say, place)]
