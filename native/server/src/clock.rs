//! One clock for latencies, deadlines and the time of day, as cheap as reading a counter.
//!
//! Reading the processor's time-stamp counter costs about half of `Instant::now`, which matters
//! because each command is timed. The time of day is extrapolated by the counter for at most a
//! quarter of a millisecond, then read from the system again. In this time the two clocks drift
//! apart by less than a microsecond, the resolution of the time of day.
//!
//! A turn reads the clock after its bytes were received, so the time of a request is never before
//! its arrival: a client that compares it with its own clock, on the same machine, never sees it
//! before the moment of sending.

use std::cell::Cell;
use std::time::{SystemTime, UNIX_EPOCH};

/// How long the counter may extrapolate the time of day.
const WALL_TRUSTED_NS: u64 = 250_000;
/// Longest time that reading the time of day may take, for the result to be accepted at once.
const READING_NS_MAX: u64 = 2_000;
/// How often it is read again otherwise: a thread may be interrupted in between.
const READINGS_MAX: usize = 3;

/// A loop's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    source: quanta::Clock,
    start: u64,
    /// The time of day in microseconds, and the counter value to which it belongs.
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
    /// May take a fraction of a second the first time in a process, if the counter's frequency must
    /// be measured.
    pub(crate) fn new() -> Clock {
        let source = quanta::Clock::new();
        let start = source.raw();
        let clock = Clock { source, start, wall_us: Cell::new(0), wall_at: Cell::new(start) };
        clock.take_wall();
        clock
    }

    /// The counter; its value has a meaning only for the other functions of the clock.
    #[inline]
    pub(crate) fn raw(&self) -> u64 {
        self.source.raw()
    }

    /// Nanoseconds between two readings, 0 if they are in the wrong order.
    #[inline]
    pub(crate) fn nanos(&self, from: u64, to: u64) -> u64 {
        self.source.delta_as_nanos(from, to)
    }

    /// Nanoseconds since the clock was created; the unit of deadlines.
    pub(crate) fn uptime_ns(&self, raw: u64) -> u64 {
        self.nanos(self.start, raw)
    }

    /// The present time by both clocks.
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

    /// Reads the time of day from the system, and assigns it to the counter value just before: the
    /// extrapolated time may be early by up to the duration of the reading, and is never late.
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

/// The system's time of day in microseconds since the Unix epoch, rounded up.
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
    fn the_time_of_day_is_never_before_the_systems_last_reading() {
        let clock = Clock::new();
        for round in 0..200_000 {
            let before = system_us();
            let now = clock.now();
            // The measured frequency of the counter may be some thousandths too low.
            assert!(now.wall_us + 1 >= before, "{} after {before}", now.wall_us);
            if round % 1_000 == 0 {
                // Some extrapolations are nearly as long as they may be.
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        }
    }
}
