"""RANGE and PREFIX on ordered databases."""

import random

import pytest

import wire
from fixtures import DECIMAL, HASH, PERSISTENT, PROTO_TREE, TREE
from wire import OK, QUEUED, SYNTAX_ERROR, Error

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

NOT_ORDERED = "ERR the database is not ordered"


@pytest.fixture(params=[TREE, PROTO_TREE, PERSISTENT], ids=["%", "+", "%#ktopts=p"])
def tree(request, resp):
    """A connection to an ordered database."""
    assert resp.call("SELECT", request.param) == OK
    return resp


def fill(resp, keys):
    """Records whose value is the key in capitals."""
    for key in keys:
        resp.call("SET", key, wire.to_bytes(key).upper())


# --- RANGE


@pytest.mark.parametrize(
    "words, keys",
    [
        ("b d", "bcd"), ("bb d", "cd"), ("b dd", "bcd"), ("a z", "abcde"), ("c c", "c"), ("cc cc", ""), ("d b", ""), ("0 9", ""),
        ("b d REV", "dcb"), ("a e LIMIT 2", "ab"), ("a e REV LIMIT 2", "ed"), ("a e LIMIT 2 REV", "ed"), ("a e AFTER b", "cde"),
        ("a e AFTER bb", "cde"), ("a e REV AFTER d", "cba"), ("a e AFTER e", ""), ("b d AFTER 0", "bcd"), ("a e limit 1 after b", "c"),
        ("b d AFTER z", ""), ("b d REV AFTER z", "dcb"),
    ],
)
def test_range(tree, words, keys):
    """Both ends are included; AFTER continues after a key that need not exist."""
    fill(tree, "abcde")
    assert tree.call("RANGE", *words.split()) == [key.encode() for key in keys]


@pytest.mark.parametrize("from_, to, keys", [("", "", "abcde"), ("c", "", "cde"), ("", "c", "abc")])
def test_an_empty_end_is_open(tree, from_, to, keys):
    """An empty end stands for the end of the database."""
    fill(tree, "abcde")
    assert tree.call("RANGE", from_, to) == [key.encode() for key in keys]


def test_range_with_values(tree):
    """Keys and values alternate."""
    fill(tree, "abc")
    assert tree.call("RANGE", "a", "b", "WITHVALUES") == [b"a", b"A", b"b", b"B"]
    assert tree.call("RANGE", "x", "y", "WITHVALUES") == []


def test_range_with_values_in_resp3(empty, resp3):
    """RESP3 returns pairs."""
    resp3.call("SELECT", TREE)
    fill(resp3, "ab")
    assert resp3.call("RANGE", "a", "b", "WITHVALUES") == [[b"a", b"A"], [b"b", b"B"]]


def test_keys_of_any_bytes(tree):
    """Bytes are unsigned, and a shorter key comes first; the empty key is valid."""
    chance = random.Random(1)
    keys = sorted({chance.randbytes(chance.randrange(4)) for _ in range(300)} | {b"", b"\0", b"\xff\xff\xff"})
    for key in keys:
        tree.call("SET", key, "v")
    assert tree.call("RANGE", "", "") == keys
    assert tree.call("RANGE", "", "", "REV") == keys[::-1]
    assert tree.call("RANGE", b"\x40", b"\xc0") == [key for key in keys if b"\x40" <= key <= b"\xc0"]


def test_ranges_against_a_model(tree):
    """A hundred random ranges."""
    chance = random.Random(2)
    keys = sorted({b"%04d" % chance.randrange(10_000) for _ in range(500)})
    fill(tree, keys)
    for _ in range(100):
        low, high, after = (b"%04d" % chance.randrange(10_000) for _ in range(3))
        limit, reverse = chance.choice([1, 3, 50, 1000]), chance.random() < 0.5
        expected = [key for key in keys if low <= key <= high and (key < after if reverse else key > after)]
        expected = (expected[::-1] if reverse else expected)[:limit]
        assert tree.call("RANGE", low, high, "LIMIT", limit, "AFTER", after, *(["REV"] if reverse else [])) == expected


def test_pages_during_writes(tree, connect):
    """Stable keys are returned once while other keys change."""
    fill(tree, [f"stays{i:04}" for i in range(500)])
    seen, after = [], []
    while page := tree.call("RANGE", "", "", "LIMIT", 7, *after):
        seen += page
        after = ["AFTER", page[-1]]
        if not page[-1].endswith(b"x"):
            tree.call("SET", page[-1] + b"x", "v")
        tree.call("DEL", seen[len(seen) // 2] + b"x")
    assert [key for key in seen if not key.endswith(b"x")] == [b"stays%04d" % i for i in range(500)]


def test_expired_keys_are_passed_over(resp):
    """RANGE and PREFIX skip expired records at once."""
    resp.call("SELECT", TREE)
    fill(resp, "abc")
    resp.call("PEXPIRE", "b", 1)
    assert wire.wait_until(lambda: resp.call("RANGE", "", "") == [b"a", b"c"])


def test_the_default_limit(tree):
    """Without LIMIT, a reply has a thousand keys."""
    fill(tree, [f"{i:04}" for i in range(1200)])
    assert len(tree.call("RANGE", "", "")) == 1000
    assert len(tree.call("RANGE", "", "", "LIMIT", 65_536)) == 1200


@pytest.mark.parametrize(
    "limit, answer",
    [
        (1, None),
        (65_536, None),
        (0, "LIMIT must be"),
        (-1, "LIMIT must be"),
        (65_537, "LIMIT must be"),
        ("x", "not an integer"),
        (2**64, "not an integer"),
    ],
)
def test_limits(tree, limit, answer):
    """LIMIT is from 1 to 65,536."""
    got = tree.call("RANGE", "", "", "LIMIT", limit)
    assert got == [] if answer is None else isinstance(got, Error) and answer in got.text


@pytest.mark.parametrize("words", ["RANGE", "RANGE a", "PREFIX"])
def test_missing_words(tree, words):
    """The error is that of a wrong number of arguments."""
    assert "wrong number of arguments" in tree.call(*words.split()).text


@pytest.mark.parametrize("words", ["RANGE a b X", "RANGE a b LIMIT", "RANGE a b AFTER", "PREFIX a LIMIT", "PREFIX a b"])
def test_bad_syntax(tree, words):
    """Unknown options are a syntax error."""
    assert tree.call(*words.split()) == SYNTAX_ERROR


@pytest.mark.parametrize("number", [HASH, 2, 3, 15])
@pytest.mark.parametrize("words", ["RANGE a b", "PREFIX a"])
def test_unordered_databases(resp, number, words):
    """The command fails in a database that is not ordered."""
    resp.call("SELECT", number)
    assert resp.call(*words.split()).text.startswith(NOT_ORDERED)


def test_numeric_order(resp):
    """With rcomp=dec, keys are ordered by the number at their beginning."""
    resp.call("SELECT", DECIMAL)
    fill(resp, ["100", "20", "3", "-7", "1000"])
    assert resp.call("RANGE", "", "") == [b"-7", b"3", b"20", b"100", b"1000"]
    assert resp.call("RANGE", "3", "100") == [b"3", b"20", b"100"]


# --- PREFIX


@pytest.mark.parametrize(
    "words, keys",
    [
        ("user:", ["user:1", "user:10", "user:2"]), ("user:1", ["user:1", "user:10"]), ("user:1 REV", ["user:10", "user:1"]), ("x", []),
        ("user: LIMIT 1", ["user:1"]), ("user: AFTER user:1", ["user:10", "user:2"]), ("user: REV AFTER user:2", ["user:10", "user:1"]),
        ("user: LIMIT 1 AFTER user:1", ["user:10"]),
    ],
)
def test_prefix(tree, words, keys):
    """Keys that begin with the prefix, including the prefix itself."""
    fill(tree, ["user:1", "user:2", "user:10", "use", "uses", "a", "z"])
    assert tree.call("PREFIX", *words.split()) == [key.encode() for key in keys]


def test_prefixes_at_the_end_of_the_order(tree):
    """No key follows the keys with this prefix."""
    for key in (b"\xfe", b"\xff", b"\xff\xff", b"\xff\xffx"):
        tree.call("SET", key, "v")
    assert tree.call("PREFIX", b"\xff") == [b"\xff", b"\xff\xff", b"\xff\xffx"]
    assert tree.call("PREFIX", b"\xff\xff", "REV") == [b"\xff\xffx", b"\xff\xff"]
    assert len(tree.call("PREFIX", "")) == 4


def test_prefix_with_values(tree):
    """Keys and values alternate."""
    fill(tree, ["ab", "ac"])
    assert tree.call("PREFIX", "a", "WITHVALUES") == [b"ab", b"AB", b"ac", b"AC"]


# --- among other commands


def test_in_a_transaction(tree):
    """The range is from one point in time."""
    fill(tree, "abc")
    assert tree.call("MULTI") == OK
    assert tree.call("SET", "bb", "v") == QUEUED
    assert tree.call("RANGE", "a", "c") == QUEUED
    assert tree.call("PREFIX", "b") == QUEUED
    assert tree.call("EXEC") == [OK, [b"a", b"b", b"bb", b"c"], [b"b", b"bb"]]


def test_every_write_is_in_order(tree):
    """The range includes keys that any command creates."""
    tree.call("MSET", "m1", 1, "m2", 2)
    tree.call("APPEND", "append", "x")
    tree.call("INCR", "incr")
    tree.call("SETRANGE", "setrange", 3, "x")
    tree.call("SETBIT", "bit", 1, 1)
    tree.call("RENAME", "m1", "renamed")
    tree.call("COPY", "m2", "copied")
    tree.call("GETDEL", "m2")
    assert tree.call("RANGE", "", "") == [b"append", b"bit", b"copied", b"incr", b"renamed", b"setrange"]
    assert tree.call("FLUSHDB") == OK
    assert tree.call("RANGE", "", "") == []


def test_moves_between_databases(resp):
    """MOVE and COPY from an unordered to an ordered database."""
    resp.call("SELECT", HASH)
    fill(resp, "ab")
    resp.call("MOVE", "a", TREE)
    resp.call("COPY", "b", "c", "DB", TREE)
    resp.call("SELECT", TREE)
    assert resp.call("RANGE", "", "") == [b"a", b"c"]


def test_the_other_commands_know_ordered_databases(tree):
    """KEYS, SCAN, RANDOMKEY and DBSIZE work as usual."""
    fill(tree, [f"k{i:03}" for i in range(200)])
    assert tree.call("DBSIZE") == 200
    assert sorted(tree.call("KEYS", "k00?")) == [b"k00%d" % i for i in range(10)]
    seen, cursor = set(), b"0"
    while True:
        cursor, page = tree.call("SCAN", cursor, "COUNT", 20)
        seen |= set(page)
        if cursor == b"0":
            break
    assert len(seen) == 200
    assert tree.call("RANDOMKEY").startswith(b"k")


def test_command_lists_them(resp):
    """The commands are read-only and name no keys."""
    for name in ("range", "prefix"):
        (row,) = resp.call("COMMAND", "INFO", name)
        assert row[0] == name.encode() and wire.Status("readonly") in row[2]
