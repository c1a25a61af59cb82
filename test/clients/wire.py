"""Raw sockets for RESP and memcached, for tests that compare bytes.

The client libraries hide the difference between a status and a string, a null and a null array. This module preserves
it: replies are parsed into types that are equal only if their wire formats are.
"""

from __future__ import annotations

import shlex
import socket
import struct
import time
from dataclasses import dataclass

# A server that has not replied within this time hangs; the time allows for a busy machine.
TIMEOUT_S = 60.0
# The tolerance of measured times, which allows for a busy machine.
SLACK_S = 30


@dataclass(frozen=True)
class Status:
    """A simple string: `+OK`."""

    text: str


@dataclass(frozen=True)
class Error:
    """An error: `-ERR ...`."""

    text: str


@dataclass(frozen=True)
class Verbatim:
    """A verbatim string of RESP3: `=15 txt:...`."""

    kind: str
    data: bytes


@dataclass(frozen=True)
class Push:
    """A push message of RESP3."""

    items: tuple


class Set(list):
    """A RESP3 set. Its members may have any type, so it is stored as a list."""


class NullArray:
    """The null array of RESP2: `*-1`."""

    def __repr__(self):
        return "NULL_ARRAY"


OK = Status("OK")
QUEUED = Status("QUEUED")
NULL_ARRAY = NullArray()
SYNTAX_ERROR = Error("ERR syntax error")
NOT_AN_INTEGER = Error("ERR value is not an integer or out of range")


class Closed(Exception):
    """The server closed the connection."""


def to_bytes(value) -> bytes:
    """An argument as bytes."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, bytearray):
        return bytes(value)
    return str(value).encode()


def encode(*arguments) -> bytes:
    """A RESP request: an array of bulk strings."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        data = to_bytes(argument)
        parts.append(b"$%d\r\n%s\r\n" % (len(data), data))
    return b"".join(parts)


class Connection:
    """A TCP connection with a read buffer and a deadline on every read."""

    def __init__(self, address, timeout_s=TIMEOUT_S, receive_buffer_bytes=None):
        self.address = address
        self.timeout_s = timeout_s
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer_bytes)
        self.socket.settimeout(timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.connect(address)
        self.buffer = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Closes the socket."""
        self.socket.close()

    def reset(self):
        """Closes the socket like a killed process with unread input: RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def half_close(self):
        """Closes the sending side, and keeps reading."""
        self.socket.shutdown(socket.SHUT_WR)

    def send(self, data: bytes):
        """Sends all of the bytes."""
        self.socket.sendall(data)

    def _fill(self):
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError as reset:
            raise Closed("reset; unread: %r" % bytes(self.buffer[:200])) from reset
        if not data:
            raise Closed("closed; unread: %r" % bytes(self.buffer[:200]))
        self.buffer += data

    def take(self, count: int) -> bytes:
        """Reads exactly this number of bytes."""
        while len(self.buffer) < count:
            self._fill()
        data = bytes(self.buffer[:count])
        del self.buffer[:count]
        return data

    def line(self) -> bytes:
        """Reads one line, without its CR LF."""
        start = 0
        while True:
            end = self.buffer.find(b"\r\n", start)
            if end >= 0:
                break
            start = max(0, len(self.buffer) - 1)
            self._fill()
        line = bytes(self.buffer[:end])
        del self.buffer[: end + 2]
        return line

    def hear(self, expected: bytes):
        """Reads as many bytes as expected and compares them; the failure shows a shorter answer."""
        try:
            got = self.take(len(expected))
        except (Closed, TimeoutError):
            got = bytes(self.buffer)
            self.buffer.clear()
        assert got == expected

    def talk(self, request: bytes, expected: bytes):
        """Sends a request and expects exactly this reply."""
        self.send(request)
        self.hear(expected)

    def is_silent(self, wait_s=0.1) -> bool:
        """Whether no bytes arrive for a while and the connection stays open."""
        if self.buffer:
            return False
        self.socket.settimeout(wait_s)
        try:
            self._fill()
        except TimeoutError:
            return True
        except Closed:
            return False
        finally:
            self.socket.settimeout(self.timeout_s)
        return False

    def is_closed(self, wait_s=TIMEOUT_S) -> bool:
        """Whether the server closes the connection within this time; bytes that it sends are kept in the buffer."""
        self.socket.settimeout(wait_s)
        deadline = time.monotonic() + wait_s
        try:
            while time.monotonic() < deadline:
                self._fill()
        except Closed:
            return True
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(self.timeout_s)
        return False

    def rest(self) -> bytes:
        """Reads until the server closes the connection."""
        try:
            while True:
                self._fill()
        except Closed:
            data = bytes(self.buffer)
            self.buffer.clear()
            return data


class Resp(Connection):
    """A RESP connection."""

    def call(self, *arguments):
        """Sends one request and reads its reply."""
        self.send(encode(*arguments))
        return self.reply()

    def reply(self):
        """Reads one reply of any type."""
        line = self.line()
        kind, rest = line[:1], line[1:]
        if kind == b"+":
            return Status(rest.decode())
        if kind == b"-":
            return Error(rest.decode())
        if kind in (b":", b"("):
            return int(rest)
        if kind == b"_":
            return None
        if kind == b",":
            return float(rest)
        if kind == b"#":
            return {b"t": True, b"f": False}[rest]
        if kind in (b"$", b"="):
            return self._bulk(kind, int(rest))
        return self._aggregate(kind, int(rest))

    def _bulk(self, kind, length):
        if length < 0:
            return None
        data = self.take(length)
        assert self.take(2) == b"\r\n"
        return Verbatim(data[:3].decode(), data[4:]) if kind == b"=" else data

    def _aggregate(self, kind, length):
        if kind == b"*":
            return NULL_ARRAY if length < 0 else [self.reply() for _ in range(length)]
        if kind == b"%":
            return {self.reply(): self.reply() for _ in range(length)}
        if kind == b"~":
            return Set(self.reply() for _ in range(length))
        if kind == b">":
            return Push(tuple(self.reply() for _ in range(length)))
        raise AssertionError("not a RESP type: %r" % kind)

    def transcript(self, text: str):
        """Plays lines of `COMMAND ARGUMENTS => REPLY` and compares each reply.

        A reply is written as `+OK`, `-ERR text`, `12`, `"text"`, `nil`, `null_array` or a list of these. A TTL may be less
        by the duration of the lines before it.
        """
        started = time.monotonic()
        for line in text.strip().splitlines():
            if not line.strip():
                continue
            command, _, expected = line.strip().partition(" => ")
            got = self.call(*[_unescape(word) for word in shlex.split(command)])
            wanted = _expectation(expected.strip())
            if command.startswith("TTL ") and wanted > 0:
                assert wanted - 0.5 - (time.monotonic() - started) <= got <= wanted, "%s answered %r" % (command, got)
            else:
                assert got == wanted, "%s answered %r" % (command, got)


def _unescape(word: str) -> bytes:
    return word.encode().decode("unicode_escape").encode("latin-1")


def _expectation(text: str):
    if text[0] == "+":
        return Status(text[1:])
    if text[0] == "-" and not text[1:].isdigit():
        return Error(text[1:])
    names = {"nil": None, "null_array": NULL_ARRAY, "OK": OK, "Error": Error, "Status": Status, "inf": float("inf")}
    return _encoded(eval(text, {"__builtins__": {}}, names))


def _encoded(value):
    if isinstance(value, str):
        return value.encode("latin-1")
    if isinstance(value, list):
        return [_encoded(item) for item in value]
    return value


@dataclass(frozen=True)
class Response:
    """A response of memcached's binary protocol, without its token."""

    opcode: int
    status: int
    key: bytes
    value: bytes
    extras: bytes = b""
    opaque: int = 0


def request(opcode, key=b"", value=b"", extras=b"", cas=0, opaque=0) -> bytes:
    """A request of memcached's binary protocol."""
    body = extras + key + value
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(key), len(extras), 0, 0, len(body), opaque, cas) + body


class BinaryMemcached(Connection):
    """A memcached connection that speaks the binary protocol."""

    token = 0

    def ask(self, *arguments, **keywords) -> Response:
        """Sends one request and reads one response."""
        self.send(request(*arguments, **keywords))
        return self.response()

    def response(self) -> Response:
        """Reads one response; `token` is its CAS token."""
        magic, opcode, key, extras, kind, status, length, opaque, self.token = struct.unpack(">BBHBBHIIQ", self.take(24))
        assert (magic, kind) == (0x81, 0)
        body = self.take(length)
        return Response(opcode, status, body[extras : extras + key], body[extras + key :], body[:extras], opaque)

    def stats(self, group=b"") -> dict[str, str]:
        """The statistics of a group."""
        self.send(request(0x10, group))
        found = {}
        while (row := self.response()).key:
            found[row.key.decode()] = row.value.decode()
        return found


class Memcached(Connection):
    """A memcached connection."""

    def command(self, line, data=None) -> bytes:
        """Sends one line, with a data block if given, and reads one line."""
        request = to_bytes(line) + b"\r\n"
        if data is not None:
            request += to_bytes(data) + b"\r\n"
        self.send(request)
        return self.line()

    def lines_until(self, last: bytes) -> list[bytes]:
        """Reads lines up to the given one, and returns them without it."""
        lines = []
        while True:
            line = self.line()
            if line == last:
                return lines
            lines.append(line)

    def stats(self, *arguments) -> dict[str, str]:
        """The statistics of a group."""
        self.send(b" ".join([b"stats", *map(to_bytes, arguments)]) + b"\r\n")
        rows = [line.decode().split(" ", 2) for line in self.lines_until(b"END")]
        assert all(row[0] == "STAT" for row in rows), rows
        return {row[1]: row[2] if len(row) > 2 else "" for row in rows}

    def transcript(self, text: str):
        """Sends the lines that start with `> ` and compares the other lines with the answers.

        The last line sent before an answer ends the request; both kinds of lines may have backslash escapes.
        """
        request, expected = bytearray(), bytearray()
        for line in text.strip().splitlines():
            line = line.strip()
            if line.startswith(">"):
                if expected:
                    self.talk(bytes(request), bytes(expected))
                    request, expected = bytearray(), bytearray()
                request += _unescape(line[2:]) + b"\r\n"
            elif line:
                expected += _unescape(line) + b"\r\n"
        self.talk(bytes(request), bytes(expected))


def wait_until(condition, timeout_s=TIMEOUT_S, step_s=0.01):
    """Polls a condition; returns its last value."""
    deadline = time.monotonic() + timeout_s
    while True:
        value = condition()
        if value or time.monotonic() > deadline:
            return value
        time.sleep(step_s)
