//! One suite over all back ends: each must fulfil the same contract.

use super::*;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::Instant;

const SOON: Option<Duration> = Some(Duration::from_secs(120));
const AT_ONCE: Option<Duration> = Some(Duration::ZERO);

fn back_ends() -> Vec<(&'static str, Box<dyn Poller>)> {
    let oneshot = Box::new(portable::Portable::open_oneshot().unwrap());
    let mut back_ends: Vec<(&'static str, Box<dyn Poller>)> = vec![("oneshot", oneshot)];
    for backend in [Backend::Native, Backend::Portable, Backend::Poll, Backend::Select] {
        let poller = open(backend).unwrap();
        back_ends.push((poller.name(), poller));
    }
    back_ends
}

/// Sources whose tokens are their positions.
struct Sockets(Vec<Option<UnixStream>>);

impl Sources for Sockets {
    fn descriptor(&self, token: Token) -> Option<BorrowedFd<'_>> {
        self.0.get(token)?.as_ref().map(AsFd::as_fd)
    }
}

struct Bench {
    name: &'static str,
    poller: Box<dyn Poller>,
    sockets: Sockets,
    peers: Vec<UnixStream>,
}

impl Bench {
    /// Pairs of sockets, registered with an interest.
    fn with(
        name: &'static str,
        poller: Box<dyn Poller>,
        pairs: usize,
        interest: Interest,
    ) -> Bench {
        let mut bench = Bench { name, poller, sockets: Sockets(Vec::new()), peers: Vec::new() };
        for token in 0..pairs {
            let (socket, peer) = UnixStream::pair().unwrap();
            socket.set_nonblocking(true).unwrap();
            bench.poller.register(socket.as_fd(), token, interest).unwrap();
            bench.sockets.0.push(Some(socket));
            bench.peers.push(peer);
        }
        bench
    }
    fn wait(&mut self, timeout: Option<Duration>) -> Vec<Ready> {
        let mut ready = Vec::new();
        self.poller.wait(&self.sockets, &mut ready, timeout).unwrap();
        ready.sort_by_key(|r| r.token);
        ready
    }
    fn readable(&mut self, timeout: Option<Duration>) -> Vec<Token> {
        self.wait(timeout).iter().filter(|r| r.readable).map(|r| r.token).collect()
    }
    fn modify(&mut self, token: Token, interest: Interest) {
        let socket = self.sockets.0[token].as_ref().unwrap();
        self.poller.modify(socket.as_fd(), token, interest).unwrap();
    }
}

fn each(pairs: usize, interest: Interest, test: impl Fn(&mut Bench)) {
    for (name, poller) in back_ends() {
        test(&mut Bench::with(name, poller, pairs, interest));
    }
}

#[test]
fn a_readable_source_is_reported_until_it_is_read() {
    each(3, Interest::READ, |bench| {
        assert_eq!(bench.readable(AT_ONCE), [], "{}", bench.name);
        bench.peers[1].write_all(b"x").unwrap();
        for _ in 0..3 {
            assert_eq!(bench.readable(SOON), [1], "{}", bench.name);
        }
        bench.peers[2].write_all(b"y").unwrap();
        assert_eq!(bench.readable(SOON).last(), Some(&2), "{}", bench.name);
        let mut byte = [0];
        bench.sockets.0[1].as_mut().unwrap().read_exact(&mut byte).unwrap();
        assert_eq!(bench.readable(SOON), [2], "{}", bench.name);
    });
}

#[test]
fn interest_decides_what_is_reported() {
    each(1, Interest::READ, |bench| {
        bench.peers[0].write_all(b"x").unwrap();
        bench.modify(0, Interest { read: false, write: true });
        let ready = bench.wait(SOON);
        assert_eq!(ready.len(), 1, "{}", bench.name);
        assert!(ready[0].writable && !ready[0].readable, "{}", bench.name);
        bench.modify(0, Interest { read: true, write: true });
        let ready = bench.wait(SOON);
        assert!(ready[0].writable && ready[0].readable, "{}", bench.name);
        bench.modify(0, Interest::NONE);
        assert_eq!(bench.wait(AT_ONCE), [], "{}", bench.name);
        bench.modify(0, Interest::READ);
        assert_eq!(bench.readable(SOON), [0], "{}", bench.name);
    });
}

#[test]
fn a_source_with_a_full_buffer_is_not_writable() {
    each(1, Interest { read: false, write: true }, |bench| {
        assert!(bench.wait(SOON)[0].writable, "{}", bench.name);
        let socket = bench.sockets.0[0].as_mut().unwrap();
        while socket.write(&[0; 65_536]).is_ok() {}
        assert_eq!(bench.wait(AT_ONCE), [], "{}", bench.name);
    });
}

#[test]
fn the_end_of_the_peer_is_readable() {
    each(2, Interest::READ, |bench| {
        bench.peers.remove(0);
        assert_eq!(bench.readable(SOON), [0], "{}", bench.name);
    });
}

#[test]
fn a_removed_source_is_never_reported_and_its_token_may_be_reused() {
    each(3, Interest::READ, |bench| {
        for peer in &mut bench.peers {
            peer.write_all(b"x").unwrap();
        }
        assert_eq!(bench.readable(SOON), [0, 1, 2], "{}", bench.name);
        let socket = bench.sockets.0[1].take().unwrap();
        bench.poller.deregister(socket.as_fd(), 1).unwrap();
        drop(socket);
        assert_eq!(bench.readable(SOON), [0, 2], "{}", bench.name);
        let (socket, mut peer) = UnixStream::pair().unwrap();
        bench.poller.register(socket.as_fd(), 1, Interest::READ).unwrap();
        bench.sockets.0[1] = Some(socket);
        assert_eq!(bench.readable(SOON), [0, 2], "{}", bench.name);
        peer.write_all(b"x").unwrap();
        assert_eq!(bench.readable(SOON), [0, 1, 2], "{}", bench.name);
    });
}

#[test]
fn a_wait_ends_with_its_time() {
    each(1, Interest::READ, |bench| {
        let begun = Instant::now();
        // An early end is allowed, so wait as the loop does: until the time is over.
        while begun.elapsed() < Duration::from_millis(30) {
            let left = Duration::from_millis(30).saturating_sub(begun.elapsed());
            assert_eq!(bench.wait(Some(left)), [], "{}", bench.name);
        }
    });
}

#[test]
fn a_source_that_cannot_be_rearmed_does_not_block_the_others() {
    let oneshot = Box::new(portable::Portable::open_oneshot().unwrap());
    let mut bench = Bench::with("oneshot", oneshot, 3, Interest::READ);
    for peer in &mut bench.peers {
        peer.write_all(b"x").unwrap();
    }
    assert_eq!(bench.readable(SOON), [0, 1, 2]);
    let (stranger, _peer) = UnixStream::pair().unwrap();
    let _registered = bench.sockets.0[0].replace(stranger);
    let mut ready = Vec::new();
    assert!(bench.poller.wait(&bench.sockets, &mut ready, SOON).is_err());
    let mut tokens: Vec<Token> = ready.iter().map(|ready| ready.token).collect();
    tokens.sort();
    assert_eq!(tokens, [1, 2]);
    assert_eq!(bench.readable(SOON), [1, 2]);
}
