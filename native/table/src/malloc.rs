//! What we ask of the C library's `malloc`, where that is glibc's.
//!
//! glibc puts small blocks that are freed (up to 128 bytes) on lists of their own, its *fastbins*,
//! and joins them with their free neighbours only when somebody asks for more than a kilobyte:
//! then all of them, under the arena's lock. After a clear of five million small entries that takes
//! some 40 ms of a request that has nothing to do with it. Without fastbins, each block is joined
//! when it is freed, which is the reaper's work where there are many.
//!
//! What is written again and again is not slower for that: seven blocks of each size, which each
//! thread keeps for itself, come before the fastbins.

/// Has blocks joined when they are freed, in the whole process. Does nothing where the C library is
/// another one.
pub fn join_freed_blocks() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    {
        use std::ffi::c_int;
        unsafe extern "C" {
            fn mallopt(parameter: c_int, value: c_int) -> c_int;
        }
        /// Of `malloc.h`: the largest request that is served from a fastbin.
        const M_MXFAST: c_int = 1;
        // SAFETY: the function as `malloc.h` declares it. It may be called at any time: it takes
        // the lock of malloc's main arena.
        unsafe { mallopt(M_MXFAST, 0) };
    }
}
