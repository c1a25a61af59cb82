//! Tests of whole conversations.

mod authentication;
mod classes;
mod commits;
mod limits;
mod properties;
mod range_search;
mod server;
mod time;
mod transcripts;

use super::MemcachedSession;
use crate::testing::FakeHost;
use todana_protocol::ProtocolName;
use todana_protocol::testing::{Outcome, converse};

/// A session and its host.
struct Conversation {
    session: MemcachedSession,
    host: FakeHost,
    /// Input that the session has not consumed.
    waiting: Vec<u8>,
}

impl Conversation {
    fn new() -> Conversation {
        Conversation {
            session: MemcachedSession::default(),
            host: FakeHost::new(ProtocolName::Memcached),
            waiting: Vec::new(),
        }
    }

    /// Sends bytes in one piece, and returns everything that the session sent.
    fn send(&mut self, input: impl AsRef<[u8]>) -> Outcome {
        self.waiting.extend_from_slice(input.as_ref());
        let outcome = converse(&mut self.session, &mut self.host, [self.waiting.as_slice()]);
        self.waiting.drain(..self.waiting.len() - outcome.left);
        outcome
    }

    /// Sends bytes and returns the reply as text, with `closed` at its end if the connection
    /// closed.
    fn ask(&mut self, input: impl AsRef<[u8]>) -> String {
        let outcome = self.send(input);
        let mut answer = String::from_utf8_lossy(&outcome.output).into_owned();
        if outcome.closed {
            answer.push_str("closed");
        }
        answer
    }
}
