//! The versions of entries that were removed from a durable table, to tell whether a key was
//! created after a certain version, even if it is absent again.
//!
//! A table in memory counts the creations of watched keys ([`crate::absences`]). Whether a logged
//! transaction runs must not depend on what one process counted, so a durable table answers from
//! what the log did: a key was created after a version if it has an entry of a later version, or if
//! an entry of a later version was removed. This file remembers the latter:
//!
//! ```text
//!   2,048 sets, chosen by the key's hash     floor | up to 16 removals (hash, version)
//! ```
//!
//! A full set forgets the removal of the lowest version, and its floor rises to that version. A key
//! that was watched from a version below the floor counts as created: a transaction fails that
//! could have been executed, and its client tries again. So the answer is exact as long as no more
//! than 16 keys of the set were created since that version and removed, which is likely for up to
//! twenty thousand keys of the table. A clear raises the floors of all sets.
//!
//! The content is a function of the table's changes, and part of its
//! [state](crate::TableState): a table that was restored gives the same answers.

use std::fmt;
use std::mem;

use parking_lot::Mutex;

/// The number of sets, a power of two.
const SETS: usize = if cfg!(test) { 4 } else { 2_048 };
const _: () = assert!(SETS <= u16::MAX as usize && REMOVALS_MAX <= u8::MAX as usize);
/// The removals that a set remembers.
const REMOVALS_MAX: usize = 16;
/// The lowest of the hash bits that choose the set.
const SET_BITS_FROM: u32 = 40;

/// The removed entries of one table.
#[derive(Default)]
pub(crate) struct Removals {
    /// Empty until the first removal.
    sets: Mutex<Box<[Set]>>,
}

/// A copy of what a table remembers of removed entries.
#[derive(Clone, Default)]
pub struct Removed(Box<[Set]>);

/// The removed entries of some keys.
#[derive(Clone, Copy, Default)]
struct Set {
    /// Removals of this version and below are not remembered.
    floor: u64,
    /// Unused places have version 0, which no entry has.
    removals: [Removal; REMOVALS_MAX],
}

#[derive(Clone, Copy, Default)]
struct Removal {
    hash: u64,
    version: u64,
}

impl Removals {
    /// Records that an entry was removed. The caller holds its shard's lock.
    pub(crate) fn note(&self, hash: u64, version: u64) {
        let sets = &mut *self.sets.lock();
        if sets.is_empty() {
            *sets = vec![Set::default(); SETS].into();
        }
        sets[set_of(hash)].note(Removal { hash, version });
    }

    /// Records that all entries were removed; none has a higher version than this.
    pub(crate) fn note_all(&self, version: u64) {
        let sets = &mut *self.sets.lock();
        let set = Set { floor: version, ..Set::default() };
        *sets = vec![set; SETS].into();
    }

    /// Whether an entry of this hash that was written after `version` may have been removed.
    pub(crate) fn since(&self, hash: u64, version: u64) -> bool {
        let sets = self.sets.lock();
        sets.get(set_of(hash)).is_some_and(|set| {
            let is_later = |it: &Removal| it.hash == hash && it.version > version;
            set.floor > version || set.removals.iter().any(is_later)
        })
    }
}

impl Removals {
    /// A copy of the present content.
    pub(crate) fn copy(&self) -> Removed {
        Removed(self.sets.lock().clone())
    }

    /// Replaces the content.
    pub(crate) fn replace(&self, with: &Removed) {
        *self.sets.lock() = with.0.clone();
    }
}

impl Removed {
    /// The most bytes that [`Removed::to_bytes`] returns.
    pub const BYTES_MAX: usize = 8 + SETS * (2 + 8 + 1 + REMOVALS_MAX * 16);

    /// The content as bytes. All numbers are little-endian:
    ///
    /// ```text
    ///   floor 8 of all sets that are not listed; nothing at all if nothing was ever removed
    ///   then for each other set:  number 2 | floor 8 | n 1 | n times: hash 8, version 8
    /// ```
    ///
    /// Sets come in ascending order, and their removals in the order of versions, so that equal
    /// contents have equal bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let Some(floor) = self.0.iter().map(|set| set.floor).min() else { return Vec::new() };
        let mut bytes = floor.to_le_bytes().to_vec();
        for (number, set) in self.0.iter().enumerate() {
            let mut removals = set.removals;
            removals.sort_unstable_by_key(|removal| removal.version);
            let used = removals.iter().filter(|removal| removal.version > 0);
            let count = used.clone().count();
            if count == 0 && set.floor == floor {
                continue;
            }
            bytes.extend((number as u16).to_le_bytes());
            bytes.extend(set.floor.to_le_bytes());
            bytes.push(count as u8);
            for removal in used {
                bytes.extend(removal.hash.to_le_bytes());
                bytes.extend(removal.version.to_le_bytes());
            }
        }
        bytes
    }

    /// The content that [`Removed::to_bytes`] returned as these bytes; `None` if they are none.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<Removed> {
        if bytes.is_empty() {
            return Some(Removed::default());
        }
        let floor = take(&mut bytes).map(u64::from_le_bytes)?;
        let mut sets = vec![Set { floor, ..Set::default() }; SETS];
        while !bytes.is_empty() {
            let number = take(&mut bytes).map(u16::from_le_bytes)?;
            let set = sets.get_mut(usize::from(number))?;
            set.floor = take(&mut bytes).map(u64::from_le_bytes)?;
            let [count] = take(&mut bytes)?;
            for removal in set.removals.get_mut(..usize::from(count))? {
                removal.hash = take(&mut bytes).map(u64::from_le_bytes)?;
                removal.version = take(&mut bytes).map(u64::from_le_bytes)?;
            }
        }
        Some(Removed(sets.into()))
    }
}

/// Takes the first bytes.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*first)
}

impl PartialEq for Removed {
    fn eq(&self, other: &Removed) -> bool {
        self.to_bytes() == other.to_bytes()
    }
}

impl Eq for Removed {}

impl fmt::Debug for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let used = self.0.iter().flat_map(|set| &set.removals).filter(|it| it.version > 0);
        f.debug_struct("Removed").field("removals", &used.count()).finish_non_exhaustive()
    }
}

fn set_of(hash: u64) -> usize {
    (hash >> SET_BITS_FROM) as usize % SETS
}

impl Set {
    fn note(&mut self, removal: Removal) {
        let lowest = self.removals.iter_mut().min_by_key(|it| it.version);
        if let Some(lowest) = lowest {
            let forgotten = if removal.version > lowest.version {
                mem::replace(lowest, removal)
            } else {
                removal
            };
            self.floor = self.floor.max(forgotten.version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash of set `set`.
    fn hash(set: u64, number: u64) -> u64 {
        set << SET_BITS_FROM | number
    }

    #[test]
    fn removals_are_remembered_by_hash_and_version() {
        let removals = Removals::default();
        assert!(!removals.since(hash(1, 1), 0));
        removals.note(hash(1, 1), 5);
        assert_eq!([4, 5].map(|version| removals.since(hash(1, 1), version)), [true, false]);
        assert!(!removals.since(hash(1, 2), 0));
        removals.note(hash(1, 1), 9);
        assert!(removals.since(hash(1, 1), 8));
    }

    #[test]
    fn a_full_set_forgets_the_lowest_versions_and_refuses_to_say_what_it_forgot() {
        let removals = Removals::default();
        let places = REMOVALS_MAX as u64;
        // An old entry, removed last, costs no place.
        (0..places).for_each(|number| removals.note(hash(1, number), 100 + number));
        removals.note(hash(1, 1_000), 50);
        assert_eq!([49, 50].map(|version| removals.since(hash(1, 7), version)), [true, true]);
        assert_eq!([49, 50].map(|version| removals.since(hash(1, 999), version)), [true, false]);
        assert!(!removals.since(hash(1, 7), 107));
        removals.note(hash(1, 1_001), 200);
        assert_eq!([99, 100].map(|version| removals.since(hash(1, 999), version)), [true, false]);
        assert!(removals.since(hash(1, 1), 100));
        assert!(!removals.since(hash(2, 1), 0), "another set");
    }

    #[test]
    fn bytes_restore_the_content() {
        let removals = Removals::default();
        let restored = || {
            let bytes = removals.copy().to_bytes();
            assert!(bytes.len() <= Removed::BYTES_MAX);
            let restored = Removed::from_bytes(&bytes).expect("bytes of a copy");
            assert_eq!(restored, removals.copy());
            for end in 1..bytes.len() {
                let part = Removed::from_bytes(&bytes[..end]);
                assert!(part.is_none_or(|part| part != restored), "{end}");
            }
            bytes.len()
        };
        assert_eq!(restored(), 0);
        removals.note_all(3);
        assert_eq!(restored(), 8);
        for number in 0..40 {
            removals.note(hash(number % 3, number), 100 - number);
        }
        assert!(restored() > 30 * 16);
        let copy = removals.copy();
        let other = Removals::default();
        other.replace(&Removed::from_bytes(&copy.to_bytes()).expect("bytes of a copy"));
        other.note(hash(0, 5), 105);
        assert_ne!(other.copy(), copy);
        removals.note(hash(0, 5), 105);
        assert_eq!(other.copy(), removals.copy());
        // A set or a number of removals that does not exist.
        for bad in [&[0; 8 + 11][..], &[255; 8 + 11]] {
            let is_good = Removed::from_bytes(bad).is_some();
            assert_eq!(is_good, bad[0] == 0);
        }
    }

    #[test]
    fn a_clear_counts_for_all_keys() {
        let removals = Removals::default();
        removals.note_all(7);
        for set in 0..SETS as u64 {
            assert_eq!([6, 7].map(|version| removals.since(hash(set, 1), version)), [true, false]);
        }
    }
}
