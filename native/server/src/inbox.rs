//! Messages to a loop from other threads, and the descriptor that wakes it.

use crate::balance::Share;
use crate::channels::Push;
use crate::frame::Frame;
use crate::invalidations::Invalidation;
use crate::operator::Line;
use std::any::Any;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use todana_group::Outcome;
use todana_protocol::Service;
use todana_resp::Answer;

/// A message to a loop.
#[derive(Debug)]
pub(crate) enum Message {
    /// A connection to serve from now on.
    Serve(Accepted),
    /// A connection that another loop has served: a `Box<Connection<D>>` of this server.
    Adopt(Box<dyn Any + Send>),
    /// Hand connections to another loop; some of them in this window only.
    HandOver { to: usize, share: Share, window: u32 },
    /// Close this client, which may have moved or left.
    Kill { index: usize, id: u64 },
    /// Close this client to free memory for all; it may have moved or left.
    Evict { index: usize, id: u64 },
    /// The wait of this ticket was signalled; wake the connection of `index` if it still waits with
    /// it.
    Wake { index: usize, ticket: u64 },
    /// The outcome of the commit with this ticket; resume the connection of `index` if it still
    /// waits for it.
    Commit { index: usize, ticket: u64, outcome: Outcome },
    /// The answer to the question of this number; resume the connection of `index` if it still
    /// waits for it.
    Answer { index: usize, number: u64, answer: Box<Answer> },
    /// The question of this number may be asked; resume the connection of `index` if it still waits
    /// in line with it.
    Ask { index: usize, number: u64 },
    /// Deliver this message to its subscribers on this loop.
    Push(Arc<Push>),
    /// Deliver this invalidation to the clients on this loop that have read the key.
    Invalidate(Arc<Invalidation>),
    /// Have all clients on this loop forget what they have read.
    InvalidateAll,
    /// Deliver an invalidation to this client, which may have moved or left.
    Redirected { index: usize, id: u64, frame: Frame },
    /// Deliver this command to the clients on this loop that receive all.
    Line(Arc<Line>),
    /// There are keyspace notifications to publish.
    Notices,
    /// The loop has the place for long work.
    Work,
    /// A client has come after a pause, for the loop that measures each second.
    Seconds,
    /// Close everything and end.
    Stop,
}

/// A connection on its way from the listener to its loop.
#[derive(Debug)]
pub(crate) struct Accepted {
    pub(crate) socket: TcpStream,
    pub(crate) service: Service,
    pub(crate) address: SocketAddr,
    pub(crate) local_address: SocketAddr,
}

/// The sending side, shared by all threads.
#[derive(Debug)]
pub(crate) struct Inbox {
    messages: Mutex<Vec<Message>>,
    /// A byte is on its way or in the socket already.
    woken: AtomicBool,
    wake: UnixStream,
}

/// The receiving side: a readable descriptor, owned by the loop.
#[derive(Debug)]
pub(crate) struct Waker(UnixStream);

impl Inbox {
    /// An empty inbox and the descriptor to wait on.
    pub(crate) fn open() -> io::Result<(Inbox, Waker)> {
        let (wake, wait) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        wait.set_nonblocking(true)?;
        Ok((Inbox { messages: Mutex::default(), woken: AtomicBool::new(false), wake }, Waker(wait)))
    }

    /// Adds a message and wakes the loop, unless a wake-up is already on its way.
    pub(crate) fn send(&self, message: Message) {
        self.send_all(vec![message]);
    }

    /// Adds messages and wakes the loop once for them. Without messages it does nothing.
    pub(crate) fn send_all(&self, messages: Vec<Message>) {
        if messages.is_empty() {
            return;
        }
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).extend(messages);
        if !self.woken.swap(true, Ordering::AcqRel) {
            // A full socket wakes the loop as well as one more byte would.
            let _ = (&self.wake).write(&[1]);
        }
    }

    /// Closes the connections on their way to a loop that has ended.
    pub(crate) fn close_adopted(&self) {
        let mut messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        messages.retain(|message| !matches!(message, Message::Adopt(_)));
    }

    /// Takes all messages. Called by the loop after its waker became readable.
    pub(crate) fn take(&self, waker: &mut Waker) -> Vec<Message> {
        waker.drain();
        self.woken.store(false, Ordering::Release);
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Waker {
    fn drain(&mut self) {
        let mut bytes = [0; 64];
        while matches!(self.0.read(&mut bytes), Ok(64)) {}
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
