//! Which table each number means, and the tables that are locked.

use todana_table::Locked;

/// Number of databases.
pub const DATABASES: usize = 16;

/// The table that each database number means, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseMap(u64);

impl DatabaseMap {
    pub(crate) fn of_word(word: u64) -> DatabaseMap {
        DatabaseMap(word)
    }

    /// The indexes, four bits each; the lowest are those of database 0.
    pub(crate) fn word(self) -> u64 {
        self.0
    }

    /// The index of a database's table, if there is such a database.
    #[inline]
    pub(crate) fn index(self, number: usize) -> Option<usize> {
        (number < DATABASES).then(|| (self.0 >> (number * 4)) as usize & 0xf)
    }

    /// The map with two databases exchanged, each given with its index.
    pub(crate) fn swapped(self, first: (usize, usize), second: (usize, usize)) -> DatabaseMap {
        let difference = (first.1 ^ second.1) as u64;
        DatabaseMap(self.0 ^ (difference << (first.0 * 4)) ^ (difference << (second.0 * 4)))
    }
}

/// The tables that a transaction has locked, by index.
pub(crate) type LockedTables<'a> = [Option<Locked<'a>>; DATABASES];
