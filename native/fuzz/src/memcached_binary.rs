//! Feeds requests of memcached's binary protocol to a session: whole and in pieces, with and
//! without a password, under small limits. The bytes describe requests, so that most of them are
//! well-formed; the target `memcached` sends its bytes as they are.

use todana_memcached::MemcachedSession;
use todana_memcached::testing::MemcachedPart;
use todana_protocol::ProtocolName;
use todana_protocol::testing::survive;

/// Feeds the requests to sessions and compares their responses.
///
/// ```text
///   offset 0 circumstances, 1 length of the pieces, then for each request:
///   0 opcode   1 bytes of extras   2 bytes of key   3 bytes of value   4 cas   then these bytes
/// ```
pub fn memcached_binary(data: &[u8]) {
    let [circumstances, piece, rest @ ..] = data else { return };
    let mut input = vec![*circumstances, *piece];
    let mut rest = rest;
    while let [opcode, extras, key, value, cas, bytes @ ..] = rest {
        // Beyond these lengths, the head is wrong about what follows.
        let (extras, key, value) = (extras % 24, key % 16, value % 64);
        let body = usize::from(extras) + usize::from(key) + usize::from(value);
        let (bytes, more) = bytes.split_at(bytes.len().min(body));
        rest = more;
        input.extend_from_slice(&[0x80, *opcode, 0, key, extras, 0, 0, 0]);
        input.extend_from_slice(&u32::try_from(body).unwrap_or(u32::MAX).to_be_bytes());
        input.extend_from_slice(&[0, 0, 0, *opcode]);
        input.extend_from_slice(&u64::from(*cas).to_be_bytes());
        input.extend_from_slice(bytes);
    }
    survive::<MemcachedPart, MemcachedSession>(ProtocolName::Memcached, &input);
}
