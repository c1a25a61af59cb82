"""Rows of Kyoto Tycoon: every procedure, with the arguments that cost most within the default limits."""

from __future__ import annotations

from stalls.row import ORDERED, SCRATCH, Row, Sizes, key
from stalls.resp import VALUE, size_text

from kyoto_wire import frame_of_keys, frame_of_script, frame_of_set, http, rpc, GET_BULK, NEVER, REMOVE_BULK, REPLICATION

TEXT = "text/tab-separated-values"
# Characters of the origin of match_similar.
ORIGIN_CHARACTERS = 1_024
# Records of one binary bulk whose reply is below its limit.
BINARY_RECORDS = 500_000
CONSTANT = {
    "void": {}, "echo": {"a": "b"}, "report": {}, "status": {}, "play_script": {"name": "none"},
    "tune_replication": {"host": "none"}, "ulog_list": {}, "ulog_remove": {}, "synchronize": {},
    "set": {"key": key(1), "value": VALUE}, "add": {"key": key(1), "value": "x"},
    "replace": {"key": key(1), "value": VALUE}, "append": {"key": "stalls:none", "value": ""},
    "increment": {"key": "stalls:i", "num": 1}, "increment_double": {"key": "stalls:d", "num": 1},
    "cas": {"key": key(1), "oval": "none", "nval": "x"}, "remove": {"key": "none"}, "get": {"key": key(1)},
    "check": {"key": key(1)}, "seize": {"key": "none"},
}  # fmt: skip
# Procedures of a cursor that is at the first record.
CURSOR = {
    "cur_step": {}, "cur_set_value": {"value": VALUE}, "cur_get_key": {}, "cur_get_value": {}, "cur_get": {},
    "cur_delete": {},
}  # fmt: skip


def body(lines) -> bytes:
    """The lines of a body without encoding."""
    return b"".join(b"%s\t%s\n" % line for line in lines)


def bulk(name, lines, **named) -> bytes:
    """A procedure of many records."""
    options = [(word.encode(), str(value).encode()) for word, value in named.items()]
    return http("POST", f"/rpc/{name}", [("Content-Type", TEXT)], body([*options, *lines]))


def records(count) -> list[tuple[bytes, bytes]]:
    """Inputs of set_bulk."""
    return [(b"_" + key(number), VALUE) for number in range(1, count + 1)]


def names(count) -> list[tuple[bytes, bytes]]:
    """Inputs of get_bulk and remove_bulk."""
    return [(b"_" + key(number), b"") for number in range(1, count + 1)]


def rows(sizes: Sizes) -> list[Row]:
    """All rows; those that empty a database come last."""
    return [*_constant(), *_values(sizes), *_bulks(sizes), *_matches(sizes), *_cursors(), *_ends()]


def _row(label, covers, request, prepare=None, **named):
    return Row("kyoto", label, (covers,), request, prepare, **named)


def _constant() -> list[Row]:
    found = [_row(name, name, lambda name=name, words=words: rpc(name, words), is_constant=True) for name, words in CONSTANT.items()]
    target = "/" + key(1).decode()
    return [
        *found,
        _row("GET", "GET", lambda: http("GET", target), is_constant=True),
        _row("HEAD", "HEAD", lambda: http("HEAD", target), is_constant=True),
        _row("PUT", "PUT", lambda: http("PUT", target, body=VALUE), is_constant=True),
        _row("DELETE", "DELETE", lambda: http("DELETE", "/none"), is_constant=True),
        _row("B4 play_script", "B4 play_script", lambda: frame_of_script(b"none", []), is_fresh=True, is_constant=True),
        _row("B1 replication", "B1 replication", lambda: REPLICATION + bytes(14), is_fresh=True, is_constant=True),
    ]  # fmt: skip


def _values(sizes) -> list[Row]:
    big = b"x" * (sizes.value_bytes * 15 // 16)
    text = size_text(len(big))
    put = lambda: http("PUT", f"/{SCRATCH}/big", body=big)  # noqa: E731

    def row(label, covers, request, prepare=put, **named):
        return _row(label, covers, request, prepare, database=SCRATCH, key=b"big", needs=(), **named)

    def of(name, **named):
        return lambda: rpc(name, {"DB": SCRATCH, "key": "big", **named})

    return [
        row(f"PUT of {text}", "PUT", put, None),
        row(f"GET of {text}", "GET", lambda: http("GET", f"/{SCRATCH}/big")),
        row(f"DELETE of {text}", "DELETE", lambda: http("DELETE", f"/{SCRATCH}/big"), is_once=True),
        row(f"get of {text}", "get", of("get")),
        row(f"check of {text}", "check", of("check")),
        row(f"append to {text}, 50 times", "append", lambda: of("append", value="x")() * 50, is_once=True),
        row(f"cas of {text}", "cas", lambda: bulk("cas", [(b"key", b"big"), (b"oval", big[: len(big) // 2]), (b"nval", b"x")], DB=SCRATCH)),
        row(f"seize of {text}", "seize", of("seize"), is_once=True),
        row(f"remove of {text}", "remove", of("remove"), is_once=True),
    ]  # fmt: skip


def _bulks(sizes) -> list[Row]:
    many = f"{sizes.bulk:,} records"
    binary = min(BINARY_RECORDS, sizes.bulk)
    some = f"{binary:,} records"
    numbers = range(1, binary + 1)
    put = lambda: bulk("set_bulk", records(sizes.bulk))  # noqa: E731
    found = []
    for atomic, word in (({}, ""), ({"atomic": ""}, ", atomic")):
        found += [
            _row(f"set_bulk of {many}{word}", "set_bulk", lambda atomic=atomic: bulk("set_bulk", records(sizes.bulk), **atomic), is_once=True),
            _row(f"get_bulk of {many}{word}", "get_bulk", lambda atomic=atomic: bulk("get_bulk", names(sizes.bulk), **atomic), is_once=True),
            _row(f"remove_bulk of {many}{word}", "remove_bulk", lambda atomic=atomic: bulk("remove_bulk", names(sizes.bulk), **atomic), put, is_once=True),
        ]
    return [
        *found,
        _row(f"B8 set_bulk of {some}", "B8 set_bulk", lambda: frame_of_set([(0, key(number), VALUE, NEVER) for number in numbers]), is_once=True),
        _row(f"BA get_bulk of {some}", "BA get_bulk", lambda: frame_of_keys(GET_BULK, [(0, key(number)) for number in numbers]), is_once=True),
        _row(f"B9 remove_bulk of {some}", "B9 remove_bulk", lambda: frame_of_keys(REMOVE_BULK, [(0, key(number)) for number in numbers]), put, is_once=True),
        _row("get, 10,000 pipelined", "get", lambda: rpc("get", CONSTANT["get"]) * 10_000, is_once=True),
    ]  # fmt: skip


def _matches(sizes) -> list[Row]:
    origin = "key:" + "é" * (ORIGIN_CHARACTERS - 4)
    return [
        _row("match_prefix of all", "match_prefix", lambda: rpc("match_prefix", {"prefix": "", "max": -1}), is_once=True),
        _row("match_prefix of none", "match_prefix", lambda: rpc("match_prefix", {"prefix": "none"}), is_once=True),
        _row("match_regex of none", "match_regex", lambda: rpc("match_regex", {"regex": "(a|aa|[0-9]*:)+b$"}), is_once=True),
        _row("match_similar, 16 characters", "match_similar", lambda: rpc("match_similar", {"origin": "key:000000000000", "range": 1}), is_once=True),
        _row(f"match_similar, {ORIGIN_CHARACTERS:,} characters", "match_similar", lambda: rpc("match_similar", {"origin": origin, "range": 2000, "utf": "true", "max": 10}), is_once=True),
        _row("vacuum", "vacuum", lambda: rpc("vacuum"), is_once=True),
    ]  # fmt: skip


def _cursors() -> list[Row]:
    start = {"DB": ORDERED, "CUR": 1}
    jump = lambda name="cur_jump", **named: rpc(name, {**start, **named})  # noqa: E731

    def row(label, covers, request, prepare=None, **named):
        return _row(label, covers, request, prepare, database=ORDERED, needs=(ORDERED,), **named)

    return [
        row("cur_jump", "cur_jump", jump, is_constant=True),
        row("cur_jump to a key", "cur_jump", lambda: jump(key=key(1000)), is_constant=True),
        row("cur_jump_back", "cur_jump_back", lambda: jump("cur_jump_back"), is_constant=True),
        row("cur_jump_back to a key", "cur_jump_back", lambda: jump("cur_jump_back", key=key(1000)), is_constant=True),
        *[
            row(name, name, lambda name=name, words=words: jump() + rpc(name, {"CUR": 1, **words}), is_constant=True)
            for name, words in CURSOR.items()
        ],
        row("cur_step_back", "cur_step_back", lambda: jump("cur_jump_back") + rpc("cur_step_back", {"CUR": 1}), is_constant=True),
        row("cur_remove, 1,000 times", "cur_remove", lambda: jump() + rpc("cur_remove", {"CUR": 1}) * 1000, is_once=True),
        row("cur_seize, 1,000 times", "cur_seize", lambda: jump() + rpc("cur_seize", {"CUR": 1}) * 1000, is_once=True),
        row("cur_get with step, 10,000 times", "cur_get", lambda: jump() + rpc("cur_get", {"CUR": 1, "step": ""}) * 10_000, is_once=True),
        _row("cur_get with step without an order, 10,000 times", "cur_get", lambda: rpc("cur_jump", {"DB": 0, "CUR": 2}) + rpc("cur_get", {"CUR": 2, "step": ""}) * 10_000, is_once=True),
    ]  # fmt: skip


def _ends() -> list[Row]:
    return [
        _row("clear", "clear", lambda: rpc("clear"), spoils=(0,), is_once=True, linger_s=0.5),
        _row("clear of an ordered database", "clear", lambda: rpc("clear", {"DB": ORDERED}), database=ORDERED, needs=(ORDERED,), spoils=(ORDERED,), is_once=True, linger_s=0.5),
    ]  # fmt: skip
