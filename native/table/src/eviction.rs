//! Makes room in tables that have a limit.
//!
//! The policy is sampled least-frequently-used: sample about sixteen entries and evict one that has
//! expired, or else the least used one, or among equals the oldest. There are no lists to maintain:
//! the use frequency is five bits in the pointer, a logarithmic counter that a read increments with
//! decreasing probability. Sampled entries that are not evicted are sometimes decremented, so that
//! formerly popular entries fade: by about one step in the time in which the table replaces all its
//! entries four times.
//!
//! Room is made after the write, when the writer holds no lock, so for that moment a limit may be
//! exceeded by the size of the current writes. All locks here are only tried: the caller may hold
//! locks of sibling tables in the budget, and must not wait for another lock holder. What could not
//! be evicted is therefore left to the next write.
//!
//! One call evicts as many entries as it added, and [`EVICTIONS_MAX`] more; later writes and the
//! sweeper do the rest. There is more to do after a limit was lowered, or if a value takes the room
//! of thousands of entries. Until then, values may exceed the limit only by a bounded amount
//! ([`overshoot_bytes`]): a write that would go further is refused, and evicts all the same. The
//! sweeper then makes room for it as well, so that a retry succeeds. Writes that add less than
//! their own evictions free in any case ([`UNREFUSED_BYTES`]) are never refused, so that a lowered
//! limit does not stop them.
//!
//! [`overshoot_bytes`]: crate::overshoot::overshoot_bytes
//! [`UNREFUSED_BYTES`]: crate::overshoot::UNREFUSED_BYTES
//!
//! If there is much to evict, a sample of sixteen yields four entries under one lock: which of them
//! goes first no longer matters, and this costs a quarter.

use std::cell::Cell;
use std::sync::Arc;

use crate::core::{Change, Core};
use crate::entry::{EntryBox, FREQUENCY_MAX};
use crate::overshoot::{EVICTIONS_MAX, Refusal};
use crate::readers::Locked;
use crate::reaper;
use crate::shard::{Records, Shards};
use crate::writer::{Removal, Writer};

/// Entries examined to find one victim.
const SAMPLE: usize = 16;
/// Shards examined for one sample; more than a few only in tables with fewer entries than shards.
const SAMPLE_SHARDS_MAX: usize = 1_024;
/// Consecutive samples without a victim after which making room is left to the next write.
const FAILURES_MAX: u32 = 8;
/// Entries that a call evicts one per sample; after them it takes [`VICTIMS`] per sample.
const EVICTIONS_CHOSEN: i64 = 8;
/// Entries that a sample yields if there are many to evict.
const VICTIMS: usize = 4;
/// The entry to evict.
struct Victim {
    shard: usize,
    bucket: usize,
    version: u64,
    /// The lowest goes first: expired or not, use, version.
    rank: (bool, u8, u64),
}

/// What a call or a transaction wrote, and when.
#[derive(Clone, Copy)]
pub(crate) struct Written {
    pub(crate) first_version: u64,
    pub(crate) last_version: u64,
    pub(crate) now_ms: u64,
    /// What the writes added, less what they replaced.
    pub(crate) grown: Change,
}

impl Written {
    /// The sum of two writes.
    pub(crate) fn and(self, later: Written) -> Written {
        let Written { last_version, now_ms, mut grown, .. } = later;
        grown.add(self.grown);
        Written { first_version: self.first_version, last_version, now_ms, grown }
    }
}

/// The table that gives up the victim.
enum From<'a> {
    Own(&'a Core),
    Sibling(Arc<Core>),
}

impl Core {
    /// Evicts until the limits are met, sparing what the caller just wrote; if that alone is too
    /// much, sparing only its last write. Stops earlier if that would take long and one call has
    /// done its part. The caller holds no lock of this table. Returns how many entries were
    /// evicted.
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

    /// Makes room independently of any write. Returns whether there is more to do.
    pub(crate) fn make_some_room(&self, now_ms: u64) -> bool {
        if self.source().is_none() {
            // The requested room is there.
            self.limits.want(0);
            self.budget.iter().for_each(|budget| budget.want(0));
            return false;
        }
        let (first_version, last_version, grown) = (u64::MAX, u64::MAX, Change::default());
        let evicted = self.make_room(Written { first_version, last_version, now_ms, grown });
        if evicted == 0 {
            // The requested room cannot be made, and trying again at once is useless.
            self.want_less();
        }
        evicted > 0 && self.source().is_some()
    }

    /// Whether the sweeper has room to make.
    pub(crate) fn lacks_room(&self) -> bool {
        self.source().is_some()
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

    /// Whether this table or its budget must give up entries.
    fn is_over(&self) -> bool {
        self.must_evict() || self.budget.as_ref().is_some_and(|budget| budget.must_evict())
    }

    fn must_evict(&self) -> bool {
        self.limits.must_evict(self.len() as i64, self.bytes() as i64)
    }

    /// Records that a limit refused a write for lack of room that eviction can make. Eviction then
    /// makes this much room beyond what that one limit requires, until the sweeper finds it made,
    /// or finds that it cannot be made.
    #[cold]
    pub(crate) fn want_room(&self, refused_by: Refusal, added_bytes: i64) {
        // A write that never fits requests nothing: everything else would be evicted for it, in
        // vain.
        match (refused_by, &self.budget) {
            (Refusal::Own, _) if added_bytes <= self.limits.bytes().max => {
                self.limits.want(added_bytes);
            }
            (Refusal::Shared, Some(budget)) if added_bytes <= budget.bytes_max() => {
                budget.want(added_bytes);
            }
            _ => {}
        }
    }

    /// Drops the requests for room if nothing could be evicted for them.
    fn want_less(&self) {
        if self.must_evict() {
            self.limits.want(0);
        } else if let Some(budget) = &self.budget {
            budget.want(0);
        }
    }

    /// Evicts the worst entry of a sample. Returns how many were evicted.
    fn evict_one(&self, now_ms: u64, spare_version: u64) -> i64 {
        let Some(shards) = self.shards() else { return 0 };
        let Some(victim) = self.sample(shards, now_ms, spare_version) else { return 0 };
        let Some(records) = shards.get(victim.shard).try_lock() else { return 0 };
        self.evict(shards, records, &[Some(victim)])
    }

    /// Evicts some of the worst entries of one shard. Returns how many; if the shard is sparse,
    /// evicts one entry from a sample of several shards.
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

    /// Evicts entries of one shard, if they are still there.
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

    /// Samples neighbouring shards from a random one on until it has seen enough entries.
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

/// Samples up to `count` entries of one shard, from a random bucket on. Returns how many there
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
        // One in 64 fades.
        dice = dice.rotate_right(6);
        if dice & 63 == 0 {
            entry.set_frequency(entry.frequency().saturating_sub(1));
        }
    }
    seen
}

/// Records a use of an entry: at first every use counts, from two on every second, from four on
/// every fourth, and so on.
pub(crate) fn note_use(entry: &mut EntryBox) {
    let frequency = entry.frequency();
    let doubts = (1u64 << (frequency / 2)) - 1;
    if frequency < FREQUENCY_MAX && (doubts == 0 || random() & doubts == 0) {
        entry.set_frequency(frequency + 1);
    }
}

/// A random number that need not be secure (xorshift64*, one state per thread).
pub(crate) fn random() -> u64 {
    thread_local! {
        static STATE: Cell<u64> = const { Cell::new(0) };
    }
    STATE.with(|state| {
        let mut x = state.get();
        if x == 0 {
            // The address differs between threads, which suffices.
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

    /// A table with a limit and a sibling without one, in a budget, with these byte counts, but no
    /// entries that could be evicted.
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

    /// Whether a write of this many bytes is refused, alone or in an operation of several writes.
    fn refused(table: &Table, bytes: i64) -> [bool; 2] {
        let alone = table.core().charge(Change { bytes, ..Change::default() }, bytes);
        let growth = Growth { entries: 1, bytes: bytes as u64, largest_bytes: bytes as u64 };
        [alone.is_err(), reserve(table, &growth).is_err()]
    }

    fn reserve(table: &Table, growth: &Growth) -> Result<Change, crate::Full> {
        table.core().reserve(&table.core().limits_now(), growth)
    }

    /// Bytes of room requested below the table's own limit, and below the shared one.
    fn wanted(table: &Table) -> [i64; 2] {
        let (limits, budget) = (&table.core().limits, &table.core().budget);
        let shared = budget.as_ref().map_or(0, |budget| budget.bytes_max() - budget.bytes_aim());
        [limits.wanted_bytes(), shared]
    }

    #[test]
    fn only_the_limit_that_refused_a_write_requests_room() {
        let [own, _sibling] = siblings(16 * MIB, 64 * MIB, 24 * MIB, 36 * MIB);
        assert_eq!(refused(&own, 8 * MIB), [true; 2]);
        assert_eq!(wanted(&own), [8 * MIB, 0]);
        let [own, _sibling] = siblings(64 * MIB, 64 * MIB, MIB, 71 * MIB);
        assert_eq!(refused(&own, 8 * MIB), [true; 2]);
        assert_eq!(wanted(&own), [0, 8 * MIB]);
        // A write that never fits requests nothing, nor does a transaction whose writes never fit
        // together.
        let (bytes, largest_bytes) = (65 << 20, 1 << 20);
        let growth = Growth { entries: 65, bytes, largest_bytes };
        assert!(reserve(&own, &growth).is_err());
        assert_eq!(wanted(&own), [0, 8 * MIB]);
        assert_eq!(refused(&own, 65 * MIB), [true; 2]);
        assert_eq!(wanted(&own), [0, 8 * MIB]);
    }

    #[test]
    fn a_request_for_room_ends_when_the_room_is_made_or_cannot_be_made() {
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
