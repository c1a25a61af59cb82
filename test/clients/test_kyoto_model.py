"""Random procedures against a model that uses a dictionary."""

import random
import struct
import time

import pytest

from fixtures import DECIMAL, HASH, PERSISTENT, PROTO_TREE, TREE
from kyoto_wire import CONFLICT, DUPLICATE, INT64_MAX, NEVER, NO_NUMBER, NO_RECORD, ok

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

STEPS = 1500
KEYS = [b"", b"a", b"ab", b"b", b"\0", b"\xff", b"\xff\xff", b"a b", b"10", b"9", b"-3", b"k" * 300, b"n1", b"n2", b"n3"]
LATE = int(time.time()) + 100_000


class Model:
    """Records as (value, xt); xt is None for no expiry."""

    def __init__(self, persistent):
        self.persistent = persistent
        self.records = {}

    def put(self, key, value, xt):
        """Stores a record with the expiry of the write."""
        self.records[key] = (value, None if self.persistent else xt)
        return ok()

    def add(self, key, value, xt):
        """Stores only if there is no record."""
        return DUPLICATE if key in self.records else self.put(key, value, xt)

    def replace(self, key, value, xt):
        """Stores only if there is a record."""
        return self.put(key, value, xt) if key in self.records else NO_RECORD

    def append(self, key, value, xt):
        """Appends to the value."""
        return self.put(key, self.records.get(key, (b"",))[0] + value, xt)

    def increment(self, key, num, xt):
        """Adds to a number of eight bytes."""
        old = self.records.get(key, (bytes(8),))[0]
        if len(old) != 8:
            return NO_NUMBER
        if num == 0 and key in self.records:
            return ok(num=struct.unpack(">q", old)[0])
        new = struct.unpack(">q", old)[0] + num
        new = (new + (1 << 63)) % (1 << 64) - (1 << 63)
        self.put(key, struct.pack(">q", new), xt)
        return NO_NUMBER if new == -(1 << 63) else ok(num=new)

    def cas(self, key, old, new, xt):
        """Compares, then stores or removes."""
        if self.records.get(key, (None,))[0] != old:
            return CONFLICT
        if new is None:
            self.records.pop(key, None)
            return ok()
        return self.put(key, new, xt)

    def get(self, key):
        """Value and expiry."""
        return self.answer(self.records[key]) if key in self.records else NO_RECORD

    @staticmethod
    def answer(record, **more):
        """A record as the server returns it."""
        return ok(more, value=record[0], **({} if record[1] is None else {"xt": record[1]}))

    def check(self, key):
        """Length and expiry."""
        if key not in self.records:
            return NO_RECORD
        value, xt = self.records[key]
        return ok(vsiz=len(value), **({} if xt is None else {"xt": xt}))

    def remove(self, key):
        """Removes one record."""
        return NO_RECORD if self.records.pop(key, None) is None else ok()

    def seize(self, key):
        """Reads and removes one record."""
        answer = self.get(key)
        self.records.pop(key, None)
        return answer


def timed(xt):
    """The `xt` input for an absolute time."""
    return {} if xt is None else {"xt": -xt}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("number", [HASH, TREE, PROTO_TREE, PERSISTENT, DECIMAL])
def test_records_are_those_of_a_dictionary(kyoto, number, seed):
    """Single requests, bulk requests, REST and the binary protocol."""
    chance, model = random.Random(seed), Model(number == PERSISTENT)

    def value():
        return chance.choice([b"", b"v", bytes(8), struct.pack(">q", INT64_MAX), chance.randbytes(chance.randrange(40)), b"x" * 300])

    for step in range(STEPS):
        key, xt, kind = chance.choice(KEYS), chance.choice([None, LATE + step]), chance.randrange(15)
        rows = {"DB": number, "key": key}
        if kind == 0:
            new = value()
            assert kyoto.call("set", rows, value=new, **timed(xt)) == model.put(key, new, xt)
        elif kind in (1, 2, 3):
            procedure, new = ("add", "replace", "append")[kind - 1], value()
            assert kyoto.call(procedure, rows, value=new, **timed(xt)) == getattr(model, procedure)(key, new, xt)
        elif kind == 4:
            num = chance.choice([0, 1, -1, 1000, -(1 << 62), 1 << 62])
            assert kyoto.call("increment", rows, num=num, **timed(xt)) == model.increment(key, num, xt)
        elif kind == 5:
            old = chance.choice([None, b"v", model.records.get(key, (b"?",))[0]])
            new = chance.choice([None, value()])
            given = {**({} if old is None else {"oval": old}), **({} if new is None else {"nval": new}), **timed(xt)}
            assert kyoto.call("cas", rows, **given) == model.cas(key, old, new, xt)
        elif kind in (6, 7, 8, 9):
            procedure = ("get", "check", "remove", "seize")[kind - 6]
            assert kyoto.call(procedure, rows) == getattr(model, procedure)(key)
        elif kind == 10:
            some = {chance.choice(KEYS): value() for _ in range(4)}
            bulk = {b"_" + name: new for name, new in some.items()}
            assert kyoto.call("set_bulk", bulk, DB=number, **timed(xt), **chance.choice([{}, {"atomic": ""}])) == ok(num=len(some))
            for name, new in some.items():
                model.put(name, new, xt)
        elif kind == 11:
            some = set(chance.choices(KEYS, k=4))
            hits = {b"_" + name: model.records[name][0] for name in some if name in model.records}
            answer = kyoto.call("get_bulk", {b"_" + name: b"" for name in some}, DB=number, **chance.choice([{}, {"atomic": ""}]))
            assert answer == ok({**hits, b"num": len(hits)})
        elif kind == 12:
            some = chance.choices(KEYS, k=4)
            expected = [(number, name, *model.records[name]) for name in some if name in model.records]
            never = INT64_MAX if number == PERSISTENT else NEVER
            found = kyoto.get_bulk(*[(number, name) for name in some])
            assert found == [(*row[:3], never if row[3] is None else row[3]) for row in expected]
        elif kind == 13:
            target = f"/{number}/" + "".join("%%%02X" % byte for byte in key)
            response = kyoto.ask("GET", target)
            assert (response.status, response.body if response.status == 200 else None) == (
                (200, model.records[key][0]) if key in model.records else (404, None)
            )
        else:
            some = {chance.choice(KEYS) for _ in range(2)}
            gone = sum(model.records.pop(name, None) is not None for name in some)
            assert kyoto.remove_bulk(*[(number, name) for name in some]) == gone
    assert kyoto.count(number) == len(model.records)
    assert sorted(kyoto.keys_by_cursor(DB=number)) == sorted(model.records)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("number", [TREE, PROTO_TREE])
def test_a_cursor_moves_as_over_a_sorted_list(kyoto, number, seed):
    """Jumps, steps and removals, by the cursor and by other clients."""
    chance, records, position, forward = random.Random(seed), {}, None, True

    def beyond(key, forward, included):
        keys = sorted(records)
        found = [k for k in keys if (k >= key if included else k > key)] if forward else [k for k in keys if (k <= key if included else k < key)]
        return (found[0] if forward else found[-1]) if found else None

    def moved(key):
        return NO_RECORD if key is None else ok()

    for step in range(STEPS):
        key, kind = b"%03d" % chance.randrange(60), chance.randrange(11)
        # A cursor whose record is gone goes on in its direction when it is used; a step says in which.
        if kind in (6, 8, 9, 10) and position is not None and position not in records:
            position = beyond(position, forward or kind == 6, False)
        if kind < 3:
            kyoto.call("set", DB=number, key=key, value=step)
            records[key] = b"%d" % step
        elif kind == 3:
            kyoto.call("remove", DB=number, key=key)
            records.pop(key, None)
        elif kind == 4:
            position, forward = beyond(key, True, True), True
            assert kyoto.call("cur_jump", DB=number, CUR=1, key=key) == moved(position)
        elif kind == 5:
            position, forward = beyond(key, False, True), False
            assert kyoto.call("cur_jump_back", DB=number, CUR=1, key=key) == moved(position)
        elif position is None:
            continue
        elif kind == 6:
            position, forward = beyond(position, True, False), True
            assert kyoto.call("cur_step", CUR=1) == moved(position)
        elif kind == 7:
            position, forward = beyond(position, False, False), False
            assert kyoto.call("cur_step_back", CUR=1) == moved(position)
        elif kind == 8:
            assert kyoto.call("cur_get", CUR=1) == ok(key=position, value=records[position])
        elif kind == 9:
            assert kyoto.call("cur_get", CUR=1, step="") == ok(key=position, value=records[position])
            position = beyond(position, forward, False)
        else:
            assert kyoto.call("cur_seize", CUR=1) == ok(key=position, value=records.pop(position))
            position = beyond(position, forward, False)
    assert kyoto.keys_by_cursor(DB=number) == sorted(records)
