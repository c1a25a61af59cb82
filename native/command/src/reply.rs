//! What a command answers, as calls on a writer.
//!
//! `execute` calls these methods while the record is in hand, so that a value travels from the
//! table to the client's buffer (or the process' heap) in one copy. Each door implements the trait
//! with its own words.

use std::ops::Range;
use todana_table::{Entry, Shared};

/// Values from this length on are given to a reply by a handle, unless it wants others.
pub const KEPT_BYTES_MIN: usize = 16 << 10;

/// A record as the doors see it. Borrowed from the table for the duration of the call.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Opaque client flags.
    pub flags: u32,
    /// Version of the write that made it: the CAS token.
    pub version: u64,
    /// Expiry in milliseconds since the Unix epoch.
    pub expires_at_ms: Option<u64>,
}

impl<'a> Record<'a> {
    /// The record of an entry. Always inlined: most callers want a part of it.
    #[inline(always)]
    pub fn of(entry: &Entry<'a>) -> Record<'a> {
        Record {
            key: entry.key(),
            value: entry.value(),
            flags: entry.flags(),
            version: entry.version(),
            expires_at_ms: entry.expires_at_ms(),
        }
    }
}

/// What a leased read tells beside the record (memcached's meta get).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseState {
    /// This caller is to recache (`W`).
    pub won: bool,
    /// Some other caller was told so before (`Z`).
    pub already_won: bool,
    /// The record is marked stale (`X`).
    pub stale: bool,
    /// Whether it had been fetched before this look (`h`).
    pub fetched_before: bool,
    /// Seconds since the last look before this one (`l`).
    pub idle_s: u64,
    /// The record was made by this very call (vivify).
    pub created: bool,
}

/// Why a conditional write did not apply. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is a record already.
    Present,
    /// There is no record.
    Absent,
    /// The record has another version.
    VersionDiffers,
    /// The record has another value, or there is one where none was expected or none where one was.
    ValueDiffers,
}

/// Why a command failed. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The value is not a decimal integer of 64 bits.
    NotAnInteger,
    /// The value is not a decimal number.
    NotAFloat,
    /// Addition would leave the range of signed 64 bits.
    Overflow,
    /// Addition would give NaN or infinity.
    NotFinite,
    /// The new value would be longer than a value may be.
    ValueTooLarge,
    /// The table is at its limit and may not, or could not, evict.
    Full,
    /// There is no such database.
    NoSuchDatabase,
    /// Source and destination are the same.
    SameObject,
    /// The value is no counter of the kind that was asked for.
    NotACounter,
    /// The table is not ordered, or not in the way that was asked for.
    NotOrdered,
    /// What was asked for is more than one reply may hold.
    ReplyTooLarge,
    /// To find what was asked for, more keys would have to be looked at than a batch may.
    TooManyKeys,
}

/// One matching span pair of LCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LcsSpan {
    /// First and last offset in the first value.
    pub first: (usize, usize),
    /// First and last offset in the second value.
    pub second: (usize, usize),
}

/// Where a command's answer goes. See [`Command`](crate::Command) for which of these each command
/// calls.
pub trait Reply {
    /// The write was done and there is nothing more to say.
    fn done(&mut self);
    /// There is no such record.
    fn none(&mut self);
    /// A record.
    fn record(&mut self, record: Record<'_>);
    /// Whether a value of this length is to be given by [`Reply::kept`].
    #[inline]
    fn keeps(&self, value_bytes: usize) -> bool {
        value_bytes >= KEPT_BYTES_MIN
    }
    /// A large record, by a handle that keeps it: whoever answers a batch can copy the value when
    /// the batch's locks are gone, and others in turns.
    fn kept(&mut self, shared: Shared) {
        self.record(Record::of(&shared.entry()));
    }
    /// A part of a large value, by a handle that keeps it.
    fn part(&mut self, shared: Shared, range: Range<usize>) {
        self.bytes(shared.get(range).unwrap_or_default());
    }
    /// A record with what a lease tells.
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
    /// Whether something was done.
    fn flag(&mut self, flag: bool);
    /// Bytes that are no record.
    fn bytes(&mut self, bytes: &[u8]);
    /// An expiry in milliseconds since the Unix epoch, or never.
    fn expiry(&mut self, expires_at_ms: Option<u64>);
    /// This many replies follow.
    fn list(&mut self, length: usize);
    /// A page: the cursor to go on with (0 is the end); `length` replies follow.
    fn page(&mut self, cursor: u64, length: usize);
    /// A step of a walk: the key to go on after (`None` is the end); `length` replies follow.
    fn slice(&mut self, after: Option<&[u8]>, length: usize);
    /// A key.
    fn key(&mut self, key: &[u8]);
    /// LCS spans, last match first, and the total length. `with_lengths`: list each span's length
    /// too.
    fn matches(&mut self, spans: &[LcsSpan], length: usize, with_lengths: bool);
    /// The command failed.
    fn error(&mut self, error: Error);
}
