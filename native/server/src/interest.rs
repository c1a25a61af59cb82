//! Which messages to channels this node wants from the other nodes of a cluster.
//!
//! An *item* is a channel or a pattern that somebody subscribes to. The subscribers of this node
//! and, at a member, its guests *hold* items. Each change is announced to the nodes that send
//! messages here; a process outside this crate carries the announcements, and reports which of
//! them all others know. A client subscribes to an item after that, so that it receives what is
//! published after the reply.
//!
//! An item that nobody holds any more stays announced for [`UNHELD_MS`], because clients often
//! subscribe to a channel again. If there are more than [`ITEMS_MAX`], the node wants everything.
//!
//! # Announcements
//!
//! Announcements have consecutive numbers. One is *full*, or has what changed since the one before.
//! The numbers are the only fields that are integers of Erlang; the items are these bytes:
//!
//! ```text
//! 0   0 channel, 1 pattern, 2 everything; 128 more: nobody wants it any more
//! 1   of a channel: a hash of its topic and its name, 8 bytes
//!     of a pattern: its length, 2 bytes, and the pattern
//! ```

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use todana_resp::Topic;

/// A client does not wait longer until the other nodes know what it subscribes to.
const ANNOUNCE_MS_MAX: u64 = 1_500;
/// An item stays announced for this time after the last subscriber has left.
const UNHELD_MS: u64 = 10_000;
/// Maximum number of items that are announced.
const ITEMS_MAX: usize = 16_384;
/// Maximum number of patterns among them. Each message is compared with all.
const PATTERNS_MAX: usize = 256;

/// While everything is wanted and there are more items than this, a name that nobody holds yet is
/// not noted. So clients that ask for many names and leave take no memory.
const NOTED_MAX: usize = 2 * ITEMS_MAX;
/// Entries that the queue of items without holders may have beyond twice the items.
const QUEUE_SLACK: usize = 1_024;
/// Entries of that queue that one call looks at, so that nobody waits long for the lock.
const FORGOTTEN_MAX: usize = 2_048;

const CHANNEL: u8 = 0;
const PATTERN: u8 = 1;
const EVERYTHING: u8 = 2;
const NO_MORE: u8 = 128;

/// Messages that somebody wants.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Item {
    /// Those of a channel with this hash.
    Channel(u64),
    /// Those of all channels that match a pattern.
    Pattern(Arc<[u8]>),
    /// All.
    Everything,
}

impl Item {
    /// The channel or pattern of this name.
    pub fn of(topic: Topic, name: &[u8]) -> Item {
        Item::shared(topic, &name.into())
    }

    /// The same, with the bytes of a pattern shared.
    pub fn shared(topic: Topic, name: &Arc<[u8]>) -> Item {
        match topic {
            Topic::Pattern => Item::Pattern(name.clone()),
            Topic::Channel | Topic::Shard => Item::Channel(channel_hash(topic, name)),
        }
    }
}

/// FNV-1a of the number of the topic and the name: all versions must agree. Two names with one hash
/// cost a message that nobody reads.
pub(crate) fn channel_hash(topic: Topic, name: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    [topic as u8].iter().chain(name).fold(0xcbf2_9ce4_8422_2325, step)
}

/// A message to the other nodes.
#[derive(Debug, PartialEq, Eq)]
pub struct Announcement {
    /// Its number.
    pub number: u64,
    /// Whether it replaces what was announced before.
    pub is_full: bool,
    /// The items.
    pub items: Vec<u8>,
}

/// The items that this node wants.
#[derive(Debug)]
pub struct Interest {
    /// Whether there is a process, so that clients of a node without a cluster do not wait.
    is_attached: AtomicBool,
    own: Mutex<Own>,
}

/// An item without the bytes of a pattern, of which there is one copy. The hash of a pattern is
/// keyed, so that clients cannot choose two with one hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Key {
    Channel(u64),
    Pattern(u64),
    Everything,
}

#[derive(Debug)]
struct Own {
    hasher: RandomState,
    items: HashMap<Key, Wanted>,
    patterns: usize,
    /// The items of the next announcement.
    added: Vec<Key>,
    /// Items that nobody holds, with the time since when. There may be others, too.
    unheld: VecDeque<(Key, u64)>,
    /// Whether there is a process that takes announcements.
    announces: bool,
    /// That of the last announcement.
    number: u64,
    /// That of the last announcement that all other nodes know. `None`: one of them may know
    /// nothing, or something that an earlier process has announced.
    known: Option<u64>,
    /// When the others knew less than before, or were found to know nothing, for the last time.
    less_known_ms: u64,
    /// Whether there are too many items to announce each of them.
    is_everything: bool,
    /// When that was announced.
    everything_ms: u64,
    /// The process will take the next announcement without being woken.
    is_awake: bool,
}

#[derive(Debug)]
struct Wanted {
    /// Of a pattern; shared with the subscribers.
    pattern: Option<Arc<[u8]>>,
    holders: usize,
    /// That of the announcement that has it.
    number: u64,
    /// When somebody began to want it.
    since_ms: u64,
    /// When somebody wanted it last.
    last_ms: u64,
    /// Whether it is in `unheld`, so that it is there once.
    is_queued: bool,
}

impl Interest {
    /// Nothing is wanted, and there is no process.
    pub fn new() -> Interest {
        let own = Own {
            hasher: RandomState::new(),
            items: HashMap::new(),
            patterns: 0,
            added: Vec::new(),
            unheld: VecDeque::new(),
            announces: false,
            number: 0,
            known: None,
            less_known_ms: 0,
            is_everything: false,
            everything_ms: 0,
            is_awake: false,
        };
        Interest { is_attached: AtomicBool::new(false), own: Mutex::new(own) }
    }

    /// There is a process, which takes announcements. Others may know something else. Returns the
    /// number of the last announcement.
    pub fn attach(&self, now_ms: u64) -> u64 {
        let mut own = self.lock();
        own.is_awake = false;
        own.know(None, now_ms);
        // Items that were not taken are in the full announcement.
        own.number += u64::from(!own.added.is_empty());
        own.added.clear();
        own.announces = true;
        self.is_attached.store(true, Relaxed);
        own.number
    }

    /// There is no process. There may be another one soon: until then, clients wait.
    pub fn detach(&self, now_ms: u64) {
        let mut own = self.lock();
        own.announces = false;
        own.know(None, now_ms);
        own.added.clear();
        // Nobody takes an announcement, by which they would be forgotten.
        own.items.retain(|_, wanted| wanted.holders > 0);
        own.patterns = own.items.keys().filter(|key| matches!(key, Key::Pattern(_))).count();
        own.queue_again();
    }

    /// A client is about to subscribe to these names. Returns whether all other nodes know it, and
    /// whether the caller has to wake the process.
    pub fn want(&self, topic: Topic, names: &[&[u8]], now_ms: u64) -> (bool, bool) {
        if !self.is_attached.load(Relaxed) {
            return (true, false);
        }
        let mut own = self.lock();
        if !own.announces {
            return (own.is_over(own.less_known_ms, now_ms), false);
        }
        let mut is_known = true;
        for name in names {
            let key = own.key_of(topic, name);
            is_known &= match own.is_in_everything(key) {
                true => own.is_everything_known(now_ms),
                false => own.want(key, now_ms, || Arc::from(*name)),
            };
        }
        (is_known, own.wakes())
    }

    /// An item has one holder more. Returns whether the caller has to wake the process.
    pub fn hold(&self, item: Item, now_ms: u64) -> bool {
        let mut own = self.lock();
        let (key, pattern) = own.key(item);
        own.want(key, now_ms, || pattern.clone().unwrap_or_default());
        if let Some(wanted) = own.items.get_mut(&key) {
            wanted.holders += 1;
            wanted.pattern = pattern;
        }
        own.wakes()
    }

    /// One of those who held an item does not want it any more.
    pub fn release(&self, item: &Item, now_ms: u64) {
        let mut own = self.lock();
        let key = own.key(item.clone()).0;
        let is_announced = own.announces && !own.is_everything;
        let Some(wanted) = own.items.get_mut(&key) else { return };
        wanted.holders = wanted.holders.saturating_sub(1);
        wanted.last_ms = now_ms;
        if wanted.holders > 0 || is_announced && key == Key::Everything {
            // The next announcement removes it.
            return;
        }
        if !is_announced {
            // It is in no announcement, and may be long.
            own.items.remove(&key);
            own.patterns -= usize::from(matches!(key, Key::Pattern(_)));
        } else if !std::mem::replace(&mut wanted.is_queued, true) {
            own.unheld.push_back((key, now_ms));
        }
        own.bound_queue();
    }

    /// The next announcement. After `None`, the next item wakes the process. It also has the items
    /// that nobody has held for long, for which nothing wakes the process.
    ///
    /// All items that clients wait for are in one announcement. Its length is bounded by
    /// [`ITEMS_MAX`] and [`PATTERNS_MAX`].
    pub fn take(&self, now_ms: u64) -> Option<Announcement> {
        let mut own = self.lock();
        let removed = own.forget(now_ms);
        let added = std::mem::take(&mut own.added);
        let was_everything = own.is_everything;
        own.is_everything = own.patterns > PATTERNS_MAX
            || own.items.len() > ITEMS_MAX
            || (was_everything
                && (own.items.len() > ITEMS_MAX / 2 || own.patterns > PATTERNS_MAX / 2));
        let is_full = own.is_everything != was_everything;
        if !is_full && (own.is_everything || (added.is_empty() && removed.is_empty())) {
            own.is_awake = false;
            return None;
        }
        own.number += 1;
        let number = own.number;
        if own.is_everything {
            own.everything_ms = now_ms;
        }
        let changes: Vec<(Item, u8)> = if is_full {
            own.all()
        } else {
            let added = added.iter().filter_map(|key| Some(item(*key, own.items.get(key)?)));
            removed.into_iter().map(|item| (item, NO_MORE)).chain(added.map(|it| (it, 0))).collect()
        };
        drop(own);
        Some(Announcement { number, is_full, items: encoded(&changes) })
    }

    /// Everything that was announced, for a node that has just come. It may have items of the next
    /// announcement, too.
    pub fn full(&self) -> Announcement {
        let own = self.lock();
        let (number, items) = (own.number, own.all());
        drop(own);
        Announcement { number, is_full: true, items: encoded(&items) }
    }

    /// All other nodes know this announcement and those before it; `u64::MAX` if there are none,
    /// `None` if one of them may know nothing. Returns whether clients may wait for that.
    pub fn note_known(&self, known: Option<u64>, now_ms: u64) -> bool {
        self.lock().know(known, now_ms)
    }

    fn lock(&self) -> MutexGuard<'_, Own> {
        self.own.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for Interest {
    fn default() -> Interest {
        Interest::new()
    }
}

impl Own {
    fn key_of(&self, topic: Topic, name: &[u8]) -> Key {
        match topic {
            Topic::Pattern => Key::Pattern(self.hasher.hash_one(name)),
            Topic::Channel | Topic::Shard => Key::Channel(channel_hash(topic, name)),
        }
    }

    fn key(&self, item: Item) -> (Key, Option<Arc<[u8]>>) {
        match item {
            Item::Channel(hash) => (Key::Channel(hash), None),
            Item::Pattern(pattern) => (self.key_of(Topic::Pattern, &pattern), Some(pattern)),
            Item::Everything => (Key::Everything, None),
        }
    }

    /// Returns whether more is known than before.
    fn know(&mut self, known: Option<u64>, now_ms: u64) -> bool {
        if known < self.known || known.is_none() {
            self.less_known_ms = now_ms;
        }
        let is_more = known > self.known;
        self.known = known;
        is_more
    }

    fn is_over(&self, since_ms: u64, now_ms: u64) -> bool {
        now_ms.saturating_sub(since_ms) >= ANNOUNCE_MS_MAX
    }

    /// Returns whether a client need not wait. `pattern` is called for a new one.
    fn want(&mut self, key: Key, now_ms: u64, pattern: impl FnOnce() -> Arc<[u8]>) -> bool {
        let number = self.number + u64::from(self.announces && !self.is_everything);
        let wanted = self.items.entry(key).or_insert_with(|| {
            if number > self.number {
                self.added.push(key);
            }
            // It is not held yet, and may never be.
            let is_queued = self.announces;
            if is_queued {
                self.unheld.push_back((key, now_ms));
            }
            let is_pattern = matches!(key, Key::Pattern(_));
            self.patterns += usize::from(is_pattern);
            let pattern = is_pattern.then(pattern);
            Wanted { pattern, holders: 0, number, since_ms: now_ms, last_ms: now_ms, is_queued }
        });
        wanted.last_ms = now_ms;
        let (number, since_ms) = (wanted.number, wanted.since_ms.max(self.less_known_ms));
        Some(number) <= self.known || self.is_over(since_ms, now_ms)
    }

    /// Whether it need not be noted. When each item is announced again, there are far fewer.
    fn is_in_everything(&self, key: Key) -> bool {
        self.is_everything && self.items.len() > NOTED_MAX && !self.items.contains_key(&key)
    }

    /// Whether a client need not wait until all others know that everything is wanted.
    fn is_everything_known(&self, now_ms: u64) -> bool {
        let since_ms = self.everything_ms.max(self.less_known_ms);
        Some(self.number) <= self.known || self.is_over(since_ms, now_ms)
    }

    fn wakes(&mut self) -> bool {
        !self.added.is_empty() && !std::mem::replace(&mut self.is_awake, true)
    }

    /// Removes the items that nobody has held for long, and returns them.
    fn forget(&mut self, now_ms: u64) -> Vec<Item> {
        let mut removed = Vec::new();
        // Nodes without an announcement of their own have it at once, and it costs all messages.
        if self.items.get(&Key::Everything).is_some_and(|wanted| wanted.holders == 0) {
            self.items.remove(&Key::Everything);
            removed.push(Item::Everything);
        }
        let is_due = |(_, since): &mut (Key, u64)| now_ms.saturating_sub(*since) >= UNHELD_MS;
        for _ in 0..FORGOTTEN_MAX {
            let Some((key, _)) = self.unheld.pop_front_if(is_due) else { break };
            let Some(wanted) = self.items.get_mut(&key) else { continue };
            wanted.is_queued = false;
            if wanted.holders > 0 {
                continue;
            }
            let last_ms = wanted.last_ms;
            if now_ms.saturating_sub(last_ms) < UNHELD_MS {
                wanted.is_queued = true;
                self.unheld.push_back((key, last_ms));
                continue;
            }
            removed.push(item(key, wanted));
            self.items.remove(&key);
            self.patterns -= usize::from(matches!(key, Key::Pattern(_)));
        }
        removed
    }

    /// Items that were removed at once, and came again, leave entries in the queue.
    fn bound_queue(&mut self) {
        if self.unheld.len() > 2 * self.items.len() + QUEUE_SLACK {
            self.queue_again();
        }
    }

    /// Queues the items that nobody holds, each once.
    fn queue_again(&mut self) {
        let mut unheld = Vec::new();
        for (key, wanted) in &mut self.items {
            wanted.is_queued = wanted.holders == 0;
            if wanted.is_queued {
                unheld.push((*key, wanted.last_ms));
            }
        }
        unheld.sort_unstable_by_key(|(_, last_ms)| *last_ms);
        self.unheld = unheld.into();
    }

    fn all(&self) -> Vec<(Item, u8)> {
        if self.is_everything {
            return vec![(Item::Everything, 0)];
        }
        self.items.iter().map(|(key, wanted)| (item(*key, wanted), 0)).collect()
    }
}

/// The bytes of items, made without the lock. `NO_MORE` beside those that nobody wants any more.
fn encoded(items: &[(Item, u8)]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(9 * items.len());
    items.iter().for_each(|(item, more)| encode(item, *more, &mut bytes));
    bytes
}

fn item(key: Key, wanted: &Wanted) -> Item {
    match key {
        Key::Channel(hash) => Item::Channel(hash),
        Key::Pattern(_) => Item::Pattern(wanted.pattern.clone().unwrap_or_default()),
        Key::Everything => Item::Everything,
    }
}

fn encode(item: &Item, more: u8, out: &mut Vec<u8>) {
    match item {
        Item::Channel(hash) => {
            out.push(CHANNEL + more);
            out.extend_from_slice(&hash.to_le_bytes());
        }
        Item::Pattern(pattern) => {
            // A session refuses patterns of more than 1,024 bytes.
            let length = u16::try_from(pattern.len()).unwrap_or(u16::MAX);
            out.push(PATTERN + more);
            out.extend_from_slice(&length.to_le_bytes());
            out.extend_from_slice(&pattern[..usize::from(length)]);
        }
        Item::Everything => out.push(EVERYTHING + more),
    }
}

/// The items of an announcement, and whether somebody wants them; `None` for one that is not well
/// formed.
pub(crate) fn decode(mut rest: &[u8]) -> Option<Vec<(Item, bool)>> {
    let mut items = Vec::new();
    while let Some((&kind, after)) = rest.split_first() {
        let (item, after) = match kind & !NO_MORE {
            CHANNEL => {
                let (hash, after) = after.split_first_chunk()?;
                (Item::Channel(u64::from_le_bytes(*hash)), after)
            }
            PATTERN => {
                let (length, after) = after.split_first_chunk()?;
                let length = usize::from(u16::from_le_bytes(*length));
                let (pattern, after) = after.split_at_checked(length)?;
                (Item::Pattern(pattern.into()), after)
            }
            EVERYTHING => (Item::Everything, after),
            _ => return None,
        };
        items.push((item, kind & NO_MORE == 0));
        rest = after;
    }
    Some(items)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queued(interest: &Interest) -> (usize, usize) {
        let own = interest.lock();
        (own.items.len(), own.unheld.len())
    }

    #[test]
    fn without_a_process_nothing_is_left_of_a_subscription() {
        let interest = Interest::new();
        for number in 0..5_000_u64 {
            for item in [channel(&number.to_le_bytes()), Item::of(Topic::Pattern, b"n*")] {
                assert!(!interest.hold(item.clone(), number));
                interest.release(&item, number);
            }
        }
        assert_eq!(queued(&interest), (0, 0));
        assert_eq!(interest.lock().patterns, 0);
        // Those of clients that stay are in the first announcement, and only they.
        interest.attach(0);
        interest.hold(channel(b"a"), 0);
        interest.hold(channel(b"b"), 0);
        interest.release(&channel(b"b"), 0);
        interest.detach(0);
        assert_eq!(queued(&interest), (1, 0));
        interest.attach(0);
        assert_eq!(decode(&interest.full().items), Some(vec![(channel(b"a"), true)]));
    }

    #[test]
    fn a_name_that_comes_and_goes_is_queued_once() {
        let interest = attached();
        for now_ms in 0..5_000 {
            interest.hold(channel(b"a"), now_ms);
            interest.release(&channel(b"a"), now_ms);
        }
        assert_eq!(queued(&interest), (1, 1));
        let patterns = (0..=PATTERNS_MAX).map(|n| Item::of(Topic::Pattern, &n.to_le_bytes()));
        patterns.for_each(|pattern| _ = interest.hold(pattern, 5_000));
        interest.take(5_000);
        for now_ms in 5_000..15_000 {
            interest.hold(channel(b"b"), now_ms);
            interest.release(&channel(b"b"), now_ms);
        }
        let (items, entries) = queued(&interest);
        assert_eq!(items, PATTERNS_MAX + 2);
        assert!(entries <= 2 * items + QUEUE_SLACK, "{entries}");
    }

    fn channel(name: &[u8]) -> Item {
        Item::of(Topic::Channel, name)
    }

    fn taken(interest: &Interest, now_ms: u64) -> (u64, bool, Vec<(Item, bool)>) {
        let it = interest.take(now_ms).expect("an announcement");
        (it.number, it.is_full, decode(&it.items).expect("it is well formed"))
    }

    /// A node with one other one, which knows what was announced.
    fn attached() -> Interest {
        let interest = Interest::new();
        interest.attach(0);
        interest.note_known(Some(0), 0);
        interest
    }

    #[test]
    fn a_client_waits_until_all_others_know_what_it_wants() {
        let interest = attached();
        let want = |name: &[u8], now_ms| interest.want(Topic::Channel, &[name], now_ms);
        assert_eq!(want(b"news", 0), (false, true), "the process is woken");
        assert_eq!(want(b"news", 1), (false, false), "once");
        assert_eq!(taken(&interest, 1), (1, false, vec![(channel(b"news"), true)]));
        assert_eq!(interest.take(1), None);
        assert_eq!(want(b"news", 2), (false, false));
        interest.note_known(Some(1), 0);
        assert_eq!(want(b"news", 3), (true, false));
        assert_eq!(want(b"other", 4), (false, true));
        assert_eq!(want(b"other", 4 + ANNOUNCE_MS_MAX), (true, false), "not for ever");
        assert!(interest.note_known(Some(u64::MAX), 5));
        assert_eq!(want(b"third", 5), (true, false), "there are no others");
        let alone = Interest::new();
        assert_eq!(alone.want(Topic::Channel, &[b"third"], 5), (true, false), "nor a process");
    }

    #[test]
    fn clients_wait_again_when_others_may_have_forgotten() {
        let interest = attached();
        let want = |now_ms| interest.want(Topic::Channel, &[b"news"], now_ms);
        assert_eq!(want(0), (false, true));
        assert_eq!(taken(&interest, 0).0, 1);
        assert!(interest.note_known(Some(1), 0));
        assert!(!interest.note_known(Some(1), 0), "nothing new");
        assert_eq!(want(100_000), (true, false));
        // Another node has come, or this one has another seat.
        assert!(!interest.note_known(None, 100_000));
        assert_eq!(want(100_000 + ANNOUNCE_MS_MAX - 1), (false, false));
        assert_eq!(want(100_000 + ANNOUNCE_MS_MAX), (true, false), "not for ever");
        // Again, while nothing was known.
        assert!(!interest.note_known(None, 105_000));
        assert_eq!(want(105_000), (false, false));
        interest.note_known(Some(1), 110_000);
        assert_eq!(want(110_000), (true, false));
        // The process has ended, and another one has come.
        interest.detach(120_000);
        assert_eq!(want(120_000), (false, false));
        assert_eq!(queued(&interest), (0, 0), "nobody would remove it");
        assert_eq!(interest.attach(120_001), 1);
        assert_eq!(want(120_002), (false, true));
        assert_eq!(taken(&interest, 120_002), (2, false, vec![(channel(b"news"), true)]));
        assert!(interest.note_known(Some(2), 120_003));
        assert_eq!(want(120_003), (true, false));
        // None comes.
        interest.detach(130_000);
        assert_eq!(want(130_000 + ANNOUNCE_MS_MAX), (true, false));
    }

    #[test]
    fn what_a_guest_says_replaces_everything_in_one_announcement() {
        let interest = attached();
        assert!(interest.hold(Item::Everything, 0));
        assert_eq!(taken(&interest, 0), (1, false, vec![(Item::Everything, true)]));
        interest.release(&Item::Everything, 1);
        interest.hold(channel(b"news"), 1);
        let both = vec![(Item::Everything, false), (channel(b"news"), true)];
        assert_eq!(taken(&interest, 1), (2, false, both));
        // Two guests.
        interest.hold(Item::Everything, 2);
        interest.hold(Item::Everything, 2);
        assert_eq!(taken(&interest, 2).0, 3);
        interest.release(&Item::Everything, 3);
        assert_eq!(interest.take(3), None);
    }

    #[test]
    fn items_are_forgotten_some_at_a_time() {
        let interest = attached();
        let count = FORGOTTEN_MAX as u64 + 10;
        for number in 0..count {
            interest.hold(Item::Channel(number), 0);
            interest.release(&Item::Channel(number), 0);
        }
        assert_eq!(taken(&interest, 0).2.len() as u64, count);
        assert_eq!(taken(&interest, UNHELD_MS).2.len(), FORGOTTEN_MAX);
        assert_eq!(taken(&interest, UNHELD_MS).2.len(), 10);
    }

    #[test]
    fn topics_have_names_of_their_own() {
        let hash = |topic, name: &[u8]| channel_hash(topic, name);
        assert_ne!(hash(Topic::Channel, b"news"), hash(Topic::Shard, b"news"));
        // As other nodes compute it, also those of other versions.
        assert_eq!(hash(Topic::Channel, b"news"), 0x2b98_d659_1a2c_5704);
    }

    #[test]
    fn an_item_without_holders_is_forgotten_after_a_time() {
        let interest = attached();
        let pattern = Item::of(Topic::Pattern, b"n*");
        assert!(interest.hold(pattern.clone(), 0));
        interest.hold(pattern.clone(), 0);
        assert_eq!(taken(&interest, 0), (1, false, vec![(pattern.clone(), true)]));
        interest.release(&pattern, 10);
        assert_eq!(interest.take(10 + UNHELD_MS), None, "one is left");
        interest.release(&pattern, 20_000);
        assert_eq!(interest.take(20_000 + UNHELD_MS - 1), None);
        // A client that subscribes again keeps it.
        interest.want(Topic::Pattern, &[b"n*"], 25_000);
        assert_eq!(interest.take(20_000 + UNHELD_MS), None);
        assert_eq!(taken(&interest, 25_000 + UNHELD_MS), (2, false, vec![(pattern, false)]));
        assert_eq!(interest.full().items, b"");
    }

    #[test]
    fn with_too_many_items_everything_is_wanted() {
        let interest = attached();
        let items: Vec<Item> = (0..=ITEMS_MAX as u64).map(Item::Channel).collect();
        for item in &items {
            interest.hold(item.clone(), 0);
        }
        assert_eq!(taken(&interest, 0), (1, true, vec![(Item::Everything, true)]));
        interest.note_known(Some(1), 0);
        assert_eq!(interest.want(Topic::Channel, &[b"news"], 1), (true, false));
        assert_eq!(interest.take(1), None);
        items[..100].iter().for_each(|item| interest.release(item, 1));
        assert_eq!(interest.take(1 + UNHELD_MS), None, "still many");
        items[100..].iter().skip(5).for_each(|item| interest.release(item, 2));
        let (number, is_full, left) = taken(&interest, 2 + UNHELD_MS);
        assert_eq!((number, is_full, left.len()), (2, true, 5));
    }

    #[test]
    fn names_that_nobody_holds_are_bounded_when_everything_is_wanted() {
        let interest = attached();
        (0..=ITEMS_MAX as u64).for_each(|item| _ = interest.hold(Item::Channel(item), 0));
        taken(&interest, 100);
        let want = |number: usize, now_ms| {
            interest.want(Topic::Channel, &[&number.to_le_bytes()], now_ms).0
        };
        assert!((0..3 * ITEMS_MAX).all(|number| !want(number, 100)));
        let (items, entries) = queued(&interest);
        assert!(items <= NOTED_MAX + 1 && entries <= items, "{items}, {entries}");
        // The one that is not noted waits like the others.
        let last = 3 * ITEMS_MAX;
        assert!(!want(last, 100 + ANNOUNCE_MS_MAX - 1));
        assert!(want(last, 100 + ANNOUNCE_MS_MAX), "not for ever");
        interest.note_known(Some(1), 200);
        assert!(want(last + 1, 200));
        assert_eq!(queued(&interest), (items, entries));
    }

    #[test]
    fn a_pattern_is_shared_with_its_subscribers() {
        let interest = attached();
        let name: Arc<[u8]> = b"n*".as_slice().into();
        interest.want(Topic::Pattern, &[&name], 0);
        interest.hold(Item::shared(Topic::Pattern, &name), 0);
        assert_eq!(Arc::strong_count(&name), 2, "the one of the subscribers, and this one");
    }

    #[test]
    fn patterns_have_a_bound_of_their_own() {
        let interest = attached();
        for number in 0..=PATTERNS_MAX {
            interest.hold(Item::of(Topic::Pattern, number.to_string().as_bytes()), 0);
        }
        assert_eq!(taken(&interest, 0), (1, true, vec![(Item::Everything, true)]));
    }

    #[test]
    fn a_node_that_comes_learns_everything() {
        let interest = attached();
        interest.hold(channel(b"a"), 0);
        taken(&interest, 0);
        interest.hold(channel(b"b"), 0);
        let full = interest.full();
        assert_eq!((full.number, full.is_full), (1, true));
        assert_eq!(decode(&full.items).map(|items| items.len()), Some(2));
        assert_eq!(decode(&full.items[1..]), None);
        // What one process has not taken is in the full announcement of the next one.
        interest.attach(0);
        assert_eq!(interest.take(0), None);
        let full = interest.full();
        assert_eq!((full.number, full.items.len()), (2, 18));
        interest.note_known(Some(2), 0);
        assert_eq!(interest.want(Topic::Channel, &[b"b"], 0), (true, false));
    }
}
