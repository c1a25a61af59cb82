//! `set_bulk`, `remove_bulk` and `get_bulk`.
//!
//! With `atomic`, all records are processed in one step under the locks of all of them, so their
//! number is limited. Otherwise they are processed one by one in the order of their keys, one slice
//! in each turn, and other clients' requests run in between.

use super::failure::Failure;
use super::inputs::Inputs;
use super::outcome::{Outcome, ask, order};
use super::outputs::Outputs;
use super::records::{admit, expires};
use super::turn::{Committing, Turn};
use crate::Host;
use smallvec::SmallVec;
use todana_command::{
    Command, Condition, Error, Expires, KeyCommand, PREFETCH_KEYS_MAX, Set, StringCommand, prefetch,
};

/// Records in one slice.
const SLICE_ROWS: usize = 1024;

/// Bytes of keys and values in one slice.
const SLICE_BYTES: usize = 256 << 10;

/// Most records in an atomic bulk. Storing that many takes about 16 milliseconds in a table larger
/// than the processor's caches.
const ATOMIC_RECORDS_MAX: usize = 32_768;

/// Most bytes of values that an atomic bulk stores.
const ATOMIC_BYTES_MAX: usize = 16 << 20;

/// The operation on the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Set,
    Remove,
    Get,
}

/// A bulk request in progress.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bulk {
    kind: Kind,
    database: usize,
    expires: Expires,
    is_atomic: bool,
    /// The position of the next record among the inputs.
    position: usize,
    /// Number of records stored, removed or found.
    count: u64,
}

impl Bulk {
    pub(super) fn new<H: Host>(
        turn: &Turn<'_, H>,
        kind: Kind,
        database: usize,
        inputs: &Inputs<'_>,
    ) -> Bulk {
        let expires = expires(turn, database, inputs);
        let (is_atomic, position) = (inputs.has(b"atomic"), inputs.records_start());
        Bulk { kind, database, expires, is_atomic, position, count: 0 }
    }

    /// Processes one slice. True when all records are processed.
    pub(super) fn step<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs,
    ) -> Result<bool, Failure> {
        if self.is_atomic {
            self.at_once(turn, inputs, outputs)?;
        } else if !self.one_by_one(turn, inputs, outputs)? {
            return Ok(false);
        }
        outputs.insert_number("num", self.count);
        Ok(true)
    }

    fn at_once<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs,
    ) -> Result<(), Failure> {
        let database = self.database;
        if inputs.records().nth(ATOMIC_RECORDS_MAX).is_some() {
            return Err(Failure::TOO_MANY_AT_ONCE);
        }
        if self.kind == Kind::Set {
            let pairs: Vec<(&[u8], &[u8])> = inputs.records().collect();
            let mut bytes = 0;
            for (key, value) in &pairs {
                admit(turn, key, value)?;
                bytes += value.len();
            }
            // A single record cannot exceed the limit of one value.
            if pairs.len() > 1 && bytes > ATOMIC_BYTES_MAX {
                return Err(Failure::TOO_MANY_AT_ONCE);
            }
            let (pairs, condition, expires) = (&pairs[..], Condition::Always, self.expires);
            order(
                turn,
                database,
                &Command::String(StringCommand::SetMany { pairs, condition, expires }),
            )?;
            self.count = pairs.len() as u64;
            return Ok(());
        }
        let keys: Vec<&[u8]> = inputs.records().map(|(key, _)| key).collect();
        let keys = &keys[..];
        if self.kind == Kind::Remove {
            if let Outcome::Number(removed) =
                order(turn, database, &Command::Key(KeyCommand::Delete { keys }))?
            {
                self.count = removed.unsigned_abs();
            }
            return Ok(());
        }
        let (bytes_max, mut misses, mut is_too_long) =
            (turn.host.limits().output_bytes_max, 0, false);
        let hits = &mut self.count;
        let outcome =
            ask(turn, database, &Command::String(StringCommand::GetMany { keys }), |record| {
                match record {
                    Some(record) => {
                        *hits += 1;
                        is_too_long |= outputs.bytes() + record.value.len() > bytes_max;
                        if !is_too_long {
                            outputs.insert_record(record.key, record.value);
                        }
                    }
                    None => misses += 1,
                }
            });
        turn.lookups.0 += *hits;
        turn.lookups.1 += misses;
        if is_too_long {
            return Err(Failure::REPLY_TOO_LONG);
        }
        outcome.check().map(drop)
    }

    /// Returns false if records are left for the next turn. Records on a durable database wait for
    /// the log: those of a slice share a commit, and the slice is then run again.
    fn one_by_one<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs,
    ) -> Result<bool, Failure> {
        let before = *self;
        let done = self.slice(turn, inputs, outputs);
        if turn.committing == Committing::Nothing {
            if done.is_err() {
                turn.host.drop_replies();
            }
            return done;
        }
        *self = before;
        Err(Failure::COMMITTING)
    }

    fn slice<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        inputs: &Inputs<'_>,
        outputs: &mut Outputs,
    ) -> Result<bool, Failure> {
        let (mut rows, mut bytes) = (0, 0);
        while rows < SLICE_ROWS && bytes < SLICE_BYTES {
            let mut records: SmallVec<[(&[u8], &[u8]); PREFETCH_KEYS_MAX]> = SmallVec::new();
            while records.len() < PREFETCH_KEYS_MAX {
                match inputs.next_record(&mut self.position) {
                    Some(record) => records.push(record),
                    None => break,
                }
            }
            if records.is_empty() {
                return Ok(true);
            }
            if records.len() > 1 {
                let keys: SmallVec<[&[u8]; PREFETCH_KEYS_MAX]> =
                    records.iter().map(|(key, _)| *key).collect();
                prefetch(turn.host.databases(), self.database, &keys);
            }
            let sent_before = outputs.bytes();
            for (key, value) in &records {
                bytes += key.len() + value.len();
                match self.one(turn, key, value, outputs) {
                    Err(failure)
                        if failure == Failure::COMMITTING
                            && turn.committing == Committing::Recorded => {}
                    done => done?,
                }
            }
            bytes += outputs.bytes() - sent_before;
            rows += records.len();
        }
        Ok(false)
    }

    fn one<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        key: &[u8],
        value: &[u8],
        outputs: &mut Outputs,
    ) -> Result<(), Failure> {
        match self.kind {
            Kind::Set => {
                admit(turn, key, value)?;
                let set = Set { expires: self.expires, ..Set::new(key, value) };
                order(turn, self.database, &Command::String(StringCommand::Set(set)))?;
                self.count += 1;
            }
            Kind::Remove => {
                let command = Command::Key(KeyCommand::Delete { keys: &[key] });
                if let Outcome::Number(removed) = order(turn, self.database, &command)? {
                    self.count += removed.unsigned_abs();
                }
            }
            Kind::Get => {
                let visit = |record: Option<todana_command::Record<'_>>| {
                    if let Some(record) = record {
                        outputs.insert_record(key, record.value);
                    }
                };
                let outcome =
                    ask(turn, self.database, &Command::String(StringCommand::Get { key }), visit);
                match outcome {
                    // A bulk leaves out what is no string.
                    Outcome::Absent | Outcome::Failed(Error::WrongKind(_)) => turn.lookups.1 += 1,
                    outcome => {
                        outcome.check()?;
                        turn.lookups.0 += 1;
                        self.count += 1;
                    }
                }
                if outputs.bytes() > turn.host.limits().output_bytes_max {
                    return Err(Failure::REPLY_TOO_LONG);
                }
            }
        }
        Ok(())
    }
}
