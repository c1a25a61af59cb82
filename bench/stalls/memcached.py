"""Rows of memcached: every command, with the arguments that cost most within the default limits."""

from __future__ import annotations

import struct

from stalls.row import Row, Sizes, key

VALUE_BYTES = 1 << 20
# Keys in one line: as many as fit into 64 KiB, and as many as memcached serves.
LINE_KEYS, LONG_LINE_KEYS = 3_500, 11_000
CONSTANT = {
    "set": b"set key:000000000001 0 0 16\r\nvalue:0123456789\r\n", "add": b"add key:000000000001 0 0 1\r\nx\r\n",
    "replace": b"replace key:000000000001 0 0 16\r\nvalue:0123456789\r\n", "cas": b"cas key:000000000001 0 0 1 1\r\nx\r\n",
    "get": b"get key:000000000001\r\n", "gets": b"gets key:000000000001\r\n", "delete": b"delete none\r\n",
    "incr": b"incr stalls:n 1\r\n", "decr": b"decr stalls:n 1\r\n", "touch": b"touch key:000000000001 0\r\n",
    "me": b"me key:000000000001\r\n", "mg": b"mg key:000000000001 v t f c\r\n", "md": b"md none\r\n",
    "ma": b"ma stalls:n\r\n", "mn": b"mn\r\n", "version": b"version\r\n", "verbosity": b"verbosity 1\r\n",
    "stats": b"stats\r\n", "shutdown": b"shutdown\r\n",
}  # fmt: skip


def frame(opcode, name=b"", value=b"", extras=b"") -> bytes:
    """A request of the binary protocol."""
    body = extras + name + value
    return struct.pack(">BBHBBHIIQ", 0x80, opcode, len(name), len(extras), 0, 0, len(body), 0, 0) + body


# The opcodes of constant cost; each covers its quiet form, which has another code and the same answer or none.
COUNTER, EXPIRY = struct.pack(">QQI", 1, 1, 0), struct.pack(">I", 1_000_000)
BINARY = {
    "binary get": frame(0x00, key(1)), "binary getk": frame(0x0C, key(1)), "binary getq": frame(0x09, b"none"), "binary getkq": frame(0x0D, b"none"),
    "binary add": frame(0x02, key(1), b"x", bytes(8)), "binary replace": frame(0x03, key(1), b"value:0123456789", bytes(8)),
    "binary addq": frame(0x12, b"stalls:b", b"x", bytes(8)), "binary replaceq": frame(0x13, key(1), b"value:0123456789", bytes(8)),
    "binary setq": frame(0x11, key(1), b"value:0123456789", bytes(8)), "binary delete": frame(0x04, b"none"), "binary deleteq": frame(0x14, b"none"),
    "binary increment": frame(0x05, b"stalls:n", b"", COUNTER), "binary decrement": frame(0x06, b"stalls:n", b"", COUNTER),
    "binary incrementq": frame(0x15, b"stalls:n", b"", COUNTER), "binary decrementq": frame(0x16, b"stalls:n", b"", COUNTER),
    "binary noop": frame(0x0A), "binary version": frame(0x0B), "binary verbosity": frame(0x1B, b"", b"", bytes(4)), "binary stat": frame(0x10),
    "binary touch": frame(0x1C, key(1), b"", EXPIRY), "binary gatk": frame(0x23, key(1), b"", EXPIRY), "binary gatkq": frame(0x24, b"none", b"", EXPIRY),
    "binary gatq": frame(0x1E, b"none", b"", EXPIRY), "binary sasl list mechs": frame(0x20), "binary sasl auth": frame(0x21, b"PLAIN", b"\0x\0y"),
    "binary sasl step": frame(0x22, b"PLAIN", b"\0x\0y"), "binary quit": frame(0x07), "binary quitq": frame(0x17),
}  # fmt: skip


def store(word, name, value, *more) -> bytes:
    """A storage command."""
    words = [word, name, b"0", b"0", b"%d" % len(value), *more]
    return b" ".join(words) + b"\r\n" + value + b"\r\n"


def many(word, count, first=1) -> bytes:
    """A command of many keys."""
    return word + b" " + b" ".join(key(number) for number in range(first, first + count)) + b"\r\n"


def rows(sizes: Sizes) -> list[Row]:
    """All rows; those that empty the database come last."""
    value = b"x" * min(VALUE_BYTES, sizes.value_bytes)
    room = value[:-1024]
    put = lambda: store(b"set", b"big", value)  # noqa: E731
    put_room = lambda: store(b"set", b"big", room)  # noqa: E731

    def row(label, covers, request, prepare=None, **named):
        return Row("memcached", label, (covers,), request, prepare, **named)

    put_framed = lambda: frame(0x01, b"big", value, bytes(8))  # noqa: E731
    put_room_framed = lambda: frame(0x01, b"big", room, bytes(8))  # noqa: E731

    return [
        *[row(name, name, lambda request=request: request, is_fresh=True, is_constant=True) for name, request in BINARY.items()],
        row("binary set of 1 MiB", "binary set", put_framed, key=b"big", is_fresh=True),
        row("binary append to 1 MiB, 100 times", "binary append", lambda: frame(0x0E, b"big", b"x") * 100, put_room_framed, key=b"big",
            is_once=True, is_fresh=True),
        row("binary prepend to 1 MiB, 100 times", "binary prepend", lambda: frame(0x0F, b"big", b"x") * 100, put_room_framed, key=b"big",
            is_once=True, is_fresh=True),
        row("binary appendq to 1 MiB, 100 times", "binary appendq", lambda: frame(0x19, b"big", b"x") * 100, put_room_framed, key=b"big",
            is_once=True, is_fresh=True),
        row("binary prependq to 1 MiB, 100 times", "binary prependq", lambda: frame(0x1A, b"big", b"x") * 100, put_room_framed, key=b"big",
            is_once=True, is_fresh=True),
        row("binary gat of 1 MiB", "binary gat", lambda: frame(0x1D, b"big", b"", EXPIRY), put_framed, key=b"big", is_fresh=True),
        row("binary get, 10,000 pipelined", "binary get", lambda: frame(0x00, key(1)) * 10_000, is_fresh=True),
        *[row(name, name, lambda request=request: request, is_constant=True) for name, request in CONSTANT.items()],
        row("quit", "quit", lambda: b"quit\r\n", is_fresh=True, is_constant=True),
        row("set of 1 MiB", "set", put, key=b"big"),
        row("ms of 1 MiB", "ms", lambda: b"ms big %d\r\n%s\r\n" % (len(value), value), key=b"big"),
        row("append to 1 MiB, 100 times", "append", lambda: store(b"append", b"big", b"x") * 100, put_room, key=b"big", is_once=True),
        row("prepend to 1 MiB, 100 times", "prepend", lambda: store(b"prepend", b"big", b"x") * 100, put_room, key=b"big", is_once=True),
        row("ms with MA to 1 MiB, 100 times", "ms", lambda: b"ms big 1 MA\r\nx\r\n" * 100, put_room, key=b"big", is_once=True),
        row("touch of 1 MiB", "touch", lambda: b"touch big 1000\r\n", put, key=b"big"),
        row("gat of 1 MiB", "gat", lambda: b"gat 1000 big\r\n", put, key=b"big"),
        row("mg with T of 1 MiB", "mg", lambda: b"mg big T1000\r\n", put, key=b"big"),
        row("md with I of 1 MiB", "md", lambda: b"md big I T1000\r\n", put, key=b"big"),
        row(f"get of {LINE_KEYS:,} keys", "get", lambda: many(b"get", LINE_KEYS)),
        row(f"gets of {LINE_KEYS:,} keys", "gets", lambda: many(b"gets", LINE_KEYS)),
        row(f"get of {LONG_LINE_KEYS:,} keys", "get", lambda: many(b"get", LONG_LINE_KEYS)),
        row("get of 250 values of 1 MiB", "get", lambda: b"get" + b" big" * 250 + b"\r\n", put, key=b"big"),
        row(f"gat of {LINE_KEYS:,} keys", "gat", lambda: many(b"gat 1000000", LINE_KEYS)),
        row(f"gats of {LINE_KEYS:,} keys", "gats", lambda: many(b"gats 1000000", LINE_KEYS)),
        row("get, 10,000 pipelined", "get", lambda: CONSTANT["get"] * 10_000),
        row("stats conns", "stats", lambda: b"stats conns\r\n", is_constant=True),
        row("stats reset", "stats", lambda: b"stats reset\r\n", is_constant=True),
        row("binary flush", "binary flush", lambda: frame(0x08), spoils=(0,), is_once=True, is_fresh=True, linger_s=0.5),
        row("binary flushq", "binary flushq", lambda: frame(0x18), spoils=(0,), is_once=True, is_fresh=True, linger_s=0.5),
        row("flush_all", "flush_all", lambda: b"flush_all\r\n", spoils=(0,), is_once=True, linger_s=0.5),
        row("flush_all 1", "flush_all", lambda: b"flush_all 1\r\n", spoils=(0,), is_once=True, linger_s=2.0),
    ]  # fmt: skip
