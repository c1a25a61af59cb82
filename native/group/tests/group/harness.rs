//! A group whose log is a vector.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use parking_lot::Mutex;
use todana_command::{
    Command, Databases, Description, Error, KeyCommand, LcsSpan, LeaseState, Player, Record,
    Refusal, Reply, Set, Status, StringCommand,
};
use todana_group::{
    Applied, Deliver, Gate, Group, GroupOptions, Home, Outcome, Sealed, Submission, Submit, Ticket,
    Wake, record,
};
use todana_table::{Keyspace, Options, Table};

pub(crate) const NOW_MS: u64 = 1_700_000_000_000;
pub(crate) const SLICE: Duration = Duration::from_secs(60);

/// Keeps outcomes by the numbers of their tickets, in the order in which they came.
#[derive(Default)]
pub(crate) struct Outcomes(Mutex<Vec<(u64, Outcome)>>);

impl Deliver for Outcomes {
    fn deliver(&self, outcomes: Vec<(Ticket, Outcome)>) {
        self.0
            .lock()
            .extend(outcomes.into_iter().map(|(ticket, outcome)| (ticket.number, outcome)));
    }
}

#[derive(Clone, Default)]
struct Wakes(Arc<AtomicUsize>, Arc<AtomicUsize>);

impl Wake for Wakes {
    fn wake(&self) {
        self.0.fetch_add(1, SeqCst);
    }
    fn wake_asker(&self) {
        self.1.fetch_add(1, SeqCst);
    }
}

pub(crate) struct Harness {
    pub(crate) group: Arc<Group>,
    pub(crate) outcomes: Arc<Outcomes>,
    wakes: Wakes,
    index: u64,
}

pub(crate) fn options(incarnation: u64) -> GroupOptions {
    let databases =
        Databases::with_options(&Options { seed: Some(7), durable: true, ..Options::default() });
    GroupOptions {
        databases: Arc::new(databases),
        seed: 7,
        incarnation,
        value_bytes_max: 1 << 20,
        queue_bytes_max: 1 << 20,
        snapshot_log_bytes: None,
    }
}

impl Harness {
    pub(crate) fn new() -> Harness {
        Harness::of(options(1))
    }

    pub(crate) fn of(options: GroupOptions) -> Harness {
        let wakes = Wakes::default();
        let group = Group::new(options, Box::new(wakes.clone()));
        group.set_gate(Gate::Open, "");
        Harness { group, outcomes: Arc::default(), wakes, index: 0 }
    }

    pub(crate) fn submission(&self, number: u64, records: Vec<u8>, count: usize) -> Submission {
        let ticket = Ticket { place: (0, 0), number };
        let format = record::format_of(&records);
        Submission { records, count, format, units: 0, ticket, deliver: self.outcomes.clone() }
    }

    pub(crate) fn submit(&self, number: u64, records: Vec<u8>, count: usize) {
        self.group.submit(&mut vec![self.submission(number, records, count)]);
    }

    pub(crate) fn seal(&self) -> Sealed {
        self.group.take(0).expect("something waits")
    }

    pub(crate) fn apply(&mut self, bytes: &[u8]) -> Applied {
        self.apply_at(bytes, NOW_MS)
    }

    pub(crate) fn apply_at(&mut self, bytes: &[u8], time_ms: u64) -> Applied {
        self.index += 1;
        self.group.apply(bytes, 0, self.index, time_ms, SLICE)
    }

    /// Submits, seals, applies, and returns the replies.
    pub(crate) fn commit(&mut self, records: Vec<u8>, count: usize) -> Vec<(Vec<Call>, Status)> {
        self.submit(0, records, count);
        let sealed = self.seal();
        assert_eq!(self.apply(&sealed.bytes), Applied::Done { snapshot_due: false });
        let outcomes = self.outcomes();
        assert_eq!(outcomes.len(), 1, "{outcomes:?}");
        match outcomes.into_iter().next() {
            Some((0, Seen::Applied(records))) => records,
            other => panic!("{other:?}"),
        }
    }

    /// The outcomes since the last call.
    pub(crate) fn outcomes(&self) -> Vec<(u64, Seen)> {
        let outcomes = std::mem::take(&mut *self.outcomes.0.lock());
        outcomes.into_iter().map(|(number, outcome)| (number, Seen::of(outcome))).collect()
    }

    pub(crate) fn wakes(&self) -> usize {
        self.wakes.0.load(SeqCst)
    }

    pub(crate) fn digest(&self) -> u64 {
        self.group.digest().expect("between entries, without a snapshot")
    }

    /// How often the asker was woken.
    pub(crate) fn questions_wanted(&self) -> usize {
        self.wakes.1.load(SeqCst)
    }

    /// A reader comes.
    pub(crate) fn await_fresh(&self, number: u64) {
        let ticket = Ticket { place: (0, 0), number };
        self.group.await_fresh(ticket, self.outcomes.clone());
    }

    pub(crate) fn value(&self, key: &[u8]) -> Option<Vec<u8>> {
        value(self.group.databases().table(0), key)
    }
}

pub(crate) fn value(table: &Table, key: &[u8]) -> Option<Vec<u8>> {
    table.read(key, NOW_MS, |entry| entry.map(|entry| entry.stored().bytes().to_vec()))
}

/// An outcome, with its tape played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Applied(Vec<(Vec<Call>, Status)>),
    Dropped,
    Unknown,
    Fresh,
}

impl Seen {
    fn of(outcome: Outcome) -> Seen {
        let tape = match outcome {
            Outcome::Applied(tape) => tape,
            Outcome::Dropped => return Seen::Dropped,
            Outcome::Unknown => return Seen::Unknown,
            Outcome::Fresh => return Seen::Fresh,
        };
        let mut player = Player::new(tape);
        let mut records = Vec::new();
        loop {
            let mut calls = Calls::default();
            let Some(status) = player.next(&mut calls) else { return Seen::Applied(records) };
            records.push((calls.0, status));
        }
    }
}

pub(crate) fn done(calls: &[Call]) -> (Vec<Call>, Status) {
    (calls.to_vec(), Status::Done)
}

/// The replies that the tests need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    Done,
    None,
    Value(Vec<u8>),
    Stored(u64),
    Refused(Refusal),
    Integer(i64),
    Error(Error),
    Other,
}

#[derive(Default)]
struct Calls(Vec<Call>);

impl Reply for Calls {
    fn done(&mut self) {
        self.0.push(Call::Done);
    }
    fn none(&mut self) {
        self.0.push(Call::None);
    }
    fn record(&mut self, record: Record<'_>) {
        self.0.push(Call::Value(record.value.to_vec()));
    }
    fn description(&mut self, _: Description<'_>) {
        self.0.push(Call::Other);
    }
    fn lease(&mut self, _: Record<'_>, _: LeaseState) {
        self.0.push(Call::Other);
    }
    fn stored(&mut self, version: u64) {
        self.0.push(Call::Stored(version));
    }
    fn refused(&mut self, refusal: Refusal) {
        self.0.push(Call::Refused(refusal));
    }
    fn integer(&mut self, number: i64) {
        self.0.push(Call::Integer(number));
    }
    fn number(&mut self, record: Record<'_>) {
        self.0.push(Call::Value(record.value.to_vec()));
    }
    fn length(&mut self, length: usize, _: u64) {
        self.0.push(Call::Integer(length as i64));
    }
    fn flag(&mut self, flag: bool) {
        self.0.push(Call::Integer(flag.into()));
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push(Call::Value(bytes.to_vec()));
    }
    fn expiry(&mut self, _: Option<u64>) {
        self.0.push(Call::Other);
    }
    fn list(&mut self, length: usize) {
        self.0.push(Call::Integer(length as i64));
    }
    fn page(&mut self, _: u64, _: usize) {
        self.0.push(Call::Other);
    }
    fn slice(&mut self, _: Option<&[u8]>, _: usize) {
        self.0.push(Call::Other);
    }
    fn key(&mut self, key: &[u8]) {
        self.0.push(Call::Value(key.to_vec()));
    }
    fn matches(&mut self, _: &[LcsSpan], _: usize, _: bool) {
        self.0.push(Call::Other);
    }
    fn error(&mut self, error: Error) {
        self.0.push(Call::Error(error));
    }
}

/// The record of a command.
pub(crate) fn command(home: u64, command: &Command<'_>) -> Vec<u8> {
    let mut record = Vec::new();
    record::put_command(&mut record, Home::of(home), command);
    record
}

pub(crate) fn set(home: u64, key: &[u8], value: &[u8]) -> Vec<u8> {
    command(home, &Command::String(StringCommand::Set(Set::new(key, value))))
}

/// The record of a removal.
pub(crate) fn delete(home: u64, key: &[u8]) -> Vec<u8> {
    command(home, &Command::Key(KeyCommand::Delete { keys: &[key] }))
}

pub(crate) fn append(key: &[u8], bytes: &[u8]) -> Vec<u8> {
    let append = Command::String(StringCommand::Concat {
        key,
        bytes,
        side: todana_command::Side::Append,
        create: true,
        condition: todana_command::Condition::Always,
        expires: todana_command::Expires::Keep,
    });
    command(0, &append)
}

pub(crate) fn read(home: u64, key: &[u8]) -> Vec<u8> {
    let mut records = Vec::new();
    record::put_read(&mut records, Home::of(home), &Command::String(StringCommand::Get { key }));
    records
}
