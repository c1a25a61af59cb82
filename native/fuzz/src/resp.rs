//! Bytes to a RESP session: whole and in pieces, with and without a password, under small limits.

use todana_protocol::ProtocolName;
use todana_protocol::resp::RespSession;
use todana_protocol::testing::survive;

/// Plays the bytes to sessions and compares what they answer.
pub fn resp(data: &[u8]) {
    survive::<RespSession>(ProtocolName::Resp, data);
}
