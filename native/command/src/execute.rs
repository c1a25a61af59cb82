//! Executes a command: calls the function that implements it, under the locks that it needs.

use crate::dispatch::dispatch;
use crate::scope::{Keys, NO_CLEAR, Scope};
use crate::target::{Numbered, Target};
use crate::{Command, Context, Databases, Error, Reply};
use crate::{batch, bit_operation, cause, fields, lcs, pairs, strings};
use todana_table::{Keyspace, Table};

/// Longest value that a command may create if no lower limit is set, in bytes.
pub const VALUE_BYTES_MAX: usize = 512 << 20;

/// Executes a command on database `database` of a server.
#[inline]
pub fn execute<R: Reply>(
    databases: &Databases,
    database: usize,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    let Some(target) = Numbered::new(databases, database) else {
        return reply.error(Error::NoSuchDatabase);
    };
    let _executing = cause::executing(command);
    match command.scope() {
        Scope::Script(_) | Scope::Databases(_) => {
            batch::execute_alone(databases, database, command, context, reply);
        }
        Scope::Key(_) | Scope::Keys(_) | Scope::Database | Scope::Expired { .. } => {
            execute_in(&target, command, context, reply);
        }
    }
}

/// Prefetches the memory that commands with these keys will need, for protocols that read several
/// commands ahead. At most [`PREFETCH_KEYS_MAX`](todana_table::PREFETCH_KEYS_MAX) keys. Does
/// nothing if there is no such database.
pub fn prefetch(databases: &Databases, database: usize, keys: &[&[u8]]) {
    if let Some(target) = Numbered::new(databases, database) {
        target.prefetch(keys);
    }
}

/// Executes a command on a table that is not a numbered database. Commands that name databases
/// reply `error(NoSuchDatabase)`.
#[inline]
pub fn execute_on<R: Reply>(table: &Table, command: &Command<'_>, context: Context, reply: &mut R) {
    match command {
        Command::Clear { at_ms } => {
            match at_ms {
                Some(at_ms) if *at_ms > context.now_ms => table.schedule_clear(*at_ms),
                _ => {
                    table.schedule_clear(NO_CLEAR);
                    table.clear();
                }
            }
            reply.done();
        }
        _ => execute_in(table, command, context, reply),
    }
}

/// Executes a command that needs only one table.
#[inline]
fn execute_in<H: Target, R: Reply>(
    target: &H,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    match command.scope() {
        Scope::Key(key) => match command {
            // Fields that lie far apart are written one after the other.
            Command::BitFields { words, .. } if fields::needs_lock(words) => {
                let locked = target.lock([key], context.now_ms);
                dispatch(&locked, command, context, reply);
            }
            _ => dispatch(target, command, context, reply),
        },
        Scope::Database => dispatch(target, command, context, reply),
        Scope::Keys(keys) => execute_as_one_step(target, keys, command, context, reply),
        Scope::Expired { work_max } => {
            let (_, more) = target.sweep(context.now_ms, work_max);
            reply.flag(more);
        }
        Scope::Script(_) | Scope::Databases(_) => reply.error(Error::NoSuchDatabase),
    }
}

/// Executes a command on several keys as one step, even if it only reads them: when a client
/// stores two values together, no reader may see only one of them.
fn execute_as_one_step<T: Target, R: Reply>(
    target: &T,
    keys: Keys<'_>,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    let now_ms = context.now_ms;
    match command {
        // Long work is done before the locks are taken, or after they are released.
        Command::Lcs { keys, want } => {
            let values = lcs::Values::read(&target.lock(*keys, now_ms), *keys, now_ms);
            values.longest_common(*want, lcs::WORDS_MAX, reply);
        }
        Command::BitOperation { operator, keys } => {
            bit_operation::as_one_step(target, *operator, keys, now_ms, reply);
        }
        Command::GetMany { keys } => {
            let locked = target.lock(keys.iter().copied(), now_ms);
            let rest = strings::get_many_small(&locked, keys, now_ms, reply);
            drop(locked);
            for (key, kept) in keys[keys.len() - rest.len()..].iter().zip(rest) {
                strings::reply_with_kept(key, kept, reply);
            }
        }
        Command::SetMany { pairs, condition, expires } => {
            let pairs = pairs::Pairs { pairs, condition: *condition, expires: *expires };
            let prepared = pairs.prepare(now_ms);
            let locked = target.lock(keys.iter(), now_ms);
            pairs::set_many(&locked, &pairs, prepared, now_ms, reply);
        }
        _ => dispatch(&target.lock(keys.iter(), now_ms), command, context, reply),
    }
}
