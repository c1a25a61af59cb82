//! Sends messages that clients have not requested to the loops that deliver them.

use crate::channels;
use crate::frame::Frame;
use crate::inbox::Message;
use crate::invalidations::{self, Invalidation, Recipients};
use crate::notices::{KEYEVENT, KEYSPACE, Notification};
use crate::operator;
use crate::shared::Shared;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use todana_command::cause::{self, Writer};
use todana_group::Follow;
use todana_protocol::{MakeObserver, Tracker};
use todana_resp::{Published, Publishing, Topic};
use todana_table::{Event, Observer};

/// How long loop 0 publishes notifications in one round.
const SLICE: Duration = Duration::from_millis(1);

impl Shared {
    /// Sends a message to the subscribers of this node. See [`Channels::publish`].
    ///
    /// [`Channels::publish`]: todana_resp::Channels::publish
    pub(crate) fn publish(
        &self,
        topic: Topic,
        channel: &[u8],
        message: &[u8],
        begun: &mut Publishing,
        may_wait: bool,
    ) -> Published {
        let channels = &self.listeners.channels;
        let is_full = |bytes: usize| bytes > channels::WAITING_BYTES_MAX;
        if may_wait && self.loops.iter().any(|part| is_full(part.waiting_bytes.load(Relaxed))) {
            return Published::Full;
        }
        if topic == Topic::Channel && !channels.compare(channel, begun) {
            return Published::GoesOn;
        }
        let patterns = std::mem::take(&mut begun.matched);
        let prepared = channels.prepare(topic, channel, message, patterns, self.loops.len());
        let Some((push, count, loops)) = prepared else { return Published::To(0) };
        let parts = self.loops.iter().zip(loops).filter(|(_, is_concerned)| *is_concerned);
        parts.for_each(|(part, _)| {
            part.waiting_bytes.fetch_add(push.bytes(), Relaxed);
            part.inbox.send(Message::Push(push.clone()));
        });
        Published::To(count)
    }

    /// Publishes at once, or drops the message if subscribers have too much to take.
    pub(crate) fn publish_or_drop(&self, topic: Topic, channel: &[u8], message: &[u8]) {
        let mut begun = Publishing::default();
        while !self.publish_slice(topic, channel, message, &mut begun) {}
    }

    /// The same, with some of the patterns. False if more of them are left.
    fn publish_slice(
        &self,
        topic: Topic,
        channel: &[u8],
        message: &[u8],
        begun: &mut Publishing,
    ) -> bool {
        match self.publish(topic, channel, message, begun, true) {
            Published::To(_) => true,
            Published::GoesOn => false,
            Published::Full => {
                self.listeners.channels.dropped.fetch_add(1, Relaxed);
                true
            }
        }
    }

    /// Registers a key that a client is about to read.
    pub(crate) fn track(&self, key: &[u8], tracker: Tracker) {
        let keys_max = self.config.tracking_keys_max.get();
        for (key, trackers) in self.listeners.tracking.track(key, tracker, keys_max) {
            self.send_invalidation(&key, trackers, Writer::Unknown);
        }
    }

    /// Registers a key of a pending request whose reply the client gets now.
    pub(crate) fn end_pending(&self, key: &[u8], tracker: Tracker) {
        let (table, keys_max) = (&self.listeners.tracking, self.config.tracking_keys_max.get());
        if table.end_pending(key, tracker) {
            self.send_invalidation(key, vec![tracker], Writer::Unknown);
        }
        for (key, trackers) in table.shrink(key, keys_max) {
            self.send_invalidation(&key, trackers, Writer::Unknown);
        }
    }

    /// Sends an invalidation to the loops of its recipients, which are sorted.
    pub(crate) fn send_invalidation(&self, key: &[u8], trackers: Vec<Tracker>, writer: Writer) {
        let recipients = Recipients::new(trackers);
        let invalidation = Arc::new(Invalidation { key: key.into(), recipients, writer });
        let bytes = invalidation.bytes();
        invalidation.recipients.loops(|number| {
            let part = &self.loops[number];
            if part.invalidation_bytes.load(Relaxed) > invalidations::WAITING_BYTES_MAX {
                self.send_invalidate_all(number);
            } else {
                part.invalidation_bytes.fetch_add(bytes, Relaxed);
                part.inbox.send(Message::Invalidate(invalidation.clone()));
            }
        });
    }

    /// Has the clients of a loop forget everything.
    fn send_invalidate_all(&self, number: usize) {
        let part = &self.loops[number];
        // If the loop has not begun with it yet, this change comes before it, too.
        if !part.invalidates_all.swap(true, AcqRel) {
            part.inbox.send(Message::InvalidateAll);
        }
    }

    /// Sends an invalidation to another client. False if there is none of this id. If the loop of
    /// the client has too much to deliver, the client is closed: it must not believe that nothing
    /// has changed.
    pub(crate) fn redirect(&self, id: u64, frame: &Frame) -> bool {
        let found = self.clients.find(id).filter(|place| !place.client.killed.load(Relaxed));
        let Some(place) = found else { return false };
        let part = &self.loops[place.event_loop];
        if part.redirected_bytes.load(Relaxed) > invalidations::WAITING_BYTES_MAX {
            self.listeners.channels.dropped.fetch_add(1, Relaxed);
            self.kill(id);
            return false;
        }
        let (index, frame) = (place.index, frame.clone());
        part.redirected_bytes.fetch_add(invalidations::redirected_bytes(&frame), Relaxed);
        part.inbox.send(Message::Redirected { index, id, frame });
        true
    }

    /// Sends a line to the clients that receive all commands. A loop that has too much to deliver
    /// gets none.
    pub(crate) fn monitor(&self, line: Vec<u8>) {
        self.listeners.operator.each_line(line, |line| {
            line.recipients.loops(|number| {
                let part = &self.loops[number];
                if part.line_bytes.load(Relaxed) > operator::WAITING_BYTES_MAX {
                    self.listeners.channels.dropped.fetch_add(1, Relaxed);
                } else {
                    part.line_bytes.fetch_add(line.bytes(), Relaxed);
                    part.inbox.send(Message::Line(line.clone()));
                }
            });
        });
    }

    /// Sets the classes of changes that are published. False if the databases have too many
    /// observers.
    pub(crate) fn set_notices(&self, classes: u32) -> bool {
        let wants = |classes: u32| classes & (KEYSPACE | KEYEVENT) != 0;
        let (notices, watching) = (&self.listeners.notices, &self.listeners.watching);
        notices.change(|before| {
            if wants(classes) && !wants(before) && !watching.begin() {
                return None;
            }
            if !wants(classes) && wants(before) {
                watching.end();
            }
            Some(classes)
        })
    }

    /// Publishes changes for a time. `rest` are the messages of the last one. True if there may be
    /// more.
    pub(crate) fn publish_notices(&self, rest: &mut VecDeque<Notification>) -> bool {
        let until = Instant::now() + SLICE;
        loop {
            if rest.is_empty() {
                let Some(notice) = self.listeners.notices.take() else { return false };
                rest.extend(notice.messages(self.listeners.notices.classes()));
            }
            if let Some(Notification { channel, message, begun }) = rest.front_mut()
                && self.publish_slice(Topic::Channel, channel, message, begun)
            {
                rest.pop_front();
            }
            if Instant::now() >= until {
                return true;
            }
        }
    }

    /// A key has changed.
    fn invalidate(&self, key: &[u8], writer: Writer) {
        let trackers = self.listeners.tracking.concerned(key, writer, None);
        if !trackers.is_empty() {
            self.send_invalidation(key, trackers, writer);
        }
    }

    /// Any key may have changed.
    fn invalidate_all(&self) {
        self.listeners.tracking.change_all_pending();
        (0..self.loops.len()).for_each(|number| self.send_invalidate_all(number));
    }

    fn note(&self, number: usize, event: &Event<'_>) {
        let listeners = &self.listeners;
        if listeners.tracking.clients.load(Relaxed) > 0 {
            if event.kind.concerns_all() {
                self.invalidate_all();
            } else {
                self.invalidate(event.key, cause::writer());
            }
        }
        if listeners.notices.classes() != 0 && listeners.channels.clients.load(Relaxed) > 0 {
            let (is_first, dropped) = listeners.notices.note(number, event);
            listeners.channels.dropped.fetch_add(dropped, Relaxed);
            if is_first {
                self.loops[0].inbox.send(Message::Notices);
            }
        }
    }
}

/// Changes that this node, a guest, learns from its seat.
impl Follow for Shared {
    fn changed(&self, key: &[u8], writer: Writer) {
        self.invalidate(key, writer);
    }

    fn all_changed(&self) {
        if self.listeners.tracking.clients.load(Relaxed) > 0 {
            self.invalidate_all();
        }
    }
}

/// The observer of one database.
struct Watcher {
    server: Weak<Shared>,
    number: usize,
}

impl Observer for Watcher {
    fn observe(&self, event: &Event<'_>) {
        if let Some(shared) = self.server.upgrade() {
            shared.note(self.number, event);
        }
    }
}

/// Observers that pass changes to the clients of a server. They do not keep it alive.
pub(crate) fn observers(server: Weak<Shared>) -> MakeObserver {
    Box::new(move |number| Some(Arc::new(Watcher { server: server.clone(), number })))
}
