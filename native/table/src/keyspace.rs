//! What single-key commands need of a table, locked or not.

use crate::edit::{Draft, Edit};
use crate::entry::Entry;
use crate::limits::Full;
use crate::range::{KeyOrder, NotOrdered, Walk, Walked};
use crate::reservation::Growth;
use crate::slot::Slot;

/// What single-key commands need: a table that locks for each call, or one whose locks are held
/// ([`Locked`](crate::Locked)).
///
/// The closures of [`Table`](crate::Table) run under a shard's lock unless it says otherwise: they
/// must not call the same table.
pub trait Keyspace {
    /// Looks at one entry. Large entries are counted and looked at after the lock is gone, so
    /// `look` may copy at leisure.
    fn read<R>(&self, key: &[u8], now_ms: u64, look: impl FnOnce(Option<Entry<'_>>) -> R) -> R;
    /// Reads and writes one key as one step.
    fn update<R>(&self, key: &[u8], now_ms: u64, change: impl FnOnce(&mut Slot<'_>) -> R) -> R;
    /// Reads and changes one key as one step, by an edit that may take long: it is drafted between
    /// two looks at the key where it has to copy a large value. `change` returns `None` where
    /// [`Slot::put_edited`] did, and is called again; what it does before is done each time.
    fn edit<R>(
        &self,
        key: &[u8],
        now_ms: u64,
        edit: Edit<'_>,
        mut change: impl FnMut(&mut Slot<'_>, &mut Draft<'_>) -> Option<R>,
    ) -> R {
        let mut draft = Draft::new(edit);
        loop {
            if let Some(result) = self.update(key, now_ms, |slot| change(slot, &mut draft)) {
                return result;
            }
            draft.make();
        }
    }
    /// Begins to fetch from memory what reads or writes of these keys will need, at most
    /// [`PREFETCH_KEYS_MAX`](crate::PREFETCH_KEYS_MAX) of them, so that who comes for several keys
    /// waits for all at once. Changes nothing.
    fn prefetch(&self, keys: &[&[u8]]);
    /// Entries, expired ones that were not collected yet included.
    fn len(&self) -> u64;
    /// The same, without those that a clear takes which is due at `now_ms`.
    fn len_at(&self, now_ms: u64) -> u64;
    /// True where [`Keyspace::len`] is 0.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Visits whole shards from `cursor` on (0 starts) until at least `count` entries were seen,
    /// and returns the next cursor, 0 at the end. Every entry present from start to end is
    /// visited at least once.
    fn scan(&self, cursor: u64, count: usize, now_ms: u64, visit: impl FnMut(Entry<'_>)) -> u64;
    /// How the table is ordered; `None` is not at all.
    fn order(&self) -> Option<KeyOrder>;
    /// Visits live entries in order. Looks at some thousand keys beyond those it visits at most
    /// (others may have expired), so it may end early. A key that is there from the first step of a
    /// walk to the last is visited exactly once. A range that is empty or inverted has no keys.
    /// With a count of 0 nothing is visited, and the walk stays where it is: it goes on after
    /// [`Walk::after`], and ends where there is none.
    ///
    /// What a walk of a [`Table`](crate::Table) sees is explained in `ordered/mod.rs`; its closure
    /// runs like that of [`Keyspace::read`], for each entry anew.
    fn walk(
        &self,
        walk: &Walk<'_>,
        now_ms: u64,
        visit: impl FnMut(Entry<'_>),
    ) -> Result<Walked, NotOrdered>;
    /// Looks at an entry chosen by `seed`; `None` where no live entry is found.
    fn random<R>(&self, seed: u64, now_ms: u64, look: impl FnOnce(Option<Entry<'_>>) -> R) -> R;
    /// Removes everything; returns how many entries that were.
    fn clear(&self) -> u64;
    /// Whether writes of up to so many bytes, of a step of several, may be refused for want of
    /// room, so that room for all of them has to be reserved first. Never where each call locks for
    /// itself.
    fn refuses(&self, largest_bytes: u64) -> bool {
        let _ = largest_bytes;
        false
    }
    /// Reserves room for the writes of a step, see [`Locked`](crate::Locked). Does nothing where
    /// each call locks for itself.
    fn reserve(&self, growth: Growth) -> Result<(), Full> {
        let _ = growth;
        Ok(())
    }
}
