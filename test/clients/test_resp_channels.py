"""Publish and subscribe: SUBSCRIBE, PSUBSCRIBE, SSUBSCRIBE, PUBLISH, PUBSUB, in RESP2 and RESP3."""

import threading

import pytest
import redis

import wire
from wire import OK, QUEUED, Error, Push, Status, encode, wait_until

RELEASE_TIMEOUT_S = 600
ONLY = "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context"


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def protocol(request):
    """The version of RESP."""
    return request.param


@pytest.fixture
def subscriber(connect, protocol):
    """A connection with this version."""
    connection = connect.resp()
    if protocol == 3:
        connection.call("HELLO", 3)
    return connection


def message(protocol, *items):
    """What a subscriber receives."""
    return Push(items) if protocol == 3 else list(items)


def test_a_message_reaches_channels_and_patterns(subscriber, resp, protocol):
    """A client that is subscribed to a channel and to patterns of it receives a message for each."""
    assert subscriber.call("SUBSCRIBE", "news", "sport") == message(protocol, b"subscribe", b"news", 1)
    assert subscriber.reply() == message(protocol, b"subscribe", b"sport", 2)
    assert subscriber.call("PSUBSCRIBE", "n*") == message(protocol, b"psubscribe", b"n*", 3)
    assert resp.call("PUBLISH", "news", "hello") == 2
    assert subscriber.reply() == message(protocol, b"message", b"news", b"hello")
    assert subscriber.reply() == message(protocol, b"pmessage", b"n*", b"news", b"hello")
    assert resp.call("PUBLISH", "other", "hello") == 0
    assert subscriber.call("UNSUBSCRIBE", "news") == message(protocol, b"unsubscribe", b"news", 2)
    assert resp.call("PUBLISH", "news", b"\x00\r\n") == 1
    assert subscriber.reply() == message(protocol, b"pmessage", b"n*", b"news", b"\x00\r\n")


def test_sharded_channels_have_names_of_their_own(subscriber, resp, protocol):
    """SPUBLISH reaches SSUBSCRIBE only."""
    assert subscriber.call("SSUBSCRIBE", "part") == message(protocol, b"ssubscribe", b"part", 1)
    assert subscriber.call("SUBSCRIBE", "part") == message(protocol, b"subscribe", b"part", 1)
    assert resp.call("SPUBLISH", "part", "one") == 1
    assert subscriber.reply() == message(protocol, b"smessage", b"part", b"one")
    assert resp.call("PUBLISH", "part", "two") == 1
    assert subscriber.reply() == message(protocol, b"message", b"part", b"two")
    assert resp.call("PUBSUB", "SHARDCHANNELS") == [b"part"]
    assert resp.call("PUBSUB", "SHARDNUMSUB", "part", "none") == [b"part", 1, b"none", 0]


def test_a_resp2_subscriber_may_send_few_commands(connect):
    """Anything else is refused, until the last subscription has ended."""
    client = connect.resp()
    assert client.call("SUBSCRIBE", "a") == [b"subscribe", b"a", 1]
    assert client.call("GET", "k") == Error(f"ERR Can't execute 'get': {ONLY}")
    assert client.call("PING") == [b"pong", b""]
    assert client.call("PING", "x") == [b"pong", b"x"]
    assert client.call("UNSUBSCRIBE") == [b"unsubscribe", b"a", 0]
    assert client.call("PING") == Status("PONG")
    assert client.call("SUBSCRIBE", "a") == [b"subscribe", b"a", 1]
    assert client.call("RESET") == Status("RESET")
    assert client.call("GET", "none") is None


def test_a_resp3_subscriber_may_send_everything(connect):
    """Replies and pushes are distinguished by their types. A client receives what it publishes itself."""
    client = connect.resp()
    client.call("HELLO", 3)
    assert client.call("SUBSCRIBE", "a") == Push((b"subscribe", b"a", 1))
    assert client.call("SET", "k", "v") == OK
    client.send(encode("PUBLISH", "a", "own"))
    received = [client.reply(), client.reply()]
    assert 1 in received and Push((b"message", b"a", b"own")) in received


def test_messages_keep_the_order_of_their_publisher(subscriber, connect, protocol):
    """Each publisher's messages arrive in the order in which it sent them."""
    subscriber.call("SUBSCRIBE", "a")
    publishers, count = 3, 400
    for number in range(publishers):
        publisher = connect.resp()
        requests = b"".join(encode("PUBLISH", "a", f"{number}:{each}") for each in range(count))
        publisher.send(requests)
    seen = {number: [] for number in range(publishers)}
    for _ in range(publishers * count):
        *_, data = subscriber.reply().items if protocol == 3 else subscriber.reply()
        number, _, each = data.partition(b":")
        seen[int(number)].append(int(each))
    assert all(each == list(range(count)) for each in seen.values())


def test_publish_in_a_transaction(subscriber, resp, protocol):
    """PUBLISH between MULTI and EXEC is executed with EXEC."""
    subscriber.call("SUBSCRIBE", "a")
    assert resp.call("MULTI") == OK
    assert resp.call("PUBLISH", "a", "one") == QUEUED
    assert resp.call("SET", "k", "v") == QUEUED
    assert resp.call("EXEC") == [1, OK]
    assert subscriber.reply() == message(protocol, b"message", b"a", b"one")


def test_pubsub_describes_the_channels(subscriber, resp):
    """Names with subscribers, and their numbers. Clients that leave are forgotten."""
    subscriber.call("SUBSCRIBE", "one")
    subscriber.call("SUBSCRIBE", "two")
    subscriber.call("PSUBSCRIBE", "t*")
    assert sorted(resp.call("PUBSUB", "CHANNELS")) == [b"one", b"two"]
    assert resp.call("PUBSUB", "CHANNELS", "o*") == [b"one"]
    assert resp.call("PUBSUB", "NUMSUB", "one", "none") == [b"one", 1, b"none", 0]
    assert resp.call("PUBSUB", "NUMPAT") == 1
    subscriber.close()
    assert wait_until(lambda: resp.call("PUBSUB", "CHANNELS") == [] and resp.call("PUBSUB", "NUMPAT") == 0)
    assert resp.call("PUBLISH", "one", "x") == 0


def test_client_list_shows_subscriptions(subscriber, resp):
    """The fields sub, psub and ssub, and the flag P."""
    subscriber.call("SUBSCRIBE", "one")
    subscriber.call("SSUBSCRIBE", "two")
    lines = resp.call("CLIENT", "LIST").decode().splitlines()
    [line] = [line for line in lines if " sub=1 " in line]
    assert " psub=0 ssub=1 " in line and " flags=P " in line


def test_clients_with_subscriptions_have_a_type(subscriber, connect, resp):
    """CLIENT LIST and CLIENT KILL distinguish them from normal clients."""
    other = connect.resp()
    other.call("PING")
    number = subscriber.call("CLIENT", "ID")
    subscriber.call("SSUBSCRIBE", "one")
    assert resp.call("CLIENT", "LIST", "TYPE", "pubsub").startswith(b"id=%d " % number)
    assert b"id=%d " % number not in resp.call("CLIENT", "LIST", "TYPE", "normal")
    assert resp.call("CLIENT", "KILL", "TYPE", "replica") == 0
    assert resp.call("CLIENT", "KILL", "TYPE", "normal") >= 1
    assert other.is_closed()
    assert resp.call("SPUBLISH", "one", "x") == 1
    assert resp.call("CLIENT", "KILL", "TYPE", "pubsub", "ID", number) == 1
    assert subscriber.is_closed()


def test_a_large_message_reaches_everybody(connect, resp):
    """It is not copied for each subscriber."""
    text = b"x" * (1 << 20)
    subscribers = [connect.resp() for _ in range(5)]
    for subscriber in subscribers:
        subscriber.call("SUBSCRIBE", "large")
    assert resp.call("PUBLISH", "large", text) == 5
    for subscriber in subscribers:
        assert subscriber.reply() == [b"message", b"large", text]


def test_messages_do_not_cut_replies_in_two(connect, resp):
    """A message that arrives in the middle of a long reply follows it."""
    for start in range(0, 20_000, 1_000):
        resp.call("MSET", *[word for number in range(start, start + 1_000) for word in (f"key:{number}", "v")])
    client = connect.resp()
    client.call("HELLO", 3)
    client.call("SUBSCRIBE", "a")
    client.send(encode("KEYS", "key:*") * 3)
    publisher = threading.Thread(target=lambda: [resp.call("PUBLISH", "a", number) for number in range(200)])
    publisher.start()
    replies, messages = [], []
    while len(replies) < 3 or len(messages) < 200:
        received = client.reply()
        (messages if isinstance(received, Push) else replies).append(received)
    publisher.join()
    assert [len(reply) for reply in replies] == [20_000] * 3
    assert [int(push.items[2]) for push in messages] == list(range(200))


@pytest.mark.todana_only
@pytest.mark.one_backend
def test_a_subscriber_that_never_reads_is_closed(start_server):
    """Its pending messages are limited, and it is counted."""
    server = start_server("--subscriber-output-bytes-hard", "1mb")
    with wire.Resp(server.resp, receive_buffer_bytes=4096) as lazy, wire.Resp(server.resp) as publisher:
        assert lazy.call("SUBSCRIBE", "a") == [b"subscribe", b"a", 1]
        text = b"x" * 100_000
        assert wait_until(lambda: publisher.call("PUBLISH", "a", text) == 0)
        info = publisher.call("INFO", "stats").decode()
        assert "client_output_buffer_limit_disconnections:1\r\n" in info


def test_redis_py_subscribes(server, protocol):
    """The library's own loop, with channels, patterns and sharded channels."""
    with redis.Redis(*server.resp, protocol=protocol, decode_responses=True) as client:
        with client.pubsub(ignore_subscribe_messages=True) as channels:
            channels.subscribe("one")
            channels.psubscribe("t*")
            channels.ssubscribe("part")
            assert wait_until(lambda: channels.get_message(timeout=0.1) is None)
            client.publish("one", "1")
            client.publish("two", "2")
            client.spublish("part", "3")
            received = []

            def all_arrived():
                for get in (channels.get_message, channels.get_sharded_message):
                    if found := get(timeout=0.1):
                        received.append((found["type"], found["channel"], found["data"]))
                return len(received) >= 3

            assert wait_until(all_arrived)
            assert sorted(received) == [("message", "one", "1"), ("pmessage", "two", "2"), ("smessage", "part", "3")]


@pytest.mark.todana_only
@pytest.mark.one_backend
def test_patterns_take_their_own_size_and_go_with_their_client(start_server):
    """Thousands of long patterns take little more memory than their bytes. It goes back when the clients leave."""
    server = start_server("--event-loops", 2)
    before = server.resident_bytes()
    with wire.Resp(server.resp) as observer:
        for _ in range(2):
            clients = [wire.Resp(server.resp) for _ in range(4)]
            for number, client in enumerate(clients):
                for first in range(0, 10_000, 100):
                    names = [b"*%d:%d?" % (number, first + more) for more in range(100)]
                    client.send(encode("PSUBSCRIBE", *[(name + b"[ab]" * 250)[:1_000] for name in names]))
                    assert [client.reply()[0] for _ in names] == [b"psubscribe"] * 100
            subscribed = 40_000 * 1_000
            assert server.resident_bytes() - before < 2 * subscribed
            listed = observer.call("CLIENT", "LIST", "TYPE", "pubsub").decode()
            held = [int(line.split(" tot-mem=")[1].split()[0]) for line in listed.splitlines()]
            assert len(held) == 4 and all(10_000_000 <= each < 20_000_000 for each in held)
            for client in clients:
                client.close()
            # After a release, the server rests for a thousand times as long as it took, which is long on a busy machine.
            assert wait_until(lambda: server.resident_bytes() < 1.3 * before, RELEASE_TIMEOUT_S), server.resident_bytes() / before
