"""Clients whose processes have names in a cluster scope and are members of its groups, and the audit of these at the end.

Some clients at each node start processes there (named_processes.erl.in), register them with a few names, and end them after a
random time: they are killed, or end in order, or their name is unregistered or moved. Others join groups and leave them. All
clients read owners and members. The parts are names `n` and groups `m`; they change every some seconds.

A process gives up its names when it ends, which no client sees, and when its node is silent for long. So a history also has a
line for each process: from when on its records may be removed (`free`), when it ended (`dead`), and from when on the session of
its node may have ended (`lost`). An unknown outcome counts as an end: it is taken back.

The audit compares the records of each node with the processes that live, when all faults are over; then it ends the processes,
and nothing may be left.
"""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections import Counter
from pathlib import Path

import clients
import served
import stores
import wire
from clients import Lost, Refused, Unexpected
from history import ABSENT, step

SOURCE = Path(__file__).resolve().parent / "named_processes.erl.in"
SCOPE = "faults"
CLIENTS_PER_NODE = 2
FIRST_NUMBER = 20
# Of the clock of the clients: longer than a node is silent until its names are free.
GENERATIONS = 6
# One of the names is kept for long.
NAMES, GROUPS, KEPT = ("n0", "n1", "n2"), ("m0", "m1"), "n2"
PAUSE_S, POLL_S = 0.015, 0.5
PROCESSES_MAX = 8
# Chances: a process that ends while it is registered, one that wants its name again.
KILLED_EARLY, AGAIN = 0.15, 0.3
# Some names are asked for a few times only, so that nobody takes by accident what stays.
RARE, RARE_NAMES = 0.3, 30
KEPT_S, HELD_S = 15, (0.02, 0.1, 1)
# How many processes of a client stay until the audit, each with a name or in a group, and how often one is started.
STAYING_MAX, STAYING = 10, 0.02
KILLED_AFTER_MS = 6
# Everything that must become true does so within this time after the last fault.
AUDIT_S = 90
NEVER_NS = (1 << 63) - 1
SESSIONS = r'"(\w+)","(\w+)"'


def are_there(nodes) -> bool:
    """Whether these nodes have names at all."""
    return (served.ROOT / "src" / "names").exists() and all(node.version == served.ROOT for node in nodes)


class Wrong(AssertionError):
    """The audit has found something."""


class Claim:
    """What a process has of a part: a name, or a number of times that it has joined."""

    def __init__(self, call_ns):
        self.call_ns = call_ns
        self.sessions = set()
        self.unknown_ns = NEVER_NS
        self.is_again = False
        # Of a name; one that nobody else asks for is got again after each loss.
        self.token, self.is_held, self.is_own = None, False, False
        # Of a group.
        self.certain = self.uncertain = 0

    def doubt(self, call_ns):
        """Something may have happened from then on."""
        self.unknown_ns = min(self.unknown_ns, call_ns)


class Process:
    """A process in a node."""

    def __init__(self, label, pid, node, start):
        self.label, self.pid, self.node, self.start = label, pid, node, start
        # When it was killed: before and after, if that is known.
        self.killed = None
        self.claims = {}

    def claim(self, part) -> Claim:
        """Its claim, which is new at the first call."""
        return self.claims.setdefault(part, Claim(time.monotonic_ns()))

    def death(self) -> tuple:
        """From when on it may have ended, and when it certainly had."""
        begin, end = self.killed or (NEVER_NS, NEVER_NS)
        before, after = self.node.ends.get(self.start, (NEVER_NS, NEVER_NS))
        if self.start not in self.node.ends and self.node.starts > self.start:
            before = 0
        return min(begin, before), min(end, after)


class AtNode(clients.Client):
    """A client in one node."""

    door = "names"

    def __init__(self, number, cluster, history, clock, seed, crew, node):
        super().__init__(number, cluster, history, clock, f"{seed} names")
        self.crew, self.node, self.node_start = crew, node, 0

    def _leave(self):
        self._close()

    def connect(self):
        start = self.node.starts
        if not self.node.is_alive():
            raise Refused("the node does not run")
        connection = self.node.erlang(clients.ANSWER_TIMEOUT_S)
        try:
            answer = connection.evaluate(f"named_processes:ready({SCOPE})")
            if answer != "ready" or self.node.starts != start:
                raise Refused(answer)
        except BaseException:
            connection.__exit__()
            raise
        self.begin(start)
        return connection

    def begin(self, start):
        """The connection is one to this start of the node."""
        self.node_start = start

    def evaluate(self, expression, pattern):
        """The value of an expression, which must match."""
        answer = self.connection.evaluate(expression)
        if match := re.fullmatch(pattern, answer):
            return match
        if re.match(r"\{?\{error,(unavailable|full|too_large)\}", answer):
            raise Refused(answer)
        if "undef" in answer or not re.match(r"\{?\{(error|exit|throw),", answer):
            raise Unexpected(f"{expression}: {answer}")
        # The application stops at this moment, or the outcome is not known.
        raise Lost(answer)

    def run(self, function, *arguments, pattern):
        """Calls a function of the module in the node."""
        return self.evaluate(f"named_processes:{function}({','.join((SCOPE, *map(str, arguments)))})", pattern)


class Named(AtNode):
    """Registers, joins, ends and reads."""

    pause_s = PAUSE_S

    def __init__(self, *arguments):
        super().__init__(*arguments)
        # (when its name is given up, the process, the part)
        self.held = []
        self.members = []
        self.staying = []
        # Processes whose calls have got no answer.
        self.lost = []

    def begin(self, start):
        super().begin(start)
        self.held = [each for each in self.held if each[1].start == start]
        self.members = [each for each in self.members if each[0].start == start]
        self.staying = [each for each in self.staying if each.start == start]
        self.lost = [each for each in self.lost if each.start == start]

    def _turn(self):
        generation = self.clock.generation() // GENERATIONS
        try:
            if self.lost:
                self.end(self.lost[0], "kill")
                self.lost.pop(0)
            if len(self.staying) < STAYING_MAX and self.random.random() < STAYING:
                self.stay(generation)
            elif not self.give_up():
                action, parts = self.random.choice(self.actions())
                action(f"{generation}.{self.random.choice(parts)}")
        except (Lost, OSError, wire.Closed):
            self._leave()
        except Refused:
            self._stop.wait(0.05)

    def actions(self) -> list:
        """What a client does, each as often as it is in the list."""
        reads = [(self.look, NAMES), (self.look_linear, NAMES), (self.owner, NAMES), (self.look_in, GROUPS), (self.look_in_linear, GROUPS)]
        writes = [(self.unregister_others, NAMES), (self.leave_group, GROUPS), (self.leave_group, GROUPS)]
        if len(self.held) + len(self.members) < PROCESSES_MAX:
            writes += [(self.register, NAMES)] * 5 + [(self.join_group, GROUPS)] * 3
        if self.random.random() < 0.05:
            writes.append((self.unregister_any, NAMES))
        return reads + writes

    # Processes.

    def new(self) -> Process:
        """A process at the node."""
        match = self.evaluate("named_processes:new()", r'\{(<[\d.]+>),"(\S+)"\}')
        return self.crew.add(Process(match[2], match[1], self.node, self.node_start))

    def end(self, process, how):
        """Ends a process and waits for it."""
        before = time.monotonic_ns()
        process.killed = process.killed or (before, NEVER_NS)
        answer = self.evaluate(f'named_processes:finish("{process.pid}",{how})', "ended|running")[0]
        if answer == "ended":
            process.killed = (process.killed[0], time.monotonic_ns())

    def asked(self, process, part, steps, ask):
        """An operation of a claim, whose outcome may be unknown."""
        claim, call_ns = process.claim(part), time.monotonic_ns()
        try:
            return self.do(part, steps, ask)[0]
        except Lost:
            claim.doubt(call_ns)
            self.lost.append(process)
            raise
        except Refused:
            if not claim.is_held:
                self.lost.append(process)
            raise

    # Names.

    def stay(self, generation):
        """A process gets a name of its own, or joins a group, and stays until the audit."""
        if self.random.random() < 0.5:
            process = self.new()
            self.staying.append(process)
            self.join_group(f"{generation}.{self.random.choice(GROUPS)}", [process])
        else:
            self.serial += 1
            self.register(f"{generation}.n9.{self.number}.{self.serial}", is_own=True)

    def register(self, part, before=None, is_own=False):
        """A new process asks for a name; perhaps the one that has it is killed just before."""
        if before is None and not is_own and self.random.random() < RARE:
            part += f"{self.random.randrange(RARE_NAMES)}"
        process = self.new()
        claim = process.claim(part)
        claim.is_own, claim.is_again = is_own, is_own or self.random.random() < AGAIN
        options = f"#{{again=>{str(claim.is_again).lower()},notify=>{str(self.random.random() < 0.5).lower()}}}"
        after = self.random.randint(0, KILLED_AFTER_MS) if not is_own and self.random.random() < KILLED_EARLY else "none"
        for each in (process if after != "none" else None, before):
            if each:
                each.killed = each.killed or (time.monotonic_ns(), NEVER_NS)
        killed = f'"{before.pid}"' if before else "none"

        def ask():
            match = self.run("register", f'<<"{part}">>', f'"{process.pid}"', options, after, killed, pattern=rf"\{{(no|\{{yes,(\d+)\}}),{SESSIONS}\}}")
            claim.sessions |= {match[3], match[4]}
            return (match[2] or "no",)

        self.registered(process, part, self.asked(process, part, [step("register", 0, process.label)], ask))

    def registered(self, process, part, saw):
        """A process has got a name, or not."""
        if saw == "no":
            self.end(process, "kill")
            return
        claim = process.claim(part)
        claim.token, claim.is_held = int(saw), True
        self.crew.registered(part, process)
        if process.killed:
            self.end(process, "kill")
            return
        if claim.is_own:
            self.staying.append(process)
            return
        longest_s = KEPT_S if part.endswith(KEPT) else self.random.choice(HELD_S)
        self.held.append((time.monotonic() + self.random.uniform(0, longest_s), process, part))

    def give_up(self) -> bool:
        """Gives up a name whose time has come, or kills a member."""
        for held in self.held:
            if held[0] < time.monotonic():
                self.held.remove(held)
                ways = (self.unregister, self.end_owner, self.end_owner, self.hand_over, self.hand_over, self.move)
                try:
                    self.random.choice(ways)(held[1], held[2])
                except BaseException:
                    self.lost.append(held[1])
                    raise
                return True
        if len(self.members) > PROCESSES_MAX // 2 or self.members and self.random.random() < 0.02:
            process, _ = self.members.pop(self.random.randrange(len(self.members)))
            self.end(process, self.random.choice(("kill", "stop")))
            return True
        return False

    def unregister(self, process, part):
        """Frees a name by its token; the process goes on for a moment."""
        if self.free(process, part) != "ok":
            self.end(process, "kill")
        else:
            self.held.append((time.monotonic() + self.random.uniform(0, 0.5), process, part))

    def free(self, process, part) -> str:
        """Frees a name by its token, at this client's node."""
        claim = process.claim(part)
        token, call_ns = claim.token, time.monotonic_ns()
        steps = [step("unregister", 0, str(token))]
        try:
            saw = self.do(part, steps, lambda: (self.run("unregister", f'<<"{part}">>', token, pattern="ok|no")[0],))[0]
        except Lost:
            claim.doubt(call_ns)
            raise
        claim.is_held = False
        return saw

    def end_owner(self, process, part):
        """Ends the owner."""
        self.end(process, self.random.choice(("kill", "stop")))

    def hand_over(self, process, part):
        """Kills the owner, and registers another process of the node at once, while the removal is on its way."""
        self.register(part, process)
        self.end(process, "kill")

    def move(self, process, part):
        """Gives the name to another process by its token."""
        other = self.new()
        claim, token = other.claim(part), process.claim(part).token

        def ask():
            match = self.run("move", f'<<"{part}">>', token, f'"{other.pid}"', pattern=rf"\{{(no|\{{yes,(\d+)\}}),{SESSIONS}\}}")
            claim.sessions |= {match[3], match[4]}
            return (match[2] or "no",)

        process.claim(part).is_held = False
        call_ns = time.monotonic_ns()
        try:
            saw = self.asked(other, part, [step("move", 0, other.label, str(token))], ask)
        except Lost:
            process.claim(part).doubt(call_ns)
            raise
        finally:
            self.lost.append(process)
        self.registered(other, part, saw)

    def unregister_others(self, part):
        """Frees a name that a process of any node has, by its token."""
        if self.random.random() < 0.2 and (process := self.crew.owner(part)):
            self.free(process, part)

    def unregister_any(self, part):
        """Frees a name, whichever process has it."""
        self.crew.doubt(part)
        self.do(part, [step("unregister_any")], lambda: (self.run("unregister", f'<<"{part}">>', pattern="ok")[0],))

    def look(self, part, level="bounded"):
        """The owner and the token."""
        def ask():
            match = self.run("lookup", f'<<"{part}">>', level, pattern=r'error|\{"(\S+)",(\d+)\}')
            return (f"{match[1]} {match[2]}" if match[1] else ABSENT,)

        self.do(part, [step("lookup")], ask, level)

    def look_linear(self, part):
        """The same, as it is now."""
        self.look(part, "linear")

    def owner(self, part):
        """The owner, perhaps from a copy; nobody may mean that the node does not know."""
        self.do(part, [step("owner")], lambda: (self.run("owner", f'<<"{part}">>', pattern=r'undefined|\{"(\S+)"\}')[1],), "copied")

    # Groups.

    def join_group(self, part, joining=None):
        """New processes join in one step, or one joins again."""
        if joining:
            pass
        elif self.members and self.random.random() < 0.3:
            joining = [self.random.choice(self.members)[0]]
        else:
            joining = [self.new() for _ in range(self.random.choice((1, 1, 2)))]
        claims = [process.claim(part) for process in joining]
        call_ns = time.monotonic_ns()

        def ask():
            match = self.run("join", f'<<"{part}">>', texts(joining), pattern=rf"\{{ok,{SESSIONS}\}}")
            for claim in claims:
                claim.sessions |= {match[1], match[2]}
            return ("ok",)

        try:
            self.do(part, [step("join", 0, labels(joining))], ask)
        except Lost:
            for claim in claims:
                claim.doubt(call_ns)
                claim.uncertain += 1
            self.lost += joining
            raise
        except Refused:
            self.lost += self.others(joining)
            raise
        for claim in claims:
            claim.certain += 1
        self.members += [(process, part) for process in self.others(joining)]

    def others(self, joining) -> list:
        """Processes that are not known as members, and do not stay."""
        known = [process for process, _ in self.members] + self.staying
        return [process for process in joining if process not in known]

    def leave_group(self, part):
        """Processes leave in one step."""
        of_part = [each for each, of in self.members if of == part and (each.claim(part).certain or self.random.random() < 0.05)]
        if not of_part:
            return
        leaving = self.random.sample(of_part, min(len(of_part), self.random.choice((1, 1, 2))))
        call_ns = time.monotonic_ns()

        def ask():
            return (self.run("leave", f'<<"{part}">>', texts(leaving), pattern="ok|not_joined")[0],)

        try:
            saw = self.do(part, [step("leave", 0, labels(leaving))], ask)[0]
        except Lost:
            for process in leaving:
                claim = process.claim(part)
                claim.doubt(call_ns)
                claim.certain, claim.uncertain = max(0, claim.certain - 1), claim.uncertain + 1
            raise
        for process in leaving if saw == "ok" else ():
            process.claim(part).certain = max(0, process.claim(part).certain - 1)

    def look_in(self, part, level="copied"):
        """The members."""
        def ask():
            return (self.run("members", f'<<"{part}">>', level, pattern=r'\{(?:"(.*)"|\[\])\}')[1] or ABSENT,)

        self.do(part, [step("members")], ask, level)

    def look_in_linear(self, part):
        """The same, as they are now."""
        self.look_in(part, "linear")


def texts(processes) -> str:
    """A list of pids, as Erlang source."""
    return "[" + ",".join(f'"{process.pid}"' for process in processes) + "]"


def labels(processes) -> str:
    """Their labels."""
    return " ".join(sorted(process.label for process in processes))


class Sessions(AtNode):
    """Notes which sessions go on, at any node."""

    pause_s = POLL_S

    def _leave(self):
        self._close()
        self.node = self.random.choice(self.crew.nodes)

    def _turn(self):
        try:
            self.crew.poll(self.evaluate)
        except (Lost, Refused, OSError, wire.Closed):
            self._leave()


class Crew:
    """The clients of some nodes, which need not be all, and what they know together."""

    def __init__(self, nodes, cluster, history, clock, seed):
        stores.erlang_module(SOURCE)
        self.nodes, self.history = list(nodes), history
        self.processes = {}
        # The last registrations of each name: (when it was acknowledged, the process).
        self.registrations = {}
        # When each session was last seen, by the beginnings of the reads; and in the newest read.
        self.seen_ns, self.newest = {}, set()
        self.lost_sessions = set()
        self.figures = {}
        self._lock = threading.Lock()
        homes = [node for node in self.nodes for _ in range(CLIENTS_PER_NODE)]
        common = (cluster, history, clock, seed, self)
        self.clients = [Named(FIRST_NUMBER + number, *common, node) for number, node in enumerate(homes)]
        self.clients.append(Sessions(FIRST_NUMBER + len(homes), *common, self.nodes[0]))

    def add(self, process) -> Process:
        """Knows a process."""
        with self._lock:
            return self.processes.setdefault(process.label, process)

    def registered(self, part, process):
        """A process has got a name."""
        with self._lock:
            self.registrations.setdefault(part, []).append((time.monotonic_ns(), process))

    def owner(self, part):
        """The process that was the last to get a name, if it may still have it."""
        with self._lock:
            _, process = self.registrations.get(part, [(0, None)])[-1]
        return process if process and process.claim(part).is_held else None

    def owner_node(self):
        """The node of a process that was among the last to get a name."""
        with self._lock:
            last = max((found[-1] for found in self.registrations.values()), key=lambda each: each[0], default=None)
        return last and last[1].node

    def doubt(self, part):
        """Whichever process has the name may lose it from now on, as far as the audit knows."""
        with self._lock:
            for _, process in self.registrations.get(part, ()):
                process.claim(part).is_held = False

    def poll(self, evaluate):
        """Reads which sessions go on."""
        call_ns = time.monotonic_ns()
        found = set((evaluate(f"named_processes:sessions({SCOPE})", r'\{(?:"(.*)"|\[\])\}')[1] or "").split())
        with self._lock:
            self.seen_ns |= dict.fromkeys(found, call_ns)
            self.newest = found

    # The audit.

    def audit(self):
        """Waits until the records are those of the processes that live, and then, without any, until none is left."""
        doors = []
        try:
            for node in self.nodes:
                doors.append(self.door(node))
            began = time.monotonic()
            self.until(doors, lambda records: self.wrong(doors, records))
            self.figures["agreed_seconds"] = round(time.monotonic() - began, 1)
            self.poll(lambda expression, pattern: re.fullmatch(pattern, doors[0].evaluate(expression)))
            before = time.monotonic_ns()
            for door in doors:
                assert (answer := door.evaluate("named_processes:finish_all()")) == "ok", answer
            after = time.monotonic_ns()
            for process in self.processes.values():
                process.killed = process.killed or (before, after)
            began = time.monotonic()
            self.until(doors, lambda records: [f"it stays after its process: {line}" for line in records if not line.startswith("session ")])
            self.figures["freed_seconds"] = round(time.monotonic() - began, 1)
        finally:
            for door in doors:
                door.__exit__()
        self.note()

    @staticmethod
    def door(node):
        """A connection to a node whose scope is started."""
        deadline = time.monotonic() + AUDIT_S
        while True:
            with contextlib.suppress(OSError, wire.Closed):
                door = node.erlang(AUDIT_S)
                if (answer := door.evaluate(f"named_processes:ready({SCOPE})")) == "ready":
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
            for node, door in zip(self.nodes, doors):
                door.evaluate(f"named_processes:sessions({SCOPE})")
                answer = door.evaluate(f"named_processes:records({SCOPE})")
                text = "" if answer == "[]" else re.fullmatch('"(.*)"', answer)[1]
                found += [f"{node.name}: {complaint}" for complaint in wrong([line for line in text.split(";") if line])]
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
        if len(live) != len(self.nodes):
            found.append(f"{len(live)} sessions of {len(self.nodes)} nodes")
        found += [f"the name {part} stays after its process {label}" for part, label in owners.items() if label not in alive]
        found += [f"a member of {part} stays after its process {label}" for part, label in members if label not in alive]
        owned = [words for words in lines if words[0] == "owned"]
        if len(owned) != len(owners) + members.total():
            found.append(f"{len(owners)} names, {members.total()} members, and {len(owned)} of processes")
        found += [f"something of the session {words[1]}, which has ended, stays" for words in owned if words[1] not in live]
        for label in alive & set(self.processes):
            for part, claim in self.processes[label].claims.items():
                if claim.token is not None:
                    is_certain = claim.is_held and claim.unknown_ns == NEVER_NS and (claim.is_own or claim.sessions <= live)
                    if is_certain and owners.get(part) != label:
                        found.append(f"{label} has got the name {part}, which is {owners.get(part)}'s")
                elif not claim.certain <= members[part, label] <= claim.certain + claim.uncertain:
                    found.append(f"{label} has joined {part} {claim.certain} times and is a member {members[part, label]} times")
        return found

    def note(self):
        """Writes what is known of each process into the history."""
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
            "joins": sum(claim.certain + claim.uncertain > 0 for process in self.processes.values() for part, claim in process.claims.items() if ".m" in part),
            "sessions_ended": len(used - self.newest), **self.waits(),
        }  # fmt: skip

    def waits(self) -> dict:
        """How long a name had no other owner after its owner ended, in seconds: median, longest. The clients ask again and again."""
        found = {"process": [], "node": []}
        # Others are asked for too seldom.
        for part, registered in ((part, found) for part, found in self.registrations.items() if part.split(".")[1] in NAMES):
            for (_, process), (next_ns, _) in zip(registered, registered[1:]):
                begin, end = process.death()
                if not process.claim(part).is_held or end > next_ns:
                    continue
                how = "process" if process.killed and process.killed[1] <= end else "node"
                found[how].append((next_ns - end) / 1e9)
        return {
            f"free_after_{how}_s": [round(sorted(waits)[len(waits) // 2], 2), round(max(waits), 2)] for how, waits in found.items() if waits
        }  # fmt: skip
