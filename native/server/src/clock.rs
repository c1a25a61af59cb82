//! One clock for latencies, deadlines and the time of day, at the price of reading a counter.
//!
//! Reading the processor's time-stamp counter costs about half of what `Instant::now` does, which
//! is felt where each command is timed. The time of day is taken from the system twice a second and
//! carried on by the counter between.

use std::time::{SystemTime, UNIX_EPOCH};

const WALL_TRUSTED_NS: u64 = 500_000_000;

/// A loop's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    source: quanta::Clock,
    start: u64,
    wall_ms: u64,
    wall_at: u64,
}

impl Clock {
    /// May take a fraction of a second the first time in a process, where the counter must be
    /// measured.
    pub(crate) fn new() -> Clock {
        let source = quanta::Clock::new();
        let start = source.raw();
        Clock { source, start, wall_ms: wall_ms(), wall_at: start }
    }

    /// The counter: only for the other functions here.
    #[inline]
    pub(crate) fn raw(&self) -> u64 {
        self.source.raw()
    }

    /// Nanoseconds between two readings, 0 if they are in the wrong order.
    #[inline]
    pub(crate) fn nanos(&self, from: u64, to: u64) -> u64 {
        self.source.delta_as_nanos(from, to)
    }

    /// Nanoseconds since the clock was made: what deadlines are in.
    pub(crate) fn uptime_ns(&self, raw: u64) -> u64 {
        self.nanos(self.start, raw)
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn wall_ms(&self, raw: u64) -> u64 {
        self.wall_ms + self.nanos(self.wall_at, raw) / 1_000_000
    }

    /// Follows the system's time of day. Called once per wait.
    pub(crate) fn follow_wall(&mut self, raw: u64) {
        if self.nanos(self.wall_at, raw) > WALL_TRUSTED_NS {
            self.wall_ms = wall_ms();
            self.wall_at = raw;
        }
    }
}

/// The system's time of day in milliseconds since the Unix epoch.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}
