//! Keys in ascending order, packed one after another into one block.
//!
//! ```text
//!   bytes  | apple | fig | grape |
//!   ends         5     8      13
//! ```
//!
//! A key costs its bytes and four more. Finding one is a binary search within about two kilobytes.
//! Adding or removing one moves the bytes behind it, which takes a processor less time than one
//! cache miss.

/// Memory grows in steps of this many bytes and ends, instead of doubling: a table has many
/// thousands of blocks, and half of a doubled one would be empty.
const BYTES_STEP: usize = 128;
const ENDS_STEP: usize = 16;

/// Some keys. The caller that adds them keeps them in order and small in number: all together stay
/// below 4 GiB, since no key of an ordered table is longer than [`super::KEY_BYTES_MAX`].
#[derive(Default)]
pub(crate) struct Keys {
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<u32>,
}

impl Keys {
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys together.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of memory.
    pub(crate) fn allocated(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>()
    }

    fn start(&self, at: usize) -> usize {
        if at == 0 { 0 } else { self.ends[at - 1] as usize }
    }

    pub(crate) fn get(&self, at: usize) -> &[u8] {
        &self.bytes[self.start(at)..self.ends[at] as usize]
    }

    pub(crate) fn last(&self) -> Option<&[u8]> {
        Some(self.get(self.len().checked_sub(1)?))
    }

    /// The position of a key, or where it would be.
    pub(crate) fn find(&self, key: &[u8]) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            match self.get(middle).cmp(key) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    pub(crate) fn insert(&mut self, at: usize, key: &[u8]) {
        let (start, len) = (self.start(at), self.bytes.len());
        grow(&mut self.bytes, key.len(), BYTES_STEP);
        grow(&mut self.ends, 1, ENDS_STEP);
        self.bytes.resize(len + key.len(), 0);
        self.bytes.copy_within(start..len, start + key.len());
        self.bytes[start..start + key.len()].copy_from_slice(key);
        self.ends.insert(at, start as u32);
        // Wrapping, here and below, since overflow checks prevent vectorization: the sum of all
        // lengths fits.
        let added = key.len() as u32;
        self.ends[at..].iter_mut().for_each(|end| *end = end.wrapping_add(added));
    }

    pub(crate) fn remove(&mut self, at: usize) {
        let (start, end) = (self.start(at), self.ends[at] as usize);
        self.bytes.copy_within(end.., start);
        self.bytes.truncate(self.bytes.len() - (end - start));
        self.ends.remove(at);
        let removed = (end - start) as u32;
        self.ends[at..].iter_mut().for_each(|end| *end = end.wrapping_sub(removed));
        shrink(&mut self.bytes, BYTES_STEP);
        shrink(&mut self.ends, ENDS_STEP);
    }

    /// Removes the keys from a position on and returns them.
    pub(crate) fn split_off(&mut self, at: usize) -> Keys {
        let start = self.start(at);
        let mut tail = Keys::default();
        tail.append_range(self, at);
        self.bytes.truncate(start);
        self.ends.truncate(at);
        shrink(&mut self.bytes, BYTES_STEP);
        shrink(&mut self.ends, ENDS_STEP);
        tail
    }

    /// Appends keys that are all above these.
    pub(crate) fn append(&mut self, other: &Keys) {
        self.append_range(other, 0);
    }

    fn append_range(&mut self, other: &Keys, from: usize) {
        let start = other.start(from);
        let base = self.bytes.len() as u32;
        let added = &other.bytes[start..];
        grow(&mut self.bytes, added.len(), BYTES_STEP);
        grow(&mut self.ends, other.len() - from, ENDS_STEP);
        self.bytes.extend_from_slice(added);
        let moved = other.ends[from..].iter().map(|end| end - start as u32 + base);
        self.ends.extend(moved);
    }
}

/// Reserves room for `more` elements.
fn grow<T>(list: &mut Vec<T>, more: usize, step: usize) {
    let wanted = list.len() + more;
    if wanted > list.capacity() {
        list.reserve_exact(wanted.next_multiple_of(step) - list.len());
    }
}

/// Releases memory that has been unused for a while.
fn shrink<T>(list: &mut Vec<T>, step: usize) {
    if list.capacity() - list.len() > 2 * step {
        list.shrink_to(list.len().next_multiple_of(step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(keys: &Keys) -> Vec<&[u8]> {
        (0..keys.len()).map(|at| keys.get(at)).collect()
    }

    fn keys(list: &[&[u8]]) -> Keys {
        let mut keys = Keys::default();
        for key in list {
            let at = keys.find(key).expect_err("new");
            keys.insert(at, key);
        }
        keys
    }

    #[test]
    fn keys_are_in_order_after_insertion_in_any_order() {
        let keys = keys(&[b"fig", b"", b"grape", b"apple", b"figs"]);
        assert_eq!(listed(&keys), [&b""[..], b"apple", b"fig", b"figs", b"grape"]);
        assert_eq!(keys.last(), Some(&b"grape"[..]));
    }

    #[test]
    fn a_removed_key_leaves_the_others() {
        let mut keys = keys(&[b"a", b"bb", b"", b"ccc"]);
        keys.remove(1);
        assert_eq!(listed(&keys), [&b""[..], b"bb", b"ccc"]);
        assert_eq!((keys.find(b"a"), keys.find(b"bb")), (Err(1), Ok(1)));
    }

    #[test]
    fn appending_restores_a_split_block() {
        for at in 0..=4 {
            let mut left = keys(&[b"a", b"bb", b"", b"ccc"]);
            let right = left.split_off(at);
            assert_eq!((left.len(), right.len()), (at, 4 - at));
            left.append(&right);
            assert_eq!(listed(&left), [&b""[..], b"a", b"bb", b"ccc"]);
        }
    }

    #[test]
    fn memory_follows_the_keys() {
        let mut keys = Keys::default();
        (0..1_000u32).for_each(|number| keys.insert(number as usize, &number.to_be_bytes()));
        assert!(keys.allocated() < 1_000 * 8 + BYTES_STEP + ENDS_STEP * 4);
        (10..1_000).rev().for_each(|at| keys.remove(at));
        assert!(keys.allocated() < 1_000);
    }
}
