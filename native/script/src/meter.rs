//! The counters of an interpreter: `lua/todana.h` has the other side.

use crate::job::Stop;
use crate::lua::{Lua, State};
use std::ffi::{c_int, c_longlong, c_ulonglong};

unsafe extern "C" {
    fn todana_secret() -> c_ulonglong;
    fn todana_set_secret(secret: c_ulonglong);
    fn todana_set_steps(state: *mut State, steps: c_longlong);
    fn todana_steps(state: *mut State) -> c_longlong;
    fn todana_stopped(state: *mut State) -> c_int;
}

/// Sets the secret by which scripts that begin from now on hash strings and numbers, so that nobody
/// can choose keys that collide. It must be the same on all replicas of a log, because the order in
/// which tables are traversed depends on it.
pub fn set_secret(secret: u64) {
    // SAFETY: it writes one number, atomically.
    unsafe { todana_set_secret(secret) };
}

/// The secret of interpreters that are made now.
pub(crate) fn secret() -> u64 {
    // SAFETY: it reads one number, atomically.
    unsafe { todana_secret() }
}

/// Sets the number of steps that may still be done.
pub(crate) fn set(lua: &Lua, steps: u64) {
    let steps = i64::try_from(steps).unwrap_or(i64::MAX / 2);
    // SAFETY: the state belongs to `lua`, and this only writes a number of it.
    unsafe { todana_set_steps(lua.raw(), steps) };
}

/// The number of steps that may still be done. Less than 0 if there were too many.
pub(crate) fn left(lua: &Lua) -> i64 {
    // SAFETY: the state belongs to `lua`, and this only reads a number of it.
    unsafe { todana_steps(lua.raw()) }
}

/// Counts work that Rust has done. False if it was too much: the interpreter stops the script at
/// its next instruction.
pub(crate) fn spend(lua: &Lua, steps: u64) -> bool {
    let left = left(lua).saturating_sub(i64::try_from(steps).unwrap_or(i64::MAX / 2));
    // SAFETY: the state belongs to `lua`, and this only writes a number of it.
    unsafe { todana_set_steps(lua.raw(), left) };
    left >= 0
}

/// Why the script was stopped, if it was.
pub(crate) fn stopped(lua: &Lua) -> Option<Stop> {
    // SAFETY: the state belongs to `lua`, and this only reads a number of it.
    let why = unsafe { todana_stopped(lua.raw()) };
    match why {
        0 if left(lua) < 0 => Some(Stop::Steps),
        0 => None,
        2 => Some(Stop::Memory),
        _ => Some(Stop::Steps),
    }
}
