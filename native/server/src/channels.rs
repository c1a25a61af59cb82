//! Channels: who is subscribed, and how a message reaches the subscribers.
//!
//! One registry serves all loops. It maps the names of each topic to their subscribers, sorted by
//! loop and index. A publisher finds the names that a message concerns, counts their subscribers,
//! and sends the message once to each loop that has some
//! ([`Message::Push`](crate::inbox::Message::Push)); all loops share it.
//! Each loop then looks its own subscribers up again, a few in each round
//! ([`event_loop`](crate::event_loop)), and appends the message to their output. So a publisher
//! does not wait for subscribers, and a message to 10,000 of them delays nobody for long.
//!
//! # Order
//!
//! A publisher sends its messages to an inbox in its own order, and a loop delivers them in the
//! order of the inbox. Messages have numbers, and a subscription has the number of the last message
//! before it: a message that was published before the subscription is not delivered to it, though
//! the loop looks up the subscribers later.
//!
//! # Bounds
//!
//! A loop has at most [`WAITING_BYTES_MAX`] of messages to deliver. Beyond that, local publishers
//! wait, and messages from elsewhere are dropped and counted. What a subscriber does not read is
//! limited like other output (`subscriber_output_bytes_hard`). Subscriptions count towards the
//! memory of their client. A client that leaves is removed from the registry in slices.

use crate::frame::Frame;
use crate::keeper::Keeper;
use crate::place::Place;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use todana_command::Glob;
use todana_protocol::Client;
use todana_resp::{Publishing, Topic};

/// Maximum bytes of messages that a loop has to deliver.
pub(crate) const WAITING_BYTES_MAX: usize = 32 << 20;
/// Bytes of a message beside its channel and its text.
const MESSAGE_BYTES: usize = 160;
/// Steps of comparisons with patterns in one turn: about a millisecond.
const STEPS_MAX: usize = 1_000_000;
/// What a subscription takes in the registry and in its connection.
const SUBSCRIPTION_BYTES: usize = 256;
/// What a subscription to a pattern takes in addition.
const PATTERN_BYTES: usize = size_of::<Glob>() + 16;

/// The registry.
#[derive(Debug)]
pub(crate) struct Channels {
    registry: RwLock<Registry>,
    /// Learns which names have subscribers.
    keeper: Option<Arc<dyn Keeper>>,
    /// The number of the last message.
    published: AtomicU64,
    /// Clients with subscriptions.
    pub(crate) clients: AtomicUsize,
    /// Clients that have left, whose subscriptions are being removed.
    pub(crate) leaving: AtomicUsize,
    /// Messages that were dropped.
    pub(crate) dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct Registry {
    /// By topic. No list of subscribers is empty.
    topics: [BTreeMap<Arc<[u8]>, Subscribers>; 3],
}

#[derive(Debug)]
struct Subscribers {
    /// The name as a pattern, if the topic is patterns.
    glob: Option<Box<Glob>>,
    /// Sorted by their places.
    list: Vec<Subscriber>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subscriber {
    event_loop: u32,
    index: u32,
    /// The client, since another one may have this index before all is removed.
    id: u64,
    /// The number of the last message before the subscription.
    since: u64,
}

impl Subscriber {
    fn new(place: Place, id: u64) -> Subscriber {
        let (event_loop, index) = (place.event_loop as u32, place.index as u32);
        Subscriber { event_loop, index, id, since: 0 }
    }

    fn key(&self) -> (u32, u32, u64) {
        (self.event_loop, self.index, self.id)
    }
}

/// A message on its way to the subscribers.
#[derive(Debug)]
pub(crate) struct Push {
    number: u64,
    topic: Topic,
    channel: Arc<[u8]>,
    message: Box<[u8]>,
    /// The patterns that the channel matches.
    patterns: Vec<Arc<[u8]>>,
}

impl Push {
    /// Bytes that count for [`WAITING_BYTES_MAX`].
    pub(crate) fn bytes(&self) -> usize {
        self.channel.len() + self.message.len() + MESSAGE_BYTES
    }

    /// What the subscribers of the channel receive, or those of the pattern with this number.
    pub(crate) fn frame(&self, target: usize) -> Option<Frame> {
        let (channel, message) = (&*self.channel, &*self.message);
        match target.checked_sub(1) {
            None if self.topic == Topic::Shard => Some(Frame::of(&[b"smessage", channel, message])),
            None => Some(Frame::of(&[b"message", channel, message])),
            Some(number) => {
                let pattern = self.patterns.get(number)?;
                Some(Frame::of(&[b"pmessage", pattern, channel, message]))
            }
        }
    }
}

impl Drop for Channels {
    fn drop(&mut self) {
        let registry = self.registry.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(keeper) = &self.keeper else { return };
        for topic in Topic::ALL {
            let names = registry.topics[topic as usize].keys();
            names.for_each(|name| keeper.end_topic(topic, name));
        }
    }
}

impl Channels {
    /// Without subscribers.
    pub(crate) fn new(keeper: Option<Arc<dyn Keeper>>) -> Channels {
        Channels {
            registry: RwLock::default(),
            keeper,
            published: AtomicU64::new(0),
            clients: AtomicUsize::new(0),
            leaving: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Registry> {
        self.registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Registry> {
        self.registry.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber. Returns the name as it is shared by all.
    fn subscribe(&self, topic: Topic, name: &[u8], place: Place, id: u64) -> Arc<[u8]> {
        let mut registry = self.write();
        let names = &mut registry.topics[topic as usize];
        let known = names.get_key_value(name).map(|(name, _)| name.clone());
        let name = known.unwrap_or_else(|| {
            let name: Arc<[u8]> = name.into();
            self.keeper.iter().for_each(|keeper| keeper.begin_topic(topic, &name));
            name
        });
        let subscribers = names.entry(name.clone()).or_insert_with(|| Subscribers {
            glob: (topic == Topic::Pattern).then(|| Box::new(Glob::new(name.clone()))),
            list: Vec::new(),
        });
        let since = self.published.load(Relaxed);
        let subscriber = Subscriber { since, ..Subscriber::new(place, id) };
        let found = subscribers.list.binary_search_by_key(&subscriber.key(), Subscriber::key);
        if let Err(at) = found {
            subscribers.list.insert(at, subscriber);
        }
        name
    }

    fn unsubscribe(&self, topic: Topic, name: &[u8], place: Place, id: u64) {
        let mut registry = self.write();
        let names = &mut registry.topics[topic as usize];
        let Some(subscribers) = names.get_mut(name) else { return };
        let key = Subscriber::new(place, id).key();
        if let Ok(at) = subscribers.list.binary_search_by_key(&key, Subscriber::key) {
            subscribers.list.remove(at);
        }
        if subscribers.list.is_empty() {
            names.remove(name);
            if let Some(keeper) = &self.keeper {
                keeper.end_topic(topic, name);
            }
        } else if subscribers.list.capacity() > 4 * subscribers.list.len() {
            subscribers.list.shrink_to_fit();
        }
    }

    /// The names after `after`, in order.
    pub(crate) fn after(&self, topic: Topic, after: Option<&[u8]>, count: usize) -> Vec<Arc<[u8]>> {
        let registry = self.read();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let names = registry.topics[topic as usize].range::<[u8], _>((from, Bound::Unbounded));
        names.take(count).map(|(name, _)| name.clone()).collect()
    }

    /// The numbers of names, by topic.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let registry = self.read();
        Topic::ALL.map(|topic| registry.topics[topic as usize].len())
    }

    /// The number of subscribers of a name.
    pub(crate) fn subscribers(&self, topic: Topic, name: &[u8]) -> usize {
        self.read().topics[topic as usize].get(name).map_or(0, |it| it.list.len())
    }

    /// Prepares a message for the subscribers of a channel and of these patterns. Returns it with
    /// the number of subscriptions and, for each loop, whether it has some of them.
    pub(crate) fn prepare(
        &self,
        topic: Topic,
        channel: &[u8],
        message: &[u8],
        mut patterns: Vec<Arc<[u8]>>,
        loops: usize,
    ) -> Option<(Arc<Push>, usize, Vec<bool>)> {
        // Subscribers take the number of the last message under the lock for writing.
        let registry = self.read();
        let number = self.published.fetch_add(1, Relaxed) + 1;
        let of = |topic: Topic, name: &[u8]| registry.topics[topic as usize].get(name);
        patterns.retain(|pattern| of(Topic::Pattern, pattern).is_some());
        let direct = of(topic, channel);
        let lists = patterns.iter().filter_map(|pattern| of(Topic::Pattern, pattern));
        let mut count = 0;
        let mut loops = vec![false; loops];
        for subscribers in direct.into_iter().chain(lists) {
            count += subscribers.list.len();
            let mut rest = &subscribers.list[..];
            while let Some(first) = rest.first() {
                loops[first.event_loop as usize] = true;
                rest = &rest[rest.partition_point(|it| it.event_loop == first.event_loop)..];
            }
        }
        drop(registry);
        let (channel, message) = (channel.into(), message.into());
        let push = Push { number, topic, channel, message, patterns };
        (count > 0).then(|| (Arc::new(push), count, loops))
    }

    /// Compares a channel with the patterns that are left. False if there are more for the next
    /// turn.
    pub(crate) fn compare(&self, channel: &[u8], begun: &mut Publishing) -> bool {
        let registry = self.read();
        let from = begun.after.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let patterns = &registry.topics[Topic::Pattern as usize];
        let mut steps = 0usize;
        for (name, subscribers) in patterns.range::<[u8], _>((from, Bound::Unbounded)) {
            let Some(glob) = &subscribers.glob else { continue };
            if steps > STEPS_MAX {
                return false;
            }
            steps = steps.saturating_add(glob.steps(channel.len()).saturating_add(16));
            if glob.matches(channel) {
                begun.matched.push(name.clone());
            }
            if steps > STEPS_MAX {
                begun.after = Some(name.clone());
            }
        }
        true
    }

    /// The subscribers of a loop that receive a message by this target, from an index on: at most
    /// `count`. Returns where to continue, `None` if that were all.
    pub(crate) fn recipients(
        &self,
        push: &Push,
        target: usize,
        (event_loop, index): (usize, usize),
        count: usize,
        recipients: &mut Vec<(usize, u64)>,
    ) -> Option<usize> {
        let registry = self.read();
        let (topic, name) = match target.checked_sub(1) {
            None => (push.topic, &push.channel),
            Some(number) => (Topic::Pattern, push.patterns.get(number)?),
        };
        let list = &registry.topics[topic as usize].get(name)?.list;
        let from = (event_loop as u32, index as u32);
        let begin = list.partition_point(|it| (it.event_loop, it.index) < from);
        let mine = list[begin..].iter().take_while(|it| it.event_loop == event_loop as u32);
        for subscriber in mine {
            if recipients.len() >= count {
                return Some(subscriber.index as usize);
            }
            if subscriber.since < push.number {
                recipients.push((subscriber.index as usize, subscriber.id));
            }
        }
        None
    }
}

/// The subscriptions of a connection.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions(Option<Box<Names>>);

#[derive(Debug, Default)]
struct Names {
    /// By topic.
    topics: [BTreeSet<Arc<[u8]>>; 3],
    bytes: usize,
}

impl Subscriptions {
    /// Bytes of memory.
    pub(crate) fn held_bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |names| names.bytes)
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Their numbers, by topic.
    pub(crate) fn counts(&self) -> [usize; 3] {
        let Some(names) = &self.0 else { return [0; 3] };
        Topic::ALL.map(|topic| names.topics[topic as usize].len())
    }

    /// The first of a topic.
    pub(crate) fn first(&self, topic: Topic) -> Option<Arc<[u8]>> {
        self.0.as_ref()?.topics[topic as usize].first().cloned()
    }

    pub(crate) fn subscribe(
        &mut self,
        channels: &Channels,
        (topic, name): (Topic, &[u8]),
        place: Place,
        client: &Client,
    ) {
        if self.0.is_none() {
            channels.clients.fetch_add(1, Relaxed);
        }
        let names = self.0.get_or_insert_default();
        if names.topics[topic as usize].contains(name) {
            return;
        }
        let name = channels.subscribe(topic, name, place, client.id);
        names.bytes += bytes(topic, &name);
        names.topics[topic as usize].insert(name);
        client.subscriptions[topic as usize].store(names.topics[topic as usize].len(), Relaxed);
    }

    pub(crate) fn unsubscribe(
        &mut self,
        channels: &Channels,
        (topic, name): (Topic, &[u8]),
        place: Place,
        client: &Client,
    ) {
        let Some(names) = &mut self.0 else { return };
        if !names.topics[topic as usize].remove(name) {
            return;
        }
        channels.unsubscribe(topic, name, place, client.id);
        names.bytes -= bytes(topic, name);
        client.subscriptions[topic as usize].store(names.topics[topic as usize].len(), Relaxed);
        if names.topics.iter().all(BTreeSet::is_empty) {
            self.0 = None;
            channels.clients.fetch_sub(1, Relaxed);
        }
    }
}

fn bytes(topic: Topic, name: &[u8]) -> usize {
    let more = if topic == Topic::Pattern { PATTERN_BYTES } else { 0 };
    SUBSCRIPTION_BYTES + more + name.len()
}

/// The subscriptions of clients that have left.
#[derive(Debug, Default)]
pub(crate) struct Leavers(VecDeque<(Place, Arc<Client>, Subscriptions)>);

impl Leavers {
    /// Adds those of a client.
    pub(crate) fn add(
        &mut self,
        channels: &Channels,
        place: Place,
        left: (Arc<Client>, Subscriptions),
    ) {
        let (client, subscriptions) = left;
        if !subscriptions.is_empty() {
            channels.leaving.fetch_add(1, Relaxed);
            self.0.push_back((place, client, subscriptions));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends some of them.
    pub(crate) fn end(&mut self, channels: &Channels, mut count: usize) {
        while let Some((place, client, subscriptions)) = self.0.front_mut() {
            let first =
                Topic::ALL.iter().find_map(|topic| Some((*topic, subscriptions.first(*topic)?)));
            let Some((topic, name)) = first else {
                self.0.pop_front();
                channels.leaving.fetch_sub(1, Relaxed);
                continue;
            };
            if count == 0 {
                return;
            }
            subscriptions.unsubscribe(channels, (topic, &name), *place, client);
            count -= 1;
        }
    }
}
