"""Commands on keys, in the alphabetical order of Redis' generic group (SCAN has its own file)."""

import time

import pytest

from wire import NOT_AN_INTEGER, OK, SLACK_S, Error, Status, wait_until


def test_copy(resp):
    """COPY keeps the source, refuses an existing destination without REPLACE, and copies the expiry."""
    resp.transcript("""
        SET a 1 EX 100 => +OK
        COPY a b => 1
        MGET a b => ["1", "1"]
        TTL b => 100
        SET c 3 => +OK
        COPY c b => 0
        COPY c b REPLACE => 1
        GET b => "3"
        TTL b => -1
        COPY missing d => 0
        COPY a a => -ERR source and destination objects are the same
    """)


def test_copy_into_another_database(resp):
    """COPY DB names the destination database; the same key in another database is another record."""
    resp.transcript("""
        SET a 1 => +OK
        COPY a a DB 3 => 1
        COPY a a DB 3 => 0
        COPY a b DB 16 => -ERR DB index is out of range
        COPY a b DB x => -ERR value is not an integer or out of range
        COPY a b FOO => -ERR syntax error
        SELECT 3 => +OK
        GET a => "1"
    """)


@pytest.mark.parametrize("command", ["DEL", "UNLINK"])
def test_del(resp, command):
    """DEL and UNLINK return the number of keys removed; a key named twice counts once."""
    resp.transcript(f"""
        MSET a 1 b 2 => +OK
        {command} a b c a => 2
        {command} a => 0
        DBSIZE => 0
    """)


def test_exists_counts_each_mention(resp):
    """EXISTS counts a key each time it is named."""
    resp.transcript("""
        SET a 1 => +OK
        EXISTS a => 1
        EXISTS a b a => 2
        EXISTS b => 0
    """)


@pytest.mark.parametrize(
    "command, unit_ms", [("EXPIRE", 1000), ("PEXPIRE", 1)], ids=["EXPIRE", "PEXPIRE"]
)
def test_expire(resp, command, unit_ms):
    """An expiry can be set only on an existing key; a time in the past deletes the key."""
    resp.transcript(f"""
        {command} missing 10 => 0
        SET k v => +OK
        {command} k {100_000 // unit_ms} => 1
        TTL k => 100
        {command} k 0 => 1
        EXISTS k => 0
        SET k v => +OK
        {command} k -1 => 1
        EXISTS k => 0
    """)


def test_expire_conditions(resp):
    """NX requires no expiry, XX requires one, GT a later time, LT an earlier one."""
    resp.transcript("""
        SET k v => +OK
        EXPIRE k 100 XX => 0
        EXPIRE k 100 GT => 0
        EXPIRE k 100 NX => 1
        EXPIRE k 200 NX => 0
        EXPIRE k 200 LT => 0
        EXPIRE k 200 GT => 1
        EXPIRE k 150 GT => 0
        EXPIRE k 150 LT => 1
        EXPIRE k 300 XX GT => 1
        EXPIRE k 300 xx lt => 0
        TTL k => 300
        PERSIST k => 1
        EXPIRE k 50 LT => 1
        TTL k => 50
    """)


def test_expire_refuses_contradicting_conditions(resp):
    """NX excludes the other conditions; GT excludes LT."""
    nx = "-ERR NX and XX, GT or LT options at the same time are not compatible"
    resp.transcript(f"""
        SET k v => +OK
        EXPIRE k 10 NX XX => {nx}
        EXPIRE k 10 NX GT => {nx}
        EXPIRE k 10 LT NX => {nx}
        EXPIRE k 10 GT LT => -ERR GT and LT options at the same time are not compatible
        EXPIRE k 10 FOO => -ERR Unsupported option FOO
        TTL k => -1
    """)


@pytest.mark.parametrize("command", ["EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT"])
def test_expire_parses_strictly(resp, command):
    """Times are 64-bit integers."""
    resp.call("SET", "k", "v")
    for amount in ("", "1.5", "abc", "9223372036854775808", " 1"):
        assert resp.call(command, "k", amount) == NOT_AN_INTEGER
    assert resp.call("TTL", "k") == -1


@pytest.mark.parametrize(
    "command, amount",
    [
        ("EXPIRE", 2**63 - 1), ("EXPIRE", -(2**63)), ("EXPIRE", 2**63 // 1000),
        ("PEXPIRE", 2**63 - 1), ("EXPIREAT", 2**63 - 1), ("EXPIREAT", -(2**63)),
    ],
)
def test_expire_refuses_times_beyond_64_bits(resp, command, amount):
    """Milliseconds since the epoch must fit in 64 bits."""
    resp.call("SET", "k", "v")
    assert resp.call(command, "k", amount) == Error("ERR invalid expire time in '%s' command" % command.lower())
    assert resp.call("TTL", "k") == -1


def test_expireat_and_expiretime(resp):
    """Absolute times are kept exactly."""
    at = int(time.time()) + 500
    resp.transcript(f"""
        SET k v => +OK
        EXPIRETIME k => -1
        PEXPIRETIME k => -1
        EXPIRETIME missing => -2
        PEXPIRETIME missing => -2
        EXPIREAT k {at} => 1
        EXPIRETIME k => {at}
        PEXPIRETIME k => {at}000
        PEXPIREAT k {at}789 => 1
        PEXPIRETIME k => {at}789
        EXPIREAT k 1 => 1
        EXISTS k => 0
    """)


def test_a_key_expires(resp):
    """After its expiry a key does not exist for any command."""
    resp.call("SET", "k", "v", "PX", 60)
    resp.call("SET", "stays", "v")
    assert resp.call("GET", "k") == b"v"
    assert wait_until(lambda: resp.call("GET", "k") is None)
    resp.transcript("""
        EXISTS k => 0
        TTL k => -2
        TYPE k => +none
        KEYS * => ["stays"]
        SET k w XX => nil
        SCAN 0 COUNT 1000 => ["0", ["stays"]]
    """)


def test_expired_keys_leave_without_being_read(resp):
    """The sweeper removes records that no client reads."""
    resp.call("MULTI")
    for i in range(200):
        resp.call("SET", f"k{i}", "v", "PX", 50)
    resp.call("DBSIZE")
    assert resp.call("EXEC")[-1] == 200
    assert wait_until(lambda: resp.call("DBSIZE") == 0, step_s=0.05)


@pytest.mark.parametrize(
    "pattern, matches",
    [
        ("*", ["hallo", "hbllo", "heello", "hello", "hllo", "h[llo", "h*llo"]),
        ("h?llo", ["hallo", "hbllo", "hello", "h[llo", "h*llo"]),
        ("h*llo", ["hallo", "hbllo", "heello", "hello", "hllo", "h[llo", "h*llo"]),
        ("h[ae]llo", ["hallo", "hello"]),
        ("h[^e]llo", ["hallo", "hbllo", "h[llo", "h*llo"]),
        ("h[a-b]llo", ["hallo", "hbllo"]),
        ("h[b-a]llo", ["hallo", "hbllo"]),
        (r"h\*llo", ["h*llo"]),
        (r"h\[llo", ["h[llo"]),
        ("hello", ["hello"]),
        ("HELLO", []),
        ("", []),
        ("h[", []),
        ("h[a", []),
        ("*l*l*o*", ["hallo", "hbllo", "heello", "hello", "hllo", "h[llo", "h*llo"]),
        ("**", ["hallo", "hbllo", "heello", "hello", "hllo", "h[llo", "h*llo"]),
    ],
)
def test_keys_patterns(resp, pattern, matches):
    """KEYS supports *, ?, [set], [^set], [a-b] and backslash."""
    for key in ("hallo", "hbllo", "heello", "hello", "hllo", "h[llo", "h*llo"):
        resp.call("SET", key, 1)
    assert sorted(resp.call("KEYS", pattern)) == sorted(key.encode() for key in matches)


def test_keys_with_a_costly_pattern_answers_in_time(resp):
    """A pattern with many stars does not take exponential time."""
    resp.call("SET", "a" * 100, 1)
    assert resp.call("KEYS", "a*" * 30 + "b") == []


def test_move(resp):
    """MOVE moves a record with its expiry to another database, if that has no such key."""
    resp.transcript("""
        SET a 1 EX 100 => +OK
        MOVE a 1 => 1
        EXISTS a => 0
        SET a 2 => +OK
        MOVE a 1 => 0
        MOVE missing 1 => 0
        MOVE a 0 => -ERR source and destination objects are the same
        MOVE a 16 => -ERR DB index is out of range
        MOVE a -1 => -ERR DB index is out of range
        MOVE a x => -ERR value is not an integer or out of range
        SELECT 1 => +OK
        GET a => "1"
        TTL a => 100
    """)


def test_object(resp):
    """OBJECT describes a record: its encoding, its references, its idle time."""
    resp.transcript("""
        SET number 12345 => +OK
        SET text hello => +OK
        OBJECT ENCODING number => "int"
        OBJECT ENCODING text => "embstr"
        OBJECT ENCODING missing => nil
        OBJECT REFCOUNT text => 1
        OBJECT IDLETIME text => 0
        OBJECT IDLETIME missing => nil
        OBJECT FOO text => -ERR unknown subcommand 'FOO'. Try OBJECT HELP.
        OBJECT => -ERR wrong number of arguments for 'object' command
        OBJECT ENCODING => -ERR wrong number of arguments for 'object|encoding' command
    """)
    resp.call("SET", "long", "x" * 100)
    assert resp.call("OBJECT", "ENCODING", "long") == b"raw"
    assert resp.call("OBJECT", "HELP")[0] == Status("OBJECT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:")


def test_persist(resp):
    """PERSIST removes the expiry and returns whether there was one."""
    resp.transcript("""
        SET k v EX 100 => +OK
        PERSIST k => 1
        PERSIST k => 0
        TTL k => -1
        PERSIST missing => 0
    """)


def test_randomkey(resp):
    """RANDOMKEY returns one of the keys, and eventually each of them."""
    assert resp.call("RANDOMKEY") is None
    resp.call("MSET", "a", 1, "b", 2, "c", 3)
    assert {resp.call("RANDOMKEY") for _ in range(300)} == {b"a", b"b", b"c"}


def test_rename(resp):
    """RENAME replaces the destination and its expiry; a record may be renamed to itself."""
    resp.transcript("""
        SET a 1 EX 100 => +OK
        SET b 2 => +OK
        RENAME a b => +OK
        GET b => "1"
        TTL b => 100
        EXISTS a => 0
        RENAME b b => +OK
        GET b => "1"
        RENAME missing b => -ERR no such key
        RENAME missing missing => -ERR no such key
    """)


def test_renamenx(resp):
    """RENAMENX refuses an existing destination."""
    resp.transcript("""
        MSET a 1 b 2 => +OK
        RENAMENX a b => 0
        RENAMENX a c => 1
        MGET a b c => [nil, "2", "1"]
        RENAMENX c c => 0
        RENAMENX missing c => -ERR no such key
    """)


def test_touch(resp):
    """TOUCH counts the keys that exist."""
    resp.transcript("""
        MSET a 1 b 2 => +OK
        TOUCH a b c => 2
    """)


def test_ttl_and_pttl(resp):
    """-2 for no key, -1 for no expiry, else the remaining time, in rounded seconds."""
    resp.transcript("""
        TTL k => -2
        PTTL k => -2
        SET k v => +OK
        TTL k => -1
        PTTL k => -1
        PEXPIRE k 99600 => 1
        TTL k => 100
        PEXPIRE k 99400 => 1
        TTL k => 99
    """)
    assert 99_400 - SLACK_S * 1000 < resp.call("PTTL", "k") <= 99_400


def test_type(resp):
    """TYPE is string or none."""
    resp.transcript("""
        SET k v => +OK
        TYPE k => +string
        TYPE missing => +none
    """)


def test_dbsize_flushdb_and_flushall(resp):
    """FLUSHDB empties the selected database, FLUSHALL all databases."""
    resp.transcript("""
        MSET a 1 b 2 => +OK
        SELECT 1 => +OK
        MSET c 3 => +OK
        DBSIZE => 1
        FLUSHDB => +OK
        DBSIZE => 0
        SELECT 0 => +OK
        DBSIZE => 2
        SELECT 1 => +OK
        FLUSHALL ASYNC => +OK
        SELECT 0 => +OK
        DBSIZE => 0
        FLUSHALL SYNC => +OK
        FLUSHDB ASYNC => +OK
        FLUSHDB FOO => -ERR syntax error
        FLUSHALL FOO => -ERR syntax error
        FLUSHALL SYNC ASYNC => -ERR syntax error
    """)


def test_swapdb(resp, connect):
    """SWAPDB exchanges two databases at once, for connected clients too."""
    other = connect.resp()
    other.call("SELECT", 1)
    resp.transcript("""
        SET k zero => +OK
        SWAPDB 0 1 => +OK
        GET k => nil
        SWAPDB 0 0 => +OK
        SWAPDB 0 16 => -ERR DB index is out of range
        SWAPDB x 1 => -ERR invalid first DB index
        SWAPDB 0 x => -ERR invalid second DB index
    """)
    assert other.call("GET", "k") == b"zero"
    assert resp.call("SWAPDB", 1, 0) == OK
    assert resp.call("GET", "k") == b"zero"


def test_databases_are_separate(resp):
    """There are sixteen databases, each with its own keys."""
    for number in range(16):
        assert resp.call("SELECT", number) == OK
        assert resp.call("SET", "k", number) == OK
    for number in range(16):
        resp.call("SELECT", number)
        assert resp.call("GET", "k") == b"%d" % number
        assert resp.call("DBSIZE") == 1


@pytest.mark.parametrize(
    "command",
    [
        "COPY a", "DEL", "EXISTS", "EXPIRE k", "EXPIREAT k", "EXPIRETIME", "KEYS", "MOVE k", "PERSIST", "PEXPIRE k",
        "PEXPIREAT k", "PEXPIRETIME", "PTTL", "RANDOMKEY x", "RENAME k", "RENAMENX k", "TOUCH", "TTL", "TYPE", "UNLINK",
        "DBSIZE x", "SWAPDB 1",
    ],
)
def test_wrong_number_of_arguments(resp, command):
    """Arity is checked first."""
    words = command.split()
    assert resp.call(*words) == Error("ERR wrong number of arguments for '%s' command" % words[0].lower())


def test_library_keys(client_of_either_version):
    """The commands and their replies with redis-py."""
    client = client_of_either_version
    client.set("a", 1)
    assert client.exists("a", "b") == 1
    assert client.expire("a", 100) is True
    assert client.expire("a", 100, nx=True) is False
    assert client.ttl("a") == 100
    assert client.persist("a") is True
    assert client.rename("a", "b") is True
    assert client.renamenx("b", "c") is True
    assert client.copy("c", "d") is True
    assert client.move("c", 1) is True
    assert client.type("d") == b"string"
    assert client.keys("*") == [b"d"]
    assert client.randomkey() == b"d"
    assert client.touch("d") == 1
    assert client.object("ENCODING", "d") == b"int"
    assert client.unlink("d") == 1
    assert client.dbsize() == 0
    assert client.swapdb(0, 1) is True
    assert client.swapdb(0, 1) is True
    assert client.flushall() is True
