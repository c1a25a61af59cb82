"""Clients of Redis and of Redis Cluster at three nodes, by listeners that serve all commands and by those that redirect.

No verdict depends on how fast the nodes are: clients may retry for longer than a slow machine takes to elect a leader.
"""

from __future__ import annotations

import contextlib
import itertools
import shutil
import subprocess
import threading
import time

import bmemcached
import pytest
import redis
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode, LoadBalancingStrategy, RedisCluster
from redis.retry import Retry

import three_nodes
import wire

PASSWORD = "sesame-0pen"
SLOTS = 16_384
# A node that knows no leader waits for one, however slow this machine is.
FLAGS = ("--write-timeout-ms", 60_000)
# redis-py retries without a pause.
RETRIES = 10_000
WRITERS = 3
# Acknowledged writes of each writer before and after a change of the leader.
WRITES = 100


@pytest.fixture(scope="module")
def cluster(request):
    """Three nodes."""
    if request.config.getoption("--server") != "todana" or request.config.getoption("--durable"):
        pytest.skip("the nodes have data directories anyway")
    with three_nodes.Cluster(*FLAGS) as running:
        yield running


@pytest.fixture(params=three_nodes.LISTENERS)
def kind(request):
    """Listeners that serve all commands, then those that redirect."""
    return request.param


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request):
    """The version of RESP."""
    return request.param


@pytest.fixture
def emptied(cluster):
    """The cluster without any record, which all nodes know."""
    with wire.Resp(cluster.leader().address()) as connection:
        assert connection.call("FLUSHALL") == wire.OK
        index = connection.call("TODANA.INDEX")
    for node in cluster.nodes:
        with wire.Resp(node.address()) as connection:
            assert connection.call("TODANA.AFTER", index, 60_000) == wire.OK
    return cluster


def connected(cluster, kind, **keywords):
    """A client of Redis Cluster that knows one follower and finds the other nodes by itself."""
    nodes = [ClusterNode(*cluster.follower().address(kind))]
    return RedisCluster(startup_nodes=nodes, socket_timeout=wire.TIMEOUT_S, retry=Retry(NoBackoff(), RETRIES), **keywords)


@pytest.fixture
def client(emptied, kind, protocol):
    """A client of Redis Cluster."""
    with contextlib.closing(connected(emptied, kind, protocol=protocol, decode_responses=True)) as opened:
        yield opened


@pytest.fixture
def follower(emptied):
    """A raw connection to a follower that redirects."""
    with wire.Resp(emptied.follower().address("resp_cluster")) as connection:
        yield connection


# ------------------------------------------------------------ any node ---


def test_each_node_serves_plain_clients(emptied):
    """A client that knows nothing of clusters writes to any node, and reads what it wrote."""
    for number, node in enumerate(emptied.nodes):
        with redis.Redis(*node.address(), decode_responses=True) as plain:
            assert plain.set(f"of:{number}", number)
            assert plain.get(f"of:{number}") == str(number)
            assert plain.incr("all") == number + 1
            with plain.pipeline() as transaction:
                transaction.incr("all", 0).get(f"of:{number}")
                assert transaction.execute() == [number + 1, str(number)]
    for node in emptied.nodes:
        with wire.Resp(node.address()) as connection:
            assert connection.call("TODANA.READ", "linear") == wire.OK
            assert connection.call("MGET", "of:0", "of:1", "of:2") == [b"0", b"1", b"2"]


def test_recipes_at_a_follower(emptied, protocol):
    """Locks, scripts and limits of redis-py, by clients of two nodes of which one does not lead."""
    options = {"protocol": protocol, "decode_responses": True}
    addresses = emptied.follower().address(), emptied.leader().address()
    with redis.Redis(*addresses[0], **options) as follower, redis.Redis(*addresses[1], **options) as leader:
        lock = follower.lock("lock", timeout=600)
        assert lock.acquire(blocking=False) and not leader.lock("lock", timeout=600).acquire(blocking=False)
        assert lock.extend(600) and lock.reacquire() and leader.pttl("lock") <= 600_000
        lock.release()

        def work(client):
            for _ in range(10):
                with client.lock("guard", timeout=600, sleep=0.002):
                    # The node has applied the lock, so it has all that was written before.
                    client.set("sum", int(client.get("sum") or 0) + 1)

        threads = [threading.Thread(target=work, args=(client,)) for client in (follower, leader) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert leader.get("sum") == "40"
        script = follower.register_script("if redis.call('INCR', KEYS[1]) > tonumber(ARGV[1]) then return 0 end return 1")
        assert [script(keys=["limit"], args=[3], client=client) for client in (follower, leader) * 2] == [1, 1, 1, 0]


def test_memcached_at_a_follower(emptied):
    """The binary protocol, and RESP at another node."""
    client = bmemcached.Client("%s:%d" % emptied.follower().address(three_nodes.MEMCACHED))
    assert client.add("bm", "1") and not client.add("bm", "2")
    value, token = client.gets("bm")
    assert value == "1" and client.cas("bm", "3", token) and not client.cas("bm", "4", token)
    client.disconnect_all()
    with redis.Redis(*emptied.leader().address(), decode_responses=True) as leader:
        assert leader.get("bm") == "3"


def test_each_node_has_the_other_databases(emptied):
    """Numbered databases exist on listeners that do not redirect."""
    with redis.Redis(*emptied.follower().address(), db=5) as plain:
        assert plain.set("a", 1) and plain.get("a") == b"1"
        assert plain.dbsize() == 1


# ------------------------------------------------- clients of clusters ---


def test_the_client_finds_all_nodes(client, emptied, kind):
    """It asks one of them."""
    leader = emptied.leader()
    assert {(node.host, node.port) for node in client.get_nodes()} == set(emptied.addresses(kind))
    assert [(node.host, node.port) for node in client.get_primaries()] == [leader.address(kind)]
    assert client.get_node_from_key("any").port == leader.ports[kind]


def test_keys_of_all_slots(client):
    """Single keys, and commands that the client splits by slot."""
    records = {f"key:{number}": str(number) for number in range(200)}
    for key, value in records.items():
        assert client.set(key, value)
    assert [client.get(key) for key in records] == list(records.values())
    assert client.mget_nonatomic(*records) == list(records.values())
    assert client.mset_nonatomic({key: value + "!" for key, value in records.items()})
    assert client.mget_nonatomic(*records) == [value + "!" for value in records.values()]
    assert client.dbsize() == len(records)
    assert sorted(client.scan_iter(count=7)) == sorted(records)
    assert sorted(client.keys("key:1?")) == [f"key:{number}" for number in range(10, 20)]
    assert client.delete(*list(records)[:50]) == 50
    assert client.exists(*records) == len(records) - 50
    assert client.flushall()
    assert client.dbsize() == 0


def test_hash_tags(client):
    """Keys with the same tag have one slot, so that one command may name them."""
    assert client.mset({"{tag}:a": 1, "{tag}:b": 2})
    assert client.mget("{tag}:a", "{tag}:b", "{tag}:c") == ["1", "2", None]
    assert client.rename("{tag}:a", "{tag}:d")
    assert client.cluster_keyslot("{tag}:a") == client.keyslot("tag")
    assert client.cluster_countkeysinslot(client.keyslot("tag")) == 2
    assert sorted(client.cluster_get_keys_in_slot(client.keyslot("tag"), 10)) == ["{tag}:b", "{tag}:d"]


def test_pipelines(client):
    """Commands for many slots, and errors among the replies."""
    with client.pipeline() as pipeline:
        for number in range(100):
            pipeline.set(f"key:{number}", number)
        assert all(pipeline.execute())
        for number in range(100):
            pipeline.incr(f"key:{number}")
        assert pipeline.execute() == [number + 1 for number in range(100)]
        pipeline.set("text", "x").incr("text").get("text")
        replies = pipeline.execute(raise_on_error=False)
        assert replies[0] and isinstance(replies[1], redis.ResponseError) and replies[2] == "x"


def test_transactions(client):
    """MULTI and EXEC of keys with one tag, with WATCH."""
    with client.pipeline(transaction=True) as transaction:
        transaction.incrby("{account}:a", 10).incrby("{account}:b", 5).get("{account}:a")
        assert transaction.execute() == [10, 5, "10"]

    def move(transaction):
        left = int(transaction.get("{account}:a"))
        transaction.multi()
        transaction.incrby("{account}:a", left - 1)
        transaction.incr("{account}:b")

    assert client.transaction(move, "{account}:a") == [19, 6]
    with client.pipeline(transaction=True) as transaction:
        transaction.watch("{account}:a")
        client.set("{account}:a", "changed")
        transaction.multi()
        transaction.set("{account}:a", "lost")
        with pytest.raises(redis.WatchError):
            transaction.execute()
    assert client.get("{account}:a") == "changed"


def test_descriptions_of_the_cluster(client, emptied, kind):
    """What clients ask about the cluster, as redis-py reads it, by both versions of RESP."""
    leader, addresses = emptied.leader(), emptied.addresses(kind)
    names = {"%s:%d" % address for address in addresses}
    nodes = client.cluster_nodes()
    assert set(nodes) == names
    first = nodes["%s:%d" % leader.address(kind)]
    assert first["slots"] == [["0", str(SLOTS - 1)]] and "master" in first["flags"] and first["connected"]
    followers = [node for node in nodes.values() if node is not first]
    assert all(node["master_id"] == first["node_id"] and "slave" in node["flags"] for node in followers)

    slots = client.cluster_slots()
    assert list(slots) == [(0, SLOTS - 1)]
    found = slots[0, SLOTS - 1]
    assert found["primary"][:2] == leader.address(kind)
    assert {replica[:2] for replica in found["replicas"]} == set(addresses) - {leader.address(kind)}

    (shard,) = client.cluster_shards()
    assert shard["slots"] in ([(0, SLOTS - 1)], [0, SLOTS - 1])
    roles = {node["port"]: node["role"] for node in shard["nodes"]}
    assert roles == {port: "master" if port == leader.ports[kind] else "replica" for _, port in addresses}
    assert {node["health"] for node in shard["nodes"]} == {"online"}

    info = client.cluster_info(target_nodes=RedisCluster.RANDOM)
    assert info["cluster_state"] == "ok" and int(info["cluster_known_nodes"]) == 3
    ids = {node["node_id"] for node in nodes.values()}
    for node in client.get_nodes():
        assert client.cluster_myid(node) in ids
        assert client.cluster_links(node) == []
        assert client.info("cluster", target_nodes=node)["cluster_enabled"] == (kind == "resp_cluster")
        role = client.info("replication", target_nodes=node)["role"]
        assert role == ("master" if node.port == leader.ports[kind] else "slave")
    assert set(client.cluster_replicas(first["node_id"])) == names - {"%s:%d" % leader.address(kind)}


def test_reads_from_replicas(emptied, kind, protocol):
    """The client sends READONLY, and the followers answer its reads."""
    def reads(node):
        with redis.Redis(*node.address()) as plain:
            return plain.info("commandstats").get("cmdstat_get", {"calls": 0})["calls"]

    strategy = LoadBalancingStrategy.ROUND_ROBIN_REPLICAS
    with contextlib.closing(connected(emptied, kind, protocol=protocol, load_balancing_strategy=strategy)) as client:
        assert client.set("a", "1")
        followers = [node for node in emptied.nodes if node is not emptied.leader()]
        before = [reads(node) for node in followers]
        wire.wait_until(lambda: [client.get("a") for _ in range(10)] == [b"1"] * 10)
        assert all(reads(node) >= earlier + 5 for node, earlier in zip(followers, before))
        assert client.set("a", "2")
        assert client.readwrite(target_nodes=RedisCluster.ALL_NODES) and client.readonly(target_nodes=RedisCluster.ALL_NODES)


# ------------------------------------------------------------ raw bytes ---


def moved(connection, key, cluster):
    """The error that sends a client to the leader."""
    slot = connection.call("CLUSTER", "KEYSLOT", key)
    return wire.Error("MOVED %d %s:%d" % (slot, *cluster.leader().address("resp_cluster")))


def test_a_follower_redirects(follower, emptied):
    """Requests with keys; with READONLY, only writes."""
    for request in (("SET", "foo", 1), ("GET", "foo"), ("MGET", "foo", "bar"), ("DEL", "foo"), ("WATCH", "foo")):
        assert follower.call(*request) == moved(follower, "foo", emptied)
    assert follower.call("READONLY") == wire.OK
    assert follower.call("GET", "foo") is None
    assert follower.call("SET", "foo", 1) == moved(follower, "foo", emptied)
    assert follower.call("READWRITE") == wire.OK
    assert follower.call("GET", "foo") == moved(follower, "foo", emptied)
    assert follower.call("PING") == wire.Status("PONG")
    assert follower.call("ASKING") == wire.OK


def test_a_transaction_at_a_follower(follower, emptied):
    """A command that is redirected breaks the transaction."""
    redirection = moved(follower, "foo", emptied)
    assert follower.call("MULTI") == wire.OK
    assert follower.call("SET", "foo", 1) == redirection
    assert follower.call("EXEC") == wire.Error("EXECABORT Transaction discarded because of previous errors.")
    assert follower.call("READONLY") == wire.OK
    assert follower.call("MULTI") == wire.OK
    assert follower.call("GET", "foo") == wire.QUEUED
    assert follower.call("EXEC") == [None]


def test_one_database(emptied):
    """Clients of a cluster see one database."""
    for node in emptied.nodes:
        with wire.Resp(node.address("resp_cluster")) as connection:
            assert connection.call("SELECT", 0) == wire.OK
            assert connection.call("SELECT", 1) == wire.Error("ERR SELECT is not allowed in cluster mode")
            assert connection.call("SWAPDB", 0, 1) == wire.Error("ERR SWAPDB is not allowed in cluster mode")
        with wire.Resp(node.address()) as connection:
            assert connection.call("SELECT", 1) == wire.OK


def test_slots_by_both_versions(emptied, kind):
    """The last part of a node's entry is a map, which is an empty array in RESP2."""
    for node in emptied.nodes:
        with wire.Resp(node.address(kind)) as connection:
            for nothing in ([], {}):
                ((first, last, *nodes),) = connection.call("CLUSTER", "SLOTS")
                assert (first, last, nodes[0][1]) == (0, SLOTS - 1, emptied.leader().ports[kind])
                assert [entry[3] for entry in nodes] == [nothing] * 3
                assert connection.call("HELLO", 3)[b"mode"] == (b"cluster" if kind == "resp_cluster" else b"standalone")


def test_redis_cli_follows(emptied):
    """`redis-cli -c` at a follower."""
    if not shutil.which("redis-cli"):
        pytest.skip("redis-cli is not installed")
    host, port = emptied.follower().address("resp_cluster")
    command = ["redis-cli", "-c", "-h", host, "-p", str(port)]
    done = subprocess.run(command, input=b"set foo 1\nincr foo\nget foo\n", capture_output=True, timeout=wire.TIMEOUT_S, check=True)
    redirected, *lines = done.stdout.splitlines()
    assert redirected.startswith(b"-> Redirected to slot [12182] located at ") and lines == [b"OK", b"2", b"2"]
    done = subprocess.run([*command[:1], *command[2:], "get", "foo"], capture_output=True, timeout=wire.TIMEOUT_S, check=True)
    assert done.stdout.startswith(b"MOVED 12182 "), done.stdout


# ------------------------------------------------- another node leads ---


class Writers:
    """Threads that write and count by the same client, and remember what was acknowledged."""

    def __init__(self, client):
        self.client = client
        self.acknowledged = [{} for _ in range(WRITERS)]
        self.counted = [0] * WRITERS
        self.errors = []
        self._ends = threading.Event()
        self.threads = [threading.Thread(target=self._write, args=(number,), daemon=True) for number in range(WRITERS)]

    def _write(self, writer):
        try:
            for number in itertools.count():
                if self._ends.is_set():
                    return
                # Each key belongs to another slot; the last one is always the same.
                for key in (f"{writer}:{number}", f"{writer}:last"):
                    assert self.client.set(key, number)
                    self.acknowledged[writer][key] = str(number)
                self.client.incr(f"{writer}:count")
                self.counted[writer] += 1
        except Exception as error:  # pylint: disable=broad-exception-caught
            self.errors.append(f"{type(error).__name__}: {error}")

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        self.go_on()
        return self

    def go_on(self):
        """Waits for further acknowledgements of each writer."""
        wanted = [len(written) + WRITES for written in self.acknowledged]
        deadline = time.monotonic() + wire.TIMEOUT_S
        while any(len(written) < count for written, count in zip(self.acknowledged, wanted)):
            assert not self.errors, self.errors
            assert time.monotonic() < deadline, f"only {list(map(len, self.acknowledged))} of {wanted} writes"
            time.sleep(0.01)

    def __exit__(self, *_):
        self._ends.set()
        for thread in self.threads:
            thread.join(wire.TIMEOUT_S)

    def check(self, cluster):
        """All nodes have what was acknowledged. Yields the counts that each has."""
        assert not self.errors, self.errors
        for node in cluster.nodes:
            with redis.Redis(*node.address(), decode_responses=True) as plain:
                assert plain.execute_command("TODANA.READ", "linear") in (b"OK", "OK", True)
                for written in self.acknowledged:
                    assert dict(zip(written, plain.mget(list(written)))) == written
                yield [int(plain.get(f"{writer}:count")) for writer in range(WRITERS)]


def test_the_leader_is_killed(emptied, kind, protocol):
    """A client goes on by itself, and nothing that was acknowledged is lost."""
    with contextlib.closing(connected(emptied, kind, protocol=protocol)) as client:
        with Writers(client) as writers:
            leader = emptied.leader()
            leader.kill()
            writers.go_on()
            with wire.Resp(emptied.leader().address(kind)) as connection:
                (line,) = [line for line in connection.call("CLUSTER", "NODES").splitlines() if b":%d@" % leader.ports[kind] in line]
                assert b" slave,fail " in line and line.endswith(b" disconnected"), line
            emptied.restart(leader)
            writers.go_on()
        for counts in writers.check(emptied):
            # The client may repeat an increment whose reply it did not receive.
            assert all(count >= counted for count, counted in zip(counts, writers.counted))


def test_another_node_takes_over(emptied, kind, protocol):
    """A planned change of the leader, there and back."""
    with contextlib.closing(connected(emptied, kind, protocol=protocol)) as client:
        with Writers(client) as writers:
            for _ in range(3):
                emptied.transfer(emptied.follower())
                writers.go_on()
        for counts in writers.check(emptied):
            # No connection ends, so nothing is repeated.
            assert counts == writers.counted


# ------------------------------------------------------- other options ---


@pytest.fixture(scope="module")
def guarded_node(cluster, tmp_path_factory):
    """A cluster of one node, which requires a password, listens on all addresses, and announces a name."""
    del cluster
    path = tmp_path_factory.mktemp("guarded") / "password"
    path.write_text(PASSWORD + "\n")
    path.chmod(0o600)
    flags = ["--password-file", path, "--announce-host", "localhost"]
    with three_nodes.Cluster(*flags, names="a", suffixes={"resp": "?read=linear"}, host="0.0.0.0") as running:
        yield running.nodes[0]


def test_a_password_comes_first(guarded_node, kind):
    """Strangers learn nothing about the cluster."""
    with wire.Resp(guarded_node.address(kind)) as connection:
        for request in (("CLUSTER", "SLOTS"), ("CLUSTER", "NODES"), ("CLUSTER", "INFO"), ("READONLY",), ("ASKING",), ("GET", "a")):
            assert connection.call(*request) == wire.Error("NOAUTH Authentication required.")
        assert connection.call("AUTH", PASSWORD) == wire.OK
        ((_, _, node),) = connection.call("CLUSTER", "SLOTS")
        assert node[:2] == [b"localhost", guarded_node.ports[kind]]
    with contextlib.closing(RedisCluster(*guarded_node.address(kind), password=PASSWORD, decode_responses=True)) as client:
        assert client.set("a", 1) and client.get("a") == "1"
    with pytest.raises(redis.exceptions.RedisClusterException, match="invalid username-password"):
        RedisCluster(*guarded_node.address(kind), password="wrong")


def test_the_options_of_the_listeners(guarded_node):
    """CONFIG GET has the addresses as they were given."""
    with wire.Resp(guarded_node.address()) as connection:
        assert connection.call("AUTH", PASSWORD) == wire.OK
        assert connection.call("HELLO", 3)[b"proto"] == 3
        found = connection.call("CONFIG", "GET", "listen_resp*")
        port, redirecting = guarded_node.ports["resp"], guarded_node.ports["resp_cluster"]
        assert found == {b"listen_resp": b"0.0.0.0:%d?read=linear" % port, b"listen_resp_cluster": b"0.0.0.0:%d" % redirecting}
        # A read of the listener's own level.
        assert connection.call("SET", "a", 1) == wire.OK
        assert connection.call("GET", "a") == b"1"


def received_message(subscription, publish):
    """Publishes until the subscriber of another node receives it: the nodes may still be connecting. Returns the message."""

    def once():
        publish()
        return subscription.get_message(timeout=1)

    return wire.wait_until(once)


def test_messages_reach_the_subscribers_of_every_node(emptied, kind, protocol):
    """PUBLISH is executed by one node, and its reply is the number of subscribers there."""
    clients = [redis.Redis(*node.address(kind), protocol=protocol, decode_responses=True) for node in emptied.nodes]
    with contextlib.ExitStack() as stack:
        subscriptions = []
        for client in clients:
            stack.enter_context(client)
            subscription = stack.enter_context(client.pubsub(ignore_subscribe_messages=True))
            subscription.subscribe("news")
            assert wire.wait_until(lambda client=client: client.pubsub_numsub("news") == [("news", 1)])
            subscriptions.append(subscription)
        for subscription in subscriptions:
            while subscription.get_message(timeout=0.2):
                pass
        for publisher in clients:
            for subscription in subscriptions:
                found = received_message(subscription, lambda publisher=publisher: publisher.publish("news", "hello"))
                assert (found["channel"], found["data"]) == ("news", "hello")
        for subscription in subscriptions:
            while subscription.get_message(timeout=0.5):
                pass
        for number in range(200):
            assert clients[0].publish("news", number) == 1
        for subscription in subscriptions:
            received = []

            def all_arrived(subscription=subscription, received=received):
                while found := subscription.get_message(timeout=0.1):
                    received.append(int(found["data"]))
                return len(received) == 200

            assert wire.wait_until(all_arrived), received
            assert received == list(range(200))


def test_keys_are_invalidated_by_writes_at_other_nodes(emptied):
    """What the log applies at a client's node invalidates what the client has read there."""
    writer = redis.Redis(*emptied.follower().address(), decode_responses=True)
    for node in emptied.nodes:
        with wire.Resp(node.address()) as client:
            client.call("HELLO", 3)
            assert client.call("CLIENT", "TRACKING", "ON", "NOLOOP") == wire.OK
            client.call("GET", "cached")
            writer.set("cached", "new")
            assert client.reply() == wire.Push((b"invalidate", [b"cached"]))
            # Its own write, and a read in the same pipeline, which may not be kept.
            client.send(wire.encode("SET", "cached", "own") + wire.encode("GET", "cached"))
            assert client.reply() == wire.OK
            assert client.reply() == b"own"
            assert client.reply() == wire.Push((b"invalidate", [b"cached"]))
    writer.close()


def test_each_node_notifies_of_what_it_has_applied(emptied):
    """Keyspace notifications are an option of each node."""
    writer = redis.Redis(*emptied.leader().address(), decode_responses=True)
    for node in emptied.nodes:
        with wire.Resp(node.address()) as client:
            assert client.call("CONFIG", "SET", "notify-keyspace-events", "KA") == wire.OK
            client.call("SUBSCRIBE", "__keyspace@0__:noticed")
            writer.incr("noticed")
            assert client.reply() == [b"message", b"__keyspace@0__:noticed", b"incrby"]
            client.call("RESET")
            assert client.call("CONFIG", "SET", "notify-keyspace-events", "") == wire.OK
    writer.close()
