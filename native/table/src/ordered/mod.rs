//! The sorted keys of an ordered table, beside its hash index.
//!
//! Reads and overwrites do not use this module. The thread that holds the lock of a key's shard
//! adds the key to the order when it creates the entry, and removes it when it removes the entry.
//! So the lock of a shard is taken before those of the order, and a thread that holds a lock of the
//! order takes no other locks but these.
//!
//! ```text
//!   sort_key.rs   the bytes by which keys are sorted
//!   keys.rs       some keys in one block of memory
//!   index.rs      all keys: blocks under a map
//!   steps.rs      the progress of one walk
//! ```
//!
//! # What a walk sees
//!
//! A walk ([`Keyspace::walk`](crate::Keyspace::walk)) copies some keys out of the order, releases
//! it, and looks up each of them as any other reader does. It holds no lock in between, so it
//! delays no other thread, and what it visits are live entries as they are at that moment: it skips
//! a key whose entry was removed or has expired.
//!
//! A key that is present from the first step of a walk to the last is visited exactly once:
//!
//! * Such a key is in the order all the time. The writer that created its entry added it before
//!   releasing the shard's lock; overwriting leaves it alone; and a writer that removes an entry
//!   and puts another in its place while it holds the lock ([`LockedKey`](crate::LockedKey), and
//!   [`Locked`](crate::Locked) for a transaction) removes the key from the order only at the end,
//!   if it then has no entry.
//! * Copying holds the map's lock shared throughout, and the lock of one leaf after another.
//!   Splitting and joining leaves, the only ways for a key to move, and replacing the whole order,
//!   need the map's lock exclusively. So while keys are copied, each is in the leaf whose bounds it
//!   is between, and the leaves are copied in order and without a gap: the copy contains, once
//!   each, all keys that were present all the time and lie between the last key of the previous
//!   copy and its own last key.
//! * The next copy begins beyond the last key of the previous one, even if that key was removed,
//!   and each key comes closer to the end. So no key is copied twice, and none is between two
//!   copies.
//!
//! When a walk ends, nothing is left in the order beyond its last key.
//!
//! Nothing here is `unsafe`.

mod index;
mod keys;
mod sort_key;
mod steps;

use crate::range::KeyOrder;
use index::Index;

pub(crate) use index::Leaves;
pub(crate) use steps::Steps;

/// The longest key that an ordered table accepts. Blocks count their bytes in 32 bits.
pub(crate) const KEY_BYTES_MAX: usize = 1 << 30;

/// All keys of a table, in order.
pub(crate) struct Ordered {
    pub(crate) order: KeyOrder,
    index: Index,
}

impl Ordered {
    pub(crate) fn new(order: KeyOrder) -> Ordered {
        Ordered { order, index: Index::default() }
    }

    /// Adds a key that has an entry now. The caller holds its shard's lock.
    pub(crate) fn insert(&self, key: &[u8]) {
        self.index.insert(&sort_key::of(self.order.comparison, key));
    }

    /// Removes a key that no longer has an entry. The caller holds its shard's lock.
    pub(crate) fn remove(&self, key: &[u8]) {
        self.index.remove(&sort_key::of(self.order.comparison, key));
    }

    /// Replaces all keys by these. The caller holds the locks of all shards, and drops the result
    /// after it has released them.
    pub(crate) fn replace<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Leaves {
        let index = Index::default();
        keys.for_each(|key| index.insert(&sort_key::of(self.order.comparison, key)));
        self.index.replace(index)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.index.bytes()
    }
}
