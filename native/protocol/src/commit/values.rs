//! The lengths of the values in a command. A value beyond the limit of the log is refused before it
//! is recorded; the execution itself checks the values that it builds.

use todana_command::Command;

/// The values that a command stores.
enum Values {
    /// It brings them along; the longest has this number of bytes.
    Given(usize),
    /// It makes one of a present value and of a part of this length, so that only its execution
    /// knows the length.
    Built(usize),
    /// None, or short ones, or such as are stored already.
    None,
}

fn values(command: &Command<'_>) -> Values {
    match command {
        Command::Set(set) => Values::Given(set.value.len()),
        Command::CompareValue { new, .. } | Command::ReplaceIf { new, .. } => {
            Values::Given(new.map_or(0, <[u8]>::len))
        }
        Command::SetMany { pairs, .. } => {
            Values::Given(pairs.iter().map(|(_, value)| value.len()).max().unwrap_or(0))
        }
        Command::Concat { bytes, .. } | Command::SetRange { bytes, .. } => {
            Values::Built(bytes.len())
        }
        Command::Script(script) => {
            let words = script.words.iter().map(|word| word.len()).max().unwrap_or(0);
            Values::Built(words.max(script.source.len()))
        }
        Command::SetBit { .. }
        | Command::BitFields { .. }
        | Command::BitOperation { .. }
        | Command::Restore { .. } => Values::Built(0),
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
        | Command::NoteAccess { .. }
        | Command::Count
        | Command::Scan { .. }
        | Command::Range { .. }
        | Command::Keys { .. }
        | Command::KeysOfSlot { .. }
        | Command::RandomKey { .. }
        | Command::Lease { .. }
        | Command::Increment(_)
        | Command::IncrementFloat { .. }
        | Command::IncrementBinary { .. }
        | Command::IncrementFraction { .. }
        | Command::Delete { .. }
        | Command::DeleteIf { .. }
        | Command::Invalidate { .. }
        | Command::Take { .. }
        | Command::GetAndExpire { .. }
        | Command::Expire { .. }
        | Command::MergeSketches { .. }
        | Command::AddToSketch { .. }
        | Command::StoreNothing { .. }
        | Command::Rename { .. }
        | Command::Copy { .. }
        | Command::Move { .. }
        | Command::Sweep { .. }
        | Command::Clear { .. }
        | Command::ClearAll { .. }
        | Command::Swap { .. } => Values::None,
    }
}

/// The length of the longest value that the command brings along, in bytes.
pub(super) fn longest_value(command: &Command<'_>) -> usize {
    match values(command) {
        Values::Given(length) | Values::Built(length) => length,
        Values::None => 0,
    }
}

/// Whether the command makes a value of a present one, so that only its execution knows the length.
pub(super) fn builds_values(command: &Command<'_>) -> bool {
    matches!(values(command), Values::Built(_))
}
