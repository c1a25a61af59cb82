//! Batches: several commands as one step.
//!
//! A batch first locks the shards of all keys that its commands and watches name, in every table
//! concerned, always in the order of table index and shard: two batches cannot wait for each other.
//! Then it checks the watches, and then runs the very functions that single commands run, on the
//! locked tables. A command that fails does not undo the ones before it; nobody else sees a state
//! in between.

use crate::databases::{DATABASES, Order};
use crate::execute::{NO_CLEAR, dispatch};
use crate::keys::{Transfer, transfer};
use crate::{Command, Context, Databases, Error, Reply, range};
use todana_table::{Keyspace, Locked, PREFETCH_KEYS_MAX, Walk};

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
    /// A version of the table from before the look: where the key was absent, whatever has a higher
    /// one came later.
    pub table_version: u64,
}

/// Notes a key's version now. In a database that does not exist no key ever changes.
pub fn watch(databases: &Databases, database: usize, key: &[u8], now_ms: u64) -> Watch {
    let key = key.to_vec();
    let mut watch = Watch { database, table: DATABASES, key, version: 0, table_version: 0 };
    while let Some(index) = databases.order().index(database) {
        let table = &*databases.tables()[index];
        watch.table = index;
        watch.table_version = table.version();
        watch.version =
            table.read(&watch.key, now_ms, |entry| entry.map_or(0, |entry| entry.version()));
        if databases.order().index(database) == Some(index) {
            break;
        }
    }
    watch
}

impl Watch {
    /// Whether the key is as it was. That another table took the number's place does not matter to
    /// a key that neither has. A key that was absent, and is again, must not have been there in
    /// between: where another key of its shard came and went instead, that is taken for a change.
    fn holds(
        &self,
        databases: &Databases,
        order: Order,
        tables: &LockedTables<'_>,
        now_ms: u64,
    ) -> bool {
        let Some(index) = order.index(self.database) else { return true };
        // Not just a read: what has expired is to be collected, and thereby counted as removed.
        let version_now = |table: &Locked<'_>| {
            table.update(&self.key, now_ms, |slot| slot.entry().map_or(0, |entry| entry.version()))
        };
        let version = tables[index].as_ref().map_or(0, version_now);
        if version != self.version {
            return false;
        }
        if version != 0 {
            return index == self.table;
        }
        databases.tables()[self.table].removed_version(&self.key) <= self.table_version
    }
}

/// A batch: all commands as one step, none if a watched key has changed. Nothing else sees a state
/// in between.
#[derive(Debug)]
pub struct Batch<'a> {
    /// Keys that must not have changed.
    pub watches: &'a [Watch],
    /// Database number and command, in order.
    pub commands: &'a [(usize, Command<'a>)],
}

/// Carries out a batch. `each` is called before each command's reply, with its index, so that a
/// door can prepare its words. Returns false, with nothing done or replied, where a watch failed.
///
/// A clear in a batch that is to come about later is scheduled when the batch is done. Replies are
/// made while all locks are held, large values copied included: who writes keys that large values
/// of a batch share a shard with waits for that.
pub fn execute_batch<R: Reply>(
    databases: &Databases,
    batch: &Batch<'_>,
    context: Context,
    reply: &mut R,
    mut each: impl FnMut(&mut R, usize),
) -> bool {
    let Some(mut step) = Step::begin(databases, batch, context) else { return false };
    let mut fetched = 0;
    for (index, (database, command)) in batch.commands.iter().enumerate() {
        if index == fetched {
            fetched += step.prefetch(&batch.commands[index..]);
        }
        each(reply, index);
        step.execute(*database, command, reply);
    }
    step.end();
    true
}

/// Carries out one command that concerns more than one table, or all of one.
pub(crate) fn execute_alone<R: Reply>(
    databases: &Databases,
    database: usize,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    let commands = [(database, command.clone())];
    execute_batch(
        databases,
        &Batch { watches: &[], commands: &commands },
        context,
        reply,
        |_, _| {},
    );
}

type LockedTables<'a> = [Option<Locked<'a>>; DATABASES];

/// What a batch needs of one table.
#[derive(Clone, Default)]
enum Need<'a> {
    #[default]
    Nothing,
    Keys(Vec<&'a [u8]>),
    /// Everything, unless the table is empty.
    Emptiness,
    Everything,
}

impl<'a> Need<'a> {
    fn add_key(&mut self, key: &'a [u8]) {
        match self {
            Need::Nothing => *self = Need::Keys(vec![key]),
            Need::Keys(keys) => keys.push(key),
            Need::Emptiness => *self = Need::Everything,
            Need::Everything => {}
        }
    }

    fn add_emptiness(&mut self) {
        *self = match self {
            Need::Nothing | Need::Emptiness => Need::Emptiness,
            Need::Keys(_) | Need::Everything => Need::Everything,
        }
    }
}

/// What a batch needs of all tables, and the order that it leaves.
struct Plan<'a> {
    needs: [Need<'a>; DATABASES],
    /// The order after the batch's own swaps.
    order: Order,
}

impl<'a> Plan<'a> {
    fn of(batch: &Batch<'a>, mut order: Order, now_ms: u64) -> Plan<'a> {
        let mut needs: [Need<'_>; DATABASES] = Default::default();
        for watch in batch.watches {
            if let Some(index) = order.index(watch.database) {
                needs[index].add_key(&watch.key);
            }
        }
        for (database, command) in batch.commands {
            if let Command::Swap { first, second } = *command {
                order = order.swapped(first, second).unwrap_or(order);
            }
            let Some(index) = order.index(*database) else { continue };
            match command.clears(now_ms) {
                Some(true) => needs.iter_mut().for_each(Need::add_emptiness),
                Some(false) => needs[index].add_emptiness(),
                None if command.sees_all() => needs[index] = Need::Everything,
                None => command.each_key(|key| needs[index].add_key(key)),
            }
            if let Some((other, key)) = command.destination()
                && let Some(index) = order.index(other)
            {
                needs[index].add_key(key);
            }
        }
        Plan { needs, order }
    }

    /// Locks what is needed, table by table.
    fn lock<'t>(&self, databases: &'t Databases, now_ms: u64) -> LockedTables<'t> {
        std::array::from_fn(|index| {
            let table = &databases.tables()[index];
            match &self.needs[index] {
                Need::Nothing => None,
                Need::Keys(keys) => Some(table.lock(keys.iter().copied(), now_ms)),
                Need::Emptiness if table.is_empty() => None,
                Need::Emptiness | Need::Everything => Some(table.lock_all(now_ms)),
            }
        })
    }

    /// Whether the tables that were left out because they were empty are so still, now that the
    /// others are locked. Then a record that is written to one of them now is written after the
    /// batch.
    fn still_fits(&self, databases: &Databases, tables: &LockedTables<'_>) -> bool {
        let mut all = self.needs.iter().zip(tables).zip(databases.tables());
        all.all(|((need, locked), table)| {
            !matches!(need, Need::Emptiness) || locked.is_some() || table.is_empty()
        })
    }
}

/// A batch on its way, with everything locked.
struct Step<'t> {
    databases: &'t Databases,
    tables: LockedTables<'t>,
    /// The order as the next command finds it.
    order: Order,
    context: Context,
    /// Clears to schedule when the locks are gone: table and time.
    clears: Vec<(usize, u64)>,
}

impl<'t> Step<'t> {
    /// Locks and checks. `None` where a watch failed.
    ///
    /// The batch happens at the moment when, with all locks held, the order of the databases is
    /// found unchanged, or is exchanged for the one that the batch leaves. What others see of
    /// another order before the batch's commands are through is not in the way: the records
    /// concerned are locked.
    fn begin(databases: &'t Databases, batch: &Batch<'_>, context: Context) -> Option<Step<'t>> {
        loop {
            let order = databases.order();
            let plan = Plan::of(batch, order, context.now_ms);
            let tables = plan.lock(databases, context.now_ms);
            if databases.order() != order || !plan.still_fits(databases, &tables) {
                continue;
            }
            if !batch
                .watches
                .iter()
                .all(|watch| watch.holds(databases, order, &tables, context.now_ms))
            {
                return None;
            }
            if databases.reorder(order, plan.order) {
                return Some(Step { databases, tables, order, context, clears: Vec::new() });
            }
        }
    }

    fn execute<R: Reply>(&mut self, database: usize, command: &Command<'_>, reply: &mut R) {
        match *command {
            Command::Swap { first, second } => match self.order.swapped(first, second) {
                Some(order) => {
                    self.order = order;
                    reply.done();
                }
                None => reply.error(Error::NoSuchDatabase),
            },
            Command::ClearAll { at_ms } => {
                (0..DATABASES).for_each(|index| self.clear(index, at_ms));
                reply.done();
            }
            Command::Clear { at_ms } => match self.order.index(database) {
                Some(index) => {
                    self.clear(index, at_ms);
                    reply.done();
                }
                None => reply.error(Error::NoSuchDatabase),
            },
            Command::Copy { from, to, database: Some(other), replace } => {
                let copied = Transfer { from, to, keep: true, replace };
                self.transfer([database, other], &copied, reply);
            }
            Command::Move { key, database: other } => {
                let moved = Transfer { from: key, to: key, keep: false, replace: false };
                self.transfer([database, other], &moved, reply);
            }
            // Needs no locks, and finds none: what is due stays due.
            Command::Sweep { .. } if database < DATABASES => reply.flag(false),
            _ => match self.table(database) {
                Some((_, table)) => match *command {
                    Command::Range { keys, after, reverse, count, values } => {
                        let walk = Walk { keys, after, reverse, count };
                        range::range_at_once(table, &walk, values, self.context.now_ms, reply);
                    }
                    _ => dispatch(table, command, self.context, reply),
                },
                None => reply.error(Error::NoSuchDatabase),
            },
        }
    }

    /// Begins to fetch from memory what the next commands need. Returns how many these are: one at
    /// least.
    fn prefetch(&self, commands: &[(usize, Command<'_>)]) -> usize {
        let (mut keys, mut len, mut count) = ([&[][..]; PREFETCH_KEYS_MAX], 0, 0);
        let Some(&(first, _)) = commands.first() else { return 1 };
        for (database, command) in commands.iter().take(PREFETCH_KEYS_MAX) {
            if *database != first || len == PREFETCH_KEYS_MAX || matches!(command, Command::Swap { .. }) {
                break;
            }
            count += 1;
            command.each_key(|key| {
                if let Some(place) = keys.get_mut(len) {
                    (*place, len) = (key, len + 1);
                }
            });
        }
        if len > 1
            && let Some((_, table)) = self.table(first)
        {
            table.prefetch(&keys[..len]);
        }
        count.max(1)
    }

    fn table(&self, database: usize) -> Option<(usize, &Locked<'t>)> {
        let index = self.order.index(database)?;
        Some((index, self.tables[index].as_ref()?))
    }

    /// Clears a table, or notes to have it cleared. A clear that was scheduled before is replaced.
    fn clear(&mut self, index: usize, at_ms: Option<u64>) {
        if !is_due(at_ms, self.context.now_ms) {
            return self.clears.push((index, at_ms.unwrap_or(NO_CLEAR)));
        }
        self.clears.push((index, NO_CLEAR));
        if let Some(table) = &self.tables[index] {
            table.clear();
        }
    }

    fn transfer<R: Reply>(&self, databases: [usize; 2], moved: &Transfer<'_>, reply: &mut R) {
        let [Some((from, source)), Some((to, destination))] = databases.map(|it| self.table(it))
        else {
            return reply.error(Error::NoSuchDatabase);
        };
        transfer(source, destination, from == to, moved, self.context.now_ms, reply);
    }

    /// Lets go of all locks and does what could not be done under them.
    fn end(self) {
        drop(self.tables);
        for (index, at_ms) in self.clears {
            self.databases.tables()[index].schedule_clear(at_ms);
        }
    }
}

/// Whether a clear is to happen at once.
fn is_due(at_ms: Option<u64>, now_ms: u64) -> bool {
    at_ms.is_none_or(|at_ms| at_ms <= now_ms)
}

impl<'a> Command<'a> {
    /// Whether the command looks at a whole database.
    fn sees_all(&self) -> bool {
        matches!(
            self,
            Command::Count
                | Command::Scan { .. }
                | Command::Range { .. }
                | Command::Keys { .. }
                | Command::RandomKey { .. }
        )
    }

    /// Whether the command clears its database, or all of them (`Some(true)`), at once.
    fn clears(&self, now_ms: u64) -> Option<bool> {
        match *self {
            Command::Clear { at_ms } if is_due(at_ms, now_ms) => Some(false),
            Command::ClearAll { at_ms } if is_due(at_ms, now_ms) => Some(true),
            _ => None,
        }
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
            | Command::IncrementWord { key, .. }
            | Command::IncrementFraction { key, .. }
            | Command::CompareValue { key, .. }
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
            | Command::Range { .. }
            | Command::Sweep { .. }
            | Command::Keys { .. }
            | Command::RandomKey { .. }
            | Command::Clear { .. }
            | Command::ClearAll { .. }
            | Command::Swap { .. } => {}
        }
    }
}
