//! Where the index of a shard is, for readers that do not have its lock.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hashbrown::HashTable;

use crate::entry::EntryBox;

/// Whether this target has a prefetch instruction; without one, all this would be wasted work.
pub(crate) const FETCHES: bool = cfg!(all(target_arch = "x86_64", not(miri)));
/// User addresses are below 2^48 (see [`crate::entry`]): a hint has room for a size above them.
const SIZE_SHIFT: u32 = 48;

/// Where a shard's index is, readable without the lock. It may be stale.
///
/// hashbrown keeps buckets and control bytes in one allocation, the buckets backwards:
///
/// ```text
///   | bucket n-1 | .. | bucket 1 | bucket 0 | control bytes 0, 1 .. n-1, first group again |
///                                           ^ the hint's address
/// ```
///
/// One word holds that address and, in its upper 16 bits, the binary logarithm of n. The search for
/// a key begins at the control byte that the lowest bits of its hash select.
#[derive(Default)]
pub(crate) struct Hint(AtomicUsize);

impl Hint {
    /// Stores where an index is now. The caller holds the shard's lock.
    #[cold]
    pub(crate) fn set(&self, index: &HashTable<EntryBox>) {
        let buckets = index.num_buckets();
        let control = (0..buckets).find_map(|bucket| {
            let entry: *const EntryBox = index.get_bucket(bucket)?;
            Some(entry.addr() + (bucket + 1) * size_of::<EntryBox>())
        });
        let word = match control {
            Some(control) if control >> SIZE_SHIFT == 0 => {
                (buckets.ilog2() as usize) << SIZE_SHIFT | control
            }
            _ => 0,
        };
        // Relaxed: no thread dereferences the address.
        self.0.store(word, Relaxed);
    }

    /// Forgets it.
    pub(crate) fn clear(&self) {
        self.0.store(0, Relaxed);
    }

    /// Fetches the place in the index where the search for a hash begins.
    #[inline]
    pub(crate) fn fetch(&self, hash: u64) {
        if !FETCHES {
            return;
        }
        let word = self.0.load(Relaxed);
        if word == 0 {
            return;
        }
        let control = word & ((1 << SIZE_SHIFT) - 1);
        let bucket = hash as usize & ((1 << (word >> SIZE_SHIFT)) - 1);
        fetch(control.wrapping_add(bucket));
        // Entries are near the place where the search begins: mostly in this bucket or one of the
        // next.
        fetch(control.wrapping_sub((bucket + 1) * size_of::<EntryBox>()));
    }
}

/// Prefetches the cache line of an address. Any number is allowed.
#[inline(always)]
pub(crate) fn fetch(address: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is not an access: it reads nothing into the program, and does nothing
        // for an address that is not mapped. SSE, which it needs, is part of x86_64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::without_provenance(address)) };
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Core;
    use crate::keyspace::Keyspace;
    use crate::meta::Meta;
    use crate::options::Options;

    const NOW_MS: u64 = 1_800_000_000_000;

    /// Panics unless each hint has the address of its index, so far as an index reveals it.
    fn assert_right(core: &Core) {
        let shards = core.shards().expect("something was written");
        let index = &shards.get(0).lock().index;
        let hint = shards.hint(0).0.load(Relaxed);
        let buckets = index.num_buckets();
        for bucket in 0..buckets {
            let Some(entry) = index.get_bucket(bucket) else { continue };
            let control = hint & ((1 << SIZE_SHIFT) - 1);
            let address = std::ptr::from_ref(entry).addr();
            assert_eq!(control - (bucket + 1) * size_of::<EntryBox>(), address);
            assert_eq!(1 << (hint >> SIZE_SHIFT), buckets);
        }
    }

    #[test]
    fn hints_follow_growing_shrinking_expiry_and_clearing() {
        let core = Core::new(Options { shards: Some(1), ..Options::default() });
        let table = crate::Table::of(core.clone());
        let change = |key: u32, meta: Option<Meta>, now_ms: u64| {
            table.update(&key.to_le_bytes(), now_ms, |record| match meta {
                Some(meta) => drop(record.put(&[b"value"], meta)),
                None => drop(record.remove()),
            });
            assert_right(&core);
        };
        let plain = Some(Meta::default());
        for _ in 0..2 {
            (0..500).for_each(|key| change(key, plain, NOW_MS));
            (0..500).for_each(|key| change(key, None, NOW_MS));
            (0..500).for_each(|key| change(key, plain, NOW_MS));
            table.clear();
            change(7, plain, NOW_MS);
            let short = Some(Meta { expires_at_ms: Some(NOW_MS + 1), ..Meta::default() });
            (0..500).for_each(|key| change(key, short, NOW_MS));
            table.sweep(NOW_MS + 2, 1);
            change(8, plain, NOW_MS + 2);
        }
    }
}
