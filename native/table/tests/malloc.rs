//! A clear leaves no blocks for a later request to coalesce.

#![cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]

use todana_table::{Keyspace, Meta, Options, Table, malloc, reaper};

const NOW_MS: u64 = 1_800_000_000_000;
const ENTRIES: u32 = 50_000;

/// `struct mallinfo2` of glibc's `malloc.h`.
#[repr(C)]
struct MallocInfo {
    arena: usize,
    ordblks: usize,
    smblks: usize,
    hblks: usize,
    hblkhd: usize,
    usmblks: usize,
    fsmblks: usize,
    uordblks: usize,
    fordblks: usize,
    keepcost: usize,
}

unsafe extern "C" {
    fn mallinfo2() -> MallocInfo;
}

/// Fills a table, clears it, and returns the number of its freed blocks that were not coalesced
/// with their neighbours.
fn unjoined_blocks() -> usize {
    let table = Table::new(Options::default());
    for number in 0..ENTRIES {
        let put =
            |record: &mut todana_table::LockedKey<'_>| record.put(&[b"value"], Meta::default());
        table.update(&number.to_be_bytes(), NOW_MS, put).expect("room");
    }
    table.clear();
    while reaper::pending_entries() > 0 {
        std::thread::yield_now();
    }
    // SAFETY: as `malloc.h` declares it.
    unsafe { mallinfo2().smblks }
}

/// The only test, since it counts the free blocks of the whole process.
#[test]
fn no_request_coalesces_the_blocks_of_a_clear() {
    malloc::join_freed_blocks();
    assert_eq!(unjoined_blocks(), 0);
}
