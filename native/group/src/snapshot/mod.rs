//! Snapshots: everything that the log has made of a group, in one file (`data.tds`).
//!
//! A snapshot begins between two entries of the log, on the thread that applies them, within
//! microseconds ([`Group::begin_snapshot`](crate::Group::begin_snapshot)). Another thread then
//! writes it, a slice at a time, while the log goes on ([`SnapshotSource`]). A restart loads it in
//! place, with several threads ([`Group::restore`](crate::Group::restore)), and applies the entries
//! behind it.
//!
//! ```text
//!  file      header | blocks | index | footer
//!
//!  header    89 "TDSNAP" 0A 8 | format 4 | length L 4 | content L | checksum of all before 4
//!
//!  content   index of the last entry applied 8 | time of the log 8 | seed 8 |
//!            tables of the databases 8 (four bits each, those of database 0 the lowest) |
//!            id of the next named table 8 | era of the time of the log 8, in format 2 |
//!            origins: number varint; each: origin 8, floor 8, window 8, time of the last batch 8 |
//!            tables: number varint; each: home 8 | name, options: length varint, bytes |
//!                    seed 8 | shards varint | order 1, as in `record.rs` | version varint |
//!                    time of the scheduled clear 8, 2^64 - 1 for none |
//!                    removals: length varint, bytes (`removals.rs` of the table crate)
//!
//!  block     kind 1 | 0 3 | length L 4 | number of the block 8 | home 8 | checksum 4 | content L
//!            the checksum is that of the block without these 4 bytes
//!            kind 1: records, the content is at most 1 MiB
//!            kind 2: one record whose value is in the next blocks; its content is the record
//!                    without the value
//!            kind 3: a piece of that value
//!
//!  record    marks 1 | version varint | length of the key varint | length of the value varint |
//!            expiry varint, if marks & 1 | flags varint, if marks & 2 |
//!            second of the last access varint, if marks & 4 | key | value
//!            marks & 8: read since it was stored; & 16: stale; & 32: a client won the right to
//!            recache it (these three only with & 4)
//!
//!  index     for each block: offset 8 | home 8 | length L 4 | records 4 | kind 1
//!
//!  footer    blocks 8 | records 8 | offset of the index 8 | checksum of the index 4 |
//!            checksum of the 28 bytes before 4 | 0A "PANSDT" 89 8
//! ```
//!
//! Format 2 is that of a log whose batches carry the time, format 1 that of any other: a member
//! that does not read such batches never meets it.
//!
//! Numbers of a fixed width begin with the lowest byte, a varint is LEB128, and a checksum is
//! CRC-32C. The home of a database's table is its index (0 to 15), which `SWAPDB` does not change;
//! that of a named table is its id. The blocks lie one after another, without gaps. The footer has
//! 40 bytes and ends the file, so a file that was not written to its end has none.

mod block;
mod error;
mod header;
mod read;
mod write;

pub use block::SnapshotRecord;
pub use error::{Damage, SnapshotError};
pub use header::{SnapshotInfo, SnapshotTable};
pub use read::SnapshotFile;
pub use write::SnapshotSource;

pub(crate) use block::Head;
pub(crate) use header::Content;
pub(crate) use read::Unit;
pub(crate) use write::SourceTable;

/// The first bytes of the file.
const MAGIC: [u8; 8] = *b"\x89TDSNAP\n";
/// The last bytes of the file.
const END_MAGIC: [u8; 8] = *b"\nPANSDT\x89";
/// The format for a log whose batches do not carry the time.
const UNSTAMPED: u32 = 1;
/// The format for one whose batches do.
const STAMPED: u32 = 2;
/// Bytes before the content of the header.
const HEAD_BYTES: usize = 16;
/// The most bytes of the header's content: origins, and named tables with their states.
const CONTENT_BYTES_MAX: usize = 1 << 30;

const BLOCK_HEADER_BYTES: usize = 28;
/// The most bytes of a block's content.
pub(crate) const BLOCK_BYTES: usize = 1 << 20;
/// A longer value is written in pieces.
const INLINE_VALUE_BYTES: usize = 256 << 10;
const INDEX_ENTRY_BYTES: usize = 25;
const FOOTER_BYTES: usize = 40;

/// A block that holds records.
const RECORDS: u8 = 1;
/// A block that holds a record without its value.
const LARGE: u8 = 2;
/// A block that holds a piece of a value.
const PIECE: u8 = 3;
