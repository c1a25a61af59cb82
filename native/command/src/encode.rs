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

use crate::{
    Bound, Command, Condition, Delta, ExpireWhen, Expires, Increment, Initial, KeyRange, LcsWant,
    LeaseOptions, Origin, Set, Side, Span, Unit,
};

/// The first byte of every encoded command.
const FORMAT: u8 = 1;

/// The bytes are not a command of a known format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no encoded command")
    }
}

impl std::error::Error for Malformed {}

/// Storage for a decoded command's list of keys or pairs.
#[derive(Debug, Default)]
pub struct Scratch<'b> {
    keys: Vec<&'b [u8]>,
    pairs: Vec<(&'b [u8], &'b [u8])>,
}

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

/// The bytes that are not decoded yet.
struct Input<'b, 's> {
    rest: &'b [u8],
    /// `None` once a list was decoded: no command has two.
    scratch: Option<&'s mut Scratch<'b>>,
}

impl<'b> Input<'b, '_> {
    fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.rest.split_first().ok_or(Malformed)?;
        self.rest = rest;
        Ok(*byte)
    }

    fn bytes(&mut self) -> Result<&'b [u8], Malformed> {
        let length = usize::take(self)?;
        let (bytes, rest) = self.rest.split_at_checked(length).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }
}

/// A type that can be encoded.
trait Put {
    fn put(&self, out: &mut Vec<u8>);
}

/// A type that can be decoded, from bytes of lifetime `'b` with storage of lifetime `'s`.
trait Take<'b, 's>: Sized {
    fn take(input: &mut Input<'b, 's>) -> Result<Self, Malformed>;
}

impl Put for u64 {
    fn put(&self, out: &mut Vec<u8>) {
        let mut left = *self;
        while left >= 0x80 {
            out.push(left as u8 | 0x80);
            left >>= 7;
        }
        out.push(left as u8);
    }
}

impl Take<'_, '_> for u64 {
    fn take(input: &mut Input<'_, '_>) -> Result<u64, Malformed> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = input.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Malformed);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(Malformed)
    }
}

impl Put for i64 {
    fn put(&self, out: &mut Vec<u8>) {
        ((*self << 1) ^ (*self >> 63)).cast_unsigned().put(out);
    }
}

impl Take<'_, '_> for i64 {
    fn take(input: &mut Input<'_, '_>) -> Result<i64, Malformed> {
        let zigzag = u64::take(input)?;
        Ok((zigzag >> 1).cast_signed() ^ -(zigzag & 1).cast_signed())
    }
}

/// Integers encoded as `u64`.
macro_rules! as_u64 {
    ($($type:ty)*) => { $(
        impl Put for $type {
            fn put(&self, out: &mut Vec<u8>) {
                (*self as u64).put(out);
            }
        }

        impl Take<'_, '_> for $type {
            fn take(input: &mut Input<'_, '_>) -> Result<$type, Malformed> {
                u64::take(input)?.try_into().map_err(|_| Malformed)
            }
        }
    )* };
}

as_u64!(u32 usize);

impl Put for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }
}

impl Take<'_, '_> for bool {
    fn take(input: &mut Input<'_, '_>) -> Result<bool, Malformed> {
        match input.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Malformed),
        }
    }
}

impl<T: Put> Put for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        self.iter().for_each(|value| value.put(out));
    }
}

impl<'b, 's, T: Take<'b, 's>> Take<'b, 's> for Option<T> {
    fn take(input: &mut Input<'b, 's>) -> Result<Option<T>, Malformed> {
        if bool::take(input)? { T::take(input).map(Some) } else { Ok(None) }
    }
}

impl<T: Put, U: Put> Put for (T, U) {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
        self.1.put(out);
    }
}

impl<'b, 's, T: Take<'b, 's>, U: Take<'b, 's>> Take<'b, 's> for (T, U) {
    fn take(input: &mut Input<'b, 's>) -> Result<(T, U), Malformed> {
        Ok((T::take(input)?, U::take(input)?))
    }
}

impl Put for &[u8] {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        out.extend_from_slice(self);
    }
}

impl<'b: 's, 's> Take<'b, 's> for &'s [u8] {
    fn take(input: &mut Input<'b, 's>) -> Result<&'s [u8], Malformed> {
        input.bytes()
    }
}

impl Put for [&[u8]; 2] {
    fn put(&self, out: &mut Vec<u8>) {
        self.iter().for_each(|key| key.put(out));
    }
}

impl<'b: 's, 's> Take<'b, 's> for [&'s [u8]; 2] {
    fn take(input: &mut Input<'b, 's>) -> Result<[&'s [u8]; 2], Malformed> {
        Ok([input.bytes()?, input.bytes()?])
    }
}

impl Put for &[&[u8]] {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|key| key.put(out));
    }
}

impl<'b: 's, 's> Take<'b, 's> for &'s [&'s [u8]] {
    fn take(input: &mut Input<'b, 's>) -> Result<&'s [&'s [u8]], Malformed> {
        let Scratch { keys, .. } = input.scratch.take().ok_or(Malformed)?;
        keys.clear();
        for _ in 0..usize::take(input)? {
            keys.push(input.bytes()?);
        }
        Ok(keys)
    }
}

impl Put for &[(&[u8], &[u8])] {
    fn put(&self, out: &mut Vec<u8>) {
        self.len().put(out);
        self.iter().for_each(|pair| pair.put(out));
    }
}

impl<'b: 's, 's> Take<'b, 's> for &'s [(&'s [u8], &'s [u8])] {
    fn take(input: &mut Input<'b, 's>) -> Result<&'s [(&'s [u8], &'s [u8])], Malformed> {
        let Scratch { pairs, .. } = input.scratch.take().ok_or(Malformed)?;
        pairs.clear();
        for _ in 0..usize::take(input)? {
            pairs.push((input.bytes()?, input.bytes()?));
        }
        Ok(pairs)
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

/// Structs, by their fields.
macro_rules! structs {
    ($($name:ident $(<$life:lifetime>)? { $($field:ident),* })*) => { $(
        impl $(<$life>)? Put for $name $(<$life>)? {
            fn put(&self, out: &mut Vec<u8>) {
                $( self.$field.put(out); )*
            }
        }

        impl<'b: 's, 's> Take<'b, 's> for structs!(@taken $name $($life)?) {
            fn take(input: &mut Input<'b, 's>) -> Result<Self, Malformed> {
                Ok($name { $( $field: Take::take(input)? ),* })
            }
        }
    )* };
    (@taken $name:ident) => { $name };
    (@taken $name:ident $life:lifetime) => { $name<'s> };
}

structs! {
    ExpireWhen { if_none, if_some, if_later, if_earlier }
    Span { start, end, unit }
    LeaseOptions { vivify, recache_below_ms, touch, quiet_access, never_win }
    Set<'a> { key, value, flags, condition, expires, return_old, track_access }
    Increment<'a> { key, delta, initial, condition, expires, track_access }
}

/// Enums: the number of each variant, and its fields. A field of a tuple is written `0: name`.
macro_rules! enums {
    ($($name:ident $(<$life:lifetime>)? {
        $( $number:literal $variant:ident { $( $field:tt $(: $alias:ident)? ),* } )*
    })*) => { $(
        impl $(<$life>)? Put for $name $(<$life>)? {
            fn put(&self, out: &mut Vec<u8>) {
                match self {
                    $( $name::$variant { $( $field $(: $alias)? ),* } => {
                        out.push($number);
                        $( enums!(@name $field $($alias)?).put(out); )*
                    } )*
                }
            }
        }

        impl<'b: 's, 's> Take<'b, 's> for enums!(@taken $name $($life)?) {
            fn take(input: &mut Input<'b, 's>) -> Result<Self, Malformed> {
                match input.byte()? {
                    $( $number => Ok($name::$variant { $( $field: Take::take(input)? ),* }), )*
                    _ => Err(Malformed),
                }
            }
        }
    )* };
    (@name $field:ident) => { $field };
    (@name $field:tt $alias:ident) => { $alias };
    (@taken $name:ident) => { $name };
    (@taken $name:ident $life:lifetime) => { $name<'s> };
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
    }
}
