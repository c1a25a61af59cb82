//! What a record is: a string, or a collection.
//!
//! The value of a string is its bytes. That of a collection is a *block*: one byte for the kind,
//! and the items in the form of that kind. The pointer to an entry says which of the two it has
//! (`entry.rs`), so a reader that wants a string pays one test of a register.
//!
//! [`Entry::text`](crate::Entry::text) is the value of a string, and an error for a collection:
//! what reads values goes through it. Only what moves, sends or compares whole records, of whatever
//! kind they are, uses [`Entry::stored`](crate::Entry::stored).

use std::fmt;

use crate::limits::Full;

/// The longest block.
pub const BLOCK_BYTES_MAX: usize = 2_048;

/// What a record is. The numbers are those of blocks and of files, and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// Bytes; also numbers, bitmaps and sketches, which are ways to read bytes.
    String = 0,
    /// Fields with values.
    Hash = 1,
    /// Elements by position.
    List = 2,
    /// Members.
    Set = 3,
    /// Members by score.
    SortedSet = 4,
    /// Entries by ID.
    Stream = 5,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] =
        [Kind::String, Kind::Hash, Kind::List, Kind::Set, Kind::SortedSet, Kind::Stream];

    /// The kind of this number.
    pub fn of(number: u8) -> Option<Kind> {
        Kind::ALL.get(usize::from(number)).copied()
    }

    /// The kind's number.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The word for it in replies, as Redis' TYPE has it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Hash => "hash",
            Kind::List => "list",
            Kind::Set => "set",
            Kind::SortedSet => "zset",
            Kind::Stream => "stream",
        }
    }
}

/// The record is of another kind than the operation needs: of this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WrongKind(pub Kind);

impl fmt::Display for WrongKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the record holds a {}", self.0.name())
    }
}

impl std::error::Error for WrongKind {}

/// Why a write was refused that needs the present value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// For lack of room.
    Full,
    /// The present record is no string.
    WrongKind(WrongKind),
}

impl From<Full> for Refused {
    fn from(Full: Full) -> Refused {
        Refused::Full
    }
}

impl From<WrongKind> for Refused {
    fn from(wrong: WrongKind) -> Refused {
        Refused::WrongKind(wrong)
    }
}

/// The value of a record as the table stores it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stored<'a> {
    /// The bytes of a string, or the block of a collection.
    bytes: &'a [u8],
    is_collection: bool,
}

impl<'a> Stored<'a> {
    /// The value of a string.
    #[inline]
    pub fn string(bytes: &'a [u8]) -> Stored<'a> {
        Stored { bytes, is_collection: false }
    }

    /// The block of a collection. `None` if it does not begin with the kind of one, or is too long.
    pub fn block(bytes: &'a [u8]) -> Option<Stored<'a>> {
        let kind = bytes.first().copied().and_then(Kind::of)?;
        (kind != Kind::String && bytes.len() <= BLOCK_BYTES_MAX)
            .then_some(Stored { bytes, is_collection: true })
    }

    #[inline]
    pub(crate) fn new(bytes: &'a [u8], is_collection: bool) -> Stored<'a> {
        Stored { bytes, is_collection }
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether they are a block.
    #[inline]
    pub fn is_collection(&self) -> bool {
        self.is_collection
    }

    /// What the record is.
    pub fn kind(&self) -> Kind {
        match self.bytes.first() {
            Some(number) if self.is_collection => Kind::of(*number).unwrap_or(Kind::String),
            _ => Kind::String,
        }
    }

    /// A copy that outlives the entry.
    pub fn copied(&self) -> StoredCopy {
        StoredCopy { bytes: self.bytes.to_vec(), is_collection: self.is_collection }
    }

    /// The value of a string.
    pub fn text(&self) -> Result<&'a [u8], WrongKind> {
        if self.is_collection { Err(WrongKind(self.kind())) } else { Ok(self.bytes) }
    }
}

/// A copy of a value of any kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredCopy {
    bytes: Vec<u8>,
    is_collection: bool,
}

impl StoredCopy {
    /// The value.
    pub fn stored(&self) -> Stored<'_> {
        Stored { bytes: &self.bytes, is_collection: self.is_collection }
    }
}
