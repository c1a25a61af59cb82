//! Removing everything, now or at a set time.
//!
//! A clear is one step to everybody: it holds all locks while each shard's index is taken out as a
//! whole (some tens of nanoseconds per shard, whatever is in it), and frees the entries when the
//! locks are gone.
//!
//! A scheduled clear is applied by the first operation at or after its time, whichever that is:
//! every call compares its `now_ms` with one relaxed load. An operation on a
//! [`Locked`](crate::Locked) table may not lock what its caller did not, so it clears only the
//! shard it works on, marks it with the number of the clear, and says that the clear is overdue;
//! the next operation outside clears the unmarked rest. Nobody sees the difference, since every
//! other look at the rest comes by here first.
//!
//! The order of an ordered table is not cleared key by key but replaced, with that of the entries
//! that are left: none, or what was written ahead to shards that were cleared ahead.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use hashbrown::HashTable;

use crate::core::Core;
use crate::entry::EntryBox;
use crate::ordered::Leaves;
use crate::readers::Locked;
use crate::reaper;
use crate::shard::{NEVER_MS, Records, Shard, Shards};
use crate::writer::Writer;

impl Core {
    /// Removes everything as one step; returns how many entries that were.
    pub(crate) fn clear_all(&self) -> u64 {
        let Some(shards) = self.shards() else { return 0 };
        let mut locked = lock_all(shards);
        let snapshot = self.running_snapshot();
        let records = locked.iter_mut().map(|records| &mut **records);
        let (removed, garbage) = self.clear_locked(shards, snapshot, records);
        let order = self.reorder([]);
        drop(locked);
        reaper::dispose_all(garbage);
        order.into_iter().for_each(reaper::dispose);
        removed
    }

    /// Clears all shards, which the caller has locked; the garbage is to be dropped after the
    /// locks.
    pub(crate) fn clear_locked<'r>(
        &self,
        shards: &Shards,
        snapshot: u32,
        locked: impl Iterator<Item = &'r mut Records>,
    ) -> (u64, Vec<HashTable<EntryBox>>) {
        let garbage = locked
            .enumerate()
            .map(|(shard, records)| {
                Writer::new(self, shards, shard, records, snapshot).take_index()
            })
            .collect();
        // With all locks held nobody else counts, and what is counted is what was taken.
        let gone = self.gauges.all();
        self.discharge(gone);
        (gone.entries as u64, garbage)
    }

    /// Makes the order that of these shards' entries alone. The caller holds all locks, and drops
    /// what is returned after them.
    pub(crate) fn reorder<'r>(
        &self,
        records: impl IntoIterator<Item = &'r Records>,
    ) -> Option<Leaves> {
        let ordered = self.ordered.as_ref()?;
        let entries = records.into_iter().flat_map(|records| records.index.iter());
        Some(ordered.replace(entries.map(|entry| entry.entry().key())))
    }

    /// Schedules a clear in place of the one that was scheduled before.
    pub(crate) fn schedule_clear(&self, at_ms: u64) {
        let _turn = self.clear_turn.lock();
        if self.clear_overdue.load(SeqCst) {
            self.finish_clear();
        }
        self.clear_at_ms.store(at_ms, SeqCst);
    }

    /// Applies the scheduled clear if its time has come. The caller holds no lock of this table.
    #[inline]
    pub(crate) fn apply_schedule(&self, now_ms: u64) {
        if now_ms >= self.clear_at_ms.load(Relaxed) {
            self.apply_due_clear(now_ms);
        }
    }

    #[cold]
    fn apply_due_clear(&self, now_ms: u64) {
        // Who comes second waits here until the table is clear, and only then reads or writes.
        let _turn = self.clear_turn.lock();
        if now_ms >= self.clear_at_ms.load(SeqCst) {
            self.finish_clear();
        }
    }

    /// Clears what the due clear has left. The caller has the turn.
    fn finish_clear(&self) {
        let Some(shards) = self.shards() else { return self.end_schedule() };
        let mut locked = lock_all(shards);
        let number = self.clear_number.load(SeqCst);
        let snapshot = self.running_snapshot();
        let mut garbage = Vec::new();
        if self.clear_overdue.load(SeqCst) {
            for (shard, records) in locked.iter_mut().enumerate() {
                if records.cleared != number {
                    garbage.push(Writer::new(self, shards, shard, records, snapshot).clear());
                }
            }
        } else {
            let records = locked.iter_mut().map(|records| &mut **records);
            garbage = self.clear_locked(shards, snapshot, records).1;
        }
        let order = self.reorder(locked.iter().map(|records| &**records));
        // While the locks are held, so that those who hold some see one state throughout.
        self.end_schedule();
        drop(locked);
        reaper::dispose_all(garbage);
        order.into_iter().for_each(reaper::dispose);
    }

    fn end_schedule(&self) {
        self.clear_at_ms.store(NEVER_MS, SeqCst);
        self.clear_overdue.store(false, SeqCst);
        self.clear_number.fetch_add(1, SeqCst);
    }
}

fn lock_all(shards: &Shards) -> Vec<Locked<'_, Records>> {
    shards.iter().map(Shard::lock).collect()
}

impl Writer<'_> {
    /// Applies a due clear to this shard alone, for callers that hold locks.
    #[inline]
    pub(crate) fn apply_schedule(&mut self, now_ms: u64) {
        if now_ms >= self.core.clear_at_ms.load(Relaxed) {
            self.apply_due_clear();
        }
    }

    #[cold]
    fn apply_due_clear(&mut self) {
        let number = self.core.clear_number.load(SeqCst);
        if self.records.cleared != number {
            if let Some(ordered) = &self.core.ordered {
                let entries = self.records.index.iter();
                entries.for_each(|entry| ordered.remove(entry.entry().key()));
            }
            reaper::dispose(self.clear());
            self.records.cleared = number;
            self.core.clear_overdue.store(true, SeqCst);
        }
    }
}
