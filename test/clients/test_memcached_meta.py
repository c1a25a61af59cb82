"""The meta protocol: mn, mg, ms, md, ma, me with their flags, in the order of protocol.txt."""

import base64
import re

import pytest

from wire import wait_until


def token(line, flag):
    """The token after a flag of an answer line."""
    for word in line.split()[1:]:
        if word[:1] == flag:
            return word[1:]
    raise AssertionError("no %r in %r" % (flag, line))


def cas_of(memcached, key):
    """The CAS token of a record."""
    return token(memcached.command(b"mg %s c" % key), b"c")


# --- mn


def test_mn(memcached):
    """The meta no-op."""
    memcached.talk(b"mn\r\n", b"MN\r\n")


# --- mg


def test_mg_hit_and_miss(memcached):
    """HD for a hit, EN for a miss, VA with the value if v is given."""
    memcached.command("set k 7 0 5", "hello")
    memcached.transcript("""
        > mg missing
        EN
        > mg missing v
        EN
        > mg k
        HD
        > mg k v
        VA 5
        hello
        > mg k s v f
        VA 5 s5 f7
        hello
        > mg k f s
        HD f7 s5
    """)


def test_mg_answers_flags_in_the_order_asked(memcached):
    """Tokens are returned in the order of the request."""
    memcached.command("set k 7 0 5", "hello")
    memcached.transcript("""
        > mg k t k Oabc f s
        HD t-1 kk Oabc f7 s5
        > mg k s f Oabc k t
        HD s5 f7 Oabc kk t-1
    """)


def test_mg_opaque_and_key_on_a_miss(memcached):
    """A miss also returns key and opaque, which identify the request in a pipeline."""
    memcached.talk(b"mg missing k O1 v\r\n", b"EN kmissing O1\r\n")
    memcached.talk(b"md missing k O1\r\n", b"NF kmissing O1\r\n")
    memcached.talk(b"ma missing k O1\r\n", b"NF kmissing O1\r\n")
    memcached.talk(b"ms missing 1 k O1 MR\r\nx\r\n", b"NS kmissing O1\r\n")


def test_mg_quiet(memcached):
    """q suppresses EN, so that a pipeline answers only hits."""
    memcached.command("set k 0 0 1", "x")
    memcached.talk(b"mg a v q\r\nmg k v q\r\nmg b v q\r\nmg k q k\r\nmn\r\n", b"VA 1\r\nx\r\nHD kk\r\nMN\r\n")


def test_mg_base64_key(memcached):
    """With b, the key is sent and returned in base64."""
    binary = b"\x00\x01 key\xff"
    encoded = base64.b64encode(binary)
    memcached.talk(b"ms %s 2 b\r\nhi\r\n" % encoded, b"HD\r\n")
    memcached.talk(b"mg %s b k v\r\n" % encoded, b"VA 2 k%s b\r\nhi\r\n" % encoded)
    memcached.talk(b"mg %s v\r\n" % encoded, b"EN\r\n")
    assert memcached.command("mg !!! b v").startswith(b"CLIENT_ERROR")


def test_mg_ttl(memcached):
    """t returns the remaining seconds, -1 for no expiry; T sets them."""
    memcached.command("set k 0 0 1", "x")
    memcached.talk(b"mg k t\r\n", b"HD t-1\r\n")
    memcached.command("mg k T100")
    assert 98 <= int(token(memcached.command("mg k t"), b"t")) <= 100
    assert 28 <= int(token(memcached.command("mg k T30 t"), b"t")) <= 30


def test_mg_hit_before_and_last_access(memcached):
    """h returns whether the record was read before, l the time since then; u changes neither."""
    memcached.command("set k 0 0 1", "x")
    memcached.transcript("""
        > mg k h u
        HD h0
        > mg k h
        HD h0
        > mg k h
        HD h1
        > mg k l
        HD l0
    """)


def test_mg_cas(memcached):
    """c returns the CAS token."""
    memcached.command("set k 0 0 1", "x")
    first = cas_of(memcached, b"k")
    memcached.command("set k 0 0 1", "y")
    assert cas_of(memcached, b"k") != first


def test_mg_vivify(memcached):
    """N creates an empty record on a miss: the first client wins, and the others learn that there is a winner."""
    memcached.talk(b"mg k s v N30\r\n", b"VA 0 s0 W\r\n\r\n")
    memcached.talk(b"mg k s v N30\r\n", b"VA 0 s0 Z\r\n\r\n")
    assert 28 <= int(token(memcached.command("mg k t N30"), b"t")) <= 30
    memcached.talk(b"ms k 1\r\nx\r\n", b"HD\r\n")
    memcached.talk(b"mg k s v N30\r\n", b"VA 1 s1\r\nx\r\n")


def test_mg_recache(memcached):
    """R lets one client win if less than this time remains."""
    memcached.talk(b"ms k 1 T30\r\nx\r\n", b"HD\r\n")
    memcached.transcript("""
        > mg k v R10
        VA 1
        x
        > mg k v R60
        VA 1 W
        x
        > mg k v R60
        VA 1 Z
        x
    """)


def test_mg_refuses(memcached):
    """A key is required, and only known flags are valid."""
    assert memcached.command("mg").startswith((b"ERROR", b"CLIENT_ERROR"))
    assert memcached.command(b"mg " + b"k" * 251 + b" v").startswith(b"CLIENT_ERROR")
    memcached.command("set k 0 0 1", "x")
    assert memcached.command("mg k !") == b"CLIENT_ERROR invalid flag"
    assert memcached.command("mg k v v") == b"CLIENT_ERROR duplicate flag"
    memcached.talk(b"mn\r\n", b"MN\r\n")


def test_mg_opaque_of_32_bytes(memcached):
    """An opaque token has at most 32 bytes."""
    memcached.command("set k 0 0 1", "x")
    memcached.talk(b"mg k O%s\r\n" % (b"o" * 31), b"HD O%s\r\n" % (b"o" * 31))
    assert memcached.command(b"mg k O" + b"o" * 33).startswith(b"CLIENT_ERROR")


# --- ms


def test_ms_stores(memcached):
    """ms with flags F and T."""
    memcached.talk(b"ms k 2 F99 T100\r\nhi\r\n", b"HD\r\n")
    memcached.talk(b"mg k f v\r\n", b"VA 2 f99\r\nhi\r\n")
    assert 98 <= int(token(memcached.command("mg k t"), b"t")) <= 100


def test_ms_returns_key_opaque_and_cas(memcached):
    """The status line returns k, O and c."""
    memcached.talk(b"ms k 2 k O7\r\nhi\r\n", b"HD kk O7\r\n")
    answer = memcached.command("ms k 2 c", "hi")
    assert token(answer, b"c") == cas_of(memcached, b"k")


def test_ms_modes(memcached):
    """M selects add, append, prepend, replace or set by one letter."""
    memcached.transcript("""
        > ms k 1 MA
        > x
        NS
        > ms k 1 MP
        > x
        NS
        > ms k 1 MR
        > x
        NS
        > ms k 1 ME
        > b
        HD
        > ms k 1 ME
        > z
        NS
        > ms k 1 MA
        > c
        HD
        > ms k 1 MP
        > a
        HD
        > mg k v
        VA 3
        abc
        > ms k 1 MR
        > r
        HD
        > ms k 1 MS
        > s
        HD
        > mg k v
        VA 1
        s
    """)
    assert memcached.command("ms k 1 MX", "x").startswith(b"CLIENT_ERROR")


def test_ms_cas(memcached):
    """C stores only if the record has this token."""
    memcached.talk(b"ms k 1 C1\r\nx\r\n", b"NF\r\n")
    memcached.command("ms k 1", "x")
    right = cas_of(memcached, b"k")
    memcached.talk(b"ms k 1 C%d\r\ny\r\n" % (int(right) + 1000), b"EX\r\n")
    memcached.talk(b"ms k 1 C%s\r\ny\r\n" % right, b"HD\r\n")
    memcached.talk(b"mg k v\r\n", b"VA 1\r\ny\r\n")


def test_ms_invalidate(memcached):
    """With I, a store with an older token succeeds and marks the record as stale."""
    memcached.command("ms k 1", "a")
    old = cas_of(memcached, b"k")
    memcached.command("ms k 1", "b")
    memcached.talk(b"ms k 1 C%s I\r\nc\r\n" % old, b"HD\r\n")
    memcached.send(b"mg k v\r\n")
    line = memcached.line()
    assert line.startswith(b"VA 1") and b"X" in line.split() and b"W" in line.split()
    memcached.hear(b"c\r\n")


def test_ms_quiet(memcached):
    """q suppresses HD, but not failures."""
    memcached.talk(b"ms k 1 q\r\nx\r\nms k 1 q ME\r\nx\r\nmn\r\n", b"NS\r\nMN\r\n")


def test_ms_refuses(memcached):
    """Length and data are checked; no data is parsed as a command."""
    assert memcached.command("ms k").startswith((b"ERROR", b"CLIENT_ERROR"))
    assert memcached.command("ms k abc").startswith(b"CLIENT_ERROR")
    memcached.send(b"ms k 2\r\nabcdef\r\n")
    assert memcached.line() == b"CLIENT_ERROR bad data chunk"
    memcached.send(b"mn\r\n")
    while memcached.line() != b"MN":
        pass
    assert memcached.command("mg k") == b"EN"


def test_ms_of_a_too_large_value(memcached):
    """The limit of the text protocol applies."""
    value = b"x" * (1024 * 1024 + 1)
    assert memcached.command("ms k %d" % len(value), value) == b"SERVER_ERROR object too large for cache"
    memcached.talk(b"mn\r\n", b"MN\r\n")


def test_ms_empty_value(memcached):
    """A value may be empty."""
    memcached.talk(b"ms k 0\r\n\r\nmg k v s\r\n", b"HD\r\nVA 0 s0\r\n\r\n")


# --- md


def test_md(memcached):
    """md deletes; the answer is NF if there is no record."""
    memcached.command("ms k 1", "x")
    memcached.transcript("""
        > md k
        HD
        > md k
        NF
        > mg k
        EN
    """)


def test_md_returns_key_and_opaque(memcached):
    """The answer returns k and O."""
    memcached.command("ms k 1", "x")
    memcached.talk(b"md k k O5\r\n", b"HD kk O5\r\n")


def test_md_cas(memcached):
    """C deletes only if the record has this token."""
    memcached.command("ms k 1", "x")
    right = cas_of(memcached, b"k")
    memcached.talk(b"md k C%d\r\n" % (int(right) + 1000), b"EX\r\n")
    memcached.talk(b"md k C%s\r\n" % right, b"HD\r\n")


def test_md_quiet(memcached):
    """q suppresses HD, but not a miss."""
    memcached.command("ms k 1", "x")
    memcached.talk(b"md k q\r\nmd k q\r\nmn\r\n", b"NF\r\nMN\r\n")


def test_md_marks_stale(memcached):
    """I keeps the record as stale, with a new token: the next reader wins, later ones get Z; T sets its expiry."""
    memcached.command("ms k 1 T500", "x")
    before = cas_of(memcached, b"k")
    memcached.talk(b"md k I T30\r\n", b"HD\r\n")
    first = memcached.command("mg k t c")
    assert 28 <= int(token(first, b"t")) <= 30
    assert token(first, b"c") != before
    assert {b"W", b"X"} <= set(first.split())
    assert {b"X", b"Z"} <= set(memcached.command("mg k").split())
    memcached.command("ms k 1", "y")
    memcached.talk(b"mg k v\r\n", b"VA 1\r\ny\r\n")


# --- ma


def test_ma(memcached):
    """ma increments by 1 and answers HD, or the number with v."""
    memcached.transcript("""
        > ma n
        NF
        > set n 0 0 1
        > 5
        STORED
        > ma n
        HD
        > ma n v
        VA 1
        7
        > ma n v D10
        VA 2
        17
        > ma n v MD
        VA 2
        16
        > ma n v M- D100
        VA 1
        0
        > ma n v M+ D3
        VA 1
        3
        > ma n v MI
        VA 1
        4
    """)


def test_ma_creates(memcached):
    """N with J creates the number on a miss."""
    memcached.talk(b"ma n N100 J13 v\r\n", b"VA 2\r\n13\r\n")
    memcached.talk(b"ma n N100 J13 v\r\n", b"VA 2\r\n14\r\n")
    assert 98 <= int(token(memcached.command("mg n t"), b"t")) <= 100
    memcached.talk(b"ma m N0 v\r\n", b"VA 1\r\n0\r\n")


def test_ma_wraps(memcached):
    """Increments wrap at 64 bits, decrements stop at 0."""
    memcached.command("set n 0 0 20", str(2**64 - 1))
    memcached.talk(b"ma n v\r\n", b"VA 1\r\n0\r\n")


def test_ma_ttl_and_cas(memcached):
    """T sets the expiry, t and c return it and the new token; C compares."""
    memcached.command("set n 0 0 1", "1")
    answer = memcached.command("ma n T100 t c")
    assert 98 <= int(token(answer, b"t")) <= 100
    assert token(answer, b"c") == cas_of(memcached, b"n")
    memcached.talk(b"ma n C%d\r\n" % (int(cas_of(memcached, b"n")) + 1000), b"EX\r\n")
    memcached.talk(b"ma n C%s v\r\n" % cas_of(memcached, b"n"), b"VA 1\r\n3\r\n")


def test_ma_quiet(memcached):
    """q suppresses HD, but not a miss."""
    memcached.command("set n 0 0 1", "1")
    memcached.talk(b"ma n q\r\nma missing q\r\nmn\r\n", b"NF\r\nMN\r\n")


def test_ma_key_and_opaque(memcached):
    """The answer returns k and O."""
    memcached.command("set n 0 0 1", "1")
    memcached.talk(b"ma n k O9 v\r\n", b"VA 1 kn O9\r\n2\r\n")


def test_ma_refuses(memcached):
    """Values, amounts and modes are checked."""
    memcached.command("set n 0 0 1", "x")
    assert memcached.command("ma n") == b"CLIENT_ERROR cannot increment or decrement non-numeric value"
    memcached.command("set n 0 0 1", "1")
    assert memcached.command("ma n Dx").startswith(b"CLIENT_ERROR")
    assert memcached.command("ma n MX").startswith(b"CLIENT_ERROR")
    assert memcached.command("ma n N10 Jx").startswith(b"CLIENT_ERROR")


# --- me


def test_me(memcached):
    """me describes a record in readable text; EN if there is none."""
    memcached.talk(b"me missing\r\n", b"EN\r\n")
    memcached.command("ms k 5", "hello")
    line = memcached.command("me k")
    assert re.match(rb"ME k ", line)
    names = {word.split(b"=")[0] for word in line.split()[2:]}
    assert {b"exp", b"la", b"cas", b"fetch", b"size"} <= names
    assert b"exp=-1" in line


@pytest.mark.one_backend
def test_records_expire(memcached):
    """T counts in seconds."""
    memcached.command("ms k 1 T1", "x")
    assert memcached.command("mg k") == b"HD"
    assert wait_until(lambda: memcached.command("mg k") == b"EN", step_s=0.05)
