//! The lengths of the values in a command. A value beyond the limit of the log is refused before it
//! is recorded; the execution itself checks the values that it builds.

use todana_command::Command;

/// The length of the longest value that the command brings along, in bytes.
pub(super) fn longest_value(command: &Command<'_>) -> usize {
    match command {
        Command::Set(set) => set.value.len(),
        Command::Concat { bytes, .. } | Command::SetRange { bytes, .. } => bytes.len(),
        Command::CompareValue { new, .. } | Command::ReplaceIf { new, .. } => {
            new.map_or(0, <[u8]>::len)
        }
        Command::SetMany { pairs, .. } => {
            pairs.iter().map(|(_, value)| value.len()).max().unwrap_or(0)
        }
        Command::Script(script) => {
            let words = script.words.iter().map(|word| word.len()).max().unwrap_or(0);
            words.max(script.source.len())
        }
        _ => 0,
    }
}

/// Whether the command makes a value of a present one, so that only its execution knows the length.
pub(super) fn builds_values(command: &Command<'_>) -> bool {
    matches!(
        command,
        Command::Concat { .. }
            | Command::SetRange { .. }
            | Command::SetBit { .. }
            | Command::Script(_)
            | Command::BitFields { .. }
            | Command::BitOperation { .. }
            | Command::Restore { .. }
    )
}
