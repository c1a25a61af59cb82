//! The key hash, and the mapping from hashes to shards.
//!
//! Clients choose the keys, so each table hashes them with a random seed: a client that cannot
//! guess the seed cannot choose keys that share a bucket. One 64-bit hash serves twice, with
//! different bits each time: hashbrown places an entry by the lowest bits and compares the top
//! seven; the shard comes from the bits between.
//!
//! The shards are deliberately not equally likely. A shard's index doubles when it is full, and
//! equal shards would all do so at about the same number of entries: the table would pause there,
//! and just after it half of its index would be empty. So the expected load falls evenly from 1.5
//! times the mean (first shard) to 0.75 times (last shard). At any size of the table, some shards
//! are nearly full and some have just grown, which keeps the index near its mean of 14 to 15 bytes
//! per entry and spreads the growth.

use std::hash::{BuildHasher, RandomState};

use rapidhash::v3::{RapidSecrets, rapidhash_v3_inline};

/// The keyed hash of one table.
pub(crate) struct KeyHash {
    secrets: RapidSecrets,
}

impl KeyHash {
    /// A seed that no client can guess.
    pub(crate) fn random_seed() -> u64 {
        RandomState::new().hash_one(0u64)
    }

    pub(crate) fn new(seed: u64) -> KeyHash {
        KeyHash { secrets: RapidSecrets::seed(seed) }
    }

    #[inline]
    pub(crate) fn of(&self, key: &[u8]) -> u64 {
        // Avalanching, so that all bits are usable; not compact; protected against keys that zero a
        // multiplication.
        rapidhash_v3_inline::<true, false, true>(key, &self.secrets)
    }
}

/// Maps hashes to shards.
pub(crate) struct ShardMap {
    /// 4/3 of the number of shards, see [`ShardMap::shard`].
    scale: u64,
}

/// The hash bits that choose the shard: 31 bits, from bit 24 on.
const SHARD_BITS_FROM: u32 = 24;
const SHARD_BITS: u32 = 31;

impl ShardMap {
    /// `shards` is below 2^31.
    pub(crate) fn new(shards: usize) -> ShardMap {
        debug_assert!((1..1 << SHARD_BITS).contains(&shards));
        ShardMap { scale: shards as u64 * 4 / 3 }
    }

    /// With u in [0, 1) taken from the hash, the shard is the fraction (2u + u^2) / 3 of the way:
    /// its slope grows from 2/3 to 4/3.
    #[inline]
    pub(crate) fn shard(&self, hash: u64) -> usize {
        let u = (hash >> SHARD_BITS_FROM) & ((1 << SHARD_BITS) - 1);
        // Below 3 * 2^62, so it fits: u * (2 + u) in units of 2^-62.
        let way = u * ((2 << SHARD_BITS) + u);
        // way / 3 * shards, as (way / 2^32) * (4/3 shards) / 2^32.
        (((way >> 32) * self.scale) >> 32) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_change_the_hash() {
        let [a, b] = [1, 2].map(|seed| KeyHash::new(seed).of(b"key"));
        assert_ne!(a, b);
        assert_ne!(KeyHash::random_seed(), KeyHash::random_seed());
    }

    #[test]
    fn extreme_hashes_stay_within_the_shards() {
        for bits in 0..16 {
            let shards = 1 << bits;
            let map = ShardMap::new(shards);
            assert_eq!(map.shard(0), 0);
            assert!(map.shard(u64::MAX) < shards);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys")]
    fn load_falls_evenly_from_first_to_last_shard() {
        let (shards, keys) = (64, 640_000);
        let (hash, map) = (KeyHash::new(7), ShardMap::new(shards));
        let mut load = vec![0u32; shards];
        for key in 0..keys {
            load[map.shard(hash.of(&u32::to_le_bytes(key)))] += 1;
        }
        let mean = f64::from(keys) / shards as f64;
        let relative = |shard: usize| f64::from(load[shard]) / mean;
        assert!((1.35..1.6).contains(&relative(0)), "{}", relative(0));
        assert!((0.65..0.85).contains(&relative(shards - 2)), "{}", relative(shards - 2));
        assert!(load.iter().all(|&n| n > 0));
    }
}
