"""Clients that write without pause until the server disappears, and keep a ledger of what was acknowledged.

A class per protocol and style. Each has keys of its own: counters, to which it adds unique numbers; texts, to which it
appends numbered markers; and plain records with the number of their last write.
"""

from __future__ import annotations

import re
import socket
import threading

import kyoto_wire
import ledger
import wire
from ledger import Operation

# A server that is alive answers within this time, also on a busy machine.
ANSWER_TIMEOUT_S = 60.0
KEYS = 6
PIPELINE_MAX = 64
BULK_MAX = 40
# Large values make snapshots and new log files frequent.
VALUE_BYTES = (0, 10, 100, 100, 1_000, 20_000)
# Answers that mean: not executed, and never will be.
NOT_EXECUTED = ("LOADING", "CLUSTERDOWN", "MISCONF", "OOM", "BUSY", "EXECABORT")
EXPIRY_S = 500_000


class Stopped(Exception):
    """The client cannot go on in this round: the server is gone, refuses writes, or does not know an outcome."""


class Writer:
    """A client in a thread of its own."""

    protocol = "resp"
    databases = (0,)
    value_bytes = VALUE_BYTES

    def __init__(self, random, number, on_acknowledged=None):
        self.random = random
        self.name = f"{type(self).__name__.lower()}{number}"
        self.ledger = ledger.Ledger(self.name, on_acknowledged)
        self.serial = 0
        self.failure = None
        self.refusals = 0
        self.last_word = None
        self._stop = threading.Event()
        self._thread = None

    def places(self) -> list[tuple]:
        """All records that this client may write."""
        names = [kind + str(index) for kind in ("counter", "text", "record") for index in range(KEYS)]
        return [(database, f"{self.name}:{name}".encode()) for database in self.databases for name in names]

    def start(self, node):
        """Begins to write."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, args=(node,), daemon=True)
        self._thread.start()

    def stop(self):
        """Ends the writing after the current request."""
        self._stop.set()

    def is_writing(self) -> bool:
        """Whether nothing has stopped the client."""
        return self._thread.is_alive()

    def join(self):
        """Waits until the client has stopped; raises its failure."""
        self._thread.join(ANSWER_TIMEOUT_S + 10)
        if self._thread.is_alive():
            raise AssertionError(f"{self.name}: the client hangs")
        if self.failure:
            raise self.failure

    def _run(self, node):
        try:
            with self.connect(node) as connection:
                while not self._stop.is_set():
                    self.turn(connection)
        except (OSError, wire.Closed, Stopped) as ended:
            self.last_word = str(ended) or type(ended).__name__
            if isinstance(ended, TimeoutError):
                self.failure = AssertionError(f"{self.name}: no answer within {ANSWER_TIMEOUT_S} s")
        except BaseException as failure:  # for join()
            self.failure = failure

    def connect(self, node):
        """A connection to the node."""
        raise NotImplementedError

    def turn(self, connection):
        """Sends some units and reads their answers."""
        raise NotImplementedError

    # What to write.

    def place(self, kind, database=None):
        """One of the client's keys."""
        chosen = self.random.choice(self.databases) if database is None else database
        return chosen, f"{self.name}:{kind}{self.random.randrange(KEYS)}".encode()

    def value(self):
        """A value that this client has not written before."""
        self.serial += 1
        return b"%d " % self.serial + b"x" * self.random.choice(self.value_bytes)

    def change(self, names=("set", "add", "append", "delete"), database=None) -> Operation:
        """A random operation."""
        name = self.random.choice(names)
        self.serial += 1
        if name in ("add", "add_binary"):
            return Operation(name, self.place("counter", database), self.random.randrange(1, 1 << 24) << 8 | self.serial & 0xFF)
        if name in ("append", "prepend"):
            place = self.place("text", database)
            if len(self.ledger.ahead.get(place, b"")) > ledger.VALUE_BYTES_MAX:
                return Operation("set", place, b"<%d>" % self.serial)
            return Operation(name, place, b"<%d>" % self.serial)
        if name == "delete":
            return Operation(name, self.place("record", database))
        return Operation(name, self.place("record", database), self.value())

    def distinct(self, count, names, database=None) -> list[Operation]:
        """Random operations on different keys of one database."""
        database = self.random.choice(self.databases) if database is None else database
        found = {}
        for _ in range(count):
            operation = self.change(names, database)
            found.setdefault(operation.place, operation)
        return list(found.values())


def refuse_or_fail(writer, text, is_last=True):
    """Handles the words of an error: raises Stopped if the server refuses or does not know, else fails."""
    if text.startswith("UNKNOWN") or "outcome unknown" in text:
        raise Stopped(text)
    if text.startswith(NOT_EXECUTED) or any(words in text for words in ("temporary failure", "loading", "accepts no writes")):
        writer.refusals += 1
        if is_last:
            writer.ledger.refused()
        raise Stopped(text)
    raise AssertionError(f"{writer.name}: unexpected answer {text!r}")


class RespSession(wire.Resp):
    """A RESP connection that remembers its database."""

    def __init__(self, node):
        super().__init__(node.address("resp"), ANSWER_TIMEOUT_S)
        self.database = 0

    def select(self, database) -> bytes:
        """The request that selects a database; empty if it is selected."""
        if database == self.database:
            return b""
        self.database = database
        return wire.encode("SELECT", database)


class Resp(Writer):
    """One RESP request after the other."""

    databases = (0, 1)

    def connect(self, node):
        return RespSession(node)

    def turn(self, connection):
        name = self.random.choice(("one", "one", "one", "mset", "rename", "expiry", "getset"))
        if name == "mset":
            unit = tuple(self.distinct(8, ("set",)))
            pairs = [word for each in unit for word in (each.place[1], each.argument)]
            self.run(connection, unit, ["MSET", *pairs], wire.OK)
        elif name == "rename" and (pair := self.renamable()):
            self.run(connection, (Operation("rename", *pair),), ["RENAME", pair[0][1], pair[1][1]], wire.OK)
        elif name == "expiry":
            operation = self.change(("set",))
            self.run(connection, (operation,), ["SET", operation.place[1], operation.argument, "EX", EXPIRY_S], wire.OK)
        elif name == "getset":
            operation = self.change(("set",))
            before = self.ledger.ahead.get(operation.place)
            self.run(connection, (operation,), ["GETSET", operation.place[1], operation.argument], before)
        else:
            operation = self.change()
            self.run(connection, (operation,), resp_words(operation), resp_answer(operation, self.ledger.ahead))

    def renamable(self):
        """A record that exists, and another key of the same database."""
        existing = sorted(place for place in self.ledger.ahead if b":record" in place[1])
        if not existing:
            return None
        source = self.random.choice(existing)
        target = self.place("record", source[0])
        return (source, target) if source != target else None

    def run(self, connection, unit, words, expected):
        """Sends one request and compares its answer."""
        selected = connection.select(unit[0].place[0])
        self.ledger.sent(unit)
        connection.send(selected + wire.encode(*words))
        if selected:
            check_answer(self, connection.reply(), wire.OK)
        check_answer(self, connection.reply(), expected)
        self.ledger.acknowledge()


def resp_words(operation):
    """The request of one operation."""
    key = operation.place[1]
    verbs = {"set": "SET", "add": "INCRBY", "append": "APPEND"}
    if operation.name == "delete":
        return ["DEL", key]
    return [verbs[operation.name], key, operation.argument]


def resp_answer(operation, ahead):
    """The answer of an operation in this state."""
    before = ahead.get(operation.place)
    if operation.name == "add":
        return int(before or 0) + operation.argument
    if operation.name == "append":
        return len(before or b"") + len(operation.argument)
    if operation.name == "delete":
        return int(before is not None)
    return wire.OK


def check_answer(writer, answer, expected, is_last=True):
    """Compares an answer; an error may mean that the client has to stop."""
    if isinstance(answer, wire.Error) and answer != expected:
        refuse_or_fail(writer, answer.text, is_last)
    if answer != expected:
        raise ledger.Wrong(f"{writer.name}: answered {answer!r}, expected {expected!r}")


class Pipelined(Writer):
    """Many RESP writes in one packet, with reads between them."""

    databases = (0, 5)

    def connect(self, node):
        return RespSession(node)

    def turn(self, connection):
        database = self.random.choice(self.databases)
        request, expected = [connection.select(database)], []
        if request[0]:
            expected.append((wire.OK, False))
        for _ in range(self.random.randint(1, PIPELINE_MAX)):
            if self.random.random() < 0.2:
                place = self.place(self.random.choice(("counter", "text", "record")), database)
                request.append(wire.encode("GET", place[1]))
                expected.append((self.ledger.ahead.get(place), False))
                continue
            operation = self.change(database=database)
            request.append(wire.encode(*resp_words(operation)))
            expected.append((resp_answer(operation, self.ledger.ahead), True))
            self.ledger.sent((operation,))
        connection.send(b"".join(request))
        for answer, is_write in expected:
            check_answer(self, connection.reply(), answer, is_last=False)
            if is_write:
                self.ledger.acknowledge()


class Transactions(Writer):
    """MULTI and EXEC over several keys, with and without WATCH."""

    databases = (2,)

    def connect(self, node):
        connection = RespSession(node)
        connection.send(connection.select(2))
        check_answer(self, connection.reply(), wire.OK, is_last=False)
        return connection

    def turn(self, connection):
        if self.random.random() < 0.3:
            connection.send(wire.encode("WATCH", self.place("record")[1]))
            check_answer(self, connection.reply(), wire.OK, is_last=False)
        unit = tuple(self.distinct(self.random.randint(1, 12), ("set", "add", "append", "delete")))
        expected = [resp_answer(operation, self.ledger.ahead) for operation in unit]
        request = [wire.encode(*resp_words(operation)) for operation in unit]
        self.ledger.sent(unit)
        connection.send(b"".join([wire.encode("MULTI"), *request, wire.encode("EXEC")]))
        check_answer(self, connection.reply(), wire.OK, is_last=False)
        for _ in unit:
            check_answer(self, connection.reply(), wire.QUEUED, is_last=False)
        check_answer(self, connection.reply(), expected)
        self.ledger.acknowledge()


class Databases(Writer):
    """SWAPDB and FLUSHDB of two databases that nobody else uses."""

    databases = (8, 9)

    def connect(self, node):
        return RespSession(node)

    def turn(self, connection):
        chance = self.random.random()
        if chance < 0.1:
            self.one(connection, (Operation("swap", (8, b""), 9),), ["SWAPDB", 8, 9])
        elif chance < 0.15:
            self.one(connection, (Operation("flush", (self.random.choice((8, 9)), b"")),), ["FLUSHDB"])
        else:
            operation = self.change()
            self.one(connection, (operation,), resp_words(operation), resp_answer(operation, self.ledger.ahead))

    def one(self, connection, unit, words, expected=wire.OK):
        """One request in its database."""
        selected = connection.select(unit[0].place[0])
        self.ledger.sent(unit)
        connection.send(selected + wire.encode(*words))
        if selected:
            check_answer(self, connection.reply(), wire.OK)
        check_answer(self, connection.reply(), expected)
        self.ledger.acknowledge()


class Memcached(Writer):
    """memcached's text protocol, one request after the other."""

    protocol = "memcached"

    def connect(self, node):
        return wire.Memcached(node.address("memcached"), ANSWER_TIMEOUT_S)

    def turn(self, connection):
        operation = self.change(("set", "add", "append", "prepend", "delete"))
        before = self.ledger.ahead.get(operation.place)
        if before is None and operation.name in ("add", "append", "prepend"):
            # These commands need a record.
            operation = operation._replace(name="set", argument=wire.to_bytes(operation.argument))
        request, expected = memcached_request(operation, before)
        self.ledger.sent((operation,))
        connection.send(request + b"\r\n")
        answer = connection.line()
        if answer != expected:
            if answer.startswith(b"SERVER_ERROR"):
                refuse_or_fail(self, answer.decode())
            raise ledger.Wrong(f"{self.name}: {request[:60]!r} answered {answer!r}, expected {expected!r}")
        self.ledger.acknowledge()


def memcached_request(operation, before):
    """A request without its last line end, and its answer."""
    key = operation.place[1]
    if operation.name == "add":
        return b"incr %s %d" % (key, operation.argument), b"%d" % (int(before) + operation.argument)
    if operation.name == "delete":
        return b"delete %s" % key, b"NOT_FOUND" if before is None else b"DELETED"
    head = b"%s %s 7 0 %d\r\n" % (operation.name.encode(), key, len(operation.argument))
    return head + operation.argument, b"STORED"


class Quiet(Writer):
    """memcached's noreply and quiet meta commands. The answer to `mn` acknowledges all that came before it."""

    protocol = "memcached"

    def connect(self, node):
        return wire.Memcached(node.address("memcached"), ANSWER_TIMEOUT_S)

    def turn(self, connection):
        request, count = [], self.random.randint(1, PIPELINE_MAX)
        for _ in range(count):
            operation = self.change(("set", "append", "prepend"))
            before = self.ledger.ahead.get(operation.place)
            if before is None:
                operation = operation._replace(name="set")
            key, data = operation.place[1], operation.argument
            if self.random.random() < 0.5:
                request.append(b"%s %s 0 0 %d noreply\r\n%s\r\n" % (operation.name.encode(), key, len(data), data))
            else:
                mode = {"set": b"S", "append": b"A", "prepend": b"P"}[operation.name]
                request.append(b"ms %s %d q M%s\r\n%s\r\n" % (key, len(data), mode, data))
            self.ledger.sent((operation,))
        connection.send(b"".join([*request, b"mn\r\n"]))
        answer = connection.line()
        if answer != b"MN":
            refuse_or_fail(self, answer.decode(), is_last=False)
        self.ledger.acknowledge(count)


class KyotoHttp(Writer):
    """Kyoto Tycoon over HTTP: single records, and atomic bulks."""

    protocol = "kyoto"

    def connect(self, node):
        return kyoto_wire.Kyoto(node.address("kyoto"), ANSWER_TIMEOUT_S)

    def turn(self, connection):
        if self.random.random() < 0.25:
            unit = tuple(self.distinct(self.random.randint(1, BULK_MAX), ("set",)))
            rows = {b"_" + each.place[1]: each.argument for each in unit}
            self.ask(connection, unit, "set_bulk", {"atomic": b"", **rows})
            return
        operation = self.change(("set", "add_binary", "append", "delete"))
        key, before = operation.place[1], self.ledger.ahead.get(operation.place)
        if operation.name == "add_binary":
            self.ask(connection, (operation,), "increment", {"key": key, "num": operation.argument})
        elif operation.name == "delete":
            self.ask(connection, (operation,), "remove", {"key": key}, status=450 if before is None else 200)
        else:
            self.ask(connection, (operation,), operation.name, {"key": key, "value": operation.argument})

    def ask(self, connection, unit, procedure, rows, status=200):
        """Runs a procedure."""
        self.ledger.sent(unit)
        answer = connection.call(procedure, rows)
        if answer.status in (500, 503):
            refuse_or_fail(self, answer.rows.get(b"ERROR", b"temporary failure").decode())
        if answer.status != status:
            raise ledger.Wrong(f"{self.name}: {procedure} answered {answer!r}")
        self.ledger.acknowledge()


class KyotoBinary(Writer):
    """Kyoto Tycoon's binary bulk requests, whose records are separate units."""

    protocol = "kyoto"

    def connect(self, node):
        return kyoto_wire.Kyoto(node.address("kyoto"), ANSWER_TIMEOUT_S)

    def turn(self, connection):
        if self.random.random() < 0.2:
            unit = self.distinct(self.random.randint(1, BULK_MAX), ("delete",), 0)
            request = kyoto_wire.frame_of_keys(kyoto_wire.REMOVE_BULK, [(0, each.place[1]) for each in unit])
            expected = sum(each.place in self.ledger.ahead for each in unit)
            magic = kyoto_wire.REMOVE_BULK
        else:
            unit = self.distinct(self.random.randint(1, BULK_MAX), ("set",), 0)
            request = kyoto_wire.frame_of_set([(0, each.place[1], each.argument, kyoto_wire.NEVER) for each in unit])
            expected, magic = len(unit), kyoto_wire.SET_BULK
        for each in unit:
            self.ledger.sent((each,))
        connection.send(request)
        first = connection.take(1)
        if first == kyoto_wire.FAILED:
            # The protocol's only error has no words: the records may or may not be there.
            raise Stopped("the binary protocol's error")
        if first != magic:
            raise AssertionError(f"{self.name}: answered {first!r}")
        count = int.from_bytes(connection.take(4), "big")
        if count != expected:
            raise ledger.Wrong(f"{self.name}: {count} records, expected {expected}")
        self.ledger.acknowledge(len(unit))


class Erlang(Writer):
    """An Erlang process of the node, which runs the expressions that this client sends to it.

    Its records are in database 0 (database number 0) and in a named durable table (`TABLE`).
    """

    protocol = "erlang"
    TABLE = "crash"
    databases = (0, TABLE)
    # The values are part of an expression.
    value_bytes = (0, 10, 100, 1_000)

    def connect(self, node):
        return node.erlang(ANSWER_TIMEOUT_S)

    def turn(self, connection):
        chance = self.random.random()
        if chance < 0.15:
            unit = tuple(self.distinct(self.random.randint(1, BULK_MAX), ("set",)))
            table = erlang_table(unit[0].place[0])
            pairs = ",".join(f"{{{binary(each.place[1])},{binary(each.argument)}}}" for each in unit)
            self.ask(connection, unit, f"todana:put_many({table},[{pairs}],#{{atomic=>true}})", "ok")
            return
        operation = self.change(("set", "add", "append", "delete"))
        table, key = erlang_table(operation.place[0]), binary(operation.place[1])
        before = self.ledger.ahead.get(operation.place)
        if operation.name == "add":
            total = int(before or b"0") + operation.argument
            self.ask(connection, (operation,), f"todana:update_counter({table},{key},{operation.argument},#{{}})", f"{{ok,{total}}}")
        elif operation.name == "delete":
            self.ask(connection, (operation,), f"todana:delete({table},{key})", "error" if before is None else "ok")
        elif operation.name == "append":
            body = f"{{ok,B}})->{{put,<<B/binary,{binary(operation.argument)[2:-2]}>>}};(error)->{{put,{binary(operation.argument)}}}"
            text = f"case todana:update({table},{key},fun({body} end) of {{ok,_}}->ok;Other->Other end"
            self.ask(connection, (operation,), text, "ok")
        else:
            self.ask(connection, (operation,), f"todana:put({table},{key},{binary(operation.argument)})", "ok")

    def ask(self, connection, unit, text, expected):
        """Evaluates an expression, which runs the unit."""
        self.ledger.sent(unit)
        answer = connection.evaluate(text)
        if answer != expected:
            if re.search(r"\bunknown\b", answer):
                raise Stopped(answer)
            if re.search(r"recovering|unavailable|loading|read_only", answer):
                self.refusals += 1
                self.ledger.refused()
                raise Stopped(answer)
            raise ledger.Wrong(f"{self.name}: {text[:200]} returned {answer}, expected {expected}")
        self.ledger.acknowledge()


def erlang_table(database) -> str:
    """The name of a table in Erlang."""
    return f"db{database}" if isinstance(database, int) else database


def binary(data: bytes) -> str:
    """A binary as Erlang source."""
    return '<<"' + data.decode("latin-1") + '">>'


class ErlangConnection:
    """The socket to a process inside the node that evaluates expressions; see erlang_door.erl.in."""

    def __init__(self, accepted: socket.socket):
        self.socket = accepted
        self.lines = accepted.makefile("rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def evaluate(self, text: str) -> str:
        """The value of an expression, as Erlang prints it."""
        self.socket.sendall(text.encode("latin-1") + b".\n")
        line = self.lines.readline()
        if not line.endswith(b"\n"):
            raise wire.Closed("the node has ended")
        return line.decode("latin-1").rstrip("\n")


EVERY_PROTOCOL = (Resp, Pipelined, Transactions, Databases, Memcached, Quiet, KyotoHttp, KyotoBinary, Erlang)
REDIS_ONLY = (Resp, Pipelined, Transactions, Databases)
