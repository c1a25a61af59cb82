"""The clients of names and groups in some nodes, and what they know together: the processes, their registrations and sessions."""

from __future__ import annotations

import threading
import time

import names
import names_audit
import stores

CLIENTS_PER_NODE = 2
# Other clients have lower numbers.
FIRST_NUMBER = 20


class Crew:
    """The clients of some nodes, which need not be all, and what they know together."""

    def __init__(self, nodes, cluster, history, clock, seed):
        stores.erlang_module(names.SOURCE)
        self.nodes, self.history = list(nodes), history
        self.processes = {}
        # The last registrations of each name: (when it was acknowledged, the process).
        self.registrations = {}
        # Names that few ask for and that were just freed: (the name, at which node).
        self.just_freed = []
        # When each session was last seen, by the beginnings of the reads; and in the newest read.
        self.seen_ns, self.newest = {}, set()
        self.figures = {}
        self._lock = threading.Lock()
        homes = [node for node in self.nodes for _ in range(CLIENTS_PER_NODE)]
        common = (cluster, history, clock, seed, self)
        self.clients = [names.Named(FIRST_NUMBER + number, *common, node) for number, node in enumerate(homes)]
        self.clients += [names.Copies(FIRST_NUMBER + len(homes) + number, *common, node) for number, node in enumerate(self.nodes)]
        self.clients.append(names.Sessions(FIRST_NUMBER + len(homes) + len(self.nodes), *common, self.nodes[0]))

    def add(self, process) -> names.Process:
        """Knows a process."""
        with self._lock:
            return self.processes.setdefault(process.label, process)

    def registered(self, part, process):
        """A process has got a name."""
        with self._lock:
            self.registrations.setdefault(part, []).append((time.monotonic_ns(), process))

    def freed(self, part, node):
        """A name was freed at a node: a process of another node can get it at once."""
        if part.split(".")[1] not in names.NAMES:
            self.just_freed.append((part, node))

    def take_freed(self, node):
        """A name that was just freed at another node, if there is one."""
        with self._lock:
            found = next((each for each in self.just_freed if each[1] is not node), None)
            if found:
                self.just_freed.remove(found)
        return found and found[0]

    def owner(self, part):
        """The process that was the last to get a name, if it may still have it."""
        with self._lock:
            _, process = self.registrations.get(part, [(0, None)])[-1]
        return process if process and process.claim(part).is_held else None

    def owner_node(self):
        """The node of the process that was the last to get the lasting name."""
        with self._lock:
            _, process = self.registrations.get(f"0.{names.LASTING}", [(0, None)])[-1]
        return process and process.node

    def doubt(self, part):
        """Whichever process has the name may lose it from now on, as far as the audit knows."""
        with self._lock:
            for _, process in self.registrations.get(part, ()):
                process.claim(part).release(time.monotonic_ns())

    def poll(self, evaluate):
        """Reads which sessions go on."""
        call_ns = time.monotonic_ns()
        found = set((evaluate(f"named_processes:sessions({names.SCOPE})", r'\{(?:"(.*)"|\[\])\}')[1] or "").split())
        with self._lock:
            self.seen_ns |= dict.fromkeys(found, call_ns)
            self.newest = found

    def audit(self):
        """Compares the records with the processes after the last fault, and ends these."""
        names_audit.Audit(self).carry_out()
        self.note()

    def note(self):
        """Writes what is known of each process into the history, after the audit."""
        used = set()
        for process in self.processes.values():
            dead = process.death()
            for part, claim in process.claims.items():
                used |= claim.sessions
                lost = min((max(claim.call_ns, self.seen_ns.get(session, 0)) for session in claim.sessions), default=claim.call_ns)
                self.history.fact(part, process={
                    "label": process.label, "home": process.node.number, "free": min(dead[0], lost, claim.unknown_ns),
                    "dead": dead, "lost": lost, "again": claim.is_again,
                })  # fmt: skip
        self.figures |= {
            "processes": len(self.processes), "registrations": sum(map(len, self.registrations.values())),
            "joins": self.history.steps["join"], "sessions_ended": len(used - self.newest), **self.waits(), **self.notices(),
        }  # fmt: skip

    def notices(self) -> dict:
        """How many owners were informed of their loss before another process had the name, and how many later, and by how much. Those
        whose node was frozen are left out. No run fails because of these times, which depend on the speed of the machine."""
        in_time, late_s = 0, []
        for part, registered in self.registrations.items():
            for (first_ns, process), (next_ns, other) in zip(registered, registered[1:]):
                claim = process.claim(part)
                is_frozen = any(first_ns < at < next_ns for at in process.node.frozen_ns)
                is_given_up = min(claim.released_ns, claim.unknown_ns, process.death()[0]) < next_ns
                if is_given_up or is_frozen or not claim.is_notified or other is process:
                    continue
                if claim.noticed_ns <= next_ns:
                    in_time += 1
                elif claim.noticed_ns < names.NEVER_NS:
                    late_s.append((claim.noticed_ns - next_ns) / 1e9)
        return {"noticed_in_time": in_time, "noticed_late": len(late_s), **({"noticed_late_s": round(max(late_s), 2)} if late_s else {})}

    def waits(self) -> dict:
        """How long a name had no other owner after its owner ended, in seconds: median, longest. The clients ask again and again."""
        found = {"process": [], "node": []}
        # Others are asked for too seldom.
        for part, registered in ((part, found) for part, found in self.registrations.items() if part.split(".")[1] in names.NAMES):
            for (_, process), (next_ns, _) in zip(registered, registered[1:]):
                begin, end = process.death()
                claim = process.claim(part)
                if min(claim.released_ns, claim.unknown_ns) < next_ns or end > next_ns:
                    continue
                how = "process" if process.killed and process.killed[1] <= end else "node"
                found[how].append((next_ns - end) / 1e9)
        return {
            f"free_after_{how}_s": [round(sorted(waits)[len(waits) // 2], 2), round(max(waits), 2)] for how, waits in found.items() if waits
        }  # fmt: skip
