//! Numbered storage for the connections of a loop.

use std::ops::Range;

/// Values in numbered slots. A slot that becomes free is not reused before [`Slots::recycle`], so a
/// number that is still in use within a round of the loop cannot refer to another value.
#[derive(Debug)]
pub(crate) struct Slots<T> {
    slots: Vec<Option<T>>,
    free: Vec<usize>,
    freed: Vec<usize>,
    occupied: usize,
}

impl<T> Slots<T> {
    pub(crate) fn new() -> Slots<T> {
        Slots { slots: Vec::new(), free: Vec::new(), freed: Vec::new(), occupied: 0 }
    }

    /// The number that the next [`Slots::insert`] will return.
    pub(crate) fn vacant(&self) -> usize {
        self.free.last().copied().unwrap_or(self.slots.len())
    }

    pub(crate) fn insert(&mut self, value: T) -> usize {
        self.occupied += 1;
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(value);
                slot
            }
            None => {
                self.slots.push(Some(value));
                self.slots.len() - 1
            }
        }
    }

    pub(crate) fn get(&self, slot: usize) -> Option<&T> {
        self.slots.get(slot)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.slots.get_mut(slot)?.as_mut()
    }

    pub(crate) fn remove(&mut self, slot: usize) -> Option<T> {
        let value = self.slots.get_mut(slot)?.take()?;
        self.occupied -= 1;
        self.freed.push(slot);
        Some(value)
    }

    /// Makes freed slots available again.
    pub(crate) fn recycle(&mut self) {
        self.free.append(&mut self.freed);
        if self.occupied == 0 && self.slots.len() > 1_024 {
            *self = Slots::new();
        }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.occupied
    }

    /// The number after the last one used so far.
    pub(crate) fn bound(&self) -> usize {
        self.slots.len()
    }

    /// The range of all numbers used so far, including free ones.
    pub(crate) fn numbers(&self) -> Range<usize> {
        0..self.slots.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Slots;

    #[test]
    fn a_freed_number_is_not_reused_until_it_is_recycled() {
        let mut slots = Slots::new();
        assert_eq!((slots.insert('a'), slots.insert('b')), (0, 1));
        assert_eq!((slots.remove(0), slots.remove(0)), (Some('a'), None));
        assert_eq!((slots.vacant(), slots.insert('c')), (2, 2));
        slots.recycle();
        assert_eq!((slots.vacant(), slots.insert('d')), (0, 0));
        assert_eq!((slots.len(), slots.numbers(), slots.get(1)), (3, 0..3, Some(&'b')));
    }
}
