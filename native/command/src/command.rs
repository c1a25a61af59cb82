//! The one enum that every request becomes.
//!
//! A command is a plain value: absolute times, no randomness, nothing that depends on the
//! connection it came from. It can be queued, replayed on another node and executed twice with the
//! same result. Protocols only build commands and word their replies; what a command means is
//! written once, in `execute`.

use todana_table::KeyRange;

/// One operation on a database. Byte strings are borrowed from the request.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant's sentence says what its fields are")]
pub enum Command<'a> {
    // ---- one key, read ----
    /// The record of a key. Reply: `record` or `none`.
    Get { key: &'a [u8] },
    /// The records of several keys, in order, as they are at one moment.
    /// Reply: `list(n)`, then `record` or `none` for each.
    GetMany { keys: &'a [&'a [u8]] },
    /// Length of the value in bytes, 0 without a record. Reply: `integer`.
    Length { key: &'a [u8] },
    /// Part of the value, by Redis' inclusive and possibly negative offsets. Reply: `bytes` (empty
    /// without a record).
    GetRange { key: &'a [u8], start: i64, end: i64 },
    /// One bit. Reply: `integer`.
    GetBit { key: &'a [u8], offset: u64 },
    /// Number of set bits in a span (all of the value if `None`). Reply: `integer`.
    BitCount { key: &'a [u8], span: Option<Span> },
    /// Position of the first bit that is `bit`, or -1 (rules of Redis' BITPOS). Reply: `integer`.
    BitPosition { key: &'a [u8], bit: bool, start: Option<i64>, end: Option<i64>, unit: Unit },
    /// Longest common subsequence of two values (Redis' LCS), whose lengths multiplied are at most
    /// 2^25, which takes up to ten milliseconds; in a batch 2^18. Reply: `bytes`, `integer`,
    /// `matches`, or
    /// `error(ValueTooLarge)`.
    Lcs { keys: [&'a [u8]; 2], want: LcsWant },
    /// How many of these keys exist, repeated ones counted again. Reply: `integer`.
    Exists { keys: &'a [&'a [u8]] },
    /// When the record expires. Reply: `expiry`, or `none` without a record.
    Expiry { key: &'a [u8] },
    /// Bytes that the record takes in the table. Reply: `integer`, or `none`.
    MemoryUsage { key: &'a [u8] },
    /// The record with memcached's meta reading: vivify, recache, touch, stale marks. Reply:
    /// `lease` or `none`.
    Lease { key: &'a [u8], options: LeaseOptions },

    // ---- one key, write ----
    /// Stores a value. Reply: `stored(version)`, or `refused`; with `return_old`: the old `record`
    /// or `none` instead (`refused` follows Redis' `SET .. GET`: the old record is the reply
    /// either way).
    Set(Set<'a>),
    /// Adds bytes at an end of the value. With `create`, a missing record counts as empty; else
    /// `refused(Absent)`. Reply: `length(new length, version)`.
    Concat {
        key: &'a [u8],
        bytes: &'a [u8],
        side: Side,
        create: bool,
        condition: Condition,
        expires: Expires,
    },
    /// Overwrites part of the value, zero-padded (Redis' SETRANGE). Reply: `integer` (new length).
    SetRange { key: &'a [u8], offset: u64, bytes: &'a [u8] },
    /// Sets one bit, zero-padded. Reply: `integer` (the old bit).
    SetBit { key: &'a [u8], offset: u64, bit: bool },
    /// Adds to a decimal number; every protocol's increment and decrement. Reply: `number`,
    /// `refused(Absent)` where there is no record and no `initial`, or `error`.
    Increment(Increment<'a>),
    /// Adds to a decimal fraction in x87 arithmetic (Redis' INCRBYFLOAT). Reply: `bytes` (the new
    /// text).
    IncrementFloat { key: &'a [u8], delta: &'a [u8] },
    /// Adds to a signed number of 64 bits that is stored as 8 bytes, the highest first, and wraps
    /// around (Kyoto Tycoon's increment). A `delta` of 0 changes nothing where there is a record.
    /// Reply: `integer`, `refused(Absent)`, or `error(NotACounter)`.
    IncrementBinary { key: &'a [u8], delta: i64, origin: Origin<i64>, expires: Expires },
    /// Adds to a fraction that is stored as 16 bytes (Kyoto Tycoon's increment_double): the bits of
    /// the doubles `delta` and `origin`. Reply: `bytes` (the new value), `refused(Absent)`, or
    /// `error(NotACounter)`.
    IncrementFraction { key: &'a [u8], delta_bits: u64, origin: Origin<u64>, expires: Expires },
    /// Stores `new`, or removes the record without one, where the value is `old` (without one:
    /// where there is no record). Reply: `done`, or `refused(ValueDiffers)`.
    CompareValue { key: &'a [u8], old: Option<&'a [u8]>, new: Option<&'a [u8]>, expires: Expires },
    /// Removes keys. Reply: `integer` (how many there were).
    Delete { keys: &'a [&'a [u8]] },
    /// Removes one key under a condition. Reply: `done`, or `refused`.
    DeleteIf { key: &'a [u8], condition: Condition },
    /// Marks a record stale for readers with leases (memcached `md I`), with a new expiry if given.
    /// Reply: `done` or `refused`.
    Invalidate { key: &'a [u8], condition: Condition, expires: Expires },
    /// Removes the record and returns it. Reply: `record` or `none`.
    Take { key: &'a [u8] },
    /// Returns the record and changes its expiry (GETEX, gat). Reply: `record` or `none`.
    GetAndExpire { key: &'a [u8], expires: Expires },
    /// Changes the expiry. Reply: `flag`.
    Expire { key: &'a [u8], expires: Expires, when: ExpireWhen },
    /// Counts existing keys and notes that they were looked at (Redis' TOUCH). Reply: `integer`.
    NoteAccess { keys: &'a [&'a [u8]] },

    // ---- several keys, always one atomic step ----
    /// Stores pairs. `IfAbsent` stores all or, if one key exists, none. Reply: `done` or
    /// `refused(Present)`.
    SetMany { pairs: &'a [(&'a [u8], &'a [u8])], condition: Condition, expires: Expires },
    /// Renames. Reply: `done`, `refused(Present)` with `if_absent`, or `refused(Absent)` without a
    /// source.
    Rename { from: &'a [u8], to: &'a [u8], if_absent: bool },
    /// Copies, also into another database. Reply: `flag`.
    Copy { from: &'a [u8], to: &'a [u8], database: Option<usize>, replace: bool },
    /// Moves to another database. Reply: `flag`.
    Move { key: &'a [u8], database: usize },

    // ---- the whole database ----
    /// Number of records. Reply: `integer`.
    Count,
    /// A page of keys. It looks at `count` records, or 4,096 where that is more, and at the rest of
    /// a shard. Reply: `page(next cursor, n)`, then n times `key` (or `record` with
    /// `values`).
    Scan { cursor: u64, count: usize, pattern: Option<&'a [u8]>, values: bool },
    /// A step of a walk over the database in its order. It may end before its count, where it holds
    /// many bytes or passed over thousands of keys (they have expired, or a prefix is not found at
    /// once); in a batch after a thousand, where `error(TooManyKeys)` tells that nothing was found
    /// before. Reply: `slice(key to go on after, n)`, then n
    /// times `key` (or `record` with `values`); `error(NotOrdered)`.
    Range {
        keys: KeyRange<'a>,
        after: Option<&'a [u8]>,
        reverse: bool,
        // 0 is taken for 1.
        count: usize,
        values: bool,
    },
    /// Removes expired records, about so many at most: see [`todana_table::Table::sweep`]. Nobody
    /// sees a difference but in counts. Reply: `flag` (whether more may be due).
    Sweep { work_max: usize },
    /// All keys that match. Reply: `list(n)`, then n times `key`.
    Keys { pattern: &'a [u8] },
    /// Some key; the seed decides which. Reply: `key` or `none`.
    RandomKey { seed: u64 },
    /// Removes all records, now or (`at_ms`) at a moment to come. Reply: `done`.
    Clear { at_ms: Option<u64> },

    // ---- all databases ----
    /// Clears all databases. Reply: `done`.
    ClearAll { at_ms: Option<u64> },
    /// Exchanges two databases. Reply: `done`.
    Swap { first: usize, second: usize },
}

/// The fields of [`Command::Set`].
#[derive(Clone, Debug, PartialEq)]
pub struct Set<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Opaque flags to keep with the record.
    pub flags: u32,
    /// Condition on the present record.
    pub condition: Condition,
    /// The new record's expiry.
    pub expires: Expires,
    /// Whether the reply is the old record.
    pub return_old: bool,
    /// Whether the record keeps an access word (records that come by memcached do).
    pub track_access: bool,
}

impl<'a> Set<'a> {
    /// Stores a value without conditions: no flags, no expiry.
    pub fn new(key: &'a [u8], value: &'a [u8]) -> Set<'a> {
        Set {
            key,
            value,
            flags: 0,
            condition: Condition::Always,
            expires: Expires::Never,
            return_old: false,
            track_access: false,
        }
    }
}

/// The fields of [`Command::Increment`].
#[derive(Clone, Debug, PartialEq)]
pub struct Increment<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What to add.
    pub delta: Delta,
    /// Value to store, as it is, where there is no record, and its expiry; `None` refuses instead.
    pub initial: Option<(Initial, Expires)>,
    /// Condition on the present record.
    pub condition: Condition,
    /// Expiry of the incremented record.
    pub expires: Expires,
    /// Whether a record made by `initial` keeps an access word.
    pub track_access: bool,
}

/// What an increment adds, and in which arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delta {
    /// Signed 64 bit; overflow is an error (Redis, Erlang). The stored text must be a strict
    /// decimal integer.
    Signed(i64),
    /// Unsigned 64 bit, wraps at 2^64 (memcached incr).
    WrappingAdd(u64),
    /// Unsigned 64 bit, stops at 0 (memcached decr).
    SaturatingSubtract(u64),
}

/// The number a missing counter starts with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// The counter counts as 0 and the delta is added (Redis).
    Zero,
    /// This number is stored and returned; nothing is added (memcached `ma N J`).
    Exactly(u64),
    /// The counter counts as this number and the delta is added (Erlang).
    From(i64),
}

/// What a missing counter counts as (Kyoto Tycoon's `orig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<T> {
    /// There must be one.
    Refuse,
    /// The counter is set to what would be added, whatever it is.
    Set,
    /// This number.
    From(T),
}

/// Condition on the present record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Condition {
    /// None.
    #[default]
    Always,
    /// There must be no record.
    IfAbsent,
    /// There must be a record.
    IfPresent,
    /// The record must have this version.
    IfVersion(u64),
    /// There must be a record, of this version or a later one. A value that is stored over a later
    /// version is marked stale and leaves expiry and win mark as they are (memcached `ms` with
    /// `I`).
    NotNewer(u64),
}

/// What a write does to the expiry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expires {
    /// The record never expires.
    #[default]
    Never,
    /// The expiry that the record has stays (never, for a new one).
    Keep,
    /// Milliseconds since the Unix epoch. A moment that has passed removes the record.
    At(u64),
}

/// When [`Command::Expire`] applies (Redis' NX, XX, GT, LT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireWhen {
    /// Only where there is no expiry yet.
    pub if_none: bool,
    /// Only where there is one.
    pub if_some: bool,
    /// Only where the new one is later (no expiry counts as infinitely late).
    pub if_later: bool,
    /// Only where the new one is earlier.
    pub if_earlier: bool,
}

/// Which end of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// After the last byte.
    Append,
    /// Before the first byte.
    Prepend,
}

/// A span of a value, inclusive, negative from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First.
    pub start: i64,
    /// Last.
    pub end: i64,
    /// What is counted.
    pub unit: Unit,
}

/// What the offsets of a bit command count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    #[default]
    Byte,
    /// Bits.
    Bit,
}

/// What LCS is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LcsWant {
    /// The subsequence.
    Text,
    /// Its length.
    Length,
    /// The matching spans.
    Spans {
        /// Shortest span to list.
        length_min: usize,
        /// Whether each span's length is listed.
        with_lengths: bool,
    },
}

/// Options of [`Command::Lease`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Make an empty record with this expiry where there is none; the caller wins the right to
    /// fill it.
    pub vivify: Option<Expires>,
    /// The first caller wins the right to recache once less than this many milliseconds are left
    /// to live.
    pub recache_below_ms: Option<u64>,
    /// New expiry for the record.
    pub touch: Option<Expires>,
    /// Do not note the look.
    pub quiet_access: bool,
    /// Nobody wins by this look (`me`).
    pub never_win: bool,
}
