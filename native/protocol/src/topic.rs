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

/// The result of [`Host::publish`](crate::Host::publish).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// To this number of subscriptions of this node.
    To(usize),
    /// More patterns are left: call again in the next turn.
    GoesOn,
    /// Subscribers have not taken enough of what was published before: call again a little later.
    Full,
}
