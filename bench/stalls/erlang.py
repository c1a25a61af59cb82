"""Rows of the Erlang API: every exported function of `todana`, and the arguments that cost most. stalls.erl makes the calls."""

from __future__ import annotations

from stalls.row import DECIMAL, EVICTING, ORDERED, SCRATCH, Row, Sizes
from stalls.resp import size_text

# The name of the call in stalls.erl, and the function.
CONSTANT = {
    "open": "open/2", "list": "list/0", "info": "info/1", "info_node": "info/0", "handle": "handle/1", "count": "count/1", "bytes": "bytes/1",
    "stats": "stats/1", "set_limits": "set_limits/2", "get": "get/2", "get_default": "get/3", "get_entry": "get_entry/2", "get_at": "get/4", "get_entry_at": "get_entry/3",
    "get_many_at": "get_many/3", "refresh": "refresh/2", "index": "index/1", "read_after": "read_after/2", "is_key": "is_key/2",
    "put": "put/3", "put_with": "put/4", "compare_and_swap": "compare_and_swap/4",
    "compare_and_swap_with": "compare_and_swap/5", "take": "take/2", "delete": "delete/2", "delete_version": "delete/3",
    "update_counter": "update_counter/3", "update_counter_with": "update_counter/4", "ttl": "ttl/2", "expire": "expire/3",
    "persist": "persist/2", "fetch": "fetch/3", "update": "update/3", "update_with": "update/4",
    "transaction": "transaction/2", "transaction_with": "transaction/3",
    "subscribe": "subscribe/2", "set_event_handler": "set_event_handler/1",
}  # fmt: skip
IN_ORDER = {
    "range": "range/4", "range_default": "range/3", "prefix": "prefix/3", "prefix_default": "prefix/2", "first": "first/1",
    "last": "last/1", "next": "next/2", "prev": "prev/2",
}  # fmt: skip


def rows(sizes: Sizes) -> list[Row]:
    """All rows; those that empty a table come last."""
    text = size_text(sizes.value_bytes)
    many = f"{sizes.keys:,}"

    def row(label, covers, name, **named):
        return Row("erlang", label, (covers,), name, **named)

    def big(label, covers, name):
        return row(label, covers, name, database=SCRATCH, key=b"big", needs=(), is_once=True)

    return [
        *[row(covers, covers, name, is_constant=True) for name, covers in CONSTANT.items()],
        *[row(covers, covers, name, database=ORDERED, needs=(ORDERED,), is_constant=True) for name, covers in IN_ORDER.items()],
        row("prefix/3 of none in an order of numbers", "prefix/3", "prefix_decimal", database=DECIMAL, needs=(DECIMAL,), is_once=True),
        big(f"get/2 of {text}", "get/2", "get_big"),
        big(f"get_entry/2 of {text}", "get_entry/2", "get_entry_big"),
        big("put/3 of 1 MiB", "put/3", "put_megabyte"),
        big(f"put/3 of {text}", "put/3", "put_big"),
        big(f"take/2 of {text}", "take/2", "take_big"),
        big(f"delete/2 of {text}", "delete/2", "delete_big"),
        big(f"expire/3 of {text}", "expire/3", "expire_big"),
        big(f"persist/2 of {text}", "persist/2", "persist_big"),
        big(f"update/3 of {text}", "update/3", "update_big"),
        row(f"put/3 of {size_text(sizes.value_bytes * 15 // 16)} into a full, evicting table", "put/3", "put_evicting", database=EVICTING, needs=(EVICTING,), spoils=(EVICTING,), is_once=True),
        row(f"get/2, the key a list of {sizes.key_characters:,} characters", "get/2", "get_long_key", is_once=True),
        row(f"get/2, the key a nested list of {sizes.key_characters:,} characters", "get/2", "get_deep_key", is_once=True),
        row(f"put/3, the value a list of {sizes.key_characters:,} characters", "put/3", "put_long_value", is_once=True),
        row(f"get_many/2 of {many} keys", "get_many/2", "get_many", is_once=True),
        row(f"put_many/2 of {many} pairs", "put_many/2", "put_many", is_once=True),
        row(f"put_many/3 of {sizes.keys // 2:,} pairs, atomic", "put_many/3", "put_many_atomic", is_once=True),
        row(f"put_many/3 of {sizes.bulk:,} pairs, atomic", "put_many/3", "put_many_atomic_most", is_once=True),
        row("transaction/2 that reads and writes 9,000 keys", "transaction/2", "transaction_most", is_once=True),
        row(f"delete_many/2 of {many} keys", "delete_many/2", "delete_many", is_once=True),
        row("fold_range/5 of all", "fold_range/5", "fold_range", database=ORDERED, needs=(ORDERED,), is_once=True),
        row("scan/1", "scan/1", "scan"),
        row("scan/2", "scan/2", "scan_from"),
        row(f"scan/3 with a count of {sizes.records:,}", "scan/3", "scan_most", is_once=True),
        row(f"scan/3 with a count of 1, {sizes.shard_records:,} records in one shard", "scan/3", "scan_one_shard", is_once=True),
        row("fold/3", "fold/3", "fold", is_once=True),
        row("events/1 of a full batch", "events/1", "events_batch", is_once=True),
        row("unsubscribe/1 with a full queue", "unsubscribe/1", "unsubscribe_full", is_once=True),
        row("to_list/1", "to_list/1", "to_list", is_once=True),
        row("dump/2", "dump/2", "dump", is_once=True),
        row("load/2", "load/2", "load", is_once=True),
        row("fold_snapshot/3", "fold_snapshot/3", "fold_snapshot", is_once=True),
        row(f"fold_snapshot/3, {sizes.shard_records:,} records in one shard", "fold_snapshot/3", "fold_snapshot_one_shard", is_once=True),
        row("fold_snapshot/3, all overwritten, the reader dies", "fold_snapshot/3", "fold_snapshot_left", is_once=True, linger_s=0.5),
        row(f"fetch/4 with {sizes.waiters:,} time-outs", "fetch/4", "fetch_timeouts", database=SCRATCH, needs=(), is_once=True, probe="fetch"),
        row(f"close/1 of {sizes.records:,} records", "close/1", "close_full", is_once=True, linger_s=0.5),
        row(f"drop/1 of {sizes.records:,} records", "drop/1", "drop_full", is_once=True, linger_s=0.5),
        row(f"clear/1, {sizes.shard_records:,} records in one shard", "clear/1", "clear_one_shard", is_once=True, linger_s=0.5),
        row("clear/1", "clear/1", "clear", spoils=(0,), is_once=True, linger_s=0.5),
        row("clear/1 while a snapshot is read", "clear/1", "clear_snapshot", spoils=(0,), is_once=True, linger_s=0.5),
    ]  # fmt: skip
