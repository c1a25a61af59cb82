//! A batch: submissions of one node. One batch or several are an entry of the log.
//!
//! ```text
//!  entry    a batch, or magic 1 = B1 | format 1 = 05 | flags 1 = 00, and per batch:
//!           length 4, the lowest byte first | the batch
//!
//!  batch    magic 1 = B1 | format 1 | flags 1 = 00
//!           epoch varint | origin 8 | sequence varint | longest value varint
//!           from format 4 on: era varint | time varint (no batch has format 5)
//!           the records of its submissions, in their order (see `record.rs`)
//!
//!  epoch    of the group's map of keys; 0 as long as there is only one group
//!  origin   the incarnation of the node that made it, the lowest byte first
//!  sequence 1, 2, 3, .. of this origin: a batch that is in the log twice is applied once
//!  longest value, in bytes, that its commands may build: the option of the origin when it made the
//!           batch, because the option may differ where, or when, the log is applied
//!  era, time of the log when the batch was taken for it, in milliseconds, as its origin knew it
//!           (see `clock.rs`); 0 if it did not
//! ```
//!
//! The log does not say which clients wait for the outcome: the origin keeps their tickets in
//! memory. `format` covers everything inside, including the numbers of the commands' variants: any
//! change needs a new number. A replica that finds an unknown format stops instead of skipping the
//! entry. So a member of a cluster writes the lowest format that has all commands of the batch
//! (see `record.rs`), and none that another member does not read ([`Formats`]).

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use todana_command::{FORMAT_MAX, FORMAT_MIN};

use crate::clock::Stamp;
use crate::wire::{Input, put_varint};

/// The first byte of a batch.
const MAGIC: u8 = 0xb1;

/// A batch is sealed before the submission with which it would exceed this number of bytes.
pub const BATCH_BYTES_MAX: usize = 128 << 10;

/// A batch is sealed before the submission with which it would exceed this number of records.
pub const BATCH_RECORDS_MAX: usize = 1_024;

/// From this format on, a batch carries the time.
pub(crate) const STAMPED: u8 = 4;

/// The format of an entry of several batches, which have others. The leader puts together what
/// the nodes send to it: an entry costs the log and the members the same, however long it is.
pub(crate) const COMBINED: u8 = 5;

/// The bytes in front of the batches of an entry of several.
const COMBINED_HEAD: [u8; 3] = [MAGIC, COMBINED, 0];

/// The most bytes of a header.
pub(crate) const HEADER_BYTES_MAX: usize = 3 + 10 + 8 + 10 + 10 + 10 + 10;

/// The longest value that a batch can allow, in bytes, whatever its header says.
pub const VALUE_BYTES_CEILING: usize = 64 << 20;

/// Whether an entry has several batches.
pub(crate) fn is_combined(entry: &[u8]) -> bool {
    entry.starts_with(&COMBINED_HEAD)
}

/// The next batch of an entry, by its place: that at `offset` or, if there is a length at `offset`,
/// behind it. The first one is at offset 0. `None` if there is no other.
pub(crate) fn next_batch(entry: &[u8], offset: usize) -> Option<Range<usize>> {
    if !is_combined(entry) {
        return (offset == 0).then_some(0..entry.len());
    }
    let at = offset.max(COMBINED_HEAD.len());
    let start = at.checked_add(4)?;
    let length = entry.get(at..start)?.try_into().map(u32::from_le_bytes).ok()?;
    let length = usize::try_from(length).ok()?;
    // One that is longer than the entry is broken, and the last.
    Some(start..start.saturating_add(length).min(entry.len()))
}

/// What precedes the records of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) format: u8,
    pub(crate) epoch: u64,
    pub(crate) origin: u64,
    pub(crate) sequence: u64,
    pub(crate) value_bytes_max: usize,
    /// From [`STAMPED`] on.
    pub(crate) stamp: Option<Stamp>,
}

/// The formats that a node may write.
#[derive(Debug, Default)]
pub(crate) struct Formats {
    /// The newest format that all members read; 0 if there are no others.
    common: AtomicU8,
    /// The newest format that this node writes although no command needs it, 0 as above: not
    /// above `common`.
    unasked: AtomicU8,
    /// The newest format that is in the log: all members read it, even if this one has not heard
    /// from them yet.
    used: AtomicU8,
}

impl Formats {
    /// Sets the newest format that all members read, and the newest that is written although no
    /// command needs it; `None` for a node alone. A member that writes a newer one than this
    /// version has a newer version.
    pub(crate) fn set_common(&self, formats: Option<(u8, u8)>) {
        let known = |format: u8| format.clamp(FORMAT_MIN, FORMAT_MAX);
        let (common, unasked) = formats
            .map_or((0, 0), |(common, unasked)| (known(common), known(unasked).min(known(common))));
        self.unasked.store(unasked, Relaxed);
        self.common.store(common, Relaxed);
    }

    /// The log has a batch of this format.
    #[inline]
    pub(crate) fn note_used(&self, format: u8) {
        if format > self.used.load(Relaxed) {
            self.used.store(format, Relaxed);
        }
    }

    /// The newest format that may be written for a command that needs it.
    #[inline]
    pub(crate) fn newest(&self) -> u8 {
        self.newest_of(&self.common)
    }

    /// The newest format that may be written although no command needs it.
    #[inline]
    pub(crate) fn newest_unasked(&self) -> u8 {
        self.newest_of(&self.unasked)
    }

    #[inline]
    fn newest_of(&self, format: &AtomicU8) -> u8 {
        match format.load(Relaxed) {
            0 => FORMAT_MAX,
            format => format.max(self.used.load(Relaxed)),
        }
    }

    /// Whether a batch gets the lowest format that it needs, so that members of an older version
    /// go on. A node alone writes the newest, which needs no look at the commands.
    pub(crate) fn are_common(&self) -> bool {
        self.common.load(Relaxed) > 0
    }
}

/// The log has an entry that a newer version has written. This version must not go on without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Newer {
    /// The entry does not begin as a batch does.
    Magic(u8),
    /// A batch of another format.
    Format(u8),
    /// A batch with a flag that has no meaning here.
    Flags(u8),
    /// A record of an unknown kind.
    Kind(u8),
}

impl fmt::Display for Newer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, number) = match self {
            Newer::Magic(number) => ("an entry of unknown type", number),
            Newer::Format(number) => ("a batch of unknown format", number),
            Newer::Flags(number) => ("a batch with unknown flags", number),
            Newer::Kind(number) => ("a record of unknown kind", number),
        };
        write!(f, "the log has {what} {number}: a newer version of Todana has written it")
    }
}

impl std::error::Error for Newer {}

/// Why there is no header at the front of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHeader {
    Newer(Newer),
    /// The format is known, but the bytes are too few or no numbers.
    Malformed,
}

impl Header {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[MAGIC, self.format, 0]);
        put_varint(out, self.epoch);
        out.extend_from_slice(&self.origin.to_le_bytes());
        put_varint(out, self.sequence);
        put_varint(out, self.value_bytes_max as u64);
        if self.format >= STAMPED {
            let Stamp { era, ms } = self.stamp.unwrap_or_default();
            put_varint(out, era);
            put_varint(out, ms);
        }
    }

    /// The header at the front of `bytes`, and the records.
    pub(crate) fn take(bytes: &[u8]) -> Result<(Header, &[u8]), NoHeader> {
        let mut input = Input::new(bytes);
        let mut expect = |known: RangeInclusive<u8>, newer: fn(u8) -> Newer| match input.byte() {
            Some(byte) if known.contains(&byte) => Ok(byte),
            Some(byte) => Err(NoHeader::Newer(newer(byte))),
            None => Err(NoHeader::Malformed),
        };
        expect(MAGIC..=MAGIC, Newer::Magic)?;
        let format = expect(FORMAT_MIN..=FORMAT_MAX, Newer::Format)?;
        if format == COMBINED {
            return Err(NoHeader::Newer(Newer::Format(format)));
        }
        expect(0..=0, Newer::Flags)?;
        let mut numbers = || {
            let (epoch, origin) = (input.varint()?, input.u64()?);
            let (sequence, value_bytes_max) = (input.varint()?, input.length()?);
            let value_bytes_max = value_bytes_max.min(VALUE_BYTES_CEILING);
            let stamp = match format {
                ..STAMPED => None,
                _ => Some(Stamp { era: input.varint()?, ms: input.varint()? }),
            };
            Some(Header { format, epoch, origin, sequence, value_bytes_max, stamp })
        };
        let header = numbers().ok_or(NoHeader::Malformed)?;
        Ok((header, input.rest()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let last = Some(Stamp { era: u64::MAX, ms: u64::MAX });
        for (format, epoch, origin, sequence, value_bytes_max, stamp) in [
            (FORMAT_MIN, 0, 0x0102_0304_0506_0708, 1, 16 << 20, None),
            (STAMPED, u64::MAX, u64::MAX, u64::MAX, VALUE_BYTES_CEILING, last),
            (FORMAT_MAX, 0, 1, 1, 0, last),
        ] {
            let header = Header { format, epoch, origin, sequence, value_bytes_max, stamp };
            let mut bytes = Vec::new();
            header.put(&mut bytes);
            assert!(bytes.len() <= HEADER_BYTES_MAX);
            bytes.extend_from_slice(b"records");
            assert_eq!(Header::take(&bytes), Ok((header, &b"records"[..])));
            let cut = &bytes[..bytes.len() - 8];
            assert_eq!(Header::take(cut), Err(NoHeader::Malformed));
        }
    }

    #[test]
    fn what_another_version_wrote_is_not_skipped() {
        let newer = |bytes: &[u8]| match Header::take(bytes) {
            Err(NoHeader::Newer(newer)) => newer,
            other => panic!("{other:?}"),
        };
        assert_eq!(newer(&[0x83]), Newer::Magic(0x83));
        assert_eq!(newer(&[MAGIC, 0]), Newer::Format(0));
        assert_eq!(newer(&[MAGIC, FORMAT_MAX + 1]), Newer::Format(FORMAT_MAX + 1));
        assert_eq!(newer(&[MAGIC, FORMAT_MIN, 4]), Newer::Flags(4));
        let sentence = "the log has a batch of unknown format 9: \
            a newer version of Todana has written it";
        assert_eq!(Newer::Format(9).to_string(), sentence);
    }

    #[test]
    fn the_members_read_what_the_oldest_of_them_reads() {
        let formats = Formats::default();
        assert_eq!((formats.newest(), formats.are_common()), (FORMAT_MAX, false));
        for (common, newest) in
            [(0, FORMAT_MIN), (1, 1), (2, 2), (3, 3), (4, 4), (5, COMBINED), (7, FORMAT_MAX)]
        {
            formats.set_common(Some((common, 3)));
            assert_eq!((formats.newest(), formats.are_common()), (newest, true));
            assert_eq!(formats.newest_unasked(), newest.min(3));
        }
        formats.set_common(None);
        assert_eq!((formats.newest(), formats.are_common()), (FORMAT_MAX, false));
    }

    #[test]
    fn the_members_read_what_is_in_the_log() {
        let formats = Formats::default();
        formats.set_common(Some((FORMAT_MIN, FORMAT_MIN)));
        formats.note_used(STAMPED);
        formats.note_used(FORMAT_MIN);
        assert_eq!((formats.newest(), formats.are_common()), (STAMPED, true));
        assert_eq!(formats.newest_unasked(), STAMPED);
    }
}
