//! Tests of whole conversations.

mod access;
mod binary;
mod classes;
mod commits;
mod dictionary;
mod framing;
mod limits;
mod mixed;
mod properties;
mod rest;
mod rpc;

use super::KyotoSession;
use crate::testing::FakeHost;
use todana_protocol::ProtocolName;
use todana_protocol::testing::{Outcome, converse, converse_in_every_way};

/// A session and its host.
struct Conversation {
    session: KyotoSession,
    host: FakeHost,
    /// Input that the session has not consumed.
    waiting: Vec<u8>,
}

impl Conversation {
    fn new() -> Conversation {
        Conversation {
            session: KyotoSession::default(),
            host: FakeHost::new(ProtocolName::Kyoto),
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

    /// Sends bytes and returns the answer as [`shown`].
    fn ask(&mut self, input: impl AsRef<[u8]>) -> String {
        shown(&self.send(input))
    }
}

/// The response of a new connection to these bytes, in the form of [`shown`], which must not depend
/// on how they are cut.
fn answers(input: impl AsRef<[u8]>) -> String {
    answers_with(input, |_| {})
}

/// The same, with a host that `prepare` has changed.
fn answers_with(input: impl AsRef<[u8]>, prepare: impl Fn(&mut FakeHost)) -> String {
    let start = || {
        let mut host = FakeHost::new(ProtocolName::Kyoto);
        prepare(&mut host);
        (KyotoSession::default(), host)
    };
    shown(&converse_in_every_way(start, input.as_ref(), |outcome| outcome))
}

/// A response as text: without the two headers that every response has, with LF as line ends, with
/// non-text bytes escaped, and with `closed` at the end if the connection closed.
fn shown(outcome: &Outcome) -> String {
    let mut text = String::new();
    for byte in &outcome.output {
        match byte {
            b'\r' => {}
            b'\n' | b' '..=b'~' => text.push(char::from(*byte)),
            _ => text.push_str(&byte.escape_ascii().to_string()),
        }
    }
    let server = concat!("Server: Todana/", env!("CARGO_PKG_VERSION"), "\n");
    let mut text = text.replace(server, "").replace("Date: Tue, 14 Nov 2023 22:13:20 GMT\n", "");
    if outcome.closed {
        text.push_str("closed");
    }
    text
}
