"""An Erlang cluster for one measurement: on loopback, with its own port mapper and cookie. It leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from machine import erlang_environment
from servers import served

# Memory of a node with one thread of Erlang code (see one_thread/0 in cluster.erl).
NODE_MEGABYTES = 70
MAPPER_TIMEOUT_S = 10


@contextlib.contextmanager
def loopback(name):
    """Flags and environment of a node of this name that starts peers.

    The cookie is a file that only its owner can read, so it is on no command line.
    """
    with tempfile.TemporaryDirectory(prefix="todana-cluster-") as home:
        cookie = Path(home) / ".erlang.cookie"
        cookie.write_text(secrets.token_hex(24))
        cookie.chmod(0o400)
        port = served.free_port()
        environment = {"HOME": home, "ERL_EPMD_ADDRESS": "127.0.0.1", "ERL_EPMD_PORT": str(port)}
        mapper = subprocess.Popen(
            ["epmd"],
            stderr=subprocess.DEVNULL,  # it complains about connections that only check whether it listens
            env={**erlang_environment(), **environment},
            preexec_fn=served.die_with_parent,
        )
        try:
            _await_listener(port)
            yield _flags(name), environment
        finally:
            mapper.terminate()
            mapper.wait()


def _flags(name):
    # Nodes come and go on purpose: `global` must not see that as a partition and disconnect others.
    settings = {
        "inet_dist_use_interface": "{127,0,0,1}",
        "prevent_overlapping_partitions": "false",
        "logger_level": "error",
    }
    kernel = [word for setting in settings.items() for word in setting]
    # Ctrl-C is for the program that measures; a node would open its break menu.
    return ["+B", "i", "-start_epmd", "false", "-name", f"{name}@127.0.0.1", "-kernel", *kernel]


def _await_listener(port):
    deadline = time.monotonic() + MAPPER_TIMEOUT_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.02)


def available_megabytes() -> int:
    """Memory available to programs without swapping."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2**20


def refusal(nodes) -> str | None:
    """The reason why this machine cannot run a cluster of this size, or None."""
    needed, available = nodes * NODE_MEGABYTES, available_megabytes()
    if needed <= available:
        return None
    return f"{nodes} nodes need about {needed} MB of memory, and {available} MB are available"
