//! Records and blocks of a snapshot.

use todana_table::{Access, Meta, Stored};

use super::{BLOCK_HEADER_BYTES, INDEX_ENTRY_BYTES};
use crate::home::Home;
use crate::wire::{Input, put_varint};

const EXPIRY: u8 = 1;
const FLAGS: u8 = 2;
const ACCESS: u8 = 4;
const FETCHED: u8 = 8;
const STALE: u8 = 16;
const WON: u8 = 32;
/// The value is the block of a collection.
const COLLECTION: u8 = 64;

/// A record of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotRecord<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: Stored<'a>,
    /// Expiry, flags and access word.
    pub meta: Meta,
    /// The version of the write that stored it.
    pub version: u64,
}

/// A record without its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) value_len: usize,
    pub(crate) is_collection: bool,
    pub(crate) meta: Meta,
    pub(crate) version: u64,
}

/// Appends a record up to its key.
pub(super) fn put_head(out: &mut Vec<u8>, head: &Head<'_>) {
    let Head { key, value_len, is_collection, meta, version } = *head;
    let mark = |set: bool, mark: u8| if set { mark } else { 0 };
    let access = meta.access.unwrap_or_default();
    out.push(
        mark(meta.expires_at_ms.is_some(), EXPIRY)
            | mark(meta.flags != 0, FLAGS)
            | mark(meta.access.is_some(), ACCESS)
            | mark(access.fetched, FETCHED)
            | mark(access.stale, STALE)
            | mark(access.won, WON)
            | mark(is_collection, COLLECTION),
    );
    put_varint(out, version);
    put_varint(out, key.len() as u64);
    put_varint(out, value_len as u64);
    if let Some(at_ms) = meta.expires_at_ms {
        put_varint(out, at_ms);
    }
    if meta.flags != 0 {
        put_varint(out, meta.flags.into());
    }
    if meta.access.is_some() {
        put_varint(out, access.last_s.into());
    }
    out.extend_from_slice(key);
}

/// The head at the front of `input`.
pub(super) fn take_head<'b>(input: &mut Input<'b>) -> Option<Head<'b>> {
    let marks = input.byte()?;
    if marks >= COLLECTION << 1 || marks & ACCESS == 0 && marks & (FETCHED | STALE | WON) != 0 {
        return None;
    }
    let version = input.varint()?;
    let (key_len, value_len) = (input.length()?, input.length()?);
    let expires_at_ms = if marks & EXPIRY != 0 { Some(input.varint()?) } else { None };
    let mut number = || u32::try_from(input.varint()?).ok();
    let flags = if marks & FLAGS != 0 { number()? } else { 0 };
    let access = if marks & ACCESS != 0 {
        Some(Access {
            last_s: number()?,
            fetched: marks & FETCHED != 0,
            stale: marks & STALE != 0,
            won: marks & WON != 0,
        })
    } else {
        None
    };
    let key = input.take(key_len)?;
    let (is_collection, meta) = (marks & COLLECTION != 0, Meta { expires_at_ms, flags, access });
    Some(Head { key, value_len, is_collection, meta, version })
}

/// The record at the front of `input`.
pub(super) fn take_record<'b>(input: &mut Input<'b>) -> Option<SnapshotRecord<'b>> {
    let Head { key, value_len, is_collection, meta, version } = take_head(input)?;
    let bytes = input.take(value_len)?;
    let value = if is_collection { Stored::block(bytes)? } else { Stored::string(bytes) };
    Some(SnapshotRecord { key, value, meta, version })
}

/// A block, as the index lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) offset: u64,
    pub(super) home: Home,
    pub(super) length: u32,
    pub(super) records: u32,
    pub(super) kind: u8,
}

impl Block {
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.offset.to_le_bytes());
        out.extend_from_slice(&self.home.number().to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
        out.extend_from_slice(&self.records.to_le_bytes());
        out.push(self.kind);
    }

    pub(super) fn take(input: &mut Input<'_>) -> Option<Block> {
        let (offset, home) = (input.u64()?, Home::of(input.u64()?));
        let (length, records) = (input.u32()?, input.u32()?);
        Some(Block { offset, home, length, records, kind: input.byte()? })
    }

    /// Where the next block begins.
    pub(super) fn end(&self) -> u64 {
        self.offset + BLOCK_HEADER_BYTES as u64 + u64::from(self.length)
    }
}

const _: () = assert!(INDEX_ENTRY_BYTES == 8 + 8 + 4 + 4 + 1);

/// Bytes of a block's header before its checksum.
const UNCHECKED_BYTES: usize = BLOCK_HEADER_BYTES - 4;

/// The header of a block with this content.
pub(super) fn block_header(
    kind: u8,
    number: u64,
    home: Home,
    content: &[u8],
) -> [u8; BLOCK_HEADER_BYTES] {
    let mut header = [0; BLOCK_HEADER_BYTES];
    header[0] = kind;
    header[4..8].copy_from_slice(&(content.len() as u32).to_le_bytes());
    header[8..16].copy_from_slice(&number.to_le_bytes());
    header[16..24].copy_from_slice(&home.number().to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&header[..UNCHECKED_BYTES]), content);
    header[UNCHECKED_BYTES..].copy_from_slice(&checksum.to_le_bytes());
    header
}

#[cfg(test)]
mod tests {
    use proptest::option::of;
    use proptest::prelude::*;

    use super::*;

    fn access() -> impl Strategy<Value = Access> {
        (any::<u32>(), any::<bool>(), any::<bool>(), any::<bool>())
            .prop_map(|(last_s, fetched, stale, won)| Access { last_s, fetched, stale, won })
    }

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(
            key in any::<Vec<u8>>(),
            value in any::<Vec<u8>>(),
            expires_at_ms in of(any::<u64>()),
            flags: u32,
            access in of(access()),
            version: u64,
            is_collection: bool,
        ) {
            let value = match is_collection {
                true => [&[1], &value[..value.len().min(99)]].concat(),
                false => value,
            };
            let stored = match is_collection {
                true => Stored::block(&value).expect("a block"),
                false => Stored::string(&value),
            };
            let meta = Meta { expires_at_ms, flags, access };
            let mut bytes = Vec::new();
            let value_len = value.len();
            put_head(&mut bytes, &Head { key: &key, value_len, is_collection, meta, version });
            bytes.extend_from_slice(&value);
            let mut input = Input::new(&bytes);
            let expected = SnapshotRecord { key: &key, value: stored, meta, version };
            prop_assert_eq!(take_record(&mut input), Some(expected));
            prop_assert!(input.rest().is_empty());
            for end in 0..bytes.len() {
                prop_assert!(take_record(&mut Input::new(&bytes[..end])).is_none());
            }
        }
    }
}
