//! How much a table may hold, and what happens to a write that would exceed a limit.

use std::sync::atomic::{
    AtomicI64,
    Ordering::{Relaxed, SeqCst},
};

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

/// Limits that may change while they are in use.
///
/// Each limit is one word that also says what happens beyond it: a reader must not combine the new
/// policy with an old maximum, which would evict entries that neither the old limits nor the new
/// ones allow to be evicted. A reader may see one limit as it is and the other as it was; whatever
/// it then evicts or refuses, the old limits or the new ones demand as well.
pub(crate) struct LiveLimits {
    entries: AtomicMaximum,
    bytes: AtomicMaximum,
    /// Room to make beyond what the limit requires; see [`crate::eviction`].
    wanted_bytes: AtomicI64,
}

impl LiveLimits {
    pub(crate) fn new(limits: Limits) -> LiveLimits {
        let live = LiveLimits {
            entries: AtomicMaximum::default(),
            bytes: AtomicMaximum::default(),
            wanted_bytes: AtomicI64::new(0),
        };
        live.set(limits);
        live
    }

    pub(crate) fn set(&self, limits: Limits) {
        self.set_in_steps(limits, || {});
    }

    /// Calls `after_each` after each store: tests look at everything that another thread may see.
    fn set_in_steps(&self, limits: Limits, mut after_each: impl FnMut()) {
        self.entries.set(limits.entries_max, limits.when_full);
        after_each();
        self.bytes.set(limits.bytes_max, limits.when_full);
        after_each();
    }

    /// The limit of entries.
    #[inline]
    pub(crate) fn entries(&self) -> Maximum {
        self.entries.get()
    }

    /// The limit of bytes.
    #[inline]
    pub(crate) fn bytes(&self) -> Maximum {
        self.bytes.get()
    }

    /// Whether a table of this size must give up entries.
    pub(crate) fn must_evict(&self, entries_len: i64, bytes_len: i64) -> bool {
        let (entries, bytes) = (self.entries(), self.bytes());
        !entries.refuse && entries_len > entries.max || !bytes.refuse && bytes_len > self.aim(bytes)
    }

    /// The number of bytes that eviction aims for.
    fn aim(&self, bytes: Maximum) -> i64 {
        bytes.max - self.wanted_bytes.load(Relaxed)
    }

    /// The room that was requested last.
    #[cfg(test)]
    pub(crate) fn wanted_bytes(&self) -> i64 {
        self.wanted_bytes.load(Relaxed)
    }

    /// Requests room for this many bytes, 0 for none. The last request replaces earlier ones.
    pub(crate) fn want(&self, bytes: i64) {
        self.wanted_bytes.store(bytes, Relaxed);
    }

    /// Whether there is any limit.
    #[inline]
    pub(crate) fn any(&self) -> bool {
        self.entries.is_limited() || self.bytes.is_limited()
    }
}

/// A [`Maximum`] in one word: the maximum itself if entries are evicted, its complement, which is
/// negative, if writes are refused. `i64::MAX` is no limit.
struct AtomicMaximum(AtomicI64);

impl Default for AtomicMaximum {
    fn default() -> AtomicMaximum {
        AtomicMaximum(AtomicI64::new(i64::MAX))
    }
}

impl AtomicMaximum {
    fn set(&self, max: Option<u64>, when_full: WhenFull) {
        let max = max.and_then(|max| i64::try_from(max).ok()).unwrap_or(i64::MAX);
        let refuse = max != i64::MAX && when_full == WhenFull::Refuse;
        self.0.store(if refuse { !max } else { max }, SeqCst);
    }

    #[inline]
    fn get(&self) -> Maximum {
        let word = self.0.load(Relaxed);
        let refuse = word < 0;
        Maximum { max: if refuse { !word } else { word }, refuse }
    }

    #[inline]
    fn is_limited(&self) -> bool {
        self.0.load(Relaxed) != i64::MAX
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
/// transaction uses the same ones from the reservation to the last write, because limits that
/// changed between them would refuse a write in the middle of the transaction.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Core;
    use crate::keyspace::Keyspace;
    use crate::meta::Meta;
    use crate::options::Options;
    use crate::table::Table;

    const NOW_MS: u64 = 1_800_000_000_000;

    fn put(table: &Table, key: u32) -> Result<u64, Full> {
        let meta = Meta::default();
        table.update(&key.to_be_bytes(), NOW_MS, |record| record.put(&[&[7; 100]], meta))
    }

    fn limits(entries_max: u64, when_full: WhenFull) -> [Limits; 2] {
        let limits = Limits { when_full, ..Limits::default() };
        let entries_max = (entries_max < u64::MAX).then_some(entries_max);
        // An entry counts for 100 to 200 bytes.
        let bytes_max = entries_max.map(|max| max * 200);
        [Limits { entries_max, ..limits }, Limits { bytes_max, ..limits }]
    }

    #[test]
    fn limits_that_are_being_changed_evict_and_refuse_only_what_either_limits_do() {
        const NONE: u64 = u64::MAX;
        use WhenFull::{Evict, Refuse};
        // 40 entries are beyond 10, and within 100.
        for (from, to, is_refused) in [
            ((10, Refuse), (NONE, Evict), true),
            ((10, Refuse), (100, Evict), true),
            ((100, Evict), (10, Refuse), true),
            ((NONE, Evict), (10, Refuse), true),
            ((100, Evict), (100, Refuse), false),
        ] {
            for (from, to) in limits(from.0, from.1).into_iter().zip(limits(to.0, to.1)) {
                let core = Core::new(Options { shards: Some(64), ..Options::default() });
                let table = Table::of(core.clone());
                (0..40).for_each(|key| assert!(put(&table, key).is_ok()));
                table.set_limits(from);
                let mut key = 40;
                core.limits.set_in_steps(to, || {
                    key += 1;
                    let written = put(&table, key);
                    assert!(is_refused || written.is_ok(), "{from:?} to {to:?}");
                    table.sweep(NOW_MS, 1_000);
                    assert_eq!(table.counts().evicted, 0, "{from:?} to {to:?}");
                });
            }
        }
    }

    #[test]
    fn a_limit_and_its_policy_are_one_word() {
        let maxima = [Some(0), Some(1), Some(i64::MAX as u64 - 1), Some(u64::MAX), None];
        for when_full in [WhenFull::Evict, WhenFull::Refuse] {
            for max in maxima {
                let word = AtomicMaximum::default();
                word.set(max, when_full);
                let most = max.and_then(|max| i64::try_from(max).ok()).unwrap_or(i64::MAX);
                assert_eq!(word.get(), Maximum::new(most, when_full == WhenFull::Refuse));
                assert_eq!(word.is_limited(), most != i64::MAX);
            }
        }
    }
}
