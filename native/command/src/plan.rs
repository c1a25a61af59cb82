//! What a batch needs to lock.

use crate::databases::{DATABASES, DatabaseMap};
use crate::{Batch, Command, Databases};
use todana_table::{Keyspace, Locked};

pub(crate) type LockedTables<'a> = [Option<Locked<'a>>; DATABASES];

/// What a batch needs of one table.
#[derive(Clone, Default)]
pub(crate) enum Need<'a> {
    #[default]
    Nothing,
    Keys(Vec<&'a [u8]>),
    /// Everything, unless the table is empty.
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

    fn add_emptiness(&mut self) {
        *self = match self {
            Need::Nothing | Need::Emptiness => Need::Emptiness,
            Need::Keys(_) | Need::Everything => Need::Everything,
        }
    }
}

/// What a batch needs of all tables, and the map that it leaves.
pub(crate) struct Plan<'a> {
    pub(crate) needs: [Need<'a>; DATABASES],
    /// The map after the batch's own swaps.
    pub(crate) map: DatabaseMap,
}

impl<'a> Plan<'a> {
    pub(crate) fn of(batch: &Batch<'a>, mut map: DatabaseMap, now_ms: u64) -> Plan<'a> {
        let mut needs: [Need<'_>; DATABASES] = Default::default();
        for watch in batch.watches {
            if let Some(index) = map.index(watch.database) {
                needs[index].add_key(&watch.key);
            }
        }
        for (database, command) in batch.commands {
            if let Command::Swap { first, second } = *command {
                map = map.swapped(first, second).unwrap_or(map);
            }
            let Some(index) = map.index(*database) else { continue };
            match command.clears(now_ms) {
                Some(true) => needs.iter_mut().for_each(Need::add_emptiness),
                Some(false) => needs[index].add_emptiness(),
                None if command.sees_all() => needs[index] = Need::Everything,
                None => command.each_key(|key| needs[index].add_key(key)),
            }
            if let Some((other, key)) = command.destination()
                && let Some(index) = map.index(other)
            {
                needs[index].add_key(key);
            }
        }
        Plan { needs, map }
    }

    /// Locks what is needed, table by table.
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

    /// Whether the tables that were left out because they were empty are so still, now that the
    /// others are locked. Then a record that is written to one of them now is written after the
    /// batch.
    pub(crate) fn still_fits(&self, databases: &Databases, tables: &LockedTables<'_>) -> bool {
        let mut all = self.needs.iter().zip(tables).zip(databases.tables());
        all.all(|((need, locked), table)| {
            !matches!(need, Need::Emptiness) || locked.is_some() || table.is_empty()
        })
    }
}

/// Whether a clear is to happen at once.
pub(crate) fn is_due(at_ms: Option<u64>, now_ms: u64) -> bool {
    at_ms.is_none_or(|at_ms| at_ms <= now_ms)
}

impl<'a> Command<'a> {
    /// Whether the command looks at a whole database.
    pub(crate) fn sees_all(&self) -> bool {
        matches!(
            self,
            Command::Count
                | Command::Scan { .. }
                | Command::Range { .. }
                | Command::Keys { .. }
                | Command::RandomKey { .. }
        )
    }

    /// Whether the command clears its database, or all of them (`Some(true)`), at once.
    pub(crate) fn clears(&self, now_ms: u64) -> Option<bool> {
        match *self {
            Command::Clear { at_ms } if is_due(at_ms, now_ms) => Some(false),
            Command::ClearAll { at_ms } if is_due(at_ms, now_ms) => Some(true),
            _ => None,
        }
    }

    /// The key in another database, and that database.
    pub(crate) fn destination(&self) -> Option<(usize, &'a [u8])> {
        match *self {
            Command::Copy { to, database: Some(database), .. } => Some((database, to)),
            Command::Move { key, database } => Some((database, key)),
            _ => None,
        }
    }

    /// Calls `visit` with each key that the command names in its own database.
    pub(crate) fn each_key(&self, mut visit: impl FnMut(&'a [u8])) {
        match *self {
            Command::Get { key }
            | Command::Length { key }
            | Command::GetRange { key, .. }
            | Command::GetBit { key, .. }
            | Command::BitCount { key, .. }
            | Command::BitPosition { key, .. }
            | Command::Expiry { key }
            | Command::MemoryUsage { key }
            | Command::Lease { key, .. }
            | Command::Concat { key, .. }
            | Command::SetRange { key, .. }
            | Command::SetBit { key, .. }
            | Command::IncrementFloat { key, .. }
            | Command::IncrementBinary { key, .. }
            | Command::IncrementFraction { key, .. }
            | Command::CompareValue { key, .. }
            | Command::DeleteIf { key, .. }
            | Command::Invalidate { key, .. }
            | Command::Take { key }
            | Command::GetAndExpire { key, .. }
            | Command::Expire { key, .. }
            | Command::Move { key, .. } => visit(key),
            Command::Set(ref set) => visit(set.key),
            Command::Increment(ref increment) => visit(increment.key),
            Command::GetMany { keys }
            | Command::Exists { keys }
            | Command::Delete { keys }
            | Command::NoteAccess { keys } => keys.iter().for_each(|key| visit(key)),
            Command::Lcs { keys, .. } => keys.into_iter().for_each(visit),
            Command::SetMany { pairs, .. } => pairs.iter().for_each(|(key, _)| visit(key)),
            Command::Rename { from, to, .. } | Command::Copy { from, to, database: None, .. } => {
                visit(from);
                visit(to);
            }
            Command::Copy { from, .. } => visit(from),
            Command::Count
            | Command::Scan { .. }
            | Command::Range { .. }
            | Command::Sweep { .. }
            | Command::Keys { .. }
            | Command::RandomKey { .. }
            | Command::Clear { .. }
            | Command::ClearAll { .. }
            | Command::Swap { .. } => {}
        }
    }
}
