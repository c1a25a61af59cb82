//! What memcached needs of the server.

use super::prefixes::Prefixes;
use todana_protocol::{Clients, Figures};

/// The server as sessions of memcached see it.
pub trait Host: todana_protocol::Host + Clients + Figures + PrefixCounts {}

impl<H: todana_protocol::Host + Clients + Figures + PrefixCounts> Host for H {}

/// Counters by the prefix of a key.
pub trait PrefixCounts {
    /// Counts of requests by the prefix of their key (`stats detail`).
    fn prefixes(&self) -> &Prefixes;
}
