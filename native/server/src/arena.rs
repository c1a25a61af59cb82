//! Storage for the connections of a loop, by an index.

use std::ops::Range;

/// Values by an index. An index that becomes free is not reused before [`Arena::recycle`], so one
/// that is still in use within a round of the loop cannot refer to another value.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    values: Vec<Option<T>>,
    free: Vec<usize>,
    freed: Vec<usize>,
    occupied: usize,
}

impl<T> Arena<T> {
    pub(crate) fn new() -> Arena<T> {
        Arena { values: Vec::new(), free: Vec::new(), freed: Vec::new(), occupied: 0 }
    }

    /// The index that the next [`Arena::insert`] will return.
    pub(crate) fn vacant(&self) -> usize {
        self.free.last().copied().unwrap_or(self.values.len())
    }

    pub(crate) fn insert(&mut self, value: T) -> usize {
        self.occupied += 1;
        match self.free.pop() {
            Some(index) => {
                self.values[index] = Some(value);
                index
            }
            None => {
                self.values.push(Some(value));
                self.values.len() - 1
            }
        }
    }

    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        self.values.get(index)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.values.get_mut(index)?.as_mut()
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        let value = self.values.get_mut(index)?.take()?;
        self.occupied -= 1;
        self.freed.push(index);
        Some(value)
    }

    /// Makes freed indices available again.
    pub(crate) fn recycle(&mut self) {
        self.free.append(&mut self.freed);
        if self.occupied == 0 && self.values.len() > 1_024 {
            *self = Arena::new();
        }
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.occupied
    }

    /// The index after the last one used so far.
    pub(crate) fn bound(&self) -> usize {
        self.values.len()
    }

    /// The range of all indices used so far, including free ones.
    pub(crate) fn indices(&self) -> Range<usize> {
        0..self.values.len()
    }
}

#[cfg(test)]
mod tests {
    use super::Arena;

    #[test]
    fn a_freed_index_is_not_reused_until_it_is_recycled() {
        let mut arena = Arena::new();
        assert_eq!((arena.insert('a'), arena.insert('b')), (0, 1));
        assert_eq!((arena.remove(0), arena.remove(0)), (Some('a'), None));
        assert_eq!((arena.vacant(), arena.insert('c')), (2, 2));
        arena.recycle();
        assert_eq!((arena.vacant(), arena.insert('d')), (0, 0));
        assert_eq!((arena.len(), arena.indices(), arena.get(1)), (3, 0..3, Some(&'b')));
    }
}
