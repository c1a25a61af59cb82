"""Clients that cache values (CLIENT TRACKING), keyspace notifications, MONITOR and CLIENT PAUSE."""

import shutil
import subprocess
import threading
import time
from pathlib import Path

import pytest
import redis
from redis.cache import CacheConfig

from wire import OK, QUEUED, Error, Push, Resp, Status, encode, wait_until

ALL = Push((b"invalidate", None))


def invalid(*keys):
    """The invalidation of keys."""
    return Push((b"invalidate", list(keys)))


@pytest.fixture
def cacher(connect):
    """A RESP3 connection with tracking."""
    client = connect.resp()
    client.call("HELLO", 3)
    assert client.call("CLIENT", "TRACKING", "ON") == OK
    return client


def silence(client):
    """Asserts that nothing but the reply arrives."""
    assert client.call("PING") == Status("PONG")


def test_a_key_that_was_read_is_invalidated_once(cacher, resp):
    """The key must be read again to be tracked again."""
    resp.call("SET", "k", "1")
    assert cacher.call("GET", "k") == b"1"
    resp.call("SET", "k", "2")
    assert cacher.reply() == invalid(b"k")
    resp.call("SET", "k", "3")
    resp.call("SET", "other", "3")
    silence(cacher)
    assert cacher.call("MGET", "k", "other") == [b"3", b"3"]
    resp.call("DEL", "k", "other")
    assert {cacher.reply().items[1][0], cacher.reply().items[1][0]} == {b"k", b"other"}


def test_every_change_invalidates(cacher, resp):
    """Expiry, renaming, flushing, and absent keys that are created."""
    for change in (
        ("APPEND", "k", "x"), ("INCRBY", "n", 1), ("EXPIRE", "k", 100), ("PERSIST", "k"), ("RENAME", "k", "j"), ("COPY", "j", "k"),
        ("SETRANGE", "k", 3, "x"), ("SETBIT", "k", 0, 1), ("GETDEL", "k"), ("PSETEX", "k", 1, "x"),
    ):  # fmt: skip
        key = change[1]
        if change[0] == "COPY":
            key = change[2]
        cacher.call("GET", key)
        resp.call(*change)
        assert cacher.reply() == invalid(key.encode()), change
    cacher.call("GET", "n")
    resp.call("FLUSHDB")
    assert cacher.reply() == ALL


def test_an_expired_key_is_invalidated(cacher, resp):
    """Though nobody writes it."""
    resp.call("SET", "k", "1", "PX", 300)
    assert cacher.call("GET", "k") == b"1"
    assert cacher.reply() == invalid(b"k")


def test_own_writes(connect, resp):
    """With NOLOOP a client does not learn of its own writes."""
    loop, no_loop = connect.resp(), connect.resp()
    for client, mode in ((loop, ()), (no_loop, ("NOLOOP",))):
        client.call("HELLO", 3)
        assert client.call("CLIENT", "TRACKING", "ON", *mode) == OK
    assert no_loop.call("GET", "k") is None
    assert no_loop.call("SET", "k", "1") == OK
    silence(no_loop)
    assert no_loop.call("GET", "k") == b"1"
    resp.call("SET", "k", "2")
    assert no_loop.reply() == invalid(b"k")
    assert loop.call("GET", "k") == b"2"
    loop.send(encode("SET", "k", "3"))
    received = [loop.reply(), loop.reply()]
    assert OK in received and invalid(b"k") in received


def test_broadcast(connect, resp):
    """The client learns of all keys with a prefix."""
    client = connect.resp()
    client.call("HELLO", 3)
    assert client.call("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a:", "PREFIX", "b:") == OK
    resp.call("SET", "a:1", "x")
    assert client.reply() == invalid(b"a:1")
    resp.call("SET", "c:1", "x")
    resp.call("SET", "b:1", "x")
    assert client.reply() == invalid(b"b:1")
    error = client.call("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a")
    assert error == Error(
        "ERR Prefix 'a' overlaps with an existing prefix 'a:'. Prefixes for a single client must not overlap."
    )
    assert client.call("CLIENT", "TRACKING", "OFF") == OK
    resp.call("SET", "a:1", "x")
    silence(client)


@pytest.mark.todana_only
@pytest.mark.memory_only
@pytest.mark.one_backend
def test_broadcast_is_one_message_for_each_prefix_and_turn(start_server):
    """The keys that one turn has changed are in one message for each prefix, each once, in order."""
    # With several loops, a client may receive some keys before the others have changed.
    server = start_server("--event-loops", 1)
    with Resp(server.resp) as client, Resp(server.resp) as resp:
        client.call("HELLO", 3)
        assert client.call("CLIENT", "TRACKING", "ON", "BCAST", "PREFIX", "a:", "PREFIX", "b:") == OK
        resp.call("MSET", "b:1", 1, "a:2", 2, "c:1", 1, "a:1", 1, "b:", 2)
        received = [client.reply(), client.reply()]
        assert received == [invalid(b"a:1", b"a:2"), invalid(b"b:", b"b:1")]
        resp.call("MULTI")
        for _ in range(3):
            assert resp.call("INCR", "a:9") == QUEUED
        resp.call("EXEC")
        assert client.reply() == invalid(b"a:9")
        silence(client)


def test_opt_in_and_opt_out(connect, resp):
    """CLIENT CACHING is about the next command."""
    client = connect.resp()
    client.call("HELLO", 3)
    resp.call("MSET", "a", 1, "b", 2)
    assert client.call("CLIENT", "TRACKING", "ON", "OPTIN") == OK
    client.call("GET", "a")
    assert client.call("CLIENT", "CACHING", "YES") == OK
    client.call("GET", "b")
    resp.call("MSET", "a", 3, "b", 4)
    assert client.reply() == invalid(b"b")
    silence(client)
    assert client.call("CLIENT", "CACHING", "YES") == OK
    assert client.call("MULTI") == OK
    assert client.call("GET", "a") == QUEUED
    assert client.call("GET", "b") == QUEUED
    assert client.call("EXEC") == [b"3", b"4"]
    resp.call("SET", "a", 5)
    assert client.reply() == invalid(b"a")
    client.call("CLIENT", "TRACKING", "OFF")
    assert client.call("CLIENT", "TRACKING", "ON", "OPTOUT") == OK
    assert client.call("CLIENT", "CACHING", "NO") == OK
    client.call("GET", "a")
    client.call("GET", "b")
    resp.call("MSET", "a", 6, "b", 7)
    assert client.reply() == invalid(b"b")
    silence(client)


WRITE_AND_READ = "local r = redis.call('SET', KEYS[1], ARGV[1], 'NX'); redis.call('GET', KEYS[1]); return r"


@pytest.mark.parametrize("options", [(), ("NOLOOP",), ("OPTOUT", "NOLOOP")], ids=" ".join)
def test_keys_of_scripts(connect, resp, options):
    """A client learns when others change the keys of its script, though the script itself has written them."""
    client = connect.resp()
    client.call("HELLO", 3)
    assert client.call("CLIENT", "TRACKING", "ON", *options) == OK
    for expected in (OK, None):
        assert client.call("EVAL", WRITE_AND_READ, 1, "k", "mine") == expected
        silence(client)
    resp.call("SET", "k", "2")
    assert client.reply() == invalid(b"k")
    resp.call("SET", "k", "3")
    silence(client)
    name = client.call("SCRIPT", "LOAD", WRITE_AND_READ)
    client.call("MULTI")
    client.call("EVALSHA", name, 1, "j", "mine")
    client.call("EVAL_RO", "return redis.call('GET', KEYS[1])", 1, "k")
    assert client.call("EXEC") == [OK, b"3"]


@pytest.mark.parametrize("begin, end", [((), ()), ((("MULTI",),), (("EXEC",),))], ids=["pipeline", "EXEC"])
def test_a_write_behind_a_script(cacher, begin, end):
    """It is no write of the script, so the client learns that what the script has read is old."""
    for number in range(20):
        key = f"k{number}"
        read = ("EVAL", "return redis.call('GET', KEYS[1])", 1, key)
        requests = [*begin, ("SET", key, "1"), read, ("SET", key, "2"), *end]
        cacher.send(b"".join(encode(*request) for request in requests))
        replies, pushes = [], []
        while len(replies) < len(requests):
            reply = cacher.reply()
            (pushes if isinstance(reply, Push) else replies).append(reply)
        assert replies[-1] == ([OK, b"1", OK] if end else OK)
        while not pushes:
            pushes.append(cacher.reply())
        assert pushes[-1] == invalid(key.encode())
        silence_or_again(cacher, key)


def silence_or_again(client, key):
    """Asserts that nothing arrives but invalidations of this key, and the reply."""
    client.send(encode("PING"))
    while (reply := client.reply()) != Status("PONG"):
        assert reply == invalid(key.encode())


def answer(client, *arguments):
    """The reply to a request, without the pushes before it."""
    client.send(encode(*arguments))
    while isinstance(reply := client.reply(), Push):
        pass
    return reply


def test_scripts_that_wait_for_a_key(connect):
    """As in rueidislock, a client that does not get the key waits for its invalidation only. None is lost."""
    held, clients = [], [connect.resp() for _ in range(4)]

    def work(client, token):
        for _ in range(50):
            while answer(client, "EVAL", WRITE_AND_READ, 1, "lock", token) is None:
                assert client.reply() == invalid(b"lock")
            held.append(answer(client, "GET", "lock") == token.encode())
            answer(client, "DEL", "lock")

    for client in clients:
        client.call("HELLO", 3)
        assert client.call("CLIENT", "TRACKING", "ON", "NOLOOP") == OK
    threads = [threading.Thread(target=work, args=(client, f"t{at}")) for at, client in enumerate(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held == [True] * 200


def test_redirection_to_a_resp2_client(connect, resp):
    """The other client receives a message, if it has subscriptions."""
    reader, listener = connect.resp(), connect.resp()
    number = listener.call("CLIENT", "ID")
    listener.call("SUBSCRIBE", "__redis__:invalidate")
    assert reader.call("CLIENT", "TRACKING", "ON", "REDIRECT", number) == OK
    assert reader.call("CLIENT", "GETREDIR") == number
    reader.call("GET", "k")
    resp.call("SET", "k", 1)
    assert listener.reply() == [b"message", b"__redis__:invalidate", [b"k"]]
    assert reader.call("CLIENT", "TRACKING", "ON", "REDIRECT", 999_999) == Error(
        "ERR The client ID you want redirect to does not exist"
    )


def test_tracking_info(connect):
    """The words of Redis."""
    client = connect.resp()
    client.transcript("""
        CLIENT GETREDIR => -1
        CLIENT CACHING YES => -ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled
        CLIENT TRACKING ON PREFIX a => -ERR PREFIX option requires BCAST mode to be enabled
        CLIENT TRACKING ON OPTIN OPTOUT => -ERR You can't specify both OPTIN mode and OPTOUT mode
        CLIENT TRACKING ON BCAST OPTIN => -ERR OPTIN and OPTOUT are not compatible with BCAST
        CLIENT TRACKING ON OPTIN NOLOOP => +OK
        CLIENT TRACKING ON OPTOUT => -ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a different mode.
        CLIENT TRACKING ON BCAST => -ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a different mode.
        CLIENT CACHING NO => -ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.
        CLIENT CACHING YES => +OK
        CLIENT GETREDIR => 0
    """)
    info = client.call("CLIENT", "TRACKINGINFO")
    assert info == [b"flags", [b"on", b"optin", b"caching-yes", b"noloop"], b"redirect", 0, b"prefixes", []]
    client.transcript("""
        CLIENT TRACKING OFF => +OK
        CLIENT TRACKING MAYBE => -ERR syntax error
    """)


def test_no_stale_entry_remains(connect, resp):
    """A cache that drops what is invalidated has the last value in the end, whatever the order of reads and writes."""
    client = connect.resp()
    client.call("HELLO", 3)
    client.call("CLIENT", "TRACKING", "ON")
    keys, rounds = [f"k{number}" for number in range(4)], 300
    cache, done = {}, threading.Event()

    def write():
        for number in range(rounds):
            for key in keys:
                resp.call("SET", key, number)
        done.set()

    def take(pending):
        """Reads replies until this number of them has come; invalidations between them are applied."""
        for key in pending:
            while isinstance(received := client.reply(), Push):
                for name in received.items[1]:
                    cache.pop(name.decode(), None)
            cache[key] = received

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        wanted = [key for key in keys if key not in cache] or keys[:1]
        client.send(b"".join(encode("GET", key) for key in wanted))
        take(wanted)
    writer.join()

    def settled():
        client.send(encode("GET", "none"))
        take(["none"])
        return all(value == b"%d" % (rounds - 1) for key, value in cache.items() if key != "none")

    assert wait_until(settled), cache


def test_redis_py_caches(server):
    """The library reads from its cache until the key changes."""
    with redis.Redis(*server.resp, protocol=3, cache_config=CacheConfig(), decode_responses=True) as client:
        with redis.Redis(*server.resp, decode_responses=True) as writer:
            writer.set("cached", "1")
            assert client.get("cached") == "1"
            assert client.get_cache().size == 1
            assert client.get("cached") == "1"
            writer.set("cached", "2")
            assert wait_until(lambda: client.get("cached") == "2")


@pytest.mark.one_backend
def test_rueidis_caches(server, tmp_path):
    """It turns tracking on by default. Skipped without Go, or if its modules cannot be downloaded."""
    if not shutil.which("go"):
        pytest.skip("there is no Go")
    program, source = tmp_path / "rueidis", Path(__file__).parents[1] / "clusters" / "rueidis"
    built = subprocess.run(["go", "build", "-o", program, "."], cwd=source, capture_output=True, text=True, check=False)
    if built.returncode:
        pytest.skip(built.stderr)
    host, port = server.resp
    ran = subprocess.run([program, f"{host}:{port}"], capture_output=True, text=True, timeout=180, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.records_here
def test_keyspace_notifications(connect, resp):
    """Changes are published with the names that Redis gives them."""
    listener = connect.resp()
    resp.call("SET", "source", bytes(range(256)) * 4_096)
    dumped = resp.call("DUMP", "source")
    assert resp.call("CONFIG", "GET", "notify-keyspace-events") == [b"notify-keyspace-events", b""]
    assert resp.call("CONFIG", "SET", "notify-keyspace-events", "KEA") == OK
    try:
        assert resp.call("CONFIG", "GET", "notify-keyspace-events") == [b"notify-keyspace-events", b"AKE"]
        listener.call("PSUBSCRIBE", "__keyevent@0__:*")
        for request, events in (
            (("SET", "k", "1"), ["set k"]),
            (("SETEX", "k", 100, "1"), ["set k", "expire k"]),
            (("PERSIST", "k"), ["persist k"]),
            (("INCR", "k"), ["incrby k"]),
            (("DECRBY", "k", 2), ["incrby k"]),
            (("INCRBYFLOAT", "k", "0.5"), ["incrbyfloat k"]),
            (("APPEND", "k", "x"), ["append k"]),
            (("SETRANGE", "k", 1, "y"), ["setrange k"]),
            (("SETBIT", "b", 1, 1), ["setbit b"]),
            (("MSET", "a", 1, "c", 2), ["set a", "set c"]),
            (("EXPIRE", "a", 100), ["expire a"]),
            (("RENAME", "a", "d"), ["rename_from a", "rename_to d"]),
            (("RENAMENX", "d", "x"), ["rename_from d", "rename_to x"]),
            (("RENAME", "x", "d"), ["rename_from x", "rename_to d"]),
            (("COPY", "d", "e"), ["copy_to e"]),
            (("GETDEL", "e"), ["del e"]),
            (("DEL", "c", "d"), ["del c", "del d"]),
            (("EVAL", "for _, name in ipairs(ARGV) do redis.call(name, KEYS[1], 5) end", 1, "n", "INCRBY", "APPEND", "EXPIRE"),
             ["incrby n", "append n", "expire n"]),
            (("EVAL", "redis.call('RENAME', KEYS[1], KEYS[2])", 2, "n", "m"), ["rename_from n", "rename_to m"]),
            (("EVAL", "redis.call('INCR', KEYS[1]) while true do end", 1, "stopped"), ["incrby stopped", "del stopped"]),
            (("SET", "t", "1", "PX", 50), ["set t", "expire t", "expired t"]),
            (("PFADD", "h", "x"), ["pfadd h"]),
            # So long that other clients are served meanwhile.
            (("PFMERGE", "sum", *["h"] * 100), ["pfadd sum"]),
            (("SETEX", "large", 100, b"v" * (3 << 20)), ["set large", "expire large"]),
            (("RESTORE", "again", 0, dumped), ["restore again"]),
        ):
            resp.call(*request)
            seen = []
            for _ in events:
                _, _, channel, key = listener.reply()
                seen.append(channel.decode().partition("__:")[2] + " " + key.decode())
            # Those of several keys have no order.
            in_order = sorted if request[0] in ("MSET", "DEL") else list
            assert in_order(seen) == in_order(events), request
        listener.call("PUNSUBSCRIBE")
        listener.call("SUBSCRIBE", "__keyspace@0__:k")
        resp.call("DEL", "k")
        assert listener.reply() == [b"message", b"__keyspace@0__:k", b"del"]
    finally:
        assert resp.call("CONFIG", "SET", "notify-keyspace-events", "") == OK
    resp.call("SET", "k", 1)
    assert listener.call("PING") == [b"pong", b""]
    error = resp.call("CONFIG", "SET", "notify-keyspace-events", "Q")
    assert isinstance(error, Error)


@pytest.mark.records_here
def test_a_record_leaves_its_database_before_it_arrives_in_another(connect, resp):
    """MOVE notifies of both databases, in this order."""
    listener = connect.resp()
    assert resp.call("CONFIG", "SET", "notify-keyspace-events", "Kg") == OK
    try:
        listener.call("PSUBSCRIBE", "__keyspace@*")
        resp.call("SET", "k", "1")
        assert resp.call("MOVE", "k", 1) == 1
        for channel, event in ((b"__keyspace@0__:k", b"move_from"), (b"__keyspace@1__:k", b"move_to")):
            assert listener.reply() == [b"pmessage", b"__keyspace@*", channel, event]
    finally:
        assert resp.call("CONFIG", "SET", "notify-keyspace-events", "") == OK


@pytest.mark.records_here
def test_notifications_pass_many_patterns(connect, resp):
    """A notification is compared with many patterns in several rounds, and is received once."""
    listener, count = connect.resp(), 9_000
    for begin in range(0, count, 1_000):
        patterns = (f"*{'[xy]' * 100}{number}" for number in range(begin, begin + 1_000))
        listener.send(encode("PSUBSCRIBE", *patterns))
    for _ in range(count):
        listener.reply()
    listener.call("PSUBSCRIBE", "__key*")
    assert resp.call("CONFIG", "SET", "notify-keyspace-events", "KE$") == OK
    try:
        for number in range(20):
            resp.call("SET", f"k{number}", "1")
        for number in range(20):
            key = b"k%d" % number
            assert listener.reply() == [b"pmessage", b"__key*", b"__keyspace@0__:" + key, b"set"]
            assert listener.reply() == [b"pmessage", b"__key*", b"__keyevent@0__:set", key]
    finally:
        assert resp.call("CONFIG", "SET", "notify-keyspace-events", "") == OK
    assert listener.call("PING") == [b"pong", b""]


def test_monitor(connect, resp):
    """Each command of other clients is a line."""
    monitor = connect.resp()
    assert monitor.call("MONITOR") == OK
    resp.call("SET", "k", b'a"b\r\n\x00')
    resp.call("MULTI")
    resp.call("GET", "k")
    resp.call("EXEC")
    lines = []
    while not lines or '"EXEC"' not in lines[-1]:
        lines.append(monitor.reply().text)
    shown = [line.partition("] ")[2] for line in lines]
    assert [line for line in shown if line.startswith('"SET"')] == ['"SET" "k" "a\\"b\\r\\n\\x00"']
    assert '"GET" "k"' in shown
    assert monitor.call("RESET") == Status("RESET")
    resp.call("GET", "k")
    assert monitor.call("PING") == Status("PONG")


def test_pause(connect, resp):
    """Writes wait until the pause is over or has been ended; reads do not."""
    writer = connect.resp()
    assert resp.call("CLIENT", "PAUSE", 60_000, "WRITE") == OK
    writer.send(encode("SET", "k", "paused"))
    for _ in range(1_000):
        if is_blocked := b"blocked_clients:1\r\n" in resp.call("INFO", "clients"):
            break
        time.sleep(0.01)
    assert is_blocked
    assert resp.call("GET", "k") is None
    # A transaction that only reads goes on, and so does a script that says so.
    assert resp.call("MULTI") == OK
    assert resp.call("GET", "k") == QUEUED
    assert resp.call("EXEC") == [None]
    assert resp.call("EVAL", "#!lua flags=no-writes\nreturn redis.call('GET', KEYS[1])", 1, "k") is None
    time.sleep(0.2)
    assert resp.call("GET", "k") is None
    assert resp.call("CLIENT", "UNPAUSE") == OK
    assert writer.reply() == OK
    assert b"blocked_clients:0\r\n" in resp.call("INFO", "clients")
    resp.transcript("""
        CLIENT PAUSE x => -ERR timeout is not an integer or out of range
        CLIENT PAUSE -1 => -ERR timeout is negative
        CLIENT PAUSE 1 MAYBE => -ERR CLIENT PAUSE mode must be WRITE or ALL
        CLIENT PAUSE 1 => +OK
        PING => +PONG
        CLIENT UNPAUSE => +OK
    """)
