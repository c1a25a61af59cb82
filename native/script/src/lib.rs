//! Scripts: Lua 5.1 as clients of Redis know it, for a replicated log.
//!
//! [`run`] executes one script and returns its reply. It knows neither a store nor a protocol: the
//! commands of the script go to [`Calls`]. Every run begins with the same memory of the
//! interpreter, which is copied, so nothing of one script is seen by the next, and the same script
//! with the same calls has the same result on every node:
//!
//! * Work is counted in *steps*, in the interpreter (`lua/README.md`): an instruction is one, and
//!   whatever takes longer is several. The clock is not asked. A script that exceeds its steps or
//!   its memory is stopped, and cannot catch that.
//! * There is no clock, no environment, no file, and no randomness: `math.random` begins anew with
//!   each run. Tables are traversed in an order that does not depend on addresses.
//!
//! `engine.rs` runs; `interpreter.rs` copies the memory, and keeps compiled scripts; `pool.rs` has
//! the interpreters; `prelude.rs` and `prelude.lua` are what a script finds in its environment,
//! beside Lua's own libraries; `convert.rs` converts values; `json.rs`, `msgpack.rs`, `pack.rs` and
//! `bit.rs` are the libraries that Redis adds. `unsafe` code is in `lua.rs`, which binds the
//! interpreter, `heap.rs`, its memory, and `meter.rs`, its counters.

mod bit;
mod convert;
mod engine;
mod heap;
mod interpreter;
mod job;
mod json;
mod libraries;
mod library;
mod lua;
mod meter;
mod msgpack;
mod number;
mod pack;
mod pool;
mod prelude;
#[cfg(any(test, feature = "testing"))]
mod random;
#[cfg(test)]
mod reuse_tests;
mod settings;
mod shebang;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use engine::{check, run, run_compiled};
pub use interpreter::CompiledScript;
pub use job::{Called, Calls, Job, Limits, Outcome, Stop};
pub use meter::set_secret;
pub use pool::{Memory, forget_all, memory};
pub use shebang::{Header, split};

use sha1::{Digest, Sha1};

/// The name of a script: the SHA-1 of its source, in 40 hexadecimal digits.
pub fn name_of(source: &[u8]) -> [u8; 40] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut name = [0; 40];
    for (at, byte) in Sha1::digest(source).iter().enumerate() {
        name[2 * at] = DIGITS[usize::from(byte >> 4)];
        name[2 * at + 1] = DIGITS[usize::from(byte & 15)];
    }
    name
}
