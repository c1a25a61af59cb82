//! A host of memcached without a server: see [`FakeHost`](todana_protocol::testing::FakeHost).

use super::{PrefixCounts, Prefixes};
use todana_protocol::testing::Part;

/// A host of memcached.
pub type FakeHost = todana_protocol::testing::FakeHost<MemcachedPart>;

/// What only memcached needs of its host.
#[derive(Debug, Default)]
pub struct MemcachedPart {
    /// Counts of `stats detail`.
    pub prefixes: Prefixes,
}

impl Part for MemcachedPart {
    fn reset_stats(&self) {
        self.prefixes.reset();
    }
}

impl PrefixCounts for FakeHost {
    fn prefixes(&self) -> &Prefixes {
        &self.part.prefixes
    }
}
