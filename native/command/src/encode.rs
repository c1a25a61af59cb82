//! Commands as bytes, for logs and for other nodes.
//!
//! ```text
//!  format 1 | variant 1 | fields, in the order of the variant's definition
//!
//!  u64, u32, usize     LEB128: seven bits a byte, lowest first, the high bit means more
//!  i64                 LEB128 of its zigzag form (0, -1, 1, -2 become 0, 1, 2, 3)
//!  bool                one byte, 0 or 1
//!  bytes               length, bytes
//!  list                number of items, items
//!  option              0, or 1 and the value
//!  enum                number of the variant, its fields
//!  struct              its fields
//!
//!  INCR n              01 10 | 01 6e | 00 02 | 01 00 00 | 00 | 01 | 00
//!                      format, Increment, "n", Signed(1), Some(Zero, Never), Always,
//!                      Keep, no access word
//! ```
//!
//! The numbers below never change: a removed variant leaves a gap, and a variant with changed
//! fields gets a new number. The decoder trusts nothing: arbitrary bytes yield a command or
//! [`Malformed`], and take at most sixteen times the memory of the bytes (a list of empty keys).

use crate::wire::{Input, Malformed, Put, Scratch, Take, enums, structs};
use crate::{
    BitOperator, Bound, Command, Condition, Delta, ExpireWhen, Expires, Increment, Initial,
    KeyRange, LcsWant, LeaseOptions, Origin, Script, Set, Side, Span, Unit,
};

/// The first byte of every encoded command.
const FORMAT: u8 = 1;

impl Command<'_> {
    /// Appends the command as bytes. Encoded commands may follow each other without a separator.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.push(FORMAT);
        self.put(out);
    }

    /// The command at the front of `bytes`, and the bytes after it. The command borrows from both
    /// arguments.
    pub fn decode<'b: 's, 's>(
        bytes: &'b [u8],
        scratch: &'s mut Scratch<'b>,
    ) -> Result<(Command<'s>, &'b [u8]), Malformed> {
        let (format, rest) = bytes.split_first().ok_or(Malformed)?;
        if *format != FORMAT {
            return Err(Malformed);
        }
        let mut input = Input { rest, scratch: Some(scratch) };
        let command = Command::take(&mut input)?;
        Ok((command, input.rest))
    }
}

impl<T: Put> Put for Origin<T> {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Origin::Refuse => out.push(0),
            Origin::Set => out.push(1),
            Origin::From(number) => {
                out.push(2);
                number.put(out);
            }
        }
    }
}

impl<'b, 's, T: Take<'b, 's>> Take<'b, 's> for Origin<T> {
    fn take(input: &mut Input<'b, 's>) -> Result<Self, Malformed> {
        match input.byte()? {
            0 => Ok(Origin::Refuse),
            1 => Ok(Origin::Set),
            2 => Ok(Origin::From(T::take(input)?)),
            _ => Err(Malformed),
        }
    }
}

structs! {
    ExpireWhen { if_none, if_some, if_later, if_earlier }
    Span { start, end, unit }
    LeaseOptions { vivify, recache_below_ms, touch, quiet_access, never_win }
    Set<'a> { key, value, flags, condition, expires, return_old, track_access }
    Increment<'a> { key, delta, initial, condition, expires, track_access }
    Script<'a> { source, words, keys, steps_max, bytes_max, reads }
}

enums! {
    Condition {
        0 Always {}
        1 IfAbsent {}
        2 IfPresent {}
        3 IfVersion { 0: version }
        4 NotNewer { 0: version }
    }
    Expires {
        0 Never {}
        1 Keep {}
        2 At { 0: at_ms }
        3 After { 0: ms }
        4 AfterSecond { 0: seconds }
    }
    Bound<'a> {
        0 Included { 0: key }
        1 Excluded { 0: key }
        2 Unbounded {}
    }
    KeyRange<'a> {
        0 All {}
        1 Between { 0: from, 1: to }
        2 Prefix { 0: prefix }
    }
    Delta {
        0 Signed { 0: delta }
        1 WrappingAdd { 0: delta }
        2 SaturatingSubtract { 0: delta }
    }
    Initial {
        0 Zero {}
        1 Exactly { 0: number }
        2 From { 0: number }
    }
    Side {
        0 Append {}
        1 Prepend {}
    }
    Unit {
        0 Byte {}
        1 Bit {}
    }
    BitOperator {
        0 And {}
        1 Or {}
        2 Xor {}
        3 Not {}
        4 Diff {}
        5 Diff1 {}
        6 AndOr {}
        7 One {}
    }
    LcsWant {
        0 Text {}
        1 Length {}
        2 Spans { length_min, with_lengths }
    }
    Command<'a> {
        0 Get { key }
        1 GetMany { keys }
        2 Length { key }
        3 GetRange { key, start, end }
        4 GetBit { key, offset }
        5 BitCount { key, span }
        6 BitPosition { key, bit, start, end, unit }
        7 Lcs { keys, want }
        8 Exists { keys }
        9 Expiry { key }
        10 MemoryUsage { key }
        11 Lease { key, options }
        12 Set { 0: set }
        14 SetRange { key, offset, bytes }
        15 SetBit { key, offset, bit }
        16 Increment { 0: increment }
        17 IncrementFloat { key, delta }
        18 Delete { keys }
        19 DeleteIf { key, condition }
        20 Invalidate { key, condition, expires }
        21 Take { key }
        22 GetAndExpire { key, expires }
        23 Expire { key, expires, when }
        24 NoteAccess { keys }
        25 SetMany { pairs, condition, expires }
        26 Rename { from, to, if_absent }
        27 Copy { from, to, database, replace }
        28 Move { key, database }
        29 Count {}
        30 Scan { cursor, count, pattern, values }
        31 Keys { pattern }
        32 RandomKey { seed }
        33 Clear { at_ms }
        34 ClearAll { at_ms }
        35 Swap { first, second }
        36 Concat { key, bytes, side, create, condition, expires }
        37 IncrementBinary { key, delta, origin, expires }
        38 IncrementFraction { key, delta_bits, origin, expires }
        39 CompareValue { key, old, new, expires }
        40 Range { keys, after, reverse, count, values }
        41 Sweep { work_max }
        42 KeysOfSlot { slot, count }
        43 ReplaceIf { key, value, equal, new, expires, return_old }
        44 Script { 0: script }
        50 BitOperation { operator, keys }
        51 BitFields { key, words, writes }
        52 AddToSketch { key, elements }
        53 CountSketches { keys }
        54 MergeSketches { keys }
        55 Dump { key }
        56 Restore { key, payload, expires, replace }
        57 StoreNothing { keys }
    }
}
