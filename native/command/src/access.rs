//! Whether a command reads or writes, which decides how a durable database executes it.
//!
//! The records of a durable database change only by its log. Each command is of one class here, and
//! nothing else decides what goes through the log.

use crate::target::Numbered;
use crate::{Command, Context, Databases, Error, Expires, Reply, lease};

/// Maximum number of keys of a command that counts as a point read.
const READ_KEYS_MAX: usize = 64;

/// The same for HyperLogLogs.
const READ_SKETCHES_MAX: usize = 16;

/// What a command does to records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads one record, or a few. At most it notes the access, which is not part of a record's
    /// durable state.
    Read,
    /// It reads a whole database, or takes long.
    Walk,
    /// It is a read unless it changes the record, which only the record shows; see
    /// [`execute_lease_read`].
    Lease,
    /// It may change records.
    Write,
    /// It removes records that have expired. Nobody can see them.
    Sweep,
}

impl Command<'_> {
    /// What the command does to records.
    pub fn access(&self) -> Access {
        match self {
            Command::Get { .. }
            | Command::Length { .. }
            | Command::GetRange { .. }
            | Command::GetBit { .. }
            | Command::Expiry { .. }
            | Command::MemoryUsage { .. }
            | Command::BitFields { writes: false, .. }
            // GETEX without an option.
            | Command::GetAndExpire { expires: Expires::Keep, .. } => Access::Read,

            Command::GetMany { keys } | Command::Exists { keys } | Command::NoteAccess { keys } => {
                if keys.len() <= READ_KEYS_MAX { Access::Read } else { Access::Walk }
            }

            // Each takes some ten microseconds.
            Command::CountSketches { keys } => {
                if keys.len() <= READ_SKETCHES_MAX { Access::Read } else { Access::Walk }
            }

            // They read whole values.
            Command::Dump { .. }
            | Command::BitCount { .. }
            | Command::BitPosition { .. }
            | Command::Lcs { .. }
            | Command::Count
            | Command::Scan { .. }
            | Command::Range { .. }
            | Command::Keys { .. }
            | Command::KeysOfSlot { .. }
            | Command::RandomKey { .. } => Access::Walk,

            Command::Script(script) if script.reads => Access::Walk,

            Command::Lease { .. } => Access::Lease,

            Command::Set(_)
            | Command::Concat { .. }
            | Command::SetRange { .. }
            | Command::SetBit { .. }
            | Command::Increment(_)
            | Command::IncrementFloat { .. }
            | Command::IncrementBinary { .. }
            | Command::IncrementFraction { .. }
            | Command::CompareValue { .. }
            | Command::ReplaceIf { .. }
            | Command::BitFields { .. }
            | Command::AddToSketch { .. }
            | Command::Restore { .. }
            | Command::BitOperation { .. }
            | Command::MergeSketches { .. }
            | Command::StoreNothing { .. }
            | Command::Delete { .. }
            | Command::DeleteIf { .. }
            | Command::Invalidate { .. }
            | Command::Take { .. }
            | Command::GetAndExpire { .. }
            | Command::Expire { .. }
            | Command::SetMany { .. }
            | Command::Script(_)
            | Command::Rename { .. }
            | Command::Copy { .. }
            | Command::Move { .. }
            | Command::Clear { .. }
            | Command::ClearAll { .. }
            | Command::Swap { .. } => Access::Write,

            Command::Sweep { .. } => Access::Sweep,
        }
    }

    /// Whether the command can do nothing but remove records, now or later.
    pub fn only_removes(&self) -> bool {
        match self {
            Command::Delete { .. }
            | Command::DeleteIf { .. }
            | Command::Take { .. }
            | Command::Clear { .. }
            | Command::ClearAll { .. }
            | Command::Sweep { .. }
            | Command::CompareValue { new: None, .. }
            | Command::ReplaceIf { new: None, .. }
            | Command::StoreNothing { .. } => true,

            Command::Get { .. }
            | Command::GetMany { .. }
            | Command::Length { .. }
            | Command::GetRange { .. }
            | Command::GetBit { .. }
            | Command::BitCount { .. }
            | Command::BitPosition { .. }
            | Command::Lcs { .. }
            | Command::Dump { .. }
            | Command::CountSketches { .. }
            | Command::Exists { .. }
            | Command::Expiry { .. }
            | Command::MemoryUsage { .. }
            | Command::Lease { .. }
            | Command::Set(_)
            | Command::Concat { .. }
            | Command::SetRange { .. }
            | Command::SetBit { .. }
            | Command::BitFields { .. }
            | Command::AddToSketch { .. }
            | Command::Restore { .. }
            | Command::Increment(_)
            | Command::IncrementFloat { .. }
            | Command::IncrementBinary { .. }
            | Command::IncrementFraction { .. }
            | Command::CompareValue { .. }
            | Command::ReplaceIf { .. }
            | Command::Invalidate { .. }
            | Command::GetAndExpire { .. }
            | Command::Expire { .. }
            | Command::NoteAccess { .. }
            | Command::SetMany { .. }
            | Command::BitOperation { .. }
            | Command::MergeSketches { .. }
            | Command::Rename { .. }
            | Command::Copy { .. }
            | Command::Move { .. }
            | Command::Script(_)
            | Command::Count
            | Command::Scan { .. }
            | Command::Range { .. }
            | Command::Keys { .. }
            | Command::KeysOfSlot { .. }
            | Command::RandomKey { .. }
            | Command::Swap { .. } => false,
        }
    }

    /// Whether the command reads, or only removes records.
    pub fn never_adds(&self) -> bool {
        matches!(self.access(), Access::Read | Access::Walk) || self.only_removes()
    }
}

/// Executes a command of class [`Access::Lease`] if it changes no record. Otherwise returns false,
/// and has neither replied nor changed anything.
pub fn execute_lease_read<R: Reply>(
    databases: &Databases,
    database: usize,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) -> bool {
    let Command::Lease { key, options } = *command else { return false };
    match Numbered::new(databases, database) {
        Some(target) => lease::settle(&target, key, options, context.now_ms, reply),
        None => {
            reply.error(Error::NoSuchDatabase);
            true
        }
    }
}
