//! The counters of an interpreter: `lua/todana.h` has the other side.

use mlua::Lua;
use mlua_sys::lua_State;
use std::ffi::{c_int, c_longlong, c_ulonglong};

unsafe extern "C" {
    fn todana_set_secret(secret: c_ulonglong);
    fn todana_set_steps(state: *mut lua_State, steps: c_longlong);
    fn todana_steps(state: *mut lua_State) -> c_longlong;
    fn todana_stopped(state: *mut lua_State) -> c_int;
}

/// Why a script was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It took too many steps.
    Steps,
    /// It needed too much memory.
    Memory,
}

/// Sets the secret by which scripts that begin from now on hash strings and numbers, so that nobody
/// can choose keys that collide. It must be the same on all replicas of a log, because the order in
/// which tables are traversed depends on it.
pub fn set_secret(secret: u64) {
    // SAFETY: it writes one number, atomically.
    unsafe { todana_set_secret(secret) };
}

/// Sets the number of steps that may still be done.
pub(crate) fn set(lua: &Lua, steps: u64) {
    let steps = i64::try_from(steps).unwrap_or(i64::MAX / 2);
    // SAFETY: the state belongs to `lua`, and this only writes a number of it.
    lua.exec_raw_lua(|raw| unsafe { todana_set_steps(raw.state(), steps) });
}

/// The number of steps that may still be done. Less than 0 if there were too many.
pub(crate) fn left(lua: &Lua) -> i64 {
    // SAFETY: the state belongs to `lua`, and this only reads a number of it.
    lua.exec_raw_lua(|raw| unsafe { todana_steps(raw.state()) })
}

/// Counts work that Rust has done. False if it was too much: the interpreter stops the script at
/// its next instruction.
pub(crate) fn spend(lua: &Lua, steps: u64) -> bool {
    let left = left(lua).saturating_sub(i64::try_from(steps).unwrap_or(i64::MAX / 2));
    // SAFETY: the state belongs to `lua`, and this only writes a number of it.
    lua.exec_raw_lua(|raw| unsafe { todana_set_steps(raw.state(), left) });
    left >= 0
}

/// Why the script was stopped, if it was.
pub(crate) fn stopped(lua: &Lua) -> Option<Stop> {
    // SAFETY: the state belongs to `lua`, and this only reads a number of it.
    let why = lua.exec_raw_lua(|raw| unsafe { todana_stopped(raw.state()) });
    match why {
        0 if left(lua) < 0 => Some(Stop::Steps),
        0 => None,
        2 => Some(Stop::Memory),
        _ => Some(Stop::Steps),
    }
}
