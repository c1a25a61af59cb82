//! Removes all entries, now or at a set time.
//!
//! A clear is atomic: it holds all locks while it takes out each shard's index as a whole (some
//! tens of nanoseconds per shard, however many entries it has). The reaper frees the entries, or
//! the running snapshot keeps the whole index. An empty order replaces that of an ordered table.
//!
//! The first operation at or after its time applies a scheduled clear: every call compares its
//! `now_ms` with one relaxed load. In a durable table the log applies it
//! ([`Table::apply_due_clear`](crate::Table::apply_due_clear)); until then, readers whose clock has
//! reached the time find nothing. An operation on a [`Locked`](crate::Locked) table may not take
//! locks that its caller did not take, so the time at which the table was locked counts: a clear
//! that becomes due later waits for the locks like any other operation.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use hashbrown::HashTable;

use crate::core::Core;
use crate::entry::EntryBox;
use crate::event::EventKind;
use crate::reaper;
use crate::shard::{Records, Shard, Shards};
use crate::time::{NEVER_MS, Time};
use crate::writer::Writer;

impl Core {
    /// Removes everything atomically; returns how many entries there were.
    pub(crate) fn clear_all(&self) -> u64 {
        self.clear_and(|| ())
    }

    /// Removes everything, and calls `then` while the locks are still held.
    fn clear_and(&self, then: impl FnOnce()) -> u64 {
        let Some(shards) = self.shards() else {
            then();
            return 0;
        };
        let mut locked: Vec<_> = shards.iter().map(Shard::lock).collect();
        let snapshot = self.running_snapshot();
        let records = locked.iter_mut().map(|records| &mut **records);
        let (removed, garbage) = self.clear_locked(shards, snapshot, records);
        let order = self.ordered.as_ref().map(|ordered| ordered.replace(std::iter::empty()));
        then();
        drop(locked);
        reaper::dispose_all(garbage);
        order.into_iter().for_each(reaper::dispose);
        removed
    }

    /// Clears all shards, which the caller has locked; the caller disposes of the garbage after
    /// releasing the locks.
    pub(crate) fn clear_locked<'r>(
        &self,
        shards: &Shards,
        snapshot: u32,
        locked: impl Iterator<Item = &'r mut Records>,
    ) -> (u64, Vec<HashTable<EntryBox>>) {
        // With all locks held no other thread counts, and the counts are those of what was taken.
        let gone = self.gauges.all();
        if gone.entries == 0 && shards.are_bare() {
            return (0, Vec::new());
        }
        if gone.entries > 0 && self.is_observed() {
            self.report(EventKind::Clear, &[], self.version());
        }
        if gone.entries > 0
            && let Some(removals) = &self.removals
        {
            removals.note_all(self.version());
        }
        let mean_bytes = gone.bytes / gone.entries.max(1);
        // First, so that no byte counts both as stored and as kept for the snapshot, which could
        // exceed the limit.
        self.discharge(gone);
        let garbage = locked
            .enumerate()
            .map(|(shard, records)| {
                Writer::new(self, shards, shard, records, snapshot).take_index(mean_bytes)
            })
            .collect();
        (gone.entries as u64, garbage)
    }

    /// Schedules a clear, replacing the previous one.
    pub(crate) fn schedule_clear(&self, at_ms: u64) {
        let _turn = self.clear_turn.lock();
        self.clear_at_ms.store(at_ms, SeqCst);
    }

    /// Applies the scheduled clear if it is due. The caller holds no lock of this table.
    #[inline]
    pub(crate) fn apply_schedule(&self, now_ms: u64) {
        if now_ms >= self.clear_at_ms.load(Relaxed) {
            self.apply_due_clear(now_ms);
        }
    }

    /// Whether a clear is scheduled.
    #[inline]
    pub(crate) fn has_schedule(&self) -> bool {
        self.clear_at_ms.load(Relaxed) != NEVER_MS
    }

    /// For readers: applies the scheduled clear if it is due. In a durable table, which readers do
    /// not change, returns true instead: then the caller must find no entry. The caller holds no
    /// lock of this table.
    #[inline]
    pub(crate) fn is_cleared(&self, now: impl Time) -> bool {
        let at_ms = self.clear_at_ms.load(Relaxed);
        at_ms != NEVER_MS && now.ms() >= at_ms && self.meet_due_clear(now.ms())
    }

    /// The shards as a reader sees them: `None` if nothing was ever written, or a clear hides it.
    #[inline]
    pub(crate) fn shards_to_read(&self, now: impl Time) -> Option<&Shards> {
        if self.is_cleared(now) { None } else { self.shards() }
    }

    #[cold]
    #[inline(never)]
    fn meet_due_clear(&self, now_ms: u64) -> bool {
        if !self.durable {
            self.apply_due_clear(now_ms);
        }
        self.durable
    }

    #[cold]
    fn apply_due_clear(&self, now_ms: u64) {
        // A second thread waits here until the table is clear, and only then reads or writes.
        let _turn = self.clear_turn.lock();
        if now_ms >= self.clear_at_ms.load(SeqCst) {
            // While the locks are held, so that threads that hold some see one state throughout.
            self.clear_and(|| self.clear_at_ms.store(NEVER_MS, SeqCst));
        }
    }
}
