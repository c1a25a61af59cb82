//! Feeds bytes to a memcached session: whole and in pieces, with and without a password, under
//! small limits.

use todana_memcached::MemcachedSession;
use todana_memcached::testing::MemcachedPart;
use todana_protocol::ProtocolName;
use todana_protocol::testing::survive;

/// Feeds the bytes to sessions and compares their responses.
pub fn memcached(data: &[u8]) {
    survive::<MemcachedPart, MemcachedSession>(ProtocolName::Memcached, data);
}
