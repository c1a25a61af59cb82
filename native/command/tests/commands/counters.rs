//! Counters of fixed width.

use crate::recorder::{Answer, Store};
use todana_command::{
    Command, DatabaseCommand, Error, Expires, Origin, Refusal, Set, StringCommand,
};

fn word(delta: i64, origin: Origin<i64>) -> Command<'static> {
    Command::String(StringCommand::IncrementBinary {
        key: b"n",
        delta,
        origin,
        expires: Expires::Never,
    })
}

fn fraction(delta: f64, origin: Origin<f64>) -> Command<'static> {
    let origin = match origin {
        Origin::Refuse => Origin::Refuse,
        Origin::Set => Origin::Set,
        Origin::From(number) => Origin::From(number.to_bits()),
    };
    let delta_bits = delta.to_bits();
    Command::String(StringCommand::IncrementFraction {
        key: b"n",
        delta_bits,
        origin,
        expires: Expires::Never,
    })
}

fn parts(integer: i64, fraction: i64) -> Answer {
    Answer::Bytes([integer.to_be_bytes(), fraction.to_be_bytes()].concat())
}

const REFUSED: Answer = Answer::Refused(Refusal::Absent);
const NOT_A_COUNTER: Answer = Answer::Error(Error::NotACounter);
const INFINITE: (i64, i64) = (i64::MAX, 0);
const MINUS_INFINITE: (i64, i64) = (i64::MIN, 0);
const NOT_A_NUMBER: (i64, i64) = (i64::MIN, i64::MIN);

fn stored(store: &mut Store) -> Option<(Vec<u8>, u32, Option<u64>)> {
    match store.run(Command::String(StringCommand::Get { key: b"n" })) {
        Answer::Record { value, flags, expires_at_ms } => Some((value, flags, expires_at_ms)),
        _ => None,
    }
}

fn store_bytes(store: &mut Store, value: &[u8]) {
    let expires = Expires::At(9_000_000);
    store.run(Command::String(StringCommand::Set(Set {
        flags: 9,
        expires,
        ..Set::new(b"n", value)
    })));
}

#[test]
fn a_word_is_stored_highest_byte_first() {
    let mut store = Store::new();
    assert_eq!(store.run(word(-2, Origin::From(260))), Answer::Integer(258));
    assert_eq!(stored(&mut store), Some((vec![0, 0, 0, 0, 0, 0, 1, 2], 0, None)));
    assert_eq!(store.run(word(-259, Origin::Refuse)), Answer::Integer(-1));
    assert_eq!(stored(&mut store), Some((vec![0xff; 8], 0, None)));
}

#[test]
fn a_missing_counter_is_its_origin() {
    let mut store = Store::new();
    let cases = [
        (word(5, Origin::From(10)), Answer::Integer(15)),
        (word(0, Origin::From(10)), Answer::Integer(10)),
        (word(5, Origin::Set), Answer::Integer(5)),
        (fraction(0.5, Origin::From(-2.0)), parts(-1, -500_000_000_000_000)),
        (fraction(0.0, Origin::From(2.25)), parts(2, 250_000_000_000_000)),
        (fraction(0.5, Origin::Set), parts(0, 500_000_000_000_000)),
    ];
    for (command, answer) in cases {
        store.run(Command::Database(DatabaseCommand::Clear { at_ms: None }));
        assert_eq!(store.run(command), answer);
        assert!(stored(&mut store).is_some());
    }
    store.run(Command::Database(DatabaseCommand::Clear { at_ms: None }));
    assert_eq!(store.run(word(1, Origin::Refuse)), REFUSED);
    assert_eq!(store.run(fraction(1.0, Origin::Refuse)), REFUSED);
    assert_eq!(stored(&mut store), None);
}

#[test]
fn setting_does_not_add() {
    let mut store = Store::new();
    store.run(word(5, Origin::From(0)));
    assert_eq!(store.run(word(7, Origin::Set)), Answer::Integer(7));
    assert_eq!(store.run(word(0, Origin::Set)), Answer::Integer(0));
    assert_eq!(stored(&mut store), Some((vec![0; 8], 0, None)));
    store.run(Command::Database(DatabaseCommand::Clear { at_ms: None }));
    store.run(fraction(5.0, Origin::From(0.0)));
    assert_eq!(store.run(fraction(0.0, Origin::Set)), parts(0, 0));
    assert_eq!(stored(&mut store), Some((vec![0; 16], 0, None)));
}

#[test]
fn a_value_of_another_length_is_no_counter_and_stays() {
    let mut store = Store::new();
    for value in [&b""[..], b"1", b"1234567", b"123456789", &[0; 15], &[0; 17]] {
        store_bytes(&mut store, value);
        for origin in [Origin::Refuse, Origin::Set, Origin::From(1)] {
            assert_eq!(store.run(word(1, origin)), NOT_A_COUNTER);
        }
        for origin in [Origin::Refuse, Origin::Set, Origin::From(1.0)] {
            assert_eq!(store.run(fraction(1.0, origin)), NOT_A_COUNTER);
        }
        assert_eq!(stored(&mut store), Some((value.to_vec(), 9, Some(9_000_000))));
    }
}

#[test]
fn a_word_wraps_around() {
    let mut store = Store::new();
    assert_eq!(store.run(word(1, Origin::From(i64::MAX))), Answer::Integer(i64::MIN));
    assert_eq!(store.run(word(-1, Origin::Refuse)), Answer::Integer(i64::MAX));
}

#[test]
fn adding_nothing_only_reads() {
    let mut store = Store::new();
    store_bytes(&mut store, &7i64.to_be_bytes());
    assert_eq!(store.run(word(0, Origin::From(1))), Answer::Integer(7));
    let unchanged = stored(&mut store).map(|(_, _, expires_at_ms)| expires_at_ms);
    assert_eq!(unchanged, Some(Some(9_000_000)));
    let value = [7i64.to_be_bytes(), 1i64.to_be_bytes()].concat();
    store_bytes(&mut store, &value);
    assert_eq!(store.run(fraction(-0.0, Origin::From(1.0))), parts(7, 1));
    assert_eq!(stored(&mut store), Some((value, 9, Some(9_000_000))));
}

#[test]
fn a_written_counter_has_the_expiry_of_the_command_and_keeps_its_flags() {
    let mut store = Store::new();
    let cases = [
        (Expires::Never, None),
        (Expires::Keep, Some(9_000_000)),
        (Expires::At(8_000_000), Some(8_000_000)),
    ];
    for (expires, expires_at_ms) in cases {
        store_bytes(&mut store, &[0; 8]);
        let origin = Origin::Refuse;
        store.run(Command::String(StringCommand::IncrementBinary {
            key: b"n",
            delta: 1,
            origin,
            expires,
        }));
        assert_eq!(stored(&mut store), Some((1i64.to_be_bytes().into(), 9, expires_at_ms)));
        store_bytes(&mut store, &[0; 16]);
        let (delta_bits, origin) = (1f64.to_bits(), Origin::Refuse);
        store.run(Command::String(StringCommand::IncrementFraction {
            key: b"n",
            delta_bits,
            origin,
            expires,
        }));
        let kept = stored(&mut store).map(|(_, flags, expires_at_ms)| (flags, expires_at_ms));
        assert_eq!(kept, Some((9, expires_at_ms)));
    }
}

#[test]
fn a_counter_whose_expiry_has_passed_is_gone() {
    let mut store = Store::new();
    let (origin, expires) = (Origin::From(1), Expires::At(1));
    let command =
        Command::String(StringCommand::IncrementBinary { key: b"n", delta: 1, origin, expires });
    assert_eq!(store.run(command), Answer::Integer(2));
    assert_eq!(stored(&mut store), None);
}

#[test]
fn the_parts_of_fractions_are_added_each_and_ones_are_carried() {
    let unit = 1_000_000_000_000_000;
    let cases = [
        (1.0, -0.25, (1, -unit / 4)),
        (1.5, 0.75, (2, unit / 4)),
        (-1.5, -0.75, (-1, -5 * unit / 4)),
        (1.5, -2.0, (-1, unit / 2)),
        (-1.5, 2.0, (1, -unit / 2)),
        (0.1, 0.2, (0, 3 * unit / 10)),
        (0.3, 0.0, (0, 299_999_999_999_999)),
        (0.999_999_999_999_999_9, 0.0, (0, 999_999_999_999_999)),
        (0.5, 0.5, (1, 0)),
        (-0.5, -0.5, (0, -unit)),
        (1e-16, 1e-16, (0, 0)),
    ];
    for (base, delta, (integer, rest)) in cases {
        let mut store = Store::new();
        store.run(fraction(base, Origin::Set));
        let sum = parts(integer, rest);
        assert_eq!(store.run(fraction(delta, Origin::Refuse)), sum, "{base} and {delta}");
    }
}

#[test]
fn a_missing_fraction_is_the_sum_of_doubles() {
    let mut store = Store::new();
    assert_eq!(store.run(fraction(-0.25, Origin::From(1.0))), parts(0, 750_000_000_000_000));
    store.run(Command::Database(DatabaseCommand::Clear { at_ms: None }));
    assert_eq!(store.run(fraction(1.0, Origin::From(f64::NAN))), REFUSED);
    assert_eq!(stored(&mut store), None);
}

#[test]
fn parts_are_kept_as_they_were_stored() {
    let mut store = Store::new();
    let value = [2i64.to_be_bytes(), (-500_000_000_000_000i64).to_be_bytes()].concat();
    store_bytes(&mut store, &value);
    assert_eq!(store.run(fraction(1.0, Origin::Refuse)), parts(3, -500_000_000_000_000));
    store_bytes(&mut store, &[0i64.to_be_bytes(), 2_500_000_000_000_000i64.to_be_bytes()].concat());
    assert_eq!(store.run(fraction(1.0, Origin::Refuse)), parts(2, 1_500_000_000_000_000));
}

#[test]
fn a_fraction_that_leaves_64_bits_is_carried() {
    for (sign, rest) in [(1, i64::MAX), (-1, i64::MIN)] {
        let mut store = Store::new();
        store_bytes(&mut store, &[0i64.to_be_bytes(), rest.to_be_bytes()].concat());
        let Answer::Bytes(sum) = store.run(fraction(0.5 * f64::from(sign), Origin::Refuse)) else {
            panic!("a sum");
        };
        let part = |at: usize| i64::from_be_bytes(sum[at..at + 8].try_into().unwrap());
        let units = i128::from(part(0)) * 1_000_000_000_000_000 + i128::from(part(8));
        assert_eq!(units, i128::from(rest) + i128::from(sign) * 500_000_000_000_000);
    }
}

#[test]
fn sums_out_of_range_are_infinite() {
    let cases = [
        (f64::INFINITY, INFINITE),
        (f64::NEG_INFINITY, MINUS_INFINITE),
        (f64::NAN, NOT_A_NUMBER),
        (f64::MAX, INFINITE),
        (f64::MIN, MINUS_INFINITE),
        (9_223_372_036_854_775_808.0, INFINITE),
        (-9_223_372_036_854_775_808.0, MINUS_INFINITE),
        (9_223_372_036_854_774_784.0, (9_223_372_036_854_774_784, 0)),
    ];
    for (number, (integer, rest)) in cases {
        let mut store = Store::new();
        assert_eq!(
            store.run(fraction(number, Origin::From(0.0))),
            parts(integer, rest),
            "{number}"
        );
    }
}

#[test]
fn a_sum_that_leaves_the_range_is_infinite() {
    for sign in [1.0, -1.0] {
        let mut store = Store::new();
        store.run(fraction(9e18 * sign, Origin::Set));
        let (integer, rest) = if sign > 0.0 { INFINITE } else { MINUS_INFINITE };
        assert_eq!(store.run(fraction(9e18 * sign, Origin::Refuse)), parts(integer, rest));
    }
}

#[test]
fn infinity_and_nan_stay_until_they_are_set() {
    for (integer, rest) in [INFINITE, MINUS_INFINITE, NOT_A_NUMBER] {
        let mut store = Store::new();
        store_bytes(&mut store, &[integer.to_be_bytes(), rest.to_be_bytes()].concat());
        for delta in [0.0, 1.0, -1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
            assert_eq!(store.run(fraction(delta, Origin::Refuse)), parts(integer, rest));
        }
        let kept = stored(&mut store).map(|(_, _, expires_at_ms)| expires_at_ms);
        assert_eq!(kept, Some(Some(9_000_000)), "nothing was written");
        assert_eq!(store.run(fraction(1.0, Origin::Set)), parts(1, 0));
    }
}

#[test]
fn where_there_is_no_room_no_counter_is_made() {
    let mut store = Store::with_room_for(1);
    store.set("other", "v");
    let full = Answer::Error(Error::Full);
    assert_eq!(store.run(word(1, Origin::From(0))), full);
    assert_eq!(store.run(fraction(1.0, Origin::Set)), full);
    assert_eq!(stored(&mut store), None);
}
