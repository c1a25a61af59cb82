//! The part of a table to walk over, and in which order.

/// How an ordered table compares keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyOrder {
    /// How two keys compare.
    pub comparison: Comparison,
    /// Whether the order is reversed.
    pub descending: bool,
}

/// How two keys compare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Comparison {
    /// Their bytes.
    #[default]
    Lexical,
    /// The decimal number at their front, then their bytes (Kyoto Cabinet's `dec`).
    Decimal,
}

/// One end of a range of keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bound<'a> {
    /// The key itself is in the range.
    Included(&'a [u8]),
    /// The range ends at the key and excludes it.
    Excluded(&'a [u8]),
    /// The range extends to the end of the table.
    #[default]
    Unbounded,
}

/// Keys to walk over, in the table's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyRange<'a> {
    /// All keys. A table without an order supports only this range, forward, in some order that
    /// does not change.
    #[default]
    All,
    /// From the first bound to the second, which the order puts after the first. In a descending
    /// order the first is the higher one.
    Between(Bound<'a>, Bound<'a>),
    /// Keys that begin with these bytes. In a decimal order they are not adjacent: all keys are
    /// examined.
    Prefix(&'a [u8]),
}

/// One step of a walk over a table in its order. The next step begins after the last key of this
/// one: between two steps no state is kept and no lock is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk<'a> {
    /// The range of keys.
    pub keys: KeyRange<'a>,
    /// Where to continue: after this key, in the direction of the walk. The key need not exist.
    pub after: Option<&'a [u8]>,
    /// Whether to walk from the end to the beginning.
    pub reverse: bool,
    /// Maximum number of entries to visit.
    pub count: usize,
}

/// Where a step of a walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walked {
    /// There are no more keys.
    End,
    /// Continue after this key. There may be no more keys.
    Until(Vec<u8>),
}

/// The table is not ordered, or its order does not permit this walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOrdered;

impl std::fmt::Display for NotOrdered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the table is not ordered")
    }
}

impl std::error::Error for NotOrdered {}
