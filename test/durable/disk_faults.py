"""Makes a store's disk fail: the control of disk_shim.c while the store runs, and damage to its files while it does not."""

from __future__ import annotations

import errno
import mmap
import os
import struct
import time
from pathlib import Path

import cut_points
import wire

LAYOUT = struct.Struct("<IiqqqQq208s")
WRITE, SYNC, READ, OPEN, CREATE, RENAME, UNLINK = (1 << bit for bit in range(7))
FOREVER = -1
CHANGES = WRITE | CREATE | RENAME | UNLINK
# After this many attempts, a store that starts its log again and again is known to wait.
ATTEMPTS = 3
# Room that was allocated and never written is zeros; parts of this size with another byte in them are in use.
USED_BYTES = 64
# What a store may say to a client while its disk does not work, besides the answer itself.
DISK_WORDS = ("MISCONF", "UNKNOWN", "CLUSTERDOWN", "LOADING")


class Control:
    """The faults of a running process, which take effect at once."""

    def __init__(self, path: Path):
        self.path = path
        path.write_bytes(bytes(LAYOUT.size))
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), LAYOUT.size)

    def environment(self, root) -> dict:
        """The environment of the process whose files below `root` can fail."""
        return {"LD_PRELOAD": str(cut_points.shim()), "DISK_ROOT": str(root), "DISK_FAULT": str(self.path)}

    def fail(self, operations, error, *, pattern="", skip=0, times=FOREVER, bytes_left=-1, delay_us=0):
        """Makes calls fail with an error: those on paths that contain `pattern`, after `skip` of them, `times` times, and
        writes only after `bytes_left` bytes. Without an error, they only wait."""
        self.mend()
        fields = LAYOUT.pack(0, error, skip, times, bytes_left, 0, delay_us, pattern.encode())
        self._map[4:] = fields[4:]
        self._map[:4] = struct.pack("<I", operations)

    def slow_syncs(self, seconds):
        """Makes each sync take at least this time."""
        self.fail(SYNC, 0, delay_us=int(seconds * 1e6))

    def mend(self):
        """Ends all faults."""
        self._map[:4] = bytes(4)

    @property
    def hits(self) -> int:
        """How many calls have failed."""
        return struct.unpack_from("<Q", self._map, 32)[0]

    def close(self):
        """Releases the map."""
        self._map.close()
        self._file.close()


# Faults of a running store: name -> arguments of Control.fail.
RUNNING = {
    "a full disk": {"operations": WRITE | CREATE, "error": errno.ENOSPC, "bytes_left": 30_000},
    "EIO on write": {"operations": WRITE, "error": errno.EIO},
    "EIO on one write": {"operations": WRITE, "error": errno.EIO, "times": 1},
    "EIO on fsync": {"operations": SYNC, "error": errno.EIO},
    "EIO on one fsync": {"operations": SYNC, "error": errno.EIO, "times": 1},
    "a file system that became read-only": {"operations": CHANGES, "error": errno.EROFS},
    "too few descriptors": {"operations": OPEN, "error": errno.EMFILE},
}
# Faults while a store starts.
STARTING = {
    "EIO on read": {"operations": READ, "error": errno.EIO},
    "EIO on open": {"operations": OPEN, "error": errno.EIO},
    "a read-only file system": {"operations": CHANGES, "error": errno.EROFS},
    "a full disk": {"operations": WRITE | CREATE, "error": errno.ENOSPC},
    "too few descriptors": {"operations": OPEN, "error": errno.EMFILE, "skip": 4},
    "EIO on fsync": {"operations": SYNC, "error": errno.EIO},
}


def can_write(store) -> object:
    """True if a write succeeds, else the answer or the error."""
    try:
        with wire.Resp(store.address("resp")) as connection:
            answer = connection.call("SET", "does the disk work", "yes")
            return answer == wire.OK or answer
    except (OSError, wire.Closed) as error:
        return error


def wait_for_writes(store, timeout_s):
    """Waits until a write succeeds; fails with the last answer."""
    deadline = time.monotonic() + timeout_s
    while (answer := can_write(store)) is not True:
        assert store.is_alive(), f"the store has ended:\n{store.log()}"
        assert time.monotonic() < deadline, f"no write succeeds {timeout_s} s after the fault was removed: {answer!r}\n{store.log()}"
        time.sleep(0.1)


def outcome(store, timeout_s) -> tuple:
    """How a start ended: ("serving", ""), ("ended", its output), ("refusing", the words that clients receive) or, if it tries
    again from time to time, ("waiting", the line of its log)."""
    deadline = time.monotonic() + timeout_s
    answer = None
    while time.monotonic() < deadline:
        if not store.is_alive():
            store.process.stop()
            return "ended", "\n".join(store.process.lines)
        answer = store.look()
        if isinstance(answer, int):
            return "serving", ""
        if isinstance(answer, wire.Error) and not answer.text.startswith("LOADING"):
            return "refusing", answer.text
        waiting = [line for line in store.process.lines if "todana: the log does not run: " in line]
        if len(waiting) >= ATTEMPTS:
            return "waiting", waiting[-1]
        time.sleep(0.02)
    return "silent", f"{answer!r}\n{store.log()}"


def damageable(directory: Path) -> list[Path]:
    """The files of a data directory with content, in a fixed order."""
    return sorted(path for path in directory.rglob("*") if path.is_file() and path.read_bytes().strip(b"\0"))


def kind(path: Path) -> str:
    """The name of a file, or the end of the name if it has a number."""
    return path.suffix if path.stem.isalnum() and any(letter.isdigit() for letter in path.stem) else path.name


def flip(path: Path, rng) -> int:
    """Inverts one bit of a part of a file that is not all zeros; returns its offset in bytes."""
    content = path.read_bytes()
    used = [at for at in range(0, len(content), USED_BYTES) if any(content[at : at + USED_BYTES])]
    start = rng.choice(used)
    offset = rng.randrange(start, min(start + USED_BYTES, len(content)))
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(bytes([content[offset] ^ 1 << rng.randrange(8)]))
        file.flush()
        os.fsync(file.fileno())
    return offset


def is_clear(text: str) -> bool:
    """Whether the output of a start that failed is one sentence for a person, and not a dump of terms."""
    lines = [line for line in text.splitlines() if line.strip()]
    return len(lines) == 1 and lines[0].startswith("todana: ") and len(lines[0]) < 600 and "{" not in lines[0]
