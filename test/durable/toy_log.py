"""A small durable store that speaks some RESP, with faults on demand: the subject on which the harness is proved.

    toy_log.py PORT DIRECTORY [--FAULT]...

It keeps its records in memory, appends each batch of requests to a log, syncs it and then replies. When the log is long
it writes a snapshot and begins another log. The faults that can be planted:

    buffered      replies before write(2), so that SIGKILL loses acknowledged writes
    twice         applies the last record of the log twice when it starts
    torn          writes the operations of a batch as separate records
    no-sync       never syncs
    late-sync     replies before fdatasync
    no-directory  does not sync the directory after it has renamed the snapshot
    no-checksum   believes every record of the log
    empty         answers reads before the log is read
"""

from __future__ import annotations

import marshal
import os
import selectors
import signal
import socket
import struct
import sys
import threading
import time
import zlib
from pathlib import Path

import ledger

LOG_BYTES_MAX = 512 << 10
RECORD = struct.Struct(">II")
LOADING_S = 0.1


class Log:
    """The files of the toy: `snapshot-N` is the state at the beginning of `log-N`."""

    def __init__(self, directory, faults):
        self.directory, self.faults = Path(directory), faults
        self.state = {}
        self.buffer = b""
        numbers = [int(path.name[9:]) for path in self.directory.glob("snapshot-*") if path.name[9:].isdigit()]
        self.number = max(numbers, default=0)
        if numbers:
            self.state = marshal.loads(self._path("snapshot").read_bytes())
        self._replay()
        self.file = os.open(self._path("log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.fsync(self.file)
        self._sync_directory()

    def _path(self, kind, number=None):
        return self.directory / f"{kind}-{self.number if number is None else number}"

    def _replay(self):
        path = self._path("log")
        data = path.read_bytes() if path.exists() else b""
        at, last = 0, None
        while at + RECORD.size <= len(data):
            length, checksum = RECORD.unpack_from(data, at)
            body = data[at + RECORD.size : at + RECORD.size + length]
            if "no-checksum" not in self.faults and (len(body) < length or zlib.crc32(body) != checksum):
                break
            try:
                last = marshal.loads(body)
            except (ValueError, EOFError, TypeError):
                break
            for unit in last:
                ledger.apply(self.state, unit)
            at += RECORD.size + length
        if "twice" in self.faults and last:
            for unit in last:
                ledger.apply(self.state, unit)
        if at < len(data):
            os.truncate(path, at)

    def _sync_directory(self):
        if "no-directory" in self.faults:
            return
        descriptor = os.open(self.directory, os.O_RDONLY | os.O_DIRECTORY)
        os.fsync(descriptor)
        os.close(descriptor)

    def write(self, units):
        """Appends and syncs units; then they may be acknowledged."""
        if "torn" in self.faults:
            units = [(operation,) for unit in units for operation in unit]
            data = b"".join(self._record([unit]) for unit in units)
        else:
            data = self._record(units)
        if "buffered" in self.faults:
            self.buffer += data
            if len(self.buffer) < 20_000:
                return
            data, self.buffer = self.buffer, b""
        half = len(data) // 2
        # Two writes, so that SIGKILL can come between them.
        os.write(self.file, data[:half])
        if "torn" in self.faults:
            time.sleep(0.005)
        os.write(self.file, data[half:])
        if "no-sync" not in self.faults and "late-sync" not in self.faults:
            os.fdatasync(self.file)

    @staticmethod
    def _record(units):
        body = marshal.dumps([[tuple(operation) for operation in unit] for unit in units])
        return RECORD.pack(len(body), zlib.crc32(body)) + body

    def after_reply(self):
        """What may happen after the acknowledgement."""
        if "late-sync" in self.faults:
            os.fdatasync(self.file)
        if os.fstat(self.file).st_size > LOG_BYTES_MAX:
            self._begin_another()

    def _begin_another(self):
        before = [self._path("log"), self._path("snapshot")]
        os.close(self.file)
        self.file = os.open(self._path("log", self.number + 1), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.fsync(self.file)
        new = self.directory / "snapshot.new"
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        data = marshal.dumps(self.state)
        while data:
            data = data[os.write(descriptor, data[: 1 << 16]) :]
        os.fsync(descriptor)
        os.close(descriptor)
        self.number += 1
        os.rename(new, self._path("snapshot"))
        self._sync_directory()
        for path in before:
            if path.exists():
                os.unlink(path)


class Client:
    """A connection: its input, its database and its transaction."""

    def __init__(self, accepted):
        self.socket = accepted
        self.input = b""
        self.database = 0
        self.queue = None

    def requests(self):
        """The complete requests of the input."""
        while True:
            request, used = parse(self.input)
            if request is None:
                return
            self.input = self.input[used:]
            yield request


def parse(data):
    """A request, and how many bytes it has; (None, 0) if it is incomplete."""
    at = data.find(b"\r\n")
    if at < 0:
        return None, 0
    words, at = [], at + 2
    for _ in range(int(data[1 : at - 2])):
        end = data.find(b"\r\n", at)
        if end < 0:
            return None, 0
        length = int(data[at + 1 : end])
        if len(data) < end + 4 + length:
            return None, 0
        words.append(data[end + 2 : end + 2 + length])
        at = end + 4 + length
    return words, at


class Toy:
    """The server: one thread, one batch of all ready connections at a time."""

    def __init__(self, port, directory, faults):
        self.faults = faults
        self.log = None
        self.selector = selectors.DefaultSelector()
        listener = socket.create_server(("127.0.0.1", port))
        self.selector.register(listener, selectors.EVENT_READ)
        self.listener = listener
        self.loading = threading.Thread(target=self._load, args=(directory,), daemon=True)
        self.loading.start()

    def _load(self, directory):
        time.sleep(LOADING_S)
        self.log = Log(directory, self.faults)

    def run(self):
        """Serves until it is killed."""
        while True:
            units, replies = [], []
            for key, _ in self.selector.select():
                if key.fileobj is self.listener:
                    accepted, _ = self.listener.accept()
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    self.selector.register(accepted, selectors.EVENT_READ, Client(accepted))
                    continue
                client = key.data
                try:
                    data = client.socket.recv(1 << 20)
                except ConnectionResetError:
                    data = b""
                if not data:
                    self.selector.unregister(client.socket)
                    client.socket.close()
                    continue
                client.input += data
                output = b"".join(self.answer(client, words, units) for words in client.requests())
                replies.append((client, output))
            if units:
                self.log.write(units)
            for client, output in replies:
                client.socket.sendall(output)
            if units:
                self.log.after_reply()

    def answer(self, client, words, units) -> bytes:
        """Executes a request; its changes are added to the units."""
        verb = words[0].upper().decode()
        if self.log is None:
            if "empty" in self.faults:
                return b"$-1\r\n" if verb == "GET" else b":0\r\n"
            return b"-LOADING the log is being read\r\n"
        if verb == "SELECT":
            client.database = int(words[1])
            return b"+OK\r\n"
        if verb == "WATCH":
            return b"+OK\r\n"
        if verb == "MULTI":
            client.queue = []
            return b"+OK\r\n"
        if verb == "EXEC":
            unit, queue, client.queue = [], client.queue, None
            answers = [self._execute(client, each, unit) for each in queue]
            units.append(unit)
            return b"*%d\r\n" % len(answers) + b"".join(answers)
        if client.queue is not None:
            client.queue.append(words)
            return b"+QUEUED\r\n"
        unit = []
        output = self._execute(client, words, unit)
        if unit:
            units.append(unit)
        return output

    def _execute(self, client, words, unit) -> bytes:
        verb, *arguments = words
        state, database = self.log.state, client.database
        place = (database, arguments[0] if arguments else b"")
        operations, output = [], b"+OK\r\n"
        match verb.upper().decode():
            case "GET":
                return bulk(state.get(place))
            case "EXISTS":
                return b":%d\r\n" % (place in state)
            case "MGET":
                return b"*%d\r\n" % len(arguments) + b"".join(bulk(state.get((database, key))) for key in arguments)
            case "SET":
                operations = [("set", place, arguments[1])]
            case "GETSET":
                operations, output = [("set", place, arguments[1])], bulk(state.get(place))
            case "MSET":
                operations = [("set", (database, key), value) for key, value in zip(arguments[::2], arguments[1::2])]
            case "INCRBY":
                operations = [("add", place, int(arguments[1]))]
                output = b":%d\r\n" % (int(state.get(place, b"0")) + int(arguments[1]))
            case "APPEND":
                operations = [("append", place, arguments[1])]
                output = b":%d\r\n" % (len(state.get(place, b"")) + len(arguments[1]))
            case "DEL":
                operations, output = [("delete", place, None)], b":%d\r\n" % (place in state)
            case "RENAME":
                operations = [("rename", place, (database, arguments[1]))]
            case "FLUSHDB":
                operations = [("flush", (database, b""), None)]
            case "SWAPDB":
                operations = [("swap", (int(arguments[0]), b""), int(arguments[1]))]
            case other:
                return b"-ERR unknown command '%s'\r\n" % other.encode()
        ledger.apply(state, operations)
        unit += operations
        return output


def bulk(value) -> bytes:
    """A value as RESP."""
    return b"$-1\r\n" if value is None else b"$%d\r\n%s\r\n" % (len(value), value)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    Toy(int(sys.argv[1]), sys.argv[2], {flag.removeprefix("--") for flag in sys.argv[3:]}).run()
