//! Numbers: every protocol's increment and decrement.

use crate::recorder::{Answer, Recorder, Store};
use todana_command::{
    Command, Condition, DatabaseCommand, Delta, Error, Expires, Increment, Initial, Refusal, Set,
    StringCommand, increment_in_table,
};
use todana_table::{KeyOrder, Keyspace, Limits, Meta, Options, Table, WhenFull};

fn add(delta: Delta, initial: Option<Initial>) -> Command<'static> {
    Command::String(StringCommand::Increment(Increment {
        key: b"n",
        delta,
        initial: initial.map(|initial| (initial, Expires::Never)),
        condition: Condition::Always,
        expires: Expires::Keep,
        track_access: false,
    }))
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
        store.run(Command::Database(DatabaseCommand::Clear { at_ms: None }));
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
    store.run(Command::String(StringCommand::Set(set)));
    store.run(add(Delta::Signed(1), None));
    let record = Answer::Record { value: b"2".into(), flags: 9, expires_at_ms: Some(9_000_000) };
    assert_eq!(store.run(Command::String(StringCommand::Get { key: b"n" })), record);
}

#[test]
fn other_values_than_numbers_stay_unchanged() {
    let mut store = Store::new();
    store.set("n", "abc");
    assert_eq!(store.run(add(Delta::Signed(1), None)), Answer::Error(Error::NotAnInteger));
    let float = Command::String(StringCommand::IncrementFloat { key: b"n", delta: b"1" });
    assert_eq!(store.run(float), Answer::Error(Error::NotAFloat));
    assert_eq!(store.get("n").as_deref(), Some("abc"));
}

#[test]
fn fractions_are_added_as_redis_documents() {
    let mut store = Store::new();
    store.set("n", "10.50");
    let add = |delta| Command::String(StringCommand::IncrementFloat { key: b"n", delta });
    assert_eq!(store.run(add(b"0.1")), Answer::Bytes(b"10.6".into()));
    assert_eq!(store.run(add(b"-5")), Answer::Bytes(b"5.6".into()));
    store.set("n", "5.0e3");
    assert_eq!(store.run(add(b"2.0e2")), Answer::Bytes(b"5200".into()));
}

const NOW_MS: u64 = 1_000_000;

/// Adds on a table of its own: the sum, or the answer.
fn add_in(table: &Table, delta: i64) -> Result<i64, Answer> {
    let increment = Increment {
        key: b"n",
        delta: Delta::Signed(delta),
        initial: None,
        condition: Condition::Always,
        expires: Expires::Keep,
        track_access: false,
    };
    let mut recorder = Recorder::default();
    match increment_in_table(table, &increment, NOW_MS, &mut recorder) {
        Some(sum) => {
            assert!(recorder.answers.is_empty());
            Ok(sum)
        }
        None => match recorder.answers.remove(0) {
            Answer::Number(text) => Ok(text.parse().expect("a number")),
            answer => Err(answer),
        },
    }
}

fn put_in(table: &Table, text: &str, meta: Meta) {
    table.update(b"n", NOW_MS, |locked| locked.put(&[text.as_bytes()], meta)).expect("room");
}

fn text_in(table: &Table) -> Option<String> {
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    table.read(b"n", NOW_MS, |entry| entry.map(|entry| text(entry.stored().bytes())))
}

/// Tables of each kind, all with room for the record.
fn tables() -> [Table; 3] {
    let limits = Limits { entries_max: None, bytes_max: Some(1 << 20), when_full: WhenFull::Evict };
    [
        Options::default(),
        Options { order: Some(KeyOrder::default()), ..Options::default() },
        Options { limits, ..Options::default() },
    ]
    .map(Table::new)
}

#[test]
fn sums_of_every_length_are_stored_as_their_text() {
    let powers = (0..19).map(|digits| 10_i64.pow(digits));
    let words = [1 << 31, 1 << 59, i64::MAX - 20];
    for table in &tables() {
        for number in powers.clone().chain(words).flat_map(|number| [number, -number]) {
            for start in number - 11..=number + 11 {
                for delta in [0, 1, -1, 7, 9, 10, -10, 1_000_000_007] {
                    put_in(table, &start.to_string(), Meta::default());
                    let sum = start.checked_add(delta).ok_or(Answer::Error(Error::Overflow));
                    assert_eq!(add_in(table, delta), sum, "{start} + {delta}");
                    let left = sum.unwrap_or(start);
                    assert_eq!(text_in(table), Some(left.to_string()), "{start} + {delta}");
                }
            }
        }
    }
}

#[test]
fn a_counter_passes_every_length_in_small_steps() {
    for table in &tables() {
        put_in(table, "-1500", Meta::default());
        for sum in -1499..=11_000 {
            assert_eq!(add_in(table, 1), Ok(sum));
            assert_eq!(text_in(table), Some(sum.to_string()));
        }
        for steps in 1..=2_500 {
            assert_eq!(add_in(table, -9), Ok(11_000 - 9 * steps));
        }
        assert_eq!(text_in(table).as_deref(), Some("-11500"));
    }
}

#[test]
fn only_the_text_of_a_number_is_added_to() {
    let texts = [
        "",
        "-",
        "+1",
        "01",
        "007",
        "-0",
        "-01",
        " 1",
        "1 ",
        "1.0",
        "0x1",
        "12345678a",
        "a2345678",
        "1234567:",
        "/234567",
        "9223372036854775808",
        "-9223372036854775809",
    ];
    for (table, text) in tables().iter().flat_map(|table| texts.map(|text| (table, text))) {
        put_in(table, text, Meta::default());
        assert_eq!(add_in(table, 1), Err(Answer::Error(Error::NotAnInteger)), "{text:?}");
        assert_eq!(text_in(table).as_deref(), Some(text));
    }
}

#[test]
fn a_sum_keeps_metadata_and_what_a_snapshot_sees() {
    for table in &tables() {
        let meta = Meta { expires_at_ms: Some(NOW_MS + 5), flags: 7, ..Meta::default() };
        put_in(table, "41", meta);
        assert_eq!(add_in(table, 1), Ok(42));
        let kept = table.read(b"n", NOW_MS, |entry| entry.map(|entry| entry.meta()));
        assert_eq!(
            kept.map(|kept| (kept.expires_at_ms, kept.flags)),
            Some((meta.expires_at_ms, 7))
        );
        put_in(table, "41", Meta { expires_at_ms: Some(NOW_MS), ..Meta::default() });
        assert_eq!(add_in(table, 1), Err(Answer::Refused(Refusal::Absent)));
        put_in(table, "41", Meta::default());
        let mut snapshot = table.snapshot().expect("the only one");
        assert_eq!(add_in(table, 1), Ok(42));
        let mut seen = Vec::new();
        while snapshot.next_part(usize::MAX, |entry| seen.push(entry.stored().bytes().to_vec()))
            == Ok(true)
        {}
        assert_eq!(seen, [b"41"]);
        drop(snapshot);
        assert_eq!((add_in(table, 1), text_in(table).as_deref()), (Ok(43), Some("43")));
    }
}
