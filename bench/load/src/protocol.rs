//! Requests and replies of both protocols: written and skipped with as little work as possible.

use memchr::memchr;
use std::io::Write;

/// Which words are spoken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Resp,
    Memcached,
}

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Get,
    Set,
}

/// What a reply was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Done,
    Miss,
    Error,
}

/// Bytes of a key: `key:` and twelve digits.
pub const KEY_BYTES: usize = 16;

/// Writes requests into a buffer. The parts that never change are made once.
pub struct Requests {
    before_key: Vec<u8>,
    after_key: Vec<u8>,
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
        Requests { before_key, after_key }
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

/// The first complete reply: its length and what it was. `None` if it is not there yet.
pub fn reply(protocol: Protocol, input: &[u8]) -> Option<(usize, Answer)> {
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
        (Protocol::Memcached, b'E') if input.starts_with(b"END") => Some((end, Answer::Miss)),
        _ => Some((end, Answer::Error)),
    }
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
    fn requests_are_what_the_protocols_say() {
        use Operation::{Get, Set};
        use Protocol::{Memcached, Resp};
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
    }

    #[test]
    fn replies_are_found_only_when_they_are_whole() {
        let cases: [(Protocol, &[u8], Answer); 8] = [
            (Protocol::Resp, b"+OK\r\n", Answer::Done),
            (Protocol::Resp, b"$3\r\na\nb\r\n", Answer::Done),
            (Protocol::Resp, b"$-1\r\n", Answer::Miss),
            (Protocol::Resp, b"-ERR no\r\n", Answer::Error),
            (Protocol::Memcached, b"STORED\r\n", Answer::Done),
            (Protocol::Memcached, b"VALUE k 0 3\r\na\nb\r\nEND\r\n", Answer::Done),
            (Protocol::Memcached, b"END\r\n", Answer::Miss),
            (Protocol::Memcached, b"SERVER_ERROR no\r\n", Answer::Error),
        ];
        for (protocol, bytes, answer) in cases {
            for cut in 0..bytes.len() {
                assert_eq!(reply(protocol, &bytes[..cut]), None);
            }
            assert_eq!(reply(protocol, &[bytes, b"rest"].concat()), Some((bytes.len(), answer)));
        }
    }
}
