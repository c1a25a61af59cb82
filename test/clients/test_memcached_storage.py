"""Storage commands of the text protocol: set, add, replace, append, prepend, cas."""

import time

import pymemcache
import pytest

from wire import SLACK_S, wait_until


def cas_of(memcached, key):
    """The CAS token of a record."""
    memcached.send(b"gets %s\r\n" % key)
    token = memcached.line().split()[-1]
    memcached.line()
    memcached.hear(b"END\r\n")
    return token


def test_set(memcached):
    """set stores a value whether or not there is a record."""
    memcached.transcript("""
        > set k 0 0 5
        > hello
        STORED
        > set k 7 0 2
        > hi
        STORED
        > get k
        VALUE k 7 2
        hi
        END
    """)


def test_add(memcached):
    """add stores only if there is no record."""
    memcached.transcript("""
        > add k 0 0 1
        > a
        STORED
        > add k 0 0 1
        > b
        NOT_STORED
        > get k
        VALUE k 0 1
        a
        END
    """)


def test_replace(memcached):
    """replace stores only if there is a record."""
    memcached.transcript("""
        > replace k 0 0 1
        > a
        NOT_STORED
        > set k 0 0 1
        > a
        STORED
        > replace k 5 0 1
        > b
        STORED
        > get k
        VALUE k 5 1
        b
        END
    """)


def test_append_and_prepend(memcached):
    """append and prepend extend a value and keep its flags and expiry."""
    memcached.transcript("""
        > append k 0 0 1
        > x
        NOT_STORED
        > prepend k 0 0 1
        > x
        NOT_STORED
        > set k 9 0 1
        > b
        STORED
        > append k 1 0 1
        > c
        STORED
        > prepend k 2 0 1
        > a
        STORED
        > get k
        VALUE k 9 3
        abc
        END
    """)


def test_cas(memcached):
    """cas stores only if the record has not changed since."""
    memcached.transcript("""
        > cas k 0 0 1 1
        > x
        NOT_FOUND
        > set k 0 0 1
        > a
        STORED
    """)
    token = cas_of(memcached, b"k")
    memcached.talk(b"cas k 3 0 1 %s\r\nb\r\n" % token, b"STORED\r\n")
    memcached.talk(b"cas k 4 0 1 %s\r\nc\r\n" % token, b"EXISTS\r\n")
    memcached.talk(b"get k\r\n", b"VALUE k 3 1\r\nb\r\nEND\r\n")


@pytest.mark.parametrize(
    "change", [b"set k 0 0 1\r\nb\r\n", b"append k 0 0 1\r\nb\r\n", b"incr k 1\r\n", b"prepend k 0 0 1\r\n1\r\n"]
)
def test_every_change_has_a_new_cas_token(memcached, change):
    """A token is never used twice for different values."""
    memcached.command("set k 0 0 1", "1")
    before = cas_of(memcached, b"k")
    memcached.send(change)
    memcached.line()
    assert cas_of(memcached, b"k") != before


def test_the_cas_token_stays_while_nothing_changes(memcached):
    """Reads and failed writes keep the token."""
    memcached.command("set k 0 0 1", "1")
    before = cas_of(memcached, b"k")
    memcached.command("add k 0 0 1", "2")
    memcached.command("cas k 0 0 1 999999999", "2")
    assert cas_of(memcached, b"k") == before


@pytest.mark.parametrize("verb", [b"set", b"add", b"replace", b"append", b"prepend"])
def test_noreply(memcached, verb):
    """With noreply, the server sends no reply."""
    if verb not in (b"set", b"add"):
        memcached.command("set k 0 0 1", "1")
    memcached.send(verb + b" k 0 0 1 noreply\r\n1\r\n")
    memcached.talk(b"mn\r\n", b"MN\r\n")
    memcached.send(b"get k\r\n")
    assert memcached.line().startswith(b"VALUE k 0 ")


def test_cas_noreply(memcached):
    """In cas, noreply follows the token."""
    memcached.command("set k 0 0 1", "1")
    memcached.send(b"cas k 0 0 1 %s noreply\r\n2\r\n" % cas_of(memcached, b"k"))
    memcached.talk(b"get k\r\n", b"VALUE k 0 1\r\n2\r\nEND\r\n")


def test_values_are_binary_safe(memcached):
    """The length determines the value, which may include line ends."""
    value = bytes(range(256)) + b"\r\nEND\r\n"
    assert memcached.command("set k 0 0 %d" % len(value), value) == b"STORED"
    memcached.talk(b"get k\r\n", b"VALUE k 0 %d\r\n%s\r\nEND\r\n" % (len(value), value))


def test_empty_value(memcached):
    """A value may be empty."""
    memcached.talk(b"set k 0 0 0\r\n\r\nget k\r\n", b"STORED\r\nVALUE k 0 0\r\n\r\nEND\r\n")


@pytest.mark.parametrize("flags", [0, 1, 65535, 65536, 2**31, 2**32 - 1])
def test_flags_are_32_bits(memcached, flags):
    """Flags are returned as they were stored."""
    memcached.command(f"set k {flags} 0 1", "v")
    memcached.talk(b"get k\r\n", b"VALUE k %d 1\r\nv\r\nEND\r\n" % flags)


@pytest.mark.parametrize("line", ["set k -1 0 1", "set k x 0 1", "set k 0 x 1", "set k 0 0 x", "set k 0 0 -1"])
def test_numbers_out_of_range(memcached, line):
    """Malformed numbers are refused; the connection stays open or is closed, but nothing is stored."""
    assert memcached.command(line) == b"CLIENT_ERROR bad command line format"


@pytest.mark.todana_only
def test_flags_beyond_32_bits(memcached):
    """Flags that do not fit are refused (memcached 1.6.18 truncates them)."""
    memcached.send(b"set k 4294967296 0 1\r\nv\r\n")
    assert memcached.line().startswith(b"CLIENT_ERROR")


@pytest.mark.parametrize("line", ["set", "set k", "set k 0", "set k 0 0", "cas k 0 0 1"])
def test_too_few_words(memcached, line):
    """An incomplete command line is an error."""
    assert memcached.command(line) in (b"ERROR", b"CLIENT_ERROR bad command line format")
    memcached.talk(b"mn\r\n", b"MN\r\n")


def test_a_bad_data_chunk(memcached):
    """A value longer than announced is refused, and nothing is stored."""
    memcached.send(b"set k 0 0 3\r\nabcdef\r\n")
    assert memcached.line() == b"CLIENT_ERROR bad data chunk"
    memcached.send(b"mn\r\n")
    while memcached.line() != b"MN":
        pass
    memcached.talk(b"get k\r\n", b"END\r\n")


@pytest.mark.parametrize("length", [1, 249, 250])
def test_keys_up_to_250_bytes(memcached, length):
    """A key of 250 bytes is the longest in the protocol."""
    key = b"k" * length
    memcached.talk(b"set %s 0 0 1\r\nv\r\n" % key, b"STORED\r\n")
    memcached.talk(b"get %s\r\n" % key, b"VALUE %s 0 1\r\nv\r\nEND\r\n" % key)
    memcached.talk(b"delete %s\r\n" % key, b"DELETED\r\n")


def test_a_key_of_251_bytes_is_refused(memcached):
    """One byte more is a client error; the server finds the next command."""
    memcached.send(b"set %s 0 0 5\r\nvalue\r\nmn\r\n" % (b"k" * 251))
    assert memcached.line() == b"CLIENT_ERROR bad command line format"
    assert memcached.line() in (b"ERROR", b"MN")


def test_the_largest_value(memcached):
    """Values up to about 1 MiB are stored (memcached needs a part of the MiB itself)."""
    value = b"x" * (1024 * 1024 - 512)
    assert memcached.command("set k 0 0 %d" % len(value), value) == b"STORED"
    memcached.send(b"get k\r\n")
    assert memcached.line() == b"VALUE k 0 %d" % len(value)
    assert memcached.take(len(value)) == value
    memcached.hear(b"\r\nEND\r\n")


def test_a_too_large_value_is_refused_and_the_old_one_is_gone(memcached):
    """Beyond the limit there is one error, the server skips the data, and the old value is removed."""
    memcached.command("set k 0 0 1", "v")
    value = b"x" * (1024 * 1024 + 1)
    assert memcached.command("set k 0 0 %d" % len(value), value) == b"SERVER_ERROR object too large for cache"
    memcached.talk(b"get k\r\n", b"END\r\n")


def test_exptime_zero_never_expires(memcached):
    """0 means no expiry."""
    memcached.command("set k 0 0 1", "v")
    assert memcached.command("mg k t") == b"HD t-1"


def test_negative_exptime_is_over_at_once(memcached):
    """A record with a negative expiry cannot be read."""
    memcached.transcript("""
        > set k 0 -1 1
        > v
        STORED
        > get k
        END
    """)


def test_relative_exptime_up_to_30_days(memcached):
    """Up to 30 days, an expiry counts from now."""
    memcached.command("set k 0 2592000 1", "v")
    left = int(memcached.command("mg k t")[4:])
    assert 2592000 - SLACK_S <= left <= 2592000


def test_absolute_exptime_beyond_30_days(memcached):
    """Beyond 30 days, an expiry is a point in time."""
    memcached.command("set k 0 %d 1" % (time.time() + 5000), "v")
    assert 5000 - SLACK_S <= int(memcached.command("mg k t")[4:]) <= 5001
    memcached.command("set k 0 2592001 1", "v")
    memcached.talk(b"get k\r\n", b"END\r\n")


def test_a_record_expires(memcached):
    """A record expires after its seconds."""
    memcached.command("set k 0 1 1", "v")
    memcached.talk(b"get k\r\n", b"VALUE k 0 1\r\nv\r\nEND\r\n")
    assert wait_until(lambda: memcached.command("mg k") == b"EN", step_s=0.05)
    memcached.transcript("""
        > add k 0 0 1
        > w
        STORED
    """)


def test_a_pipeline_of_storage_commands(memcached):
    """Many commands in one packet are answered in order."""
    memcached.talk(
        b"".join(b"set k%d 0 0 1\r\n%d\r\n" % (i, i % 10) for i in range(1000)) + b"get k999\r\n",
        b"STORED\r\n" * 1000 + b"VALUE k999 0 1\r\n9\r\nEND\r\n",
    )


@pytest.mark.parametrize("cut", range(1, 20))
def test_a_command_cut_at_every_offset(memcached, cut):
    """The result does not depend on how the command is split into packets."""
    request = b"set k 5 0 4\r\na\r\nb\r\n"
    memcached.send(request[:cut])
    time.sleep(0.001)
    memcached.talk(request[cut:] + b"get k\r\n", b"STORED\r\nVALUE k 5 4\r\na\r\nb\r\nEND\r\n")


def test_library_storage(pymemcache_client):
    """The commands with pymemcache."""
    client = pymemcache_client
    assert client.set("k", "v", expire=100) is True
    assert client.add("k", "w") is False
    assert client.replace("k", "w") is True
    assert client.append("k", "x") is True
    assert client.prepend("k", "y") is True
    assert client.get("k") == b"ywx"
    value, token = client.gets("k")
    assert client.cas("k", "new", token) is True
    assert client.cas("k", "newer", token) is False
    assert client.cas("missing", "x", token) is None
    assert client.set_many({"a": "1", "b": "2"}) == []
    assert client.get_many(["a", "b", "c"]) == {"a": b"1", "b": b"2"}
    assert client.delete_many(["a", "b"]) is True
    with pytest.raises(pymemcache.exceptions.MemcacheServerError):
        client.set("large", b"x" * (1 << 21))
