//! Accepts connections, and gives each to a loop.

use super::{EventLoop, FIRST_CONNECTION, FIRST_LISTENER, NEVER};
use crate::balance::BUSY;
use crate::clients::{self, Place};
use crate::connection::{Connection, NO_SIGNAL, shut_down};
use crate::door::{self, Door, Refusal};
use crate::inbox::{Accepted, Message};
use crate::listener;
use crate::node_log;
use crate::poller::Interest;
use rustix::net::SendFlags;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Maximum number of connections accepted from one listener before other sockets are served.
const ACCEPTS_MAX: usize = 64;
/// How long accepting pauses when the system has no descriptors left.
const REST_NS: u64 = 100_000_000;
/// Minimum interval between log messages about this.
const COMPLAINT_NS: u64 = 60_000_000_000;

impl<D: Door> EventLoop<D> {
    pub(super) fn accept(&mut self, index: usize) {
        for _ in 0..ACCEPTS_MAX {
            let Some(listener) = self.listeners.get(index) else { return };
            let (socket, address) = match listener.socket.accept() {
                Ok(accepted) => accepted,
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return,
                    io::ErrorKind::Interrupted | io::ErrorKind::ConnectionAborted => continue,
                    _ => return self.rest_from_accepting(&error),
                },
            };
            let (service, local_address) = (listener.service, listener.local_address(&socket));
            let accepted = Accepted { socket, service, address, local_address };
            if !self.shared.clients.admit(self.shared.config.connections_max.get()) {
                self.refuse(accepted);
                continue;
            }
            self.shared.begin_seconds();
            let number = self.loop_for_new();
            let part = &self.shared.loops[number];
            part.connections.fetch_add(1, Relaxed);
            if number == self.number {
                self.serve(accepted);
            } else {
                part.inbox.send(Message::Serve(accepted));
            }
        }
    }

    /// The loop for a new connection: see [`crate::balance`].
    fn loop_for_new(&self) -> usize {
        let parts = &self.shared.loops;
        let is_busy = |number: &usize| parts[*number].load.load(Relaxed) >= BUSY;
        if self.shared.balance.is_by_load && !(0..parts.len()).any(|number| is_busy(&number)) {
            return 0;
        }
        let order = |number: &usize| (is_busy(number), parts[*number].connections.load(Relaxed));
        (0..parts.len()).min_by_key(order).expect("a server has a loop")
    }

    /// The system has no descriptors or memory for another connection. Retrying at once would only
    /// waste CPU time.
    fn rest_from_accepting(&mut self, error: &io::Error) {
        let now_ns = self.now_ns();
        if now_ns >= self.complain_again_ns {
            self.complain_again_ns = now_ns + COMPLAINT_NS;
            node_log::warning!("cannot accept connections: {}", listener::in_words(error));
        }
        self.watch_listeners(Interest::NONE);
        self.accept_again_ns = now_ns + REST_NS;
    }

    pub(super) fn watch_listeners(&mut self, interest: Interest) {
        for (index, listener) in self.listeners.iter().enumerate() {
            let _ = self.poller.modify(listener.as_fd(), FIRST_LISTENER + index, interest);
        }
    }

    /// Sends a client the message that there is no place for it.
    fn refuse(&mut self, accepted: Accepted) {
        let words = door::words(accepted.service.protocol, Refusal::TooManyClients);
        let flags = NO_SIGNAL | SendFlags::DONTWAIT;
        let _ = rustix::net::send(&accepted.socket, words, flags);
        shut_down(&accepted.socket, &mut self.input);
    }

    /// Starts to serve an admitted connection.
    pub(super) fn serve(&mut self, accepted: Accepted) {
        let index = self.connections.vacant();
        let fd = accepted.socket.as_fd();
        let stopping = self.stop_at_ns != NEVER;
        let watched = !stopping
            && listener::prepare(&accepted.socket, self.shared.config.tcp_keepalive_s)
                .and_then(|()| self.poller.register(fd, FIRST_CONNECTION + index, Interest::READ))
                .is_ok();
        if !watched {
            self.shared.clients.dismiss();
            self.part().connections.fetch_sub(1, Relaxed);
            if !stopping {
                self.refuse(accepted);
            }
            return;
        }
        let now_ms = self.clock.wall_ms();
        let id = self.shared.clients.next_id();
        let client = Arc::new(clients::arriving(id, fd.as_raw_fd(), now_ms, &accepted));
        let authenticated = !self.shared.secret.is_set();
        let connection = Connection::new(accepted.socket, client.clone(), authenticated);
        self.connections.insert(Box::new(connection));
        self.shared.clients.add(Place { client, event_loop: self.number, index });
    }
}
