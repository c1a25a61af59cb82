"""Clients whose processes have names in a cluster scope and are members of its groups.

Some clients at each node start processes there (named_processes.erl.in), register them with a few names, and end them after a
random time: they are killed, or end in order, or their name is unregistered or moved. Others join groups and leave them. All
clients read owners and members, and one at each node reads copies only. The parts are names `n` and groups `m`; they change
every some seconds.

A process gives up its names when it ends, which no client sees, and when its node is silent for long. So a history also has a
line for each process: from when on its records may be removed (`free`), when it ended (`dead`), and from when on the session of
its node may have ended (`lost`). An unknown outcome counts as an end: it is taken back.

names_crew.py has what these clients know together, and names_audit.py what must be true after the last fault.
"""

from __future__ import annotations

import re
import time
from pathlib import Path

import clients
import served
import wire
from clients import Lost, Refused, Unexpected
from history import ABSENT, step

SOURCE = Path(__file__).resolve().parent / "named_processes.erl.in"
SCOPE = "faults"
# Of the clock of the clients: longer than a node is silent until its names are free.
GENERATIONS = 6
# One name is the same all the time, and only its owner gives it up: the others wait for it when its owner is lost.
PASSING, LASTING = ("n0", "n1", "n2"), "n3"
NAMES, GROUPS = (*PASSING, LASTING), ("m0", "m1")
PAUSE_S, COPIES_PAUSE_S, POLL_S = 0.015, 0.05, 0.5
PROCESSES_MAX = 8
# Chances: a process that ends while it is registered, one that wants its name again.
KILLED_EARLY, AGAIN = 0.15, 0.3
# Some names are asked for a few times only, so that nobody takes by accident what stays.
RARE, RARE_NAMES = 0.3, 30
HELD_S, HELD_FOR_LONG_S = (0.02, 0.1, 1), {"n2": 15, LASTING: 60}
# How many processes of a client stay until the audit, each with a name or in a group, and how often one is started.
STAYING_MAX, STAYING = 10, 0.02
KILLED_AFTER_MS = 6
NEVER_NS = (1 << 63) - 1
SESSIONS = r'"(\w+)","(\w+)"'


def are_there(nodes) -> bool:
    """Whether these nodes have names at all."""
    return (served.ROOT / "src" / "names").exists() and all(node.version == served.ROOT for node in nodes)


class Claim:
    """What a process has of a part: a name, or a number of times that it has joined."""

    def __init__(self, call_ns):
        self.call_ns = call_ns
        self.sessions = set()
        self.unknown_ns = NEVER_NS
        self.is_again = False
        # Of a name; one that nobody else asks for is got again after each loss.
        self.token, self.is_held, self.is_own = None, False, False
        # Whether the process wants to know that it may have lost the name, and when it was informed.
        self.is_notified, self.noticed_ns = False, NEVER_NS
        # When a client began to take the name from it.
        self.released_ns = NEVER_NS
        # Of a group.
        self.certain = self.uncertain = 0

    def release(self, call_ns):
        """A client has taken the name from the process, or may have."""
        self.is_held, self.released_ns = False, min(self.released_ns, call_ns)

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


class Reads(AtNode):
    """Reads names and groups."""

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

    def look_in(self, part, level="copied"):
        """The members."""
        def ask():
            return (self.run("members", f'<<"{part}">>', level, pattern=r'\{(?:"(.*)"|\[\])\}')[1] or ABSENT,)

        self.do(part, [step("members")], ask, level)

    def look_in_linear(self, part):
        """The same, as they are now."""
        self.look_in(part, "linear")


class Named(Reads):
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
            elif part := self.crew.take_freed(self.node):
                self.register_this(part)
            elif not self.give_up():
                action, parts = self.random.choice(self.actions())
                part = self.random.choice(parts)
                action(f"{0 if part == LASTING else generation}.{part}")
        except (Lost, OSError, wire.Closed):
            self._leave()
        except Refused:
            self._stop.wait(0.05)

    def actions(self) -> list:
        """What a client does, each as often as it is in the list."""
        reads = [(self.look, NAMES), (self.look_linear, NAMES), (self.owner, NAMES), (self.look_in, GROUPS), (self.look_in_linear, GROUPS)]
        writes = [(self.unregister_others, PASSING), (self.leave_group, GROUPS), (self.leave_group, GROUPS)]
        if len(self.held) + len(self.members) < PROCESSES_MAX:
            writes += [(self.register, NAMES)] * 5 + [(self.join_group, GROUPS)] * 3
        if self.random.random() < 0.05:
            writes.append((self.unregister_any, PASSING))
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
            self.register_this(f"{generation}.n9.{self.number}.{self.serial}", is_own=True)

    def register(self, part):
        """A new process asks for a name, or for one that few ask for."""
        self.register_this(part + f"{self.random.randrange(RARE_NAMES)}" if self.random.random() < RARE else part)

    def register_this(self, part, before=None, is_own=False):
        """A new process asks for this name; perhaps the one that has it is killed just before."""
        process = self.new()
        claim = process.claim(part)
        claim.is_own, claim.is_again = is_own, is_own or self.random.random() < AGAIN
        claim.is_notified = part.endswith(LASTING) or self.random.random() < 0.5
        options = f"#{{again=>{str(claim.is_again).lower()},notify=>{str(claim.is_notified).lower()}}}"
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
        longest_s = HELD_FOR_LONG_S.get(part.split(".")[1], self.random.choice(HELD_S))
        self.held.append((time.monotonic() + self.random.uniform(0, longest_s), process, part))

    def give_up(self) -> bool:
        """Gives up a name whose time has come, or kills a member."""
        for held in self.held:
            if held[0] < time.monotonic():
                self.held.remove(held)
                ways = (self.unregister, self.unregister, self.end_owner, self.end_owner, self.hand_over, self.hand_over, self.move)
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
            self.crew.freed(part, self.node)
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
        claim.release(call_ns)
        return saw

    def end_owner(self, process, part):
        """Ends the owner."""
        self.end(process, self.random.choice(("kill", "stop")))

    def hand_over(self, process, part):
        """Kills the owner, and registers another process of the node at once, while the removal is on its way."""
        self.register_this(part, process)
        self.end(process, "kill")

    def move(self, process, part):
        """Gives the name to another process by its token."""
        other = self.new()
        claim, token = other.claim(part), process.claim(part).token

        def ask():
            match = self.run("move", f'<<"{part}">>', token, f'"{other.pid}"', pattern=rf"\{{(no|\{{yes,(\d+)\}}),{SESSIONS}\}}")
            claim.sessions |= {match[3], match[4]}
            return (match[2] or "no",)

        call_ns = time.monotonic_ns()
        process.claim(part).release(call_ns)
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


def texts(processes) -> str:
    """A list of pids, as Erlang source."""
    return "[" + ",".join(f'"{process.pid}"' for process in processes) + "]"


def labels(processes) -> str:
    """Their labels."""
    return " ".join(sorted(process.label for process in processes))


class Copies(Reads):
    """Reads what the node may have copies of, also while it is cut off. What it had read before has changed then."""

    pause_s = COPIES_PAUSE_S

    def _turn(self):
        action, parts = self.random.choice(((self.owner, NAMES), (self.look_in, GROUPS)))
        part = self.random.choice(parts)
        generation = max(0, self.clock.generation() // GENERATIONS - self.random.choice((0, 0, 1)))
        try:
            action(f"{0 if part == LASTING else generation}.{part}")
        except (Lost, OSError, wire.Closed):
            self._leave()
        except Refused:
            self._stop.wait(0.05)


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
