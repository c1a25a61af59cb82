//! Numbers: every protocol's increment and decrement.

use crate::recorder::{Answer, Store};
use todana_command::{Command, Condition, Delta, Error, Expires, Increment, Initial, Refusal, Set};

fn add(delta: Delta, initial: Option<Initial>) -> Command<'static> {
    Command::Increment(Increment {
        key: b"n",
        delta,
        initial: initial.map(|initial| (initial, Expires::Never)),
        condition: Condition::Always,
        expires: Expires::Keep,
        track_access: false,
    })
}

fn number(text: &str) -> Answer {
    Answer::Number(text.to_owned())
}

#[test]
fn a_missing_counter_starts_as_its_door_says() {
    let mut store = Store::new();
    let signed = Delta::Signed(5);
    assert_eq!(store.run(add(signed, None)), Answer::Refused(Refusal::Absent));
    let starts = [(Initial::Zero, "5"), (Initial::From(10), "15"), (Initial::Exactly(10), "10")];
    for (initial, text) in starts {
        store.run(Command::Clear { at_ms: None });
        assert_eq!(store.run(add(signed, Some(initial))), number(text));
        assert_eq!(store.get("n").as_deref(), Some(text));
    }
}

#[test]
fn signed_arithmetic_refuses_to_overflow() {
    let mut store = Store::new();
    store.set("n", "9223372036854775806");
    assert_eq!(store.run(add(Delta::Signed(1), None)), number("9223372036854775807"));
    assert_eq!(store.run(add(Delta::Signed(1), None)), Answer::Error(Error::Overflow));
    assert_eq!(store.run(add(Delta::Signed(i64::MIN), None)), number("-1"));
    assert_eq!(store.run(add(Delta::Signed(i64::MIN), None)), Answer::Error(Error::Overflow));
    assert_eq!(store.get("n").as_deref(), Some("-1"));
}

#[test]
fn unsigned_arithmetic_wraps_up_and_stops_at_zero() {
    let mut store = Store::new();
    store.set("n", "18446744073709551615");
    assert_eq!(store.run(add(Delta::WrappingAdd(2), None)), number("1"));
    assert_eq!(store.run(add(Delta::SaturatingSubtract(2), None)), number("0"));
}

#[test]
fn a_number_of_one_door_is_a_number_at_the_other() {
    let mut store = Store::new();
    store.run(add(Delta::Signed(41), Some(Initial::Zero)));
    assert_eq!(store.run(add(Delta::WrappingAdd(1), None)), number("42"));
    assert_eq!(store.run(add(Delta::Signed(-2), None)), number("40"));
    store.set("n", "-1");
    let not_unsigned = Answer::Error(Error::NotAnInteger);
    assert_eq!(store.run(add(Delta::WrappingAdd(1), None)), not_unsigned);
    store.set("n", "18446744073709551615");
    assert_eq!(store.run(add(Delta::Signed(1), None)), Answer::Error(Error::NotAnInteger));
}

#[test]
fn flags_and_expiry_survive() {
    let mut store = Store::new();
    let set = Set { flags: 9, expires: Expires::At(9_000_000), ..Set::new(b"n", b"1") };
    store.run(Command::Set(set));
    store.run(add(Delta::Signed(1), None));
    let record = Answer::Record { value: b"2".into(), flags: 9, expires_at_ms: Some(9_000_000) };
    assert_eq!(store.run(Command::Get { key: b"n" }), record);
}

#[test]
fn other_values_than_numbers_stay_unchanged() {
    let mut store = Store::new();
    store.set("n", "abc");
    assert_eq!(store.run(add(Delta::Signed(1), None)), Answer::Error(Error::NotAnInteger));
    let float = Command::IncrementFloat { key: b"n", delta: b"1" };
    assert_eq!(store.run(float), Answer::Error(Error::NotAFloat));
    assert_eq!(store.get("n").as_deref(), Some("abc"));
}

#[test]
fn fractions_are_added_as_redis_documents() {
    let mut store = Store::new();
    store.set("n", "10.50");
    let add = |delta| Command::IncrementFloat { key: b"n", delta };
    assert_eq!(store.run(add(b"0.1")), Answer::Bytes(b"10.6".into()));
    assert_eq!(store.run(add(b"-5")), Answer::Bytes(b"5.6".into()));
    store.set("n", "5.0e3");
    assert_eq!(store.run(add(b"2.0e2")), Answer::Bytes(b"5200".into()));
}
