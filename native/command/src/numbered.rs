//! A numbered database, as what a command runs on.
//!
//! A SWAPDB may give a number another table while a command runs: one client may swap two databases
//! and clear the old one, to replace a whole data set at once, between the moment when another
//! command finds the table and the moment when it locks the key. That command would miss a record
//! that is in both data sets, or write to the one that was cleared. [`Numbered`] therefore checks
//! the map again when it holds the lock, and starts over if the number means another table.

use crate::Databases;
use crate::database_map::{DATABASES, DatabaseMap};
use crate::target::Target;
use todana_table::{
    Entry, KeyOrder, Keyspace, Locked, LockedKey, NotOrdered, Table, Time, Walk, Walked,
};

/// A database by its number.
#[derive(Clone, Copy)]
pub(crate) struct Numbered<'a> {
    databases: &'a Databases,
    /// Below [`DATABASES`].
    number: usize,
}

impl<'a> Numbered<'a> {
    /// `None` if there is no such database.
    #[inline]
    pub(crate) fn new(databases: &'a Databases, number: usize) -> Option<Numbered<'a>> {
        (number < DATABASES).then_some(Numbered { databases, number })
    }

    /// The table that the number means, and the map that says so.
    #[inline]
    fn table(&self) -> (&'a Table, DatabaseMap) {
        let map = self.databases.map();
        let index = map.index(self.number).unwrap_or_default();
        (&self.databases.tables()[index], map)
    }

    /// Whether the map is unchanged.
    #[inline]
    fn is_still(&self, map: DatabaseMap) -> bool {
        self.databases.map() == map
    }

    /// The index of the database's table by this map.
    fn index(&self, map: DatabaseMap) -> usize {
        map.index(self.number).unwrap_or_default()
    }

    /// Calls `attempt` with the table that the number means until it returns something, which it
    /// does if it finds the map unchanged under the lock. Also returns the table's index.
    #[inline]
    fn retry<R>(&self, mut attempt: impl FnMut(&'a Table, DatabaseMap) -> Option<R>) -> (R, usize) {
        loop {
            let (table, map) = self.table();
            if let Some(result) = attempt(table, map) {
                return (result, self.index(map));
            }
        }
    }

    /// The action, if the map is unchanged: it is called under the lock, once.
    #[inline]
    fn take_if_still<F>(&self, map: DatabaseMap, action: &mut Option<F>) -> Option<F> {
        if self.is_still(map) { action.take() } else { None }
    }

    /// As [`Target::read_in_place`]; also returns the index of the table that it looked at.
    #[inline]
    pub(crate) fn read_with_index<R>(
        &self,
        key: &[u8],
        now: impl Time,
        look: impl FnOnce(Option<Entry<'_>>) -> R,
    ) -> (R, usize) {
        let mut look = Some(look);
        self.retry(|table, map| {
            table.read_in_place(key, now, |entry| {
                self.take_if_still(map, &mut look).map(|look| look(entry))
            })
        })
    }

    /// As [`Target::lock`]; also returns the index of the table that it locked.
    pub(crate) fn lock_with_index<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]> + Clone,
        now_ms: u64,
    ) -> (Locked<'a>, usize) {
        self.retry(|table, map| {
            let locked = table.lock(keys.clone(), now_ms);
            self.is_still(map).then_some(locked)
        })
    }
}

impl Target for Numbered<'_> {
    #[inline]
    fn read_in_place<R>(
        &self,
        key: &[u8],
        now: impl Time,
        look: impl FnOnce(Option<Entry<'_>>) -> R,
    ) -> R {
        self.read_with_index(key, now, look).0
    }

    fn lock<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k [u8]> + Clone,
        now_ms: u64,
    ) -> Locked<'_> {
        self.lock_with_index(keys, now_ms).0
    }

    /// A concurrent SWAPDB may cause the other database to be swept.
    fn sweep(&self, now_ms: u64, work_max: usize) -> (u64, bool) {
        self.table().0.sweep(now_ms, work_max)
    }
}

impl Keyspace for Numbered<'_> {
    #[inline]
    fn read<R>(&self, key: &[u8], now_ms: u64, look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        let mut look = Some(look);
        let read = self.retry(|table, map| {
            table.read(key, now_ms, |entry| {
                self.take_if_still(map, &mut look).map(|look| look(entry))
            })
        });
        read.0
    }

    #[inline]
    fn update<R>(
        &self,
        key: &[u8],
        now_ms: u64,
        change: impl FnOnce(&mut LockedKey<'_>) -> R,
    ) -> R {
        let mut change = Some(change);
        let updated = self.retry(|table, map| {
            table.update(key, now_ms, |locked| {
                self.take_if_still(map, &mut change).map(|change| change(locked))
            })
        });
        updated.0
    }

    fn prefetch(&self, keys: &[&[u8]]) {
        self.table().0.prefetch(keys);
    }

    fn len(&self) -> u64 {
        self.table().0.len()
    }

    fn len_at(&self, now_ms: u64) -> u64 {
        self.table().0.len_at(now_ms)
    }

    /// Pages of a scan come from the table that the number means at the start of each.
    fn scan(&self, cursor: u64, count: usize, now_ms: u64, visit: impl FnMut(Entry<'_>)) -> u64 {
        self.table().0.scan(cursor, count, now_ms, visit)
    }

    fn order(&self) -> Option<KeyOrder> {
        self.table().0.order()
    }

    /// Steps of a walk use the table that the number means at the start of each.
    fn walk(
        &self,
        walk: &Walk<'_>,
        now_ms: u64,
        visit: impl FnMut(Entry<'_>),
    ) -> Result<Walked, NotOrdered> {
        self.table().0.walk(walk, now_ms, visit)
    }

    fn random<R>(&self, seed: u64, now_ms: u64, look: impl FnOnce(Option<Entry<'_>>) -> R) -> R {
        self.table().0.random(seed, now_ms, look)
    }

    fn clear(&self) -> u64 {
        self.table().0.clear()
    }
}
