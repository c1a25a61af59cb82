//! Prefetches the cache lines of keys that will be needed soon, while other work is done.
//!
//! Finding a key in a table that is larger than the caches takes three cache misses in a row, each
//! at an address that only the previous line contains:
//!
//! ```text
//!   shard (lock, where the index is)  ->  index (control bytes, tagged pointer)  ->  entry
//! ```
//!
//! For a single key, the second step need not wait for the first: a [`Hint`], stored apart from the
//! shard, has the address of its index (`Shards::ahead`). Clients also send requests in pipelines
//! and ask for many keys at once, and walks look up one key after another: the cache misses of
//! different keys can overlap. So each step is taken for a group of keys before the next step:
//!
//! 1. Hash every key, and fetch its shard's line and the place in the index where the key belongs.
//!    The address of the index comes from the hint, since the shard's line is still on its way.
//! 2. Lock every shard in turn and look up the hash, which finds the entries that may be the key's;
//!    fetch their first lines. A shard that another thread has locked is skipped.
//!
//! The ordinary look-ups that follow find what they need in the cache. Walks take the first step
//! for the next group while the current one is looked up ([`Ahead`]). Correctness does not depend
//! on any of this: a prefetch of an address that no longer is, or never was, that of an index does
//! no harm.

use std::ops::Range;

use crate::core::Core;
use crate::deadlines::Deadlines;
use crate::index_hint::{FETCHES, Hint, fetch};
use crate::shard::{Records, Shards};

/// Keys that are fetched together: about as many lines as a processor can have in flight at a time.
pub const PREFETCH_KEYS_MAX: usize = 16;

const LINE_BYTES: usize = 64;
/// Lines fetched of an entry: a key and a value of some hundred bytes together.
pub(crate) const ENTRY_LINES_MAX: usize = 3;
/// Lines fetched of a small entry, which may begin anywhere in a line.
const ENTRY_LINES_MIN: usize = 2;
/// Lines fetched of a heap of deadlines: its first block has four.
const HEAP_LINES: usize = 4;
/// Keys of a walk that are fetched together.
const GROUP: usize = 8;
impl Core {
    /// Prefetches what the next look-ups of these keys will need, for at most [`PREFETCH_KEYS_MAX`]
    /// keys.
    pub(crate) fn prefetch(&self, keys: &[&[u8]]) {
        let Some(shards) = self.shards().filter(|_| FETCHES) else { return };
        in_two_steps(
            keys,
            |key| self.fetch_place(shards, key),
            |place| fetch_entries(shards, *place, ENTRY_LINES_MAX),
        );
    }

    /// The first step. Returns the key's hash and shard.
    fn fetch_place(&self, shards: &Shards, key: &[u8]) -> (u64, usize) {
        let (hash, shard) = self.locate(key);
        fetch(std::ptr::from_ref(shards.get(shard)).addr());
        shards.hint(shard).fetch(hash);
        (hash, shard)
    }
}

/// Takes the first step for each of the keys, at most [`PREFETCH_KEYS_MAX`] of them, then the
/// second.
#[inline(always)]
pub(crate) fn in_two_steps<P: Copy + Default>(
    keys: &[&[u8]],
    fetch_place: impl Fn(&[u8]) -> P,
    fetch_entries: impl Fn(&P),
) {
    if !FETCHES {
        return;
    }
    let mut places = [P::default(); PREFETCH_KEYS_MAX];
    let places = &mut places[..keys.len().min(PREFETCH_KEYS_MAX)];
    for (place, key) in places.iter_mut().zip(keys) {
        *place = fetch_place(key);
    }
    places.iter().for_each(fetch_entries);
}

/// The second step, for a shard that no thread has locked.
#[inline(always)]
fn fetch_entries(shards: &Shards, (hash, shard): (u64, usize), lines: usize) {
    if let Some(records) = shards.get(shard).try_lock_to_read() {
        fetch_entries_of(&records, hash, lines);
    }
}

/// The second step: fetches up to `lines` lines of each entry that may have this hash.
#[inline(always)]
pub(crate) fn fetch_entries_of(records: &Records, hash: u64, lines: usize) {
    // No entry matches, so the search visits all candidates.
    let _ = records.index.find(hash, |entry| {
        for line in 0..ENTRY_LINES_MAX {
            if line < lines {
                fetch(entry.address() + line * LINE_BYTES);
            }
        }
        false
    });
}

/// Prefetches everything that is needed to remove the first expired entry of each of these shards:
/// its [deadlines](crate::deadlines), the place in the index, and the entry.
pub(crate) fn fetch_due(shards: &Shards, due: &[usize]) {
    if !FETCHES || due.len() < 2 {
        return;
    }
    let each = |step: &dyn Fn(&Hint, &Records, &Deadlines)| {
        for &shard in due {
            if let Some(records) = shards.get(shard).try_lock_to_read()
                && let Some(deadlines) = &records.deadlines
            {
                step(shards.hint(shard), &records, deadlines);
            }
        }
    };
    let hash = |records: &Records, deadlines: &Deadlines| {
        deadlines.first_fragment()?.hashes(records.index.num_buckets()).next()
    };
    due.iter().for_each(|&shard| fetch(std::ptr::from_ref(shards.get(shard)).addr()));
    each(&|_, _, deadlines| fetch(std::ptr::from_ref(deadlines).addr()));
    each(&|_, _, deadlines| {
        fetch(deadlines.heap().directory());
        fetch(deadlines.heap().back());
    });
    each(&|_, _, deadlines| {
        let front = deadlines.heap().front();
        (0..HEAP_LINES).for_each(|line| fetch(front + line * LINE_BYTES));
    });
    each(&|hint, records, deadlines| {
        hash(records, deadlines).into_iter().for_each(|hash| hint.fetch(hash));
    });
    each(&|_, records, deadlines| {
        let hash = hash(records, deadlines);
        hash.into_iter().for_each(|hash| fetch_entries_of(records, hash, ENTRY_LINES_MIN));
    });
}

/// Prefetches for a sequence of keys that are looked up one after another.
pub(crate) struct Ahead<'a> {
    core: &'a Core,
    shards: Option<&'a Shards>,
    /// Hash and shard of the keys of the current group, and of the next one.
    places: [(u64, usize); 2 * GROUP],
    /// Lines of an entry of the table's mean size.
    lines: usize,
}

impl<'a> Ahead<'a> {
    pub(crate) fn new(core: &'a Core) -> Ahead<'a> {
        let mean = (core.bytes() / core.len().max(1)) as usize;
        let lines = (ENTRY_LINES_MIN + mean / LINE_BYTES).min(ENTRY_LINES_MAX);
        let shards = core.shards().filter(|_| FETCHES);
        Ahead { core, shards, places: [(0, 0); 2 * GROUP], lines }
    }

    /// For callers that hold the locks: fetches nothing.
    pub(crate) fn idle(core: &'a Core) -> Ahead<'a> {
        Ahead { core, shards: None, places: [(0, 0); 2 * GROUP], lines: 0 }
    }

    /// Prefetches for the key at this position and those after it. To be called for each position
    /// in turn.
    #[inline]
    pub(crate) fn of<'b>(&mut self, at: usize, len: usize, key: impl Fn(usize) -> &'b [u8]) {
        if at.is_multiple_of(GROUP)
            && let Some(shards) = self.shards
        {
            self.fetch_group(shards, at, len, key);
        }
    }

    fn fetch_group<'b>(
        &mut self,
        shards: &Shards,
        at: usize,
        len: usize,
        key: impl Fn(usize) -> &'b [u8],
    ) {
        let (next, after) = (len.min(at + GROUP), len.min(at + 2 * GROUP));
        if at == 0 {
            self.fetch_places(shards, 0..next, &key);
        }
        for at in at..next {
            fetch_entries(shards, self.places[at % (2 * GROUP)], self.lines);
        }
        self.fetch_places(shards, next..after, &key);
    }

    fn fetch_places<'b>(
        &mut self,
        shards: &Shards,
        keys: Range<usize>,
        key: &impl Fn(usize) -> &'b [u8],
    ) {
        for at in keys {
            self.places[at % (2 * GROUP)] = self.core.fetch_place(shards, key(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keyspace::Keyspace;
    use crate::meta::Meta;
    use crate::options::Options;

    const NOW_MS: u64 = 1_800_000_000_000;

    #[test]
    #[cfg_attr(any(miri, not(target_arch = "x86_64")), ignore = "nothing is fetched")]
    fn places_are_computed_before_the_look_ups() {
        let core = Core::new(Options::default());
        let table = crate::Table::of(core.clone());
        table.update(b"any", NOW_MS, |record| record.put(&[], Meta::default())).expect("room");
        let names: Vec<[u8; 1]> = (0..40).map(|key| [key]).collect();
        for len in 0..=names.len() {
            let mut ahead = Ahead::new(&core);
            for at in 0..len {
                ahead.of(at, len, |at| &names[at]);
                let group = at / GROUP * GROUP;
                for (near, key) in names[..len].iter().enumerate().skip(group).take(2 * GROUP) {
                    let place = ahead.places[near % (2 * GROUP)];
                    assert_eq!(place, core.locate(key), "{near} of {len} at {at}");
                }
            }
        }
    }

    #[test]
    fn any_number_of_keys_may_be_prefetched() {
        let table = crate::Table::new(Options::default());
        let names: Vec<[u8; 1]> = (0..40).map(|key| [key]).collect();
        let keys: Vec<&[u8]> = names.iter().map(<[u8; 1]>::as_slice).collect();
        table.prefetch(&keys);
        table.update(keys[0], NOW_MS, |record| record.put(&[], Meta::default())).expect("room");
        (0..keys.len()).for_each(|count| table.prefetch(&keys[..count]));
    }
}
