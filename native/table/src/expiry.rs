//! The sweeper: proactive removal of expired entries.
//!
//! Expired entries are invisible to everybody at once (each look compares the time); sweeping only
//! gives their memory back. Each shard keeps a lower bound of its expiries, and a copy of it where
//! the sweeper reads without locks. A bound may be too early, when the entry that caused it was
//! replaced or removed; then the sweep of its shard finds nothing and corrects it.

use std::sync::atomic::Ordering::Relaxed;

use crate::core::Core;
use crate::reaper;
use crate::writer::Writer;

impl Core {
    /// See [`Table::sweep`](crate::Table::sweep).
    pub(crate) fn sweep(&self, now_ms: u64, shards_max: usize) -> (u64, bool) {
        let (removed, due) = self.sweep_expired(now_ms, shards_max);
        let more = self.make_some_room(now_ms);
        (removed, due || more)
    }

    fn sweep_expired(&self, now_ms: u64, shards_max: usize) -> (u64, bool) {
        self.apply_schedule(now_ms);
        let Some(shards) = self.shards() else { return (0, false) };
        if !self.has_expiring() {
            return (0, false);
        }
        let from = self.sweep_from.load(Relaxed);
        let (mut removed, mut swept) = (0, 0);
        for shard in (from..self.shard_count).chain(0..from) {
            if shards.expiry_hint(shard) > now_ms {
                continue;
            }
            if swept == shards_max {
                self.sweep_from.store(shard, Relaxed);
                return (removed, true);
            }
            let mut records = shards.get(shard).lock();
            let snapshot = self.running_snapshot();
            let mut writer = Writer::new(self, shards, shard, &mut records, snapshot);
            removed += writer.remove_expired(now_ms);
            let garbage = writer.garbage;
            drop(records);
            reaper::dispose(garbage);
            swept += 1;
        }
        (removed, false)
    }
}
