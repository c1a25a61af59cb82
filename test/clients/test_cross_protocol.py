"""Records used through several protocols."""

import pytest

from wire import OK, SLACK_S, wait_until

pytestmark = pytest.mark.todana_only


def test_a_record_of_redis_is_read_by_memcached(resp, memcached):
    """RESP to memcached: the same bytes, with flags 0."""
    resp.call("SET", "greeting", "hello")
    memcached.talk(b"get greeting\r\n", b"VALUE greeting 0 5\r\nhello\r\nEND\r\n")


def test_a_record_of_memcached_is_read_by_redis(resp, memcached):
    """memcached to RESP: the same bytes."""
    memcached.command("set greeting 5 0 5", "hello")
    assert resp.call("GET", "greeting") == b"hello"
    assert resp.call("STRLEN", "greeting") == 5


def test_numbers_are_shared(resp, memcached):
    """A number that one protocol stores can be incremented by the other, in both directions."""
    resp.call("SET", "n", 10)
    assert memcached.command("incr n 5") == b"15"
    assert resp.call("INCRBY", "n", 7) == 22
    assert memcached.command("decr n 2") == b"20"
    assert resp.call("GET", "n") == b"20"
    memcached.command("set m 0 0 2", "41")
    assert resp.call("INCR", "m") == 42


def test_each_protocol_keeps_its_own_range(resp, memcached):
    """memcached's numbers are unsigned, Redis' are signed: each refuses a number that it cannot represent."""
    memcached.command("set n 0 0 20", str(2**64 - 1))
    assert resp.call("INCR", "n").text == "ERR value is not an integer or out of range"
    resp.call("SET", "n", -5)
    assert memcached.command("incr n 1") == b"CLIENT_ERROR cannot increment or decrement non-numeric value"


def test_flags_survive_writes_that_keep_the_record(resp, memcached):
    """APPEND, INCR and EXPIRE keep memcached's flags."""
    memcached.command("set n 77 0 1", "5")
    resp.call("INCR", "n")
    resp.call("APPEND", "n", "0")
    resp.call("EXPIRE", "n", 100)
    memcached.talk(b"get n\r\n", b"VALUE n 77 2\r\n60\r\nEND\r\n")


def test_flags_survive_rename_and_copy(resp, memcached):
    """A renamed record keeps its flags."""
    memcached.command("set a 77 0 1", "v")
    resp.call("COPY", "a", "b")
    resp.call("RENAME", "a", "c")
    memcached.talk(b"get a b c\r\n", b"VALUE b 77 1\r\nv\r\nVALUE c 77 1\r\nv\r\nEND\r\n")


def test_set_by_redis_is_a_new_record(resp, memcached):
    """SET replaces the record, flags included."""
    memcached.command("set a 77 0 1", "v")
    resp.call("SET", "a", "w")
    memcached.talk(b"get a\r\n", b"VALUE a 0 1\r\nw\r\nEND\r\n")


def test_lifetimes_are_shared(resp, memcached):
    """An expiry set by one protocol applies to the other."""
    memcached.command("set a 0 100 1", "v")
    assert 100 - SLACK_S <= resp.call("TTL", "a") <= 100
    resp.call("SET", "b", "v", "EX", 50)
    assert 50 - SLACK_S <= int(memcached.command("mg b t")[4:]) <= 50
    memcached.command("touch b 0")
    assert resp.call("TTL", "b") == -1
    resp.call("SET", "c", "v", "PX", 40)
    assert wait_until(lambda: memcached.command("mg c") == b"EN")


def test_a_cas_token_notices_a_write_by_redis(resp, memcached):
    """A write through any protocol changes the version."""
    memcached.command("set a 0 0 1", "v")
    memcached.send(b"gets a\r\n")
    token = memcached.line().split()[-1]
    memcached.hear(b"v\r\nEND\r\n")
    resp.call("SET", "a", "v")
    assert memcached.command(b"cas a 0 0 1 " + token, "w") == b"EXISTS"


def test_a_watch_notices_a_write_by_memcached(resp, memcached):
    """WATCH detects writes through every protocol."""
    resp.call("WATCH", "a")
    memcached.command("set a 0 0 1", "v")
    resp.call("MULTI")
    resp.call("SET", "a", "mine")
    assert repr(resp.call("EXEC")) == "NULL_ARRAY"


def test_deletion_and_flush(resp, memcached):
    """A record that one protocol removes does not exist for the other."""
    resp.call("SET", "a", 1)
    assert memcached.command("delete a") == b"DELETED"
    assert resp.call("EXISTS", "a") == 0
    memcached.command("set a 0 0 1", "v")
    assert resp.call("FLUSHDB") == OK
    memcached.talk(b"get a\r\n", b"END\r\n")


def test_memcached_is_database_zero(resp, memcached):
    """memcached uses database 0 only; flush_all does not affect the others."""
    resp.call("SELECT", 1)
    resp.call("SET", "a", 1)
    memcached.talk(b"get a\r\n", b"END\r\n")
    assert memcached.command("flush_all") == b"OK"
    assert resp.call("GET", "a") == b"1"


def test_long_keys_are_for_redis_only(resp, memcached):
    """A key that memcached cannot name has no effect on it."""
    resp.call("SET", "k" * 1000, "v")
    resp.call("SET", "two words", "v")
    assert resp.call("DBSIZE") == 2
    memcached.talk(b"get two words\r\n", b"END\r\n")


def test_a_large_value_of_redis_is_read_by_memcached(resp, memcached):
    """The limit of memcached's values applies to writes only."""
    value = b"x" * 3_000_000
    resp.call("SET", "large", value)
    memcached.send(b"get large\r\n")
    memcached.hear(b"VALUE large 0 3000000\r\n" + value + b"\r\nEND\r\n")


def test_both_libraries(client, pymemcache_client):
    """redis-py and pymemcache use the same record."""
    pymemcache_client.set("visits", "1")
    assert client.incr("visits") == 2
    assert pymemcache_client.incr("visits", 1) == 3
    assert client.expire("visits", 100) is True
    assert pymemcache_client.get("visits") == b"3"
