//! Bits: bit 0 is the highest bit of the first byte.

use crate::recorder::{Answer, Store};
use todana_command::{BitsCommand, Command, Set, Span, StringCommand, Unit};

fn store_of(bytes: &[u8]) -> Store {
    let mut store = Store::new();
    store.run(Command::String(StringCommand::Set(Set::new(b"k", bytes))));
    store
}

#[test]
fn bits_are_set_and_got() {
    let mut store = Store::new();
    let set = |offset, bit| Command::Bits(BitsCommand::SetBit { key: b"k", offset, bit });
    assert_eq!(store.run(set(7, true)), Answer::Integer(0));
    assert_eq!(store.run(set(7, false)), Answer::Integer(1));
    assert_eq!(store.run(set(16, true)), Answer::Integer(0));
    let value = b"\0\0\x80".to_vec();
    let record = Answer::Record { value, flags: 0, expires_at_ms: None };
    assert_eq!(store.run(Command::String(StringCommand::Get { key: b"k" })), record);
    let get = |offset| Command::Bits(BitsCommand::GetBit { key: b"k", offset });
    assert_eq!(store.run(get(16)), Answer::Integer(1));
    assert_eq!(store.run(get(17)), Answer::Integer(0));
    assert_eq!(store.run(get(u64::MAX)), Answer::Integer(0));
}

#[test]
fn set_bits_are_counted_in_spans_of_bytes_or_bits() {
    let mut store = store_of(b"foobar");
    let counts = [
        (None, 26),
        (Some((0, 0, Unit::Byte)), 4),
        (Some((1, 1, Unit::Byte)), 6),
        (Some((5, 30, Unit::Bit)), 17),
        (Some((1, 1, Unit::Bit)), 1),
        (Some((-2, -1, Unit::Byte)), 7),
        (Some((3, 2, Unit::Byte)), 0),
        (Some((100, 200, Unit::Bit)), 0),
    ];
    for (span, count) in counts {
        let span = span.map(|(start, end, unit)| Span { start, end, unit });
        let answer = store.run(Command::Bits(BitsCommand::BitCount { key: b"k", span }));
        assert_eq!(answer, Answer::Integer(count), "{span:?}");
    }
}

#[test]
fn the_first_bit_of_a_kind_is_found() {
    let find = |bit, start, end, unit| {
        Command::Bits(BitsCommand::BitPosition { key: b"k", bit, start, end, unit })
    };
    let mut store = store_of(b"\xff\xf0\x00");
    assert_eq!(store.run(find(false, None, None, Unit::Byte)), Answer::Integer(12));
    assert_eq!(store.run(find(true, Some(2), None, Unit::Byte)), Answer::Integer(-1));
    let mut store = store_of(b"\x00\xff\xf0");
    assert_eq!(store.run(find(true, Some(0), None, Unit::Byte)), Answer::Integer(8));
    assert_eq!(store.run(find(true, Some(2), None, Unit::Byte)), Answer::Integer(16));
    assert_eq!(store.run(find(true, Some(7), Some(15), Unit::Bit)), Answer::Integer(8));
    assert_eq!(store.run(find(true, Some(0), Some(7), Unit::Bit)), Answer::Integer(-1));
    // Both offsets are before the value, so both mean its first byte. For BITCOUNT and GETRANGE the
    // span is empty.
    assert_eq!(store.run(find(false, Some(-8), Some(-20), Unit::Byte)), Answer::Integer(0));
    let span = Some(Span { start: -8, end: -20, unit: Unit::Byte });
    assert_eq!(
        store.run(Command::Bits(BitsCommand::BitCount { key: b"k", span })),
        Answer::Integer(0)
    );
    let mut store = store_of(b"\xff\xff");
    assert_eq!(store.run(find(false, None, None, Unit::Byte)), Answer::Integer(16));
    assert_eq!(store.run(find(false, Some(0), Some(-1), Unit::Byte)), Answer::Integer(-1));
    let mut store = Store::new();
    assert_eq!(store.run(find(false, None, None, Unit::Byte)), Answer::Integer(0));
    assert_eq!(store.run(find(true, None, None, Unit::Byte)), Answer::Integer(-1));
}

#[test]
fn counting_agrees_with_counting_one_by_one() {
    let bytes: Vec<u8> = (0..40u8).map(|n| n.wrapping_mul(73) ^ 0x5a).collect();
    let mut store = store_of(&bytes);
    let bit = |n: i64| bytes[n as usize / 8] >> (7 - n % 8) & 1;
    for start in (0..320).step_by(7) {
        for end in (start..320).step_by(5) {
            let span = Some(Span { start, end, unit: Unit::Bit });
            let count = (start..=end).map(|n| i64::from(bit(n))).sum();
            let answer = store.run(Command::Bits(BitsCommand::BitCount { key: b"k", span }));
            assert_eq!(answer, Answer::Integer(count), "{start}..={end}");
        }
    }
}
