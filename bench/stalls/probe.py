"""A program: a client of one event loop that reads a record repeatedly and reports its longest wait.

    probe.py HOST PORT

A line of its input is `begin DATABASE KEY` or `end`. The answer to `end` is the longest wait in microseconds and the number of
round trips.
"""

from __future__ import annotations

import gc
import select
import socket
import sys
import time

# Pause between two round trips, so that the probe leaves the machine to the measured request.
PAUSE_S = 0.0005


def main(host, port):
    """Reads lines, and sends requests between `begin` and `end`."""
    gc.disable()
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    answer = connection.makefile("rb")
    # Unbuffered, because poll would not see a line in a buffer.
    source = open(sys.stdin.fileno(), "rb", buffering=0)
    lines = select.poll()
    lines.register(source, select.POLLIN)
    for line in iter(source.readline, b""):
        _, database, key = line.decode().split()
        connection.sendall(command("SELECT", database))
        answer.readline()
        # STRLEN takes the lock of the record's shard and does not send the value, which may be long.
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
    """An array of RESP."""
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word.encode()) for word in words)


if __name__ == "__main__":
    main(*sys.argv[1:])
