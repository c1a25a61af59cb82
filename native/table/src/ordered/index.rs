//! A sorted set of keys that many threads use: leaves of packed keys, found through a map.
//!
//! ```text
//!   map (RwLock)     ""            "fi"          "p"         each leaf's lower bound
//!                     |              |             |
//!   leaf (RwLock)   apple, date   fig, grape    pear, plum   at most 128 keys or 8 KiB
//! ```
//!
//! A leaf contains the keys from its bound up to the next leaf's. Bounds never change, the first is
//! empty, and together the leaves cover all keys, so the map determines for any key which leaf
//! contains it. Adding or removing a key takes the map's lock shared and locks one leaf. Only if a
//! leaf is full, or has become nearly empty, is the map locked exclusively; the condition is then
//! checked again.
//!
//! A full leaf is split in halves, unless the new key is its last or its first: then that key
//! begins a new leaf, so that keys inserted in order leave full leaves behind.
//!
//! The bound of a new leaf is not its first key but the shortest prefix of it that is above the key
//! before.

use std::collections::BTreeMap;
use std::ops::Bound::{self, Excluded, Included, Unbounded};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::RwLock;

use super::keys::Keys;
use crate::copied_keys::CopiedKeys;

const LEAF_KEYS_MAX: usize = if cfg!(test) { 8 } else { 128 };
const LEAF_BYTES_MAX: usize = if cfg!(test) { 256 } else { 8 * 1024 };
/// A leaf that shrinks to this many keys, or a half, a quarter and so on of that, is joined with a
/// neighbour that has room.
const LEAF_KEYS_FEW: usize = LEAF_KEYS_MAX / 8;
/// Bytes of the map for one leaf, without its bound: the map's nodes are three quarters full.
const LEAF_OVERHEAD_BYTES: usize = (size_of::<Leaf>() + size_of::<Box<[u8]>>()) * 4 / 3;

type Leaf = RwLock<Keys>;
pub(crate) type Leaves = BTreeMap<Box<[u8]>, Leaf>;

/// The keys between two bounds, in ascending order.
pub(crate) type Range<'k> = (Bound<&'k [u8]>, Bound<&'k [u8]>);

/// A sorted set of keys.
#[derive(Default)]
pub(crate) struct Index {
    leaves: RwLock<Leaves>,
    /// Bytes of memory.
    bytes: AtomicUsize,
}

impl Index {
    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Adds a key, unless it is present.
    pub(crate) fn insert(&self, key: &[u8]) {
        if let Some(leaf) = leaf_of(&self.leaves.read(), key)
            && self.try_insert(&mut leaf.write(), key)
        {
            return;
        }
        self.insert_split(key);
    }

    /// False if there is no room in the leaf.
    fn try_insert(&self, leaf: &mut Keys, key: &[u8]) -> bool {
        let Err(at) = leaf.find(key) else { return true };
        let room = has_room(leaf.len() + 1, leaf.bytes() + key.len());
        if room {
            self.changing(leaf, |leaf| leaf.insert(at, key));
        }
        room
    }

    /// Adds a key with the whole map locked, splitting its leaf as often as necessary.
    #[cold]
    fn insert_split(&self, key: &[u8]) {
        let leaves = &mut *self.leaves.write();
        if leaves.is_empty() {
            self.add_leaf(leaves, Box::default(), Keys::default());
        }
        while let Some(leaf) = leaf_of_mut(leaves, key) {
            if self.try_insert(leaf, key) {
                return;
            }
            let (Ok(at) | Err(at)) = leaf.find(key);
            let len = leaf.len();
            let (at, tail) = if at == len || at == 0 { (at, at) } else { (at, len / 2) };
            let mut right = self.changing(leaf, |leaf| leaf.split_off(tail));
            if at == len {
                right.insert(0, key);
            }
            let before = if at == 0 { Some(key) } else { leaf.last() };
            let bound = bound_between(before.unwrap_or_default(), right.get(0));
            self.add_leaf(leaves, bound, right);
            if at == len {
                return;
            }
        }
    }

    /// Removes a key, if it is present.
    pub(crate) fn remove(&self, key: &[u8]) {
        let few = {
            let leaves = self.leaves.read();
            let Some(leaf) = leaf_of(&leaves, key) else { return };
            let leaf = &mut *leaf.write();
            let Ok(at) = leaf.find(key) else { return };
            self.changing(leaf, |leaf| leaf.remove(at));
            let len = leaf.len();
            len == 0 || (len <= LEAF_KEYS_FEW && len.is_power_of_two())
        };
        if few {
            self.join(key);
        }
    }

    /// Joins the leaf of a key with a neighbour, if both fit into one with room to spare.
    #[cold]
    fn join(&self, key: &[u8]) {
        let leaves = &mut *self.leaves.write();
        let mut around = leaves.range::<[u8], _>((Unbounded, Included(key))).rev();
        let Some(this) = around.next().map(|(bound, _)| bound.clone()) else { return };
        let before = around.next().map(|(bound, _)| bound.clone());
        let after = leaves.range::<[u8], _>((Excluded(&*this), Unbounded)).next();
        let after = after.map(|(bound, _)| bound.clone());
        let joined = before.is_some_and(|before| self.join_pair(leaves, &before, &this));
        if !joined && let Some(after) = after {
            self.join_pair(leaves, &this, &after);
        }
    }

    /// Moves the keys of `right` to `left`, its neighbour, unless one of them is far from empty.
    fn join_pair(&self, leaves: &mut Leaves, left: &[u8], right: &[u8]) -> bool {
        let size = |leaf: &mut Leaf| (leaf.get_mut().len(), leaf.get_mut().bytes());
        let Some((left_len, left_bytes)) = leaves.get_mut(left).map(size) else { return false };
        let Some((right_len, right_bytes)) = leaves.get_mut(right).map(size) else { return false };
        let (len, bytes) = (left_len + right_len, left_bytes + right_bytes);
        // Not full, so that it is not soon split again.
        if left_len > 0 && right_len > 0 && !has_room(len + len / 4, bytes + bytes / 4) {
            return false;
        }
        let Some((bound, leaf)) = leaves.remove_entry(right) else { return false };
        let leaf = leaf.into_inner();
        self.bytes.fetch_sub(leaf_bytes(&bound) + leaf.allocated(), Relaxed);
        if let Some(left) = leaves.get_mut(left) {
            self.changing(left.get_mut(), |left| {
                if left.is_empty() { *left = leaf } else { left.append(&leaf) }
            });
        }
        true
    }

    /// Copies at most `most` keys of a range, in ascending order or, with `reverse`, in descending
    /// order. Returns whether the range has more of them. With long keys it may copy fewer than
    /// `most`, but at least one.
    pub(crate) fn copy(
        &self,
        range: Range<'_>,
        reverse: bool,
        most: usize,
        to: &mut CopiedKeys,
    ) -> bool {
        if is_empty(range) {
            return false;
        }
        let leaves = self.leaves.read();
        if reverse {
            let ends = leaves.range::<[u8], _>((Unbounded, range.1)).rev();
            return copy_backward(ends.map(|(_, leaf)| leaf), range, most, to);
        }
        let first = match range.0 {
            Unbounded => Unbounded,
            Included(low) | Excluded(low) => bound_of(&leaves, low).map_or(Unbounded, Included),
        };
        let from = leaves.range::<[u8], _>((first, Unbounded));
        copy_forward(from.map(|(_, leaf)| leaf), range, most, to)
    }

    /// Replaces all keys by those of another index, as one step. Returns what has to be dropped.
    pub(crate) fn replace(&self, with: Index) -> Leaves {
        let leaves = &mut *self.leaves.write();
        self.bytes.store(with.bytes.into_inner(), Relaxed);
        std::mem::replace(leaves, with.leaves.into_inner())
    }

    fn add_leaf(&self, leaves: &mut Leaves, bound: Box<[u8]>, keys: Keys) {
        self.bytes.fetch_add(leaf_bytes(&bound) + keys.allocated(), Relaxed);
        leaves.insert(bound, RwLock::new(keys));
    }

    /// Changes a leaf and updates the memory count.
    fn changing<R>(&self, leaf: &mut Keys, change: impl FnOnce(&mut Keys) -> R) -> R {
        let before = leaf.allocated();
        let result = change(leaf);
        let after = leaf.allocated();
        if after != before {
            // Wrapping, like atomics: a decrease is added as a very large number.
            self.bytes.fetch_add(after.wrapping_sub(before), Relaxed);
        }
        result
    }
}

/// Whether a leaf may have this many keys and bytes. A longer key has a leaf of its own.
fn has_room(len: usize, bytes: usize) -> bool {
    len <= 1 || (len <= LEAF_KEYS_MAX && bytes <= LEAF_BYTES_MAX)
}

fn leaf_bytes(bound: &[u8]) -> usize {
    LEAF_OVERHEAD_BYTES + bound.len()
}

fn leaf_of<'l>(leaves: &'l Leaves, key: &[u8]) -> Option<&'l Leaf> {
    leaves.range::<[u8], _>((Unbounded, Included(key))).next_back().map(|(_, leaf)| leaf)
}

fn leaf_of_mut<'l>(leaves: &'l mut Leaves, key: &[u8]) -> Option<&'l mut Keys> {
    let (_, leaf) = leaves.range_mut::<[u8], _>((Unbounded, Included(key))).next_back()?;
    Some(leaf.get_mut())
}

fn bound_of<'l>(leaves: &'l Leaves, key: &[u8]) -> Option<&'l [u8]> {
    leaves.range::<[u8], _>((Unbounded, Included(key))).next_back().map(|(bound, _)| &**bound)
}

/// The shortest prefix of `key` that is above the key before.
fn bound_between(before: &[u8], key: &[u8]) -> Box<[u8]> {
    let same = before.iter().zip(key).take_while(|(left, right)| left == right).count();
    Box::from(&key[..key.len().min(same + 1)])
}

/// Whether no key can be in a range: a map panics when asked for some of these.
fn is_empty((low, high): Range<'_>) -> bool {
    match (low, high) {
        (Unbounded, _) | (_, Unbounded) => false,
        (Included(low), Included(high)) => low > high,
        (Included(low) | Excluded(low), Included(high) | Excluded(high)) => low >= high,
    }
}

/// The positions of a range's keys in a leaf.
fn places(leaf: &Keys, (low, high): Range<'_>) -> (usize, usize) {
    let from = match low {
        Unbounded => 0,
        Included(key) => leaf.find(key).unwrap_or_else(|at| at),
        Excluded(key) => leaf.find(key).map_or_else(|at| at, |at| at + 1),
    };
    let to = match high {
        Unbounded => leaf.len(),
        Included(key) => leaf.find(key).map_or_else(|at| at, |at| at + 1),
        Excluded(key) => leaf.find(key).unwrap_or_else(|at| at),
    };
    (from, to)
}

fn copy_forward<'l>(
    leaves: impl Iterator<Item = &'l Leaf>,
    range: Range<'_>,
    most: usize,
    to: &mut CopiedKeys,
) -> bool {
    for leaf in leaves {
        let leaf = leaf.read();
        let (from, end) = places(&leaf, range);
        for at in from..end {
            if to.is_full(most) {
                return true;
            }
            to.push(leaf.get(at));
        }
        if end < leaf.len() {
            return false;
        }
    }
    false
}

fn copy_backward<'l>(
    leaves: impl Iterator<Item = &'l Leaf>,
    range: Range<'_>,
    most: usize,
    to: &mut CopiedKeys,
) -> bool {
    for leaf in leaves {
        let leaf = leaf.read();
        let (from, end) = places(&leaf, range);
        for at in (from..end).rev() {
            if to.is_full(most) {
                return true;
            }
            to.push(leaf.get(at));
        }
        if from > 0 {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::ops::RangeBounds;

    use proptest::prelude::*;
    use proptest::test_runner::FileFailurePersistence;

    use super::*;

    /// Keys of a range, copied `most` at a time.
    fn copied(index: &Index, range: Range<'_>, reverse: bool, most: usize) -> Vec<Vec<u8>> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        loop {
            let last = all.last().cloned();
            let (mut low, mut high) = range;
            if let Some(last) = &last {
                *if reverse { &mut high } else { &mut low } = Excluded(last);
            }
            let mut copied = CopiedKeys::default();
            let more = index.copy((low, high), reverse, most, &mut copied);
            assert!(copied.len() <= most && (!more || copied.len() > 0));
            all.extend((0..copied.len()).map(|at| copied.get(at).to_vec()));
            if !more {
                return all;
            }
        }
    }

    /// Panics if the leaves violate an invariant of the index.
    fn assert_sound(index: &Index) {
        let leaves = index.leaves.read();
        let mut bytes = 0;
        for (number, (bound, leaf)) in leaves.iter().enumerate() {
            let leaf = leaf.read();
            bytes += leaf_bytes(bound) + leaf.allocated();
            assert_eq!(bound.is_empty(), number == 0);
            assert!(!leaf.is_empty() || number == 0);
            assert!(has_room(leaf.len(), leaf.bytes()));
            let next = leaves.range::<[u8], _>((Excluded(&**bound), Unbounded)).next();
            for at in 0..leaf.len() {
                let key = leaf.get(at);
                assert!(at == 0 || leaf.get(at - 1) < key);
                assert!(key >= &**bound && next.is_none_or(|(next, _)| key < &**next));
            }
        }
        assert_eq!(index.bytes(), bytes);
    }

    fn key_of(choice: u16) -> Vec<u8> {
        let mut key =
            vec![b'k'; if choice.is_multiple_of(9) { 90 } else { usize::from(choice % 4) }];
        key.extend_from_slice(&(choice % 200).to_be_bytes());
        if choice == 40 {
            vec![0; 400]
        } else if choice == 41 {
            Vec::new()
        } else {
            key
        }
    }

    fn bound_to(kind: u8, key: &[u8]) -> Bound<&[u8]> {
        match kind % 3 {
            0 => Included(key),
            1 => Excluded(key),
            _ => Unbounded,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: if cfg!(miri) { 4 } else { 2_000 },
            failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
            ..ProptestConfig::default()
        })]

        #[test]
        fn an_index_behaves_like_a_sorted_set(
            changes in prop::collection::vec((0..300u16, 0..5u8), 0..400),
            mostly_added in any::<bool>(),
            queries in prop::collection::vec((any::<[u8; 2]>(), 0..300u16, 0..300u16), 5),
            most in 1..40usize,
        ) {
            let (index, mut model) = (Index::default(), BTreeSet::new());
            for (choice, change) in changes {
                let key = key_of(choice);
                if (change == 0) == mostly_added {
                    index.remove(&key);
                    model.remove(&key);
                } else {
                    index.insert(&key);
                    model.insert(key);
                }
            }
            assert_sound(&index);
            for (kinds, first, second) in queries {
                let (first, second) = (key_of(first), key_of(second));
                let range = (bound_to(kinds[0], &first), bound_to(kinds[1], &second));
                let inside = |key: &&Vec<u8>| range.contains(key.as_slice());
                let mut expected: Vec<Vec<u8>> = model.iter().filter(inside).cloned().collect();
                prop_assert_eq!(&copied(&index, range, false, most), &expected);
                expected.reverse();
                prop_assert_eq!(copied(&index, range, true, most), expected);
            }
            for key in std::mem::take(&mut model) {
                index.remove(&key);
            }
            assert_sound(&index);
            prop_assert!(copied(&index, (Unbounded, Unbounded), false, most).is_empty());
            prop_assert!(index.leaves.read().len() <= 1);
        }
    }

    /// How full leaves are after inserting these keys in this order.
    fn keys_per_leaf(numbers: impl Iterator<Item = u32>) -> usize {
        let index = Index::default();
        let mut count = 0;
        numbers.for_each(|number| {
            index.insert(&number.to_be_bytes());
            count += 1;
        });
        assert_sound(&index);
        let leaves = index.leaves.read().len();
        count / leaves
    }

    #[test]
    fn keys_inserted_in_order_fill_their_leaves() {
        assert_eq!(keys_per_leaf(0..8_000), LEAF_KEYS_MAX);
        assert_eq!(keys_per_leaf((0..8_000).rev()), LEAF_KEYS_MAX);
        // Ten interleaved sequences.
        let numbers = (0..8_000).map(|number| number % 10 * 10_000 + number / 10);
        assert!(keys_per_leaf(numbers) >= LEAF_KEYS_MAX - 1);
    }

    #[test]
    fn keys_inserted_in_any_order_leave_no_leaf_nearly_empty() {
        let mixed = (0..8_000u32).map(|number| number.wrapping_mul(0x9e37_79b1).reverse_bits());
        assert!(keys_per_leaf(mixed) >= LEAF_KEYS_MAX / 2);
    }

    #[test]
    fn leaves_that_become_nearly_empty_are_joined() {
        let index = Index::default();
        (0..4_000u32).for_each(|number| index.insert(&number.to_be_bytes()));
        let removed = (0..4_000u32).filter(|number| number % 16 != 3);
        removed.for_each(|number| index.remove(&number.to_be_bytes()));
        assert_sound(&index);
        assert_eq!(copied(&index, (Unbounded, Unbounded), false, 50).len(), 250);
        assert!(index.leaves.read().len() <= 250 / 2);
    }
}
