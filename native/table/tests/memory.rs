//! Every entry is freed, exactly once, and every pin released.
//!
//! The reaper is stopped, so that each thread frees its own garbage. The reaper's unit tests check
//! what its thread frees.
//!
//! Alone in its process, because it counts what the whole process allocates. Under AddressSanitizer
//! (nightly):
//!
//! ```text
//! RUSTFLAGS=-Zsanitizer=address cargo +nightly test --target x86_64-unknown-linux-gnu \
//!     -p todana_table
//! ```

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};

use todana_table::{Keyspace, Limits, Meta, Options, Shared, Table, reaper, set_pin_release};

const NOW_MS: u64 = 1_800_000_000_000;

thread_local! {
    /// Blocks that this thread allocated and did not free: the test harness has threads of its own.
    static BLOCKS: Cell<i64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: passes everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BLOCKS.set(BLOCKS.get() + 1);
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BLOCKS.set(BLOCKS.get() - 1);
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Runs a test and checks that it leaks nothing.
fn without_leak(test: impl FnOnce()) {
    reaper::stop().join();
    let before = BLOCKS.get();
    test();
    assert_eq!(BLOCKS.get(), before);
}

fn fill(table: &Table, entries: u32) {
    // Interpreters are slow.
    for number in 0..if cfg!(miri) { entries.min(50) } else { entries } {
        let meta = Meta {
            expires_at_ms: (number % 3 == 0).then_some(NOW_MS + u64::from(number)),
            ..Meta::default()
        };
        let value = vec![7; (number % 500) as usize];
        let put = table.update(&number.to_le_bytes(), NOW_MS, |record| record.put(&[&value], meta));
        put.expect("room");
    }
}

#[test]
fn a_dropped_table_frees_everything() {
    without_leak(|| fill(&Table::new(Options::default()), 5_000));
}

#[test]
fn removed_replaced_expired_evicted_and_cleared_entries_are_freed() {
    without_leak(|| {
        let table = Table::new(Options { shards: Some(16), ..Options::default() });
        fill(&table, 2_000);
        fill(&table, 1_000);
        (0..500u32).for_each(|number| {
            table.update(&number.to_le_bytes(), NOW_MS, |record| record.remove());
        });
        table.sweep(NOW_MS + 1_000, 100);
        table.set_limits(Limits { entries_max: Some(300), ..Limits::default() });
        fill(&table, 10);
        assert!(table.len() <= 300);
        table.schedule_clear(NOW_MS);
        fill(&table, 100);
        table.clear();
        fill(&table, 100);
        table.lock_all(NOW_MS).clear();
        assert_eq!(table.bytes(), 0);
    });
}

#[test]
#[cfg_attr(miri, ignore = "many entries")]
fn an_index_shrinks_after_mass_removal() {
    let table = Table::new(Options { shards: Some(16), ..Options::default() });
    fill(&table, 50_000);
    let full = table.counts().index_bytes;
    (0..50_000u32).for_each(|number| {
        table.update(&number.to_le_bytes(), NOW_MS, |record| record.remove());
    });
    assert!(table.counts().index_bytes < full / 20);
    for number in 0..50_000u32 {
        let meta = Meta { expires_at_ms: Some(NOW_MS + 1), ..Meta::default() };
        table.update(&number.to_le_bytes(), NOW_MS, |record| record.put(&[], meta)).expect("room");
    }
    table.sweep(NOW_MS + 1, 100_000);
    assert!(table.counts().index_bytes < full / 20);
}

#[test]
fn a_snapshot_frees_the_entries_it_kept() {
    without_leak(|| {
        let table = Table::new(Options { shards: Some(16), ..Options::default() });
        fill(&table, 1_000);
        let mut snapshot = table.snapshot().expect("the only one");
        (0..5).for_each(|_| assert_eq!(snapshot.next_part(usize::MAX, |_| ()), Ok(true)));
        fill(&table, 1_000);
        fill(&table, 1_000);
        table.clear();
        fill(&table, 10);
        drop(snapshot);
        let mut owned = table.snapshot_owned().expect("the only one");
        table.clear();
        drop(table);
        while owned.next_part(usize::MAX, |_| ()) == Ok(true) {}
    });
}

#[test]
fn a_visitor_that_panics_leaks_nothing() {
    without_leak(|| {
        let table = Table::new(Options { shards: Some(1), ..Options::default() });
        fill(&table, 100);
        let mut snapshot = table.snapshot().expect("the only one");
        // Not by `panic!`, since printing the backtrace allocates memory that is never freed.
        let visit = || snapshot.next_part(usize::MAX, |_| std::panic::resume_unwind(Box::new(())));
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(visit)).is_err());
        drop(snapshot);
        assert!(table.snapshot().is_some());
    });
}

static RELEASED: AtomicI64 = AtomicI64::new(0);

/// The counterpart of a NIF's resource: a box that owns the counted handle.
fn make_pin(shared: Shared) -> NonNull<c_void> {
    NonNull::from(Box::leak(Box::new(shared))).cast()
}

/// What the NIF does when the table releases the entry: it gives up the table's reference to the
/// resource.
fn release(pin: *mut c_void) {
    RELEASED.fetch_add(1, SeqCst);
    // SAFETY: pins are made by `make_pin`, and released once.
    drop(unsafe { Box::from_raw(pin.cast::<Shared>()) });
}

#[test]
fn a_pin_is_made_once_and_released_with_the_entry() {
    set_pin_release(release);
    without_leak(|| {
        let table = Table::new(Options::default());
        let put = |len: usize| {
            table
                .update(b"k", NOW_MS, |record| record.put(&[&vec![1; len]], Meta::default()))
                .expect("room")
        };
        let pin = || table.read_in_place(b"k", NOW_MS, |entry| entry.expect("live").pin(make_pin));
        put(255);
        assert_eq!(pin(), None, "small");
        put(256);
        let unlocked = table.read(b"k", NOW_MS, |entry| entry.expect("live").pin(make_pin));
        assert_eq!(unlocked, None, "not under the lock");
        let first = pin().expect("a pin");
        assert_eq!(pin(), Some(first));
        let released = || RELEASED.load(SeqCst);
        assert_eq!(released(), 0);
        put(1_000);
        assert_eq!(released(), 1, "replaced");
        pin();
        table.update(b"k", NOW_MS, |record| record.remove());
        assert_eq!(released(), 2, "removed");
        put(1_000);
        pin();
        table.clear();
        assert_eq!(released(), 3, "cleared");
        put(1_000);
        pin();
        let copy = table.read(b"k", NOW_MS, |entry| entry.expect("live").share());
        drop(table);
        assert_eq!(released(), 4, "dropped");
        assert_eq!(copy.expect("shared").len(), 1_000);
    });
}

#[test]
fn a_handle_can_pass_through_foreign_code() {
    without_leak(|| {
        let table = Table::new(Options::default());
        table
            .update(b"k", NOW_MS, |record| record.put(&[&[3; 400]], Meta::default()))
            .expect("room");
        let shared = table.read(b"k", NOW_MS, |entry| entry.expect("live").share()).expect("wide");
        let raw = shared.into_raw();
        drop(table);
        // SAFETY: taken back once.
        assert_eq!(&*unsafe { Shared::from_raw(raw) }, &[3; 400]);
    });
}
