//! Submissions that wait for the next batch.
//!
//! Event loops push, the batcher takes. A loop hands over all submissions of one round under one
//! lock. The batcher is woken only if it found the queue empty before: while it has batches in
//! flight it comes by itself.
//!
//! A withdrawn submission stays in its place without being valid, so that a withdrawal does not
//! search the queue, which thousands of clients may do at once after a time-out. It is freed when
//! it is at the front, or together with others when half of the queue has been withdrawn.

use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

use crate::batch::{BATCH_BYTES_MAX, BATCH_RECORDS_MAX};
use crate::submission::{Submission, Ticket};

/// What a waiting submission counts for beside its records.
const SUBMISSION_BYTES: usize = 128;

/// The queue of a group.
pub(crate) struct Queue {
    waiting: Mutex<Waiting>,
    /// The bytes of all that waits, for those who have no lock.
    bytes: AtomicUsize,
    bytes_max: usize,
}

struct Waiting {
    submissions: VecDeque<(Submission, Instant)>,
    /// The tickets of those that were not withdrawn.
    valid: HashSet<Ticket>,
    /// Whether the batcher found nothing, and will not come again unless it is woken.
    batcher_is_idle: bool,
}

/// What a batch is made of.
#[derive(Default)]
pub(crate) struct Taken {
    pub(crate) submissions: Vec<Submission>,
    /// When the first of them was queued.
    pub(crate) queued: Option<Instant>,
    /// Bytes of all their records.
    pub(crate) bytes: usize,
}

/// The first submission is longer than the caller wants to handle now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Bytes of its records.
    pub bytes: usize,
}

impl Queue {
    pub(crate) fn new(bytes_max: usize) -> Queue {
        let waiting =
            Waiting { submissions: VecDeque::new(), valid: HashSet::new(), batcher_is_idle: true };
        Queue { waiting: Mutex::new(waiting), bytes: AtomicUsize::new(0), bytes_max }
    }

    /// Whether another submission may be queued.
    pub(crate) fn has_room(&self) -> bool {
        self.bytes() < self.bytes_max
    }

    /// Bytes of memory that the queue takes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
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
        let bytes: usize = submissions.iter().map(bytes_of).sum();
        let waiting = &mut *waiting;
        for submission in submissions.drain(..) {
            let is_new = waiting.valid.insert(submission.ticket);
            debug_assert!(is_new, "two submissions with one ticket: {:?}", submission.ticket);
            waiting.submissions.push_back((submission, now));
        }
        self.bytes.fetch_add(bytes, Relaxed);
        std::mem::take(&mut waiting.batcher_is_idle)
    }

    /// Takes what fits one batch: at least one submission, unless the first one has more than
    /// `bytes_max` bytes. `None` if none waits; the next push then wakes the batcher. Also `None`
    /// if something waits, but less than `bytes_min`; the batcher then comes again by itself.
    pub(crate) fn take(
        &self,
        bytes_min: usize,
        bytes_max: usize,
    ) -> Result<Option<Taken>, TooLong> {
        // Freed without the lock.
        let mut withdrawn = Vec::new();
        let waiting = &mut *self.waiting.lock();
        if !waiting.submissions.is_empty() && self.bytes() < bytes_min {
            return Ok(None);
        }
        let mut taken = Taken::default();
        let (mut records, mut released) = (0, 0);
        let result = loop {
            let Some((next, queued)) = waiting.submissions.front() else { break Ok(()) };
            let (bytes, count) = (taken.bytes + next.records.len(), records + next.count);
            let is_first = taken.submissions.is_empty();
            let is_valid = waiting.valid.contains(&next.ticket);
            if is_valid && is_first && bytes > bytes_max {
                break Err(TooLong { bytes });
            }
            if is_valid && !is_first && (bytes > BATCH_BYTES_MAX || count > BATCH_RECORDS_MAX) {
                break Ok(());
            }
            if is_valid && is_first {
                taken.queued = Some(*queued);
            }
            let Some((next, _)) = waiting.submissions.pop_front() else { break Ok(()) };
            released += bytes_of(&next);
            if is_valid {
                waiting.valid.remove(&next.ticket);
                (taken.bytes, records) = (bytes, count);
                taken.submissions.push(next);
            } else {
                withdrawn.push(next);
            }
        };
        self.release(released);
        result?;
        if taken.submissions.is_empty() {
            waiting.batcher_is_idle = true;
            return Ok(None);
        }
        Ok(Some(taken))
    }

    /// Removes a submission.
    pub(crate) fn withdraw(&self, ticket: Ticket) -> bool {
        // Freed without the lock.
        let freed: Vec<_>;
        let waiting = &mut *self.waiting.lock();
        if !waiting.valid.remove(&ticket) {
            return false;
        }
        if waiting.submissions.len() > 2 * waiting.valid.len() {
            // At least as many are freed as are left.
            let Waiting { submissions, valid, .. } = waiting;
            let is_valid =
                |(submission, _): &(Submission, Instant)| valid.contains(&submission.ticket);
            let (left, withdrawn): (Vec<_>, Vec<_>) =
                std::mem::take(submissions).into_iter().partition(is_valid);
            (*submissions, freed) = (left.into(), withdrawn);
            self.release(freed.iter().map(|(submission, _)| bytes_of(submission)).sum());
        }
        true
    }

    /// Removes everything but what may stay.
    pub(crate) fn drain(&self, may_stay: impl Fn(&Submission) -> bool) -> Vec<Submission> {
        let waiting = &mut *self.waiting.lock();
        let all = std::mem::take(&mut waiting.submissions);
        let (left, drained): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|(submission, _)| may_stay(submission));
        waiting.submissions = left.into();
        self.release(drained.iter().map(|(submission, _)| bytes_of(submission)).sum());
        let drained = drained.into_iter().map(|(submission, _)| submission);
        drained.filter(|submission| waiting.valid.remove(&submission.ticket)).collect()
    }

    fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

fn bytes_of(submission: &Submission) -> usize {
    submission.records.capacity() + SUBMISSION_BYTES
}
