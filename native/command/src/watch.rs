//! Watches: keys that must not have changed when a transaction begins.

use crate::Databases;
use crate::database_map::{DATABASES, DatabaseMap, LockedTables};
use crate::logged_watch::{LoggedSeen, LoggedWatch};
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
    known: Known,
}

/// The knowledge about the key.
#[derive(Debug)]
enum Known {
    /// Its state in the table of this node.
    Here(Seen),
    /// Its state in a table of another node, which alone executes the transaction.
    Elsewhere(LoggedSeen),
    /// Nothing: the database does not exist, so that no key in it ever changes.
    Nothing,
}

/// Begins to watch a key: records its present state. Dropping the result ends the watch.
pub fn watch(databases: &Databases, database: usize, key: &[u8], now_ms: u64) -> Watch {
    let key = key.into();
    let mut watch = Watch { database, table: DATABASES, key, known: Known::Nothing };
    while let Some(index) = databases.map().index(database) {
        watch.table = index;
        watch.known = Known::Here(databases.tables()[index].see(&watch.key, now_ms));
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
        match &self.known {
            Known::Here(Seen::Version(seen)) => index == self.table && version == Some(*seen),
            Known::Here(Seen::Absent(absence)) => version.is_none() && absence.lasts(),
            Known::Elsewhere(_) => false,
            Known::Nothing => true,
        }
    }
}

impl Watch {
    /// The watch as the log has it; `None` if it has failed already. The result is exact: a key
    /// that is created later, until the log executes the transaction, makes the watch fail there.
    pub fn logged(&self) -> Option<LoggedWatch<'_>> {
        let Watch { database, table, ref key, ref known } = *self;
        let seen = match known {
            Known::Here(Seen::Version(version)) => LoggedSeen::Version(*version),
            Known::Here(Seen::Absent(absence)) => LoggedSeen::AbsentSince(absence.until()?),
            Known::Elsewhere(seen) => *seen,
            Known::Nothing => LoggedSeen::Absent,
        };
        Some(LoggedWatch { database, table, key, seen })
    }

    /// Whether another node has begun it for this one.
    pub fn is_elsewhere(&self) -> bool {
        matches!(self.known, Known::Elsewhere(_))
    }

    /// A watch that another node has begun for this one.
    pub fn elsewhere(watch: &LoggedWatch<'_>) -> Watch {
        let LoggedWatch { database, table, key, seen } = *watch;
        Watch { database, table, key: key.into(), known: Known::Elsewhere(seen) }
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
