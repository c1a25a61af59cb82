//! A batch: the submissions of one node that are one entry of the log.
//!
//! ```text
//!  batch    magic 1 = B1 | format 1 = 01 | flags 1 = 00
//!           epoch varint | origin 8 | sequence varint | longest value varint
//!           the records of its submissions, in their order (see `record.rs`)
//!
//!  epoch    of the group's map of keys; 0 as long as there is only one group
//!  origin   the incarnation of the node that made it, the lowest byte first
//!  sequence 1, 2, 3, .. of this origin: a batch that is in the log twice is applied once
//!  longest value, in bytes, that its commands may build: the option of the origin when it made the
//!           batch, because the option may differ where, or when, the log is applied
//! ```
//!
//! The log does not say which clients wait for the outcome: the origin keeps their tickets in
//! memory. `format` covers everything inside, including the numbers of the commands' variants: any
//! change needs a new number. A replica that finds an unknown format stops instead of skipping the
//! entry.

use std::fmt;
use std::ops::RangeInclusive;

use crate::wire::{Input, put_varint};

/// The first byte of a batch.
const MAGIC: u8 = 0xb1;

/// The format that this version writes. It reads those before it too, which have fewer commands.
pub(crate) const FORMAT: u8 = 3;
const FORMAT_MIN: u8 = 1;

/// A batch is sealed before the submission with which it would exceed this number of bytes.
pub const BATCH_BYTES_MAX: usize = 128 << 10;

/// A batch is sealed before the submission with which it would exceed this number of records.
pub const BATCH_RECORDS_MAX: usize = 1_024;

/// The most bytes of a header.
pub(crate) const HEADER_BYTES_MAX: usize = 3 + 10 + 8 + 10 + 10;

/// The longest value that a batch can allow, in bytes, whatever its header says.
pub const VALUE_BYTES_CEILING: usize = 64 << 20;

/// What precedes the records of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) epoch: u64,
    pub(crate) origin: u64,
    pub(crate) sequence: u64,
    pub(crate) value_bytes_max: usize,
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
        out.extend_from_slice(&[MAGIC, FORMAT, 0]);
        put_varint(out, self.epoch);
        out.extend_from_slice(&self.origin.to_le_bytes());
        put_varint(out, self.sequence);
        put_varint(out, self.value_bytes_max as u64);
    }

    /// The header at the front of `bytes`, and the records.
    pub(crate) fn take(bytes: &[u8]) -> Result<(Header, &[u8]), NoHeader> {
        let mut input = Input::new(bytes);
        let mut expect = |known: RangeInclusive<u8>, newer: fn(u8) -> Newer| match input.byte() {
            Some(byte) if known.contains(&byte) => Ok(()),
            Some(byte) => Err(NoHeader::Newer(newer(byte))),
            None => Err(NoHeader::Malformed),
        };
        expect(MAGIC..=MAGIC, Newer::Magic)?;
        expect(FORMAT_MIN..=FORMAT, Newer::Format)?;
        expect(0..=0, Newer::Flags)?;
        let mut numbers = || {
            let (epoch, origin) = (input.varint()?, input.u64()?);
            let (sequence, value_bytes_max) = (input.varint()?, input.length()?);
            let value_bytes_max = value_bytes_max.min(VALUE_BYTES_CEILING);
            Some(Header { epoch, origin, sequence, value_bytes_max })
        };
        let header = numbers().ok_or(NoHeader::Malformed)?;
        Ok((header, input.rest()))
    }
}

#[cfg(test)]
mod tests {
    use todana_command::{Command, Scratch};

    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        for (epoch, origin, sequence, value_bytes_max) in [
            (0, 0x0102_0304_0506_0708, 1, 16 << 20),
            (u64::MAX, u64::MAX, u64::MAX, VALUE_BYTES_CEILING),
        ] {
            let header = Header { epoch, origin, sequence, value_bytes_max };
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
        assert_eq!(newer(&[MAGIC, FORMAT + 1]), Newer::Format(FORMAT + 1));
        assert_eq!(newer(&[MAGIC, FORMAT, 4]), Newer::Flags(4));
        let sentence = "the log has a batch of unknown format 9: \
            a newer version of Todana has written it";
        assert_eq!(Newer::Format(9).to_string(), sentence);
    }

    /// A version that reads this format must know every command in it. If this test fails because
    /// a variant was added, raise `FORMAT` and let `Header::take` accept the old one too.
    #[test]
    fn a_new_command_needs_a_new_format() {
        let highest = (0..=u8::MAX).rev().find(|variant| {
            let bytes = [&[1, *variant][..], &[0; 64]].concat();
            Command::decode(&bytes, &mut Scratch::default()).is_ok()
        });
        assert_eq!((FORMAT, highest), (3, Some(57)));
    }
}
