//! Changes one locked shard: the only code that adds entries to an index or removes them.
//!
//! All writes (commands, expiry, eviction, clearing) go through a [`Writer`], so that accounting
//! and the running snapshot are maintained in one place. A writer never calls foreign code in the
//! middle of a change: values are filled before, so a panic in the caller's code leaves the shard
//! unchanged.

use std::sync::atomic::Ordering::Relaxed;

use hashbrown::HashTable;

use crate::body::Body;
use crate::core::{Change, Core};
use crate::entry::{Entry, EntryBox};
use crate::event::EventKind;
use crate::lent::Lent;
use crate::limits::Full;
use crate::meta::{Access, Meta};
use crate::ordered;
use crate::reaper::INLINE_BYTES_MAX;
use crate::removals::Removals;
use crate::reservation::ReservedRoom;
use crate::shard::{Records, Shards};

/// Why an entry is removed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Removal {
    Asked,
    Expired,
    Evicted,
}

impl Removal {
    fn event_kind(self) -> EventKind {
        match self {
            Removal::Asked => EventKind::Delete,
            Removal::Expired => EventKind::Expire,
            Removal::Evicted => EventKind::Evict,
        }
    }
}

/// Whether limits may refuse a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Charge {
    Within,
    /// The stored bytes grow by a few at most.
    Anyway,
}

/// How a value that is written over gets its version.
///
/// Snapshots and evictions tell by the table's counter which entries are older than they are: while
/// there is a snapshot or a limit, a write takes its version from the counter. So does each write
/// of a durable table, since replicas agree about versions. An entry that took its version from a
/// run before a limit was set may count as older than it is when two are equally often used.
#[derive(Clone, Copy)]
pub(crate) enum Versions {
    /// By the table's counter.
    Counted,
    /// By the entry's run (see [`EntryBox::next_of_run`]), if the table is not durable.
    Runs,
}

impl Versions {
    /// Sets the next version of an entry that is written over.
    #[inline]
    fn next(self, core: &Core, entry: &mut EntryBox) -> Result<u64, Full> {
        match self {
            Versions::Runs if !core.durable => match entry.next_of_run() {
                Some(version) => Ok(version),
                None => Versions::begin_run(core, entry),
            },
            _ => {
                let version = core.next_version()?;
                entry.set_version(version);
                Ok(version)
            }
        }
    }

    /// Begins a run of an entry in a table that is not durable; returns its first version.
    #[inline(never)]
    pub(crate) fn begin_run(core: &Core, entry: &mut EntryBox) -> Result<u64, Full> {
        let length = entry.next_run_length();
        let first = core.take_versions(length)?;
        entry.begin_run(first, length);
        Ok(first)
    }
}

/// One locked shard of a table, ready to be changed.
pub(crate) struct Writer<'a> {
    pub(crate) core: &'a Core,
    pub(crate) shards: &'a Shards,
    pub(crate) shard: usize,
    pub(crate) records: &'a mut Records,
    /// The snapshot that was running when the locks were taken, 0 for none.
    pub(crate) snapshot: u32,
    /// The limits and the reserved room of the enclosing transaction; `None` for a write that
    /// stands alone.
    pub(crate) room: Option<&'a ReservedRoom>,
    /// What the writes added, less what they replaced.
    pub(crate) grown: Change,
    /// Large entries that were removed, to be dropped after the lock is released.
    pub(crate) garbage: Vec<EntryBox>,
}

/// From this size on, freeing an allocation may unmap pages, which takes too long while a shard is
/// locked.
const LARGE_BYTES: usize = 64 * 1024;

impl<'a> Writer<'a> {
    pub(crate) fn new(
        core: &'a Core,
        shards: &'a Shards,
        shard: usize,
        records: &'a mut Records,
        snapshot: u32,
    ) -> Writer<'a> {
        let (grown, garbage) = (Change::default(), Vec::new());
        Writer { core, shards, shard, records, snapshot, room: None, grown, garbage }
    }
}

impl Writer<'_> {
    /// Replaces the entry in `bucket`, or adds one. Returns its bucket and version.
    pub(crate) fn put(
        &mut self,
        mut entry: EntryBox,
        hash: u64,
        bucket: Option<usize>,
        charge: Charge,
        now_ms: u64,
    ) -> Result<(usize, u64), Full> {
        if self.core.ordered.is_some() && entry.entry().key().len() > ordered::KEY_BYTES_MAX {
            self.core.tallies.refused.fetch_add(1, Relaxed);
            return Err(Full);
        }
        let new = change_of(&entry.entry());
        let old = bucket.and_then(|bucket| self.records.bucket(bucket));
        let old_expiry_ms = old.and_then(|old| old.expires_at_ms());
        let old = old.map(|old| change_of(&old)).unwrap_or_default();
        let change = Change {
            entries: new.entries - old.entries,
            bytes: new.bytes - old.bytes,
            expiring: new.expiring - old.expiring,
        };
        let charged = match (charge, self.room) {
            (Charge::Within, Some(room)) => self.core.charge_reserved(change, new.bytes, room),
            (Charge::Within, None) => self.core.charge(change, new.bytes),
            (Charge::Anyway, room) => self.core.charge_anyway(room, change, new.bytes),
        };
        if let Err(Full) = charged {
            self.discard(entry);
            return Err(Full);
        }
        self.grown.add(change);
        self.preserve();
        let version = self.core.next_version().inspect_err(|Full| self.core.discharge(change))?;
        entry.set_version(version);
        let expires_at_ms = entry.entry().expires_at_ms();
        let replaced =
            bucket.and_then(|bucket| Some((bucket, self.records.index.get_bucket_mut(bucket)?)));
        let bucket = match replaced {
            Some((bucket, place)) => {
                // According to a clock that is ahead of this writer's, the old entry may have
                // expired: then a thread may watch for its absence. No thread that saw the entry
                // does.
                if old_expiry_ms.is_some() {
                    self.core.absences.note_created(hash);
                }
                entry.set_frequency(place.frequency());
                let old = std::mem::replace(place, entry);
                self.retire(old);
                bucket
            }
            None => self.add(entry, hash),
        };
        self.note_expiry(hash, old_expiry_ms, expires_at_ms, now_ms);
        if self.core.is_observed() {
            self.report(bucket, EventKind::Put);
        }
        Ok((bucket, version))
    }

    /// Writes a value over that of the entry in `bucket`, which needs no allocation. `None` if it
    /// would have another size or other metadata, if a handle, a pin or a snapshot may have a
    /// pointer to it, or if a limit has to be checked.
    #[inline]
    pub(crate) fn overwrite(
        &mut self,
        bucket: usize,
        value: &[&[u8]],
        meta: &Meta,
        versions: Versions,
    ) -> Option<Result<u64, Full>> {
        if !self.may_change_in_place() || !meta.is_plain() {
            return None;
        }
        let place = self.records.index.get_bucket_mut(bucket)?;
        if !place.fits(value) {
            return None;
        }
        let version = match versions.next(self.core, place) {
            Ok(version) => version,
            Err(Full) => return Some(Err(Full)),
        };
        place.overwrite(value);
        if self.core.is_observed() {
            self.report(bucket, EventKind::Put);
        }
        Some(Ok(version))
    }

    /// Gives the entry in `bucket` another body. Returns the version and the old body, which the
    /// caller drops without the lock. Returns the value if the entry has no body, or under the
    /// conditions of [`Writer::overwrite`], or if freeing the old body may take long.
    #[inline]
    pub(crate) fn exchange(&mut self, bucket: usize, value: Lent) -> Result<(u64, Body), Lent> {
        if !self.may_change_in_place() {
            return Err(value);
        }
        let Some(place) = self.records.index.get_bucket_mut(bucket) else { return Err(value) };
        let Some(old_bytes) = place.exchanged_bytes().filter(|bytes| *bytes <= INLINE_BYTES_MAX)
        else {
            return Err(value);
        };
        let Ok(version) = Versions::Runs.next(self.core, place) else { return Err(value) };
        let (body, len) = value.into_parts();
        let bytes = body.memory_bytes() as i64 - old_bytes as i64;
        let old = place.exchange_body(body, len);
        if bytes != 0 {
            self.core.add(Change { bytes, ..Change::default() });
        }
        if self.core.is_observed() {
            self.report(bucket, EventKind::Put);
        }
        Ok((version, old))
    }

    /// Whether no snapshot can see the entries of the shard, and no limit has to be checked.
    #[inline]
    fn may_change_in_place(&self) -> bool {
        let is_seen = self.snapshot != 0 || self.records.preserved.is_some();
        !is_seen && self.room.is_none() && !self.core.is_limited()
    }

    /// Adds the entry of a key that has none. Returns its bucket.
    #[inline(always)]
    fn add(&mut self, entry: EntryBox, hash: u64) -> usize {
        if let Some(ordered) = &self.core.ordered {
            ordered.insert(entry.entry().key());
        }
        self.core.absences.note_created(hash);
        let buckets = self.records.index.num_buckets();
        let bucket = self.records.insert(hash, entry, &self.core.hash);
        // An index without entries does not reveal its address; the first entry does.
        self.note_index(buckets, self.records.index.len() == 1);
        bucket
    }

    /// Adds an entry that was written before, with its version, for a key that has none. Reports no
    /// event. Returns the change of the table's counts, which is left to the caller.
    pub(crate) fn load(&mut self, entry: EntryBox, hash: u64, now_ms: u64) -> Change {
        let expires_at_ms = entry.entry().expires_at_ms();
        let change = change_of(&entry.entry());
        self.preserve();
        self.add(entry, hash);
        self.note_expiry(hash, None, expires_at_ms, now_ms);
        change
    }

    /// Reports a change to the entry in a bucket, after it was written or before it is removed.
    #[cold]
    #[inline(never)]
    fn report(&self, bucket: usize, kind: EventKind) {
        if let Some(entry) = self.records.bucket(bucket) {
            self.core.report(kind, entry.key(), entry.version());
        }
    }

    /// Removes the entry in `bucket`. False if there is none.
    pub(crate) fn remove(&mut self, bucket: usize, why: Removal) -> bool {
        if let Some(ordered) = &self.core.ordered
            && let Some(entry) = self.records.bucket(bucket)
        {
            ordered.remove(entry.key());
        }
        self.take_out(bucket, why)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn take_out_expired(&mut self, bucket: usize) -> bool {
        self.take_out(bucket, Removal::Expired)
    }

    /// Like [`Writer::remove`], but leaves the key in the table's order, for a caller that may put
    /// an entry in its place before any other thread can read it.
    pub(crate) fn take_out(&mut self, bucket: usize, why: Removal) -> bool {
        if self.core.is_observed() {
            self.report(bucket, why.event_kind());
        }
        self.preserve();
        let Ok(occupied) = self.records.index.get_bucket_entry(bucket) else { return false };
        let (entry, _) = occupied.remove();
        if let Some(removals) = &self.core.removals {
            self.note_removal(removals, &entry);
        }
        self.core.discharge(change_of(&entry.entry()));
        self.tally(why, 1);
        let expires = entry.entry().expires_at_ms().is_some();
        self.retire(entry);
        self.shrink();
        if expires {
            self.forget_expiry();
        }
        true
    }

    #[cold]
    #[inline(never)]
    fn note_removal(&self, removals: &Removals, entry: &EntryBox) {
        let entry = entry.entry();
        removals.note(self.core.hash.of(entry.key()), entry.version());
    }

    /// Takes out all entries in one step, however many there are, but leaves the keys in the
    /// table's order, and leaves the accounting to a caller that clears all shards. Returns what no
    /// snapshot needs, to be disposed of after the locks are released.
    pub(crate) fn take_index(&mut self, mean_bytes: i64) -> HashTable<EntryBox> {
        self.shards.note_taken(self.shard, self.records);
        self.records.deadlines = None;
        self.shards.note_first_deadline(self.shard, self.records);
        let mut index = std::mem::take(&mut self.records.index);
        let bytes = index.len() as i64 * mean_bytes;
        if self.must_preserve() {
            match self.core.preserve_whole(self.records, self.snapshot, index, bytes) {
                None => return HashTable::new(),
                Some(shared) => self.records.index = shared,
            }
            self.preserve_now();
            index = std::mem::take(&mut self.records.index);
        }
        self.let_go();
        let Some(preserved) = &mut self.records.preserved else { return index };
        let before = preserved.bytes();
        let index = preserved.retire_all(index, bytes);
        self.core.count_preserved(preserved.bytes() - before, self.snapshot);
        index
    }

    /// Copies the shard's pointers for the running snapshot, unless it has them already.
    #[inline]
    fn preserve(&mut self) {
        if self.must_preserve() {
            self.preserve_now();
        }
    }

    #[cold]
    fn preserve_now(&mut self) {
        self.core.preserve(self.records, self.snapshot);
    }

    /// Releases what is kept for a snapshot that was abandoned.
    fn let_go(&mut self) {
        self.core.release_abandoned(self.records, self.snapshot);
    }

    /// Whether a snapshot is running that does not have this shard's entries yet.
    fn must_preserve(&self) -> bool {
        self.snapshot != 0 && self.records.snapshot != self.snapshot
    }

    /// Drops an entry that left the index, or hands it to the snapshot that still needs it.
    #[inline]
    fn retire(&mut self, entry: EntryBox) {
        match &self.records.preserved {
            None => self.discard(entry),
            Some(_) => self.retire_kept(entry),
        }
    }

    #[cold]
    fn retire_kept(&mut self, entry: EntryBox) {
        self.let_go();
        let Some(preserved) = &mut self.records.preserved else { return self.discard(entry) };
        let before = preserved.bytes();
        let entry = preserved.retire(entry);
        let bytes = preserved.bytes() - before;
        match entry {
            Some(entry) => self.discard(entry),
            None => self.core.count_preserved(bytes, self.snapshot),
        }
    }

    /// Drops an entry, at once or after the lock is released. If its body has other owners, only
    /// the small entry over the body is freed, and the next editor of the value finds one owner
    /// less.
    #[inline]
    fn discard(&mut self, entry: EntryBox) {
        if entry.is_wide() {
            self.discard_wide(entry);
        }
    }

    #[inline(never)]
    fn discard_wide(&mut self, entry: EntryBox) {
        if entry.entry().bytes() >= LARGE_BYTES && !entry.shares_body() {
            self.garbage.push(entry);
        }
    }

    /// Whether no other thread can see the value in this bucket now, or before the lock is
    /// released: only then may its bytes be changed; see [`crate::body`].
    pub(crate) fn is_sole(&mut self, bucket: usize) -> bool {
        // A running snapshot must have its aliases before anything is changed.
        self.preserve();
        let Ok(place) = self.records.index.get_bucket(bucket).ok_or(()) else { return false };
        let preserved = self.records.preserved.as_ref();
        !preserved.is_some_and(|preserved| preserved.needs(&place.entry())) && place.is_sole()
    }

    /// Changes an entry's access word; false if it has none.
    ///
    /// The word changes in place, except in a durable table with a running snapshot: what the log
    /// writes after the snapshot must not be part of it.
    pub(crate) fn set_access(&mut self, bucket: usize, access: Access) -> bool {
        if self.core.durable && self.snapshot != 0 {
            return self.set_access_in_copy(bucket, access);
        }
        self.records.bucket(bucket).is_some_and(|entry| entry.set_access(access))
    }

    #[cold]
    fn set_access_in_copy(&mut self, bucket: usize, access: Access) -> bool {
        let Some(old) = self.records.bucket(bucket) else { return false };
        let meta = Meta { access: Some(access), ..old.meta() };
        if old.meta().access.is_none() {
            return false;
        }
        let Some(mut copy) = EntryBox::same_value(old.key(), &old, &meta) else { return false };
        copy.set_version(old.version());
        self.preserve();
        if let Some(place) = self.records.index.get_bucket_mut(bucket) {
            let old = std::mem::replace(place, copy);
            self.retire(old);
        }
        true
    }

    /// Checks whether [`Writer::put`] would refuse an entry of this many bytes in place of the one
    /// in the bucket.
    pub(crate) fn admits(&self, new_bytes: i64, bucket: Option<usize>) -> Result<(), Full> {
        let old = bucket.and_then(|bucket| self.records.bucket(bucket));
        let old = old.map_or(Change::default(), |entry| change_of(&entry));
        let change = Change { entries: 1 - old.entries, bytes: new_bytes - old.bytes, expiring: 0 };
        match self.room {
            Some(room) => self.core.charge_noted(&room.limits, change, new_bytes)?,
            None => self.core.charge(change, new_bytes)?,
        }
        self.core.discharge(change);
        Ok(())
    }

    fn shrink(&mut self) {
        let buckets = self.records.index.num_buckets();
        self.records.shrink(&self.core.hash);
        self.note_index(buckets, false);
    }

    /// Stores the index's address and size for prefetching, if the index moved, which it does only
    /// when the number of its buckets (before: `buckets`) changes, or if the address is not known
    /// yet.
    #[inline]
    fn note_index(&self, buckets: usize, is_unknown: bool) {
        if self.records.index.num_buckets() != buckets || is_unknown {
            self.shards.note_moved(self.shard, &self.records.index, buckets);
        }
    }

    fn tally(&self, why: Removal, entries: u64) {
        let tally = match why {
            Removal::Asked => return,
            Removal::Expired => &self.core.tallies.expired,
            Removal::Evicted => &self.core.tallies.evicted,
        };
        tally.fetch_add(entries, Relaxed);
    }
}

impl Change {
    pub(crate) fn add(&mut self, other: Change) {
        self.entries += other.entries;
        self.bytes += other.bytes;
        self.expiring += other.expiring;
    }
}

/// What one entry counts for.
#[inline(always)]
fn change_of(entry: &Entry<'_>) -> Change {
    Change {
        entries: 1,
        bytes: entry.bytes() as i64,
        expiring: i64::from(entry.expires_at_ms().is_some()),
    }
}
