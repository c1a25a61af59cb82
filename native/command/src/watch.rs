//! Watches: keys that must not have changed when a batch begins.

use crate::Databases;
use crate::databases::{DATABASES, DatabaseMap, LockedTables};
use std::sync::Arc;
use todana_table::{Keyspace, Locked, Seen};

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
