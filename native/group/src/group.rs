//! The group: the tables of a durable node, and their log's two ends.

use std::fmt;
use std::sync::atomic::{
    AtomicBool,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use todana_command::{DATABASES, Databases, FORMAT_MIN};
use todana_table::Table;

use crate::apply::{Applied, Slice, State, Surroundings};
use crate::batch::{Formats, HEADER_BYTES_MAX, Header, STAMPED};
use crate::clock::Clock;
use crate::collect::{Collect, Collector};
use crate::figures::{Counters, Figures, count};
use crate::flights::{Flight, Flights, Part, deliver};
use crate::gate::SharedGate;
use crate::home::Home;
use crate::queue::{Queue, Taken, TooLong};
use crate::record::{are_records, only_remove};
use crate::submission::{Deliver, Gate, Outcome, Submission, Submit, Ticket};
use crate::tables::{Directory, NamedTable};
use crate::trigger::{Trigger, early, threshold};
use crate::waiting_reads::WaitingReads;

/// Bytes that may wait in the queue by default.
pub const QUEUE_BYTES_MAX: usize = 32 << 20;

/// While a batch is in flight, the next one follows if this number of bytes waits.
const AHEAD_BYTES_MIN: usize = 16 << 10;

/// Why the gate is closed at first.
pub(crate) const RECOVERING: &str = "the log is being read";

/// How a group is made.
#[derive(Debug)]
pub struct GroupOptions {
    /// The numbered databases. Those whose tables are durable belong to the group.
    pub databases: Arc<Databases>,
    /// The group's seed, drawn when its data directory was created.
    pub seed: u64,
    /// A number drawn at random by each instance of the native library.
    pub incarnation: u64,
    /// The longest value that a command may write or build, in bytes. It applies to the commands
    /// that are submitted here, also when they are replayed with another limit.
    pub value_bytes_max: usize,
    /// Beyond this number of bytes, the queue has no room for more submissions.
    pub queue_bytes_max: usize,
    /// A snapshot is due when this number of bytes was logged since the last one began. `None`:
    /// half of the tables' bytes, but at least 64 MiB and at most 4 GiB. If the group has other
    /// members, up to a quarter less.
    pub snapshot_log_bytes: Option<u64>,
}

/// Wakes the batcher, and the party that asks the leader for a read index.
pub trait Wake: Send + Sync {
    /// Something in the queue can be taken, and nothing could before. Called by any thread, so it
    /// must be brief.
    fn wake(&self);
    /// A reader waits for the next question, and no other did before. The same holds.
    fn wake_asker(&self) {}
}

/// A batch to be written to the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Its sequence, by which [`Group::forget`] names it. The same bytes may be written again if
    /// they are perhaps lost: they are applied once.
    pub sequence: u64,
    /// The entry.
    pub bytes: Vec<u8>,
}

/// The tables whose records only the log changes.
pub struct Group {
    pub(crate) options: GroupOptions,
    wake: Box<dyn Wake>,
    pub(crate) gate: Arc<SharedGate>,
    reason: Mutex<Arc<str>>,
    queue: Queue,
    /// Held while a batch is sealed.
    sealing: Mutex<()>,
    pub(crate) formats: Formats,
    clock: Arc<Clock>,
    pub(crate) reads: WaitingReads,
    pub(crate) flights: Flights,
    /// Held by the thread that applies the log.
    pub(crate) state: Mutex<State>,
    pub(crate) directory: Directory,
    pub(crate) counters: Counters,
    pub(crate) trigger: Trigger,
    collector: Collector,
    /// Whether observers of the tables learn nothing until the gate opens.
    awaits_open: AtomicBool,
}

impl Group {
    /// A group without records, whose gate is closed.
    pub fn new(options: GroupOptions, wake: Box<dyn Wake>) -> Arc<Group> {
        Group::with_gate(options, wake, Arc::default(), Arc::default())
    }

    /// The same, with a gate and a clock that readers can reach without the group. The gate must be
    /// closed, and no other group may use them any more.
    pub fn with_gate(
        options: GroupOptions,
        wake: Box<dyn Wake>,
        gate: Arc<SharedGate>,
        clock: Arc<Clock>,
    ) -> Arc<Group> {
        clock.unset();
        let queue = Queue::new(options.queue_bytes_max);
        Arc::new_cyclic(|group: &Weak<Group>| Group {
            options,
            wake,
            reads: WaitingReads::new(Arc::clone(&gate)),
            gate,
            reason: Mutex::new(Arc::from(RECOVERING)),
            queue,
            sealing: Mutex::new(()),
            formats: Formats::default(),
            clock,
            flights: Flights::default(),
            state: Mutex::default(),
            directory: Directory::default(),
            counters: Counters::default(),
            trigger: Trigger::default(),
            collector: Collector::new(group.clone()),
            awaits_open: AtomicBool::new(false),
        })
    }

    /// Seals the next batch: up to [`BATCH_BYTES_MAX`](crate::BATCH_BYTES_MAX) bytes and
    /// [`BATCH_RECORDS_MAX`](crate::BATCH_RECORDS_MAX) records; a longer submission alone. `None`
    /// if nothing can be taken now: [`Wake::wake`] is called when that changes, and not before.
    ///
    /// If batches are in flight already, also `None` unless much waits: the caller comes again when
    /// one of them is applied, and finds a larger batch. Each batch costs the log the same, however
    /// long it is.
    pub fn take(&self, in_flight: usize) -> Option<Sealed> {
        self.take_within(in_flight, usize::MAX).ok().flatten()
    }

    /// The same, unless the next submission has more than `bytes_max` bytes, which takes long to
    /// copy: then it stays first in the queue.
    pub fn take_within(
        &self,
        in_flight: usize,
        bytes_max: usize,
    ) -> Result<Option<Sealed>, TooLong> {
        let _sealing = self.sealing.lock();
        // A batch behind one of long submissions waits for it anyway, so it is written meanwhile.
        let others = in_flight.saturating_sub(self.queue.long_flights());
        let bytes_min = if others == 0 { 0 } else { AHEAD_BYTES_MIN };
        loop {
            let Some(taken) = self.queue.take(bytes_min, bytes_max)? else { return Ok(None) };
            if let Some(sealed) = self.seal(taken) {
                return Ok(Some(sealed));
            }
        }
    }

    /// Makes a batch. Submissions that are not the records they promise are dropped: in the log
    /// they could make every replica stop. So are those that some member does not read: they were
    /// admitted before it came. `None` if no other is left.
    fn seal(&self, taken: Taken) -> Option<Sealed> {
        let mut records = Vec::with_capacity(taken.submissions.len());
        let mut parts = Vec::with_capacity(taken.submissions.len());
        let (newest, are_common) = (self.formats.newest(), self.formats.are_common());
        let stamp = self.clock.stamp();
        let mut format = match stamp {
            Some(_) if self.formats.newest_unasked() >= STAMPED => STAMPED,
            _ if are_common => FORMAT_MIN,
            _ => STAMPED - 1,
        };
        for mut submission in taken.submissions {
            if !are_records(&submission.records, submission.count) {
                count(&self.counters.malformed);
                drop_all([submission]);
                continue;
            }
            debug_assert!(submission.format >= crate::record::format_of(&submission.records));
            if submission.format > newest {
                drop_all([submission]);
                continue;
            }
            format = format.max(submission.format);
            records.push(std::mem::take(&mut submission.records));
            parts.push(Part::of(submission));
        }
        if parts.is_empty() {
            return None;
        }
        let sequence = self.flights.begin(parts, taken.queued?, taken.long);
        let (origin, value_bytes_max) = (self.options.incarnation, self.options.value_bytes_max);
        let header = Header { format, epoch: 0, origin, sequence, value_bytes_max, stamp };
        let mut bytes = Vec::with_capacity(HEADER_BYTES_MAX + taken.bytes);
        header.put(&mut bytes);
        records.iter().for_each(|records| bytes.extend_from_slice(records));
        Some(Sealed { sequence, bytes })
    }

    /// Returns when no batch is being sealed: for a batcher whose predecessor may have been killed
    /// while it took one. All batches that it took are known then ([`Group::in_flight`]).
    pub fn await_sealed(&self) {
        drop(self.sealing.lock());
    }

    /// Gives up waiting for a batch: the outcome of its submissions is unknown. It may still be
    /// applied.
    pub fn forget(&self, sequence: u64) {
        self.flights.take(sequence).iter().for_each(Flight::give_up);
    }

    /// Gives up waiting for every batch in flight.
    pub fn forget_all(&self) {
        self.flights.drain().iter().for_each(Flight::give_up);
    }

    /// The sequences of the batches in flight, for a batcher that has lost its own list.
    pub fn in_flight(&self) -> Vec<u64> {
        self.flights.sequences()
    }

    /// For how many milliseconds the oldest batch has been in flight.
    pub fn oldest_in_flight_ms(&self) -> Option<u64> {
        let oldest = self.flights.oldest()?;
        Some(u64::try_from(oldest.as_millis()).unwrap_or(u64::MAX))
    }

    /// Applies the entry of the log at `index`, which was written at `time_ms`, for a slice.
    /// Begin at `offset` 0. One thread at a time, all entries in the order of the log.
    pub fn apply(
        &self,
        bytes: &[u8],
        offset: usize,
        index: u64,
        time_ms: u64,
        slice: impl Into<Slice>,
    ) -> Applied {
        let mut state = self.state.lock();
        match state.apply(self.surroundings(), bytes, offset, index, time_ms, slice.into()) {
            Applied::Done { .. } => {
                self.reads.applied(index);
                if self.queue.long_waited() {
                    self.wake.wake();
                }
                Applied::Done { snapshot_due: self.is_snapshot_due() }
            }
            other => other,
        }
    }

    /// Notes that an entry was none of the group's: the log goes on after it.
    pub fn skip(&self, index: u64) {
        self.counters.applied_index.store(index, SeqCst);
        self.reads.applied(index);
    }

    /// Sets the number of the other members. `None`: there never are any, and no read has to ask.
    /// This is so until it is called.
    pub fn set_others(&self, others: Option<usize>) {
        self.reads.set_others(others);
    }

    /// Whether somebody has read, and accepts records of some age, since the last call of this.
    pub fn was_read(&self) -> bool {
        self.reads.was_read()
    }

    /// The last entries that other members are known to have on disk, and how many of them have
    /// each confirmed entry anyway.
    pub fn set_copies(&self, at_least: usize, known: Vec<u64>) {
        self.reads.set_copies(at_least, known);
    }

    /// Sets the newest format of batches that all members of the cluster read, and the newest that
    /// this node writes although no command needs it; `None` if there never are others, which is so
    /// until it is called. A node alone writes its newest format.
    pub fn set_common_formats(&self, formats: Option<(u8, u8)>) {
        self.formats.set_common(formats);
    }

    /// The clock, which knows the time of the log between its entries.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Sets a clock that is unset: to the later one of this time and that of the log. To be called
    /// before the gate opens.
    pub fn begin_time(&self, now_ms: u64) {
        let state = self.state.lock();
        self.clock.begin(now_ms, state.time.now);
    }

    /// Sets for how long records are fresh after a question, in milliseconds.
    pub fn set_read_bound_ms(&self, bound_ms: u64) {
        self.reads.set_bound_ms(bound_ms);
    }

    /// The leader is about to be asked for a read index, at this time by [`Submit::clock_ms`].
    /// Returns the number of the question. It serves all who have waited until now.
    pub fn begin_question(&self, clock_ms: u64) -> u64 {
        self.reads.begin(clock_ms)
    }

    /// The answer to a question: an entry that had been applied by the leader, with everything that
    /// was acknowledged before.
    pub fn question_answered(&self, question: u64, index: u64) {
        self.reads.answered(question, index);
        self.reads.applied(self.applied_index());
    }

    /// A question has no answer. Its readers wait for the next one. Returns whether anybody does.
    pub fn question_failed(&self, question: u64) -> bool {
        self.reads.failed(question)
    }

    /// The same for all questions: the process that asked them has ended.
    pub fn questions_failed(&self) -> bool {
        self.reads.failed_all()
    }

    /// Asks for a snapshot: the next entry that is applied finds it due.
    pub fn request_snapshot(&self) {
        self.trigger.request();
        self.collector.mark(self);
    }

    fn is_snapshot_due(&self) -> bool {
        let threshold = || {
            let bytes = match self.options.snapshot_log_bytes {
                Some(bytes) => bytes,
                None => threshold(self.data_bytes()),
            };
            let is_alone = self.others() == 0;
            if is_alone { bytes } else { early(bytes, self.options.incarnation) }
        };
        let users_is_running = || self.durable_tables().any(|table| table.has_other_snapshot());
        let logged = self.counters.logged_bytes.load(Relaxed);
        self.trigger.is_due(logged, threshold, users_is_running)
    }

    /// Submits the removal of expired records, and a time mark if a scheduled clear is due. To be
    /// called about once a second.
    pub fn tick(&self, now_ms: u64) {
        if !self.may_remove() || !self.queue.has_room(0) {
            return;
        }
        let named = self.tables();
        let numbered = (0..DATABASES).map(Home::Database);
        let homes = numbered.chain(named.iter().map(|table| table.home()));
        let mut is_clear_due = false;
        for home in homes {
            let Some(table) = self.durable_table(home) else { continue };
            is_clear_due |= table.clear_is_due(now_ms);
            self.collector.look(self, home, 0, now_ms);
        }
        if is_clear_due {
            self.collector.mark(self);
        }
    }

    /// Bytes of all records, about those of a snapshot.
    pub fn data_bytes(&self) -> u64 {
        self.durable_tables().map(|table| table.bytes()).sum()
    }

    fn durable_tables(&self) -> impl Iterator<Item = Arc<Table>> {
        let durable = self.options.databases.tables().iter().filter(|table| table.is_durable());
        let named = self.directory.now();
        let named = named.list().iter().map(|table| table.table().clone()).collect::<Vec<_>>();
        durable.cloned().chain(named)
    }

    /// Opens or closes the gate. What waits in the queue and may not be written is dropped.
    pub fn set_gate(&self, gate: Gate, reason: &str) {
        *self.reason.lock() = Arc::from(reason);
        self.gate.set(gate, None);
        self.gate_is_set(gate);
    }

    /// The same, unless another load than this one has begun: then it does nothing.
    pub fn set_gate_of(&self, load: u64, gate: Gate, reason: &str) {
        if self.gate.set(gate, Some(load)) {
            *self.reason.lock() = Arc::from(reason);
            self.gate_is_set(gate);
        }
    }

    fn gate_is_set(&self, gate: Gate) {
        if gate != Gate::Open {
            let may_stay = |it: &Submission| gate == Gate::Removals && only_remove(&it.records);
            drop_all(self.queue.drain(may_stay));
        }
        if gate == Gate::Closed {
            self.reads.drop_all();
        }
        if gate != Gate::Closed && self.awaits_open.swap(false, SeqCst) {
            self.report_replaced();
        }
    }

    /// Until the gate opens, or until the log is where it was, observers learn nothing.
    pub(crate) fn begin_quiet(&self, state: &mut State, index: u64) {
        state.begin_quiet(self.surroundings(), index);
        self.awaits_open.store(state.reports.awaits_open(), SeqCst);
    }

    /// Observers learn of changes again, and that any record may have changed before.
    fn report_replaced(&self) {
        let mut state = self.state.lock();
        if state.reports.awaits_open() {
            state.end_quiet(self.surroundings());
            self.durable_tables().for_each(|table| table.report_replaced());
        }
    }

    /// Closes the gate for the next load of the records, which may begin when this returns.
    pub(crate) fn begin_load(&self, reason: &str) {
        *self.reason.lock() = Arc::from(reason);
        self.gate.begin_load();
        self.reads.begin_load();
        self.gate_is_set(Gate::Closed);
    }

    /// The number of loads so far: how often the records were replaced in place.
    pub fn loads(&self) -> u64 {
        self.gate.loads()
    }

    /// Why the gate is not open.
    pub fn reason(&self) -> Arc<str> {
        self.reason.lock().clone()
    }

    /// The named tables, by ascending id.
    pub fn tables(&self) -> Arc<Vec<Arc<NamedTable>>> {
        self.directory.now().list().clone()
    }

    /// A named table.
    pub fn table(&self, name: &[u8]) -> Option<Arc<NamedTable>> {
        self.directory.now().by_name(name).cloned()
    }

    /// The numbered databases.
    pub fn databases(&self) -> &Arc<Databases> {
        &self.options.databases
    }

    /// Figures, for status pages.
    pub fn figures(&self) -> Figures {
        let figures = self.counters.figures();
        let (complete_at, snapshots, snapshot_is_running) = self.trigger.figures();
        Figures {
            queue_bytes: self.queue.bytes(),
            format_max: self.formats.newest(),
            in_flight: self.flights.len(),
            log_bytes: figures.logged_bytes.saturating_sub(complete_at),
            snapshots,
            snapshot_is_running,
            ..figures
        }
    }

    pub(crate) fn surroundings(&self) -> Surroundings<'_> {
        Surroundings {
            databases: &self.options.databases,
            seed: self.options.seed,
            incarnation: self.options.incarnation,
            flights: &self.flights,
            directory: &self.directory,
            counters: &self.counters,
            formats: &self.formats,
            clock: &self.clock,
        }
    }

    /// Whether the log accepts at least removals.
    fn may_remove(&self) -> bool {
        matches!(self.gate(), Gate::Open | Gate::Removals)
    }
}

impl Collect for Group {
    fn durable_table(&self, home: Home) -> Option<Arc<Table>> {
        let table = match home {
            Home::Database(number) => self.options.databases.table(number).clone(),
            Home::Table(id) => self.directory.now().by_id(id)?.table().clone(),
        };
        table.is_durable().then_some(table)
    }

    fn log_time_ms(&self) -> u64 {
        self.counters.log_time_ms.load(Relaxed)
    }

    fn submit_own(&self, submission: Submission) {
        self.submit(&mut vec![submission]);
    }

    fn collector(&self) -> &Collector {
        &self.collector
    }
}

impl Submit for Group {
    #[inline]
    fn gate(&self) -> Gate {
        self.gate.gate()
    }

    #[inline]
    fn readable(&self) -> Option<u64> {
        self.gate.readable()
    }

    fn has_room(&self, units: u64) -> bool {
        self.queue.has_room(units)
    }

    fn submit(&self, submissions: &mut Vec<Submission>) {
        if self.gate() == Gate::Removals {
            drop_all(submissions.extract_if(.., |it| !only_remove(&it.records)));
        }
        // Under the lock, so that a gate that closes now finds what is queued.
        let may_queue = |submissions: &[Submission]| match self.gate() {
            Gate::Open => true,
            Gate::Removals => submissions.iter().all(|it| only_remove(&it.records)),
            Gate::Closed | Gate::ReadOnly | Gate::Leaderless => false,
        };
        if self.queue.push(submissions, may_queue) {
            self.wake.wake();
        }
        // The gate was closed meanwhile.
        drop_all(submissions.drain(..));
    }

    fn withdraw(&self, ticket: Ticket) -> bool {
        self.queue.withdraw(ticket) || self.reads.withdraw(ticket)
    }

    fn value_bytes_max(&self) -> usize {
        self.options.value_bytes_max
    }

    fn format(&self) -> u8 {
        self.formats.newest()
    }

    fn unasked_format(&self) -> u8 {
        self.formats.newest_unasked()
    }

    fn trouble(&self) -> String {
        self.reason.lock().to_string()
    }

    fn collect(&self, now_ms: u64) {
        self.tick(now_ms);
    }

    #[inline]
    fn now_ms(&self) -> Option<u64> {
        self.clock.now_ms()
    }

    #[inline]
    fn is_alone(&self) -> bool {
        self.reads.is_alone()
    }

    fn others(&self) -> usize {
        self.reads.others()
    }

    fn copies(&self, index: u64) -> usize {
        self.reads.copies(index)
    }

    #[inline]
    fn clock_ms(&self) -> u64 {
        self.reads.clock_ms()
    }

    #[inline]
    fn is_fresh(&self, clock_ms: u64) -> bool {
        self.reads.is_fresh(clock_ms)
    }

    fn await_fresh(&self, ticket: Ticket, deliver: Arc<dyn Deliver>) {
        if self.reads.await_answer(Part::reader(ticket, deliver)) {
            self.wake.wake_asker();
        }
    }

    fn await_applied(&self, index: u64, ticket: Ticket, deliver: Arc<dyn Deliver>) {
        self.reads.await_entry(index, Part::reader(ticket, deliver));
        self.reads.applied(self.applied_index());
    }

    fn applied_index(&self) -> u64 {
        self.counters.applied_index.load(SeqCst)
    }

    fn answered_index(&self) -> u64 {
        self.applied_index().max(self.counters.answered_index.load(SeqCst))
    }
}

fn drop_all(submissions: impl IntoIterator<Item = Submission>) {
    let parts = submissions.into_iter().map(Part::of).collect::<Vec<_>>();
    deliver(parts.iter().map(|part| (part, Outcome::Dropped)));
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Group")
            .field("gate", &self.gate())
            .field("figures", &self.figures())
            .finish_non_exhaustive()
    }
}
