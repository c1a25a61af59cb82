//! A point in time of one table, while writers go on.
//!
//! Entries are immutable, so a snapshot only has to remember which entries there were, and to keep
//! them. It remembers nothing at first:
//!
//! 1. To begin is to store a new number in `Core::snapshot`. That store is the point in time.
//! 2. A writer reads the number once, after it has taken all locks it needs (one shard's, or a
//!    batch's). Where the number is that of a snapshot for which a shard was not preserved yet, the
//!    writer first copies the shard's pointers ([`Kept`]).
//! 3. An entry that goes while its shard is preserved and not visited moves to the shard's limbo
//!    instead of being freed, unless it is younger than the copy.
//! 4. The snapshot visits one shard after another: it takes the copied pointers, or copies them
//!    now, looks at the entries without the lock, and then frees the limbo.
//!
//! Why that is a point in time: a write that read the old number holds its locks since before it
//! read, so whoever could know of a write with the new number and then looks at the first one's
//! shard waits for it; the first may be ordered before the point and the other after it. A visit
//! cannot miss the former, since it takes the same lock. Causality is kept: who has seen (through a
//! lock) what a write with the new number did reads the new number too. A batch reads once for all
//! its shards, so it is in or out as a whole.
//!
//! Ownership: the pointers in `Kept::entries` own nothing. They are valid until their `Kept` is
//! taken from its shard, because the shard's index or the limbo owns the entries until then, and
//! only the snapshot takes a `Kept`.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

use hashbrown::HashTable;

use crate::core::Core;
use crate::entry::{Alias, Entry, EntryBox};
use crate::reaper;
use crate::shard::Records;
use crate::table::Table;

/// One preserved shard that the snapshot did not visit yet.
pub(crate) struct Kept {
    /// Every entry there was.
    entries: Vec<Alias>,
    /// Entries up to this version were there.
    version: u64,
    /// Those of them that are not in the index any more (and perhaps some younger ones).
    pub(crate) limbo: Vec<EntryBox>,
}

impl Kept {
    /// Remembers a shard's entries; `version` is the table's last.
    pub(crate) fn of(index: &HashTable<EntryBox>, version: u64) -> Kept {
        Kept { entries: index.iter().map(EntryBox::alias).collect(), version, limbo: Vec::new() }
    }

    /// Keeps an entry that left the index if it was there, and gives it back otherwise.
    pub(crate) fn retire(&mut self, entry: EntryBox) -> Option<EntryBox> {
        if entry.entry().version() > self.version {
            return Some(entry);
        }
        self.limbo.push(entry);
        None
    }
}

/// A point in time of one table.
///
/// Entries that had expired but were not collected are part of it; so are entries whose scheduled
/// clear is due but was not applied (any operation with the time applies it). While it lives, what
/// is removed from shards it did not visit yet stays in memory.
pub struct Snapshot<'a> {
    core: Arc<Core>,
    number: u32,
    next_shard: usize,
    table: PhantomData<&'a Table>,
}

impl Snapshot<'_> {
    /// `None` while another snapshot of the table lives.
    pub(crate) fn begin<'a>(core: &Arc<Core>) -> Option<Snapshot<'a>> {
        if core.snapshot_taken.swap(true, Acquire) {
            return None;
        }
        // 0 says that none is running.
        let number = core.snapshots.fetch_add(1, SeqCst).wrapping_add(1).max(1);
        core.snapshot.store(number, SeqCst);
        Some(Snapshot { core: Arc::clone(core), number, next_shard: 0, table: PhantomData })
    }

    /// Visits the entries of the next shard; false when there was none left.
    ///
    /// `visit` runs without any lock, so it may take its time and may use the table.
    pub fn next_shard(&mut self, mut visit: impl FnMut(Entry<'_>)) -> bool {
        let shard = self.next_shard;
        if shard >= self.core.shard_count || self.core.shards().is_none() {
            return false;
        }
        self.next_shard += 1;
        let _visited = Visit { snapshot: self, shard };
        for alias in self.preserved(shard) {
            // SAFETY: the shard's `Kept` is in place until `_visited` drops, so index or limbo own
            // the entry until then.
            visit(unsafe { alias.entry() });
        }
        true
    }

    /// Takes the pointers of a shard, leaving the rest of its [`Kept`] in place.
    fn preserved(&self, shard: usize) -> Vec<Alias> {
        let Some(shards) = self.core.shards() else { return Vec::new() };
        let records = &mut *shards.get(shard).lock();
        if records.snapshot != self.number {
            records.snapshot = self.number;
            records.kept = Some(Box::new(Kept::of(&records.index, self.core.version())));
        }
        records.kept.as_mut().map(|kept| std::mem::take(&mut kept.entries)).unwrap_or_default()
    }

    /// Ends what the shard does for this snapshot.
    fn release(&self, shard: usize) {
        let Some(shards) = self.core.shards() else { return };
        let take = |records: &mut Records| records.kept.take();
        let kept = take(&mut shards.get(shard).lock());
        if let Some(kept) = kept {
            reaper::dispose(kept.limbo);
        }
    }
}

/// One visit of a shard, which ends also when the visitor panics.
struct Visit<'a, 's> {
    snapshot: &'a Snapshot<'s>,
    shard: usize,
}

impl Drop for Visit<'_, '_> {
    fn drop(&mut self) {
        self.snapshot.release(self.shard);
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // A writer that still reads the number holds its lock; `release` waits for it and takes
        // what it preserved.
        self.core.snapshot.store(0, SeqCst);
        if self.core.shards().is_some() {
            (self.next_shard..self.core.shard_count).for_each(|shard| self.release(shard));
        }
        self.core.snapshot_taken.store(false, Release);
    }
}

impl fmt::Debug for Snapshot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot")
            .field("number", &self.number)
            .field("next_shard", &self.next_shard)
            .finish_non_exhaustive()
    }
}
