//! Loads a snapshot into the tables of a group, in place and with several threads.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use todana_command::{DATABASES, Databases};
use todana_table::{BODY_BYTES_MIN, Filling, Loader, Table, TableState};

use crate::figures::Counters;
use crate::home::Home;
use crate::snapshot::{Damage, Head, SnapshotError, SnapshotFile, SnapshotTable, Unit};
use crate::tables::{NamedTable, Tables};

/// Empties a table, and begins its versions anew.
pub(crate) fn empty(table: &Table) {
    let TableState { seed, shards, order, .. } = table.state();
    let clear_at_ms = u64::MAX;
    let state = TableState { seed, shards, order, clear_at_ms, ..TableState::default() };
    // Cannot fail: the table is durable, and the state is its own.
    let _ = table.restore(&state);
}

/// Loads a snapshot into tables that are empty. After an error, they are not complete.
pub(crate) fn load(
    file: &SnapshotFile,
    databases: &Databases,
    tables: &mut Tables,
    threads: usize,
    counters: &Counters,
) -> Result<(), SnapshotError> {
    let content = file.content();
    tables.begin_anew();
    let mut homes = HashMap::new();
    for table in &content.tables {
        homes.insert(table.home, prepare(file, table, databases, tables)?);
    }
    tables.set_next_id(content.next_id);
    reorder(databases, &content.order);

    counters.loaded.store(0, Relaxed);
    counters.to_load.store(file.bytes(), Relaxed);
    let units: Vec<usize> = file.units().collect();
    let work = Work { file, units, next: AtomicUsize::new(0), homes, error: Mutex::new(None) };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(work.units.len()) {
            scope.spawn(|| work.load(counters));
        }
        work.load(counters);
    });
    counters.to_load.store(0, Relaxed);
    match work.error.into_inner() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

/// The table for the records of a home, empty, with the state that it had.
fn prepare(
    file: &SnapshotFile,
    table: &SnapshotTable,
    databases: &Databases,
    tables: &mut Tables,
) -> Result<Arc<Table>, SnapshotError> {
    let SnapshotTable { home, name, opaque, state, .. } = table;
    let place = match home {
        Home::Database(index) => databases.tables()[*index].clone(),
        Home::Table(id) => {
            tables.add(NamedTable::restored(*id, name, opaque, state)).table().clone()
        }
    };
    // A numbered table belongs to the node, which makes it with the group's seed.
    let other = |_| SnapshotError::new(file.path(), 0, Damage::OtherGroup);
    place.restore(state).map_err(other)?;
    Ok(place)
}

/// Gives the databases the tables that they had.
pub(crate) fn reorder(databases: &Databases, order: &[usize; DATABASES]) {
    for (number, &index) in order.iter().enumerate() {
        if let Some(present) = (number..DATABASES).find(|&it| databases.index(it) == index) {
            databases.swap(number, present);
        }
    }
}

/// What the threads share.
struct Work<'a> {
    file: &'a SnapshotFile,
    units: Vec<usize>,
    next: AtomicUsize,
    homes: HashMap<Home, Arc<Table>>,
    error: Mutex<Option<SnapshotError>>,
}

impl Work<'_> {
    /// Loads units until none is left.
    fn load(&self, counters: &Counters) {
        let mut buffer = Vec::new();
        let mut loaders = HashMap::new();
        while let Some(&number) = self.units.get(self.next.fetch_add(1, Relaxed)) {
            if let Err(error) = self.load_unit(number, &mut buffer, &mut loaders) {
                self.next.store(self.units.len(), Relaxed);
                self.error.lock().get_or_insert(error);
            }
            counters.loaded.fetch_add(self.file.unit_bytes(number), Relaxed);
        }
    }

    fn load_unit(
        &self,
        number: usize,
        buffer: &mut Vec<u8>,
        loaders: &mut HashMap<Home, Loader>,
    ) -> Result<(), SnapshotError> {
        let unloadable = || self.file.unloadable(number);
        let home = self.file.unit_home(number);
        let table = self.homes.get(&home).ok_or_else(unloadable)?;
        let log_time_ms = self.file.content().time.now.ms;
        let loader = loaders.entry(home).or_insert_with(|| table.loader(log_time_ms));
        match self.file.unit(number, buffer)? {
            Unit::Records(mut records) => {
                while let Some(it) = records.next()? {
                    loader.put(it.key, it.value, it.meta, it.version).map_err(|_| unloadable())?;
                }
                Ok(())
            }
            Unit::Large(large) => {
                let Head { key, value_len, meta, version, .. } = large.head;
                if value_len < BODY_BYTES_MIN {
                    return Err(unloadable());
                }
                let mut value = Filling::new(value_len).map_err(|_| unloadable())?;
                large.each_piece(|piece| value.push(piece))?;
                let entry = value.prepared(key, meta).map_err(|_| unloadable())?;
                loader.put_prepared(entry, version).map_err(|_| unloadable())
            }
        }
    }
}
