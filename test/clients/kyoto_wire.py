"""Raw sockets for Kyoto Tycoon's protocols: HTTP with TSV maps, REST, and the binary protocol.

Replies are compared byte for byte: the client checks that every response has ktserver's layout, and every map the
encoding and the order that ktserver would choose.
"""

from __future__ import annotations

import base64
import quopri
import re
import struct
import time
import urllib.parse
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from wire import SLACK_S, Closed, Connection, to_bytes

TSV = "text/tab-separated-values"
FORM = "application/x-www-form-urlencoded"
# Expiry times from this value on mean never.
NEVER = (1 << 40) - 1
INT64_MAX = (1 << 63) - 1
INT64_MIN = -(1 << 63)
SET_BULK, REMOVE_BULK, GET_BULK, PLAY_SCRIPT, REPLICATION, FAILED = b"\xb8", b"\xb9", b"\xba", b"\xb4", b"\xb1", b"\xbf"
REASONS = {
    200: "OK", 201: "Created", 204: "No Content", 400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found",
    413: "Request Entity Too Large", 450: "Logical Inconsistency", 500: "Internal Server Error", 501: "Not Implemented",
    503: "Service Unavailable",
}
COLUMN_BYTES_SEEN = 255
COLUMN_SAFE = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.!~*'()-")


class Response(NamedTuple):
    """An HTTP response, with header names as they were sent."""

    status: int
    headers: dict[str, str]
    body: bytes


class Answer(NamedTuple):
    """Status and map of a procedure's response."""

    status: int
    rows: dict[bytes, bytes]


def ok(rows=None, /, **named) -> Answer:
    """The answer of a procedure that succeeds with these rows."""
    return Answer(200, {to_bytes(name): to_bytes(value) for name, value in {**(rows or {}), **named}.items()})


def failed(status, text) -> Answer:
    """The answer of a procedure that fails."""
    return Answer(status, {b"ERROR": to_bytes(text)})


NO_RECORD = failed(450, "DB: 7: no record: no record")
DUPLICATE = failed(450, "DB: 6: record duplication: record duplication")
CONFLICT = failed(450, "DB: 8: logical inconsistency: status conflict")
NO_NUMBER = failed(450, "DB: 8: logical inconsistency: logical inconsistency")
BAD_EXPRESSION = failed(450, "DB: 8: logical inconsistency: compilation failed")
NOT_ORDERED = failed(501, "DB: 1: not implemented: not implemented")
INVALID = failed(400, "invalid parameters")
NO_DATABASE = failed(400, "no such database")
NO_CURSOR = failed(400, "no such cursor")
TIMED_OUT = failed(503, "the condition timed out")


def matches(*keys) -> Answer:
    """The answer of match_*: keys by rank."""
    return ok({**{b"_" + to_bytes(key): rank for rank, key in enumerate(keys)}, "num": len(keys)})


def to_url(data) -> bytes:
    """URL-encodes all characters that are not plain."""
    return urllib.parse.quote_from_bytes(to_bytes(data), safe="").encode()


def to_url_as_sent(data: bytes) -> bytes:
    """URL-encodes as the server does, with lower-case hexadecimal digits."""
    return re.sub(rb"%[0-9A-F]{2}", lambda match: match[0].lower(), to_url(data))


ENCODERS = {
    "B": base64.b64encode,
    "Q": lambda data: quopri.encodestring(data, quotetabs=True).replace(b"=\n", b"").replace(b"\n", b"=0A"),
    "U": to_url,
    None: lambda data: data,
}
DECODERS = {"B": lambda data: base64.b64decode(data, validate=True), "U": urllib.parse.unquote_to_bytes, None: lambda data: data}


def to_tsv(rows, encoding=None) -> bytes:
    """A map as lines."""
    encoder = ENCODERS[encoding]
    return b"".join(b"%s\t%s\n" % (encoder(to_bytes(name)), encoder(to_bytes(value))) for name, value in rows.items())


def to_form(rows) -> bytes:
    """A map as a query string."""
    return b"&".join(b"%s=%s" % (to_url(name), to_url(value)) for name, value in rows.items())


def encoding_of(rows) -> str | None:
    """The encoding that ktserver chooses for a map."""
    columns = [column for row in rows.items() for column in row]
    seen = [column[:COLUMN_BYTES_SEEN] for column in columns]
    plain = all(len(column) <= COLUMN_BYTES_SEEN for column in columns)
    if plain and not any(byte < 0x20 or byte == 0x7F for column in seen for byte in column):
        return None
    as_base64 = sum(len(column) * 6 // 4 + 3 for column in seen)
    as_url = sum(1 if byte in COLUMN_SAFE else 3 for column in seen for byte in column)
    return "B" if as_base64 < as_url else "U"


def tsv_as_sent(rows) -> tuple[str, bytes]:
    """The content type and the body that ktserver sends for a map."""
    encoding = encoding_of(rows)
    encoder = to_url_as_sent if encoding == "U" else ENCODERS[encoding]
    lines = sorted((encoder(name), encoder(value)) for name, value in rows.items())
    kind = TSV if encoding is None else f"{TSV}; colenc={encoding}"
    return kind, b"".join(b"%s\t%s\n" % line for line in lines)


def _from_tsv(kind: str, body: bytes) -> dict[bytes, bytes]:
    encoding = kind[-1] if "colenc=" in kind else None
    decoder = DECODERS[encoding]
    rows = {}
    for line in re.findall(rb"[^\n]*\n", body):
        name, _, value = line[:-1].partition(b"\t")
        rows[decoder(name)] = decoder(value)
    assert (kind, body) == tsv_as_sent(rows), "not in the encoding or order that ktserver chooses"
    return rows


def http(method, target, headers=(), body=None, version="HTTP/1.1") -> bytes:
    """A request; a body also sets its length."""
    lines = [b"%s %s %s" % (to_bytes(method), to_bytes(target), to_bytes(version))]
    pairs = [("Host", "localhost"), *headers] if version == "HTTP/1.1" else [*headers]
    lines += [b"%s: %s" % (to_bytes(name), to_bytes(value)) for name, value in pairs]
    if body is not None:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + (body or b"")


def rpc(name, rows=None, encoding="B", headers=()) -> bytes:
    """A procedure's request with a map in its body."""
    if not rows:
        return http("POST", f"/rpc/{name}", headers)
    kind = TSV if encoding is None else f"{TSV}; colenc={encoding}"
    return http("POST", f"/rpc/{name}", [("Content-Type", kind), *headers], to_tsv(rows, encoding))


def chunked(*chunks) -> bytes:
    """A body in chunks."""
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks) + b"0\r\n\r\n"


def frame_of_set(records, flags=0) -> bytes:
    """B8: records are (database, key, value, xt)."""
    parts = [SET_BULK, struct.pack(">II", flags, len(records))]
    for database, key, value, xt in records:
        parts += [struct.pack(">HIIq", database, len(key), len(value), xt), key, value]
    return b"".join(parts)


def frame_of_keys(magic, keys, flags=0) -> bytes:
    """B9 and BA: keys are (database, key)."""
    parts = [magic, struct.pack(">II", flags, len(keys))]
    for database, key in keys:
        parts += [struct.pack(">HI", database, len(key)), key]
    return b"".join(parts)


def frame_of_script(name, pairs, flags=0) -> bytes:
    """B4."""
    parts = [PLAY_SCRIPT, struct.pack(">III", flags, len(name), len(pairs)), name]
    for key, value in pairs:
        parts += [struct.pack(">II", len(key), len(value)), key, value]
    return b"".join(parts)


class Kyoto(Connection):
    """A Kyoto Tycoon connection."""

    def response(self, head=False) -> Response:
        """Reads a response and checks its layout."""
        version, status, reason = self.line().decode("latin-1").split(" ", 2)
        assert version == "HTTP/1.1"
        assert reason == REASONS[int(status)]
        pairs = []
        while line := self.line().decode("latin-1"):
            pairs.append(line.split(": ", 1))
        names = [name for name, _ in pairs]
        headers = dict(pairs)
        assert len(headers) == len(pairs), names
        front = [name for name in ("Server", "Date", "Connection", "Content-Length") if name in headers]
        assert names == front + sorted(set(names) - set(front))
        assert abs(parsedate_to_datetime(headers["Date"]).timestamp() - time.time()) < SLACK_S
        assert headers.get("Connection") in (None, "close")
        body = b"" if head else self.take(int(headers["Content-Length"]))
        return Response(int(status), headers, body)

    def ask(self, method, target, headers=(), body=None, version="HTTP/1.1") -> Response:
        """Sends an HTTP request and reads its response."""
        self.send(http(method, target, headers, body, version))
        return self.response(head=method == "HEAD")

    def answer(self) -> Answer:
        """Reads the response of a procedure."""
        response = self.response()
        return Answer(response.status, _from_tsv(response.headers["Content-Type"], response.body))

    def call(self, procedure, rows=None, /, **named) -> Answer:
        """Runs a procedure. `rows` has the names that are not valid in Python."""
        self.send(rpc(procedure, {**(rows or {}), **named}))
        return self.answer()

    def done(self, procedure, rows=None, /, **named) -> dict[str, bytes]:
        """Runs a procedure that has to succeed, and returns its rows."""
        answer = self.call(procedure, rows, **named)
        assert answer.status == 200, (procedure, answer)
        return {name.decode("latin-1"): value for name, value in answer.rows.items()}

    def value(self, key, **named) -> bytes | None:
        """The value of a key, or None if there is no record."""
        answer = self.call("get", key=key, **named)
        return None if answer == NO_RECORD else answer.rows[b"value"]

    def xt(self, key, **named) -> int | None:
        """The time at which a record expires, or None if it does not."""
        xt = self.done("get", key=key, **named).get("xt")
        return None if xt is None else int(xt)

    def matching(self, procedure, /, **named) -> list[bytes]:
        """The keys that match_* finds, by rank."""
        rows = self.call(procedure, **named).rows
        keys = {int(rank): key[1:] for key, rank in rows.items() if key.startswith(b"_")}
        assert sorted(keys) == list(range(int(rows[b"num"])))
        return [keys[rank] for rank in sorted(keys)]

    def keys_by_cursor(self, **named) -> list[bytes]:
        """All keys, read by a cursor that jumps to the first key and steps."""
        keys = []
        answer = self.call("cur_jump", CUR=1 << 62, **named)
        while answer.status == 200:
            keys.append(self.done("cur_get_key", CUR=1 << 62)["key"])
            answer = self.call("cur_step", CUR=1 << 62)
        self.call("cur_delete", CUR=1 << 62)
        return keys

    def count(self, database=0) -> int:
        """The number of records of a database, including expired ones that are not yet removed."""
        return int(self.done("status", DB=database)["count"])

    def count_of(self, magic) -> int:
        """Reads a binary reply that is a number."""
        assert self.take(1) == magic
        return struct.unpack(">I", self.take(4))[0]

    def set_bulk(self, *records) -> int:
        """Stores (database, key, value, xt) with the binary protocol."""
        self.send(frame_of_set(records))
        return self.count_of(SET_BULK)

    def remove_bulk(self, *keys) -> int:
        """Removes (database, key) with the binary protocol."""
        self.send(frame_of_keys(REMOVE_BULK, keys))
        return self.count_of(REMOVE_BULK)

    def get_bulk(self, *keys) -> list[tuple[int, bytes, bytes, int]]:
        """Reads (database, key) with the binary protocol: (database, key, value, xt) of each hit."""
        self.send(frame_of_keys(GET_BULK, keys))
        return self.records()

    def records(self) -> list[tuple[int, bytes, bytes, int]]:
        """Reads the reply of get_bulk."""
        found = []
        for _ in range(self.count_of(GET_BULK)):
            database, key_bytes, value_bytes, xt = struct.unpack(">HIIq", self.take(18))
            found.append((database, self.take(key_bytes), self.take(value_bytes), xt))
        return found

    def ends_silently(self, data: bytes) -> bool:
        """Whether the server closes the connection after these bytes without a reply."""
        try:
            self.send(data)
            return self.rest() == b""
        except (BrokenPipeError, ConnectionResetError, Closed):
            return True
