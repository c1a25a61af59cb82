//! Whether a connection can move to another loop.

use super::Connection;
use crate::door::Door;
use crate::poller::Interest;
use crate::questions::Asking;

impl<D: Door> Connection<D> {
    /// Whether it can move to another loop now: it is between two requests, its loop keeps nothing
    /// for it, and nobody knows it by its place.
    ///
    /// A connection that holds bytes has a part of a request, of a reply or of a transaction. The
    /// rest of the conditions are what a loop, the log or a registry knows of it by its index.
    pub(crate) fn can_move(&self) -> bool {
        self.held_bytes == 0
            && self.session.held_bytes() == 0
            && self.input.is_empty()
            && self.waiting() == 0
            && self.pushes.len() == 0
            && self.listening.is_silent()
            && self.wakes_at_ns.is_none()
            && self.wait.is_none()
            && self.asking == Asking::Nothing
            && self.commit.can_move()
            && !self.session.is_mid_reply()
            && self.wanted == 0
            && !(self.queued || self.is_paused || self.is_touched || self.pending)
            && !(self.ended || self.closing)
    }

    /// The connection is served by another loop from now on.
    pub(crate) fn arrive(&mut self) {
        self.commit.forget_ticket();
        self.activity.arrive();
        // It is registered there like a new one.
        self.interest = Interest::READ;
    }
}
