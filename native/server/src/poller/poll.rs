//! `poll(2)`: available everywhere; its cost grows with the number of connections of a loop.

use super::{Interest, Poller, Ready, Sources, Token, watched::Watched};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

#[derive(Default)]
pub(super) struct Poll {
    watched: Watched,
    /// Tokens of the descriptors passed to the system, in the same order.
    tokens: Vec<Token>,
}

fn flags(interest: Interest) -> PollFlags {
    let mut flags = PollFlags::empty();
    flags.set(PollFlags::IN, interest.read);
    flags.set(PollFlags::OUT, interest.write);
    flags
}

impl Poller for Poll {
    fn name(&self) -> &'static str {
        "poll"
    }

    fn register(
        &mut self,
        _fd: BorrowedFd<'_>,
        token: Token,
        interest: Interest,
    ) -> io::Result<()> {
        self.watched.set(token, interest);
        Ok(())
    }

    fn modify(&mut self, _fd: BorrowedFd<'_>, token: Token, interest: Interest) -> io::Result<()> {
        self.watched.set(token, interest);
        Ok(())
    }

    fn deregister(&mut self, _fd: BorrowedFd<'_>, token: Token) -> io::Result<()> {
        self.watched.remove(token);
        Ok(())
    }

    fn wait(
        &mut self,
        sources: &dyn Sources,
        ready: &mut Vec<Ready>,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        self.tokens.clear();
        let mut polled: Vec<PollFd<'_>> = Vec::with_capacity(self.watched.len());
        for (token, interest) in self.watched.active() {
            if let Some(fd) = sources.descriptor(token) {
                self.tokens.push(token);
                polled.push(PollFd::from_borrowed_fd(fd, flags(interest)));
            }
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match rustix::event::poll(&mut polled, timeout.as_ref()) {
            Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        for (token, polled) in self.tokens.iter().zip(&polled) {
            let found = polled.revents();
            if found.is_empty() {
                continue;
            }
            let gone = found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL);
            ready.push(Ready {
                token: *token,
                readable: gone || found.contains(PollFlags::IN),
                writable: gone || found.contains(PollFlags::OUT),
                gone,
            });
        }
        Ok(())
    }
}
