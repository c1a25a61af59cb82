//! A script that is to run, what it needs, and how it ends.

use todana_command::Value;

/// What may be used of memory and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most steps: an instruction of Lua is one.
    pub steps: u64,
    /// Most bytes of the values of Lua.
    pub bytes: usize,
}

/// A script and what it gets.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// Its source.
    pub source: &'a [u8],
    /// `KEYS`.
    pub keys: &'a [&'a [u8]],
    /// `ARGV`.
    pub arguments: &'a [&'a [u8]],
    /// Its limits.
    pub limits: Limits,
}

/// What became of a call of a script.
#[derive(Debug)]
pub enum Called {
    /// The reply, and the steps that the call counts.
    Reply(Value, u64),
    /// Nothing: it would take more steps than are left.
    TooMuch,
}

/// Executes the commands of a script.
pub trait Calls {
    /// Executes a command, provided that it takes at most `steps_left`.
    fn call(&mut self, arguments: &[&[u8]], resp3: bool, steps_left: u64) -> Called;
    /// The script logs a line.
    fn log(&mut self, level: i64, text: &[u8]) {
        let _ = (level, text);
    }
}

/// Why a script was stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// It took too many steps.
    Steps,
    /// It needed too much memory.
    Memory,
}

/// How a script ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// It has returned a reply, or failed with an error of its own, which is a reply too. What it
    /// has written stays.
    Reply(Value),
    /// It was stopped in the middle.
    Stopped(Stop),
}
