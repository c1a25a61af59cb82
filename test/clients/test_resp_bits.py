"""Bitmap commands, in the alphabetical order of their group."""

import random

import pytest

from wire import Error


def test_bitcount_of_a_whole_value(resp):
    """BITCOUNT counts the set bits of a value; a missing key has none."""
    resp.transcript("""
        SET k foobar => +OK
        BITCOUNT k => 26
        BITCOUNT missing => 0
        BITCOUNT k 0 0 => 4
        BITCOUNT k 1 1 => 6
        BITCOUNT k 1 1 BYTE => 6
        BITCOUNT k 5 30 BIT => 17
        BITCOUNT k -2 -1 => 7
        BITCOUNT k 0 -1 => 26
        BITCOUNT k 5 3 => 0
        BITCOUNT k -100 -50 => 4
        BITCOUNT k 100 200 => 0
        BITCOUNT k 0 -1 BIT => 26
        BITCOUNT k -8 -1 BIT => 4
    """)


def test_bitcount_refuses_wrong_options(resp):
    """Start and end are given together, and the unit is BYTE or BIT."""
    resp.transcript("""
        SET k foobar => +OK
        BITCOUNT k 0 1 HELLO => -ERR syntax error
        BITCOUNT k a b => -ERR value is not an integer or out of range
        BITCOUNT k 0 1 BIT x => -ERR syntax error
    """)


def test_bitcount_refuses_a_start_without_an_end(resp):
    """A start without an end is a syntax error."""
    resp.call("SET", "k", "foobar")
    assert resp.call("BITCOUNT", "k", 0) == Error("ERR syntax error")


def test_bitpos_of_set_bits(resp):
    """BITPOS finds the first bit from the left, counted from the start of the value."""
    resp.transcript(r"""
        SET k "\x00\xff\xf0" => +OK
        BITPOS k 1 => 8
        BITPOS k 1 2 => 16
        BITPOS k 1 0 0 => -1
        BITPOS k 1 2 -1 BYTE => 16
        BITPOS k 1 7 15 BIT => 8
        BITPOS k 1 -5 -1 BIT => 19
        BITPOS k 1 -3 -1 => 8
        BITPOS missing 1 => -1
    """)


def test_bitpos_of_clear_bits(resp):
    """A search for 0 beyond the end finds the position after it, unless an end is given."""
    resp.transcript(r"""
        SET k "\xff\xf0\x00" => +OK
        BITPOS k 0 => 12
        SET k "\xff\xff\xff" => +OK
        BITPOS k 0 => 24
        BITPOS k 0 0 => 24
        BITPOS k 0 0 -1 => -1
        BITPOS k 0 0 -1 BIT => -1
        BITPOS missing 0 => 0
        BITPOS missing 1 0 -1 => -1
    """)


def test_bitpos_refuses_wrong_arguments(resp):
    """The bit must be 0 or 1."""
    resp.transcript("""
        SET k a => +OK
        BITPOS k 2 => -ERR The bit argument must be 1 or 0.
        BITPOS k x => -ERR value is not an integer or out of range
        BITPOS k 1 0 1 FOO => -ERR syntax error
        BITPOS k 1 x => -ERR value is not an integer or out of range
    """)


def test_setbit_and_getbit(resp):
    """SETBIT returns the old bit and lengthens the value; GETBIT beyond the end is 0."""
    resp.transcript(r"""
        SETBIT k 7 1 => 0
        SETBIT k 7 0 => 1
        GET k => "\x00"
        SETBIT k 16 1 => 0
        STRLEN k => 3
        GET k => "\x00\x00\x80"
        GETBIT k 16 => 1
        GETBIT k 17 => 0
        GETBIT k 536870911 => 0
        GETBIT missing 0 => 0
    """)


def test_setbit_refuses_wrong_arguments(resp):
    """Offsets are below 2^32, and bits are 0 or 1."""
    offset_error = "-ERR bit offset is not an integer or out of range"
    resp.transcript(f"""
        SETBIT k -1 1 => {offset_error}
        SETBIT k 4294967296 1 => {offset_error}
        SETBIT k 9223372036854775808 1 => {offset_error}
        SETBIT k x 1 => {offset_error}
        SETBIT k 0 2 => -ERR bit is not an integer or out of range
        SETBIT k 0 x => -ERR bit is not an integer or out of range
        GETBIT k -1 => {offset_error}
        GETBIT k 4294967296 => {offset_error}
        EXISTS k => 0
    """)


def test_setbit_keeps_expiry(resp):
    """SETBIT changes the value, not the expiry."""
    resp.transcript("""
        SET k a EX 100 => +OK
        SETBIT k 0 1 => 0
        TTL k => 100
    """)


def test_bits_against_a_model(resp):
    """Counts and positions of random values agree with those computed in Python."""
    chance = random.Random(7)
    for _ in range(60):
        value = chance.randbytes(chance.randrange(1, 40)) if chance.random() < 0.7 else bytes(chance.randrange(1, 20))
        bits = "".join(f"{byte:08b}" for byte in value)
        start, end = sorted(chance.randrange(len(bits)) for _ in range(2))
        resp.call("SET", "k", value)
        assert resp.call("BITCOUNT", "k", start, end, "BIT") == bits[start : end + 1].count("1")
        assert resp.call("BITPOS", "k", 1, start, end, "BIT") == bits.find("1", start, end + 1)
        assert resp.call("BITPOS", "k", 0, start, end, "BIT") == bits.find("0", start, end + 1)


@pytest.mark.parametrize("command", ["BITCOUNT", "BITPOS k", "GETBIT k", "SETBIT k 1"])
def test_wrong_number_of_arguments(resp, command):
    """Arity is checked first."""
    words = command.split()
    assert resp.call(*words) == Error("ERR wrong number of arguments for '%s' command" % words[0].lower())


def test_library_bits(client_of_either_version):
    """The commands with redis-py."""
    client = client_of_either_version
    assert client.setbit("k", 7, 1) == 0
    assert client.getbit("k", 7) == 1
    assert client.bitcount("k") == 1
    assert client.bitcount("k", 0, -1, "BIT") == 1
    assert client.bitpos("k", 1) == 7
