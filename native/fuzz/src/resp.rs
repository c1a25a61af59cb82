//! Feeds bytes to a RESP session: whole and in pieces, with and without a password, under small
//! limits.

use todana_protocol::ProtocolName;
use todana_protocol::resp::RespSession;
use todana_protocol::testing::survive;

/// Feeds the bytes to sessions and compares their responses.
pub fn resp(data: &[u8]) {
    survive::<RespSession>(ProtocolName::Resp, data);
}
