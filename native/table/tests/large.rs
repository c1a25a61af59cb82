//! The memory that transactions of writes to large values take while they run.
//!
//! Alone in its process, because it counts what the whole process allocates.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use todana_table::{Edit, Keyspace, Meta, Options, Table};

const NOW_MS: u64 = 1_800_000_000_000;
const VALUE_BYTES: usize = 8 << 20;
/// Less than this is small compared with a value.
const SMALL_BYTES: usize = 1 << 20;
/// Garbage that may wait for the reaper's thread.
const REAPED_BYTES_MAX: usize = 64 << 20;

static LIVE: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);
static TURN: Mutex<()> = Mutex::new(());

struct Counting;

impl Counting {
    fn grown(bytes: usize) {
        PEAK.fetch_max(LIVE.fetch_add(bytes, SeqCst) + bytes, SeqCst);
    }
}

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Counting::grown(layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), SeqCst);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        LIVE.fetch_sub(layout.size(), SeqCst);
        Counting::grown(bytes);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(block, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The most bytes allocated at any time while a transaction ran, beyond those before it.
fn peak(table: &Table, transaction: impl FnOnce(&todana_table::Locked<'_>)) -> usize {
    let locked = table.lock_all(NOW_MS);
    let before = LIVE.load(SeqCst);
    PEAK.store(before, SeqCst);
    transaction(&locked);
    PEAK.load(SeqCst) - before
}

fn table() -> Table {
    let table = Table::new(Options { shards: Some(4), ..Options::default() });
    put(&table, b"key", &vec![1; VALUE_BYTES]);
    table
}

fn put(space: &impl Keyspace, key: &[u8], value: &[u8]) {
    space.update(key, NOW_MS, |record| record.put(&[value], Meta::default())).expect("room");
}

fn edit(space: &impl Keyspace, key: &[u8], edit: Edit<'_>) {
    let edited = space.edit(key, NOW_MS, edit, |record, draft| {
        record.put_edited(draft, Meta::default()).transpose()
    });
    edited.expect("room");
}

#[test]
fn a_transaction_that_extends_a_value_keeps_one_copy() {
    let _turn = TURN.lock();
    let table = table();
    let peak = peak(&table, |locked| {
        (0..200).for_each(|_| edit(locked, b"key", Edit::Append(b"more")));
        (0..200).for_each(|at| edit(locked, b"key", Edit::Write { at, bytes: b"x" }));
    });
    assert!(peak < VALUE_BYTES / 4 * 5 + SMALL_BYTES, "{peak} bytes more");
}

#[test]
fn a_transaction_that_copies_a_value_repeatedly_shares_it() {
    let _turn = TURN.lock();
    let table = table();
    let peak = peak(&table, |locked| {
        for round in 0..300u64 {
            let value = locked.read(b"key", NOW_MS, |entry| entry.and_then(|it| it.share()));
            let value = value.expect("a large value");
            let meta = Meta { expires_at_ms: Some(NOW_MS + round + 1), ..Meta::default() };
            locked
                .update(b"copy", NOW_MS, |record| record.put_same(&value.entry(), meta))
                .expect("room");
        }
    });
    assert!(peak < SMALL_BYTES, "{peak} bytes more");
}

#[test]
fn a_transaction_that_replaces_large_values_keeps_few_of_them() {
    let _turn = TURN.lock();
    let table = table();
    let value = vec![2; VALUE_BYTES];
    let peak = peak(&table, |locked| (0..100).for_each(|_| put(locked, b"key", &value)));
    let most = REAPED_BYTES_MAX + 3 * VALUE_BYTES + SMALL_BYTES;
    assert!(peak < most, "{peak} bytes more");
}
