"""The audit of names and groups: the records of each node are those of the processes that live, and go with them."""

from __future__ import annotations

import contextlib
import re
import time
from collections import Counter

import names
import wire

# Everything that must become true does so within this time after the last fault.
AUDIT_S = 90


class Wrong(AssertionError):
    """The audit has found something."""


def matching(door, expression, pattern):
    """The value of an expression, once it matches."""
    deadline = time.monotonic() + AUDIT_S
    while not (match := re.fullmatch(pattern, answer := door.evaluate(expression))):
        assert time.monotonic() < deadline, f"{expression}: {answer}"
        time.sleep(0.2)
    return match


class Audit:
    """The audit of the nodes of a crew."""

    def __init__(self, crew):
        self.crew = crew

    def carry_out(self):
        """Waits until nothing is wrong; then ends all processes, and waits until no record of them is left."""
        doors = []
        try:
            for node in self.crew.nodes:
                doors.append(self.door(node))
            began = time.monotonic()
            self.until(doors, lambda records: self.wrong(doors, records))
            self.crew.figures["agreed_seconds"] = round(time.monotonic() - began, 1)
            self.crew.poll(lambda expression, pattern: matching(doors[0], expression, pattern))
            self.losses(doors)
            before = time.monotonic_ns()
            for door in doors:
                assert (answer := door.evaluate("named_processes:finish_all()")) == "ok", answer
            after = time.monotonic_ns()
            for process in self.crew.processes.values():
                process.killed = process.killed or (before, after)
            began = time.monotonic()
            self.until(doors, lambda records: [f"it stays after its process: {line}" for line in records if not line.startswith("session ")])
            self.crew.figures["freed_seconds"] = round(time.monotonic() - began, 1)
        finally:
            for door in doors:
                door.__exit__()

    def losses(self, doors):
        """Asks when processes heard that they may have lost their names."""
        for door in doors:
            lines = matching(door, "named_processes:losses()", r'"(.*)"|\[\]')[1] or ""
            for part, label, at_ns in (line.split(" ") for line in lines.split(";") if line):
                if process := self.crew.processes.get(label):
                    claim = process.claim(part)
                    claim.noticed_ns = min(claim.noticed_ns, int(at_ns))

    @staticmethod
    def door(node):
        """A connection to a node whose scope is started."""
        deadline = time.monotonic() + AUDIT_S
        while True:
            with contextlib.suppress(OSError, wire.Closed):
                door = node.erlang(AUDIT_S)
                if (answer := door.evaluate(f"named_processes:ready({names.SCOPE})")) == "ready":
                    return door
                door.__exit__()
                assert time.monotonic() < deadline, f"{node.name}: the scope is {answer}"
            assert time.monotonic() < deadline, f"{node.name} evaluates nothing"
            time.sleep(0.2)

    def until(self, doors, wrong):
        """Waits until nothing is wrong at any node."""
        deadline = time.monotonic() + AUDIT_S
        while True:
            found = []
            for node, door in zip(self.crew.nodes, doors):
                # The records of this node have all that was acknowledged before.
                matching(door, f"named_processes:sessions({names.SCOPE})", r"\{(?!error).*\}")
                lines = matching(door, f"named_processes:records({names.SCOPE})", r'"(.*)"|\[\]')[1] or ""
                found += [f"{node.name}: {complaint}" for complaint in wrong([line for line in lines.split(";") if line])]
            if not found:
                return
            if time.monotonic() > deadline:
                raise Wrong(f"{AUDIT_S} s after the last fault:\n" + "\n".join(sorted(set(found))[:20]))
            time.sleep(0.2)

    def wrong(self, doors, records) -> list:
        """What the records of a node have too much or too little."""
        alive = set()
        for door in doors:
            alive |= set(door.evaluate("named_processes:alive()").strip('[]"').split())
        lines = [line.split(" ") for line in records]
        owners = {words[1]: words[2] for words in lines if words[0] == "name"}
        members = Counter((words[1], words[2]) for words in lines if words[0] == "member")
        live = {words[1] for words in lines if words[0] == "session" and words[2] == "live"}
        found = [f"the session {words[1]} has ended, and is there" for words in lines if words[0] == "session" and words[2] != "live"]
        if len(live) != len(self.crew.nodes):
            found.append(f"{len(live)} sessions of {len(self.crew.nodes)} nodes")
        found += [f"the name {part} stays after its process {label}" for part, label in owners.items() if label not in alive]
        found += [f"a member of {part} stays after its process {label}" for part, label in members if label not in alive]
        owned = [words for words in lines if words[0] == "owned"]
        if len(owned) != len(owners) + members.total():
            found.append(f"{len(owners)} names, {members.total()} members, and {len(owned)} of processes")
        found += [f"something of the session {words[1]}, which has ended, stays" for words in owned if words[1] not in live]
        for label in alive & set(self.crew.processes):
            for part, claim in self.crew.processes[label].claims.items():
                if claim.token is not None:
                    is_certain = claim.is_held and claim.unknown_ns == names.NEVER_NS and (claim.is_own or claim.sessions <= live)
                    if is_certain and owners.get(part) != label:
                        found.append(f"{label} has got the name {part}, which is {owners.get(part)}'s")
                elif not claim.certain <= members[part, label] <= claim.certain + claim.uncertain:
                    found.append(f"{label} has joined {part} {claim.certain} times and is a member {members[part, label]} times")
        return found
