//! The meaning of every command.

use crate::{Command, Databases, Error, Expires, Record, Reply};
use todana_table::{Full, Keyspace, Meta, Table};

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
    databases: &Databases,
    database: usize,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    execute_on(databases.table(database), command, context, reply);
}

/// Carries out a command on a table that is no numbered database. Commands that name databases answer
/// `error(NoSuchDatabase)`.
pub fn execute_on<R: Reply>(table: &Table, command: &Command<'_>, context: Context, reply: &mut R) {
    let now_ms = context.now_ms;
    match command {
        Command::Get { key } => get(table, key, now_ms, reply),
        Command::GetMany { keys } => {
            reply.list(keys.len());
            keys.iter().for_each(|key| get(table, key, now_ms, reply));
        }
        Command::Set(set) => {
            let expires_at_ms = match set.expires {
                Expires::At(at_ms) => Some(at_ms),
                Expires::Never | Expires::Keep => None,
            };
            let meta = Meta { expires_at_ms, flags: set.flags, access: None };
            match table.update(set.key, now_ms, |slot| slot.put(&[set.value], meta)) {
                Ok(version) => reply.stored(version),
                Err(Full) => reply.error(Error::Full),
            }
        }
        Command::Delete { keys } => {
            let remove = |key: &&&[u8]| table.update(key, now_ms, |slot| slot.remove());
            reply.integer(keys.iter().filter(remove).count() as i64);
        }
        Command::Exists { keys } => {
            let exists = |key: &&&[u8]| table.read(key, now_ms, |entry| entry.is_some());
            reply.integer(keys.iter().filter(exists).count() as i64);
        }
        Command::Count => reply.integer(table.len() as i64),
        Command::Clear { .. } => {
            table.clear();
            reply.done();
        }
        _ => todo!(),
    }
}

fn get<R: Reply>(table: &Table, key: &[u8], now_ms: u64, reply: &mut R) {
    table.read(key, now_ms, |entry| match entry {
        Some(entry) => reply.record(Record {
            key: entry.key(),
            value: entry.value(),
            flags: entry.flags(),
            version: entry.version(),
            expires_at_ms: entry.expires_at_ms(),
        }),
        None => reply.none(),
    });
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
