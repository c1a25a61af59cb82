//! Channels: what a session asks of the server about them.

use std::sync::Arc;

/// What a client subscribes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topic {
    /// A channel (`SUBSCRIBE`).
    Channel,
    /// All channels that match a pattern (`PSUBSCRIBE`).
    Pattern,
    /// A channel of its own space of names (`SSUBSCRIBE`).
    Shard,
}

impl Topic {
    /// All of them; a topic's number is its index.
    pub const ALL: [Topic; 3] = [Topic::Channel, Topic::Pattern, Topic::Shard];
}

/// The progress of a message that is published: its channel is compared with all patterns, some in
/// each turn.
#[derive(Clone, Debug, Default)]
pub struct Publishing {
    /// The last pattern that was compared.
    pub after: Option<Arc<[u8]>>,
    /// The patterns that matched.
    pub matched: Vec<Arc<[u8]>>,
}

impl Publishing {
    /// Bytes of memory.
    pub fn held_bytes(&self) -> usize {
        self.matched.capacity() * size_of::<Arc<[u8]>>()
    }
}

/// The result of [`Channels::publish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// To this number of subscriptions of this node.
    To(usize),
    /// More patterns are left: call again in the next turn.
    GoesOn,
    /// Subscribers have not taken enough of what was published before: call again a little later.
    Full,
}

/// The channels of the server, and the subscriptions of this client.
pub trait Channels {
    /// The number of subscriptions of this client, by [`Topic`].
    fn subscriptions(&self) -> [usize; 3];
    /// This client is about to subscribe to these names. Returns whether all nodes of the cluster
    /// know it, so that it receives what they publish after that; if not, call again a little
    /// later.
    fn announce(&self, topic: Topic, names: &[&[u8]]) -> bool;
    /// Subscribes this client. The session has checked the length of the name and the number of
    /// subscriptions.
    fn subscribe(&mut self, topic: Topic, name: &[u8]);
    /// Ends a subscription of this client, if there is one.
    fn unsubscribe(&mut self, topic: Topic, name: &[u8]);
    /// The first name to which this client is subscribed, in the order of their bytes.
    fn first_subscribed(&self, topic: Topic) -> Option<Arc<[u8]>>;
    /// Sends a message to the subscribers of a channel, whose topic is not a pattern. With
    /// `may_wait`, it may be refused for now ([`Published::Full`]).
    fn publish(
        &mut self,
        topic: Topic,
        channel: &[u8],
        message: &[u8],
        begun: &mut Publishing,
        may_wait: bool,
    ) -> Published;
    /// The first `count` names that have subscribers on this node and are greater than `after`, in
    /// the order of their bytes.
    fn topics_after(&self, topic: Topic, after: Option<&[u8]>, count: usize) -> Vec<Arc<[u8]>>;
    /// The number of names of a topic that have subscribers on this node.
    fn topic_count(&self, topic: Topic) -> usize;
    /// The number of subscribers of a name on this node.
    fn subscribers(&self, topic: Topic, name: &[u8]) -> usize;
}
