"""Sections 2.4 and 2.8: cursors and their databases, order and direction."""

import random

import pytest

from fixtures import DECIMAL, HASH, PROTO_TREE, TREE
from kyoto_wire import NO_RECORD, failed, ok

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

ORDERED = pytest.mark.parametrize("tree", [TREE, PROTO_TREE], ids=["%", "+"])


def fill(kyoto, database, keys="abcde"):
    """Records whose value is the key."""
    kyoto.call("set_bulk", {"_" + key: key for key in keys}, DB=database)


def at(kyoto, cursor=1):
    """The key at a cursor."""
    answer = kyoto.call("cur_get_key", CUR=cursor)
    return None if answer == NO_RECORD else answer.rows[b"key"].decode()


# --- order


def test_all_keys_once(kyoto, any_database):
    """A walk returns each key once, in any database."""
    fill(kyoto, any_database, [f"k{i}" for i in range(500)])
    keys = kyoto.keys_by_cursor(DB=any_database)
    assert sorted(keys) == sorted(b"k%d" % i for i in range(500))


@ORDERED
def test_ordered_by_bytes(kyoto, tree):
    """Bytes are unsigned, and a shorter key comes before a longer one."""
    chance = random.Random(1)
    keys = {chance.randbytes(chance.randrange(5)) for _ in range(300)} | {b"", b"\0", b"\0\0", b"\xff", b"\x7f", b"\x80"}
    for key in keys:
        kyoto.call("set", DB=tree, key=key, value="v")
    assert kyoto.keys_by_cursor(DB=tree) == sorted(keys)


def test_ordered_by_number(kyoto):
    """rcomp=dec."""
    fill(kyoto, DECIMAL, ["100", "20", "3", "-7", "1000"])
    assert kyoto.keys_by_cursor(DB=DECIMAL) == [b"-7", b"3", b"20", b"100", b"1000"]


@ORDERED
def test_backwards(kyoto, tree):
    """The same in reverse order."""
    fill(kyoto, tree)
    kyoto.call("cur_jump_back", CUR=1, DB=tree)
    seen = [at(kyoto)]
    while kyoto.call("cur_step_back", CUR=1) == ok():
        seen.append(at(kyoto))
    assert seen == list("edcba")


# --- jumps


@ORDERED
@pytest.mark.parametrize("key, first", [("", "b"), ("a", "b"), ("b", "b"), ("c", "d"), ("d", "d"), ("e", None)])
def test_a_jump_lands_on_the_first_key_from_there(kyoto, tree, key, first):
    """The first key that is greater or equal."""
    fill(kyoto, tree, "bd")
    assert kyoto.call("cur_jump", CUR=1, DB=tree, key=key) == (ok() if first else NO_RECORD)
    assert at(kyoto) == first


@ORDERED
@pytest.mark.parametrize("key, last", [("", None), ("a", None), ("b", "b"), ("c", "b"), ("d", "d"), ("e", "d")])
def test_a_jump_back_lands_on_the_last_key_up_to_there(kyoto, tree, key, last):
    """The last key that is less or equal."""
    fill(kyoto, tree, "bd")
    assert kyoto.call("cur_jump_back", CUR=1, DB=tree, key=key) == (ok() if last else NO_RECORD)
    assert at(kyoto) == last


def test_a_jump_in_an_unordered_database_is_exact(kyoto):
    """If the key does not exist, the jump fails."""
    fill(kyoto, HASH, "bd")
    assert kyoto.call("cur_jump", CUR=1, DB=HASH, key="b") == ok()
    assert at(kyoto) == "b"
    assert kyoto.call("cur_jump", CUR=1, DB=HASH, key="c") == NO_RECORD


def test_a_failed_jump_unsets_the_cursor(kyoto, database):
    """After a failed jump, the cursor has no position."""
    fill(kyoto, database)
    kyoto.call("cur_jump", CUR=1, DB=database)
    assert kyoto.call("cur_jump", CUR=1, DB=database, key="z") == NO_RECORD
    for procedure in ("cur_get", "cur_step", "cur_remove", "cur_seize", "cur_get_value"):
        assert kyoto.call(procedure, CUR=1) == NO_RECORD
    assert kyoto.count(database) == 5


def test_a_cursor_that_never_jumped(kyoto, database):
    """The cursor exists, but has no position."""
    fill(kyoto, database)
    assert kyoto.call("cur_get", CUR=1, DB=database) == NO_RECORD
    assert kyoto.call("cur_set_value", CUR=1, value="v") == NO_RECORD
    assert kyoto.call("cur_delete", CUR=1) == ok()


@ORDERED
def test_empty_and_binary_keys_can_be_jumped_to(kyoto, tree):
    """An empty key differs from a missing one."""
    for key in (b"", b"\0", b"\xff\xff"):
        kyoto.call("set", DB=tree, key=key, value=key)
    assert kyoto.call("cur_jump_back", CUR=1, DB=tree, key="") == ok()
    assert kyoto.call("cur_get", CUR=1) == ok(key="", value="")
    assert kyoto.call("cur_jump", CUR=1, DB=tree, key=b"\1") == ok()
    assert kyoto.call("cur_get_key", CUR=1) == ok(key=b"\xff\xff")


# --- direction


@ORDERED
def test_the_direction_stays(kyoto, tree):
    """After a jump or a step backward, `step` goes backward; after one forward, it goes forward."""
    fill(kyoto, tree)
    kyoto.call("cur_jump_back", CUR=1, DB=tree)
    assert [kyoto.done("cur_get_key", CUR=1, step="")["key"] for _ in range(2)] == [b"e", b"d"]
    assert kyoto.call("cur_step", CUR=1) == ok()
    assert [kyoto.done("cur_get_key", CUR=1, step="")["key"] for _ in range(2)] == [b"d", b"e"]
    kyoto.call("cur_jump", CUR=1, DB=tree, key="c")
    assert kyoto.call("cur_step_back", CUR=1) == ok()
    assert kyoto.done("cur_get", CUR=1, step="")["key"] == b"b"
    assert at(kyoto) == "a"
    kyoto.call("cur_set_value", CUR=1, value="v", step="")
    assert at(kyoto) is None


@pytest.mark.parametrize("value", ["", "0", "false"])
def test_step_counts_by_its_presence(kyoto, value):
    """The presence of `step` counts, not its value."""
    fill(kyoto, TREE, "ab")
    kyoto.call("cur_jump", CUR=1, DB=TREE)
    kyoto.call("cur_get", CUR=1, step=value)
    assert at(kyoto) == "b"


@ORDERED
def test_steps_past_the_ends(kyoto, tree):
    """A step past an end leaves the cursor without a position."""
    fill(kyoto, tree, "ab")
    kyoto.call("cur_jump", CUR=1, DB=tree, key="b")
    assert kyoto.call("cur_step", CUR=1) == NO_RECORD
    assert at(kyoto) is None
    kyoto.call("cur_jump", CUR=1, DB=tree)
    assert kyoto.call("cur_step_back", CUR=1) == NO_RECORD
    assert at(kyoto) is None


@ORDERED
def test_removal_goes_the_way_of_the_last_move(kyoto, tree):
    """After a jump back to c, removals return b, then a, then nothing."""
    fill(kyoto, tree)
    kyoto.call("cur_jump_back", CUR=1, DB=tree, key="c")
    assert kyoto.call("cur_remove", CUR=1) == ok()
    assert at(kyoto) == "b"
    assert kyoto.done("cur_seize", CUR=1)["key"] == b"b"
    assert at(kyoto) == "a"
    assert kyoto.call("cur_remove", CUR=1) == ok()
    assert at(kyoto) is None
    assert kyoto.keys_by_cursor(DB=tree) == [b"d", b"e"]


@ORDERED
def test_listing_backwards_with_removal(kyoto, tree):
    """The sequence of `ktremotemgr list -des -rm`."""
    fill(kyoto, tree)
    kyoto.call("cur_jump_back", CUR=1, DB=tree)
    seen = []
    while (answer := kyoto.call("cur_seize", CUR=1)) != NO_RECORD:
        seen.append(answer.rows[b"key"].decode())
    assert seen == list("edcba")


# --- others change the database


def test_a_record_that_others_remove(connect, database):
    """The cursor moves to the following record."""
    kyoto, other = connect.kyoto(), connect.kyoto()
    fill(kyoto, database)
    order = [key.decode() for key in kyoto.keys_by_cursor(DB=database)]
    kyoto.call("cur_jump", CUR=1, DB=database, key=order[1])
    other.call("remove", DB=database, key=order[1])
    assert at(kyoto) == order[2]


@ORDERED
@pytest.mark.parametrize("jump, way", [("cur_jump", list("abcdefgh")), ("cur_jump_back", list("hgfedcba"))])
def test_a_walk_during_removals_never_turns(connect, tree, jump, way):
    """Other clients remove the record at the cursor, and one that it has passed."""
    kyoto, other = connect.kyoto(), connect.kyoto()
    fill(kyoto, tree, way)
    kyoto.call(jump, CUR=1, DB=tree)
    seen = []
    while (answer := kyoto.call("cur_get_key", CUR=1, step="")) != NO_RECORD:
        seen.append(answer.rows[b"key"].decode())
        beside = way[way.index(seen[-1]) + 1 :][:1]
        if len(seen) % 2:
            for key in beside:
                other.call("remove", DB=tree, key=key)
    assert seen == [key for key in way if key in seen]
    assert seen == way[:1] + way[2:3] + way[3:4] + way[5:6] + way[6:7]


def test_a_removed_record_that_comes_back(connect):
    """The cursor is at the next record, unless the record is stored again before the cursor is used."""
    kyoto, other = connect.kyoto(), connect.kyoto()
    fill(kyoto, TREE, "ac")
    kyoto.call("cur_jump", CUR=1, DB=TREE, key="a")
    other.call("remove", DB=TREE, key="a")
    assert at(kyoto) == "c"
    other.call("set", DB=TREE, key="a", value="v")
    assert at(kyoto) == "c"


def test_clear_unsets_cursors(connect, database):
    """This includes the cursors of other connections."""
    kyoto, other = connect.kyoto(), connect.kyoto()
    fill(kyoto, database)
    kyoto.call("cur_jump", CUR=1, DB=database)
    other.call("clear", DB=database)
    fill(other, database)
    assert kyoto.call("cur_step", CUR=1).status in (200, 450)
    assert kyoto.call("cur_jump", CUR=1, DB=database) == ok()
    assert at(kyoto) is not None


@ORDERED
def test_keys_added_ahead_are_seen(connect, tree):
    """Keys that are added behind the cursor are not seen."""
    kyoto, other = connect.kyoto(), connect.kyoto()
    fill(kyoto, tree, "bd")
    kyoto.call("cur_jump", CUR=1, DB=tree)
    fill(other, tree, "ac")
    seen = []
    while (key := at(kyoto)) is not None:
        seen.append(key)
        kyoto.call("cur_step", CUR=1)
    assert seen == ["b", "c", "d"]


def test_a_walk_during_writes_sees_stable_records_once(connect, database):
    """A walk returns each stable record once while other records change."""
    kyoto, other = connect.kyoto(), connect.kyoto()
    fill(kyoto, database, [f"stays{i:03}" for i in range(200)])
    kyoto.call("cur_jump", CUR=1, DB=database)
    seen = []
    while (answer := kyoto.call("cur_get_key", CUR=1, step="")) != NO_RECORD:
        seen.append(answer.rows[b"key"])
        number = len(seen)
        other.call("set", DB=database, key=f"stays{number * 7 % 200:03}x", value="v")
        other.call("remove", DB=database, key=f"stays{number * 3 % 200:03}x")
    stayed = [key for key in seen if not key.endswith(b"x")]
    assert sorted(stayed) == [b"stays%03d" % i for i in range(200)]
    assert len(stayed) == 200


# --- names of cursors


@pytest.mark.parametrize("number", [0, 1, 2**32, 2**63 - 1])
def test_numbers_of_cursors(kyoto, database, number):
    """Any number from 0 to 2^63 - 1 names a cursor."""
    fill(kyoto, database)
    assert kyoto.call("cur_jump", CUR=number, DB=database) == ok()
    assert at(kyoto, number) is not None


@pytest.mark.parametrize("number", ["-1", ""])
def test_names_that_are_not_numbers(kyoto, number):
    """Other texts do not name a cursor."""
    assert kyoto.call("cur_jump", CUR=number).status in (400, 450)


def test_cursors_belong_to_their_connection(connect, database):
    """The same number on another connection is another cursor."""
    kyoto, other = connect.kyoto(), connect.kyoto()
    fill(kyoto, database)
    kyoto.call("cur_jump", CUR=1, DB=database)
    assert other.call("cur_get", CUR=1, DB=database) == NO_RECORD


def test_a_cursor_keeps_its_database(kyoto):
    """DB only matters in the request that creates the cursor."""
    fill(kyoto, TREE, "t")
    fill(kyoto, HASH, "h")
    kyoto.call("cur_jump", CUR=1, DB=TREE)
    assert kyoto.call("cur_jump", CUR=1, DB=HASH) == ok()
    assert at(kyoto) == "t"


def test_any_request_makes_a_cursor(kyoto):
    """The cursor belongs to the database of the request."""
    fill(kyoto, TREE, "t")
    assert kyoto.call("void", CUR=5, DB=TREE) == ok()
    assert kyoto.call("cur_jump", CUR=5) == ok()
    assert at(kyoto, 5) == "t"


def test_several_cursors(kyoto, database):
    """Cursors move independently."""
    fill(kyoto, database)
    for number in range(20):
        kyoto.call("cur_jump", CUR=number, DB=database)
        for _ in range(number % 5):
            kyoto.call("cur_step", CUR=number)
    order = [key.decode() for key in kyoto.keys_by_cursor(DB=database)]
    assert [at(kyoto, number) for number in range(20)] == order * 4


def test_a_deleted_cursor_is_made_anew(kyoto, database):
    """The next request with its number creates it, in that request's database."""
    fill(kyoto, database)
    kyoto.call("cur_jump", CUR=1, DB=database)
    kyoto.call("cur_delete", CUR=1)
    assert kyoto.call("cur_get", CUR=1, DB=database) == NO_RECORD


def test_deleting_an_unknown_cursor(kyoto):
    """The answer is that of ktserver, not that of its documentation."""
    assert kyoto.call("cur_delete", CUR=77) == failed(501, "not implemented: cur_delete")


def test_a_cursor_of_no_database(kyoto):
    """The cursor cannot be created."""
    assert kyoto.call("cur_jump", CUR=1, DB="none").status == 400
