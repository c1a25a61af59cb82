//! A command's reply, as calls on a writer.
//!
//! `execute` calls these methods while it borrows the record, so that a value is copied once on its
//! way from the table to the client's buffer (or the process' heap). Each protocol implements the
//! trait in its own format.

use crate::value::Value;
use std::ops::Range;
use todana_table::{Entry, Full, Kind, Refused, Shared, WrongKind};

/// A reply receives values of this length and more by a handle, unless it chooses another limit.
pub const HELD_BYTES_MIN: usize = 16 << 10;

/// A string as the protocols see it. Borrowed from the table for the duration of the call.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Opaque client flags.
    pub flags: u32,
    /// Version of the write that stored it: the CAS token.
    pub version: u64,
    /// Expiry in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
}

impl<'a> Record<'a> {
    /// The record of a string. Always inlined, because most callers use only a part of it.
    #[inline(always)]
    pub fn of(entry: &Entry<'a>) -> Result<Record<'a>, WrongKind> {
        Ok(Record::with(entry, entry.text()?))
    }

    /// The record of a handle.
    #[inline(always)]
    pub fn of_shared(shared: &'a Shared) -> Record<'a> {
        Record::with(&shared.entry(), shared)
    }

    #[inline(always)]
    fn with(entry: &Entry<'a>, value: &'a [u8]) -> Record<'a> {
        Record {
            key: entry.key(),
            value,
            flags: entry.flags(),
            version: entry.version(),
            expires_at_ms: entry.expires_at_ms(),
        }
    }
}

/// What a record is, for TYPE and its like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Description<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The kind.
    pub kind: Kind,
    /// Whether it is a string that is a decimal integer of 64 bits.
    pub is_integer: bool,
    /// Length of its value, in bytes.
    pub length: usize,
    /// Bytes that it takes in the table.
    pub bytes: usize,
    /// Version of the write that stored it.
    pub version: u64,
    /// Expiry in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
    /// Seconds since the last access, 0 if accesses are not recorded.
    pub idle_s: u64,
    /// Whether it was read before, as far as that is recorded.
    pub fetched: bool,
}

/// What a leased read returns beside the record (memcached's meta get).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseState {
    /// This caller should recache (`W`).
    pub won: bool,
    /// Another caller has won before (`Z`).
    pub already_won: bool,
    /// The record is marked stale (`X`).
    pub stale: bool,
    /// Whether the record was read before (`h`).
    pub fetched_before: bool,
    /// Seconds since the previous access (`l`).
    pub idle_s: u64,
    /// This call created the record (vivify).
    pub created: bool,
}

/// Why a conditional write did not apply. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A record exists.
    Present,
    /// No record exists.
    Absent,
    /// The record has another version.
    VersionDiffers,
    /// The record has another value; or a record exists and none was expected, or the reverse.
    ValueDiffers,
}

/// Why a command failed. Nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The value is not a 64-bit decimal integer.
    NotAnInteger,
    /// The value is not a decimal number.
    NotAFloat,
    /// The sum is out of the range of signed 64-bit integers.
    Overflow,
    /// The sum is NaN or infinity.
    NotFinite,
    /// The new value would exceed the limit of values.
    ValueTooLarge,
    /// The table is at its limit and may not evict, or could not.
    Full,
    /// There is no such database.
    NoSuchDatabase,
    /// Source and destination are the same.
    SameObject,
    /// The value is not a counter of the requested kind.
    NotACounter,
    /// The table is not ordered, or has another order.
    NotOrdered,
    /// The result exceeds the limit of one reply.
    ReplyTooLarge,
    /// The command would have to visit more keys than a transaction may.
    TooManyKeys,
    /// The command concerns a durable database and one that is not.
    DifferentDurability,
    /// The databases run no scripts.
    NoScripts,
    /// The value is no HyperLogLog.
    NotASketch,
    /// The value has the header of a HyperLogLog, but the rest of it is not valid.
    CorruptSketch,
    /// The payload of RESTORE is incomplete, or has another checksum.
    BadPayload,
    /// Bytes or words do not have the form that they must have.
    BadFormat,
    /// The payload of RESTORE has a value that is no string.
    OtherType,
    /// Others change the values that the command reads more often than it can read them.
    Contended,
    /// The record is of another kind than the command is for: of this one.
    WrongKind(Kind),
}

impl From<WrongKind> for Error {
    fn from(WrongKind(kind): WrongKind) -> Error {
        Error::WrongKind(kind)
    }
}

impl From<Full> for Error {
    fn from(Full: Full) -> Error {
        Error::Full
    }
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        match refused {
            Refused::Full => Error::Full,
            Refused::WrongKind(wrong) => wrong.into(),
        }
    }
}

/// The reason why a transaction was refused. It has executed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inadmissible {
    /// Its work exceeds the limit, see [`TRANSACTION_UNITS_MAX`](crate::TRANSACTION_UNITS_MAX).
    TooMuchWork,
    /// There is no room for its writes, and the table does not evict.
    Full,
    /// It writes to a durable database, and concerns one that is not durable.
    DifferentDurability,
    /// It stores a value that is longer than the log of a durable database accepts.
    ValueTooLarge,
}

/// One matching span pair of LCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LcsSpan {
    /// First and last offset in the first value.
    pub first: (usize, usize),
    /// First and last offset in the second value.
    pub second: (usize, usize),
}

/// Receives a command's reply. [`Command`](crate::Command) lists which of these methods each
/// command calls.
pub trait Reply {
    /// The write succeeded and has no further result.
    fn done(&mut self);
    /// The record does not exist.
    fn none(&mut self);
    /// A record.
    fn record(&mut self, record: Record<'_>);
    /// Whether a value of this length is passed to [`Reply::held`].
    #[inline]
    fn holds(&self, value_bytes: usize) -> bool {
        value_bytes >= HELD_BYTES_MIN
    }
    /// A large record, as a handle that keeps it alive: the reply to a transaction can copy the
    /// value after the transaction's locks are released, and other replies can copy it in turns.
    fn held(&mut self, shared: Shared) {
        self.record(Record::of_shared(&shared));
    }
    /// A part of a large value, as a handle that keeps it alive.
    fn part(&mut self, shared: Shared, range: Range<usize>) {
        self.bytes(shared.get(range).unwrap_or_default());
    }
    /// What a record is.
    fn description(&mut self, description: Description<'_>);
    /// A record and the state of its lease.
    fn lease(&mut self, record: Record<'_>, state: LeaseState);
    /// A value was stored as this version.
    fn stored(&mut self, version: u64);
    /// A condition did not hold.
    fn refused(&mut self, refusal: Refusal);
    /// A whole number.
    fn integer(&mut self, number: i64);
    /// The new value of a counter: its decimal text, and the record as it is now.
    fn number(&mut self, record: Record<'_>);
    /// The new length of a value, and its version.
    fn length(&mut self, length: usize, version: u64);
    /// Whether the command had an effect.
    fn flag(&mut self, flag: bool);
    /// Bytes that are not a record.
    fn bytes(&mut self, bytes: &[u8]);
    /// An expiry in milliseconds since the Unix epoch, or never.
    fn expiry(&mut self, expires_at_ms: Option<u64>);
    /// This many replies follow.
    fn list(&mut self, length: usize);
    /// A page: the cursor with which to continue (0 at the end); `length` replies follow.
    fn page(&mut self, cursor: u64, length: usize);
    /// A step of a walk: the key after which to continue (`None` at the end); `length` replies
    /// follow.
    fn slice(&mut self, after: Option<&[u8]>, length: usize);
    /// A key.
    fn key(&mut self, key: &[u8]);
    /// LCS spans, last match first, and the total length. `with_lengths` lists each span's length
    /// too.
    fn matches(&mut self, spans: &[LcsSpan], length: usize, with_lengths: bool);
    /// A reply of any shape. Only protocols with scripts receive it.
    fn value(&mut self, value: &Value) {
        let _ = value;
        self.none();
    }
    /// The command failed.
    fn error(&mut self, error: Error);
}
