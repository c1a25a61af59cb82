//! The look at one key, whoever asks: GET, `get`, `todana:get` and their relatives.
//!
//! Doors that build their answer while they look at the record (Erlang's, which lends large values
//! instead of copying them) call [`look_up`] and [`take`]; [`execute`](crate::execute) goes the
//! same way. So a look means the same everywhere: it finds a database that was exchanged on the way
//! (`target.rs`), and counts as a use of the record.

use crate::Databases;
use crate::target::{Numbered, Target};
use todana_table::{Entry, Keyspace, Table};

/// Where keys are.
#[derive(Clone, Copy)]
pub enum Place<'a> {
    /// A table that is no database.
    Table(&'a Table),
    /// A database, by its number.
    Database(&'a Databases, usize),
}

/// Looks at the live record of a key in its place: who wants to change it waits, so `look` must be
/// brief. There is nothing in a database that does not exist.
#[inline]
pub fn look_up<R>(
    place: Place<'_>,
    key: &[u8],
    now_ms: u64,
    look: impl FnOnce(Option<Entry<'_>>) -> R,
) -> R {
    match place {
        Place::Table(table) => table.read_in_place(key, now_ms, used(now_ms, look)),
        Place::Database(databases, number) => match Numbered::new(databases, number) {
            Some(target) => target.read_in_place(key, now_ms, used(now_ms, look)),
            None => look(None),
        },
    }
}

/// Removes the record of a key and looks at it, as one step. A large one is looked at when the lock
/// is gone.
#[inline]
pub fn take<R>(
    place: Place<'_>,
    key: &[u8],
    now_ms: u64,
    look: impl FnOnce(Option<Entry<'_>>) -> R,
) -> R {
    match place {
        Place::Table(table) => take_from(table, key, now_ms, look),
        Place::Database(databases, number) => match Numbered::new(databases, number) {
            Some(target) => take_from(&target, key, now_ms, look),
            None => look(None),
        },
    }
}

/// Looks at a record, and notes that it was used. A large one may be looked at when the lock is
/// gone.
#[inline]
pub(crate) fn get<K: Keyspace, R>(
    space: &K,
    key: &[u8],
    now_ms: u64,
    look: impl FnOnce(Option<Entry<'_>>) -> R,
) -> R {
    space.read(key, now_ms, used(now_ms, look))
}

/// The look that a use is. Nobody sees in a record when it was used last, so it is noted before.
#[inline]
fn used<R>(
    now_ms: u64,
    look: impl FnOnce(Option<Entry<'_>>) -> R,
) -> impl FnOnce(Option<Entry<'_>>) -> R {
    move |entry| {
        if let Some(entry) = &entry {
            entry.note_access(now_ms);
        }
        look(entry)
    }
}

/// [`take`], from a table or from one whose locks are held.
pub(crate) fn take_from<K: Keyspace, R>(
    space: &K,
    key: &[u8],
    now_ms: u64,
    look: impl FnOnce(Option<Entry<'_>>) -> R,
) -> R {
    let taken = space.update(key, now_ms, |slot| {
        let entry = slot.entry();
        if let Some(large) = entry.and_then(|entry| entry.share()) {
            slot.remove();
            return Err((look, large));
        }
        let is_there = entry.is_some();
        let looked = look(entry);
        if is_there {
            slot.remove();
        }
        Ok(looked)
    });
    taken.unwrap_or_else(|(look, large)| look(Some(large.entry())))
}
