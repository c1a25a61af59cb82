//! The table: the one place where records live.
//!
//! A table maps byte-string keys to immutable entries. It knows nothing of protocols, clocks or processes: time is a
//! parameter of every call, in milliseconds since the Unix epoch, and whoever calls decides what to do with a record
//! while it is looked at.

use std::sync::Arc;
use std::sync::atomic::AtomicI64;

/// What to build a table with.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Number of shards, rounded up to a power of two. `None` is 4,096.
    pub shards: Option<usize>,
    /// Limits of this table alone.
    pub limits: Limits,
    /// A byte budget shared with other tables (the sixteen databases of a server share one).
    pub budget: Option<Arc<Budget>>,
    /// Seed of the key hash; `None` draws a random one.
    pub seed: Option<u64>,
}

/// How much a table may hold, and what happens then.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Most entries; `None` is no limit.
    pub entries_max: Option<u64>,
    /// Most bytes of entries, see [`Table::bytes`]; `None` is no limit.
    pub bytes_max: Option<u64>,
    /// What a write does that would pass a limit.
    pub when_full: WhenFull,
}

/// What a write does that would pass a limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Sampled entries that are used least make room.
    #[default]
    Evict,
    /// The write is refused with [`Full`].
    Refuse,
}

/// A byte limit that several tables share. Made by [`Budget::new`].
#[derive(Debug)]
#[non_exhaustive]
pub struct Budget {
    /// Bytes of entries in all tables of the budget.
    pub bytes: AtomicI64,
    /// The limit; `i64::MAX` is none. May change while tables use it.
    pub bytes_max: AtomicI64,
}

impl Budget {
    /// A budget of `bytes_max` bytes (`i64::MAX` is no limit).
    pub fn new(bytes_max: i64, _when_full: WhenFull) -> Budget {
        Budget {
            bytes: AtomicI64::new(0),
            bytes_max: AtomicI64::new(bytes_max),
        }
    }
    /// What a write does that would pass the limit.
    pub fn when_full(&self) -> WhenFull {
        todo!()
    }
    /// Changes what a write does that would pass the limit.
    pub fn set_when_full(&self, _when_full: WhenFull) {
        todo!()
    }
}

/// The write was refused because the table is at its limit and may not evict (or could not free enough).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// What an entry carries beside key and value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Meta {
    /// When the entry stops to exist, in milliseconds since the Unix epoch; `None` is never.
    pub expires_at_ms: Option<u64>,
    /// The client's opaque flags (memcached).
    pub flags: u32,
    /// Whether the entry keeps an [`Access`] word (memcached's `h`, `l` and its stale and win marks).
    pub access: Option<Access>,
}

/// When and how an entry was looked at. Kept only by entries whose door asked for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Second of the last look, since the Unix epoch.
    pub last_s: u32,
    /// Whether it was fetched since it was stored.
    pub fetched: bool,
    /// Whether it is marked stale (memcached `md I`).
    pub stale: bool,
    /// Whether some client was told that it won the right to recache.
    pub won: bool,
}

/// One live entry, borrowed for as long as the caller's closure runs.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    _borrow: &'a (),
}

impl<'a> Entry<'a> {
    /// The key.
    pub fn key(&self) -> &'a [u8] {
        todo!()
    }
    /// The value.
    pub fn value(&self) -> &'a [u8] {
        todo!()
    }
    /// The version of the write that made this entry: unique and growing within its table, below 2^48.
    pub fn version(&self) -> u64 {
        todo!()
    }
    /// Flags, expiry and access as they are now.
    pub fn meta(&self) -> Meta {
        todo!()
    }
    /// Bytes that the entry's allocation takes.
    pub fn bytes(&self) -> usize {
        todo!()
    }
    /// Records a look: sets `last_s` and `fetched`. Nothing happens where the entry keeps no access word.
    pub fn note_access(&self, _now_ms: u64) {
        todo!()
    }
}

/// One key under its shard's lock: what a read-modify-write works on.
#[derive(Debug)]
pub struct Slot<'a> {
    _borrow: &'a mut (),
}

impl Slot<'_> {
    /// The live entry, if any (an expired one counts as none).
    pub fn entry(&self) -> Option<Entry<'_>> {
        todo!()
    }
    /// Writes a new entry whose value is the parts, one after another. Returns its version.
    pub fn put(&mut self, _value: &[&[u8]], _meta: Meta) -> Result<u64, Full> {
        todo!()
    }
    /// Writes a new entry of `len` bytes; `fill` gets the old value and the zeroed new value to fill.
    pub fn put_with(
        &mut self,
        _len: usize,
        _meta: Meta,
        _fill: impl FnOnce(&[u8], &mut [u8]),
    ) -> Result<u64, Full> {
        todo!()
    }
    /// Writes the present value again with other metadata, as a new version. `None` where there is no entry.
    pub fn set_meta(&mut self, _meta: Meta) -> Option<Result<u64, Full>> {
        todo!()
    }
    /// Changes the access word in place (no new version). False where there is no entry or no word.
    pub fn set_access(&mut self, _access: Access) -> bool {
        todo!()
    }
    /// Removes the entry. False where there was none.
    pub fn remove(&mut self) -> bool {
        todo!()
    }
}

/// What single-key commands need: a table that locks for each call, or one whose locks are held ([`Locked`]).
pub trait Keyspace {
    /// Looks at one entry. Large entries are counted and looked at after the lock is gone, so `look` may copy at leisure.
    fn read<R>(&self, key: &[u8], now_ms: u64, look: impl FnOnce(Option<Entry<'_>>) -> R) -> R;
    /// Reads and writes one key as one step.
    fn update<R>(&self, key: &[u8], now_ms: u64, change: impl FnOnce(&mut Slot<'_>) -> R) -> R;
    /// Entries, expired ones that were not collected yet included.
    fn len(&self) -> u64;
    /// True where [`Keyspace::len`] is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Visits whole shards from `cursor` on (0 starts) until at least `count` entries were seen, and returns the next
    /// cursor, 0 at the end. Every entry present from start to end is visited at least once.
    fn scan(&self, cursor: u64, count: usize, now_ms: u64, visit: impl FnMut(Entry<'_>)) -> u64;
    /// Looks at an entry chosen by `seed`; `None` where no live entry is found.
    fn random<R>(&self, seed: u64, now_ms: u64, look: impl FnOnce(Option<Entry<'_>>) -> R) -> R;
    /// Removes everything; returns how many entries that were.
    fn clear(&self) -> u64;
}

/// A table.
#[derive(Debug)]
pub struct Table {}

impl Table {
    /// An empty table.
    pub fn new(_options: Options) -> Table {
        todo!()
    }
    /// Like [`Keyspace::read`], but always under the shard's lock: `look` must be brief.
    pub fn read_in_place<R>(
        &self,
        _key: &[u8],
        _now_ms: u64,
        _look: impl FnOnce(Option<Entry<'_>>) -> R,
    ) -> R {
        todo!()
    }
    /// Locks the shards of these keys, in shard order (no deadlock between callers).
    pub fn lock<'k>(&self, _keys: impl IntoIterator<Item = &'k [u8]>) -> Locked<'_> {
        todo!()
    }
    /// Locks every shard, for commands that see the whole table inside a batch.
    pub fn lock_all(&self) -> Locked<'_> {
        todo!()
    }
    /// Bytes of all entries' allocations, exact.
    pub fn bytes(&self) -> u64 {
        todo!()
    }
    /// From this moment on, entries written before it do not exist any more (memcached `flush_all DELAY`).
    pub fn schedule_clear(&self, _at_ms: u64) {
        todo!()
    }
    /// Removes expired entries from at most `shards_max` shards whose earliest expiry has passed, going on where the last
    /// call ended. Returns how many were removed, and whether a due shard may be left.
    pub fn sweep(&self, _now_ms: u64, _shards_max: usize) -> (u64, bool) {
        todo!()
    }
    /// Counts since the table was made.
    pub fn counts(&self) -> Counts {
        todo!()
    }
    /// Begins a point-in-time snapshot; writers go on. One at a time: `None` while another lives.
    pub fn snapshot(&self) -> Option<Snapshot<'_>> {
        todo!()
    }
}

/// Counts since a table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live and not yet collected entries.
    pub entries: u64,
    /// Entries that have an expiry.
    pub entries_with_expiry: u64,
    /// Bytes of entries.
    pub bytes: u64,
    /// Bytes of the shards and their indexes.
    pub index_bytes: u64,
    /// Entries removed because they expired.
    pub expired: u64,
    /// Entries removed to make room.
    pub evicted: u64,
    /// Writes refused because the table was full.
    pub refused: u64,
    /// The version of the last write.
    pub version: u64,
}

/// A table some or all of whose shards are locked by this thread: several keys as one step.
///
/// Calls with a key whose shard is not locked panic: the caller named too few keys.
#[derive(Debug)]
pub struct Locked<'a> {
    _table: &'a Table,
}

/// A point in time of one table.
#[derive(Debug)]
pub struct Snapshot<'a> {
    _table: &'a Table,
}

impl Snapshot<'_> {
    /// Visits the entries of the next shard; false when there was none left.
    pub fn next_shard(&mut self, _visit: impl FnMut(Entry<'_>)) -> bool {
        todo!()
    }
}

impl Keyspace for Table {
    fn read<R>(&self, _key: &[u8], _now_ms: u64, _look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        todo!()
    }
    fn update<R>(&self, _key: &[u8], _now_ms: u64, _change: impl FnOnce(&mut Slot<'_>) -> R) -> R {
        todo!()
    }
    fn len(&self) -> u64 {
        todo!()
    }
    fn scan(&self, _c: u64, _n: usize, _now_ms: u64, _visit: impl FnMut(Entry<'_>)) -> u64 {
        todo!()
    }
    fn random<R>(&self, _s: u64, _now_ms: u64, _look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        todo!()
    }
    fn clear(&self) -> u64 {
        todo!()
    }
}

impl Keyspace for Locked<'_> {
    fn read<R>(&self, _key: &[u8], _now_ms: u64, _look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        todo!()
    }
    fn update<R>(&self, _key: &[u8], _now_ms: u64, _change: impl FnOnce(&mut Slot<'_>) -> R) -> R {
        todo!()
    }
    fn len(&self) -> u64 {
        todo!()
    }
    fn scan(&self, _c: u64, _n: usize, _now_ms: u64, _visit: impl FnMut(Entry<'_>)) -> u64 {
        todo!()
    }
    fn random<R>(&self, _s: u64, _now_ms: u64, _look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        todo!()
    }
    fn clear(&self) -> u64 {
        todo!()
    }
}
