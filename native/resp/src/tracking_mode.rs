//! Tracking: how a client that caches values wants to learn that they have changed.

use std::sync::Arc;

/// The mode of a client for which keys are tracked (`CLIENT TRACKING`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tracking {
    /// The client that receives the invalidations instead; 0 for none.
    pub redirect: u64,
    /// Whether the client learns of all keys with certain prefixes, instead of those it has read.
    pub broadcast: bool,
    /// Whether only keys are tracked that are read after `CLIENT CACHING YES`.
    pub opt_in: bool,
    /// Whether keys are tracked unless they are read after `CLIENT CACHING NO`.
    pub opt_out: bool,
    /// Whether the client does not learn of its own writes.
    pub no_loop: bool,
    /// With `broadcast`, the prefixes.
    pub prefixes: Vec<Arc<[u8]>>,
    /// Whether the client that receives the invalidations has left.
    pub is_broken: bool,
}

/// The keys that are tracked for this client.
pub trait KeyTracking {
    /// The mode in which keys are tracked for this client.
    fn tracking(&self) -> Option<&Tracking>;
    /// Sets this mode. False if the databases have too many observers.
    fn set_tracking(&mut self, tracking: Option<Tracking>) -> bool;
    /// Registers a key that this client is about to read, unless it has prefixes instead. While
    /// requests are run again after a commit, the key is also invalidated after the reply.
    fn track(&mut self, key: &[u8]);
    /// A script that this client is about to run may read the key. Its own writes are no news if
    /// it is alone: if no other command of the client is executed with it.
    fn begin_script(&mut self, key: &[u8], is_alone: bool);
    /// Another node is about to run a request for this client, which may read these keys.
    fn track_away(&mut self, reads: &[&[u8]], scripts: &[&[u8]]);
    /// The request of [`KeyTracking::begin_script`] or [`KeyTracking::track_away`] has a reply.
    /// Registers the key, or invalidates it if it has been changed since.
    fn end_pending(&mut self, key: &[u8]);
}
