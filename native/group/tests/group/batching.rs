//! What waits, what a batch holds, and when the batcher is woken.

use std::sync::Arc;

use todana_command::{
    BitOperator, BitsCommand, Command, DatabaseCommand, KeyCommand, LONG_UNITS, StringCommand,
};
use todana_group::record::TableOptions;
use todana_group::{
    Applied, BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Deliver, Gate, GroupOptions, Home, Outcome,
    Sealed, Slice, Submission, Submit, Ticket, TooLong, record,
};

use crate::harness::{
    Call, Harness, NOW_MS, SLICE, Seen, append, command, delete, done, options, set,
};

#[test]
fn the_batcher_is_woken_once_until_it_finds_nothing() {
    let harness = Harness::new();
    harness.submit(1, set(0, b"a", b"1"), 1);
    harness.submit(2, set(0, b"b", b"2"), 1);
    assert_eq!(harness.wakes(), 1);
    assert_eq!(harness.seal().sequence, 1);
    // It has a batch in flight, and comes again without being woken.
    harness.submit(3, set(0, b"c", b"3"), 1);
    assert_eq!(harness.wakes(), 1);
    assert_eq!(harness.seal().sequence, 2);
    assert_eq!(harness.group.take(0), None);
    harness.submit(4, set(0, b"d", b"4"), 1);
    assert_eq!(harness.wakes(), 2);
    harness.group.submit(&mut Vec::new());
    assert_eq!(harness.wakes(), 2);
}

#[test]
fn little_waits_for_the_batch_in_flight_and_much_does_not() {
    let harness = Harness::new();
    harness.submit(1, set(0, b"a", b"1"), 1);
    harness.seal();
    harness.submit(2, set(0, b"b", b"2"), 1);
    assert_eq!(harness.group.take(1), None);
    harness.submit(3, set(0, b"c", &[b'x'; 16 << 10]), 1);
    assert!(harness.group.take(1).is_some_and(|it| it.sequence == 2), "both");
    harness.submit(4, set(0, b"d", b"4"), 1);
    assert_eq!(harness.group.take(2), None);
    assert_eq!(harness.wakes(), 1, "something waits: the batcher comes again by itself");
    assert_eq!(harness.seal().sequence, 3);
    assert_eq!(harness.group.take(0), None);
    harness.submit(5, set(0, b"e", b"5"), 1);
    assert_eq!(harness.wakes(), 2);
}

/// Submits scripts, or what else takes this number of units.
fn submit_long(harness: &Harness, number: u64, units: u64) {
    let submission = harness.submission(number, set(0, b"long", b"1"), 1);
    harness.group.submit(&mut vec![Submission { units, ..submission }]);
}

/// The tickets of the submissions in a batch, which is applied.
fn applied(harness: &mut Harness, sealed: &Sealed) -> Vec<u64> {
    harness.apply(&sealed.bytes);
    harness.outcomes().into_iter().map(|(number, _)| number).collect()
}

#[test]
fn long_submissions_wait_for_each_other_and_others_pass_them() {
    let mut harness = Harness::new();
    submit_long(&harness, 1, LONG_UNITS);
    submit_long(&harness, 2, u64::MAX);
    submit_long(&harness, 3, LONG_UNITS);
    harness.submit(4, set(0, b"a", b"1"), 1);
    let others = harness.seal();
    let long = harness.group.take(1).expect("behind those that waited, without a minimum");
    assert_eq!(harness.group.take(2), None, "the next one is too long to go with it");
    let wakes = harness.wakes();
    harness.submit(5, set(0, b"a", b"1"), 1);
    assert_eq!(harness.wakes(), wakes + 1, "it does not wait for long ones");
    assert_eq!(harness.group.take(2), None, "little waits for the others");
    assert_eq!(applied(&mut harness, &others), [4]);
    let ahead = harness.group.take(1).expect("only a long one is on its way");
    let wakes = harness.wakes();
    assert_eq!(applied(&mut harness, &long), [1]);
    assert_eq!(harness.wakes(), wakes + 1, "the batcher may have come before");
    harness.submit(6, set(0, b"a", b"1"), 1);
    let others = harness.group.take(1).expect("before the long one that may go now");
    let long = harness.group.take(2).expect("the long one");
    assert_eq!(applied(&mut harness, &ahead), [5]);
    assert_eq!(applied(&mut harness, &others), [6]);
    assert_eq!(applied(&mut harness, &long), [2]);
    let long = harness.seal();
    let wakes = harness.wakes();
    assert_eq!(applied(&mut harness, &long), [3]);
    assert_eq!(harness.wakes(), wakes, "no other one waits");
    assert_eq!(harness.group.take(0), None);
    submit_long(&harness, 7, LONG_UNITS);
    assert_eq!(harness.wakes(), wakes + 1);
}

#[test]
fn long_submissions_share_batches_and_are_on_their_way_together_within_a_limit() {
    let mut harness = Harness::new();
    (1..=4).for_each(|number| submit_long(&harness, number, 5_000));
    let first = harness.seal();
    assert_eq!(harness.group.take(0), None);
    assert_eq!(applied(&mut harness, &first), [1, 2, 3]);
    let second = harness.seal();
    submit_long(&harness, 5, 11_385);
    assert_eq!(harness.group.take(0), None, "16,385 units");
    submit_long(&harness, 6, LONG_UNITS);
    assert!(harness.group.withdraw(Ticket { place: (0, 0), number: 5 }));
    let third = harness.seal();
    assert_eq!(applied(&mut harness, &second), [4]);
    assert_eq!(applied(&mut harness, &third), [6]);
    assert_eq!(harness.group.figures().queue_bytes, 0);
}

#[test]
fn others_cannot_keep_long_submissions_waiting() {
    for seal in [seal, seal_large] {
        let mut harness = Harness::new();
        let large = vec![b'x'; BATCH_BYTES_MAX];
        for number in 1..=2 {
            let long = harness.submission(number, set(0, b"long", &large), 1);
            harness.group.submit(&mut vec![Submission { units: u64::MAX, ..long }]);
        }
        (3..=6).for_each(|number| harness.submit(number, set(0, b"k", &large), 1));
        let mut order = Vec::new();
        for _ in 0..6 {
            let sealed = seal(&harness);
            order.extend(applied(&mut harness, &sealed));
        }
        assert_eq!(order, [3, 1, 4, 2, 5, 6]);
    }
}

fn seal(harness: &Harness) -> Sealed {
    harness.seal()
}

/// As a caller that has no time for a submission, and another one that has, after more have come.
fn seal_large(harness: &Harness) -> Sealed {
    let Err(TooLong { .. }) = harness.group.take_within(0, 1_000) else { panic!("it is large") };
    harness.seal()
}

#[test]
fn a_batch_of_long_submissions_that_is_given_up_makes_room_for_the_next() {
    let harness = Harness::new();
    (1..=3).for_each(|number| submit_long(&harness, number, u64::MAX));
    let ticket = |number| Ticket { place: (0, 0), number };
    assert!(harness.group.withdraw(ticket(2)) && !harness.group.withdraw(ticket(2)));
    let long = harness.seal();
    assert_eq!(harness.group.take(0), None);
    harness.group.forget(long.sequence);
    let mut broken = harness.submission(4, vec![1], 1);
    broken.units = LONG_UNITS;
    harness.group.submit(&mut vec![broken]);
    let long = harness.seal();
    harness.group.forget(long.sequence);
    assert_eq!(harness.group.take(0), None, "records that are none are dropped");
    let tickets: Vec<u64> = harness.outcomes().into_iter().map(|(number, _)| number).collect();
    assert_eq!(tickets, [1, 3, 4]);
    assert_eq!(harness.group.figures().queue_bytes, 0);
}

#[test]
fn the_outcomes_of_a_batch_come_together() {
    #[derive(Default)]
    struct Calls(parking_lot::Mutex<Vec<Vec<u64>>>);
    impl Deliver for Calls {
        fn deliver(&self, outcomes: Vec<(Ticket, Outcome)>) {
            self.0.lock().push(outcomes.iter().map(|(ticket, _)| ticket.number).collect());
        }
    }
    let mut harness = Harness::new();
    let (ours, others) = (Arc::new(Calls::default()), Arc::new(Calls::default()));
    for number in 0..5 {
        let mut submission = harness.submission(number, set(0, b"a", b"1"), 1);
        submission.deliver = if number == 3 { others.clone() } else { ours.clone() };
        harness.group.submit(&mut vec![submission]);
    }
    let sealed = harness.seal();
    harness.apply(&sealed.bytes);
    assert_eq!(*ours.0.lock(), [vec![0, 1, 2], vec![4]]);
    assert_eq!(*others.0.lock(), [vec![3]]);
}

#[test]
fn a_batch_is_bounded_by_bytes_and_records_and_keeps_submissions_whole() {
    let harness = Harness::new();
    let large = vec![b'x'; BATCH_BYTES_MAX / 2];
    (0..5).for_each(|n| harness.submit(n, set(0, b"k", &large), 1));
    let lengths: Vec<usize> =
        std::iter::from_fn(|| harness.group.take(0).map(|it| it.bytes.len() / large.len()))
            .collect();
    assert_eq!(lengths, [1, 1, 1, 1, 1], "two and their frames exceed the limit");
    let half: Vec<u8> = (0..BATCH_RECORDS_MAX / 2).flat_map(|_| set(0, b"k", b"v")).collect();
    (0..5).for_each(|n| harness.submit(n, half.clone(), BATCH_RECORDS_MAX / 2));
    let lengths: Vec<usize> =
        std::iter::from_fn(|| harness.group.take(0).map(|it| it.bytes.len() / half.len()))
            .collect();
    assert_eq!(lengths, [2, 2, 1]);
}

#[test]
fn a_submission_that_exceeds_a_batch_travels_alone() {
    let harness = Harness::new();
    let value = vec![b'x'; 3 * BATCH_BYTES_MAX];
    harness.submit(1, set(0, b"a", b"1"), 1);
    harness.submit(2, set(0, b"large", &value), 1);
    harness.submit(3, set(0, b"b", b"2"), 1);
    let sealed: Vec<usize> =
        std::iter::from_fn(|| harness.group.take(0).map(|it| it.bytes.len())).collect();
    assert_eq!(sealed.len(), 3);
    assert!(sealed[1] > value.len() && sealed[0] < 64 && sealed[2] < 64);
}

#[test]
fn the_queue_has_room_again_when_a_batch_was_taken() {
    let harness = Harness::new();
    let value = vec![b'x'; 1 << 20];
    assert!(harness.group.has_room(0));
    harness.submit(1, set(0, b"k", &value), 1);
    assert!(!harness.group.has_room(0) && harness.group.figures().queue_bytes > value.len());
    harness.seal();
    assert!(harness.group.has_room(0) && harness.group.figures().queue_bytes == 0);
}

#[test]
fn long_submissions_leave_room_for_others() {
    let harness = Harness::new();
    let value = vec![b'x'; 1 << 20];
    let room = |units| harness.group.has_room(units);
    let long = harness.submission(1, set(0, b"long", &value), 1);
    harness.group.submit(&mut vec![Submission { units: LONG_UNITS, ..long }]);
    assert!(!room(LONG_UNITS) && room(LONG_UNITS - 1));
    // A quarter is theirs.
    harness.submit(2, set(0, b"short", &value[..100 << 10]), 1);
    assert!(!room(LONG_UNITS) && room(0));
    harness.submit(3, set(0, b"short", &value[..200 << 10]), 1);
    assert!(!room(LONG_UNITS) && !room(0));
    // It is the room of what waits, not of what has passed.
    assert!(harness.seal().bytes.len() < 150 << 10);
    assert!(harness.seal().bytes.len() > 1 << 20);
    assert!(room(LONG_UNITS) && room(0));
    assert!(harness.seal().bytes.len() < 300 << 10);
    assert_eq!(harness.group.figures().queue_bytes, 0);
}

#[test]
fn a_withdrawn_submission_is_in_no_batch() {
    let mut harness = Harness::new();
    harness.submit(1, set(0, b"a", b"1"), 1);
    harness.submit(2, set(0, b"b", b"2"), 1);
    let ticket = |number| Ticket { place: (0, 0), number };
    assert!(harness.group.withdraw(ticket(1)));
    assert!(!harness.group.withdraw(ticket(1)));
    let sealed = harness.seal();
    assert!(!harness.group.withdraw(ticket(2)), "it is in flight");
    harness.apply(&sealed.bytes);
    assert_eq!(harness.value(b"a"), None);
    assert_eq!(harness.value(b"b"), Some(b"2".to_vec()));
    assert_eq!(harness.outcomes(), [(2, Seen::Applied(vec![done(&[Call::Stored(1)])]))]);
    assert_eq!(harness.group.figures().queue_bytes, 0);
}

#[test]
fn withdrawn_submissions_are_freed_when_they_are_half_of_the_queue() {
    let mut harness = Harness::new();
    let ticket = |number| Ticket { place: (0, 0), number };
    (0..100).for_each(|number| harness.submit(number, set(0, b"k", &[b'x'; 1_000]), 1));
    let full = harness.group.figures().queue_bytes;
    (1..=50).for_each(|number| assert!(harness.group.withdraw(ticket(number))));
    assert_eq!(harness.group.figures().queue_bytes, full, "they still take memory");
    (51..=99).for_each(|number| assert!(harness.group.withdraw(ticket(number))));
    let left = harness.group.figures().queue_bytes;
    assert!(left <= full / 50, "{left} of {full}");
    let sealed = harness.seal();
    assert_eq!(harness.group.take(0), None);
    harness.apply(&sealed.bytes);
    assert_eq!(harness.outcomes(), [(0, Seen::Applied(vec![done(&[Call::Stored(1)])]))]);
    assert_eq!(harness.group.figures().queue_bytes, 0);
}

#[test]
fn as_many_withdrawals_as_there_are_submissions_do_not_search_the_queue() {
    // Two of 100,000 positions each would be 10^10 steps.
    const SUBMISSIONS: u64 = 200_000;
    let harness = Harness::of(GroupOptions { queue_bytes_max: usize::MAX, ..options(1) });
    let mut submissions =
        (0..SUBMISSIONS).map(|it| harness.submission(it, Vec::new(), 0)).collect();
    harness.group.submit(&mut submissions);
    let ticket = |number| Ticket { place: (0, 0), number };
    let withdrawn = (0..SUBMISSIONS).rev().filter(|it| harness.group.withdraw(ticket(*it)));
    assert_eq!(withdrawn.count() as u64, SUBMISSIONS);
    assert_eq!((harness.group.take(0), harness.group.figures().queue_bytes), (None, 0));
}

#[test]
fn a_closing_gate_reports_nothing_about_withdrawn_submissions() {
    let harness = Harness::new();
    (1..=4).for_each(|number| harness.submit(number, set(0, b"a", b"1"), 1));
    assert!(harness.group.withdraw(Ticket { place: (0, 0), number: 2 }));
    harness.group.set_gate(Gate::Closed, "the node stops");
    let dropped = [1, 3, 4].map(|number| (number, Seen::Dropped));
    assert_eq!(harness.outcomes(), dropped);
    assert_eq!(harness.group.figures().queue_bytes, 0);
}

#[test]
fn a_long_submission_waits_for_a_caller_that_has_time() {
    let harness = Harness::new();
    harness.submit(1, set(0, b"a", b"1"), 1);
    harness.submit(2, set(0, b"b", &[b'x'; 300_000]), 1);
    harness.submit(3, set(0, b"c", b"3"), 1);
    let first = harness.group.take_within(0, 256 << 10).expect("it is short").expect("it waits");
    assert!(first.bytes.len() < 100);
    for _ in 0..2 {
        let long = harness.group.take_within(0, 256 << 10).expect_err("it is long");
        assert!(long.bytes > 300_000);
    }
    assert!(harness.seal().bytes.len() > 300_000);
    assert!(harness.group.take_within(0, 256 << 10).is_ok_and(|sealed| sealed.is_some()));
    assert_eq!(harness.group.take_within(0, 256 << 10), Ok(None));
}

#[test]
fn a_closed_gate_drops_what_waits_and_what_comes() {
    let mut harness = Harness::new();
    harness.submit(1, set(0, b"a", b"1"), 1);
    let sealed = harness.seal();
    harness.submit(2, set(0, b"b", b"2"), 1);
    for gate in [Gate::ReadOnly, Gate::Closed] {
        harness.group.set_gate(gate, "the disk is full");
        assert_eq!(harness.group.gate(), gate);
        harness.submit(3, set(0, b"c", b"3"), 1);
    }
    assert_eq!(harness.outcomes(), [(2, Seen::Dropped), (3, Seen::Dropped), (3, Seen::Dropped)]);
    assert_eq!(harness.group.take(0), None);
    // The batch in flight is applied all the same.
    harness.apply(&sealed.bytes);
    assert_eq!(harness.outcomes(), [(1, Seen::Applied(vec![done(&[Call::Stored(1)])]))]);
}

#[test]
fn while_the_disk_is_nearly_full_only_removals_are_queued() {
    let mut harness = Harness::new();
    harness.submit(1, set(0, b"a", b"1"), 1);
    harness.submit(2, delete(0, b"a"), 1);
    for _ in 0..2 {
        harness.group.set_gate(Gate::Removals, "the disk is nearly full");
        assert_eq!(harness.outcomes(), [(1, Seen::Dropped)]);
        harness.submit(1, set(0, b"b", b"2"), 1);
    }
    // A submission is executed whole or not at all.
    harness.submit(3, [delete(0, b"a"), set(0, b"a", b"1")].concat(), 2);
    harness.submit(4, delete(0, b"b"), 1);
    assert_eq!(harness.outcomes(), [(1, Seen::Dropped), (3, Seen::Dropped)]);
    // One that counts the records before it removes them, as Erlang's clear.
    let clear = command(0, &Command::Database(DatabaseCommand::Clear { at_ms: None }));
    harness.submit(5, [command(0, &Command::Database(DatabaseCommand::Count)), clear].concat(), 2);
    let sealed = harness.seal();
    assert_eq!(harness.group.take(0), None);
    harness.apply(&sealed.bytes);
    let removed = || Seen::Applied(vec![done(&[Call::Integer(0)])]);
    let outcomes = harness.outcomes();
    assert_eq!(outcomes[..2], [(2, removed()), (4, removed())]);
    assert!(matches!(&outcomes[2..], [(5, Seen::Applied(_))]), "{outcomes:?}");
}

#[test]
fn the_gate_is_opened_only_for_the_load_that_is_known_to_be_complete() {
    let group = Harness::new().group;
    let complete = group.loads();
    group.reset();
    for gate in [Gate::Open, Gate::ReadOnly] {
        group.set_gate_of(complete, gate, "none");
        assert_eq!((group.gate(), &*group.reason()), (Gate::Closed, "the log is being read"));
    }
    group.set_gate_of(group.loads(), Gate::ReadOnly, "the disk is full");
    assert_eq!((group.gate(), &*group.reason()), (Gate::ReadOnly, "the disk is full"));
}

#[test]
fn the_outcome_of_a_forgotten_batch_is_unknown_and_it_may_be_applied() {
    let mut harness = Harness::new();
    harness.submit(1, set(0, b"a", b"1"), 1);
    assert_eq!(harness.group.oldest_in_flight_ms(), None);
    let sealed = harness.seal();
    assert!(harness.group.oldest_in_flight_ms().is_some());
    assert_eq!(harness.group.figures().in_flight, 1);
    harness.group.forget(sealed.sequence);
    harness.group.forget(sealed.sequence);
    assert_eq!(harness.outcomes(), [(1, Seen::Unknown)]);
    assert_eq!(harness.group.figures().in_flight, 0);
    harness.apply(&sealed.bytes);
    assert_eq!(harness.value(b"a"), Some(b"1".to_vec()));
    assert_eq!(harness.outcomes(), []);
    harness.submit(2, set(0, b"b", b"1"), 1);
    harness.submit(3, set(0, b"c", b"1"), 1);
    harness.seal();
    harness.group.forget_all();
    assert_eq!(harness.outcomes(), [(2, Seen::Unknown), (3, Seen::Unknown)]);
}

#[test]
fn an_entry_can_be_applied_in_slices() {
    let harness = Harness::new();
    (1..=3).for_each(|n| {
        let records: Vec<u8> = (0..20).flat_map(|_| crate::harness::append(b"k", b"x")).collect();
        harness.submit(n, records, 20);
    });
    let sealed = harness.seal();
    let slice = std::time::Duration::ZERO;
    let (mut offset, mut slices) = (0, 0);
    let group = harness.group.clone();
    while let Applied::More(next) = group.apply(&sealed.bytes, offset, 1, 1, slice) {
        assert!(next > offset);
        (offset, slices) = (next, slices + 1);
        // Another entry or another offset does not go on with this one.
        assert_eq!(group.apply(&sealed.bytes, offset, 2, 1, slice), Applied::OutOfStep);
        assert_eq!(group.apply(&sealed.bytes, offset + 1, 1, 1, slice), Applied::OutOfStep);
    }
    assert_eq!(slices, 3);
    assert_eq!(harness.value(b"k").map(|value| value.len()), Some(60));
    let expected = |n: i64| (1..=20).map(|i| done(&[Call::Integer(20 * n + i)])).collect();
    let expected: Vec<_> = (0..3).map(|n| (n as u64 + 1, Seen::Applied(expected(n)))).collect();
    assert_eq!(harness.outcomes(), expected);
    assert_eq!(group.apply(&sealed.bytes, offset, 1, 1, SLICE), Applied::OutOfStep);
}

#[test]
fn short_records_are_applied_sixteen_at_a_time_and_others_by_their_work() {
    let harness = Harness::new();
    let records: Vec<u8> = (0..50).flat_map(|_| set(0, b"k", b"x")).collect();
    let value = [b'x'; 20_000];
    let longer = [set(0, b"k", &value), append(b"k", b"x"), append(b"k", b"x")].concat();
    for (records, count, expected) in [(records, 50, 3), (longer, 3, 2)] {
        harness.submit(1, records, count);
        let sealed = harness.seal();
        let (mut offset, mut slices) = (0, 0);
        let slice = std::time::Duration::ZERO;
        while let Applied::More(next) = harness.group.apply(&sealed.bytes, offset, 1, 1, slice) {
            (offset, slices) = (next, slices + 1);
        }
        assert_eq!(slices, expected);
    }
}

/// Applies an entry as a caller does that must not take long, and then as one that may. Returns how
/// often the second one was needed.
fn apply_briefly(harness: &Harness, bytes: &[u8], index: u64) -> usize {
    let minute = std::time::Duration::from_secs(60);
    let (mut offset, mut long, time_ms) = (0, 0, NOW_MS + index);
    loop {
        let slice = Slice { time: minute, may_take_long: false };
        match harness.group.apply(bytes, offset, index, time_ms, slice) {
            Applied::Long(at) => {
                let zero = std::time::Duration::ZERO;
                (long, offset) = (long + 1, at);
                // One record, or the beginning of the entry.
                match harness.group.apply(bytes, offset, index, time_ms, zero) {
                    Applied::More(at) => offset = at,
                    Applied::Done { .. } => return long,
                    other => panic!("{other:?}"),
                }
            }
            Applied::Done { .. } => return long,
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_record_that_may_take_long_waits_for_a_caller_that_has_time() {
    let harness = Harness::new();
    let one = |it: &Command<'_>| command(0, it);
    let (mut create, mut drop) = (Vec::new(), Vec::new());
    record::put_create_table(&mut create, b"t", &TableOptions::default());
    record::put_drop_table(&mut drop, b"t");
    let (long, keys) = (vec![b'x'; 1 << 19], vec![&b"k"[..]; 1_000]);
    let setrange =
        Command::String(StringCommand::SetRange { key: b"n", offset: 1_000_000 << 1, bytes: b"x" });
    let transaction = {
        let mut records = Vec::new();
        let commands = vec![(0, Command::Key(KeyCommand::Delete { keys: &keys[..100] })); 6];
        record::put_transaction(&mut records, Home::of(0), &[], &commands);
        records
    };
    let clear = Command::Database(DatabaseCommand::Clear { at_ms: Some(NOW_MS + 12) });
    let cases = [
        ("a long value", set(0, b"v", &long), 1),
        ("an append to it", append(b"v", b"x"), 1),
        ("an append to another", append(b"w", b"x"), 0),
        ("a short value", set(0, b"v", b"x"), 0),
        ("an append to a short value", append(b"v", b"x"), 0),
        ("zeroes", one(&setrange), 1),
        ("some keys", one(&Command::Key(KeyCommand::Delete { keys: &keys[..100] })), 0),
        ("many keys", one(&Command::Key(KeyCommand::Delete { keys: &keys })), 1),
        ("a transaction", transaction, 1),
        ("a clear", one(&Command::Database(DatabaseCommand::Clear { at_ms: None })), 1),
        ("a scheduled clear", one(&clear), 1),
        ("what the clear was scheduled for", set(0, b"a", b"1"), 1),
        ("the next", set(0, b"a", b"2"), 0),
        ("a table", create, 0),
        ("a record of it", set(16, b"a", b"1"), 0),
        ("its removal", drop.clone(), 1),
        ("and once more", drop, 0),
    ];
    for (index, (what, record, expected)) in (1..).zip(cases) {
        // The records before and after it are executed in any case.
        let records = [set(0, b"before", b"x"), record, set(0, b"after", b"x")].concat();
        harness.submit(index, records, 3);
        let sealed = harness.seal();
        assert_eq!(apply_briefly(&harness, &sealed.bytes, index), expected, "{what}");
        let outcomes = harness.outcomes();
        let [(_, Seen::Applied(replies))] = &outcomes[..] else { panic!("{what}: {outcomes:?}") };
        assert_eq!(replies.len(), 3, "{what}");
    }
}

#[test]
fn a_submission_that_is_not_what_it_promises_stays_out_of_the_log() {
    let mut harness = Harness::new();
    let whole = set(0, b"a", b"1");
    let cut = whole[..whole.len() - 1].to_vec();
    harness.submit(1, cut, 1);
    assert_eq!(harness.group.take(0), None);
    harness.submit(2, whole.clone(), 2);
    harness.submit(3, whole.clone(), 1);
    harness.submit(4, vec![99, 0, 0, 0, 0], 1);
    let sealed = harness.seal();
    harness.apply(&sealed.bytes);
    let stored = Seen::Applied(vec![done(&[Call::Stored(1)])]);
    let dropped = |number| (number, Seen::Dropped);
    assert_eq!(harness.outcomes(), [dropped(1), dropped(2), dropped(4), (3, stored)]);
}

#[test]
fn a_record_takes_long_by_the_values_that_it_reads() {
    let harness = Harness::new();
    let mut index = 0;
    let mut long = |records: Vec<u8>| {
        index += 1;
        harness.submit(index, records, 1);
        apply_briefly(&harness, &harness.seal().bytes, index)
    };
    let value = vec![b'x'; 1 << 20];
    // Units: 2 for each KiB read, 3 for each KiB stored; a step of 1,024 units takes long.
    let operation = BitOperator::Or;
    for (kib, expected) in [(145, 0), (147, 1), (1_000, 1)] {
        for key in [b"a", b"b"] {
            long(set(0, key, &value[..kib << 10]));
        }
        let keys = &[&b"to"[..], b"a", b"b"];
        let taken = long(command(
            0,
            &Command::Bits(BitsCommand::BitOperation { operator: operation, keys }),
        ));
        assert_eq!(taken, expected, "BITOP of two values of {kib} KiB");
    }
    let batch = |command: Command<'static>| {
        let mut records = Vec::new();
        record::put_transaction(&mut records, Home::of(0), &[], &[(0, command)]);
        records
    };
    let field = |words: &'static [&'static [u8]], writes| {
        command(0, &Command::Bits(BitsCommand::BitFields { key: b"a", words, writes }))
    };
    const GAP: &[&[u8]] = &[b"set", b"u8", b"7200000", b"1"];
    for (kib, expected) in [(8, 0), (1_000, 1)] {
        long(set(0, b"a", &value[..kib << 10]));
        let cases = [
            ("BITFIELD SET", field(&[b"set", b"u8", b"0", b"1"], true)),
            ("BITCOUNT", batch(Command::Bits(BitsCommand::BitCount { key: b"a", span: None }))),
            ("DUMP", batch(Command::Key(KeyCommand::Dump { key: b"a" }))),
            (
                "GETRANGE",
                batch(Command::String(StringCommand::GetRange { key: b"a", start: 0, end: -1 })),
            ),
        ];
        for (name, records) in cases {
            assert_eq!(long(records), expected, "{name} of {kib} KiB");
        }
        assert_eq!(
            long(batch(Command::String(StringCommand::GetRange { key: b"a", start: 0, end: 7 }))),
            0
        );
        assert_eq!(long(field(&[b"get", b"u8", b"0"], false)), 0);
    }
    long(set(0, b"a", b"x"));
    assert_eq!(long(field(GAP, true)), 0, "900,000 zeroes are 878 units");
    assert_eq!(long(field(GAP, true)), 1, "and then a value to be copied");
}
