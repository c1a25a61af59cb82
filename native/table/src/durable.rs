//! Durable tables: their records change only by a log, which carries out the same changes on every
//! copy of the table, and again after a restart.
//!
//! So each change must be a function of the log alone. One thread at a time applies it, with the
//! log's time, and is the only caller of [`Keyspace::update`], [`Keyspace::edit`],
//! [`Keyspace::clear`], [`Table::write`], [`Table::schedule_clear`], [`Table::apply_due_clear`],
//! [`Table::collect`], and of the writing methods of [`Locked`]. What other threads do leaves no
//! trace:
//!
//! * Readers hide entries that have expired by their own clock, and all entries once a scheduled
//!   clear is due, and remove nothing. Only the access word may record a read
//!   ([`Entry::note_access`](crate::Entry::note_access)); it decides nothing that the log does.
//! * [`Table::sweep`] removes nothing. The log removes expired entries with [`Table::collect`],
//!   which finds all of them in the shards that it names, whatever deadlines are left from before.
//! * There are no limits: nothing is evicted, and no write is refused for lack of room. If an entry
//!   cannot be allocated, the process ends ([`crate::allocation`]).
//!
//! [`Keyspace::update`]: crate::Keyspace::update
//! [`Keyspace::edit`]: crate::Keyspace::edit
//! [`Keyspace::clear`]: crate::Keyspace::clear

use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

use crate::core::Core;
use crate::locked::Locked;
use crate::shard::Records;
use crate::table::Table;
use crate::time::NEVER_MS;

impl Table {
    /// Whether the records change only by a log ([`Options::durable`](crate::Options::durable)).
    /// Takes no lock.
    #[inline]
    pub fn is_durable(&self) -> bool {
        self.shared_core().durable
    }

    /// Whether a scheduled clear is due and has not taken effect. Takes no lock.
    pub fn clear_is_due(&self, now_ms: u64) -> bool {
        now_ms >= self.shared_core().clear_at_ms.load(Relaxed)
    }

    /// Carries out the scheduled clear if it is due. For a durable table: with the log's time,
    /// before each batch of the log. Other tables do this by themselves.
    pub fn apply_due_clear(&self, now_ms: u64) {
        self.shared_core().apply_schedule(now_ms);
    }

    /// The next shards with entries that have expired at `now_ms`, from shard `from` on: one at
    /// least, and no more than together have about `entries_max` such entries. `None` if there are
    /// none up to the last shard. Changes nothing.
    pub fn due_shards(&self, now_ms: u64, from: usize, entries_max: usize) -> Option<Range<usize>> {
        let core = self.shared_core();
        let shards = core.shards()?;
        let (mut range, mut entries) = (None, 0);
        for shard in from..core.shard_count {
            if shards.expiry_hint(shard) > now_ms {
                continue;
            }
            let most = entries_max.saturating_sub(entries).max(1);
            let records = shards.get(shard).lock_to_read();
            let due = records.deadlines.as_ref().map_or(0, |it| it.count_due(now_ms, most + 1));
            if due == 0 {
                continue;
            }
            entries += due;
            if due > most && range.is_some() {
                break;
            }
            range = Some(range.map_or(shard, |Range { start, .. }| start)..shard + 1);
            if entries >= entries_max {
                break;
            }
        }
        range
    }

    /// Removes all entries of these shards that have expired at `now_ms`, and returns their number.
    /// Which ones these are does not depend on how the table came to its present state.
    pub fn collect(&self, shards: Range<usize>, now_ms: u64) -> u64 {
        let core = self.shared_core();
        let Some(all) = core.shards() else { return 0 };
        let mut removed = 0;
        for shard in shards.start..shards.end.min(core.shard_count) {
            // Not compared with the time: after the clock was set back, the first deadline may
            // appear to lie ahead. Removing the due ones corrects that.
            while all.expiry_hint(shard) != NEVER_MS {
                let (here, work) = core.sweep_shard(all, shard, now_ms, usize::MAX);
                removed += here;
                if work == 0 {
                    break;
                }
            }
        }
        removed
    }

    /// Whether the key was created after this version of the table, even if it is absent again.
    /// If that was long ago, the answer may be true without reason. Always true for a table that is
    /// not durable.
    ///
    /// The caller does not hold the key's lock; see [`Locked::created_since`].
    pub fn created_since(&self, key: &[u8], version: u64) -> bool {
        let core = self.shared_core();
        let (hash, shard) = core.locate(key);
        let records = core.shards().map(|shards| shards.get(shard).lock_to_read());
        created_since(core, records.as_deref(), hash, key, version)
    }
}

impl Locked<'_> {
    /// Like [`Table::created_since`], for a key that is locked.
    pub fn created_since(&self, key: &[u8], version: u64) -> bool {
        self.read_records(key, |core, records, hash| {
            created_since(core, Some(records), hash, key, version)
        })
    }
}

/// The caller holds the key's lock, if there are shards.
fn created_since(
    core: &Core,
    records: Option<&Records>,
    hash: u64,
    key: &[u8],
    version: u64,
) -> bool {
    let Some(removals) = &core.removals else { return true };
    // Expired or not: it was created.
    let entry = records.and_then(|records| records.find(hash, key));
    entry.is_some_and(|entry| entry.entry().version() > version) || removals.since(hash, version)
}
