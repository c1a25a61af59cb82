//! The keeper of the log: the part of the node that writes it, and that knows the cluster.

use std::fmt::Debug;
use std::sync::Arc;
use todana_protocol::{Persistence, Request};
use todana_resp::{Topic, Topology};

/// The keeper of the log, as a server sees it.
pub trait Keeper: Debug + Send + Sync {
    /// The present state.
    fn persistence(&self) -> Arc<Persistence>;
    /// Passes a request on, and returns its number.
    fn request(&self, request: Request) -> u64;
    /// The cluster; `None` if the node belongs to none.
    fn topology(&self) -> Option<Arc<Topology>> {
        None
    }
    /// Passes a message to the other nodes of the cluster, for their subscribers. It does not wait,
    /// and the message may be lost.
    fn publish(&self, topic: Topic, channel: &[u8], message: &[u8]) {
        let _ = (topic, channel, message);
    }
    /// A client is about to subscribe to these names. Returns whether all other nodes of the
    /// cluster know it; if not, the client asks again a little later. Some time after the first
    /// question, the answer is yes.
    fn announce(&self, topic: Topic, names: &[&[u8]]) -> bool {
        let _ = (topic, names);
        true
    }
    /// A name has its first subscriber on a server.
    fn begin_topic(&self, topic: Topic, name: &Arc<[u8]>) {
        let _ = (topic, name);
    }
    /// The last subscriber of a name on a server has left.
    fn end_topic(&self, topic: Topic, name: &[u8]) {
        let _ = (topic, name);
    }
    /// The number of messages that did not reach another node.
    fn dropped_messages(&self) -> u64 {
        0
    }
    /// Whether another node of the cluster leads. Cheaper than [`Keeper::topology`].
    fn is_led_elsewhere(&self) -> bool {
        false
    }
}
