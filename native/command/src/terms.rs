//! What commands of all families have: a context, conditions, expiries.

use crate::wire::{Input, Malformed, Put, Take, enums};
use todana_table::{Bound, KeyRange};

/// What execution needs to know beside the command.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Now, in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// Longest value that a command may build (SETRANGE, SETBIT, APPEND), in bytes.
    pub value_bytes_max: usize,
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
}
