//! How much one batch may do, since it does it with all its locks held.
//!
//! What a command costs is told in units before any lock is taken. A unit is what it takes to find
//! a record in a table larger than the caches, a quarter of a microsecond on a machine of 2026
//! where keys are fetched ahead:
//!
//! | of a batch | units |
//! |---|---|
//! | a key that a command names, or that is watched | 1 |
//! | a key that DEL or GETDEL removes, a second key (RENAME, COPY, MOVE) | 2 |
//! | a pair of MSET | 4 |
//! | a KiB of arguments | 3 |
//! | a KiB that APPEND, SETRANGE, SETBIT find in a value that they may have to copy | 3 |
//! | a KiB that GETRANGE answers | 3 |
//! | a KiB that BITCOUNT and BITPOS look at | 2 |
//! | what a session answers itself, as INFO | by its own table |
//! | LCS, whose values have a bound of their own in a batch | 256 |
//! | a command about a whole database, for the locks of all shards | 256 |
//! | a record that KEYS, SCAN, RANGE or RANDOMKEY may look at | 3 |
//! | a database that is cleared, unless it is empty | 1,024 |
//!
//! The lengths of values are known under the locks only, so what depends on them is added there,
//! before the first command ([`crate::foresight`]). Large values are replied by handles, and
//! copied when the locks are gone ([`crate::Reply::kept`]).

use crate::databases::{DATABASES, Order};
use crate::keys::SCAN_RECORDS_MAX;
use crate::{Batch, Command, Databases};
use todana_table::{Keyspace, Table};

/// Most units of one batch: some 16 milliseconds.
pub const BATCH_UNITS_MAX: u64 = 65_536;

/// Keys that a step of RANGE may pass over in a batch, where it cannot go on later.
pub(crate) const BATCH_RANGE_SPARE_KEYS: u64 = 1_024;

const KIB_COPIED_UNITS: u64 = 3;
const KIB_READ_UNITS: u64 = 2;
const RECORD_UNITS: u64 = 3;
const TABLE_UNITS: u64 = 256;
const CLEAR_UNITS: u64 = 1_024;
const LCS_UNITS: u64 = 256;

/// Units for bytes that are copied.
pub(crate) fn copied(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(KIB_COPIED_UNITS) / 1_024
}

/// Units for bytes that are looked at.
pub(crate) fn looked_at(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(KIB_READ_UNITS) / 1_024
}

/// Units of a batch, but for what depends on the lengths of values.
pub(crate) fn units_of(batch: &Batch<'_>, databases: &Databases, mut order: Order) -> u64 {
    let mut units = batch.other_units.saturating_add(batch.watches.len() as u64);
    for (database, command) in batch.commands {
        if let Command::Swap { first, second } = *command {
            order = order.swapped(first, second).unwrap_or(order);
        }
        let table = order.index(*database).map(|index| &*databases.tables()[index]);
        units = units.saturating_add(match command {
            Command::ClearAll { .. } => databases.tables().iter().map(|table| clear(table)).sum(),
            _ => table.map_or(1, |table| units_of_command(command, table)),
        });
    }
    units
}

fn clear(table: &Table) -> u64 {
    1 + if table.is_empty() { 0 } else { CLEAR_UNITS / DATABASES as u64 }
}

fn units_of_command(command: &Command<'_>, table: &Table) -> u64 {
    let records =
        |records: u64| TABLE_UNITS + records.min(table.len()).saturating_mul(RECORD_UNITS);
    match *command {
        Command::Set(ref set) => 1 + copied(set.value.len()),
        Command::SetMany { pairs, .. } => {
            pairs.iter().map(|(_, value)| 4 + copied(value.len())).sum()
        }
        Command::Concat { bytes, .. } | Command::SetRange { bytes, .. } => 1 + copied(bytes.len()),
        Command::CompareValue { old, new, .. } => {
            1 + copied(old.map_or(0, <[u8]>::len) + new.map_or(0, <[u8]>::len))
        }
        Command::Rename { .. } | Command::Copy { .. } | Command::Move { .. } => 3,
        Command::GetMany { keys } | Command::Exists { keys } | Command::NoteAccess { keys } => {
            keys.len() as u64
        }
        Command::Delete { keys } => 2 * keys.len() as u64,
        Command::Take { .. } => 2,
        Command::LongestCommon { .. } => LCS_UNITS,
        Command::Count => TABLE_UNITS,
        Command::Scan { count, .. } => {
            // Whole shards, of which some are twice as full as others.
            let shard = 2 * table.len() / table.shards() as u64;
            records((count.min(SCAN_RECORDS_MAX) as u64).saturating_add(shard))
        }
        Command::Range { count, .. } => {
            records((count as u64).saturating_mul(2).saturating_add(BATCH_RANGE_SPARE_KEYS))
        }
        Command::Keys { .. } => records(u64::MAX),
        // It draws until it has found a shard that is not empty.
        Command::RandomKey { .. } => TABLE_UNITS,
        Command::Clear { .. } => 1 + if table.is_empty() { 0 } else { CLEAR_UNITS },
        _ => 1,
    }
}
