//! Feeds bytes to a RESP session: whole and in pieces, with and without a password, under small
//! limits.

use todana_protocol::ProtocolName;
use todana_protocol::testing::survive;
use todana_resp::RespSession;
use todana_resp::testing::RespPart;

/// Feeds the bytes to sessions and compares their responses.
pub fn resp(data: &[u8]) {
    survive::<RespPart, RespSession>(ProtocolName::Resp, data);
}
