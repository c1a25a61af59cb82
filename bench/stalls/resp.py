"""Rows of RESP: every command, with the arguments that cost most within the default limits, and transactions of them."""

from __future__ import annotations

import functools
import hashlib
import time

from stalls.row import DECIMAL, EVICTING, EXPIRING, ORDERED, SCRATCH, SPARE, Row, Sizes, key

from wire import encode

VALUE = b"value:0123456789"
# The maximum number of keys that a client may watch.
WATCHED_KEYS_MAX = 8_192
# The maximum number of pairs of MSET.
PAIRS_MAX = 8_192
# Clients that queue at the same time.
QUEUING = 12
# With it, a client with subscriptions may send every command.
RESP3 = encode("HELLO", 3)
# The maximum number of subscriptions of a client.
NAMES = 10_000
# Longer than the pattern of KEYS may be.
PATTERN_BYTES = 1_000
# Commands and subcommands of constant cost, with arguments.
CONSTANT = {
    "setnx": ("key:000000000001", "x"), "incr": ("stalls:n",), "decr": ("stalls:n",), "incrby": ("stalls:n", 5),
    "decrby": ("stalls:n", 5), "incrbyfloat": ("stalls:f", "1.5"), "ttl": (key(1),), "pttl": (key(1),),
    "expiretime": (key(1),), "pexpiretime": (key(1),), "type": (key(1),), "dbsize": (), "randomkey": (),
    "object|encoding": (key(1),), "object|freq": (key(1),), "object|help": (), "object|idletime": (key(1),),
    "object|refcount": (key(1),), "unwatch": (), "hello": (3,), "auth": ("default", "wrong"), "ping": (),
    "select": (0,), "reset": (), "client|getname": (), "client|help": (), "client|id": (), "client|info": (),
    "client|no-evict": ("OFF",), "client|no-touch": ("OFF",), "client|reply": ("ON",),
    "client|setinfo": ("LIB-NAME", "stalls"), "client|setname": ("stalls",), "info": ("everything",), "config|help": (),
    "config|resetstat": (), "config|rewrite": (), "config|set": ("slowlog-max-len", 128), "command|count": (),
    "command|help": (), "time": (), "save": (), "bgsave": (),
    "lastsave": (), "role": (), "bgrewriteaof": (), "wait": (0, 0), "waitaof": (0, 0, 0), "memory|doctor": (), "memory|help": (), "memory|stats": (),
    "memory|usage": (key(1),), "slowlog|help": (), "script|exists": ("x",), "script|flush": (), "script|help": (), "function|delete": ("x",), "function|flush": (), "function|help": (), "function|kill": (), "function|list": (), "function|stats": (),
    "script|kill": (), "script|load": ("return 1",),
    "slowlog|len": (), "slowlog|reset": (), "latency|doctor": (),
    "latency|help": (), "latency|histogram": (), "latency|history": ("command",), "latency|latest": (),
    "latency|reset": (), "debug|help": (), "debug|sleep": (0.05,), "debug|object": (key(1),), "debug|set-active-expire": (1,), "acl|cat": ("read",), "acl|getuser": ("default",), "acl|help": (),
    "acl|list": (), "acl|setuser": ("nobody",), "acl|users": (), "acl|whoami": (), "shutdown": (), "module|help": (), "module|list": (),
    "memory|malloc-stats": (), "memory|purge": (), "latency|graph": ("command",), "sort": ("stalls:none",), "sort_ro": ("stalls:none",),
    "bitfield_ro": (key(1), "GET", "u8", 0), "lolwut": ("VERSION", 5),
    "strlen": (key(1),), "delex": ("stalls:none", "IFEQ", "x"), "delifeq": ("stalls:none", "x"), "getbit": (key(1), 7), "readonly": (), "readwrite": (), "todana.read": ("bounded",), "todana.index": (),
    "todana.after": (0,), "todana.scopes": (), "todana.whereis": ("stalls", "{user,7}"), "todana.names": ("stalls",),
    "todana.groups": ("stalls",), "todana.members": ("stalls", "{room,9}"), "asking": (), "cluster|count-failure-reports": ("x",), "cluster|countkeysinslot": (1,),
    "cluster|getkeysinslot": (1, 10), "cluster|help": (), "cluster|info": (), "cluster|keyslot": (key(1),),
    "cluster|links": (), "cluster|myid": (), "cluster|myshardid": (), "cluster|nodes": (), "cluster|replicas": ("x",),
    "cluster|shards": (), "cluster|slaves": ("x",), "cluster|slots": (),
    "unsubscribe": (), "punsubscribe": (), "sunsubscribe": (), "spublish": ("stalls", "x"), "pubsub|help": (),
    "pubsub|numpat": (), "pubsub|shardchannels": (), "pubsub|shardnumsub": ("stalls",), "client|caching": ("YES",),
    "client|getredir": (), "client|tracking": ("OFF",), "client|trackinginfo": (), "client|unpause": (),
    "client|pause": (0, "WRITE"),
}  # fmt: skip
# Commands that change the state of the connection or end it.
FRESH = {"hello", "reset", "client|reply", "auth", "quit"}


def call(*arguments, times=1) -> bytes:
    """A command, repeated `times` times."""
    return encode(*arguments) * times


def transaction(*commands) -> bytes:
    """MULTI, the commands, EXEC."""
    return b"".join([encode("MULTI"), *commands, encode("EXEC")])


def mset(count, first=1, word="MSET") -> bytes:
    """Pairs of the large databases."""
    return encode(word, *[part for number in range(first, first + count) for part in (key(number), VALUE)])


def keys(count, first=1) -> list[bytes]:
    """Keys of the large databases."""
    return [key(number) for number in range(first, first + count)]


def stored(count) -> bytes:
    """Stores the first keys again, by as many commands as that needs."""
    half = (count + 1) // 2
    return mset(half) + mset(count - half, half + 1)


def names(prefix) -> list[str]:
    """As many names as a client may subscribe to."""
    return [f"{prefix}{number}" for number in range(NAMES)]


def crc64(data) -> int:
    """The checksum of a payload of DUMP."""
    table, total = [], 0
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x95AC9329AC4BC9B5 if byte & 1 else 0)
        table.append(byte)
    for byte in data:
        total = total >> 8 ^ table[(total ^ byte) & 0xFF]
    return total


@functools.cache
def dumped(value) -> bytes:
    """A payload for RESTORE."""
    payload = b"\x00\x80" + len(value).to_bytes(4, "big") + value + b"\x0a\x00"
    return payload + crc64(payload).to_bytes(8, "little")


def hostile(length) -> str:
    """A pattern that matches up to the end of a key and fails there, at every position."""
    return "*" + "a" * (length - 2) + "b"


def starry(length) -> str:
    """A pattern with a star for every other character."""
    return "*a" * (length // 2 - 1) + "*b"


def _constant() -> list[Row]:
    rows = [
        Row("resp", name.replace("|", " ").upper(), (name,), lambda name=name, words=words: call(*name.split("|"), *words),
            is_fresh=name in FRESH, is_constant=True)
        for name, words in CONSTANT.items()
    ]  # fmt: skip
    multi = Row("resp", "MULTI", ("multi",), lambda: call("MULTI") + call("DISCARD"), is_constant=True)
    monitor = Row("resp", "MONITOR", ("monitor",), lambda: call("MONITOR") + call("RESET"), is_fresh=True)
    return [*rows, multi, monitor, Row("resp", "QUIT", ("quit",), lambda: call("QUIT"), is_fresh=True, is_constant=True)]


def rows(sizes: Sizes) -> list[Row]:
    """All rows; those that empty a database come last."""
    return [*_constant(), *_values(sizes), *_keys(sizes), *_walks(sizes), *_server(sizes), *_transactions(sizes), *_scripts(), *_limits(sizes), *_ends(sizes)]


def _values(sizes) -> list[Row]:
    """Commands that read or write one value, of the maximum size."""
    big = b"x" * sizes.value_bytes
    room = b"x" * (sizes.value_bytes - 4096)
    text = size_text(sizes.value_bytes)
    put = lambda: call("SET", "big", big)  # noqa: E731
    put_room = lambda: call("SET", "big", room)  # noqa: E731
    zeros = lambda: call("SET", "big", bytes(sizes.value_bytes))  # noqa: E731

    def row(label, covers, request, prepare=None, **named):
        return Row("resp", label, (covers,), request, prepare, database=SCRATCH, key=b"big", needs=(), **named)

    return [
        Row("resp", "GET", ("get",), lambda: call("GET", key(1)), is_constant=True),
        Row("resp", "GET, 10,000 pipelined", ("get",), lambda: call("GET", key(1), times=10_000)),
        Row("resp", "SET", ("set",), lambda: call("SET", key(1), VALUE), is_constant=True),
        Row("resp", "SET, 10,000 pipelined", ("set",), lambda: call("SET", key(1), VALUE, times=10_000)),
        row(f"SET of {text}", "set", put),
        row(f"SET .. GET over {text}", "set", lambda: call("SET", "big", "x", "GET"), put, is_once=True),
        row(f"SETNX of {text}", "setnx", lambda: call("SETNX", "big", big), lambda: call("DEL", "big"), is_once=True),
        row(f"SETEX of {text}", "setex", lambda: call("SETEX", "big", 100, big), is_once=True),
        row(f"PSETEX of {text}", "psetex", lambda: call("PSETEX", "big", 100_000, big), is_once=True),
        row(f"GET of {text}", "get", lambda: call("GET", "big"), put),
        row(f"GETSET over {text}", "getset", lambda: call("GETSET", "big", "x"), put, is_once=True),
        row(f"GETDEL of {text}", "getdel", lambda: call("GETDEL", "big"), put, is_once=True),
        row(f"GETEX of {text}", "getex", lambda: call("GETEX", "big", "EX", 1000), put),
        row(f"APPEND of a byte to {text}, 50 times", "append", lambda: call("APPEND", "big", "x", times=50), put_room, is_once=True),
        row(f"SETRANGE of a byte in {text}, 50 times", "setrange", lambda: call("SETRANGE", "big", 7, "x", times=50), put),
        row(f"SETRANGE at {text}, of nothing", "setrange", lambda: call("SETRANGE", "big", sizes.value_bytes - 1, "x"), lambda: call("DEL", "big"), is_once=True),
        row(f"SETBIT in {text}, 50 times", "setbit", lambda: call("SETBIT", "big", 9, 1, times=50), put),
        row(f"GETRANGE of {text}", "getrange", lambda: call("GETRANGE", "big", 1, -1), put),
        row(f"SUBSTR of {text}", "substr", lambda: call("SUBSTR", "big", 1, -1), put),
        row(f"BITCOUNT of {text}", "bitcount", lambda: call("BITCOUNT", "big"), put),
        row(f"BITPOS in {text}", "bitpos", lambda: call("BITPOS", "big", 1), zeros),
        row(f"BITOP of three values of {text}", "bitop", lambda: call("BITOP", "XOR", "result", "big", "big", "big"), put, is_once=True),
        row("BITOP of 5,000 keys", "bitop", lambda: call("BITOP", "OR", "result", *[b"bits:%d" % n for n in range(5_000)]), is_once=True),
        row(f"BITFIELD at both ends of {text}", "bitfield",
            lambda: call("BITFIELD", "big", "SET", "u8", 0, 1, "INCRBY", "u8", 8 * sizes.value_bytes - 8, 1), put),
        row("BITFIELD of 5,000 operations", "bitfield",
            lambda: call("BITFIELD", "big", *[word for n in range(5_000) for word in ("INCRBY", "u5", n, 1)]), put),
        row(f"DUMP of {text}", "dump", lambda: call("DUMP", "big"), put, is_once=True),
        row(f"RESTORE of {text}", "restore", lambda: call("RESTORE", "big", 0, dumped(big), "REPLACE"), is_once=True),
        row("PFADD of 5,000 elements", "pfadd", lambda: call("PFADD", "sketch", *range(5_000)), lambda: call("DEL", "sketch"), is_once=True),
        row("PFCOUNT of 5,000 keys", "pfcount", lambda: call("PFCOUNT", *["sketch"] * 5_000), lambda: call("PFADD", "sketch", *range(5_000))),
        row("PFMERGE of 4,000 keys", "pfmerge", lambda: call("PFMERGE", "merged", *["sketch"] * 4_000), lambda: call("PFADD", "sketch", *range(5_000))),
        row(f"EXPIRE of {text}", "expire", lambda: call("EXPIRE", "big", 1000), put),
        row(f"PEXPIRE of {text}", "pexpire", lambda: call("PEXPIRE", "big", 1_000_000), put),
        row(f"EXPIREAT of {text}", "expireat", lambda: call("EXPIREAT", "big", 4_000_000_000), put),
        row(f"PEXPIREAT of {text}", "pexpireat", lambda: call("PEXPIREAT", "big", 4_000_000_000_000), put),
        row(f"PERSIST of {text}", "persist", lambda: call("EXPIRE", "big", 1000) + call("PERSIST", "big"), put),
        row(f"RENAME of {text}", "rename", lambda: call("RENAME", "big", "large") + call("RENAME", "large", "big"), put),
        row(f"RENAMENX of {text}", "renamenx", lambda: call("RENAMENX", "big", "large") + call("RENAMENX", "large", "big"), put),
        row(f"COPY of {text}", "copy", lambda: call("COPY", "big", "large", "REPLACE"), put),
        row(f"MOVE of {text}", "move", lambda: call("MOVE", "big", SPARE), lambda: call("FLUSHDB") + call("SELECT", SPARE) + call("FLUSHDB") + call("SELECT", SCRATCH) + put(), is_once=True),
        row(f"DEL of {text}", "del", lambda: call("DEL", "big"), put, is_once=True),
        row(f"UNLINK of {text}", "unlink", lambda: call("UNLINK", "big"), put, is_once=True),
        row(f"MGET of 3 values of {text}", "mget", lambda: call("MGET", "big", "big", "big"), put),
        row(f"ECHO of {text}", "echo", lambda: call("ECHO", big)),
        row(f"PING of {text}", "ping", lambda: call("PING", big)),
        row("an unknown command of 16 KiB", "ping", lambda: call(b"\xff" * 16_384), is_constant=True),
        row("LCS of 16 KiB and 16 KiB", "lcs", lambda: call("LCS", "big", "large"), lambda: call("SET", "big", "ab" * 8192) + call("SET", "large", "ba" * 8192)),
        row("LCS IDX of 16 KiB and 16 KiB", "lcs", lambda: call("LCS", "big", "large", "IDX"), lambda: call("SET", "big", "ab" * 8192) + call("SET", "large", "ba" * 8192)),
        row("LCS of 5,632 B and 5,632 B", "lcs", lambda: call("LCS", "big", "large"), lambda: call("SET", "big", "ab" * 2816) + call("SET", "large", "ba" * 2816)),
        row("LCS IDX of 5,632 B and 5,632 B", "lcs", lambda: call("LCS", "big", "large", "IDX"), lambda: call("SET", "big", "ab" * 2816) + call("SET", "large", "ba" * 2816)),
        row("LCS of 64 B and 512 KiB", "lcs", lambda: call("LCS", "big", "small"), lambda: call("SET", "big", "ab" * (1 << 18)) + call("SET", "small", "ba" * 32)),
        row("LCS of 64 B and 4 MiB", "lcs", lambda: call("LCS", "big", "small"), lambda: call("SET", "big", "ab" * (1 << 21)) + call("SET", "small", "ba" * 32)),
        row("LCS LEN of 64 B and 4 MiB", "lcs", lambda: call("LCS", "big", "small", "LEN"), lambda: call("SET", "big", "ab" * (1 << 21)) + call("SET", "small", "ba" * 32)),
    ]  # fmt: skip


def _keys(sizes) -> list[Row]:
    """Commands of many keys."""
    many = f"{sizes.keys:,} keys"
    watched = min(sizes.keys, WATCHED_KEYS_MAX)
    each = lambda word: lambda: call(word, *keys(sizes.keys))  # noqa: E731
    back = lambda: stored(sizes.keys)  # noqa: E731
    pairs = f"{sizes.pairs:,} pairs"
    fewer = min(sizes.pairs, PAIRS_MAX)

    def row(label, covers, request, prepare=None, **named):
        return Row("resp", label, (covers,), request, prepare, **named)

    return [
        row(f"MGET of {many}", "mget", each("MGET")),
        row(f"EXISTS of {many}", "exists", each("EXISTS")),
        row(f"TOUCH of {many}", "touch", each("TOUCH")),
        row(f"DEL of {many}", "del", each("DEL"), back, is_once=True),
        row(f"UNLINK of {many}", "unlink", each("UNLINK"), back, is_once=True),
        row(f"MSET of {fewer:,} pairs", "mset", lambda: mset(fewer)),
        row(f"MSETNX of {fewer:,} pairs", "msetnx", lambda: mset(fewer, word="MSETNX"), lambda: call("DEL", *keys(fewer)), is_once=True),
        row(f"MSETNX of {fewer:,} pairs, refused", "msetnx", lambda: mset(fewer, word="MSETNX")),
        row(f"WATCH of {watched:,} keys", "watch", lambda: call("WATCH", *keys(watched)) + call("UNWATCH")),
        row(f"COMMAND GETKEYS of {pairs}", "command|getkeys", lambda: encode("COMMAND", "GETKEYS", "MSET", *[b"k"] * (2 * sizes.pairs - 4))),
        row(f"COMMAND GETKEYSANDFLAGS of {pairs}", "command|getkeysandflags", lambda: encode("COMMAND", "GETKEYSANDFLAGS", "MSET", *[b"k"] * (2 * sizes.pairs - 4))),
    ]  # fmt: skip


def _walks(sizes) -> list[Row]:
    """Commands that examine a whole database."""
    long_keys = [b"%04d" % number + b"a" * (sizes.long_key_bytes - 4) for number in range(200)]
    put_long = lambda: call("FLUSHDB") + b"".join(call("SET", each, "x") for each in long_keys)  # noqa: E731
    length = f"{sizes.long_key_bytes >> 10} KiB"

    def row(label, covers, request, prepare=None, **named):
        return Row("resp", label, (covers,), request, prepare, **named)

    def ordered(label, covers, request, **named):
        return Row("resp", label, (covers,), request, database=named.pop("database", ORDERED), needs=(named.pop("need", ORDERED),), **named)

    def long(label, covers, request):
        return row(label, covers, request, put_long, database=SCRATCH, key=long_keys[0], needs=())

    return [
        row("KEYS *", "keys", lambda: call("KEYS", "*")),
        row("KEYS none*", "keys", lambda: call("KEYS", "none*")),
        row("KEYS of a hostile pattern", "keys", lambda: call("KEYS", hostile(PATTERN_BYTES))),
        long(f"KEYS of a hostile pattern, 200 keys of {length}", "keys", lambda: call("KEYS", hostile(PATTERN_BYTES))),
        long(f"KEYS of a pattern of stars, 200 keys of {length}", "keys", lambda: call("KEYS", starry(PATTERN_BYTES))),
        long(f"KEYS of a pattern of 32 KiB, 200 keys of {length}", "keys", lambda: call("KEYS", hostile(32_768))),
        row(f"SCAN 0 COUNT {sizes.records:,}", "scan", lambda: call("SCAN", 0, "COUNT", sizes.records)),
        row(f"SCAN 0 MATCH none* COUNT {sizes.records:,}", "scan", lambda: call("SCAN", 0, "MATCH", "none*", "COUNT", sizes.records)),
        long(f"SCAN 0 MATCH of a hostile pattern, 200 keys of {length}", "scan", lambda: call("SCAN", 0, "MATCH", hostile(PATTERN_BYTES), "COUNT", 1_000_000)),
        row("SCAN 0", "scan", lambda: call("SCAN", 0)),
        row("RANDOMKEY of few", "randomkey", lambda: call("RANDOMKEY"), lambda: call("FLUSHDB") + call("SET", "one", "x"), database=SCRATCH, key=b"one", needs=()),
        ordered("RANGE, LIMIT 65536 WITHVALUES", "range", lambda: call("RANGE", "", "", "LIMIT", 65_536, "WITHVALUES")),
        ordered("RANGE .. REV, LIMIT 65536", "range", lambda: call("RANGE", "", "", "REV", "LIMIT", 65_536)),
        ordered("PREFIX, LIMIT 65536", "prefix", lambda: call("PREFIX", "key:", "LIMIT", 65_536)),
        ordered("PREFIX of none in an order of numbers", "prefix", lambda: call("PREFIX", "none"), database=DECIMAL, need=DECIMAL),
    ]  # fmt: skip


def _server(sizes) -> list[Row]:
    """Commands of clients and of the server whose cost grows with their arguments or the number of clients."""
    def row(label, covers, request, **named):
        return Row("resp", label, (covers,), request, **named)

    return [
        row(f"CLIENT LIST of {sizes.connections:,} clients", "client|list", lambda: call("CLIENT", "LIST"), action=lambda host, spent: _crowd(host, sizes, call("CLIENT", "LIST"), spent)),
        row(f"CLIENT KILL among {sizes.connections:,} clients", "client|kill", lambda: b"", action=lambda host, spent: _crowd(host, sizes, call("CLIENT", "KILL", "ADDR", "127.0.0.1:1"), spent)),
        row(f"SUBSCRIBE to {NAMES:,} channels", "subscribe", lambda: RESP3 + call("SUBSCRIBE", *names("c")), is_fresh=True),
        row(f"PSUBSCRIBE to {NAMES:,} patterns", "psubscribe", lambda: RESP3 + call("PSUBSCRIBE", *names("p*")), is_fresh=True),
        row(f"SSUBSCRIBE to {NAMES:,} channels", "ssubscribe", lambda: RESP3 + call("SSUBSCRIBE", *names("s")), is_fresh=True),
        row(f"PUBLISH to {sizes.connections:,} subscribers", "publish", lambda: b"", action=lambda host, spent: _publish(host, sizes, encode("SUBSCRIBE", "stalls"), spent)),
        row(f"PUBLISH to {sizes.connections:,} clients with hostile patterns", "publish", lambda: b"", action=lambda host, spent: _publish(host, sizes, encode("PSUBSCRIBE", *[hostile(PATTERN_BYTES - number) for number in range(16)]), spent)),
        row(f"PUBSUB CHANNELS of {NAMES:,}", "pubsub|channels", lambda: RESP3 + call("SUBSCRIBE", *names("c")) + call("PUBSUB", "CHANNELS", hostile(PATTERN_BYTES)), is_fresh=True),
        row("PUBSUB NUMSUB of 60,000 names", "pubsub|numsub", lambda: call("PUBSUB", "NUMSUB", *["c"] * 60_000)),
        row("CONFIG GET *", "config|get", lambda: call("CONFIG", "GET", "*"), is_constant=True),
        row("CONFIG GET of 16 hostile patterns", "config|get", lambda: call("CONFIG", "GET", *[hostile(PATTERN_BYTES)] * 16)),
        row("INFO, 1,000 pipelined", "info", lambda: call("INFO", "everything", times=1000)),
        row("COMMAND", "command", lambda: call("COMMAND")),
        row("COMMAND DOCS", "command|docs", lambda: call("COMMAND", "DOCS")),
        row("COMMAND DOCS of 60,000 names", "command|docs", lambda: call("COMMAND", "DOCS", *["get"] * 60_000)),
        row("COMMAND INFO of 1,024 names", "command|info", lambda: call("COMMAND", "INFO", *["get"] * 1024)),
        row("COMMAND LIST of a hostile pattern", "command|list", lambda: call("COMMAND", "LIST", "FILTERBY", "PATTERN", hostile(PATTERN_BYTES))),
        row("SLOWLOG GET -1", "slowlog|get", lambda: call("SLOWLOG", "GET", -1)),
        row("LATENCY HISTOGRAM of 60,000 names", "latency|histogram", lambda: call("LATENCY", "HISTOGRAM", *["get"] * 60_000)),
        row("SWAPDB", "swapdb", lambda: call("SWAPDB", SCRATCH, SPARE)),
    ]  # fmt: skip


def _crowd(host, sizes, request, spent_s):
    """A request beside many idle clients."""
    crowd = [host.connect("resp") for _ in range(sizes.connections)]
    try:
        client = host.connect("resp")
        crowd.append(client)
        host.measured(lambda: client.ask(request, spent_s))
    finally:
        for client in crowd:
            client.close()


def _publish(host, sizes, subscription, spent_s):
    """A message of a long channel to many clients."""
    crowd = [host.connect("resp") for _ in range(sizes.connections)]
    channel = b"stalls" if subscription.find(b"PSUBSCRIBE") < 0 else b"a" * 60_000
    try:
        for client in crowd:
            client.ask(RESP3 + subscription, spent_s)
        client = host.connect("resp")
        crowd.append(client)
        host.measured(lambda: client.ask(encode("PUBLISH", channel, VALUE), spent_s))
    finally:
        for client in crowd:
            client.close()


def _transactions(sizes) -> list[Row]:
    """EXECs of the maximum number of commands, or of the most expensive ones."""
    medium = lambda name="big": call("SET", name, b"x" * sizes.medium_bytes)  # noqa: E731
    text = size_text(sizes.medium_bytes)
    largest = size_text(sizes.value_bytes)
    # The maximum that is admitted: each word of a command is a unit of work, each key one, and each stored value one more.
    written, read = sizes.commands // 4, sizes.commands // 3
    watched = min(sizes.keys, WATCHED_KEYS_MAX)
    pairs = min(sizes.pairs, PAIRS_MAX)
    lcs = lambda: call("SET", "big", "ab" * (1 << 21)) + call("SET", "small", "ba" * 32)  # noqa: E731

    def row(label, commands, prepare=None, **named):
        return Row("resp", f"EXEC of {label}", ("exec",), lambda: transaction(*commands()), prepare, **named)

    def scratch(label, commands, prepare):
        return row(label, commands, prepare, database=SCRATCH, key=b"big", needs=(), is_once=True)

    return [
        row(f"{written:,} SETs", lambda: [call("SET", each, VALUE) for each in keys(written)], is_once=True),
        row(f"{read:,} GETs", lambda: [call("GET", each) for each in keys(read)], is_once=True),
        row(f"{read:,} INCRs of one key", lambda: [call("INCR", "stalls:n", times=read)], key=b"stalls:n", is_once=True),
        row(f"{sizes.commands:,} GETs", lambda: [call("GET", each) for each in keys(sizes.commands)], is_once=True),
        row(f"30 MGETs of {sizes.keys:,} keys", lambda: [call("MGET", *keys(sizes.keys), times=30)], is_once=True),
        row(f"30 MSETs of {pairs:,} pairs", lambda: [mset(pairs)] * 30, is_once=True),
        row(f"DEL of {sizes.keys:,} keys", lambda: [call("DEL", *keys(sizes.keys))], lambda: stored(sizes.keys), is_once=True),
        row("20 KEYS none*", lambda: [call("KEYS", "none*", times=20)], is_once=True),
        row("20 SCANs with COUNT of all", lambda: [call("SCAN", 0, "MATCH", "none*", "COUNT", sizes.records, times=20)], is_once=True),
        row("20 DBSIZEs and RANDOMKEYs", lambda: [call("DBSIZE"), call("RANDOMKEY")] * 20),
        row("30 RANGEs, LIMIT 65536", lambda: [call("RANGE", "", "", "LIMIT", 65_536, times=30)], database=ORDERED, needs=(ORDERED,), is_once=True),
        row("a PREFIX of none in an order of numbers", lambda: [call("PREFIX", "none")], database=DECIMAL, needs=(DECIMAL,), is_once=True),
        row("2,000 INFOs", lambda: [call("INFO", "everything", times=2000)], is_once=True),
        row("200 COMMANDs", lambda: [call("COMMAND", times=200)], is_once=True),
        scratch("30 LCSs of 64 B and 4 MiB", lambda: [call("LCS", "big", "small", "LEN", times=30)], lcs),
        scratch(f"200 APPENDs to {text}", lambda: [call("APPEND", "big", "x", times=200)], medium),
        scratch(f"200 SETRANGEs in {text}", lambda: [call("SETRANGE", "big", 1, "x", times=200)], medium),
        scratch(f"300 COPYs of {text} with REPLACE", lambda: [call("COPY", "big", "large", "REPLACE", times=300)], medium),
        scratch(f"200 EXPIREs of {text}", lambda: [call("EXPIRE", "big", 1000, times=200)], medium),
        scratch(f"200 BITCOUNTs of {largest}", lambda: [call("BITCOUNT", "big", times=200)], lambda: call("SET", "big", b"x" * sizes.value_bytes)),
        scratch(f"200 BITPOSs in {largest}", lambda: [call("BITPOS", "big", 1, times=200)], lambda: call("SET", "big", bytes(sizes.value_bytes))),
        scratch(f"3 GETs of {largest}", lambda: [call("GET", "big", times=3)], lambda: call("SET", "big", b"x" * sizes.value_bytes)),
        # The largest transactions that are admitted. Those above exceed the limit of work and show that they are refused.
        row(f"MSET of {pairs:,} pairs", lambda: [mset(pairs)], is_once=True),
        row(f"DEL of {sizes.keys // 3:,} keys", lambda: [call("DEL", *keys(sizes.keys // 3))], lambda: stored(sizes.keys // 3), is_once=True),
        row(f"MGET of {sizes.keys // 2:,} keys", lambda: [call("MGET", *keys(sizes.keys // 2))], is_once=True),
        row("RANGE, LIMIT 10000", lambda: [call("RANGE", "", "", "LIMIT", 10_000)], database=ORDERED, needs=(ORDERED,), is_once=True),
        scratch("250 LCSs of 512 B and 512 B", lambda: [call("LCS", "big", "small", times=250)], lambda: call("SET", "big", "ab" * 256) + call("SET", "small", "ba" * 256)),
        scratch(f"3 BITCOUNTs of {text}", lambda: [call("BITCOUNT", "big", times=3)], medium),
        scratch(f"2 APPENDs to {text}", lambda: [call("APPEND", "big", "x", times=2)], medium),
        scratch("200 SETs of 100 KiB", lambda: [call("SET", "big", b"x" * 102_400, times=200)], medium),
        Row("resp", f"EXEC after WATCH of {watched:,} keys", ("exec",), lambda: call("WATCH", *keys(watched)) + transaction(call("GET", key(1))), is_once=True),
        Row("resp", f"DISCARD of {read:,} commands", ("discard",), lambda: call("MULTI") + call("SET", "key", "value", times=read) + call("DISCARD"), is_once=True),
        Row("resp", f"{QUEUING} clients that queue {size_text(sizes.queued_bytes)} each", ("multi",), lambda: b"", action=lambda host, spent: _queue(host, sizes, spent)),
    ]  # fmt: skip


SCRIPTS = {
    "that does nothing": "return 1",
    "that never ends": "while true do end",
    "that catches its end": "while true do pcall(function() while true do end end) end",
    "that backtracks": "return ('a'):rep(30000):find('.-.-.-.-b')",
    "that joins strings": "local s = ('x'):rep(1000000) while true do local t = s .. 'y' end",
    "that compares strings": "local a, b = ('x'):rep(1000000) .. 'a', ('x'):rep(1000000) .. 'b' while a < b do end",
    "that fills its memory": "local t = {} while true do t[#t + 1] = {} end",
    "that returns much": "local t = {} t[1] = t t[2] = t return t",
    "that encodes much": "local t = {} for i = 1, 1000 do t[i] = i end while true do cjson.encode(t) end",
    "that writes until it is stopped": "while true do redis.call('SET', KEYS[1], ('x'):rep(1000)) end",
}


def _scripts() -> list[Row]:
    """Scripts that take as long as they may."""
    def row(label, source, command="EVAL", **named):
        return Row("resp", f"{command} of a script {label}", (command.lower(),), lambda: call(command, source, 1, "script"), database=SCRATCH, key=b"script", needs=(), **named)

    def named(command):
        source = SCRIPTS["that never ends"]
        name = hashlib.sha1(source.encode()).hexdigest()
        return Row("resp", f"{command} of a script that never ends", (command.lower(),), lambda: call(command, name, 1, "script"), lambda: call("SCRIPT", "LOAD", source), database=SCRATCH, key=b"script", needs=())

    return [
        *(row(label, source) for label, source in SCRIPTS.items()),
        row("that never ends", SCRIPTS["that never ends"], "EVAL_RO"),
        named("EVALSHA"),
        named("EVALSHA_RO"),
        Row("resp", "SCRIPT LOAD of 64 KiB", ("script|load",), lambda: call("SCRIPT", "LOAD", "x = 1 " * 11_000)),
    ]  # fmt: skip


def _queue(host, sizes, spent_s):
    """Clients that queue commands and never execute them."""
    value = b"x" * (4 << 20 if sizes.queued_bytes > 4 << 20 else sizes.queued_bytes // 2)
    times = sizes.queued_bytes // len(value)
    request, answer_bytes = call("MULTI") + call("SET", "key", value, times=times), len("+OK\r\n" + "+QUEUED\r\n" * times)
    clients = [host.connect("resp") for _ in range(QUEUING)]
    deadline = time.monotonic() + spent_s

    def queue():
        answer = b""
        for client in clients:
            said = client.ask(request, max(0.0, deadline - time.monotonic()), answer_bytes)
            answer = said if said.startswith(b"closed") else answer
        return answer

    try:
        host.measured(queue)
    finally:
        for client in clients:
            client.close()


def _limits(sizes) -> list[Row]:
    """Writes into a full, evicting database, and records that expire."""
    def full(label, request):
        return Row("resp", label, ("set",), request, database=EVICTING, needs=(EVICTING,), spoils=(EVICTING,), is_once=True)

    large = sizes.evicting_bytes // 5
    return [
        full("SET of 1 MiB into a full, evicting database", lambda: call("SET", "big", b"x" * min(1 << 20, large))),
        full(f"SET of {size_text(large)} into a full, evicting database", lambda: call("SET", "big", b"x" * large)),
        Row("resp", "records that expire, 16,600 a second of 5 M", (), b"", database=EXPIRING, needs=(EXPIRING,), action=lambda host, _: host.measured(lambda: time.sleep(1) or b"")),
    ]  # fmt: skip


def _ends(sizes) -> list[Row]:
    """Commands that remove all records."""
    def row(label, covers, request, spoils=(0,), **named):
        return Row("resp", label, (covers,), request, spoils=spoils, is_once=True, linger_s=0.5, **named)

    def expire_at_once(host, _):
        host.fill_to_expire(SPARE, sizes.bulk, 4.0)
        host.measured(lambda: time.sleep(5) or b"")

    return [
        Row("resp", f"{sizes.bulk:,} records that expire at one time", (), b"", database=SPARE, needs=(), action=expire_at_once),
        row("FLUSHDB", "flushdb", lambda: call("FLUSHDB")),
        row("FLUSHDB ASYNC", "flushdb", lambda: call("FLUSHDB", "ASYNC")),
        row("FLUSHDB of an ordered database", "flushdb", lambda: call("FLUSHDB"), spoils=(ORDERED,), database=ORDERED, needs=(ORDERED,)),
        row("EXEC of FLUSHDB and GET", "exec", lambda: transaction(call("FLUSHDB"), call("GET", key(1)))),
        row("FLUSHALL", "flushall", lambda: call("FLUSHALL"), spoils=tuple(range(7))),
        row("FLUSHALL ASYNC", "flushall", lambda: call("FLUSHALL", "ASYNC"), spoils=tuple(range(7))),
    ]  # fmt: skip


def size_text(count) -> str:
    """Bytes with a unit."""
    for unit, size in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= size:
            return f"{count // size} {unit}"
    return f"{count} B"
