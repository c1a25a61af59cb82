"""Clients of all protocols and of Erlang, which use a few keys together and record what they did.

The keys change every few seconds, so that each has a short history that can be checked in full. The kinds of parts are
registers `r`, counters `c`, texts `t`, groups of two registers and a counter `g` that change as one step, and records that
expire `e`. A client stays with a node, a member or a guest, until it is refused or gets no answer, then it goes to another one.
It repeats nothing.
"""

from __future__ import annotations

import random
import re
import threading
import time

import kyoto_wire
import wire
from history import ABSENT, step

ANSWER_TIMEOUT_S = 4.0
GENERATION_S = 2.5
PARTS = ("r0", "r1", "c0", "c1", "t0", "g0", "e0")
EXPIRY_MS = (500, 4_000)
PAUSE_S = 0.008
# How long a session waits for a node to come up to its writes.
AFTER_MS = 1_000
# How often a client that prefers guests goes to one.
AT_GUESTS = 0.8
REFUSED = ("LOADING", "TIMEOUT", "CLUSTERDOWN", "MISCONF", "OOM", "BUSY", "TRYAGAIN")


class Lost(Exception):
    """The answer does not say whether the operation took place."""


class Refused(Exception):
    """The answer says that it was not."""


class Unexpected(AssertionError):
    """An answer that must not come."""


class Clock:
    """Which keys are in use."""

    def __init__(self):
        self._began = time.monotonic()

    def generation(self) -> int:
        """A number that grows every few seconds."""
        return int((time.monotonic() - self._began) / GENERATION_S)


def key_of(part, number) -> bytes:
    """The key in the store."""
    return f"{part}.{number}".encode()


def keys_of(part) -> int:
    """How many keys a part has."""
    return 3 if ".g" in part else 1


class Client:
    """One client in a thread of its own."""

    door = ""
    # Whether the store has read levels.
    has_levels = False
    pause_s = PAUSE_S

    def __init__(self, number, cluster, history, clock, seed, read="bounded", prefers_guests=False):
        self.number, self.cluster, self.history, self.clock = number, cluster, history, clock
        self.random = random.Random(f"{seed} client {number}")
        self.read = read
        self.serial = self.connections = 0
        self.expired = set()
        self.prefers_guests = prefers_guests and bool(cluster.guests)
        places = cluster.guests if self.prefers_guests else cluster.nodes
        self.node = places[number % len(places)]
        # Of the node to which it is connected.
        self.memory = 0
        self.connection = None
        self.failure = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self):
        """Begins."""
        self._thread.start()

    def stop(self):
        """Ends after the present operation."""
        self._stop.set()

    def join(self):
        """Waits for the end; raises what went wrong."""
        self._thread.join(60)
        if self._thread.is_alive():
            raise AssertionError(f"client {self.number} of {self.door} hangs")
        if self.failure:
            raise self.failure

    def _run(self):
        try:
            while not self._stop.is_set():
                if self.connection is None and not self._connect():
                    self._stop.wait(0.1)
                    continue
                self._turn()
                self._stop.wait(self.random.expovariate(1 / self.pause_s))
        except BaseException as failure:  # for join()
            self.failure = failure
        finally:
            self._close()

    def _connect(self) -> bool:
        try:
            self.connection = self.connect()
            # Whatever the connection answers comes from this start of the node, or from none.
            self.memory = self.node.memory
            self.connections += 1
            self.name = f"{self.number}.{self.connections}"
            return True
        except (OSError, wire.Closed, Refused, Lost):
            self._leave()
            return False

    def _close(self):
        if self.connection is not None:
            self.connection.__exit__()
            self.connection = None

    def _leave(self):
        """Goes to another node."""
        self._close()
        is_at_guests = self.prefers_guests and self.random.random() < AT_GUESTS
        self.node = self.random.choice(self.cluster.guests if is_at_guests else self.cluster.servers)

    def _turn(self):
        part = f"{self.clock.generation()}.{self.random.choice(PARTS)}"
        choices = self.choices(part)
        if not choices:
            return
        action = self.random.choice(choices)
        try:
            action(part)
        except Lost:
            self._leave()
        except Refused:
            # Another node may do it.
            if self.random.random() < 0.5:
                self._leave()
            self._stop.wait(0.05)

    # For subclasses.

    def connect(self):
        """A connection to the node."""
        raise NotImplementedError

    def choices(self, part) -> list:
        """What the client can do with a part."""
        raise NotImplementedError

    def value(self) -> str:
        """A value that nobody else writes."""
        self.serial += 1
        return f"{self.number}:{self.serial}"

    def delta(self) -> str:
        """A number that no other increment of the key adds."""
        self.serial += 1
        return str(self.serial * 64 + self.number)

    def marker(self) -> str:
        """A text that nobody else appends."""
        self.serial += 1
        return f"({self.number}:{self.serial})"

    def do(self, part, steps, ask, level="log"):
        """Runs an operation: `ask` sends it and returns what the answer says about each step."""
        operation = self.history.begin({
            "client": self.number, "connection": self.name, "door": self.door, "node": self.node.number, "memory": self.memory,
            "part": part, "level": level, "steps": steps,
        })  # fmt: skip
        try:
            saw = ask()
        except Refused as why:
            operation.failed(str(why)[:80])
            raise
        except (Lost, OSError, wire.Closed) as why:
            operation.unknown((str(why) or type(why).__name__)[:80])
            raise Lost from why
        except BaseException as why:
            operation.unknown(f"{type(why).__name__}: {why}"[:200])
            raise
        operation.done(*saw, node=self.node)
        return saw

    def look(self, part, key=0):
        """A read of one key; returns the text."""
        return self.do(part, [step("get", key)], lambda: (self.get(key_of(part, key)),), self.read)[0]

    def get(self, key) -> str:
        """Reads."""
        raise NotImplementedError


def text(data) -> str:
    """A value as it is in the history."""
    return ABSENT if data is None else data.decode()


class Resp(Client):
    """RESP, with transactions."""

    door = "resp"

    def connect(self):
        connection = wire.Resp(self.node.address("resp"), ANSWER_TIMEOUT_S)
        if self.read in ("linear", "local") and self.has_levels:
            answer = connection.call("TODANA.READ", self.read)
            if answer != wire.OK:
                raise Refused(answer)
        return connection

    def choices(self, part):
        found = {
            "r": [self.set, self.swap, self.watch, self.look, self.add], "c": [self.incr, self.incr, self.look],
            "t": [self.append, self.append, self.look], "g": [self.group_write, self.group_read, self.group_read],
            "e": [self.expire, self.look],
        }  # fmt: skip
        return found[part.split(".")[1][0]]

    def call(self, *words):
        """One command; an error ends the operation."""
        return self.checked(self.connection.call(*words))

    @staticmethod
    def checked(answer):
        """An answer that is no error."""
        if isinstance(answer, wire.Error):
            if answer.text.startswith("UNKNOWN"):
                raise Lost(answer.text)
            if answer.text.startswith((*REFUSED, "EXECABORT")):
                raise Refused(answer.text)
            raise Unexpected(answer.text)
        return answer

    def get(self, key):
        return text(self.call("GET", key))

    def set(self, part):
        """SET."""
        value = self.value()
        self.do(part, [step("set", 0, value)], lambda: (self.call("SET", key_of(part, 0), value) and None,))

    def add(self, part):
        """SET NX."""
        value = self.value()

        def ask():
            return (str(self.call("SET", key_of(part, 0), value, "NX") == wire.OK).lower(),)

        self.do(part, [step("add", 0, value)], ask)

    def swap(self, part):
        """SET with the old value."""
        value = self.value()
        self.do(part, [step("swap", 0, value)], lambda: (text(self.call("SET", key_of(part, 0), value, "GET")),))

    def incr(self, part):
        """INCRBY."""
        delta = self.delta()
        self.do(part, [step("incr", 0, delta)], lambda: (str(self.call("INCRBY", key_of(part, 0), delta)),))

    def append(self, part):
        """APPEND."""
        marker = self.marker()
        self.do(part, [step("append", 0, marker)], lambda: (str(self.call("APPEND", key_of(part, 0), marker)),))

    def expire(self, part):
        """SET with an expiry, once for each key."""
        if self.number != 0 or part in self.expired:
            return
        self.expired.add(part)
        value = f"{self.random.randint(*EXPIRY_MS)}"
        self.do(part, [step("expire", 0, value)], lambda: (self.call("SET", key_of(part, 0), value, "PX", value) and None,))

    def watch(self, part):
        """WATCH, GET, MULTI, SET, EXEC. It may fail without a reason, so a failure means nothing."""
        key, value = key_of(part, 0), self.value()
        try:
            self.call("WATCH", key)
            expected = self.get(key)
        except (OSError, wire.Closed) as why:
            raise Lost from why

        def ask():
            self.transaction([("SET", key, value)])
            return ("true",)

        self.do(part, [step("cas", 0, value, expected)], ask)

    def transaction(self, commands):
        """MULTI, the commands, EXEC."""
        self.connection.send(b"".join(wire.encode(*words) for words in (("MULTI",), *commands, ("EXEC",))))
        answers = [self.connection.reply() for _ in range(len(commands) + 2)]
        answer = self.checked(answers[-1])
        assert answers[:-1] == [wire.OK, *[wire.QUEUED] * len(commands)], answers
        # Perhaps one of an earlier operation, which was refused after its WATCH.
        if answer in (None, wire.NULL_ARRAY):
            raise Refused("a watched key has changed")
        return answer

    def group_write(self, part):
        """Two registers and a counter."""
        one, two, delta = self.value(), self.value(), self.delta()
        keys = [key_of(part, number) for number in range(3)]

        def ask():
            answer = self.transaction([("SET", keys[0], one, "GET"), ("SET", keys[1], two, "GET"), ("INCRBY", keys[2], delta)])
            return (text(answer[0]), text(answer[1]), str(answer[2]))

        self.do(part, [step("swap", 0, one), step("swap", 1, two), step("incr", 2, delta)], ask)

    def group_read(self, part):
        """The registers, in the log because of the counter."""
        delta = self.delta()
        keys = [key_of(part, number) for number in range(3)]

        def ask():
            answer = self.transaction([("GET", keys[0]), ("GET", keys[1]), ("INCRBY", keys[2], delta)])
            return (text(answer[0]), text(answer[1]), str(answer[2]))

        self.do(part, [step("get", 0), step("get", 1), step("incr", 2, delta)], ask)


class Traveller(Resp):
    """Goes from node to node, and asks each new one to wait for what it has seen: a session over nodes."""

    sessions = index = 0

    def choices(self, part):
        found = {"c": [self.incr, self.look, self.travel], "t": [self.append, self.look, self.travel]}
        return found.get(part.split(".")[1][0], [])

    def connect(self):
        connection = super().connect()
        if self.index and not isinstance(answer := connection.call("TODANA.AFTER", self.index, AFTER_MS), int) and answer != wire.OK:
            connection.close()
            raise Refused(answer)
        return connection

    def _connect(self):
        is_connected = super()._connect()
        self.name = f"{self.number}.session{self.sessions}"
        return is_connected

    def do(self, *arguments):
        """Remembers how far the log was; a session whose end of the log is not known ends."""
        saw = super().do(*arguments)
        try:
            self.index = self.call("TODANA.INDEX")
        except (Lost, Refused, OSError, wire.Closed) as why:
            self.sessions, self.index = self.sessions + 1, 0
            raise Lost from why
        return saw

    def travel(self, part):
        """To another node."""
        self._leave()


class Memcached(Client):
    """memcached's text protocol."""

    door = "memcached"

    def connect(self):
        return wire.Memcached(self.node.address("memcached"), ANSWER_TIMEOUT_S)

    def choices(self, part):
        found = {"r": [self.set, self.add, self.cas, self.cas, self.look], "c": [self.incr, self.look], "t": [self.append, self.look], "e": [self.look]}
        return found.get(part.split(".")[1][0], [])

    @staticmethod
    def checked(line, *expected):
        """A line that is one of these."""
        if line in expected or line.split(b" ")[0] in expected:
            return line
        if line.startswith(b"SERVER_ERROR"):
            raise (Lost if b"unknown" in line else Refused)(line.decode())
        raise Unexpected(line)

    def store(self, verb, key, value, *more, expected):
        """One command with a value."""
        words = b" ".join([verb, key, b"0 0 %d" % len(value), *more])
        return self.checked(self.connection.command(words, value), *expected)

    def gets(self, key):
        """The value, or None, and its token."""
        line = self.checked(self.connection.command(b"gets " + key), b"END", b"VALUE")
        if line == b"END":
            return None, b""
        _, _, _, length, token = line.split(b" ")
        value = self.connection.take(int(length))
        assert self.connection.take(7) == b"\r\nEND\r\n"
        return value, token

    def get(self, key):
        return text(self.gets(key)[0])

    def set(self, part):
        """set."""
        value = self.value()
        self.do(part, [step("set", 0, value)], lambda: (self.store(b"set", key_of(part, 0), value.encode(), expected=[b"STORED"]) and None,))

    def add(self, part):
        """add."""
        value = self.value()

        def ask():
            line = self.store(b"add", key_of(part, 0), value.encode(), expected=[b"STORED", b"NOT_STORED"])
            return ("true" if line == b"STORED" else "false",)

        self.do(part, [step("add", 0, value)], ask)

    def cas(self, part):
        """gets, cas."""
        key, value = key_of(part, 0), self.value()
        try:
            before, token = self.gets(key)
        except (OSError, wire.Closed) as why:
            raise Lost from why
        if before is None:
            return

        def ask():
            line = self.store(b"cas", key, value.encode(), token, expected=[b"STORED", b"EXISTS", b"NOT_FOUND"])
            return ("true" if line == b"STORED" else "false",)

        self.do(part, [step("cas", 0, value, before.decode())], ask)

    def incr(self, part):
        """incr, which needs a record."""
        delta = self.delta()

        def ask():
            line = self.connection.command(b"incr %s %s" % (key_of(part, 0), delta.encode()))
            return (line.decode() if line.isdigit() else self.checked(line, b"NOT_FOUND") and ABSENT,)

        self.do(part, [step("incr_present", 0, delta)], ask)

    def append(self, part):
        """append, which needs a record."""
        marker = self.marker()

        def ask():
            line = self.store(b"append", key_of(part, 0), marker.encode(), expected=[b"STORED", b"NOT_STORED"])
            return ("true" if line == b"STORED" else "false",)

        self.do(part, [step("append_present", 0, marker)], ask)


class Kyoto(Client):
    """Kyoto Tycoon over HTTP."""

    door = "kyoto"

    def connect(self):
        return kyoto_wire.Kyoto(self.node.address("kyoto"), ANSWER_TIMEOUT_S)

    def choices(self, part):
        found = {"r": [self.set, self.add, self.cas, self.cas, self.look], "t": [self.append, self.look], "g": [self.group_write], "c": [self.look]}
        return found.get(part.split(".")[1][0], [])

    def call(self, procedure, rows, *allowed):
        """One procedure; returns the status and the rows."""
        answer = self.connection.call(procedure, rows)
        if answer.status in (200, *allowed):
            return answer
        error = answer.rows.get(b"ERROR", b"").decode()
        if answer.status == 503:
            raise Refused(error)
        if answer.status == 500 and "unknown" in error:
            raise Lost(error)
        raise Unexpected(answer)

    def get(self, key):
        return text(self.call("get", {"key": key}, 450).rows.get(b"value"))

    def set(self, part):
        """set."""
        value = self.value()
        self.do(part, [step("set", 0, value)], lambda: (self.call("set", {"key": key_of(part, 0), "value": value}) and None,))

    def add(self, part):
        """add."""
        value = self.value()
        rows = {"key": key_of(part, 0), "value": value}
        self.do(part, [step("add", 0, value)], lambda: (str(self.call("add", rows, 450).status == 200).lower(),))

    def cas(self, part):
        """cas, by value."""
        key, value = key_of(part, 0), self.value()
        before = self.look(part)
        rows = {"key": key, "nval": value} | ({} if before == ABSENT else {"oval": before})
        self.do(part, [step("cas", 0, value, before)], lambda: (str(self.call("cas", rows, 450).status == 200).lower(),))

    def append(self, part):
        """append."""
        marker = self.marker()
        self.do(part, [step("append", 0, marker)], lambda: (self.call("append", {"key": key_of(part, 0), "value": marker}) and None,))

    def group_write(self, part):
        """Both registers at once."""
        one, two = self.value(), self.value()
        rows = {"atomic": b"", b"_" + key_of(part, 0): one, b"_" + key_of(part, 1): two}
        self.do(part, [step("set", 0, one), step("set", 1, two)], lambda: (self.call("set_bulk", rows) and None, None))


class Erlang(Client):
    """A process in the node."""

    door = "erlang"

    def connect(self):
        return self.node.erlang(ANSWER_TIMEOUT_S)

    def choices(self, part):
        found = {"r": [self.set, self.update, self.look], "c": [self.incr, self.incr, self.look], "t": [self.append, self.look], "g": [self.group_write]}
        return found.get(part.split(".")[1][0], [])

    def evaluate(self, expression, pattern):
        """The value of an expression, which must match."""
        answer = self.connection.evaluate(expression)
        match = re.fullmatch(pattern, answer)
        if match:
            return match
        # A node that ends has no code server any more, so it loads no module.
        if re.search(r"error,unknown|code_server", answer):
            raise Lost(answer)
        if re.search(r"recovering|log_failed|unavailable|no_leader|conflict|read_only", answer):
            raise Refused(answer)
        # The application has stopped, and the node ends next.
        if answer == "{error,badarg}" and self.connection.evaluate("element(1,init:get_status())") == "stopping":
            raise Lost(answer)
        raise Unexpected(f"{expression}: {answer}")

    def get(self, key):
        if self.has_levels:
            expression = f'todana:get(db0,<<"{key.decode()}">>,none,#{{read=>{self.read}}})'
            return self.evaluate(expression, r'none|<<"(.*)">>')[1] or ABSENT
        return self.evaluate(f'todana:get(db0,<<"{key.decode()}">>)', r'error|\{ok,<<"(.*)">>\}')[1] or ABSENT

    def set(self, part):
        """put."""
        value = self.value()
        expression = f'todana:put(db0,<<"{part}.0">>,<<"{value}">>)'
        self.do(part, [step("set", 0, value)], lambda: (self.evaluate(expression, "ok") and None,))

    def incr(self, part):
        """update_counter."""
        delta = self.delta()
        expression = f'todana:update_counter(db0,<<"{part}.0">>,{delta},#{{}})'
        self.do(part, [step("incr", 0, delta)], lambda: (self.evaluate(expression, r"\{ok,(\d+)\}")[1],))

    def append(self, part):
        """update, which appends."""
        marker = self.marker()
        body = f'({{ok,B}})->{{put,<<B/binary,"{marker}">>}};(error)->{{put,<<"{marker}">>}}'
        expression = f'case todana:update(db0,<<"{part}.0">>,fun{body} end) of {{ok,B}}->{{ok,byte_size(B)}};Other->Other end'
        self.do(part, [step("append", 0, marker)], lambda: (self.evaluate(expression, r"\{ok,(\d+)\}")[1],))

    def update(self, part):
        """update of the value that was read before."""
        value = self.value()
        before = self.look(part)
        pattern = "error" if before == ABSENT else f'{{ok,<<"{before}">>}}'
        expression = f'todana:update(db0,<<"{part}.0">>,fun({pattern})->{{put,<<"{value}">>}};(_)->{{error,conflict}} end)'
        self.do(part, [step("cas", 0, value, before)], lambda: (self.evaluate(expression, r"\{ok,.*\}") and "true",))

    def group_write(self, part):
        """put_many as one step."""
        one, two = self.value(), self.value()
        expression = f'todana:put_many(db0,[{{<<"{part}.0">>,<<"{one}">>}},{{<<"{part}.1">>,<<"{two}">>}}],#{{atomic=>true}})'
        self.do(part, [step("set", 0, one), step("set", 1, two)], lambda: (self.evaluate(expression, "ok") and None, None))


def crew(cluster, history, clock, seed, *, has_levels):
    """One client or more of each kind, and one that prefers guests."""
    Client.has_levels = has_levels
    kinds = [(kind, "bounded", False) for kind in (Resp, Resp, Memcached, Kyoto, Resp, Resp)]
    kinds += [(Erlang, "local", False), (Erlang, "linear", False), (Resp, "linear", False), (Resp, "linear", False), (Traveller, "local", False)]
    kinds += [(Resp, "bounded", True), (Memcached, "bounded", True), (Kyoto, "bounded", True), (Resp, "local", True), (Erlang, "local", True)]
    if not has_levels:
        kinds = [(kind, "local", prefers) for kind, _, prefers in kinds if kind is not Traveller]
    return [kind(number, cluster, history, clock, seed, *how) for number, (kind, *how) in enumerate(kinds)]
