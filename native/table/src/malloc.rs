//! Configures the C library's `malloc`, if that is glibc's.
//!
//! glibc puts small freed blocks (up to 128 bytes) on separate lists, its *fastbins*, and coalesces
//! them with their free neighbours only when a thread requests more than a kilobyte: then all of
//! them at once, under the arena's lock. After a clear of five million small entries, an unrelated
//! request takes 40 ms because of this. Without fastbins, each block is coalesced when it is freed,
//! which is the reaper's work if there are many.
//!
//! Repeated writes do not become slower: seven blocks of each size, which each thread keeps for
//! itself, are used before the fastbins.
//!
//! glibc gives freed memory back to the system only at the end of a heap, where a single block in
//! use keeps all before it. Whole free pages between such blocks are given back on request.

use std::time::Duration;

/// Makes malloc coalesce blocks when they are freed, in the whole process. Does nothing with other
/// C libraries.
pub fn join_freed_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        use std::ffi::c_int;
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        /// From `malloc.h`: the largest request that is served from a fastbin.
        const M_MXFAST: c_int = 1;
        // SAFETY: the function as `malloc.h` declares it. It may be called at any time: it takes
        // the lock of malloc's main arena.
        unsafe { mallopt(M_MXFAST, 0) };
    }
}

/// Gives free pages back to the system; returns the processor time that this took. Does nothing
/// with other C libraries.
///
/// It takes some 0.2 ms for each MiB given back and a microsecond for each other free block of a
/// page and more, and meanwhile holds the lock of one arena after another: other threads that need
/// memory of that arena wait. So it is a task of the reaper
/// ([`release_free_memory`](crate::reaper::release_free_memory)).
pub(crate) fn trim() -> Duration {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        use rustix::time::{ClockId, clock_gettime};
        use std::ffi::c_int;
        unsafe extern "C" {
            fn malloc_trim(keep_bytes: usize) -> c_int;
        }
        // On a busy host the thread may wait for a processor for much longer than it works.
        let now = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default();
        let began = now();
        // SAFETY: the function as `malloc.h` declares it. It may be called at any time by any
        // thread: it takes the locks that it needs.
        unsafe { malloc_trim(0) };
        now().saturating_sub(began)
    }
    #[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
    Duration::ZERO
}
