//! epoll directly: one system call per wait.
//!
//! The `polling` crate supports epoll too, but sets a timer descriptor and re-arms its notifier
//! around each wait: five system calls instead of one, which matters when few connections are busy
//! (with one, a fifth of the CPU time of a request). On other systems [`super::portable`] is the
//! native back end.

use super::{Interest, Poller, Ready, Sources, Token};
use rustix::event::{Timespec, epoll};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

/// Maximum number of events of one wait.
const EVENTS_MAX: usize = 512;

pub(super) struct Epoll {
    descriptor: OwnedFd,
}

impl Epoll {
    pub(super) fn open() -> io::Result<Epoll> {
        let descriptor = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Epoll { descriptor })
    }
}

fn flags(interest: Interest) -> epoll::EventFlags {
    let mut flags = epoll::EventFlags::empty();
    flags.set(epoll::EventFlags::IN, interest.read);
    flags.set(epoll::EventFlags::OUT, interest.write);
    flags
}

impl Poller for Epoll {
    fn name(&self) -> &'static str {
        "epoll"
    }

    fn register(&mut self, fd: BorrowedFd<'_>, token: Token, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token as u64);
        Ok(epoll::add(&self.descriptor, fd, data, flags(interest))?)
    }

    fn modify(&mut self, fd: BorrowedFd<'_>, token: Token, interest: Interest) -> io::Result<()> {
        let data = epoll::EventData::new_u64(token as u64);
        Ok(epoll::modify(&self.descriptor, fd, data, flags(interest))?)
    }

    fn deregister(&mut self, fd: BorrowedFd<'_>, _token: Token) -> io::Result<()> {
        Ok(epoll::delete(&self.descriptor, fd)?)
    }

    fn wait(
        &mut self,
        _sources: &dyn Sources,
        ready: &mut Vec<Ready>,
        timeout: Option<Duration>,
    ) -> io::Result<()> {
        let timeout = timeout.map(whole_milliseconds);
        let mut room = [const { MaybeUninit::uninit() }; EVENTS_MAX];
        let events = match epoll::wait(&self.descriptor, &mut room, timeout.as_ref()) {
            Ok((events, _)) => events,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        ready.extend(events.iter().map(|event| {
            let (flags, data) = (event.flags, event.data);
            let gone = flags.intersects(epoll::EventFlags::HUP | epoll::EventFlags::ERR);
            Ready {
                token: data.u64() as usize,
                readable: gone || flags.contains(epoll::EventFlags::IN),
                writable: gone || flags.contains(epoll::EventFlags::OUT),
                gone,
            }
        }));
        Ok(())
    }
}

/// Rounds up to milliseconds, so that `epoll_wait` suffices on kernels without `epoll_pwait2`.
fn whole_milliseconds(timeout: Duration) -> Timespec {
    let milliseconds = timeout.as_nanos().div_ceil(1_000_000).min(86_400_000) as i64;
    Timespec { tv_sec: milliseconds / 1_000, tv_nsec: (milliseconds % 1_000 * 1_000_000) as _ }
}
