"""What a client has written, what the server has acknowledged, and which states of the store are right after a crash.

A client writes only its own keys, one unit after the other. A unit is one or more operations that take effect together
or not at all. After a crash, the store must hold the effect of the first k units, each applied once, where k is at
least the number of acknowledged units and at most the number of units sent. This one rule finds lost writes, doubled
increments, half-applied batches, and writes that overtook each other.
"""

from __future__ import annotations

import struct
import threading
from typing import NamedTuple

# A key longer than this is set anew instead of being appended to.
VALUE_BYTES_MAX = 2_000
SHOWN_BYTES_MAX = 60
DIFFERENCES_SHOWN = 3


class Operation(NamedTuple):
    """A change of one record, or of whole databases. `place` is (database, key)."""

    name: str
    place: tuple
    argument: object = None


Unit = tuple  # of operations


class Wrong(AssertionError):
    """The store holds something that the acknowledged writes exclude."""


def apply(state: dict, unit: Unit):
    """Applies the operations of a unit to the records in `state`."""
    for name, place, argument in unit:
        if name == "set":
            state[place] = argument
        elif name == "append":
            state[place] = state.get(place, b"") + argument
        elif name == "prepend":
            state[place] = argument + state.get(place, b"")
        elif name == "add":
            state[place] = b"%d" % (int(state.get(place, b"0")) + argument)
        elif name == "add_binary":
            (before,) = struct.unpack(">q", state.get(place, bytes(8)))
            state[place] = struct.pack(">q", before + argument)
        elif name == "delete":
            state.pop(place, None)
        elif name == "rename":
            # Absent only where a batch is wrongly applied twice; then a store refuses.
            if place in state:
                state[argument] = state.pop(place)
        elif name == "flush":
            for each in [each for each in state if each[0] == place[0]]:
                del state[each]
        elif name == "swap":
            ours, theirs = place[0], argument
            names = {ours: theirs, theirs: ours}
            moved = {(names.get(number, number), key): value for (number, key), value in state.items()}
            state.clear()
            state.update(moved)
        else:
            raise ValueError(name)


def settle(state: dict, units, acknowledged: int, found: dict) -> int:
    """The number of units whose effect is in `found`; changes `state` to it. Raises Wrong if there is none.

    `units` follow `state`; the first `acknowledged` of them must be in.
    """
    for unit in units[:acknowledged]:
        apply(state, unit)
    if state == found:
        return acknowledged
    first = difference(state, found)
    for number, unit in enumerate(units[acknowledged:], start=acknowledged + 1):
        apply(state, unit)
        if state == found:
            return number
    raise Wrong(
        f"no prefix of {len(units)} units of which {acknowledged} were acknowledged gives what the store holds; beside "
        f"the acknowledged ones: {first}; beside all: {difference(state, found)}"
    )


def difference(expected: dict, found: dict) -> str:
    """The records in which two states differ, as text."""
    lines = []
    for place in sorted(set(expected) | set(found), key=repr):
        left, right = expected.get(place), found.get(place)
        if left != right:
            lines.append(f"{place}: expected {shown(left)}, found {shown(right)}")
    more = [f"{len(lines) - DIFFERENCES_SHOWN} more records"] if len(lines) > DIFFERENCES_SHOWN else []
    return "; ".join([*lines[:DIFFERENCES_SHOWN], *more]) or "nothing"


def shown(value) -> str:
    """A value, shortened to its end, where the newest changes of appended values are."""
    if value is None:
        return "no record"
    if len(value) <= SHOWN_BYTES_MAX:
        return repr(value)
    return f"{len(value)} bytes that end with {value[-SHOWN_BYTES_MAX:]!r}"


class Ledger:
    """The units of one client since the state that was last found right."""

    def __init__(self, name, on_acknowledged=None):
        self.name = name
        self.state = {}
        self.units = []
        self.acknowledged = 0
        self.total = 0
        self._on_acknowledged = on_acknowledged
        self._lock = threading.Lock()
        # The state after all units sent: what the next unit will find if nothing is lost.
        self.ahead = {}

    def sent(self, unit: Unit):
        """A unit is about to be sent."""
        with self._lock:
            self.units.append(unit)
            apply(self.ahead, unit)

    def acknowledge(self, count=1):
        """The next units are acknowledged."""
        with self._lock:
            self.acknowledged += count
            self.total += count
            if self._on_acknowledged:
                self._on_acknowledged(self.name, self.total)

    def refused(self):
        """The server has answered that it did not execute the last unit sent, and never will."""
        with self._lock:
            if self.acknowledged != len(self.units) - 1:
                raise ValueError("only the last unit can be refused")
            self.units.pop()
            self.ahead = dict(self.state)
            for unit in self.units:
                apply(self.ahead, unit)

    def settle(self, found: dict) -> int:
        """Compares the store with the ledger; the client goes on from what was found. Returns the unacknowledged units
        that took effect."""
        try:
            count = settle(self.state, self.units, self.acknowledged, found)
        except Wrong as wrong:
            raise Wrong(f"client {self.name}: {wrong}") from None
        surplus = count - self.acknowledged
        self.units, self.acknowledged = [], 0
        self.ahead = dict(self.state)
        self.total += surplus
        return surplus
