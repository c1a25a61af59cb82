//! Making room in tables that have a limit.
//!
//! The policy is sampled least-frequently-used: look at some sixteen entries, take out one that has
//! expired, or else the one least used, or among equals the oldest. There are no lists to maintain:
//! use is six bits in the pointer, a logarithmic counter that a look bumps with falling
//! probability. What was sampled and stayed is sometimes bumped down, so that former favourites
//! fade: about one step in the time in which the table replaces all its entries twice.
//!
//! Room is made after the write, when the writer has no lock, so a limit may be exceeded for that
//! moment by what the writers are just writing. All locks here are only tried: the caller may hold
//! locks of sibling tables in the budget, and whoever holds one is not to be waited for. What could
//! not be evicted therefore is left to the next write.
//!
//! One call evicts as many entries as it added, and [`EVICTIONS_MAX`] more; later writes and the
//! sweeper do the rest. More may be left to them where a limit was lowered, or where a value takes
//! the room of thousands of entries. What values may take beyond the limit meanwhile is bounded
//! ([`overshoot_bytes`]): a write that would go further is refused, and evicts all the same. The
//! sweeper then makes room for it as well, so that it can be tried again. Writes that add less than
//! their own evictions free in any case ([`UNREFUSED_BYTES`]) are never refused, so that a lowered
//! limit does not stop them.
//!
//! Where there is much to evict, a sample of sixteen gives up four entries, under one lock: which
//! of them goes first does not matter then, and it costs a quarter.

use std::cell::Cell;
use std::sync::Arc;

use crate::core::{Change, Core};
use crate::entry::{EntryBox, FREQUENCY_MAX};
use crate::readers::Locked;
use crate::reaper;
use crate::shard::{Records, Shards};
use crate::writer::{Removal, Writer};

/// Entries looked at to find one victim.
const SAMPLE: usize = 16;
/// Shards looked at for one sample; more than a few only in tables with fewer entries than shards.
const SAMPLE_SHARDS_MAX: usize = 1_024;
/// Samples without a victim, in a row, after which making room is left to the next write.
const FAILURES_MAX: u32 = 8;
/// Entries that one call evicts beyond as many as its writes added.
const EVICTIONS_MAX: i64 = 256;
/// Entries that a call evicts one of a sample; from then on it takes [`VICTIMS`] of each.
const EVICTIONS_CHOSEN: i64 = 8;
/// Entries that a sample gives up where there are many to evict.
const VICTIMS: usize = 4;
/// A write that adds no more than this is not refused while room is made: as many bytes are freed
/// by the evictions of one call, if the entries are as small as can be.
const UNREFUSED_BYTES: i64 = EVICTIONS_MAX * 32;
/// Bytes that a table with a small limit may take beyond it for a while.
const OVERSHOOT_BYTES_MIN: i64 = 8 * 1024 * 1024;

/// Bytes that large values may take beyond a limit until room is made for them: a sixteenth of the
/// limit, or 8 MiB.
pub(crate) fn overshoot_bytes(bytes_max: i64) -> i64 {
    (bytes_max / 16).max(OVERSHOOT_BYTES_MIN)
}

/// How far a write that adds so many bytes may go where a limit is kept by eviction.
pub(crate) fn bytes_ceiling(bytes_max: i64, added_bytes: i64) -> i64 {
    match added_bytes {
        ..=UNREFUSED_BYTES => i64::MAX,
        _ => bytes_max.saturating_add(overshoot_bytes(bytes_max)),
    }
}

/// The entry to take out.
struct Victim {
    shard: usize,
    bucket: usize,
    version: u64,
    /// Lower goes first: live or not, use, version.
    rank: (bool, u8, u64),
}

/// What a call or a batch wrote, and when.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    pub(crate) first_version: u64,
    pub(crate) last_version: u64,
    pub(crate) now_ms: u64,
    /// What the writes added, less what they replaced.
    pub(crate) grown: Change,
}

impl Written {
    /// What was written in two steps.
    pub(crate) fn and(self, later: Written) -> Written {
        let Written { last_version, now_ms, mut grown, .. } = later;
        grown.add(self.grown);
        Written { first_version: self.first_version, last_version, now_ms, grown }
    }
}

/// The limit that refused a write: the table's own, or that of the budget which it shares.
#[derive(Clone, Copy)]
pub(crate) enum Refusal {
    Own,
    Shared,
}

/// Where a victim is to come from.
enum From<'a> {
    Own(&'a Core),
    Sibling(Arc<Core>),
}

impl Core {
    /// Evicts until the limits are kept, but not what the caller just wrote; if that alone is too
    /// much, not what it wrote last. Ends before, where that would take long and enough was done
    /// for one call. The caller holds no lock of this table. Returns how many went.
    pub(crate) fn make_room(&self, written: Written) -> i64 {
        let Written { first_version, last_version, now_ms, grown } = written;
        let (mut failures, mut evictions) = (0, 0);
        while failures < FAILURES_MAX && evictions < EVICTIONS_MAX + grown.entries.max(0) {
            let spare_version = if failures == 0 { first_version } else { last_version };
            let Some(source) = self.source() else { break };
            let (core, spare_version) = match &source {
                From::Own(core) => (*core, spare_version),
                From::Sibling(core) => (&**core, u64::MAX),
            };
            let evicted = match evictions {
                ..EVICTIONS_CHOSEN => core.evict_one(now_ms, spare_version),
                _ => core.evict_some(now_ms, spare_version),
            };
            failures = if evicted == 0 { failures + 1 } else { 0 };
            evictions += evicted;
        }
        evictions
    }

    /// Makes room on behalf of no write. Whether there is more to be done.
    pub(crate) fn make_some_room(&self, now_ms: u64) -> bool {
        if self.source().is_none() {
            // What was wanted is there.
            self.limits.want(0);
            self.budget.iter().for_each(|budget| budget.want(0));
            return false;
        }
        let (first_version, last_version, grown) = (u64::MAX, u64::MAX, Change::default());
        let evicted = self.make_room(Written { first_version, last_version, now_ms, grown });
        if evicted == 0 {
            // What is wanted cannot be made, and trying again at once is of no use.
            self.want_less();
        }
        evicted > 0 && self.source().is_some()
    }

    /// The table that must give up an entry, if any.
    fn source(&self) -> Option<From<'_>> {
        if self.must_evict() {
            return Some(From::Own(self));
        }
        let budget = self.budget.as_ref()?;
        if !budget.must_evict() {
            return None;
        }
        let chosen = budget.choose(random());
        Some(match chosen {
            Some(core) if !std::ptr::eq(&*core, self) => From::Sibling(core),
            _ => From::Own(self),
        })
    }

    /// Whether this table or its budget has to give up entries.
    fn is_over(&self) -> bool {
        self.must_evict() || self.budget.as_ref().is_some_and(|budget| budget.must_evict())
    }

    fn must_evict(&self) -> bool {
        self.limits.any()
            && !self.limits.refuse()
            && (self.len() > self.limits.entries_max() as u64
                || self.bytes() as i64 > self.limits.bytes_aim())
    }

    /// Notes that a limit refused a write for want of room that eviction can make: so much room is
    /// made, beyond what that limit asks for and no other, until the sweeper finds it made, or
    /// finds that it cannot be made.
    #[cold]
    pub(crate) fn want_room(&self, refused_by: Refusal, added_bytes: i64) {
        // What never fits is not waited for: everything else would go for it, in vain.
        match (refused_by, &self.budget) {
            (Refusal::Own, _) if added_bytes <= self.limits.bytes_max() => {
                self.limits.want(added_bytes);
            }
            (Refusal::Shared, Some(budget)) if added_bytes <= budget.bytes_max() => {
                budget.want(added_bytes);
            }
            _ => {}
        }
    }

    /// Wants no room any more where nothing could be evicted for it.
    fn want_less(&self) {
        if self.must_evict() {
            self.limits.want(0);
        } else if let Some(budget) = &self.budget {
            budget.want(0);
        }
    }

    /// Takes the worst entry of a sample out. Returns how many went.
    fn evict_one(&self, now_ms: u64, spare_version: u64) -> i64 {
        let Some(shards) = self.shards() else { return 0 };
        let Some(victim) = self.sample(shards, now_ms, spare_version) else { return 0 };
        let Some(records) = shards.get(victim.shard).try_lock() else { return 0 };
        self.evict(shards, records, &[Some(victim)])
    }

    /// Takes some of the worst entries of one shard out. Returns how many went; where the shard is
    /// sparse, a sample of several shards gives up one.
    fn evict_some(&self, now_ms: u64, spare_version: u64) -> i64 {
        let Some(shards) = self.shards() else { return 0 };
        let shard = self.map.shard(random());
        let mut worst = Worst::<VICTIMS>::default();
        if let Some(mut records) = shards.get(shard).try_lock() {
            let seen = sample_shard(&mut records, shard, SAMPLE, now_ms, spare_version, &mut worst);
            if seen == SAMPLE && worst.victims[0].is_some() {
                return self.evict(shards, records, &worst.victims);
            }
        }
        self.evict_one(now_ms, spare_version)
    }

    /// Takes entries of one shard out, those of them that are still there.
    fn evict(
        &self,
        shards: &Shards,
        mut records: Locked<'_, Records>,
        victims: &[Option<Victim>],
    ) -> i64 {
        let Some(shard) = victims.iter().flatten().map(|victim| victim.shard).next() else {
            return 0;
        };
        let snapshot = self.running_snapshot();
        let mut writer = Writer::new(self, shards, shard, &mut records, snapshot);
        let mut evicted = 0;
        for victim in victims.iter().flatten() {
            if !self.is_over() {
                break;
            }
            let entry = writer.records.bucket(victim.bucket);
            if entry.is_some_and(|entry| entry.version() == victim.version) {
                let why = if victim.rank.0 { Removal::Evicted } else { Removal::Expired };
                evicted += i64::from(writer.remove(victim.bucket, why));
            }
        }
        let garbage = writer.garbage;
        drop(records);
        reaper::dispose(garbage);
        evicted
    }

    /// Looks at neighbouring shards from a random one on until it has seen enough entries.
    fn sample(&self, shards: &Shards, now_ms: u64, spare_version: u64) -> Option<Victim> {
        let (mut worst, mut seen) = (Worst::<1>::default(), 0);
        let from = self.map.shard(random());
        for step in 0..self.shard_count {
            if seen >= SAMPLE || (step >= SAMPLE_SHARDS_MAX && worst.victims[0].is_some()) {
                break;
            }
            let shard = (from + step) % self.shard_count;
            let Some(mut records) = shards.get(shard).try_lock() else { continue };
            let count = SAMPLE - seen;
            seen += sample_shard(&mut records, shard, count, now_ms, spare_version, &mut worst);
        }
        let [victim] = worst.victims;
        victim
    }
}

/// The worst entries of a sample, worst first.
struct Worst<const N: usize> {
    victims: [Option<Victim>; N],
}

impl<const N: usize> Default for Worst<N> {
    fn default() -> Worst<N> {
        Worst { victims: [const { None }; N] }
    }
}

impl<const N: usize> Worst<N> {
    #[inline]
    fn add(&mut self, victim: Victim) {
        let mut victim = Some(victim);
        for place in &mut self.victims {
            let worse = match (&victim, &*place) {
                (Some(victim), Some(present)) => victim.rank < present.rank,
                (victim, _) => victim.is_some(),
            };
            if worse {
                std::mem::swap(place, &mut victim);
            }
        }
    }
}

/// Looks at up to `count` entries of one shard, from a random bucket on. Returns how many there
/// were.
fn sample_shard<const N: usize>(
    records: &mut Records,
    shard: usize,
    count: usize,
    now_ms: u64,
    spare_version: u64,
    worst: &mut Worst<N>,
) -> usize {
    if records.index.is_empty() {
        return 0;
    }
    let buckets = records.index.num_buckets();
    let expired_possible = records.first_deadline_ms() <= now_ms;
    let mut dice = random();
    let (from, mut seen) = (dice as usize % buckets, 0);
    for step in 0..buckets {
        if seen == count {
            break;
        }
        let bucket = (from + step) % buckets;
        let Some(entry) = records.index.get_bucket_mut(bucket) else { continue };
        seen += 1;
        let version = entry.entry().version();
        if version >= spare_version {
            continue;
        }
        let live = !(expired_possible && entry.entry().is_expired(now_ms));
        let rank = (live, entry.frequency(), version);
        worst.add(Victim { shard, bucket, version, rank });
        // One in 32 fades.
        dice = dice.rotate_right(5);
        if dice & 31 == 0 {
            entry.set_frequency(entry.frequency().saturating_sub(1));
        }
    }
    seen
}

/// Notes that an entry was used: every time at first, then every second, every fourth time and so
/// on.
pub(crate) fn note_use(entry: &mut EntryBox) {
    let frequency = entry.frequency();
    let doubts = (1u64 << (frequency / 4)) - 1;
    if frequency < FREQUENCY_MAX && (doubts == 0 || random() & doubts == 0) {
        entry.set_frequency(frequency + 1);
    }
}

/// A random number that nobody's safety depends on (xorshift64*, one state per thread).
pub(crate) fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    STATE.with(|state| {
        let mut x = state.get();
        if x == 0 {
            // The address differs between threads, which is all that is asked.
            x = std::ptr::from_ref(state).addr() as u64 | 1;
        }
        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        state.set(x);
        x.wrapping_mul(0x2545_f491_4f6c_dd1d)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Budget, Growth, Limits, Options, Table, WhenFull};

    const NOW_MS: u64 = 1_800_000_000_000;
    const MIB: i64 = 1 << 20;

    /// A table with a limit and its sibling without one, in a budget, with so many bytes of entries
    /// each, of which none is there to be evicted.
    fn siblings(own_max: i64, shared_max: i64, own: i64, sibling: i64) -> [Table; 2] {
        let budget = Arc::new(Budget::new(shared_max, WhenFull::Evict));
        let table = |bytes_max: Option<i64>, bytes: i64| {
            let bytes_max = bytes_max.map(|max| max as u64);
            let limits = Limits { bytes_max, ..Limits::default() };
            let budget = Some(Arc::clone(&budget));
            let core = Core::new(Options { shards: Some(4), limits, budget, ..Options::default() });
            core.add(Change { bytes, ..Change::default() });
            Table::of(core)
        };
        [table(Some(own_max), own), table(None, sibling)]
    }

    /// Whether a write of so many bytes is refused, alone or in a step of several.
    fn refused(table: &Table, bytes: i64) -> [bool; 2] {
        let alone = table.core().charge(Change { bytes, ..Change::default() }, bytes);
        let growth = Growth { entries: 1, bytes: bytes as u64, largest_bytes: bytes as u64 };
        [alone.is_err(), table.core().reserve(&growth).is_err()]
    }

    /// Bytes for which room is wanted below the table's own limit, and the shared one.
    fn wanted(table: &Table) -> [i64; 2] {
        let (limits, budget) = (&table.core().limits, &table.core().budget);
        let shared = budget.as_ref().map_or(0, |budget| budget.bytes_max() - budget.bytes_aim());
        [limits.bytes_max() - limits.bytes_aim(), shared]
    }

    #[test]
    fn only_the_limit_that_refused_a_write_makes_room_for_it() {
        let [own, _sibling] = siblings(16 * MIB, 64 * MIB, 24 * MIB, 36 * MIB);
        assert_eq!(refused(&own, 8 * MIB), [true; 2]);
        assert_eq!(wanted(&own), [8 * MIB, 0]);
        let [own, _sibling] = siblings(64 * MIB, 64 * MIB, MIB, 71 * MIB);
        assert_eq!(refused(&own, 8 * MIB), [true; 2]);
        assert_eq!(wanted(&own), [0, 8 * MIB]);
        // What never fits is not wanted, nor is a step whose writes never fit together.
        let (bytes, largest_bytes) = (65 << 20, 1 << 20);
        let growth = Growth { entries: 65, bytes, largest_bytes };
        assert!(own.core().reserve(&growth).is_err());
        assert_eq!(wanted(&own), [0, 8 * MIB]);
        assert_eq!(refused(&own, 65 * MIB), [true; 2]);
        assert_eq!(wanted(&own), [0, 8 * MIB]);
    }

    #[test]
    fn what_is_wanted_lapses_when_it_is_there_or_cannot_be_made() {
        for [own_max, shared_max] in [[16 * MIB, 64 * MIB], [64 * MIB, 16 * MIB]] {
            for can_be_made in [false, true] {
                let [own, _sibling] = siblings(own_max, shared_max, 24 * MIB, 0);
                assert_eq!(refused(&own, 8 * MIB), [true; 2]);
                assert_eq!(wanted(&own).iter().sum::<i64>(), 8 * MIB);
                if can_be_made {
                    own.core().add(Change { bytes: -24 * MIB, ..Change::default() });
                }
                assert!(!own.sweep(NOW_MS, 10).1);
                assert_eq!(wanted(&own), [0; 2]);
            }
        }
    }
}
