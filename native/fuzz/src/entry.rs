//! Entries of the log of a durable group.
//!
//! Whatever the bytes are, applying them must not fail. Their origin, whose client waits for the
//! outcome, and another replica, which applies them in slices, must have the same state afterwards.

use std::sync::Arc;
use std::time::Duration;

use todana_command::Databases;
use todana_group::{
    Applied, Deliver, Gate, Group, GroupOptions, Outcome, Submission, Submit, Ticket, Wake, record,
};
use todana_table::Options;

/// The origin's number, which the seeds have.
const ORIGIN: u64 = 1;
const SEQUENCE: u8 = 1;

struct Nobody;

impl Wake for Nobody {
    fn wake(&self) {}
}

impl Deliver for Nobody {
    fn deliver(&self, _: Vec<(Ticket, Outcome)>) {}
}

/// A group with small tables, all of them durable.
pub(crate) fn group(incarnation: u64) -> Arc<Group> {
    let options = Options { shards: Some(4), seed: Some(7), durable: true, ..Options::default() };
    let options = GroupOptions {
        databases: Arc::new(Databases::with_options(&options)),
        seed: 7,
        incarnation,
        value_bytes_max: 4_096,
        queue_bytes_max: 1 << 20,
        snapshot_log_bytes: None,
    };
    Group::new(options, Box::new(Nobody))
}

/// Applies the bytes as an entry, and as the records of one.
pub fn entry(data: &[u8]) {
    apply(data);
    let header = [0xb1, 1, 0, 0, ORIGIN as u8, 0, 0, 0, 0, 0, 0, 0, SEQUENCE, 0x80, 0x20];
    apply(&[&header, data].concat());
}

fn apply(bytes: &[u8]) {
    let (origin, other) = (group(ORIGIN), group(2));
    origin.set_gate(Gate::Open, "");
    let mut records = Vec::new();
    record::put_time_mark(&mut records);
    let ticket = Ticket { place: (0, 0), number: 1 };
    let deliver = Arc::new(Nobody);
    origin.submit(&mut vec![Submission {
        records,
        count: 1,
        format: 1,
        units: 0,
        ticket,
        deliver,
    }]);
    origin.take(0).expect("a batch is in flight");

    let minute = Duration::from_secs(60);
    let applied = origin.apply(bytes, 0, 1, 1_000, minute);
    let mut offset = 0;
    let applied_there = loop {
        match other.apply(bytes, offset, 1, 1_000, Duration::ZERO) {
            Applied::More(next) => {
                assert!(next > offset, "no progress");
                offset = next;
            }
            end => break end,
        }
    };
    assert_eq!(applied, applied_there);
    assert!(!matches!(applied, Applied::More(_) | Applied::OutOfStep));
    assert!(origin.digest().is_some_and(|digest| other.digest() == Some(digest)));
    assert_eq!(origin.figures().panics, 0, "a command panicked");
}
