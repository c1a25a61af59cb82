//! Tests of whole conversations.

mod authentication;
mod classes;
mod commits;
mod framing;
mod properties;
mod requests;

use super::opcode::OPCODES;
use crate::MemcachedSession;
use crate::testing::FakeHost;
use todana_protocol::ProtocolName;
use todana_protocol::testing::{Outcome, converse, converse_in_every_way};

/// The code of an opcode.
fn code(name: &str) -> u8 {
    OPCODES.iter().find(|opcode| opcode.name == name).expect("an opcode of this name").code
}

/// A request.
#[derive(Clone, Debug)]
struct Sent {
    code: u8,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    opaque: u32,
    cas: u64,
}

fn request(name: &str) -> Sent {
    let (extras, key, value) = (Vec::new(), Vec::new(), Vec::new());
    Sent { code: code(name), extras, key, value, opaque: 0, cas: 0 }
}

impl Sent {
    fn key(self, key: impl AsRef<[u8]>) -> Sent {
        Sent { key: key.as_ref().to_vec(), ..self }
    }

    fn value(self, value: impl AsRef<[u8]>) -> Sent {
        Sent { value: value.as_ref().to_vec(), ..self }
    }

    fn u32(mut self, number: u32) -> Sent {
        self.extras.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn u64(mut self, number: u64) -> Sent {
        self.extras.extend_from_slice(&number.to_be_bytes());
        self
    }

    fn opaque(self, opaque: u32) -> Sent {
        Sent { opaque, ..self }
    }

    fn cas(self, cas: u64) -> Sent {
        Sent { cas, ..self }
    }

    fn bytes(&self) -> Vec<u8> {
        let body = self.extras.len() + self.key.len() + self.value.len();
        let mut bytes = vec![0x80, self.code];
        bytes.extend_from_slice(&u16::try_from(self.key.len()).unwrap().to_be_bytes());
        bytes.extend_from_slice(&[u8::try_from(self.extras.len()).unwrap(), 0, 0, 0]);
        bytes.extend_from_slice(&u32::try_from(body).unwrap().to_be_bytes());
        bytes.extend_from_slice(&self.opaque.to_be_bytes());
        bytes.extend_from_slice(&self.cas.to_be_bytes());
        [bytes, self.extras.clone(), self.key.clone(), self.value.clone()].concat()
    }
}

fn set(key: &str, value: &str) -> Sent {
    request("set").key(key).value(value).u32(0).u32(0)
}

fn get(key: &str) -> Sent {
    request("get").key(key)
}

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Received {
    code: u8,
    status: u16,
    extras: Vec<u8>,
    key: Vec<u8>,
    value: Vec<u8>,
    opaque: u32,
    cas: u64,
}

impl Received {
    fn text(&self) -> String {
        let Received { status, key, value, .. } = self;
        let key = if key.is_empty() { String::new() } else { format!("{} ", key.escape_ascii()) };
        format!("{status:#04x} {key}{}", value.escape_ascii())
    }
}

/// Splits output into responses.
fn responses(mut output: &[u8]) -> Vec<Received> {
    let mut responses = Vec::new();
    let number = |bytes: &[u8]| bytes.iter().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
    while !output.is_empty() {
        let (head, rest) = output.split_at(24);
        assert_eq!((head[0], head[5]), (0x81, 0), "magic and data type");
        let (key, extras) = (number(&head[2..4]) as usize, usize::from(head[4]));
        let (body, rest) = rest.split_at(number(&head[8..12]) as usize);
        responses.push(Received {
            code: head[1],
            status: number(&head[6..8]) as u16,
            extras: body[..extras].to_vec(),
            key: body[extras..extras + key].to_vec(),
            value: body[extras + key..].to_vec(),
            opaque: number(&head[12..16]) as u32,
            cas: number(&head[16..24]),
        });
        output = rest;
    }
    responses
}

/// A session and its host.
struct Conversation {
    session: MemcachedSession,
    host: FakeHost,
    /// Input that the session has not consumed.
    waiting: Vec<u8>,
}

impl Conversation {
    fn new() -> Conversation {
        let host = FakeHost::new(ProtocolName::Memcached);
        Conversation { session: MemcachedSession::default(), host, waiting: Vec::new() }
    }

    fn send(&mut self, input: &[u8]) -> Outcome {
        self.waiting.extend_from_slice(input);
        let outcome = converse(&mut self.session, &mut self.host, [self.waiting.as_slice()]);
        self.waiting.drain(..self.waiting.len() - outcome.left);
        outcome
    }

    /// Sends a request, and returns the only response.
    fn ask(&mut self, request: &Sent) -> Received {
        let outcome = self.send(&request.bytes());
        let [response] = responses(&outcome.output).try_into().expect("one response");
        response
    }

    /// Status, key and value of each response, and `closed` if the connection closed.
    fn texts(&mut self, requests: &[Sent]) -> Vec<String> {
        let input: Vec<u8> = requests.iter().flat_map(Sent::bytes).collect();
        let outcome = self.send(&input);
        let mut texts: Vec<String> =
            responses(&outcome.output).iter().map(Received::text).collect();
        if outcome.closed {
            texts.push("closed".into());
        }
        texts
    }
}

/// Plays requests in one piece and cut at every offset, with databases of each kind, and returns
/// the texts of the responses.
fn in_every_way(requests: &[Sent]) -> Vec<String> {
    let input: Vec<u8> = requests.iter().flat_map(Sent::bytes).collect();
    let start = || (MemcachedSession::default(), FakeHost::new(ProtocolName::Memcached));
    let hide_tokens = |mut outcome: Outcome| {
        let mut at = 0;
        while at < outcome.output.len() {
            let body: [u8; 4] = outcome.output[at + 8..at + 12].try_into().unwrap();
            outcome.output[at + 16..at + 24].fill(0);
            at += 24 + u32::from_be_bytes(body) as usize;
        }
        outcome
    };
    let outcome = converse_in_every_way(start, &input, hide_tokens);
    let mut texts: Vec<String> = responses(&outcome.output).iter().map(Received::text).collect();
    if outcome.closed {
        texts.push("closed".into());
    }
    texts
}
