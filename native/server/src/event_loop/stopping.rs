//! Ends a loop.

use super::{EventLoop, FIRST_LISTENER, NEVER};
use crate::door::Door;
use std::os::fd::AsFd;

/// How long clients have to take their last replies when the server stops.
const GRACE_NS: u64 = 250_000_000;

impl<D: Door> EventLoop<D> {
    pub(super) fn begin_to_stop(&mut self, now_ns: u64) {
        if self.stop_at_ns != NEVER {
            return;
        }
        self.stop_at_ns = now_ns + GRACE_NS;
        self.accept_again_ns = NEVER;
        for (index, listener) in self.listeners.drain(..).enumerate() {
            let _ = self.poller.deregister(listener.as_fd(), FIRST_LISTENER + index);
        }
        for index in self.connections.indices() {
            let committing = self.connections.get_mut(index).filter(|it| it.is_committing());
            if let Some(connection) = committing {
                connection.close_after_commit();
                continue;
            }
            if self.flush_once(index) {
                self.close(index);
            } else {
                self.watch(index, false);
            }
        }
    }

    /// Whether the loop was asked to stop and has nothing left to wait for.
    pub(super) fn is_over(&self) -> bool {
        let stopping = self.stop_at_ns != NEVER;
        stopping && (self.connections.len() == 0 || self.now_ns() >= self.stop_at_ns)
    }

    /// Closes the remaining connections, including those on their way to this loop.
    pub(super) fn end(mut self) {
        for index in self.connections.indices() {
            self.close(index);
        }
        self.shared.give_work_place(self.shared.work_place.leave(self.number));
        let now_ns = self.now_ns();
        self.take_messages();
        while !self.messages.is_empty() {
            self.carry_out_messages(now_ns);
        }
    }
}
