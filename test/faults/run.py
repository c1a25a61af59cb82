"""A run: a cluster with guests, clients that use it, faults from a plan, and the check of what the clients saw."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import subprocess
import time
from pathlib import Path

import clients
import cluster as clusters
import history as histories
import kyoto_wire
import names
import names_crew
import plan as plans
import served
import stores
import wire

CHECKER = Path(__file__).resolve().parent / "checker"
KEPT = served.ROOT / "_build" / "faults"
CREWS = ("records", "names")
# After a fault, all nodes serve again within this time.
RECOVERY_S = 90
PAUSE_S, WARM_S = 0.5, 1.5
# How long the checker looks for an order of the operations of one part.
LIMIT_S = 60
FINAL_READS = 500


def build_checker() -> Path:
    """The compiled checker."""
    built = stores.BUILT / "checker"
    newest = max(path.stat().st_mtime for path in CHECKER.iterdir())
    if not built.exists() or built.stat().st_mtime < newest:
        with stores.building() as directory:
            subprocess.run(["go", "build", "-o", directory / "checker", "."], cwd=CHECKER, check=True)
            os.replace(directory / "checker", built)
    return built


def check(path) -> dict:
    """What the checker says about a history."""
    done = subprocess.run([build_checker(), "-limit", f"{LIMIT_S}s", path], capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


class Run:
    """One cluster from its start to its end. Its clients use records, names of processes, or both (CREWS). The seed says how many
    guests there are, if the caller does not."""

    def __init__(self, directory, seed, size=3, environment=None, crews=CREWS, guests=None):
        # The dates of HTTP are those of the node.
        kyoto_wire.SLACK_S = float("inf")
        build_checker()
        self.seed = seed
        self.directory = Path(directory)
        self.history = histories.History(self.directory / "history.jsonl")
        if guests is None:
            guests = random.Random(f"{seed} guests").randint(1, clusters.GUESTS_MAX)
        has_clock = clusters.clock_library() is not None
        self.cluster = clusters.Cluster(self.directory, size, seed, has_clock=has_clock, environment=environment, guests=guests)
        self.crews = crews
        self.clients = []
        # The clients that use names and groups, if there are any.
        self.names = None
        self.faults = []
        self.verdict = None

    def start(self):
        """Starts the nodes and the clients."""
        self.cluster.start()
        clock = clients.Clock()
        if "records" in self.crews:
            self.clients += clients.crew(self.cluster, self.history, clock, self.seed, has_levels=self.has_levels())
        if "names" in self.crews and names.are_there(self.cluster.servers):
            self.names = names_crew.Crew(self.cluster.servers, self.cluster, self.history, clock, self.seed)
            self.cluster.owner_node = self.names.owner_node
            self.clients += self.names.clients
        for client in self.clients:
            client.start()
        # The nodes load what the clients need, before the first fault.
        time.sleep(WARM_S)

    def has_levels(self) -> bool:
        """Whether a connection can choose what its reads promise."""
        with wire.Resp(self.cluster.nodes[0].address("resp")) as connection:
            return connection.call("TODANA.READ", "linear") == wire.OK

    def fault(self, names, number):
        """One step of the plan."""
        began = time.monotonic()
        self.cluster.remarks.clear()
        self.history.silence_s()
        self.history.note(fault="+".join(names), number=number)
        node = plans.carry_out(self.cluster, names, f"{self.seed} fault {number}")
        broken_s = time.monotonic() - began
        self.history.note(healed="+".join(names), node=node.number)
        self.cluster.wait_for_voters(RECOVERY_S)
        recovered_s = time.monotonic() - began - broken_s
        self.faults.append({
            "kind": "+".join(names), "number": number, "node": node.number, "seconds": round(broken_s, 1),
            "recovery_seconds": round(recovered_s, 1), "silence_seconds": round(self.history.silence_s(), 1),
            **({"remarks": list(self.cluster.remarks)} if self.cluster.remarks else {}),
        })  # fmt: skip
        time.sleep(PAUSE_S)
        for client in self.clients:
            if client.failure:
                raise client.failure

    def finish(self) -> dict:
        """Ends the clients, compares the nodes, reads every record at each of them, and checks the history."""
        for client in self.clients:
            client.stop()
        for client in self.clients:
            client.join()
        self.cluster.wait_for_voters()
        self.cluster.wait_until_listed()
        if self.names:
            self.names.audit()
        # A write of unknown outcome may still come while the records are read.
        while True:
            _, digest = self.cluster.verify()
            operations = self.read_all()
            if self.cluster.verify()[1] == digest:
                break
        for operation, saw in operations:
            operation.done(*saw)
        self.history.close()
        self.verdict = check(self.history.path)
        self.verdict["digest"] = digest
        self.verdict["outcomes"] = dict(self.history.counts)
        self.verdict["guests"] = len(self.cluster.guests)
        self.verdict["names"] = {**self.names.figures, "halves": self.verdict["halves"]} if self.names else {}
        self.verdict["packets"] = {"dropped": self.cluster.network.dropped, "delayed": self.cluster.network.forwarded}
        return self.verdict

    def read_all(self) -> list:
        """All records at each node and by each guest. The nodes are at the same entry, so these reads promise as much as any."""
        found = []
        parts = sorted(self.history.parts.items())
        for node in self.cluster.servers:
            with wire.Resp(node.address("resp")) as connection:
                for at in range(0, len(parts), FINAL_READS):
                    some = parts[at : at + FINAL_READS]
                    begun = [
                        self.history.begin({
                            "client": 100, "connection": "end", "door": "resp", "node": node.number, "memory": node.memory, "part": part, "level": "linear",
                            "steps": [histories.step("get", key) for key in range(count)],
                        })
                        for part, count in some
                    ]  # fmt: skip
                    values = connection.call("MGET", *[clients.key_of(part, key) for part, count in some for key in range(count)])
                    assert isinstance(values, list), values
                    left = iter(values)
                    found += [(operation, [clients.text(next(left)) for _ in range(count)]) for operation, (_, count) in zip(begun, some)]
        return found

    def keep(self, why) -> Path:
        """Copies everything of a run that failed."""
        with contextlib.suppress(ValueError):
            self.history.close()
        self.cluster.stop()
        kept = KEPT / f"cluster-{self.seed}"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True)
        self.cluster.keep(kept)
        shutil.copy(self.history.path, kept)
        (kept / "why.txt").write_text(f"seed {self.seed}\n{why}\n{json.dumps(self.faults, indent=1)}\n")
        return kept

    def close(self):
        """Ends everything."""
        for client in self.clients:
            client.stop()
        self.cluster.close()


def summary(verdict) -> str:
    """The complaints, in short."""
    lines = [f"{part}: {text[:600]}" for part, texts in verdict["complaints"].items() for text in texts[:2]]
    return "\n".join([*lines[:20], *(f"{part}: not decided" for part in verdict["undecided"])])


def carry_out(directory, seed, steps, size=3, environment=None, on_step=None, crews=CREWS, guests=None):
    """A whole run; returns it when it has ended well, and keeps what there is if not."""
    run = Run(directory, seed, size, environment, crews, guests)
    try:
        run.start()
        for number, names in enumerate(steps):
            run.fault(names, number)
            if on_step:
                on_step(run.faults[-1])
        verdict = run.finish()
        assert not verdict["complaints"] and not verdict["undecided"], summary(verdict)
        return run
    except BaseException as why:
        kept = run.keep(f"{type(why).__name__}: {why}")
        print(f"seed {seed}: kept in {kept}", flush=True)
        raise
    finally:
        run.close()
