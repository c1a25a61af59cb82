//! The numbered databases of a server.

use std::sync::Arc;
use todana_table::Table;

/// Number of databases.
pub const DATABASES: usize = 16;

/// Sixteen tables and the order in which they are numbered; `SWAPDB` changes the order, never the tables.
#[derive(Debug)]
pub struct Databases {}

impl Databases {
    /// Databases over these tables, numbered as they come.
    pub fn new(_tables: [Arc<Table>; DATABASES]) -> Databases {
        todo!()
    }
    /// The table that database `number` is now. Panics from [`DATABASES`] on.
    pub fn table(&self, _number: usize) -> &Arc<Table> {
        todo!()
    }
}
