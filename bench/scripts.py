"""Scripts: the server's CPU for EVALSHA and EVAL of scripts that it knows, beside redis-server.

One connection sends requests in groups. The command that the short script calls is a row of its own, so that a row minus that one
is what the script costs. The long script has as many functions and names as those of queues have, and returns at once.
"""

from __future__ import annotations

import hashlib
import socket
from pathlib import Path

import servers
from machine import ROOT

FULL = {"rounds": 7, "round_requests": 20_000, "group": 16, "long_bytes": 40_000}
QUICK = {"rounds": 2, "round_requests": 2_000, "group": 16, "long_bytes": 40_000}

SHORT = "return redis.call('incr', KEYS[1])"
KEY = "counter"


def long_script(size) -> str:
    """A script of about `size` bytes."""
    parts = ["if ARGV[1] == nil then return 1 end\n"]
    number = length = 0
    while length < size:
        parts.append(
            f"do local function step{number}(a, b)\n"
            f"  local reply = redis.call('HSET', KEYS[{number % 9 + 1}], 'field{number}', a .. b)\n"
            f"  if reply == {number} then return reply end\n  return nil\nend\nlocal kept = step{number % 50} end\n"
        )
        length += len(parts[-1])
        number += 1
    return "".join(parts)


def request(*words) -> bytes:
    """A request in RESP."""
    encoded = [word.encode() for word in words]
    return b"*%d\r\n" % len(encoded) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in encoded)


def requests(plan) -> dict[str, bytes]:
    """The rows: a name, and a request whose reply is an integer."""
    long = long_script(plan["long_bytes"])
    named = {script: hashlib.sha1(script.encode()).hexdigest() for script in (SHORT, long)}
    return {
        "INCR": request("INCR", KEY),
        "EVALSHA of INCR": request("EVALSHA", named[SHORT], "1", KEY),
        "EVAL of INCR": request("EVAL", SHORT, "1", KEY),
        "EVALSHA of a long script": request("EVALSHA", named[long], "1", KEY),
        "EVAL of a long script": request("EVAL", long, "1", KEY),
    }


def run(plan, say, *, checkout=ROOT) -> list[dict]:
    """All rows of each server that runs scripts; the rounds of the servers alternate."""
    program = str(Path(checkout) / "bin" / "todana")
    names = [name for name in servers.peers() if name != "memcached"]
    started, found = {}, []
    try:
        for name in names:
            started[name] = servers.start(name, program=program)
        rows = {(name, row): [] for row in requests(plan) for name in names}
        for script in (SHORT, long_script(plan["long_bytes"])):
            for server in started.values():
                measured(server, request("SCRIPT", "LOAD", script), 1, 1, b"$")
        for _ in range(plan["rounds"]):
            for row, sent in requests(plan).items():
                for name, server in started.items():
                    us = measured(server, sent, plan["round_requests"], plan["group"], b":")
                    rows[name, row].append(round(us, 3))
        for (name, row), rounds in rows.items():
            found.append({"server": name, "row": row, "server_cpu_us_per_request": rounds})
            say(f"scripts: {row}, {name}: {sorted(rounds)[len(rounds) // 2]:.2f} us")
    finally:
        for server in started.values():
            server.stop()
    return found


def measured(server, sent, count, group, kind) -> float:
    """Microseconds of the server's CPU for a request."""
    with socket.create_connection(server.resp) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # The first reply shows that the connection is accepted.
        exchange(connection, sent, 1, kind)
        before = servers.cpu_s(server.pid)
        for _ in range(count // group or 1):
            exchange(connection, sent * group, group, kind)
        return (servers.cpu_s(server.pid) - before) / count * 1e6


def exchange(connection, sent, count, kind):
    """Sends requests and reads their replies: integers, or the name of a script."""
    connection.sendall(sent)
    received = b""
    lines = count * (2 if kind == b"$" else 1)
    while received.count(b"\r\n") < lines:
        more = connection.recv(65_536)
        if not more:
            raise RuntimeError("the connection was closed")
        received += more
    if not all(line[:1] == kind for line in received.split(b"\r\n")[: lines : lines // count]):
        raise RuntimeError(f"unexpected reply: {received[:200]!r}")
