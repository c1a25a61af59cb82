//! Removes expired entries, in particular those that nobody reads.
//!
//! Expired entries become invisible to everyone at once (each read compares the time); sweeping
//! only frees their memory. Its cost does not depend on the number of entries: each shard knows its
//! [deadlines](crate::deadlines), and the first one is copied to a place that the sweeper reads
//! without locks.

use std::sync::atomic::Ordering::Relaxed;

use hashbrown::HashTable;

use crate::core::Core;
use crate::deadlines::{Deadlines, Fragment};
use crate::entry::EntryBox;
use crate::hash::KeyHash;
use crate::prefetch;
use crate::reaper;
use crate::shard::{Records, Shards};
use crate::time::NEVER_MS;
use crate::writer::{Removal, Writer};

/// Deadlines processed while a shard is locked.
const LOCKED_WORK_MAX: usize = 128;
/// Shards that are prefetched together. If entries expire one after another, each is in another
/// shard, and everything that is needed to remove it has long left the caches.
const SHARDS_AHEAD: usize = 16;
/// Entries of one shard that are prefetched together.
const ENTRIES_AHEAD: usize = 8;

impl Core {
    /// See [`Table::sweep`](crate::Table::sweep).
    pub(crate) fn sweep(&self, now_ms: u64, work_max: usize) -> (u64, bool) {
        if self.durable {
            return (0, self.sweep_abandoned(work_max));
        }
        let (removed, due) = self.sweep_expired(now_ms, work_max);
        let preserved = self.sweep_abandoned(work_max);
        let more = self.make_some_room(now_ms);
        (removed, due || preserved || more)
    }

    /// See [`Table::is_at_rest`](crate::Table::is_at_rest).
    pub(crate) fn is_at_rest(&self) -> bool {
        !self.has_expiring() && !self.has_schedule() && !self.has_abandoned() && !self.lacks_room()
    }

    fn sweep_expired(&self, now_ms: u64, work_max: usize) -> (u64, bool) {
        self.apply_schedule(now_ms);
        let Some(shards) = self.shards() else { return (0, false) };
        if !self.has_expiring() {
            return (0, false);
        }
        let from = self.sweep_from.load(Relaxed);
        let all = (from..self.shard_count).chain(0..from);
        let mut due = all.filter(|&shard| shards.expiry_hint(shard) <= now_ms);
        let (mut removed, mut work_left) = (0, work_max);
        loop {
            let (mut group, mut count) = ([0; SHARDS_AHEAD], 0);
            for shard in due.by_ref().take(SHARDS_AHEAD.min(work_left.max(1))) {
                group[count] = shard;
                count += 1;
            }
            if count == 0 {
                return (removed, false);
            }
            let group = &group[..count];
            prefetch::fetch_due(shards, group);
            for &shard in group {
                while shards.expiry_hint(shard) <= now_ms {
                    if work_left == 0 {
                        self.sweep_from.store(shard, Relaxed);
                        return (removed, true);
                    }
                    let (here, work) = self.sweep_shard(shards, shard, now_ms, work_left);
                    removed += here;
                    // Locking a shard counts as work, so that a call ends whatever it finds.
                    work_left -= work.max(1);
                }
            }
        }
    }

    /// Estimates how long entries with an expiry have left, on average, from a sample of their
    /// deadlines. `None` if no entry has an expiry. An expiry after seven weeks counts as less.
    pub(crate) fn mean_left_ms(&self, now_ms: u64) -> Option<u64> {
        /// Deadlines in the sample, and those of one shard.
        const SAMPLE: u64 = 512;
        const SHARD_SAMPLE: usize = 16;
        let shards = self.shards()?;
        let (mut sum, mut count) = (0_u64, 0);
        for shard in 0..self.shard_count {
            if shards.expiry_hint(shard) == NEVER_MS {
                continue;
            }
            let records = shards.get(shard).lock_to_read();
            let Some(deadlines) = &records.deadlines else { continue };
            let (left_ms, found) = deadlines.sample_left_ms(now_ms, SHARD_SAMPLE);
            (sum, count) = (sum.saturating_add(left_ms), count + found);
            if count >= SAMPLE {
                break;
            }
        }
        sum.checked_div(count)
    }

    /// Removes expired entries of one shard, processing at most `work_max` deadlines. Returns how
    /// many entries it removed, and how many deadlines it processed.
    pub(crate) fn sweep_shard(
        &self,
        shards: &Shards,
        shard: usize,
        now_ms: u64,
        work_max: usize,
    ) -> (u64, usize) {
        let mut records = shards.get(shard).lock();
        let snapshot = self.running_snapshot();
        let mut writer = Writer::new(self, shards, shard, &mut records, snapshot);
        let swept = writer.remove_expired(now_ms, work_max.min(LOCKED_WORK_MAX));
        let garbage = writer.garbage;
        drop(records);
        reaper::dispose(garbage);
        swept
    }
}

impl Writer<'_> {
    /// Removes expired entries, processing at most `work_max` deadlines. Returns how many entries
    /// it removed, and how many deadlines it processed.
    pub(crate) fn remove_expired(&mut self, now_ms: u64, work_max: usize) -> (u64, usize) {
        let (mut removed, mut work) = (0, 0);
        loop {
            let mut due = [Fragment::default(); ENTRIES_AHEAD];
            let count = self.pop_due(&mut due, work_max - work, now_ms);
            if count == 0 {
                break;
            }
            work += count;
            let due = &due[..count];
            self.fetch(due);
            due.iter().for_each(|&fragment| removed += self.remove_fragment(fragment, now_ms));
        }
        self.shards.note_first_deadline(self.shard, self.records);
        (removed, work)
    }

    /// Removes deadlines that have passed, `max` at most. Returns how many.
    fn pop_due(&mut self, due: &mut [Fragment], max: usize, now_ms: u64) -> usize {
        self.change_deadlines(|records| {
            let Some(deadlines) = &mut records.deadlines else { return 0 };
            let mut count = 0;
            for place in due.iter_mut().take(max) {
                let Some(fragment) = deadlines.pop_due(now_ms) else { break };
                *place = fragment;
                count += 1;
            }
            count
        })
    }

    /// Prefetches the entries of these fragments, so that their cache misses overlap.
    fn fetch(&self, due: &[Fragment]) {
        if due.len() > 1 {
            let buckets = self.records.index.num_buckets();
            let hashes = || due.iter().filter_map(|fragment| fragment.hashes(buckets).next());
            let hint = self.shards.hint(self.shard);
            hashes().for_each(|hash| hint.fetch(hash));
            hashes().for_each(|hash| prefetch::fetch_entries_of(self.records, hash, 1));
        }
    }

    /// Removes the expired entries of a fragment, and reinserts a deadline if others remain.
    /// Returns how many it removed.
    fn remove_fragment(&mut self, fragment: Fragment, now_ms: u64) -> u64 {
        let mut removed = 0;
        for hash in fragment.hashes(self.records.index.num_buckets()) {
            while let Some(bucket) = self.find_expired(hash, fragment, now_ms) {
                removed += u64::from(self.remove(bucket, Removal::Expired));
            }
        }
        // Other entries of the same fragment, or an entry that replaced the one whose deadline this
        // was.
        if let Some(at_ms) = earliest_ms(&self.records.index, fragment, &self.core.hash) {
            self.change_deadlines(|records| records.add_deadline(fragment, at_ms, now_ms));
        }
        removed
    }

    /// The bucket of an expired entry of this fragment.
    fn find_expired(&self, hash: u64, fragment: Fragment, now_ms: u64) -> Option<usize> {
        let hasher = &self.core.hash;
        self.records.index.find_bucket_index(hash, |entry| {
            entry.entry().is_expired(now_ms) && fragment_of(entry, hasher) == fragment
        })
    }

    /// Records the expiry of an entry that replaces one with another expiry, or with none.
    #[inline]
    pub(crate) fn note_expiry(
        &mut self,
        hash: u64,
        old_ms: Option<u64>,
        new_ms: Option<u64>,
        now_ms: u64,
    ) {
        match (old_ms, new_ms) {
            (None, None) => {}
            (Some(_), None) => self.forget_expiry(),
            // The old deadline is early enough.
            (Some(old_ms), Some(new_ms)) if old_ms <= new_ms => {}
            (_, Some(new_ms)) => self.expire_at(hash, old_ms.is_none(), new_ms, now_ms),
        }
    }

    fn expire_at(&mut self, hash: u64, is_new: bool, at_ms: u64, now_ms: u64) {
        let hasher = &self.core.hash;
        self.change_deadlines(|records| {
            let deadlines =
                records.deadlines.get_or_insert_with(|| Box::new(Deadlines::new(now_ms)));
            if is_new {
                deadlines.add_entry();
            }
            if deadlines.is_crowded() {
                records.tidy_deadlines(hasher);
            }
            records.add_deadline(Fragment::of(hash), at_ms, now_ms);
        });
        self.shards.note_first_deadline(self.shard, self.records);
    }

    /// Records that an entry with an expiry was removed, or lost its expiry.
    pub(crate) fn forget_expiry(&mut self) {
        let hasher = &self.core.hash;
        self.change_deadlines(|records| {
            let Some(deadlines) = &mut records.deadlines else { return };
            if !deadlines.remove_entry() {
                records.deadlines = None;
            } else if deadlines.is_abandoned() {
                records.tidy_deadlines(hasher);
            }
        });
        self.shards.note_first_deadline(self.shard, self.records);
    }

    /// Changes the deadlines, and records how many bytes they take afterwards.
    #[inline]
    fn change_deadlines<R>(&mut self, change: impl FnOnce(&mut Records) -> R) -> R {
        let before = self.records.deadline_bytes();
        let result = change(self.records);
        self.shards.note_deadline_bytes(before, self.records.deadline_bytes());
        result
    }
}

impl Records {
    fn add_deadline(&mut self, fragment: Fragment, at_ms: u64, now_ms: u64) {
        if let Some(deadlines) = &mut self.deadlines {
            deadlines.push(fragment, at_ms, now_ms);
        }
    }

    /// Drops deadlines that no entry needs.
    #[cold]
    fn tidy_deadlines(&mut self, hasher: &KeyHash) {
        let index = &self.index;
        if let Some(deadlines) = &mut self.deadlines {
            deadlines.replace(|fragment| earliest_ms(index, fragment, hasher));
        }
    }
}

/// When the first entry of a fragment expires.
fn earliest_ms(index: &HashTable<EntryBox>, fragment: Fragment, hasher: &KeyHash) -> Option<u64> {
    let mut earliest_ms: Option<u64> = None;
    for hash in fragment.hashes(index.num_buckets()) {
        // No entry matches, so the search visits all candidates.
        let _ = index.find(hash, |entry| {
            if let Some(at_ms) = entry.entry().expires_at_ms()
                && fragment_of(entry, hasher) == fragment
            {
                earliest_ms = Some(earliest_ms.map_or(at_ms, |earliest_ms| earliest_ms.min(at_ms)));
            }
            false
        });
    }
    earliest_ms
}

fn fragment_of(entry: &EntryBox, hasher: &KeyHash) -> Fragment {
    Fragment::of(hasher.of(entry.entry().key()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::FileFailurePersistence;

    use crate::keyspace::Keyspace;
    use crate::limits::Limits;
    use crate::meta::Meta;
    use crate::options::Options;
    use crate::shard::Shard;
    use crate::table::Table;

    use super::*;

    const START_MS: u64 = 1_800_000_000_000;

    /// Panics if the sweeper could miss an entry, if there are too many deadlines, or if the bytes
    /// of indexes and deadlines differ from the count.
    fn assert_sound(core: &Core) {
        let Some(shards) = core.shards() else { return };
        let allocated = |shard: &Shard| {
            let records = shard.lock();
            records.index.allocation_size() + records.deadline_bytes()
        };
        let allocated: usize = shards.iter().map(allocated).sum();
        assert_eq!(shards.bytes() - Shards::new(core.shard_count).bytes(), allocated);
        for (number, shard) in shards.iter().enumerate() {
            let records = shard.lock();
            let mut expiring = 0;
            for entry in &records.index {
                if let Some(at_ms) = entry.entry().expires_at_ms() {
                    let deadlines = records.deadlines.as_ref().expect("deadlines");
                    assert!(deadlines.covers(fragment_of(entry, &core.hash), at_ms));
                    expiring += 1;
                }
            }
            let Some(deadlines) = &records.deadlines else { continue };
            assert_eq!(deadlines.entries(), expiring);
            assert!(deadlines.len() <= 4 * expiring as usize + 64);
            assert_eq!(shards.expiry_hint(number), deadlines.first_ms());
        }
    }

    #[test]
    fn the_mean_time_to_live_is_estimated() {
        let table = Table::new(Options { shards: Some(64), ..Options::default() });
        assert_eq!(table.mean_ttl_ms(START_MS), 0);
        let put = |key: &str, expires_at_ms| {
            let meta = Meta { expires_at_ms, ..Meta::default() };
            table.update(key.as_bytes(), START_MS, |record| record.put(&[b"v"], meta)).unwrap();
        };
        put("for ever", None);
        put("one", Some(START_MS + 5_000));
        assert_eq!(table.mean_ttl_ms(START_MS + 1_000), 4_000);
        assert_eq!(table.mean_ttl_ms(START_MS + 9_000), 0);
        for number in 1..=10_000 {
            put(&format!("key {number}"), Some(START_MS + 10 * number));
        }
        let mean_ms = table.mean_ttl_ms(START_MS);
        assert!((40_000..60_000).contains(&mean_ms), "{mean_ms}");
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 2 } else { 300 },
            failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
            ..ProptestConfig::default()
        })]

        #[test]
        fn every_entry_with_an_expiry_has_a_deadline(
            operations in prop::collection::vec((0..16u8, 0..600u16, 0..2_000u64), 0..1_500),
            shards in 1..4usize,
        ) {
            let core = Core::new(Options {
                shards: Some(shards),
                seed: Some(1),
                ..Options::default()
            });
            let table = Table::of(core);
            let core = table.core();
            let mut now_ms = START_MS;
            for (number, (operation, key, after_ms)) in operations.into_iter().enumerate() {
                let key = key.to_le_bytes();
                let expires_at_ms = (operation < 10).then_some(now_ms + after_ms);
                let meta = Meta { expires_at_ms, ..Meta::default() };
                match operation {
                    0..=10 => {
                        table.update(&key, now_ms, |record| record.put(&[], meta)).expect("room");
                    }
                    11 => drop(table.update(&key, now_ms, |record| record.remove())),
                    12 => now_ms += after_ms / 64,
                    13 => drop(table.sweep(now_ms, after_ms as usize / 64)),
                    14 if after_ms < 20 => drop(table.clear()),
                    15 if after_ms < 100 => {
                        let limits = Limits { entries_max: Some(100), ..Limits::default() };
                        table.set_limits(limits);
                        table.sweep(now_ms, 0);
                        table.set_limits(Limits::default());
                    }
                    _ => {}
                }
                if number % 64 == 0 {
                    assert_sound(core);
                }
            }
            assert_sound(core);
            while table.sweep(now_ms, 7).1 {}
            assert_sound(core);
            for shard in core.shards().into_iter().flat_map(|shards| shards.iter()) {
                for entry in &shard.lock().index {
                    prop_assert!(!entry.entry().is_expired(now_ms));
                }
            }
        }
    }
}
