"""Resident bytes per entry: (resident when loaded - resident when empty) / entries, each in its own server."""

from __future__ import annotations

import time

import servers

KEY_BYTES = 16
SETTLE_S = 1.0
TTL_S = 86_400

FULL = {"rounds": 2, "entries": {"16": 1_000_000, "100": 1_000_000, "1000": 200_000}}
QUICK = {"rounds": 1, "entries": {"16": 50_000, "100": 50_000, "1000": 10_000}}


def run(plan, say) -> list[dict]:
    """All cells; the servers are interleaved, round by round."""
    results = []
    for value_bytes, entries in ((int(size), count) for size, count in plan["entries"].items()):
        for ttl_s in (0, TTL_S):
            say("memory: %d B values, %s" % (value_bytes, "with expiry" if ttl_s else "without expiry"))
            samples = {name: [] for name in [*servers.KINDS, *servers.peers()[1:]]}
            for _ in range(plan["rounds"]):
                for name, found in samples.items():
                    found.append(measure(name, value_bytes, entries, ttl_s))
            results += [
                {"server": name, "key_bytes": KEY_BYTES, "value_bytes": value_bytes, "entries": entries, "expiry": ttl_s > 0, "rounds": found}
                for name, found in samples.items()
            ]
    return results


def measure(name, value_bytes, entries, ttl_s, program=servers.served.PROGRAM):
    """Starts a server, loads it, and returns its resident bytes before and after. `program` is Todana's."""
    server = servers.start(name, program=program)
    try:
        protocol = "memcached" if name == "memcached" else "resp"
        # Some connections and requests first, so that buffers and threads count as part of the empty server.
        servers.load(server, protocol, "get", requests=1000, pipeline=50, connections=4)
        time.sleep(SETTLE_S)
        empty = server.resident_bytes()
        servers.load(
            server, protocol, "set", requests=entries, sequential=True, pipeline=50, connections=4, value_bytes=value_bytes, ttl_s=ttl_s
        )
        time.sleep(SETTLE_S)
        loaded = server.resident_bytes()
        stored = _stored(server, protocol)
        if stored != entries:
            raise RuntimeError(f"{name} holds {stored} of {entries} entries")
        return {"empty_bytes": empty, "loaded_bytes": loaded, "bytes_per_entry": round((loaded - empty) / entries, 2)}
    finally:
        server.stop()


def _stored(server, protocol):
    import wire

    if protocol == "resp":
        with wire.Resp(server.resp) as connection:
            return connection.call("DBSIZE")
    with wire.Memcached(server.memcached) as connection:
        return int(connection.stats()["curr_items"])
