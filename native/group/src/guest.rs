//! The log as a guest sees it: another node, its *seat*, which has the records.
//!
//! A guest has a queue of its own for the submissions of its clients, and sends them in parcels.
//! The answers come back one by one. If the seat is lost, submissions that change nothing are sent
//! to the next one; the outcome of the others is unknown, and they are never sent again.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{
    AtomicU8, AtomicU16, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, SeqCst},
};
use std::sync::{Arc, Weak};
use std::time::Instant;

use parking_lot::Mutex;
use todana_command::cause::Writer;
use todana_command::{DATABASES, Databases, FORMAT_MIN};

use crate::flights::{Part, deliver};
use crate::following::{Follow, Following, Wishes};
use crate::gate::SharedGate;
use crate::group::Wake;
use crate::parcel::{self, Answers, Change, News};
use crate::queue::Queue;
use crate::submission::{Deliver, Gate, Outcome, RecordCounts, Submission, Submit, Ticket};

/// Bytes of submissions that may be on their way to the seat. More stay in the queue.
const SENT_BYTES_MAX: usize = 8 << 20;

/// What a seat says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeatFacts {
    /// Whether it accepts writes.
    pub gate: Gate,
    /// The longest value that a command may write or build, in bytes.
    pub value_bytes_max: usize,
    /// The newest format of batches that all members read.
    pub format: u8,
    /// The time of the log, in milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The number of the other members.
    pub others: usize,
}

/// The log of a node without records.
pub struct Guest {
    wake: Box<dyn Wake>,
    queue: Queue,
    gate: SharedGate,
    reason: Mutex<Arc<str>>,
    value_bytes_max: AtomicUsize,
    format: AtomicU8,
    others: AtomicUsize,
    /// Added to the milliseconds since `began`: the time of the log.
    time_offset_ms: AtomicU64,
    began: Instant,
    /// The last entry of the log of which a client here has an answer.
    answered_index: AtomicU64,
    /// A bit for each numbered database that had no room then.
    full: AtomicU16,
    /// The records of the seat, as it has counted them last.
    counts: Mutex<[RecordCounts; DATABASES]>,
    sent: Mutex<Sent>,
    /// The changes of which clients want to learn.
    wishes: Wishes,
}

/// The submissions on their way.
#[derive(Default)]
struct Sent {
    last: u64,
    /// By their numbers.
    flying: BTreeMap<u64, Flying>,
    /// Their numbers, by their tickets.
    numbers: HashMap<Ticket, u64>,
    /// Bytes of all of them.
    bytes: usize,
    /// Those that a lost seat has not answered, for the next one.
    again: VecDeque<Flying>,
    /// Whether something waits until others are answered.
    is_full: bool,
}

struct Flying {
    part: Part,
    /// Kept if it may be sent again.
    bytes: Option<Vec<u8>>,
    length: usize,
    /// Whether it was sent to a seat that was lost.
    was_lost: bool,
}

impl Guest {
    /// A guest without a seat.
    pub fn new(wake: Box<dyn Wake>, queue_bytes_max: usize, value_bytes_max: usize) -> Arc<Guest> {
        Arc::new(Guest {
            wake,
            queue: Queue::new(queue_bytes_max),
            gate: SharedGate::default(),
            reason: Mutex::new(Arc::from("no member of the cluster was reached yet")),
            value_bytes_max: AtomicUsize::new(value_bytes_max),
            format: AtomicU8::new(FORMAT_MIN),
            others: AtomicUsize::new(0),
            time_offset_ms: AtomicU64::new(0),
            began: Instant::now(),
            answered_index: AtomicU64::new(0),
            full: AtomicU16::new(0),
            counts: Mutex::default(),
            sent: Mutex::default(),
            wishes: Wishes::default(),
        })
    }

    fn elapsed_ms(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    /// A seat is there, and says this of itself; the sentence says why it accepts no writes.
    pub fn set_seat(&self, facts: SeatFacts, reason: &str) {
        self.value_bytes_max.store(facts.value_bytes_max, Relaxed);
        self.format.store(facts.format, Relaxed);
        self.others.store(facts.others, Relaxed);
        self.follow_time(facts.now_ms);
        self.set_gate(facts.gate, reason);
    }

    /// The seat has counted its records.
    pub fn set_counts(&self, counts: [RecordCounts; DATABASES]) {
        *self.counts.lock() = counts;
    }

    /// A time that the seat sends is late by the time on the way, so the latest one counts; the
    /// clocks may differ in rate by a millisecond in a second.
    fn follow_time(&self, now_ms: u64) {
        // Rounded up: the rest of a millisecond is not time left.
        let latest = now_ms.wrapping_add(1).wrapping_sub(self.elapsed_ms());
        let before = self.time_offset_ms.load(Relaxed);
        let is_near = before.abs_diff(latest) < 1_000;
        let offset = if is_near { latest.max(before - 1) } else { latest };
        self.time_offset_ms.store(offset, Relaxed);
    }

    /// The seat accepts writes or not, and why.
    pub fn set_gate(&self, gate: Gate, reason: &str) {
        *self.reason.lock() = Arc::from(reason);
        self.gate.set(gate, None);
        match gate {
            Gate::Open | Gate::Removals => {}
            Gate::ReadOnly | Gate::Leaderless => self.drop_queued(parcel::only_reads),
            Gate::Closed => self.drop_queued(|_| false),
        }
    }

    /// The seat is lost. The next one gets the submissions that were sent and change nothing. What
    /// clients have read may change without notice, so they forget it.
    pub fn lose_seat(&self) {
        self.wishes.begin_anew();
        if let Some(follower) = self.wishes.follower() {
            follower.all_changed();
        }
        let mut lost = Vec::new();
        let mut sent = self.sent.lock();
        sent.numbers.clear();
        for flying in std::mem::take(&mut sent.flying).into_values() {
            match flying.bytes {
                // Not a third time: it may be the reason for the loss.
                Some(_) if !flying.was_lost => {
                    sent.again.push_back(Flying { was_lost: true, ..flying });
                }
                _ => lost.push(flying.part),
            }
        }
        sent.bytes = 0;
        drop(sent);
        deliver(lost.iter().map(|part| (part, Outcome::Unknown)));
    }

    /// No member can be reached. Everything that waits is dropped.
    pub fn close(&self, reason: &str) {
        self.set_gate(Gate::Closed, reason);
        self.lose_seat();
        let again = std::mem::take(&mut self.sent.lock().again);
        deliver(again.iter().map(|flying| (&flying.part, Outcome::Dropped)));
    }

    fn drop_queued(&self, may_stay: impl Fn(&[u8]) -> bool) {
        let dropped = self.queue.drain(|submission| may_stay(&submission.records));
        let parts: Vec<_> = dropped.into_iter().map(Part::of).collect();
        deliver(parts.iter().map(|part| (part, Outcome::Dropped)));
    }

    /// A parcel for the seat; `None` if nothing waits, or if too much is on its way. The waker is
    /// called when that changes.
    pub fn take(&self) -> Option<Vec<u8>> {
        let mut submitted = Vec::new();
        let mut sent = self.sent.lock();
        while sent.bytes < SENT_BYTES_MAX
            && let Some(flying) = sent.again.pop_front()
        {
            sent.fly(flying, &mut submitted);
        }
        while sent.bytes < SENT_BYTES_MAX {
            let Ok(Some(taken)) = self.queue.take(0, usize::MAX) else { break };
            // Kept by nobody: the seat has lanes for what takes long.
            drop(taken.long);
            for mut submission in taken.submissions {
                let bytes = Some(std::mem::take(&mut submission.records));
                let part = Part::of(submission);
                sent.fly(Flying { part, bytes, length: 0, was_lost: false }, &mut submitted);
            }
        }
        sent.is_full = sent.bytes >= SENT_BYTES_MAX;
        // Asked for after that, these contain each prefix that was added before a submission.
        let mut parcel = Vec::new();
        self.put_prefixes(&mut parcel);
        parcel.append(&mut submitted);
        // Behind what clients have submitted that have left.
        if !sent.is_full && self.wishes.take_end() {
            parcel::put_news(&mut parcel, News::Nothing);
        }
        (!parcel.is_empty()).then_some(parcel)
    }

    /// The seat learns a prefix before the submissions that came after it.
    fn put_prefixes(&self, parcel: &mut Vec<u8>) {
        for (prefix, is_wanted) in self.wishes.take_prefixes() {
            let news = match is_wanted {
                true => News::Prefix(&prefix),
                false => News::NoPrefix(&prefix),
            };
            parcel::put_news(parcel, news);
        }
    }

    /// Takes changes that the seat has noticed. Those by a submission of this node come before its
    /// answer.
    pub fn take_changes(&self, changes: &[u8]) {
        if let Some(follower) = self.wishes.follower() {
            for change in parcel::changes(changes) {
                match change {
                    Change::Key { key, by } => follower.changed(key, self.writer(by)),
                    Change::All => follower.all_changed(),
                }
            }
        }
        // A submission of a client that has left may have come after the end.
        if !changes.is_empty() && self.wishes.repeat_end() {
            self.wake.wake();
        }
    }

    /// The client that has submitted this.
    fn writer(&self, number: Option<u64>) -> Writer {
        let sent = number.map(|number| (number, self.sent.lock()));
        let flying = sent.as_ref().and_then(|(number, sent)| sent.flying.get(number));
        flying.map_or(Writer::Unknown, |flying| flying.part.ticket().writer())
    }

    /// A seat has answered somebody here after it had applied the entry of this index.
    pub fn note_index(&self, index: u64) {
        self.answered_index.fetch_max(index, SeqCst);
    }

    /// The log has begun anew, or has lost entries: an operator has decided so.
    pub fn forget_index(&self) {
        self.answered_index.store(0, SeqCst);
    }

    /// Takes the answers of the seat, where the entry of this index was applied before. `full` has
    /// a bit for each database without room, as [`full_databases`] has them.
    pub fn answer(&self, answers: &[u8], applied_index: u64, full: u16) {
        self.note_index(applied_index);
        self.full.store(full, Relaxed);
        let mut outcomes = Vec::new();
        let mut sent = self.sent.lock();
        for (number, answer) in Answers::of(answers) {
            // Withdrawn, or answered by a seat that was lost.
            let Some(flying) = sent.remove(number) else { continue };
            outcomes.push((flying.part, answer.outcome()));
        }
        let was_full = sent.is_full && sent.bytes < SENT_BYTES_MAX;
        drop(sent);
        outcomes.sort_by_key(|(part, _)| part.place());
        let (parts, outcomes): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
        deliver(parts.iter().zip(outcomes));
        if was_full {
            self.wake.wake();
        }
    }

    /// Bytes in the queue, and the number of submissions that are on their way.
    pub fn figures(&self) -> (usize, usize) {
        let sent = self.sent.lock();
        (self.queue.bytes(), sent.flying.len() + sent.again.len())
    }

    /// Whether a submission is known here, beside those in the queue.
    fn withdraw_sent(&self, ticket: Ticket) -> bool {
        let sent = &mut *self.sent.lock();
        if let Some(at) = sent.again.iter().position(|flying| flying.part.ticket() == ticket) {
            sent.again.remove(at);
            return true;
        }
        if let Some(number) = sent.numbers.get(&ticket).copied() {
            sent.remove(number);
        }
        false
    }
}

/// A bit for each numbered database that has no room.
pub fn full_databases(databases: &Databases) -> u16 {
    let bit = |number: usize| u16::from(databases.table(number).is_full()) << number;
    (0..DATABASES).map(bit).sum()
}

impl Sent {
    fn fly(&mut self, flying: Flying, parcel: &mut Vec<u8>) {
        let Flying { part, bytes, was_lost, .. } = flying;
        let bytes = bytes.unwrap_or_default();
        self.last += 1;
        parcel::put(parcel, self.last, &bytes);
        let length = bytes.len();
        self.bytes += length;
        let bytes = parcel::only_reads(&bytes).then_some(bytes);
        self.numbers.insert(part.ticket(), self.last);
        self.flying.insert(self.last, Flying { part, bytes, length, was_lost });
    }

    fn remove(&mut self, number: u64) -> Option<Flying> {
        let flying = self.flying.remove(&number)?;
        self.numbers.remove(&flying.part.ticket());
        self.bytes -= flying.length;
        Some(flying)
    }
}

impl Submit for Guest {
    fn gate(&self) -> Gate {
        self.gate.gate()
    }

    fn readable(&self) -> Option<u64> {
        self.gate.readable()
    }

    fn has_room(&self, units: u64) -> bool {
        self.queue.has_room(units)
    }

    fn submit(&self, submissions: &mut Vec<Submission>) {
        // Under the lock, so that a gate that closes now finds what is queued.
        let may_queue = |submissions: &[Submission]| match self.gate() {
            Gate::Open | Gate::Removals => true,
            Gate::ReadOnly | Gate::Leaderless => {
                submissions.iter().all(|it| parcel::only_reads(&it.records))
            }
            Gate::Closed => false,
        };
        if self.queue.push(submissions, may_queue) {
            self.wake.wake();
        }
        // The gate was closed meanwhile.
        let parts: Vec<_> = submissions.drain(..).map(Part::of).collect();
        deliver(parts.iter().map(|part| (part, Outcome::Dropped)));
    }

    fn withdraw(&self, ticket: Ticket) -> bool {
        self.queue.withdraw(ticket) || self.withdraw_sent(ticket)
    }

    fn value_bytes_max(&self) -> usize {
        self.value_bytes_max.load(Relaxed)
    }

    fn format(&self) -> u8 {
        self.format.load(Relaxed)
    }

    fn trouble(&self) -> String {
        self.reason.lock().to_string()
    }

    fn now_ms(&self) -> Option<u64> {
        self.readable()?;
        Some(self.time_offset_ms.load(Relaxed).wrapping_add(self.elapsed_ms()))
    }

    fn collect(&self, _now_ms: u64) {}

    fn is_away(&self) -> bool {
        true
    }

    fn following(&self) -> Option<&dyn Following> {
        Some(self)
    }

    fn is_full(&self, number: usize) -> bool {
        number < DATABASES && self.full.load(Relaxed) & 1 << number != 0
    }

    fn counts(&self, number: usize) -> Option<RecordCounts> {
        self.counts.lock().get(number).copied()
    }

    fn others(&self) -> usize {
        self.others.load(Relaxed)
    }

    fn copies(&self, _index: u64) -> usize {
        // An answered write is on a majority of the members, of which the seat is one.
        self.others().div_ceil(2)
    }

    fn await_applied(&self, index: u64, ticket: Ticket, deliver: Arc<dyn Deliver>) {
        let records = parcel::entry(index);
        self.submit(&mut vec![Submission {
            records,
            count: 0,
            format: FORMAT_MIN,
            units: 0,
            ticket,
            deliver,
        }]);
    }

    fn applied_index(&self) -> u64 {
        self.answered_index.load(SeqCst)
    }
}

impl Following for Guest {
    fn follow(&self, follower: Weak<dyn Follow>) {
        self.wishes.follow(follower);
    }

    fn begin(&self) {
        self.wishes.begin();
    }

    fn end(&self) {
        if self.wishes.end() {
            self.wake.wake();
        }
    }

    fn add_prefix(&self, prefix: &Arc<[u8]>) {
        if self.wishes.add_prefix(prefix) {
            self.wake.wake();
        }
    }

    fn remove_prefix(&self, prefix: &[u8]) {
        if self.wishes.remove_prefix(prefix) {
            self.wake.wake();
        }
    }
}

impl fmt::Debug for Guest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (queue_bytes, sent) = self.figures();
        f.debug_struct("Guest")
            .field("gate", &self.gate())
            .field("queue_bytes", &queue_bytes)
            .field("sent", &sent)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parcel::{ONLY_READS, Wanted};

    const QUEUE_BYTES: usize = 4 * SENT_BYTES_MAX;

    struct Nobody;

    impl Wake for Nobody {
        fn wake(&self) {}
    }

    impl Deliver for Nobody {
        fn deliver(&self, _outcomes: Vec<(Ticket, Outcome)>) {}
    }

    fn submit(guest: &Guest, records: Vec<u8>, number: u64) {
        guest.submit(&mut vec![Submission {
            records,
            count: 1,
            format: FORMAT_MIN,
            units: 1,
            ticket: Ticket { place: (0, 0), number },
            deliver: Arc::new(Nobody),
        }]);
    }

    #[test]
    fn a_seat_forgets_the_last_client_after_it_has_run_its_submissions() {
        let guest = Guest::new(Box::new(Nobody), QUEUE_BYTES, 1 << 20);
        guest.set_gate(Gate::Open, "");
        let wanted = || {
            let parcel = guest.take().unwrap_or_default();
            let shown = |wanted| match wanted {
                Wanted::Submission(bytes) => bytes.len(),
                Wanted::News(News::Nothing) => 0,
                other => panic!("{other:?}"),
            };
            parcel::wanted(&parcel).map(|(_, it)| shown(it)).collect::<Vec<_>>()
        };
        guest.begin();
        submit(&guest, vec![ONLY_READS, 0], 1);
        guest.end();
        assert_eq!(wanted(), [2, 0]);
        // What does not fit comes later, and then the end.
        guest.begin();
        submit(&guest, vec![ONLY_READS; SENT_BYTES_MAX], 2);
        submit(&guest, vec![ONLY_READS; 3], 3);
        guest.end();
        assert_eq!(wanted(), [SENT_BYTES_MAX]);
        let mut answers = Vec::new();
        parcel::put_answer(&mut answers, 2, parcel::Answer::Dropped);
        guest.answer(&answers, 0, 0);
        assert_eq!(wanted(), [3, 0]);
        assert_eq!(wanted(), [0; 0]);
        // The loop had not handed it over when its client left.
        submit(&guest, vec![ONLY_READS; 4], 4);
        assert_eq!(wanted(), [4]);
        let mut changes = Vec::new();
        parcel::put_change(&mut changes, Change::Key { key: b"a", by: None });
        guest.take_changes(&changes);
        assert_eq!(wanted(), [0]);
    }
}
