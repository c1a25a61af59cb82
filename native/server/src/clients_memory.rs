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
//! When clients hold much less than before, free memory is given back to the system ([`Peak`]).
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

/// Less than this is not given back: it would be as much work as it is use.
const RELEASED_BYTES_MIN: u64 = 16 << 20;
/// At most one release in this many seconds.
const RELEASE_INTERVAL_S: u64 = 10;
/// The reciprocal of the part of the time that releases may take.
pub(crate) const RELEASE_SHARE: u32 = 1_000;

/// What clients held at most since memory was last given back. The C library keeps what they give
/// back, and may never need it again.
#[derive(Debug, Default)]
pub(crate) struct Peak {
    most_bytes: u64,
    last_bytes: u64,
    /// Seconds until the next release may follow.
    rest_s: u64,
}

impl Peak {
    /// What clients held at a moment between two seconds.
    pub(crate) fn note(&mut self, bytes: u64) {
        self.most_bytes = self.most_bytes.max(bytes);
    }

    /// Whether there is nothing to give back as long as clients hold no more than now.
    pub(crate) fn is_settled(&self) -> bool {
        self.most_bytes - self.last_bytes < RELEASED_BYTES_MIN
    }

    /// Called each second with what clients hold now, and whether any subscriptions of clients that
    /// have left are still being removed. Returns whether to give memory back: clients hold less
    /// than half of the most, and have given back all that they are about to.
    pub(crate) fn has_passed(&mut self, bytes: u64, are_leaving: bool) -> bool {
        let is_falling = are_leaving || bytes < self.last_bytes;
        self.last_bytes = bytes;
        self.most_bytes = self.most_bytes.max(bytes);
        self.rest_s = self.rest_s.saturating_sub(1);
        let has_passed = self.most_bytes - bytes >= RELEASED_BYTES_MIN
            && bytes <= self.most_bytes / 2
            && !is_falling
            && self.rest_s == 0;
        if has_passed {
            (self.most_bytes, self.rest_s) = (bytes, RELEASE_INTERVAL_S);
        }
        has_passed
    }
}

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

    #[test]
    fn memory_is_given_back_once_when_a_peak_has_passed() {
        const MIB: u64 = 1 << 20;
        let played = |seconds: &[(u64, bool)]| -> Vec<usize> {
            let mut peak = Peak::default();
            let passed = |(_, (mib, are_leaving)): &(usize, &(u64, bool))| {
                peak.has_passed(mib * MIB, *are_leaving)
            };
            seconds.iter().enumerate().filter(passed).map(|(at, _)| at).collect()
        };
        let at = |mib| (mib, false);
        assert_eq!(played(&[at(0), at(16), at(0), at(0), at(0)]), [3], "once");
        assert_eq!(played(&[at(15), at(0), at(0), at(0)]), [0usize; 0], "too little");
        assert_eq!(played(&[at(100), at(51), at(51), at(50), at(50)]), [4], "less than half");
        assert_eq!(played(&[at(100), at(40), at(30), at(30)]), [3], "when it falls no longer");
        let left = [at(100), at(0), (0, true), (0, true), at(0)];
        assert_eq!(played(&left), [4], "when all subscriptions are removed");
        let mut seconds = vec![at(100), at(0), at(0), at(100), at(0)];
        seconds.extend([at(0); 20]);
        assert_eq!(played(&seconds), [2, 12], "not more often");
        let mut peak = Peak::default();
        peak.note(100 * MIB);
        assert!(peak.has_passed(0, false), "a peak between two seconds");
    }
}
