"""Section 6: atomic operations, with many concurrent clients."""

import threading

import pytest

from kyoto_wire import CONFLICT, NO_RECORD, Kyoto, ok
from wire import Resp

pytestmark = [pytest.mark.todana_only, pytest.mark.one_backend]

CLIENTS = 6
ROUNDS = 150


def together(address, play):
    """Runs `play(connection, number)` in several clients at once and returns their results."""
    results, failures = [None] * CLIENTS, []

    def run(number):
        try:
            with Kyoto(address) as kyoto:
                results[number] = play(kyoto, number)
        except BaseException as failure:  # kept for the test to report
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    return results


def test_increments_are_not_lost(kyoto, database):
    """No increment is lost, of integers and of decimal numbers."""
    def play(client, _):
        for _ in range(ROUNDS):
            client.call("increment", DB=database, key="n", num=1)
            client.call("increment_double", DB=database, key="d", num="0.5")

    together(kyoto.address, play)
    assert kyoto.call("increment", DB=database, key="n", num=0) == ok(num=CLIENTS * ROUNDS)
    assert kyoto.call("increment_double", DB=database, key="d", num="0") == ok(num="%.6f" % (CLIENTS * ROUNDS / 2))


def test_appends_are_not_lost(kyoto, database):
    """Every appended text is in the value."""
    together(kyoto.address, lambda client, number: [client.call("append", DB=database, key="k", value=number) for _ in range(ROUNDS)])
    value = kyoto.value("k", DB=database)
    assert [value.count(b"%d" % number) for number in range(CLIENTS)] == [ROUNDS] * CLIENTS


def test_one_client_adds(kyoto, database):
    """One client adds the record, and all others find it."""
    wins = together(kyoto.address, lambda client, _: [client.call("add", DB=database, key=i, value="v") == ok() for i in range(ROUNDS)])
    assert [sum(row) for row in zip(*wins)] == [1] * ROUNDS


def test_one_client_seizes(kyoto, database):
    """Only one client gets the record, whichever operation takes it."""
    kyoto.call("set_bulk", {f"_{i}": "v" for i in range(ROUNDS)}, DB=database)

    def play(client, number):
        if number % 3 == 0:
            return [client.call("seize", DB=database, key=i) != NO_RECORD for i in range(ROUNDS)]
        if number % 3 == 1:
            return [client.remove_bulk((database, b"%d" % i)) == 1 for i in range(ROUNDS)]
        return [client.ask("DELETE", f"/{database}/{i}").status == 204 for i in range(ROUNDS)]

    assert [sum(row) for row in zip(*together(kyoto.address, play))] == [1] * ROUNDS


def test_cursors_seize_each_record_once(kyoto, database):
    """Many clients empty a database, and each record is returned once."""
    kyoto.call("set_bulk", {f"_{i}": "v" for i in range(600)}, DB=database)

    def play(client, _):
        taken = []
        while client.call("cur_jump", DB=database, CUR=1) == ok():
            answer = client.call("cur_seize", CUR=1)
            if answer.status == 200:
                taken.append(answer.rows[b"key"])
        return taken

    taken = [key for keys in together(kyoto.address, play) for key in keys]
    assert sorted(taken) == sorted(b"%d" % i for i in range(600))


def test_cas_is_a_counter(kyoto, database):
    """Clients that retry `cas` until it succeeds count correctly."""
    kyoto.call("set", DB=database, key="k", value=0)

    def play(client, _):
        for _ in range(30):
            while True:
                value = client.value("k", DB=database)
                answer = client.call("cas", DB=database, key="k", oval=value, nval=int(value) + 1)
                if answer == ok():
                    break
                assert answer == CONFLICT

    together(kyoto.address, play)
    assert kyoto.value("k", DB=database) == b"%d" % (CLIENTS * 30)


def test_atomic_bulks_are_seen_whole(kyoto, empty, database):
    """Atomic bulk reads and MGET see an atomic bulk write as a whole."""
    keys = [f"key{i}" for i in range(20)]
    kyoto.call("set_bulk", {"_" + key: "start" for key in keys}, DB=database, atomic="")

    def play(client, number):
        if number % 2:
            for i in range(ROUNDS):
                client.call("set_bulk", {"_" + key: f"{number}-{i}" for key in keys}, DB=database, atomic="")
            return set()
        seen = set()
        with Resp(empty.resp) as resp:
            resp.call("SELECT", database)
            for _ in range(ROUNDS):
                rows = client.call("get_bulk", {"_" + key: "" for key in keys}, DB=database, atomic="").rows
                seen.add(len({value for name, value in rows.items() if name != b"num"}))
                seen.add(len(set(resp.call("MGET", *keys))))
        return seen

    assert set().union(*together(kyoto.address, play)) == {1}


def test_atomic_removals_are_seen_whole(kyoto, database):
    """Readers see all records or none."""
    rows = {f"_key{i}": "v" for i in range(20)}

    def play(client, number):
        seen = set()
        for _ in range(ROUNDS):
            if number == 0:
                client.call("set_bulk", rows, DB=database, atomic="")
            elif number == 1:
                seen.add(int(client.done("remove_bulk", dict.fromkeys(rows, ""), DB=database, atomic="")["num"]))
            else:
                seen.add(int(client.done("get_bulk", dict.fromkeys(rows, ""), DB=database, atomic="")["num"]))
        return seen

    assert set().union(*together(kyoto.address, play)) <= {0, 20}
