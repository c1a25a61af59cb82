"""A connection that sends requests of any size and reads the replies without parsing them."""

from __future__ import annotations

import select
import socket
import struct
import time

from servers import served  # noqa: F401  (makes test/clients importable)

from kyoto_wire import rpc
from wire import encode

CHUNK_BYTES = 1 << 20
# The bytes that are kept of the beginning and of the end of an answer.
SEEN_BYTES = 400


class TimedOut(Exception):
    """The answer did not end in time."""


def resp_end(number):
    """A request whose answer marks the end of all answers before it, and that answer."""
    word = b"end-of-answer-%08d" % number
    return encode("ECHO", word), b"%s\r\n" % word


def memcached_end(_number):
    """The same for memcached, by `mn`."""
    return b"mn\r\n", b"MN\r\n"


def binary_end(number):
    """The same for memcached's binary protocol, by a noop."""
    frame = ">BBHBBHIIQ"
    return struct.pack(frame, 0x80, 0x0A, 0, 0, 0, 0, 0, number, 0), struct.pack(frame, 0x81, 0x0A, 0, 0, 0, 0, 0, number, 0)


def kyoto_end(number):
    """The same for Kyoto Tycoon."""
    word = b"end-of-answer-%08d" % number
    return rpc("echo", {"m": word}, None), b"m\t%s\n" % word


ENDS = {"resp": resp_end, "memcached": memcached_end, "kyoto": kyoto_end}


class Client:
    """A connection by one of the protocols."""

    def __init__(self, address, protocol):
        self.protocol = protocol
        self.number = 0
        self.socket = socket.create_connection(address)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.ready = select.poll()
        self.buffer = bytearray(CHUNK_BYTES)

    def close(self):
        """Closes the connection."""
        self.socket.close()

    def ask(self, request, timeout_s, answer_bytes=None) -> bytes:
        """Sends requests and reads their answers, to the end or up to `answer_bytes`; returns their first and last bytes."""
        self.number += 1
        end = binary_end if bytes(request[:1]) == b"\x80" else ENDS[self.protocol]
        marker, last = end(self.number) if answer_bytes is None else (b"", None)
        parts = [memoryview(part) for part in (request, marker) if part]
        head, tail, read = b"", b"", 0
        deadline = time.monotonic() + timeout_s
        try:
            while read < answer_bytes if last is None else not tail.endswith(last):
                left_s = deadline - time.monotonic()
                self.ready.register(self.socket, select.POLLIN | (select.POLLOUT if parts else 0))
                if left_s <= 0 or not (events := self.ready.poll(left_s * 1000)):
                    raise TimedOut
                if parts and events[0][1] & select.POLLOUT:
                    parts[0] = parts[0][self.socket.send(parts[0][:CHUNK_BYTES]) :]
                    if not parts[0]:
                        parts.pop(0)
                if events[0][1] & ~select.POLLOUT:
                    count = self.socket.recv_into(self.buffer)
                    if count == 0:
                        return b"closed: " + head
                    read += count
                    data = bytes(self.buffer[max(0, count - SEEN_BYTES) : count])
                    head = head or bytes(self.buffer[: min(count, SEEN_BYTES)])
                    tail = (tail + data)[-SEEN_BYTES:]
        except (ConnectionResetError, BrokenPipeError):
            return b"closed: " + head
        return head + b" ... " + tail if len(head) == SEEN_BYTES else tail


def refusal(protocol, answer) -> str:
    """The text of an error reply, or an empty string."""
    if answer.startswith(b"closed: "):
        return "connection closed"
    signs = {"resp": b"-", "memcached": b"SERVER_ERROR", "kyoto": b"HTTP/1.1 "}
    sign = signs[protocol]
    for line in answer.split(b"\r\n"):
        if protocol == "kyoto":
            if line.startswith(sign) and line[9:10] not in b"2":
                return line[9:].decode("latin-1")
        elif line.startswith(sign) and line[1:2].isalpha():
            return line.lstrip(b"-").decode("latin-1")
    return ""
