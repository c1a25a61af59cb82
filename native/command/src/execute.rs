//! Executes a command: calls the function that implements it, under the locks that it needs.

use crate::cause::{self, Names};
use crate::database::DatabaseCommand;
use crate::lease::{LeaseCommand, marks};
use crate::numbered::Numbered;
use crate::place::Place;
use crate::scope::NO_CLEAR;
use crate::slice::{Begun, Slice, Stage};
use crate::string::text;
use crate::{Command, Context, Databases, Error, Reply, Set, transaction};
use todana_table::{Keyspace, Lent, Table, Time};

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
    let _executing = cause::executing(|| command.names());
    if !command.alone(&target, context, reply) {
        transaction::execute_alone(databases, database, command, context, reply);
    }
}

/// Executes a command where it is.
#[inline]
pub fn execute_at<R: Reply>(
    place: Place<'_>,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    match place {
        Place::Table(table) => execute_on(table, command, context, reply),
        Place::Database(databases, number) => execute(databases, number, command, context, reply),
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
        Command::Database(DatabaseCommand::Clear { at_ms }) => {
            match at_ms {
                Some(at_ms) if *at_ms > context.now_ms => table.schedule_clear(*at_ms),
                _ => {
                    table.schedule_clear(NO_CLEAR);
                    table.clear();
                }
            }
            reply.done();
        }
        _ => {
            if !command.alone(table, context, reply) {
                reply.error(Error::NoSuchDatabase);
            }
        }
    }
}

/// Executes a slice of a command. Returns where to continue with the same command, or nothing at
/// its end. Replies are written in parts, in order.
pub fn execute_slice<R: Reply>(
    databases: &Databases,
    database: usize,
    command: &Command<'_>,
    context: Context,
    begun: Option<Begun>,
    reply: &mut R,
) -> Option<Begun> {
    let Some(target) = Numbered::new(databases, database) else {
        reply.error(Error::NoSuchDatabase);
        return None;
    };
    let _executing = cause::executing(|| command.names());
    let stage = begun.map(|begun| *begun.0);
    let slice = Slice { target, table: databases.table(database), context, reply };
    let stage = match stage {
        Some(Stage::Replying(page, written)) => slice.write(page, written),
        None if !command.is_long() => {
            execute(databases, database, command, context, slice.reply);
            None
        }
        stage => command.slice(slice, stage),
    };
    stage.map(|stage| Begun(Box::new(stage)))
}

/// Executes a command of class [`Access::Lease`](crate::Access::Lease) if it changes no record.
/// Otherwise returns false, and has neither replied nor changed anything.
pub fn execute_lease_read<R: Reply>(
    databases: &Databases,
    database: usize,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) -> bool {
    let Command::Lease(LeaseCommand::Get { key, options }) = *command else { return false };
    match Numbered::new(databases, database) {
        Some(target) => marks::settle(&target, key, options, context.now_ms, reply),
        None => {
            reply.error(Error::NoSuchDatabase);
            true
        }
    }
}

/// Executes SET with a value that is not copied: `value` is that of `set`.
#[inline]
pub fn set_lent<R: Reply>(
    place: Place<'_>,
    set: &Set<'_>,
    value: Lent,
    now: impl Time,
    reply: &mut R,
) {
    assert!(set.value.len() == value.len(), "another value was lent");
    match place {
        Place::Table(table) => text::set_lent_in_table(table, set, value, now, reply),
        Place::Database(databases, number) => match Numbered::new(databases, number) {
            Some(target) => {
                let _executing = cause::executing(|| Names::stored(set.expires));
                text::set_lent(&target, set, value, now.ms(), reply);
            }
            None => reply.error(Error::NoSuchDatabase),
        },
    }
}
