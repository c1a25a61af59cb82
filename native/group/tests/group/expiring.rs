//! Expired records and scheduled clears: only the log removes them.

use todana_command::{Command, DatabaseCommand, Expires, Set, StringCommand};
use todana_group::{Home, record};
use todana_table::Keyspace;

use crate::harness::{Call, Harness, NOW_MS, Seen, command, done};

fn set_until(key: &[u8], at_ms: u64) -> Vec<u8> {
    command(
        3,
        &Command::String(StringCommand::Set(Set {
            expires: Expires::At(at_ms),
            ..Set::new(key, b"v")
        })),
    )
}

/// Applies everything that waits. Returns the number of entries.
fn apply_all(harness: &mut Harness, time_ms: u64) -> usize {
    let mut entries = 0;
    while let Some(sealed) = harness.group.take(0) {
        harness.apply_at(&sealed.bytes, time_ms);
        entries += 1;
        assert!(entries < 100, "the group goes on submitting");
    }
    entries
}

#[test]
fn expired_records_are_removed_by_the_log_and_by_nothing_else() {
    let mut harness = Harness::new();
    let keys: Vec<String> = (0..5_000).map(|number| format!("key-{number}")).collect();
    let records: Vec<u8> =
        keys.iter().flat_map(|key| set_until(key.as_bytes(), NOW_MS + 10)).collect();
    harness.submit(1, [records, set_until(b"later", NOW_MS + 1_000)].concat(), keys.len() + 1);
    apply_all(&mut harness, NOW_MS);
    let table = harness.group.databases().table(3).clone();

    harness.group.tick(NOW_MS);
    assert_eq!(harness.group.take(0), None, "nothing has expired");
    // Readers hide what has expired, and remove nothing.
    assert_eq!(table.len_at(NOW_MS + 10), 5_001);
    assert!(table.read(keys[0].as_bytes(), NOW_MS + 10, |entry| entry.is_none()));
    harness.group.tick(NOW_MS + 10);
    harness.group.tick(NOW_MS + 10);
    assert_eq!(table.len(), 5_001);
    // One at a time, and each is followed by the next.
    let entries = apply_all(&mut harness, NOW_MS + 10);
    assert!((5..50).contains(&entries), "{entries}");
    assert_eq!(table.len(), 1);
    harness.group.tick(NOW_MS + 10);
    assert_eq!(harness.group.take(0), None);
    assert_eq!(harness.outcomes().len(), 1, "nobody else learns of it");
}

#[test]
fn the_log_does_not_collect_what_has_not_expired_by_its_own_time() {
    let mut harness = Harness::new();
    harness.submit(1, set_until(b"k", NOW_MS + 10), 1);
    apply_all(&mut harness, NOW_MS);
    // This node's clock is ahead.
    harness.group.tick(NOW_MS + 10);
    apply_all(&mut harness, NOW_MS + 9);
    let table = harness.group.databases().table(3).clone();
    assert_eq!(table.len(), 1);
    harness.group.tick(NOW_MS + 10);
    apply_all(&mut harness, NOW_MS + 10);
    assert_eq!(table.len(), 0);
}

#[test]
fn a_scheduled_clear_takes_effect_with_the_next_entry_or_a_time_mark() {
    let mut harness = Harness::new();
    let clear = |at_ms| {
        let mut records = set_until(b"k", NOW_MS + 1_000_000);
        record::put_command(
            &mut records,
            Home::of(3),
            &Command::Database(DatabaseCommand::Clear { at_ms: Some(at_ms) }),
        );
        records
    };
    let table = harness.group.databases().table(3).clone();
    harness.submit(1, clear(NOW_MS + 10), 2);
    apply_all(&mut harness, NOW_MS);
    harness.group.tick(NOW_MS + 9);
    assert_eq!(apply_all(&mut harness, NOW_MS + 9), 0);
    assert!(table.read(b"k", NOW_MS + 10, |entry| entry.is_none()));
    assert_eq!(table.len(), 1);
    harness.group.tick(NOW_MS + 10);
    assert_eq!(apply_all(&mut harness, NOW_MS + 10), 1);
    assert_eq!(table.len(), 0);
    harness.outcomes();

    harness.submit(2, clear(NOW_MS + 20), 2);
    apply_all(&mut harness, NOW_MS + 11);
    harness.submit(3, set_until(b"other", NOW_MS + 1_000), 1);
    apply_all(&mut harness, NOW_MS + 20);
    assert_eq!(table.len(), 1, "the clear came before the entry's own records");
    let outcomes = harness.outcomes();
    assert_eq!(outcomes.last(), Some(&(3, Seen::Applied(vec![done(&[Call::Stored(3)])]))));
}

#[test]
fn nothing_is_collected_while_the_gate_is_closed() {
    let mut harness = Harness::new();
    harness.submit(1, set_until(b"k", NOW_MS + 10), 1);
    apply_all(&mut harness, NOW_MS);
    harness.group.set_gate(todana_group::Gate::ReadOnly, "the disk is full");
    harness.group.tick(NOW_MS + 10);
    assert_eq!(harness.group.take(0), None);
    harness.group.set_gate(todana_group::Gate::Open, "");
    harness.group.tick(NOW_MS + 10);
    // Lost before it was written: the next tick submits another.
    harness.group.forget(harness.seal().sequence);
    harness.group.tick(NOW_MS + 10);
    assert_eq!(apply_all(&mut harness, NOW_MS + 10), 1);
    assert_eq!(harness.group.databases().table(3).len(), 0);
}
