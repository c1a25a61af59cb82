//! Transactions in the log of durable databases.
//!
//! A client's transaction (EXEC, or `todana:transaction/2`) is admitted where the client is
//! connected, and becomes one record of the log. Every replica executes it when it applies the
//! record, and must come to the same result. So a watch is logged as what the log itself
//! determines: the version of a present key; for an absent key, a version of the table after which
//! it must not have been created.
//!
//! ```text
//!  transaction   format 1 | list of watches | list of commands
//!  watch         database | table | key | seen
//!  seen          0 and a version: it has this version
//!                1 and a version: it is absent, and was not created since this version of the
//!                table
//!                2: it is absent
//!  command       database | as `Command::encode` makes it, without its format byte
//! ```
//!
//! Numbers, lists and bytes are those of `encode.rs`.
//!
//! On a durable database, a command or a transaction is a function of the records, of the command
//! and of the [`Context`], so that a replica that applies the same log has the same records. Other
//! things that execution might depend on, and why it does not:
//!
//! * Clocks: time is `now_ms` of the context, which is the log's. Reads by other clocks hide what
//!   has expired and change nothing ([`Access`] says which commands these are).
//! * When a record was read: a lease looks at the marks *stale* and *won* only, and these are part
//!   of the record. The time of the last read and whether there was one appear in replies, and are
//!   copied with the record, but decide nothing.
//! * Limits, budgets and eviction: a durable table has none, so `refuses` is false and `reserve`
//!   succeeds, whatever the node's memory. A failed allocation ends the process. [`Error::Full`] is
//!   left for a key that is too long for an ordered table.
//! * `value_bytes_max` of the context must be the same wherever the log is applied.
//! * Work: a transaction is admitted before it is logged, from sizes that may have changed when it
//!   is executed. Nothing is refused there; the limit is exceeded by a little at most.
//! * Spare room behind a value, and whether a value is shared or copied, depend on a table's past
//!   (a table that was restored has no spare room). They decide how a new value is made, not what
//!   it is; each write takes one version in any case.
//! * The reply: a command does the same for any [`Reply`], whether that keeps handles or not. The
//!   methods of [`Tape`](crate::Tape) and [`NullReply`](crate::NullReply) do not panic.
//! * Counters: the number of records (`is_empty`, for clears) is exact, because one thread at a
//!   time applies the log.
//! * Random numbers: RANDOMKEY has its seed in the command, and only reads. The seed by which a
//!   table hashes keys is part of its state, since [`Table::created_since`] depends on it.

use crate::access::Access;
use crate::database_map::DATABASES;
use crate::logged_watch::{LoggedSeen, LoggedWatch};
use crate::optimistic::{KeyState, OptimisticCommit, Uncommitted};
use crate::place::Place;
use crate::reply::Inadmissible;
use crate::scope::{Across, Scope};
use crate::tape::Status;
use crate::transaction;
use crate::wire::{Input, Malformed, Put, Scratch, Take};
use crate::work::{self, TRANSACTION_UNITS_MAX};
use crate::{
    Command, Condition, Context, Databases, Error, KeyCommand, Reply, Set, StringCommand,
    Transaction,
};
use todana_table::Table;

/// The first byte of every encoded transaction.
const FORMAT: u8 = 1;

/// The fewest bytes of a command in a transaction: database, variant.
const COMMAND_BYTES_MIN: usize = 2;

/// Appends a transaction.
pub fn encode_transaction(
    out: &mut Vec<u8>,
    watches: &[LoggedWatch<'_>],
    commands: &[(usize, Command<'_>)],
) {
    out.push(FORMAT);
    watches.len().put(out);
    watches.iter().for_each(|watch| watch.put(out));
    commands.len().put(out);
    for (database, command) in commands {
        database.put(out);
        command.put(out);
    }
}

/// A transaction from the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedTransaction<'a> {
    /// Keys that must be what they were.
    pub watches: Vec<LoggedWatch<'a>>,
    /// Database number and command, in order.
    pub commands: Vec<(usize, Command<'a>)>,
}

/// The transaction that the bytes are. It borrows from both arguments. `scratch` is emptied first.
///
/// Arbitrary bytes yield a transaction or [`Malformed`]. A transaction takes at most a hundred
/// times the memory of its bytes.
pub fn decode_transaction<'b: 's, 's>(
    bytes: &'b [u8],
    scratch: &'s mut Vec<Scratch<'b>>,
) -> Result<LoggedTransaction<'s>, Malformed> {
    let mut input = Input { rest: bytes, scratch: None };
    if input.byte()? != FORMAT {
        return Err(Malformed);
    }
    let mut watches = Vec::new();
    for _ in 0..usize::take(&mut input)? {
        watches.push(LoggedWatch::take(&mut input)?);
    }
    let count = usize::take(&mut input)?;
    if count > input.rest.len() / COMMAND_BYTES_MIN {
        return Err(Malformed);
    }
    scratch.clear();
    scratch.resize_with(count, Scratch::default);
    let mut rest = input.rest;
    let mut commands = Vec::with_capacity(count);
    for scratch in scratch {
        let mut input = Input { rest, scratch: Some(scratch) };
        commands.push((usize::take(&mut input)?, Command::take(&mut input)?));
        rest = input.rest;
    }
    if rest.is_empty() { Ok(LoggedTransaction { watches, commands }) } else { Err(Malformed) }
}

/// Whether a command, executed on this database, changes records of durable databases, so that it
/// has to go through the log. A command of class [`Access::Lease`] may turn out to change nothing.
/// An error for a command across databases of which only one is durable.
///
/// [`ClearAll`](crate::DatabaseCommand::ClearAll) concerns the databases of the same durability as
/// this one. If there are others ([`Databases::are_mixed`]), a server executes it on one of each.
pub fn is_logged(
    databases: &Databases,
    database: usize,
    command: &Command<'_>,
) -> Result<bool, Error> {
    let concerns = match command.scope() {
        Scope::Databases(Across::Swap { first, second }) => [first, second],
        Scope::Databases(Across::Transfer(_, other)) => [database, other],
        Scope::Databases(Across::Clear { .. } | Across::ClearAll { .. })
        | Scope::Key(_)
        | Scope::Keys(_)
        | Scope::Script(_)
        | Scope::Database
        | Scope::Expired { .. } => [database; 2],
    };
    let [first, second] = concerns.map(|number| databases.is_durable(number));
    if first != second && concerns.iter().all(|number| *number < DATABASES) {
        return Err(Error::DifferentDurability);
    }
    Ok((first || second) && writes(command))
}

fn writes(command: &Command<'_>) -> bool {
    match command.access() {
        Access::Write | Access::Lease => true,
        // A server does not log the sweep: the log has its own.
        Access::Read | Access::Walk | Access::Sweep => false,
    }
}

/// Whether a transaction changes records of durable databases, so that it has to go through the
/// log. Such a transaction must not concern other databases, whose records the log does not know.
pub fn is_transaction_logged(
    databases: &Databases,
    transaction: &Transaction<'_>,
) -> Result<bool, Inadmissible> {
    let is_logged = |(database, command): &(usize, Command<'_>)| {
        // A command across databases of both kinds fails when it is executed.
        is_logged(databases, *database, command).unwrap_or(false)
    };
    if !transaction.commands.iter().any(is_logged) {
        return Ok(false);
    }
    let is_other = |number: usize| number < DATABASES && !databases.is_durable(number);
    let concerns_others = |(database, command): &(usize, Command<'_>)| match command.scope() {
        Scope::Databases(Across::Swap { first, second }) => is_other(first) && is_other(second),
        Scope::Databases(Across::ClearAll { .. }) => databases.are_mixed(),
        // A transfer between databases of both kinds fails when it is executed.
        Scope::Databases(Across::Clear { .. } | Across::Transfer(..))
        | Scope::Key(_)
        | Scope::Keys(_)
        | Scope::Script(_)
        | Scope::Database
        | Scope::Expired { .. } => is_other(*database),
    };
    if transaction.watches.iter().any(|watch| is_other(watch.database))
        || transaction.commands.iter().any(concerns_others)
    {
        return Err(Inadmissible::DifferentDurability);
    }
    Ok(true)
}

/// Admits or refuses a transaction that is to be logged: its work is limited as that of
/// [`execute_transaction`](crate::execute_transaction). Where it is executed, nothing is refused
/// any more.
pub fn admit_logged_transaction(
    databases: &Databases,
    transaction: &Transaction<'_>,
    context: Context,
) -> Result<(), Inadmissible> {
    transaction::admit_transaction(databases, transaction, context)
}

/// Executes a transaction from the log. Calls `each` before each command's reply, with its index. A
/// table that is not a numbered database is database 0 of the transaction. Either [`Status::Done`],
/// or [`Status::WatchFailed`] without any effect.
pub fn execute_logged_transaction<R: Reply>(
    place: Place<'_>,
    transaction: &LoggedTransaction<'_>,
    context: Context,
    reply: &mut R,
    each: impl FnMut(&mut R, usize),
) -> Status {
    let databases = match place {
        Place::Database(databases, _) => databases,
        Place::Table(table) => return execute_on_table(table, transaction, context, reply, each),
    };
    let LoggedTransaction { watches, commands } = transaction;
    match transaction::execute_admitted(databases, commands, watches, context, reply, each) {
        true => Status::Done,
        false => Status::WatchFailed,
    }
}

/// Commands that need more than keys of this table reply `error(NoSuchDatabase)`.
fn execute_on_table<R: Reply>(
    table: &Table,
    transaction: &LoggedTransaction<'_>,
    context: Context,
    reply: &mut R,
    mut each: impl FnMut(&mut R, usize),
) -> Status {
    let LoggedTransaction { watches, commands } = transaction;
    let mut keys: Vec<&[u8]> = watches.iter().map(|watch| watch.key).collect();
    commands.iter().for_each(|(_, command)| command.scope().each_key(|key| keys.push(key)));
    let locked = table.lock(keys, context.now_ms);
    let here = Some(&locked);
    let hold = |watch: &LoggedWatch<'_>| {
        let then = here.filter(|_| watch.table == 0);
        watch.database == 0 && watch.holds_in(here, then, 0, context.now_ms)
    };
    if !watches.iter().all(hold) {
        return Status::WatchFailed;
    }
    for (index, (database, command)) in commands.iter().enumerate() {
        each(reply, index);
        match command.scope() {
            Scope::Key(_) | Scope::Keys(_) if *database == 0 => {
                command.run(&locked, context, reply);
            }
            _ => reply.error(Error::NoSuchDatabase),
        }
    }
    Status::Done
}

impl<'a> OptimisticCommit<'a> {
    /// The commit as a transaction for the log: [`Status::Done`] means that it was committed,
    /// [`Status::WatchFailed`] that it conflicts. `database` is 0 for a table that is no database.
    pub fn logged(&self, database: usize) -> Result<LoggedTransaction<'a>, Uncommitted> {
        let OptimisticCommit { checks, writes } = *self;
        if work::units_of_optimistic_commit(checks.len(), writes.len()) > TRANSACTION_UNITS_MAX {
            return Err(Uncommitted::TooMuchWork);
        }
        let watch = |check: &crate::Check<'a>| {
            let (table, seen) = match check.state {
                KeyState::Present { table, version } => (table, LoggedSeen::Version(version)),
                KeyState::Absent => (0, LoggedSeen::Absent),
            };
            LoggedWatch { database, table, key: check.key, seen }
        };
        let command = |write: &crate::Write<'a>| {
            let key = write.key;
            let command = match write.put {
                Some((value, flags, expires)) => {
                    let set = Set { flags, expires, ..Set::new(key, value) };
                    Command::String(StringCommand::Set(set))
                }
                None => Command::Key(KeyCommand::DeleteIf { key, condition: Condition::Always }),
            };
            (database, command)
        };
        Ok(LoggedTransaction {
            watches: checks.iter().map(watch).collect(),
            commands: writes.iter().map(command).collect(),
        })
    }
}
