//! Counts of one table.

/// Counts since a table was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries, including expired ones that are not collected yet.
    pub entries: u64,
    /// Entries that have an expiry.
    pub entries_with_expiry: u64,
    /// Bytes of entries.
    pub bytes: u64,
    /// Bytes that are in memory only because of a snapshot. For cleared tables this is an estimate
    /// from the mean size of an entry.
    pub kept_bytes: u64,
    /// Bytes of the shards, their indexes and deadlines, and of the sorted keys if the table is
    /// ordered.
    pub index_bytes: u64,
    /// Entries removed because they expired.
    pub expired: u64,
    /// Entries removed to make room.
    pub evicted: u64,
    /// Writes refused because the table was full.
    pub refused: u64,
    /// The highest version that a write can have: at least the number of writes.
    pub version: u64,
}
