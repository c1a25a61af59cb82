"""What the disk takes to confirm a write on two nodes: two processes append to a file each, and both call fdatasync."""

from __future__ import annotations

import os
import statistics
import struct
import time

WRITE_BYTES = 200
TIMES = struct.Struct("qq")
APPEND, END = b"a", b"e"


def floor(place, writes) -> dict:
    """Percentiles of the time from the first of two concurrent appends to the end of the second fdatasync."""
    place.mkdir(parents=True, exist_ok=True)
    writers = [Writer(place / f"floor-{number}") for number in range(2)]
    taken = []
    try:
        for _ in range(writes):
            for writer in writers:
                writer.begin()
            times = [writer.end() for writer in writers]
            taken.append((max(ended for _, ended in times) - min(began for began, _ in times)) / 1e3)
    finally:
        for writer in writers:
            writer.close()
    ordered = sorted(taken)
    return {"p50_us": round(statistics.median(ordered), 1), "p99_us": round(ordered[int(len(ordered) * 0.99)], 1), "writes": writes}


class Writer:
    """A process that appends on request, and reports when it began and when it had ended."""

    def __init__(self, path):
        self.path = path
        commands, self._commands = os.pipe()
        self._times, times = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._commands)
                _serve(path, commands, times)
            finally:
                os._exit(0)
        os.close(commands)
        os.close(times)

    def begin(self):
        """Lets it append."""
        os.write(self._commands, APPEND)

    def end(self) -> tuple:
        """Waits for the end; nanoseconds of the clock that all processes share."""
        return TIMES.unpack(os.read(self._times, TIMES.size))

    def close(self):
        """Ends the process and removes the file."""
        os.write(self._commands, END)
        os.close(self._commands)
        os.close(self._times)
        os.waitpid(self._pid, 0)
        self.path.unlink(missing_ok=True)


def _serve(path, commands, times):
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    data = bytes(WRITE_BYTES)
    while os.read(commands, 1) == APPEND:
        began = time.monotonic_ns()
        os.write(descriptor, data)
        os.fdatasync(descriptor)
        os.write(times, TIMES.pack(began, time.monotonic_ns()))
