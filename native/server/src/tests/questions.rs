//! Questions that another thread answers, late, never, or more than once.

use super::{Peer, config, until};
use crate::{Backend, Responder, Server};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};
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
    let kept = Arc::new(Kept::default());
    let mut config = config(Backend::Native);
    config.responder = Some(kept.clone());
    (Server::start(config).unwrap(), kept)
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
    drop(peer);
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
fn questions_beyond_the_bound_wait_until_others_are_answered() {
    let (server, kept) = start();
    let mut peers: Vec<Peer> = (0..100).map(|_| Peer::connect(&server)).collect();
    peers.iter_mut().for_each(|peer| {
        peer.send("TODANA.SCOPES\n");
    });
    let mut answered = 0;
    while answered < 100 {
        until("a question is asked", || kept.numbers.lock().unwrap().len() > answered);
        let numbers = kept.numbers.lock().unwrap().clone();
        assert!(numbers.len() - answered <= 64, "{} at once", numbers.len() - answered);
        for number in &numbers[answered..] {
            server.answer(*number, Answer::Number(7));
        }
        answered = numbers.len();
    }
    peers.iter_mut().for_each(|peer| assert_eq!(peer.line(), ":7"));
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
