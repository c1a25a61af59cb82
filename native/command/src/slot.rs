//! Hash slots: how Redis Cluster's clients divide the keys among nodes.

use crc::{CRC_16_XMODEM, Crc};

/// Number of hash slots.
pub const SLOTS: u16 = 16_384;

const CRC: Crc<u16> = Crc::<u16>::new(&CRC_16_XMODEM);

/// The slot of a key: the CRC-16 of its first `{tag}`, if that is not empty, and otherwise of the
/// whole key, as in the Redis Cluster specification.
pub fn slot_of(key: &[u8]) -> u16 {
    CRC.checksum(hashed(key)) % SLOTS
}

fn hashed(key: &[u8]) -> &[u8] {
    let after = |byte, from: usize| {
        key[from..].iter().position(|it| *it == byte).map(|length| from + length)
    };
    let Some(open) = after(b'{', 0) else { return key };
    match after(b'}', open + 1) {
        Some(close) if close > open + 1 => &key[open + 1..close],
        _ => key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the specification, and slots that Redis 7.0 returned.
    #[test]
    fn slots_are_those_of_redis_cluster() {
        let slots: [(&[u8], u16); 6] = [
            (b"123456789", 0x31c3),
            (b"", 0),
            (b"foo", 12_182),
            (b"somekey", 11_058),
            (b"foo{hash_tag}", 2_515),
            (b"bar{hash_tag}", 2_515),
        ];
        for (key, slot) in slots {
            assert_eq!(slot_of(key), slot, "{}", key.escape_ascii());
        }
        assert_eq!(slot_of(b"foo{{bar}}zap"), slot_of(b"x{{bar}"));
        assert_eq!(slot_of(b"foo{bar}{zap}"), slot_of(b"bar"));
        for whole in [&b"foo{}{bar}"[..], b"foo{bar", b"}{", b"{"] {
            assert_eq!(slot_of(whole), CRC.checksum(whole) % SLOTS, "{}", whole.escape_ascii());
        }
    }
}
