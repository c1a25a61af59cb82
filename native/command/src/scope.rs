//! The records that a command concerns. All code that locks, plans or prefetches reads them here.

#[cfg(test)]
mod tests;

use crate::key::records::Transfer;

/// The records that a command concerns, which decides what is locked for it.
#[derive(Clone, Copy)]
pub(crate) enum Scope<'a> {
    /// One key of its database. The table locks the key's shard itself.
    Key(&'a [u8]),
    /// Several keys of its database, which are one step: all their shards are locked.
    Keys(Keys<'a>),
    /// The keys of a script, which are one step in any case.
    Script(&'a [&'a [u8]]),
    /// Any record of its database. A transaction locks all of it. Outside a transaction each record
    /// is a step.
    Database,
    /// Records that have expired. Nothing is locked, because no client can see them.
    Expired {
        /// Most records to remove.
        work_max: usize,
    },
    /// More than one database, or all records of one: always a transaction.
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
    pub(crate) fn of(keys: &'a [&'a [u8]]) -> Scope<'a> {
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
}

/// The time that means that no clear is to be scheduled.
pub(crate) const NO_CLEAR: u64 = u64::MAX;

/// Whether a clear happens at once.
pub(crate) fn is_due(at_ms: Option<u64>, now_ms: u64) -> bool {
    at_ms.is_none_or(|at_ms| at_ms <= now_ms)
}
