//! Transactions: several commands as one step.
//!
//! A transaction first locks the shards of all keys that its commands and watches name, in every
//! table concerned, always in the order of table index and shard, so that two transactions cannot
//! deadlock. Then it checks the watches, and runs the same functions as single commands on the
//! locked tables. A command that fails does not undo the ones before it. No other client sees a
//! state in between.

use crate::database_map::{DATABASES, DatabaseMap, LockedTables};
use crate::foresight;
use crate::key::records::{Transfer, transfer};
use crate::logged_watch::LoggedWatch;
use crate::plan::{Plan, Transaction};
use crate::scope::{Across, NO_CLEAR, Scope, is_due};
use crate::script::{self, Script, ScriptCommand};
use crate::sizes::Foresight;
use crate::string::pairs::prefetch_few;
use crate::work::{self, TRANSACTION_UNITS_MAX};
use crate::{Command, Context, Databases, Error, Inadmissible, Reply, cause};
use todana_table::{Full, Keyspace, Locked, PREFETCH_KEYS_MAX};

/// Executes a transaction. Calls `each` before each command's reply, with its index, so that a
/// protocol can prepare its format. If a watch fails, returns false, and has executed and replied
/// nothing.
///
/// Before the first command, the whole transaction is admitted or refused: its work is limited,
/// because it holds all locks, and there must be room for its writes, which is reserved. The limits
/// of a table are read once, when it is locked, so that a limit that changes later refuses no
/// command of the transaction. A command may still fail alone: for example because a value is not
/// an integer, is too large for a table that evicts, or finds no memory.
///
/// A clear with a later time is scheduled at the end of the transaction.
pub fn execute_transaction<R: Reply>(
    databases: &Databases,
    transaction: &Transaction<'_>,
    context: Context,
    reply: &mut R,
    each: impl FnMut(&mut R, usize),
) -> Result<bool, Inadmissible> {
    execute_watched_transaction(databases, transaction, &[], context, reply, each)
}

/// The same, with further watches, which were begun for another node.
pub fn execute_watched_transaction<R: Reply>(
    databases: &Databases,
    transaction: &Transaction<'_>,
    watches: &[LoggedWatch<'_>],
    context: Context,
    reply: &mut R,
    each: impl FnMut(&mut R, usize),
) -> Result<bool, Inadmissible> {
    let begun = LockedTransaction::begin(databases, transaction, watches, context, true)?;
    let Some(step) = begun else { return Ok(false) };
    step.execute_all(transaction.commands, reply, each);
    Ok(true)
}

/// Decides whether [`execute_transaction`] would admit the transaction, whether its watches hold or
/// not. A logged transaction is admitted where it comes from, because nothing may be refused when
/// the log is applied.
pub(crate) fn admit_transaction(
    databases: &Databases,
    transaction: &Transaction<'_>,
    context: Context,
) -> Result<(), Inadmissible> {
    loop {
        let map = databases.map();
        if work::units_of(transaction, databases, map) > TRANSACTION_UNITS_MAX {
            return Err(Inadmissible::TooMuchWork);
        }
        let plan = Plan::of(transaction, databases, map, context.now_ms);
        let tables = plan.lock(databases, context.now_ms);
        if databases.map() == map && plan.still_fits(databases, &tables) {
            return admit(transaction, databases, map, &tables, context);
        }
    }
}

/// Executes a transaction from the log, which was admitted before it was logged. If a watch fails,
/// returns false, and has executed and replied nothing.
pub(crate) fn execute_admitted<R: Reply>(
    databases: &Databases,
    commands: &[(usize, Command<'_>)],
    watches: &[LoggedWatch<'_>],
    context: Context,
    reply: &mut R,
    each: impl FnMut(&mut R, usize),
) -> bool {
    let transaction = Transaction { other_units: 0, watches: &[], commands };
    match LockedTransaction::begin(databases, &transaction, watches, context, false) {
        Ok(Some(step)) => {
            step.execute_all(commands, reply, each);
            true
        }
        // Only admission refuses.
        Ok(None) | Err(_) => false,
    }
}

/// Executes one command on several tables, or on a whole table. Only its own limits apply.
pub(crate) fn execute_alone<R: Reply>(
    databases: &Databases,
    database: usize,
    command: &Command<'_>,
    context: Context,
    reply: &mut R,
) {
    let commands = [(database, command.clone())];
    let transaction = Transaction { other_units: 0, watches: &[], commands: &commands };
    if let Ok(Some(mut step)) =
        LockedTransaction::begin(databases, &transaction, &[], context, false)
    {
        step.execute(database, command, reply);
        step.end();
    }
}

/// A transaction during its execution, with all its locks held.
struct LockedTransaction<'t> {
    databases: &'t Databases,
    tables: LockedTables<'t>,
    /// The databases as the next command sees them.
    map: DatabaseMap,
    context: Context,
    /// The steps that scripts of this transaction have taken. All of them together take at most
    /// what one may take.
    steps: u64,
    /// Clears to schedule after the locks are released: table and time.
    clears: Vec<(usize, u64)>,
}

impl<'t> LockedTransaction<'t> {
    /// Locks the shards and checks the watches, and those of a logged transaction; `None` if one
    /// fails. `admission` also checks that the transaction does not exceed the limit of work and
    /// that there is room for its writes.
    ///
    /// The transaction takes effect at the moment when, with all locks held, it finds the map of
    /// the databases unchanged, or replaces it by the map after the transaction. Other threads may
    /// see the new map before the transaction's commands have run. This does no harm, because the
    /// records concerned are locked.
    fn begin(
        databases: &'t Databases,
        transaction: &Transaction<'_>,
        logged: &[LoggedWatch<'_>],
        context: Context,
        admission: bool,
    ) -> Result<Option<LockedTransaction<'t>>, Inadmissible> {
        loop {
            let map = databases.map();
            if admission && work::units_of(transaction, databases, map) > TRANSACTION_UNITS_MAX {
                return Err(Inadmissible::TooMuchWork);
            }
            let mut plan = Plan::of(transaction, databases, map, context.now_ms);
            plan.add_watches(logged, map);
            let tables = plan.lock(databases, context.now_ms);
            if databases.map() != map || !plan.still_fits(databases, &tables) {
                continue;
            }
            let now_ms = context.now_ms;
            if !watches_hold(transaction, map, &tables, now_ms)
                || !logged.iter().all(|watch| watch.holds(map, &tables, now_ms))
            {
                return Ok(None);
            }
            if admission {
                admit(transaction, databases, map, &tables, context)?;
            }
            if databases.remap(map, plan.map) {
                return Ok(Some(LockedTransaction {
                    databases,
                    tables,
                    map,
                    context,
                    steps: 0,
                    clears: Vec::new(),
                }));
            }
        }
    }

    fn execute_all<R: Reply>(
        mut self,
        commands: &[(usize, Command<'_>)],
        reply: &mut R,
        mut each: impl FnMut(&mut R, usize),
    ) {
        let mut fetched = 0;
        for (index, (database, command)) in commands.iter().enumerate() {
            if index == fetched {
                fetched += self.prefetch(&commands[index..]);
            }
            each(reply, index);
            self.execute(*database, command, reply);
        }
        self.end();
    }

    fn execute<R: Reply>(&mut self, database: usize, command: &Command<'_>, reply: &mut R) {
        let _executing = cause::executing(|| command.names());
        match command.scope() {
            Scope::Key(_) | Scope::Keys(_) | Scope::Database => match self.table(database) {
                Some((_, table)) => command.run(table, self.context, reply),
                None => reply.error(Error::NoSuchDatabase),
            },
            Scope::Script(_) => self.run_script(database, command, reply),
            // Needs no locks, and removes nothing: expired records stay due.
            Scope::Expired { .. } if database < DATABASES => reply.flag(false),
            Scope::Expired { .. } => reply.error(Error::NoSuchDatabase),
            Scope::Databases(across) => self.execute_across(database, across, reply),
        }
    }

    fn run_script<R: Reply>(&mut self, database: usize, command: &Command<'_>, reply: &mut R) {
        let Command::Script(ScriptCommand::Run(script)) = command else { return };
        let Some((_, table)) = self.table(database) else {
            return reply.error(Error::NoSuchDatabase);
        };
        let Some(interpreter) = self.databases.interpreter() else {
            return reply.error(Error::NoScripts);
        };
        let steps_max = script.steps_max.saturating_sub(self.steps);
        let script = Script { steps_max, ..script.clone() };
        let scripted = script::run::run(table, interpreter, &script, self.context);
        self.steps = self.steps.saturating_add(scripted.steps);
        reply.value(&scripted.reply);
    }

    fn execute_across<R: Reply>(&mut self, database: usize, across: Across<'_>, reply: &mut R) {
        match across {
            Across::Transfer(transfer, other) => {
                self.transfer([database, other], &transfer, reply);
            }
            Across::Clear { at_ms } => match self.map.index(database) {
                Some(index) => {
                    self.clear(index, at_ms);
                    reply.done();
                }
                None => reply.error(Error::NoSuchDatabase),
            },
            Across::ClearAll { at_ms } => match self.map.index(database) {
                Some(index) => {
                    let databases = self.databases;
                    let alike = databases.alike(databases.is_durable_table(index));
                    alike.for_each(|index| self.clear(index, at_ms));
                    reply.done();
                }
                None => reply.error(Error::NoSuchDatabase),
            },
            Across::Swap { first, second } => {
                match self.databases.swapped(self.map, first, second) {
                    Ok(map) => {
                        self.map = map;
                        reply.done();
                    }
                    Err(error) => reply.error(error),
                }
            }
        }
    }

    /// Prefetches the memory that the next commands need. Returns their number, at least one.
    fn prefetch(&self, commands: &[(usize, Command<'_>)]) -> usize {
        let (mut keys, mut len, mut count) = ([&[][..]; PREFETCH_KEYS_MAX], 0, 0);
        let Some(&(first, _)) = commands.first() else { return 1 };
        for (database, command) in commands.iter().take(PREFETCH_KEYS_MAX) {
            let scope = command.scope();
            if *database != first
                || len == PREFETCH_KEYS_MAX
                || matches!(scope, Scope::Databases(Across::Swap { .. }))
            {
                break;
            }
            count += 1;
            scope.each_key(|key| {
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
        let index = self.map.index(database)?;
        Some((index, self.tables[index].as_ref()?))
    }

    /// Clears a table, or schedules the clear. Replaces a clear that was scheduled before.
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
        if self.databases.is_durable_table(from) != self.databases.is_durable_table(to) {
            return reply.error(Error::DifferentDurability);
        }
        transfer(source, destination, from == to, moved, self.context.now_ms, reply);
    }

    /// Releases all locks, then does the work that is not possible under them.
    fn end(self) {
        drop(self.tables);
        for (index, at_ms) in self.clears {
            self.databases.tables()[index].schedule_clear(at_ms);
        }
    }
}

fn watches_hold(
    transaction: &Transaction<'_>,
    map: DatabaseMap,
    tables: &LockedTables<'_>,
    now_ms: u64,
) -> bool {
    transaction.watches.chunks(PREFETCH_KEYS_MAX).all(|watches| {
        let same = watches.iter().all(|watch| watch.database == watches[0].database);
        if let Some(index) = map.index(watches[0].database).filter(|_| same)
            && let Some(table) = &tables[index]
        {
            prefetch_few(table, watches.iter().map(|watch| &*watch.key));
        }
        watches.iter().all(|watch| watch.holds(map, tables, now_ms))
    })
}

/// Makes the decisions that depend on the existing records, under the locks, and reserves room.
fn admit(
    transaction: &Transaction<'_>,
    databases: &Databases,
    map: DatabaseMap,
    tables: &LockedTables<'_>,
    context: Context,
) -> Result<(), Inadmissible> {
    let is_needed = foresight::is_needed(transaction, tables);
    // Other clients may have written records before the locks were taken.
    let of_whole_table =
        |(_, command): &(usize, Command<'_>)| command.scope().is_whole_database(context.now_ms);
    if !is_needed && !transaction.commands.iter().any(of_whole_table) {
        return Ok(());
    }
    let Foresight { units, growth } = match is_needed {
        true => foresight::foresee(transaction, databases, tables, map, context),
        false => Foresight::default(),
    };
    if units.saturating_add(work::units_of(transaction, databases, map)) > TRANSACTION_UNITS_MAX {
        return Err(Inadmissible::TooMuchWork);
    }
    // If a later table refuses, the reservations of earlier ones end with their locks.
    tables.iter().zip(&growth).try_for_each(|(table, growth)| match table {
        Some(table) => table.reserve(*growth).map_err(|Full| Inadmissible::Full),
        None => Ok(()),
    })
}
