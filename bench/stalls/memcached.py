"""Rows of memcached: every command, with the arguments that cost most within the default limits."""

from __future__ import annotations

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

    return [
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
        row("flush_all", "flush_all", lambda: b"flush_all\r\n", spoils=(0,), is_once=True, linger_s=0.5),
        row("flush_all 1", "flush_all", lambda: b"flush_all 1\r\n", spoils=(0,), is_once=True, linger_s=2.0),
    ]  # fmt: skip
