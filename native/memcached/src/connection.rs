//! A connection, whose first byte decides between text and binary.

use super::binary::{BinarySession, REQUEST};
use super::session::TextSession;
use crate::Host;
use todana_protocol::{Advance, Budget, Next, Progress, Session};

/// A memcached connection.
#[derive(Debug, Default)]
pub struct MemcachedSession {
    protocol: Option<Protocol>,
}

#[derive(Debug)]
enum Protocol {
    Text(TextSession),
    Binary(BinarySession),
}

impl<H: Host> Advance<H> for MemcachedSession {
    #[inline]
    fn advance(
        &mut self,
        input: &[u8],
        output: &mut Vec<u8>,
        host: &mut H,
        budget: Budget,
    ) -> Progress {
        if self.protocol.is_none() {
            self.protocol = match input.first() {
                None => return Progress { consumed: 0, next: Next::Read { wanted: 0 } },
                Some(&REQUEST) => Some(Protocol::Binary(BinarySession::default())),
                Some(_) => Some(Protocol::Text(TextSession::default())),
            };
        }
        match &mut self.protocol {
            Some(Protocol::Binary(session)) => session.advance(input, output, host, budget),
            Some(Protocol::Text(session)) => session.advance(input, output, host, budget),
            None => Progress { consumed: 0, next: Next::Read { wanted: 0 } },
        }
    }
}

impl Session for MemcachedSession {
    #[inline]
    fn held_bytes(&self) -> usize {
        match &self.protocol {
            Some(Protocol::Text(session)) => session.held_bytes(),
            Some(Protocol::Binary(_)) | None => 0,
        }
    }

    fn is_mid_reply(&self) -> bool {
        match &self.protocol {
            Some(Protocol::Text(session)) => session.is_mid_reply(),
            Some(Protocol::Binary(_)) | None => false,
        }
    }
}
