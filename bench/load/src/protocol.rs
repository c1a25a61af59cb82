//! Requests and replies of all protocols, written and skipped with as little work as possible.

use memchr::memchr;
use std::io::Write;

/// The protocol to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Resp,
    Memcached,
    /// Kyoto Tycoon's TSV-RPC over HTTP, one record per request.
    Kyoto,
    /// Kyoto Tycoon's binary protocol: a batch is one bulk request.
    KyotoBinary,
}

/// The operation to request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Get,
    Set,
    Delete,
}

/// The kind of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Miss,
    Error,
}

/// Bytes of a key: `key:` and twelve digits.
pub const KEY_BYTES: usize = 16;

/// Writes requests into a buffer. The constant parts are built once.
pub struct Requests {
    before_batch: Vec<u8>,
    before_key: Vec<u8>,
    after_key: Vec<u8>,
    is_bulk: bool,
}

impl Requests {
    /// The request of one protocol and operation.
    pub fn new(
        protocol: Protocol,
        operation: Operation,
        value_bytes: usize,
        ttl_s: u64,
    ) -> Requests {
        let value = vec![b'x'; value_bytes];
        let (mut before_key, mut after_key) = (Vec::new(), Vec::new());
        match (protocol, operation) {
            (Protocol::Resp, Operation::Get) => {
                before_key.extend(b"*2\r\n$3\r\nGET\r\n$16\r\n");
                after_key.extend(b"\r\n");
            }
            (Protocol::Resp, Operation::Set) => {
                let arguments = if ttl_s > 0 { 5 } else { 3 };
                write!(before_key, "*{arguments}\r\n$3\r\nSET\r\n$16\r\n").expect("to memory");
                write!(after_key, "\r\n${value_bytes}\r\n").expect("to memory");
                after_key.extend(&value);
                after_key.extend(b"\r\n");
                if ttl_s > 0 {
                    let digits = ttl_s.to_string();
                    write!(after_key, "$2\r\nEX\r\n${}\r\n{digits}\r\n", digits.len())
                        .expect("to memory");
                }
            }
            (Protocol::Resp, Operation::Delete) => {
                before_key.extend(b"*2\r\n$3\r\nDEL\r\n$16\r\n");
                after_key.extend(b"\r\n");
            }
            (Protocol::Memcached, Operation::Delete) => {
                before_key.extend(b"delete ");
                after_key.extend(b"\r\n");
            }
            (Protocol::Kyoto, operation) => {
                let (name, mut rest) = match operation {
                    Operation::Get => ("get", Vec::new()),
                    Operation::Set => ("set", [b"value\t", &value[..], b"\n"].concat()),
                    Operation::Delete => ("remove", Vec::new()),
                };
                if operation == Operation::Set && ttl_s > 0 {
                    writeln!(rest, "xt\t{ttl_s}").expect("to memory");
                }
                let body_bytes = b"key\t\n".len() + KEY_BYTES + rest.len();
                // The headers that the C++ client sends, in the same order.
                write!(
                    before_key,
                    "POST /rpc/{name} HTTP/1.1\r\nHost: :1978\r\nContent-Length: {body_bytes}\r\n\
                     Content-Type: text/tab-separated-values\r\n\r\nkey\t"
                )
                .expect("to memory");
                after_key.push(b'\n');
                after_key.extend(rest);
            }
            (Protocol::KyotoBinary, operation) => {
                before_key.extend([0, 0, 0, 0, 0, KEY_BYTES as u8]);
                if operation == Operation::Set {
                    let never = i64::MAX as u64;
                    before_key.extend((value.len() as u32).to_be_bytes());
                    before_key.extend(if ttl_s > 0 { ttl_s } else { never }.to_be_bytes());
                    after_key.extend(&value);
                }
            }
            (Protocol::Memcached, Operation::Get) => {
                before_key.extend(b"get ");
                after_key.extend(b"\r\n");
            }
            (Protocol::Memcached, Operation::Set) => {
                before_key.extend(b"set ");
                write!(after_key, " 0 {ttl_s} {value_bytes}\r\n").expect("to memory");
                after_key.extend(&value);
                after_key.extend(b"\r\n");
            }
        }
        let mut before_batch = Vec::new();
        let is_bulk = protocol == Protocol::KyotoBinary;
        if is_bulk {
            let magic = match operation {
                Operation::Set => 0xb8,
                Operation::Delete => 0xb9,
                Operation::Get => 0xba,
            };
            before_batch.extend([magic, 0, 0, 0, 0]);
        }
        Requests { before_batch, before_key, after_key, is_bulk }
    }

    /// Begins a batch of `count` keys. Returns the number of replies it will have.
    pub fn begin(&self, out: &mut Vec<u8>, count: u64) -> usize {
        out.extend_from_slice(&self.before_batch);
        if self.is_bulk {
            out.extend_from_slice(&(count as u32).to_be_bytes());
            return 1;
        }
        count as usize
    }

    /// Appends the request for one key.
    pub fn write(&self, out: &mut Vec<u8>, key: u64) {
        out.extend_from_slice(&self.before_key);
        let mut text = *b"key:000000000000";
        let mut rest = key;
        for digit in text[4..KEY_BYTES].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.extend_from_slice(&text);
        out.extend_from_slice(&self.after_key);
    }
}

/// The first complete reply: its length and its kind. `None` if it is incomplete.
pub fn reply(protocol: Protocol, input: &[u8]) -> Option<(usize, Answer)> {
    match protocol {
        Protocol::Kyoto => return http_reply(input),
        Protocol::KyotoBinary => return binary_reply(input),
        _ => {}
    }
    let end = memchr(b'\n', input)? + 1;
    match (protocol, input[0]) {
        (Protocol::Resp, b'$') if input[1] == b'-' => Some((end, Answer::Miss)),
        (Protocol::Resp, b'$') => with_data(input, end + number(&input[1..end]) + 2, 0),
        (Protocol::Resp, b'+' | b':') => Some((end, Answer::Done)),
        (Protocol::Memcached, b'V') => {
            let length = input[..end - 2].rsplit(|byte| *byte == b' ').next().map_or(0, number);
            with_data(input, end + length + 2, b"END\r\n".len())
        }
        (Protocol::Memcached, b'S') if input.starts_with(b"STORED") => Some((end, Answer::Done)),
        (Protocol::Memcached, b'D') if input.starts_with(b"DELETED") => Some((end, Answer::Done)),
        (Protocol::Memcached, b'N') if input.starts_with(b"NOT_FOUND") => Some((end, Answer::Miss)),
        (Protocol::Memcached, b'E') if input.starts_with(b"END") => Some((end, Answer::Miss)),
        _ => Some((end, Answer::Error)),
    }
}

/// A response with a Content-Length.
fn http_reply(input: &[u8]) -> Option<(usize, Answer)> {
    let head = memchr::memmem::find(input, b"\r\n\r\n")? + 4;
    let length = memchr::memmem::find(&input[..head], b"Content-Length: ")
        .map_or(0, |at| number(&input[at + b"Content-Length: ".len()..head]));
    let answer = match input.get(9..12) {
        Some(b"200") => Answer::Done,
        Some(b"450") => Answer::Miss,
        _ => Answer::Error,
    };
    (input.len() >= head + length).then_some((head + length, answer))
}

/// A frame: the number of records that were stored or removed, or all that were found. Keys that a
/// bulk request missed are not counted.
fn binary_reply(input: &[u8]) -> Option<(usize, Answer)> {
    let word = |at: usize| Some(u32::from_be_bytes(input.get(at..at + 4)?.try_into().ok()?));
    let (magic, count) = match *input.first()? {
        0xbf => return Some((1, Answer::Error)),
        magic => (magic, word(1)?),
    };
    let mut end = 5;
    if magic == 0xba {
        for _ in 0..count {
            let (key, value) = (word(end + 2)?, word(end + 6)?);
            end += 18 + (key + value) as usize;
        }
    }
    let answer = if count == 0 { Answer::Miss } else { Answer::Done };
    (input.len() >= end).then_some((end, answer))
}

fn with_data(input: &[u8], end: usize, trailer: usize) -> Option<(usize, Answer)> {
    (input.len() >= end + trailer).then_some((end + trailer, Answer::Done))
}

fn number(digits: &[u8]) -> usize {
    digits
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |sum, byte| sum * 10 + usize::from(byte - b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(protocol: Protocol, operation: Operation, ttl_s: u64) -> String {
        let mut out = Vec::new();
        Requests::new(protocol, operation, 3, ttl_s).write(&mut out, 42);
        String::from_utf8(out).expect("text")
    }

    #[test]
    fn requests_match_the_protocols() {
        use Operation::{Delete, Get, Set};
        use Protocol::{Kyoto, Memcached, Resp};
        assert_eq!(request(Resp, Get, 0), "*2\r\n$3\r\nGET\r\n$16\r\nkey:000000000042\r\n");
        assert_eq!(
            request(Resp, Set, 0),
            "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000042\r\n$3\r\nxxx\r\n"
        );
        assert_eq!(
            request(Resp, Set, 600),
            "*5\r\n$3\r\nSET\r\n$16\r\nkey:000000000042\r\n$3\r\nxxx\r\n$2\r\nEX\r\n$3\r\n600\r\n"
        );
        assert_eq!(request(Memcached, Get, 0), "get key:000000000042\r\n");
        assert_eq!(request(Memcached, Set, 9), "set key:000000000042 0 9 3\r\nxxx\r\n");
        assert_eq!(request(Memcached, Delete, 0), "delete key:000000000042\r\n");
        assert_eq!(
            request(Kyoto, Set, 0),
            "POST /rpc/set HTTP/1.1\r\nHost: :1978\r\nContent-Length: 31\r\n\
             Content-Type: text/tab-separated-values\r\n\r\nkey\tkey:000000000042\nvalue\txxx\n"
        );
    }

    #[test]
    fn a_batch_of_the_binary_protocol_is_one_frame() {
        let requests = Requests::new(Protocol::KyotoBinary, Operation::Set, 3, 0);
        let mut out = Vec::new();
        assert_eq!(requests.begin(&mut out, 2), 1);
        (0..2).for_each(|key| requests.write(&mut out, key));
        let record = |key: &str| {
            [
                &b"\0\0\0\0\0\x10\0\0\0\x03\x7f\xff\xff\xff\xff\xff\xff\xff"[..],
                key.as_bytes(),
                b"xxx",
            ]
            .concat()
        };
        let (first, second) = (record("key:000000000000"), record("key:000000000001"));
        assert_eq!(out, [&b"\xb8\0\0\0\0\0\0\0\x02"[..], &first, &second].concat());
    }

    #[test]
    fn replies_are_found_only_when_they_are_complete() {
        let cases: [(Protocol, &[u8], Answer); 13] = [
            (Protocol::Resp, b"+OK\r\n", Answer::Done),
            (Protocol::Resp, b"$3\r\na\nb\r\n", Answer::Done),
            (Protocol::Resp, b"$-1\r\n", Answer::Miss),
            (Protocol::Resp, b"-ERR no\r\n", Answer::Error),
            (Protocol::Memcached, b"STORED\r\n", Answer::Done),
            (Protocol::Memcached, b"VALUE k 0 3\r\na\nb\r\nEND\r\n", Answer::Done),
            (Protocol::Memcached, b"END\r\n", Answer::Miss),
            (Protocol::Memcached, b"SERVER_ERROR no\r\n", Answer::Error),
            (
                Protocol::Kyoto,
                b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nvalue\tx\n",
                Answer::Done,
            ),
            (
                Protocol::Kyoto,
                b"HTTP/1.1 450 Logical Inconsistency\r\nContent-Length: 0\r\n\r\n",
                Answer::Miss,
            ),
            (Protocol::KyotoBinary, b"\xb8\0\0\0\x07", Answer::Done),
            (
                Protocol::KyotoBinary,
                b"\xba\0\0\0\x01\0\0\0\0\0\x01\0\0\0\x02\0\0\0\xff\xff\xff\xff\xffkvv",
                Answer::Done,
            ),
            (Protocol::KyotoBinary, b"\xba\0\0\0\0", Answer::Miss),
        ];
        for (protocol, bytes, answer) in cases {
            for cut in 0..bytes.len() {
                assert_eq!(reply(protocol, &bytes[..cut]), None);
            }
            assert_eq!(reply(protocol, &[bytes, b"rest"].concat()), Some((bytes.len(), answer)));
        }
    }
}
