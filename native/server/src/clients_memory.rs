//! Limits the memory that all clients hold together, and chooses the clients to close when it is
//! exceeded.
//!
//! Each loop keeps a gauge of what its clients hold ([`LoopStatistics::held_bytes`]): their buffers
//! and the state of their sessions between turns. After a turn that made a connection hold more,
//! its loop sums the gauges. If the sum exceeds the limit, the clients that hold most are chosen,
//! on whichever loop, until what the others hold fits. So the sum exceeds the limit by at most what
//! one turn on each loop can add.
//!
//! A chosen client is no longer counted ([`Shared::evicting_bytes`]): its loop may take a moment
//! to close it, and no other client should be chosen in its place meanwhile. Until then, clients
//! that hold memory receive no more input, or the sum would continue to grow.
//!
//! Clients that sent `CLIENT NO-EVICT ON` are chosen last: they are counted, and chosen only if no
//! other client holds anything. Redis never closes them, and so has no bound.
//!
//! When clients hold much less than before, free memory is given back to the system
//! ([`Peak`](todana_table::Peak)).
//!
//! [`LoopStatistics::held_bytes`]: crate::statistics::LoopStatistics

use crate::clients::Place;
use crate::shared::Shared;
use std::sync::atomic::Ordering::Relaxed;
use todana_protocol::Client;

/// By default clients may hold one part in this many of the machine's memory.
const SHARE: u64 = 8;
/// The minimum of the default.
const LEAST_BYTES: u64 = 256 << 20;
/// The default if the machine's memory is not known.
const UNKNOWN_BYTES: u64 = 1 << 30;

/// The default limit on a machine with this much memory.
pub(crate) fn default_limit_bytes(machine_bytes: Option<u64>) -> u64 {
    machine_bytes.map_or(UNKNOWN_BYTES, |bytes| bytes / SHARE).max(LEAST_BYTES)
}

impl Shared {
    /// Bytes that all clients hold.
    pub(crate) fn clients_bytes(&self) -> u64 {
        self.loops.iter().map(|part| part.statistics.held_bytes.get()).sum()
    }

    /// Whether clients hold more than the limit, without those that are about to be closed.
    #[inline]
    pub(crate) fn clients_hold_too_much(&self) -> bool {
        self.clients_excess_bytes() > 0
    }

    /// The limit; 0 is none.
    #[inline]
    pub(crate) fn clients_memory_limit_bytes(&self) -> u64 {
        self.config.clients_memory_limit.get().unwrap_or(0)
    }

    fn clients_excess_bytes(&self) -> u64 {
        match self.clients_memory_limit_bytes() {
            0 => 0,
            limit => {
                let evicting = self.evicting_bytes.load(Relaxed);
                self.clients_bytes().saturating_sub(evicting).saturating_sub(limit)
            }
        }
    }

    /// Chooses the clients to close. The caller must have each of them closed.
    #[cold]
    pub(crate) fn choose_evicted(&self) -> Vec<Place> {
        // One loop chooses at a time, and no client leaves meanwhile: a client marked here is still
        // to be closed.
        let by_id = self.clients.by_id();
        let mut excess = self.clients_excess_bytes();
        if excess == 0 {
            return Vec::new();
        }
        let held = |place: &Place| match place.client.evicted_bytes.load(Relaxed) {
            0 => place.client.held_bytes.load(Relaxed),
            _ => 0,
        };
        let holders = by_id.values().map(|place| (held(place), place));
        let mut holders: Vec<(u64, &Place)> = holders.filter(|(held, _)| *held > 0).collect();
        holders.sort_unstable_by_key(|(held, place)| {
            (!place.client.no_evict.load(Relaxed), *held, place.client.id)
        });
        let mut chosen = Vec::new();
        while excess > 0
            && let Some((held, place)) = holders.pop()
        {
            place.client.evicted_bytes.store(held, Relaxed);
            self.evicting_bytes.fetch_add(held, Relaxed);
            excess = excess.saturating_sub(held);
            chosen.push(place.clone());
        }
        chosen
    }

    /// Subtracts the memory of a client that has left.
    pub(crate) fn forget_evicted(&self, client: &Client) {
        let held = client.evicted_bytes.swap(0, Relaxed);
        if held > 0 {
            self.evicting_bytes.fetch_sub(held, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_a_share_of_the_machine() {
        assert_eq!(default_limit_bytes(Some(64 << 30)), 8 << 30);
        assert_eq!(default_limit_bytes(Some(1 << 30)), 256 << 20);
        assert_eq!(default_limit_bytes(None), 1 << 30);
    }
}
