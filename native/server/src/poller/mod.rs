//! Reports which sockets of a loop are ready.
//!
//! The contract is **level-triggered**: as long as a source is readable and its interest includes
//! `read`, every wait reports it. A back end may report a source that is not ready (the loop's
//! calls do not block), but must never omit one that is.
//!
//! The loop owns its sockets; a poller identifies them by token. If a system call needs the
//! descriptors for each wait (`poll`, `select`), the poller borrows them from [`Sources`] for just
//! that call, so no back end ever holds a descriptor number that may have been closed.
//!
//! Waking a waiting loop is not part of this trait: a [`crate::inbox::Waker`] is a source like any
//! other.

mod ended;
#[cfg(any(target_os = "linux", target_os = "android"))]
mod epoll;
mod poll;
mod portable;
mod select;
#[cfg(test)]
mod tests;
mod watched;

pub(crate) use ended::ended;
pub(crate) use select::DESCRIPTORS_MAX as SELECT_DESCRIPTORS_MAX;

use crate::Backend;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// The number that its owner gave to a source.
pub(crate) type Token = usize;

/// The events that a source is watched for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interest {
    pub(crate) read: bool,
    pub(crate) write: bool,
}

impl Interest {
    pub(crate) const NONE: Interest = Interest { read: false, write: false };
    pub(crate) const READ: Interest = Interest { read: true, write: false };
}

/// The result of a wait for one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) token: Token,
    /// There is something to receive: bytes, a connection, the end or an error.
    pub(crate) readable: bool,
    /// There is room to send, or an error to find.
    pub(crate) writable: bool,
    /// The connection is closed in both directions. Some back ends always report this regardless of
    /// the interest, some never.
    pub(crate) gone: bool,
}

/// Where a poller borrows descriptors for one wait.
pub(crate) trait Sources {
    /// The descriptor of a registered source.
    fn descriptor(&self, token: Token) -> Option<BorrowedFd<'_>>;
}

/// One mechanism of waiting.
pub(crate) trait Poller: Send {
    /// The displayed name.
    fn name(&self) -> &'static str;
    /// Starts to watch. Fails if the back end cannot watch this descriptor.
    fn register(&mut self, fd: BorrowedFd<'_>, token: Token, interest: Interest) -> io::Result<()>;
    /// Changes the events that a registered source is watched for.
    fn modify(&mut self, fd: BorrowedFd<'_>, token: Token, interest: Interest) -> io::Result<()>;
    /// Stops watching. Must be called before the descriptor is closed.
    fn deregister(&mut self, fd: BorrowedFd<'_>, token: Token) -> io::Result<()>;
    /// Waits until a source is ready or the time is over (`None`: no limit) and appends the ready
    /// sources. A wait may also end early, for a signal or for no reason.
    fn wait(
        &mut self,
        sources: &dyn Sources,
        ready: &mut Vec<Ready>,
        timeout: Option<Duration>,
    ) -> io::Result<()>;
}

/// Opens a back end.
pub(crate) fn open(backend: Backend) -> io::Result<Box<dyn Poller>> {
    Ok(match backend {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        Backend::Native => Box::new(epoll::Epoll::open()?),
        #[cfg(not(any(target_os = "linux", target_os = "android")))]
        Backend::Native => Box::new(portable::Portable::open()?),
        Backend::Portable => Box::new(portable::Portable::open()?),
        Backend::Poll => Box::new(poll::Poll::default()),
        Backend::Select => Box::new(select::Select::default()),
    })
}

/// A back end whose sources are reported once until they are re-armed, as with event ports.
#[cfg(test)]
pub(crate) fn open_oneshot() -> io::Result<Box<dyn Poller>> {
    Ok(Box::new(portable::Portable::open_oneshot()?))
}
