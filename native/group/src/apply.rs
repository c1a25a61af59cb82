//! Applies the log: executes the records of one entry after the other.
//!
//! Whatever this does follows from the state and the bytes alone, because every replica does it,
//! and each again after a restart. Time comes with the entry. An entry never fails: a broken record
//! gets an error, a panic gets an error, and the next record is executed. The exception is an entry
//! that a newer version has written: nothing of it is executed.
//!
//! An entry may take several slices, so that the caller's thread can do other work in between. No
//! other entry can come between them.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::{Duration, Instant};

use todana_command::cause::{self, Writer};
use todana_command::{
    Access, Command, Context, DatabaseCommand, Databases, Error, LONG_UNITS, NullReply, Place,
    Refusal, Reply, Scratch, ScriptCommand, Status, Tape, decode_transaction, estimated_units,
    execute_at, execute_logged_transaction, probable_script_units,
};
use todana_table::{Keyspace, PREFETCH_KEYS_MAX, Table};

use crate::batch::{COMBINED, Formats, Header, Newer, NoHeader, is_combined, next_batch};
use crate::clock::{Clock, Stamp};
use crate::figures::{Counters, count};
use crate::flights::{Flight, Flights, deliver};
use crate::home::Home;
use crate::origins::Origins;
use crate::record::{
    Front, Kind, Record, collect_of, create_table_of, front, limit_of, probable_key, set_time_of,
};
use crate::reports::Reports;
use crate::submission::Outcome;
use crate::tables::{Directory, NamedTable, Tables};
use crate::trigger::ENTRY_BYTES;

/// After this many units of work the clock is read: some microseconds. For units see
/// [`estimated_units`].
const CLOCK_UNITS: u64 = 16;

/// What a call of [`Group::apply`](crate::Group::apply) may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// About this time, but at least one record is executed.
    pub time: Duration,
    /// Whether it executes a record, which is one step, that may take much more than a quarter of a
    /// millisecond. Otherwise it returns [`Applied::Long`] instead.
    pub may_take_long: bool,
}

impl From<Duration> for Slice {
    fn from(time: Duration) -> Slice {
        Slice { time, may_take_long: true }
    }
}

/// How far an entry was applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Applied {
    /// The time was up: call again with this offset.
    More(usize),
    /// The next record may take long: call again with this offset, and permit it.
    Long(usize),
    /// The whole entry.
    Done {
        /// Whether it is time for a snapshot.
        snapshot_due: bool,
    },
    /// Nothing of it: this version cannot apply the entry, and must not apply any later one.
    Newer(Newer),
    /// Nothing of it: the offset is not the one that the last call returned, or belongs to another
    /// entry. A bug of the caller.
    OutOfStep,
}

/// What applying needs and does not change, or changes for others.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    pub(crate) databases: &'a Databases,
    pub(crate) seed: u64,
    pub(crate) incarnation: u64,
    pub(crate) flights: &'a Flights,
    pub(crate) directory: &'a Directory,
    pub(crate) counters: &'a Counters,
    pub(crate) formats: &'a Formats,
    pub(crate) clock: &'a Clock,
}

/// What the log determines, beside the contents of the tables.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) time: LogTime,
    /// The index of the last entry that was applied.
    pub(crate) applied: u64,
    pub(crate) origins: Origins,
    pub(crate) tables: Tables,
    /// What observers of the tables have seen. This belongs to the process, not to the log.
    pub(crate) reports: Reports,
    /// The batch that is being applied, between two slices.
    running: Option<Running>,
    /// Between two slices, and two batches of an entry: the entry, and where the next batch is.
    between: Option<(u64, usize)>,
}

/// The time of the log. It goes back only by `SetTime`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogTime {
    pub(crate) now: Stamp,
    /// Whether a batch has carried the time. From then on, only those that do advance it.
    pub(crate) is_stamped: bool,
}

/// A batch while it is being applied.
struct Running {
    /// The entry.
    index: u64,
    /// Where its next record begins, and where the batch ends.
    offset: usize,
    end: usize,
    sequence: u64,
    /// The longest value that its commands may build.
    value_bytes_max: usize,
    /// Records executed.
    records: u64,
    mine: Option<Mine>,
}

/// A batch of this node, for whose outcome its clients wait.
struct Mine {
    flight: Flight,
    /// The submission whose records are being executed, and how many of them are left.
    part: usize,
    left: usize,
    /// The replies to those that were executed.
    tape: Tape,
    /// The replies to the submissions before it that are not delivered yet.
    ready: Vec<Tape>,
}

/// What a record is executed with.
struct Execution<'a> {
    around: Surroundings<'a>,
    tables: &'a mut Tables,
    time: &'a mut LogTime,
    origins: &'a mut Origins,
    context: Context,
    scope: Scope<'a>,
    /// The work of the last record.
    units: u64,
}

/// What a slice may execute.
#[derive(Clone, Copy)]
struct Scope<'a> {
    /// The entry, up to the end of the batch.
    bytes: &'a [u8],
    /// The slice ends before the record at this offset.
    stop_at: usize,
    /// The slice ends about here.
    until: Instant,
    /// See [`Slice`].
    may_take_long: bool,
}

/// What became of a record.
enum Executed {
    Ended(Status),
    /// Nothing: its bytes are broken.
    Broken,
    /// Nothing: it may take long.
    Long,
}

/// Why a slice of a batch has ended.
enum SliceEnd {
    End,
    Time,
    Long,
    /// From here on, changes are reported.
    Loud,
}

impl State {
    /// Applies an entry, or a slice of it.
    pub(crate) fn apply(
        &mut self,
        around: Surroundings<'_>,
        bytes: &[u8],
        offset: usize,
        index: u64,
        time_ms: u64,
        slice: Slice,
    ) -> Applied {
        let until = Instant::now() + slice.time;
        let mut running = match offset {
            0 => match verify(bytes) {
                Ok(()) => None,
                Err(newer) => return Applied::Newer(newer),
            },
            _ if self.between.take_if(|it| *it == (index, offset)).is_some() => None,
            _ => {
                let is_it = |it: &mut Running| it.index == index && it.offset == offset;
                let Some(running) = self.running.take_if(is_it) else { return Applied::OutOfStep };
                Some(running)
            }
        };
        let mut loud_from = self.reports.loud_from(index);
        let (mut at, mut ended) = (offset, Vec::new());
        let paused = loop {
            let Some(mut batch) = running.take() else {
                let Some(place) = next_batch(bytes, at) else { break None };
                let is_slice_over = at > offset && Instant::now() >= until;
                let is_long = !slice.may_take_long
                    && self.is_clear_due(around, &bytes[place.clone()], time_ms);
                if is_slice_over || is_long {
                    self.between = (at > 0).then_some((index, at));
                    break Some(if is_long { Applied::Long(at) } else { Applied::More(at) });
                }
                if loud_from.is_some_and(|from| from <= at) {
                    // Before the clears that are due now.
                    self.end_quiet(around);
                    loud_from = None;
                }
                // That of an entry without bytes is the only one, too.
                at = place.end.max(1);
                running = self.begin(around, bytes, place, index, time_ms);
                continue;
            };
            if let Some(applied) =
                self.go_on(around, &mut batch, bytes, &mut loud_from, until, slice.may_take_long)
            {
                around.counters.answered_index.store(index, SeqCst);
                batch.mine.iter_mut().for_each(Mine::deliver);
                at = batch.offset;
                self.running = Some(batch);
                break Some(applied);
            }
            at = batch.end;
            count(&around.counters.batches);
            around.counters.records.fetch_add(batch.records, Relaxed);
            ended.extend(batch.mine);
        };
        self.reports.reach(index, if paused.is_some() { at } else { usize::MAX });
        if paused.is_some() {
            around.counters.answered_index.store(index, SeqCst);
        } else {
            self.applied = index;
            around.counters.applied_index.store(index, SeqCst);
            around.counters.logged_bytes.fetch_add(bytes.len() as u64 + ENTRY_BYTES, Relaxed);
        }
        for mine in ended {
            around.counters.commits.note(mine.flight.queued.elapsed());
            mine.end();
        }
        paused.unwrap_or(Applied::Done { snapshot_due: false })
    }

    /// Executes records of a batch. `None` if it has ended.
    fn go_on(
        &mut self,
        around: Surroundings<'_>,
        batch: &mut Running,
        bytes: &[u8],
        loud_from: &mut Option<usize>,
        until: Instant,
        may_take_long: bool,
    ) -> Option<Applied> {
        let bytes = &bytes[..batch.end];
        loop {
            let stop_at = loud_from.unwrap_or(usize::MAX);
            // A record may have set the time.
            let now_ms = self.time.now.ms;
            let context = Context { now_ms, value_bytes_max: batch.value_bytes_max };
            let State { tables, time, origins, .. } = &mut *self;
            let (scope, units) = (Scope { bytes, stop_at, until, may_take_long }, 0);
            let mut execution = Execution { around, tables, time, origins, context, scope, units };
            match batch.go_on(&mut execution) {
                SliceEnd::End => return None,
                SliceEnd::Time => return Some(Applied::More(batch.offset)),
                SliceEnd::Long => return Some(Applied::Long(batch.offset)),
                SliceEnd::Loud => {
                    self.end_quiet(around);
                    *loud_from = None;
                }
            }
        }
    }

    /// From now on, changes are reported to the observers of the tables.
    pub(crate) fn end_quiet(&mut self, around: Surroundings<'_>) {
        self.reports.end_quiet();
        self.tables.set_muted(false);
        self.durable_tables(around).for_each(|table| table.mute(false));
    }

    /// The records will be replaced by those after the entry `index`.
    pub(crate) fn begin_quiet(&mut self, around: Surroundings<'_>, index: u64) {
        self.reports.begin_load(index);
        self.tables.set_muted(true);
        self.durable_tables(around).for_each(|table| table.mute(true));
    }

    /// Begins the batch at this place of an entry. `None` if there is nothing to execute.
    fn begin(
        &mut self,
        around: Surroundings<'_>,
        bytes: &[u8],
        place: Range<usize>,
        index: u64,
        time_ms: u64,
    ) -> Option<Running> {
        if is_combined(bytes) {
            around.counters.format_used.fetch_max(COMBINED, Relaxed);
            around.formats.note_used(COMBINED);
        }
        let end = place.end;
        let header = Header::take(&bytes[place]);
        self.abandon(around.flights);
        let stamp = header.ok().and_then(|(header, _)| header.stamp);
        self.advance_time(around, stamp, time_ms);
        let Ok((Header { format, origin, sequence, value_bytes_max, .. }, records)) = header else {
            count(&around.counters.malformed);
            return None;
        };
        around.counters.format_used.fetch_max(format, Relaxed);
        around.formats.note_used(format);
        let flight = match origin == around.incarnation {
            true => around.flights.take(sequence),
            false => None,
        };
        if !self.origins.admit(origin, sequence, self.time.now.ms) {
            count(&around.counters.duplicates);
            // Applied before this replica's state began, or given up: nobody knows.
            flight.iter().for_each(Flight::give_up);
            return None;
        }
        let offset = end - records.len();
        let mine = flight.map(Mine::new);
        Some(Running { index, offset, end, sequence, value_bytes_max, records: 0, mine })
    }

    /// Advances the time of the log, and applies the clears that were scheduled for it.
    fn advance_time(&mut self, around: Surroundings<'_>, stamp: Option<Stamp>, time_ms: u64) {
        self.time = self.time.after(stamp, time_ms);
        self.time.publish(around);
        let now_ms = self.time.now.ms;
        self.durable_tables(around).for_each(|table| table.apply_due_clear(now_ms));
    }

    /// Whether a batch of this time applies a clear that was scheduled.
    fn is_clear_due(&self, around: Surroundings<'_>, bytes: &[u8], time_ms: u64) -> bool {
        let stamp = Header::take(bytes).ok().and_then(|(header, _)| header.stamp);
        let now_ms = self.time.after(stamp, time_ms).now.ms;
        self.durable_tables(around).any(|table| table.clear_is_due(now_ms))
    }

    fn durable_tables<'a>(&'a self, around: Surroundings<'a>) -> impl Iterator<Item = &'a Table> {
        durable_tables(around, &self.tables)
    }

    /// Forgets everything but the tables.
    pub(crate) fn begin_anew(&mut self, flights: &Flights) {
        self.abandon(flights);
        let (tables, reports) =
            (std::mem::take(&mut self.tables), std::mem::take(&mut self.reports));
        *self = State { tables, reports, ..State::default() };
    }

    /// Gives up an entry that was not applied to its end: the log will be applied again from an
    /// earlier point.
    pub(crate) fn abandon(&mut self, flights: &Flights) {
        self.between = None;
        if let Some(Running { sequence, mine: Some(mine), .. }) = self.running.take() {
            flights.put_back(sequence, mine.flight);
        }
    }
}

impl State {
    /// Whether an entry was begun and not ended.
    pub(crate) fn is_in_entry(&self) -> bool {
        self.running.is_some() || self.between.is_some()
    }
}

impl LogTime {
    /// The time with an entry that carries this stamp, or none, and that the log's library wrote at
    /// `time_ms`, by the wall clock of its leader.
    fn after(self, stamp: Option<Stamp>, time_ms: u64) -> LogTime {
        let Stamp { era, ms } = self.now;
        let reached_ms = match stamp {
            Some(stamp) if stamp.era == era => stamp.ms,
            None if !self.is_stamped => time_ms,
            _ => 0,
        };
        let now = Stamp { era, ms: ms.max(reached_ms) };
        LogTime { now, is_stamped: self.is_stamped || stamp.is_some() }
    }

    pub(crate) fn publish(self, around: Surroundings<'_>) {
        around.counters.log_time_ms.store(self.now.ms, Relaxed);
        around.clock.meet(self.now);
    }
}

fn durable_tables<'a>(
    around: Surroundings<'a>,
    tables: &'a Tables,
) -> impl Iterator<Item = &'a Table> {
    let durable = around.databases.tables().iter().filter(|table| table.is_durable());
    let named = tables.list().iter().map(|table| table.table());
    durable.chain(named).map(|table| &**table)
}

/// Whether this version knows the formats of all batches, and the kinds of all records.
fn verify(entry: &[u8]) -> Result<(), Newer> {
    let mut at = 0;
    while let Some(place) = next_batch(entry, at) {
        at = place.end.max(1);
        match Header::take(&entry[place]) {
            Ok((_, records)) => check_kinds(records)?,
            Err(NoHeader::Newer(newer)) => return Err(newer),
            Err(NoHeader::Malformed) => {}
        }
    }
    Ok(())
}

/// Whether all records are of kinds that this version knows.
fn check_kinds(mut bytes: &[u8]) -> Result<(), Newer> {
    loop {
        match front(bytes) {
            Front::Record(_, rest) | Front::Broken(rest) => bytes = rest,
            Front::Unframed | Front::End => return Ok(()),
            Front::Unknown(kind) => return Err(Newer::Kind(kind)),
        }
    }
}

impl Running {
    /// Executes records until the end, or until the slice is over.
    fn go_on(&mut self, execution: &mut Execution<'_>) -> SliceEnd {
        loop {
            let (offset, records) = (&mut self.offset, &mut self.records);
            let mut step = || match &mut self.mine {
                Some(mine) => run(execution, mine, offset, records),
                None => run(execution, &mut Others(NullReply), offset, records),
            };
            match catch_unwind(AssertUnwindSafe(&mut step)) {
                Ok(end) => return end,
                // `run` has noted where the next record begins.
                Err(_) => {
                    count(&execution.around.counters.panics);
                    if let Some(mine) = &mut self.mine {
                        mine.end_record(Status::Internal);
                    }
                }
            }
        }
    }
}

/// Receives the replies to a record.
trait Recorder: Reply {
    /// The next command of a transaction.
    fn next_command(&mut self);
}

impl Recorder for Tape {
    fn next_command(&mut self) {
        Tape::next_command(self);
    }
}

impl Recorder for NullReply {
    #[inline(always)]
    fn next_command(&mut self) {}
}

/// Receives the replies to the records of an entry.
trait Replies {
    type Reply: Recorder;
    fn reply(&mut self) -> &mut Self::Reply;
    /// Whether reads are executed.
    const READS: bool;
    /// A record was executed.
    fn end_record(&mut self, status: Status);
    /// Whose record is next.
    fn writer(&self) -> Writer;
}

/// Of another node, or of nobody.
struct Others(NullReply);

impl Replies for Others {
    type Reply = NullReply;
    #[inline(always)]
    fn reply(&mut self) -> &mut NullReply {
        &mut self.0
    }
    const READS: bool = false;
    #[inline(always)]
    fn end_record(&mut self, _: Status) {}
    fn writer(&self) -> Writer {
        Writer::Unknown
    }
}

impl Replies for Mine {
    type Reply = Tape;
    #[inline]
    fn reply(&mut self) -> &mut Tape {
        &mut self.tape
    }
    const READS: bool = true;
    #[inline]
    fn end_record(&mut self, status: Status) {
        self.tape.end(status);
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.end_part();
        }
    }
    fn writer(&self) -> Writer {
        let part = self.flight.parts.get(self.part);
        part.map_or(Writer::Unknown, |part| part.ticket.writer())
    }
}

impl Mine {
    fn new(flight: Flight) -> Mine {
        let ready = Vec::with_capacity(flight.parts.len());
        let mut mine = Mine { flight, part: 0, left: 0, tape: Tape::new(), ready };
        mine.enter();
        mine
    }

    /// Begins with the present submission. Those without records are done at once.
    fn enter(&mut self) {
        while let Some(part) = self.flight.parts.get(self.part) {
            self.left = part.count;
            if self.left > 0 {
                return;
            }
            self.ready.push(Tape::new());
            self.part += 1;
        }
    }

    /// The present submission is executed.
    fn end_part(&mut self) {
        let tape = std::mem::take(&mut self.tape);
        if self.part < self.flight.parts.len() {
            self.ready.push(tape);
            self.part += 1;
        }
        self.enter();
    }

    /// Delivers the replies to the submissions that are executed.
    fn deliver(&mut self) {
        let first = self.part - self.ready.len();
        let parts = self.flight.parts.get(first..self.part).unwrap_or_default();
        deliver(parts.iter().zip(self.ready.drain(..).map(Outcome::Applied)));
    }

    /// The entry has ended. Submissions with fewer records than they said do not exist, unless
    /// their bytes were damaged.
    fn end(mut self) {
        self.deliver();
        let left = self.flight.parts.get(self.part..).unwrap_or_default();
        deliver(left.iter().map(|part| (part, Outcome::Unknown)));
    }
}

/// Executes records from `offset` until the end, or until the slice is over. If a record panics,
/// `offset` is behind it.
fn run<R: Replies>(
    execution: &mut Execution<'_>,
    replies: &mut R,
    offset: &mut usize,
    records: &mut u64,
) -> SliceEnd {
    let Scope { bytes, stop_at, until, .. } = execution.scope;
    let mut scratch = Scratch::default();
    let (mut unclocked, mut ahead) = (0, 0);
    loop {
        let start = *offset;
        let at = bytes.get(start..).unwrap_or_default();
        let (record, rest) = match front(at) {
            Front::Record(record, rest) => (Some(record), rest),
            Front::Broken(rest) => (None, rest),
            // `verify` has excluded unknown kinds.
            Front::Unframed | Front::Unknown(_) => (None, &[][..]),
            Front::End => return SliceEnd::End,
        };
        if start >= stop_at {
            return SliceEnd::Loud;
        }
        if unclocked >= CLOCK_UNITS {
            unclocked = 0;
            if Instant::now() >= until {
                return SliceEnd::Time;
            }
        }
        if ahead == 0 {
            ahead = execution.prefetch(at);
        }
        ahead -= 1;
        *offset = bytes.len() - rest.len();
        execution.units = 1;
        if cause::is_listened() {
            cause::note_writer(replies.writer());
        }
        let executed = match &record {
            Some(Record { kind: Kind::Read, .. }) if !R::READS => Executed::Ended(Status::Done),
            Some(record) => execution.execute(record, &mut scratch, replies.reply()),
            None => Executed::Broken,
        };
        let status = match executed {
            Executed::Ended(status) => status,
            Executed::Broken => {
                count(&execution.around.counters.malformed);
                Status::Internal
            }
            Executed::Long => {
                *offset = start;
                return SliceEnd::Long;
            }
        };
        unclocked += execution.units;
        *records += 1;
        replies.end_record(status);
    }
}

impl Execution<'_> {
    /// Executes a record.
    #[inline]
    fn execute<'b, R: Recorder>(
        &mut self,
        record: &Record<'b>,
        scratch: &mut Scratch<'b>,
        reply: &mut R,
    ) -> Executed {
        match record.kind {
            Kind::Command | Kind::Read => {
                let Ok((command, rest)) = Command::decode(record.body, scratch) else {
                    return Executed::Broken;
                };
                let Some(limit) = limit_of(rest) else { return Executed::Broken };
                if record.kind == Kind::Read
                    && (limit.is_some() || command.access() != Access::Read)
                {
                    return Executed::Broken;
                }
                if !self.admits(self.units_of(record.home, &command)) {
                    return Executed::Long;
                }
                let mut context = self.context;
                if let Some(limit) = limit {
                    context.value_bytes_max = context.value_bytes_max.min(limit);
                }
                self.command(record.home, &command, context, reply);
            }
            Kind::Transaction => return self.transaction(record, reply),
            Kind::CreateTable => {
                let Some((name, options)) = create_table_of(record.body) else {
                    return Executed::Broken;
                };
                self.units = CLOCK_UNITS;
                match self.tables.create(name, &options, self.around.seed) {
                    Some(id) => {
                        self.around.directory.publish(self.tables);
                        reply.integer(id.cast_signed());
                    }
                    None => reply.refused(Refusal::Present),
                }
            }
            Kind::DropTable => {
                let units = |named: &Arc<NamedTable>| {
                    estimated_units(
                        &Command::Database(DatabaseCommand::Clear { at_ms: None }),
                        named.table(),
                        LONG_UNITS,
                    )
                };
                if !self.admits(self.tables.by_name(record.body).map_or(1, units)) {
                    return Executed::Long;
                }
                match self.tables.drop_table(record.body) {
                    Some(dropped) => {
                        self.around.directory.publish(self.tables);
                        dropped.table().clear();
                        reply.done();
                    }
                    None => reply.refused(Refusal::Absent),
                }
            }
            Kind::Collect => {
                let Some(shards) = collect_of(record.body) else { return Executed::Broken };
                self.units = CLOCK_UNITS;
                let now_ms = self.context.now_ms;
                match self.table(record.home) {
                    Some(table) => reply.integer(table.collect(shards, now_ms) as i64),
                    None => reply.error(Error::NoSuchDatabase),
                }
            }
            Kind::TimeMark => reply.done(),
            Kind::SetTime => {
                let Some(time_ms) = set_time_of(record.body) else { return Executed::Broken };
                // Before a command that would find what is to be cleared.
                let is_clear_due = durable_tables(self.around, self.tables)
                    .any(|table| table.clear_is_due(time_ms));
                if is_clear_due && !self.admits(LONG_UNITS) {
                    return Executed::Long;
                }
                let now = Stamp { era: self.time.now.era + 1, ms: time_ms };
                *self.time = LogTime { now, is_stamped: true };
                self.time.publish(self.around);
                self.origins.set_back(time_ms);
                self.context.now_ms = time_ms;
                durable_tables(self.around, self.tables)
                    .for_each(|table| table.apply_due_clear(time_ms));
                reply.done();
            }
        }
        Executed::Ended(Status::Done)
    }

    /// Whether so much work may be done now.
    #[inline]
    fn admits(&mut self, units: u64) -> bool {
        self.units = units;
        self.scope.may_take_long || units < LONG_UNITS
    }

    #[inline]
    fn units_of(&self, home: Home, command: &Command<'_>) -> u64 {
        if let Command::Script(ScriptCommand::Run(script)) = command {
            return probable_script_units(script, self.around.databases);
        }
        self.table(home).map_or(1, |table| estimated_units(command, table, LONG_UNITS))
    }

    #[inline]
    fn command<R: Reply>(
        &self,
        home: Home,
        command: &Command<'_>,
        context: Context,
        reply: &mut R,
    ) {
        match self.place(home) {
            Some(place) => execute_at(place, command, context, reply),
            None => reply.error(Error::NoSuchDatabase),
        }
    }

    /// Executes a transaction, with all its locks held.
    fn transaction<R: Recorder>(&mut self, record: &Record<'_>, reply: &mut R) -> Executed {
        let mut scratch = Vec::new();
        let Ok(transaction) = decode_transaction(record.body, &mut scratch) else {
            return Executed::Broken;
        };
        let home = |database: usize| match record.home {
            // A number beyond those of the databases is the id of no table.
            Home::Database(_) => Home::of(database as u64),
            named @ Home::Table(_) => named,
        };
        let units = transaction
            .commands
            .iter()
            .map(|(database, command)| self.units_of(home(*database), command));
        if !self.admits(units.fold(CLOCK_UNITS, u64::saturating_add)) {
            return Executed::Long;
        }
        let Some(place) = self.place(record.home) else {
            reply.error(Error::NoSuchDatabase);
            return Executed::Ended(Status::Done);
        };
        let (context, each) = (self.context, |reply: &mut R, _| reply.next_command());
        Executed::Ended(execute_logged_transaction(place, &transaction, context, reply, each))
    }

    /// Prefetches the memory that the next records need. Returns their number, at least one.
    fn prefetch(&self, mut bytes: &[u8]) -> usize {
        let (mut keys, mut len, mut count) = ([&[][..]; PREFETCH_KEYS_MAX], 0, 0);
        let mut first = None;
        while count < PREFETCH_KEYS_MAX
            && let Front::Record(record, rest) = front(bytes)
        {
            (bytes, count) = (rest, count + 1);
            let home = *first.get_or_insert(record.home);
            if let Kind::Command | Kind::Read = record.kind
                && home == record.home
                && let Some(key) = probable_key(record.body)
            {
                (keys[len], len) = (key, len + 1);
            }
        }
        if len > 1
            && let Some(home) = first
            && let Some(table) = self.table(home)
        {
            table.prefetch(&keys[..len]);
        }
        count.max(1)
    }

    /// What the commands of a home run on, unless it is a table that does not exist.
    #[inline]
    fn place(&self, home: Home) -> Option<Place<'_>> {
        match home {
            Home::Database(number) => Some(Place::Database(self.around.databases, number)),
            Home::Table(id) => self.tables.by_id(id).map(|named| Place::Table(named.table())),
        }
    }

    #[inline]
    fn table(&self, home: Home) -> Option<&Table> {
        self.place(home).map(Place::table)
    }
}
