//! A byte limit over several tables.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{
    AtomicBool, AtomicI64,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::core::Core;
use crate::limits::{Maximum, WhenFull};

/// A byte limit that several tables share. Created by [`Budget::new`].
///
/// The tables of a budget make room for each other: a write to an empty table may evict from its
/// siblings.
#[non_exhaustive]
pub struct Budget {
    /// Bytes of entries in all tables of the budget.
    pub bytes: Padded<AtomicI64>,
    /// The limit; `i64::MAX` is no limit. May change while tables use it.
    pub bytes_max: AtomicI64,
    /// Bytes that operations of several writes have reserved.
    pub(crate) reserved: AtomicI64,
    refuse: AtomicBool,
    /// Room to make beyond what the limit requires; see [`crate::eviction`].
    wanted_bytes: AtomicI64,
    /// Bytes that are in memory only because of snapshots of the tables.
    pub(crate) preserved: AtomicI64,
    tables: Mutex<Vec<Weak<Core>>>,
}

impl Budget {
    /// A budget of `bytes_max` bytes (`i64::MAX` is no limit).
    pub fn new(bytes_max: i64, when_full: WhenFull) -> Budget {
        Budget {
            bytes: Padded(AtomicI64::new(0)),
            bytes_max: AtomicI64::new(bytes_max),
            reserved: AtomicI64::new(0),
            refuse: AtomicBool::new(when_full == WhenFull::Refuse),
            wanted_bytes: AtomicI64::new(0),
            preserved: AtomicI64::new(0),
            tables: Mutex::default(),
        }
    }

    /// Requests room for this many bytes, 0 for none. The last request replaces earlier ones.
    pub(crate) fn want(&self, bytes: i64) {
        self.wanted_bytes.store(bytes, Relaxed);
    }

    /// What happens to a write that would exceed the limit.
    pub fn when_full(&self) -> WhenFull {
        if self.refuse.load(Relaxed) { WhenFull::Refuse } else { WhenFull::Evict }
    }

    /// Changes what happens to a write that would exceed the limit.
    pub fn set_when_full(&self, when_full: WhenFull) {
        self.refuse.store(when_full == WhenFull::Refuse, SeqCst);
    }

    #[inline]
    pub(crate) fn bytes_max(&self) -> i64 {
        self.bytes_max.load(Relaxed)
    }

    /// The limit, read once.
    #[inline]
    pub(crate) fn limit(&self) -> Maximum {
        Maximum::new(self.bytes_max(), self.refuse.load(Relaxed))
    }

    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.bytes_max() != i64::MAX
    }

    /// The number of bytes that eviction aims for.
    pub(crate) fn bytes_aim(&self) -> i64 {
        self.bytes_max() - self.wanted_bytes.load(Relaxed)
    }

    /// Whether entries have to be evicted now.
    pub(crate) fn must_evict(&self) -> bool {
        self.bytes.load(Relaxed) > self.bytes_aim() && self.when_full() == WhenFull::Evict
    }

    pub(crate) fn join(&self, table: &Arc<Core>) {
        let mut tables = self.tables.lock();
        tables.retain(|table| table.strong_count() > 0);
        tables.push(Arc::downgrade(table));
    }

    /// A random table of the budget, chosen with a probability proportional to its bytes; `dice` is
    /// the random number.
    pub(crate) fn choose(&self, dice: u64) -> Option<Arc<Core>> {
        let tables: Vec<Arc<Core>> = self.tables.lock().iter().filter_map(Weak::upgrade).collect();
        let total: u64 = tables.iter().map(|table| table.bytes()).sum();
        let mut left = dice % total.max(1);
        tables.into_iter().find(|table| {
            let bytes = table.bytes();
            let chosen = left < bytes;
            left = left.saturating_sub(bytes);
            chosen
        })
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("bytes", &*self.bytes)
            .field("bytes_max", &self.bytes_max)
            .field("when_full", &self.when_full())
            .finish_non_exhaustive()
    }
}

/// A value alone on its cache lines (two: the adjacent line is fetched with it), because many
/// threads write it.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub(crate) T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
