//! Callers that take many entries out of a table neither free them nor copy anything for each
//! entry: the reaper's thread frees everything.
//!
//! Blocks are counted thread by thread, so the test does not depend on timing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use todana_table::{KeyOrder, Keyspace, Meta, Options, Table, reaper};

const NOW_MS: u64 = 1_800_000_000_000;
const ENTRIES: u32 = 50_000;
const SHARDS: usize = 16;
/// The most that a step for each shard may allocate, including a place in the queue.
const SHARD_BYTES_MAX: usize = 2_048;

thread_local! {
    static FREED_BLOCKS: Cell<usize> = const { Cell::new(0) };
    static ALLOCATED_BYTES: Cell<usize> = const { Cell::new(0) };
}

/// Blocks of the whole process.
static BLOCKS: AtomicI64 = AtomicI64::new(0);

struct Counting;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BLOCKS.fetch_add(1, SeqCst);
        ALLOCATED_BYTES.set(ALLOCATED_BYTES.get() + layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BLOCKS.fetch_sub(1, SeqCst);
        FREED_BLOCKS.set(FREED_BLOCKS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

fn put(table: &Table, number: u32) {
    let put = |record: &mut todana_table::LockedKey<'_>| record.put(&[b"value"], Meta::default());
    table.update(&number.to_be_bytes(), NOW_MS, put).expect("room");
}

fn filled(order: Option<KeyOrder>) -> Table {
    let table = Table::new(Options { shards: Some(SHARDS), order, ..Options::default() });
    (0..ENTRIES).for_each(|number| put(&table, number));
    table
}

/// Runs `step` and checks that this thread did one step per shard, and that the reaper freed the
/// entries (and their keys in order).
fn assert_bounded(name: &str, step: impl FnOnce()) {
    let blocks = BLOCKS.load(SeqCst);
    let (freed, allocated) = (FREED_BLOCKS.get(), ALLOCATED_BYTES.get());
    step();
    let (freed, allocated) = (FREED_BLOCKS.get() - freed, ALLOCATED_BYTES.get() - allocated);
    assert!(freed <= 8 * SHARDS, "{name} freed {freed} blocks");
    assert!(allocated <= SHARDS * SHARD_BYTES_MAX, "{name} allocated {allocated} bytes");
    while reaper::pending_entries() > 0 {
        std::thread::yield_now();
    }
    assert!(BLOCKS.load(SeqCst) <= blocks - i64::from(ENTRIES), "{name} left entries behind");
}

/// The only test, since it counts what the whole process frees.
#[test]
fn taking_all_entries_out_takes_one_step_per_shard() {
    for order in [None, Some(KeyOrder::default())] {
        let table = filled(order);
        assert_bounded("a clear", || assert_eq!(table.clear(), u64::from(ENTRIES)));

        let table = filled(order);
        table.schedule_clear(NOW_MS + 1);
        let read = || table.read(b"key", NOW_MS + 1, |entry| assert!(entry.is_none()));
        assert_bounded("a read that finds a clear due", read);

        let table = filled(order);
        table.schedule_clear(NOW_MS + 1);
        assert_bounded("a transaction that finds a clear due", || {
            drop(table.lock([&b"key"[..]], NOW_MS + 1));
        });

        let table = filled(order);
        let locked = table.lock_all(NOW_MS);
        assert_bounded("a clear in a transaction", || {
            locked.clear();
            drop(locked);
        });

        let table = filled(order);
        assert_bounded("dropping a table", || drop(table));
    }

    let table = filled(None);
    let snapshot = table.snapshot().expect("the only one");
    assert_bounded("a clear beside a snapshot, and the snapshot's end", || {
        table.clear();
        drop(snapshot);
    });

    let table = filled(None);
    let snapshot = table.snapshot().expect("the only one");
    // The snapshot has copied the pointers of every shard, and keeps one entry of each.
    (0..ENTRIES).for_each(|number| put(&table, number));
    assert_bounded("a clear of shards that are preserved", || {
        table.clear();
        drop(snapshot);
    });

    let table = filled(None);
    let mut snapshot = table.snapshot().expect("the only one");
    table.clear();
    assert_eq!(snapshot.next_part(1, |_| ()), Ok(true));
    assert_bounded("a snapshot's end within a shard", || drop(snapshot));
}
