"""A client of one event loop that asks for a record over and over, and reports its longest wait: a program of its own.

    probe.py HOST PORT

A line of its input is `begin DATABASE KEY`, or `end`; the answer to `end` is the longest wait in microseconds and the number of
round trips.
"""

from __future__ import annotations

import gc
import select
import socket
import sys
import time

# Between two round trips: the machine belongs to what is measured.
PAUSE_S = 0.0005


def main(host, port):
    """Waits for lines, and asks between `begin` and `end`."""
    gc.disable()
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answer = connection.makefile("rb")
    # Without a buffer, in which a line could wait unseen.
    source = open(sys.stdin.fileno(), "rb", buffering=0)
    lines = select.poll()
    lines.register(source, select.POLLIN)
    for line in iter(source.readline, b""):
        _, database, key = line.decode().split()
        connection.sendall(command("SELECT", database))
        answer.readline()
        # The length alone: it takes the lock of the record's shard, and does not send what may be long.
        request = command("STRLEN", key)
        longest, asked = 0, 0
        while not lines.poll(0):
            before = time.perf_counter_ns()
            connection.sendall(request)
            answer.readline()
            longest = max(longest, time.perf_counter_ns() - before)
            asked += 1
            time.sleep(PAUSE_S)
        source.readline()
        print(longest // 1000, asked, flush=True)


def command(*words) -> bytes:
    """An array of RESP; keys may be longer than a line."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)


if __name__ == "__main__":
    main(*sys.argv[1:])
