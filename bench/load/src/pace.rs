//! The moments at which the requests of an open loop are due.
//!
//! They are those of a Poisson process, which many clients that know nothing of each other cause:
//! the gaps are random, and their lengths are distributed exponentially. Several such processes
//! together, one per thread, are one again.

use crate::random::Random;
use std::time::{Duration, Instant};

/// The next moment, and what the following ones depend on.
#[derive(Debug)]
pub struct Pace {
    due: Instant,
    mean_gap_s: f64,
    random: Random,
}

impl Pace {
    /// The moments of `rate` requests per second, from a start at which none is due.
    pub fn new(start: Instant, rate: f64, seed: u64) -> Pace {
        let mut pace = Pace { due: start, mean_gap_s: 1.0 / rate, random: Random::new(seed) };
        pace.advance();
        pace
    }

    /// The moment at which the next request is due.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Moves on to the following request.
    pub fn advance(&mut self) {
        let gap_s = -self.mean_gap_s * (1.0 - self.random.share()).ln();
        self.due += Duration::from_secs_f64(gap_s);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The gaps of some requests, in seconds.
    fn gaps(rate: f64, seed: u64, count: usize) -> Vec<f64> {
        let mut before = Instant::now();
        let mut pace = Pace::new(before, rate, seed);
        let mut gap = || {
            let gap = pace.due() - before;
            before = pace.due();
            pace.advance();
            gap.as_secs_f64()
        };
        (0..count).map(|_| gap()).collect()
    }

    #[test]
    fn the_mean_gap_follows_from_the_rate() {
        for rate in [1.0, 2_000.0, 100_000.0] {
            let mean = gaps(rate, 1, 100_000).iter().sum::<f64>() / 100_000.0;
            assert!((mean * rate - 1.0).abs() < 0.02, "{rate}: {mean}");
        }
    }

    #[test]
    fn gaps_are_exponential() {
        let gaps = gaps(1.0, 1, 100_000);
        for limit in [0.1, 0.5, 1.0, 3.0_f64] {
            let share = gaps.iter().filter(|gap| **gap > limit).count() as f64 / 100_000.0;
            assert!((share - (-limit).exp()).abs() < 0.01, "{limit}: {share}");
        }
    }

    #[test]
    fn the_seed_determines_all_moments() {
        assert_eq!(gaps(2_000.0, 7, 100), gaps(2_000.0, 7, 100));
        assert_ne!(gaps(2_000.0, 7, 100), gaps(2_000.0, 8, 100));
    }
}
