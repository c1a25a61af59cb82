//! A client of a server whose records may be old, and whose waits a test ends.

use super::{FakeHost, Part, with_member_hosts};
use crate::{Advance, Budget, Next, Progress, ProtocolName};
use todana_group::Submit;

const BUDGET: Budget = Budget { requests_max: 128, output_bytes_max: 1 << 16 };

/// A client of a server, whose waits a test ends.
pub struct Peer<S, P: Part> {
    /// Its session.
    pub session: S,
    /// The server.
    pub host: FakeHost<P>,
    /// What it has sent and the session has not consumed.
    pub input: Vec<u8>,
}

impl<P: Part, S: Advance<FakeHost<P>> + Default> Peer<S, P> {
    /// A client of a server that is a member of a group of several.
    pub fn new(protocol: ProtocolName) -> Peer<S, P> {
        let host = with_member_hosts(|| FakeHost::new(protocol));
        Peer { session: S::default(), host, input: Vec::new() }
    }

    /// The server receives bytes.
    pub fn receive(&mut self, input: impl AsRef<[u8]>) {
        self.input.extend_from_slice(input.as_ref());
        self.host.commits.forget_proof();
    }

    /// One turn: its output, and what the session needs next.
    pub fn turn(&mut self) -> (String, Next) {
        let mut output = Vec::new();
        self.host.commits.begin_turn();
        let progress = self.session.advance(&self.input, &mut output, &mut self.host, BUDGET);
        let Progress { consumed, next } = progress;
        self.input.drain(..consumed);
        (String::from_utf8_lossy(&output).into_owned(), next)
    }

    /// The answer to these bytes, and how many proofs it took.
    pub fn ask(&mut self, input: impl AsRef<[u8]>) -> (String, usize) {
        self.receive(input);
        self.host.awaited.clear();
        let mut answer = String::new();
        loop {
            let (output, next) = self.turn();
            answer.push_str(&output);
            match next {
                Next::Commit => assert!(self.host.commit()),
                Next::Yield => {}
                _ => return (answer, self.host.awaited.len()),
            }
        }
    }
}

impl<P: Part, S> Peer<S, P> {
    /// Has an answer of the leader make the records fresh.
    pub fn refresh(&self) {
        let group = &self.host.log.as_ref().expect("a log").group;
        let question = group.begin_question(0);
        group.question_answered(question, group.applied_index());
    }
}
