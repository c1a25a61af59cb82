//! The session for each connection, and the messages for clients that get none.

use crate::host::TurnHost;
use todana_kyoto::KyotoSession;
use todana_memcached::MemcachedSession;
use todana_protocol::{Advance, Budget, Progress, ProtocolName, Session};
use todana_resp::RespSession;

/// A kind of session that loops can open for arriving connections.
pub(crate) trait Door: Session + for<'a> Advance<TurnHost<'a>> + Send + 'static {
    /// A session for a new connection.
    fn open(protocol: ProtocolName) -> Self;
}

/// The sessions of all protocols. The larger ones box their state themselves.
#[expect(
    clippy::large_enum_variant,
    reason = "some 200 bytes a connection, one pointer less to follow"
)]
pub(crate) enum ProtocolDoor {
    Resp(RespSession),
    Memcached(MemcachedSession),
    Kyoto(Box<KyotoSession>),
}

impl Door for ProtocolDoor {
    fn open(protocol: ProtocolName) -> ProtocolDoor {
        match protocol {
            ProtocolName::Resp => ProtocolDoor::Resp(RespSession::default()),
            ProtocolName::Memcached => ProtocolDoor::Memcached(MemcachedSession::default()),
            ProtocolName::Kyoto => ProtocolDoor::Kyoto(Box::default()),
        }
    }
}

impl Advance<TurnHost<'_>> for ProtocolDoor {
    #[inline]
    fn advance(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        host: &mut TurnHost<'_>,
        budget: Budget,
    ) -> Progress {
        match self {
            ProtocolDoor::Resp(session) => session.advance(input, output, host, budget),
            ProtocolDoor::Memcached(session) => session.advance(input, output, host, budget),
            ProtocolDoor::Kyoto(session) => session.advance(input, output, host, budget),
        }
    }
}

impl Session for ProtocolDoor {
    #[inline]
    fn held_bytes(&self) -> usize {
        match self {
            ProtocolDoor::Resp(session) => session.held_bytes(),
            ProtocolDoor::Memcached(session) => session.held_bytes(),
            ProtocolDoor::Kyoto(session) => session.held_bytes(),
        }
    }

    fn is_mid_reply(&self) -> bool {
        match self {
            ProtocolDoor::Resp(session) => session.is_mid_reply(),
            ProtocolDoor::Memcached(session) => session.is_mid_reply(),
            ProtocolDoor::Kyoto(session) => session.is_mid_reply(),
        }
    }
}

/// Why the server itself ends a connection with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The maximum number of clients is reached, or the loop cannot watch one more.
    TooManyClients,
    /// The request in progress is longer than the input limit.
    InputTooLong,
    /// All clients together exceed the memory limit, and this one holds most.
    ClientsHoldTooMuch,
}

/// The message that a client of this protocol receives before its connection is closed.
pub(crate) fn words(protocol: ProtocolName, refusal: Refusal) -> &'static [u8] {
    match (protocol, refusal) {
        (ProtocolName::Resp, Refusal::TooManyClients) => b"-ERR max number of clients reached\r\n",
        (ProtocolName::Resp, Refusal::InputTooLong) => {
            b"-ERR Protocol error: too big input buffer\r\n"
        }
        (ProtocolName::Memcached, Refusal::TooManyClients) => {
            b"ERROR Too many open connections\r\n"
        }
        (ProtocolName::Memcached, Refusal::InputTooLong) => b"SERVER_ERROR request too long\r\n",
        (ProtocolName::Resp, Refusal::ClientsHoldTooMuch) => {
            b"-OOM clients take too much memory, and this one takes most\r\n"
        }
        (ProtocolName::Memcached, Refusal::ClientsHoldTooMuch) => {
            b"SERVER_ERROR clients take too much memory, and this one takes most\r\n"
        }
        (ProtocolName::Kyoto, Refusal::ClientsHoldTooMuch) => {
            b"HTTP/1.1 503 Service Unavailable\r\n\
              Connection: close\r\n\
              Content-Length: 55\r\n\
              Content-Type: text/plain\r\n\r\n\
              503 Service Unavailable (clients take too much memory)\n"
        }
        (ProtocolName::Kyoto, Refusal::TooManyClients) => {
            b"HTTP/1.1 503 Service Unavailable\r\n\
              Connection: close\r\n\
              Content-Length: 43\r\n\
              Content-Type: text/plain\r\n\r\n\
              503 Service Unavailable (too many clients)\n"
        }
        (ProtocolName::Kyoto, Refusal::InputTooLong) => {
            b"HTTP/1.1 413 Request Entity Too Large\r\n\
              Connection: close\r\n\
              Content-Length: 56\r\n\
              Content-Type: text/plain\r\n\r\n\
              413 Request Entity Too Large (request entity too large)\n"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_by_http_is_a_whole_response() {
        for refusal in [Refusal::TooManyClients, Refusal::InputTooLong, Refusal::ClientsHoldTooMuch]
        {
            let text = std::str::from_utf8(words(ProtocolName::Kyoto, refusal)).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let lines: Vec<&str> = head.split("\r\n").collect();
            let length = format!("Content-Length: {}", body.len());
            assert_eq!(lines[1..], ["Connection: close", &length, "Content-Type: text/plain"]);
            let status = lines[0].strip_prefix("HTTP/1.1 ").unwrap();
            assert!(body.starts_with(status) && body.ends_with(")\n"), "{text}");
        }
    }
}
