//! When to give free memory back to the system: the C library keeps what it is given back, and the
//! process may never need it again.

/// Less than this is not given back: it would be as much work as it is use.
const RELEASED_BYTES_MIN: u64 = 16 << 20;
/// At most one release in this many seconds.
const RELEASE_INTERVAL_S: u64 = 10;

/// What clients, or tables, held at most since memory was last given back.
#[derive(Debug, Default)]
pub struct Peak {
    most_bytes: u64,
    last_bytes: u64,
    /// Seconds until the next release may follow.
    rest_s: u64,
}

impl Peak {
    /// Nothing was held so far.
    #[must_use]
    pub const fn new() -> Peak {
        Peak { most_bytes: 0, last_bytes: 0, rest_s: 0 }
    }

    /// What they held at a moment between two seconds.
    pub fn note(&mut self, bytes: u64) {
        self.most_bytes = self.most_bytes.max(bytes);
    }

    /// Whether there is nothing to give back as long as they hold no more than now.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.most_bytes - self.last_bytes < RELEASED_BYTES_MIN
    }

    /// Called each second with what they hold now, and whether more is still being freed. Returns
    /// whether to give memory back: they hold less than half of the most, and have freed all that
    /// they are about to.
    #[must_use]
    pub fn has_passed(&mut self, bytes: u64, is_freeing: bool) -> bool {
        let is_falling = is_freeing || bytes < self.last_bytes;
        self.last_bytes = bytes;
        self.most_bytes = self.most_bytes.max(bytes);
        self.rest_s = self.rest_s.saturating_sub(1);
        let has_passed = self.most_bytes - bytes >= RELEASED_BYTES_MIN
            && bytes <= self.most_bytes / 2
            && !is_falling
            && self.rest_s == 0;
        if has_passed {
            self.rest_s = RELEASE_INTERVAL_S;
        }
        has_passed
    }

    /// Memory is being given back. Until then, the peak is remembered.
    pub fn forget(&mut self) {
        self.most_bytes = self.last_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_given_back_once_when_a_peak_has_passed() {
        const MIB: u64 = 1 << 20;
        let played = |seconds: &[(u64, bool)]| -> Vec<usize> {
            let mut peak = Peak::default();
            let passed = |(_, (mib, is_freeing)): &(usize, &(u64, bool))| {
                let has_passed = peak.has_passed(mib * MIB, *is_freeing);
                if has_passed {
                    peak.forget();
                }
                has_passed
            };
            seconds.iter().enumerate().filter(passed).map(|(at, _)| at).collect()
        };
        let at = |mib| (mib, false);
        assert_eq!(played(&[at(0), at(16), at(0), at(0), at(0)]), [3], "once");
        assert_eq!(played(&[at(15), at(0), at(0), at(0)]), [0usize; 0], "too little");
        assert_eq!(played(&[at(100), at(51), at(51), at(50), at(50)]), [4], "less than half");
        assert_eq!(played(&[at(100), at(40), at(30), at(30)]), [3], "when it falls no longer");
        let left = [at(100), at(0), (0, true), (0, true), at(0)];
        assert_eq!(played(&left), [4], "when all is freed");
        let mut seconds = vec![at(100), at(0), at(0), at(100), at(0)];
        seconds.extend([at(0); 20]);
        assert_eq!(played(&seconds), [2, 12], "not more often");
        let mut peak = Peak::default();
        peak.note(100 * MIB);
        assert!(peak.has_passed(0, false), "a peak between two seconds");
        let again: Vec<_> = (1..=20).filter(|_| peak.has_passed(0, false)).collect();
        assert_eq!(again, [10, 20], "nothing was given back");
    }
}
