"""memcached's binary protocol: raw frames, python-binary-memcached, and memjs if Node.js has it."""

import json
import os
import random
import shutil
import struct
import subprocess

import bmemcached
import pytest

import served
import wire
from fixtures import PASSWORD
from wire import Response, request

GET, SET, ADD, REPLACE, DELETE, INCREMENT, DECREMENT, QUIT, FLUSH, GETQ, NOOP, VERSION, GETK, GETKQ, APPEND, PREPEND, STAT = range(0x11)
SETQ, ADDQ, REPLACEQ, DELETEQ, INCREMENTQ, DECREMENTQ, QUITQ, FLUSHQ, APPENDQ, PREPENDQ = range(0x11, 0x1B)
TOUCH, GAT, GATQ, SASL_MECHANISMS, SASL_AUTH, SASL_STEP, GATK, GATKQ = 0x1C, 0x1D, 0x1E, 0x20, 0x21, 0x22, 0x23, 0x24
NOT_FOUND, EXISTS, TOO_LARGE, INVALID, NOT_STORED, NOT_A_NUMBER, AUTH_ERROR, UNKNOWN = 1, 2, 3, 4, 5, 6, 0x20, 0x81


@pytest.fixture
def binary(empty):
    """A connection that speaks the binary protocol."""
    with wire.BinaryMemcached(empty.memcached) as connection:
        yield connection


def stored(flags=0, expiry=0) -> bytes:
    """The extras of a storage request."""
    return struct.pack(">II", flags, expiry)


def counted(by, initial=0, expiry=0) -> bytes:
    """The extras of a counter request."""
    return struct.pack(">QQI", by, initial, expiry)


def test_both_protocols_reach_the_same_record(binary, connect):
    """A record that one protocol stores is read by the others."""
    assert binary.ask(SET, b"k", b"value", stored(7), opaque=99) == Response(SET, 0, b"", b"", b"", 99)
    text = connect.memcached()
    text.talk(b"get k\r\n", b"VALUE k 7 5\r\nvalue\r\nEND\r\n")
    assert text.command("incr k 1").startswith(b"CLIENT_ERROR")
    assert connect.resp().call("GET", "k") == b"value" if served_by_todana(binary) else True
    assert text.command("set k 9 0 2", "10") == b"STORED"
    assert binary.ask(GETK, b"k") == Response(GETK, 0, b"k", b"10", struct.pack(">I", 9))
    assert binary.ask(INCREMENT, b"k", b"", counted(5)).value == struct.pack(">Q", 15)


def served_by_todana(connection) -> bool:
    """Whether the server is Todana, whose protocols share their records."""
    return b"todana" in connection.ask(VERSION).value


def test_statuses(binary):
    """Each kind of failure has a status and a text."""
    assert binary.ask(GET, b"k") == Response(GET, NOT_FOUND, b"", b"Not found")
    assert binary.ask(GETK, b"k") == Response(GETK, NOT_FOUND, b"k", b"")
    assert binary.ask(REPLACE, b"k", b"v", stored()).status == NOT_FOUND
    assert binary.ask(APPEND, b"k", b"v").status == NOT_STORED
    assert binary.ask(DELETE, b"k").status == NOT_FOUND
    assert binary.ask(INCREMENT, b"k", b"", counted(1, 0, 0xFFFFFFFF)).status == NOT_FOUND
    assert binary.ask(ADD, b"k", b"v", stored()).status == 0
    assert binary.ask(ADD, b"k", b"v", stored()).status == EXISTS
    assert binary.ask(INCREMENT, b"k", b"", counted(1)).status == NOT_A_NUMBER
    assert binary.ask(SET, b"k", b"v", stored(), cas=(1 << 48) - 1).status == EXISTS
    assert binary.ask(SET, b"none", b"v", stored(), cas=1).status == NOT_FOUND
    assert binary.ask(SET, b"k", b"x" * (1_100_000), stored()).status == TOO_LARGE
    assert binary.ask(GET, b"k").status == NOT_FOUND
    assert binary.ask(0x40).status == UNKNOWN
    assert binary.ask(SASL_MECHANISMS).status == UNKNOWN


def test_tokens(binary):
    """A request with a token is executed only on the record that has it."""
    binary.ask(SET, b"k", b"1", stored())
    token = binary.token
    binary.ask(GET, b"k")
    assert binary.token == token
    assert binary.ask(APPEND, b"k", b"2", cas=token).status == 0
    assert binary.ask(SET, b"k", b"x", stored(), cas=token).status == EXISTS
    binary.ask(GET, b"k")
    token = binary.token
    assert binary.ask(DELETE, b"k", cas=token + 1).status == EXISTS
    assert binary.ask(DELETE, b"k", cas=token).status == 0


def test_a_pipeline_of_quiet_requests(binary):
    """Only what is not as expected is answered, in order."""
    requests = [request(SETQ, b"k%d" % n, b"%d" % n, stored()) for n in range(200)]
    requests += [request(GETKQ, b"k%d" % n, opaque=n) for n in range(0, 400, 2)]
    requests += [request(ADDQ, b"k1", b"x", stored(), opaque=1), request(INCREMENTQ, b"k2", b"", counted(1)), request(NOOP, opaque=2)]
    binary.send(b"".join(requests))
    for n in range(0, 200, 2):
        assert binary.response() == Response(GETKQ, 0, b"k%d" % n, b"%d" % n, bytes(4), n)
    assert binary.response() == Response(ADDQ, EXISTS, b"", b"Data exists for key.", b"", 1)
    assert binary.response() == Response(NOOP, 0, b"", b"", b"", 2)
    assert binary.ask(GET, b"k2").value == b"3"


def test_malformed_requests_close(empty):
    """The server answers with an error, or not at all, and closes the connection."""
    key_is_longer_than_the_body = bytearray(request(GET, b"key"))
    key_is_longer_than_the_body[11] = 2
    for data, status in [
        (request(GET), INVALID),
        (request(GET, b"k", b"v"), INVALID),
        (request(SET, b"k", b"v"), INVALID),
        (request(GET, b"k" * 251), INVALID),
        (request(NOOP, b"k"), INVALID),
        (bytes(key_is_longer_than_the_body), UNKNOWN),
        (request(NOOP) + b"get k\r\n" + bytes(30), 0),
    ]:
        with wire.BinaryMemcached(empty.memcached) as connection:
            connection.send(data)
            assert connection.response().status == status
            assert connection.is_closed()


def test_statistics(binary):
    """Each is a response with a key; the last has none."""
    binary.ask(SET, b"k", b"v", stored())
    assert int(binary.stats()["curr_items"]) == 1
    assert int(binary.stats(b"settings")["item_size_max"]) > 0
    binary.send(request(STAT, b"nothing"))
    assert binary.response().status == NOT_FOUND


def test_requests_are_counted_by_prefix(binary, connect):
    """stat detail, whose counts both forms of the protocol have in common."""
    memcached = connect.memcached()
    assert binary.ask(STAT, b"detail x").status == NOT_FOUND
    assert binary.stats(b"reset") == binary.stats(b"detail on") == {}
    memcached.command("set user:1 0 0 1", "5")
    assert binary.ask(GET, b"user:1").value == b"5"
    assert binary.ask(TOUCH, b"user:2", extras=bytes(4)).status == NOT_FOUND
    assert binary.ask(DELETE, b"user:1").status == 0
    counts = "PREFIX user get 2 hit 1 set 1 del 1\r\nEND\r\n"
    assert binary.stats(b"detail dump") == {"detailed": counts}
    memcached.talk(b"stats detail dump\r\n", counts.encode())
    assert binary.stats(b"detail off") == binary.stats(b"reset") == {}



@pytest.fixture
def stranger(guarded):
    """A connection that has not authenticated."""
    with wire.BinaryMemcached(guarded.memcached) as connection:
        yield connection


@pytest.mark.todana_only
class TestAuthentication:
    """SASL PLAIN. The oracle authenticates by text."""

    def test_the_password_authenticates(self, stranger):
        """With any user name."""
        assert stranger.ask(SASL_MECHANISMS).value == b"PLAIN"
        assert stranger.ask(SASL_AUTH, b"PLAIN", b"\0me\0wrong").status == AUTH_ERROR
        assert stranger.ask(SASL_AUTH, b"PLAIN", b"\0me\0" + PASSWORD.encode()) == Response(SASL_AUTH, 0, b"", b"Authenticated")
        assert stranger.ask(SET, b"k", b"v", stored()).status == 0

    def test_nothing_before(self, stranger):
        """Any other request is refused, and closes the connection."""
        assert stranger.ask(VERSION).status == 0
        assert stranger.ask(GET, b"k").status == AUTH_ERROR
        assert stranger.is_closed()

    def test_a_library_authenticates(self, guarded):
        """python-binary-memcached sends SASL requests by itself."""
        client = bmemcached.Client("%s:%d" % guarded.memcached, "user", PASSWORD)
        assert client.set("bm", "1") and client.get("bm") == "1"
        client.disconnect_all()


def test_python_binary_memcached(empty):
    """The library's methods."""
    client = bmemcached.Client("%s:%d" % empty.memcached)
    assert client.set("a", "text") and client.get("a") == "text"
    assert client.set_multi({"b": 1, "c": b"bytes"}) == []
    assert client.get_multi(["a", "b", "c", "none"]) == {"a": "text", "b": 1, "c": b"bytes"}
    assert client.add("a", "x") is False and client.replace("a", "y") is True
    value, token = client.gets("a")
    assert value == "y" and client.cas("a", "z", token) is True and client.cas("a", "w", token) is False
    assert client.incr("n", 3, default=10) == 10 and client.incr("n", 3) == 13 and client.decr("n", 20) == 0
    assert client.delete("a") and client.get("a") is None
    assert client.delete_multi(["b", "c"])
    (stats,) = client.stats().values()
    assert "pid" in stats
    assert client.flush_all() and client.get("n") is None
    client.disconnect_all()


MEMJS = """
const memjs = require('memjs');
(async () => {
  const client = memjs.Client.create(process.argv[1]);
  const found = [await client.set('k', 'value', {expires: 100}), (await client.get('k')).value.toString()];
  found.push(await client.add('k', 'x'), await client.replace('k', 'y'), await client.append('k', 'z'));
  found.push((await client.get('k')).value.toString(), (await client.increment('n', 5, {initial: 7})).value);
  found.push((await client.increment('n', 5)).value, await client.touch('k', 50), await client.delete('k'));
  found.push((await client.get('k')).value);
  console.log(JSON.stringify(found));
  client.close();
})();
"""


def test_memjs(empty):
    """A library of Node.js that speaks only the binary protocol; NODE_PATH names its directory."""
    node = shutil.which("node")
    if not node or subprocess.run([node, "-e", "require('memjs')"], capture_output=True, check=False).returncode:
        pytest.skip("memjs is not installed")
    address = "%s:%d" % empty.memcached
    ended = subprocess.run([node, "-e", MEMJS, address], capture_output=True, text=True, timeout=120, check=True, env=dict(os.environ))
    assert json.loads(ended.stdout) == [True, "value", False, True, True, "yz", 7, 12, True, True, None]


KEYS = [b"a", b"b", b"c", b"n"]


def random_request(chance, opaque) -> bytes:
    """One well-formed request of any opcode that answers alike in memcached, whatever its records are."""
    storage = (SET, ADD, REPLACE, SETQ, ADDQ, REPLACEQ)
    opcode = chance.choice((*storage, GET, GETQ, GETK, GETKQ, APPEND, PREPEND, APPENDQ, PREPENDQ, DELETE, DELETEQ,
                            INCREMENT, INCREMENTQ, TOUCH, GAT, GATQ, GATK, GATKQ, 0x40))  # fmt: skip
    key, value, extras = chance.choice(KEYS), b"", b""
    # Numbers have a key of their own: memcached pads one that becomes shorter, as `099` does.
    if opcode in (APPEND, PREPEND, APPENDQ, PREPENDQ):
        key = chance.choice(KEYS[:-1])
    if opcode in (INCREMENT, INCREMENTQ):
        key = KEYS[-1]
    if opcode in storage:
        extras = stored(chance.choice((0, 5, 0xFFFFFFFF)), chance.choice((0, 100, 0xFFFFFFFF)))
    if opcode in (*storage, APPEND, PREPEND, APPENDQ, PREPENDQ):
        value = chance.choice((b"", b"1", b"99", b"text", b"x" * 40))
    if opcode in (INCREMENT, INCREMENTQ):
        extras = counted(chance.choice((0, 1, 7)), chance.choice((0, 5, 99)), chance.choice((0, 100, 0xFFFFFFFF)))
    if opcode in (TOUCH, GAT, GATQ, GATK, GATKQ):
        extras = struct.pack(">I", chance.choice((0, 100, 5_000_000)))
    if opcode == 0x40:
        # memcached skips more than the body if there is a key.
        key = b""
    cas = (1 << 40) if opcode in (*storage, DELETE) and chance.random() < 0.1 else 0
    return request(opcode, key, value, extras, cas, opaque)


@pytest.mark.todana_only
@pytest.mark.skipif(not served.oracle_is_installed(), reason="memcached is not installed")
@pytest.mark.parametrize("seed", range(8))
def test_random_requests_are_answered_as_by_memcached(binary, seed):
    """The same requests in the same order have the same responses, except for the tokens."""
    chance = random.Random(seed)
    original = served.start_memcached()
    try:
        with wire.BinaryMemcached(original.memcached) as other:
            history = []
            for number in range(1500):
                data = random_request(chance, number)
                history.append(data)
                got, expected = _answers(binary, data), _answers(other, data)
                assert got == expected, history[-12:]
    finally:
        original.stop()


def _answers(connection, data) -> list:
    """The responses to a request, which a noop follows."""
    connection.send(data + request(NOOP, opaque=0xFFFF))
    found = []
    while not found or found[-1].opcode != NOOP:
        found.append(connection.response())
    return found
