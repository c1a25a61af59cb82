//! Questions that another thread answers, late, never, or more than once.

use super::{Peer, config, until};
use crate::{Backend, Responder, Server};
use std::net::Shutdown;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use todana_resp::{Answer, Question};

/// Keeps the numbers of questions.
#[derive(Debug, Default)]
struct Kept {
    numbers: Mutex<Vec<u64>>,
}

impl Responder for Kept {
    fn ask(&self, number: u64, question: &Question<'_>) -> bool {
        assert_eq!(*question, Question::Scopes);
        self.numbers.lock().unwrap().push(number);
        true
    }
}

impl Kept {
    /// The numbers, when there are this many.
    fn numbers(&self, count: usize) -> Vec<u64> {
        until("the questions are asked", || self.numbers.lock().unwrap().len() == count);
        self.numbers.lock().unwrap().clone()
    }
}

fn start() -> (Server, Arc<Kept>) {
    start_on(Backend::Native, 2)
}

fn start_on(backend: Backend, event_loops: usize) -> (Server, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let mut config = config(backend);
    config.event_loops = Some(event_loops);
    config.responder = Some(kept.clone());
    (Server::start(config).unwrap(), kept)
}

/// Ends the connection at once, as a process that is killed, and not only its sending side.
fn reset(peer: Peer) {
    rustix::net::sockopt::set_socket_linger(peer.socket(), Some(Duration::ZERO)).unwrap();
}

#[test]
fn an_answer_wakes_its_client_and_no_other_one() {
    let (server, kept) = start();
    let mut peers: Vec<Peer> = (0..6).map(|_| Peer::connect(&server)).collect();
    for (at, peer) in peers.iter_mut().enumerate() {
        peer.send("TODANA.SCOPES\nPING\n");
        kept.numbers(at + 1);
    }
    assert_eq!(Peer::connect(&server).ask("PING"), "+PONG", "other clients are served");
    let numbers = kept.numbers(6);
    server.answer(numbers[0] - 1, Answer::Number(99));
    for (at, peer) in peers.iter_mut().enumerate().rev() {
        server.answer(numbers[at], Answer::Number(at as u64));
        // The second one finds no client that waits.
        server.answer(numbers[at], Answer::Number(99));
        assert_eq!((peer.line(), peer.line()), (format!(":{at}"), "+PONG".into()));
    }
    assert_eq!(server.panics(), 0);
}

#[test]
fn an_answer_to_a_client_that_left_is_nobodys() {
    let (server, kept) = start();
    let mut peer = Peer::connect(&server);
    peer.send("TODANA.SCOPES\n");
    let first = kept.numbers(1)[0];
    reset(peer);
    until("the client is gone", || server.info().connections == 0);
    // It probably gets the index of the first one.
    let mut next = Peer::connect(&server);
    next.send("TODANA.SCOPES\n");
    let second = kept.numbers(2)[1];
    server.answer(first, Answer::Number(1));
    server.answer(second, Answer::Number(2));
    assert_eq!(next.line(), ":2");
}

#[test]
fn a_client_that_ended_its_sending_side_gets_its_answer() {
    for backend in [Backend::Native, Backend::Portable, Backend::Poll, Backend::Select] {
        let (server, kept) = start_on(backend, 1);
        let mut peer = Peer::connect(&server);
        peer.send("TODANA.SCOPES\nTODANA.SCOPES\n");
        let first = kept.numbers(1)[0];
        peer.socket().shutdown(Shutdown::Write).unwrap();
        // The only loop notices the end.
        let mut other = Peer::connect(&server);
        (0..9).for_each(|_| assert_eq!(other.ask("PING"), "+PONG"));
        server.answer(first, Answer::Number(1));
        server.answer(kept.numbers(2)[1], Answer::Number(2));
        assert_eq!((peer.line(), peer.line()), (":1".into(), ":2".into()));
        assert!(peer.rest().is_empty(), "the server closes the connection after the replies");
    }
}

/// Clients whose questions have no place: they wait in line in this order.
fn in_line(server: &Server, kept: &Kept, count: usize) -> (Vec<Peer>, Vec<Peer>) {
    let mut asked: Vec<Peer> = (0..64).map(|_| Peer::connect(server)).collect();
    asked.iter_mut().for_each(|peer| {
        peer.send("TODANA.SCOPES\n");
    });
    kept.numbers(64);
    let wait = |at| {
        let mut peer = Peer::connect(server);
        peer.send("TODANA.SCOPES\n");
        until("the client waits in line", || server.shared.questions.in_line() == at + 1);
        peer
    };
    (asked, (0..count).map(wait).collect())
}

#[test]
fn questions_beyond_the_bound_are_asked_in_the_order_of_their_arrival() {
    let (server, kept) = start();
    let (mut asked, mut waiting) = in_line(&server, &kept, 20);
    for at in 0..84 {
        // The client behind the answered ones is the next, and no other one.
        let numbers = kept.numbers((64 + at).min(84));
        server.answer(numbers[at], Answer::Number(at as u64));
        let peer = if at < 64 { None } else { waiting.get_mut(at - 64) };
        if let Some(peer) = peer {
            assert_eq!(peer.line(), format!(":{at}"));
        }
    }
    let mut lines: Vec<String> = asked.iter_mut().map(Peer::line).collect();
    lines.sort_by_key(|line| line[1..].parse::<u64>().unwrap());
    assert_eq!(lines, (0..64).map(|at| format!(":{at}")).collect::<Vec<_>>());
    assert_eq!(server.panics(), 0);
}

#[test]
fn a_client_that_leaves_gives_up_its_place_in_line() {
    let (server, kept) = start();
    let (_asked, mut waiting) = in_line(&server, &kept, 3);
    reset(waiting.remove(1));
    until("the client has left the line", || server.shared.questions.in_line() == 2);
    server.answer(kept.numbers(64)[5], Answer::Nothing);
    for (at, peer) in waiting.iter_mut().enumerate() {
        server.answer(kept.numbers(65 + at)[64 + at], Answer::Number(7));
        assert_eq!(peer.line(), ":7");
    }
    assert_eq!(server.shared.questions.in_line(), 0);
}

#[test]
fn a_client_that_takes_no_replies_keeps_no_place() {
    let (server, kept) = start();
    let (_asked, _) = in_line(&server, &kept, 0);
    let mut deaf = Peer::connect(&server);
    deaf.send("HELLO 3\nSUBSCRIBE c\nTODANA.SCOPES\n");
    until("it waits in line", || server.shared.questions.in_line() == 1);
    let mut next = Peer::connect(&server);
    next.send("TODANA.SCOPES\n");
    until("the next one does", || server.shared.questions.in_line() == 2);
    // More than the buffers of the system take, so that more waits than the soft limit.
    let mut publisher = Peer::connect(&server);
    let text = "x".repeat(500_000);
    let publish = format!("*3\r\n$7\r\nPUBLISH\r\n$1\r\nc\r\n$500000\r\n{text}\r\n");
    until("replies wait", || {
        assert_eq!(publisher.send(&publish).line(), ":1");
        server.info().client_buffer_bytes > 4 << 20
    });
    server.answer(kept.numbers(64)[0], Answer::Nothing);
    server.answer(kept.numbers(65)[64], Answer::Number(7));
    assert_eq!(next.line(), ":7");
    while !deaf.line().starts_with("-TRYAGAIN") {}
    assert_eq!(server.panics(), 0);
}

#[test]
fn a_restart_fails_the_questions_that_nobody_answers() {
    let (server, kept) = start();
    let mut peers: Vec<Peer> = (0..3).map(|_| Peer::connect(&server)).collect();
    peers.iter_mut().for_each(|peer| {
        peer.send("TODANA.SCOPES\n");
    });
    kept.numbers(3);
    server.fail_questions("CLUSTERDOWN ask again");
    peers.iter_mut().for_each(|peer| assert_eq!(peer.line(), "-CLUSTERDOWN ask again"));
    let mut config = config(Backend::Native);
    config.responder = None;
    let nobody = Server::start(config).unwrap();
    assert!(Peer::connect(&nobody).ask("TODANA.SCOPES").starts_with("-CLUSTERDOWN nobody"));
}

/// Connections that change their loops between requests.
#[test]
fn a_connection_that_waits_does_not_move() {
    let (server, kept) = start();
    server.shared.balance.moves_always.store(true, Relaxed);
    let mut peer = Peer::connect(&server);
    for round in 0..20 {
        assert_eq!(peer.ask("PING"), "+PONG");
        peer.send("TODANA.SCOPES\n");
        let number = kept.numbers(round + 1)[round];
        server.answer(number, Answer::Number(round as u64));
        assert_eq!(peer.line(), format!(":{round}"));
    }
    assert_eq!(server.panics(), 0);
}
