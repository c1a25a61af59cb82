//! The memory of an interpreter: one region of addresses of its own, in which the state of the
//! interpreter is at the same place in each run. So a copy of the used part is the interpreter,
//! and to copy it back is a new one (`image.rs`).
//!
//! Blocks follow each other without gaps, each after a word with its length and that of the block
//! before it; free ones are in lists by size, and are joined with free neighbours at once. All of
//! this, with the heads of the lists, is in the region, and is copied with it. Lengths and places
//! are counted in words of eight bytes, and nothing depends on the address of the region.

use std::ffi::c_void;
use std::ptr::NonNull;

/// Bytes of a word.
const WORD: usize = 8;

/// Lists of a row: the sizes from one power of two to the next.
const LISTS: usize = 16;
const ROWS: usize = 28;

/// Marks the length of a free block.
const FREE: u32 = 1 << 31;

/// Bytes whose pages stay when a run has ended.
const KEPT_BYTES: usize = 1 << 20;

/// Bytes by which the usable part of the region grows, at least.
const GROWTH_BYTES: usize = 256 << 10;

/// The words that a script may use, with free blocks between them, are bounded too. In practice,
/// its limit of bytes is met first.
const SPREAD: usize = 4;
const SPREAD_BYTES: usize = 64 << 20;

/// Addresses are reserved for scripts of this many bytes at least.
const USUAL_BYTES: usize = 64 << 20;

/// The head of the region.
#[repr(C)]
struct Control {
    /// The word after the last block.
    top: u32,
    /// The length of the last block.
    last: u32,
    /// The rows that have a free block, and the lists of each.
    rows: u32,
    lists: [u32; ROWS],
    /// The first free block of each list, or 0.
    heads: [[u32; LISTS]; ROWS],
}

/// The word before a block.
#[repr(C)]
#[derive(Clone, Copy)]
struct Header {
    /// Words of the block, and [`FREE`].
    len: u32,
    /// Words of the block before it.
    before: u32,
}

/// The words of a free block.
#[repr(C)]
#[derive(Clone, Copy)]
struct Links {
    next: u32,
    previous: u32,
}

/// The region, and what is counted of it.
pub(crate) struct Heap {
    base: NonNull<u8>,
    /// Bytes of addresses, and those from the beginning that may be used.
    reserved: usize,
    usable: usize,
    /// The largest `top` since the last restoration, in words.
    highest: usize,
    pub(crate) counts: Counts,
    /// Most bytes of all values.
    limit: usize,
}

/// The bytes of values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) used: usize,
    /// The most since it was last set.
    pub(crate) peak: usize,
}

// SAFETY: the region belongs to the heap, and nothing in it is bound to a thread.
unsafe impl Send for Heap {}

fn words(bytes: usize) -> usize {
    bytes.div_ceil(WORD).max(1)
}

/// The row and list of a free block of this many words.
fn list_of(len: usize) -> (usize, usize) {
    match len {
        0..LISTS => (0, len),
        _ => {
            let power = len.ilog2() as usize;
            (power - 3, (len >> (power - 4)) & (LISTS - 1))
        }
    }
}

/// The first list all of whose blocks have this many words.
fn list_for(len: usize) -> (usize, usize) {
    match len {
        0..LISTS => (0, len),
        _ => list_of(len + (1 << (len.ilog2() - 4)) - 1),
    }
}

impl Heap {
    /// A heap for scripts of at most `bytes_max` bytes, or of those that are usual; `None` if the
    /// system has no addresses left.
    pub(crate) fn new(bytes_max: usize) -> Option<Heap> {
        let bytes_max = bytes_max.max(USUAL_BYTES);
        let wanted = bytes_max.saturating_mul(SPREAD).saturating_add(2 * SPREAD_BYTES);
        let reserved = wanted.min(8 << 30).next_multiple_of(GROWTH_BYTES);
        // SAFETY: it asks for new addresses, which nobody may use yet.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                reserved,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        let base = NonNull::new(base.cast::<u8>())?;
        let counts = Counts::default();
        let mut heap = Heap { base, reserved, usable: 0, highest: 0, counts, limit: usize::MAX };
        let first = words(size_of::<Control>());
        if !heap.reach(first) {
            return None;
        }
        // New pages are zero: no block is free.
        heap.control().top = u32::try_from(first).ok()?;
        heap.highest = first;
        Some(heap)
    }

    /// Whether the region is large enough for scripts of at most `bytes_max` bytes.
    pub(crate) fn fits(&self, bytes_max: usize) -> bool {
        let wanted = bytes_max.saturating_mul(SPREAD).saturating_add(SPREAD_BYTES);
        self.reserved >= wanted.min(7 << 30)
    }

    /// Sets the most bytes of all values.
    pub(crate) fn limit(&mut self, bytes: usize) {
        self.limit = bytes;
    }

    /// The used part of the region, in bytes.
    pub(crate) fn len(&self) -> usize {
        // SAFETY: the control is at the beginning, and was written by `new`.
        unsafe { (*self.base.as_ptr().cast::<Control>()).top as usize * WORD }
    }

    /// Bytes of memory that the region may take.
    pub(crate) fn usable(&self) -> usize {
        self.usable
    }

    /// The first `len` bytes of the region.
    pub(crate) fn bytes(&self, len: usize) -> &[u8] {
        assert!(len <= self.usable);
        // SAFETY: these bytes may be read, have been zero or written, and belong to the heap.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), len) }
    }

    /// Makes the first bytes of the region writable, for an image that is copied to them. Until
    /// this was done, the region is not the heap of an interpreter.
    pub(crate) fn overwrite(&mut self, len: usize) -> Option<&mut [u8]> {
        if !self.reach(len.div_ceil(WORD)) {
            return None;
        }
        // SAFETY: as for `bytes`, and nobody else has a reference into the region.
        Some(unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), len) })
    }

    /// An image was copied. Gives back the pages that only a large script needed.
    pub(crate) fn restored(&mut self, counts: Counts) {
        self.counts = counts;
        let kept = self.len().max(KEPT_BYTES).next_multiple_of(GROWTH_BYTES);
        if self.highest * WORD > kept && self.usable > kept {
            // SAFETY: these pages are of the region, and after its used part.
            let mapped = unsafe {
                libc::mmap(
                    self.base.as_ptr().add(kept).cast(),
                    self.usable - kept,
                    libc::PROT_NONE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                    -1,
                    0,
                )
            };
            if mapped != libc::MAP_FAILED {
                self.usable = kept;
            }
        }
        self.highest = self.len() / WORD;
    }

    /// Makes the region usable up to this word.
    fn reach(&mut self, word: usize) -> bool {
        let end = word * WORD;
        if end <= self.usable {
            return true;
        }
        let most =
            self.reserved.min(self.limit.saturating_mul(SPREAD).saturating_add(SPREAD_BYTES));
        if end > most {
            return false;
        }
        // Larger steps for a larger script, so that there are few of them.
        let grown = (end + end / 4).next_multiple_of(GROWTH_BYTES).min(self.reserved);
        // SAFETY: these pages are of the region.
        let changed = unsafe {
            libc::mprotect(
                self.base.as_ptr().add(self.usable).cast(),
                grown - self.usable,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if changed == 0 {
            self.usable = grown;
        }
        changed == 0
    }

    fn control(&mut self) -> &mut Control {
        // SAFETY: the control is at the beginning, and `new` has made it usable. Each bit pattern
        // is a control.
        unsafe { self.base.cast::<Control>().as_mut() }
    }

    /// The header of the block at this word, or a link in it.
    ///
    /// # Safety
    ///
    /// There must be a block.
    unsafe fn at<T>(&self, word: usize) -> *mut T {
        debug_assert!((word + 1) * WORD <= self.usable);
        // SAFETY: blocks are in the usable part.
        unsafe { self.base.as_ptr().add(word * WORD).cast() }
    }

    /// # Safety
    ///
    /// There must be a block.
    unsafe fn header(&self, block: usize) -> Header {
        // SAFETY: a block has a header.
        unsafe { *self.at::<Header>(block - 1) }
    }

    /// Writes the length of a block, there and in the header after it.
    ///
    /// # Safety
    ///
    /// The block must be in the used part, and must end where another begins, or at its end.
    unsafe fn set_len(&mut self, block: usize, len: usize, mark: u32) {
        // SAFETY: the caller says that there is a block.
        unsafe { (*self.at::<Header>(block - 1)).len = len as u32 | mark };
        let after = block + len;
        if after == self.control().top as usize {
            self.control().last = len as u32;
        } else {
            // SAFETY: another block begins there.
            unsafe { (*self.at::<Header>(after)).before = len as u32 };
        }
    }

    /// # Safety
    ///
    /// There must be a free block.
    unsafe fn link(&mut self, block: usize, len: usize) {
        let (row, list) = list_of(len);
        let control = self.control();
        let next = control.heads[row][list];
        control.heads[row][list] = block as u32;
        control.rows |= 1 << row;
        control.lists[row] |= 1 << list;
        // SAFETY: both blocks are free, and have room for the links.
        unsafe {
            *self.at::<Links>(block) = Links { next, previous: 0 };
            if next != 0 {
                (*self.at::<Links>(next as usize)).previous = block as u32;
            }
        }
    }

    /// # Safety
    ///
    /// The block must be in the list of its length.
    unsafe fn unlink(&mut self, block: usize, len: usize) {
        // SAFETY: the block is in a list, so it and its neighbours have links.
        let Links { next, previous } = unsafe { *self.at::<Links>(block) };
        if next != 0 {
            // SAFETY: as above.
            unsafe { (*self.at::<Links>(next as usize)).previous = previous };
        }
        if previous != 0 {
            // SAFETY: as above.
            unsafe { (*self.at::<Links>(previous as usize)).next = next };
            return;
        }
        let (row, list) = list_of(len);
        let control = self.control();
        control.heads[row][list] = next;
        if next == 0 {
            control.lists[row] &= !(1 << list);
            if control.lists[row] == 0 {
                control.rows &= !(1 << row);
            }
        }
    }

    /// A free block of at least this many words, taken from its list.
    fn take(&mut self, len: usize) -> Option<(usize, usize)> {
        let (row, list) = list_for(len);
        let control = self.control();
        let lists = control.lists.get(row)? & (u32::MAX << list);
        let (row, list) = match lists {
            0 => {
                let rows = control.rows & (u32::MAX << row << 1);
                let row = rows.trailing_zeros() as usize;
                (row, control.lists.get(row)?.trailing_zeros() as usize)
            }
            _ => (row, lists.trailing_zeros() as usize),
        };
        let block = *control.heads.get(row)?.get(list)? as usize;
        // SAFETY: the block is in this list.
        let found = unsafe { self.header(block) }.len & !FREE;
        // SAFETY: as above.
        unsafe { self.unlink(block, found as usize) };
        Some((block, found as usize))
    }

    /// Gives the words of a used block after the first `len` back, if they are enough for another.
    ///
    /// # Safety
    ///
    /// There must be a used block of `has` words.
    unsafe fn trim(&mut self, block: usize, has: usize, len: usize) {
        if has < len + 2 {
            return;
        }
        // SAFETY: the block is divided in two, the second of which has a word at least; its end is
        // that of the whole.
        unsafe {
            let rest = block + len + 1;
            *self.at::<Header>(rest - 1) = Header { len: 0, before: 0 };
            self.set_len(rest, has - len - 1, 0);
            self.set_len(block, len, 0);
            self.release(rest);
        }
    }

    /// A new block.
    fn allocate(&mut self, len: usize) -> Option<usize> {
        if let Some((block, has)) = self.take(len) {
            // SAFETY: the block was in a list, and is in none now.
            unsafe {
                self.set_len(block, has, 0);
                self.trim(block, has, len);
            }
            return Some(block);
        }
        let (top, last) = (self.control().top as usize, self.control().last);
        let end = top + 1 + len;
        if end >= FREE as usize || !self.reach(end) {
            return None;
        }
        self.set_top(end);
        // SAFETY: the words from `top` on are usable, and in no block.
        unsafe {
            *self.at::<Header>(top) = Header { len: 0, before: last };
            self.set_len(top + 1, len, 0);
        }
        Some(top + 1)
    }

    fn set_top(&mut self, top: usize) {
        self.control().top = top as u32;
        self.highest = self.highest.max(top);
    }

    /// Frees a block.
    ///
    /// # Safety
    ///
    /// There must be a used block.
    unsafe fn release(&mut self, mut block: usize) {
        // SAFETY: blocks follow each other, and each knows the length of that before it. A free
        // block is in the list of its length.
        unsafe {
            let Header { len, before } = self.header(block);
            let mut len = len as usize;
            if before != 0 {
                let previous = block - 1 - before as usize;
                if self.header(previous).len & FREE != 0 {
                    self.unlink(previous, before as usize);
                    len += 1 + before as usize;
                    block = previous;
                }
            }
            let after = block + len;
            if after != self.control().top as usize {
                let next = self.header(after + 1).len;
                if next & FREE != 0 {
                    let next = (next & !FREE) as usize;
                    self.unlink(after + 1, next);
                    len += 1 + next;
                }
            }
            if block + len == self.control().top as usize {
                // No free block is the last.
                self.control().last = self.header(block).before;
                self.set_top(block - 1);
            } else {
                self.set_len(block, len, FREE);
                self.link(block, len);
            }
        }
    }

    /// Makes a used block longer where it is, if there is room after it.
    ///
    /// # Safety
    ///
    /// There must be a used block of `has` words, which is shorter than `len`.
    unsafe fn extend(&mut self, block: usize, has: usize, len: usize) -> bool {
        let after = block + has;
        if after == self.control().top as usize {
            if block + len >= FREE as usize || !self.reach(block + len) {
                return false;
            }
            self.set_top(block + len);
            // SAFETY: the block is the last.
            unsafe { self.set_len(block, len, 0) };
            return true;
        }
        // SAFETY: another block begins there, and is in its list if it is free.
        unsafe {
            let next = self.header(after + 1).len;
            let whole = has + 1 + (next & !FREE) as usize;
            if next & FREE == 0 || whole < len {
                return false;
            }
            self.unlink(after + 1, (next & !FREE) as usize);
            self.set_len(block, whole, 0);
            self.trim(block, whole, len);
        }
        true
    }

    /// Fails if blocks do not follow each other, or lists are wrong.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn check(&mut self) {
        let (mut at, mut before, mut free) = (words(size_of::<Control>()), 0, 0);
        let (top, last) = (self.control().top as usize, self.control().last);
        let mut was_free = false;
        while at < top {
            // SAFETY: a block begins there, if the lengths so far are right.
            let header = unsafe { self.header(at + 1) };
            assert_eq!(header.before, before, "the block at {at}");
            let is_free = header.len & FREE != 0;
            assert!(!(is_free && was_free), "two free blocks at {at}");
            (before, was_free) = (header.len & !FREE, is_free);
            free += usize::from(is_free);
            at += 1 + before as usize;
        }
        assert_eq!((at, before), (top, last));
        assert!(!was_free, "the last block is free");
        for row in 0..ROWS {
            for list in 0..LISTS {
                let mut block = self.control().heads[row][list] as usize;
                let mut previous = 0;
                let has = self.control().lists[row] & 1 << list != 0;
                assert_eq!(has, block != 0);
                while block != 0 {
                    assert!(block < top);
                    // SAFETY: a free block is there, if the lists are right.
                    let (header, links) = unsafe { (self.header(block), *self.at::<Links>(block)) };
                    assert_eq!(header.len & FREE, FREE);
                    assert_eq!(list_of((header.len & !FREE) as usize), (row, list));
                    assert_eq!(links.previous as usize, previous);
                    (previous, block) = (block, links.next as usize);
                    free -= 1;
                }
            }
            assert_eq!(self.control().rows & 1 << row != 0, self.control().lists[row] != 0);
        }
        assert_eq!(free, 0, "free blocks are in no list");
    }

    fn word_of(&self, address: *mut c_void) -> usize {
        (address as usize - self.base.as_ptr() as usize) / WORD
    }

    fn address_of(&self, block: usize) -> *mut c_void {
        // SAFETY: blocks are in the region.
        unsafe { self.base.as_ptr().add(block * WORD).cast() }
    }

    /// Counts that a block changes from `old` to `new` bytes; false beyond the limit.
    fn count(&mut self, old: usize, new: usize) -> bool {
        let used = (self.counts.used - old).saturating_add(new);
        if new > old && used > self.limit {
            return false;
        }
        self.counts.used = used;
        self.counts.peak = self.counts.peak.max(used);
        true
    }

    /// # Safety
    ///
    /// `address` must be null, or one that this function has returned for `old` bytes and that is
    /// in use.
    unsafe fn change(&mut self, address: *mut c_void, old: usize, new: usize) -> *mut c_void {
        let none = std::ptr::null_mut();
        if address.is_null() {
            if new == 0 || !self.count(0, new) {
                return none;
            }
            return match self.allocate(words(new)) {
                Some(block) => self.address_of(block),
                None => {
                    self.counts.used -= new;
                    none
                }
            };
        }
        let block = self.word_of(address);
        if new == 0 {
            self.count(old, 0);
            // SAFETY: the block is in use.
            unsafe { self.release(block) };
            return none;
        }
        if !self.count(old, new) {
            return none;
        }
        // SAFETY: the block is in use.
        let has = unsafe { self.header(block) }.len as usize;
        let len = words(new);
        if len <= has {
            // SAFETY: as above.
            unsafe { self.trim(block, has, len) };
            return address;
        }
        // SAFETY: as above.
        if unsafe { self.extend(block, has, len) } {
            return address;
        }
        let Some(moved) = self.allocate(len) else {
            self.count(new, old);
            return none;
        };
        // SAFETY: the blocks are two, and the new one is longer. The old one is in use until the
        // end.
        unsafe {
            let to = self.address_of(moved);
            std::ptr::copy_nonoverlapping(address.cast::<u8>(), to.cast::<u8>(), has * WORD);
            self.release(block);
            to
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        // SAFETY: the region was reserved by `new`, and nobody uses it any more.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.reserved) };
    }
}

/// The allocator of an interpreter.
///
/// # Safety
///
/// `heap` must be the heap that this interpreter alone uses, and the other arguments as Lua says.
pub(crate) unsafe extern "C" fn allocator(
    heap: *mut c_void,
    address: *mut c_void,
    old: usize,
    new: usize,
) -> *mut c_void {
    // SAFETY: the heap is not in use elsewhere while the interpreter runs, and Lua returns blocks
    // with their lengths.
    unsafe { (*heap.cast::<Heap>()).change(address, old, new) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Clone, Debug)]
    enum Step {
        Change(usize, usize),
        Restore,
    }

    fn step() -> impl Strategy<Value = Step> {
        let size = prop_oneof![8 => 0_usize..200, 2 => 0_usize..20_000, 1 => 0_usize..600_000];
        let change = (0_usize..40, size).prop_map(|(at, len)| Step::Change(at, len));
        prop_oneof![40 => change, 1 => Just(Step::Restore)]
    }

    proptest! {
        /// Blocks keep what is in them, and an image brings them back.
        #[test]
        fn blocks_do_not_overlap(steps in proptest::collection::vec(step(), 1..300)) {
            let limit = 2 << 20;
            let mut heap = Heap::new(limit).expect("addresses");
            heap.limit(limit);
            let mut blocks: Vec<(*mut c_void, usize, u8)> = vec![(std::ptr::null_mut(), 0, 0); 40];
            let mut image = (heap.bytes(heap.len()).to_vec(), heap.counts, blocks.clone());
            for (round, step) in steps.into_iter().enumerate() {
                match step {
                    Step::Change(at, new) => {
                        let (address, old, byte) = blocks[at];
                        // SAFETY: the block is one of the heap, with its length.
                        let changed = unsafe { heap.change(address, old, new) };
                        if changed.is_null() && new > 0 {
                            prop_assert!(heap.counts.used + new - old > limit && new > old);
                            continue;
                        }
                        for offset in 0..old.min(new) {
                            // SAFETY: the block has `new` bytes.
                            prop_assert_eq!(unsafe { *changed.cast::<u8>().add(offset) }, byte);
                        }
                        if new > 0 {
                            // SAFETY: as above.
                            unsafe { changed.cast::<u8>().write_bytes(round as u8, new) };
                        }
                        blocks[at] = (changed, new, round as u8);
                    }
                    Step::Restore if round % 2 == 0 => {
                        image = (heap.bytes(heap.len()).to_vec(), heap.counts, blocks.clone());
                    }
                    Step::Restore => {
                        let to = heap.overwrite(image.0.len()).expect("memory");
                        to.copy_from_slice(&image.0);
                        heap.restored(image.1);
                        blocks.clone_from(&image.2);
                    }
                }
                heap.check();
                prop_assert_eq!(heap.counts.used, blocks.iter().map(|it| it.1).sum::<usize>());
            }
            for (address, len, byte) in blocks {
                for offset in 0..len {
                    // SAFETY: the block has this length.
                    prop_assert_eq!(unsafe { *address.cast::<u8>().add(offset) }, byte);
                }
            }
        }
    }
}
