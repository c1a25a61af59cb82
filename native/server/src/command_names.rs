//! The names of the commands of all protocols.

use todana_protocol::ProtocolName;

/// Names of the commands of a protocol, in the order of their statistics.
pub(crate) fn command_names(protocol: ProtocolName) -> &'static [&'static str] {
    match protocol {
        ProtocolName::Resp => todana_resp::COMMANDS,
        ProtocolName::Memcached => todana_memcached::COMMANDS,
        ProtocolName::Kyoto => todana_kyoto::COMMANDS,
    }
}
