//! Recorded conversations with memcached: the replies must be the same, however the input is cut.

use super::{Conversation, MemcachedSession};
use crate::testing::FakeHost;
use todana_protocol::ProtocolName;
use todana_protocol::testing::converse_in_every_way;

const TRANSCRIPT: &str = include_str!("../../transcripts/memcached.txt");

/// Longer conversations are replayed in one piece only.
const CUT_BYTES_MAX: usize = 8 << 10;

struct Exchange {
    request: String,
    answer: String,
}

fn conversations() -> Vec<(&'static str, Vec<Exchange>)> {
    let mut conversations: Vec<(&str, Vec<Exchange>)> = Vec::new();
    for line in TRANSCRIPT.lines() {
        let last = conversations.last_mut();
        match (line.get(..2), line.get(2..), last) {
            (Some("##"), Some(title), _) => conversations.push((title.trim(), Vec::new())),
            (Some("> "), Some(request), Some((_, exchanges))) => {
                let (request, answer) = (request.to_owned(), String::new());
                exchanges.push(Exchange { request, answer });
            }
            // Our own reply, if there is one, follows memcached's.
            (Some("< " | "~ "), Some(answer), Some((_, exchanges))) => {
                exchanges.last_mut().expect("a request before its answer").answer =
                    answer.to_owned();
            }
            _ => {}
        }
    }
    conversations
}

#[test]
fn answers_are_those_of_memcached() {
    let mut failures = Vec::new();
    for (title, exchanges) in conversations() {
        let mut conversation = Conversation::new();
        let mut token = "0".to_owned();
        let mut closed = false;
        for Exchange { request, answer } in &exchanges {
            let mut output = Vec::new();
            if !closed {
                let outcome = conversation.send(expand(&request.replace("{cas}", &token)));
                output = outcome.output;
                closed = outcome.closed;
            }
            if let Some(newest) = tokens(&output).pop() {
                token = newest;
            }
            let mut got = with_tokens_hidden(&output);
            if closed {
                got.extend_from_slice(b"closed");
            }
            if got != expand(answer) {
                let got = got.escape_ascii();
                failures.push(format!("{title}: {request}\n  want {answer}\n  got  {got}"));
            }
        }
    }
    assert!(failures.is_empty(), "{} differences:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn answers_do_not_depend_on_how_the_input_is_cut() {
    for (_, exchanges) in conversations() {
        let mut conversation = Conversation::new();
        let (mut input, mut token) = (Vec::new(), "0".to_owned());
        for exchange in &exchanges {
            let request = expand(&exchange.request.replace("{cas}", &token));
            let output = conversation.send(&request).output;
            input.extend_from_slice(&request);
            if let Some(newest) = tokens(&output).pop() {
                token = newest;
            }
        }
        if input.len() > CUT_BYTES_MAX {
            continue;
        }
        let start = || (MemcachedSession::default(), FakeHost::new(ProtocolName::Memcached));
        converse_in_every_way(start, &input, |outcome| outcome);
    }
}

/// The bytes that a line of the transcript describes: `{x*3}` is `xxx`, escapes are as in Rust.
fn expand(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        rest = &rest[character.len_utf8()..];
        match character {
            '{' => {
                let (inner, after) = rest.split_once('}').expect("a closed brace");
                let (unit, times) = inner.rsplit_once('*').expect("a star in braces");
                bytes.extend(unit.repeat(times.parse().expect("a number")).bytes());
                rest = after;
            }
            '\\' => {
                let escape = rest.as_bytes()[0];
                rest = &rest[1..];
                bytes.push(match escape {
                    b'r' => b'\r',
                    b'n' => b'\n',
                    b't' => b'\t',
                    b'x' => {
                        let (digits, after) = rest.split_at(2);
                        rest = after;
                        u8::from_str_radix(digits, 16).expect("two digits")
                    }
                    other => other,
                });
            }
            _ => bytes.push(character as u8),
        }
    }
    bytes
}

/// The CAS tokens in an answer.
fn tokens(answer: &[u8]) -> Vec<String> {
    let mut tokens = Vec::new();
    each_word(answer, |word| {
        tokens.extend(word.token.filter(|&token| token != b"0").map(text));
        Vec::new()
    });
    tokens
}

/// A reply with `#` for CAS tokens and `%` for sizes of entries.
fn with_tokens_hidden(answer: &[u8]) -> Vec<u8> {
    each_word(answer, |word| match word.token {
        Some(token) => {
            let mut hidden = word.bytes[..word.bytes.len() - token.len()].to_vec();
            hidden.push(b'#');
            hidden
        }
        None if word.bytes.starts_with(b"size=") => b"size=%".to_vec(),
        None => word.bytes.to_vec(),
    })
}

struct Word<'a> {
    bytes: &'a [u8],
    /// The CAS token in it.
    token: Option<&'a [u8]>,
}

/// Rebuilds a reply word by word.
fn each_word(answer: &[u8], mut change: impl FnMut(Word<'_>) -> Vec<u8>) -> Vec<u8> {
    let mut rebuilt = Vec::new();
    for (at, line) in answer.split(|&byte| byte == b'\n').enumerate() {
        if at > 0 {
            rebuilt.push(b'\n');
        }
        let (line, end) = match line.strip_suffix(b"\r") {
            Some(line) => (line, b"\r".as_slice()),
            None => (line, b"".as_slice()),
        };
        let mut code: &[u8] = b"";
        for (index, bytes) in line.split(|&byte| byte == b' ').enumerate() {
            if index == 0 {
                code = bytes;
            } else {
                rebuilt.push(b' ');
            }
            let token = match code {
                _ if index == 0 => None,
                b"VALUE" if index == 4 => Some(bytes),
                b"ME" => bytes.strip_prefix(b"cas="),
                b"HD" | b"VA" | b"EN" | b"NS" | b"EX" | b"NF" => {
                    bytes.strip_prefix(b"c").filter(|digits| digits.iter().all(u8::is_ascii_digit))
                }
                _ => None,
            };
            rebuilt.extend(change(Word { bytes, token }));
        }
        rebuilt.extend_from_slice(end);
    }
    rebuilt
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
