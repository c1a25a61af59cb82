//! The operations that single-key commands need, on a table or on held locks.

use crate::edit::{Draft, Edit};
use crate::entry::Entry;
use crate::limits::Full;
use crate::locked_key::LockedKey;
use crate::range::{KeyOrder, NotOrdered, Walk, Walked};
use crate::reservation::Growth;

/// The operations that single-key commands need: implemented by a table that locks for each call,
/// and by one whose locks are held ([`Locked`](crate::Locked)).
///
/// Unless stated otherwise, closures given to a [`Table`](crate::Table) run under a shard's lock:
/// they must not call the same table.
pub trait Keyspace {
    /// Whether locks are held, so that others wait until the caller has done all its work.
    const IS_LOCKED: bool = false;

    /// Reads one entry. A large entry is counted and read after the lock is released, so `read` may
    /// copy at leisure.
    fn read<R>(&self, key: &[u8], now_ms: u64, read: impl FnOnce(Option<Entry<'_>>) -> R) -> R;
    /// Reads and writes one key atomically.
    fn update<R>(&self, key: &[u8], now_ms: u64, change: impl FnOnce(&mut LockedKey<'_>) -> R)
    -> R;
    /// Reads and changes one key atomically, by an edit that may take long: if it has to copy a
    /// large value, it makes a draft between two reads of the key. `change` must return `None` if
    /// [`LockedKey::put_edited`] did, and is then called again; everything before that call in
    /// `change` is repeated.
    fn edit<R>(
        &self,
        key: &[u8],
        now_ms: u64,
        edit: Edit<'_>,
        mut change: impl FnMut(&mut LockedKey<'_>, &mut Draft<'_>) -> Option<R>,
    ) -> R {
        let mut draft = Draft::new(edit);
        loop {
            if let Some(result) = self.update(key, now_ms, |record| change(record, &mut draft)) {
                return result;
            }
            draft.make();
        }
    }
    /// Prefetches what reads or writes of these keys will need, for at most
    /// [`PREFETCH_KEYS_MAX`](crate::PREFETCH_KEYS_MAX) keys, so that the cache misses of several
    /// keys overlap. Changes nothing.
    fn prefetch(&self, keys: &[&[u8]]);
    /// Number of entries, including expired ones that were not collected yet.
    fn len(&self) -> u64;
    /// Like [`Keyspace::len`], without the entries that a clear due at `now_ms` removes.
    fn len_at(&self, now_ms: u64) -> u64;
    /// Whether [`Keyspace::len`] is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Visits whole shards from `cursor` on (0 starts) until it has seen at least `count` entries,
    /// and returns the next cursor, 0 at the end. Every entry that is present from start to end is
    /// visited at least once.
    fn scan(&self, cursor: u64, count: usize, now_ms: u64, visit: impl FnMut(Entry<'_>)) -> u64;
    /// How the table is ordered; `None` if it is not.
    fn order(&self) -> Option<KeyOrder>;
    /// Visits live entries in order. Examines at most some thousand keys beyond those it visits
    /// (others may have expired), so it may end early. A key that is present from the first step of
    /// a walk to the last is visited exactly once. An empty or inverted range has no keys. With a
    /// count of 0 nothing is visited, and the walk stays where it is: it continues after
    /// [`Walk::after`], and ends if there is none.
    ///
    /// `ordered/mod.rs` explains what a walk of a [`Table`](crate::Table) sees; its closure runs
    /// like that of [`Keyspace::read`], separately for each entry.
    fn walk(
        &self,
        walk: &Walk<'_>,
        now_ms: u64,
        visit: impl FnMut(Entry<'_>),
    ) -> Result<Walked, NotOrdered>;
    /// Reads an entry chosen by `seed`; `None` if no live entry is found.
    fn random<R>(&self, seed: u64, now_ms: u64, read: impl FnOnce(Option<Entry<'_>>) -> R) -> R;
    /// Removes all entries; returns how many there were.
    fn clear(&self) -> u64;
    /// Whether writes of up to this many bytes, as part of an operation of several writes, may be
    /// refused for lack of room, so that room for all of them has to be reserved first. Always
    /// false if each call locks separately.
    fn refuses(&self, largest_bytes: u64) -> bool {
        let _ = largest_bytes;
        false
    }
    /// Reserves room for the writes of an operation; see [`Locked`](crate::Locked). Does nothing if
    /// each call locks separately.
    fn reserve(&self, growth: Growth) -> Result<(), Full> {
        let _ = growth;
        Ok(())
    }
}
