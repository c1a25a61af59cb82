//! Submissions that wait for the next batch.
//!
//! Event loops push, the batcher takes. A loop hands over all submissions of one round under one
//! lock. The batcher is woken only if it found the queue empty before: while it has batches in
//! flight it comes by itself.

use std::collections::VecDeque;
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

impl Queue {
    pub(crate) fn new(bytes_max: usize) -> Queue {
        let waiting = Waiting { submissions: VecDeque::new(), batcher_is_idle: true };
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
        may_queue: impl FnOnce() -> bool,
    ) -> bool {
        let now = Instant::now();
        let mut waiting = self.waiting.lock();
        if submissions.is_empty() || !may_queue() {
            return false;
        }
        let bytes: usize = submissions.iter().map(bytes_of).sum();
        waiting.submissions.extend(submissions.drain(..).map(|submission| (submission, now)));
        self.bytes.fetch_add(bytes, Relaxed);
        std::mem::take(&mut waiting.batcher_is_idle)
    }

    /// Takes what fits one batch: at least one submission, however long it is. `None` if none
    /// waits; the next push then wakes the batcher. Also `None` if something waits, but less than
    /// `bytes_min`; the batcher then comes again by itself.
    pub(crate) fn take(&self, bytes_min: usize) -> Option<Taken> {
        let mut waiting = self.waiting.lock();
        if !waiting.submissions.is_empty() && self.bytes() < bytes_min {
            return None;
        }
        let mut taken = Taken::default();
        let mut records = 0;
        while let Some((next, queued)) = waiting.submissions.front() {
            let (bytes, count) = (taken.bytes + next.records.len(), records + next.count);
            let is_first = taken.submissions.is_empty();
            if !is_first && (bytes > BATCH_BYTES_MAX || count > BATCH_RECORDS_MAX) {
                break;
            }
            if is_first {
                taken.queued = Some(*queued);
            }
            (taken.bytes, records) = (bytes, count);
            taken.submissions.extend(waiting.submissions.pop_front().map(|(taken, _)| taken));
        }
        if taken.submissions.is_empty() {
            waiting.batcher_is_idle = true;
            return None;
        }
        self.release(taken.submissions.iter().map(bytes_of).sum());
        Some(taken)
    }

    /// Removes a submission.
    pub(crate) fn withdraw(&self, ticket: Ticket) -> bool {
        let mut waiting = self.waiting.lock();
        let is_it = |(submission, _): &(Submission, Instant)| submission.ticket == ticket;
        let Some(place) = waiting.submissions.iter().position(is_it) else { return false };
        let removed = waiting.submissions.remove(place);
        self.release(removed.iter().map(|(submission, _)| bytes_of(submission)).sum());
        true
    }

    /// Removes everything.
    pub(crate) fn drain(&self) -> Vec<Submission> {
        let mut waiting = self.waiting.lock();
        let all: Vec<_> = waiting.submissions.drain(..).map(|(submission, _)| submission).collect();
        self.release(all.iter().map(bytes_of).sum());
        all
    }

    fn release(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Relaxed);
    }
}

fn bytes_of(submission: &Submission) -> usize {
    submission.records.capacity() + SUBMISSION_BYTES
}
