//! Counts wrong passwords by client address, so that guessing is slow.
//!
//! The first few failures of an address cost nothing, because people mistype. From then on the
//! reply to each further password from that address, right or wrong, is delayed; the delay doubles
//! with each failure up to [`DELAY_MS_MAX`]. The connection sleeps meanwhile; no thread waits and
//! no other client is affected. Connections that have authenticated are not slowed down, and a
//! right password is always accepted in the end: nobody can lock out the other users of a shared
//! address.
//!
//! Replies to right passwords are delayed too. Otherwise a short silence would reveal that a
//! password is wrong, and the next connection could try another.
//!
//! All connections of an address share its count, and so does a whole IPv6 /64 network, because
//! such a network is assigned to a single machine. One failure is forgiven every [`FORGIVEN_MS`].

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Failures that cost nothing.
const FREE_FAILURES: u32 = 3;
/// The delay after the first failure that is not free.
const DELAY_MS: u64 = 100;
/// The longest delay.
const DELAY_MS_MAX: u64 = 1_000;
/// One failure is forgiven after this time.
const FORGIVEN_MS: u64 = 10_000;
/// Failures are counted up to this number, so all are forgiven in less than three minutes.
const FAILURES_MAX: u32 = 16;
/// Maximum number of addresses to remember. Beyond it, the one that failed longest ago is
/// forgotten.
const ADDRESSES_MAX: usize = 4_096;

/// The remembered addresses.
#[derive(Debug, Default)]
pub(crate) struct Guesses {
    by_address: Mutex<HashMap<u64, Failures>>,
    /// The address of the last failure.
    last: Mutex<Option<IpAddr>>,
    /// Number of remembered addresses. Nearly always 0, and then nothing is locked.
    count: AtomicUsize,
}

/// Failures of an address.
#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    /// The time from which failures are forgiven.
    since_ms: u64,
}

impl Failures {
    /// The failures that remain at this time.
    fn by(self, now_ms: u64) -> Failures {
        let forgiven = now_ms.saturating_sub(self.since_ms) / FORGIVEN_MS;
        let count = u64::from(self.count).saturating_sub(forgiven);
        Failures { count: count as u32, since_ms: self.since_ms + forgiven * FORGIVEN_MS }
    }
}

impl Guesses {
    fn by_address(&self) -> MutexGuard<'_, HashMap<u64, Failures>> {
        self.by_address.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long to delay the reply to a password from this address.
    pub(crate) fn delay_ms(&self, address: IpAddr, now_ms: u64) -> u64 {
        if self.count.load(Relaxed) == 0 {
            return 0;
        }
        let found = self.by_address().get(&network(address)).copied();
        match found.map_or(0, |failures| failures.by(now_ms).count).checked_sub(FREE_FAILURES) {
            None | Some(0) => 0,
            Some(costly) => (DELAY_MS << (costly - 1)).min(DELAY_MS_MAX),
        }
    }

    /// The address from which the last wrong password came.
    pub(crate) fn last_failure(&self) -> Option<IpAddr> {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a wrong password.
    pub(crate) fn note_failure(&self, address: IpAddr, now_ms: u64) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(address);
        let mut by_address = self.by_address();
        let network = network(address);
        if !by_address.contains_key(&network) && by_address.len() >= ADDRESSES_MAX {
            by_address.retain(|_, failures| failures.by(now_ms).count > 0);
            let oldest = by_address.iter().min_by_key(|(_, failures)| failures.since_ms);
            if let Some(oldest) = oldest.map(|(network, _)| *network)
                && by_address.len() >= ADDRESSES_MAX
            {
                by_address.remove(&oldest);
            }
        }
        let failures = by_address.entry(network).or_insert(Failures { count: 0, since_ms: now_ms });
        *failures = failures.by(now_ms);
        if failures.count == 0 {
            failures.since_ms = now_ms;
        }
        failures.count = (failures.count + 1).min(FAILURES_MAX);
        self.count.store(by_address.len(), Relaxed);
    }
}

/// The network that counts as one client: an IPv4 address, or the first half of an IPv6 address.
fn network(address: IpAddr) -> u64 {
    let of_ipv4 = |ip: Ipv4Addr| u64::from(u32::from(ip));
    match address {
        IpAddr::V4(ip) => of_ipv4(ip),
        // The first half of an IPv6 address in use is greater than any IPv4 address.
        IpAddr::V6(ip) => match ip.to_ipv4_mapped() {
            Some(ip) => of_ipv4(ip),
            None => (u128::from(ip) >> 64) as u64,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn each_failure_after_the_first_few_doubles_the_delay() {
        let guesses = Guesses::default();
        let delays: Vec<u64> = (0..12)
            .map(|_| {
                let delay_ms = guesses.delay_ms(ip("10.0.0.1"), 1_000);
                guesses.note_failure(ip("10.0.0.1"), 1_000);
                delay_ms
            })
            .collect();
        assert_eq!(delays, [0, 0, 0, 0, 100, 200, 400, 800, 1_000, 1_000, 1_000, 1_000]);
        assert_eq!(guesses.delay_ms(ip("10.0.0.2"), 1_000), 0);
    }

    #[test]
    fn an_hour_of_guessing_is_limited_to_some_thousand_guesses_per_connection() {
        let (guesses, mut now_ms, mut tried) = (Guesses::default(), 0, 0);
        while now_ms < 3_600_000 {
            now_ms += guesses.delay_ms(ip("10.0.0.1"), now_ms);
            guesses.note_failure(ip("10.0.0.1"), now_ms);
            tried += 1;
        }
        assert!((3_500..3_700).contains(&tried), "{tried}");
    }

    #[test]
    fn failures_are_forgiven_with_time() {
        let guesses = Guesses::default();
        let address = ip("10.0.0.1");
        (0..100).for_each(|_| guesses.note_failure(address, 0));
        let delay_ms = |after_s: u64| guesses.delay_ms(address, after_s * 1_000);
        assert_eq!(
            [0, 70, 80, 90, 120, 130, 160].map(delay_ms),
            [1_000, 1_000, 1_000, 800, 100, 0, 0]
        );
        // The clock may be set back.
        guesses.note_failure(address, 1_000);
        assert_eq!(guesses.delay_ms(address, 0), 1_000);
    }

    #[test]
    fn addresses_are_remembered_up_to_a_limit() {
        let guesses = Guesses::default();
        let address = |number: u32| IpAddr::V4(Ipv4Addr::from(number));
        for number in 0..10_000 {
            (0..5).for_each(|_| guesses.note_failure(address(number), u64::from(number)));
            assert!(guesses.count.load(Relaxed) <= ADDRESSES_MAX);
        }
        assert_eq!(guesses.delay_ms(address(0), 10_000), 0);
        assert_eq!(guesses.delay_ms(address(9_999), 10_000), 200);
        // Forgiven addresses make room first.
        (0..5).for_each(|_| guesses.note_failure(address(1 << 20), 100_000));
        assert_eq!(guesses.count.load(Relaxed), 1);
    }

    #[test]
    fn an_ipv6_network_counts_as_one_client() {
        let guesses = Guesses::default();
        (0..5).for_each(|_| guesses.note_failure(ip("2001:db8::1"), 0));
        assert_eq!(guesses.delay_ms(ip("2001:db8::ffff"), 0), 200);
        assert_eq!(guesses.delay_ms(ip("2001:db8:0:1::1"), 0), 0);
        (0..5).for_each(|_| guesses.note_failure(ip("::ffff:10.0.0.1"), 0));
        assert_eq!(guesses.delay_ms(ip("10.0.0.1"), 0), 200);
    }
}
