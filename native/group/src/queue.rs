//! Submissions that wait for the next batch.
//!
//! Event loops push, the batcher takes. A loop hands over all submissions of one round under one
//! lock. The batcher is woken only if it found the queue empty before: while it has batches in
//! flight it comes by itself.
//!
//! A withdrawn submission stays in its place without being valid, so that a withdrawal does not
//! search the queue, which thousands of clients may do at once after a time-out. It is freed when
//! it is at the front, or together with others when half of the queue has been withdrawn.
//!
//! # Long submissions
//!
//! Scripts, transactions, long values and commands on many keys may take milliseconds where the log
//! is applied, which nobody can do except in the order of the log. So the order is decided here:
//! submissions that probably take long have a lane of their own. A batch has those of one lane
//! only, and before each batch of long ones goes a batch of the others, if some wait. Long batches
//! that are on their way take [`LONG_UNITS_MAX`] together, or are one submission. So a client waits
//! for about that, however many clients send scripts, or three times as long if they send other
//! commands ([`plain_units`]). A client has one submission at a time, so none sees that others
//! overtake each other.
//!
//! A part of the room is for the others: a queue that is full of long values would refuse a short
//! write, which is first in the order.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};
use std::time::Instant;

use parking_lot::Mutex;
use todana_command::LONG_UNITS;

use crate::batch::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX};
use crate::submission::{Submission, Ticket};

/// What a waiting submission counts for beside its records.
const SUBMISSION_BYTES: usize = 128;

/// Units of the long submissions that are on their way at once: some four milliseconds. More would
/// keep others waiting, less would cost a slow disk more of its time. A connection puts no more
/// into one submission, unless one request takes more.
pub const LONG_UNITS_MAX: u64 = 16_384;

/// The others may take this part of the room when long submissions have taken all of it.
const SHORT_BYTES_PART: usize = 4;

/// What a command that is neither a script nor a transaction counts for in the queue. With a third
/// of its units, some twelve milliseconds of such commands may be on their way: with less, a slow
/// disk would be idle during a bulk load, while what it has written is applied.
pub const fn plain_units(units: u64) -> u64 {
    units / 3
}

/// The queue of a group.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// The units of the long submissions that are on their way.
    long_flying: Arc<AtomicU64>,
    /// Whether long submissions wait until some of them are applied.
    long_waits: AtomicBool,
    /// The bytes of what waits, by [`Lane`], for those who have no lock.
    bytes: [AtomicUsize; 2],
    bytes_max: usize,
}

#[derive(Default)]
struct Waiting {
    /// By [`Lane`].
    lanes: [Waiters; 2],
    /// The tickets of those that were not withdrawn.
    valid: HashSet<Ticket>,
    /// Whether the batcher found nothing, and will not come again unless it is woken.
    batcher_is_idle: bool,
    /// Whether the last batch was taken before long submissions that could have been taken.
    others_were_first: bool,
}

/// The submissions of one lane, in their order.
#[derive(Default)]
struct Waiters {
    submissions: VecDeque<(Submission, Instant)>,
    /// Bytes of memory.
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    Short,
    Long,
}

impl Lane {
    fn of(units: u64) -> Lane {
        if units >= LONG_UNITS { Lane::Long } else { Lane::Short }
    }
}

/// Which batch is next.
struct Next {
    lane: Lane,
    /// The units that it may have, unless it is one submission.
    units_max: u64,
    /// Whether long submissions could have been taken instead.
    is_before_long: bool,
}

/// What a batch is made of.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) submissions: Vec<Submission>,
    /// When the first of them was queued.
    pub(crate) queued: Option<Instant>,
    /// Bytes of all their records.
    pub(crate) bytes: usize,
    /// Kept until a batch of long submissions is applied, or given up.
    pub(crate) long: Option<LongFlight>,
}

/// The units of a batch of long submissions, until it is applied or given up.
pub(crate) struct LongFlight {
    flying: Arc<AtomicU64>,
    units: u64,
}

impl Drop for LongFlight {
    fn drop(&mut self) {
        self.flying.fetch_sub(self.units, SeqCst);
    }
}

/// The first submission is longer than the caller wants to handle now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Bytes of its records.
    pub bytes: usize,
}

impl Queue {
    pub(crate) fn new(bytes_max: usize) -> Queue {
        let waiting = Waiting { batcher_is_idle: true, ..Waiting::default() };
        Queue {
            waiting: Mutex::new(waiting),
            long_flying: Arc::default(),
            long_waits: AtomicBool::new(false),
            bytes: Default::default(),
            bytes_max,
        }
    }

    /// Whether another submission of these units may be queued.
    pub(crate) fn has_room(&self, units: u64) -> bool {
        let is_short = Lane::of(units) == Lane::Short;
        let short_bytes = self.bytes[Lane::Short as usize].load(Relaxed);
        self.bytes() < self.bytes_max
            || (is_short && short_bytes < self.bytes_max / SHORT_BYTES_PART)
    }

    /// Bytes of memory that the queue takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.iter().map(|bytes| bytes.load(Relaxed)).sum()
    }

    /// Queues submissions if `may_queue` says so under the lock; otherwise leaves them. Returns
    /// whether the batcher must be woken.
    pub(crate) fn push(
        &self,
        submissions: &mut Vec<Submission>,
        may_queue: impl FnOnce(&[Submission]) -> bool,
    ) -> bool {
        let now = Instant::now();
        let mut waiting = self.waiting.lock();
        if submissions.is_empty() || !may_queue(submissions) {
            return false;
        }
        let waiting = &mut *waiting;
        for submission in submissions.drain(..) {
            let is_new = waiting.valid.insert(submission.ticket);
            debug_assert!(is_new, "two submissions with one ticket: {:?}", submission.ticket);
            let lane = Lane::of(submission.units);
            let bytes = bytes_of(&submission);
            self.bytes[lane as usize].fetch_add(bytes, Relaxed);
            let waiters = &mut waiting.lanes[lane as usize];
            waiters.bytes += bytes;
            waiters.submissions.push_back((submission, now));
        }
        std::mem::take(&mut waiting.batcher_is_idle)
    }

    /// Takes what fits one batch: at least one submission, unless the first one has more than
    /// `bytes_max` bytes. `None` if none waits; the next push then wakes the batcher, also if long
    /// ones wait for those on their way ([`Queue::long_waited`]). Also `None` if others wait, but
    /// less than `bytes_min`; the batcher then comes again by itself.
    pub(crate) fn take(
        &self,
        bytes_min: usize,
        bytes_max: usize,
    ) -> Result<Option<Taken>, TooLong> {
        // Freed without the lock.
        let mut withdrawn = Vec::new();
        let waiting = &mut *self.waiting.lock();
        loop {
            let Some(next) = self.next_batch(waiting, bytes_min) else { return Ok(None) };
            let Waiting { lanes, valid, .. } = waiting;
            let waiters = &mut lanes[next.lane as usize];
            let before = waiters.bytes;
            let taken = waiters.take(next.units_max, bytes_max, valid, &mut withdrawn);
            self.release(next.lane, before - waiters.bytes);
            let (mut taken, units) = taken?;
            if taken.submissions.is_empty() {
                // All of them had been withdrawn.
                continue;
            }
            waiting.others_were_first = next.is_before_long;
            if next.lane == Lane::Long {
                self.long_waits.store(!waiters.submissions.is_empty(), SeqCst);
                self.long_flying.fetch_add(units, SeqCst);
                taken.long = Some(LongFlight { flying: self.long_flying.clone(), units });
            }
            return Ok(Some(taken));
        }
    }

    fn next_batch(&self, waiting: &mut Waiting, bytes_min: usize) -> Option<Next> {
        let [short, long] = &mut waiting.lanes;
        long.drop_withdrawn(&waiting.valid, |bytes| self.release(Lane::Long, bytes));
        let next = long.submissions.front();
        // Noted first: what flies may be applied between the two.
        self.long_waits.store(next.is_some(), SeqCst);
        let flying = self.long_flying.load(SeqCst);
        let long_may_go = next.is_some_and(|(next, _)| {
            flying == 0 || flying.saturating_add(next.units) <= LONG_UNITS_MAX
        });
        if long_may_go && (short.submissions.is_empty() || waiting.others_were_first) {
            let units_max = LONG_UNITS_MAX.saturating_sub(flying);
            return Some(Next { lane: Lane::Long, units_max, is_before_long: false });
        }
        if short.submissions.is_empty() {
            waiting.batcher_is_idle = true;
            return None;
        }
        // Before a batch of long ones goes one of the others.
        let is_enough = long_may_go || short.bytes >= bytes_min;
        let is_before_long = long_may_go;
        is_enough.then_some(Next { lane: Lane::Short, units_max: u64::MAX, is_before_long })
    }

    /// The number of batches of long submissions on their way.
    pub(crate) fn long_flights(&self) -> usize {
        // Each has a reference, and so has the queue.
        Arc::strong_count(&self.long_flying) - 1
    }

    /// Whether long submissions waited for what has just been applied. The batcher must be woken
    /// then: it may have come before.
    pub(crate) fn long_waited(&self) -> bool {
        self.long_waits.load(SeqCst) && self.long_waits.swap(false, SeqCst)
    }

    /// Removes a submission.
    pub(crate) fn withdraw(&self, ticket: Ticket) -> bool {
        // Freed without the lock.
        let mut freed: Vec<_> = Vec::new();
        let waiting = &mut *self.waiting.lock();
        if !waiting.valid.remove(&ticket) {
            return false;
        }
        let Waiting { lanes, valid, .. } = waiting;
        let queued: usize = lanes.iter().map(|waiters| waiters.submissions.len()).sum();
        if queued > 2 * valid.len() {
            // At least as many are freed as are left.
            for lane in [Lane::Short, Lane::Long] {
                let is_valid = |submission: &Submission| valid.contains(&submission.ticket);
                freed.extend(self.keep_only(lanes, lane, is_valid));
            }
        }
        true
    }

    /// Removes everything but what may stay.
    pub(crate) fn drain(&self, may_stay: impl Fn(&Submission) -> bool) -> Vec<Submission> {
        let waiting = &mut *self.waiting.lock();
        let Waiting { lanes, valid, .. } = waiting;
        let mut drained = Vec::new();
        for lane in [Lane::Short, Lane::Long] {
            drained.extend(self.keep_only(lanes, lane, &may_stay));
        }
        drained.retain(|submission| valid.remove(&submission.ticket));
        drained
    }

    /// Removes the submissions of a lane that may not stay.
    fn keep_only(
        &self,
        lanes: &mut [Waiters; 2],
        lane: Lane,
        may_stay: impl Fn(&Submission) -> bool,
    ) -> Vec<Submission> {
        let waiters = &mut lanes[lane as usize];
        let all = std::mem::take(&mut waiters.submissions);
        let (left, removed): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(submission, _)| may_stay(submission));
        waiters.submissions = left.into();
        let removed: Vec<_> = removed.into_iter().map(|(submission, _)| submission).collect();
        let bytes = removed.iter().map(bytes_of).sum();
        waiters.bytes -= bytes;
        self.release(lane, bytes);
        removed
    }

    fn release(&self, lane: Lane, bytes: usize) {
        self.bytes[lane as usize].fetch_sub(bytes, Relaxed);
    }
}

impl Waiters {
    /// Takes what fits one batch, and returns its units. Empty if all that waited had been
    /// withdrawn.
    fn take(
        &mut self,
        units_max: u64,
        bytes_max: usize,
        valid: &mut HashSet<Ticket>,
        withdrawn: &mut Vec<Submission>,
    ) -> Result<(Taken, u64), TooLong> {
        let mut taken = Taken::default();
        let (mut records, mut units) = (0, 0_u64);
        while let Some((next, queued)) = self.submissions.front() {
            let (bytes, count) = (taken.bytes + next.records.len(), records + next.count);
            let units_after = units.saturating_add(next.units);
            let is_first = taken.submissions.is_empty();
            let is_valid = valid.contains(&next.ticket);
            if is_valid && is_first && bytes > bytes_max {
                return Err(TooLong { bytes });
            }
            let is_full =
                bytes > BATCH_BYTES_MAX || count > BATCH_RECORDS_MAX || units_after > units_max;
            if is_valid && !is_first && is_full {
                break;
            }
            if is_valid && is_first {
                taken.queued = Some(*queued);
            }
            let Some((next, _)) = self.submissions.pop_front() else { break };
            self.bytes -= bytes_of(&next);
            if is_valid {
                valid.remove(&next.ticket);
                (taken.bytes, records, units) = (bytes, count, units_after);
                taken.submissions.push(next);
            } else {
                withdrawn.push(next);
            }
        }
        Ok((taken, units))
    }

    /// Drops what was withdrawn at the front.
    fn drop_withdrawn(&mut self, valid: &HashSet<Ticket>, mut released: impl FnMut(usize)) {
        while let Some((next, _)) = self.submissions.front()
            && !valid.contains(&next.ticket)
        {
            let bytes = bytes_of(next);
            self.bytes -= bytes;
            released(bytes);
            self.submissions.pop_front();
        }
    }
}

fn bytes_of(submission: &Submission) -> usize {
    submission.records.capacity() + SUBMISSION_BYTES
}
