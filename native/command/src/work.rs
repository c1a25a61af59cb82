//! How much one batch may do, since it does it with all its locks held.
//!
//! What a command costs is told in units before any lock is taken. A unit is what it takes to find
//! a record in a table larger than the caches, a quarter of a microsecond on a machine of 2026
//! where keys are fetched ahead:
//!
//! | of a batch | units |
//! |---|---|
//! | a key that a command names | 1 |
//! | a key that DEL or GETDEL removes, a second key (RENAME, COPY, MOVE), a watched key | 2 |
//! | a key that an Erlang transaction has read | 2 |
//! | a pair of MSET, a write of an Erlang transaction | 5 |
//! | a KiB of arguments | 3 |
//! | a word of a command that a session queues | 1, by the session |
//! | a KiB that APPEND, SETRANGE, SETBIT find in a value that they may have to copy | 3 |
//! | a KiB of zeroes that SETRANGE and SETBIT write before their bytes | 1 |
//! | a KiB that one of these three makes of a value of less than 16 KiB, which it writes anew | 1 |
//! | a KiB that GETRANGE answers | 3 |
//! | a KiB that BITCOUNT and BITPOS look at | 2 |
//! | what a session answers itself, as INFO | by its own table |
//! | LCS, whose values have a bound of their own in a batch | 256 |
//! | a command about a whole database, for the locks of all shards | 256 |
//! | a record that KEYS, SCAN, RANGE or RANDOMKEY may look at | 3 |
//! | a database that is cleared, unless it is empty and the batch does nothing else in it | 1,024 |
//!
//! The lengths of values are known under the locks only, so what depends on them is added there,
//! before the first command ([`crate::foresight`]). Values from 256 bytes on are replied by
//! handles, and copied when the locks are gone ([`crate::Reply::kept`]).

use crate::databases::{DATABASES, DatabaseMap};
use crate::keys::SCAN_RECORDS_MAX;
use crate::scope::{Across, Scope};
use crate::{Batch, Command, Databases};
use todana_table::{Keyspace, Table};

/// Most units of one batch: some 16 milliseconds.
pub const BATCH_UNITS_MAX: u64 = 65_536;

/// Keys that a step of RANGE may pass over in a batch, where it cannot go on later.
pub(crate) const BATCH_RANGE_SPARE_KEYS: u64 = 1_024;

const WATCH_UNITS: u64 = 2;
const PAIR_UNITS: u64 = 5;
const KIB_COPIED_UNITS: u64 = 3;
const KIB_READ_UNITS: u64 = 2;
const KIB_WRITTEN_UNITS: u64 = 1;
const RECORD_UNITS: u64 = 3;
const TABLE_UNITS: u64 = 256;
const SHARDS_CLEARED_PER_UNIT: usize = 4;
const LCS_UNITS: u64 = 256;

/// Units for bytes that are copied.
pub(crate) fn copied(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(KIB_COPIED_UNITS) / 1_024
}

/// Units for zeroes that are written, and for short values that are written anew.
pub(crate) fn written(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(KIB_WRITTEN_UNITS) / 1_024
}

/// Units for bytes that are looked at.
pub(crate) fn looked_at(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(KIB_READ_UNITS) / 1_024
}

/// Units of a batch, but for what depends on the lengths of values.
pub(crate) fn units_of(batch: &Batch<'_>, databases: &Databases, mut map: DatabaseMap) -> u64 {
    let used = used(batch, map);
    let clear = |index: usize| {
        let table = &databases.tables()[index];
        let is_empty = !used[index] && table.is_empty();
        1 + if is_empty { 0 } else { (table.shards() / SHARDS_CLEARED_PER_UNIT) as u64 }
    };
    let mut units = batch.other_units.saturating_add(batch.watches.len() as u64 * WATCH_UNITS);
    for (database, command) in batch.commands {
        let scope = command.scope();
        map = scope.map_after(map);
        let index = map.index(*database);
        units = units.saturating_add(match scope {
            Scope::Databases(Across::ClearAll { .. }) => (0..DATABASES).map(clear).sum(),
            Scope::Databases(Across::Clear { .. }) => index.map_or(1, clear),
            _ => index.map_or(1, |index| units_of_command(command, &databases.tables()[index])),
        });
    }
    units
}

/// Units of an optimistic transaction. Its values are copied before anything is locked.
pub(crate) fn units_of_transaction(checks: usize, writes: usize) -> u64 {
    (checks as u64 * WATCH_UNITS).saturating_add(writes as u64 * PAIR_UNITS)
}

/// The tables in which a batch watches a key or does something other than a clear: one that is
/// empty before the batch may have records when its clear comes.
fn used(batch: &Batch<'_>, mut map: DatabaseMap) -> [bool; DATABASES] {
    let mut used = [false; DATABASES];
    let mut note = |index: Option<usize>| {
        if let Some(index) = index {
            used[index] = true;
        }
    };
    batch.watches.iter().for_each(|watch| note(map.index(watch.database)));
    for (database, command) in batch.commands {
        let scope = command.scope();
        map = scope.map_after(map);
        match scope {
            Scope::Key(_) | Scope::Keys(_) | Scope::Database => note(map.index(*database)),
            Scope::Databases(Across::Transfer(_, other)) => {
                note(map.index(*database));
                note(map.index(other));
            }
            Scope::Databases(
                Across::Clear { .. } | Across::ClearAll { .. } | Across::Swap { .. },
            )
            | Scope::Expired { .. } => {}
        }
    }
    used
}

fn units_of_command(command: &Command<'_>, table: &Table) -> u64 {
    let records =
        |records: u64| TABLE_UNITS + records.min(table.len()).saturating_mul(RECORD_UNITS);
    match *command {
        Command::Set(ref set) => 1 + copied(set.value.len()),
        Command::SetMany { pairs, .. } => {
            pairs.iter().map(|(_, value)| PAIR_UNITS + copied(value.len())).sum()
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
        Command::Lcs { .. } => LCS_UNITS,
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
        Command::Get { .. }
        | Command::Length { .. }
        | Command::GetRange { .. }
        | Command::GetBit { .. }
        | Command::BitCount { .. }
        | Command::BitPosition { .. }
        | Command::Expiry { .. }
        | Command::MemoryUsage { .. }
        | Command::Lease { .. }
        | Command::SetBit { .. }
        | Command::Increment(_)
        | Command::IncrementFloat { .. }
        | Command::IncrementBinary { .. }
        | Command::IncrementFraction { .. }
        | Command::DeleteIf { .. }
        | Command::Invalidate { .. }
        | Command::GetAndExpire { .. }
        | Command::Expire { .. }
        | Command::Sweep { .. }
        | Command::Swap { .. } => 1,
        // By `units_of`, which knows whether a table is empty.
        Command::Clear { .. } | Command::ClearAll { .. } => 1,
    }
}
