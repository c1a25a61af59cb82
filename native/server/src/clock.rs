//! One clock for latencies, deadlines and the time of day, at the price of reading a counter.
//!
//! Reading the processor's time-stamp counter costs about half of what `Instant::now` does, which
//! is felt where each command is timed. The time of day is carried on by the counter for a
//! quarter of a millisecond at most, then taken from the system again. What the two clocks come to
//! differ by meanwhile is less than a microsecond, in which the time of day is told.
//!
//! A turn reads the clock after its bytes were received, so no request's time is older than its
//! arrival: a client that compares it with its own clock, on the same machine, never sees it before
//! the moment of sending.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long the counter is trusted to carry on the time of day.
const WALL_TRUSTED_NS: u64 = 250_000;
/// Longest time that taking the time of day may have taken, if it is to be trusted at once.
const READING_NS_MAX: u64 = 2_000;
/// How often it is taken again otherwise: a thread may be interrupted in between.
const READINGS_MAX: usize = 3;

/// A loop's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    source: quanta::Clock,
    start: u64,
    /// The time of day in microseconds, and the reading of the counter it belongs to.
    wall_us: Cell<u64>,
    wall_at: Cell<u64>,
}

/// A reading of both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The counter.
    pub(crate) raw: u64,
    /// Microseconds since the Unix epoch.
    pub(crate) wall_us: u64,
}

impl Moment {
    /// Milliseconds since the Unix epoch.
    #[inline]
    pub(crate) fn wall_ms(self) -> u64 {
        self.wall_us / 1_000
    }
}

impl Clock {
    /// May take a fraction of a second the first time in a process, where the counter must be
    /// measured.
    pub(crate) fn new() -> Clock {
        let source = quanta::Clock::new();
        let start = source.raw();
        let clock = Clock { source, start, wall_us: Cell::new(0), wall_at: Cell::new(start) };
        clock.take_wall();
        clock
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

    /// Now, by both clocks.
    #[inline]
    pub(crate) fn now(&self) -> Moment {
        let raw = self.raw();
        let mut since_ns = self.nanos(self.wall_at.get(), raw);
        if since_ns > WALL_TRUSTED_NS {
            self.take_wall();
            since_ns = 0;
        }
        Moment { raw, wall_us: self.wall_us.get() + since_ns / 1_000 }
    }

    /// Milliseconds since the Unix epoch.
    pub(crate) fn wall_ms(&self) -> u64 {
        self.now().wall_ms()
    }

    /// Takes the time of day from the system. It belongs to the counter as it was just before: the
    /// time that is carried on may be early, by no more than the reading took, and is never late.
    fn take_wall(&self) {
        for _ in 0..READINGS_MAX {
            let at = self.raw();
            self.wall_us.set(wall_us());
            self.wall_at.set(at);
            if self.nanos(at, self.raw()) <= READING_NS_MAX {
                break;
            }
        }
    }
}

/// The system's time of day in microseconds since the Unix epoch, begun ones included.
fn wall_us() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos().div_ceil(1_000) as u64)
}

/// The system's time of day in milliseconds since the Unix epoch.
pub(crate) fn wall_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn system_us() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_micros() as u64
    }

    #[test]
    fn the_time_of_day_is_not_before_what_the_system_said_last() {
        let clock = Clock::new();
        for round in 0..200_000 {
            let before = system_us();
            let now = clock.now();
            // The counter may have been measured some thousandths too slow.
            assert!(now.wall_us + 1 >= before, "{} after {before}", now.wall_us);
            if round % 1_000 == 0 {
                // Some of what it carries on is nearly as old as it may be.
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
    }
}
