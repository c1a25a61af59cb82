//! What a table tells about itself.

/// Counts since a table was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Live and not yet collected entries.
    pub entries: u64,
    /// Entries that have an expiry.
    pub entries_with_expiry: u64,
    /// Bytes of entries.
    pub bytes: u64,
    /// Bytes that are in memory only for a snapshot that is being read. Of cleared tables, an
    /// estimate by the mean size of an entry.
    pub kept_bytes: u64,
    /// Bytes of the shards, their indexes and deadlines, and of the keys in order where the table
    /// has one.
    pub index_bytes: u64,
    /// Entries removed because they expired.
    pub expired: u64,
    /// Entries removed to make room.
    pub evicted: u64,
    /// Writes refused because the table was full.
    pub refused: u64,
    /// The version of the last write.
    pub version: u64,
}
