"""stats and its groups."""

import time

import pytest

from wire import SLACK_S

GENERAL = """
    pid uptime time version pointer_size rusage_user rusage_system max_connections curr_connections total_connections
    rejected_connections cmd_get cmd_set cmd_flush cmd_touch get_hits get_misses delete_misses delete_hits
    incr_misses incr_hits decr_misses decr_hits cas_misses cas_hits cas_badval touch_hits touch_misses auth_cmds auth_errors
    bytes_read bytes_written limit_maxbytes threads bytes curr_items total_items evictions
""".split()


@pytest.mark.parametrize("name", GENERAL)
def test_general_statistics(memcached, name):
    """The fields that monitoring tools read exist."""
    assert name in memcached.stats()


def test_statistics_are_sensible(memcached):
    """Times, counts and limits have plausible values."""
    stats = memcached.stats()
    assert abs(int(stats["time"]) - time.time()) < SLACK_S
    assert int(stats["pid"]) > 0
    assert int(stats["curr_connections"]) >= 1
    assert int(stats["threads"]) >= 1


def test_counters_follow_commands(memcached):
    """Hits, misses and stores are counted."""
    before = {name: int(value) for name, value in memcached.stats().items() if value.isdigit()}
    memcached.command("set k 0 0 1", "5")
    memcached.talk(b"get k\r\n", b"VALUE k 0 1\r\n5\r\nEND\r\n")
    memcached.talk(b"get missing\r\n", b"END\r\n")
    memcached.command("incr k 1")
    memcached.command("incr missing 1")
    memcached.command("decr k 1")
    memcached.command("touch k 0")
    memcached.command("touch missing 0")
    memcached.command("cas k 0 0 1 1", "1")
    memcached.command("delete k")
    memcached.command("delete k")
    after = {name: int(value) for name, value in memcached.stats().items() if value.isdigit()}
    grown = {name: after[name] - before.get(name, 0) for name in after}
    assert grown["get_hits"] == 1
    assert grown["get_misses"] == 1
    assert grown["incr_hits"] == 1
    assert grown["incr_misses"] == 1
    assert grown["decr_hits"] == 1
    assert grown["touch_hits"] == 1
    assert grown["touch_misses"] == 1
    assert grown["cas_badval"] == 1
    assert grown["delete_hits"] == 1
    assert grown["delete_misses"] == 1
    assert grown["cmd_get"] >= 2
    assert grown["cmd_set"] >= 1


def test_items_are_counted(memcached):
    """curr_items and bytes change with the stored records."""
    empty = memcached.stats()
    for i in range(10):
        memcached.command(f"set k{i} 0 0 100", "x" * 100)
    full = memcached.stats()
    assert int(full["curr_items"]) - int(empty["curr_items"]) == 10
    assert int(full["bytes"]) - int(empty["bytes"]) >= 1000


def test_settings(memcached):
    """stats settings returns limits."""
    settings = memcached.stats("settings")
    assert {"maxbytes", "maxconns", "item_size_max", "evictions", "num_threads"} <= set(settings)
    assert int(settings["item_size_max"]) >= 1024 * 1024


def test_items(memcached):
    """stats items has rows of classes, or nothing if there are no records."""
    memcached.command("set k 0 0 1", "v")
    rows = memcached.stats("items")
    assert any(name.endswith(":number") for name in rows)
    assert all(name.startswith("items:") for name in rows)


def test_unknown_groups(memcached):
    """An unknown group is an error."""
    memcached.talk(b"stats nonesuch\r\n", b"ERROR\r\n")


def test_reset(memcached):
    """stats reset resets the counters."""
    memcached.talk(b"get missing\r\n", b"END\r\n")
    assert memcached.command("stats reset") == b"RESET"
    stats = memcached.stats()
    assert stats["get_misses"] == "0"
    assert stats["cmd_get"] == "0"


def test_library_stats(pymemcache_client):
    """pymemcache parses the statistics."""
    stats = pymemcache_client.stats()
    assert stats[b"curr_items"] >= 0
    assert stats[b"pid"] > 0


def test_requests_are_counted_by_prefix(memcached):
    """stats detail counts what begins with the same word before a colon, until it is off."""
    assert memcached.command("stats detail") == b"CLIENT_ERROR usage: stats detail on|off|dump"
    assert memcached.command("stats reset") == b"RESET"
    assert memcached.command("stats detail on") == b"OK"
    memcached.command("set user:1 0 0 1", "5")
    memcached.talk(b"get user:1 user:2\r\n", b"VALUE user:1 0 1\r\n5\r\nEND\r\n")
    memcached.command("set plain 0 0 1", "5")
    memcached.command("delete user:1")
    memcached.command("delete page:1:2")
    counts = b"PREFIX page get 0 hit 0 set 0 del 1\r\nPREFIX user get 2 hit 1 set 1 del 1\r\nEND\r\n"
    memcached.talk(b"stats detail dump\r\n", counts)
    assert memcached.command("stats detail off") == b"OK"
    memcached.talk(b"get user:1\r\n", b"END\r\n")
    memcached.talk(b"stats detail dump\r\n", counts)
    assert memcached.command("stats reset") == b"RESET"
    memcached.talk(b"stats detail dump\r\n", b"END\r\n")
