"""SCAN: the cursor, its options, and its guarantees while keys change."""

import threading

import pytest

from wire import NOT_AN_INTEGER, SYNTAX_ERROR, Error


def scan_all(resp, *options):
    """All keys of a full iteration, including repeated ones, and the number of calls."""
    cursor, keys, calls = b"0", [], 0
    while True:
        cursor, batch = resp.call("SCAN", cursor, *options)
        keys += batch
        calls += 1
        assert calls < 100_000, "the iteration does not end"
        if cursor == b"0":
            return keys, calls


def fill(resp, count, prefix="key:"):
    """Sets this number of keys and returns their names."""
    names = [f"{prefix}{i}".encode() for i in range(count)]
    for start in range(0, count, 500):
        resp.call("MSET", *[word for name in names[start : start + 500] for word in (name, "v")])
    return names


def test_empty_database(resp):
    """An empty database takes one step."""
    assert resp.call("SCAN", 0) == [b"0", []]


@pytest.mark.parametrize("count", [1, 10, 1000, 100_000])
def test_every_key_is_returned(resp, count):
    """A full iteration returns each key for any COUNT."""
    names = fill(resp, 3000)
    keys, _ = scan_all(resp, "COUNT", count)
    assert set(keys) == set(names)
    assert len(keys) == len(names), "keys that nobody changes are returned once"


def test_a_step_is_bounded(resp):
    """A step does an amount of work in proportion to COUNT."""
    fill(resp, 20_000)
    _, calls = scan_all(resp, "COUNT", 100)
    assert calls > 20
    cursor, batch = resp.call("SCAN", 0)
    assert cursor != b"0"
    assert len(batch) < 2000


def test_match(resp):
    """MATCH filters the returned keys."""
    fill(resp, 300)
    fill(resp, 20, prefix="other:")
    keys, _ = scan_all(resp, "MATCH", "other:*", "COUNT", 50)
    assert sorted(keys) == sorted(b"other:%d" % i for i in range(20))
    assert scan_all(resp, "MATCH", "none*")[0] == []
    assert scan_all(resp, "MATCH", "key:7")[0] == [b"key:7"]


def test_type(resp):
    """TYPE filters by type; every record is a string."""
    fill(resp, 30)
    assert len(scan_all(resp, "TYPE", "string")[0]) == 30
    assert scan_all(resp, "TYPE", "hash")[0] == []
    assert len(scan_all(resp, "type", "STRING", "count", 5, "match", "key:1*")[0]) == 11


def test_options_are_checked(resp):
    """Unknown, incomplete and impossible options are refused."""
    assert resp.call("SCAN", 0, "FOO") == SYNTAX_ERROR
    assert resp.call("SCAN", 0, "COUNT") == SYNTAX_ERROR
    assert resp.call("SCAN", 0, "MATCH") == SYNTAX_ERROR
    assert resp.call("SCAN", 0, "COUNT", 0) == SYNTAX_ERROR
    assert resp.call("SCAN", 0, "COUNT", -1) == SYNTAX_ERROR
    assert resp.call("SCAN", 0, "COUNT", "x") == NOT_AN_INTEGER
    assert resp.call("SCAN") == Error("ERR wrong number of arguments for 'scan' command")


@pytest.mark.parametrize("cursor", ["x", "1x", " 1", "99999999999999999999999", "1.0"])
def test_cursors_are_parsed_strictly(resp, cursor):
    """A cursor is an unsigned 64-bit number."""
    assert resp.call("SCAN", cursor) == Error("ERR invalid cursor")


@pytest.mark.parametrize("cursor", ["1", "12345", "4294967296", "18446744073709551615"])
def test_foreign_cursors_are_harmless(resp, cursor):
    """Any 64-bit number is a valid cursor, and the iteration ends."""
    fill(resp, 100)
    following, _ = resp.call("SCAN", cursor, "COUNT", 100_000)
    for _ in range(5000):
        if following == b"0":
            break
        following, _ = resp.call("SCAN", following, "COUNT", 100_000)
    assert following == b"0"


def test_keys_present_throughout_are_returned_while_the_table_grows_and_shrinks(resp, connect):
    """The guarantee: a key that exists from the first to the last step is returned at least once."""
    names = fill(resp, 2000, prefix="stays:")
    other = connect.resp()
    stop = threading.Event()

    def churn():
        generation = 0
        while not stop.is_set():
            words = [f"churn:{generation}:{i}" for i in range(400)]
            other.call("MSET", *[part for word in words for part in (word, "v")])
            other.call("DEL", *words)
            generation += 1

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(5):
            keys, _ = scan_all(resp, "COUNT", 20)
            assert set(names) <= set(keys)
    finally:
        stop.set()
        thread.join()


def test_an_iteration_survives_deletion_of_returned_keys(resp):
    """Deleting each returned key leaves an empty database."""
    fill(resp, 1500)
    cursor = b"0"
    while True:
        cursor, batch = resp.call("SCAN", cursor, "COUNT", 30)
        if batch:
            resp.call("DEL", *batch)
        if cursor == b"0":
            break
    assert resp.call("DBSIZE") == 0


def test_scan_sees_only_its_database(resp):
    """SCAN iterates the selected database."""
    fill(resp, 10)
    resp.call("SELECT", 2)
    fill(resp, 3, prefix="second:")
    assert sorted(scan_all(resp)[0]) == [b"second:0", b"second:1", b"second:2"]


def test_library_scan(client_of_either_version):
    """redis-py's iterator."""
    client = client_of_either_version
    client.mset({f"k{i}": i for i in range(500)})
    assert sorted(client.scan_iter(match="k1*", count=50)) == sorted(f"k{i}".encode() for i in range(500) if f"{i}"[0] == "1")
    assert len(set(client.scan_iter(_type="string"))) == 500
