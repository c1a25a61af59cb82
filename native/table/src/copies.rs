//! Counts the bytes of values that are copied while a shard is locked, so that tests can bound
//! them.
//!
//! In other builds this module does nothing.

/// Records that bytes of a value were copied or written.
#[inline(always)]
pub(crate) fn note(bytes: usize) {
    #[cfg(test)]
    tests::note(bytes);
    #[cfg(not(test))]
    let _ = bytes;
}

#[cfg(test)]
pub(crate) use tests::{Held, under_locks};

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    thread_local! {
        /// Shards that this thread has locked.
        static LOCKS: Cell<usize> = const { Cell::new(0) };
        static COPIED: Cell<usize> = const { Cell::new(0) };
    }

    pub(super) fn note(bytes: usize) {
        if LOCKS.get() > 0 {
            COPIED.set(COPIED.get() + bytes);
        }
    }

    /// Bytes that this thread copies under locks while it runs `act`.
    pub(crate) fn under_locks<R>(act: impl FnOnce() -> R) -> (usize, R) {
        let before = COPIED.get();
        let result = act();
        (COPIED.get() - before, result)
    }

    /// Part of a shard's guard.
    pub(crate) struct Held;

    impl Held {
        pub(crate) fn new() -> Held {
            LOCKS.set(LOCKS.get() + 1);
            Held
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            LOCKS.set(LOCKS.get() - 1);
        }
    }
}
