//! The names of the commands of all protocols.

use todana_protocol::{ProtocolName, kyoto, memcached, resp};

/// Names of the commands of a protocol, in the order of their statistics.
pub(crate) fn command_names(protocol: ProtocolName) -> &'static [&'static str] {
    match protocol {
        ProtocolName::Resp => resp::COMMANDS,
        ProtocolName::Memcached => memcached::COMMANDS,
        ProtocolName::Kyoto => kyoto::COMMANDS,
    }
}
