//! The time of the log: what advances it, and what does not.

use todana_command::{Command, DatabaseCommand, FORMAT_MIN, StringCommand};
use todana_group::{Applied, Home, Stamp, Submit, record};

use crate::harness::{Harness, NOW_MS, command, options, set};
use crate::snapshots::snapshot;

const HOUR_MS: u64 = 3_600_000;

fn log_ms(harness: &Harness) -> u64 {
    harness.group.figures().log_time_ms
}

/// A batch of this node.
fn batch(harness: &Harness) -> Vec<u8> {
    harness.submit(1, set(0, b"a", b"1"), 1);
    harness.seal().bytes
}

fn set_time(time_ms: u64) -> Vec<u8> {
    let mut records = Vec::new();
    record::put_set_time(&mut records, time_ms);
    records
}

#[test]
fn a_batch_carries_the_time_and_the_time_of_the_entry_counts_for_nothing() {
    let mut harness = Harness::new();
    let unstamped = batch(&harness);
    harness.group.begin_time(NOW_MS);
    let stamped = batch(&harness);
    assert_eq!((unstamped[1], stamped[1]), (3, 4));
    harness.apply_at(&unstamped, NOW_MS - 5);
    assert_eq!(log_ms(&harness), NOW_MS - 5);
    harness.apply_at(&stamped, NOW_MS + HOUR_MS);
    let carried_ms = log_ms(&harness);
    assert!((NOW_MS..NOW_MS + HOUR_MS).contains(&carried_ms));
    // Of a node that does not know yet that all members read the format.
    let other = batch(&Harness::of(options(2)));
    harness.apply_at(&other, NOW_MS + HOUR_MS);
    assert_eq!(log_ms(&harness), carried_ms);
}

#[test]
fn a_member_goes_on_writing_the_format_that_is_in_the_log() {
    let mut harness = Harness::new();
    harness.group.begin_time(NOW_MS);
    let stamped = batch(&harness);
    harness.group.set_common_formats(Some((FORMAT_MIN, FORMAT_MIN)));
    assert_eq!((batch(&harness)[1], harness.group.format()), (FORMAT_MIN, FORMAT_MIN));
    harness.apply(&stamped);
    assert_eq!((batch(&harness)[1], harness.group.format()), (4, 4));
}

#[test]
fn the_time_goes_on_between_entries_and_readers_ask_for_it() {
    let mut harness = Harness::new();
    assert_eq!(harness.group.now_ms(), None);
    harness.group.begin_time(NOW_MS);
    assert!(harness.group.now_ms() >= Some(NOW_MS));
    // Another member is ahead.
    let other = Harness::of(options(2));
    other.group.begin_time(NOW_MS + HOUR_MS);
    harness.apply(&batch(&other));
    assert!(harness.group.now_ms() >= Some(NOW_MS + HOUR_MS));
}

#[test]
fn an_operator_sets_the_time_back_and_what_was_sent_before_does_not_undo_it() {
    let mut harness = Harness::new();
    harness.group.begin_time(NOW_MS + HOUR_MS);
    let (first, late) = (batch(&harness), batch(&harness));
    harness.apply(&first);
    harness.submit(1, set_time(NOW_MS), 1);
    let sealed = harness.seal();
    harness.apply(&sealed.bytes);
    assert_eq!(log_ms(&harness), NOW_MS);
    harness.apply(&late);
    assert_eq!(log_ms(&harness), NOW_MS, "a batch of an earlier era");
    let stamp = harness.group.clock().stamp().expect("set");
    assert!(stamp.era == 1 && stamp.ms < NOW_MS + HOUR_MS);
    let now = batch(&harness);
    harness.apply(&now);
    assert!((NOW_MS..NOW_MS + HOUR_MS).contains(&log_ms(&harness)));
    assert_eq!(harness.group.figures().malformed, 0);
}

/// A transaction finds the table as a command does.
#[test]
fn what_is_cleared_at_the_new_time_is_cleared_before_the_next_record() {
    let mut harness = Harness::new();
    harness.group.begin_time(NOW_MS);
    harness.commit(
        command(0, &Command::Database(DatabaseCommand::Clear { at_ms: Some(NOW_MS + HOUR_MS) })),
        1,
    );
    harness.commit(set(0, b"before", b"1"), 1);
    let write = Command::String(StringCommand::SetRange { key: b"a", offset: 0, bytes: b"2" });
    let mut records = set_time(NOW_MS + 2 * HOUR_MS);
    record::put_transaction(&mut records, Home::of(0), &[], &[(0, write)]);
    harness.commit(records, 2);
    assert_eq!((harness.value(b"before"), harness.value(b"a")), (None, Some(b"2".to_vec())));
    harness.commit(set(0, b"b", b"3"), 1);
    assert_eq!(harness.value(b"a"), Some(b"2".to_vec()));
}

#[test]
fn the_time_is_set_only_if_all_members_read_it() {
    let harness = Harness::new();
    harness.group.begin_time(NOW_MS);
    harness.group.set_common_formats(Some((3, 3)));
    harness.submit(1, set_time(NOW_MS), 1);
    assert!(harness.group.take(0).is_none());
}

#[test]
fn a_snapshot_keeps_the_era_and_that_batches_carry_the_time() {
    let mut harness = Harness::new();
    harness.group.begin_time(NOW_MS + HOUR_MS);
    harness.commit(set(0, b"a", b"1"), 1);
    harness.commit(set_time(NOW_MS), 1);
    let place = snapshot(&harness.group);

    let mut restored = Harness::of(options(2));
    restored.group.set_common_formats(Some((FORMAT_MIN, FORMAT_MIN)));
    restored.group.restore(&place.0, 1).expect("whole");
    restored.group.begin_time(NOW_MS);
    let stamp = restored.group.clock().stamp().expect("set");
    assert_eq!((stamp.era, log_ms(&restored)), (1, NOW_MS));
    assert_eq!(restored.group.format(), 4);
    // Without a time, or with one of an earlier era.
    let unstamped = batch(&Harness::of(options(3)));
    assert_eq!(
        restored.apply_at(&unstamped, NOW_MS + HOUR_MS),
        Applied::Done { snapshot_due: false }
    );
    assert_eq!(log_ms(&restored), NOW_MS);
    restored.group.clock().follow(Stamp { era: 0, ms: NOW_MS + HOUR_MS }, 0);
    assert!(restored.group.now_ms() < Some(NOW_MS + HOUR_MS));
}
