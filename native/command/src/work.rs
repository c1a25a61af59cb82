//! The limit of the work of one transaction, which holds all its locks while it executes.
//!
//! The cost of a command is computed in units, before any lock is taken. A unit is the time to find
//! a record in a table larger than the caches, with prefetched keys: a quarter of a microsecond on
//! a machine of 2026.
//!
//! | of a transaction | units |
//! |---|---|
//! | a key that a command names | 1 |
//! | a key that is removed (DEL) or watched, the second key of a command on two (RENAME) | 2 |
//! | a key that an Erlang transaction has read | 2 |
//! | a pair of MSET, a write of an Erlang transaction | 5 |
//! | a KiB of arguments | 3 |
//! | a word of a command that a session queues | 1, by the session |
//! | a KiB that APPEND, SETRANGE, SETBIT find in a value that they may have to copy | 3 |
//! | a KiB of zeroes that SETRANGE and SETBIT write before their bytes | 1 |
//! | a KiB of a value below 16 KiB that APPEND, SETRANGE, SETBIT create | 1 |
//! | a KiB that GETRANGE returns | 3 |
//! | a KiB that BITCOUNT and BITPOS read | 2 |
//! | a command that the session executes itself, such as INFO | see its table |
//! | a script, whose steps have a separate limit; a word of it | 400; 1 |
//! | a KiB that BITOP reads, and writes | 2, and 3 |
//! | a KiB that DUMP reads and RESTORE stores, for the checksum too | 8 |
//! | a word of BITFIELD | 1 |
//! | a HyperLogLog; an element that PFADD adds | 64; 2 |
//! | LCS, whose values have a separate limit in a transaction | 256 |
//! | a command about a whole database, for the locks of all shards | 256 |
//! | a record that KEYS, SCAN, RANGE or RANDOMKEY may visit | 3 |
//! | a cleared database, unless it is empty and the transaction does nothing else in it | 1,024 |
//!
//! The lengths of values are known only under the locks, so costs that depend on them are added
//! there, before the first command ([`crate::foresight`]). Replies refer to values of 256 bytes and
//! more by handles, and copy them after the locks are released ([`crate::Reply::held`]).

use crate::cost::{PAIR_UNITS, Reads, TableSize, copied, dumped, looked_at, returned, written};
use crate::database_map::{DATABASES, DatabaseMap};
use crate::plan::{Transaction, map_after};
use crate::scope::{Across, Scope};
use crate::script::{ScriptCommand, units_of_script};
use crate::{Command, Databases, Script};
use todana_table::{Keyspace, Table};

/// Maximum number of units of one transaction: some 16 milliseconds.
pub const TRANSACTION_UNITS_MAX: u64 = 65_536;

/// A step of at least this many units takes long: a quarter of a millisecond and more.
pub const LONG_UNITS: u64 = 1_024;

const WATCH_UNITS: u64 = 2;
const SHARDS_CLEARED_PER_UNIT: usize = 4;

/// The units of a transaction, without those that depend on the lengths of values.
pub(crate) fn units_of(
    transaction: &Transaction<'_>,
    databases: &Databases,
    mut map: DatabaseMap,
) -> u64 {
    let used = used(transaction, databases, map);
    let clear = |index: usize| {
        let table = &databases.tables()[index];
        let is_empty = !used[index] && table.is_empty();
        1 + if is_empty { 0 } else { (table.shards() / SHARDS_CLEARED_PER_UNIT) as u64 }
    };
    let mut units =
        transaction.other_units.saturating_add(transaction.watches.len() as u64 * WATCH_UNITS);
    for (database, command) in transaction.commands {
        let scope = command.scope();
        map = map_after(scope, map, databases);
        let index = map.index(*database);
        units = units.saturating_add(match scope {
            Scope::Databases(Across::ClearAll { .. }) => (0..DATABASES).map(clear).sum(),
            Scope::Databases(Across::Clear { .. }) => index.map_or(1, clear),
            _ => index.map_or(1, |index| units_of_command(command, &databases.tables()[index])),
        });
    }
    units
}

/// Units of an optimistic commit. Its values are copied before anything is locked.
pub fn units_of_optimistic_commit(checks: usize, writes: usize) -> u64 {
    (checks as u64 * WATCH_UNITS).saturating_add(writes as u64 * PAIR_UNITS)
}

/// The tables in which a transaction watches a key or does anything except a clear. Such a table
/// may be empty before the transaction and have records when the transaction clears it.
fn used(
    transaction: &Transaction<'_>,
    databases: &Databases,
    mut map: DatabaseMap,
) -> [bool; DATABASES] {
    let mut used = [false; DATABASES];
    let mut note = |index: Option<usize>| {
        if let Some(index) = index {
            used[index] = true;
        }
    };
    transaction.watches.iter().for_each(|watch| note(map.index(watch.database)));
    for (database, command) in transaction.commands {
        let scope = command.scope();
        map = map_after(scope, map, databases);
        match scope {
            Scope::Key(_) | Scope::Keys(_) | Scope::Script(_) | Scope::Database => {
                note(map.index(*database));
            }
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

/// How the units for values are counted.
struct Counting {
    /// Whether values that are returned are copied; otherwise the reply has handles to them.
    copies: bool,
    /// The longest value that may be built.
    value_bytes_max: usize,
    /// No more values are looked at when there are this many units.
    enough: u64,
}

/// The units for the values that the keys of a command have, by their lengths.
fn units_of_values(
    command: &Command<'_>,
    length: impl Fn(&[u8]) -> usize,
    counting: &Counting,
) -> u64 {
    let reads = command.reads();
    if reads == Reads::Nothing || (reads == Reads::Returned && !counting.copies) {
        return 0;
    }
    let mut units = 0_u64;
    let (mut longest, mut is_destination) = (0, reads == Reads::Combined);
    command.scope().each_key(|key| {
        if std::mem::take(&mut is_destination) || units >= counting.enough {
            return;
        }
        let length = length(key);
        longest = longest.max(length);
        units = units.saturating_add(match reads {
            Reads::Nothing => 0,
            Reads::Returned => copied(length),
            Reads::Part { start, end } => returned(length, start, end),
            Reads::Changed { zeroes_until } => {
                let zeroes_until = usize::try_from(zeroes_until).unwrap_or(usize::MAX);
                let zeroes = zeroes_until.saturating_sub(length).min(counting.value_bytes_max);
                copied(length).saturating_add(written(zeroes))
            }
            Reads::Fields { bytes } => copied(bytes),
            Reads::Bits | Reads::Combined => looked_at(length),
            Reads::Dumped => dumped(length),
        });
    });
    let stored = if reads == Reads::Combined { copied(longest) } else { 0 };
    units.saturating_add(stored)
}

/// The units of one command on this table, with those for the values that it reads, copies or fills
/// with zeroes. For an estimate, which need not go beyond `enough` units: the values may change
/// before the command is executed.
pub fn estimated_units(command: &Command<'_>, table: &Table, enough: u64) -> u64 {
    let mut units = units_of_command(command, table);
    if let Scope::Databases(Across::Clear { .. } | Across::ClearAll { .. }) = command.scope() {
        // A unit for four shards, whether they are empty or not.
        units += (table.shards() / SHARDS_CLEARED_PER_UNIT) as u64;
    }
    if units >= enough {
        return units;
    }
    let length = |key: &[u8]| {
        table.read(key, 0, |entry| entry.map_or(0, |entry| entry.stored().bytes().len()))
    };
    let counting = Counting { copies: false, value_bytes_max: usize::MAX, enough };
    units.saturating_add(units_of_values(command, length, &counting))
}

/// The units that a transaction probably takes, if its databases are as they are now: an estimate
/// that need not go beyond `enough` units. The steps of scripts count as in their last runs.
pub fn probable_units(transaction: &Transaction<'_>, databases: &Databases, enough: u64) -> u64 {
    let mut units =
        transaction.other_units.saturating_add(transaction.watches.len() as u64 * WATCH_UNITS);
    for (database, command) in transaction.commands {
        if units >= enough {
            break;
        }
        units = units.saturating_add(match command {
            Command::Script(ScriptCommand::Run(script)) => probable_script_units(script, databases),
            _ if *database >= DATABASES => 1,
            _ => estimated_units(command, databases.table(*database), enough),
        });
    }
    units
}

/// The units that a script probably takes: those of its words, and of its steps as this node knows
/// them.
pub fn probable_script_units(script: &Script<'_>, databases: &Databases) -> u64 {
    let steps = databases.interpreter().map_or(0, |it| it.probable_step_units(script));
    units_of_script(script).saturating_add(steps)
}

/// The units of a command, without those that depend on records.
pub fn own_units(command: &Command<'_>) -> u64 {
    command.units(TableSize::UNKNOWN)
}

/// The units of a command of a script, which gets copies of the values that are returned.
pub(crate) fn units_in_script(
    command: &Command<'_>,
    length: impl Fn(&[u8]) -> usize,
    value_bytes_max: usize,
) -> u64 {
    let counting = Counting { copies: true, value_bytes_max, enough: u64::MAX };
    command.units(TableSize::UNKNOWN).saturating_add(units_of_values(command, length, &counting))
}

fn units_of_command(command: &Command<'_>, table: &Table) -> u64 {
    command.units(TableSize::of(table))
}
