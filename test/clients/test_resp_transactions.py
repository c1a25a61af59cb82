"""MULTI, EXEC, DISCARD, WATCH and UNWATCH."""

import threading

import pytest
import redis

from wire import NULL_ARRAY, OK, QUEUED, Error, Status, wait_until

ABORTED = Error("EXECABORT Transaction discarded because of previous errors.")


def test_exec_runs_the_queued_commands(resp):
    """Commands are queued and answered together."""
    resp.transcript("""
        MULTI => +OK
        SET a 1 => +QUEUED
        INCR a => +QUEUED
        GET a => +QUEUED
        EXEC => [OK, 2, "2"]
        GET a => "2"
    """)


def test_nothing_is_visible_before_exec(resp, connect):
    """Queued commands have not been executed."""
    other = connect.resp()
    resp.call("MULTI")
    resp.call("SET", "a", 1)
    assert other.call("GET", "a") is None
    assert resp.call("EXEC") == [OK]
    assert other.call("GET", "a") == b"1"


def test_empty_transaction(resp):
    """EXEC without commands returns an empty array."""
    resp.transcript("""
        MULTI => +OK
        EXEC => []
    """)


def test_discard(resp):
    """DISCARD drops the queued commands."""
    resp.transcript("""
        SET a 1 => +OK
        MULTI => +OK
        SET a 2 => +QUEUED
        DISCARD => +OK
        GET a => "1"
        DISCARD => -ERR DISCARD without MULTI
    """)


def test_exec_without_multi(resp):
    """EXEC requires MULTI."""
    assert resp.call("EXEC") == Error("ERR EXEC without MULTI")


def test_multi_does_not_nest(resp):
    """A second MULTI is an error, and the transaction remains usable."""
    resp.transcript("""
        MULTI => +OK
        MULTI => -ERR MULTI calls can not be nested
        SET a 1 => +QUEUED
        EXEC => [OK]
    """)


@pytest.mark.parametrize(
    "command, error",
    [
        ("FOO", "ERR unknown command 'FOO', with args beginning with: "),
        ("GET", "ERR wrong number of arguments for 'get' command"),
        ("SET a", "ERR wrong number of arguments for 'set' command"),
    ],
)
def test_a_command_that_cannot_be_queued_aborts(resp, command, error):
    """An error while queueing aborts the transaction."""
    resp.call("MULTI")
    assert resp.call("SET", "a", 1) == QUEUED
    assert resp.call(*command.split()) == Error(error)
    assert resp.call("EXEC") == ABORTED
    assert resp.call("GET", "a") is None
    assert resp.call("EXEC") == Error("ERR EXEC without MULTI")


def test_an_error_while_running_stops_nothing(resp):
    """A command that fails returns an error in its place; the others are executed."""
    resp.transcript("""
        MULTI => +OK
        SET a x => +QUEUED
        INCR a => +QUEUED
        SET b 1 => +QUEUED
        EXEC => [OK, Error("ERR value is not an integer or out of range"), OK]
        MGET a b => ["x", "1"]
    """)


def test_watch_without_a_change(resp):
    """EXEC runs if no write has changed the watched key."""
    resp.transcript("""
        SET a 1 => +OK
        WATCH a b => +OK
        GET a => "1"
        MULTI => +OK
        INCR a => +QUEUED
        EXEC => [2]
    """)


@pytest.mark.parametrize(
    "change",
    [
        "SET a 2", "SET a 1", "DEL a", "INCR a", "APPEND a x", "EXPIRE a 100", "RENAME a z", "RENAME other a", "FLUSHALL",
        "FLUSHDB", "MSET a 9", "GETDEL a", "SETRANGE a 0 x", "SWAPDB 0 1", "MOVE a 1", "PERSIST a", "GETEX a EX 5",
    ],
)
def test_a_change_by_another_client_stops_exec(resp, connect, change):
    """After any write to a watched key, EXEC returns null and executes nothing."""
    other = connect.resp()
    other.call("MSET", "a", 1, "other", 1)
    if change.startswith("PERSIST"):
        other.call("EXPIRE", "a", 100)
    resp.call("WATCH", "a")
    assert not isinstance(other.call(*change.split()), Error)
    resp.call("MULTI")
    resp.call("SET", "ran", 1)
    assert resp.call("EXEC") is NULL_ARRAY
    assert resp.call("EXISTS", "ran") == 0
    if change.startswith("SWAPDB"):
        other.call(*change.split())


def test_a_change_by_the_same_client_stops_exec_too(resp):
    """A watch also detects writes of the same connection."""
    resp.transcript("""
        WATCH a => +OK
        SET a 1 => +OK
        MULTI => +OK
        SET a 2 => +QUEUED
        EXEC => null_array
        GET a => "1"
    """)


def test_creating_and_deleting_a_watched_key_stops_exec(resp, connect):
    """A key that is absent before and after, but existed in between, has changed."""
    other = connect.resp()
    resp.call("WATCH", "a")
    other.call("SET", "a", 1)
    other.call("DEL", "a")
    resp.call("MULTI")
    resp.call("PING")
    assert resp.call("EXEC") is NULL_ARRAY


@pytest.mark.parametrize("harmless", ["GET a", "SET b 1", "TTL a", "EXISTS a", "SET a 2 NX", "DEL missing", "STRLEN a"])
def test_commands_without_a_change_let_exec_run(resp, connect, harmless):
    """Reads and refused writes do not trigger a watch."""
    other = connect.resp()
    other.call("SET", "a", 1)
    resp.call("WATCH", "a")
    other.call(*harmless.split())
    resp.call("MULTI")
    resp.call("PING")
    assert resp.call("EXEC") == [Status("PONG")]


def test_unwatch_discard_and_exec_end_a_watch(resp, connect):
    """A watch lasts until UNWATCH, DISCARD or EXEC."""
    other = connect.resp()
    for ending in (["UNWATCH"], ["MULTI", "DISCARD"], ["MULTI", "EXEC"]):
        resp.call("WATCH", "a")
        for word in ending:
            resp.call(word)
        other.call("INCR", "a")
        resp.call("MULTI")
        resp.call("PING")
        assert resp.call("EXEC") == [Status("PONG")], ending


def test_watch_is_of_the_selected_database(resp, connect):
    """The same key in another database is another key."""
    other = connect.resp()
    other.call("SELECT", 1)
    resp.call("WATCH", "a")
    other.call("SET", "a", 1)
    resp.call("MULTI")
    resp.call("PING")
    assert resp.call("EXEC") == [Status("PONG")]


def test_watch_inside_multi(resp):
    """WATCH is refused inside MULTI without aborting it; UNWATCH is queued."""
    resp.transcript("""
        MULTI => +OK
        WATCH a => -ERR WATCH inside MULTI is not allowed
        UNWATCH => +QUEUED
        EXEC => [OK]
    """)


def test_an_expiring_watched_key(resp, connect):
    """A watched key that has expired meanwhile has changed."""
    for lifetime_ms in (50, 1000, 20_000):
        resp.call("SET", "a", 1, "PX", lifetime_ms)
        resp.call("WATCH", "a")
        # On a slow machine, the key may expire before WATCH.
        if resp.call("EXISTS", "a") == 1:
            break
    other = connect.resp()
    assert wait_until(lambda: other.call("GET", "a") is None)
    resp.call("MULTI")
    resp.call("PING")
    assert resp.call("EXEC") is NULL_ARRAY


def test_select_inside_multi(resp):
    """SELECT is queued; it applies to the following commands, and to the connection afterwards."""
    resp.transcript("""
        MULTI => +OK
        SET a 0 => +QUEUED
        SELECT 1 => +QUEUED
        SET a 1 => +QUEUED
        EXEC => [OK, OK, OK]
        GET a => "1"
        SELECT 0 => +OK
        GET a => "0"
    """)


def test_disconnecting_discards(server, resp, connect):
    """If a client disconnects, its transaction is never executed."""
    other = connect.resp()
    other.call("MULTI")
    other.call("SET", "a", 1)
    other.close()
    assert resp.call("PING") == Status("PONG")
    assert resp.call("EXISTS", "a") == 0


def test_resp3_null_and_array(resp3, connect):
    """In RESP3 an aborted EXEC returns RESP3's null."""
    other = connect.resp()
    resp3.call("WATCH", "a")
    other.call("SET", "a", 1)
    resp3.call("MULTI")
    resp3.send(b"*1\r\n$4\r\nEXEC\r\n")
    resp3.hear(b"_\r\n")


def test_a_pipelined_transaction(resp):
    """The whole transaction in one packet."""
    resp.talk(
        b"MULTI\r\nSET a 1\r\nINCR a\r\nEXEC\r\nGET a\r\n",
        b"+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n+OK\r\n:2\r\n$1\r\n2\r\n",
    )


def test_transfers_conserve_the_sum(server, empty):
    """Optimistic transfers between accounts by many clients never create or lose money."""
    accounts = [f"account:{i}" for i in range(5)]
    with redis.Redis(*server.resp) as client:
        client.mset({account: 100 for account in accounts})

    def work(seed):
        with redis.Redis(*server.resp) as own:
            for i in range(40):
                source, target = accounts[(seed + i) % 5], accounts[(seed + 2 * i + 1) % 5]
                if source == target:
                    continue

                def transfer(pipe):
                    left = int(pipe.get(source)) - 7
                    right = int(pipe.get(target)) + 7
                    pipe.multi()
                    pipe.set(source, left)
                    pipe.set(target, right)

                own.transaction(transfer, source, target)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with redis.Redis(*server.resp) as client:
        assert sum(map(int, client.mget(accounts))) == 500


@pytest.fixture
def writer(server, empty):
    """A client that sets x and y to the same number, in one transaction each time."""
    stop = threading.Event()

    def write():
        with redis.Redis(*server.resp) as own:
            number = 0
            while not stop.is_set():
                number += 1
                own.pipeline(transaction=True).set("x", number).set("y", number).execute()

    thread = threading.Thread(target=write)
    thread.start()
    yield
    stop.set()
    thread.join()


def test_a_transaction_is_atomic_for_transactions(server, writer):
    """Two GETs in a transaction never see a part of another one."""
    with redis.Redis(*server.resp) as reader:
        for _ in range(1000):
            x, y = reader.pipeline(transaction=True).get("x").get("y").execute()
            assert x == y


def test_a_transaction_is_atomic_for_mget(server, writer):
    """As in Redis, MGET is atomic: it never sees a part of a transaction."""
    with redis.Redis(*server.resp) as reader:
        for _ in range(1000):
            x, y = reader.mget("x", "y")
            assert x == y


def test_library_transactions(client_of_either_version):
    """redis-py's pipeline with MULTI/EXEC and WATCH."""
    client = client_of_either_version
    assert client.pipeline(transaction=True).set("a", 1).incr("a").get("a").execute() == [True, 2, b"2"]
    with client.pipeline() as pipe:
        pipe.watch("a")
        client.set("a", 9)
        pipe.multi()
        pipe.get("a")
        with pytest.raises(redis.WatchError):
            pipe.execute()
