//! Optimistic commits: several records written as one step, provided that the records that were
//! read before have not changed since.
//!
//! A caller reads records one at a time with [`look_up_state`], which also returns the state of the
//! key. [`commit`] then locks the shards of all keys, compares the states, reserves room for the
//! writes, and performs them. Nobody sees a state in between. A refused commit leaves no
//! trace.
//!
//! A version identifies the write that made a record, so a record of the same version is the same
//! record. An absent key has no such identity and needs none: a key that is absent again is in the
//! same state, whatever happened in between. So a caller needs no registration while it reads,
//! and the commit is a plain value that can be encoded.
//!
//! How it differs from a [`Transaction`](crate::Transaction) with watches: a transaction consists
//! of commands, each of which may fail by itself. An optimistic commit consists of writes that
//! cannot fail once room is reserved, as those of `SetMany`.

use crate::Expires;
use crate::numbered::Numbered;
use crate::place::Place;
use crate::record::used;
use crate::record::{is_past, resolve};
use crate::string::pairs::{count_growth, prefetch_few};
use crate::work::{self, TRANSACTION_UNITS_MAX};
use todana_table::{
    Entry, Full, Growth, Keyspace, Locked, LockedKey, Meta, PREFETCH_KEYS_MAX, Prepared, Time,
};

/// What a key was when it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyState {
    /// It had no record.
    Absent,
    /// It had a record.
    Present {
        /// The table that it was in, see [`Databases::index`](crate::Databases::index); 0 for a
        /// table that is no database. Each table counts its versions separately.
        table: usize,
        /// The version of the record.
        version: u64,
    },
}

/// A key that must be what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Check<'a> {
    /// The key.
    pub key: &'a [u8],
    /// What it was.
    pub state: KeyState,
}

/// A write to one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write<'a> {
    /// The key.
    pub key: &'a [u8],
    /// The new value and its flags and expiry; without one the record is removed.
    pub put: Option<(&'a [u8], u32, Expires)>,
}

/// The checks, and the writes if all checks hold. No two writes have the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptimisticCommit<'a> {
    /// Keys that must be what they were.
    pub checks: &'a [Check<'a>],
    /// The writes.
    pub writes: &'a [Write<'a>],
}

/// Why nothing was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Uncommitted {
    /// A key is not what it was.
    Conflict,
    /// The commit is more work than one step may be, see [`TRANSACTION_UNITS_MAX`].
    TooMuchWork,
    /// There is no room for what it would write.
    Full,
}

impl From<Full> for Uncommitted {
    fn from(_: Full) -> Uncommitted {
        Uncommitted::Full
    }
}

/// Looks at the record of a key as [`look_up`](crate::look_up) does; also returns the state of the
/// key.
#[inline]
pub fn look_up_state<R>(
    place: Place<'_>,
    key: &[u8],
    now: impl Time,
    look: impl FnOnce(Option<Entry<'_>>) -> R,
) -> (R, KeyState) {
    let mut version = None;
    let look = used(now, |entry: Option<Entry<'_>>| {
        version = entry.as_ref().map(Entry::version);
        look(entry)
    });
    let (looked, table) = match place {
        Place::Table(table) => (table.read_in_place(key, now, look), 0),
        Place::Database(databases, number) => match Numbered::new(databases, number) {
            Some(database) => database.read_with_index(key, now, look),
            None => (look(None), 0),
        },
    };
    let state = match version {
        Some(version) => KeyState::Present { table, version },
        None => KeyState::Absent,
    };
    (looked, state)
}

/// Performs all writes, or returns an error and performs none.
pub fn commit(
    place: Place<'_>,
    commit: &OptimisticCommit<'_>,
    now_ms: u64,
) -> Result<(), Uncommitted> {
    let OptimisticCommit { checks, writes } = *commit;
    if work::units_of_optimistic_commit(checks.len(), writes.len()) > TRANSACTION_UNITS_MAX {
        return Err(Uncommitted::TooMuchWork);
    }
    // Values are copied before anything is locked.
    let prepared = writes.iter().map(|write| Change::prepare(write, now_ms));
    let prepared: Vec<Change<'_>> = prepared.collect::<Result<_, Full>>()?;
    let keys = checks.iter().map(|check| check.key).chain(writes.iter().map(|write| write.key));
    let (locked, index) = match place {
        Place::Table(table) => (table.lock(keys, now_ms), 0),
        Place::Database(databases, number) => match Numbered::new(databases, number) {
            Some(database) => database.lock_with_index(keys, now_ms),
            None => return Err(Uncommitted::Conflict),
        },
    };
    if !hold(&locked, index, checks, now_ms) {
        return Err(Uncommitted::Conflict);
    }
    apply(&locked, writes, prepared, now_ms)
}

/// Whether the keys are what they were.
fn hold(locked: &Locked<'_>, index: usize, checks: &[Check<'_>], now_ms: u64) -> bool {
    checks.chunks(PREFETCH_KEYS_MAX).all(|chunk| {
        prefetch_few(locked, chunk.iter().map(|check| check.key));
        chunk.iter().all(|check| {
            let version = |entry: Option<Entry<'_>>| entry.map(|entry| entry.version());
            let present = locked.read(check.key, now_ms, version);
            match check.state {
                KeyState::Absent => present.is_none(),
                KeyState::Present { table, version } => table == index && present == Some(version),
            }
        })
    })
}

/// A write that is ready to be performed under the locks.
enum Change<'a> {
    Put(Prepared),
    /// The expiry is that of the present record.
    Keep(&'a [u8], u32),
    Remove,
}

impl<'a> Change<'a> {
    fn prepare(write: &Write<'a>, now_ms: u64) -> Result<Change<'a>, Full> {
        Ok(match write.put {
            Some((value, flags, Expires::Keep)) => Change::Keep(value, flags),
            Some((value, flags, expires)) => {
                let expires_at_ms = resolve(expires, None, now_ms);
                if is_past(expires_at_ms, now_ms) {
                    return Ok(Change::Remove);
                }
                let meta = Meta { expires_at_ms, flags, access: None };
                Change::Put(Prepared::new(write.key, &[value], meta)?)
            }
            None => Change::Remove,
        })
    }

    /// Makes the entry of a write that depends on the present record.
    fn complete(self, locked: &Locked<'_>, key: &[u8], now_ms: u64) -> Result<Change<'a>, Full> {
        let Change::Keep(value, flags) = self else { return Ok(self) };
        let expiry = |entry: Option<Entry<'_>>| resolve(Expires::Keep, entry.as_ref(), now_ms);
        let expires_at_ms = locked.read(key, now_ms, expiry);
        let meta = Meta { expires_at_ms, flags, access: None };
        Ok(Change::Put(Prepared::new(key, &[value], meta)?))
    }

    fn bytes(&self) -> Option<u64> {
        match self {
            Change::Put(entry) => Some(entry.bytes() as u64),
            Change::Keep(..) | Change::Remove => None,
        }
    }
}

/// Performs the writes, or none of them.
fn apply(
    locked: &Locked<'_>,
    writes: &[Write<'_>],
    changes: Vec<Change<'_>>,
    now_ms: u64,
) -> Result<(), Uncommitted> {
    let mut ready = Vec::with_capacity(writes.len());
    for (write, change) in writes.iter().zip(changes) {
        ready.push(change.complete(locked, write.key, now_ms)?);
    }
    let largest_bytes = ready.iter().filter_map(Change::bytes).max().unwrap_or(0);
    let mut growth = Growth { largest_bytes, ..Growth::default() };
    if locked.refuses(largest_bytes) {
        for (write, change) in writes.iter().zip(&ready) {
            let Some(bytes) = change.bytes() else { continue };
            count_growth(&mut growth, locked, write.key, bytes, now_ms);
        }
    }
    locked.reserve(growth)?;
    let mut written = Ok(());
    let mut ready = ready.into_iter();
    for chunk in writes.chunks(PREFETCH_KEYS_MAX) {
        prefetch_few(locked, chunk.iter().map(|write| write.key));
        for (write, change) in chunk.iter().zip(ready.by_ref()) {
            let put = locked.update(write.key, now_ms, |record| change_record(record, change));
            written = written.and(put);
        }
    }
    // There is room, by the limits of the reservation, and the table has versions: a write fails
    // only for a key of more than 1 GiB in an ordered table, and no interface accepts such keys.
    Ok(written?)
}

fn change_record(record: &mut LockedKey<'_>, change: Change<'_>) -> Result<(), Full> {
    match change {
        Change::Put(entry) => record.put_prepared(entry).map(|_| ()),
        Change::Keep(..) | Change::Remove => {
            record.remove();
            Ok(())
        }
    }
}
