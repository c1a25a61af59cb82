//! One key under its shard's lock, as a read-modify-write operation sees it.

use std::fmt;

use crate::body::Body;
use crate::entry::{Entry, EntryBox};
use crate::eviction::{self, Written};
use crate::kind::Stored;
use crate::lent::Lent;
use crate::limits::Full;
use crate::meta::{Access, Meta};
use crate::writer::{Charge, Removal, Versions, Writer};

/// An entry built before its shard is locked, so that copying a large value delays no other thread.
/// See [`LockedKey::put_prepared`].
pub struct Prepared {
    entry: EntryBox,
}

impl Prepared {
    /// A string that is the concatenation of the parts.
    pub fn new(key: &[u8], value: &[&[u8]], meta: Meta) -> Result<Prepared, Full> {
        Ok(Prepared { entry: EntryBox::build(key, value, &meta).ok_or(Full)? })
    }

    /// An entry with a value of any kind.
    pub fn stored(key: &[u8], value: Stored<'_>, meta: Meta) -> Result<Prepared, Full> {
        Ok(Prepared { entry: EntryBox::of_stored(key, value, &meta).ok_or(Full)? })
    }

    /// An entry whose value is lent.
    pub fn lent(key: &[u8], value: Lent, meta: Meta) -> Result<Prepared, Full> {
        let (body, len) = value.into_parts();
        Ok(Prepared { entry: EntryBox::over(key, body, len, &meta).ok_or(Full)? })
    }

    pub(crate) fn into_entry(self) -> EntryBox {
        self.entry
    }

    /// The entry's key.
    pub fn key(&self) -> &[u8] {
        self.entry.entry().key()
    }

    /// The entry, so that others can share its value ([`LockedKey::put_same`]).
    pub fn entry(&self) -> Entry<'_> {
        self.entry.entry()
    }

    /// Bytes that the entry will count for.
    pub fn bytes(&self) -> usize {
        self.entry.entry().bytes()
    }
}

impl fmt::Debug for Prepared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Prepared").field(&self.entry.entry()).finish()
    }
}

/// A large value that is copied in parts before an entry is made from it.
pub struct Filling {
    body: Body,
    filled: usize,
    len: usize,
}

impl Filling {
    /// Allocates a value of this length.
    pub fn new(len: usize) -> Result<Filling, Full> {
        Ok(Filling { body: Body::new(len, len, false).ok_or(Full)?, filled: 0, len })
    }

    /// The length of the value.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Number of bytes copied so far.
    pub fn filled(&self) -> usize {
        self.filled
    }

    /// Adds the next bytes.
    ///
    /// # Panics
    /// If the value would exceed its length.
    pub fn push(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.len - self.filled, "the bytes exceed the value");
        // SAFETY: the body is ours alone until an entry is made from it, which consumes `self`.
        unsafe { self.body.write(self.filled, bytes) };
        self.filled += bytes.len();
    }

    /// The entry.
    ///
    /// # Panics
    /// If a part of the value is missing.
    pub fn prepared(self, key: &[u8], meta: Meta) -> Result<Prepared, Full> {
        assert!(self.filled == self.len, "a part of the value is missing");
        Ok(Prepared { entry: EntryBox::over(key, self.body, self.len, &meta).ok_or(Full)? })
    }
}

impl fmt::Debug for Filling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filling").field("filled", &self.filled).field("len", &self.len).finish()
    }
}

/// The rest of an operation on a key, for which no lock is needed.
#[derive(Default)]
pub(crate) struct Remains {
    /// The write, if a limit applies.
    pub(crate) written: Option<Written>,
    /// Entries to be freed.
    pub(crate) garbage: Vec<EntryBox>,
}

/// One key under its shard's lock, as a read-modify-write operation sees it.
pub struct LockedKey<'a> {
    pub(crate) writer: Writer<'a>,
    key: &'a [u8],
    hash: u64,
    now_ms: u64,
    /// The bucket of the key's live entry.
    pub(crate) bucket: Option<usize>,
    written: Option<u64>,
    /// Whether a write was refused for lack of room.
    refused: bool,
    /// Whether an entry was taken out. Its key stays in the table's order until the operation on it
    /// ends: no walk may miss a key that is taken out and put back in one operation.
    taken_out: bool,
}

impl<'a> LockedKey<'a> {
    /// Looks up the key, and collects its entry if that has expired.
    #[inline(always)]
    pub(crate) fn find(writer: Writer<'a>, key: &'a [u8], hash: u64, now_ms: u64) -> LockedKey<'a> {
        let bucket = writer.records.find_bucket(hash, key);
        LockedKey::at(writer, key, hash, bucket, now_ms)
    }

    /// The same for a key that was looked up: its entry is in this bucket.
    ///
    /// Always inlined, because a locked key is too large to be returned quickly.
    #[inline(always)]
    pub(crate) fn at(
        mut writer: Writer<'a>,
        key: &'a [u8],
        hash: u64,
        mut bucket: Option<usize>,
        now_ms: u64,
    ) -> LockedKey<'a> {
        let mut taken_out = false;
        if let Some(found) = bucket {
            if writer.records.bucket(found).is_some_and(|entry| entry.is_expired(now_ms)) {
                taken_out = writer.take_out_expired(found);
                bucket = None;
            } else if writer.core.is_limited()
                && let Some(entry) = writer.records.index.get_bucket_mut(found)
            {
                eviction::note_use(entry);
            }
        }
        LockedKey { writer, key, hash, now_ms, bucket, written: None, refused: false, taken_out }
    }

    /// Ends the operation on the key.
    #[inline(always)]
    pub(crate) fn finish(&mut self, now_ms: u64, remains: &mut Remains) {
        if self.writer.core.is_limited() {
            remains.written = self.to_written(now_ms);
        }
        if !self.writer.garbage.is_empty() {
            remains.garbage = std::mem::take(&mut self.writer.garbage);
        }
    }

    #[inline(never)]
    fn to_written(&self, now_ms: u64) -> Option<Written> {
        // A refused write evicts all the same, so that a retry succeeds.
        let next = || self.refused.then(|| self.writer.core.version() + 1);
        self.written.or_else(next).map(|version| Written {
            first_version: version,
            last_version: version,
            now_ms,
            grown: self.writer.grown,
        })
    }

    /// Whether the key has lost its entry, but is still in the table's order; from now on the
    /// caller is responsible for removing it from the order.
    pub(crate) fn leaves_key(&mut self) -> bool {
        std::mem::take(&mut self.taken_out) && self.bucket.is_none()
    }

    /// The key.
    pub fn key(&self) -> &[u8] {
        self.key
    }

    /// The live entry, if any (an expired one counts as none).
    pub fn entry(&self) -> Option<Entry<'_>> {
        self.writer.records.bucket(self.bucket?)
    }

    /// Writes a string that is the concatenation of the parts, whatever the present record is.
    /// Returns its version.
    pub fn put(&mut self, value: &[&[u8]], meta: Meta) -> Result<u64, Full> {
        if let Some(bucket) = self.bucket
            && let Some(version) = self.writer.overwrite(bucket, value, &meta, Versions::Counted)
        {
            self.written = Some(version?);
            return version;
        }
        let entry = EntryBox::build(self.key, value, &meta).ok_or(Full)?;
        self.place(entry, Charge::Within)
    }

    /// Writes a new entry with the value of any kind.
    pub fn put_stored(&mut self, value: Stored<'_>, meta: Meta) -> Result<u64, Full> {
        match value.is_collection() {
            false => self.put(&[value.bytes()], meta),
            true => self.put_prepared(Prepared::stored(self.key, value, meta)?),
        }
    }

    /// Writes a new entry with the value of another one. A large string is shared, not copied.
    pub fn put_same(&mut self, value_of: &Entry<'_>, meta: Meta) -> Result<u64, Full> {
        let entry = EntryBox::same_value(self.key, value_of, &meta).ok_or(Full)?;
        self.place(entry, Charge::Within)
    }

    /// Writes an entry that was built beforehand.
    ///
    /// # Panics
    /// If it was built for another key.
    pub fn put_prepared(&mut self, prepared: Prepared) -> Result<u64, Full> {
        assert!(prepared.key() == self.key, "an entry was prepared for another key");
        self.place(prepared.entry, Charge::Within)
    }

    /// Writes an entry in place of one that the caller removes elsewhere in the same operation.
    /// Limits do not refuse it unless it alone exceeds one, since it adds nothing except for the
    /// difference of two keys.
    pub fn put_moved(&mut self, value: Stored<'_>, meta: Meta) -> Result<u64, Full> {
        let entry = EntryBox::of_stored(self.key, value, &meta).ok_or(Full)?;
        self.place(entry, Charge::Anyway)
    }

    /// Like [`LockedKey::put_moved`], with the value of another entry, like
    /// [`LockedKey::put_same`].
    pub fn put_same_moved(&mut self, value_of: &Entry<'_>, meta: Meta) -> Result<u64, Full> {
        let entry = EntryBox::same_value(self.key, value_of, &meta).ok_or(Full)?;
        self.place(entry, Charge::Anyway)
    }

    /// Rewrites the present value with other metadata, as a new version. `None` if there is no
    /// entry. A table that refuses writes accepts it even at its limit, since it adds at most a few
    /// bytes of metadata.
    pub fn set_meta(&mut self, meta: Meta) -> Option<Result<u64, Full>> {
        let entry = EntryBox::same_value(self.key, &self.entry()?, &meta);
        Some(entry.ok_or(Full).and_then(|entry| self.place(entry, Charge::Anyway)))
    }

    /// Changes the access word (no new version). False if there is no entry or no word.
    pub fn set_access(&mut self, access: Access) -> bool {
        let Some(bucket) = self.bucket else { return false };
        self.writer.set_access(bucket, access)
    }

    /// Removes the entry. False if there was none.
    pub fn remove(&mut self) -> bool {
        match self.bucket.take() {
            Some(bucket) => {
                let removed = self.writer.take_out(bucket, Removal::Asked);
                self.taken_out |= removed;
                removed
            }
            None => false,
        }
    }

    /// Checks whether an entry of this many bytes in place of the present one would be refused now.
    pub(crate) fn admit(&mut self, new_bytes: i64) -> Result<(), Full> {
        let admitted = self.writer.admits(new_bytes, self.bucket);
        admitted.inspect_err(|Full| self.refused = true)
    }

    pub(crate) fn place(&mut self, entry: EntryBox, charge: Charge) -> Result<u64, Full> {
        let put = self.writer.put(entry, self.hash, self.bucket, charge, self.now_ms);
        let (bucket, version) = put.inspect_err(|Full| self.refused = true)?;
        self.bucket = Some(bucket);
        self.written = Some(version);
        Ok(version)
    }
}

impl Drop for LockedKey<'_> {
    fn drop(&mut self) {
        if self.leaves_key()
            && let Some(ordered) = &self.writer.core.ordered
        {
            ordered.remove(self.key);
        }
    }
}

impl fmt::Debug for LockedKey<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedKey")
            .field("key", &self.key.escape_ascii().to_string())
            .field("entry", &self.entry())
            .finish_non_exhaustive()
    }
}
