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
