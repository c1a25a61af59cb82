//! Scans a table, and chooses one entry at random.
//!
//! The cursor is the number of the next shard. Whole shards are visited under their lock, and a key
//! never moves to another shard. So an entry that is present from start to end is visited, however
//! the index of its shard grows or shrinks meanwhile.

use std::iter;

use hashbrown::HashTable;

use crate::core::Core;
use crate::entry::{Entry, EntryBox, Shared};
use crate::hash::ShardMap;

/// Random buckets tried in a shard before its buckets are examined in order.
const PROBES: u32 = 32;

/// One step of a scan: from `cursor` on, calls `visit_shard` for one shard after another until it
/// has seen `count` entries.
pub(crate) fn walk(
    shards: usize,
    cursor: u64,
    count: usize,
    mut visit_shard: impl FnMut(usize) -> usize,
) -> u64 {
    let Ok(from) = usize::try_from(cursor) else { return 0 };
    let mut seen = 0;
    for shard in from..shards {
        seen += visit_shard(shard);
        if seen >= count && shard + 1 < shards {
            return (shard + 1) as u64;
        }
    }
    0
}

impl Core {
    /// See [`Keyspace::scan`](crate::Keyspace::scan).
    pub(crate) fn scan(
        &self,
        cursor: u64,
        count: usize,
        now_ms: u64,
        mut visit: impl FnMut(Entry<'_>),
    ) -> u64 {
        let Some(shards) = self.shards_to_read(now_ms) else { return 0 };
        let mut large: Vec<Shared> = Vec::new();
        walk(self.shard_count, cursor, count, |shard| {
            let records = shards.get(shard).lock_to_read();
            let mut seen = 0;
            for entry in live(&records.index, now_ms) {
                seen += 1;
                match entry.share() {
                    Some(shared) => large.push(shared),
                    None => visit(entry),
                }
            }
            drop(records);
            // Large entries wait until the lock is released: visiting may mean copying.
            large.drain(..).for_each(|shared| visit(shared.entry()));
            seen
        })
    }
}

/// The live entries of a shard.
pub(crate) fn live(index: &HashTable<EntryBox>, now_ms: u64) -> impl Iterator<Item = Entry<'_>> {
    index.iter().map(EntryBox::entry).filter(move |entry| !entry.is_expired(now_ms))
}

/// The shards in random order. The first is drawn with the probabilities that keys have, so that
/// the entries of a full table are equally likely; the others are shuffled, so that in a nearly
/// empty table an entry is not more likely because of empty shards before it.
pub(crate) fn shuffled(map: &ShardMap, shards: usize, dice: u64) -> impl Iterator<Item = usize> {
    debug_assert!(shards.is_power_of_two());
    let mask = shards as u64 - 1;
    let half = shards.trailing_zeros() / 2;
    let (add, multiply, again) = (dice, mix(dice) | 1, mix(!dice) | 1);
    // Every step is invertible within the mask, so each shard comes once.
    let shuffle = move |shard: u64| {
        let mut x = shard.wrapping_add(add).wrapping_mul(multiply) & mask;
        x ^= x >> half.max(1);
        x = x.wrapping_mul(again) & mask;
        (x ^ (x >> half.max(1))) as usize
    };
    iter::once(map.shard(dice)).chain((0..=mask).map(shuffle))
}

/// A live entry of the shard; all are equally likely unless the index is nearly empty.
pub(crate) fn choose(index: &HashTable<EntryBox>, mut dice: u64, now_ms: u64) -> Option<Entry<'_>> {
    if index.is_empty() {
        return None;
    }
    let buckets = index.num_buckets();
    for _ in 0..PROBES {
        dice = mix(dice);
        let entry = index.get_bucket(dice as usize % buckets).map(EntryBox::entry);
        if let Some(entry) = entry.filter(|entry| !entry.is_expired(now_ms)) {
            return Some(entry);
        }
    }
    live(index, now_ms).next()
}

/// Spreads a seed over all bits (the finaliser of splitmix64).
pub(crate) fn mix(seed: u64) -> u64 {
    let mut x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
