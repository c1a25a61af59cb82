//! What observers of durable tables learn when the log is begun anew.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use todana_command::{Command, DatabaseCommand};
use todana_group::record::{self, TableOptions};
use todana_group::{Applied, Gate, Group};
use todana_table::{Event, EventKind, Keyspace, Observer};

use crate::harness::{Harness, NOW_MS, SLICE, command, options, set};

/// Keeps the events: their kinds, keys and versions.
#[derive(Default)]
struct Seen(Mutex<Vec<(EventKind, String, u64)>>);

impl Observer for Seen {
    fn observe(&self, event: &Event<'_>) {
        let key = String::from_utf8_lossy(event.key).into_owned();
        self.0.lock().push((event.kind, key, event.version));
    }
}

impl Seen {
    fn take(&self) -> Vec<(EventKind, String, u64)> {
        std::mem::take(&mut self.0.lock())
    }
}

fn put(key: &str, version: u64) -> (EventKind, String, u64) {
    (EventKind::Put, key.into(), version)
}

/// Entries of one record each, and one of 40 at the end.
fn entries() -> Vec<Vec<u8>> {
    let harness = Harness::new();
    let clear = command(0, &Command::Database(DatabaseCommand::Clear { at_ms: None }));
    let swap = command(0, &Command::Database(DatabaseCommand::Swap { first: 0, second: 1 }));
    let many: Vec<u8> = (10..50).flat_map(|n| set(0, format!("k{n}").as_bytes(), b"v")).collect();
    let submissions = [
        (set(0, b"a", b"1"), 1),
        (clear, 1),
        (set(0, b"b", b"2"), 1),
        ([swap.clone(), set(0, b"c", b"3"), swap].concat(), 3),
        (many, 40),
    ];
    let seal = |(records, count)| {
        harness.submit(1, records, count);
        harness.seal().bytes
    };
    submissions.into_iter().map(seal).collect()
}

fn apply(group: &Group, entries: &[Vec<u8>], from: usize) {
    for (index, entry) in entries.iter().enumerate().skip(from) {
        let applied = group.apply(entry, 0, index as u64 + 1, NOW_MS, SLICE);
        assert!(matches!(applied, Applied::Done { .. }), "{applied:?}");
    }
}

#[test]
fn changes_that_are_applied_once_more_are_not_reported_again() {
    let entries = entries();
    let harness = Harness::of(options(2));
    let (group, seen) = (&harness.group, Arc::new(Seen::default()));
    group.databases().observe(0, seen.clone()).expect("the first observer");
    apply(group, &entries[..4], 0);
    // The last entry is begun, and then the log ends.
    let (last, zero) = (&entries[4], Duration::ZERO);
    let Applied::More(offset) = group.apply(last, 0, 5, NOW_MS, zero) else { panic!("at once") };
    let before = seen.take();
    assert_eq!(before[0], put("a", 1));
    assert_eq!(before.last(), Some(&put("k25", 18)), "sixteen records: {before:?}");

    for _ in 0..2 {
        group.reset();
        apply(group, &entries[..4], 0);
        assert_eq!(seen.take(), [], "they were reported before");
    }
    // The point is inside of the slice.
    let Applied::More(middle) = group.apply(last, 0, 5, NOW_MS, zero) else { panic!("at once") };
    assert!(middle > offset);
    group.apply(last, middle, 5, NOW_MS, SLICE);
    let rest: Vec<_> = (26..50).map(|n| put(&format!("k{n}"), n - 7)).collect();
    assert_eq!(seen.take(), rest, "each change behind the point that was reached, once");
    group.set_gate(Gate::Open, "");
    assert_eq!(seen.take(), []);

    group.reset();
    apply(group, &entries, 0);
    group.set_gate(Gate::Open, "");
    assert_eq!(seen.take(), [], "all of it was reported before");
    harness.submit(9, set(0, b"z", b"z"), 1);
    let applied = group.apply(&harness.seal().bytes, 0, 6, NOW_MS, SLICE);
    assert!(matches!(applied, Applied::Done { .. }), "{applied:?}");
    assert_eq!(seen.take().len(), 1);
}

#[test]
fn an_observer_of_the_first_load_learns_when_the_gate_opens_that_all_may_have_changed() {
    let entries = entries();
    let harness = Harness::of(options(2));
    let (group, seen) = (&harness.group, Arc::new(Seen::default()));
    group.databases().observe(0, seen.clone()).expect("the first observer");
    group.reset();
    apply(group, &entries[..3], 0);
    group.reset();
    apply(group, &entries[..3], 0);
    assert_eq!(seen.take(), []);
    group.set_gate(Gate::Open, "");
    assert_eq!(seen.take(), [(EventKind::Swap, String::new(), 2)]);
    group.set_gate(Gate::Open, "");
    assert_eq!(seen.take(), []);
    assert_eq!(group.databases().table(0).len(), 1);
}

#[test]
fn a_named_table_that_comes_back_is_quiet_too() {
    let mut create = Vec::new();
    record::put_create_table(&mut create, b"orders", &TableOptions::default());
    let source = Harness::new();
    source.submit(1, create, 1);
    let first = source.seal().bytes;
    source.submit(2, set(16, b"a", b"1"), 1);
    let entries = [first, source.seal().bytes];

    let harness = Harness::of(options(2));
    let (group, seen) = (&harness.group, Arc::new(Seen::default()));
    apply(group, &entries[..1], 0);
    let table = group.table(b"orders").expect("it exists");
    table.table().observe(seen.clone()).expect("the first observer");
    apply(group, &entries, 1);
    assert_eq!(seen.take(), [put("a", 1)]);
    group.reset();
    apply(group, &entries, 0);
    assert_eq!(seen.take(), []);
    source.submit(3, set(16, b"b", b"1"), 1);
    group.apply(&source.seal().bytes, 0, 3, NOW_MS, SLICE);
    assert_eq!(seen.take(), [put("b", 2)]);
}

#[test]
fn a_clear_that_is_due_behind_the_point_that_was_reached_is_reported() {
    let source = Harness::new();
    let clear = command(0, &Command::Database(DatabaseCommand::Clear { at_ms: Some(NOW_MS + 10) }));
    source.submit(1, [set(0, b"a", b"1"), clear].concat(), 2);
    let entries = [source.seal().bytes];
    let harness = Harness::of(options(2));
    let (group, seen) = (&harness.group, Arc::new(Seen::default()));
    group.databases().observe(0, seen.clone()).expect("the first observer");
    apply(group, &entries, 0);
    group.reset();
    seen.take();
    apply(group, &entries, 0);
    source.submit(2, set(0, b"b", b"1"), 1);
    group.apply(&source.seal().bytes, 0, 2, NOW_MS + 10, SLICE);
    let kinds: Vec<EventKind> = seen.take().into_iter().map(|(kind, ..)| kind).collect();
    assert_eq!(kinds, [EventKind::Clear, EventKind::Put]);
}

#[test]
fn a_table_that_is_created_after_a_load_has_observers() {
    let source = Harness::new();
    let harness = Harness::of(options(2));
    let (group, mut entries) = (&harness.group, Vec::new());
    for (home, name) in [(16, "first"), (17, "second")] {
        group.reset();
        apply(group, &entries, 0);
        group.set_gate(Gate::Open, "");
        let mut create = Vec::new();
        record::put_create_table(&mut create, name.as_bytes(), &TableOptions::default());
        for records in [create, set(home, b"a", b"1")] {
            source.submit(home, records, 1);
            entries.push(source.seal().bytes);
        }
        apply(group, &entries[..entries.len() - 1], entries.len() - 2);
        let (table, seen) = (group.table(name.as_bytes()), Arc::new(Seen::default()));
        table.expect("it was created").table().observe(seen.clone()).expect("the first observer");
        apply(group, &entries, entries.len() - 1);
        assert_eq!(seen.take(), [put("a", 1)], "{name}");
    }
}
