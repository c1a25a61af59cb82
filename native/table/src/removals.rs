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

use parking_lot::Mutex;

/// The number of sets, a power of two.
const SETS: usize = if cfg!(test) { 4 } else { 2_048 };
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

fn set_of(hash: u64) -> usize {
    (hash >> SET_BITS_FROM) as usize % SETS
}

impl Set {
    fn note(&mut self, removal: Removal) {
        let lowest = self.removals.iter_mut().min_by_key(|it| it.version);
        if let Some(lowest) = lowest {
            let forgotten = if removal.version > lowest.version {
                std::mem::replace(lowest, removal)
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
    fn a_clear_counts_for_all_keys() {
        let removals = Removals::default();
        removals.note_all(7);
        for set in 0..SETS as u64 {
            assert_eq!([6, 7].map(|version| removals.since(hash(set, 1), version)), [true, false]);
        }
    }
}
