//! A timer that ends a wait for events at a moment.
//!
//! The timeout of a poller counts milliseconds, which is longer than most gaps between requests.

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

const ZERO: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// A timer of the kernel, which a poller reports like a socket.
pub struct Alarm {
    timer: OwnedFd,
    moment: Option<Instant>,
}

impl Alarm {
    /// A timer without a moment. Its events have the token.
    pub fn open(registry: &Registry, token: Token) -> io::Result<Alarm> {
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK)?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Alarm { timer, moment: None })
    }

    /// Causes one event at a moment, or at once if it has passed, in place of the moment before.
    pub fn set(&mut self, moment: Instant) -> io::Result<()> {
        if self.moment == Some(moment) {
            return Ok(());
        }
        // A time of 0 would stop the timer.
        let left = moment.duration_since(Instant::now()).max(Duration::from_nanos(1));
        let it_value =
            Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos().into() };
        let once = Itimerspec { it_interval: ZERO, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once)?;
        self.moment = Some(moment);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll};

    #[test]
    fn each_moment_causes_one_event_and_none_too_early() {
        let mut poll = Poll::new().expect("a poller");
        let mut events = Events::with_capacity(8);
        let mut alarm = Alarm::open(poll.registry(), Token(7)).expect("a timer");
        for gap_us in [0, 100, 3_000, 0, 200] {
            let moment = Instant::now() + Duration::from_micros(gap_us);
            alarm.set(moment).expect("a moment");
            poll.poll(&mut events, Some(Duration::from_secs(10))).expect("a poller");
            assert!(Instant::now() >= moment);
            assert_eq!(events.iter().map(|event| event.token()).collect::<Vec<_>>(), [Token(7)]);
            poll.poll(&mut events, Some(Duration::ZERO)).expect("a poller");
            assert!(events.is_empty());
        }
    }

    #[test]
    fn a_later_moment_replaces_an_earlier_one() {
        let mut poll = Poll::new().expect("a poller");
        let mut events = Events::with_capacity(8);
        let mut alarm = Alarm::open(poll.registry(), Token(7)).expect("a timer");
        let now = Instant::now();
        alarm.set(now + Duration::from_millis(1)).expect("a moment");
        alarm.set(now + Duration::from_millis(50)).expect("a moment");
        poll.poll(&mut events, Some(Duration::from_secs(10))).expect("a poller");
        assert!(Instant::now() >= now + Duration::from_millis(50));
    }
}
