//! Batches: several commands as one step.
//!
//! A batch first locks the shards of all keys that its commands and watches name, in every table concerned, always in
//! the order of table index and shard: two batches cannot wait for each other. Then it checks the watches, and then runs the very
//! functions that single commands run, on the locked tables. A command that fails does not undo the ones before it;
//! nobody else sees a state in between.

use crate::databases::{DATABASES, nibble, swap_nibbles};
use crate::execute::dispatch;
use crate::keys::{Transfer, transfer};
use crate::{Command, Context, Databases, Error, Reply};
use todana_table::{Keyspace, Locked};

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
///
/// # Panics
/// Where there is no such database.
pub fn watch(databases: &Databases, database: usize, key: &[u8], now_ms: u64) -> Watch {
    let table = databases.index(database);
    let version = version_of(&*databases.tables()[table], key, now_ms);
    Watch { database, table, key: key.to_vec(), version }
}

fn version_of<K: Keyspace>(space: &K, key: &[u8], now_ms: u64) -> u64 {
    space.read(key, now_ms, |entry| entry.map_or(0, |entry| entry.version()))
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
    databases: &Databases,
    batch: &Batch<'_>,
    context: Context,
    reply: &mut R,
    mut each: impl FnMut(&mut R, usize),
) -> bool {
    let mut order = Order::of(databases);
    let tables = lock(databases, order, batch);
    let unchanged = batch.watches.iter().all(|watch| {
        order.index(watch.database) == Some(watch.table)
            && tables[watch.table]
                .as_ref()
                .is_some_and(|table| version_of(table, &watch.key, context.now_ms) == watch.version)
    });
    if !unchanged {
        return false;
    }
    for (index, (database, command)) in batch.commands.iter().enumerate() {
        each(reply, index);
        let step = Step { databases, tables: &tables, database: *database, context };
        step.execute(&mut order, command, reply);
    }
    true
}

/// Which table each database number means, for the duration of a step.
#[derive(Clone, Copy)]
pub(crate) struct Order(u64);

impl Order {
    pub(crate) fn of(databases: &Databases) -> Order {
        Order(databases.order())
    }

    pub(crate) fn index(self, database: usize) -> Option<usize> {
        (database < DATABASES).then(|| nibble(self.0, database))
    }
}

type LockedTables<'a> = [Option<Locked<'a>>; DATABASES];

/// What a batch needs of one table.
#[derive(Clone, Default)]
enum Need<'a> {
    #[default]
    Nothing,
    Keys(Vec<&'a [u8]>),
    Everything,
}

impl<'a> Need<'a> {
    fn add_key(&mut self, key: &'a [u8]) {
        match self {
            Need::Nothing => *self = Need::Keys(vec![key]),
            Need::Keys(keys) => keys.push(key),
            Need::Everything => {}
        }
    }
}

fn lock<'a>(databases: &'a Databases, order: Order, batch: &Batch<'_>) -> LockedTables<'a> {
    let mut needs: [Need<'_>; DATABASES] = Default::default();
    for watch in batch.watches {
        needs[watch.table].add_key(&watch.key);
    }
    for (database, command) in batch.commands {
        if matches!(command, Command::Swap { .. } | Command::ClearAll { .. }) {
            needs.fill(Need::Everything);
        }
        let Some(index) = order.index(*database) else { continue };
        if command.sees_all() {
            needs[index] = Need::Everything;
        }
        command.each_key(|key| needs[index].add_key(key));
        if let Some((other, key)) = command.destination()
            && let Some(index) = order.index(other)
        {
            needs[index].add_key(key);
        }
    }
    let mut locked = LockedTables::default();
    for ((locked, need), table) in locked.iter_mut().zip(needs).zip(databases.tables()) {
        *locked = match need {
            Need::Nothing => None,
            Need::Keys(keys) => Some(table.lock(keys)),
            Need::Everything => Some(table.lock_all()),
        };
    }
    locked
}

/// One command of a batch.
struct Step<'a, 't> {
    databases: &'a Databases,
    tables: &'a LockedTables<'t>,
    database: usize,
    context: Context,
}

impl<'t> Step<'_, 't> {
    fn execute<R: Reply>(&self, order: &mut Order, command: &Command<'_>, reply: &mut R) {
        match *command {
            Command::Swap { first, second } => {
                if !self.databases.swap(first, second) {
                    return reply.error(Error::NoSuchDatabase);
                }
                order.0 = swap_nibbles(order.0, first, second);
                reply.done();
            }
            Command::ClearAll { .. } => {
                self.tables.iter().flatten().for_each(|table| {
                    table.clear();
                });
                reply.done();
            }
            Command::Copy { from, to, database: Some(other), replace } => {
                let copied = Transfer { from, to, keep: true, replace };
                self.transfer(*order, other, &copied, reply);
            }
            Command::Move { key, database } => {
                let moved = Transfer { from: key, to: key, keep: false, replace: false };
                self.transfer(*order, database, &moved, reply);
            }
            _ => match self.table(*order, self.database) {
                Some((_, table)) => dispatch(table, command, self.context, reply),
                None => reply.error(Error::NoSuchDatabase),
            },
        }
    }

    fn table(&self, order: Order, database: usize) -> Option<(usize, &Locked<'t>)> {
        let index = order.index(database)?;
        Some((index, self.tables[index].as_ref()?))
    }

    fn transfer<R: Reply>(&self, order: Order, other: usize, moved: &Transfer<'_>, reply: &mut R) {
        let (source, destination) = (self.table(order, self.database), self.table(order, other));
        let (Some((from, source)), Some((to, destination))) = (source, destination) else {
            return reply.error(Error::NoSuchDatabase);
        };
        transfer(source, destination, from == to, moved, self.context.now_ms, reply);
    }
}

impl<'a> Command<'a> {
    /// Whether the command sees a whole database.
    fn sees_all(&self) -> bool {
        matches!(
            self,
            Command::Count
                | Command::Scan { .. }
                | Command::Keys { .. }
                | Command::RandomKey { .. }
                | Command::Clear { .. }
        )
    }

    /// The key in another database, and that database.
    fn destination(&self) -> Option<(usize, &'a [u8])> {
        match *self {
            Command::Copy { to, database: Some(database), .. } => Some((database, to)),
            Command::Move { key, database } => Some((database, key)),
            _ => None,
        }
    }

    /// Calls `visit` with each key that the command names in its own database.
    fn each_key(&self, mut visit: impl FnMut(&'a [u8])) {
        match *self {
            Command::Get { key }
            | Command::Length { key }
            | Command::GetRange { key, .. }
            | Command::GetBit { key, .. }
            | Command::BitCount { key, .. }
            | Command::BitPosition { key, .. }
            | Command::Expiry { key }
            | Command::MemoryUsage { key }
            | Command::Lease { key, .. }
            | Command::Concat { key, .. }
            | Command::SetRange { key, .. }
            | Command::SetBit { key, .. }
            | Command::IncrementFloat { key, .. }
            | Command::DeleteIf { key, .. }
            | Command::Invalidate { key, .. }
            | Command::Take { key }
            | Command::GetAndExpire { key, .. }
            | Command::Expire { key, .. }
            | Command::Move { key, .. } => visit(key),
            Command::Set(ref set) => visit(set.key),
            Command::Increment(ref increment) => visit(increment.key),
            Command::GetMany { keys }
            | Command::Exists { keys }
            | Command::Delete { keys }
            | Command::NoteAccess { keys } => keys.iter().for_each(|key| visit(key)),
            Command::LongestCommon { keys, .. } => keys.into_iter().for_each(visit),
            Command::SetMany { pairs, .. } => pairs.iter().for_each(|(key, _)| visit(key)),
            Command::Rename { from, to, .. } | Command::Copy { from, to, database: None, .. } => {
                visit(from);
                visit(to);
            }
            Command::Copy { from, .. } => visit(from),
            Command::Count
            | Command::Scan { .. }
            | Command::Keys { .. }
            | Command::RandomKey { .. }
            | Command::Clear { .. }
            | Command::ClearAll { .. }
            | Command::Swap { .. } => {}
        }
    }
}
