"""Creates hostile byte streams and plays them on many connections at once."""

from __future__ import annotations

import select
import socket
import time

import wire

TOGETHER = 48
END_S_MAX = 120.0

NUMBERS = [
    b"0", b"-1", b"1", b"00", b"+1", b"-0", b" 1", b"1 ", b"", b"x", b"1e9", b"0x7f", b"127", b"128", b"255", b"256", b"32767",
    b"32768", b"65535", b"65536", b"65537", b"1048577", b"2147483647", b"2147483648", b"4294967295", b"4294967296",
    b"9223372036854775807", b"9223372036854775808", b"-9223372036854775808", b"-9223372036854775809", b"18446744073709551615",
    b"18446744073709551616", b"9" * 40, b"-" + b"9" * 40, b"1" * 1000,
]


def mutate(chance, data: bytes, dictionary) -> bytes:
    """A few random changes: flipped, removed, duplicated and foreign bytes, other numbers, words of the protocol."""
    result = bytearray(data)
    for _ in range(chance.randrange(1, 6)):
        at = chance.randrange(len(result) + 1)
        end = min(len(result), at + chance.randrange(1, 9))
        change = chance.randrange(8)
        if change == 0 and result:
            result[at % len(result)] ^= 1 << chance.randrange(8)
        elif change == 1:
            del result[at:end]
        elif change == 2:
            result[at:at] = result[at:end] * chance.randrange(1, 4)
        elif change == 3:
            result[at:at] = chance.randbytes(chance.randrange(1, 9))
        elif change == 4:
            _replace_number(chance, result)
        elif change == 5:
            result[at:at] = chance.choice(dictionary)
        elif change == 6:
            result[at:end] = chance.choice((b"\r\n", b"\n", b"\r", b"\0", b" ", b"\xff"))
        else:
            del result[at:]
            result += data[chance.randrange(len(data)) :]
    return bytes(result)


def _replace_number(chance, data):
    digits = [i for i, byte in enumerate(data) if 48 <= byte <= 57]
    if digits:
        start = end = chance.choice(digits)
        while start > 0 and data[start - 1] in b"0123456789-":
            start -= 1
        while end < len(data) and data[end] in b"0123456789":
            end += 1
        data[start:end] = chance.choice(NUMBERS)


class Player:
    """Plays one stream in pieces on one connection, then closes the sending side and reads to the end."""

    def __init__(self, address, pieces):
        self.pieces = [piece for piece in pieces if piece]
        self.answer = bytearray()
        self.ended = False
        self.socket = socket.create_connection(address, 5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)

    def step(self):
        """Sends the next piece, or as much of it as fits; after the last one, closes the sending side."""
        try:
            if self.pieces:
                sent = self.socket.send(self.pieces[0])
                self.pieces[0] = self.pieces[0][sent:]
                if not self.pieces[0]:
                    del self.pieces[0]
            if not self.pieces:
                self.socket.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            pass
        except OSError:
            self.pieces = []

    def read(self):
        """Reads the bytes that have arrived."""
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        self.ended = not data
        self.answer += data

    def close(self):
        """Closes the socket."""
        self.socket.close()


def play(address, streams, pause_s=0.001):
    """Plays streams (lists of pieces), a few dozen at a time, and returns the answers in order.

    Fails if a connection stays open: after the last byte and the half-close, the server has to close it.
    """
    answers = []
    for start in range(0, len(streams), TOGETHER):
        players = [Player(address, pieces) for pieces in streams[start : start + TOGETHER]]
        try:
            _run(players, pause_s)
            answers += [bytes(player.answer) for player in players]
        finally:
            for player in players:
                player.close()
    return answers


def _run(players, pause_s):
    deadline = time.monotonic() + END_S_MAX
    while True:
        for player in players:
            if player.pieces:
                player.step()
        waiting = [player for player in players if not player.ended]
        if not waiting:
            return
        left = deadline - time.monotonic()
        assert left > 0, "%d connections hang; the first after answering %r" % (len(waiting), bytes(waiting[0].answer[-200:]))
        sending = any(player.pieces for player in waiting)
        ready, _, _ = select.select([player.socket for player in waiting], [], [], pause_s if sending else min(left, 0.2))
        for player in waiting:
            if player.socket in ready:
                player.read()


def play_empty_safe(stream):
    """A stream as a single piece; an empty one is closed at once."""
    return [stream] if stream else [b"\n"]


def splits(stream):
    """The stream, split in two at every offset."""
    return [[stream[:at], stream[at:]] for at in range(1, len(stream))]


def truncations(stream):
    """Every proper prefix of the stream."""
    return [[stream[:at]] for at in range(1, len(stream))]


def call(address, *arguments):
    """One RESP request on a separate connection."""
    with wire.Resp(address) as connection:
        return connection.call(*arguments)
