//! A point in time of one table that does not stop writers.
//!
//! Entries are immutable, so a snapshot only has to remember which entries there were, and to keep
//! them. It remembers nothing at first:
//!
//! 1. A snapshot begins by storing a new number in `Core::snapshot`. That store is the point in
//!    time.
//! 2. A writer reads the number once, after it has taken all locks it needs (one shard's, or a
//!    transaction's). If the number is that of a snapshot for which a shard is not preserved yet,
//!    the writer first copies the shard's pointers ([`PreservedShard`]).
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
//! number too. A transaction reads the number once for all its shards, so the snapshot contains all
//! of the transaction or nothing.
//!
//! If the table has a limit, the memory that a snapshot keeps is bounded
//! ([`Core::count_preserved`]). A writer that would keep too much resets the number. The snapshot
//! finds this out in its next step. Writers then release what is kept of a shard, unless the
//! snapshot is visiting it. The sweeper does the same, shard by shard: a full table that refuses
//! writes has no writers.
//!
//! The log of a durable table cannot wait for a snapshot of its own: it abandons the running one
//! and begins another. The owner of the abandoned one may be reading the entries of a shard at that
//! time. So a shard's `PreservedShard` may be followed by those of earlier snapshots that are being
//! visited ([`PreservedShard::earlier`]). An entry that leaves the index goes to the limbo of the
//! first that needs it, and an index as a whole, too; when its snapshot ends, the next one inherits
//! that limbo.
//!
//! Ownership: copied pointers own nothing. They are valid until their `PreservedShard` is taken
//! from its shard, because until then the shard's index, its limbo, or that of a later snapshot
//! owns the entries. Only the snapshot takes a `PreservedShard` that is being visited. A writer,
//! the sweeper or a later snapshot may take another one, of a snapshot that was abandoned; the
//! pointers are in it, and are dropped with it.

use std::fmt;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::vec;

use hashbrown::{HashTable, hash_table};

use crate::abandonment::DONE;
use crate::core::Core;
use crate::entry::{Alias, Entry, EntryBox};
use crate::limits::Maximum;
use crate::preserved::{PreservedEntries, PreservedShard};
use crate::reaper;
use crate::shard::Records;
use crate::table::Table;

/// The part of a limit that a snapshot may keep in a table that evicts: one half. Eviction
/// considers only the bytes of live entries, so it could not free what is kept.
const PRESERVED_SHARE: i64 = 2;

/// A point in time of one table.
///
/// Entries that had expired but were not collected are part of it; so are entries whose scheduled
/// clear is due but was not applied (any operation with the time applies it). While the snapshot
/// lives, entries removed from shards that it has not visited yet stay in memory. If the table has
/// a limit, this memory is bounded: see [`Abandoned`].
pub struct Snapshot<'a> {
    core: Arc<Core>,
    number: u32,
    /// When a clear was scheduled at the beginning.
    clear_at_ms: u64,
    next_shard: usize,
    /// The rest of the shard before that. Its [`PreservedShard`] stays in place until nothing is
    /// left.
    visiting: Visiting,
    table: PhantomData<&'a Table>,
}

/// The snapshot ended early, because the table would have kept too much memory for it (half of the
/// limit in a table that evicts, and what the limit leaves beside the entries in a table that
/// refuses writes), or because the log of a durable table needed a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Abandoned;

impl fmt::Display for Abandoned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the snapshot was abandoned: it kept too much memory, or the log needed one")
    }
}

impl std::error::Error for Abandoned {}

impl Records {
    /// Takes what is kept for this snapshot. What an earlier one still needs of it stays.
    fn take_preserved(&mut self, number: u32) -> Option<Box<PreservedShard>> {
        let mut place = &mut self.preserved;
        while place.as_ref().is_some_and(|preserved| preserved.number != number) {
            place = &mut place.as_mut()?.earlier;
        }
        let mut taken = place.take()?;
        if let Some(mut earlier) = taken.earlier.take() {
            earlier.inherit(&mut taken);
            *place = Some(earlier);
        }
        Some(taken)
    }

    /// Takes what is kept for another snapshot than this one, unless that is reading it.
    fn take_abandoned(&mut self, running: u32) -> Option<Box<PreservedShard>> {
        // Only the first one of the shard may be unread: the others were kept because they are not.
        let preserved = self.preserved.as_ref()?;
        let number = preserved.number;
        if number == running || preserved.visited { None } else { self.take_preserved(number) }
    }
}

impl Core {
    /// Keeps a shard's entries for the running snapshot.
    pub(crate) fn preserve(&self, records: &mut Records, number: u32) {
        self.release_abandoned(records, number);
        records.snapshot = number;
        let mut preserved = PreservedShard::of(number, &records.index, self.version());
        self.count_preserved(preserved.bytes(), number);
        preserved.earlier = records.preserved.take();
        records.preserved = Some(Box::new(preserved));
    }

    /// Keeps the whole index of a shard that is cleared, whose entries have this many bytes.
    /// Returns it if that is not possible, because an earlier snapshot is reading its entries.
    pub(crate) fn preserve_whole(
        &self,
        records: &mut Records,
        number: u32,
        index: HashTable<EntryBox>,
        bytes: i64,
    ) -> Option<HashTable<EntryBox>> {
        self.release_abandoned(records, number);
        if records.preserved.is_some() {
            return Some(index);
        }
        records.snapshot = number;
        self.count_preserved(bytes, number);
        let preserved = PreservedShard::new(
            number,
            PreservedEntries::Whole(index),
            self.version(),
            true,
            bytes,
        );
        records.preserved = Some(Box::new(preserved));
        None
    }

    /// Releases what a shard keeps for a snapshot that was abandoned; `running` is the number of
    /// the running one.
    pub(crate) fn release_abandoned(&self, records: &mut Records, running: u32) {
        if let Some(preserved) = records.take_abandoned(running) {
            self.count_preserved(-preserved.bytes(), 0);
            preserved.dispose();
        }
    }

    /// Counts bytes that are kept only for the snapshot of this number (a negative number for bytes
    /// that are released), and abandons the snapshot if that is too much: writers then preserve
    /// nothing more for it, and release what is kept of the shards that they change.
    pub(crate) fn count_preserved(&self, bytes: i64, snapshot: u32) {
        let preserved = self.gauges.preserved.fetch_add(bytes, Relaxed) + bytes;
        let all_preserved =
            self.budget.as_ref().map(|it| it.preserved.fetch_add(bytes, Relaxed) + bytes);
        if bytes > 0 && snapshot != 0 && self.is_too_much(preserved, all_preserved.unwrap_or(0)) {
            // An error means that it has ended.
            if self.snapshot.compare_exchange(snapshot, 0, SeqCst, SeqCst).is_ok() {
                self.abandoned.begin(snapshot);
            }
        }
    }

    /// Releases what is kept for a snapshot that was abandoned, in up to `shards_max` shards from
    /// where the last call ended. Returns whether there are more.
    pub(crate) fn sweep_abandoned(&self, shards_max: usize) -> bool {
        let (Some(shards), Some(left)) = (self.shards(), self.abandoned.left()) else {
            return false;
        };
        let end = left.shard.saturating_add(shards_max).min(self.shard_count);
        for shard in left.shard..end {
            // Writers that read the snapshot's number before it was reset still hold the lock: what
            // they preserve is seen here.
            let mut records = shards.get(shard).lock();
            self.release_abandoned(&mut records, self.running_snapshot());
        }
        let more = end < self.shard_count;
        self.abandoned.go_on(left, if more { end } else { DONE });
        more
    }

    /// Whether an abandoned snapshot has something left.
    pub(crate) fn has_abandoned(&self) -> bool {
        self.abandoned.left().is_some()
    }

    fn is_too_much(&self, preserved: i64, all_preserved: i64) -> bool {
        let beyond = |bytes: i64, preserved: i64, Maximum { max, refuse }: Maximum| {
            max != i64::MAX && preserved > if refuse { max - bytes } else { max / PRESERVED_SHARE }
        };
        beyond(self.bytes() as i64, preserved, self.limits.bytes())
            || self.budget.as_ref().is_some_and(|budget| {
                beyond(budget.bytes.load(Relaxed), all_preserved, budget.limit())
            })
    }
}

/// Entries of a shard that is being visited.
enum Visiting {
    /// Owned by the index or the limbo.
    Copied(vec::IntoIter<Alias>),
    /// They are freed one by one. The second is the first of them, if a visit ended in it.
    Whole(hash_table::IntoIter<EntryBox>, Option<EntryBox>),
}

impl Visiting {
    fn nothing() -> Visiting {
        Visiting::Copied(Vec::new().into_iter())
    }

    fn is_empty(&self) -> bool {
        match self {
            Visiting::Copied(aliases) => aliases.len() == 0,
            Visiting::Whole(entries, first) => entries.len() == 0 && first.is_none(),
        }
    }
}

impl Snapshot<'_> {
    /// `None` while another snapshot of the table lives.
    pub(crate) fn begin<'a>(core: &Arc<Core>) -> Option<Snapshot<'a>> {
        core.snapshots_alive.compare_exchange(0, 1, SeqCst, SeqCst).ok()?;
        let snapshot = Snapshot::new(core);
        // An error means that the log has begun one meanwhile.
        let begun = core.snapshot.compare_exchange(0, snapshot.number, SeqCst, SeqCst);
        begun.is_ok().then_some(snapshot)
    }

    /// Like [`Snapshot::begin`]; abandons a running snapshot instead of refusing.
    pub(crate) fn begin_for_log<'a>(core: &Arc<Core>) -> Snapshot<'a> {
        core.snapshots_alive.fetch_add(1, SeqCst);
        let snapshot = Snapshot::new(core);
        let running = core.snapshot.swap(snapshot.number, SeqCst);
        if running != 0 {
            core.abandoned.begin(running);
        }
        snapshot
    }

    /// The caller has counted it as alive, and lets it begin.
    fn new<'a>(core: &Arc<Core>) -> Snapshot<'a> {
        // Before the point in time: what is written after a clear that is applied meanwhile is not
        // part of what that clear hides.
        let clear_at_ms = core.clear_at_ms.load(SeqCst);
        // 0 means that none is running.
        let number = core.snapshots.fetch_add(1, SeqCst).wrapping_add(1).max(1);
        let (core, visiting, next_shard) = (Arc::clone(core), Visiting::nothing(), 0);
        Snapshot { core, number, clear_at_ms, next_shard, visiting, table: PhantomData }
    }

    /// Whether a clear hides all entries at this time: one that was scheduled when the snapshot
    /// began, and had not been applied.
    pub fn is_cleared(&self, now_ms: u64) -> bool {
        now_ms >= self.clear_at_ms
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
        self.next_part_until(count, |entry| {
            visit(entry);
            ControlFlow::Continue(())
        })
    }

    /// Like [`Snapshot::next_part`], but the part ends where `visit` breaks, and the next one
    /// begins with the same entry: so work on an entry that takes long can stop inside it.
    pub fn next_part_until(
        &mut self,
        count: usize,
        mut visit: impl FnMut(Entry<'_>) -> ControlFlow<()>,
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
                for _ in 0..count {
                    let Some(alias) = aliases.as_slice().first() else { break };
                    // SAFETY: the shard's `PreservedShard` is in place, since only `leave` takes it
                    // before this snapshot drops, so the index, its limbo, or that of a later
                    // snapshot owns the entry.
                    if visit(unsafe { alias.entry() }).is_break() {
                        break;
                    }
                    aliases.next();
                }
            }
            Visiting::Whole(entries, first) => {
                for _ in 0..count {
                    let Some(entry) = first.take().or_else(|| entries.next()) else { break };
                    if visit(entry.entry()).is_break() {
                        *first = Some(entry);
                        break;
                    }
                }
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
        self.visiting = self.entries_of(self.next_shard);
        self.next_shard += 1;
        true
    }

    /// Takes the entries of a shard, and leaves the rest of its [`PreservedShard`] in place.
    fn entries_of(&self, shard: usize) -> Visiting {
        let Some(shards) = self.core.shards() else { return Visiting::nothing() };
        let records = &mut *shards.get(shard).lock();
        if self.is_abandoned() {
            return Visiting::nothing();
        }
        if records.snapshot != self.number {
            self.core.preserve(records, self.number);
        }
        let entries = records.preserved.as_mut().map(|preserved| {
            preserved.visited = true;
            std::mem::replace(&mut preserved.entries, PreservedEntries::Copied(Vec::new()))
        });
        match entries {
            Some(PreservedEntries::Copied(aliases)) => Visiting::Copied(aliases.into_iter()),
            Some(PreservedEntries::Whole(index)) => Visiting::Whole(index.into_iter(), None),
            None => Visiting::nothing(),
        }
    }

    /// Ends the work for this snapshot in the shard that was visited last.
    fn leave(&mut self) {
        let visited = std::mem::replace(&mut self.visiting, Visiting::nothing());
        if let Some(shard) = self.next_shard.checked_sub(1) {
            self.release(shard);
        }
        if let Visiting::Whole(entries, first) = visited {
            reaper::dispose(entries);
            reaper::dispose(Vec::from_iter(first));
        }
    }

    /// Ends the work for this snapshot in the shard.
    fn release(&self, shard: usize) {
        let Some(shards) = self.core.shards() else { return };
        let preserved = shards.get(shard).lock().take_preserved(self.number);
        if let Some(preserved) = preserved {
            self.core.count_preserved(-preserved.bytes(), 0);
            preserved.dispose();
        }
    }
}

impl Drop for Snapshot<'_> {
    fn drop(&mut self) {
        // A writer that still reads the number holds its lock; `release` waits for it and takes
        // what it preserved.
        let _ = self.core.snapshot.compare_exchange(self.number, 0, SeqCst, SeqCst);
        self.leave();
        if self.core.shards().is_some() {
            (self.next_shard..self.core.shard_count).for_each(|shard| self.release(shard));
        }
        self.core.snapshots_alive.fetch_sub(1, SeqCst);
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
