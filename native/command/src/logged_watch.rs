//! Watches of the log, and of other nodes.

use crate::wire::{Input, Malformed, Put, Take, enums, structs};

/// A watch as the log has it (`logged.rs`): what the log itself determines, so that every replica
/// comes to the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedWatch<'a> {
    /// The number of the database; 0 for a table that is no database.
    pub database: usize,
    /// The index of its table when the watch began; 0 for a table that is no database.
    pub table: usize,
    /// The key.
    pub key: &'a [u8],
    /// What the key was.
    pub seen: LoggedSeen,
}

/// What a key was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedSeen {
    /// It had a record of this version.
    Version(u64),
    /// It had no record at this version of the table, and must not have had one since.
    AbsentSince(u64),
    /// It had no record. It may have had one since.
    Absent,
}

structs! {
    LoggedWatch<'a> { database, table, key, seen }
}

enums! {
    LoggedSeen {
        0 Version { 0: version }
        1 AbsentSince { 0: version }
        2 Absent {}
    }
}
