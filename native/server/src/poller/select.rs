//! `select(2)`: for systems and sandboxes that permit nothing else. Descriptors below 1,024 only;
//! others are refused.

use super::{Interest, Poller, Ready, Sources, Token, watched::Watched};
use nix::errno::Errno;
use nix::sys::select::{FD_SETSIZE, FdSet, select};
use nix::sys::time::{TimeVal, TimeValLike};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// Descriptors from this number on cannot be watched.
pub(crate) const DESCRIPTORS_MAX: usize = FD_SETSIZE;

#[derive(Default)]
pub(super) struct Select {
    watched: Watched,
}

impl Poller for Select {
    fn name(&self) -> &'static str {
        "select"
    }

    fn register(&mut self, fd: BorrowedFd<'_>, token: Token, interest: Interest) -> io::Result<()> {
        if fd.as_raw_fd() as usize >= DESCRIPTORS_MAX {
            let text = format!("select cannot watch descriptor {}", fd.as_raw_fd());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
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
        let (mut read, mut write) = (FdSet::new(), FdSet::new());
        let mut descriptors = 0;
        for (token, interest) in self.watched.active() {
            if let Some(fd) = sources.descriptor(token) {
                descriptors = descriptors.max(fd.as_raw_fd() + 1);
                if interest.read {
                    read.insert(fd);
                }
                if interest.write {
                    write.insert(fd);
                }
            }
        }
        let mut timeout = timeout.map(|timeout| {
            TimeVal::microseconds(timeout.as_nanos().div_ceil(1_000).min(86_400_000_000) as i64)
        });
        match select(descriptors, &mut read, &mut write, None, timeout.as_mut()) {
            Ok(0) | Err(Errno::EINTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(error.into()),
        }
        for (token, interest) in self.watched.active() {
            let Some(fd) = sources.descriptor(token) else { continue };
            let readable = interest.read && read.contains(fd);
            let writable = interest.write && write.contains(fd);
            if readable || writable {
                ready.push(Ready { token, readable, writable, gone: false });
            }
        }
        Ok(())
    }
}
