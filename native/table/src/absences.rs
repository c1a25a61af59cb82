//! Watches absent keys, and reports whether they were created since.
//!
//! A key that is present has a version, by which a client that read it recognises it again. An
//! absent key has no version, and the client must learn of its creation even if the key was removed
//! again. So the client registers the key's hash, and every thread that adds an entry counts the
//! hash as created. (Two keys with the same 64-bit hash are treated as one; the hash is keyed by a
//! secret.)
//!
//! No creation falls between a read and its registration: both happen under the lock of the key's
//! shard, and so do the addition of an entry and the check of the registry before it. This is also
//! why relaxed loads suffice: a thread that adds an entry takes the lock after the thread that
//! registered the hash, and finds at least what that thread counted.
//!
//! Clocks differ slightly between threads. An entry with an expiry may appear absent to the thread
//! that read it and alive to the thread that replaces it, so its replacement counts as a creation,
//! too. This causes no false report: the thread that registered the hash did not see this entry.
//!
//! If no absent key was ever watched, adding an entry costs one load, of a word that only the first
//! registration writes. Afterwards it costs one or two more, and a lock only if one of the few keys
//! in the same section as the new key is watched.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use hashbrown::HashTable;
use parking_lot::Mutex;

use crate::budget::Padded;
use crate::core::Core;
use crate::table::Table;

/// Parts of the registry, each with its own lock: no part grows so large that its growth delays a
/// writer for long.
const SECTIONS: usize = 256;

/// The lowest of the hash bits that choose the section. Other bits choose the place in it.
const SECTION_BITS_FROM: u32 = 48;

/// Number of hashes for which an unused section keeps capacity.
const SPARE_CAPACITY: usize = 28;

/// The absent keys of one table that are watched.
#[derive(Default)]
pub(crate) struct Absences {
    registry: OnceLock<Box<Registry>>,
}

struct Registry {
    /// Number of [`Absence`]s.
    watched: Padded<AtomicUsize>,
    sections: [Section; SECTIONS],
}

#[derive(Default)]
struct Section {
    /// Number of hashes in it, readable without the lock.
    len: AtomicUsize,
    hashes: Mutex<HashTable<Watched>>,
}

/// One hash.
struct Watched {
    hash: u64,
    watchers: usize,
    /// Keys of this hash that were created since the first of the present watchers registered.
    creations: u64,
}

impl Absences {
    /// Records that an entry is added. The caller holds its shard's lock.
    #[inline]
    pub(crate) fn note_created(&self, hash: u64) {
        if let Some(registry) = self.registry.get()
            && registry.watched.load(Relaxed) > 0
        {
            registry.note_created(hash);
        }
    }

    /// Starts to watch a hash. The caller holds its shard's lock. Returns how often it was created.
    fn register(&self, hash: u64) -> u64 {
        let registry = self.registry.get_or_init(|| {
            let sections = std::array::from_fn(|_| Section::default());
            Box::new(Registry { watched: Padded::default(), sections })
        });
        registry.watched.fetch_add(1, Relaxed);
        let section = registry.section(hash);
        let mut hashes = section.hashes.lock();
        let new = || Watched { hash, watchers: 0, creations: 0 };
        let entry = hashes.entry(hash, |watched| watched.hash == hash, |watched| watched.hash);
        let mut entry = entry.or_insert_with(new);
        let watched = entry.get_mut();
        watched.watchers += 1;
        let creations = watched.creations;
        section.len.store(hashes.len(), Relaxed);
        creations
    }

    fn unregister(&self, hash: u64) {
        let Some(registry) = self.registry.get() else { return };
        let section = registry.section(hash);
        let mut hashes = section.hashes.lock();
        if let Ok(mut entry) = hashes.find_entry(hash, |watched| watched.hash == hash) {
            entry.get_mut().watchers -= 1;
            if entry.get().watchers == 0 {
                entry.remove();
            }
        }
        if hashes.is_empty() && hashes.capacity() > SPARE_CAPACITY {
            *hashes = HashTable::new();
        }
        section.len.store(hashes.len(), Relaxed);
        registry.watched.fetch_sub(1, Relaxed);
    }

    fn creations(&self, hash: u64) -> Option<u64> {
        let hashes = self.registry.get()?.section(hash).hashes.lock();
        Some(hashes.find(hash, |watched| watched.hash == hash)?.creations)
    }
}

impl Registry {
    fn section(&self, hash: u64) -> &Section {
        &self.sections[(hash >> SECTION_BITS_FROM) as usize % SECTIONS]
    }

    #[cold]
    fn note_created(&self, hash: u64) {
        let section = self.section(hash);
        if section.len.load(Relaxed) == 0 {
            return;
        }
        let mut hashes = section.hashes.lock();
        if let Some(watched) = hashes.find_mut(hash, |watched| watched.hash == hash) {
            watched.creations += 1;
        }
    }
}

/// The state of a key when it was read, to determine later whether it changed.
#[derive(Debug)]
pub enum Seen {
    /// It had an entry of this version.
    Version(u64),
    /// It had none.
    Absent(Absence),
}

/// A key that was absent. The table watches it until this is dropped.
pub struct Absence {
    core: Arc<Core>,
    hash: u64,
    /// How often it was created before.
    creations: u64,
}

impl Absence {
    /// The most memory that the table needs for one, beside the value itself.
    pub const BYTES: usize = 2 * (size_of::<Watched>() + 1);

    /// Whether the key was not created since. Exact while the caller holds the key's lock.
    pub fn lasts(&self) -> bool {
        self.core.absences.creations(self.hash) == Some(self.creations)
    }

    /// A version of the table at which the key had not been created yet, so that
    /// [`Table::created_since`] can tell later whether it was; `None` if it was created already.
    /// The caller does not hold the key's lock.
    pub fn until(&self) -> Option<u64> {
        // In this order: an entry that is added before the lock is taken has been counted when it
        // is, and one that is added later has a higher version.
        let version = self.core.version();
        let shard = self.core.map.shard(self.hash);
        let _records = self.core.shards_for_write().get(shard).lock_to_read();
        self.lasts().then_some(version)
    }
}

impl Drop for Absence {
    fn drop(&mut self) {
        self.core.absences.unregister(self.hash);
    }
}

impl fmt::Debug for Absence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Absence").field("lasts", &self.lasts()).finish_non_exhaustive()
    }
}

impl Table {
    /// Reads the state of a key, to determine later whether it changed. Eviction does not count
    /// this as a use.
    pub fn see(&self, key: &[u8], now_ms: u64) -> Seen {
        let core = self.shared_core();
        let is_cleared = core.is_cleared(now_ms);
        let (hash, shard) = core.locate(key);
        let records = core.shards_for_write().get(shard).lock_to_read();
        match records.find_live(hash, key, now_ms).filter(|_| !is_cleared) {
            Some(entry) => Seen::Version(entry.version()),
            // Under the lock, so that no creation falls between.
            None => {
                let creations = core.absences.register(hash);
                Seen::Absent(Absence { core: Arc::clone(core), hash, creations })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::keyspace::Keyspace;
    use crate::meta::Meta;
    use crate::options::Options;

    use super::*;

    const NOW_MS: u64 = 1_800_000_000_000;

    fn table() -> Table {
        Table::new(Options { shards: Some(64), ..Options::default() })
    }

    fn put(table: &Table, key: &[u8]) {
        table.update(key, NOW_MS, |record| record.put(&[b"v"], Meta::default())).expect("room");
    }

    fn absence(table: &Table, key: &[u8]) -> Absence {
        match table.see(key, NOW_MS) {
            Seen::Absent(absence) => absence,
            Seen::Version(version) => panic!("there is an entry of version {version}"),
        }
    }

    /// Watchers and hashes in the registry.
    fn registered(table: &Table) -> (usize, usize) {
        let Some(registry) = table.core().absences.registry.get() else { return (0, 0) };
        let len = |section: &Section| {
            let hashes = section.hashes.lock();
            assert_eq!(section.len.load(Relaxed), hashes.len());
            assert!(!hashes.is_empty() || hashes.capacity() <= SPARE_CAPACITY);
            hashes.len()
        };
        (registry.watched.load(Relaxed), registry.sections.iter().map(len).sum())
    }

    #[test]
    fn an_absence_ends_with_the_creation_of_its_own_key_only() {
        let table = table();
        let absence = absence(&table, b"k");
        for number in 0..20_000u32 {
            let key = number.to_le_bytes();
            put(&table, &key);
            if number % 2 == 0 {
                assert!(table.update(&key, NOW_MS, |record| record.remove()));
            }
        }
        table.clear();
        assert!(absence.lasts());
        put(&table, b"k");
        assert!(!absence.lasts());
        table.clear();
        assert!(!absence.lasts());
    }

    #[test]
    fn a_later_watcher_does_not_see_earlier_creations() {
        let table = table();
        let before = absence(&table, b"k");
        put(&table, b"k");
        assert!(matches!(table.see(b"k", NOW_MS), Seen::Version(1)));
        assert!(table.update(b"k", NOW_MS, |record| record.remove()));
        let after = absence(&table, b"k");
        assert_eq!(registered(&table), (2, 1));
        assert_eq!([before.lasts(), after.lasts()], [false, true]);
        drop(before);
        assert!(after.lasts());
        drop(after);
        assert!(absence(&table, b"k").lasts());
    }

    #[test]
    fn a_watcher_of_an_expired_entry_sees_its_replacement_by_a_slower_clock() {
        const FAR_MS: u64 = NOW_MS + 86_400_000;
        for at_ms in [NOW_MS + 1, FAR_MS] {
            let table = table();
            let meta = Meta { expires_at_ms: Some(at_ms), ..Meta::default() };
            table.update(b"k", NOW_MS, |record| record.put(&[b"v"], meta)).expect("room");
            let Seen::Absent(absence) = table.see(b"k", at_ms) else { panic!("it has expired") };
            put(&table, b"other");
            assert!(absence.lasts());
            put(&table, b"k");
            assert!(!absence.lasts(), "{at_ms}");
        }
    }

    #[test]
    fn dropped_absences_leave_nothing_behind() {
        let table = table();
        let absences: Vec<_> = (0..40_000u32)
            .map(|number| absence(&table, &(number % 20_000).to_le_bytes()))
            .collect();
        assert_eq!(registered(&table), (40_000, 20_000));
        drop(absences);
        assert_eq!(registered(&table), (0, 0));
        put(&table, b"k");
        assert_eq!(registered(&table), (0, 0));
    }

    #[test]
    fn no_creation_falls_between_a_read_and_its_registration() {
        let rounds = if cfg!(miri) { 10 } else { 2_000 };
        let table = table();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for _ in 0..rounds {
                    put(&table, b"k");
                    assert!(table.update(b"k", NOW_MS, |record| record.remove()));
                }
            });
            while !writer.is_finished() {
                if let Seen::Absent(absence) = table.see(b"k", NOW_MS) {
                    // Read under the lock, as transactions do: the creation of a visible entry must
                    // have been counted.
                    let locked = table.lock([&b"k"[..]], NOW_MS);
                    let present = locked.read(b"k", NOW_MS, |entry| entry.is_some());
                    assert!(!(present && absence.lasts()));
                }
            }
        });
        assert_eq!(registered(&table), (0, 0));
    }
}
