//! Messages to channels that go to the other nodes of a cluster, and those that come from them.
//!
//! Publishers append to a bounded queue and do not wait. One process outside this crate is woken
//! once for all of them, takes them in bundles and sends each node the messages that it wants
//! ([`selection`](crate::selection)).
//!
//! ```text
//! 0   topic: 0 channel, 2 sharded channel      9 bytes, the channel and the message, repeated
//! 1   length of the channel
//! 5   length of the message
//! 9   channel, message
//! ```

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use todana_resp::Topic;

/// Maximum bytes that wait for the process.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// Maximum bytes of a bundle, unless a single message has more.
const BUNDLE_BYTES_MAX: usize = 256 << 10;
const HEADER_BYTES: usize = 9;

/// The messages of this node for the others.
#[derive(Debug)]
pub struct SpreadQueue {
    queue: Mutex<Queue>,
    /// Whether there is a process, so that a node without a cluster takes no lock.
    is_attached: AtomicBool,
    /// Messages that were dropped since the start.
    dropped: AtomicU64,
}

#[derive(Debug)]
struct Queue {
    bundles: VecDeque<Vec<u8>>,
    bytes: usize,
    has_process: bool,
    /// The process will take the next bundle without being woken.
    is_awake: bool,
}

impl SpreadQueue {
    /// An empty queue without a process.
    pub const fn new() -> SpreadQueue {
        SpreadQueue {
            queue: Mutex::new(Queue {
                bundles: VecDeque::new(),
                bytes: 0,
                has_process: false,
                is_awake: false,
            }),
            is_attached: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
        }
    }

    /// There is a process, which takes bundles until there is none.
    pub fn attach(&self) {
        let mut queue = self.lock();
        (queue.has_process, queue.is_awake) = (true, true);
        self.is_attached.store(true, Relaxed);
    }

    /// The node belongs to no cluster any more.
    pub fn detach(&self) {
        self.is_attached.store(false, Relaxed);
        let mut queue = self.lock();
        (queue.has_process, queue.bytes) = (false, 0);
        queue.bundles.clear();
    }

    /// Passes a message to the other nodes, or drops it. Returns whether the caller has to wake the
    /// process.
    pub fn publish(&self, topic: Topic, channel: &[u8], message: &[u8]) -> bool {
        if !self.is_attached.load(Relaxed) {
            return false;
        }
        let (Ok(channel_len), Ok(message_len)) =
            (u32::try_from(channel.len()), u32::try_from(message.len()))
        else {
            return false;
        };
        let bytes = message_bytes(channel, message);
        let mut queue = self.lock();
        if queue.bytes + bytes > WAITING_BYTES_MAX && queue.bytes > 0 {
            self.dropped.fetch_add(1, Relaxed);
            return false;
        }
        let has_room = |bundle: &&mut Vec<u8>| bundle.len() + bytes <= BUNDLE_BYTES_MAX;
        if queue.bundles.back_mut().filter(has_room).is_none() {
            queue.bundles.push_back(Vec::with_capacity(bytes));
        }
        if let Some(bundle) = queue.bundles.back_mut() {
            bundle.push(topic as u8);
            bundle.extend_from_slice(&channel_len.to_le_bytes());
            bundle.extend_from_slice(&message_len.to_le_bytes());
            bundle.extend_from_slice(channel);
            bundle.extend_from_slice(message);
        }
        queue.bytes += bytes;
        queue.has_process && !std::mem::replace(&mut queue.is_awake, true)
    }

    /// The next bundle. After `None`, the next message wakes the process.
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut queue = self.lock();
        let bundle = queue.bundles.pop_front();
        match &bundle {
            Some(bundle) => queue.bytes -= bundle.len(),
            None => queue.is_awake = false,
        }
        bundle
    }

    /// The messages of this bundle did not reach another node.
    pub fn note_dropped(&self, bundle: &[u8]) {
        self.dropped.fetch_add(spread_messages(bundle).count() as u64, Relaxed);
    }

    /// The number of messages that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for SpreadQueue {
    fn default() -> SpreadQueue {
        SpreadQueue::new()
    }
}

/// The length of a message in a bundle.
pub(crate) fn message_bytes(channel: &[u8], message: &[u8]) -> usize {
    HEADER_BYTES + channel.len() + message.len()
}

/// The messages of a bundle, up to the first that is not well formed.
pub fn spread_messages(mut rest: &[u8]) -> impl Iterator<Item = (Topic, &[u8], &[u8])> {
    std::iter::from_fn(move || {
        let (&topic, after) = rest.split_first()?;
        let (channel_len, after) = after.split_first_chunk()?;
        let (message_len, after) = after.split_first_chunk()?;
        let (channel, after) = after.split_at_checked(u32::from_le_bytes(*channel_len) as usize)?;
        let (message, after) = after.split_at_checked(u32::from_le_bytes(*message_len) as usize)?;
        rest = after;
        let topic = *Topic::ALL.get(usize::from(topic))?;
        (topic != Topic::Pattern).then_some((topic, channel, message))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_is_woken_once_for_all_messages_that_it_has_not_taken() {
        let queue = SpreadQueue::new();
        assert!(!queue.publish(Topic::Channel, b"news", b"lost"), "no process");
        queue.attach();
        assert!(!queue.publish(Topic::Channel, b"news", b"a"), "it takes the first by itself");
        assert!(!queue.publish(Topic::Shard, b"cars", b""));
        let bundle = queue.take().expect("two messages");
        let messages: Vec<_> = spread_messages(&bundle).collect();
        let expected: [(Topic, &[u8], &[u8]); 2] =
            [(Topic::Channel, b"news", b"a"), (Topic::Shard, b"cars", b"")];
        assert_eq!(messages, expected);
        assert_eq!(queue.take(), None);
        assert!(queue.publish(Topic::Channel, b"news", b"b"));
        assert!(!queue.publish(Topic::Channel, b"news", b"c"));
        queue.note_dropped(&queue.take().expect("two messages"));
        assert_eq!(queue.dropped(), 2);
        queue.detach();
        assert!(!queue.publish(Topic::Channel, b"news", b"lost"));
        assert_eq!(queue.take(), None);
    }

    #[test]
    fn messages_beyond_the_bound_are_dropped() {
        let queue = SpreadQueue::new();
        queue.attach();
        let message = vec![b'x'; 1 << 20];
        for _ in 0..20 {
            queue.publish(Topic::Channel, b"news", &message);
        }
        assert_eq!(queue.dropped(), 5);
        assert_eq!(std::iter::from_fn(|| queue.take()).count(), 15);
    }

    #[test]
    fn a_bundle_that_is_cut_short_has_the_messages_before() {
        let queue = SpreadQueue::new();
        queue.attach();
        queue.publish(Topic::Channel, b"news", b"a");
        queue.publish(Topic::Channel, b"news", b"b");
        let bundle = queue.take().expect("two messages");
        assert_eq!(spread_messages(&bundle[..bundle.len() - 1]).count(), 1);
        let of_pattern = [&[Topic::Pattern as u8], &bundle[1..]].concat();
        assert_eq!(spread_messages(&of_pattern).count(), 0);
    }
}
