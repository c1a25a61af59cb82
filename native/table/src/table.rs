//! A table that locks for each call.

use std::fmt;
use std::sync::Arc;

use crate::body::Body;
use crate::core::Core;
use crate::counts::Counts;
use crate::entry::{Entry, Shared};
use crate::eviction;
use crate::keyspace::Keyspace;
use crate::lent::Lent;
use crate::limits::Limits;
use crate::locked::Locked;
use crate::locked_key::{LockedKey, Remains};
use crate::meta::Meta;
use crate::options::Options;
use crate::prefetch::Ahead;
use crate::range::{KeyOrder, NotOrdered, Walk, Walked};
use crate::readers;
use crate::reaper;
use crate::scan;
use crate::shard::{Records, Shards};
use crate::snapshot::Snapshot;
use crate::time::Time;
use crate::walk::{self, ReadShard};
use crate::writer::{Versions, Writer};

/// A table.
pub struct Table {
    core: Arc<Core>,
}

impl Table {
    /// An empty table.
    pub fn new(options: Options) -> Table {
        Table { core: Core::new(options) }
    }

    /// Creates the shards now. Otherwise the first write does, and takes longer.
    pub fn prepare(&self) {
        self.core.shards_for_write();
    }

    pub(crate) fn shared_core(&self) -> &Arc<Core> {
        &self.core
    }

    #[cfg(test)]
    pub(crate) fn core(&self) -> &Core {
        &self.core
    }

    #[cfg(test)]
    pub(crate) fn of(core: Arc<Core>) -> Table {
        Table { core }
    }

    /// Like [`Keyspace::read`], but the entry stays in place during the read, large or not, and
    /// writers of the shard wait: `read` must be brief. Several threads may read at once.
    pub fn read_in_place<R>(
        &self,
        key: &[u8],
        now: impl Time,
        read: impl FnOnce(Option<Entry<'_>>) -> R,
    ) -> R {
        let Some(shards) = self.core.shards_to_read(now) else { return read(None) };
        let (hash, shard) = self.core.locate(key);
        let shard = shards.ahead(shard, hash);
        if self.core.is_limited() {
            return read(find_live(&self.core, &mut shard.lock(), hash, key, now));
        }
        shard.read_in_place(|records| read(records.find_live(hash, key, now)))
    }

    /// Locks the shards of these keys, in shard order (no deadlock between callers).
    ///
    /// Callers that lock several tables must do so in the same order everywhere. While a thread
    /// holds locks of a table, it may use the table only through them.
    ///
    /// A clear that is due at `now_ms` is applied first, or, in a durable table, hides all entries
    /// from reads. One that becomes due while the locks are held is applied afterwards.
    pub fn lock<'k>(&self, keys: impl IntoIterator<Item = &'k [u8]>, now_ms: u64) -> Locked<'_> {
        Locked::some(&self.core, keys, now_ms)
    }

    /// Locks every shard, for commands that see the whole table inside a transaction.
    pub fn lock_all(&self, now_ms: u64) -> Locked<'_> {
        Locked::all(&self.core, now_ms)
    }

    /// Bytes of all entries' allocations, exact.
    pub fn bytes(&self) -> u64 {
        self.core.bytes()
    }

    /// The highest version that a write can have; in a durable table, that of the last write. Takes
    /// no lock.
    pub fn version(&self) -> u64 {
        self.core.version()
    }

    /// Removes all present entries at a set time (memcached `flush_all DELAY`).
    ///
    /// The first operation at or after `at_ms` applies the clear, which removes every entry written
    /// before it. A later call replaces one whose time has not come; `u64::MAX` cancels it.
    pub fn schedule_clear(&self, at_ms: u64) {
        self.core.schedule_clear(at_ms);
    }

    /// Removes expired entries, continuing where the last call ended. Returns how many were
    /// removed, and whether more may be left. The work is bounded by `work_max`: one unit finds one
    /// expired entry, or finds that there is none in a place where one might have been. Also makes
    /// room if a lowered limit left much to evict, and releases what is kept for an abandoned
    /// snapshot, in up to `work_max` shards per call. In a durable table it does only the last.
    pub fn sweep(&self, now_ms: u64, work_max: usize) -> (u64, bool) {
        self.core.sweep(now_ms, work_max)
    }

    /// Whether [`Table::sweep`] has nothing to do, and will have nothing until the next write.
    pub fn is_at_rest(&self) -> bool {
        self.core.is_at_rest()
    }

    /// Whether the table, or the budget that it shares, refuses writes that make it grow and is so
    /// full that no further entry fits. Takes no lock.
    pub fn is_full(&self) -> bool {
        self.core.is_full()
    }

    /// Number of shards.
    pub fn shards(&self) -> usize {
        self.core.shard_count
    }

    /// Mean number of entries in a shard, which determines how long operations on a whole shard
    /// take: a step of a scan, the first step of a snapshot in each shard, growing or shrinking an
    /// index, and cleaning up deadlines. Takes no lock.
    pub fn shard_len(&self) -> u64 {
        self.core.shard_len()
    }

    /// Counts since the table was made. Takes no lock.
    pub fn counts(&self) -> Counts {
        self.core.counts()
    }

    /// Estimates the mean time to live of the entries that have an expiry, in milliseconds; 0 if
    /// there are none.
    pub fn mean_ttl_ms(&self, now_ms: u64) -> u64 {
        self.core.mean_left_ms(now_ms).unwrap_or(0)
    }

    /// Changes the limits. Later writes and sweeps enforce them, some hundreds of entries at a
    /// time. Does nothing to a durable table, which has no limits.
    pub fn set_limits(&self, limits: Limits) {
        if !self.core.durable {
            self.core.limits.set(limits);
        }
    }

    /// [`Keyspace::update`] that first tries the most frequent change: `over` gets the value of the
    /// key's entry and returns the one to replace it, if nothing else is to change. If both have
    /// the same size, and nothing is in the way (metadata, a handle, a pin, a running snapshot, a
    /// limit), the bytes are replaced, without an allocation and without asking for the time.
    /// Otherwise `change` is called as by `update`, with the time.
    #[inline]
    pub fn write<'v, R>(
        &self,
        key: &[u8],
        now: impl Time,
        over: impl FnOnce(&[u8]) -> Option<&'v [u8]>,
        change: impl FnOnce(&mut LockedKey<'_>, u64) -> R,
    ) -> Written<R> {
        if self.core.has_schedule() {
            self.core.apply_schedule(now.ms());
        }
        let mut found = Found::lock(&self.core, key);
        if let Some(version) = found.write_over(over) {
            return Written::Over(version);
        }
        let now_ms = now.ms();
        Written::Changed(found.change(key, now_ms, |record| change(record, now_ms)))
    }

    /// Like [`Table::write`], for a value that is lent. If `is_plain`, nothing but the value is to
    /// change; then, if nothing is in the way and the key's entry has such a value or a large one,
    /// the entry gets the new one in its place. Otherwise `change` is called with the value.
    #[inline]
    pub fn write_lent<R>(
        &self,
        key: &[u8],
        now: impl Time,
        value: Lent,
        is_plain: bool,
        change: impl FnOnce(&mut LockedKey<'_>, Lent, u64) -> R,
    ) -> Written<R> {
        if self.core.has_schedule() {
            self.core.apply_schedule(now.ms());
        }
        let mut found = Found::lock(&self.core, key);
        let value = match if is_plain { found.exchange(value) } else { Err(value) } {
            Ok((version, old)) => {
                drop(found);
                // Without the lock, because its owner is foreign.
                drop(old);
                return Written::Over(version);
            }
            Err(value) => value,
        };
        let now_ms = now.ms();
        Written::Changed(found.change(key, now_ms, |record| change(record, value, now_ms)))
    }

    /// Begins a point-in-time snapshot that does not stop writers. One at a time: `None` while
    /// another lives.
    pub fn snapshot(&self) -> Option<Snapshot<'_>> {
        Snapshot::begin(&self.core)
    }

    /// Like [`Table::snapshot`], but independent of the table's handle; the entries live until it
    /// is dropped.
    pub fn snapshot_owned(&self) -> Option<Snapshot<'static>> {
        Snapshot::begin(&self.core)
    }

    /// Like [`Table::snapshot_owned`], for the log of a durable table, which cannot wait: a running
    /// snapshot is abandoned ([`Abandoned`](crate::Abandoned)).
    pub fn snapshot_for_log(&self) -> Snapshot<'static> {
        Snapshot::begin_for_log(&self.core)
    }

    /// Whether a snapshot is running, which [`Table::snapshot_for_log`] would abandon.
    pub fn has_other_snapshot(&self) -> bool {
        self.core.running_snapshot() != 0
    }
}

/// What [`Table::write`] did.
#[derive(Debug)]
pub enum Written<R> {
    /// Replaced the value; the new version.
    Over(u64),
    /// Called `change`; its result.
    Changed(R),
}

/// A key in its shard, which is locked.
struct Found<'a> {
    core: &'a Core,
    shards: &'a Shards,
    shard: usize,
    hash: u64,
    records: readers::Locked<'a, Records>,
    /// The snapshot that was running when the lock was taken.
    snapshot: u32,
    /// The bucket of the key's entry, expired or not.
    bucket: Option<usize>,
}

impl<'a> Found<'a> {
    // Always inlined, because it is too large to be returned quickly.
    #[inline(always)]
    fn lock(core: &'a Core, key: &[u8]) -> Found<'a> {
        let shards = core.shards_for_write();
        let (hash, shard) = core.locate(key);
        let records = shards.ahead(shard, hash).lock();
        let snapshot = core.running_snapshot();
        let bucket = records.find_bucket(hash, key);
        Found { core, shards, shard, hash, records, snapshot, bucket }
    }

    fn writer(&mut self) -> Writer<'_> {
        Writer::new(self.core, self.shards, self.shard, &mut self.records, self.snapshot)
    }

    /// Writes over the value of the entry, and returns the version, if that is all there is to do.
    #[inline(always)]
    fn write_over<'v>(&mut self, over: impl FnOnce(&[u8]) -> Option<&'v [u8]>) -> Option<u64> {
        let (core, bucket) = (self.core, self.bucket?);
        let is_plain = self.snapshot == 0 && self.records.preserved.is_none() && core.is_plain();
        let place = self.records.index.get_bucket_mut(bucket)?;
        let simple = place.simple();
        let value = over(match &simple {
            Ok(simple) => simple.value(),
            Err(entry) => entry.entry().text().ok()?,
        })?;
        let begin_run = |entry: &mut _| Versions::begin_run(core, entry);
        if is_plain
            && let Ok(simple) = simple
            && let Some(version) = simple.rewrite(value, begin_run)
        {
            return version.ok();
        }
        self.write_over_with_care(bucket, value)
    }

    /// The same for entries of every kind, and if there is a snapshot, a limit or an observer.
    #[inline(never)]
    fn write_over_with_care(&mut self, bucket: usize, value: &[u8]) -> Option<u64> {
        self.writer().overwrite(bucket, &[value], &Meta::default(), Versions::Runs)?.ok()
    }

    /// Exchanges the body of the entry for a lent one, and returns the version and the old body; or
    /// returns the value, if that is not all there is to do.
    #[inline(always)]
    fn exchange(&mut self, value: Lent) -> Result<(u64, Body), Lent> {
        match self.bucket {
            Some(bucket) => self.writer().exchange(bucket, value),
            None => Err(value),
        }
    }

    /// Runs an operation on the key, and releases the lock.
    #[inline(always)]
    fn change<R>(
        mut self,
        key: &[u8],
        now_ms: u64,
        change: impl FnOnce(&mut LockedKey<'_>) -> R,
    ) -> R {
        let (core, hash, bucket) = (self.core, self.hash, self.bucket);
        let mut remains = Remains::default();
        // A locked key is large: it is dropped where it is.
        let result = {
            let mut record = LockedKey::at(self.writer(), key, hash, bucket, now_ms);
            let result = change(&mut record);
            record.finish(now_ms, &mut remains);
            result
        };
        drop(self);
        let Remains { written, garbage } = remains;
        // Checked here, since hardly any write has garbage.
        if !garbage.is_empty() {
            reaper::dispose(garbage);
        }
        if let Some(written) = written {
            core.make_room(written);
        }
        result
    }
}

/// The live entry of a key; records its use if the table needs that.
#[inline]
pub(crate) fn find_live<'r>(
    core: &Core,
    records: &'r mut Records,
    hash: u64,
    key: &[u8],
    now: impl Time,
) -> Option<Entry<'r>> {
    if core.is_limited()
        && let Some(bucket) = records.find_bucket(hash, key)
        && let Some(entry) = records.index.get_bucket_mut(bucket)
    {
        eviction::note_use(entry);
    }
    records.find_live(hash, key, now)
}

impl Keyspace for Table {
    #[inline]
    fn read<R>(&self, key: &[u8], now_ms: u64, read: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        let Some(shards) = self.core.shards_to_read(now_ms) else { return read(None) };
        let (hash, shard) = self.core.locate(key);
        let shard = shards.ahead(shard, hash);
        if self.core.is_limited() {
            let mut records = shard.lock();
            let entry = find_live(&self.core, &mut records, hash, key, now_ms);
            let shared = entry.and_then(|entry| entry.share());
            if shared.is_none() {
                return read(entry);
            }
            drop(records);
            return read(shared.as_ref().map(Shared::entry));
        }
        let records = shard.lock_to_read();
        let entry = records.find_live(hash, key, now_ms);
        match entry.and_then(|entry| entry.share()) {
            Some(shared) => {
                drop(records);
                read(Some(shared.entry()))
            }
            None => read(entry),
        }
    }

    fn update<R>(
        &self,
        key: &[u8],
        now_ms: u64,
        change: impl FnOnce(&mut LockedKey<'_>) -> R,
    ) -> R {
        self.core.apply_schedule(now_ms);
        Found::lock(&self.core, key).change(key, now_ms, change)
    }

    fn prefetch(&self, keys: &[&[u8]]) {
        self.core.prefetch(keys);
    }

    fn len(&self) -> u64 {
        self.core.len()
    }

    fn len_at(&self, now_ms: u64) -> u64 {
        if self.core.is_cleared(now_ms) { 0 } else { self.core.len() }
    }

    fn scan(&self, cursor: u64, count: usize, now_ms: u64, visit: impl FnMut(Entry<'_>)) -> u64 {
        self.core.scan(cursor, count, now_ms, visit)
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
        if self.core.is_cleared(now_ms) {
            return walk::step_over_nothing(&self.core, walk);
        }
        walk::step(self, &self.core, walk, now_ms, visit)
    }

    fn random<R>(&self, seed: u64, now_ms: u64, read: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        let Some(shards) = self.core.shards_to_read(now_ms) else { return read(None) };
        let dice = scan::mix(seed);
        for shard in scan::shuffled(&self.core.map, self.core.shard_count, dice) {
            let records = shards.get(shard).lock_to_read();
            if let Some(entry) = scan::choose(&records.index, dice, now_ms) {
                return match entry.share() {
                    Some(shared) => {
                        drop(records);
                        read(Some(shared.entry()))
                    }
                    None => read(Some(entry)),
                };
            }
        }
        read(None)
    }

    fn clear(&self) -> u64 {
        self.core.clear_all()
    }
}

impl ReadShard for Table {
    fn ahead(&self) -> Ahead<'_> {
        Ahead::new(&self.core)
    }

    fn read_shard<R>(&self, shard: usize, _: u64, read: impl FnOnce(&Records) -> R) -> Option<R> {
        Some(read(&self.core.shards()?.get(shard).lock_to_read()))
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("entries", &self.core.len())
            .field("bytes", &self.core.bytes())
            .field("version", &self.core.version())
            .finish_non_exhaustive()
    }
}
