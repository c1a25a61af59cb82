"""Retrieval, deletion and expiry: get, gets, gat, gats, delete, touch, flush_all, and the framing of requests."""

import re
import time

import pytest

from wire import wait_until


def test_get_of_several_keys(memcached):
    """Records are in the order of the request, without missing ones."""
    memcached.transcript("""
        > set a 1 0 1
        > x
        STORED
        > set b 2 0 2
        > yy
        STORED
        > get a missing b a
        VALUE a 1 1
        x
        VALUE b 2 2
        yy
        VALUE a 1 1
        x
        END
        > get missing
        END
    """)


def test_get_of_very_many_keys(memcached):
    """A get may name hundreds of keys."""
    for i in range(300):
        memcached.send(b"set key%d 0 0 3 noreply\r\nabc\r\n" % i)
    names = b" ".join(b"key%d" % i for i in range(300))
    memcached.talk(b"get " + names + b"\r\n", b"".join(b"VALUE key%d 0 3\r\nabc\r\n" % i for i in range(300)) + b"END\r\n")


@pytest.mark.parametrize("count", [260, 750, 4000])
def test_get_of_very_many_long_keys(memcached, count):
    """A line of get may be longer than other lines."""
    keys = [b"%0250d" % i for i in range(count)]
    memcached.send(b"".join(b"set %s 0 0 3 noreply\r\nabc\r\n" % key for key in keys[::2]))
    values = b"".join(b"VALUE %s 0 3\r\nabc\r\n" % key for key in keys[::2])
    memcached.talk(b"get " + b" ".join(keys) + b"\r\nmn\r\n", values + b"END\r\nMN\r\n")


def test_gets_adds_the_cas_token(memcached):
    """gets returns a unique number with each record."""
    memcached.command("set a 0 0 1", "x")
    memcached.command("set b 0 0 1", "y")
    memcached.send(b"gets a b\r\n")
    lines = memcached.lines_until(b"END")
    tokens = [re.fullmatch(rb"VALUE [ab] 0 1 (\d+)", line).group(1) for line in lines[::2]]
    assert len(set(tokens)) == 2


def test_get_without_a_key(memcached):
    """get requires a key."""
    memcached.talk(b"get\r\n", b"ERROR\r\n")
    memcached.talk(b"gets\r\n", b"ERROR\r\n")
    memcached.talk(b"get \r\n", b"ERROR\r\n")


def test_get_with_a_too_long_key(memcached):
    """A key of more than 250 bytes is a client error."""
    assert memcached.command(b"get " + b"k" * 251).startswith(b"CLIENT_ERROR")
    memcached.talk(b"mn\r\n", b"MN\r\n")


def test_gat_reads_and_touches(memcached):
    """gat sets a new expiry and reads the value."""
    memcached.command("set k 3 0 1", "v")
    memcached.talk(b"gat 100 k\r\n", b"VALUE k 3 1\r\nv\r\nEND\r\n")
    assert 98 <= int(memcached.command("mg k t")[4:]) <= 100
    memcached.talk(b"gat 100 missing\r\n", b"END\r\n")
    memcached.talk(b"gat 0 k\r\n", b"VALUE k 3 1\r\nv\r\nEND\r\n")
    assert memcached.command("mg k t") == b"HD t-1"
    memcached.talk(b"gat\r\n", b"ERROR\r\n")


def test_gats_adds_the_cas_token(memcached):
    """gats is gat with the token."""
    memcached.command("set k 3 0 1", "v")
    memcached.send(b"gats 100 k\r\n")
    assert re.fullmatch(rb"VALUE k 3 1 \d+", memcached.line())
    memcached.hear(b"v\r\nEND\r\n")


def test_gat_with_a_bad_time(memcached):
    """The time must be a number."""
    assert memcached.command("gat x k") == b"CLIENT_ERROR invalid exptime argument"


def test_touch(memcached):
    """touch sets a new expiry."""
    memcached.command("set k 0 0 1", "v")
    memcached.transcript("""
        > touch k 100
        TOUCHED
        > touch missing 100
        NOT_FOUND
        > touch k x
        CLIENT_ERROR invalid exptime argument
    """)
    assert 98 <= int(memcached.command("mg k t")[4:]) <= 100
    memcached.talk(b"touch k -1\r\nget k\r\n", b"TOUCHED\r\nEND\r\n")


def test_touch_noreply(memcached):
    """With noreply, touch sends no reply."""
    memcached.command("set k 0 0 1", "v")
    memcached.talk(b"touch k 50 noreply\r\nmn\r\n", b"MN\r\n")
    assert 48 <= int(memcached.command("mg k t")[4:]) <= 50


def test_delete(memcached):
    """delete removes a record."""
    memcached.command("set k 0 0 1", "v")
    memcached.transcript("""
        > delete k
        DELETED
        > delete k
        NOT_FOUND
        > get k
        END
    """)


def test_delete_takes_a_zero_and_noreply(memcached):
    """The historical time argument may only be 0."""
    memcached.command("set k 0 0 1", "v")
    memcached.transcript("""
        > delete k 0
        DELETED
        > delete k 5
        CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]
    """)
    memcached.command("set k 0 0 1", "v")
    memcached.talk(b"delete k noreply\r\nget k\r\n", b"END\r\n")
    memcached.command("set k 0 0 1", "v")
    memcached.talk(b"delete k 0 noreply\r\nget k\r\n", b"END\r\n")


def test_flush_all(memcached):
    """flush_all removes all records; records stored afterwards stay."""
    memcached.command("set k 0 0 1", "v")
    memcached.transcript("""
        > flush_all
        OK
        > get k
        END
        > set k 0 0 1
        > w
        STORED
        > get k
        VALUE k 0 1
        w
        END
    """)
    memcached.talk(b"flush_all noreply\r\nget k\r\n", b"END\r\n")
    memcached.talk(b"flush_all 0\r\n", b"OK\r\n")
    assert memcached.command("flush_all x").startswith(b"CLIENT_ERROR")


@pytest.mark.one_backend
def test_flush_all_with_a_delay(memcached):
    """With a delay, records older than that time are removed when it arrives."""
    memcached.command("set old 0 0 1", "v")
    for delay_s in (2, 10, 40):
        started = time.monotonic()
        memcached.talk(b"flush_all %d\r\n" % delay_s, b"OK\r\n")
        is_there = memcached.command("mg old") == b"HD"
        # memcached's clock ticks once a second; on a slow machine, the time may have passed.
        if time.monotonic() - started < delay_s - 1:
            break
        memcached.command("set old 0 0 1", "v")
    assert is_there
    assert wait_until(lambda: memcached.command("mg old") == b"EN", step_s=0.05)
    time.sleep(1.2)
    memcached.talk(b"set new 0 0 1\r\nv\r\nget new\r\n", b"STORED\r\nVALUE new 0 1\r\nv\r\nEND\r\n")


def test_version(memcached):
    """version returns one line."""
    assert re.fullmatch(rb"VERSION \S+.*", memcached.command("version"))


def test_verbosity(memcached):
    """verbosity is accepted."""
    memcached.talk(b"verbosity 1\r\n", b"OK\r\n")
    memcached.talk(b"verbosity 0 noreply\r\nmn\r\n", b"MN\r\n")


def test_quit(memcached):
    """quit closes the connection without an answer."""
    memcached.send(b"quit\r\n")
    assert memcached.rest() == b""


def test_unknown_commands(memcached):
    """An unknown command is answered with ERROR, and the connection stays open."""
    for line in ("nonesuch", "Set k 0 0 1", "xget k"):
        memcached.talk(line.encode() + b"\r\n", b"ERROR\r\n")
    memcached.talk(b"mn\r\n", b"MN\r\n")


def test_http_is_not_served(memcached):
    """The server closes the connection of a browser that was made to send a request to the port."""
    memcached.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\nset k 0 0 1\r\nv\r\n")
    assert memcached.is_closed()


def test_lines_may_end_with_lf_alone(memcached):
    """As memcached does, LF ends a command line."""
    memcached.talk(b"get k\nmn\n", b"END\r\nMN\r\n")


def test_a_line_without_end_is_cut_off(memcached):
    """A client that sends no line end cannot fill the server's memory."""
    try:
        for _ in range(64):
            memcached.send(b"x" * 65536)
    except OSError:
        pass
    assert memcached.is_closed()


def test_keys_are_bytes_without_spaces(memcached):
    """Any byte but space and control characters may be in a key, UTF-8 included."""
    key = "schlüssel-鍵-🔑".encode()
    memcached.talk(b"set %s 0 0 1\r\nv\r\n" % key, b"STORED\r\n")
    memcached.talk(b"get %s\r\n" % key, b"VALUE %s 0 1\r\nv\r\nEND\r\n" % key)


def test_requests_after_half_close_are_answered(memcached):
    """A client that has closed its sending side still receives the answers."""
    memcached.send(b"set k 0 0 1\r\nv\r\nget k\r\nquit\r\n")
    memcached.half_close()
    assert memcached.rest() == b"STORED\r\nVALUE k 0 1\r\nv\r\nEND\r\n"


def test_many_large_replies(memcached):
    """Replies that exceed the socket's buffers wait for the client and keep their order."""
    value = b"x" * 100_000
    memcached.command("set k 0 0 100000", value)
    memcached.send(b"get k\r\n" * 200 + b"mn\r\n")
    for _ in range(200):
        memcached.hear(b"VALUE k 0 100000\r\n%s\r\nEND\r\n" % value)
    memcached.hear(b"MN\r\n")


def test_library_retrieval(pymemcache_client):
    """The commands with pymemcache."""
    client = pymemcache_client
    client.set("k", "v")
    assert client.get("k") == b"v"
    assert client.get("missing", "default") == "default"
    assert client.get_many(["k", "x"]) == {"k": b"v"}
    value, token = client.gets("k")
    assert value == b"v" and int(token) > 0
    assert client.touch("k", expire=100) is True
    assert client.delete("k") is True
    assert client.delete("k") is False
    assert client.flush_all() is True
    assert client.version()
    client.quit()
