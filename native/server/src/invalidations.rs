//! Invalidations on their way to the loops that serve the clients.
//!
//! If a loop has too much to deliver, it has its clients forget everything instead, once
//! ([`Message::InvalidateAll`](crate::inbox::Message::InvalidateAll)), and closes the clients to
//! which others redirect their invalidations.

use crate::frame::Frame;
use crate::place::Place;
use todana_command::cause::Writer;
use todana_protocol::Tracker;

/// Maximum bytes of invalidations that a loop has to deliver.
pub(crate) const WAITING_BYTES_MAX: usize = 16 << 20;
/// Bytes of an invalidation beside its key and its recipients.
const INVALIDATION_BYTES: usize = 128;

/// The client of this id, which is served here.
pub(crate) fn tracker(place: Place, id: u64) -> Tracker {
    Tracker { place: (place.event_loop as u32, place.index as u32), id }
}

/// Clients that receive a message, in the order of their places.
#[derive(Debug)]
pub(crate) struct Recipients(Vec<Tracker>);

impl Recipients {
    /// Of a sorted list.
    pub(crate) fn new(sorted: Vec<Tracker>) -> Recipients {
        Recipients(sorted)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.0.len() * size_of::<Tracker>()
    }

    /// Calls `each` with the number of each loop that serves some.
    pub(crate) fn loops(&self, mut each: impl FnMut(usize)) {
        let mut rest = &self.0[..];
        while let Some(first) = rest.first() {
            each(first.place.0 as usize);
            rest = &rest[rest.partition_point(|it| it.place.0 == first.place.0)..];
        }
    }

    /// Those of a loop from an index on: at most `count`. Returns where to continue, `None` if that
    /// were all.
    pub(crate) fn next(
        &self,
        (event_loop, index): (usize, usize),
        count: usize,
        recipients: &mut Vec<(usize, u64)>,
    ) -> Option<usize> {
        let from = (event_loop as u32, index as u32);
        let begin = self.0.partition_point(|it| it.place < from);
        for tracker in self.0[begin..].iter().take_while(|it| it.place.0 == event_loop as u32) {
            if recipients.len() >= count {
                return Some(tracker.place.1 as usize);
            }
            recipients.push((tracker.place.1 as usize, tracker.id));
        }
        None
    }
}

/// Bytes of an invalidation that is redirected to another client.
pub(crate) fn redirected_bytes(frame: &Frame) -> usize {
    frame.resp3.len() + INVALIDATION_BYTES
}

/// A key that has changed, with the clients that must learn of it.
#[derive(Debug)]
pub(crate) struct Invalidation {
    pub(crate) key: Box<[u8]>,
    pub(crate) recipients: Recipients,
    /// The party that has changed it.
    pub(crate) writer: Writer,
}

impl Invalidation {
    pub(crate) fn bytes(&self) -> usize {
        self.key.len() + self.recipients.bytes() + INVALIDATION_BYTES
    }
}
