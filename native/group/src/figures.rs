//! What the group has counted.

use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// Figures of a group, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes that wait in the queue.
    pub queue_bytes: usize,
    /// Batches that were sealed and not applied yet.
    pub in_flight: usize,
    /// The index of the last entry of the log that was applied.
    pub applied_index: u64,
    /// The time of the log, in milliseconds since the Unix epoch.
    pub log_time_ms: u64,
    /// Batches applied.
    pub batches: u64,
    /// Records applied.
    pub records: u64,
    /// Bytes of the batches applied since the start, or since the group was emptied or restored,
    /// with [`ENTRY_BYTES`](crate::ENTRY_BYTES) for each.
    pub logged_bytes: u64,
    /// The newest format of the batches applied, since the start, or since the group was emptied or
    /// restored; 0 before the first one.
    pub format_used: u8,
    /// The newest format of batches that may be written.
    pub format_max: u8,
    /// The bytes of [`Self::logged_bytes`], since the last complete snapshot began.
    pub log_bytes: u64,
    /// Batches skipped, because they had been applied before.
    pub duplicates: u64,
    /// Records or batches whose bytes were broken.
    pub malformed: u64,
    /// Records whose execution failed because of a bug.
    pub panics: u64,
    /// Complete snapshots written since the start.
    pub snapshots: u64,
    /// Whether a snapshot is being written.
    pub snapshot_is_running: bool,
    /// Time from the hand-over of a submission until it was applied: the median of all batches.
    pub commit_p50_us: u64,
    /// The same: 99 of 100 batches took at most this time.
    pub commit_p99_us: u64,
    /// Bytes of the snapshot that is being loaded, and how many of them are.
    pub recovery: Option<Progress>,
}

/// How far a long operation has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Bytes done.
    pub done: u64,
    /// Bytes in all.
    pub total: u64,
}

/// The counters behind [`Figures`].
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) applied_index: AtomicU64,
    /// The last entry of which a client here has got an answer before all of it was applied.
    pub(crate) answered_index: AtomicU64,
    pub(crate) log_time_ms: AtomicU64,
    pub(crate) batches: AtomicU64,
    pub(crate) records: AtomicU64,
    pub(crate) logged_bytes: AtomicU64,
    pub(crate) format_used: AtomicU8,
    pub(crate) duplicates: AtomicU64,
    pub(crate) malformed: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) commits: Histogram,
    pub(crate) loaded: AtomicU64,
    pub(crate) to_load: AtomicU64,
}

impl Counters {
    /// Without what the queue, the flights and the trigger know.
    pub(crate) fn figures(&self) -> Figures {
        let logged_bytes = self.logged_bytes.load(Relaxed);
        let total = self.to_load.load(Relaxed);
        let recovery = Progress { done: self.loaded.load(Relaxed), total };
        Figures {
            queue_bytes: 0,
            in_flight: 0,
            applied_index: self.applied_index.load(Relaxed),
            log_time_ms: self.log_time_ms.load(Relaxed),
            batches: self.batches.load(Relaxed),
            records: self.records.load(Relaxed),
            logged_bytes,
            format_used: self.format_used.load(Relaxed),
            format_max: 0,
            log_bytes: 0,
            duplicates: self.duplicates.load(Relaxed),
            malformed: self.malformed.load(Relaxed),
            panics: self.panics.load(Relaxed),
            snapshots: 0,
            snapshot_is_running: false,
            commit_p50_us: self.commits.quantile(50),
            commit_p99_us: self.commits.quantile(99),
            recovery: (total > 0).then_some(recovery),
        }
    }
}

/// Adds one to a counter that only one thread changes at a time.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Buckets for each doubling of the time.
const STEPS: usize = 4;
const BUCKETS: usize = 40 * STEPS;

/// Times, in buckets whose bounds grow by a quarter of a power of two.
pub(crate) struct Histogram([AtomicUsize; BUCKETS]);

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram([const { AtomicUsize::new(0) }; BUCKETS])
    }
}

impl Histogram {
    pub(crate) fn note(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        self.0[bucket(us)].fetch_add(1, Relaxed);
    }

    /// The upper bound of the bucket below which `percent` of the times are; 0 without any.
    fn quantile(&self, percent: usize) -> u64 {
        let counts: Vec<usize> = self.0.iter().map(|count| count.load(Relaxed)).collect();
        let wanted = (counts.iter().sum::<usize>() * percent).div_ceil(100);
        let mut seen = 0;
        for (bucket, count) in counts.into_iter().enumerate() {
            seen += count;
            if count > 0 && seen >= wanted {
                return bound(bucket);
            }
        }
        0
    }
}

/// Times below four microseconds have a bucket each.
fn bucket(us: u64) -> usize {
    let Some(doublings) = (us >> 2).checked_ilog2() else { return us as usize };
    let step = (us >> doublings) as usize & (STEPS - 1);
    ((doublings as usize + 1) * STEPS + step).min(BUCKETS - 1)
}

/// The longest time of a bucket, in microseconds.
fn bound(bucket: usize) -> u64 {
    let Some(doublings) = (bucket / STEPS).checked_sub(1) else { return bucket as u64 };
    (((STEPS + bucket % STEPS + 1) as u64) << doublings) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_a_bucket_that_ends_at_most_a_quarter_later() {
        for us in (0..5_000).chain([1 << 20, (1 << 30) + 12_345, u64::from(u32::MAX)]) {
            let bound = bound(bucket(us));
            assert!(us <= bound && bound <= us + us / 4, "{us} {bound}");
            assert!(us == 0 || bucket(us - 1) == bucket(us) || super::bound(bucket(us - 1)) < us);
        }
    }

    #[test]
    fn quantiles_are_those_of_the_times_noted() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile(50), 0);
        (0..98).for_each(|_| histogram.note(Duration::from_micros(3)));
        (0..2).for_each(|_| histogram.note(Duration::from_millis(1)));
        assert_eq!(histogram.quantile(50), 3);
        assert_eq!(histogram.quantile(98), 3);
        assert_eq!(histogram.quantile(99), bound(bucket(1_000)));
    }
}
