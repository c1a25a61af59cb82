"""Section 2.6: the expiry of records.

A time is a whole second, and a record exists until its end. Tests that need time to pass share one wait: `passed`
writes records, reads them, waits until the last of them has expired, and reads them again.
"""

import time

import pytest

from fixtures import HASH, PERSISTENT, TREE
from kyoto_wire import DUPLICATE, NEVER, NO_RECORD, Kyoto, http, matches, ok
from wire import Resp

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

# To do something within a second, on a machine that may be slow.
ATTEMPTS = 100


def now():
    """The present second; the server may have read its clock in the one before."""
    return int(time.time())


@pytest.fixture(autouse=True)
def began():
    """The time at which the test began."""
    global BEGAN_S
    BEGAN_S = time.time()


def assert_near(xt, expected):
    """Checks a second, with a tolerance of the one before it and the duration of the test so far."""
    assert xt is not None and expected - 1 - (time.time() - BEGAN_S) <= xt <= expected


# --- the meaning of xt


@pytest.mark.parametrize(
    "given, seconds", [("100", 100), ("+100", 100), (" 100", 100), ("100x", 100), ("0100", 100), ("1000000", 1_000_000), ("99.9", 99)]
)
def test_seconds_from_now(kyoto, database, given, seconds):
    """Numbers are parsed leniently; the answer is the second since 1970."""
    kyoto.call("set", DB=database, key="k", value="v", xt=given)
    assert_near(kyoto.xt("k", DB=database), now() + seconds)


def test_a_negative_time_is_a_second_since_1970(kyoto, database):
    """The answer has no sign."""
    at = now() + 1000
    kyoto.call("set", DB=database, key="k", value="v", xt=-at)
    assert kyoto.call("get", DB=database, key="k") == ok(value="v", xt=at)
    assert kyoto.call("check", DB=database, key="k") == ok(vsiz=1, xt=at)
    assert kyoto.call("seize", DB=database, key="k") == ok(value="v", xt=at)


def test_a_time_that_has_passed(kyoto, database):
    """The write succeeds, and no client sees the record."""
    assert kyoto.call("set", DB=database, key="k", value="v", xt=-1) == ok()
    assert kyoto.call("get", DB=database, key="k") == NO_RECORD


@pytest.mark.parametrize("xt", [NEVER, NEVER + 1, (1 << 63) - 1, -NEVER, -(1 << 63), "9" * 30, NEVER - 1])
def test_times_that_are_never(kyoto, database, xt):
    """From 2^40 - 1 on, no time is returned."""
    kyoto.call("set", DB=database, key="k", value="v", xt=xt)
    assert kyoto.call("get", DB=database, key="k") == ok(value="v")


def test_the_last_second_before_never(kyoto, database):
    """It is returned like any other time."""
    kyoto.call("set", DB=database, key="k", value="v", xt=-(NEVER - 1))
    assert kyoto.xt("k", DB=database) == NEVER - 1


@pytest.mark.parametrize("xt", ["", "x", "0", "-0", "-"])
def test_text_that_is_not_a_number_is_now(kyoto, database, xt):
    """The record exists until the end of this second."""
    for _ in range(ATTEMPTS):
        second = now()
        kyoto.call("set", DB=database, key="k", value="v", xt=xt)
        answer = kyoto.call("get", DB=database, key="k")
        if now() == second:
            break
    assert answer == ok(value="v", xt=second)


def test_databases_without_expiry(kyoto):
    """With ktopts=p, the server ignores xt."""
    for xt in (100, -1, 0):
        kyoto.call("set", DB=PERSISTENT, key="k", value="v", xt=xt)
        assert kyoto.call("get", DB=PERSISTENT, key="k") == ok(value="v")
    kyoto.call("increment", DB=PERSISTENT, key="n", num=1, xt=-1)
    assert kyoto.call("check", DB=PERSISTENT, key="n") == ok(vsiz=8)


# --- writes replace the time


WRITES = {
    "set": {"value": "w"}, "replace": {"value": "w"}, "append": {"value": "w"}, "increment": {"num": "1"}, "increment_double": {"num": "1"},
    "cas": {"oval": None, "nval": "w"}, "cur_set_value": {"CUR": "1", "value": "w"},
}
NUMBERS = {"increment": bytes(8), "increment_double": bytes(16)}


def write(kyoto, database, procedure, **more):
    """Stores a record that lives for 1000 s, then writes it again."""
    stored = NUMBERS.get(procedure, b"v")
    kyoto.call("set", DB=database, key="k", value=stored, xt=1000)
    kyoto.call("cur_jump", DB=database, CUR=1, key="k")
    rows = {name: stored if value is None else value for name, value in WRITES[procedure].items()}
    assert kyoto.call(procedure, rows, DB=database, key="k", **more).status == 200


@pytest.mark.parametrize("procedure", WRITES)
def test_a_write_without_a_time_is_for_ever(kyoto, database, procedure):
    """A write without xt removes the expiry."""
    write(kyoto, database, procedure)
    assert kyoto.xt("k", DB=database) is None


@pytest.mark.parametrize("procedure", WRITES)
def test_a_write_brings_its_time(kyoto, database, procedure):
    """A write with xt replaces the expiry."""
    write(kyoto, database, procedure, xt=100)
    assert_near(kyoto.xt("k", DB=database), now() + 100)


@pytest.mark.parametrize("procedure", ["add", "append", "increment", "increment_double", "cas"])
def test_a_write_that_makes_a_record_brings_its_time(kyoto, database, procedure):
    """Writes that create a record set its expiry, as `set` does."""
    kyoto.call(procedure, {"key": "k", "value": "v", "nval": "v", "num": "1"}, DB=database, xt=100)
    assert_near(kyoto.xt("k", DB=database), now() + 100)


@pytest.mark.parametrize("atomic", [{}, {"atomic": ""}], ids=["one by one", "atomic"])
def test_bulk_writes_have_one_time_for_all(kyoto, database, atomic):
    """Without xt, a bulk write removes the expiry of all records."""
    kyoto.call("set_bulk", {"_a": 1, "_b": 2}, DB=database, xt=100, **atomic)
    assert_near(kyoto.xt("a", DB=database), now() + 100)
    assert_near(kyoto.xt("b", DB=database), now() + 100)
    kyoto.call("set_bulk", {"_a": 1}, DB=database, **atomic)
    assert kyoto.xt("a", DB=database) is None


@pytest.mark.parametrize("procedure", ["add", "cas", "increment"])
def test_a_write_that_fails_leaves_the_time(kyoto, database, procedure):
    """A failed write changes neither the value nor the expiry."""
    at = now() + 1000
    kyoto.call("set", DB=database, key="k", value="v", xt=-at)
    assert kyoto.call(procedure, {"key": "k", "value": "w", "oval": "x", "nval": "w", "num": "1"}, DB=database, xt=5).status == 450
    assert kyoto.call("get", DB=database, key="k") == ok(value="v", xt=at)


def test_adding_nothing_reads_a_counter(kyoto, database):
    """num=0: neither the value nor the time changes."""
    at = now() + 1000
    kyoto.call("increment", DB=database, key="n", num=7, xt=-at)
    assert kyoto.call("increment", DB=database, key="n", num=0, xt=5) == ok(num=7)
    assert kyoto.xt("n", DB=database) == at


def test_reads_return_the_time(kyoto, database):
    """Cursors and the binary protocol return it; bulk reads do not."""
    at = now() + 1000
    kyoto.call("set", DB=database, key="k", value="v", xt=-at)
    kyoto.call("cur_jump", CUR=1, DB=database)
    assert kyoto.call("cur_get", CUR=1) == ok(key="k", value="v", xt=at)
    assert kyoto.call("cur_get_key", CUR=1) == ok(key="k")
    assert kyoto.call("cur_get_value", CUR=1) == ok(value="v")
    assert kyoto.get_bulk((database, b"k")) == [(database, b"k", b"v", at)]
    assert kyoto.call("get_bulk", {"_k": ""}, DB=database) == ok({"_k": "v", "num": 1})
    assert kyoto.call("cur_seize", CUR=1) == ok(key="k", value="v", xt=at)


# --- time passes


class Passed:
    """The observations before and after the records had expired."""

    def __init__(self, kyoto):
        self.kyoto = kyoto
        for _ in range(ATTEMPTS):
            self.second = now()
            for database in (HASH, TREE):
                self._write(database)
            kyoto.call("set", DB=PERSISTENT, key="k", value="v", xt=1)
            self.late_in_this_second = self._look(0.8)
            if now() != self.second:
                continue
            self.in_the_next_second = self._look(1.05)
            if now() == self.second + 1:
                break
        self.in_the_second_after = self._look(2.1)

    def _look(self, after_s):
        """Reads the records at a time after their second began; on a slow machine, it may have ended."""
        time.sleep(max(0, self.second + after_s - time.time()))
        return {n: [self.kyoto.value(key, DB=n) for key in ("zero", "one")] for n in (HASH, TREE)}

    def _write(self, database):
        call = self.kyoto.call
        call("set", DB=database, key="zero", value="v", xt=0)
        call("set", DB=database, key="one", value="v", xt=1)
        call("set", DB=database, key="stays", value="v")
        for key in ("to add", "to replace", "to append", "to count", "to cas", "to remove", "to seize", "to check"):
            call("set", DB=database, key=key, value=bytes(8), xt=1)
        call("set", DB=database, key="at the cursor", value="v", xt=1)
        call("cur_jump", DB=database, CUR=10 + database, key="at the cursor")


@pytest.fixture(scope="module")
def passed(server):
    """Records that have expired since they were written."""
    with Resp(server.resp) as resp:
        resp.call("FLUSHALL")
    with Kyoto(server.kyoto) as kyoto:
        yield Passed(kyoto)


@pytest.fixture(params=[HASH, TREE], ids=["hash", "tree"])
def number(request):
    """A database, which is not emptied first."""
    return request.param


def test_records_live_to_the_end_of_their_second(passed, number):
    """0 is the present second, 1 the next one."""
    assert passed.late_in_this_second[number] == [b"v", b"v"]
    assert passed.in_the_next_second[number] == [None, b"v"]
    assert passed.in_the_second_after[number] == [None, None]


@pytest.mark.parametrize(
    "procedure, key, rows, answer",
    [
        ("add", "to add", {"value": "w"}, ok()),
        ("replace", "to replace", {"value": "w"}, NO_RECORD),
        ("remove", "to remove", {}, NO_RECORD),
        ("seize", "to seize", {}, NO_RECORD),
        ("check", "to check", {}, NO_RECORD),
        ("increment", "to count", {"num": "3"}, ok(num=3)),
        ("cas", "to cas", {"nval": "w"}, ok()),
    ],
)
def test_expired_records_are_absent(passed, number, procedure, key, rows, answer):
    """No procedure sees them."""
    assert passed.kyoto.call(procedure, rows, DB=number, key=key) == answer


def test_append_begins_anew_if_a_record_has_expired(passed, number):
    """The new value does not include the old one."""
    passed.kyoto.call("append", DB=number, key="to append", value="w")
    assert passed.kyoto.value("to append", DB=number) == b"w"


def test_expired_records_are_absent_to_bulk_reads(passed, number):
    """Over HTTP and in the binary protocol."""
    assert passed.kyoto.call("get_bulk", {"_one": "", "_stays": ""}, DB=number) == ok({"_stays": "v", "num": 1})
    assert passed.kyoto.get_bulk((number, b"one")) == []


def test_cursors_pass_over_expired_records(passed, number):
    """A cursor skips expired records, even the one at its position."""
    keys = passed.kyoto.keys_by_cursor(DB=number)
    assert b"stays" in keys and b"one" not in keys and b"zero" not in keys
    if number == TREE:
        # The next key after "at the cursor" that has not expired.
        assert passed.kyoto.call("cur_get_key", CUR=10 + number).rows[b"key"] > b"at the cursor"


def test_expired_records_are_absent_to_rest(passed, number):
    """GET returns 404."""
    passed.kyoto.send(http("GET", f"/{number}/one"))
    assert passed.kyoto.response().status == 404


@pytest.mark.parametrize(
    "procedure, rows", [("match_prefix", {"prefix": "one"}), ("match_regex", {"regex": "^one$"}), ("match_similar", {"origin": "one"})]
)
def test_searches_pass_over_expired_records(passed, number, procedure, rows):
    """Searches skip expired records that are not yet removed; ktserver returns those."""
    assert passed.kyoto.call(procedure, rows, DB=number) == matches()


def test_nothing_expires_in_a_database_without_expiry(passed):
    """ktopts=p."""
    assert passed.kyoto.value("k", DB=PERSISTENT) == b"v"


def test_an_expired_record_can_be_added(kyoto, database):
    """A record cannot be added while it exists."""
    kyoto.call("set", DB=database, key="k", value="v", xt=100)
    assert kyoto.call("add", DB=database, key="k", value="w") == DUPLICATE
    kyoto.call("set", DB=database, key="k", value="v", xt=-1)
    assert kyoto.call("add", DB=database, key="k", value="w") == ok()
