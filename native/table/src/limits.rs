//! How much a table may hold, and what happens to a write that would exceed a limit.

use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicI64,
    Ordering::{Relaxed, SeqCst},
};

use crate::budget::Budget;
use crate::range::KeyOrder;

/// The options of a new table.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Number of shards, rounded up to a power of two. `None` means 4,096, or fewer (64 at least)
    /// if the limits allow fewer than 32,768 entries.
    pub shards: Option<usize>,
    /// Limits of this table alone.
    pub limits: Limits,
    /// A byte budget shared with other tables (the sixteen databases of a server share one).
    pub budget: Option<Arc<Budget>>,
    /// How the table is ordered; `None` if it is not.
    pub order: Option<KeyOrder>,
    /// Seed of the key hash; `None` draws a random one.
    pub seed: Option<u64>,
}

/// How much a table may hold, and what happens when it is full.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Maximum number of entries; `None` is no limit.
    pub entries_max: Option<u64>,
    /// Maximum bytes of entries, see [`Table::bytes`](crate::Table::bytes); `None` is no limit.
    pub bytes_max: Option<u64>,
    /// What happens to a write that would exceed a limit.
    pub when_full: WhenFull,
}

/// What happens to a write that would exceed a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// The least used of some sampled entries are evicted.
    #[default]
    Evict,
    /// The write is refused with [`Full`].
    Refuse,
}

/// The write was refused because the table is at its limit and may not evict (or could not free
/// enough).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the table is full")
    }
}

impl std::error::Error for Full {}

/// Limits that may change while they are in use; `i64::MAX` is no limit.
pub(crate) struct LiveLimits {
    entries_max: AtomicI64,
    bytes_max: AtomicI64,
    refuse: AtomicBool,
    /// Room to make beyond what the limit requires; see [`crate::eviction`].
    wanted_bytes: AtomicI64,
}

impl LiveLimits {
    pub(crate) fn new(limits: Limits) -> LiveLimits {
        let live = LiveLimits {
            entries_max: AtomicI64::new(i64::MAX),
            bytes_max: AtomicI64::new(i64::MAX),
            refuse: AtomicBool::new(false),
            wanted_bytes: AtomicI64::new(0),
        };
        live.set(limits);
        live
    }

    pub(crate) fn set(&self, limits: Limits) {
        let gauge =
            |max: Option<u64>| max.map_or(i64::MAX, |max| i64::try_from(max).unwrap_or(i64::MAX));
        self.refuse.store(limits.when_full == WhenFull::Refuse, SeqCst);
        self.entries_max.store(gauge(limits.entries_max), SeqCst);
        self.bytes_max.store(gauge(limits.bytes_max), SeqCst);
    }

    pub(crate) fn entries_max(&self) -> i64 {
        self.entries_max.load(Relaxed)
    }

    pub(crate) fn bytes_max(&self) -> i64 {
        self.bytes_max.load(Relaxed)
    }

    /// The number of bytes that eviction aims for.
    pub(crate) fn bytes_aim(&self) -> i64 {
        self.bytes_max() - self.wanted_bytes.load(Relaxed)
    }

    /// Requests room for this many bytes, 0 for none. The last request replaces earlier ones.
    pub(crate) fn want(&self, bytes: i64) {
        self.wanted_bytes.store(bytes, Relaxed);
    }

    pub(crate) fn refuse(&self) -> bool {
        self.refuse.load(Relaxed)
    }

    /// The limit of entries.
    #[inline]
    pub(crate) fn entries(&self) -> Maximum {
        Maximum::new(self.entries_max(), self.refuse())
    }

    /// The limit of bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> Maximum {
        Maximum::new(self.bytes_max(), self.refuse())
    }

    /// Whether there is any limit.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.entries_max() != i64::MAX || self.bytes_max() != i64::MAX
    }
}

/// One limit, read once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Maximum {
    /// `i64::MAX` is no limit.
    pub(crate) max: i64,
    /// Whether writes beyond the limit are refused; otherwise entries are evicted. False if there
    /// is no limit.
    pub(crate) refuse: bool,
}

impl Maximum {
    pub(crate) const NONE: Maximum = Maximum { max: i64::MAX, refuse: false };

    #[inline]
    pub(crate) fn new(max: i64, refuse: bool) -> Maximum {
        Maximum { max, refuse: refuse && max != i64::MAX }
    }

    #[inline]
    fn is_limited(self) -> bool {
        self.max != i64::MAX
    }
}

/// The limits that apply to one operation: those of the table and that of its budget, read once. A
/// batch uses the same ones from the reservation to the last write, because limits that changed
/// between them would refuse a write in the middle of the batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LimitsRead {
    pub(crate) entries: Maximum,
    pub(crate) bytes: Maximum,
    /// Bytes of all tables of the budget.
    pub(crate) shared: Maximum,
}

impl LimitsRead {
    /// Whether the table has limits of its own.
    #[inline]
    pub(crate) fn any_own(&self) -> bool {
        self.entries.is_limited() || self.bytes.is_limited()
    }

    /// Whether there is any limit.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.any_own() || self.shared.is_limited()
    }

    /// Whether an entry of this many bytes exceeds a limit of the table even without any other
    /// entry.
    #[inline]
    pub(crate) fn exceeded_alone(&self, entry_bytes: i64) -> bool {
        entry_bytes > self.bytes.max || self.entries.max == 0
    }
}

/// A number that many threads add to, optionally up to a limit.
pub(crate) trait Gauge {
    /// Adds `change`, unless it grows beyond `max` less what others have reserved.
    fn grow_within(&self, change: i64, max: i64, reserved: &AtomicI64) -> Result<(), Full>;
    /// Adds `change`. Writes nothing if it is 0: the cache line stays with its owner.
    fn change(&self, change: i64);
}

impl Gauge for AtomicI64 {
    fn grow_within(&self, change: i64, max: i64, reserved: &AtomicI64) -> Result<(), Full> {
        if change == 0 {
            return Ok(());
        }
        // Added first and taken back if it is too much, so that the limit holds among many writers
        // without a loop. SeqCst, and `reserved` is read after it: see `reservation.rs`.
        let after = self.fetch_add(change, SeqCst).wrapping_add(change);
        if change > 0 && max != i64::MAX && after.saturating_add(reserved.load(SeqCst)) > max {
            self.fetch_sub(change, Relaxed);
            return Err(Full);
        }
        Ok(())
    }

    fn change(&self, change: i64) {
        if change != 0 {
            self.fetch_add(change, Relaxed);
        }
    }
}
