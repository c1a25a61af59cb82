//! A point in time of one table that does not stop writers.
//!
//! Entries are immutable, so a snapshot only has to remember which entries there were, and to keep
//! them. It remembers nothing at first:
//!
//! 1. A snapshot begins by storing a new number in `Core::snapshot`. That store is the point in
//!    time.
//! 2. A writer reads the number once, after it has taken all locks it needs (one shard's, or a
//!    batch's). If the number is that of a snapshot for which a shard is not preserved yet, the
//!    writer first copies the shard's pointers ([`Kept`]).
//! 3. An entry that is removed while its shard is preserved and not visited moves to the shard's
//!    limbo instead of being freed, unless it is younger than the copy.
//! 4. A clear hands the snapshot the whole index of a shard, whether its pointers were copied or
//!    not: one step per shard, however many entries it has.
//! 5. The snapshot visits one shard after another, a part at a time: it takes the copied pointers,
//!    or copies them now, reads the entries without the lock, and then frees the limbo.
//!
//! Why that is a point in time: a write that read the old number has held its locks since before it
//! read. A thread that knows of a write with the new number and then reads the first writer's shard
//! waits for that writer; so the first write may be ordered before the point and the second after
//! it. A visit cannot miss the first write, since it takes the same lock. Causality is kept: a
//! thread that has seen (through a lock) the effect of a write with the new number reads the new
//! number too. A batch reads the number once for all its shards, so the snapshot contains all of
//! the batch or nothing.
//!
//! If the table has a limit, the memory that a snapshot keeps is bounded ([`Core::keep`]). A writer
//! that would keep too much resets the number. The snapshot finds this out in its next step.
//! Writers then release what is kept of a shard, unless the snapshot is visiting it. The sweeper
//! does the same, shard by shard: a full table that refuses writes has no writers.
//!
//! Ownership: copied pointers own nothing. They are valid until their `Kept` is taken from its
//! shard, because until then the shard's index or the limbo owns the entries. Only the snapshot
//! takes a `Kept` that is being visited. A writer or the sweeper may take another one, of a
//! snapshot that was abandoned; the pointers are in it, and are dropped with it.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::vec;

use hashbrown::{HashTable, hash_table};

use crate::core::Core;
use crate::entry::{Alias, Entry, EntryBox};
use crate::limits::Maximum;
use crate::reaper;
use crate::shard::Records;
use crate::table::Table;
use crate::writer::Writer;

/// The part of a limit that a snapshot may keep in a table that evicts: one half. Eviction
/// considers only the bytes of live entries, so it could not free what is kept.
const KEPT_SHARE: i64 = 2;

/// A preserved shard that the snapshot has not finished visiting.
pub(crate) struct Kept {
    preserved: Preserved,
    /// Entries up to this version were present.
    version: u64,
    /// Whether the shard was cleared since: what is in its index now is younger.
    cleared: bool,
    /// Whether the snapshot has taken the entries to visit them.
    visited: bool,
    /// Bytes in memory only because of the snapshot, as counted.
    bytes: i64,
    /// Entries removed from the index (and perhaps some younger ones).
    limbo: Limbo,
}

/// All entries that were present.
enum Preserved {
    /// Each entry is in the index or in limbo.
    Copied(Vec<Alias>),
    /// The index as it was.
    Whole(HashTable<EntryBox>),
}

#[derive(Default)]
struct Limbo {
    entries: Vec<EntryBox>,
    /// The index that was current when the shard was cleared.
    index: HashTable<EntryBox>,
}

impl Kept {
    /// Records a shard's entries; `version` is the table's last.
    pub(crate) fn of(index: &HashTable<EntryBox>, version: u64) -> Kept {
        let bytes = index.len() * size_of::<Alias>();
        let preserved = Preserved::Copied(index.iter().map(EntryBox::alias).collect());
        Kept::new(preserved, version, false, bytes as i64)
    }

    /// Takes over the index of a shard that is cleared, whose entries have this many bytes.
    pub(crate) fn whole(index: HashTable<EntryBox>, version: u64, bytes: i64) -> Kept {
        Kept::new(Preserved::Whole(index), version, true, bytes)
    }

    fn new(preserved: Preserved, version: u64, cleared: bool, bytes: i64) -> Kept {
        Kept { preserved, version, cleared, visited: false, bytes, limbo: Limbo::default() }
    }

    /// Bytes in memory only because of the snapshot.
    pub(crate) fn bytes(&self) -> i64 {
        self.bytes
    }

    /// Whether the snapshot may be reading the entries.
    pub(crate) fn is_visited(&self) -> bool {
        self.visited
    }

    /// Keeps an entry that left the index if the snapshot needs it, and returns it otherwise.
    pub(crate) fn retire(&mut self, entry: EntryBox) -> Option<EntryBox> {
        if !self.needs(&entry.entry()) {
            return Some(entry);
        }
        self.bytes += entry.entry().bytes() as i64;
        self.limbo.entries.push(entry);
        None
    }

    /// Whether the snapshot may need an entry of the shard, so that it must not be freed or
    /// changed.
    pub(crate) fn needs(&self, entry: &Entry<'_>) -> bool {
        !self.cleared && entry.version() <= self.version
    }

    /// Keeps the index of a shard that is cleared, whose entries have this many bytes, and returns
    /// it if all of it is younger.
    pub(crate) fn retire_all(
        &mut self,
        index: HashTable<EntryBox>,
        bytes: i64,
    ) -> HashTable<EntryBox> {
        if std::mem::replace(&mut self.cleared, true) {
            return index;
        }
        self.bytes += bytes;
        self.limbo.index = index;
        HashTable::new()
    }

    /// Releases everything. The caller corrects the counts.
    pub(crate) fn dispose(self) {
        if let Preserved::Whole(index) = self.preserved {
            reaper::dispose(index);
        }
        reaper::dispose(self.limbo.index);
        reaper::dispose(self.limbo.entries);
    }
}

/// A point in time of one table.
///
/// Entries that had expired but were not collected are part of it; so are entries whose scheduled
/// clear is due but was not applied (any operation with the time applies it). While the snapshot
/// lives, entries removed from shards that it has not visited yet stay in memory. If the table has
/// a limit, this memory is bounded: see [`Abandoned`].
pub struct Snapshot<'a> {
    core: Arc<Core>,
    number: u32,
    next_shard: usize,
    /// The rest of the shard before that. Its [`Kept`] stays in place until nothing is left.
    visiting: Visiting,
    table: PhantomData<&'a Table>,
}

/// The snapshot ended early, because the table would have kept too much memory for it: half of the
/// limit in a table that evicts, and what the limit leaves beside the entries in a table that
/// refuses writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned;

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the snapshot was abandoned, because it kept too much memory")
    }
}

impl std::error::Error for Abandoned {}

impl Core {
    /// Counts bytes that are kept only for the snapshot of this number (a negative number for bytes
    /// that are released), and abandons the snapshot if that is too much: writers then preserve
    /// nothing more for it, and release what is kept of the shards that they change.
    pub(crate) fn keep(&self, bytes: i64, snapshot: u32) {
        let kept = self.gauges.kept.fetch_add(bytes, Relaxed) + bytes;
        let all_kept = self.budget.as_ref().map(|it| it.kept.fetch_add(bytes, Relaxed) + bytes);
        if bytes > 0 && snapshot != 0 && self.is_too_much(kept, all_kept.unwrap_or(0)) {
            // An error means that it has ended.
            if self.snapshot.compare_exchange(snapshot, 0, SeqCst, SeqCst).is_ok() {
                self.abandoned.begin(snapshot);
            }
        }
    }

    /// Releases what is kept for a snapshot that was abandoned, in up to `shards_max` shards from
    /// where the last call ended. Returns whether there are more.
    pub(crate) fn sweep_kept(&self, shards_max: usize) -> bool {
        let (Some(shards), Some(left)) = (self.shards(), self.abandoned.left()) else {
            return false;
        };
        let end = left.shard.saturating_add(shards_max).min(self.shard_count);
        for shard in left.shard..end {
            // Writers that read the snapshot's number before it was reset still hold the lock: what
            // they preserve is seen here.
            let mut records = shards.get(shard).lock();
            let snapshot = self.running_snapshot();
            Writer::new(self, shards, shard, &mut records, snapshot).let_go();
        }
        let more = end < self.shard_count;
        self.abandoned.go_on(left, if more { end } else { DONE });
        more
    }

    fn is_too_much(&self, kept: i64, all_kept: i64) -> bool {
        let beyond = |bytes: i64, kept: i64, Maximum { max, refuse }: Maximum| {
            max != i64::MAX && kept > if refuse { max - bytes } else { max / KEPT_SHARE }
        };
        beyond(self.bytes() as i64, kept, self.limits.bytes())
            || self
                .budget
                .as_ref()
                .is_some_and(|budget| beyond(budget.bytes.load(Relaxed), all_kept, budget.limit()))
    }
}

/// The sweeper's remaining work on the snapshot that was abandoned last: its number, and the next
/// shard.
pub(crate) struct Abandonment(AtomicU64);

#[derive(Clone, Copy)]
struct Left {
    word: u64,
    shard: usize,
}

/// The next shard when there is nothing to do.
const DONE: usize = u32::MAX as usize;

impl Default for Abandonment {
    fn default() -> Abandonment {
        Abandonment(AtomicU64::new(DONE as u64))
    }
}

impl Abandonment {
    fn begin(&self, number: u32) {
        self.0.store(u64::from(number) << u32::BITS, SeqCst);
    }

    fn left(&self) -> Option<Left> {
        let word = self.0.load(SeqCst);
        let shard = word as u32 as usize;
        (shard != DONE).then_some(Left { word, shard })
    }

    /// Records how far a call came, unless another snapshot was abandoned meanwhile.
    fn go_on(&self, left: Left, shard: usize) {
        let word = left.word - left.shard as u64 + shard as u64;
        let _ = self.0.compare_exchange(left.word, word, SeqCst, SeqCst);
    }
}

/// Entries of a shard that is being visited.
enum Visiting {
    /// Owned by the index or the limbo.
    Copied(vec::IntoIter<Alias>),
    /// They are freed one by one.
    Whole(hash_table::IntoIter<EntryBox>),
}

impl Visiting {
    fn nothing() -> Visiting {
        Visiting::Copied(Vec::new().into_iter())
    }

    fn is_empty(&self) -> bool {
        match self {
            Visiting::Copied(aliases) => aliases.len() == 0,
            Visiting::Whole(entries) => entries.len() == 0,
        }
    }
}

impl Snapshot<'_> {
    /// `None` while another snapshot of the table lives.
    pub(crate) fn begin<'a>(core: &Arc<Core>) -> Option<Snapshot<'a>> {
        if core.snapshot_taken.swap(true, Acquire) {
            return None;
        }
        // 0 means that none is running.
        let number = core.snapshots.fetch_add(1, SeqCst).wrapping_add(1).max(1);
        core.snapshot.store(number, SeqCst);
        let (core, visiting) = (Arc::clone(core), Visiting::nothing());
        Some(Snapshot { core, number, next_shard: 0, visiting, table: PhantomData })
    }

    /// Visits the next entries, at most `count` of them and of one shard only; false when nothing
    /// was left. With the first entries of a shard, the pointers to all its entries are copied.
    ///
    /// `visit` runs without any lock, so it may take its time and may use the table.
    pub fn next_part(
        &mut self,
        count: usize,
        mut visit: impl FnMut(Entry<'_>),
    ) -> Result<bool, Abandoned> {
        if !self.is_abandoned() && self.visiting.is_empty() && !self.next_shard() {
            return Ok(false);
        }
        if self.is_abandoned() {
            self.leave();
            return Err(Abandoned);
        }
        match &mut self.visiting {
            Visiting::Copied(aliases) => {
                for alias in aliases.by_ref().take(count) {
                    // SAFETY: the shard's `Kept` is in place, since only `leave` takes it before
                    // this snapshot drops, so the index or the limbo owns the entry.
                    visit(unsafe { alias.entry() });
                }
            }
            Visiting::Whole(entries) => {
                entries.by_ref().take(count).for_each(|entry| visit(entry.entry()));
            }
        }
        if self.visiting.is_empty() {
            self.leave();
        }
        Ok(true)
    }

    /// Entries whose pointers the next part may copy before it visits any: those of a shard, or
    /// none if it continues within one.
    pub fn copies_next(&self) -> u64 {
        if self.visiting.is_empty() { self.core.shard_len() } else { 0 }
    }

    /// Whether writers no longer preserve entries for this snapshot. To be called after locking the
    /// shard of the next entries: a writer that changed it without preserving it held the lock
    /// before.
    fn is_abandoned(&self) -> bool {
        self.core.snapshot.load(SeqCst) != self.number
    }

    /// Moves to the next shard. False if there is none.
    fn next_shard(&mut self) -> bool {
        if self.next_shard >= self.core.shard_count || self.core.shards().is_none() {
            return false;
        }
        self.leave();
        self.visiting = self.preserved(self.next_shard);
        self.next_shard += 1;
        true
    }

    /// Takes the entries of a shard, and leaves the rest of its [`Kept`] in place.
    fn preserved(&self, shard: usize) -> Visiting {
        let Some(shards) = self.core.shards() else { return Visiting::nothing() };
        let records = &mut *shards.get(shard).lock();
        if self.is_abandoned() {
            return Visiting::nothing();
        }
        if records.snapshot != self.number {
            records.snapshot = self.number;
            let kept = Kept::of(&records.index, self.core.version());
            self.core.keep(kept.bytes(), self.number);
            records.kept = Some(Box::new(kept));
        }
        let preserved = records.kept.as_mut().map(|kept| {
            kept.visited = true;
            std::mem::replace(&mut kept.preserved, Preserved::Copied(Vec::new()))
        });
        match preserved {
            Some(Preserved::Copied(aliases)) => Visiting::Copied(aliases.into_iter()),
            Some(Preserved::Whole(index)) => Visiting::Whole(index.into_iter()),
            None => Visiting::nothing(),
        }
    }

    /// Ends the work for this snapshot in the shard that was visited last.
    fn leave(&mut self) {
        let visited = std::mem::replace(&mut self.visiting, Visiting::nothing());
        if let Some(shard) = self.next_shard.checked_sub(1) {
            self.release(shard);
        }
        if let Visiting::Whole(entries) = visited {
            reaper::dispose(entries);
        }
    }

    /// Ends the work for this snapshot in the shard.
    fn release(&self, shard: usize) {
        let Some(shards) = self.core.shards() else { return };
        let take = |records: &mut Records| records.kept.take();
        let kept = take(&mut shards.get(shard).lock());
        if let Some(kept) = kept {
            self.core.keep(-kept.bytes, 0);
            kept.dispose();
        }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // A writer that still reads the number holds its lock; `release` waits for it and takes
        // what it preserved.
        self.core.snapshot.store(0, SeqCst);
        self.leave();
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
