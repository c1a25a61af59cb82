//! Which part of a table to walk over, in which order.

/// How an ordered table compares keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyOrder {
    /// What decides between two keys.
    pub comparison: Comparison,
    /// Whether the order is turned round.
    pub descending: bool,
}

/// What decides between two keys.
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
    /// The range ends beside the key.
    Excluded(&'a [u8]),
    /// The range goes on to the end of the table.
    #[default]
    Unbounded,
}

/// Keys to walk over. Their order is the table's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyRange<'a> {
    /// All. The only range that a table without an order has: it is walked forward only, in some
    /// order that stays the same.
    #[default]
    All,
    /// From the first bound, which the order puts before the second, to that. In a descending
    /// order the first is the higher one.
    Between(Bound<'a>, Bound<'a>),
    /// Those that begin with these bytes. In a decimal order they are not side by side: all keys
    /// are looked at.
    Prefix(&'a [u8]),
}

/// One step of a walk over a table in its order. The next step begins after the key that this one
/// ended with: nothing is kept, and no lock is held, between two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Walk<'a> {
    /// The keys.
    pub keys: KeyRange<'a>,
    /// Where to go on: after this key, in the direction of the walk. The key need not be there.
    pub after: Option<&'a [u8]>,
    /// Whether to walk from the end to the beginning.
    pub reverse: bool,
    /// Most entries to visit.
    pub count: usize,
}

/// Where a step of a walk ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Walked {
    /// There is nothing more.
    End,
    /// Go on after this key. There may be nothing more.
    Until(Vec<u8>),
}

/// The table is not ordered, or not in a way that this walk could follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotOrdered;

impl std::fmt::Display for NotOrdered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the table is not ordered")
    }
}

impl std::error::Error for NotOrdered {}
