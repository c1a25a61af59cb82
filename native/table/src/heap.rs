//! A min-heap of small items, in blocks that never move.
//!
//! A growing vector leaves freed blocks of many sizes behind, which a malloc heap full of entries
//! can hardly reuse: with 1,000-byte entries, this took 18 bytes for each item of seven. So items
//! are stored in blocks of one size, and the last block grows with its items:
//!
//! ```text
//!   full   [ 0 .. 32 ]  [ 33 .. 65 ]  [ 66 .. 98 ]
//!   last   [ 99 .. 104    ]
//! ```
//!
//! Each item has eight children, at `8 n + 1` and after: this takes fewer steps than two children
//! would, and the items that a step compares are adjacent, so there are fewer cache misses.

/// 231 bytes of seven-byte items, for which malloc takes 240.
const BLOCK: usize = 33;
/// The capacities of the first block while it grows. Each step leaves a hole in malloc's heap, so
/// there are few: with seven-byte items they take 48 and 112 bytes.
const FIRST_ROOM: [usize; 2] = [5, 14];
/// Capacity for pointers to blocks is added in steps of at least this.
const STEP: usize = 4;
const CHILDREN: usize = 8;

/// A heap that yields the least item first.
pub(crate) struct Heap<T> {
    full: Vec<Box<[T; BLOCK]>>,
    /// Fewer than [`BLOCK`] items.
    last: Vec<T>,
}

impl<T> Default for Heap<T> {
    fn default() -> Heap<T> {
        Heap { full: Vec::new(), last: Vec::new() }
    }
}

impl<T: Copy + Ord> Heap<T> {
    pub(crate) fn len(&self) -> usize {
        self.full.len() * BLOCK + self.last.len()
    }

    /// Bytes of memory.
    pub(crate) fn allocated(&self) -> usize {
        let full = self.full.len() * size_of::<[T; BLOCK]>();
        let blocks = self.full.capacity() * size_of::<Box<[T; BLOCK]>>();
        full + blocks + self.last.capacity() * size_of::<T>()
    }

    /// The least item.
    pub(crate) fn first(&self) -> Option<T> {
        let first = self.full.first().and_then(|block| block.first());
        first.or_else(|| self.last.first()).copied()
    }

    /// The number of items that are wanted, `most` at most. No item is wanted that is greater than
    /// one that is not.
    pub(crate) fn count_first(&self, wants: impl Fn(T) -> bool, most: usize) -> usize {
        let (mut count, mut next) = (0, vec![0]);
        while let Some(at) = next.pop() {
            if at < self.len() && count < most && wants(self.get(at)) {
                count += 1;
                next.extend((1..=CHILDREN).map(|child| CHILDREN * at + child));
            }
        }
        count
    }

    pub(crate) fn push(&mut self, item: T) {
        self.push_last(item);
        self.rise(self.len() - 1, item);
    }

    /// Removes the least item.
    pub(crate) fn pop(&mut self) -> Option<T> {
        let first = self.first()?;
        let last = self.pop_last()?;
        if self.len() > 0 {
            self.sink(0, last);
        }
        Some(first)
    }

    /// The address of the pointers to the blocks, for prefetching.
    pub(crate) fn directory(&self) -> usize {
        self.full.as_ptr().addr()
    }

    /// The address of the first items.
    pub(crate) fn front(&self) -> usize {
        self.full.first().map_or(self.last.as_ptr().addr(), |block| block.as_ptr().addr())
    }

    /// The address of the last item, which moves to the place of a removed one.
    pub(crate) fn back(&self) -> usize {
        self.last.as_ptr().wrapping_add(self.last.len()).addr()
    }

    /// The items, in no particular order.
    pub(crate) fn into_vec(self) -> Vec<T> {
        let mut items = Vec::with_capacity(self.len());
        self.full.iter().for_each(|block| items.extend_from_slice(&**block));
        items.extend_from_slice(&self.last);
        items
    }

    /// A heap of these items.
    pub(crate) fn from_vec(mut items: Vec<T>) -> Heap<T> {
        // A sorted vector is a heap.
        items.sort_unstable();
        let mut heap = Heap::default();
        items.into_iter().for_each(|item| heap.push_last(item));
        heap
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = T> {
        (0..self.len()).map(|at| self.get(at))
    }

    pub(crate) fn get(&self, at: usize) -> T {
        match self.full.get(at / BLOCK) {
            Some(block) => block[at % BLOCK],
            None => self.last[at % BLOCK],
        }
    }

    fn set(&mut self, at: usize, item: T) {
        match self.full.get_mut(at / BLOCK) {
            Some(block) => block[at % BLOCK] = item,
            None => self.last[at % BLOCK] = item,
        }
    }

    fn push_last(&mut self, item: T) {
        let len = self.last.len();
        if len == self.last.capacity() {
            // Only the first block grows.
            let rooms = if self.full.is_empty() { &FIRST_ROOM[..] } else { &[] };
            let room = rooms.iter().find(|room| **room > len).unwrap_or(&BLOCK);
            self.last.reserve_exact(room - len);
        }
        self.last.push(item);
        if self.last.len() == BLOCK {
            if self.full.len() == self.full.capacity() {
                self.full.reserve_exact((self.full.len() / 8).max(4));
            }
            // Its capacity equals its length.
            let block = std::mem::take(&mut self.last).into_boxed_slice();
            if let Ok(block) = block.try_into() {
                self.full.push(block);
            }
        }
    }

    fn pop_last(&mut self) -> Option<T> {
        if self.last.is_empty() {
            let block = self.full.pop()?;
            self.last = block.to_vec();
            if self.full.capacity() > 2 * self.full.len() + STEP {
                self.full.shrink_to(self.full.len());
            }
        }
        self.last.pop()
    }

    /// Moves the gap at `at` up to where the item belongs, and puts the item there.
    fn rise(&mut self, mut at: usize, item: T) {
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            let above = self.get(parent);
            if above <= item {
                break;
            }
            self.set(at, above);
            at = parent;
        }
        self.set(at, item);
    }

    /// Moves the gap at `at` down to where the item belongs, and puts the item there.
    fn sink(&mut self, mut at: usize, item: T) {
        let len = self.len();
        loop {
            let children = at * CHILDREN + 1..len.min(at * CHILDREN + 1 + CHILDREN);
            let least = children.map(|child| (self.get(child), child)).min();
            match least {
                Some((below, child)) if below < item => {
                    self.set(at, below);
                    at = child;
                }
                _ => break,
            }
        }
        self.set(at, item);
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::*;

    #[test]
    fn items_are_popped_in_order_between_pushes() {
        let (mut heap, mut model) = (Heap::default(), BinaryHeap::new());
        let mut dice = 1u64;
        for round in 0..20_000u64 {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(round | 1);
            // Grows for a while, then shrinks.
            if (dice >> 33) % 8 < if round / 2_500 % 2 == 0 { 5 } else { 3 } {
                heap.push(dice >> 50);
                model.push(Reverse(dice >> 50));
            } else {
                assert_eq!(heap.pop(), model.pop().map(|Reverse(item)| item));
            }
            assert_eq!(heap.first(), model.peek().map(|Reverse(item)| *item));
            assert_eq!(heap.len(), model.len());
        }
        let mut heap = Heap::from_vec(heap.into_vec());
        while let Some(Reverse(item)) = model.pop() {
            assert_eq!(heap.pop(), Some(item));
        }
        assert_eq!((heap.pop(), heap.len()), (None, 0));
    }

    #[test]
    fn little_capacity_is_unused() {
        let mut heap = Heap::default();
        for number in 0..10_000u64 {
            heap.push([number as u8; 7]);
            let len = heap.len();
            assert!(heap.allocated() <= (len + BLOCK) * 7 + len / BLOCK * 10 + 40);
        }
        while heap.pop().is_some() {}
        assert!(heap.allocated() <= BLOCK * 7 + 2 * STEP * 16);
    }
}
