//! The meaning of every command.

use crate::{Command, Databases, Reply};
use todana_table::Table;

/// Longest value that a command may build, in bytes, unless the server's limit is lower.
pub const VALUE_BYTES_MAX: usize = 512 << 20;

/// What execution needs to know beside the command.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Now, in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// Longest value that a command may build (SETRANGE, SETBIT, APPEND), in bytes.
    pub value_bytes_max: usize,
}

/// Carries out a command on database `database` of a server.
pub fn execute<R: Reply>(
    _databases: &Databases,
    _database: usize,
    _command: &Command<'_>,
    _context: Context,
    _reply: &mut R,
) {
    todo!()
}

/// Carries out a command on a table that is no numbered database. Commands that name databases answer
/// `error(NoSuchDatabase)`.
pub fn execute_on<R: Reply>(
    _table: &Table,
    _command: &Command<'_>,
    _context: Context,
    _reply: &mut R,
) {
    todo!()
}

/// A key's version when it was watched; 0 where it was absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Database number at that time.
    pub database: usize,
    /// Which table that was (numbers move with SWAPDB).
    pub table: usize,
    /// The key.
    pub key: Vec<u8>,
    /// The version.
    pub version: u64,
}

/// Notes a key's version now.
pub fn watch(_databases: &Databases, _database: usize, _key: &[u8], _now_ms: u64) -> Watch {
    todo!()
}

/// A batch: all commands as one step, none if a watched key has changed. Nothing else sees a state in between.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Keys that must not have changed.
    pub watches: &'a [Watch],
    /// Database number and command, in order.
    pub commands: &'a [(usize, Command<'a>)],
}

/// Carries out a batch. `each` is called before each command's reply, with its index, so that a door can prepare its
/// words. Returns false, with nothing done or replied, where a watch failed.
pub fn execute_batch<R: Reply>(
    _databases: &Databases,
    _batch: &Batch<'_>,
    _context: Context,
    _reply: &mut R,
    _each: impl FnMut(&mut R, usize),
) -> bool {
    todo!()
}
