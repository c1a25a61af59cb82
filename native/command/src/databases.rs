//! The numbered databases of a server.
//!
//! `SWAPDB` changes which table a number means, never a table. The sixteen table indexes, four bits each, are one
//! atomic word, so that a swap is one step for everybody.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use todana_table::Table;

/// Number of databases.
pub const DATABASES: usize = 16;

/// Sixteen tables and the order in which they are numbered.
#[derive(Debug)]
pub struct Databases {
    tables: [Arc<Table>; DATABASES],
    /// Four bits a database, the lowest are those of database 0: the index of its table.
    order: AtomicU64,
}

impl Databases {
    /// Databases over these tables, numbered as they come.
    pub fn new(tables: [Arc<Table>; DATABASES]) -> Databases {
        Databases { tables, order: AtomicU64::new(0xfedc_ba98_7654_3210) }
    }
    /// The table that database `number` is now. Panics from [`DATABASES`] on.
    pub fn table(&self, number: usize) -> &Arc<Table> {
        &self.tables[self.index(number)]
    }
    /// The index of that table: numbers move with `SWAPDB`, indexes do not.
    pub fn index(&self, number: usize) -> usize {
        assert!(number < DATABASES);
        (self.order.load(SeqCst) >> (number * 4)) as usize & 0xf
    }
}
