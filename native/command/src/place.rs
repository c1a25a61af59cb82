//! A table or a numbered database, as callers of this crate name what a command runs on.

use crate::Databases;
use todana_table::Table;

/// What a command runs on.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// A table that is not a database.
    Table(&'a Table),
    /// A database, by its number.
    Database(&'a Databases, usize),
}

impl<'a> Place<'a> {
    /// The table that is there now. For a database this may change (`SWAPDB`).
    #[inline]
    pub fn table(self) -> &'a Table {
        match self {
            Place::Table(table) => table,
            Place::Database(databases, number) => databases.table(number),
        }
    }
}
