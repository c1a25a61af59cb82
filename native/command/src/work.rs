//! The limit of the work of one batch, which holds all its locks while it executes.
//!
//! The cost of a command is computed in units, before any lock is taken. A unit is the time to find
//! a record in a table larger than the caches, with prefetched keys: a quarter of a microsecond on
//! a machine of 2026.
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
//! | a KiB of a value below 16 KiB that APPEND, SETRANGE, SETBIT create | 1 |
//! | a KiB that GETRANGE returns | 3 |
//! | a KiB that BITCOUNT and BITPOS read | 2 |
//! | a command that the session executes itself, such as INFO | see its table |
//! | a script, whose steps have a separate limit; a word of it | 400; 1 |
//! | a KiB that BITOP reads, and writes | 2, and 3 |
//! | a KiB that DUMP reads and RESTORE stores, for the checksum too | 8 |
//! | a word of BITFIELD | 1 |
//! | a HyperLogLog; an element that PFADD adds | 64; 2 |
//! | LCS, whose values have a separate limit in a batch | 256 |
//! | a command about a whole database, for the locks of all shards | 256 |
//! | a record that KEYS, SCAN, RANGE or RANDOMKEY may visit | 3 |
//! | a database that is cleared, unless it is empty and the batch does nothing else in it | 1,024 |
//!
//! The lengths of values are known only under the locks, so costs that depend on them are added
//! there, before the first command ([`crate::foresight`]). Replies refer to values of 256 bytes and
//! more by handles, and copy them after the locks are released ([`crate::Reply::kept`]).

use crate::databases::{DATABASES, DatabaseMap};
use crate::keys::SCAN_RECORDS_MAX;
use crate::plan::Batch;
use crate::scope::{Across, Scope};
use crate::{Command, Databases, Fields, Script, Set, dump};
use todana_table::{Keyspace, Table};

/// Maximum number of units of one batch: some 16 milliseconds.
pub const BATCH_UNITS_MAX: u64 = 65_536;

/// A step of at least this many units takes long: a quarter of a millisecond and more.
pub const LONG_UNITS: u64 = 1_024;

/// The units of a script that does nothing: its interpreter has to be made.
const SCRIPT_UNITS: u64 = 400;

/// Keys that RANGE may skip in a batch, in which it cannot continue later.
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
const SKETCH_UNITS: u64 = 64;
const ELEMENT_UNITS: u64 = 2;
const KIB_DUMPED_UNITS: u64 = 8;

/// The units for copying bytes.
pub(crate) fn copied(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(KIB_COPIED_UNITS) / 1_024
}

/// The units for writing zeroes, and for writing short values completely.
pub(crate) fn written(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(KIB_WRITTEN_UNITS) / 1_024
}

/// The units for reading bytes.
pub(crate) fn looked_at(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(KIB_READ_UNITS) / 1_024
}

/// The units for returning a part of a value of this length at most.
pub(crate) fn returned(length: usize, start: i64, end: i64) -> u64 {
    // With an offset from the end, it may be the whole value.
    let asked = match start >= 0 && end >= 0 {
        true => end.saturating_sub(start).saturating_add(1).max(0),
        false => i64::MAX,
    };
    copied(length.min(usize::try_from(asked).unwrap_or(usize::MAX)))
}

/// The units for making and for reading a payload of DUMP.
pub(crate) fn dumped(bytes: usize) -> u64 {
    (bytes as u64).saturating_mul(KIB_DUMPED_UNITS) / 1_024
}

/// The units of a batch, without those that depend on the lengths of values.
pub(crate) fn units_of(batch: &Batch<'_>, databases: &Databases, mut map: DatabaseMap) -> u64 {
    let used = used(batch, databases, map);
    let clear = |index: usize| {
        let table = &databases.tables()[index];
        let is_empty = !used[index] && table.is_empty();
        1 + if is_empty { 0 } else { (table.shards() / SHARDS_CLEARED_PER_UNIT) as u64 }
    };
    let mut units = batch.other_units.saturating_add(batch.watches.len() as u64 * WATCH_UNITS);
    for (database, command) in batch.commands {
        let scope = command.scope();
        map = scope.map_after(map, databases);
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
pub fn units_of_transaction(checks: usize, writes: usize) -> u64 {
    (checks as u64 * WATCH_UNITS).saturating_add(writes as u64 * PAIR_UNITS)
}

/// The tables in which a batch watches a key or does anything except a clear. Such a table may be
/// empty before the batch and have records when the batch clears it.
fn used(batch: &Batch<'_>, databases: &Databases, mut map: DatabaseMap) -> [bool; DATABASES] {
    let mut used = [false; DATABASES];
    let mut note = |index: Option<usize>| {
        if let Some(index) = index {
            used[index] = true;
        }
    };
    batch.watches.iter().for_each(|watch| note(map.index(watch.database)));
    for (database, command) in batch.commands {
        let scope = command.scope();
        map = scope.map_after(map, databases);
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

/// What a command does with the values that its keys have.
enum Values {
    /// Nothing, or no more than the units of the command contain: it looks at a record, removes it,
    /// gives its value to another one, or reads a number, a HyperLogLog or as many bytes as the
    /// command brings along.
    Unread,
    /// It returns them.
    Returned,
    /// It returns a part.
    Part { start: i64, end: i64 },
    /// It may copy them, and fill them with zeroes up to this length.
    Changed { zeroes_until: usize },
    /// It reads and copies this number of bytes.
    Fields { bytes: usize },
    /// It reads their bits.
    LookedAt,
    /// It makes a payload of them.
    Dumped,
    /// It reads those of all keys but the first one, and stores one that is as long as the longest.
    Combined,
}

fn values(command: &Command<'_>) -> Values {
    let changed = |zeroes_until: u64| Values::Changed {
        zeroes_until: usize::try_from(zeroes_until).unwrap_or(usize::MAX),
    };
    match *command {
        Command::Get { .. }
        | Command::GetMany { .. }
        | Command::Lease { .. }
        | Command::Take { .. }
        | Command::GetAndExpire { .. }
        | Command::Lcs { .. }
        | Command::Set(Set { return_old: true, .. })
        | Command::ReplaceIf { return_old: true, .. } => Values::Returned,
        Command::GetRange { start, end, .. } => Values::Part { start, end },
        Command::Concat { .. } => changed(0),
        Command::SetRange { offset, .. } => changed(offset),
        Command::SetBit { offset, .. } => changed(offset / 8),
        Command::BitFields { words, writes, .. } => {
            let fields = Fields::of(words, usize::MAX).unwrap_or_default();
            match writes {
                true => Values::Changed { zeroes_until: fields.length() },
                false => Values::Fields { bytes: fields.bytes() },
            }
        }
        Command::BitCount { .. } | Command::BitPosition { .. } => Values::LookedAt,
        Command::Dump { .. } => Values::Dumped,
        Command::BitOperation { .. } => Values::Combined,
        Command::Set(_)
        | Command::SetMany { .. }
        | Command::Restore { .. }
        | Command::CompareValue { .. }
        | Command::ReplaceIf { .. }
        | Command::Length { .. }
        | Command::GetBit { .. }
        | Command::Exists { .. }
        | Command::Expiry { .. }
        | Command::MemoryUsage { .. }
        | Command::Increment(_)
        | Command::IncrementFloat { .. }
        | Command::IncrementBinary { .. }
        | Command::IncrementFraction { .. }
        | Command::AddToSketch { .. }
        | Command::CountSketches { .. }
        | Command::MergeSketches { .. }
        | Command::Delete { .. }
        | Command::DeleteIf { .. }
        | Command::Invalidate { .. }
        | Command::Expire { .. }
        | Command::NoteAccess { .. }
        | Command::StoreNothing { .. }
        | Command::Rename { .. }
        | Command::Copy { .. }
        | Command::Move { .. }
        | Command::Clear { .. }
        | Command::ClearAll { .. }
        | Command::Swap { .. }
        // They concern a database, and not the values of some keys.
        | Command::Count
        | Command::Scan { .. }
        | Command::Range { .. }
        | Command::Sweep { .. }
        | Command::Keys { .. }
        | Command::KeysOfSlot { .. }
        | Command::RandomKey { .. }
        // Its commands are counted one by one.
        | Command::Script(_) => Values::Unread,
    }
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
    let values = values(command);
    if matches!(values, Values::Unread) || matches!(values, Values::Returned if !counting.copies) {
        return 0;
    }
    let mut units = 0_u64;
    let (mut longest, mut is_destination) = (0, matches!(values, Values::Combined));
    command.scope().each_key(|key| {
        if std::mem::take(&mut is_destination) || units >= counting.enough {
            return;
        }
        let length = length(key);
        longest = longest.max(length);
        units = units.saturating_add(match values {
            Values::Unread => 0,
            Values::Returned => copied(length),
            Values::Part { start, end } => returned(length, start, end),
            Values::Changed { zeroes_until } => {
                let zeroes = zeroes_until.saturating_sub(length).min(counting.value_bytes_max);
                copied(length).saturating_add(written(zeroes))
            }
            Values::Fields { bytes } => copied(bytes),
            Values::LookedAt | Values::Combined => looked_at(length),
            Values::Dumped => dumped(length),
        });
    });
    let stored = if matches!(values, Values::Combined) { copied(longest) } else { 0 };
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
    let length =
        |key: &[u8]| table.read(key, 0, |entry| entry.map_or(0, |entry| entry.value().len()));
    let counting = Counting { copies: false, value_bytes_max: usize::MAX, enough };
    units.saturating_add(units_of_values(command, length, &counting))
}

/// The units that a batch probably takes, if its databases are as they are now: an estimate that
/// need not go beyond `enough` units. The steps of scripts count as in their last runs.
pub fn probable_units(batch: &Batch<'_>, databases: &Databases, enough: u64) -> u64 {
    let mut units = batch.other_units.saturating_add(batch.watches.len() as u64 * WATCH_UNITS);
    for (database, command) in batch.commands {
        if units >= enough {
            break;
        }
        units = units.saturating_add(match command {
            Command::Script(script) => probable_script_units(script, databases),
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

/// The units of a script without its steps.
fn units_of_script(script: &Script<'_>) -> u64 {
    let bytes = script.words.iter().map(|word| word.len()).sum::<usize>();
    SCRIPT_UNITS + script.words.len() as u64 + copied(bytes + script.source.len())
}

/// The units of a command, without those that depend on records.
pub fn own_units(command: &Command<'_>) -> u64 {
    units_on(command, 0, 1)
}

/// The units of a command of a script, which gets copies of the values that are returned.
pub(crate) fn units_in_script(
    command: &Command<'_>,
    length: impl Fn(&[u8]) -> usize,
    value_bytes_max: usize,
) -> u64 {
    let counting = Counting { copies: true, value_bytes_max, enough: u64::MAX };
    units_on(command, 0, 1).saturating_add(units_of_values(command, length, &counting))
}

fn units_of_command(command: &Command<'_>, table: &Table) -> u64 {
    units_on(command, table.len(), table.shards() as u64)
}

/// The units of a command on a table with this number of records and shards.
fn units_on(command: &Command<'_>, table_len: u64, shards: u64) -> u64 {
    let records = |records: u64| TABLE_UNITS + records.min(table_len).saturating_mul(RECORD_UNITS);
    match *command {
        Command::Set(ref set) => 1 + copied(set.value.len()),
        Command::SetMany { pairs, .. } => {
            pairs.iter().map(|(_, value)| PAIR_UNITS + copied(value.len())).sum()
        }
        Command::Concat { bytes, .. } | Command::SetRange { bytes, .. } => 1 + copied(bytes.len()),
        Command::CompareValue { old, new, .. } => {
            1 + copied(old.map_or(0, <[u8]>::len) + new.map_or(0, <[u8]>::len))
        }
        Command::ReplaceIf { value, new, .. } => {
            1 + copied(value.len() + new.map_or(0, <[u8]>::len))
        }
        // Its own work is bounded by its steps, which all scripts of a batch share.
        Command::Script(ref script) => units_of_script(script),
        Command::Rename { .. } | Command::Copy { .. } | Command::Move { .. } => 3,
        Command::GetMany { keys } | Command::Exists { keys } | Command::NoteAccess { keys } => {
            keys.len() as u64
        }
        Command::Delete { keys } => 2 * keys.len() as u64,
        Command::Take { .. } => 2,
        Command::Lcs { .. } => LCS_UNITS,
        Command::BitOperation { keys, .. } => 2 * keys.len() as u64,
        Command::BitFields { words, .. } => 1 + words.len() as u64,
        Command::AddToSketch { elements, .. } => {
            let bytes: usize = elements.iter().map(|element| element.len()).sum();
            SKETCH_UNITS + elements.len() as u64 * ELEMENT_UNITS + copied(bytes)
        }
        Command::CountSketches { keys } | Command::MergeSketches { keys } => {
            (1 + keys.len() as u64).saturating_mul(SKETCH_UNITS)
        }
        Command::Restore { payload, .. } => {
            1 + dumped(payload.len().max(dump::value_length(payload)))
        }
        Command::StoreNothing { .. } => 3,
        Command::Count => TABLE_UNITS,
        Command::Scan { count, .. } => {
            // SCAN visits whole shards, some of which are twice as full as others.
            let shard = 2 * table_len / shards;
            records((count.min(SCAN_RECORDS_MAX) as u64).saturating_add(shard))
        }
        Command::Range { count, .. } => {
            records((count as u64).saturating_mul(2).saturating_add(BATCH_RANGE_SPARE_KEYS))
        }
        Command::Keys { .. } | Command::KeysOfSlot { .. } => records(u64::MAX),
        // It picks shards at random until it finds one that is not empty.
        Command::RandomKey { .. } => TABLE_UNITS,
        Command::Get { .. }
        | Command::Length { .. }
        | Command::GetRange { .. }
        | Command::GetBit { .. }
        | Command::BitCount { .. }
        | Command::BitPosition { .. }
        | Command::Dump { .. }
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
        // `units_of` counts these, because it knows whether a table is empty.
        Command::Clear { .. } | Command::ClearAll { .. } => 1,
    }
}
