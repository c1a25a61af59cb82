//! Reads single records and steps over a database, for cursors and searches.

use super::failure::Failure;
use super::turn::Turn;
use crate::Host;
use todana_command::{Command, Description, Error, LcsSpan, LeaseState, Record, Refusal, Reply};

/// The result of a command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// Number of records or keys visited.
    pub(super) found: usize,
    /// A condition did not hold.
    pub(super) refused: bool,
    /// The key after which the walk continues; `None` at the end.
    pub(super) after: Option<Vec<u8>>,
    /// The cursor with which the scan continues; 0 at the end.
    pub(super) cursor: u64,
    /// Whether there is more to sweep.
    pub(super) more: bool,
}

/// Executes a command and visits each record of its reply. If the reply consists of keys, their
/// records have no other fields.
pub(super) fn see<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    command: &Command<'_>,
    look: &mut dyn FnMut(&Record<'_>),
) -> Result<Seen, Failure> {
    match visit(turn, database, command, look)? {
        (_, Some(error)) => Err(error.into()),
        (seen, None) => Ok(seen),
    }
}

/// The same for one record: one that is no string counts as none.
pub(super) fn see_string<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    command: &Command<'_>,
    look: &mut dyn FnMut(&Record<'_>),
) -> Result<Seen, Failure> {
    match visit(turn, database, command, look)? {
        (seen, Some(Error::WrongKind(_)) | None) => Ok(seen),
        (_, Some(error)) => Err(error.into()),
    }
}

fn visit<H: Host>(
    turn: &mut Turn<'_, H>,
    database: usize,
    command: &Command<'_>,
    look: &mut dyn FnMut(&Record<'_>),
) -> Result<(Seen, Option<Error>), Failure> {
    let mut looks = Looks { look, seen: Seen::default(), error: None };
    turn.execute(database, command, &mut looks)?;
    Ok((looks.seen, looks.error))
}

struct Looks<'l> {
    look: &'l mut dyn FnMut(&Record<'_>),
    seen: Seen,
    error: Option<Error>,
}

impl Reply for Looks<'_> {
    fn record(&mut self, record: Record<'_>) {
        self.seen.found += 1;
        (self.look)(&record);
    }

    fn key(&mut self, key: &[u8]) {
        self.record(Record { key, value: b"", flags: 0, version: 0, expires_at_ms: None });
    }

    fn lease(&mut self, record: Record<'_>, _state: LeaseState) {
        self.record(record);
    }

    fn refused(&mut self, _refusal: Refusal) {
        self.seen.refused = true;
    }

    fn slice(&mut self, after: Option<&[u8]>, _length: usize) {
        self.seen.after = after.map(<[u8]>::to_vec);
    }

    fn page(&mut self, cursor: u64, _length: usize) {
        self.seen.cursor = cursor;
    }

    fn flag(&mut self, flag: bool) {
        self.seen.more = flag;
    }

    fn error(&mut self, error: Error) {
        self.error = Some(error);
    }

    fn done(&mut self) {}
    fn none(&mut self) {}
    fn description(&mut self, _description: Description<'_>) {}
    fn stored(&mut self, _version: u64) {}
    fn integer(&mut self, _number: i64) {}
    fn number(&mut self, _record: Record<'_>) {}
    fn length(&mut self, _length: usize, _version: u64) {}
    fn bytes(&mut self, _bytes: &[u8]) {}
    fn expiry(&mut self, _expires_at_ms: Option<u64>) {}
    fn list(&mut self, _length: usize) {}
    fn matches(&mut self, _spans: &[LcsSpan], _length: usize, _with_lengths: bool) {}
}
