//! What applying an entry does, whatever the entry is.

use todana_command::{
    Command, Condition, Error, Expires, KeyCommand, LoggedSeen, LoggedWatch, Refusal, Set, Status,
    StringCommand,
};
use todana_group::record::{self, TableOptions};
use todana_group::{Applied, Group, GroupOptions, Home, Newer};
use todana_table::KeyOrder;

use crate::harness::{
    Call, Harness, NOW_MS, Seen, append, command, done, options, read, set, value,
};

const DONE: Applied = Applied::Done { snapshot_due: false };

#[test]
fn replies_come_in_the_order_of_the_records_and_reads_see_the_writes_before_them() {
    let mut harness = Harness::new();
    let records = [set(0, b"a", b"1"), read(0, b"a"), set(0, b"a", b"2"), read(0, b"a")].concat();
    let value = |value: &[u8]| done(&[Call::Value(value.to_vec())]);
    let expected = [done(&[Call::Stored(1)]), value(b"1"), done(&[Call::Stored(2)]), value(b"2")];
    assert_eq!(harness.commit(records, 4), expected);
    let figures = harness.group.figures();
    assert_eq!((figures.batches, figures.records, figures.applied_index), (1, 4, 1));
}

#[test]
fn a_submission_without_records_is_answered_in_its_place() {
    let mut harness = Harness::new();
    harness.submit(1, Vec::new(), 0);
    harness.submit(2, set(0, b"a", b"1"), 1);
    harness.submit(3, Vec::new(), 0);
    let sealed = harness.seal();
    harness.apply(&sealed.bytes);
    let stored = Seen::Applied(vec![done(&[Call::Stored(1)])]);
    let nothing = Seen::Applied(Vec::new());
    assert_eq!(harness.outcomes(), [(1, nothing.clone()), (2, stored), (3, nothing)]);
}

#[test]
fn another_node_applies_the_same_and_answers_nobody() {
    let (here, mut there) = (Harness::new(), Harness::of(options(2)));
    here.submit(1, [append(b"k", b"x"), read(0, b"k"), append(b"k", b"y")].concat(), 3);
    let sealed = here.seal();
    assert_eq!(there.apply(&sealed.bytes), DONE);
    assert_eq!(there.value(b"k"), Some(b"xy".to_vec()));
    assert_eq!(there.outcomes(), []);
    assert_eq!(there.group.figures().records, 3);
}

#[test]
fn a_batch_that_is_in_the_log_twice_is_applied_once() {
    let mut harness = Harness::new();
    harness.submit(1, append(b"k", b"x"), 1);
    let sealed = harness.seal();
    (0..3).for_each(|_| assert_eq!(harness.apply(&sealed.bytes), DONE));
    assert_eq!(harness.value(b"k"), Some(b"x".to_vec()));
    assert_eq!(harness.outcomes().len(), 1);
    assert_eq!(harness.group.figures().duplicates, 2);
}

#[test]
fn the_time_of_the_log_never_goes_back() {
    let mut harness = Harness::new();
    let expire = |at_ms| {
        let mut records = set(0, b"k", b"v");
        let expires = Expires::At(at_ms);
        let command =
            Command::Key(KeyCommand::Expire { key: b"k", expires, when: Default::default() });
        record::put_command(&mut records, Home::of(0), &command);
        records
    };
    for (time_ms, at_ms, is_left) in
        [(NOW_MS, NOW_MS + 1, true), (NOW_MS + 5, NOW_MS + 1, false), (NOW_MS, NOW_MS + 5, false)]
    {
        harness.submit(1, expire(at_ms), 2);
        let sealed = harness.seal();
        harness.apply_at(&sealed.bytes, time_ms);
        assert_eq!(harness.value(b"k").is_some(), is_left, "{time_ms}");
    }
    assert_eq!(harness.group.figures().log_time_ms, NOW_MS + 5);
}

#[test]
fn a_broken_record_gets_an_error_and_does_not_hide_the_next() {
    let mut harness = Harness::new();
    let mut broken = set(0, b"b", b"2");
    broken[6] = 0xff; // The format of the command.
    let mut longer = command(0, &Command::String(StringCommand::Get { key: b"a" }));
    longer.push(0);
    longer[1] += 1;
    let records = [set(0, b"a", b"1"), broken, longer, set(0, b"d", b"4")].concat();
    let internal = (Vec::new(), Status::Internal);
    let expected = [done(&[Call::Stored(1)]), internal.clone(), internal, done(&[Call::Stored(2)])];
    assert_eq!(harness.commit(records, 4), expected);
    assert_eq!(harness.group.figures().malformed, 2);
}

#[test]
fn a_record_without_a_frame_is_the_last() {
    let mut harness = Harness::new();
    harness.submit(1, [set(0, b"a", b"1"), set(0, b"b", b"2")].concat(), 2);
    harness.submit(2, set(0, b"c", b"3"), 1);
    let mut sealed = harness.seal();
    let third = set(0, b"c", b"3").len();
    sealed.bytes.truncate(sealed.bytes.len() - third - 1);
    assert_eq!(harness.apply(&sealed.bytes), DONE);
    let first = Seen::Applied(vec![done(&[Call::Stored(1)]), (Vec::new(), Status::Internal)]);
    assert_eq!(harness.outcomes(), [(1, first), (2, Seen::Unknown)]);
}

#[test]
fn an_entry_of_a_newer_version_is_not_applied_and_nothing_of_it_is() {
    let mut harness = Harness::new();
    harness.submit(1, set(0, b"a", b"1"), 1);
    let mut sealed = harness.seal();
    sealed.bytes.extend_from_slice(&[99, 0, 0, 0, 0]);
    assert_eq!(harness.apply(&sealed.bytes), Applied::Newer(Newer::Kind(99)));
    assert_eq!(harness.value(b"a"), None);
    assert_eq!(harness.apply(&[]), DONE);
    assert_eq!(harness.apply(&[0x83, 1]), Applied::Newer(Newer::Magic(0x83)));
    assert_eq!(harness.apply(&[0xb1, 5]), Applied::Newer(Newer::Format(5)));
    assert_eq!(harness.apply(&[0xb1, 1, 0]), DONE);
    assert_eq!(harness.group.figures().malformed, 2);
    // The batch is still in flight: a newer version may apply it.
    assert_eq!((harness.outcomes(), harness.group.figures().in_flight), (vec![], 1));
}

#[test]
fn a_read_that_writes_is_refused() {
    let mut harness = Harness::new();
    let mut records = Vec::new();
    record::put_read(
        &mut records,
        Home::of(0),
        &Command::String(StringCommand::Take { key: b"a" }),
    );
    let records = [set(0, b"a", b"1"), records].concat();
    let expected = [done(&[Call::Stored(1)]), (Vec::new(), Status::Internal)];
    assert_eq!(harness.commit(records, 2), expected);
    assert_eq!(harness.value(b"a"), Some(b"1".to_vec()));
}

#[test]
fn named_tables_are_created_and_dropped_by_the_log() {
    let mut harness = Harness::new();
    let order = Some(KeyOrder::default());
    let ordered = TableOptions { order, shards: Some(64), opaque: b"anything" };
    let mut records = Vec::new();
    record::put_create_table(&mut records, b"orders", &ordered);
    record::put_create_table(&mut records, b"orders", &TableOptions::default());
    record::put_create_table(&mut records, b"users", &TableOptions::default());
    records.extend_from_slice(&set(16, b"a", b"1"));
    records.extend_from_slice(&set(17, b"a", b"2"));
    records.extend_from_slice(&set(18, b"a", b"3"));
    let expected = [
        done(&[Call::Integer(16)]),
        done(&[Call::Refused(Refusal::Present)]),
        done(&[Call::Integer(17)]),
        done(&[Call::Stored(1)]),
        done(&[Call::Stored(1)]),
        done(&[Call::Error(Error::NoSuchDatabase)]),
    ];
    assert_eq!(harness.commit(records, 6), expected);
    let table = |group: &Group, name: &[u8]| group.table(name).expect("it exists");
    let orders = table(&harness.group, b"orders");
    assert_eq!(
        (orders.home().number(), orders.name(), orders.options()),
        (16, &b"orders"[..], ordered)
    );
    assert_eq!(orders.table().shards(), 64);
    assert_eq!(value(orders.table(), b"a"), Some(b"1".to_vec()));
    assert_eq!(value(table(&harness.group, b"users").table(), b"a"), Some(b"2".to_vec()));
    assert_eq!(harness.value(b"a"), None);

    let mut records = Vec::new();
    record::put_drop_table(&mut records, b"orders");
    record::put_drop_table(&mut records, b"orders");
    record::put_create_table(&mut records, b"orders", &TableOptions::default());
    let expected =
        [done(&[Call::Done]), done(&[Call::Refused(Refusal::Absent)]), done(&[Call::Integer(18)])];
    assert_eq!(harness.commit(records, 3), expected);
    assert_eq!(value(orders.table(), b"a"), None, "a dropped table is empty");
    let ids: Vec<u64> = harness.group.tables().iter().map(|table| table.home().number()).collect();
    assert_eq!(ids, [17, 18]);
}

#[test]
fn a_panic_of_the_receiver_does_not_stop_the_log() {
    struct Panics;
    impl todana_group::Deliver for Panics {
        fn deliver(&self, _: Vec<(todana_group::Ticket, todana_group::Outcome)>) {
            panic!("a bug of the receiver (expected in this test)");
        }
    }
    let mut harness = Harness::new();
    let mut first = harness.submission(1, set(0, b"a", b"1"), 1);
    first.deliver = std::sync::Arc::new(Panics);
    let second = harness.submission(2, set(0, b"b", b"2"), 1);
    todana_group::Submit::submit(&*harness.group, &mut vec![first, second]);
    let sealed = harness.seal();
    assert_eq!(harness.apply(&sealed.bytes), DONE);
    assert_eq!(harness.outcomes(), [(2, Seen::Applied(vec![done(&[Call::Stored(2)])]))]);
}

#[test]
fn conditions_see_the_state_at_their_place_in_the_log() {
    let mut harness = Harness::new();
    let mut records = set(0, b"a", b"1");
    for version in [1, 1] {
        let condition = Condition::IfVersion(version);
        let command = todana_command::Set { condition, ..todana_command::Set::new(b"a", b"2") };
        record::put_command(
            &mut records,
            Home::of(0),
            &Command::String(StringCommand::Set(command)),
        );
    }
    let expected = [
        done(&[Call::Stored(1)]),
        done(&[Call::Stored(2)]),
        done(&[Call::Refused(Refusal::VersionDiffers)]),
    ];
    assert_eq!(harness.commit(records, 3), expected);
}

#[test]
fn a_transaction_is_one_step_if_its_watches_hold() {
    let mut harness = Harness::new();
    let set = |value| (0, Command::String(StringCommand::Set(Set::new(b"b", value))));
    let get = || (0, Command::String(StringCommand::Get { key: b"b" }));
    let watch = |key, seen| LoggedWatch { database: 0, table: 0, key, seen };
    let mut records = set_a(b"1");
    let holds = [
        watch(&b"a"[..], LoggedSeen::Version(1)),
        watch(b"b", LoggedSeen::AbsentSince(0)),
        watch(b"c", LoggedSeen::Absent),
    ];
    record::put_transaction(&mut records, Home::of(0), &holds, &[set(b"2"), get()]);
    record::put_transaction(&mut records, Home::of(0), &holds, &[set(b"3"), get()]);
    let expected = [
        done(&[Call::Stored(1)]),
        done(&[Call::Stored(2), Call::Value(b"2".to_vec())]),
        (Vec::new(), Status::WatchFailed),
    ];
    assert_eq!(harness.commit(records, 3), expected);

    // No client can write it. The rest is executed, as on members of earlier versions.
    let mut records = Vec::new();
    record::put_transaction(&mut records, Home::of(0), &[], &[(16, get().1), set(b"2")]);
    let nowhere = Call::Error(Error::NoSuchDatabase);
    assert_eq!(harness.commit(records, 1), [done(&[nowhere, Call::Stored(3)])]);

    let mut records = Vec::new();
    record::put_create_table(&mut records, b"named", &TableOptions::default());
    record::put_transaction(
        &mut records,
        Home::of(16),
        &[watch(b"a", LoggedSeen::Absent)],
        &[set(b"4")],
    );
    record::put_transaction(
        &mut records,
        Home::of(16),
        &[watch(b"b", LoggedSeen::Absent)],
        &[set(b"5")],
    );
    record::put_transaction(&mut records, Home::of(99), &[], &[set(b"6")]);
    let expected = [
        done(&[Call::Integer(16)]),
        done(&[Call::Stored(1)]),
        (Vec::new(), Status::WatchFailed),
        done(&[Call::Error(Error::NoSuchDatabase)]),
    ];
    assert_eq!(harness.commit(records, 4), expected);
    let named = harness.group.table(b"named").expect("it exists");
    assert_eq!(value(named.table(), b"b"), Some(b"4".to_vec()));
    assert_eq!(harness.value(b"b"), Some(b"2".to_vec()));
}

fn set_a(value: &[u8]) -> Vec<u8> {
    set(0, b"a", value)
}

/// The option may be lowered between two starts of a node.
#[test]
fn the_limit_of_values_is_that_of_the_node_where_a_command_was_submitted() {
    let harness = |value_bytes_max| Harness::of(GroupOptions { value_bytes_max, ..options(1) });
    let (mut origin, mut later) = (harness(100), harness(10));
    let append = Command::String(StringCommand::SetRange { key: b"k", offset: 50, bytes: b"end" });
    origin.submit(1, command(0, &append), 1);
    let sealed = origin.seal();
    for harness in [&mut origin, &mut later] {
        harness.apply(&sealed.bytes);
        assert_eq!(harness.value(b"k").map(|value| value.len()), Some(53));
    }
}
