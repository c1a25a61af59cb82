//! Tracking: which clients have read which keys, so that they learn of changes.
//!
//! A session registers a key before it reads the value. An observer of the databases
//! ([`watching`](crate::watching)) takes the registrations of a key that changes, in the same
//! moment as the change, and sends one invalidation to each loop that serves such a client. A loop
//! handles it between turns, so it follows the reply to the read, which was made in a turn. That
//! reply may already have the new value; the client then reads the key once more than needed.
//!
//! A script may write a key before it reads it, and the log may execute it much later. So while a
//! client's script is on its way, the table notes which of the script's keys others change. When
//! the script has its reply, these keys are invalidated, and the others are registered.
//!
//! Clients with a broadcast mode have prefixes instead. The prefixes of a key are found by a few
//! look-ups, however many there are.
//!
//! # Bounds
//!
//! The table has at most `tracking_keys_max` keys, and [`BYTES_PER_KEY`] times as many bytes.
//! Beyond that it forgets another key and sends its invalidation. If a loop has too much to
//! deliver, it has its clients forget everything instead, once
//! ([`Message::InvalidateAll`](crate::inbox::Message::InvalidateAll)), and closes the clients to
//! which others redirect their invalidations. Registrations of clients
//! that have left stay until the key changes.

use crate::frame::Frame;
use crate::place::Place;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use todana_command::cause::Writer;

const SHARDS: usize = 64;
/// Bytes that the table may have for each key that it may have.
const BYTES_PER_KEY: usize = 256;
/// Bytes of a key beside its own.
const KEY_BYTES: usize = 96;
/// Most keys that are forgotten for one that is added.
const FORGOTTEN_MAX: usize = 64;
/// Maximum bytes of invalidations that a loop has to deliver.
pub(crate) const WAITING_BYTES_MAX: usize = 16 << 20;
/// Bytes of an invalidation beside its key and its recipients.
const INVALIDATION_BYTES: usize = 128;

/// The table.
#[derive(Debug)]
pub(crate) struct TrackingTable {
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
    prefixes: RwLock<BTreeMap<Arc<[u8]>, Vec<Tracker>>>,
    /// Clients for which keys are tracked.
    pub(crate) clients: AtomicUsize,
    has_prefixes: AtomicBool,
    keys: AtomicUsize,
    items: AtomicUsize,
    bytes: AtomicUsize,
    /// Pairs of a client and a key of its script.
    scripts: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    keys: BTreeMap<Arc<[u8]>, Vec<Tracker>>,
    /// The clients whose scripts have a key, and whether others have changed it meanwhile.
    scripts: BTreeMap<Box<[u8]>, BTreeMap<Tracker, bool>>,
    /// The key that was forgotten last.
    after: Option<Arc<[u8]>>,
}

/// A client for which a key is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tracker {
    event_loop: u32,
    index: u32,
    id: u64,
}

impl Tracker {
    pub(crate) fn new(place: Place, id: u64) -> Tracker {
        Tracker { event_loop: place.event_loop as u32, index: place.index as u32, id }
    }

    /// Whether this client is the writer. A write through the log has the place of the client.
    fn is(self, writer: Writer) -> bool {
        match writer {
            Writer::Client(id) => id == self.id,
            Writer::Ticket { place, .. } => place == (self.event_loop, self.index),
            Writer::Unknown => false,
        }
    }
}

/// Clients that receive a message, in the order of their places.
#[derive(Debug)]
pub(crate) struct Recipients(Vec<Tracker>);

impl Recipients {
    /// Of a sorted list.
    pub(crate) fn new(sorted: Vec<Tracker>) -> Recipients {
        Recipients(sorted)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * size_of::<Tracker>()
    }

    /// Calls `each` with the number of each loop that serves some.
    pub(crate) fn loops(&self, mut each: impl FnMut(usize)) {
        let mut rest = &self.0[..];
        while let Some(first) = rest.first() {
            each(first.event_loop as usize);
            rest = &rest[rest.partition_point(|it| it.event_loop == first.event_loop)..];
        }
    }

    /// Those of a loop from an index on: at most `count`. Returns where to continue, `None` if that
    /// were all.
    pub(crate) fn next(
        &self,
        (event_loop, index): (usize, usize),
        count: usize,
        recipients: &mut Vec<(usize, u64)>,
    ) -> Option<usize> {
        let from = (event_loop as u32, index as u32);
        let begin = self.0.partition_point(|it| (it.event_loop, it.index) < from);
        for tracker in self.0[begin..].iter().take_while(|it| it.event_loop == event_loop as u32) {
            if recipients.len() >= count {
                return Some(tracker.index as usize);
            }
            recipients.push((tracker.index as usize, tracker.id));
        }
        None
    }
}

/// Bytes of an invalidation that is redirected to another client.
pub(crate) fn redirected_bytes(frame: &Frame) -> usize {
    frame.resp3.len() + INVALIDATION_BYTES
}

/// A key that has changed, with the clients that must learn of it.
#[derive(Debug)]
pub(crate) struct Invalidation {
    pub(crate) key: Box<[u8]>,
    pub(crate) recipients: Recipients,
    /// The party that has changed it.
    pub(crate) writer: Writer,
}

impl Invalidation {
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.recipients.bytes() + INVALIDATION_BYTES
    }
}

impl Default for TrackingTable {
    fn default() -> TrackingTable {
        TrackingTable {
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            prefixes: RwLock::default(),
            clients: 0.into(),
            has_prefixes: false.into(),
            keys: 0.into(),
            items: 0.into(),
            bytes: 0.into(),
            scripts: 0.into(),
        }
    }
}

impl TrackingTable {
    fn shard(&self, number: usize) -> MutexGuard<'_, Shard> {
        self.shards[number % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shard_of(&self, key: &[u8]) -> usize {
        self.hasher.hash_one(key) as usize % SHARDS
    }

    fn prefixes(&self) -> RwLockReadGuard<'_, BTreeMap<Arc<[u8]>, Vec<Tracker>>> {
        self.prefixes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn prefixes_mut(&self) -> RwLockWriteGuard<'_, BTreeMap<Arc<[u8]>, Vec<Tracker>>> {
        self.prefixes.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keys, pairs of a key and a client, and prefixes.
    pub(crate) fn counts(&self) -> [u64; 3] {
        let prefixes = self.prefixes().len();
        [self.keys.load(Relaxed), self.items.load(Relaxed), prefixes].map(|count| count as u64)
    }

    /// Registers a key for a client.
    fn add(&self, key: &[u8], tracker: Tracker) {
        self.add_to(&mut self.shard(self.shard_of(key)), key, tracker);
    }

    fn add_to(&self, shard: &mut Shard, key: &[u8], tracker: Tracker) {
        let mut bytes = size_of::<Tracker>();
        match shard.keys.get_mut(key) {
            Some(trackers) => match trackers.binary_search(&tracker) {
                Ok(_) => return,
                Err(at) => trackers.insert(at, tracker),
            },
            None => {
                shard.keys.insert(key.into(), vec![tracker]);
                self.keys.fetch_add(1, Relaxed);
                bytes += key.len() + KEY_BYTES;
            }
        }
        self.items.fetch_add(1, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
    }

    /// Whether the table exceeds its limits.
    fn is_too_large(&self, keys_max: usize) -> bool {
        self.keys.load(Relaxed) > keys_max
            || self.bytes.load(Relaxed) > keys_max.saturating_mul(BYTES_PER_KEY)
    }

    /// Registers a key that a client is about to read. Returns the keys that are forgotten for it.
    pub(crate) fn track(
        &self,
        key: &[u8],
        tracker: Tracker,
        keys_max: usize,
    ) -> Vec<(Arc<[u8]>, Vec<Tracker>)> {
        self.add(key, tracker);
        self.shrink(key, keys_max)
    }

    /// Forgets keys until the table does not exceed its limits, and returns them: a part of them,
    /// if the limit has become much lower.
    pub(crate) fn shrink(&self, key: &[u8], keys_max: usize) -> Vec<(Arc<[u8]>, Vec<Tracker>)> {
        let mut forgotten = Vec::new();
        let mut number = self.shard_of(key);
        while self.is_too_large(keys_max) && forgotten.len() < FORGOTTEN_MAX {
            forgotten.extend(self.take_any(number));
            number += 1;
        }
        forgotten
    }

    /// A script of this client, which has not been executed yet, may read the key. False if there
    /// are too many such keys.
    pub(crate) fn begin_script(&self, key: &[u8], tracker: Tracker, keys_max: usize) -> bool {
        if self.scripts.load(Relaxed) >= keys_max {
            return false;
        }
        let mut shard = self.shard(self.shard_of(key));
        if let Entry::Vacant(entry) = shard.scripts.entry(key.into()).or_default().entry(tracker) {
            entry.insert(false);
            self.scripts.fetch_add(1, Relaxed);
        }
        true
    }

    /// The client has the reply of the script. Registers the key, or returns true: others may have
    /// changed it after the script had read it.
    pub(crate) fn end_script(&self, key: &[u8], tracker: Tracker) -> bool {
        let mut shard = self.shard(self.shard_of(key));
        let is_changed = self.remove_script(&mut shard, key, tracker);
        if is_changed == Some(false) {
            self.add_to(&mut shard, key, tracker);
        }
        // An earlier script of the same pipeline has registered the key for both.
        let is_registered = |trackers: &Vec<Tracker>| trackers.binary_search(&tracker).is_ok();
        is_changed.unwrap_or_else(|| !shard.keys.get(key).is_some_and(is_registered))
    }

    /// The client leaves before it has the reply.
    pub(crate) fn forget_script(&self, key: &[u8], tracker: Tracker) {
        self.remove_script(&mut self.shard(self.shard_of(key)), key, tracker);
    }

    fn remove_script(&self, shard: &mut Shard, key: &[u8], tracker: Tracker) -> Option<bool> {
        let clients = shard.scripts.get_mut(key)?;
        let is_changed = clients.remove(&tracker)?;
        if clients.is_empty() {
            shard.scripts.remove(key);
        }
        self.scripts.fetch_sub(1, Relaxed);
        Some(is_changed)
    }

    /// Takes the clients that must learn of a change of this key, sorted. Those whose scripts are
    /// on their way learn of it later, unless they are the writer.
    pub(crate) fn concerned(&self, key: &[u8], writer: Writer) -> Vec<Tracker> {
        let mut shard = self.shard(self.shard_of(key));
        for (tracker, is_changed) in shard.scripts.get_mut(key).into_iter().flatten() {
            *is_changed |= !tracker.is(writer);
        }
        let mut trackers = self.take_from(&mut shard, key);
        drop(shard);
        if self.has_prefixes.load(Relaxed) {
            self.add_broadcast(key, &mut trackers);
            trackers.sort_unstable();
            trackers.dedup();
        }
        trackers
    }

    /// Takes the registrations of a key.
    fn take_from(&self, shard: &mut Shard, key: &[u8]) -> Vec<Tracker> {
        let trackers = shard.keys.remove(key).unwrap_or_default();
        self.note_taken(key, &trackers);
        trackers
    }

    fn note_taken(&self, key: &[u8], trackers: &[Tracker]) {
        if !trackers.is_empty() {
            let bytes = key.len() + KEY_BYTES + size_of_val(trackers);
            self.keys.fetch_sub(1, Relaxed);
            self.items.fetch_sub(trackers.len(), Relaxed);
            self.bytes.fetch_sub(bytes, Relaxed);
        }
    }

    /// Takes the next key of a shard, in turn.
    fn take_any(&self, number: usize) -> Option<(Arc<[u8]>, Vec<Tracker>)> {
        let mut shard = self.shard(number);
        let from = shard.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let next = shard.keys.range::<[u8], _>((from, Bound::Unbounded)).next();
        let key = next.or_else(|| shard.keys.first_key_value()).map(|(key, _)| key.clone())?;
        let trackers = shard.keys.remove(&key)?;
        shard.after = Some(key.clone());
        drop(shard);
        self.note_taken(&key, &trackers);
        Some((key, trackers))
    }

    /// Adds the clients that have a prefix of this key.
    fn add_broadcast(&self, key: &[u8], trackers: &mut Vec<Tracker>) {
        let prefixes = self.prefixes();
        let mut end = key.len();
        loop {
            let below = prefixes.range::<[u8], _>((Bound::Unbounded, Bound::Included(&key[..end])));
            let Some((found, clients)) = below.into_iter().next_back() else { return };
            let common = found.iter().zip(key).take_while(|(one, other)| one == other).count();
            if common < found.len() {
                // All prefixes of the key that are left are prefixes of this, too.
                end = common;
                continue;
            }
            trackers.extend_from_slice(clients);
            match found.len().checked_sub(1) {
                Some(shorter) => end = shorter,
                None => return,
            }
        }
    }

    /// Adds a client with a prefix.
    pub(crate) fn add_prefix(&self, prefix: &Arc<[u8]>, tracker: Tracker) {
        let mut prefixes = self.prefixes_mut();
        let trackers = prefixes.entry(prefix.clone()).or_default();
        if let Err(at) = trackers.binary_search(&tracker) {
            trackers.insert(at, tracker);
        }
        self.has_prefixes.store(true, Relaxed);
    }

    /// Removes a client with a prefix.
    pub(crate) fn remove_prefix(&self, prefix: &[u8], tracker: Tracker) {
        let mut prefixes = self.prefixes_mut();
        let Some(trackers) = prefixes.get_mut(prefix) else { return };
        if let Ok(at) = trackers.binary_search(&tracker) {
            trackers.remove(at);
        }
        if trackers.is_empty() {
            prefixes.remove(prefix);
        }
        self.has_prefixes.store(!prefixes.is_empty(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracker(id: u64) -> Tracker {
        Tracker::new(Place { event_loop: 0, index: id as usize }, id)
    }

    fn ids(trackers: &[Tracker]) -> Vec<u64> {
        trackers.iter().map(|tracker| tracker.id).collect()
    }

    #[test]
    fn a_key_is_taken_once_and_counted() {
        let table = TrackingTable::default();
        for (key, id) in [("a", 2), ("a", 1), ("a", 2), ("b", 1)] {
            table.add(key.as_bytes(), tracker(id));
        }
        assert_eq!(table.counts(), [2, 3, 0]);
        let take = |key| ids(&table.concerned(key, Writer::Unknown));
        assert_eq!(take(b"a"), [1, 2]);
        assert_eq!(take(b"a"), [0; 0]);
        assert_eq!(take(b"b"), [1]);
        assert_eq!((table.counts(), table.bytes.load(Relaxed)), ([0; 3], 0));
    }

    #[test]
    fn keys_are_forgotten_in_turn() {
        let table = TrackingTable::default();
        let keys: Vec<String> = (0..200).map(|number| format!("k{number}")).collect();
        keys.iter().for_each(|key| table.add(key.as_bytes(), tracker(1)));
        assert!(table.is_too_large(199) && !table.is_too_large(200));
        let mut found = Vec::new();
        for number in 0..SHARDS {
            while let Some((key, _)) = table.take_any(number) {
                found.push(String::from_utf8(key.to_vec()).unwrap());
            }
        }
        found.sort();
        let mut keys = keys;
        keys.sort();
        assert_eq!(found, keys);
        assert_eq!(table.counts(), [0; 3]);
    }

    #[test]
    fn a_script_learns_of_what_others_change() {
        let table = TrackingTable::default();
        let (me, other) = (tracker(1), Writer::Client(2));
        let mine = [Writer::Client(1), Writer::Ticket { place: (0, 1), number: 7 }];
        let concerned = |writer| ids(&table.concerned(b"a", writer));
        // Its own writes, before it has read the key or after.
        assert!(table.begin_script(b"a", me, 2) && table.begin_script(b"a", me, 2));
        assert_eq!(mine.map(concerned), [[0; 0], [0; 0]]);
        assert!(!table.end_script(b"a", me));
        // The second script of a pipeline.
        assert!(!table.end_script(b"a", me));
        assert_eq!(concerned(other), [1]);
        assert!(table.end_script(b"a", me));
        // A write of another client.
        assert!(table.begin_script(b"a", me, 2));
        assert_eq!(concerned(other), [0; 0]);
        assert!(table.end_script(b"a", me));
        assert_eq!(concerned(other), [0; 0]);
        // Its own writes invalidate what it had read before.
        table.add(b"a", me);
        assert!(table.begin_script(b"a", me, 2));
        assert_eq!(concerned(mine[0]), [1]);
        assert!(!table.end_script(b"a", me));
        assert_eq!(concerned(other), [1]);
        // Too many keys, and a client that leaves.
        assert!(table.begin_script(b"a", me, 1) && !table.begin_script(b"b", me, 1));
        assert!(table.end_script(b"b", me));
        table.forget_script(b"a", me);
        assert!(table.shard(table.shard_of(b"a")).scripts.is_empty());
        assert_eq!((table.counts(), table.scripts.load(Relaxed)), ([0; 3], 0));
    }

    #[test]
    fn all_prefixes_of_a_key_are_found() {
        let table = TrackingTable::default();
        let prefixes = ["", "a", "ab", "abd", "abc", "abcde", "b", "ac"];
        for (id, prefix) in prefixes.iter().enumerate() {
            table.add_prefix(&Arc::from(prefix.as_bytes()), tracker(id as u64));
        }
        for key in ["", "a", "abcd", "abce", "abcdef", "zz", "abb", "ac", "b"] {
            let mut found = Vec::new();
            table.add_broadcast(key.as_bytes(), &mut found);
            let mut found = ids(&found);
            found.sort_unstable();
            let is_prefix = |it: &(usize, &&str)| key.starts_with(*it.1);
            let wanted: Vec<u64> =
                prefixes.iter().enumerate().filter(is_prefix).map(|it| it.0 as u64).collect();
            assert_eq!(found, wanted, "{key}");
        }
        for (id, prefix) in prefixes.iter().enumerate() {
            table.remove_prefix(prefix.as_bytes(), tracker(id as u64));
        }
        assert!(!table.has_prefixes.load(Relaxed));
    }
}
