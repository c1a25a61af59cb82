"""The last chapter of docs/commands-kyoto.md, row by row: how a write through one protocol appears in the others."""

import re
import struct
import time

import pytest

import served
from erlang_node import Node
from kyoto_wire import CONFLICT, DUPLICATE, INT64_MAX, NEVER, NO_NUMBER, NO_RECORD, Kyoto, matches, ok
from wire import NOT_AN_INTEGER, OK, SLACK_S, Error, Memcached, Resp, wait_until

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

TREE, HASH, PERSISTENT = 0, 1, 2
BINARY = bytes(range(256))
PAGE = served.ROOT / "docs" / "commands-kyoto.md"


@pytest.fixture(scope="module")
def node(request):
    """A node with three databases: one ordered, one unordered, and one without expiry for Kyoto clients."""
    if request.config.getoption("--server") != "todana":
        pytest.skip("no Erlang node to talk to")
    started = Node(("%", ":", "%#ktopts=p"))
    yield started
    started.stop()


class Doors:
    """A connection in each protocol, and the node itself."""

    def __init__(self, node):
        self.kyoto, self.resp = Kyoto(node.addresses["kyoto"]), Resp(node.addresses["resp"])
        self.memcached, self.erlang = Memcached(node.addresses["memcached"]), node.say

    def close(self):
        """Closes the connections."""
        for connection in (self.kyoto, self.resp, self.memcached):
            connection.close()

    def gets(self, key):
        """The token, flags and value in memcached's protocol."""
        self.memcached.send(b"gets %s\r\n" % key.encode())
        _, _, flags, length, token = self.memcached.line().split()
        value = self.memcached.take(int(length))
        self.memcached.hear(b"\r\nEND\r\n")
        return token, int(flags), value


@pytest.fixture
def doors(node):
    """Connections of all protocols to empty databases."""
    opened = Doors(node)
    assert opened.resp.call("FLUSHALL") == OK
    yield opened
    opened.close()


def test_every_row_has_its_test():
    """Each row has a test, and each test a row."""
    chapter = PAGE.read_text().partition("\n## One record, four interfaces\n")[2]
    rows = set(re.findall(r"^\| `([a-z0-9-]+)` \|", chapter, re.M))
    tests = {name.removeprefix("test_").replace("_", "-") for name in globals() if name.startswith("test_")} - {"every-row-has-its-test"}
    assert rows == tests


# --- values and keys


@pytest.mark.parametrize("value", [b"hello", b"", BINARY.replace(b"\r\n", b"")])
@pytest.mark.parametrize("way", ["set", "PUT", "B8"])
def test_value_kyoto_to_all(doors, way, value):
    """All see the same bytes."""
    if way == "set":
        doors.kyoto.call("set", key="k", value=value)
    elif way == "PUT":
        doors.kyoto.ask("PUT", "/k", body=value)
    else:
        doors.kyoto.set_bulk((0, b"k", value, INT64_MAX))
    assert doors.resp.call("GET", "k") == value
    doors.memcached.talk(b"get k\r\n", b"VALUE k 0 %d\r\n%s\r\nEND\r\n" % (len(value), value))
    assert doors.erlang(f"todana:get(db0, <<\"k\">>) =:= {{ok, <<{','.join(map(str, value))}>>}}") == "true"


def test_value_resp_to_kyoto(doors):
    """The record has no `xt`."""
    doors.resp.call("SET", "k", BINARY)
    assert doors.kyoto.call("get", key="k") == ok(value=BINARY)
    assert doors.kyoto.ask("GET", "/k").body == BINARY
    assert doors.kyoto.get_bulk((0, b"k")) == [(0, b"k", BINARY, NEVER)]


def test_value_memcached_to_kyoto(doors):
    """Kyoto does not show the flags."""
    doors.memcached.command("set k 77 0 5", "hello")
    assert doors.kyoto.call("get", key="k") == ok(value="hello")
    assert doors.kyoto.call("check", key="k") == ok(vsiz=5)


def test_value_erlang_to_kyoto(doors):
    """Kyoto sees the bytes that Erlang stores."""
    assert doors.erlang('todana:put(db1, <<"k">>, <<0, 1, 255>>)') == "ok"
    assert doors.kyoto.call("get", DB=1, key="k") == ok(value=b"\0\1\xff")
    doors.resp.call("SELECT", 1)
    assert doors.resp.call("GET", "k") == b"\0\1\xff"


def test_binary_keys(doors):
    """Keys may be any bytes; memcached uses Base64 for them."""
    doors.kyoto.call("set", key=b"a \0\n", value="v")
    assert doors.resp.call("GET", b"a \0\n") == b"v"
    assert doors.memcached.command("mg YSAACg== b v") == b"VA 1"
    assert doors.memcached.line() == b"v"
    doors.resp.call("SET", BINARY, "w")
    assert doors.kyoto.value(BINARY) == b"w"


def test_empty_key(doors):
    """The empty key is a valid key."""
    doors.kyoto.call("set", key="", value="v")
    assert doors.resp.call("GET", "") == b"v"
    doors.resp.call("SET", "", "w")
    assert doors.kyoto.ask("GET", "/").body == b"w"
    assert doors.erlang('todana:get(db0, <<>>)') == '{ok,<<"w">>}'


@pytest.mark.parametrize("length", [250, 251, 65_536])
def test_long_keys(doors, length):
    """memcached reaches keys of up to 250 bytes."""
    key = "k" * length
    assert doors.kyoto.call("set", key=key, value="v") == ok()
    assert doors.resp.call("GET", key) == b"v"
    answer = doors.memcached.command("mg " + key + " v")
    assert answer == b"VA 1" if length <= 250 else answer.startswith(b"CLIENT_ERROR")


def test_large_values(doors):
    """memcached reads values that it could not store."""
    value = b"x" * 3_000_000
    doors.kyoto.call("set", key="k", value=value)
    assert doors.resp.call("GET", "k") == value
    doors.memcached.talk(b"get k\r\n", b"VALUE k 0 3000000\r\n" + value + b"\r\nEND\r\n")


def test_removal(doors):
    """A removal is effective for all."""
    for remove in (
        lambda: doors.kyoto.call("remove", key="k"),
        lambda: doors.kyoto.ask("DELETE", "/k"),
        lambda: doors.kyoto.remove_bulk((0, b"k")),
        lambda: doors.resp.call("DEL", "k"),
        lambda: doors.memcached.command("delete k"),
        lambda: doors.erlang('todana:delete(db0, <<"k">>)'),
    ):
        doors.resp.call("SET", "k", "v")
        remove()
        assert doors.kyoto.call("get", key="k") == NO_RECORD
        assert doors.resp.call("GET", "k") is None
        doors.memcached.talk(b"get k\r\n", b"END\r\n")


# --- time


def test_xt_to_resp(doors):
    """The record exists until the end of the second."""
    second = int(time.time()) + 1000
    doors.kyoto.call("set", key="k", value="v", xt=-second)
    assert doors.resp.call("PEXPIRETIME", "k") == (second + 1) * 1000
    assert doors.resp.call("EXPIRETIME", "k") == second + 1
    assert 1_000_000 - SLACK_S * 1000 <= doors.resp.call("PTTL", "k") <= 1_001_000


def test_xt_to_memcached(doors):
    """memcached returns the remaining seconds."""
    doors.kyoto.call("set", key="k", value="v", xt=100)
    assert doors.memcached.command("mg k t") in (b"HD t99", b"HD t100", b"HD t101")


@pytest.mark.parametrize("ms, less", [(0, 1), (1, 0), (999, 0)])
def test_pexpireat_to_kyoto(doors, ms, less):
    """`xt` is the last second in which the record exists."""
    second = int(time.time()) + 1000
    doors.resp.call("SET", "k", "v", "PXAT", second * 1000 + ms)
    assert doors.kyoto.call("get", key="k") == ok(value="v", xt=second - less)
    assert doors.kyoto.get_bulk((0, b"k"))[0][3] == second - less


def test_exptime_to_kyoto(doors):
    """The rule is that of RESP's times."""
    second = int(time.time()) + 100_000
    doors.memcached.command(f"set k 0 {second} 1", "v")
    at_ms = doors.resp.call("PEXPIRETIME", "k")
    assert doors.kyoto.xt("k") == (at_ms - 1) // 1000
    assert abs(at_ms - second * 1000) <= 1000


def test_xt_round_trip(doors):
    """`xt` N is returned as N."""
    second = int(time.time()) + 1000
    doors.kyoto.set_bulk((0, b"k", b"v", -second))
    assert doors.kyoto.xt("k") == second
    assert doors.kyoto.get_bulk((0, b"k"))[0][3] == second
    left_ms = int(re.fullmatch(r"\{ok,(\d+)\}", doors.erlang('todana:ttl(db0, <<"k">>)'))[1])
    assert 999_000 <= left_ms <= 1_001_000


@pytest.mark.parametrize("way", ["append", "set", "PUT", "B8"])
def test_kyoto_writes_replace_expiry(doors, way):
    """A write without `xt` removes the expiry."""
    doors.resp.call("SET", "k", "v", "EX", 1000)
    if way == "PUT":
        doors.kyoto.ask("PUT", "/k", body=b"w")
    elif way == "B8":
        doors.kyoto.set_bulk((0, b"k", b"w", INT64_MAX))
    else:
        doors.kyoto.call(way, key="k", value="w")
    assert doors.resp.call("TTL", "k") == -1


def test_resp_append_keeps_expiry(doors):
    """Kyoto still returns `xt`."""
    doors.kyoto.call("set", key="k", value="v", xt=1000)
    xt = doors.kyoto.xt("k")
    doors.resp.call("APPEND", "k", "w")
    doors.resp.call("SETRANGE", "k", 0, "x")
    assert doors.kyoto.call("get", key="k") == ok(value="xw", xt=xt)


def test_persist(doors):
    """Kyoto returns no `xt` any more."""
    doors.kyoto.call("set", key="k", value="v", xt=1000)
    assert doors.resp.call("PERSIST", "k") == 1
    assert doors.kyoto.xt("k") is None


def test_persistent_databases(doors):
    """Kyoto returns no `xt`, and the expiry set by RESP still takes effect."""
    doors.resp.call("SELECT", PERSISTENT)
    doors.resp.call("SET", "long", "v", "EX", 1000)
    doors.resp.call("SET", "short", "v", "PX", 30)
    assert doors.kyoto.call("get", DB=PERSISTENT, key="long") == ok(value="v")
    assert doors.kyoto.get_bulk((PERSISTENT, b"long")) == [(PERSISTENT, b"long", b"v", INT64_MAX)]
    assert wait_until(lambda: doors.kyoto.value("short", DB=PERSISTENT) is None)
    doors.kyoto.call("set", DB=PERSISTENT, key="long", value="w", xt=5)
    assert doors.resp.call("TTL", "long") == -1


# --- numbers


def test_counter_of_kyoto(doors):
    """Other protocols do not accept it as a number."""
    doors.kyoto.call("increment", key="n", num=100)
    assert doors.resp.call("GET", "n") == struct.pack(">q", 100)
    assert doors.resp.call("INCR", "n") == NOT_AN_INTEGER
    assert doors.memcached.command("incr n 1") == b"CLIENT_ERROR cannot increment or decrement non-numeric value"
    assert doors.kyoto.call("increment", key="n", num=0) == ok(num=100)


def test_counter_of_resp(doors):
    """Kyoto does not accept it as a number, unless it has exactly eight digits."""
    doors.resp.call("INCRBY", "n", 41)
    doors.memcached.command("incr n 1")
    assert doors.kyoto.value("n") == b"42"
    assert doors.kyoto.call("increment", key="n", num=1) == NO_NUMBER
    assert doors.resp.call("GET", "n") == b"42"
    doors.resp.call("SET", "n", "12345678")
    assert doors.kyoto.call("increment", key="n", num=0) == ok(num=struct.unpack(">q", b"12345678")[0])


def test_fraction_of_kyoto(doors):
    """The value has sixteen bytes."""
    doors.kyoto.call("increment_double", key="n", num="1.5")
    assert doors.resp.call("GET", "n") == struct.pack(">qq", 1, 500_000_000_000_000)
    assert isinstance(doors.resp.call("INCRBYFLOAT", "n", "1"), Error)


def test_fraction_of_resp(doors):
    """The value is decimal text."""
    doors.resp.call("INCRBYFLOAT", "n", "1.5")
    assert doors.kyoto.value("n") == b"1.5"
    assert doors.kyoto.call("increment_double", key="n", num="1") == NO_NUMBER


def test_counter_of_erlang(doors):
    """The value is decimal text, as in RESP."""
    assert doors.erlang('todana:update_counter(db0, <<"n">>, 5, #{initial => 0})') == "{ok,5}"
    assert doors.resp.call("INCR", "n") == 6
    assert doors.kyoto.value("n") == b"6"
    assert doors.kyoto.call("increment", key="n", num=1) == NO_NUMBER


# --- flags, versions, conditions


@pytest.mark.parametrize("way", ["set", "PUT", "B8", "SET"])
def test_flags_replaced(doors, way):
    """The write creates a new record."""
    doors.memcached.command("set k 77 0 1", "v")
    if way == "PUT":
        doors.kyoto.ask("PUT", "/k", body=b"w")
    elif way == "B8":
        doors.kyoto.set_bulk((0, b"k", b"w", INT64_MAX))
    elif way == "SET":
        doors.resp.call("SET", "k", "w")
    else:
        doors.kyoto.call("set", key="k", value="w")
    doors.memcached.talk(b"get k\r\n", b"VALUE k 0 1\r\nw\r\nEND\r\n")


def test_flags_kept_by_append(doors):
    """The record is the same, with a longer value."""
    doors.memcached.command("set k 77 0 1", "v")
    doors.kyoto.call("append", key="k", value="w")
    doors.memcached.talk(b"get k\r\n", b"VALUE k 77 2\r\nvw\r\nEND\r\n")


@pytest.mark.parametrize(
    "procedure, rows",
    [("set", {"value": "v"}), ("append", {"value": ""}), ("cas", {"oval": "v", "nval": "v"}), ("replace", {"value": "v"})],
)
def test_cas_token(doors, procedure, rows):
    """Every write changes the token."""
    doors.memcached.command("set k 0 0 1", "v")
    token, _, _ = doors.gets("k")
    assert doors.kyoto.call(procedure, rows, key="k") == ok()
    assert doors.gets("k")[0] != token
    assert doors.memcached.command(b"cas k 0 0 1 " + token, "w") == b"EXISTS"


@pytest.mark.parametrize(
    "procedure, rows",
    [("set", {"value": "w"}), ("remove", {}), ("increment", {"num": "1"}), ("clear", {}), ("set_bulk", {"_k": "w"}), ("seize", {})],
)
def test_watch(doors, procedure, rows):
    """WATCH detects every write and removal."""
    doors.resp.call("SET", "k", bytes(8))
    doors.resp.call("WATCH", "k")
    assert doors.kyoto.call(procedure, rows, key="k").status == 200
    doors.resp.call("MULTI")
    doors.resp.call("SET", "k", "mine")
    assert repr(doors.resp.call("EXEC")) == "NULL_ARRAY"


def test_compare_value(doors):
    """`cas` compares the bytes, whichever protocol wrote them."""
    doors.resp.call("SET", "k", "v")
    assert doors.kyoto.call("cas", key="k", oval="x", nval="w") == CONFLICT
    doors.memcached.command("append k 0 0 1", "x")
    assert doors.kyoto.call("cas", key="k", oval="vx", nval="w") == ok()
    assert doors.resp.call("GET", "k") == b"w"


def test_add_and_replace(doors):
    """Each protocol finds the records of the others."""
    doors.resp.call("SET", "k", "v")
    assert doors.kyoto.call("add", key="k", value="w") == DUPLICATE
    assert doors.kyoto.ask("PUT", "/k", [("X-Kt-Mode", "replace")], b"w").status == 201
    assert doors.memcached.command("add k 0 0 1", "x") == b"NOT_STORED"
    assert doors.resp.call("SET", "k", "x", "NX") is None


# --- whole databases


def test_clear(doors):
    """`clear` empties one database."""
    doors.resp.call("SET", "k", "v")
    doors.kyoto.call("set", DB=HASH, key="k", value="v")
    assert doors.kyoto.call("clear") == ok()
    assert doors.resp.call("DBSIZE") == 0
    doors.memcached.talk(b"get k\r\n", b"END\r\n")
    assert doors.kyoto.value("k", DB=HASH) == b"v"


def test_flush(doors):
    """`FLUSHALL` empties all databases, `flush_all` database 0."""
    for flush, left in ((lambda: doors.memcached.command("flush_all"), b"v"), (lambda: doors.resp.call("FLUSHALL"), None)):
        for number in (TREE, HASH):
            doors.kyoto.call("set", DB=number, key="k", value="v")
        flush()
        assert (doors.kyoto.value("k"), doors.kyoto.value("k", DB=HASH)) == (None, left)


def test_count(doors):
    """Both return the same number."""
    for i in range(10):
        doors.resp.call("SET", f"k{i}", "v")
    assert doors.kyoto.count() == doors.resp.call("DBSIZE") == 10


def test_databases_by_number(doors):
    """A swap takes effect for all clients at once."""
    doors.kyoto.call("set", DB=HASH, key="k", value="v")
    assert doors.erlang('todana:get(db1, <<"k">>)') == '{ok,<<"v">>}'
    doors.resp.call("SELECT", HASH)
    assert doors.resp.call("MOVE", "k", TREE) == 1
    assert (doors.kyoto.value("k"), doors.kyoto.value("k", DB=HASH)) == (b"v", None)
    doors.resp.call("SELECT", 5)
    doors.resp.call("SET", "k", "out of sight")
    assert doors.kyoto.call("get", DB=5, key="k").status == 400


@pytest.mark.parametrize("number", [TREE, HASH])
def test_keys_and_scan(doors, number):
    """RESP returns all keys."""
    doors.kyoto.call("set_bulk", {f"_k{i}": i for i in range(100)}, DB=number)
    doors.resp.call("SELECT", number)
    assert len(doors.resp.call("KEYS", "k*")) == 100
    cursor, keys = doors.resp.call("SCAN", 0, "COUNT", 1_000_000)
    assert (cursor, len(set(keys))) == (b"0", 100)


def test_match_prefix(doors):
    """Keys are returned in order."""
    doors.resp.call("MSET", "ab", 1, "aa", 2, "b", 3)
    doors.memcached.command("set ac 0 0 1", "v")
    assert doors.kyoto.call("match_prefix", prefix="a") == matches("aa", "ab", "ac")
    assert doors.kyoto.call("match_regex", regex="^.c$") == matches("ac")


@pytest.mark.parametrize("number", [TREE, HASH])
def test_cursors(doors, number):
    """The cursor moves on to the next record."""
    doors.kyoto.call("set_bulk", {"_a": 1, "_b": 2, "_c": 3}, DB=number)
    order = doors.kyoto.keys_by_cursor(DB=number)
    doors.kyoto.call("cur_jump", CUR=1, DB=number)
    doors.resp.call("SELECT", number)
    doors.resp.call("DEL", order[0])
    assert doors.kyoto.call("cur_get_key", CUR=1) == ok(key=order[1])


def test_range_resp(doors):
    """Keys are returned in order."""
    doors.kyoto.call("set_bulk", {"_b": 2, "_a": 1, "_c": 3})
    assert doors.resp.call("RANGE", "a", "b", "WITHVALUES") == [b"a", b"1", b"b", b"2"]
    assert doors.resp.call("PREFIX", "c") == [b"c"]


def test_range_memcached(doors):
    """Records are returned in order, without keys that would break the lines."""
    doors.kyoto.call("set_bulk", {"_b": 2, "_a": 1, "_c": 3, "_a\r\n": 0, "_a b": 0})
    doors.memcached.talk(b"get mio:range-search a b 10 desc\r\n", b"VALUE b 0 1\r\n2\r\nVALUE a 0 1\r\n1\r\nEND\r\n")


def test_range_erlang(doors):
    """Records are returned in order."""
    doors.kyoto.call("set_bulk", {"_b": 2, "_a": 1, "_c": 3})
    assert doors.erlang('todana:range(db0, <<"a">>, <<"b">>)') == '{[{<<"a">>,<<"1">>},{<<"b">>,<<"2">>}],done}'
    assert doors.erlang('todana:prefix(db0, <<"c">>)') == '{[{<<"c">>,<<"3">>}],done}'


def test_statistics(doors):
    """Statistics include Kyoto clients."""
    def figure(name):
        info = doors.resp.call("INFO", "stats").decode()
        return int(re.search(rf"^{name}:(\d+)", info, re.M)[1])

    hits, misses = figure("keyspace_hits"), figure("keyspace_misses")
    doors.kyoto.call("set", key="k", value="v")
    doors.kyoto.value("k")
    doors.kyoto.value("none")
    doors.kyoto.ask("GET", "/k")
    assert wait_until(lambda: (figure("keyspace_hits") - hits, figure("keyspace_misses") - misses) == (2, 1))
    port = doors.kyoto.socket.getsockname()[1]
    assert f"addr=127.0.0.1:{port} " in doors.resp.call("CLIENT", "LIST").decode()
