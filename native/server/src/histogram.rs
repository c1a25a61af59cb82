//! Latencies in logarithmic buckets, with eight buckets per power of two: within 12.5 percent of
//! the true value.
//!
//! The unit is 1/1,024 microsecond, so that powers of two of microseconds fall on bucket bounds and
//! Redis' histogram can be reported exactly. One thread writes with plain loads and stores; others
//! read at any time.

use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread writes and all threads may read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds. Only the owning thread may call this, since it is not atomic.
    #[inline]
    pub(crate) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
    }
    /// The number now.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
    /// Replaces the number. Only for the owning thread.
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

/// Bits of a value that select the bucket within a power of two.
const FINE_BITS: u32 = 3;
const FINE: usize = 1 << FINE_BITS;
/// Values of 2^36 units (67 seconds) and more share the last bucket.
const POWERS: usize = 36;
/// Number of buckets.
pub(crate) const BUCKETS: usize = (POWERS - FINE_BITS as usize + 1) * FINE;

/// A histogram of nanoseconds.
#[derive(Debug)]
pub(crate) struct Histogram([Counter; BUCKETS]);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram(std::array::from_fn(|_| Counter::default()))
    }
}

impl Histogram {
    /// Counts one value.
    #[inline]
    pub(crate) fn record(&self, nanos: u64) {
        self.0[bucket(nanos)].add(1);
    }
    /// The present buckets.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(Counter::get)
    }
}

#[inline]
fn bucket(nanos: u64) -> usize {
    let units = nanos.min(1 << 37) * 128 / 125;
    if units < FINE as u64 {
        return units as usize;
    }
    let power = units.ilog2();
    let fine = (units >> (power - FINE_BITS)) as usize & (FINE - 1);
    (((power - FINE_BITS + 1) as usize) * FINE + fine).min(BUCKETS - 1)
}

/// The lower bound of a bucket in units.
fn lower_bound(bucket: usize) -> u64 {
    if bucket < FINE {
        return bucket as u64;
    }
    let power = (bucket / FINE - 1) as u32;
    ((FINE + bucket % FINE) as u64) << power
}

/// The value in microseconds below which this quantile of the counts lies: the middle of its
/// bucket. 0 if nothing was counted.
pub(crate) fn quantile_us(buckets: &[u64], quantile: f64) -> f64 {
    let count: u64 = buckets.iter().sum();
    let rank = (count as f64 * quantile).ceil().max(1.0) as u64;
    let mut seen = 0;
    for (index, calls) in buckets.iter().enumerate() {
        seen += calls;
        if *calls > 0 && seen >= rank {
            return (lower_bound(index) + lower_bound(index + 1)) as f64 / 2.0 / 1_024.0;
        }
    }
    0.0
}

/// Counts per power of two of microseconds: bucket `i` holds those up to `2^i` microseconds.
/// Trailing empty buckets are omitted.
pub(crate) fn powers_us(buckets: &[u64]) -> Vec<u64> {
    let mut powers = Vec::new();
    for (index, calls) in buckets.iter().enumerate().filter(|(_, calls)| **calls > 0) {
        // A bucket lies entirely within a power of two: that of its lower bound. 2^10 units are one
        // microsecond.
        let power = lower_bound(index).checked_ilog2().map_or(0, |power| power.saturating_sub(9));
        if powers.len() <= power as usize {
            powers.resize(power as usize + 1, 0);
        }
        powers[power as usize] += calls;
    }
    powers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(values: impl IntoIterator<Item = u64>) -> Vec<u64> {
        let histogram = Histogram::default();
        values.into_iter().for_each(|nanos| histogram.record(nanos));
        histogram.buckets().collect()
    }

    #[test]
    fn bounds_increase_strictly_and_match_their_buckets() {
        for index in 0..BUCKETS - 1 {
            assert!(lower_bound(index) < lower_bound(index + 1));
            // Rounding between nanoseconds and units may only move a bound by one.
            let nanos = (lower_bound(index) * 125).div_ceil(128);
            assert_eq!(bucket(nanos), index, "bucket {index} from {nanos} ns");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_an_eighth() {
        let buckets = filled((1..=100_000).map(|i| i * 10));
        for (quantile, truth_us) in [(0.5, 500.0), (0.99, 990.0), (0.999, 999.0)] {
            let found = quantile_us(&buckets, quantile);
            assert!((found - truth_us).abs() < truth_us / 8.0, "{quantile}: {found}");
        }
        assert_eq!(quantile_us(&filled([]), 0.5), 0.0);
    }

    #[test]
    fn powers_of_two_count_the_values_below_them() {
        assert_eq!(powers_us(&filled([0, 500, 900, 1_100, 3_900, 4_100])), [3, 1, 1, 1]);
        assert!(powers_us(&filled([])).is_empty());
        assert_eq!(powers_us(&filled((0..1_000).map(|i| i * i))).iter().sum::<u64>(), 1_000);
    }
}
