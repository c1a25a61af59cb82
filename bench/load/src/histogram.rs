//! Latencies in nanoseconds, with a precision of about 1.6 % (64 buckets per power of two).

const STEPS_LOG2: u32 = 6;
const STEPS: usize = 1 << STEPS_LOG2;
const BUCKETS: usize = (64 - STEPS_LOG2 as usize + 1) * STEPS;

/// Counts per bucket.
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: vec![0; BUCKETS], total: 0, max: 0 }
    }
}

fn bucket(value: u64) -> usize {
    let shift = (64 - STEPS_LOG2).saturating_sub(value.leading_zeros() + 1);
    (shift as usize) * STEPS + (value >> shift) as usize
}

fn upper_edge(bucket: usize) -> u64 {
    let shift = (bucket / STEPS).saturating_sub(1);
    let step = (bucket - shift * STEPS) as u64;
    ((step + 1) << shift) - 1
}

impl Histogram {
    /// Adds `count` observations of one value.
    pub fn add(&mut self, value: u64, count: u64) {
        self.counts[bucket(value)] += count;
        self.total += count;
        self.max = self.max.max(value);
    }

    /// Adds the observations of another histogram.
    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.total += other.total;
        self.max = self.max.max(other.max);
    }

    /// The value that this fraction of the observations does not exceed.
    pub fn percentile(&self, share: f64) -> u64 {
        let wanted = (share * self.total as f64).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= wanted && seen > 0 {
                return upper_edge(index).min(self.max);
            }
        }
        self.max
    }

    /// The largest value.
    pub fn max(&self) -> u64 {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_within_its_bucket() {
        for value in (0..5_000).chain((13..63).flat_map(|bits| {
            let power = 1_u64 << bits;
            [power - 1, power, power + 1, power + power / 3]
        })) {
            let index = bucket(value);
            assert!(upper_edge(index) >= value, "{value}");
            assert!(index == 0 || upper_edge(index - 1) < value, "{value}");
            assert!(upper_edge(index) - value <= value / 32, "{value}");
        }
    }

    #[test]
    fn percentiles_of_a_ramp() {
        let mut ramp = Histogram::default();
        for value in 1..=10_000 {
            ramp.add(value, 1);
        }
        assert!((4_900..=5_100).contains(&ramp.percentile(0.5)));
        assert!((9_800..=10_000).contains(&ramp.percentile(0.99)));
        assert_eq!(ramp.percentile(1.0), 10_000);
    }
}
