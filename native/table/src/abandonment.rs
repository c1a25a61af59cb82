//! How far the sweeper has come with the shards of an abandoned snapshot.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The sweeper's remaining work on the snapshot that was abandoned last: its number, and the next
/// shard.
pub(crate) struct Abandonment(AtomicU64);

#[derive(Clone, Copy)]
pub(crate) struct Left {
    word: u64,
    pub(crate) shard: usize,
}

/// The next shard when there is nothing to do.
pub(crate) const DONE: usize = u32::MAX as usize;

impl Default for Abandonment {
    fn default() -> Abandonment {
        Abandonment(AtomicU64::new(DONE as u64))
    }
}

impl Abandonment {
    pub(crate) fn begin(&self, number: u32) {
        self.0.store(u64::from(number) << u32::BITS, SeqCst);
    }

    pub(crate) fn left(&self) -> Option<Left> {
        let word = self.0.load(SeqCst);
        let shard = word as u32 as usize;
        (shard != DONE).then_some(Left { word, shard })
    }

    /// Records how far a call came, unless another snapshot was abandoned meanwhile.
    pub(crate) fn go_on(&self, left: Left, shard: usize) {
        let word = left.word - left.shard as u64 + shard as u64;
        let _ = self.0.compare_exchange(left.word, word, SeqCst, SeqCst);
    }
}
