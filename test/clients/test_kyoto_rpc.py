"""Section 2.7: each procedure."""

import struct

import pytest

from fixtures import CACHE, DECIMAL, HASH, KYOTO_DATABASES, PERSISTENT, PROTO_HASH, PROTO_TREE, TREE
from kyoto_wire import (
    BAD_EXPRESSION, CONFLICT, DUPLICATE, INT64_MAX, INT64_MIN, INVALID, NO_CURSOR, NO_DATABASE, NO_NUMBER, NO_RECORD, NOT_ORDERED,
    failed, http, matches, ok,
)

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

BINARY = bytes(range(256))
REAL_TYPES = {HASH: 24, TREE: 33, CACHE: 32, PROTO_HASH: 16, PROTO_TREE: 17, PERSISTENT: 33, DECIMAL: 33}
SERVER_FIGURES = (
    "db_0 db_1 db_total_count db_total_size serv_conn_count serv_task_count serv_thread_count serv_current_time serv_running_term "
    "serv_proc_id sys_mem_rss sys_mem_peak sys_mem_total sys_ru_utime sys_ru_stime "
    "cnt_set cnt_set_misses cnt_remove cnt_remove_misses cnt_get cnt_get_misses cnt_script cnt_misc "
    "conf_kt_version conf_kt_features conf_kc_version conf_kc_features conf_os_name"
).split()


def word(number):
    """A number in the format of increment."""
    return struct.pack(">q", number)


def fraction(whole, parts):
    """A number in the format of increment_double."""
    return struct.pack(">qq", whole, parts)


# --- the server


def test_void(kyoto):
    """Does nothing."""
    assert kyoto.call("void") == ok()


def test_void_takes_anything(kyoto):
    """The procedure ignores its inputs, even an unknown database."""
    assert kyoto.call("void", DB="none", key="x") == ok()


def test_echo(kyoto):
    """Returns its inputs, including those common to all procedures."""
    assert kyoto.call("echo") == ok()
    assert kyoto.call("echo", {b"\0\xff": BINARY}, DB=0, a="", key="k") == ok({b"\0\xff": BINARY}, DB=0, a="", key="k")


@pytest.mark.memory_only
def test_report(kyoto, empty):
    """Statistics of the server."""
    kyoto.call("set", key="a", value="b")
    rows = kyoto.done("report")
    assert [name for name in SERVER_FIGURES if name not in rows] == []
    assert rows["db_0"].startswith(b"count=1 size=") and rows["db_0"].endswith(b" path=:")
    assert [rows[f"db_{i}"].rpartition(b"=")[2].decode() for i in (2, 3, 4)] == ["*", "-", "+"]
    assert rows["db_total_count"] == b"1"
    assert int(rows["serv_conn_count"]) >= 1
    assert float(rows["serv_running_term"]) > 0
    assert int(rows["serv_proc_id"]) in empty.pids


def test_report_counts_operations(kyoto):
    """Counts by group, and misses."""
    def counters():
        return {name: int(value) for name, value in kyoto.done("report").items() if name.startswith("cnt_")}

    before = counters()
    kyoto.call("set", key="a", value="b")
    kyoto.call("add", key="a", value="b")
    kyoto.call("get", key="a")
    kyoto.call("get", key="none")
    kyoto.call("seize", key="a")
    kyoto.call("remove", key="a")
    kyoto.call("clear")
    after = counters()
    grown = {name: after[name] - before[name] for name in after if after[name] != before[name]}
    assert grown == {
        "cnt_set": 2, "cnt_set_misses": 1, "cnt_get": 3, "cnt_get_misses": 1, "cnt_remove": 2, "cnt_remove_misses": 1, "cnt_misc": 1,
    }


@pytest.mark.memory_only
def test_status(kyoto, any_database):
    """Statistics of a database."""
    kyoto.call("set", DB=any_database, key="a", value="b")
    rows = kyoto.done("status", DB=any_database)
    assert rows["count"] == b"1"
    assert int(rows["size"]) > 0
    assert int(rows["realtype"]) == REAL_TYPES[any_database]
    assert rows["ktopts"] == (b"2" if any_database == PERSISTENT else b"0")
    assert (rows["ktcapcnt"], rows["ktcapsiz"]) == (b"-1", b"-1")
    assert rows["path"].decode() in (KYOTO_DATABASES[any_database], KYOTO_DATABASES[any_database].partition("#")[0])


def test_status_of_no_database(kyoto):
    """An unknown database is an error."""
    assert kyoto.call("status", DB=len(KYOTO_DATABASES)) == NO_DATABASE


def test_play_script(kyoto):
    """There are no scripts."""
    answer = kyoto.call("play_script", name="echo", _a="1")
    assert answer.status == 501 and b"ERROR" in answer.rows
    assert kyoto.call("play_script").status in (400, 501)


def test_tune_replication(kyoto):
    """There is no replication."""
    assert kyoto.call("tune_replication", host="localhost") == failed(501, "the RTS file is not set")


@pytest.mark.parametrize("procedure", ["ulog_list", "ulog_remove"])
def test_ulog(kyoto, procedure):
    """There is no update log."""
    assert kyoto.call(procedure) == failed(400, "no update log allows no replication")


@pytest.mark.parametrize("name", ["nonesuch", "", "SET", "set/x", "set%20"])
def test_an_unknown_procedure(kyoto, name):
    """The error contains the decoded name."""
    answer = kyoto.ask("POST", "/rpc/" + name)
    assert answer.status == 501
    assert answer.body == b"ERROR\tnot implemented: %s\n" % name.replace("%20", " ").encode()


def test_a_procedure_whose_name_is_encoded(kyoto):
    """The server decodes the name."""
    assert kyoto.ask("POST", "/rpc/%76oid").status == 200


# --- the whole database


def test_clear(kyoto, database):
    """Removes all records of the database."""
    for number in (HASH, TREE):
        kyoto.call("set", DB=number, key="a", value="b")
    assert kyoto.call("clear", DB=database) == ok()
    assert [kyoto.count(number) for number in (HASH, TREE)] == [int(number != database) for number in (HASH, TREE)]


def test_synchronize(kyoto, database):
    """Succeeds with and without `hard`."""
    assert kyoto.call("synchronize", DB=database) == ok()
    assert kyoto.call("synchronize", DB=database, hard="") == ok()


def test_synchronize_runs_no_command(kyoto):
    """The server never runs a program that a client names."""
    assert kyoto.call("synchronize", command="true") == failed(500, "DB: 15: miscellaneous error: there are no commands")


def test_vacuum(kyoto, database):
    """Succeeds with and without `step`, and removes no record that has not expired."""
    kyoto.call("set", DB=database, key="a", value="b")
    for steps in ({}, {"step": 0}, {"step": 1}, {"step": 100}, {"step": "x"}):
        assert kyoto.call("vacuum", DB=database, **steps) == ok()
    assert kyoto.value("a", DB=database) == b"b"


def test_vacuum_removes_expired_records(kyoto, database):
    """The count decreases at once."""
    for i in range(50):
        kyoto.call("set", DB=database, key=f"k{i}", value="v", xt=-1)
    kyoto.call("set", DB=database, key="a", value="b")
    kyoto.call("vacuum", DB=database)
    assert kyoto.count(database) == 1


# --- one record


@pytest.mark.parametrize("key", [b"a", b"", BINARY, b"k" * 1000, "ä".encode(), b"two words", b"tab\tand\nline"])
@pytest.mark.parametrize("value", [b"v", b"", BINARY, b"x" * 100_000])
def test_set(kyoto, key, value):
    """The value may be any bytes, or empty."""
    assert kyoto.call("set", {b"key": key, b"value": value}) == ok()
    assert kyoto.call("get", key=key) == ok(value=value)


def test_set_overwrites(kyoto, any_database):
    """The new value replaces the old one."""
    for value in ("a", "longer", ""):
        assert kyoto.call("set", DB=any_database, key="k", value=value) == ok()
        assert kyoto.value("k", DB=any_database) == value.encode()
    assert kyoto.count(any_database) == 1


def test_databases_are_apart(kyoto):
    """The same key exists in each database."""
    for number in range(len(KYOTO_DATABASES)):
        kyoto.call("set", DB=number, key="k", value=number)
    assert [kyoto.value("k", DB=number) for number in range(len(KYOTO_DATABASES))] == [b"%d" % n for n in range(len(KYOTO_DATABASES))]


def test_add(kyoto, any_database):
    """Stores only if there is no record."""
    assert kyoto.call("add", DB=any_database, key="k", value="a") == ok()
    assert kyoto.call("add", DB=any_database, key="k", value="b") == DUPLICATE
    assert kyoto.value("k", DB=any_database) == b"a"


def test_replace(kyoto, any_database):
    """Stores only if there is a record."""
    assert kyoto.call("replace", DB=any_database, key="k", value="a") == NO_RECORD
    assert kyoto.value("k", DB=any_database) is None
    kyoto.call("set", DB=any_database, key="k", value="a")
    assert kyoto.call("replace", DB=any_database, key="k", value="b") == ok()
    assert kyoto.value("k", DB=any_database) == b"b"


def test_append(kyoto, any_database):
    """Appends to the value; creates a missing record."""
    for value in (b"a", b"", b"\0b"):
        assert kyoto.call("append", DB=any_database, key="k", value=value) == ok()
    assert kyoto.value("k", DB=any_database) == b"a\0b"


def test_increment(kyoto, any_database):
    """Adds to eight bytes in big-endian order."""
    assert kyoto.call("increment", DB=any_database, key="n", num=5) == ok(num=5)
    assert kyoto.call("increment", DB=any_database, key="n", num=-7) == ok(num=-2)
    assert kyoto.value("n", DB=any_database) == word(-2)
    kyoto.call("set", DB=any_database, key="n", value=word(100))
    assert kyoto.call("increment", DB=any_database, key="n", num=1) == ok(num=101)


@pytest.mark.parametrize(
    "stored, num, orig, answer, left",
    [
        (None, 5, "10", ok(num=15), word(15)), (None, 5, "-10", ok(num=-5), word(-5)), (None, 5, "try", NO_NUMBER, None),
        (None, 5, str(INT64_MIN), NO_NUMBER, None), (None, 5, "set", ok(num=5), word(5)), (None, 5, str(INT64_MAX), ok(num=5), word(5)),
        (word(1), 5, "10", ok(num=6), word(6)), (word(1), 5, "try", ok(num=6), word(6)), (word(1), 5, "set", ok(num=5), word(5)),
        (word(1), 5, str(INT64_MAX), ok(num=5), word(5)), (word(7), 0, "10", ok(num=7), word(7)), (None, 0, "10", ok(num=10), word(10)),
        (word(INT64_MAX), 2, "0", ok(num=INT64_MIN + 1), word(INT64_MIN + 1)), (word(INT64_MAX), 1, "0", NO_NUMBER, word(INT64_MIN)),
        (word(1), "x", "0", ok(num=1), word(1)), (word(1), " +12x", "0", ok(num=13), word(13)), (None, 5, "x", ok(num=5), word(5)),
    ],
)
def test_increment_with_an_origin(kyoto, stored, num, orig, answer, left):
    """The initial value of a missing counter, up to the limits."""
    if stored is not None:
        kyoto.call("set", key="n", value=stored)
    assert kyoto.call("increment", key="n", num=num, orig=orig) == answer
    assert kyoto.value("n") == left


@pytest.mark.parametrize("stored", [b"", b"5", b"1234567", b"123456789", fraction(1, 0)])
def test_increment_of_a_value_that_is_no_counter(kyoto, stored):
    """The procedure fails and changes nothing."""
    kyoto.call("set", key="n", value=stored)
    assert kyoto.call("increment", key="n", num=1) == NO_NUMBER
    assert kyoto.value("n") == stored


def test_increment_double(kyoto, any_database):
    """Adds integral parts and fractions in units of 10^-15."""
    assert kyoto.call("increment_double", DB=any_database, key="n", num="1.5") == ok(num="1.500000")
    assert kyoto.value("n", DB=any_database) == fraction(1, 500_000_000_000_000)
    assert kyoto.call("increment_double", DB=any_database, key="n", num="-2") == ok(num="-0.500000")
    assert kyoto.value("n", DB=any_database) == fraction(-1, 500_000_000_000_000)


def test_the_parts_of_increment_double_are_added_each(kyoto, any_database):
    """Only a fraction of 1 or more is carried; digits beyond the fifteenth are truncated."""
    kyoto.call("increment_double", DB=any_database, key="n", num="1")
    assert kyoto.call("increment_double", DB=any_database, key="n", num="-0.25") == ok(num="0.750000")
    assert kyoto.value("n", DB=any_database) == fraction(1, -250_000_000_000_000)
    kyoto.call("increment_double", DB=any_database, key="m", num="0.3")
    assert kyoto.value("m", DB=any_database) == fraction(0, 299_999_999_999_999)


def test_a_number_beyond_64_bits_wraps_around(kyoto):
    """The sum wraps around as well."""
    assert kyoto.call("increment", key="n", num="99999999999999999999") == ok(num=7766279631452241919)


@pytest.mark.parametrize(
    "stored, num, orig, answer, left",
    [
        (None, "1", "0.25", ok(num="1.250000"), fraction(1, 250_000_000_000_000)), (None, "1", "try", NO_NUMBER, None),
        (None, "1", "-inf", NO_NUMBER, None), (None, "1.5", "set", ok(num="1.500000"), fraction(1, 500_000_000_000_000)),
        (fraction(9, 0), "1.5", "set", ok(num="1.500000"), fraction(1, 500_000_000_000_000)),
        (fraction(9, 0), "1.5", "inf", ok(num="1.500000"), fraction(1, 500_000_000_000_000)),
        (fraction(9, 0), "1", "try", ok(num="10.000000"), fraction(10, 0)), (fraction(9, 0), "0", "0", ok(num="9.000000"), fraction(9, 0)),
        (fraction(0, 700_000_000_000_000), "0.5", "0", ok(num="1.200000"), fraction(1, 200_000_000_000_000)),
        (None, "inf", "0", ok(num="inf"), fraction(INT64_MAX, 0)), (None, "-inf", "0", ok(num="-inf"), fraction(INT64_MIN, 0)),
        (fraction(INT64_MAX, 0), "-5", "0", ok(num="inf"), fraction(INT64_MAX, 0)),
    ],
)
def test_increment_double_with_an_origin(kyoto, stored, num, orig, answer, left):
    """The initial value of a missing number; an infinite number stays infinite."""
    if stored is not None:
        kyoto.call("set", key="n", value=stored)
    assert kyoto.call("increment_double", key="n", num=num, orig=orig) == answer
    assert kyoto.value("n") == left


@pytest.mark.parametrize("stored", [b"", b"1.5", word(1), b"x" * 15, b"x" * 17])
def test_increment_double_of_a_value_that_is_no_number(kyoto, stored):
    """The procedure fails and changes nothing."""
    kyoto.call("set", key="n", value=stored)
    assert kyoto.call("increment_double", key="n", num="1") == NO_NUMBER
    assert kyoto.value("n") == stored


@pytest.mark.parametrize(
    "stored, rows, answer, left",
    [
        (b"a", {"oval": "a", "nval": "b"}, ok(), b"b"), (b"a", {"oval": "x", "nval": "b"}, CONFLICT, b"a"),
        (None, {"oval": "a", "nval": "b"}, CONFLICT, None), (None, {"nval": "b"}, ok(), b"b"), (b"a", {"nval": "b"}, CONFLICT, b"a"),
        (b"a", {"oval": "a"}, ok(), None), (b"a", {"oval": "x"}, CONFLICT, b"a"), (None, {"oval": "a"}, CONFLICT, None),
        (None, {}, ok(), None), (b"a", {}, CONFLICT, b"a"), (b"", {"oval": "", "nval": "b"}, ok(), b"b"),
        (None, {"oval": "", "nval": "b"}, CONFLICT, None), (b"a", {"oval": "a", "nval": ""}, ok(), b""),
        (BINARY, {"oval": BINARY, "nval": "b"}, ok(), b"b"), (b"ab", {"oval": "a", "nval": "b"}, CONFLICT, b"ab"),
    ],
)
def test_cas(kyoto, database, stored, rows, answer, left):
    """Compares with the expected value and stores the new one; a missing input stands for no record."""
    if stored is not None:
        kyoto.call("set", DB=database, key="k", value=stored)
    assert kyoto.call("cas", rows, DB=database, key="k") == answer
    assert kyoto.value("k", DB=database) == left


def test_remove(kyoto, any_database):
    """Fails if there is no record."""
    kyoto.call("set", DB=any_database, key="k", value="v")
    assert kyoto.call("remove", DB=any_database, key="k") == ok()
    assert kyoto.call("remove", DB=any_database, key="k") == NO_RECORD
    assert kyoto.count(any_database) == 0


def test_get(kyoto, any_database):
    """A record without an expiry has no `xt`."""
    assert kyoto.call("get", DB=any_database, key="k") == NO_RECORD
    kyoto.call("set", DB=any_database, key="k", value="v")
    assert kyoto.call("get", DB=any_database, key="k") == ok(value="v")


def test_check(kyoto, any_database):
    """The length of the value."""
    assert kyoto.call("check", DB=any_database, key="k") == NO_RECORD
    for value in (b"", b"\0\1", b"x" * 70_000):
        kyoto.call("set", DB=any_database, key="k", value=value)
        assert kyoto.call("check", DB=any_database, key="k") == ok(vsiz=len(value))


def test_seize(kyoto, any_database):
    """Reads and removes in one step."""
    kyoto.call("set", DB=any_database, key="k", value="v")
    assert kyoto.call("seize", DB=any_database, key="k") == ok(value="v")
    assert kyoto.call("seize", DB=any_database, key="k") == NO_RECORD


# --- several records


@pytest.mark.parametrize("atomic", [{}, {"atomic": ""}], ids=["one by one", "atomic"])
def test_set_bulk(kyoto, any_database, atomic):
    """Names begin with an underscore; other inputs are ignored."""
    answer = kyoto.call("set_bulk", {b"_a": b"1", b"__b": b"2", b"_": b"empty key", b"_\0": BINARY, b"x": b"no"}, DB=any_database, **atomic)
    assert answer == ok(num=4)
    assert kyoto.count(any_database) == 4
    for key, value in ((b"a", b"1"), (b"_b", b"2"), (b"", b"empty key"), (b"\0", BINARY)):
        assert kyoto.value(key, DB=any_database) == value


@pytest.mark.parametrize("atomic", [{}, {"atomic": ""}], ids=["one by one", "atomic"])
def test_remove_bulk(kyoto, any_database, atomic):
    """Returns the number of records removed."""
    kyoto.call("set_bulk", {"_a": 1, "_b": 2, "_c": 3}, DB=any_database)
    assert kyoto.call("remove_bulk", {"_a": "", "_c": "", "_none": ""}, DB=any_database, **atomic) == ok(num=2)
    assert kyoto.call("get_bulk", {"_a": "", "_b": "", "_c": ""}, DB=any_database) == ok({"_b": 2, "num": 1})


@pytest.mark.parametrize("atomic", [{}, {"atomic": ""}], ids=["one by one", "atomic"])
def test_get_bulk(kyoto, any_database, atomic):
    """Returns the records and their number, without expiry times."""
    kyoto.call("set_bulk", {"_a": 1, "_b": BINARY}, DB=any_database, xt=100)
    assert kyoto.call("get_bulk", {"_a": "", "_none": "", "_b": ""}, DB=any_database, **atomic) == ok({"_a": 1, "_b": BINARY, "num": 2})


@pytest.mark.parametrize("procedure", ["set_bulk", "remove_bulk", "get_bulk"])
@pytest.mark.parametrize("rows", [{}, {"x": "1", "key": "2"}, {"atomic": ""}])
def test_bulk_without_records(kyoto, procedure, rows):
    """The number is 0."""
    assert kyoto.call(procedure, rows) == ok(num=0)


def test_bulk_of_thousands(kyoto, database):
    """Maps with many rows."""
    rows = {b"_%05d" % i: b"%d" % i for i in range(3000)}
    assert kyoto.call("set_bulk", rows, DB=database, atomic="") == ok(num=3000)
    assert kyoto.call("get_bulk", dict.fromkeys(rows, b""), DB=database, atomic="") == ok({**rows, b"num": b"3000"})
    assert kyoto.call("remove_bulk", dict.fromkeys(rows, b""), DB=database) == ok(num=3000)


# --- matching; the suites of cursors and of matching have more


def test_match_prefix(kyoto, database):
    """Returns keys and their ranks."""
    kyoto.call("set_bulk", {"_ab": 1, "_b": 2}, DB=database)
    assert kyoto.call("match_prefix", DB=database, prefix="a") == matches("ab")


def test_match_regex(kyoto, database):
    """Returns the keys that match, or an error."""
    kyoto.call("set_bulk", {"_ab": 1, "_b": 2}, DB=database)
    assert kyoto.call("match_regex", DB=database, regex="^a") == matches("ab")
    assert kyoto.call("match_regex", DB=database, regex="(") == BAD_EXPRESSION


def test_match_similar(kyoto, database):
    """Returns the keys within a distance."""
    kyoto.call("set_bulk", {"_ab": 1, "_b": 2, "_xyz": 3}, DB=database)
    assert kyoto.call("match_similar", DB=database, origin="ab") == matches("ab", "b")


# --- cursors


@pytest.fixture
def cursor(kyoto, database):
    """A connection with cursor 1 at the first of three records."""
    kyoto.call("set_bulk", {"_a": 1, "_b": 2, "_c": 3}, DB=database)
    assert kyoto.call("cur_jump", CUR=1, DB=database) == ok()
    return kyoto


def test_cur_jump(kyoto, database):
    """Jumps to the first record, or to a key."""
    assert kyoto.call("cur_jump", CUR=1, DB=database) == NO_RECORD
    kyoto.call("set", DB=database, key="k", value="v")
    for key in ({}, {"key": "k"}):
        assert kyoto.call("cur_jump", key, CUR=1, DB=database) == ok()
        assert kyoto.call("cur_get", CUR=1) == ok(key="k", value="v")
    assert kyoto.call("cur_jump", CUR=1, DB=database, key="x") == NO_RECORD


def test_cur_jump_back(kyoto, database):
    """Jumps to the last record, or back to a key; only in ordered databases."""
    kyoto.call("set_bulk", {"_a": 1, "_c": 3}, DB=database)
    if database == HASH:
        assert kyoto.call("cur_jump_back", CUR=1, DB=database) == NOT_ORDERED
        return
    for key, at in (({}, "c"), ({"key": "b"}, "a"), ({"key": "c"}, "c"), ({"key": "z"}, "c")):
        assert kyoto.call("cur_jump_back", key, CUR=1, DB=database) == ok()
        assert kyoto.call("cur_get_key", CUR=1) == ok(key=at)
    assert kyoto.call("cur_jump_back", CUR=1, key="0") == NO_RECORD


def test_cur_step(cursor):
    """Steps to the next record until there is none."""
    assert [cursor.call("cur_step", CUR=1) for _ in range(4)] == [ok(), ok(), NO_RECORD, NO_RECORD]


def test_cur_step_back(cursor, database):
    """Steps to the previous record; only in ordered databases."""
    if database == HASH:
        assert cursor.call("cur_step_back", CUR=1) == NOT_ORDERED
        return
    cursor.call("cur_step", CUR=1)
    assert cursor.call("cur_step_back", CUR=1) == ok()
    assert cursor.call("cur_get_key", CUR=1) == ok(key="a")
    assert cursor.call("cur_step_back", CUR=1) == NO_RECORD


def test_cur_set_value(cursor, database):
    """Stores at the cursor, and moves it with `step`."""
    key = cursor.done("cur_get_key", CUR=1)["key"]
    assert cursor.call("cur_set_value", CUR=1, value="new") == ok()
    assert cursor.call("cur_get", CUR=1) == ok(key=key, value="new")
    assert cursor.call("cur_set_value", CUR=1, value="newer", step="") == ok()
    assert cursor.value(key, DB=database) == b"newer"
    assert cursor.done("cur_get_key", CUR=1)["key"] != key


def test_cur_remove(cursor, database):
    """Removes the record; the cursor is at the next one."""
    seen = []
    while (answer := cursor.call("cur_get_key", CUR=1)) != NO_RECORD:
        seen.append(answer.rows[b"key"])
        assert cursor.call("cur_remove", CUR=1) == ok()
    assert sorted(seen) == [b"a", b"b", b"c"]
    assert cursor.call("cur_remove", CUR=1) == NO_RECORD
    assert cursor.count(database) == 0


@pytest.mark.parametrize("procedure, columns", [("cur_get_key", {b"key"}), ("cur_get_value", {b"value"}), ("cur_get", {b"key", b"value"})])
def test_cur_get(cursor, procedure, columns):
    """Returns key, value or both, and moves with `step`."""
    first = cursor.call(procedure, CUR=1)
    assert first.status == 200 and set(first.rows) == columns
    assert cursor.call(procedure, CUR=1, step="") == first
    seen = [first] + [cursor.call(procedure, CUR=1, step="") for _ in range(2)]
    assert len({answer.rows[next(iter(columns))] for answer in seen}) == 3
    assert cursor.call(procedure, CUR=1, step="") == NO_RECORD


def test_cur_seize(cursor, database):
    """Returns the record, removes it and moves on."""
    seen = [cursor.call("cur_seize", CUR=1) for _ in range(3)]
    assert sorted((answer.rows[b"key"], answer.rows[b"value"]) for answer in seen) == [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    assert cursor.call("cur_seize", CUR=1) == NO_RECORD
    assert cursor.count(database) == 0


def test_cur_delete(cursor):
    """Deletes an existing cursor."""
    assert cursor.call("cur_delete", CUR=1) == ok()
    assert cursor.call("cur_get", CUR=1) == NO_RECORD


# --- missing inputs


@pytest.mark.parametrize(
    "procedure, rows",
    [
        ("set", {"key": "k"}), ("set", {"value": "v"}), ("set", {}), ("add", {"key": "k"}), ("replace", {"key": "k"}),
        ("append", {"key": "k"}), ("increment", {"key": "k"}), ("increment", {"num": "1"}), ("increment_double", {"key": "k"}),
        ("cas", {"oval": "a", "nval": "b"}), ("remove", {}), ("get", {}), ("check", {}), ("seize", {}), ("match_prefix", {}),
        ("match_regex", {}), ("match_similar", {}), ("cur_set_value", {"CUR": "1"}),
    ],
)
def test_missing_inputs(kyoto, procedure, rows):
    """A missing input is an error."""
    assert kyoto.call(procedure, rows) == INVALID


@pytest.mark.parametrize(
    "procedure",
    "cur_jump cur_jump_back cur_step cur_step_back cur_set_value cur_remove cur_get_key cur_get_value cur_get cur_seize".split(),
)
def test_a_missing_cursor(kyoto, procedure):
    """A missing cursor is an error."""
    assert kyoto.call(procedure, value="v") == NO_CURSOR


@pytest.mark.parametrize(
    "procedure",
    "status clear synchronize set add replace append increment increment_double cas remove get check seize set_bulk "
    "remove_bulk get_bulk vacuum match_prefix match_regex match_similar".split(),
)
@pytest.mark.parametrize("database_id", ["none", "7", "999999999999999999999999", "-1"])
def test_an_unknown_database(kyoto, procedure, database_id):
    """It is an error of every procedure that uses a database."""
    rows = dict.fromkeys(["key", "value", "num", "prefix", "regex", "origin"], "1")
    assert kyoto.call(procedure, rows, DB=database_id) == NO_DATABASE


def test_the_order_of_common_inputs_does_not_matter(kyoto):
    """DB may be anywhere, including the query."""
    kyoto.send(http("POST", "/rpc/set?DB=1&key=a&value=b"))
    assert kyoto.answer() == ok()
    assert (kyoto.value("a"), kyoto.value("a", DB=1)) == (None, b"b")
