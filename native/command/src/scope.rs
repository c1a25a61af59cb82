//! The records that a command concerns. All code that locks, plans or prefetches reads them here.

#[cfg(test)]
mod tests;

use crate::Command;
use crate::databases::{DatabaseMap, Databases};
use crate::keys::Transfer;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

/// The records that a command concerns, which decides what is locked for it.
#[derive(Clone, Copy)]
pub(crate) enum Scope<'a> {
    /// One key of its database. The table locks the key's shard itself.
    Key(&'a [u8]),
    /// Several keys of its database, which are one step: all their shards are locked.
    Keys(Keys<'a>),
    /// The keys of a script, which are one step in any case.
    Script(&'a [&'a [u8]]),
    /// Any record of its database. A batch locks all of it. Outside a batch each record is a step.
    Database,
    /// Records that have expired. Nothing is locked, because no client can see them.
    Expired {
        /// Most records to remove.
        work_max: usize,
    },
    /// More than one database, or all records of one: always a batch.
    Databases(Across<'a>),
}

/// A command that concerns more than one database, or all records of one.
#[derive(Clone, Copy)]
pub(crate) enum Across<'a> {
    /// Copies or moves a record to this database.
    Transfer(Transfer<'a>, usize),
    /// Clears its database.
    Clear {
        /// The time of the clear; `None` is now.
        at_ms: Option<u64>,
    },
    /// Clears all databases.
    ClearAll {
        /// The time of the clear; `None` is now.
        at_ms: Option<u64>,
    },
    /// Exchanges two databases.
    Swap {
        /// Number of one database.
        first: usize,
        /// Number of the other.
        second: usize,
    },
}

/// The keys of a command that concerns several.
#[derive(Clone, Copy)]
pub(crate) enum Keys<'a> {
    Two([&'a [u8]; 2]),
    List(&'a [&'a [u8]]),
    OfPairs(&'a [(&'a [u8], &'a [u8])]),
}

impl<'a> Keys<'a> {
    pub(crate) fn iter(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let (two, list, pairs) = match self {
            Keys::Two(keys) => (Some(keys), &[][..], &[][..]),
            Keys::List(keys) => (None, keys, &[][..]),
            Keys::OfPairs(pairs) => (None, &[][..], pairs),
        };
        let two = two.into_iter().flatten();
        two.chain(list.iter().copied()).chain(pairs.iter().map(|(key, _)| *key))
    }
}

impl<'a> Scope<'a> {
    /// A single key of a list needs no lock besides the table's own.
    fn of(keys: &'a [&'a [u8]]) -> Scope<'a> {
        match keys {
            [key] => Scope::Key(key),
            _ => Scope::Keys(Keys::List(keys)),
        }
    }

    /// Calls `visit` with each key that the command names in its own database.
    pub(crate) fn each_key(self, mut visit: impl FnMut(&'a [u8])) {
        match self {
            Scope::Key(key) => visit(key),
            Scope::Keys(keys) => keys.iter().for_each(visit),
            Scope::Script(keys) => keys.iter().copied().for_each(visit),
            Scope::Databases(Across::Transfer(transfer, _)) => visit(transfer.from),
            Scope::Databases(
                Across::Clear { .. } | Across::ClearAll { .. } | Across::Swap { .. },
            )
            | Scope::Database
            | Scope::Expired { .. } => {}
        }
    }

    /// Whether the command reads a whole database now, or clears one.
    pub(crate) fn is_whole_database(self, now_ms: u64) -> bool {
        match self {
            Scope::Database => true,
            Scope::Databases(Across::Clear { at_ms } | Across::ClearAll { at_ms }) => {
                is_due(at_ms, now_ms)
            }
            Scope::Databases(Across::Transfer(..) | Across::Swap { .. })
            | Scope::Key(_)
            | Scope::Keys(_)
            | Scope::Script(_)
            | Scope::Expired { .. } => false,
        }
    }

    /// The map of the databases after the command.
    pub(crate) fn map_after(self, map: DatabaseMap, databases: &Databases) -> DatabaseMap {
        match self {
            Scope::Databases(Across::Swap { first, second }) => {
                databases.swapped(map, first, second).unwrap_or(map)
            }
            _ => map,
        }
    }
}

/// The time that means that no clear is to be scheduled.
pub(crate) const NO_CLEAR: u64 = u64::MAX;

/// Whether a clear happens at once.
pub(crate) fn is_due(at_ms: Option<u64>, now_ms: u64) -> bool {
    at_ms.is_none_or(|at_ms| at_ms <= now_ms)
}

impl<'a> Command<'a> {
    /// A number that differs for most other commands: it follows from the variant and the first
    /// key, not from values and times.
    pub fn fingerprint(&self) -> u64 {
        let (mut hasher, mut first) = (DefaultHasher::new(), None);
        self.scope().each_key(|key| _ = first.get_or_insert(key));
        (discriminant(self), first).hash(&mut hasher);
        hasher.finish()
    }

    /// The records that the command concerns. A key that the command accesses but that is not named
    /// here is not locked.
    #[inline]
    pub(crate) fn scope(&self) -> Scope<'a> {
        match *self {
            Command::Get { key }
            | Command::Length { key }
            | Command::GetRange { key, .. }
            | Command::GetBit { key, .. }
            | Command::BitCount { key, .. }
            | Command::BitPosition { key, .. }
            | Command::BitFields { key, .. }
            | Command::AddToSketch { key, .. }
            | Command::Dump { key }
            | Command::Restore { key, .. }
            | Command::Expiry { key }
            | Command::MemoryUsage { key }
            | Command::Lease { key, .. }
            | Command::Concat { key, .. }
            | Command::SetRange { key, .. }
            | Command::SetBit { key, .. }
            | Command::IncrementFloat { key, .. }
            | Command::IncrementBinary { key, .. }
            | Command::IncrementFraction { key, .. }
            | Command::CompareValue { key, .. }
            | Command::ReplaceIf { key, .. }
            | Command::DeleteIf { key, .. }
            | Command::Invalidate { key, .. }
            | Command::Take { key }
            | Command::GetAndExpire { key, .. }
            | Command::Expire { key, .. } => Scope::Key(key),
            Command::Set(ref set) => Scope::Key(set.key),
            Command::Increment(ref increment) => Scope::Key(increment.key),

            Command::GetMany { keys }
            | Command::Exists { keys }
            | Command::Delete { keys }
            | Command::CountSketches { keys }
            | Command::NoteAccess { keys } => Scope::of(keys),
            // Reading and writing are two accesses, even of one key.
            Command::BitOperation { keys, .. } | Command::MergeSketches { keys } => {
                Scope::Keys(Keys::List(keys))
            }
            Command::StoreNothing { keys } => Scope::Keys(Keys::Two(keys)),
            // A condition on one key is a step before the write of the other, even with one pair.
            Command::SetMany { pairs, .. } => Scope::Keys(Keys::OfPairs(pairs)),
            Command::Script(ref script) => Scope::Script(script.keys()),
            Command::Lcs { keys, .. } => Scope::Keys(Keys::Two(keys)),
            Command::Rename { from, to, .. } | Command::Copy { from, to, database: None, .. } => {
                Scope::Keys(Keys::Two([from, to]))
            }

            Command::Count
            | Command::Scan { .. }
            | Command::Range { .. }
            | Command::Keys { .. }
            | Command::KeysOfSlot { .. }
            | Command::RandomKey { .. } => Scope::Database,
            Command::Sweep { work_max } => Scope::Expired { work_max },

            Command::Copy { from, to, database: Some(database), replace } => {
                let transfer = Transfer { from, to, keep: true, replace };
                Scope::Databases(Across::Transfer(transfer, database))
            }
            Command::Move { key, database } => {
                let transfer = Transfer { from: key, to: key, keep: false, replace: false };
                Scope::Databases(Across::Transfer(transfer, database))
            }
            Command::Clear { at_ms } => Scope::Databases(Across::Clear { at_ms }),
            Command::ClearAll { at_ms } => Scope::Databases(Across::ClearAll { at_ms }),
            Command::Swap { first, second } => Scope::Databases(Across::Swap { first, second }),
        }
    }
}
