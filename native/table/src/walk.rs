//! Walks over a table in its order, step by step.
//!
//! A step copies some keys at a time, from the order of an ordered table ([`crate::ordered`]
//! explains what a walk sees) or from one shard after another, and looks up each of them as any
//! reader does. No lock is held while keys are looked up, nor between two steps.
//!
//! A table without an order is walked by shard and, within a shard, by the bytes of the keys: this
//! order is constant for the lifetime of the table, and any key determines where to continue.
//! Finding the next keys means examining the whole shard, some hundred entries in a table of a
//! million: a caller that wants everything should take many keys per step, or scan.

use std::collections::BinaryHeap;

use crate::copied_keys::CopiedKeys;
use crate::core::Core;
use crate::entry::Entry;
use crate::keyspace::Keyspace;
use crate::ordered::Steps;
use crate::prefetch::Ahead;
use crate::range::{KeyRange, NotOrdered, Walk, Walked};
use crate::scan;
use crate::shard::Records;

/// Keys that a step examines in addition to those that it visits.
const SPARE_KEYS_MAX: usize = 1_024;
/// Keys copied if the first ones were not enough.
const MORE_KEYS: usize = 128;
/// Keys copied at once from shards: taking many costs no more than taking one.
const SHARD_KEYS_MAX: usize = 1_024;
/// Entries of shards that a step examines before it takes what it has, which is nothing if all of
/// them have expired.
const SHARD_ENTRIES_MAX: usize = 8_192;
/// Reads single shards of a table.
pub(crate) trait ReadShard {
    /// The prefetcher for the look-ups of a walk.
    fn ahead(&self) -> Ahead<'_>;

    /// Reads a shard under its lock; `None` if nothing was ever written.
    fn read_shard<R>(
        &self,
        shard: usize,
        now_ms: u64,
        read: impl FnOnce(&Records) -> R,
    ) -> Option<R>;
}

/// The rest of a walk.
enum Rest<'a> {
    Ordered(Steps<'a>),
    Sharded(ShardSteps<'a>),
}

impl<'a> Rest<'a> {
    fn of(core: &'a Core, walk: &Walk<'a>) -> Result<Rest<'a>, NotOrdered> {
        match &core.ordered {
            Some(ordered) => Ok(Rest::Ordered(Steps::new(ordered, walk))),
            None if walk.keys == KeyRange::All && !walk.reverse => {
                let after = walk.after.map(<[u8]>::to_vec);
                Ok(Rest::Sharded(ShardSteps { core, after, examined: 0 }))
            }
            None => Err(NotOrdered),
        }
    }

    fn wants(&self, key: &[u8]) -> bool {
        match self {
            Rest::Ordered(steps) => steps.wants(key),
            Rest::Sharded(_) => true,
        }
    }

    fn key<'b>(&self, copied: &'b CopiedKeys, at: usize) -> &'b [u8] {
        match self {
            Rest::Ordered(steps) => steps.key(copied, at),
            Rest::Sharded(_) => copied.get(at),
        }
    }

    /// Where to continue if nothing was copied.
    fn after(self) -> Option<Vec<u8>> {
        match self {
            Rest::Ordered(_) => None,
            Rest::Sharded(steps) => steps.after,
        }
    }

    /// Copies the next keys. Returns whether there may be more. If it returns true without any key,
    /// this step has examined enough.
    fn copy(
        &mut self,
        space: &impl ReadShard,
        now_ms: u64,
        wanted: usize,
        to: &mut CopiedKeys,
    ) -> bool {
        match self {
            Rest::Ordered(steps) => steps.copy(wanted, to),
            Rest::Sharded(steps) => steps.copy(space, now_ms, wanted, to),
        }
    }
}

/// Where a walk is that has not advanced.
fn stay(walk: &Walk<'_>) -> Walked {
    walk.after.map_or(Walked::End, |after| Walked::Until(after.to_vec()))
}

/// Like [`step`], for a table whose entries are all hidden.
pub(crate) fn step_over_nothing(core: &Core, walk: &Walk<'_>) -> Result<Walked, NotOrdered> {
    Rest::of(core, walk)?;
    Ok(if walk.count == 0 { stay(walk) } else { Walked::End })
}

/// See [`Keyspace::walk`].
pub(crate) fn step<S: Keyspace + ReadShard>(
    space: &S,
    core: &Core,
    walk: &Walk<'_>,
    now_ms: u64,
    mut visit: impl FnMut(Entry<'_>),
) -> Result<Walked, NotOrdered> {
    let mut rest = Rest::of(core, walk)?;
    let (mut left, mut spare) = (walk.count, SPARE_KEYS_MAX);
    if left == 0 {
        return Ok(stay(walk));
    }
    let (mut copied, mut wanted) = (CopiedKeys::default(), left);
    loop {
        copied.clear();
        let more = rest.copy(space, now_ms, wanted, &mut copied);
        let mut ahead = space.ahead();
        for at in 0..copied.len() {
            ahead.of(at, copied.len(), |at| rest.key(&copied, at));
            let key = rest.key(&copied, at);
            let visited =
                rest.wants(key) && space.read(key, now_ms, |entry| entry.map(&mut visit).is_some());
            if visited {
                left -= 1;
            } else {
                spare -= 1;
            }
            if left == 0 || spare == 0 {
                let last = !more && at + 1 == copied.len();
                return Ok(if last { Walked::End } else { Walked::Until(key.to_vec()) });
            }
        }
        if !more {
            return Ok(Walked::End);
        }
        if copied.len() == 0 {
            return Ok(rest.after().map_or(Walked::End, Walked::Until));
        }
        wanted = left.max(MORE_KEYS);
    }
}

/// The rest of a walk over a table without an order.
struct ShardSteps<'a> {
    core: &'a Core,
    after: Option<Vec<u8>>,
    /// Entries that this step has examined, live or not.
    examined: usize,
}

impl ShardSteps<'_> {
    fn copy(
        &mut self,
        space: &impl ReadShard,
        now_ms: u64,
        wanted: usize,
        to: &mut CopiedKeys,
    ) -> bool {
        let most = wanted.min(SHARD_KEYS_MAX);
        let first = self.after.as_deref().map_or(0, |after| self.core.locate(after).1);
        for shard in first..self.core.shard_count {
            let after = self.after.as_deref().filter(|_| shard == first);
            let (mut passed, mut examined) = (None, self.examined);
            let read = |records: &Records| {
                examined += records.index.len();
                let more = select(records, after, now_ms, most, to);
                if examined >= SHARD_ENTRIES_MAX && to.len() == 0 {
                    let keys = records.index.iter().map(|entry| entry.entry().key());
                    let highest = keys.max().filter(|key| after.is_none_or(|after| *key > after));
                    passed = highest.map(<[u8]>::to_vec);
                }
                more
            };
            let Some(more) = space.read_shard(shard, now_ms, read) else { return false };
            self.examined = examined;
            if more || to.is_full(most) || examined >= SHARD_ENTRIES_MAX && to.len() > 0 {
                self.after = to.last().map(<[u8]>::to_vec);
                return more || shard + 1 < self.core.shard_count;
            }
            // All of this shard has been passed. If there was nothing to pass, one of the following
            // shards ends the step, since it must advance.
            if let Some(passed) = passed {
                self.after = Some(passed);
                return shard + 1 < self.core.shard_count;
            }
        }
        false
    }
}

/// Copies the lowest live keys of a shard that are above `after`, in ascending order, until there
/// are `most`. Returns whether there are others.
fn select(
    records: &Records,
    after: Option<&[u8]>,
    now_ms: u64,
    most: usize,
    to: &mut CopiedKeys,
) -> bool {
    let mut more = false;
    let mut lowest = BinaryHeap::new();
    for entry in scan::live(&records.index, now_ms) {
        let key = entry.key();
        if after.is_some_and(|after| key <= after) {
            continue;
        }
        if to.len() + lowest.len() < most {
            lowest.push(key);
            continue;
        }
        more = true;
        if let Some(mut highest) = lowest.peek_mut()
            && key < *highest
        {
            *highest = key;
        }
    }
    for key in lowest.into_sorted_vec() {
        if to.is_full(most) {
            return true;
        }
        to.push(key);
    }
    more
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LockedKey, Meta, Options, Table};

    const EXPIRED: usize = 10 * SHARD_ENTRIES_MAX;

    /// A table of entries that have expired at 10 ms, and some that have not.
    fn table(live: &[&[u8]]) -> Table {
        let table = Table::new(Options { shards: Some(256), ..Options::default() });
        let put = |key: &[u8], expires_at_ms| {
            let meta = Meta { expires_at_ms, ..Meta::default() };
            table
                .update(key, 1, |record: &mut LockedKey<'_>| record.put(&[b"value"], meta))
                .unwrap();
        };
        (0..EXPIRED).for_each(|number| put(format!("old{number}").as_bytes(), Some(10)));
        live.iter().for_each(|key| put(key, None));
        table
    }

    /// All keys that a walk visits, and its steps.
    fn walk(table: &Table) -> (Vec<Vec<u8>>, usize) {
        let (mut keys, mut after, mut steps) = (Vec::new(), None, 0);
        loop {
            let walk = Walk { after: after.as_deref(), count: 32, ..Walk::default() };
            let visit = |entry: Entry<'_>| keys.push(entry.key().to_vec());
            let walked = table.walk(&walk, 10, visit).unwrap();
            steps += 1;
            let Walked::Until(key) = walked else { return (keys, steps) };
            after = Some(key);
        }
    }

    /// Waits until the tables' entries are freed, which would be reported as leaked if the
    /// process ended before.
    fn wait_for_reaper() {
        while crate::reaper::pending_entries() > 0 {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_step_over_shards_of_expired_entries_ends() {
        // Shards are of about equal size: a step examines at most one more than its limit.
        let steps_min = EXPIRED / (SHARD_ENTRIES_MAX + 2 * EXPIRED / 256);
        let (keys, steps) = walk(&table(&[]));
        assert!(keys.is_empty() && steps >= steps_min, "{steps} steps");
        let live: Vec<&[u8]> = vec![b"a", b"b", b"c", b"d", b"e"];
        let (mut keys, steps) = walk(&table(&live));
        keys.sort();
        assert_eq!(keys, live);
        assert!(steps >= steps_min, "{steps} steps");
        wait_for_reaper();
    }

    #[test]
    fn shards_that_are_too_large_for_a_step_are_passed() {
        let table = Table::new(Options { shards: Some(1), ..Options::default() });
        for number in 0..SHARD_ENTRIES_MAX + 1 {
            let meta = Meta { expires_at_ms: Some(10), ..Meta::default() };
            let put = |record: &mut LockedKey<'_>| record.put(&[b""], meta);
            table.update(&number.to_be_bytes(), 1, put).unwrap();
        }
        let (keys, steps) = walk(&table);
        assert!(keys.is_empty() && steps <= 2, "{steps} steps");
        drop(table);
        wait_for_reaper();
    }
}
