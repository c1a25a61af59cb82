//! The named tables of a group. Records of the log create and drop them.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};

use parking_lot::RwLock;
use todana_table::{Keyspace, Options, Table, TableState};

use crate::home::{FIRST_TABLE, Home};
use crate::record::TableOptions;

/// A named table.
pub struct NamedTable {
    id: u64,
    name: Box<[u8]>,
    opaque: Box<[u8]>,
    table: Arc<Table>,
    is_dropped: AtomicBool,
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
        NamedTable::of(id, name, opaque, table)
    }

    /// A table with a state from a snapshot, and no records.
    pub(crate) fn restored(id: u64, name: &[u8], opaque: &[u8], state: &TableState) -> NamedTable {
        NamedTable::of(id, name, opaque, Table::new(state.options()))
    }

    fn of(id: u64, name: &[u8], opaque: &[u8], table: Table) -> NamedTable {
        NamedTable {
            id,
            name: name.into(),
            opaque: opaque.into(),
            table: Arc::new(table),
            is_dropped: AtomicBool::new(false),
        }
    }

    /// Whether the log has dropped the table.
    pub fn is_dropped(&self) -> bool {
        self.is_dropped.load(Relaxed)
    }

    pub(crate) fn set_dropped(&self, is_dropped: bool) {
        self.is_dropped.store(is_dropped, Relaxed);
    }

    /// Whether a table that is made in this way is the same.
    fn is_like(&self, other: &NamedTable) -> bool {
        let seed = |table: &NamedTable| table.table.state().seed;
        (self.id, &self.name, self.options()) == (other.id, &other.name, other.options())
            && seed(self) == seed(other)
    }

    /// What names it as the home of records. No other table of the group ever has it.
    pub fn home(&self) -> Home {
        Home::Table(self.id)
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
    /// The tables before the log was begun anew, as far as somebody still holds them. One that
    /// comes back is the same instance.
    former: Vec<Weak<NamedTable>>,
    /// Whether the changes of tables that are added are not reported.
    muted: bool,
}

impl Default for Tables {
    fn default() -> Tables {
        let (list, former) = (Arc::default(), Vec::new());
        Tables { list, next_id: FIRST_TABLE, former, muted: false }
    }
}

impl Tables {
    /// No tables, before the log is begun anew. Those that exist now count as dropped until they
    /// come back.
    pub(crate) fn begin_anew(&mut self) {
        self.list.iter().for_each(|table| table.set_dropped(true));
        self.former.extend(self.list.iter().map(Arc::downgrade));
        self.former.retain(|table| table.strong_count() > 0);
        (self.list, self.next_id) = (Arc::default(), FIRST_TABLE);
    }

    /// Adds a table with the highest id so far, as the instance that it was before, if it was.
    pub(crate) fn add(&mut self, new: NamedTable) -> Arc<NamedTable> {
        let former = self.former.iter().filter_map(Weak::upgrade).find(|it| it.is_like(&new));
        let table = former.unwrap_or_else(|| Arc::new(new));
        table.set_dropped(false);
        table.table().mute(self.muted);
        self.next_id = self.next_id.max(table.id + 1);
        Arc::make_mut(&mut self.list).push(table.clone());
        table
    }

    /// Whether the changes of tables that are added are not reported.
    pub(crate) fn set_muted(&mut self, muted: bool) {
        self.muted = muted;
    }

    /// The id of the next table.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Sets the id of the next table.
    pub(crate) fn set_next_id(&mut self, id: u64) {
        self.next_id = id;
    }

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
        self.add(NamedTable::new(id, name, options, seed));
        Some(id)
    }

    /// Removes a table.
    pub(crate) fn drop_table(&mut self, name: &[u8]) -> Option<Arc<NamedTable>> {
        let place = self.list.iter().position(|table| *table.name == *name)?;
        let table = Arc::make_mut(&mut self.list).remove(place);
        table.set_dropped(true);
        Some(table)
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
