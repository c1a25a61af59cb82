//! The keys of an ordered table in their order, beside the hash that finds them.
//!
//! Reads and overwrites know nothing of this. A key is added to the order when its entry is made
//! and taken out when its entry goes, by the thread that has the key's shard locked. So the lock of
//! a shard comes before those of the order, and who has one of these takes no other lock but them.
//!
//! ```text
//!   sort_key.rs   what the keys are sorted by
//!   keys.rs       some keys in one block of memory
//!   index.rs      all keys: blocks under a map
//!   steps.rs      one walk's way through them
//! ```
//!
//! # What a walk sees
//!
//! A walk ([`Keyspace::walk`](crate::Keyspace::walk)) copies some keys out of the order, lets go of
//! it, and looks each of them up as everybody does. It holds no lock in between, so it keeps nobody
//! from anything, and what it visits are live entries as they are at that moment: a key whose entry
//! has gone, or has expired, is passed over.
//!
//! A key that is there from the first step of a walk to the last is visited exactly once:
//!
//! * Such a key is in the order all the time. It was added before its shard's lock was given up
//!   when its entry was made; overwriting leaves it alone; and who takes an entry out and puts
//!   another in its place while holding the lock ([`Slot`](crate::Slot), and
//!   [`Locked`](crate::Locked) for a batch) takes the key out of the order only at the end, if it
//!   then has no entry.
//! * To copy is to share the lock of the map for as long as it takes, and the lock of one leaf
//!   after the other. Splitting and joining leaves, the only ways for a key to move, and replacing
//!   the whole order, need the map's lock alone. So while keys are copied each is in the leaf whose
//!   bounds it is between, and the leaves are copied in order and without a gap: the copy has every
//!   key between the last one before and its own last one that was there all the time, and each
//!   once.
//! * The next copy begins beyond the last key of the one before, whatever became of that key, and
//!   comes closer to the end with each key. So no key is copied twice, and none is between two
//!   copies.
//!
//! Where a walk ends, nothing was left in the order beyond its last key.
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

/// The longest key that an ordered table takes. Blocks count their bytes in 32 bits.
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

    /// Adds a key that has an entry now. The caller has its shard locked.
    pub(crate) fn insert(&self, key: &[u8]) {
        self.index.insert(&sort_key::of(self.order.comparison, key));
    }

    /// Takes out a key that has no entry any more. The caller has its shard locked.
    pub(crate) fn remove(&self, key: &[u8]) {
        self.index.remove(&sort_key::of(self.order.comparison, key));
    }

    /// Puts these keys in place of all there are. The caller has all shards locked, and drops what
    /// is returned when they are not any more.
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
