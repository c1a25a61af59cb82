//! A table with some or all of its shards locked by this thread: several keys as one step.

use std::cell::{Cell, RefCell, RefMut};
use std::fmt;

use hashbrown::HashTable;

use crate::core::Core;
use crate::edit::{Draft, Edit};
use crate::entry::{Entry, EntryBox};
use crate::eviction::Written;
use crate::keyspace::Keyspace;
use crate::limits::Full;
use crate::locked_key::{LockedKey, Remains};
use crate::ordered::Leaves;
use crate::prefetch::{self, Ahead};
use crate::range::{KeyOrder, NotOrdered, Walk, Walked};
use crate::readers;
use crate::reaper;
use crate::reservation::{Growth, ReservedRoom};
use crate::scan;
use crate::shard::{Records, Shards};
use crate::table::find_live;
use crate::walk::{self, ReadShard};
use crate::writer::Writer;

/// A table with some or all of its shards locked by this thread: several keys as one step.
///
/// Calls with a key whose shard is not locked panic: the caller named too few keys. Calls about the
/// whole table panic if not every shard is locked, and so do updates from within a closure that
/// reads the same shard.
///
/// A scheduled clear that becomes due while the table is locked is applied afterwards.
pub struct Locked<'a> {
    core: &'a Core,
    shards: &'a Shards,
    /// Whether a clear is due that the log has not applied yet: then reads find nothing. False if
    /// the table is not durable.
    is_cleared: bool,
    /// In shard order; if all are held, the position is the shard.
    held: Vec<Held<'a>>,
    /// Read once for all shards: a snapshot contains all of the transaction or nothing.
    snapshot: u32,
    garbage: RefCell<Garbage>,
    written: Cell<Option<Written>>,
    order: RefCell<OrderChanges>,
    room: ReservedRoom,
}

/// Pending changes of the table's order when the transaction ends: a walk, which takes no lock,
/// must not miss a key that the transaction takes out and puts back.
#[derive(Default)]
struct OrderChanges {
    /// Keys whose entries were taken out.
    removed: Vec<Box<[u8]>>,
    /// Whether all of them were.
    cleared: bool,
}

/// Large entries that a transaction replaces go to the reaper at once, up to this many bytes.
/// Beyond that the transaction frees them itself, so that no transaction makes garbage faster than
/// it is freed.
const REAPED_BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Default)]
struct Garbage {
    /// Indexes to free after the locks are released.
    indexes: Vec<HashTable<EntryBox>>,
    /// Bytes that went to the reaper.
    reaped_bytes: usize,
}

struct Held<'a> {
    shard: usize,
    records: RefCell<readers::Locked<'a, Records>>,
}

impl<'a> Locked<'a> {
    pub(crate) fn some<'k>(
        core: &'a Core,
        keys: impl IntoIterator<Item = &'k [u8]>,
        now_ms: u64,
    ) -> Locked<'a> {
        let mut wanted: Vec<usize> = keys.into_iter().map(|key| core.locate(key).1).collect();
        wanted.sort_unstable();
        wanted.dedup();
        Locked::lock(core, wanted, now_ms)
    }

    pub(crate) fn all(core: &'a Core, now_ms: u64) -> Locked<'a> {
        Locked::lock(core, 0..core.shard_count, now_ms)
    }

    fn lock(core: &'a Core, wanted: impl IntoIterator<Item = usize>, now_ms: u64) -> Locked<'a> {
        let is_cleared = core.is_cleared(now_ms);
        let shards = core.shards_for_write();
        let hold = |shard| Held { shard, records: RefCell::new(shards.get(shard).lock()) };
        let held = wanted.into_iter().map(hold).collect();
        let snapshot = core.running_snapshot();
        let (garbage, written, order) = (RefCell::default(), Cell::new(None), RefCell::default());
        let room = ReservedRoom::new(core.limits_now());
        Locked { core, shards, is_cleared, held, snapshot, garbage, written, order, room }
    }

    /// The hash of a key, and its shard.
    fn find(&self, key: &[u8]) -> (u64, &Held<'a>) {
        let Some(found) = self.find_held(key) else {
            panic!("the key {} was not named when the table was locked", key.escape_ascii());
        };
        found
    }

    /// Like [`Locked::find`], for a key whose shard may not be locked.
    fn find_held(&self, key: &[u8]) -> Option<(u64, &Held<'a>)> {
        let (hash, shard) = self.core.locate(key);
        let position = if self.holds_all() {
            shard
        } else {
            self.held.binary_search_by_key(&shard, |held| held.shard).ok()?
        };
        Some((hash, &self.held[position]))
    }

    /// Reads the records of a locked key's shard; also passes the key's hash.
    pub(crate) fn read_records<R>(
        &self,
        key: &[u8],
        read: impl FnOnce(&Core, &Records, u64) -> R,
    ) -> R {
        let (hash, held) = self.find(key);
        read(self.core, &held.borrow_mut(), hash)
    }

    fn holds_all(&self) -> bool {
        self.held.len() == self.core.shard_count
    }

    /// # Panics
    /// If not every shard is locked.
    fn assert_all(&self, operation: &str) {
        assert!(self.holds_all(), "{operation} sees the whole table and needs lock_all");
    }

    /// The length to which a value of `len` bytes, which has just grown, may grow before it has to
    /// move again. The result is certain if the transaction has reserved room for it
    /// ([`grown_entry_bytes`]).
    ///
    /// [`grown_entry_bytes`]: crate::grown_entry_bytes
    pub fn grown_length(&self, len: usize) -> usize {
        Core::grown_length(&self.room.limits, len)
    }

    /// Frees large entries, or hands them to the reaper, before the transaction ends, since it may
    /// replace many.
    fn dispose(&self, entries: Vec<EntryBox>) {
        if entries.is_empty() {
            return;
        }
        let reaped_bytes = &mut self.garbage.borrow_mut().reaped_bytes;
        if *reaped_bytes <= REAPED_BYTES_MAX {
            *reaped_bytes += entries.iter().map(|entry| entry.entry().bytes()).sum::<usize>();
            reaper::dispose(entries);
        }
    }

    fn writer<'w>(&'w self, shard: usize, records: &'w mut Records) -> Writer<'w> {
        let room = Some(&self.room);
        Writer { room, ..Writer::new(self.core, self.shards, shard, records, self.snapshot) }
    }
}

impl Locked<'_> {
    /// Removes from the table's order the keys that were removed from the table. Returns what has
    /// to be dropped after the locks are released.
    fn settle_order(&mut self) -> Option<Leaves> {
        let OrderChanges { removed, cleared } = std::mem::take(self.order.get_mut());
        let ordered = self.core.ordered.as_ref()?;
        if cleared {
            let held = self.held.iter_mut();
            let entries = held.flat_map(|held| held.records.get_mut().index.iter());
            return Some(ordered.replace(entries.map(|entry| entry.entry().key())));
        }
        for key in removed {
            let (hash, held) = self.find(&key);
            if held.borrow_mut().find(hash, &key).is_none() {
                ordered.remove(&key);
            }
        }
        None
    }
}

impl<'a> Held<'a> {
    /// # Panics
    /// If a closure of the caller is reading the shard.
    fn borrow_mut(&self) -> RefMut<'_, readers::Locked<'a, Records>> {
        match self.records.try_borrow_mut() {
            Ok(records) => records,
            Err(_) => panic!("a locked shard is used while a closure reads one of its entries"),
        }
    }
}

impl Keyspace for Locked<'_> {
    const IS_LOCKED: bool = true;

    fn read<R>(&self, key: &[u8], now_ms: u64, read: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        let (hash, held) = self.find(key);
        let mut records = held.borrow_mut();
        read(match self.is_cleared {
            false => find_live(self.core, &mut records, hash, key, now_ms),
            true => None,
        })
    }

    fn update<R>(
        &self,
        key: &[u8],
        now_ms: u64,
        change: impl FnOnce(&mut LockedKey<'_>) -> R,
    ) -> R {
        debug_assert!(!self.is_cleared, "the log applies a due clear before other changes");
        let (hash, held) = self.find(key);
        let mut records = held.borrow_mut();
        let mut remains = Remains::default();
        let result = {
            let mut record =
                LockedKey::find(self.writer(held.shard, &mut records), key, hash, now_ms);
            let result = change(&mut record);
            if self.core.ordered.is_some() && record.leaves_key() {
                self.order.borrow_mut().removed.push(Box::from(key));
            }
            record.finish(now_ms, &mut remains);
            result
        };
        self.dispose(remains.garbage);
        if let Some(written) = remains.written {
            let before = self.written.get();
            self.written.set(Some(before.map_or(written, |before| before.and(written))));
        }
        result
    }

    /// Everything happens under the locks.
    fn edit<R>(
        &self,
        key: &[u8],
        now_ms: u64,
        edit: Edit<'_>,
        mut change: impl FnMut(&mut LockedKey<'_>, &mut Draft<'_>) -> Option<R>,
    ) -> R {
        let mut draft = Draft::at_once(edit);
        loop {
            // Once is enough: such a draft never has to be made first.
            if let Some(result) = self.update(key, now_ms, |record| change(record, &mut draft)) {
                return result;
            }
        }
    }

    /// The locks brought the shards' lines into the cache, but not indexes and entries. Skips
    /// shards that are not locked, and those that a closure of the caller is reading.
    fn prefetch(&self, keys: &[&[u8]]) {
        prefetch::in_two_steps(
            keys,
            |key| {
                let found = self.find_held(key);
                if let Some((hash, held)) = found {
                    self.shards.hint(held.shard).fetch(hash);
                }
                found
            },
            |found| {
                if let &Some((hash, held)) = found
                    && let Ok(records) = held.records.try_borrow()
                {
                    prefetch::fetch_entries_of(&records, hash, prefetch::ENTRY_LINES_MAX);
                }
            },
        );
    }

    fn len(&self) -> u64 {
        self.assert_all("len");
        self.core.len()
    }

    /// Locking the table applied, or noted, the clears that were due.
    fn len_at(&self, _: u64) -> u64 {
        if self.is_cleared { 0 } else { self.len() }
    }

    fn scan(
        &self,
        cursor: u64,
        count: usize,
        now_ms: u64,
        mut visit: impl FnMut(Entry<'_>),
    ) -> u64 {
        self.assert_all("scan");
        if self.is_cleared {
            return 0;
        }
        scan::walk(self.held.len(), cursor, count, |shard| {
            let records = self.held[shard].borrow_mut();
            scan::live(&records.index, now_ms).map(&mut visit).count()
        })
    }

    fn order(&self) -> Option<KeyOrder> {
        self.core.order()
    }

    fn walk(
        &self,
        walk: &Walk<'_>,
        now_ms: u64,
        visit: impl FnMut(Entry<'_>),
    ) -> Result<Walked, NotOrdered> {
        self.assert_all("walk");
        if self.is_cleared {
            return walk::step_over_nothing(self.core, walk);
        }
        walk::step(self, self.core, walk, now_ms, visit)
    }

    fn random<R>(&self, seed: u64, now_ms: u64, read: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        self.assert_all("random");
        if self.is_cleared {
            return read(None);
        }
        let dice = scan::mix(seed);
        for shard in scan::shuffled(&self.core.map, self.held.len(), dice) {
            let records = self.held[shard].borrow_mut();
            if let Some(entry) = scan::choose(&records.index, dice, now_ms) {
                return read(Some(entry));
            }
        }
        read(None)
    }

    fn clear(&self) -> u64 {
        self.assert_all("clear");
        let mut locked: Vec<_> = self.held.iter().map(Held::borrow_mut).collect();
        let records = locked.iter_mut().map(|records| &mut ***records);
        let (removed, garbage) = self.core.clear_locked(self.shards, self.snapshot, records);
        self.garbage.borrow_mut().indexes.extend(garbage);
        self.order.borrow_mut().cleared = self.core.ordered.is_some();
        removed
    }

    fn refuses(&self, largest_bytes: u64) -> bool {
        self.room.limits.may_refuse(largest_bytes)
    }

    /// Ensures that writes up to this growth, from now to the end of the transaction, find room;
    /// what the transaction has reserved and not used is part of it. Other writers cannot take the
    /// room meanwhile, and the end of the transaction returns what it did not use. Room that the
    /// transaction itself makes by removals does not count. The limits are those of the moment when
    /// the table was locked, for the reservation and for the writes: a limit that is lowered
    /// meanwhile refuses no write, and the table may exceed it by what the transaction adds.
    ///
    /// An error means that the reservation is unchanged.
    fn reserve(&self, growth: Growth) -> Result<(), Full> {
        let mut left = self.room.left.get().unwrap_or_default();
        let missing = |wanted: u64, left: i64| wanted.saturating_sub(left.unsigned_abs());
        let growth = Growth {
            entries: missing(growth.entries, left.entries),
            bytes: missing(growth.bytes, left.bytes),
            ..growth
        };
        left.add(self.core.reserve(&self.room.limits, &growth)?);
        self.room.left.set(Some(left));
        Ok(())
    }
}

impl ReadShard for Locked<'_> {
    fn ahead(&self) -> Ahead<'_> {
        Ahead::idle(self.core)
    }

    fn read_shard<R>(&self, shard: usize, _: u64, read: impl FnOnce(&Records) -> R) -> Option<R> {
        Some(read(&self.held[shard].borrow_mut()))
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let order = self.settle_order();
        self.held.clear();
        reaper::dispose_all(std::mem::take(&mut self.garbage.get_mut().indexes));
        order.into_iter().for_each(reaper::dispose);
        if let Some(left) = self.room.left.get() {
            self.core.release(left);
        }
        if let Some(written) = self.written.get()
            && self.core.is_limited()
            && !std::thread::panicking()
        {
            self.core.make_room(written);
        }
    }
}

impl fmt::Debug for Locked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").field("shards", &self.held.len()).finish_non_exhaustive()
    }
}
