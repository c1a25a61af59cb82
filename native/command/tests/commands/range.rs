//! Walks in order.

use crate::recorder::{Answer, Recorder, Store, value};
use proptest::prelude::*;
use todana_command::{
    Bound, Command, DatabaseCommand, Error, Expires, KeyRange, Set, StringCommand, Transaction,
    execute_transaction,
};
use todana_table::{Comparison, KeyOrder};

fn ordered() -> Store {
    Store::with_order(Some(KeyOrder::default()))
}

fn range(keys: KeyRange<'_>) -> Command<'_> {
    Command::Database(DatabaseCommand::Range {
        keys,
        after: None,
        reverse: false,
        count: 10,
        values: false,
    })
}

fn between<'a>(first: &'a [u8], last: &'a [u8]) -> KeyRange<'a> {
    KeyRange::Between(Bound::Included(first), Bound::Included(last))
}

fn set_all(store: &mut Store, keys: &[&str]) {
    keys.iter().for_each(|key| store.set(key, "v"));
}

fn slice(after: Option<&str>, keys: &[&str]) -> Vec<Answer> {
    let first = Answer::Slice(after.map(|key| key.into()), keys.len());
    let keys = keys.iter().map(|key| Answer::Key((*key).into()));
    std::iter::once(first).chain(keys).collect()
}

#[test]
fn a_database_without_order_has_no_ranges() {
    let mut store = Store::new();
    store.set("k", "v");
    for keys in [between(b"a", b"z"), KeyRange::Prefix(b"k")] {
        assert_eq!(store.run(range(keys)), Answer::Error(Error::NotOrdered));
    }
}

#[test]
fn keys_come_in_order() {
    let mut store = ordered();
    set_all(&mut store, &["c", "a", "b", "aa", ""]);
    assert_eq!(store.all(range(KeyRange::All)), slice(None, &["", "a", "aa", "b", "c"]));
    assert_eq!(store.all(range(between(b"a", b"b"))), slice(None, &["a", "aa", "b"]));
    assert_eq!(store.all(range(KeyRange::Prefix(b"a"))), slice(None, &["a", "aa"]));
}

#[test]
fn values_come_with_flags_and_expiry() {
    let mut store = ordered();
    let expires = Expires::At(2_000_000);
    store.run(Command::String(StringCommand::Set(Set {
        flags: 5,
        expires,
        ..Set::new(b"k", b"v")
    })));
    let keys = KeyRange::All;
    let command = Command::Database(DatabaseCommand::Range {
        keys,
        after: None,
        reverse: false,
        count: 1,
        values: true,
    });
    let record = Answer::Record { value: b"v".into(), flags: 5, expires_at_ms: Some(2_000_000) };
    let answers = store.all(command);
    assert_eq!(answers[1..], [record]);
}

#[test]
fn a_step_returns_where_to_continue() {
    let mut store = ordered();
    set_all(&mut store, &["a", "b", "c"]);
    let mut step = |after, reverse| {
        let keys = KeyRange::All;
        store.all(Command::Database(DatabaseCommand::Range {
            keys,
            after,
            reverse,
            count: 2,
            values: false,
        }))
    };
    assert_eq!(step(None, false), slice(Some("b"), &["a", "b"]));
    assert_eq!(step(Some(b"b"), false), slice(None, &["c"]));
    assert_eq!(step(Some(b"bb"), false), slice(None, &["c"]));
    assert_eq!(step(None, true), slice(Some("b"), &["c", "b"]));
    assert_eq!(step(Some(b"b"), true), slice(None, &["a"]));
}

#[test]
fn a_count_of_none_is_one() {
    let mut store = ordered();
    set_all(&mut store, &["a", "b"]);
    let keys = KeyRange::All;
    let command = Command::Database(DatabaseCommand::Range {
        keys,
        after: None,
        reverse: false,
        count: 0,
        values: false,
    });
    assert_eq!(store.all(command), slice(Some("a"), &["a"]));
}

/// A store of three keys; `count` expired records precede the last two.
fn with_expired(count: usize) -> Store {
    let mut store = ordered();
    for number in 0..count {
        let expires = Expires::At(1_000_100);
        let key = format!("{number:07}");
        store.run(Command::String(StringCommand::Set(Set {
            expires,
            ..Set::new(key.as_bytes(), b"v")
        })));
    }
    set_all(&mut store, &["", "a", "b"]);
    store.now_ms = 1_000_100;
    store
}

#[test]
fn keys_that_have_expired_do_not_end_a_step() {
    let mut store = with_expired(5_000);
    assert_eq!(store.all(range(KeyRange::All)), slice(None, &["", "a", "b"]));
}

#[test]
fn very_many_keys_that_have_expired_do() {
    let mut store = with_expired(30_000);
    let Answer::Slice(Some(mut after), 1) = store.all(range(KeyRange::All))[0].clone() else {
        panic!("not one key and more to come");
    };
    assert!(after.as_slice() < b"0009000", "{}", after.escape_ascii());
    loop {
        let keys = KeyRange::All;
        let step = Command::Database(DatabaseCommand::Range {
            keys,
            after: Some(&after),
            reverse: false,
            count: 9,
            values: false,
        });
        match store.all(step).as_slice() {
            [Answer::Slice(Some(next), 0)] => after = next.clone(),
            answers => break assert_eq!(answers, slice(None, &["a", "b"])),
        }
    }
}

#[test]
fn a_transaction_passes_over_a_thousand() {
    let store = with_expired(30_000);
    let after = |after| match range(KeyRange::All) {
        Command::Database(DatabaseCommand::Range { keys, reverse, count, values, .. }) => {
            Command::Database(DatabaseCommand::Range { keys, after, reverse, count, values })
        }
        command => command,
    };
    let commands = [(0, after(None)), (0, after(Some(b"")))];
    let mut recorder = Recorder::default();
    let transaction = Transaction { other_units: 0, watches: &[], commands: &commands };
    let done = execute_transaction(
        &store.databases,
        &transaction,
        store.context(),
        &mut recorder,
        |_, _| {},
    );
    assert_eq!(done, Ok(true));
    // The first range found a key before the expired records, the second found none.
    let [Answer::Slice(Some(_), 1), Answer::Key(_), Answer::Error(Error::TooManyKeys)] =
        recorder.answers.as_slice()
    else {
        panic!("{:?}", recorder.answers);
    };
    let store = with_expired(500);
    let mut recorder = Recorder::default();
    let done = execute_transaction(
        &store.databases,
        &transaction,
        store.context(),
        &mut recorder,
        |_, _| {},
    );
    assert_eq!(done, Ok(true));
    assert_eq!(recorder.answers[..4], slice(None, &["", "a", "b"]));
}

#[test]
fn large_values_end_a_step_early_and_none_is_left_out() {
    let mut store = ordered();
    store.value_bytes_max = 16 << 20;
    let value = "v".repeat(3 << 20);
    for number in 0..15 {
        store.set(&format!("{number:02}"), &value);
    }
    let (mut after, mut found, mut steps) = (None, 0, 0);
    loop {
        let mut recorder = Recorder::default();
        let keys = KeyRange::All;
        let command = Command::Database(DatabaseCommand::Range {
            keys,
            after: after.as_deref(),
            reverse: false,
            count: 100,
            values: true,
        });
        let context = store.context();
        todana_command::execute(&store.databases, 0, &command, context, &mut recorder);
        let Answer::Slice(next, records) = &recorder.answers[0] else { panic!("no slice") };
        assert!((1..=6).contains(records), "{records}");
        found += records;
        steps += 1;
        after = next.clone();
        if after.is_none() {
            break;
        }
    }
    assert_eq!((found, steps), (15, 3));
}

#[test]
fn a_transaction_sees_what_it_wrote() {
    let mut store = ordered();
    store.set("b", "1");
    let values = Command::Database(DatabaseCommand::Range {
        keys: KeyRange::Prefix(b""),
        after: None,
        reverse: true,
        count: 10,
        values: true,
    });
    let commands = [
        (0, Command::String(StringCommand::Set(Set::new(b"a", b"2")))),
        (0, values),
        (1, range(KeyRange::All)),
    ];
    let mut recorder = Recorder::default();
    let transaction = Transaction { other_units: 0, watches: &[], commands: &commands };
    let done = execute_transaction(
        &store.databases,
        &transaction,
        store.context(),
        &mut recorder,
        |_, _| {},
    );
    assert_eq!(done, Ok(true));
    let shown = [Answer::Slice(None, 2), value("1"), value("2"), Answer::Slice(None, 0)];
    assert_eq!(recorder.answers[1..], shown);
}

#[test]
fn numbers_can_decide_the_order() {
    let order = KeyOrder { comparison: Comparison::Decimal, descending: true };
    let mut store = Store::with_order(Some(order));
    set_all(&mut store, &["9", "10", "100"]);
    assert_eq!(store.all(range(KeyRange::All)), slice(None, &["100", "10", "9"]));
    assert_eq!(store.all(range(between(b"50", b"9"))), slice(None, &["10", "9"]));
}

fn keys() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(0..3u8, 0..4)
}

/// A key, and whether the range includes it.
type End = Option<(Vec<u8>, bool)>;

fn ends() -> impl Strategy<Value = End> {
    proptest::option::of((keys(), any::<bool>()))
}

fn bound(end: &End) -> Bound<'_> {
    match end {
        Some((key, true)) => Bound::Included(key),
        Some((key, false)) => Bound::Excluded(key),
        None => Bound::Unbounded,
    }
}

fn is_between(key: &[u8], [first, last]: &[End; 2]) -> bool {
    let starts = first.as_ref().is_none_or(|(end, included)| key > end || *included && key == end);
    let ends =
        last.as_ref().is_none_or(|(end, included)| key < end.as_slice() || *included && key == end);
    starts && ends
}

/// All keys of a range, in steps.
fn walk(store: &mut Store, keys: KeyRange<'_>, reverse: bool, count: usize) -> Vec<Vec<u8>> {
    let (mut found, mut after) = (Vec::new(), None::<Vec<u8>>);
    loop {
        let after_key = after.as_deref();
        let step = Command::Database(DatabaseCommand::Range {
            keys,
            after: after_key,
            reverse,
            count,
            values: false,
        });
        let answers = store.all(step);
        let Answer::Slice(next, length) = answers[0].clone() else { panic!("{answers:?}") };
        assert!(length <= count && answers.len() == length + 1);
        for answer in &answers[1..] {
            let Answer::Key(key) = answer else { panic!("{answer:?}") };
            found.push(key.clone());
        }
        match next {
            Some(next) => after = Some(next),
            None => return found,
        }
    }
}

proptest! {
    #[test]
    fn a_walk_in_steps_meets_what_a_sorted_map_has(
        records in proptest::collection::btree_map(keys(), any::<bool>(), 0..60),
        ends in [ends(), ends()],
        prefix in proptest::option::of(keys()),
        reverse: bool,
        count in 1..20usize,
    ) {
        let mut store = ordered();
        for (key, lives) in &records {
            let expires = if *lives { Expires::Never } else { Expires::At(1_000_100) };
            store.run(Command::String(StringCommand::Set(Set { expires, ..Set::new(key, b"v") })));
        }
        store.now_ms = 1_000_200;
        let is_in = |key: &[u8]| match &prefix {
            Some(prefix) => key.starts_with(prefix),
            None => is_between(key, &ends),
        };
        let mut expected: Vec<Vec<u8>> = records
            .into_iter()
            .filter_map(|(key, lives)| (lives && is_in(&key)).then_some(key))
            .collect();
        if reverse {
            expected.reverse();
        }
        let keys = match &prefix {
            Some(prefix) => KeyRange::Prefix(prefix),
            None => KeyRange::Between(bound(&ends[0]), bound(&ends[1])),
        };
        prop_assert_eq!(walk(&mut store, keys, reverse, count), expected);
    }
}
