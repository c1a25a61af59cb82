//! Allocations of entries, and whether they may fail.
//!
//! A table in memory refuses a write whose entry cannot be allocated. A durable table may not: all
//! copies of it, and the same table after a restart, must make the same changes. So as soon as the
//! process has a durable table, a failed allocation ends the process, like any other one in Rust.

use std::alloc::{self, Layout};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

static MUST_SUCCEED: AtomicBool = AtomicBool::new(false);

/// From now on, a failed allocation of an entry ends the process.
pub(crate) fn must_succeed() {
    MUST_SUCCEED.store(true, Relaxed);
}

/// What the allocator returned for this layout; `None` if it failed.
#[inline]
pub(crate) fn check(raw: *mut u8, layout: Layout) -> Option<NonNull<u8>> {
    NonNull::new(raw).or_else(|| fail(layout))
}

/// Bytes that an allocation of `size` takes in memory: glibc's malloc adds 8 and rounds up to 16,
/// and other allocators come close.
pub(crate) fn allocated_bytes(size: usize) -> usize {
    (size + 8).next_multiple_of(16).max(32)
}

#[cold]
fn fail(layout: Layout) -> Option<NonNull<u8>> {
    if MUST_SUCCEED.load(Relaxed) {
        alloc::handle_alloc_error(layout);
    }
    None
}
