//! Random numbers that are good enough to draw keys and moments.

/// xorshift64*.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

/// The bits of a number that `next` returns: as many as an `f64` holds.
const BITS: u32 = 53;

impl Random {
    /// A sequence that depends on the seed only.
    pub fn new(seed: u64) -> Random {
        Random { state: seed.max(1) }
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// A number from 0 up to, but not including, 1.
    pub fn share(&mut self) -> f64 {
        self.next() as f64 / (1_u64 << BITS) as f64
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> (u64::BITS - BITS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_spread_evenly() {
        let mut random = Random::new(1);
        let mut counts = [0; 10];
        for _ in 0..100_000 {
            counts[(random.share() * 10.0) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (9_500..=10_500).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_seed_of_zero_is_a_seed() {
        let mut random = Random::new(0);
        assert_ne!(random.below(u64::MAX), random.below(u64::MAX));
    }
}
