//! Entries of several batches: the same as their batches one after another.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use proptest::collection::vec;
use proptest::prelude::*;
use todana_command::{Command, DatabaseCommand, FORMAT_MAX};
use todana_group::{Applied, Group, Newer, Slice, Submit};
use todana_table::{Event, Observer};

use crate::harness::{Call, Seen};
use crate::harness::{Harness, NOW_MS, SLICE, append, command, done, options, read, set};

/// An entry of batches.
fn combine<B: AsRef<[u8]>>(batches: &[B]) -> Vec<u8> {
    let mut entry = vec![0xb1, 5, 0];
    for batch in batches.iter().map(AsRef::as_ref) {
        entry.extend_from_slice(&u32::try_from(batch.len()).expect("short").to_le_bytes());
        entry.extend_from_slice(batch);
    }
    entry
}

const DONE: Applied = Applied::Done { snapshot_due: false };

/// What an observer gets: keys and versions.
#[derive(Default)]
struct Events(Mutex<Vec<(Vec<u8>, u64)>>);

impl Observer for Events {
    fn observe(&self, event: &Event<'_>) {
        self.0.lock().push((event.key.to_vec(), event.version));
    }
}

fn observed(group: &Group) -> Arc<Events> {
    let events = Arc::new(Events::default());
    group.databases().observe(0, events.clone()).expect("the first observer");
    events
}

/// Applies an entry in slices. Those that may take long have no time, so they execute one record.
fn apply_in_slices(group: &Group, entry: &[u8], index: u64, slice_times: &[u8]) {
    let (mut offset, mut may_take_long) = (0, false);
    for turn in 0.. {
        let time = match slice_times.get(turn % slice_times.len().max(1)) {
            Some(0) | None => Duration::ZERO,
            Some(_) => Duration::from_secs(60),
        };
        let time_ms = NOW_MS + index;
        let slice =
            Slice { time: if may_take_long { Duration::ZERO } else { time }, may_take_long };
        (offset, may_take_long) = match group.apply(entry, offset, index, time_ms, slice) {
            Applied::Done { .. } => return,
            Applied::More(next) => (next, false),
            Applied::Long(next) => (next, true),
            other => panic!("{other:?}"),
        };
        if offset > 0 {
            let strange = group.apply(entry, offset + 1, index, time_ms, slice);
            assert_eq!(strange, Applied::OutOfStep);
            assert!(group.digest().is_none(), "in the middle of an entry");
        }
    }
}

/// The records of a batch.
#[derive(Clone, Debug)]
enum Step {
    Append(u8, u8),
    Set(u8),
    Read(u8),
    /// Takes long.
    Count,
    /// In this number of milliseconds.
    Clear(u8),
}

fn records(steps: &[Step]) -> Vec<u8> {
    let key = |number: &u8| [b'k', *number];
    steps
        .iter()
        .flat_map(|step| match step {
            Step::Append(number, byte) => append(&key(number), &[*byte]),
            Step::Set(number) => set(0, &key(number), b"v"),
            Step::Read(number) => read(0, &key(number)),
            Step::Count => command(0, &Command::Database(DatabaseCommand::Keys { pattern: b"*" })),
            Step::Clear(ms) => command(
                0,
                &Command::Database(DatabaseCommand::Clear { at_ms: Some(NOW_MS + u64::from(*ms)) }),
            ),
        })
        .collect()
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0..4_u8, any::<u8>()).prop_map(|(key, byte)| Step::Append(key, byte)),
        4 => (0..4_u8).prop_map(Step::Set),
        2 => (0..4_u8).prop_map(Step::Read),
        1 => Just(Step::Count),
        1 => (0..40_u8).prop_map(Step::Clear),
    ];
    vec(step, 0..20)
}

proptest! {
    #[test]
    fn an_entry_of_batches_is_the_same_as_the_batches(
        batches in vec((any::<bool>(), steps(), any::<bool>()), 1..12),
        slice_times in vec(0..2_u8, 0..4),
    ) {
        let (one, two) = (Harness::of(options(1)), Harness::of(options(2)));
        let mut sealed = Vec::new();
        for (number, (is_first, steps, _)) in (0..).zip(&batches) {
            let origin = if *is_first { &one } else { &two };
            origin.submit(number, records(steps), steps.len());
            sealed.push(origin.seal().bytes);
        }
        // The first node applies the combined entries, and answers its clients; the third one the
        // batches, at the time of the entries that have them.
        let three = Harness::of(options(3));
        let (here, there) = (observed(&one.group), observed(&three.group));
        let (mut waiting, mut index, mut alone) = (Vec::new(), 0, 0);
        for (batch, (_, _, is_last)) in sealed.iter().zip(&batches) {
            waiting.push(batch.clone());
            if *is_last {
                index += 1;
                apply_in_slices(&one.group, &combine(&waiting), index, &slice_times);
                for batch in waiting.drain(..) {
                    alone += 1;
                    let applied = three.group.apply(&batch, 0, alone, NOW_MS + index, SLICE);
                    prop_assert_eq!(applied, DONE);
                }
            }
        }
        prop_assert_eq!(&*here.0.lock(), &*there.0.lock());
        prop_assert_eq!(one.digest(), three.digest());
        let expected = (0..).zip(&batches).take(alone as usize).filter(|(_, it)| it.0).count();
        let outcomes = one.outcomes();
        prop_assert_eq!(outcomes.len(), expected);
        for (number, outcome) in outcomes {
            let steps = &batches[number as usize].1;
            let Seen::Applied(replies) = outcome else { panic!("{outcome:?}") };
            prop_assert_eq!(replies.len(), steps.len());
        }
    }
}

fn appended(harness: &Harness, number: u64, byte: u8) -> Vec<u8> {
    harness.submit(number, append(b"k", &[byte]), 1);
    harness.seal().bytes
}

#[test]
fn a_batch_that_is_in_the_log_twice_is_applied_once() {
    let mut harness = Harness::new();
    let (a, b, c) =
        (appended(&harness, 1, b'a'), appended(&harness, 2, b'b'), appended(&harness, 3, b'c'));
    assert_eq!(harness.apply(&combine(&[&a, &b, &a])), DONE);
    assert_eq!(harness.apply(&b), DONE);
    assert_eq!(harness.apply(&combine(&[&b, &c])), DONE);
    assert_eq!(harness.value(b"k"), Some(b"abc".to_vec()));
    let replies: Vec<_> = (1..)
        .zip([1, 2, 3])
        .map(|(number, length)| (number, Seen::Applied(vec![done(&[Call::Integer(length)])])))
        .collect();
    assert_eq!(harness.outcomes(), replies);
    let figures = harness.group.figures();
    assert_eq!((figures.batches, figures.duplicates, figures.applied_index), (3, 3, 3));
    assert_eq!(figures.format_used, 5);
}

#[test]
fn nothing_of_an_entry_is_applied_if_one_of_its_batches_is_newer() {
    let mut harness = Harness::new();
    let a = appended(&harness, 1, b'a');
    let newer = Applied::Newer(Newer::Format(FORMAT_MAX + 1));
    assert_eq!(harness.apply(&combine(&[&a[..], &[0xb1, FORMAT_MAX + 1, 0]])), newer);
    let nested = combine(&[&a]);
    assert_eq!(harness.apply(&combine(&[&a, &nested])), Applied::Newer(Newer::Format(5)));
    let mut kind = a.clone();
    kind.extend_from_slice(&[99, 0, 0, 0, 0]);
    assert_eq!(harness.apply(&combine(&[&a, &kind])), Applied::Newer(Newer::Kind(99)));
    assert_eq!(harness.value(b"k"), None);
    assert_eq!(harness.apply(&combine(&[&a])), DONE);
    assert_eq!(harness.value(b"k"), Some(b"a".to_vec()));
}

/// Any bytes behind the head, and any cut of an entry, end as an entry does, on all nodes alike.
#[test]
fn broken_lengths_end_the_entry() {
    let source = Harness::of(options(9));
    let entry = combine(&[appended(&source, 1, b'a'), appended(&source, 2, b'b')]);
    for cut in 0..=entry.len() {
        let (mut here, mut there) = (Harness::new(), Harness::of(options(2)));
        let applied = here.apply(&entry[..cut]);
        assert_eq!(there.apply(&entry[..cut]), applied);
        // The first bytes are those of an unknown format.
        let expected = if (1..3).contains(&cut) { cut == 1 } else { true };
        assert_eq!(applied == DONE, expected, "{cut}: {applied:?}");
        assert_eq!(here.digest(), there.digest());
    }
    for strange in [&[0xff_u8; 4][..], &[0xff; 3], &[0; 4], &[1, 0, 0, 0], &[5, 0, 0, 0, 0xb1]] {
        let mut harness = Harness::new();
        let entry = [&entry[..], strange].concat();
        assert_eq!(harness.apply(&entry), DONE, "{strange:?}");
        assert_eq!(harness.value(b"k"), Some(b"ab".to_vec()));
    }
}

/// A restart within an entry reports each change once, wherever it stopped.
#[test]
fn changes_are_reported_once_if_the_log_is_begun_anew_within_an_entry() {
    let source = Harness::of(options(9));
    let batch = |number: u64| {
        let records: Vec<u8> = (0..20).flat_map(|_| append(&[b'k', number as u8], b"x")).collect();
        source.submit(number, records, 20);
        source.seal().bytes
    };
    let entry = combine(&[batch(1), batch(2), batch(3)]);
    let zero = Slice { time: Duration::ZERO, may_take_long: true };
    for stops in 1.. {
        let harness = Harness::new();
        let events = observed(&harness.group);
        let (mut offset, mut stopped) = (0, 0);
        let is_done = loop {
            match harness.group.apply(&entry, offset, 1, NOW_MS, zero) {
                Applied::More(next) => (offset, stopped) = (next, stopped + 1),
                _ => break true,
            }
            if stopped == stops {
                break false;
            }
        };
        harness.group.reset();
        assert_eq!(harness.group.apply(&entry, 0, 1, NOW_MS, SLICE), DONE);
        let keys: Vec<_> = events.0.lock().iter().map(|(key, _)| key[1]).collect();
        let expected: Vec<u8> = (1..=3).flat_map(|number| [number; 20]).collect();
        assert_eq!(keys, expected, "{stops}");
        if is_done {
            assert!(stops > 5, "{stops}");
            return;
        }
    }
}

/// A client may ask for the index when it has its answer, and then read elsewhere.
#[test]
fn the_index_of_an_answer_is_that_of_its_entry() {
    let harness = Harness::new();
    let other = Harness::of(options(9));
    let entry = combine(&[
        appended(&harness, 1, b'a'),
        appended(&other, 1, b'b'),
        appended(&other, 2, b'c'),
    ]);
    let zero = Slice { time: Duration::ZERO, may_take_long: true };
    let mut offset = 0;
    let indexes = || (harness.group.applied_index(), harness.group.answered_index());
    assert_eq!(indexes(), (0, 0));
    while let Applied::More(next) = harness.group.apply(&entry, offset, 7, NOW_MS, zero) {
        if offset == 0 {
            assert_eq!(harness.outcomes().len(), 1, "the first batch has ended");
        }
        assert_eq!(indexes(), (0, 7));
        offset = next;
    }
    assert!(offset > 0);
    assert_eq!(indexes(), (7, 7));
}
