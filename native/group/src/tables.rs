//! The named tables of a group. Records of the log create and drop them.

use std::fmt;
use std::sync::Arc;

use parking_lot::RwLock;
use todana_table::{Keyspace, Options, Table};

use crate::record::{FIRST_TABLE_HOME, TableOptions};

/// A named table.
pub struct NamedTable {
    id: u64,
    name: Box<[u8]>,
    opaque: Box<[u8]>,
    table: Arc<Table>,
}

impl NamedTable {
    /// Makes an empty table. Its seed follows from the group's, so that all replicas agree.
    pub(crate) fn new(id: u64, name: &[u8], options: &TableOptions<'_>, seed: u64) -> NamedTable {
        let TableOptions { order, shards, opaque } = *options;
        let table = Table::new(Options {
            shards,
            order,
            seed: Some(seed ^ id.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            durable: true,
            ..Options::default()
        });
        NamedTable { id, name: name.into(), opaque: opaque.into(), table: Arc::new(table) }
    }

    /// The number that names it as the home of records. No other table of the group ever has it.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Its name.
    pub fn name(&self) -> &[u8] {
        &self.name
    }

    /// The options with which it was created; the number of shards is the actual one.
    pub fn options(&self) -> TableOptions<'_> {
        let (order, shards) = (self.table.order(), Some(self.table.shards()));
        TableOptions { order, shards, opaque: &self.opaque }
    }

    /// The table. To change it, submit records.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

impl fmt::Debug for NamedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NamedTable")
            .field("id", &self.id)
            .field("name", &String::from_utf8_lossy(&self.name))
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

/// All named tables at one moment, by ascending id.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    list: Arc<Vec<Arc<NamedTable>>>,
    next_id: u64,
}

impl Default for Tables {
    fn default() -> Tables {
        Tables { list: Arc::default(), next_id: FIRST_TABLE_HOME }
    }
}

impl Tables {
    pub(crate) fn list(&self) -> &Arc<Vec<Arc<NamedTable>>> {
        &self.list
    }

    #[inline]
    pub(crate) fn by_id(&self, id: u64) -> Option<&Arc<NamedTable>> {
        let place = self.list.binary_search_by_key(&id, |table| table.id).ok()?;
        self.list.get(place)
    }

    pub(crate) fn by_name(&self, name: &[u8]) -> Option<&Arc<NamedTable>> {
        self.list.iter().find(|table| *table.name == *name)
    }

    /// Adds a table, and returns its id. `None` if there is one of this name.
    pub(crate) fn create(
        &mut self,
        name: &[u8],
        options: &TableOptions<'_>,
        seed: u64,
    ) -> Option<u64> {
        if self.by_name(name).is_some() {
            return None;
        }
        let id = self.next_id;
        self.next_id += 1;
        let table = Arc::new(NamedTable::new(id, name, options, seed));
        Arc::make_mut(&mut self.list).push(table);
        Some(id)
    }

    /// Removes a table.
    pub(crate) fn drop_table(&mut self, name: &[u8]) -> Option<Arc<NamedTable>> {
        let place = self.list.iter().position(|table| *table.name == *name)?;
        Some(Arc::make_mut(&mut self.list).remove(place))
    }
}

/// The tables, as everybody but the thread that applies the log sees them.
#[derive(Debug, Default)]
pub(crate) struct Directory(RwLock<Tables>);

impl Directory {
    pub(crate) fn now(&self) -> Tables {
        self.0.read().clone()
    }

    pub(crate) fn publish(&self, tables: &Tables) {
        *self.0.write() = tables.clone();
    }
}
