//! Watches: keys that must not have changed when a transaction begins.

use crate::Databases;
use crate::database_map::{DATABASES, DatabaseMap, LockedTables};
use crate::wire::{Input, Malformed, Put, Take, enums, structs};
use std::sync::Arc;
use todana_table::{Entry, Keyspace, Locked, Seen};

/// The state of a key when a client began to watch it.
#[derive(Debug)]
pub struct Watch {
    /// Database number at that time.
    pub(crate) database: usize,
    /// The index of its table at that time (SWAPDB changes numbers, not indexes).
    table: usize,
    pub(crate) key: Arc<[u8]>,
    /// `None` in a database that does not exist, where no key ever changes.
    seen: Option<Seen>,
}

/// Begins to watch a key: records its present state. Dropping the result ends the watch.
pub fn watch(databases: &Databases, database: usize, key: &[u8], now_ms: u64) -> Watch {
    let key = key.into();
    let mut watch = Watch { database, table: DATABASES, key, seen: None };
    while let Some(index) = databases.map().index(database) {
        watch.table = index;
        watch.seen = Some(databases.tables()[index].see(&watch.key, now_ms));
        if databases.map().index(database) == Some(index) {
            break;
        }
    }
    watch
}

impl Watch {
    /// The key.
    pub fn key(&self) -> &Arc<[u8]> {
        &self.key
    }

    /// Whether the key is unchanged. A SWAPDB does not matter if the key exists in neither table. A
    /// key that was absent, and is absent now, must not have existed in between.
    pub(crate) fn holds(&self, map: DatabaseMap, tables: &LockedTables<'_>, now_ms: u64) -> bool {
        let Some(index) = map.index(self.database) else { return true };
        let version = |table: &Locked<'_>| {
            table.read(&self.key, now_ms, |entry| entry.map(|entry| entry.version()))
        };
        let version = tables[index].as_ref().and_then(version);
        match &self.seen {
            Some(Seen::Version(seen)) => index == self.table && version == Some(*seen),
            Some(Seen::Absent(absence)) => version.is_none() && absence.lasts(),
            None => true,
        }
    }
}

/// A watch as the log has it (`logged.rs`): what the log itself determines, so that every replica
/// comes to the same result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedWatch<'a> {
    /// The number of the database; 0 for a table that is no database.
    pub database: usize,
    /// The index of its table when the watch began; 0 for a table that is no database.
    pub table: usize,
    /// The key.
    pub key: &'a [u8],
    /// What the key was.
    pub seen: LoggedSeen,
}

/// What a key was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedSeen {
    /// It had a record of this version.
    Version(u64),
    /// It had no record at this version of the table, and must not have had one since.
    AbsentSince(u64),
    /// It had no record. It may have had one since.
    Absent,
}

structs! {
    LoggedWatch<'a> { database, table, key, seen }
}

enums! {
    LoggedSeen {
        0 Version { 0: version }
        1 AbsentSince { 0: version }
        2 Absent {}
    }
}

impl Watch {
    /// The watch as the log has it; `None` if it has failed already. The result is exact: a key
    /// that is created later, until the log executes the transaction, makes the watch fail there.
    pub fn logged(&self) -> Option<LoggedWatch<'_>> {
        let Watch { database, table, ref key, ref seen } = *self;
        let seen = match seen {
            Some(Seen::Version(version)) => LoggedSeen::Version(*version),
            Some(Seen::Absent(absence)) => LoggedSeen::AbsentSince(absence.until()?),
            None => LoggedSeen::Absent,
        };
        Some(LoggedWatch { database, table, key, seen })
    }
}

impl LoggedWatch<'_> {
    /// Whether the key is as it was, by the rules of [`Watch`]. The key is locked, also in the
    /// table that the database was when the watch began.
    pub(crate) fn holds(&self, map: DatabaseMap, tables: &LockedTables<'_>, now_ms: u64) -> bool {
        let Some(index) = map.index(self.database) else { return true };
        let then = tables.get(self.table).and_then(Option::as_ref);
        self.holds_in(tables[index].as_ref(), then, index, now_ms)
    }

    /// `now` is the present table, of this index; `then` is that of the time of the watch.
    pub(crate) fn holds_in(
        &self,
        now: Option<&Locked<'_>>,
        then: Option<&Locked<'_>>,
        index: usize,
        now_ms: u64,
    ) -> bool {
        let version = |entry: Option<Entry<'_>>| entry.map(|entry| entry.version());
        let version = now.and_then(|table| table.read(self.key, now_ms, version));
        match self.seen {
            LoggedSeen::Version(seen) => index == self.table && version == Some(seen),
            LoggedSeen::AbsentSince(since) => {
                version.is_none() && then.is_some_and(|it| !it.created_since(self.key, since))
            }
            LoggedSeen::Absent => version.is_none(),
        }
    }
}
