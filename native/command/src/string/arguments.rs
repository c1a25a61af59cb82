//! The arguments of commands on strings.

use crate::wire::{Input, Malformed, Put, Take, enums, structs};
use crate::{Condition, Expires};

/// The fields of [`StringCommand::Set`](crate::StringCommand::Set).
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
    #[inline]
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

/// The fields of [`StringCommand::Increment`](crate::StringCommand::Increment).
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

/// An end of the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// After the last byte.
    Append,
    /// Before the first byte.
    Prepend,
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

structs! {
    Set<'a> { key, value, flags, condition, expires, return_old, track_access }
    Increment<'a> { key, delta, initial, condition, expires, track_access }
}

enums! {
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
    LcsWant {
        0 Text {}
        1 Length {}
        2 Spans { length_min, with_lengths }
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
