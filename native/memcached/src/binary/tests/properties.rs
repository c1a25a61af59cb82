//! Random requests: whatever arrives, in whatever pieces, the session answers the same.

use super::{OPCODES, Sent};
use crate::MemcachedSession;
use crate::testing::MemcachedPart;
use proptest::prelude::*;
use todana_protocol::ProtocolName;
use todana_protocol::testing::survive;

prop_compose! {
    fn sent()(
        at in 0..OPCODES.len() + 1,
        is_valid in prop::bool::weighted(0.9),
        extras in prop::collection::vec(prop::sample::select(&[0_u8, 1, 5, 255][..]), 0..21),
        key in prop::sample::select(&["a", "b", "n", "", "PLAIN", "settings"][..]),
        value in prop::sample::select(&["", "x", "12", "\0me\0secret"][..]),
        opaque: u32,
        cas in prop::sample::select(&[0_u64, 0, 0, 1, 2][..]),
    ) -> Vec<u8> {
        let code = OPCODES.get(at).map_or(0x77, |opcode| opcode.code);
        let mut sent = Sent { code, extras, key: key.into(), value: value.into(), opaque, cas };
        if let (true, Some(opcode)) = (is_valid, OPCODES.get(at)) {
            sent.extras.resize(usize::from(*opcode.extras.last().unwrap()), 0);
            match opcode.key {
                super::super::opcode::Has::Always if sent.key.is_empty() => sent.key.push(b'a'),
                super::super::opcode::Has::Never => sent.key.clear(),
                _ => {}
            }
            if opcode.value == super::super::opcode::Has::Never {
                sent.value.clear();
            }
        }
        sent.bytes()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn requests_are_answered_alike_in_any_pieces(
        circumstances in 0..8_u8,
        piece in 1..40_u8,
        requests in prop::collection::vec(sent(), 1..12),
        noise in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let data = [vec![circumstances, piece], requests.concat(), noise].concat();
        survive::<MemcachedPart, MemcachedSession>(ProtocolName::Memcached, &data);
    }
}
