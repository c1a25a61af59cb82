//! Tracking: which clients have read which keys, so that they learn of changes.
//!
//! A session registers a key before it reads the value. An observer of the databases
//! ([`Watching`](crate::Watching)) takes the registrations of a key that changes, in the same
//! moment as the change, and sends one invalidation to each loop that serves such a client. A loop
//! handles it between turns, so it follows the reply to the read, which was made in a turn. That
//! reply may already have the new value; the client then reads the key once more than needed.
//!
//! A script may write a key before it reads it, and the log may execute it much later. A read of a
//! guest is executed elsewhere, and news of a change may arrive before its reply. So while such a
//! request is *pending*, the table notes which of its keys others change. When the client gets the
//! reply, these keys are invalidated, and the others are registered.
//!
//! Clients with a broadcast mode have prefixes instead. The prefixes of a key are found by a few
//! look-ups, however many there are.
//!
//! A server has a table for its clients. A member has another one, in which its guests are the
//! trackers ([`promises`](crate::promises)).
//!
//! # Bounds
//!
//! The table has at most a given number of keys, and [`BYTES_PER_KEY`] times as many bytes. Beyond
//! that it forgets another key, whose trackers must learn of that. Registrations of clients that
//! have left stay until the key changes.

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

/// The table.
#[derive(Debug)]
pub struct TrackingTable {
    hasher: RandomState,
    shards: Vec<Mutex<Shard>>,
    prefixes: RwLock<BTreeMap<Arc<[u8]>, Vec<Tracker>>>,
    /// Clients for which keys are tracked.
    pub clients: AtomicUsize,
    has_prefixes: AtomicBool,
    keys: AtomicUsize,
    items: AtomicUsize,
    bytes: AtomicUsize,
    /// Pairs of a client and a key of its pending requests.
    pending: AtomicUsize,
}

#[derive(Debug, Default)]
struct Shard {
    keys: BTreeMap<Arc<[u8]>, Vec<Tracker>>,
    /// The clients whose pending requests have a key.
    pending: BTreeMap<Box<[u8]>, BTreeMap<Tracker, Pending>>,
    /// The key that was forgotten last.
    after: Option<Arc<[u8]>>,
}

/// A key of a client's pending requests.
#[derive(Clone, Copy, Debug)]
struct Pending {
    kind: PendingKind,
    is_changed: bool,
}

/// A request that is executed later, or elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PendingKind {
    /// It is one step, and its own writes are no news: those of submissions whose tickets have
    /// greater numbers than this. A client that has left may have had the same place.
    Script {
        /// The last number that was given.
        after: u64,
    },
    /// It reads, or is one of several steps. A later write of the same client is news, and looks
    /// like an earlier one.
    Read,
}

impl PendingKind {
    /// Whether a change by this writer is no news for the client.
    fn is_own(self, client: Tracker, writer: Writer) -> bool {
        match (self, writer) {
            (PendingKind::Read, _) => false,
            (PendingKind::Script { after }, Writer::Ticket { number, .. }) => {
                client.is(writer) && number > after
            }
            (PendingKind::Script { .. }, _) => client.is(writer),
        }
    }
}

/// A client for which a key is tracked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tracker {
    /// Where it is served, as tickets have it ([`todana_group::Ticket`]).
    pub place: (u32, u32),
    /// Its id.
    pub id: u64,
}

impl Tracker {
    /// Whether this client is the writer. A write through the log has the place of the client.
    pub fn is(self, writer: Writer) -> bool {
        match writer {
            Writer::Client(id) => id == self.id,
            Writer::Ticket { place, .. } => place == self.place,
            Writer::Unknown => false,
        }
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
            pending: 0.into(),
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
    pub fn counts(&self) -> [u64; 3] {
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
    pub fn track(
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
    pub fn shrink(&self, key: &[u8], keys_max: usize) -> Vec<(Arc<[u8]>, Vec<Tracker>)> {
        let mut forgotten = Vec::new();
        let mut number = self.shard_of(key);
        while self.is_too_large(keys_max) && forgotten.len() < FORGOTTEN_MAX {
            forgotten.extend(self.take_any(number));
            number += 1;
        }
        forgotten
    }

    /// A request of this client, which has not been executed yet, may read the key. False if there
    /// are too many such keys.
    pub fn begin_pending(
        &self,
        key: &[u8],
        tracker: Tracker,
        kind: PendingKind,
        keys_max: usize,
    ) -> bool {
        if self.pending.load(Relaxed) >= keys_max {
            return false;
        }
        let mut shard = self.shard(self.shard_of(key));
        match shard.pending.entry(key.into()).or_default().entry(tracker) {
            Entry::Vacant(entry) => {
                entry.insert(Pending { kind, is_changed: false });
                self.pending.fetch_add(1, Relaxed);
            }
            Entry::Occupied(mut entry) => {
                let pending = entry.get_mut();
                pending.kind = pending.kind.max(kind);
            }
        }
        true
    }

    /// The client has the reply of the request. Registers the key, or returns true: it may have
    /// been changed after the request had read it.
    pub fn end_pending(&self, key: &[u8], tracker: Tracker) -> bool {
        let mut shard = self.shard(self.shard_of(key));
        let is_changed = self.remove_pending(&mut shard, key, tracker);
        if is_changed == Some(false) {
            self.add_to(&mut shard, key, tracker);
        }
        // An earlier request of the same pipeline has registered the key for both.
        let is_registered = |trackers: &Vec<Tracker>| trackers.binary_search(&tracker).is_ok();
        is_changed.unwrap_or_else(|| !shard.keys.get(key).is_some_and(is_registered))
    }

    /// The client leaves before it has the reply, or needs no registration. Returns whether the key
    /// may have been changed.
    pub fn forget_pending(&self, key: &[u8], tracker: Tracker) -> bool {
        let mut shard = self.shard(self.shard_of(key));
        self.remove_pending(&mut shard, key, tracker).unwrap_or(true)
    }

    fn remove_pending(&self, shard: &mut Shard, key: &[u8], tracker: Tracker) -> Option<bool> {
        let clients = shard.pending.get_mut(key)?;
        let pending = clients.remove(&tracker)?;
        if clients.is_empty() {
            shard.pending.remove(key);
        }
        self.pending.fetch_sub(1, Relaxed);
        Some(pending.is_changed)
    }

    /// Any key may have changed: also those of pending requests, whose replies may come after their
    /// clients have learned of it.
    pub fn change_all_pending(&self) {
        if self.pending.load(Relaxed) == 0 {
            return;
        }
        for number in 0..SHARDS {
            let mut shard = self.shard(number);
            let all = shard.pending.values_mut().flat_map(BTreeMap::values_mut);
            all.for_each(|pending| pending.is_changed = true);
        }
    }

    /// Takes the trackers that must learn of a change of this key, sorted. Those whose requests are
    /// pending learn of it later, unless they are the writer. If `kept` has read the key, it is
    /// one of them, and stays registered.
    pub fn concerned(&self, key: &[u8], writer: Writer, kept: Option<Tracker>) -> Vec<Tracker> {
        let mut shard = self.shard(self.shard_of(key));
        for (tracker, pending) in shard.pending.get_mut(key).into_iter().flatten() {
            pending.is_changed |= !pending.kind.is_own(*tracker, writer);
        }
        let mut trackers = self.take_from(&mut shard, key);
        if let Some(kept) = kept
            && trackers.binary_search(&kept).is_ok()
        {
            self.add_to(&mut shard, key, kept);
        }
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
        if !trackers.is_empty() {
            self.note_taken(1, trackers.len(), bytes_of(key, &trackers));
        }
        trackers
    }

    fn note_taken(&self, keys: usize, items: usize, bytes: usize) {
        self.keys.fetch_sub(keys, Relaxed);
        self.items.fetch_sub(items, Relaxed);
        self.bytes.fetch_sub(bytes, Relaxed);
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
        self.note_taken(1, trackers.len(), bytes_of(&key, &trackers));
        Some((key, trackers))
    }

    /// Takes all keys, in parts whose memory the caller frees.
    pub fn take_all(&self) -> Vec<impl Send + 'static> {
        let take = |number| {
            let mut shard = self.shard(number);
            let keys = std::mem::take(&mut shard.keys);
            let (mut items, mut bytes) = (0, 0);
            for (key, trackers) in &keys {
                items += trackers.len();
                bytes += bytes_of(key, trackers);
            }
            self.note_taken(keys.len(), items, bytes);
            keys
        };
        (0..SHARDS).map(take).collect()
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
    pub fn add_prefix(&self, prefix: &Arc<[u8]>, tracker: Tracker) {
        let mut prefixes = self.prefixes_mut();
        let trackers = prefixes.entry(prefix.clone()).or_default();
        if let Err(at) = trackers.binary_search(&tracker) {
            trackers.insert(at, tracker);
        }
        self.has_prefixes.store(true, Relaxed);
    }

    /// Removes a client with a prefix.
    pub fn remove_prefix(&self, prefix: &[u8], tracker: Tracker) {
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

/// Bytes that count for a key.
fn bytes_of(key: &[u8], trackers: &[Tracker]) -> usize {
    key.len() + KEY_BYTES + size_of_val(trackers)
}

#[cfg(test)]
mod tests {
    use super::PendingKind::Read;
    use super::*;

    /// A script of a client whose submissions have greater numbers than 6.
    const SCRIPT: PendingKind = PendingKind::Script { after: 6 };

    fn tracker(id: u64) -> Tracker {
        Tracker { place: (0, id as u32), id }
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
        let take = |key| ids(&table.concerned(key, Writer::Unknown, None));
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
        let concerned = |writer| ids(&table.concerned(b"a", writer, None));
        // Its own writes, before it has read the key or after.
        assert!(
            table.begin_pending(b"a", me, SCRIPT, 2) && table.begin_pending(b"a", me, SCRIPT, 2)
        );
        assert_eq!(mine.map(concerned), [[0; 0], [0; 0]]);
        assert!(!table.end_pending(b"a", me));
        // The second script of a pipeline.
        assert!(!table.end_pending(b"a", me));
        assert_eq!(concerned(other), [1]);
        assert!(table.end_pending(b"a", me));
        // A write of another client.
        assert!(table.begin_pending(b"a", me, SCRIPT, 2));
        assert_eq!(concerned(other), [0; 0]);
        assert!(table.end_pending(b"a", me));
        assert_eq!(concerned(other), [0; 0]);
        // A write of the client that had the same place before.
        let earlier = Writer::Ticket { place: (0, 1), number: 6 };
        assert!(table.begin_pending(b"a", me, SCRIPT, 2));
        assert_eq!(concerned(earlier), [0; 0]);
        assert!(table.end_pending(b"a", me));
        // Its own writes invalidate what it had read before.
        table.add(b"a", me);
        assert!(table.begin_pending(b"a", me, SCRIPT, 2));
        assert_eq!(concerned(mine[0]), [1]);
        assert!(!table.end_pending(b"a", me));
        assert_eq!(concerned(other), [1]);
        // Too many keys, and a client that leaves.
        assert!(
            table.begin_pending(b"a", me, SCRIPT, 1) && !table.begin_pending(b"b", me, SCRIPT, 1)
        );
        assert!(table.end_pending(b"b", me));
        assert!(!table.forget_pending(b"a", me) && table.forget_pending(b"a", me));
        assert!(table.shard(table.shard_of(b"a")).pending.is_empty());
        assert_eq!((table.counts(), table.pending.load(Relaxed)), ([0; 3], 0));
    }

    #[test]
    fn a_pending_read_learns_of_every_change() {
        let table = TrackingTable::default();
        let (me, other) = (tracker(1), tracker(2));
        let mine = Writer::Ticket { place: (0, 1), number: 7 };
        let concerned = |writer| ids(&table.concerned(b"a", writer, None));
        // The client may have written after it had read.
        assert!(table.begin_pending(b"a", me, Read, 9));
        assert_eq!(concerned(mine), [0; 0]);
        assert!(table.end_pending(b"a", me));
        assert_eq!(concerned(Writer::Unknown), [0; 0]);
        // A script beside the read is no reason to overlook that.
        for kinds in [[Read, SCRIPT], [SCRIPT, Read]] {
            assert!(kinds.iter().all(|kind| table.begin_pending(b"a", me, *kind, 9)));
            assert_eq!(concerned(mine), [0; 0]);
            assert!(table.end_pending(b"a", me));
        }
        // Nothing happens, and then another client writes.
        assert!(table.begin_pending(b"a", me, Read, 9) && !table.end_pending(b"a", me));
        assert_eq!(concerned(Writer::Client(2)), [1]);
        // All keys change.
        table.change_all_pending();
        assert!(
            table.begin_pending(b"a", me, Read, 9) && table.begin_pending(b"b", other, Read, 9)
        );
        table.change_all_pending();
        assert!(table.end_pending(b"a", me) && table.end_pending(b"b", other));
        assert_eq!((table.counts(), table.pending.load(Relaxed)), ([0; 3], 0));
    }

    #[test]
    fn a_registration_may_stay() {
        let table = TrackingTable::default();
        let (one, other) = (tracker(1), tracker(2));
        let concerned = |kept| ids(&table.concerned(b"a", Writer::Unknown, kept));
        assert_eq!(concerned(Some(one)), [0; 0]);
        assert_eq!(table.counts(), [0; 3]);
        table.add(b"a", one);
        table.add(b"a", other);
        assert_eq!(concerned(Some(one)), [1, 2]);
        assert_eq!((concerned(Some(other)), table.counts()), (vec![1], [0; 3]));
        table.add(b"a", one);
        table.add(b"b", other);
        assert_eq!(table.take_all().len(), SHARDS);
        assert_eq!((table.counts(), table.bytes.load(Relaxed)), ([0; 3], 0));
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
