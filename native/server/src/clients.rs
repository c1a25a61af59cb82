//! The clients of a server: their attributes, and the loop that serves each.

use crate::statistics::PROTOCOLS;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use todana_protocol::Client;

/// All clients of a server. Locked when a client connects or leaves and when the list is read,
/// never for a request.
#[derive(Debug, Default)]
pub(crate) struct Clients {
    by_id: Mutex<BTreeMap<u64, Place>>,
    last_id: AtomicU64,
    count: AtomicUsize,
    peak: AtomicUsize,
    total: AtomicU64,
    rejected: AtomicU64,
    by_protocol: [AtomicU64; PROTOCOLS],
}

/// The index of a client that is on its way to another loop.
pub(crate) const IN_TRANSIT: usize = usize::MAX;

/// A client and where it is served.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) client: Arc<Client>,
    pub(crate) event_loop: usize,
    pub(crate) index: usize,
}

impl Clients {
    /// All clients by their ids; none can connect or leave while this is held.
    pub(crate) fn by_id(&self) -> MutexGuard<'_, BTreeMap<u64, Place>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes one of `max` places. False, and counted as rejected, if none is free.
    pub(crate) fn admit(&self, max: usize) -> bool {
        let count = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        if count > max {
            self.dismiss();
            return false;
        }
        self.peak.fetch_max(count, Ordering::Relaxed);
        self.total.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Returns the place of a connection that was admitted but could not be served.
    pub(crate) fn dismiss(&self) {
        self.count.fetch_sub(1, Ordering::Relaxed);
        self.rejected.fetch_add(1, Ordering::Relaxed);
    }

    /// A number for a new client.
    pub(crate) fn next_id(&self) -> u64 {
        self.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Registers an admitted client.
    pub(crate) fn add(&self, place: Place) {
        self.by_protocol[crate::statistics::index(place.client.protocol)]
            .fetch_add(1, Ordering::Relaxed);
        self.by_id().insert(place.client.id, place);
    }

    /// Removes a client and frees its place.
    pub(crate) fn remove(&self, client: &Client) {
        if self.by_id().remove(&client.id).is_some() {
            self.count.fetch_sub(1, Ordering::Relaxed);
            self.by_protocol[crate::statistics::index(client.protocol)]
                .fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// All clients, ordered by id.
    pub(crate) fn list(&self) -> Vec<Arc<Client>> {
        self.by_id().values().map(|place| place.client.clone()).collect()
    }

    /// The first clients whose ids are above this one, in order.
    pub(crate) fn after(&self, id: u64, count: usize) -> Vec<Arc<Client>> {
        let by_id = self.by_id();
        let above = by_id.range((Bound::Excluded(id), Bound::Unbounded));
        above.take(count).map(|(_, place)| place.client.clone()).collect()
    }

    /// The client moves to this loop: `send` sends it there. A message to the client follows it, if
    /// its sender asks for the place afterwards.
    pub(crate) fn hand_over(&self, id: u64, event_loop: usize, send: impl FnOnce()) {
        let mut by_id = self.by_id();
        if let Some(place) = by_id.get_mut(&id) {
            (place.event_loop, place.index) = (event_loop, IN_TRANSIT);
        }
        send();
    }

    /// The client has arrived in its loop, where it has this index.
    pub(crate) fn arrive(&self, id: u64, index: usize) {
        if let Some(place) = self.by_id().get_mut(&id) {
            place.index = index;
        }
    }

    /// Where a client is served.
    pub(crate) fn find(&self, id: u64) -> Option<Place> {
        self.by_id().get(&id).cloned()
    }

    /// The current number of clients, and the highest so far.
    pub(crate) fn count(&self) -> (u64, u64) {
        let count = self.count.load(Ordering::Relaxed) as u64;
        (count, self.peak.load(Ordering::Relaxed) as u64)
    }

    /// The current number of clients with a request that is held back.
    pub(crate) fn held(&self) -> u64 {
        let by_id = self.by_id();
        by_id.values().filter(|place| place.client.is_held.load(Ordering::Relaxed)).count() as u64
    }

    /// The numbers of clients that were admitted and that were rejected.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.total.load(Ordering::Relaxed), self.rejected.load(Ordering::Relaxed))
    }

    /// The current number of clients of each protocol.
    pub(crate) fn by_protocol(&self) -> [u64; PROTOCOLS] {
        [0, 1, 2].map(|protocol: usize| self.by_protocol[protocol].load(Ordering::Relaxed))
    }
}

/// The description of a client when it connects.
pub(crate) fn arriving(id: u64, fd: i32, now_ms: u64, accepted: &crate::inbox::Accepted) -> Client {
    Client {
        id,
        protocol: accepted.service.protocol,
        redirects: accepted.service.redirects,
        read_level: accepted.service.read_level,
        address: accepted.address,
        local_address: accepted.local_address,
        fd,
        connected_at_ms: now_ms,
        active_at_ms: AtomicU64::new(now_ms),
        database: AtomicUsize::new(0),
        last_command: AtomicUsize::new(usize::MAX),
        resp_version: AtomicUsize::new(2),
        queued: AtomicUsize::new(usize::MAX),
        watched: AtomicUsize::new(0),
        input_bytes: AtomicUsize::new(0),
        output_bytes: AtomicUsize::new(0),
        held_bytes: AtomicU64::new(0),
        evicted_bytes: AtomicU64::new(0),
        traffic_bytes: [AtomicU64::new(0), AtomicU64::new(0)],
        no_evict: false.into(),
        is_held: false.into(),
        is_monitor: false.into(),
        tracking: Default::default(),
        redirect: 0.into(),
        subscriptions: Default::default(),
        killed: false.into(),
        names: Mutex::default(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::inbox::Accepted;
    use std::net::{TcpListener, TcpStream};
    use todana_protocol::ProtocolName;

    /// A client of no server.
    pub(crate) fn client(id: u64) -> Arc<Client> {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let accepted = Accepted {
            socket: TcpStream::connect(listener.local_addr().unwrap()).unwrap(),
            service: ProtocolName::Resp.into(),
            address: "127.0.0.1:1".parse().unwrap(),
            local_address: "127.0.0.1:2".parse().unwrap(),
        };
        Arc::new(arriving(id, 3, 0, &accepted))
    }

    #[test]
    fn places_are_counted_at_the_limit() {
        let clients = Clients::default();
        assert!(clients.admit(2) && clients.admit(2) && !clients.admit(2));
        assert_eq!((clients.count(), clients.totals()), ((2, 2), (2, 1)));
        let first = client(clients.next_id());
        clients.add(Place { client: first.clone(), event_loop: 1, index: 7 });
        assert_eq!(clients.by_protocol(), [1, 0, 0]);
        assert_eq!(clients.find(first.id).map(|place| place.index), Some(7));
        assert_eq!([0, first.id].map(|id| clients.after(id, 2).len()), [1, 0]);
        clients.remove(&first);
        clients.remove(&first);
        assert_eq!((clients.count(), clients.by_protocol()), ((1, 2), [0, 0, 0]));
        assert!(clients.admit(2));
    }
}
