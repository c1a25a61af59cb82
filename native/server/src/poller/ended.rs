//! Finds sockets whose peer has closed its side while unread input waits in them.
//!
//! A socket that is not watched for reading does not report its end, and one that is watched
//! reports it only after the waiting bytes are received. Linux, FreeBSD and illumos report the end
//! before that (`POLLRDHUP`), with every back end. Other systems report only that both directions
//! are closed.

use rustix::event::{PollFd, PollFlags, Timespec};
use std::os::fd::BorrowedFd;

#[cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_os = "illumos"
))]
const END: PollFlags = PollFlags::RDHUP;
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_os = "illumos"
)))]
const END: PollFlags = PollFlags::empty();

/// The numbers of the sockets whose peer has closed its side. One system call, which does not
/// block.
pub(crate) fn ended<'s, N>(sockets: impl Iterator<Item = (N, BorrowedFd<'s>)>) -> Vec<N> {
    let (numbers, mut polled): (Vec<N>, Vec<PollFd<'_>>) =
        sockets.map(|(number, socket)| (number, PollFd::from_borrowed_fd(socket, END))).unzip();
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    if polled.is_empty() || rustix::event::poll(&mut polled, Some(&at_once)).is_err() {
        return Vec::new();
    }
    let gone = END | PollFlags::HUP | PollFlags::ERR;
    let pairs = numbers.into_iter().zip(&polled);
    pairs
        .filter(|(_, polled)| polled.revents().intersects(gone))
        .map(|(number, _)| number)
        .collect()
}
