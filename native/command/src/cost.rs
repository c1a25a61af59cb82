//! What the work of a command is counted in: see the table in `work.rs`.

use todana_table::{Keyspace, Table};

/// The units of a record that is stored beside others.
pub(crate) const PAIR_UNITS: u64 = 5;
const KIB_COPIED_UNITS: u64 = 3;
const KIB_READ_UNITS: u64 = 2;
const KIB_WRITTEN_UNITS: u64 = 1;
const RECORD_UNITS: u64 = 3;
/// The units of a command about a whole database.
pub(crate) const TABLE_UNITS: u64 = 256;
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

/// What a command does with the values that its keys have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reads {
    /// Nothing, or no more than the units of the command contain: it looks at a record, removes it,
    /// gives its value to another one, or reads a number, a HyperLogLog or as many bytes as the
    /// command brings along.
    Nothing,
    /// It returns them.
    Returned,
    /// It returns a part.
    Part {
        /// The first byte, from the end if negative.
        start: i64,
        /// The last one.
        end: i64,
    },
    /// It may copy them, and fill them with zeroes up to this length.
    Changed {
        /// The length; `u64::MAX` if it is not known.
        zeroes_until: u64,
    },
    /// It reads and copies this number of bytes.
    Fields {
        /// The number.
        bytes: usize,
    },
    /// It reads their bits.
    Bits,
    /// It makes a payload of them.
    Dumped,
    /// It reads those of all keys but the first one, and stores one that is as long as the longest.
    Combined,
}

/// The size of a table, for the commands about all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TableSize {
    records: u64,
    shards: u64,
}

impl TableSize {
    /// Of a command that is not about a whole table.
    pub(crate) const UNKNOWN: TableSize = TableSize { records: 0, shards: 1 };

    pub(crate) fn of(table: &Table) -> TableSize {
        TableSize { records: table.len(), shards: table.shards() as u64 }
    }

    /// The units of a command that visits up to this number of records.
    pub(crate) fn visits(self, records: u64) -> u64 {
        TABLE_UNITS + records.min(self.records).saturating_mul(RECORD_UNITS)
    }

    /// The records in a full shard: some are twice as full as others.
    pub(crate) fn in_shard(self) -> u64 {
        2 * self.records / self.shards
    }
}
