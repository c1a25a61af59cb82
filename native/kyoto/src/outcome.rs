//! The outcome of a command, for procedures that format it later.

use super::failure::Failure;
use super::turn::Turn;
use crate::Host;
use todana_command::{Command, Description, Error, LcsSpan, LeaseState, Record, Refusal, Reply};
use todana_table::Shared;

/// The reply to a command, without its records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The command succeeded; there is no further result.
    Done,
    /// The record does not exist.
    Absent,
    Number(i64),
    Flag(bool),
    Refused(Refusal),
    Failed(Error),
    /// What the record is: the length of its value in bytes, and its expiry.
    Described(usize, Option<u64>),
    /// There is no reply: the request waits for the log, or the log did not execute it.
    NotRun(Failure),
}

impl Outcome {
    /// Converts failures to errors.
    pub(super) fn check(self) -> Result<Outcome, Failure> {
        match self {
            Outcome::Refused(refusal) => Err(refusal.into()),
            Outcome::Failed(error) => Err(error.into()),
            Outcome::NotRun(failure) => Err(failure),
            outcome => Ok(outcome),
        }
    }
}

/// Executes a command and calls `visit` with its records and byte strings while they are borrowed;
/// with `None` for a missing record.
pub(super) fn ask<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    command: &Command<'_>,
    visit: impl FnMut(Option<Record<'_>>),
) -> Outcome {
    ask_for_one(turn, database, command, visit).0
}

/// The same for one record. If its value is large, this returns a handle, and `visit` need not copy
/// it.
pub(super) fn ask_for_one<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    command: &Command<'_>,
    visit: impl FnMut(Option<Record<'_>>),
) -> (Outcome, Option<Shared>) {
    let mut visitor = Visitor { visit, outcome: Outcome::Done, large: None };
    match turn.execute(database, command, &mut visitor) {
        Ok(()) => (visitor.outcome, visitor.large),
        Err(failure) => (Outcome::NotRun(failure), None),
    }
}

/// Executes a command whose reply has no records.
pub(super) fn order<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    command: &Command<'_>,
) -> Result<Outcome, Failure> {
    ask(turn, database, command, |_| {}).check()
}

struct Visitor<F> {
    visit: F,
    outcome: Outcome,
    /// The last record, if its value is large.
    large: Option<Shared>,
}

impl<F: FnMut(Option<Record<'_>>)> Reply for Visitor<F> {
    fn done(&mut self) {}
    fn none(&mut self) {
        self.outcome = Outcome::Absent;
        (self.visit)(None);
    }
    fn record(&mut self, record: Record<'_>) {
        (self.visit)(Some(record));
    }
    fn held(&mut self, shared: Shared) {
        self.record(Record::of_shared(&shared));
        self.large = Some(shared);
    }
    fn description(&mut self, it: Description<'_>) {
        self.outcome = Outcome::Described(it.length, it.expires_at_ms);
    }
    fn lease(&mut self, record: Record<'_>, _state: LeaseState) {
        self.record(record);
    }
    fn stored(&mut self, _version: u64) {}
    fn refused(&mut self, refusal: Refusal) {
        self.outcome = Outcome::Refused(refusal);
    }
    fn integer(&mut self, number: i64) {
        self.outcome = Outcome::Number(number);
    }
    fn number(&mut self, record: Record<'_>) {
        self.record(record);
    }
    fn length(&mut self, _length: usize, _version: u64) {}
    fn flag(&mut self, flag: bool) {
        self.outcome = Outcome::Flag(flag);
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.record(Record { key: b"", value: bytes, flags: 0, version: 0, expires_at_ms: None });
    }
    fn expiry(&mut self, _expires_at_ms: Option<u64>) {}
    fn list(&mut self, _length: usize) {}
    fn page(&mut self, _cursor: u64, _length: usize) {}
    fn slice(&mut self, _after: Option<&[u8]>, _length: usize) {}
    fn key(&mut self, key: &[u8]) {
        self.record(Record { key, value: b"", flags: 0, version: 0, expires_at_ms: None });
    }
    fn matches(&mut self, _spans: &[LcsSpan], _length: usize, _with_lengths: bool) {}
    fn error(&mut self, error: Error) {
        self.outcome = Outcome::Failed(error);
    }
}
