//! Closes the clients that hold most when all clients together hold too much.

use super::EventLoop;
use crate::door::Door;
use crate::inbox::Message;
use crate::node_log;
use std::sync::atomic::Ordering::Relaxed;

/// Minimum interval between log messages about this.
const COMPLAINT_NS: u64 = 1_000_000_000;

/// The state of the log messages about closed clients.
#[derive(Debug, Default)]
pub(super) struct EvictionLog {
    again_ns: u64,
    unreported: u64,
}

impl<D: Door> EventLoop<D> {
    /// Has the clients that hold most closed, each by its own loop.
    #[cold]
    pub(super) fn evict(&mut self) {
        for place in self.shared.choose_evicted() {
            let (index, id) = (place.index, place.client.id);
            if place.event_loop == self.number {
                self.close_evicted(index, id);
            } else {
                self.shared.loops[place.event_loop].inbox.send(Message::Evict { index, id });
            }
        }
    }

    /// Closes chosen clients whose message was lost, as in a panic: otherwise their memory would
    /// count as about to be freed for ever.
    pub(super) fn close_all_evicted(&mut self) {
        if self.shared.evicting_bytes.load(Relaxed) == 0 {
            return;
        }
        for index in self.connections.indices() {
            let Some(connection) = self.connections.get(index) else { continue };
            if connection.client.evicted_bytes.load(Relaxed) > 0 {
                let id = connection.client.id;
                self.close_evicted(index, id);
            }
        }
    }

    /// Closes a client that was chosen, if the index is still its own.
    pub(super) fn close_evicted(&mut self, index: usize, id: u64) {
        let found = self.connections.get_mut(index).filter(|it| it.client.id == id);
        let Some(connection) = found else { return };
        connection.say_evicted();
        let client = connection.client.clone();
        let held = client.evicted_bytes.load(Relaxed);
        self.flush_once(index);
        self.close(index);
        self.part().statistics.evicted_clients.add(1);
        let now_ns = self.now_ns();
        if now_ns < self.evictions.again_ns {
            self.evictions.unreported += 1;
            return;
        }
        self.evictions.again_ns = now_ns + COMPLAINT_NS;
        let others = match std::mem::take(&mut self.evictions.unreported) {
            0 => String::new(),
            count => format!(" ({count} more since the last such message)"),
        };
        node_log::warning!(
            "closed a {:?} client at {} that held {held} bytes, since all clients held \
             more than clients_memory_limit, {} bytes{others}",
            client.protocol,
            client.address,
            self.shared.clients_memory_limit_bytes()
        );
    }
}
