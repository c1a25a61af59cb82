//! A running server.

use crate::Config;
use std::net::SocketAddr;
use todana_protocol::{CommandStats, ProtocolName, ServerInfo};

/// Why a server did not start: one sentence for the person who started it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartError(pub String);

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct Server {}

impl Server {
    /// Binds all listeners and starts the loops. Nothing is left behind where it fails.
    pub fn start(_config: Config) -> Result<Server, StartError> {
        todo!()
    }
    /// The bound addresses, in the order of `Config::listeners`.
    pub fn addresses(&self) -> &[(ProtocolName, SocketAddr)] {
        todo!()
    }
    /// Closes listeners and clients, stops the loops and joins their threads. Safe to call twice.
    pub fn stop(&self) {
        todo!()
    }
    /// Figures of the server, summed over its loops.
    pub fn info(&self) -> ServerInfo {
        todo!()
    }
    /// Statistics of each command of a protocol, by index into its table.
    pub fn command_stats(&self, _protocol: ProtocolName) -> Vec<CommandStats> {
        todo!()
    }
}
