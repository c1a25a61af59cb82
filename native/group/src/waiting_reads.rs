//! Reads that see everything that was acknowledged anywhere.
//!
//! A member of a group does not notice that it is cut off from the others, not even the leader. So
//! a member asks the leader how far the log goes (a *read index*), and the leader answers only
//! after a majority has confirmed that it still leads. The answer is about the moment at which the
//! question was sent: when this member has applied that entry, it has everything that any member
//! acknowledged before that moment.
//!
//! ```text
//!  readers   1 2          3 4 5
//!  question  |-- number 7 --> index 40 | applied 38 .. 39 .. 40: readers 1 and 2 go on
//!                          |-- number 8 --> index 41 | ...       readers 3, 4, 5
//! ```
//!
//! A question serves the readers that came before it was sent. Those that come later wait for the
//! next one, so that any number of them cost one question at a time. An answer also makes the
//! records *fresh*: until the time of the question plus the bound, a reader that accepts records of
//! that age need not ask.
//!
//! The only member of a group has nobody to ask: its records are always fresh.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use std::time::Instant;

use parking_lot::Mutex;

use crate::flights::{Part, deliver};
use crate::gate::SharedGate;
use crate::submission::{Gate, Outcome, Ticket};

/// For how long records are fresh after a question, in milliseconds, by default.
pub const READ_BOUND_MS: u64 = 1_000;

/// Records that are fresh for ever.
const FOR_EVER: u64 = u64::MAX;

/// Nobody waits for an entry.
const NO_ENTRY: u64 = u64::MAX;

/// Those who wait, by their tickets.
type Readers = HashMap<Ticket, Part>;

/// The readers of a group, and until when its records are fresh.
pub(crate) struct WaitingReads {
    /// When the clock of the group was 0.
    began: Instant,
    gate: Arc<SharedGate>,
    bound_ms: AtomicU64,
    /// By the clock of the group. Records that are never fresh have 0.
    fresh_until_ms: AtomicU64,
    /// Whether somebody has asked whether they are fresh.
    was_read: AtomicBool,
    /// The first entry that somebody waits for.
    awaited: AtomicU64,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    /// Number of the other members.
    others: usize,
    /// How many of them have everything that was ever confirmed: one less than a majority.
    at_least: usize,
    /// The last entries that others are known to have on disk, one for each of them.
    known: Vec<u64>,
    /// The number of the last question.
    question: u64,
    /// Those who came after it.
    next: Readers,
    /// The questions without an answer: when they were sent, and the readers that wait for them.
    asked: BTreeMap<u64, (u64, Readers)>,
    /// What waits for an entry, in the order of these; the second number makes them differ.
    behind: BTreeMap<(u64, u64), Behind>,
    behind_last: u64,
}

/// Waits for an entry.
struct Behind {
    readers: Readers,
    /// When the question was sent; `None` if nobody asked.
    asked_ms: Option<u64>,
}

impl WaitingReads {
    pub(crate) fn new(gate: Arc<SharedGate>) -> WaitingReads {
        WaitingReads {
            began: Instant::now(),
            gate,
            bound_ms: AtomicU64::new(READ_BOUND_MS),
            fresh_until_ms: AtomicU64::new(FOR_EVER),
            was_read: AtomicBool::new(false),
            awaited: AtomicU64::new(NO_ENTRY),
            waiting: Mutex::default(),
        }
    }

    /// The clock of the group. While it has one member, 0: nobody compares it then.
    #[inline]
    pub(crate) fn clock_ms(&self) -> u64 {
        if self.is_alone() { 0 } else { self.elapsed_ms() }
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(FOR_EVER - 1)
    }

    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.fresh_until_ms.load(Relaxed) == FOR_EVER
    }

    #[inline]
    pub(crate) fn is_fresh(&self, now_ms: u64) -> bool {
        // Readers share a line that is seldom written.
        if !self.was_read.load(Relaxed) {
            self.was_read.store(true, Relaxed);
        }
        now_ms < self.fresh_until_ms.load(Acquire)
    }

    /// Whether somebody has asked whether the records are fresh since the last call of this.
    pub(crate) fn was_read(&self) -> bool {
        self.was_read.swap(false, Relaxed)
    }

    pub(crate) fn others(&self) -> usize {
        self.waiting.lock().others
    }

    /// How many other members are known to have this confirmed entry on disk.
    pub(crate) fn copies(&self, index: u64) -> usize {
        let waiting = self.waiting.lock();
        let known = waiting.known.iter().filter(|last| **last >= index).count();
        known.max(waiting.at_least).min(waiting.others)
    }

    /// The last entries of other members, and how many of them have each confirmed entry.
    pub(crate) fn set_copies(&self, at_least: usize, known: Vec<u64>) {
        let mut waiting = self.waiting.lock();
        waiting.at_least = at_least;
        waiting.known = known;
    }

    pub(crate) fn set_bound_ms(&self, bound_ms: u64) {
        self.bound_ms.store(bound_ms, Relaxed);
    }

    /// The group has this number of other members, or `None`: it never has any.
    pub(crate) fn set_others(&self, others: Option<usize>) {
        let mut waiting = self.waiting.lock();
        waiting.others = others.unwrap_or(0);
        match others {
            None => self.fresh_until_ms.store(FOR_EVER, Release),
            Some(_) if self.is_alone() => self.fresh_until_ms.store(0, Release),
            Some(_) => {}
        }
    }

    /// Adds a reader to those of the next question. True if there was none.
    pub(crate) fn await_answer(&self, reader: Part) -> bool {
        let mut waiting = self.waiting.lock();
        if self.is_alone() {
            drop(waiting);
            deliver_to([(reader.ticket(), reader)].into(), || Outcome::Fresh);
            return false;
        }
        waiting.next.insert(reader.ticket(), reader);
        waiting.next.len() == 1
    }

    /// Adds a reader that waits until this entry is applied. The caller then calls
    /// [`WaitingReads::applied`].
    pub(crate) fn await_entry(&self, index: u64, reader: Part) {
        let readers = [(reader.ticket(), reader)].into();
        self.park(&mut self.waiting.lock(), index, Behind { readers, asked_ms: None });
    }

    fn park(&self, waiting: &mut Waiting, index: u64, behind: Behind) {
        waiting.behind_last += 1;
        waiting.behind.insert((index, waiting.behind_last), behind);
        self.note_awaited(waiting);
    }

    fn note_awaited(&self, waiting: &Waiting) {
        let first = waiting.behind.first_key_value();
        // Ordered before the look at the applied index, as that is before the look at this one.
        self.awaited.store(first.map_or(NO_ENTRY, |((index, _), _)| *index), SeqCst);
    }

    /// A question is about to be sent. Returns its number.
    pub(crate) fn begin(&self, now_ms: u64) -> u64 {
        let waiting = &mut *self.waiting.lock();
        waiting.question += 1;
        let readers = std::mem::take(&mut waiting.next);
        waiting.asked.insert(waiting.question, (now_ms, readers));
        waiting.question
    }

    /// A question has this answer. The caller then calls [`WaitingReads::applied`].
    pub(crate) fn answered(&self, question: u64, index: u64) {
        let waiting = &mut *self.waiting.lock();
        if let Some((asked_ms, readers)) = waiting.asked.remove(&question) {
            self.forget_late(waiting);
            self.park(waiting, index, Behind { readers, asked_ms: Some(asked_ms) });
        }
    }

    /// Answers for which nobody waits, and which would make nothing fresh any more, would pile up
    /// while this member is behind.
    fn forget_late(&self, waiting: &mut Waiting) {
        let (now_ms, bound_ms) = (self.elapsed_ms(), self.bound_ms.load(Relaxed));
        waiting.behind.retain(|_, Behind { readers, asked_ms }| {
            !readers.is_empty() || asked_ms.is_some_and(|asked_ms| asked_ms + bound_ms > now_ms)
        });
    }

    /// A question has no answer: its readers wait for the next one. Returns whether anybody does.
    pub(crate) fn failed(&self, question: u64) -> bool {
        let waiting = &mut *self.waiting.lock();
        if let Some((_, readers)) = waiting.asked.remove(&question) {
            waiting.next.extend(readers);
        }
        !waiting.next.is_empty()
    }

    /// The process that asked has ended. Returns whether there are readers for the next question.
    pub(crate) fn failed_all(&self) -> bool {
        let waiting = &mut *self.waiting.lock();
        let asked = std::mem::take(&mut waiting.asked);
        waiting.next.extend(asked.into_values().flat_map(|(_, readers)| readers));
        !waiting.next.is_empty()
    }

    /// This entry and all before it are applied. Called after each entry.
    #[inline]
    pub(crate) fn applied(&self, index: u64) {
        if index >= self.awaited.load(SeqCst) {
            self.go_on(index);
        }
    }

    #[cold]
    fn go_on(&self, index: u64) {
        let mut ready = Readers::new();
        let mut waiting = self.waiting.lock();
        while let Some(first) = waiting.behind.first_entry()
            && first.key().0 <= index
        {
            let Behind { readers, asked_ms } = first.remove();
            ready.extend(readers);
            if let Some(asked_ms) = asked_ms
                && self.gate.gate() != Gate::Closed
            {
                // Both times are rounded down to a millisecond.
                let until_ms = (asked_ms + self.bound_ms.load(Relaxed)).saturating_sub(1);
                // Nothing if they are fresh for ever.
                self.fresh_until_ms.fetch_max(until_ms, Release);
            }
        }
        self.note_awaited(&waiting);
        drop(waiting);
        deliver_to(ready, || Outcome::Fresh);
    }

    /// The records are replaced by older ones: they are not fresh before the next answer.
    pub(crate) fn begin_load(&self) {
        let _waiting = self.waiting.lock();
        if !self.is_alone() {
            self.fresh_until_ms.store(0, Release);
        }
    }

    /// A reader waits no longer. False if it has its outcome.
    pub(crate) fn withdraw(&self, ticket: Ticket) -> bool {
        let waiting = &mut *self.waiting.lock();
        waiting.next.remove(&ticket).is_some()
            || waiting.asked.values_mut().any(|(_, readers)| readers.remove(&ticket).is_some())
            || waiting.behind.values_mut().any(|it| it.readers.remove(&ticket).is_some())
    }

    /// Nobody waits any longer, because nothing can be read. Questions that were sent stay valid.
    pub(crate) fn drop_all(&self) {
        let waiting = &mut *self.waiting.lock();
        let mut dropped = std::mem::take(&mut waiting.next);
        waiting.asked.values_mut().for_each(|(_, readers)| dropped.extend(readers.drain()));
        waiting.behind.values_mut().for_each(|it| dropped.extend(it.readers.drain()));
        deliver_to(dropped, || Outcome::Dropped);
    }
}

/// Delivers the same outcome to all, those of one receiver at once.
fn deliver_to(readers: Readers, outcome: impl Fn() -> Outcome) {
    let mut readers: Vec<Part> = readers.into_values().collect();
    readers.sort_unstable_by_key(Part::place);
    deliver(readers.iter().map(|reader| (reader, outcome())));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_all(reads: &WaitingReads, questions: u64) -> usize {
        for _ in 0..questions {
            let question = reads.begin(0);
            reads.answered(question, 7);
        }
        reads.waiting.lock().behind.len()
    }

    #[test]
    fn a_member_that_is_behind_forgets_late_answers() {
        let reads = WaitingReads::new(Arc::default());
        reads.set_others(Some(2));
        reads.set_bound_ms(1 << 40);
        assert_eq!(answer_all(&reads, 10), 10);
        reads.set_bound_ms(0);
        assert_eq!(answer_all(&reads, 10), 1);
    }
}
