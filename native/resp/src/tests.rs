//! Conversations by subject: the requests of a client and its replies, however the bytes arrive.

mod ahead;
mod channels;
mod classes;
mod cluster;
mod connection;
mod guests;
mod key_positions;
mod limits;
mod members;
mod names;
mod persistence;
mod range;
mod scripts;
mod server;
mod server_words;
mod slices;
mod store;
mod tracking;
mod transactions;

use super::RespSession;
use crate::testing::FakeHost;
use todana_protocol::testing::{Outcome, converse, converse_in_every_way};
use todana_protocol::{Advance, ProtocolName};

fn host() -> FakeHost {
    FakeHost::new(ProtocolName::Resp)
}

/// Encodes a line of words, some in double quotes, as an array of bulk strings.
fn array(line: &str) -> Vec<u8> {
    let (mut words, mut ranges) = (Vec::new(), Vec::new());
    assert!(super::inline::split(line.as_bytes(), &mut words, &mut ranges), "{line}");
    let mut bytes = format!("*{}\r\n", ranges.len()).into_bytes();
    for (start, end) in ranges {
        bytes.extend_from_slice(format!("${}\r\n", end - start).as_bytes());
        bytes.extend_from_slice(&words[start..end]);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

/// The replies of a session as lines: CR LF is shown as a space, other bytes are escaped.
fn shown(output: &[u8]) -> String {
    let text = output.escape_ascii().to_string().replace("\\r\\n", " ");
    text.replace("\\'", "'").replace("\\\"", "\"").trim_end().to_owned()
}

fn ask(session: &mut impl Advance<FakeHost>, host: &mut FakeHost, line: &str) -> String {
    shown(&converse(session, host, [array(line).as_slice()]).output)
}

/// Plays a script of `> request` and expected replies: in one session line by line, then all at
/// once in every cut of the bytes.
fn script(text: &str) {
    script_on(text, host);
}

fn script_on(text: &str, mut start: impl FnMut() -> FakeHost) {
    let (mut host, mut session) = (start(), RespSession::default());
    let (mut input, mut output) = (Vec::new(), Vec::new());
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).peekable();
    while let Some(line) = lines.next() {
        let request = line.strip_prefix("> ").expect("a request");
        let mut wanted = Vec::new();
        while let Some(more) = lines.next_if(|line| !line.starts_with("> ")) {
            wanted.push(more);
        }
        let request_bytes = array(request);
        let outcome = converse(&mut session, &mut host, [request_bytes.as_slice()]);
        assert_eq!(shown(&outcome.output), wanted.join(" "), "{request}");
        input.extend(request_bytes);
        output.extend(outcome.output);
    }
    let play = || (RespSession::default(), start());
    let outcome = converse_in_every_way(play, &input, |it| it);
    assert_eq!(outcome.output.escape_ascii().to_string(), output.escape_ascii().to_string());
}

/// The outcome of raw bytes, in every cut.
fn raw(input: &[u8]) -> Outcome {
    converse_in_every_way(|| (RespSession::default(), host()), input, |it| it)
}
