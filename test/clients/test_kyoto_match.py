"""Section 2.9: keys by prefix, by regular expression, by similarity."""

import random

import pytest

from fixtures import PROTO_TREE, TREE
from kyoto_wire import BAD_EXPRESSION, INVALID, matches

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]


def fill(kyoto, database, *keys):
    """Records under these keys."""
    for key in keys:
        kyoto.call("set", DB=database, key=key, value="v")


def test_prefix(kyoto, any_database):
    """Keys that begin with the prefix, including the prefix itself."""
    fill(kyoto, any_database, b"ab", b"abc", b"abd", b"a", b"b", b"", b"ab\xff", b"ac")
    assert sorted(kyoto.matching("match_prefix", DB=any_database, prefix="ab")) == [b"ab", b"abc", b"abd", b"ab\xff"]
    assert len(kyoto.matching("match_prefix", DB=any_database, prefix="")) == 8
    assert kyoto.matching("match_prefix", DB=any_database, prefix="x") == []


@pytest.mark.parametrize("tree", [TREE, PROTO_TREE], ids=["%", "+"])
def test_prefixes_are_in_order(kyoto, tree):
    """An ordered database returns keys in order."""
    keys = [b"k%04d" % i for i in range(300)]
    fill(kyoto, tree, *random.Random(1).sample(keys, len(keys)))
    assert kyoto.matching("match_prefix", DB=tree, prefix="k") == keys
    assert kyoto.matching("match_prefix", DB=tree, prefix="k01") == keys[100:200]
    assert kyoto.matching("match_prefix", DB=tree, prefix="k", max=3) == keys[:3]


def test_a_prefix_of_the_highest_bytes(kyoto, database):
    """No key follows the keys with this prefix."""
    fill(kyoto, database, b"\xff", b"\xff\xff", b"\xff\xffx", b"\xfe")
    assert sorted(kyoto.matching("match_prefix", DB=database, prefix=b"\xff\xff")) == [b"\xff\xff", b"\xff\xffx"]


@pytest.mark.parametrize(
    "most, count", [("0", 0), ("1", 1), ("2", 2), ("3", 3), ("4", 3), ("-1", 3), ("-5", 3), ("x", 0), ("99999999999999999999", 3)]
)
@pytest.mark.parametrize(
    "procedure, rows", [("match_prefix", {"prefix": "a"}), ("match_regex", {"regex": "a"}), ("match_similar", {"origin": "a"})]
)
def test_the_maximum_of_keys(kyoto, database, procedure, rows, most, count):
    """A negative maximum means all keys."""
    fill(kyoto, database, "a", "ab", "ac")
    assert len(kyoto.matching(procedure, **rows, DB=database, max=most)) == count


@pytest.mark.parametrize(
    "regex, keys",
    [
        ("b", ["ab", "abc", "b", "Ab"]),
        ("^b", ["b"]),
        ("b$", ["ab", "b", "Ab"]),
        ("^(ab|b)$", ["ab", "b"]),
        ("^.{3}$", ["abc", "x.y", "123"]),
        ("[0-9]+", ["123"]),
        ("[[:digit:]]", ["123"]),
        ("x\\.y", ["x.y"]),
        ("", ["ab", "abc", "b", "x.y", "123", "Ab"]),
        ("B", []),
        ("^a?b+c*$", ["ab", "abc", "b"]),
        ("[^a-z.0-9]", ["Ab"]),
        ("(a|A)b", ["ab", "abc", "Ab"]),
    ],
)
def test_regex(kyoto, database, regex, keys):
    """POSIX extended regular expressions, which match anywhere in the key."""
    fill(kyoto, database, "ab", "abc", "b", "x.y", "123", "Ab")
    assert sorted(kyoto.matching("match_regex", DB=database, regex=regex)) == sorted(key.encode() for key in keys)


@pytest.mark.parametrize("regex", ["(", "[", "a{2,1}", "[b-a]", "(a", "[[:none:]]"])
def test_a_bad_regex(kyoto, database, regex):
    """An invalid expression is an error."""
    assert kyoto.call("match_regex", DB=database, regex=regex) == BAD_EXPRESSION


@pytest.mark.parametrize(
    "origin, rows, keys",
    [
        ("abc", {}, ["abc", "ab", "abcd", "abd", "bc"]),
        ("abc", {"range": "0"}, ["abc"]),
        ("abc", {"range": "2"}, ["abc", "ab", "abcd", "abd", "bc", "b"]),
        ("abc", {"range": "-1"}, ["abc", "ab", "abcd", "abd", "bc"]),
        ("abc", {"max": "2"}, ["abc", "ab"]),
        ("zzzzzz", {}, []),
        ("", {"range": "1"}, ["b"]),
    ],
)
def test_similar(kyoto, database, origin, rows, keys):
    """The most similar key comes first; equally similar keys are in order."""
    fill(kyoto, database, "abc", "abd", "ab", "abcd", "b", "bc", "wxyzuv")
    assert kyoto.matching("match_similar", **rows, DB=database, origin=origin) == [key.encode() for key in keys]


def test_similar_counts_bytes_or_characters(kyoto, database):
    """The presence of `utf` counts, with any value."""
    fill(kyoto, database, "ä", "äö", "o")
    assert kyoto.matching("match_similar", DB=database, origin="a") == [b"o"]
    assert kyoto.matching("match_similar", DB=database, origin="a", utf="") == ["o".encode(), "ä".encode()]
    assert kyoto.matching("match_similar", DB=database, origin="ä", range=1, utf="0") == ["ä".encode(), b"o", "äö".encode()]


def test_similar_with_invalid_utf8(kyoto, database):
    """Invalid UTF-8 contains no characters: such keys have the distance of an empty key."""
    fill(kyoto, database, b"\xff\xfe", b"\xc3", b"ab")
    for origin in (b"\xff", b""):
        assert kyoto.matching("match_similar", DB=database, origin=origin, utf="") == [b"\xc3", b"\xff\xfe"]


def test_matching_looks_at_one_database(kyoto):
    """A search covers only the named database."""
    fill(kyoto, 0, "a")
    fill(kyoto, 1, "ab")
    assert kyoto.call("match_prefix", DB=1, prefix="a") == matches("ab")
    assert kyoto.call("match_regex", prefix="a", regex="a") == matches("a")


@pytest.mark.parametrize("procedure", ["match_prefix", "match_regex", "match_similar"])
def test_the_pattern_is_required(kyoto, procedure):
    """Without the input, the procedure fails."""
    assert kyoto.call(procedure, max="1") == INVALID


@pytest.mark.parametrize(
    "procedure, rows",
    [("match_prefix", {"prefix": "key"}), ("match_regex", {"regex": "^key"}), ("match_similar", {"origin": "key0000", "range": "4"})],
)
def test_matching_among_many_does_not_block_others(connect, database, procedure, rows):
    """The search takes several turns and visits every key once."""
    kyoto, other = connect.kyoto(), connect.kyoto()
    for start in range(0, 20_000, 5000):
        kyoto.set_bulk(*[(database, b"key%04d" % i if i < 10_000 else b"other%d" % i, b"v", 1 << 62) for i in range(start, start + 5000)])
    assert len(kyoto.matching(procedure, **rows, DB=database)) == 10_000
    assert other.value("key0001", DB=database) == b"v"
