//! From a command to the function that means it.

use crate::batch::Order;
use crate::{Command, Databases, Error, Reply};
use crate::{bits, expiry, keys, lcs, lease, numbers, strings};
use todana_table::{Keyspace, Table};

/// Longest value that a command may build where nobody sets a lower limit, in bytes.
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
#[inline]
pub fn execute<R: Reply>(
    databases: &Databases,
    database: usize,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    match command {
        Command::Copy { database: Some(other), .. } | Command::Move { database: other, .. } => {
            transfer(databases, [database, *other], command, context, reply);
        }
        Command::ClearAll { at_ms } => {
            databases.tables().iter().for_each(|table| clear(table, *at_ms, context.now_ms));
            reply.done();
        }
        Command::Swap { first, second } => {
            if databases.swap(*first, *second) {
                reply.done();
            } else {
                reply.error(Error::NoSuchDatabase);
            }
        }
        _ => execute_on(databases.table(database), command, context, reply),
    }
}

/// Carries out a command on a table that is no numbered database. Commands that name databases answer
/// `error(NoSuchDatabase)`.
#[inline]
pub fn execute_on<R: Reply>(table: &Table, command: &Command<'_>, context: Context, reply: &mut R) {
    match command {
        Command::LongestCommon { keys, .. } => {
            dispatch(&table.lock(keys.iter().copied()), command, context, reply);
        }
        Command::Rename { from, to, .. } | Command::Copy { from, to, database: None, .. } => {
            dispatch(&table.lock([*from, *to]), command, context, reply);
        }
        Command::SetMany { pairs, .. } => {
            let locked = table.lock(pairs.iter().map(|(key, _)| *key));
            dispatch(&locked, command, context, reply);
        }
        Command::Clear { at_ms } => {
            clear(table, *at_ms, context.now_ms);
            reply.done();
        }
        _ => dispatch(table, command, context, reply),
    }
}

/// Carries out a command on one table, whose locks are taken for each key or held already.
#[inline]
pub(crate) fn dispatch<K: Keyspace, R: Reply>(
    space: &K,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    let now_ms = context.now_ms;
    match command {
        Command::Get { key } => strings::get(space, key, now_ms, reply),
        Command::Set(set) => strings::set(space, set, now_ms, reply),
        Command::Increment(increment) => numbers::increment(space, increment, now_ms, reply),
        Command::Delete { keys } => keys::delete(space, keys, now_ms, reply),
        Command::GetMany { keys } => strings::get_many(space, keys, now_ms, reply),
        _ => dispatch_rest(space, command, context, reply),
    }
}

/// The commands whose call is not worth inlining.
fn dispatch_rest<K: Keyspace, R: Reply>(
    space: &K,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    let now_ms = context.now_ms;
    match *command {
        Command::Get { .. }
        | Command::Set(_)
        | Command::Increment(_)
        | Command::Delete { .. }
        | Command::GetMany { .. } => unreachable!("dispatched before"),

        Command::Length { key } => strings::length(space, key, now_ms, reply),
        Command::GetRange { key, start, end } => {
            strings::get_range(space, key, start, end, now_ms, reply);
        }
        Command::Concat { key, bytes, side, create, condition } => {
            let added = strings::Added { bytes, side, create, condition };
            strings::concat(space, key, &added, context, reply);
        }
        Command::SetRange { key, offset, bytes } => {
            strings::set_range(space, key, offset, bytes, context, reply);
        }
        Command::Take { key } => strings::take(space, key, now_ms, reply),
        Command::SetMany { pairs, condition, expires } => {
            strings::set_many(space, pairs, condition, expires, now_ms, reply);
        }

        Command::GetBit { key, offset } => bits::get_bit(space, key, offset, now_ms, reply),
        Command::SetBit { key, offset, bit } => {
            bits::set_bit(space, key, offset, bit, context, reply);
        }
        Command::BitCount { key, span } => bits::bit_count(space, key, span, now_ms, reply),
        Command::BitPosition { key, bit, start, end, unit } => {
            let search = bits::Search { bit, start, end, unit };
            bits::bit_position(space, key, &search, now_ms, reply);
        }

        Command::IncrementFloat { key, delta } => {
            numbers::increment_float(space, key, delta, now_ms, reply);
        }
        Command::LongestCommon { keys, want } => {
            lcs::longest_common(space, keys, want, now_ms, reply);
        }

        Command::Expiry { key } => expiry::expiry(space, key, now_ms, reply),
        Command::Expire { key, expires, when } => {
            expiry::expire(space, key, expires, when, now_ms, reply);
        }
        Command::GetAndExpire { key, expires } => {
            expiry::get_and_expire(space, key, expires, now_ms, reply);
        }

        Command::Exists { keys } => keys::exists(space, keys, now_ms, reply),
        Command::NoteAccess { keys } => keys::note_access(space, keys, now_ms, reply),
        Command::DeleteIf { key, condition } => {
            keys::delete_if(space, key, condition, now_ms, reply);
        }
        Command::MemoryUsage { key } => keys::memory_usage(space, key, now_ms, reply),
        Command::Rename { from, to, if_absent } => {
            keys::rename(space, from, to, if_absent, now_ms, reply);
        }
        Command::Copy { from, to, database: None, replace } => {
            keys::copy(space, from, to, replace, now_ms, reply);
        }
        Command::Count => reply.integer(i64::try_from(space.len()).unwrap_or(i64::MAX)),
        Command::Scan { cursor, count, pattern, values } => {
            keys::scan(space, cursor, count, pattern, values, now_ms, reply);
        }
        Command::Keys { pattern } => keys::keys(space, pattern, now_ms, reply),
        Command::RandomKey { seed } => keys::random_key(space, seed, now_ms, reply),
        Command::Clear { .. } => {
            space.clear();
            reply.done();
        }

        Command::Lease { key, options } => lease::lease(space, key, options, now_ms, reply),
        Command::Invalidate { key, condition, expires } => {
            lease::invalidate(space, key, condition, expires, now_ms, reply);
        }

        Command::Copy { database: Some(_), .. }
        | Command::Move { .. }
        | Command::ClearAll { .. }
        | Command::Swap { .. } => reply.error(Error::NoSuchDatabase),
    }
}

/// Clears a table now, or when the time comes.
fn clear(table: &Table, at_ms: Option<u64>, now_ms: u64) {
    match at_ms {
        Some(at_ms) if at_ms > now_ms => table.schedule_clear(at_ms),
        _ => {
            table.clear();
        }
    }
}

/// Carries out a command that moves or copies a record from one database to another, both locked.
fn transfer<R: Reply>(
    databases: &Databases,
    [source, destination]: [usize; 2],
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    let order = Order::of(databases);
    let (Some(source), Some(destination)) = (order.index(source), order.index(destination)) else {
        return reply.error(Error::NoSuchDatabase);
    };
    let (from, to, keep, replace) = match *command {
        Command::Copy { from, to, replace, .. } => (from, to, true, replace),
        Command::Move { key, .. } => (key, key, false, false),
        _ => return reply.error(Error::NoSuchDatabase),
    };
    let tables = databases.tables();
    let moved = keys::Transfer { from, to, keep, replace };
    if source == destination {
        let locked = tables[source].lock([from, to]);
        return keys::transfer(&locked, &locked, true, &moved, context.now_ms, reply);
    }
    let lock_source = || tables[source].lock([from]);
    let lock_destination = || tables[destination].lock([to]);
    let (source, destination) = if source < destination {
        let first = lock_source();
        (first, lock_destination())
    } else {
        let first = lock_destination();
        (lock_source(), first)
    };
    keys::transfer(&source, &destination, false, &moved, context.now_ms, reply);
}
