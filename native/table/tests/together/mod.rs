//! Runs actions on several threads at the same time, for a bounded time.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// How long each test runs.
pub(crate) fn duration() -> Duration {
    Duration::from_millis(if cfg!(miri) { 100 } else { 2_000 })
}

/// A xorshift sequence; each thread has its own seed.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

pub(crate) type Action<'a> = Box<dyn FnMut(&mut Dice) + Send + 'a>;

/// Runs the closures in a loop, each on its own thread, until the time is over or one of them
/// panics.
pub(crate) fn together(actions: Vec<Action<'_>>) {
    let over = AtomicBool::new(false);
    let end = Instant::now() + duration();
    thread::scope(|scope| {
        for (number, mut action) in actions.into_iter().enumerate() {
            let over = &over;
            scope.spawn(move || {
                let mut dice = Dice(0x9e37_79b9_7f4a_7c15 ^ (number as u64 + 1));
                // At least once, even if a slow machine starts the thread late.
                loop {
                    let stop = StopOnPanic(over);
                    action(&mut dice);
                    drop(stop);
                    if over.load(SeqCst) || Instant::now() >= end {
                        break;
                    }
                }
            });
        }
    });
}

struct StopOnPanic<'a>(&'a AtomicBool);

impl Drop for StopOnPanic<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(true, SeqCst);
        }
    }
}
