//! Which format of the log's batches has which command.
//!
//! A node of an older version stops at a batch of a format that it does not know. So a batch has
//! the lowest format that has all its commands, and each format adds commands to the one before.
//! A command keeps its number, its fields and its meaning in all formats.

use crate::Command;

/// The first format.
pub const FORMAT_MIN: u8 = 1;

/// The newest format, which has every command. The fourth and the fifth have no command of their
/// own: batches of the fourth carry the time, and an entry of the fifth has several batches.
pub const FORMAT_MAX: u8 = 5;

impl Command<'_> {
    /// The first format that has this command. A new command gets a new format, unless the newest
    /// one was in no release yet. So does a command whose fields get more variants.
    pub fn format(&self) -> u8 {
        match self {
            Command::Get { .. }
            | Command::GetMany { .. }
            | Command::Length { .. }
            | Command::GetRange { .. }
            | Command::GetBit { .. }
            | Command::BitCount { .. }
            | Command::BitPosition { .. }
            | Command::Lcs { .. }
            | Command::Exists { .. }
            | Command::Expiry { .. }
            | Command::MemoryUsage { .. }
            | Command::Lease { .. }
            | Command::Set(_)
            | Command::Concat { .. }
            | Command::SetRange { .. }
            | Command::SetBit { .. }
            | Command::Increment(_)
            | Command::IncrementFloat { .. }
            | Command::IncrementBinary { .. }
            | Command::IncrementFraction { .. }
            | Command::CompareValue { .. }
            | Command::Delete { .. }
            | Command::DeleteIf { .. }
            | Command::Invalidate { .. }
            | Command::Take { .. }
            | Command::GetAndExpire { .. }
            | Command::Expire { .. }
            | Command::NoteAccess { .. }
            | Command::SetMany { .. }
            | Command::Rename { .. }
            | Command::Copy { .. }
            | Command::Move { .. }
            | Command::Count
            | Command::Scan { .. }
            | Command::Range { .. }
            | Command::Sweep { .. }
            | Command::Keys { .. }
            | Command::RandomKey { .. }
            | Command::Clear { .. }
            | Command::ClearAll { .. }
            | Command::Swap { .. } => 1,

            Command::KeysOfSlot { .. } | Command::ReplaceIf { .. } => 2,

            Command::Script(_)
            | Command::BitOperation { .. }
            | Command::BitFields { .. }
            | Command::AddToSketch { .. }
            | Command::CountSketches { .. }
            | Command::MergeSketches { .. }
            | Command::Dump { .. }
            | Command::Restore { .. }
            | Command::StoreNothing { .. } => 3,
        }
    }
}
