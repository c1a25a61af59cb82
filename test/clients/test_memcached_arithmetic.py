"""incr and decr of the text protocol."""

import threading

import pytest

import wire

UINT64_MAX = 2**64 - 1


def test_incr(memcached):
    """incr returns the new number and keeps the flags."""
    memcached.transcript("""
        > set n 5 0 2
        > 10
        STORED
        > incr n 5
        15
        > incr n 100
        115
        > get n
        VALUE n 5 3
        115
        END
    """)


def test_a_number_that_gets_shorter(memcached):
    """memcached may pad the number with spaces at the end; a client reads the same number."""
    memcached.command("set n 5 0 2", "10")
    memcached.talk(b"decr n 3\r\n", b"7\r\n")
    memcached.send(b"get n\r\n")
    assert memcached.line().startswith(b"VALUE n 5 ")
    assert memcached.line().rstrip(b" ") == b"7"
    memcached.hear(b"END\r\n")
    memcached.talk(b"incr n 1\r\n", b"8\r\n")


def test_a_missing_key_is_not_created(memcached):
    """A counter must be created with set."""
    memcached.transcript("""
        > incr n 1
        NOT_FOUND
        > decr n 1
        NOT_FOUND
    """)


def test_incr_wraps_at_64_bits(memcached):
    """The number is unsigned and wraps."""
    memcached.transcript(f"""
        > set n 0 0 20
        > {UINT64_MAX}
        STORED
        > incr n 1
        0
        > incr n {UINT64_MAX}
        {UINT64_MAX}
        > incr n 2
        1
    """)


def test_decr_stops_at_zero(memcached):
    """decr does not go below 0."""
    memcached.transcript("""
        > set n 0 0 1
        > 5
        STORED
        > decr n 10
        0
    """)


@pytest.mark.parametrize("value", [b"abc", b"1.5", b"-1", b"18446744073709551616", b"1x"])
def test_a_value_that_is_no_number(memcached, value):
    """Only unsigned 64-bit decimal numbers can be incremented."""
    memcached.talk(b"set n 0 0 %d\r\n%s\r\n" % (len(value), value), b"STORED\r\n")
    memcached.talk(b"incr n 1\r\n", b"CLIENT_ERROR cannot increment or decrement non-numeric value\r\n")


@pytest.mark.parametrize("amount", ["x", "-1", "1.5", "18446744073709551616"])
def test_an_amount_that_is_no_number(memcached, amount):
    """The amount has the same range."""
    memcached.command("set n 0 0 1", "1")
    assert memcached.command(f"incr n {amount}") == b"CLIENT_ERROR invalid numeric delta argument"
    memcached.talk(b"get n\r\n", b"VALUE n 0 1\r\n1\r\nEND\r\n")


def test_too_few_words(memcached):
    """incr requires an amount."""
    memcached.talk(b"incr n\r\n", b"ERROR\r\n")
    memcached.talk(b"incr\r\n", b"ERROR\r\n")


def test_noreply(memcached):
    """With noreply, incr sends no reply."""
    memcached.command("set n 0 0 1", "1")
    memcached.talk(b"incr n 5 noreply\r\ndecr n 2 noreply\r\nget n\r\n", b"VALUE n 0 1\r\n4\r\nEND\r\n")


def test_incr_keeps_flags_and_lifetime(memcached):
    """incr changes only the value."""
    memcached.command("set n 42 100 1", "1")
    memcached.command("incr n 1")
    memcached.send(b"mg n f t\r\n")
    head, flags, left = memcached.line().split()
    assert (head, flags) == (b"HD", b"f42")
    assert 97 <= int(left[1:]) <= 100


def test_increments_of_many_clients_add_up(server, memcached):
    """incr is atomic between connections."""
    memcached.command("set n 0 0 1", "0")

    def work():
        with wire.Memcached(server.memcached) as own:
            for _ in range(200):
                own.command("incr n 1")

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert memcached.command("incr n 0") == b"1600"


def test_library_arithmetic(pymemcache_client):
    """The commands as pymemcache calls them."""
    client = pymemcache_client
    assert client.incr("n", 1) is None
    client.set("n", "10")
    assert client.incr("n", 5) == 15
    assert client.decr("n", 20) == 0
