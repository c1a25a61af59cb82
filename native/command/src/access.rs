//! Whether a command reads or writes, which decides how a durable database executes it.
//!
//! The records of a durable database change only by its log. The row of each command says its
//! class, and nothing else decides what goes through the log.

/// Maximum number of keys of a command that counts as a point read.
const READ_KEYS_MAX: usize = 64;

/// What a command does to records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads one record, or a few. At most it notes the access, which is not part of a record's
    /// durable state.
    Read,
    /// It reads a whole database, or takes long.
    Walk,
    /// It is a read unless it changes the record, which only the record shows; see
    /// [`execute_lease_read`](crate::execute_lease_read).
    Lease,
    /// It may change records.
    Write,
    /// It removes records that have expired. Nobody can see them.
    Sweep,
}

impl Access {
    /// Of a command that reads the records of these keys.
    pub(crate) fn of_reading(keys: &[&[u8]]) -> Access {
        if keys.len() <= READ_KEYS_MAX { Access::Read } else { Access::Walk }
    }
}
