//! What waits, what a batch holds, and when the batcher is woken.

use std::sync::Arc;

use todana_group::{
    Applied, BATCH_BYTES_MAX, BATCH_RECORDS_MAX, Deliver, Gate, Outcome, Submit, Ticket,
};

use crate::harness::{Call, SLICE};
use crate::harness::{Harness, Seen, done, set};

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
    assert!(harness.group.has_room());
    harness.submit(1, set(0, b"k", &value), 1);
    assert!(!harness.group.has_room() && harness.group.figures().queue_bytes > value.len());
    harness.seal();
    assert!(harness.group.has_room() && harness.group.figures().queue_bytes == 0);
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
    // Each may copy a long value.
    assert_eq!(slices, 59);
    assert_eq!(harness.value(b"k").map(|value| value.len()), Some(60));
    let expected = |n: i64| (1..=20).map(|i| done(&[Call::Integer(20 * n + i)])).collect();
    let expected: Vec<_> = (0..3).map(|n| (n as u64 + 1, Seen::Applied(expected(n)))).collect();
    assert_eq!(harness.outcomes(), expected);
    assert_eq!(group.apply(&sealed.bytes, offset, 1, 1, SLICE), Applied::OutOfStep);
}

#[test]
fn short_records_are_applied_sixteen_at_a_time() {
    let harness = Harness::new();
    let records: Vec<u8> = (0..50).flat_map(|_| set(0, b"k", b"x")).collect();
    harness.submit(1, records, 50);
    let sealed = harness.seal();
    let (mut offset, mut slices) = (0, 0);
    let slice = std::time::Duration::ZERO;
    while let Applied::More(next) = harness.group.apply(&sealed.bytes, offset, 1, 1, slice) {
        (offset, slices) = (next, slices + 1);
    }
    assert_eq!(slices, 3);
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
