"""String commands, in the alphabetical order of Redis' string command group."""

import threading
import time

import pytest
import redis

from wire import NOT_AN_INTEGER, OK, SYNTAX_ERROR, Error

INT64_MAX = 2**63 - 1
INT64_MIN = -(2**63)


def test_append_creates_then_extends(resp):
    """APPEND returns the new length and creates a missing key."""
    resp.transcript("""
        APPEND k Hello => 5
        APPEND k " World" => 11
        GET k => "Hello World"
        APPEND k "" => 11
    """)


def test_append_keeps_expiry(resp):
    """APPEND changes the value, not the expiry."""
    resp.call("SET", "k", "a", "EX", 100)
    resp.call("APPEND", "k", "b")
    assert 0 < resp.call("TTL", "k") <= 100


def test_decr_and_decrby(resp):
    """DECR and DECRBY start from 0 and go below it."""
    resp.transcript("""
        DECR k => -1
        DECRBY k 10 => -11
        DECRBY k -12 => 1
        GET k => "1"
    """)


def test_decrby_refuses_the_smallest_number(resp):
    """-2^63 cannot be negated."""
    resp.transcript(f"""
        DECRBY k {INT64_MIN} => -ERR decrement would overflow
        EXISTS k => 0
    """)


def test_decr_refuses_to_overflow(resp):
    """A number fits in 64 bits, and a refused command changes nothing."""
    resp.transcript(f"""
        SET k {INT64_MIN} => +OK
        DECR k => -ERR increment or decrement would overflow
        GET k => "{INT64_MIN}"
    """)


def test_get_of_missing_and_empty(resp):
    """A missing key is null, an empty value is not."""
    resp.transcript("""
        GET missing => nil
        SET empty "" => +OK
        GET empty => ""
    """)


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 100, 1000, 4095, 4096, 16384, 65536, 1 << 20])
def test_values_of_every_size_class(resp, length):
    """A value of any size is returned byte for byte."""
    value = bytes(i * 7 % 256 for i in range(min(length, 251))) * (length // 251 + 1)
    value = value[:length]
    assert resp.call("SET", "k", value) == OK
    assert resp.call("GET", "k") == value
    assert resp.call("STRLEN", "k") == length


def test_keys_and_values_are_binary_safe(resp):
    """CR, LF, NUL and bytes above 127 have no special meaning."""
    every_byte = bytes(range(256))
    assert resp.call("SET", every_byte, every_byte[::-1]) == OK
    assert resp.call("GET", every_byte) == every_byte[::-1]
    assert resp.call("KEYS", "*") == [every_byte]


def test_empty_key(resp):
    """The empty key is valid."""
    resp.transcript("""
        SET "" v => +OK
        GET "" => "v"
        DEL "" => 1
    """)


def test_getdel(resp):
    """GETDEL returns the value and removes the key."""
    resp.transcript("""
        SET k v => +OK
        GETDEL k => "v"
        GETDEL k => nil
        EXISTS k => 0
    """)


def test_getex_without_options_keeps_the_lifetime(resp):
    """GETEX without options is GET."""
    resp.transcript("""
        SET k v EX 100 => +OK
        GETEX k => "v"
        TTL k => 100
        GETEX missing => nil
    """)


def test_getex_sets_and_removes_the_lifetime(resp):
    """GETEX EX, PX, EXAT, PXAT and PERSIST."""
    at = int(time.time()) + 1000
    resp.transcript(f"""
        SET k v => +OK
        GETEX k EX 50 => "v"
        TTL k => 50
        GETEX k PX 60000 => "v"
        TTL k => 60
        GETEX k EXAT {at} => "v"
        EXPIRETIME k => {at}
        GETEX k PXAT {at}123 => "v"
        PEXPIRETIME k => {at}123
        GETEX k PERSIST => "v"
        TTL k => -1
        GETEX k EXAT 1 => "v"
        EXISTS k => 0
    """)


def test_getex_refuses_invalid_options(resp):
    """GETEX names itself in the error."""
    resp.transcript("""
        SET k v => +OK
        GETEX k EX => -ERR syntax error
        GETEX k EX 10 PERSIST => -ERR syntax error
        GETEX k EX 10 PX 10 => -ERR syntax error
        GETEX k KEEPTTL => -ERR syntax error
        GETEX k NX => -ERR syntax error
        GETEX k EX 0 => -ERR invalid expire time in 'getex' command
        GETEX k EX -1 => -ERR invalid expire time in 'getex' command
        GETEX k EX abc => -ERR value is not an integer or out of range
        TTL k => -1
    """)


@pytest.mark.parametrize("command", ["GETRANGE", "SUBSTR"])
def test_getrange(resp, command):
    """Both ends are included, negative offsets count from the end, and no offset is out of range."""
    resp.transcript(f"""
        SET k "This is a string" => +OK
        {command} k 0 3 => "This"
        {command} k -3 -1 => "ing"
        {command} k 0 -1 => "This is a string"
        {command} k 10 100 => "string"
        {command} k 5 3 => ""
        {command} k -1 -5 => ""
        {command} k -100 3 => "This"
        {command} k -100 -100 => "T"
        {command} k 100 200 => ""
        {command} missing 0 -1 => ""
        {command} k a 1 => -ERR value is not an integer or out of range
        {command} k 0 {INT64_MAX} => "This is a string"
        {command} k {INT64_MIN} {INT64_MAX} => "This is a string"
    """)


def test_getset(resp):
    """GETSET returns the old value, sets the new one and removes the expiry."""
    resp.transcript("""
        GETSET k a => nil
        EXPIRE k 100 => 1
        GETSET k b => "a"
        TTL k => -1
        GET k => "b"
    """)


def test_incr(resp):
    """INCR starts from 0; the value is a string of digits."""
    resp.transcript("""
        INCR k => 1
        INCR k => 2
        GET k => "2"
        SET k -1 => +OK
        INCR k => 0
    """)


def test_incr_refuses_to_overflow(resp):
    """A number fits in 64 bits."""
    resp.transcript(f"""
        SET k {INT64_MAX} => +OK
        INCR k => -ERR increment or decrement would overflow
        GET k => "{INT64_MAX}"
        INCRBY k {INT64_MIN} => -1
    """)


@pytest.mark.parametrize(
    "value", ["", " 1", "1 ", "+1", "01", "-0", "1.0", "1e3", "0x10", "9223372036854775808", "-9223372036854775809", "a"]
)
def test_incr_parses_strictly(resp, value):
    """Only the canonical decimal text is a number."""
    resp.call("SET", "k", value)
    assert resp.call("INCR", "k") == NOT_AN_INTEGER
    assert resp.call("GET", "k") == value.encode()


@pytest.mark.parametrize("amount", ["", " 1", "+1", "01", "-0", "1.0", "9223372036854775808"])
def test_incrby_parses_its_argument_strictly(resp, amount):
    """The amount must be canonical, too."""
    assert resp.call("INCRBY", "k", amount) == NOT_AN_INTEGER
    assert resp.call("EXISTS", "k") == 0


def test_incr_keeps_expiry(resp):
    """INCR changes the value, not the expiry."""
    resp.transcript("""
        SET k 1 EX 100 => +OK
        INCR k => 2
        TTL k => 100
    """)


def test_incrby(resp):
    """INCRBY adds any 64-bit number."""
    resp.transcript(f"""
        INCRBY k 5 => 5
        INCRBY k -7 => -2
        SET k 0 => +OK
        INCRBY k {INT64_MAX} => {INT64_MAX}
        INCRBY k 1 => -ERR increment or decrement would overflow
    """)


def test_incrbyfloat(resp):
    """Results have no exponent and no trailing zeros."""
    resp.transcript("""
        SET k 10.50 => +OK
        INCRBYFLOAT k 0.1 => "10.6"
        INCRBYFLOAT k -5 => "5.6"
        SET k 5.0e3 => +OK
        INCRBYFLOAT k 2.0e2 => "5200"
        INCRBYFLOAT new 1 => "1"
        INCRBYFLOAT new 0.5 => "1.5"
        INCRBYFLOAT new -1.5 => "0"
        SET k 1e20 => +OK
        INCRBYFLOAT k 0 => "100000000000000000000"
    """)


def test_incrbyfloat_refuses_values_that_are_not_finite_numbers(resp):
    """NaN and infinity never become a value."""
    resp.transcript("""
        SET k 1 => +OK
        INCRBYFLOAT k nan => -ERR value is not a valid float
        INCRBYFLOAT k inf => -ERR increment would produce NaN or Infinity
        INCRBYFLOAT k -inf => -ERR increment would produce NaN or Infinity
        INCRBYFLOAT k "" => -ERR value is not a valid float
        INCRBYFLOAT k " 1" => -ERR value is not a valid float
        INCRBYFLOAT k "1 " => -ERR value is not a valid float
        INCRBYFLOAT k 1x => -ERR value is not a valid float
        GET k => "1"
        SET k " 1" => +OK
        INCRBYFLOAT k 1 => -ERR value is not a valid float
        SET k abc => +OK
        INCRBYFLOAT k 1 => -ERR value is not a valid float
    """)


def test_incrbyfloat_keeps_expiry(resp):
    """INCRBYFLOAT changes the value, not the expiry."""
    resp.transcript("""
        SET k 1 EX 100 => +OK
        INCRBYFLOAT k 0.25 => "1.25"
        TTL k => 100
    """)


def test_lcs(resp):
    """LCS returns the string, its length or the matching ranges."""
    resp.transcript("""
        MSET key1 ohmytext key2 mynewtext => +OK
        LCS key1 key2 => "mytext"
        LCS key1 key2 LEN => 6
        LCS key1 key2 IDX => ["matches", [[[4, 7], [5, 8]], [[2, 3], [0, 1]]], "len", 6]
        LCS key1 key2 IDX MINMATCHLEN 4 => ["matches", [[[4, 7], [5, 8]]], "len", 6]
        LCS key1 key2 IDX MINMATCHLEN 4 WITHMATCHLEN => ["matches", [[[4, 7], [5, 8], 4]], "len", 6]
        LCS key1 missing => ""
        LCS key1 missing LEN => 0
        LCS key1 missing IDX => ["matches", [], "len", 0]
    """)


def test_lcs_refuses_wrong_options(resp):
    """LEN and IDX exclude each other."""
    resp.transcript("""
        LCS a b LEN IDX => -ERR If you want both the length and indexes, please just use IDX.
        LCS a b FOO => -ERR syntax error
        LCS a b MINMATCHLEN => -ERR syntax error
        LCS a b IDX MINMATCHLEN x => -ERR value is not an integer or out of range
    """)


def test_lcs_idx_is_a_map_in_resp3(resp3):
    """RESP3 returns a map with matches and len."""
    resp3.call("MSET", "key1", "ohmytext", "key2", "mynewtext")
    assert resp3.call("LCS", "key1", "key2", "IDX") == {b"matches": [[[4, 7], [5, 8]], [[2, 3], [0, 1]]], b"len": 6}


def test_mget(resp):
    """MGET returns values in the order of the keys, and null for a missing key."""
    resp.transcript("""
        MSET a 1 b 2 => +OK
        MGET a missing b a => ["1", nil, "2", "1"]
        MGET missing => [nil]
    """)


def test_mset(resp):
    """MSET sets all; the last value of a repeated key counts; expiry times are removed."""
    resp.transcript("""
        SET a 0 EX 100 => +OK
        MSET a 1 b 2 a 3 => +OK
        MGET a b => ["3", "2"]
        TTL a => -1
        MSET a 1 b => -ERR wrong number of arguments for 'mset' command
    """)


def test_msetnx_is_all_or_nothing(resp):
    """MSETNX sets nothing if one of the keys exists."""
    resp.transcript("""
        MSETNX a 1 b 2 => 1
        MSETNX b 3 c 4 => 0
        MGET a b c => ["1", "2", nil]
        MSETNX d 1 d 2 => 1
        GET d => "2"
        MSETNX a 1 b => -ERR wrong number of arguments for 'msetnx' command
    """)


def test_psetex(resp):
    """PSETEX sets a value with an expiry in milliseconds."""
    resp.transcript("""
        PSETEX k 100000 v => +OK
        TTL k => 100
        PSETEX k 0 v => -ERR invalid expire time in 'psetex' command
        PSETEX k -5 v => -ERR invalid expire time in 'psetex' command
        PSETEX k x v => -ERR value is not an integer or out of range
    """)


def test_set_conditions(resp):
    """NX sets only a missing key, XX only an existing one."""
    resp.transcript("""
        SET k a XX => nil
        SET k a NX => +OK
        SET k b NX => nil
        SET k b XX => +OK
        GET k => "b"
        SET k c NX XX => -ERR syntax error
    """)


def test_set_get_answers_the_old_value(resp):
    """SET GET is GETSET with options; with NX it returns an existing value and keeps it."""
    resp.transcript("""
        SET k a GET => nil
        SET k b GET => "a"
        SET k c NX GET => "b"
        GET k => "b"
        SET k d XX GET => "b"
        SET k2 x XX GET => nil
        EXISTS k2 => 0
        SET k2 x NX GET => nil
        GET k2 => "x"
    """)


def test_set_lifetimes(resp):
    """EX, PX, EXAT, PXAT and KEEPTTL; a plain SET removes the expiry."""
    at = int(time.time()) + 1000
    resp.transcript(f"""
        SET k v EX 100 => +OK
        TTL k => 100
        SET k w KEEPTTL => +OK
        TTL k => 100
        SET k v => +OK
        TTL k => -1
        SET k v PX 100000 => +OK
        TTL k => 100
        SET k v EXAT {at} => +OK
        EXPIRETIME k => {at}
        SET k v PXAT {at}456 => +OK
        PEXPIRETIME k => {at}456
    """)


def test_set_with_a_past_time_leaves_nothing(resp):
    """An absolute time in the past removes the key at once."""
    resp.transcript("""
        SET k v => +OK
        SET k v EXAT 1 => +OK
        EXISTS k => 0
        SET k v PXAT 1 => +OK
        EXISTS k => 0
    """)


@pytest.mark.parametrize("option", ["EX", "PX", "EXAT", "PXAT"])
def test_set_refuses_impossible_lifetimes(resp, option):
    """Zero, negative, malformed and overflowing times are refused, each with Redis' error."""
    resp.transcript(f"""
        SET k v {option} 0 => -ERR invalid expire time in 'set' command
        SET k v {option} -1 => -ERR invalid expire time in 'set' command
        SET k v {option} 1.5 => -ERR value is not an integer or out of range
        SET k v {option} "" => -ERR value is not an integer or out of range
        SET k v {option} 9223372036854775808 => -ERR value is not an integer or out of range
        SET k v {option} => -ERR syntax error
        EXISTS k => 0
    """)


@pytest.mark.parametrize("option", ["EX", "PX", "EXAT"])
def test_set_refuses_a_time_beyond_64_bits(resp, option):
    """A time that does not fit in 64-bit milliseconds since the epoch is refused."""
    assert resp.call("SET", "k", "v", option, INT64_MAX) == Error("ERR invalid expire time in 'set' command")


@pytest.mark.parametrize(
    "options",
    [
        "EX 10 PX 10", "EX 10 KEEPTTL", "KEEPTTL EX 10", "FOO", "EX 10 PXAT 10", "PERSIST", "NX XX", "XX NX",
    ],
)
def test_set_refuses_contradicting_options(resp, options):
    """Each group of options may be used once."""
    assert resp.call("SET", "k", "v", *options.split()) == SYNTAX_ERROR


def test_set_options_in_any_order_and_case(resp):
    """Options may be in any order."""
    resp.transcript("""
        SET k v ex 100 nx get => nil
        SET k w Get xX pX 50000 => "v"
        TTL k => 50
    """)


def test_setex(resp):
    """SETEX sets a value with an expiry in seconds."""
    resp.transcript("""
        SETEX k 100 v => +OK
        TTL k => 100
        SETEX k 0 v => -ERR invalid expire time in 'setex' command
        SETEX k -5 v => -ERR invalid expire time in 'setex' command
        SETEX k x v => -ERR value is not an integer or out of range
        GET k => "v"
    """)


def test_setnx(resp):
    """SETNX returns 1 if it has set the key."""
    resp.transcript("""
        SETNX k a => 1
        SETNX k b => 0
        GET k => "a"
    """)


def test_setrange(resp):
    """SETRANGE overwrites and pads with NUL; an empty value creates nothing."""
    resp.transcript(r"""
        SET k "Hello World" => +OK
        SETRANGE k 6 Redis => 11
        GET k => "Hello Redis"
        SETRANGE new 3 ab => 5
        GET new => "\x00\x00\x00ab"
        SETRANGE none 10 "" => 0
        EXISTS none => 0
        SETRANGE k 100 "" => 11
        SETRANGE k 11 "!" => 12
    """)


def test_setrange_refuses_impossible_offsets(resp):
    """Negative offsets, and results longer than the largest value, are refused."""
    resp.transcript("""
        SETRANGE k -1 x => -ERR offset is out of range
        SETRANGE k x x => -ERR value is not an integer or out of range
        SETRANGE k 4611686018427387904 x => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        SETRANGE k 9223372036854775807 x => -ERR string exceeds maximum allowed size (proto-max-bulk-len)
        EXISTS k => 0
    """)


def test_setrange_keeps_expiry(resp):
    """SETRANGE changes the value, not the expiry."""
    resp.transcript("""
        SET k abc EX 100 => +OK
        SETRANGE k 1 X => 3
        TTL k => 100
    """)


def test_strlen(resp):
    """STRLEN counts bytes; a missing key has length 0."""
    resp.transcript("""
        SET k "Hello world" => +OK
        STRLEN k => 11
        STRLEN missing => 0
    """)


@pytest.mark.parametrize(
    "command",
    [
        "APPEND k", "DECR", "DECRBY k", "GET", "GET a b", "GETDEL", "GETEX", "GETRANGE k 1", "GETSET k", "INCR", "INCRBY k",
        "INCRBYFLOAT k", "LCS a", "MGET", "MSET", "MSET a", "MSETNX", "PSETEX k 1", "SET", "SET k", "SETEX k 1", "SETNX k",
        "SETRANGE k 1", "STRLEN", "SUBSTR k 1",
    ],
)
def test_wrong_number_of_arguments(resp, command):
    """Arity is checked first, and the error names the command in lower case."""
    words = command.split()
    assert resp.call(*words) == Error("ERR wrong number of arguments for '%s' command" % words[0].lower())


def test_library_strings(client_of_either_version):
    """The commands and their replies with redis-py, in both protocol versions."""
    client = client_of_either_version
    assert client.set("k", "v") is True
    assert client.set("k", "w", nx=True) is None
    assert client.set("k", "w", get=True) == b"v"
    assert client.get("k") == b"w"
    assert client.getex("k", ex=10) == b"w"
    assert client.getdel("k") == b"w"
    assert client.mset({"a": 1, "b": 2}) is True
    assert client.mget("a", "b", "c") == [b"1", b"2", None]
    assert client.incr("a", 5) == 6
    assert client.decr("a") == 5
    assert client.incrbyfloat("a", 0.5) == 5.5
    assert client.append("b", "34") == 3
    assert client.setrange("b", 1, "x") == 3
    assert client.getrange("b", 0, 1) == b"2x"
    assert client.strlen("b") == 3
    assert client.msetnx({"b": 1}) is False
    with pytest.raises(redis.ResponseError, match="not an integer"):
        client.incr("b")


def test_increments_of_many_clients_add_up(server, empty):
    """INCR is atomic: no increment of several connections is lost."""
    def work():
        with redis.Redis(*server.resp) as own:
            for _ in range(200):
                own.incr("counter")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with redis.Redis(*server.resp) as own:
        assert own.get("counter") == b"1600"
