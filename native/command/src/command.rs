//! The enum that every request becomes.
//!
//! A command is a plain value: times are absolute, nothing is random, and nothing depends on the
//! connection that sent it. It can be queued, replayed on another node and executed twice with the
//! same result. Protocols only build commands and format their replies; `execute` alone defines the
//! meaning of a command.

use todana_table::KeyRange;

/// One operation on a database. Byte strings are borrowed from the request.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "each variant's sentence says what its fields are")]
pub enum Command<'a> {
    // ---- one key, read ----
    /// The record of a key. Reply: `record` or `none`.
    Get { key: &'a [u8] },
    /// The records of several keys, in order, all of the same moment. Reply: `list(n)`, then
    /// `record` or `none` for each.
    GetMany { keys: &'a [&'a [u8]] },
    /// Length of the value in bytes, 0 without a record. Reply: `integer`.
    Length { key: &'a [u8] },
    /// Part of the value, by Redis' inclusive and possibly negative offsets. Reply: `bytes` (empty
    /// without a record).
    GetRange { key: &'a [u8], start: i64, end: i64 },
    /// One bit. Reply: `integer`.
    GetBit { key: &'a [u8], offset: u64 },
    /// Number of set bits in a span (in the whole value if `None`). Reply: `integer`.
    BitCount { key: &'a [u8], span: Option<Span> },
    /// Position of the first bit that is `bit`, or -1 (rules of Redis' BITPOS). Reply: `integer`.
    BitPosition { key: &'a [u8], bit: bool, start: Option<i64>, end: Option<i64>, unit: Unit },
    /// Longest common subsequence of two values (Redis' LCS). The product of their lengths is at
    /// most 2^25, which takes up to ten milliseconds; in a batch 2^18. Reply: `bytes`, `integer`,
    /// `matches`, or `error(ValueTooLarge)`.
    Lcs { keys: [&'a [u8]; 2], want: LcsWant },
    /// The value in the form of Redis' DUMP. Reply: `bytes`, or `none`.
    Dump { key: &'a [u8] },
    /// Estimated number of different elements in HyperLogLogs together; missing records have none.
    /// Reply: `integer`, or `error(NotASketch)`, `error(CorruptSketch)`.
    CountSketches { keys: &'a [&'a [u8]] },
    /// How many of these keys exist; repeated keys count again. Reply: `integer`.
    Exists { keys: &'a [&'a [u8]] },
    /// The expiry of the record. Reply: `expiry`, or `none` without a record.
    Expiry { key: &'a [u8] },
    /// Bytes that the record occupies in the table. Reply: `integer`, or `none`.
    MemoryUsage { key: &'a [u8] },
    /// The record in the manner of memcached's meta get: vivify, recache, touch, stale marks.
    /// Reply: `lease` or `none`.
    Lease { key: &'a [u8], options: LeaseOptions },

    // ---- one key, write ----
    /// Stores a value. Reply: `stored(version)`, or `refused`; with `return_old`, the old `record`
    /// or `none` instead (`refused` follows Redis' `SET .. GET`: the old record is the reply in
    /// either case).
    Set(Set<'a>),
    /// Adds bytes at one end of the value. With `create`, a missing record counts as empty;
    /// otherwise the reply is `refused(Absent)`. Reply: `length(new length, version)`.
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
    /// Reads and changes integers of any width at any bit: the words of Redis' BITFIELD after the
    /// key, see [`Fields::of`](crate::Fields::of). `writes` says whether one of them changes the
    /// value; the others are refused otherwise. Reply: `list(n)`, then n times `integer`, or `none`
    /// for a number that does not fit; `error(ValueTooLarge)`.
    BitFields { key: &'a [u8], words: &'a [&'a [u8]], writes: bool },
    /// Adds elements to a HyperLogLog, which is created if it is missing. Reply: `flag`, or
    /// `error(NotASketch)`, `error(CorruptSketch)`.
    AddToSketch { key: &'a [u8], elements: &'a [&'a [u8]] },
    /// Stores the value of a payload of DUMP. Reply: `done`, `refused(Present)` unless `replace`,
    /// or `error(BadPayload)`, `error(BadFormat)`, `error(OtherType)`, `error(ValueTooLarge)`.
    Restore { key: &'a [u8], payload: &'a [u8], expires: Expires, replace: bool },
    /// Adds to a decimal number; every protocol's increment and decrement. Reply: `number`,
    /// `refused(Absent)` without a record and `initial`, or `error`.
    Increment(Increment<'a>),
    /// Adds to a decimal fraction in x87 arithmetic (Redis' INCRBYFLOAT). Reply: `bytes` (the new
    /// text).
    IncrementFloat { key: &'a [u8], delta: &'a [u8] },
    /// Adds to a signed 64-bit number that is stored as 8 big-endian bytes, and wraps around (Kyoto
    /// Tycoon's increment). A `delta` of 0 does not change an existing record. Reply: `integer`,
    /// `refused(Absent)`, or `error(NotACounter)`.
    IncrementBinary { key: &'a [u8], delta: i64, origin: Origin<i64>, expires: Expires },
    /// Adds to a fraction that is stored as 16 bytes (Kyoto Tycoon's increment_double). `delta` and
    /// `origin` are the bits of doubles. Reply: `bytes` (the new value), `refused(Absent)`, or
    /// `error(NotACounter)`.
    IncrementFraction { key: &'a [u8], delta_bits: u64, origin: Origin<u64>, expires: Expires },
    /// Stores `new`, or removes the record if `new` is `None`, provided that the value is `old`
    /// (`None`: that there is no record). Reply: `done`, or `refused(ValueDiffers)`.
    CompareValue { key: &'a [u8], old: Option<&'a [u8]>, new: Option<&'a [u8]>, expires: Expires },
    /// Stores `new`, or removes the record if `new` is `None`, provided that the value is `value`,
    /// or is not if `equal` is false (Redis' IFEQ and IFNE). A missing record is not equal; there
    /// is nothing to remove then. Reply: `done`, or `refused(ValueDiffers)`; with `return_old`, the
    /// old `record` or `none` in either case.
    ReplaceIf {
        key: &'a [u8],
        value: &'a [u8],
        equal: bool,
        new: Option<&'a [u8]>,
        expires: Expires,
        return_old: bool,
    },
    /// Removes keys. Reply: `integer` (how many existed).
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
    /// Counts existing keys and records an access to each (Redis' TOUCH). Reply: `integer`.
    NoteAccess { keys: &'a [&'a [u8]] },

    // ---- several keys, always one atomic step ----
    /// Stores pairs. `IfAbsent` stores all of them, or none if any key exists. Reply: `done` or
    /// `refused(Present)`.
    SetMany { pairs: &'a [(&'a [u8], &'a [u8])], condition: Condition, expires: Expires },
    /// Combines the values of the keys after the first bit by bit, and stores the result at the
    /// first; an empty result removes the record. In one step, the values have 256 MiB at most.
    /// Reply: `integer` (the length), or `error(ValueTooLarge)`, `error(Contended)`.
    BitOperation { operator: BitOperator, keys: &'a [&'a [u8]] },
    /// Adds the elements of HyperLogLogs to the first. Reply: `done`, or `error(NotASketch)`,
    /// `error(CorruptSketch)`.
    MergeSketches { keys: &'a [&'a [u8]] },
    /// Removes the second key, provided that there is no record of the first: SORT with STORE,
    /// since there are no lists to be sorted. Reply: `integer` (0), or `refused(Present)`.
    StoreNothing { keys: [&'a [u8]; 2] },
    /// Renames. Reply: `done`, `refused(Present)` with `if_absent`, or `refused(Absent)` without a
    /// source.
    Rename { from: &'a [u8], to: &'a [u8], if_absent: bool },
    /// Copies a record, optionally to another database. Reply: `flag`, or
    /// `error(DifferentDurability)`.
    Copy { from: &'a [u8], to: &'a [u8], database: Option<usize>, replace: bool },
    /// Moves a record to another database. Reply: `flag`, or `error(DifferentDurability)`.
    Move { key: &'a [u8], database: usize },

    /// Runs a script, which reads and writes its keys. If it is stopped for its limits, nothing of
    /// it stays. Reply: `value`.
    Script(Script<'a>),

    // ---- the whole database ----
    /// Number of records. Reply: `integer`.
    Count,
    /// A page of keys. Visits `count` records, but at most 4,096, and the rest of a shard. Reply:
    /// `page(next cursor, n)`, then n times `key` (or `record` with `values`).
    Scan { cursor: u64, count: usize, pattern: Option<&'a [u8]>, values: bool },
    /// A step of a walk over the database in order. The step may end before `count` if it holds
    /// many bytes, or has skipped thousands of keys (because they have expired, or a prefix is not
    /// found at once). In a batch it ends after a thousand skipped keys, with `error(TooManyKeys)`
    /// if it found none before. Reply: `slice(key after which to continue, n)`, then n times `key`
    /// (or `record` with `values`); `error(NotOrdered)`.
    Range {
        keys: KeyRange<'a>,
        after: Option<&'a [u8]>,
        reverse: bool,
        // 0 counts as 1.
        count: usize,
        values: bool,
    },
    /// Removes about `work_max` expired records at most: see [`todana_table::Table::sweep`]. Only
    /// the counts change visibly. Reply: `flag` (whether more may be due).
    Sweep { work_max: usize },
    /// All keys that match. Reply: `list(n)`, then n times `key`.
    Keys { pattern: &'a [u8] },
    /// Keys of a hash slot, at most `count`. Reply: `list(n)`, then n times `key`.
    KeysOfSlot { slot: u16, count: usize },
    /// A random key, chosen by the seed. Reply: `key` or `none`.
    RandomKey { seed: u64 },
    /// Removes all records, at once or at the later time `at_ms`. Reply: `done`.
    Clear { at_ms: Option<u64> },

    // ---- all databases ----
    /// Clears all databases that are durable if this one is, or all that are not. Reply: `done`.
    ClearAll { at_ms: Option<u64> },
    /// Exchanges two databases. Reply: `done`, or `error(DifferentDurability)`.
    Swap { first: usize, second: usize },
}

/// What execution needs to know beside the command.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Now, in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// Longest value that a command may build (SETRANGE, SETBIT, APPEND), in bytes.
    pub value_bytes_max: usize,
}

/// The fields of [`Command::Set`].
#[derive(Clone, Debug, PartialEq)]
pub struct Set<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The value.
    pub value: &'a [u8],
    /// Opaque flags that are stored with the record.
    pub flags: u32,
    /// Condition on the present record.
    pub condition: Condition,
    /// The new record's expiry.
    pub expires: Expires,
    /// Whether to reply with the old record.
    pub return_old: bool,
    /// Whether the record has an access word (records written by memcached clients do).
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

/// The fields of [`Command::Script`].
#[derive(Clone, Debug, PartialEq)]
pub struct Script<'a> {
    /// The program.
    pub source: &'a [u8],
    /// The keys, and after them the arguments.
    pub words: &'a [&'a [u8]],
    /// How many of the words are keys.
    pub keys: usize,
    /// Most steps, in the measure of the interpreter.
    pub steps_max: u64,
    /// Most bytes of memory.
    pub bytes_max: u64,
    /// Whether it must not write.
    pub reads: bool,
}

impl<'a> Script<'a> {
    /// The keys that it declares.
    pub fn keys(&self) -> &'a [&'a [u8]] {
        &self.words[..self.keys.min(self.words.len())]
    }

    /// Its arguments.
    pub fn arguments(&self) -> &'a [&'a [u8]] {
        &self.words[self.keys.min(self.words.len())..]
    }
}

/// The fields of [`Command::Increment`].
#[derive(Clone, Debug, PartialEq)]
pub struct Increment<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The amount to add.
    pub delta: Delta,
    /// The value that is stored if there is no record, and its expiry; `None` refuses instead.
    pub initial: Option<(Initial, Expires)>,
    /// Condition on the present record.
    pub condition: Condition,
    /// Expiry of the incremented record.
    pub expires: Expires,
    /// Whether a record created by `initial` has an access word.
    pub track_access: bool,
}

/// The amount that an increment adds, and the arithmetic.
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

/// The initial number of a missing counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// The counter counts as 0, and the delta is added (Redis).
    Zero,
    /// This number is stored and returned; nothing is added (memcached `ma N J`).
    Exactly(u64),
    /// The counter counts as this number, and the delta is added (Erlang).
    From(i64),
}

/// The initial number of a missing counter (Kyoto Tycoon's `orig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin<T> {
    /// The command is refused.
    Refuse,
    /// The counter is set to the delta.
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
    /// There must be a record of this version or a later one. A value that replaces a later version
    /// is marked stale, and keeps the expiry and the win mark (memcached `ms` with `I`).
    NotNewer(u64),
}

/// The expiry after a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expires {
    /// The record never expires.
    #[default]
    Never,
    /// The record keeps its expiry; a new record never expires.
    Keep,
    /// Milliseconds since the Unix epoch. A time in the past removes the record.
    At(u64),
    /// Milliseconds after the write. A write that waits in a log is executed later than it was
    /// sent, so only the execution knows the moment.
    After(u64),
    /// The end of the second that is this number of seconds after the second of the write (Kyoto
    /// Tycoon's `xt`).
    AfterSecond(u64),
}

impl Expires {
    /// The expiry of a record that is written at `now_ms` and had the expiry `present_ms`.
    #[inline]
    pub fn resolve(self, present_ms: Option<u64>, now_ms: u64) -> Option<u64> {
        match self {
            Expires::Never => None,
            Expires::Keep => present_ms,
            Expires::At(at_ms) => Some(at_ms),
            Expires::After(ms) => Some(now_ms.saturating_add(ms)),
            Expires::AfterSecond(seconds) => {
                let second = (now_ms / 1000).saturating_add(seconds);
                Some(second.saturating_add(1).saturating_mul(1000))
            }
        }
    }
}

/// The conditions of [`Command::Expire`] (Redis' NX, XX, GT, LT).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExpireWhen {
    /// Only if there is no expiry yet.
    pub if_none: bool,
    /// Only if there is an expiry.
    pub if_some: bool,
    /// Only if the new expiry is later (no expiry counts as infinitely late).
    pub if_later: bool,
    /// Only if the new expiry is earlier.
    pub if_earlier: bool,
}

/// An end of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// After the last byte.
    Append,
    /// Before the first byte.
    Prepend,
}

/// A span of a value: inclusive offsets, negative ones from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First.
    pub start: i64,
    /// Last.
    pub end: i64,
    /// The unit of the offsets.
    pub unit: Unit,
}

/// The unit of a bit command's offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unit {
    /// Bytes.
    #[default]
    Byte,
    /// Bits.
    Bit,
}

/// How BITOP combines values. Zeroes follow the end of a short one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BitOperator {
    /// Bits that are set in all values.
    And,
    /// Bits that are set in one value or more.
    Or,
    /// Bits that are set in an odd number of values.
    Xor,
    /// Bits that are not set in the only value.
    Not,
    /// Bits that are set in the first value and in no other.
    Diff,
    /// Bits that are set in another value than the first, and not there.
    Diff1,
    /// Bits that are set in the first value and in another.
    AndOr,
    /// Bits that are set in exactly one value.
    One,
}

/// The result that LCS returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LcsWant {
    /// The subsequence.
    Text,
    /// Its length.
    Length,
    /// The matching spans.
    Spans {
        /// The shortest span to list.
        length_min: usize,
        /// Whether each span's length is listed.
        with_lengths: bool,
    },
}

/// Options of [`Command::Lease`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseOptions {
    /// Creates an empty record with this expiry if there is none; the caller wins the right to fill
    /// it.
    pub vivify: Option<Expires>,
    /// The first caller wins the right to recache once the record has less than this many
    /// milliseconds left.
    pub recache_below_ms: Option<u64>,
    /// New expiry for the record.
    pub touch: Option<Expires>,
    /// Do not record the access.
    pub quiet_access: bool,
    /// This call never wins (`me`).
    pub never_win: bool,
}
