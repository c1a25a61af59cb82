//! A transaction, and the locks that it needs.

use crate::database_map::{DATABASES, DatabaseMap, LockedTables};
use crate::logged_watch::LoggedWatch;
use crate::scope::{Across, Scope, is_due};
use crate::watch::Watch;
use crate::{Command, Databases};
use todana_table::Keyspace;

/// A transaction: all commands as one step, none if a watched key has changed. Nothing else sees a
/// state in between.
#[derive(Debug)]
pub struct Transaction<'a> {
    /// Keys that must not have changed.
    pub watches: &'a [Watch],
    /// Database number and command, in order.
    pub commands: &'a [(usize, Command<'a>)],
    /// Units of work that the caller does beside the commands. They count towards
    /// [`TRANSACTION_UNITS_MAX`](crate::TRANSACTION_UNITS_MAX).
    pub other_units: u64,
}

/// The locks that a transaction needs in one table.
#[derive(Clone, Default)]
pub(crate) enum Need<'a> {
    #[default]
    Nothing,
    Keys(Vec<&'a [u8]>),
    /// All shards, unless the table is empty.
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

    /// The table of a script is locked even if the script has no keys.
    fn add_keys(&mut self, keys: &[&'a [u8]]) {
        if let Need::Nothing = self {
            *self = Need::Keys(Vec::new());
        }
        keys.iter().for_each(|key| self.add_key(key));
    }

    fn add_emptiness(&mut self) {
        *self = match self {
            Need::Nothing | Need::Emptiness => Need::Emptiness,
            Need::Keys(_) | Need::Everything => Need::Everything,
        }
    }
}

/// The map of the databases after a command.
pub(crate) fn map_after(scope: Scope<'_>, map: DatabaseMap, databases: &Databases) -> DatabaseMap {
    match scope {
        Scope::Databases(Across::Swap { first, second }) => {
            databases.swapped(map, first, second).unwrap_or(map)
        }
        _ => map,
    }
}

/// The locks that a transaction needs in all tables, and the map of the databases after it.
pub(crate) struct Plan<'a> {
    pub(crate) needs: [Need<'a>; DATABASES],
    /// The map after the transaction's own swaps.
    pub(crate) map: DatabaseMap,
}

impl<'a> Plan<'a> {
    pub(crate) fn of(
        transaction: &Transaction<'a>,
        databases: &Databases,
        mut map: DatabaseMap,
        now_ms: u64,
    ) -> Plan<'a> {
        let mut needs: [Need<'_>; DATABASES] = Default::default();
        for watch in transaction.watches {
            if let Some(index) = map.index(watch.database) {
                needs[index].add_key(&watch.key);
            }
        }
        for (database, command) in transaction.commands {
            let scope = command.scope();
            map = map_after(scope, map, databases);
            let Some(index) = map.index(*database) else { continue };
            match scope {
                Scope::Key(key) => needs[index].add_key(key),
                Scope::Keys(keys) => keys.iter().for_each(|key| needs[index].add_key(key)),
                Scope::Script(keys) => needs[index].add_keys(keys),
                Scope::Database => needs[index] = Need::Everything,
                Scope::Expired { .. } => {}
                Scope::Databases(across) => match across {
                    Across::Transfer(transfer, other) => {
                        needs[index].add_key(transfer.from);
                        if let Some(other) = map.index(other) {
                            needs[other].add_key(transfer.to);
                        }
                    }
                    Across::Clear { at_ms } if is_due(at_ms, now_ms) => {
                        needs[index].add_emptiness();
                    }
                    Across::ClearAll { at_ms } if is_due(at_ms, now_ms) => {
                        let alike = databases.alike(databases.is_durable_table(index));
                        alike.for_each(|index| needs[index].add_emptiness());
                    }
                    Across::Clear { .. } | Across::ClearAll { .. } | Across::Swap { .. } => {}
                },
            }
        }
        Plan { needs, map }
    }

    /// Adds the keys that a logged transaction watches: in the table that the database is now, and
    /// in the one that it was.
    pub(crate) fn add_watches(&mut self, watches: &[LoggedWatch<'a>], map: DatabaseMap) {
        for watch in watches {
            let now = map.index(watch.database);
            let before = Some(watch.table).filter(|table| *table < DATABASES && now.is_some());
            let tables = now.into_iter().chain(before.filter(|_| before != now));
            tables.for_each(|index| self.needs[index].add_key(watch.key));
        }
    }

    /// Takes the locks, table by table.
    pub(crate) fn lock<'t>(&self, databases: &'t Databases, now_ms: u64) -> LockedTables<'t> {
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

    /// Whether the tables that are not locked because they were empty are still empty, now that the
    /// others are locked. If so, any record written to them comes after the transaction.
    pub(crate) fn still_fits(&self, databases: &Databases, tables: &LockedTables<'_>) -> bool {
        let mut all = self.needs.iter().zip(tables).zip(databases.tables());
        all.all(|((need, locked), table)| {
            !matches!(need, Need::Emptiness) || locked.is_some() || table.is_empty()
        })
    }
}
