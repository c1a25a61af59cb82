"""The history of a run: a line of JSON for each operation that a client began, with when, where, and how it ended.

    {"client": 3, "connection": 41, "door": "resp", "node": 1, "part": "7.c0", "call": 123, "return": 456,
     "outcome": "done", "level": "log", "steps": [{"do": "incr", "key": 0, "with": "17", "saw": "40"}]}

Times are nanoseconds of the machine's monotonic clock, which is the same for all clients. `outcome` is `done`; `unknown`, if
the operation may take place at any time after `call`, or never; or `failed`, if the store said that it never will.
`level` says what the reads promise: `log` for operations that are in the log, `linear`, `bounded` or `local`. A part is a few
keys that operations change together; each key of a step is a number within its part. `saw` is what the answer says about the
key, as text, `ABSENT` for no record; some answers say nothing. `wrong_clock` is true if the node's clock may have been wrong
meanwhile: a node hides what has expired by its own clock, and a guest by that of any member. `memory` is the number of a guest's
start, after which it has forgotten what its clients have seen, and 0 for members, which go never back.

Lines whose level is `process` are no operations: they have what is known of a process that has a name or is a member of a group,
after the run (names.py). Reads of these promise `linear`, `bounded`, or, from copies, twice the bound (`copied`).
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter

ABSENT = "-"


def step(do, key=0, argument=None, expected=None) -> dict:
    """One change or read of a key."""
    made = {"do": do, "key": key}
    if argument is not None:
        made["with"] = argument
    if expected is not None:
        made["expected"] = expected
    return made


class Operation:
    """What a client has asked for and has no answer to yet."""

    def __init__(self, history, facts):
        self._history, self._facts = history, facts
        self._facts["call"] = time.monotonic_ns()

    def done(self, *saw, node=None):
        """The answer came: what it says about each step, None for nothing; and from which node."""
        self._facts["return"] = time.monotonic_ns()
        if node and node.had_wrong_clock(self._facts["call"]):
            self._facts["wrong_clock"] = True
        for each, seen in zip(self._facts["steps"], saw):
            if seen is not None:
                each["saw"] = seen
        self._end("done")

    def unknown(self, why):
        """No answer, or one that says as much."""
        self._facts["why"] = why
        self._end("unknown")

    def failed(self, why):
        """The store says that nothing was done, nor will be."""
        self._facts["return"] = time.monotonic_ns()
        self._facts["why"] = why
        self._end("failed")

    def _end(self, outcome):
        self._facts["outcome"] = outcome
        self._history.write(self._facts)


class History:
    """A file of operations."""

    def __init__(self, path):
        self.path = path
        self._file = path.open("w")
        self._lock = threading.Lock()
        self.counts = Counter()
        # How often each step was asked for, with any outcome.
        self.steps = Counter()
        self.parts = {}
        self._last_ns, self._silence_ns = time.monotonic_ns(), 0

    def begin(self, facts) -> Operation:
        """A client sends an operation."""
        return Operation(self, facts)

    def write(self, facts):
        """An operation has ended."""
        line = json.dumps(facts, separators=(",", ":"))
        with self._lock:
            self.counts[facts["outcome"]] += 1
            self.steps.update(each["do"] for each in facts["steps"])
            if facts["outcome"] == "done" and facts["level"] == "log":
                self._silence_ns = max(self._silence_ns, facts["return"] - self._last_ns)
                self._last_ns = facts["return"]
            self.counts[f"{facts['door']} {facts['outcome']}"] += 1
            # Names and groups are no records of the numbered databases, which are read at the end.
            if facts["door"] != "names":
                self.parts[facts["part"]] = max(self.parts.get(facts["part"], 1), *(each["key"] + 1 for each in facts["steps"]))
            self._file.write(line + "\n")

    def fact(self, part, **facts):
        """Writes facts about a part that are known after the run, for the checker."""
        line = json.dumps({"part": part, "level": "process", "outcome": "done", "steps": [], **facts}, separators=(",", ":"))
        with self._lock:
            self._file.write(line + "\n")

    def note(self, **facts):
        """Something else that happened, for people."""
        with self._lock:
            self._file.write(json.dumps({"note": facts, "call": time.monotonic_ns()}) + "\n")

    def silence_s(self) -> float:
        """The longest time without an acknowledged write since the last call."""
        with self._lock:
            found, self._silence_ns = max(self._silence_ns, time.monotonic_ns() - self._last_ns), 0
            self._last_ns = time.monotonic_ns()
            return found / 1e9

    def close(self):
        """Everything is in the file."""
        with self._lock:
            self._file.close()
