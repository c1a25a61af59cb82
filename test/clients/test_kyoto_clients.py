"""Kyoto Tycoon's clients from PyPI: ukt, and python-kyototycoon-ng.

python-kyototycoon-ng decodes Base64 with a function that Python 3.9 removed, so the client fails on answers with short
binary values, from ktserver as well. The tests use the features that work.
"""

import datetime
import threading
import time

import kyototycoon
import pytest
import ukt
from ukt.replication import ReplicationClient

from fixtures import HASH, TREE
from kyoto_wire import Kyoto
from wire import wait_until

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]


@pytest.fixture
def kt(empty, kyoto):
    """A ukt client; values are text."""
    client = ukt.KyotoTycoon(*empty.kyoto, timeout=60)
    yield client
    client.close_all()


@pytest.fixture(params=[ukt.KT_JSON, ukt.KT_PICKLE])
def kt_of_values(request, empty, kyoto):
    """A ukt client that serialises values."""
    client = ukt.KyotoTycoon(*empty.kyoto, timeout=60, serializer=request.param)
    yield client
    client.close_all()


@pytest.fixture
def ng(empty, kyoto):
    """A python-kyototycoon-ng client by HTTP; values are bytes."""
    with kyototycoon.KyotoTycoon(pack_type=kyototycoon.KT_PACKER_BYTES) as client:
        client.open(*empty.kyoto, timeout=60)
        yield client


@pytest.fixture
def ng_binary(empty, kyoto):
    """The same by the binary protocol."""
    with kyototycoon.KyotoTycoon(binary=True, pack_type=kyototycoon.KT_PACKER_BYTES) as client:
        client.open(*empty.kyoto, timeout=60)
        yield client


# --- ukt


def test_ukt_records(kt, database):
    """Single records in the binary protocol."""
    assert kt.set("k", "v", db=database) == 1
    assert kt.get("k", db=database) == "v"
    assert kt.get("none", db=database) is None
    assert kt.get_bytes("k", db=database) == b"v"
    assert kt.set_bytes("b", bytes(range(256)), db=database) == 1
    assert kt.get_bytes("b", db=database) == bytes(range(256))
    assert kt.remove("k", db=database) == 1
    assert kt.remove("k", db=database) == 0


def test_ukt_records_in_bulk(kt, database):
    """Bulk requests."""
    rows = {f"k{i}": f"v{i}" for i in range(1000)}
    assert kt.set_bulk(rows, db=database) == 1000
    assert kt.get_bulk([*rows, "none"], db=database) == rows
    assert kt.remove_bulk([*rows, "none"], db=database) == 1000
    assert kt.set_bulk({"a": "1"}, db=database, no_reply=True) is None
    assert kt.get("a", db=database) == "1"


def test_ukt_details(kt):
    """Each record has its database and expiry."""
    at = int(time.time()) + 10_000_000
    assert kt.set_bulk_details([(0, "a", "0", None), (1, "a", "1", at + 86400 * 180)]) == 2
    found = kt.get_bulk_details([(0, "a"), (1, "a"), (1, "none")])
    assert [row[:3] for row in found] == [(0, "a", "0"), (1, "a", "1")]
    assert found[0][3] == 0xFFFFFFFFFF and found[1][3] == at + 86400 * 180
    assert kt.remove_bulk_details([(0, "a"), (1, "a"), (1, "b")]) == 2


def test_ukt_http(kt, database):
    """The same over HTTP."""
    assert kt.set_http("k", "v\0\n", db=database)
    assert kt.get_http("k", db=database) == "v\0\n"
    assert kt.get_http("none", db=database) is None
    assert kt.set_bulk_http({"a": "1", "b": "2"}, db=database) == 2
    assert kt.get_bulk_http(["a", "b", "none"], db=database) == {"a": "1", "b": "2"}
    assert kt.remove_bulk_http(["a", "b", "none"], db=database) == 2
    assert kt.remove_http("k", db=database) == 1
    assert kt.remove_http("k", db=database) == 0


def test_ukt_conditions(kt, database):
    """add, replace, append, cas, seize, check, length."""
    assert kt.add("k", "a", db=database)
    assert not kt.add("k", "b", db=database)
    assert kt.replace("k", "b", db=database)
    assert not kt.replace("none", "b", db=database)
    assert kt.append("k", "c", db=database)
    assert kt.get("k", db=database) == "bc"
    assert kt.cas("k", "bc", "d", db=database)
    assert not kt.cas("k", "bc", "e", db=database)
    assert kt.cas("new", None, "x", db=database)
    assert kt.cas("new", "x", None, db=database)
    assert kt.check("k", db=database) and not kt.exists("new", db=database)
    assert (kt.length("k", db=database), kt.length("none", db=database)) == (1, None)
    assert kt.seize("k", db=database) == "d"
    assert kt.seize("k", db=database) is None


def test_ukt_numbers(kt, database):
    """Integers and decimal numbers."""
    assert kt.increment("n", db=database) == 1
    assert kt.increment("n", 10, db=database) == 11
    assert kt.increment("m", 5, orig=100, db=database) == 105
    assert kt.increment_double("d", 1.5, db=database) == 1.5
    assert kt.increment_double("d", -0.25, db=database) == 1.25
    kt.set("text", "x", db=database)
    with pytest.raises(ukt.ProtocolError):
        kt.increment("text", db=database)


def test_ukt_expiry(kt):
    """Seconds, durations and points in time."""
    now = int(time.time())
    kt.set("seconds", "v", expire_time=100)
    kt.set_http("span", "v", expire_time=datetime.timedelta(seconds=100))
    kt.set("moment", "v", expire_time=datetime.datetime.fromtimestamp(now + 100))
    times = {key: xt for _, key, _, xt in kt.get_bulk_details([(0, key) for key in ("seconds", "span", "moment")])}
    assert all(now + 99 <= xt <= int(time.time()) + 102 for xt in times.values()), times


def test_ukt_matching(kt, database):
    """Keys are returned in the order of their ranks."""
    kt.set_bulk({key: "v" for key in ("ab", "abc", "b", "ac")}, db=database)
    found = kt.match_prefix("a", db=database)
    assert sorted(found) == ["ab", "abc", "ac"]
    if database == TREE:
        assert found == ["ab", "abc", "ac"]
        assert kt.keys_nonlazy(db=database) == ["ab", "abc", "ac", "b"]
    assert len(kt.match_prefix("a", 2, db=database)) == 2
    assert sorted(kt.match_regex("c$", db=database)) == ["abc", "ac"]
    assert kt.match_similar("ab", 1, db=database) == ["ab", "abc", "ac", "b"]


def test_ukt_cursor(kt, database):
    """Both directions, in an ordered database."""
    rows = {key: key.upper() for key in "abcde"}
    kt.set_bulk(rows, db=database)
    assert dict(kt.cursor(db=database)) == rows
    cursor = kt.cursor(db=database)
    assert cursor.jump("c") and cursor.get() == ("c", "C")
    assert cursor.set_value("new") and cursor.value() == "new"
    assert cursor.seize() == ("c", "new")
    if database == TREE:
        assert cursor.key() == "d"
        assert cursor.step_back() and cursor.key() == "b"
        assert cursor.jump_back() and cursor.key() == "e"
    else:
        with pytest.raises(NotImplementedError):
            cursor.jump_back()
    assert cursor.jump() and cursor.remove()
    assert cursor.close()
    assert kt.count(db=database) == 3


def test_ukt_as_a_dict(kt):
    """Items, iteration, length."""
    kt["a"] = "1"
    kt["b", 1] = "2"
    kt.update(c="3")
    assert (kt["a"], kt["b", 1], kt["none"]) == ("1", "2", None)
    assert "a" in kt and "none" not in kt and ("b", 1) in kt
    assert len(kt) == 2 and sorted(kt) == ["a", "c"]
    assert sorted(kt.keys()) == ["a", "c"] and sorted(kt.values()) == ["1", "3"] and dict(kt.items()) == {"a": "1", "c": "3"}
    del kt["a"]
    assert kt.pop("c") == "3" and len(kt) == 0


@pytest.mark.memory_only
def test_ukt_server(kt, empty):
    """Statistics and the like."""
    kt.set("a", "1")
    report = kt.report()
    assert report["db_total_count"] == 1 and report["serv_proc_id"] in empty.pids
    assert kt.databases[:5] == [":", "%", "*", "-", "+"]
    assert [status["count"] for _, status in kt.list_databases()][:2] == [1, 0]
    assert (kt.status()["count"], kt.count(), kt.count(db=TREE)) == (1, 1, 0)
    assert kt.size() > 0
    assert kt.synchronize() and kt.synchronize(hard=True)
    assert kt.vacuum() and kt.vacuum(5)
    assert kt.clear() and kt.count() == 0


def test_ukt_databases(kt):
    """A default database, and another one for a single call."""
    kt.set_database(TREE)
    kt.set("k", "tree")
    kt.set("k", "hash", db=HASH)
    assert (kt.get("k"), kt.get_http("k"), kt.get("k", db=HASH)) == ("tree", "tree", "hash")


def test_ukt_signals(kt, empty):
    """A queue whose reader waits until a writer adds an item."""
    other = ukt.KyotoTycoon(*empty.kyoto, timeout=60)
    got = []
    reader = threading.Thread(target=lambda: got.append(other.SignalQueue("q", db=TREE, wait=60).consume()))
    reader.start()
    assert kt.SignalQueue("q", db=TREE).produce("item")[0]

    def is_read():
        # A signal that nobody waits for yet is not remembered.
        with Kyoto(empty.kyoto) as signaller:
            signaller.call("void", SIGNAL="q")
        reader.join(0.05)
        return not reader.is_alive()

    assert wait_until(is_read)
    assert got == ["item"]
    assert kt.SignalQueue("q", db=TREE, wait="0.05").consume() is None
    other.close_all()


def test_ukt_serialised_values(kt_of_values):
    """Values serialised as JSON and with pickle."""
    value = {"list": [1, 2, 3], "text": "ü", "none": None}
    kt_of_values.set("k", value)
    assert kt_of_values.get("k") == kt_of_values.get_http("k") == value
    assert kt_of_values.get_bulk(["k"]) == {"k": value}


def test_ukt_scripts(kt):
    """There are no scripts: the client reports the error, and the connection stays open."""
    with pytest.raises(ukt.ProtocolError):
        kt.script("echo", {"a": "b"})
    kt.set("k", "v")
    assert kt.get("k") == "v"
    with pytest.raises(ukt.ProtocolError):
        kt.ulog_list()


def test_ukt_replication(kt):
    """There is no replication, and the client reports this."""
    with pytest.raises(ukt.KTError):
        next(iter(ReplicationClient(kt, sid=1).run()))


# --- python-kyototycoon-ng


def test_ng_records(ng, database):
    """REST."""
    assert ng.set("k", b"v", db=database)
    assert ng.get("k", db=database) == b"v"
    assert ng.get("none", db=database) is None
    assert ng.add("new", b"1", db=database) and ng.replace("new", b"2", db=database)
    assert ng.replace("none", b"2", db=database) is False
    with pytest.raises(kyototycoon.KyotoTycoonException):
        ng.add("k", b"v", db=database)
    assert ng.check("k", db=database) and not ng.check("none", db=database)
    assert ng.remove("k", db=database) and not ng.remove("k", db=database)


def test_ng_append(ng):
    """The client implements append with get and cas, and always uses database 0."""
    assert ng.append("k", b"v") and ng.append("k", b"w")
    assert ng.get("k") == b"vw"


def test_ng_procedures(ng, database):
    """TSV maps in URL encoding."""
    assert ng.set_bulk({"a": b"1", "b": b"2"}, db=database) == 2
    assert ng.get_bulk(["a", "b", "none"], db=database) == {"a": b"1", "b": b"2"}
    assert ng.get_bulk(["a"], atomic=False, db=database) == {"a": b"1"}
    assert ng.remove_bulk(["a", "none"], db=database) == 1
    assert ng.cas("b", old_val=b"2", new_val=b"3", db=database)
    with pytest.raises(kyototycoon.KyotoTycoonException):
        ng.cas("b", old_val=b"2", new_val=b"4", db=database)
    assert ng.seize("b", db=database) == b"3" and ng.seize("b", db=database) is None


def test_ng_numbers(ng, database):
    """Eight bytes, read by REST."""
    assert ng.increment("n", 5, db=database) == 5
    assert ng.increment("n", -7, db=database) == -2
    assert ng.get_int("n", db=database) == -2
    assert ng.increment_double("d", 1.5, db=database) == 1.5


def test_ng_matching(ng, database):
    """Keys that match."""
    ng.set_bulk({key: b"v" for key in ("ab", "abc", "b")}, db=database)
    assert sorted(ng.match_prefix("ab", db=database)) == ["ab", "abc"]
    assert len(ng.match_prefix("ab", limit=1, db=database)) == 1
    assert sorted(ng.match_regex("^a", db=database)) == ["ab", "abc"]
    assert ng.match_similar("ab", 1, db=database) == ["ab", "abc", "b"]


def test_ng_cursor(ng, database):
    """A walk, with changes on the way."""
    ng.set_bulk({key: key.encode() for key in "abc"}, db=database)
    with ng.cursor() as cursor:
        assert cursor.jump(db=database)
        seen = [cursor.get()]
        while cursor.step():
            seen.append(cursor.get())
        assert sorted(seen) == [("a", b"a"), ("b", b"b"), ("c", b"c")]
        assert cursor.jump("b") and cursor.get_key() == "b" and cursor.get_value() == b"b"
        assert cursor.set_value(b"new") and cursor.seize() == {"key": "b", "value": b"new"}
        assert cursor.jump() and cursor.remove()
    assert ng.count(db=database) == 1


def test_ng_server(ng):
    """Statistics."""
    ng.set("a", b"1")
    assert int(ng.report()["db_total_count"]) == 1
    assert ng.status()["count"] == "1" and ng.count() == 1 and ng.size() > 0
    assert ng.vacuum() and ng.clear() and ng.count() == 0


def test_ng_expiry(ng):
    """Expiry times in the format of REST."""
    ng.set("k", b"v", expire=100)
    ng.set_bulk({"j": b"v"}, expire=100)
    assert ng.get("k") == ng.get("j") == b"v"


def test_ng_binary(ng_binary, ng, database):
    """The binary protocol and HTTP together."""
    assert ng_binary.set_bulk({"a": b"1", "b": bytes(range(256))}, db=database) == 2
    assert ng_binary.get_bulk(["a", "b", "none"], db=database) == {"a": b"1", "b": bytes(range(256))}
    assert ng.get("b", db=database) == bytes(range(256))
    assert ng_binary.set("c", b"3", db=database) and ng_binary.get("c", db=database) == b"3"
    assert ng_binary.remove_bulk(["a", "none"], db=database) == 1 and ng_binary.remove("b", db=database)
