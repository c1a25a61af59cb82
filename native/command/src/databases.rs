//! The numbered databases of a server.
//!
//! `SWAPDB` changes which table a number means; it never changes a table. The sixteen table
//! indexes, four bits each, are one atomic word, so a swap is atomic for all threads.
//!
//! Observers observe a number. If `SWAPDB` gives a number another table, its observers move to that
//! table, and [`EventKind::Swap`](todana_table::EventKind::Swap) is the first event that they see
//! of it. A write to the table between the change of the map and that event is not reported, so an
//! observer reads the database again after the event, and then misses nothing.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use todana_table::{Observer, Options, Table, TooManyObservers};

use crate::Error;
use crate::database_map::{DATABASES, DatabaseMap};
use crate::script::interpreter::Interpreter;

/// Sixteen tables and the map from numbers to tables. Some of the tables may be durable; a number
/// keeps its durability, because `SWAPDB` exchanges only databases of the same one.
pub struct Databases {
    tables: [Arc<Table>; DATABASES],
    /// The bit of each table's index: whether the table is durable.
    durable: u16,
    /// The index of each database's table, four bits each; the lowest are those of database 0.
    map: AtomicU64,
    /// Held while observers come, go or move.
    observing: Mutex<()>,
    /// What runs scripts.
    interpreter: OnceLock<Arc<dyn Interpreter>>,
}

impl Databases {
    /// Databases over these tables, numbered in their order.
    pub fn new(tables: [Arc<Table>; DATABASES]) -> Databases {
        Databases::with_map(tables, 0xfedc_ba98_7654_3210)
    }

    fn with_map(tables: [Arc<Table>; DATABASES], map: u64) -> Databases {
        let bit = |(index, table): (usize, &Arc<Table>)| u16::from(table.is_durable()) << index;
        let durable = tables.iter().enumerate().map(bit).sum();
        Databases {
            tables,
            durable,
            map: AtomicU64::new(map),
            observing: Mutex::new(()),
            interpreter: OnceLock::new(),
        }
    }

    /// Sets what runs scripts. Only the first call has an effect.
    pub fn set_interpreter(&self, interpreter: Arc<dyn Interpreter>) {
        _ = self.interpreter.set(interpreter);
    }

    /// What runs scripts.
    pub fn interpreter(&self) -> Option<&dyn Interpreter> {
        self.interpreter.get().map(|interpreter| &**interpreter)
    }

    /// Sixteen empty tables, all with these options.
    pub fn with_options(options: &Options) -> Databases {
        Databases::new(std::array::from_fn(|_| Arc::new(Table::new(options.clone()))))
    }

    /// The present table of database `number`.
    ///
    /// # Panics
    /// If `number` is [`DATABASES`] or more.
    #[inline]
    pub fn table(&self, number: usize) -> &Arc<Table> {
        &self.tables[self.index(number)]
    }

    /// The index of that table. `SWAPDB` changes numbers, never indexes.
    ///
    /// # Panics
    /// If `number` is [`DATABASES`] or more.
    #[inline]
    pub fn index(&self, number: usize) -> usize {
        let index = self.map().index(number);
        index.unwrap_or_else(|| panic!("there are {DATABASES} databases, numbered from 0"))
    }

    /// All tables, by index.
    pub fn tables(&self) -> &[Arc<Table>; DATABASES] {
        &self.tables
    }

    /// Whether there is a durable database of this number.
    #[inline]
    pub fn is_durable(&self, number: usize) -> bool {
        self.durable != 0 && self.map().index(number).is_some_and(|it| self.is_durable_table(it))
    }

    /// The bit of each table's index: whether the table is durable.
    pub(crate) fn durable_tables(&self) -> u16 {
        self.durable
    }

    /// Whether the table of this index is durable.
    pub(crate) fn is_durable_table(&self, index: usize) -> bool {
        self.durable >> index & 1 != 0
    }

    /// Whether some databases are durable and others are not.
    pub fn are_mixed(&self) -> bool {
        self.durable != 0 && self.durable != u16::MAX
    }

    /// The indexes of the tables that are durable, or of those that are not.
    pub(crate) fn alike(&self, durable: bool) -> impl Iterator<Item = usize> {
        (0..DATABASES).filter(move |index| self.is_durable_table(*index) == durable)
    }

    /// The map with two databases exchanged.
    pub(crate) fn swapped(
        &self,
        map: DatabaseMap,
        first: usize,
        second: usize,
    ) -> Result<DatabaseMap, Error> {
        let (Some(one), Some(other)) = (map.index(first), map.index(second)) else {
            return Err(Error::NoSuchDatabase);
        };
        match self.is_durable_table(one) == self.is_durable_table(other) {
            true => Ok(map.swapped((first, one), (second, other))),
            false => Err(Error::DifferentDurability),
        }
    }

    /// Exchanges two databases; false if one of them does not exist, or only one is durable.
    pub fn swap(&self, first: usize, second: usize) -> bool {
        loop {
            let map = self.map();
            let Ok(swapped) = self.swapped(map, first, second) else { return false };
            if self.remap(map, swapped) {
                return true;
            }
        }
    }

    /// Databases with the same numbers, but with other tables at some indexes.
    pub fn with_tables(&self, replace: impl Fn(usize) -> Option<Arc<Table>>) -> Databases {
        let table = |index: usize| replace(index).unwrap_or_else(|| self.tables[index].clone());
        let databases = Databases::with_map(std::array::from_fn(table), self.map().word());
        self.interpreter.get().into_iter().for_each(|it| databases.set_interpreter(it.clone()));
        databases
    }

    /// The table that each number means now.
    #[inline]
    pub(crate) fn map(&self) -> DatabaseMap {
        DatabaseMap::of_word(self.map.load(SeqCst))
    }

    /// Replaces the map if it is still `old`; false if it is not.
    pub(crate) fn remap(&self, old: DatabaseMap, new: DatabaseMap) -> bool {
        if old == new {
            return self.map() == old;
        }
        let _turn = self.observing.lock();
        if self.map.compare_exchange(old.word(), new.word(), SeqCst, SeqCst).is_err() {
            return false;
        }
        let moved = (0..DATABASES).filter_map(|number| {
            let (from, to) = (old.index(number)?, new.index(number)?);
            (from != to).then(|| (to, self.tables[from].take_observers()))
        });
        // All are taken before the first is given.
        for (to, observers) in moved.collect::<Vec<_>>() {
            self.tables[to].adopt_observers(observers);
        }
        true
    }

    /// Adds an observer of a database, whichever table that is.
    ///
    /// # Panics
    /// If there is no such database.
    pub fn observe(
        &self,
        number: usize,
        observer: Arc<dyn Observer>,
    ) -> Result<(), TooManyObservers> {
        let _turn = self.observing.lock();
        self.table(number).observe(observer)
    }

    /// Removes an observer of a database. False if it is not one.
    pub fn forget(&self, observer: &Arc<dyn Observer>) -> bool {
        let _turn = self.observing.lock();
        self.tables.iter().any(|table| table.forget(observer))
    }
}

impl fmt::Debug for Databases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Databases").field("tables", &self.tables).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use todana_table::{Event, EventKind, Keyspace, LockedKey, Meta};

    use super::*;

    #[test]
    fn swapping_moves_two_numbers_and_no_other() {
        let databases = Databases::with_options(&Options::default());
        assert!(databases.swap(0, 15));
        assert!(databases.swap(0, 3));
        assert!(databases.swap(7, 7));
        let indexes: Vec<usize> = (0..DATABASES).map(|number| databases.index(number)).collect();
        assert_eq!(indexes, [3, 1, 2, 15, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0]);
        assert!(!databases.swap(0, 16));
    }

    #[test]
    fn observers_follow_the_number() {
        struct Seen(Mutex<Vec<(EventKind, Vec<u8>)>>);
        impl Observer for Seen {
            fn observe(&self, event: &Event<'_>) {
                self.0.lock().push((event.kind, event.key.to_vec()));
            }
        }
        let databases = Databases::with_options(&Options::default());
        let put = |number: usize, key: &[u8]| {
            let put = |locked: &mut LockedKey<'_>| locked.put(&[], Meta::default()).map(drop);
            databases.table(number).update(key, 1, put).expect("room");
        };
        let seen = [0, 1, 2].map(|number| {
            let seen = Arc::new(Seen(Mutex::default()));
            databases.observe(number, seen.clone()).expect("the first");
            seen
        });
        databases.swap(0, 1);
        (0..4).for_each(|number| put(number, &[number as u8]));
        // As a transaction with several exchanges does it: a rotation.
        let old = databases.map();
        let new = databases.swapped(old, 0, 1).and_then(|map| databases.swapped(map, 1, 2));
        let new = new.expect("databases");
        assert!(databases.remap(old, new));
        (0..4).for_each(|number| put(number, &[number as u8]));
        for (number, seen) in seen.into_iter().enumerate() {
            let put = (EventKind::Put, vec![number as u8]);
            let swap = (EventKind::Swap, vec![]);
            let once = if number < 2 { vec![swap.clone()] } else { vec![] };
            let expected = [once, vec![put.clone(), swap, put]].concat();
            assert_eq!(*seen.0.lock(), expected, "{number}");
            let observer: Arc<dyn Observer> = seen;
            assert!(databases.forget(&observer) && !databases.forget(&observer));
        }
    }

    #[test]
    fn other_tables_have_the_numbers_of_those_in_whose_place_they_are() {
        let databases = Databases::with_options(&Options::default());
        databases.swap(0, 3);
        let other = Arc::new(Table::new(Options::default()));
        let changed = databases.with_tables(|index| (index == 3).then(|| other.clone()));
        assert!(Arc::ptr_eq(changed.table(0), &other));
        let others = (1..DATABASES).all(|n| Arc::ptr_eq(changed.table(n), databases.table(n)));
        assert!(others);
    }
}
