//! Moves connections from loop to loop.
//!
//! A connection moves between two requests. It leaves its poller and its slot, and goes to the
//! inbox of the other loop, which watches it from then on. The pollers are level-triggered, so
//! bytes that arrived meanwhile are reported there. A message to the client that arrives at its
//! former place follows it (`locate`).

use super::{EventLoop, FIRST_CONNECTION, NEVER, ROUND_MAX};
use crate::balance::{Sample, Share};
use crate::clients::IN_TRANSIT;
use crate::connection::{Connection, Mobility};
use crate::door::Door;
use crate::host::LoopPart;
use crate::inbox::Message;
use crate::log;
use crate::poller::Interest;
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
    /// The next slot.
    slot: usize,
    /// Connections so far that cannot be moved.
    bound: usize,
}

impl<D: Door> EventLoop<D> {
    /// A round begins, perhaps in another window.
    #[inline]
    pub(super) fn note_window(&mut self) {
        let window = self.shared.balance.window();
        if window != self.window {
            self.window = window;
            self.part().statistics.active.set(0);
        }
    }

    /// Decides for all loops.
    #[cold]
    pub(super) fn balance(&mut self, now: u64) {
        let shared = &self.shared;
        let samples = || {
            let sample = |part: &LoopPart| {
                let statistics = &part.statistics;
                // The present round of the loop counts as well.
                let present_ns = match statistics.round_began.get() {
                    0 => 0,
                    began => self.clock.nanos(began, now),
                };
                Sample {
                    busy_nanos: statistics.busy_nanos.get() + present_ns,
                    long_works: statistics.long_works.get(),
                    connections: part.connections.load(Relaxed),
                    active: statistics.active.get() as usize,
                    bound: part.bound.load(Relaxed),
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
                self.handing.all = Some(All { to, slot: 0, bound: 0 });
            }
        }
    }

    /// Hands over a connection that has just had its turn, if some are to be handed over.
    #[inline]
    pub(super) fn hand_over_after_turn(&mut self, slot: usize) -> bool {
        #[cfg(test)]
        if self.shared.balance.moves_always.load(Relaxed) {
            let to = (self.number + 1) % self.shared.loops.len();
            return self.hand_over_if_free(slot, to) == Some(Mobility::Free);
        }
        match &self.handing.few {
            None => false,
            Some(_) => self.hand_over_one(slot),
        }
    }

    #[cold]
    fn hand_over_one(&mut self, slot: usize) -> bool {
        let Some(few) = &mut self.handing.few else { return false };
        let Some(connection) = self.connections.get(slot) else { return false };
        if few.window != self.window || few.count == 0 {
            self.handing.few = None;
            return false;
        }
        let Some(left_ns) = few.budget_ns.checked_sub(connection.activity.nanos()) else {
            return false;
        };
        let to = few.to;
        let is_gone = self.hand_over_if_free(slot, to) == Some(Mobility::Free);
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
        while all.slot < self.connections.bound() {
            if looks >= LOOKS_MAX || moved >= ROUND_MAX {
                self.handing.all = Some(all);
                return;
            }
            match self.hand_over_if_free(all.slot, all.to) {
                Some(Mobility::Free) => moved += 1,
                Some(Mobility::Bound) => all.bound += 1,
                Some(Mobility::Passing) | None => {}
            }
            (looks, all.slot) = (looks + 1, all.slot + 1);
        }
        self.part().bound.store(all.bound, Relaxed);
    }

    /// Hands a connection to another loop, if it can be moved. Returns whether it could; `None` if
    /// there is none in this slot.
    fn hand_over_if_free(&mut self, slot: usize, to: usize) -> Option<Mobility> {
        let mobility = self.connections.get(slot)?.mobility();
        if mobility != Mobility::Free || to == self.number || self.stop_at_ns != NEVER {
            return Some(if mobility == Mobility::Free { Mobility::Passing } else { mobility });
        }
        let mut connection = self.connections.remove(slot)?;
        // This can only fail for a descriptor that is not watched.
        let _ = self.poller.deregister(connection.as_ref().as_fd(), FIRST_CONNECTION + slot);
        let statistics = &self.part().statistics;
        if connection.activity.is_in(self.window) {
            statistics.active.set(statistics.active.get().saturating_sub(1));
        }
        statistics.moved.add(1);
        connection.arrive();
        self.part().connections.fetch_sub(1, Relaxed);
        let other = &self.shared.loops[to];
        other.connections.fetch_add(1, Relaxed);
        let id = connection.client.id;
        self.shared.clients.hand_over(id, to, || other.inbox.send(Message::Adopt(connection)));
        Some(Mobility::Free)
    }

    /// Serves a connection of another loop from now on.
    pub(super) fn adopt(&mut self, connection: Box<dyn Any + Send>) {
        let Ok(connection) = connection.downcast::<Connection<D>>() else {
            return log::error!("event loop {} got a connection of another server", self.number);
        };
        let slot = self.connections.vacant();
        let fd = connection.as_ref().as_fd();
        let watched = self.poller.register(fd, FIRST_CONNECTION + slot, Interest::READ).is_ok();
        self.shared.clients.arrive(connection.client.id, slot);
        self.connections.insert(connection);
        if !watched || self.stop_at_ns != NEVER {
            self.close(slot);
        }
    }

    /// The slot of the client to whom a message was sent: it may have moved since. If it is not
    /// here, its loop receives the message `again`. That may be this one, if the client is on its
    /// way back.
    pub(super) fn locate(
        &self,
        slot: usize,
        id: u64,
        again: impl FnOnce(usize) -> Message,
    ) -> Option<usize> {
        if self.connections.get(slot).is_some_and(|it| it.client.id == id) {
            return Some(slot);
        }
        let (event_loop, slot) = self.moved_to(slot, id)?;
        self.shared.loops[event_loop].inbox.send(again(slot));
        None
    }

    /// Where a client is that was in this slot; `None` if it has left.
    pub(super) fn moved_to(&self, slot: usize, id: u64) -> Option<(usize, usize)> {
        let place = self.shared.clients.find(id)?;
        let now = (place.event_loop, place.slot);
        (now != (self.number, slot) || slot == IN_TRANSIT).then_some(now)
    }
}
