"""How long writes stop when the leader's process is killed.

Clients write without a pause, each to one node, and go to the next node when a request fails: they do nothing else about it.
The killed node is started again, and the next kill comes when it has caught up.
"""

from __future__ import annotations

import bisect
import itertools
import threading
import time

import wire

from replicated import todana
from replicated.host import busy_cores, on_disk

# The time of a plan is for all kills: a run that takes longer has fewer.
FULL = {"rounds": 1, "kills": 100, "kills_s": 900, "clients": 6}
QUICK = {"rounds": 1, "kills": 2, "kills_s": 60, "clients": 3}
# A client that gets no answer for this long asks another node.
ANSWER_TIMEOUT_S = 10.0
RETRY_S = 0.005
# Gaps are looked for from the kill until all clients write again, and at least for this long.
SETTLED_S = 1.0
RESUME_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0


class Client:
    """Writes growing numbers to a key of its own, and remembers when each was acknowledged."""

    def __init__(self, number, addresses, ended):
        self.key = f"failover-{number}"
        self.acknowledged_at = [time.monotonic()]
        self.acknowledged = self.sent = 0
        self.errors = {}
        self._addresses = itertools.cycle(addresses[number % len(addresses) :] + addresses[: number % len(addresses)])
        self._ended = ended
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        while not self._ended.is_set():
            try:
                with wire.Resp(next(self._addresses), ANSWER_TIMEOUT_S) as connection:
                    self._write(connection)
            except (OSError, wire.Closed) as error:
                self._count(type(error).__name__)
            self._ended.wait(RETRY_S)

    def _write(self, connection):
        """Writes until a request fails."""
        while not self._ended.is_set():
            self.sent += 1
            answer = connection.call("SET", self.key, self.sent)
            if not isinstance(answer, wire.Status):
                self._count(answer.text.partition(" ")[0])
                return
            self.acknowledged = self.sent
            self.acknowledged_at.append(time.monotonic())

    def _count(self, name):
        self.errors[name] = self.errors.get(name, 0) + 1

    def join(self):
        """Waits until the client has ended."""
        self._thread.join(STOP_TIMEOUT_S)


def run(plan, say) -> list[dict]:
    """As many kills as fit into the time of the plan."""
    busy = busy_cores()
    with on_disk() as place, todana.running(place / "failover") as cluster:
        ended = threading.Event()
        clients = [Client(number, [node.address for node in cluster.nodes], ended) for number in range(plan["clients"])]
        rounds = []
        deadline = time.monotonic() + plan["kills_s"]
        try:
            while len(rounds) < plan["kills"] and time.monotonic() < deadline:
                rounds.append(_one(cluster, clients))
                say(f"replicated: failover {len(rounds)}: {rounds[-1]['gap_ms']:.0f} ms without an acknowledged write")
        finally:
            ended.set()
            for client in clients:
                client.join()
        lost = [client.key for client in clients if int(cluster.leader().call("GET", client.key)) < client.acknowledged]
    errors = {name: sum(client.errors.get(name, 0) for client in clients) for client in clients for name in client.errors}
    return [{
        "measure": "failover", "arm": "todana", "clients": len(clients), "kills_wanted": plan["kills"],
        "acknowledged": sum(len(client.acknowledged_at) - 1 for client in clients), "lost": len(lost), "errors": errors,
        "busy_cores_before": busy, "rounds": rounds,
    }]  # fmt: skip


def _one(cluster, clients) -> dict:
    """One kill of the leader."""
    leader = cluster.leader()
    killed_at = time.monotonic()
    leader.kill()
    time.sleep(SETTLED_S)
    _await_writes(clients, killed_at)
    resumed_at = time.monotonic()
    new = cluster.leader()
    leader.start()
    cluster.wait()
    caught_up_at = time.monotonic()
    longest = [_longest([client], killed_at, resumed_at) for client in clients]
    return {
        "gap_ms": _longest(clients, killed_at, resumed_at),
        "gap_of_a_client_ms": max(longest),
        "gap_while_the_node_returns_ms": _longest(clients, resumed_at, caught_up_at),
        "return_s": round(caught_up_at - resumed_at, 2),
        "is_other_leader": new is not leader,
    }


def _await_writes(clients, since):
    """Waits until all clients write again, and for some time more."""
    while not all(client.acknowledged_at[-1] > time.monotonic() - SETTLED_S / 2 for client in clients):
        if time.monotonic() > since + RESUME_TIMEOUT_S:
            raise RuntimeError(f"no writes for {RESUME_TIMEOUT_S} s after a kill")
        time.sleep(SETTLED_S)


def _longest(clients, since, until) -> float:
    """The longest time without an acknowledged write of any of these clients, in milliseconds."""
    times = []
    for client in clients:
        at = client.acknowledged_at
        times += at[bisect.bisect(at, since) : bisect.bisect(at, until)]
    chosen = [since, *sorted(times), until]
    return round(max(after - before for before, after in zip(chosen, chosen[1:])) * 1e3, 1)
