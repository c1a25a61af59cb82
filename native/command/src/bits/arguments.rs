//! The arguments of commands on bits.

use crate::wire::{Input, Malformed, Put, Take, enums, structs};

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

structs! {
    Span { start, end, unit }
}

enums! {
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
}
