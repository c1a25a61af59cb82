//! The numbered databases of a server.
//!
//! `SWAPDB` changes which table a number means, never a table. The sixteen table indexes, four bits each, are one
//! atomic word, so that a swap is one step for everybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use todana_table::{Options, Table};

/// Number of databases.
pub const DATABASES: usize = 16;

/// Sixteen tables and the order in which they are numbered.
#[derive(Debug)]
pub struct Databases {
    tables: [Arc<Table>; DATABASES],
    order: AtomicU64,
}

impl Databases {
    /// Databases over these tables, numbered as they come.
    pub fn new(tables: [Arc<Table>; DATABASES]) -> Databases {
        Databases { tables, order: AtomicU64::new(0xfedc_ba98_7654_3210) }
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
        nibble(self.order.load(SeqCst), number)
    }

    /// All tables, by index.
    pub fn tables(&self) -> &[Arc<Table>; DATABASES] {
        &self.tables
    }

    /// Exchanges two databases; false where one of them does not exist.
    pub fn swap(&self, first: usize, second: usize) -> bool {
        if first >= DATABASES || second >= DATABASES {
            return false;
        }
        let swapped = |order| Some(swap_nibbles(order, first, second));
        self.order.fetch_update(SeqCst, SeqCst, swapped).is_ok()
    }

    /// All table indexes, four bits a database, the lowest are those of database 0.
    pub(crate) fn order(&self) -> u64 {
        self.order.load(SeqCst)
    }
}

/// The index of the table that database `number` is in this order.
#[inline]
pub(crate) fn nibble(order: u64, number: usize) -> usize {
    assert!(number < DATABASES, "there are {DATABASES} databases");
    (order >> (number * 4)) as usize & 0xf
}

/// The order with two databases exchanged.
pub(crate) fn swap_nibbles(order: u64, first: usize, second: usize) -> u64 {
    let difference = (nibble(order, first) ^ nibble(order, second)) as u64;
    order ^ (difference << (first * 4)) ^ (difference << (second * 4))
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
}
