//! Batches of this node that were sealed and not applied yet, and the tickets of their clients.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::queue::LongFlight;
use crate::submission::{Deliver, Outcome, Submission, Ticket};

/// The batches in flight, by their sequences.
#[derive(Default)]
pub(crate) struct Flights(Mutex<Flying>);

#[derive(Default)]
struct Flying {
    /// The sequence of the last batch.
    last: u64,
    flights: BTreeMap<u64, Flight>,
}

/// One batch in flight.
pub(crate) struct Flight {
    /// Its submissions, in their order.
    pub(crate) parts: Vec<Part>,
    /// When the first of them was queued.
    pub(crate) queued: Instant,
    sealed: Instant,
    /// For a batch of long submissions.
    _long: Option<LongFlight>,
}

/// The ticket of one submission, or of one reader.
pub(crate) struct Part {
    /// Number of its records.
    pub(crate) count: usize,
    pub(crate) ticket: Ticket,
    deliver: Arc<dyn Deliver>,
}

impl Part {
    pub(crate) fn of(submission: Submission) -> Part {
        let Submission { count, ticket, deliver, .. } = submission;
        Part { count, ticket, deliver }
    }

    /// One that waits without a submission.
    pub(crate) fn reader(ticket: Ticket, deliver: Arc<dyn Deliver>) -> Part {
        Part { count: 0, ticket, deliver }
    }

    pub(crate) fn ticket(&self) -> Ticket {
        self.ticket
    }

    /// The same for all of one receiver.
    pub(crate) fn place(&self) -> u32 {
        self.ticket.place.0
    }
}

/// Delivers outcomes, those for one receiver at once. A panic of a receiver is its own.
pub(crate) fn deliver<'a>(outcomes: impl IntoIterator<Item = (&'a Part, Outcome)>) {
    let mut outcomes = outcomes.into_iter().peekable();
    while let Some((Part { ticket, deliver, .. }, outcome)) = outcomes.next() {
        let mut together = vec![(*ticket, outcome)];
        let is_for_same = |(part, _): &(&Part, Outcome)| Arc::ptr_eq(&part.deliver, deliver);
        while let Some((part, outcome)) = outcomes.next_if(is_for_same) {
            together.push((part.ticket, outcome));
        }
        let deliver = || deliver.deliver(together);
        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(deliver));
    }
}

impl Flights {
    /// Records a batch, and returns its sequence.
    pub(crate) fn begin(&self, parts: Vec<Part>, queued: Instant, long: Option<LongFlight>) -> u64 {
        let mut flying = self.0.lock();
        flying.last += 1;
        let sequence = flying.last;
        let flight = Flight { parts, queued, sealed: Instant::now(), _long: long };
        flying.flights.insert(sequence, flight);
        sequence
    }

    /// Takes a batch: it is applied, or given up.
    pub(crate) fn take(&self, sequence: u64) -> Option<Flight> {
        self.0.lock().flights.remove(&sequence)
    }

    /// Puts back a batch that will be applied once more, from its beginning.
    pub(crate) fn put_back(&self, sequence: u64, flight: Flight) {
        self.0.lock().flights.insert(sequence, flight);
    }

    /// The sequences of the batches in flight.
    pub(crate) fn sequences(&self) -> Vec<u64> {
        self.0.lock().flights.keys().copied().collect()
    }

    /// Number of batches in flight.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().flights.len()
    }

    /// For how long the oldest one has been in flight.
    pub(crate) fn oldest(&self) -> Option<Duration> {
        self.0.lock().flights.values().next().map(|flight| flight.sealed.elapsed())
    }

    /// Takes all of them.
    pub(crate) fn drain(&self) -> Vec<Flight> {
        std::mem::take(&mut self.0.lock().flights).into_values().collect()
    }
}

impl Flight {
    /// Nobody learns whether it was, or will be, applied.
    pub(crate) fn give_up(&self) {
        deliver(self.parts.iter().map(|part| (part, Outcome::Unknown)));
    }
}
