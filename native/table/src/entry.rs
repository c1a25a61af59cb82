//! One entry: an immutable allocation, and the tagged pointer that owns it.
//!
//! An entry is written once and not changed as long as anyone can see it; a write makes another
//! entry and swaps the pointer. If nothing else has a pointer to the entry, a write may replace the
//! bytes of a value without a body that keeps its size, or exchange a body for a lent one, under
//! the shard's lock. The little that may change at any time lives beside the immutable bytes: the
//! access word (atomic), the pin and the reference count of large entries (atomic), and the use
//! frequency and the run of versions (in the pointer, under the shard's lock).
//!
//! There are three layouts. Small entries, by far the most frequent, must not pay for what only
//! large ones need:
//!
//! ```text
//! compact  | version 48, key_len 8, value_len 8 |
//!          | expiry? 8 | access? 8 | flags? 4 | key | value |
//!
//! wide     | references 4 | key_len 4 | value_len 4 | flags 4 | version 8 | pin 8 |
//!          | expiry? 8 | access? 8 | key | value |
//!
//! bodied   | as wide                            |
//!          | expiry? 8 | access? 8 | body 8 | key |
//! ```
//!
//! A 16-byte key with a 16-byte value takes 40 bytes, which exactly fills a 48-byte chunk of
//! glibc's malloc. An entry is compact if key and value both have at most 255 bytes.
//!
//! A value of [`BODY_BYTES_MIN`] or more is stored apart from its entry, in a [`Body`] that entries
//! may share: to change the expiry, the key or the length of such a value, a write makes a new
//! small entry and does not copy the value. So is a value of any length that the caller lends
//! instead of having it copied ([`Lent`](crate::Lent)). `body.rs` defines who may write to a body.
//! In every layout the value is one slice. That of a collection is a block (`kind.rs`), which is
//! short enough to follow the key always.
//!
//! The pointer, not the allocation, indicates the layout and which optional fields are present: on
//! every 64-bit system that we know, user addresses are 48-bit numbers, sign-extended, so the upper
//! 16 bits are free for
//!
//! ```text
//! bit  48 wide | 49 expiry | 50 flags (compact only) | 51 access
//!      52..57 use frequency | 57 collection | 58 body | 59..64 run of versions
//! ```
//!
//! Each allocation checks this assumption. The pointer keeps its provenance throughout: only
//! `map_addr` changes its bits, and the untagged pointer is the one that the allocator returned.
//!
//! Ownership: [`EntryBox`] owns an entry on behalf of a table (or of a snapshot's limbo). [`Entry`]
//! borrows one. [`Shared`] is a counted handle of a wide entry that may outlive the table's
//! ownership; compact entries are never shared, since copying 255 bytes costs less than counting.

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{
    AtomicPtr, AtomicU32, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use crate::allocation::{self, allocated_bytes};
use crate::body::{BODY_BYTES_MIN, Body, body_bytes};
use crate::copies;
use crate::kind::{Kind, Stored, WrongKind};
use crate::meta::{Access, Meta};
use crate::short;
use crate::time::Time;

#[cfg(not(target_pointer_width = "64"))]
compile_error!("entries are addressed by tagged 64-bit pointers");

const WIDE: usize = 1 << 48;
const EXPIRY: usize = 1 << 49;
const FLAGS: usize = 1 << 50;
const ACCESS: usize = 1 << 51;
const FREQUENCY_SHIFT: u32 = 52;
const FREQUENCY_MASK: usize = (FREQUENCY_MAX as usize) << FREQUENCY_SHIFT;
/// The value is a block of a collection. Such an entry has no [`BODY`].
const COLLECTION: usize = 1 << 57;
/// The value is in a [`Body`]. Such an entry is wide as well.
const BODY: usize = 1 << 58;
/// See [`EntryBox::next_of_run`].
const RUN_SHIFT: u32 = 59;
const RUN_MASK: usize = 31 << RUN_SHIFT;
const _: () = assert!(RUN_LENGTH_MAX * 2 - 2 <= 31);
/// A power of two.
const RUN_LENGTH_MAX: u64 = 16;
const ADDRESS_MASK: usize = (1 << 48) - 1;

/// The highest use frequency that a pointer can hold.
pub(crate) const FREQUENCY_MAX: u8 = 31;
/// Every version is below this.
pub(crate) const VERSION_END: u64 = 1 << 48;
/// The longest key and the longest value of a compact entry.
const COMPACT_MAX: usize = u8::MAX as usize;
const ALIGN: usize = 8;

/// The start of a wide entry.
#[repr(C)]
struct WideHeader {
    references: AtomicU32,
    key_len: u32,
    value_len: u32,
    flags: u32,
    version: u64,
    pin: AtomicPtr<c_void>,
}

const COMPACT_HEADER_BYTES: usize = 8;
const WIDE_HEADER_BYTES: usize = size_of::<WideHeader>();
const _: () = assert!(WIDE_HEADER_BYTES == 32);

/// Stored in place of the pin once the table has released the entry; not the address of anything.
const LET_GO: *mut c_void = ptr::without_provenance_mut(1);

/// Bytes before the key of an entry with this tag.
fn key_offset(tag: usize) -> usize {
    body_offset(tag) + field(tag, BODY, 8) + field(tag, FLAGS, 4)
}

/// Bytes before the pointer to the body of an entry with this tag.
fn body_offset(tag: usize) -> usize {
    fields_offset(tag) + field(tag, EXPIRY, 8) + field(tag, ACCESS, 8)
}

/// Bytes before the first optional field of an entry with this tag.
fn fields_offset(tag: usize) -> usize {
    COMPACT_HEADER_BYTES + field(tag, WIDE, WIDE_HEADER_BYTES - COMPACT_HEADER_BYTES)
}

/// The size of an optional field: `bytes` if `bit` is set in the tag, otherwise 0.
fn field(tag: usize, bit: usize, bytes: usize) -> usize {
    ((tag & bit) >> bit.trailing_zeros()) * bytes
}

/// The tag of an entry with these lengths and metadata.
fn tag_of(key_len: usize, value_len: usize, has_body: bool, meta: &Meta) -> usize {
    let bit = |set: bool, bit: usize| if set { bit } else { 0 };
    let wide = key_len > COMPACT_MAX || value_len > COMPACT_MAX || has_body;
    bit(wide, WIDE)
        | bit(has_body, BODY)
        | bit(meta.expires_at_ms.is_some(), EXPIRY)
        | bit(meta.access.is_some(), ACCESS)
        | bit(meta.flags != 0 && !wide, FLAGS)
}

/// Bytes that such an entry counts for, if its value was written in one piece.
pub(crate) fn bytes_for(key_len: usize, value_len: usize, meta: &Meta) -> usize {
    let has_body = value_len >= BODY_BYTES_MIN;
    let before_value = key_offset(tag_of(key_len, value_len, has_body, meta)) + key_len;
    match has_body {
        true => allocated_bytes(before_value) + body_bytes(value_len),
        false => allocated_bytes(before_value + value_len),
    }
}

/// Bytes that an entry counts for if its value is in a body that takes `body_bytes`.
pub(crate) fn bytes_with_body(key_len: usize, body_bytes: usize, meta: &Meta) -> usize {
    allocated_bytes(key_offset(tag_of(key_len, 0, true, meta)) + key_len) + body_bytes
}

/// The address that the allocator returned: the tag replaced by the sign extension of bit 47.
fn untag(tagged: NonNull<u8>) -> *mut u8 {
    tagged.as_ptr().map_addr(|address| ((address << 16).cast_signed() >> 16).cast_unsigned())
}

/// One live entry, borrowed for as long as the caller's closure runs.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// Invariant: points to an initialised entry that stays allocated for `'a`.
    tagged: NonNull<u8>,
    /// Whether the table cannot release the entry during `'a` (its shard is locked or read in
    /// place). A pin requires this.
    locked: bool,
    borrow: PhantomData<&'a [u8]>,
}

impl<'a> Entry<'a> {
    /// The key.
    #[inline]
    pub fn key(&self) -> &'a [u8] {
        let (key_len, _) = self.lengths();
        // SAFETY: the key starts at `key_offset` and has `key_len` initialised bytes, which no
        // thread changes during `'a`.
        unsafe { std::slice::from_raw_parts(self.at(key_offset(self.tag())), key_len) }
    }

    /// The value of a string. What wants a string asks for it, so that no collection is read as
    /// one.
    #[inline]
    pub fn text(&self) -> Result<&'a [u8], WrongKind> {
        if self.tag() & (BODY | COLLECTION) != 0 {
            return self.text_apart();
        }
        Ok(self.value_beside_key())
    }

    #[cold]
    fn text_apart(&self) -> Result<&'a [u8], WrongKind> {
        self.stored().text()
    }

    /// What the record is.
    #[inline]
    pub fn kind(&self) -> Kind {
        if self.tag() & COLLECTION == 0 { Kind::String } else { self.stored().kind() }
    }

    /// The value as the table stores it, for what moves, sends or compares records of any kind.
    #[inline]
    pub fn stored(&self) -> Stored<'a> {
        let bytes = match self.tag() & BODY {
            0 => self.value_beside_key(),
            _ => self.value_of_body(),
        };
        Stored::new(bytes, self.is_collection())
    }

    #[inline]
    fn is_collection(&self) -> bool {
        self.tag() & COLLECTION != 0
    }

    #[inline]
    fn value_beside_key(&self) -> &'a [u8] {
        let (key_len, value_len) = self.lengths();
        // SAFETY: without a body, the value follows the key and has `value_len` initialised bytes,
        // which no thread changes during `'a`.
        unsafe { std::slice::from_raw_parts(self.at(key_offset(self.tag()) + key_len), value_len) }
    }

    #[cold]
    fn value_of_body(&self) -> &'a [u8] {
        let (_, value_len) = self.lengths();
        match self.with_body(|body| body.bytes().cast_const()) {
            // SAFETY: the value is in the body and has `value_len` initialised bytes, which no
            // thread changes during `'a` (see `body.rs`).
            Some(start) => unsafe { std::slice::from_raw_parts(start, value_len) },
            None => &[],
        }
    }

    /// The version of the write that made this entry: unique within its table, higher than those of
    /// earlier writes of the key, below 2^48.
    #[inline]
    pub fn version(&self) -> u64 {
        match self.wide() {
            Some(header) => header.version,
            None => self.compact_word() >> 16,
        }
    }

    /// Flags, expiry and access as they are now.
    pub fn meta(&self) -> Meta {
        let access = self.access_word().map(|word| Access::from_word(word.load(Relaxed)));
        Meta { expires_at_ms: self.expires_at_ms(), flags: self.flags(), access }
    }

    /// The client's opaque flags.
    #[inline]
    pub fn flags(&self) -> u32 {
        let tag = self.tag();
        if let Some(header) = self.wide() {
            return header.flags;
        }
        if tag & FLAGS == 0 {
            return 0;
        }
        // SAFETY: the tag indicates that a compact entry has flags, and they lie directly before
        // the key. All fields before them have 8 bytes, so they are aligned.
        unsafe { self.at(key_offset(tag) - 4).cast::<u32>().read() }
    }

    /// When the entry expires.
    #[inline]
    pub fn expires_at_ms(&self) -> Option<u64> {
        let tag = self.tag();
        if tag & EXPIRY == 0 {
            return None;
        }
        // SAFETY: the tag indicates an expiry; it is the first optional field, and 8-aligned like
        // the entry.
        Some(unsafe { self.at(fields_offset(tag)).cast::<u64>().read() })
    }

    /// Bytes that the entry's allocations take, including the allocator's overhead. A body that
    /// several entries share counts for each of them, with its whole capacity.
    #[inline]
    pub fn bytes(&self) -> usize {
        if self.tag() & BODY != 0 {
            return self.bytes_with_body();
        }
        let (key_len, value_len) = self.lengths();
        allocated_bytes(key_offset(self.tag()) + key_len + value_len)
    }

    #[cold]
    fn bytes_with_body(&self) -> usize {
        let body_bytes = self.with_body(Body::memory_bytes);
        allocated_bytes(self.size()) + body_bytes.unwrap_or(0)
    }

    /// Calls `read` with the body, if the entry has one.
    pub(crate) fn with_body<R>(&self, read: impl FnOnce(&Body) -> R) -> Option<R> {
        let start = self.body_start()?;
        // SAFETY: the entry owns a reference to the body as long as it lives; this only borrows it.
        let body = ManuallyDrop::new(unsafe { Body::from_raw(start) });
        Some(read(&body))
    }

    /// Records a read: sets `last_s` and `fetched`. Does nothing if the entry has no access word.
    #[inline]
    pub fn note_access(&self, now: impl Time) {
        if let Some(word) = self.access_word() {
            Access::note(word, now.ms());
        }
    }

    /// Whether the entry has expired by now.
    #[inline]
    pub fn is_expired(&self, now: impl Time) -> bool {
        self.expires_at_ms().is_some_and(|at_ms| at_ms <= now.ms())
    }

    /// A counted handle that keeps the value of a string after this read. `None` for small entries
    /// and for collections: copy those.
    pub fn share(&self) -> Option<Shared> {
        let header = self.wide_string()?;
        count_reference(header);
        Some(Shared { tagged: self.tagged })
    }

    /// The entry's pin; `make` creates it if there is none yet.
    ///
    /// A pin is an object of the caller (a BEAM resource) that owns the [`Shared`] handle given to
    /// `make`. The table keeps it beside the entry and passes it to the hook of [`set_pin_release`]
    /// when it releases the entry, so the pin lives at least until this read ends. If two
    /// concurrent reads find no pin, both make one, and one of the two goes to the hook at once.
    /// Returns `None` for small entries, for collections, and for entries that are not read in
    /// place (use [`Table::read_in_place`](crate::Table::read_in_place)), since such a pin could be
    /// released while in use.
    pub fn pin(&self, make: impl FnOnce(Shared) -> NonNull<c_void>) -> Option<NonNull<c_void>> {
        let header = self.wide_string()?;
        if !self.locked {
            return None;
        }
        // Acquire: a concurrent read may have made it.
        if let Some(pin) = NonNull::new(header.pin.load(Acquire)) {
            return Some(pin);
        }
        let pin = make(self.share()?);
        let none = ptr::null_mut();
        match header.pin.compare_exchange(none, pin.as_ptr(), AcqRel, Acquire) {
            Ok(_) => Some(pin),
            Err(made) => {
                release_pin(pin.as_ptr());
                NonNull::new(made)
            }
        }
    }

    /// Replaces the access word; false if the entry has none.
    pub(crate) fn set_access(&self, access: Access) -> bool {
        match self.access_word() {
            Some(word) => {
                word.store(access.to_word(), Relaxed);
                true
            }
            None => false,
        }
    }

    fn tag(&self) -> usize {
        self.tagged.addr().get()
    }

    fn at(&self, offset: usize) -> *const u8 {
        untag(self.tagged).wrapping_add(offset)
    }

    /// The header of a wide entry that is no collection.
    fn wide_string(&self) -> Option<&'a WideHeader> {
        if self.is_collection() { None } else { self.wide() }
    }

    fn wide(&self) -> Option<&'a WideHeader> {
        if self.tag() & WIDE == 0 {
            return None;
        }
        // SAFETY: the tag indicates that the entry starts with a `WideHeader`, initialised and
        // alive for `'a`. The fields that change are atomic.
        Some(unsafe { &*self.at(0).cast::<WideHeader>() })
    }

    /// The header of a compact entry.
    fn compact_word(&self) -> u64 {
        // SAFETY: every entry has at least 8 initialised bytes at its 8-aligned start. Those of a
        // compact entry change only by `&mut` of its box, so not while it is borrowed.
        unsafe { self.at(0).cast::<u64>().read() }
    }

    #[inline]
    fn lengths(&self) -> (usize, usize) {
        match self.wide() {
            Some(header) => (header.key_len as usize, header.value_len as usize),
            None => {
                let word = self.compact_word();
                (usize::from((word >> 8) as u8), usize::from(word as u8))
            }
        }
    }

    /// Size of the entry's own allocation.
    fn size(&self) -> usize {
        let (key_len, value_len) = self.lengths();
        let beside_key = if self.tag() & BODY == 0 { value_len } else { 0 };
        key_offset(self.tag()) + key_len + beside_key
    }

    fn body_start(&self) -> Option<NonNull<u8>> {
        let tag = self.tag();
        if tag & BODY == 0 {
            return None;
        }
        // SAFETY: the tag indicates a pointer to a body before the key, 8-aligned like the entry.
        // Only the sole owner of the entry changes it.
        Some(unsafe { self.at(body_offset(tag)).cast::<NonNull<u8>>().read() })
    }

    fn access_word(&self) -> Option<&'a AtomicU64> {
        let tag = self.tag();
        if tag & ACCESS == 0 {
            return None;
        }
        let offset = fields_offset(tag) + field(tag, EXPIRY, 8);
        // SAFETY: the tag indicates an access word; it follows the expiry, is 8-aligned like the
        // entry, and is only used as an atomic once the entry is published.
        Some(unsafe { &*self.at(offset).cast::<AtomicU64>() })
    }
}

impl fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key().escape_ascii().to_string())
            .field("kind", &self.kind())
            .field("value_bytes", &self.stored().bytes().len())
            .field("version", &self.version())
            .field("meta", &self.meta())
            .finish()
    }
}

fn count_reference(header: &WideHeader) {
    let before = header.references.fetch_add(1, Relaxed);
    // Wrapping around would free an entry in use. Two thousand million handles can only be leaked
    // handles; abort before that.
    if before > u32::MAX / 2 {
        std::process::abort();
    }
}

/// The table's ownership of one entry: a tagged pointer, the size of a pointer.
///
/// Dropping it releases the entry: the pin goes to its hook, and the memory is freed with the last
/// [`Shared`].
pub(crate) struct EntryBox {
    /// Invariant: an entry whose single table reference is ours.
    tagged: NonNull<u8>,
}

// SAFETY: an entry is immutable except for atomics, and is allocated by the thread-safe global
// allocator; nothing in it belongs to a thread. The caller of `set_pin_release` is responsible for
// what pins are made of.
unsafe impl Send for EntryBox {}
// SAFETY: as above; `&EntryBox` gives `Entry`, whose changes are atomic. `pin` relies on the lock
// of the reader: see `locked`.
unsafe impl Sync for EntryBox {}

impl EntryBox {
    /// An entry whose value is the concatenation of the parts. `None` if it is too long or the
    /// allocation fails.
    #[inline]
    pub(crate) fn build(key: &[u8], parts: &[&[u8]], meta: &Meta) -> Option<EntryBox> {
        let value_len = parts.iter().try_fold(0usize, |sum, part| sum.checked_add(part.len()))?;
        if value_len >= BODY_BYTES_MIN {
            return EntryBox::build_body(key, parts, value_len, meta);
        }
        copies::note(value_len);
        // SAFETY: every byte of the value is written below, before any thread can read it.
        let entry = unsafe { EntryBox::allocate(key, value_len, None, meta)? };
        let offset = key_offset(entry.entry().tag()) + key.len();
        let mut to = untag(entry.tagged).wrapping_add(offset);
        for part in parts {
            // SAFETY: the lengths of the parts add up to that of the value, and the new allocation
            // overlaps with nothing.
            unsafe {
                ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
                to = to.add(part.len());
            }
        }
        Some(entry)
    }

    #[cold]
    fn build_body(key: &[u8], parts: &[&[u8]], value_len: usize, meta: &Meta) -> Option<EntryBox> {
        EntryBox::over(key, Body::of(parts, value_len)?, value_len, meta)
    }

    /// An entry whose value is the first `value_len` bytes of a body. They are all written, or will
    /// be written before any thread reads them.
    #[inline(never)]
    pub(crate) fn over(key: &[u8], body: Body, value_len: usize, meta: &Meta) -> Option<EntryBox> {
        assert!(value_len <= body.capacity());
        // SAFETY: the value is in the body.
        unsafe { EntryBox::allocate(key, value_len, Some(body), meta) }
    }

    /// An entry with the value of another one, shared if that value is in a body.
    pub(crate) fn same_value(key: &[u8], value_of: &Entry<'_>, meta: &Meta) -> Option<EntryBox> {
        match value_of.with_body(Body::share) {
            Some(body) => EntryBox::over(key, body, value_of.lengths().1, meta),
            None => EntryBox::of_stored(key, value_of.stored(), meta),
        }
    }

    /// An entry with a value of any kind, which is copied.
    pub(crate) fn of_stored(key: &[u8], value: Stored<'_>, meta: &Meta) -> Option<EntryBox> {
        match value.is_collection() {
            false => EntryBox::build(key, &[value.bytes()], meta),
            true => EntryBox::collection(key, value.bytes(), meta),
        }
    }

    #[cold]
    fn collection(key: &[u8], block: &[u8], meta: &Meta) -> Option<EntryBox> {
        debug_assert!(Stored::block(block).is_some());
        copies::note(block.len());
        // SAFETY: every byte of the value is written below, before any thread can read it.
        let mut entry = unsafe { EntryBox::allocate(key, block.len(), None, meta)? };
        let offset = key_offset(entry.entry().tag()) + key.len();
        let to = untag(entry.tagged).wrapping_add(offset);
        // SAFETY: the value that was allocated has the length of the block, and the new allocation
        // overlaps with nothing.
        unsafe { ptr::copy_nonoverlapping(block.as_ptr(), to, block.len()) };
        entry.set_tag(COLLECTION, COLLECTION);
        Some(entry)
    }

    /// Allocates, and writes everything except the version (0) and a value that is not in a body.
    ///
    /// Always inlined: most entries have no body, and must not pay for those that have one.
    ///
    /// # Safety
    /// The caller writes the whole value before any thread reads it, unless it is in a body.
    #[inline(always)]
    unsafe fn allocate(
        key: &[u8],
        value_len: usize,
        body: Option<Body>,
        meta: &Meta,
    ) -> Option<EntryBox> {
        let key_len_u32 = u32::try_from(key.len()).ok()?;
        let value_len_u32 = u32::try_from(value_len).ok()?;
        let tag = tag_of(key.len(), value_len, body.is_some(), meta);
        let size = key_offset(tag) + key.len() + if body.is_some() { 0 } else { value_len };
        let layout = Layout::from_size_align(size, ALIGN).ok()?;
        // SAFETY: the size is at least that of a header, so it is not zero.
        let raw = unsafe { alloc::alloc(layout) };
        let start = allocation::check(raw, layout)?;
        let tagged = NonNull::new(raw.map_addr(|address| (address & ADDRESS_MASK) | tag));
        let Some(tagged) = tagged.filter(|tagged| untag(*tagged) == raw) else {
            // SAFETY: allocated above with the same layout.
            unsafe { alloc::dealloc(raw, layout) };
            return None;
        };
        // SAFETY: `start` has room for the header of the tag's layout, then 8-byte fields, then the
        // flags, then the key; all offsets are below `size` and aligned as in `Entry`'s accessors,
        // and no other thread has the pointer yet.
        unsafe {
            if tag & WIDE != 0 {
                start.cast::<WideHeader>().write(WideHeader {
                    references: AtomicU32::new(1),
                    key_len: key_len_u32,
                    value_len: value_len_u32,
                    flags: meta.flags,
                    version: 0,
                    pin: AtomicPtr::new(ptr::null_mut()),
                });
            } else {
                let lengths = u64::from(key_len_u32) << 8 | u64::from(value_len_u32);
                start.cast::<u64>().write(lengths);
            }
            let mut at = start.add(fields_offset(tag));
            if let Some(expires_at_ms) = meta.expires_at_ms {
                at.cast::<u64>().write(expires_at_ms);
                at = at.add(8);
            }
            if let Some(access) = meta.access {
                at.cast::<u64>().write(access.to_word());
                at = at.add(8);
            }
            if let Some(body) = body {
                at.cast::<NonNull<u8>>().write(body.into_raw());
                at = at.add(8);
            }
            if tag & FLAGS != 0 {
                at.cast::<u32>().write(meta.flags);
                at = at.add(4);
            }
            ptr::copy_nonoverlapping(key.as_ptr(), at.as_ptr(), key.len());
        }
        Some(EntryBox { tagged })
    }

    /// Whether [`EntryBox::overwrite`] can replace the value: the new one has the same size, the
    /// entry is a string, holds it without a body and has no other metadata than its version, and
    /// nothing but the box and aliases has a pointer to it. The caller considers aliases.
    #[inline]
    pub(crate) fn fits(&self, parts: &[&[u8]]) -> bool {
        let tag = self.tagged.addr().get();
        let is_plain = tag & (BODY | COLLECTION | EXPIRY | FLAGS | ACCESS) == 0;
        is_plain
            && parts.iter().map(|part| part.len()).sum::<usize>() == self.entry().lengths().1
            && (tag & WIDE == 0 || self.is_sole_without_flags())
    }

    #[inline(never)]
    fn is_sole_without_flags(&self) -> bool {
        self.owns_entry() && self.entry().flags() == 0
    }

    /// Replaces the value.
    ///
    /// # Panics
    /// If it does not [fit](EntryBox::fits).
    #[inline]
    pub(crate) fn overwrite(&mut self, parts: &[&[u8]]) {
        assert!(self.fits(parts), "the value does not fit");
        let (key_len, value_len) = self.entry().lengths();
        copies::note(value_len);
        let offset = key_offset(self.tagged.addr().get()) + key_len;
        let mut to = untag(self.tagged).wrapping_add(offset);
        for part in parts {
            // SAFETY: the lengths of the parts add up to that of the value, which follows the key
            // in an entry without a body. `&mut self` excludes all other pointers to the entry
            // except for handles and pins, of which there are none, and for aliases, which the
            // caller considers; so also that the parts are in it.
            unsafe {
                short::copy(part, to);
                to = to.add(part.len());
            }
        }
    }

    /// The entry to be rewritten, if it is a compact string without other metadata than its
    /// version; otherwise the box.
    #[inline(always)]
    pub(crate) fn simple(&mut self) -> Result<Simple<'_>, &mut EntryBox> {
        let tag = self.tagged.addr().get();
        if tag & (WIDE | BODY | COLLECTION | EXPIRY | FLAGS | ACCESS) != 0 {
            return Err(self);
        }
        let (key_len, value_len) = self.entry().lengths();
        Ok(Simple { entry: self, key_len, value_len })
    }

    /// Bytes of the body, if [`EntryBox::exchange_body`] can replace it: the entry has no other
    /// metadata than its version, and nothing but the box and aliases has a pointer to it. The
    /// caller considers aliases.
    #[inline]
    pub(crate) fn exchanged_bytes(&self) -> Option<usize> {
        let tag = self.tagged.addr().get();
        if tag & (BODY | EXPIRY | ACCESS) != BODY || !self.is_sole_without_flags() {
            return None;
        }
        self.entry().with_body(Body::memory_bytes)
    }

    /// Replaces the body, and the value by the first `value_len` bytes of the new one. Returns the
    /// old body.
    ///
    /// # Panics
    /// If [`EntryBox::exchanged_bytes`] is `None`, or the value is longer than the body.
    #[inline]
    pub(crate) fn exchange_body(&mut self, body: Body, value_len: usize) -> Body {
        assert!(self.exchanged_bytes().is_some() && value_len <= body.capacity());
        let start = untag(self.tagged);
        let to = start.wrapping_add(body_offset(self.tagged.addr().get())).cast::<NonNull<u8>>();
        // SAFETY: the tag indicates a wide header and a pointer to a body. `&mut self` excludes all
        // other pointers to the entry except for handles and pins, of which there are none, and for
        // aliases, which the caller considers. The capacity, and so the length, fits in 32 bits.
        unsafe {
            (*start.cast::<WideHeader>()).value_len = value_len as u32;
            Body::from_raw(to.replace(body.into_raw()))
        }
    }

    /// Sets the version of an entry that no other thread can see, or that is written over. The rest
    /// of its run is lost.
    #[inline]
    pub(crate) fn set_version(&mut self, version: u64) {
        self.set_run(0);
        self.write_version(version);
    }

    /// Takes the next version of the entry's run.
    ///
    /// An entry that is written over repeatedly takes versions from the table's counter in runs, so
    /// that threads that write over different entries do not wait for each other at the counter.
    /// Runs of 1 (the version that each entry begins with), 2, 4, 8 and then 16 versions follow
    /// each other: so the versions that are taken and never used are at most about as many as those
    /// that were used.
    ///
    /// The pointer has `length - 1 + first % length` of the run, a number from 0 to 30. This shows
    /// where the run ends, and stays the same until then: only the entry is written, and not the
    /// index as well.
    #[inline(always)]
    pub(crate) fn next_of_run(&mut self) -> Option<u64> {
        let (length, phase) = self.run();
        let version = self.entry().version() + 1;
        // As `version % length`, without a division.
        if version & (length - 1) == phase {
            return None;
        }
        self.write_version(version);
        Some(version)
    }

    /// How many versions the next run has.
    pub(crate) fn next_run_length(&self) -> u64 {
        (self.run().0 * 2).min(RUN_LENGTH_MAX)
    }

    /// Begins a run of `length` versions, a power of two, of which `first` is the entry's version
    /// now. They belong to this entry alone; the conditions are those of
    /// [`EntryBox::set_version`].
    pub(crate) fn begin_run(&mut self, first: u64, length: u64) {
        debug_assert!(length.is_power_of_two() && length <= RUN_LENGTH_MAX);
        self.set_run((length - 1 + first % length) as usize);
        self.write_version(first);
    }

    /// The length of the run, and its first version modulo that.
    #[inline(always)]
    fn run(&self) -> (u64, u64) {
        let state = (self.tagged.addr().get() >> RUN_SHIFT) as u64 + 1;
        let length = 1 << state.ilog2();
        (length, state - length)
    }

    #[inline]
    fn set_run(&mut self, state: usize) {
        self.set_tag(RUN_MASK, state << RUN_SHIFT);
    }

    #[inline(always)]
    fn write_version(&mut self, version: u64) {
        debug_assert!(version < VERSION_END);
        let start = untag(self.tagged);
        // SAFETY: both headers are initialised, and ours alone before publication, or as for
        // `overwrite`; the tag indicates which one it is.
        unsafe {
            if self.tagged.addr().get() & WIDE != 0 {
                (*start.cast::<WideHeader>()).version = version;
            } else {
                let word = start.cast::<u64>();
                word.write((word.read() & 0xffff) | version << 16);
            }
        }
    }

    /// The entry, for as long as the table owns it. A thread that borrows the box holds the shard's
    /// lock or reads in place.
    #[inline]
    pub(crate) fn entry(&self) -> Entry<'_> {
        Entry { tagged: self.tagged, locked: true, borrow: PhantomData }
    }

    /// The entry's address in memory.
    #[inline]
    pub(crate) fn address(&self) -> usize {
        untag(self.tagged).addr()
    }

    /// A second pointer to the entry that owns nothing.
    pub(crate) fn alias(&self) -> Alias {
        Alias { tagged: self.tagged }
    }

    /// How often the entry was used, 0 to [`FREQUENCY_MAX`].
    pub(crate) fn frequency(&self) -> u8 {
        ((self.tagged.addr().get() & FREQUENCY_MASK) >> FREQUENCY_SHIFT) as u8
    }

    pub(crate) fn set_frequency(&mut self, frequency: u8) {
        self.set_tag(FREQUENCY_MASK, usize::from(frequency.min(FREQUENCY_MAX)) << FREQUENCY_SHIFT);
    }

    /// Replaces the bits of the mask, which are part neither of the address nor of the layout.
    /// Most often they are the same, and a write would take the line from other processors.
    #[inline]
    fn set_tag(&mut self, mask: usize, bits: usize) {
        let address = (self.tagged.addr().get() & !mask) | bits;
        if address != self.tagged.addr().get()
            && let Some(address) = NonZeroUsize::new(address)
        {
            self.tagged = self.tagged.with_addr(address);
        }
    }

    /// Whether the entry may be large.
    #[inline]
    pub(crate) fn is_wide(&self) -> bool {
        self.tagged.addr().get() & WIDE != 0
    }

    /// Whether the box is the only owner of the entry, and the entry the only owner of its body and
    /// of the bytes. Handles and pins are owners; aliases are not, and the caller must consider
    /// them. False if there is no body, or a lent one.
    pub(crate) fn is_sole(&self) -> bool {
        self.owns_entry() && self.entry().with_body(Body::is_sole).unwrap_or(false)
    }

    /// Whether the box is the only owner of a wide entry.
    fn owns_entry(&self) -> bool {
        self.entry().wide().is_some_and(|header| {
            // Acquire: what other threads did with the entry happened before.
            header.references.load(Acquire) == 1 && header.pin.load(Acquire).is_null()
        })
    }

    /// Whether the value stays in memory when the entry is freed, because it has other owners.
    pub(crate) fn shares_body(&self) -> bool {
        self.entry().with_body(Body::is_shared).unwrap_or(false)
    }

    /// Enlarges the entry's body. False, and nothing changed, if the allocation fails.
    ///
    /// # Safety
    /// [`EntryBox::is_sole`] holds, there is no alias, and no thread reads the value meanwhile.
    pub(crate) unsafe fn grow_body(&mut self, capacity: usize) -> bool {
        let Some(start) = self.entry().body_start() else { return false };
        // SAFETY: this is the entry's own reference, which is put back below.
        let mut body = unsafe { Body::from_raw(start) };
        // SAFETY: the only reference; the only other pointer to it is replaced below.
        let grown = unsafe { body.grow(capacity) };
        let to = untag(self.tagged).wrapping_add(body_offset(self.entry().tag()));
        // SAFETY: this is where the tag places the pointer, and no other thread reads the entry.
        unsafe { to.cast::<NonNull<u8>>().write(body.into_raw()) };
        grown
    }
}

impl Drop for EntryBox {
    #[inline]
    fn drop(&mut self) {
        if self.is_wide() {
            return self.release_wide();
        }
        // SAFETY: the box is the only owner of a compact entry.
        unsafe { deallocate(self.tagged) };
    }
}

impl EntryBox {
    /// Drops the box of a wide entry.
    #[inline(never)]
    fn release_wide(&mut self) {
        if let Some(header) = self.entry().wide() {
            // Relaxed: only threads that read the shard in place or hold its lock make pins, and
            // both are ordered with this. No thread makes one after this.
            let pin = header.pin.load(Relaxed);
            header.pin.store(LET_GO, Relaxed);
            release_pin(pin);
            // SAFETY: the box owned one reference and no longer uses it.
            unsafe { release_reference(self.tagged) };
        }
    }
}

/// Gives up one reference to a wide entry, and frees the entry with the last one.
///
/// # Safety
/// The caller owns a reference to the wide entry and does not use the entry afterwards.
unsafe fn release_reference(tagged: NonNull<u8>) {
    // SAFETY: our reference keeps the header alive until the decrement; only the counter is
    // accessed.
    let references = unsafe { &(*untag(tagged).cast::<WideHeader>()).references };
    // Release: what we did with the entry happens before it is freed. Acquire: so does what the
    // other owners did. A thread that finds only its own reference knows that no other thread can
    // make another.
    if references.load(Acquire) == 1 || references.fetch_sub(1, AcqRel) == 1 {
        // SAFETY: that was the last reference.
        unsafe { deallocate(tagged) };
    }
}

/// # Safety
/// No thread uses the entry any more.
#[inline]
unsafe fn deallocate(tagged: NonNull<u8>) {
    let entry = Entry { tagged, locked: false, borrow: PhantomData };
    let size = entry.size();
    if tagged.addr().get() & WIDE != 0
        && let Some(body) = entry.body_start()
    {
        // SAFETY: this is the entry's own reference, and the entry is about to be freed.
        drop(unsafe { Body::from_raw(body) });
    }
    // SAFETY: this is the layout of `EntryBox::allocate`: the size is a function of tag and
    // lengths, which never change.
    unsafe { alloc::dealloc(untag(tagged), Layout::from_size_align_unchecked(size, ALIGN)) };
}

/// A compact string without other metadata than its version: what is written over most often, in
/// fewer steps than by [`EntryBox::overwrite`]. Only its box and aliases have a pointer to it.
pub(crate) struct Simple<'a> {
    entry: &'a mut EntryBox,
    key_len: usize,
    value_len: usize,
}

impl Simple<'_> {
    /// The value.
    #[inline(always)]
    pub(crate) fn value(&self) -> &[u8] {
        // SAFETY: the value of such an entry follows its header and key, and has that many
        // initialised bytes, which only `&mut self` changes.
        unsafe { std::slice::from_raw_parts(self.value_start(), self.value_len) }
    }

    /// Replaces the value, and takes the next version. `None`, and nothing changed, if the new
    /// value has another size. `begin_run` is called if the run has ended. The caller considers
    /// aliases.
    #[inline(always)]
    pub(crate) fn rewrite<E>(
        self,
        value: &[u8],
        begin_run: impl FnOnce(&mut EntryBox) -> Result<u64, E>,
    ) -> Option<Result<u64, E>> {
        if value.len() != self.value_len {
            return None;
        }
        let start = self.value_start();
        let version = match self.entry.next_of_run() {
            Some(version) => version,
            None => match begin_run(self.entry) {
                Ok(version) => version,
                full => return Some(full),
            },
        };
        copies::note(value.len());
        // SAFETY: as in `value`. `&mut` excludes all other pointers to the entry except for
        // aliases, which the caller considers; so also that the new value is in it.
        unsafe { short::copy(value, start) };
        Some(Ok(version))
    }

    #[inline(always)]
    fn value_start(&self) -> *mut u8 {
        untag(self.entry.tagged).wrapping_add(COMPACT_HEADER_BYTES + self.key_len)
    }
}

/// A pointer to an entry that another object owns. [`crate::snapshot`] explains what keeps the
/// entry alive.
pub(crate) struct Alias {
    tagged: NonNull<u8>,
}

// SAFETY: an alias is only an address; using it is unsafe and states its conditions.
unsafe impl Send for Alias {}
// SAFETY: as above.
unsafe impl Sync for Alias {}

impl Alias {
    /// The entry, read without a lock.
    ///
    /// # Safety
    /// The owner keeps the entry throughout `'a`.
    pub(crate) unsafe fn entry<'a>(&self) -> Entry<'a> {
        Entry { tagged: self.tagged, locked: false, borrow: PhantomData }
    }
}

/// A counted handle of a large string: its bytes stay in memory while the handle lives, even if the
/// key is overwritten or removed.
pub struct Shared {
    /// Invariant: a wide entry, of which we own one reference.
    tagged: NonNull<u8>,
}

/// The handle that a pin owns; see [`Entry::pin`].
pub type PinnedEntry = Shared;

// SAFETY: counted atomically, immutable except for atomics, freed by the thread-safe global
// allocator.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Shared {
    /// The entry.
    pub fn entry(&self) -> Entry<'_> {
        Entry { tagged: self.tagged, locked: false, borrow: PhantomData }
    }

    /// Bytes that only handles like this one keep in memory. While the table, or a snapshot of it,
    /// owns the entry, the result is 0, since the table counts the bytes itself. Afterwards it is
    /// this handle's share of the entry, divided by the number of its handles, and of the entry's
    /// body, divided by the number of entries that share it: summed over all handles, no byte
    /// counts twice.
    pub fn own_bytes(&self) -> usize {
        let entry = self.entry();
        let Some(header) = entry.wide() else { return 0 };
        if header.pin.load(Relaxed) != LET_GO {
            return 0;
        }
        // Other handles come and go meanwhile. Only this number can be wrong, for a moment.
        let part_of_body = |body: &Body| body.memory_bytes().div_ceil(body.references());
        let bytes = allocated_bytes(entry.size()) + entry.with_body(part_of_body).unwrap_or(0);
        bytes.div_ceil(header.references.load(Relaxed) as usize)
    }

    /// The handle as one word, for foreign code to keep; [`Shared::from_raw`] takes it back.
    pub fn into_raw(self) -> NonNull<c_void> {
        ManuallyDrop::new(self).tagged.cast()
    }

    /// Takes back what [`Shared::into_raw`] returned.
    ///
    /// # Safety
    /// `raw` was returned by `into_raw` and is taken back only once.
    pub unsafe fn from_raw(raw: NonNull<c_void>) -> Shared {
        Shared { tagged: raw.cast() }
    }
}

impl Clone for Shared {
    fn clone(&self) -> Shared {
        if let Some(header) = self.entry().wide() {
            count_reference(header);
        }
        Shared { tagged: self.tagged }
    }
}

impl Deref for Shared {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // Collections are not shared.
        self.entry().text().unwrap_or_default()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: we own one reference and do not use it afterwards.
        unsafe { release_reference(self.tagged) };
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.entry()).finish()
    }
}

static PIN_RELEASE: OnceLock<fn(*mut c_void)> = OnceLock::new();

/// Sets the function that receives a pin when its table releases the entry. It can be set once per
/// process; later calls change nothing.
///
/// The hook may run on any thread and under a shard's lock: it must be brief and must not call the
/// table. Returns whether this call set it.
pub fn set_pin_release(hook: fn(*mut c_void)) -> bool {
    PIN_RELEASE.set(hook).is_ok()
}

fn release_pin(pin: *mut c_void) {
    if pin.is_null() {
        return;
    }
    if let Some(hook) = PIN_RELEASE.get() {
        hook(pin);
    }
}
