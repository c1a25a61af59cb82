//! The state of one table, shared by its handle, its snapshots and its budget.

use std::iter;
use std::mem::offset_of;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, SeqCst},
};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use crate::abandonment::Abandonment;
use crate::absences::Absences;
use crate::allocation;
use crate::body::capacity_for;
use crate::budget::{Budget, Padded};
use crate::counts::Counts;
use crate::entry::VERSION_END;
use crate::event::Observers;
use crate::hash::{KeyHash, ShardMap};
use crate::limits::{Full, Gauge, Limits, LimitsRead, LiveLimits, Maximum};
use crate::options::Options;
use crate::ordered::Ordered;
use crate::overshoot::{Refusal, bytes_ceiling};
use crate::range::KeyOrder;
use crate::reaper;
use crate::removals::Removals;
use crate::reservation::{Reserved, ReservedRoom};
use crate::shard::{Shard, Shards};
use crate::time::NEVER_MS;

const SHARDS_DEFAULT: usize = 4_096;
/// The number of shards of a small table.
const SHARDS_MIN: usize = 64;
const SHARDS_MAX: usize = 1 << 20;

/// The number of shards that the options require. A table with a small limit gets fewer by default,
/// because eviction finds a sample quickly only if most shards are not empty.
fn shard_count(options: &Options) -> usize {
    let entries_max = options.limits.entries_max.and_then(|max| usize::try_from(max).ok());
    let few = entries_max.map_or(SHARDS_DEFAULT, |max| (max / 8).clamp(SHARDS_MIN, SHARDS_DEFAULT));
    options.shards.unwrap_or(few).clamp(1, SHARDS_MAX).next_power_of_two()
}

/// One table. Every operation reads the first fields, and hardly any writes them; `gauges`, which
/// every write changes, has its own cache lines. In this order in memory.
#[repr(C)]
pub(crate) struct Core {
    shards: OnceLock<Shards>,
    pub(crate) hash: KeyHash,

    // One cache line.
    pub(crate) map: ShardMap,
    /// When entries are cleared; see [`crate::clear`].
    pub(crate) clear_at_ms: AtomicU64,
    pub(crate) limits: LiveLimits,
    pub(crate) budget: Option<Arc<Budget>>,
    pub(crate) shard_count: usize,
    /// The running snapshot, 0 for none; see [`crate::snapshot`].
    pub(crate) snapshot: AtomicU32,
    /// Whether there are [`observers`](crate::observers).
    pub(crate) observed: AtomicBool,
    /// Whether changes are not reported.
    pub(crate) muted: AtomicBool,
    /// Whether the records change only by a log; see [`crate::durable`].
    pub(crate) durable: bool,

    pub(crate) gauges: Padded<Gauges>,

    /// The keys in order, if the table is ordered.
    pub(crate) ordered: Option<Ordered>,
    /// Absent keys that are watched.
    pub(crate) absences: Absences,
    /// The versions of removed entries; `None` in a table that is not durable.
    pub(crate) removals: Option<Removals>,
    pub(crate) observers: Observers,
    /// What operations of several writes have reserved of the limits.
    pub(crate) reserved: Reserved,

    /// Held while a clear is scheduled or applied.
    pub(crate) clear_turn: Mutex<()>,
    /// The number of the last snapshot.
    pub(crate) snapshots: AtomicU32,
    /// Snapshots that were begun and not dropped.
    pub(crate) snapshots_alive: AtomicU32,
    pub(crate) abandoned: Abandonment,
    pub(crate) sweep_from: AtomicUsize,
    pub(crate) tallies: Tallies,
    /// The seed of `hash`.
    pub(crate) seed: u64,
}

const LINE_BYTES: usize = 64;
const _: () = assert!(offset_of!(Core, map) % LINE_BYTES == 0);
const _: () = assert!(offset_of!(Core, map) / LINE_BYTES == offset_of!(Core, durable) / LINE_BYTES);

/// What writes change.
#[derive(Default)]
pub(crate) struct Gauges {
    version: AtomicU64,
    pub(crate) entries: AtomicI64,
    pub(crate) bytes: AtomicI64,
    expiring: AtomicI64,
    /// Bytes in memory only because of a snapshot.
    pub(crate) preserved: AtomicI64,
}

impl Gauges {
    /// The present counts.
    pub(crate) fn all(&self) -> Change {
        Change {
            entries: self.entries.load(Relaxed),
            bytes: self.bytes.load(Relaxed),
            expiring: self.expiring.load(Relaxed),
        }
    }
}

/// Events since the table was created.
#[derive(Default)]
pub(crate) struct Tallies {
    pub(crate) expired: AtomicU64,
    pub(crate) evicted: AtomicU64,
    pub(crate) refused: AtomicU64,
}

/// The change that a write makes to the gauges.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Change {
    pub(crate) entries: i64,
    pub(crate) bytes: i64,
    pub(crate) expiring: i64,
}

impl Core {
    pub(crate) fn new(mut options: Options) -> Arc<Core> {
        let durable = options.durable;
        if durable {
            (options.limits, options.budget) = (Limits::default(), None);
            allocation::must_succeed();
        }
        let seed = options.seed.unwrap_or_else(KeyHash::random_seed);
        let shard_count = shard_count(&options);
        let core = Arc::new(Core {
            shards: OnceLock::new(),
            hash: KeyHash::new(seed),
            map: ShardMap::new(shard_count),
            clear_at_ms: AtomicU64::new(NEVER_MS),
            snapshot: AtomicU32::new(0),
            observed: AtomicBool::new(false),
            muted: AtomicBool::new(false),
            durable,
            limits: LiveLimits::new(options.limits),
            budget: options.budget,
            shard_count,
            ordered: options.order.map(Ordered::new),
            absences: Absences::default(),
            removals: durable.then(Removals::default),
            gauges: Padded::default(),
            observers: Observers::default(),
            reserved: Reserved::default(),
            clear_turn: Mutex::new(()),
            snapshots: AtomicU32::new(0),
            snapshots_alive: AtomicU32::new(0),
            abandoned: Abandonment::default(),
            sweep_from: AtomicUsize::new(0),
            tallies: Tallies::default(),
            seed,
        });
        if let Some(budget) = &core.budget {
            budget.join(&core);
        }
        core
    }

    /// The shards, if anything was ever written.
    #[inline]
    pub(crate) fn shards(&self) -> Option<&Shards> {
        self.shards.get()
    }

    /// The shards, created if there are none yet.
    #[inline]
    pub(crate) fn shards_for_write(&self) -> &Shards {
        match self.shards.get() {
            Some(shards) => shards,
            None => self.make_shards(),
        }
    }

    #[cold]
    fn make_shards(&self) -> &Shards {
        self.shards.get_or_init(|| Shards::new(self.shard_count))
    }

    /// Hash and shard of a key.
    #[inline]
    pub(crate) fn locate(&self, key: &[u8]) -> (u64, usize) {
        let hash = self.hash.of(key);
        (hash, self.map.shard(hash))
    }

    pub(crate) fn bytes(&self) -> u64 {
        u64::try_from(self.gauges.bytes.load(Relaxed)).unwrap_or(0)
    }

    pub(crate) fn len(&self) -> u64 {
        u64::try_from(self.gauges.entries.load(Relaxed)).unwrap_or(0)
    }

    /// Mean number of entries in a shard; no shard has many more.
    pub(crate) fn shard_len(&self) -> u64 {
        self.len() / self.shard_count as u64
    }

    pub(crate) fn order(&self) -> Option<KeyOrder> {
        self.ordered.as_ref().map(|ordered| ordered.order)
    }

    pub(crate) fn has_expiring(&self) -> bool {
        self.gauges.expiring.load(Relaxed) > 0
    }

    /// The running snapshot. Read this after taking the locks: see [`crate::snapshot`].
    #[inline]
    pub(crate) fn running_snapshot(&self) -> u32 {
        self.snapshot.load(Acquire)
    }

    /// The highest version that a write can have. In a durable table, that of the last write.
    pub(crate) fn version(&self) -> u64 {
        self.gauges.version.load(Relaxed)
    }

    /// The next version. A table has 2^48 (a million writes a second for nine years, or for four
    /// and a half if half of each run is lost) and refuses writes when they are used up.
    pub(crate) fn next_version(&self) -> Result<u64, Full> {
        self.take_versions(1)
    }

    /// The first of this many versions for one entry; see
    /// [`EntryBox::next_of_run`](crate::entry::EntryBox::next_of_run).
    pub(crate) fn take_versions(&self, count: u64) -> Result<u64, Full> {
        let last = self.gauges.version.fetch_add(count, Relaxed) + count;
        if last < VERSION_END { Ok(last - count + 1) } else { Err(Full) }
    }

    /// Continues after this version. No thread writes meanwhile.
    pub(crate) fn set_version(&self, version: u64) {
        self.gauges.version.store(version, Relaxed);
    }

    /// Whether any limit applies, so that uses must be recorded and room must be made.
    #[inline]
    pub(crate) fn is_limited(&self) -> bool {
        self.limits.any() || self.budget.as_ref().is_some_and(|budget| budget.is_limited())
    }

    /// Whether writing over a value takes no more than a version of the entry's run: the table is
    /// not durable, no limit applies, and there are no observers.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        !self.durable && !self.is_observed() && !self.is_limited()
    }

    /// The present limits of the table and of its budget.
    #[inline]
    pub(crate) fn limits_now(&self) -> LimitsRead {
        LimitsRead {
            entries: self.limits.entries(),
            bytes: self.limits.bytes(),
            shared: self.budget.as_ref().map_or(Maximum::NONE, |budget| budget.limit()),
        }
    }

    /// Accounts for a write that leaves an entry of `entry_bytes`, or refuses it.
    #[inline]
    pub(crate) fn charge(&self, change: Change, entry_bytes: i64) -> Result<(), Full> {
        if self.is_limited() {
            return self.charge_now(change, entry_bytes);
        }
        self.add(change);
        Ok(())
    }

    #[inline(never)]
    fn charge_now(&self, change: Change, entry_bytes: i64) -> Result<(), Full> {
        self.charge_noted(&self.limits_now(), change, entry_bytes)
    }

    /// Like [`Core::charge_limited`]; counts a refusal.
    pub(crate) fn charge_noted(
        &self,
        limits: &LimitsRead,
        change: Change,
        entry_bytes: i64,
    ) -> Result<(), Full> {
        let charged = self.charge_limited(limits, change, entry_bytes);
        if charged.is_err() {
            self.note_refused();
        }
        charged
    }

    pub(crate) fn note_refused(&self) {
        self.tallies.refused.fetch_add(1, Relaxed);
    }

    /// Accounts for a write that may exceed a limit at which other writes are refused. An entry
    /// that alone exceeds a limit enforced by eviction is still refused: otherwise everything else
    /// would be evicted for it, in vain. The limits are those of the transaction, if there is one.
    #[inline(never)]
    pub(crate) fn charge_anyway(
        &self,
        room: Option<&ReservedRoom>,
        change: Change,
        entry_bytes: i64,
    ) -> Result<(), Full> {
        let limits = room.map_or_else(|| self.limits_now(), |room| room.limits);
        let LimitsRead { entries, bytes, shared } = limits;
        let beyond = |limit: Maximum| entry_bytes > limit.max && !limit.refuse;
        if beyond(bytes) || beyond(shared) || entries.max == 0 && !entries.refuse {
            self.note_refused();
            return Err(Full);
        }
        self.add(change);
        Ok(())
    }

    /// Accounts for a change that no limit refuses.
    #[inline]
    pub(crate) fn add(&self, change: Change) {
        self.gauges.entries.change(change.entries);
        self.gauges.bytes.change(change.bytes);
        self.gauges.expiring.change(change.expiring);
        if let Some(budget) = &self.budget {
            budget.bytes.change(change.bytes);
        }
    }

    /// The length to which a value of `len` bytes, which has just grown, may grow before it has to
    /// move again. The result is certain if the room for it was reserved; see [`Core::slack_max`].
    pub(crate) fn grown_length(limits: &LimitsRead, len: usize) -> usize {
        /// More than a key, a header and the allocator's overhead.
        const BESIDE_BYTES: usize = 256 << 10;
        let new_bytes = i64::try_from(len.saturating_add(BESIDE_BYTES)).unwrap_or(i64::MAX);
        let slack = |limit: Maximum| match limit {
            Maximum { max: i64::MAX, .. } | Maximum { refuse: true, .. } => i64::MAX,
            Maximum { max, refuse: false } => max.saturating_sub(new_bytes).min(max / 16),
        };
        let most = slack(limits.bytes).min(slack(limits.shared));
        capacity_for(len, usize::try_from(most).unwrap_or(0))
    }

    /// The most spare capacity that a value may get, in an entry that has `new_bytes` without it
    /// and replaces one of `old_bytes`. In a table that refuses writes, this is all the room that
    /// no other step has reserved (`left_bytes` is the caller's own reservation); in a table that
    /// evicts, a sixteenth of the limit.
    pub(crate) fn slack_max(
        &self,
        limits: &LimitsRead,
        new_bytes: i64,
        old_bytes: i64,
        left_bytes: i64,
    ) -> usize {
        let slack = |bytes: i64, limit: Maximum| match limit {
            Maximum { max: i64::MAX, .. } => i64::MAX,
            Maximum { max, refuse: true } => max.saturating_sub(bytes - old_bytes + new_bytes),
            Maximum { max, refuse: false } => max.saturating_sub(new_bytes).min(max / 16),
        };
        let taken = |bytes: i64, preserved: &AtomicI64, reserved: &AtomicI64| {
            bytes + preserved.load(Relaxed) + reserved.load(SeqCst) - left_bytes
        };
        let bytes = taken(self.bytes() as i64, &self.gauges.preserved, &self.reserved.bytes);
        let mut most = slack(bytes, limits.bytes);
        if let Some(budget) = &self.budget {
            let bytes = taken(budget.bytes.load(Relaxed), &budget.preserved, &budget.reserved);
            most = most.min(slack(bytes, limits.shared));
        }
        usize::try_from(most).unwrap_or(0)
    }

    /// Accounts for a write that leaves an entry of `entry_bytes`, or refuses it, by these limits.
    pub(crate) fn charge_limited(
        &self,
        limits: &LimitsRead,
        change: Change,
        entry_bytes: i64,
    ) -> Result<(), Full> {
        let LimitsRead { entries, bytes, shared } = *limits;
        // An entry that can never fit is refused even if eviction could empty the table.
        if limits.exceeded_alone(entry_bytes) {
            return Err(Full);
        }
        let entries_max = if entries.refuse { entries.max } else { i64::MAX };
        let bytes_max = match bytes.refuse {
            true => bytes.max - self.gauges.preserved.load(Relaxed),
            false => bytes_ceiling(bytes.max, change.bytes),
        };
        self.gauges.entries.grow_within(change.entries, entries_max, &self.reserved.entries)?;
        if self.gauges.bytes.grow_within(change.bytes, bytes_max, &self.reserved.bytes).is_err() {
            self.gauges.entries.change(-change.entries);
            self.want_room(Refusal::Own, change.bytes);
            return Err(Full);
        }
        if self.charge_budget(shared, change.bytes, entry_bytes).is_err() {
            self.gauges.entries.change(-change.entries);
            self.gauges.bytes.change(-change.bytes);
            return Err(Full);
        }
        self.gauges.expiring.change(change.expiring);
        Ok(())
    }

    fn charge_budget(&self, limit: Maximum, change: i64, entry_bytes: i64) -> Result<(), Full> {
        let Some(budget) = &self.budget else { return Ok(()) };
        if entry_bytes > limit.max {
            return Err(Full);
        }
        let most = match limit.refuse {
            true => limit.max - budget.preserved.load(Relaxed),
            false => bytes_ceiling(limit.max, change),
        };
        let grown = budget.bytes.grow_within(change, most, &budget.reserved);
        grown.inspect_err(|Full| self.want_room(Refusal::Shared, change))
    }

    /// Accounts for entries that were removed.
    pub(crate) fn discharge(&self, change: Change) {
        let Change { entries, bytes, expiring } = change;
        self.add(Change { entries: -entries, bytes: -bytes, expiring: -expiring });
    }

    pub(crate) fn counts(&self) -> Counts {
        let index_bytes = self.shards().map_or(0, Shards::bytes)
            + self.ordered.as_ref().map_or(0, Ordered::bytes);
        Counts {
            entries: self.len(),
            entries_with_expiry: u64::try_from(self.gauges.expiring.load(Relaxed)).unwrap_or(0),
            bytes: self.bytes(),
            kept_bytes: u64::try_from(self.gauges.preserved.load(Relaxed)).unwrap_or(0),
            index_bytes: index_bytes as u64,
            expired: self.tallies.expired.load(Relaxed),
            evicted: self.tallies.evicted.load(Relaxed),
            refused: self.tallies.refused.load(Relaxed),
            version: self.version(),
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        if let Some(budget) = &self.budget {
            budget.bytes.change(-self.gauges.bytes.load(Relaxed));
        }
        if let Some(shards) = self.shards() {
            // What a snapshot kept was freed when the snapshot ended, which is before its table
            // drops.
            let index = |shard: &Shard| std::mem::take(&mut shard.lock().index);
            reaper::dispose_all(shards.iter().map(index));
        }
        if let Some(ordered) = &self.ordered {
            reaper::dispose(ordered.replace(iter::empty()));
        }
    }
}
