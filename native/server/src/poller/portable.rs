//! The mechanism that the `polling` crate selects on a system: kqueue on BSD and macOS, event ports
//! on illumos and Solaris, epoll.
//!
//! Event ports report each source once; such sources are re-armed before the next wait, so that the
//! contract (level-triggered) holds everywhere.

use super::{Interest, Poller, Ready, Sources, Token, watched::Watched};
use polling::{Event, Events, PollMode};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

pub(super) struct Portable {
    poller: polling::Poller,
    mode: PollMode,
    events: Events,
    watched: Watched,
    /// Sources that were reported and must be re-armed. Empty in level mode.
    spent: Vec<Token>,
}

impl Portable {
    pub(super) fn open() -> io::Result<Portable> {
        let poller = polling::Poller::new()?;
        let mode = if poller.supports_level() { PollMode::Level } else { PollMode::Oneshot };
        Ok(Portable::with(poller, mode))
    }

    /// As on a system whose mechanism reports each source once.
    #[cfg(test)]
    pub(super) fn open_oneshot() -> io::Result<Portable> {
        Ok(Portable::with(polling::Poller::new()?, PollMode::Oneshot))
    }

    fn with(poller: polling::Poller, mode: PollMode) -> Portable {
        let events = Events::new();
        Portable { poller, mode, events, watched: Watched::default(), spent: Vec::new() }
    }

    fn remember(&mut self, token: Token, interest: Interest) {
        if self.mode == PollMode::Oneshot {
            self.watched.set(token, interest);
        }
    }
}

fn event(token: Token, interest: Interest) -> Event {
    Event::new(token, interest.read, interest.write)
}

impl Poller for Portable {
    fn name(&self) -> &'static str {
        if cfg!(any(target_os = "linux", target_os = "android")) {
            "epoll-portable"
        } else if cfg!(any(target_os = "illumos", target_os = "solaris")) {
            "ports"
        } else {
            "kqueue"
        }
    }

    #[allow(unsafe_code)]
    fn register(&mut self, fd: BorrowedFd<'_>, token: Token, interest: Interest) -> io::Result<()> {
        // SAFETY: `polling` requires that a source is deleted before it is closed. The loop
        // deregisters each source before it drops it, and a loop that ends drops this poller before
        // its sources.
        unsafe {
            self.poller.add_with_mode(fd.as_raw_fd(), event(token, interest), self.mode)?;
        }
        self.remember(token, interest);
        Ok(())
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, token: Token, interest: Interest) -> io::Result<()> {
        self.poller.modify_with_mode(fd, event(token, interest), self.mode)?;
        self.remember(token, interest);
        Ok(())
    }

    fn deregister(&mut self, fd: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        self.watched.remove(token);
        self.poller.delete(fd)
    }

    fn wait(
        &mut self,
        sources: &dyn Sources,
        ready: &mut Vec<Ready>,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let mut failure = None;
        for token in self.spent.drain(..) {
            if let (Some(interest), Some(fd)) = (self.watched.get(token), sources.descriptor(token))
            {
                let armed = self.poller.modify_with_mode(fd, event(token, interest), self.mode);
                failure = failure.or(armed.err());
            }
        }
        self.events.clear();
        // A source that cannot be re-armed must not prevent reports of the others.
        let timeout = if failure.is_some() { Some(Duration::ZERO) } else { timeout };
        self.poller.wait(&mut self.events, timeout)?;
        for event in self.events.iter() {
            let gone = event.is_interrupt() || event.is_err() == Some(true);
            ready.push(Ready {
                token: event.key,
                readable: event.readable || gone,
                writable: event.writable || gone,
                gone,
            });
            if self.mode == PollMode::Oneshot {
                self.spent.push(event.key);
            }
        }
        failure.map_or(Ok(()), Err)
    }
}
