//! The bytes of a large value: a counted allocation of its own, which several entries may share.
//!
//! ```text
//! body     | references 4 | filled 4 | capacity 4 | 0 4      | bytes: capacity |
//! lent     | references 4 | filled 4 | capacity 4 | beside 4 | address 8 | end 8 | owner |
//! ```
//!
//! An entry refers to a body and has its own length: it exposes the bytes `0..length` and never
//! reads beyond them. So a new expiry, key or length needs only a new small entry over the same
//! body, whatever the size of the value.
//!
//! # Lent bodies
//!
//! The bytes of a lent body belong to an object of the caller, its owner, which keeps them at their
//! address and unchanged until it is dropped. The body contains the owner; the last reference drops
//! it, on whichever thread that is, and possibly under a shard's lock. A value of any length may
//! have a lent body. Nothing ever writes into one: it has no spare capacity, and it is never sole,
//! so every edit makes a body (or a small entry) of its own first.
//!
//! # When a body may be written
//!
//! *Bytes that an entry exposes never change while any thread other than one writer can read them.*
//! This leaves two ways to write:
//!
//! * **Behind everybody's end.** All entries of a body expose at most `filled` bytes. A thread that
//!   moves `filled` from the length of its own entry to a higher one by compare-exchange
//!   ([`Body::claim`]) owns the bytes in between, and no other thread sees them before an entry of
//!   the new length is published under a shard's lock. If two entries of the same length both
//!   extend the body, one wins and the other makes a body of its own.
//! * **In place, alone.** If the body has one owner, the entry, and the entry has one owner, the
//!   index of a shard that is locked exclusively, and no snapshot has a second pointer to the entry
//!   ([`crate::snapshot`]), then no other thread can read the bytes: handles and pins count as
//!   owners ([`crate::entry`]), in-place readers keep the lock from being taken
//!   ([`crate::readers`]), and a new owner can only be made from an existing one or by the lock
//!   holder. The same state permits moving the bytes ([`Body::grow`]).
//!
//! The caller of the second way checks this condition (`Writer::is_sole`). The writes themselves go
//! through raw pointers, and no reference to the bytes is alive meanwhile.

use std::alloc::{self, Layout};
use std::ptr::{self, NonNull};
use std::sync::atomic::{
    AtomicU32,
    Ordering::{AcqRel, Acquire, Relaxed},
};

use crate::allocation::{self, allocated_bytes};
use crate::copies;

/// Values of this length and more have a body. At this size one more allocation and one more cache
/// miss cost next to nothing; below it a copy takes less than a microsecond.
pub const BODY_BYTES_MIN: usize = 16 * 1024;

/// The most spare capacity that a growing body gets.
const SLACK_BYTES_MAX: usize = 64 * 1024 * 1024;

const ALIGN: usize = 8;

/// The start of a body.
#[repr(C)]
struct Header {
    references: AtomicU32,
    /// No entry exposes more bytes than this.
    filled: AtomicU32,
    capacity: u32,
    /// Bytes that a lent body takes in memory in addition to `capacity`; 0 if it is not lent.
    beside: u32,
}

/// The start of a lent body.
#[repr(C)]
struct Loan {
    header: Header,
    address: NonNull<u8>,
    /// Drops the owner and frees the body.
    end: unsafe fn(NonNull<Header>),
}

/// A lent body.
#[repr(C)]
struct Lent<O> {
    loan: Loan,
    owner: O,
}

/// The most memory that a lent body takes beside what its owner keeps.
pub(crate) const LOAN_BYTES_MAX: usize = 96;

const HEADER_BYTES: usize = size_of::<Header>();
const _: () = assert!(HEADER_BYTES == 16);

/// The capacity for a value that has grown to `len`, if values may take `room` bytes more: a
/// quarter more than `len`, so that a value that is extended repeatedly is copied a bounded number
/// of times for each of its bytes.
pub(crate) fn capacity_for(len: usize, room: usize) -> usize {
    len.saturating_add((len / 4).min(SLACK_BYTES_MAX).min(room)).min(u32::MAX as usize)
}

/// Bytes that a body of this capacity takes in memory, including the allocator's overhead.
pub(crate) fn body_bytes(capacity: usize) -> usize {
    allocated_bytes(HEADER_BYTES + capacity)
}

/// One reference to a body.
pub(crate) struct Body {
    /// Invariant: an initialised body, of which we own one reference.
    start: NonNull<Header>,
}

// SAFETY: a body is counted atomically and allocated by the thread-safe global allocator; only the
// sole owner of its bytes writes them, see the module documentation.
unsafe impl Send for Body {}
// SAFETY: as above.
unsafe impl Sync for Body {}

impl Body {
    /// A body with room for `capacity` bytes, of which the caller writes the first `len` before any
    /// other thread can read them. Its bytes are zero if `zeroed`. `None` if that is too much or
    /// the allocation fails.
    pub(crate) fn new(len: usize, capacity: usize, zeroed: bool) -> Option<Body> {
        debug_assert!(len <= capacity);
        let (filled, capacity) = (u32::try_from(len).ok()?, u32::try_from(capacity).ok()?);
        let layout = layout(capacity)?;
        // SAFETY: the size is at least that of a header, so it is not zero.
        let raw =
            unsafe { if zeroed { alloc::alloc_zeroed(layout) } else { alloc::alloc(layout) } };
        let start = allocation::check(raw, layout)?.cast::<Header>();
        let (references, filled) = (AtomicU32::new(1), AtomicU32::new(filled));
        // SAFETY: there is room for a header, and no other thread has the pointer.
        unsafe { start.write(Header { references, filled, capacity, beside: 0 }) };
        Some(Body { start })
    }

    /// A body over bytes that `owner` keeps, and `held_bytes` of memory together with them. `None`,
    /// and the owner is dropped, if that is too much or the allocation fails.
    ///
    /// # Safety
    /// The bytes stay at their address and unchanged until `owner` is dropped.
    pub(crate) unsafe fn lent<O: Send + Sync + 'static>(
        bytes: &[u8],
        held_bytes: usize,
        owner: O,
    ) -> Option<Body> {
        let capacity = u32::try_from(bytes.len()).ok()?;
        let layout = const { Layout::new::<Lent<O>>() };
        const { assert!(size_of::<Lent<O>>() <= LOAN_BYTES_MAX - 16) };
        let held_bytes = held_bytes.max(bytes.len());
        let beside = held_bytes - bytes.len() + allocated_bytes(layout.size());
        let beside = u32::try_from(beside).ok()?;
        // SAFETY: the size is at least that of a header, so it is not zero.
        let raw = unsafe { alloc::alloc(layout) };
        let start = allocation::check(raw, layout)?;
        let (references, filled) = (AtomicU32::new(1), AtomicU32::new(capacity));
        let header = Header { references, filled, capacity, beside };
        let loan = Loan { header, address: NonNull::from(bytes).cast(), end: end_loan::<O> };
        // SAFETY: this is the layout that was allocated, and no other thread has the pointer.
        unsafe { start.cast::<Lent<O>>().write(Lent { loan, owner }) };
        Some(Body { start: start.cast() })
    }

    /// A body that contains these bytes and has no spare capacity.
    pub(crate) fn of(parts: &[&[u8]], len: usize) -> Option<Body> {
        let body = Body::new(len, len, false)?;
        let mut at = 0;
        for part in parts {
            // SAFETY: the body is new, so it is ours alone.
            unsafe { body.write(at, part) };
            at += part.len();
        }
        assert!(at == len, "the parts do not add up to the value");
        Some(body)
    }

    /// Another reference.
    pub(crate) fn share(&self) -> Body {
        let before = self.header().references.fetch_add(1, Relaxed);
        // Wrapping around would free bytes in use; abort before that.
        if before > u32::MAX / 2 {
            std::process::abort();
        }
        Body { start: self.start }
    }

    /// Takes over the reference that [`Body::into_raw`] gave away.
    ///
    /// # Safety
    /// `raw` was returned by `into_raw` and is taken over only once.
    pub(crate) unsafe fn from_raw(raw: NonNull<u8>) -> Body {
        Body { start: raw.cast() }
    }

    /// The reference as a pointer.
    pub(crate) fn into_raw(self) -> NonNull<u8> {
        std::mem::ManuallyDrop::new(self).start.cast()
    }

    pub(crate) fn is(&self, other: &Body) -> bool {
        self.start == other.start
    }

    pub(crate) fn capacity(&self) -> usize {
        self.header().capacity as usize
    }

    /// The current number of references.
    pub(crate) fn references(&self) -> usize {
        self.header().references.load(Relaxed) as usize
    }

    /// Whether there are other references. Acquire: what other threads did with the bytes happened
    /// before.
    pub(crate) fn is_shared(&self) -> bool {
        self.header().references.load(Acquire) != 1
    }

    /// Whether ours is the only reference, and the bytes are the body's own.
    pub(crate) fn is_sole(&self) -> bool {
        !self.is_lent() && !self.is_shared()
    }

    fn is_lent(&self) -> bool {
        self.header().beside != 0
    }

    /// Bytes that the body takes in memory, including the allocator's overhead.
    pub(crate) fn memory_bytes(&self) -> usize {
        match self.header().beside {
            0 => body_bytes(self.capacity()),
            beside => self.capacity() + beside as usize,
        }
    }

    /// Where the bytes are. Those of a lent body are only read.
    #[inline]
    pub(crate) fn bytes(&self) -> *mut u8 {
        if self.is_lent() {
            return self.loan().address.as_ptr();
        }
        self.start.as_ptr().cast::<u8>().wrapping_add(HEADER_BYTES)
    }

    /// Gives the caller the bytes from `len` to `new_len` to write. False if another thread has
    /// taken them, or if the capacity does not suffice.
    ///
    /// The caller has a reference to an entry of the body that has this `len`.
    pub(crate) fn claim(&self, len: usize, new_len: usize) -> bool {
        let (Ok(from), Ok(to)) = (u32::try_from(len), u32::try_from(new_len)) else { return false };
        // Relaxed: the exchange only decides which thread writes; a lock publishes what it writes.
        to <= self.header().capacity
            && self.header().filled.compare_exchange(from, to, Relaxed, Relaxed).is_ok()
    }

    /// Undoes a [`Body::claim`] that no other thread can have seen.
    pub(crate) fn unclaim(&self, len: usize, new_len: usize) {
        let (Ok(from), Ok(to)) = (u32::try_from(new_len), u32::try_from(len)) else { return };
        let _ = self.header().filled.compare_exchange(from, to, Relaxed, Relaxed);
    }

    /// Sets how many bytes are exposed. Only while the caller is the sole owner of the body.
    pub(crate) fn set_filled(&self, len: usize) {
        debug_assert!(len <= self.capacity());
        self.header().filled.store(u32::try_from(len).unwrap_or(u32::MAX), Relaxed);
    }

    /// Writes bytes at `at`.
    ///
    /// # Safety
    /// The caller may write this range (see the module documentation) and no reference to it is
    /// alive.
    pub(crate) unsafe fn write(&self, at: usize, bytes: &[u8]) {
        assert!(at.checked_add(bytes.len()).is_some_and(|end| end <= self.capacity()));
        if bytes.is_empty() {
            return;
        }
        assert!(!self.is_lent(), "the bytes belong to somebody else");
        copies::note(bytes.len());
        // SAFETY: within the allocation; no other thread reads or writes the range.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.bytes().add(at), bytes.len()) };
    }

    /// Writes zeroes at `at`.
    ///
    /// # Safety
    /// As for [`Body::write`].
    pub(crate) unsafe fn write_zeroes(&self, at: usize, len: usize) {
        assert!(at.checked_add(len).is_some_and(|end| end <= self.capacity()));
        if len == 0 {
            return;
        }
        assert!(!self.is_lent(), "the bytes belong to somebody else");
        copies::note(len);
        // SAFETY: within the allocation; no other thread reads or writes the range.
        unsafe { ptr::write_bytes(self.bytes().add(at), 0, len) };
    }

    /// Enlarges the body, which may move it. False, and nothing changed, if the allocation fails.
    ///
    /// # Safety
    /// [`Body::is_sole`] holds, and the caller uses no other pointer to the body afterwards.
    pub(crate) unsafe fn grow(&mut self, capacity: usize) -> bool {
        assert!(!self.is_lent(), "the bytes belong to somebody else");
        let old = self.header().capacity;
        let Some((capacity, new)) =
            u32::try_from(capacity).ok().and_then(|capacity| Some((capacity, layout(capacity)?)))
        else {
            return false;
        };
        debug_assert!(capacity >= old);
        let Some(old) = layout(old) else { return false };
        // SAFETY: allocated with this layout; the new size is not zero and does not overflow.
        let raw = unsafe { alloc::realloc(self.start.as_ptr().cast(), old, new.size()) };
        let Some(start) = allocation::check(raw, new) else { return false };
        self.start = start.cast();
        // SAFETY: the header was moved with the rest, and is ours alone.
        unsafe { (*self.start.as_ptr()).capacity = capacity };
        true
    }

    /// Of a lent body.
    fn loan(&self) -> &Loan {
        debug_assert!(self.is_lent());
        // SAFETY: the start of a lent body is a `Loan`, which our reference keeps alive.
        unsafe { self.start.cast::<Loan>().as_ref() }
    }

    fn header(&self) -> &Header {
        // SAFETY: our reference keeps the body alive; the header fields that others change are
        // atomic.
        unsafe { self.start.as_ref() }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        // Release: what we did with the bytes happens before they are freed. Acquire: so does what
        // the other owners did.
        if self.header().references.fetch_sub(1, AcqRel) == 1 {
            if self.is_lent() {
                // SAFETY: that was the last reference.
                return unsafe { (self.loan().end)(self.start) };
            }
            let capacity = self.header().capacity;
            if let Some(layout) = layout(capacity) {
                // SAFETY: that was the last reference; allocated with this layout.
                unsafe { alloc::dealloc(self.start.as_ptr().cast(), layout) };
            }
        }
    }
}

/// # Safety
/// The body is a `Lent<O>`, and no thread uses it any more.
unsafe fn end_loan<O>(start: NonNull<Header>) {
    let lent = start.cast::<Lent<O>>();
    // SAFETY: see the function; allocated with this layout.
    unsafe {
        let owner = (&raw mut (*lent.as_ptr()).owner).read();
        alloc::dealloc(lent.as_ptr().cast(), Layout::new::<Lent<O>>());
        // Last, since it is foreign code.
        drop(owner);
    }
}

fn layout(capacity: u32) -> Option<Layout> {
    Layout::from_size_align(HEADER_BYTES.checked_add(capacity as usize)?, ALIGN).ok()
}
