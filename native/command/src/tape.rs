//! Tapes: replies recorded where commands are executed, and played where they are formatted.
//!
//! The thread that applies the log executes the commands of many clients, of every protocol. It
//! records each reply as the calls on [`Reply`], and the thread that serves the client plays them
//! into its protocol's own writer. A tape goes to another node only if both have the same version
//! of it, so its format may change.
//!
//! ```text
//!  tape      the records of one submission, in order
//!  record    calls (in a transaction: `Next` before each command's calls) | `Executed` or `Failed`
//!  call      number of the method 1 | arguments, as encoded commands have them (`encode.rs`)
//!
//!  SET a b   06 aa 01 | 15
//!            Stored(170), Executed
//! ```
//!
//! A large value is a handle beside the bytes, not a copy.

use crate::logged_watch::LoggedWatch;
use crate::reply::{
    Description, Error, HELD_BYTES_MIN, Inadmissible, LcsSpan, LeaseState, Record, Refusal, Reply,
};
use crate::value::Value;
use crate::wire::{Input, Malformed, Put, Take, enums, structs};
use std::ops::Range;
use std::vec::IntoIter;
use todana_table::Shared;

/// How the execution of a record of the log ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// It was executed. Its replies may be errors.
    Done,
    /// A watched key had changed, so the transaction was not executed.
    WatchFailed,
    /// The transaction was refused and not executed.
    Inadmissible(Inadmissible),
    /// Its execution failed because of a bug. It may have changed records.
    Internal,
    /// It was not executed by the node that was asked, or perhaps it was. The number is that node's
    /// reason. No log has this status: only what is on the way between two nodes.
    Refused(u16),
}

/// The recorded replies to the records of one submission, in order.
#[derive(Clone, Debug, Default)]
pub struct Tape {
    bytes: Vec<u8>,
    /// The large values, in the order of their calls.
    handles: Vec<Shared>,
    /// The length of both at the end of the last complete record.
    complete: (usize, usize),
    /// Whether it is for another node, so that it has no handles.
    travels: bool,
}

impl Tape {
    /// An empty tape.
    pub fn new() -> Tape {
        Tape::default()
    }

    /// An empty tape for another node of the same version. It copies large values.
    pub fn for_another_node() -> Tape {
        Tape { travels: true, ..Tape::default() }
    }

    /// The next replies are those of the next command of a transaction.
    pub fn next_command(&mut self) {
        self.add(Call::Next {});
    }

    /// Ends a record. Unless it was executed, the replies that it has made are removed.
    pub fn end(&mut self, status: Status) {
        if status != Status::Done {
            self.bytes.truncate(self.complete.0);
            self.handles.truncate(self.complete.1);
        }
        self.add(match status {
            Status::Done => Call::Executed {},
            _ => Call::Failed { status },
        });
        self.complete = (self.bytes.len(), self.handles.len());
    }

    /// Bytes recorded, without the large values.
    pub fn recorded_bytes(&self) -> usize {
        self.bytes.len() + self.handles.len() * size_of::<Shared>()
    }

    /// The record began a watch.
    pub fn watch(&mut self, watch: &LoggedWatch<'_>) {
        self.add(Call::Watch { watch: *watch });
    }

    /// Whether nothing is recorded.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        *self = Tape { travels: self.travels, ..Tape::default() };
    }

    /// Adds the records of another tape behind those of this one.
    pub fn append(&mut self, mut other: Tape) {
        self.bytes.append(&mut other.bytes);
        self.handles.append(&mut other.handles);
        self.complete = (self.bytes.len(), self.handles.len());
    }

    /// The tape as bytes. It must be one for another node.
    pub fn into_bytes(self) -> Vec<u8> {
        debug_assert!(self.travels, "a tape with handles");
        self.bytes
    }

    /// The tape of these bytes. If they are none, the player says so.
    pub fn from_bytes(bytes: Vec<u8>) -> Tape {
        let complete = (bytes.len(), 0);
        Tape { bytes, complete, ..Tape::default() }
    }

    #[inline]
    fn add(&mut self, call: Call<'_>) {
        call.put(&mut self.bytes);
    }
}

/// One call on [`Reply`], or a mark between calls.
#[derive(Clone, Copy)]
enum Call<'a> {
    Done {},
    None {},
    Record {
        record: Record<'a>,
    },
    Held {},
    Part {
        start: usize,
        end: usize,
    },
    Lease {
        record: Record<'a>,
        state: LeaseState,
    },
    Stored {
        version: u64,
    },
    Refused {
        refusal: Refusal,
    },
    Integer {
        number: i64,
    },
    Number {
        record: Record<'a>,
    },
    Length {
        length: usize,
        version: u64,
    },
    Flag {
        flag: bool,
    },
    Bytes {
        bytes: &'a [u8],
    },
    Expiry {
        expires_at_ms: Option<u64>,
    },
    List {
        length: usize,
    },
    Page {
        cursor: u64,
        length: usize,
    },
    Slice {
        after: Option<&'a [u8]>,
        length: usize,
    },
    Key {
        key: &'a [u8],
    },
    /// The spans follow.
    Matches {
        spans: usize,
        length: usize,
        with_lengths: bool,
    },
    Error {
        error: Error,
    },
    /// The value follows.
    Value {},
    Description {
        description: Description<'a>,
    },
    /// A watch that was begun.
    Watch {
        watch: LoggedWatch<'a>,
    },
    /// The next command of the transaction.
    Next {},
    /// The end of a record.
    Executed {},
    /// The end of a record that was not executed.
    Failed {
        status: Status,
    },
}

structs! {
    Record<'a> { key, value, flags, version, expires_at_ms }
    LeaseState { won, already_won, stale, fetched_before, idle_s, created }
    LcsSpan { first, second }
    Description<'a> {
        key, kind, is_integer, length, bytes, version, expires_at_ms, idle_s, fetched
    }
}

enums! {
    Refusal {
        0 Present {}
        1 Absent {}
        2 VersionDiffers {}
        3 ValueDiffers {}
    }
    Error {
        0 NotAnInteger {}
        1 NotAFloat {}
        2 Overflow {}
        3 NotFinite {}
        4 ValueTooLarge {}
        5 Full {}
        6 NoSuchDatabase {}
        7 SameObject {}
        8 NotACounter {}
        9 NotOrdered {}
        10 ReplyTooLarge {}
        11 TooManyKeys {}
        12 DifferentDurability {}
        13 NoScripts {}
        14 NotASketch {}
        15 CorruptSketch {}
        16 BadPayload {}
        17 BadFormat {}
        18 OtherType {}
        19 Contended {}
        20 WrongKind { 0: kind }
    }
    Inadmissible {
        0 TooMuchWork {}
        1 Full {}
        2 DifferentDurability {}
        3 ValueTooLarge {}
    }
    Status {
        0 Done {}
        1 WatchFailed {}
        2 Inadmissible { 0: reason }
        3 Internal {}
        4 Refused { 0: reason }
    }
    Call<'a> {
        0 Done {}
        1 None {}
        2 Record { record }
        3 Held {}
        4 Part { start, end }
        5 Lease { record, state }
        6 Stored { version }
        7 Refused { refusal }
        8 Integer { number }
        9 Number { record }
        10 Length { length, version }
        11 Flag { flag }
        12 Bytes { bytes }
        13 Expiry { expires_at_ms }
        14 List { length }
        15 Page { cursor, length }
        16 Slice { after, length }
        17 Key { key }
        18 Matches { spans, length, with_lengths }
        19 Error { error }
        20 Next {}
        21 Executed {}
        22 Failed { status }
        23 Value {}
        24 Description { description }
        25 Watch { watch }
    }
}

impl Reply for Tape {
    fn done(&mut self) {
        self.add(Call::Done {});
    }
    fn none(&mut self) {
        self.add(Call::None {});
    }
    fn record(&mut self, record: Record<'_>) {
        self.add(Call::Record { record });
    }
    fn holds(&self, value_bytes: usize) -> bool {
        !self.travels && value_bytes >= HELD_BYTES_MIN
    }
    fn held(&mut self, shared: Shared) {
        if self.travels {
            return self.record(Record::of_shared(&shared));
        }
        self.handles.push(shared);
        self.add(Call::Held {});
    }
    fn part(&mut self, shared: Shared, range: Range<usize>) {
        if self.travels {
            return self.bytes(shared.get(range).unwrap_or_default());
        }
        self.handles.push(shared);
        self.add(Call::Part { start: range.start, end: range.end });
    }
    fn description(&mut self, description: Description<'_>) {
        self.add(Call::Description { description });
    }

    fn lease(&mut self, record: Record<'_>, state: LeaseState) {
        self.add(Call::Lease { record, state });
    }
    fn stored(&mut self, version: u64) {
        self.add(Call::Stored { version });
    }
    fn refused(&mut self, refusal: Refusal) {
        self.add(Call::Refused { refusal });
    }
    fn integer(&mut self, number: i64) {
        self.add(Call::Integer { number });
    }
    fn number(&mut self, record: Record<'_>) {
        self.add(Call::Number { record });
    }
    fn length(&mut self, length: usize, version: u64) {
        self.add(Call::Length { length, version });
    }
    fn flag(&mut self, flag: bool) {
        self.add(Call::Flag { flag });
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.add(Call::Bytes { bytes });
    }
    fn expiry(&mut self, expires_at_ms: Option<u64>) {
        self.add(Call::Expiry { expires_at_ms });
    }
    fn list(&mut self, length: usize) {
        self.add(Call::List { length });
    }
    fn page(&mut self, cursor: u64, length: usize) {
        self.add(Call::Page { cursor, length });
    }
    fn slice(&mut self, after: Option<&[u8]>, length: usize) {
        self.add(Call::Slice { after, length });
    }
    fn key(&mut self, key: &[u8]) {
        self.add(Call::Key { key });
    }
    fn matches(&mut self, spans: &[LcsSpan], length: usize, with_lengths: bool) {
        self.add(Call::Matches { spans: spans.len(), length, with_lengths });
        spans.iter().for_each(|span| span.put(&mut self.bytes));
    }
    fn value(&mut self, value: &Value) {
        self.add(Call::Value {});
        value.put(&mut self.bytes);
    }
    fn error(&mut self, error: Error) {
        self.add(Call::Error { error });
    }
}

/// Plays a tape, one record at a time.
#[derive(Debug)]
pub struct Player {
    bytes: Vec<u8>,
    at: usize,
    handles: IntoIter<Shared>,
}

impl Player {
    /// Plays from the beginning.
    pub fn new(tape: Tape) -> Player {
        Player { bytes: tape.bytes, at: 0, handles: tape.handles.into_iter() }
    }

    /// Plays the replies to the next record. `None` at the end of the tape.
    pub fn next(&mut self, reply: &mut impl Reply) -> Option<Status> {
        self.next_transaction(reply, |_, _| {})
    }

    /// The same for a transaction. Calls `each` before each command's reply, with the command's
    /// index, as [`execute_transaction`](crate::execute_transaction) does.
    pub fn next_transaction<R: Reply>(
        &mut self,
        reply: &mut R,
        mut each: impl FnMut(&mut R, usize),
    ) -> Option<Status> {
        if self.is_at_end() {
            return None;
        }
        let mut input = Input { rest: &self.bytes[self.at..], scratch: None };
        let mut commands = 0;
        let played = loop {
            match Call::take(&mut input) {
                Ok(Call::Next {}) => {
                    each(reply, commands);
                    commands += 1;
                }
                Ok(Call::Executed {}) => break Ok(Status::Done),
                Ok(Call::Failed { status }) => break Ok(status),
                Ok(call) => {
                    if play(call, &mut input, &mut self.handles, reply).is_err() {
                        break Err(Malformed);
                    }
                }
                Err(Malformed) => break Err(Malformed),
            }
        };
        // A record without an end is the last: it was being recorded.
        self.at = self.bytes.len() - played.map_or(0, |_| input.rest.len());
        Some(played.unwrap_or(Status::Internal))
    }

    /// Looks at the watch that the next record has begun, unless it ended otherwise. `None` at the
    /// end of the tape.
    pub fn next_watch(&mut self, look: impl FnOnce(&LoggedWatch<'_>)) -> Option<Status> {
        if self.is_at_end() {
            return None;
        }
        let mut input = Input { rest: &self.bytes[self.at..], scratch: None };
        if let Ok(Call::Watch { watch }) = Call::take(&mut input) {
            look(&watch);
            self.at = self.bytes.len() - input.rest.len();
        }
        self.next(&mut NullReply)
    }

    /// Whether all records were played.
    pub fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }
}

/// Calls the method that was recorded.
fn play<'b>(
    call: Call<'b>,
    input: &mut Input<'b, 'b>,
    handles: &mut IntoIter<Shared>,
    reply: &mut impl Reply,
) -> Result<(), Malformed> {
    match call {
        Call::Done {} => reply.done(),
        Call::None {} => reply.none(),
        Call::Record { record } => reply.record(record),
        Call::Held {} => {
            let shared = handles.next().ok_or(Malformed)?;
            if reply.holds(shared.len()) {
                reply.held(shared);
            } else {
                reply.record(Record::of_shared(&shared));
            }
        }
        Call::Part { start, end } => reply.part(handles.next().ok_or(Malformed)?, start..end),
        Call::Description { description } => reply.description(description),
        Call::Lease { record, state } => reply.lease(record, state),
        Call::Stored { version } => reply.stored(version),
        Call::Refused { refusal } => reply.refused(refusal),
        Call::Integer { number } => reply.integer(number),
        Call::Number { record } => reply.number(record),
        Call::Length { length, version } => reply.length(length, version),
        Call::Flag { flag } => reply.flag(flag),
        Call::Bytes { bytes } => reply.bytes(bytes),
        Call::Expiry { expires_at_ms } => reply.expiry(expires_at_ms),
        Call::List { length } => reply.list(length),
        Call::Page { cursor, length } => reply.page(cursor, length),
        Call::Slice { after, length } => reply.slice(after, length),
        Call::Key { key } => reply.key(key),
        Call::Matches { spans, length, with_lengths } => {
            let spans: Vec<LcsSpan> =
                (0..spans).map(|_| LcsSpan::take(input)).collect::<Result<_, _>>()?;
            reply.matches(&spans, length, with_lengths);
        }
        Call::Value {} => reply.value(&Value::take(input)?),
        Call::Error { error } => reply.error(error),
        Call::Watch { .. } | Call::Next {} | Call::Executed {} | Call::Failed { .. } => {
            return Err(Malformed);
        }
    }
    Ok(())
}

/// Ignores a reply that nobody waits for.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullReply;

impl Reply for NullReply {
    #[inline(always)]
    fn done(&mut self) {}
    #[inline(always)]
    fn none(&mut self) {}
    #[inline(always)]
    fn record(&mut self, _record: Record<'_>) {}
    #[inline(always)]
    fn holds(&self, _value_bytes: usize) -> bool {
        false
    }
    #[inline(always)]
    fn held(&mut self, _shared: Shared) {}
    #[inline(always)]
    fn part(&mut self, _shared: Shared, _range: Range<usize>) {}
    #[inline(always)]
    fn description(&mut self, _description: Description<'_>) {}
    #[inline(always)]
    fn lease(&mut self, _record: Record<'_>, _state: LeaseState) {}
    #[inline(always)]
    fn stored(&mut self, _version: u64) {}
    #[inline(always)]
    fn refused(&mut self, _refusal: Refusal) {}
    #[inline(always)]
    fn integer(&mut self, _number: i64) {}
    #[inline(always)]
    fn number(&mut self, _record: Record<'_>) {}
    #[inline(always)]
    fn length(&mut self, _length: usize, _version: u64) {}
    #[inline(always)]
    fn flag(&mut self, _flag: bool) {}
    #[inline(always)]
    fn bytes(&mut self, _bytes: &[u8]) {}
    #[inline(always)]
    fn expiry(&mut self, _expires_at_ms: Option<u64>) {}
    #[inline(always)]
    fn list(&mut self, _length: usize) {}
    #[inline(always)]
    fn page(&mut self, _cursor: u64, _length: usize) {}
    #[inline(always)]
    fn slice(&mut self, _after: Option<&[u8]>, _length: usize) {}
    #[inline(always)]
    fn key(&mut self, _key: &[u8]) {}
    #[inline(always)]
    fn matches(&mut self, _spans: &[LcsSpan], _length: usize, _with_lengths: bool) {}
    #[inline(always)]
    fn value(&mut self, _value: &Value) {}
    #[inline(always)]
    fn error(&mut self, _error: Error) {}
}
