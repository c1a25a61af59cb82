//! One shard: a lock over an index of entries.
//!
//! A shard fills exactly one cache line, lock included, so that finding a key costs three lines
//! (shard, index, entry) and that of a hint, by which the index is fetched while the shard's line
//! is on its way ([`crate::prefetch`]).

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use hashbrown::HashTable;

use crate::budget::Padded;
use crate::deadlines::Deadlines;
use crate::entry::{Entry, EntryBox};
use crate::hash::KeyHash;
use crate::index_hint::Hint;
use crate::limits::Gauge;
use crate::preserved::PreservedShard;
use crate::readers::{Biased, Locked, LockedToRead};
use crate::short;
use crate::time::{NEVER_MS, Time};

/// Capacity of a shard's first index (32 buckets, 312 bytes). Smaller ones would soon be outgrown,
/// and the blocks they leave are too small for most entries: at 100,000 entries that costs more
/// than it saves.
const CAPACITY_MIN: usize = 28;

/// The data guarded by a shard's lock.
pub(crate) struct Records {
    pub(crate) index: HashTable<EntryBox>,
    /// When entries expire, if any ever had an expiry.
    pub(crate) deadlines: Option<Box<Deadlines>>,
    /// What the running snapshot still needs of this shard.
    pub(crate) preserved: Option<Box<PreservedShard>>,
    /// The last snapshot that this shard was preserved for.
    pub(crate) snapshot: u32,
}

impl Records {
    fn new() -> Records {
        Records { index: HashTable::new(), deadlines: None, preserved: None, snapshot: 0 }
    }

    /// The entry of a key, expired or not.
    #[inline]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<&EntryBox> {
        self.index.find(hash, |entry| short::equal(entry.entry().key(), key))
    }

    /// The live entry of a key.
    #[inline]
    pub(crate) fn find_live(&self, hash: u64, key: &[u8], now: impl Time) -> Option<Entry<'_>> {
        let entry = self.find(hash, key)?.entry();
        (!entry.is_expired(now)).then_some(entry)
    }

    /// The bucket of a key's entry, expired or not.
    #[inline]
    pub(crate) fn find_bucket(&self, hash: u64, key: &[u8]) -> Option<usize> {
        self.index.find_bucket_index(hash, |entry| short::equal(entry.entry().key(), key))
    }

    pub(crate) fn bucket(&self, bucket: usize) -> Option<Entry<'_>> {
        self.index.get_bucket(bucket).map(EntryBox::entry)
    }

    /// Adds the entry of a key that has none. Returns its bucket.
    pub(crate) fn insert(&mut self, hash: u64, entry: EntryBox, hasher: &KeyHash) -> usize {
        let rehash = |entry: &EntryBox| hasher.of(entry.entry().key());
        if self.index.num_buckets() <= 1 {
            self.index.reserve(CAPACITY_MIN, rehash);
        }
        self.index.insert_unique(hash, entry, rehash).bucket_index()
    }

    /// No entry expires before this; [`NEVER_MS`] if none has an expiry.
    #[inline]
    pub(crate) fn first_deadline_ms(&self) -> u64 {
        self.deadlines.as_ref().map_or(NEVER_MS, |deadlines| deadlines.first_ms())
    }

    /// Bytes of the deadlines.
    #[inline]
    pub(crate) fn deadline_bytes(&self) -> usize {
        self.deadlines.as_ref().map_or(0, |deadlines| deadlines.allocated())
    }

    /// Releases memory once the index is less than an eighth full.
    pub(crate) fn shrink(&mut self, hasher: &KeyHash) {
        let (len, buckets) = (self.index.len(), self.index.num_buckets());
        if buckets > CAPACITY_MIN * 2 && len < buckets / 8 {
            // Twice the present size, so that a table whose size oscillates does not grow again at
            // once.
            let capacity = (len * 2).max(CAPACITY_MIN);
            self.index.shrink_to(capacity, |entry| hasher.of(entry.entry().key()));
        }
    }
}

/// One shard.
#[repr(align(64))]
pub(crate) struct Shard {
    records: Biased<Records>,
}

const _: () = assert!(size_of::<Shard>() == 64);

impl Shard {
    /// Locks it for writing.
    #[inline]
    pub(crate) fn lock(&self) -> Locked<'_, Records> {
        self.records.lock()
    }

    #[inline]
    pub(crate) fn try_lock(&self) -> Option<Locked<'_, Records>> {
        self.records.try_lock()
    }

    /// Locks it for reading.
    #[inline]
    pub(crate) fn lock_to_read(&self) -> LockedToRead<'_, Records> {
        self.records.lock_to_read()
    }

    #[inline]
    pub(crate) fn try_lock_to_read(&self) -> Option<LockedToRead<'_, Records>> {
        self.records.try_lock_to_read()
    }

    /// Reads without a lock if reads are frequent; see [`crate::readers`].
    #[inline]
    pub(crate) fn read_in_place<R>(&self, read: impl FnOnce(&Records) -> R) -> R {
        self.records.read_in_place(read)
    }
}

/// All shards of a table. The first write creates them, so that an unused table costs next to
/// nothing.
pub(crate) struct Shards {
    shards: Box<[Shard]>,
    /// For each shard its first deadline, before which no entry expires, or [`NEVER_MS`]. Readable
    /// without the lock and 16 to a pair of cache lines: the sweeper checks all of them in a
    /// microsecond or two.
    expiry_hints: Box<[AtomicU64]>,
    /// Where each shard's index is.
    index_hints: Box<[Hint]>,
    /// Bytes of all indexes and deadlines. Changed when one of them allocates; kept apart from what
    /// every look-up reads.
    bytes: Padded<AtomicI64>,
}

impl Shards {
    pub(crate) fn new(count: usize) -> Shards {
        let shard = || Shard { records: Biased::new(Records::new()) };
        Shards {
            shards: std::iter::repeat_with(shard).take(count).collect(),
            expiry_hints: (0..count).map(|_| AtomicU64::new(NEVER_MS)).collect(),
            index_hints: (0..count).map(|_| Hint::default()).collect(),
            bytes: Padded::default(),
        }
    }

    #[inline]
    pub(crate) fn get(&self, shard: usize) -> &Shard {
        &self.shards[shard]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter()
    }

    /// The shard of a key with this hash; also prefetches its place in the index.
    #[inline]
    pub(crate) fn ahead(&self, shard: usize, hash: u64) -> &Shard {
        self.hint(shard).fetch(hash);
        self.get(shard)
    }

    #[inline]
    pub(crate) fn hint(&self, shard: usize) -> &Hint {
        &self.index_hints[shard]
    }

    pub(crate) fn expiry_hint(&self, shard: usize) -> u64 {
        self.expiry_hints[shard].load(Relaxed)
    }

    /// Copies a shard's first deadline; `records` are those of `shard`.
    #[inline]
    pub(crate) fn note_first_deadline(&self, shard: usize, records: &Records) {
        let first_ms = records.first_deadline_ms();
        let hint = &self.expiry_hints[shard];
        // Relaxed: only a hint; a thread that acts on it takes the lock first.
        if hint.load(Relaxed) != first_ms {
            hint.store(first_ms, Relaxed);
        }
    }

    /// Records that a shard's index moved; it had this many buckets before.
    #[cold]
    pub(crate) fn note_moved(&self, shard: usize, index: &HashTable<EntryBox>, buckets: usize) {
        self.hint(shard).set(index);
        // A bucket takes an entry and a control byte.
        const BUCKET_BYTES: i64 = size_of::<EntryBox>() as i64 + 1;
        let grown = index.num_buckets() as i64 - buckets as i64;
        // An index without an allocation has one bucket.
        let first = buckets <= 1 && grown > 0;
        self.bytes.change(if first {
            index.allocation_size() as i64
        } else {
            grown * BUCKET_BYTES
        });
    }

    /// Records that the index and the deadlines of a shard are taken out.
    pub(crate) fn note_taken(&self, shard: usize, records: &Records) {
        self.hint(shard).clear();
        let bytes = records.index.allocation_size() + records.deadline_bytes();
        self.bytes.change(-(bytes as i64));
    }

    /// Records that the size of a shard's deadlines changed.
    #[inline]
    pub(crate) fn note_deadline_bytes(&self, before: usize, after: usize) {
        self.bytes.change(after as i64 - before as i64);
    }

    /// Whether no shard has allocated anything.
    pub(crate) fn are_bare(&self) -> bool {
        self.bytes.load(Relaxed) == 0
    }

    /// Bytes of memory, without the entries.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.shards)
            + size_of_val(&*self.expiry_hints)
            + size_of_val(&*self.index_hints)
            + usize::try_from(self.bytes.load(Relaxed)).unwrap_or(0)
    }
}
