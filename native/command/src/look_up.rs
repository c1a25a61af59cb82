//! Reading one key, for every protocol: GET, `get`, `todana:get` and their relatives.
//!
//! Callers that build their reply while they borrow the record (Erlang's, which lends large values
//! instead of copying them) call [`look_up`] and [`take`]; [`execute`](crate::execute) does the
//! same. A read therefore has one meaning everywhere: it notices a concurrent SWAPDB
//! (`numbered.rs`), and it counts as a use of the record.

use crate::numbered::Numbered;
use crate::place::Place;
use crate::record::{take_from, used};
use crate::target::Target;
use todana_table::{Entry, Time};

/// Reads the live record of a key in place. Writers of its shard wait meanwhile, so `look` must be
/// brief. A database that does not exist has no records.
#[inline]
pub fn look_up<R>(
    place: Place<'_>,
    key: &[u8],
    now: impl Time,
    look: impl FnOnce(Option<Entry<'_>>) -> R,
) -> R {
    match place {
        Place::Table(table) => table.read_in_place(key, now, used(now, look)),
        Place::Database(databases, number) => match Numbered::new(databases, number) {
            Some(target) => target.read_in_place(key, now, used(now, look)),
            None => look(None),
        },
    }
}

/// Whether a key has a live record. This is no use of the record.
#[inline]
pub fn is_key(place: Place<'_>, key: &[u8], now: impl Time) -> bool {
    let look = |entry: Option<Entry<'_>>| entry.is_some();
    match place {
        Place::Table(table) => table.read_in_place(key, now, look),
        Place::Database(databases, number) => Numbered::new(databases, number)
            .is_some_and(|target| target.read_in_place(key, now, look)),
    }
}

/// Removes the record of a key and passes it to `look`, as one step. A large record is passed after
/// the lock is released.
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
