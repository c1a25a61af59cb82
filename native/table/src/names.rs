//! Addresses by name, for look-ups that take no lock.
//!
//! A name is a word that is not 0, such as an atom of Erlang: two names are the same if their words
//! are. The buckets are an array with linear probing:
//!
//! ```text
//!   bucket    name, 0 if it is free     address, null if the name was removed
//! ```
//!
//! A search begins at the bucket of the name's hash, and ends at the name or at a free bucket. A
//! bucket whose name was removed keeps the name if others follow it, so that searches continue to
//! them, until another name takes it.
//!
//! One thread at a time changes the buckets; the caller has a lock for that. A bucket holds an
//! address, not a reference: the caller also knows why what is at an address lives while a reader
//! uses it.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// Values of type `T` by name, in `LEN` buckets. There should be at least twice as many as names.
#[derive(Debug)]
pub struct Names<T, const LEN: usize> {
    buckets: [Bucket<T>; LEN],
}

#[derive(Debug)]
struct Bucket<T> {
    name: AtomicUsize,
    value: AtomicPtr<T>,
}

/// What a search has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named<T> {
    /// The address that belongs to the name. Another name may have taken the bucket since its name
    /// was read, so the caller compares the name in the value.
    At(NonNull<T>),
    /// The name was removed.
    Removed,
    /// No bucket has the name.
    Unknown,
}

impl<T, const LEN: usize> Names<T, LEN> {
    /// Without names.
    pub const fn new() -> Names<T, LEN> {
        Names {
            buckets: [const {
                Bucket { name: AtomicUsize::new(0), value: AtomicPtr::new(ptr::null_mut()) }
            }; LEN],
        }
    }

    /// Finds a name. Any thread may call this at any time.
    #[inline]
    pub fn find(&self, name: usize) -> Named<T> {
        for bucket in self.buckets_from(Self::first(name)) {
            match bucket.name.load(Ordering::Acquire) {
                found if found == name => {
                    let value = NonNull::new(bucket.value.load(Ordering::Acquire));
                    return value.map_or(Named::Removed, Named::At);
                }
                0 => return Named::Unknown,
                _ => (),
            }
        }
        Named::Unknown
    }

    /// Adds a name, which is not there. False if there is no room.
    pub fn insert(&self, name: usize, value: NonNull<T>) -> bool {
        let Some(bucket) = self.bucket_for(name) else { return false };
        // The name first: a thread that sees the value must see the name that belongs to it.
        bucket.name.store(name, Ordering::Release);
        bucket.value.store(value.as_ptr(), Ordering::Release);
        true
    }

    /// Removes a name, and frees the buckets at the end of its probe sequence that no search has to
    /// pass any more.
    pub fn remove(&self, name: usize) {
        let first = Self::first(name);
        let at = |step: usize| &self.buckets[(first + step) % LEN];
        let Some(mut step) = (0..LEN).find(|step| at(*step).name.load(Ordering::Relaxed) == name)
        else {
            return;
        };
        at(step).value.store(ptr::null_mut(), Ordering::Release);
        // One pass is enough; the sequence of `first` may begin before it.
        for _ in 0..LEN {
            let bucket = at(step);
            let is_taken = !bucket.value.load(Ordering::Relaxed).is_null();
            let is_last = at(step + 1).name.load(Ordering::Relaxed) == 0;
            if is_taken || !is_last {
                return;
            }
            bucket.name.store(0, Ordering::Release);
            step += LEN - 1;
        }
    }

    /// The bucket for a name that is added: its own, or else the first one without a value.
    fn bucket_for(&self, name: usize) -> Option<&Bucket<T>> {
        let mut free = None;
        for bucket in self.buckets_from(Self::first(name)) {
            let taken = bucket.name.load(Ordering::Relaxed);
            if taken == name {
                return Some(bucket);
            }
            if free.is_none() && bucket.value.load(Ordering::Relaxed).is_null() {
                free = Some(bucket);
            }
            if taken == 0 {
                break;
            }
        }
        free
    }

    #[inline]
    fn first(name: usize) -> usize {
        // The terms of atoms are small numbers shifted by six bits.
        (name >> 6) % LEN
    }

    /// The buckets that may contain a name, in the order of a search.
    #[inline]
    fn buckets_from(&self, first: usize) -> impl Iterator<Item = &Bucket<T>> {
        (0..LEN).map(move |step| &self.buckets[(first + step) % LEN])
    }
}

impl<T, const LEN: usize> Default for Names<T, LEN> {
    fn default() -> Names<T, LEN> {
        Names::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const LEN: usize = 8;

    static VALUES: [u8; 64] = [0; 64];

    /// A name whose search begins at this bucket, and one of several such.
    fn name(bucket: usize, number: usize) -> usize {
        (number * LEN + bucket) << 6 | 0b00_1011
    }

    fn value(number: usize) -> NonNull<u8> {
        NonNull::from(&VALUES[number])
    }

    #[test]
    fn names_of_the_same_bucket_are_found_until_they_are_removed() {
        let names = Names::<u8, LEN>::new();
        assert_eq!(names.find(name(7, 0)), Named::Unknown);
        for number in 0..3 {
            assert!(names.insert(name(7, number), value(number)));
        }
        // The search for the last one passes the first.
        names.remove(name(7, 0));
        assert_eq!(names.find(name(7, 0)), Named::Removed);
        assert_eq!(names.find(name(7, 2)), Named::At(value(2)));
        // Another name takes its bucket.
        assert!(names.insert(name(7, 3), value(3)));
        assert_eq!(names.find(name(7, 0)), Named::Unknown);
        assert_eq!(names.find(name(7, 3)), Named::At(value(3)));
        // The buckets at the end of the sequence become free.
        names.remove(name(7, 1));
        names.remove(name(7, 2));
        assert_eq!(names.find(name(7, 1)), Named::Unknown);
        assert_eq!(names.find(name(7, 2)), Named::Unknown);
        assert_eq!(names.find(name(7, 3)), Named::At(value(3)));
    }

    #[test]
    fn a_name_has_no_room_if_all_buckets_are_taken() {
        let names = Names::<u8, LEN>::new();
        assert!((0..LEN).all(|number| names.insert(name(number, 1), value(number))));
        assert!(!names.insert(name(3, 2), value(9)));
        assert_eq!(names.find(name(3, 2)), Named::Unknown);
        names.remove(name(5, 1));
        assert!(names.insert(name(3, 2), value(9)));
        assert_eq!(names.find(name(3, 2)), Named::At(value(9)));
    }

    #[test]
    fn names_are_found_after_random_changes() {
        let names = Names::<u8, LEN>::new();
        let mut model = BTreeMap::new();
        let mut random = 1_u64;
        for _ in 0..20_000 {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let number = (random >> 33) as usize % 24;
            let own = name(number % 3, number);
            if model.remove(&own).is_some() {
                names.remove(own);
            } else if model.len() < LEN / 2 {
                assert!(names.insert(own, value(number)));
                model.insert(own, value(number));
            }
            for number in 0..24 {
                let own = name(number % 3, number);
                match names.find(own) {
                    Named::At(found) => assert_eq!(model.get(&own), Some(&found)),
                    Named::Removed | Named::Unknown => assert!(!model.contains_key(&own)),
                }
            }
        }
    }
}
