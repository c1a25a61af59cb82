//! The numbered databases of a server.
//!
//! `SWAPDB` changes which table a number means, never a table. The sixteen table indexes, four bits
//! each, are one atomic word, so that a swap is one step for everybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use todana_table::{Options, Table};

/// Number of databases.
pub const DATABASES: usize = 16;

/// Sixteen tables and the map from numbers to tables.
#[derive(Debug)]
pub struct Databases {
    tables: [Arc<Table>; DATABASES],
    /// Four bits a database, the lowest are those of database 0: the index of its table.
    map: AtomicU64,
}

impl Databases {
    /// Databases over these tables, numbered as they come.
    pub fn new(tables: [Arc<Table>; DATABASES]) -> Databases {
        Databases { tables, map: AtomicU64::new(0xfedc_ba98_7654_3210) }
    }

    /// Sixteen empty tables, all with these options.
    pub fn with_options(options: &Options) -> Databases {
        Databases::new(std::array::from_fn(|_| Arc::new(Table::new(options.clone()))))
    }

    /// The table that database `number` is now.
    ///
    /// # Panics
    /// From [`DATABASES`] on.
    #[inline]
    pub fn table(&self, number: usize) -> &Arc<Table> {
        &self.tables[self.index(number)]
    }

    /// The index of that table: numbers move with `SWAPDB`, indexes do not.
    ///
    /// # Panics
    /// From [`DATABASES`] on.
    #[inline]
    pub fn index(&self, number: usize) -> usize {
        let index = self.map().index(number);
        index.unwrap_or_else(|| panic!("there are {DATABASES} databases, numbered from 0"))
    }

    /// All tables, by index.
    pub fn tables(&self) -> &[Arc<Table>; DATABASES] {
        &self.tables
    }

    /// Exchanges two databases; false where one of them does not exist.
    pub fn swap(&self, first: usize, second: usize) -> bool {
        let swapped = |map| DatabaseMap(map).swapped(first, second).map(|map| map.0);
        self.map.fetch_update(SeqCst, SeqCst, swapped).is_ok()
    }

    /// The same databases, numbered as they are now, with other tables in place of those at some
    /// indexes.
    pub fn with_tables(&self, replace: impl Fn(usize) -> Option<Arc<Table>>) -> Databases {
        let table = |index: usize| replace(index).unwrap_or_else(|| self.tables[index].clone());
        let map = AtomicU64::new(self.map().0);
        Databases { tables: std::array::from_fn(table), map }
    }

    /// Which table each number means now.
    #[inline]
    pub(crate) fn map(&self) -> DatabaseMap {
        DatabaseMap(self.map.load(SeqCst))
    }

    /// Changes the map if it is `old` still; false where it is not.
    pub(crate) fn remap(&self, old: DatabaseMap, new: DatabaseMap) -> bool {
        if old == new {
            return self.map() == old;
        }
        self.map.compare_exchange(old.0, new.0, SeqCst, SeqCst).is_ok()
    }
}

/// Which table each database number means, at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatabaseMap(u64);

impl DatabaseMap {
    /// The index of a database's table, if there is such a database.
    #[inline]
    pub(crate) fn index(self, number: usize) -> Option<usize> {
        (number < DATABASES).then(|| (self.0 >> (number * 4)) as usize & 0xf)
    }

    /// The map with two databases exchanged, if there are both.
    pub(crate) fn swapped(self, first: usize, second: usize) -> Option<DatabaseMap> {
        let difference = (self.index(first)? ^ self.index(second)?) as u64;
        Some(DatabaseMap(self.0 ^ (difference << (first * 4)) ^ (difference << (second * 4))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapping_moves_two_numbers_and_no_other() {
        let databases = Databases::with_options(&Options::default());
        assert!(databases.swap(0, 15));
        assert!(databases.swap(0, 3));
        assert!(databases.swap(7, 7));
        let indexes: Vec<usize> = (0..DATABASES).map(|number| databases.index(number)).collect();
        assert_eq!(indexes, [3, 1, 2, 15, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0]);
        assert!(!databases.swap(0, 16));
    }

    #[test]
    fn other_tables_have_the_numbers_of_those_in_whose_place_they_are() {
        let databases = Databases::with_options(&Options::default());
        databases.swap(0, 3);
        let other = Arc::new(Table::new(Options::default()));
        let changed = databases.with_tables(|index| (index == 3).then(|| other.clone()));
        assert!(Arc::ptr_eq(changed.table(0), &other));
        let others = (1..DATABASES).all(|n| Arc::ptr_eq(changed.table(n), databases.table(n)));
        assert!(others);
    }
}
