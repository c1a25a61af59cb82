//! Feeds bytes to a Kyoto Tycoon session, HTTP and binary: whole and in pieces, with and without a
//! password, under small limits.

use todana_kyoto::KyotoSession;
use todana_kyoto::testing::KyotoPart;
use todana_protocol::ProtocolName;
use todana_protocol::testing::survive;

/// Feeds the bytes to sessions and compares their responses.
pub fn kyoto(data: &[u8]) {
    survive::<KyotoPart, KyotoSession>(ProtocolName::Kyoto, data);
}
