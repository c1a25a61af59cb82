"""The network between the nodes, which can be cut, slowed and made lossy.

The whole test runs in a network namespace of its own, in which each node has a loopback address. Packets of a link that has
a fault are not delivered by the kernel but given to this process, which drops, delays or returns them. All other packets,
those of clients among them, never come here. This needs root and Linux.

A link is a pair of addresses with a direction, so a cut may be one-way.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import threading
import time
from dataclasses import dataclass
from pathlib import Path

CLONE_NEWNET, CLONE_NEWNS = 0x40000000, 0x20000
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000
DEVICE, TABLE = "todana0", 77
PACKET_BYTES_MAX = 1 << 16
# Delayed packets beyond this number are lost, as in a router.
QUEUE_MAX = 10_000
SHARED, SHARED_MB = Path("/dev/shm"), 4_096
ENTERED = threading.Event()


@dataclass(frozen=True)
class Link:
    """What happens to the packets of a link."""

    loss: float = 0.0
    delay_s: float = 0.0
    # Up to this much more; such packets overtake each other.
    jitter_s: float = 0.0


CUT = Link(loss=1.0)


class NotPossible(Exception):
    """This host does not allow it."""


def enter():
    """Puts this thread, and everything that it starts, into an empty network, with mounts of its own."""
    if ENTERED.is_set():
        return
    library = ctypes.CDLL(None, use_errno=True)
    if library.unshare(CLONE_NEWNET | CLONE_NEWNS) != 0:
        raise NotPossible(f"a network namespace: {os.strerror(ctypes.get_errno())}")
    ENTERED.set()
    # Mounts of this process are its own and end with it, and so does what killed processes leave in shared memory.
    run("mount", "--make-rprivate", "/")
    if SHARED.is_dir():
        mount_memory(SHARED, SHARED_MB)
    ip("link", "set", "lo", "up")


def run(*words):
    """Runs a program of the system."""
    paths = os.environ["PATH"] + ":/usr/sbin:/sbin"
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, env={**os.environ, "PATH": paths})
    if done.returncode != 0:
        raise NotPossible(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


def ip(*words):
    """Runs `ip`."""
    run("ip", *words)


def mount_memory(place, megabytes):
    """Puts a file system of this size on a directory."""
    run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "todana", place)


def unmount(place):
    """Removes the file system."""
    run("umount", "--lazy", place)


class Network:
    """Links between addresses, in the namespace of `enter()`."""

    def __init__(self, seed=0):
        self._random = random.Random(seed)
        self._links = {}
        self._lock = threading.Lock()
        self.dropped = self.forwarded = 0
        try:
            self._tun = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(self._tun, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
        except OSError as error:
            raise NotPossible(f"/dev/net/tun: {error.strerror}") from error
        settings = Path("/proc/sys/net/ipv4/conf")
        for name, value in (("route_localnet", 1), ("accept_local", 1), ("rp_filter", 0)):
            for device in ("all", DEVICE):
                (settings / device / name).write_text(str(value))
        ip("link", "set", DEVICE, "up", "mtu", 65_000, "txqueuelen", 5_000)
        ip("route", "add", "default", "dev", DEVICE, "table", TABLE)
        # Local addresses are looked up first by default, so that no other rule would ever see these packets.
        ip("rule", "add", "priority", 10, "iif", DEVICE, "lookup", "local")
        ip("rule", "add", "priority", 100, "lookup", "local")
        with contextlib.suppress(NotPossible):  # done by another Network before
            ip("rule", "del", "priority", 0)
        self._wake, self._woken = os.pipe()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def set(self, source, target, link):
        """Gives a link a fault, or none with None."""
        with self._lock:
            before = self._links.pop((source, target), None)
            if link is not None:
                self._links[source, target] = link
        rule = ("priority", 50, "from", source, "to", target, "lookup", TABLE)
        if before is None and link is not None:
            ip("rule", "add", *rule)
        elif before is not None and link is None:
            ip("rule", "del", *rule)

    def heal(self):
        """All links work again."""
        for source, target in list(self._links):
            self.set(source, target, None)

    def close(self):
        """Removes the device."""
        self.heal()
        os.write(self._woken, b"x")
        self._thread.join()
        os.close(self._tun)
        for priority in (10, 100):
            if priority == 100:
                ip("rule", "add", "priority", 0, "lookup", "local")
            ip("rule", "del", "priority", priority)

    def _run(self):
        waiting, number = [], 0
        while True:
            timeout_s = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
            ready, _, _ = select.select([self._tun, self._wake], [], [], timeout_s)
            if self._wake in ready:
                return
            if self._tun in ready:
                for packet in self._packets():
                    due = self._due(packet)
                    if due is None or len(waiting) >= QUEUE_MAX:
                        self.dropped += 1
                    else:
                        number += 1
                        heapq.heappush(waiting, (due, number, packet))
            now = time.monotonic()
            while waiting and waiting[0][0] <= now:
                with contextlib.suppress(OSError):
                    os.write(self._tun, heapq.heappop(waiting)[2])
                self.forwarded += 1

    def _packets(self):
        """The packets that the kernel has for us."""
        for _ in range(64):
            try:
                yield os.read(self._tun, PACKET_BYTES_MAX)
            except BlockingIOError:
                return

    def _due(self, packet):
        """When a packet arrives; None if it is lost."""
        if packet[0] >> 4 != 4:
            return None
        source, target = (".".join(map(str, packet[at : at + 4])) for at in (12, 16))
        with self._lock:
            link = self._links.get((source, target), Link())
        if link.loss and self._random.random() < link.loss:
            return None
        return time.monotonic() + link.delay_s + (self._random.random() * link.jitter_s if link.jitter_s else 0.0)
