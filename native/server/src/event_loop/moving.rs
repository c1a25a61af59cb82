//! Moves connections from loop to loop.
//!
//! A connection moves between two requests. It leaves its poller and its arena, and goes to the
//! inbox of the other loop, which watches it from then on. The pollers are level-triggered, so
//! bytes that arrived meanwhile are reported there. A message to the client that arrives at its
//! former place follows it (`locate`).

use super::{EventLoop, FIRST_CONNECTION, NEVER, ROUND_MAX};
use crate::balance::{Sample, Share};
use crate::clients::IN_TRANSIT;
use crate::connection::Connection;
use crate::door::Door;
use crate::inbox::Message;
use crate::node_log;
use crate::poller::Interest;
use crate::shared::LoopPart;
use std::any::Any;
use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

/// Connections at which a loop looks in a round, to hand over all that can be moved.
const LOOKS_MAX: usize = 1_024;

/// What a loop is handing over.
#[derive(Debug, Default)]
pub(super) struct Handing {
    few: Option<Few>,
    all: Option<All>,
}

/// Active connections, after their turns in this window.
#[derive(Debug)]
struct Few {
    to: usize,
    window: u32,
    count: usize,
    budget_ns: u64,
}

/// All that can be moved.
#[derive(Debug)]
struct All {
    to: usize,
    /// The next index.
    index: usize,
}

impl<D: Door> EventLoop<D> {
    /// A round begins, perhaps in another window.
    #[inline]
    pub(super) fn note_window(&mut self) {
        let window = self.shared.balance.window();
        if window != self.window {
            self.window = window;
            let statistics = &self.part().statistics;
            statistics.active_before.set(statistics.active.get());
            statistics.active.set(0);
        }
    }

    /// Decides for all loops.
    #[cold]
    pub(super) fn balance(&mut self, now: u64) {
        let shared = &self.shared;
        let samples = || {
            let sample = |part: &LoopPart| {
                let statistics = &part.statistics;
                let ended_ns = statistics.busy_nanos.get();
                // The present round of the loop counts as well. One that ends at this moment counts
                // later: `end_round` changes the two in the other order.
                let present_ns = match statistics.round_began.get() {
                    0 => 0,
                    began => self.clock.nanos(began, now),
                };
                // The loop may have begun to count anew a moment ago.
                let active = statistics.active.get().max(statistics.active_before.get());
                Sample {
                    busy_nanos: ended_ns + present_ns,
                    long_works: statistics.long_works.get(),
                    connections: part.connections.load(Relaxed),
                    active: active as usize,
                }
            };
            shared.loops.iter().map(sample).collect()
        };
        let note_load = |(number, load): (usize, u32)| {
            shared.loops[number].load.store(load, Relaxed);
        };
        let moves = shared.balance.decide(&self.clock, now, samples, note_load);
        let window = shared.balance.window();
        for it in moves {
            if it.from == self.number {
                self.begin_to_hand(it.to, it.share, window);
            } else {
                let message = Message::HandOver { to: it.to, share: it.share, window };
                self.shared.loops[it.from].inbox.send(message);
            }
        }
    }

    /// Begins to hand connections to another loop.
    pub(super) fn begin_to_hand(&mut self, to: usize, share: Share, window: u32) {
        match share {
            Share::Some { count, budget_ns } => {
                self.handing.all = None;
                self.handing.few = Some(Few { to, window, count, budget_ns });
            }
            Share::All => {
                self.handing.few = None;
                self.handing.all = Some(All { to, index: 0 });
            }
        }
    }

    /// Hands over a connection that has just had its turn, if some are to be handed over.
    #[inline]
    pub(super) fn hand_over_after_turn(&mut self, index: usize) -> bool {
        #[cfg(test)]
        if self.shared.balance.moves_always.load(Relaxed) {
            let to = (self.number + 1) % self.shared.loops.len();
            return self.hand_over_if_free(index, to);
        }
        match &self.handing.few {
            None => false,
            Some(_) => self.hand_over_one(index),
        }
    }

    #[cold]
    fn hand_over_one(&mut self, index: usize) -> bool {
        let Some(few) = &mut self.handing.few else { return false };
        let Some(connection) = self.connections.get(index) else { return false };
        // The order may be of a window that begins here with the next round.
        let is_over = self.window.wrapping_sub(few.window).cast_signed() > 0;
        if is_over || few.count == 0 {
            self.handing.few = None;
            return false;
        }
        let Some(left_ns) = few.budget_ns.checked_sub(connection.activity.nanos()) else {
            return false;
        };
        let to = few.to;
        let is_gone = self.hand_over_if_free(index, to);
        if is_gone && let Some(few) = &mut self.handing.few {
            (few.count, few.budget_ns) = (few.count - 1, left_ns);
        }
        is_gone
    }

    /// Whether all connections are being handed over.
    pub(super) fn is_gathering(&self) -> bool {
        self.handing.all.is_some()
    }

    /// Hands over as many of all connections as a round may.
    pub(super) fn hand_over_all(&mut self) {
        let Some(mut all) = self.handing.all.take() else { return };
        let (mut looks, mut moved) = (0, 0);
        while all.index < self.connections.bound() {
            if looks >= LOOKS_MAX || moved >= ROUND_MAX {
                self.handing.all = Some(all);
                return;
            }
            moved += usize::from(self.hand_over_if_free(all.index, all.to));
            (looks, all.index) = (looks + 1, all.index + 1);
        }
    }

    /// Hands the connection of this index to another loop, if there is one that can be moved.
    /// Returns whether it did.
    fn hand_over_if_free(&mut self, index: usize, to: usize) -> bool {
        let is_free = self.connections.get(index).is_some_and(|it| it.can_move());
        if !is_free || to == self.number || self.stop_at_ns != NEVER {
            return false;
        }
        let Some(mut connection) = self.connections.remove(index) else { return false };
        // This can only fail for a descriptor that is not watched.
        let _ = self.poller.deregister(connection.as_ref().as_fd(), FIRST_CONNECTION + index);
        self.forget_active(&connection);
        self.part().statistics.moved.add(1);
        connection.arrive();
        self.part().connections.fetch_sub(1, Relaxed);
        let other = &self.shared.loops[to];
        other.connections.fetch_add(1, Relaxed);
        let id = connection.client.id;
        self.shared.clients.hand_over(id, to, || other.inbox.send(Message::Adopt(connection)));
        true
    }

    /// A connection leaves the loop.
    pub(super) fn forget_active(&self, connection: &Connection<D>) {
        if connection.activity.is_in(self.window) {
            let active = &self.part().statistics.active;
            active.set(active.get().saturating_sub(1));
        }
    }

    /// Serves a connection of another loop from now on.
    pub(super) fn adopt(&mut self, connection: Box<dyn Any + Send>) {
        let Ok(connection) = connection.downcast::<Connection<D>>() else {
            return node_log::error!(
                "event loop {} got a connection of another server",
                self.number
            );
        };
        let index = self.connections.vacant();
        let fd = connection.as_ref().as_fd();
        let watched = self.poller.register(fd, FIRST_CONNECTION + index, Interest::READ);
        self.shared.clients.arrive(connection.client.id, index);
        let address = connection.client.address;
        self.connections.insert(connection);
        match watched {
            Ok(()) if self.stop_at_ns == NEVER => {}
            Ok(()) => {
                self.flush_once(index);
                self.close(index);
            }
            Err(error) => {
                node_log::error!(
                    "the connection of {address} is closed: it cannot be watched: {error}"
                );
                self.close(index);
            }
        }
    }

    /// The index of the client to whom a message was sent: it may have moved since. If it is not
    /// here, its loop receives the message `again`. That may be this one, if the client is on its
    /// way back.
    pub(super) fn locate(
        &self,
        index: usize,
        id: u64,
        again: impl FnOnce(usize) -> Message,
    ) -> Option<usize> {
        if self.connections.get(index).is_some_and(|it| it.client.id == id) {
            return Some(index);
        }
        let (event_loop, index) = self.moved_to(index, id)?;
        self.shared.loops[event_loop].inbox.send(again(index));
        None
    }

    /// Where a client is that had this index; `None` if it has left.
    pub(super) fn moved_to(&self, index: usize, id: u64) -> Option<(usize, usize)> {
        let place = self.shared.clients.find(id)?;
        let now = (place.event_loop, place.index);
        (now != (self.number, index) || index == IN_TRANSIT).then_some(now)
    }
}
