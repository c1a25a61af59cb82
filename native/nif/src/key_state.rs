//! What identifies the state of a key, as a number for Erlang.

use crate::erts::{self, Raw, RawEnv};
use todana_command::{DATABASES, KeyState};

/// A state as a number: the version, then four bits for the index of the table. 0 if there is no
/// record, since the first version is 1.
pub(crate) fn state_number(state: KeyState) -> u64 {
    match state {
        KeyState::Present { table, version } => version << 4 | table as u64,
        KeyState::Absent => 0,
    }
}

/// The state of a number.
pub(crate) fn key_state(env: RawEnv, term: Raw) -> Option<KeyState> {
    let number = u64::try_from(erts::get_i64(env, term)?).ok()?;
    let (table, version) = ((number % DATABASES as u64) as usize, number >> 4);
    Some(if number == 0 { KeyState::Absent } else { KeyState::Present { table, version } })
}

const _: () = assert!(DATABASES == 16);
