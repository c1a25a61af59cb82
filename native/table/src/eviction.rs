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
//! A lowered limit may leave a million entries too many, which are not for one writer to evict. It
//! evicts as much as it added, so that the limit holds under any load, and some hundreds of entries
//! more; later writes and the sweeper do the rest.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

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
/// Entries that one call evicts beyond what its writes added.
const EVICTIONS_MAX: i64 = 256;

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

/// Where a victim is to come from.
enum From<'a> {
    Own(&'a Core),
    Sibling(Arc<Core>),
}

impl Core {
    /// Evicts until the limits are kept, but not what the caller just wrote; if that alone is too
    /// much, not what it wrote last. Ends before, where that would take long and enough was done
    /// for one call. The caller holds no lock of this table.
    pub(crate) fn make_room(&self, written: Written) {
        let Written { first_version, last_version, now_ms, grown } = written;
        let (mut failures, mut evictions, mut freed_bytes) = (0, 0, 0);
        while failures < FAILURES_MAX {
            if evictions >= EVICTIONS_MAX + grown.entries && freed_bytes >= grown.bytes {
                return;
            }
            let spare_version = if failures == 0 { first_version } else { last_version };
            let evicted = match self.source() {
                None => return,
                Some(From::Own(core)) => core.evict_one(now_ms, spare_version),
                Some(From::Sibling(core)) => core.evict_one(now_ms, u64::MAX),
            };
            match evicted {
                Some(bytes) => {
                    (failures, evictions, freed_bytes) = (0, evictions + 1, freed_bytes + bytes);
                }
                None => failures += 1,
            }
        }
    }

    /// Makes room on behalf of no write. Whether there is more to be done.
    pub(crate) fn make_some_room(&self, now_ms: u64) -> bool {
        if self.source().is_none() {
            return false;
        }
        let before = self.tallies.evicted.load(Relaxed);
        let (first_version, last_version) = (u64::MAX, u64::MAX);
        self.make_room(Written { first_version, last_version, now_ms, grown: Change::default() });
        // Where nothing could be evicted, trying again at once is of no use.
        self.tallies.evicted.load(Relaxed) > before && self.source().is_some()
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

    fn must_evict(&self) -> bool {
        self.limits.any()
            && !self.limits.refuse()
            && (self.len() > self.limits.entries_max() as u64
                || self.bytes() > self.limits.bytes_max() as u64)
    }

    /// Takes one entry out. Returns its bytes.
    fn evict_one(&self, now_ms: u64, spare_version: u64) -> Option<i64> {
        let shards = self.shards()?;
        let victim = self.sample(shards, now_ms, spare_version)?;
        let mut records = shards.get(victim.shard).try_lock()?;
        let entry = records.bucket(victim.bucket);
        let bytes = entry.filter(|entry| entry.version() == victim.version)?.bytes() as i64;
        let why = if victim.rank.0 { Removal::Evicted } else { Removal::Expired };
        let snapshot = self.running_snapshot();
        let mut writer = Writer::new(self, shards, victim.shard, &mut records, snapshot);
        let removed = writer.remove(victim.bucket, why);
        let garbage = writer.garbage;
        drop(records);
        reaper::dispose(garbage);
        removed.then_some(bytes)
    }

    /// Looks at neighbouring shards from a random one on until it has seen enough entries.
    fn sample(&self, shards: &Shards, now_ms: u64, spare_version: u64) -> Option<Victim> {
        let (mut best, mut seen) = (None, 0);
        let from = self.map.shard(random());
        for step in 0..self.shard_count {
            if seen >= SAMPLE || (step >= SAMPLE_SHARDS_MAX && best.is_some()) {
                break;
            }
            let shard = (from + step) % self.shard_count;
            let Some(records) = shards.get(shard).try_lock() else { continue };
            seen += sample_shard(records, shard, SAMPLE - seen, now_ms, spare_version, &mut best);
        }
        best
    }
}

/// Looks at up to `count` entries of one shard, from a random bucket on. Returns how many there
/// were.
fn sample_shard(
    mut records: Locked<'_, Records>,
    shard: usize,
    count: usize,
    now_ms: u64,
    spare_version: u64,
    best: &mut Option<Victim>,
) -> usize {
    if records.index.is_empty() {
        return 0;
    }
    let buckets = records.index.num_buckets();
    let expired_possible = records.expiry_min_ms <= now_ms;
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
        if best.as_ref().is_none_or(|best| rank < best.rank) {
            *best = Some(Victim { shard, bucket, version, rank });
        }
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
