//! Formats the replies of `execute` for memcached.

use super::exptime::left_s;
use super::line::is_word;
use super::meta_flags::MetaRequest;
use super::number::{push_number, push_signed};
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use todana_command::{Description, Error, LcsSpan, LeaseState, Record, Refusal, Reply, WrongKind};

pub(super) const OUT_OF_MEMORY: &str = "SERVER_ERROR out of memory storing object";

/// How a record is written. All other replies are kept as an [`Outcome`], which the command's
/// handler formats.
#[derive(Clone, Copy, Debug)]
pub(super) enum Writing<'a> {
    /// Nothing is written.
    Silent,
    /// `VALUE <key> <flags> <bytes>`, and the value.
    Value,
    /// The same with the CAS token.
    ValueWithCas,
    /// The same for each record in a step of a search; these do not count as look-ups.
    Found(&'a Found),
    /// The value alone, on a line.
    Number,
    /// `HD` or `VA` with the requested flags.
    Meta(&'a MetaRequest<'a>),
    /// The line of `me`, up to the fields that only the table knows.
    Debug(&'a [u8]),
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
    /// A condition did not hold.
    Refused(Refusal),
    /// A number.
    Integer(i64),
    /// The command failed.
    Failed(Error),
}

/// Writes records to the output and stores the outcome.
#[derive(Debug)]
pub(super) struct Answer<'a> {
    pub(super) out: &'a mut Vec<u8>,
    pub(super) writing: Writing<'a>,
    pub(super) now_ms: u64,
    pub(super) lookups: &'a mut Lookups,
    pub(super) outcome: Outcome,
}

/// The words for a failed read.
pub(super) fn failure(error: Error) -> Cow<'static, str> {
    match error {
        Error::WrongKind(kind) => format!("SERVER_ERROR {}", WrongKind(kind)).into(),
        _ => OUT_OF_MEMORY.into(),
    }
}

impl Answer<'_> {
    #[inline]
    fn value(&mut self, record: Record<'_>, with_cas: bool) {
        // Reserves space for the words and numbers as well, so that no write below has to grow the
        // buffer.
        self.out.reserve(record.key.len().saturating_add(record.value.len()).saturating_add(64));
        self.out.extend_from_slice(b"VALUE ");
        self.out.extend_from_slice(record.key);
        self.out.push(b' ');
        push_number(self.out, u64::from(record.flags));
        self.out.push(b' ');
        push_number(self.out, record.value.len() as u64);
        if with_cas {
            self.out.push(b' ');
            push_number(self.out, record.version);
        }
        self.out.extend_from_slice(b"\r\n");
        self.out.extend_from_slice(record.value);
        self.out.extend_from_slice(b"\r\n");
    }

    fn debug(&mut self, sent_key: &[u8], it: &Description<'_>) {
        self.out.extend_from_slice(b"ME ");
        self.out.extend_from_slice(sent_key);
        self.out.extend_from_slice(b" exp=");
        push_signed(self.out, left_s(it.expires_at_ms, self.now_ms));
        self.out.extend_from_slice(b" la=");
        push_number(self.out, it.idle_s);
        self.out.extend_from_slice(b" cas=");
        push_number(self.out, it.version);
        self.out.extend_from_slice(b" fetch=");
        self.out.extend_from_slice(if it.fetched { b"yes" } else { b"no" });
        self.out.extend_from_slice(b" size=");
        push_number(self.out, it.bytes as u64);
        self.out.extend_from_slice(b"\r\n");
    }
}

impl Reply for Answer<'_> {
    fn done(&mut self) {
        self.outcome = Outcome::Done;
    }

    fn none(&mut self) {
        if !matches!(self.writing, Writing::Silent | Writing::Debug(_)) {
            self.lookups.misses += 1;
        }
        self.outcome = Outcome::Missed;
    }

    #[inline]
    fn record(&mut self, record: Record<'_>) {
        self.outcome = Outcome::Done;
        match self.writing {
            Writing::Value => self.value(record, false),
            Writing::ValueWithCas => self.value(record, true),
            // A key that contains a line end would begin a reply of its own.
            Writing::Found(found) if !is_word(record.key) => return found.leave_out(),
            Writing::Found(found) => return self.value(record, found.with_cas),
            _ => return,
        }
        self.lookups.hits += 1;
    }

    fn description(&mut self, description: Description<'_>) {
        if let Writing::Debug(sent_key) = self.writing {
            self.debug(sent_key, &description);
        }
        self.outcome = Outcome::Done;
    }

    fn lease(&mut self, record: Record<'_>, state: LeaseState) {
        if let Writing::Meta(request) = self.writing {
            if state.created {
                self.lookups.misses += 1;
            } else {
                self.lookups.hits += 1;
            }
            request.write_hit(self.out, record, state, self.now_ms);
        }
        self.outcome = Outcome::Done;
    }

    fn stored(&mut self, version: u64) {
        self.outcome = Outcome::Stored(version);
    }

    fn refused(&mut self, refusal: Refusal) {
        self.outcome = Outcome::Refused(refusal);
    }

    fn integer(&mut self, number: i64) {
        self.outcome = Outcome::Integer(number);
    }

    fn number(&mut self, record: Record<'_>) {
        self.outcome = Outcome::Done;
        match self.writing {
            Writing::Number => {
                self.out.extend_from_slice(record.value);
                self.out.extend_from_slice(b"\r\n");
            }
            Writing::Meta(request) => request.write_number(self.out, record, self.now_ms),
            _ => {}
        }
    }

    fn length(&mut self, _length: usize, version: u64) {
        self.outcome = Outcome::Stored(version);
    }

    fn error(&mut self, error: Error) {
        if let (Error::WrongKind(_), Writing::Value | Writing::ValueWithCas) = (error, self.writing)
        {
            self.lookups.misses += 1;
        }
        self.outcome = Outcome::Failed(error);
    }

    fn slice(&mut self, after: Option<&[u8]>, length: usize) {
        if let Writing::Found(found) = self.writing {
            found.count.set(length);
            found.after.replace(after.map(<[u8]>::to_vec));
        }
        self.outcome = Outcome::Done;
    }

    // No command of this protocol has the replies below.
    fn flag(&mut self, _flag: bool) {}
    fn bytes(&mut self, _bytes: &[u8]) {}
    fn expiry(&mut self, _expires_at_ms: Option<u64>) {}
    fn list(&mut self, _length: usize) {}
    fn page(&mut self, _cursor: u64, _length: usize) {}
    fn key(&mut self, _key: &[u8]) {}
    fn matches(&mut self, _spans: &[LcsSpan], _length: usize, _with_lengths: bool) {}
}

/// Key look-ups that hit and that missed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lookups {
    pub(super) hits: u64,
    pub(super) misses: u64,
}

/// The result of one step of a search.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) with_cas: bool,
    /// Number of records written.
    pub(super) count: Cell<usize>,
    /// The key after which the search continues; `None` at the end.
    pub(super) after: RefCell<Option<Vec<u8>>>,
}

impl Found {
    /// Takes back the count of a record that is left out.
    pub(super) fn leave_out(&self) {
        self.count.set(self.count.get().saturating_sub(1));
    }
}
