//! Whether a connection can move to another loop.

use super::{Asleep, Connection};
use crate::door::Door;
use crate::poller::Interest;

/// Whether a connection can move to another loop now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mobility {
    /// It is between two requests, and its loop keeps nothing for it.
    Free,
    /// It has a request in progress, or a reply on its way.
    Passing,
    /// Its client listens, waits, or has begun a transaction: others know it by its place, or that
    /// lasts for as long as the client likes.
    Bound,
}

impl<D: Door> Connection<D> {
    /// Whether it can move.
    ///
    /// A connection that holds bytes has a part of a request, of a reply or of a transaction. The
    /// rest of the conditions are what a loop, the log or a registry knows of it by its slot.
    pub(crate) fn mobility(&self) -> Mobility {
        let waits = self.wakes_at_ns.is_some() && self.asleep != Asleep::ForLog;
        if waits || !self.listening.is_silent() || self.session.held_bytes() > 0 {
            return Mobility::Bound;
        }
        let is_between = self.held_bytes == 0
            && self.input.is_empty()
            && self.waiting() == 0
            && self.pushes.len() == 0
            && self.interest == Interest::READ
            && self.wakes_at_ns.is_none()
            && self.wait.is_none()
            && self.commit.is_idle()
            && !self.session.is_mid_reply()
            && self.wanted == 0
            && !(self.queued || self.is_paused || self.is_touched || self.pending)
            && !(self.ended || self.closing);
        if is_between { Mobility::Free } else { Mobility::Passing }
    }

    /// The connection is served by another loop from now on.
    pub(crate) fn arrive(&mut self) {
        self.commit.forget_ticket();
        self.activity.arrive();
    }
}
