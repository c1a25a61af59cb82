//! A bounded queue of events, between the writers of a table and one reader.
//!
//! Writers append while they hold a lock of the table, so they never wait for the reader: if the
//! queue is full, the event is dropped and counted. The gap is recorded at its position in the
//! queue, as [`Queued::Lost`], so the reader knows between which events it missed some, and the
//! number of events read plus that of events lost is the number of events that occurred.
//!
//! Events are packed into chunks: a header of [`HEADER_BYTES`] and the key for each. The reader
//! takes a whole chunk in one step and reads it without the lock.
//!
//! ```text
//! 0     kind, or LOST          13 bytes and the key
//! 1     length of the key
//! 5     version, or number of events lost
//! 13    key
//! ```

use std::collections::VecDeque;
use std::fmt;

use parking_lot::Mutex;

use crate::event::{Event, EventKind};

/// Bytes of an event beside its key.
const HEADER_BYTES: usize = 13;
/// Events of one chunk.
const CHUNK_EVENTS_MAX: usize = 512;
/// Maximum bytes of a chunk, unless a single event has more.
const CHUNK_BYTES_MAX: usize = 16 * 1024;

/// The kind of a gap.
const LOST: u8 = u8::MAX;

/// The events that a queue accepts.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// The kinds; an empty list is all.
    pub kinds: Vec<EventKind>,
    /// The keys. Events about all keys pass in any case.
    pub keys: KeyFilter,
}

/// The keys whose events a queue accepts.
#[derive(Clone, Debug, Default)]
pub enum KeyFilter {
    /// All keys.
    #[default]
    All,
    /// Keys that begin with these bytes.
    Prefix(Box<[u8]>),
    /// One key.
    Key(Box<[u8]>),
}

impl EventFilter {
    fn takes(&self, event: &Event<'_>) -> bool {
        if !self.kinds.is_empty() && !self.kinds.contains(&event.kind) {
            return false;
        }
        event.kind.concerns_all()
            || match &self.keys {
                KeyFilter::All => true,
                KeyFilter::Prefix(prefix) => event.key.starts_with(prefix),
                KeyFilter::Key(key) => event.key == &**key,
            }
    }
}

/// The capacity of a queue.
#[derive(Clone, Copy, Debug)]
pub struct QueueLimits {
    /// Maximum number of events, including gaps.
    pub events_max: usize,
    /// Maximum bytes of events: keys and headers. The memory of the queue is at most twice this.
    pub bytes_max: usize,
}

/// A bounded queue of events.
pub struct EventQueue {
    filter: EventFilter,
    limits: QueueLimits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    chunks: VecDeque<Events>,
    events: usize,
    bytes: usize,
    /// Events that were dropped after the last one in the queue.
    lost: u64,
    /// Whether the next event must wake the reader.
    waits: bool,
}

impl EventQueue {
    /// An empty queue, whose reader will be woken by the first event.
    pub fn new(filter: EventFilter, limits: QueueLimits) -> EventQueue {
        let state = Mutex::new(State { waits: true, ..State::default() });
        EventQueue { filter, limits, state }
    }

    /// Appends an event, or counts it as lost. True if the caller must wake the reader.
    #[must_use]
    pub fn push(&self, event: &Event<'_>) -> bool {
        if !self.filter.takes(event) {
            return false;
        }
        let mut state = self.state.lock();
        let (mut events, mut bytes) = (1, HEADER_BYTES + event.key.len());
        if state.lost > 0 {
            // The gap comes first.
            (events, bytes) = (events + 1, bytes + HEADER_BYTES);
        }
        let QueueLimits { events_max, bytes_max } = self.limits;
        if state.events + events > events_max || state.bytes + bytes > bytes_max {
            state.lost += 1;
        } else {
            let lost = std::mem::take(&mut state.lost);
            if lost > 0 {
                state.append(LOST, lost, &[]);
            }
            state.append(event.kind as u8, event.version, event.key);
        }
        std::mem::take(&mut state.waits)
    }

    /// Takes the oldest events, and returns whether there are more. If there are none, the next
    /// event wakes the reader.
    pub fn take(&self) -> (Events, bool) {
        let mut state = self.state.lock();
        let mut chunk = state.chunks.pop_front().unwrap_or_default();
        state.events -= chunk.events;
        state.bytes -= chunk.bytes.len();
        if state.chunks.is_empty() && state.lost > 0 {
            chunk.append(LOST, std::mem::take(&mut state.lost), &[]);
        }
        let more = !state.chunks.is_empty();
        state.waits = !more;
        (chunk, more)
    }

    /// Drops all events. The reader is no longer woken.
    pub fn clear(&self) {
        let dropped = std::mem::take(&mut *self.state.lock());
        drop(dropped);
    }
}

impl State {
    fn append(&mut self, kind: u8, number: u64, key: &[u8]) {
        let bytes = HEADER_BYTES + key.len();
        let has_room = |chunk: &&mut Events| {
            chunk.events < CHUNK_EVENTS_MAX && chunk.bytes.len() + bytes <= CHUNK_BYTES_MAX
        };
        match self.chunks.back_mut().filter(has_room) {
            Some(chunk) => chunk.append(kind, number, key),
            None => {
                let mut chunk = Events::default();
                chunk.append(kind, number, key);
                self.chunks.push_back(chunk);
            }
        }
        self.events += 1;
        self.bytes += bytes;
    }
}

impl fmt::Debug for EventQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventQueue").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// Events that were taken from a queue.
#[derive(Clone, Default)]
pub struct Events {
    events: usize,
    bytes: Vec<u8>,
}

/// An event of a queue, or a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Queued<'a> {
    /// An event.
    Event(Event<'a>),
    /// This number of events was dropped here.
    Lost(u64),
}

impl Events {
    /// Number of events, including gaps.
    pub fn len(&self) -> usize {
        self.events
    }

    /// Whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.events == 0
    }

    /// The events, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = Queued<'_>> {
        let mut rest = &self.bytes[..];
        std::iter::from_fn(move || {
            let (&kind, after) = rest.split_first()?;
            let (len, after) = after.split_first_chunk()?;
            let (number, after) = after.split_first_chunk()?;
            let (key, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
            rest = after;
            let number = u64::from_le_bytes(*number);
            Some(match EventKind::ALL.get(usize::from(kind)) {
                Some(&kind) => Queued::Event(Event { kind, key, version: number }),
                None => Queued::Lost(number),
            })
        })
    }

    fn append(&mut self, kind: u8, number: u64, key: &[u8]) {
        // Keys have at most 64 KiB; a longer one would be truncated and not corrupt the queue.
        let key = &key[..key.len().min(u32::MAX as usize)];
        self.events += 1;
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&(key.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(&number.to_le_bytes());
        self.bytes.extend_from_slice(key);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(events_max: usize, bytes_max: usize) -> EventQueue {
        EventQueue::new(EventFilter::default(), QueueLimits { events_max, bytes_max })
    }

    fn put(key: &[u8], version: u64) -> Event<'_> {
        Event { kind: EventKind::Put, key, version }
    }

    #[test]
    fn a_gap_is_recorded_at_its_position() {
        let queue = queue(2, 1 << 20);
        assert!(queue.push(&put(b"a", 1)), "the reader must be woken");
        assert!(!queue.push(&put(b"b", 2)), "the reader was woken already");
        assert!(!queue.push(&put(b"c", 3)) && !queue.push(&put(b"d", 4)));
        let (events, more) = queue.take();
        let expected = [Queued::Event(put(b"a", 1)), Queued::Event(put(b"b", 2)), Queued::Lost(2)];
        assert_eq!((events.iter().collect::<Vec<_>>(), more), (expected.to_vec(), false));
        assert!(queue.push(&put(b"e", 5)), "the reader must be woken again");
        assert_eq!(queue.take().0.iter().collect::<Vec<_>>(), [Queued::Event(put(b"e", 5))]);
    }

    #[test]
    fn a_gap_between_chunks_precedes_the_next_event() {
        let queue = queue(CHUNK_EVENTS_MAX + 2, 1 << 20);
        for at in 0..CHUNK_EVENTS_MAX as u64 + 5 {
            let _ = queue.push(&put(b"k", at));
        }
        let (first, more) = queue.take();
        assert!(more && first.len() == CHUNK_EVENTS_MAX);
        let _ = queue.push(&put(b"k", 1_000));
        let (second, more) = queue.take();
        assert!(!more);
        let last = second.iter().skip(2).collect::<Vec<_>>();
        assert_eq!(last, [Queued::Lost(3), Queued::Event(put(b"k", 1_000))]);
    }

    #[test]
    fn bytes_are_bounded_and_freed() {
        let queue = queue(usize::MAX, 3 * (HEADER_BYTES + 100));
        for round in 0..3 {
            for version in 0..5 {
                let _ = queue.push(&put(&[round; 100], version));
            }
            let (events, more) = queue.take();
            assert_eq!((events.len(), more), (4, false), "three events and the gap");
            assert_eq!(events.iter().last(), Some(Queued::Lost(2)));
        }
        assert!(queue.push(&put(&[0; 1_000], 9)), "the reader is woken for a gap, too");
        assert_eq!(queue.take().0.iter().collect::<Vec<_>>(), [Queued::Lost(1)]);
    }

    #[test]
    fn a_filter_passes_the_events_of_its_keys() {
        let filter = |keys| EventFilter { kinds: vec![EventKind::Put, EventKind::Clear], keys };
        let taken = |keys, event: &Event<'_>| filter(keys).takes(event);
        let prefix = || KeyFilter::Prefix(Box::from(&b"ab"[..]));
        let key = || KeyFilter::Key(Box::from(&b"ab"[..]));
        let abc = put(b"abc", 1);
        assert!(taken(KeyFilter::All, &abc) && taken(prefix(), &abc) && !taken(key(), &abc));
        let ab = put(b"ab", 1);
        assert!(taken(prefix(), &ab) && taken(key(), &ab) && !taken(prefix(), &put(b"a", 1)));
        let clear = Event { kind: EventKind::Clear, key: &[], version: 7 };
        assert!(taken(prefix(), &clear) && taken(key(), &clear));
        assert!(!taken(prefix(), &Event { kind: EventKind::Delete, ..ab }));
        assert!(!taken(KeyFilter::All, &Event { kind: EventKind::Swap, ..clear }));
    }
}
