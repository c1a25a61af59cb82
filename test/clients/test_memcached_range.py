"""`get mio:range-search FROM TO LIMIT asc|desc`: memcached on an ordered database 0, as in Mio."""

import random

import pytest

import wire
from wire import Memcached, Resp

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]


@pytest.fixture
def tree(ordered):
    """A memcached connection to an ordered database with five records."""
    with Resp(ordered.resp) as resp:
        resp.call("FLUSHALL")
    with Memcached(ordered.memcached) as memcached:
        for number, key in enumerate("abcde"):
            assert memcached.command(f"set {key} {number} 0 1", key.upper()) == b"STORED"
        yield memcached


def search(memcached, words, command="get"):
    """The keys, flags and values that a search returns."""
    memcached.send(f"{command} mio:range-search {words}\r\n".encode())
    found = []
    while (line := memcached.line()) != b"END":
        word, key, flags, length, *token = line.split()
        assert word == b"VALUE", line
        found.append((key.decode(), int(flags), memcached.take(int(length)).decode(), *token))
        assert memcached.take(2) == b"\r\n"
    return found


@pytest.mark.parametrize(
    "words, keys",
    [
        ("b d 10 asc", "bcd"), ("b d 10 desc", "dcb"), ("bb d 10 asc", "cd"), ("a z 2 asc", "ab"), ("a z 2 desc", "ed"), ("c c 1 asc", "c"),
        ("d b 10 asc", ""), ("x z 10 desc", ""), ("0 z 65536 asc", "abcde"),
    ],
)
def test_search(tree, words, keys):
    """Both ends are included, and the lower key comes first."""
    assert [key for key, _, _ in search(tree, words)] == list(keys)


def test_the_whole_answer(tree):
    """Values match byte for byte, with flags."""
    tree.talk(b"get mio:range-search b c 5 asc\r\n", b"VALUE b 1 1\r\nB\r\nVALUE c 2 1\r\nC\r\nEND\r\n")


def test_tokens(tree):
    """gets returns the tokens of the records."""
    found = search(tree, "b c 5 asc", "gets")
    assert tree.command(b"cas b 0 0 1 " + found[0][3], "x") == b"STORED"
    assert tree.command(b"cas b 0 0 1 " + found[0][3], "y") == b"EXISTS"


def test_a_search_is_followed_by_others(tree):
    """A search and other requests in one pipeline."""
    tree.talk(b"get mio:range-search a a 1 asc\r\nmn\r\nget e\r\n", b"VALUE a 0 1\r\nA\r\nEND\r\nMN\r\nVALUE e 4 1\r\nE\r\nEND\r\n")


@pytest.mark.parametrize(
    "words", ["a", "a b", "a b 1", "a b 0 asc", "a b -1 asc", "a b 65537 asc", "a b x asc", "a b 1 up", "a b 1 asc more"]
)
def test_bad_searches(tree, words):
    """The errors are memcached's, and the connection stays open."""
    assert tree.command("get mio:range-search " + words).startswith(b"CLIENT_ERROR")
    assert tree.command("mn") == b"MN"


def test_the_key_alone_is_a_key(tree):
    """A `get` of the key without further words reads the record."""
    tree.talk(b"get mio:range-search\r\n", b"END\r\n")
    assert tree.command("set mio:range-search 0 0 1", "v") == b"STORED"
    tree.talk(b"get mio:range-search\r\n", b"VALUE mio:range-search 0 1\r\nv\r\nEND\r\n")


def test_an_unordered_database(memcached):
    """The search fails in a database that is not ordered."""
    assert memcached.command("get mio:range-search a b 10 asc").startswith(b"SERVER_ERROR")
    assert memcached.command("mn") == b"MN"


def test_many_records(tree):
    """The answer takes several turns and is in order."""
    chance = random.Random(1)
    keys = [f"k{i:05}" for i in range(10_000)]
    for key in chance.sample(keys, len(keys)):
        tree.send(f"set {key} 0 0 5 noreply\r\nvalue\r\n".encode())
    assert tree.command("mn") == b"MN"
    assert [row[0] for row in search(tree, "k k99999 65536 asc")] == keys
    assert [row[0] for row in search(tree, "k k99999 100 desc")] == keys[::-1][:100]


def test_records_of_other_doors(ordered, tree):
    """Records of the other protocols are in the same order."""
    with Resp(ordered.resp) as resp:
        resp.call("SET", "bb", "v")
        resp.call("SET", "bc", "v", "PX", 1)
        assert wire.wait_until(lambda: resp.call("EXISTS", "bc") == 0)
    assert [key for key, *_ in search(tree, "b c 10 asc")] == ["b", "bb", "c"]


@pytest.mark.parametrize("key", [b"b b", b"b\r\nEND", b"b 0 1\r\nx\r\nEND\r\nVALUE b", b"b\0", b"b\x7f", b"b" * 251], ids=repr)
def test_keys_that_memcached_cannot_name_are_omitted(ordered, tree, key):
    """The search omits keys that memcached cannot parse, which other protocols may write."""
    with Resp(ordered.resp) as resp:
        assert resp.call("SET", key, "v") == wire.OK
    assert [key for key, *_ in search(tree, "a c 10 asc")] == ["a", "b", "c"]
    assert tree.command("mn") == b"MN"
