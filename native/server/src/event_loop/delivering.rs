//! Delivers messages that clients have not requested: to some of their recipients in each round.

use super::EventLoop;
use crate::channels::Push;
use crate::door::Door;
use crate::frame::Frame;
use crate::inbox::Message;
use crate::invalidations::{Invalidation, redirected_bytes};
use crate::operator::Line;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use todana_command::cause::Writer;

/// Maximum number of messages that are appended to the output of clients in one round.
const APPENDS_MAX: usize = 2_048;
/// Maximum number of clients that receive something in one round: a system call for each.
const SENDS_MAX: usize = 256;
/// Bytes that are copied in one round.
const COPIED_BYTES_MAX: usize = 1 << 20;
/// Bytes of a key in an invalidation beside its own, in both versions of the protocol.
const KEY_FRAME_BYTES: usize = 32;
/// Subscriptions of clients that have left which are ended in one round.
const LEFT_MAX: usize = 512;

/// A message that is being delivered.
#[derive(Debug)]
pub(super) struct Delivery {
    what: What,
    /// Of a message to a channel: the channel, or one of the patterns that it matches.
    target: usize,
    /// The next index.
    index: usize,
    frame: Option<Frame>,
}

/// The kind of a message, with its content.
#[derive(Debug)]
pub(super) enum What {
    /// A message to a channel.
    Push(Arc<Push>),
    /// A key that has changed.
    Invalidation(Arc<Invalidation>),
    /// Any key may have changed.
    InvalidateAll,
    /// A command that was executed.
    Line(Arc<Line>),
    /// To one client, of this index: an invalidation that another client has redirected to it.
    Redirected { id: u64, bytes: usize },
}

/// A key that has changed, for a client with prefixes.
struct Gathered {
    index: usize,
    id: u64,
    invalidation: Arc<Invalidation>,
}

impl Gathered {
    /// The client, and the key.
    fn order(&self) -> ((usize, u64), &[u8]) {
        ((self.index, self.id), &self.invalidation.key[..])
    }
}

impl Delivery {
    pub(super) fn new(what: What) -> Delivery {
        Delivery { what, target: 0, index: 0, frame: None }
    }

    /// One that is redirected.
    pub(super) fn redirected(index: usize, id: u64, frame: Frame) -> Delivery {
        let what = What::Redirected { id, bytes: redirected_bytes(&frame) };
        Delivery { what, target: 0, index, frame: Some(frame) }
    }

    /// The frame of the present target; `None` if all have received it.
    fn frame(&mut self) -> Option<&Frame> {
        if self.frame.is_none() {
            self.frame = match &self.what {
                What::Push(push) => push.frame(self.target),
                _ if self.target > 0 => None,
                What::Invalidation(invalidation) => {
                    Some(Frame::invalidation(Some(&[&invalidation.key[..]])))
                }
                What::InvalidateAll => Some(Frame::invalidation(None)),
                What::Line(line) => Some(line.frame.clone()),
                What::Redirected { .. } => None,
            };
        }
        self.frame.as_ref()
    }
}

impl<D: Door> EventLoop<D> {
    /// Whether there is more to deliver.
    pub(super) fn has_deliveries(&self) -> bool {
        self.has_notices || !(self.deliveries.is_empty() && self.leavers.is_empty())
    }

    /// Begins with a message of the inbox. Returns it if it is not one of those that are delivered.
    pub(super) fn begin_to_deliver(&mut self, message: Message) -> Option<Message> {
        let what = match message {
            Message::Push(push) => What::Push(push),
            Message::Invalidate(invalidation) => What::Invalidation(invalidation),
            Message::InvalidateAll => What::InvalidateAll,
            Message::Line(line) => What::Line(line),
            Message::Redirected { index, id, frame } => {
                self.deliveries.push_back(Delivery::redirected(index, id, frame));
                return None;
            }
            Message::Notices => {
                self.has_notices = true;
                return None;
            }
            other => return Some(other),
        };
        self.deliveries.push_back(Delivery::new(what));
        None
    }

    /// Delivers as much as a round may.
    pub(super) fn deliver(&mut self) {
        if self.has_notices {
            self.has_notices = self.shared.publish_notices(&mut self.notifications);
        }
        if !self.leavers.is_empty() {
            self.leavers.end(&self.shared.listeners.channels, LEFT_MAX);
        }
        if self.deliveries.is_empty() {
            return;
        }
        let (mut appends, mut copied) = (0, 0);
        let mut touched: Vec<usize> = Vec::new();
        let (mut recipients, mut gathered) = (Vec::new(), Vec::new());
        while let Some(mut delivery) = self.deliveries.pop_front() {
            let room = (APPENDS_MAX - appends).min(SENDS_MAX - touched.len());
            if room == 0 || copied > COPIED_BYTES_MAX {
                self.deliveries.push_front(delivery);
                break;
            }
            let Some(frame) = delivery.frame().cloned() else {
                self.end_delivery(&delivery);
                continue;
            };
            recipients.clear();
            let most = room.min(COPIED_BYTES_MAX / frame.resp3.len() + 1);
            let next = self.recipients(&delivery, most, &mut recipients);
            appends += recipients.len().max(1);
            for (index, id) in recipients.drain(..) {
                copied += match self.gather(index, id, &delivery.what, &mut gathered, &mut touched)
                {
                    Some(bytes) => bytes,
                    None => self.append(index, id, &delivery.what, &frame, &mut touched),
                };
            }
            match next {
                Some(index) => delivery.index = index,
                None => {
                    (delivery.target, delivery.index, delivery.frame) =
                        (delivery.target + 1, 0, None);
                }
            }
            self.deliveries.push_front(delivery);
        }
        self.append_gathered(gathered);
        for index in touched {
            self.send_pushes(index);
        }
    }

    /// Keeps a key that has changed until the end of the round, if the client wants it and has
    /// prefixes. Returns the bytes that will be copied; `None` for other messages.
    fn gather(
        &mut self,
        index: usize,
        id: u64,
        what: &What,
        gathered: &mut Vec<Gathered>,
        touched: &mut Vec<usize>,
    ) -> Option<usize> {
        let What::Invalidation(invalidation) = what else { return None };
        let connection = self.connections.get_mut(index).filter(|it| it.client.id == id)?;
        connection.listening.tracking.as_ref().filter(|tracking| tracking.broadcast)?;
        if !connection.wants_invalidation((self.number as u32, index as u32), invalidation.writer) {
            return Some(0);
        }
        if !std::mem::replace(&mut connection.is_touched, true) {
            touched.push(index);
        }
        gathered.push(Gathered { index, id, invalidation: invalidation.clone() });
        Some(invalidation.key.len() + KEY_FRAME_BYTES)
    }

    /// Appends the keys of clients with prefixes: as in Redis, one message for each prefix, in
    /// which each key is once.
    fn append_gathered(&mut self, mut gathered: Vec<Gathered>) {
        gathered.sort_by(|one, other| one.order().cmp(&other.order()));
        let is_same = |one: &Gathered, other: &Gathered| one.order().0 == other.order().0;
        for of_client in gathered.chunk_by(is_same) {
            let (index, id) = of_client[0].order().0;
            let connection = self.connections.get_mut(index);
            let Some(connection) = connection.filter(|it| it.client.id == id) else { continue };
            let Some(tracking) = &connection.listening.tracking else { continue };
            let (redirect, prefixes) = (tracking.redirect, tracking.prefixes.clone());
            let mut keys: Vec<&[u8]> = of_client.iter().map(|it| it.order().1).collect();
            keys.dedup();
            for prefix in prefixes {
                let begin = keys.partition_point(|key| *key < &prefix[..]);
                let count = keys[begin..].partition_point(|key| key.starts_with(&prefix));
                if count == 0 {
                    continue;
                }
                let frame = Frame::invalidation(Some(&keys[begin..begin + count]));
                if redirect == 0 {
                    connection.push_invalidation(&frame, false);
                } else if !self.shared.redirect(redirect, &frame) {
                    connection.note_broken_redirection();
                    connection.push_invalidation(&Frame::broken_redirection(redirect), false);
                }
            }
        }
    }

    fn end_delivery(&self, delivery: &Delivery) {
        let part = &self.shared.loops[self.number];
        match &delivery.what {
            What::Push(push) => {
                part.waiting_bytes.fetch_sub(push.bytes(), Relaxed);
            }
            What::Invalidation(invalidation) => {
                part.invalidation_bytes.fetch_sub(invalidation.bytes(), Relaxed);
            }
            What::Line(line) => {
                part.line_bytes.fetch_sub(line.bytes(), Relaxed);
            }
            What::Redirected { bytes, .. } => {
                part.redirected_bytes.fetch_sub(*bytes, Relaxed);
            }
            What::InvalidateAll => {}
        }
    }

    /// The next recipients, at most `count`. Returns where to continue, `None` if those were all.
    fn recipients(
        &self,
        delivery: &Delivery,
        count: usize,
        recipients: &mut Vec<(usize, u64)>,
    ) -> Option<usize> {
        let from = (self.number, delivery.index);
        match &delivery.what {
            What::Push(push) => self.shared.listeners.channels.recipients(
                push,
                delivery.target,
                from,
                count,
                recipients,
            ),
            What::Invalidation(invalidation) => {
                invalidation.recipients.next(from, count, recipients)
            }
            What::Line(line) => line.recipients.next(from, count, recipients),
            What::InvalidateAll => {
                if delivery.index == 0 {
                    // What changes from now on needs another message.
                    let part = &self.shared.loops[self.number];
                    part.invalidates_all.swap(false, AcqRel);
                }
                let last = self.connections.bound();
                let end = last.min(delivery.index + count);
                for index in delivery.index..end {
                    let connection = self.connections.get(index);
                    let tracking = connection.filter(|it| it.listening.tracking.is_some());
                    recipients.extend(tracking.map(|it| (index, it.client.id)));
                }
                (end < last).then_some(end)
            }
            What::Redirected { id, .. } => {
                recipients.push((delivery.index, *id));
                None
            }
        }
    }

    /// Appends a message to the output of a client. Returns how many bytes were copied.
    fn append(
        &mut self,
        index: usize,
        id: u64,
        what: &What,
        frame: &Frame,
        touched: &mut Vec<usize>,
    ) -> usize {
        let place = (self.number as u32, index as u32);
        let connection = self.connections.get_mut(index);
        let Some(connection) = connection.filter(|it| it.client.id == id) else {
            if matches!(what, What::Redirected { .. }) && self.moved_to(index, id).is_some() {
                self.shared.redirect(id, frame);
            }
            return 0;
        };
        let copied = match what {
            What::Line(_) if !connection.listening.is_monitor => return 0,
            What::Push(_) | What::Line(_) => connection.push(frame),
            What::Redirected { .. } => connection.push_invalidation(frame, true),
            What::Invalidation(_) | What::InvalidateAll => {
                let writer = match what {
                    What::Invalidation(invalidation) => invalidation.writer,
                    _ => Writer::Unknown,
                };
                if !connection.wants_invalidation(place, writer) {
                    return 0;
                }
                let redirect = connection.listening.tracking.as_ref().map_or(0, |it| it.redirect);
                if redirect == 0 {
                    connection.push_invalidation(frame, false)
                } else if self.shared.redirect(redirect, frame) {
                    return 0;
                } else {
                    connection.note_broken_redirection();
                    connection.push_invalidation(&Frame::broken_redirection(redirect), false)
                }
            }
        };
        if !std::mem::replace(&mut connection.is_touched, true) {
            touched.push(index);
        }
        copied
    }

    /// Sends what was appended to the output of a connection, unless it holds back replies.
    pub(super) fn send_pushes(&mut self, index: usize) {
        let Some(connection) = self.connections.get_mut(index) else { return };
        connection.is_touched = false;
        let part = &self.shared.loops[self.number];
        let held_before = connection.held_bytes;
        if !connection.send_pushes(&self.shared, &part.statistics, &self.clock) {
            return self.close(index);
        }
        let holds_more = connection.held_bytes > held_before;
        self.watch(index, false);
        if holds_more && self.shared.clients_hold_too_much() {
            self.evict();
        }
    }
}
