//! Formats the replies of `execute`.

use super::super::answer::Lookups;
use super::super::turn::{DATABASE, Turn};
use super::frame::Frame;
use super::status::Status;
use crate::Host;
use todana_command::{
    Command, Context, Description, Error, LcsSpan, LeaseState, Record, Refusal, Reply,
};
use todana_protocol::Ran;

/// How a record is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writing {
    /// Not at all.
    Silent,
    /// Its flags. This does not count as a look-up.
    Flags(Frame),
    /// Its flags and its value, and its key before the value.
    Value { frame: Frame, with_key: bool },
}

/// The outcome of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Done; a record, if there was one, has been written.
    Done,
    /// No record.
    Missed,
    /// Stored as this version.
    Stored(u64),
    /// The number that is stored, and its version.
    Number(u64, u64),
    /// A condition did not hold.
    Refused(Refusal),
    /// The command failed.
    Failed(Error),
}

/// Runs a command for a request.
pub(super) fn run<H: Host>(
    turn: &mut Turn<'_, H>,
    command: &Command<'_>,
    writing: Writing,
) -> Outcome {
    let context = Context { now_ms: turn.host.now_ms(), value_bytes_max: turn.value_max() };
    let hits = turn.lookups.hits;
    let lookups = &mut turn.lookups;
    let mut answer = Answer { out: turn.out, writing, lookups, outcome: Outcome::Missed };
    let ran = turn.host.run(DATABASE, command, context, &mut answer);
    let outcome = answer.outcome;
    if ran == Ran::Done(()) {
        if turn.counts_prefixes {
            turn.count_prefix(command, hits);
        }
        return outcome;
    }
    turn.put_off(ran);
    Outcome::Failed(Error::Full)
}

/// Writes records to the output and stores the outcome.
#[derive(Debug)]
struct Answer<'a> {
    out: &'a mut Vec<u8>,
    writing: Writing,
    lookups: &'a mut Lookups,
    outcome: Outcome,
}

/// Bytes of the flags of a record.
const FLAGS_BYTES: usize = 4;

impl Reply for Answer<'_> {
    fn done(&mut self) {
        self.outcome = Outcome::Done;
    }

    fn none(&mut self) {
        if matches!(self.writing, Writing::Value { .. }) {
            self.lookups.misses += 1;
        }
        self.outcome = Outcome::Missed;
    }

    #[inline]
    fn record(&mut self, record: Record<'_>) {
        self.outcome = Outcome::Done;
        let (frame, key, value): (Frame, &[u8], &[u8]) = match self.writing {
            Writing::Silent => return,
            Writing::Flags(frame) => (frame, &[], &[]),
            Writing::Value { frame, with_key } => {
                self.lookups.hits += 1;
                (frame, if with_key { record.key } else { &[] }, record.value)
            }
        };
        let lengths = [FLAGS_BYTES, key.len(), value.len()];
        frame.begin(self.out, Status::Success, lengths, record.version);
        self.out.extend_from_slice(&record.flags.to_be_bytes());
        self.out.extend_from_slice(key);
        self.out.extend_from_slice(value);
    }

    fn stored(&mut self, version: u64) {
        self.outcome = Outcome::Stored(version);
    }

    fn length(&mut self, _length: usize, version: u64) {
        self.outcome = Outcome::Stored(version);
    }

    fn number(&mut self, record: Record<'_>) {
        let digits = std::str::from_utf8(record.value).ok();
        let number = digits.and_then(|digits| digits.parse().ok()).unwrap_or_default();
        self.outcome = Outcome::Number(number, record.version);
    }

    fn refused(&mut self, refusal: Refusal) {
        self.outcome = Outcome::Refused(refusal);
    }

    fn error(&mut self, error: Error) {
        self.outcome = Outcome::Failed(error);
    }

    // No command of this protocol has the replies below.
    fn flag(&mut self, _flag: bool) {}
    fn description(&mut self, _description: Description<'_>) {}
    fn lease(&mut self, _record: Record<'_>, _state: LeaseState) {}
    fn integer(&mut self, _number: i64) {}
    fn bytes(&mut self, _bytes: &[u8]) {}
    fn expiry(&mut self, _expires_at_ms: Option<u64>) {}
    fn list(&mut self, _length: usize) {}
    fn page(&mut self, _cursor: u64, _length: usize) {}
    fn slice(&mut self, _after: Option<&[u8]>, _length: usize) {}
    fn key(&mut self, _key: &[u8]) {}
    fn matches(&mut self, _spans: &[LcsSpan], _length: usize, _with_lengths: bool) {}
}
