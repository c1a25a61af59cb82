//! Protocols, and what a listener offers.

use crate::commit::ReadLevel;

/// The protocols by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolName {
    /// RESP2 and RESP3.
    Resp,
    /// memcached text and meta.
    Memcached,
    /// Kyoto Tycoon: HTTP and binary.
    Kyoto,
}

/// What a listening address offers its clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// The protocol.
    pub protocol: ProtocolName,
    /// Whether requests for the leader of the cluster are redirected to it (RESP only). Otherwise
    /// this node executes them.
    pub redirects: bool,
    /// How new the records must be that its clients read; `None` for the server's level.
    pub read_level: Option<ReadLevel>,
}

impl From<ProtocolName> for Service {
    fn from(protocol: ProtocolName) -> Service {
        Service { protocol, redirects: false, read_level: None }
    }
}
