//! The binary protocol: bulks, record by record.
//!
//! ```text
//!   B8 set_bulk     B8 | u32 flags | u32 n
//!                      n x { u16 db | u32 ksiz | u32 vsiz | i64 xt | key | value }
//!                   B8 | u32 stored
//!   B9 remove_bulk  B9 | u32 flags | u32 n | n x { u16 db | u32 ksiz | key }
//!                   B9 | u32 removed
//!   BA get_bulk     BA | u32 flags | u32 n | n x { u16 db | u32 ksiz | key }
//!                   BA | u32 hits | hits x { u16 db | u32 ksiz | u32 vsiz | i64 xt | key | value }
//!   B4 play_script  B4 | u32 flags | u32 nsiz | u32 n | name
//!                      n x { u32 ksiz | u32 vsiz | key | value }
//!                   BF
//! ```
//!
//! Numbers are big-endian. Each record is processed as soon as it has arrived completely, so a bulk
//! of any length needs the memory of one record. Only the records found by a get are kept, because
//! the reply begins with their number. After an invalid request the server sends `BF` and closes
//! the connection; records processed before it keep their changes. With flag 1 the server sends no
//! reply at all.

use super::flow::Flow;
use super::numbers;
use super::outcome::{Outcome, ask};
use super::table::{COMMANDS, Row};
use super::turn::{Committing, Turn};
use crate::Host;
use smallvec::SmallVec;
use todana_command::{
    Command, Condition, Error, Expires, KeyCommand, PREFETCH_KEYS_MAX, Set, StringCommand, prefetch,
};

/// The error reply.
const ERROR: u8 = 0xbf;

/// The flag that suppresses the reply.
const NO_REPLY: u32 = 1;

/// Records of one turn.
const RECORDS_PER_TURN: usize = 1024;

/// What a bulk does to its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Set,
    Remove,
    Get,
    /// Skips the records: this protocol has no scripts.
    Script,
}

/// A bulk whose header has been read.
#[derive(Debug)]
pub(super) struct Bulk {
    kind: Kind,
    row: Row,
    silent: bool,
    /// Number of records that have not been processed.
    left: u32,
    /// Number of records stored, removed or found.
    count: u32,
    /// Bytes to skip before the next record.
    skip: u64,
    /// The records that a get found in earlier turns, after the header of the reply.
    reply: Vec<u8>,
    is_begun: bool,
    is_over: bool,
}

/// The first record of a bulk that waits for the log.
struct Uncommitted {
    /// Its offset.
    at: usize,
    /// The length of the output before it.
    output_bytes: usize,
    /// Records left, and counted, before it.
    left: u32,
    count: u32,
}

/// The header of one record.
struct Header {
    database: usize,
    key_bytes: usize,
    value_bytes: usize,
    xt: i64,
    /// The length of the header itself.
    bytes: usize,
}

impl Header {
    fn total(&self) -> usize {
        self.bytes.saturating_add(self.key_bytes).saturating_add(self.value_bytes)
    }
}

/// Sends the error reply; the connection ends.
pub(super) fn refuse<H: Host>(turn: &mut Turn<'_, H>) -> Flow {
    turn.out.push(ERROR);
    turn.observe(Row::Unknown, true, &[]);
    Flow::Close
}

/// Reads the header of the request at the front of the input, which is not empty. Returns the bulk
/// and the offset of its first record.
pub(super) fn begin<H: Host>(turn: &mut Turn<'_, H>, input: &[u8]) -> Result<(Bulk, usize), Flow> {
    let (kind, row, header_bytes) = match input[0] {
        0xb8 => (Kind::Set, Row::BinarySetBulk, 9),
        0xb9 => (Kind::Remove, Row::BinaryRemoveBulk, 9),
        0xba => (Kind::Get, Row::BinaryGetBulk, 9),
        0xb4 => (Kind::Script, Row::BinaryPlayScript, 13),
        0xb1 => {
            turn.out.push(ERROR);
            turn.observe(Row::BinaryReplication, true, &[]);
            return Err(Flow::Close);
        }
        _ => {
            turn.observe(Row::Unknown, true, &[]);
            return Err(Flow::Close);
        }
    };
    if input.len() < header_bytes {
        return Err(Flow::missing(input, header_bytes));
    }
    let flags = u32_at(input, 1);
    let mut bulk = Bulk {
        kind,
        row,
        silent: flags & NO_REPLY != 0 && kind != Kind::Get,
        left: u32_at(input, header_bytes - 4),
        count: 0,
        skip: 0,
        reply: Vec::new(),
        is_begun: false,
        is_over: false,
    };
    if kind == Kind::Script {
        bulk.skip = u64::from(u32_at(input, 5));
    }
    Ok((bulk, header_bytes))
}

impl Bulk {
    /// Bytes kept between turns.
    pub(super) fn held_bytes(&self) -> usize {
        self.reply.capacity()
    }

    /// Whether every record has been processed and the reply sent.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Continues with the records that have arrived, from offset `at`.
    pub(super) fn go_on<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        input: &[u8],
        at: usize,
        output_bytes_max: usize,
    ) -> Flow {
        let start = turn.out.len();
        let mut uncommitted = None;
        let flow = self.records(turn, input, (start, at), output_bytes_max, &mut uncommitted);
        let Some(Uncommitted { at, output_bytes, left, count }) = uncommitted else { return flow };
        // The records from this one on are processed again when the log has committed them, or when
        // they may be read. Those before it have been consumed.
        turn.out.truncate(output_bytes);
        self.keep(turn, start);
        (self.left, self.count, self.is_over) = (left, count, false);
        Flow::Commit(at)
    }

    /// Processes records until the turn ends. Sets `uncommitted` to the first one that waits for
    /// the log.
    fn records<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        input: &[u8],
        (start, mut at): (usize, usize),
        output_bytes_max: usize,
        uncommitted: &mut Option<Uncommitted>,
    ) -> Flow {
        if self.kind == Kind::Get && !self.is_begun {
            turn.out.extend_from_slice(&[0xba, 0, 0, 0, 0]);
        }
        self.is_begun = true;
        let mut records = 0;
        loop {
            let rest = &input[at..];
            if self.skip > 0 {
                let taken =
                    usize::try_from(self.skip).map_or(rest.len(), |skip| skip.min(rest.len()));
                self.skip -= taken as u64;
                at += taken;
                if self.skip > 0 {
                    return Flow::Read { taken: at, needed: 0, wanted: 0 };
                }
                continue;
            }
            if uncommitted.is_some() && self.must_end(turn, rest, records) {
                return Flow::Yield(at);
            }
            if self.left == 0 {
                return self.finish(turn, start, at);
            }
            if records == RECORDS_PER_TURN || turn.out.len() > output_bytes_max {
                self.keep(turn, start);
                return Flow::Yield(at);
            }
            let Some(header) = self.header(rest) else {
                self.keep(turn, start);
                let needed = self.header_bytes();
                return Flow::Read { taken: at, needed, wanted: needed - rest.len() };
            };
            let limits = turn.host.limits();
            if header.key_bytes > limits.key_bytes_max
                || header.value_bytes > limits.value_bytes_max
            {
                return self.fail(turn, start);
            }
            if self.kind == Kind::Script {
                self.skip = header.total() as u64;
            } else if rest.len() < header.total() {
                self.keep(turn, start);
                let needed = header.total();
                return Flow::Read { taken: at, needed, wanted: needed - rest.len() };
            } else {
                if records.is_multiple_of(PREFETCH_KEYS_MAX) {
                    self.fetch_ahead(turn, rest);
                }
                let (key, value) = rest[header.bytes..header.total()].split_at(header.key_bytes);
                let output_bytes = turn.out.len();
                let is_known = header.database < turn.settings().databases.len();
                if is_known && self.record(turn, &header, key, value).is_err() {
                    if turn.committing == Committing::Nothing {
                        return self.fail(turn, start);
                    }
                    let (left, count) = (self.left, self.count);
                    uncommitted.get_or_insert(Uncommitted { at, output_bytes, left, count });
                    if turn.committing == Committing::Later || turn.host.commit_is_full() {
                        return Flow::Yield(at);
                    }
                }
                let reply_bytes = self.reply.len() + (turn.out.len() - start);
                if reply_bytes > turn.host.limits().output_bytes_max {
                    return self.fail(turn, start);
                }
                at += header.total();
            }
            self.left -= 1;
            records += 1;
        }
    }

    /// Whether no further record can be handed over together with those before it.
    #[cold]
    fn must_end<H: Host>(&self, turn: &Turn<'_, H>, rest: &[u8], records: usize) -> bool {
        let limits = turn.host.limits();
        self.left == 0
            || records == RECORDS_PER_TURN
            || self.header(rest).is_none_or(|header| {
                rest.len() < header.total()
                    || header.key_bytes > limits.key_bytes_max
                    || header.value_bytes > limits.value_bytes_max
            })
    }

    /// Processes one record of an existing database.
    #[inline]
    fn record<H: Host>(
        &mut self,
        turn: &mut Turn<'_, H>,
        header: &Header,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), ()> {
        let database = header.database;
        let persistent = turn.database(database).persistent;
        let outcome = match self.kind {
            Kind::Set => {
                let expires = match persistent {
                    true => Expires::Never,
                    false => numbers::expires(Some(header.xt), turn.host.now_ms()),
                };
                let set = Set { expires, ..Set::new(key, value) };
                ask(turn, database, &Command::String(StringCommand::Set(set)), |_| {})
            }
            Kind::Remove => {
                let command =
                    Command::Key(KeyCommand::DeleteIf { key, condition: Condition::Always });
                ask(turn, database, &command, |_| {})
            }
            Kind::Get => {
                let mut out = std::mem::take(turn.out);
                let outcome =
                    ask(turn, database, &Command::String(StringCommand::Get { key }), |record| {
                        let Some(record) = record else { return };
                        let xt = match (persistent, record.expires_at_ms) {
                            (true, _) => i64::MAX.unsigned_abs(),
                            (false, at_ms) => {
                                at_ms.and_then(numbers::xt_of).unwrap_or(numbers::XT_MAX)
                            }
                        };
                        // Reserves space for the numbers as well.
                        out.reserve(
                            18_usize.saturating_add(key.len()).saturating_add(record.value.len()),
                        );
                        out.extend_from_slice(&(database as u16).to_be_bytes());
                        out.extend_from_slice(&(key.len() as u32).to_be_bytes());
                        out.extend_from_slice(&(record.value.len() as u32).to_be_bytes());
                        out.extend_from_slice(&xt.to_be_bytes());
                        out.extend_from_slice(key);
                        out.extend_from_slice(record.value);
                    });
                *turn.out = out;
                match outcome {
                    Outcome::Done => turn.lookups.0 += 1,
                    Outcome::NotRun(_) => {}
                    _ => turn.lookups.1 += 1,
                }
                outcome
            }
            Kind::Script => Outcome::Absent,
        };
        match outcome {
            Outcome::Done => self.count += 1,
            // A bulk leaves out what is no string.
            Outcome::Failed(Error::WrongKind(_)) => {}
            Outcome::Failed(_) | Outcome::NotRun(_) => return Err(()),
            _ => {}
        }
        Ok(())
    }

    /// Replies to a bulk whose last record has been processed.
    fn finish<H: Host>(&mut self, turn: &mut Turn<'_, H>, start: usize, at: usize) -> Flow {
        let count = self.count.to_be_bytes();
        match self.kind {
            _ if self.silent => {}
            Kind::Set => turn.out.push(0xb8),
            Kind::Remove => turn.out.push(0xb9),
            Kind::Script => turn.out.push(ERROR),
            Kind::Get if self.reply.is_empty() => {
                turn.out[start + 1..start + 5].copy_from_slice(&count);
            }
            Kind::Get => {
                self.keep(turn, start);
                self.reply[1..5].copy_from_slice(&count);
                if turn.out.is_empty() {
                    // A swap, so that even a long reply is not copied again.
                    std::mem::swap(turn.out, &mut self.reply);
                } else {
                    turn.out.append(&mut self.reply);
                }
            }
        }
        if !self.silent && matches!(self.kind, Kind::Set | Kind::Remove) {
            turn.out.extend_from_slice(&count);
        }
        self.is_over = true;
        turn.observe(
            self.row,
            self.kind == Kind::Script,
            &[COMMANDS[self.row as usize].as_bytes()],
        );
        Flow::Done(at)
    }

    fn fail<H: Host>(&mut self, turn: &mut Turn<'_, H>, start: usize) -> Flow {
        turn.out.truncate(start);
        if !self.silent {
            turn.out.push(ERROR);
        }
        turn.observe(self.row, true, &[COMMANDS[self.row as usize].as_bytes()]);
        Flow::Close
    }

    /// Moves the records that a get found in this turn out of the output.
    fn keep<H: Host>(&mut self, turn: &mut Turn<'_, H>, start: usize) {
        self.reply.extend_from_slice(&turn.out[start..]);
        turn.out.truncate(start);
    }

    fn header_bytes(&self) -> usize {
        match self.kind {
            Kind::Set => 18,
            Kind::Remove | Kind::Get => 6,
            Kind::Script => 8,
        }
    }

    /// The header of the record at the front of the input, if it has arrived completely.
    #[inline]
    fn header(&self, input: &[u8]) -> Option<Header> {
        let bytes = self.header_bytes();
        let front = input.get(..bytes)?;
        let database = usize::from(u16::from_be_bytes([front[0], front[1]]));
        Some(match self.kind {
            Kind::Script => Header {
                database: 0,
                key_bytes: u32_at(front, 0) as usize,
                value_bytes: u32_at(front, 4) as usize,
                xt: 0,
                bytes,
            },
            Kind::Set => Header {
                database,
                key_bytes: u32_at(front, 2) as usize,
                value_bytes: u32_at(front, 6) as usize,
                xt: i64::from(u32_at(front, 10)) << 32 | i64::from(u32_at(front, 14)),
                bytes,
            },
            Kind::Remove | Kind::Get => Header {
                database,
                key_bytes: u32_at(front, 2) as usize,
                value_bytes: 0,
                xt: 0,
                bytes,
            },
        })
    }

    /// Prefetches the memory of the next records, as far as their keys have arrived.
    fn fetch_ahead<H: Host>(&self, turn: &Turn<'_, H>, mut input: &[u8]) {
        let mut keys: SmallVec<[&[u8]; PREFETCH_KEYS_MAX]> = SmallVec::new();
        let mut database = None;
        let most = PREFETCH_KEYS_MAX.min(self.left as usize);
        while keys.len() < most {
            let Some(header) = self.header(input) else { break };
            if *database.get_or_insert(header.database) != header.database {
                break;
            }
            let Some((record, rest)) = input.split_at_checked(header.total()) else { break };
            keys.push(&record[header.bytes..header.bytes + header.key_bytes]);
            input = rest;
        }
        // With a single key there is nothing to overlap the fetch with.
        if let Some(database) = database
            && keys.len() > 1
        {
            prefetch(turn.host.databases(), database, &keys);
        }
    }
}

/// The number at this offset, if there is one.
#[inline]
fn u32_at(input: &[u8], at: usize) -> u32 {
    match input.get(at..).and_then(|rest| rest.first_chunk()) {
        Some(bytes) => u32::from_be_bytes(*bytes),
        None => 0,
    }
}
