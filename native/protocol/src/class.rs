//! What requests do to records, row by row.
//!
//! Each protocol has a table of its requests. This is the class of each row: in that of RESP it
//! follows from flags, in the others it is a column. What a command does to records is decided by
//! [`Command::access`](todana_command::Command::access) alone; the tests of each protocol compare
//! the two on databases that are durable.

use todana_command::Access;

/// What a request does to records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// It reads records, and changes none.
    Read,
    /// It may change records. On a durable database it goes through the log, and is refused while
    /// the log accepts no writes. Some requests of such a row only read (`GETEX` without an option,
    /// `mg` without a lease), and are not refused.
    Write,
    /// It concerns the connection or the node, not records.
    Local,
}

impl Class {
    /// Whether a request of this class may execute a command of that access.
    pub fn admits(self, access: Access) -> bool {
        match access {
            Access::Read | Access::Walk => self != Class::Local,
            Access::Lease | Access::Write => self == Class::Write,
            // It frees memory, and changes nothing that anyone can see.
            Access::Sweep => self == Class::Local,
        }
    }
}
